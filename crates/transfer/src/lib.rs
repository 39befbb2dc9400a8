//! # Transfers
//!
//! Recordings and other files, moved between hosts and verified: [`copy`].
#![forbid(unsafe_code)]
#![cfg_attr(not(test), deny(clippy::print_stdout, clippy::print_stderr))]

pub mod copy;
