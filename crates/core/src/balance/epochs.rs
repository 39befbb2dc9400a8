//! Epochs: the calendar for each range of ticks. Changes never split an event.
//!
//! ```text
//!   ticks  ────────┬───────────────┬──────────────┬─────────▶
//!   epochs    0    │       1       │      2       │  3: begins at a tick that is still to come
//!                  ▲ ticks before this are refused: their calendar is gone
//! ```
//!
//! All packets of a tick use the same calendar, whenever they arrive, because the calendar of a tick that has been sent
//! is never replaced. A new calendar is to begin at a tick that no sender has reached
//! ([`Predictor`](super::Predictor)); the threads that forward decide whether it can, and say where it begins
//! ([`Settled`](super::Settled)). An old one is kept until none of its ticks can arrive. A boundary that no tick has
//! reached can be withdrawn, because the prediction may have been wrong.

use super::{
    calendar::Calendar,
    member::Seat,
    table::{EPOCHS, Epoch, SlotSelect},
};
use crate::placement::Nanos;
use std::{collections::VecDeque, sync::Arc};

/// As long as a packet may be in flight.
const LINGER: Nanos = Nanos(3_000_000_000);
/// A sender that lags further behind the others is not waited for.
pub(super) const WAITED_FOR: Nanos = Nanos(10_000_000_000);

/// How long epochs are kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EpochConfig {
    /// An epoch is kept this long after all senders have passed its end: as long as a packet may be in flight.
    pub linger: Nanos,
    /// Maximum time for which an epoch is kept after the first sender has passed its end, even if another is behind: the
    /// longest lag that is waited for, and `linger`.
    pub longest: Nanos,
}

impl Default for EpochConfig {
    /// 3 s, and 10 s more. With a calendar every 0.5 s, begun 0.5 s ahead, these are 26 calendars that others follow, and up to
    /// four that nobody has reached yet: a table has room for [`EPOCHS`].
    fn default() -> EpochConfig {
        EpochConfig { linger: LINGER, longest: WAITED_FOR.plus(LINGER) }
    }
}

/// Why a new epoch cannot begin now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Held {
    /// Its first tick is not after that of the newest epoch.
    NotAhead,
    /// A table has no room for another epoch.
    Full,
}

/// Counters of epochs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EpochStats {
    /// Epochs begun.
    pub begun: u64,
    /// Epochs retired.
    pub retired: u64,
    /// Of these, epochs retired although a sender seemed to be behind.
    pub forced: u64,
    /// Epochs whose boundary was withdrawn.
    pub withdrawn: u64,
    /// New epochs that could not begin and had to wait.
    pub held: u64,
}

#[derive(Clone, Debug)]
struct Live {
    epoch: Epoch,
    /// When its first tick was due.
    due: Nanos,
    /// When one of its ticks, or one of a later epoch, was first and last forwarded.
    reached: Option<(Nanos, Nanos)>,
}

/// The calendars in use, by tick.
#[derive(Clone, Debug)]
pub struct Epochs {
    config: EpochConfig,
    /// Oldest first. Never empty after the first epoch has begun.
    live: VecDeque<Live>,
    stats: EpochStats,
    /// Changes when ticks that were forwarded get another calendar.
    era: u64,
}

impl Epochs {
    /// Without any calendar.
    #[must_use]
    pub fn new(config: EpochConfig) -> Epochs {
        Epochs { config, live: VecDeque::with_capacity(EPOCHS), stats: EpochStats::default(), era: 0 }
    }

    /// Continues with epochs that were begun elsewhere before `now`, ordered by their first ticks, in the era `era`.
    #[must_use]
    pub fn resume(config: EpochConfig, epochs: &[Epoch], era: u64, now: Nanos) -> Epochs {
        let live = epochs
            .iter()
            .map(|epoch| Live { epoch: epoch.clone(), due: now, reached: Some((now, now)) })
            .collect();
        Epochs { live, era, ..Epochs::new(config) }
    }

    /// The counters so far.
    #[must_use]
    pub fn stats(&self) -> EpochStats {
        self.stats
    }

    /// The epochs for a table, oldest first.
    #[must_use]
    pub fn epochs(&self) -> Vec<Epoch> {
        self.live.iter().map(|live| live.epoch.clone()).collect()
    }

    /// The era: see [`Table::era`](super::Table::era).
    #[must_use]
    pub fn era(&self) -> u64 {
        self.era
    }

    /// From now on, ticks may get other calendars than before.
    pub(super) fn set_era(&mut self, era: u64) {
        self.era = era;
    }

    /// The threads that forward use these epochs for the last ones returned: calendars may begin later than they were to,
    /// and one that was withdrawn too late is still there.
    pub fn settle(&mut self, epochs: &[Epoch], now: Nanos) {
        let is_same = |(live, epoch): (&Live, &Epoch)| {
            live.epoch.first == epoch.first && Arc::ptr_eq(&live.epoch.calendar, &epoch.calendar)
        };
        if epochs.len() == self.live.len() && self.live.iter().zip(epochs).all(is_same) {
            return;
        }
        let mut before = std::mem::take(&mut self.live);
        self.live = epochs
            .iter()
            .map(|epoch| {
                let known = before.iter().position(|live| live.epoch.is_as(epoch));
                let known = known.and_then(|at| before.drain(..=at).next_back());
                // Somebody may have forwarded ticks of one that is not known.
                let begun = Live { epoch: epoch.clone(), due: now, reached: Some((now, now)) };
                let mut live = known.unwrap_or(begun);
                live.epoch.first = epoch.first;
                live
            })
            .collect();
    }

    /// The newest calendar.
    #[must_use]
    pub fn newest(&self) -> Option<&Arc<Calendar>> {
        self.live.back().map(|live| &live.epoch.calendar)
    }

    /// The first tick of the newest calendar.
    #[must_use]
    pub fn boundary(&self) -> Option<u64> {
        self.live.back().map(|live| live.epoch.first)
    }

    /// The first tick from which no calendar names `seat`; `u64::MAX` if the newest does, `None` if none does.
    #[must_use]
    pub(super) fn named_until(&self, seat: Seat) -> Option<u64> {
        let last = self.live.iter().rposition(|live| live.epoch.calendar.names(seat))?;
        Some(self.live.get(last + 1).map_or(u64::MAX, |next| next.epoch.first))
    }

    /// All calendars in use.
    pub fn calendars(&self) -> impl Iterator<Item = &Calendar> {
        self.live.iter().map(|live| &*live.epoch.calendar)
    }

    /// Begins an epoch with `calendar` at the tick `first`, which is due at `due`. The very first calendar is valid for
    /// every tick.
    ///
    /// # Errors
    /// See [`Held`]; nothing changes then.
    pub fn begin(&mut self, first: u64, calendar: Arc<Calendar>, due: Nanos) -> Result<(), Held> {
        let first = if self.live.is_empty() { 0 } else { first };
        let held = match self.live.back() {
            Some(newest) if first <= newest.epoch.first => Some(Held::NotAhead),
            _ if self.live.len() == EPOCHS => Some(Held::Full),
            _ => None,
        };
        if let Some(held) = held {
            self.stats.held += 1;
            return Err(held);
        }
        let epoch = Epoch { first, calendar, select: SlotSelect::default() };
        self.live.push_back(Live { epoch, due, reached: None });
        self.stats.begun += 1;
        Ok(())
    }

    /// Retires epochs that are over at `now`. `slowest` is the tick that the slowest sender had reached one `linger`
    /// earlier; `None` if that is unknown. `is_gone` says whether a calendar names a worker that has left. Returns
    /// whether any epoch was retired.
    ///
    /// While nobody reaches the next calendar, the senders pause: they go on with the one that they had, however long
    /// that takes, unless it names a worker that has left. Of the calendars that begin meanwhile, the latest remain.
    pub fn retire(&mut self, slowest: Option<u64>, now: Nanos, is_gone: &dyn Fn(&Calendar) -> bool) -> bool {
        let EpochConfig { linger, longest } = self.config;
        let before = self.live.len();
        while let Some(next) = self.live.get(1) {
            let (first, age) = (next.epoch.first, now.since(next.due));
            let passed = age >= linger && slowest.is_some_and(|tick| tick >= first);
            // A prediction may have been far ahead of the senders.
            let over = next.reached.map_or(age, |(first, _)| now.since(first));
            if !passed && over < longest {
                break;
            }
            if passed || next.reached.is_some() || is_gone(&self.live[0].epoch.calendar) {
                self.live.pop_front();
                self.stats.retired += 1;
                self.stats.forced += u64::from(!passed);
                continue;
            }
            // Nobody has sent these ticks, and the prediction has long passed them: the later calendar may have them.
            let Some(after) = self.live.get_mut(2).filter(|after| now.since(after.due) >= longest) else {
                break;
            };
            after.epoch.first = first;
            self.live.remove(1);
            self.stats.withdrawn += 1;
        }
        self.live.len() < before
    }

    /// Notes that ticks up to `newest` were forwarded before `now`.
    pub fn reach(&mut self, newest: u64, now: Nanos) {
        let reached = self.live.iter_mut().filter(|live| live.epoch.first <= newest);
        reached.for_each(|live| live.reached = Some((live.reached.map_or(now, |(first, _)| first), now)));
    }

    /// Withdraws the boundaries beyond `tick`, which no sender has reached or will reach soon: the prediction was
    /// wrong, or ticks began again. The calendar before such a boundary continues. A boundary stays if ticks after it
    /// were forwarded in the last [`longest`](EpochConfig::longest), because more of their packets may arrive, and if
    /// `is_followed`: another source still sends the ticks that were forwarded. If even
    /// the oldest epoch begins beyond `tick` and none of its ticks arrive any more, it is extended to tick 0. Returns
    /// whether anything changed.
    pub fn withdraw(&mut self, tick: u64, is_followed: bool, now: Nanos) -> bool {
        let longest = self.config.longest;
        let idle = |live: &Live| {
            let is_over = |(_, last): (Nanos, Nanos)| !is_followed && now.since(last) >= longest;
            live.epoch.first > tick && live.reached.is_none_or(is_over)
        };
        let (before, mut anew) = (self.live.len(), false);
        while self.live.len() > 1 && self.live.back().is_some_and(idle) {
            anew |= self.live.pop_back().is_some_and(|live| live.reached.is_some());
            self.stats.withdrawn += 1;
        }
        let oldest = self.live.front_mut().filter(|oldest| idle(oldest));
        let extended = oldest.map(|oldest| oldest.epoch.first = 0).is_some();
        self.era += u64::from(anew || extended);
        extended || self.live.len() < before
    }
}

/// Ticks that begin again.
impl Epochs {
    /// Uses the newest calendar also for the ticks before the oldest epoch, which have no calendar any more. Returns
    /// whether anything changed.
    pub fn extend(&mut self, now: Nanos) -> bool {
        let Some(newest) = self.newest().filter(|_| self.live[0].epoch.first > 0).cloned() else {
            return false;
        };
        if self.live.len() == EPOCHS {
            self.live.pop_front();
        }
        let epoch = Epoch { first: 0, calendar: newest, select: SlotSelect::default() };
        self.live.push_front(Live { epoch, due: now, reached: Some((now, now)) });
        self.stats.begun += 1;
        true
    }

    /// Withdraws the calendars that begin after `tick`, although some of their ticks were forwarded: these ticks are
    /// from before the sender's restart. Returns whether anything changed.
    pub fn give_way(&mut self, tick: u64) -> bool {
        let before = self.live.len();
        while self.live.len() > 1 && self.live.back().is_some_and(|live| live.epoch.first > tick) {
            self.live.pop_back();
            self.stats.withdrawn += 1;
        }
        self.era += u64::from(self.live.len() < before);
        self.live.len() < before
    }

    /// Uses the newest calendar for all ticks, and retires the others. Returns whether anything changed.
    pub fn rebase(&mut self, now: Nanos) -> bool {
        let Some(newest) = self.newest().cloned() else { return false };
        if self.live.len() == 1 && self.live[0].epoch.first == 0 {
            return false;
        }
        self.stats.retired += self.live.len() as u64;
        self.stats.begun += 1;
        self.era += 1;
        let epoch = Epoch { first: 0, calendar: newest, select: SlotSelect::default() };
        self.live.clear();
        self.live.push_back(Live { epoch, due: now, reached: Some((now, now)) });
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const S: u64 = 1_000_000_000;

    fn calendar(number: u16) -> Arc<Calendar> {
        Arc::new(Calendar::default().with(&[(Seat(number), 512)], &Calendar::default()))
    }

    /// Epochs of 1000 ticks and a second each.
    fn epochs(n: u64) -> Epochs {
        let mut epochs = Epochs::new(EpochConfig::default());
        (0..n).for_each(|n| epochs.begin(n * 1000, calendar(n as u16), Nanos(n * S)).unwrap());
        epochs
    }

    fn firsts(epochs: &Epochs) -> Vec<u64> {
        epochs.epochs().iter().map(|epoch| epoch.first).collect()
    }

    #[test]
    fn the_first_holds_for_all_ticks() {
        let mut epochs = Epochs::new(EpochConfig::default());
        assert_eq!((epochs.boundary(), epochs.newest()), (None, None));
        epochs.begin(77, calendar(0), Nanos(0)).unwrap();
        assert_eq!(firsts(&epochs), [0]);
    }

    #[test]
    fn a_boundary_is_ahead_of_the_last() {
        let mut epochs = epochs(3);
        for first in [0, 1999, 2000] {
            assert_eq!(epochs.begin(first, calendar(9), Nanos(S)), Err(Held::NotAhead));
        }
        assert_eq!(epochs.begin(2001, calendar(9), Nanos(S)), Ok(()));
        assert_eq!(firsts(&epochs), [0, 1000, 2000, 2001]);
        let mut many = self::epochs(EPOCHS as u64);
        assert_eq!(many.begin(1 << 40, calendar(9), Nanos(S)), Err(Held::Full));
        assert_eq!((many.stats().held, epochs.stats().held), (1, 3));
        assert_eq!(**many.newest().unwrap(), *calendar(EPOCHS as u16 - 1), "nothing changed");
    }

    #[test]
    fn an_epoch_is_over_when_none_of_its_ticks_can_come() {
        let mut epochs = epochs(4);
        (1..4).for_each(|n| epochs.reach(n * 1000, Nanos(n * S)));
        let retire =
            |epochs: &mut Epochs, slowest, now| epochs.retire(slowest, Nanos(now), &|_: &Calendar| false);
        // The end of the first epoch was due at 1 s.
        assert!(!retire(&mut epochs, Some(5000), 4 * S - 1), "packets may be under way");
        assert!(!retire(&mut epochs, Some(999), 4 * S), "a sender is behind");
        assert!(!retire(&mut epochs, None, 4 * S), "one may be");
        assert!(retire(&mut epochs, Some(1000), 4 * S));
        assert_eq!(firsts(&epochs), [1000, 2000, 3000]);
        assert!(!retire(&mut epochs, Some(1000), 15 * S - 1), "one that lags may have sent these 3 s ago");
        assert!(retire(&mut epochs, Some(1000), 15 * S), "nobody is waited for for ever");
        assert_eq!(firsts(&epochs), [2000, 3000]);
        assert!(retire(&mut epochs, Some(u64::MAX), 99 * S));
        assert_eq!(firsts(&epochs), [3000], "the newest stays");
        let stats = epochs.stats();
        assert_eq!((stats.begun, stats.retired, stats.forced), (4, 3, 1));
    }

    #[test]
    fn senders_that_pause_keep_their_calendar_unless_a_worker_of_it_has_left() {
        let mut epochs = epochs(5);
        epochs.reach(500, Nanos(S));
        assert!(!epochs.retire(Some(500), Nanos(14 * S), &|_| false), "there is no later one yet");
        assert!(epochs.retire(Some(500), Nanos(16 * S), &|_| false));
        assert_eq!(firsts(&epochs), [0, 1000, 4000], "the latest of those that nobody reached");
        assert_eq!(*epochs.epochs()[1].calendar, *calendar(3));
        assert!(epochs.retire(Some(500), Nanos(99 * S), &|_| false));
        assert_eq!((firsts(&epochs), epochs.stats().forced), (vec![0, 1000], 0));
        assert!(epochs.retire(Some(500), Nanos(99 * S), &|of| *of == *calendar(0)));
        assert_eq!((firsts(&epochs), epochs.stats().forced), (vec![1000], 1));
        assert_eq!(**epochs.newest().unwrap(), *calendar(4));
    }

    #[test]
    fn what_was_never_reached_is_withdrawn() {
        let mut epochs = epochs(4);
        assert!(!epochs.withdraw(3000, false, Nanos(4 * S)));
        assert!(epochs.withdraw(2999, false, Nanos(4 * S)));
        assert_eq!(firsts(&epochs), [0, 1000, 2000]);
        assert_eq!(epochs.begin(2500, calendar(9), Nanos(4 * S)), Ok(()));
        epochs.retire(Some(9999), Nanos(5 * S), &|_| false);
        assert_eq!(firsts(&epochs), [2000, 2500]);
        assert_eq!(epochs.stats().withdrawn, 1);
    }

    #[test]
    fn what_was_reached_is_withdrawn_when_no_more_of_it_can_come() {
        let mut epochs = epochs(3);
        epochs.reach(2000, Nanos(4 * S));
        assert!(!epochs.withdraw(5, false, Nanos(17 * S - 1)), "its packets may be under way");
        assert!(!epochs.clone().withdraw(5, true, Nanos(99 * S)), "another source sends these ticks");
        epochs.retire(Some(9999), Nanos(17 * S - 1), &|_| false);
        assert!(epochs.withdraw(5, false, Nanos(17 * S)), "ticks began again");
        assert_eq!(firsts(&epochs), [0]);
        assert_eq!(**epochs.newest().unwrap(), *calendar(2), "the oldest goes on");
        assert!(!epochs.withdraw(5, false, Nanos(18 * S)));
    }
}
