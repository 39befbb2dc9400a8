//! Time in which this program ran.
//!
//! SIGSTOP, a paused guest, a suspended laptop, a machine without a free processor: the clock on the wall goes on, the
//! program does not, and packets wait in the socket meanwhile. Whoever judges by the wall afterwards takes a full
//! socket for a silent sender. So a loop with short turns looks at an [`Awake`] in each of them:
//!
//! ```text
//!   wall   ──┬──┬──┬──────── paused 9 s ────────┬──┬──▶
//!   awake  ──┬──┬──┬─ 0.5 s ─┬──┬──▶            the rest is no time, and reported as a pause
//! ```
//!
//! Limits: what is shorter than a turn may be ([`Awake::TURN`]) cannot be told from one and counts as time.

use skyhaul_core::placement::Nanos;
use std::time::{Duration, Instant};

/// A clock that stands while its loop does not turn.
#[derive(Clone, Debug)]
pub struct Awake {
    /// Time in which the loop ran, up to `seen`.
    ran: Duration,
    seen: Instant,
    /// The longest turn that is no pause.
    turn: Duration,
}

impl Awake {
    /// The longest that a turn may take, usually; what is longer is a pause.
    pub const TURN: Duration = Duration::from_millis(500);

    /// A clock that begins now with 0.
    #[must_use]
    pub fn start() -> Self {
        Self::with_turns(Self::TURN)
    }

    /// The same for a loop whose turns take at most `turn`.
    #[must_use]
    pub fn with_turns(turn: Duration) -> Self {
        Self { ran: Duration::ZERO, seen: Instant::now(), turn }
    }

    /// Once in each turn: how long the program did not run since the last, if that was a pause.
    pub fn turn(&mut self) -> Option<Duration> {
        self.turn_at(Instant::now())
    }

    fn turn_at(&mut self, now: Instant) -> Option<Duration> {
        let gone = now.saturating_duration_since(self.seen);
        self.seen = now;
        self.ran += gone.min(self.turn);
        (gone > self.turn).then(|| gone - self.turn)
    }

    /// Time in which the loop ran.
    #[must_use]
    pub fn elapsed(&self) -> Duration {
        self.ran + self.seen.elapsed().min(self.turn)
    }

    /// The same, as engines take it.
    #[must_use]
    pub fn now(&self) -> Nanos {
        Nanos(u64::try_from(self.elapsed().as_nanos()).unwrap_or(u64::MAX))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pause_is_no_time_and_time_never_goes_back() {
        let begin = Instant::now();
        let mut clock = Awake { ran: Duration::ZERO, seen: begin, turn: Awake::TURN };
        let at = |ms| begin + Duration::from_millis(ms);
        assert_eq!(clock.turn_at(at(20)), None);
        assert_eq!(clock.turn_at(at(500)), None, "a long turn");
        assert_eq!(clock.ran, Duration::from_millis(500));
        assert_eq!(clock.turn_at(at(10_000)), Some(Duration::from_millis(9_000)));
        assert_eq!(clock.ran, Duration::from_millis(1_000));
        assert_eq!(clock.turn_at(at(9_000)), None, "a clock that went back");
        assert_eq!(clock.ran, Duration::from_millis(1_000));
    }
}
