//! Names of certificates' subjects (X.501), as people write them: `CN=Ann Example,O=Uni,C=DE` (RFC 4514, which follows RFC 2253) and, as the grid
//! does, `/C=DE/O=Uni/CN=Ann Example`.
//!
//! Names are compared part by part, never as text: the value `Uni/CN=Ann` of one part is not the two parts that it looks like.

use std::fmt::{self, Display, Formatter};
use x509_parser::asn1_rs::Tag;
use x509_parser::x509::{AttributeTypeAndValue, X509Name};

/// Types of parts, by their usual names first.
const TYPES: [(&str, &str); 18] = [
    ("CN", "2.5.4.3"),
    ("SN", "2.5.4.4"),
    ("serialNumber", "2.5.4.5"),
    ("C", "2.5.4.6"),
    ("L", "2.5.4.7"),
    ("ST", "2.5.4.8"),
    ("S", "2.5.4.8"),
    ("STREET", "2.5.4.9"),
    ("O", "2.5.4.10"),
    ("OU", "2.5.4.11"),
    ("title", "2.5.4.12"),
    ("GN", "2.5.4.42"),
    ("DC", "0.9.2342.19200300.100.1.25"),
    ("UID", "0.9.2342.19200300.100.1.1"),
    ("USERID", "0.9.2342.19200300.100.1.1"),
    ("emailAddress", "1.2.840.113549.1.9.1"),
    ("Email", "1.2.840.113549.1.9.1"),
    ("E", "1.2.840.113549.1.9.1"),
];

/// Type and value of a part.
type Attribute = (String, String);

/// A name: its parts from the root on, each with one attribute or several.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct SubjectName(Vec<Vec<Attribute>>);

impl SubjectName {
    /// That of a certificate.
    pub(super) fn of(name: &X509Name<'_>) -> Self {
        let attributes =
            |part: &x509_parser::x509::RelativeDistinguishedName<'_>| sorted(part.iter().map(attribute));
        Self(name.iter_rdn().map(attributes).collect())
    }

    /// Reads either way of writing.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let parts = if text.starts_with('/') { by_slashes(text) } else { by_commas(text) }?;
        if parts.is_empty() { Err("it is empty".to_owned()) } else { Ok(Self(parts)) }
    }

    /// Whether this is `issuer` with a further part, a common name that is one of `names`.
    pub(super) fn extends(&self, issuer: &Self, names: &[&str]) -> bool {
        let Some((last, before)) = self.0.split_last() else { return false };
        let is_named = |(kind, value): &Attribute| kind == "2.5.4.3" && names.contains(&&**value);
        before == issuer.0 && matches!(&last[..], [one] if is_named(one))
    }

    /// Whether it has parts, and each part has attributes with a type, as X.501 requires it. The encoding of a certificate can have others.
    pub(super) fn is_written(&self) -> bool {
        let is_typed = |(kind, _): &Attribute| numbers(kind).is_some();
        !self.0.is_empty() && self.0.iter().all(|part| !part.is_empty() && part.iter().all(is_typed))
    }

    /// As the grid writes it.
    pub(crate) fn slashes(&self) -> String {
        let all = self.0.iter().flatten();
        all.map(|(kind, value)| format!("/{}={}", shown_type(kind), without_controls(value))).collect()
    }
}

impl Display for SubjectName {
    /// As RFC 4514 writes it.
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        for (at, part) in self.0.iter().rev().enumerate() {
            for (n, (kind, value)) in part.iter().enumerate() {
                let before = if n > 0 {
                    "+"
                } else if at > 0 {
                    ","
                } else {
                    ""
                };
                write!(f, "{before}{}={}", shown_type(kind), escaped(value))?;
            }
        }
        Ok(())
    }
}

fn sorted(attributes: impl Iterator<Item = Attribute>) -> Vec<Attribute> {
    let mut all: Vec<Attribute> = attributes.collect();
    all.sort();
    all
}

/// Its type as numbers, and its value as text.
fn attribute(of: &AttributeTypeAndValue<'_>) -> Attribute {
    let bytes = of.as_slice();
    let value = match of.attr_value().tag() {
        Tag::NumericString | Tag::PrintableString | Tag::Utf8String | Tag::Ia5String => {
            String::from_utf8_lossy(bytes).into_owned()
        }
        // Older authorities; each byte is a letter of Latin-1.
        Tag::T61String => bytes.iter().map(|byte| char::from(*byte)).collect(),
        Tag::BmpString => {
            let units = bytes.chunks_exact(2).map(|pair| u16::from_be_bytes([pair[0], pair[1]]));
            char::decode_utf16(units).map(|unit| unit.unwrap_or(char::REPLACEMENT_CHARACTER)).collect()
        }
        _ => format!("#{}", skyhaul::auth::hex(bytes)),
    };
    (of.attr_type().to_id_string(), value)
}

fn shown_type(numbers: &str) -> &str {
    TYPES.iter().find(|(_, known)| *known == numbers).map_or(numbers, |(name, _)| name)
}

/// The numbers of a type; `None` if it is none.
fn numbers(name: &str) -> Option<String> {
    let is_numbers = name.contains('.')
        && name.split('.').all(|part| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit()));
    let known = TYPES.iter().find(|(known, _)| known.eq_ignore_ascii_case(name));
    known.map(|(_, numbers)| (*numbers).to_owned()).or_else(|| is_numbers.then(|| name.to_owned()))
}

/// A `/` begins a part where a type and `=` follow; elsewhere it is one of the value, as in `CN=host/mh.example`.
fn by_slashes(text: &str) -> Result<Vec<Vec<Attribute>>, String> {
    let mut parts: Vec<Vec<Attribute>> = Vec::new();
    for piece in text.split('/').skip(1) {
        let begun = piece.split_once('=').and_then(|(kind, value)| Some((numbers(kind)?, value.to_owned())));
        match (begun, parts.last_mut()) {
            (Some(one), _) => parts.push(vec![one]),
            (None, Some(last)) => last.iter_mut().for_each(|(_, value)| *value += &format!("/{piece}")),
            (None, None) => return Err(format!("`{piece}` does not begin with a type, such as `CN=`")),
        }
    }
    Ok(parts)
}

/// RFC 4514: the last part first, `\` before characters with a meaning.
fn by_commas(text: &str) -> Result<Vec<Vec<Attribute>>, String> {
    let (mut parts, mut part) = (Vec::new(), Vec::new());
    let mut rest = text;
    while !rest.is_empty() {
        let (kind, after) = rest.split_once('=').ok_or_else(|| format!("`{rest}` has no `=`"))?;
        let kind = kind.trim_matches(' ');
        let kind = numbers(kind).ok_or_else(|| format!("`{kind}` is no known type of a part"))?;
        let (value, end, after) = value(after)?;
        part.push((kind, value));
        rest = after;
        if end != Some('+') {
            parts.push(sorted(std::mem::take(&mut part).into_iter()));
        }
        if end.is_some() && rest.trim_matches(' ').is_empty() {
            return Err("a part is missing at its end".to_owned());
        }
    }
    parts.reverse();
    Ok(parts)
}

/// A value, what ends it, and what follows.
fn value(text: &str) -> Result<(String, Option<char>, &str), String> {
    let (mut bytes, mut kept) = (Vec::new(), 0);
    // Other white space is a part of the value.
    let text = text.trim_start_matches(' ');
    let mut chars = text.char_indices();
    while let Some((at, c)) = chars.next() {
        match c {
            ',' | ';' | '+' => {
                bytes.truncate(trimmed(&bytes, kept));
                let value = String::from_utf8(bytes).map_err(|_| "a value is not UTF-8".to_owned())?;
                return Ok((value, Some(c), &text[at + 1..]));
            }
            '\\' => {
                let (_, next) = chars.next().ok_or("it ends with `\\`")?;
                if let Some(high) = next.to_digit(16) {
                    let low = chars
                        .next()
                        .and_then(|(_, low)| low.to_digit(16))
                        .ok_or("`\\` before no pair of digits")?;
                    bytes.push((high * 16 + low) as u8);
                } else {
                    bytes.extend(next.encode_utf8(&mut [0; 4]).bytes());
                }
                kept = bytes.len();
            }
            _ => bytes.extend(c.encode_utf8(&mut [0; 4]).bytes()),
        }
    }
    bytes.truncate(trimmed(&bytes, kept));
    Ok((String::from_utf8(bytes).map_err(|_| "a value is not UTF-8".to_owned())?, None, ""))
}

/// The length without blanks at the end, but at least `kept`.
fn trimmed(bytes: &[u8], kept: usize) -> usize {
    let end = bytes.iter().rposition(|byte| *byte != b' ').map_or(0, |at| at + 1);
    end.max(kept)
}

fn escaped(value: &str) -> String {
    let mut text = String::new();
    let last = value.chars().count().saturating_sub(1);
    for (at, c) in value.chars().enumerate() {
        let is_marked = match c {
            ',' | '+' | '"' | '\\' | '<' | '>' | ';' => true,
            ' ' => at == 0 || at == last,
            '#' => at == 0,
            _ => false,
        };
        if c.is_control() {
            c.encode_utf8(&mut [0; 4]).bytes().for_each(|byte| text += &format!("\\{byte:02X}"));
            continue;
        }
        if is_marked {
            text.push('\\');
        }
        text.push(c);
    }
    text
}

fn without_controls(value: &str) -> String {
    let shown = |c: char| match c.is_control() {
        true => c.encode_utf8(&mut [0; 4]).bytes().map(|byte| format!("\\x{byte:02X}")).collect(),
        false => c.to_string(),
    };
    value.chars().map(shown).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn name(text: &str) -> SubjectName {
        SubjectName::parse(text).unwrap_or_else(|why| panic!("{text}: {why}"))
    }

    #[test]
    fn both_ways_of_writing_are_the_same_name() {
        let ann = name("/DC=org/DC=example/C=DE/O=Uni, Bonn/CN=Ann Example");
        assert_eq!(ann, name(r"CN=Ann Example,O=Uni\, Bonn,C=DE,DC=example,DC=org"));
        assert_eq!(
            ann,
            name(r"cn = Ann Example, o=Uni\2C Bonn , c=DE,dc=example,0.9.2342.19200300.100.1.25=org")
        );
        assert_eq!(ann.to_string(), r"CN=Ann Example,O=Uni\, Bonn,C=DE,DC=example,DC=org");
        assert_eq!(ann.slashes(), "/DC=org/DC=example/C=DE/O=Uni, Bonn/CN=Ann Example");
        let host = name("/O=Uni/CN=host/mh.example");
        assert_eq!(host, name("CN=host/mh.example,O=Uni"));
        assert_eq!(host.slashes(), "/O=Uni/CN=host/mh.example");
        assert_eq!(name("CN=a+UID=1,O=b"), name("UID=1+CN=a,O=b"));
        assert_eq!(name("/O=b/emailAddress=a@b"), name("/O=b/Email=a@b"));
        assert_eq!(name(r"CN=\ a\20,O=b").to_string(), r"CN=\ a\ ,O=b");
    }

    #[test]
    fn what_looks_like_two_parts_is_not() {
        let one = name("O=Uni/CN=Ann");
        assert_ne!(one, name("/O=Uni/CN=Ann"));
        assert_eq!(one.slashes(), name("/O=Uni/CN=Ann").slashes());
        assert_ne!(name("CN=Ann,O=Uni"), name("CN=ann,O=Uni"), "values are compared letter by letter");
        assert_ne!(name("CN=Ann,O=Uni"), name("CN=Ann,OU=x,O=Uni"));
        assert_ne!(name("CN=Ann,O=Uni"), name("O=Uni,CN=Ann"));
    }

    #[test]
    fn what_is_no_name_is_refused() {
        for text in [
            "",
            "/",
            "Ann",
            "/Ann",
            "XY=Ann",
            "/XY=Ann",
            "CN=Ann,",
            "CN=Ann,O",
            "CN=Ann,O=Uni\\",
            r"CN=\4",
            "CN=Ann+",
        ] {
            assert!(SubjectName::parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn only_blanks_around_a_value_are_none_of_it() {
        assert_eq!(name("CN= Ann , O=Uni"), name("CN=Ann,O=Uni"));
        assert_ne!(name("CN=\u{2000}Ann,O=Uni"), name("CN=Ann,O=Uni"));
    }

    #[test]
    fn what_extends_its_issuer_by_proxy_is_known() {
        let (ann, names) = (name("/O=Uni/CN=Ann"), ["proxy", "limited proxy"]);
        assert!(name("/O=Uni/CN=Ann/CN=proxy").extends(&ann, &names));
        assert!(name("/O=Uni/CN=Ann/CN=limited proxy").extends(&ann, &names));
        for other in
            ["/O=Uni/CN=Ann/CN=proxies", "/O=Uni/CN=proxy", "/O=Uni/CN=Ann/OU=proxy", "/O=Uni/CN=Ann"]
        {
            assert!(!name(other).extends(&ann, &names), "{other}");
        }
    }

    proptest! {
        #[test]
        fn what_is_written_is_read_again(values in prop::collection::vec("\\PC{1,12}", 1..5)) {
            let all = SubjectName(values.into_iter().map(|value| vec![("2.5.4.3".to_owned(), value)]).collect());
            prop_assert_eq!(SubjectName::parse(&all.to_string()), Ok(all));
        }

        #[test]
        fn any_text_is_read_or_refused(text in "[/=,+;\\\\CNO# a-c.0-9é]{0,40}") {
            if let Ok(name) = SubjectName::parse(&text) {
                prop_assert_eq!(SubjectName::parse(&name.to_string()), Ok(name));
            }
        }
    }
}
