//! The suite for TCP: whole packets in, whole packets out, whatever the stream does.

#![allow(clippy::unwrap_used)]
#[path = "../common/mod.rs"]
mod common;

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
fn a_source_ends_with_its_last_connection_only_if_asked_to() {
    for end_with_last in [false, true] {
        let options = TcpOptions { connections: 2, end_with_last, ..TcpOptions::default() };
        let mut source =
            TcpSource::open(&"tcp://127.0.0.1:0".parse().unwrap(), Box::new(Fixed(10)), &options).unwrap();
        for _ in 0..3 {
            assert_eq!(source.poll(Duration::from_millis(1), &mut |_| ()).unwrap(), 0);
        }
        assert!(!source.is_finished(), "nobody came yet");
        // One more than allowed: it is taken when another closes, and that one was not the last.
        let senders: Vec<_> = (0..3).map(|_| TcpStream::connect(source.local()).unwrap()).collect();
        for mut sender in senders {
            assert!(!source.is_finished());
            sender.write_all(&[7; 10]).unwrap();
        }
        assert_eq!(collect(&mut source, 3).len(), 3);
        let end = Instant::now() + Duration::from_secs(60);
        for polls in 0.. {
            source.poll(Duration::from_millis(1), &mut |_| ()).unwrap();
            if if end_with_last { source.is_finished() } else { source.connections() == 0 && polls > 100 } {
                break;
            }
            assert!(Instant::now() < end, "{}", source.describe());
        }
        assert_eq!((source.is_finished(), source.connections()), (end_with_last, 0));
        assert_eq!(source.stats().broken, 0);
    }
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

// The sender: what waits, what breaks, what is refused.

#[test]
fn a_broken_connection_is_an_error() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let to = Endpoint::tcp(listener.local_addr().unwrap());
    let mut sender = TcpSender::open(&to, &TcpSendOptions::default()).unwrap();
    drop(listener.accept().unwrap());
    let packets = vec![sized(0, 0, 1000)];
    let error = (0..100).find_map(|_| {
        std::thread::sleep(Duration::from_millis(1));
        sender.send(&parts(&packets)).err()
    });
    let text = error.unwrap().to_string();
    assert!(text.starts_with(&format!("send to {to}: ")), "{text}");
    assert!(sender.send(&parts(&packets)).is_err());
    assert!(sender.stats().last_break.is_some());
}

#[test]
fn nobody_there_says_so() {
    let gone = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let Err(error) = TcpSender::open(&Endpoint::tcp(gone), &TcpSendOptions::default()) else {
        panic!("connected")
    };
    assert_eq!(
        error.to_string(),
        format!(
            "connect tcp://{gone}: Connection refused; hint: no receiver is listening on port {}; start the receiver first",
            gone.port()
        )
    );
}

#[test]
fn slices_of_any_number_and_length_arrive_in_order_and_are_counted() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let mut sender = sender(listener.local_addr().unwrap());
    let (mut peer, _) = listener.accept().unwrap();
    let source: Vec<u8> = (0..64 << 20).map(|i: u32| (i.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
    // A heap of 64 MiB out of 10 000 slices, one of 40 MiB; then many small packets of unequal lengths.
    let mut cuts: Vec<usize> = (0..10_000).map(|n| n * 2100 + n % 400).collect();
    cuts.extend([cuts[9_999] + (40 << 20), source.len()]);
    let heap: Vec<_> = cuts.windows(2).map(|w| IoSlice::new(&source[w[0]..w[1]])).collect();
    let packets: Vec<_> = (0..20_000)
        .flat_map(|n| [IoSlice::new(&source[..72]), IoSlice::new(&source[72..72 + n % 1500])])
        .collect();
    let join = |slices: &[IoSlice<'_>]| slices.iter().flat_map(|s| s.to_vec()).collect::<Vec<u8>>();
    let expected = [join(&heap), join(&packets), vec![]].concat();
    let stats = std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut got = Vec::with_capacity(expected.len());
            peer.read_to_end(&mut got).unwrap();
            assert!(got == expected, "{} of {} bytes", got.len(), expected.len());
        });
        let first = sender.send_slices(&heap).unwrap();
        let before = sender.stats().calls;
        let second = sender.send_slices(&packets).unwrap();
        assert_eq!(first + second, expected.len());
        assert!(sender.stats().calls - before < 5000, "small packets go in large writes");
        assert_eq!(sender.send_slices(&[]).unwrap(), 0);
        sender.send_slices(&[IoSlice::new(&[]), IoSlice::new(&[])]).unwrap();
        sender.finish().unwrap()
    });
    assert_eq!((stats.bytes, stats.taken), (expected.len() as u64, expected.len() as u64));
}

#[test]
fn a_send_that_waits_is_ended_from_another_thread() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let mut sender = sender(listener.local_addr().unwrap());
    let (mut peer, _) = listener.accept().unwrap();
    let heap = vec![7; 64 << 20];
    let flag = sender.stop_flag();
    let error = std::thread::scope(|scope| {
        let waits = scope.spawn(|| sender.send_slices(&[IoSlice::new(&heap)]).unwrap_err());
        std::thread::sleep(Duration::from_millis(50));
        flag.store(true, std::sync::atomic::Ordering::Relaxed);
        waits.join().unwrap()
    });
    assert_eq!(error.kind(), std::io::ErrorKind::ConnectionAborted);
    assert!(error.to_string().ends_with("stopped within a packet and closed; hint: reconnect"), "{error}");
    assert!(!sender.is_connected());
    let (taken, mut got) = (sender.stats().taken, Vec::new());
    peer.read_to_end(&mut got).unwrap();
    assert_eq!(
        (got.len() as u64, sender.stats().bytes),
        (taken, 0),
        "what was counted is what was on the wire"
    );
    assert!(sender.send_slices(&[]).unwrap_err().to_string().contains("hint: reconnect"));
}

#[test]
fn stopped_between_packets_the_connection_stands() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let mut sender = sender(listener.local_addr().unwrap());
    let (mut peer, _) = listener.accept().unwrap();
    let flag = sender.stop_flag();
    flag.store(true, std::sync::atomic::Ordering::Relaxed);
    let error = sender.send_slices(&[IoSlice::new(&[1, 2])]).unwrap_err();
    assert!(error.to_string().ends_with(": stopped") && sender.is_connected(), "{error}");
    flag.store(false, std::sync::atomic::Ordering::Relaxed);
    sender.send_slices(&[IoSlice::new(&[3, 4])]).unwrap();
    sender.finish().unwrap();
    let mut got = Vec::new();
    peer.read_to_end(&mut got).unwrap();
    assert_eq!(got, [3, 4]);
}

#[test]
fn a_peer_that_takes_nothing_is_given_up() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let options = TcpSendOptions { patience: Duration::from_millis(100), ..TcpSendOptions::default() };
    let mut sender = TcpSender::open(&Endpoint::tcp(listener.local_addr().unwrap()), &options).unwrap();
    let (_peer, _) = listener.accept().unwrap();
    let error = sender.send_slices(&[IoSlice::new(&vec![7; 64 << 20])]).unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::TimedOut, "{error}");
    assert_eq!((sender.stats().broken, sender.is_connected()), (1, false));
}

#[test]
fn the_address_chooses_the_congestion_control() {
    let mut source = source("tcp://127.0.0.1:0?cc=reno");
    let to = Endpoint { cc: Some("reno".into()), ..Endpoint::tcp(source.local()) };
    let mut sender = TcpSender::open(&to, &TcpSendOptions::default()).unwrap();
    assert_eq!(sender.stats().congestion, "reno");
    sender.send(&parts(&[sized(0, 0, 100)])).unwrap();
    assert_eq!(collect(&mut source, 1).len(), 1);
    let at = "tcp://127.0.0.1:0?cc=nosuch".parse().unwrap();
    let Err(error) = TcpSource::open(&at, Box::new(by_length), &TcpOptions::default()) else {
        panic!("opened")
    };
    assert!(error.to_string().contains("hint: this host lacks that congestion control: `sysctl"), "{error}");
    let to = Endpoint { cc: Some("nosuch".into()), ..Endpoint::tcp(source.local()) };
    let Err(error) = TcpSender::open(&to, &TcpSendOptions::default()) else { panic!("opened") };
    assert!(error.to_string().contains("hint: this host lacks that congestion control: `sysctl"), "{error}");
}

#[test]
fn a_connection_made_elsewhere_is_sent_over() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let stream = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    stream.set_nonblocking(true).unwrap();
    let mut sender = TcpSender::from_stream(stream, &TcpSendOptions::default()).unwrap();
    let (mut peer, _) = listener.accept().unwrap();
    let heap = vec![7; 32 << 20];
    std::thread::scope(|scope| {
        let reads = scope.spawn(|| {
            let mut got = Vec::new();
            peer.read_to_end(&mut got).map(|_| got.len()).unwrap()
        });
        assert_eq!(sender.send_slices(&[IoSlice::new(&heap)]).unwrap(), heap.len());
        sender.finish().unwrap();
        assert_eq!(reads.join().unwrap(), heap.len());
    });
}

#[test]
fn nobody_answering_says_so() {
    // With its queue full, a listener answers nobody.
    let full = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None).unwrap();
    full.bind(&SocketAddr::from(([127, 0, 0, 1], 0)).into()).unwrap();
    full.listen(0).unwrap();
    let to = full.local_addr().unwrap().as_socket().unwrap();
    let options = TcpSendOptions { patience: Duration::from_millis(50), ..TcpSendOptions::default() };
    let mut waiting = Vec::new();
    let error = (0..10).find_map(|_| match TcpSender::open(&Endpoint::tcp(to), &options) {
        Ok(sender) => {
            waiting.push(sender);
            None
        }
        Err(error) => Some(error),
    });
    let text = error.unwrap().to_string();
    assert!(
        text.starts_with(&format!("connect tcp://{to}: Connection timed out; hint: no answer: try `ping")),
        "{text}"
    );
}
