//! Pieces of a range that are over, until the caller has taken those before them.

use std::collections::BTreeMap;
use std::io;
use std::time::{Duration, Instant};

/// The caller gets pieces for so long in a turn, and one at least: meanwhile nobody looks at the clock.
const HAND_OVER: Duration = Duration::from_millis(5);

/// Pieces by their first byte.
#[derive(Debug)]
pub(super) struct Handover {
    over: BTreeMap<u64, Vec<u8>>,
    /// The first byte that was not taken.
    pub(super) taken: u64,
    /// Memory of pieces that were taken, for the next ones: so it is cleared only once.
    spare: Vec<Vec<u8>>,
}

impl Handover {
    pub(super) fn new(first: u64) -> Handover {
        Handover { over: BTreeMap::new(), taken: first, spare: Vec::new() }
    }

    /// Memory for a piece, with any contents.
    pub(super) fn memory(&mut self, length: u64) -> Vec<u8> {
        let mut bytes = self.spare.pop().unwrap_or_default();
        bytes.resize(length as usize, 0);
        bytes
    }

    /// A piece is over.
    pub(super) fn put(&mut self, first: u64, bytes: Vec<u8>) {
        self.over.insert(first, bytes);
    }

    /// Whether the next piece is there.
    pub(super) fn is_ready(&self) -> bool {
        self.over.contains_key(&self.taken)
    }

    /// Hands pieces over in order, with the offset of each from byte `start` on.
    pub(super) fn take(
        &mut self,
        start: u64,
        take: &mut dyn FnMut(u64, &[u8]) -> io::Result<()>,
    ) -> io::Result<()> {
        let began = Instant::now();
        while let Some(bytes) = self.over.remove(&self.taken) {
            take(self.taken - start, &bytes)?;
            self.taken += bytes.len() as u64;
            self.spare.push(bytes);
            if began.elapsed() >= HAND_OVER {
                break;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_come_in_order_and_a_slow_caller_gets_one_at_a_time() {
        let mut handover = Handover::new(100);
        for first in [110, 100, 130, 120] {
            let mut bytes = handover.memory(10);
            bytes.fill(first as u8);
            handover.put(first, bytes);
        }
        let mut got = Vec::new();
        let mut slow = |at: u64, bytes: &[u8]| {
            got.push((at, bytes[0]));
            std::thread::sleep(HAND_OVER);
            Ok(())
        };
        for _ in 0..2 {
            handover.take(100, &mut slow).unwrap();
        }
        assert_eq!(got, [(0, 100), (10, 110)]);
        assert!(handover.is_ready());
        // A shorter piece in memory of a longer one.
        assert_eq!(handover.memory(3).len(), 3);
    }
}
