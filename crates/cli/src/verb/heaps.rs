//! What `send`, `receive`, `record` and `bench` do with `--format spead`.

mod consume;
mod counters;
mod memo;
mod plots;
mod rate;
pub(crate) mod receive;
mod received;
pub(crate) mod record;
pub(crate) mod send;
mod sent;
mod tables;
mod watch;

pub(crate) use memo::run as bench;
