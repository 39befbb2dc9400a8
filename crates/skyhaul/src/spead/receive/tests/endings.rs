//! Ends that come at a bad moment: within a heap, within a call, from two sides at once.

use super::*;
use skyhaul_io::source::{SourceStats, Train};
use std::io::{self, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// A source that looks once, does this, and is then finished.
struct Once<F: FnMut() + Send>(F, bool);

impl<F: FnMut() + Send> Source for Once<F> {
    fn poll(&mut self, _: Duration, _: &mut dyn FnMut(Train<'_>)) -> io::Result<usize> {
        self.1 = true;
        (self.0)();
        Ok(0)
    }
    fn stats(&self) -> SourceStats {
        SourceStats::default()
    }
    fn describe(&self) -> String {
        "once".into()
    }
    fn is_finished(&self) -> bool {
        self.1
    }
}

#[test]
fn a_source_that_panics_ends_its_reader_and_hangs_nobody() {
    let stream = Stream::new(&config());
    stream.add_source("bad", Box::new(Once(|| panic!("as it should"), false)), true).unwrap();
    assert_eq!(stream.get(LONG).unwrap_err(), GetError::Stopped);
    assert_eq!(stream.ended(), Some(StreamEnd::Readers));
    let reader = stream.stats().readers.remove(0);
    assert!(
        reader.ended && reader.error.as_deref().is_some_and(|e| e.contains("as it should")),
        "{reader:?}"
    );
}

#[test]
fn stop_waits_for_readers_that_somebody_else_waits_for() {
    let (begun, gone) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
    let stream = Stream::new(&config());
    let source = {
        let (begun, gone) = (begun.clone(), gone.clone());
        Once(
            move || {
                begun.store(true, Ordering::SeqCst);
                std::thread::sleep(Duration::from_millis(200));
                gone.store(true, Ordering::SeqCst);
            },
            false,
        )
    };
    stream.add_source("slow", Box::new(source), true).unwrap();
    let joiner = {
        let stream = stream.clone();
        std::thread::spawn(move || stream.join())
    };
    while !begun.load(Ordering::SeqCst) {
        std::thread::sleep(Duration::from_millis(1));
    }
    std::thread::sleep(Duration::from_millis(20));
    stream.stop();
    assert!(gone.load(Ordering::SeqCst), "the reader still ran");
    joiner.join().unwrap();
}

/// A stream with half a heap of one long packet in it.
fn with_half_a_heap(config: &StreamConfig) -> (Stream, TcpStream, Vec<u8>) {
    let stream = Stream::new(config);
    let at = stream.add_tcp(&"tcp://127.0.0.1:0".parse().unwrap(), &TcpReaderOptions::default()).unwrap();
    let mut connection = TcpStream::connect(at).unwrap();
    let bytes = packets(1, 1_000_000, 1 << 21).concat();
    connection.write_all(&bytes[..600_000]).unwrap();
    while stream.stats().total.bytes < 600_000 {
        std::thread::sleep(Duration::from_millis(1));
    }
    (stream, connection, bytes[600_000..].to_vec())
}

#[test]
fn a_whole_heap_on_its_way_is_handed_on_when_the_stream_ends() {
    let mut config = StreamConfig { incomplete: true, ..config() };
    config.heaps.timeout = None;
    for stop_item in [true, false] {
        let (stream, _connection, _) = with_half_a_heap(&config);
        if stop_item {
            stream.add_bytes(stop_heap(9)).unwrap();
            stream.join();
        } else {
            stream.stop();
        }
        let heap = stream.get(LONG).unwrap();
        check(&heap);
        assert_eq!((heap.number, heap.complete, heap.cause), (1, false, Cause::Finish), "{stop_item}");
        assert!(heap.received > 590_000);
        assert_eq!(stream.get(LONG).unwrap_err(), GetError::Stopped);
    }
    let (stream, _connection, _) = with_half_a_heap(&StreamConfig { incomplete: false, ..config });
    stream.stop();
    assert_eq!(stream.stats().total.incomplete_dropped, 1, "counted where nobody wants it");
}

#[test]
fn a_stream_in_which_a_whole_heap_grows_is_not_idle() {
    let mut config = StreamConfig { idle_timeout: Some(Duration::from_secs(2)), ..config() };
    config.heaps.timeout = None;
    let (stream, mut connection, rest) = with_half_a_heap(&config);
    // Something was accepted before, so silence would end it.
    stream.add_bytes(packets(7, 100, 1472).concat()).unwrap();
    assert_eq!(stream.get(LONG).unwrap().number, 7);
    for part in rest.chunks(rest.len() / 9) {
        std::thread::sleep(Duration::from_millis(250));
        connection.write_all(part).unwrap();
    }
    let heap = stream.get(LONG).unwrap();
    check(&heap);
    assert!(heap.complete && heap.number == 1);
}

#[test]
fn a_deadline_also_ends_a_stream_that_was_never_started() {
    let config = StreamConfig { explicit_start: true, deadline: Some(Duration::from_millis(30)), ..config() };
    let stream = Stream::new(&config);
    stream.add_bytes(packets(1, 100, 1472).concat()).unwrap();
    assert_eq!(stream.get(LONG).unwrap_err(), GetError::Stopped);
    assert_eq!(stream.ended(), Some(StreamEnd::Deadline));
}

#[test]
fn a_whole_heap_that_breaks_off_does_not_push_out_what_came_of_it_without_a_size() {
    let mut config = StreamConfig { incomplete: true, ..config() };
    config.heaps.timeout = None;
    let (stream, connection, _) = with_half_a_heap(&config);
    // 100 bytes of the same heap, of which this packet does not tell the size.
    let mut packet = vec![0x53, 4, 2, 6, 0, 0, 0, 3];
    for (id, value) in [(1, 1), (3, 700_000), (4, 100)] {
        packet.extend(flavour().immediate(id, value).to_be_bytes());
    }
    packet.extend(&payload(1, 1_000_000)[700_000..700_100]);
    stream.add_bytes(packet).unwrap();
    while stream.stats().live == 0 {
        std::thread::sleep(Duration::from_millis(1));
    }
    drop(connection);
    let heap = stream.get(LONG).unwrap();
    check(&heap);
    assert_eq!((heap.received, heap.size, heap.missing.len()), (100, None, 1));
    assert_eq!(stream.get(LONG).unwrap_err(), GetError::Stopped);
    assert_eq!(stream.stats().total.rejects.get(Reject::NoBuffer), 1);
}
