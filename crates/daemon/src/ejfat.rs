//! EJFAT's control plane: the protocol between workers, senders and a load balancer.

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
