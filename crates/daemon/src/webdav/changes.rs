//! MKCOL, DELETE, MOVE, and COPY inside this server (RFC 4918, 9.3, 9.6, 9.8, 9.9).
//!
//! `Destination` is a path, or a URL with the host that the request itself is for: clients call this server by that name. Anything else is
//! another server, to which `third_party` copies.

use super::door::{Door, Target};
use super::place::Place;
use super::scans::ScanPlace;
use super::sending::{MAX_LISTED, open_object};
use crate::remote::digests::Algorithm;
use crate::remote::failure::Failure;
use crate::remote::outgoing::{BodyReader, Part};
use crate::remote::request_path::RequestPath;
use crate::served::object::Object;
use crate::served::roots::{Root, WebDavRules};
use axum::http::header::HOST;
use axum::http::{HeaderMap, StatusCode, Uri};
use skyhaul::io::disk::tree::Kind;
use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, Read};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Bytes that are copied between looks whether the client is still there.
const COPY_STEP_BYTES: u64 = 64 << 20;
/// Schemes by which clients name servers like this one.
const SCHEMES: [&str; 4] = ["http", "https", "dav", "davs"];
/// Deepest nesting of directories that is copied.
const MAX_NESTED: usize = 64;

/// Makes a directory.
pub(super) fn make_directory(place: &Place) -> Result<StatusCode, Failure> {
    if place.status()?.is_some() {
        return Err(Failure::new(405, "File exists"));
    }
    place.check_writable()?;
    let parent = place.root.status(place.parent()).map_err(|error| Failure::of(&error))?;
    if parent.is_none_or(|parent| parent.kind != Kind::Directory) {
        return Err(Failure::new(409, "No such file or directory: there is no directory for it"));
    }
    place.root.tree.make_dirs(&place.path).map_err(|error| Failure::of(&error))?;
    place.root.sync_directory_of(&place.path).map_err(|error| Failure::of(&error))?;
    Ok(StatusCode::CREATED)
}

/// Removes a file or a directory.
pub(super) fn delete(place: &Place, headers: &HeaderMap) -> Result<StatusCode, Failure> {
    let status = place.status()?.ok_or_else(Failure::not_found)?;
    place.check_version(headers)?;
    place.check_writable()?;
    remove(place, status.kind)?;
    place.root.sync_directory_of(&place.path).map_err(|error| Failure::of(&error))?;
    Ok(StatusCode::NO_CONTENT)
}

fn remove(place: &Place, kind: Kind) -> Result<(), Failure> {
    let tree = &place.root.tree;
    let removed = match (kind, place.root.rules) {
        (Kind::File, _) => tree.remove(&place.path),
        (Kind::Directory, WebDavRules::Grid) => tree.remove_directory(&place.path),
        (Kind::Directory, WebDavRules::Rfc4918) => tree.remove_all(&place.path),
        (Kind::Link | Kind::Special, _) => {
            return Err(Failure::new(403, "Permission denied: it is a symbolic link or a special file"));
        }
    };
    removed.map_err(|error| Failure::of(&error))
}

/// Where the URL of a header leads.
pub(super) enum Located {
    /// To a path of this server.
    Here(RequestPath),
    /// To another server.
    Elsewhere,
}

/// Where `Source` or `Destination` leads: a path is one of this server, and so is a URL with the host that the request is for.
pub(super) fn located(name: &'static str, headers: &HeaderMap, uri: &Uri) -> Result<Located, Failure> {
    let text = header_url(name, headers)?;
    let path = match text.split_once("://") {
        None => text,
        Some((scheme, rest)) => {
            let (authority, _) = rest.split_once('/').unwrap_or((rest, ""));
            let host = headers.get(HOST).and_then(|host| host.to_str().ok());
            let own = uri.authority().map(|authority| authority.as_str()).or(host).unwrap_or_default();
            let is_known = SCHEMES.iter().any(|known| known.eq_ignore_ascii_case(scheme));
            if !is_known || !authority.eq_ignore_ascii_case(own) {
                return Ok(Located::Elsewhere);
            }
            &rest[authority.len()..]
        }
    };
    if path.contains(['?', '#']) {
        return Err(Failure::bad(format_args!("{name} has a query or a fragment")));
    }
    RequestPath::parse(if path.is_empty() { "/" } else { path }).map(Located::Here).map_err(Failure::bad)
}

/// The text of `Source` or `Destination`.
pub(super) fn header_url<'a>(name: &'static str, headers: &'a HeaderMap) -> Result<&'a str, Failure> {
    let text = headers.get(name).ok_or_else(|| Failure::bad(format_args!("the request has no {name}")))?;
    Ok(text.to_str().map_err(|_| Failure::bad(format_args!("{name} is no URL")))?.trim())
}

/// What a client that does not overwrite is told.
const EXISTS: &str = "File exists, and Overwrite is F";

/// How something is moved or copied.
pub(super) struct Transfer {
    pub(super) from: Target,
    pub(super) to: Place,
    pub(super) is_move: bool,
    /// What is at the destination is replaced.
    pub(super) overwrite: bool,
    /// Of a directory, only itself.
    pub(super) is_shallow: bool,
}

impl Transfer {
    /// The answer of `Overwrite`.
    pub(super) fn overwrite(headers: &HeaderMap) -> Result<bool, Failure> {
        match headers.get("overwrite").map(|value| value.as_bytes()) {
            None | Some(b"T" | b"t") => Ok(true),
            Some(b"F" | b"f") => Ok(false),
            Some(_) => Err(Failure::bad("Overwrite must be T or F")),
        }
    }

    /// Carries it out. What it refuses changes nothing. Returns also how many bytes of a recording are
    /// missing: fill stands for them in the copy.
    pub(super) fn run(
        &self,
        door: &Door,
        headers: &HeaderMap,
        stop: &AtomicBool,
    ) -> Result<(StatusCode, u64), Failure> {
        let from = match &self.from {
            Target::Path(root, path) => {
                Place { root: Arc::clone(root), path: path.clone(), can_replace: false }
            }
            Target::Recording(all, name) if !self.is_move => {
                let file = Arc::new(all.find(name)?);
                let replaced = self.check(None)?;
                let missing = file.missing;
                let object = Object::Recording { all: Arc::clone(all), file };
                self.copy_object(&object, (door, stop), &self.to.path, replaced)?;
                return Ok((self.status(replaced), missing));
            }
            _ => return Err(Failure::new(403, "Permission denied: it cannot be moved or copied")),
        };
        let kind = from.status()?.ok_or_else(Failure::not_found)?.kind;
        from.check_version(headers)?;
        if self.is_move {
            from.check_writable()?;
        }
        let replaced = self.check(Some((&from, kind)))?;
        match (self.is_move, Arc::ptr_eq(&from.root, &self.to.root), kind) {
            (_, _, Kind::Link | Kind::Special) => {
                return Err(Failure::new(403, "Permission denied: it is a symbolic link or a special file"));
            }
            (true, true, _) => {
                let (tree, to) = (&from.root.tree, &self.to.path);
                self.make_room(replaced.filter(|old| (*old, kind) != (Kind::File, Kind::File)))?;
                tree.rename(&from.path, to, self.can_replace()).map_err(|error| self.unpublished(&error))?;
                from.root.sync_directory_of(to).map_err(|error| Failure::of(&error))?;
            }
            (true, false, Kind::Directory) => {
                return Err(Failure::new(403, "Permission denied: a directory is not moved to another root"));
            }
            (false, _, Kind::Directory) => self.copy_directory(&from, (door, stop), replaced)?,
            (_, _, Kind::File) => {
                let object = Object::of_root(&from.root, &from.path)?;
                self.copy_object(&object, (door, stop), &self.to.path, replaced)?;
                if self.is_move {
                    remove(&from, kind)?;
                }
            }
        }
        if self.is_move {
            from.root.sync_directory_of(&from.path).map_err(|error| Failure::of(&error))?;
        }
        Ok((self.status(replaced), 0))
    }

    fn status(&self, replaced: Option<Kind>) -> StatusCode {
        match self.to.root.rules {
            WebDavRules::Rfc4918 if replaced.is_some() => StatusCode::NO_CONTENT,
            _ => StatusCode::CREATED,
        }
    }

    /// Whether something may be at the destination; returns what is there now.
    fn check(&self, from: Option<(&Place, Kind)>) -> Result<Option<Kind>, Failure> {
        self.to.check_writable()?;
        if let Some((from, kind)) = from
            && Arc::ptr_eq(&from.root, &self.to.root)
        {
            if from.path == self.to.path || from.path.starts_with(&self.to.path) {
                return Err(Failure::new(403, "source and destination are the same, or one is in the other"));
            }
            if kind == Kind::Directory && self.to.path.starts_with(&from.path) {
                return Err(Failure::new(409, "the destination is in what is moved or copied"));
            }
        }
        let before = self.to.status()?;
        if before.is_some() && !self.overwrite {
            return Err(Failure::new(412, EXISTS));
        }
        self.to.check_replaceable(before.as_ref())?;
        self.to.check_parent()?;
        Ok(before.map(|status| status.kind))
    }

    /// Whether what has the name of the destination by the end is replaced.
    fn can_replace(&self) -> bool {
        self.overwrite && self.to.can_replace
    }

    /// What was moved or copied got no name.
    fn unpublished(&self, error: &io::Error) -> Failure {
        match error.kind() {
            io::ErrorKind::AlreadyExists if !self.overwrite => Failure::new(412, EXISTS),
            _ => Failure::of(error),
        }
    }

    /// Makes the directory of the destination, and removes what is in the way there: the last step before something gets its name, so
    /// that whatever fails before has removed nothing.
    fn make_room(&self, in_the_way: Option<Kind>) -> Result<(), Failure> {
        self.to.make_parent()?;
        in_the_way.map_or(Ok(()), |kind| remove(&self.to, kind))
    }

    fn copy_directory(
        &self,
        from: &Place,
        work: (&Door, &AtomicBool),
        replaced: Option<Kind>,
    ) -> Result<(), Failure> {
        if self.to.root.rules == WebDavRules::Grid && !self.is_shallow {
            return Err(Failure::new(403, "Permission denied: only files are copied here"));
        }
        if self.is_shallow {
            self.make_room(replaced)?;
            return self.to.root.tree.make_dirs(&self.to.path).map_err(|error| Failure::of(&error));
        }
        check_tree(from, &from.path, MAX_NESTED)?;
        self.make_room(replaced)?;
        self.copy_tree(from, &from.path, &self.to.path, MAX_NESTED, work)
    }

    fn copy_tree(
        &self,
        from: &Place,
        path: &Path,
        to: &Path,
        depth: usize,
        work: (&Door, &AtomicBool),
    ) -> Result<(), Failure> {
        let depth = depth.checked_sub(1).ok_or_else(|| {
            Failure::new(
                409,
                format_args!("only a part was copied: directories are nested deeper than {MAX_NESTED}"),
            )
        })?;
        self.to.root.tree.make_dirs(to).map_err(|error| Failure::of(&error))?;
        for (name, status) in from.root.entries(path, MAX_LISTED).map_err(|error| Failure::of(&error))? {
            let (path, to) = (path.join(&name), to.join(&name));
            match status.kind {
                Kind::Directory => self.copy_tree(from, &path, &to, depth, work)?,
                _ => self.copy_object(&Object::of_root(&from.root, &path)?, work, &to, None)?,
            }
        }
        Ok(())
    }

    /// Copies to `to`, where this was replaced.
    fn copy_object(
        &self,
        object: &Object,
        (door, stop): (&Door, &AtomicBool),
        to: &Path,
        replaced: Option<Kind>,
    ) -> Result<(), Failure> {
        let io = |error: io::Error| Failure::of(&error);
        let mut upload = self.to.root.upload(Some(object.size()), []).map_err(io)?;
        match object {
            Object::File { file, .. } => copy_file(file, &upload.file, stop).map_err(io)?,
            Object::Recording { .. } => {
                let parts = VecDeque::from([Part::Range(0..object.size())]);
                let mut reader = BodyReader::new(object.source()?, parts, &door.memory);
                while let Some(bytes) = reader.next_waiting(stop).map_err(io)? {
                    upload.write(&bytes).map_err(io)?;
                }
            }
        }
        let digests = object.digests();
        let is_whole = upload.file.metadata().map_err(io)?.len() == object.size();
        if stop.load(Ordering::Relaxed) || !is_whole || !object.is_unchanged() {
            return Err(Failure::busy("interrupted, or the source changed"));
        }
        if to == self.to.path {
            self.make_room(replaced.filter(|kind| *kind != Kind::File))?;
        }
        upload.publish(to, self.can_replace(), &digests, stop).map_err(|error| self.unpublished(&error))?;
        Ok(())
    }
}

/// Refuses to copy a directory in which something cannot be copied: the copy would lack it.
fn check_tree(from: &Place, path: &Path, depth: usize) -> Result<(), Failure> {
    let refuse = |why: String| Err(Failure::new(409, format_args!("nothing was copied: {why}")));
    let Some(depth) = depth.checked_sub(1) else {
        return refuse(format!("directories are nested deeper than {MAX_NESTED}"));
    };
    let entries = from.root.tree.entries(path, MAX_LISTED).map_err(|error| Failure::of(&error))?;
    for (name, status) in entries {
        let path = path.join(&name);
        match status.kind {
            _ if Root::is_hidden(&path) => {}
            _ if name.to_str().is_none() => {
                return refuse(format!("{} is no UTF-8", path.display()));
            }
            Kind::Directory => check_tree(from, &path, depth)?,
            Kind::File => {}
            Kind::Link | Kind::Special => {
                return refuse(format!("{} is a symbolic link or a special file", path.display()));
            }
        }
    }
    Ok(())
}

/// Makes a recording of something that is here.
pub(super) fn copy_scan(
    (from, to): (Target, &ScanPlace),
    headers: &HeaderMap,
    (door, stop): (&Door, &AtomicBool),
) -> Result<StatusCode, Failure> {
    let object = open_object(from)?;
    object.check_version(headers)?;
    // The conditions of a COPY are those of its source.
    to.check(&HeaderMap::new())?;
    let mut upload = to.begin(Some(object.size()), Algorithm::ALWAYS)?;
    let parts = VecDeque::from([Part::Range(0..object.size())]);
    let mut reader = BodyReader::new(object.source()?, parts, &door.memory);
    while let Some(bytes) = reader.next_waiting(stop).map_err(|error| Failure::of(&error))? {
        upload.write(&bytes)?;
    }
    if upload.bytes() != object.size() || !object.is_unchanged() {
        return Err(Failure::busy("interrupted, or the source changed"));
    }
    let digests = upload.digests();
    upload.publish(to, &digests, stop)?;
    Ok(StatusCode::CREATED)
}

/// Copies a file in the kernel.
fn copy_file(from: &File, mut to: &File, stop: &AtomicBool) -> io::Result<()> {
    while !stop.load(Ordering::Relaxed) {
        if io::copy(&mut from.take(COPY_STEP_BYTES), &mut to)? < COPY_STEP_BYTES {
            break;
        }
    }
    Ok(())
}
