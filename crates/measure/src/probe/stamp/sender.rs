//! The sender: sends test packets on schedule, and derives loss and delay from their reflections.

use super::{LEN, estimate};
use crate::probe::udp::sender::send_headed;
use crate::probe::udp::sender::unix_now;
use crate::probe::udp::{ClockReport, OneWayDelay, SentReport, UdpPoint};
use serde::{Deserialize, Serialize};
use skyhaul::report::{Distribution, VERSION};
use skyhaul_core::hint::Hint;
use skyhaul_core::measure::clock::{ClockFit, Exchange};
use skyhaul_core::measure::{Arrival, Histogram, SequenceMeter};
use skyhaul_core::placement::Nanos;
use skyhaul_core::wire::stamp::{Estimate, Reflection, Stamp, TestPacket};
use skyhaul_io::udp::UdpOptions;
use skyhaul_io::udp::both::Both;
use skyhaul_io::udp::noted::Noted;
use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Packets of a measurement, at most: the times of each are remembered.
pub const MAX_STAMP_PACKETS: u64 = 1_000_000;
/// How long a read waits, and so a stop.
const POLL_INTERVAL: Duration = Duration::from_millis(20);
/// Time to live of test packets (RFC 8762, 4.2.1): the reflector says what is left of it.
const HOPS: u8 = 255;

/// What to send.
#[derive(Clone, Copy, Debug)]
pub struct StampOptions {
    /// The reflector.
    pub to: SocketAddr,
    /// Size (44 octets at least), spacing and number of packets, of which [`MAX_STAMP_PACKETS`] are sent.
    pub point: UdpPoint,
    /// How long to wait for reflections after the last packet.
    pub settle: Duration,
}

impl StampOptions {
    /// Wait a second for the last reflections.
    #[must_use]
    pub fn new(to: SocketAddr, point: UdpPoint) -> Self {
        Self { to, point, settle: Duration::from_secs(1) }
    }
}

/// State shared by both threads.
struct Shared<'a> {
    /// The time of each packet as it stood in it; 0: not sent yet.
    times: &'a [AtomicU64],
    received: AtomicU64,
    over: AtomicBool,
}

/// Send, and learn from the reflections. It ends early if `stop` is set.
///
/// # Errors
/// The socket fails, or there is no route to the reflector; a size below 44 octets.
pub fn measure(options: &StampOptions, stop: &AtomicBool) -> io::Result<StampReport> {
    let point = UdpPoint { packets: options.point.packets.min(MAX_STAMP_PACKETS), ..options.point };
    let wrong = |why: String| io::Error::new(io::ErrorKind::InvalidInput, why);
    point.check().map_err(wrong)?;
    if (point.size as usize) < LEN {
        return Err(wrong(format!(
            "STAMP test packets have at least {LEN} bytes; got {}{}",
            point.size,
            Hint(format_args!("choose a size from {LEN} to 65507"))
        )));
    }
    let any = match options.to {
        SocketAddr::V4(_) => SocketAddr::from((Ipv4Addr::UNSPECIFIED, 0)),
        SocketAddr::V6(_) => SocketAddr::from((Ipv6Addr::UNSPECIFIED, 0)),
    };
    let both = Both::bind(any, &UdpOptions::default())?;
    both.connect(options.to)?;
    both.set_hops(HOPS)?;
    let noted = Noted::new(both.try_clone()?)?;
    let times: Vec<AtomicU64> = (0..point.packets).map(|_| AtomicU64::new(0)).collect();
    let shared = Shared { times: &times, received: AtomicU64::new(0), over: AtomicBool::new(false) };
    let (sent, learned) = std::thread::scope(|scope| {
        let thread = std::thread::Builder::new().name("stamp".to_owned());
        let receiver = thread.spawn_scoped(scope, || receive(noted, &shared))?;
        let sent = send(&both, &point, &shared, stop);
        settle(&shared, options.settle, sent.as_ref().map_or(0, |sent| sent.packets), stop);
        shared.over.store(true, Ordering::Relaxed);
        let learned = receiver.join().map_err(|_| io::Error::other("the receiving thread stopped"))??;
        io::Result::Ok((sent?, learned))
    })?;
    Ok(learned.report(options.to, point, sent, stop.load(Ordering::Relaxed)))
}

fn send(both: &Both, point: &UdpPoint, shared: &Shared<'_>, stop: &AtomicBool) -> io::Result<SentReport> {
    let estimate = estimate();
    let mut head = TestPacket { error_estimate: estimate.0, ..TestPacket::default() };
    send_headed(both, point, stop, |packet, number, _| {
        head.sequence = number as u32;
        head.timestamp = Stamp::of_unix(unix_now()).0;
        shared.times[number as usize].store(head.timestamp, Ordering::Release);
        packet[..LEN].copy_from_slice(&head.write());
    })
}

/// Until all came back, or long enough.
fn settle(shared: &Shared<'_>, wait: Duration, sent: u64, stop: &AtomicBool) {
    let start = Instant::now();
    while shared.received.load(Ordering::Relaxed) < sent
        && start.elapsed() < wait
        && !stop.load(Ordering::Relaxed)
    {
        std::thread::sleep(Duration::from_millis(1));
    }
}

fn receive(mut socket: Noted, shared: &Shared<'_>) -> io::Result<Reflections> {
    let mut learned = Reflections::new();
    while !shared.over.load(Ordering::Relaxed) {
        socket.poll(POLL_INTERVAL, &mut |_, arrival| {
            let at = arrival.time.map_or_else(unix_now, |time| time.0);
            let time = |number: u32| {
                let time = shared.times.get(number as usize)?.load(Ordering::Acquire);
                (time != 0).then_some(time)
            };
            learned.received(arrival.bytes, at, time);
        })?;
        shared.received.store(learned.count(), Ordering::Relaxed);
    }
    Ok(learned)
}

/// Sequence numbers within which lost, late and duplicate reflections are distinguished.
const WINDOW: usize = 1 << 16;
/// Exchanges by which the clocks are compared, at most.
const COMPARED: usize = 1 << 14;

/// What the reflector said of itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReflectorSummary {
    /// By how much its clock may be wrong, nanoseconds; none if it does not say.
    pub clock_error_ns: Option<u64>,
    /// Whether an outer source keeps its clock.
    pub synchronised: bool,
    /// Routers on the way there: what is missing of a time to live of 255. None if it does not say.
    pub hops: Option<u8>,
    /// It counts what it reflects; unknown while that is what it would repeat anyway.
    pub stateful: Option<bool>,
}

/// What a sender learned.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct StampReport {
    /// [`VERSION`](skyhaul::report::VERSION).
    pub version: u32,
    /// Where test packets went.
    pub to: SocketAddr,
    /// What was asked for.
    pub point: UdpPoint,
    /// What was sent.
    pub sent: SentReport,
    /// Packets whose reflection came back.
    pub received: u64,
    /// Packets of which none came back.
    pub lost: u64,
    /// Of these, lost on the way there; a reflector must count for it.
    pub lost_there: Option<u64>,
    /// Of these, lost on the way back.
    pub lost_back: Option<u64>,
    /// Lengths of runs of lost packets.
    pub runs: Distribution,
    /// Reflections that came again.
    pub duplicates: u64,
    /// Reflections that came behind one of a later packet.
    pub reordered: u64,
    /// Datagrams from the reflector that answer nothing that was sent.
    pub rejected: u64,
    /// Nanoseconds on the way, there and back, without the time in the reflector.
    pub round_trip_ns: Distribution,
    /// Nanoseconds in the reflector.
    pub inside_ns: Distribution,
    /// Time on the way there, by clocks made comparable, nanoseconds.
    pub there_ns: Option<OneWayDelay>,
    /// Time on the way back, likewise.
    pub back_ns: Option<OneWayDelay>,
    /// How much longer than the fastest packets' each way there took, nanoseconds: it needs no clock.
    pub there_variation_ns: Distribution,
    /// The same of the ways back.
    pub back_variation_ns: Distribution,
    /// The reflector's clock.
    pub clock: Option<ClockReport>,
    /// What the reflector said.
    pub reflector: ReflectorSummary,
    /// The measurement was interrupted.
    pub interrupted: bool,
}

/// Reflections so far.
#[derive(Debug)]
pub(super) struct Reflections {
    meter: SequenceMeter,
    /// The times of each packet that came back, UNIX nanoseconds.
    exchanges: Vec<Exchange>,
    rejected: u64,
    /// Number and count of the reflection with the highest count of the reflector.
    counted: Option<(u32, u32)>,
    stateful: bool,
    last: Option<Reflection>,
}

impl Reflections {
    pub(super) fn new() -> Self {
        Self {
            meter: SequenceMeter::exact(WINDOW, Some(0)),
            exchanges: Vec::new(),
            rejected: 0,
            counted: None,
            stateful: false,
            last: None,
        }
    }

    /// Packets that came back.
    pub(super) fn count(&self) -> u64 {
        self.exchanges.len() as u64
    }

    /// A datagram came; `time` gives what stood in the packet of a number, if it was sent.
    pub(super) fn received(&mut self, datagram: &[u8], at: u64, time: impl Fn(u32) -> Option<u64>) {
        let reflection = Reflection::of(datagram);
        // Who does not know its time cannot forge a reflection of a packet that is still under way.
        let known = reflection.filter(|one| time(one.sender_sequence) == Some(one.sender_timestamp));
        let Some(reflection) = known else {
            self.rejected += 1;
            return;
        };
        match self.meter.arrived(reflection.sender_sequence.into()) {
            Arrival::InOrder | Arrival::Late { .. } => {}
            Arrival::Duplicate | Arrival::TooLate => return,
        }
        let count = (reflection.sequence, reflection.sender_sequence);
        self.stateful |= count.0 != count.1;
        if self.counted.is_none_or(|counted| counted < count) {
            self.counted = Some(count);
        }
        let estimate = Estimate(reflection.error_estimate);
        self.exchanges.push(Exchange {
            sent: Nanos(Stamp(reflection.sender_timestamp).unix()),
            received: Nanos(Stamp(reflection.receive_timestamp).unix_as(estimate)),
            replied: Nanos(Stamp(reflection.timestamp).unix_as(estimate)),
            returned: Nanos(at),
        });
        self.last = Some(reflection);
    }

    /// Packets lost to the reflector, and back, as far as the reflector counts.
    fn sides(&self, sent: u64) -> (Option<u64>, Option<u64>) {
        let received = self.count();
        match self.counted {
            _ if received == sent => (Some(0), Some(0)),
            Some((count, number)) if self.stateful => {
                // Of `number + 1` packets `count + 1` had arrived there when it was reflected. Nobody tells of those after it.
                let there = u64::from(number).saturating_sub(count.into());
                let back = (u64::from(count) + 1).saturating_sub(received);
                let there = there.min(sent.saturating_sub(received));
                (Some(there), Some(back.min(sent.saturating_sub(received) - there)))
            }
            _ => (None, None),
        }
    }

    pub(super) fn report(
        mut self,
        to: SocketAddr,
        point: UdpPoint,
        sent: SentReport,
        stopped: bool,
    ) -> StampReport {
        self.meter.finish(Some(sent.packets));
        let received = self.count();
        let (lost_there, lost_back) = self.sides(sent.packets);
        let reflector = self.last.map_or_else(ReflectorSummary::default, |last| note(&last, self.stateful));
        let (clock, there_ns, back_ns) = self.clocks();
        let of = |f: fn(&Exchange) -> i64| -> Vec<i64> { self.exchanges.iter().map(f).collect() };
        StampReport {
            version: VERSION,
            to,
            point,
            received,
            lost: sent.packets.saturating_sub(received),
            lost_there,
            lost_back,
            runs: Distribution::from(&self.meter.runs),
            duplicates: self.meter.duplicates + self.meter.too_late,
            reordered: self.meter.reordered,
            rejected: self.rejected,
            round_trip_ns: distribution(&of(Exchange::round_trip), 0),
            inside_ns: distribution(&of(inside), 0),
            there_ns,
            back_ns,
            there_variation_ns: beyond_least(&of(there)),
            back_variation_ns: beyond_least(&of(back)),
            clock,
            reflector,
            interrupted: stopped,
            sent,
        }
    }

    /// The clock of the reflector, and the delays of both ways by it.
    fn clocks(&self) -> (Option<ClockReport>, Option<OneWayDelay>, Option<OneWayDelay>) {
        let step = self.exchanges.len().div_ceil(COMPARED).max(1);
        let compared: Vec<Exchange> = self.exchanges.iter().step_by(step).copied().collect();
        let Some(fit) = ClockFit::new(&compared) else { return (None, None, None) };
        let last = self.exchanges.iter().map(|e| e.returned).max().unwrap_or_default();
        let offset = fit.offset(last);
        let clock = ClockReport {
            exchanges: compared.len() as u64,
            offset_ns: offset.nanos,
            error_ns: offset.error,
            drift_ppm: fit.drift_ppm(),
        };
        let ways = |time: fn(&Exchange) -> i64, sign: i64| {
            let one = |e: &Exchange| {
                let offset = fit.offset(if sign > 0 { e.sent } else { e.returned });
                (time(e).wrapping_sub(sign.wrapping_mul(offset.nanos)), offset.error)
            };
            let error = self.exchanges.iter().map(|e| one(e).1).max().unwrap_or(0);
            delay(self.exchanges.iter().map(|e| one(e).0).collect(), error)
        };
        (Some(clock), ways(there, 1), ways(back, -1))
    }
}

/// Nanoseconds from `b` to `a`, which may be of different clocks.
fn from(b: Nanos, a: Nanos) -> i64 {
    a.0.wrapping_sub(b.0) as i64
}

fn there(e: &Exchange) -> i64 {
    from(e.sent, e.received)
}

fn inside(e: &Exchange) -> i64 {
    from(e.received, e.replied)
}

fn back(e: &Exchange) -> i64 {
    from(e.replied, e.returned)
}

/// What the values are beyond `least`; those below it count as it.
fn distribution(values: &[i64], least: i64) -> Distribution {
    let mut histogram = Histogram::default();
    for value in values {
        histogram.record(u64::try_from(value.saturating_sub(least)).unwrap_or(0));
    }
    Distribution::from(&histogram)
}

fn beyond_least(values: &[i64]) -> Distribution {
    distribution(values, values.iter().copied().min().unwrap_or(0))
}

fn delay(mut all: Vec<i64>, error: u64) -> Option<OneWayDelay> {
    all.sort_unstable();
    let last = all.len().checked_sub(1)?;
    let at = |part: f64| all[(last as f64 * part).round() as usize] as f64;
    Some(OneWayDelay { least: at(0.0), median: at(0.5), p99: at(0.99), most: at(1.0), error: error as f64 })
}

fn note(last: &Reflection, stateful: bool) -> ReflectorSummary {
    let estimate = Estimate(last.error_estimate);
    ReflectorSummary {
        clock_error_ns: estimate.nanoseconds(),
        synchronised: estimate.synchronized(),
        hops: (last.sender_ttl != 0).then(|| 255 - last.sender_ttl),
        stateful: stateful.then_some(true),
    }
}

#[cfg(test)]
mod tests;
