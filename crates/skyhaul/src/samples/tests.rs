mod parts;

use super::{Options, Samples, *};
use crate::recording::{ChunkMeta, ChunkRecord, Datastream, DatastreamInfo, Record, Recording, Session};
use proptest::prelude::*;
use skyhaul_core::wire::FILL;
use skyhaul_core::wire::mark5b::{self, Mark5b};
use skyhaul_core::wire::vdif::{Extended, Header, Vdif};
use std::path::{Path, PathBuf};

/// A file of VDIF, and what must be read from it.
struct Model {
    frames: u32,
    threads: u16,
    fps: u32,
    shape: Vdif,
    /// By frame and thread: octets of samples, if they are to be read.
    payloads: Vec<Option<Vec<u8>>>,
}

const SECOND: i64 = 1_767_225_600;

impl Model {
    fn coding(&self) -> Coding {
        Coding::Offset(self.shape.bits())
    }

    fn each(&self) -> usize {
        self.shape.channels() as usize * (1 + self.shape.complex as usize)
    }

    /// Row by row, sample by sample.
    fn rows(&self, from: u64, count: usize) -> Vec<f32> {
        let (each, bits) = (self.each(), self.shape.bits() as usize);
        let frame_rows = self.shape.samples();
        let mut rows = Vec::new();
        for row in from..from + count as u64 {
            let (frame, at) = ((row / frame_rows) as usize, (row % frame_rows) as usize);
            for thread in 0..usize::from(self.threads) {
                for n in 0..each {
                    let payload = self.payloads.get(frame * usize::from(self.threads) + thread);
                    let sample = payload.and_then(Option::as_ref).map_or(f32::NAN, |payload| {
                        let bit = (at * each + n) * bits;
                        let code = (0..bits).fold(0u32, |code, b| {
                            code | u32::from(payload[(bit + b) / 8] >> ((bit + b) % 8) & 1) << b
                        });
                        self.coding().level(code)
                    });
                    rows.push(sample);
                }
            }
        }
        rows
    }
}

/// What becomes of a frame.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Fate {
    Whole,
    Lost,
    Invalid,
    Twice,
    /// Another number of channels in its header.
    Other,
}

fn fates() -> impl Strategy<Value = Fate> {
    prop_oneof![
        12 => Just(Fate::Whole),
        1 => Just(Fate::Lost),
        1 => Just(Fate::Invalid),
        1 => Just(Fate::Twice),
        1 => Just(Fate::Other),
    ]
}

#[derive(Debug, Clone)]
struct Plan {
    bits: u32,
    channels: u32,
    complex: bool,
    threads: u16,
    fps: u32,
    first: u32,
    fates: Vec<Fate>,
    disorder: usize,
    files: usize,
    seed: u64,
}

fn plans() -> impl Strategy<Value = Plan> {
    let shape = (0u32..6, 0u32..4, any::<bool>(), 1u16..6, 1u32..4);
    let rest = (any::<u32>(), prop::collection::vec(fates(), 8..60), 0usize..5, 1usize..4, any::<u64>());
    (shape, rest).prop_map(
        |((bits, channels, complex, threads, fps), (first, fates, disorder, files, seed))| Plan {
            bits: 1 << bits,
            channels: 1 << channels,
            complex,
            threads,
            fps: fps * 7,
            first: first % (fps * 7),
            fates,
            disorder,
            files,
            seed,
        },
    )
}

/// Write the files of a plan. The first and the last frames are whole, so that the format and the extent are known.
fn write(plan: &Plan, directory: &std::path::Path) -> (Model, Vec<PathBuf>) {
    let shape = Vdif::shape(64 * 8, plan.channels, plan.bits, plan.complex, false).unwrap();
    let threads = usize::from(plan.threads);
    let frames = plan.fates.len().div_ceil(threads) + 8;
    let mut random = plan.seed | 1;
    let mut octet = || {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (random >> 56) as u8
    };
    let (mut payloads, mut units) = (Vec::new(), Vec::new());
    for frame in 0..frames as u32 {
        for thread in 0..threads {
            let at = frame as usize * threads + thread;
            let inner = at.checked_sub(4 * threads).and_then(|at| plan.fates.get(at));
            // Two seconds without their last frame speak against the rate: `ends_of_seconds_that_are_missing`.
            let is_last = (plan.first + frame + 1).is_multiple_of(plan.fps);
            let fate = inner.copied().filter(|_| !is_last).unwrap_or(Fate::Whole);
            let payload: Vec<u8> = (0..512).map(|_| octet()).collect();
            let number = plan.first + frame;
            let time = SECOND + i64::from(number / plan.fps);
            let vdif = shape.at(time, number % plan.fps).unwrap();
            let mut header = Header {
                vdif: Vdif { thread: thread as u32, ..vdif },
                extended: Extended::read(&[0; 16]).unwrap(),
            };
            match fate {
                Fate::Invalid => header.vdif.invalid = 1,
                Fate::Other => header.vdif.log2_channels ^= 1,
                _ => {}
            }
            let (octets, length) = header.write();
            let unit = [&octets[..length], &payload].concat();
            if fate != Fate::Lost {
                units.push(unit.clone());
            }
            if fate == Fate::Twice {
                // The second one has other samples: the first counts.
                units.push([&octets[..length], &[0x5A; 512]].concat());
            }
            payloads.push(matches!(fate, Fate::Whole | Fate::Twice).then_some(payload));
        }
    }
    // Neighbours change places, duplicates keep theirs.
    let middle = 2 * threads..units.len() - 2 * threads;
    for at in middle.step_by(7) {
        let other = at + plan.disorder;
        if other + 2 * threads < units.len()
            && units[at][..32] != units[other][..32]
            && plan.fates.iter().all(|f| *f != Fate::Twice)
        {
            units.swap(at, other);
        }
    }
    let each = units.len().div_ceil(plan.files);
    let paths = units.chunks(each).enumerate().map(|(n, units)| {
        let path = directory.join(format!("{n}.vdif"));
        std::fs::write(&path, units.concat()).unwrap();
        path
    });
    let paths = paths.collect();
    let model = Model { frames: frames as u32, threads: plan.threads, fps: plan.fps, shape, payloads };
    (model, paths)
}

fn bits(rows: &[f32]) -> Vec<u32> {
    rows.iter().map(|x| if x.is_nan() { u32::MAX } else { x.to_bits() }).collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

    /// Any format, loss, disorder and division into files; any range, by any number of workers.
    #[test]
    fn any_range_is_what_was_written(plan in plans(), ranges in prop::collection::vec((0.0f64..1.0, 0.0f64..1.1), 1..6), workers in 1usize..4) {
        let directory = tempfile::tempdir().unwrap();
        let (model, paths) = write(&plan, directory.path());
        let rate = u64::from(model.fps) * model.shape.samples();
        let options = Options { sample_rate: Some(rate), workers, ..Options::default() };
        let samples = Samples::of_files(&paths, &options).unwrap();
        prop_assert_eq!(samples.rows(), u64::from(model.frames) * model.shape.samples());
        prop_assert_eq!(samples.start(), (SECOND + i64::from(plan.first / plan.fps), plan.first % plan.fps));
        for (from, length) in ranges {
            let from = (from * samples.rows() as f64) as u64;
            let count = (length * samples.rows() as f64) as usize;
            let mut rows = vec![7.0; count * samples.row()];
            let read = samples.read(from, &mut rows).unwrap();
            prop_assert_eq!(bits(&rows), bits(&model.rows(from, count)));
            for (n, valid) in read.valid.iter().enumerate() {
                let at = read.frames.start as usize * usize::from(model.threads) + n;
                let expected = model.payloads.get(at).is_some_and(Option::is_some);
                prop_assert_eq!(*valid, expected, "frame and thread {}", at);
            }
            prop_assert_eq!(samples.validity(read.frames.clone()), read);
        }
    }
}

fn vdif_file(path: &std::path::Path, frames: u32, bits: u32) {
    let shape = Vdif::shape(800, 1, bits, false, true).unwrap();
    let frame = |n| [&shape.at(SECOND, n).unwrap().write()[..], &[0xE4; 800]].concat();
    std::fs::write(path, (0..frames).flat_map(frame).collect::<Vec<u8>>()).unwrap();
}

#[test]
fn what_cannot_be_decoded_is_said() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("x.vdif");
    let open = |options: Options| Samples::of_files([&path], &options).map(|_| ()).unwrap_err().to_string();
    assert!(open(Options::default()).contains("No such file"));
    std::fs::write(&path, []).unwrap();
    assert!(open(Options::default()).contains("no data"));
    std::fs::write(&path, [0x55; 5000]).unwrap();
    assert!(open(Options::default()).contains("no frames of a known format"));
    vdif_file(&path, 20, 2);
    assert!(open(Options::default()).contains("sample rate is unknown"));
    let rate = Some(3200 * 20);
    assert!(
        open(Options { sample_rate: Some(99), ..Options::default() }).contains("no whole number of frames")
    );
    assert!(
        open(Options { sample_rate: rate, channels: Some(3), ..Options::default() }).contains("1 channels")
    );
    assert!(open(Options { sample_rate: rate, bits: Some(1), ..Options::default() }).contains("2 bits"));
    assert!(
        open(Options { sample_rate: rate, threads: Some(vec![0, 0]), ..Options::default() })
            .contains("each once")
    );
    vdif_file(&path, 20, 5);
    assert!(open(Options { sample_rate: rate, ..Options::default() }).contains("5 bits in offset binary"));
}

#[test]
fn a_file_that_ends_within_a_frame_or_is_out_of_step_says_so() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("x.vdif");
    vdif_file(&path, 20, 2);
    let whole = std::fs::read(&path).unwrap();
    let options = Options { sample_rate: Some(3200 * 20), ..Options::default() };
    let open = |bytes: &[u8]| {
        std::fs::write(&path, bytes).unwrap();
        Samples::of_files([&path], &options)
    };
    let notes = |bytes: &[u8]| open(bytes).unwrap().notes().join("\n");
    assert!(!notes(&whole).contains("ends within"), "{}", notes(&whole));
    let cut = notes(&whole[..whole.len() - 500]);
    assert!(
        cut.contains(&format!("x.vdif ends within a frame: its last {} bytes", whole.len() / 20 - 500)),
        "{cut}"
    );
    // 300 bytes too many amid the file: from there on, no frame is where the first ones say.
    let (begin, end) = whole.split_at(whole.len() / 2);
    let out_of_step = open(&[begin, &[0x55; 300], end].concat()).unwrap();
    let placed = 10;
    assert_eq!(
        (out_of_step.rows(), out_of_step.not_shown(&(0..out_of_step.rows()), placed)),
        (10 * 3200, 10)
    );
    // Fill stands for a frame that is missing; zeros are no fill.
    let fill = FILL.repeat(whole.len() / 20 / 4);
    let filled = open(&[begin, &fill, &end[fill.len()..]].concat()).unwrap();
    assert_eq!(filled.not_shown(&(0..filled.rows()), 19), 0);
    let zeros = open(&[begin, &vec![0; fill.len()], &end[fill.len()..]].concat()).unwrap();
    assert_eq!(zeros.not_shown(&(0..zeros.rows()), 19), 1);
    // In a longer file, no frame is found from its end on.
    vdif_file(&path, 3000, 2);
    let whole = std::fs::read(&path).unwrap();
    let (begin, end) = whole.split_at(whole.len() / 3000 * 10);
    std::fs::write(&path, [begin, &[0x55; 300], end].concat()).unwrap();
    let options = Options { sample_rate: Some(3200 * 4000), ..Options::default() };
    let error = Samples::of_files([&path], &options).unwrap_err().to_string();
    assert!(error.contains("x.vdif: the frames at its beginning are not continued"), "{error}");
}

#[test]
fn integers_too_narrow_are_refused_and_rows_must_be_whole() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("x.vdif");
    vdif_file(&path, 20, 16);
    let options = Options { sample_rate: Some(400 * 20), ..Options::default() };
    let samples = Samples::of_files([&path], &options).unwrap();
    assert!(samples.read(0, &mut [0i8; 4]).unwrap_err().to_string().contains("do not fit into 8 bits"));
    let mut out = [0i16; 2];
    assert!(samples.read(0, &mut out).unwrap().is_whole());
    assert_eq!(out, [0xE4E4u16 as i16 ^ i16::MIN; 2]);
    // Beyond the end, all is missing.
    let mut out = [0f32; 3];
    let read = samples.read(samples.rows() - 1, &mut out).unwrap();
    assert!(!out[0].is_nan() && out[1].is_nan() && out[2].is_nan());
    assert_eq!(read.valid, [true, false]);
    assert!(samples.read(u64::MAX, &mut out).is_err());
}

/// The rate is measured where whole seconds are there.
#[test]
fn the_rate_is_measured_at_the_ends_of_seconds() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("x.vdif");
    let shape = Vdif::shape(800, 1, 2, false, true).unwrap();
    let frame =
        |n: u32| [&shape.at(SECOND + i64::from(n / 50), n % 50).unwrap().write()[..], &[0xE4; 800]].concat();
    std::fs::write(&path, (20..300).flat_map(frame).collect::<Vec<u8>>()).unwrap();
    let samples = Samples::of_files([&path], &Options::default()).unwrap();
    assert_eq!((samples.frames_per_second(), samples.sample_rate()), (50, 50 * 3200));
    assert_eq!(samples.start(), (SECOND, 20));
    assert_eq!(samples.rows(), 280 * 3200);
}

#[test]
fn a_rate_that_one_end_of_a_second_speaks_against_is_doubted() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("x.vdif");
    let shape = Vdif::shape(800, 1, 2, false, true).unwrap();
    let frame =
        |n: u32| [&shape.at(SECOND + i64::from(n / 50), n % 50).unwrap().write()[..], &[0xE4; 800]].concat();
    let write = |frames: std::ops::Range<u32>| {
        std::fs::write(&path, frames.flat_map(frame).collect::<Vec<u8>>()).unwrap();
    };
    let doubt = |fps: u64| {
        let options = Options { sample_rate: Some(fps * 3200), ..Options::default() };
        let samples = Samples::of_files([&path], &options).unwrap();
        let doubt = samples.rate_doubt().map(str::to_owned);
        assert_eq!(samples.notes().len(), usize::from(doubt.is_some()));
        doubt
    };
    // From the middle of a second to the middle of the next.
    write(30..75);
    let text = doubt(60).unwrap();
    assert!(text.contains("192000 samples/s is 60 frames/s") && text.contains("160000 samples/s"), "{text}");
    assert!(text.contains("10 frames are missing"), "{text}");
    assert_eq!(doubt(50), None);
    // Without the end of a second nothing speaks against it; two ends prove it wrong.
    write(0..45);
    assert_eq!(doubt(60), None);
    write(30..130);
    let options = Options { sample_rate: Some(60 * 3200), ..Options::default() };
    assert!(matches!(Samples::of_files([&path], &options), Err(SamplesError::TooFast { fps: 60, last: 49 })));
}

/// The last frames of seconds may be behind the first ones of the next, but are not missing then.
#[test]
fn ends_of_seconds_that_are_missing() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("x.vdif");
    let shape = Vdif::shape(800, 1, 2, false, true).unwrap();
    let frame =
        |n: u32| [&shape.at(SECOND + i64::from(n / 50), n % 50).unwrap().write()[..], &[0xE4; 800]].concat();
    let open = |numbers: &[u32]| {
        std::fs::write(&path, numbers.iter().copied().flat_map(frame).collect::<Vec<u8>>()).unwrap();
        Samples::of_files([&path], &Options { sample_rate: Some(50 * 3200), ..Options::default() })
    };
    // Where a search meets the second depends on where the data begin.
    for (first, late) in (0..49).flat_map(|first| [1, 2, 5, 9].map(|late| (first, late))) {
        let mut numbers: Vec<u32> = (first..180).collect();
        for end in [49, 99, 149] {
            let end = end - first as usize;
            numbers[end..=end + late].rotate_left(1);
        }
        let samples = open(&numbers).unwrap();
        let rows = u64::from(180 - first) * 3200;
        assert_eq!((samples.rate_doubt(), samples.rows()), (None, rows), "{first} {late}");
    }
    let missing: Vec<u32> = (0..180).filter(|n| n % 50 != 49).collect();
    assert!(matches!(open(&missing), Err(SamplesError::TooFast { fps: 50, last: 48 })));
}

/// EDV 4: a mask over channels, of each frame and thread.
#[test]
fn channels_marked_as_invalid_are_missing() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("x.vdif");
    let shape = Vdif::shape(800, 4, 2, false, false).unwrap();
    let masks = [[0b1111, 0b1111], [0b1101, 0b1111], [0b1111, 0], [0b0110, 0b1111]];
    let unit = |n: usize, thread: usize| {
        let extended: Vec<u8> = [4 << 24 | 4 << 16, 0xACAB_FEED, masks[n][thread], 0]
            .iter()
            .flat_map(|word: &u32| word.to_le_bytes())
            .collect();
        let vdif = shape.at(SECOND, n as u32).unwrap();
        let header = Header {
            vdif: Vdif { thread: thread as u32, ..vdif },
            extended: Extended::read(&extended).unwrap(),
        };
        let (octets, length) = header.write();
        [&octets[..length], &[0xFF; 800]].concat()
    };
    let units: Vec<Vec<u8>> = (0..4).flat_map(|n| [unit(n, 0), unit(n, 1)]).collect();
    std::fs::write(&path, units.concat()).unwrap();
    let options = Options { sample_rate: Some(800 * 4), workers: 1, ..Options::default() };
    let samples = Samples::of_files([&path], &options).unwrap();
    let mut rows = vec![0.0; samples.rows() as usize * samples.row()];
    let read = samples.read(0, &mut rows).unwrap();
    for (at, row) in rows.chunks_exact(8).enumerate() {
        let valid = row.iter().map(|sample| !sample.is_nan());
        let mask = masks[at / 800];
        let expected = (0..8).map(|n| mask[n / 4] >> (n % 4) & 1 == 1);
        assert!(valid.eq(expected), "row {at}: {row:?}");
    }
    assert_eq!(read.valid, [true, true, false, true, true, false, false, true]);
    assert_eq!(samples.validity(0..4), read);
    // A range within a frame.
    let mut part = vec![0.0; 3 * 8];
    samples.read(801, &mut part).unwrap();
    assert!(part.chunks_exact(8).all(|row| row[1].is_nan() && !row[0].is_nan()));
}

const PAYLOAD: usize = 64;
const FPS: u32 = 50;
const RATE: u64 = FPS as u64 * 4 * PAYLOAD as u64;

/// A frame that is not of this number nor thread is not equal to it.
fn frame(number: u32, thread: u16) -> Vec<u8> {
    let shape = Vdif::shape(PAYLOAD, 1, 2, false, false).unwrap();
    let at = shape.at(SECOND + i64::from(number / FPS), number % FPS).unwrap();
    let mut bytes = Vdif { thread: u32::from(thread), ..at }.write().to_vec();
    bytes.resize(32, 0);
    bytes.resize(32 + PAYLOAD, number as u8 ^ (thread as u8) << 7);
    bytes
}

fn options() -> Options {
    Options { sample_rate: Some(RATE), workers: 2, ..Options::default() }
}

fn file(directory: &Path, name: &str, frames: impl Iterator<Item = (u32, u16)>) -> PathBuf {
    let path = directory.join(name);
    std::fs::write(&path, frames.flat_map(|(number, thread)| frame(number, thread)).collect::<Vec<_>>())
        .unwrap();
    path
}

/// Frames that are not valid, and recorded ones that are not shown.
fn missing(samples: &Samples) -> (usize, u64) {
    let mut rows = vec![0f32; samples.rows() as usize * samples.row()];
    let read = samples.read(0, &mut rows).unwrap();
    let missing = read.valid.iter().filter(|&&valid| !valid).count();
    (missing, samples.not_shown(&(0..samples.rows()), read.placed))
}

#[test]
fn a_thread_that_begins_late_has_a_column() {
    let directory = tempfile::tempdir().unwrap();
    let late = (0..2000).flat_map(|n| [(n, 0), (n, 5)]).filter(|&(n, thread)| thread == 0 || n >= 1200);
    let samples = Samples::of_files([file(directory.path(), "late.vdif", late)], &options()).unwrap();
    assert_eq!(samples.threads(), [0, 5]);
    assert_eq!(missing(&samples), (1200, 0));
    let chosen = Options { threads: Some(vec![0]), ..options() };
    let path = directory.path().join("late.vdif");
    assert_eq!(missing(&Samples::of_files([path], &chosen).unwrap()), (0, 0), "the other is not wanted");
}

#[test]
fn what_one_axis_of_time_cannot_show_is_counted() {
    let directory = tempfile::tempdir().unwrap();
    let twice = (0..300).chain(100..300).map(|n| (n, 0));
    let samples = Samples::of_files([file(directory.path(), "twice.vdif", twice)], &options()).unwrap();
    let (missing, not_shown) = missing(&samples);
    assert_eq!(missing, 0);
    assert_eq!(not_shown, 200);
}

/// Pieces that are not in order of time are found all the same.
#[test]
fn files_in_any_order_are_read() {
    let directory = tempfile::tempdir().unwrap();
    let part =
        |from: u32| file(directory.path(), &format!("{from}.vdif"), (from..from + 100).map(|n| (n, 0)));
    let samples = Samples::of_files([part(200), part(0), part(100)], &options()).unwrap();
    assert_eq!(samples.start(), (SECOND, 0));
    assert_eq!((samples.rows(), missing(&samples)), (300 * 4 * PAYLOAD as u64, (0, 0)));
}

/// Chunks of frames that a sequence number placed: the first one ends within a set.
fn scan(disk: &Path, all: &[(u32, u16)], first: usize, each: usize) {
    std::fs::create_dir(disk.join("x")).unwrap();
    let session = Session {
        index: 1,
        session: "c0ffee".into(),
        version: "test".into(),
        scan: "x".into(),
        disks: vec![disk.to_owned()],
        disk: 0,
        started: "2026-01-01T00:00:00Z".into(),
        pid: 1,
        memory: None,
        copies: 1,
        metadata: serde_json::Value::Null,
    };
    let format = serde_json::json!(
        {"format": "vdif", "header_at": 0, "threads": [0, 1, 2, 3], "edv": 0, "near": SECOND}
    );
    let info = DatastreamInfo {
        unit_bytes: 32 + PAYLOAD as u32,
        units: each as u32,
        frames_per_second: Some(FPS),
        lanes: 4,
        format,
        ..DatastreamInfo::default()
    };
    let stream = Datastream { datastream: 0, name: "x".into(), info };
    let mut records = vec![Record::Session(session), Record::Datastream(stream)];
    let (head, rest) = all.split_at(first);
    for (number, units) in std::iter::once(head).chain(rest.chunks(each)).enumerate() {
        let bytes: Vec<u8> = units.iter().flat_map(|&(n, thread)| frame(n, thread)).collect();
        std::fs::write(disk.join(format!("x/x.{number:08}")), &bytes).unwrap();
        let time = |at: usize| Some((SECOND + i64::from(units[at].0 / FPS), units[at].0 % FPS));
        let meta = ChunkMeta {
            units: units.len() as u32,
            first_time: time(0),
            last_time: time(units.len() - 1),
            ..ChunkMeta::default()
        };
        records.push(Record::Chunk(ChunkRecord {
            number: number as u32,
            bytes: bytes.len() as u64,
            crc32c: crc32c::crc32c(&bytes),
            meta,
            ..ChunkRecord::default()
        }));
    }
    let text: String = records.iter().map(Record::to_line).collect();
    std::fs::write(disk.join("x/x.index"), text).unwrap();
}

/// The index has the time of a chunk's first and last frame as their headers say it.
#[test]
fn damaged_headers_at_the_ends_of_chunks_make_no_axis_of_years() {
    for (damaged, at_an_end) in [(0, 1), (39, 0), (40, 0), (159, 0), (160, 0), (199, 1)] {
        for wrong in [9_000_000, 3_000_000_000] {
            let disk = tempfile::tempdir().unwrap();
            let all: Vec<_> = (0..200).map(|n| (if n == damaged { wrong } else { n + 1000 }, 0)).collect();
            scan(disk.path(), &all, 40, 40);
            let recording = Recording::open([disk.path()], "x").unwrap();
            let options = Options { threads: Some(vec![0]), ..options() };
            let samples = Samples::of_recording(&recording, 0, &options).unwrap();
            assert_eq!(samples.rows(), (200 - at_an_end) * 256, "frame {damaged}");
            assert_eq!(missing(&samples), (1 - at_an_end as usize, 1), "frame {damaged}");
        }
    }
}

#[test]
fn sets_divided_among_chunks_are_read_whole() {
    let all: Vec<(u32, u16)> = (0..120).flat_map(|n| (0..4).map(move |thread| (n, thread))).collect();
    for first in 1..8 {
        let disk = tempfile::tempdir().unwrap();
        scan(disk.path(), &all, first, 4);
        let recording = Recording::open([disk.path()], "x").unwrap();
        let samples = Samples::of_recording(&recording, 0, &options()).unwrap();
        assert_eq!(samples.threads(), [0, 1, 2, 3], "the first chunk has {first} frames");
        assert_eq!(missing(&samples), (0, 0), "the first chunk has {first} frames");
        // Blocks that begin with a set that is divided.
        for n in 0..120 {
            let read = samples.validity(n..n + 1);
            assert!(read.is_whole(), "frame {n} of chunks that begin with {first}: {read:?}");
        }
    }
}

/// Samples in a frame of [`file`].
const FRAME: u64 = 3200;

/// Frames of some threads, from number `from` to before `to`, at `fps`; without those that are lost.
fn lossy_file(path: &Path, threads: u32, fps: u32, from: u32, to: u32, lost: impl Fn(u32) -> bool) {
    let shape = Vdif::shape(800, 1, 2, false, true).unwrap();
    let frame = |n: u32, thread: u32| {
        let vdif = shape.at(SECOND + i64::from(n / fps), n % fps).unwrap();
        [&Vdif { thread, ..vdif }.write()[..], &[0xE4; 800]].concat()
    };
    let there = (from..to).filter(|&n| !lost(n));
    let all = there.flat_map(|n| (0..threads).map(move |thread| frame(n, thread)));
    std::fs::write(path, all.flatten().collect::<Vec<u8>>()).unwrap();
}

fn opened(path: &Path, fps: u32) -> Result<u32, String> {
    let options = Options { sample_rate: Some(u64::from(fps) * FRAME), ..Options::default() };
    Samples::of_files([path], &options)
        .map(|samples| samples.frames_per_second())
        .map_err(|error| error.to_string())
}

/// The first frames have no number that a rate of 9000 could not have.
#[test]
fn a_rate_that_a_later_frame_number_disproves_is_refused_at_once() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("x.vdif");
    for (threads, from, to) in [(1, 0, 25_000), (2, 9_500, 11_000), (1, 0, 9_990)] {
        lossy_file(&path, threads, 10_000, from, to, |n| n % 7 == 3);
        let why = opened(&path, 9_000).unwrap_err();
        assert!(why.contains("9000 frames/s are too few: the data have frame number 99"), "{why}");
        assert!(why.contains("hint: correct the sample rate"), "{why}");
        assert_eq!(opened(&path, 10_000), Ok(10_000));
    }
}

#[test]
fn a_rate_with_which_seconds_would_have_no_end_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("x.vdif");
    lossy_file(&path, 2, 1000, 300, 5700, |n| n % 11 == 5);
    let why = opened(&path, 2000).unwrap_err();
    assert!(
        why.contains("2000 frames/s are too many: the seconds of the data end with frame number 999"),
        "{why}"
    );
    assert_eq!(opened(&path, 1000), Ok(1000));
    // One end alone may be a loss.
    lossy_file(&path, 1, 1000, 300, 1700, |_| false);
    assert_eq!(opened(&path, 2000), Ok(2000));
    // The ends of some seconds are lost: the others show the rate.
    lossy_file(&path, 1, 1000, 0, 8000, |n| (2990..3000).contains(&n));
    assert_eq!(opened(&path, 1000), Ok(1000));
}

/// A damaged header has any number, alone.
#[test]
fn one_damaged_header_disproves_no_rate() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("x.vdif");
    lossy_file(&path, 1, 1000, 0, 3000, |_| false);
    let mut bytes = std::fs::read(&path).unwrap();
    for frame in [999, 1000, 2999] {
        bytes[frame * 816 + 5] ^= 0x55;
    }
    std::fs::write(&path, bytes).unwrap();
    assert_eq!(opened(&path, 1000), Ok(1000));
}

/// A damaged second hides no other frame, and at an end of a file it does not lengthen the axis.
#[test]
fn a_damaged_header_hides_nothing_else() {
    let directory = tempfile::tempdir().unwrap();
    let there: Vec<u32> = (0..300).filter(|n| !(20..40).contains(n)).collect();
    for damaged in (0..there.len()).step_by(9).chain([1, 139, 140, 141, 142, 209, 279]) {
        // About 194 days or 17 years later, or earlier; or 4 s.
        for (octet, bit) in [(3, 0x01), (3, 0x20), (0, 0x04)] {
            let path = file(directory.path(), "x.vdif", there.iter().map(|&n| (n, 0)));
            let mut bytes = std::fs::read(&path).unwrap();
            bytes[damaged * (32 + PAYLOAD) + octet] ^= bit;
            std::fs::write(&path, bytes).unwrap();
            let samples = Samples::of_files([&path], &options()).unwrap();
            if octet == 0 {
                assert!(missing(&samples).0 >= 20 && missing(&samples).1 <= 1, "frame {damaged}");
                continue;
            }
            let at_an_end = usize::from([0, 279].contains(&damaged));
            assert_eq!(samples.rows(), (300 - at_an_end as u64) * 256, "frame {damaged}");
            assert_eq!(missing(&samples), (21 - at_an_end, 1), "frame {damaged}");
        }
    }
}

/// Where 15 bits number all frames of a second, the bit above them marks a test vector, and is no part of the number.
#[test]
fn the_test_bit_of_mark_5b_is_no_part_of_the_frame_number() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("x.m5b");
    let frame = |n: u32| {
        let time = mark5b::Time { day: 41, second: n / 200, frame: n % 200 };
        let header = Mark5b { test: 1, crc: 0, fraction_bcd: 0, ..Mark5b::new(time, 0) };
        [&header.write()[..], &[0x1B; mark5b::PAYLOAD]].concat()
    };
    std::fs::write(&path, (150..650).flat_map(frame).collect::<Vec<u8>>()).unwrap();
    let options = Options {
        sample_rate: Some(200 * 40_000),
        channels: Some(1),
        bits: Some(2),
        near: Some(SECOND),
        ..Options::default()
    };
    let samples = Samples::of_files([&path], &options).unwrap();
    assert_eq!((samples.frames_per_second(), samples.rows()), (200, 500 * 40_000));
    assert_eq!(samples.start(), (SECOND, 150));
    let mut rows = vec![0f32; 40_000];
    assert_eq!(samples.read(460_000, &mut rows).unwrap().placed, 2, "parts of two frames");
    assert!(rows.iter().all(|sample| sample.is_finite()));
}
