//! COPY with `Destination`: this server sends a file or a recording to another one.
//!
//! ```text
//!   open ─▶ HEAD: is something there? ─▶ 202 ─▶ PUT, or of the rest, verified (remote::put) ─▶ success │ failure, and what is left of it removed
//! ```

use super::copies::CopyPlace;
use super::door::{Door, Target, used_while};
use super::ledger::RequestEntry;
use super::sending;
use super::third_party::{self, CopyOrder};
use crate::http::Connection;
use crate::remote::digests::{Algorithm, Digester};
use crate::remote::failure::Failure;
use crate::remote::outgoing::{BodyReader, Part};
use crate::remote::progress::{Progress, Step};
use crate::remote::put::{Continued, PutOrder, Sent, There, can_continue, clean, compare, look, put, verify};
use crate::remote::session::RemoteSession;
use crate::remote::unfinished::{Received, UploadKey};
use crate::scitags::FlowWay;
use crate::served::object::Object;
use axum::body::Body;
use axum::response::Response;
use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;
use tokio::time::timeout;

/// Time for the destination to say what it has, before anything is sent.
const HEAD_TIMEOUT: Duration = Duration::from_secs(60);
/// Time for the destination to say that it takes the body.
const LEAVE_TIMEOUT: Duration = Duration::from_secs(60);

/// The reply to COPY with a `Destination` on another server.
pub(super) async fn push(
    door: &Arc<Door>,
    (connection, entry): (&Arc<Connection>, &Arc<RequestEntry>),
    target: Target,
    order: CopyOrder,
) -> Result<Response, Failure> {
    let object = door.blocking(connection, move |_| sending::open_object(target)).await?;
    let held = door.copies.enter(order.user, &order.url.host)?;
    let progress = Arc::new(Progress::default());
    let session = || RemoteSession::new(&door.remote, "destination", (&order.url, &order.passed), &progress);
    let mut destination = session().marked(door.mark(entry, FlowWay::Sent));
    let mut other = session();
    // Of the bytes alone: an engine that tries again may come with another path or token.
    let key = UploadKey::of(&format!("object {}", object.etag()), object.size());
    let before = used_while(connection, timeout(HEAD_TIMEOUT, look(&mut destination, key.as_ref()))).await;
    let late = || Failure::new(504, "Connection timed out: the destination did not answer HEAD");
    let (before, received) = before.map_err(|_| late())??;
    if !order.overwrite && matches!(before, There::Object(..)) {
        return Err(Failure::new(412, "File exists at the destination, and Overwrite is F"));
    }
    let sent = Arc::new(Sent::default());
    let undo = {
        let (sent, before) = (Arc::clone(&sent), before.clone());
        async move { clean(&mut other, &before, &sent).await }
    };
    let push = Push {
        door: Arc::clone(door),
        connection: Arc::clone(connection),
        destination,
        object,
        received: key.zip(received).filter(|_| can_continue(&order.stated)).map(Continued::of),
        order,
        progress: Arc::clone(&progress),
        sent,
        _held: held,
    };
    Ok(third_party::reply((connection, entry), progress, door.stall, push.run(), undo))
}

/// A copy that has begun.
struct Push {
    door: Arc<Door>,
    connection: Arc<Connection>,
    destination: RemoteSession,
    object: Object,
    /// What the destination has of it, if it continues uploads.
    received: Option<Continued>,
    order: CopyOrder,
    progress: Arc<Progress>,
    sent: Arc<Sent>,
    _held: CopyPlace,
}

impl Push {
    /// What the destination has of the object, if it is the beginning of it.
    async fn continued(&mut self) -> Result<Option<Continued>, Failure> {
        let Some(mut continued) = self.received.take() else { return Ok(None) };
        let bytes = continued.there.bytes;
        if bytes > 0 {
            let (door, object, progress) =
                (Arc::clone(&self.door), self.object.clone(), Arc::clone(&self.progress));
            let is_part = bytes < object.size();
            let sum = move |stop: &AtomicBool| {
                let parts = VecDeque::from([Part::Range(0..bytes)]);
                let mut reader = BodyReader::new(object.source()?, parts, &door.memory);
                let mut digester = Digester::new(Algorithm::ALWAYS);
                while let Some(piece) = reader.next_waiting(stop).map_err(|error| Failure::of(&error))? {
                    digester.update(&piece);
                    // What is compared counts as moving; it is not sent.
                    progress.compared(piece.len());
                }
                Ok(digester.finish())
            };
            if !is_part || self.door.blocking(&self.connection, sum).await? != continued.there.digests {
                continued.there = Received::default();
            }
        }
        Ok(Some(continued))
    }

    async fn run(mut self) -> Result<(), Failure> {
        let continued = self.continued().await?;
        let how = PutOrder {
            size: self.object.size(),
            overwrite: self.order.overwrite,
            stated: self.order.stated.clone(),
            verify: self.order.verify,
            leave: LEAVE_TIMEOUT,
            continued,
        };
        let of = (Arc::clone(&self.door), Arc::clone(&self.connection), self.object.clone());
        let mut make = || {
            let ((door, connection, object), rest) = (of.clone(), how.from()..how.size);
            let making = async move {
                let bytes = rest.end - rest.start;
                sending::body(&door, &connection, object, VecDeque::from([Part::Range(rest)]), bytes).await
            };
            Box::pin(making) as Pin<Box<dyn Future<Output = Result<Body, Failure>> + Send>>
        };
        put(&mut self.destination, &how, (&self.progress, &self.sent), &mut make).await?;
        let digests = self.sent.digests();
        let known = self.object.clone();
        let known = self.door.blocking(&self.connection, move |_| match known.is_unchanged() {
            true => Ok(known.digests()),
            false => Err(Failure::new(500, "the file changed while it was copied")),
        });
        let mut stated = known.await?;
        stated.merge(&self.order.stated);
        compare(&stated, &digests, "was sent")?;
        self.progress.enter(Step::Confirming);
        verify(&mut self.destination, &how, &digests).await.map(drop)
    }
}
