//! The times in the headers of frames: read, counted, and moved by a constant.
//!
//! To send a file, the times are needed to pace its frames, to number its packets so that gaps show, and to give frames
//! new times on request. A new time is the old one plus a constant, so gaps, threads and their order do not change.
//!
//! ```text
//!   file       A0 B0 A1 B1    A3 B3         thread, frame in the second; number 2 is missing
//!   by 2 s     A0 B0 A1 B1    A3 B3         the same frames, two seconds later
//!   by 4       A4 B4 A5 B5    A7 B7         the next pass of a loop: four frames later
//! ```

use super::frame::{FrameTime, Frames};
use super::header::Order;

/// By how much frames are moved.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Move {
    /// Whole seconds.
    pub seconds: i64,
    /// Frames of a thread, after that.
    pub frames: i64,
    /// Packets of all threads: for counters of packets in the headers.
    pub packets: i64,
    /// Frames of a thread in a second; needed if `frames` is not 0.
    pub fps: Option<u32>,
    /// Unix time at which the moved frames begin, for formats whose reference epoch follows from it.
    pub begin: Option<i64>,
}

/// How the packets of a family are numbered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Numbered {
    /// With a sequence number before each frame, or without, as the sender wishes.
    ByChoice,
    /// Never.
    Never,
    /// Always: each frame is cut into this many packets of one size, numbered in this way.
    InParts(usize, Numbering),
}

/// A frame in the count of its thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Counted {
    /// Its thread; 0 if the format has none.
    pub thread: u16,
    /// Frames of the thread since 1970.
    pub number: i64,
}

/// How far the first frames of a stream may be from each other, with losses between them.
const NEAR_SECONDS: u64 = 3600;

/// The Unix second with which frames begin, of the seconds of the first ones: the first that is near the median. A damaged header, or a
/// thread with a wrong clock, may be in front. `None` without frames.
#[must_use]
pub fn first_second(seconds: &[i64]) -> Option<i64> {
    let mut sorted = seconds.to_vec();
    sorted.sort_unstable();
    let median = *sorted.get(sorted.len() / 2)?;
    seconds.iter().copied().find(|second| second.abs_diff(median) <= NEAR_SECONDS)
}

/// The times of a family's frames.
pub trait Stamps: Sync {
    /// Where frames end.
    fn frames(&self) -> &'static dyn Frames;

    /// The units of its recordings: frames, or parts of frames if these are recorded as they arrive.
    fn units(&self) -> &'static dyn Frames {
        self.frames()
    }

    /// How its packets are numbered.
    fn numbered(&self) -> Numbered {
        Numbered::ByChoice
    }

    /// The time in the header of `frame`; `None` without a valid header. `near`: a Unix time within 500 days of the data; `fps`: frames
    /// of a thread per second, if known.
    fn time(&self, frame: &[u8], near: i64, fps: Option<u32>) -> Option<FrameTime>;

    /// Frames of a thread and the whole seconds that they take, if the header of `frame` states that. `fps`: the number
    /// per second, if it is known otherwise.
    fn pace(&self, frame: &[u8], fps: Option<u32>) -> Option<(u64, u64)>;

    /// Frames per second, if only several headers together give it.
    fn found_rate(&self, _frames: &[&[u8]]) -> Option<u32> {
        None
    }

    /// The frame in the count of its thread, at this rate.
    fn count(&self, frame: &[u8], near: i64, fps: u32) -> Option<Counted> {
        let time = self.time(frame, near, Some(fps))?;
        let number = time.unix_seconds.checked_mul(i64::from(fps))?.checked_add(i64::from(time.frame))?;
        Some(Counted { thread: time.thread, number })
    }

    /// The highest rate that the header can count.
    fn max_rate(&self) -> u32;

    /// The header of `frame` with its time moved, and its length; `None` if the header cannot represent that time.
    fn moved(&self, frame: &[u8], by: &Move) -> Option<([u8; 32], usize)>;
}

/// Bytes before the frame that contain the number.
pub const PREFIX: usize = 8;

/// Position and byte order of the number in these bytes.
///
/// The sequence number before the frame in each packet.
///
/// ```text
///   VTP       ┌ number, 8 octets, either order ┐
///   FILA10G   ┌ without meaning, 4 ┬ number, 4, little-endian ┐
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Numbering {
    at: usize,
    bytes: usize,
    order: Order,
}

impl Numbering {
    /// All eight bytes, in this order.
    #[must_use]
    pub const fn whole(order: Order) -> Numbering {
        Numbering { at: 0, bytes: PREFIX, order }
    }

    /// The last four bytes, in this order.
    #[must_use]
    pub const fn last_four(order: Order) -> Numbering {
        Numbering { at: 4, bytes: 4, order }
    }

    /// The bytes of packet `number`; those without meaning are zero.
    #[inline]
    #[must_use]
    pub fn write(self, number: u64) -> [u8; PREFIX] {
        self.rewrite([0; PREFIX], number)
    }

    /// The bytes of the packet `packets` after the one with this prefix.
    #[must_use]
    pub fn advanced(self, prefix: [u8; PREFIX], packets: i64) -> [u8; PREFIX] {
        self.rewrite(prefix, self.read(prefix).wrapping_add_signed(packets))
    }

    fn rewrite(self, mut prefix: [u8; PREFIX], number: u64) -> [u8; PREFIX] {
        let field = &mut prefix[self.at..self.at + self.bytes];
        match self.order {
            Order::Little => field.copy_from_slice(&number.to_le_bytes()[..self.bytes]),
            Order::Big => field.copy_from_slice(&number.to_be_bytes()[PREFIX - self.bytes..]),
        }
        prefix
    }

    fn read(self, prefix: [u8; PREFIX]) -> u64 {
        let add = |number: u64, octet: &u8| number << 8 | u64::from(*octet);
        let field = &prefix[self.at..self.at + self.bytes];
        match self.order {
            Order::Little => field.iter().rev().fold(0, add),
            Order::Big => field.iter().fold(0, add),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::vtp;
    use proptest::prelude::*;

    #[test]
    fn a_damaged_first_second_is_not_believed() {
        assert_eq!(first_second(&[]), None);
        assert_eq!(first_second(&[7]), Some(7));
        assert_eq!(first_second(&[5, 4, 5, 6]), Some(5), "in any order");
        assert_eq!(first_second(&[i64::MIN, 4, 5, 6]), Some(4));
        assert_eq!(
            first_second(&[90_000, 4, 90_000, 5, 4]),
            Some(4),
            "a thread with a wrong clock is in front"
        );
    }

    proptest! {
        #[test]
        fn numbers_count_on_and_leave_the_rest(prefix: [u8; 8], number: u64, packets: i64, big: bool) {
            let order = if big { Order::Big } else { Order::Little };
            let whole = Numbering::whole(order);
            prop_assert_eq!(whole.write(number), vtp::write(number, order));
            let next = whole.advanced(whole.write(number), packets);
            prop_assert_eq!(vtp::psn(&next, order), Some(number.wrapping_add_signed(packets)));
            let half = Numbering::last_four(order);
            let next = half.advanced(prefix, packets);
            prop_assert_eq!(&next[..4], &prefix[..4]);
            prop_assert_eq!(half.read(next), half.read(prefix).wrapping_add_signed(packets) & 0xFFFF_FFFF);
        }
    }
}
