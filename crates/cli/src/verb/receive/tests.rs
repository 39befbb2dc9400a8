//! What is written of finished events, and what becomes of errors.

use super::{Output, Payloads};
use crate::verb::receive::Ticks;
use skyhaul::core::assembly::building::{BuildConfig, Sources};
use skyhaul::core::placement::Nanos;
use skyhaul::core::wire::keyed::{Data, Left, Stored};
use skyhaul::receive::{ObjectSink, Received, Storable};
use skyhaul::wire::FAMILIES;
use std::io::{self, ErrorKind, Write};
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

#[derive(Debug)]
struct Bare;

impl Storable for Bare {
    fn describe(&self) -> String {
        String::new()
    }
    fn heads_bytes(&self, _: usize) -> usize {
        0
    }
    fn items(&self, _: &mut dyn FnMut(u64)) {}
    fn store(&self, _: &Left, _: &mut Vec<u8>) -> Option<Stored> {
        None
    }
}

/// An event of `size` bytes with memory for `payload` only.
fn event<'a>(number: u64, payload: &'a [u8], size: u64, missing: &'a [Range<u64>]) -> Received<'a> {
    let lost: u64 = missing.iter().map(|hole| hole.end - hole.start).sum();
    Received {
        family: FAMILIES[0],
        number,
        source: 1,
        sender: ([127, 0, 0, 1], 1).into(),
        complete: missing.is_empty(),
        missing,
        received: size - lost,
        size: Some(size),
        payload,
        data: Data::All,
        stored: &Bare,
    }
}

/// A file on a disk that may be full.
#[derive(Clone, Default)]
struct File {
    bytes: Arc<Mutex<Vec<u8>>>,
    is_full: Arc<AtomicBool>,
}

impl Write for File {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.is_full.load(Ordering::Relaxed) {
            return Err(ErrorKind::StorageFull.into());
        }
        self.bytes.lock().unwrap().write(bytes)
    }
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[test]
fn an_incomplete_event_has_its_size_in_the_output() {
    for (fill, wanted) in [(true, 2 * 100_000), (false, 100_000)] {
        let file = File::default();
        let mut sink = Payloads { output: Output::new(Box::new(file.clone())), fill };
        let whole = vec![7; 100_000];
        sink.object(&event(1, &[5; 1000], 100_000, std::slice::from_ref(&(1000..100_000)))).unwrap();
        sink.object(&event(2, &whole, 100_000, &[])).unwrap();
        sink.finished().unwrap();
        let bytes = file.bytes.lock().unwrap();
        assert_eq!(bytes.len(), wanted);
        assert_eq!(bytes[wanted - whole.len()..], whole, "the next one begins where the list says");
        assert_eq!(bytes.iter().filter(|&&byte| byte == 0).count(), if fill { 99_000 } else { 0 });
    }
}

#[test]
fn a_tick_that_could_not_be_written_is_told() {
    let file = File::default();
    let config = BuildConfig { sources: Sources::Count(2), timeout: Nanos(1), window: 4, bytes: 1 << 20 };
    let mut ticks = Ticks::new(config, Some(Box::new(file.clone())), None).unwrap();
    ticks.object(&event(7, &[1; 3], 3, &[])).unwrap();
    std::thread::sleep(Duration::from_millis(2));
    file.is_full.store(true, Ordering::Relaxed);
    ticks.tick();
    // There is room again before anybody else writes.
    file.is_full.store(false, Ordering::Relaxed);
    assert_eq!(ticks.finished().unwrap_err().kind(), ErrorKind::StorageFull);
    let list = String::from_utf8(file.bytes.lock().unwrap().clone()).unwrap();
    assert_eq!(list.lines().count(), 1, "{list}");
}
