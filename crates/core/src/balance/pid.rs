//! A PID controller on the fill level of a queue, as in the receivers of E2SAR, udplbd and JLab.
//!
//! ```text
//!   error = set point − fill             proportional: empties the queue
//!   its sum over time                    integral: removes a lasting deviation
//!   its change over time                 derivative: reacts to growth before the queue is full
//! ```
//!
//! Unlike theirs, it divides by the time passed, so the gains do not depend on how often it is called; it stops
//! integrating while its output is at a limit; and its default gains balance the load.

use crate::placement::Nanos;

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
