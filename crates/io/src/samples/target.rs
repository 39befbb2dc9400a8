//! Whether decoded samples are read again soon.

/// Where decoded samples go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Target {
    /// Memory that is in the cache, or read again soon.
    Warm,
    /// An array larger than the cache: lines are written past it.
    Cold,
}

impl Target {
    /// The better one for an array of this many octets.
    #[must_use]
    pub fn of(octets: usize) -> Self {
        // Other programs share the cache.
        if octets > crate::copy::cache_bytes() / 4 { Target::Cold } else { Target::Warm }
    }
}
