//! How a target's frames leave: by a socket or connection for each stream.
//!
//! Sixteen streams from one port would be one stream to the next receiver, with the same sequence numbers sixteen
//! times. Limits: [`MOST`] sockets for a target; beyond that streams share them.

use super::target::{Counters, Run};
use crate::send::Outlet;
use skyhaul_core::wire::PREFIX;
use skyhaul_io::address::{Endpoint, Transport};
use skyhaul_io::gathered::{Extent, Gathered};
use skyhaul_io::tcp::TcpSendOptions;
use skyhaul_io::udp::send::{SendOptions, Sent};
use std::collections::HashMap;
use std::io::{self, IoSlice};
use std::time::{Duration, Instant};

/// Most sockets for one target.
const MOST: u32 = 256;
/// How long a target that cannot be reached is left alone before the next attempt.
const RETRY: Duration = Duration::from_millis(500);
/// How long a TCP target may take nothing before its connection is given up.
const PATIENCE: Duration = Duration::from_secs(2);
/// Frames handed to the system at once.
const BATCH: usize = 64;

/// A socket or connection of its own.
fn open(endpoint: &Endpoint) -> io::Result<Outlet> {
    match endpoint.transport {
        Transport::Udp => Outlet::udp(std::slice::from_ref(endpoint), &SendOptions::default()),
        Transport::Tcp => {
            Outlet::tcp(endpoint, &TcpSendOptions { patience: PATIENCE, ..TcpSendOptions::default() })
        }
    }
}

/// All sockets of a target.
pub(super) struct Outlets {
    endpoint: Endpoint,
    open: HashMap<u32, Outlet>,
    /// No attempt to open another before then.
    retry_at: Instant,
}

impl Outlets {
    /// UDP: the first socket, so that a wrong address is told at once. TCP connects when there is something to send.
    pub(super) fn open(endpoint: &Endpoint) -> io::Result<Self> {
        let mut open = HashMap::new();
        if endpoint.transport == Transport::Udp {
            open.insert(0, self::open(endpoint)?);
        }
        Ok(Self { endpoint: endpoint.clone(), open, retry_at: Instant::now() })
    }

    /// Send runs of one stream; what the system does not take is counted.
    pub(super) fn send(&mut self, runs: &[Run], counters: &Counters) {
        let Some(first) = runs.first() else { return };
        let frames = runs.iter().map(Run::frames).sum();
        let key = first.stream % MOST;
        if !self.open.contains_key(&key) && Instant::now() >= self.retry_at {
            self.connect(key, counters);
        }
        let Some(outlet) = self.open.get_mut(&key) else { return counters.refuse(frames) };
        let outcome = send(outlet, runs);
        if outcome.is_err() && !outlet.is_udp() {
            self.open.remove(&key);
            self.retry_at = Instant::now() + RETRY;
        }
        counters.enter(frames, outcome);
    }

    fn connect(&mut self, key: u32, counters: &Counters) {
        match open(&self.endpoint) {
            Ok(outlet) => {
                counters.connected(!outlet.is_udp());
                self.open.insert(key, outlet);
            }
            Err(e) => {
                self.retry_at = Instant::now() + RETRY;
                counters.note(&e);
            }
        }
    }

    /// What is on its way still arrives.
    pub(super) fn finish(self, counters: &Counters) {
        for outlet in self.open.into_values() {
            if let Err(e) = outlet.finish() {
                counters.note(&e);
            }
        }
    }
}

/// Send all frames of some runs, [`BATCH`] at a time: where packets come out of order, runs are short, and a system call for
/// each would cost more than the frames. Over UDP, the number that was stripped stands before each frame again.
fn send(outlet: &mut Outlet, runs: &[Run]) -> io::Result<Sent> {
    let number = outlet.is_udp();
    let mut all = Sent::default();
    let mut frames = runs.iter().flat_map(|run| run.numbered().map(|(n, frame)| (run.network, n, frame)));
    loop {
        let mut heads = [([0; 8], 0); BATCH];
        let mut bodies = [&[][..]; BATCH];
        let mut count = 0;
        for ((head, body), (network, n, frame)) in heads.iter_mut().zip(&mut bodies).zip(&mut frames) {
            if let Some(network) = network.filter(|_| number) {
                *head = (network.write(n), PREFIX);
            }
            *body = frame;
            count += 1;
        }
        if count == 0 {
            return Ok(all);
        }
        let mut slices = [IoSlice::new(&[]); 2 * BATCH];
        let mut extents = [Extent::default(); BATCH];
        for (n, ((head, length), body)) in heads.iter().zip(&bodies[..count]).enumerate() {
            (slices[2 * n], slices[2 * n + 1]) = (IoSlice::new(&head[..*length]), IoSlice::new(body));
            extents[n] = Extent { first: 2 * n, bytes: length + body.len() };
        }
        let sent = outlet.send_now(Gathered::new(&slices[..2 * count], &extents[..count]))?;
        all.packets += sent.packets;
        all.bytes += sent.bytes;
        all.refused += sent.refused;
    }
}
