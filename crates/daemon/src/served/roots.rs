//! Directories that are served, and uploads into them.
//!
//! ```text
//!   PUT ─▶ ROOT/.skyhaul-uploads/3f…  bytes, digests ─▶ sync ─▶ rename to its path ─▶ sync of the directory
//! ```
//!
//! An upload has no path that a client can name until it is whole. What a killed server left behind is removed when the next one starts,
//! except for uploads that their client may [continue](super::continued);
//! the directory of uploads is locked, so two servers cannot have one root. Uploads that a later connection continues have a directory of
//! their own, [`RESUMABLE`], whose files stay.
//!
//! Limits: a root is one file system. No symbolic link is followed or shown.

use super::part::{NOTE_BYTES, is_continued, note, remove_note, remove_old};
use crate::remote::digests::{Algorithm, DigestSet, Digester};
use skyhaul::auth::{hex, random};
use skyhaul::io::disk::tree::{Kind, Status};
use skyhaul::io::disk::{DiskTurn, Tree, attribute, capacity_bytes, free_bytes, set_attribute};
use skyhaul::io::file::failed;
use skyhaul::recording::STAGE;
use std::fs::{File, Permissions};
use std::io::{self, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// The directory of uploads in a root; it is not served.
pub(super) const UPLOADS: &str = ".skyhaul-uploads";
/// The directory of uploads that are continued later; it is not served either.
pub(super) const RESUMABLE: &str = ".skyhaul-resumable";
/// The attribute that keeps the digests of a file.
const DIGESTS: &str = "user.skyhaul.digests";

/// Which rules hold where engines of the field and RFC 4918 differ.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum WebDavRules {
    /// As storage of the grid does: an upload makes the directories above it, a directory is removed or replaced only when it is empty,
    /// and what replaces something is answered with 200 or 201.
    #[default]
    Grid,
    /// As RFC 4918 says: no directory is made above what is made, directories are removed and copied with all that is in them, and what
    /// replaces something is answered with 204.
    Rfc4918,
}

/// A directory that is served.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServedDirectory {
    /// The first name of its paths.
    pub name: String,
    /// The directory.
    pub directory: PathBuf,
    /// Whether clients may change what is in it.
    pub is_writable: bool,
    /// Which rules hold there.
    pub rules: WebDavRules,
}

/// An open root.
#[derive(Debug)]
pub(crate) struct Root {
    pub(crate) name: String,
    pub(crate) tree: Tree,
    pub(crate) is_writable: bool,
    pub(crate) rules: WebDavRules,
    _lock: Option<Arc<File>>,
}

impl Root {
    pub(crate) fn open(of: &ServedDirectory) -> io::Result<Self> {
        Self::opened(of, Path::new(UPLOADS), &|tree, uploads| {
            let names = tree.list(uploads)?.into_iter();
            let mut others = names.filter(|name| !is_continued(Path::new(name)));
            others.try_for_each(|name| tree.remove(&uploads.join(name)))?;
            remove_old(tree, uploads, usize::MAX)
        })
    }

    /// Opens a directory whose uploads are kept in `uploads`; `clear` removes those that are no longer needed.
    pub(super) fn opened(
        of: &ServedDirectory,
        uploads: &Path,
        clear: &dyn Fn(&Tree, &Path) -> io::Result<()>,
    ) -> io::Result<Self> {
        let named = |error: io::Error| failed("serve directory", &of.directory, &error);
        let tree = Tree::open(&of.directory).map_err(named)?.shared();
        let lock = match of.is_writable {
            false => None,
            true => {
                tree.make_dirs(uploads).map_err(named)?;
                let lock = tree.hold(uploads).map_err(named)?;
                clear(&tree, uploads).map_err(named)?;
                Some(lock)
            }
        };
        Ok(Self { name: of.name.clone(), tree, is_writable: of.is_writable, rules: of.rules, _lock: lock })
    }

    /// Whether a path is of the directories of uploads, or of that in which scans arrive, if the root is a disk of recordings.
    pub(crate) fn is_hidden(path: &Path) -> bool {
        path.iter().next().is_some_and(|first| first == UPLOADS || first == RESUMABLE || first == STAGE)
    }

    /// What is at a path, links and special files included.
    pub(crate) fn status(&self, path: &Path) -> io::Result<Option<Status>> {
        match self.tree.status(path) {
            // A file stands where a directory should be.
            Err(error) if error.kind() == io::ErrorKind::NotADirectory => Ok(None),
            other => other,
        }
    }

    /// Files and directories in a directory, by name.
    pub(crate) fn entries(&self, path: &Path, most: usize) -> io::Result<Vec<(String, Status)>> {
        let all = self.tree.entries(path, most)?.into_iter().filter_map(|(name, status)| {
            let is_shown = matches!(status.kind, Kind::File | Kind::Directory);
            let is_hidden = path.as_os_str().is_empty() && Self::is_hidden(Path::new(&name));
            Some((name.into_string().ok()?, status)).filter(|_| is_shown && !is_hidden)
        });
        Ok(all.collect())
    }

    /// Available and used bytes of its file system.
    pub(crate) fn space(&self) -> io::Result<(u64, u64)> {
        let (free, all) = (free_bytes(self.tree.path())?, capacity_bytes(self.tree.path())?);
        Ok((free, all.saturating_sub(free)))
    }

    /// Begins an upload, of `size` bytes if that is known. These digests of it are computed.
    pub(crate) fn upload(
        self: &Arc<Self>,
        size: Option<u64>,
        algorithms: impl IntoIterator<Item = Algorithm>,
    ) -> io::Result<Upload> {
        if let Some(size) = size
            && self.space()?.0 < size
        {
            return Err(io::ErrorKind::StorageFull.into());
        }
        let name = Path::new(UPLOADS).join(hex(&random::<16>()?));
        let (file, _) = self.tree.write(&name, false)?;
        self.arriving(name, file, Some(Digester::new(algorithms)), Unfinished::Removed)
    }

    /// An upload into a file that is open under this name.
    pub(super) fn arriving(
        self: &Arc<Self>,
        name: PathBuf,
        file: File,
        digester: Option<Digester>,
        unfinished: Unfinished,
    ) -> io::Result<Upload> {
        // As other files that are made here; its directory decides who reads it.
        file.set_permissions(Permissions::from_mode(0o644))?;
        let root = Arc::clone(self);
        Ok(Upload { root, name, file, digester, bytes: 0, noted: 0, unfinished, is_named: false })
    }

    /// Makes the name of `path` durable.
    pub(crate) fn sync_directory_of(&self, path: &Path) -> io::Result<()> {
        self.tree.directory(path.parent().unwrap_or(Path::new("")))?.sync_all()
    }
}

/// What becomes of a file that did not get its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Unfinished {
    Removed,
    /// A later upload continues it.
    Stays,
}

/// A file that arrives. It is removed when this is dropped, unless it has its name by then or a later upload may continue it.
#[derive(Debug)]
pub(crate) struct Upload {
    pub(crate) root: Arc<Root>,
    name: PathBuf,
    pub(crate) file: File,
    digester: Option<Digester>,
    pub(crate) bytes: u64,
    /// Bytes that its note counts as arrived.
    pub(super) noted: u64,
    unfinished: Unfinished,
    is_named: bool,
}

impl Upload {
    /// Bytes that follow those before.
    pub(crate) fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        let written = self.append(bytes);
        if written.is_err() {
            self.leave_nothing();
        }
        if self.bytes - self.noted >= NOTE_BYTES {
            self.note();
        }
        written
    }

    fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
        let mut turn = DiskTurn::ask(&self.file, bytes.len() as u64)?;
        turn.wait();
        self.file.write_all(bytes)?;
        if turn.is_shared() {
            // What stays in the page cache would be written when the kernel likes, beside a recording.
            self.file.sync_data()?;
        }
        drop(turn);
        if let Some(digester) = &mut self.digester {
            digester.update(bytes);
        }
        self.bytes += bytes.len() as u64;
        Ok(())
    }

    /// Notes what has arrived, if a later upload may continue it; without the note none can.
    fn note(&mut self) {
        if self.unfinished == Unfinished::Stays
            && let Some(digester) = &self.digester
        {
            self.noted = self.bytes;
            if !note(&self.file, self.bytes, digester) {
                self.leave_nothing();
            }
        }
    }

    /// Nothing stays of it if it does not get its name.
    pub(crate) fn leave_nothing(&mut self) {
        // Uploads without digests are continued by other rules.
        if self.digester.is_some() {
            self.unfinished = Unfinished::Removed;
        }
    }

    /// The digests of all that was written; once.
    pub(crate) fn digests(&mut self) -> DigestSet {
        self.digester.take().map(Digester::finish).unwrap_or_default()
    }

    /// Makes the file durable and gives it its name, if `stop` is not set by then; returns its status there.
    pub(crate) fn publish(
        mut self,
        to: &Path,
        replace: bool,
        digests: &DigestSet,
        stop: &AtomicBool,
    ) -> io::Result<Status> {
        if self.noted > 0 {
            remove_note(&self.file);
        }
        let status = self.file.metadata()?;
        keep_digests(&self.file, digests, status.len(), status.modified()?);
        self.file.sync_all()?;
        // Who asked for it may be gone, and expects no file: syncing takes its time.
        if stop.load(Ordering::Relaxed) {
            return Err(io::ErrorKind::Interrupted.into());
        }
        self.root.tree.rename(&self.name, to, replace)?;
        self.is_named = true;
        self.root.sync_directory_of(to)?;
        let status = self.root.tree.status(to)?;
        status.ok_or_else(|| io::ErrorKind::NotFound.into())
    }
}

impl Drop for Upload {
    fn drop(&mut self) {
        if self.is_named {
            return;
        }
        if self.bytes == 0 {
            self.leave_nothing();
        }
        self.note();
        if self.unfinished == Unfinished::Removed {
            // What stays is removed at the next start.
            let _ = self.root.tree.remove(&self.name);
        }
    }
}

/// Keeps digests beside a file that has this size and time of change. Without a place for them they are computed when they are asked
/// for.
pub(crate) fn keep_digests(file: &File, digests: &DigestSet, size: u64, modified: SystemTime) {
    let _ = set_attribute(file, DIGESTS, digests.kept(size, modified).as_bytes());
}

/// The digests that are kept of a file as it is now.
pub(crate) fn kept_digests(file: &File) -> DigestSet {
    let Ok(Some(text)) = attribute(file, DIGESTS) else { return DigestSet::default() };
    let status = file.metadata().and_then(|status| Ok((status.len(), status.modified()?)));
    status.map_or_else(|_| DigestSet::default(), |(size, modified)| DigestSet::of_kept(&text, size, modified))
}

/// Whether a file is as it was: nobody has written it since.
pub(crate) fn is_as_it_was(file: &File, was: &Status) -> bool {
    Status::of_file(file).is_ok_and(|now| (now.size, now.modified) == (was.size, was.modified))
}

/// When a file was changed.
pub(crate) fn modified(status: &Status) -> SystemTime {
    let (seconds, nanos) = status.modified;
    UNIX_EPOCH + Duration::new(u64::try_from(seconds).unwrap_or(0), nanos)
}

/// The entity tag of a file: another file, size or time has another one.
pub(crate) fn etag(status: &Status) -> String {
    let (seconds, nanos) = status.modified;
    format!("\"{:x}-{:x}-{seconds:x}.{nanos:x}\"", status.inode, status.size)
}

impl std::fmt::Debug for Digester {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Digester")
    }
}
