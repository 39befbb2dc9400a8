//! What carries segments: datagrams over one socket, or streams.

use super::alarm::Alarm;
use super::options::{CONTROLS, DriverOptions, SEGMENTS};
use super::streams::Streams;
use crate::rdma::kernel::{Hands, Kernel, MAX_DATAGRAM_BYTES};
use crate::rdma::memory::Memory;
use skyhaul_core::hint::Hint;
use skyhaul_core::placement::Nanos;
use skyhaul_io::address::Transport;
use skyhaul_io::fault::{FaultSource, Injected};
use skyhaul_io::gathered::Gathered;
use skyhaul_io::source::Source;
use skyhaul_io::tcp::frames::FrameTally;
use skyhaul_io::udp::both::Both;
use skyhaul_io::udp::forward::{Forwarded, Forwarder};
use skyhaul_io::udp::send::SendOptions;
use skyhaul_io::udp::{UdpOptions, UdpSource};
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

/// What arrives, with or without injected faults.
enum Arrivals {
    Plain(UdpSource),
    Faulty(Box<FaultSource<UdpSource>>),
}

impl Arrivals {
    fn source(&mut self) -> &mut dyn Source {
        match self {
            Arrivals::Plain(source) => source,
            Arrivals::Faulty(source) => source.as_mut(),
        }
    }

    fn shown(&self) -> &dyn Source {
        match self {
            Arrivals::Plain(source) => source,
            Arrivals::Faulty(source) => source.as_ref(),
        }
    }

    fn injected(&self) -> Injected {
        match self {
            Arrivals::Plain(_) => Injected::default(),
            Arrivals::Faulty(source) => source.injected().clone(),
        }
    }
}

/// One socket, in both directions.
pub(super) struct Datagrams {
    source: Arrivals,
    socket: OwnedFd,
    outlet: Forwarder,
    local: SocketAddr,
}

pub(super) enum Link {
    Udp(Box<Datagrams>),
    Tcp(Box<Streams>),
}

pub(super) struct Opened {
    pub(super) link: Link,
    /// What places in the kernel, or why nothing does.
    pub(super) kernel: Result<Kernel, String>,
    /// Of each socket.
    pub(super) buffer: u64,
}

impl Link {
    pub(super) fn open(options: &DriverOptions) -> io::Result<Opened> {
        let at = options.listen.as_ref().or(options.peer.as_ref());
        let is_stream = at.is_some_and(|at| at.transport == Transport::Tcp);
        if !is_stream {
            return open_datagrams(options);
        }
        if options.arriving.is_some() || options.leaving.is_some() {
            let hint = Hint("use rdma+udp://, or lose packets on the path: see `skyhaul lab`");
            let text = format!(
                "--faults: TCP repairs losses, duplicates and reordering, so none can be injected{hint}"
            );
            return Err(io::Error::new(io::ErrorKind::InvalidInput, text));
        }
        let link = Link::Tcp(Box::new(Streams::open(options)?));
        let kernel = Err("the program in the kernel places datagrams, and this is a stream".to_owned());
        Ok(Opened { link, kernel, buffer: 0 })
    }

    pub(super) fn is_stream(&self) -> bool {
        matches!(self, Link::Tcp(_))
    }

    pub(super) fn local(&self) -> SocketAddr {
        match self {
            Link::Udp(datagrams) => datagrams.local,
            Link::Tcp(streams) => streams.local(),
        }
    }

    /// Take what arrives within `wait`.
    pub(super) fn receive(
        &mut self,
        wait: Duration,
        began: Instant,
        with: (&mut Hands<'_, '_>, &mut Alarm),
    ) -> io::Result<usize> {
        match self {
            Link::Udp(datagrams) => datagrams.receive(wait, began, with),
            Link::Tcp(streams) => streams.receive(wait, began, with),
        }
    }

    /// Readable when there is something to do.
    pub(super) fn descriptor(&self) -> BorrowedFd<'_> {
        match self {
            Link::Udp(datagrams) => datagrams.socket.as_fd(),
            Link::Tcp(streams) => streams.descriptor(),
        }
    }

    /// How packets are read from the kernel, and handed to it.
    pub(super) fn describe(&self) -> (String, String) {
        match self {
            Link::Udp(datagrams) => (datagrams.source.shown().describe(), datagrams.outlet.describe()),
            Link::Tcp(streams) => (streams.describe(), "tcp".to_owned()),
        }
    }

    /// System calls that handed datagrams to the kernel.
    #[cfg(test)]
    pub(super) fn calls(&self) -> u64 {
        match self {
            Link::Udp(datagrams) => datagrams.outlet.calls().0,
            Link::Tcp(_) => 0,
        }
    }

    /// Arrivals that the kernel dropped, and what was withheld on purpose.
    pub(super) fn withheld(&self) -> (u64, Injected) {
        match self {
            Link::Udp(datagrams) => {
                (datagrams.source.shown().stats().socket_drops, datagrams.source.injected())
            }
            Link::Tcp(_) => (0, Injected::default()),
        }
    }

    /// What became of segments and controls that were handed over, and how many of each still wait here. Of datagrams the sums are
    /// kept by the caller.
    pub(super) fn fates(&self, sent: [&Forwarded; 2]) -> ([Forwarded; 2], [u64; 2]) {
        match self {
            Link::Udp(_) => (sent.map(Clone::clone), [0; 2]),
            Link::Tcp(streams) => {
                let tallies = streams.tallies();
                let fate = |tally: FrameTally| Forwarded {
                    packets: tally.frames,
                    bytes: tally.bytes,
                    unreachable: tally.unsent,
                    ..Forwarded::default()
                };
                (
                    [fate(tallies[SEGMENTS]), fate(tallies[CONTROLS])],
                    [tallies[SEGMENTS].held, tallies[CONTROLS].held],
                )
            }
        }
    }
}

impl Datagrams {
    pub(super) fn forward(&mut self, to: SocketAddr, datagrams: Gathered<'_>) -> Forwarded {
        self.outlet.forward(to, datagrams)
    }

    pub(super) fn forward_one(&mut self, to: SocketAddr, head: &[u8], body: &[u8]) -> Forwarded {
        self.outlet.forward_one(to, head, body)
    }

    fn receive(
        &mut self,
        wait: Duration,
        began: Instant,
        (hands, alarm): (&mut Hands<'_, '_>, &mut Alarm),
    ) -> io::Result<usize> {
        // One reading of the clock for a train: its packets came together.
        self.source.source().poll(wait, &mut |train| {
            alarm.pass(Nanos::from(began.elapsed()), hands);
            let Hands { endpoint, context, memories, placed, arrived } = hands;
            for datagram in train.packets() {
                **arrived += 1;
                let Some(place) = endpoint.handle_datagram(*train.sender, datagram, context) else {
                    continue;
                };
                // Peers are given places in memory of this kind only.
                if let Some(Memory::Remote(memory)) = memories.get(place.to.memory as usize) {
                    memory.place(place.to.start, &datagram[place.from.clone()]);
                }
                placed.iter_mut().for_each(|list| list.push(place.clone()));
            }
        })
    }
}

fn open_datagrams(options: &DriverOptions) -> io::Result<Opened> {
    let at = options.listen.as_ref().or(options.peer.as_ref());
    let mut udp = UdpOptions { gather: options.gather, timestamps: false, ..UdpOptions::default() };
    udp.buffer = at.and_then(|at| at.rcvbuf).unwrap_or(udp.buffer);
    let bind = match (&options.listen, &options.peer) {
        (Some(listen), _) => listen.address,
        (None, Some(peer)) if peer.address.is_ipv6() => (IpAddr::from(Ipv6Addr::UNSPECIFIED), 0).into(),
        (None, _) => (IpAddr::from(Ipv4Addr::UNSPECIFIED), 0).into(),
    };
    let both = Both::bind(bind, &udp)?;
    // A client has one peer: the kernel keeps its route, and what others send does not come here.
    if let (None, Some(peer)) = (&options.listen, &options.peer)
        && !peer.address.ip().is_multicast()
    {
        both.connect(peer.address)?;
    }
    let mut send = SendOptions::default();
    send.buffer = at.and_then(|at| at.sndbuf).unwrap_or(send.buffer);
    let outlet = Forwarder::over(&both, &send)?;
    let kernel = match &options.place {
        Some(regions) => {
            let usual = options.config.datagram_bytes.min(MAX_DATAGRAM_BYTES as u16);
            Kernel::open(regions, usual).map_err(|why| why.to_string())
        }
        None => Err("not asked for".to_owned()),
    };
    if kernel.is_ok() {
        both.share_port()?;
    }
    let source = both.source(&udp)?;
    let source = match &options.arriving {
        Some(faults) => Arrivals::Faulty(Box::new(FaultSource::new(source, faults))),
        None => Arrivals::Plain(source),
    };
    let socket = both.duplicate()?;
    let link = Link::Udp(Box::new(Datagrams { source, socket, outlet, local: both.local() }));
    Ok(Opened { link, kernel, buffer: udp.buffer.bytes() })
}
