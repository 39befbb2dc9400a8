//! Names on disk, as FlexBuff has them: `<disk>/<name>/<name>.%08u`, found again by `[^/.]+\.[0-9]{8}$`.

use skyhaul_core::hint::Hint;
use std::fmt;
use std::path::{Path, PathBuf};

/// Maximum chunk number: eight digits.
pub(crate) const MAX_CHUNK_NUMBER: u32 = 99_999_999;
/// First number of datastreams that no recorder numbered; recorders count from 0.
pub(super) const FIRST_ADOPTED_NUMBER: u32 = 1_000_000;
const MAX_LABEL_BYTES: usize = 200;

/// A scan's label that can be a directory and a file name: no `.` and `/` (FlexBuff readers stumble over them),
/// nothing unprintable, 1 to 200 bytes.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Label(String);

/// Why a text is not a valid label.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "invalid scan name `{label}`: {reason}{}",
    Hint("use letters, digits, `_` and `-`, such as exp_st_no0001")
)]
pub struct LabelError {
    label: String,
    reason: &'static str,
}

impl Label {
    /// Check `text`.
    ///
    /// # Errors
    /// The name is empty, too long, or contains a character that names on disk cannot have.
    pub fn new(text: &str) -> Result<Label, LabelError> {
        let reason = match text {
            "" => "it is empty",
            _ if text.len() > MAX_LABEL_BYTES => "it is longer than 200 bytes",
            _ if text.contains(['.', '/']) => "it contains a `.` or a `/`",
            _ if text.chars().any(|c| c.is_control()) => "it contains an unprintable character",
            _ if text.starts_with('-') => "it begins with a `-`",
            _ => return Ok(Label(text.to_owned())),
        };
        Err(LabelError { label: text.escape_debug().to_string(), reason })
    }

    /// The text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Labels to try when this one is taken: a letter behind it, a-z then A-Z, as FlexBuff does.
    pub(crate) fn variants(&self) -> impl Iterator<Item = Label> + '_ {
        let letters = ('a'..='z').chain('A'..='Z');
        std::iter::once(self.clone()).chain(letters.map(|letter| Label(format!("{}{letter}", self.0))))
    }

    /// `<disk>/<scan>/<scan>.index`
    pub(crate) fn index(&self, disk: &Path) -> PathBuf {
        disk.join(&self.0).join(format!("{}.index", self.0))
    }

    /// Directories on `disk` that belong to this scan by name: the scan's own and `<scan>_ds…`.
    ///
    /// # Errors
    /// The disk cannot be read.
    pub(crate) fn directories(&self, disk: &Path) -> std::io::Result<Vec<String>> {
        let mut names = Vec::new();
        for entry in std::fs::read_dir(disk)? {
            let Ok(name) = entry?.file_name().into_string() else { continue };
            if name.strip_prefix(&self.0).is_some_and(|rest| rest.is_empty() || rest.starts_with("_ds")) {
                names.push(name);
            }
        }
        names.sort();
        Ok(names)
    }

    /// The name of a datastream whose own record is missing: as a recorder would name it.
    pub(crate) fn datastream(&self, number: u32) -> String {
        if number == 0 { self.0.clone() } else { format!("{}_ds{number}", self.0) }
    }
}

impl fmt::Display for Label {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// `<disk>/<name>/<name>.%08u`
pub(crate) fn chunk_path(disk: &Path, name: &str, number: u32) -> PathBuf {
    disk.join(name).join(format!("{name}.{number:08}"))
}

/// The number of a chunk file called `file` in directory `name`.
pub(crate) fn chunk_number(name: &str, file: &str) -> Option<u32> {
    let digits = file.strip_prefix(name)?.strip_prefix('.')?;
    (digits.len() == 8 && digits.bytes().all(|b| b.is_ascii_digit())).then(|| digits.parse().ok())?
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_are_what_flexbuff_can_read() {
        assert_eq!(Label::new("exp_st_no0001").unwrap().as_str(), "exp_st_no0001");
        for bad in ["", "a.b", "a/b", "..", "a\nb", "-rf", &"x".repeat(201)] {
            assert!(Label::new(bad).is_err(), "{bad:?}");
        }
        let label = Label::new("s").unwrap();
        let all: Vec<String> = label.variants().map(|l| l.to_string()).collect();
        assert_eq!((all.len(), &all[0][..], &all[1][..], &all[52][..]), (53, "s", "sa", "sZ"));
    }

    #[test]
    fn chunk_names_go_both_ways() {
        let path = chunk_path(Path::new("/d"), "s_ds1", 12);
        assert_eq!(path, Path::new("/d/s_ds1/s_ds1.00000012"));
        assert_eq!(chunk_number("s_ds1", "s_ds1.00000012"), Some(12));
        for other in
            ["s.00000012", "s_ds1.12", "s_ds1.0000001x", "s_ds1.000000123", "s_ds1.index", "s_ds1.+0000012"]
        {
            assert_eq!(chunk_number("s_ds1", other), None, "{other}");
        }
    }
}
