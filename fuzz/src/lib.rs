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
mod packets;
mod pieces;
mod recording;
mod spead;
mod text;

pub use recording::clean_up;

use skyhaul_core::wire::{FAMILIES, FamilyRef, fuzzing, spead::fuzzing as heap_parsers};

/// One thing to throw bytes at.
#[derive(Clone, Copy)]
pub struct Target {
    /// What `make fuzz T=` calls it.
    pub name: &'static str,
    /// How many times slower than the plain parsers it is: it gets that many fewer of a run's executions.
    pub weight: u64,
    work: Work,
}

/// What takes the bytes, and gives those to begin from.
#[derive(Clone, Copy)]
enum Work {
    /// The parsers of the family with this number in the registry.
    Family(usize),
    /// Anything else.
    Own(fn(&[u8]), fn() -> Vec<Vec<u8>>),
}

impl Target {
    const fn new(name: &'static str, weight: u64, run: fn(&[u8]), seeds: fn() -> Vec<Vec<u8>>) -> Target {
        Target { name, weight, work: Work::Own(run, seeds) }
    }

    /// Take any bytes; panics where a promise is broken.
    pub fn run(&self, bytes: &[u8]) {
        match self.work {
            Work::Family(number) => fuzzing::family(number, bytes),
            Work::Own(run, _) => run(bytes),
        }
    }

    /// Bytes that reach deep, to begin from.
    #[must_use]
    pub fn seeds(&self) -> Vec<Vec<u8>> {
        match self.work {
            Work::Family(number) => packets::chosen(FAMILIES[number]),
            Work::Own(_, seeds) => seeds(),
        }
    }
}

/// All targets: one for each family, and the others.
#[must_use]
pub fn targets() -> Vec<Target> {
    let families = FAMILIES.iter().enumerate();
    let family = |(number, family): (usize, &FamilyRef)| Target {
        name: family.name(),
        weight: 1,
        work: Work::Family(number),
    };
    families.map(family).chain(OTHERS.iter().copied()).collect()
}

/// What is not one family's.
const OTHERS: &[Target] = &[
    Target::new("vtp", 1, packets::vtp, packets::vtp_seeds),
    Target::new("spead_head", 1, heap_parsers::spead_head, spead::packet_seeds),
    Target::new("spead_items", 1, heap_parsers::spead_items, spead::items_seeds),
    Target::new("spead_descriptor", 2, heap_parsers::spead_descriptor, spead::descriptor_seeds),
    Target::new("spead_bits", 2, heap_parsers::spead_bits, spead::bits_seeds),
    Target::new("spead_packets", 8, heap_parsers::spead_packets, spead::shape_seeds),
    Target::new("feedback", 2, feedback::feedback, feedback::feedback_seeds),
    Target::new("learn", 8, learn::run, learn::seeds),
    Target::new("fill", 8, fuzzing::learn, learn::equal_seeds),
    Target::new("inspect", 4, fuzzing::inspect, packets::inspect_seeds),
    Target::new("restamp", 1, fuzzing::restamp, packets::restamp_seeds),
    Target::new("quantity", 1, text::quantity, text::quantity_seeds),
    Target::new("address", 1, text::address, text::address_seeds),
    Target::new("faults", 1, text::faults, text::faults_seeds),
    Target::new("chunk_expr", 2, expr::run, expr::seeds),
    Target::new("index", 2, recording::index, recording::seeds),
    Target::new("recording", 100, recording::recording, recording::seeds),
    Target::new("assembly_units", 4, assembly::units, assembly::seeds),
    Target::new("assembly_bytes", 4, assembly::bytes, assembly::seeds),
    Target::new("pieces", 16, pieces::run, pieces::seeds),
    Target::new("heaps", 16, heaps::run, heaps::seeds),
];

/// The target of this name.
#[must_use]
pub fn target(name: &str) -> Option<Target> {
    targets().into_iter().find(|target| target.name == name)
}
