use super::*;
use crate::recording::Event;
use crate::recording::index::record::{ChunkMeta, ChunkRecord};
use proptest::prelude::*;

fn records() -> Vec<Record> {
    let chunk = |number: u32| {
        let meta = ChunkMeta {
            object: u64::from(number),
            units: 9,
            missing: vec![1..2, 5..9],
            ..Default::default()
        };
        let crc32c = number.wrapping_mul(0x9e37_79b9);
        Record::Chunk(ChunkRecord { number, bytes: u64::MAX, crc32c, meta, ..Default::default() })
    };
    let event = Record::Event(Event::now("note", None, "a \"quoted\"\nline, ünïcode".into()));
    vec![chunk(0), event, chunk(1), chunk(u32::MAX)]
}

fn read(path: &Path) -> (Vec<Record>, Tally) {
    let mut all = Vec::new();
    let mut reader = IndexReader::open(path).unwrap();
    reader.read(|record| all.push(record)).unwrap();
    (all, reader.tally())
}

/// Property: cut anywhere, an index gives exactly the records whose line end is still there; appended to
/// after that (behind a line end), it gives those and the new ones.
#[test]
fn an_index_torn_at_any_byte_keeps_all_whole_records() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("x.index");
    let records = records();
    let text: String = records.iter().map(Record::to_line).collect();
    for cut in 0..=text.len() {
        std::fs::write(&path, &text.as_bytes()[..cut]).unwrap();
        let whole = text.as_bytes()[..cut].iter().filter(|&&b| b == b'\n').count();
        let (found, tally) = read(&path);
        assert_eq!(found, records[..whole], "cut at {cut}");
        let tail = text.as_bytes()[..cut].rsplit(|&b| b == b'\n').next().map_or(0, <[u8]>::len);
        assert_eq!((tally.records, tally.garbage, tally.torn_bytes), (whole as u64, 0, tail as u64));
        let mut more = text.as_bytes()[..cut].to_vec();
        more.push(b'\n');
        more.extend(records[0].to_line().bytes());
        std::fs::write(&path, &more).unwrap();
        let (found, _) = read(&path);
        // Cut just before a line end, the appended end makes that record whole again.
        assert!(found.len() == whole + 1 || found.len() == whole + 2, "cut at {cut}");
        assert_eq!(found.last(), Some(&records[0]));
    }
}

/// Property: any one byte changed costs at most the records of the lines it touches, never another.
#[test]
fn a_rotten_byte_costs_one_record_only() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("x.index");
    let records = records();
    let text: Vec<u8> = records.iter().map(Record::to_line).collect::<String>().into_bytes();
    for at in 0..text.len() {
        for flip in [0x01, 0x20, 0x80] {
            let mut rotten = text.clone();
            rotten[at] ^= flip;
            std::fs::write(&path, &rotten).unwrap();
            let (found, tally) = read(&path);
            let line = text[..at].iter().filter(|&&b| b == b'\n').count();
            let kept: Vec<_> = found.iter().filter(|r| records.contains(r)).collect();
            // A changed line end joins two lines. Upper case digits of the checksum still say the same.
            assert_eq!(kept.len(), found.len(), "byte {at}: nothing is invented");
            assert!(found.len() >= records.len() - 2, "byte {at} of line {line}: {tally:?}");
        }
    }
}

#[test]
fn a_growing_index_is_read_on() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("x.index");
    let records = records();
    let text: String = records.iter().map(Record::to_line).collect();
    let mut reader = {
        std::fs::write(&path, "").unwrap();
        IndexReader::open(&path).unwrap()
    };
    let mut found = Vec::new();
    for end in (0..text.len()).step_by(7).chain([text.len()]) {
        std::fs::write(&path, &text.as_bytes()[..end]).unwrap();
        reader.read(|record| found.push(record)).unwrap();
    }
    assert_eq!(found, records);
}

#[test]
fn line_ends_that_were_changed_are_counted_and_the_records_read() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("x.index");
    let records = records();
    let text: String = records.iter().map(Record::to_line).collect();
    std::fs::write(&path, text.replace('\n', "\r\n")).unwrap();
    let (found, tally) = read(&path);
    assert_eq!((found, tally.changed, tally.garbage), (records, 4, 0));
}

#[test]
fn a_kind_of_record_that_is_not_known_is_no_garbage() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("x.index");
    let json = r#"{"record":"of_a_later_version","a":1}"#;
    std::fs::write(&path, format!("{:08x} {json}\n", crc32c::crc32c(json.as_bytes()))).unwrap();
    let (found, tally) = read(&path);
    assert_eq!((found, tally.records, tally.garbage), (vec![Record::Other], 1, 0));
}

#[test]
fn a_file_that_is_no_index_is_not_read_for_ever() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("x.index");
    std::fs::write(&path, records()[1].to_line()).unwrap();
    // Eight exabytes, if the file system counts that far: reading them would take years.
    let file = File::options().write(true).open(&path).unwrap();
    let long = [1 << 62, 1 << 43].into_iter().any(|length| file.set_len(length).is_ok());
    assert!(long, "no sparse file can be made here");
    let (found, tally) = read(&path);
    assert_eq!((found.len(), tally.given_up), (1, true));
}

#[test]
fn a_fifo_with_the_name_of_an_index_is_refused_at_once() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("x.index");
    assert!(std::process::Command::new("mkfifo").arg(&path).status().unwrap().success());
    let said = IndexReader::open(&path).unwrap_err().to_string();
    assert_eq!(said, "it is a FIFO, not a regular file");
}

#[test]
fn garbage_is_counted_and_memory_stays_small() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("x.index");
    let mut bytes = vec![b'x'; MAX_LINE_BYTES + 100_000];
    bytes.extend(b"\n00000000 {}\nzzzzzzzz {}\n\n\xff\xfe\n");
    bytes.extend(records()[2].to_line().bytes());
    std::fs::write(&path, &bytes).unwrap();
    let (found, tally) = read(&path);
    assert_eq!((found, tally.garbage), (vec![records()[2].clone()], 4));
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
