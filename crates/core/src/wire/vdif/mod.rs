//! VDIF: VLBI Data Interchange Format, release 1.1.1.
//!
//! Little-endian words. The first four are the same in every frame; the legacy header ends there (16 bytes), the full
//! one has four more words of [extended data](extended), whose kind is the EDV in word 4.
//!
//! ```text
//!        31     30     29 ········ 24 23 ············ 16 15 ············ 0
//!   0  invalid legacy  seconds since the reference epoch
//!   1  unassigned      epoch         frame in the second, of this thread
//!   2  version     log2 channels     frame length, units of 8 octets
//!   3  complex  bits − 1      thread                    station
//!   4  EDV                           extended data
//!  5‥7                               extended data
//! ```
//!
//! A frame never spans a second; all threads have the same whole number of frames in a second; frames may arrive in
//! any order.

pub mod extended;
mod family;
mod generate;
mod layout;
mod learn;

pub use extended::Extended;
pub use family::VdifFamily;
pub use layout::{THREADS, VdifLayout, VdifStream};
pub use learn::Oddity;

use crate::placement::Reject;

crate::header! {
    /// Words 0 to 3, which every VDIF frame has.
    Vdif [16] {
        le u32 @ 0 {
            /** The samples are not to be used. */ invalid[31],
            /** The header ends after these four words. */ legacy[30],
            /** Seconds since the reference epoch. */ seconds[29:0]
        }
        le u32 @ 4 {
            /** Zero by the standard. */ unassigned[31:30],
            /** Half-years since 2000-01-01. */ epoch[29:24],
            /** Frame in the second, of this thread. */ frame[23:0]
        }
        le u32 @ 8 {
            /** VDIF version; 0 and 1 are both in use. */ version[31:29],
            /** Logarithm of the number of channels. */ log2_channels[28:24],
            /** Whole frame, header included, in units of 8 octets. */ length8[23:0]
        }
        le u32 @ 12 {
            /** Samples are complex. */ complex[31],
            /** Bits per sample (or per component), less one. */ bits_minus_one[30:26],
            /** Thread. */ thread[25:16],
            /** Two ASCII letters or a number. */ station[15:0]
        }
    }
}

/// Unix time of 2000-01-01, the first reference epoch.
pub const UNIX_2000: i64 = 946_684_800;

/// Seconds from 2000-01-01 to the start of each of the 64 reference epochs (1 January and 1 July, UTC).
pub const EPOCH_SECONDS: [u32; 64] = {
    let mut starts = [0; 64];
    let (mut epoch, mut days) = (0, 0);
    while epoch < 64 {
        starts[epoch] = days * 86_400;
        let leap = (epoch / 2) % 4 == 0;
        days += if epoch % 2 == 1 {
            184
        } else if leap {
            182
        } else {
            181
        };
        epoch += 1;
    }
    starts
};

impl Vdif {
    /// A frame of this shape, all other fields zero; `None` if the standard does not allow it (length not a multiple of 8
    /// or too long, bits not 1‥32, channels not a power of two).
    #[must_use]
    pub fn shape(payload: usize, channels: u32, bits: u32, complex: bool, legacy: bool) -> Option<Vdif> {
        let length = payload.checked_add(if legacy { 16 } else { 32 })?;
        let length8 = u32::try_from(length / 8).ok()?;
        let legal = length % 8 == 0 && payload > 0 && length8 < 1 << 24;
        (legal && channels.is_power_of_two() && (1..=32).contains(&bits)).then(|| Vdif {
            length8,
            legacy: u32::from(legacy),
            complex: u32::from(complex),
            bits_minus_one: bits - 1,
            log2_channels: channels.ilog2(),
            version: 1,
            ..Vdif::default()
        })
    }

    /// The same frame at this time; `None` before 2000 or after the end of the last epoch.
    #[must_use]
    pub fn at(mut self, unix_seconds: i64, frame: u32) -> Option<Vdif> {
        let since = u64::try_from(unix_seconds.checked_sub(UNIX_2000)?).ok()?;
        let epoch = EPOCH_SECONDS.iter().rposition(|&start| u64::from(start) <= since)?;
        self.seconds =
            u32::try_from(since - u64::from(EPOCH_SECONDS[epoch])).ok().filter(|s| *s < 1 << 30)?;
        self.epoch = epoch as u32;
        self.frame = frame;
        (frame < 1 << 24).then_some(self)
    }

    /// Bytes of the whole frame.
    #[inline]
    #[must_use]
    pub fn frame_bytes(&self) -> usize {
        self.length8 as usize * 8
    }

    /// Bytes of the header: 16 (legacy) or 32.
    #[inline]
    #[must_use]
    pub fn header_bytes(&self) -> usize {
        if self.legacy == 1 { 16 } else { 32 }
    }

    /// Bytes of samples; 0 for a length shorter than the header.
    #[must_use]
    pub fn payload_bytes(&self) -> usize {
        self.frame_bytes().saturating_sub(self.header_bytes())
    }

    /// Bits per sample, or per component of a complex sample.
    #[must_use]
    pub fn bits(&self) -> u32 {
        self.bits_minus_one + 1
    }

    /// Channels in this thread.
    #[must_use]
    pub fn channels(&self) -> u64 {
        1 << self.log2_channels
    }

    /// Complete samples (of all channels) in a frame. A component does not cross a 32-bit word, so with 3 bits a
    /// word holds 10.
    #[must_use]
    pub fn samples(&self) -> u64 {
        let components = (self.payload_bytes() / 4) as u64 * u64::from(32 / self.bits());
        components / (self.channels() * (1 + u64::from(self.complex)))
    }

    /// Seconds since 2000-01-01: ascending, across epochs too.
    #[inline(always)]
    #[must_use]
    pub fn seconds_since_2000(&self) -> u64 {
        u64::from(EPOCH_SECONDS[self.epoch as usize & 63]) + u64::from(self.seconds)
    }

    /// Unix time of the second this frame lies in.
    #[must_use]
    pub fn unix_seconds(&self) -> i64 {
        UNIX_2000 + self.seconds_since_2000() as i64
    }

    /// The station's two letters, or its number.
    #[must_use]
    pub fn station_text(&self) -> String {
        let letters = (self.station as u16).to_be_bytes();
        match letters {
            // A high byte below '0' means that the field is a number.
            [0x30..=0x7E, 0x21..=0x7E] => letters.iter().map(|&c| char::from(c)).collect(),
            [first @ 0x30..=0x7E, 0 | b' '] => char::from(first).to_string(),
            _ => self.station.to_string(),
        }
    }
}

/// The station field for one or two letters, or for a number below 0x3000.
#[must_use]
pub fn station(text: &str) -> Option<u32> {
    match *text.as_bytes() {
        [first @ 0x30..=0x7E, second @ 0x21..=0x7E] if !text.parse::<u32>().is_ok_and(|n| n < 0x3000) => {
            Some(u32::from(first) << 8 | u32::from(second))
        }
        [letter @ 0x3A..=0x7E] => Some(u32::from(letter) << 8 | 0x20),
        _ => text.parse().ok().filter(|&number| number < 0x3000),
    }
}

/// A whole header: the four common words and the extended data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// Words 0 to 3.
    pub vdif: Vdif,
    /// Words 4 to 7.
    pub extended: Extended,
}

impl Header {
    /// The header at the front of `frame`.
    ///
    /// # Errors
    /// [`Reject::Truncated`] if `frame` is shorter than its header, or than the length in the header;
    /// [`Reject::BadField`] if that length does not hold the header and one word of samples.
    pub fn read(frame: &[u8]) -> Result<Header, Reject> {
        let header = Header::read_alone(frame)?;
        if header.vdif.frame_bytes() > frame.len() { Err(Reject::Truncated) } else { Ok(header) }
    }

    /// The header in `octets`, which need not contain the whole frame.
    ///
    /// # Errors
    /// As [`read`](Self::read), except for the length of the frame.
    pub fn read_alone(octets: &[u8]) -> Result<Header, Reject> {
        let (vdif, rest) = Vdif::read(octets).ok_or(Reject::Truncated)?;
        if vdif.frame_bytes() <= vdif.header_bytes() {
            return Err(Reject::BadField);
        }
        let extended = match vdif.legacy {
            1 => Extended::Legacy,
            _ => Extended::read(rest).ok_or(Reject::Truncated)?,
        };
        Ok(Header { vdif, extended })
    }

    /// The header's bytes and their number. `extended` determines whether it is legacy.
    #[must_use]
    pub fn write(&self) -> ([u8; 32], usize) {
        let legacy = matches!(self.extended, Extended::Legacy);
        let mut out = [0; 32];
        out[..16].copy_from_slice(&Vdif { legacy: u32::from(legacy), ..self.vdif }.write());
        if let Some(words) = self.extended.write() {
            out[16..].copy_from_slice(&words);
        }
        (out, if legacy { 16 } else { 32 })
    }

    /// The same header for another frame of its thread: `packets` further in the stream, at this time in the same epoch.
    /// Counters in the extended data advance too: EDV 2's sequence number, 0xAB's Mark 5B header.
    #[must_use]
    pub fn moved(mut self, packets: i64, seconds: u32, frame: u32, fps: Option<u32>) -> Header {
        let later = i64::from(seconds) - i64::from(self.vdif.seconds);
        (self.vdif.seconds, self.vdif.frame) = (seconds, frame);
        match &mut self.extended {
            Extended::Mark5b(mark5b) => *mark5b = mark5b.moved(later, frame, fps),
            Extended::Alma(alma) => alma.psn = alma.psn.wrapping_add_signed(packets),
            Extended::R2dbe(r2dbe) => r2dbe.psn = r2dbe.psn.wrapping_add_signed(packets),
            _ => {}
        }
        self
    }

    /// Frames of one thread per second, if the extended data state the sample rate.
    #[must_use]
    pub fn frames_per_second(&self) -> Option<u32> {
        let rate = self.extended.sample_rate(self.vdif.complex == 1)?;
        let samples = self.vdif.samples();
        (rate > 0 && samples > 0 && rate % samples == 0).then(|| u32::try_from(rate / samples).ok()).flatten()
    }
}

/// The consecutive frames of a file or byte stream; stops after the first that cannot be read.
///
/// Each item is the frame's first byte in `file` and its header.
pub fn frames(file: &[u8]) -> impl Iterator<Item = Result<(usize, Header), (usize, Reject)>> + '_ {
    let mut at = 0;
    std::iter::from_fn(move || {
        let rest = file.get(at..).filter(|rest| !rest.is_empty())?;
        let here = at;
        match Header::read(rest) {
            Ok(header) => {
                at += header.vdif.frame_bytes();
                Some(Ok((here, header)))
            }
            Err(reason) => {
                at = file.len();
                Some(Err((here, reason)))
            }
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::header::tests::round_trip;

    #[test]
    fn table_round_trips() {
        round_trip!(Vdif);
    }

    /// Words 0‥3 as a DBBC3 writes them: 2 bit, 8 channels, 8032 bytes, thread 3, station "Wz".
    const WORDS: [u8; 16] = [0x39, 0x30, 0, 0, 77, 0, 0, 52, 0xEC, 0x03, 0, 0x23, 0x7A, 0x57, 3, 0x04];

    #[test]
    fn words_of_a_dbbc3_are_read() {
        let (h, _) = Vdif::read(&WORDS).unwrap();
        assert_eq!((h.seconds, h.frame, h.epoch, h.version), (12_345, 77, 52, 1));
        assert_eq!((h.channels(), h.bits(), h.thread, h.frame_bytes()), (8, 2, 3, 8032));
        assert_eq!((h.payload_bytes(), h.samples(), h.station_text().as_str()), (8000, 4000, "Wz"));
        assert_eq!(h.unix_seconds(), 1_767_225_600 + 12_345, "epoch 52 is 2026-01-01");
        assert_eq!(h.write(), WORDS);
    }

    #[test]
    fn epochs_start_in_january_and_july() {
        // date -u -d 2000-07-01 +%s, 2001-01-01, 2032-01-01 less half a year.
        let unix = |epoch: usize| UNIX_2000 + i64::from(EPOCH_SECONDS[epoch]);
        assert_eq!(
            [unix(1), unix(2), unix(52), unix(63)],
            [962_409_600, 978_307_200, 1_767_225_600, 1_940_630_400]
        );
    }

    #[test]
    fn a_frame_can_be_built_for_any_time_it_can_tell() {
        let shape = Vdif::shape(8000, 8, 2, false, false).unwrap();
        for unix in [UNIX_2000, 962_409_599, 962_409_600, 1_767_225_600 + 12_345] {
            assert_eq!(shape.at(unix, 5).unwrap().unix_seconds(), unix);
        }
        assert_eq!(shape.at(0, 0), None);
        assert_eq!(shape.at(1_767_225_600, 1 << 24), None);
        assert_eq!(Vdif::shape(8001, 8, 2, false, false), None);
        assert_eq!(Vdif::shape(8000, 3, 2, false, false), None);
        assert_eq!(Vdif::shape(8000, 8, 33, false, false), None);
        assert_eq!(Vdif::shape(1 << 27, 8, 2, false, false), None);
    }

    #[test]
    fn a_station_is_letters_or_a_number() {
        for text in ["Wz", "On", "7", "4095", "A"] {
            let vdif = Vdif { station: station(text).unwrap(), ..Vdif::default() };
            assert_eq!(vdif.station_text(), text);
        }
        assert_eq!(station("longer"), None);
        assert_eq!(station("65000"), None, "its high octet would read as a letter");
    }

    #[test]
    fn an_odd_width_leaves_bits_unused() {
        let three_bits = Vdif::shape(8000, 1, 3, false, false).unwrap();
        assert_eq!(three_bits.samples(), 20_000);
    }

    #[test]
    fn each_refusal() {
        let mut frame = vec![0; 8032];
        frame[..16].copy_from_slice(&WORDS);
        assert_eq!(Header::read(&frame).unwrap().vdif.write(), WORDS);
        assert_eq!(Header::read(&frame[..15]), Err(Reject::Truncated));
        assert_eq!(Header::read(&frame[..8031]), Err(Reject::Truncated));
        frame[8..11].copy_from_slice(&[4, 0, 0]);
        assert_eq!(Header::read(&frame), Err(Reject::BadField));
    }

    #[test]
    fn frames_of_a_file_are_walked_until_one_is_broken() {
        let mut frame = vec![0; 8032];
        frame[..16].copy_from_slice(&WORDS);
        let mut file = [&frame[..], &frame[..]].concat();
        assert_eq!(frames(&file).map(|f| f.unwrap().0).collect::<Vec<_>>(), [0, 8032]);
        file.truncate(9000);
        assert_eq!(frames(&file).last(), Some(Err((8032, Reject::Truncated))));
    }
}
