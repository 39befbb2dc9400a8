//! A TCP connection whose traffic may be marked.

use super::FlowMarker;
use super::firefly::{Firefly, Lifecycle, Moved};
use super::tag::SciTag;
use skyhaul::io::tcp::info::TcpInfo;
use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::{Arc, OnceLock};
use std::time::SystemTime;
use tokio::net::TcpStream;

/// Which way the data of a connection go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FlowWay {
    /// To this host, by a GET of its own.
    Fetched,
    /// To this host, by a PUT of the other end.
    Received,
    /// From this host, for a GET of the other end.
    Given,
    /// From this host, by a PUT of its own.
    Sent,
}

impl FlowWay {
    fn leaves(self) -> bool {
        matches!(self, Self::Given | Self::Sent)
    }

    fn application(self) -> &'static str {
        match self {
            Self::Fetched | Self::Given => "http-get",
            Self::Received | Self::Sent => "http-put",
        }
    }
}

/// How the connections of a copy are marked.
#[derive(Clone)]
pub(crate) struct FlowMark {
    marker: Arc<FlowMarker>,
    tag: SciTag,
    way: FlowWay,
}

impl FlowMark {
    /// Of a copy whose client gives this tag; `None` if there is none.
    pub(crate) fn of_copy(marker: &Arc<FlowMarker>, given: Option<SciTag>, way: FlowWay) -> Option<Self> {
        Some(Self { marker: Arc::clone(marker), tag: marker.tag_of_copy(given)?, way })
    }

    /// The flow label of the next connection, if it is to have one.
    pub(crate) fn label(&self) -> Option<u32> {
        self.marker.label(self.tag)
    }

    /// Notes whether the kernel took it.
    pub(crate) fn note_label(&self, set: &io::Result<u32>) {
        self.marker.note_label(set);
    }

    /// Marks a connection, until what is returned is dropped.
    pub(crate) fn begin(&self, stream: &TcpStream) -> Option<Arc<FlowSocket>> {
        let flow = FlowSocket::of(stream, &self.marker)?;
        flow.begin(self.tag, self.way);
        Some(flow)
    }
}

/// A second descriptor of a connection, by which its bytes are known when it ends. The connection is open until this is dropped, too.
pub(crate) struct FlowSocket {
    marker: Arc<FlowMarker>,
    socket: OwnedFd,
    local: SocketAddr,
    peer: SocketAddr,
    flow: OnceLock<Flow>,
}

/// What is said of it.
struct Flow {
    tag: SciTag,
    way: FlowWay,
    started: SystemTime,
}

impl FlowSocket {
    /// Of a connection; `None` if it is over, or no more files may be opened.
    pub(crate) fn of(stream: &TcpStream, marker: &Arc<FlowMarker>) -> Option<Arc<Self>> {
        let (local, peer) = (stream.local_addr().ok()?, stream.peer_addr().ok()?);
        let socket = stream.as_fd().try_clone_to_owned().ok()?;
        Some(Arc::new(Self { marker: Arc::clone(marker), socket, local, peer, flow: OnceLock::new() }))
    }

    /// Marks it, unless it is marked.
    pub(crate) fn begin(self: &Arc<Self>, tag: SciTag, way: FlowWay) {
        if self.flow.set(Flow { tag, way, started: SystemTime::now() }).is_err() {
            return;
        }
        self.tell(Lifecycle::Start);
        if let Some(interval) = self.marker.interval() {
            let of = Arc::downgrade(self);
            tokio::spawn(async move {
                loop {
                    tokio::time::sleep(interval).await;
                    let Some(flow) = of.upgrade() else { break };
                    flow.tell(Lifecycle::Ongoing);
                }
            });
        }
    }

    fn tell(&self, state: Lifecycle) {
        let Some(Flow { tag, way, started }) = self.flow.get() else { return };
        let info = TcpInfo::of(&self.socket).ok().filter(|_| state != Lifecycle::Start);
        let moved = info.map(|info| Moved {
            received: info.bytes_received,
            sent: info.bytes_sent.saturating_sub(info.bytes_retrans),
            round_trip: info.rtt,
        });
        let (from, to) = if way.leaves() { (self.local, self.peer) } else { (self.peer, self.local) };
        let firefly = Firefly {
            host: self.marker.host(),
            state,
            tag: *tag,
            application: way.application(),
            from,
            to,
            started: *started,
            now: SystemTime::now(),
            moved,
        };
        self.marker.send(&firefly, self.peer.ip());
    }
}

impl Drop for FlowSocket {
    fn drop(&mut self) {
        self.tell(Lifecycle::End);
    }
}
