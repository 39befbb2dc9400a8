//! SPEAD heaps as a load: what only they need.

pub(super) mod sender;
