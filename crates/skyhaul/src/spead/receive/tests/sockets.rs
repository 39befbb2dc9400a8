//! Over the sockets and files of this host.

use super::*;
use skyhaul_io::address::Endpoint;
use skyhaul_io::udp::{Tier, UdpOptions};
use std::io::Write;
use std::net::{TcpStream, UdpSocket};

fn any_port() -> Endpoint {
    "udp://127.0.0.1:0".parse().unwrap()
}

#[test]
fn udp_sockets_ours_and_others_feed_one_stream() {
    let stream = Stream::new(&StreamConfig { stop: StopRule::All(2), ..config() });
    let first = stream.add_udp(&any_port(), &UdpOptions::default()).unwrap();
    let made = UdpSocket::bind("127.0.0.1:0").unwrap();
    let second = made.local_addr().unwrap();
    assert_eq!(stream.add_udp_socket(made.into(), &UdpOptions::default()).unwrap(), second);
    let senders = [UdpSocket::bind("127.0.0.1:0").unwrap(), UdpSocket::bind("127.0.0.1:0").unwrap()];
    let mut got = BTreeSet::new();
    for n in 0..50u64 {
        let (sender, to) = if n % 2 == 0 { (&senders[0], first) } else { (&senders[1], second) };
        for packet in packets(n, 5000, 1472) {
            sender.send_to(&packet, to).unwrap();
        }
        let heap = stream.get(LONG).unwrap();
        check(&heap);
        assert_eq!(heap.sender, sender.local_addr().unwrap());
        assert!(heap.complete && got.insert(heap.number));
    }
    senders[0].send_to(b"garbage", first).unwrap();
    senders[0].send_to(&stop_heap(100), first).unwrap();
    senders[1].send_to(&stop_heap(101), second).unwrap();
    assert_eq!(stream.get(LONG).unwrap_err(), GetError::Stopped);
    let stats = stream.stats();
    assert_eq!((stats.total.heaps, stats.total.stops, stats.kernel_drops()), (50, 2, 0));
    assert_eq!(stats.total.rejects.get(Reject::BadMagic), 1);
    let names: Vec<_> = stats.readers.iter().map(|reader| reader.name.clone()).collect();
    assert_eq!(names, [format!("udp://{first}"), format!("udp://{second}")]);
    assert!(stats.readers.iter().all(|reader| reader.ended && reader.source.packets > 0));
    UdpSocket::bind(first).expect("the port is free again");
}

#[test]
fn ipv6_is_received_as_ipv4_is() {
    let Ok(sender) = UdpSocket::bind("[::1]:0") else {
        println!("SKIPPED: no IPv6 on this host (sysctl net.ipv6.conf.lo.disable_ipv6=0)");
        return;
    };
    let stream = Stream::new(&config());
    let to = stream.add_udp(&"udp://[::1]:0".parse().unwrap(), &UdpOptions::default()).unwrap();
    for packet in packets(1, 20_000, 1472) {
        assert_eq!(sender.send_to(&packet, to).unwrap(), packet.len());
    }
    let heap = stream.get(LONG).unwrap();
    check(&heap);
    assert_eq!((heap.sender, heap.complete), (sender.local_addr().unwrap(), true));
}

#[test]
fn what_is_no_udp_socket_is_refused() {
    let stream = Stream::new(&config());
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let error = stream.add_udp_socket(listener.into(), &UdpOptions::default()).unwrap_err();
    assert!(error.to_string().contains("hint: bind it first"), "{error}");
    assert!(stream.add_pcap("/nonexistent".as_ref(), None).is_err());
}

#[test]
fn a_stop_that_is_lost_hangs_nobody() {
    let stream = Stream::new(&StreamConfig { idle_timeout: Some(Duration::from_millis(50)), ..config() });
    let to = stream.add_udp(&any_port(), &UdpOptions::default()).unwrap();
    let sender = UdpSocket::bind("127.0.0.1:0").unwrap();
    sender.send_to(&packets(1, 100, 1472)[0], to).unwrap();
    assert_eq!(all(&stream).len(), 1);
    assert_eq!(stream.ended(), Some(StreamEnd::Idle));
}

#[test]
fn what_a_full_ring_has_no_room_for_is_held_and_the_stop_is_heard() {
    let stream = Stream::new(&StreamConfig { ring: 2, full: Full::Wait, overflow: 8 << 20, ..config() });
    let at: Endpoint = "udp://127.0.0.1:0?rcvbuf=64KiB".parse().unwrap();
    let to = stream.add_udp(&at, &UdpOptions::default()).unwrap();
    let sender = UdpSocket::bind("127.0.0.1:0").unwrap();
    let wait_for = |what: &str, done: &dyn Fn() -> bool| {
        let until = Instant::now() + LONG.unwrap();
        while !done() {
            assert!(Instant::now() < until, "{what}: {:?}", stream.stats().total);
            std::thread::sleep(Duration::from_millis(1));
        }
    };
    let mut sent = 0;
    for n in 0..40 {
        // The socket has room for a heap, and the next comes when that was read: the kernel has nothing to drop, however
        // busy the machine is.
        let heap = packets(n, 30_000, 1472);
        heap.iter().for_each(|packet| assert!(sender.send_to(packet, to).is_ok()));
        sent += heap.len() as u64;
        wait_for("the reader reads on", &|| stream.stats().total.packets == sent);
    }
    sender.send_to(&stop_heap(40), to).unwrap();
    // The user is busy until now: a reader that waited for it had not seen the stop.
    wait_for("the stop is heard", &|| stream.ended().is_some());
    assert_eq!(stream.ended(), Some(StreamEnd::StopItem));
    let came = all(&stream).len();
    let stats = stream.stats();
    assert_eq!((came, stats.missing.known(), stats.kernel_drops()), (40, Some(0), 0));
}

#[test]
fn a_stream_that_has_ended_takes_no_reader() {
    let stream = Stream::new(&config());
    stream.stop();
    let error = stream.add_udp(&any_port(), &UdpOptions::default()).unwrap_err();
    assert!(error.to_string().contains("has ended; hint: "), "{error}");
    assert!(stream.add_bytes(Vec::new()).is_err());
    assert!(stream.stats().readers.is_empty());
}

#[test]
fn heaps_of_which_nothing_came_are_counted() {
    let stream = Stream::new(&config());
    let to = stream.add_udp(&any_port(), &UdpOptions::default()).unwrap();
    let senders = [UdpSocket::bind("127.0.0.1:0").unwrap(), UdpSocket::bind("127.0.0.1:0").unwrap()];
    let mut sent = 0;
    for n in 0..200u64 {
        // Two senders in steps of two, and of one of them every tenth is lost, and one more; of some only a part comes.
        if n % 20 == 6 || n == 101 {
            continue;
        }
        let whole = packets(n, 3000, 1472);
        let some = if n % 50 == 11 { 1 } else { whole.len() };
        whole[..some].iter().for_each(|packet| {
            assert!(senders[(n % 2) as usize].send_to(packet, to).is_ok());
        });
        sent += u64::from(some == whole.len());
        if sent % 20 == 0 {
            std::thread::sleep(Duration::from_millis(2));
        }
    }
    senders[0].send_to(&stop_heap(200), to).unwrap();
    assert_eq!(all(&stream).len() as u64, sent);
    let stats = stream.stats();
    assert_eq!(stats.missing, Missing { heaps: 11, senders: 2, unknown_senders: 0 });
    assert_eq!(stats.named().find(|(name, _)| name == "missing_heaps").unwrap().1, 11);
}

#[test]
fn dropping_the_last_handle_closes_the_sockets() {
    let stream = Stream::new(&config());
    let at = stream.add_udp(&any_port(), &UdpOptions::default()).unwrap();
    let clone = stream.clone();
    drop(stream);
    assert!(UdpSocket::bind(at).is_err());
    drop(clone);
    UdpSocket::bind(at).expect("the port is free again");
}

/// A TCP reader with a connection to it.
fn connected(stream: &Stream, options: &TcpReaderOptions) -> (std::net::SocketAddr, TcpStream) {
    let at = stream.add_tcp(&"tcp://127.0.0.1:0".parse().unwrap(), options).unwrap();
    (at, TcpStream::connect(at).unwrap())
}

/// Close it so that the other side sees a reset.
fn reset(connection: TcpStream) {
    socket2::SockRef::from(&connection).set_linger(Some(Duration::ZERO)).unwrap();
    drop(connection);
}

#[test]
fn tcp_carries_packets_of_any_length_and_whole_heaps() {
    for most in [1472, 65_536, 1 << 24] {
        let stream = Stream::new(&config());
        let (_, mut connection) = connected(&stream, &TcpReaderOptions::default());
        let sizes = [10, 1000, 70_000, 100_000, 3_000_000, 8, 1 << 20];
        let bytes: Vec<u8> =
            (0u64..).zip(sizes).flat_map(|(n, size)| packets(n, size, most).concat()).collect();
        let sent = bytes.len() as u64;
        let sender = std::thread::spawn(move || {
            // In odd pieces, so that heads and bodies are cut anywhere.
            for part in bytes.chunks(77_777) {
                connection.write_all(part).unwrap();
            }
        });
        let heaps = all(&stream);
        sender.join().unwrap();
        assert!(heaps.values().all(|heap| heap.complete) && heaps.len() == sizes.len(), "{most}");
        for (n, size) in (0u64..).zip(sizes) {
            assert_eq!((heaps[&n].payload().len(), heaps[&n].pointers().len()), (size, 2));
        }
        let stats = stream.stats();
        assert_eq!((stats.total.bytes, stats.total.closed_orderly, stats.total.connections), (sent, 1, 1));
        assert_eq!((stats.total.rejects.total(), stats.total.skipped_bytes), (0, 0));
        assert_eq!(stats.ended, Some(StreamEnd::Readers));
    }
}

#[test]
fn many_connections_fill_one_stream_and_the_last_ends_it() {
    let stream = Stream::new(&StreamConfig { key: KeyedBy::SenderAndCounter, ..config() });
    let at = stream
        .add_tcp(
            &"tcp://127.0.0.1:0".parse().unwrap(),
            &TcpReaderOptions { connections: Some(3), ..TcpReaderOptions::default() },
        )
        .unwrap();
    let senders: Vec<_> = (0..3)
        .map(|_| {
            std::thread::spawn(move || {
                let mut connection = TcpStream::connect(at).unwrap();
                for n in 0..20 {
                    connection.write_all(&packets(n, 50_000, 9000).concat()).unwrap();
                }
            })
        })
        .collect();
    let mut by_sender: BTreeMap<_, BTreeSet<u64>> = BTreeMap::new();
    while let Ok(heap) = stream.get(LONG) {
        check(&heap);
        assert!(heap.complete && by_sender.entry(heap.sender).or_default().insert(heap.number));
    }
    senders.into_iter().for_each(|sender| sender.join().unwrap());
    assert_eq!(by_sender.values().map(BTreeSet::len).collect::<Vec<_>>(), [20; 3]);
    assert_eq!((stream.ended(), stream.stats().total.closed_orderly), (Some(StreamEnd::Readers), 3));
}

#[test]
fn d4_a_reset_or_a_close_within_a_heap_ends_the_stream_and_tells_the_heap() {
    for (how, whole) in [("reset", true), ("reset", false), ("close", true), ("close", false)] {
        let stream = Stream::new(&StreamConfig { incomplete: true, ..config() });
        let (_, mut connection) = connected(&stream, &TcpReaderOptions::default());
        connection.write_all(&packets(1, 500, 1472).concat()).unwrap();
        assert!(stream.get(LONG).unwrap().complete);
        let bytes = packets(2, 1_000_000, if whole { 1 << 21 } else { 9000 }).concat();
        connection.write_all(&bytes[..600_000]).unwrap();
        // What is not read yet may be lost by the reset; a packet that is not whole is not told yet.
        while stream.stats().total.bytes < 591_000 {
            std::thread::sleep(Duration::from_millis(1));
        }
        match how {
            "reset" => reset(connection),
            _ => drop(connection),
        }
        let heap = stream.get(LONG).unwrap();
        check(&heap);
        assert_eq!((heap.number, heap.complete, heap.size), (2, false, Some(1_000_000)), "{how} {whole}");
        assert!(heap.received > 580_000 && heap.missing.last().unwrap().end == 1_000_000);
        assert_eq!(stream.get(LONG).unwrap_err(), GetError::Stopped);
        let total = stream.stats().total;
        assert_eq!(total.closed_reset, u64::from(how == "reset"));
        assert_eq!(total.closed_mid_packet, u64::from(how == "close"));
    }
}

#[test]
fn a_whole_heap_that_stalls_is_handed_on_in_time_and_garbage_is_passed_over() {
    let mut config = StreamConfig { incomplete: true, ..config() };
    config.heaps.timeout = Some(skyhaul_core::placement::Nanos(30_000_000));
    let stream = Stream::new(&config);
    let (_, mut connection) =
        connected(&stream, &TcpReaderOptions { end_with_last: false, ..TcpReaderOptions::default() });
    let bytes = packets(3, 500_000, 1 << 20).concat();
    connection.write_all(&bytes[..300_000]).unwrap();
    let heap = stream.get(LONG).unwrap();
    check(&heap);
    assert_eq!((heap.number, heap.cause, heap.complete), (3, Cause::Timeout, false));
    connection.write_all(&bytes[300_000..]).unwrap();
    connection.write_all(b"12345").unwrap();
    connection.write_all(&[packets(4, 100, 1472), packets(5, 100, 1472)].concat().concat()).unwrap();
    assert_eq!(stream.get(LONG).unwrap().number, 4);
    drop(connection);
    assert_eq!(stream.get(LONG).unwrap().number, 5);
    let total = stream.stats().total;
    assert_eq!(total.skipped_bytes, 5);
    assert!(total.rejects.get(Reject::Late) > 0, "{total:?}");
    assert_eq!(
        stream.get(Some(Duration::from_millis(30))).unwrap_err(),
        GetError::Empty,
        "it goes on listening"
    );
}

#[test]
fn the_same_whole_heap_from_two_connections_is_one() {
    let stream = Stream::new(&StreamConfig { incomplete: true, ..config() });
    let (at, mut first) = connected(&stream, &TcpReaderOptions::default());
    let mut second = TcpStream::connect(at).unwrap();
    let bytes = packets(1, 400_000, 1 << 20).concat();
    first.write_all(&bytes[..200_000]).unwrap();
    second.write_all(&bytes[..200_000]).unwrap();
    while stream.stats().total.bytes < 400_000 {
        std::thread::sleep(Duration::from_millis(1));
    }
    first.write_all(&bytes[200_000..]).unwrap();
    assert!(stream.get(LONG).unwrap().complete);
    second.write_all(&bytes[200_000..]).unwrap();
    drop((first, second));
    assert_eq!(stream.get(LONG).unwrap_err(), GetError::Stopped);
    assert_eq!(stream.stats().total.rejects.get(Reject::Duplicate), 1);
}

/// A capture of UDP datagrams from 10.0.0.1, port 7, to these ports.
fn capture(datagrams: &[(u16, Vec<u8>)]) -> Vec<u8> {
    let mut file = Vec::new();
    for field in [0xA1B2_C3D4, 0x0004_0002, 0, 0, 65_535, 101u32] {
        file.extend(field.to_le_bytes());
    }
    for (port, payload) in datagrams {
        let length = (28 + payload.len()) as u16;
        let mut ip = vec![0x45, 0];
        ip.extend(length.to_be_bytes());
        ip.extend([0, 0, 0, 0, 64, 17, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2]);
        let sum: u32 = ip.chunks(2).map(|word| u32::from(word[0]) << 8 | u32::from(word[1])).sum();
        let checksum = !((sum & 0xFFFF) + (sum >> 16)) as u16;
        ip[10..12].copy_from_slice(&checksum.to_be_bytes());
        ip.extend([0, 7]);
        ip.extend(port.to_be_bytes());
        ip.extend((length - 20).to_be_bytes());
        ip.extend([0, 0]);
        ip.extend(payload);
        for field in [1, 0, ip.len() as u32, ip.len() as u32] {
            file.extend(field.to_le_bytes());
        }
        file.extend(ip);
    }
    file
}

#[test]
fn captures_are_read_by_port() {
    let mut datagrams: Vec<(u16, Vec<u8>)> = Vec::new();
    for n in 0..40 {
        datagrams.extend(packets(n, 5000, 1472).into_iter().map(|packet| (7148, packet)));
        datagrams.push((9, packets(1000 + n, 100, 1472).remove(0)));
    }
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("heaps.pcap");
    std::fs::write(&path, capture(&datagrams)).unwrap();
    let stream = Stream::new(&StreamConfig { ring: 3, ..config() });
    stream.add_pcap(&path, Some(7148)).unwrap();
    let heaps = all(&stream);
    assert!(heaps.into_keys().eq(0..40));
    let stats = stream.stats();
    assert_eq!((stats.readers[0].source.tier, stats.total.packets), ("pcap", 160));
}

/// Its thread has run when the reader is added: one that still waited for its first turn, behind others on a busy machine,
/// would read too late what comes at once.
#[test]
fn a_reader_that_was_added_runs() {
    let name = |task: std::io::Result<std::fs::DirEntry>| {
        std::fs::read_to_string(task.ok()?.path().join("comm")).ok()
    };
    for n in 0..50 {
        // The system keeps 15 bytes.
        let stream = Stream::new(&StreamConfig { name: format!("runs-{n}"), ..config() });
        stream.add_udp(&any_port(), &UdpOptions::default()).unwrap();
        let tasks = std::fs::read_dir("/proc/self/task").unwrap();
        let wanted = format!("runs-{n}-0");
        assert!(tasks.filter_map(name).any(|name| name.trim_end() == wanted), "{wanted} has not run yet");
    }
}

#[test]
fn the_kernel_places_the_heaps_of_a_stream() {
    let stream = Stream::new(&StreamConfig { stop: StopRule::Never, ring: 1024, ..config() });
    let options = UdpOptions { tier: Tier::Bpf, ..UdpOptions::default() };
    let to = match stream.add_udp(&any_port(), &options) {
        Err(error) if error.to_string().contains("CAP_BPF") => return eprintln!("SKIPPED: {error}"),
        opened => opened.unwrap(),
    };
    let sender = UdpSocket::bind("127.0.0.1:0").unwrap();
    let (heaps, mut got) = (400u64, BTreeSet::new());
    for n in 1..=heaps {
        for packet in packets(n, 65536, 8192) {
            sender.send_to(&packet, to).unwrap();
        }
        if n % 20 == 0 {
            // Its program is loaded meanwhile; heaps that are kept have memory of the kernel.
            std::thread::sleep(Duration::from_millis(50));
        }
    }
    let kept: Vec<_> = (0..heaps).map(|_| stream.get(LONG).unwrap()).collect();
    stream.stop();
    for heap in &kept {
        check(heap);
        assert!(heap.complete && got.insert(heap.number));
        assert_eq!(heap.sender, sender.local_addr().unwrap());
    }
    let stats = stream.stats();
    let source = &stats.readers[0].source;
    assert_eq!(source.tier, "bpf", "{}", source.because);
    assert_eq!((source.packets, source.socket_drops), (stats.total.packets, 0), "{stats:?}");
    assert_eq!((stats.total.heaps, stats.total.rejects.total()), (heaps, 0), "{stats:?}");
}

#[test]
fn what_the_kernel_does_not_place_is_refused() {
    let options = UdpOptions { tier: Tier::Bpf, ..UdpOptions::default() };
    let stream = Stream::new(&config());
    let refused = stream.add_udp_answering(&any_port(), &options).unwrap_err();
    assert!(refused.to_string().contains("does not place with feedback"), "{refused}");
}
