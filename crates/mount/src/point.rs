//! The mount point: what is mounted there, a mount whose process is gone, and unmounting.

use rustix::io::Errno;
use rustix::mount::{UnmountFlags, unmount};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The source of our mounts in the mount table.
pub(crate) const SOURCE: &str = "skyhaul";

/// What is at a mount point.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mounted {
    /// Nothing.
    Nothing,
    /// Recordings, by a process that runs.
    Served,
    /// Recordings, by a process that is gone.
    Abandoned,
    /// Another file system.
    Other,
}

/// What is mounted at `point`.
pub(crate) fn mounted(point: &Path) -> Mounted {
    let table = std::fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
    // The kernel remembers what a directory is for a while, but not this.
    let is_gone = matches!(rustix::fs::statvfs(point), Err(Errno::NOTCONN | Errno::CONNABORTED));
    match (is_ours(&table, &real(point)), is_gone) {
        (Some(true), true) => Mounted::Abandoned,
        (Some(true), false) => Mounted::Served,
        (None, false) => Mounted::Nothing,
        _ => Mounted::Other,
    }
}

/// The path without links: of a mount point that does not answer, that of its directory and its name.
fn real(point: &Path) -> PathBuf {
    let whole = std::fs::canonicalize(point);
    whole.unwrap_or_else(|_| match (point.parent(), point.file_name()) {
        (Some(parent), Some(name)) => {
            let parent = if parent.as_os_str().is_empty() { Path::new(".") } else { parent };
            std::fs::canonicalize(parent).unwrap_or_else(|_| parent.to_owned()).join(name)
        }
        _ => point.to_owned(),
    })
}

/// Whether the last file system mounted at `point` is one of ours, from the text of `mountinfo`. `None`: nothing is. Mounts of
/// the helper have a type of their own, those of root have not.
fn is_ours(table: &str, point: &Path) -> Option<bool> {
    let mut lines = table.lines().filter_map(|line| {
        let (mount, about) = line.split_once(" - ")?;
        let at = mount.split(' ').nth(4)?;
        let mut about = about.split(' ');
        let (kind, source) = (about.next()?, about.next()?);
        let is_ours = source == SOURCE && (kind == "fuse" || kind == "fuse.skyhaul");
        (unescaped(at) == point.as_os_str().to_string_lossy()).then_some(is_ours)
    });
    lines.next_back()
}

/// Spaces and line ends are written as `\040` and the like.
fn unescaped(text: &str) -> String {
    let (mut bytes, mut rest) = (Vec::new(), text.as_bytes());
    while let [first, after @ ..] = rest {
        let code = after.get(..3).and_then(|digits| std::str::from_utf8(digits).ok());
        let byte = code.and_then(|digits| u8::from_str_radix(digits, 8).ok()).filter(|_| *first == b'\\');
        bytes.push(byte.unwrap_or(*first));
        rest = if byte.is_some() { &after[3..] } else { after };
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

/// Let the kernel read ahead this much of files at `point`; only root may, and without it is only slower.
pub(crate) fn set_read_ahead(point: &Path, bytes: u32) {
    if let Ok(about) = std::fs::metadata(point) {
        let device = about.dev();
        let (major, minor) = (rustix::fs::major(device), rustix::fs::minor(device));
        let _ = std::fs::write(
            format!("/sys/class/bdi/{major}:{minor}/read_ahead_kb"),
            (bytes / 1024).to_string(),
        );
    }
}

/// How a mount ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unmounted {
    /// It is gone.
    Whole,
    /// Nobody can open a file there any more, but open ones are still read.
    Lazily,
}

/// Unmount `point`, also while files in it are open.
///
/// # Errors
/// Neither the kernel nor `fusermount3` unmounts it.
pub(crate) fn detach(point: &Path) -> io::Result<Unmounted> {
    match unmount(point, UnmountFlags::empty()) {
        Ok(()) => return Ok(Unmounted::Whole),
        // Gone already, or a mount of a process that is.
        Err(Errno::INVAL | Errno::NOENT) => return Ok(Unmounted::Whole),
        Err(Errno::BUSY) => {
            unmount(point, UnmountFlags::DETACH)?;
            return Ok(Unmounted::Lazily);
        }
        // Only root may: the helper has the right.
        Err(_) => {}
    }
    if helper(&["-u"], point) {
        return Ok(Unmounted::Whole);
    }
    if helper(&["-u", "-z"], point) {
        return Ok(Unmounted::Lazily);
    }
    Err(io::Error::other("neither the kernel nor fusermount3 unmounts it"))
}

/// Unmount with the helper of FUSE.
fn helper(options: &[&str], point: &Path) -> bool {
    let mut helper = Command::new("fusermount3");
    helper
        .args(options)
        .arg("--")
        .arg(point)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    helper.status().is_ok_and(|status| status.success())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_mount_at_a_point_counts() {
        let table = "22 1 0:21 / /mnt/scans rw,relatime shared:1 - ext4 /dev/sda1 rw\n\
                     30 22 0:50 / /mnt/scans ro,nosuid - fuse skyhaul ro,user_id=0\n\
                     31 22 0:51 / /mnt/a\\040b ro - fuse.sshfs x ro\n\
                     32 22 0:52 / /mnt/b ro - fuse.skyhaul skyhaul ro\n";
        let of = |point| is_ours(table, Path::new(point));
        let found = ["/mnt/scans", "/mnt/a b", "/mnt/b", "/mnt"].map(of);
        assert_eq!(found, [Some(true), Some(false), Some(true), None]);
        assert_eq!(mounted(Path::new("/")), Mounted::Other);
        let directory = tempfile::tempdir().unwrap();
        assert_eq!(mounted(directory.path()), Mounted::Nothing);
    }
}
