//! Gaps of a stream across the ends of seconds, where nothing states how many frames a second has.
//!
//! ```text
//!   second 7 ··· 96 97 98 │ second 8:  0 1 2 ···        98 may be the last frame of its second, or 99, or any other
//!             part        └ open gap      part
//! ```
//!
//! Such a gap counts as no frames, and the stream's loss is a lower bound, until the rate is learned. Then each gap is counted
//! by the times around it, and the loss is exact. Limit: of a stream that ends before, and of gaps beyond [`MAX_OPEN_GAPS`], it stays a
//! lower bound.

use super::info::StreamInfo;
use skyhaul_core::wire::FrameTime;
use std::ops::Range;
use std::sync::Arc;

/// A gap between two parts, by the times of the frames around it.
#[derive(Clone, Debug)]
pub(super) struct GapInTime {
    /// The stream as it was then.
    pub(super) info: Arc<StreamInfo>,
    /// The last frame that arrived before it, and the frames missing behind that in its part.
    pub(super) from: Option<FrameTime>,
    pub(super) trailing: u64,
    /// The first frame that arrived after it, and the frames missing before that in its part.
    pub(super) to: Option<FrameTime>,
    pub(super) leading: u64,
}

impl GapInTime {
    /// Frames lost in it, if so many of a thread are in a second; `None` without times. Those missing at the end of the part before it and
    /// at the start of the one behind it are counted with these parts.
    pub(super) fn frames(&self, rate: Option<u32>) -> Option<u64> {
        let fps = i64::from(rate?);
        let threads = &self.info.format.threads;
        let place = |time: FrameTime| {
            let rank = threads.iter().position(|t| t.id == time.thread).unwrap_or(0) as i64;
            let frame = time.unix_seconds.checked_mul(fps)?.checked_add(i64::from(time.frame))?;
            frame.checked_mul(threads.len().max(1) as i64)?.checked_add(rank)
        };
        let between = place(self.to?)?.checked_sub(place(self.from?)?)?;
        // Times that return leave no gap.
        let between = u64::try_from(between.saturating_sub(1)).unwrap_or(0);
        Some(between.saturating_sub(self.leading.saturating_add(self.trailing)))
    }
}

/// Gaps that are remembered until the frame rate is known: it takes some seconds to learn, and each has one.
const MAX_OPEN_GAPS: usize = 64;

/// Gaps across the ends of seconds, before it is known how many frames a second has.
#[derive(Debug, Default)]
pub(super) struct OpenGaps {
    /// Each with the number of the frame behind it.
    open: Vec<(GapInTime, u64)>,
    /// There were more of them, or their frames have no times.
    uncountable: bool,
}

impl OpenGaps {
    pub(super) fn open(&mut self, gap: GapInTime, end: u64) {
        if gap.from.is_some() && gap.to.is_some() && self.open.len() < MAX_OPEN_GAPS {
            self.open.push((gap, end));
        } else {
            self.uncountable = true;
        }
    }

    /// Whether there are some whose frames can be counted once the rate is known.
    #[inline]
    pub(super) fn may_settle(&self) -> bool {
        !self.open.is_empty()
    }

    pub(super) fn are_open(&self) -> bool {
        self.uncountable || !self.open.is_empty()
    }

    /// The numbers of the frames that were lost in gaps that were open, if the rate is known by now.
    pub(super) fn settle(&mut self, rate: Option<u32>) -> Vec<Range<u64>> {
        let mut settled = Vec::new();
        if rate.is_some() {
            for (gap, end) in std::mem::take(&mut self.open) {
                match gap.frames(rate) {
                    Some(frames) => settled.push(end.saturating_sub(frames)..end),
                    None => self.uncountable = true,
                }
            }
        }
        settled.retain(|numbers| !numbers.is_empty());
        settled
    }
}
