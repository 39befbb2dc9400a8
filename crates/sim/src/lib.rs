//! Deterministic worlds.
