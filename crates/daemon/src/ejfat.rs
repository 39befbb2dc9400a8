//! EJFAT's control plane: the protocol between workers, senders and a load balancer.

pub mod client;
pub mod desk;
pub mod facility;
pub mod ground;
pub mod json;
pub mod report;
pub mod server;

#[rustfmt::skip]
#[allow(missing_docs, unreachable_pub, clippy::all, clippy::pedantic, reason = "generated")]
pub mod proto;
pub mod worker;
