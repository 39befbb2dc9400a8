//! COPY with `Destination`: this server sends a file or a recording to another one.
//!
//! ```text
//!   open ─▶ HEAD: is something there? ─▶ 202 ─▶ PUT, verified (remote::put) ─▶ success │ failure, and what is left of it removed
//! ```

use super::copies::CopyPlace;
use super::door::{Door, Target, used_while};
use super::ledger::RequestEntry;
use super::sending;
use super::third_party::{self, CopyOrder};
use crate::http::Connection;
use crate::remote::failure::Failure;
use crate::remote::outgoing::Part;
use crate::remote::progress::{Progress, Step};
use crate::remote::put::{PutOrder, Sent, There, clean, compare, look, put, verify};
use crate::remote::session::RemoteSession;
use crate::scitags::FlowWay;
use crate::served::object::Object;
use axum::body::Body;
use axum::response::Response;
use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::Arc;
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
    let before = used_while(connection, timeout(HEAD_TIMEOUT, look(&mut destination))).await;
    let late = || Failure::new(504, "Connection timed out: the destination did not answer HEAD");
    let before = before.map_err(|_| late())??;
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
    order: CopyOrder,
    progress: Arc<Progress>,
    sent: Arc<Sent>,
    _held: CopyPlace,
}

impl Push {
    async fn run(mut self) -> Result<(), Failure> {
        let how = PutOrder {
            size: self.object.size(),
            overwrite: self.order.overwrite,
            stated: self.order.stated.clone(),
            verify: self.order.verify,
            leave: LEAVE_TIMEOUT,
        };
        let of = (Arc::clone(&self.door), Arc::clone(&self.connection), self.object.clone());
        let mut make = || {
            let ((door, connection, object), size) = (of.clone(), how.size);
            let making = async move {
                let parts = VecDeque::from([Part::Range(0..size)]);
                sending::body(&door, &connection, object, parts, size).await
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
