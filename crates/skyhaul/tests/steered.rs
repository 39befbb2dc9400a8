//! A whole SPEAD stream whose rate its receiver steers: heaps arrive, the loop is closed, no mark becomes a packet.

#![allow(clippy::unwrap_used)]

use skyhaul::core::control::ControlConfig;
use skyhaul::core::wire::spead::Flavour;
use skyhaul::io::udp::UdpOptions;
use skyhaul::io::udp::send::SendOptions;
use skyhaul::spead::receive::{self, StreamConfig};
use skyhaul::spead::send::{Heap, HeapOptions, Outlet, SendConfig, SendError, Stream};
use std::sync::Arc;
use std::time::{Duration, Instant};

#[test]
fn heaps_go_through_a_closed_loop() {
    let config = StreamConfig { incomplete: true, ..StreamConfig::default() };
    let receiver = receive::Stream::new(&config);
    let options = UdpOptions::default();
    let ports = [0, 1].map(|_| {
        let at = "udp://127.0.0.1:0".parse().unwrap();
        let local = receiver.add_udp_answering(&at, &options).unwrap();
        format!("udp://{local}").parse().unwrap()
    });
    let outlet = Outlet::udp(&ports, &SendOptions::default()).unwrap();
    let auto = Some(ControlConfig { most: 400_000_000, ..ControlConfig::default() });
    let sender = Stream::new(outlet, SendConfig { auto, ..SendConfig::default() }).unwrap();
    let mut heap = Heap::new(Flavour::new(48).unwrap());
    heap.add_item(0x1000, Arc::new(vec![7u8; 60_000])).unwrap();
    let (begin, mut sent) = (Instant::now(), 0usize);
    let closed = |sender: &Stream| {
        let progress = sender.progress();
        progress.len() == 2 && progress.iter().all(|p| p.stats.reports >= 10)
    };
    let mut got = 0;
    while !closed(&sender) && begin.elapsed() < Duration::from_secs(30) {
        sender.send(&heap, &HeapOptions { substream: sent % 2, ..HeapOptions::default() }).unwrap();
        sent += 1;
        while receiver.try_get().is_ok() {
            got += 1;
        }
    }
    assert!(closed(&sender), "{:?}", sender.progress());
    while got < sent && receiver.get(Some(Duration::from_secs(2))).is_ok() {
        got += 1;
    }
    let total = receiver.stats().total;
    assert_eq!(total.rejects.total(), 0, "a mark was taken for a packet: {:?}", receiver.stats());
    // A busy machine may lose a heap; the loop then says so.
    assert!(got * 10 >= sent * 9, "{got} of {sent} heaps, {:?}", sender.progress());
    assert!(sender.rate() > 0 && sender.progress()[0].to_string().contains("Gb/s"));
    receiver.stop();
}

/// A group has many receivers: neither side lets them steer.
#[test]
fn a_group_cannot_steer() {
    let group = "udp://239.192.77.8:18888?iface=lo".parse().unwrap();
    let outlet = Outlet::udp(&[group], &SendOptions::default()).unwrap();
    let auto = Some(ControlConfig::default());
    let error = Stream::new(outlet, SendConfig { auto, ..SendConfig::default() }).unwrap_err();
    assert!(matches!(error, SendError::Config(_)), "{error:?}");
    assert!(error.to_string().contains("hint: give a rate, or send to one receiver"), "{error}");
    let receiver = receive::Stream::new(&StreamConfig::default());
    let at = "udp://239.192.77.8:0?iface=lo".parse().unwrap();
    let error = receiver.add_udp_answering(&at, &UdpOptions::default()).unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::InvalidInput, "{error}");
    // And the port is not kept.
    receiver.add_udp(&at, &UdpOptions::default()).unwrap();
    receiver.stop();
}

#[test]
fn only_udp_can_be_steered() {
    let outlet = Outlet::Bytes(Arc::default());
    let auto = Some(ControlConfig::default());
    let error = Stream::new(outlet, SendConfig { auto, ..SendConfig::default() }).unwrap_err();
    assert!(error.to_string().contains("hint:"), "{error}");
}
