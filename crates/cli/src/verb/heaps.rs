//! What `send` and `bench` do with `--format spead`.

mod limited;
mod memo;
mod rate;
pub(crate) mod send;

pub(crate) use memo::run as bench;
