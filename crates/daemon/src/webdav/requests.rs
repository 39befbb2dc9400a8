//! Each request: who asks, whether it may, and who answers it.

use super::access::Access;
use super::changes::{self, Located, Transfer, located};
use super::counted_body::{counted_reply, counted_request};
use super::door::{Door, Target};
use super::ledger::{CopyWay, RequestEntry};
use super::log_line::TransferJob;
use super::put_place::PutPlace;
use super::request_body::next_data;
use super::scans::ScanPlace;
use super::sending::MISSING_BYTES;
use super::third_party::CopyOrder;
use super::{listing, macaroons, pulling, pushing, receiving, sending, storage_report};
use crate::http::{Connection, MAX_HEAD_BYTES};
use crate::remote::failure::Failure;
use crate::remote::request_path::RequestPath;
use crate::remote::unfinished::{RECEIVED, UploadKey};
use crate::scitags::{FlowWay, SciTag};
use crate::tokens::Use;
use axum::Extension;
use axum::body::{Body, HttpBody};
use axum::extract::{Request, State};
use axum::http::header::{ALLOW, CONNECTION, EXPECT, HeaderName};
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode, Uri};
use axum::response::{IntoResponse, Response};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;
use tokio::time::timeout;

/// Bytes of a refused body that are taken, and how long, so that the client reads the reply before the connection closes.
const DRAINED_BYTES: usize = 1 << 20;
const DRAIN_TIMEOUT: Duration = Duration::from_secs(2);
const METHODS: &str = "OPTIONS, HEAD, GET, PUT, DELETE, PROPFIND, MKCOL, MOVE, COPY";

async fn answer(
    door: &Arc<Door>,
    (connection, entry): (&Arc<Connection>, &Arc<RequestEntry>),
    access: &Access,
    (method, uri, headers): (&Method, &Uri, &HeaderMap),
    body: &mut Body,
) -> Result<Response, Failure> {
    if *method == Method::OPTIONS {
        let head = [(ALLOW, METHODS), (HeaderName::from_static("dav"), "1")];
        return Ok((StatusCode::OK, head).into_response());
    }
    if !METHODS.split(", ").any(|known| known == method.as_str()) {
        return Err(Failure::new(405, format_args!("the methods are {METHODS}")).with(ALLOW, METHODS));
    }
    let path = RequestPath::parse(uri.path()).map_err(Failure::bad)?;
    match method.as_str() {
        "PUT" => {
            let place = door.put_place(&path, access.check_put(&path)?)?;
            receiving::put(door, connection, place, headers, body).await
        }
        "PROPFIND" => {
            access.check(Use::Stat, &path)?;
            let target = (door.target(&path)?, path.clone(), access.may(Use::List, &path));
            listing::propfind(door, connection, target, headers, body).await
        }
        "MKCOL" => {
            access.check(Use::MakeDirectory, &path)?;
            if !body.is_end_stream() {
                return Err(Failure::new(415, "a body is not understood here"));
            }
            let place = door.place(&path, false)?;
            let made = door.blocking(connection, move |_| changes::make_directory(&place)).await?;
            Ok(made.into_response())
        }
        "DELETE" => {
            access.check(Use::Modify, &path)?;
            let (place, headers) = (door.place(&path, true)?, headers.clone());
            let done = door.blocking(connection, move |_| changes::delete(&place, &headers)).await?;
            Ok(done.into_response())
        }
        "MOVE" | "COPY" => transfer(door, (connection, entry), access, (method, uri, headers), &path).await,
        _ if storage_report::is_at(door, &path) => {
            access.check(Use::Stat, &RequestPath::default())?;
            storage_report::reply(door, connection, (uri, headers)).await
        }
        _ => {
            let may_read = access.may(Use::Read, &path);
            if !may_read {
                access.check(if *method == Method::GET { Use::List } else { Use::Stat }, &path)?;
            }
            let answered =
                sending::reply(door, connection, (door.target(&path)?, may_read), method, headers).await;
            match UploadKey::read(headers).filter(|_| *method == Method::HEAD) {
                Some(key) => with_received((door, connection), access, (&path, key), answered).await,
                None => answered,
            }
        }
    }
}

/// The reply to HEAD, with what has arrived of an upload of the client to this path, if it may put something there.
async fn with_received(
    (door, connection): (&Arc<Door>, &Arc<Connection>),
    access: &Access,
    (path, key): (&RequestPath, UploadKey),
    answered: Result<Response, Failure>,
) -> Result<Response, Failure> {
    let place = access.check_put(path).and_then(|can_replace| door.put_place(path, can_replace));
    let Ok(PutPlace::File(place)) = place else { return answered };
    if !place.root.is_writable {
        return answered;
    }
    let look =
        move |_: &AtomicBool| place.root.received(&place.path, &key).map_err(|error| Failure::of(&error));
    let received = door.blocking(connection, look).await?.text();
    match answered {
        Ok(mut response) => {
            if let Ok(value) = received.parse() {
                response.headers_mut().insert(RECEIVED, value);
            }
            Ok(response)
        }
        Err(failure) => Err(failure.with(RECEIVED, &received)),
    }
}

async fn transfer(
    door: &Arc<Door>,
    (connection, entry): (&Arc<Connection>, &Arc<RequestEntry>),
    access: &Access,
    (method, uri, headers): (&Method, &Uri, &HeaderMap),
    path: &RequestPath,
) -> Result<Response, Failure> {
    let is_shallow = match headers.get("depth").map(|value| value.as_bytes()) {
        None | Some(b"infinity" | b"Infinity") => false,
        Some(b"0") if method.as_str() == "COPY" => true,
        Some(_) => return Err(Failure::bad("Depth must be infinity, or 0 for COPY")),
    };
    let (is_move, overwrite) = (method.as_str() == "MOVE", Transfer::overwrite(headers)?);
    let (from, to) = if !is_move && headers.contains_key("source") {
        if headers.contains_key("destination") {
            return Err(Failure::bad("COPY has a Source or a Destination, not both"));
        }
        match located("source", headers, uri)? {
            Located::Here(from) => {
                entry.set_other("source", from.href(false));
                (from, path.clone())
            }
            Located::Elsewhere => {
                let can_replace = access.check_put(path)?;
                let order = CopyOrder::read("source", headers, overwrite, access.user())?;
                entry.set_copy(CopyWay::Pull, order.url.authority(), transfer_job(headers));
                let place = door.put_place(path, can_replace)?;
                return pulling::pull(door, (connection, entry), place, order, headers).await;
            }
        }
    } else {
        match located("destination", headers, uri)? {
            Located::Here(to) => {
                entry.set_other("destination", to.href(false));
                (path.clone(), to)
            }
            Located::Elsewhere if is_move => {
                return Err(Failure::new(502, "Destination is on another server"));
            }
            Located::Elsewhere => {
                access.check(Use::Read, path)?;
                let order = CopyOrder::read("destination", headers, overwrite, access.user())?;
                entry.set_copy(CopyWay::Push, order.url.authority(), transfer_job(headers));
                return pushing::push(door, (connection, entry), door.target(path)?, order).await;
            }
        }
    };
    if is_move {
        access.check_move(&from, &to)?;
    } else {
        access.check(Use::Read, &from)?;
    }
    let can_replace = access.check_put(&to)?;
    let from = door.target(&from)?;
    if !is_move && let PutPlace::Scan(to) = door.put_place(&to, can_replace)? {
        return copy_scan(door, connection, (from, to), headers).await;
    }
    let to = door.place(&to, can_replace)?;
    let transfer = Transfer { from, to, is_move, overwrite, is_shallow };
    let (of, headers) = (Arc::clone(door), headers.clone());
    let done = door.blocking(connection, move |stop| transfer.run(&of, &headers, stop)).await?;
    let (status, missing) = done;
    let mut answer = status.into_response();
    if missing > 0 {
        answer.headers_mut().insert(MISSING_BYTES, HeaderValue::from(missing));
    }
    Ok(answer)
}

/// Makes a recording of what is here.
async fn copy_scan(
    door: &Arc<Door>,
    connection: &Arc<Connection>,
    (from, to): (Target, ScanPlace),
    headers: &HeaderMap,
) -> Result<Response, Failure> {
    let _turn = door.upload_turn(&PutPlace::Scan(to.clone()))?;
    let (of, headers) = (Arc::clone(door), headers.clone());
    let work = move |stop: &AtomicBool| changes::copy_scan((from, &to), &headers, (&of, stop));
    Ok(door.blocking(connection, work).await?.into_response())
}

/// The job that a client names.
pub(super) fn transfer_job(headers: &HeaderMap) -> Option<TransferJob> {
    TransferJob::parse(headers.get("clientinfo")?.to_str().ok()?)
}

/// Whose traffic a request is. Of a copy, its own header counts before the one that is passed on.
pub(super) fn sci_tag(headers: &HeaderMap) -> Option<SciTag> {
    let of = |name: &str| SciTag::parse(headers.get(name)?.to_str().ok()?);
    of("scitag").or_else(|| of("transferheaderscitag"))
}

pub(super) async fn handle(
    State(door): State<Arc<Door>>,
    Extension(connection): Extension<Arc<Connection>>,
    request: Request,
) -> Response {
    let (head, body) = request.into_parts();
    let entry = door.ledger.enter(connection.peer, &head.method, head.uri.path());
    let mut body = counted_request(body, &entry);
    sci_tag(&head.headers).into_iter().for_each(|tag| entry.set_tag(tag));
    let request = (&head.method, &head.uri);
    let admitted = door.access.admit(&connection, request, &head.headers).await;
    connection.prove(admitted.is_ok());
    if let Ok(access) = &admitted {
        entry.set_user(door.access.user_of(access));
    }
    let bytes: usize = head.headers.iter().map(|(name, value)| name.as_str().len() + value.len() + 4).sum();
    let is_too_long = bytes + head.uri.path().len() > MAX_HEAD_BYTES;
    let answered = match admitted {
        _ if !is_too_long && macaroons::is_asked(&head.method, &head.headers) => {
            match (&door.macaroons, admitted) {
                (Some(macaroons), Ok(access)) => {
                    let reply = macaroons.reply(&access, head.uri.path(), &mut body, METHODS).await;
                    reply.map_err(|failure| door.access.note_refusal(&access, request, failure))
                }
                _ => Err(macaroons::refusal(METHODS)),
            }
        }
        Err(failure) => Err(failure),
        Ok(_) if is_too_long => {
            Err(Failure::new(431, format_args!("the head is longer than {MAX_HEAD_BYTES} bytes")))
        }
        Ok(access) => {
            let way = match head.method {
                Method::GET => Some(FlowWay::Given),
                Method::PUT => Some(FlowWay::Received),
                _ => None,
            };
            entry.tag().zip(way).into_iter().for_each(|(tag, way)| connection.mark(tag, way));
            let whole = (&head.method, &head.uri, &head.headers);
            answer(&door, (&connection, &entry), &access, whole, &mut body)
                .await
                .map_err(|failure| door.access.note_refusal(&access, request, failure))
        }
    };
    let mut response = answered.unwrap_or_else(IntoResponse::into_response);
    if !is_read(&mut body, &head.headers).await {
        response.headers_mut().insert(CONNECTION, axum::http::HeaderValue::from_static("close"));
    }
    counted_reply(response, entry, connection.files().cloned())
}

/// Takes what is left of a body, if it is short and on its way; `false` if something is left.
async fn is_read(body: &mut Body, headers: &HeaderMap) -> bool {
    if body.is_end_stream() {
        return true;
    }
    // The client waits for the reply before it sends.
    if headers.contains_key(EXPECT) {
        return false;
    }
    let all = async {
        let mut bytes = 0;
        while let Some(data) = next_data(body).await {
            bytes += data.map_or(DRAINED_BYTES, |data| data.len());
            if bytes >= DRAINED_BYTES {
                return false;
            }
        }
        true
    };
    timeout(DRAIN_TIMEOUT, all).await.unwrap_or(false)
}
