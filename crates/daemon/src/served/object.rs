//! Something that is sent: a file of a directory that is served, or a recording.

use super::recordings::{RecordingFile, Recordings};
use super::roots::{Root, etag, is_as_it_was, kept_digests, modified};
use crate::remote::digests::DigestSet;
use crate::remote::failure::Failure;
use crate::remote::outgoing::{HELD_PIECES, Source};
use skyhaul::io::disk::tree::{Kind, Status};
use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

/// What is sent.
#[derive(Clone)]
pub(crate) enum Object {
    File { root: Arc<Root>, path: PathBuf, file: Arc<File>, status: Status },
    Recording { all: Arc<Recordings>, file: Arc<RecordingFile> },
}

impl Object {
    /// A file of a root.
    pub(crate) fn of_root(root: &Arc<Root>, path: &Path) -> Result<Self, Failure> {
        let status = root.status(path).map_err(|error| Failure::reading(&error))?;
        match status.map(|status| status.kind) {
            Some(Kind::File) => {}
            Some(Kind::Link | Kind::Special) => {
                return Err(Failure::new(403, "Permission denied: it is a symbolic link or a special file"));
            }
            Some(Kind::Directory) | None => return Err(Failure::not_found()),
        }
        let (file, _) = root.tree.read(path, false).map_err(|error| Failure::reading(&error))?;
        // What is open may be another file by now.
        let status = Status::of_file(&file).map_err(|error| Failure::reading(&error))?;
        Ok(Self::File { root: Arc::clone(root), path: path.to_owned(), file: Arc::new(file), status })
    }

    pub(crate) fn size(&self) -> u64 {
        match self {
            Self::File { status, .. } => status.size,
            Self::Recording { file, .. } => file.bytes,
        }
    }

    pub(crate) fn modified(&self) -> SystemTime {
        match self {
            Self::File { status, .. } => modified(status),
            Self::Recording { file, .. } => file.modified,
        }
    }

    pub(crate) fn etag(&self) -> String {
        match self {
            Self::File { status, .. } => etag(status),
            Self::Recording { file, .. } => file.etag.clone(),
        }
    }

    pub(crate) fn digests(&self) -> DigestSet {
        match self {
            Self::File { file, .. } => kept_digests(file),
            Self::Recording { all, file } => all.digests(file),
        }
    }

    /// Whether it is what it was when it was opened. A recording is: each part of it is verified.
    pub(crate) fn is_unchanged(&self) -> bool {
        match self {
            Self::File { file, status, .. } => is_as_it_was(file, status),
            Self::Recording { .. } => true,
        }
    }

    pub(crate) fn source(&self) -> Result<Source, Failure> {
        Ok(match self {
            Self::File { file, .. } => Source::File(Arc::clone(file)),
            Self::Recording { all, file } => {
                let (recording, datastream) = all.open(file)?;
                let reader = recording.range_reader(datastream, HELD_PIECES);
                Source::Recording(Box::new(reader.map_err(|error| Failure::of(&error))?))
            }
        })
    }
}
