//! A directory that no path can leave, for names chosen by a peer.
//!
//! Every path is opened name by name from the directory's descriptor, and no link is followed, so neither `..` nor a
//! link leads out of it.
//!
//! ```
//! use skyhaul_io::disk::Tree;
//! let directory = tempfile::tempdir()?;
//! let tree = Tree::open(directory.path())?;
//! tree.make_dirs("a/b".as_ref())?;
//! assert!(tree.make_dirs("../outside".as_ref()).is_err());
//! # Ok::<(), std::io::Error>(())
//! ```
//!
//! Limits: the directory itself is opened like any other path, following links.

use super::Faults;
use crate::lock::lock;
use rustix::fs::{AtFlags, FileType, FlockOperation, Mode, OFlags, RenameFlags, Timespec, Timestamps};
use rustix::io::Errno;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Component, Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// A killed process keeps its locks until the kernel has finished its writes: wait this long for them.
const KILLED: Duration = Duration::from_secs(1);

/// What a name is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A regular file.
    File,
    /// A directory.
    Directory,
    /// A symbolic link.
    Link,
    /// A FIFO, a socket or a device.
    Special,
}

/// The status of a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Status {
    /// What it is.
    pub kind: Kind,
    /// Bytes of a file.
    pub size: u64,
    /// Bytes allocated on the disk: fewer than `size` if it has holes.
    pub stored: u64,
    /// Permissions, with set-user-ID, set-group-ID and the sticky bit.
    pub mode: u32,
    /// Last change of its content: seconds and nanoseconds since 1970.
    pub modified: (i64, u32),
    /// Last change of content or status, which no program can set.
    pub changed: (i64, u32),
    /// The file system it is on.
    pub device: u64,
    /// Its number there.
    pub inode: u64,
}

impl Status {
    /// That of an open file.
    ///
    /// # Errors
    /// A system error.
    pub fn of_file(file: &File) -> io::Result<Self> {
        Ok(Self::of(&rustix::fs::fstat(file)?))
    }

    fn of(stat: &rustix::fs::Stat) -> Self {
        let kind = match FileType::from_raw_mode(stat.st_mode) {
            FileType::RegularFile => Kind::File,
            FileType::Directory => Kind::Directory,
            FileType::Symlink => Kind::Link,
            _ => Kind::Special,
        };
        Self {
            kind,
            size: u64::try_from(stat.st_size).unwrap_or(0),
            stored: u64::try_from(stat.st_blocks).unwrap_or(0).saturating_mul(512),
            mode: stat.st_mode & 0o7777,
            modified: (stat.st_mtime, u32::try_from(stat.st_mtime_nsec).unwrap_or(0)),
            changed: (stat.st_ctime, u32::try_from(stat.st_ctime_nsec).unwrap_or(0)),
            device: stat.st_dev,
            inode: stat.st_ino,
        }
    }
}

/// A directory, and nothing outside it.
#[derive(Debug)]
pub struct Tree {
    path: PathBuf,
    root: Arc<File>,
    /// The directory opened last, because files come in order of directories.
    last: Mutex<Option<(PathBuf, Arc<File>)>>,
    faults: Faults,
    /// Directories are found anew for each path.
    is_shared: bool,
}

const LOOK: OFlags = OFlags::DIRECTORY.union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

impl Tree {
    /// The directory at `path`.
    ///
    /// # Errors
    /// A system error: it does not exist, or is not a directory.
    pub fn open(path: &Path) -> io::Result<Tree> {
        let root = super::open_directory(path)?;
        Ok(Tree {
            path: path.to_owned(),
            root,
            last: Mutex::new(None),
            faults: Faults::default(),
            is_shared: false,
        })
    }

    /// With the faults of its disk, for tests.
    #[must_use]
    pub fn with(self, faults: Faults) -> Tree {
        Tree { faults, ..self }
    }

    /// One whose directories others may rename, remove and make again while it is used.
    #[must_use]
    pub fn shared(self) -> Tree {
        Tree { is_shared: true, ..self }
    }

    /// The faults of its disk.
    #[must_use]
    pub fn faults(&self) -> &Faults {
        &self.faults
    }

    /// Where it is.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// A path in it must have ordinary names only.
    fn names(path: &Path) -> io::Result<Vec<&OsStr>> {
        let wrong = || {
            let text = format!("{}: it leads out of the directory", path.display());
            io::Error::new(io::ErrorKind::InvalidInput, text)
        };
        let name = |part| match part {
            Component::Normal(name) if !name.as_bytes().contains(&0) => Ok(name),
            _ => Err(wrong()),
        };
        path.components().map(name).collect()
    }

    /// The directory at `path`; empty: this one.
    ///
    /// # Errors
    /// A system error; `InvalidInput` if the path leads out; a link on the way is `NotADirectory`.
    pub fn directory(&self, path: &Path) -> io::Result<Arc<File>> {
        let names = Self::names(path)?;
        if self.is_shared {
            return self.opened(&names);
        }
        let mut last = lock(&self.last);
        if let Some((known, directory)) = &*last
            && known == path
        {
            return Ok(directory.clone());
        }
        let at = self.opened(&names)?;
        *last = Some((path.to_owned(), at.clone()));
        Ok(at)
    }

    fn opened(&self, names: &[&OsStr]) -> io::Result<Arc<File>> {
        let mut at = self.root.clone();
        for name in names {
            at = Arc::new(File::from(rustix::fs::openat(&at, *name, OFlags::RDONLY | LOOK, Mode::empty())?));
        }
        Ok(at)
    }

    /// The directory that holds `path`, and the name in it.
    fn parent<'a>(&self, path: &'a Path) -> io::Result<(Arc<File>, &'a OsStr)> {
        let names = Self::names(path)?;
        let Some(name) = names.last().copied() else {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "no name is given"));
        };
        Ok((self.directory(path.parent().unwrap_or(Path::new("")))?, name))
    }

    /// What is at `path`, not following a link; None if nothing is.
    ///
    /// # Errors
    /// A system error, or the path leads out.
    pub fn status(&self, path: &Path) -> io::Result<Option<Status>> {
        if path.as_os_str().is_empty() {
            return Ok(Some(Status::of(&rustix::fs::fstat(&self.root)?)));
        }
        let (parent, name) = match self.parent(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            other => other?,
        };
        match rustix::fs::statat(&parent, name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(stat) => Ok(Some(Status::of(&stat))),
            Err(Errno::NOENT) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// Creates the directory `path` and those above it; existing ones do not change.
    ///
    /// # Errors
    /// A system error, or the path leads out, or a link or a file is in the way.
    pub fn make_dirs(&self, path: &Path) -> io::Result<()> {
        self.faults.changes()?;
        let mut at = self.root.clone();
        for name in Self::names(path)? {
            match rustix::fs::mkdirat(&at, name, Mode::from_raw_mode(0o755)) {
                Ok(()) => self.faults.named(&at, (name, None), true)?,
                Err(Errno::EXIST) => {}
                Err(error) => return Err(error.into()),
            }
            at = Arc::new(File::from(rustix::fs::openat(&at, name, OFlags::RDONLY | LOOK, Mode::empty())?));
        }
        Ok(())
    }

    /// Open a regular file for reading, past the page cache if `direct` and the file system allows it. Returns whether it
    /// is.
    ///
    /// # Errors
    /// A system error, or it is not a regular file, or the path leads out.
    pub fn read(&self, path: &Path, direct: bool) -> io::Result<(File, bool)> {
        self.open_regular(path, OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY, direct)
    }

    /// Open a file for writing and reading, made if it does not exist, and locked while it is open.
    ///
    /// # Errors
    /// As [`read`](Self::read); `WouldBlock` if another process has it open so.
    pub fn write(&self, path: &Path, direct: bool) -> io::Result<(File, bool)> {
        self.faults.changes()?;
        let begun = Instant::now();
        loop {
            let (file, direct) = self.open_regular(path, OFlags::RDWR | OFlags::CREATE, direct)?;
            // Whoever had the lock may have given the file another name before it was released.
            if super::lock(&file, FlockOperation::NonBlockingLockExclusive) && self.is_at(path, &file)? {
                return Ok((file, direct));
            }
            if begun.elapsed() > KILLED {
                return Err(Self::taken(path));
            }
            std::thread::sleep(KILLED / 40);
        }
    }

    /// Whether `path` is the name of this file.
    fn is_at(&self, path: &Path, file: &File) -> io::Result<bool> {
        let status = Status::of(&rustix::fs::fstat(file)?);
        let named = self.status(path)?;
        Ok(named.is_some_and(|named| (named.device, named.inode) == (status.device, status.inode)))
    }

    fn taken(path: &Path) -> io::Error {
        let text = format!("{}: another copy is writing it", path.display());
        io::Error::new(io::ErrorKind::WouldBlock, text)
    }

    fn open_regular(&self, path: &Path, flags: OFlags, direct: bool) -> io::Result<(File, bool)> {
        let (parent, name) = self.parent(path)?;
        let flags = flags | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let mode = Mode::from_raw_mode(0o600);
        let open = |flags| rustix::fs::openat(&parent, name, flags, mode);
        let (fd, direct) = match direct.then(|| open(flags | OFlags::DIRECT)) {
            None | Some(Err(Errno::INVAL)) => (open(flags)?, false),
            Some(opened) => (opened?, true),
        };
        let file = File::from(fd);
        super::only_regular(file.metadata()?.file_type())?;
        Ok((file, direct))
    }

    /// Renames `from` to `to` in the same directory; with `replace`, an existing file of that name is replaced.
    ///
    /// # Errors
    /// A system error; `AlreadyExists` if there is one and `replace` is false.
    pub fn rename(&self, from: &Path, to: &Path, replace: bool) -> io::Result<()> {
        self.faults.changes()?;
        let in_one = from.parent() == to.parent();
        let ((parent, from), (beside, to)) = (self.parent(from)?, self.parent(to)?);
        let is_there = || rustix::fs::statat(&beside, to, AtFlags::SYMLINK_NOFOLLOW);
        let is_new = !replace || (self.faults.disk.is_some() && is_there().is_err());
        if replace {
            rustix::fs::renameat(&parent, from, &beside, to)?;
        } else {
            match rustix::fs::renameat_with(&parent, from, &beside, to, RenameFlags::NOREPLACE) {
                // Not every file system supports the flag.
                Err(Errno::INVAL | Errno::NOSYS) => match is_there() {
                    Err(Errno::NOENT) => rustix::fs::renameat(&parent, from, &beside, to)?,
                    Ok(_) => return Err(io::ErrorKind::AlreadyExists.into()),
                    Err(error) => return Err(error.into()),
                },
                other => other?,
            }
        }
        self.faults.named(&beside, (to, in_one.then_some(from)), is_new && in_one)
    }

    /// Remove a file or a link.
    ///
    /// # Errors
    /// A system error.
    pub fn remove(&self, path: &Path) -> io::Result<()> {
        self.faults.changes()?;
        let (parent, name) = self.parent(path)?;
        Ok(rustix::fs::unlinkat(&parent, name, AtFlags::empty())?)
    }

    /// Make a symbolic link. Where it leads is not looked at.
    ///
    /// # Errors
    /// A system error.
    pub fn make_link(&self, path: &Path, target: &OsStr) -> io::Result<()> {
        self.faults.changes()?;
        let (parent, name) = self.parent(path)?;
        rustix::fs::symlinkat(target, &parent, name)?;
        self.faults.named(&parent, (name, None), true)
    }

    /// Where a symbolic link leads.
    ///
    /// # Errors
    /// A system error.
    pub fn link(&self, path: &Path) -> io::Result<OsString> {
        let (parent, name) = self.parent(path)?;
        let target = rustix::fs::readlinkat(&parent, name, Vec::new())?;
        Ok(OsString::from_vec(target.into_bytes()))
    }

    /// The names in a directory, sorted.
    ///
    /// # Errors
    /// A system error.
    pub fn list(&self, path: &Path) -> io::Result<Vec<OsString>> {
        let directory = self.directory(path)?;
        let mut names = Vec::new();
        for entry in rustix::fs::Dir::read_from(&directory)? {
            let entry = entry?;
            let name = entry.file_name().to_bytes();
            if name != b"." && name != b".." {
                names.push(OsString::from_vec(name.to_vec()));
            }
        }
        names.sort();
        Ok(names)
    }

    /// The names in a directory, sorted, and what each is; those that go meanwhile are left out.
    ///
    /// # Errors
    /// A system error, or there are more than `most`.
    pub fn entries(&self, path: &Path, most: usize) -> io::Result<Vec<(OsString, Status)>> {
        let names = self.list(path)?;
        if names.len() > most {
            return Err(io::Error::other(format!("the directory has more than {most} names")));
        }
        let directory = self.directory(path)?;
        let mut found = Vec::with_capacity(names.len());
        for name in names {
            match rustix::fs::statat(&directory, name.as_os_str(), AtFlags::SYMLINK_NOFOLLOW) {
                Ok(stat) => found.push((name, Status::of(&stat))),
                Err(Errno::NOENT) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(found)
    }

    /// Remove an empty directory.
    ///
    /// # Errors
    /// A system error: `DirectoryNotEmpty` if something is in it.
    pub fn remove_directory(&self, path: &Path) -> io::Result<()> {
        self.faults.changes()?;
        let (parent, name) = self.parent(path)?;
        Ok(rustix::fs::unlinkat(&parent, name, AtFlags::REMOVEDIR)?)
    }

    /// Set the permissions and the time of change of a directory.
    ///
    /// # Errors
    /// A system error.
    pub fn settle_directory(&self, path: &Path, mode: u32, modified: (i64, u32)) -> io::Result<()> {
        self.settle(&*self.directory(path)?, mode, modified)
    }

    /// Set the permissions and the time of change of a file or directory of this tree. Set-user-ID, set-group-ID and the
    /// sticky bit are left out.
    ///
    /// # Errors
    /// A system error.
    pub fn settle(&self, file: &File, mode: u32, modified: (i64, u32)) -> io::Result<()> {
        self.faults.changes()?;
        rustix::fs::fchmod(file, Mode::from_raw_mode(mode & 0o777))?;
        let time = Timespec { tv_sec: modified.0, tv_nsec: i64::from(modified.1) };
        rustix::fs::futimens(file, &Timestamps { last_access: time, last_modification: time })?;
        Ok(())
    }

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
mod tests;
