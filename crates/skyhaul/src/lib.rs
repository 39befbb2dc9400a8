//! The library people use.
