//! The suite for TCP: whole packets in, whole packets out, whatever the stream does.

#![allow(clippy::unwrap_used)]
#[path = "../common/mod.rs"]
mod common;
mod sending;

use common::*;
use skyhaul_io::{
    address::Endpoint,
    source::Source,
    tcp::{Fixed, Frame, TcpOptions, TcpPort, TcpSendOptions, TcpSender, TcpSource},
};
use std::{
    io::{IoSlice, Read, Write},
    net::{SocketAddr, TcpListener, TcpStream},
    time::{Duration, Instant},
};

/// Bytes 8 to 12 of a packet are its length.
fn by_length(head: &[u8]) -> Frame {
    match head.get(8..12).and_then(|b| b.first_chunk()) {
        None => Frame::Incomplete,
        Some(b) => Frame::Packet(u32::from_be_bytes(*b) as usize),
    }
}

fn sized(who: u8, n: u64, length: usize) -> Vec<u8> {
    let mut bytes = packet(who, n, length);
    bytes[8..12].copy_from_slice(&(length as u32).to_be_bytes());
    bytes
}

fn source(at: &str) -> TcpSource {
    TcpSource::open(&at.parse().unwrap(), Box::new(by_length), &TcpOptions::default()).unwrap()
}

fn sender(to: SocketAddr) -> TcpSender {
    TcpSender::open(&Endpoint::tcp(to), &TcpSendOptions::default()).unwrap()
}

fn parts(packets: &[Vec<u8>]) -> Vec<[IoSlice<'_>; 2]> {
    packets.iter().map(|p| p.split_at(12)).map(|(h, p)| [IoSlice::new(h), IoSlice::new(p)]).collect()
}

#[test]
fn every_length_arrives_whole_and_in_order() {
    for at in ["tcp://127.0.0.1:0", "tcp://[::1]:0"] {
        if at.contains("::1") && !has_ipv6() {
            continue;
        }
        for length in [12, 13, 100, 1472, 8032, 65_000, 1 << 20] {
            let mut source = source(at);
            let packets: Vec<_> =
                (0..(3 << 20) / length as u64).take(5000).map(|n| sized(0, n, length)).collect();
            let to = source.local();
            let arrived = std::thread::scope(|scope| {
                scope.spawn(|| {
                    let mut sender = sender(to);
                    let sent = sender.send(&parts(&packets)).unwrap();
                    assert_eq!((sent.packets, sent.bytes), (packets.len(), packets.len() * length));
                    assert_eq!(sender.finish().unwrap().broken, 0);
                });
                collect(&mut source, packets.len())
            });
            assert_same(arrived.values().next().unwrap(), &packets, at);
            let stats = source.stats();
            assert_counted(&stats, packets.len(), packets.len() * length, at);
            assert_eq!((stats.connections, stats.broken, source.connections()), (1, 0, 0));
        }
    }
}

#[test]
fn connections_are_senders_and_lengths_may_change() {
    let mut source = source("tcp://127.0.0.1:0");
    let mut senders: Vec<_> = (0..50).map(|_| TcpStream::connect(source.local()).unwrap()).collect();
    let packets = |who: usize| {
        (0..40).map(|n| sized(who as u8, n, 12 + (who * 31 + n as usize * 7) % 900)).collect::<Vec<_>>()
    };
    let streams: Vec<Vec<u8>> = (0..50).map(|who| packets(who).concat()).collect();
    let mut arrived = Arrived::new();
    let (mut seen, mut at) = (0, 0);
    // In crumbs that end anywhere.
    while seen < 50 * 40 {
        for (sender, stream) in senders.iter_mut().zip(&streams) {
            sender.write_all(&stream[at.min(stream.len())..(at + 777).min(stream.len())]).unwrap();
        }
        at += 777;
        seen += collect_once(&mut source, &mut arrived, Duration::from_millis(1));
    }
    for (who, sender) in senders.iter().enumerate() {
        assert_same(&arrived[&sender.local_addr().unwrap()], &packets(who), "crumbs");
    }
}

#[test]
fn a_stream_that_ends_within_a_packet_is_counted() {
    let mut source = source("tcp://127.0.0.1:0");
    let mut stream = TcpStream::connect(source.local()).unwrap();
    stream.write_all(&sized(0, 0, 100)).unwrap();
    stream.write_all(&sized(0, 1, 100)[..60]).unwrap();
    drop(stream);
    let mut reset = TcpStream::connect(source.local()).unwrap();
    reset.write_all(&[0; 3]).unwrap();
    socket2::SockRef::from(&reset).set_linger(Some(Duration::ZERO)).unwrap();
    assert_eq!(collect(&mut source, 1).values().map(Vec::len).sum::<usize>(), 1);
    drop(reset);
    while source.connections() > 0 {
        source.poll(Duration::from_millis(20), &mut |_| ()).unwrap();
    }
    assert_eq!((source.stats().packets, source.stats().broken, source.stats().malformed), (1, 2, 0));
}

#[test]
fn garbage_closes_its_connection_and_no_other() {
    let mut source = source("tcp://127.0.0.1:0");
    let mut honest = TcpStream::connect(source.local()).unwrap();
    let mut hostile = TcpStream::connect(source.local()).unwrap();
    hostile.write_all(&[0xFF; 5000]).unwrap();
    honest.write_all(&sized(1, 0, 100)).unwrap();
    assert_eq!(collect(&mut source, 1).len(), 1);
    honest.write_all(&sized(1, 1, 100)).unwrap();
    assert_eq!(collect(&mut source, 1).len(), 1);
    assert_eq!((source.stats().malformed, source.connections()), (1, 1));
}

#[test]
fn only_the_sender_asked_for_is_let_in() {
    let mut source = source("tcp://127.0.0.1:0?source=127.0.0.9");
    let wrong = TcpStream::connect(source.local()).unwrap();
    let to = Endpoint { source: Some("127.0.0.9".parse().unwrap()), ..Endpoint::tcp(source.local()) };
    let mut right = TcpSender::open(&to, &TcpSendOptions::default()).unwrap();
    right.send(&parts(&[sized(0, 0, 100)])).unwrap();
    assert_eq!(collect(&mut source, 1).len(), 1);
    assert_eq!((source.connections(), source.stats().broken), (1, 1));
    drop(wrong);
}

#[test]
fn a_port_that_is_not_decided_shows_first_bytes_and_leaves_them() {
    let mut port = TcpPort::open(&"tcp://127.0.0.1:0".parse().unwrap()).unwrap();
    let mut senders: Vec<_> = (0..100).map(|_| TcpStream::connect(port.local()).unwrap()).collect();
    drop(senders.remove(0));
    senders[70].write_all(&sized(1, 0, 100)).unwrap();
    let end = Instant::now() + Duration::from_secs(60);
    while port.peek(|first| (first.len() == 8).then_some(())).unwrap().is_none() {
        assert!(Instant::now() < end, "nobody is heard");
    }
    let mut source = TcpSource::of(port, Box::new(by_length), &TcpOptions::default());
    senders[3].write_all(&sized(2, 0, 100)).unwrap();
    assert_eq!(collect(&mut source, 2).len(), 2);
    while source.connections() != senders.len() {
        assert!(Instant::now() < end, "{}", source.describe());
        source.poll(Duration::from_millis(20), &mut |_| ()).unwrap();
    }
    assert_eq!(source.stats().broken, 0);
}

#[test]
fn more_connections_than_allowed_wait_their_turn() {
    let options = TcpOptions { connections: 2, ..TcpOptions::default() };
    let mut source =
        TcpSource::open(&"tcp://127.0.0.1:0".parse().unwrap(), Box::new(Fixed(10)), &options).unwrap();
    let mut senders: Vec<_> = (0..3).map(|_| TcpStream::connect(source.local()).unwrap()).collect();
    for sender in &mut senders {
        sender.write_all(&[7; 10]).unwrap();
    }
    assert_eq!(collect(&mut source, 2).values().map(Vec::len).sum::<usize>(), 2);
    assert_eq!(source.connections(), 2);
    senders.remove(0);
    assert_eq!(collect(&mut source, 1).values().map(Vec::len).sum::<usize>(), 1);
}

#[test]
fn connections_that_say_nothing_give_way_to_those_that_speak() {
    let options = TcpOptions { connections: 3, ..TcpOptions::default() };
    let mut source =
        TcpSource::open(&"tcp://127.0.0.1:0".parse().unwrap(), Box::new(Fixed(10)), &options).unwrap();
    let to = source.local();
    let connect = || {
        let connection = TcpStream::connect(to).unwrap();
        connection.set_nonblocking(true).unwrap();
        connection
    };
    // One that never spoke, one that did and is silent now, and one that goes on.
    let (mute, mut silent, mut speaker) = (connect(), connect(), connect());
    silent.write_all(&[1; 10]).unwrap();
    speaker.write_all(&[2; 10]).unwrap();
    let first = collect(&mut source, 2);
    assert_eq!((first.len(), source.connections()), (2, 3));

    let mut newcomer = connect();
    newcomer.write_all(&[3; 10]).unwrap();
    let newcomers = |arrived: &Arrived| arrived.contains_key(&newcomer.local_addr().unwrap());
    let (mut arrived, mut spoken) = (Arrived::new(), 1);
    let end = Instant::now() + Duration::from_secs(60);
    while !newcomers(&arrived) {
        assert!(Instant::now() < end, "nobody gave way: {:?}", source.stats());
        speaker.write_all(&[2; 10]).unwrap();
        spoken += 1;
        collect_once(&mut source, &mut arrived, Duration::from_millis(20));
    }
    // It is the one that brought least; the others are still heard.
    let closed =
        |mut one: &TcpStream| matches!(one.read(&mut [0]), Ok(0) | Err(_)) && one.peek(&mut [0]).is_ok();
    assert!(closed(&mute) && !closed(&silent) && !closed(&speaker));
    assert_eq!((source.connections(), source.stats().broken), (3, 0));
    assert!(source.stats().remedies.iter().any(|r| r.starts_with("1 silent connections were closed")));
    silent.write_all(&[1; 10]).unwrap();
    let said =
        |arrived: &Arrived, who: &TcpStream| arrived.get(&who.local_addr().unwrap()).map_or(0, Vec::len);
    while (said(&arrived, &silent), said(&arrived, &speaker)) != (1, spoken - 1) {
        assert!(Instant::now() < end, "a connection was lost: {:?}", source.stats());
        collect_once(&mut source, &mut arrived, Duration::from_millis(20));
    }
}
