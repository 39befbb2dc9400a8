//! What tests of the control plane share: waiting for other threads, and a control plane in this process.
#![allow(dead_code, clippy::unwrap_used, reason = "each test uses a part of it")]

use skyhaul::balance::BalanceOptions;
use skyhaul_daemon::balancer::{Api, Instances, Limits, PlaneProcesses, Registry, Server};
use std::sync::Arc;
use std::time::{Duration, Instant};

pub(crate) const OPERATOR: &str = "the-operators-token";

/// Only a hang lasts this long.
pub(crate) const LIMIT: Duration = Duration::from_secs(120);

#[track_caller]
pub(crate) fn wait_for<T>(what: &str, mut done: impl FnMut() -> Option<T>) -> T {
    let begun = Instant::now();
    loop {
        if let Some(found) = done() {
            return found;
        }
        assert!(begun.elapsed() < LIMIT, "waited too long for {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// A control plane without a state, at any port of loopback; its load balancers are at `ip`.
pub(crate) fn serve(ip: &str, apart: Option<PlaneProcesses>) -> (Arc<Api>, Server) {
    serve_as(ip, apart, BalanceOptions::default())
}

/// The same with other options of its load balancers.
pub(crate) fn serve_as(
    ip: &str,
    apart: Option<PlaneProcesses>,
    balance: BalanceOptions,
) -> (Arc<Api>, Server) {
    let registry = Registry::open(None, OPERATOR, Limits::default(), 0).unwrap();
    let instances = Instances {
        listen: vec![ip.parse().unwrap()],
        own: Vec::new(),
        shared: false,
        data_port: 0,
        sync_port: 0,
        balance: BalanceOptions { threads: 1, ..balance },
        upstream: Default::default(),
        apart,
    };
    let api = Arc::new(Api::open(registry, instances).unwrap());
    let server = Server::start(Arc::clone(&api), "127.0.0.1:0".parse().unwrap(), None, |_| {}).unwrap();
    (api, server)
}
