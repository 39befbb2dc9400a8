//! Where packets belong, and who says so.

use skyhaul_core::placement::Layout;
use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

/// Where what is kept of a packet belongs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Spot {
    /// Object.
    pub object: u64,
    /// First byte in it.
    pub offset: u64,
    /// Bytes.
    pub length: u32,
}

/// A layout of any family.
#[derive(Clone)]
pub struct SomeLayout(Arc<dyn Layout + Send + Sync>);

impl SomeLayout {
    pub(super) fn of(layout: impl Layout + Send + Sync + 'static) -> SomeLayout {
        SomeLayout(Arc::new(layout))
    }
}

impl Deref for SomeLayout {
    type Target = dyn Layout + Send + Sync;

    fn deref(&self) -> &Self::Target {
        &*self.0
    }
}

impl fmt::Debug for SomeLayout {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.geometry())
    }
}
