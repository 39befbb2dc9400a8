//! What `send` and `bench` do with `--format spead`.

mod counters;
mod limited;
mod memo;
mod plots;
mod rate;
pub(crate) mod send;
mod tables;

pub(crate) use memo::run as bench;
