//! Who takes part, and at which ports.

use anyhow::{Context, Result};
use std::net::{TcpListener, UdpSocket};

/// Number of workers.
pub(super) const WORKERS: usize = 4;
/// The one that is killed, and the one that is slow, from 0.
pub(super) const KILLED: usize = 1;
pub(super) const SLOW: usize = 2;

/// What a worker is called.
pub(super) fn name(n: usize) -> String {
    let how = match n {
        KILLED => ", killed",
        SLOW => ", slow",
        _ => "",
    };
    format!("worker {}{how}", n + 1)
}

/// Ports of 127.0.0.1 that nobody has.
pub(super) struct Ports {
    pub(super) api: u16,
    pub(super) data: u16,
    pub(super) sync: u16,
    pub(super) workers: Vec<u16>,
}

/// Data ports; every balancer accepts packets at each.
const DATA: std::ops::Range<u16> = 19522..20522;

impl Ports {
    pub(super) fn find(workers: usize) -> Result<Ports> {
        let udp = |port| UdpSocket::bind(("127.0.0.1", port));
        // All are held until all are found.
        let api = TcpListener::bind(("127.0.0.1", 0)).context("find a port")?;
        let data = DATA.clone().find_map(|port| udp(port).ok()).context("find a port for packets")?;
        let others = (0..=workers).map(|_| udp(0)).collect::<Result<Vec<_>, _>>().context("find a port")?;
        let mut ports = others.iter().map(|at| Ok(at.local_addr()?.port())).collect::<Result<Vec<_>>>()?;
        let sync = ports.pop().context("find a port")?;
        Ok(Ports { api: api.local_addr()?.port(), data: data.local_addr()?.port(), sync, workers: ports })
    }
}
