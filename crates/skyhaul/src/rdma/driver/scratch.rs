//! Memory for copies of what is sent.

use std::ops::Range;

/// Copies of what is sent. The memory stays, so that it is cleared only once.
#[derive(Default)]
pub(super) struct Scratch {
    pub(super) bytes: Vec<u8>,
    used: usize,
}

impl Scratch {
    pub(super) fn clear(&mut self) {
        self.used = 0;
    }

    /// So many bytes with any contents, behind those in use.
    pub(super) fn take(&mut self, length: usize) -> Range<usize> {
        let from = self.used;
        self.used += length;
        if self.bytes.len() < self.used {
            self.bytes.resize(self.used, 0);
        }
        from..self.used
    }
}
