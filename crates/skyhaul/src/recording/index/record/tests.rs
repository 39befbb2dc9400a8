use super::*;
use crate::recording::{ChunkRecord, Record};
use proptest::prelude::*;

#[test]
fn parts_make_the_whole() {
    let mut octets: Vec<u8> = (0..2 * PART_BYTES + 5).map(|n| ((n * n) >> 7) as u8).collect();
    let all = Checksums::of(&octets);
    assert_eq!(all.whole, crc32c::crc32c(&octets));
    assert_eq!(all.parts.len(), 3);
    assert_eq!(all.parts[2], crc32c::crc32c(&octets[2 * PART_BYTES as usize..]));
    octets.truncate(PART_BYTES as usize);
    assert_eq!(Checksums::of(&octets), Checksums { whole: all.parts[0], parts: Vec::new() });
    assert_eq!(Checksums::of(&[]), Checksums { whole: 0, parts: Vec::new() });
}

#[test]
fn records_keep_them_and_need_none() {
    for parts in [vec![], vec![0xDEAD_BEEF, 7]] {
        let record = Record::Chunk(ChunkRecord { number: 3, parts, ..ChunkRecord::default() });
        let line = record.to_line();
        assert_eq!(Record::parse(line.trim_end().as_bytes()), Some(record), "{line}");
    }
    let json = r#"{"record":"chunk","datastream":0,"number":0,"bytes":9,"crc32c":1,"parts":"0000001","object":0,"units":1}"#;
    assert!(serde_json::from_str::<Record>(json).is_err());
}

proptest! {
    #[test]
    fn the_counters_are_told_in_order(steps in proptest::collection::vec(prop_oneof![5 => Just(4i64), 1 => any::<i64>()], 0..300), begin: u64) {
        let mut heaps = HeapsOf::default();
        let mut counter = begin;
        let mut given = Vec::new();
        for step in steps {
            given.push(counter);
            heaps.add(counter, &[]);
            counter = counter.wrapping_add_signed(step);
        }
        prop_assert_eq!(heaps.all_counters().unwrap().collect::<Vec<_>>(), given);
        let json = serde_json::to_string(&heaps).unwrap();
        prop_assert_eq!(serde_json::from_str::<HeapsOf>(&json).unwrap(), heaps);
    }
}

#[test]
fn items_are_listed_once_or_not_at_all() {
    let mut heaps = HeapsOf::default();
    assert!(!heaps.may_carry(5), "there is no heap");
    heaps.add(1, &[]);
    [0x1001, 5, 0x1000, 5].into_iter().for_each(|id| heaps.add_item(id));
    assert_eq!(heaps.items, Some(vec![5, 0x1000, 0x1001]));
    assert!(heaps.may_carry(5) && !heaps.may_carry(6));
    (0..2000).for_each(|id| heaps.add_item(id));
    assert!(heaps.items.is_none() && heaps.may_carry(5000), "too many to tell");
    let older = r#"{"count":2,"counters":[[1,1,2]]}"#;
    assert!(serde_json::from_str::<HeapsOf>(older).unwrap().may_carry(5), "older indexes do not tell");
}

#[test]
fn regular_counters_are_one_entry_and_there_is_a_bound() {
    let mut heaps = HeapsOf::default();
    (0..4096).for_each(|n| heaps.add(70_000 + 3 * n, &[]));
    assert_eq!(heaps.counters, [(70_000, 3, 4096)]);
    let mut heaps = HeapsOf::default();
    for n in 0..100_000u64 {
        heaps.add(n * n * n, &[5..7, 9..10]);
    }
    assert_eq!((heaps.count, heaps.incomplete, heaps.missing_bytes), (100_000, 100_000, 300_000));
    assert!(
        heaps.counters.len() <= MAX_RUNS && heaps.missing.len() <= MAX_MISSING_RANGES && heaps.left_out > 0
    );
    assert!(heaps.all_counters().is_none());
    assert!(
        serde_json::to_string(&heaps).unwrap().len() < crate::recording::index::record::MAX_LINE_BYTES / 4
    );
}
