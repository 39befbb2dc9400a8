//! When packets are due: rates and bursts, the clock, and requests of other threads to a sending one.

use super::{Outlet, SendError};
use crate::control::Progress;
use serde::{Deserialize, Serialize};
use skyhaul_core::control::ControlConfig;
use skyhaul_core::hint::Hint;
use skyhaul_core::placement::Nanos;
use skyhaul_io::lock::lock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard};
use std::time::{Duration, Instant};

/// What other threads say to the one that sends.
#[derive(Debug)]
pub struct SendControl {
    /// Jobs with lower numbers are cancelled.
    pub cancelled_below: AtomicU64,
    /// Bits per second.
    pub rate: AtomicU64,
    /// When the wait for a gap in the data ends, nanoseconds of the sender's clock; 0 without one.
    pub resumes: AtomicU64,
    /// What was sent so far.
    pub stats: Mutex<SendStats>,
    /// Where receivers control the rate: the state for each.
    pub progress: Mutex<Vec<Progress>>,
    nap: Mutex<()>,
    wake: Condvar,
}

impl SendControl {
    /// Nothing is cancelled; `rate` in bits per second.
    #[must_use]
    pub fn new(rate: u64) -> Self {
        Self {
            cancelled_below: AtomicU64::new(0),
            rate: AtomicU64::new(rate),
            resumes: AtomicU64::new(0),
            stats: Mutex::default(),
            progress: Mutex::default(),
            nap: Mutex::default(),
            wake: Condvar::new(),
        }
    }

    /// Whether job `number` is cancelled.
    #[inline]
    pub fn is_cancelled(&self, number: u64) -> bool {
        number < self.cancelled_below.load(Ordering::Relaxed)
    }

    /// Wake a sender that waits for its time.
    pub fn wake(&self) {
        drop(lock(&self.nap));
        self.wake.notify_all();
    }

    /// The counts, to read or to add to.
    pub fn stats(&self) -> MutexGuard<'_, SendStats> {
        lock(&self.stats)
    }
}

/// The time, and waiting for it.
pub trait Clock: Send {
    /// Nanoseconds since the clock began.
    fn now(&self) -> Nanos;
    /// Sleep until about `due`, or until something changed (`still` is false).
    fn wait(&self, due: Nanos, control: &SendControl, still: &dyn Fn() -> bool);
}

/// This machine's clock, counted from an instant.
#[derive(Debug)]
pub struct Real(pub Instant);

impl Clock for Real {
    fn now(&self) -> Nanos {
        Nanos::from(self.0.elapsed())
    }

    /// A little longer than needed where that is soon: to sleep and be woken costs some µs of CPU time, so at high
    /// rates some trains go out together, and the pacer keeps the rate.
    fn wait(&self, due: Nanos, control: &SendControl, still: &dyn Fn() -> bool) {
        const SHORTEST: Duration = Duration::from_micros(60);
        const SHORT: Duration = Duration::from_millis(2);
        /// Not everything that ends a wait also wakes it.
        const LONGEST: Duration = Duration::from_millis(50);
        let left = Duration::from_nanos(due.0.saturating_sub(self.now().0));
        if left <= SHORT {
            std::thread::sleep(left.max(SHORTEST));
            return;
        }
        let nap = lock(&control.nap);
        if still() {
            drop(control.wake.wait_timeout(nap, left.min(LONGEST)));
        }
    }
}

/// A rate, and what happens to packets that are late.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pacing {
    /// Bits per second of packets (datagram payload); 0 is as fast as possible.
    pub rate: u64,
    /// Let receivers control the rate ([`control`](crate::control)); [`rate`](Self::rate) is then ignored.
    pub auto: Option<ControlConfig>,
    /// Bytes that may be sent in a burst if there is a rate.
    pub burst_bytes: usize,
    /// Delay that a sender makes up in one burst; that of a burst, if it is longer.
    pub tolerance: Duration,
    /// Delay that it makes up at a 5 % higher rate. Anything beyond counts as slipped.
    pub slack: Duration,
}

impl Default for Pacing {
    fn default() -> Self {
        Self {
            rate: 0,
            auto: None,
            burst_bytes: 65_536,
            tolerance: Duration::from_millis(1),
            slack: Duration::from_millis(100),
        }
    }
}

impl Pacing {
    /// The rate before any report.
    pub(crate) fn first_rate(&self) -> u64 {
        self.auto.map_or(self.rate, |auto| auto.start)
    }

    /// Check that receivers can control the rate there, if they are to.
    ///
    /// # Errors
    /// [`SendError::Config`]: not UDP, or a multicast group.
    pub(crate) fn check(&self, outlet: &Outlet) -> Result<(), SendError> {
        if self.auto.is_none() {
            return Ok(());
        }
        if !outlet.is_udp() {
            let hint = Hint("TCP controls its own rate; otherwise give a rate");
            return Err(SendError::Config(format!("automatic rates work only over UDP{hint}")));
        }
        let Some(group) = outlet.group() else { return Ok(()) };
        Err(SendError::Config(format!(
            "automatic rates need a single receiver, and the group {group} may have many receivers{}",
            Hint("give a rate, or send to one receiver's own address")
        )))
    }
}

/// The pace of a stream's own times.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OwnPace {
    /// So many positions…
    pub packets: u64,
    /// …take so many seconds.
    pub seconds: u64,
    /// Bytes of a packet.
    pub packet_bytes: u64,
    /// The longest wait for a gap.
    pub max_wait: Duration,
}

impl OwnPace {
    /// Bits per second of a stream without gaps.
    #[must_use]
    pub fn bits_per_second(&self) -> u64 {
        let bits =
            u128::from(self.packet_bytes) * 8 * u128::from(self.packets) / u128::from(self.seconds.max(1));
        u64::try_from(bits).unwrap_or(u64::MAX).max(1)
    }

    fn nanos(&self, positions: u64) -> Nanos {
        let nanos = u128::from(positions) * u128::from(self.seconds) * 1_000_000_000
            / u128::from(self.packets.max(1));
        Nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
    }

    fn positions(&self, wait: Duration) -> u64 {
        let positions =
            wait.as_nanos() * u128::from(self.packets) / (u128::from(self.seconds.max(1)) * 1_000_000_000);
        u64::try_from(positions).unwrap_or(u64::MAX)
    }
}

/// The times of what was sent, and what became of them.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct SentTimes {
    /// Frames have new times. Otherwise they were sent byte for byte.
    pub restamped: bool,
    /// Seconds added to the times of the first pass.
    pub moved_seconds: i64,
    /// Seconds from the beginning of a pass to that of the next, if there were several.
    pub pass_seconds: Option<f64>,
    /// Frames of one thread in a second, if it is known.
    pub frames_per_second: Option<u32>,
    /// Gaps in the data of one pass.
    pub gaps: u64,
    /// Frames that are missing in them.
    pub missing: u64,
    /// Frames of the longest gap.
    pub longest_gap: u64,
    /// Frames whose header gives no time, or a damaged one.
    pub untimed: u64,
    /// Jumps back in time by more than a second.
    pub returns: u64,
    /// Packets were sent at the times of their headers, after the first.
    pub own_pace: bool,
    /// Seconds that were waited for gaps.
    pub waited_seconds: f64,
    /// Seconds of gaps that were not waited for, because they were longer than the longest wait.
    pub cut_seconds: f64,
}

/// Says how long to wait before the packet behind a gap.
#[derive(Debug)]
pub(crate) struct Schedule {
    pace: OwnPace,
    /// The first position that was not reached yet.
    front: u64,
    /// The last run: its first packet, its first position.
    run: Option<(u64, u64)>,
    /// What is taken from a position to have the time at which it is due, in positions.
    base: i128,
    waited: u64,
    cut: u64,
}

impl Schedule {
    pub(crate) fn new(pace: OwnPace) -> Self {
        Self { pace, front: 0, run: None, base: 0, waited: 0, cut: 0 }
    }

    pub(crate) fn pace(&self) -> OwnPace {
        self.pace
    }

    /// The wait before packet `n` at `position`, which begins a run. Asked in the order of packets.
    pub(crate) fn wait(&mut self, n: u64, position: u64) -> Nanos {
        let Some((first, begun)) = self.run.replace((n, position)) else {
            (self.front, self.base) = (position, i128::from(position) - i128::from(n));
            return Nanos(0);
        };
        self.front = self.front.max(begun.saturating_add(n - first));
        let due = i128::from(position.max(self.front)) - self.base;
        let elapsed = i128::from(n) + i128::from(self.waited);
        let wait = u64::try_from(due - elapsed).unwrap_or(0);
        let longest = self.pace.positions(self.pace.max_wait);
        let cut = wait.saturating_sub(longest);
        self.base += i128::from(cut);
        self.cut = self.cut.saturating_add(cut);
        self.waited = self.waited.saturating_add(wait - cut);
        self.pace.nanos(wait - cut)
    }

    pub(crate) fn enter(&self, times: &mut SentTimes) {
        let seconds = |positions| self.pace.nanos(positions).0 as f64 / 1e9;
        times.own_pace = true;
        (times.waited_seconds, times.cut_seconds) = (seconds(self.waited), seconds(self.cut));
    }
}

/// What a stream has sent so far.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct SendStats {
    /// Heaps or events whose packets were all handed to the transport.
    pub objects: u64,
    /// Packets.
    pub packets: u64,
    /// Bytes of their payload.
    pub payload_bytes: u64,
    /// Bytes of packets: what the network carries, without its own headers.
    pub wire_bytes: u64,
    /// Those that were cancelled, begun or not.
    pub cancelled: u64,
    /// Those that ended with an error.
    pub failed: u64,
    /// Packets the kernel refused.
    pub refused: u64,
    /// ICMP errors for earlier packets: no receiver is listening.
    pub unreachable: u64,
    /// System calls for sending, if they are counted.
    pub calls: u64,
    /// Seconds the schedule slipped because the sender was held up.
    pub slipped_seconds: f64,
    /// CPU seconds of sending.
    pub cpu_seconds: f64,
    /// Those queued or being sent.
    pub waiting: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pace(max_wait: u64) -> OwnPace {
        let max_wait = Duration::from_secs(max_wait);
        OwnPace { packets: 200, seconds: 1, packet_bytes: 1000, max_wait }
    }

    /// The waits of packets at these positions, in positions.
    fn waits(max_wait: u64, positions: &[u64]) -> (Vec<u64>, u64) {
        let mut schedule = Schedule::new(pace(max_wait));
        let waits = (0..).zip(positions).map(|(n, &at)| schedule.wait(n, at).0 / 5_000_000).collect();
        (waits, schedule.cut)
    }

    #[test]
    fn gaps_last_as_long_as_what_is_missing() {
        assert_eq!(pace(1).bits_per_second(), 1_600_000);
        assert_eq!(waits(9, &[0, 1, 4, 5, 9]), (vec![0, 0, 2, 0, 3], 0));
        assert_eq!(waits(9, &[7, 8, 11]).0, [0, 0, 2]);
        // Only the first packets of runs are asked for.
        let mut schedule = Schedule::new(pace(9));
        assert_eq!((schedule.wait(0, 0), schedule.wait(100, 140)), (Nanos(0), Nanos(200_000_000)));
        assert_eq!(schedule.wait(150, 200), Nanos(50_000_000));
    }

    #[test]
    fn disorder_and_repeats_take_no_time_of_their_own() {
        assert_eq!(waits(9, &[0, 1, 3, 2, 4, 5]).0, [0, 0, 1, 0, 0, 0]);
        assert_eq!(
            waits(9, &[0, 1, 3, 2, 4, 9]).0,
            [0, 0, 1, 0, 0, 3],
            "the lead is given back at the next gap"
        );
        assert_eq!(waits(9, &[0, 1, 1, 2, 9]).0, [0, 0, 0, 0, 5]);
    }

    #[test]
    fn a_long_gap_is_cut_and_does_not_hurry_what_follows() {
        assert_eq!(waits(1, &[0, 12_000, 12_001, 12_003]), (vec![0, 200, 0, 1], 12_000 - 1 - 200));
        assert_eq!(waits(0, &[0, 12_000, 12_001, 12_003]).0, [0, 0, 0, 0]);
        assert_eq!(waits(u64::MAX, &[0, u64::MAX]).0[0], 0);
    }
}
