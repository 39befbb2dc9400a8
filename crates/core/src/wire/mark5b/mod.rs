//! Mark 5B disk frame (Haystack Mark 5 memo 58; the 16-bit frame number is jive5ab's 4 Gb/s extension).
//!
//! 10 016 octets: four little-endian words, then 2500 words of samples.
//!
//! ```text
//!       31 ··············· 16 15 14 ··············· 0
//!   0   0xABADDEED
//!   1   user                 test   frame in the second
//!   2   J J J S S S S S      (BCD: MJD modulo 1000, second of the day)
//!   3   .S S S S             CRC                      (BCD: 0.1 ms, truncated)
//! ```
//!
//! * The CRC is that of x^16 + x^15 + x^2 + 1 (0x8005), zero at first, high bit first, over word 2 and the fraction.
//!   Some formatters leave fraction and CRC zero: a CRC of zero is taken as none.
//! * At 4 Gb/s and above there are more frames in a second than 15 bits can number, and the number runs into the
//!   test bit.
//! * The date repeats every 1000 days; see [`unix_seconds`].

mod family;
mod fuzzing;
mod inspect;
mod restamp;

pub use family::{Mark5bFamily, Mark5bStream};
pub(crate) use family::{frame_time, has_header, learned, predicted};
pub(crate) use inspect::{header as inspect_header, meaning};
pub(crate) use restamp::file as restamp_file;

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
/// Octets of a whole frame.
pub const FRAME: usize = 10_016;
/// Octets of samples.
pub const PAYLOAD: usize = FRAME - Mark5b::LEN;
/// Frames in a second that 15 bits can number.
const FRAMES_15: u32 = 1 << 15;

/// The value of `digits` BCD digits; `None` where one is not 0‥9.
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

/// One octet of the CRC at a time.
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

/// Time of a frame as its header tells it.
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

    /// What the CRC should be.
    #[inline]
    #[must_use]
    pub fn computed_crc(&self) -> u32 {
        u32::from(crc(self.day_bcd << 20 | self.second_bcd, self.fraction_bcd as u16))
    }

    /// The time it tells.
    ///
    /// # Errors
    /// [`Reject::BadMagic`] without the sync word, [`Reject::BadField`] for what is no BCD or no second of a day,
    /// [`Reject::BadChecksum`] for a CRC that neither fits nor is zero.
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
    /// The same header `seconds` later, for this frame (16 bits where the rate needs them). A formatter that writes
    /// neither fraction nor CRC is followed in that; where the rate is unknown the fraction stays as it is.
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

/// Unix time of `second` of the day with this MJD modulo 1000: of all such days the one nearest to `near`.
#[must_use]
pub fn unix_seconds(day: u32, second: u32, near: i64) -> i64 {
    const UNIX_EPOCH_MJD: i64 = 40_587;
    let near_mjd = near.div_euclid(86_400) + UNIX_EPOCH_MJD;
    let ahead = (i64::from(day) - near_mjd + 500).rem_euclid(1000) - 500;
    (near_mjd + ahead - UNIX_EPOCH_MJD) * 86_400 + i64::from(second)
}

/// Frames in a second, from frame number and fraction of some headers: the one rate of 200, 400 … 102 400 (16 Mb/s
/// to 8 Gb/s) that explains all fractions. `None` where several do, or none.
pub fn frames_per_second(headers: &[Mark5b]) -> Option<u32> {
    let explains = |fps: u32, header: &Mark5b| {
        let frame = u64::from(header.frame16());
        let fraction = frame * 10_000 / u64::from(fps);
        frame < u64::from(fps) && from_bcd(header.fraction_bcd).is_some_and(|f| u64::from(f) == fraction)
    };
    let mut rates = (0..10).map(|k| 200u32 << k).filter(|&fps| headers.iter().all(|h| explains(fps, h)));
    rates.next().filter(|_| rates.next().is_none())
}

/// The layout of a stream of whole Mark 5B frames, bare or behind a sequence number.
#[derive(Clone, Debug)]
pub struct Mark5bLayout {
    blocks: Blocks,
    network: usize,
    sequence: Option<super::header::Order>,
    rate: Rate,
    frame_mask: u32,
}

impl Mark5bLayout {
    /// Placed by the sequence number of this byte order, or else by time; `fps` frames are in a second.
    ///
    /// # Errors
    /// [`Reject::WrongSize`] where `blocks` are not of such frames, [`Reject::BadField`] for a rate of 0.
    pub fn new(
        blocks: Blocks,
        sequence: Option<super::header::Order>,
        fps: Option<u32>,
    ) -> Result<Mark5bLayout, Reject> {
        let network = (blocks.packet_bytes as usize).checked_sub(FRAME).ok_or(Reject::WrongSize)?;
        if sequence.is_some() && network < 8 {
            return Err(Reject::WrongSize);
        }
        let rate = Rate::new(fps, 1 << 16, 1, &blocks)?;
        // Where 15 bits are enough the test bit means test.
        let frame_mask = if fps.is_some_and(|fps| fps <= FRAMES_15) { 0x7FFF } else { 0xFFFF };
        Ok(Mark5bLayout { blocks, network, sequence, rate, frame_mask })
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
        let second = u64::from(time.day) * 86_400 + u64::from(time.second);
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
mod tests {
    use super::*;
    use crate::wire::{
        header::{Order, tests::round_trip},
        vtp,
    };
    use proptest::prelude::*;

    #[test]
    fn table_round_trips() {
        round_trip!(Mark5b);
    }

    /// Word 2, fraction, CRC of frames that a formatter wrote (MJD 821, second 19801).
    const GOLDEN: [(u32, u16, u16); 4] = [
        (0x8211_9801, 0x0000, 0x975D),
        (0x8211_9801, 0x0001, 0x1758),
        (0x8211_9801, 0x0003, 0x9757),
        (0x8211_9801, 0x0004, 0x1746),
    ];

    fn golden() -> [Mark5b; 4] {
        [0, 1, 2, 3].map(|i| {
            let (_, fraction, _) = GOLDEN[i];
            Mark5b::new(Time { day: 821, second: 19_801, frame: i as u32 }, u32::from(fraction))
        })
    }

    #[test]
    fn crc_and_time_of_a_real_formatter() {
        for ((word2, fraction, want), header) in GOLDEN.into_iter().zip(golden()) {
            assert_eq!(crc(word2, fraction), want);
            assert_eq!((header.crc, header.day_bcd << 20 | header.second_bcd), (u32::from(want), word2));
            assert_eq!((header.time().unwrap().day, header.time().unwrap().second), (821, 19_801));
        }
    }

    #[test]
    fn the_date_is_the_nearest_with_these_three_digits() {
        // MJD 56821 is 2014-06-13.
        let day = (56_821 - 40_587) * 86_400;
        assert_eq!(unix_seconds(821, 19_801, day + 400 * 86_400), day + 19_801);
        assert_eq!(unix_seconds(821, 0, day - 499 * 86_400), day);
        assert_eq!(unix_seconds(821, 0, day + 600 * 86_400), day + 1000 * 86_400);
    }

    #[test]
    fn the_rate_shows_in_the_fractions() {
        assert_eq!(frames_per_second(&golden()), Some(6400), "512 Mb/s");
        assert_eq!(frames_per_second(&golden()[..1]), None, "frame 0 says nothing");
        let fast = Mark5b::new(Time { day: 1, second: 1, frame: 51_199 }, 9999);
        assert_eq!(frames_per_second(&[fast]), Some(51_200), "4 Gb/s, 16-bit frame number");
    }

    fn packet(header: Mark5b) -> Vec<u8> {
        let mut packet = header.write().to_vec();
        packet.resize(FRAME, 0);
        packet
    }

    fn layout(fps: Option<u32>) -> Mark5bLayout {
        Mark5bLayout::new(Blocks::new(FRAME, 0, 1, 10 * FRAME as u64).unwrap(), None, fps).unwrap()
    }

    fn position(layout: &Mark5bLayout, header: Mark5b) -> Result<u64, Reject> {
        layout.place(&packet(header)).map(|p| p.key.number * 10 + p.offset / FRAME as u64)
    }

    #[test]
    fn frames_are_placed_by_time() {
        let at = |second, frame| Mark5b::new(Time { day: 821, second, frame }, 0);
        let known = layout(Some(6400));
        assert_eq!(position(&known, at(7, 6399)).unwrap() + 1, position(&known, at(8, 0)).unwrap());
        assert_eq!(
            position(&known, at(7, 0x8001)),
            position(&known, at(7, 1)),
            "15 bits are enough: test bit"
        );
        let fast = layout(Some(51_200));
        assert_eq!(position(&fast, at(7, 0x8000)).unwrap(), position(&fast, at(7, 0x7FFF)).unwrap() + 1);
        let unknown = layout(None);
        assert!(
            unknown.short_objects()
                && position(&unknown, at(8, 0)).unwrap() > position(&unknown, at(7, 65_535)).unwrap()
        );
        assert_eq!(unknown.units_between(0, 1 << 40), None);
    }

    #[test]
    fn or_by_the_sequence_number_before_them() {
        let blocks = Blocks::new(FRAME + 8, 8, 1, 10 * FRAME as u64).unwrap();
        let layout = Mark5bLayout::new(blocks, Some(Order::Big), None).unwrap();
        let broken_time = Mark5b { second_bcd: 0xFFFFF, ..golden()[0] };
        let whole = [&vtp::write(31, Order::Big)[..], &packet(broken_time)].concat();
        let place = layout.place(&whole).unwrap();
        assert_eq!((place.key.number, place.offset, place.start), (3, FRAME as u64, 8));
        let no_sync = [&vtp::write(31, Order::Big)[..], &packet(Mark5b::default())].concat();
        assert_eq!(layout.place(&no_sync), Err(Reject::BadMagic));
        let bare = Blocks::new(FRAME, 0, 1, 10 * FRAME as u64).unwrap();
        assert_eq!(Mark5bLayout::new(bare, Some(Order::Big), None).unwrap_err(), Reject::WrongSize);
    }

    #[test]
    fn each_refusal() {
        let (layout, good) = (layout(Some(6400)), golden()[1]);
        assert_eq!(position(&layout, good), Ok(position(&layout, golden()[0]).unwrap() + 1));
        let zero_crc = Mark5b { crc: 0, fraction_bcd: 0, ..good };
        assert_eq!(position(&layout, zero_crc), position(&layout, good), "formatters that write no CRC");
        assert_eq!(position(&layout, Mark5b { crc: 1, ..good }), Err(Reject::BadChecksum));
        assert_eq!(position(&layout, Mark5b { sync: 1, ..good }), Err(Reject::BadMagic));
        assert_eq!(position(&layout, Mark5b { second_bcd: 0xA, crc: 0, ..good }), Err(Reject::BadField));
        assert_eq!(position(&layout, Mark5b { second_bcd: 0x99999, crc: 0, ..good }), Err(Reject::BadField));
        assert_eq!(position(&layout, Mark5b { frame: 6400, ..good }), Err(Reject::BadField));
        assert_eq!(layout.place(&packet(good)[..FRAME - 1]), Err(Reject::Truncated));
        assert_eq!(layout.place(&[packet(good), vec![0]].concat()), Err(Reject::WrongSize));
    }

    proptest! {
        #[test]
        fn bcd_is_the_decimal_digits(value in 0u32..100_000_000, nibble in 0u32..8, digit in 10u32..16) {
            let bcd = to_bcd(value);
            prop_assert_eq!(format!("{bcd:x}").parse::<u32>().unwrap(), value);
            prop_assert_eq!(from_bcd(bcd), Some(value));
            prop_assert_eq!(from_bcd(bcd & !(15 << (4 * nibble)) | digit << (4 * nibble)), None);
        }

        #[test]
        fn any_header_is_placed_inside_its_object_or_refused(raw: [u8; 16], sync: bool, fps in proptest::option::of(1u32..100_000)) {
            let (mut header, _) = Mark5b::read(&raw).unwrap();
            if sync { header = Mark5b { sync: SYNC, crc: 0, day_bcd: to_bcd(header.day_bcd % 1000), ..header } }
            if let Ok(place) = layout(fps).place(&packet(header)) {
                prop_assert!(place.offset + place.length <= place.size.unwrap());
            }
        }
    }
}
