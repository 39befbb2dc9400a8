//! The fixed limits of one table of objects.

use crate::placement::Nanos;

/// Fixed limits of one table of objects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeyedConfig {
    /// Most objects under construction at a time in a substream, at least 1. One more, and the oldest retires.
    pub window: usize,
    /// Substreams, at least 1, each with a window of its own: `source` modulo this, or, where that is 0, `counter`.
    pub substreams: u64,
    /// Refuse a part that is not the next one of its object. The order of objects never matters. An object whose first part is
    /// lost begins with the first that is refused, and retires with nothing in it.
    pub in_order: bool,
    /// Accept objects of which no part so far told the size.
    pub unsized_objects: bool,
    /// Bytes of the largest object.
    pub largest: u64,
    /// An object retires this long after its first part came, as far as it is there. `None`: only by the window and the end.
    pub timeout: Option<Nanos>,
    /// How many retired objects are remembered; 0: a packet that comes again begins its object again.
    pub remember: usize,
    /// For how long; then their counters may come again.
    pub remember_for: Nanos,
    /// Most separate ranges of an object that are tracked, at least 1.
    pub runs: u32,
}

impl Default for KeyedConfig {
    /// Window 16, one substream, any order, unsized objects, 1 GiB, 1 s, 4096 objects remembered for 1 s, 1024 runs.
    fn default() -> Self {
        Self {
            window: 16,
            substreams: 1,
            in_order: false,
            unsized_objects: true,
            largest: 1 << 30,
            timeout: Some(Nanos::SECOND),
            remember: 4096,
            remember_for: Nanos::SECOND,
            runs: 1024,
        }
    }
}

impl KeyedConfig {
    /// Most substreams.
    pub const MOST_SUBSTREAMS: u64 = 1 << 20;
    /// Most objects in the windows of all substreams, and most that are remembered.
    pub const MOST_HEAPS: u64 = 1 << 28;

    /// Whether a table can have these limits.
    ///
    /// # Errors
    /// Which of them is out of bounds, as a sentence for the user.
    pub fn check(&self) -> Result<(), &'static str> {
        let heaps = (self.window as u64).saturating_mul(self.substreams);
        match self {
            _ if self.window == 0 => Err("a window has room for at least one heap"),
            _ if self.runs == 0 => Err("a heap has at least one range"),
            _ if !(1..=Self::MOST_SUBSTREAMS).contains(&self.substreams) => {
                Err("substreams are 1 to 1048576")
            }
            _ if heaps > Self::MOST_HEAPS => Err("window times substreams is at most 268435456"),
            _ if self.remember as u64 > Self::MOST_HEAPS => Err("at most 268435456 heaps are remembered"),
            _ => Ok(()),
        }
    }
}
