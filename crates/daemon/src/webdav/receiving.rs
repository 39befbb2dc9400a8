//! PUT: a file that arrives, is written and summed up by threads that wait for disks, and gets its name when it is whole.
//!
//! ```text
//!   head ─▶ may it be there? ─▶ upload ─▶ pieces of the body ─▶ length, digests as stated? ─▶ name, 201 (200: it replaces one)
//! ```
//!
//! Whatever ends it before leaves nothing: the client's end, a full disk, a wrong digest. An upload with a key may be
//! [continued](crate::served::continued) when its connection broke: then what has arrived stays, without a name.

use super::door::Door;
use super::put_place::{Continuation, PutPlace, PutUpload};
use super::request_body::next_data;
use crate::http::Connection;
use crate::remote::digests::{self, Algorithm, DigestSet, Wanted};
use crate::remote::failure::Failure;
use crate::remote::unfinished::{UploadKey, rest};
use axum::body::{Body, Bytes};
use axum::http::header::{CONTENT_LENGTH, ETAG, HeaderValue, IF_NONE_MATCH};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use skyhaul::auth::hex;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use tokio::task::{JoinHandle, spawn_blocking};

/// Bytes that are gathered before they are written.
const BATCH_BYTES: usize = 1 << 20;

/// The reply to PUT.
pub(super) async fn put(
    door: &Arc<Door>,
    connection: &Arc<Connection>,
    place: PutPlace,
    headers: &HeaderMap,
    body: &mut Body,
) -> Result<Response, Failure> {
    let stated = digests::expected(headers).map_err(Failure::bad)?;
    let wanted = Wanted::of(headers);
    let answered = wanted.algorithms.first().copied();
    let _turn = door.upload_turn(&place)?;
    let (size, continuation) = extent(headers)?;
    let begun = {
        let (place, headers) = (place.clone(), headers.clone());
        let more: Vec<Algorithm> = stated.algorithms().chain(answered).collect();
        let begin = move |_: &AtomicBool| match continuation {
            Some(how) => place.continued(&headers, size, (&more, &how)),
            None => place.begin(&headers, size, &more),
        };
        door.blocking(connection, begin).await?
    };
    let upload = receive(connection, begun, body).await?;
    let is_new_only = headers.get(IF_NONE_MATCH).is_some_and(|value| value.as_bytes() == b"*");
    let (status, etag, digests) = {
        let headers = headers.clone();
        let finish =
            move |stop: &AtomicBool| finish((&place, &headers), upload, (size, &stated), !is_new_only, stop);
        door.blocking(connection, finish).await?
    };
    let mut response = status.into_response();
    if let Some(Ok(etag)) = etag.map(HeaderValue::try_from) {
        response.headers_mut().insert(ETAG, etag);
    }
    if let Some((name, text)) = answered.and_then(|algorithm| wanted.header(&digests, algorithm))
        && let Ok(value) = text.parse()
    {
        response.headers_mut().insert(name, value);
    }
    Ok(response)
}

/// The size of the whole file, if it is known; and how it may be continued.
fn extent(headers: &HeaderMap) -> Result<(Option<u64>, Option<Continuation>), Failure> {
    let length = headers.get(CONTENT_LENGTH).and_then(|value| value.to_str().ok()?.parse::<u64>().ok());
    let key = UploadKey::read(headers);
    let Some((from, size)) = rest(headers).map_err(Failure::bad)? else {
        return Ok((length, key.map(|key| Continuation { key, from: 0 })));
    };
    let Some(key) = key else {
        return Err(Failure::bad(
            "a part of a file cannot be put: Content-Range is for uploads that are continued",
        ));
    };
    if from == 0 || length.is_some_and(|length| length != size - from) {
        return Err(Failure::bad("Content-Range must be the rest of a file, as long as the body"));
    }
    Ok((Some(size), Some(Continuation { key, from })))
}

/// Writes the body. One batch is written while the next one is gathered.
pub(super) async fn receive(
    connection: &Connection,
    upload: PutUpload,
    body: &mut Body,
) -> Result<PutUpload, Failure> {
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

type Writing = JoinHandle<Result<PutUpload, Failure>>;

fn write(mut upload: PutUpload, batch: Vec<Bytes>) -> Writing {
    spawn_blocking(move || {
        batch.iter().try_for_each(|bytes| upload.write(bytes))?;
        Ok(upload)
    })
}

async fn written(writing: Writing) -> Result<PutUpload, Failure> {
    writing.await.map_err(|_| Failure::new(500, "a bug in this program ended its thread"))?
}

/// Gives what has arrived its name, if it is what was announced: its size, its digests.
pub(super) fn finish(
    (place, headers): (&PutPlace, &HeaderMap),
    mut upload: PutUpload,
    (size, stated): (Option<u64>, &DigestSet),
    replace: bool,
    stop: &AtomicBool,
) -> Result<(StatusCode, Option<String>, DigestSet), Failure> {
    upload.leave_nothing();
    // Another client may have changed it while the body arrived.
    match place {
        PutPlace::File(place) => place.check_version(headers)?,
        PutPlace::Scan(scan) => scan.check(headers)?,
    }
    if size.is_some_and(|size| size != upload.bytes()) {
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
    let (status, etag) = upload.publish(place, &digests, replace, stop)?;
    Ok((status, etag, digests))
}
