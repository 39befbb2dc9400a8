//! The suite for pieces over TCP: whatever the stream does, every packet once, every byte accounted for, every end
//! known.

#![allow(clippy::unwrap_used)]
mod common;
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
    assert!(run(&format!("ip -n {} link set vb down", pair.far)));
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

/// Takes long bodies in its own memory.
struct Slots {
    seen: Seen,
    /// The body under way.
    slot: Vec<u8>,
    head: Vec<u8>,
    at: u64,
    rooms: usize,
    fills: usize,
    most: usize,
}

impl PieceSink for Slots {
    fn event(&mut self, event: PieceEvent<'_>) {
        match event {
            PieceEvent::Piece(piece) if piece.body > 100_000 => {
                // The beginning of a body comes with what was read before its head was known.
                let begin = piece.at as usize;
                self.slot.resize(piece.body as usize, 0);
                self.slot[begin..begin + piece.bytes.len()].copy_from_slice(piece.bytes);
                self.head = piece.head.to_vec();
                self.close(piece.at + piece.bytes.len() as u64);
            }
            other => self.seen.event(other),
        }
    }
    fn room(&mut self, _: u64, head: &[u8], at: u64, most: usize) -> Option<&mut [u8]> {
        assert_eq!(head, self.head);
        assert_eq!(self.rooms, self.fills, "one at a time");
        self.rooms += 1;
        self.at = at;
        let end = (at as usize).saturating_add(most.min(self.most)).min(self.slot.len());
        Some(&mut self.slot[at as usize..end])
    }
    fn filled(&mut self, _: u64, bytes: usize) {
        self.fills += 1;
        self.close(self.at + bytes as u64);
    }
}

impl Slots {
    fn new(most: usize) -> Self {
        Self { seen: Seen::default(), slot: Vec::new(), head: Vec::new(), at: 0, rooms: 0, fills: 0, most }
    }
    fn close(&mut self, at: u64) {
        if at == self.slot.len() as u64 {
            let whole = [&self.head[..], &self.slot].concat();
            self.seen.packets.entry(0).or_default().push(whole);
            self.slot.clear();
        }
    }
}

#[test]
fn heaps_of_64_mib_are_never_held_and_may_be_read_straight_into_their_place() {
    let packets = [one(0, 40, 64 << 20), one(1, 12, 1000), one(2, 40, 5 << 20), one(3, 40, 64 << 20)];
    let send = |to| {
        let mut sender = TcpStream::connect(to).unwrap();
        packets.iter().for_each(|p| sender.write_all(p).unwrap());
    };
    let options = PieceOptions { accept: Some(1), ..PieceOptions::default() };
    let mut told = source(&options);
    let to = told.local();
    std::thread::scope(|scope| {
        scope.spawn(|| send(to));
        let mut seen = Seen::default();
        until(&mut told, &mut seen, |seen, _| !seen.closed.is_empty());
        assert!(seen.all() == packets, "told in pieces");
        assert!(seen.longest <= 512 << 10, "a piece of {} bytes", seen.longest);
    });
    for most in [usize::MAX, 100_000] {
        let mut direct = source(&options);
        let to = direct.local();
        std::thread::scope(|scope| {
            scope.spawn(|| send(to));
            let mut slots = Slots::new(most);
            until(&mut direct, &mut slots, |slots, _| !slots.seen.closed.is_empty());
            assert!(slots.seen.all() == packets, "read straight, at most {most} at a time");
            assert!(slots.rooms > 100 && slots.rooms == slots.fills);
        });
        let (stats, bytes) = (direct.stats(), packets.concat().len() as u64);
        assert_eq!((stats.packets, stats.bytes, stats.packet_bytes), (4, bytes, bytes));
        assert!(direct.is_finished());
    }
}

#[test]
fn what_a_stalled_sender_has_sent_of_a_long_body_is_told() {
    let mut source = source(&PieceOptions::default());
    let mut sender = TcpStream::connect(source.local()).unwrap();
    let long = one(0, 12, 1 << 20);
    let mut seen = Seen::default();
    for (from, to) in [(0, 300_001), (300_001, 300_002), (300_002, 1_000_000), (1_000_000, long.len())] {
        sender.write_all(&long[from..to]).unwrap();
        until(&mut source, &mut seen, |_, stats| stats.bytes == to as u64);
    }
    assert!(seen.all() == [long]);
}

#[test]
fn after_the_connections_asked_for_the_listener_is_gone() {
    let mut source = source(&PieceOptions { accept: Some(2), ..PieceOptions::default() });
    let to = source.local();
    let mut first = TcpStream::connect(to).unwrap();
    first.write_all(&one(0, 12, 100)).unwrap();
    let mut seen = Seen::default();
    until(&mut source, &mut seen, |seen, _| seen.count() == 1);
    drop(first);
    until(&mut source, &mut seen, |seen, _| seen.closed.len() == 1);
    assert!(!source.is_finished());
    let mut second = TcpStream::connect(to).unwrap();
    second.write_all(&one(1, 12, 100)).unwrap();
    until(&mut source, &mut seen, |seen, _| seen.count() == 2);
    assert!(TcpStream::connect(to).is_err(), "nobody listens any more");
    drop(second);
    until(&mut source, &mut seen, |seen, _| seen.closed.len() == 2);
    assert!(source.is_finished());
    assert_eq!(source.poll(Duration::ZERO, &mut seen).unwrap(), 0);
    let none = self::source(&PieceOptions { accept: Some(0), ..PieceOptions::default() });
    assert!(none.is_finished() && TcpStream::connect(none.local()).is_err(), "nobody is to be accepted");
}

#[test]
fn connections_beyond_the_limit_are_closed_at_once_and_counted() {
    let mut source = source(&PieceOptions { connections: 3, accept: Some(4), ..PieceOptions::default() });
    let to = source.local();
    let mut seen = Seen::default();
    let mut inside: Vec<_> = (0..3).map(|_| TcpStream::connect(to).unwrap()).collect();
    until(&mut source, &mut seen, |seen, _| seen.opened.len() == 3);
    let mut beyond: Vec<_> = (0..100).map(|_| TcpStream::connect(to).unwrap()).collect();
    until(&mut source, &mut seen, |seen, _| seen.refused.len() == 100);
    for stream in &mut beyond {
        stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        assert!(matches!(stream.read(&mut [0]), Ok(0) | Err(_)), "it is closed");
        assert!(seen.refused.contains(&stream.local_addr().unwrap()));
    }
    let stats = source.stats();
    assert_eq!((stats.refused, stats.connections, stats.remedies.len()), (100, 3, 1));
    assert!(stats.remedies[0].contains("more than 3 connections at a time; hint: "), "{stats:?}");
    // Those inside are served, and where one of them goes there is room again.
    inside[1].write_all(&one(1, 12, 100)).unwrap();
    drop(inside.remove(0));
    until(&mut source, &mut seen, |seen, _| seen.count() == 1 && seen.closed.len() == 1);
    let mut late = TcpStream::connect(to).unwrap();
    late.write_all(&one(2, 12, 100)).unwrap();
    until(&mut source, &mut seen, |seen, _| seen.count() == 2);
    assert!(TcpStream::connect(to).is_err(), "refused ones are not among those asked for");
}

#[test]
fn sockets_made_elsewhere_are_taken() {
    let options = PieceOptions::default();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let to = listener.local_addr().unwrap();
    let connect = || {
        let near = TcpStream::connect(to).unwrap();
        (near, listener.accept().unwrap().0)
    };
    let check = |mut source: PieceSource, mut sender: TcpStream, what: &str| {
        sender.write_all(&one(5, 12, 3000)).unwrap();
        let mut seen = Seen::default();
        until(&mut source, &mut seen, |seen, _| seen.count() == 1);
        assert_eq!(seen.opened, [(0, sender.local_addr().unwrap())], "{what}");
        drop(sender);
        until(&mut source, &mut seen, |seen, _| seen.closed == [(0, End::Orderly)]);
        source
    };
    let (near, far) = connect();
    assert!(
        check(PieceSource::from_stream(far, Box::new(Plain), &options).unwrap(), near, "stream")
            .is_finished()
    );
    let (near, far) = connect();
    let source = PieceSource::from_fd(OwnedFd::from(far), Box::new(Plain), &options).unwrap();
    assert!(check(source, near, "stream by descriptor").is_finished());
    let copy = listener.try_clone().unwrap();
    let source = PieceSource::from_fd(OwnedFd::from(copy), Box::new(Plain), &options).unwrap();
    assert_eq!(source.local(), to);
    let near = TcpStream::connect(to).unwrap();
    assert!(!check(source, near, "listener by descriptor").is_finished());
    let near = TcpStream::connect(to).unwrap();
    check(PieceSource::from_listener(listener, Box::new(Plain), &options).unwrap(), near, "listener");
    assert!(
        PieceSource::from_fd(std::fs::File::open("/dev/null").unwrap().into(), Box::new(Plain), &options)
            .is_err()
    );
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

#[test]
fn only_the_sender_asked_for_is_let_in() {
    let at = "tcp://127.0.0.1:0?source=127.0.0.9".parse().unwrap();
    let mut source = PieceSource::open(&at, Box::new(Plain), &PieceOptions::default()).unwrap();
    let _wrong = TcpStream::connect(source.local()).unwrap();
    let mut seen = Seen::default();
    until(&mut source, &mut seen, |_, stats| stats.refused == 1);
    assert!(seen.opened.is_empty() && source.connections() == 0);
    assert!(source.describe().contains("listening, 0 connections"), "{}", source.describe());
}

#[test]
fn a_port_that_is_taken_says_who_may_have_it() {
    let first = source(&PieceOptions::default());
    let at = skyhaul_io::address::Endpoint::tcp(first.local());
    let Err(error) = PieceSource::open(&at, Box::new(Plain), &PieceOptions::default()) else {
        panic!("bound")
    };
    assert!(
        error.to_string().contains("hint: find the process that uses the port with: ss -tlnp"),
        "{error}"
    );
}

#[test]
fn a_listener_that_is_shut_down_elsewhere_accepts_no_more_and_its_connections_go_on() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let (at, other) = (listener.local_addr().unwrap(), listener.try_clone().unwrap());
    let mut source = PieceSource::from_listener(listener, Box::new(Plain), &PieceOptions::default()).unwrap();
    let mut connection = TcpStream::connect(at).unwrap();
    let (tell, told) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        let mut seen = Seen::default();
        while seen.opened.is_empty() {
            source.poll(TICK, &mut seen).unwrap();
        }
        socket2::SockRef::from(&other).shutdown(std::net::Shutdown::Both).unwrap();
        source.poll(TICK, &mut seen).unwrap();
        let packet = one(1, 12, 100);
        connection.write_all(&packet).unwrap();
        drop(connection);
        while !source.is_finished() {
            source.poll(TICK, &mut seen).unwrap();
        }
        tell.send(seen.packets[&0] == [packet]).unwrap();
    });
    assert!(told.recv_timeout(Duration::from_secs(60)).expect("no poll hangs"));
}

/// Takes what it is offered when it is told to.
#[derive(Default)]
struct Choosy {
    seen: Seen,
    /// Leaves packets with a body of so many bytes.
    leaves: Option<u64>,
    left: usize,
}

impl PieceSink for Choosy {
    fn event(&mut self, event: PieceEvent<'_>) {
        self.seen.event(event);
    }
    fn offer(&mut self, piece: &Piece<'_>) -> bool {
        let takes = self.leaves != Some(piece.body);
        if takes {
            self.seen.event(PieceEvent::Piece(*piece));
        }
        self.left += usize::from(!takes);
        takes
    }
}

#[test]
fn a_packet_nobody_takes_holds_back_its_own_connection_only() {
    for body in [0, 5000, 300_000] {
        let mut source = source(&PieceOptions::default());
        let to = source.local();
        let mut held = TcpStream::connect(to).unwrap();
        let packets = [one(0, 12, 10), one(1, 64, body), one(2, 12, 500_000), one(3, 12, 20)];
        let mut sink = Choosy { leaves: Some(body as u64), ..Choosy::default() };
        let others: Vec<_> = (0..50).map(|n| one(n, 20, 3000 + n as usize)).collect();
        std::thread::scope(|scope| {
            scope.spawn(|| held.write_all(&packets.concat()).unwrap());
            until(&mut source, &mut sink, |sink, _| sink.left > 0);
            let mut free = TcpStream::connect(to).unwrap();
            free.write_all(&others.concat()).unwrap();
            until(&mut source, &mut sink, |sink, _| sink.seen.count() == 51);
            let before = sink.left;
            until(&mut source, &mut sink, |sink, _| sink.left > before + 5);
            assert_eq!(sink.seen.packets[&0], packets[..1], "nothing comes before what is held");
            assert_eq!(sink.seen.packets[&1], others);
            let stats = source.stats();
            assert!(stats.held == 1 && stats.pending > 0, "{stats:?}");
            assert_eq!(stats.bytes, stats.told + stats.skipped + stats.pending);
            sink.leaves = None;
            until(&mut source, &mut sink, |sink, _| sink.seen.count() == 54);
        });
        assert_eq!(sink.seen.packets[&0], packets, "body {body}");
        drop(held);
        until(&mut source, &mut sink, |sink, _| sink.seen.closed.len() == 2);
        let stats = source.stats();
        assert_eq!((stats.bytes, stats.told), (stats.packet_bytes, stats.packet_bytes));
    }
}

#[test]
fn at_the_end_what_is_not_told_is_told_or_skipped() {
    let mut source = source(&PieceOptions::default());
    let to = source.local();
    let connect = |bytes: &[u8]| {
        let mut stream = TcpStream::connect(to).unwrap();
        stream.write_all(bytes).unwrap();
        stream
    };
    let (left, long) = (one(4, 12, 7), one(5, 12, 100_000));
    let streams = [
        &[1u8; 1000][..],
        b"S\x04",
        &one(1, 12, 60)[..50],
        &[&b"?"[..], &one(2, 12, 60_000)[..3000]].concat(),
        &[&left[..], &one(6, 12, 9)].concat(),
        &long[..12],
        &long[..90_000],
        b"",
    ];
    let open = streams.map(connect);
    let mut sink = Choosy { leaves: Some(7), ..Choosy::default() };
    let sent: usize = streams.iter().map(|bytes| bytes.len()).sum();
    until(&mut source, &mut sink, |sink, stats| stats.bytes == sent as u64 && sink.seen.opened.len() == 8);
    source.close(&mut sink);
    let stats = source.stats();
    // Garbage, a beginning of a head, one of a short packet, what was begun while searching, a head that nobody was told.
    assert_eq!((stats.skipped, stats.pending), (1000 + 2 + 50 + 3001 + 12, 0));
    assert_eq!(stats.bytes, stats.told + stats.skipped);
    assert_eq!(sink.seen.skipped.iter().map(|s| s.1).sum::<u64>(), stats.skipped);
    assert_eq!(sink.seen.packets[&4], [left, one(6, 12, 9)], "what nobody took before is told at last");
    assert!(source.is_finished() && source.connections() == 0 && TcpStream::connect(to).is_err());
    drop(open);
}

#[test]
fn ipv6_is_received_as_ipv4_is() {
    if !has_ipv6() {
        return;
    }
    let at = "tcp://[::1]:0".parse().unwrap();
    let mut source = PieceSource::open(&at, Box::new(Plain), &PieceOptions::default()).unwrap();
    let to = source.local();
    assert!(to.is_ipv6() && TcpStream::connect(("127.0.0.1", to.port())).is_err());
    let packets = [one(0, 12, 100), one(1, 64, 3 << 20), one(2, 12, 0), one(3, 20, 100_000)];
    let mut slots = Slots::new(usize::MAX);
    let near = std::thread::scope(|scope| {
        let sends = scope.spawn(|| {
            let mut sender = TcpStream::connect(to).unwrap();
            packets.iter().for_each(|packet| sender.write_all(packet).unwrap());
            sender.local_addr().unwrap()
        });
        until(&mut source, &mut slots, |slots, _| !slots.seen.closed.is_empty());
        sends.join().unwrap()
    });
    assert!(slots.seen.all() == packets && slots.rooms > 0);
    assert_eq!(slots.seen.opened, [(0, near)]);
    assert_eq!((slots.seen.closed[0].1, source.stats().skipped), (End::Orderly, 0));
    // Only the sender asked for is let in, by an IPv6 address too.
    let at = "tcp://[::1]:0?source=::2".parse().unwrap();
    let mut source = PieceSource::open(&at, Box::new(Plain), &PieceOptions::default()).unwrap();
    let _wrong = TcpStream::connect(source.local()).unwrap();
    let mut seen = Seen::default();
    until(&mut source, &mut seen, |seen, stats| stats.refused == 1 && seen.refused.len() == 1);
}
