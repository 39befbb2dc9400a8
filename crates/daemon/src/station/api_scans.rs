//! The calls of the HTTP API about scans: as they are on the disks now, and as the catalogue knows them.

use super::api::{ApiState, Failure, replied};
use super::catalogue::MAX_LISTED;
use crate::http::decoded;
use axum::http::StatusCode;
use axum::response::Response;
use serde_json::json;
use skyhaul::core::hint::Hint;
use skyhaul::recording::{ScanNames, ScanPattern, scan_summary_within};
use std::sync::Arc;
use std::time::Duration;

/// How long a disk may make no progress while scans are listed. If none answers, the reply comes after twice as long.
const LIST_TIMEOUT: Duration = Duration::from_millis(400);
/// Number of scans in a reply, if the request gives none.
const DEFAULT_LISTED: usize = 100;
/// Maximum number of patterns in a request.
const MAX_PATTERNS: usize = 256;

impl ApiState {
    pub(super) async fn scans(&self, query: &str) -> Result<Response, Failure> {
        let (mut after, mut limit) = (String::new(), DEFAULT_LISTED);
        for (key, value) in query.split('&').filter_map(|pair| pair.split_once('=')) {
            match key {
                "after" => value.clone_into(&mut after),
                "limit" => {
                    let parsed = value.parse().ok().filter(|limit| (1..=MAX_LISTED).contains(limit));
                    limit =
                        parsed.ok_or_else(|| Failure::bad(format!("limit: expected 1 to {MAX_LISTED}")))?;
                }
                _ => return Err(Failure::bad("expected `after` or `limit`")),
            }
        }
        let Ok(listing) = Arc::clone(&self.listing).try_lock_owned() else {
            let text = format!("another list is being made{}", Hint("ask again"));
            return Err(Failure::new(503, "busy", text));
        };
        let disks = self.service.shared.setup.disks.clone();
        let list = move || {
            // Also if the client leaves.
            let _listing = listing;
            let found = ScanNames::on(&disks, LIST_TIMEOUT);
            let names = found.labels.into_iter().filter(|name| *name > after).take(limit);
            let scans: Vec<_> =
                names.filter_map(|name| scan_summary_within(&disks, &name, LIST_TIMEOUT)).collect();
            serde_json::json!({ "scans": scans, "silent_disks": found.silent_disks })
        };
        let listed = tokio::task::spawn_blocking(list).await.map_err(Failure::bad)?;
        Ok(replied(StatusCode::OK, &listed))
    }

    pub(super) async fn catalogue(&self, query: &str) -> Result<Response, Failure> {
        let (mut after, mut limit, mut patterns) = (String::new(), DEFAULT_LISTED, Vec::new());
        for (key, value) in query.split('&').filter_map(|pair| pair.split_once('=')) {
            match key {
                "after" => after = decoded(value),
                "limit" => {
                    let parsed = value.parse().ok().filter(|limit| (1..=MAX_LISTED).contains(limit));
                    limit =
                        parsed.ok_or_else(|| Failure::bad(format!("limit: expected 1 to {MAX_LISTED}")))?;
                }
                "match" if patterns.len() < MAX_PATTERNS => {
                    patterns.push(ScanPattern::new(&decoded(value)).map_err(Failure::bad)?);
                }
                "match" => return Err(Failure::bad(format!("match: expected up to {MAX_PATTERNS}"))),
                _ => return Err(Failure::bad("expected `after`, `limit` or `match`")),
            }
        }
        let shared = Arc::clone(&self.service.shared);
        // Not on a thread that serves others: a long list takes milliseconds.
        let list = move || shared.catalogue.list(shared.recorded_scans(), (after.as_str(), limit), &patterns);
        let listed = tokio::task::spawn_blocking(list).await.map_err(Failure::bad)?;
        Ok(replied(StatusCode::OK, &listed))
    }

    pub(super) fn rebuild_catalogue(&self) -> Response {
        let unread = self.service.shared.catalogue.rebuild();
        replied(StatusCode::OK, &json!({ "unread": unread }))
    }
}
