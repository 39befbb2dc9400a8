//! Heaps that are missing entirely, per sender.
//!
//! ```text
//!   reader 0, 10.0.0.7:9000   1 2 3 · 5       one missing
//!   reader 0, 10.0.0.8:9000   4 8 12 16       none
//!   reader 1, 10.0.0.7:9000   7 900 31        not known: its counters have no step
//! ```
//!
//! Packets of one sender to several readers are not synchronised, so each reader counts separately. Called once per heap,
//! when it begins, and for rejected packets, whose heap is not missing.
//!
//! Limits: [`MOST`] senders are followed at a time. One more replaces the least recently active; its missing heaps stay
//! counted.

use skyhaul_core::assembly::Sequence;
use skyhaul_core::placement::Placement;
use std::collections::HashMap;
use std::net::SocketAddr;

/// Maximum number of senders followed; a kilobyte of memory for each.
const MOST: usize = 1024;

/// Number of missing heaps.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Missing {
    /// Heaps without any packet, from the gaps in their senders' counters.
    pub heaps: u64,
    /// Senders, per reader, whose heaps were counted.
    pub senders: u64,
    /// Senders whose missing heaps are unknown: their counters have no regular step, or they sent too few heaps.
    pub unknown_senders: u64,
}

impl Missing {
    /// The number, if it is known for any sender.
    #[must_use]
    pub fn known(&self) -> Option<u64> {
        (self.senders > 0).then_some(self.heaps)
    }

    fn add(&mut self, sequence: &Sequence) {
        match sequence.missing() {
            Some(heaps) => {
                self.heaps += heaps;
                self.senders += 1;
            }
            None => self.unknown_senders += 1,
        }
    }
}

/// Reader, sender and source.
type Who = (usize, SocketAddr, u16);

struct Row {
    who: Who,
    sequence: Sequence,
    /// Used since the clock hand last passed it.
    is_used: bool,
}

/// The counters of all senders of a stream.
#[derive(Default)]
pub(crate) struct Rows {
    at: HashMap<Who, usize>,
    rows: Vec<Row>,
    /// The clock hand: the next candidate for replacement.
    hand: usize,
    last: usize,
    forgotten: Missing,
    /// Only some of the senders' heaps come here: gaps say nothing.
    is_shared: bool,
}

impl Rows {
    /// `shared`: a balancer shares the senders' heaps out to several receivers, so none can be missed here.
    pub(crate) fn new(shared: bool) -> Self {
        Self { is_shared: shared, ..Self::default() }
    }

    /// A packet of this heap arrived.
    #[inline]
    pub(crate) fn note(&mut self, who: Who, place: &Placement, is_control: bool) {
        if self.is_shared {
            return;
        }
        let bits = place.number_bits;
        let at = match self.rows.get(self.last) {
            Some(row) if row.who == who => self.last,
            _ => self.find(who, bits),
        };
        self.last = at;
        let row = &mut self.rows[at];
        row.is_used = true;
        row.sequence.note(place.key.number, is_control);
    }

    /// This sender marked its start.
    #[cold]
    pub(crate) fn begin(&mut self, who: Who) {
        if let Some(&at) = self.at.get(&who) {
            self.rows[at].sequence.finish();
        }
    }

    /// The stream has ended.
    pub(crate) fn finish(&mut self) {
        self.rows.iter_mut().for_each(|row| row.sequence.finish());
    }

    pub(crate) fn missing(&self) -> Missing {
        let mut all = self.forgotten;
        self.rows.iter().for_each(|row| all.add(&row.sequence));
        all
    }

    #[cold]
    fn find(&mut self, who: Who, bits: u8) -> usize {
        if let Some(&at) = self.at.get(&who) {
            return at;
        }
        let at = if self.rows.len() < MOST {
            self.rows.push(Row { who, sequence: Sequence::new(bits), is_used: true });
            self.rows.len() - 1
        } else {
            let at = self.free();
            let row = &mut self.rows[at];
            row.sequence.finish();
            self.forgotten.add(&row.sequence);
            self.at.remove(&row.who);
            row.who = who;
            row.sequence.clear(bits);
            at
        };
        self.at.insert(who, at);
        at
    }

    /// The next entry that was not used since the last pass.
    fn free(&mut self) -> usize {
        loop {
            let at = self.hand;
            self.hand = (self.hand + 1) % self.rows.len();
            if !std::mem::take(&mut self.rows[at].is_used) {
                return at;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use skyhaul_core::placement::Key;

    fn part(number: u64) -> Placement {
        Placement { key: Key::of(number), number_bits: 48, ..Placement::default() }
    }

    fn who(reader: usize, host: u16) -> Who {
        (reader, SocketAddr::from(([10, 0, (host >> 8) as u8, host as u8], 9000)), 0)
    }

    #[test]
    fn each_sender_counts_by_itself_and_so_does_each_reader() {
        let mut rows = Rows::default();
        for n in 0..200u64 {
            rows.note(who(0, 1), &part(n), false);
            if n != 100 {
                rows.note(who(0, 2), &part(4 * n), false);
            }
            if n != 50 && n != 51 {
                rows.note(who(1, 1), &part(600 + 2 * n), false);
            }
            rows.note(who(0, 3), &part(n * n * n), false);
        }
        rows.finish();
        assert_eq!(rows.missing(), Missing { heaps: 3, senders: 3, unknown_senders: 1 });
        assert_eq!(rows.missing().known(), Some(3));
        assert_eq!(Rows::default().missing().known(), None);
        let mut shared = Rows::new(true);
        (0..200u64).filter(|n| n % 7 > 0).for_each(|n| shared.note(who(0, 1), &part(n), false));
        shared.finish();
        assert_eq!(shared.missing(), Missing::default(), "the seventh went to another receiver");
    }

    #[test]
    fn no_more_senders_are_followed_than_there_is_room_for() {
        let mut rows = Rows::default();
        for n in 0..100 {
            rows.note(who(0, 0), &part(2 * n), false);
        }
        for host in 1..3000 {
            for n in (0..20).filter(|n| *n != 10) {
                rows.note(who(0, host), &part(n), false);
            }
            rows.note(who(0, 0), &part(2 * (100 + u64::from(host))), false);
        }
        assert_eq!((rows.rows.len(), rows.at.len()), (MOST, MOST));
        rows.finish();
        // One counter was left out before the first of the others; and who went on was forgotten when all had been used.
        assert_eq!(rows.missing(), Missing { heaps: 2999 + 1, senders: 3001, unknown_senders: 0 });
    }
}
