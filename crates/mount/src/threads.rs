//! A thread of a scan as a file: every n-th frame of it.
//!
//! ```text
//!   scan       │ A 0 │ B 0 │ A 1 │ B 1 │ A 2 │ …      frames of threads A and B in turn, as recorders place them
//!   thread B   │ B 0 │ B 1 │ …
//! ```
//!
//! The thread in the header of each frame is compared before it is given: a frame of another thread is an error. Limit: for
//! scans whose index names several threads, and whose frames are all of one size.

use skyhaul::frames::{FramesOf, stream_format};
use skyhaul::recording::{Datastream, ExtentContent, ScanLayout};

/// A thread, and where its frames are.
#[derive(Clone, Debug)]
pub(crate) struct ThreadView {
    pub(crate) id: u16,
    order: FrameOrder,
    reader: FramesOf,
}

/// Every `threads`-th frame, from number `place` on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct FrameOrder {
    frame_bytes: u64,
    threads: u64,
    place: u64,
}

impl FrameOrder {
    /// Bytes of the thread in a file of `bytes` bytes.
    fn size(self, bytes: u64) -> u64 {
        let frames = bytes / self.frame_bytes;
        (frames + self.threads - 1).saturating_sub(self.place) / self.threads * self.frame_bytes
    }

    /// The frames that a range of the thread touches: where the first one begins in the thread, and where each is in the scan.
    fn frames(self, (offset, size): (u64, u64), bytes: u64) -> (u64, impl Iterator<Item = u64>) {
        let end = offset.saturating_add(size).min(self.size(bytes));
        let numbers = offset / self.frame_bytes..end.max(offset).div_ceil(self.frame_bytes);
        let numbers = if end > offset { numbers } else { 0..0 };
        let begin = numbers.start * self.frame_bytes;
        (begin, numbers.map(move |number| (number * self.threads + self.place) * self.frame_bytes))
    }
}

impl ThreadView {
    /// The threads of a datastream; none, if it has only one, or they do not take turns.
    pub(crate) fn of(about: &Datastream, layout: &ScanLayout) -> Vec<Self> {
        let packed = |content: &ExtentContent| match content {
            ExtentContent::Chunk(entry) => entry.record.as_ref().is_none_or(|record| record.meta.packed),
            ExtentContent::Missing(_) => false,
        };
        let reader = FramesOf::datastream(about, false);
        let (Some(format), Some(reader)) = (stream_format(about), reader) else { return Vec::new() };
        let (threads, frame_bytes) = (format.threads.len() as u64, u64::from(about.info.unit_bytes));
        let takes_turns = threads > 1 && threads == u64::from(about.info.lanes) && format.parts == 1;
        if !takes_turns || frame_bytes == 0 || layout.extents.iter().any(|extent| packed(&extent.content)) {
            return Vec::new();
        }
        let view = |(place, id): (u64, u16)| {
            let order = FrameOrder { frame_bytes, threads, place };
            Self { id, order, reader }
        };
        (0..).zip(format.threads.iter().map(|thread| thread.id)).map(view).collect()
    }

    /// Bytes of the thread in a scan of `bytes` bytes.
    pub(crate) fn size(&self, bytes: u64) -> u64 {
        self.order.size(bytes)
    }

    pub(crate) fn frame_bytes(&self) -> u64 {
        self.order.frame_bytes
    }

    /// As [`FrameOrder::frames`].
    pub(crate) fn frames(&self, range: (u64, u64), bytes: u64) -> (u64, impl Iterator<Item = u64>) {
        self.order.frames(range, bytes)
    }

    /// Whether whole frames are all of this thread; fill may be of none.
    pub(crate) fn has(&self, frames: &[u8]) -> bool {
        frames.chunks_exact(self.order.frame_bytes as usize).all(|frame| {
            let seen = self.reader.see(frame);
            let is_fill = frame.chunks_exact(4).all(|word| word == crate::reads::FILL);
            is_fill || (seen.illegal.is_none() && seen.thread == self.id)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// A range of a thread consists of that range of its frames, one behind the other.
        #[test]
        fn a_range_of_a_thread_is_every_nth_frame(
            frame_bytes in 1u64..9, threads in 2u64..5, place in 0u64..5, bytes in 0u64..200,
            offset in 0u64..120, size in 0u64..60,
        ) {
            let order = FrameOrder { frame_bytes, threads, place: place % threads };
            let frames = bytes / frame_bytes;
            let own = (0..frames).filter(|number| number % threads == order.place);
            let whole: Vec<u64> = own.flat_map(|n| n * frame_bytes..(n + 1) * frame_bytes).collect();
            prop_assert_eq!(order.size(bytes), whole.len() as u64);
            let (begin, found) = order.frames((offset, size), bytes);
            let read: Vec<u64> = found.flat_map(|at| at..at + frame_bytes).collect();
            let from = (offset as usize).min(whole.len());
            let to = ((offset + size) as usize).min(whole.len()).max(from);
            let skip = (offset.min(whole.len() as u64).saturating_sub(begin) as usize).min(read.len());
            let got = &read[skip..(skip + to - from).min(read.len())];
            prop_assert_eq!(got, &whole[from..to]);
        }
    }
}
