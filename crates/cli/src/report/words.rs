//! Text for pages: escaped, numbers, and a whole report as JSON.

use crate::print;
use serde::Serialize;
use serde_json::ser::Formatter;
use std::io::{self, Write};

/// `text` with all that means something in HTML escaped; characters that no text has are left out.
pub(crate) fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            c if c.is_control() && c != '\n' => {}
            c => out.push(c),
        }
    }
    out
}

/// `value` with as few digits as it needs.
pub(crate) fn short(value: f64) -> String {
    let size = value.abs();
    let digits = if !(1e-9..100.0).contains(&size) {
        0
    } else if size >= 10.0 {
        1
    } else if size >= 1.0 {
        2
    } else {
        4
    };
    let text = format!("{value:.digits$}");
    if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.').to_string() } else { text }
}

/// Microseconds as text.
pub(crate) fn micros(value: f64) -> String {
    if value >= 1e6 {
        format!("{} s", short(value / 1e6))
    } else if value >= 1e3 {
        format!("{} ms", short(value / 1e3))
    } else {
        format!("{} µs", short(value))
    }
}

/// Divisor and name of the best unit for `largest`, of names that are 1000 apart.
pub(crate) fn unit(largest: f64, names: &[&'static str]) -> (f64, &'static str) {
    let mut divisor = 1.0;
    let mut at = 0;
    while largest / divisor >= 1000.0 && at + 1 < names.len() {
        divisor *= 1000.0;
        at += 1;
    }
    (divisor, names.get(at).copied().unwrap_or_default())
}

/// Text in place of a drawing.
pub(crate) fn nothing(why: &str) -> String {
    format!("<p class=\"soft\">{}</p>\n", escape(why))
}

/// A count with no-break spaces.
pub(crate) fn number(n: u64) -> String {
    print::count(n).replace(' ', "\u{202f}")
}

/// A difference with its sign, or 0.
pub(crate) fn difference(n: i128) -> String {
    let size = number(u64::try_from(n.unsigned_abs()).unwrap_or(u64::MAX));
    match n {
        0 => "0".into(),
        1.. => format!("+{size}"),
        _ => format!("\u{2212}{size}"),
    }
}

/// `value` as JSON: objects a field to a line, lists on one line.
pub(crate) fn json(value: &impl Serialize) -> String {
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
    fn numbers_are_short() {
        let words: Vec<String> = [0.0, 0.5, 2.0, 12.5, 1000.0, 0.0001].map(short).to_vec();
        assert_eq!(words, ["0", "0.5", "2", "12.5", "1000", "0.0001"]);
    }

    #[test]
    fn differences_have_signs() {
        assert_eq!([0, 5, -1234].map(difference), ["0", "+5", "\u{2212}1\u{202f}234"]);
    }
}
