//! The services of skyhaul and their clients: everything that works by request and reply. It is the only crate with an
//! asynchronous runtime; of data, only those of [`webdav`] pass through it, in large pieces that threads read and write.
//!
//! ```text
//!   balance (threads, tables)  ◀── ejfat::server ◀── gRPC, REST ──── workers, senders, operators
//!                                                        ▲
//!                                  ejfat::client ────────┘
//! ```
#![forbid(unsafe_code)]
#![cfg_attr(not(test), deny(clippy::print_stdout, clippy::print_stderr))]

/// EJFAT's control plane: the protocol between workers, senders and a load balancer.
pub mod ejfat {
    pub mod api;
    pub mod client;
    pub mod instances;
    pub mod json;
    pub mod registry;
    pub mod report;
    pub mod server;

    #[rustfmt::skip]
    #[allow(missing_docs, unreachable_pub, clippy::all, clippy::pedantic, reason = "generated")]
    pub mod proto;
    pub mod worker;
}
mod client_certificates;
pub mod etransfer;
pub mod etransfer_copy;
pub mod fleet;
pub mod fleet_json;
mod http;
pub mod metrics;
mod notes;
pub mod peers;
mod remote;
mod rights;
pub mod schedule;
pub mod scitags;
mod served;
pub mod station;
mod tcp_service;
mod tls;
pub mod tokens;
pub mod vsi;
pub mod web_copy;
pub mod webdav;

pub use ejfat::client::{self, ControlPlane};
pub use ejfat::worker::{self, Worker};
pub use skyhaul::core::wire::ejfat::Uri;

/// A load balancer's service, for programs that start one.
pub mod balancer {
    pub use crate::ejfat::api::{Api, Caller, Refusal, ServerAddress};
    pub use crate::ejfat::instances::{DATA_PORT, Instances, PlaneProcesses, SYNC_PORT, data_port};
    pub use crate::ejfat::json;
    pub use crate::ejfat::proto;
    pub use crate::ejfat::registry::{Database, DatabaseError, DerivedTokens, Limits, Registry};
    pub use crate::ejfat::report::{ControlPlaneReport, ReservationReport, WorkerReport};
    pub use crate::ejfat::server::Server;
    pub use crate::tls::TlsFiles;
    pub use prost_types::Timestamp;
}
