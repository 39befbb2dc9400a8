//! # Skyhaul
//!
//! Receive, record and send telescope and detector streams at the rate the hardware allows.
//!
//! ```text
//!   Source ─▶ receive ─▶ Assembly ─▶ recorder ─▶ recording (many disks)
//!                 └────▶ mirror (other hosts)          └─▶ send
//! ```
//!
//! [`receive`] turns packets into finished parts of streams; [`recorder`] writes these through [`recording`]; [`mirror`]
//! forwards them; [`balance`] distributes packets among workers; [`send`] makes packets from files, recordings, patterns and noise; [`spead`] receives and sends heaps;
//! [`report`] has the reports of all of them. Measuring and copying stand in crates of their own, which use this one.
#![forbid(unsafe_code)]
#![cfg_attr(not(test), deny(clippy::print_stdout, clippy::print_stderr))]

pub mod admission;
pub mod auth;
pub mod awake;
pub mod balance;
pub mod control;
pub mod frames;
pub mod inproc;
pub mod irregular;
pub mod ledger;
pub mod line_log;
pub mod metrics;
pub mod mirror;
pub mod panics;
pub mod peer;
pub mod quality;
pub mod rdma;
pub mod receive;
pub mod recorder;
pub mod recording;
pub mod report;
pub mod samples;
pub mod send;
pub mod spead;
pub mod stop;
pub mod time;

pub use skyhaul_core as core;
pub use skyhaul_core::wire;
pub use skyhaul_io as io;
