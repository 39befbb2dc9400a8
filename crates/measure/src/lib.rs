//! # Measuring
//!
//! Measure paths, hosts and disks, with the engine of [`skyhaul`] where packets are involved.
//!
//! | module | measures |
//! |---|---|
//! | [`probe`] | a path between two hosts: rate, loss, order, delay, MTU, and their causes |
//! | [`host`] | whether a host is set up for its data |
//! | [`disk`] | what disks take and give |
//! | [`lab`] | nothing: it is a path with known faults, to measure on |
//! | [`mod@bench`] | this program beside the bare loop and beside others |
//!
//! No module of [`skyhaul`] uses this crate.
#![forbid(unsafe_code)]
#![cfg_attr(not(test), deny(clippy::print_stdout, clippy::print_stderr))]

pub mod bench;
pub mod disk;
pub mod host;
pub mod lab;
pub mod probe;
