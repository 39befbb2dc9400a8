//! A path in a root that a request changes, and what must hold of it.

use super::conditions::{self, Outcome, Version};
use crate::remote::failure::{Failure, scope_failure};
use crate::served::roots::{Root, WebDavRules, etag, modified};
use axum::http::{HeaderMap, StatusCode};
use skyhaul::io::disk::tree::{Kind, Status};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Where a file is put.
#[derive(Clone)]
pub(super) struct Place {
    pub(super) root: Arc<Root>,
    pub(super) path: PathBuf,
    /// Whether the client may replace what is there.
    pub(super) can_replace: bool,
}

impl Place {
    /// Whether it may be changed, and is not the root itself.
    pub(super) fn check_writable(&self) -> Result<(), Failure> {
        if !self.root.is_writable {
            return Err(Failure::new(403, "Read-only file system"));
        }
        if self.path.as_os_str().is_empty() {
            return Err(Failure::new(403, "Permission denied: it is the root of what is served"));
        }
        Ok(())
    }

    /// Whether something may be put where this is now.
    pub(super) fn check_replaceable(&self, now: Option<&Status>) -> Result<(), Failure> {
        if now.is_some() && !self.can_replace {
            return Err(scope_failure("replace what exists"));
        }
        Ok(())
    }

    pub(super) fn parent(&self) -> &Path {
        self.path.parent().unwrap_or(Path::new(""))
    }

    pub(super) fn status(&self) -> Result<Option<Status>, Failure> {
        self.root.status(&self.path).map_err(|error| Failure::of(&error))
    }

    /// Whether what is there is what the client expects (`If-Match` and its kin).
    pub(super) fn check_version(&self, headers: &HeaderMap) -> Result<(), Failure> {
        let now = self.status()?;
        let etag = now.as_ref().map(etag);
        let version = now.as_ref().zip(etag.as_deref());
        let version = version.map(|(status, etag)| Version { etag, modified: modified(status) });
        match conditions::check(headers, version, true) {
            Outcome::GoOn => Ok(()),
            _ => Err(Failure::new(412, "Precondition failed")),
        }
    }

    /// Whether a file may be put there now.
    pub(super) fn check_file(&self, headers: &HeaderMap) -> Result<(), Failure> {
        self.check_writable()?;
        let before = self.status()?;
        match before.map(|status| status.kind) {
            None | Some(Kind::File) => {}
            Some(Kind::Directory) => return Err(Failure::new(405, "Is a directory")),
            Some(Kind::Link | Kind::Special) => {
                return Err(Failure::new(403, "Permission denied: it is a symbolic link or a special file"));
            }
        }
        self.check_version(headers)?;
        self.check_replaceable(before.as_ref())?;
        self.check_parent()
    }

    /// The status of the reply when a file has its name; whether there was one before.
    pub(super) fn put_status(&self, existed: bool) -> StatusCode {
        match (existed, self.root.rules) {
            (false, _) => StatusCode::CREATED,
            (true, WebDavRules::Grid) => StatusCode::OK,
            (true, WebDavRules::Rfc4918) => StatusCode::NO_CONTENT,
        }
    }

    /// Whether its directory is there, or may be made.
    pub(super) fn check_parent(&self) -> Result<(), Failure> {
        for (at, directory) in self.path.ancestors().skip(1).enumerate() {
            let status = self.root.status(directory).map_err(|error| Failure::of(&error))?;
            match status.map(|status| status.kind) {
                Some(Kind::Directory) => return Ok(()),
                Some(_) => return Err(Failure::new(409, "Not a directory: a file is above it")),
                None if at == 0 && self.root.rules == WebDavRules::Rfc4918 => {
                    return Err(Failure::new(409, "No such file or directory: there is no directory for it"));
                }
                None => {}
            }
        }
        Ok(())
    }

    /// Makes its directory, where the rules say so.
    pub(super) fn make_parent(&self) -> Result<(), Failure> {
        match self.root.rules {
            WebDavRules::Grid => self.root.tree.make_dirs(self.parent()).map_err(|error| Failure::of(&error)),
            WebDavRules::Rfc4918 => Ok(()),
        }
    }
}
