//! What `send` and `bench` do with `--format spead`.

mod counters;
mod limited;
mod memo;
mod plots;
mod rate;
pub(crate) mod send;
mod sent;
mod tables;
mod watch;

pub(crate) use memo::run as bench;
