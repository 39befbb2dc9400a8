//! Directories to copy into.

use super::options::Tuning;
use skyhaul_io::disk::tree::Kind;
use skyhaul_io::disk::{Scratch, Tree, free_bytes};
use std::io;
use std::path::PathBuf;
use std::sync::Arc;

/// A directory to copy into.
#[derive(Clone, Debug)]
pub(super) struct Into {
    pub(super) tree: Arc<Tree>,
    /// Its path in the tree.
    pub(super) path: PathBuf,
}

impl Into {
    /// That it cannot be written.
    pub(super) fn failed(&self, error: &io::Error) -> io::Error {
        skyhaul_io::file::failed("write", &self.tree.path().join(&self.path), error)
    }

    /// Make it, durably.
    pub(super) fn make(&self) -> io::Result<()> {
        let failed =
            |error| skyhaul_io::file::failed("copy into", &self.tree.path().join(&self.path), &error);
        if self.tree.status(&self.path).map_err(failed)?.is_some_and(|there| there.kind == Kind::Directory) {
            return Ok(());
        }
        self.tree.make_dirs(&self.path).map_err(failed)?;
        for above in self.path.ancestors().skip(1) {
            let directory = self.tree.directory(above).map_err(failed)?;
            self.tree.faults().sync_all(&directory).map_err(failed)?;
        }
        Ok(())
    }

    /// The nearest directory above it that exists, or itself.
    pub(super) fn existing(self) -> io::Result<Self> {
        for path in self.path.ancestors() {
            match self.tree.status(path) {
                Ok(Some(there)) if there.kind == Kind::Directory => {
                    return Ok(Self { path: path.to_owned(), tree: self.tree });
                }
                Ok(Some(_)) => {
                    let (path, error) = (self.tree.path().join(path), io::ErrorKind::NotADirectory.into());
                    return Err(skyhaul_io::file::failed("copy into", &path, &error));
                }
                Ok(None) => {}
                Err(error) => return Err(self.failed(&error)),
            }
        }
        Ok(self)
    }

    /// A file without a name there, and how much may be written into it: whole ranges, a quarter of what is free, at most `most`.
    pub(super) fn scratch(&self, tuning: &Tuning, most: u64) -> io::Result<(Scratch, u64)> {
        let path = self.tree.path().join(&self.path);
        let scratch = || {
            let size = (free_bytes(&path)? / 4).min(most) / tuning.range * tuning.range;
            let mut file = Scratch::create(&path)?;
            file.allocate(size)?;
            file.set_direct(tuning.direct)?;
            Ok((file, size))
        };
        scratch().map_err(|error| self.failed(&error))
    }
}
