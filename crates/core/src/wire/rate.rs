//! Measures the frame rate of a stream whose headers do not state it, at the ends of seconds.
//!
//! A second received from start to end has its highest frame number plus one frames. Loss can only make that smaller, so
//! the rate is the value on which two consecutive seconds agree. It takes three to four seconds of data.
//!
//! ```
//! use skyhaul_core::wire::{FrameTime, RateWatch};
//!
//! let mut watch = RateWatch::default();
//! let mut times = (70..500).map(|n| FrameTime { unix_seconds: n / 100, frame: (n % 100) as u32, thread: 0 });
//! assert_eq!(times.find_map(|time| watch.observe(time)), Some(100));
//! ```

use super::frame::FrameTime;

/// How many more frames must be of another second than of this before the stream is followed there, if none is of the second after it.
const STRAYS: u32 = 64;

/// Seconds in a row that have the same number of frames before it is believed that all have.
const AGREED: u32 = 4;

/// Watches whether seconds keep the frame rate that is known.
///
/// A second with fewer frames may have lost its end; four in a row that end with the same number show another rate.
#[derive(Clone, Debug, Default)]
pub struct RateChanges {
    ends: RateWatch,
    /// Another rate, the second by which it was seen, and how many in a row agree.
    other: Option<(u32, i64, u32)>,
}

impl RateChanges {
    /// Add a frame of a stream of `rate` frames per second. Returns another rate, once, when it is certain.
    pub fn observe(&mut self, time: FrameTime, rate: u32) -> Option<u32> {
        let frames = self.ends.observe(time).filter(|&frames| frames != rate)?;
        let agreed = match self.other {
            Some((of, second, agreed))
                if of == frames && second.checked_add(1) == Some(time.unix_seconds) =>
            {
                agreed.saturating_add(1)
            }
            _ => 2,
        };
        self.other = Some((frames, time.unix_seconds, agreed));
        (agreed == AGREED).then_some(frames)
    }
}

/// Watches the ends of seconds.
#[derive(Clone, Debug, Default)]
pub struct RateWatch {
    second: Option<i64>,
    /// Highest frame number of this second, of the previous one (whose last frames may still arrive), and the number of
    /// frames of the one before that.
    highest: u32,
    before: Option<u32>,
    ended: Option<u32>,
    /// Seconds begun since the stream is followed; the first was not received from its start.
    begun: u32,
    strays: u32,
    /// The second of the last frames, which is another, and their highest frame number.
    elsewhere: Option<(i64, u32)>,
}

impl RateWatch {
    /// Add a frame. Returns the rate once it is certain.
    pub fn observe(&mut self, time: FrameTime) -> Option<u32> {
        let ahead = self.second.and_then(|second| time.unix_seconds.checked_sub(second));
        match ahead {
            Some(0) => self.highest = self.highest.max(time.frame),
            Some(-1) => self.before = self.before.map(|highest| highest.max(time.frame)),
            Some(1) => return self.begin(time),
            _ => {
                self.stray(time);
                return None;
            }
        }
        self.found();
        None
    }

    /// A frame of this second, or of one beside it.
    fn found(&mut self) {
        self.strays = self.strays.saturating_sub(1);
        self.elsewhere = None;
    }

    /// A frame of another second. If the frames that follow it are of that second and then of the next one, the stream is there: so
    /// one frame of each part of a stream shows an outage as soon as all of them do.
    #[cold]
    fn stray(&mut self, time: FrameTime) {
        self.strays += 1;
        let (second, highest) = match self.elsewhere {
            Some((second, highest)) if second == time.unix_seconds => (second, highest.max(time.frame)),
            Some((second, highest)) if second.checked_add(1) == Some(time.unix_seconds) => {
                *self = RateWatch { second: Some(second), highest, ..Self::default() };
                self.begin(time);
                return;
            }
            _ => (time.unix_seconds, time.frame),
        };
        self.elsewhere = Some((second, highest));
        if self.second.is_none() || self.strays > STRAYS {
            *self = RateWatch { second: Some(second), highest, ..Self::default() };
        }
    }

    /// A new second begins: the one before the last is now complete.
    fn begin(&mut self, time: FrameTime) -> Option<u32> {
        let frames = self.before.and_then(|highest| highest.checked_add(1));
        let agreed = frames.filter(|_| self.ended == frames);
        self.ended = frames;
        self.before = (self.begun > 0).then_some(self.highest);
        (self.second, self.highest) = (Some(time.unix_seconds), time.frame);
        self.begun = self.begun.saturating_add(1);
        self.found();
        agreed
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn time(n: i64, fps: i64) -> FrameTime {
        FrameTime { unix_seconds: n.div_euclid(fps), frame: n.rem_euclid(fps) as u32, thread: 0 }
    }

    fn watch(times: impl IntoIterator<Item = FrameTime>) -> Option<u32> {
        let mut watch = RateWatch::default();
        times.into_iter().find_map(|time| watch.observe(time))
    }

    #[test]
    fn loss_at_the_end_of_a_second_and_strays_are_outlived() {
        let lost = |n: &i64| ![399, 398].contains(n);
        assert_eq!(watch((70..1000).filter(lost).map(|n| time(n, 100))), Some(100));
        let stray = FrameTime { unix_seconds: 1 << 40, frame: 9999, thread: 0 };
        let times =
            (70..1000).flat_map(|n| [time(n, 100), stray].into_iter().take(1 + usize::from(n % 3 == 0)));
        assert_eq!(watch([stray].into_iter().chain(times)), Some(100));
        assert_eq!(watch((70..299).map(|n| time(n, 100))), None, "too early to say");
    }

    /// A receiver looks at the last frame of each part, and has one or two of these in a second.
    #[test]
    fn an_outage_delays_it_by_the_seconds_that_it_takes_whatever_is_looked_at() {
        for (each, outage) in
            [(1, 200..300), (50, 200..300), (100, 200..1300), (100, 150..1250), (50, 150..160)]
        {
            let last = |n: &i64| n % each == each - 1 && !outage.contains(n);
            let upto = |end| watch((70..end).filter(last).map(|n| time(n, 100)));
            assert_eq!(upto(outage.end + 500), Some(100), "each {each}th, without {outage:?}");
        }
        // A thread whose clock is wrong takes turns with others, and hides nothing.
        let both = (70..1000).flat_map(|n| [time(n, 100), time(n + 7000, 100)]);
        assert_eq!(watch(both), Some(100));
    }

    #[test]
    fn another_rate_is_certain_after_four_equal_seconds_and_losses_at_their_ends_are_none() {
        let mut changes = RateChanges::default();
        let at = |second: i64, frame| FrameTime { unix_seconds: second, frame, thread: 0 };
        let mut changed = Vec::new();
        for second in 0..40 {
            // 60 frames from second 20 on; before, three seconds in a row lose the same, and others something.
            let frames = if second >= 20 {
                60
            } else if (4..7).contains(&second) {
                77
            } else {
                100 - second as u32 % 3
            };
            for frame in 0..frames {
                let rate = changed.last().map_or(100, |&(_, rate)| rate);
                changed.extend(changes.observe(at(second, frame), rate).map(|rate| (second, rate)));
            }
        }
        assert_eq!(changed, [(25, 60)]);
    }

    proptest! {
        #[test]
        fn reordering_hides_no_frame(fps in 20i64..300, from: u16, depth in 1u64..16, seed in 1u64..) {
            let mut random = seed;
            let mut numbers: Vec<i64> = (0..8 * fps).map(|n| n + i64::from(from)).collect();
            numbers.sort_by_cached_key(|n| {
                random ^= random << 13;
                random ^= random >> 7;
                random ^= random << 17;
                n + (random % depth) as i64
            });
            prop_assert_eq!(watch(numbers.iter().map(|&n| time(n, fps))), Some(fps as u32));
        }

        #[test]
        fn any_times_are_survived(times in proptest::collection::vec((any::<i64>(), any::<u32>()), 0..200), near: bool) {
            let mut watch = RateWatch::default();
            for (second, frame) in times {
                let unix_seconds = if near { second % 3 } else { second };
                watch.observe(FrameTime { unix_seconds, frame, thread: 0 });
            }
        }
    }
}
