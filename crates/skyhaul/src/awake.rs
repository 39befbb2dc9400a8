//! Time in which this program ran.
//!
//! After SIGSTOP, in a paused guest, a suspended laptop or on an overloaded machine, the wall clock goes on while the
//! program does not, and packets collect in the socket. By the wall clock, a full socket would then look like a silent
//! sender. So a loop with short turns calls an [`Awake`] in each of them:
//!
//! ```text
//!   wall   ──┬──┬──┬──────── paused 9 s ────────┬──┬──▶
//!   awake  ──┬──┬──┬─ 0.5 s ─┬──┬──▶            the rest is not counted, but reported as a pause
//! ```
//!
//! Limits: a pause shorter than a turn may be ([`Awake::TURN`]) is not detected and counts as time, unless less of a turn counts
//! ([`Awake::counting`]).

use skyhaul_core::placement::Nanos;
use std::time::{Duration, Instant};

/// A clock that stops while its loop does not run.
#[derive(Clone, Debug)]
pub struct Awake {
    /// Time in which the loop ran, up to `seen`.
    ran: Duration,
    seen: Instant,
    /// The longest turn that is not a pause.
    turn: Duration,
    /// How much of a turn counts.
    counted: Duration,
}

impl Awake {
    /// The usual maximum of a turn; a longer one is a pause.
    pub const TURN: Duration = Duration::from_millis(500);

    /// A clock that begins now with 0.
    #[must_use]
    pub fn start() -> Self {
        Self::with_turns(Self::TURN)
    }

    /// The same for a loop whose turns take at most `turn`.
    #[must_use]
    pub fn with_turns(turn: Duration) -> Self {
        Self { ran: Duration::ZERO, seen: Instant::now(), turn, counted: turn }
    }

    /// Count at most so much of a turn, for a loop that usually turns faster: what it did not see meanwhile was not late.
    #[must_use]
    pub fn counting(self, most: Duration) -> Self {
        Self { counted: most.min(self.turn), ..self }
    }

    /// Call it once in each turn. Returns the length of the pause since the last turn, if there was one.
    #[inline]
    pub fn turn(&mut self) -> Option<Duration> {
        self.turn_at(Instant::now())
    }

    #[inline]
    fn turn_at(&mut self, now: Instant) -> Option<Duration> {
        let gone = now.saturating_duration_since(self.seen);
        self.seen = now;
        self.ran += gone.min(self.counted);
        (gone > self.turn).then(|| gone - self.turn)
    }

    /// The time since the last turn does not count: the loop waited instead of looking.
    pub fn skip(&mut self) {
        self.seen = Instant::now();
    }

    /// Time in which the loop ran.
    #[inline]
    #[must_use]
    pub fn elapsed(&self) -> Duration {
        self.ran + self.seen.elapsed().min(self.counted)
    }

    /// The same, as engines take it.
    #[inline]
    #[must_use]
    pub fn now(&self) -> Nanos {
        Nanos::from(self.elapsed())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pause_is_no_time_and_time_never_goes_back() {
        let begin = Instant::now();
        let mut clock = Awake { seen: begin, ..Awake::start() };
        let at = |ms| begin + Duration::from_millis(ms);
        assert_eq!(clock.turn_at(at(20)), None);
        assert_eq!(clock.turn_at(at(500)), None, "a long turn");
        assert_eq!(clock.ran, Duration::from_millis(500));
        assert_eq!(clock.turn_at(at(10_000)), Some(Duration::from_millis(9_000)));
        assert_eq!(clock.ran, Duration::from_millis(1_000));
        assert_eq!(clock.turn_at(at(9_000)), None, "a clock that went back");
        assert_eq!(clock.ran, Duration::from_millis(1_000));
    }

    #[test]
    fn a_wait_that_is_skipped_is_no_time() {
        let mut clock = Awake { seen: Instant::now() - Duration::from_millis(90), ..Awake::start() };
        clock.skip();
        assert!(clock.turn().is_none() && clock.ran < Duration::from_millis(90), "{:?}", clock.ran);
    }

    #[test]
    fn of_a_long_turn_only_a_part_counts() {
        let begin = Instant::now();
        let at = |ms| begin + Duration::from_millis(ms);
        let mut clock = Awake { seen: begin, ..Awake::start() }.counting(Duration::from_millis(50));
        assert_eq!((clock.turn_at(at(20)), clock.turn_at(at(420))), (None, None), "no pause yet");
        assert_eq!(clock.ran, Duration::from_millis(70));
        assert_eq!(clock.turn_at(at(1_420)), Some(Duration::from_millis(500)));
        assert_eq!(clock.ran, Duration::from_millis(120));
    }
}
