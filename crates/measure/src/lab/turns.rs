//! When the forwarder looks again: at once, after a rest, or when something is due or comes.
//!
//! ```text
//!   idle path   ──look──────── poll ────────look── poll ──…      each packet by itself, when it is due
//!   busy path   ──look─ rest ─look─ rest ─look─ rest ──…         what is due within a grain leaves together
//!   flooded     ──look─look─look─ … ─look─ rest (1 of 16) ─look─ …
//! ```
//!
//! To wake for every packet costs more than to send it: at 1 Gb/s that is 12 us of 12. A rest of some packets' time costs a
//! third, and makes trains of what would have left one by one.
//!
//! A thread with real-time priority that never sleeps is stopped by the kernel, for 50 ms of each second (`sched_rt_runtime_us`).
//! So a flooded one rests by itself, often and briefly.

/// Frames of a look after which there is too much to do for a rest.
const MANY: usize = 16;
/// Nanoseconds without a sleep, at most, and the sleep that then follows.
const AWAKE: u64 = 1_000_000;
const BREATH: u64 = 65_000;

/// What comes next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Next {
    /// The next look.
    Look,
    /// A sleep of so many nanoseconds, whatever comes.
    Rest(u64),
    /// A sleep until something is due or comes.
    Wait,
}

/// Looks, as they follow one another.
#[derive(Clone, Copy, Debug)]
pub(super) struct Turns {
    grain: u64,
    /// When the last look that moved something began.
    last: u64,
    /// Whether that one followed the one before within two grains.
    busy: bool,
    /// When it last woke.
    woke: u64,
    asleep: bool,
}

impl Turns {
    pub(super) fn new(grain: u64) -> Self {
        Self { grain, last: 0, busy: false, woke: 0, asleep: true }
    }

    /// After a look from `began` to `now` that moved so many frames.
    pub(super) fn next(&mut self, began: u64, now: u64, frames: usize) -> Next {
        if self.asleep {
            self.woke = began;
        }
        let soon = began.saturating_sub(self.last) < 2 * self.grain;
        if frames > 0 {
            (self.last, self.busy) = (began, soon);
        }
        let next = if frames < MANY && self.busy && soon && now < began + self.grain {
            Next::Rest(began + self.grain - now)
        } else if frames == 0 {
            Next::Wait
        } else if now.saturating_sub(self.woke) > AWAKE {
            Next::Rest(BREATH)
        } else {
            Next::Look
        };
        self.asleep = next != Next::Look;
        next
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_packet_alone_and_its_answer_are_waited_for() {
        let mut turns = Turns::new(40_000);
        for at in [1_000_000, 2_000_000, 3_000_000] {
            assert_eq!(turns.next(at, at + 5000, 1), Next::Look, "it may have a follower");
            assert_eq!(turns.next(at + 5000, at + 6000, 0), Next::Wait);
            assert_eq!(
                turns.next(at + 30_000, at + 35_000, 1),
                Next::Rest(35_000),
                "what comes now is a stream"
            );
            assert_eq!(turns.next(at + 70_000, at + 71_000, 0), Next::Rest(39_000));
            assert_eq!(turns.next(at + 110_000, at + 111_000, 0), Next::Wait, "it was none");
        }
    }

    #[test]
    fn packets_of_a_busy_path_leave_together() {
        let mut turns = Turns::new(40_000);
        let mut now = 1_000_000;
        let mut looks = 0;
        while now < 2_000_000 {
            looks += 1;
            match turns.next(now, now + 10_000, 3) {
                Next::Look => now += 10_000,
                Next::Rest(time) => now += 10_000 + time,
                Next::Wait => panic!("something was done"),
            }
        }
        assert_eq!(looks, 26, "one in 40 us, after the first two");
        let mut exact = Turns::new(0);
        assert_eq!(exact.next(now, now + 10_000, 3), Next::Look);
        assert_eq!(exact.next(now + 10_000, now + 11_000, 0), Next::Wait);
    }

    #[test]
    fn a_flooded_one_sleeps_for_a_twentieth_of_the_time() {
        let mut turns = Turns::new(40_000);
        let (mut now, mut rested) = (0, 0);
        while now < 1_000_000_000 {
            match turns.next(now, now + 30_000, 32) {
                Next::Look => now += 30_000,
                Next::Rest(time) => (now, rested) = (now + 30_000 + time, rested + time),
                Next::Wait => panic!("something was done"),
            }
        }
        assert!(rested > now / 20 && rested < now / 12, "{rested}");
    }
}
