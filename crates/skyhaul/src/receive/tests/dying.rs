//! A receiving thread that dies is said, ends, and takes nobody's data along.

use super::*;
use crate::receive::{Nowhere, Receiver, ReceiverOptions};
use crate::report::ReceiveReport;
use skyhaul_io::source::{Source, SourceStats};
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// How a source ends.
#[derive(Clone, Copy)]
enum End {
    Panic,
    Error,
    /// It runs until it is stopped.
    Never,
}

/// Sends frames from a port, and then ends.
struct Script {
    port: u16,
    next: u64,
    packets: u64,
    end: End,
    supply: SynthSupply,
    gone: Arc<AtomicBool>,
}

impl Script {
    fn new(port: u16, packets: u64, end: End) -> Self {
        Self { port, next: 0, packets, end, supply: supply(1, Some(Order::Little)), gone: Arc::default() }
    }
}

impl Source for Script {
    fn poll(&mut self, wait: Duration, each: &mut dyn FnMut(Train<'_>)) -> io::Result<usize> {
        if self.next < self.packets {
            let sender = SocketAddr::from(([127, 0, 0, 1], self.port));
            each(Train::single(&packet(&self.supply, self.next), &sender));
            self.next += 1;
            return Ok(1);
        }
        match self.end {
            End::Panic => panic!("a fault of the test"),
            End::Error => Err(io::Error::other("the network is gone")),
            End::Never => {
                std::thread::sleep(wait);
                Ok(0)
            }
        }
    }
    fn stats(&self) -> SourceStats {
        SourceStats { packets: self.next, ..SourceStats::default() }
    }
    fn describe(&self) -> String {
        "script".into()
    }
}

impl Drop for Script {
    fn drop(&mut self) {
        self.gone.store(true, Ordering::Release);
    }
}

fn receiver(scripts: Vec<Script>) -> Receiver {
    let pool = Pool::new(&PoolOptions { total_bytes: 64 << 16, block_bytes: BLOCK, shared: false }).unwrap();
    let learn = LearnOptions { object_bytes: BLOCK as u64, ..LearnOptions::default() };
    let mut receiver = Receiver::open(ReceiverOptions { learn, ..ReceiverOptions::default() }, pool).unwrap();
    for script in scripts {
        receiver.add_source(format!("script {}", script.port), Box::new(script), true);
    }
    receiver
}

/// Run until all threads have ended, or one of two.
fn run(scripts: Vec<Script>, kept: &Kept) -> ReceiveReport {
    let living = scripts.iter().filter(|script| matches!(script.end, End::Never)).count();
    let packets: u64 = scripts.iter().map(|script| script.packets).sum();
    let mut running = receiver(scripts).start(|_| Box::new(kept.clone())).unwrap();
    let begun = Instant::now();
    while (living == 0 && !running.is_over()) || running.progress().placed() < packets {
        assert!(begun.elapsed() < Duration::from_secs(60), "it does not end: {:?}", running.progress());
        std::thread::sleep(Duration::from_millis(5));
    }
    running.finish()
}

#[test]
fn a_panic_is_an_error_and_an_event_and_the_data_are_saved() {
    let kept = Kept::default();
    let scripts = vec![Script::new(1, 500, End::Panic), Script::new(2, 700, End::Never)];
    let report = run(scripts, &kept);
    assert!(report.errors.len() == 1 && report.errors[0].contains("script 1"), "{:?}", report.errors);
    assert!(report.errors[0].contains("a fault of the test") && report.errors[0].contains("hint:"));
    assert!(report.events.iter().any(|event| event.kind == "receiver_failed"));
    let placed: Vec<u64> = report.streams.iter().map(|s| s.placed).collect();
    assert_eq!(placed.iter().sum::<u64>(), 1200);
    let units: u32 = kept.0.lock().unwrap().iter().map(|seen| seen.units - seen.missing).sum();
    assert_eq!(units, 1200, "what was received is handed on");
}

#[test]
fn an_error_of_the_source_is_one_too_and_the_receiver_is_over() {
    let kept = Kept::default();
    let report = run(vec![Script::new(1, 500, End::Error)], &kept);
    assert!(report.errors[0].contains("the network is gone"), "{:?}", report.errors);
    assert_eq!(report.placed(), 500);
}

/// A sink that has a fault.
struct Faulty(u32);

impl Sink for Faulty {
    fn stream_began(&mut self, _: &Arc<StreamInfo>) {}
    fn part(&mut self, _: &Arc<StreamInfo>, _: StreamPart) {
        self.0 += 1;
        assert!(self.0 < 3, "a fault of the sink");
    }
}

#[test]
fn a_sink_that_panics_at_every_part_ends_all_the_same() {
    let running = receiver(vec![Script::new(1, 500, End::Never)]).start(|_| Box::new(Faulty(0))).unwrap();
    let begun = Instant::now();
    while !running.is_over() {
        assert!(begun.elapsed() < Duration::from_secs(60), "it does not end");
        std::thread::sleep(Duration::from_millis(5));
    }
    let report = running.finish();
    assert!(report.errors[0].contains("a fault of the sink"), "{:?}", report.errors);
}

#[test]
fn a_receiver_that_nobody_waits_for_ends_its_threads() {
    let script = Script::new(1, 100, End::Never);
    let gone = script.gone.clone();
    let running = receiver(vec![script]).start(|_| Box::new(Nowhere)).unwrap();
    drop(running);
    assert!(gone.load(Ordering::Acquire), "its thread still receives");
}
