//! Heaps of any shape onto disks and back: what is read is what was received.

use super::*;
use crate::recording::{
    CheckOptions, Missing, ReadOptions, Recording, RecordingReport, Verdict, WriterOptions,
};
use crate::spead::receive::{StopRule, Stream, StreamConfig};
use proptest::prelude::*;
use skyhaul_core::wire::spead::Flavour;
use skyhaul_io::memory::PoolOptions;
use std::path::PathBuf;

/// A heap as a sender has it.
#[derive(Clone, Debug)]
struct Sent {
    bytes: usize,
    pointers: usize,
    sized: bool,
    /// Payload of a packet.
    each: usize,
    /// Packets that are lost, of 100.
    lost: u32,
}

/// What a received heap is.
type Seen = (u64, Vec<u64>, Vec<u8>, Vec<Range<u64>>, Option<u64>, bool);

fn seen(heap: &Heap) -> Seen {
    let pointers = heap.pointers().to_vec();
    (heap.number, pointers, heap.payload().to_vec(), heap.missing.clone(), heap.size, heap.complete)
}

fn config(window: usize) -> StreamConfig {
    let mut config = StreamConfig { incomplete: true, stop: StopRule::Never, ..StreamConfig::default() };
    (config.heaps.window, config.heaps.timeout) = (window, None);
    config
}

/// The packets of a heap, less those that are lost.
fn packets(counter: u64, heap: &Sent) -> Vec<Vec<u8>> {
    let flavour = Flavour::SPEAD_64_48;
    let pointers: Vec<u64> = (0..heap.pointers as u64).map(|n| flavour.addressed(0x1000 + n, n)).collect();
    let payload: Vec<u8> = (0..heap.bytes).map(|n| (n as u64 * 31 + counter * 7) as u8).collect();
    let mut packets = Vec::new();
    let starts = (0..heap.bytes.max(1)).step_by(heap.each);
    for (n, at) in starts.enumerate() {
        let part = &payload[at.min(heap.bytes)..(at + heap.each).min(heap.bytes)];
        let mut packet = Vec::new();
        NewHead {
            flavour,
            counter,
            size: heap.sized.then_some(heap.bytes as u64),
            offset: at as u64,
            length: part.len() as u64,
            pointers: if n == 0 { &pointers } else { &[] },
        }
        .write(&mut packet);
        packet.extend_from_slice(part);
        // As good as random, and the same each time.
        let draw = (counter * 7919 + n as u64 * 104_729) % 100;
        if draw as u32 >= heap.lost {
            packets.push(packet);
        }
    }
    packets
}

/// Have a stream put packets together.
fn received(packets: &[Vec<u8>]) -> Vec<Heap> {
    let stream = Stream::new(&config(4));
    stream.add_bytes(packets.concat()).unwrap();
    std::iter::from_fn(|| stream.get(None).ok()).collect()
}

/// A recorder of the scan `heaps`.
fn recorder(disks: &[PathBuf], pool: &PoolOptions, flush: Duration) -> (Arc<Writer>, HeapRecorder) {
    let pool = Pool::new(pool).unwrap();
    let options = WriterOptions {
        reserve_bytes: 0,
        pool: Some(pool.clone()),
        ..WriterOptions::new(disks.iter(), "heaps")
    };
    let writer = Arc::new(Writer::create(&options).unwrap());
    (writer.clone(), HeapRecorder::new(writer, pool, flush).announced())
}

/// Write what there is.
fn finish(writer: Arc<Writer>, mut recorder: HeapRecorder) -> RecordingReport {
    recorder.finished().unwrap();
    drop(recorder);
    Arc::into_inner(writer).unwrap().finish(Duration::from_secs(60))
}

struct Scan {
    _directory: tempfile::TempDir,
    disks: Vec<PathBuf>,
}

impl Scan {
    /// Record heaps in blocks of so many bytes.
    fn of(heaps: &[Heap], block_bytes: usize) -> (Self, RecordingReport) {
        let directory = tempfile::tempdir().unwrap();
        let disks: Vec<PathBuf> = (0..2).map(|n| directory.path().join(format!("d{n}"))).collect();
        disks.iter().for_each(|disk| std::fs::create_dir(disk).unwrap());
        let pool = PoolOptions { total_bytes: 16 * block_bytes as u64, block_bytes, shared: false };
        let (writer, mut recorder) = recorder(&disks, &pool, Duration::from_secs(60));
        heaps.iter().for_each(|heap| recorder.take(heap));
        assert_eq!(recorder.lost().load(Ordering::Relaxed), 0);
        let report = finish(writer, recorder);
        assert!(report.is_whole(), "{report:?}");
        (Self { _directory: directory, disks }, report)
    }

    fn open(&self) -> Recording {
        Recording::open(self.disks.clone(), "heaps").unwrap()
    }

    /// Its heaps, as a stream gives them, and how much is missing.
    fn heaps(&self, missing: Missing) -> (Vec<Seen>, u64) {
        let reader = self.open().reader(0, &ReadOptions { missing, ..ReadOptions::default() }).unwrap();
        let account = reader.account();
        let mut config = config(1);
        config.heaps.remember = 0;
        let stream = Stream::new(&config);
        stream.add_recording("heaps", reader).unwrap();
        let heaps = std::iter::from_fn(|| stream.get(None).ok()).map(|heap| seen(&heap)).collect();
        let stats = stream.stats();
        assert_eq!((stats.total.rejects.total(), stats.total.skipped_bytes), (0, 0), "{stats:?}");
        (heaps, account.gaps())
    }
}

fn sent() -> impl Strategy<Value = Sent> {
    let bytes = prop_oneof![Just(0usize), 1usize..200, 200usize..9000, 9000usize..60_000];
    let pointers = prop_oneof![8 => 0usize..5, 1 => 5usize..1200];
    let lost = prop_oneof![Just(0u32), Just(5), Just(60)];
    (bytes, pointers, any::<bool>(), 20usize..3000, lost)
        .prop_map(|(bytes, pointers, sized, each, lost)| Sent { bytes, pointers, sized, each, lost })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn what_is_read_is_what_was_received(sent in proptest::collection::vec(sent(), 1..40), block in prop_oneof![Just(4096usize), Just(20_480), Just(65_536)]) {
        let packets: Vec<_> = (1..).zip(&sent).flat_map(|(counter, heap)| packets(counter, heap)).collect();
        let heaps = received(&packets);
        prop_assume!(!heaps.is_empty());
        let (scan, _) = Scan::of(&heaps, block);
        let (read, gaps) = scan.heaps(Missing::Refuse);
        prop_assert_eq!(gaps, 0);
        let wanted: Vec<Seen> = heaps.iter().map(seen).collect();
        let counters = |heaps: &[Seen]| heaps.iter().map(|heap| heap.0).collect::<Vec<_>>();
        prop_assert_eq!(counters(&read), counters(&wanted));
        for (read, wanted) in read.iter().zip(&wanted) {
            prop_assert!(read == wanted, "heap {} of {} bytes, missing {:?}, came back with {} bytes, missing {:?}",
                wanted.0, wanted.2.len(), wanted.3, read.2.len(), read.3);
        }
        let check = scan.open().check(&CheckOptions::default()).unwrap();
        prop_assert!(check.verdict <= Verdict::Holes, "{:?}", check.findings);
        let told = check.datastreams[0].heaps.unwrap();
        let incomplete = heaps.iter().filter(|heap| !heap.complete);
        prop_assert_eq!((told.count, told.incomplete), (heaps.len() as u64, incomplete.count() as u64));
        let missing = heaps.iter().flat_map(|heap| &heap.missing).map(|gap| gap.end - gap.start).sum::<u64>();
        prop_assert_eq!(told.missing_bytes, missing);
    }
}

fn regular(count: u64) -> Vec<Heap> {
    let heap = Sent { bytes: 5000, pointers: 1, sized: true, each: 1424, lost: 0 };
    received(&(1..=count).flat_map(|counter| packets(counter, &heap)).collect::<Vec<_>>())
}

#[test]
fn without_an_index_the_heads_prove_the_chunks() {
    let (scan, _) = Scan::of(&regular(40), 20_480);
    for disk in &scan.disks {
        std::fs::remove_file(disk.join("heaps/heaps.index")).unwrap();
    }
    let recording = scan.open();
    assert_eq!(recording.about(0).unwrap().info.format["format"], "spead");
    let (heaps, gaps) = scan.heaps(Missing::Skip);
    assert_eq!(heaps.len(), 40);
    assert!(gaps > 0, "that nothing proves the payload is said");
    // A head that is none any more takes its chunk with it, and no other.
    let chunk = recording.datastreams[0].chunks.values().nth(2).unwrap().path.clone();
    let mut bytes = std::fs::read(&chunk).unwrap();
    bytes[0] ^= 1;
    std::fs::write(&chunk, bytes).unwrap();
    let (heaps, _) = scan.heaps(Missing::Skip);
    assert_eq!(heaps.len(), 36, "four heaps lie in a chunk");
}

#[test]
fn a_damaged_chunk_is_left_out_and_named_and_never_filled() {
    let (scan, _) = Scan::of(&regular(40), 20_480);
    let chunk = scan.open().datastreams[0].chunks[&3].path.clone();
    let mut bytes = std::fs::read(&chunk).unwrap();
    bytes[9000] ^= 1;
    std::fs::write(&chunk, bytes).unwrap();
    for missing in [Missing::Skip, Missing::Fill] {
        let (heaps, gaps) = scan.heaps(missing);
        assert_eq!((heaps.len(), gaps), (36, 1), "{missing:?}");
    }
    assert_eq!(scan.open().check(&CheckOptions::default()).unwrap().verdict, Verdict::Damaged);
}

#[test]
fn heaps_that_come_slowly_do_not_wait_in_memory_for_long() {
    let directory = tempfile::tempdir().unwrap();
    let pool = PoolOptions { total_bytes: 1 << 20, block_bytes: 1 << 17, shared: false };
    let (writer, mut recorder) = recorder(&[directory.path().to_owned()], &pool, Duration::ZERO);
    for heap in regular(3) {
        recorder.take(&heap);
        recorder.tick();
        recorder.tick();
    }
    let report = finish(writer, recorder);
    assert_eq!((report.datastreams[0].submitted, report.is_whole()), (3, true));
}
