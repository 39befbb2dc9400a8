//! Sends the packets of a [`Supply`], each made from its number alone, in the caller's thread.

use super::clock::{OwnPace, Pacing, Real, Schedule, SendControl, SendStats, SentTimes};
use super::engine::{Limits, Next, SendEngine, Source};
use super::outlet::{Outlet, SendError};
use super::report::SendReport;
use super::{HEAD, Packetize};
use skyhaul_core::hint::Hint;
use skyhaul_core::placement::Nanos;
use skyhaul_core::wire::{
    FAMILIES, Format, Generated, Made, Numbering, Order, PREFIX, PositionsError, SynthPayload,
};
use skyhaul_io::address::{Endpoint, Transport};
use skyhaul_io::fault::Faults;
use skyhaul_io::gathered::Extent;
use skyhaul_io::host;
use skyhaul_io::lock::lock;
use skyhaul_io::tcp::TcpSendOptions;
use skyhaul_io::udp::send::{SendMode, SendOptions, Sent, TRAIN_BYTES, TRAIN_PACKETS};
use std::io;
use std::io::IoSlice;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

/// Where to, and how.
#[derive(Clone, Debug)]
pub struct SenderOptions {
    /// The receiver.
    pub to: Endpoint,
    /// How packets are handed to the kernel.
    pub mode: SendMode,
    /// The rate of datagram payload.
    pub pacing: Pacing,
    /// Faults to inject.
    pub faults: Option<Faults>,
    /// Stop after this many packets of the supply.
    pub packets: Option<u64>,
    /// Stop after this long.
    pub duration: Option<Duration>,
    /// CPU for the thread.
    pub cpu: Option<usize>,
}

impl SenderOptions {
    /// To this receiver: as fast as possible (recorded frames at their own pace), without faults, until the supply ends.
    #[must_use]
    pub fn new(to: Endpoint) -> Self {
        let (mode, pacing) = (SendMode::default(), Pacing::default());
        Self { to, mode, pacing, faults: None, packets: None, duration: None, cpu: None }
    }
}

/// A sender at work.
pub trait Sending: Send + Sync {
    /// Bytes of packets sent so far.
    fn bytes(&self) -> u64;
    /// End at once what is in progress, also where a peer accepts nothing.
    fn cancel(&self);
    /// How long it still waits for a gap in the data that it sends.
    fn gap_left(&self) -> Option<Duration> {
        None
    }
}

/// Ends senders from outside, and gives their progress. Several senders may share one.
#[derive(Clone, Default)]
pub struct Stop {
    flag: Arc<AtomicBool>,
    senders: Arc<Mutex<Vec<Arc<dyn Sending>>>>,
}

impl std::fmt::Debug for Stop {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Stop").field("flag", &self.flag).finish_non_exhaustive()
    }
}

impl Stop {
    /// Add a sender.
    pub fn add(&self, sender: Arc<dyn Sending>) {
        self.senders().push(sender);
    }

    /// End after the current packets.
    pub fn stop(&self) {
        self.flag.store(true, Ordering::Relaxed);
    }

    /// Whether senders are to end.
    #[must_use]
    pub fn is_set(&self) -> bool {
        self.flag.load(Ordering::Relaxed)
    }

    /// End at once. What is in progress is lost.
    pub fn cancel(&self) {
        self.stop();
        self.senders().iter().for_each(|sender| sender.cancel());
    }

    /// How long the sender that waits longest still waits for a gap in its data.
    #[must_use]
    pub fn gap_left(&self) -> Option<Duration> {
        self.senders().iter().filter_map(|sender| sender.gap_left()).max()
    }

    /// Bytes sent so far.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.senders().iter().map(|sender| sender.bytes()).sum()
    }

    fn senders(&self) -> MutexGuard<'_, Vec<Arc<dyn Sending>>> {
        lock(&self.senders)
    }
}

/// What other threads reach of a [`Sender`].
struct Working {
    control: SendControl,
    begun: Instant,
    /// Ends a connection's wait.
    wait: Option<Arc<AtomicBool>>,
}

impl Sending for Working {
    fn gap_left(&self) -> Option<Duration> {
        let resumes = Duration::from_nanos(self.control.resumes.load(Ordering::Relaxed));
        resumes.checked_sub(self.begun.elapsed()).filter(|left| !left.is_zero())
    }

    fn bytes(&self) -> u64 {
        self.control.stats().wire_bytes
    }

    fn cancel(&self) {
        self.control.cancelled_below.store(u64::MAX, Ordering::Relaxed);
        if let Some(wait) = &self.wait {
            wait.store(true, Ordering::Relaxed);
        }
        self.control.wake();
    }
}

/// Sends a [`Supply`].
pub struct Sender {
    options: SenderOptions,
    supply: Box<dyn Supply>,
    outlet: Outlet,
}

impl std::fmt::Debug for Sender {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Sender").field("options", &self.options).finish_non_exhaustive()
    }
}

impl Sender {
    /// Open the socket, or connect.
    ///
    /// # Errors
    /// A system error, with the address; or receivers cannot control the rate there.
    pub fn open(options: SenderOptions, supply: Box<dyn Supply>) -> io::Result<Self> {
        let outlet = match options.to.transport {
            Transport::Udp => {
                let udp = SendOptions { mode: options.mode, ..SendOptions::default() };
                Outlet::udp(std::slice::from_ref(&options.to), &udp)?
            }
            Transport::Tcp => Outlet::tcp(&options.to, &TcpSendOptions::default())?,
        };
        options
            .pacing
            .check(&outlet)
            .map_err(|e| io::Error::new(io::ErrorKind::InvalidInput, e.to_string()))?;
        let outlet = if let Some(faults) = &options.faults { outlet.with_faults(faults) } else { outlet };
        Ok(Self { options, supply, outlet })
    }

    /// Send everything, or until `stop`.
    #[must_use]
    pub fn run(self, stop: &Stop) -> SendReport {
        let Self { options, supply, outlet } = self;
        // A sender that is not pinned only runs less steadily.
        let unpinned = options.cpu.and_then(|cpu| host::thread::pin(cpu).err());
        let mut notes: Vec<String> =
            unpinned.map(|why| format!("not pinned to a CPU: {why}")).into_iter().collect();
        let cpu = host::thread::cpu_time();
        let begun = Instant::now();
        let (what, mode) = (supply.describe(), outlet.describe());
        let control = SendControl::new(options.pacing.first_rate());
        let working = Arc::new(Working { control, begun, wait: outlet.stop_flag() });
        stop.add(working.clone());
        let control = &working.control;
        let mut engine = SendEngine::new(outlet, &options.pacing, Box::new(Real(begun)));
        let mut frames = Frames::new(supply, &options, stop, begun);
        let mut sent = engine.drive(&mut frames, 0, control, false);
        if matches!(sent, Err(SendError::Cancelled)) && !control.is_cancelled(0) {
            // It ended while it waited for its time.
            sent = Ok(());
        }
        notes.extend(frames.supply.notes());
        let mut report =
            SendReport { to: options.to.to_string(), what, mode, notes, ..SendReport::default() };
        report.times = frames.supply.times();
        if let (Some(times), Some(schedule)) = (&mut report.times, &frames.schedule) {
            schedule.enter(times);
        }
        report.enter(&control.stats());
        if let Some(mut outlet) = engine.outlet.take() {
            let flushed = outlet.flush();
            report.enter_faults(outlet.injected());
            sent = sent.and(flushed.and_then(|()| outlet.finish()).map_err(SendError::from));
        }
        let why = sent.err().map(|e| e.to_string());
        report.error = why.or_else(|| frames.supply.failure());
        report.numbered = frames.next;
        report.rate = lock(&control.progress).first().map(Into::into);
        report.took(begun.elapsed(), host::thread::cpu_time() - cpu);
        report
    }
}

/// Numbered packets, made in the memory of their batch: heads here, payloads where they lie.
struct Frames<'s> {
    supply: Box<dyn Supply>,
    stop: &'s Stop,
    /// The packets of the batch: the first, and behind the last.
    next: u64,
    upto: u64,
    available: u64,
    most: u64,
    until: Option<Instant>,
    packet_bytes: usize,
    heads: Vec<[u8; HEAD]>,
    error: Option<SendError>,
    /// The waits for gaps, if packets are sent at their own pace.
    schedule: Option<Schedule>,
    /// The first packet that the schedule was not asked for, and the wait that it gave.
    scheduled: u64,
    gap: Nanos,
}

impl<'s> Frames<'s> {
    fn new(supply: Box<dyn Supply>, options: &SenderOptions, stop: &'s Stop, begun: Instant) -> Self {
        // A rate that was asked for decides alone.
        let is_free = options.pacing.first_rate() == 0;
        Self {
            stop,
            next: 0,
            upto: 0,
            available: 0,
            most: options.packets.unwrap_or(u64::MAX),
            until: options.duration.and_then(|duration| begun.checked_add(duration)),
            packet_bytes: supply.packet_bytes().max(1),
            heads: Vec::new(),
            error: None,
            schedule: supply.pace().filter(|_| is_free).map(Schedule::new),
            scheduled: 0,
            gap: Nanos(0),
            supply,
        }
    }
}

impl Frames<'_> {
    /// The next batch ends before a gap, and the first one behind a gap waits for it.
    fn wait_for_gap(&mut self) {
        let Some(schedule) = &mut self.schedule else { return };
        let (position, end) = self.supply.place(self.next);
        if self.next >= self.scheduled {
            self.gap = schedule.wait(self.next, position);
            self.scheduled = end;
        }
        self.available = self.available.min(end.max(self.next + 1));
    }
}

impl Source for Frames<'_> {
    fn next(&mut self) -> Result<Next, SendError> {
        if let Some(error) = self.error.take() {
            return Err(error);
        }
        let (upto, more) = self.supply.available(self.next);
        self.available = upto.min(self.most);
        Ok(match self.next < self.available {
            _ if self.is_over() || self.next >= self.most => Next::End,
            true => {
                self.wait_for_gap();
                Next::Packets(self.schedule.as_ref().map(|schedule| schedule.pace().bits_per_second()))
            }
            false if more => Next::Later,
            false => Next::End,
        })
    }

    fn gap(&mut self) -> Nanos {
        std::mem::replace(&mut self.gap, Nanos(0))
    }

    fn is_over(&self) -> bool {
        self.stop.is_set() || self.until.is_some_and(|until| Instant::now() >= until)
    }

    fn fill(&mut self, limits: Limits) -> Result<(), SendError> {
        let train = (TRAIN_BYTES / self.packet_bytes).clamp(1, TRAIN_PACKETS);
        let packets = usize::try_from(limits.bytes / self.packet_bytes as u64).unwrap_or(usize::MAX);
        let packets = packets.clamp(1, train.saturating_mul(limits.trains.min(TRAINS_PER_BATCH)));
        self.upto = self.available.min(self.next.saturating_add(packets as u64));
        self.heads.resize(packets, [0; HEAD]);
        Ok(())
    }

    fn packets(&self) -> usize {
        (self.upto - self.next) as usize
    }

    fn gather<'a>(
        &'a mut self,
        _: usize,
        slices: &mut Vec<IoSlice<'a>>,
        extents: &mut Vec<Extent>,
    ) -> Result<(), usize> {
        for (number, head) in (self.next..self.upto).zip(&mut self.heads) {
            let (length, payload) = self.supply.packet(number, head);
            extents.push(Extent { first: slices.len(), bytes: length + payload.len() });
            slices.extend([IoSlice::new(&head[..length]), IoSlice::new(payload)]);
        }
        Ok(())
    }

    fn leave_out(&mut self, _: usize, error: SendError) {
        self.error = Some(error);
    }

    fn sent(&mut self, sent: Sent, stats: &mut SendStats) {
        stats.packets += sent.packets as u64;
    }

    fn finish_batch(&mut self) {
        self.next = self.upto;
    }
}

/// Most trains in a batch.
const TRAINS_PER_BATCH: usize = 4;

/// A sender's packets, made from their numbers as they become available.
pub trait Supply: Packetize + Send {
    /// How many packets there are by now, and whether more may come. All before `next` were asked for already; what
    /// lies more than some megabytes before it need not be there any more.
    fn available(&mut self, next: u64) -> (u64, bool);
    /// A description as text.
    fn describe(&self) -> String;
    /// Why what it gave so far is not all, or not what it should be.
    fn failure(&self) -> Option<String> {
        None
    }
    /// The pace of its own times, if it is to be sent so.
    fn pace(&self) -> Option<OwnPace> {
        None
    }
    /// The position of packet `n` in its stream, and the first packet after it that does not follow without a gap.
    fn place(&self, n: u64) -> (u64, u64) {
        (n, u64::MAX)
    }
    /// The times of what it gives, if they are those of recorded data.
    fn times(&self) -> Option<SentTimes> {
        None
    }
    /// What a reader of the report must know.
    fn notes(&self) -> Vec<String> {
        Vec::new()
    }
}

/// The sequence number in front of each frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sequence {
    /// Its byte order; `None` sends frames without one.
    pub order: Option<Order>,
    /// The number of the first packet.
    pub first: u64,
}

impl Sequence {
    /// Write the number of packet `n`; how many bytes that took.
    pub(super) fn write(self, n: u64, head: &mut [u8]) -> usize {
        let Some(order) = self.order else { return 0 };
        head[..PREFIX].copy_from_slice(&Numbering::whole(order).write(self.first.wrapping_add(n)));
        PREFIX
    }
}

fn hint(why: &PositionsError) -> &'static str {
    match why {
        PositionsError::BadRate(_) | PositionsError::Disproved(..) => "correct --frame-rate, or omit it",
        _ => "give the format with --format, or examine the file with `skyhaul inspect`",
    }
}

/// Why a file or recording cannot be sent.
#[derive(Debug, thiserror::Error)]
pub enum SupplyError {
    /// The file cannot be read.
    #[error("{0}")]
    Io(#[from] io::Error),
    /// It is no file of frames.
    #[error("{path}: {why}{}", Hint(hint(why)))]
    Frames {
        /// The file.
        path: String,
        /// What is wrong with it.
        why: PositionsError,
    },
    /// The headers cannot give the new times.
    #[error("{path}: its headers cannot give the new times{}", Hint("send it without --restamp"))]
    Restamp {
        /// The file.
        path: String,
    },
    /// Further passes have new times, which need a rate.
    #[error("{path}: the frame rate is unknown{}", Hint("set it with --frame-rate"))]
    RateUnknown {
        /// The file.
        path: String,
    },
    /// A synthesised stream that cannot be.
    #[error("no such stream: {0}")]
    Synth(String),
}

/// A stream made from nothing.
#[derive(Clone, Debug)]
pub struct SynthOptions {
    /// Payload bytes of a frame: a multiple of 8.
    pub payload: usize,
    /// Threads, numbered from 0; each frame number is sent once for each.
    pub threads: u16,
    /// Frames per second of each thread.
    pub frames_per_second: u32,
    /// Time of the first frame, UNIX seconds.
    pub start: i64,
    /// Two ASCII characters.
    pub station: String,
    /// What its frames hold.
    pub payloads: SynthPayload,
    /// The sequence number in front.
    pub sequence: Sequence,
    /// Packets to send; `None` is without end.
    pub packets: Option<u64>,
}

/// Frames of noise, of the self-verifying pattern, or of the sky.
#[derive(Debug)]
pub struct SynthSupply {
    frames: Box<dyn Generated>,
    sequence: Sequence,
    packets: Option<u64>,
}

impl SynthSupply {
    /// Prepare a stream of the first family that can be made.
    ///
    /// # Errors
    /// The format does not allow this shape.
    pub fn new(options: SynthOptions) -> Result<Self, SupplyError> {
        Self::of(Format::Auto, options)
    }

    /// Prepare a stream of this format.
    ///
    /// # Errors
    /// Streams of this format cannot be generated, or it does not allow this shape.
    pub fn of(format: Format, options: SynthOptions) -> Result<Self, SupplyError> {
        let SynthOptions { payload, threads, frames_per_second, start, station, payloads, sequence, packets } =
            options;
        let asked = FAMILIES.iter().filter(|&&family| format.family().is_none_or(|asked| asked == family));
        let generator = asked.copied().find_map(|family| family.generator());
        let generator = generator
            .ok_or_else(|| SupplyError::Synth(format!("streams of {format} cannot be generated")))?;
        let order = sequence.order.filter(|_| generator.takes_sequence());
        let sequence = Sequence { order, ..sequence };
        let made = Made { payload, threads, frames_per_second, start, station, payloads };
        let frames = generator.begin(made).map_err(SupplyError::Synth)?;
        Ok(Self { frames, sequence, packets })
    }
}

impl Packetize for SynthSupply {
    fn packet(&self, n: u64, head: &mut [u8; HEAD]) -> (usize, &[u8]) {
        let number = self.sequence.write(n, head);
        let (length, payload) = self.frames.frame(n, &mut head[number..]);
        (number + length, payload)
    }

    fn packet_bytes(&self) -> usize {
        self.frames.frame_bytes() + if self.sequence.order.is_some() { PREFIX } else { 0 }
    }
}

impl Supply for SynthSupply {
    fn available(&mut self, next: u64) -> (u64, bool) {
        let end = self.packets.unwrap_or(u64::MAX);
        let prepared = if next < end { self.frames.prepare(next) } else { end };
        (prepared.min(end), prepared < end)
    }

    fn describe(&self) -> String {
        self.frames.describe()
    }
}
