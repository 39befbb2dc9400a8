//! SPEAD heaps as a load: what only they need.

pub(super) mod fixed;
pub(super) mod sender;
