//! Our sender, at one rate per run, in the measuring thread.

use super::options::LimitedOptions;
use skyhaul::spead::send::{Heap, HeapOptions, Order, Outlet, PacketSize, SendConfig, Stream};
use skyhaul_core::wire::spead::Flavour;
use skyhaul_io::address::Endpoint;
use skyhaul_io::quantity::Size;
use skyhaul_io::udp::send::SendOptions;
use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Bytes of heaps sent together, so that runs end in time.
const TOGETHER: usize = 1 << 20;

/// Sends dummy heaps to one receiver.
pub(super) struct Feed {
    pub(super) stream: Arc<Stream>,
    heap: Heap,
    together: usize,
}

/// Results of one run.
pub(super) struct Sent {
    pub(super) heaps: u64,
    /// Bytes of heaps.
    pub(super) bytes: u64,
    /// Bits per second of packets.
    pub(super) reached: f64,
    /// Whether everything was sent.
    pub(super) all: bool,
}

impl Feed {
    pub(super) fn to(options: &LimitedOptions, to: Endpoint, packet: usize) -> io::Result<Self> {
        let to = Endpoint { sndbuf: Some(Size::from_bytes(options.buffer)), ..to };
        let outlet = Outlet::udp(std::slice::from_ref(&to), &SendOptions::default())?;
        let config = SendConfig { packet: PacketSize::Packet(packet), ..SendConfig::default() };
        let stream = Arc::new(Stream::new(outlet, config).map_err(io::Error::other)?);
        let mut heap = Heap::new(Flavour::SPEAD_64_48);
        heap.add_item(0x1000, vec![1; options.heap_bytes]).map_err(io::Error::other)?;
        let together = (TOGETHER / options.heap_bytes.max(1)).clamp(1, 256);
        Ok(Self { stream, heap, together })
    }

    /// Whole heaps at `rate` for this long.
    pub(super) fn send(&self, options: &LimitedOptions, rate: u64, time: Duration) -> io::Result<Sent> {
        self.stream.set_rate(rate);
        let heaps = vec![(&self.heap, HeapOptions::default()); self.together];
        let (before, begun, mut sent) = (self.stream.stats(), Instant::now(), 0);
        while begun.elapsed() < time && !options.stop.is_set() {
            self.stream.send_all(&heaps, Order::Serial).map_err(io::Error::other)?;
            sent += self.together as u64;
        }
        let seconds = begun.elapsed().as_secs_f64().max(1e-9);
        let after = self.stream.stats();
        Ok(Sent {
            heaps: sent,
            bytes: sent * options.heap_bytes as u64,
            reached: (after.wire_bytes - before.wire_bytes) as f64 * 8.0 / seconds,
            all: after.objects - before.objects == sent
                && after.refused == before.refused
                && after.unreachable == before.unreachable,
        })
    }
}
