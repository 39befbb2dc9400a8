use super::*;
use crate::ledger::FrameLedger;
use crate::recording::index::record::{DatastreamInfo, HeapsOf};
use proptest::prelude::*;
use std::ops::Range;

const UNIT: u32 = 1000;
const RATE: u32 = 50;

fn about(lanes: u32, numbered: bool) -> Datastream {
    let info = DatastreamInfo {
        unit_bytes: UNIT,
        units: 100,
        frames_per_second: Some(RATE),
        lanes,
        numbered,
        ..DatastreamInfo::default()
    };
    Datastream { datastream: 0, name: "s".into(), info }
}

fn account(between_chunks: u64, in_chunks: u64) -> DatastreamReport {
    let ledger = FrameLedger {
        received: 1000,
        recorded: 1000,
        never_received: between_chunks + in_chunks,
        in_chunks,
        between_chunks,
        ..FrameLedger::default()
    };
    DatastreamReport { name: "s".into(), ledger, ..DatastreamReport::default() }
}

fn time(frame: u64) -> Option<Time> {
    Some(((frame / u64::from(RATE)) as i64, (frame % u64::from(RATE)) as u32))
}

/// A chunk of frame numbers, in which some units are missing and left out.
fn chunk(number: u32, frames: Range<u64>, gap: u64, lanes: u32, missing: &[Range<u32>]) -> ChunkRecord {
    let units = (frames.end - frames.start) as u32 * lanes;
    let meta = ChunkMeta {
        units,
        gap: Some(gap),
        missing: missing.to_vec(),
        packed: !missing.is_empty(),
        first_time: time(frames.start),
        last_time: time(frames.end - 1),
        ..ChunkMeta::default()
    };
    ChunkRecord { number, bytes: meta.received_units() * u64::from(UNIT), meta, ..ChunkRecord::default() }
}

/// What is found in the second of two chunks, of the frame numbers 0 to 9 and 20 to 29.
fn found(claims: &mut Claims, change: impl FnOnce(&mut ChunkRecord)) -> (Vec<String>, ChunkRecord) {
    assert!(claims.chunk(&mut chunk(0, 0..10, 0, 1, &[])).is_empty());
    let mut record = chunk(1, 20..30, 10, 1, &[]);
    change(&mut record);
    let gaps = claims.chunk(&mut record);
    assert!(gaps.iter().all(|gap| gap.lack == Lack::Contradicted && gap.chunks == (1, 1)), "{gaps:?}");
    (gaps.into_iter().map(|gap| gap.why).collect(), record)
}

#[test]
fn a_gap_is_bounded_by_times_sums_and_bytes() {
    let [timed, numbered] = [false, true].map(|numbered| about(1, numbered));
    let accounts = [account(10, 0), account(1 << 40, 0)];
    let cases: [(&Datastream, Option<&DatastreamReport>, u64, Option<&str>); 9] = [
        (&timed, None, 10, None),
        (&timed, None, u64::MAX, Some("no recording has so many bytes")),
        (&timed, None, 100, Some("the times of the chunks around it leave at most 14")),
        (&timed, Some(&accounts[0]), 10, None),
        (&timed, Some(&accounts[0]), 12, Some("the recorder's account leaves 10")),
        (&numbered, Some(&accounts[1]), 100, None),
        (&numbered, Some(&accounts[0]), 100, Some("the recorder's account leaves 10")),
        (&numbered, None, 1 << 50, None),
        (&numbered, None, 1 << 51, Some("no recording has so many bytes")),
    ];
    for (about, account, gap, why) in cases {
        let mut claims = Claims::new("s", Some(about), account);
        let (said, record) = found(&mut claims, |record| record.meta.gap = Some(gap));
        let wanted = why.map(|why| {
            format!("the index claims {gap} frames lost before chunk 1, but {why}: the claim is not used")
        });
        assert_eq!(said, wanted.clone().into_iter().collect::<Vec<_>>(), "{gap}");
        assert_eq!(record.meta.gap, if wanted.is_some() { None } else { Some(gap) });
        assert_eq!((record.meta.units, record.bytes), (10, 10_000));
    }
}

/// In another epoch of the stream times begin anew; where a single frame at the end of a chunk has a wrong time, the others count.
#[test]
fn times_bound_a_gap_only_where_they_belong_together() {
    let about = about(1, false);
    let new = || Claims::new("s", Some(&about), None);
    let (said, _) = found(&mut new(), |record| (record.meta.epoch, record.meta.gap) = (1, Some(5000)));
    assert!(said.is_empty(), "{said:?}");
    let (said, _) = found(&mut new(), |record| record.meta.first_time = time(3));
    assert!(said.is_empty(), "{said:?}");
    let (said, _) = found(&mut new(), |record| {
        (record.meta.first_time, record.meta.last_time) = (time(3), time(9));
    });
    assert_eq!(said.len(), 1, "{said:?}");
}

/// The units of a chunk, those missing in it, and what contradicts them.
type Case<'a> = (u32, &'a [(u32, u32)], &'a str);

fn ranges(pairs: &[(u32, u32)]) -> Vec<Range<u32>> {
    pairs.iter().map(|&(from, to)| from..to).collect()
}

#[test]
fn what_is_missing_in_a_chunk_fits_into_it() {
    let whole = |record: &ChunkRecord| (record.meta.units, record.meta.missing.len(), record.meta.packed);
    let cases: [Case<'_>; 6] = [
        (10, &[(0, u32::MAX)], "they are no ranges, in order, of its 10 frames"),
        (14, &[(8, 12), (2, 4)], "they are no ranges, in order, of its 14 frames"),
        (u32::MAX, &[(10, u32::MAX)], "a whole chunk has 100"),
        (60, &[(10, 60)], "its times leave 12 frames in all"),
        (13, &[(10, 11)], "12 others cannot lie in its 10000 bytes"),
        (12, &[(3, 5)], "the recorder's account leaves 1"),
    ];
    let (about, account) = (about(1, false), account(10, 1));
    for (units, missing, why) in cases {
        let mut claims = Claims::new("s", Some(&about), Some(&account));
        let (said, record) = found(&mut claims, |record| {
            (record.meta.units, record.meta.missing, record.meta.packed) = (units, ranges(missing), true);
        });
        assert!(said.len() == 1 && said[0].contains(why), "{said:?}: {why}");
        assert_eq!(whole(&record), (10, 0, false), "{said:?}");
    }
    let mut claims = Claims::new("s", Some(&about), Some(&account));
    let (said, record) = found(&mut claims, |record| {
        (record.meta.units, record.meta.missing, record.meta.packed) = (11, ranges(&[(3, 4)]), true);
    });
    assert_eq!((said.len(), whole(&record)), (0, (11, 1, true)));
}

#[test]
fn heaps_have_bytes() {
    let mut claims = Claims::new("s", None, None);
    let heaps = |count, missing_bytes| {
        let mut heaps = HeapsOf::default();
        (heaps.count, heaps.missing_bytes, heaps.counters) = (count, missing_bytes, vec![(0, 1, u32::MAX)]);
        Some(heaps)
    };
    let mut record = |heaps| {
        let mut record = chunk(0, 0..1, 0, 1, &[]);
        record.meta.heaps = heaps;
        let gaps = claims.chunk(&mut record);
        (gaps.len(), record.meta.heaps.is_some())
    };
    assert_eq!(record(heaps(125, 7)), (0, true));
    assert_eq!(record(heaps(126, 7)), (1, false));
    assert_eq!(record(heaps(1, u64::MAX)), (1, false));
}

#[test]
fn a_lost_chunk_and_the_account_are_judged_as_well() {
    let about = about(1, false);
    let lost = |units, missing_units, gap| LostChunk {
        number: 1,
        bytes: 10_000,
        units,
        missing_units,
        gap,
        first_time: time(20),
        last_time: time(29),
        ..LostChunk::new(0, 1, crate::ledger::Discard::DisksFull, &Default::default())
    };
    for (units, missing, gap, gaps) in [
        (10, 2, 10, 0),
        (10, 0, 5000, 1),
        (10, 11, 10, 1),
        (90, 10, 10, 1),
        (u32::MAX, u64::from(u32::MAX), u64::MAX, 2),
    ] {
        let mut claims = Claims::new("s", Some(&about), None);
        assert!(claims.chunk(&mut chunk(0, 0..10, 0, 1, &[])).is_empty());
        let mut record = lost(units, missing, gap);
        assert_eq!(claims.lost(&mut record, Some(0)).len(), gaps, "{units} {missing} {gap}");
        assert!(record.gap <= 14 && record.units <= 10 && record.missing_units <= 2, "{record:?}");
    }
    let account = DatastreamReport {
        ledger: FrameLedger { received: u64::MAX, ..account(1, 1).ledger },
        ..account(1, 1)
    };
    let mut stream =
        DatastreamEntry { datastream: Some(about), account: Some(account), ..DatastreamEntry::default() };
    judge(&mut stream, true, true);
    assert_eq!(stream.contradicted.len(), 1, "{:?}", stream.contradicted);
    assert_eq!(stream.account.unwrap().ledger, FrameLedger::default());
}

/// A chunk as recorders write it: the units lost before it, its units, and those missing in it.
type Written = (u64, u32, Vec<Range<u32>>);

fn recorded() -> impl Strategy<Value = Vec<Written>> {
    let missing = |units: u32| {
        prop::collection::btree_set(0..units, 0..8)
            .prop_map(|at| at.into_iter().map(|at| at..at + 1).collect())
    };
    let chunk = (prop_oneof![Just(0u64), 0u64..300], 2u32..100)
        .prop_flat_map(move |(gap, units)| (Just(gap), Just(units), missing(units)));
    prop::collection::vec(chunk, 1..20)
}

proptest! {
    /// Property: no claim of a recorder is contradicted, with threads that share frame numbers, and whatever the rate.
    #[test]
    fn what_recorders_write_is_believed(chunks in recorded(), lanes in 1u32..9, first in 0u64..200, seconds in 1u64..4) {
        // So many frame numbers in so many seconds, as with LOFAR's clocks.
        let frames = 50 * seconds + u64::from(seconds > 1);
        let time = |at: u64| {
            let number = at / u64::from(lanes);
            let begin = |second: u64| second * frames / seconds;
            let second = (0..).take_while(|&second| begin(second) <= number).last().unwrap();
            Some((second as i64, (number - begin(second)) as u32))
        };
        let sum = |of: fn(&Written) -> u64| chunks.iter().map(of).sum::<u64>();
        let account = account(sum(|one| one.0), sum(|one| one.2.len() as u64));
        let mut claims = Claims::new("s", Some(&about(lanes, false)), Some(&account));
        claims.rate = Some(Rate::fraction(frames, seconds));
        let mut at = first;
        for (number, (gap, units, missing)) in chunks.into_iter().enumerate() {
            let begin = at + gap;
            at = begin + u64::from(units);
            let meta = ChunkMeta {
                units,
                packed: !missing.is_empty(),
                missing,
                gap: Some(gap),
                first_time: time(begin),
                last_time: time(at - 1),
                ..ChunkMeta::default()
            };
            let bytes = meta.received_units() * u64::from(UNIT);
            let mut record = ChunkRecord { number: number as u32, bytes, meta, ..ChunkRecord::default() };
            let before = record.clone();
            let gaps = claims.chunk(&mut record);
            prop_assert!(gaps.is_empty(), "{gaps:?} {before:?}");
            prop_assert_eq!(record, before);
        }
    }

    /// Property: whatever a record says, nothing panics, and what is left of it is within bounds.
    #[test]
    fn what_is_left_of_any_record_is_bounded(
        sizes in (any::<u32>(), any::<u64>(), any::<Option<u64>>(), any::<bool>(), any::<bool>()),
        missing in prop::collection::vec((any::<u32>(), any::<u32>()), 0..5),
        times in (any::<Option<(i64, u32)>>(), any::<Option<(i64, u32)>>(), any::<u64>()),
        of in (any::<u32>(), any::<u32>(), any::<Option<u32>>(), any::<u32>(), any::<bool>()),
    ) {
        let (units, bytes, gap, packed, adopted) = sizes;
        let (unit_bytes, whole, frames_per_second, lanes, numbered) = of;
        let info = DatastreamInfo { unit_bytes, units: whole, frames_per_second, lanes, numbered, ..DatastreamInfo::default() };
        let about = Datastream { info, ..Datastream::default() };
        let missing: Vec<Range<u32>> = missing.into_iter().map(|(from, to)| from..to).collect();
        let (first_time, last_time, epoch) = times;
        let meta = ChunkMeta { units, missing, gap, packed, first_time, last_time, epoch, ..ChunkMeta::default() };
        let mut claims = Claims::new("s", Some(&about), None);
        claims.chunk(&mut chunk(0, 0..10, 0, 1, &[]));
        let mut record = ChunkRecord { number: 1, bytes, adopted, meta, ..ChunkRecord::default() };
        claims.chunk(&mut record);
        let unit = u128::from(unit_bytes.max(1));
        let meta = &record.meta;
        prop_assert!(u128::from(meta.gap.unwrap_or(0)) * unit <= 1 << 60);
        prop_assert!(u128::from(meta.missing_units()) <= u128::from(meta.units));
        prop_assert!(unit_bytes == 0 || u128::from(meta.received_units()) * unit <= u128::from(bytes) + unit || !meta.packed);
        let mut lost = LostChunk::new(0, 2, crate::ledger::Discard::Unknown, &meta.given(bytes));
        (lost.units, lost.gap, lost.missing_units) = (units, gap.unwrap_or(0), gap.unwrap_or(0));
        claims.lost(&mut lost, Some(epoch));
        prop_assert!(u128::from(lost.gap) * unit <= 1 << 60 && lost.missing_units <= u64::from(lost.units));
    }
}
