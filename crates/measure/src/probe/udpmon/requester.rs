//! The requester: a test with a responder of any build.
//!
//! [`latency`] measures round trips of requests and responses, as `udpmon_req` does. A request is as long as its response, so that
//! both directions carry the same, and a responder that returns no more than it received answers all of them. Times are those of
//! this program, sending and waking up included.

use crate::probe::udp::sender::send_headed;
use crate::probe::udp::{SentReport, UdpPoint, overhead};
use serde::{Deserialize, Serialize};
use skyhaul::report::{Distribution, VERSION};
use skyhaul_core::hint::Hint;
use skyhaul_core::measure::Histogram;
use skyhaul_core::pace::GapPacer;
use skyhaul_core::placement::Nanos;
use skyhaul_core::wire::header::Order;
use skyhaul_core::wire::udpmon::structs::{Bins, HISTOGRAM, SNMP, udp_in_errors};
use skyhaul_core::wire::udpmon::{Command, LEN, Message, SHORT, VERSION as PROTOCOL_VERSION};
use skyhaul_io::udp::UdpOptions;
use skyhaul_io::udp::both::Both;
use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use thiserror::Error;

/// Octets of a piece of a structure, as udpmon itself asks for.
const PIECE: usize = 1400;
/// Tries of a command, as with udpmon; once interrupted, and for what may be missing, fewer.
const MAX_TRIES: u32 = 10;
const MAX_SHORT_TRIES: u32 = 3;
/// Bins that udpmon's responder has for times.
const BINS: u64 = 150;
/// How often a busy responder is asked again.
const BUSY_RETRY_INTERVAL: Duration = Duration::from_millis(500);
/// How long one wait lasts before it is looked whether to stop.
const POLL_INTERVAL: Duration = Duration::from_millis(100);

/// What to ask for.
#[derive(Clone, Copy, Debug)]
pub struct RequestOptions {
    /// The responder.
    pub to: SocketAddr,
    /// Size, spacing and number of packets.
    pub point: UdpPoint,
    /// Width of a bin of the histogram of times between packets, 0.1 µs.
    pub bin: u32,
    /// How long to wait for packets after the last.
    pub settle: Duration,
    /// How long to wait for an answer, each of 10 times.
    pub timeout: Duration,
    /// How long to wait for a responder that has another test.
    pub patience: Duration,
}

impl RequestOptions {
    /// Bins for times to three spacings; 200 ms to settle, 3 s for each answer, a minute for another test.
    #[must_use]
    pub fn new(to: SocketAddr, point: UdpPoint) -> Self {
        let bin = point.spacing_ps.saturating_mul(3) / (100_000 * BINS);
        Self {
            to,
            point,
            bin: u32::try_from(bin).unwrap_or(u32::MAX).clamp(1, 1 << 24),
            settle: Duration::from_millis(200),
            timeout: Duration::from_secs(3),
            patience: Duration::from_secs(60),
        }
    }
}

/// Run one test. If `stop` is set while packets are sent, the report is of what was sent until then.
///
/// # Errors
/// See [`UdpmonError`].
pub fn request(options: &RequestOptions, stop: &AtomicBool) -> Result<RequestReport, UdpmonError> {
    let point = options.point;
    point.check().map_err(|why| io::Error::new(io::ErrorKind::InvalidInput, why))?;
    let mut dialogue = Dialogue::open(options, stop)?;
    dialogue.begin()?;
    let sent = dialogue.send(&point)?;
    let interrupted = stop.load(Ordering::Relaxed);
    std::thread::sleep(options.settle);
    let told = dialogue.told()?;
    dialogue.end();
    Ok(RequestReport::new(options.to, point, sent, &told, interrupted))
}

/// The talk with a responder.
struct Dialogue<'a> {
    options: &'a RequestOptions,
    pub(super) stop: &'a AtomicBool,
    pub(super) socket: Both,
    pub(super) order: Order,
    /// Room for an answer.
    pub(super) answer: Vec<u8>,
}

impl<'a> Dialogue<'a> {
    pub(super) fn open(options: &'a RequestOptions, stop: &'a AtomicBool) -> Result<Self, UdpmonError> {
        let any = match options.to {
            SocketAddr::V4(_) => SocketAddr::from((Ipv4Addr::UNSPECIFIED, 0)),
            SocketAddr::V6(_) => SocketAddr::from((Ipv6Addr::UNSPECIFIED, 0)),
        };
        let socket = Both::bind(any, &UdpOptions::default())?;
        socket.connect(options.to)?;
        Ok(Self { options, stop, socket, order: Order::Little, answer: vec![0; 1 << 16] })
    }

    /// Begin a test: wait while there is another, and learn the byte order.
    pub(super) fn begin(&mut self) -> Result<(), UdpmonError> {
        let start = Instant::now();
        loop {
            let octets = self.ask(Command::ZeroStats, 0, 0, MAX_TRIES)?;
            let answer = Message::read(&octets).map_err(|_| UdpmonError::Broken(Command::ZeroStats))?;
            self.order = answer.order;
            match answer.command() {
                Some(Command::Ok | Command::InUse) if answer.head.version != PROTOCOL_VERSION => {
                    return Err(UdpmonError::OtherVersion(answer.head.version));
                }
                Some(Command::Ok) => return Ok(()),
                Some(Command::InUse) if start.elapsed() < self.options.patience => {
                    std::thread::sleep(BUSY_RETRY_INTERVAL.min(self.options.patience));
                }
                Some(Command::InUse) => return Err(UdpmonError::Busy),
                _ => return Err(UdpmonError::Broken(Command::ZeroStats)),
            }
            if self.is_stopped() {
                return Err(UdpmonError::Interrupted);
            }
        }
    }

    /// The end of a test. The responder may be gone, which changes nothing of what was measured.
    pub(super) fn end(&mut self) {
        let _ = self.ask(Command::TestEnd, 0, 0, MAX_SHORT_TRIES);
    }

    fn is_stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    /// The packets of the test, each at its time.
    fn send(&self, point: &UdpPoint) -> Result<SentReport, UdpmonError> {
        let order = self.order;
        Ok(send_headed(&self.socket, point, self.stop, |packet, number, now| {
            let mut message = Message::new(order, Command::Data, number);
            message.head.send_time = u64::try_from(now.as_nanos() / 100).unwrap_or(u64::MAX);
            let octets = message.octets();
            let head = packet.len().min(LEN);
            packet[..head].copy_from_slice(&octets[..head]);
        })?)
    }

    /// Counts, and what there is besides.
    fn told(&mut self) -> Result<ResponderResults, UdpmonError> {
        let octets = self.ask(Command::GetStats, 0, 0, MAX_TRIES)?;
        let stats =
            Message::read_in(self.order, &octets).map_err(|_| UdpmonError::Broken(Command::GetStats))?;
        // A build of another layout has others, which cannot be read.
        let (histogram, order) = (self.structure(Command::GetHistogram, HISTOGRAM)?, self.order);
        let bins = histogram.and_then(|octets| Bins::read(&octets, order));
        let errors = self.structure(Command::GetSnmp, SNMP)?.and_then(|octets| udp_in_errors(&octets));
        Ok(ResponderResults { stats, bins, errors })
    }

    /// A structure of the responder, in pieces; `None` if it does not give it.
    fn structure(&mut self, command: Command, length: usize) -> Result<Option<Vec<u8>>, UdpmonError> {
        let mut octets = Vec::with_capacity(length);
        while octets.len() < length {
            let piece = (length - octets.len()).min(PIECE);
            match self.ask(command, octets.len(), piece, MAX_SHORT_TRIES) {
                Ok(piece) => octets.extend(piece),
                Err(UdpmonError::Silent(_)) => return Ok(None),
                Err(error) => return Err(error),
            }
        }
        Ok(Some(octets))
    }

    fn message(&self, command: Command, index: usize, length: usize) -> Message {
        let mut message = Message::new(self.order, command, 0);
        (message.head.index, message.head.response_length) = (index as u32, length as u32);
        if command == Command::ZeroStats {
            // As udpmon's own requester.
            (message.head.version, message.head.width) = (0, self.options.bin.max(1));
        }
        message
    }

    /// Ask until an answer comes. Before the byte order is known, both are tried in turn.
    fn ask(
        &mut self,
        command: Command,
        index: usize,
        length: usize,
        tries: u32,
    ) -> Result<Vec<u8>, UdpmonError> {
        // Answers to what was asked twice are not answers to this.
        while self.socket.receive_from(&mut self.answer, Duration::ZERO)?.is_some() {}
        let begin = command == Command::ZeroStats;
        for attempt in 0..tries {
            if self.is_stopped() && (begin || attempt >= MAX_SHORT_TRIES) {
                break;
            }
            if begin && attempt > 0 {
                self.order = if self.order == Order::Little { Order::Big } else { Order::Little };
            }
            match self.socket.send(&self.message(command, index, length).octets()) {
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {
                    std::thread::sleep(self.options.timeout.min(POLL_INTERVAL));
                }
                Err(error) => return Err(error.into()),
            }
            if let Some(octets) = self.hear(command, length)? {
                return Ok(octets);
            }
        }
        Err(if begin && self.is_stopped() {
            UdpmonError::Interrupted
        } else {
            UdpmonError::Silent(self.options.to)
        })
    }

    /// The answer to one try.
    fn hear(&mut self, command: Command, length: usize) -> Result<Option<Vec<u8>>, UdpmonError> {
        let until = Instant::now() + self.options.timeout;
        loop {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() || (self.is_stopped() && command == Command::ZeroStats) {
                return Ok(None);
            }
            let came = self.socket.receive_from(&mut self.answer, left.min(POLL_INTERVAL))?;
            let Some((n, _)) = came else { continue };
            let octets = &self.answer[..n];
            // udpmon leaves the head of its counts undefined, so they cannot be told by it; but an Ok is to something before.
            let is_ok = || Message::read(octets).is_ok_and(|read| read.command() == Some(Command::Ok));
            let fits = match (command, length) {
                (_, 1..) => n == length,
                (Command::GetStats, 0) => n >= LEN && !is_ok(),
                _ => n >= SHORT,
            };
            if fits {
                return Ok(Some(octets.to_vec()));
            }
        }
    }
}

/// Octets of the shortest response of udpmon.
const SHORTEST: u32 = 64;
/// How long a response is waited for, as with udpmon.
const WAIT: Duration = Duration::from_secs(1);
/// Longest sleep before it is looked whether to stop.
const LATENCY_POLL_INTERVAL: Duration = Duration::from_millis(20);

/// Round trips of one size.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct LatencyReport {
    /// [`VERSION`](skyhaul::report::VERSION).
    pub version: u32,
    /// The responder.
    pub to: SocketAddr,
    /// Whether the responder uses big-endian integers.
    pub big_endian: bool,
    /// Options: bytes of request and response, number of requests, minimum spacing.
    pub point: UdpPoint,
    /// Requests sent.
    pub asked: u64,
    /// Requests whose response came within a second.
    pub answered: u64,
    /// Nanoseconds from request to response.
    pub round_trip_ns: Distribution,
    /// It was interrupted.
    pub interrupted: bool,
}

/// Ask for responses, one after the other. If `stop` is set meanwhile, the report is of those until then.
///
/// # Errors
/// See [`UdpmonError`].
pub fn latency(options: &RequestOptions, stop: &AtomicBool) -> Result<LatencyReport, UdpmonError> {
    let point = UdpPoint { size: options.point.size.max(SHORTEST), ..options.point };
    let mut dialogue = Dialogue::open(options, stop)?;
    dialogue.begin()?;
    let (mut asked, mut trips) = (0, Histogram::default());
    let (begun, longest) = (Instant::now(), Duration::from_nanos(point.longest_ns));
    let mut pacer = GapPacer::even(point.spacing_ps, Nanos(0), Nanos(0));
    let elapsed = || Nanos::from(begun.elapsed());
    while asked < point.packets && begun.elapsed() < longest && !stop.load(Ordering::Relaxed) {
        let early = pacer.due().0.saturating_sub(elapsed().0);
        if early > 0 {
            std::thread::sleep(Duration::from_nanos(early).min(LATENCY_POLL_INTERVAL));
            continue;
        }
        pacer.sent(1, elapsed());
        let trip = dialogue.trip(asked, point.size)?;
        asked += 1;
        if let Some(trip) = trip {
            trips.record(Nanos::from(trip).0);
        }
    }
    let interrupted = stop.load(Ordering::Relaxed);
    dialogue.end();
    Ok(LatencyReport {
        version: VERSION,
        to: options.to,
        big_endian: dialogue.order == Order::Big,
        point,
        asked,
        answered: trips.count(),
        round_trip_ns: Distribution::from(&trips),
        interrupted,
    })
}

impl Dialogue<'_> {
    /// One request, and how long its response took.
    fn trip(&mut self, number: u64, size: u32) -> Result<Option<Duration>, UdpmonError> {
        let mut request = Message::new(self.order, Command::Request, number);
        request.head.response_length = size;
        let mut octets = request.octets().to_vec();
        octets.resize(size as usize, 0);
        let sent = Instant::now();
        match self.socket.send(&octets) {
            Ok(_) => {}
            Err(error) if error.kind() == std::io::ErrorKind::ConnectionRefused => {}
            Err(error) => return Err(error.into()),
        }
        while sent.elapsed() < WAIT && !self.stop.load(Ordering::Relaxed) {
            let Some((length, _)) = self.socket.receive_from(&mut self.answer, LATENCY_POLL_INTERVAL)? else {
                continue;
            };
            let came = sent.elapsed();
            let head = Message::read_in(self.order, &self.answer[..length.min(LEN)]).map(|read| read.head);
            let is_it = |head: skyhaul_core::wire::udpmon::Head| {
                head.command == Command::Response as u32 && head.frame == number
            };
            if length == size as usize && head.is_ok_and(is_it) {
                return Ok(Some(came));
            }
        }
        Ok(None)
    }
}

/// What a test showed.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct RequestReport {
    /// [`VERSION`](skyhaul::report::VERSION).
    pub version: u32,
    /// The responder.
    pub to: SocketAddr,
    /// Whether the responder uses big-endian integers.
    pub big_endian: bool,
    /// What was asked for.
    pub point: UdpPoint,
    /// What was sent.
    pub sent: SentReport,
    /// Packets that the responder received. udpmon's counts those that came twice.
    pub received: u64,
    /// Packets that did not arrive: sent less received.
    pub lost: u64,
    /// Losses that the responder counted from numbers. udpmon's counts late packets, too.
    pub lost_by_number: u64,
    /// Packets out of order, as the responder counts them. udpmon's counts those that came twice, too.
    pub disordered: u64,
    /// Datagrams that the responder's whole host failed to deliver to programs meanwhile (UDP InErrors).
    pub host_in_errors: Option<u64>,
    /// Losses that these do not explain.
    pub lost_in_network: u64,
    /// Seconds from the first packet to the last, at the responder.
    pub seconds: f64,
    /// Bits per second of payload sent.
    pub sent_bits_per_second: f64,
    /// Bits per second of payload received.
    pub user_bits_per_second: f64,
    /// The same on the wire, with all that is around each payload.
    pub wire_bits_per_second: f64,
    /// Nanoseconds between arrivals, by the responder's histogram: lower ends of its bins.
    pub gaps_ns: Option<Distribution>,
    /// Packets below and above the range of that histogram.
    pub outside: (u64, u64),
    /// The test was interrupted.
    pub interrupted: bool,
}

/// Results of a test, as the responder reported them.
#[derive(Clone, Debug)]
pub(super) struct ResponderResults {
    pub(super) stats: Message,
    pub(super) bins: Option<Bins>,
    /// UDP InErrors of its host, before and after.
    pub(super) errors: Option<(u64, u64)>,
}

impl RequestReport {
    pub(super) fn new(
        to: SocketAddr,
        point: UdpPoint,
        sent: SentReport,
        told: &ResponderResults,
        interrupted: bool,
    ) -> Self {
        let stats = &told.stats;
        let (went, received) =
            (sent.packets - sent.refused.min(sent.packets), u64::from(stats.head.received));
        let lost = went.saturating_sub(received);
        let host_in_errors = told.errors.map(|(before, after)| after.saturating_sub(before));
        let seconds = stats.tail.first_to_last as f64 / 1e7;
        let octets = f64::from(point.size);
        let per_second =
            |packets: u64, seconds: f64| if seconds > 0.0 { packets as f64 / seconds } else { 0.0 };
        // Between n packets are n − 1 gaps.
        let arrived = per_second(received.saturating_sub(1), seconds);
        let around = overhead(to.is_ipv6()) as f64;
        Self {
            version: VERSION,
            to,
            big_endian: stats.order == Order::Big,
            point,
            received,
            lost,
            lost_by_number: stats.tail.lost.into(),
            disordered: stats.tail.disordered.into(),
            host_in_errors,
            lost_in_network: lost.saturating_sub(host_in_errors.unwrap_or(0)),
            seconds,
            sent_bits_per_second: per_second(went, sent.seconds) * octets * 8.0,
            user_bits_per_second: arrived * octets * 8.0,
            wire_bits_per_second: arrived * (octets + around) * 8.0,
            gaps_ns: told.bins.as_ref().map(gaps),
            outside: told
                .bins
                .as_ref()
                .map_or((0, 0), |bins| (bins.counts[0], bins.counts[bins.counts.len() - 1])),
            interrupted,
            sent,
        }
    }
}

/// Bins are of 0.1 µs.
fn gaps(bins: &Bins) -> Distribution {
    let mut histogram = Histogram::default();
    let used = bins.counts.iter().enumerate().skip(1).take(bins.used as usize);
    for (n, &count) in used.filter(|bin| *bin.1 > 0) {
        let low = i64::from(bins.low) + (n as i64 - 1) * i64::from(bins.width);
        histogram.record_many(u64::try_from(low.saturating_mul(100)).unwrap_or(0), count);
    }
    Distribution::from(&histogram)
}

/// Why there is no report.
#[derive(Debug, Error)]
pub enum UdpmonError {
    /// A system error; its text names the operation and the address.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// Nothing came back.
    #[error(
        "{0} does not answer as a udpmon responder{hint}",
        hint = Hint(format_args!(
            "start `udpmon_resp` or `skyhaul probe serve --udpmon` there, and let UDP port {} through",
            .0.port()
        ))
    )]
    Silent(SocketAddr),
    /// It speaks another version.
    #[error(
        "the responder speaks version {0} of udpmon's protocol, not {PROTOCOL_VERSION}{hint}", hint = Hint("install udpmon 1.5, or skyhaul, there"))]
    OtherVersion(u32),
    /// It has another test.
    #[error(
        "the responder is busy with another test{}",
        Hint("udpmon_resp runs one test at a time and holds it for 60 s; try again later")
    )]
    Busy,
    /// An answer is invalid.
    #[error("invalid answer to {0:?}{hint}", hint = Hint("check that a udpmon responder listens there"))]
    Broken(Command),
    /// It was interrupted before there was anything to report.
    #[error("interrupted before the test began")]
    Interrupted,
}

#[cfg(test)]
mod tests;
