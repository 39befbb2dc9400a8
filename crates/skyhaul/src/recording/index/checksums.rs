//! Checksums of a chunk: of all of it, and of its parts, so that a reader of a few samples verifies only the parts with them.

use serde::{Deserialize, Deserializer, Serializer, de};
use std::num::NonZeroU64;

/// Octets of a part; the last one may be shorter. Verifying one takes about a millisecond, and a record of 256 MiB has half a
/// kilobyte of checksums.
pub const PART_BYTES: u64 = 4 << 20;
/// Octets of a part in records that do not state them.
pub(in crate::recording) const UNSTATED_PART_BYTES: u64 = 16 << 20;

/// CRC-32C of a chunk and of its parts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::recording) struct Checksums {
    pub(in crate::recording) whole: u32,
    /// None for a chunk of one part.
    pub(in crate::recording) parts: Vec<u32>,
}

impl Checksums {
    /// Octets of a part, if it has several.
    pub(in crate::recording) fn part_bytes(&self) -> Option<NonZeroU64> {
        NonZeroU64::new(PART_BYTES).filter(|_| !self.parts.is_empty())
    }

    /// Each octet is looked at once.
    pub(in crate::recording) fn of(octets: &[u8]) -> Self {
        if octets.len() as u64 <= PART_BYTES {
            return Self { whole: crc32c::crc32c(octets), parts: Vec::new() };
        }
        let mut parts = Vec::new();
        let whole = octets.chunks(PART_BYTES as usize).fold(0, |whole, part| {
            let crc = crc32c::crc32c(part);
            parts.push(crc);
            crc32c::crc32c_combine(whole, crc, part.len())
        });
        Self { whole, parts }
    }
}

/// Parts as one text of eight hexadecimal digits each.
pub(in crate::recording) mod hexadecimal {
    use super::{Deserialize, Deserializer, Serializer, de};

    pub(crate) fn serialize<S: Serializer>(parts: &[u32], to: S) -> Result<S::Ok, S::Error> {
        let text: String = parts.iter().map(|part| format!("{part:08x}")).collect();
        to.serialize_str(&text)
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<u32>, D::Error> {
        let text = <std::borrow::Cow<'de, str>>::deserialize(from)?;
        let part = |digits: &[u8]| {
            let digits = std::str::from_utf8(digits).ok().filter(|digits| digits.len() == 8)?;
            u32::from_str_radix(digits, 16).ok()
        };
        let parts: Option<Vec<u32>> = text.as_bytes().chunks(8).map(part).collect();
        parts.ok_or_else(|| de::Error::custom("not eight hexadecimal digits for each part"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::recording::{ChunkRecord, Record};

    #[test]
    fn parts_make_the_whole() {
        let mut octets: Vec<u8> = (0..2 * PART_BYTES + 5).map(|n| ((n * n) >> 7) as u8).collect();
        let all = Checksums::of(&octets);
        assert_eq!(all.whole, crc32c::crc32c(&octets));
        assert_eq!(all.parts.len(), 3);
        assert_eq!(all.parts[2], crc32c::crc32c(&octets[2 * PART_BYTES as usize..]));
        octets.truncate(PART_BYTES as usize);
        assert_eq!(Checksums::of(&octets), Checksums { whole: all.parts[0], parts: Vec::new() });
        assert_eq!(Checksums::of(&[]), Checksums { whole: 0, parts: Vec::new() });
    }

    #[test]
    fn records_keep_them_and_need_none() {
        for parts in [vec![], vec![0xDEAD_BEEF, 7]] {
            let record = Record::Chunk(ChunkRecord { number: 3, parts, ..ChunkRecord::default() });
            let line = record.to_line();
            assert_eq!(Record::parse(line.trim_end().as_bytes()), Some(record), "{line}");
        }
        let json = r#"{"record":"chunk","datastream":0,"number":0,"bytes":9,"crc32c":1,"parts":"0000001","object":0,"units":1}"#;
        assert!(serde_json::from_str::<Record>(json).is_err());
    }
}
