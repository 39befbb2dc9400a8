//! Heaps over sockets and queues, to receivers that are real.

use super::*;

#[test]
fn over_udp_every_packet_arrives() {
    let mut source = UdpSource::open(&"udp://127.0.0.1:0".parse().unwrap(), &UdpOptions::default()).unwrap();
    let to = format!("udp://{}", source.local()).parse().unwrap();
    let stream = Stream::new(Outlet::udp(&[to], &SendOptions::default()).unwrap(), packet(1472)).unwrap();
    let mut got: BTreeMap<u64, Vec<u8>> = BTreeMap::new();
    let mut sent = 0;
    for round in 0..10u64 {
        let counters = 1 + round * 20..21 + round * 20;
        let all: Vec<Heap> = counters
            .clone()
            .map(|n| Heap::pattern(flavour(48), 0x1600, n, n % 7 * 1000 + 96).unwrap())
            .collect();
        let refs: Vec<(&Heap, HeapOptions)> = all.iter().map(|h| (h, HeapOptions::default())).collect();
        sent +=
            stream.send_all(&refs, if round % 2 == 0 { Order::Serial } else { Order::RoundRobin }).unwrap();
        while got.len() < 20 * (round as usize + 1)
            || got.values().map(Vec::len).sum::<usize>() as u64 != stream.stats().payload_bytes
        {
            let arrived = source.poll(Duration::from_secs(5), &mut |train| {
                for packet in train.packets() {
                    let head = Head::read(packet).unwrap();
                    let heap = got.entry(head.counter).or_default();
                    assert_eq!(heap.len() as u64, head.offset);
                    heap.extend(&packet[head.start..]);
                }
            });
            assert!(arrived.unwrap() > 0, "lost on the loopback");
        }
    }
    assert!(got.iter().all(|(&n, bytes)| pattern::first_error(n, 0, bytes).is_none()));
    assert_eq!((source.stats().packets, source.stats().bytes), (stream.stats().packets, sent));
}

#[test]
fn nobody_listening_is_counted_and_too_long_is_explained() {
    let gone = std::net::UdpSocket::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let to = [format!("udp://{gone}").parse().unwrap()];
    let stream = Stream::new(Outlet::udp(&to, &SendOptions::default()).unwrap(), packet(1472)).unwrap();
    for _ in 0..10 {
        stream.send(&Heap::new(flavour(48)), &HeapOptions::default()).unwrap();
    }
    assert!(stream.stats().unreachable > 0);
    let config = SendConfig { packet: PacketSize::Payload(65_500), ..packet(0) };
    let stream = Stream::new(Outlet::udp(&to, &SendOptions::default()).unwrap(), config).unwrap();
    let heap = Heap::pattern(flavour(48), 0x1600, 1, 70_000).unwrap();
    let said = stream.send(&heap, &HeapOptions::default()).unwrap_err().to_string();
    assert!(said.contains(&gone.to_string()) && said.contains("hint: packets exceed the MTU"), "{said}");
    for (size, hint) in [
        (PacketSize::Packet(48), "at least 56"),
        (PacketSize::Packet(70_000), "at most 65507"),
        (PacketSize::Heap, "tcp://"),
    ] {
        let outlet = Outlet::udp(&to, &SendOptions::default()).unwrap();
        let error = Stream::new(outlet, SendConfig { packet: size, ..SendConfig::default() }).unwrap_err();
        assert!(error.to_string().contains(hint), "{error}");
    }
    assert!(Stream::new(Outlet::Udp(vec![]), SendConfig::default()).is_err());
}

#[test]
fn tcp_carries_packets_and_whole_heaps() {
    use std::io::Read;
    for size in [PacketSize::Packet(8972), PacketSize::Heap] {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let to = format!("tcp://{}", listener.local_addr().unwrap()).parse().unwrap();
        let reads = std::thread::spawn(move || {
            let mut bytes = Vec::new();
            listener.accept().unwrap().0.read_to_end(&mut bytes).unwrap();
            bytes
        });
        let outlet = Outlet::tcp(&to, &TcpSendOptions::default()).unwrap();
        let stream = Stream::new(outlet, SendConfig { packet: size, ..packet(0) }).unwrap();
        let (items, all) = chunked(&[3, 100_000, 5, 5, 5, 2000]);
        let heap = Arc::new(Heap::pattern(flavour(48), 0x1600, 1, 20_000_000).unwrap());
        let mut sent = stream
            .queue(vec![(heap, HeapOptions::default())], Order::Serial)
            .unwrap()
            .wait(None)
            .unwrap()
            .unwrap();
        sent += stream.send(&items, &HeapOptions::default()).unwrap();
        stream.close(None).unwrap();
        let bytes = reads.join().unwrap();
        assert_eq!(bytes.len() as u64, sent);
        let got = heaps(&bytes);
        assert_eq!(pattern::first_error(1, 0, &got[&1]), None);
        assert_eq!((got[&1].len(), &got[&2]), (20_000_000, &all));
    }
}

#[test]
fn a_peer_that_reads_nothing_is_left_on_cancel() {
    for size in [PacketSize::Packet(8972), PacketSize::Heap] {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let to = format!("tcp://{}", listener.local_addr().unwrap()).parse().unwrap();
        let outlet = Outlet::tcp(&to, &TcpSendOptions::default()).unwrap();
        let stream = Stream::new(outlet, SendConfig { packet: size, ..packet(0) }).unwrap();
        let silent = listener.accept().unwrap();
        let heap = Arc::new(Heap::pattern(flavour(48), 0x1600, 1, 64_000_000).unwrap());
        let ticket = stream.queue(vec![(heap.clone(), HeapOptions::default()); 4], Order::Serial).unwrap();
        assert!(!stream.flush(Some(Duration::from_millis(50))));
        stream.cancel();
        assert!(matches!(ticket.wait(None).unwrap(), Err(SendError::Cancelled)));
        let error = stream.send(&heap, &HeapOptions::default()).unwrap_err();
        assert!(error.to_string().contains("hint: "), "{error}");
        drop(silent);
        assert!(stream.close(Some(Duration::ZERO)).is_ok(), "nothing is left to be sent");
    }
}

#[test]
fn a_descriptor_is_an_item() {
    use skyhaul_core::wire::spead::descriptor::{BugCompat, Descriptor};
    let descriptor =
        Descriptor { id: 0x1000, name: "x".into(), format: vec![('u', 8)], ..Descriptor::default() };
    let mut heap = Heap::new(flavour(48));
    heap.add_descriptor(&descriptor, BugCompat::default()).unwrap();
    let (stream, bytes) = to_bytes(packet(1472));
    stream.send(&heap, &HeapOptions::default()).unwrap();
    let got = &heaps(&bytes.lock().unwrap())[&1];
    assert_eq!(Descriptor::read(got, BugCompat::default()).unwrap(), descriptor);
}

/// Send heaps of many lengths to a receiving stream, and get each of them whole.
fn to_receiver(receiver: &receive::Stream, stream: &Stream) {
    let lengths = [0u64, 1, 255, 4096, 5000, 70_000, 1_000_000];
    let heap = |n: u64| {
        let mut heap = Heap::pattern(flavour(48), 0x1600, n, lengths[n as usize % lengths.len()]).unwrap();
        heap.add_immediate(0x1700, n).unwrap();
        heap.set_repeat_pointers(n.is_multiple_of(2));
        heap
    };
    for first in (1..50).step_by(7) {
        let all: Vec<Heap> = (first..first + 7).map(heap).collect();
        let refs: Vec<(&Heap, HeapOptions)> = all.iter().map(|h| (h, HeapOptions::default())).collect();
        stream.send_all(&refs, if first % 2 == 0 { Order::Serial } else { Order::RoundRobin }).unwrap();
        let mut got: Vec<u64> = (0..7)
            .map(|_| {
                let heap = receiver.get(Some(Duration::from_secs(10))).unwrap();
                let bytes = lengths[heap.number as usize % lengths.len()] as usize;
                let items = heap.items();
                let item = items.iter().find(|item| item.id == 0x1600);
                let payload = item.map_or(&[][..], |item| heap.item_bytes(item));
                assert_eq!(payload.len(), bytes, "heap {}", heap.number);
                assert_eq!(pattern::first_error(heap.number, 0, payload), None);
                assert_eq!(heap.immediate(0x1700), Some(heap.number));
                heap.number
            })
            .collect();
        got.sort_unstable();
        assert_eq!(got, (first..first + 7).collect::<Vec<_>>());
    }
    let mut end = Heap::new(flavour(48));
    end.add_end();
    stream.send(&end, &HeapOptions::default()).unwrap();
    assert_eq!(receiver.get(Some(Duration::from_secs(10))).unwrap_err(), receive::GetError::Stopped);
}

#[test]
fn a_receiving_stream_gets_every_heap_whole() {
    let receiver = || receive::Stream::new(&receive::StreamConfig::default());
    let all = receiver();
    let at = all.add_udp(&"udp://127.0.0.1:0".parse().unwrap(), &UdpOptions::default()).unwrap();
    let to = [format!("udp://{at}").parse().unwrap()];
    for config in [packet(1472), full(8972), SendConfig { packet: PacketSize::Payload(4096), ..packet(0) }] {
        let queue = InprocQueue::default();
        let own = receiver();
        own.add_inproc(queue.clone()).unwrap();
        to_receiver(&own, &Stream::new(Outlet::Inproc(vec![queue]), config).unwrap());
    }
    to_receiver(
        &all,
        &Stream::new(Outlet::udp(&to, &SendOptions::default()).unwrap(), packet(1472)).unwrap(),
    );
    for size in [PacketSize::Packet(8972), PacketSize::Heap] {
        let own = receiver();
        let options = receive::TcpReaderOptions::default();
        let at = own.add_tcp(&"tcp://127.0.0.1:0".parse().unwrap(), &options).unwrap();
        let outlet =
            Outlet::tcp(&format!("tcp://{at}").parse().unwrap(), &TcpSendOptions::default()).unwrap();
        to_receiver(&own, &Stream::new(outlet, SendConfig { packet: size, ..packet(0) }).unwrap());
    }
}
