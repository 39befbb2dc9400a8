//! How far a copy is, and the clocks that end one that no longer moves.
//!
//! ```text
//!   asked ──▶ first byte ──▶ bytes … ──▶ last byte ──▶ the other side's answer │ this side's disk
//!      2 × stall        stall each, and 10 KiB/s over 2 × stall     5 × stall  │ no limit
//! ```

use std::net::SocketAddr;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use skyhaul::io::lock::lock;

/// Minimum rate of a copy, bytes per second.
const MIN_BYTES_PER_SECOND: u64 = 10 << 10;
/// Connections that are remembered.
const MAX_CONNECTIONS_SHOWN: usize = 64;

/// What a copy does.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Step {
    /// It waits for the first byte.
    #[default]
    Asking,
    /// Bytes move.
    Moving,
    /// All bytes have moved; the other server has to answer.
    Confirming,
    /// All bytes have moved; this server writes.
    Writing,
}

/// How far a copy is.
#[derive(Debug, Default)]
pub(crate) struct Progress {
    bytes: AtomicU64,
    /// Those of attempts that began again included.
    moved: AtomicU64,
    step: Mutex<Step>,
    connections: Mutex<Vec<SocketAddr>>,
}

impl Progress {
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }

    /// All bytes that have moved, also those that moved again.
    pub(crate) fn moved(&self) -> u64 {
        self.moved.load(Ordering::Relaxed)
    }

    /// So many more have moved.
    pub(crate) fn add(&self, bytes: usize) {
        self.moved.fetch_add(bytes as u64, Ordering::Relaxed);
        self.bytes.fetch_add(bytes as u64, Ordering::Relaxed);
        let mut step = lock(&self.step);
        if *step == Step::Asking {
            *step = Step::Moving;
        }
    }

    /// So many bytes were found at the other side.
    pub(crate) fn compared(&self, bytes: usize) {
        self.bytes.fetch_add(bytes as u64, Ordering::Relaxed);
    }

    /// It begins again, on another server.
    pub(crate) fn restart(&self) {
        self.restart_at(0);
    }

    /// It begins again behind so many bytes, which do not move.
    pub(crate) fn restart_at(&self, bytes: u64) {
        self.bytes.store(bytes, Ordering::Relaxed);
        self.enter(Step::Asking);
    }

    pub(crate) fn enter(&self, step: Step) {
        *lock(&self.step) = step;
    }

    fn step(&self) -> Step {
        *lock(&self.step)
    }

    pub(crate) fn connected(&self, to: SocketAddr) {
        let mut all = lock(&self.connections);
        if !all.contains(&to) && all.len() < MAX_CONNECTIONS_SHOWN {
            all.push(to);
        }
    }

    pub(crate) fn connections(&self) -> Vec<SocketAddr> {
        lock(&self.connections).clone()
    }
}

/// Why a copy ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Stalled {
    #[error("Connection timed out: no data in {0:?} after the request")]
    NoFirstByte(Duration),
    #[error("Connection timed out: no progress in {0:?}")]
    NoProgress(Duration),
    #[error("Connection timed out: less than {MIN_BYTES_PER_SECOND} B/s over {0:?}")]
    TooSlow(Duration),
    #[error("Connection timed out: no answer in {0:?} after the last byte")]
    NoAnswer(Duration),
}

/// Looks at a copy from time to time.
#[derive(Debug)]
pub(crate) struct StallClock {
    stall: Duration,
    step: Step,
    bytes: u64,
    /// When bytes or the step changed.
    changed: Duration,
    /// Begin of the interval in which the rate is taken, and the bytes then.
    interval: (Duration, u64),
}

impl StallClock {
    pub(crate) fn new(stall: Duration) -> Self {
        Self { stall, step: Step::Asking, bytes: 0, changed: Duration::ZERO, interval: Default::default() }
    }

    /// What is to be said at `now`, since the copy began.
    pub(crate) fn check(&mut self, now: Duration, progress: &Progress) -> Result<(), Stalled> {
        let (step, bytes) = (progress.step(), progress.bytes());
        if step != self.step {
            (self.step, self.interval) = (step, (now, bytes));
            self.changed = now;
        }
        if bytes != self.bytes {
            (self.bytes, self.changed) = (bytes, now);
        }
        let silent = now.saturating_sub(self.changed);
        match step {
            Step::Asking if silent > self.stall * 2 => Err(Stalled::NoFirstByte(self.stall * 2)),
            Step::Moving if silent > self.stall => Err(Stalled::NoProgress(self.stall)),
            Step::Confirming if silent > self.stall * 5 => Err(Stalled::NoAnswer(self.stall * 5)),
            Step::Moving => self.check_rate(now),
            _ => Ok(()),
        }
    }

    fn check_rate(&mut self, now: Duration) -> Result<(), Stalled> {
        let (begun, before) = self.interval;
        let length = now.saturating_sub(begun);
        if length < self.stall * 2 {
            return Ok(());
        }
        let least = MIN_BYTES_PER_SECOND as f64 * length.as_secs_f64();
        if (self.bytes.saturating_sub(before) as f64) < least {
            return Err(Stalled::TooSlow(self.stall * 2));
        }
        self.interval = (now, self.bytes);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const STALL: Duration = Duration::from_secs(60);

    /// Runs a copy to which so many bytes come each second; when it ends, and why.
    fn run(seconds: u64, bytes: impl Fn(u64) -> usize, step: Step) -> Option<(u64, Stalled)> {
        let (progress, mut clock) = (Progress::default(), StallClock::new(STALL));
        for second in 0..seconds {
            match bytes(second) {
                0 => {}
                bytes => progress.add(bytes),
            }
            if step != Step::Asking {
                progress.enter(step);
            }
            if let Err(why) = clock.check(Duration::from_secs(second), &progress) {
                return Some((second, why));
            }
        }
        None
    }

    #[test]
    fn a_copy_that_does_not_move_is_ended() {
        assert_eq!(run(1000, |_| 0, Step::Asking), Some((121, Stalled::NoFirstByte(STALL * 2))));
        assert_eq!(
            run(1000, |at| usize::from(at == 100), Step::Asking),
            Some((161, Stalled::NoProgress(STALL)))
        );
        // A byte now and then is not enough.
        let trickle = run(1000, |at| usize::from(at % 50 == 0), Step::Asking);
        assert_eq!(trickle, Some((120, Stalled::TooSlow(STALL * 2))));
        assert_eq!(run(1000, |_| 10 << 10, Step::Asking), None);
        assert_eq!(run(1000, |at| if at % 55 == 0 { 1 << 20 } else { 0 }, Step::Asking), None);
        assert_eq!(
            run(1000, |_| 0, Step::Confirming),
            Some((300, Stalled::NoAnswer(STALL * 5))).map(|(at, why)| (at + 1, why))
        );
        assert_eq!(run(1000, |_| 0, Step::Writing), None);
    }
}
