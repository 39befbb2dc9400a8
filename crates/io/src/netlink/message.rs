//! Requests, and the messages of an answer.

use super::Attributes;

/// Bytes of a message's head.
const HEAD: usize = 16;
pub(super) const REQUEST: u16 = 1;
pub(super) const ACKNOWLEDGE: u16 = 4;
/// The whole list.
pub(super) const DUMP: u16 = 0x300;
/// There must not be one yet; there may be none yet.
pub(super) const EXCLUSIVE: u16 = 0x200;
pub(super) const CREATE: u16 = 0x400;
/// What there is, is changed.
pub(super) const REPLACE: u16 = 0x100;
/// Set in an attribute that holds attributes.
const NESTED: u16 = 0x8000;

/// Bytes of an attribute's value: numbers as the kernel of this machine reads them.
pub trait Value {
    /// Write them.
    fn write(self, to: &mut Vec<u8>);
}

macro_rules! values {
    ($($type:ty),*) => {$(
        impl Value for $type {
            fn write(self, to: &mut Vec<u8>) {
                to.extend(self.to_ne_bytes());
            }
        }
    )*};
}
values!(u8, u16, u32, u64, i32);

/// A message to the kernel, before it is numbered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    octets: Vec<u8>,
}

impl Request {
    /// A request of this kind.
    #[must_use]
    pub fn new(kind: u16) -> Self {
        let mut octets = vec![0; HEAD];
        octets[4..6].copy_from_slice(&kind.to_ne_bytes());
        Self { octets }
    }

    /// Adds these flags.
    #[must_use]
    pub fn flags(mut self, flags: u16) -> Self {
        let [low, high] = flags.to_ne_bytes();
        self.octets[6] |= low;
        self.octets[7] |= high;
        self
    }

    /// The fixed part, before the attributes.
    #[must_use]
    pub fn fixed(mut self, octets: &[u8]) -> Self {
        self.octets.extend(octets);
        self.pad();
        self
    }

    /// An attribute.
    #[must_use]
    pub fn attribute(self, kind: u16, value: &[u8]) -> Self {
        self.with(kind, |inner| inner.octets.extend(value))
    }

    /// A number.
    #[must_use]
    pub fn number(self, kind: u16, value: impl Value) -> Self {
        self.with(kind, |inner| value.write(&mut inner.octets))
    }

    /// Text, with a zero at its end.
    #[must_use]
    pub fn text(self, kind: u16, value: &str) -> Self {
        self.with(kind, |inner| {
            inner.octets.extend(value.as_bytes());
            inner.octets.push(0);
        })
    }

    /// An attribute that holds what `fill` adds.
    #[must_use]
    pub fn nested(self, kind: u16, fill: impl FnOnce(Request) -> Request) -> Self {
        self.with(kind | NESTED, |inner| {
            let octets = std::mem::take(&mut inner.octets);
            *inner = fill(Request { octets });
        })
    }

    fn with(mut self, kind: u16, fill: impl FnOnce(&mut Request)) -> Self {
        let at = self.octets.len();
        self.octets.extend([0; 2]);
        self.octets.extend(kind.to_ne_bytes());
        fill(&mut self);
        // Attributes that are too long do not occur; the kernel would refuse them.
        let length = u16::try_from(self.octets.len() - at).unwrap_or(u16::MAX);
        self.octets[at..at + 2].copy_from_slice(&length.to_ne_bytes());
        self.pad();
        self
    }

    fn pad(&mut self) {
        self.octets.resize(self.octets.len().next_multiple_of(4), 0);
    }

    /// What follows the head.
    #[must_use]
    pub fn body(&self) -> &[u8] {
        &self.octets[HEAD..]
    }

    /// The message with this number.
    pub(super) fn numbered(&self, sequence: u32, flags: u16) -> Vec<u8> {
        let mut octets = self.clone().flags(flags | REQUEST).octets;
        let length = octets.len() as u32;
        octets[..4].copy_from_slice(&length.to_ne_bytes());
        octets[8..12].copy_from_slice(&sequence.to_ne_bytes());
        octets
    }
}

/// A message from the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Message<'a> {
    /// Its kind.
    pub kind: u16,
    /// Its flags.
    pub flags: u16,
    /// The number of the request that it answers.
    pub sequence: u32,
    /// What follows the head.
    pub body: &'a [u8],
}

impl<'a> Message<'a> {
    /// Its attributes, after a fixed part of this length.
    #[must_use]
    pub fn attributes(&self, fixed: usize) -> Attributes<'a> {
        Attributes::after(self.body, fixed)
    }
}

/// The messages of one read. A truncated message, or one with an impossible length, ends them.
#[derive(Clone, Copy, Debug)]
pub struct Messages<'a>(&'a [u8]);

impl<'a> Messages<'a> {
    /// The messages in these bytes.
    #[must_use]
    pub fn new(octets: &'a [u8]) -> Self {
        Self(octets)
    }
}

impl<'a> Iterator for Messages<'a> {
    type Item = Message<'a>;

    fn next(&mut self) -> Option<Message<'a>> {
        let head = *self.0.first_chunk::<HEAD>()?;
        let word = |at: usize| u32::from_ne_bytes([head[at], head[at + 1], head[at + 2], head[at + 3]]);
        let half = |at: usize| u16::from_ne_bytes([head[at], head[at + 1]]);
        let length = word(0) as usize;
        let Some(body) = self.0.get(HEAD..length) else {
            self.0 = &[];
            return None;
        };
        self.0 = length.checked_next_multiple_of(4).and_then(|next| self.0.get(next..)).unwrap_or(&[]);
        Some(Message { kind: half(4), flags: half(6), sequence: word(8), body })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_request_reads_back_as_a_message() {
        let request = Request::new(16).flags(CREATE).fixed(&[1, 2, 3]).text(3, "lab0");
        let octets = [request.numbered(7, ACKNOWLEDGE), Request::new(3).numbered(8, 0)].concat();
        let all: Vec<Message<'_>> = Messages::new(&octets).collect();
        assert_eq!(all.len(), 2);
        assert_eq!((all[0].kind, all[0].sequence, all[0].flags), (16, 7, REQUEST | ACKNOWLEDGE | CREATE));
        assert_eq!((&all[0].body[..4], all[0].attributes(4).text(3)), (&[1, 2, 3, 0][..], Some("lab0")));
        assert_eq!((all[1].kind, all[1].sequence, all[1].body), (3, 8, &[][..]));
        assert_eq!(Messages::new(&octets[..octets.len() - 1]).count(), 1, "one cut short is none");
    }

    proptest! {
        #[test]
        fn no_octets_lead_outside_or_on_for_ever(octets: Vec<u8>) {
            let inside: usize = Messages::new(&octets).map(|message| HEAD + message.body.len()).sum();
            prop_assert!(inside <= octets.len());
        }
    }
}
