//! What `send` and `bench` do with `--format spead`.

#[cfg(feature = "experiments")]
mod limited;
#[cfg(feature = "experiments")]
mod memo;
mod rate;
pub(crate) mod send;

#[cfg(not(feature = "experiments"))]
pub(crate) use super::unbuilt::experiments as bench;
#[cfg(feature = "experiments")]
pub(crate) use memo::run as bench;
