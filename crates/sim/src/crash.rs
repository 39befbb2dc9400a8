//! Crash simulator
