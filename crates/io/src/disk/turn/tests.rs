use super::*;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::channel;

/// The number of a file system that only this test uses: whatever else records or reads on this host has turns of its own.
fn number_of_its_own(file: &File, test: u64) -> u64 {
    file.metadata().unwrap().dev() ^ (u64::from(std::process::id()) << 32 | test << 28)
}

#[test]
fn a_reader_waits_while_a_recording_writes_says_so_and_is_counted() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("f");
    std::fs::write(&path, vec![7; 3 << 20]).unwrap();
    let file = File::open(&path).unwrap();
    let mut bytes = vec![0; 3 << 20];
    let number = number_of_its_own(&file, 1);
    let read = move |file: &File, into: &mut [u8]| {
        read_in_turn(DiskTurn::at(number, 0, TURN_BYTES), file, into, 0).unwrap()
    };
    // Nothing is recorded: all at once.
    assert_eq!(read(&file, &mut bytes), bytes.len());
    let claim = WriteClaim::at(number, directory.path());
    assert_eq!(read(&file, &mut bytes), TURN_BYTES as usize);
    claim.set(1, 90);
    let before = turn_counts(directory.path());
    let said = Arc::<AtomicU64>::default();
    let (of_thread, (done, told)) = (Arc::clone(&said), channel());
    let reader = std::thread::spawn(move || {
        while_waiting(move || {
            let _ = of_thread.fetch_add(1, Ordering::SeqCst);
        });
        let mut bytes = vec![0; 4096];
        read(&file, &mut bytes);
        done.send(bytes[0]).unwrap();
    });
    while said.load(Ordering::SeqCst) < 2 {
        assert!(told.try_recv().is_err(), "it did not wait");
        std::thread::yield_now();
    }
    assert_eq!(turn_counts(directory.path()).waiting, 1);
    claim.set(0, 90);
    assert_eq!(told.recv_timeout(Duration::from_secs(60)), Ok(7));
    reader.join().unwrap();
    let after = turn_counts(directory.path());
    assert_eq!((after.waiting, after.waits), (0, before.waits + 1));
    assert!(after.waited > before.waited);
}

#[test]
fn a_turn_that_is_given_up_is_not_waited_for() {
    let directory = tempfile::tempdir().unwrap();
    let file = tempfile::tempfile_in(directory.path()).unwrap();
    let number = number_of_its_own(&file, 2);
    let device = device(number);
    lock(&device.state).own.insert(9, WriteDemand { recordings: 1, pending_bytes: 0, memory_percent: 0 });
    let ask = || DiskTurn::at(number, 0, 4 << 20);
    let (mut first, second, mut third) = (ask(), ask(), ask());
    assert!(first.has_begun() && !third.has_begun());
    drop((first, second));
    assert!(third.has_begun());
}
