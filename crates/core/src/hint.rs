//! What to do about an error: the end of its text, after `; hint: `.
//!
//! An error says what is wrong, and a hint what the reader can do about it. Both travel in one text, through every cause and library,
//! and are taken apart where they are shown: the command prints a hint on a line of its own.
//!
//! ```
//! use skyhaul_core::hint::{Hint, split};
//! let text = format!("{}: the file is empty{}", "scan.vdif", Hint("give another --input"));
//! assert_eq!(text, "scan.vdif: the file is empty; hint: give another --input");
//! let (wrong, hints) = split(&text);
//! assert_eq!((wrong, hints.collect::<Vec<_>>()), ("scan.vdif: the file is empty", vec!["give another --input"]));
//! ```

use std::fmt::{self, Display, Formatter};

const SEPARATOR: &str = "; hint: ";

/// What to do about an error. Displayed behind the text of the error, with what separates them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hint<T>(pub T);

impl<T: Display> Display for Hint<T> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "{SEPARATOR}{}", self.0)
    }
}

/// Returns `text` with each hint on a line of its own, all lines after `indent`: how people see it. A hint may stand alone.
///
/// ```
/// use skyhaul_core::hint::{Hint, lines};
/// assert_eq!(lines("  ", &format!("no buffer{}", Hint("use more memory"))), "  no buffer\n  hint: use more memory");
/// assert_eq!(lines("", &Hint("use more memory").to_string()), "hint: use more memory");
/// ```
#[must_use]
pub fn lines(indent: &str, text: &str) -> String {
    let (what, hints) = split(text);
    let what = (!what.is_empty()).then(|| format!("{indent}{what}"));
    what.into_iter().chain(hints.map(|hint| format!("{indent}hint: {hint}"))).collect::<Vec<_>>().join("\n")
}

/// Returns what is wrong, and the hints behind it, without spaces around them.
pub fn split(text: &str) -> (&str, impl Iterator<Item = &str>) {
    let mut parts = text.split(SEPARATOR).map(str::trim);
    (parts.next().unwrap_or_default(), parts)
}
