//! Which chunk a heap belongs to and where in it: declared by expressions, or decided by code.

use super::expr::{Expr, ExprError, IN_RULE, NAMES, Values};
use skyhaul_core::placement::Reject;
use skyhaul_core::wire::spead::{Flavour, Head};
use std::net::SocketAddr;
use std::sync::Arc;

/// What is known of a heap when its first packet comes.
#[derive(Clone, Copy, Debug)]
pub struct HeapHead<'a> {
    /// That packet's head.
    pub head: &'a Head<'a>,
    /// The heap's size in bytes.
    pub size: u64,
    /// Who sent it.
    pub sender: SocketAddr,
    /// The number of its stream in the group; 0 where there is only one.
    pub stream: usize,
}

impl HeapHead<'_> {
    /// The value of the last immediate item with this id in that packet.
    #[must_use]
    pub fn immediate(&self, id: u64) -> Option<u64> {
        let flavour: Flavour = self.head.flavour;
        let items = self.head.raw_pointers().map(|pointer| flavour.parts(pointer));
        items.filter(|item| item.immediate && item.id == id).fold(None, |_, item| Some(item.value))
    }
}

/// Bytes of user data that a heap can leave in its chunk's `extra`.
pub const EXTRA: usize = 64;

/// Where a heap goes. Everything is checked against the chunk before a byte is written.
#[derive(Clone, Copy, Debug)]
pub struct Place {
    /// The chunk's number; negative: the heap is not wanted.
    pub chunk: i64,
    /// The heap's number in its chunk: which byte of `present` is its own.
    pub index: u64,
    /// Its first byte in the chunk.
    pub offset: u64,
    /// First byte in the chunk's `extra` that is written.
    pub extra_at: u64,
    /// How many bytes of `extra` are written.
    pub extra_bytes: usize,
    /// These.
    pub extra: [u8; EXTRA],
}

impl Default for Place {
    /// Not wanted.
    fn default() -> Self {
        Self { chunk: -1, index: 0, offset: 0, extra_at: 0, extra_bytes: 0, extra: [0; EXTRA] }
    }
}

/// Code that decides instead of expressions. It is called under a lock: it must not wait.
pub type PlaceFn = Arc<dyn Fn(&HeapHead<'_>, &mut Place) + Send + Sync>;

/// How a counter of the user's goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tally {
    /// The values are added up.
    Sum,
    /// The largest value is kept.
    Max,
}

/// Where heaps go. See [the module](super) for an example.
#[derive(Clone)]
pub struct ChunkRule {
    decide: Decide,
    extra: Vec<Extra>,
    extra_at: Option<Expr>,
    pub(super) counters: Vec<(String, Tally, Expr)>,
}

#[derive(Clone)]
enum Decide {
    Declared { chunk: Expr, index: Expr, offset: Expr },
    Code(PlaceFn),
}

#[derive(Clone, Debug)]
struct Extra {
    value: Expr,
    bytes: usize,
}

impl std::fmt::Debug for ChunkRule {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let texts = match &self.decide {
            Decide::Declared { chunk, index, offset } => [chunk, index, offset].map(Expr::text),
            Decide::Code(_) => ["code"; 3],
        };
        f.debug_struct("ChunkRule").field("place", &texts).finish_non_exhaustive()
    }
}

impl ChunkRule {
    /// Chunk number, heap number in the chunk, first byte in the chunk: expressions over `item(ID)`, `counter`, `size`
    /// and `stream`. A heap is refused where one of them has no value, or a negative one.
    ///
    /// # Errors
    /// The first text that is no expression.
    pub fn declared(chunk: &str, index: &str, offset: &str) -> Result<ChunkRule, ExprError> {
        let [chunk, index, offset] = [chunk, index, offset].map(|text| Expr::parse(text, IN_RULE));
        let decide = Decide::Declared { chunk: chunk?, index: index?, offset: offset? };
        Ok(ChunkRule { decide, extra: Vec::new(), extra_at: None, counters: Vec::new() })
    }

    /// Decided by code.
    pub fn code(place: PlaceFn) -> ChunkRule {
        ChunkRule { decide: Decide::Code(place), extra: Vec::new(), extra_at: None, counters: Vec::new() }
    }

    /// Write these values, each in so many bytes (1 to 8, this machine's byte order), one behind the other to `at` of the
    /// chunk's `extra`. `chunk`, `index` and `offset` have values here. 64 bytes in all, what is more is left away.
    ///
    /// # Errors
    /// The first text that is no expression.
    pub fn with_extra(mut self, at: &str, values: &[(&str, usize)]) -> Result<ChunkRule, ExprError> {
        self.extra_at = Some(Expr::parse(at, NAMES.len())?);
        self.extra.clear();
        let mut left = EXTRA;
        for &(value, bytes) in values {
            let bytes = bytes.clamp(1, 8);
            let value = Expr::parse(value, NAMES.len())?;
            if bytes <= left {
                left -= bytes;
                self.extra.push(Extra { value, bytes });
            }
        }
        Ok(self)
    }

    /// Count this for every heap that is placed: negative values, and heaps for which it has none, are left out.
    ///
    /// # Errors
    /// The text is no expression.
    pub fn with_counter(mut self, name: &str, tally: Tally, value: &str) -> Result<ChunkRule, ExprError> {
        self.counters.push((name.to_owned(), tally, Expr::parse(value, NAMES.len())?));
        Ok(self)
    }

    /// Decide. The values of all names come with it, for the counters.
    pub(super) fn place(&self, heap: &HeapHead<'_>) -> Result<(Place, Values), Reject> {
        let small = |value: u64| i64::try_from(value).map_err(|_| Reject::BadField);
        let mut names: Values = [small(heap.head.counter)?, small(heap.size)?, heap.stream as i64, 0, 0, 0];
        let mut place = Place::default();
        match &self.decide {
            Decide::Code(code) => code(heap, &mut place),
            Decide::Declared { chunk, index, offset } => {
                let value = |expr: &Expr| expr.value(&names, |id| heap.immediate(id)).ok_or(Reject::BadField);
                let positive = |value: i64| u64::try_from(value).map_err(|_| Reject::BadField);
                place.chunk = value(chunk)?;
                (place.index, place.offset) = (positive(value(index)?)?, positive(value(offset)?)?);
            }
        }
        if place.chunk < 0 {
            return Err(Reject::BadField);
        }
        names[IN_RULE..].copy_from_slice(&[place.chunk, small(place.index)?, small(place.offset)?]);
        if let Some(at) = &self.extra_at {
            let value = |expr: &Expr| expr.value(&names, |id| heap.immediate(id)).ok_or(Reject::BadField);
            place.extra_at = u64::try_from(value(at)?).map_err(|_| Reject::BadField)?;
            place.extra_bytes = 0;
            for Extra { value: expr, bytes } in &self.extra {
                let octets = value(expr)?.to_le_bytes();
                let to = &mut place.extra[place.extra_bytes..][..*bytes];
                to.copy_from_slice(&octets[..*bytes]);
                if cfg!(target_endian = "big") {
                    to.reverse();
                }
                place.extra_bytes += bytes;
            }
        }
        place.extra_bytes = place.extra_bytes.min(EXTRA);
        Ok((place, names))
    }

    /// Go on with the counters.
    pub(super) fn count(&self, heap: &HeapHead<'_>, names: &Values, counters: &mut [u64]) {
        for ((_, tally, expr), counter) in self.counters.iter().zip(counters) {
            let value =
                expr.value(names, |id| heap.immediate(id)).and_then(|value| u64::try_from(value).ok());
            match (tally, value) {
                (Tally::Sum, Some(value)) => *counter = counter.wrapping_add(value),
                (Tally::Max, Some(value)) => *counter = (*counter).max(value),
                (_, None) => {}
            }
        }
    }
}
