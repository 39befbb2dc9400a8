//! Memory of the kernel for heaps: its programs place payloads in a heap before this process has it.
//!
//! ```text
//!   │ element 0 │ element 1 │ element 2 │ …      each a block for one heap; equally long, page by page
//!         ▲ a program writes those that are open in one of its slots
//!         └ HeapBytes: its owner, as with other memory
//! ```
//!
//! Limits: one size; it neither grows nor shrinks. A block that returns may still be open to a program.

use super::super::mapping::Mapping;
use super::class::{Class, Span};
use super::{BytesAside, HeapBytes, HeapMemory};
use crate::bpf::{Map, Words};
use crate::memory::check_available;
use std::io;
use std::sync::Arc;

/// Heaps of one size in memory of the kernel.
#[derive(Debug)]
pub struct KernelHeaps {
    memory: HeapMemory,
    kernel: (Arc<Map>, Arc<Words>),
    element_bytes: usize,
    elements: u32,
    base: usize,
}

impl KernelHeaps {
    /// So many elements of at least so many bytes, in whole pages. The memory that they are taken out of, if any, has its bytes back when
    /// the last heap is dropped.
    ///
    /// # Errors
    /// Why the kernel does not give it, with a hint.
    pub fn new(element_bytes: usize, elements: u32, aside: Option<BytesAside>) -> io::Result<KernelHeaps> {
        let element_bytes = element_bytes.next_multiple_of(4096);
        let total = element_bytes as u64 * u64::from(elements);
        check_available(total, "memory of the kernel", "use less")?;
        let mapping = Mapping::of_kernel(element_bytes, elements)?;
        let kernel = mapping.kernel().cloned().ok_or(io::ErrorKind::Unsupported)?;
        let base = mapping.base().addr();
        // It cannot be known what of it is in the cache.
        let memory = HeapMemory::of(total, Box::new([Class::new(element_bytes, 0)]), aside);
        let class = &memory.inner().classes[0];
        let first = class.add(Span::over(mapping, element_bytes, elements as usize));
        class.push_reserve(first);
        Ok(KernelHeaps { memory, kernel, element_bytes, elements, base })
    }

    /// Bytes of an element, and number of elements.
    #[must_use]
    pub fn elements(&self) -> (usize, u32) {
        (self.element_bytes, self.elements)
    }

    /// The memory of the kernel that they are.
    pub(crate) fn kernel(&self) -> &(Arc<Map>, Arc<Words>) {
        &self.kernel
    }

    /// A free element for a heap of `bytes`, and its number.
    #[must_use]
    pub fn take(&self, bytes: usize) -> Option<(u32, HeapBytes)> {
        let class = &self.memory.inner().classes[0];
        let node = class.pop().filter(|_| bytes <= class.bytes())?;
        let heap = self.memory.bytes(node, bytes);
        Some((self.element(&heap)?, heap))
    }

    /// Which element this is, if it is one.
    #[inline]
    #[must_use]
    pub fn element(&self, heap: &HeapBytes) -> Option<u32> {
        let at = heap.as_ptr().addr().checked_sub(self.base)? / self.element_bytes;
        u32::try_from(at).ok().filter(|&at| at < self.elements)
    }
}
