//! Exposes regions to peers, and reports what becomes of each message.

mod admit;
mod events;
mod receives;
mod sends;

use super::address::{RdmaAddress, RegionSpec, rights_text};
use super::driver::{Attempt, Driver, DriverOptions, HANDSHAKE, profile};
use super::kernel::Target;
use super::message::ServedMessage;
use super::report::{ConnectionReport, PlacementTier, RdmaServeReport, RegionReport, VerifyReport};
use super::verify::{Turns, Writers};
use crate::report::VERSION;
use crate::stop::StopFlag;
use receives::Receives;
pub use receives::TakeSends;
use skyhaul_core::hint::Hint;
use skyhaul_core::placement::Nanos;
use skyhaul_core::rdma::{MemorySlice, RdmaConfig, RegionRights};
use skyhaul_core::wire::rdma::RdmaProfile;
use skyhaul_io::fault::Faults;
use skyhaul_io::host::thread;
use skyhaul_io::memory::remote::RemoteMemory;
use skyhaul_io::wake::Wake;
use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Time for peers to confirm that a connection is closed.
const CLOSING: Nanos = Nanos::SECOND;
/// Longest wait of a turn.
const TURN: Duration = Duration::from_millis(20);
/// The same where the kernel places, or nothing comes, if somebody looks at what is there meanwhile.
const LONG_TURN: Duration = Duration::from_secs(1);
/// The same if nobody does: what comes, and what is due, ends the wait. A signal that came just before it is seen after it.
const LONGEST_TURN: Duration = Duration::from_secs(10);
/// Datagrams of a peer that are told apart: many may have been placed before an older one that went up is read.
const DATAGRAMS: usize = 1 << 20;
/// Buffers of a connection that are posted at a time, and operations, at most.
const QUEUE: usize = 4096;
/// Bytes handed out in a turn, before the socket is read again.
const TURN_BYTES: u64 = 512 << 10;
const PROGRESS_INTERVAL: Duration = Duration::from_secs(1);
/// The longest datagram a server takes: its peers choose.
const MAX_DATAGRAM_BYTES: u16 = 65_507;

/// How to serve.
#[derive(Clone, Debug)]
pub struct ServeOptions {
    /// Where; port 0 is any.
    pub listen: RdmaAddress,
    /// What.
    pub regions: Vec<RegionSpec>,
    /// End after this time.
    pub duration: Option<Duration>,
    /// End when so many connections were accepted and have ended.
    pub connections: Option<u64>,
    /// Take Sends; `None`: they are refused.
    pub sends: Option<TakeSends>,
    /// Compare memory with the pattern of each message ([`WriteSource::Pattern`](super::WriteSource::Pattern)).
    pub verify: bool,
    /// On what arrives.
    pub faults: Option<Faults>,
    /// Longest datagram of answers to Reads, if the path carries less than its peers ask for.
    pub datagram_bytes: Option<u16>,
    /// Whether to ask for a CRC on every datagram or frame; `None`: on frames over TCP.
    pub crc: Option<bool>,
    /// Who places Writes.
    pub tier: PlacementTier,
}

/// How far a server is, for a line of progress.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct ServeProgress {
    /// Wall seconds.
    pub seconds: f64,
    /// Connections that are open.
    pub open: usize,
    /// Bits of Writes per second since the last one.
    pub bits_per_second: f64,
    /// Messages so far: complete, arrived in part, lost whole.
    pub messages: [u64; 3],
    /// Bytes sent in answers so far.
    pub sent_bytes: u64,
}

impl ServeOptions {
    /// Serve these regions until told to stop; this process places.
    #[must_use]
    pub fn new(listen: RdmaAddress, regions: Vec<RegionSpec>) -> ServeOptions {
        ServeOptions {
            listen,
            regions,
            duration: None,
            connections: None,
            sends: None,
            verify: false,
            faults: None,
            datagram_bytes: None,
            crc: None,
            tier: PlacementTier::Stage,
        }
    }
}

#[derive(Debug)]
struct Region {
    spec: RegionSpec,
    stag: u32,
    memory: u32,
    /// Where it begins in the memory of the kernel's programs.
    start: Option<u64>,
    writers: Option<Writers>,
    /// A peer has ended it.
    is_invalid: bool,
}

impl Region {
    /// What a program in the kernel needs to know of it, if that may write it.
    fn target(&self) -> Option<Target> {
        let RegionSpec { bytes: length, rights, .. } = self.spec;
        let (stag, memory) = (self.stag, self.memory);
        // A program would not know that the region has ended.
        self.start.filter(|_| rights.write && !rights.invalidate).map(|start| Target {
            stag,
            memory,
            start,
            length,
        })
    }
}

/// A peer that is accepted when its program is loaded.
#[derive(Debug)]
struct Applicant {
    connection: u32,
    peer: SocketAddr,
    region: usize,
    since: Instant,
}

/// A server that is bound: peers may connect.
pub struct RdmaServer {
    driver: Driver,
    options: ServeOptions,
    regions: Vec<Region>,
    /// The number in the report of each open connection.
    numbers: BTreeMap<u32, u64>,
    open: BTreeMap<u32, ConnectionReport>,
    applicants: Vec<Applicant>,
    accepted: u64,
    ended: u64,
    /// Immediate data that were a message of their own.
    immediates_alone: u64,
    report: RdmaServeReport,
    /// What became of each message since the list was last taken.
    messages: Option<VecDeque<ServedMessage>>,
    wake: Arc<Wake>,
    receives: Option<Receives>,
    /// When what was noted of memory, for `--verify`.
    turns: Turns,
}

impl std::fmt::Debug for RdmaServer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RdmaServer").field("local", &self.driver.local()).finish_non_exhaustive()
    }
}

impl RdmaServer {
    /// Binds, and makes the memory of the regions.
    ///
    /// # Errors
    /// No region is given, two have one name, messages cannot be kept, there is too little memory, or a system call failed.
    pub fn open(options: ServeOptions) -> io::Result<RdmaServer> {
        let driving = driving(&options)?;
        let mut driver = Driver::open(&driving)?;
        if options.tier == PlacementTier::Bpf {
            driver.must_place()?;
        }
        let wake = Arc::new(Wake::new()?);
        driver.wake_by(wake.clone());
        let mut regions: Vec<Region> = Vec::new();
        for spec in &options.regions {
            if regions.iter().any(|region| region.spec.name == spec.name) {
                return Err(wrong(format!("two regions are named {}", spec.name)));
            }
            let (memory, start) = driver.add_region(spec.bytes)?;
            let slice = MemorySlice { memory, start: 0, length: spec.bytes };
            // Nobody may use it who has not named it: a guessed STag is of no use.
            let stag = driver
                .with(|endpoint, context| endpoint.register(slice, RegionRights::default(), context))
                .map_err(|why| io::Error::other(format!("register {}: {}", spec.name, why.name())))?;
            let writers = options.verify.then(Writers::default);
            regions.push(Region { spec: spec.clone(), stag, memory, start, writers, is_invalid: false });
        }
        if options.verify {
            driver.list_places();
        }
        let receives = options.sends.as_ref().map(|sends| Receives::open(sends, &wake)).transpose()?;
        let (tier, mode) = driver.describe();
        let report = RdmaServeReport {
            version: VERSION,
            listen: RdmaAddress { endpoint: options.listen.endpoint.at(driver.local()), region: None }
                .to_string(),
            profile: driving.config.profile.name().to_owned(),
            tier,
            mode,
            regions: regions.iter().map(|region| region_report(&region.spec)).collect(),
            verify: options.verify.then(VerifyReport::default),
            ..RdmaServeReport::default()
        };
        let (numbers, open, messages, applicants) = (BTreeMap::new(), BTreeMap::new(), None, Vec::new());
        let (accepted, ended, immediates_alone) = (0, 0, 0);
        Ok(RdmaServer {
            driver,
            options,
            regions,
            numbers,
            open,
            applicants,
            accepted,
            ended,
            immediates_alone,
            report,
            messages,
            wake,
            receives,
            turns: Turns::default(),
        })
    }

    /// Ends the sleep of a server to which nothing comes.
    pub(super) fn wake(&self) -> Arc<Wake> {
        self.wake.clone()
    }

    /// Its address, with the port that the system chose.
    #[must_use]
    pub fn local(&self) -> SocketAddr {
        self.driver.local()
    }

    /// The same, as its peers write it, with this region.
    #[must_use]
    pub fn address(&self, region: Option<&str>) -> RdmaAddress {
        let endpoint = self.options.listen.endpoint.at(self.local());
        RdmaAddress { endpoint, region: region.map(str::to_owned) }
    }

    /// Copies bytes of a region, which peers may write meanwhile.
    ///
    /// # Panics
    /// There is no such region, or the bytes do not lie within it.
    pub fn copy(&self, region: &str, at: u64, to: &mut [u8]) {
        self.memory(region).copy(at, to);
    }

    /// Puts bytes into a region, for peers to read.
    ///
    /// # Panics
    /// There is no such region, or the bytes do not lie within it.
    pub fn place(&self, region: &str, at: u64, bytes: &[u8]) {
        self.memory(region).place(at, bytes);
    }

    /// Its regions and their memory, in the order of the options.
    pub(super) fn shared(&self) -> Vec<(RegionSpec, Arc<RemoteMemory>)> {
        let memory =
            |region: &Region| Some((region.spec.clone(), self.driver.memory(region.memory)?.clone()));
        self.regions.iter().filter_map(memory).collect()
    }

    /// The memory of a region. It outlives the server.
    #[must_use]
    pub fn region_memory(&self, region: &str) -> Option<Arc<RemoteMemory>> {
        let own = self.regions.iter().find(|own| own.spec.name == region)?;
        self.driver.memory(own.memory).cloned()
    }

    /// Keep a list of messages that end from now on; returns the one since the last call.
    pub(super) fn list_messages(&mut self) -> VecDeque<ServedMessage> {
        self.messages.replace(VecDeque::new()).unwrap_or_default()
    }

    fn memory(&self, region: &str) -> &RemoteMemory {
        let named = self.regions.iter().find(|one| one.spec.name == region);
        named
            .and_then(|region| self.driver.memory(region.memory).map(|memory| &**memory))
            .unwrap_or_else(|| panic!("there is no region {region:?}"))
    }

    /// Serves until `stop`, the time that was asked for, or the end of the last connection that was asked for. Then closes the
    /// connections.
    ///
    /// # Errors
    /// The socket fails, or the sums of the report are wrong.
    pub fn run(
        &mut self,
        stop: &StopFlag,
        progress: Option<&mut dyn FnMut(&ServeProgress)>,
    ) -> io::Result<RdmaServeReport> {
        self.run_with(stop, progress, &mut |_| {})
    }

    /// The same; `each` is called after each turn.
    pub(super) fn run_with(
        &mut self,
        stop: &StopFlag,
        mut progress: Option<&mut dyn FnMut(&ServeProgress)>,
        each: &mut dyn FnMut(&mut RdmaServer),
    ) -> io::Result<RdmaServeReport> {
        let (began, cpu, before) = (Instant::now(), thread::cpu_time(), thread::own_usage());
        stop.wakes(&self.wake);
        let mut shown = (began, 0);
        loop {
            let left = self.options.duration.map(|duration| duration.saturating_sub(began.elapsed()));
            let is_last = self.options.connections.is_some_and(|most| self.ended >= most);
            if stop.is_set() || is_last || left == Some(Duration::ZERO) {
                break;
            }
            let turn = self.longest_wait(progress.as_ref().map(|_| shown.0.elapsed()));
            self.turn(left.map_or(turn, |left| left.min(turn)))?;
            self.report.seconds = began.elapsed().as_secs_f64();
            self.report.cpu_seconds = (thread::cpu_time() - cpu).as_secs_f64();
            each(self);
            if let Some(progress) = progress.as_mut()
                && shown.0.elapsed() >= PROGRESS_INTERVAL
            {
                let bytes = self.driver.endpoint.counts().placed_bytes;
                let bits = (bytes - shown.1) as f64 * 8.0 / shown.0.elapsed().as_secs_f64();
                shown = (Instant::now(), bytes);
                progress(&self.progress(began, bits));
            }
        }
        self.close()?;
        self.end_receives();
        self.report.seconds = began.elapsed().as_secs_f64();
        self.report.cpu_seconds = (thread::cpu_time() - cpu).as_secs_f64();
        let now = thread::own_usage();
        self.report.voluntary_switches = now.voluntary_switches - before.voluntary_switches;
        self.report.involuntary_switches = now.involuntary_switches - before.involuntary_switches;
        self.finish()
    }

    /// How long a turn may wait if nothing comes and no timer is due; `shown`: the time since progress was shown, if it is.
    pub(super) fn longest_wait(&self, shown: Option<Duration>) -> Duration {
        if !self.driver.may_sleep() || !self.applicants.is_empty() {
            return TURN;
        }
        // Frames that do not become whole, and idle streams, have times of their own.
        let has_reader = self.messages.is_some() || self.options.verify || self.driver.is_stream();
        let most = if has_reader { LONG_TURN } else { LONGEST_TURN };
        shown.map_or(most, |shown| most.min(PROGRESS_INTERVAL.saturating_sub(shown)))
    }

    /// Whether nobody is connected.
    #[cfg(test)]
    pub(super) fn is_empty(&self) -> bool {
        self.open.is_empty()
    }

    fn progress(&self, began: Instant, bits_per_second: f64) -> ServeProgress {
        let counts = self.driver.endpoint.counts();
        ServeProgress {
            seconds: began.elapsed().as_secs_f64(),
            open: self.open.len(),
            bits_per_second,
            messages: [counts.complete, counts.incomplete, counts.lost],
            sent_bytes: self.driver.sent_bytes(),
        }
    }

    pub(super) fn turn(&mut self, wait: Duration) -> io::Result<()> {
        // What waits to be sent does not wait for what arrives.
        let is_sending = self.driver.send(TURN_BYTES) >= TURN_BYTES;
        self.driver.receive(if is_sending { Duration::ZERO } else { wait })?;
        self.note_places();
        while let Some(event) = self.driver.endpoint.poll_event() {
            self.take(event)?;
        }
        self.take_back();
        self.admit()?;
        self.driver.send(TURN_BYTES);
        Ok(())
    }

    /// Close all connections, and wait until their peers have confirmed it, or a second.
    fn close(&mut self) -> io::Result<()> {
        self.driver.end_all_placing()?;
        self.note_places();
        let deadline = Nanos(self.driver.now().0 + CLOSING.0);
        for id in self.open.keys().copied().collect::<Vec<_>>() {
            // One that its peer has closed meanwhile ends by itself.
            let _ = self.driver.endpoint.close(id, deadline);
        }
        while self.driver.endpoint.connections() > 0 && self.driver.now() <= Nanos(deadline.0 + CLOSING.0) {
            self.turn(TURN)?;
        }
        self.turn(Duration::ZERO)
    }

    /// The report as it is now.
    ///
    /// # Errors
    /// Its sums are wrong.
    pub(super) fn finish(&mut self) -> io::Result<RdmaServeReport> {
        let mut report = self.report.clone();
        report.datagrams = self.driver.ledger()?;
        report.placing = if self.options.tier == PlacementTier::Stage {
            "stage: asked for".to_owned()
        } else if self.options.faults.is_some() {
            "stage: faults are injected into what this process reads".to_owned()
        } else if self.driver.is_stream() {
            self.driver.placing()
        } else if self.options.crc == Some(true) {
            "stage: the program in the kernel computes no CRC".to_owned()
        } else {
            self.driver.placing()
        };
        let counts = self.driver.endpoint.counts();
        report.read_requests = {
            let others = report.complete + report.received + self.immediates_alone;
            counts.complete.saturating_sub(others)
        };
        let incomplete = report.incomplete + report.received_incomplete;
        let listed: u64 = report.losses.iter().map(|loss| loss.messages.1 - loss.messages.0).sum();
        let sums = [
            (
                "complete messages",
                counts.complete,
                report.complete + report.received + report.read_requests + self.immediates_alone,
            ),
            ("incomplete messages", counts.incomplete, incomplete),
            ("lost messages", counts.lost, report.lost),
            ("losses", incomplete + report.lost, listed + report.losses_not_listed),
        ];
        if let Some((what, one, other)) = sums.into_iter().find(|(_, one, other)| one != other) {
            return Err(io::Error::other(format!("the counts of {what} differ: {one} and {other}")));
        }
        Ok(report)
    }
}

/// How to open its driver, if the options make sense.
fn driving(options: &ServeOptions) -> io::Result<DriverOptions> {
    let wants_kernel = check(options)?;
    let config = RdmaConfig {
        profile: profile(&options.listen.endpoint),
        datagram_bytes: options.datagram_bytes.unwrap_or(MAX_DATAGRAM_BYTES),
        max_message_bytes: u64::from(u32::MAX),
        crc: options.crc,
        datagrams: DATAGRAMS,
        queue: QUEUE,
        ..RdmaConfig::default()
    };
    Ok(DriverOptions {
        listen: Some(options.listen.endpoint.clone()),
        peer: None,
        config,
        attempt: Attempt::new(&StopFlag::default(), HANDSHAKE),
        arriving: options.faults,
        leaving: None,
        // Answers to Reads must not wait for more to arrive.
        gather: Duration::ZERO,
        place: wants_kernel.then(|| options.regions.iter().map(|spec| spec.bytes).collect()),
    })
}

fn region_report(spec: &RegionSpec) -> RegionReport {
    RegionReport { name: spec.name.clone(), bytes: spec.bytes, rights: rights_text(spec.rights) }
}

fn wrong(text: String) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, text)
}

/// Whether the kernel is to place, if the options make sense.
fn check(options: &ServeOptions) -> io::Result<bool> {
    if options.listen.region.is_some() {
        return Err(wrong("--listen names no region: give it with --region NAME:SIZE:RIGHTS".to_owned()));
    }
    if options.regions.is_empty() {
        return Err(wrong("there is no region: give one with --region NAME:SIZE:RIGHTS".to_owned()));
    }
    if profile(&options.listen.endpoint) == RdmaProfile::Tcp {
        if options.tier == PlacementTier::Bpf {
            let hint = Hint("use rdma+udp://, or leave out --tier bpf");
            return Err(wrong(format!("--tier bpf: the kernel places datagrams, and TCP is a stream{hint}")));
        }
        return Ok(false);
    }
    let may_place = options.faults.is_none() && options.crc != Some(true);
    if options.tier == PlacementTier::Bpf && !may_place {
        let hint = Hint("leave out --tier bpf");
        return Err(wrong(format!("the kernel places neither what has a CRC nor with --faults{hint}")));
    }
    Ok(options.tier != PlacementTier::Stage && may_place)
}
