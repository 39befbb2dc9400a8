//! How often an endpoint that sleeps has to be woken, and Writes that are sent without the queue.

use super::endpoint::{Pair, address, config, slice, write};
use skyhaul_core::placement::Nanos;
use skyhaul_core::rdma::{RdmaConfig, RdmaEvent, RegionRights, RemoteAddress};
use skyhaul_core::wire::rdma::RdmaProfile;
use skyhaul_core::wire::rdma::rules::PlacedWrite;

const AFTER: Nanos = Nanos(5_000_000_000);
const MILLISECOND: u64 = 1_000_000;

fn asking() -> RdmaConfig {
    RdmaConfig { keep_alive: Some(AFTER), ..config(RdmaProfile::Uc) }
}

/// Datagrams that each side has sent.
fn sent(pair: &Pair) -> [u64; 2] {
    [0, 1].map(|side| pair.sides[side].endpoint.counts().sent)
}

/// The time passes in steps; returns how often a timer of the server was due.
fn pass(pair: &mut Pair, milliseconds: u64) -> u64 {
    let mut due = 0;
    for _ in 0..milliseconds {
        let now = pair.now.plus(Nanos(MILLISECOND));
        due += u64::from(pair.sides[1].endpoint.poll_timeout().is_some_and(|at| at <= now));
        pair.wait(MILLISECOND);
    }
    due
}

/// A server that sleeps is woken by its peer's question alone: it has none of its own, and no timer of it is due meanwhile.
#[test]
fn of_an_idle_pair_the_client_asks_and_nobody_else() {
    let mut pair = Pair::new(asking());
    let before = sent(&pair);
    let due = pass(&mut pair, 59_000);
    let asked = [0, 1].map(|side| sent(&pair)[side] - before[side]);
    assert_eq!((asked, due), ([11, 11], 0));
}

/// What a program in the kernel has placed is answered when the server wakes for it, so the peer does not ask.
#[test]
fn a_peer_whose_writes_are_handed_over_now_and_then_does_not_ask() {
    let mut pair = Pair::new(asking());
    let stag = pair.with(1, |e, c| e.register(slice(0, 2048), RegionRights::WRITE, c)).unwrap();
    let (server, before) = (pair.sides[1].connection, sent(&pair));
    for n in 0..10u32 {
        let due = pass(&mut pair, 4300);
        assert_eq!(due, 0, "after {n} times");
        let one = PlacedWrite {
            msn: n + 1,
            base: 0,
            psn: n + 1,
            is_bound: false,
            size: Some(64),
            unit_bytes: 150,
            units: vec![1],
        };
        let at = RemoteAddress { stag, offset: 0 };
        assert_eq!(pair.with(1, |e, c| e.handle_placed(server, &one, at, c, &mut |_| {})), 0);
        pair.run();
    }
    assert_eq!([0, 1].map(|side| sent(&pair)[side] - before[side]), [0, 10]);
    // Several at a time are answered once.
    let two = |msn| PlacedWrite {
        msn,
        base: 0,
        psn: msn,
        is_bound: false,
        size: Some(64),
        unit_bytes: 150,
        units: vec![1],
    };
    pass(&mut pair, 3000);
    for msn in [11, 12] {
        let at = RemoteAddress { stag, offset: 0 };
        pair.with(1, |e, c| e.handle_placed(server, &two(msn), at, c, &mut |_| {}));
    }
    pair.run();
    assert_eq!(sent(&pair)[1] - before[1], 11);
}

/// The datagram of a short Write is that of one that was posted, and the numbers continue.
#[test]
fn a_short_write_is_the_datagram_of_a_posted_one() {
    let datagrams = |is_short: &[bool]| {
        let mut pair = Pair::new(config(RdmaProfile::Uc));
        let stag = pair.with(1, |e, c| e.register(slice(0, 2048), RegionRights::WRITE, c)).unwrap();
        let (client, now) = (pair.sides[0].connection, pair.now);
        let mut all = Vec::new();
        for is_short in is_short {
            if *is_short {
                let to = RemoteAddress { stag, offset: 100 };
                let short = pair.sides[0].endpoint.write_short(client, to, 64, now).unwrap();
                assert_eq!(short.to, address(1));
                let memory: Vec<u8> = (0..64).map(|at| (at % 251) as u8).collect();
                all.push([&short.head[..], &memory].concat());
            } else {
                pair.sides[0].endpoint.write(client, write(stag, 64, None)).unwrap();
                pair.send(0);
                all.extend(pair.flying.drain(..).map(|(_, datagram)| datagram));
            }
        }
        (all, pair)
    };
    let (posted, _) = datagrams(&[false; 4]);
    for mixed in [[true; 4], [true, false, true, false], [false, true, true, false]] {
        let (all, mut pair) = datagrams(&mixed);
        assert_eq!(all, posted, "{mixed:?}");
        pair.flying.extend(all.into_iter().map(|datagram| (1, datagram)));
        pair.run();
        let complete = |event: &&RdmaEvent| matches!(event, RdmaEvent::Written { is_complete: true, .. });
        assert_eq!(pair.sides[1].events.iter().filter(complete).count(), 4);
        pair.sides.iter().for_each(|side| side.endpoint.counts().check());
    }
}

/// It is not handed out before what waits, nor where it is not one datagram without a CRC of an open connection.
#[test]
fn a_short_write_does_not_overtake_and_fits_one_datagram() {
    let to = |stag| RemoteAddress { stag, offset: 0 };
    let short = |pair: &mut Pair, length| {
        let (client, now) = (pair.sides[0].connection, pair.now);
        pair.sides[0].endpoint.write_short(client, to(7), length, now).is_some()
    };
    let mut pair = Pair::new(config(RdmaProfile::Uc));
    // A datagram of 200 bytes has 32 of heads.
    assert_eq!([0, 1, 168, 169].map(|length| short(&mut pair, length)), [false, true, true, false]);
    let client = pair.sides[0].connection;
    pair.sides[0].endpoint.write(client, write(7, 64, None)).unwrap();
    assert!(!short(&mut pair, 64), "one is queued");
    pair.send(0);
    assert!(short(&mut pair, 64));
    pair.sides[0].endpoint.close(client, pair.now.plus(Nanos::SECOND)).unwrap();
    assert!(!short(&mut pair, 64), "it is closing");
    for other in [
        RdmaConfig { crc: Some(true), ..config(RdmaProfile::Uc) },
        RdmaConfig { max_message_bytes: 63, ..config(RdmaProfile::Uc) },
        config(RdmaProfile::Bare),
        config(RdmaProfile::Tcp),
    ] {
        assert!(!short(&mut Pair::new(other), 64), "{other:?}");
    }
}
