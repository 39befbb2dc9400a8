//! One test, as a server runs it; and what the threads of a server share: its options, counters, and the tests that await streams.

use super::admission::{Reservation, Resources};
use super::control::{Control, Cookie, Iperf3Error, Iperf3State, MESSAGE_TIMEOUT, PARAMETERS, RESULTS, code};
use super::json::lines;
use super::params::{Iperf3Params, Iperf3Results};
use super::report::{Iperf3Parameters, Iperf3Report, Iperf3Role};
use super::work::{FinishedStreams, RunningStreams, Sockets, setup};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use skyhaul_io::lock::{lock, wait_while};
use skyhaul_io::quantity::{Rate, Size};
use skyhaul_io::tcp::setup::watch_peer;
use skyhaul_io::tcp::tune;
use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr, TcpStream, UdpSocket};
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::sync::mpsc::{SyncSender, sync_channel};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::thread::JoinHandle;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// How often a test looks at its clock.
const TICK: Duration = Duration::from_millis(20);
/// How much longer than agreed a client may take, as with iperf3: ten states that need up to 4 s each.
const GRACE: Duration = Duration::from_secs(40);

/// One test.
pub(super) struct Session<'a> {
    control: Control,
    cookie: Cookie,
    common: &'a Common,
    peer: SocketAddr,
    params: Iperf3Params,
    place: Reservation,
}

impl<'a> Session<'a> {
    pub(super) fn new(control: Control, cookie: Cookie, common: &'a Common, place: Reservation) -> Self {
        let peer = control.stream().peer_addr().unwrap_or(SocketAddr::from(([0; 4], 0)));
        Self { control, cookie, common, peer, params: Iperf3Params::default(), place }
    }

    /// Run it to its end, and report.
    pub(super) fn run(mut self) {
        let began = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
        let text = self.cookie.iter().take_while(|&&octet| octet != 0).map(|&octet| char::from(octet));
        let asked = Iperf3Parameters::of(&self.params);
        let mut report = Iperf3Report::begun(Iperf3Role::Server, self.peer, began, text.collect(), asked);
        let result = self.serve(&mut report);
        self.common.close(&self.cookie);
        let counters = &self.common.counters;
        match result {
            Ok(()) => counters.done.fetch_add(1, Relaxed),
            Err(error) => {
                if let Some(code) = error.code() {
                    self.control.tell_error(code);
                }
                report.error = Some(error.to_string());
                counters.failed.fetch_add(1, Relaxed)
            }
        };
        report.asked = Iperf3Parameters::of(&self.params);
        (self.common.report)(report);
    }

    fn serve(&mut self, report: &mut Iperf3Report) -> Result<(), Iperf3Error> {
        // A client that vanishes is noticed even if nothing is to be sent to it.
        let _ = watch_peer(self.control.stream(), self.common.options.idle / 2);
        self.control.tell(Iperf3State::ParamExchange)?;
        let json = self.control.receive(PARAMETERS)?;
        self.params = Iperf3Params::read(&json)
            .map_err(|refused| Iperf3Error::Refused { code: refused.code, text: refused.text })?;
        self.permit()?;
        let sockets = self.streams()?;
        self.control.tell(Iperf3State::TestStart)?;
        self.control.tell(Iperf3State::TestRunning)?;
        let work = RunningStreams::start(sockets, &self.params, false, self.common.options.interval)?;
        let (done, ended) = self.watch(work);
        report.seconds = done.seconds;
        report.streams = done.streams;
        report.cpu_percent = done.results.cpu;
        ended?;
        self.exchange(done.results, report)
    }

    /// Whether the server permits this.
    fn permit(&mut self) -> Result<(), Iperf3Error> {
        let refuse = |code, text: String| Err(Iperf3Error::Refused { code, text });
        let (options, params) = (&self.common.options, &self.params);
        let longest = options.longest;
        let endless = params.time.is_zero() && params.amount().is_none();
        if params.time + params.omit > longest || endless && longest < Duration::from_secs(86_400) {
            return refuse(code::TOO_LONG_HERE, format!("longer than {} s", longest.as_secs()));
        }
        let asked = params.rate.bits_per_second().saturating_mul(params.connections() as u64);
        if options.rate != Rate::default() && (asked == 0 || asked > options.rate.bits_per_second()) {
            return refuse(code::RATE, format!("faster than {}", options.rate));
        }
        if !self.place.take(params) {
            self.common.counters.no_room.fetch_add(1, Relaxed);
            let text =
                format!("{} streams and their buffers exceed the memory that is left", params.connections());
            return refuse(code::STREAMS, text);
        }
        Ok(())
    }

    /// Let the streams in.
    fn streams(&mut self) -> Result<Sockets, Iperf3Error> {
        let count = self.params.connections();
        let (give, take) = sync_channel(count);
        let host = self.params.udp.then(|| self.peer.ip().to_canonical());
        if !self.common.open(self.cookie, give, host, MESSAGE_TIMEOUT) {
            return Err(Iperf3Error::Silent);
        }
        self.control.tell(Iperf3State::CreateStreams)?;
        let until = Instant::now() + MESSAGE_TIMEOUT;
        let (mut connections, mut ports) = (Vec::new(), Vec::new());
        for n in 0..count {
            let stream = loop {
                if let Ok(stream) = take.recv_timeout(TICK) {
                    break stream;
                }
                if Instant::now() >= until || self.common.is_stopped() {
                    let text = format!("{n} of {count} streams were connected");
                    return Err(Iperf3Error::Refused { code: code::ACCEPT, text });
                }
                self.refuse_words()?;
            };
            match stream {
                Arrival::Tcp(number, stream) if !self.params.udp => {
                    connections.push((number, self.prepared(stream)?));
                }
                Arrival::Udp(socket) if self.params.udp => {
                    let buffer = self.place.room.buffer(count);
                    let buffer = self.params.window.unwrap_or(Size::from_bytes(buffer));
                    tune::set_receive_buffer(&socket, buffer);
                    ports.push(socket);
                }
                // A connection with our cookie, where datagrams were agreed on.
                _ => return Err(Iperf3Error::Protocol("a stream of the wrong protocol".into())),
            }
        }
        self.common.close(&self.cookie);
        // Both ends number the streams in the order in which they were connected.
        connections.sort_by_key(|(number, _)| *number);
        Ok(if self.params.udp {
            Sockets::Udp(ports)
        } else {
            Sockets::Tcp(connections.into_iter().map(|(_, stream)| stream).collect())
        })
    }

    /// Nothing is to be said while streams are opened, except that it ends.
    fn refuse_words(&mut self) -> Result<(), Iperf3Error> {
        match self.control.hear(Duration::from_millis(1))? {
            None => Ok(()),
            Some(Iperf3State::ClientTerminate) => Err(Iperf3Error::Terminated),
            Some(state) => Err(Iperf3Error::Protocol(format!("{state:?} while streams are opened"))),
        }
    }

    fn prepared(&self, stream: TcpStream) -> Result<TcpStream, Iperf3Error> {
        let mut setup = setup(&self.params);
        if setup.apply(&stream).is_err() {
            // An algorithm that only the client has: the report says which one was used.
            setup.congestion = None;
            setup.apply(&stream).map_err(Iperf3Error::Stream)?;
        }
        Ok(stream)
    }

    /// Wait until the client has had enough, or is gone.
    fn watch(&mut self, mut work: RunningStreams) -> (FinishedStreams, Result<(), Iperf3Error>) {
        let limit = (self.params.amount().is_none() && !self.params.time.is_zero())
            .then(|| self.params.time + self.params.omit + GRACE);
        let limit = limit.unwrap_or(self.common.options.longest);
        let (mut moved, mut at) = (work.moved(), Instant::now());
        let ended = loop {
            match self.control.hear(TICK) {
                Ok(None) => {}
                Ok(Some(Iperf3State::TestEnd)) => break Ok(()),
                Ok(Some(Iperf3State::ClientTerminate)) => break Err(Iperf3Error::Terminated),
                Ok(Some(state)) => break Err(Iperf3Error::Protocol(format!("{state:?} during the test"))),
                Err(error) => break Err(error),
            }
            work.tick();
            if work.moved() != moved {
                (moved, at) = (work.moved(), Instant::now());
            }
            if self.common.is_stopped() {
                let _ = self.control.tell(Iperf3State::ServerTerminate);
                break Err(Iperf3Error::Terminated);
            }
            if at.elapsed() > self.common.options.idle || work.elapsed() > limit {
                break Err(Iperf3Error::Silent);
            }
        };
        work.stop();
        (work.finish(&self.params), ended)
    }

    fn exchange(&mut self, mut ours: Iperf3Results, report: &mut Iperf3Report) -> Result<(), Iperf3Error> {
        self.control.tell(Iperf3State::ExchangeResults)?;
        let theirs = Iperf3Results::read(&self.control.receive(RESULTS)?).map_err(Iperf3Error::Protocol)?;
        report.enter(&theirs);
        if self.params.server_output {
            report.asked = Iperf3Parameters::of(&self.params);
            ours.output = Some(Value::String(lines(report)));
        }
        self.control.send(&ours.write())?;
        self.control.tell(Iperf3State::DisplayResults)?;
        match self.control.hear(MESSAGE_TIMEOUT) {
            // Some clients just close.
            Ok(Some(Iperf3State::IperfDone) | None) | Err(Iperf3Error::Gone) => Ok(()),
            Ok(Some(state)) => Err(Iperf3Error::Protocol(format!("{state:?} at the end"))),
            Err(error) => Err(error),
        }
    }
}

/// A stream that came.
#[derive(Debug)]
pub(super) enum Arrival {
    /// With the number of the connection: cookies may arrive in another order than connections.
    Tcp(u64, TcpStream),
    Udp(UdpSocket),
}

/// What a server permits.
#[derive(Clone, Debug)]
pub struct Iperf3ServerOptions {
    /// Concurrent tests; the server is busy for further clients.
    pub tests: usize,
    /// Concurrent tests of one address (of IPv6, one /64).
    pub per_peer: usize,
    /// Streams of all tests together, each with a thread; one address may have three quarters of them.
    pub streams: usize,
    /// Memory of all tests together, bytes: blocks, buffers that are asked for, and what is kept of intervals. One address may have
    /// three quarters of it.
    pub memory: u64,
    /// Connections that have not said their cookie.
    pub guests: usize,
    /// Longest test, the omitted time included.
    pub longest: Duration,
    /// Highest rate of all streams of a test that a client may ask for; 0: any.
    pub rate: Rate,
    /// A test in which nothing moves for so long is ended.
    pub idle: Duration,
    /// Length of intervals in reports.
    pub interval: Duration,
}

impl Default for Iperf3ServerOptions {
    fn default() -> Self {
        Self {
            tests: 16,
            per_peer: 12,
            streams: 512,
            memory: 1 << 30,
            guests: 256,
            longest: Duration::from_secs(24 * 3600),
            rate: Rate::default(),
            idle: Duration::from_secs(120),
            interval: Duration::from_secs(1),
        }
    }
}

/// What happened at a server so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Iperf3ServerStats {
    /// Connections accepted.
    pub accepted: u64,
    /// Tests begun.
    pub tests: u64,
    /// Tests that came to their end.
    pub done: u64,
    /// Tests that did not.
    pub failed: u64,
    /// Clients sent away because there were too many.
    pub denied: u64,
    /// Tests refused because their streams or buffers are more than is left.
    #[serde(default)]
    pub no_room: u64,
    /// Connections that said something else than a cookie, or left before.
    pub garbage: u64,
    /// Connections that had to make room before they had said anything.
    pub pushed_out: u64,
    /// Connections that said nothing in time.
    pub silent: u64,
    /// Streams that no test was waiting for.
    pub late_streams: u64,
    /// Datagrams that were not the first words of anybody who is waited for.
    pub stray_datagrams: u64,
}

#[derive(Debug, Default)]
pub(super) struct Counters {
    pub(super) accepted: AtomicU64,
    pub(super) tests: AtomicU64,
    pub(super) done: AtomicU64,
    pub(super) failed: AtomicU64,
    pub(super) denied: AtomicU64,
    pub(super) no_room: AtomicU64,
    pub(super) garbage: AtomicU64,
    pub(super) pushed_out: AtomicU64,
    pub(super) silent: AtomicU64,
    pub(super) late_streams: AtomicU64,
    pub(super) stray_datagrams: AtomicU64,
}

/// Tests that run, by their cookies; with the way to hand them streams, as long as they wait for some.
#[derive(Debug, Default)]
pub(super) struct Sessions {
    pub(super) sessions: HashMap<Cookie, Option<SyncSender<Arrival>>>,
    /// Of each host, the test that waits for datagrams.
    pub(super) udp: HashMap<IpAddr, Cookie>,
}

/// What all threads of a server share.
pub(super) struct Common {
    pub(super) options: Iperf3ServerOptions,
    pub(super) counters: Counters,
    pub(super) stop: AtomicBool,
    pub(super) report: Box<dyn Fn(Iperf3Report) + Send + Sync>,
    pub(super) desk: Mutex<Sessions>,
    pub(super) freed: Condvar,
    pub(super) threads: Mutex<Vec<JoinHandle<()>>>,
    pub(super) room: Arc<Resources>,
}

impl Common {
    pub(super) fn desk(&self) -> MutexGuard<'_, Sessions> {
        lock(&self.desk)
    }

    pub(super) fn is_stopped(&self) -> bool {
        self.stop.load(Relaxed)
    }

    /// From here on, streams with this cookie go to `give`; if they are datagrams, those of `udp`, once no other test of
    /// that host waits for some.
    pub(super) fn open(
        &self,
        cookie: Cookie,
        give: SyncSender<Arrival>,
        udp: Option<IpAddr>,
        patience: Duration,
    ) -> bool {
        let mut desk = self.desk();
        if let Some(host) = udp {
            let taken = |desk: &mut Sessions| desk.udp.contains_key(&host) && !self.is_stopped();
            desk = wait_while(&self.freed, desk, patience, taken);
            if desk.udp.contains_key(&host) {
                return false;
            }
            desk.udp.insert(host, cookie);
        }
        desk.sessions.insert(cookie, Some(give));
        true
    }

    /// It waits for no more streams.
    pub(super) fn close(&self, cookie: &Cookie) {
        let mut desk = self.desk();
        desk.udp.retain(|_, waiting| waiting != cookie);
        if let Some(give) = desk.sessions.get_mut(cookie) {
            *give = None;
        }
        drop(desk);
        self.freed.notify_all();
    }
}
