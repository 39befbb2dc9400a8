//! The atomics of [`returned`](super::returned), whose model has others.

pub(super) use std::sync::atomic::{AtomicI64, AtomicPtr, Ordering};
