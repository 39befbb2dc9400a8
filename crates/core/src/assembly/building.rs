//! Event building: collects the events of one tick from several sources.
//!
//! ```text
//!   source 1   │ 7 │ 8 │   │ 9 │ ─┐
//!   source 2   │ 7 │   │ 9 │   │ ─┼─▶ open: a tick of which some parts have arrived ─▶ built: all parts, or timeout
//!   source 3   │ 7 │ 8 │ 9 │ 8 │ ─┘
//! ```
//!
//! A tick ends once: with its last part, after `timeout`, or when more ticks or bytes are held than allowed (the oldest
//! tick ends first). Parts that arrive later are rejected as long as the tick is among the last that ended.

use crate::placement::Nanos;
use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};

/// Which parts a whole tick consists of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Sources {
    /// One part from each of these sources.
    Named(Vec<u16>),
    /// This many parts, from any sources.
    Count(usize),
}

impl Sources {
    /// Number of parts in a whole tick.
    #[must_use]
    pub fn parts(&self) -> usize {
        match self {
            Sources::Named(sources) => sources.len(),
            Sources::Count(count) => *count,
        }
    }

    fn include(&self, source: u16) -> bool {
        match self {
            Sources::Named(sources) => sources.contains(&source),
            Sources::Count(_) => true,
        }
    }
}

/// How ticks are built.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BuildConfig {
    /// Which parts a whole tick consists of.
    pub sources: Sources,
    /// How long a tick waits for its parts after the first.
    pub timeout: Nanos,
    /// Maximum number of ticks of which parts are held.
    pub window: usize,
    /// Maximum number of bytes held.
    pub bytes: u64,
}

impl BuildConfig {
    /// Checks the configuration.
    ///
    /// # Errors
    /// The reason why it is invalid.
    pub fn check(&self) -> Result<(), &'static str> {
        let parts = self.sources.parts();
        let is_doubled = match &self.sources {
            Sources::Named(sources) => sources.iter().collect::<HashSet<_>>().len() != parts,
            Sources::Count(_) => false,
        };
        match () {
            () if parts == 0 => Err("a tick has at least one part"),
            () if parts > 1 << 16 => Err("there are 65536 sources"),
            () if is_doubled => Err("a source is named twice"),
            () if self.window == 0 => Err("at least one tick must be held"),
            () if self.timeout == Nanos(0) => Err("parts of a tick do not come at one moment"),
            () => Ok(()),
        }
    }
}

/// A tick that has ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Built<T> {
    /// Its number.
    pub number: u64,
    /// Its parts, in ascending order of their source.
    pub parts: Vec<(u16, T)>,
    /// Number of missing parts.
    pub lacking: usize,
}

/// Counters of ticks and parts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BuildCounts {
    /// Ticks that ended with all parts.
    pub whole: u64,
    /// Ticks that ended with parts missing.
    pub partial: u64,
    /// Of these, ticks that ended before their timeout, because too much was held.
    pub crowded: u64,
    /// Parts that arrived after their tick had ended.
    pub late: u64,
    /// Duplicate parts.
    pub doubled: u64,
    /// Parts of sources that are not configured.
    pub other_sources: u64,
}

#[derive(Debug)]
struct Open<T> {
    number: u64,
    since: Nanos,
    bytes: u64,
    parts: Vec<(u16, T)>,
}

/// Collects the parts of ticks; see the [module](self). Pass it parts and the time, and take finished ticks from
/// [`poll_built`](Self::poll_built).
#[derive(Debug)]
pub struct Builder<T> {
    config: BuildConfig,
    /// In the order in which they began.
    open: BTreeMap<u64, Open<T>>,
    by_number: HashMap<u64, u64>,
    begun: u64,
    bytes: u64,
    /// Numbers of the last ticks that ended, earliest first.
    over: VecDeque<u64>,
    is_over: HashSet<u64>,
    built: VecDeque<Built<T>>,
    counts: BuildCounts,
}

impl<T> Builder<T> {
    /// Number of ended ticks remembered for each tick of the window.
    const REMEMBERED: usize = 4;

    /// A builder without ticks.
    #[must_use]
    pub fn new(config: BuildConfig) -> Self {
        Builder {
            config,
            open: BTreeMap::new(),
            by_number: HashMap::new(),
            begun: 0,
            bytes: 0,
            over: VecDeque::new(),
            is_over: HashSet::new(),
            built: VecDeque::new(),
            counts: BuildCounts::default(),
        }
    }

    /// Adds a part of `bytes` bytes from `source` to the tick `number`.
    pub fn add(&mut self, number: u64, source: u16, bytes: u64, part: T, now: Nanos) {
        self.handle_timeout(now);
        if !self.config.sources.include(source) {
            self.counts.other_sources += 1;
            return;
        }
        if self.is_over.contains(&number) {
            self.counts.late += 1;
            return;
        }
        let key = *self.by_number.entry(number).or_insert_with(|| {
            self.begun += 1;
            self.open.insert(self.begun, Open { number, since: now, bytes: 0, parts: Vec::new() });
            self.begun
        });
        let Some(open) = self.open.get_mut(&key) else { return };
        let Err(at) = open.parts.binary_search_by_key(&source, |part| part.0) else {
            self.counts.doubled += 1;
            return;
        };
        open.parts.insert(at, (source, part));
        open.bytes += bytes;
        self.bytes += bytes;
        if open.parts.len() == self.config.sources.parts() {
            self.end(key);
        }
        while self.open.len() > self.config.window || self.bytes > self.config.bytes {
            let Some((&oldest, _)) = self.open.first_key_value() else { break };
            self.counts.crowded += 1;
            self.end(oldest);
        }
    }

    /// Ends the ticks whose timeout has passed.
    pub fn handle_timeout(&mut self, now: Nanos) {
        while self.poll_timeout().is_some_and(|due| due <= now) {
            self.end_oldest();
        }
    }

    /// When the timeout of the next tick passes.
    #[must_use]
    pub fn poll_timeout(&self) -> Option<Nanos> {
        let (_, oldest) = self.open.first_key_value()?;
        Some(Nanos(oldest.since.0.saturating_add(self.config.timeout.0)))
    }

    /// The stream has ended: ends all ticks.
    pub fn finish(&mut self) {
        while !self.open.is_empty() {
            self.end_oldest();
        }
    }

    /// Returns the next tick that ended.
    pub fn poll_built(&mut self) -> Option<Built<T>> {
        self.built.pop_front()
    }

    /// Number of ticks of which parts are held.
    #[must_use]
    pub fn live(&self) -> usize {
        self.open.len()
    }

    /// Returns the counters so far.
    #[must_use]
    pub fn counts(&self) -> BuildCounts {
        self.counts
    }

    fn end_oldest(&mut self) {
        if let Some((&oldest, _)) = self.open.first_key_value() {
            self.end(oldest);
        }
    }

    fn end(&mut self, key: u64) {
        let Some(Open { number, bytes, parts, .. }) = self.open.remove(&key) else { return };
        self.by_number.remove(&number);
        self.bytes -= bytes;
        let lacking = self.config.sources.parts().saturating_sub(parts.len());
        *(if lacking == 0 { &mut self.counts.whole } else { &mut self.counts.partial }) += 1;
        self.built.push_back(Built { number, parts, lacking });
        self.over.push_back(number);
        self.is_over.insert(number);
        if self.over.len() > self.config.window.saturating_mul(Self::REMEMBERED)
            && let Some(forgotten) = self.over.pop_front()
        {
            self.is_over.remove(&forgotten);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn config(sources: Sources) -> BuildConfig {
        BuildConfig { sources, timeout: Nanos(100), window: 3, bytes: 1000 }
    }

    fn builder(sources: Sources) -> Builder<u64> {
        config(sources.clone()).check().unwrap();
        Builder::new(config(sources))
    }

    fn all(builder: &mut Builder<u64>) -> Vec<(u64, Vec<u16>, usize)> {
        let built = std::iter::from_fn(|| builder.poll_built());
        built.map(|tick| (tick.number, tick.parts.iter().map(|p| p.0).collect(), tick.lacking)).collect()
    }

    #[test]
    fn a_tick_is_whole_with_its_last_source_in_any_order() {
        let mut builder = builder(Sources::Named(vec![5, 2]));
        for (number, source) in [(7, 2), (8, 5), (7, 9), (7, 2), (7, 5), (7, 5), (8, 2)] {
            builder.add(number, source, 1, number, Nanos(0));
        }
        assert_eq!(all(&mut builder), [(7, vec![2, 5], 0), (8, vec![2, 5], 0)]);
        let counts = builder.counts();
        assert_eq!((counts.whole, counts.other_sources, counts.doubled, counts.late), (2, 1, 1, 1));
    }

    #[test]
    fn so_many_of_any_sources_are_whole() {
        let mut builder = builder(Sources::Count(2));
        [3, 3, 60_000, 4].into_iter().for_each(|source| builder.add(1, source, 1, 0, Nanos(0)));
        assert_eq!(all(&mut builder), [(1, vec![3, 60_000], 0)]);
        assert_eq!((builder.counts().doubled, builder.counts().late), (1, 1));
    }

    #[test]
    fn what_lacks_a_part_ends_with_its_time_its_place_or_its_memory() {
        let mut builder = builder(Sources::Named(vec![1, 2]));
        builder.add(1, 1, 1, 0, Nanos(0));
        builder.add(2, 2, 1, 0, Nanos(50));
        assert_eq!(builder.poll_timeout(), Some(Nanos(100)));
        builder.handle_timeout(Nanos(99));
        assert_eq!(all(&mut builder), []);
        builder.handle_timeout(Nanos(100));
        assert_eq!(all(&mut builder), [(1, vec![1], 1)]);
        (3..6).for_each(|number| builder.add(number, 1, 1, 0, Nanos(101)));
        assert_eq!(all(&mut builder), [(2, vec![2], 1)], "one too many");
        builder.add(6, 1, 999, 0, Nanos(102));
        assert_eq!(all(&mut builder), [(3, vec![1], 1), (4, vec![1], 1)], "too many, and too large");
        builder.finish();
        assert_eq!(all(&mut builder), [(5, vec![1], 1), (6, vec![1], 1)]);
        let counts = builder.counts();
        assert_eq!((counts.whole, counts.partial, counts.crowded), (0, 6, 3));
        assert_eq!(builder.poll_timeout(), None);
    }

    #[test]
    fn what_cannot_be_built_says_why() {
        let wrong = |change: &dyn Fn(&mut BuildConfig)| {
            let mut config = config(Sources::Named(vec![1, 2]));
            change(&mut config);
            config.check().is_err()
        };
        assert!(!wrong(&|_| {}));
        assert!(wrong(&|c| c.sources = Sources::Named(vec![])));
        assert!(wrong(&|c| c.sources = Sources::Named(vec![1, 1])));
        assert!(wrong(&|c| c.sources = Sources::Count(0)));
        assert!(wrong(&|c| c.sources = Sources::Count(70_000)));
        assert!(wrong(&|c| c.window = 0));
        assert!(wrong(&|c| c.timeout = Nanos(0)));
    }

    proptest! {
        /// Each part is in one ended tick, or counted as rejected; the limits hold.
        #[test]
        fn every_part_is_accounted_for(parts in proptest::collection::vec((0u64..12, 0u16..5, 0u64..600, 0u64..60), 0..200)) {
            let mut builder = Builder::new(config(Sources::Named(vec![1, 2, 3])));
            let (mut now, mut given) = (0, 0);
            for &(number, source, bytes, step) in &parts {
                now += step;
                builder.add(number, source, bytes, 0u64, Nanos(now));
                prop_assert!(builder.open.len() <= 3 && builder.bytes <= 1000);
                prop_assert_eq!(builder.open.len(), builder.by_number.len());
                prop_assert!(builder.over.len() <= 12 && builder.is_over.len() == builder.over.len());
                prop_assert!(builder.poll_timeout().is_none_or(|due| due > Nanos(now)));
            }
            builder.finish();
            while let Some(tick) = builder.poll_built() {
                prop_assert_eq!(tick.parts.len() + tick.lacking, 3);
                prop_assert!(tick.parts.is_sorted_by(|a, b| a.0 < b.0) && !tick.parts.is_empty());
                given += tick.parts.len() as u64;
            }
            let counts = builder.counts();
            prop_assert_eq!(given + counts.late + counts.doubled + counts.other_sources, parts.len() as u64);
            prop_assert_eq!(builder.bytes, 0);
        }
    }
}
