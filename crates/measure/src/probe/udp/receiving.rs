//! The receiver of one flow: a thread that meters test packets, answers pings and takes pongs.

use super::clock::unix_now;
use super::meeting::{Meeting, Small, is_small};
use super::meter::Meter;
use super::report::Received;
use skyhaul_core::wire::probe::Probe;
use skyhaul_io::host::thread::cpu_time;
use skyhaul_io::source::{Source, Train};
use skyhaul_io::udp::both::Both;
use skyhaul_io::udp::{UdpOptions, UdpSource};
use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// How long it waits for packets before it looks whether to stop.
const LOOK: Duration = Duration::from_millis(20);
/// On one host, for how long after a packet it looks for the next before it sleeps: there a sender wakes the receiver's
/// processor itself, which takes it up to 10 us and makes its gaps uneven.
const AWAKE: Duration = Duration::from_micros(100);
/// Most exchanges of times that are kept.
const EXCHANGES: usize = 1 << 14;

/// One exchange of times, in nanoseconds: sent here, came there, left there, came here.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Exchange {
    pub(super) sent: u64,
    pub(super) came: u64,
    pub(super) back: u64,
    pub(super) here: u64,
}

/// What both threads see.
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
    /// Looks that found nothing.
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

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
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
        let awake = if both.is_own() && processors > 1 { AWAKE } else { Duration::ZERO };
        let thread = std::thread::Builder::new().name(format!("probe {flow}"));
        let thread = Some(thread.spawn(move || receive(source, &replies, &mine, awake))?);
        Ok(Self { shared, thread, cpu_before: Duration::ZERO })
    }

    /// Meter the packets of a point from here on.
    pub(super) fn begin(&mut self, meter: Meter) {
        let mut state = self.shared.state();
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
    pub(super) fn finish(&mut self, sent: u64) -> Option<Received> {
        let mut state = self.shared.state();
        let cpu = state.cpu.saturating_sub(self.cpu_before);
        let meter = state.meter.take()?;
        drop(state);
        Some(Received { cpu_seconds: cpu.as_secs_f64(), ..meter.finish(sent) })
    }

    /// The exchanges of times since the last call.
    pub(super) fn exchanges(&self) -> Vec<Exchange> {
        std::mem::take(&mut self.shared.state().exchanges)
    }

    /// Why it ended, if it did.
    pub(super) fn error(&self) -> Option<String> {
        self.shared.state().error.clone()
    }

    /// Datagrams that were of no point, or of none at hand.
    pub(super) fn strays(&self) -> u64 {
        self.shared.state().strays
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
        let wait = if looks { Duration::ZERO } else { LOOK };
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
        let mut state = shared.state();
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
    let mut state = shared.state();
    let state = &mut *state;
    let mut first = true;
    for packet in train.packets() {
        if is_small(packet) {
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
        match Small::read(packet) {
            Ok(Small { test, flow, meeting }) if test == shared.test && flow == shared.flow => {
                match meeting {
                    Meeting::Ping { number, sent } => {
                        let meeting = Meeting::Pong { number, sent, came: arrived, back: unix_now() };
                        // One that is not answered is one exchange less.
                        let _ = replies.send(&Small { test, flow, meeting }.octets());
                    }
                    Meeting::Pong { sent, came, back, .. } if self.exchanges.len() < EXCHANGES => {
                        self.exchanges.push(Exchange { sent, came, back, here: arrived });
                    }
                    // The client did not hear that it may begin.
                    Meeting::Echo(_) => {
                        let _ = replies.send(&Small { test, flow, meeting: Meeting::Ready }.octets());
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
const KEPT: usize = 1 << 16;

/// Keep more of them.
pub(super) fn keep(all: &mut Vec<Exchange>, more: Vec<Exchange>) {
    all.extend(more);
    while all.len() > KEPT {
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

    #[test]
    fn exchanges_of_a_long_run_are_thinned() {
        let mut all = Vec::new();
        for n in 0..3 * KEPT as u64 {
            keep(&mut all, vec![Exchange { sent: n, ..Exchange::default() }]);
        }
        assert!(all.len() <= KEPT && all.len() > KEPT / 4);
        assert!(all.windows(2).all(|two| two[0].sent < two[1].sent));
    }
}
