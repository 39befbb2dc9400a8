//! # Fuzz targets
//!
//! Each target takes any bytes and must answer without a panic, in bounded memory, and with what it promises: a
//! placed payload lies inside its packet and its object, a header that was read writes back to the same bytes, the
//! assembly hands on each part once. Arithmetic overflow and assertions are on, as in a debug build.
//!
//! Two drivers run the same targets:
//!
//! ```text
//!   smoke    in this crate, no tools: seeds and mutations from one seed number, always the same   make test
//!   guided   libFuzzer, guided by coverage                                                        make fuzz T=vdif
//! ```
#![forbid(unsafe_code)]

mod assembly;
mod expr;
mod feedback;
mod heaps;
mod learn;
pub mod mutate;
mod pieces;
mod recording;
mod spead;
mod text;
mod wire;

pub use recording::clean_up;

use skyhaul_core::wire::fuzzing;

/// One thing to throw bytes at.
#[derive(Clone, Copy)]
pub struct Target {
    /// What `make fuzz T=` calls it.
    pub name: &'static str,
    /// Takes any bytes; panics where a promise is broken.
    pub run: fn(&[u8]),
    /// How many times slower than the plain parsers it is: it gets that many fewer of a run's executions.
    pub weight: u64,
    /// Bytes that reach deep, to begin from.
    pub seeds: fn() -> Vec<Vec<u8>>,
}

/// All targets.
pub const TARGETS: &[Target] = &[
    Target { name: "vdif", run: wire::vdif, weight: 1, seeds: wire::vdif_seeds },
    Target { name: "vtp", run: wire::vtp, weight: 1, seeds: wire::vtp_seeds },
    Target { name: "mark5b", run: wire::mark5b, weight: 1, seeds: wire::mark5b_seeds },
    Target { name: "spead", run: wire::spead, weight: 1, seeds: wire::spead_seeds },
    Target { name: "spead_head", run: fuzzing::spead_head, weight: 1, seeds: spead::packet_seeds },
    Target { name: "spead_items", run: fuzzing::spead_items, weight: 1, seeds: spead::items_seeds },
    Target {
        name: "spead_descriptor",
        run: fuzzing::spead_descriptor,
        weight: 2,
        seeds: spead::descriptor_seeds,
    },
    Target { name: "spead_bits", run: fuzzing::spead_bits, weight: 2, seeds: spead::bits_seeds },
    Target { name: "spead_packets", run: fuzzing::spead_packets, weight: 8, seeds: spead::shape_seeds },
    Target { name: "feedback", run: feedback::feedback, weight: 2, seeds: feedback::feedback_seeds },
    Target { name: "ejfat", run: wire::ejfat, weight: 1, seeds: wire::ejfat_seeds },
    Target { name: "learn", run: learn::run, weight: 8, seeds: learn::seeds },
    Target { name: "fill", run: fuzzing::learn, weight: 8, seeds: learn::equal_seeds },
    Target { name: "inspect", run: fuzzing::inspect, weight: 4, seeds: wire::inspect_seeds },
    Target { name: "restamp", run: fuzzing::restamp, weight: 1, seeds: wire::restamp_seeds },
    Target { name: "quantity", run: text::quantity, weight: 1, seeds: text::quantity_seeds },
    Target { name: "address", run: text::address, weight: 1, seeds: text::address_seeds },
    Target { name: "faults", run: text::faults, weight: 1, seeds: text::faults_seeds },
    Target { name: "chunk_expr", run: expr::run, weight: 2, seeds: expr::seeds },
    Target { name: "index", run: recording::index, weight: 2, seeds: recording::seeds },
    Target { name: "recording", run: recording::recording, weight: 100, seeds: recording::seeds },
    Target { name: "assembly_units", run: assembly::units, weight: 4, seeds: assembly::seeds },
    Target { name: "assembly_bytes", run: assembly::bytes, weight: 4, seeds: assembly::seeds },
    Target { name: "pieces", run: pieces::run, weight: 16, seeds: pieces::seeds },
    Target { name: "heaps", run: heaps::run, weight: 16, seeds: heaps::seeds },
];

/// The target of this name.
#[must_use]
pub fn target(name: &str) -> Option<Target> {
    TARGETS.iter().copied().find(|target| target.name == name)
}
