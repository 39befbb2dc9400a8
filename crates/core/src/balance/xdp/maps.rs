//! The names of the program's maps.

/// A map that the program uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MapName {
    /// An array of maps with one element: the table in use, see [`image`](super::image()).
    Tables,
    /// An array with one element: until when the table may be used, see [`Lease`](super::Lease).
    Lease,
    /// A per-CPU array with one element: what the CPU forwarded, see [`Counts`](super::Counts).
    Counts,
}

/// The program, complete except for the numbers of its maps.
pub type Program = crate::bytecode::Bytecode<MapName>;
