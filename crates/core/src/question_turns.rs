//! Which of many questions are answered when they come faster than they can be.
//!
//! Receiving a question takes much less time than answering it. So a responder takes all that has come, and answers some of it in
//! each turn: so few that the socket does not overflow meanwhile. Where more wait than [`TurnLimits::fair`], from more than one source,
//! those with the most give up what is beyond a fair share of that:
//!
//! ```text
//!   waiting, oldest first        fair shares of 4               answered in a turn of 4
//!   A A A A A A B A A C A   ─▶   A: 2, B: 1, C: 1          ─▶   A A B C                  7 of A are dropped
//!   A A A A A A A A A A A   ─▶   A is alone                ─▶   A A A A                  the others wait for the next turn
//! ```
//!
//! So a source with few questions waits for few turns, whatever others ask. What is kept is answered in the order in which it came.
//!
//! ```
//! use skyhaul_core::question_turns::{QuestionTurns, TurnLimits};
//! let mut turns = QuestionTurns::new(TurnLimits { answers: 4, fair: 4, waiting: 100, bytes: 10_000 });
//! for from in "AAAAAABAACA".chars() {
//!     turns.ask(from, 1, from);
//! }
//! turns.begin();
//! let answered: String = std::iter::from_fn(|| turns.next()).collect();
//! assert_eq!((answered.as_str(), turns.dropped()), ("AABC", 7));
//! ```
//!
//! Limits: a source is what the caller takes for one. Of more sources than [`TurnLimits::fair`], each keeps one question, and they wait for
//! several turns. A source that is alone loses a question only where [`TurnLimits::waiting`] or [`TurnLimits::bytes`] is reached.

use std::collections::{BTreeMap, VecDeque};

/// How much is answered, and how much may wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TurnLimits {
    /// Questions that are answered in a turn; at least 1.
    pub answers: usize,
    /// Questions of all sources that may wait before those with the most are cut; at least 1.
    pub fair: usize,
    /// Datagrams that wait.
    pub waiting: usize,
    /// Bytes of them.
    pub bytes: usize,
}

#[derive(Debug)]
struct Waiting<S, T> {
    source: S,
    bytes: usize,
    is_question: bool,
    item: T,
}

/// What waits of one source.
#[derive(Clone, Copy, Debug, Default)]
struct OfSource {
    questions: usize,
    all: usize,
}

/// What waits to be answered, of sources `S`.
#[derive(Debug)]
pub struct QuestionTurns<S, T> {
    limits: TurnLimits,
    waiting: VecDeque<Waiting<S, T>>,
    sources: BTreeMap<S, OfSource>,
    bytes: usize,
    questions: usize,
    /// Answers left in this turn.
    left: usize,
    /// Shares were made since the last turn began, because nothing more could wait.
    is_shared: bool,
    dropped: u64,
}

impl<S: Ord + Copy, T> QuestionTurns<S, T> {
    /// Nothing waits.
    #[must_use]
    pub fn new(limits: TurnLimits) -> Self {
        let (waiting, sources) = (VecDeque::new(), BTreeMap::new());
        Self { limits, waiting, sources, bytes: 0, questions: 0, left: 0, is_shared: false, dropped: 0 }
    }

    /// A question came, of so many bytes. It waits for a turn, or is dropped.
    pub fn ask(&mut self, source: S, bytes: usize, item: T) {
        // Once in a turn: where it makes no room, it would make none the next time, at a cost for each question.
        let may_share =
            !self.is_shared && self.sources.iter().any(|(of, n)| *of != source && n.questions > 0);
        if !self.has_room(bytes) && may_share {
            self.share(self.limits.fair.min(self.questions / 2));
        }
        if self.has_room(bytes) {
            self.push(Waiting { source, bytes, is_question: true, item });
        } else {
            self.dropped += 1;
        }
    }

    /// Whether a datagram that is not answered, such as a packet of a test, has to [`follow`](Self::follow) questions of its source. It has
    /// not if none wait, or if nothing more may wait.
    #[must_use]
    pub fn follows(&self, source: S, bytes: usize) -> bool {
        self.sources.contains_key(&source) && self.has_room(bytes)
    }

    /// A datagram that is not answered waits behind the questions of its source.
    pub fn follow(&mut self, source: S, bytes: usize, item: T) {
        self.push(Waiting { source, bytes, is_question: false, item });
    }

    /// A turn begins: if more questions wait than may, those beyond a fair share are dropped, unless they are of one source.
    pub fn begin(&mut self) {
        self.left = self.limits.answers.max(1);
        let several = || self.sources.values().filter(|of| of.questions > 0).nth(1).is_some();
        // Of sources with one question each, as in a flood from forged addresses, nothing can be dropped: they are not looked through.
        let is_cut = || self.sources.values().any(|of| of.questions > 1);
        if self.questions > self.limits.fair.max(1) && several() && is_cut() {
            self.share(self.limits.fair.max(1));
        }
        self.is_shared = false;
    }

    /// Returns the next datagram of this turn, in the order in which they came; `None`: the turn is over, or nothing waits.
    #[allow(clippy::should_implement_trait, reason = "a turn ends, and another begins")]
    pub fn next(&mut self) -> Option<T> {
        let is_question = self.waiting.front()?.is_question;
        self.left = if is_question { self.left.checked_sub(1)? } else { self.left };
        let next = self.waiting.pop_front()?;
        self.forget(&next);
        Some(next.item)
    }

    /// Whether anything waits.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// Returns how many questions were dropped so far.
    #[must_use]
    pub fn dropped(&self) -> u64 {
        self.dropped
    }

    fn has_room(&self, bytes: usize) -> bool {
        self.waiting.len() < self.limits.waiting && self.bytes.saturating_add(bytes) <= self.limits.bytes
    }

    fn push(&mut self, new: Waiting<S, T>) {
        let of = self.sources.entry(new.source).or_default();
        of.all += 1;
        of.questions += usize::from(new.is_question);
        self.questions += usize::from(new.is_question);
        self.bytes += new.bytes;
        self.waiting.push_back(new);
    }

    fn forget(&mut self, old: &Waiting<S, T>) {
        self.bytes -= old.bytes;
        self.questions -= usize::from(old.is_question);
        if let Some(of) = self.sources.get_mut(&old.source) {
            of.all -= 1;
            of.questions -= usize::from(old.is_question);
            if of.all == 0 {
                self.sources.remove(&old.source);
            }
        }
    }

    /// Drops the newest questions of each source beyond a fair share of `total`.
    fn share(&mut self, total: usize) {
        self.is_shared = true;
        let share = fair_share(self.sources.values().map(|of| of.questions), total);
        let mut kept = BTreeMap::<S, usize>::new();
        for one in std::mem::take(&mut self.waiting) {
            let kept = kept.entry(one.source).or_default();
            if one.is_question && *kept >= share {
                self.forget(&one);
                self.dropped += 1;
            } else {
                *kept += usize::from(one.is_question);
                self.waiting.push_back(one);
            }
        }
    }
}

/// The most that each may have so that all have at most `total` together; at least 1.
fn fair_share(wanted: impl Iterator<Item = usize>, total: usize) -> usize {
    let mut wanted: Vec<usize> = wanted.filter(|one| *one > 0).collect();
    wanted.sort_unstable();
    let (mut left, mut share) = (total, 1);
    for (at, &one) in wanted.iter().enumerate() {
        share = (left / (wanted.len() - at)).max(1);
        if one > share {
            return share;
        }
        left -= one.min(left);
        share = share.max(one);
    }
    share
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const LIMITS: TurnLimits = TurnLimits { answers: 4, fair: 4, waiting: 20, bytes: 1000 };

    fn turn(turns: &mut QuestionTurns<u8, u32>) -> Vec<u32> {
        turns.begin();
        std::iter::from_fn(|| turns.next()).collect()
    }

    #[test]
    fn one_source_alone_waits_and_loses_nothing() {
        let mut turns = QuestionTurns::new(LIMITS);
        (0..20).for_each(|n| turns.ask(1, 10, n));
        let answered: Vec<u32> = (0..5).flat_map(|_| turn(&mut turns)).collect();
        assert_eq!((answered, turns.dropped()), ((0..20).collect(), 0));
    }

    #[test]
    fn a_source_with_one_question_is_answered_in_the_next_turn() {
        let mut turns = QuestionTurns::new(LIMITS);
        for n in 0..1000 {
            turns.ask(1, 10, n);
            if n % 10 == 9 {
                turns.ask(2, 10, 10_000 + n);
                assert!(turn(&mut turns).contains(&(10_000 + n)), "{n}");
            }
        }
        assert!(turns.dropped() > 0);
    }

    #[test]
    fn what_follows_a_question_does_not_overtake_it_nor_count_as_one() {
        let mut turns = QuestionTurns::new(LIMITS);
        assert!(!turns.follows(1, 10), "nothing to wait for");
        turns.ask(1, 10, 1);
        assert!(!turns.follows(2, 10), "none of its own waits");
        for n in 2..12 {
            assert!(turns.follows(1, 10));
            turns.follow(1, 10, n);
        }
        turns.ask(2, 10, 12);
        assert_eq!(turn(&mut turns), (1..=12).collect::<Vec<_>>());
        assert!(turns.is_empty());
        turns.ask(1, 1000, 1);
        assert!(!turns.follows(1, 1), "no room");
    }

    #[test]
    fn shares_are_fair() {
        let share = |wanted: &[usize], total| fair_share(wanted.iter().copied(), total);
        assert_eq!(share(&[8, 1, 1], 4), 2);
        assert_eq!(share(&[100, 100], 4), 2);
        assert_eq!(share(&[100, 3, 1, 0], 10), 6);
        assert_eq!(share(&[9; 9], 4), 1);
        assert_eq!((share(&[], 4), share(&[2, 2], 4)), (1, 2));
    }

    /// The model: what waits is a list; a turn with more than its answers, of several sources, leaves each the largest share for which
    /// all fit.
    #[derive(Default)]
    struct Model {
        waiting: Vec<(u8, u32)>,
        dropped: u64,
        is_shared: bool,
    }

    impl Model {
        fn share(&mut self) {
            let count = |waiting: &[(u8, u32)], of| waiting.iter().filter(|one| one.0 == of).count();
            let kept = |share: usize| -> usize { (0..6).map(|of| count(&self.waiting, of).min(share)).sum() };
            let share =
                (1..=self.waiting.len()).rev().find(|share| kept(*share) <= LIMITS.answers).unwrap_or(1);
            let all = std::mem::take(&mut self.waiting);
            for one in all {
                if count(&self.waiting, one.0) < share {
                    self.waiting.push(one);
                } else {
                    self.dropped += 1;
                }
            }
        }

        fn sources(&self) -> usize {
            self.waiting.iter().map(|one| one.0).collect::<std::collections::BTreeSet<_>>().len()
        }

        fn ask(&mut self, from: u8, n: u32) {
            let is_other = self.waiting.iter().any(|one| one.0 != from);
            if self.waiting.len() >= LIMITS.waiting && is_other && !self.is_shared {
                self.is_shared = true;
                self.share();
            }
            match self.waiting.len() < LIMITS.waiting {
                true => self.waiting.push((from, n)),
                false => self.dropped += 1,
            }
        }

        fn turn(&mut self) -> Vec<u32> {
            self.is_shared = false;
            if self.waiting.len() > LIMITS.answers && self.sources() > 1 {
                self.share();
            }
            let some = self.waiting.len().min(LIMITS.answers);
            self.waiting.drain(..some).map(|one| one.1).collect()
        }
    }

    proptest! {
        #[test]
        fn any_questions_are_answered_as_in_the_model(
            steps in proptest::collection::vec((0u8..6, 1usize..12), 1..60),
        ) {
            let (mut turns, mut model) = (QuestionTurns::new(LIMITS), Model::default());
            let (mut asked, mut answered) = (0u32, 0u64);
            for (from, times) in steps {
                if from == 5 {
                    let came = turn(&mut turns);
                    prop_assert_eq!(&came, &model.turn());
                    answered += came.len() as u64;
                }
                for _ in 0..times {
                    asked += 1;
                    turns.ask(from, 10, asked);
                    model.ask(from, asked);
                }
                prop_assert!(turns.waiting.len() <= LIMITS.waiting && turns.bytes <= LIMITS.bytes);
                prop_assert_eq!(turns.dropped(), model.dropped);
                let known = u64::from(asked) - answered - turns.dropped();
                prop_assert_eq!(turns.waiting.len() as u64, known);
                prop_assert_eq!(turns.sources.values().map(|of| of.all).sum::<usize>(), turns.waiting.len());
            }
        }
    }
}
