//! Uploads that a later connection continues, or another process after a restart.
//!
//! ```text
//!   write-file ─▶ ROOT/.skyhaul-resumable/3f…  (of the path)  bytes ─▶ sync ─▶ rename to its path      broke: it stays, and is continued
//! ```
//!
//! *What of it counts.* A killed process loses nothing that it wrote; a power failure may. So an attribute of the file says which bytes were synced, and in
//! which boot of the host that was written. In the same boot all of the file counts, after another one what was synced. After a sync that failed, only what
//! an earlier one made durable counts: the kernel reports once that it has lost pages, and the next sync succeeds without them. Where a file system
//! has no attributes, nothing counts, and an upload begins again.
//!
//! Limits: what nobody continues for [`KEEP_UNFINISHED`] is removed when a server starts.

use super::part::boot;
use super::roots::{RESUMABLE, Root, ServedDirectory, Unfinished, Upload};
use crate::remote::digests::DigestSet;
use ring::digest::{SHA256, digest};
use skyhaul::auth::hex;
use skyhaul::io::disk::tree::{Kind, Status};
use skyhaul::io::disk::{attribute, read_at_in_turn, remove_attribute, set_attribute};
use std::fs::File;
use std::io::{self, Seek, SeekFrom};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, SystemTime};

/// How long an upload waits to be continued.
pub(crate) const KEEP_UNFINISHED: Duration = Duration::from_secs(14 * 86_400);
/// Bytes after which what has arrived is synced: what a power failure costs, and what the last sync has left to do.
const SYNC_BYTES: u64 = 128 << 20;
/// Bytes of an existing file that are copied at a time.
const COPY_BYTES: usize = 1 << 20;
/// The attribute with the boot and the number of synced bytes.
const SYNCED: &str = "user.skyhaul.synced";
/// In place of a boot, where a sync has failed.
const FAILED: &str = "failed";

impl Root {
    /// Opens a directory whose uploads may be continued.
    pub(crate) fn open_resumable(of: &ServedDirectory) -> io::Result<Self> {
        Self::opened(of, Path::new(RESUMABLE), &|tree, uploads| {
            let now = SystemTime::now();
            for (name, status) in tree.entries(uploads, usize::MAX)? {
                let age = now.duration_since(super::roots::modified(&status));
                if age.is_ok_and(|age| age > KEEP_UNFINISHED) {
                    tree.remove(&uploads.join(name))?;
                }
            }
            Ok(())
        })
    }

    /// Bytes of an unfinished upload to this path that count, unless the file there is newer.
    pub(crate) fn unfinished(&self, path: &Path, existing: Option<&Status>) -> io::Result<Option<u64>> {
        let name = place(path);
        let Some(status) = self.tree.status(&name)?.filter(|status| status.kind == Kind::File) else {
            return Ok(None);
        };
        if existing.is_some_and(|existing| existing.modified > status.modified) {
            return Ok(None);
        }
        let (file, _) = self.tree.read(&name, false)?;
        Ok(Some(counted(&file)?))
    }

    /// Begins or continues an upload to this path, behind the first `from` bytes of what is there of it. `more` bytes are to come.
    pub(crate) fn resume(self: &Arc<Self>, path: &Path, from: u64, more: u64) -> io::Result<ResumableUpload> {
        let name = place(path);
        let (mut file, _) = self.tree.write(&name, false)?;
        if file.metadata()?.len() < from {
            return Err(io::Error::new(io::ErrorKind::UnexpectedEof, "the unfinished upload became shorter"));
        }
        file.set_len(from)?;
        if from > 0 {
            let synced = noted(&file).map_or(0, |(_, synced)| synced).min(from);
            durable(&file, synced, file.sync_data())?;
        }
        if self.space()?.0 < more {
            if from == 0 {
                self.tree.remove(&name)?;
            }
            return Err(io::Error::new(io::ErrorKind::StorageFull, "No space left on device"));
        }
        file.seek(SeekFrom::Start(from))?;
        let upload = self.arriving(name, file, None, Unfinished::Stays)?;
        let mut upload = ResumableUpload { upload, at: from, unsynced: 0 };
        upload.note(from);
        Ok(upload)
    }
}

/// An upload that stays when it is not finished.
#[derive(Debug)]
pub(crate) struct ResumableUpload {
    upload: Upload,
    /// Its length.
    at: u64,
    /// Bytes that have been written since the last sync.
    unsynced: u64,
}

impl ResumableUpload {
    /// Bytes that follow those before.
    pub(crate) fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.upload.write(bytes)?;
        self.at += bytes.len() as u64;
        self.unsynced += bytes.len() as u64;
        if self.unsynced >= SYNC_BYTES {
            let file = &self.upload.file;
            durable(file, self.at - self.unsynced, file.sync_data())?;
            self.unsynced = 0;
            self.note(self.at);
        }
        Ok(())
    }

    /// Writes the next bytes of a file up to `to`; returns whether that is all.
    pub(crate) fn copy_from(&mut self, file: &File, to: u64) -> io::Result<bool> {
        let left = usize::try_from(to.saturating_sub(self.at)).unwrap_or(COPY_BYTES);
        let mut bytes = vec![0; left.min(COPY_BYTES)];
        let read = read_at_in_turn(file, &mut bytes, self.at)?;
        if read == 0 && left > 0 {
            return Err(io::Error::new(io::ErrorKind::UnexpectedEof, "the file became shorter"));
        }
        self.write(&bytes[..read])?;
        Ok(self.at >= to)
    }

    /// Makes it durable and gives it its name, if `stop` is not set by then.
    pub(crate) fn publish(self, to: &Path, replace: bool, stop: &AtomicBool) -> io::Result<()> {
        // What it says is of no use any more; where it stays, it harms nobody.
        let _ = remove_attribute(&self.upload.file, SYNCED);
        let root = Arc::clone(&self.upload.root);
        root.tree.make_dirs(to.parent().unwrap_or(Path::new("")))?;
        self.upload.publish(to, replace, &DigestSet::default(), stop).map(drop)
    }

    /// Notes that so many bytes are durable. Where that cannot be noted, they do not count later.
    fn note(&mut self, synced: u64) {
        let _ = boot()
            .and_then(|boot| set_attribute(&self.upload.file, SYNCED, format!("{boot} {synced}").as_bytes()));
    }
}

/// Bytes of an unfinished upload that count.
fn counted(file: &File) -> io::Result<u64> {
    let length = file.metadata()?.len();
    let Some((of, synced)) = noted(file) else { return Ok(0) };
    Ok(if boot()? == of { length } else { synced.min(length) })
}

/// What its attribute says: a boot, and the bytes that were synced.
fn noted(file: &File) -> Option<(String, u64)> {
    let noted = attribute(file, SYNCED).ok()??;
    let (of, synced) = std::str::from_utf8(&noted).ok()?.split_once(' ')?;
    Some((of.to_owned(), synced.parse().ok()?))
}

/// Passes on the `result` of a sync. If it failed, only the `synced` bytes that an earlier one made durable count from now on.
fn durable(file: &File, synced: u64, result: io::Result<()>) -> io::Result<()> {
    if result.is_err() && set_attribute(file, SYNCED, format!("{FAILED} {synced}").as_bytes()).is_err() {
        let _ = remove_attribute(file, SYNCED);
        let _ = file.set_len(synced);
    }
    result
}

/// Where an upload to a path is until it is whole.
fn place(path: &Path) -> PathBuf {
    let name = digest(&SHA256, path.as_os_str().as_bytes());
    Path::new(RESUMABLE).join(hex(&name.as_ref()[..16]))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::UNIX_EPOCH;

    fn root(at: &Path) -> Arc<Root> {
        let of = ServedDirectory {
            name: "r".into(),
            directory: at.to_owned(),
            is_writable: true,
            rules: super::super::roots::WebDavRules::Grid,
        };
        Arc::new(Root::open_resumable(&of).unwrap())
    }

    #[test]
    fn an_upload_is_continued_and_visible_only_when_it_is_whole() {
        let here = tempfile::tempdir().unwrap();
        let root = root(here.path());
        let to = Path::new("exp/f");
        let mut upload = root.resume(to, 0, 6).unwrap();
        upload.write(b"abc").unwrap();
        drop(upload);
        assert!(!here.path().join("exp").exists());
        assert_eq!(root.unfinished(to, None).unwrap(), Some(3));
        let mut upload = root.resume(to, 2, 4).unwrap();
        upload.write(b"cdef").unwrap();
        upload.publish(to, false, &AtomicBool::new(false)).unwrap();
        assert_eq!(std::fs::read(here.path().join(to)).unwrap(), b"abcdef");
        assert_eq!(root.unfinished(to, None).unwrap(), None);
        // One that existed before it began is not replaced.
        let upload = root.resume(to, 0, 1).unwrap();
        let error = upload.publish(to, false, &AtomicBool::new(false)).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::AlreadyExists);
    }

    #[test]
    fn after_another_boot_only_what_was_synced_counts() {
        let here = tempfile::tempdir().unwrap();
        let root = root(here.path());
        let to = Path::new("f");
        let mut upload = root.resume(to, 0, 9).unwrap();
        upload.write(b"abcdefghi").unwrap();
        drop(upload);
        let file = File::options().write(true).open(here.path().join(place(to))).unwrap();
        set_attribute(&file, SYNCED, b"another-boot 4").unwrap();
        assert_eq!(root.unfinished(to, None).unwrap(), Some(4));
        set_attribute(&file, SYNCED, b"another-boot 400").unwrap();
        assert_eq!(root.unfinished(to, None).unwrap(), Some(9));
        set_attribute(&file, SYNCED, b"?").unwrap();
        assert_eq!(root.unfinished(to, None).unwrap(), Some(0));
    }

    #[test]
    fn after_a_failed_sync_only_what_an_earlier_one_made_durable_counts() {
        let here = tempfile::tempdir().unwrap();
        let root = root(here.path());
        let to = Path::new("f");
        let mut upload = root.resume(to, 0, 9).unwrap();
        upload.write(b"abcdefghi").unwrap();
        durable(&upload.upload.file, 4, Ok(())).unwrap();
        assert_eq!(root.unfinished(to, None).unwrap(), Some(9));
        let broken = || Err(io::Error::other("Input/output error"));
        durable(&upload.upload.file, 4, broken()).unwrap_err();
        drop(upload);
        assert_eq!(root.unfinished(to, None).unwrap(), Some(4));
        // Continued from there, what comes is trusted again, until its own sync fails.
        let mut upload = root.resume(to, 4, 5).unwrap();
        upload.write(b"EFGHI").unwrap();
        assert_eq!(root.unfinished(to, None).unwrap(), Some(9));
        durable(&upload.upload.file, 4, broken()).unwrap_err();
        drop(upload);
        assert_eq!(root.unfinished(to, None).unwrap(), Some(4));
    }

    #[test]
    fn an_old_upload_is_removed_and_a_newer_file_counts_more() {
        let here = tempfile::tempdir().unwrap();
        let (old, new) = (Path::new("old"), Path::new("new"));
        {
            let root = root(here.path());
            for path in [old, new] {
                root.resume(path, 0, 1).unwrap().write(b"x").unwrap();
            }
            let file = File::options().write(true).open(here.path().join(place(old))).unwrap();
            file.set_modified(SystemTime::now() - KEEP_UNFINISHED - Duration::from_secs(60)).unwrap();
        }
        let root = root(here.path());
        assert_eq!(root.unfinished(old, None).unwrap(), None);
        assert_eq!(root.unfinished(new, None).unwrap(), Some(1));
        std::fs::write(here.path().join("new"), b"newer").unwrap();
        let existing = root.tree.status(new).unwrap();
        let file = File::options().write(true).open(here.path().join("new")).unwrap();
        file.set_modified(UNIX_EPOCH + Duration::from_secs(1)).unwrap();
        let older = root.tree.status(new).unwrap();
        assert_eq!(root.unfinished(new, older.as_ref()).unwrap(), Some(1));
        assert!(existing.unwrap().modified > older.unwrap().modified);
        file.set_modified(SystemTime::now() + Duration::from_secs(60)).unwrap();
        let newer = root.tree.status(new).unwrap();
        assert_eq!(root.unfinished(new, newer.as_ref()).unwrap(), None);
    }
}
