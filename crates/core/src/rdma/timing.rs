//! How long answers to Reads take on a connection, learned from it: when silence means that they are lost.
//!
//! The estimators are those of RFC 6298. An answer has an STag of its own, so it is never taken for that to another request, and
//! late answers teach too. A peer answers in the order of the requests and without a pause, so what is waited for is the
//! next segment, not the end of all answers: the time does not grow with the bytes under way.

use crate::placement::Nanos;

/// The least silence. A host that is busy with other work pauses for so long.
const MIN_SILENCE: Nanos = Nanos(2_000_000);
/// The longest, before doublings.
const MAX_SILENCE: Nanos = Nanos(1_000_000_000);
/// Silences in a row of the same length: on a path that loses half, every other probe brings nothing. Each later one is twice as long.
const STEADY_SILENCES: u32 = 4;
const MAX_DOUBLINGS: u32 = 10;
/// The least time that a datagram may come later than one that was sent after it, before it is taken to be lost and asked for again.
const REORDER_TIME: Nanos = Nanos(500_000);

/// Smoothed mean and deviation (RFC 6298, 2.2 and 2.3), in nanoseconds.
#[derive(Clone, Copy, Debug, Default)]
struct Smoothed {
    mean: u64,
    deviation: u64,
}

impl Smoothed {
    fn add(known: Option<Smoothed>, sample: Nanos) -> Smoothed {
        let sample = sample.0.min(MAX_SILENCE.0);
        let Some(Smoothed { mean, deviation }) = known else {
            return Smoothed { mean: sample, deviation: sample / 2 };
        };
        let deviation = deviation - deviation / 4 + mean.abs_diff(sample) / 4;
        Smoothed { mean: mean - mean / 8 + sample / 8, deviation }
    }

    fn longest(self) -> u64 {
        self.mean + 4 * self.deviation
    }
}

#[derive(Clone, Copy, Debug, Default)]
pub(super) struct AnswerTiming {
    /// From a request to its answer, where nothing was before it.
    round_trip: Option<Smoothed>,
    /// From one arrival to the next, while answers were due.
    gap: Option<Smoothed>,
    /// Silence counts from here: a request, an arrival, the end of the last silence.
    last: Nanos,
    /// The last arrival, if answers have been due ever since.
    arrival: Option<Nanos>,
    /// In a row.
    silences: u32,
}

impl AnswerTiming {
    /// A peer needed so long for an answer that nothing was before.
    pub(super) fn learn(&mut self, round_trip: Nanos) {
        self.round_trip = Some(Smoothed::add(self.round_trip, round_trip));
    }

    /// A request was made.
    pub(super) fn asked(&mut self, is_first_due: bool, now: Nanos) {
        self.last = now;
        if is_first_due {
            self.arrival = None;
        }
    }

    /// The last request that waited was handed out.
    pub(super) fn handed_out(&mut self, now: Nanos) {
        self.last = self.last.max(now);
    }

    /// A segment of an answer has arrived. Those of one train arrive at one time. `is_late`: after a silence, it answers what was asked before.
    pub(super) fn arrived(&mut self, is_late: bool, now: Nanos) {
        let is_sample = is_late || self.silences == 0;
        if let Some(before) = self.arrival.filter(|before| is_sample && now > *before) {
            self.gap = Some(Smoothed::add(self.gap, now.since(before)));
        }
        (self.last, self.arrival, self.silences) = (now, Some(now), 0);
    }

    /// Nothing came although something was due.
    pub(super) fn silent(&mut self, now: Nanos) {
        (self.last, self.silences) = (now, self.silences.saturating_add(1));
    }

    /// Whether nothing has come since the last silence.
    pub(super) fn is_silent(&self) -> bool {
        self.silences > 0
    }

    /// When answers that are still due are taken to be lost; unknown before the first answer.
    pub(super) fn due(&self) -> Option<Nanos> {
        let longest = self.round_trip?.longest().max(self.gap.map_or(0, Smoothed::longest));
        let silence = longest.clamp(MIN_SILENCE.0, MAX_SILENCE.0);
        let doublings = self.silences.saturating_sub(STEADY_SILENCES - 1).min(MAX_DOUBLINGS);
        Some(self.last.plus(Nanos(silence << doublings)))
    }

    /// How long what is missing of an answer whose end has come may still be on its way; `took` is the time of that answer.
    pub(super) fn reorder(&self, took: Nanos) -> Nanos {
        let learned = self.round_trip.map(|known| (known.mean / 4).max(2 * known.deviation).min(took.0 / 4));
        Nanos(learned.unwrap_or(took.0 / 4).max(REORDER_TIME.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MICROSECOND: u64 = 1_000;

    fn steady(round_trip: u64) -> AnswerTiming {
        let mut timing = AnswerTiming::default();
        (0..32).for_each(|_| timing.learn(Nanos(round_trip)));
        timing
    }

    #[test]
    fn silence_is_unknown_before_the_first_answer() {
        let mut timing = AnswerTiming::default();
        timing.asked(true, Nanos(5));
        assert_eq!(timing.due(), None);
    }

    #[test]
    fn silence_is_short_on_a_short_path_and_long_on_a_long_one() {
        assert_eq!(steady(100 * MICROSECOND).due(), Some(MIN_SILENCE));
        let due = steady(100_000 * MICROSECOND).due().unwrap().0;
        assert!((100_000 * MICROSECOND..120_000 * MICROSECOND).contains(&due), "{due}");
        let first = {
            let mut timing = AnswerTiming::default();
            timing.learn(Nanos(100_000 * MICROSECOND));
            timing.due().unwrap().0
        };
        assert_eq!(first, 300_000 * MICROSECOND, "RFC 6298, 2.2: R + 4 · R/2");
    }

    /// A peer that sends a segment each 20 ms is not silent after a round trip of 100 µs.
    #[test]
    fn pauses_between_arrivals_are_no_silence() {
        let mut timing = steady(100 * MICROSECOND);
        (0..32).for_each(|n| timing.arrived(false, Nanos(n * 20_000 * MICROSECOND)));
        let due = timing.due().unwrap().since(Nanos(31 * 20_000 * MICROSECOND)).0;
        assert!(due >= 20_000 * MICROSECOND, "{due}");
    }

    /// What comes after a silence teaches a pause if it was asked for before, and nothing if it answers the silence.
    #[test]
    fn only_late_answers_teach_a_pause() {
        let pause = 50_000 * MICROSECOND;
        let silence = |is_late| {
            let mut timing = steady(100 * MICROSECOND);
            timing.arrived(false, Nanos(0));
            timing.silent(Nanos(pause / 2));
            timing.arrived(is_late, Nanos(pause));
            timing.due().unwrap().since(Nanos(pause))
        };
        assert_eq!(silence(false), MIN_SILENCE);
        assert!(silence(true) > Nanos(pause), "{:?}", silence(true));
    }

    #[test]
    fn silences_become_longer_until_something_arrives() {
        let (mut timing, mut waits) = (steady(100 * MICROSECOND), Vec::new());
        for _ in 0..MAX_DOUBLINGS + 6 {
            let due = timing.due().unwrap();
            waits.push(due.since(timing.last).0 / MIN_SILENCE.0);
            timing.silent(due);
        }
        assert_eq!(waits, [1, 1, 1, 1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 1024, 1024]);
        timing.arrived(false, timing.last);
        assert_eq!(timing.due(), Some(timing.last.plus(MIN_SILENCE)));
    }

    /// Any time, of any clock, is a sample.
    #[test]
    fn samples_are_bounded() {
        let mut timing = AnswerTiming::default();
        (0..100).for_each(|n| timing.learn(Nanos(if n % 2 == 0 { u64::MAX } else { 0 })));
        assert!(timing.due().is_some_and(|due| due <= MAX_SILENCE));
        timing.silent(Nanos(u64::MAX));
        assert_eq!(timing.due(), Some(Nanos(u64::MAX)));
    }
}
