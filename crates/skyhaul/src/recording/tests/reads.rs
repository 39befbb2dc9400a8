//! What reads and checks a scan: damage, other programs' scans, followers.

use super::*;

#[test]
fn check_finds_what_changed() {
    let world = world(2);
    assert!(record(&world, &world.options(), 30).is_whole());
    let path = |number| world.open().datastreams[0].chunks[&number].path.clone();
    let (flipped, cut, gone) = (path(3), path(7), path(11));
    let mut bytes = std::fs::read(&flipped).unwrap();
    bytes[CHUNK / 2] ^= 4;
    std::fs::write(&flipped, bytes).unwrap();
    std::fs::File::options().write(true).open(cut).unwrap().set_len(1234).unwrap();
    std::fs::remove_file(gone).unwrap();
    let check = world.check();
    assert_eq!((check.verdict, check.exit_code()), (Verdict::Damaged, 1));
    assert_eq!((&check.datastreams[0].damaged[..], check.datastreams[0].proven), (&[3, 7, 11][..], 27));
    let mut reader = world.open().reader(0, &ReadOptions::default()).unwrap();
    let mut sink = Vec::new();
    let error = reader.read_to_end(&mut sink).unwrap_err();
    assert!(error.to_string().contains("chunk 3 (") && error.to_string().contains("CRC-32C"), "{error}");
    // Nothing of a chunk goes out before it is proven.
    assert!(sink == (0..3).flat_map(|n| expected(0, n, CHUNK)).collect::<Vec<u8>>());
}

#[test]
fn what_somebody_removed_while_it_was_recorded_is_missed_at_the_end() {
    for engine in engines() {
        let world = world(2);
        let writer = Writer::create(&WriterOptions { engine, ..world.options() }).unwrap();
        let stream = writer.add_datastream(&info(""));
        (0..20).for_each(|number| writer.submit(world.chunk(stream, number)).unwrap());
        let end = Instant::now() + LONG;
        while writer.report().datastreams[0].acknowledged < 20 {
            assert!(Instant::now() < end);
            std::thread::sleep(Duration::from_millis(1));
        }
        // One disk loses the whole scan, index and all.
        let removed = world.disks[1].join("exp_st_no0001");
        let there = std::fs::read_dir(&removed).unwrap().flatten();
        let gone = there.filter(|e| !e.file_name().to_string_lossy().ends_with("index")).count() as u64;
        std::fs::remove_dir_all(&removed).unwrap();
        let report = writer.finish(LONG);
        let stream = &report.datastreams[0];
        assert_eq!((stream.acknowledged, stream.lost, stream.gone), (20, 0, gone), "{report:?}");
        assert!(gone > 0 && !report.is_whole());
        let told = report.events.iter().find(|event| event.kind == "chunks_gone").unwrap();
        assert_eq!(told.disk.as_ref(), Some(&world.disks[1]));
        let named = format!(
            "{gone} acknowledged chunks of exp_st_no0001 are no longer on {}: ",
            world.disks[1].display()
        );
        assert!(told.text.starts_with(&named), "{}", told.text);
        assert_eq!(stream.gone_numbers.len() as u64, gone);
        // The index that is left says so, too.
        let check = world.check();
        assert_eq!(check.exit_code(), 1, "{:?}", check.findings);
    }
}

#[test]
fn time_that_does_not_go_on_is_found() {
    let world = world(1);
    let writer = Writer::create(&world.options()).unwrap();
    let stream = writer.add_datastream(&info(""));
    for number in [0, 1, 4] {
        // Chunk 2 of the file sequence holds object 4: two objects between them never came.
        let chunk = world.chunk(stream, number);
        writer.submit(Chunk { number: number.min(2), ..chunk }).unwrap();
    }
    assert!(writer.finish(LONG).is_whole());
    let check = world.check();
    let stream = &check.datastreams[0];
    assert_eq!((check.verdict, stream.time_breaks, stream.missing_between), (Verdict::Holes, 1, 240));
}

/// Eight threads share a frame number: what is missing is counted in frames, with the recorder's account and without.
#[test]
fn frames_are_counted_and_not_the_numbers_that_threads_share() {
    let world = world(1);
    let writer = Writer::create(&world.options()).unwrap();
    let about = DatastreamInfo { lanes: 8, frames_per_second: Some(75), ..info("") };
    let stream = writer.add_datastream(&about);
    let numbers = UNITS as u32 / 8;
    let time = |number: u32| Some((i64::from(number / 75), number % 75));
    // The objects 3 and 4 never came, and the recorder does not say so, as older ones.
    for (number, object) in [(0, 0), (1, 1), (2, 2), (3, 5)] {
        let mut chunk = world.chunk(stream, number);
        chunk.meta.first_time = time(object * numbers);
        chunk.meta.last_time = time(object * numbers + numbers - 1);
        writer.submit(chunk).unwrap();
    }
    let report = writer.finish(LONG);
    let units = UNITS as u64;
    assert_eq!((report.ledger.received, report.ledger.recorded), (4 * units, 4 * units));
    let sums = || {
        let check = world.check();
        assert!(check.unbalanced.is_empty(), "{:?}", check.unbalanced);
        let ledger = check.ledger;
        assert!(ledger.imbalance("check").is_empty());
        (ledger.received, ledger.recorded, ledger.damaged, ledger.never_received, ledger.between_chunks)
    };
    assert_eq!(sums(), (4 * units, 4 * units, 0, 2 * units, 2 * units));
    let directory = world.disks[0].join("exp_st_no0001");
    std::fs::remove_file(directory.join("exp_st_no0001.00000001")).unwrap();
    let index = directory.join("exp_st_no0001.index");
    let text = std::fs::read_to_string(&index).unwrap();
    let without = |drop: &dyn Fn(&Record) -> bool| {
        let keep =
            text.lines().filter(|line| !Record::parse(line.as_bytes()).is_some_and(|record| drop(&record)));
        std::fs::write(&index, keep.map(|line| format!("{line}\n")).collect::<String>()).unwrap();
    };
    let is_gone = |record: &Record| matches!(record, Record::Chunk(chunk) if chunk.number == 1);
    let all = (4 * units, 3 * units, units, 2 * units, 2 * units);
    assert_eq!(sums(), all, "its file");
    without(&is_gone);
    assert_eq!(sums(), all, "its record, too");
    without(&|record| is_gone(record) || matches!(record, Record::End(_)));
    assert_eq!(sums(), all, "and the account");
}

/// Frames in chunks that contradict the recorder's account are said, and are no success.
#[test]
fn sums_that_do_not_hold_are_said() {
    let world = world(1);
    let report = record(&world, &world.options(), 3);
    assert_eq!(report.ledger.received, 3 * UNITS as u64);
    let index = world.disks[0].join("exp_st_no0001/exp_st_no0001.index");
    let text = std::fs::read_to_string(&index).unwrap();
    let changed = text.lines().map(|line| match Record::parse(line.as_bytes()) {
        Some(Record::End(mut end)) => {
            let ledger = &mut end.datastreams[0].ledger;
            (ledger.received, ledger.recorded) = (ledger.received - 1, ledger.recorded - 1);
            Record::End(end).to_line()
        }
        _ => format!("{line}\n"),
    });
    std::fs::write(&index, changed.collect::<String>()).unwrap();
    let check = world.check();
    assert_eq!((check.verdict, check.exit_code()), (Verdict::Unproven, 1));
    let said = |line: &String| line.contains("frames in chunks, but");
    assert!(check.unbalanced.iter().any(said), "{:?}", check.unbalanced);
}

#[test]
fn plain_flexbuff_scans_are_read_and_adopted() {
    let world = world(2);
    for number in 0..6 {
        let disk = world.disks[number as usize % 2].join("exp_st_no0001");
        std::fs::create_dir_all(&disk).unwrap();
        std::fs::write(disk.join(format!("exp_st_no0001.{number:08}")), expected(0, number, CHUNK)).unwrap();
    }
    let recording = world.open();
    assert_eq!((recording.state, recording.datastreams[0].chunks.len()), (State::Unindexed, 6));
    // Nobody knows what these bytes are: nothing proves them, and they are given only as they lie.
    let mut bytes = Vec::new();
    let as_it_lies = ReadOptions { verify: false, missing: Missing::Skip, ..ReadOptions::default() };
    let mut reader = recording.reader(0, &as_it_lies).unwrap();
    reader.read_to_end(&mut bytes).unwrap();
    assert!(bytes == (0..6).flat_map(|n| expected(0, n, CHUNK)).collect::<Vec<u8>>());
    assert_eq!(reader.gaps().len(), 7, "each chunk, and the open end: {:?}", reader.gaps());
    assert_eq!(world.check().verdict, Verdict::Unproven);
    assert_eq!(ls(&world.disks)[0].unacknowledged, 6);
    assert_eq!(repair(&recording).unwrap(), Repaired { adopted: 6, refused: Vec::new(), closed: true });
    let check = world.check();
    assert_eq!((check.verdict, check.datastreams[0].proven), (Verdict::Whole, 6), "{:?}", check.findings);
    world.assert_holds(0, 0..6);
    assert_eq!(repair(&world.open()).unwrap(), Repaired::default());
}

#[test]
fn frames_are_looked_into() {
    struct Odd;
    impl FrameReader for Odd {
        fn see(&mut self, frame: &[u8]) -> FrameSeen {
            assert_eq!(frame.len(), UNIT);
            FrameSeen {
                illegal: (frame[0] == 0xee).then_some("no sync"),
                filled: frame[0] == 0xff,
                time: None,
                ..FrameSeen::default()
            }
        }
    }
    let world = world(1);
    let writer = Writer::create(&world.options()).unwrap();
    let stream = writer.add_datastream(&info(""));
    let mut chunk = world.chunk(stream, 0);
    (0..UNITS).for_each(|unit| chunk.block.place(unit * UNIT, &[if unit < 3 { 0xee } else { 0xff }]));
    writer.submit(chunk).unwrap();
    assert!(writer.finish(LONG).is_whole());
    let frames = |_: &Datastream| Some(Box::new(Odd) as Box<dyn FrameReader>);
    let options = CheckOptions { frames: Some(&frames), ..CheckOptions::default() };
    let check = world.open().check(&options).unwrap();
    let stream = &check.datastreams[0];
    assert_eq!((stream.frames_seen, stream.illegal_frames, stream.filled_frames), (120, 3, 117));
    assert_eq!(check.verdict, Verdict::Damaged);
}

#[test]
fn followers_get_everything_in_order_and_from_memory_where_it_still_is() {
    let world = world(2);
    let writer = Writer::create(&world.options()).unwrap();
    let stream = writer.add_datastream(&info(""));
    writer.submit(world.chunk(stream, 0)).unwrap();
    while writer.report().datastreams[0].acknowledged < 1 {
        std::thread::sleep(Duration::from_millis(1));
    }
    let recording = world.open();
    assert_eq!(recording.state, State::Live);
    let reading = std::thread::spawn(move || {
        let options = ReadOptions { follow: true, ..ReadOptions::default() };
        let mut reader = recording.reader(0, &options).unwrap();
        let mut bytes = Vec::new();
        reader.read_to_end(&mut bytes).unwrap();
        (bytes, reader.chunks_from_memory())
    });
    for number in 1..50 {
        writer.submit(world.chunk(stream, number)).unwrap();
        std::thread::sleep(Duration::from_millis(2));
    }
    assert!(writer.finish(LONG).is_whole());
    let (bytes, from_memory) = reading.join().unwrap();
    let wanted: Vec<u8> = (0..50).flat_map(|n| expected(0, n, CHUNK)).collect();
    assert!(bytes == wanted);
    assert!(from_memory > 0, "none of 50 chunks came from memory");
}

/// A chunk without the frames that never arrived; `kept` is what arrived of it.
fn packed(world: &World, stream: DatastreamId, kept: &[u8], missing: Vec<Range<u32>>) -> Chunk {
    let mut chunk = world.chunk(stream, 1);
    chunk.block.place(0, kept);
    chunk.range = 0..kept.len();
    (chunk.meta.missing, chunk.meta.packed) = (missing, true);
    chunk
}

#[test]
fn chunks_without_lost_frames_are_filled_however_long_they_are() {
    let world = world(1);
    let writer = Writer::create(&world.options()).unwrap();
    let stream = writer.add_datastream(&info(""));
    let all = expected(0, 1, CHUNK);
    let kept = [&all[..2 * UNIT], &all[4 * UNIT..100 * UNIT], &all[101 * UNIT..]].concat();
    writer.submit(world.chunk(stream, 0)).unwrap();
    writer.submit(packed(&world, stream, &kept, vec![2..4, 100..101])).unwrap();
    assert_eq!(writer.finish(LONG).datastreams[0].acknowledged, 2);
    let fill = |units: usize| skyhaul_core::wire::FILL.iter().copied().cycle().take(units * UNIT);
    let mut wanted = [expected(0, 0, CHUNK), all].concat();
    drop(wanted.splice(CHUNK + 2 * UNIT..CHUNK + 4 * UNIT, fill(2)));
    drop(wanted.splice(CHUNK + 100 * UNIT..CHUNK + 101 * UNIT, fill(1)));
    let options = ReadOptions { missing: Missing::Fill, ..ReadOptions::default() };
    // Held while they are verified, and not.
    for most_held in [u64::MAX, 4096] {
        let mut reader = Reader::holding(most_held, &world.open(), 0, &options).unwrap();
        let mut bytes = Vec::new();
        reader.read_to_end(&mut bytes).unwrap();
        assert!(bytes == wanted, "{most_held}: {} of {} bytes", bytes.len(), wanted.len());
        let account = reader.account();
        assert_eq!((account.frames_filled(), account.frames_left_out(), account.gaps()), (3, 0, 0));
    }
}

#[test]
fn a_hole_behind_part_of_a_frame_ends() {
    let world = world(1);
    let writer = Writer::create(&world.options()).unwrap();
    let stream = writer.add_datastream(&DatastreamInfo { units: 6000, ..info("") });
    // More frames than a piece has, behind one and a half.
    let mut chunk = packed(&world, stream, &expected(0, 1, UNIT * 3 / 2), std::iter::once(2..6000).collect());
    (chunk.number, chunk.meta.units, chunk.meta.last_time) = (0, 6000, None);
    writer.submit(chunk).unwrap();
    assert_eq!(writer.finish(LONG).datastreams[0].acknowledged, 1);
    let options = ReadOptions { missing: Missing::Fill, ..ReadOptions::default() };
    let mut reader = world.open().reader(0, &options).unwrap();
    let mut bytes = Vec::new();
    reader.read_to_end(&mut bytes).unwrap();
    assert_eq!((bytes.len(), reader.account().frames_filled()), (UNIT * 3 / 2 + 5998 * UNIT, 5998));
    assert!(bytes.starts_with(&expected(0, 1, UNIT * 3 / 2)));
}

/// Rewrite the only index of a scan.
fn change_index(world: &World, mut how: impl FnMut(Record) -> Option<Record>) {
    let index = world.disks[0].join("exp_st_no0001/exp_st_no0001.index");
    let text = std::fs::read_to_string(&index).unwrap();
    let records = text.lines().filter_map(|line| how(Record::parse(line.as_bytes()).unwrap()));
    std::fs::write(&index, records.map(|record| record.to_line()).collect::<String>()).unwrap();
}

/// Frames of the reader of the only datastream: given as recorded, filled, left out.
fn frames_read(world: &World, missing: Missing, unit: usize) -> (u64, u64, u64) {
    let options = ReadOptions { missing, ..ReadOptions::default() };
    let mut reader = world.open().reader(0, &options).unwrap();
    let bytes = std::io::copy(&mut reader, &mut std::io::sink()).unwrap();
    let account = reader.account();
    let (filled, left_out) = (account.frames_filled(), account.frames_left_out());
    (bytes / unit as u64 - filled, filled, left_out)
}

/// Chunks that are missing without their records, before one whose recorder did not count what was lost before it.
#[test]
fn frames_of_missing_chunks_are_counted_once() {
    let world = world(1);
    let units = UNITS as u64;
    assert!(record(&world, &world.options(), 6).is_whole());
    for number in [2, 3] {
        std::fs::remove_file(world.disks[0].join(format!("exp_st_no0001/exp_st_no0001.{number:08}")))
            .unwrap();
    }
    change_index(&world, |record| match record {
        Record::Chunk(chunk) if [2, 3].contains(&chunk.number) => None,
        record => Some(record),
    });
    assert_eq!(frames_read(&world, Missing::Skip, UNIT), (4 * units, 0, 2 * units));
    assert_eq!(frames_read(&world, Missing::Fill, UNIT), (4 * units, 2 * units, 0));
}

/// More chunks in a row than are filled: their frames are left out, and not filled once more before the chunk behind them.
#[test]
fn what_was_left_out_is_not_filled_as_well() {
    use skyhaul_core::wire::vdif::{Extended, Header, Vdif};
    // Two chunks of 4 frames, with 12 000 missing between them, and then 3 frames.
    let (gone, units, lost) = (12_000, 4, 3);
    let frame = |n: u32| {
        let vdif = Vdif::shape(1000, 1, 2, false, true).unwrap();
        let vdif = vdif.at(1_767_225_600 + i64::from(n / 1000), n % 1000).unwrap();
        let (octets, length) = Header { vdif, extended: Extended::Legacy }.write();
        [&octets[..length], &[1; 1000]].concat()
    };
    let chunk_from = |first: u32| (first..first + units).flat_map(frame).collect::<Vec<u8>>();
    let behind = (gone + 1) * units + lost;
    let (first, last) = (chunk_from(0), chunk_from(behind));
    let world = world(1);
    let learned = crate::frames::learn(&first, first.len() as u64, 1_767_225_600).unwrap();
    let info = DatastreamInfo { units, frames_per_second: Some(1000), ..learned };
    let unit = info.unit_bytes as usize;
    let writer = Writer::create(&world.options()).unwrap();
    let stream = writer.add_datastream(&info);
    for (number, (begin, bytes)) in [(0, &first), (behind, &last)].into_iter().enumerate() {
        let mut chunk = world.chunk(stream, number as u32);
        chunk.block.place(0, bytes);
        let time = |n: u32| Some((1_767_225_600 + i64::from(n / 1000), n % 1000));
        let (first_time, last_time) = (time(begin), time(begin + units - 1));
        chunk.meta = ChunkMeta { units, first_time, last_time, ..ChunkMeta::default() };
        writer.submit(Chunk { range: 0..bytes.len(), ..chunk }).unwrap();
    }
    assert!(writer.finish(LONG).is_whole());
    // The second file is the last chunk, and its record is lost.
    let name = |number: u32| world.disks[0].join(format!("exp_st_no0001/exp_st_no0001.{number:08}"));
    std::fs::rename(name(1), name(gone + 1)).unwrap();
    change_index(&world, |record| match record {
        Record::Chunk(chunk) if chunk.number == 1 => None,
        Record::End(mut end) => {
            let account = &mut end.datastreams[0];
            account.submitted = u64::from(gone) + 2;
            account.submitted_bytes = account.submitted * first.len() as u64;
            Some(Record::End(end))
        }
        record => Some(record),
    });
    let (units, gone, lost) = (u64::from(units), u64::from(gone), u64::from(lost));
    assert_eq!(frames_read(&world, Missing::Fill, unit), (2 * units, 0, gone * units + lost));
}

/// A frame of another program's scan, by number, thread and whether it is marked invalid; its header begins it.
pub(super) type Foreign = Box<dyn Fn(u32, u32, bool) -> Vec<u8>>;

pub(super) fn foreign_vdif() -> Foreign {
    use skyhaul_core::wire::vdif::{Extended, Header, Vdif};
    Box::new(|n, thread, invalid| {
        let vdif = Vdif::shape(1000, 1, 2, false, true).unwrap();
        let vdif = vdif.at(1_767_225_600 + i64::from(n / 100), n % 100).unwrap();
        let vdif = Vdif { thread, invalid: u32::from(invalid), ..vdif };
        let (octets, length) = Header { vdif, extended: Extended::Legacy }.write();
        [&octets[..length], &[1; 1000]].concat()
    })
}

/// Its seconds have no whole number of packets: packet 133 and what follows lie in the next one.
fn foreign_lofar(clock: u8, second: u32) -> Foreign {
    use skyhaul_core::wire::lofar::{Rsp, SLICES};
    let like = Rsp { version: 3, clock, beamlets: 4, slices: SLICES, station: 214, ..Rsp::default() };
    let begin = Rsp { second, ..like }.time().unwrap() + 3 - 133 * u64::from(SLICES);
    Box::new(move |n, lane, invalid| {
        let header = Rsp { lane: lane as u16, payload_error: u8::from(invalid), ..like };
        let header = header.at(begin + u64::from(n) * u64::from(SLICES)).unwrap();
        [&header.write()[..], &[1; 512]].concat()
    })
}

/// Scans of another program, without an index, from which frames are missing within the files and at their ends: one thread, and
/// several that take turns; the rate follows from the frames. And one whose recorder marked frames as invalid.
#[test]
fn frames_that_are_missing_within_foreign_files_are_counted_and_filled() {
    let lofar = |lanes, clock, second| (foreign_lofar(clock, second), lanes, false);
    let cases = [
        (foreign_vdif(), 1u32, false),
        (foreign_vdif(), 2, false),
        (foreign_vdif(), 3, false),
        (foreign_vdif(), 1, true),
        lofar(1, 1, 1_767_225_600),
        lofar(3, 1, 1_767_225_600),
        // A second with a packet more than those before it.
        lofar(2, 1, 1_767_225_600 + 31),
        lofar(2, 0, 1_767_225_601),
        (foreign_lofar(1, 1_767_225_600), 2, true),
    ];
    for (case, (frame, threads, invalid)) in cases.into_iter().enumerate() {
        let world = world(2);
        let directories = [0, 1].map(|disk| world.disks[disk].join("exp_st_no0001"));
        directories.iter().for_each(|directory| std::fs::create_dir_all(directory).unwrap());
        // Some within a file, some at its end, some within another one; with several threads, one of them once, also at the end and
        // the beginning of a file.
        let gone = |n: u32, thread: u32| {
            (130..137).contains(&n)
                || n == 249
                || (n == 499 && thread + 1 == threads)
                || (n == 612 || n == 750) && thread == 0
        };
        let all: Vec<(u32, u32)> =
            (0..1000).flat_map(|n| (0..threads).map(move |thread| (n, thread))).collect();
        let lost = all.iter().filter(|(n, thread)| gone(*n, *thread)).count() as u64;
        for (number, part) in all.chunks(250 * threads as usize).enumerate() {
            let kept = part.iter().filter(|(n, thread)| invalid || !gone(*n, *thread));
            let bytes: Vec<u8> = kept.flat_map(|&(n, thread)| frame(n, thread, gone(n, thread))).collect();
            let file = directories[number % 2].join(format!("exp_st_no0001.{number:08}"));
            std::fs::write(file, bytes).unwrap();
        }
        let unit = frame(0, 0, false).len();
        let counted = |what: &str| {
            let check = world.check();
            assert!(check.unbalanced.is_empty(), "{what}: {:?}", check.unbalanced);
            let stream = &check.datastreams[0];
            let received = all.len() as u64 - lost;
            assert_eq!(
                (stream.ledger.received, stream.ledger.never_received),
                (received, lost),
                "{what} {case}"
            );
            check.exit_code()
        };
        let read = |what: &str| {
            for missing in [Missing::Fill, Missing::Skip] {
                let options = ReadOptions { missing, ..ReadOptions::default() };
                let mut reader = world.open().reader(0, &options).unwrap();
                let mut bytes = Vec::new();
                reader.read_to_end(&mut bytes).unwrap();
                let of_account = (reader.account().frames_filled(), reader.account().frames_left_out());
                let fills = missing == Missing::Fill;
                let wanted = if invalid {
                    (0, 0)
                } else if fills {
                    (lost, 0)
                } else {
                    (0, lost)
                };
                assert_eq!(of_account, wanted, "{what} {case}");
                let here = all.iter().filter(|(n, thread)| fills || invalid || !gone(*n, *thread));
                let here: Vec<_> = here.collect();
                assert_eq!(bytes.len(), here.len() * unit, "{what} {case}");
                for (seen, &&(n, thread)) in bytes.chunks_exact(unit).zip(&here) {
                    let header = frame(n, thread, gone(n, thread));
                    assert_eq!(seen[..16], header[..16], "{what} {case}: {n} of {thread}");
                }
            }
        };
        assert_eq!(counted("as it lies"), 1);
        read("as it lies");
        let repaired = repair(&world.open()).unwrap();
        assert_eq!((repaired.adopted, &repaired.refused[..], repaired.closed), (4, &[][..], true));
        assert_eq!(counted("adopted"), 0);
        read("adopted");
    }
}

/// Files of another program, without an index, each with these frames: `(number, thread)`.
fn foreign_files(files: &[Vec<(u32, u32)>], frame: &Foreign) -> World {
    let world = world(1);
    let directory = world.disks[0].join("exp_st_no0001");
    std::fs::create_dir_all(&directory).unwrap();
    for (number, frames) in files.iter().enumerate() {
        let bytes: Vec<u8> = frames.iter().flat_map(|&(n, thread)| frame(n, thread, false)).collect();
        std::fs::write(directory.join(format!("exp_st_no0001.{number:08}")), bytes).unwrap();
    }
    world
}

/// Where frames have times but no places, each file is named with its frames, by `check` and after a repair: more may be missing.
#[test]
fn what_is_missing_among_frames_in_no_order_is_said_to_be_unknown() {
    let both = |n: u32| [(n, 0), (n, 1)];
    let in_order = |range: Range<u32>| range.flat_map(both).collect::<Vec<_>>();
    // The threads change their order from one time to the next, and some frames are not there.
    let mixed: Vec<(u32, u32)> = (500..750)
        .filter(|n| n % 50 != 7)
        .flat_map(|n| if n % 2 == 0 { both(n) } else { [(n, 1), (n, 0)] })
        .collect();
    let (count, mut back) = (mixed.len() as u64, in_order(750..1000));
    back[100..].rotate_left(200);
    let cases = [
        (mixed.clone(), count, "they lie in no order", [true, true]),
        (back, 500, "they lie in no order", [false, true]),
        // Of another time than the files beside it: a record counts it as it is.
        (in_order(100..350), 500, "their times do not fit the place of the file", [false, false]),
    ];
    for (odd, frames, why, [is_proven, stays]) in cases {
        let files = [in_order(0..250), in_order(250..500), odd, in_order(1000..1250)];
        let world = foreign_files(&files, &foreign_vdif());
        let said = |check: &CheckReport| {
            assert_eq!((check.verdict, check.exit_code()), (Verdict::Unproven, 1));
            let stream = &check.datastreams[0];
            let of = |file: &UncountedFile| (file.number, file.frames);
            assert_eq!(stream.uncounted.iter().map(of).collect::<Vec<_>>(), [(2, frames)], "{why}");
            let text = format!("what is missing among its {frames} frames cannot be counted: {why}");
            assert_eq!(stream.uncounted[0].why, text);
            let path = world.disks[0].join("exp_st_no0001/exp_st_no0001.00000002");
            let is_it = |finding: &&Finding| finding.text == text && finding.path.as_ref() == Some(&path);
            assert_eq!(check.findings.iter().filter(is_it).count(), 1, "{:?}", check.findings);
        };
        said(&world.check());
        let text = format!("what is missing among its {frames} frames cannot be counted: {why}");
        // A reader that fills gaps says so, before a repair and behind it; files that are not proven are left out, with their reason.
        let gaps = |missing| {
            let mut reader = world.open().reader(0, &ReadOptions { missing, ..<_>::default() }).unwrap();
            reader.read_to_end(&mut Vec::new()).unwrap();
            let gaps = reader.account().gaps_from(0);
            gaps.into_iter().filter(|gap| gap.chunks == (2, 3)).map(|gap| gap.why).collect::<Vec<_>>()
        };
        let [before] = &gaps(Missing::Fill)[..] else { panic!("not one gap") };
        assert_eq!(
            (before.ends_with(&text), before.starts_with("unverified: ")),
            (is_proven, !is_proven),
            "{before}"
        );
        let repaired = repair(&world.open()).unwrap();
        assert_eq!(repaired.adopted, 4, "{repaired:?}");
        let after = if stays { vec![text] } else { vec![] };
        assert_eq!((gaps(Missing::Fill), gaps(Missing::Skip)), (after, vec![]));
        if stays {
            said(&world.check());
        } else {
            assert!(world.check().datastreams[0].uncounted.is_empty());
        }
    }
    // In order, nothing is unknown.
    let world = foreign_files(&[in_order(0..250), in_order(250..500)], &foreign_vdif());
    assert!(world.check().datastreams[0].uncounted.is_empty());
}

/// Frames of one second have places, whether the rate is known or not; those of two have none without it.
#[test]
fn what_is_missing_within_a_second_is_counted_without_a_rate() {
    let one = |numbers: &[u32]| numbers.iter().map(|&n| (n, 0)).collect::<Vec<_>>();
    let first: Vec<u32> = (3..40).filter(|n| !(10..15).contains(n)).collect();
    let world = foreign_files(&[one(&first), one(&(42..60).collect::<Vec<_>>())], &foreign_vdif());
    let check = world.check();
    let stream = &check.datastreams[0];
    assert_eq!((stream.ledger.received, stream.ledger.never_received), (50, 7), "{:?}", check.findings);
    assert!(stream.uncounted.is_empty(), "{:?}", stream.uncounted);
    let mut reader =
        world.open().reader(0, &ReadOptions { missing: Missing::Fill, ..<_>::default() }).unwrap();
    let mut bytes = Vec::new();
    reader.read_to_end(&mut bytes).unwrap();
    let unit = foreign_vdif()(0, 0, false).len();
    assert_eq!((bytes.len() / unit, reader.account().frames_filled()), (57, 7));
    for (n, seen) in (3..60).zip(bytes.chunks_exact(unit)) {
        let header = foreign_vdif()(n, 0, (10..15).contains(&n) || (40..42).contains(&n));
        assert_eq!(seen[..16], header[..16], "{n}");
    }
    assert_eq!(repair(&world.open()).unwrap().adopted, 2);
    let check = world.check();
    assert_eq!(
        (check.exit_code(), check.datastreams[0].ledger.never_received),
        (0, 7),
        "{:?}",
        check.findings
    );
    // Its frames disprove the rate that the end of the second seems to give.
    let world = foreign_files(&[one(&[3, 4, 50, 110, 111, 160, 203])], &foreign_vdif());
    let check = world.check();
    let why = &check.datastreams[0].uncounted[0].why;
    assert!(check.exit_code() == 1 && why.ends_with("their rate is not known"), "{why}");
}

/// A file without a record that ends within a frame, at each place of a scan: its whole frames are delivered, and the cut one is a gap, filled or
/// left out, and counted once.
#[test]
fn whole_frames_of_a_cut_file_are_delivered_and_the_cut_one_is_counted() {
    let files = |from: u32| (from..from + 250).map(|n| (n, 0)).collect::<Vec<_>>();
    let unit = foreign_vdif()(0, 0, false).len();
    for cut in 0..3usize {
        let world = foreign_files(&[files(0), files(250), files(500)], &foreign_vdif());
        let path = world.disks[0].join(format!("exp_st_no0001/exp_st_no0001.{cut:08}"));
        let mut bytes = std::fs::read(&path).unwrap();
        bytes.truncate(240 * unit + 100);
        std::fs::write(&path, bytes).unwrap();
        // Nothing says what followed in the last one.
        let behind = if cut == 2 { 0 } else { 9 };
        let check = world.check();
        let ledger = &check.datastreams[0].ledger;
        let counts = (ledger.received, ledger.unverified, ledger.damaged, ledger.never_received);
        assert_eq!(counts, (741, 740, 1, behind), "{cut}: {:?}", check.findings);
        assert!(check.unbalanced.is_empty() && check.exit_code() == 1, "{cut}: {check:?}");
        for missing in [Missing::Skip, Missing::Fill] {
            let options = ReadOptions { missing, ..ReadOptions::default() };
            let mut reader = world.open().reader(0, &options).unwrap();
            let mut bytes = Vec::new();
            reader.read_to_end(&mut bytes).unwrap();
            let counts = (reader.account().frames_filled(), reader.account().frames_left_out());
            let fills = missing == Missing::Fill;
            let gone = |n: usize| (250 * cut + 240..250 * cut + 250).contains(&n);
            assert_eq!(counts, if fills { (1 + behind, 0) } else { (0, 1 + behind) }, "{cut}");
            let here = (0..750).filter(|&n| !gone(n) || fills && (cut < 2 || n == 740));
            let here: Vec<usize> = here.collect();
            assert_eq!(bytes.len(), here.len() * unit, "{cut}");
            for (seen, &n) in bytes.chunks_exact(unit).zip(&here) {
                assert_eq!(seen[..16], foreign_vdif()(n as u32, 0, gone(n))[..16], "{cut}: {n}");
            }
            assert!(reader.account().gaps_from(0).iter().any(|gap| gap.why.contains("ends within a frame")));
        }
        // As a file to be mounted, it has all bytes, of which those of the cut frame are missing.
        let layout = world.open().layout(0);
        assert_eq!(layout.bytes(), (740 * unit + 100) as u64, "{cut}");
        let missing = layout.extents.iter().filter(|e| matches!(e.content, ExtentContent::Missing(_)));
        assert_eq!(missing.map(|extent| extent.bytes).collect::<Vec<_>>(), [100], "{cut}");
        assert_eq!(repair(&world.open()).unwrap().refused.len(), 1, "{cut}");
    }
}
