//! Single situations of two endpoints on a perfect network.

use skyhaul_core::placement::Nanos;
use skyhaul_core::rdma::{
    AddressProof, ClosedBy, MemorySlice, RdmaConfig, RdmaContext, RdmaEndpoint, RdmaEvent, RdmaTransmit,
    RegionRights, RemoteAddress, RemoteRead, RemoteWrite,
};
use skyhaul_core::wire::crc32c::crc32c_append;
use skyhaul_core::wire::rdma::ddp::DdpHeader;
use skyhaul_core::wire::rdma::rdmap::RdmapOpcode;
use skyhaul_core::wire::rdma::{RdmaProfile, RdmaRefusal, mpa};
use std::net::SocketAddr;

struct Known;

impl AddressProof for Known {
    fn cookie(&self, peer: SocketAddr, nonce: u64) -> [u8; 16] {
        (u128::from(peer.port()) << 64 | u128::from(nonce)).to_be_bytes()
    }

    fn is_cookie(&self, peer: SocketAddr, nonce: u64, cookie: [u8; 16]) -> bool {
        self.cookie(peer, nonce) == cookie
    }
}

pub(super) struct Side {
    pub(super) endpoint: RdmaEndpoint,
    memory: Vec<u8>,
    pub(super) events: Vec<RdmaEvent>,
    pub(super) connection: u32,
}

pub(super) struct Pair {
    pub(super) sides: [Side; 2],
    pub(super) now: Nanos,
    random: u64,
    /// Datagrams on their way: to which side.
    pub(super) flying: Vec<(usize, Vec<u8>)>,
}

pub(super) fn address(side: usize) -> SocketAddr {
    SocketAddr::from(([10, 0, 0, 1], 7000 + side as u16))
}

pub(super) fn slice(start: u64, length: u64) -> MemorySlice {
    MemorySlice { memory: 0, start, length }
}

impl Pair {
    pub(super) fn new(config: RdmaConfig) -> Pair {
        let side = |fill: u8| Side {
            endpoint: RdmaEndpoint::new(config),
            memory: (0..4096).map(|at| if fill == 0 { 0 } else { (at % 251) as u8 }).collect(),
            events: Vec::new(),
            connection: 0,
        };
        let mut pair = Pair { sides: [side(1), side(0)], now: Nanos(1), random: 1, flying: Vec::new() };
        if config.profile == RdmaProfile::Uc {
            let id = pair.with(0, |e, c| e.connect(address(1), b"p", Nanos(1_000_000_000), c)).unwrap();
            pair.sides[0].connection = id;
        } else {
            for side in 0..2 {
                pair.sides[side].connection = pair.with(side, |e, c| e.attach(address(1 - side), c)).unwrap();
            }
        }
        pair.run();
        pair
    }

    pub(super) fn with<T>(
        &mut self,
        side: usize,
        f: impl FnOnce(&mut RdmaEndpoint, &mut RdmaContext<'_>) -> T,
    ) -> T {
        let mut state = self.random;
        let mut random = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            state >> 16
        };
        let mut context =
            RdmaContext { now: self.now, random: &mut random, proof: &Known, crc32c: crc32c_append };
        let done = f(&mut self.sides[side].endpoint, &mut context);
        self.random = state;
        done
    }

    /// What a side has to send is on its way.
    pub(super) fn send(&mut self, side: usize) {
        // An accept is an answer to an event, and goes out with what is sent now.
        self.take_events(side);
        while let Some(RdmaTransmit { payload, .. }) = {
            let next = self.with(side, |e, c| e.poll_transmit(c));
            if let Some(transmit) = &next {
                let bytes = transmit.payload.map_or(&[][..], |slice| {
                    &self.sides[side].memory[slice.start as usize..][..slice.length as usize]
                });
                self.flying.push((1 - side, transmit.assemble(bytes)));
            }
            next
        } {
            assert!(payload.is_none_or(|slice| slice.memory == 0));
        }
        self.take_events(side);
    }

    fn take_events(&mut self, side: usize) {
        while let Some(event) = self.sides[side].endpoint.poll_event() {
            if let RdmaEvent::Requested { connection, .. } = event {
                self.sides[side].connection = connection;
                self.with(side, |e, c| e.accept(connection, b"", c)).unwrap();
            }
            self.sides[side].events.push(event);
        }
    }

    fn deliver(&mut self, to: usize, datagram: &[u8]) {
        let (id, is_tcp) = (self.sides[to].connection, mpa::unframed(datagram));
        let (place, bytes) = match is_tcp {
            Ok(Some((segment, taken))) if taken == datagram.len() => {
                (self.with(to, |e, c| e.handle_segment(id, segment, c)), segment)
            }
            _ => (self.with(to, |e, c| e.handle_datagram(address(1 - to), datagram, c)), datagram),
        };
        if let Some(place) = place {
            let target = &mut self.sides[to].memory[place.to.start as usize..][..place.to.length as usize];
            target.copy_from_slice(&bytes[place.from]);
        }
    }

    pub(super) fn run(&mut self) {
        loop {
            (0..2).for_each(|side| self.send(side));
            if self.flying.is_empty() {
                return;
            }
            for (to, datagram) in std::mem::take(&mut self.flying) {
                self.deliver(to, &datagram);
            }
        }
    }

    pub(super) fn wait(&mut self, nanoseconds: u64) {
        self.now = self.now.plus(Nanos(nanoseconds));
        (0..2).for_each(|side| self.with(side, |e, c| e.handle_timeout(c)));
        self.run();
    }

    fn written(&self) -> Vec<&RdmaEvent> {
        self.sides[1].events.iter().filter(|event| matches!(event, RdmaEvent::Written { .. })).collect()
    }

    fn refused(&self, why: RdmaRefusal) -> u64 {
        self.sides[1].endpoint.counts().refused.get(why)
    }
}

pub(super) fn config(profile: RdmaProfile) -> RdmaConfig {
    RdmaConfig { profile, datagram_bytes: 200, ..RdmaConfig::default() }
}

pub(super) fn write(stag: u32, length: u64, immediate: Option<u64>) -> RemoteWrite {
    let to = RemoteAddress { stag, offset: 100 };
    RemoteWrite { source: slice(0, length), to, immediate, is_solicited: true }
}

#[test]
fn every_profile_carries_every_operation() {
    for profile in RdmaProfile::ALL {
        let mut pair = Pair::new(config(profile));
        let all = RegionRights { read: true, write: true, invalidate: true };
        let stag = pair.with(1, |e, c| e.register(slice(0, 2048), all, c)).unwrap();
        let (client, server) = (pair.sides[0].connection, pair.sides[1].connection);
        pair.sides[1].endpoint.post_receive(server, slice(3000, 1000)).unwrap();
        pair.sides[0].endpoint.write(client, write(stag, 1000, Some(77))).unwrap();
        pair.run();
        assert_eq!(pair.sides[1].memory[100..1100], pair.sides[0].memory[..1000], "{profile:?}");
        let RdmaEvent::Written { valid, is_complete, immediate, .. } = pair.written()[0] else { panic!() };
        assert_eq!((valid, *is_complete), (&vec![100..1100], profile != RdmaProfile::Bare), "{profile:?}");
        assert_eq!(*immediate, (profile == RdmaProfile::Uc).then_some(77), "{profile:?}");
        let is_alone =
            |event: &RdmaEvent| matches!(event, RdmaEvent::Immediate { value: 77, is_solicited: true, .. });
        assert_eq!(pair.sides[1].events.iter().any(is_alone), profile != RdmaProfile::Uc, "{profile:?}");

        let from = RemoteAddress { stag, offset: 100 };
        let deadline = pair.now.plus(Nanos::SECOND);
        let read = RemoteRead { sink: slice(2000, 900), from, deadline, ask_again: None };
        pair.with(0, |e, c| e.read(client, read, c)).unwrap();
        pair.run();
        let done = pair.sides[0].events.iter().any(
            |event| matches!(event, RdmaEvent::ReadDone { missing, asked: 1, .. } if missing.is_empty()),
        );
        assert!(done, "{profile:?}: {:?}", pair.sides[0].events);
        assert_eq!(pair.sides[0].memory[2000..2900], pair.sides[1].memory[100..1000]);

        pair.sides[0].endpoint.send(client, slice(5, 700), Some(stag), true).unwrap();
        pair.run();
        let received = pair.sides[1].events.iter().any(|event| {
            matches!(event, RdmaEvent::Received { size: Some(700), missing, invalidated, is_solicited: true, .. }
                     if missing.is_empty() && *invalidated == Some(stag))
        });
        assert!(received, "{profile:?}: {:?}", pair.sides[1].events);
        assert_eq!(pair.sides[1].memory[3000..3700], pair.sides[0].memory[5..705]);
        // The region is gone.
        pair.sides[0].endpoint.write(client, write(stag, 10, None)).unwrap();
        pair.run();
        assert_eq!(pair.refused(RdmaRefusal::BadStag), 1, "{profile:?}");
        pair.sides[1].endpoint.counts().check();
    }
}

#[test]
fn immediate_data_waits_for_its_write_in_either_order() {
    for order in [[0, 1, 2], [2, 1, 0], [1, 2, 0], [2, 0, 1]] {
        let mut pair = Pair::new(config(RdmaProfile::Uc));
        let stag = pair.with(1, |e, c| e.register(slice(0, 2048), RegionRights::WRITE, c)).unwrap();
        let client = pair.sides[0].connection;
        pair.sides[0].endpoint.write(client, write(stag, 300, Some(5))).unwrap();
        pair.send(0);
        let flying = std::mem::take(&mut pair.flying);
        assert_eq!(flying.len(), 3);
        for (n, at) in order.into_iter().enumerate() {
            assert!(pair.written().is_empty(), "{order:?}: before datagram {n}");
            pair.deliver(1, &flying[at].1);
            pair.send(1);
        }
        let [RdmaEvent::Written { is_complete: true, immediate: Some(5), is_solicited: true, .. }] =
            pair.written()[..]
        else {
            panic!("{order:?}: {:?}", pair.written())
        };
        assert_eq!(pair.sides[1].memory[100..400], pair.sides[0].memory[..300]);
    }
}

#[test]
fn a_loss_is_named_by_range_or_by_number() {
    let mut pair = Pair::new(config(RdmaProfile::Uc));
    let stag = pair.with(1, |e, c| e.register(slice(0, 4096), RegionRights::WRITE, c)).unwrap();
    let client = pair.sides[0].connection;
    for length in [500, 100, 500] {
        pair.sides[0].endpoint.write(client, write(stag, length, None)).unwrap();
    }
    pair.send(0);
    // 168 bytes a datagram: 3, 1 and 3 of them. The second of the first message and all of the second are lost.
    for (n, (to, datagram)) in std::mem::take(&mut pair.flying).into_iter().enumerate() {
        if n != 1 && n != 3 {
            pair.deliver(to, &datagram);
        }
    }
    pair.wait(1_000_000_000);
    let lost = pair.sides[1].events.iter().find_map(|event| match event {
        RdmaEvent::MessagesLost { messages, .. } => Some(messages.clone()),
        _ => None,
    });
    assert_eq!(lost, Some(2..3));
    let RdmaEvent::Written { valid, missing, is_complete: false, .. } = pair.written()[1] else { panic!() };
    assert_eq!((valid, missing), (&vec![100..268, 436..600], &vec![268..436]));
    assert_eq!(pair.sides[1].endpoint.counts().incomplete, 1);
    let deadline = pair.now.plus(Nanos::SECOND);
    pair.sides[0].endpoint.close(client, deadline).unwrap();
    pair.run();
    pair.wait(RdmaConfig::default().linger.0);
    let closed = pair.sides[1].events.last();
    assert!(
        matches!(closed, Some(RdmaEvent::Closed { by: ClosedBy::Peer, datagrams_lost: 2, .. })),
        "{closed:?}"
    );
}

#[test]
fn a_late_answer_finds_no_buffer() {
    let mut pair = Pair::new(config(RdmaProfile::Uc));
    let stag = pair.with(1, |e, c| e.register(slice(0, 4096), RegionRights::READ, c)).unwrap();
    let client = pair.sides[0].connection;
    let from = RemoteAddress { stag, offset: 0 };
    let deadline = pair.now.plus(Nanos(20_000_000));
    let read = RemoteRead { sink: slice(2000, 300), from, deadline, ask_again: None };
    let before = pair.sides[0].memory.clone();
    pair.with(0, |e, c| e.read(client, read, c)).unwrap();
    pair.send(0);
    for (to, datagram) in std::mem::take(&mut pair.flying) {
        pair.deliver(to, &datagram);
    }
    pair.send(1);
    let answers = std::mem::take(&mut pair.flying);
    assert_eq!(pair.sides[0].endpoint.poll_timeout(), Some(deadline));
    pair.wait(20_000_000);
    let done =
        |event: &RdmaEvent| matches!(event, RdmaEvent::ReadDone { missing, .. } if *missing == vec![0..300]);
    assert!(pair.sides[0].events.iter().any(done), "{:?}", pair.sides[0].events);
    for (to, datagram) in answers {
        pair.deliver(to, &datagram);
    }
    assert_eq!(pair.sides[0].memory, before);
    assert_eq!(pair.sides[0].endpoint.counts().refused.get(RdmaRefusal::BadStag), 2);
}

#[test]
fn what_an_answer_lacks_at_its_end_is_asked_for_without_waiting() {
    // Five datagrams of 168 bytes for each of two Reads, answered one after the other. Lost: one in the middle of the first answer; its
    // end, which the second answer's end shows; the ends of both, which nothing shows but silence.
    for (lost, wait) in [(&[1][..], 500_000), (&[4], 500_000), (&[4, 9], 2_000_000)] {
        let mut pair = Pair::new(config(RdmaProfile::Uc));
        let stag = pair.with(1, |e, c| e.register(slice(0, 4096), RegionRights::READ, c)).unwrap();
        let client = pair.sides[0].connection;
        pair.sides[1].memory = pair.sides[0].memory.clone();
        let (second, deadline) = (Nanos::SECOND, pair.now.plus(Nanos(5_000_000_000)));
        for (sink, offset) in [(2000, 0), (3000, 800)] {
            let from = RemoteAddress { stag, offset };
            let read = RemoteRead { sink: slice(sink, 800), from, deadline, ask_again: Some(second) };
            pair.with(0, |e, c| e.read(client, read, c)).unwrap();
        }
        let asked = pair.now;
        pair.send(0);
        for (to, datagram) in std::mem::take(&mut pair.flying) {
            pair.deliver(to, &datagram);
        }
        pair.send(1);
        let answers = std::mem::take(&mut pair.flying);
        assert_eq!(answers.len(), 10);
        for (n, (to, datagram)) in answers.into_iter().enumerate() {
            if !lost.contains(&n) {
                pair.deliver(to, &datagram);
            }
        }
        let due = pair.sides[0].endpoint.poll_timeout().unwrap();
        assert_eq!(due.since(asked), Nanos(wait), "{lost:?}");
        pair.wait(wait);
        pair.run();
        let silences = u64::from(lost.len() == 2);
        assert_eq!(pair.sides[0].endpoint.counts().silences, silences, "{lost:?}");
        let done: Vec<_> = pair.sides[0]
            .events
            .iter()
            .filter_map(|event| match event {
                RdmaEvent::ReadDone { missing, asked, .. } => Some((missing.len(), *asked)),
                _ => None,
            })
            .collect();
        let (whole, repeated) = ((0, 1), (0, 2));
        let both = if lost.len() == 2 { [repeated, repeated] } else { [whole, repeated] };
        assert_eq!(done, both, "{lost:?}");
        let (here, there) = (&pair.sides[0].memory, &pair.sides[1].memory);
        assert!(here[2000..2800] == there[..800] && here[3000..3800] == there[800..1600], "{lost:?}");
    }
}

#[test]
fn rights_are_those_of_the_peer() {
    let mut pair = Pair::new(config(RdmaProfile::Uc));
    let none = RegionRights::default();
    let stag = pair.with(1, |e, c| e.register(slice(0, 200), none, c)).unwrap();
    let (client, server) = (pair.sides[0].connection, pair.sides[1].connection);
    let refused = |pair: &mut Pair, stag, length, why| {
        let before = pair.refused(why);
        pair.sides[0].endpoint.write(client, write(stag, length, None)).unwrap();
        pair.run();
        assert_eq!(pair.refused(why), before + 1, "{why:?}");
    };
    refused(&mut pair, stag, 10, RdmaRefusal::NoAccess);
    pair.sides[1].endpoint.grant(stag, server, RegionRights::WRITE).unwrap();
    pair.sides[0].endpoint.write(client, write(stag, 100, None)).unwrap();
    pair.run();
    assert_eq!(pair.written().len(), 1);
    refused(&mut pair, stag, 101, RdmaRefusal::OutOfBounds);
    refused(&mut pair, stag ^ 1, 10, RdmaRefusal::BadStag);
    refused(&mut pair, stag ^ 0x100, 10, RdmaRefusal::BadStag);
    assert!(pair.sides[1].memory[200..].iter().all(|byte| *byte == 0));
}

#[test]
fn a_close_whose_answers_are_lost_is_answered_when_its_connection_is_over() {
    let mut pair = Pair::new(config(RdmaProfile::Uc));
    let RdmaConfig { linger, retry, .. } = RdmaConfig::default();
    let (client, deadline) = (pair.sides[0].connection, pair.now.plus(Nanos::SECOND));
    pair.sides[0].endpoint.close(client, deadline).unwrap();
    // Its repetitions keep the connection, so that a server that is about to go is still there for the next one.
    for _ in 0..5 {
        pair.send(0);
        let closes = std::mem::take(&mut pair.flying);
        assert_eq!(closes.len(), 1, "a close for each time of the retry");
        closes.into_iter().for_each(|(to, datagram)| pair.deliver(to, &datagram));
        pair.send(1);
        assert_eq!(std::mem::take(&mut pair.flying).len(), 1, "each has an answer");
        assert_eq!(pair.sides[1].endpoint.connections(), 1);
        pair.now = pair.now.plus(retry);
        (0..2).for_each(|side| pair.with(side, |e, c| e.handle_timeout(c)));
    }
    pair.send(0);
    pair.flying.clear();
    pair.now = pair.now.plus(linger);
    pair.with(1, |e, c| e.handle_timeout(c));
    pair.send(1);
    assert_eq!(pair.sides[1].endpoint.connections(), 0);
    // A stranger's close of it has none.
    pair.with(0, |e, c| e.handle_timeout(c));
    pair.send(0);
    let closes = std::mem::take(&mut pair.flying);
    let stranger = SocketAddr::from(([10, 0, 0, 2], 7000));
    pair.with(1, |e, c| e.handle_datagram(stranger, &closes[0].1, c));
    pair.send(1);
    assert!(pair.flying.is_empty());
    assert_eq!(pair.sides[1].endpoint.counts().refused.get(RdmaRefusal::UnknownConnection), 1);
    closes.into_iter().for_each(|(to, datagram)| pair.deliver(to, &datagram));
    pair.run();
    let closed = pair.sides[0].events.last();
    assert!(matches!(closed, Some(RdmaEvent::Closed { by: ClosedBy::Here, .. })), "{closed:?}");
}

/// An end that was stopped, or busy with something else, has asked nobody meanwhile.
#[test]
fn a_peer_is_given_up_when_it_does_not_answer_and_not_when_time_has_passed() {
    let keep_alive = Some(Nanos::SECOND);
    let mut pair = Pair::new(RdmaConfig { keep_alive, ..config(RdmaProfile::Uc) });
    pair.wait(100_000_000_000);
    let ended = |pair: &Pair| [0, 1].map(|side| pair.sides[side].endpoint.connections() == 0);
    assert_eq!(ended(&pair), [false, false]);
    // From here on the server hears nothing: a second later than the client would, three questions, and a second after the last it is over.
    for seconds in 1..=5 {
        pair.now = pair.now.plus(Nanos::SECOND);
        pair.with(1, |e, c| e.handle_timeout(c));
        pair.send(1);
        pair.flying.clear();
        assert_eq!(ended(&pair), [false, seconds == 5]);
    }
    // It cannot say that all has arrived of one that it gave up.
    let (client, deadline) = (pair.sides[0].connection, pair.now.plus(Nanos::SECOND));
    pair.sides[0].endpoint.close(client, deadline).unwrap();
    pair.run();
    assert_eq!(pair.refused(RdmaRefusal::UnknownConnection), 1);
    pair.wait(1_000_000_000);
    let closed = pair.sides[0].events.last();
    assert!(matches!(closed, Some(RdmaEvent::Closed { by: ClosedBy::Silence, .. })), "{closed:?}");
}

#[test]
fn an_ordered_stream_ends_at_the_first_segment_out_of_place() {
    let mut pair = Pair::new(config(RdmaProfile::Tcp));
    let stag = pair.with(1, |e, c| e.register(slice(0, 4096), RegionRights::WRITE, c)).unwrap();
    let server = pair.sides[1].connection;
    for (offset, is_placed) in [(0, true), (64, true), (256, false)] {
        let ddp = DdpHeader::tagged(RdmapOpcode::Write, false, stag, offset).write();
        let segment = [&ddp[..], &[7; 64]].concat();
        let place = pair.with(1, |e, c| e.handle_segment(server, &segment, c));
        assert_eq!(place.is_some(), is_placed, "{offset}");
    }
    pair.send(1);
    let closed = pair.sides[1].events.last();
    assert!(matches!(closed, Some(RdmaEvent::Closed { by: ClosedBy::Broken, .. })), "{closed:?}");
    pair.run();
    let ended = pair.sides[0].events.last();
    assert!(matches!(ended, Some(RdmaEvent::Closed { by: ClosedBy::Terminated, .. })), "{ended:?}");
}

#[test]
fn no_state_before_the_address_is_proven_and_no_answer_longer_than_its_question() {
    let mut pair = Pair::new(config(RdmaProfile::Uc));
    let connections = pair.sides[1].endpoint.connections();
    let mut client = RdmaEndpoint::new(config(RdmaProfile::Uc));
    let mut random = || 7;
    let mut context =
        RdmaContext { now: Nanos(1), random: &mut random, proof: &Known, crc32c: crc32c_append };
    client.connect(address(1), b"private", Nanos(10), &mut context).unwrap();
    let question = client.poll_transmit(&mut context).unwrap().assemble(&[]);
    for host in 0..200 {
        let from = SocketAddr::from(([10, 7, 7, host], 9));
        pair.with(1, |e, c| e.handle_datagram(from, &question, c));
        let answer = pair.with(1, |e, c| e.poll_transmit(c)).expect("a challenge").assemble(&[]);
        assert!(answer.len() <= question.len());
    }
    assert_eq!(pair.sides[1].endpoint.connections(), connections);
    assert!(pair.sides[1].endpoint.poll_event().is_none());
}
