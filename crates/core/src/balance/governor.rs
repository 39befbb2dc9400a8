//! The control signal of a worker: by how much its share should change.
//!
//! ```text
//!   arriving ─▶ ▐▐▐▐▐▐▐ queue ─▶ taken
//!               fill               speed: events taken per second while the queue is never empty
//!
//!   signal = speed / arriving · (1 + gain · (set point − fill)) − 1        in thousandths
//! ```
//!
//! A worker that is behind knows its speed and the rate at which events arrive, so a single report gives the share that
//! it can take, and no gain needs tuning. A worker that is not behind does not know its speed: it asks for a little
//! more than the speed it has shown so far, which has an effect only if others are behind. If events are not counted,
//! the signal comes from a [`Pid`] on the fill level.
//!
//! The signal is the control signal of udplbd's protocol, which is added to weights with a mean of 1000.

use crate::placement::Nanos;
use std::collections::VecDeque;

/// The time over which rates are measured.
pub const WINDOW: Nanos = Nanos(500_000_000);
/// The speed is measured only if the queue was never empty for at least this time.
const SHORTEST: Nanos = Nanos(150_000_000);
/// A queue whose reported fill level is never below this is taken to be never empty between reports.
pub(super) const STANDING: f64 = 0.01;
/// Fraction by which a full queue reduces the share if the set point is empty.
const GAIN: f64 = 0.03;
/// Factor over the speed it has shown that a worker asks for if it is not behind; the second is the maximum over its
/// present rate.
const MORE: f64 = 1.03;
const MOST_MORE: f64 = 1.25;
/// Weight of a new measurement of the speed.
const FRESH: f64 = 0.4;
/// Number of reports kept: enough for the window at one report each 20 ms.
const KEPT: usize = 32;

/// The state of a worker's event queue. Counts are since the worker began.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Load {
    /// How full the queue is, 0 to 1.
    pub fill: f64,
    /// Events that arrived at the queue, including those that found no room.
    pub received: u64,
    /// Events taken from it; 0 if they are not counted.
    pub taken: u64,
}

/// Computes a worker's signal. It has no clock.
#[derive(Clone, Debug)]
pub struct Governor {
    reports: VecDeque<(Nanos, Load)>,
    /// Speed when the worker was last behind, events per second.
    speed: Option<f64>,
    pid: Pid,
    signal: f64,
}

impl Default for Governor {
    fn default() -> Governor {
        let pid = Pid::new(Gains::default());
        Governor { reports: VecDeque::with_capacity(KEPT), speed: None, pid, signal: 0.0 }
    }
}

impl Governor {
    /// Returns the signal for this load at `now`, in thousandths of the share that the worker had during the last
    /// [`WINDOW`]. Call it every 20 to 1000 ms.
    pub fn signal(&mut self, load: Load, now: Nanos) -> f64 {
        let restarted = self.reports.back().is_some_and(|(then, last)| {
            now <= *then || load.received < last.received || load.taken < last.taken
        });
        if restarted {
            self.reports.clear();
        }
        // The window begins with the newest report that is at least a window old.
        while self.reports.len() == KEPT
            || self.reports.get(1).is_some_and(|&(at, _)| now.since(at) >= WINDOW)
        {
            self.reports.pop_front();
        }
        self.reports.push_back((now, load));
        let by_fill = self.pid.signal(load.fill, now);
        self.signal = self.measured(load.fill).unwrap_or(by_fill);
        self.signal
    }

    /// The signal from counts over the window; `None` if events are not counted.
    fn measured(&mut self, fill: f64) -> Option<f64> {
        let (&(from, first), &(to, last)) = (self.reports.front()?, self.reports.back()?);
        let seconds = to.since(from).0 as f64 / 1e9;
        let (arrived, taken) = (last.received - first.received, last.taken - first.taken);
        if last.taken == 0 {
            return None;
        }
        if arrived == 0 || seconds < 0.04 {
            return Some(0.0);
        }
        let arriving = arrived as f64 / seconds;
        // Since when the queue was never empty.
        let behind = self.reports.iter().rev().take_while(|(_, load)| load.fill >= STANDING).last();
        let ratio = match behind.filter(|(since, _)| to.since(*since) >= SHORTEST) {
            Some((since, then)) => {
                let taking = (last.taken - then.taken) as f64 * 1e9 / to.since(*since).0 as f64;
                let speed = self.speed.map_or(taking, |speed| speed + FRESH * (taking - speed));
                self.speed = Some(speed);
                speed / arriving * (1.0 + GAIN * (Gains::default().set_point - fill))
            }
            // The worker is falling behind, but its speed is not measured yet.
            None if behind.is_some() => self.speed.map_or(1.0, |speed| speed / arriving).min(1.0),
            None => {
                let taking = taken as f64 / seconds;
                self.speed = self.speed.map(|speed| speed.max(taking));
                self.speed.map_or(MOST_MORE, |speed| (speed * MORE / arriving).clamp(1.0, MOST_MORE))
            }
        };
        Some((ratio - 1.0) * 1000.0)
    }
}

/// Gains of a [`Pid`]. The output is in thousandths of a worker's share.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Gains {
    /// Output for an error of 1: a full queue that should be empty.
    pub proportional: f64,
    /// Output for an error of 1 that lasts one second.
    pub integral: f64,
    /// Output for an error that grows by 1 per second.
    pub derivative: f64,
    /// The fill level to keep, 0 to 1.
    pub set_point: f64,
    /// Largest output in either direction.
    pub most: f64,
}

impl Default for Gains {
    /// For queues that fill in 0.5 to 10 s at twice their worker's speed.
    fn default() -> Gains {
        Gains { proportional: 120.0, integral: 0.0, derivative: 350.0, set_point: 0.1, most: 200.0 }
    }
}

/// The controller. It has no clock.
///
/// A PID controller on the fill level of a queue, as in the receivers of E2SAR, udplbd and JLab.
///
/// ```text
///   error = set point − fill             proportional: empties the queue
///   its sum over time                    integral: removes a lasting deviation
///   its change over time                 derivative: reacts to growth before the queue is full
/// ```
///
/// Unlike theirs, it divides by the time passed, so the gains do not depend on how often it is called; it stops
/// integrating while its output is at a limit; and its default gains balance the load.
#[derive(Clone, Debug)]
pub struct Pid {
    gains: Gains,
    sum: f64,
    last: Option<(f64, Nanos)>,
    answer: f64,
}

impl Pid {
    /// Calls closer together than this are too close to measure a change.
    const SHORTEST: Nanos = Nanos(10_000_000);

    /// A controller before its first call.
    #[must_use]
    pub fn new(gains: Gains) -> Pid {
        Pid { gains, sum: 0.0, last: None, answer: 0.0 }
    }

    /// Returns the signal for a queue with this fill level (0 to 1) at `now`: by how many thousandths the worker's
    /// share should change.
    pub fn signal(&mut self, fill: f64, now: Nanos) -> f64 {
        let gains = self.gains;
        let error = gains.set_point - fill;
        let passed = self.last.map_or(0.0, |(_, then)| now.since(then).0 as f64 / 1e9);
        let slope = match self.last {
            Some((_, then)) if now.since(then) < Pid::SHORTEST => return self.answer,
            Some((before, _)) => (error - before) / passed,
            None => 0.0,
        };
        let sum = self.sum + error * passed;
        let answer = gains.proportional * error + gains.integral * sum + gains.derivative * slope;
        self.answer = answer.clamp(-gains.most, gains.most);
        if self.answer == answer {
            self.sum = sum;
        }
        self.last = Some((error, now));
        self.answer
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A worker at 1000 events per second with room for 1000, which reports every 100 ms.
    #[derive(Default)]
    struct Queue {
        governor: Governor,
        filled: u64,
        load: Load,
        at: u64,
    }

    impl Queue {
        /// The signal after `n` reports at this rate of arrival, events per second.
        fn run(&mut self, arriving: u64, n: u64) -> f64 {
            let mut signal = 0.0;
            for _ in 0..n {
                self.at += 1;
                self.load.received += arriving / 10;
                let took = (self.filled + arriving / 10).min(100);
                self.load.taken += took;
                self.filled = (self.filled + arriving / 10 - took).min(1000);
                self.load.fill = self.filled as f64 / 1000.0;
                signal = self.governor.signal(self.load, Nanos(self.at * 100_000_000));
            }
            signal
        }
    }

    #[test]
    fn a_worker_that_is_behind_says_what_it_can_take() {
        for arriving in [1100, 1500, 4000] {
            let mut queue = Queue { filled: 900, ..Queue::default() };
            let signal = queue.run(arriving, 40);
            let expected = (1000.0 / arriving as f64 * (1.0 - 0.027) - 1.0) * 1000.0;
            assert!((signal - expected).abs() < 20.0, "{arriving}: {signal} {expected}");
        }
    }

    #[test]
    fn one_that_is_not_asks_for_a_little_more() {
        let mut queue = Queue::default();
        assert_eq!(queue.run(500, 20), 250.0);
        // It was behind once and remembers its speed.
        queue.run(2000, 20);
        queue.run(500, 30);
        let signal = queue.run(950, 20);
        assert!((70.0..110.0).contains(&signal), "{signal}");
        assert_eq!(queue.run(200, 20), 250.0, "but not for more than a quarter");
    }

    #[test]
    fn without_counts_the_fill_level_decides() {
        let mut governor = Governor::default();
        let mut pid = Pid::new(Gains::default());
        for n in 0..50u64 {
            let (fill, now) = (n as f64 / 60.0, Nanos(n * 100_000_000));
            assert_eq!(governor.signal(Load { fill, ..Load::default() }, now), pid.signal(fill, now));
        }
    }

    #[test]
    fn a_worker_that_begins_again_is_measured_anew() {
        let mut queue = Queue::default();
        queue.run(2000, 20);
        let again = Load { fill: 0.0, received: 1, taken: 1 };
        let signal = queue.governor.signal(again, Nanos(2_100_000_000));
        assert_eq!((signal, queue.governor.reports.len()), (0.0, 1), "nothing is known of one report");
    }

    fn gains(proportional: f64, integral: f64, derivative: f64) -> Gains {
        Gains { proportional, integral, derivative, set_point: 0.5, most: 100.0 }
    }

    #[test]
    fn each_term_alone() {
        let at = |n: u64| Nanos(n * 500_000_000);
        let mut p = Pid::new(gains(10.0, 0.0, 0.0));
        assert_eq!((p.signal(0.5, at(0)), p.signal(1.0, at(1)), p.signal(0.0, at(2))), (0.0, -5.0, 5.0));
        let mut i = Pid::new(gains(0.0, 10.0, 0.0));
        assert_eq!((i.signal(1.0, at(0)), i.signal(1.0, at(1)), i.signal(1.0, at(2))), (0.0, -2.5, -5.0));
        let mut d = Pid::new(gains(0.0, 0.0, 10.0));
        assert_eq!((d.signal(0.5, at(0)), d.signal(0.75, at(1)), d.signal(0.75, at(2))), (0.0, -5.0, 0.0));
    }

    #[test]
    fn a_sum_does_not_wind_up() {
        let mut pid = Pid::new(gains(0.0, 100.0, 0.0));
        (0..1000).for_each(|n| assert!(pid.signal(1.0, Nanos(n * 1_000_000_000)) >= -100.0));
        let back: Vec<f64> = (1000..1003).map(|n| pid.signal(0.0, Nanos(n * 1_000_000_000))).collect();
        assert!(back[1] > back[0] && back[2] >= 0.0, "{back:?}");
    }

    #[test]
    fn asked_again_at_once_it_says_the_same() {
        let mut pid = Pid::new(Gains::default());
        pid.signal(0.1, Nanos(0));
        let once = pid.signal(0.4, Nanos(100_000_000));
        assert!(once < -100.0);
        assert_eq!(pid.signal(0.9, Nanos(100_000_001)), once);
    }
}
