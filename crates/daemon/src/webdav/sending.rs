//! GET and HEAD: an object, whole or in ranges, with its version and digests.
//!
//! ```text
//!   head ─▶ object ─▶ conditions ─▶ digest, if one is wanted ─▶ ranges ─▶ 200, 206 (one part or multipart/byteranges), 304, 412, 416
//! ```

use super::byte_ranges::{self, Asked};
use super::conditions::{self, Outcome, Version};
use super::door::{Door, Target};
use super::sent_body::SentBody;
use crate::http::Connection;
use crate::remote::digests::{Algorithm, DigestSet, Digester, Wanted};
use crate::remote::failure::{Failure, scope_failure};
use crate::remote::outgoing::{BodyReader, FileBody, MAX_AT_ONCE_BYTES, Part};
use crate::remote::request_path::escaped;
use crate::served::object::Object;
use crate::served::roots::{keep_digests, kept_digests, modified};
use axum::body::{Body, Bytes};
use axum::http::header::{
    ACCEPT_RANGES, CONTENT_LENGTH, CONTENT_RANGE, CONTENT_TYPE, ETAG, HeaderName, HeaderValue, LAST_MODIFIED,
    RANGE, X_CONTENT_TYPE_OPTIONS,
};
use axum::http::{HeaderMap, Method, StatusCode};
use axum::response::Response;
use skyhaul::auth::{hex, random};
use skyhaul::io::disk::read_at_in_turn;
use skyhaul::io::disk::tree::{Kind, Status};
use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, SystemTime};
use tokio::sync::OwnedSemaphorePermit;

/// Names that a directory is shown with.
pub(super) const MAX_LISTED: usize = 100_000;
/// Age from which a file counts as written.
const SETTLED: Duration = Duration::from_secs(2);
/// Bytes of a recording that are fill in place of missing ones.
pub(super) const MISSING_BYTES: HeaderName = HeaderName::from_static("skyhaul-missing-bytes");

impl Object {
    /// Whether it is what the client expects (`If-Match` and its kin).
    pub(super) fn check_version(&self, headers: &HeaderMap) -> Result<(), Failure> {
        let etag = self.etag();
        match conditions::check(headers, Some(Version { etag: &etag, modified: self.modified() }), true) {
            Outcome::GoOn => Ok(()),
            _ => Err(Failure::new(412, "Precondition failed")),
        }
    }

    /// Keeps digests that were computed of it as it was opened, if there is a place for them that may be changed. A file that somebody
    /// has just written is left alone: one more write within the same tick of the file system's clock would not be seen.
    fn keep(&self, digests: &DigestSet) {
        match self {
            Self::File { root, path, file, status } => {
                let age = SystemTime::now().duration_since(modified(status));
                if !age.is_ok_and(|age| age >= SETTLED) {
                    return;
                }
                // The file that is open may be changed only through the name that it still has.
                let is_named = root.status(path).ok().flatten().is_some_and(|now| {
                    Status::of_file(file)
                        .is_ok_and(|open| (open.device, open.inode) == (now.device, now.inode))
                });
                if root.is_writable && is_named {
                    let mut all = kept_digests(file);
                    all.merge(digests);
                    keep_digests(file, &all, status.size, modified(status));
                }
            }
            Self::Recording { all, file } => all.keep_digests(file, digests),
        }
    }

    /// Reads all of it for a digest; nothing if `stop` is set meanwhile.
    fn compute(&self, door: &Door, algorithm: Algorithm, stop: &AtomicBool) -> Result<DigestSet, Failure> {
        let parts = VecDeque::from([Part::Range(0..self.size())]);
        let mut reader = BodyReader::new(self.source()?, parts, &door.memory);
        let mut digester = Digester::new([algorithm]);
        while let Some(bytes) = reader.next_waiting(stop).map_err(|error| Failure::of(&error))? {
            digester.update(&bytes);
        }
        if stop.load(Ordering::Relaxed) {
            return Err(Failure::busy("interrupted"));
        }
        if !self.is_unchanged() {
            return Err(Failure::busy("the file changed while it was read"));
        }
        let digests = digester.finish();
        self.keep(&digests);
        Ok(digests)
    }
}

/// The reply to GET or HEAD; GET gives a file only to those who `may_read` it.
pub(super) async fn reply(
    door: &Arc<Door>,
    connection: &Arc<Connection>,
    (target, may_read): (Target, bool),
    method: &Method,
    headers: &HeaderMap,
) -> Result<Response, Failure> {
    let is_get = method == Method::GET;
    let opened = {
        let (door, may_read) = (Arc::clone(door), is_get && may_read);
        door.clone().blocking(connection, move |_| open(&door, target, may_read)).await?
    };
    let (object, whole) = match opened {
        Opened::Object(..) if is_get && !may_read => return Err(scope_failure("read the file")),
        Opened::Object(object, whole) => (object, whole),
        Opened::Directory(text) => return Ok(directory(text)),
    };
    let etag = object.etag();
    let version = Version { etag: &etag, modified: object.modified() };
    let mut head = HeaderMap::new();
    put(&mut head, ETAG, &etag);
    put(&mut head, LAST_MODIFIED, &httpdate::fmt_http_date(version.modified));
    match conditions::check(headers, Some(version), false) {
        Outcome::GoOn => {}
        Outcome::NotModified => return Ok(response(StatusCode::NOT_MODIFIED, head, Body::empty())),
        Outcome::Failed => return Err(Failure::new(412, "Precondition failed: it is another version")),
    }
    if let Some((name, text)) = digest(door, connection, &object, headers).await? {
        put(&mut head, name, &text);
    }
    if let Object::Recording { file, .. } = &object
        && file.missing > 0
    {
        put(&mut head, MISSING_BYTES, &file.missing.to_string());
    }
    put(&mut head, ACCEPT_RANGES, "bytes");
    put(&mut head, CONTENT_TYPE, "application/octet-stream");
    put(&mut head, X_CONTENT_TYPE_OPTIONS, "nosniff");
    let size = object.size();
    let range = headers.get(RANGE).filter(|_| is_get && conditions::is_range_of(headers, version));
    let asked = range
        .and_then(|range| range.to_str().ok())
        .map_or(Asked::Whole, |range| byte_ranges::parse(range, size));
    let (status, parts) = match asked {
        Asked::Whole => (StatusCode::OK, VecDeque::from([Part::Range(0..size)])),
        Asked::Unsatisfiable => {
            let text = "Range not satisfiable: it begins behind the end";
            return Err(Failure::new(416, text).with(CONTENT_RANGE, &format!("bytes */{size}")));
        }
        Asked::Parts(parts) => (StatusCode::PARTIAL_CONTENT, parted(&mut head, &parts, size)?),
    };
    let bytes = parts.iter().map(Part::bytes).sum::<u64>();
    put(&mut head, CONTENT_LENGTH, &bytes.to_string());
    let body = match whole {
        _ if !is_get => Body::empty(),
        Some(whole) if status == StatusCode::OK => Body::from(whole),
        _ => match (connection.files(), &object) {
            (Some(sender), Object::File { file, .. }) if SentBody::suits(&parts) => {
                let taken = taken(connection, place_of(door, &object)?);
                Body::new(SentBody::new(sender, file, (parts, bytes), taken))
            }
            _ => body(door, connection, object, parts, bytes).await?,
        },
    };
    Ok(response(status, head, body))
}

enum Opened {
    /// With all of its bytes, if it is a short file.
    Object(Object, Option<Vec<u8>>),
    /// Its names as text.
    Directory(String),
}

fn open(door: &Door, target: Target, may_read: bool) -> Result<Opened, Failure> {
    let names = |names: Vec<(String, bool)>| {
        let line = |(name, is_directory): &(String, bool)| {
            let end = if *is_directory { "/\n" } else { "\n" };
            escaped(name) + end
        };
        Opened::Directory(names.iter().map(line).collect())
    };
    match target {
        Target::Top => Ok(names(door.top().map(|name| (name.to_owned(), true)).collect())),
        Target::Recordings(all) => {
            Ok(names(all.list()?.into_iter().map(|file| (file.name, false)).collect()))
        }
        Target::Path(root, path) => {
            let status = root.status(&path).map_err(|error| Failure::reading(&error))?;
            if status.is_some_and(|status| status.kind == Kind::Directory) {
                let entries = root.entries(&path, MAX_LISTED).map_err(|error| Failure::reading(&error))?;
                let is_directory = |status: Status| status.kind == Kind::Directory;
                return Ok(names(
                    entries.into_iter().map(|(name, status)| (name, is_directory(status))).collect(),
                ));
            }
            let object = open_object(Target::Path(root, path))?;
            let whole = if may_read { whole(&object) } else { None };
            Ok(Opened::Object(object, whole))
        }
        Target::Recording(..) => Ok(Opened::Object(open_object(target)?, None)),
    }
}

/// The bytes of a short file, read by the thread that has opened it: waking another one for them costs more than reading them. `None` if it
/// is longer, or is not read at once; it is read as others are then.
fn whole(object: &Object) -> Option<Vec<u8>> {
    let Object::File { file, status, .. } = object else { return None };
    let size = usize::try_from(status.size).ok().filter(|_| status.size <= MAX_AT_ONCE_BYTES)?;
    let mut bytes = vec![0; size];
    let read = read_at_in_turn(file, &mut bytes, 0).ok()?;
    (read == size).then_some(bytes)
}

/// A file or a recording.
pub(super) fn open_object(target: Target) -> Result<Object, Failure> {
    match target {
        Target::Path(root, path) => Object::of_root(&root, &path),
        Target::Recording(all, name) => {
            let file = Arc::new(all.find(&name)?);
            Ok(Object::Recording { all, file })
        }
        Target::Top | Target::Recordings(_) => Err(Failure::new(403, "Permission denied: it is a directory")),
    }
}

fn directory(text: String) -> Response {
    let mut head = HeaderMap::new();
    put(&mut head, CONTENT_TYPE, "text/plain; charset=utf-8");
    put(&mut head, CONTENT_LENGTH, &text.len().to_string());
    response(StatusCode::OK, head, Body::from(text))
}

/// `Digest` or `Repr-Digest`, if one is wanted: a known one of those that are wanted most, or else the first of them, computed now.
async fn digest(
    door: &Arc<Door>,
    connection: &Arc<Connection>,
    object: &Object,
    headers: &HeaderMap,
) -> Result<Option<(HeaderName, String)>, Failure> {
    let wanted = Wanted::of(headers);
    let Some(first) = wanted.algorithms.first().copied() else { return Ok(None) };
    let (of, object, door) = (object.clone(), object.clone(), Arc::clone(door));
    let known = door.clone().blocking(connection, move |_| Ok(of.digests())).await?;
    if let Some(header) = wanted.algorithms.iter().find_map(|algorithm| wanted.header(&known, *algorithm)) {
        return Ok(Some(header));
    }
    let Ok(_place) = Arc::clone(&door.computing).acquire_owned().await else { return Ok(None) };
    let computed = door.clone().blocking(connection, move |stop| object.compute(&door, first, stop)).await?;
    Ok(wanted.header(&computed, first))
}

/// The parts of a reply with ranges, and what its head says of them.
fn parted(head: &mut HeaderMap, ranges: &[Range<u64>], size: u64) -> Result<VecDeque<Part>, Failure> {
    let place = |range: &Range<u64>| format!("bytes {}-{}/{size}", range.start, range.end - 1);
    if let [one] = ranges {
        put(head, CONTENT_RANGE, &place(one));
        return Ok(VecDeque::from([Part::Range(one.clone())]));
    }
    let boundary = hex(&random::<12>().map_err(|error| Failure::of(&error))?);
    let mut parts = VecDeque::new();
    for (at, range) in ranges.iter().enumerate() {
        let begin = if at == 0 { "" } else { "\r\n" };
        let text = format!(
            "{begin}--{boundary}\r\nContent-Type: application/octet-stream\r\nContent-Range: {}\r\n\r\n",
            place(range)
        );
        parts.push_back(Part::Text(Bytes::from(text)));
        parts.push_back(Part::Range(range.clone()));
    }
    parts.push_back(Part::Text(Bytes::from(format!("\r\n--{boundary}--\r\n"))));
    put(head, CONTENT_TYPE, &format!("multipart/byteranges; boundary={boundary}"));
    Ok(parts)
}

/// A place among the bodies that are sent.
fn place_of(door: &Door, object: &Object) -> Result<OwnedSemaphorePermit, Failure> {
    let places = match object {
        Object::File { .. } => &door.bodies,
        Object::Recording { .. } => &door.recording_bodies,
    };
    let full = |_| Failure::busy("as many objects are being transferred as may be at a time");
    Arc::clone(places).try_acquire_owned().map_err(full)
}

/// What a body calls when its client takes a part: the connection counts as used then, and the body has its place until it ends.
fn taken(
    connection: &Arc<Connection>,
    place: OwnedSemaphorePermit,
) -> impl Fn() + Send + Sync + 'static + use<> {
    let connection = Arc::clone(connection);
    move || {
        let _held = &place;
        connection.asks();
    }
}

/// Parts of an object as a body, within the limits of bodies and memory.
pub(super) async fn body(
    door: &Arc<Door>,
    connection: &Arc<Connection>,
    object: Object,
    parts: VecDeque<Part>,
    bytes: u64,
) -> Result<Body, Failure> {
    let place = place_of(door, &object)?;
    let memory = door.memory.clone();
    let is_small = bytes <= MAX_AT_ONCE_BYTES;
    let begun = door
        .blocking(connection, move |stop| {
            let mut reader = BodyReader::new(object.source()?, parts, &memory);
            let mut all = Vec::new();
            while is_small
                && let Some(bytes) = reader.next_waiting(stop).map_err(|error| Failure::of(&error))?
            {
                all.extend_from_slice(&bytes);
            }
            Ok((reader, all))
        })
        .await?;
    match begun {
        (_, all) if is_small => Ok(Body::from(all)),
        (reader, _) => Ok(Body::new(FileBody::new(reader, bytes, taken(connection, place)))),
    }
}

fn put(head: &mut HeaderMap, name: HeaderName, value: &str) {
    if let Ok(value) = HeaderValue::from_str(value) {
        head.insert(name, value);
    }
}

fn response(status: StatusCode, head: HeaderMap, body: Body) -> Response {
    let mut response = Response::new(body);
    *response.status_mut() = status;
    *response.headers_mut() = head;
    response
}
