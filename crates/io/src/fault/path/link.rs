//! A transmitter with a queue, and token buckets: integers of picoseconds, so nothing drifts.

/// Picoseconds of a nanosecond.
const PICO: u64 = 1000;
/// A time that no path reaches: 106 days.
const NEVER: u64 = u64::MAX / 2;

/// Time that this many bytes take.
fn time(octets: u64, bits_per_second: u64) -> u64 {
    let picoseconds = u128::from(octets) * 8_000_000_000_000 / u128::from(bits_per_second.max(1));
    u64::try_from(picoseconds).unwrap_or(NEVER).min(NEVER)
}

/// Sends one packet after another at a rate, with a limited queue.
#[derive(Clone, Debug, Default)]
pub(super) struct Transmitter {
    /// When it has sent all that it took.
    free: u64,
}

impl Transmitter {
    /// Takes a packet at `now`, in nanoseconds, if at most `buffer` bytes wait including it. Returns when its last bit
    /// is sent, and the bytes that wait then; `None` if the queue is full.
    pub(super) fn take(&mut self, now: u64, octets: u64, rate: u64, buffer: u64) -> Option<(u64, u64)> {
        let now = now.saturating_mul(PICO).min(NEVER);
        let begin = self.free.max(now);
        let waiting = u128::from(begin - now) * u128::from(rate) / 8_000_000_000_000;
        let waiting = u64::try_from(waiting).unwrap_or(u64::MAX).saturating_add(octets);
        if waiting > buffer && begin > now {
            return None;
        }
        self.free = begin.saturating_add(time(octets, rate)).min(NEVER);
        Some((self.free.div_ceil(PICO), waiting))
    }
}

/// A token bucket.
#[derive(Clone, Debug, Default)]
pub(super) struct Bucket {
    /// When it will be full again.
    full: u64,
}

impl Bucket {
    /// Take `cost` from a bucket of `size` at `now` (in nanoseconds; the others in picoseconds at its rate); `false` if
    /// it does not contain that much.
    fn take(&mut self, now: u64, cost: u64, size: u64) -> bool {
        let now = now.saturating_mul(PICO).min(NEVER);
        let full = self.full.max(now).saturating_add(cost);
        let enough = full - now <= size;
        if enough {
            self.full = full;
        }
        enough
    }

    /// Take bytes.
    pub(super) fn octets(&mut self, now: u64, octets: u64, rate: u64, burst: u64) -> bool {
        self.take(now, time(octets, rate), time(burst, rate))
    }

    /// Take one packet.
    pub(super) fn packet(&mut self, now: u64, rate: u64, burst: u64) -> bool {
        let cost = 1_000_000_000_000 / rate.max(1);
        self.take(now, cost, cost.saturating_mul(burst.max(1)).min(NEVER))
    }
}

/// A CPU that sleeps when nothing arrives. Times are nanoseconds.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Processor {
    last: u64,
    awake: u64,
}

impl Processor {
    /// When it takes a packet that is due: later by `late` after a silence, and later packets wait for it.
    pub(super) fn takes(&mut self, due: u64, late: u64, silence: u64) -> u64 {
        if due.saturating_sub(self.last) > silence {
            self.awake = due.saturating_add(late);
        }
        let taken = due.max(self.awake);
        self.last = self.last.max(taken);
        taken
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packets_leave_one_after_another_and_the_queue_is_bounded() {
        let mut link = Transmitter::default();
        let take = |link: &mut Transmitter, now| link.take(now, 1250, 1_000_000_000, 5000);
        assert_eq!(take(&mut link, 0), Some((10_000, 1250)));
        assert_eq!(take(&mut link, 0), Some((20_000, 2500)));
        assert_eq!(take(&mut link, 0), Some((30_000, 3750)));
        assert_eq!(take(&mut link, 0), Some((40_000, 5000)));
        assert_eq!(take(&mut link, 0), None, "5000 octets wait");
        assert_eq!(take(&mut link, 10_000), Some((50_000, 5000)));
        assert_eq!(take(&mut link, 1_000_000), Some((1_010_000, 1250)), "it was idle");
        let mut short = Transmitter::default();
        assert!(short.take(0, 9000, 1_000_000_000, 1500).is_some(), "an idle line takes any packet");
    }

    #[test]
    fn a_rate_that_is_no_divisor_does_not_drift() {
        let (mut link, rate) = (Transmitter::default(), 999_999_937);
        let mut last = 0;
        for _ in 0..1_000_000 {
            last = link.take(0, 1486, rate, u64::MAX).unwrap().0;
        }
        let exact = 1486.0 * 8.0 * 1e6 / rate as f64 * 1e9;
        assert!(
            (last as f64 - exact).abs() < 1100.0,
            "{last} for {exact} ns: at most a picosecond for each packet"
        );
    }

    #[test]
    fn a_bucket_gives_its_burst_and_then_its_rate() {
        let mut bucket = Bucket::default();
        // 1 byte takes 10 ns.
        let mut took = |now| (0..100).take_while(|_| bucket.octets(now, 1000, 800_000_000, 10_000)).count();
        assert_eq!((took(0), took(9_999), took(10_000), took(50_000)), (10, 0, 1, 4));
        assert_eq!(took(10_000_000), 10, "it is never more than full");
        let mut packets = Bucket::default();
        let mut took = |now| (0..100).take_while(|_| packets.packet(now, 100_000, 5)).count();
        assert_eq!((took(0), took(10_000), took(30_000)), (5, 1, 2));
    }

    #[test]
    fn slow_rates_and_long_times_end_nowhere() {
        let mut link = Transmitter::default();
        for _ in 0..10 {
            assert!(link.take(u64::MAX, u64::MAX, 1, u64::MAX).is_some());
        }
        assert!(!Bucket::default().octets(0, u64::MAX, 1, 1));
    }
}
