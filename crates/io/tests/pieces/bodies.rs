//! Long bodies: straight into their place, told while they come, held back where nobody takes them.

use super::*;

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
        if self.slot.is_empty() {
            return None; // a shorter body that has not come whole
        }
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
