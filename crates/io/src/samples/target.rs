//! Where decoded samples are written: into the cache, or past it.

/// How decoded samples are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Target {
    /// To memory that is in the cache, or is read again soon.
    Warm,
    /// To an array larger than the cache: lines are written past the cache.
    Cold,
}

impl Target {
    /// The faster choice for an array of this many bytes.
    #[must_use]
    pub fn of(octets: usize) -> Self {
        // A quarter, because other programs share the cache.
        if octets > crate::copy::cache_bytes() / 4 { Target::Cold } else { Target::Warm }
    }
}
