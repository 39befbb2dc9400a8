//! pace
