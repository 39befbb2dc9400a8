//! The command end to end: real sockets on loopback, real directories, reports as JSON.
//!
//! No test holds a clock against the machine: each waits for what must come, with a limit that only a hang reaches.
//! What the kernel dropped because the machine was busy is in the reports, and the sums hold with it.
#![allow(clippy::unwrap_used)]

mod site;
mod wires;

mod all_refused;
mod attacked;
mod balance;
mod balanced;
mod balancer;
mod books;
mod campaign;
mod closed;
mod config;
mod control;
mod copied;
mod copy_trust;
mod device;
mod diagnose;
mod disks;
mod doors;
mod events;
mod fast;
mod faults;
mod foreign;
mod forged;
mod full;
mod heaps;
mod hostile;
mod integrity;
mod join;
mod kill;
mod lab;
mod limited;
mod lofar;
mod many;
mod mark6;
mod monitor;
mod paused;
mod probe;
mod readers;
mod recorded;
mod recorded_events;
mod regular;
mod repaired;
mod restart;
mod sent_events;
mod sent_files;
mod signals;
mod spead;
mod talk;
mod transports;
mod unwritable;
