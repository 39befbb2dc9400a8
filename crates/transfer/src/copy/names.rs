//! Names that a peer sends, and names of unfinished files.
//!
//! ```text
//!   asked for HOST:d1/exp   ─▶ exp, exp/…                       what else comes is refused
//!   asked for HOST:         ─▶ whatever is there, but no hidden name at the top: .profile, .ssh
//!   a push                  ─▶ anything below the directory asked for
//! ```
//!
//! A name is relative, without `.` and `..`, and never empty: the directory that is copied into keeps its permissions and
//! times. Names of unfinished files are refused, too, or a peer could forge the journal of another copy.

use ring::digest::{SHA256, digest};
use std::collections::HashSet;
use std::ffi::{OsStr, OsString};
use std::io;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Component, Path, PathBuf};

/// Longest path in bytes, and longest name in it (`PATH_MAX`, `NAME_MAX`).
const LONGEST: usize = 4095;
const LONGEST_NAME: usize = 255;
/// Longest text of a peer that is kept.
const TEXT: usize = 512;

/// How the names of unfinished files end.
pub(super) const PART: &str = ".skyhaul-part";
/// How the names of their journals end.
pub(super) const JOURNAL: &str = ".skyhaul-journal";
/// How the names of directories begin that a copy in small is made in.
pub(super) const ASIDE: &str = ".skyhaul-trial-";

/// `.NAME.skyhaul-part` beside `NAME`. Of a name that would be too long, its beginning and a digest of it.
pub(super) fn beside(path: &Path, end: &str) -> PathBuf {
    /// With it, and the longest end, a name is as long as it may be.
    const KEPT: usize = 200;
    let of = path.file_name().unwrap_or_default();
    let mut name = OsString::from(".");
    if of.len() + 1 + JOURNAL.len().max(end.len()) <= LONGEST_NAME {
        name.push(of);
    } else {
        let whole = digest(&SHA256, of.as_bytes());
        name.push(OsStr::from_bytes(&of.as_bytes()[..KEPT.min(of.len())]));
        name.push(format!("~{}", skyhaul::peer::hex(&whole.as_ref()[..8])));
    }
    name.push(end);
    path.with_file_name(name)
}

/// Whether a name is one of an unfinished copy.
pub(super) fn is_temporary(name: &OsStr) -> bool {
    let name = name.as_encoded_bytes();
    if name.starts_with(ASIDE.as_bytes()) {
        return true;
    }
    name.starts_with(b".") && (name.ends_with(PART.as_bytes()) || name.ends_with(JOURNAL.as_bytes()))
}

/// What a peer may name.
#[derive(Clone, Debug)]
pub(super) enum Allowed {
    /// Anything below the directories asked for.
    All,
    /// By the number of the directory that it goes into: these names at the top. Where nothing is named, what is not hidden.
    Named(Vec<(usize, Option<OsString>)>),
}

impl Allowed {
    /// What a request for these paths allows; `to`: which directory each goes into.
    pub(super) fn by(paths: &[PathBuf], to: impl Fn(usize) -> usize) -> Self {
        let name = |(at, path): (usize, &PathBuf)| (to(at), asked_name(path));
        Self::Named(paths.iter().enumerate().map(name).collect())
    }

    /// Whether a name that came may be made.
    ///
    /// # Errors
    /// Why not.
    pub(super) fn check(&self, to: usize, path: &Path) -> io::Result<()> {
        let wrong = |why: &str| Err(io::Error::new(io::ErrorKind::InvalidInput, why.to_owned()));
        let bytes = path.as_os_str().as_bytes();
        let plain = |part: Component<'_>| match part {
            Component::Normal(name) => name.len() <= LONGEST_NAME && !name.as_bytes().contains(&0),
            _ => false,
        };
        let same = path.components().collect::<PathBuf>().into_os_string().into_vec() == bytes;
        if bytes.is_empty() || bytes.len() > LONGEST || !same || !path.components().all(plain) {
            return wrong("the other end sent a name that is no path below the directory; it is refused");
        }
        if path.iter().any(is_temporary) {
            return wrong("the other end sent the name of an unfinished file; it is refused");
        }
        let Self::Named(names) = self else { return Ok(()) };
        let top = path.iter().next().unwrap_or_default();
        let mut of = names.iter().filter(|(number, _)| *number == to).peekable();
        if of.clone().any(|(_, name)| name.as_deref() == Some(top)) {
            return Ok(());
        }
        let any = of.any(|(_, name)| name.is_none());
        match (any, top.as_bytes().starts_with(b".")) {
            (true, false) => Ok(()),
            (true, true) => {
                wrong("a hidden name is not copied unless it is asked for; hint: name it in the source")
            }
            (false, _) => wrong("the other end sent a name that was not asked for; it is refused"),
        }
    }
}

/// What is called for with a path of the other host; None: only what is in it.
pub(super) fn asked_name(path: &Path) -> Option<OsString> {
    path.file_name().map(OsStr::to_owned)
}

/// Text of a peer, as it is kept and shown: of bounded length, and without control characters.
pub(super) fn shown(text: &str) -> String {
    let plain = |c: char| if c.is_control() && c != '\n' { '\u{FFFD}' } else { c };
    let mut shown: String = text.chars().take(TEXT).map(plain).collect();
    if text.chars().nth(TEXT).is_some() {
        shown.push('…');
    }
    shown
}

/// Names that came already.
#[derive(Debug, Default)]
pub(super) struct Seen(HashSet<(usize, PathBuf)>);

impl Seen {
    /// Whether a name comes for the first time.
    pub(super) fn is_new(&mut self, to: usize, path: &Path) -> bool {
        self.0.insert((to, path.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_was_asked_for_is_allowed() {
        let paths = [PathBuf::from("/data/exp"), PathBuf::from("d2/other/")];
        let asked = Allowed::by(&paths, |at| at);
        let ok = |to, path: &str| asked.check(to, Path::new(path)).is_ok();
        assert!(ok(0, "exp") && ok(0, "exp/a/.hidden") && ok(1, "other/x"));
        for (to, path) in
            [(0, "other"), (1, "exp"), (2, "exp"), (0, ".profile"), (0, "exp2"), (0, ".ssh/authorized_keys")]
        {
            assert!(!ok(to, path), "{to} {path}");
        }
        let whole = Allowed::by(&[PathBuf::from("")], |_| 0);
        assert!(whole.check(0, Path::new("a/.b")).is_ok());
        assert!(
            whole.check(0, Path::new(".ssh/authorized_keys")).unwrap_err().to_string().contains("hint: ")
        );
        let hidden = Allowed::by(&[PathBuf::from(".config")], |_| 0);
        assert!(hidden.check(0, Path::new(".config/x")).is_ok());
    }

    #[test]
    fn a_name_is_a_plain_path_below() {
        let long = "a".repeat(256);
        for bad in ["", ".", "..", "/x", "./x", "x/.", "x/..", "x/../y", "x//y", "x/", "a\0b", long.as_str()]
        {
            assert!(Allowed::All.check(0, Path::new(bad)).is_err(), "{bad:?}");
        }
        for bad in [".x.skyhaul-part", "a/.x.skyhaul-journal", ".skyhaul-trial-0/x"] {
            assert!(Allowed::All.check(0, Path::new(bad)).is_err(), "{bad}");
        }
        for good in ["x", ".x", "a/b/c", "größe", "..x", "a b"] {
            Allowed::All.check(0, Path::new(good)).unwrap();
        }
    }

    #[test]
    fn names_of_unfinished_files_fit_however_long_the_name_is() {
        assert_eq!(beside(Path::new("d/f"), PART), Path::new("d/.f.skyhaul-part"));
        let names = [240, 241, 242, 254, 255].map(|n| "n".repeat(n));
        let mut seen = HashSet::new();
        for name in &names {
            for end in [PART, JOURNAL] {
                let path = beside(&Path::new("d").join(name), end);
                let name = path.file_name().unwrap();
                assert!(name.len() <= 255 && is_temporary(name), "{}", name.len());
                assert!(seen.insert(path), "two files would share one");
            }
        }
        // A name of characters that take more than a byte each is cut anywhere.
        assert!(beside(Path::new(&"ö".repeat(127)), PART).as_os_str().len() <= 255);
    }

    #[test]
    fn text_of_a_peer_is_short_and_plain() {
        assert_eq!(shown("a\x1b[2Jb\nc"), "a\u{FFFD}[2Jb\nc");
        assert_eq!(shown(&"x".repeat(10_000)).chars().count(), TEXT + 1);
    }
}
