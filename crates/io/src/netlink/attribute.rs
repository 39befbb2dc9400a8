//! The attributes of a message, read within their bounds.

/// Two bits of a kind are flags.
const KIND: u16 = 0x3FFF;

/// Attributes, one after another. A truncated attribute, or one with an impossible length, ends them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Attributes<'a>(&'a [u8]);

impl<'a> Attributes<'a> {
    /// The attributes in these bytes.
    #[must_use]
    pub fn new(octets: &'a [u8]) -> Self {
        Self(octets)
    }

    /// The attributes after the fixed part of a message; none if the message is shorter.
    #[must_use]
    pub fn after(body: &'a [u8], fixed: usize) -> Self {
        Self(body.get(fixed..).unwrap_or(&[]))
    }

    /// The value of the first one of this kind.
    #[must_use]
    pub fn find(mut self, kind: u16) -> Option<&'a [u8]> {
        Iterator::find(&mut self, |&(of, _)| of == kind).map(|(_, value)| value)
    }

    /// The attributes inside the one of this kind; empty if there is none.
    #[must_use]
    pub fn nested(self, kind: u16) -> Attributes<'a> {
        Attributes(self.find(kind).unwrap_or(&[]))
    }

    /// A number of 8, 16, 32 or 64 bits.
    #[must_use]
    pub fn number(self, kind: u16) -> Option<u64> {
        number(self.find(kind)?)
    }

    /// Text, without the zero at its end.
    #[must_use]
    pub fn text(self, kind: u16) -> Option<&'a str> {
        let value = self.find(kind)?;
        let end = value.iter().position(|&octet| octet == 0).unwrap_or(value.len());
        std::str::from_utf8(&value[..end]).ok()
    }
}

impl<'a> Iterator for Attributes<'a> {
    type Item = (u16, &'a [u8]);

    fn next(&mut self) -> Option<Self::Item> {
        let head = self.0.first_chunk::<4>()?;
        let length = usize::from(u16::from_ne_bytes([head[0], head[1]]));
        let kind = u16::from_ne_bytes([head[2], head[3]]) & KIND;
        let Some(value) = self.0.get(4..length) else {
            self.0 = &[];
            return None;
        };
        self.0 = self.0.get(length.next_multiple_of(4)..).unwrap_or(&[]);
        Some((kind, value))
    }
}

/// A number of 8, 16, 32 or 64 bits in the byte order of this machine.
#[must_use]
pub fn number(octets: &[u8]) -> Option<u64> {
    match octets.len() {
        1 => Some(octets[0].into()),
        2 => Some(u16::from_ne_bytes(octets.try_into().ok()?).into()),
        4 => Some(u32::from_ne_bytes(octets.try_into().ok()?).into()),
        8 => Some(u64::from_ne_bytes(octets.try_into().ok()?)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::super::Request;
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn attributes_are_found_within_their_bounds() {
        let all =
            [&8u16.to_ne_bytes()[..], &[3, 0], &[1, 2, 3, 4], &6u16.to_ne_bytes(), &[4, 0], &[9, 9]].concat();
        let find = |octets: &[u8], kind| Attributes::new(octets).find(kind).map(<[u8]>::to_vec);
        assert_eq!(find(&all, 3), Some(vec![1, 2, 3, 4]));
        assert_eq!(find(&all, 4), Some(vec![9, 9]));
        assert_eq!(find(&all, 5), None);
        for cut in 0..all.len() {
            assert_eq!(find(&all[..cut], 4), None, "{cut}");
        }
        assert_eq!(Attributes::new(&[0; 8]).count(), 0, "a length of nothing is no attribute");
    }

    #[test]
    fn what_is_nested_is_read_as_it_was_written() {
        let request = Request::new(1)
            .fixed(&[7; 4])
            .nested(18, |inner| inner.text(1, "veth").nested(2, |inner| inner.number(5, 9u32)))
            .number(3, 1u8)
            .number(4, 70_000u64);
        let all = Attributes::after(request.body(), 4);
        assert_eq!(all.nested(18).text(1), Some("veth"));
        assert_eq!(all.nested(18).nested(2).number(5), Some(9));
        assert_eq!((all.number(3), all.number(4), all.number(5)), (Some(1), Some(70_000), None));
        assert_eq!(Attributes::after(request.body(), 4096).count(), 0);
    }

    proptest! {
        #[test]
        fn no_octets_lead_outside_or_on_for_ever(octets: Vec<u8>) {
            let all = Attributes::new(&octets);
            prop_assert!(all.count() <= octets.len() / 4);
            let inside: usize = all.map(|(_, value)| 4 + value.len()).sum();
            prop_assert!(inside <= octets.len());
            for (kind, _) in all {
                let _ = (all.number(kind), all.text(kind), all.nested(kind).count());
            }
        }
    }
}
