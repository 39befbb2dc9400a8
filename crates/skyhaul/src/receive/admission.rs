//! Admission of streams when there are more senders than places.
//!
//! A hostile sender cannot be recognised by its packets, but a stream sends many, and steadily. So while places are free,
//! every sender that proves to be a stream gets one. Then the poorest stream, by packets per second over the last quarter
//! of a minute, is replaced by a newcomer that sends at least twice as much. Nothing is lost by that: the data of the
//! poorest are delivered as they are, the newcomer's packets were held, and a replaced sender that still sends returns as
//! soon as it is not the poorest.
//!
//! Memory is shared by the same rule ([`share`]): the richest, as many as fit, may use all of the pool; the others leave
//! free what those may still need, and deliver early what they hold when memory runs short.

use super::info::StreamInfo;
use super::strangers::{LONG, rate};
use crate::recording::Event;
use skyhaul_core::hint::Hint;
use skyhaul_core::placement::Nanos;
use std::collections::VecDeque;
use std::net::SocketAddr;

const MORE_STREAMS: Hint<&str> = Hint("--from lets in only the senders you name, --max-streams follows more");

/// How much richer than the poorest a newcomer must be.
const MIN_RATE_RATIO: f64 = 2.0;
/// Streams that may be replaced at once, plus one more each [`REPLACEMENT_INTERVAL`].
const MAX_REPLACED_AT_ONCE: u32 = 32;
/// See [`MAX_REPLACED_AT_ONCE`].
const REPLACEMENT_INTERVAL: Nanos = Nanos(50_000_000);
/// Blocks of the pool for each of the richest: a window, and as much queued for the disks.
const BLOCKS_PER_STREAM: usize = 4;
/// Minimum time between two early deliveries.
const RELIEF_INTERVAL: Nanos = Nanos(200_000_000);
/// Minimum time between two events of one kind.
const EVENT_INTERVAL: Nanos = Nanos(10_000_000_000);

/// A frequent kind of event, reported once per [`EVENT_INTERVAL`].
#[derive(Clone, Copy, Debug, Default)]
struct Often {
    count: u64,
    said: Option<Nanos>,
}

impl Often {
    /// Count `more`; returns the count when it is due to be reported.
    fn add(&mut self, more: u64, now: Nanos) -> Option<u64> {
        self.count += more;
        let due = self.said.is_none_or(|said| now.since(said) >= EVENT_INTERVAL);
        (due && more > 0).then(|| {
            self.said = Some(now);
            self.count
        })
    }
}

/// The admission rules and their state.
#[derive(Debug)]
pub(super) struct Places {
    most: usize,
    /// Packets per second of the poorest, when last evaluated.
    poorest: f64,
    /// Memory available to a newcomer.
    bar: Bar,
    /// When memory was last freed by early delivery.
    relieved: Nanos,
    /// Streams that may be replaced now.
    tokens: u32,
    refilled: Nanos,
    refused: Often,
    gave_way: Often,
    no_frames: Often,
    events: VecDeque<Event>,
}

impl Places {
    pub(super) fn new(most: usize) -> Self {
        Self {
            most,
            poorest: 0.0,
            bar: Bar::default(),
            relieved: Nanos::default(),
            tokens: MAX_REPLACED_AT_ONCE,
            refilled: Nanos::default(),
            refused: Often::default(),
            gave_way: Often::default(),
            no_frames: Often::default(),
            events: VecDeque::new(),
        }
    }

    /// Whether to search for a stream that is poorer than a newcomer of this rate. One that sent plenty need not wait.
    pub(super) fn may_claim(&mut self, rate: f64, plenty: bool, now: Nanos) -> bool {
        let more = now.since(self.refilled).0 / REPLACEMENT_INTERVAL.0;
        if more > 0 {
            self.tokens = u32::try_from(more).map_or(MAX_REPLACED_AT_ONCE, |more| {
                self.tokens.saturating_add(more).min(MAX_REPLACED_AT_ONCE)
            });
            self.refilled = now;
        }
        (self.tokens > 0 || plenty) && rate >= MIN_RATE_RATIO * self.poorest
    }

    /// Whether the poorest is replaced by a newcomer.
    pub(super) fn gives_way(&mut self, poorest: f64, newcomer: f64) -> bool {
        self.poorest = poorest;
        let richer = newcomer > 0.0 && newcomer >= MIN_RATE_RATIO * poorest;
        if richer {
            self.tokens = self.tokens.saturating_sub(1);
        }
        richer
    }

    /// A stream was replaced.
    pub(super) fn gave_way(&mut self, info: &StreamInfo, packets: u64, newcomer: SocketAddr, now: Nanos) {
        if let Some(count) = self.gave_way.add(1, now) {
            self.event(
                "stream_gave_way",
                format!(
                    "stream {} of {} ({packets} packets) gave way to {newcomer}, for at most {} are followed; {count} gave \
                     way so far{}",
                    info.id, info.sender, self.most, MORE_STREAMS
                ),
            );
        }
    }

    /// There was no place for `senders`.
    pub(super) fn refused(&mut self, senders: u64, now: Nanos) {
        if let Some(count) = self.refused.add(senders, now) {
            self.event(
                "senders_refused",
                format!(
                    "senders refused so far: {count}, for at most {} are followed{}",
                    self.most, MORE_STREAMS
                ),
            );
        }
    }

    /// `sender` sends heaps or events.
    pub(super) fn no_frames(&mut self, sender: SocketAddr, now: Nanos) {
        if self.no_frames.add(1, now).is_some() {
            self.event(
                "not_frames",
                format!(
                    "{sender} sends no frames but SPEAD heaps or EJFAT events: refused{}",
                    Hint("--format spead takes heaps, `skyhaul inspect` shows what comes")
                ),
            );
        }
    }

    fn event(&mut self, kind: &str, text: String) {
        self.events.push_back(Event::now(kind, None, text));
    }

    /// Update the state from the current streams.
    pub(super) fn look(&mut self, streams: &[Share], bar: Bar) {
        self.poorest = streams.iter().map(|s| s.rate).min_by(f64::total_cmp).unwrap_or(0.0);
        self.bar = bar;
    }

    /// Whether memory is so short that all but the richest must deliver early, at most a few times a second.
    pub(super) fn is_short(&mut self, free: usize, blocks: usize, now: Nanos) -> bool {
        let short = self.bar.leaves > 0
            && free < blocks / BLOCKS_PER_STREAM
            && now.since(self.relieved) >= RELIEF_INTERVAL;
        if short {
            self.relieved = now;
        }
        short
    }

    /// Blocks of the pool that a newcomer of this rate must leave free.
    pub(super) fn leaves(&self, rate: f64) -> usize {
        if rate >= self.bar.rate { 0 } else { self.bar.leaves }
    }

    /// Whether there is memory for a newcomer of this rate if `free` blocks are free.
    pub(super) fn has_memory(&self, rate: f64, free: usize) -> bool {
        free > self.leaves(rate)
    }

    pub(super) fn poll_event(&mut self) -> Option<Event> {
        self.events.pop_front()
    }
}

/// Rate and memory of a stream.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Share {
    /// Packets per second.
    pub(super) rate: f64,
    /// Blocks it holds.
    pub(super) held: usize,
    /// It is among the richest.
    pub(super) rich: bool,
    /// Blocks of the pool that it must leave free.
    pub(super) leaves: usize,
}

/// Conditions for a newcomer.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Bar {
    /// Packets per second with which it is among the richest.
    pub(super) rate: f64,
    /// Blocks of the pool that it must leave free otherwise.
    pub(super) leaves: usize,
}

/// How much richer a stream must be to take another's rank, so that equal streams do not alternate.
const STAY: f64 = 1.5;
/// A newcomer richer by this factor gets memory even if the richest have used theirs up: short streams in waves are each
/// among the richest for a moment, and their blocks are queued for the disks.
const FAR_RICHER: f64 = 4.0;

/// Divide a pool of `blocks` among streams that each fill `window` blocks at a time.
pub(super) fn share(streams: &mut [Share], blocks: usize, window: usize) -> Bar {
    let room = (blocks / BLOCKS_PER_STREAM).max(1);
    if streams.len() < room {
        streams.iter_mut().for_each(|stream| (stream.rich, stream.leaves) = (true, 0));
        return Bar::default();
    }
    // Hysteresis for the richest; the older stream first at equal rates.
    let worth = |share: &Share| if share.rich { share.rate * STAY } else { share.rate };
    let mut ranks: Vec<usize> = (0..streams.len()).collect();
    ranks.sort_by(|&a, &b| worth(&streams[b]).total_cmp(&worth(&streams[a])).then(a.cmp(&b)));
    let (rich, poor) = ranks.split_at(room);
    // Streams that hold their whole window need the next block soon too.
    let wanted: usize = rich.iter().map(|&at| window.saturating_sub(streams[at].held)).sum();
    let reserve = wanted.max(blocks / BLOCKS_PER_STREAM / 2);
    let last = rich.last().map_or(0.0, |&at| streams[at].rate);
    let far = streams.iter().any(|stream| stream.rate >= FAR_RICHER * last);
    for &at in rich {
        let keeps = far && streams[at].rate < FAR_RICHER * last;
        let leaves = if keeps { (reserve / 4).max(1) } else { 0 };
        (streams[at].rich, streams[at].leaves) = (true, leaves);
    }
    poor.iter().for_each(|&at| (streams[at].rich, streams[at].leaves) = (false, reserve.max(1)));
    Bar { rate: last * STAY, leaves: reserve.max(1) }
}

/// The recent rate of a stream.
#[derive(Clone, Copy, Debug)]
pub(super) struct Worth {
    born: Nanos,
    /// Packets, with exponential decay.
    lately: u64,
    /// Packets included in `lately`.
    counted: u64,
    turned: Nanos,
}

/// Ticks in which the count decays to 1/e.
const FADE: u64 = 288;
/// A tick: all of [`LONG`] is [`FADE`] of them.
const TICK: Nanos = Nanos(LONG.0 / FADE);

impl Worth {
    pub(super) fn new(born: Nanos) -> Self {
        Self { born, lately: 0, counted: 0, turned: born }
    }

    /// Update with `packets` received so far.
    pub(super) fn handle_timeout(&mut self, packets: u64, now: Nanos) {
        let ticks = now.since(self.turned).0 / TICK.0;
        if ticks == 0 {
            return;
        }
        self.turned = self.turned.plus(Nanos(ticks * TICK.0));
        for _ in 0..ticks.min(20 * FADE) {
            self.lately -= self.lately.div_ceil(FADE);
        }
        self.lately += packets - self.counted;
        self.counted = packets;
    }

    /// Recent packets per second.
    pub(super) fn rate(&self, packets: u64, now: Nanos) -> f64 {
        rate(self.lately + (packets - self.counted), now.since(self.born))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    #[test]
    fn worth_follows_the_rate_and_fades_in_silence() {
        let mut worth = Worth::new(Nanos(0));
        let mut packets = 0;
        for tick in 1..=2000 {
            packets += 500;
            worth.handle_timeout(packets, Nanos(tick * 50 * MS));
        }
        let now = |seconds: u64| Nanos((100 + seconds) * 1000 * MS);
        let rate = worth.rate(packets, now(0));
        assert!((9_000.0..11_000.0).contains(&rate), "{rate}");
        worth.handle_timeout(packets, now(10));
        let later = worth.rate(packets, now(10));
        assert!((0.4..0.6).contains(&(later / rate)), "half of it after 10 s: {later}");
        worth.handle_timeout(packets, now(10_000));
        assert_eq!(worth.rate(packets, now(10_000)), 0.0);
        assert_eq!(Worth::new(now(0)).rate(3, now(0)), 30.0, "three packets at once are no 3 GHz");
    }

    #[test]
    fn the_poorest_gives_way_to_twice_as_much_and_not_too_often() {
        let mut places = Places::new(4);
        places.look(&[Share { rate: 10.0, held: 0, rich: true, leaves: 0 }], Bar { rate: 50.0, leaves: 7 });
        assert!(places.has_memory(50.0, 1) && !places.has_memory(50.0, 0));
        assert!(places.has_memory(49.0, 8) && !places.has_memory(49.0, 7));
        assert!(!places.may_claim(19.0, false, Nanos(0)) && places.may_claim(20.0, false, Nanos(0)));
        assert!(places.gives_way(10.0, 20.0) && !places.gives_way(10.0, 19.0));
        for _ in 1..MAX_REPLACED_AT_ONCE {
            assert!(places.may_claim(99.0, false, Nanos(0)) && places.gives_way(10.0, 99.0));
        }
        assert!(!places.may_claim(99.0, false, Nanos(0)), "a wave of newcomers waits");
        assert!(places.may_claim(99.0, true, Nanos(0)), "a stream does not");
        assert!(places.may_claim(99.0, false, REPLACEMENT_INTERVAL));
    }

    #[test]
    fn the_richest_have_the_memory() {
        let streams =
            |n: usize| (0..n).map(|n| Share { rate: (n / 2) as f64, held: n % 3, rich: false, leaves: 9 });
        let mut all: Vec<_> = streams(15).collect();
        assert_eq!(share(&mut all, 64, 2), Bar::default());
        assert!(all.iter().all(|s| s.leaves == 0), "there is room for all, and one more");
        let mut all: Vec<_> = streams(17).collect();
        let bar = share(&mut all, 64, 2);
        // The youngest of the two poorest; the others hold 15 of their 32 blocks.
        assert_eq!(
            all.iter().map(|s| s.leaves).collect::<Vec<_>>(),
            [vec![0], vec![17], vec![0; 15]].concat()
        );
        assert_eq!(bar, Bar { rate: 0.0, leaves: 17 });
        all[1].rate = 0.7;
        all[0].rate = 0.5;
        share(&mut all, 64, 2);
        // Some send four times as much as the last of the rich, for whom some blocks stay.
        assert_eq!((all[0].leaves, all[1].leaves), (4, 17), "not richer by enough");
        assert!(all.iter().all(|s| s.rich == (s.leaves < 17) && (s.leaves == 0) == (s.rate >= 2.0)));
        all[1].rate = 0.8;
        share(&mut all, 64, 2);
        assert_eq!((all[0].leaves, all[1].leaves), (16, 4), "one of the rich holds one block more");
    }

    #[test]
    fn what_happens_often_is_said_now_and_then_with_its_sum() {
        let mut places = Places::new(4);
        (0..100).for_each(|n| places.refused(1, Nanos(n)));
        places.refused(1, EVENT_INTERVAL);
        let said: Vec<_> = std::iter::from_fn(|| places.poll_event()).collect();
        assert_eq!(said.len(), 2);
        assert!(said[0].text.starts_with("senders refused so far: 1,") && said[1].text.contains(": 101,"));
        assert!(said[1].text.contains("--from"));
    }
}
