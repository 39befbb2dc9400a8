//! Equality of trait objects.

use std::any::Any;

/// Comparison of trait objects.
pub trait Same {
    /// Whether `other` is of the same type and equal.
    fn same(&self, other: &dyn Any) -> bool;
}

impl<T: Any + PartialEq> Same for T {
    fn same(&self, other: &dyn Any) -> bool {
        other.downcast_ref::<T>() == Some(self)
    }
}
