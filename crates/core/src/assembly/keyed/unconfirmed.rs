//! Objects of which one part arrived: what they may hold together.
//!
//! A packet says how long its object is, and a forged one says anything. So large objects are unconfirmed until a second part
//! arrives, and all of them together hold no more than a share. One more begins: the largest of them that is no smaller
//! retires, of equal ones the oldest. So objects of an honest sender, whose second part follows within microseconds, do not
//! give way to larger ones that somebody announces, and what is announced does not keep memory from what arrives.

use super::{Cause, Keyed};

/// Smaller objects are not counted.
pub(super) const LARGE: u64 = 1 << 20;

/// What unconfirmed objects hold.
#[derive(Debug)]
pub(super) struct Unconfirmed {
    bytes: u64,
    most: u64,
}

impl Default for Unconfirmed {
    fn default() -> Self {
        Self { bytes: 0, most: u64::MAX }
    }
}

impl Unconfirmed {
    /// An object with this room begins with one part of it. Returns what it counts for.
    pub(super) fn announce(&mut self, room: u64) -> u64 {
        let counted = if room >= LARGE && self.most < u64::MAX { room } else { 0 };
        self.bytes += counted;
        counted
    }

    /// An object that counted for this is confirmed, or has ended.
    #[inline]
    pub(super) fn settle(&mut self, counted: &mut u64) {
        if *counted > 0 {
            self.bytes -= std::mem::take(counted);
        }
    }
}

impl<B> Keyed<B> {
    /// Objects of [one MiB](self) and more of which only one part arrived hold at most `bytes` together, or are one. Others
    /// retire early ([`Cause::Window`]).
    pub fn limit_unconfirmed(&mut self, bytes: u64) {
        self.unconfirmed.most = bytes;
    }

    /// An object that needs `bytes` begins.
    #[inline]
    pub(super) fn make_room(&mut self, bytes: u64) {
        if bytes >= LARGE && self.unconfirmed.bytes > 0 {
            self.retire_unconfirmed(bytes);
        }
    }

    #[cold]
    fn retire_unconfirmed(&mut self, bytes: u64) {
        while self.unconfirmed.bytes.saturating_add(bytes) > self.unconfirmed.most
            && self.retire_largest_unconfirmed(bytes)
        {}
    }

    /// Retire the largest unconfirmed object of at least `bytes`, of equal ones the oldest. Returns whether there is one.
    #[cold]
    pub(super) fn retire_largest_unconfirmed(&mut self, bytes: u64) -> bool {
        if self.unconfirmed.bytes == 0 {
            return false;
        }
        let (mut next, mut largest) = (self.table.oldest(), None);
        let mut most = bytes.max(1);
        while let Some(at) = next {
            let counted = self.table.at(at).unconfirmed;
            if counted > most || counted == most && largest.is_none() {
                (most, largest) = (counted, Some(at));
            }
            next = self.table.newer(at);
        }
        largest.inspect(|&at| self.retire(at, Cause::Window)).is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::assembly::keyed::KeyedConfig;
    use crate::assembly::{Slot, Window};
    use crate::placement::{Key, Nanos, Placement};

    fn put(keyed: &mut Keyed<()>, number: u64, offset: u64, length: u64, size: u64) {
        let part =
            Placement { key: Key::of(number), offset, length, size: Some(size), ..Placement::default() };
        keyed.reserve(part, Nanos(number), |_, _| Ok(())).unwrap().commit(Nanos(number));
    }

    fn keyed() -> Keyed<()> {
        let mut keyed = Keyed::new(KeyedConfig { window: 1000, ..KeyedConfig::default() });
        keyed.limit_unconfirmed(8 * LARGE);
        keyed
    }

    #[test]
    fn what_is_announced_holds_a_share_and_what_arrives_is_not_disturbed() {
        let mut keyed = keyed();
        // Under way before, and confirmed.
        put(&mut keyed, 1, 0, 100, 64 * LARGE);
        put(&mut keyed, 1, 100, 100, 64 * LARGE);
        for forged in 100..200 {
            put(&mut keyed, forged, 500, 1000, 4 * LARGE);
            // Begun amid the forged ones, and smaller.
            put(&mut keyed, forged + 1000, 0, LARGE / 2, LARGE + 1);
            put(&mut keyed, forged + 2000, 0, LARGE / 2, LARGE + 1);
            for number in [forged + 1000, forged + 2000] {
                put(&mut keyed, number, LARGE / 2, LARGE / 2 + 1, LARGE + 1);
            }
            assert!(keyed.live() <= 3, "{}", keyed.live());
        }
        put(&mut keyed, 1, 200, 64 * LARGE - 200, 64 * LARGE);
        let retired: Vec<_> = std::iter::from_fn(|| keyed.poll_retired()).collect();
        let whole =
            |number: u64| retired.iter().any(|one| one.key.number == number && one.missing.is_empty());
        assert!((1100..1200).chain(2100..2200).chain([1]).all(whole));
        let given_up: Vec<u64> =
            retired.iter().filter(|one| one.cause == Cause::Window).map(|one| one.key.number).collect();
        assert_eq!(given_up, (100..198).collect::<Vec<u64>>(), "the oldest of equal ones");
    }

    #[test]
    fn the_account_is_true_after_every_end() {
        let mut keyed = keyed();
        put(&mut keyed, 1, 0, 1, 2 * LARGE);
        put(&mut keyed, 2, 0, 1, 3 * LARGE);
        put(&mut keyed, 3, 0, 1, LARGE - 1);
        put(&mut keyed, 4, 0, 2 * LARGE, 2 * LARGE);
        assert_eq!(keyed.unconfirmed.bytes, 5 * LARGE);
        put(&mut keyed, 1, 1, 1, 2 * LARGE);
        assert_eq!(keyed.unconfirmed.bytes, 3 * LARGE);
        keyed.give_up(Key::of(2), Nanos(9));
        assert_eq!(keyed.unconfirmed.bytes, 0);
        put(&mut keyed, 5, 0, 1, 2 * LARGE);
        keyed.finish(Nanos(10));
        assert_eq!((keyed.unconfirmed.bytes, keyed.live()), (0, 0));
    }

    /// There is no memory at all: what is only announced makes room, for the next packet.
    #[test]
    fn what_is_announced_gives_way_when_there_is_no_memory() {
        let mut keyed = keyed();
        put(&mut keyed, 1, 0, 1, 2 * LARGE);
        let part = Placement { key: Key::of(2), length: 1, size: Some(100), ..Placement::default() };
        assert!(keyed.reserve(part, Nanos(3), |_, old| Err(old)).is_err());
        assert_eq!(keyed.poll_retired().map(|one| one.key.number), Some(1));
    }
}
