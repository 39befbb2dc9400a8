//! The fixed limits of one table of objects.

use crate::placement::Nanos;

/// Which objects of a substream count towards its window.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Counting {
    /// Objects under construction: one retires when `window` newer ones are incomplete.
    #[default]
    Incomplete,
    /// All objects, complete or not, as in spead2: an object retires when `window` newer ones have begun. A part that
    /// arrives later begins the object again. If parts must be in order (`in_order`), an object whose first part is
    /// lost never begins.
    Begun,
}

/// Fixed limits of one table of objects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeyedConfig {
    /// Maximum number of objects under construction in a substream, at least 1. If one more begins, the
    /// oldest retires.
    pub window: usize,
    /// Which objects count towards the window.
    pub counting: Counting,
    /// Number of substreams, at least 1. Each has a window of its own. An object's substream is the `source` of its key
    /// modulo this number, or `counter` modulo this number if `source` is 0.
    pub substreams: u64,
    /// Reject a part that is not the next one of its object. The order of objects does not matter. An object
    /// whose first part is lost begins with the first rejected part, and retires empty.
    pub in_order: bool,
    /// Accept objects whose size no part has stated so far.
    pub unsized_objects: bool,
    /// Maximum size of an object in bytes.
    pub largest: u64,
    /// An incomplete object retires this long after its first part arrived. `None`: only by the window and at
    /// the end.
    pub timeout: Option<Nanos>,
    /// Maximum number of retired objects that are remembered; 0: a duplicate packet begins its object again. Memory is
    /// taken as needed, about 90 bytes for each. If more retire within `remember_for`, the oldest are forgotten before their
    /// time, and [counted](super::KeyedWindow::take_forgotten_early).
    pub remember: usize,
    /// How long they are remembered; after that, their counters may be used again.
    pub remember_for: Nanos,
    /// Maximum number of separate ranges tracked in an object, at least 1.
    pub runs: u32,
    /// For families whose every part states the size of its object: parts with one key that state different sizes form
    /// candidates. The first candidate of which a second packet arrives becomes the object; packets of the others are
    /// rejected. An object that arrives in a single packet therefore retires only after this time, or, if another
    /// candidate has begun by then, when that has ended (at most `timeout` later), unless another candidate wins before.
    /// `None`: the size stated first is used.
    pub contest: Option<Nanos>,
}

impl Default for KeyedConfig {
    /// Window 16, one substream, any order, unsized objects, 1 GiB, 1 s, at most 262 144 objects remembered for 1 s, 1024 runs, no contest.
    fn default() -> Self {
        Self {
            window: 16,
            counting: Counting::Incomplete,
            substreams: 1,
            in_order: false,
            unsized_objects: true,
            largest: 1 << 30,
            timeout: Some(Nanos::SECOND),
            remember: 1 << 18,
            remember_for: Nanos::SECOND,
            runs: 1024,
            contest: None,
        }
    }
}

impl KeyedConfig {
    /// Maximum number of substreams.
    pub const MOST_SUBSTREAMS: u64 = 1 << 20;
    /// Maximum number of objects in the windows of all substreams, and of remembered objects.
    pub const MOST_HEAPS: u64 = 1 << 28;

    /// Check that the limits are valid.
    ///
    /// # Errors
    /// A sentence for the user that names the limit that is out of bounds.
    pub fn check(&self) -> Result<(), &'static str> {
        let heaps = (self.window as u64).saturating_mul(self.substreams);
        match self {
            _ if self.window == 0 => Err("the window must be at least 1 heap"),
            _ if self.runs == 0 => Err("runs must be at least 1"),
            _ if !(1..=Self::MOST_SUBSTREAMS).contains(&self.substreams) => {
                Err("substreams must be 1 to 1048576")
            }
            _ if heaps > Self::MOST_HEAPS => Err("window times substreams must be at most 268435456"),
            _ if self.remember as u64 > Self::MOST_HEAPS => Err("remember must be at most 268435456 heaps"),
            _ => Ok(()),
        }
    }
}
