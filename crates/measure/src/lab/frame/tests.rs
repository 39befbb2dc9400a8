//! Trains divided as the kernel divides them.

use super::*;

/// A train of UDP over IPv4: `count` packets of `each` octets, the last one shorter.
fn udp(count: usize, each: usize) -> Train {
    let payload: Vec<u8> = (0..count * each - 3).map(|i| (i * 7) as u8).collect();
    let mut frame = vec![2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 8, 0];
    let total = 28 + payload.len();
    frame.extend([
        0x45,
        0,
        (total >> 8) as u8,
        total as u8,
        0,
        9,
        0x40,
        0,
        64,
        17,
        0,
        0,
        10,
        77,
        0,
        1,
        10,
        77,
        0,
        2,
    ]);
    check_ipv4(&mut frame, 34);
    let length = 8 + payload.len();
    frame.extend([0x9C, 0x41, 0x13, 0x89, (length >> 8) as u8, length as u8, 0, 0]);
    frame.extend(&payload);
    let pseudo = fold(sum(&frame[26..34]) + 17 + length as u64);
    put(&mut frame, 40, pseudo);
    train(frame, Virtio::UDP, each, 6)
}

/// A train of TCP over IPv6, with FIN, PSH and CWR.
fn tcp6(count: usize, each: usize) -> Train {
    let mut frame = vec![2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 0x86, 0xDD];
    let length = 20 + count * each;
    frame.extend([0x60, 0, 0, 0, (length >> 8) as u8, length as u8, 6, 64]);
    frame.extend([[0xFD; 16], [0xFC; 16]].concat());
    frame.extend([0x14, 0x51, 0x9C, 0x41, 0xFF, 0xFF, 0xFF, 0, 0, 0, 0, 1, 0x50, 0x99, 0x10, 0, 0, 0, 0, 0]);
    frame.extend((0..count * each).map(|i| (i * 5) as u8));
    let pseudo = fold(sum(&frame[22..54]) + 6 + length as u64);
    put(&mut frame, 54 + 16, pseudo);
    train(frame, Virtio::TCP6, each, 16)
}

fn train(octets: Vec<u8>, kind: u8, each: usize, offset: u16) -> Train {
    let shape = read(&octets).unwrap();
    let mut virtio = Virtio::read(&[1, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
    (virtio.kind, virtio.each, virtio.offset) = (kind, each as u16, offset);
    (virtio.headers, virtio.begin) = (shape.payload as u16, shape.transport as u16);
    Train { octets, virtio, shape: Some(shape) }
}

/// The checksum of a finished packet, over its pseudo header: 0xFFFF if it is right.
fn verified(octets: &[u8]) -> u16 {
    let frame = &octets[VIRTIO..];
    let shape = read(frame).unwrap();
    let addresses = if shape.v6 { &frame[22..54] } else { &frame[26..34] };
    let rest = &frame[shape.transport..];
    fold(sum(addresses) + u64::from(shape.flow.protocol) + rest.len() as u64 + sum(rest))
}

#[test]
fn a_frame_is_read_and_what_is_no_packet_is_not() {
    let train = udp(3, 100);
    let shape = train.shape.unwrap();
    assert_eq!((shape.transport, shape.payload), (34, 42));
    assert_eq!((shape.flow.protocol, shape.flow.from_port, shape.flow.to_port), (17, 40_001, 5001));
    assert_eq!(shape.flow.to, IpAddr::from([10, 77, 0, 2]));
    let mut arp = train.octets.clone();
    arp[13] = 6;
    assert_eq!(read(&arp), None);
    for cut in 0..train.octets.len() {
        let _ = read(&train.octets[..cut]);
    }
    assert_eq!(tcp6(2, 50).shape.unwrap().flow.protocol, 6);
}

#[test]
fn packets_of_a_train_are_counted_with_their_headers() {
    let train = udp(3, 100);
    assert_eq!(train.packets(), 3);
    let octets: Vec<u32> = (0..3).map(|at| train.packet(at, 5).unwrap().octets).collect();
    assert_eq!(octets, [142, 142, 139]);
    let first = train.packet(0, 5).unwrap();
    assert_eq!((first.ip, first.at, train.head_of(1)[..2].to_vec()), (128, 5, vec![188, 195]));
    let single = Train { virtio: train.virtio.single(), ..udp(1, 100) };
    assert_eq!((single.packets(), single.packet(0, 0).unwrap().octets), (1, 139));
}

#[test]
fn a_whole_train_passes_as_it_is() {
    let train = udp(4, 100);
    let mut head = Vec::new();
    let piece = train.piece(&(0..4), 0, &mut head);
    assert_eq!((piece.head, piece.payload), (&train.virtio.octets()[..], &train.octets[..]));
}

#[test]
fn each_packet_has_right_lengths_numbers_and_checksums() {
    for train in [udp(5, 200), tcp6(5, 200)] {
        let shape = train.shape.unwrap();
        let mut payload: Vec<u8> = Vec::new();
        for at in 0..train.packets() {
            let octets = train.finished(at, 0);
            assert_eq!(verified(&octets), 0xFFFF, "packet {at}");
            let frame = &octets[VIRTIO..];
            payload.extend(&frame[shape.payload..]);
            if shape.v6 {
                let sequence = u32::from_be_bytes(*frame[58..].first_chunk().unwrap());
                assert_eq!(sequence, 0xFFFF_FF00u32.wrapping_add(200 * at as u32));
                let flags = frame[67];
                assert_eq!((flags & 0x80 != 0, flags & 0x09), (at == 0, if at == 4 { 0x09 } else { 0 }));
            } else {
                assert_eq!((half(frame, 18), fold(sum(&frame[14..34]))), (9 + at as u16, 0xFFFF));
                assert_eq!(usize::from(half(frame, 16)), frame.len() - 14);
            }
        }
        assert_eq!(payload, train.octets[shape.payload..], "no octet is lost");
    }
}

#[test]
fn a_part_of_a_train_is_a_shorter_train() {
    let train = tcp6(6, 100);
    let mut head = Vec::new();
    let piece = train.piece(&(2..5), 0, &mut head);
    let octets = [&piece.head[VIRTIO..], piece.payload].concat();
    let virtio = Virtio::read(piece.head.first_chunk().unwrap());
    let part = Train { shape: read(&octets), octets, virtio };
    assert_eq!(part.packets(), 3);
    for at in 0..3 {
        let (one, same) = (part.finished(at, 0), train.finished(2 + at, 0));
        assert_eq!(one, same, "packet {at}");
    }
}

#[test]
fn routers_are_taken_from_the_time_to_live() {
    let train = udp(2, 100);
    let octets = train.finished(1, 3);
    assert_eq!((octets[VIRTIO + 22], fold(sum(&octets[VIRTIO + 14..VIRTIO + 34]))), (61, 0xFFFF));
    assert_eq!(train.finished(1, 200)[VIRTIO + 22], 1, "it never ends here");
    assert_eq!(tcp6(2, 100).finished(0, 4)[VIRTIO + 21], 60);
    let mut head = Vec::new();
    let whole = train.piece(&(0..2), 1, &mut head);
    assert_eq!((whole.head[VIRTIO + 22], whole.payload.len()), (63, 197));
}
