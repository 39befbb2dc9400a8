//! Whether a directory can be recorded to, checked before anything is created there.

use rustix::fs::{Access, FileType, access, stat, statfs};
use rustix::io::Errno;
use std::io;
use std::path::Path;

/// Kernel file systems, which are not disks, by their number in `statfs`.
const PSEUDO: [(u64, &str); 14] = [
    (0x9fa0, "proc"),
    (0x6265_6572, "sysfs"),
    (0x1cd1, "devpts"),
    (0x27_e0eb, "cgroup"),
    (0x6367_7270, "cgroup2"),
    (0x6462_6720, "debugfs"),
    (0x7472_6163, "tracefs"),
    (0x7363_6673, "securityfs"),
    (0xf97c_ff8c, "selinuxfs"),
    (0xcafe_4a11, "bpf"),
    (0x6265_6570, "configfs"),
    (0xde5e_81e4, "efivarfs"),
    (0x1980_0202, "mqueue"),
    (0x6e73_6673, "nsfs"),
];

/// Identity of a directory, equal for two names of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Place {
    device: u64,
    inode: u64,
}

impl Place {
    /// The directory at `path`, which must exist, be on a disk file system, and be writable. Nothing is created there.
    ///
    /// # Errors
    /// The reason why the directory cannot be recorded to, and a hint.
    pub fn for_recordings(path: &Path) -> io::Result<Self> {
        Self::writable(path, "record to")
    }

    /// As [`for_recordings`](Self::for_recordings); `purpose` begins the text of an error: "record to", "measure".
    ///
    /// # Errors
    /// The reason why nothing can be written there, and a hint.
    pub fn writable(path: &Path, purpose: &str) -> io::Result<Self> {
        let told =
            |kind, text: String| Err(io::Error::new(kind, format!("{purpose} {}: {text}", path.display())));
        let found = match stat(path) {
            Ok(found) => found,
            Err(Errno::NOENT) => {
                let hint = format!(
                    "check that the disk is mounted with findmnt; or create the directory: mkdir -p {}",
                    path.display()
                );
                return told(io::ErrorKind::NotFound, format!("no such directory\nhint: {hint}"));
            }
            Err(error) => {
                let error = io::Error::from(error);
                return told(
                    error.kind(),
                    format!(
                        "{}\nhint: see `namei -l {}`",
                        crate::address::system_text(&error),
                        path.display()
                    ),
                );
            }
        };
        if FileType::from_raw_mode(found.st_mode) != FileType::Directory {
            return told(
                io::ErrorKind::NotADirectory,
                "not a directory\nhint: name the directory where the disk is mounted".into(),
            );
        }
        let kind = statfs(path).map(|of| of.f_type as u64 & 0xffff_ffff);
        if let Some((_, name)) = kind.ok().and_then(|kind| PSEUDO.iter().find(|(number, _)| *number == kind))
        {
            let text = format!(
                "not a disk: {name} is a kernel file system\nhint: name a directory on a disk; `findmnt --real` lists the disks"
            );
            return told(io::ErrorKind::Unsupported, text);
        }
        match access(path, Access::WRITE_OK | Access::EXEC_OK) {
            Err(Errno::ROFS) => {
                let text = "the file system is read-only\nhint: check with `dmesg` whether the disk failed; as root: mount -o remount,rw ...";
                return told(io::ErrorKind::ReadOnlyFilesystem, text.into());
            }
            Err(Errno::ACCESS | Errno::PERM) => {
                let text =
                    format!("no permission to write\nhint: check its permissions: ls -ld {}", path.display());
                return told(io::ErrorKind::PermissionDenied, text);
            }
            _ => {}
        }
        Ok(Self { device: found.st_dev, inode: found.st_ino })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(path: &Path) -> String {
        Place::for_recordings(path).unwrap_err().to_string()
    }

    #[test]
    fn a_directory_has_one_place_whatever_it_is_called() {
        let directory = tempfile::tempdir().unwrap();
        let disk = directory.path().join("disk");
        std::fs::create_dir(&disk).unwrap();
        let link = directory.path().join("link");
        std::os::unix::fs::symlink(&disk, &link).unwrap();
        let place = |path: &Path| Place::for_recordings(path).unwrap();
        assert_eq!(place(&disk), place(&link));
        assert_eq!(place(&disk), place(&directory.path().join("./link/../disk/.")));
        assert_ne!(place(&disk), place(directory.path()));
    }

    #[test]
    fn what_is_no_place_for_recordings_is_told_as_it_is() {
        for (path, wrong) in [
            ("/proc", "not a disk: proc"),
            ("/proc/self", "not a disk: proc"),
            ("/sys/kernel", "not a disk: sysfs"),
            ("/proc/version", "not a directory"),
            ("/no/such/place", "no such directory"),
        ] {
            let said = said(Path::new(path));
            assert!(
                said.starts_with(&format!("record to {path}: {wrong}")) && said.contains("\nhint: "),
                "{said}"
            );
        }
        let file = tempfile::NamedTempFile::new().unwrap();
        assert!(said(file.path()).contains("not a directory"));
        assert!(said(&file.path().join("x")).contains("Not a directory"));
    }
}
