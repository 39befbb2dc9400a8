//! PUT: a file that arrives, is written and summed up by threads that wait for disks, and gets its name when it is whole.
//!
//! ```text
//!   head ─▶ may it be there? ─▶ upload ─▶ pieces of the body ─▶ length, digests as stated? ─▶ name, 201 (200: it replaces one)
//! ```
//!
//! Whatever ends it before leaves nothing: the client's end, a full disk, a wrong digest.

use super::door::{Door, next_data};
use super::place::Place;
use super::roots::{Upload, WebDavRules, etag};
use crate::http::Connection;
use crate::remote::digests::{self, Algorithm, DigestSet};
use crate::remote::failure::{Failure, scope_failure};
use axum::body::{Body, Bytes};
use axum::http::header::{CONTENT_LENGTH, CONTENT_RANGE, ETAG, HeaderName, IF_NONE_MATCH};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use skyhaul::auth::hex;
use skyhaul::io::disk::tree::Kind;
use std::io;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use tokio::task::{JoinHandle, spawn_blocking};

/// Bytes that are gathered before they are written.
const BATCH_BYTES: usize = 1 << 20;

/// The reply to PUT.
pub(super) async fn put(
    door: &Arc<Door>,
    connection: &Arc<Connection>,
    place: Place,
    headers: &HeaderMap,
    body: &mut Body,
) -> Result<Response, Failure> {
    if headers.contains_key(CONTENT_RANGE) {
        return Err(Failure::bad("a part of a file cannot be put: Content-Range is not allowed here"));
    }
    let stated = digests::expected(headers).map_err(Failure::bad)?;
    let answered = digests::wanted(headers).into_iter().next();
    let Ok(_turn) = Arc::clone(&door.uploads).try_acquire_owned() else {
        return Err(Failure::busy("as many files arrive as may at a time"));
    };
    let size = headers.get(CONTENT_LENGTH).and_then(|value| value.to_str().ok()?.parse().ok());
    let begun = {
        let (place, headers) = (place.clone(), headers.clone());
        let more: Vec<Algorithm> = stated.algorithms().chain(answered).collect();
        door.blocking(connection, move |_| begin(&place, &headers, size, &more)).await?
    };
    let upload = receive(connection, begun, body).await?;
    let is_new_only = headers.get(IF_NONE_MATCH).is_some_and(|value| value.as_bytes() == b"*");
    let (status, etag, digests) = {
        let headers = headers.clone();
        let finish =
            move |stop: &AtomicBool| finish((&place, &headers), upload, (size, &stated), !is_new_only, stop);
        door.blocking(connection, finish).await?
    };
    let mut response = (status, [(ETAG, etag)]).into_response();
    if let Some(text) = answered.and_then(|algorithm| digests.header(algorithm))
        && let Ok(value) = text.parse()
    {
        response.headers_mut().insert(HeaderName::from_static("digest"), value);
    }
    Ok(response)
}

/// Whether a file may be put there.
pub(super) fn check(place: &Place, headers: &HeaderMap) -> Result<(), Failure> {
    place.check_writable()?;
    let before = place.status()?;
    match before.map(|status| status.kind) {
        None | Some(Kind::File) => {}
        Some(Kind::Directory) => return Err(Failure::new(405, "Is a directory")),
        Some(Kind::Link | Kind::Special) => {
            return Err(Failure::new(403, "Permission denied: it is a symbolic link or a special file"));
        }
    }
    place.check_version(headers)?;
    place.check_replaceable(before.as_ref())?;
    place.check_parent()
}

/// Begins a file of this size, if it is known, of which more digests than the usual ones are computed.
pub(super) fn begin(
    place: &Place,
    headers: &HeaderMap,
    size: Option<u64>,
    more: &[Algorithm],
) -> Result<Upload, Failure> {
    check(place, headers)?;
    let algorithms = Algorithm::ALWAYS.into_iter().chain(more.iter().copied());
    place.root.upload(size, algorithms).map_err(|error| Failure::of(&error))
}

/// Writes the body. One batch is written while the next one is gathered.
pub(super) async fn receive(
    connection: &Connection,
    upload: Upload,
    body: &mut Body,
) -> Result<Upload, Failure> {
    let mut writing = write(upload, Vec::new());
    let (mut batch, mut bytes) = (Vec::new(), 0);
    loop {
        let data = match next_data(body).await {
            None => break,
            Some(Ok(data)) => data,
            Some(Err(error)) => {
                drop(written(writing).await);
                return Err(Failure::bad(format_args!("the body ended too early: {error}")));
            }
        };
        connection.asks();
        bytes += data.len();
        batch.push(data);
        if bytes >= BATCH_BYTES {
            writing = write(written(writing).await?, std::mem::take(&mut batch));
            bytes = 0;
        }
    }
    let upload = written(writing).await?;
    written(write(upload, batch)).await
}

type Writing = JoinHandle<io::Result<Upload>>;

fn write(mut upload: Upload, batch: Vec<Bytes>) -> Writing {
    spawn_blocking(move || {
        batch.iter().try_for_each(|bytes| upload.write(bytes))?;
        Ok(upload)
    })
}

async fn written(writing: Writing) -> Result<Upload, Failure> {
    let written = writing.await.map_err(|_| Failure::new(500, "a bug in this program ended its thread"))?;
    written.map_err(|error| Failure::of(&error))
}

/// Gives a file that has arrived its name, if it is what was announced: its size, its digests.
pub(super) fn finish(
    (place, headers): (&Place, &HeaderMap),
    mut upload: Upload,
    (size, stated): (Option<u64>, &DigestSet),
    replace: bool,
    stop: &AtomicBool,
) -> Result<(StatusCode, String, DigestSet), Failure> {
    // Another client may have changed it while the body arrived.
    place.check_version(headers)?;
    if size.is_some_and(|size| size != upload.bytes) {
        return Err(Failure::bad("the body is not as long as its head says"));
    }
    let digests = upload.digests();
    if let Some(algorithm) = stated.differs_from(&digests) {
        let text = |set: &DigestSet| set.get(algorithm).map(hex).unwrap_or_default();
        let (name, was, is) = (algorithm.name(), text(stated), text(&digests));
        return Err(Failure::new(
            412,
            format_args!("CHECKSUM MISMATCH: {name} {was} was stated, {is} arrived"),
        ));
    }
    place.make_parent()?;
    let existed = place.status()?.is_some();
    let published = upload.publish(&place.path, replace && place.can_replace, &digests, stop);
    let status = published.map_err(|error| match error.kind() {
        io::ErrorKind::AlreadyExists if replace => scope_failure("replace what exists"),
        io::ErrorKind::AlreadyExists => Failure::new(412, "File exists"),
        _ => Failure::of(&error),
    })?;
    let code = match (existed, place.root.rules) {
        (false, _) => StatusCode::CREATED,
        (true, WebDavRules::Grid) => StatusCode::OK,
        (true, WebDavRules::Rfc4918) => StatusCode::NO_CONTENT,
    };
    Ok((code, etag(&status), digests))
}
