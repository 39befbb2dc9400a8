//! Paths: absolute, with ordinary names only; and wildcards in them, as `glob` has them.

use std::fmt;

/// An absolute path. It has no `.`, no `..`, no empty name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EtransferPath {
    /// Its names, from the root on.
    pub names: Vec<String>,
    /// Whether it ends with `/`.
    pub is_directory: bool,
}

/// Why a text is no path here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NotAPath(pub &'static str);

impl fmt::Display for NotAPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }
}

impl EtransferPath {
    /// Reads a path. `//` and `/./` count as `/`.
    ///
    /// # Errors
    /// It is not absolute, begins with `~`, has `..` or a NUL.
    pub fn parse(text: &str) -> Result<Self, NotAPath> {
        if text.starts_with('~') {
            return Err(NotAPath("~ is not expanded: give an absolute path"));
        }
        if !text.starts_with('/') {
            return Err(NotAPath("expected an absolute path"));
        }
        if text.contains('\0') {
            return Err(NotAPath("the path has a NUL"));
        }
        let names: Vec<String> =
            text.split('/').filter(|name| !matches!(*name, "" | ".")).map(str::to_owned).collect();
        if names.iter().any(|name| name == "..") {
            return Err(NotAPath("Permission denied: .. is not allowed in a path"));
        }
        let is_directory = text.ends_with('/') || text.ends_with("/.") || names.is_empty();
        Ok(Self { names, is_directory })
    }
}

impl fmt::Display for EtransferPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.names.iter().try_for_each(|name| write!(f, "/{name}"))?;
        if self.is_directory { f.write_str("/") } else { Ok(()) }
    }
}

/// Whether a name has wildcards.
#[must_use]
pub fn has_wildcards(name: &str) -> bool {
    name.contains(['*', '?', '[', '\\'])
}

/// Whether a name matches a pattern: `*`, `?`, `[a-z]`, `[!a-z]`, and `\` before a character that stands for itself. A dot at the
/// beginning is matched by a dot only.
#[must_use]
pub fn matches_wildcards(pattern: &str, name: &str) -> bool {
    let (pattern, name): (Vec<char>, Vec<char>) = (pattern.chars().collect(), name.chars().collect());
    if name.first() == Some(&'.') && pattern.first() != Some(&'.') && !pattern.starts_with(&['\\', '.']) {
        return false;
    }
    let (mut p, mut n) = (0, 0);
    // Where the last `*` is, and how much of the name it takes: only that one is tried again, so this is quadratic at most.
    let mut star = None;
    while n < name.len() {
        match step(&pattern[p..], name[n]) {
            Step::Star => {
                star = Some((p + 1, n));
                p += 1;
            }
            Step::Matches(length) => {
                p += length;
                n += 1;
            }
            Step::Differs => {
                let Some((after, taken)) = star else { return false };
                star = Some((after, taken + 1));
                (p, n) = (after, taken + 1);
            }
        }
    }
    pattern[p..].iter().all(|c| *c == '*')
}

enum Step {
    Star,
    /// So much of the pattern.
    Matches(usize),
    Differs,
}

fn step(pattern: &[char], c: char) -> Step {
    let matches = |does, length| if does { Step::Matches(length) } else { Step::Differs };
    match pattern {
        [] => Step::Differs,
        ['*', ..] => Step::Star,
        ['?', ..] => Step::Matches(1),
        ['\\', literal, ..] => matches(*literal == c, 2),
        ['[', rest @ ..] => match set(rest, c) {
            Some((does, length)) => matches(does, length + 1),
            None => matches(c == '[', 1),
        },
        [literal, ..] => matches(*literal == c, 1),
    }
}

/// Whether a character is in a set, and how long the set is behind its `[`; `None` if it has no end.
fn set(of: &[char], c: char) -> Option<(bool, usize)> {
    let is_not = matches!(of.first(), Some('!' | '^'));
    let first = usize::from(is_not);
    let end = of.iter().enumerate().skip(first + 1).find(|(_, c)| **c == ']').map(|(at, _)| at)?;
    let (mut at, mut is_in) = (first, false);
    while at < end {
        if at + 2 < end && of[at + 1] == '-' {
            is_in |= (of[at]..=of[at + 2]).contains(&c);
            at += 3;
        } else {
            is_in |= of[at] == c;
            at += 1;
        }
    }
    Some((is_in != is_not, end + 1))
}
