//! The suite for pieces over TCP: whatever the stream does, every packet once, every byte accounted for, every end
//! known.

#![allow(clippy::unwrap_used)]
mod bodies;
#[path = "../common/mod.rs"]
mod common;
mod entrance;

use common::*;
use skyhaul_io::tcp::pieces::{
    End, Found, Heads, Piece, PieceEvent, PieceOptions, PieceSink, PieceSource, PieceStats,
};
use std::{
    collections::BTreeMap,
    io::{Read, Write},
    net::{SocketAddr, TcpListener, TcpStream},
    os::fd::OwnedFd,
    time::{Duration, Instant},
};

const TICK: Duration = Duration::from_millis(5);

/// `S`, 4, the head's length in two bytes, the body's in eight.
struct Plain;

impl Heads for Plain {
    fn find(&self, bytes: &[u8]) -> Found {
        let magic = &bytes[..bytes.len().min(2)];
        if *magic != b"S\x04"[..magic.len()] {
            return Found::Garbage;
        }
        let Some(fixed) = bytes.first_chunk::<12>() else { return Found::More };
        let head = usize::from(u16::from_be_bytes([fixed[2], fixed[3]]));
        let body = fixed[4..].iter().fold(0, |n, &b| n << 8 | u64::from(b));
        if head < 12 { Found::Garbage } else { Found::Packet { head, body } }
    }
    fn longest_head(&self) -> usize {
        64
    }
    fn magic(&self) -> &[u8] {
        b"S\x04"
    }
}

fn one(n: u64, head: usize, body: usize) -> Vec<u8> {
    let mut bytes = b"S\x04".to_vec();
    bytes.extend((head as u16).to_be_bytes());
    bytes.extend((body as u64).to_be_bytes());
    bytes.resize(head, 0xEE);
    bytes.extend((0..body as u64).map(|i| ((i / 3) ^ n.wrapping_mul(151)) as u8 | 0x80));
    bytes
}

/// Everything that was told.
#[derive(Default)]
struct Seen {
    packets: BTreeMap<u64, Vec<Vec<u8>>>,
    begun: BTreeMap<u64, Vec<u8>>,
    skipped: Vec<(u64, u64)>,
    opened: Vec<(u64, SocketAddr)>,
    closed: Vec<(u64, End)>,
    refused: Vec<SocketAddr>,
    pieces: usize,
    longest: usize,
}

impl PieceSink for Seen {
    fn event(&mut self, event: PieceEvent<'_>) {
        match event {
            PieceEvent::Opened { connection, sender } => self.opened.push((connection, sender)),
            PieceEvent::Closed { connection, how } => self.closed.push((connection, how)),
            PieceEvent::Skipped { connection, bytes } => self.skipped.push((connection, bytes)),
            PieceEvent::Refused { sender } => self.refused.push(sender),
            PieceEvent::Piece(piece) => {
                self.pieces += 1;
                self.longest = self.longest.max(piece.bytes.len());
                let begun = self.begun.entry(piece.connection).or_default();
                if piece.at == 0 {
                    assert!(begun.is_empty());
                    begun.extend(piece.head);
                }
                assert_eq!(begun.len() as u64, piece.head.len() as u64 + piece.at);
                begun.extend(piece.bytes);
                if piece.is_last() {
                    let whole = std::mem::take(begun);
                    self.packets.entry(piece.connection).or_default().push(whole);
                }
            }
        }
    }
}

impl Seen {
    fn count(&self) -> usize {
        self.packets.values().map(Vec::len).sum()
    }
    fn all(&self) -> Vec<Vec<u8>> {
        self.packets.values().flatten().cloned().collect()
    }
}

fn source(options: &PieceOptions) -> PieceSource {
    PieceSource::open(&"tcp://127.0.0.1:0".parse().unwrap(), Box::new(Plain), options).unwrap()
}

fn until<S: PieceSink>(source: &mut PieceSource, sink: &mut S, done: impl Fn(&S, &PieceStats) -> bool) {
    let mut quiet = Instant::now();
    while !done(sink, &source.stats()) {
        if source.poll(TICK, sink).unwrap() > 0 {
            quiet = Instant::now();
        }
        assert!(quiet.elapsed() < Duration::from_secs(30), "nothing more comes: {:?}", source.stats());
    }
}

fn reset_at_close(stream: &TcpStream) {
    socket2::SockRef::from(stream).set_linger(Some(Duration::ZERO)).unwrap();
}

#[test]
fn a_stream_written_in_two_at_every_byte_arrives_the_same() {
    let packets = [one(0, 12, 0), one(1, 20, 57), one(2, 64, 1), one(3, 12, 150)];
    let stream = packets.concat();
    for whole in [64, 300] {
        let mut source = source(&PieceOptions { whole, ..PieceOptions::default() });
        for at in 0..=stream.len() {
            let mut seen = Seen::default();
            let mut sender = TcpStream::connect(source.local()).unwrap();
            sender.set_nodelay(true).unwrap();
            sender.write_all(&stream[..at]).unwrap();
            let before = source.stats().bytes;
            until(&mut source, &mut seen, |_, stats| stats.bytes >= before + at as u64);
            sender.write_all(&stream[at..]).unwrap();
            drop(sender);
            until(&mut source, &mut seen, |seen, _| !seen.closed.is_empty());
            assert_eq!(seen.all(), packets, "in two at {at}");
            assert_eq!(seen.closed[0].1, End::Orderly);
            assert_eq!(seen.opened[0].0, seen.closed[0].0);
        }
        let stats = source.stats();
        let runs = stream.len() as u64 + 1;
        assert_eq!((stats.bytes, stats.packet_bytes), (runs * stream.len() as u64, stats.bytes));
        assert_eq!((stats.packets, stats.orderly, stats.connections), (runs * 4, runs, runs));
    }
}

#[test]
fn sixty_four_connections_are_each_their_own_stream() {
    let mut source = source(&PieceOptions { whole: 4000, ..PieceOptions::default() });
    let mut senders: Vec<_> = (0..64).map(|_| TcpStream::connect(source.local()).unwrap()).collect();
    let packets = |who: usize| {
        (0..20)
            .map(|n| one(who as u64 * 100 + n, 16, (who * 977 + n as usize * 1231) % 9000))
            .collect::<Vec<_>>()
    };
    let streams: Vec<Vec<u8>> = (0..64).map(|who| packets(who).concat()).collect();
    let longest = streams.iter().map(Vec::len).max().unwrap();
    let mut seen = Seen::default();
    // In crumbs that end anywhere.
    for at in (0..longest).step_by(7777) {
        for (sender, stream) in senders.iter_mut().zip(&streams) {
            sender.write_all(&stream[at.min(stream.len())..(at + 7777).min(stream.len())]).unwrap();
        }
        source.poll(Duration::ZERO, &mut seen).unwrap();
    }
    let addresses: Vec<_> = senders.iter().map(|s| s.local_addr().unwrap()).collect();
    drop(senders);
    until(&mut source, &mut seen, |seen, _| seen.closed.len() == 64);
    for (connection, sender) in &seen.opened {
        let who = addresses.iter().position(|a| a == sender).unwrap();
        assert!(seen.packets[connection] == packets(who), "connection {connection}");
    }
    assert!(seen.closed.iter().all(|(_, how)| *how == End::Orderly));
    assert_eq!(source.connections(), 0);
}

#[test]
fn each_way_to_end_is_told_apart() {
    let mut source = source(&PieceOptions { whole: 100, ..PieceOptions::default() });
    let (short, long) = (one(0, 12, 50), one(1, 12, 5000));
    for (bytes, reset, how) in [
        (&short[..], false, End::Orderly),
        (&short[..20], false, End::MidPacket),
        (&short[..5], false, End::MidPacket),
        (&long[..2000], false, End::MidPacket),
        (&[][..], false, End::Orderly),
        (&short[..], true, End::Reset),
        (&long[..2000], true, End::Reset),
        (&[][..], true, End::Reset),
        (&[7u8; 30][..], false, End::Orderly),
    ] {
        let mut seen = Seen::default();
        let mut sender = TcpStream::connect(source.local()).unwrap();
        sender.write_all(bytes).unwrap();
        let before = source.stats().bytes;
        until(&mut source, &mut seen, |seen, stats| {
            !seen.opened.is_empty() && stats.bytes == before + bytes.len() as u64
        });
        if reset {
            reset_at_close(&sender);
        }
        drop(sender);
        until(&mut source, &mut seen, |seen, _| !seen.closed.is_empty());
        assert_eq!(seen.closed[0].1, how, "{} bytes, reset {reset}", bytes.len());
        assert_eq!(seen.count(), usize::from(bytes.len() == short.len()));
    }
    let stats = source.stats();
    assert_eq!((stats.orderly, stats.mid_packet, stats.resets, stats.timed_out), (3, 3, 3, 0));
    // Two short packets that broke off were told to nobody.
    assert_eq!((stats.skipped, stats.lost, stats.found), (30 + 20 + 5, 1, 0));
    assert_eq!((stats.bytes, stats.pending), (stats.told + stats.skipped, 0));
}

#[test]
fn a_peer_that_is_gone_without_a_word_is_given_up() {
    let Some(pair) = Pair::new(1500) else { return };
    let near = &pair.near;
    let mut source = Pair::inside(near, || {
        let options = PieceOptions { keepalive: Duration::from_secs(1), ..PieceOptions::default() };
        PieceSource::open(&"tcp://10.77.0.1:0".parse().unwrap(), Box::new(Plain), &options).unwrap()
    });
    let local = source.local();
    let mut sender = Pair::inside(&pair.far, || TcpStream::connect(local).unwrap());
    sender.write_all(&one(0, 12, 100)).unwrap();
    let mut seen = Seen::default();
    until(&mut source, &mut seen, |seen, _| seen.count() == 1);
    pair.cut();
    until(&mut source, &mut seen, |seen, _| !seen.closed.is_empty());
    assert_eq!((seen.closed[0].1, source.stats().timed_out, source.connections()), (End::TimedOut, 1, 0));
}

#[test]
fn garbage_before_the_first_packet_costs_only_itself() {
    for strays in 0..=16u64 {
        for filler in [b'S', 4, 0, 0xFF] {
            let mut source = source(&PieceOptions::default());
            let mut sender = TcpStream::connect(source.local()).unwrap();
            let packets = [one(0, 12, 8000), one(1, 12, 200_000), one(2, 12, 10)];
            sender.write_all(&vec![filler; strays as usize]).unwrap();
            sender.write_all(&packets.concat()).unwrap();
            let mut seen = Seen::default();
            // It stays open: nothing waits for an end.
            until(&mut source, &mut seen, |seen, _| seen.count() == 3);
            assert_eq!(seen.all(), packets, "{strays} times {filler}");
            let told: Vec<_> = (strays > 0).then_some((0, strays)).into_iter().collect();
            assert_eq!((seen.skipped, source.stats().skipped), (told, strays));
            assert_eq!(source.stats().bytes, strays + packets.concat().len() as u64);
        }
    }
}

#[test]
fn a_flood_of_garbage_is_counted_and_holds_up_nobody() {
    let noise: Vec<u8> = (0..60_000).map(|i: u32| (i.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
    // Each looks like a head, and none of them is followed by another where its packet would end.
    let heads = one(0, 12, 60_001)[..12].repeat(5000);
    for garbage in [noise, heads] {
        const TIMES: usize = 300;
        let mut source = source(&PieceOptions::default());
        let to = source.local();
        std::thread::scope(|scope| {
            let garbage = &garbage;
            scope.spawn(move || {
                let mut hostile = TcpStream::connect(to).unwrap();
                hostile.write_all(b"?").unwrap();
                (0..TIMES).for_each(|_| hostile.write_all(garbage).unwrap());
                hostile.write_all(&one(9, 12, 100)).unwrap();
            });
            scope.spawn(move || {
                let mut honest = TcpStream::connect(to).unwrap();
                (0..500).for_each(|n| honest.write_all(&one(n, 12, 3000)).unwrap());
            });
            let mut seen = Seen::default();
            until(&mut source, &mut seen, |seen, _| seen.closed.len() == 2);
            assert_eq!(seen.count(), 501);
            let (skipped, flood) = (source.stats().skipped, (1 + TIMES * garbage.len()) as u64);
            assert_eq!((skipped, seen.skipped.iter().map(|s| s.1).sum::<u64>()), (flood, flood));
        });
    }
}

#[test]
fn what_was_wrongly_believed_to_begin_is_given_up_in_silence() {
    let mut source = source(&PieceOptions { belief: Duration::from_millis(20), ..PieceOptions::default() });
    let mut sender = TcpStream::connect(source.local()).unwrap();
    let packets: Vec<_> = (0..3).map(|n| one(n, 12, 100)).collect();
    sender.write_all(b"?").unwrap();
    sender.write_all(&one(7, 12, 60_000)[..12]).unwrap();
    sender.write_all(&packets.concat()).unwrap();
    let mut seen = Seen::default();
    until(&mut source, &mut seen, |seen, _| seen.count() == 3);
    assert_eq!((seen.all(), &seen.skipped[..]), (packets, &[(0, 13)][..]));
}

#[test]
fn the_busy_take_turns_and_the_idle_take_none() {
    let mut source = source(&PieceOptions::default());
    let idle: Vec<_> = (0..200).map(|_| TcpStream::connect(source.local()).unwrap()).collect();
    let busy: Vec<_> = (0..4).map(|_| TcpStream::connect(source.local()).unwrap()).collect();
    let mut seen = Seen::default();
    until(&mut source, &mut seen, |seen, _| seen.opened.len() == 204);
    let stream: Vec<u8> = (0..2000).flat_map(|n| one(n, 12, 1000)).collect();
    for mut sender in &busy {
        sender.set_nonblocking(true).unwrap();
        assert!(sender.write(&stream).unwrap() > 500_000, "less than two reads");
    }
    let before = source.stats().reads;
    until(&mut source, &mut seen, |seen, _| seen.packets.len() == 4);
    let counts: Vec<_> = seen.packets.values().map(Vec::len).collect();
    let reads = source.stats().reads - before;
    assert!(counts.iter().all(|&n| n > 0 && n < 1000), "{reads} reads brought {counts:?} packets");
    drop(idle);
}
