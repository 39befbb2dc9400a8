//! Uploads that broke off, and that the same client, or another process of it, continues: [`remote::unfinished`](crate::remote::unfinished).
//!
//! ```text
//!   PUT with a key ─▶ UPLOADS/k3f…  (of path and key)  bytes ─▶ rename to its path        broke: it stays, with a note of what has arrived
//! ```
//!
//! *What of it counts.* The note has the bytes and their digests so far, and the boot of the host. In that boot, what a killed process has written is in the file;
//! after another one nothing of it counts. The note is made each [`NOTE_BYTES`] and when the connection breaks, and the digests go on from it, so nothing is read again.
//! Bytes behind the note are cut off.
//!
//! Limits: [`MAX_UNFINISHED`] in a root, the newest ones, for [`KEEP_UNFINISHED`].

use super::resumable::boot;
use super::roots::{Root, UPLOADS, Unfinished, Upload, modified};
use crate::remote::digests::{Algorithm, Digester};
use crate::remote::unfinished::{MIN_CONTINUED_BYTES, Received, UploadKey};
use ring::digest::{SHA256, digest};
use skyhaul::auth::hex;
use skyhaul::io::disk::tree::Status;
use skyhaul::io::disk::{Tree, attribute, remove_attribute, set_attribute};
use std::fs::File;
use std::io::{self, Seek, SeekFrom};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

/// How long an upload waits to be continued.
const KEEP_UNFINISHED: Duration = Duration::from_secs(86_400);
/// How many wait in a root.
const MAX_UNFINISHED: usize = 64;
/// Bytes after which what has arrived is noted.
pub(super) const NOTE_BYTES: u64 = MIN_CONTINUED_BYTES;
/// How their names begin. Those of other uploads are hexadecimal.
const PREFIX: char = 'k';
/// The attribute with the boot, and what had arrived.
const NOTE: &str = "user.skyhaul.received";

impl Root {
    /// What has arrived of an upload that broke off. Nothing, if it arrives now.
    pub(crate) fn received(&self, path: &Path, key: &UploadKey) -> io::Result<Received> {
        let name = place(path, key);
        if self.tree.status(&name)?.is_none() {
            return Ok(Received::default());
        }
        match self.tree.write(&name, false) {
            Ok((file, _)) => counted(&file),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(Received::default()),
            Err(error) => Err(error),
        }
    }

    /// Begins an upload of `size` bytes that may be continued, or continues it behind its first `from` bytes. `None`: it arrives now, or has not these bytes.
    pub(crate) fn continued(
        self: &Arc<Self>,
        (path, key): (&Path, &UploadKey),
        (from, size): (u64, Option<u64>),
    ) -> io::Result<Option<Upload>> {
        remove_old(&self.tree, Path::new(UPLOADS), MAX_UNFINISHED - 1)?;
        let name = place(path, key);
        if from > 0 && self.tree.status(&name)?.is_none() {
            return Ok(None);
        }
        let (mut file, _) = match self.tree.write(&name, false) {
            Ok(opened) => opened,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(None),
            Err(error) => return Err(error),
        };
        let received = if from == 0 { Received::default() } else { counted(&file)? };
        if received.bytes != from {
            return Ok(None);
        }
        file.set_len(from)?;
        file.seek(SeekFrom::Start(from))?;
        let left = size.unwrap_or(0).saturating_sub(from);
        if self.space()?.0 < left {
            if from == 0 {
                self.tree.remove(&name)?;
            }
            return Err(io::ErrorKind::StorageFull.into());
        }
        let digester = Digester::continuing(&received.digests);
        let mut upload = self.arriving(name, file, Some(digester), Unfinished::Stays)?;
        (upload.bytes, upload.noted) = (from, from);
        Ok(Some(upload))
    }
}

/// Notes what has arrived; `false` if that cannot be noted, so that it does not count later.
pub(super) fn note(file: &File, bytes: u64, digester: &Digester) -> bool {
    let digests = digester.so_far();
    let text = boot().map(|boot| format!("{boot} {}", Received { bytes, digests }.text()));
    text.and_then(|text| set_attribute(file, NOTE, text.as_bytes())).is_ok()
}

/// The note is of no use any more; where it stays, it harms nobody.
pub(super) fn remove_note(file: &File) {
    let _ = remove_attribute(file, NOTE);
}

fn counted(file: &File) -> io::Result<Received> {
    let Ok(Some(noted)) = attribute(file, NOTE) else { return Ok(Received::default()) };
    let noted = std::str::from_utf8(&noted).ok().and_then(|text| text.split_once(' '));
    let Some((of, received)) = noted.and_then(|(of, text)| Some((of, Received::parse(text)?))) else {
        return Ok(Received::default());
    };
    let is_there = of == boot()? && file.metadata()?.len() >= received.bytes;
    let is_summed = Algorithm::ALWAYS.iter().all(|algorithm| received.digests.get(*algorithm).is_some());
    Ok(if is_there && is_summed { received } else { Received::default() })
}

/// Removes uploads that were not continued in time, and all but the newest ones; not those that arrive now.
pub(super) fn remove_old(tree: &Tree, uploads: &Path, most: usize) -> io::Result<()> {
    let all = tree.entries(uploads, usize::MAX)?;
    let mut waiting: Vec<(_, Status)> =
        all.into_iter().filter(|(name, _)| is_continued(Path::new(name))).collect();
    waiting.sort_by_key(|(_, status)| std::cmp::Reverse(status.modified));
    let now = SystemTime::now();
    for (at, (name, status)) in waiting.iter().enumerate() {
        let is_old = now.duration_since(modified(status)).is_ok_and(|age| age > KEEP_UNFINISHED);
        if at < most && !is_old {
            continue;
        }
        let name = uploads.join(name);
        // One that is open is not removed: it has the lock.
        if tree.write(&name, false).is_ok() {
            tree.remove(&name)?;
        }
    }
    Ok(())
}

/// Whether a file of the directory of uploads may be continued.
pub(super) fn is_continued(name: &Path) -> bool {
    name.as_os_str().as_bytes().first() == Some(&(PREFIX as u8))
}

/// Where an upload is until it is whole.
fn place(path: &Path, key: &UploadKey) -> PathBuf {
    let of = [path.as_os_str().as_bytes(), b"\0", key.text().as_bytes()].concat();
    let name = digest(&SHA256, &of);
    Path::new(UPLOADS).join(format!("{PREFIX}{}", hex(&name.as_ref()[..16])))
}
