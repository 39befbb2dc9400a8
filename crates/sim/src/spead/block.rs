//! Memory of heaps, of which there is so much and no more.

use std::cell::Cell;
use std::rc::Rc;

/// A heap's memory, that comes free when it is dropped.
pub(super) struct Block {
    pub(super) bytes: Vec<u8>,
    pub(super) free: Rc<Cell<u64>>,
}

/// What memory holds when it is handed out.
pub(super) const POISON: u8 = 0xDD;

impl Block {
    pub(super) fn take(bytes: u64, old: Option<Block>, free: &Rc<Cell<u64>>) -> Result<Block, Option<Block>> {
        let Some(rest) = free.get().checked_sub(bytes) else { return Err(old) };
        free.set(rest);
        let mut block = Block { bytes: vec![POISON; bytes as usize], free: Rc::clone(free) };
        if let Some(old) = old {
            block.bytes[..old.bytes.len()].copy_from_slice(&old.bytes);
        }
        Ok(block)
    }
}

impl Drop for Block {
    fn drop(&mut self) {
        self.free.set(self.free.get() + self.bytes.len() as u64);
    }
}

impl AsRef<[u8]> for Block {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}
