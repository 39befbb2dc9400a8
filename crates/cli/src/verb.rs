//! One file for each verb.

pub(crate) mod balance;
pub(crate) mod balancer;
pub(crate) mod bench;
pub(crate) mod cat;
pub(crate) mod check;
pub(crate) mod copy;
pub(crate) mod data_plane;
pub(crate) mod demo;
pub(crate) mod disk;
pub(crate) mod events;
pub(crate) mod export;
pub(crate) mod generate;
pub(crate) mod heaps;
pub(crate) mod host;
pub(crate) mod inspect;
mod joining;
pub(crate) mod ls;
pub(crate) mod plot;
pub(crate) mod probe;
pub(crate) mod receive;
pub(crate) mod receiving;
pub(crate) mod record;
mod samples;
pub(crate) mod send;
mod sending;
mod token_file;
mod written;
