//! Equality of what is known by a trait only.

use std::any::Any;

/// Comparison of values of which only a trait is known.
pub trait Same {
    /// Whether `other` is of the same type and equal.
    fn same(&self, other: &dyn Any) -> bool;
}

impl<T: Any + PartialEq> Same for T {
    fn same(&self, other: &dyn Any) -> bool {
        other.downcast_ref::<T>() == Some(self)
    }
}
