//! The path of a request: percent-decoded once, and never outside the root.
//!
//! ```text
//!   /exp/2026%2D11/scan.vdif ─▶ exp │ 2026-11 │ scan.vdif          /exp/..%2f.. , /exp/%00 ─▶ refused
//! ```
//!
//! Limits: 64 names of 255 bytes.

use percent_encoding::{AsciiSet, CONTROLS, percent_decode_str, utf8_percent_encode};
use std::path::PathBuf;

/// Maximum number of names in a path.
const MAX_NAMES: usize = 64;
/// Maximum length of a name in bytes, as on file systems.
const MAX_NAME_BYTES: usize = 255;
/// What cannot stand in a segment of a path (RFC 3986, 3.3: `pchar`). Nothing else is escaped: some clients compare paths as text.
const ESCAPED: &AsciiSet = &CONTROLS
    .add(b' ')
    .add(b'"')
    .add(b'#')
    .add(b'%')
    .add(b'/')
    .add(b'<')
    .add(b'>')
    .add(b'?')
    .add(b'[')
    .add(b'\\')
    .add(b']')
    .add(b'^')
    .add(b'`')
    .add(b'{')
    .add(b'|')
    .add(b'}');

/// A path, decoded.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct RequestPath {
    names: Vec<String>,
}

/// Why a path is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum BadPath {
    #[error("the path does not begin with `/`")]
    Relative,
    #[error("the path has a `%` without two hexadecimal digits")]
    Escape,
    #[error("the path is not UTF-8")]
    Text,
    #[error("a name in the path is `.` or `..`")]
    Dots,
    #[error("a name in the path has a `/`, NUL or another control character")]
    Character,
    #[error("the path has more than {MAX_NAMES} names, or one longer than {MAX_NAME_BYTES} bytes")]
    TooLong,
}

impl RequestPath {
    /// Decodes the path of a request's target, without its query.
    pub(crate) fn parse(raw: &str) -> Result<Self, BadPath> {
        let rest = raw.strip_prefix('/').ok_or(BadPath::Relative)?;
        let mut names = Vec::new();
        for segment in rest.split('/').filter(|segment| !segment.is_empty()) {
            let name = decoded(segment)?;
            if name == "." || name == ".." {
                return Err(BadPath::Dots);
            }
            if name.chars().any(|c| c == '/' || c.is_control()) {
                return Err(BadPath::Character);
            }
            if name.len() > MAX_NAME_BYTES || names.len() == MAX_NAMES {
                return Err(BadPath::TooLong);
            }
            names.push(name);
        }
        Ok(Self { names })
    }

    /// The names, first the one next to the root.
    pub(crate) fn names(&self) -> &[String] {
        &self.names
    }

    /// The names below the first one, as a path without a root.
    pub(crate) fn below_first(&self) -> PathBuf {
        self.names.iter().skip(1).collect()
    }

    /// The last name; empty for the root.
    pub(crate) fn last(&self) -> &str {
        self.names.last().map_or("", String::as_str)
    }

    /// As text for a reply, with a `/` at the end if it is that of a directory.
    pub(crate) fn href(&self, is_directory: bool) -> String {
        let mut text: String = self.names.iter().flat_map(|name| ["/".into(), escaped(name)]).collect();
        if is_directory || text.is_empty() {
            text.push('/');
        }
        text
    }

    /// That of a path below this one.
    pub(crate) fn join(&self, below: &Self) -> Self {
        Self { names: self.names.iter().chain(&below.names).cloned().collect() }
    }

    /// That of a name in this directory.
    pub(crate) fn child(&self, name: &str) -> Self {
        Self { names: self.names.iter().cloned().chain([name.to_owned()]).collect() }
    }
}

/// A name as a segment of a path.
pub(crate) fn escaped(name: &str) -> String {
    utf8_percent_encode(name, ESCAPED).to_string()
}

fn decoded(segment: &str) -> Result<String, BadPath> {
    let bytes = segment.as_bytes();
    let is_escape =
        |at: usize| bytes.get(at + 1..at + 3).is_some_and(|two| two.iter().all(u8::is_ascii_hexdigit));
    if bytes.iter().enumerate().any(|(at, &byte)| byte == b'%' && !is_escape(at)) {
        return Err(BadPath::Escape);
    }
    percent_decode_str(segment).decode_utf8().map(Into::into).map_err(|_| BadPath::Text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn paths_that_lead_elsewhere_are_refused() {
        for (raw, why) in [
            ("", BadPath::Relative),
            ("exp/f", BadPath::Relative),
            ("/exp/../f", BadPath::Dots),
            ("/exp/%2e%2E/f", BadPath::Dots),
            ("/exp/.%2e", BadPath::Dots),
            ("/./f", BadPath::Dots),
            ("/exp/..%2f..%2fetc", BadPath::Character),
            ("/exp/a%2fb", BadPath::Character),
            ("/exp/a%00b", BadPath::Character),
            ("/exp/a%0ab", BadPath::Character),
            ("/exp/%c0%af", BadPath::Text),
            ("/exp/%ff", BadPath::Text),
            ("/exp/%", BadPath::Escape),
            ("/exp/%2", BadPath::Escape),
            ("/exp/%zz", BadPath::Escape),
        ] {
            assert_eq!(RequestPath::parse(raw), Err(why), "{raw}");
        }
        assert_eq!(RequestPath::parse(&"/a".repeat(65)), Err(BadPath::TooLong));
        assert_eq!(RequestPath::parse(&format!("/{}", "a".repeat(256))), Err(BadPath::TooLong));
        // Decoded once.
        assert_eq!(RequestPath::parse("/%252e%252e").unwrap().names(), ["%2e%2e"]);
        assert_eq!(RequestPath::parse("//exp///f/").unwrap().names(), ["exp", "f"]);
    }

    proptest! {
        #[test]
        fn what_is_written_is_read(names in prop::collection::vec("[^/\\p{Cc}]{1,20}", 0..5)) {
            prop_assume!(names.iter().all(|name| name != "." && name != ".."));
            let path = RequestPath { names };
            for is_directory in [false, true] {
                let text = path.href(is_directory);
                prop_assert!(text.is_ascii() && !text.contains(' '));
                prop_assert_eq!(&RequestPath::parse(&text).unwrap(), &path);
            }
        }

        #[test]
        fn any_text_gives_names_that_stay_below(raw in any::<String>(), path in "/[a-z%0-9./]{0,40}") {
            for raw in [raw, path] {
                if let Ok(path) = RequestPath::parse(&raw) {
                    let is_plain = |name: &String| name != "." && name != ".." && !name.is_empty() && !name.contains(['/', '\0']);
                    prop_assert!(path.names().iter().all(is_plain));
                }
            }
        }
    }
}
