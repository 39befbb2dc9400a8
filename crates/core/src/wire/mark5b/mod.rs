//! Mark 5B disk frame (Haystack Mark 5 memo 58; the 16-bit frame number is jive5ab's 4 Gb/s extension).
//!
//! 10 016 bytes: four little-endian words, then 2500 words of samples.
//!
//! ```text
//!       31 ··············· 16 15 14 ··············· 0
//!   0   0xABADDEED
//!   1   user                 test   frame in the second
//!   2   J J J S S S S S      (BCD: MJD modulo 1000, second of the day)
//!   3   .S S S S             CRC                      (BCD: 0.1 ms, truncated)
//! ```
//!
//! * The CRC uses x^16 + x^15 + x^2 + 1 (0x8005), initial value 0, high bit first, over word 2 and the fraction. Some
//!   formatters leave fraction and CRC zero: a CRC of zero is not checked.
//! * At 4 Gb/s and above a second has more frames than 15 bits can number, and the number extends into the test bit.
//! * The date repeats every 1000 days; see [`unix_seconds`].

mod family;

pub use family::{Mark5bFamily, Mark5bStream};
pub(crate) use family::{STAMPS, frame_time, has_header, inspect_header, learned, meaning, predicted};

use super::layout::{Blocks, Rate, wrong_size};
use crate::placement::{Geometry, Layout, Placement, Reject};

crate::header! {
    /// Mark 5B frame header.
    Mark5b [16] {
        le u32 @ 0 { /** 0xABADDEED. */ sync }
        le u32 @ 4 {
            /** Free for the user. */ user[31:16],
            /** Test vector; from 4 Gb/s on the high bit of the frame number. */ test[15],
            /** Frame in the second. */ frame[14:0]
        }
        le u32 @ 8 { /** BCD: MJD modulo 1000. */ day_bcd[31:20], /** BCD: second of the day. */ second_bcd[19:0] }
        le u32 @ 12 { /** BCD: fraction of the second, 0.1 ms, truncated. */ fraction_bcd[31:16], /** CRC-16. */ crc[15:0] }
    }
}

/// First word of every frame.
pub const SYNC: u32 = 0xABAD_DEED;
/// Bytes of a whole frame.
pub const FRAME: usize = 10_016;
/// Bytes of samples.
pub const PAYLOAD: usize = FRAME - Mark5b::LEN;
/// Frames in a second that 15 bits can number.
const FRAMES_15: u32 = 1 << 15;

/// The value of BCD digits; `None` if one is not 0‥9.
#[inline]
#[must_use]
pub fn from_bcd(bcd: u32) -> Option<u32> {
    // A nibble of 10 or more carries into its neighbour when 6 is added: the carry shows in the sum.
    let carries = (u64::from(bcd) + 0x6666_6666) ^ u64::from(bcd) ^ 0x6666_6666;
    if carries & 0x1_1111_1110 != 0 {
        return None;
    }
    let pairs = (bcd & 0x0F0F_0F0F) + 10 * (bcd >> 4 & 0x0F0F_0F0F);
    let fours = (pairs & 0x00FF_00FF) + 100 * (pairs >> 8 & 0x00FF_00FF);
    Some((fours & 0xFFFF) + 10_000 * (fours >> 16))
}

/// The BCD digits of `value` (its last eight).
#[must_use]
pub fn to_bcd(value: u32) -> u32 {
    (0..8).fold((0, value), |(bcd, rest), digit| (bcd | (rest % 10) << (4 * digit), rest / 10)).0
}

/// One byte of the CRC at a time.
const CRC_TABLE: [u16; 256] = {
    let mut table = [0u16; 256];
    let mut octet = 0;
    while octet < 256 {
        let mut crc = (octet as u16) << 8;
        let mut bit = 0;
        while bit < 8 {
            crc = if crc & 0x8000 == 0 { crc << 1 } else { crc << 1 ^ 0x8005 };
            bit += 1;
        }
        table[octet] = crc;
        octet += 1;
    }
    table
};

/// The CRC of word 2 and the fraction.
#[inline]
#[must_use]
pub fn crc(word2: u32, fraction: u16) -> u16 {
    let bits = u64::from(word2) << 16 | u64::from(fraction);
    let octets = bits.to_be_bytes();
    octets[2..].iter().fold(0, |crc, octet| crc << 8 ^ CRC_TABLE[usize::from((crc >> 8) as u8 ^ octet)])
}

/// Time of a frame, from its header.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Time {
    /// MJD modulo 1000.
    pub day: u32,
    /// Second of the day.
    pub second: u32,
    /// Frame in the second, with the test bit as its bit 15.
    pub frame: u32,
}

impl Mark5b {
    /// A header for this frame, with its CRC. `fraction` is that of the second, in 0.1 ms.
    #[must_use]
    pub fn new(time: Time, fraction: u32) -> Mark5b {
        let mut header = Mark5b {
            sync: SYNC,
            user: 0,
            test: time.frame >> 15,
            frame: time.frame & 0x7FFF,
            day_bcd: to_bcd(time.day),
            second_bcd: to_bcd(time.second),
            fraction_bcd: to_bcd(fraction),
            crc: 0,
        };
        header.crc = header.computed_crc();
        header
    }

    /// Frame number with the test bit as its bit 15.
    #[inline]
    #[must_use]
    pub fn frame16(&self) -> u32 {
        self.test << 15 | self.frame
    }

    /// The correct CRC.
    #[inline]
    #[must_use]
    pub fn computed_crc(&self) -> u32 {
        u32::from(crc(self.day_bcd << 20 | self.second_bcd, self.fraction_bcd as u16))
    }

    /// The time in the header.
    ///
    /// # Errors
    /// [`Reject::BadMagic`] without the sync word, [`Reject::BadField`] for invalid BCD or an invalid second of the day,
    /// [`Reject::BadChecksum`] for a CRC that is neither correct nor zero.
    #[inline]
    pub fn time(&self) -> Result<Time, Reject> {
        if self.sync != SYNC {
            return Err(Reject::BadMagic);
        }
        if self.crc != 0 && self.crc != self.computed_crc() {
            return Err(Reject::BadChecksum);
        }
        let bcd = |digits| from_bcd(digits).ok_or(Reject::BadField);
        let (day, second) = (bcd(self.day_bcd)?, bcd(self.second_bcd)?);
        // A day may have a leap second.
        if second > 86_400 {
            return Err(Reject::BadField);
        }
        Ok(Time { day, second, frame: self.frame16() })
    }
}

impl Mark5b {
    /// The same header `seconds` later, for this frame (16 bits if the rate needs them). If the formatter writes neither
    /// fraction nor CRC, both stay zero; if the rate is unknown, the fraction is unchanged.
    #[must_use]
    pub fn moved(mut self, seconds: i64, frame: u32, fps: Option<u32>) -> Mark5b {
        let none = self.crc == 0 && self.fraction_bcd == 0;
        if let Some((day, second)) = from_bcd(self.day_bcd).zip(from_bcd(self.second_bcd)) {
            let total = (i64::from(day) * 86_400 + i64::from(second)).saturating_add(seconds);
            let total = total.rem_euclid(1000 * 86_400) as u32;
            (self.day_bcd, self.second_bcd) = (to_bcd(total / 86_400), to_bcd(total % 86_400));
        }
        if fps.is_none_or(|fps| fps > FRAMES_15) {
            self.test = frame >> 15 & 1;
        }
        self.frame = frame & 0x7FFF;
        if let Some(fps) = fps.filter(|&fps| fps > 0 && !none) {
            self.fraction_bcd = to_bcd((u64::from(frame) * 10_000 / u64::from(fps)) as u32) & 0xFFFF;
        }
        self.crc = if self.crc == 0 { 0 } else { self.computed_crc() };
        self
    }
}

/// MJD of 1970-01-01.
pub(crate) const UNIX_EPOCH_MJD: i64 = 40_587;

/// Unix time of `second` of the day with this MJD modulo 1000, for the matching day nearest to `near`.
#[must_use]
pub fn unix_seconds(day: u32, second: u32, near: i64) -> i64 {
    let near_mjd = near.div_euclid(86_400) + UNIX_EPOCH_MJD;
    (mjd(day, near_mjd) - UNIX_EPOCH_MJD) * 86_400 + i64::from(second)
}

/// The MJD nearest to `near_mjd` that is this one modulo 1000.
#[inline]
fn mjd(day: u32, near_mjd: i64) -> i64 {
    near_mjd + (i64::from(day) - near_mjd + 500).rem_euclid(1000) - 500
}

/// Frames per second, from frame number and fraction of some headers: the only rate of 200, 400 … 102 400 (16 Mb/s to 8
/// Gb/s) that matches all fractions. `None` if several match, or none.
pub fn frames_per_second(headers: &[Mark5b]) -> Option<u32> {
    let explains = |fps: u32, header: &Mark5b| {
        // If 15 bits are enough, bit 15 is the test bit.
        let frame = u64::from(if fps <= 1 << 15 { header.frame } else { header.frame16() });
        let fraction = frame * 10_000 / u64::from(fps);
        frame < u64::from(fps) && from_bcd(header.fraction_bcd).is_some_and(|f| u64::from(f) == fraction)
    };
    let mut rates = (0..10).map(|k| 200u32 << k).filter(|&fps| headers.iter().all(|h| explains(fps, h)));
    rates.next().filter(|_| rates.next().is_none())
}

/// The layout of a stream of whole Mark 5B frames, with or without a sequence number.
#[derive(Clone, Debug)]
pub struct Mark5bLayout {
    blocks: Blocks,
    network: usize,
    sequence: Option<super::header::Order>,
    rate: Rate,
    frame_mask: u32,
    near_mjd: i64,
}

impl Mark5bLayout {
    /// Placed by the sequence number in this byte order, or by time if `None`; a second has `fps` frames. `near` is a Unix time within 500
    /// days of the data.
    ///
    /// # Errors
    /// [`Reject::WrongSize`] if `blocks` are not of such frames, [`Reject::BadField`] for a rate of 0.
    pub fn new(
        blocks: Blocks,
        sequence: Option<super::header::Order>,
        fps: Option<u32>,
        near: i64,
    ) -> Result<Mark5bLayout, Reject> {
        let network = (blocks.packet_bytes as usize).checked_sub(FRAME).ok_or(Reject::WrongSize)?;
        if sequence.is_some() && network < 8 {
            return Err(Reject::WrongSize);
        }
        let rate = Rate::new(fps, 1 << 16, 1, &blocks)?;
        // If 15 bits are enough, the test bit means test.
        let frame_mask = if fps.is_some_and(|fps| fps <= FRAMES_15) { 0x7FFF } else { 0xFFFF };
        // Positions fit 64 bits until the year 13 000.
        let near_mjd = (near.div_euclid(86_400) + UNIX_EPOCH_MJD).clamp(500, 1 << 22);
        Ok(Mark5bLayout { blocks, network, sequence, rate, frame_mask, near_mjd })
    }

    /// Whether the last object of a second may be shorter than the others.
    #[must_use]
    pub fn short_objects(&self) -> bool {
        self.sequence.is_none() && matches!(self.rate, Rate::Stride(_))
    }
}

impl Layout for Mark5bLayout {
    #[inline]
    fn place(&self, packet: &[u8]) -> Result<Placement, Reject> {
        if packet.len() != self.blocks.packet_bytes as usize {
            return Err(wrong_size(self.blocks.packet_bytes as usize, || None, packet));
        }
        let (header, _) = packet.get(self.network..).and_then(Mark5b::read).ok_or(Reject::Truncated)?;
        if let Some(order) = self.sequence {
            let psn = super::vtp::psn(packet, order).ok_or(Reject::Truncated)?;
            return if header.sync == SYNC { Ok(self.blocks.place(0, psn)) } else { Err(Reject::BadMagic) };
        }
        let time = header.time()?;
        // The day of a thousand begins anew while a stream is received.
        let second = mjd(time.day, self.near_mjd) as u64 * 86_400 + u64::from(time.second);
        self.rate.place(&self.blocks, second, time.frame & self.frame_mask, 1, 0)
    }

    fn geometry(&self) -> Geometry {
        self.blocks.geometry()
    }

    fn units_between(&self, from: u64, to: u64) -> Option<u64> {
        match self.sequence {
            Some(_) => self.blocks.between(from, to),
            None => self.rate.between(&self.blocks, from, to),
        }
    }
}

#[cfg(test)]
mod tests;
