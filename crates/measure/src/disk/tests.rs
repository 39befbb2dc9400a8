use super::*;
use skyhaul_io::disk::Engine;
use std::path::Path;

fn small(directory: &Path) -> MeasureOptions {
    MeasureOptions {
        sizes: vec![6 << 20],
        blocks: vec![256 << 10],
        depths: vec![4],
        ..MeasureOptions::new([directory])
    }
}

fn run(options: &MeasureOptions) -> DiskReport {
    measure(options, &mut |_| {}).unwrap()
}

#[test]
fn every_combination_is_measured_and_nothing_remains() {
    let directory = tempfile::tempdir().unwrap();
    let options = MeasureOptions {
        sizes: vec![1 << 20, 5 << 20],
        blocks: vec![64 << 10, 4096],
        streams: vec![1, 2],
        modes: vec![Mode::Direct, Mode::Buffered, Mode::Cached],
        ..small(directory.path())
    };
    let report = run(&options);
    // Nothing is written to the page cache for its own sake.
    assert_eq!(report.points.len(), 2 * 2 * 2 * (2 + 2 + 1));
    for point in &report.points {
        let bytes = point.size * point.streams as u64;
        assert_eq!((point.bytes, point.disks[0].bytes), (bytes, bytes), "{point:?}");
        assert_eq!(point.latency.count, bytes / point.block as u64);
        assert!(point.latency.p50_ns <= point.latency.p99_ns && point.latency.p99_ns <= point.latency.max_ns);
        assert!(point.seconds > 0.0 && point.sync_seconds <= point.seconds);
    }
    assert!(report.is_whole());
    assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 0);
}

#[test]
fn plain_calls_move_the_same_bytes() {
    let directory = tempfile::tempdir().unwrap();
    let report = run(&MeasureOptions { engine: Engine::Plain, ..small(directory.path()) });
    assert!(report.points.iter().all(|point| point.engine == "pwrite" && point.bytes == 6 << 20));
}

#[test]
fn a_size_that_is_no_multiple_of_a_request_is_moved_to_its_last_page() {
    let directory = tempfile::tempdir().unwrap();
    let report = run(&MeasureOptions { sizes: vec![1_000_000], ..small(directory.path()) });
    assert!(report.points.iter().all(|point| point.bytes == 999_424 && point.latency.count == 4));
}

#[test]
fn a_disk_that_fails_is_named_and_the_others_go_on() {
    let (good, bad) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    for (spec, said) in [("eio=2MiB", "Input/output error"), ("enospc=2MiB", "No space left")] {
        let mut options = small(good.path());
        options.disks.push(bad.path().to_owned());
        options.operations = vec![Operation::Write];
        options.faults = vec![(bad.path().to_owned(), spec.parse().unwrap())];
        let report = run(&options);
        let [point] = &report.points[..] else { panic!("{report:?}") };
        assert_eq!((point.disks[0].bytes, &point.disks[0].error), (6 << 20, &None));
        let error = point.disks[1].error.as_ref().unwrap();
        assert!(error.contains(said) && point.disks[1].bytes < 6 << 20, "{error}");
        assert!(!report.is_whole());
    }
}

#[test]
fn room_is_checked_before_anything_is_written() {
    let directory = tempfile::tempdir().unwrap();
    let report = run(&MeasureOptions { sizes: vec![1 << 60], ..small(directory.path()) });
    for point in &report.points {
        let error = point.disks[0].error.as_ref().unwrap();
        assert!(point.bytes == 0 && error.contains("needed") && error.contains("hint: "), "{error}");
    }
    let missing = measure(&small(&directory.path().join("x")), &mut |_| {}).unwrap_err().to_string();
    assert!(missing.contains("measure ") && missing.contains("hint: "), "{missing}");
}

#[test]
fn what_the_kernel_counts_tells_disk_from_page_cache() {
    assert_eq!(Measured::of(100, Some(100)), Measured::Disk);
    assert_eq!(Measured::of(100, Some(50)), Measured::Mixed);
    assert_eq!(Measured::of(100, Some(0)), Measured::PageCache);
    assert_eq!(Measured::of(100, None), Measured::Unknown);
    assert_eq!(Measured::of(0, Some(0)), Measured::Unknown);
    // A file system in memory has no disk, however it is opened.
    let memory = Path::new("/dev/shm");
    if !memory.is_dir() || skyhaul_io::disk::device_bytes().is_none() {
        println!("SKIPPED: a file system in memory and /proc/self/io (mount a tmpfs on /dev/shm)");
        return;
    }
    let directory = tempfile::tempdir_in(memory).unwrap();
    let report = run(&MeasureOptions { operations: vec![Operation::Read], ..small(directory.path()) });
    assert_ne!(report.points[0].measured, Measured::Disk, "{:?}", report.points[0]);
}

/// Must 11: with each part slowed in turn, that part is named.
#[test]
fn the_part_that_is_slowed_is_the_one_that_bounds() {
    let directory = tempfile::tempdir().unwrap();
    let bounds = |fault: &str, rate: u64| {
        let mut options = MeasureOptions { against: Some(rate), ..small(directory.path()) };
        options.faults = vec![(directory.path().to_owned(), fault.parse().unwrap())];
        run(&options).budget.unwrap()
    };
    // 4 × 256 KiB in 50 ms and more: at most 168 Mb/s.
    let slow = bounds("latency=50ms", 100_000_000_000);
    let (sending, receiving) = (slow.sending.unwrap(), slow.receiving.unwrap());
    assert_eq!((sending.predicted_bound, sending.measured_bound), (Bound::Read, Bound::Read), "{sending:?}");
    assert_eq!(
        (receiving.predicted_bound, receiving.measured_bound),
        (Bound::Write, Bound::Write),
        "{receiving:?}"
    );
    let network = bounds("", 8_000_000);
    assert_eq!(network.bound, Some(Bound::Network));
    let (sending, receiving) = (network.sending.unwrap(), network.receiving.unwrap());
    assert_eq!(
        (sending.predicted_bound, sending.measured_bound),
        (Bound::Network, Bound::Network),
        "{sending:?}"
    );
    assert_eq!(
        (receiving.predicted_bound, receiving.measured_bound),
        (Bound::Network, Bound::Network),
        "{receiving:?}"
    );
}

#[test]
fn a_stop_ends_it_with_what_was_measured() {
    let directory = tempfile::tempdir().unwrap();
    let options = small(directory.path());
    options.stop.stop();
    let report = run(&options);
    assert!(report.interrupted && report.points.is_empty() && !report.is_whole());
}

#[test]
fn fio_finds_its_names() {
    let directory = tempfile::tempdir().unwrap();
    let report = run(&small(directory.path()));
    let json = fio_json(&report);
    let (write, read) = (&json["jobs"][0], &json["jobs"][1]);
    assert_eq!(
        (write["job options"]["rw"].as_str(), read["job options"]["rw"].as_str()),
        (Some("write"), Some("read"))
    );
    assert_eq!(
        (write["write"]["io_bytes"].as_u64(), write["read"]["io_bytes"].as_u64()),
        (Some(6 << 20), Some(0))
    );
    assert_eq!(read["read"]["total_ios"].as_u64(), Some(24));
    let latency = &read["read"]["clat_ns"];
    assert_eq!((latency["N"].as_u64(), latency["percentile"].as_object().unwrap().len()), (Some(24), 17));
    assert!(latency["percentile"]["99.000000"].as_u64() <= latency["max"].as_u64());
}
