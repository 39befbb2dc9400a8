//! A train placed as runs leaves what its packets leave when each is placed by itself.

use super::*;
use crate::receive::{Sink, StreamInfo, StreamPart};
use proptest::prelude::*;

/// What a part held: stream, object, epoch, first byte, its bytes where they came, what is missing, and the gap before it.
type Held = (u32, u64, u32, usize, Vec<u8>, Vec<(u32, u32)>, u64);

#[derive(Clone, Default)]
struct Bytes(Arc<Mutex<Vec<Held>>>);

impl Sink for Bytes {
    fn stream_began(&mut self, _: &Arc<StreamInfo>) {}
    fn part(&mut self, stream: &Arc<StreamInfo>, part: StreamPart) {
        let mut bytes = part.block[part.range.clone()].to_vec();
        for hole in &part.missing {
            let unit = stream.unit_bytes as usize;
            bytes[hole.start as usize * unit..hole.end as usize * unit].fill(0);
        }
        let StreamPart { object, epoch, range, missing, gap, .. } = part;
        let missing = missing.into_iter().map(|hole| (hole.start, hole.end)).collect();
        self.0.lock().unwrap().push((stream.id, object, epoch, range.start, bytes, missing, gap));
    }
}

/// What an engine makes of groups of packets, each group given at one time: as a train, or one after the other.
fn outcome(groups: &[Group], together: bool) -> (Vec<Held>, String, String) {
    let sender = SocketAddr::from(([127, 0, 0, 1], 1));
    let (sink, mut now) = (Bytes::default(), Nanos::SECOND);
    let (options, pool) = begin(|o| o.assembly.resync = 64);
    let mut engine = Engine::new(options, pool, sink.clone(), None);
    for Group { bytes, stride } in groups {
        let train = Train { bytes, stride: *stride, ..Train::single(&[], &sender) };
        if together {
            engine.handle_train(&train, now);
        } else {
            train.packets().for_each(|packet| engine.handle_train(&Train::single(packet, &sender), now));
        }
        now = now.plus(Nanos(50_000));
    }
    engine.finish(now);
    let tally = engine.tally(true);
    let mut streams: Vec<_> = tally.streams.into_iter().map(|(_, report)| report).collect();
    let order: Vec<_> = streams.iter_mut().map(|report| std::mem::take(&mut report.sequence)).collect();
    let counts = format!("{streams:?} {:?}", tally.rejects);
    (std::mem::take(&mut sink.0.lock().unwrap()), counts, format!("{order:?}"))
}

/// Packets of one length but for the last.
#[derive(Clone, Debug)]
struct Group {
    bytes: Vec<u8>,
    stride: usize,
}

/// What happens to one packet of a stream.
#[derive(Clone, Copy, Debug)]
enum Fate {
    Sent,
    Lost,
    Twice,
    /// It changes places with one so many before it.
    Early(usize),
    /// A byte of its head is another.
    Damaged(usize),
    /// The sender's counter jumps.
    Jump(i64),
}

fn fate() -> impl Strategy<Value = Fate> {
    prop_oneof![
        60 => Just(Fate::Sent),
        3 => Just(Fate::Lost),
        2 => Just(Fate::Twice),
        2 => (1usize..40).prop_map(Fate::Early),
        1 => (0usize..40).prop_map(Fate::Damaged),
        1 => prop_oneof![Just(-400i64), Just(-90), Just(70), Just(3000)].prop_map(Fate::Jump),
    ]
}

fn groups(fates: &[Fate], lengths: &[(usize, bool)], threads: u16, order: Option<Order>) -> Vec<Group> {
    let supply = supply(threads, order);
    let (mut number, mut packets) = (1000i64, Vec::<Vec<u8>>::new());
    for &fate in fates {
        let mut whole = packet(&supply, number as u64);
        match fate {
            Fate::Sent | Fate::Early(_) => packets.push(whole),
            Fate::Lost => {}
            Fate::Twice => packets.extend([whole.clone(), whole]),
            Fate::Damaged(at) => {
                whole[at] ^= 0x55;
                packets.push(whole);
            }
            Fate::Jump(by) => number = (number + by).max(0),
        }
        if let Fate::Early(by) = fate {
            let last = packets.len() - 1;
            packets.swap(last, last.saturating_sub(by));
        }
        number += 1;
    }
    let (mut rest, mut groups) = (packets.as_slice(), Vec::new());
    for &(length, short) in lengths.iter().cycle() {
        if rest.is_empty() {
            return groups;
        }
        let (these, left) = rest.split_at(length.min(rest.len()));
        let stride = these[0].len();
        let mut bytes = these.concat();
        if short {
            // As the kernel joins them: only the last of a train may be shorter.
            bytes.extend_from_slice(&these[0][..stride / 2]);
        }
        groups.push(Group { bytes, stride });
        rest = left;
    }
    unreachable!()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn a_run_leaves_what_its_packets_leave(
        fates in proptest::collection::vec(fate(), 200..1200),
        lengths in proptest::collection::vec((1usize..50, proptest::bool::weighted(0.1)), 1..20),
        threads in prop_oneof![Just(1u16), Just(4)],
        order in prop_oneof![Just(Some(Order::Little)), Just(None)],
    ) {
        let groups = groups(&fates, &lengths, threads, order);
        let (together, one_by_one) = (outcome(&groups, true), outcome(&groups, false));
        prop_assert_eq!(&together.1, &one_by_one.1);
        // Where the counter goes back, it begins anew for the order when its part is handed on: at the end of a train.
        if !fates.iter().any(|fate| matches!(fate, Fate::Jump(..0))) {
            prop_assert_eq!(&together.2, &one_by_one.2);
        }
        // When a part is handed on does not matter, and which of two streams is first.
        let sorted = |mut held: Vec<Held>| { held.sort(); held };
        prop_assert!(sorted(together.0) == sorted(one_by_one.0));
    }
}
