//! Answers, and the codes with which they begin.
//!
//! ```text
//!   !mtu ? 0 : 9000 ;             a query that was answered
//!   !mtu = 8 : expected … ;       a command with a wrong parameter, and why
//! ```
//!
//! The Field System logs what follows a code other than 0 and 1, so errors are one field of text. An answer stays below
//! [`MAX_REPLY_BYTES`]; of a list that is longer, the end is replaced by `...`.

use std::fmt::{self, Write};

/// Maximum length of a line of answers in bytes, with its end: the Field System reads into 1024.
pub const MAX_REPLY_BYTES: usize = 1021;
/// What the end of an answer takes: ` : ... ;` and the end of the line.
const END_BYTES: usize = 10;

/// The return code of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum VsiCode {
    /// Done; the query is answered.
    Done = 0,
    /// Begun or enabled, and not complete yet.
    Started = 1,
    /// Not implemented, or not relevant to this station.
    NotImplemented = 2,
    /// The syntax is wrong.
    Syntax = 3,
    /// An error occurred when it was carried out.
    Failed = 4,
    /// Too busy at the moment; ask again later.
    Busy = 5,
    /// Inconsistent with the state of the station, or with other requests.
    Conflict = 6,
    /// No such keyword.
    NoSuchKeyword = 7,
    /// A parameter is wrong.
    Parameter = 8,
    /// The state cannot be determined.
    Indeterminate = 9,
}

impl VsiCode {
    /// All codes in order.
    pub const ALL: [VsiCode; 10] = {
        use VsiCode::*;
        [
            Done,
            Started,
            NotImplemented,
            Syntax,
            Failed,
            Busy,
            Conflict,
            NoSuchKeyword,
            Parameter,
            Indeterminate,
        ]
    };
}

impl fmt::Display for VsiCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (*self as u8).fmt(f)
    }
}

/// Whose commands a dialogue understands, and how it answers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum VsiDialect {
    /// A FlexBuff under jive5ab: `!mtu ? 0 : 9000 ;`.
    #[default]
    FlexBuff,
    /// A Mark 6: `!record?0:0:off;`, with a second code, which is 0 if it was done.
    Mark6,
}

/// An answer under construction.
#[derive(Clone, Debug)]
pub struct VsiReply {
    text: String,
    /// White space around what divides its fields.
    space: &'static str,
    /// A field was left out, and so are all after it.
    cut: bool,
}

impl VsiReply {
    /// Begins the answer to a request.
    #[must_use]
    pub fn new(keyword: &str, query: bool, code: VsiCode) -> Self {
        let mark = if query { '?' } else { '=' };
        Self { text: format!("!{keyword} {mark} {code}"), space: " ", cut: false }
    }

    /// Begins an answer of a dialect.
    #[must_use]
    pub fn of(dialect: VsiDialect, keyword: &str, query: bool, code: VsiCode) -> Self {
        let is_done = matches!(code, VsiCode::Done | VsiCode::Started);
        match dialect {
            VsiDialect::FlexBuff => Self::new(keyword, query, code),
            VsiDialect::Mark6 => Self::bare(keyword, query, code).field(u8::from(!is_done)),
        }
    }

    /// Begins an answer of a Mark 6 without its second code.
    #[must_use]
    pub(super) fn bare(keyword: &str, query: bool, code: VsiCode) -> Self {
        let mark = if query { '?' } else { '=' };
        Self { text: format!("!{keyword}{mark}{code}"), space: "", cut: false }
    }

    /// Appends a field. Characters with a meaning in the protocol are replaced.
    #[must_use]
    pub fn field(mut self, value: impl fmt::Display) -> Self {
        let start = self.text.len();
        // Writing to a String cannot fail.
        let space = self.space;
        let _ = write!(self.text, "{space}:{space}{value}");
        let begin = start + 1 + 2 * space.len();
        let field = sanitised(&self.text[begin..]);
        self.text.truncate(begin);
        self.text.push_str(&field);
        if self.cut || self.text.len() + END_BYTES > MAX_REPLY_BYTES {
            self.text.truncate(start);
            self.cut = true;
        }
        self
    }

    /// Appends a field for each value.
    #[must_use]
    pub fn fields<T: fmt::Display>(self, values: impl IntoIterator<Item = T>) -> Self {
        values.into_iter().fold(self, |reply, value| reply.field(value))
    }

    /// Appends a field, or one without text if there is none: its value is unknown.
    #[must_use]
    pub fn optional(self, value: Option<impl fmt::Display>) -> Self {
        match value {
            Some(value) => self.field(value),
            None => self.field(""),
        }
    }

    /// Appends a text that may have been written for people, shortened to what fits.
    #[must_use]
    pub fn message(self, text: &str) -> Self {
        let room = MAX_REPLY_BYTES.saturating_sub(self.text.len() + END_BYTES + 3);
        let end = (0..=room.min(text.len())).rev().find(|&end| text.is_char_boundary(end)).unwrap_or(0);
        self.field(&text[..end])
    }

    /// Returns the whole answer, without the end of the line.
    #[must_use]
    pub fn finish(mut self) -> String {
        let space = self.space;
        if self.cut {
            self.text.push_str(&format!("{space}:{space}..."));
        }
        self.text.push_str(space);
        self.text.push(';');
        self.text
    }
}

/// Text of a field: printable ASCII; what ends or divides fields becomes a comma, all else a space.
fn sanitised(text: &str) -> String {
    let legal = |c: char| match c {
        ';' | ':' => ',',
        ' '..='~' => c,
        _ => ' ',
    };
    text.chars().map(legal).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_are_built_from_fields() {
        let reply = VsiReply::new("mode", true, VsiCode::Done).field("VDIF_8000-8192-64-2").field(64);
        assert_eq!(reply.finish(), "!mode ? 0 : VDIF_8000-8192-64-2 : 64 ;");
        let reply = VsiReply::new("record", false, VsiCode::Failed).message("disk a:b; full\nnow é");
        assert_eq!(reply.finish(), "!record = 4 : disk a,b, full now   ;");
        let reply = VsiReply::new("error", true, VsiCode::Done).optional(None::<u8>).optional(Some(3));
        assert_eq!(reply.finish(), "!error ? 0 :  : 3 ;");
        assert_eq!(VsiCode::ALL.map(|code| code.to_string()).concat(), "0123456789");
    }

    #[test]
    fn an_answer_never_exceeds_its_bound() {
        let many = VsiReply::new("set_disks", true, VsiCode::Done).fields((0..500).map(|n| n * 1000));
        let many = many.field("x").finish();
        assert!(many.ends_with(" : ... ;") && many.len() + 2 <= MAX_REPLY_BYTES, "{}", many.len());
        let long = VsiReply::new("record", false, VsiCode::Failed).message(&"é".repeat(2000)).finish();
        assert!(long.len() + 2 <= MAX_REPLY_BYTES && long.len() > 500, "{}", long.len());
        assert!(long.ends_with("  ;"));
    }
}
