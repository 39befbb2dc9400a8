//! One file for each verb.

#[cfg(feature = "full")]
pub(crate) mod balance;
#[cfg(feature = "full")]
pub(crate) mod balancer;
#[cfg(feature = "full")]
pub(crate) mod bench;
pub(crate) mod check;
#[cfg(feature = "full")]
pub(crate) mod copy;
#[cfg(feature = "full")]
pub(crate) mod data_plane;
pub(crate) mod demo;
#[cfg(feature = "full")]
pub(crate) mod disk;
pub(crate) mod events;
#[cfg(feature = "full")]
pub(crate) mod fleet;
pub(crate) mod generate;
pub(crate) mod heaps;
#[cfg(feature = "full")]
pub(crate) mod host;
pub(crate) mod inspect;
#[cfg(feature = "full")]
mod joining;
#[cfg(feature = "full")]
pub(crate) mod lab;
mod listener;
#[cfg(feature = "full")]
pub(crate) mod mount;
mod output;
#[cfg(feature = "full")]
pub(crate) mod packet_path;
pub(crate) mod plot;
#[cfg(feature = "full")]
pub(crate) mod probe;
pub(crate) mod rdma;
pub(crate) mod receive;
pub(crate) mod receiving;
pub(crate) mod record;
pub(crate) mod report;
#[cfg(feature = "full")]
pub(crate) mod scans;
#[cfg(feature = "full")]
pub(crate) mod schedule;
pub(crate) mod send;
mod sending;
#[cfg(feature = "full")]
pub(crate) mod serve;
#[cfg(feature = "full")]
pub(crate) mod status;
pub(crate) mod stored;
#[cfg(feature = "full")]
pub(crate) mod token;
#[cfg(feature = "full")]
pub(crate) mod top;
#[cfg(feature = "full")]
pub(crate) mod transfers;
#[cfg(not(feature = "full"))]
pub(crate) mod unbuilt;

#[cfg(not(feature = "full"))]
pub(crate) use unbuilt::{
    self as balance, self as balancer, self as bench, self as copy, self as data_plane, self as disk,
    self as fleet, self as host, self as joining, self as lab, self as mount, self as packet_path,
    self as probe, self as scans, self as schedule, self as serve, self as status, self as token,
    self as top, self as transfers,
};
