//! Measures how fast all CPUs together copy memory, which bounds everything that copies payloads.
//!
//! Limits: it takes only some ten milliseconds, while other programs run; 16 MiB for each CPU exceed its cache.

use std::sync::Barrier;
use std::time::{Duration, Instant};

/// Bytes that one CPU copies repeatedly.
const PIECE: usize = 16 << 20;
const TIME: Duration = Duration::from_millis(30);

/// Bytes read and written in a second.
#[must_use]
pub fn of_memory() -> u64 {
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let begin = Barrier::new(threads);
    let copy = || {
        let (from, mut to) = (vec![1u8; PIECE], vec![0u8; PIECE]);
        begin.wait();
        let (begun, mut copied) = (Instant::now(), 0u64);
        while begun.elapsed() < TIME {
            to.copy_from_slice(&from);
            std::hint::black_box(&mut to);
            copied += 2 * PIECE as u64;
        }
        copied as f64 / begun.elapsed().as_secs_f64()
    };
    let all = std::thread::scope(|scope| {
        let started: Vec<_> = (0..threads).map(|_| scope.spawn(copy)).collect();
        started.into_iter().filter_map(|thread| thread.join().ok()).sum::<f64>()
    });
    all as u64
}

#[cfg(test)]
mod tests {
    #[test]
    fn memory_is_copied() {
        assert!(super::of_memory() > 1 << 20);
    }
}
