//! Where packets go (UDP, TCP, queues, memory), faults on purpose, and why sending failed.

use crate::inproc::InprocQueue;
use skyhaul_core::hint::Hint;
use skyhaul_io::address::Endpoint;
use skyhaul_io::fault::{Damage, Faults, Injected, Line};
use skyhaul_io::gathered::{Extent, Gathered};
use skyhaul_io::lock::lock;
use skyhaul_io::tcp::{TcpSendOptions, TcpSender};
use skyhaul_io::udp::send::{SendOptions, Sent, UdpSender};
use std::io::{self, IoSlice};
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// A transport of one's own.
pub trait Deliver: Send {
    /// Take all these packets, for this destination.
    ///
    /// # Errors
    /// A fault that prevents further sending; the heaps of these packets fail with it.
    fn deliver(&mut self, substream: usize, packets: Gathered<'_>) -> io::Result<Sent>;

    /// How many destinations there are.
    fn substreams(&self) -> usize {
        1
    }
}

/// Where packets go: one or more destinations of one kind.
pub enum Outlet {
    /// Datagrams; a socket for each destination.
    Udp(Vec<UdpSender>),
    /// Packets one behind the other over a connection.
    Tcp(Box<TcpSender>),
    /// Queues in this process.
    Inproc(Vec<InprocQueue>),
    /// Packets one behind the other in memory.
    Bytes(Arc<Mutex<Vec<u8>>>),
    /// A transport of one's own.
    Custom(Box<dyn Deliver>),
    /// One of the others, behind injected faults.
    Faulty(Box<Outlet>, Box<Faulty>),
}

impl std::fmt::Debug for Outlet {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.describe())
    }
}

/// How often cancellation is checked while waiting for a full queue.
const POLL_WAIT: Duration = Duration::from_millis(20);

impl Outlet {
    /// Datagrams to all of these, as substreams 0, 1, ….
    ///
    /// # Errors
    /// A system call failed: the error names the operation and the address, and has a hint.
    pub fn udp(to: &[Endpoint], options: &SendOptions) -> io::Result<Self> {
        Ok(Outlet::Udp(to.iter().map(|at| UdpSender::open(at, options)).collect::<io::Result<_>>()?))
    }

    /// A connection.
    ///
    /// # Errors
    /// A system call failed: the error names the operation and the address, and has a hint.
    pub fn tcp(to: &Endpoint, options: &TcpSendOptions) -> io::Result<Self> {
        Ok(Outlet::Tcp(Box::new(TcpSender::open(to, options)?)))
    }

    /// The same with faults injected.
    #[must_use]
    pub fn with_faults(self, faults: &Faults) -> Self {
        if faults.any() { Outlet::Faulty(Box::new(self), Box::new(Faulty::new(faults))) } else { self }
    }

    /// What was injected so far, and what was really sent, if faults are injected.
    #[must_use]
    pub fn injected(&self) -> Option<(&Injected, Sent)> {
        let Outlet::Faulty(_, faulty) = self else { return None };
        Some((faulty.injected(), faulty.sent()))
    }

    /// How many destinations.
    #[must_use]
    pub fn substreams(&self) -> usize {
        match self {
            Outlet::Udp(all) => all.len(),
            Outlet::Inproc(all) => all.len(),
            Outlet::Custom(own) => own.substreams(),
            Outlet::Faulty(inner, _) => inner.substreams(),
            Outlet::Tcp(_) | Outlet::Bytes(_) => 1,
        }
    }

    /// Destination and transport, in one line.
    #[must_use]
    pub fn describe(&self) -> String {
        match self {
            Outlet::Udp(all) => all.iter().map(UdpSender::describe).collect::<Vec<_>>().join("; "),
            Outlet::Tcp(tcp) => tcp.describe(),
            Outlet::Inproc(all) => format!("{} in-process queues", all.len()),
            Outlet::Bytes(_) => "bytes in memory".into(),
            Outlet::Custom(_) => "a transport of the program".into(),
            Outlet::Faulty(inner, _) => inner.describe(),
        }
    }

    /// Without injected faults.
    fn bare(&self) -> &Self {
        if let Outlet::Faulty(inner, _) = self { inner } else { self }
    }

    pub(crate) fn is_udp(&self) -> bool {
        matches!(self.bare(), Outlet::Udp(_))
    }

    /// The sockets, if receivers can answer to them.
    pub(crate) fn udp_mut(&mut self) -> Option<&mut Vec<UdpSender>> {
        match self {
            Outlet::Udp(all) => Some(all),
            Outlet::Faulty(inner, _) => inner.udp_mut(),
            _ => None,
        }
    }

    /// A multicast group among the destinations, whose many receivers cannot all control a rate.
    pub(crate) fn group(&self) -> Option<&Endpoint> {
        let Outlet::Udp(all) = self.bare() else { return None };
        all.iter().map(UdpSender::to).find(|to| to.is_multicast())
    }

    /// Whether this is a byte stream, so that a packet may be sent in pieces.
    pub(super) fn is_stream(&self) -> bool {
        matches!(self, Outlet::Tcp(_) | Outlet::Bytes(_))
    }

    /// Whether equal packets in a row are better than others.
    pub(super) fn likes_trains(&self) -> bool {
        self.is_udp()
    }

    /// Reports of unreachable peers, and system calls, so far.
    pub(super) fn counts(&self) -> (u64, u64) {
        match self.bare() {
            Outlet::Udp(all) => all
                .iter()
                .map(UdpSender::stats)
                .fold((0, 0), |sum, s| (sum.0 + s.unreachable, sum.1 + s.calls)),
            Outlet::Tcp(tcp) => (0, tcp.stats().calls),
            _ => (0, 0),
        }
    }

    /// What ends a wait in it at once.
    pub(crate) fn stop_flag(&self) -> Option<Arc<AtomicBool>> {
        match self.bare() {
            Outlet::Tcp(tcp) => Some(tcp.stop_flag()),
            _ => None,
        }
    }

    /// Hand on all of `packets`. While it waits for room in a queue or connection, `stop` ends it, with fewer packets
    /// sent.
    pub(super) fn send(
        &mut self,
        substream: usize,
        packets: Gathered<'_>,
        stop: &dyn Fn() -> bool,
    ) -> io::Result<Sent> {
        let all = Sent { packets: packets.count(), bytes: packets.bytes(), refused: 0 };
        match self {
            Outlet::Udp(udp) => udp[substream].send_gathered(packets),
            Outlet::Tcp(tcp) => {
                let before = tcp.stats().taken;
                match tcp.send_slices(packets.slices()) {
                    // Stopped, as it was asked to.
                    Err(_) if stop() => {
                        let bytes = usize::try_from(tcp.stats().taken - before).unwrap_or(usize::MAX);
                        Ok(Sent { packets: 0, bytes, refused: 0 })
                    }
                    sent => sent.map(|_| all),
                }
            }
            Outlet::Inproc(queues) => {
                let mut done = 0;
                while done < packets.count() {
                    done += queues[substream].push_gathered(packets, done, POLL_WAIT)?;
                    if stop() {
                        break;
                    }
                }
                let bytes = (0..done).map(|n| packets.length(n)).sum();
                Ok(Sent { packets: done, bytes, refused: 0 })
            }
            Outlet::Bytes(bytes) => {
                let mut bytes = lock(bytes);
                packets.slices().iter().for_each(|slice| bytes.extend_from_slice(slice));
                Ok(all)
            }
            Outlet::Custom(own) => own.deliver(substream, packets),
            Outlet::Faulty(inner, faulty) => {
                faulty.send(substream, packets, &mut |to, packets| inner.send(to, packets, stop))
            }
        }
    }

    /// Hand on `packets` to the first destination. A socket without room refuses them, and is not waited for: a mirror must not
    /// slow down what it copies.
    pub(crate) fn send_now(&mut self, packets: Gathered<'_>) -> io::Result<Sent> {
        match self {
            Outlet::Udp(udp) => udp[0].try_send_gathered(packets),
            other => other.send(0, packets, &|| false),
        }
    }

    /// Send what injected faults hold back.
    pub(crate) fn flush(&mut self) -> io::Result<()> {
        match self {
            Outlet::Faulty(inner, faulty) => {
                faulty.flush(&mut |to, packets| inner.send(to, packets, &|| false))
            }
            _ => Ok(()),
        }
    }

    /// Let what is on its way arrive, and say that it is the end.
    pub(crate) fn finish(mut self) -> io::Result<()> {
        self.flush()?;
        match self {
            Outlet::Tcp(tcp) => tcp.finish().map(|_| ()),
            Outlet::Faulty(inner, _) => inner.finish(),
            _ => Ok(()),
        }
    }
}

/// Why something was not sent, or not all of it.
#[derive(Clone, Debug, thiserror::Error)]
pub enum SendError {
    /// The queue holds as many heaps or events as it may.
    #[error(
        "queue {more} more: {waiting} of at most {most} are already waiting{}",
        Hint("wait for a ticket, or let more of them wait")
    )]
    Full {
        /// Heaps or events to queue.
        more: usize,
        /// Those waiting.
        waiting: usize,
        /// Maximum number of those waiting.
        most: usize,
    },
    /// It was cancelled.
    #[error("cancelled before everything was sent")]
    Cancelled,
    /// It was cancelled in the middle of a packet, which closed the connection.
    #[error("the connection was closed when a packet was cancelled midway{}", Hint("connect again"))]
    Cut,
    /// The stream was closed.
    #[error("the stream is closed{}", Hint("create a new one"))]
    Closed,
    /// It was called on the stream's own thread, which would wait for itself.
    #[error(
        "a callback on this stream's own thread cannot wait, because it would wait for itself{}",
        Hint("queue there, and wait elsewhere")
    )]
    OwnThread,
    /// The destination does not exist.
    #[error("no substream {asked}: this stream has {have}{}", Hint("number them from 0"))]
    NoSubstream {
        /// The number requested.
        asked: usize,
        /// How many there are.
        have: usize,
    },
    /// The settings are invalid.
    #[error("{0}")]
    Config(String),
    /// The object cannot be divided into packets.
    #[error("{0}")]
    Packets(String),
    /// Bytes of a heap or event are fewer than they were.
    #[error(
        "bytes to send have become fewer since they were added{}",
        Hint("keep their length, or create a new heap or event")
    )]
    Changed,
    /// The socket failed.
    #[error("{0}")]
    Io(Arc<io::Error>),
}

impl From<io::Error> for SendError {
    fn from(error: io::Error) -> Self {
        SendError::Io(Arc::new(error))
    }
}

/// A packet and its destination.
type Packet = (usize, Arc<[u8]>);

/// Gives packets for a destination to an outlet.
type Give<'g> = dyn FnMut(usize, Gathered<'_>) -> io::Result<Sent> + 'g;

/// Loses, delays, duplicates and damages packets on their way to an outlet.
#[derive(Debug)]
pub struct Faulty {
    line: Line<Packet>,
    /// What comes out now.
    due: Vec<Packet>,
    sent: Sent,
}

impl Faulty {
    pub(super) fn new(faults: &Faults) -> Self {
        Self { line: Line::new(faults), due: Vec::new(), sent: Sent::default() }
    }

    pub(super) fn injected(&self) -> &Injected {
        self.line.injected()
    }

    /// What the outlet took.
    pub(super) fn sent(&self) -> Sent {
        self.sent
    }

    /// Pass `packets` on, with faults. They count as sent unless the outlet was stopped.
    pub(super) fn send(
        &mut self,
        substream: usize,
        packets: Gathered<'_>,
        give: &mut Give<'_>,
    ) -> io::Result<Sent> {
        let due = &mut self.due;
        for n in 0..packets.count() {
            let mut packet = Vec::new();
            packets.packet(n).iter().for_each(|slice| packet.extend_from_slice(slice));
            self.line
                .pass((substream, packet.into()), &mut |packet, damage| due.push(damaged(packet, damage)));
        }
        let complete = self.send_due(give)?;
        let all = Sent { packets: packets.count(), bytes: packets.bytes(), refused: 0 };
        Ok(if complete { all } else { Sent::default() })
    }

    /// Send what is held back.
    pub(super) fn flush(&mut self, give: &mut Give<'_>) -> io::Result<()> {
        let due = &mut self.due;
        self.line.flush(&mut |packet, damage| due.push(damaged(packet, damage)));
        self.send_due(give).map(|_| ())
    }

    /// Send what is due; whether the outlet took all of it.
    fn send_due(&mut self, give: &mut Give<'_>) -> io::Result<bool> {
        let due = std::mem::take(&mut self.due);
        for run in due.chunk_by(|a, b| a.0 == b.0) {
            let slices: Vec<IoSlice<'_>> = run.iter().map(|(_, packet)| IoSlice::new(packet)).collect();
            let extents: Vec<Extent> = run
                .iter()
                .enumerate()
                .map(|(first, (_, packet))| Extent { first, bytes: packet.len() })
                .collect();
            let sent = give(run[0].0, Gathered::new(&slices, &extents))?;
            self.sent.packets += sent.packets;
            self.sent.bytes += sent.bytes;
            self.sent.refused += sent.refused;
            if sent.packets + sent.refused < run.len() {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

fn damaged((substream, packet): Packet, damage: Damage) -> Packet {
    if damage == Damage::NONE {
        return (substream, packet);
    }
    let mut packet = packet.to_vec();
    let kept = damage.apply(&mut packet);
    (substream, packet[..kept].into())
}
