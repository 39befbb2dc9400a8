//! One file for each verb.

#[cfg(feature = "services")]
pub(crate) mod balance;
#[cfg(feature = "services")]
pub(crate) mod balancer;
pub(crate) mod bench;
pub(crate) mod check;
pub(crate) mod copy;
pub(crate) mod data_plane;
pub(crate) mod demo;
pub(crate) mod disk;
pub(crate) mod events;
pub(crate) mod generate;
pub(crate) mod heaps;
pub(crate) mod host;
pub(crate) mod inspect;
#[cfg(feature = "services")]
mod joining;
pub(crate) mod lab;
mod listener;
#[cfg(feature = "mount")]
pub(crate) mod mount;
mod output;
pub(crate) mod packet_path;
pub(crate) mod plot;
pub(crate) mod probe;
pub(crate) mod rdma;
pub(crate) mod receive;
pub(crate) mod receiving;
pub(crate) mod record;
pub(crate) mod report;
#[cfg(feature = "services")]
pub(crate) mod schedule;
pub(crate) mod send;
mod sending;
#[cfg(feature = "services")]
pub(crate) mod serve;
#[cfg(feature = "services")]
pub(crate) mod status;
pub(crate) mod stored;
#[cfg(feature = "services")]
pub(crate) mod token;
#[cfg(feature = "services")]
pub(crate) mod top;
#[cfg(feature = "services")]
pub(crate) mod transfers;
#[cfg(not(all(feature = "experiments", feature = "mount", feature = "services")))]
pub(crate) mod unbuilt;

#[cfg(not(feature = "mount"))]
pub(crate) use unbuilt::mount;
#[cfg(not(feature = "services"))]
pub(crate) use unbuilt::{
    self as balance, self as balancer, self as joining, self as schedule, self as serve, self as status,
    self as token, self as top, self as transfers,
};
