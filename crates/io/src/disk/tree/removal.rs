//! A directory that is held, and one that goes away with all that is in it.

use super::{Kind, Tree};
use rustix::fs::{AtFlags, FlockOperation};
use std::fs::File;
use std::io;
use std::path::Path;
use std::sync::Arc;

impl Tree {
    /// The directory at `path`, locked while it is open here.
    ///
    /// # Errors
    /// As [`directory`](Self::directory); `WouldBlock` if it is locked elsewhere.
    pub fn hold(&self, path: &Path) -> io::Result<Arc<File>> {
        // Opened again, because the same open file would have the same lock.
        let directory = self.opened(&Self::names(path)?)?;
        match crate::disk::lock(&*directory, FlockOperation::NonBlockingLockExclusive) {
            true => Ok(directory),
            false => Err(Self::taken(path)),
        }
    }

    /// Remove the directory `path` with all that is in it. No link is followed.
    ///
    /// # Errors
    /// A system error, or the path leads out.
    pub fn remove_all(&self, path: &Path) -> io::Result<()> {
        // Check before anything is removed: the directory itself must not be removed.
        self.parent(path)?;
        for name in self.list(path)? {
            let path = path.join(name);
            match self.status(&path)? {
                Some(status) if status.kind == Kind::Directory => self.remove_all(&path)?,
                Some(_) => self.remove(&path)?,
                None => {}
            }
        }
        let (parent, name) = self.parent(path)?;
        Ok(rustix::fs::unlinkat(&parent, name, AtFlags::REMOVEDIR)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_goes_with_what_is_in_it_and_nothing_that_links_lead_to() {
        let directory = tempfile::tempdir().unwrap();
        let inside = directory.path().join("inside");
        std::fs::create_dir_all(inside.join("a/b")).unwrap();
        std::fs::write(directory.path().join("secret"), "x").unwrap();
        std::fs::write(inside.join("a/b/f"), "x").unwrap();
        std::os::unix::fs::symlink("../../..", inside.join("a/b/out")).unwrap();
        let tree = Tree::open(&inside).unwrap();
        let held = tree.hold(Path::new("a")).unwrap();
        assert_eq!(tree.hold(Path::new("a")).unwrap_err().kind(), io::ErrorKind::WouldBlock);
        drop(held);
        tree.hold(Path::new("a")).unwrap();
        for out in ["a/b/out", "..", "", "a/b/f"] {
            assert!(tree.remove_all(Path::new(out)).is_err(), "{out:?} was removed");
        }
        tree.remove_all(Path::new("a")).unwrap();
        assert!(tree.list(Path::new("")).unwrap().is_empty() && directory.path().join("secret").exists());
    }
}
