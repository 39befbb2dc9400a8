//! Whose traffic it is, as two numbers.

use serde::Serialize;

/// Whose traffic it is, by the numbers of scitags.org.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct SciTag {
    /// The experiment, 1 to 1023.
    pub experiment: u16,
    /// What it does, 0 to 63.
    pub activity: u16,
}

impl SciTag {
    /// Reads a value of the header `SciTag`: the number of the experiment, and in the low six bits that of the activity; from 65 to 65535.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let text = text.trim();
        let is_plain = text.bytes().all(|byte| byte.is_ascii_digit());
        text.parse::<u16>().ok().filter(|_| is_plain).and_then(Self::from_number)
    }

    /// Of a number from 65 to 65535.
    #[must_use]
    pub fn from_number(number: u16) -> Option<Self> {
        (number >= 65).then_some(Self { experiment: number >> 6, activity: number & 63 })
    }

    /// The value of the header.
    #[must_use]
    pub fn number(self) -> u16 {
        self.experiment << 6 | self.activity & 63
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tag_is_a_number_of_two_parts() {
        for text in ["", "64", "0", "65536", "-65", "+65", "65x", "6 5"] {
            assert_eq!(SciTag::parse(text), None, "{text}");
        }
        for (text, experiment, activity) in [("65", 1, 1), (" 449", 7, 1), ("65535", 1023, 63)] {
            let tag = SciTag::parse(text).unwrap();
            assert_eq!(tag, SciTag { experiment, activity });
            assert_eq!(tag.number().to_string(), text.trim());
        }
    }
}
