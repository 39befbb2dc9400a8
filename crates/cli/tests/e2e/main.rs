//! The command end to end: real sockets on loopback, real directories, reports as JSON.
//!
//! No test holds a clock against the machine: each waits for what must come, with a limit that only a hang reaches.
//! What the kernel dropped because the machine was busy is in the reports, and the sums hold with it.
#![allow(clippy::unwrap_used)]

mod site;

mod accounted;
mod alarms;
mod alarms_attacked;
mod attacked;
mod balance;
mod balancer;
mod books;
mod campaign;
mod catalogue;
mod certificates;
mod control;
mod copied;
mod copies;
mod delivered;
mod device;
mod diagnosed;
mod disks;
mod doors;
mod etransfer;
mod events;
mod faults;
mod fleet;
mod fleet_array;
mod fleet_command;
mod followed;
mod foreign;
mod fts;
mod hostile;
mod integrity;
mod join;
mod judged;
mod lab;
mod limited;
mod monitor;
mod mounted;
mod one_port;
mod peers;
mod placed;
mod priorities;
mod probe;
mod pulled;
mod quality;
mod rdma;
mod rdma_bench;
mod rdma_send;
mod rdma_silent;
mod readers;
mod recorded;
mod regular;
mod rights;
mod schedule;
mod scitags;
mod sent_files;
mod serve;
mod signals;
mod signed;
mod spead;
mod station_mounted;
mod talk;
mod third_party;
mod transfers;
mod transports;
mod uploaded;
mod vsi;
mod vsi_arrivals;
mod vsi_etransfer;
mod vsi_files;
mod web_copy;
mod webdav;
