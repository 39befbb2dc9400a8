//! Receiving from any number of TCP connections on one port.

use super::{
    Framer,
    port::{Got, Limits, READ, TcpPort, Visit, got},
    trains::Cut,
};
use crate::{
    address::Endpoint,
    source::{Source, SourceStats, Train},
};
use std::{
    io::{self, Read},
    net::SocketAddr,
    time::Duration,
};

/// How to receive.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TcpOptions {
    /// Longest packet accepted, in bytes; also the most that is kept for each connection.
    pub longest_packet: usize,
    /// Most simultaneous connections. Beyond them, a new connection replaces the one that delivered least among those
    /// that were silent for a second; if there is none, it waits in the kernel's queue.
    pub connections: usize,
    /// Time after which a silent connection is probed with keep-alives; it is given up after twice as long.
    pub keepalive: Duration,
}

impl Default for TcpOptions {
    fn default() -> Self {
        Self { longest_packet: 1 << 20, connections: 1024, keepalive: Duration::from_secs(10) }
    }
}

/// A listening TCP port as a [`Source`]: each connection is a sender.
pub struct TcpSource {
    /// For each connection, the beginning of a packet whose end has not arrived.
    port: TcpPort<Vec<u8>>,
    longest_packet: usize,
    framer: Box<dyn Framer>,
    scratch: Box<[u8]>,
    counts: SourceStats,
}

impl TcpSource {
    /// Listen.
    ///
    /// # Errors
    /// A system call failed: the error names the operation and the address, and has a hint.
    pub fn open(at: &Endpoint, framer: Box<dyn Framer>, options: &TcpOptions) -> io::Result<Self> {
        Ok(Self::of(TcpPort::open(at)?, framer, options))
    }

    /// Read from a port that is already open, and from the connections that it has accepted.
    #[must_use]
    pub fn of(port: TcpPort, framer: Box<dyn Framer>, options: &TcpOptions) -> Self {
        let TcpOptions { longest_packet, connections, keepalive } = *options;
        let limits = Limits { connections, gives_way: true, accept: None, keepalive };
        Self {
            port: port.read_by(limits, Vec::new),
            longest_packet,
            framer,
            scratch: vec![0; READ + longest_packet].into_boxed_slice(),
            counts: SourceStats { tier: "tcp", because: "TCP address".into(), ..SourceStats::default() },
        }
    }

    /// Where it listens.
    #[must_use]
    pub fn local(&self) -> SocketAddr {
        self.port.local()
    }

    /// Current number of connections.
    #[must_use]
    pub fn connections(&self) -> usize {
        self.port.connections.len()
    }

    /// One read of one connection.
    fn serve(&mut self, mark: u64, each: &mut dyn FnMut(Train<'_>)) -> io::Result<usize> {
        let Some(connection) = self.port.connections.get_mut(&mark) else { return Ok(0) };
        let begun = connection.own.len();
        self.scratch[..begun].copy_from_slice(&connection.own);
        let length = match got(connection.stream.read(&mut self.scratch[begun..begun + READ])) {
            Got::Nothing => return Ok(0),
            Got::Bytes(length) => length,
            Got::End(error) => {
                // Not between packets, or not by the sender's close.
                self.counts.broken += u64::from(begun > 0 || error.is_some());
                self.port.end(mark)?;
                return Ok(0);
            }
        };
        connection.brought(length);
        let bytes = &self.scratch[..begun + length];
        let cut = Cut { framer: &*self.framer, longest: self.longest_packet, sender: &connection.sender };
        let mut packets = 0;
        let (used, sound) = cut.trains(bytes, |train| {
            packets += train.count();
            self.counts.trains += 1;
            each(train);
        });
        self.counts.packets += packets as u64;
        self.counts.bytes += used as u64;
        connection.own.clear();
        connection.own.extend_from_slice(&bytes[used..]);
        if !sound {
            self.counts.malformed += 1;
            self.counts.broken += 1;
            self.port.end(mark)?;
        }
        Ok(packets)
    }
}

impl Source for TcpSource {
    fn poll(&mut self, wait: Duration, each: &mut dyn FnMut(Train<'_>)) -> io::Result<usize> {
        let mut packets = 0;
        for mark in self.port.ready(wait)? {
            match mark {
                Some(mark) => packets += self.serve(mark, each)?,
                None => self.port.accept(Vec::new, |visit| {
                    if let Visit::GaveWay(connection) = visit {
                        self.counts.broken += u64::from(!connection.own.is_empty());
                    }
                })?,
            }
        }
        Ok(packets)
    }

    fn stats(&self) -> SourceStats {
        let door = &self.port.door;
        let mut stats = SourceStats {
            connections: door.accepted,
            broken: self.counts.broken + door.refused,
            interface: Some(door.interface.read()),
            remedies: door.remedies.clone(),
            ..self.counts.clone()
        };
        if door.gave_way > 0 {
            stats.remedies.push(format!(
                "{} silent connections were closed to accept new ones: at most {} at a time",
                door.gave_way, door.limits.connections
            ));
        }
        stats
    }

    fn describe(&self) -> String {
        self.port.describe()
    }
}
