//! The sender of one flow: each packet at its time.

use super::point::{SentReport, SpacingMode, UdpPoint};
use skyhaul::report::Distribution;
use skyhaul_core::measure::Histogram;
use skyhaul_core::pace::GapPacer;
use skyhaul_core::placement::Nanos;
use skyhaul_core::wire::probe::Probe;
use skyhaul_io::host::thread::cpu_time;
use skyhaul_io::udp::both::Both;
use skyhaul_io::udp::send::{SendOptions, UdpSender};
use std::io;
use std::io::IoSlice;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Delay of bursts that is made up; what is beyond moves the schedule, and is counted.
const SLACK: Nanos = Nanos(2_000_000);
/// The same for evenly spaced packets, where each gap makes up a little: a few time slices of other threads on this CPU.
const SMOOTH_SLACK: Nanos = Nanos(20_000_000);
/// Longest sleep between two looks at the flag that stops it.
const MAX_SLEEP: Duration = Duration::from_millis(20);
/// A packet that is due later than this lets the thread sleep.
const SLEEP_THRESHOLD: Duration = Duration::from_micros(300);
/// For how long before its time the thread is awake.
const SPIN_TIME: Duration = Duration::from_micros(150);

/// Send the packets of a point on `both`, as `run` and `flow`; `count` is raised by each.
///
/// # Errors
/// An error that prevents all sending; one that ends it early is in the report.
pub(super) fn send(
    both: &Both,
    run: u32,
    flow: u16,
    point: &UdpPoint,
    stop: &AtomicBool,
    count: &AtomicU64,
) -> io::Result<SentReport> {
    let before = cpu_time();
    if point.mode == SpacingMode::Kernel {
        both.pace(point.rate().map(|bits| (bits / 8.0) as u64))?;
    }
    if point.whole {
        both.forbid_fragments(true)?;
    }
    let wall = Wall::now();
    let head = Probe { run, flow, ask: u8::from(point.ask), ..Probe::of(point.size as usize) };
    let put = |packet: &mut [u8], number: u64, now: Duration| {
        Probe { number, sent: wall.unix(now), ..head }.put(packet);
    };
    let mut sending = Sending::new(both, (head, wall), put, point, (stop, count))?;
    let result = sending.run();
    if point.mode == SpacingMode::Kernel {
        both.pace(None)?;
    }
    if point.whole {
        both.forbid_fragments(false)?;
    }
    let mut sent = sending.finish();
    sent.error = result.err().map(|error| error.to_string());
    sent.cpu_seconds = (cpu_time() - before).as_secs_f64();
    Ok(sent)
}

/// Send packets of another protocol, one by one: `put` writes the head of each, by its number and the time since the beginning.
///
/// # Errors
/// As [`send`].
pub(in crate::probe) fn send_headed(
    both: &Both,
    point: &UdpPoint,
    stop: &AtomicBool,
    put: impl FnMut(&mut [u8], u64, Duration),
) -> io::Result<SentReport> {
    let before = cpu_time();
    let count = AtomicU64::new(0);
    let mut sending = Sending::new(both, (Probe::default(), Wall::now()), put, point, (stop, &count))?;
    let result = sending.run();
    let mut sent = sending.finish();
    sent.error = result.err().map(|error| error.to_string());
    sent.cpu_seconds = (cpu_time() - before).as_secs_f64();
    Ok(sent)
}

/// When packets are due, from the beginning on.
fn pacer(point: &UdpPoint) -> GapPacer {
    let zero = Nanos(0);
    match (point.burst, point.mode) {
        (Some(burst), _) => GapPacer::bursts(burst.packets, point.spacing_ps, burst.period_ps, zero, SLACK),
        (None, SpacingMode::Trains) => {
            GapPacer::trains(point.train, point.spacing_ps, zero, SMOOTH_SLACK).smooth()
        }
        (None, _) => GapPacer::even(point.spacing_ps, zero, SMOOTH_SLACK).smooth(),
    }
}

/// UNIX time at one moment of the steady clock: later ones follow from it, so that a step of the wall clock during a run
/// is seen by comparing with the kernel's stamps, and does not disturb what is sent.
#[derive(Clone, Copy, Debug)]
struct Wall {
    at: Instant,
    unix: u64,
}

/// UNIX time now, in nanoseconds.
pub(in crate::probe) fn unix_now() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Nanos::from(since).0
}

impl Wall {
    fn now() -> Self {
        Self { at: Instant::now(), unix: unix_now() }
    }

    /// The moment at which it was taken.
    fn origin(&self) -> Instant {
        self.at
    }

    /// UNIX nanoseconds so long after it.
    fn unix(&self, after: Duration) -> u64 {
        self.unix.saturating_add(Nanos::from(after).0)
    }
}

struct Sending<'a, P> {
    both: &'a Both,
    trains: Option<UdpSender>,
    point: &'a UdpPoint,
    /// The head of packets in trains.
    head: Probe,
    /// Writes the head of a single packet.
    put: P,
    packet: Vec<u8>,
    wall: Wall,
    gaps: Histogram,
    /// Gaps within a fifth of the spacing asked for.
    close: u64,
    first: Option<Duration>,
    last: Duration,
    pacer: GapPacer,
    stop: &'a AtomicBool,
    count: &'a AtomicU64,
    number: u64,
    sent: SentReport,
}

impl<'a, P: FnMut(&mut [u8], u64, Duration)> Sending<'a, P> {
    fn new(
        both: &'a Both,
        (head, wall): (Probe, Wall),
        put: P,
        point: &'a UdpPoint,
        (stop, count): (&'a AtomicBool, &'a AtomicU64),
    ) -> io::Result<Self> {
        let trains = match point.mode {
            SpacingMode::Trains => Some(both.sender(&SendOptions::default())?),
            SpacingMode::Single | SpacingMode::Kernel => None,
        };
        let size = point.size as usize;
        let packet = (0..size).map(|n| n as u8).collect();
        Ok(Self {
            both,
            trains,
            point,
            head,
            put,
            packet,
            wall,
            gaps: Histogram::default(),
            close: 0,
            first: None,
            last: Duration::ZERO,
            pacer: pacer(point),
            stop,
            count,
            number: 0,
            sent: SentReport::default(),
        })
    }

    fn run(&mut self) -> io::Result<()> {
        let longest = Duration::from_nanos(self.point.longest_ns);
        let step = if self.trains.is_some() { u64::from(self.point.train) } else { 1 };
        let paced = self.point.mode != SpacingMode::Kernel
            && (self.point.spacing_ps > 0 || self.point.burst.is_some());
        while self.number < self.point.packets {
            let now = if paced { self.wait() } else { self.wall.origin().elapsed() };
            if now > longest || self.stop.load(Ordering::Relaxed) {
                break;
            }
            self.note(now);
            let count = step.min(self.point.packets - self.number);
            if self.trains.is_some() {
                self.train(now, count)?;
            } else {
                self.single(now)?;
            }
            self.pacer.sent(count, Nanos::from(now));
            self.number += count;
            self.count.fetch_add(count, Ordering::Relaxed);
        }
        Ok(())
    }

    /// Await the time of the next packet: asleep while it is far, then looking at the clock.
    fn wait(&self) -> Duration {
        let due = Duration::from_nanos(self.pacer.due().0);
        loop {
            let now = self.wall.origin().elapsed();
            if now >= due {
                return now;
            }
            let left = due - now;
            if left > SLEEP_THRESHOLD {
                std::thread::sleep((left - SPIN_TIME).min(MAX_SLEEP));
                if self.stop.load(Ordering::Relaxed) {
                    return now;
                }
            } else {
                std::hint::spin_loop();
            }
        }
    }

    fn note(&mut self, now: Duration) {
        if self.first.is_none() {
            self.first = Some(now);
        } else {
            let gap = Nanos::from(now - self.last).0;
            self.gaps.record(gap);
            let train = if self.trains.is_some() { u128::from(self.point.train) } else { 1 };
            let asked = u128::from(self.point.spacing_ps) * train / 1000;
            let off = u128::from(gap).abs_diff(asked);
            self.close += u64::from(off * 5 <= asked);
        }
        self.last = now;
    }

    #[inline]
    fn single(&mut self, now: Duration) -> io::Result<()> {
        (self.put)(&mut self.packet, self.number, now);
        let mut retries = 0;
        loop {
            match self.both.send(&self.packet) {
                Ok(bytes) => {
                    self.sent.bytes += bytes as u64;
                    return Ok(());
                }
                Err(error) => match error.raw_os_error().unwrap_or(0) {
                    // What routers or the peer reported of an earlier packet is told once.
                    code if UNREACHABLE.contains(&code) && retries < 3 => {
                        self.sent.unreachable += 1;
                        retries += 1;
                    }
                    code if code == ERRNO_INTR => {}
                    code if code == ERRNO_NOBUFS || code == ERRNO_AGAIN => {
                        self.sent.refused += 1;
                        return Ok(());
                    }
                    _ => return Err(error),
                },
            }
        }
    }

    fn train(&mut self, now: Duration, count: u64) -> io::Result<()> {
        let Some(sender) = &mut self.trains else { return Ok(()) };
        let sent = self.wall.unix(now);
        let train = count as u16;
        let head =
            |place: u64| Probe { number: self.number + place, place: place as u16, train, sent, ..self.head };
        let headers: Vec<[u8; Probe::LEN]> = (0..count).map(|place| head(place).sealed()).collect();
        let payload = &self.packet[Probe::LEN..];
        let packets: Vec<[IoSlice<'_>; 2]> =
            headers.iter().map(|header| [IoSlice::new(header), IoSlice::new(payload)]).collect();
        let done = sender.send_train(&packets)?;
        self.sent.bytes += done.bytes as u64;
        self.sent.refused += done.refused as u64;
        Ok(())
    }

    fn finish(mut self) -> SentReport {
        let spacing = Duration::from_nanos(self.gaps.mean() as u64);
        let seconds = self.first.map_or(0.0, |first| (self.last + spacing - first).as_secs_f64());
        let gaps = self.gaps.count().max(1);
        if let Some(sender) = &self.trains {
            self.sent.unreachable = sender.stats().unreachable;
        }
        SentReport {
            packets: self.number,
            seconds,
            gaps_ns: Distribution::from(&self.gaps),
            within_fifth: self.close as f64 / gaps as f64,
            given_up_seconds: self.pacer.forgiven().0 as f64 / 1e9,
            how: self.how(),
            ..self.sent
        }
    }

    fn how(&self) -> String {
        match (&self.trains, self.point.mode) {
            (Some(sender), _) => {
                let stats = sender.stats();
                format!("trains of {}, {} ({})", self.point.train, stats.mode.name(), stats.because)
            }
            (None, SpacingMode::Kernel) => "single packets, spaced by the kernel".to_owned(),
            (None, _) => "single packets, spaced by this thread".to_owned(),
        }
    }
}

const ERRNO_INTR: i32 = 4;
const ERRNO_AGAIN: i32 = 11;
const ERRNO_NOBUFS: i32 = 105;
/// ENETUNREACH, ECONNREFUSED, EHOSTDOWN, EHOSTUNREACH.
const UNREACHABLE: [i32; 4] = [101, 111, 112, 113];
