//! The table of a chunk: the heaps that begin in it, and where their packets are.

use crate::recording::OpenPiece;
use skyhaul_core::wire::spead::table::{StoredHeap, Table};
use skyhaul_core::wire::spead::{Descriptor, Flavour, Head};

/// Octets read at once where heads are near each other, and where they are not.
pub(super) const NEAR: usize = 64 << 10;
pub(super) const FAR: usize = 4 << 10;

/// The table of a piece.
#[derive(Debug, Default)]
pub(super) enum Held {
    #[default]
    Unread,
    Here(std::sync::Arc<Chunk>),
    /// The chunk cannot be read.
    Unusable,
}

/// The heaps that begin in a chunk.
#[derive(Debug)]
pub(super) struct Chunk {
    pub(super) table: Table,
    /// Heaps of the table that began before the chunk: none, or one.
    pub(super) before: usize,
    /// The files that its heaps are in: its own, and those in which the last one goes on.
    pub(super) files: Vec<OpenPiece>,
    /// The descriptors that its heaps brought, each with its heap; equal ones only once.
    pub(super) described: Vec<(usize, Descriptor)>,
}

impl Chunk {
    /// The `n`th heap that begins in it.
    pub(super) fn heap(&self, n: usize) -> Option<StoredHeap<'_>> {
        self.table.heap(self.before + n)
    }

    pub(super) fn heaps(&self) -> usize {
        self.table.len() - self.before
    }

    pub(super) fn bytes(&self) -> usize {
        let texts =
            |d: &Descriptor| d.name.len() + d.description.len() + d.numpy.as_ref().map_or(0, String::len);
        let described = self.described.iter().map(|(_, d)| texts(d) + size_of::<(usize, Descriptor)>());
        self.table.bytes() + described.sum::<usize>()
    }
}

/// The head of the first packet of a chunk.
#[derive(Clone, Debug)]
pub(super) struct First(pub(super) Vec<u8>);

impl First {
    /// Whether it belongs to the last heap of a table.
    pub(super) fn continues(&self, table: &Table) -> bool {
        matches!(Head::peek(&self.0), Ok(Some(head)) if table.is_continued_by(&head))
    }
}

/// Whether a heap may have an item, by its pointers alone.
pub(super) fn points_at(flavour: Flavour, pointers: &[u64], id: u64) -> bool {
    pointers.iter().any(|&pointer| flavour.parts(pointer).id == id)
}
