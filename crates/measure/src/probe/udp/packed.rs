//! The packets of a point as text, a third as long as their JSON: over a path that loses, a report takes as long as it is.
//!
//! Each number is told as its difference to the one before, in groups of five bits, the lowest first; a sixth bit says that another
//! follows. Each group is a character of base64url.

const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
/// Groups of a number of 64 bits.
const GROUPS: u32 = 13;

type Sample = (u64, i64, i64);

/// As text.
pub(super) fn pack(samples: &[Sample]) -> String {
    let mut text = String::with_capacity(samples.len() * 10);
    let mut before = (0u64, 0i64, 0i64);
    for &(number, at, way) in samples {
        for difference in [
            number.wrapping_sub(before.0).cast_signed(),
            at.wrapping_sub(before.1),
            way.wrapping_sub(before.2),
        ] {
            // Small ones of either sign are short.
            let mut rest = ((difference << 1) ^ (difference >> 63)).cast_unsigned();
            loop {
                let more = rest >> 5 != 0;
                let group = (rest & 31) as usize | if more { 32 } else { 0 };
                text.push(char::from(DIGITS[group]));
                rest >>= 5;
                if !more {
                    break;
                }
            }
        }
        before = (number, at, way);
    }
    text
}

/// From text; `None` if it is none.
pub(super) fn unpack(text: &str) -> Option<Vec<Sample>> {
    let mut groups = text.bytes();
    let (mut samples, mut before) = (Vec::new(), (0u64, 0i64, 0i64));
    while let Some(first) = groups.next() {
        let number = before.0.wrapping_add_signed(value(first, &mut groups)?);
        let next = groups.next()?;
        let at = before.1.wrapping_add(value(next, &mut groups)?);
        let next = groups.next()?;
        let way = before.2.wrapping_add(value(next, &mut groups)?);
        before = (number, at, way);
        samples.push(before);
    }
    Some(samples)
}

fn value(first: u8, more: &mut impl Iterator<Item = u8>) -> Option<i64> {
    let (mut digit, mut all) = (first, 0u64);
    for place in 0..GROUPS {
        let group = match digit {
            b'A'..=b'Z' => digit - b'A',
            b'a'..=b'z' => digit - b'a' + 26,
            b'0'..=b'9' => digit - b'0' + 52,
            b'-' => 62,
            b'_' => 63,
            _ => return None,
        };
        all |= u64::from(group & 31) << (5 * place);
        if group & 32 == 0 {
            return Some((all >> 1).cast_signed() ^ -((all & 1).cast_signed()));
        }
        digit = more.next()?;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn even_packets_take_ten_characters_each() {
        let samples: Vec<Sample> =
            (0..1000).map(|n| (n, n as i64 * 147_200, 15_000_000 + (n % 7) as i64 * 900)).collect();
        let text = pack(&samples);
        assert!(text.len() < 10_000, "{}", text.len());
        assert_eq!(unpack(&text), Some(samples));
        assert_eq!(unpack(""), Some(Vec::new()));
        for wrong in ["A", "AA", "AAAA", "gggggggggggggg", "A A", "é"] {
            assert_eq!(unpack(wrong), None, "{wrong}");
        }
    }

    proptest! {
        #[test]
        fn any_are_read_back(samples in proptest::collection::vec(any::<Sample>(), 0..50)) {
            prop_assert_eq!(unpack(&pack(&samples)), Some(samples));
        }

        #[test]
        fn any_text_is_samples_or_none(text in "[A-Za-z0-9_é-]{0,60}") {
            let _ = unpack(&text);
        }
    }
}
