//! Every system call and every `unsafe` line of Skyhaul.
// Text for people goes through `say`, which never fails: the macros of `std` panic if standard error is closed.
#![cfg_attr(not(test), deny(clippy::print_stdout, clippy::print_stderr))]

pub mod address;
pub mod baseline;
pub mod bpf;
pub mod copy;
pub mod disk;
pub mod fault;
pub mod fifo;
pub mod file;
pub mod fork;
mod frame;
pub mod gathered;
pub mod host;
pub mod lock;
pub mod memory;
pub mod namespace;
pub mod netlink;
pub mod packet;
pub mod pcap;
pub mod quantity;
pub mod samples;
pub mod say;
pub mod signals;
pub mod source;
pub mod standard_output;
pub mod tcp;
pub mod terminal;
pub mod udp;
pub mod wake;
