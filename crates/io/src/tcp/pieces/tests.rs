//! The cutter alone: any stream, cut anywhere, with anything between the packets.

use super::{
    Found, Heads,
    cut::{Cutter, Rules, Told},
};
use proptest::prelude::*;

/// `S`, 4, the head's length in two bytes, the body's in eight.
#[derive(Clone, Copy)]
struct Plain;

const HEAD: usize = 12;

impl Heads for Plain {
    fn find(&self, bytes: &[u8]) -> Found {
        let magic = &bytes[..bytes.len().min(2)];
        if *magic != b"S\x04"[..magic.len()] {
            return Found::Garbage;
        }
        let Some(fixed) = bytes.first_chunk::<HEAD>() else { return Found::More };
        let head = usize::from(u16::from_be_bytes([fixed[2], fixed[3]]));
        let body = fixed[4..].iter().fold(0, |n, &b| n << 8 | u64::from(b));
        if head < HEAD { Found::Garbage } else { Found::Packet { head, body } }
    }
    fn longest_head(&self) -> usize {
        40
    }
    fn magic(&self) -> &[u8] {
        b"S\x04"
    }
}

/// The same, without declaring the bytes with which heads begin.
struct Unmarked;

impl Heads for Unmarked {
    fn find(&self, bytes: &[u8]) -> Found {
        Plain.find(bytes)
    }
    fn longest_head(&self) -> usize {
        40
    }
}

fn packet(head: usize, body: usize, salt: u8) -> Vec<u8> {
    let mut bytes = b"S\x04".to_vec();
    bytes.extend((head as u16).to_be_bytes());
    bytes.extend((body as u64).to_be_bytes());
    bytes.resize(head, 0xEE);
    // Never an `S`.
    bytes.extend((0..body).map(|i| (i as u8).wrapping_mul(7).wrapping_add(salt) | 0x80));
    bytes
}

#[derive(Default, Debug, PartialEq, Clone)]
struct Seen {
    packets: Vec<Vec<u8>>,
    skipped: Vec<u64>,
    lost: usize,
    pieces: usize,
    /// Of a packet that has begun.
    begun: Vec<u8>,
}

impl Seen {
    fn take(&mut self, told: Told<'_>) {
        match told {
            Told::Lost => self.lost += 1,
            Told::Skipped { bytes, .. } => self.skipped.push(bytes),
            Told::Piece { head, at, body, bytes } => {
                self.pieces += 1;
                if at == 0 {
                    assert!(self.begun.is_empty(), "a packet within a packet");
                    self.begun = head.to_vec();
                }
                assert_eq!(self.begun.len() as u64, head.len() as u64 + at, "pieces are in order");
                assert_eq!(&self.begun[..head.len()], head, "the head comes with each piece");
                self.begun.extend(bytes);
                if at + bytes.len() as u64 == body {
                    self.packets.push(std::mem::take(&mut self.begun));
                }
            }
        }
    }
}

struct Bench {
    rules: Rules,
    cutter: Cutter,
    seen: Seen,
}

impl Bench {
    fn new(heads: Box<dyn Heads>, whole: usize) -> Self {
        let rules = Rules::new(heads, 1000, whole);
        Self { cutter: Cutter::new(&rules), rules, seen: Seen::default() }
    }
    fn feed(&mut self, bytes: &[u8]) {
        let mut all = self.cutter.kept().to_vec();
        all.extend(bytes);
        self.cutter.feed(&all, &self.rules, &mut |told| {
            self.seen.take(told);
            true
        });
    }
    fn doubt(&mut self) {
        self.cutter.doubt(&self.rules, &mut |told| {
            self.seen.take(told);
            true
        });
    }
    fn end(&mut self) -> bool {
        self.cutter.end(&self.rules, &mut |told| self.seen.take(told))
    }
}

fn cut<'a>(pieces: impl IntoIterator<Item = &'a [u8]>, whole: usize) -> Seen {
    let mut bench = Bench::new(Box::new(Plain), whole);
    pieces.into_iter().for_each(|piece| bench.feed(piece));
    assert!(!bench.end() || !bench.seen.begun.is_empty());
    bench.seen
}

#[test]
fn a_stream_cut_at_every_byte_gives_the_same_packets() {
    let packets: Vec<_> = [(12, 0), (12, 1), (40, 30), (13, 500), (40, 0), (20, 99), (12, 100)]
        .into_iter()
        .map(|(head, body)| packet(head, body, 1))
        .collect();
    let stream = packets.concat();
    for whole in [12, 60, 200, 1000] {
        for at in 0..=stream.len() {
            let (a, b) = stream.split_at(at);
            let seen = cut([a, b], whole);
            assert_eq!(seen.packets, packets, "cut at {at}, whole up to {whole}");
            assert_eq!((seen.lost, seen.skipped.len()), (0, 0));
            if whole == 1000 {
                assert_eq!(seen.pieces, packets.len(), "short ones come whole");
            }
        }
        for step in 1..20 {
            assert_eq!(cut(stream.chunks(step), whole).packets, packets);
        }
    }
}

#[test]
fn any_number_of_stray_bytes_anywhere_is_passed_over_and_counted() {
    for strays in 0..=16 {
        for whole in [12, 60, 1000] {
            let stray = vec![b'S'; strays];
            let mut stream = Vec::new();
            let packets: Vec<_> = (0..5).map(|n| packet(16, 70, n)).collect();
            for packet in &packets {
                stream.extend(&stray);
                stream.extend(packet);
            }
            for step in [1, 3, 64, 4000] {
                let seen = cut(stream.chunks(step), whole);
                assert_eq!(seen.packets, packets, "{strays} bytes before each, whole {whole}, step {step}");
                let expected = if strays == 0 { vec![] } else { vec![strays as u64; 5] };
                assert_eq!(seen.skipped, expected);
                assert_eq!(seen.lost, expected.len());
            }
        }
    }
}

#[test]
fn what_only_looks_like_a_head_takes_nothing_with_it() {
    let packets: Vec<_> = (0..10).map(|n| packet(16, 30, n)).collect();
    let mut stream = vec![1, 2, 3];
    stream.extend(&packet(16, 100, 0)[..16]);
    stream.extend(packets.concat());
    for step in [1, 7, 5000] {
        let seen = cut(stream.chunks(step), 1000);
        assert_eq!((seen.packets, seen.skipped), (packets.clone(), vec![19]), "step {step}");
    }
    // It announces more than ever arrives: rejected at the end, or after enough silence.
    let mut stream = vec![1, 2, 3];
    stream.extend(&packet(16, 900, 0)[..16]);
    stream.extend(packets.concat());
    assert_eq!(cut([&stream[..]], 1000).packets, packets);
    let mut bench = Bench::new(Box::new(Plain), 1000);
    bench.feed(&stream);
    assert!(bench.cutter.is_doubting() && bench.seen.packets.is_empty());
    bench.doubt();
    assert!(!bench.cutter.is_doubting());
    assert_eq!((bench.seen.packets, bench.seen.skipped), (packets, vec![19]));
}

#[test]
fn limits_are_part_of_what_a_head_may_say() {
    // A body that is too long, a head that is too long, an empty head.
    for bad in [packet(16, 1001, 0), packet(41, 3, 0), packet(0, 3, 0)] {
        let good = packet(16, 1000, 7);
        let seen = cut([&bad[..], &good, &good], 500);
        assert_eq!((seen.packets, seen.skipped), (vec![good.clone(), good], vec![bad.len() as u64]));
    }
    // A head that never ends is rejected after the length of the longest head.
    struct Endless;
    impl Heads for Endless {
        fn find(&self, _: &[u8]) -> Found {
            Found::More
        }
        fn longest_head(&self) -> usize {
            100
        }
    }
    let mut bench = Bench::new(Box::new(Endless), 10);
    for _ in 0..1000 {
        bench.feed(&[0; 99]);
    }
    assert!(bench.cutter.kept().len() < 100);
    assert!(!bench.end());
    assert_eq!(bench.seen.skipped, [99_000]);
}

#[test]
fn the_end_knows_whether_it_came_within_a_packet() {
    let whole = packet(16, 100, 0);
    for at in 0..=whole.len() {
        for limit in [12, 1000] {
            let mut bench = Bench::new(Box::new(Plain), limit);
            bench.feed(&whole[..at]);
            let pending = bench.cutter.pending();
            assert_eq!(bench.end(), at > 0 && at < whole.len(), "after {at} bytes");
            let seen = &bench.seen;
            let told = seen.packets.concat().len() + seen.begun.len();
            assert_eq!((told as u64 + pending, seen.skipped.iter().sum()), (at as u64, pending));
        }
    }
    let mut bench = Bench::new(Box::new(Plain), 1000);
    bench.feed(b"nothing of SPEAD");
    assert!(!bench.end(), "no packet had begun");
    assert_eq!(bench.seen.skipped, [16]);
}

#[test]
fn body_bytes_read_elsewhere_count() {
    let mut bench = Bench::new(Box::new(Plain), 12);
    let long = packet(20, 100, 0);
    bench.feed(&long[..50]);
    let (head, at, left) = bench.cutter.body().unwrap();
    assert_eq!((head, at, left), (&long[..20], 30, 70));
    assert_eq!(bench.cutter.filled(0), None);
    assert_eq!(bench.cutter.filled(69), None);
    assert_eq!(bench.cutter.filled(1), Some(120));
    assert_eq!(bench.cutter.body(), None);
    bench.seen.begun.clear();
    bench.feed(&packet(12, 5, 0));
    assert_eq!(bench.seen.packets, [packet(12, 5, 0)]);
}

fn salad() -> impl Strategy<Value = Vec<(Vec<u8>, bool)>> {
    let one = prop_oneof![
        (12..=40usize, 0..200usize, any::<u8>())
            .prop_map(|(head, body, salt)| (packet(head, body, salt), true)),
        proptest::collection::vec(0x54..=0xFFu8, 1..50).prop_map(|bytes| (bytes, false)),
    ];
    proptest::collection::vec(one, 0..20)
}

/// Beginnings of packets, beginnings within bodies, and noise.
fn ruins() -> impl Strategy<Value = Vec<u8>> {
    let one = prop_oneof![
        (0..=41usize, 0..300usize, 0..400usize).prop_map(|(head, body, end)| {
            let mut bytes = packet(head.max(12), body, 0);
            bytes[3] = head as u8;
            bytes.truncate(end);
            bytes
        }),
        proptest::collection::vec(prop_oneof![Just(b'S'), Just(4u8), Just(0), 0..60u8], 0..30),
    ];
    proptest::collection::vec(one, 0..30).prop_map(|parts| parts.concat())
}

proptest! {
    #[test]
    fn every_packet_is_found_whatever_lies_between(
        parts in salad(), steps in proptest::collection::vec(1..300usize, 1..10), whole in 12..300usize, marked: bool,
    ) {
        let stream: Vec<u8> = parts.iter().flat_map(|(bytes, _)| bytes.clone()).collect();
        let packets: Vec<_> = parts.iter().filter(|(_, is)| *is).map(|(bytes, _)| bytes.clone()).collect();
        let heads: Box<dyn Heads> = if marked { Box::new(Plain) } else { Box::new(Unmarked) };
        let mut bench = Bench::new(heads, whole);
        let (mut rest, mut steps) = (&stream[..], steps.into_iter().cycle());
        while !rest.is_empty() {
            let (now, later) = rest.split_at(steps.next().unwrap().min(rest.len()));
            bench.feed(now);
            rest = later;
        }
        prop_assert!(!bench.end());
        let strays = stream.len() - packets.iter().map(Vec::len).sum::<usize>();
        prop_assert_eq!(bench.seen.packets, packets);
        prop_assert_eq!(bench.seen.skipped.iter().sum::<u64>(), strays as u64);
    }

    #[test]
    fn no_stream_panics_and_every_byte_is_accounted_for(
        bytes in ruins(), step in 1..400usize, doubt: bool,
    ) {
        let mut bench = Bench::new(Box::new(Plain), 100);
        for part in bytes.chunks(step) {
            bench.feed(part);
            if doubt {
                bench.doubt();
            }
        }
        let within = bench.end();
        let seen = bench.seen;
        let told = seen.packets.iter().map(Vec::len).sum::<usize>() + seen.begun.len();
        let skipped = seen.skipped.iter().sum::<u64>() as usize;
        prop_assert_eq!(bytes.len(), told + skipped, "unaccounted for");
        prop_assert!(!within || bytes.len() > seen.packets.iter().map(Vec::len).sum::<usize>());
    }
}

/// Feeds stretches of arbitrary length to a receiver that sometimes declines; every choice comes from `choices`.
fn reluctantly(bench: &mut Bench, bytes: &[u8], steps: &[usize], choices: &[bool]) {
    let (mut rest, mut steps, mut choices) = (bytes, steps.iter().cycle(), choices.iter().cycle());
    let mut fed = 0;
    while !rest.is_empty() {
        let (now, later) = rest.split_at((*steps.next().unwrap()).min(rest.len()));
        let mut all = bench.cutter.kept().to_vec();
        all.extend(now);
        let (rules, seen) = (&bench.rules, &mut bench.seen);
        let mut tell = |told: Told<'_>| {
            let takes = !matches!(told, Told::Piece { .. }) || *choices.next().unwrap();
            if takes {
                seen.take(told);
            }
            takes
        };
        bench.cutter.feed(&all, rules, &mut tell);
        fed += now.len();
        for _ in 0..10_000 {
            let told = bench.cutter.pending() as usize;
            assert!(told <= fed, "more is pending than came");
            if !bench.cutter.is_held() {
                break;
            }
            bench.cutter.resume(rules, &mut tell);
        }
        assert!(!bench.cutter.is_held(), "what is taken now and then comes to its end");
        let seen = &bench.seen;
        let accounted = seen.packets.iter().map(Vec::len).sum::<usize>()
            + seen.begun.len()
            + seen.skipped.iter().sum::<u64>() as usize;
        assert_eq!(accounted as u64 + bench.cutter.pending(), fed as u64, "bytes are lost or doubled");
        rest = later;
    }
}

proptest! {
    #[test]
    fn what_is_left_comes_again_and_nothing_overtakes_it(
        bytes in ruins(), steps in proptest::collection::vec(1..400usize, 1..10),
        mut choices in proptest::collection::vec(any::<bool>(), 0..10), whole in 12..300usize,
    ) {
        choices.push(true);
        let mut eager = Bench::new(Box::new(Plain), whole);
        reluctantly(&mut eager, &bytes, &steps, &[true]);
        let mut reluctant = Bench::new(Box::new(Plain), whole);
        reluctantly(&mut reluctant, &bytes, &steps, &choices);
        prop_assert_eq!(eager.end(), reluctant.end());
        prop_assert_eq!(eager.seen, reluctant.seen);
    }
}

proptest! {
    #[test]
    fn what_is_fuzzed_holds_for_other_heads_too(choices: [u8; 3], bytes in ruins()) {
        super::fuzzing::cutter(Box::new(Plain), &packet(20, 60, 9), &[&choices[..], &bytes].concat());
    }
}
