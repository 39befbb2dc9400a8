//! Lines of a connection, and the requests on them.
//!
//! | form | meaning |
//! |---|---|
//! | `keyword = field : field ;` | a command |
//! | `keyword ? field : field ;` | a query |
//! | `mtu=9000;mode?;` | two requests, carried out in this order, answered on one line |
//!
//! A line ends with `\n` or `\r\n`; the `;` before it may be missing, as from the Field System. m5copy sends `;\n\r`: its `\r` becomes
//! white space before the next request. White space has no meaning anywhere in a line and is removed. Keywords have no case.

/// Maximum length of a line in bytes. Requests of the field are shorter than 1024.
pub const MAX_LINE_BYTES: usize = 4096;
/// Maximum length of a keyword.
const MAX_KEYWORD_BYTES: usize = 32;
/// Maximum length of a field.
const MAX_FIELD_BYTES: usize = 512;

/// A line of a connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum VsiLine {
    /// Its text.
    Text {
        /// The bytes, without the end of the line.
        bytes: Vec<u8>,
        /// It ended with `\r\n`, and so does its answer.
        crlf: bool,
    },
    /// It was longer than [`MAX_LINE_BYTES`]; it has been skipped to its end.
    TooLong,
}

/// Divides the bytes of a connection into lines, in bounded memory.
#[derive(Clone, Debug, Default)]
pub struct VsiLines {
    line: Vec<u8>,
    skipping: bool,
}

impl VsiLines {
    /// Takes bytes as they arrived, and calls `take` for each line that ends in them.
    pub fn push(&mut self, bytes: &[u8], mut take: impl FnMut(VsiLine)) {
        let mut rest = bytes;
        while !rest.is_empty() {
            let end = rest.iter().position(|&b| b == b'\n');
            let (part, behind) = rest.split_at(end.unwrap_or(rest.len()));
            if self.line.len() + part.len() > MAX_LINE_BYTES {
                self.skipping = true;
                self.line.clear();
            }
            if !self.skipping {
                self.line.extend_from_slice(part);
            }
            if end.is_none() {
                return;
            }
            take(self.end());
            rest = &behind[1..];
        }
    }

    /// Whether the bytes behind the last line are a whole request by their `;`: it may be carried out if nothing follows for a while.
    #[must_use]
    pub fn is_terminated(&self) -> bool {
        !self.skipping && self.line.trim_ascii_end().ends_with(b";")
    }

    /// Returns what arrived behind the last line, as a line: at the end of a connection, or if [`VsiLines::is_terminated`].
    pub fn flush(&mut self) -> Option<VsiLine> {
        (self.skipping || !self.line.is_empty()).then(|| self.end())
    }

    fn end(&mut self) -> VsiLine {
        if std::mem::take(&mut self.skipping) {
            return VsiLine::TooLong;
        }
        let mut bytes = std::mem::take(&mut self.line);
        let crlf = bytes.last() == Some(&b'\r');
        if crlf {
            bytes.pop();
        }
        VsiLine::Text { bytes, crlf }
    }
}

/// A command or a query.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VsiRequest {
    /// The keyword, in lower case: letters, digits and `_*+`, at most 32.
    pub keyword: String,
    /// Whether it is a query.
    pub query: bool,
    /// Its fields; one without text may stand for one that is not given.
    pub fields: Vec<String>,
}

/// Why a part of a line is no request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NotARequest(pub &'static str);

impl VsiRequest {
    /// Returns the requests of a line, in order. White space and empty parts are left out.
    pub fn on_line(line: &[u8]) -> impl Iterator<Item = Result<VsiRequest, NotARequest>> {
        let text = String::from_utf8_lossy(line);
        let text: String = text.chars().filter(|c| !c.is_whitespace()).collect();
        let parts: Vec<_> = text.split(';').filter(|part| !part.is_empty()).map(Self::parse).collect();
        parts.into_iter()
    }

    fn parse(part: &str) -> Result<VsiRequest, NotARequest> {
        let at = part.find(['?', '=']).ok_or(NotARequest("neither a command nor a query"))?;
        let (keyword, rest) = part.split_at(at);
        let legal = |b: u8| b.is_ascii_alphanumeric() || b"_*+-".contains(&b);
        if keyword.is_empty() || keyword.len() > MAX_KEYWORD_BYTES || !keyword.bytes().all(legal) {
            return Err(NotARequest("invalid keyword"));
        }
        let fields: Vec<String> = rest[1..].split(':').map(str::to_owned).collect();
        if fields.iter().any(|field| field.len() > MAX_FIELD_BYTES) {
            return Err(NotARequest("a field is longer than 512 bytes"));
        }
        Ok(VsiRequest { keyword: keyword.to_ascii_lowercase(), query: rest.starts_with('?'), fields })
    }

    /// Returns the field with this number, from 0; empty if it is not given.
    #[must_use]
    pub fn field(&self, number: usize) -> &str {
        self.fields.get(number).map_or("", String::as_str)
    }

    /// Returns the same in lower case.
    #[must_use]
    pub fn word(&self, number: usize) -> String {
        self.field(number).to_ascii_lowercase()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(pieces: &[&[u8]]) -> (Vec<VsiLine>, VsiLines) {
        let (mut reader, mut found) = (VsiLines::default(), Vec::new());
        pieces.iter().for_each(|piece| reader.push(piece, |line| found.push(line)));
        (found, reader)
    }

    fn text(bytes: &[u8], crlf: bool) -> VsiLine {
        VsiLine::Text { bytes: bytes.to_vec(), crlf }
    }

    #[test]
    fn lines_end_as_each_program_ends_them() {
        let expected = vec![text(b"mode?", false), text(b"mtu?;", true), text(b"", false)];
        assert_eq!(lines(&[b"mode?\nmtu?;\r\n\n"]).0, expected);
        let bytes: Vec<&[u8]> = b"mode?\nmtu?;\r\n\n".chunks(1).collect();
        assert_eq!(lines(&bytes).0, expected);
        // m5copy: the `\r` begins the next line.
        assert_eq!(lines(&[b"a?;\n\r", b"b?;\n\r"]).0, [text(b"a?;", false), text(b"\rb?;", false)]);
        let parsed: Vec<_> = VsiRequest::on_line(b"\rb?;").collect();
        assert_eq!(parsed.len(), 1);
        assert!(parsed[0].as_ref().is_ok_and(|request| request.keyword == "b" && request.query));
    }

    #[test]
    fn a_line_without_end_is_offered_when_it_is_a_request() {
        let (found, mut reader) = lines(&[b"record=on:a_b_c; "]);
        assert!(found.is_empty() && reader.is_terminated());
        assert_eq!(reader.flush(), Some(text(b"record=on:a_b_c; ", false)));
        assert!(!reader.is_terminated() && reader.flush().is_none());
        assert!(!lines(&[b"record=on"]).1.is_terminated());
    }

    #[test]
    fn a_long_line_is_skipped_to_its_end() {
        let long = vec![b'x'; MAX_LINE_BYTES + 1];
        let (found, mut reader) = lines(&[&long, b"xx;\nmode?\n"]);
        assert_eq!(found, [VsiLine::TooLong, text(b"mode?", false)]);
        assert!(reader.flush().is_none());
        let (found, mut reader) = lines(&[&long[1..], b"\n", &long, b";"]);
        assert_eq!(found, [text(&long[1..], false)]);
        assert!(!reader.is_terminated());
        assert_eq!(reader.flush(), Some(VsiLine::TooLong));
    }

    #[test]
    fn requests_of_a_line() {
        let of = |line: &[u8]| VsiRequest::on_line(line).collect::<Vec<_>>();
        let request = |keyword: &str, query, fields: &[&str]| {
            Ok(VsiRequest {
                keyword: keyword.into(),
                query,
                fields: fields.iter().map(|f| (*f).into()).collect(),
            })
        };
        assert_eq!(
            of(b" Record = NThread : : 3 ; mode ? ;; "),
            [request("record", false, &["NThread", "", "3"]), request("mode", true, &[""])]
        );
        assert_eq!(of(b"net_port=a@1=x"), [request("net_port", false, &["a@1=x"])]);
        assert_eq!(of(b" \t;"), []);
        for bad in [&b"record"[..], b"=on", b"?", b"m\xffode?", b"a b\x00=1"] {
            assert!(of(bad)[0].is_err(), "{bad:?}");
        }
        assert!(of(&[b"a=", &[b'x'; 513][..]].concat())[0].is_err());
    }
}
