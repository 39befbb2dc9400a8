//! The queue of copies over the HTTP API.

use super::api::{ApiState, Failure, replied};
use super::clock::now;
use super::delivery_body::{read_hours, read_priority};
use super::json;
use super::queue::{CopyOrder, OrderError};
use super::routes::Call;
use axum::extract::Request;
use axum::http::StatusCode;
use axum::response::Response;
use serde::Deserialize;
use serde_json::{Value, json};
use skyhaul::core::hint::Hint;
use skyhaul_core::station::{QueueRequest, QueuedId};
use std::sync::Arc;
use tokio::sync::OwnedMutexGuard;

/// The body of an order.
#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct OrderBody {
    scans: Vec<String>,
    to: Vec<String>,
    at: Option<String>,
    rate_bits: Option<u64>,
    from: Option<String>,
    until: Option<String>,
    priority: i8,
    schedule: Option<String>,
    encrypt: bool,
}

/// The body of a retry.
#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct RetryBody {
    /// Another destination, with its directories.
    to: Vec<String>,
}

impl From<OrderError> for Failure {
    fn from(error: OrderError) -> Self {
        use OrderError as E;
        match error {
            E::Refused(refusal) => refusal.into(),
            E::Bad(text) => Self::bad(text),
            E::Scan(text) => Self::new(409, "bad_scan", text),
            error @ E::Path { .. } => Self::new(502, "no_path", error),
            error @ E::Io(_) => Self::new(503, "failed", error),
        }
    }
}

impl ApiState {
    /// All copies.
    pub(super) fn queue(&self) -> Value {
        self.service.queued().iter().map(|one| json::queued(one, now())).collect()
    }

    pub(super) async fn queue_copies(&self, request: Request) -> Result<Response, Failure> {
        let body: OrderBody = self.read(request).await?;
        let OrderBody { scans, to, at, rate_bits, schedule, encrypt, .. } = body;
        let hours = read_hours(body.from.as_deref(), body.until.as_deref()).map_err(Failure::bad)?;
        let priority = read_priority(body.priority).map_err(Failure::bad)?;
        let ordering = self.ordering_turn()?;
        let service = Arc::clone(&self.service);
        let order = CopyOrder { scans, to, at, rate_bits, hours, priority, schedule, encrypt };
        let work = move || {
            // Also if the client leaves.
            let _ordering = ordering;
            service.order_copies(&order)
        };
        let accepted = tokio::task::spawn_blocking(work).await.map_err(Failure::bad)??;
        let left_out = accepted.left_out.iter().map(|(scan, why)| json!({ "scan": scan, "reason": why }));
        let free: Vec<u64> = accepted.path.spaces.iter().map(|space| space.free_bytes).collect();
        let reply = json!({
            "copies": accepted.copies.iter().map(|one| json::queued(one, now())).collect::<Vec<_>>(),
            "left_out": left_out.collect::<Vec<_>>(),
            "path": {
                "rate_bits": accepted.path.bits_per_second.round(),
                "rtt_seconds": accepted.path.rtt_seconds,
                "free_bytes": free,
            },
        });
        Ok(replied(StatusCode::CREATED, &reply))
    }

    /// Tries a copy again with another destination: as a new copy, in its place.
    async fn redirect_copy(&self, copy: QueuedId, to: Vec<String>) -> Result<Response, Failure> {
        let ordering = self.ordering_turn()?;
        let service = Arc::clone(&self.service);
        let work = move || {
            // Also if the client leaves.
            let _ordering = ordering;
            service.redirect_copy(copy, to)
        };
        let accepted = tokio::task::spawn_blocking(work).await.map_err(Failure::bad)??;
        let copies = accepted.copies.first().map(|one| json::queued(one, now()));
        Ok(replied(StatusCode::OK, &copies.unwrap_or_default()))
    }

    /// A place among those whose order is checked.
    fn ordering_turn(&self) -> Result<OwnedMutexGuard<()>, Failure> {
        Arc::clone(&self.ordering).try_lock_owned().map_err(|_| {
            let text = format!("another order is being checked{}", Hint("ask again"));
            Failure::new(503, "busy", text)
        })
    }

    pub(super) async fn change_queue(
        &self,
        call: Call,
        number: &str,
        request: Request,
    ) -> Result<Response, Failure> {
        let number = number.parse().map_err(|_| {
            let hint = Hint("`skyhaul transfers` lists them");
            Failure::bad(format!("expected the number of a copy{hint}"))
        })?;
        let copy = QueuedId(number);
        if call == Call::RetryCopy {
            let RetryBody { to } = self.read(request).await?;
            if !to.is_empty() {
                return self.redirect_copy(copy, to).await;
            }
        }
        let request = match call {
            Call::CancelCopy => QueueRequest::Cancel(copy),
            Call::RetryCopy => QueueRequest::Retry(copy),
            _ => QueueRequest::Remove(copy),
        };
        let service = Arc::clone(&self.service);
        let work = move || service.ask_queue(request);
        tokio::task::spawn_blocking(work).await.map_err(Failure::bad)??;
        let all = self.service.queued();
        let reply = match all.iter().find(|one| one.copy == copy) {
            Some(one) => json::queued(one, now()),
            None => all.iter().map(|one| json::queued(one, now())).collect(),
        };
        Ok(replied(StatusCode::OK, &reply))
    }
}
