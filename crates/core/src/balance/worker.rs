//! Workers: registrations, reports, and the shares that follow from them.

use super::calendar::{Claim, SLOTS};
use super::governor::{Governor, Load, STANDING};
use super::member::{MEMBERS, Member, Seat, Unusable};
use crate::hint::Hint;
use crate::placement::Nanos;
use std::fmt;

/// A registered worker's session. Its number is never reused, although its seat is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Session(pub(super) u64);

impl Session {
    /// The session with this number, which came from [`number`](Self::number).
    #[must_use]
    pub fn new(number: u64) -> Session {
        Session(number)
    }

    /// Its number.
    #[must_use]
    pub fn number(self) -> u64 {
        self.0
    }

    /// Its seat in tables and counters.
    #[must_use]
    pub fn seat(self) -> Seat {
        Seat((self.0 % MEMBERS as u64) as u16)
    }

    /// Number of sessions of the balancer when it began.
    pub(super) fn generation(self) -> u64 {
        self.0 / MEMBERS as u64
    }

    pub(super) fn of(seat: Seat, generation: u64) -> Session {
        Session(generation * MEMBERS as u64 + seat.number() as u64)
    }
}

/// The registration of a worker.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Registration {
    /// Where the worker receives.
    pub member: Member,
    /// Its initial share, relative to the other workers.
    pub weight: f64,
    /// Minimum share, as a multiple of an even share; 0: no bound.
    pub min_factor: f64,
    /// Maximum share, as a multiple of an even share; 0: no bound.
    pub max_factor: f64,
}

/// Why a worker cannot register.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum RegisterError {
    /// All seats are taken.
    Full,
    /// The weight is not between 0 and a million.
    BadWeight(f64),
    /// A factor is not a number from 0 to 512, or the maximum is below the minimum.
    BadFactors {
        /// Multiple of an even share.
        min: f64,
        /// Multiple of an even share.
        max: f64,
    },
    /// Its address is unusable.
    Unusable(Unusable),
}

impl From<Unusable> for RegisterError {
    fn from(why: Unusable) -> RegisterError {
        RegisterError::Unusable(why)
    }
}

impl fmt::Display for RegisterError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RegisterError::Full => {
                write!(f, "all {MEMBERS} seats are taken{}", Hint("deregister workers that are not needed"))
            }
            RegisterError::BadWeight(weight) => {
                write!(f, "cannot register with weight {weight}{}", Hint("a number above 0, like 1"))
            }
            RegisterError::Unusable(why) => write!(f, "cannot register: {why}"),
            RegisterError::BadFactors { min, max } => write!(
                f,
                "cannot register with factors {min} to {max}{}",
                Hint("0 is no bound; 0.5 to 2 is half to twice an even share")
            ),
        }
    }
}

impl std::error::Error for RegisterError {}

impl Registration {
    pub(super) fn check(&self) -> Result<(), RegisterError> {
        let &Registration { weight, min_factor: min, max_factor: max, .. } = self;
        if !(weight > 0.0 && weight <= 1e6) {
            return Err(RegisterError::BadWeight(weight));
        }
        let valid = |factor: f64| (0.0..=SLOTS as f64).contains(&factor);
        if valid(min) && valid(max) && (max == 0.0 || min <= max) {
            Ok(())
        } else {
            Err(RegisterError::BadFactors { min, max })
        }
    }
}

/// The report of a worker.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct WorkerState {
    /// Whether the worker is ready to receive.
    pub ready: bool,
    /// By how many thousandths its share should change; always 0 if the worker has no controller.
    pub signal: f64,
    /// The state of its queue.
    pub load: Load,
}

/// Why a worker's report is rejected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StateError {
    /// There is no such session: it has ended, was removed, or never existed.
    NoSession,
    /// The fill level or the signal is not a number.
    NotANumber,
}

impl fmt::Display for StateError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            StateError::NoSession => write!(f, "no such session{}", Hint("register again")),
            StateError::NotANumber => write!(
                f,
                "the fill level or the signal is not a number{}",
                Hint("give a fill level from 0 to 1, and a signal in thousandths")
            ),
        }
    }
}

impl std::error::Error for StateError {}

/// The state of a worker's registration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    /// It gets its share.
    Ready,
    /// It gets no slots in the next calendar, because it is not ready or silent.
    Waiting,
    /// It is leaving: it only gets the ticks of calendars that name it.
    Leaving,
    /// It was evicted: it gets nothing at all.
    Evicted,
}

/// A registered worker.
#[derive(Clone, Debug)]
pub struct Worker {
    pub(super) session: Session,
    pub(super) registration: Registration,
    pub(super) standing: Standing,
    pub(super) state: WorkerState,
    pub(super) heard: Nanos,
    /// The share that it should have; shares need not add up to 1. `None` if unknown.
    pub(super) target: Option<f64>,
    /// Whether it has ever sent a signal.
    signals: bool,
    /// Whether its counts show how much it can take.
    counts: bool,
    /// Computes the signal if the worker sends none.
    governor: Governor,
}

/// Limits of the change of a share by one report, in thousandths.
const DOWN: f64 = -700.0;
const UP: f64 = 1000.0;
/// A signal that differs by at most this many thousandths from the one computed from the counts agrees with them.
const AGREES: f64 = 100.0;
/// Time constant with which a target follows reports, seconds.
const SETTLE: f64 = 0.3;

impl Worker {
    pub(super) fn new(session: Session, registration: Registration, now: Nanos) -> Worker {
        Worker {
            session,
            registration,
            standing: Standing::Waiting,
            state: WorkerState::default(),
            heard: now,
            target: None,
            signals: false,
            counts: false,
            governor: Governor::default(),
        }
    }

    /// Its session.
    #[must_use]
    pub fn session(&self) -> Session {
        self.session
    }

    /// What it registered with.
    #[must_use]
    pub fn registration(&self) -> &Registration {
        &self.registration
    }

    /// The state of its registration.
    #[must_use]
    pub fn standing(&self) -> Standing {
        self.standing
    }

    /// Its last report.
    #[must_use]
    pub fn state(&self) -> &WorkerState {
        &self.state
    }

    /// When it last reported.
    #[must_use]
    pub fn heard(&self) -> Nanos {
        self.heard
    }

    /// Handles its report `state` at `now`; `share` is the fraction of all ticks that went to it during the last
    /// window.
    pub(super) fn report(
        &mut self,
        mut state: WorkerState,
        share: f64,
        now: Nanos,
    ) -> Result<(), StateError> {
        if state.load.fill.is_nan() || state.signal.is_nan() {
            return Err(StateError::NotANumber);
        }
        // udplbd's receiver divides by the room left in its queue: the result is infinite if the queue is full.
        state.load.fill = state.load.fill.clamp(0.0, 1.0);
        let was_loaded = self.is_loaded();
        let passed = now.since(self.heard).0 as f64 / 1e9;
        (self.state, self.heard) = (state, now);
        if matches!(self.standing, Standing::Ready | Standing::Waiting) {
            self.standing = if state.ready { Standing::Ready } else { Standing::Waiting };
        }
        let own = self.governor.signal(state.load, now);
        self.signals |= state.signal != 0.0;
        let signal = if self.signals { state.signal } else { own };
        // The signals of other controllers only show the direction of the change.
        self.counts = state.load.taken > 0 && (signal - own).abs() <= AGREES;
        if share > 0.0 {
            let wanted = share * (1.0 + signal.clamp(DOWN, UP) / 1000.0);
            let fresh = 1.0 - (-passed / SETTLE).exp();
            // A target from when it was not loaded does not show how much it can take.
            let before = self.target.filter(|_| was_loaded || !self.is_loaded());
            self.target = Some(before.map_or(wanted, |target| target + fresh * (wanted - target)));
        }
        Ok(())
    }

    /// Whether it is behind, so that its target is what it can take.
    pub(super) fn is_loaded(&self) -> bool {
        self.counts && self.state.load.fill >= STANDING
    }

    /// Its claim for a calendar among `workers` workers; `target` is its share, and `largest` the largest share.
    pub(super) fn claim(&self, target: f64, largest: f64, workers: usize) -> Claim {
        let even = (SLOTS / workers.max(1)) as f64;
        let slots = |factor: f64| (even * factor).round().clamp(1.0, SLOTS as f64) as u16;
        let &Registration { min_factor, max_factor, .. } = &self.registration;
        Claim {
            weight: (target / largest * f64::from(u32::MAX)).round() as u32,
            // Without a slot, its speed could not be measured.
            least: slots(min_factor),
            most: if max_factor == 0.0 { SLOTS as u16 } else { slots(max_factor) },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::balance::member::PortRange;

    fn registration() -> Registration {
        let member = Member::new([10, 0, 0, 1].into(), 17750, PortRange::default(), false).unwrap();
        Registration { member, weight: 1.0, min_factor: 0.0, max_factor: 0.0 }
    }

    #[test]
    fn what_cannot_be_registered() {
        assert_eq!(registration().check(), Ok(()));
        for weight in [0.0, -1.0, f64::NAN, f64::INFINITY, 2e6] {
            let error = Registration { weight, ..registration() }.check().unwrap_err();
            assert!(matches!(error, RegisterError::BadWeight(_)) && error.to_string().contains("; hint: "));
        }
        for (min, max) in [(-1.0, 0.0), (f64::NAN, 0.0), (2.0, 1.0), (0.0, 513.0), (0.0, f64::INFINITY)] {
            let bad = Registration { min_factor: min, max_factor: max, ..registration() };
            let error = bad.check().unwrap_err();
            assert!(
                matches!(error, RegisterError::BadFactors { .. }) && error.to_string().contains("; hint: ")
            );
        }
        let bounds = Registration { min_factor: 2.0, ..registration() };
        assert_eq!(bounds.check(), Ok(()), "no maximum");
    }

    #[test]
    fn reports_that_are_no_numbers_are_refused_and_those_out_of_range_cut() {
        let mut worker = Worker::new(Session(5), registration(), Nanos(0));
        let state =
            |fill, signal| WorkerState { ready: true, signal, load: Load { fill, ..Load::default() } };
        for (fill, signal) in [(f64::NAN, 0.0), (0.5, f64::NAN)] {
            assert_eq!(worker.report(state(fill, signal), 0.5, Nanos(9)), Err(StateError::NotANumber));
        }
        assert_eq!((worker.heard, worker.standing), (Nanos(0), Standing::Waiting));
        let second = |n: u64| Nanos(n * 1_000_000_000);
        assert_eq!(worker.report(state(f64::INFINITY, f64::INFINITY), 0.5, second(1)), Ok(()));
        assert_eq!((worker.state.load.fill, worker.target), (1.0, Some(1.0)));
        assert_eq!(worker.report(state(-1.0, -1e9), 0.5, second(100)), Ok(()));
        assert!((worker.target.unwrap() - 0.15).abs() < 1e-9);
        worker.report(state(0.0, 0.0), 0.5, second(200)).unwrap();
        assert!((worker.target.unwrap() - 0.5).abs() < 1e-9, "it has a controller, and is content");
    }

    #[test]
    fn claims_have_bounds_and_a_slot_at_least() {
        let worker = |min_factor, max_factor| {
            Worker::new(Session(5), Registration { min_factor, max_factor, ..registration() }, Nanos(0))
        };
        let claim = worker(0.0, 0.0).claim(0.1, 0.4, 4);
        assert_eq!(claim, Claim { weight: u32::MAX / 4 + 1, least: 1, most: 512 });
        let claim = worker(0.5, 1.5).claim(0.4, 0.4, 4);
        assert_eq!(claim, Claim { weight: u32::MAX, least: 64, most: 192 });
    }

    #[test]
    fn a_session_knows_its_seat() {
        let session = Session::of(Seat(77), 5);
        assert_eq!((session.seat(), Session::new(session.number())), (Seat(77), session));
    }
}
