//! Values of a sweep: datagram sizes, and times between packets.

use skyhaul::core::hint::Hint;
use skyhaul_measure::probe::udp::{MAX_DATAGRAM, MIN_DATAGRAM};
use std::str::FromStr;

/// Most values of one sweep.
const MAX_VALUES: usize = 10_000;

/// Values of a sweep.
pub(crate) trait ValueList {
    /// What it is a list of.
    type Value: Copy;
    /// The values, in the order of the sweep.
    fn values(&self) -> &[Self::Value];
}

/// Bytes of datagrams.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Sizes {
    values: Vec<u32>,
    /// None were chosen.
    usual: bool,
}

/// Payload of the longest datagram over IPv4 and Ethernet.
const DEFAULT_BYTES: u32 = 1472;

impl Sizes {
    /// The same; if none were chosen, nothing longer than `largest`, which passes without being cut.
    pub(crate) fn fitted(&self, largest: u32) -> Self {
        if self.usual { Self { values: vec![DEFAULT_BYTES.min(largest)], usual: true } } else { self.clone() }
    }
}

/// Picoseconds between packets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Spacings(Vec<u64>);

impl ValueList for Sizes {
    type Value = u32;
    fn values(&self) -> &[u32] {
        &self.values
    }
}

impl ValueList for Spacings {
    type Value = u64;
    fn values(&self) -> &[u64] {
        &self.0
    }
}

impl FromStr for Sizes {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        if text == "usual" {
            return Ok(Self { values: vec![DEFAULT_BYTES], usual: true });
        }
        let size = |text: &str| {
            let bytes =
                text.parse::<u32>().ok().filter(|bytes| (MIN_DATAGRAM..=MAX_DATAGRAM).contains(bytes));
            bytes.map(u64::from).ok_or_else(|| {
                format!(
                    "invalid datagram size `{text}`{}",
                    Hint("write 40 to 65507 bytes, like 64,1472 or 64..8972")
                )
            })
        };
        let values = several(text, 10, &size)?.into_iter().map(|bytes| bytes as u32).collect();
        Ok(Self { values, usual: false })
    }
}

impl FromStr for Spacings {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        several(text, 40, &picoseconds).map(Self)
    }
}

/// `1us`, `723.2ns`, in picoseconds.
pub(super) fn picoseconds(text: &str) -> Result<u64, String> {
    const UNITS: [(&str, u64); 5] =
        [("ps", 1), ("ns", 1000), ("us", 1_000_000), ("ms", 1_000_000_000), ("s", 1_000_000_000_000)];
    let wrong = || {
        format!(
            "expected a time between packets, got `{text}`{}",
            Hint("write it with its unit, down to picoseconds: 10us, 723.2ns")
        )
    };
    let (number, unit) = UNITS
        .iter()
        .find_map(|(name, unit)| text.strip_suffix(name).map(|number| (number, *unit)))
        .ok_or_else(wrong)?;
    let (whole, decimals) = number.split_once('.').unwrap_or((number, ""));
    let digits = |text: &str| text.bytes().all(|b| b.is_ascii_digit()) && text.len() <= 15;
    if whole.is_empty() || !digits(whole) || !digits(decimals) {
        return Err(wrong());
    }
    let scale = 10u128.pow(decimals.len() as u32);
    let value = whole.parse::<u128>().unwrap_or(0) * scale + decimals.parse::<u128>().unwrap_or(0);
    let picoseconds = value * u128::from(unit);
    // No packet waits for an hour, and no one below a picosecond.
    let fits = picoseconds.is_multiple_of(scale) && picoseconds / scale <= 3_600_000_000_000_000;
    u64::try_from(picoseconds / scale).ok().filter(|_| fits).ok_or_else(wrong)
}

/// A list, or `FROM..TO` in `steps` values evenly apart, or `FROM..TO:N`.
fn several(text: &str, steps: usize, one: &dyn Fn(&str) -> Result<u64, String>) -> Result<Vec<u64>, String> {
    let Some((from, rest)) = text.split_once("..") else {
        let values: Vec<u64> = text.split(',').map(|word| one(word.trim())).collect::<Result<_, _>>()?;
        return if values.len() > MAX_VALUES {
            Err(format!("more than {MAX_VALUES} values"))
        } else {
            Ok(values)
        };
    };
    let (to, count) = match rest.split_once(':') {
        None => (rest, Some(steps)),
        Some((to, count)) => (to, count.parse().ok().filter(|n| (2..=MAX_VALUES).contains(n))),
    };
    let count = count.ok_or_else(|| {
        format!(
            "`{text}` has no number of steps behind the colon{}",
            Hint(format_args!("2 to {MAX_VALUES}, like {from}..{to}:{steps}"))
        )
    })?;
    let (from, to) = (one(from.trim())?, one(to.trim())?);
    if from >= to {
        return Err(format!("`{text}` is a descending range{}", Hint("write the smaller value first")));
    }
    let span = u128::from(to - from);
    let last = (count - 1) as u128;
    let at = |n: usize| from + ((span * n as u128 + last / 2) / last) as u64;
    let mut values: Vec<u64> = (0..count).map(at).collect();
    values.dedup();
    Ok(values)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn lists_and_ranges_are_read() {
        let sizes = |text: &str| text.parse::<Sizes>().map(|sizes| sizes.values);
        assert_eq!(sizes("1472").unwrap(), [1472]);
        let fitted = |text: &str, largest| text.parse::<Sizes>().unwrap().fitted(largest).values;
        // IPv6 over Ethernet, and jumbo frames; what was chosen stays.
        assert_eq!((fitted("usual", 1452), fitted("usual", 8972)), (vec![1452], vec![1472]));
        assert_eq!(fitted("1472", 1452), [1472]);
        assert_eq!(sizes("64, 1472,8972").unwrap(), [64, 1472, 8972]);
        assert_eq!(sizes("64..8972").unwrap().len(), 10);
        assert_eq!(sizes("100..200:3").unwrap(), [100, 150, 200]);
        assert_eq!(sizes("100..102:9").unwrap(), [100, 101, 102], "no size twice");
        let spacings = |text: &str| text.parse::<Spacings>().map(|spacings| spacings.0);
        assert_eq!(spacings("0us..40us:41").unwrap()[..3], [0, 1_000_000, 2_000_000]);
        assert_eq!(spacings("0us..40us").unwrap().len(), 40);
        assert_eq!(spacings("723.2ns,1us,0s").unwrap(), [723_200, 1_000_000, 0]);
        for wrong in ["", "39", "65508", "64..", "64..32", "64..128:1", "64..128:x", "a", "64,,65", "-1"] {
            assert!(sizes(wrong).unwrap_err().contains("hint: "), "{wrong}");
        }
        for wrong in [
            "",
            "10",
            "us",
            "1.us2",
            "0.0001ns",
            "2e3us",
            "3601s",
            "1.2.3us",
            "5us..1us",
            "99999999999999999s",
        ] {
            assert!(spacings(wrong).unwrap_err().contains("hint: "), "{wrong}");
        }
    }

    proptest! {
        #[test]
        fn no_text_panics(text in "\\PC{0,40}", numbers in "[0-9.,:us]{0,30}") {
            for text in [text, numbers] {
                let _ = (text.parse::<Sizes>(), text.parse::<Spacings>());
            }
        }
    }
}
