//! The real sender of heaps, held back by the flow instead of its own rate.

use crate::bench::flow::{Flow, Throttle};
use crate::bench::options::{BenchLoad, BenchOptions};
use crate::bench::packets::Shape;
use crate::bench::receive::{Given, settle};
use skyhaul::spead::send::{Heap, HeapOptions, Order, Outlet, PacketSize, SendConfig, Stream};
use skyhaul_core::wire::spead::Flavour;
use skyhaul_io::address::Endpoint;
use skyhaul_io::host::thread;
use skyhaul_io::udp::send::{SendMode, SendOptions};
use std::io;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Bytes passed to the sender at a time, at least one heap.
const GROUP: usize = 256 << 10;

/// Send heaps from a separate thread for the requested time.
pub(in crate::bench) fn start(
    options: &BenchOptions,
    to: Endpoint,
    shape: &Shape,
    load: BenchLoad,
    flow: &Arc<Flow>,
) -> io::Result<(JoinHandle<io::Result<Given>>, String)> {
    let (options, flow) = (options.clone(), flow.clone());
    let (packet, payload) = (shape.bytes, shape.object().unwrap_or(shape.payload));
    let thread = std::thread::Builder::new().name("bench-send".into()).spawn(move || {
        settle(options.cpus.0, options.networks.as_ref().map(|(sender, _)| sender))?;
        let mode = if options.gso { SendMode::Auto } else { SendMode::Mmsg };
        let outlet = Outlet::udp(&[to], &SendOptions { mode, ..SendOptions::default() })?;
        let config = SendConfig { packet: PacketSize::Packet(packet), ..SendConfig::default() };
        let stream = Stream::new(outlet, config).map_err(io::Error::other)?;
        let mut heap = Heap::new(Flavour::SPEAD_64_48);
        heap.add_item(0x1000, vec![1; payload]).map_err(io::Error::other)?;
        let group = vec![(&heap, HeapOptions::default()); (GROUP / payload.max(1)).max(1)];
        let mut throttle = Throttle::new(flow, load, options.stop.clone());
        let (end, cpu) = (Instant::now() + options.time, thread::cpu_time());
        // Of the first group it is only known roughly.
        let mut bytes = (group.len() * payload) as u64;
        let mut given = Given::default();
        while Instant::now() < end && !options.stop.is_set() {
            throttle.wait(bytes);
            bytes = stream.send_all(&group, Order::Serial).map_err(io::Error::other)?;
            given.bytes += bytes;
        }
        given.cpu = (thread::cpu_time() - cpu).saturating_sub(throttle.waited);
        given.packets = stream.close(Some(Duration::ZERO)).map_err(io::Error::other)?.packets;
        Ok(given)
    })?;
    Ok((thread, "Skyhaul's sender of heaps: heads and payload gathered in place".to_owned()))
}
