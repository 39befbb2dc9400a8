//! # Skyhaul core
//!
//! One idea: *every packet says where its bytes belong*. A [`Layout`](placement::Layout) turns a packet into a
//! [`Placement`](placement::Placement); a [`Window`](assembly::Window) of objects under construction gives the place to put
//! it, tracks what arrived, and retires each object once, with the list of what is missing.
//!
//! ```text
//!   bytes ──wire──▶ Placement ──Window──▶ Slot (the caller copies) ──commit──▶ Retired
//! ```
//!
//! This crate is pure: the caller passes the time, bytes and blocks, and gets back what to do. It has no clock, socket,
//! file, thread or `unsafe`, and builds for `wasm32-unknown-unknown`, which a check proves.
//!
//! The loop of every receiver:
//!
//! ```
//! use skyhaul_core::{assembly::*, placement::*};
//!
//! // A format whose packets are 8 octets of sequence number and 4 of payload; 3 payloads to an object.
//! struct Counted;
//! impl Layout for Counted {
//!     fn place(&self, p: &[u8]) -> Result<Placement, Reject> {
//!         let (n, payload) = p.split_first_chunk::<8>().ok_or(Reject::Truncated)?;
//!         if payload.len() != 4 { return Err(Reject::WrongSize) }
//!         let n = u64::from_le_bytes(*n);
//!         let key = Key::of(n / 3);
//!         Ok(Placement { key, offset: n % 3 * 4, start: 8, length: 4, size: Some(12), ..Placement::default() })
//!     }
//!     fn geometry(&self) -> Geometry { Geometry { object_bytes: 12, grain: Grain::Units(4) } }
//!     fn units_between(&self, a: u64, b: u64) -> Option<u64> { Some((b - a) * 3) }
//! }
//!
//! let layout = Counted;
//! let mut window = Ordered::<Vec<u8>>::new(OrderedConfig::new(layout.geometry()));
//! let now = Nanos(0);
//! for n in [0u64, 2, 1] {
//!     let mut packet = n.to_le_bytes().to_vec();
//!     packet.extend([n as u8; 4]);
//!     // 1. where does it belong?   2. reserve   3. copy   4. commit
//!     let placement = layout.place(&packet).unwrap();
//!     let mut slot = window.reserve(placement, now, |bytes, _| Ok(vec![0; bytes as usize])).unwrap();
//!     let (range, from) = (slot.range(), placement.start as usize);
//!     slot.block()[range.start as usize..range.end as usize].copy_from_slice(&packet[from..]);
//!     slot.commit(now);
//! }
//! // 5. time passes   6. take what is finished
//! window.handle_timeout(now);
//! let done = window.poll_retired().unwrap();
//! assert_eq!(done.block, [0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2]);
//! assert!(done.is_complete());
//! ```
#![forbid(unsafe_code)]
#![cfg_attr(not(test), deny(clippy::print_stdout, clippy::print_stderr))]

pub mod assembly;
pub mod balance;
pub mod bytecode;
pub mod control;
pub mod diagnose;
pub mod disk_turns;
pub mod etransfer;
pub mod fleet;
pub mod framing;
pub mod hint;
pub mod measure;
pub mod observation;
pub mod pace;
pub mod packetize;
pub mod pattern;
pub mod placement;
pub mod predict;
pub mod quality;
pub mod question_turns;
pub mod rdma;
pub mod redundancy;
pub mod samples;
pub mod schedule;
pub mod sky;
pub mod station;
pub mod synth;
pub mod units;
pub mod vsi;
pub mod warm;
pub mod wire;
