//! # Experiments
//!
//! What reproduces papers and talks on one machine, each figure beside what theory predicts or what the paper says:
//!
//! | module | command | reproduces |
//! |---|---|---|
//! | [`campaign`] | `skyhaul probe campaign talk` | the experiments of a talk on measuring paths |
//! | [`memo`] | `skyhaul bench --format spead` | SDP memo 046: pairs of SPEAD senders and receivers |
//! | [`events`] | `skyhaul bench ejfat` | sweeps of events from senders through a balancer to workers |
//!
//! Nothing that a station runs every day depends on this crate; builds without it lack these commands only.
#![forbid(unsafe_code)]
#![cfg_attr(not(test), deny(clippy::print_stdout, clippy::print_stderr))]

pub mod campaign;
pub mod events;
pub mod memo;

/// The error for options that cannot be measured.
fn invalid(why: impl std::fmt::Display) -> std::io::Error {
    std::io::Error::new(std::io::ErrorKind::InvalidInput, why.to_string())
}
