//! The library people use.

pub mod recording;
