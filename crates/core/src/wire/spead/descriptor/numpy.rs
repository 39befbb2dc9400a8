//! The NumPy header of a descriptor: the same dictionary literal as in an `.npy` file.
//!
//! ```text
//!   {'descr': '<i2', 'fortran_order': False, 'shape': (3, 4)}
//!             │││                                     └ dimensions, as in memory if not in Fortran's order
//!             ││└ octets          <  little-endian  >  big-endian  |  no matter
//!             │└ kind: i u f c b S V …
//! ```
//!
//! Limits: `descr` is kept as text. [`NumpyHeader::simple`] parses the plain types; structured types are left to NumPy.
//! Integers of Python 2 (`3L`) are accepted.

use std::fmt;

/// A parsed NumPy header.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct NumpyHeader {
    /// The type as its literal: `'<i2'` with the quotes, or a list.
    pub descr: String,
    /// The first dimension varies fastest.
    pub fortran_order: bool,
    /// The dimensions.
    pub shape: Vec<u64>,
}

/// A type that is a string: `'<i2'`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct SimpleType {
    /// `<`, `>` or `|`.
    pub order: char,
    /// `i`, `u`, `f`, `c`, `b`, `S`, `V`, …
    pub kind: char,
    /// Bytes of an element (of a `U`: letters).
    pub size: u32,
}

impl NumpyHeader {
    /// The header of an array of a plain type, `<i2` for example, in C's order.
    #[must_use]
    pub fn array(simple: &str, shape: &[u64]) -> NumpyHeader {
        NumpyHeader { descr: format!("'{simple}'"), fortran_order: false, shape: shape.to_vec() }
    }

    /// Parse its text. `None` unless it is a dictionary of exactly these three entries.
    #[must_use]
    pub fn read(text: &str) -> Option<NumpyHeader> {
        let mut rest = Text(text);
        let (mut descr, mut fortran_order, mut shape) = (None, None, None);
        rest.expect('{')?;
        while !rest.take('}') {
            let key = rest.string()?;
            rest.expect(':')?;
            let fresh = match key {
                "descr" => descr.replace(rest.literal()?.to_owned()).is_none(),
                "fortran_order" => fortran_order.replace(rest.boolean()?).is_none(),
                "shape" => shape.replace(rest.tuple()?).is_none(),
                _ => false,
            };
            if !fresh || !(rest.take(',') || rest.0.trim_start().starts_with('}')) {
                return None;
            }
        }
        rest.0.trim().is_empty().then_some(())?;
        Some(NumpyHeader { descr: descr?, fortran_order: fortran_order?, shape: shape? })
    }

    /// Its type, if it is a plain one.
    #[must_use]
    pub fn simple(&self) -> Option<SimpleType> {
        let mut text = Text(&self.descr);
        let name = text.string().filter(|_| text.0.is_empty())?;
        let mut letters = name.chars();
        let (order, kind) = (letters.next()?, letters.next()?);
        let digits = letters.as_str();
        let known =
            "<>|".contains(order) && kind.is_ascii_alphabetic() && digits.bytes().all(|d| d.is_ascii_digit());
        let size = digits.parse().ok().filter(|_| known)?;
        Some(SimpleType { order, kind, size })
    }

    /// Elements of the array; `None` on overflow.
    #[must_use]
    pub fn elements(&self) -> Option<u64> {
        if self.shape.contains(&0) {
            return Some(0);
        }
        self.shape.iter().try_fold(1u64, |product, &size| product.checked_mul(size))
    }
}

impl fmt::Display for NumpyHeader {
    /// As NumPy writes it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let fortran = if self.fortran_order { "True" } else { "False" };
        write!(f, "{{'descr': {}, 'fortran_order': {fortran}, 'shape': (", self.descr)?;
        for (n, size) in self.shape.iter().enumerate() {
            write!(f, "{}{size}", if n > 0 { ", " } else { "" })?;
        }
        write!(f, "{})}}", if self.shape.len() == 1 { "," } else { "" })
    }
}

/// The rest of a literal.
struct Text<'a>(&'a str);

impl<'a> Text<'a> {
    /// Skip white space, and consume `letter` if it is next. Returns whether it was.
    fn take(&mut self, letter: char) -> bool {
        let rest = self.0.trim_start().strip_prefix(letter);
        rest.inspect(|&rest| self.0 = rest).is_some()
    }

    fn expect(&mut self, letter: char) -> Option<()> {
        self.take(letter).then_some(())
    }

    /// A string without escapes, in either kind of quotes.
    fn string(&mut self) -> Option<&'a str> {
        let quote = if self.take('\'') { '\'' } else { self.take('"').then_some('"')? };
        let (string, rest) = self.0.split_once(quote)?;
        self.0 = rest;
        (!string.contains('\\')).then_some(string)
    }

    fn boolean(&mut self) -> Option<bool> {
        let rest = self.0.trim_start();
        let (value, rest) = match rest.strip_prefix("True") {
            Some(rest) => (true, rest),
            None => (false, rest.strip_prefix("False")?),
        };
        self.0 = rest;
        Some(value)
    }

    /// A tuple of integers.
    fn tuple(&mut self) -> Option<Vec<u64>> {
        self.expect('(')?;
        let mut sizes = Vec::new();
        while !self.take(')') {
            let rest = self.0.trim_start();
            let digits = rest.find(|letter: char| !letter.is_ascii_digit())?;
            sizes.push(rest[..digits].parse().ok()?);
            self.0 = &rest[digits..];
            self.take('L');
            let last = self.0.trim_start().starts_with(')');
            // A tuple of one element needs its comma.
            let ends = self.take(',') || (last && sizes.len() > 1);
            ends.then_some(())?;
        }
        Some(sizes)
    }

    /// Anything up to the comma or brace that ends it.
    fn literal(&mut self) -> Option<&'a str> {
        let text = self.0.trim_start();
        let (mut depth, mut quote) = (0u32, None);
        for (at, letter) in text.char_indices() {
            match (quote, letter) {
                (Some(open), _) if open == letter => quote = None,
                (Some(_), _) => {}
                (None, '\'' | '"') => quote = Some(letter),
                (None, '(' | '[' | '{') => depth += 1,
                (None, ',' | '}') if depth == 0 => {
                    self.0 = &text[at..];
                    return Some(text[..at].trim_end()).filter(|literal| !literal.is_empty());
                }
                (None, ')' | ']' | '}') => depth = depth.checked_sub(1)?,
                _ => {}
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn headers_are_those_of_numpy() {
        for (shape, text) in [
            (vec![], "{'descr': '<i2', 'fortran_order': False, 'shape': ()}"),
            (vec![3], "{'descr': '<i2', 'fortran_order': False, 'shape': (3,)}"),
            (vec![3, 4], "{'descr': '<i2', 'fortran_order': False, 'shape': (3, 4)}"),
        ] {
            let header = NumpyHeader::array("<i2", &shape);
            assert_eq!(header.to_string(), text);
            assert_eq!(NumpyHeader::read(text), Some(header));
        }
        let header = NumpyHeader::read("{ \"shape\" : (3L , 4L,), 'descr':[('a', '<i2'), (\"b,}\", '>f4', (2,))],'fortran_order':True , }  ").unwrap();
        assert_eq!(header.descr, "[('a', '<i2'), (\"b,}\", '>f4', (2,))]");
        assert_eq!((header.fortran_order, header.elements(), header.simple()), (true, Some(12), None));
    }

    #[test]
    fn types_are_told() {
        let simple = |name: &str| NumpyHeader::array(name, &[]).simple();
        assert_eq!(simple("<i2"), Some(SimpleType { order: '<', kind: 'i', size: 2 }));
        assert_eq!(simple("|S10"), Some(SimpleType { order: '|', kind: 'S', size: 10 }));
        assert_eq!(["", "<", "<i", "i2", "<i+2", "<2", "<i99999999999"].map(simple), [None; 7]);
        assert_eq!(NumpyHeader::array("<i2", &[u64::MAX, 2]).elements(), None);
        assert_eq!(NumpyHeader::array("<i2", &[u64::MAX, 2, 0]).elements(), Some(0));
    }

    #[test]
    fn what_is_no_header() {
        for text in [
            "",
            "{}",
            "{'descr': '<i2', 'fortran_order': False}",
            "{'descr': '<i2', 'fortran_order': False, 'shape': (3)}",
            "{'descr': '<i2', 'fortran_order': False, 'shape': (-3,)}",
            "{'descr': '<i2', 'fortran_order': False, 'shape': (3,)} + 1",
            "{'descr': '<i2', 'fortran_order': False, 'shape': (3,), 'more': 1}",
            "{'descr': '<i2', 'descr': '<i2', 'fortran_order': False, 'shape': (3,)}",
            "{'descr': , 'fortran_order': False, 'shape': (3,)}",
            "{'descr': '<i2' 'fortran_order': False, 'shape': (3,)}",
            "{'descr': '<i2', 'fortran_order': 0, 'shape': (3,)}",
            "{'descr': ')]', 'fortran_order': False, 'shape': (99999999999999999999,)}",
            "{'descr': ), 'fortran_order': False, 'shape': (3,)}",
        ] {
            assert_eq!(NumpyHeader::read(text), None, "{text}");
        }
    }

    proptest! {
        #[test]
        fn any_text_is_read(text in "[{}()\\[\\]'\",: a-zL0-9]{0,80}", shape in proptest::collection::vec(any::<u64>(), 0..5), fortran_order: bool) {
            let _ = NumpyHeader::read(&text);
            let header = NumpyHeader { fortran_order, ..NumpyHeader::array(">u8", &shape) };
            prop_assert_eq!(NumpyHeader::read(&header.to_string()), Some(header));
        }
    }
}
