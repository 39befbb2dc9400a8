//! The layout of the engine that all formats share: an object is a heap.

use super::{Flavour, Head};
use crate::placement::{Geometry, Grain, Layout, Placement, Reject};
use crate::wire::layout::RUNS;

/// The layout of a SPEAD stream: an object is a heap.
#[derive(Clone, Copy, Debug)]
pub struct SpeadLayout {
    /// All packets must have this flavour.
    pub flavour: Flavour,
    /// Octets of the largest heap.
    pub heap_bytes: u64,
}

impl Layout for SpeadLayout {
    #[inline]
    fn place(&self, packet: &[u8]) -> Result<Placement, Reject> {
        let head = Head::read(packet)?;
        if head.flavour != self.flavour {
            return Err(Reject::BadVersion);
        }
        if head.length == 0 {
            return Err(Reject::BadField);
        }
        let most = head.size.unwrap_or(self.heap_bytes);
        if most > self.heap_bytes || head.offset + head.length > most {
            return Err(Reject::Outside);
        }
        Ok(head.placement(0))
    }

    fn geometry(&self) -> Geometry {
        Geometry { object_bytes: self.heap_bytes, grain: Grain::Bytes(RUNS) }
    }

    /// Unknown: heap counters need not be consecutive.
    fn units_between(&self, _: u64, _: u64) -> Option<u64> {
        None
    }
}
