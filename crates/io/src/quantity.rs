//! Values with units: `8Gbps`, `64MiB`, `10s`.
//!
//! Numbers without units cause mistakes of a factor of eight or a thousand, so every rate and span must have one, unless
//! it is 0; a bare size is in bytes. What [`Display`](std::fmt::Display) prints, `parse` reads back exactly.
//!
//! ```
//! use skyhaul_io::quantity::{Rate, Size, Span};
//! assert_eq!("8Gbps".parse::<Rate>()?.bits_per_second(), 8_000_000_000);
//! assert_eq!("1.5MiB".parse::<Size>()?.bytes(), 1_572_864);
//! assert_eq!("250ms".parse::<Span>()?.to_string(), "250ms");
//! assert!("64M".parse::<Size>().unwrap_err().to_string().contains("MiB"));
//! # Ok::<(), skyhaul_io::quantity::NotAQuantity>(())
//! ```
//!
//! Limits: 64 bits of bits per second, bytes, or nanoseconds (584 years); a value that is not a whole number of those
//! units is rejected rather than rounded.

use skyhaul_core::hint::Hint;
use std::{fmt, str::FromStr, time::Duration};

/// Bits per second.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Rate(u64);

/// Bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Size(u64);

/// A length of time, in nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Span(u64);

/// A part of one processor, in whole percent from 1 to 100.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Share(u8);

/// Text that is not a valid value, with a hint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NotAQuantity {
    text: String,
    kind: &'static str,
    hint: &'static str,
}

impl fmt::Display for NotAQuantity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "'{}' is not a {}{}", self.text, self.kind, Hint(self.hint))
    }
}

impl std::error::Error for NotAQuantity {}

type Unit = (&'static str, u64);

/// Largest first: `Display` takes the first that divides the value.
const RATES: &[Unit] = &[
    ("Tbps", 1_000_000_000_000),
    ("Gbps", 1_000_000_000),
    ("Mbps", 1_000_000),
    ("kbps", 1_000),
    ("bps", 1),
    ("Tb/s", 1_000_000_000_000),
    ("Gb/s", 1_000_000_000),
    ("Mb/s", 1_000_000),
    ("kb/s", 1_000),
    ("b/s", 1),
    ("Gbit/s", 1_000_000_000),
    ("Mbit/s", 1_000_000),
    ("kbit/s", 1_000),
    ("bit/s", 1),
    ("TB/s", 8_000_000_000_000),
    ("GB/s", 8_000_000_000),
    ("MB/s", 8_000_000),
    ("kB/s", 8_000),
    ("B/s", 8),
];
const SIZES: &[Unit] = &[
    ("TiB", 1 << 40),
    ("TB", 1_000_000_000_000),
    ("GiB", 1 << 30),
    ("GB", 1_000_000_000),
    ("MiB", 1 << 20),
    ("MB", 1_000_000),
    ("KiB", 1 << 10),
    ("kB", 1_000),
    ("B", 1),
    ("", 1),
];
const SPANS: &[Unit] = &[
    ("d", 86_400_000_000_000),
    ("h", 3_600_000_000_000),
    ("min", 60_000_000_000),
    ("s", 1_000_000_000),
    ("ms", 1_000_000),
    ("us", 1_000),
    ("µs", 1_000),
    ("ns", 1),
];

macro_rules! quantity {
    ($type:ident, $units:ident, $kind:literal, $hint:literal) => {
        impl FromStr for $type {
            type Err = NotAQuantity;
            fn from_str(text: &str) -> Result<Self, NotAQuantity> {
                parse(text, $units).map($type).ok_or_else(|| NotAQuantity {
                    text: text.chars().take(64).collect(),
                    kind: $kind,
                    hint: $hint,
                })
            }
        }
        impl fmt::Display for $type {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                show(self.0, $units, f)
            }
        }
    };
}
quantity!(Rate, RATES, "rate", "write it with its unit, such as 8Gbps, 500Mbps or 1.25GB/s");
quantity!(Size, SIZES, "size", "write bytes, or a unit such as 64MiB (2^20), 64MB (10^6), 4GiB");
quantity!(Span, SPANS, "length of time", "write it with its unit, such as 10s, 250ms, 5min or 2h");

impl Share {
    /// In percent.
    #[must_use]
    pub const fn percent(self) -> u8 {
        self.0
    }
}

impl FromStr for Share {
    type Err = NotAQuantity;
    fn from_str(text: &str) -> Result<Self, NotAQuantity> {
        let percent = text.strip_suffix('%').and_then(|number| number.trim_end().parse().ok());
        percent.filter(|percent| (1..=100).contains(percent)).map(Self).ok_or_else(|| NotAQuantity {
            text: text.chars().take(64).collect(),
            kind: "share of a processor",
            hint: "write whole percent from 1% to 100%, such as 50%",
        })
    }
}

impl fmt::Display for Share {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&format!("{}%", self.0))
    }
}

impl Share {
    /// All of a processor.
    pub const WHOLE: Self = Self(100);
}

impl Rate {
    /// A rate of this many bits per second.
    #[must_use]
    pub const fn from_bits_per_second(bits: u64) -> Self {
        Self(bits)
    }
    /// Bits per second.
    #[must_use]
    pub const fn bits_per_second(self) -> u64 {
        self.0
    }
}

impl Size {
    /// A size of this many bytes.
    #[must_use]
    pub const fn from_bytes(bytes: u64) -> Self {
        Self(bytes)
    }
    /// Bytes.
    #[must_use]
    pub const fn bytes(self) -> u64 {
        self.0
    }
}

impl Span {
    /// A span of this many nanoseconds.
    #[must_use]
    pub const fn from_nanos(nanos: u64) -> Self {
        Self(nanos)
    }
    /// Nanoseconds.
    #[must_use]
    pub const fn nanos(self) -> u64 {
        self.0
    }
    /// As the standard library's type.
    #[must_use]
    pub const fn duration(self) -> Duration {
        Duration::from_nanos(self.0)
    }
}

/// `<digits>[.<digits>]<unit>`, or 0, in exact arithmetic; `None` if it is invalid or does not fit.
fn parse(text: &str, units: &[Unit]) -> Option<u64> {
    let text = text.trim();
    if text == "0" {
        // Zero is the same in every unit.
        return Some(0);
    }
    let split = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, unit) = text.split_at(split);
    let scale = u128::from(units.iter().find(|&&(name, _)| name == unit.trim_start())?.1);
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    if (whole.is_empty() && fraction.is_empty()) || whole.len() > 20 || fraction.len() > 15 {
        return None;
    }
    let digits = |s: &str| if s.is_empty() { Some(0) } else { s.parse::<u128>().ok() };
    let ten = 10u128.pow(u32::try_from(fraction.len()).ok()?);
    let scaled = digits(fraction)? * scale;
    if scaled % ten != 0 {
        return None;
    }
    u64::try_from(digits(whole)? * scale + scaled / ten).ok()
}

/// The shortest exact form: the largest unit in which the value has at most two decimals.
fn show(value: u64, units: &[Unit], f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let fits = |scale: u64| {
        value.is_multiple_of(scale) || (scale.is_multiple_of(1000) && value.is_multiple_of(scale / 100))
    };
    let unit = units.iter().find(|&&(_, scale)| value >= scale && fits(scale));
    // Zero is written in the first unit with scale 1.
    let &(name, scale) = unit.or(units.iter().find(|u| u.1 == 1)).unwrap_or(&("", 1));
    if value.is_multiple_of(scale) {
        return f.pad(&format!("{}{name}", value / scale));
    }
    let fraction = format!("{:02}", value % scale / (scale / 100));
    f.pad(&format!("{}.{}{name}", value / scale, fraction.trim_end_matches('0')))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn what_people_write_is_read() {
        let rate = |t: &str| t.parse::<Rate>().unwrap().bits_per_second();
        assert_eq!(rate("8Gbps"), 8_000_000_000);
        assert_eq!(rate("2.5 Gb/s"), 2_500_000_000);
        assert_eq!(rate("1GB/s"), 8_000_000_000);
        assert_eq!(rate("100bps"), 100);
        let size = |t: &str| t.parse::<Size>().unwrap().bytes();
        assert_eq!(size("64MiB"), 64 << 20);
        assert_eq!(size("1472"), 1472);
        assert_eq!(size("0.5KiB"), 512);
        let span = |t: &str| t.parse::<Span>().unwrap().duration();
        assert_eq!(span("10s"), Duration::from_secs(10));
        assert_eq!(span("1.5ms"), Duration::from_micros(1500));
        assert_eq!(span("2min"), Duration::from_secs(120));
        assert_eq!((span("0"), span("0s"), rate("0"), size("0")), (Duration::ZERO, Duration::ZERO, 0, 0));
    }

    #[test]
    fn the_rest_is_refused_with_a_hint() {
        for bad in
            ["", "8", "8G", "Gbps", "-1Gbps", "1e9bps", "1.2.3Gbps", "99999999999999999999Tbps", "0.1bps"]
        {
            let said = bad.parse::<Rate>().unwrap_err().to_string();
            assert!(said.contains("8Gbps"), "{bad}: {said}");
        }
        for bad in ["64M", "1.5", "x", "18446744073709551616", "٣"] {
            assert!(bad.parse::<Size>().is_err(), "{bad}");
        }
        assert_eq!(
            "10".parse::<Span>().unwrap_err().to_string(),
            "'10' is not a length of time; hint: write it with its unit, such as 10s, 250ms, 5min or 2h"
        );
    }

    #[test]
    fn a_share_is_whole_percent() {
        for (text, percent) in [("50%", 50), ("1%", 1), ("100 %", 100)] {
            assert_eq!(text.parse::<Share>().unwrap().percent(), percent, "{text}");
        }
        for bad in ["", "50", "0%", "101%", "-5%", "12.5%", "%", "300%", "half"] {
            let said = bad.parse::<Share>().unwrap_err().to_string();
            assert!(said.contains("hint: ") && said.contains("50%"), "{bad}: {said}");
        }
        assert_eq!("25%".parse::<Share>().unwrap().to_string(), "25%");
    }

    #[test]
    fn shown_in_the_largest_fitting_unit() {
        assert_eq!(Rate(8_000_000_000).to_string(), "8Gbps");
        assert_eq!(Rate(2_500_000_000).to_string(), "2.5Gbps");
        assert_eq!(Rate(0).to_string(), "0bps");
        assert_eq!(Size(64 << 20).to_string(), "64MiB");
        assert_eq!(Size(0).to_string(), "0B");
        assert_eq!(Size(1472).to_string(), "1472B");
        assert_eq!(Span(1_500_000).to_string(), "1.5ms");
        assert_eq!(Span(0).to_string(), "0ns");
    }

    proptest! {
        #[test]
        fn shown_and_read_back_is_the_same(value: u64) {
            prop_assert_eq!(Rate(value).to_string().parse(), Ok(Rate(value)));
            prop_assert_eq!(Size(value).to_string().parse(), Ok(Size(value)));
            prop_assert_eq!(Span(value).to_string().parse(), Ok(Span(value)));
        }

        #[test]
        fn no_text_panics(text in "\\PC*") {
            let _ = (text.parse::<Rate>(), text.parse::<Size>(), text.parse::<Span>());
        }
    }
}
