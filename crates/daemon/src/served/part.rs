//! Parts of uploads by PUT as they wait in a directory of uploads: their names, what is noted of them, and when they go.
//!
//! The note is an attribute: boot of the host, bytes, Adler-32, CRC-32C. Its rules are those of [`continued`](super::continued).

use crate::remote::digests::{Algorithm, Digester};
use crate::remote::unfinished::{MIN_CONTINUED_BYTES, Received};
use skyhaul::io::disk::tree::Status;
use skyhaul::io::disk::{Tree, attribute, remove_attribute, set_attribute};
use skyhaul::io::file::failed;
use std::fs::File;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// How long an upload waits to be continued.
pub(super) const KEEP_UNFINISHED: Duration = Duration::from_secs(86_400);
/// Bytes after which what has arrived is noted.
pub(super) const NOTE_BYTES: u64 = MIN_CONTINUED_BYTES;
/// How their names begin. Those of other uploads are hexadecimal.
pub(super) const PREFIX: char = 'k';
/// The attribute with the boot, and what had arrived.
const NOTE: &str = "user.skyhaul.received";
const BOOT_ID: &str = "/proc/sys/kernel/random/boot_id";

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

/// What has arrived, by the note of a file; nothing if that does not count.
pub(super) fn counted(file: &File) -> io::Result<Received> {
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

/// Which boot of this host it is.
pub(super) fn boot() -> io::Result<String> {
    let text =
        std::fs::read_to_string(BOOT_ID).map_err(|error| failed("read", Path::new(BOOT_ID), &error))?;
    Ok(text.trim().to_owned())
}

/// When a file was changed.
fn modified(status: &Status) -> SystemTime {
    let (seconds, nanos) = status.modified;
    UNIX_EPOCH + Duration::new(u64::try_from(seconds).unwrap_or(0), nanos)
}
