//! Files here, for copies to servers of other protocols.

use super::client::local_roots;
use super::manifest::{Manifest, Root};
use super::message::{Entry, What};
use super::options::Account;
use skyhaul_io::disk::tree::Status;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A file of some sources.
#[derive(Debug)]
pub struct LocalFile {
    roots: Arc<Vec<Root>>,
    root: usize,
    place: PathBuf,
    entry: Entry,
}

impl LocalFile {
    /// Its path below the destination.
    #[must_use]
    pub fn name(&self) -> PathBuf {
        self.entry.path.path()
    }

    /// Its size in bytes, when it was listed.
    #[must_use]
    pub fn size(&self) -> u64 {
        self.entry.size()
    }

    /// Opens it for reading; no link is followed. Its status is that of the file that is open.
    ///
    /// # Errors
    /// It cannot be opened, or is no regular file any more.
    pub fn open(&self) -> io::Result<(File, Status)> {
        let tree = &self.roots[self.root].tree;
        let failed = |error| skyhaul_io::file::failed("read", &tree.path().join(&self.place), &error);
        let (file, _) = tree.read(&self.place, false).map_err(failed)?;
        let status = Status::of_file(&file).map_err(failed)?;
        Ok((file, status))
    }
}

/// What some sources are.
#[derive(Debug, Default)]
pub struct LocalFiles {
    /// All files.
    pub files: Vec<LocalFile>,
    /// All directories, by their paths below the destination; each before what is in it.
    pub directories: Vec<PathBuf>,
    /// Symbolic links in them, by their paths below the destination.
    pub links: Vec<PathBuf>,
    /// FIFOs, sockets and devices.
    pub special: Vec<PathBuf>,
    /// Names of unfinished copies, which are left out.
    pub temporary_names: usize,
}

/// Lists files and directories, with everything below them, as a copy to another host does.
///
/// # Errors
/// One does not exist or cannot be read, there are too many names, or two of them would be one at the destination.
pub fn local_files(sources: &[impl AsRef<Path>]) -> io::Result<LocalFiles> {
    let sources: Vec<PathBuf> = sources.iter().map(|source| source.as_ref().to_owned()).collect();
    let roots = Arc::new(local_roots(&sources, 1)?);
    let manifest = Manifest::of(&roots, &Account::alone())?;
    let mut all = LocalFiles {
        special: manifest.special,
        temporary_names: manifest.temporary_names,
        ..LocalFiles::default()
    };
    for (entry, (root, place)) in manifest.entries.into_iter().zip(manifest.places) {
        match entry.what {
            What::Directory => all.directories.push(entry.path.path()),
            What::Link(_) => all.links.push(entry.path.path()),
            What::File { .. } => {
                all.files.push(LocalFile { roots: Arc::clone(&roots), root, place, entry });
            }
        }
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_listed_with_their_directories_and_what_is_left_out() {
        let here = tempfile::tempdir().unwrap();
        let exp = here.path().join("exp");
        std::fs::create_dir_all(exp.join("sub")).unwrap();
        std::fs::write(exp.join("sub/f"), [1; 10]).unwrap();
        std::fs::write(exp.join(".f.skyhaul-part"), [1; 10]).unwrap();
        std::os::unix::fs::symlink("sub/f", exp.join("link")).unwrap();
        std::os::unix::net::UnixListener::bind(exp.join("socket")).unwrap();
        let all = local_files(&[&exp]).unwrap();
        assert_eq!(all.directories, ["exp", "exp/sub"].map(PathBuf::from));
        assert_eq!((all.links, all.special.len(), all.temporary_names), (vec!["exp/link".into()], 1, 1));
        let [file] = &all.files[..] else { panic!("{:?}", all.files) };
        assert_eq!((file.name(), file.size()), (PathBuf::from("exp/sub/f"), 10));
        assert_eq!(file.open().unwrap().1.size, 10);
        // It has become something else meanwhile.
        std::fs::remove_file(exp.join("sub/f")).unwrap();
        std::os::unix::fs::symlink("/etc/passwd", exp.join("sub/f")).unwrap();
        assert!(file.open().unwrap_err().to_string().contains("exp/sub/f"));
    }
}
