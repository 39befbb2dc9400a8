//! Receiving whole packets, in trains, from any number of TCP connections on one port.

use super::EndWithLast;
use super::port::{Got, Limits, READ, TcpPort, Visit, got};
use super::{Frame, Framer};
use crate::address::Endpoint;
use crate::source::{Source, SourceStats, Train};
use std::io::{self, Read};
use std::net::SocketAddr;
use std::time::Duration;

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
    /// The source [ends](Source::is_finished) when the last open connection has closed for any reason. Otherwise it continues to listen.
    pub end_with_last: bool,
}

impl Default for TcpOptions {
    fn default() -> Self {
        let keepalive = Duration::from_secs(10);
        Self { longest_packet: 1 << 20, connections: 1024, keepalive, end_with_last: false }
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
    end: EndWithLast,
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
        let TcpOptions { longest_packet, connections, keepalive, end_with_last } = *options;
        let limits = Limits { connections, gives_way: true, accept: None, keepalive };
        Self {
            port: port.read_by(limits, Vec::new),
            longest_packet,
            framer,
            scratch: vec![0; READ + longest_packet].into_boxed_slice(),
            counts: SourceStats { tier: "tcp", because: "TCP address".into(), ..SourceStats::default() },
            end: EndWithLast::new(end_with_last),
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
        for mark in self.port.ready(self.end.wait(wait))? {
            match mark {
                Some(mark) => packets += self.serve(mark, each)?,
                None => self.port.accept(Vec::new, |visit| {
                    if let Visit::GaveWay(connection) = visit {
                        self.counts.broken += u64::from(!connection.own.is_empty());
                    }
                })?,
            }
        }
        self.end.note_poll(self.port.door.accepted, self.port.connections.len());
        Ok(packets)
    }

    fn is_finished(&self) -> bool {
        self.end.has_ended()
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

/// Cuts a stretch of stream into trains.
pub(super) struct Cut<'a> {
    pub(super) framer: &'a dyn Framer,
    pub(super) longest: usize,
    pub(super) sender: &'a SocketAddr,
}

impl Cut<'_> {
    /// Hand on all whole packets in `bytes`, equal neighbours as one train. Returns how many bytes they are, and
    /// whether what follows may be the beginning of a packet.
    pub(super) fn trains(&self, bytes: &[u8], mut each: impl FnMut(Train<'_>)) -> (usize, bool) {
        let (mut first, mut at, mut stride) = (0, 0, 0);
        let mut train = |from: usize, to: usize, stride: usize| {
            if from < to {
                each(Train { bytes: &bytes[from..to], stride, ..Train::single(&[], self.sender) });
            }
        };
        let sound = loop {
            let rest = &bytes[at..];
            if rest.is_empty() {
                break true;
            }
            match self.framer.frame(rest) {
                Frame::Packet(n) if n > 0 && n <= self.longest => {
                    if n > rest.len() {
                        break true;
                    }
                    if n != stride {
                        train(first, at, stride);
                        (first, stride) = (at, n);
                    }
                    at += n;
                }
                // A head longer than any packet is invalid.
                Frame::Incomplete => break rest.len() < self.longest,
                Frame::Packet(_) | Frame::Garbage => break false,
            }
        };
        train(first, at, stride);
        (at, sound)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cut(bytes: &[u8], framer: &dyn Framer, longest: usize) -> (Vec<(usize, usize)>, usize, bool) {
        let sender = SocketAddr::from(([127, 0, 0, 1], 1));
        let mut trains = Vec::new();
        let cut = Cut { framer, longest, sender: &sender };
        let (used, sound) = cut.trains(bytes, |t| trains.push((t.bytes.len(), t.stride)));
        (trains, used, sound)
    }

    /// The first byte is the length.
    fn by_first_byte(head: &[u8]) -> Frame {
        if head[0] == 0xFF { Frame::Garbage } else { Frame::Packet(head[0].into()) }
    }

    #[test]
    fn equal_neighbours_are_a_train_and_the_rest_is_kept() {
        let stream = [3, 0, 0, 3, 0, 0, 2, 0, 3, 0];
        assert_eq!(cut(&stream, &by_first_byte, 10), (vec![(6, 3), (2, 2)], 8, true));
        assert_eq!(cut(&[1, 1], &Fixed2, 10), (vec![], 0, true));
        assert_eq!(cut(&[], &by_first_byte, 10), (vec![], 0, true));
    }

    #[test]
    fn what_is_no_packet_ends_the_stream() {
        assert_eq!(cut(&[2, 0, 0xFF, 1], &by_first_byte, 10), (vec![(2, 2)], 2, false));
        assert_eq!(cut(&[2, 0, 0, 1], &by_first_byte, 10), (vec![(2, 2)], 2, false), "a length of zero");
        assert_eq!(cut(&[11, 0], &by_first_byte, 10), (vec![], 0, false), "longer than allowed");
        assert_eq!(cut(&[0; 10], &Fixed2, 10), (vec![], 0, false), "a head without end");
    }

    struct Fixed2;
    impl Framer for Fixed2 {
        fn frame(&self, _: &[u8]) -> Frame {
            Frame::Incomplete
        }
    }
}
