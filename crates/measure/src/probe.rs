//! Measures a path: what it carries, what it loses, and what bounds it.
//!
//! [`udp`] sends points of size and spacing and accounts for every packet; [`tcp`] moves bytes over TCP connections and says
//! what they waited for; [`iperf3`], [`stamp`] and [`udpmon`] speak the protocols of other tools; [`monitor`] repeats tests for
//! weeks.

mod answering;
pub mod iperf3;
pub mod monitor;
pub mod stamp;
pub mod tcp;
pub mod udp;
pub mod udpmon;

use serde::{Deserialize, Serialize};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// The direction of a test's data, as the client sees it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum TestDirection {
    /// From the client to the server.
    #[default]
    Forward,
    /// From the server to the client.
    Reverse,
    /// Both at the same time.
    Both,
}

impl TestDirection {
    /// Whether the client sends.
    #[must_use]
    pub fn forward(self) -> bool {
        self != Self::Reverse
    }

    /// Whether the server sends.
    #[must_use]
    pub fn reverse(self) -> bool {
        self != Self::Forward
    }

    /// Whether this end sends, the client or the server.
    #[must_use]
    pub fn sends(self, client: bool) -> bool {
        if client { self.forward() } else { self.reverse() }
    }

    /// Whether this end receives, the client or the server.
    #[must_use]
    pub fn receives(self, client: bool) -> bool {
        self.sends(!client)
    }
}

/// Time for the far end's answer after a measurement was stopped: enough on a path that works.
const STOPPED_TIMEOUT: Duration = Duration::from_secs(3);

/// Whether to stop waiting for the far end, from this moment on. A stop during the wait ends it immediately; one that came before, and
/// ended the measurement, leaves the far end [`STOPPED_TIMEOUT`] for its report, and `needs`, the time that it takes at least.
pub(crate) fn stop_waiting(stop: &AtomicBool, needs: Duration) -> impl Fn() -> bool + '_ {
    let (before, begun) = (stop.load(Ordering::Relaxed), Instant::now());
    move || stop.load(Ordering::Relaxed) && (!before || begun.elapsed() >= STOPPED_TIMEOUT + needs)
}

/// Values over time in limited memory: when it is full, every other value is dropped, and from then on only every second one,
/// every fourth one, … is kept. Values must be cumulative, or readings of a moment, so that the difference of any two is true.
#[derive(Clone, Debug)]
pub(crate) struct Series<T> {
    kept: Vec<T>,
    limit: usize,
    /// Values offered so far.
    offered: u64,
    /// One in so many is kept.
    every: u64,
}

impl<T> Series<T> {
    /// At most `limit` values, at least two.
    pub(crate) fn new(limit: usize) -> Self {
        Self { kept: Vec::new(), limit: limit.max(2), offered: 0, every: 1 }
    }

    pub(crate) fn push(&mut self, value: T) {
        let due = self.offered.is_multiple_of(self.every);
        self.offered += 1;
        if !due {
            return;
        }
        if self.kept.len() == self.limit {
            let mut n = 0;
            self.kept.retain(|_| {
                n += 1;
                n % 2 == 1
            });
            self.every *= 2;
            if !(self.offered - 1).is_multiple_of(self.every) {
                return;
            }
        }
        self.kept.push(value);
    }

    /// Keep this one in any case: the end.
    pub(crate) fn finish(&mut self, value: T) {
        if self.kept.len() == self.limit {
            self.kept.pop();
        }
        self.kept.push(value);
    }

    pub(crate) fn into_values(self) -> Vec<T> {
        self.kept
    }
}

#[cfg(test)]
mod tests {
    use super::TestDirection::{Both, Forward, Reverse};
    use super::*;

    #[test]
    fn directions_are_those_of_the_client() {
        assert!(Forward.sends(true) && Forward.receives(false) && !Forward.sends(false));
        assert!(Reverse.sends(false) && Reverse.receives(true) && !Reverse.sends(true));
        assert!([true, false].iter().all(|&client| Both.sends(client) && Both.receives(client)));
    }

    #[test]
    fn a_long_series_keeps_every_nth_value_from_the_first_on() {
        let mut series = Series::new(10);
        (0..1000u32).for_each(|n| series.push(n));
        series.finish(1000);
        let kept = series.into_values();
        assert!(kept.len() <= 10 && kept.len() > 5, "{kept:?}");
        assert_eq!((kept[0], *kept.last().unwrap()), (0, 1000));
        let steps: Vec<u32> = kept.windows(2).map(|pair| pair[1] - pair[0]).collect();
        assert!(steps[..steps.len() - 1].iter().all(|&step| step == 128), "{kept:?}");
    }
}
