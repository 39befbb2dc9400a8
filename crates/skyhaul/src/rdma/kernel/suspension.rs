//! A program is set aside while most Writes come up the socket all the same.
//!
//! Of some trains a program places nothing: longer ones than it follows, or with a packet behind the Writes that it does not know. Then
//! it only puts newer bytes in front of older ones that wait in the socket, and keeping both apart costs this process more than to
//! place everything. So a few hundred Writes are a trial; the program that places less than half of them rests for some thousands,
//! and after each further trial that fails, for twice as many.

/// Writes that came up decide a trial.
const TRIAL: u64 = 512;
/// Writes until the next trial: at first, and at most.
const RESTS: [u64; 2] = [1 << 14, 1 << 22];

/// Whether a program is set aside, and for how long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Suspension {
    /// Writes that came up in this trial.
    up: u64,
    /// Writes that the program had placed before it.
    placed: u64,
    /// Writes to come up before the next trial. `None`: the program is at work.
    left: Option<u64>,
    /// The length of the next rest.
    rest: u64,
    /// How often it was set aside.
    pub(super) times: u64,
}

impl Default for Suspension {
    fn default() -> Suspension {
        Suspension { up: 0, placed: 0, left: None, rest: RESTS[0], times: 0 }
    }
}

impl Suspension {
    /// Whether the program is set aside.
    pub(super) fn is_on(&self) -> bool {
        self.left.is_some()
    }

    /// Whether it is time for a trial.
    pub(super) fn is_over(&self) -> bool {
        self.left == Some(0)
    }

    /// So many Writes came up.
    pub(super) fn came_up(&mut self, writes: u64) {
        match &mut self.left {
            Some(left) => *left = left.saturating_sub(writes),
            None => self.up += writes,
        }
    }

    /// Whether enough came up to judge the program.
    pub(super) fn is_due(&self) -> bool {
        !self.is_on() && self.up >= TRIAL
    }

    /// Judges a trial that is due, with all Writes that the program has placed so far. Whether it is set aside from now on.
    pub(super) fn judge(&mut self, placed: u64) -> bool {
        if placed - self.placed >= self.up {
            self.rest = RESTS[0];
        } else {
            self.left = Some(self.rest);
            self.rest = (2 * self.rest).min(RESTS[1]);
            self.times += 1;
        }
        (self.up, self.placed) = (0, placed);
        self.is_on()
    }

    /// The next trial begins.
    pub(super) fn end(&mut self) {
        self.left = None;
    }
}

#[cfg(test)]
mod tests {
    use super::{RESTS, Suspension, TRIAL};

    /// Writes that come up until the program is tried again.
    fn rest(of: &mut Suspension) -> u64 {
        let mut rest = 0;
        while !of.is_over() {
            of.came_up(1);
            rest += 1;
        }
        of.end();
        rest
    }

    #[test]
    fn a_program_that_places_most_stays() {
        let (mut suspension, mut placed) = (Suspension::default(), 0);
        for _ in 0..10 * TRIAL {
            suspension.came_up(1);
            placed += 1;
            assert!(!suspension.is_due() || !suspension.judge(placed));
        }
        assert_eq!(suspension.times, 0);
    }

    #[test]
    fn one_that_places_little_rests_ever_longer_and_starts_anew_after_a_good_trial() {
        let mut suspension = Suspension::default();
        let trial = |suspension: &mut Suspension, placed: u64| {
            suspension.came_up(TRIAL - 1);
            assert!(!suspension.is_due());
            suspension.came_up(1);
            assert!(suspension.is_due());
            suspension.judge(placed)
        };
        for wanted in [RESTS[0], 2 * RESTS[0], 4 * RESTS[0]] {
            assert!(trial(&mut suspension, TRIAL / 2));
            assert!(suspension.is_on());
            assert_eq!(rest(&mut suspension), wanted);
        }
        assert!(!trial(&mut suspension, 2 * TRIAL), "this one was good");
        assert!(trial(&mut suspension, 2 * TRIAL + 1));
        assert_eq!((rest(&mut suspension), suspension.times), (RESTS[0], 4));
        for _ in 0..20 {
            assert!(trial(&mut suspension, 2 * TRIAL + 1));
            rest(&mut suspension);
        }
        assert!(trial(&mut suspension, 2 * TRIAL + 1));
        assert_eq!(rest(&mut suspension), RESTS[1]);
    }
}
