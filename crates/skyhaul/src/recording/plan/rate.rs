//! Frame numbers from one time to another, at the frame rate of a datastream.

use crate::frames;
use crate::recording::index::record::Datastream;
use crate::recording::plan::gap::Time;

/// Frames of one thread in so many seconds, if known.
#[derive(Clone, Copy, Debug, Default)]
pub(in crate::recording) struct Rate(Option<(u64, u64)>);

impl Rate {
    /// By the index, or, where seconds have no whole number of frames, by the format.
    pub(in crate::recording) fn of(about: Option<&Datastream>) -> Rate {
        let Some(about) = about else { return Rate(None) };
        let stated = about.info.frames_per_second.map(|frames| (u64::from(frames), 1));
        let fixed = || frames::stream_format(about)?.own.rate();
        Rate(stated.or_else(fixed).filter(|&(frames, seconds)| frames > 0 && seconds > 0))
    }

    /// Frames and seconds.
    pub(in crate::recording) fn get(self) -> Option<(u64, u64)> {
        self.0
    }

    /// Frame numbers from `from` to `to`; where seconds have no whole number of frames, one more or less.
    pub(in crate::recording) fn steps(self, from: Time, to: Time) -> Option<i128> {
        let (frames, seconds) = self.0?;
        let begin = |second: i64| (i128::from(second) * i128::from(frames)).div_euclid(i128::from(seconds));
        Some(begin(to.0) - begin(from.0) + i128::from(to.1) - i128::from(from.1))
    }

    /// Whether so many steps are none that is missing: a chunk may begin within the frame number in which the one before
    /// ended, where threads share it.
    pub(in crate::recording) fn is_next(self, steps: i128) -> bool {
        let slack = i128::from(self.0.is_some_and(|(_, seconds)| seconds > 1));
        (-slack..=1 + slack).contains(&steps)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_compared_at_rates_that_are_not_whole() {
        let whole = Rate(Some((600, 1)));
        assert_eq!(whole.steps((10, 599), (12, 1)), Some(602));
        assert!(whole.is_next(0) && whole.is_next(1) && !whole.is_next(-1) && !whole.is_next(2));
        // 12207.03 packets in a second: one number more or less, over any time.
        let lofar = Rate(Some((200_000_000, 16_384)));
        let day = lofar.steps((1_772_600_707, 5), (1_772_687_107, 5)).unwrap();
        assert!((day - 1_054_687_500).abs() <= 1, "{day}");
        assert!(lofar.is_next(2) && lofar.is_next(-1) && !lofar.is_next(3) && !lofar.is_next(-2));
        assert_eq!(Rate::default().steps((1, 0), (2, 0)), None);
    }
}
