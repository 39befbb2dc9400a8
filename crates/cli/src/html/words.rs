//! Numbers as text, and the whole report as JSON.

use crate::print;
use serde::Serialize;
use serde_json::ser::Formatter;
use std::io::{self, Write};

/// A count with no-break spaces.
pub(super) fn number(n: u64) -> String {
    print::count(n).replace(' ', "\u{202f}")
}

/// A difference with its sign, or 0.
pub(super) fn difference(n: i128) -> String {
    let size = number(u64::try_from(n.unsigned_abs()).unwrap_or(u64::MAX));
    match n {
        0 => "0".into(),
        1.. => format!("+{size}"),
        _ => format!("\u{2212}{size}"),
    }
}

/// `value` as JSON: objects a field to a line, lists on one line.
pub(super) fn json(value: &impl Serialize) -> String {
    let mut out = Vec::new();
    let mut serializer = serde_json::Serializer::with_formatter(&mut out, Lines { depth: 0 });
    match value.serialize(&mut serializer) {
        Ok(()) => String::from_utf8_lossy(&out).into_owned(),
        Err(error) => error.to_string(),
    }
}

struct Lines {
    depth: usize,
}

impl Lines {
    fn line<W: ?Sized + Write>(&self, out: &mut W) -> io::Result<()> {
        write!(out, "\n{:1$}", "", self.depth * 2)
    }
}

impl Formatter for Lines {
    fn begin_object<W: ?Sized + Write>(&mut self, out: &mut W) -> io::Result<()> {
        self.depth += 1;
        out.write_all(b"{")
    }
    fn end_object<W: ?Sized + Write>(&mut self, out: &mut W) -> io::Result<()> {
        self.depth = self.depth.saturating_sub(1);
        self.line(out)?;
        out.write_all(b"}")
    }
    fn begin_object_key<W: ?Sized + Write>(&mut self, out: &mut W, first: bool) -> io::Result<()> {
        if !first {
            out.write_all(b",")?;
        }
        self.line(out)
    }
    fn begin_object_value<W: ?Sized + Write>(&mut self, out: &mut W) -> io::Result<()> {
        out.write_all(b": ")
    }
    fn begin_array_value<W: ?Sized + Write>(&mut self, out: &mut W, first: bool) -> io::Result<()> {
        if first { Ok(()) } else { out.write_all(b", ") }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_stays_json() {
        let value = serde_json::json!({"a": [1, [2, 3]], "b": {"c": "x"}, "d": f64::NAN});
        let text = json(&value);
        assert_eq!(serde_json::from_str::<serde_json::Value>(&text).unwrap(), value);
        assert!(text.contains("\"a\": [1, [2, 3]]"));
    }

    #[test]
    fn differences_have_signs() {
        assert_eq!([0, 5, -1234].map(difference), ["0", "+5", "\u{2212}1\u{202f}234"]);
    }
}
