//! What this host is and does: its interfaces, counters, CPU time, and what a thread may ask of it.
//!
//! Everything here is a question or a request that may be refused; nothing needs privilege to be asked. A refusal
//! names the remedy.

pub mod interface;
