//! A plan together with its pointers.

use super::Plan;
use super::error::PacketError;
use super::shape::HeapShape;
use crate::packetize::{Divided, Part};

/// The packets of a heap, with its pointers; up to [`INLINE`](Self::INLINE) of them need no allocation.
#[derive(Clone, Debug)]
pub struct HeapPackets {
    plan: Plan,
    inline: [u64; Self::INLINE],
    used: usize,
    /// Used instead of `inline` if there are more pointers.
    many: Vec<u64>,
}

impl HeapPackets {
    /// Pointers stored without an allocation.
    pub const INLINE: usize = 12;

    /// Divide a heap.
    ///
    /// # Errors
    /// See [`PacketError`].
    #[inline]
    // By value, as it is agreed; it is small.
    #[allow(clippy::needless_pass_by_value)]
    pub fn new(shape: HeapShape<'_>) -> Result<HeapPackets, PacketError> {
        let plan = Plan::new(&shape)?;
        let (mut inline, used) = ([0; Self::INLINE], shape.pointers.len());
        let many = match inline.get_mut(..used) {
            Some(inline) => {
                inline.copy_from_slice(shape.pointers);
                Vec::new()
            }
            None => shape.pointers.to_vec(),
        };
        Ok(HeapPackets { plan, inline, used, many })
    }

    /// Write the head of packet `n`: see [`Plan::packet`].
    ///
    /// # Panics
    /// If `head` is too small or `n` is too large.
    #[inline]
    pub fn packet(&self, n: u64, head: &mut [u8]) -> Part {
        let pointers = self.inline.get(..self.used).unwrap_or(&self.many);
        self.plan.packet(pointers, n, head)
    }
}

impl std::ops::Deref for HeapPackets {
    type Target = Plan;

    #[inline]
    fn deref(&self) -> &Plan {
        &self.plan
    }
}

impl Divided for HeapPackets {
    fn count(&self) -> u64 {
        Plan::count(self)
    }

    fn head_bytes_max(&self) -> usize {
        Plan::head_bytes_max(self)
    }

    fn bytes_of(&self, n: u64) -> u64 {
        Plan::bytes_of(self, n)
    }

    fn bytes_on_wire(&self) -> u64 {
        Plan::bytes_on_wire(self)
    }

    fn packet(&self, n: u64, head: &mut [u8]) -> Part {
        HeapPackets::packet(self, n, head)
    }
}
