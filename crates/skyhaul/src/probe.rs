//! Measures a path: what it carries, what it loses, and what bounds it.
//!
//! [`tcp`] moves bytes over TCP connections and says what they waited for.

mod series;
pub mod tcp;
