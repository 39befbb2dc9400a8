use super::*;
use crate::memory::{Block, Pool, PoolOptions};
use std::time::Duration;

fn pool() -> Pool {
    Pool::new(&PoolOptions { total_bytes: 8 << 20, block_bytes: 1 << 20, shared: false }).unwrap()
}

fn filled(pool: &Pool, seed: u8) -> Block {
    let mut block = pool.take().unwrap();
    for (at, byte) in block.iter_mut().enumerate() {
        *byte = (at as u8).wrapping_mul(31).wrapping_add((at >> 8) as u8) ^ seed;
    }
    block
}

fn options(engine: Engine) -> DiskOptions {
    DiskOptions { engine, write_bytes: 128 << 10, depth: 4, ..DiskOptions::default() }
}

fn run(disk: &mut Disk) -> Vec<Done> {
    let mut done = Vec::new();
    while !disk.is_idle() {
        disk.poll(Duration::from_millis(50), &mut done).unwrap();
    }
    disk.poll(Duration::ZERO, &mut done).unwrap();
    done
}

fn both(test: impl Fn(Engine)) {
    test(Engine::Plain);
    if uring_works() {
        test(Engine::Uring);
    }
}

#[test]
fn files_hold_what_was_given_whatever_their_length_and_place() {
    both(|engine| {
        let directory = tempfile::tempdir().unwrap();
        let pool = pool();
        let mut disk = Disk::new(&options(engine), Some(&pool)).unwrap();
        let mut block = filled(&pool, 5);
        let ranges = [0..1 << 20, 0..1, 0..4096, 4096..500_001, 77..1000, 8192..8192];
        for (token, range) in ranges.iter().enumerate() {
            let name = directory.path().join(format!("c.{token:08}"));
            disk.start(token as u64, &name, block.view(range.clone()).unwrap()).unwrap();
        }
        let done = run(&mut disk);
        assert_eq!(done.len(), ranges.len());
        for (token, range) in ranges.iter().enumerate() {
            disk.sync(token as u64);
            let bytes = std::fs::read(directory.path().join(format!("c.{token:08}"))).unwrap();
            assert_eq!(bytes, &block[range.clone()], "{engine:?} {range:?}");
        }
        assert!(run(&mut disk).iter().all(|end| matches!(end, Done::Synced(_, Ok(())))));
        assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), ranges.len(), "no .part is left");
    });
}

#[test]
fn an_existing_file_is_never_replaced() {
    both(|engine| {
        let directory = tempfile::tempdir().unwrap();
        let name = directory.path().join("c.00000000");
        std::fs::write(&name, "old").unwrap();
        let pool = pool();
        let mut disk = Disk::new(&options(engine), None).unwrap();
        disk.start(0, &name, filled(&pool, 1).into_view(0..5000)).unwrap();
        assert!(matches!(&run(&mut disk)[..], [Done::Written(0, Err(_))]));
        disk.discard(0);
        assert_eq!(std::fs::read(&name).unwrap(), b"old");
        assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 1);
    });
}

#[test]
fn injected_faults_come_as_the_kernel_would_say_them() {
    both(|engine| {
        for (text, code) in [("eio=600KiB", libc::EIO), ("enospc=600KiB", libc::ENOSPC)] {
            let directory = tempfile::tempdir().unwrap();
            let pool = pool();
            let mut options = options(engine);
            options.faults = text.parse().unwrap();
            let mut disk = Disk::new(&options, Some(&pool)).unwrap();
            disk.start(0, &directory.path().join("a"), filled(&pool, 1).into_view(0..500 << 10)).unwrap();
            disk.start(1, &directory.path().join("b"), filled(&pool, 2).into_view(0..500 << 10)).unwrap();
            let done = run(&mut disk);
            assert!(done.iter().any(|end| matches!(end, Done::Written(0, Ok(_)))), "{done:?}");
            let broken = done.iter().find_map(|end| match end {
                Done::Written(1, Err(error)) => error.raw_os_error(),
                _ => None,
            });
            assert_eq!(broken, Some(code));
            disk.discard(1);
            disk.close(0);
            drop(disk);
            assert_eq!(pool.free(), pool.blocks(), "every block came back");
            assert!(!directory.path().join("b.part").exists());
        }
    });
}

/// The kernel may defer a request, which is then repeated, but not for ever: a disk that only defers has failed.
#[test]
fn what_the_kernel_puts_off_is_tried_again_for_a_second_and_has_then_failed() {
    both(|engine| {
        for (times, is_written) in [(3, true), (u32::MAX, false)] {
            let directory = tempfile::tempdir().unwrap();
            let pool = pool();
            let faults = Faults { eagain: Some(times), ..Faults::default() };
            let mut disk = Disk::new(&DiskOptions { faults, ..options(engine) }, None).unwrap();
            let name = directory.path().join("a");
            disk.start(0, &name, filled(&pool, 1).into_view(0..500_000)).unwrap();
            let begun = std::time::Instant::now();
            let mut done = Vec::new();
            while done.is_empty() {
                assert!(begun.elapsed() < Duration::from_secs(60), "it is tried again without end");
                disk.poll(Duration::from_millis(50), &mut done).unwrap();
            }
            match &done[..] {
                [Done::Written(0, Ok(_))] => assert!(is_written),
                [Done::Written(0, Err(error))] => {
                    assert!(!is_written);
                    assert_eq!(error.kind(), io::ErrorKind::WouldBlock);
                    assert!(
                        error.to_string().starts_with("the kernel deferred a request 10 times"),
                        "{error}"
                    );
                }
                other => panic!("{other:?}"),
            }
            assert_eq!(name.exists(), is_written);
            disk.discard(0);
            drop(disk);
            assert_eq!(pool.free(), pool.blocks(), "every block came back");
        }
    });
}

#[test]
fn a_slow_disk_is_slow() {
    both(|engine| {
        let directory = tempfile::tempdir().unwrap();
        let pool = pool();
        let mut options = options(engine);
        options.faults = "latency=30ms".parse().unwrap();
        let mut disk = Disk::new(&options, None).unwrap();
        disk.start(0, &directory.path().join("a"), filled(&pool, 1).into_view(0..4096)).unwrap();
        match &run(&mut disk)[..] {
            [Done::Written(0, Ok(time))] => assert!(*time >= Duration::from_millis(30)),
            other => panic!("{other:?}"),
        }
    });
}

#[test]
fn a_missing_directory_is_an_error_and_a_waker_wakes() {
    both(|engine| {
        let pool = pool();
        let mut disk = Disk::new(&options(engine), None).unwrap();
        let view = filled(&pool, 1).into_view(0..10);
        let error = disk.start(0, Path::new("/nonexistent/x"), view).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::NotFound);
        let waker = disk.waker();
        let begun = std::time::Instant::now();
        let thread = std::thread::spawn(move || {
            std::thread::sleep(Duration::from_millis(20));
            waker.wake();
        });
        disk.poll(Duration::from_secs(20), &mut Vec::new()).unwrap();
        assert!(begun.elapsed() < Duration::from_secs(10));
        thread.join().unwrap();
    });
}

#[test]
fn a_log_is_locked_while_its_writer_lives() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("x.index");
    assert!(!is_locked(&path));
    let mut log = Log::open(&path, false).unwrap();
    log.reserve(100).unwrap();
    log.append(b"one\n").unwrap();
    assert!(is_locked(&path));
    assert!(Log::open(&path, true).is_err());
    log.finish().unwrap();
    drop(log);
    assert!(!is_locked(&path));
    assert!(Log::open(&path, false).is_err(), "it exists");
    let mut log = Log::open(&path, true).unwrap();
    log.append(b"two\n").unwrap();
    assert_eq!(std::fs::read(&path).unwrap(), b"one\ntwo\n");
}

#[test]
fn only_regular_files_are_opened_and_nobody_waits() {
    let directory = tempfile::tempdir().unwrap();
    let at = |name: &str| directory.path().join(name);
    std::fs::write(at("file"), "frames").unwrap();
    std::os::unix::fs::symlink(at("file"), at("link")).unwrap();
    assert_eq!(Source::open(&at("link")).unwrap().len(), 6, "a link to a file is as good as the file");
    assert!(std::process::Command::new("mkfifo").arg(at("fifo")).status().unwrap().success());
    let _socket = std::os::unix::net::UnixListener::bind(at("socket")).unwrap();
    std::os::unix::fs::symlink("/dev/zero", at("device")).unwrap();
    std::fs::create_dir(at("directory")).unwrap();
    for (name, what) in
        [("fifo", "a FIFO"), ("socket", "a socket"), ("device", "a device"), ("directory", "a directory")]
    {
        let said = format!("it is {what}, not a regular file");
        assert_eq!(Source::open(&at(name)).unwrap_err().to_string(), said);
        assert_eq!(open_regular(&at(name)).unwrap_err().to_string(), said);
        assert_eq!(Log::open(&at(name), true).unwrap_err().to_string(), said);
        assert!(!is_locked(&at(name)));
    }
    std::os::unix::fs::symlink(at("loop"), at("loop")).unwrap();
    assert_eq!(open_regular(&at("loop")).unwrap_err().raw_os_error(), Some(libc::ELOOP));
}

#[test]
fn sources_read_whole_files_in_aligned_pieces() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("x");
    let bytes: Vec<u8> = (0..20_001u32).map(|n| n as u8).collect();
    std::fs::write(&path, &bytes).unwrap();
    let source = Source::open(&path).unwrap();
    let mut block = read_buffers(1, 8192).unwrap().take().unwrap();
    let mut all = Vec::new();
    loop {
        let n = source.read(all.len() as u64, &mut block).unwrap();
        all.extend_from_slice(&block[..n]);
        if n < block.len() {
            break;
        }
    }
    assert_eq!((all, source.len()), (bytes, 20_001));
    assert!(source.read(1, &mut block).is_err());
}

#[test]
fn fault_texts_are_read_or_refused() {
    let faults: Faults = "slow=200x, latency=1.5ms,enospc=1GB,eio=2MiB".parse().unwrap();
    assert_eq!(faults.slow, Some(200.0));
    assert_eq!(faults.latency, Some(Duration::from_micros(1500)));
    assert_eq!((faults.enospc, faults.eio), (Some(1_000_000_000), Some(2 << 20)));
    for bad in
        ["slow", "slow=0.5", "slow=x", "latency=5", "enospc=1XB", "eio=-1", "fire=1", "slow=NaN", "eagain=-1"]
    {
        assert!(bad.parse::<Faults>().is_err(), "{bad}");
    }
    assert!("".parse::<Faults>().unwrap().is_none());
}

fn said(path: &Path) -> String {
    Place::for_recordings(path).unwrap_err().to_string()
}

#[test]
fn a_directory_has_one_place_whatever_it_is_called() {
    let directory = tempfile::tempdir().unwrap();
    let disk = directory.path().join("disk");
    std::fs::create_dir(&disk).unwrap();
    let link = directory.path().join("link");
    std::os::unix::fs::symlink(&disk, &link).unwrap();
    let place = |path: &Path| Place::for_recordings(path).unwrap();
    assert_eq!(place(&disk), place(&link));
    assert_eq!(place(&disk), place(&directory.path().join("./link/../disk/.")));
    assert_ne!(place(&disk), place(directory.path()));
}

#[test]
fn what_is_no_place_for_recordings_is_told_as_it_is() {
    for (path, wrong) in [
        ("/proc", "not a disk: proc"),
        ("/proc/self", "not a disk: proc"),
        ("/sys/kernel", "not a disk: sysfs"),
        ("/proc/version", "not a directory"),
        ("/no/such/place", "no such directory"),
    ] {
        let said = said(Path::new(path));
        assert!(
            said.starts_with(&format!("record to {path}: {wrong}")) && said.contains("; hint: "),
            "{said}"
        );
    }
    let file = tempfile::NamedTempFile::new().unwrap();
    assert!(said(file.path()).contains("not a directory"));
    assert!(said(&file.path().join("x")).contains("Not a directory"));
}
