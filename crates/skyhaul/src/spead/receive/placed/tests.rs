use super::super::tests::{config, flavour, packets_with, queue_of};
use super::*;
use crate::receive::keyed::TcpReaderOptions;
use std::io::Write as _;
use std::net::TcpStream;
use std::sync::mpsc::{Receiver, Sender as Channel, channel};
use std::time::Duration;

const SOON: Duration = Duration::from_secs(60);

/// What is asked of a placer, and what came of heaps.
#[derive(Debug, PartialEq, Eq)]
enum Told {
    Asked(u64),
    Written(u64, u64, usize),
    Ended(u64, bool),
    Finished,
}

/// Heaps from 10 on have no place until it is allowed.
struct Scripted {
    tell: Channel<Told>,
    allowed: Arc<std::sync::atomic::AtomicBool>,
}

impl Placing for Scripted {
    type Place = u64;

    fn place(&mut self, heap: &HeapHead<'_>) -> Option<u64> {
        let counter = heap.head.counter;
        self.tell.send(Told::Asked(counter)).unwrap();
        (counter < 10 || self.allowed.load(std::sync::atomic::Ordering::Acquire)).then_some(counter)
    }

    fn write(&mut self, place: &u64, offset: u64, bytes: &[u8], stride: usize, each: usize) {
        let length = bytes.len().div_ceil(stride.max(1)) * each;
        self.tell.send(Told::Written(*place, offset, length)).unwrap();
    }

    fn ended(&mut self, place: u64, is_complete: bool) {
        self.tell.send(Told::Ended(place, is_complete)).unwrap();
    }

    fn finished(&mut self) {
        self.tell.send(Told::Finished).unwrap();
    }
}

fn stream() -> (PlacedStream<Scripted>, Arc<std::sync::atomic::AtomicBool>, Receiver<Told>) {
    let (tell, told) = channel();
    let allowed = Arc::<std::sync::atomic::AtomicBool>::default();
    (PlacedStream::new(&config(), Scripted { tell, allowed: allowed.clone() }), allowed, told)
}

fn heap(counter: u64) -> Vec<Vec<u8>> {
    packets_with(counter, &[7; 2000], &[flavour().immediate(0x1600, 1)], 1472, true)
}

#[test]
fn a_heap_is_asked_for_at_its_first_packet_and_written_as_it_comes() {
    let (stream, _, told) = stream();
    let [first, second] = <[_; 2]>::try_from(heap(1)).unwrap();
    stream.add_inproc(queue_of(&[first, heap(2).remove(1)])).unwrap();
    assert_eq!(told.recv_timeout(SOON).unwrap(), Told::Asked(1));
    let Told::Written(1, 0, there) = told.recv_timeout(SOON).unwrap() else { panic!("not written") };
    assert_eq!(told.recv_timeout(SOON).unwrap(), Told::Asked(2));
    assert_eq!(told.recv_timeout(SOON).unwrap(), Told::Written(2, there as u64, 2000 - there));
    stream.add_bytes(second).unwrap();
    assert_eq!(told.recv_timeout(SOON).unwrap(), Told::Written(1, there as u64, 2000 - there));
    assert_eq!(told.recv_timeout(SOON).unwrap(), Told::Ended(1, true));
    stream.stop();
    assert_eq!(told.recv_timeout(SOON).unwrap(), Told::Ended(2, false));
    assert_eq!(told.recv_timeout(SOON).unwrap(), Told::Finished);
    assert_eq!(stream.stats().total.heaps, 2);
}

#[test]
fn a_reader_waits_for_memory_until_it_is_opened() {
    let (stream, allowed, told) = stream();
    stream.add_bytes([heap(11).concat(), heap(3).concat()].concat()).unwrap();
    for _ in 0..20 {
        assert_eq!(told.recv_timeout(SOON).unwrap(), Told::Asked(11), "again and again");
    }
    allowed.store(true, std::sync::atomic::Ordering::Release);
    stream.opened();
    let rest: Vec<_> =
        std::iter::from_fn(|| told.recv_timeout(SOON).ok().filter(|told| *told != Told::Finished))
            .filter(|told| matches!(told, Told::Ended(..)))
            .collect();
    assert_eq!(rest, [Told::Ended(11, true), Told::Ended(3, true)]);
    assert_eq!(stream.stats().total.rejects.total(), 0);
}

#[test]
fn a_connection_waits_as_long_as_any_reader() {
    let (stream, allowed, told) = stream();
    let at = stream.add_tcp(&"tcp://127.0.0.1:0".parse().unwrap(), &TcpReaderOptions::default()).unwrap();
    let mut connection = TcpStream::connect(at).unwrap();
    connection.write_all(&[heap(11).concat(), heap(3).concat()].concat()).unwrap();
    drop(connection);
    assert_eq!(told.recv_timeout(SOON).unwrap(), Told::Asked(11));
    // Longer than a reader waits for memory that heaps under construction may hold.
    std::thread::sleep(Duration::from_secs(11));
    assert!(told.try_iter().all(|told| told == Told::Asked(11)), "nothing was refused");
    allowed.store(true, std::sync::atomic::Ordering::Release);
    stream.opened();
    let rest: Vec<_> =
        std::iter::from_fn(|| told.recv_timeout(SOON).ok().filter(|told| *told != Told::Finished))
            .filter(|told| matches!(told, Told::Ended(..)))
            .collect();
    assert_eq!(rest, [Told::Ended(11, true), Told::Ended(3, true)]);
    assert_eq!(stream.stats().total.rejects.total(), 0);
}

#[test]
fn a_reader_that_waits_ends_with_the_stream() {
    let (stream, _, told) = stream();
    stream.add_bytes(heap(11).concat()).unwrap();
    assert_eq!(told.recv_timeout(SOON).unwrap(), Told::Asked(11));
    stream.stop();
    assert!(told.iter().take_while(|told| *told != Told::Finished).all(|told| told == Told::Asked(11)));
}
