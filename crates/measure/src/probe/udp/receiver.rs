//! The receiver of one flow: a thread that meters test packets, answers pings and takes pongs.
//!
//! A [`Meter`] has a fixed size, whatever arrives.

use super::point::{ArrivalTimes, ReceivedReport};
use super::protocol::{ControlDatagram, Handshake, is_control};
use super::sender::unix_now;
use skyhaul::report::Distribution;
use skyhaul_core::measure::{Arrival, Histogram, SequenceMeter};
use skyhaul_core::wire::probe::Probe;
use skyhaul_io::host::thread::cpu_time;
use skyhaul_io::lock::lock;
use skyhaul_io::source::{Source, Train};
use skyhaul_io::udp::both::Both;
use skyhaul_io::udp::{UdpOptions, UdpSource};
use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Sequence numbers within which lost, late and duplicate packets are distinguished exactly.
const WINDOW: usize = 1 << 16;
/// Losses kept as ranges of numbers.
const LOSSES: usize = 1024;

/// Arrivals by one kind of stamp.
#[derive(Clone, Debug, Default)]
struct Stamps {
    first: Option<u64>,
    last: u64,
    sent: u64,
    gaps: Histogram,
    /// |change of the time under way| from one arrival to the next.
    variation: Histogram,
    /// RFC 3550, 6.4.1, in nanoseconds.
    jitter: f64,
}

impl Stamps {
    /// An arrival at `time` of what was sent at `sent`.
    #[inline]
    fn arrived(&mut self, time: u64, sent: u64) {
        if self.first.is_none() {
            self.first = Some(time);
        } else {
            self.gaps.record(time.saturating_sub(self.last));
            let change =
                i128::from(time) - i128::from(self.last) - (i128::from(sent) - i128::from(self.sent));
            let change = u64::try_from(change.unsigned_abs()).unwrap_or(u64::MAX);
            self.variation.record(change);
            self.jitter += (change as f64 - self.jitter) / 16.0;
        }
        (self.last, self.sent) = (time, sent);
    }

    fn report(&self) -> ArrivalTimes {
        ArrivalTimes {
            seconds: self.first.map_or(0.0, |first| self.last.saturating_sub(first) as f64 / 1e9),
            gaps_ns: Distribution::from(&self.gaps),
            variation_ns: Distribution::from(&self.variation),
            jitter_ns: self.jitter,
        }
    }
}

/// Some of the packets, evenly chosen: every second is dropped whenever there are too many.
#[derive(Clone, Debug)]
pub(super) struct Samples {
    kept: Vec<(u64, u64, u64)>,
    most: usize,
    stride: u64,
    count: u64,
}

impl Samples {
    pub(super) fn new(most: usize) -> Self {
        Self { kept: Vec::with_capacity(most), most: most.max(2), stride: 1, count: 0 }
    }

    /// Note (number, sent, arrived) of a packet, if it is its turn.
    #[inline]
    pub(super) fn note(&mut self, sample: (u64, u64, u64)) {
        if self.count.is_multiple_of(self.stride) {
            if self.kept.len() == self.most {
                let mut n = 0;
                self.kept.retain(|_| {
                    n += 1;
                    n % 2 == 1
                });
                self.stride *= 2;
            }
            if self.count.is_multiple_of(self.stride) {
                self.kept.push(sample);
            }
        }
        self.count += 1;
    }
}

/// The meter of one flow in one point.
#[derive(Clone, Debug)]
pub(super) struct Meter {
    /// Number of the point.
    pub(super) run: u32,
    sequence: SequenceMeter,
    bytes: u64,
    arrivals: u64,
    dropped: u64,
    wrong_size: u64,
    size: u32,
    user: Stamps,
    kernel: Stamps,
    /// Nanoseconds from sending to arrival, where arrival is not before by unequal clocks.
    transit: Histogram,
    samples: Samples,
    losses: Losses,
}

/// Ranges of numbers that are missing when later ones arrive: an estimate of where losses are, for plots. A late packet
/// closes its hole.
#[derive(Clone, Debug, Default)]
struct Losses {
    next: u64,
    holes: Vec<(u64, u64)>,
    left_out: u64,
}

impl Losses {
    fn arrived(&mut self, number: u64, arrival: Arrival) {
        match arrival {
            Arrival::InOrder => {
                if number > self.next {
                    self.hole(self.next, number);
                }
                self.next = number.saturating_add(1);
            }
            Arrival::Late { .. } => self.fill(number),
            Arrival::Duplicate | Arrival::TooLate => {}
        }
    }

    fn hole(&mut self, from: u64, to: u64) {
        if self.holes.len() < LOSSES { self.holes.push((from, to)) } else { self.left_out += 1 }
    }

    fn fill(&mut self, number: u64) {
        let at = self.holes.partition_point(|hole| hole.1 <= number);
        let Some(&(from, to)) = self.holes.get(at).filter(|hole| hole.0 <= number) else { return };
        match (from == number, to == number + 1) {
            (true, true) => drop(self.holes.remove(at)),
            (true, false) => self.holes[at].0 = number + 1,
            (false, true) => self.holes[at].1 = number,
            (false, false) => {
                self.holes[at].1 = number;
                if self.holes.len() < LOSSES {
                    self.holes.insert(at + 1, (number + 1, to));
                } else {
                    self.left_out += 1;
                }
            }
        }
    }
}

impl Meter {
    /// For point `run` with datagrams of `size`, of which `samples` are kept.
    pub(super) fn new(run: u32, size: u32, samples: usize) -> Self {
        Self {
            run,
            sequence: SequenceMeter::exact(WINDOW, Some(0)),
            bytes: 0,
            arrivals: 0,
            dropped: 0,
            wrong_size: 0,
            size,
            user: Stamps::default(),
            kernel: Stamps::default(),
            transit: Histogram::default(),
            samples: Samples::new(samples),
            losses: Losses::default(),
        }
    }

    /// A train with packets of this point; `now` is the time at which this program saw it. The stamps are of a train.
    pub(super) fn train(&mut self, train: &Train<'_>, first: &Probe, now: u64) {
        self.arrivals += 1;
        self.dropped += u64::from(train.dropped);
        self.user.arrived(now, first.sent);
        if let Some(time) = train.time {
            self.kernel.arrived(time.0, first.sent);
        }
    }

    #[inline]
    pub(super) fn packet(&mut self, head: &Probe, length: usize, arrived: u64) {
        let arrival = self.sequence.arrived(head.number);
        self.bytes += length as u64;
        self.wrong_size += u64::from(length != self.size as usize);
        self.losses.arrived(head.number, arrival);
        self.transit.record(arrived.saturating_sub(head.sent));
        self.samples.note((head.number, head.sent, arrived));
    }

    /// Packets so far, each number once.
    pub(super) fn unique(&self) -> u64 {
        self.sequence.packets - self.sequence.duplicates - self.sequence.too_late
    }

    /// The end where nobody says how many were sent: as many as the highest number says.
    pub(super) fn finish_at_highest(self) -> ReceivedReport {
        let sent = self.sequence.next().unwrap_or(0);
        self.finish(sent)
    }

    /// The end: the sender says that it sent numbers up to `sent`.
    pub(super) fn finish(mut self, sent: u64) -> ReceivedReport {
        self.sequence.finish(Some(sent));
        if sent > self.losses.next {
            self.losses.hole(self.losses.next, sent);
        }
        let base = self.samples.kept.first().map_or(0, |first| first.1);
        let relative = |&(number, sent, arrived): &(u64, u64, u64)| {
            (number, sent.wrapping_sub(base) as i64, arrived.wrapping_sub(sent) as i64)
        };
        let s = &self.sequence;
        ReceivedReport {
            packets: s.packets,
            bytes: self.bytes,
            arrivals: self.arrivals,
            lost: s.lost,
            duplicates: s.duplicates,
            too_late: s.too_late,
            reordered: s.reordered,
            extent: Distribution::from(&s.extent),
            runs: Distribution::from(&s.runs),
            distance: Distribution::from(&s.distance),
            wrong_size: self.wrong_size,
            socket_drops: self.dropped,
            user: self.user.report(),
            kernel: self.kernel.first.map(|_| self.kernel.report()),
            transit_ns: Distribution::from(&self.transit),
            base_ns: base,
            samples: self.samples.kept.iter().map(relative).collect(),
            losses: self.losses.holes,
            losses_left_out: self.losses.left_out,
            ..ReceivedReport::default()
        }
    }
}

/// How often it checks whether to stop.
const POLL_INTERVAL: Duration = Duration::from_millis(20);
/// On one host, for how long after a packet it looks for the next before it sleeps: there a sender wakes the receiver's
/// CPU itself, which takes up to 10 us and makes the gaps uneven.
const SPIN_TIME: Duration = Duration::from_micros(100);
/// Most exchanges of times that are kept.
const MAX_NEW_EXCHANGES: usize = 1 << 14;

/// One exchange of times, in nanoseconds: sent here, came there, left there, came here.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Exchange {
    pub(super) sent: u64,
    pub(super) came: u64,
    pub(super) back: u64,
    pub(super) here: u64,
}

/// State shared by both threads.
#[derive(Debug)]
struct Shared {
    test: u64,
    flow: u16,
    stop: AtomicBool,
    state: Mutex<State>,
    /// Packets of the point at hand, each once.
    unique: AtomicU64,
    /// When the last of them came, UNIX nanoseconds.
    last: AtomicU64,
    /// Polls that found nothing.
    empty: AtomicU64,
}

#[derive(Debug, Default)]
struct State {
    meter: Option<Meter>,
    exchanges: Vec<Exchange>,
    strays: u64,
    cpu: Duration,
    error: Option<String>,
}

/// The thread.
#[derive(Debug)]
pub(super) struct Receiver {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
    cpu_before: Duration,
}

impl Receiver {
    /// Receive on `both`, whatever comes from its peer.
    pub(super) fn start(both: &Both, test: u64, flow: u16, options: &UdpOptions) -> io::Result<Self> {
        let source = both.source(options)?;
        let replies = both.try_clone()?;
        let shared = Arc::new(Shared {
            test,
            flow,
            stop: AtomicBool::new(false),
            state: Mutex::default(),
            unique: AtomicU64::new(0),
            last: AtomicU64::new(0),
            empty: AtomicU64::new(0),
        });
        let mine = shared.clone();
        let processors = std::thread::available_parallelism().map_or(1, usize::from);
        let awake = if both.is_own() && processors > 1 { SPIN_TIME } else { Duration::ZERO };
        let thread = std::thread::Builder::new().name(format!("probe {flow}"));
        let thread = Some(thread.spawn(move || receive(source, &replies, &mine, awake))?);
        Ok(Self { shared, thread, cpu_before: Duration::ZERO })
    }

    /// Meter the packets of a point from here on.
    pub(super) fn begin(&mut self, meter: Meter) {
        let mut state = lock(&self.shared.state);
        state.meter = Some(meter);
        self.cpu_before = state.cpu;
        self.shared.unique.store(0, Ordering::Relaxed);
        self.shared.last.store(unix_now(), Ordering::Relaxed);
    }

    /// Packets of the point so far, and how long ago the last one came.
    pub(super) fn progress(&self) -> (u64, Duration) {
        let last = self.shared.last.load(Ordering::Relaxed);
        let unique = self.shared.unique.load(Ordering::Relaxed);
        (unique, Duration::from_nanos(unix_now().saturating_sub(last)))
    }

    /// How often it looked and found nothing. Where that does not grow, the kernel may hold packets that it had no time to read.
    pub(super) fn empty(&self) -> u64 {
        self.shared.empty.load(Ordering::Relaxed)
    }

    /// The end of the point, in which `sent` packets were sent.
    pub(super) fn finish(&mut self, sent: u64) -> Option<ReceivedReport> {
        let mut state = lock(&self.shared.state);
        let cpu = state.cpu.saturating_sub(self.cpu_before);
        let meter = state.meter.take()?;
        drop(state);
        Some(ReceivedReport { cpu_seconds: cpu.as_secs_f64(), ..meter.finish(sent) })
    }

    /// The exchanges of times since the last call.
    pub(super) fn exchanges(&self) -> Vec<Exchange> {
        std::mem::take(&mut lock(&self.shared.state).exchanges)
    }

    /// Why it ended, if it did.
    pub(super) fn error(&self) -> Option<String> {
        lock(&self.shared.state).error.clone()
    }

    /// Datagrams that were of no point, or of none at hand.
    pub(super) fn strays(&self) -> u64 {
        lock(&self.shared.state).strays
    }
}

impl Drop for Receiver {
    fn drop(&mut self) {
        self.shared.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            // A panic there was reported where it happened.
            let _ = thread.join();
        }
    }
}

fn receive(mut source: UdpSource, replies: &Both, shared: &Shared, awake: Duration) {
    // Until when it looks, instead of sleeping.
    let mut until = Instant::now();
    while !shared.stop.load(Ordering::Relaxed) {
        let looks = !awake.is_zero() && Instant::now() < until;
        let wait = if looks { Duration::ZERO } else { POLL_INTERVAL };
        let polled = source.poll(wait, &mut |train| take(&train, replies, shared));
        if matches!(polled, Ok(0)) {
            shared.empty.fetch_add(1, Ordering::Relaxed);
        }
        if looks && matches!(polled, Ok(0)) {
            // Others may have the processor.
            std::thread::yield_now();
            continue;
        }
        if matches!(polled, Ok(1..)) {
            until = Instant::now() + awake;
        }
        let mut state = lock(&shared.state);
        state.cpu = cpu_time();
        if let Err(error) = polled {
            state.error = Some(error.to_string());
            return;
        }
    }
}

fn take(train: &Train<'_>, replies: &Both, shared: &Shared) {
    let now = unix_now();
    let arrived = train.time.map_or(now, |time| time.0);
    let mut state = lock(&shared.state);
    let state = &mut *state;
    let mut first = true;
    for packet in train.packets() {
        if is_control(packet) {
            state.small(packet, arrived, replies, shared);
            continue;
        }
        let Ok(head) = Probe::parse(packet) else {
            state.strays += 1;
            continue;
        };
        if head.ask == 1 {
            // As long as what came, to the only address that is ever sent to. One that has no room is lost on its way.
            let mut back = packet.to_vec();
            Probe { ask: 0, reply: 1, ..head }.put(&mut back);
            let _ = replies.send(&back);
        }
        match &mut state.meter {
            Some(meter) if meter.run == head.run && shared.flow == head.flow => {
                if std::mem::take(&mut first) {
                    meter.train(train, &head, now);
                }
                meter.packet(&head, packet.len(), arrived);
            }
            _ => state.strays += 1,
        }
    }
    if let Some(meter) = state.meter.as_ref().filter(|_| !first) {
        shared.unique.store(meter.unique(), Ordering::Relaxed);
        shared.last.store(now, Ordering::Relaxed);
    }
}

impl State {
    #[cold]
    fn small(&mut self, packet: &[u8], arrived: u64, replies: &Both, shared: &Shared) {
        match ControlDatagram::read(packet) {
            Ok(ControlDatagram { test, flow, meeting }) if test == shared.test && flow == shared.flow => {
                match meeting {
                    Handshake::Ping { number, sent } => {
                        let meeting = Handshake::Pong { number, sent, came: arrived, back: unix_now() };
                        // One that is not answered is one exchange less.
                        let _ = replies.send(&ControlDatagram { test, flow, meeting }.octets());
                    }
                    Handshake::Pong { sent, came, back, .. } if self.exchanges.len() < MAX_NEW_EXCHANGES => {
                        self.exchanges.push(Exchange { sent, came, back, here: arrived });
                    }
                    // The client did not hear that it may begin.
                    Handshake::Echo(_) => {
                        let _ =
                            replies.send(&ControlDatagram { test, flow, meeting: Handshake::Ready }.octets());
                    }
                    // Repeated ones of the meeting.
                    _ => {}
                }
            }
            _ => self.strays += 1,
        }
    }
}

/// Most exchanges that are kept; every second is dropped when there are more.
const MAX_EXCHANGES: usize = 1 << 16;

/// Keep more of them.
pub(super) fn keep(all: &mut Vec<Exchange>, more: Vec<Exchange>) {
    all.extend(more);
    while all.len() > MAX_EXCHANGES {
        let mut n = 0;
        all.retain(|_| {
            n += 1;
            n % 2 == 1
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::SocketAddr;

    fn meter(numbers: &[u64], sent: u64) -> ReceivedReport {
        let from = SocketAddr::from(([127, 0, 0, 1], 1));
        let mut meter = Meter::new(1, 100, 4);
        for (at, &number) in numbers.iter().enumerate() {
            let head = Probe { run: 1, number, sent: number * 1000, ..Probe::of(100) };
            let now = at as u64 * 1000 + 500;
            meter.train(&Train::single(&[], &from), &head, now);
            meter.packet(&head, 100, now);
        }
        meter.finish(sent)
    }

    #[test]
    fn lost_late_and_doubled_packets_are_told_apart_and_losses_have_a_place() {
        let got = meter(&[0, 1, 4, 2, 4, 7, 9], 12);
        assert_eq!((got.packets, got.lost, got.reordered, got.duplicates), (7, 6, 1, 1));
        assert_eq!(got.losses, [(3, 4), (5, 7), (8, 9), (10, 12)]);
        assert_eq!(got.bytes, 700);
        assert!(got.kernel.is_none());
        assert_eq!(got.user.gaps_ns.count, 6);
        assert!((got.user.gaps_ns.mean - 1000.0).abs() < 2.0);
        let clean = meter(&[0, 1, 2, 3], 4);
        assert_eq!((clean.lost, clean.losses.len()), (0, 0));
        assert!(clean.user.jitter_ns < 1e-9, "evenly sent and received");
    }

    #[test]
    fn a_hole_is_closed_by_late_packets_wherever_they_fall() {
        let whole = meter(&[0, 6, 3, 1, 5, 2, 4], 7);
        assert_eq!((whole.lost, whole.losses.len(), whole.reordered), (0, 0, 5));
    }

    #[test]
    fn samples_are_even_and_few() {
        let mut samples = Samples::new(8);
        (0..1000).for_each(|n| samples.note((n, 0, 0)));
        let numbers: Vec<u64> = samples.kept.iter().map(|s| s.0).collect();
        assert!(numbers.len() <= 8 && numbers.len() >= 4, "{numbers:?}");
        let step = numbers[1] - numbers[0];
        assert!(numbers.windows(2).all(|w| w[1] - w[0] == step), "{numbers:?}");
    }

    #[test]
    fn exchanges_of_a_long_run_are_thinned() {
        let mut all = Vec::new();
        for n in 0..3 * MAX_EXCHANGES as u64 {
            keep(&mut all, vec![Exchange { sent: n, ..Exchange::default() }]);
        }
        assert!(all.len() <= MAX_EXCHANGES && all.len() > MAX_EXCHANGES / 4);
        assert!(all.windows(2).all(|two| two[0].sent < two[1].sent));
    }
}
