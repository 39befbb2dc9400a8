//! Permissions before bodies: what is checked when only the head of a request has been read.
//!
//! ```text
//!   head ─▶ a valid token? ─▶ a place among the calls ─▶ the body, within its size and time ─▶ the call
//!              └ no: refused, and nothing of the body is read
//! ```

use super::super::desk::{Caller, Kind, Refusal};
use super::dialect::Dialect;
use super::door::{BODY_TIMEOUT, Door, MAX_BODY_BYTES};
use super::{grpc, rest};
use crate::listening::Connection;
use axum::Extension;
use axum::body::{Body, to_bytes};
use axum::extract::{Request, State};
use axum::http::header::CONTENT_LENGTH;
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use std::sync::Arc;
use tokio::time::timeout;

/// Differences between the replies of gRPC and REST.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Speech {
    Rest,
    Grpc,
}

impl Speech {
    fn refused(self, refusal: Refusal) -> Response {
        match self {
            Speech::Rest => rest::refused(&refusal),
            Speech::Grpc => grpc::status(refusal).into_http::<Body>(),
        }
    }

    /// Maximum size of a body, bytes; a gRPC message has a head of five bytes.
    fn largest(self) -> usize {
        match self {
            Speech::Rest => MAX_BODY_BYTES,
            Speech::Grpc => MAX_BODY_BYTES + 5,
        }
    }

    fn too_large(self) -> Response {
        let text = format!("the request is larger than {MAX_BODY_BYTES} bytes");
        match self {
            Speech::Rest => (axum::http::StatusCode::PAYLOAD_TOO_LARGE, text).into_response(),
            Speech::Grpc => tonic::Status::out_of_range(text).into_http::<Body>(),
        }
    }
}

/// See the module.
pub(super) async fn check(
    State((door, speech)): State<(Door, Speech)>,
    Extension(connection): Extension<Arc<Connection>>,
    Extension(caller): Extension<Caller>,
    request: Request,
    next: Next,
) -> Response {
    let dialect = Dialect::of(request.uri().path());
    let known = door.desk.known(caller.token.as_deref());
    connection.prove(known.is_ok());
    let entered = match known {
        Ok(known) => door.calls.enter(known).await,
        Err(refusal) => Err(refusal),
    };
    let _under_way = match entered {
        Ok(under_way) => under_way,
        Err(refusal) => {
            let refused = Err::<(), _>(refusal.clone());
            door.desk.count(&refused);
            return speech.refused(dialect.refusal(refusal, caller.token.is_some()));
        }
    };
    let (head, body) = request.into_parts();
    let most = speech.largest();
    let said = head.headers.get(CONTENT_LENGTH).and_then(|value| value.to_str().ok()?.parse::<u64>().ok());
    if said.is_some_and(|said| said > most as u64) {
        return speech.too_large();
    }
    let body = match timeout(BODY_TIMEOUT, to_bytes(body, most)).await {
        Ok(Ok(body)) => body,
        // The body is too large; or the connection broke, and nobody reads this reply.
        Ok(Err(_)) => return speech.too_large(),
        Err(_) => {
            let text = format!("the request did not arrive within {} s", BODY_TIMEOUT.as_secs());
            return speech.refused(Refusal::new(Kind::Unavailable, text + "; hint: send it again"));
        }
    };
    next.run(Request::from_parts(head, Body::from(body))).await
}
