//! A window of either policy under attack: everything it is told and hands on goes through the ledger of the simulated worlds.

use skyhaul_core::assembly::{Retired, Slot, Window};
use skyhaul_core::pattern;
use skyhaul_core::placement::{Nanos, Placement, Reject};
use skyhaul_sim::ledger::Ledger;

/// A window, its ledger, and memory that may end.
pub(crate) struct Attacked<W> {
    pub(crate) window: W,
    pub(crate) ledger: Ledger,
    pub(crate) now: Nanos,
    /// There is no memory.
    pub(crate) full: bool,
    /// Blocks that the window has.
    pub(crate) blocks: usize,
    /// Bytes of the largest object.
    largest: u64,
    /// Parts so far: each has bytes of its own.
    parts: u64,
}

impl<W: Window<Vec<u8>>> Attacked<W> {
    pub(crate) fn new(window: W, largest: u64) -> Self {
        Attacked {
            window,
            ledger: Ledger::default(),
            now: Nanos(0),
            full: false,
            blocks: 0,
            largest,
            parts: 0,
        }
    }

    /// A part.
    pub(crate) fn put(&mut self, part: Placement) -> Result<(), Reject> {
        let Attacked { window, ledger, now, full, blocks, largest, parts } = self;
        let room = |bytes: u64, old: Option<Vec<u8>>| {
            if *full {
                return Err(old);
            }
            assert!(bytes <= *largest, "{bytes} bytes are asked for");
            *blocks += usize::from(old.is_none());
            let mut block = old.unwrap_or_default();
            block.resize(bytes as usize, 0);
            Ok(block)
        };
        *parts += 1;
        let placed = window.reserve(part, *now, room).map(|mut slot| {
            let range = slot.range();
            assert_eq!(range, part.offset..part.offset + part.length);
            let bytes = &mut slot.block()[range.start as usize..range.end as usize];
            pattern::fill(*parts, part.offset, bytes);
            ledger.accept(&part, bytes);
            slot.commit(*now);
        });
        assert!(placed != Err(Reject::NoBuffer) || *full, "refused memory that was free");
        placed
    }

    /// Let time pass.
    pub(crate) fn pass(&mut self, by: u64) {
        self.now = self.now.plus(Nanos(by));
        self.window.handle_timeout(self.now);
        assert!(self.window.poll_timeout().is_none_or(|due| due > self.now), "a time that is past is due");
    }

    /// What came out, in order.
    pub(crate) fn drain(&mut self) -> Vec<Retired<Vec<u8>>> {
        let all: Vec<_> = std::iter::from_fn(|| self.window.poll_retired()).collect();
        for part in &all {
            self.ledger.retire(part).unwrap_or_else(|why| panic!("{why}"));
        }
        self.blocks -= all.len();
        assert_eq!(self.blocks, self.window.held(), "blocks are somewhere else");
        all
    }

    /// The stream ends: what came out at last.
    pub(crate) fn end(mut self) -> Vec<Retired<Vec<u8>>> {
        self.window.finish(self.now);
        let all = self.drain();
        self.ledger.finish().unwrap_or_else(|why| panic!("{why}"));
        assert_eq!(self.blocks, 0, "blocks stayed behind");
        all
    }
}
