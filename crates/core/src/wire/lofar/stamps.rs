//! The times of RSP packets, counted in time slices because a second does not have a whole number of packets.

use super::{CYCLES, LofarFamily, Rsp, SLICES, family::header, time};
use crate::wire::{
    frame::{FrameTime, Frames},
    stamps::{Counted, Move, Numbered, Stamps},
};

impl Stamps for LofarFamily {
    fn frames(&self) -> &'static dyn Frames {
        &LofarFamily
    }

    fn numbered(&self) -> Numbered {
        Numbered::Never
    }

    fn time(&self, frame: &[u8], _: i64) -> Option<FrameTime> {
        header(frame).map(|header| time(&header, 0))
    }

    fn pace(&self, frame: &[u8], _: Option<u32>) -> Option<(u64, u64)> {
        header(frame).map(|header| (header.clock_hz(), CYCLES * u64::from(SLICES)))
    }

    fn count(&self, frame: &[u8], _: i64, _: u32) -> Option<Counted> {
        let header = header(frame)?;
        let number = i64::try_from(header.time().ok()? / u64::from(SLICES)).ok()?;
        Some(Counted { thread: header.lane, number })
    }

    fn max_rate(&self) -> u32 {
        1 << 16
    }

    fn moved(&self, frame: &[u8], by: &Move) -> Option<([u8; 32], usize)> {
        let header = header(frame)?;
        // The whole number of packets that is nearest to this time.
        let packet = i128::from(CYCLES) * i128::from(SLICES);
        let seconds =
            (i128::from(by.seconds) * i128::from(header.clock_hz()) + packet / 2).div_euclid(packet);
        let packets = i64::try_from(seconds).ok()?.checked_add(by.frames)?;
        let slices = packets.checked_mul(i64::from(SLICES))?;
        let moved = header.at(header.time().ok()?.checked_add_signed(slices)?)?;
        let mut octets = [0; 32];
        octets[..Rsp::LEN].copy_from_slice(&moved.write());
        Some((octets, Rsp::LEN))
    }
}
