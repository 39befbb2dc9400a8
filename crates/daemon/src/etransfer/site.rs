//! What is served: directories under their own paths, and recordings.
//!
//! ```text
//!   /data/incoming/exp/f ─▶ the directory /data/incoming ─▶ exp/f below it       (no link is followed, nothing outside is opened)
//!   /recordings/NAME     ─▶ the closed recording NAME
//! ```

use super::options::{EtransferDirectory, EtransferOptions, MAX_CONNECTIONS, MAX_RECORDINGS, MEMORY_BYTES};
use crate::remote::failure::Failure;
use crate::served::object::Object;
use crate::served::recordings::Recordings;
use crate::served::roots::{Root, ServedDirectory, WebDavRules};
use skyhaul::io::disk::tree::Kind;
use skyhaul::io::file::failed;
use skyhaul::io::lock::lock;
use skyhaul::io::memory::heap::HeapMemory;
use skyhaul_core::etransfer::{EtransferPath, UploadMode, UploadStart, has_wildcards, matches_wildcards};
use std::collections::{BTreeSet, HashSet};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// The directory of recordings.
const RECORDINGS: &str = "recordings";
/// Names that a list has at most, at each level.
const MAX_LISTED: usize = 100_000;

/// What is served.
pub(super) struct Site {
    roots: Vec<SiteRoot>,
    recordings: Option<Arc<Recordings>>,
    pub(super) memory: HeapMemory,
    /// Paths of uploads that are not ended.
    writing: Mutex<HashSet<(usize, PathBuf)>>,
    uploads: Arc<Semaphore>,
    downloads: Arc<Semaphore>,
    recording_downloads: Arc<Semaphore>,
}

struct SiteRoot {
    /// The names of its path.
    names: Vec<String>,
    root: Arc<Root>,
}

/// What a path names.
enum Spot {
    /// A directory above those that are served.
    Above,
    Recordings(Arc<Recordings>),
    Recording(Arc<Recordings>, String),
    /// A path below the root of this number.
    Below(usize, PathBuf),
}

/// An upload that was asked for.
pub(super) struct UploadOrder {
    pub(super) root: Arc<Root>,
    pub(super) path: PathBuf,
    pub(super) start: UploadStart,
    /// Whether a file that is there when it is whole is replaced.
    pub(super) replaces: bool,
    _claim: PathClaim,
    _place: OwnedSemaphorePermit,
}

/// A download that was asked for.
pub(super) struct DownloadOrder {
    pub(super) object: Object,
    pub(super) from: u64,
    _place: OwnedSemaphorePermit,
}

/// The only upload to a path.
struct PathClaim {
    site: Arc<Site>,
    of: (usize, PathBuf),
}

impl Drop for PathClaim {
    fn drop(&mut self) {
        lock(&self.site.writing).remove(&self.of);
    }
}

impl Site {
    pub(super) fn open(options: &EtransferOptions, disks: &[PathBuf]) -> io::Result<Self> {
        let mut roots: Vec<SiteRoot> = Vec::new();
        for of in &options.directories {
            let why = |text: &str| {
                let error = io::Error::new(io::ErrorKind::InvalidInput, text.to_owned());
                failed("serve directory", &of.directory, &error)
            };
            let path = of.directory.to_str().ok_or_else(|| why("the path is not UTF-8"))?;
            let names = EtransferPath::parse(path).map_err(|error| why(error.0))?.names;
            if names.first().is_some_and(|first| first == RECORDINGS) && options.recordings {
                return Err(why("/recordings is the directory of the recordings"));
            }
            if roots.iter().any(|other| other.names == names) {
                return Err(why("it is given twice"));
            }
            roots.push(SiteRoot { names, root: Arc::new(Root::open_resumable(&served(of))?) });
        }
        Ok(Self {
            roots,
            recordings: options
                .recordings
                .then(|| Arc::new(Recordings::new(disks.to_vec(), None, Arc::default()))),
            memory: HeapMemory::new(MEMORY_BYTES),
            writing: Mutex::default(),
            uploads: Arc::new(Semaphore::new(MAX_CONNECTIONS)),
            downloads: Arc::new(Semaphore::new(MAX_CONNECTIONS)),
            recording_downloads: Arc::new(Semaphore::new(MAX_RECORDINGS)),
        })
    }

    fn spot(&self, names: &[String]) -> Result<Spot, Failure> {
        if let Some(all) = self.recordings.as_ref().filter(|_| names.first().is_some_and(|n| n == RECORDINGS))
        {
            return match names {
                [_] => Ok(Spot::Recordings(Arc::clone(all))),
                [_, name] => Ok(Spot::Recording(Arc::clone(all), name.clone())),
                _ => Err(Failure::not_found()),
            };
        }
        let within = self.roots.iter().enumerate().filter(|(_, of)| names.starts_with(&of.names));
        if let Some((at, of)) = within.max_by_key(|(_, of)| of.names.len()) {
            let below: PathBuf = names[of.names.len()..].iter().collect();
            return match Root::is_hidden(&below) {
                true => Err(Failure::not_found()),
                false => Ok(Spot::Below(at, below)),
            };
        }
        if names.is_empty() || self.roots.iter().any(|of| of.names.starts_with(names)) {
            return Ok(Spot::Above);
        }
        Err(Failure::new(403, "Permission denied: the path is outside of the directories that are served"))
    }

    /// Paths that match a pattern; directories end with `/`.
    pub(super) fn list(&self, pattern: &str) -> Result<Vec<String>, Failure> {
        let mut pattern = EtransferPath::parse(pattern).map_err(|why| Failure::new(403, why))?;
        if pattern.is_directory {
            pattern.names.push("*".to_owned());
            pattern.is_directory = false;
        }
        let fixed: Vec<String> =
            pattern.names.iter().take_while(|name| !has_wildcards(name)).cloned().collect();
        // What is outside is refused, and not only empty.
        self.spot(&fixed)?;
        let mut found = vec![fixed];
        for part in pattern.names.iter().skip(found[0].len()) {
            let mut next = Vec::new();
            for above in found {
                let names =
                    if has_wildcards(part) { self.names_in(&above)? } else { BTreeSet::from([part.clone()]) };
                let matching =
                    names.into_iter().filter(|name| !has_wildcards(part) || matches_wildcards(part, name));
                next.extend(matching.map(|name| [&above[..], &[name]].concat()));
                if next.len() > MAX_LISTED {
                    return Err(Failure::new(403, format_args!("more than {MAX_LISTED} names match")));
                }
            }
            found = next;
        }
        let mut all = Vec::with_capacity(found.len());
        for names in found {
            if let Some(is_directory) = self.kind(&names)? {
                all.push(EtransferPath { names, is_directory }.to_string());
            }
        }
        Ok(all)
    }

    /// The names in a directory, without those that no line can carry; none if there is no such directory.
    fn names_in(&self, names: &[String]) -> Result<BTreeSet<String>, Failure> {
        let mut all: BTreeSet<String> = BTreeSet::new();
        let next = self.roots.iter().filter(|of| of.names.len() > names.len() && of.names.starts_with(names));
        all.extend(next.map(|of| of.names[names.len()].clone()));
        match self.spot(names) {
            Ok(Spot::Above) if names.is_empty() && self.recordings.is_some() => {
                all.insert(RECORDINGS.to_owned());
            }
            Ok(Spot::Recordings(of)) => all.extend(of.list()?.into_iter().map(|file| file.name)),
            Ok(Spot::Below(at, path)) => match self.roots[at].root.entries(&path, MAX_LISTED) {
                Ok(entries) => all.extend(entries.into_iter().map(|(name, _)| name)),
                Err(error)
                    if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {}
                Err(error) => return Err(Failure::reading(&error)),
            },
            _ => {}
        }
        all.retain(|name| !name.chars().any(char::is_control));
        Ok(all)
    }

    /// Whether a path is a directory; `None` if there is nothing that is served.
    fn kind(&self, names: &[String]) -> Result<Option<bool>, Failure> {
        match self.spot(names) {
            Ok(Spot::Above | Spot::Recordings(_)) => Ok(Some(true)),
            Ok(Spot::Recording(all, name)) => match all.find(&name) {
                Ok(_) => Ok(Some(false)),
                Err(failure) if failure.is_not_found() => Ok(None),
                Err(failure) => Err(failure),
            },
            Ok(Spot::Below(at, path)) => {
                let status = self.roots[at].root.status(&path).map_err(|error| Failure::reading(&error))?;
                Ok(match status.map(|status| status.kind) {
                    Some(Kind::Directory) => Some(true),
                    Some(Kind::File) => Some(false),
                    Some(Kind::Link | Kind::Special) | None => None,
                })
            }
            Err(_) => Ok(None),
        }
    }

    /// Opens what is downloaded. Returns it with the bytes behind those that the client has: none or less than none if it has more.
    pub(super) fn download(&self, path: &str, have: u64) -> Result<(DownloadOrder, i64), Failure> {
        let path = EtransferPath::parse(path).map_err(|why| Failure::new(403, why))?;
        let full = |_| Failure::busy("as many files are sent as may be at a time");
        let (object, places) = match self.spot(&path.names)? {
            Spot::Above | Spot::Recordings(_) => return Err(Failure::new(403, "Is a directory")),
            Spot::Recording(all, name) => {
                let file = Arc::new(all.find(&name)?);
                (Object::Recording { all, file }, &self.recording_downloads)
            }
            Spot::Below(at, path) => (Object::of_root(&self.roots[at].root, &path)?, &self.downloads),
        };
        let place = Arc::clone(places).try_acquire_owned().map_err(full)?;
        let size = i64::try_from(object.size()).map_err(|_| Failure::new(403, "File too large"))?;
        let remain = size - i64::try_from(have).unwrap_or(i64::MAX);
        Ok((DownloadOrder { object, from: have, _place: place }, remain))
    }

    /// Checks whether a file may be put somewhere, and where it begins.
    pub(super) fn upload(self: &Arc<Self>, path: &str, mode: UploadMode) -> Result<UploadOrder, Failure> {
        let path = EtransferPath::parse(path).map_err(|why| Failure::new(403, why))?;
        let Spot::Below(at, below) = self.spot(&path.names)? else {
            return Err(Failure::new(403, "Read-only file system"));
        };
        let root = Arc::clone(&self.roots[at].root);
        if !root.is_writable {
            return Err(Failure::new(403, "Read-only file system"));
        }
        if path.is_directory || below.as_os_str().is_empty() {
            return Err(Failure::new(403, "Is a directory"));
        }
        let failure = |error: io::Error| Failure::of(&error);
        let existing = root.status(&below).map_err(failure)?;
        match existing.map(|status| status.kind) {
            None | Some(Kind::File) => {}
            Some(Kind::Directory) => return Err(Failure::new(403, "Is a directory")),
            Some(Kind::Link | Kind::Special) => {
                return Err(Failure::new(403, "Permission denied: it is a symbolic link or a special file"));
            }
        }
        check_above(&root, &below)?;
        let of = (at, below.clone());
        if !lock(&self.writing).insert(of.clone()) {
            return Err(Failure::new(409, "the path is already in use"));
        }
        let claim = PathClaim { site: Arc::clone(self), of };
        let unfinished = root.unfinished(&below, existing.as_ref()).map_err(failure)?;
        let start = mode.start(existing.map(|status| status.size), unfinished);
        if start == UploadStart::Exists {
            // A client of etransfer knows it by these words.
            return Err(Failure::new(409, "File exists"));
        }
        let full = |_| Failure::busy("as many files arrive as may at a time");
        let place = Arc::clone(&self.uploads).try_acquire_owned().map_err(full)?;
        let replaces = mode != UploadMode::New;
        Ok(UploadOrder { root, path: below, start, replaces, _claim: claim, _place: place })
    }
}

/// Whether the directories above a path are there, or may be made.
fn check_above(root: &Root, path: &Path) -> Result<(), Failure> {
    for above in path.ancestors().skip(1) {
        match root.status(above).map_err(|error| Failure::of(&error))?.map(|status| status.kind) {
            Some(Kind::Directory) => return Ok(()),
            Some(_) => return Err(Failure::new(409, "Not a directory: something else is above it")),
            None => {}
        }
    }
    Ok(())
}

/// The directory as those of the server of HTTP are.
fn served(of: &EtransferDirectory) -> ServedDirectory {
    ServedDirectory {
        name: of.directory.display().to_string(),
        directory: of.directory.clone(),
        is_writable: of.is_writable,
        rules: WebDavRules::Grid,
    }
}
