//! Which chunk a heap belongs to and where in it: declared by expressions, or decided by code.

use super::expr::{Expr, ExprError, IN_RULE, NAMES, Values};
use skyhaul_core::placement::Reject;
use skyhaul_core::wire::spead::{Flavour, Head, id};
use std::net::SocketAddr;
use std::sync::Arc;

/// What is known of a heap when its first packet arrives.
#[derive(Clone, Copy, Debug)]
pub struct HeapHead<'a> {
    /// The head of that packet.
    pub head: &'a Head<'a>,
    /// The heap's size in bytes.
    pub size: u64,
    /// Its sender.
    pub sender: SocketAddr,
    /// The number of its stream in the group; 0 if there is only one.
    pub stream: usize,
}

impl HeapHead<'_> {
    /// Whether that packet only describes or controls the stream: it has items, but none with data.
    #[must_use]
    pub fn has_no_data(&self) -> bool {
        let flavour: Flavour = self.head.flavour;
        self.head.has_items
            && self.head.kept().map(|pointer| flavour.parts(pointer).id).all(|id| id <= id::DTYPE)
    }

    /// The value of the last immediate item with this id in that packet.
    #[must_use]
    pub fn immediate(&self, id: u64) -> Option<u64> {
        let flavour: Flavour = self.head.flavour;
        let items = self.head.raw_pointers().map(|pointer| flavour.parts(pointer));
        items.filter(|item| item.immediate && item.id == id).fold(None, |_, item| Some(item.value))
    }
}

/// Maximum number of bytes that a heap can write to its chunk's `extra`.
pub const EXTRA: usize = 64;
/// Maximum number of counters that a function can add to.
pub const BATCH: usize = 16;

/// Where a heap is placed. It is checked against the chunk before a byte is written.
#[derive(Clone, Copy, Debug)]
pub struct HeapPlace {
    /// The chunk's number; negative if the heap is not wanted.
    pub chunk: i64,
    /// The heap's number in its chunk: the index of its byte in `present`.
    pub index: u64,
    /// Offset of its first byte in the chunk.
    pub offset: u64,
    /// Offset of the first byte written to the chunk's `extra`.
    pub extra_at: u64,
    /// Number of bytes written to `extra`.
    pub extra_bytes: usize,
    /// The bytes to write.
    pub extra: [u8; EXTRA],
    /// What a function counts, for the counters without an expression, in their order. Counted once for each heap.
    pub batch: [u64; BATCH],
}

impl Default for HeapPlace {
    /// For a heap that is not wanted.
    fn default() -> Self {
        Self {
            chunk: -1,
            index: 0,
            offset: 0,
            extra_at: 0,
            extra_bytes: 0,
            extra: [0; EXTRA],
            batch: [0; BATCH],
        }
    }
}

/// A function in place of expressions. It is called under a lock and must not wait.
pub type PlaceFn = Arc<dyn Fn(&HeapHead<'_>, &mut HeapPlace) + Send + Sync>;

/// How a user-defined counter is updated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tally {
    /// Sum of the values.
    Sum,
    /// Maximum of the values.
    Max,
}

impl Tally {
    fn add(self, counter: &mut u64, value: u64) {
        match self {
            Tally::Sum => *counter = counter.wrapping_add(value),
            Tally::Max => *counter = (*counter).max(value),
        }
    }
}

/// Where heaps are placed. See [the module](super) for an example.
#[derive(Clone)]
pub struct ChunkRule {
    decide: Decide,
    wanted: Option<Expr>,
    extra: Vec<Extra>,
    extra_at: Option<Expr>,
    /// Without an expression, what the function counts.
    pub(super) counters: Vec<(String, Tally, Option<Expr>)>,
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
    /// Chunk number, heap number in the chunk, and offset in the chunk: expressions over `item(ID)`, `counter`, `size` and
    /// `stream`. A heap is rejected if one of them has no value, or a negative one.
    ///
    /// # Errors
    /// The first text that is not an expression.
    pub fn declared(chunk: &str, index: &str, offset: &str) -> Result<ChunkRule, ExprError> {
        let [chunk, index, offset] = [chunk, index, offset].map(|text| Expr::parse(text, IN_RULE));
        let decide = Decide::Declared { chunk: chunk?, index: index?, offset: offset? };
        Ok(ChunkRule::new(decide))
    }

    /// Computed by a function.
    pub fn code(place: PlaceFn) -> ChunkRule {
        ChunkRule::new(Decide::Code(place))
    }

    fn new(decide: Decide) -> ChunkRule {
        ChunkRule { decide, wanted: None, extra: Vec::new(), extra_at: None, counters: Vec::new() }
    }

    /// Place only heaps for which this has a value other than 0: an expression as for [`declared`](Self::declared). The others
    /// are [not allowed](Reject::NotAllowed) and do not move the window.
    ///
    /// # Errors
    /// The text is not an expression.
    pub fn with_filter(mut self, wanted: &str) -> Result<ChunkRule, ExprError> {
        self.wanted = Some(Expr::parse(wanted, IN_RULE)?);
        Ok(self)
    }

    /// Write these values, each in the given number of bytes (1 to 8, native byte order), contiguously from offset `at` of
    /// the chunk's `extra`. `chunk`, `index` and `offset` have values here. At most 64 bytes are written.
    ///
    /// # Errors
    /// The first text that is not an expression.
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

    /// Count this for every heap that is placed. Negative values, and heaps for which it has no value, are not counted.
    ///
    /// # Errors
    /// The text is not an expression.
    pub fn with_counter(mut self, name: &str, tally: Tally, value: &str) -> Result<ChunkRule, ExprError> {
        self.counters.push((name.to_owned(), tally, Some(Expr::parse(value, NAMES.len())?)));
        Ok(self)
    }

    /// A counter to which the function adds ([`HeapPlace::batch`]), also for heaps that are not placed. At most [`BATCH`] are
    /// counted.
    #[must_use]
    pub fn with_batch_counter(mut self, name: &str, tally: Tally) -> ChunkRule {
        self.counters.push((name.to_owned(), tally, None));
        self
    }

    /// Compute the place of a heap, and the values of all names for the counters.
    pub(super) fn place(&self, heap: &HeapHead<'_>, place: &mut HeapPlace) -> Result<Values, Reject> {
        if heap.has_no_data() {
            return Err(Reject::BadField);
        }
        let small = |value: u64| i64::try_from(value).map_err(|_| Reject::BadField);
        let mut names: Values = [small(heap.head.counter)?, small(heap.size)?, heap.stream as i64, 0, 0, 0];
        if let Some(wanted) = &self.wanted {
            match wanted.value(&names, |id| heap.immediate(id)) {
                None => return Err(Reject::BadField),
                Some(0) => return Err(Reject::NotAllowed),
                Some(_) => {}
            }
        }
        match &self.decide {
            Decide::Code(code) => code(heap, place),
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
        Ok(names)
    }

    /// Update the counters.
    pub(super) fn count(&self, heap: &HeapHead<'_>, names: &Values, counters: &mut [u64]) {
        for ((_, tally, expr), counter) in self.counters.iter().zip(counters) {
            let value = expr.as_ref().and_then(|expr| expr.value(names, |id| heap.immediate(id)));
            if let Some(value) = value.and_then(|value| u64::try_from(value).ok()) {
                tally.add(counter, value);
            }
        }
    }

    /// Update the counters of the function.
    pub(super) fn count_batch(&self, batch: &[u64; BATCH], counters: &mut [u64]) {
        let own = self.counters.iter().zip(counters).filter(|((.., expr), _)| expr.is_none());
        for (((_, tally, _), counter), &value) in own.zip(batch) {
            tally.add(counter, value);
        }
    }
}
