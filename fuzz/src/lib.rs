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
mod balance;
mod copy;
mod etransfer;
mod expr;
mod feedback;
mod fleet;
mod heaps;
mod host;
mod http;
mod iperf3;
mod learn;
pub mod mutate;
mod netlink;
mod observation;
mod packets;
mod peer;
mod pieces;
mod rdma;
mod recording;
mod samples;
mod strangers;
mod text;
mod vsi;
mod windows;

pub use recording::clean_up;

use skyhaul_core::wire::fuzzing::{self, parser::Parser};
use skyhaul_core::wire::{FAMILIES, FamilyRef};

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
    /// One parser.
    Alone(Parser),
}

impl Target {
    fn alone(parser: Parser) -> Target {
        Target { name: parser.name, weight: parser.weight, work: Work::Alone(parser) }
    }

    /// Take any bytes; panics where a promise is broken.
    pub fn run(&self, bytes: &[u8]) {
        match self.work {
            Work::Family(number) => fuzzing::family(number, bytes),
            Work::Alone(parser) => (parser.run)(bytes),
        }
    }

    /// Bytes that reach deep, to begin from.
    #[must_use]
    pub fn seeds(&self) -> Vec<Vec<u8>> {
        match self.work {
            Work::Family(number) => packets::chosen(FAMILIES[number]),
            Work::Alone(parser) => (parser.seeds)(),
        }
    }
}

/// All targets: one for each family, one for each parser that it has besides, and the others.
#[must_use]
pub fn targets() -> Vec<Target> {
    let families = FAMILIES.iter().enumerate();
    let family = |(number, family): (usize, &FamilyRef)| Target {
        name: family.name(),
        weight: 1,
        work: Work::Family(number),
    };
    let parsers = FAMILIES.iter().flat_map(|family| family.parsers()).chain(OTHERS);
    families.map(family).chain(parsers.map(|&parser| Target::alone(parser))).collect()
}

const fn other(name: &'static str, weight: u64, run: fn(&[u8]), seeds: fn() -> Vec<Vec<u8>>) -> Parser {
    Parser { name, weight, run, seeds }
}

/// What is not one family's.
const OTHERS: &[Parser] = &[
    other("vtp", 1, packets::vtp, packets::vtp_seeds),
    other("probe", 1, packets::probe, packets::probe_seeds),
    other("feedback", 2, feedback::feedback, feedback::feedback_seeds),
    other("stamp", 1, strangers::stamp, strangers::stamp_seeds),
    other("udpmon", 2, strangers::udpmon, strangers::udpmon_seeds),
    other("udpmon_responder", 4, strangers::responder, strangers::responder_seeds),
    other("balance", 2, balance::balance, balance::balance_seeds),
    other("balance_table", 8, balance::balance_table, balance::balance_table_seeds),
    other("learn", 8, learn::run, learn::seeds),
    other("fill", 8, fuzzing::learn, learn::equal_seeds),
    other("inspect", 4, fuzzing::inspect, packets::inspect_seeds),
    other("restamp", 1, fuzzing::restamp, packets::restamp_seeds),
    other("quantity", 1, text::quantity, text::quantity_seeds),
    other("address", 1, text::address, text::address_seeds),
    other("netlink", 1, netlink::run, netlink::seeds),
    other("faults", 1, text::faults, text::faults_seeds),
    other("path", 2, text::path, text::path_seeds),
    other("discipline", 1, text::discipline, text::discipline_seeds),
    other("host_snapshot", 20, host::snapshot, host::snapshot_seeds),
    other("host_journal", 2, host::journal, host::journal_seeds),
    other("chunk_expr", 2, expr::run, expr::seeds),
    other("index", 2, recording::index, recording::seeds),
    other("recording", 100, recording::recording, recording::seeds),
    other("samples", 20, samples::run, samples::seeds),
    other("assembly_units", 4, assembly::units, assembly::seeds),
    other("assembly_bytes", 4, assembly::bytes, assembly::seeds),
    other("peer", 2, peer::run, peer::seeds),
    other("iperf3", 2, iperf3::run, iperf3::seeds),
    other("probe_meeting", 1, peer::meeting, peer::meeting_seeds),
    other("probe_orders", 2, peer::orders, peer::orders_seeds),
    other("copy", 2, copy::run, copy::seeds),
    other("pieces", 16, pieces::run, pieces::seeds),
    other("rdma", 2, rdma::wire, rdma::wire_seeds),
    other("rdma_endpoint", 8, rdma::endpoint, rdma::endpoint_seeds),
    other("heaps", 16, heaps::run, heaps::seeds),
    other("vex", 4, observation::vex, observation::vex_seeds),
    other("snap", 2, observation::snap, observation::snap_seeds),
    other("http_heads", 4, http::heads, http::heads_seeds),
    other("http_ranges", 2, http::ranges, http::ranges_seeds),
    other("http_bodies", 4, http::bodies, http::bodies_seeds),
    other("http_copies", 4, http::copies, http::copies_seeds),
    other("http_markers", 4, http::markers, http::markers_seeds),
    other("http_paths", 2, http::paths, http::paths_seeds),
    other("http_tokens", 8, http::tokens, http::tokens_seeds),
    other("http_macaroons", 4, http::macaroons, http::macaroons_seeds),
    other("http_certificates", 4, http::certificates, http::certificates_seeds),
    other("fleet_values", 4, fleet::run, fleet::seeds),
    other("etransfer", 2, etransfer::run, etransfer::seeds),
    other("vsi", 4, vsi::run, vsi::seeds),
];

/// The target of this name.
#[must_use]
pub fn target(name: &str) -> Option<Target> {
    targets().into_iter().find(|target| target.name == name)
}
