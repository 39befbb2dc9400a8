//! VDIF extended data: words 4 to 7 of a full header, one table for each EDV in use.
//!
//! | EDV | who | carries |
//! |---|---|---|
//! | 0 | everyone | nothing (four zero words) |
//! | 1 | NICT | sample rate, name of the backend |
//! | 2 | ALMA, R2DBE | polarisation and sideband, 64-bit sequence number; told apart by a 20-bit code |
//! | 3 | VLBA, NRAO | sample rate, tuning, personality |
//! | 4 | multiplexers (proposed 2015) | validity mask of the channels |
//! | 0xAB | Mark 5B in VDIF | a whole Mark 5B header, whose sync word gives the EDV |
//!
//! Other EDVs are kept unchanged in [`Extended::Unknown`].

use crate::wire::{
    header::Field,
    mark5b::{self, Mark5b},
};

/// The sync word of EDV 1, 3 and 4 in word 5.
pub const SYNC: u32 = 0xACAB_FEED;

/// The 20-bit code of ALMA's EDV 2, as written in the field and as DiFX spells it.
pub const ALMA_CODES: [u32; 2] = [0xA5EA5, 0xA5AE5];

crate::header! {
    /// Words 4 to 7 without interpretation.
    Words [16] {
        le u32 @ 0 { /** Extended data version. */ edv[31:24], /** Of this EDV. */ low[23:0] }
        le u32 @ 4 { /** Of this EDV. */ word5 }
        le u32 @ 8 { /** Of this EDV. */ word6 }
        le u32 @ 12 { /** Of this EDV. */ word7 }
    }
}
crate::header! {
    /// EDV 1 (NICT).
    Nict [16] {
        le u32 @ 0 {
            /** Extended data version, 1. */ edv[31:24],
            /** Unit of the rate: 0 kHz, 1 MHz. */ unit[23],
            /** Sample rate, complex samples. */ rate[22:0]
        }
        le u32 @ 4 { /** 0xACABFEED. */ sync }
        le u64 @ 8 { /** Eight ASCII letters: backend or station. */ name }
    }
}
crate::header! {
    /// EDV 2 as ALMA's phasing correlator writes it.
    Alma [16] {
        le u32 @ 0 {
            /** Extended data version, 2. */ edv[31:24],
            /** 0xA5EA5 (or 0xA5AE5). */ code[23:4],
            /** Correlator. */ correlator[3],
            /** Quadrant, less one. */ quadrant_minus_one[2:1],
            /** Polarisation. */ polarisation[0]
        }
        le u32 @ 4 { /** Status of the phasing interface card. */ status }
        le u64 @ 8 { /** Packet sequence number. */ psn }
    }
}
crate::header! {
    /// EDV 2 as an R2DBE writes it.
    R2dbe [16] {
        le u32 @ 0 {
            /** Extended data version, 2. */ edv[31:24],
            /** 0 for this writer. */ code[23:4],
            /** Unassigned. */ unassigned[3],
            /** Sideband of the receiver. */ receiver_sideband[2],
            /** Sideband of the block down-converter. */ bdc_sideband[1],
            /** Polarisation. */ polarisation[0]
        }
        le u32 @ 4 { /** PPS difference, signed, in ticks of 256 MHz. */ pps_difference }
        le u64 @ 8 { /** Packet sequence number. */ psn }
    }
}
crate::header! {
    /// EDV 3 (VLBA).
    Vlba [16] {
        le u32 @ 0 {
            /** Extended data version, 3. */ edv[31:24],
            /** Unit of the rate: 0 kHz, 1 MHz. */ unit[23],
            /** Sample rate, complex samples; twice that for real ones. */ rate[22:0]
        }
        le u32 @ 4 { /** 0xACABFEED. */ sync }
        le u32 @ 8 { /** Tuning, in 2^-24 MHz. */ tuning }
        le u32 @ 12 {
            /** Unassigned. */ unassigned[31:28],
            /** Digital backend. */ backend[27:24],
            /** Intermediate frequency input. */ input[23:20],
            /** Sub-band. */ sub_band[19:17],
            /** 1: upper sideband. */ sideband[16],
            /** Major revision. */ major[15:12],
            /** Minor revision. */ minor[11:8],
            /** Personality of the backend. */ personality[7:0]
        }
    }
}
crate::header! {
    /// EDV 4 (proposed by Brisken, 2015).
    Multiplexed [16] {
        le u32 @ 0 {
            /** Extended data version, 4. */ edv[31:24],
            /** Bits of the mask in use. */ mask_length[23:16],
            /** Unassigned. */ unassigned[15:0]
        }
        le u32 @ 4 { /** 0xACABFEED. */ sync }
        le u64 @ 8 { /** One bit for each channel, or group of channels. */ validity }
    }
}

impl Multiplexed {
    /// Whether the mask marks this channel of `channels` as valid. If there are more channels than bits, each bit
    /// stands for several. A mask without bits says nothing; one that does not divide the channels marks none of them
    /// as valid.
    #[must_use]
    pub fn is_valid(&self, channel: u64, channels: u64) -> bool {
        let bits = u64::from(self.mask_length);
        if bits == 0 {
            return true;
        }
        bits <= 64
            && channel < channels
            && channels.is_multiple_of(bits)
            && self.validity >> (channel / (channels / bits)) & 1 == 1
    }
}

/// Words 4 to 7.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Extended {
    /// The header is legacy and has none.
    Legacy,
    /// EDV 0: no data, though not every writer leaves the words zero.
    Plain(Words),
    /// EDV 1.
    Nict(Nict),
    /// EDV 2, ALMA.
    Alma(Alma),
    /// EDV 2, R2DBE.
    R2dbe(R2dbe),
    /// EDV 3.
    Vlba(Vlba),
    /// EDV 4.
    Multiplexed(Multiplexed),
    /// EDV 0xAB.
    Mark5b(Mark5b),
    /// Any other.
    Unknown(Words),
}

impl Extended {
    /// Words 4 to 7 at the front of `words`, `None` if `words` is too short. EDV 1, 3 and 4 without their sync word, and
    /// EDV 2 with neither code, are [`Extended::Unknown`].
    #[must_use]
    pub fn read(words: &[u8]) -> Option<Extended> {
        let (plain, _) = Words::read(words)?;
        Some(match (plain.edv, plain.word5) {
            (0, _) => Extended::Plain(plain),
            (1, SYNC) => Extended::Nict(Nict::read(words)?.0),
            (2, _) if ALMA_CODES.contains(&(plain.low >> 4)) => Extended::Alma(Alma::read(words)?.0),
            (2, _) if plain.low >> 4 == 0 => Extended::R2dbe(R2dbe::read(words)?.0),
            (3, SYNC) => Extended::Vlba(Vlba::read(words)?.0),
            (4, SYNC) => Extended::Multiplexed(Multiplexed::read(words)?.0),
            (0xAB, _) if plain.low == mark5b::SYNC & 0xFF_FFFF => Extended::Mark5b(Mark5b::read(words)?.0),
            _ => Extended::Unknown(plain),
        })
    }

    /// Their bytes; `None` for a legacy header, which has none.
    #[must_use]
    pub fn write(&self) -> Option<[u8; 16]> {
        match self {
            Extended::Legacy => None,
            Extended::Plain(t) | Extended::Unknown(t) => Some(t.write()),
            Extended::Nict(t) => Some(t.write()),
            Extended::Alma(t) => Some(t.write()),
            Extended::R2dbe(t) => Some(t.write()),
            Extended::Vlba(t) => Some(t.write()),
            Extended::Multiplexed(t) => Some(t.write()),
            Extended::Mark5b(t) => Some(t.write()),
        }
    }

    /// The EDV, `None` for a legacy header.
    #[must_use]
    pub fn edv(&self) -> Option<u8> {
        match self {
            Extended::Legacy => None,
            Extended::Plain(_) => Some(0),
            Extended::Nict(_) => Some(1),
            Extended::Alma(_) | Extended::R2dbe(_) => Some(2),
            Extended::Vlba(_) => Some(3),
            Extended::Multiplexed(_) => Some(4),
            Extended::Mark5b(_) => Some(0xAB),
            Extended::Unknown(words) => Some(words.edv as u8),
        }
    }

    /// The name and the table of its words.
    #[must_use]
    pub fn table(&self) -> (&'static str, &'static [Field]) {
        match self {
            Extended::Plain(_) | Extended::Legacy => ("EDV 0", Words::FIELDS),
            Extended::Nict(_) => ("EDV 1", Nict::FIELDS),
            Extended::Alma(_) => ("EDV 2 ALMA", Alma::FIELDS),
            Extended::R2dbe(_) => ("EDV 2 R2DBE", R2dbe::FIELDS),
            Extended::Vlba(_) => ("EDV 3", Vlba::FIELDS),
            Extended::Multiplexed(_) => ("EDV 4", Multiplexed::FIELDS),
            Extended::Mark5b(_) => ("EDV 0xAB", Mark5b::FIELDS),
            Extended::Unknown(_) => ("EDV unknown", Words::FIELDS),
        }
    }

    /// EDV 1 with this rate and name (truncated to 8 letters); `None` if the rate does not fit its field.
    #[must_use]
    pub fn nict(samples_per_second: u64, complex: bool, name: &str) -> Option<Extended> {
        let (unit, rate) = rate_field(samples_per_second, complex)?;
        let mut letters = [0; 8];
        letters.iter_mut().zip(name.bytes()).for_each(|(to, from)| *to = from);
        Some(Extended::Nict(Nict { edv: 1, unit, rate, sync: SYNC, name: u64::from_le_bytes(letters) }))
    }

    /// EDV 3 with this rate; `None` if the rate does not fit its field.
    #[must_use]
    pub fn vlba(samples_per_second: u64, complex: bool) -> Option<Extended> {
        let (unit, rate) = rate_field(samples_per_second, complex)?;
        Some(Extended::Vlba(Vlba { edv: 3, unit, rate, sync: SYNC, ..Vlba::default() }))
    }

    /// Complete samples per second, from EDV 1 or 3. The field holds the rate of complex samples; real ones are
    /// twice as many. (Writers of EDV 1 differ here; see `Quirk::RateOfEdv1`.)
    #[must_use]
    pub fn sample_rate(&self, complex: bool) -> Option<u64> {
        let (unit, rate) = match self {
            Extended::Nict(nict) => (nict.unit, nict.rate),
            Extended::Vlba(vlba) => (vlba.unit, vlba.rate),
            _ => return None,
        };
        let hertz = u64::from(rate) * if unit == 1 { 1_000_000 } else { 1000 };
        (rate > 0).then_some(if complex { hertz } else { 2 * hertz })
    }

    /// The packet sequence number of EDV 2.
    #[must_use]
    pub fn psn(&self) -> Option<u64> {
        match self {
            Extended::Alma(alma) => Some(alma.psn),
            Extended::R2dbe(r2dbe) => Some(r2dbe.psn),
            _ => None,
        }
    }
}

/// Unit and rate fields of EDV 1 and 3.
fn rate_field(samples_per_second: u64, complex: bool) -> Option<(u32, u32)> {
    let hertz = if complex { samples_per_second } else { samples_per_second / 2 };
    let exact = complex || samples_per_second.is_multiple_of(2);
    let (unit, rate) = match hertz {
        0 => return None,
        h if h % 1_000_000 == 0 => (1, h / 1_000_000),
        h if h % 1000 == 0 => (0, h / 1000),
        _ => return None,
    };
    (exact && rate < 1 << 23).then_some((unit, rate as u32))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::header::tests::round_trip;
    use proptest::prelude::*;

    #[test]
    fn tables_round_trip() {
        round_trip!(Words, Nict, Alma, R2dbe, Vlba, Multiplexed);
    }

    fn words(edv_word: u32, word5: u32) -> Extended {
        Extended::read(&Words { edv: edv_word >> 24, low: edv_word, word5, ..Words::default() }.write())
            .unwrap()
    }

    #[test]
    fn each_version_is_told_apart() {
        assert!(matches!(words(0, 0), Extended::Plain(_)));
        assert!(matches!(words(0x0180_0010, SYNC), Extended::Nict(_)));
        assert!(matches!(words(0x0180_0010, 0), Extended::Unknown(_)));
        assert!(matches!(words(0x02A5_EA51, 0), Extended::Alma(_)));
        assert!(matches!(words(0x02A5_AE51, 0), Extended::Alma(_)));
        assert!(matches!(words(0x0200_0005, 0), Extended::R2dbe(_)));
        assert!(matches!(words(0x0212_3450, 0), Extended::Unknown(_)));
        assert!(matches!(words(0x0380_0010, SYNC), Extended::Vlba(_)));
        assert!(matches!(words(0x0410_0000, SYNC), Extended::Multiplexed(_)));
        assert!(matches!(words(0xABAD_DEED, 0), Extended::Mark5b(_)));
        assert!(matches!(words(0xAB00_0000, 0), Extended::Unknown(_)));
        assert!(matches!(words(0x0700_0000, 0), Extended::Unknown(_)));
        let edvs = [(0, 0), (0x0180_0000, SYNC), (0x0200_0000, 0), (0xABAD_DEED, 0), (0x0900_0000, 0)];
        assert_eq!(edvs.map(|(a, b)| words(a, b).edv()), [0, 1, 2, 0xAB, 9].map(Some));
        assert_eq!(Extended::read(&[0; 15]), None);
    }

    #[test]
    fn a_bit_of_the_mask_is_a_channel_or_a_group() {
        let valid = |mask_length, validity, channels| -> Vec<bool> {
            let masked = Multiplexed { mask_length, validity, ..Multiplexed::default() };
            (0..channels).map(|channel| masked.is_valid(channel, channels)).collect()
        };
        assert_eq!(valid(4, 0b1011, 4), [true, true, false, true]);
        assert_eq!(valid(2, 0b01, 4), [true, true, false, false]);
        assert_eq!(valid(0, 0, 2), [true, true]);
        assert_eq!(valid(3, 0b111, 4), [false; 4]);
        assert_eq!(valid(8, 0xFF, 4), [false; 4]);
        assert_eq!(valid(65, u64::MAX, 4), [false; 4]);
        assert_eq!(valid(64, 1 << 63, 128)[125..], [false, true, true]);
    }

    #[test]
    fn rates_are_those_of_complex_samples() {
        // VLBA: 16 MHz in the field, 32 million real samples per second.
        assert_eq!(words(0x0380_0010, SYNC).sample_rate(false), Some(32_000_000));
        assert_eq!(words(0x0380_0010, SYNC).sample_rate(true), Some(16_000_000));
        assert_eq!(words(0x0300_0064, SYNC).sample_rate(true), Some(100_000));
        assert_eq!(words(0x0300_0000, SYNC).sample_rate(true), None);
        assert_eq!(Extended::vlba(32_000_000, false).unwrap().sample_rate(false), Some(32_000_000));
        assert_eq!(Extended::nict(500_000, true, "DBBC3").unwrap().sample_rate(true), Some(500_000));
        assert_eq!(Extended::vlba(1001, false), None);
    }

    proptest! {
        #[test]
        fn whatever_was_read_is_written_back(raw: [u8; 16]) {
            prop_assert_eq!(Extended::read(&raw).unwrap().write(), Some(raw));
        }
    }
}
