//! PROPFIND: what there is (RFC 4918, 9.1), of depth 0 and 1.

use super::door::{Door, Target};
use super::properties::{Entry, MAX_BODY_BYTES, Wanted, multistatus};
use super::request_body::read_whole;
use super::sending::MAX_LISTED;
use crate::http::Connection;
use crate::remote::failure::{Failure, scope_failure};
use crate::remote::request_path::RequestPath;
use crate::served::recordings::RecordingFile;
use crate::served::roots::{Root, etag, modified};
use axum::body::Body;
use axum::http::header::CONTENT_TYPE;
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use skyhaul::io::disk::tree::{Kind, Status};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, SystemTime};
use tokio::time::timeout;

/// How long a body may take to arrive.
const BODY_TIMEOUT: Duration = Duration::from_secs(10);

/// The reply to PROPFIND.
pub(super) async fn propfind(
    door: &Arc<Door>,
    connection: &Arc<Connection>,
    (target, path, may_list): (Target, RequestPath, bool),
    headers: &HeaderMap,
    body: &mut Body,
) -> Result<Response, Failure> {
    let is_deep = match headers.get("depth").map(|value| value.as_bytes()) {
        Some(b"0") => false,
        Some(b"1") => true,
        _ => {
            let text = "Depth must be 0 or 1";
            return Err(Failure::new(403, text).condition("propfind-finite-depth"));
        }
    };
    let body = timeout(BODY_TIMEOUT, read_whole(body, MAX_BODY_BYTES))
        .await
        .map_err(|_| Failure::new(408, "the body did not arrive in time"))??;
    let wanted = Wanted::read(&body, is_deep).map_err(Failure::bad)?;
    let Ok(_place) = Arc::clone(&door.listings).acquire_owned().await else {
        return Err(Failure::busy("it ends"));
    };
    let text = {
        let of = Arc::clone(door);
        let list = move |_: &AtomicBool| {
            let entries = entries(&of, target, &path, is_deep, &wanted)?;
            if is_deep && !may_list && entries.first().is_some_and(|first| first.is_directory) {
                return Err(scope_failure("list the directory"));
            }
            Ok(multistatus(&entries, &wanted))
        };
        door.blocking(connection, list).await?
    };
    Ok((StatusCode::MULTI_STATUS, [(CONTENT_TYPE, "application/xml; charset=utf-8")], text).into_response())
}

fn entries(
    door: &Door,
    target: Target,
    path: &RequestPath,
    is_deep: bool,
    wanted: &Wanted,
) -> Result<Vec<Entry>, Failure> {
    let mut all = Vec::new();
    match target {
        Target::Top => {
            all.push(directory(path, SystemTime::UNIX_EPOCH, None));
            if is_deep {
                all.extend(door.top().map(|name| directory(&path.child(name), SystemTime::UNIX_EPOCH, None)));
            }
        }
        Target::Recordings(recordings) => {
            let files = if is_deep { recordings.list()? } else { Vec::new() };
            let last = files.iter().map(|file| file.modified).max();
            all.push(directory(path, last.unwrap_or(SystemTime::UNIX_EPOCH), None));
            all.extend(files.iter().map(|file| recording(&path.child(&file.name), file)));
        }
        Target::Recording(recordings, name) => all.push(recording(path, &recordings.find(&name)?)),
        Target::Path(root, below) => of_root(&root, &below, path, is_deep, wanted, &mut all)?,
    }
    Ok(all)
}

fn of_root(
    root: &Root,
    below: &Path,
    path: &RequestPath,
    is_deep: bool,
    wanted: &Wanted,
    all: &mut Vec<Entry>,
) -> Result<(), Failure> {
    let reading = |error: std::io::Error| Failure::reading(&error);
    let status = root.status(below).map_err(reading)?.ok_or_else(Failure::not_found)?;
    match status.kind {
        Kind::File => all.push(file(path, &status)),
        Kind::Link | Kind::Special => return Err(Failure::not_found()),
        Kind::Directory => {
            let space = if wanted.has_space() { root.space().ok() } else { None };
            all.push(directory(path, modified(&status), space));
            if is_deep {
                let entries = root.entries(below, MAX_LISTED).map_err(reading)?;
                all.extend(entries.iter().map(|(name, status)| match status.kind {
                    Kind::Directory => directory(&path.child(name), modified(status), space),
                    _ => file(&path.child(name), status),
                }));
            }
        }
    }
    Ok(())
}

fn directory(path: &RequestPath, modified: SystemTime, space: Option<(u64, u64)>) -> Entry {
    Entry {
        href: path.href(true),
        name: path.last().to_owned(),
        is_directory: true,
        size: 0,
        modified,
        etag: String::new(),
        space,
    }
}

fn file(path: &RequestPath, status: &Status) -> Entry {
    Entry {
        href: path.href(false),
        name: path.last().to_owned(),
        is_directory: false,
        size: status.size,
        modified: modified(status),
        etag: etag(status),
        space: None,
    }
}

fn recording(path: &RequestPath, of: &RecordingFile) -> Entry {
    Entry {
        href: path.href(false),
        name: of.name.clone(),
        is_directory: false,
        size: of.bytes,
        modified: of.modified,
        etag: of.etag.clone(),
        space: None,
    }
}
