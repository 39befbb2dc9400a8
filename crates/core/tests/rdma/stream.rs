//! Two endpoints over a stream: MPA set-up, late answers, the end of each half.

use skyhaul_core::placement::Nanos;
use skyhaul_core::rdma::{
    AddressProof, ClosedBy, MemorySlice, RdmaConfig, RdmaContext, RdmaEndpoint, RdmaEvent, RegionRights,
    RemoteAddress, RemoteRead, RemoteWrite, StreamNeed,
};
use skyhaul_core::wire::crc32c::crc32c_append;
use skyhaul_core::wire::rdma::mpa::{Connect, MpaEnhanced, fpdu, frame_length};
use skyhaul_core::wire::rdma::terminate::Terminate;
use skyhaul_core::wire::rdma::{RdmaProfile, RdmaRefusal};
use std::net::SocketAddr;

/// Streams have no cookies.
struct NoProof;

impl AddressProof for NoProof {
    fn cookie(&self, _: SocketAddr, _: u64) -> [u8; 16] {
        unreachable!("a stream proves its peer's address")
    }

    fn is_cookie(&self, _: SocketAddr, _: u64, _: [u8; 16]) -> bool {
        unreachable!("a stream proves its peer's address")
    }
}

const CONFIG: fn() -> RdmaConfig =
    || RdmaConfig { profile: RdmaProfile::Tcp, datagram_bytes: 200, ..RdmaConfig::default() };
const CLIENT: usize = 0;
const SERVER: usize = 1;

struct Stream {
    ends: [RdmaEndpoint; 2],
    memory: [Vec<u8>; 2],
    ids: [Option<u32>; 2],
    now: Nanos,
    random: u64,
}

fn peer() -> SocketAddr {
    SocketAddr::from(([10, 0, 0, 1], 7000))
}

fn slice(start: u64, length: u64) -> MemorySlice {
    MemorySlice { memory: 0, start, length }
}

impl Stream {
    fn new(server: RdmaConfig) -> Stream {
        let ends = [RdmaEndpoint::new(CONFIG()), RdmaEndpoint::new(server)];
        let memory = [(0..4096).map(|at| (at % 251) as u8).collect(), vec![0; 4096]];
        Stream { ends, memory, ids: [None; 2], now: Nanos(1), random: 1 }
    }

    fn with<T>(&mut self, end: usize, f: impl FnOnce(&mut RdmaEndpoint, &mut RdmaContext<'_>) -> T) -> T {
        let mut state = self.random;
        let mut random = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            state >> 16
        };
        let mut context =
            RdmaContext { now: self.now, random: &mut random, proof: &NoProof, crc32c: crc32c_append };
        let done = f(&mut self.ends[end], &mut context);
        self.random = state;
        done
    }

    fn events(&mut self, end: usize) -> Vec<RdmaEvent> {
        std::iter::from_fn(|| self.ends[end].poll_event()).collect()
    }

    /// The bytes of one end, as they go into the stream.
    fn bytes(&mut self, end: usize) -> Vec<u8> {
        let mut all = Vec::new();
        while let Some(transmit) = self.with(end, |e, c| e.poll_transmit(c)) {
            let bytes = transmit
                .payload
                .map_or(&[][..], |slice| &self.memory[end][slice.start as usize..][..slice.length as usize]);
            all.extend(transmit.assemble(bytes));
        }
        all
    }

    /// Cuts bytes into frames, and hands them over.
    fn deliver(&mut self, to: usize, mut bytes: &[u8], mut is_first: bool) {
        while !bytes.is_empty() {
            let length = frame_length(is_first, bytes).unwrap().unwrap();
            let (frame, rest) = bytes.split_at(length);
            (bytes, is_first) = (rest, false);
            match self.ids[to] {
                None => self.ids[to] = self.with(to, |e, c| e.handle_request(peer(), frame, c)),
                Some(id) => {
                    if let Some(place) = self.with(to, |e, c| e.handle_frame(id, frame, c)) {
                        self.memory[to][place.to.start as usize..][..place.to.length as usize]
                            .copy_from_slice(&frame[place.from]);
                    }
                }
            }
        }
    }

    fn pass(&mut self, from: usize, is_first: bool) {
        let bytes = self.bytes(from);
        self.deliver(1 - from, &bytes, is_first);
    }

    fn ask(&mut self) {
        let id = self.with(CLIENT, |e, c| e.connect(peer(), b"vis", Nanos(1 << 40), c)).unwrap();
        self.ids[CLIENT] = Some(id);
        self.pass(CLIENT, true);
    }

    /// Connected, and a region of the server with all rights.
    fn connected() -> (Stream, u32) {
        let mut stream = Stream::new(CONFIG());
        let rights = RegionRights { read: true, write: true, invalidate: false };
        let stag = stream.with(SERVER, |e, c| e.register(slice(0, 4096), rights, c)).unwrap();
        stream.ask();
        let id = stream.ids[SERVER].unwrap();
        assert!(matches!(&stream.events(SERVER)[..],
            [RdmaEvent::Requested { connection, private, .. }] if *connection == id && private == b"vis"));
        stream.with(SERVER, |e, c| e.accept(id, b"region", c)).unwrap();
        stream.pass(SERVER, true);
        assert!(matches!(&stream.events(CLIENT)[..],
            [RdmaEvent::Connected { private, .. }] if private == b"region"));
        assert!(matches!(stream.events(SERVER)[..], [RdmaEvent::Connected { .. }]));
        (stream, stag)
    }

    fn counts(&self) {
        self.ends.iter().for_each(|end| end.counts().check());
    }
}

#[test]
fn a_stream_is_asked_for_written_and_ended_half_by_half() {
    let (mut stream, stag) = Stream::connected();
    let [client, server] = stream.ids.map(Option::unwrap);
    let to = RemoteAddress { stag, offset: 100 };
    let write = RemoteWrite { source: slice(0, 1000), to, immediate: None, is_solicited: false };
    stream.with(CLIENT, |e, _| e.write(client, write)).unwrap();
    // Nothing leaves while the stream takes nothing.
    stream.ends[CLIENT].hold(client, true);
    assert!(stream.bytes(CLIENT).is_empty());
    stream.ends[CLIENT].hold(client, false);
    stream.ends[CLIENT].close(client, Nanos(1 << 41)).unwrap();
    assert_eq!(stream.ends[CLIENT].stream_need(client), StreamNeed::Open, "it has something to send");
    stream.pass(CLIENT, false);
    assert_eq!(stream.memory[SERVER][100..1100], stream.memory[CLIENT][..1000]);
    assert_eq!(stream.ends[CLIENT].stream_need(client), StreamNeed::Finish);
    let now = stream.now;
    stream.ends[SERVER].end_stream(server, ClosedBy::Peer, now);
    let events = stream.events(SERVER);
    assert!(
        matches!(&events[..], [RdmaEvent::Written { is_complete: true, valid, .. },
            RdmaEvent::Closed { by: ClosedBy::Peer, .. }] if *valid == [100..1100]),
        "{events:?}"
    );
    assert_eq!(stream.ends[SERVER].stream_need(server), StreamNeed::Close);
    stream.ends[CLIENT].end_stream(client, ClosedBy::Peer, now);
    assert!(matches!(stream.events(CLIENT).last(), Some(RdmaEvent::Closed { by: ClosedBy::Here, .. })));
    stream.counts();
}

#[test]
fn a_close_that_nobody_confirms_ends_by_its_deadline() {
    let (mut stream, _) = Stream::connected();
    let client = stream.ids[CLIENT].unwrap();
    stream.ends[CLIENT].close(client, Nanos(1000)).unwrap();
    assert!(stream.bytes(CLIENT).is_empty());
    stream.now = Nanos(1000);
    stream.with(CLIENT, |e, c| e.handle_timeout(c));
    assert!(matches!(stream.events(CLIENT)[..], [RdmaEvent::Closed { by: ClosedBy::Silence, .. }]));
}

#[test]
fn a_message_waits_as_long_as_its_stream_and_names_what_is_there_at_a_reset() {
    let (mut stream, stag) = Stream::connected();
    let [client, server] = stream.ids.map(Option::unwrap);
    let to = RemoteAddress { stag, offset: 100 };
    let write = RemoteWrite { source: slice(0, 1000), to, immediate: None, is_solicited: false };
    stream.with(CLIENT, |e, _| e.write(client, write)).unwrap();
    let bytes = stream.bytes(CLIENT);
    let first = frame_length(false, &bytes).unwrap().unwrap();
    stream.deliver(SERVER, &bytes[..first], false);
    stream.now = Nanos(3_600_000_000_000);
    stream.with(SERVER, |e, c| e.handle_timeout(c));
    assert!(stream.events(SERVER).is_empty(), "it was given up");
    let now = stream.now;
    stream.ends[SERVER].end_stream(server, ClosedBy::Reset, now);
    let events = stream.events(SERVER);
    // 200 bytes of an FPDU, less length, header, pad and CRC.
    assert!(
        matches!(&events[..], [RdmaEvent::Written { is_complete: false, valid, .. },
            RdmaEvent::Closed { by: ClosedBy::Reset, .. }] if *valid == [100..277]),
        "{events:?}"
    );
    stream.counts();
}

#[test]
fn an_answer_after_its_deadline_is_passed_over_and_the_stream_goes_on() {
    let (mut stream, stag) = Stream::connected();
    let client = stream.ids[CLIENT].unwrap();
    let from = RemoteAddress { stag, offset: 0 };
    let read = RemoteRead { sink: slice(2000, 500), from, deadline: Nanos(500), ask_again: Some(Nanos(10)) };
    stream.with(CLIENT, |e, c| e.read(client, read, c)).unwrap();
    stream.pass(CLIENT, false);
    let answer = stream.bytes(SERVER);
    let first = frame_length(false, &answer).unwrap().unwrap();
    stream.deliver(CLIENT, &answer[..first], false);
    stream.now = Nanos(400);
    stream.with(CLIENT, |e, c| e.handle_timeout(c));
    assert!(stream.bytes(CLIENT).is_empty(), "a stream is asked once");
    stream.now = Nanos(500);
    stream.with(CLIENT, |e, c| e.handle_timeout(c));
    assert!(matches!(&stream.events(CLIENT)[..],
        [RdmaEvent::ReadDone { missing, asked: 1, .. }] if *missing == [177..500]));
    let before = stream.memory[CLIENT].clone();
    stream.deliver(CLIENT, &answer[first..], false);
    assert!(stream.memory[CLIENT] == before, "a late answer was written");
    assert_eq!(stream.ends[CLIENT].counts().refused.get(RdmaRefusal::Late), 2);
    // The next Read is answered as if nothing had been.
    let again = RemoteRead { deadline: Nanos(900), ..read };
    stream.with(CLIENT, |e, c| e.read(client, again, c)).unwrap();
    stream.pass(CLIENT, false);
    stream.pass(SERVER, false);
    assert!(matches!(&stream.events(CLIENT)[..],
        [RdmaEvent::ReadDone { missing, .. }] if missing.is_empty()));
    assert_eq!(stream.memory[CLIENT][2000..2500], [0; 500]);
    stream.counts();
}

/// A peer that ends its half waits for its answers, also while its stream takes nothing; one that waits for none has closed.
#[test]
fn a_peer_that_has_ended_its_half_is_answered() {
    for is_held in [false, true] {
        let (mut stream, stag) = Stream::connected();
        let [client, server] = stream.ids.map(Option::unwrap);
        let from = RemoteAddress { stag, offset: 0 };
        let read = RemoteRead { sink: slice(2000, 500), from, deadline: Nanos(900), ask_again: None };
        stream.with(CLIENT, |e, c| e.read(client, read, c)).unwrap();
        stream.pass(CLIENT, false);
        stream.ends[SERVER].hold(server, is_held);
        let now = stream.now;
        stream.ends[SERVER].end_half(server, now);
        assert_eq!(stream.ends[SERVER].stream_need(server), StreamNeed::Open, "it owes an answer");
        assert!(stream.events(SERVER).is_empty());
        if is_held {
            assert!(stream.bytes(SERVER).is_empty(), "its stream takes nothing");
            stream.ends[SERVER].hold(server, false);
        }
        stream.pass(SERVER, false);
        assert!(matches!(&stream.events(CLIENT)[..],
            [RdmaEvent::ReadDone { missing, .. }] if missing.is_empty()));
        assert_eq!(stream.ends[SERVER].stream_need(server), StreamNeed::Finish);
        stream.ends[SERVER].end_stream(server, ClosedBy::Peer, now);
        assert!(matches!(stream.events(SERVER)[..], [RdmaEvent::Closed { by: ClosedBy::Peer, .. }]));
        stream.counts();
    }
    let (mut stream, _) = Stream::connected();
    let (server, now) = (stream.ids[SERVER].unwrap(), stream.now);
    stream.ends[SERVER].end_half(server, now);
    assert!(matches!(stream.events(SERVER)[..], [RdmaEvent::Closed { by: ClosedBy::Peer, .. }]));
    // A program that closes while answers are due waits for the peer no longer than it says.
    let (mut stream, stag) = Stream::connected();
    let [client, server] = stream.ids.map(Option::unwrap);
    let from = RemoteAddress { stag, offset: 0 };
    let read = RemoteRead { sink: slice(2000, 500), from, deadline: Nanos(900), ask_again: None };
    stream.with(CLIENT, |e, c| e.read(client, read, c)).unwrap();
    stream.pass(CLIENT, false);
    stream.ends[SERVER].end_half(server, now);
    stream.ends[SERVER].close(server, Nanos(700)).unwrap();
    stream.now = Nanos(700);
    stream.with(SERVER, |e, c| e.handle_timeout(c));
    assert!(matches!(stream.events(SERVER)[..], [RdmaEvent::Closed { .. }]));
}

#[test]
fn a_wrong_crc_ends_the_connection_with_a_terminate() {
    let (mut stream, stag) = Stream::connected();
    let [client, server] = stream.ids.map(Option::unwrap);
    let to = RemoteAddress { stag, offset: 0 };
    let write = RemoteWrite { source: slice(0, 100), to, immediate: None, is_solicited: false };
    stream.with(CLIENT, |e, _| e.write(client, write)).unwrap();
    let mut bytes = stream.bytes(CLIENT);
    bytes[40] ^= 4;
    stream.deliver(SERVER, &bytes, false);
    assert_eq!(stream.ends[SERVER].counts().refused.get(RdmaRefusal::BadChecksum), 1);
    assert!(stream.memory[SERVER].iter().all(|byte| *byte == 0));
    assert!(matches!(stream.events(SERVER)[..], [RdmaEvent::Closed { by: ClosedBy::Broken, .. }]));
    assert_eq!(stream.ends[SERVER].stream_need(server), StreamNeed::Open, "the Terminate is to be sent");
    let ended = stream.bytes(SERVER);
    let reason = Terminate::read(&ended[2 + 18..]).unwrap().reason;
    assert_eq!((reason.layer, reason.error_type, reason.code), (2, 0, 2));
    assert_eq!(stream.ends[SERVER].stream_need(server), StreamNeed::Close);
    stream.deliver(CLIENT, &ended, false);
    let events = stream.events(CLIENT);
    assert!(matches!(events.last(), Some(RdmaEvent::Closed { by: ClosedBy::Terminated, .. })), "{events:?}");
    assert!(!stream.ends[CLIENT].may_read(client));
    stream.counts();
}

#[test]
fn what_is_no_request_has_no_state_and_one_for_markers_is_rejected_by_name() {
    let mut stream = Stream::new(RdmaConfig { connections: 1, ..CONFIG() });
    let mut markers = Connect::request();
    markers.frame.markers = 1;
    let reply = Connect::reply(false);
    for (frame, why, is_answered) in [
        (b"GET / HTTP/1.1\r\n".to_vec(), RdmaRefusal::Mismatch, false),
        (reply.write(), RdmaRefusal::Mismatch, false),
        (Connect::request().write()[..19].to_vec(), RdmaRefusal::Truncated, false),
        (fpdu(&[1; 30]).unwrap(), RdmaRefusal::Mismatch, false),
        (markers.write(), RdmaRefusal::Markers, true),
    ] {
        let before = stream.ends[SERVER].counts().refused.get(why);
        let id = stream.with(SERVER, |e, c| e.handle_request(peer(), &frame, c));
        assert_eq!((id.is_some(), stream.ends[SERVER].counts().refused.get(why)), (is_answered, before + 1));
        assert_eq!(stream.ends[SERVER].connections(), 0, "{why:?}");
        let answer = stream.bytes(SERVER);
        assert_eq!(answer.is_empty(), !is_answered, "{why:?}");
        if is_answered {
            let (reply, _) = Connect::read(&answer).unwrap().unwrap();
            assert!(reply.is_reply && reply.frame.reject == 1);
        }
    }
    // One more than there is room for, and one that the program rejects.
    let request = Connect::request().write();
    let first = stream.with(SERVER, |e, c| e.handle_request(peer(), &request, c)).unwrap();
    stream.with(SERVER, |e, c| e.handle_request(peer(), &request, c)).unwrap();
    stream.ends[SERVER].reject(first).unwrap();
    let answers = stream.bytes(SERVER);
    let (reply, taken) = Connect::read(&answers).unwrap().unwrap();
    let (other, _) = Connect::read(&answers[taken..]).unwrap().unwrap();
    assert_eq!((reply.frame.reject, other.frame.reject), (1, 1));
    assert_eq!(stream.ends[SERVER].counts().refused.get(RdmaRefusal::TooManyConnections), 1);
    stream.counts();
}

#[test]
fn depths_of_reads_are_agreed_where_the_request_has_them() {
    let (stream, _) = Stream::connected();
    let client = stream.ids[CLIENT].unwrap();
    assert!(stream.ends[CLIENT].may_read(client));
    // A peer of revision 1 gets a reply of revision 1; one with depths, ours.
    for ird in [None, Some(0)] {
        let mut stream = Stream::new(CONFIG());
        let mut request = Connect::request();
        request.enhanced = ird.map(|ird| MpaEnhanced { ird, ..MpaEnhanced::default() });
        request.frame.revision = if ird.is_some() { 2 } else { 1 };
        let id = stream.with(SERVER, |e, c| e.handle_request(peer(), &request.write(), c)).unwrap();
        stream.with(SERVER, |e, c| e.accept(id, b"", c)).unwrap();
        let (reply, _) = Connect::read(&stream.bytes(SERVER)).unwrap().unwrap();
        assert_eq!((reply.frame.crc, reply.frame.markers), (1, 0));
        assert_eq!(reply.frame.revision, request.frame.revision);
        assert_eq!(reply.enhanced.map(|depths| (depths.ird, depths.ord)), ird.map(|_| (256, 16)));
        // It serves no Read, or has not said how many.
        assert_eq!(stream.ends[SERVER].may_read(id), ird.is_none());
    }
}

/// RFC 5044, 7.1.1: the CRC is used if either end asks for it.
#[test]
fn a_stream_has_a_crc_unless_neither_end_asks_for_one() {
    for asked in [
        (Some(false), Some(false)),
        (Some(true), Some(false)),
        (Some(false), Some(true)),
        (None, Some(false)),
    ] {
        let mut stream = Stream::new(RdmaConfig { crc: asked.1, ..CONFIG() });
        stream.ends[CLIENT] = RdmaEndpoint::new(RdmaConfig { crc: asked.0, ..CONFIG() });
        let stag = stream
            .with(SERVER, |e, c| {
                e.register(slice(0, 4096), RegionRights { read: true, write: true, invalidate: false }, c)
            })
            .unwrap();
        stream.ask();
        let [client, server] = stream.ids.map(Option::unwrap);
        stream.with(SERVER, |e, c| e.accept(server, b"", c)).unwrap();
        stream.pass(SERVER, true);
        let to = RemoteAddress { stag, offset: 0 };
        let write = RemoteWrite { source: slice(0, 41), to, immediate: None, is_solicited: false };
        stream.with(CLIENT, |e, _| e.write(client, write)).unwrap();
        let mut frame = stream.bytes(CLIENT);
        let field = frame.len() - 4;
        let has_crc = asked != (Some(false), Some(false));
        assert_eq!(frame[field..] != [0; 4], has_crc, "{asked:?}");
        // The field of a CRC that nobody asked for may hold anything; a CRC that somebody asked for is looked at.
        frame[field] ^= 1;
        stream.deliver(SERVER, &frame, false);
        let is_placed = stream.memory[SERVER][..41] == stream.memory[CLIENT][..41];
        assert_eq!(is_placed, !has_crc, "{asked:?}");
        let refused = stream.ends[SERVER].counts().refused.get(RdmaRefusal::BadChecksum);
        assert_eq!(refused, u64::from(has_crc), "{asked:?}");
        stream.counts();
    }
}
