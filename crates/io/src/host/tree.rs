//! Files of `/proc` and `/sys`, read below a root directory, so that a test can provide the files of any host.
//!
//! ```
//! use skyhaul_io::host::tree::Tree;
//! let host = Tree::new("/");
//! assert!(host.read("/proc/sys/kernel/ostype")?.starts_with("Linux"));
//! let processors = host.matching("/sys/devices/system/cpu/cpu*/topology/core_id");
//! # Ok::<(), std::io::Error>(())
//! ```
//!
//! Limits: at most 256 KiB of a file are read, because a few files of `/proc` grow with the host; bytes that are not
//! UTF-8 are replaced. Links are followed: those of `/sys` are relative, and stay below the root.

use std::fs::File;
use std::io::{self, Read as _, Write as _};
use std::path::{Path, PathBuf};

/// Bytes of a file that are read.
const MOST: u64 = 256 << 10;

/// The name of this host, as [`Tree::host_name`] gives it.
#[must_use]
pub fn host_name() -> String {
    Tree::new("/").host_name()
}

/// Files below a root.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tree {
    root: PathBuf,
}

impl Tree {
    /// Below this directory; `/` is this host.
    #[must_use]
    pub fn new(root: impl Into<PathBuf>) -> Self {
        Self { root: root.into() }
    }

    /// Whether these are the files of this host.
    #[must_use]
    pub fn is_this_host(&self) -> bool {
        self.root == Path::new("/")
    }

    /// The actual location of `path`, which begins with `/`.
    #[must_use]
    pub fn at(&self, path: &str) -> PathBuf {
        self.root.join(path.trim_start_matches('/'))
    }

    /// The bytes of a file.
    ///
    /// # Errors
    /// A system error.
    pub fn bytes(&self, path: &str) -> io::Result<Vec<u8>> {
        let mut all = Vec::new();
        File::open(self.at(path))?.take(MOST).read_to_end(&mut all)?;
        Ok(all)
    }

    /// The unchanged text of a file.
    ///
    /// # Errors
    /// A system error.
    pub fn read(&self, path: &str) -> io::Result<String> {
        self.bytes(path).map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
    }

    /// The name of the host, without characters that are not printable ASCII; `localhost` if it has none, or it cannot be read.
    #[must_use]
    pub fn host_name(&self) -> String {
        let text = self.read("/proc/sys/kernel/hostname").unwrap_or_default();
        let name: String = text.chars().filter(char::is_ascii_graphic).collect();
        // The kernel's own name of a host that nobody has named.
        if name.is_empty() || name == "(none)" { "localhost".to_owned() } else { name }
    }

    /// Write to a file that exists, by one call, as the kernel's files want it.
    ///
    /// # Errors
    /// A system error.
    pub fn write(&self, path: &str, text: &str) -> io::Result<()> {
        let mut file = std::fs::OpenOptions::new().write(true).truncate(true).open(self.at(path))?;
        file.write_all(text.as_bytes())
    }

    /// Whether there is such a file, directory or link.
    #[must_use]
    pub fn has(&self, path: &str) -> bool {
        self.at(path).symlink_metadata().is_ok()
    }

    /// The last component of a symbolic link's target.
    #[must_use]
    pub fn link(&self, path: &str) -> Option<String> {
        let target = std::fs::read_link(self.at(path)).ok()?;
        Some(target.file_name()?.to_string_lossy().into_owned())
    }

    /// Names in a directory, in order; numbers by their value.
    #[must_use]
    pub fn names(&self, path: &str) -> Vec<String> {
        let entries = std::fs::read_dir(self.at(path)).into_iter().flatten().flatten();
        let mut names: Vec<String> =
            entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
        names.sort_by(|a, b| by_number(a).cmp(&by_number(b)).then(a.cmp(b)));
        names
    }

    /// Paths that exist and match `pattern`, in which each `*` stands for any part of one name, at most one in a name.
    #[must_use]
    pub fn matching(&self, pattern: &str) -> Vec<String> {
        let mut found = vec![String::new()];
        for part in pattern.trim_start_matches('/').split('/') {
            found = match part.split_once('*') {
                None => found.into_iter().map(|path| format!("{path}/{part}")).collect(),
                Some((head, tail)) => {
                    let fits = |name: &String| {
                        name.len() >= head.len() + tail.len()
                            && name.starts_with(head)
                            && name.ends_with(tail)
                    };
                    let below = |path: String| {
                        let names = self.names(&path).into_iter().filter(fits);
                        names.map(|name| format!("{path}/{name}")).collect::<Vec<_>>()
                    };
                    found.into_iter().flat_map(below).collect()
                }
            };
        }
        found.retain(|path| self.has(path));
        found
    }
}

/// Blocks of a file system that may be written, and all of them.
///
/// # Errors
/// A system error.
pub fn space(path: &str) -> io::Result<(u64, u64)> {
    let is = rustix::fs::statvfs(path)?;
    Ok((is.f_bavail, is.f_blocks))
}

/// The part of a name before its first digits, and the number that these form.
fn by_number(name: &str) -> (&str, u64) {
    let start = name.find(|c: char| c.is_ascii_digit()).unwrap_or(name.len());
    let digits = name[start..].split(|c: char| !c.is_ascii_digit()).next().unwrap_or("");
    (&name[..start], digits.parse().unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_always_has_a_name() {
        let root = tempfile::tempdir().unwrap();
        let tree = Tree::new(root.path());
        assert_eq!(tree.host_name(), "localhost");
        std::fs::create_dir_all(root.path().join("proc/sys/kernel")).unwrap();
        for (text, name) in [
            ("dtn1.example\n", "dtn1.example"),
            ("\n", "localhost"),
            ("(none)\n", "localhost"),
            ("a\u{1b} é:b\n", "a:b"),
        ] {
            std::fs::write(root.path().join("proc/sys/kernel/hostname"), text).unwrap();
            assert_eq!(tree.host_name(), name, "{text:?}");
        }
    }

    #[test]
    fn patterns_find_names_in_the_order_of_their_numbers() {
        let root = tempfile::tempdir().unwrap();
        for cpu in [0, 10, 2] {
            let directory = root.path().join(format!("sys/cpu{cpu}/cpufreq"));
            std::fs::create_dir_all(&directory).unwrap();
            std::fs::write(directory.join("scaling_governor"), "performance\n").unwrap();
        }
        std::fs::create_dir_all(root.path().join("sys/cpufreq")).unwrap();
        let tree = Tree::new(root.path());
        assert_eq!(
            tree.matching("/sys/cpu*/cpufreq/scaling_governor"),
            [0, 2, 10].map(|cpu| format!("/sys/cpu{cpu}/cpufreq/scaling_governor"))
        );
        assert_eq!(tree.matching("/sys/none*/x"), Vec::<String>::new());
        assert_eq!(tree.read("/sys/cpu2/cpufreq/scaling_governor").unwrap(), "performance\n");
        assert!(tree.read("/sys/absent").is_err() && !tree.has("/sys/absent") && !tree.is_this_host());
        tree.write("/sys/cpu2/cpufreq/scaling_governor", "powersave").unwrap();
        assert_eq!(tree.read("/sys/cpu2/cpufreq/scaling_governor").unwrap(), "powersave");
        assert!(tree.write("/sys/absent", "x").is_err(), "settings are not created");
        std::os::unix::fs::symlink("../cpu2", root.path().join("sys/cpufreq/of")).unwrap();
        assert_eq!(tree.link("/sys/cpufreq/of").as_deref(), Some("cpu2"));
    }

    #[test]
    fn what_is_large_or_no_text_is_cut_and_replaced() {
        let root = tempfile::tempdir().unwrap();
        std::fs::write(root.path().join("large"), vec![b'x'; MOST as usize + 9]).unwrap();
        std::fs::write(root.path().join("odd"), [b'a', 0xFF]).unwrap();
        let tree = Tree::new(root.path());
        assert_eq!(tree.bytes("/large").unwrap().len() as u64, MOST);
        assert_eq!(tree.read("/odd").unwrap(), "a\u{FFFD}");
    }
}
