//! Uploads that broke off, and that the same client, or another process of it, continues: [`remote::unfinished`](crate::remote::unfinished).
//!
//! ```text
//!   PUT with a key ─▶ UPLOADS/k3f…  (of path and key)  bytes ─▶ rename to its path        broke: it stays, with a note of what has arrived
//! ```
//!
//! *What of it counts.* The note has the bytes and their digests so far, and the boot of the host. In that boot, what a killed process has written is in the file;
//! after another one nothing of it counts. The note is made each [`NOTE_BYTES`](super::part::NOTE_BYTES) and when the connection breaks, and the digests go on from it, so nothing is read again.
//! Bytes behind the note are cut off.
//!
//! Limits: [`MAX_UNFINISHED`] in a root, the newest ones, for [`KEEP_UNFINISHED`](super::part::KEEP_UNFINISHED).

use super::part::{PREFIX, counted, remove_old};
use super::roots::{Root, UPLOADS, Unfinished, Upload};
use crate::remote::digests::Digester;
use crate::remote::unfinished::{Received, UploadKey};
use ring::digest::{SHA256, digest};
use skyhaul::auth::hex;
use std::io::{self, Seek, SeekFrom};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// How many wait in a root.
const MAX_UNFINISHED: usize = 64;

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

/// Where an upload is until it is whole.
fn place(path: &Path, key: &UploadKey) -> PathBuf {
    let of = [path.as_os_str().as_bytes(), b"\0", key.text().as_bytes()].concat();
    let name = digest(&SHA256, &of);
    Path::new(UPLOADS).join(format!("{PREFIX}{}", hex(&name.as_ref()[..16])))
}
