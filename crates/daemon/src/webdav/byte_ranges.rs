//! `Range`: which bytes of an object are asked for (RFC 9110, 14.1.2 and 14.2).
//!
//! ```text
//!   bytes=0-499   bytes=500-   bytes=-500   bytes=0-0,-1
//! ```
//!
//! What is malformed, has another unit, more than [`MAX_RANGES`] ranges, or asks for more bytes than there are (by ranges that overlap)
//! is ignored, as the standard allows: the reply is the whole object, with status 200.

use std::ops::Range;

/// Maximum number of ranges in a request.
const MAX_RANGES: usize = 512;

/// What a request asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Asked {
    /// All of it.
    Whole,
    /// These parts, in this order; none is empty.
    Parts(Vec<Range<u64>>),
    /// Nothing that exists.
    Unsatisfiable,
}

/// The bytes that `header` asks for of an object of `size` bytes.
pub(super) fn parse(header: &str, size: u64) -> Asked {
    let Some((unit, list)) = header.split_once('=') else { return Asked::Whole };
    if !unit.trim().eq_ignore_ascii_case("bytes") {
        return Asked::Whole;
    }
    let mut parts = Vec::new();
    let mut count = 0;
    for one in list.split(',').map(|one| one.trim_matches([' ', '\t'])).filter(|one| !one.is_empty()) {
        count += 1;
        let Some(range) = range(one, size).filter(|_| count <= MAX_RANGES) else { return Asked::Whole };
        if !range.is_empty() {
            parts.push(range);
        }
    }
    let total: u128 = parts.iter().map(|part| u128::from(part.end - part.start)).sum();
    match (count, parts.is_empty()) {
        (0, _) => Asked::Whole,
        (_, true) => Asked::Unsatisfiable,
        _ if total > u128::from(size) => Asked::Whole,
        _ => Asked::Parts(parts),
    }
}

/// One range; empty if it is behind the end, `None` if it is malformed.
fn range(text: &str, size: u64) -> Option<Range<u64>> {
    let (first, last) = text.split_once('-')?;
    if first.is_empty() {
        return Some(size.saturating_sub(number(last)?)..size);
    }
    let first = number(first)?;
    let end = match last {
        "" => size,
        last => {
            let last = number(last).filter(|last| *last >= first)?;
            last.saturating_add(1).min(size)
        }
    };
    Some(first.min(end)..end)
}

/// Decimal digits; more than fit is the largest number.
fn number(text: &str) -> Option<u64> {
    let is_number = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    is_number.then(|| text.parse().unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn parts(list: &[(u64, u64)]) -> Asked {
        Asked::Parts(list.iter().map(|&(from, to)| from..to).collect())
    }

    #[test]
    fn ranges_are_those_of_the_standard() {
        for (header, size, asked) in [
            ("bytes=0-0", 10, parts(&[(0, 1)])),
            ("bytes=0-499", 10, parts(&[(0, 10)])),
            ("bytes=9-", 10, parts(&[(9, 10)])),
            ("bytes=-3", 10, parts(&[(7, 10)])),
            ("bytes=-30", 10, parts(&[(0, 10)])),
            ("Bytes= 0-1 , 4-5,", 10, parts(&[(0, 2), (4, 6)])),
            ("bytes=0-1,20-30", 10, parts(&[(0, 2)])),
            ("bytes=5-99999999999999999999999", 10, parts(&[(5, 10)])),
            ("bytes=10-", 10, Asked::Unsatisfiable),
            ("bytes=99999999999999999999999-", 10, Asked::Unsatisfiable),
            ("bytes=-0", 10, Asked::Unsatisfiable),
            ("bytes=0-", 0, Asked::Unsatisfiable),
            ("bytes=", 10, Asked::Whole),
            ("bytes=0-,0-", u64::MAX, Asked::Whole),
            ("bytes=5-4", 10, Asked::Whole),
            ("bytes=a-b", 10, Asked::Whole),
            ("bytes=-", 10, Asked::Whole),
            ("bytes=+1-2", 10, Asked::Whole),
            ("lines=0-1", 10, Asked::Whole),
            ("bytes", 10, Asked::Whole),
            // More bytes than there are.
            ("bytes=0-,0-,0-", 10, Asked::Whole),
        ] {
            assert_eq!(parse(header, size), asked, "{header}");
        }
        let many = format!("bytes={}", "0-0,".repeat(600));
        assert_eq!(parse(&many, 1000), Asked::Whole);
    }

    proptest! {
        #[test]
        fn any_header_asks_for_bytes_that_exist(header in "bytes=[-0-9, ]{0,40}", any in any::<String>(), size in 0u64..100) {
            for header in [header, any] {
                if let Asked::Parts(parts) = parse(&header, size) {
                    prop_assert!(!parts.is_empty());
                    prop_assert!(parts.iter().all(|part| part.start < part.end && part.end <= size));
                    prop_assert!(parts.iter().map(|part| part.end - part.start).sum::<u64>() <= size);
                }
            }
        }

        #[test]
        fn a_range_is_its_own_bytes(first in 0u64..100, length in 1u64..100, size in 1u64..200) {
            let asked = parse(&format!("bytes={first}-{}", first + length - 1), size);
            let end = (first + length).min(size);
            let expected = if first < size { parts(&[(first, end)]) } else { Asked::Unsatisfiable };
            prop_assert_eq!(asked, expected);
        }
    }
}
