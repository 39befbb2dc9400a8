//! What is to be copied: the names below each source, in order.

use super::budget::Account;
use super::message::{Entry, Name, Origin, What};
use super::names::is_temporary;
use super::sizes::Sizes;
use skyhaul_io::disk::Tree;
use skyhaul_io::disk::tree::{Kind, Status};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

/// A change within one tick of the kernel's clock leaves the same time: a file that changed so recently is looked at again.
const TICK: Duration = Duration::from_millis(25);
/// Most names of one copy: both ends keep them in memory.
pub(super) const MOST: usize = 1 << 20;
/// Deepest directory.
const DEEPEST: usize = 128;

/// A file or directory to be copied.
#[derive(Clone, Debug)]
pub(super) struct Root {
    /// The directory it is in.
    pub(super) tree: Arc<Tree>,
    /// Its path there.
    pub(super) path: PathBuf,
    /// What it is called at the destination; nothing: only what is in it is copied.
    pub(super) name: PathBuf,
    /// Which of the destination's directories it goes into.
    pub(super) to: usize,
}

/// All names of all sources.
#[derive(Debug, Default)]
pub(super) struct Manifest {
    pub(super) entries: Vec<Entry>,
    /// Of each entry: its source, and its path there.
    pub(super) places: Vec<(usize, PathBuf)>,
    /// FIFOs, sockets and devices, which are not copied.
    pub(super) special: Vec<PathBuf>,
    /// Files may be longer than it says: only their beginnings are copied.
    pub(super) is_cut: bool,
}

impl Manifest {
    /// Look at all sources.
    ///
    /// # Errors
    /// One does not exist or cannot be read, there are too many names, or two of them would be one at the destination.
    pub(super) fn of(roots: &[Root], account: &Account) -> io::Result<Self> {
        let mut all = Self::default();
        for (at, root) in roots.iter().enumerate() {
            all.walk((at, account), root, &root.path, &root.name, 0)?;
        }
        all.check_names()?;
        all.outlast(roots)?;
        Ok(all)
    }

    /// Wait until any later change of a file is seen by its time, and look at those again that changed just now.
    fn outlast(&mut self, roots: &[Root]) -> io::Result<()> {
        let is_file = |entry: &Entry| matches!(entry.what, What::File { .. });
        let since = |time: (i64, u32)| {
            let at = SystemTime::UNIX_EPOCH + Duration::new(u64::try_from(time.0).unwrap_or(0), time.1);
            SystemTime::now().duration_since(at).unwrap_or_default()
        };
        let fresh: Vec<usize> = (0..self.entries.len())
            .filter(|&at| is_file(&self.entries[at]) && since(self.entries[at].origin.changed) < TICK)
            .collect();
        if fresh.is_empty() {
            return Ok(());
        }
        std::thread::sleep(TICK);
        for at in fresh {
            let (source, path) = &self.places[at];
            let Some(status) = roots[*source].tree.status(path)?.filter(|now| now.kind == Kind::File) else {
                continue;
            };
            let entry = &mut self.entries[at];
            entry.what = What::File { size: status.size, sparse: is_sparse(&status) };
            (entry.mode, entry.modified, entry.origin) = (status.mode, status.modified, Origin::of(&status));
        }
        Ok(())
    }

    fn walk(
        &mut self,
        (at, account): (usize, &Account),
        root: &Root,
        from: &Path,
        to: &Path,
        depth: usize,
    ) -> io::Result<()> {
        let told = |error: &io::Error| skyhaul_io::file::failed("read", &root.tree.path().join(from), error);
        let status = root.tree.status(from).map_err(|error| told(&error))?;
        let status = status.ok_or_else(|| told(&io::Error::from_raw_os_error(NOT_FOUND)))?;
        let what = match status.kind {
            Kind::File => What::File { size: status.size, sparse: is_sparse(&status) },
            Kind::Link => What::Link(Name::from(&*root.tree.link(from).map_err(|error| told(&error))?)),
            Kind::Directory => What::Directory,
            Kind::Special => {
                self.special.push(root.tree.path().join(from));
                return Ok(());
            }
        };
        let is_directory = what == What::Directory;
        // A whole directory that is the root of its tree has no name of its own: only what is in it is copied.
        if !to.as_os_str().is_empty() {
            let (mode, modified) = (status.mode, status.modified);
            let origin =
                if matches!(what, What::File { .. }) { Origin::of(&status) } else { Origin::default() };
            let entry = Entry { to: root.to, path: to.into(), what, mode, modified, origin };
            account.charge(entry.memory())?;
            self.entries.push(entry);
            self.places.push((at, from.to_owned()));
        }
        if self.entries.len() > MOST {
            return Err(refused(format!(
                "more than {MOST} names; hint: copy one directory after the other, or an archive of small files"
            )));
        }
        if !is_directory {
            return Ok(());
        }
        if depth >= DEEPEST {
            return Err(refused(format!("{}: more than {DEEPEST} directories deep", from.display())));
        }
        for name in root.tree.list(from).map_err(|error| told(&error))? {
            // What an earlier copy left unfinished here is not a file of its own.
            if !is_temporary(&name) {
                self.walk((at, account), root, &from.join(&name), &to.join(&name), depth + 1)?;
            }
        }
        Ok(())
    }

    /// Two files with one name at the destination would overwrite each other.
    fn check_names(&self) -> io::Result<()> {
        let mut seen = std::collections::HashMap::new();
        for (entry, (source, _)) in self.entries.iter().zip(&self.places) {
            let path = entry.path.path();
            let key = (entry.to, path.clone());
            let both_directories =
                |other: &usize| self.entries[*other].what == What::Directory && entry.what == What::Directory;
            let at = seen.len();
            if let Some(other) = seen.insert(key, at)
                && !both_directories(&other)
            {
                return Err(refused(format!(
                    "source {} and source {} both have {}; hint: give each a directory of its own: HOST:/d1 HOST:/d2",
                    self.places[other].0 + 1,
                    source + 1,
                    path.display()
                )));
            }
        }
        Ok(())
    }

    /// How many files of which size there are.
    pub(super) fn sizes(&self) -> Sizes {
        let files = self.entries.iter().filter(|entry| matches!(entry.what, What::File { .. }));
        Sizes::of(files.map(Entry::size))
    }
}

/// `ENOENT`.
const NOT_FOUND: i32 = 2;

fn refused(text: String) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, text)
}

fn is_sparse(status: &Status) -> bool {
    status.stored < status.size
}

#[cfg(test)]
mod tests {
    use super::*;

    fn root(path: &Path, name: &str, to: usize) -> Root {
        Root { tree: Arc::new(Tree::open(path).unwrap()), path: name.into(), name: name.into(), to }
    }

    fn all(roots: &[Root]) -> io::Result<Manifest> {
        Manifest::of(roots, &Account::alone())
    }

    #[test]
    fn a_tree_is_named_from_the_top_and_links_stay_links() {
        let directory = tempfile::tempdir().unwrap();
        let exp = directory.path().join("exp/sub");
        std::fs::create_dir_all(&exp).unwrap();
        std::fs::write(exp.join("b"), [1; 10]).unwrap();
        std::fs::write(exp.join(".b.skyhaul-part"), [1; 10]).unwrap();
        std::fs::create_dir_all(exp.join(".skyhaul-trial-0/x")).unwrap();
        std::os::unix::fs::symlink("/etc", exp.join("a")).unwrap();
        let all = all(&[root(directory.path(), "exp", 3)]).unwrap();
        let names: Vec<_> = all.entries.iter().map(|entry| entry.path.path()).collect();
        assert_eq!(names, ["exp", "exp/sub", "exp/sub/a", "exp/sub/b"].map(PathBuf::from));
        assert_eq!((all.sizes().divided(u64::MAX)[0], all.entries[2].to), ((1, 10), 3));
        assert_eq!(all.entries[2].what, What::Link(Name::Text("/etc".into())));
    }

    #[test]
    fn two_disks_of_a_recording_do_not_become_one() {
        let directory = tempfile::tempdir().unwrap();
        for disk in ["d1", "d2"] {
            let exp = directory.path().join(disk).join("exp");
            std::fs::create_dir_all(&exp).unwrap();
            std::fs::write(exp.join("exp.index"), disk).unwrap();
        }
        let of = |disk: &str, to| root(&directory.path().join(disk), "exp", to);
        let error = all(&[of("d1", 0), of("d2", 0)]).unwrap_err().to_string();
        assert!(error.contains("exp/exp.index") && error.contains("hint: "), "{error}");
        assert_eq!(all(&[of("d1", 0), of("d2", 1)]).unwrap().entries.len(), 4);
        assert!(all(&[root(directory.path(), "none", 0)]).is_err());
    }
}
