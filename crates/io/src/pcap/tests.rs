use super::*;
use crate::frame::tests::{ipv4_packet, ipv6_packet};
use proptest::prelude::*;

fn classic(magic: u32, link: u32, packets: &[&[u8]]) -> Vec<u8> {
    let mut file = [magic, 0x0004_0002, 0, 0, 65_535, link].map(u32::to_le_bytes).concat();
    for (n, packet) in packets.iter().enumerate() {
        let length = packet.len() as u32;
        file.extend([7, n as u32 + 5, length, length].map(u32::to_le_bytes).concat());
        file.extend(*packet);
    }
    file
}

fn ng_block(kind: u32, body: &[u8]) -> Vec<u8> {
    let length = (12 + body.len().next_multiple_of(4)) as u32;
    let mut block = [kind.to_le_bytes(), length.to_le_bytes()].concat();
    block.extend(body);
    block.resize(length as usize - 4, 0);
    block.extend(length.to_le_bytes());
    block
}

/// One section, an interface with nanosecond stamps and one of raw IP, a packet of each.
fn next_generation(packet: &[u8]) -> Vec<u8> {
    let mut file =
        ng_block(0x0A0D_0D0A, &[0x4D, 0x3C, 0x2B, 0x1A, 1, 0, 0, 0, 255, 255, 255, 255, 255, 255, 255, 255]);
    file.extend(ng_block(1, &[101, 0, 0, 0, 255, 255, 0, 0, 9, 0, 1, 0, 9, 0, 0, 0, 0, 0, 0, 0]));
    let ticks = 7_000_000_005u64;
    let length = packet.len() as u32;
    let head = [0, (ticks >> 32) as u32, ticks as u32, length, length].map(u32::to_le_bytes).concat();
    file.extend(ng_block(6, &[head, packet.to_vec()].concat()));
    file.extend(ng_block(3, &[length.to_le_bytes().to_vec(), packet.to_vec()].concat()));
    file.extend(ng_block(5, &[0; 12]));
    file
}

type Read = Vec<(Option<u64>, Vec<u8>)>;

fn read(file: Vec<u8>, port: Option<u16>) -> (Read, SourceStats, Option<String>) {
    read_all(PcapSource::new(io::Cursor::new(file), "test".as_ref(), port).unwrap())
}

fn read_all(mut source: PcapSource) -> (Read, SourceStats, Option<String>) {
    let (mut got, mut error) = (Vec::new(), None);
    while !source.is_finished() {
        let mut here = 0;
        match source.poll(Duration::ZERO, &mut |t| {
            here += 1;
            got.push((t.time.map(|t| t.0), t.bytes.to_vec()));
        }) {
            Ok(n) => assert_eq!(n, here),
            Err(e) => error = Some(e.to_string()),
        }
    }
    assert_eq!(source.stats().packets, got.len() as u64);
    (got, source.stats(), error)
}

#[test]
fn every_link_and_both_formats_give_the_same_payload() {
    let (v4, v6) = (ipv4_packet(&[], (1, 2630), b"payload"), ipv6_packet(None, (1, 2630), b"payload"));
    let behind = |head: &[u8], ip: &[u8]| [head, ip].concat();
    let mac = [0u8; 12];
    for (link, packet) in [
        (1, behind(&[&mac[..], &[8, 0]].concat(), &v4)),
        (1, behind(&[&mac[..], &[0x86, 0xDD]].concat(), &v6)),
        (1, behind(&[&mac[..], &[0x88, 0xA8, 0, 5, 0x81, 0, 0, 6, 8, 0]].concat(), &v4)),
        (101, v4.clone()),
        (12, v6.clone()),
        (113, behind(&[0, 0, 0, 1, 0, 6, 0, 0, 0, 0, 0, 0, 0, 0, 8, 0], &v4)),
        (276, behind(&[&[8, 0][..], &[0; 18]].concat(), &v4)),
        (0, behind(&[2, 0, 0, 0], &v4)),
        (228, v4.clone()),
    ] {
        let file = classic(0xA1B2_C3D4, link, &[&packet]);
        assert_eq!(read(file, Some(2630)).0, [(Some(7_000_005_000), b"payload".to_vec())], "link {link}");
        let file = classic(0xA1B2_3C4D, link, &[&packet]);
        assert_eq!(read(file, None).0, [(Some(7_000_000_005), b"payload".to_vec())], "link {link}");
    }
    let (got, _, error) = read(next_generation(&v4), Some(2630));
    assert_eq!(got, [(Some(7_000_000_005), b"payload".to_vec()), (None, b"payload".to_vec())]);
    assert_eq!(error, None);
}

#[test]
fn what_is_not_wanted_or_not_whole_is_counted_apart() {
    let good = ipv4_packet(&[], (1, 2630), &[1; 100]);
    let mut fragment = good.clone();
    fragment[6] = 0x20;
    fragment[10] = fragment[10].wrapping_sub(0x20).wrapping_add(0x40);
    let mut broken = good.clone();
    broken[12] ^= 0xFF;
    let arp = [1u8; 40];
    let mut file =
        classic(0xA1B2_C3D4, 101, &[&good, &ipv4_packet(&[], (1, 9), b"x"), &broken, &arp, &fragment]);
    // Cut by the capture's snap length.
    file.extend([7, 5, 60, good.len() as u32].map(u32::to_le_bytes).concat());
    file.extend(&good[..60]);
    let (got, stats, error) = read(file.clone(), Some(2630));
    assert_eq!((got.len(), stats.malformed, stats.truncated, stats.fragments), (1, 1, 1, 1), "{stats:?}");
    assert_eq!((error, stats.cut_short), (None, 0));
    file.pop();
    let (_, stats, error) = read(file, None);
    assert_eq!(stats.cut_short, 1);
    let error = error.unwrap();
    assert!(error.starts_with("read test: the file ends within a record at byte "), "{error}");
}

#[test]
fn trains_are_cut_where_they_are_asked_for() {
    let spead = |payload: &[u8]| {
        let mut packet = b"\x53\x04\x02\x06\0\0\0\x03".to_vec();
        for (id, value) in [(1u64, 7u64), (3, 0), (4, payload.len() as u64)] {
            packet.extend((1 << 63 | id << 48 | value).to_be_bytes());
        }
        [&packet, payload].concat()
    };
    let packets = [spead(b"one"), spead(b"two"), spead(b"3")];
    let train = ipv4_packet(&[], (1, 2630), &packets.concat());
    let ragged = ipv4_packet(&[], (1, 2630), &[&packets.concat()[..], b"x"].concat());
    let file = classic(0xA1B2_C3D4, 101, &[&train, &ipv4_packet(&[], (1, 2630), &packets[0]), &ragged]);
    let open = || PcapSource::new(io::Cursor::new(file.clone()), "test".as_ref(), None).unwrap();
    let (got, stats, _) = read_all(open().cut(wire::Format::Auto.packet_end().unwrap()));
    let got: Vec<_> = got.into_iter().map(|(_, packet)| packet).collect();
    assert_eq!(got[..4], [&packets[..], &packets[..1]].concat());
    // What is no train to its end stays as it is, for the parser to refuse.
    assert_eq!((got.len(), got[4].len(), stats.cut_trains), (5, packets.concat().len() + 1, 1));
    let (got, stats, _) = read_all(open());
    assert_eq!((got.len(), stats.cut_trains), (3, 0));
}

#[test]
fn records_longer_than_the_buffer_are_read_and_endless_ones_refused() {
    let long = vec![0x45; 3 << 20];
    let good = ipv4_packet(&[], (1, 2), b"after");
    let (got, _, error) = read(classic(0xA1B2_C3D4, 101, &[&long, &good]), None);
    assert_eq!((got.len(), error), (1, None));
    let mut file = classic(0xA1B2_C3D4, 101, &[]);
    file.extend([0, 0, u32::MAX - 16, 0].map(u32::to_le_bytes).concat());
    file.extend(vec![0; 20 << 20]);
    assert!(read(file, None).2.is_some());
}

#[test]
fn what_is_no_capture_says_so() {
    let Err(error) = PcapSource::new(io::Cursor::new(vec![1; 100]), "x".as_ref(), None) else {
        panic!("read")
    };
    assert!(error.to_string().contains("hint: give a pcap or pcapng file"), "{error}");
    let Err(error) = PcapSource::open("/nonexistent".as_ref(), None) else { panic!("read") };
    assert!(
        error.to_string().starts_with("open /nonexistent: No such file or directory; hint: check the name")
    );
    let Err(error) = PcapSource::open("/".as_ref(), None) else { panic!("read") };
    assert!(error.to_string().contains("hint: this is a directory"), "{error}");
    let Err(error) = PcapSource::new(io::Cursor::new(vec![]), "x".as_ref(), None) else { panic!("read") };
    assert!(error.to_string().contains("too short for a capture; hint: give a pcap"), "{error}");
}

proptest! {
    #[test]
    fn damaged_captures_end_without_panic(at in 24usize..200, to: u8, ng: bool) {
        let packet = ipv4_packet(&[1; 8], (1, 2), b"some payload");
        let mut file = if ng { next_generation(&packet) } else { classic(0xA1B2_C3D4, 101, &[&packet, &packet]) };
        if let Some(byte) = file.get_mut(at) {
            *byte = to;
        }
        read(file, None);
    }
}
