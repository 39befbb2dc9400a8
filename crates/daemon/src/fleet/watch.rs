//! A prefix of keys as a sequence of changes, across cuts.
//!
//! ```text
//!   list at revision r ─▶ changes against what was reported before ─▶ Current
//!        ▲                                                               │ watch from r + 1
//!        │ compacted meanwhile                                           ▼
//!        └───────────────────────── cut: Away ◀─ broke, no leader ◀─ Put, Deleted …
//!                                    └─▶ watch from the last revision + 1, at any member
//! ```
//!
//! So every key that was deleted during a cut is reported as deleted, and no change is reported twice: a key is reported only with a
//! revision larger than its last.
//!
//! Limits: [`MAX_WATCHED_KEYS`] keys are remembered, with their revisions; [`QUEUE`] events wait for a reader, and the store waits for the
//! rest. Of values longer than [`MAX_FLEET_VALUE_BYTES`], only the length is reported.

use super::connection::{Connection, pause};
use super::error::{FleetStoreError, StoreProblem, is_stale_token, of_status};
use super::proto::event::EventType;
use super::proto::watch_client::WatchClient;
use super::proto::watch_request::RequestUnion;
use super::proto::{Event, KeyValue, WatchCreateRequest, WatchRequest, WatchResponse};
use super::runtime::StoreRuntime;
use super::store::{FleetStore, StoredValue, list, range_end};
use skyhaul_core::fleet::MAX_FLEET_VALUE_BYTES;
use std::collections::BTreeMap;
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::mpsc;
use tokio::time::timeout;
use tokio_stream::StreamExt as _;
use tonic::metadata::MetadataValue;
use tonic::{Request, Response, Streaming};

/// Maximum number of keys of a watched prefix.
pub const MAX_WATCHED_KEYS: usize = 16_384;
/// Events that wait for a reader.
const QUEUE: usize = 64;
/// Maximum time until a watch is confirmed.
const CREATE_TIMEOUT: Duration = Duration::from_secs(3);

/// What happens to a watched prefix.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PrefixEvent {
    /// A key is new or has changed.
    Put(StoredValue),
    /// The value of a key is new or has changed, and is longer than [`MAX_FLEET_VALUE_BYTES`].
    TooLong {
        /// The key.
        key: String,
        /// The revision of its change.
        mod_revision: i64,
        /// Length of the value, bytes.
        bytes: usize,
    },
    /// A key was deleted, or its lease has ended.
    Deleted {
        /// The key.
        key: String,
        /// The revision at which it was seen to be gone.
        revision: i64,
    },
    /// Everything up to this revision was reported.
    Current {
        /// The revision of the store.
        revision: i64,
    },
    /// The store is away; the watch continues by itself.
    Away(FleetStoreError),
}

/// A watch of all keys with a prefix. It ends when it is dropped.
#[derive(Debug)]
pub struct PrefixWatch {
    events: Option<mpsc::Receiver<PrefixEvent>>,
    runtime: Arc<StoreRuntime>,
}

impl FleetStore {
    /// Watches all keys with a prefix: those that exist are reported first.
    #[must_use]
    pub fn watch(&self, prefix: &str) -> PrefixWatch {
        let (sender, events) = mpsc::channel(QUEUE);
        let watching = Watching {
            connection: Arc::clone(&self.connection),
            prefix: prefix.to_owned(),
            known: BTreeMap::new(),
            next: None,
            reported: 0,
            is_current: false,
            is_away: false,
            events: sender,
        };
        self.runtime.spawn(watching.run());
        PrefixWatch { events: Some(events), runtime: Arc::clone(&self.runtime) }
    }
}

impl PrefixWatch {
    /// The next event, if there is one already.
    pub fn try_next(&mut self) -> Option<PrefixEvent> {
        self.events.as_mut()?.try_recv().ok()
    }

    /// The next event; `None` if there is none within this time.
    pub fn next(&mut self, time: Duration) -> Option<PrefixEvent> {
        if let Some(event) = self.try_next() {
            return Some(event);
        }
        let mut events = self.events.take()?;
        let waited = self.runtime.wait(async move {
            let event = timeout(time, events.recv()).await.ok().flatten();
            (events, event)
        });
        let (events, event) = waited?;
        self.events = Some(events);
        event
    }
}

/// Why a watch has ended.
enum Ended {
    /// The reader has gone.
    Over,
    /// The keys cannot be listed.
    NotListed(FleetStoreError),
    /// The watch.
    Failed(StoreProblem),
}

/// What the task of a watch knows.
struct Watching {
    connection: Arc<Connection>,
    prefix: String,
    /// Revisions of the keys that were reported.
    known: BTreeMap<String, i64>,
    /// The first revision that was not seen; `None`: the keys are to be listed.
    next: Option<i64>,
    /// The largest revision of what was reported. What comes again after a cut is not larger.
    reported: i64,
    is_current: bool,
    is_away: bool,
    events: mpsc::Sender<PrefixEvent>,
}

impl Watching {
    async fn run(mut self) {
        let mut rounds = 0;
        loop {
            let Err(ended) = self.watch().await;
            let error = match ended {
                Ended::Over => return,
                Ended::Failed(StoreProblem::Compacted) => {
                    self.next = None;
                    continue;
                }
                Ended::Failed(why) => FleetStoreError { what: "watch keys", at: self.connection.all(), why },
                Ended::NotListed(error) => error,
            };
            rounds = if std::mem::take(&mut self.is_current) { 0 } else { rounds + 1 };
            if !self.is_away {
                self.is_away = true;
                if self.events.send(PrefixEvent::Away(error)).await.is_err() {
                    return;
                }
            }
            tokio::select! {
                () = tokio::time::sleep(pause(rounds)) => {}
                () = self.events.closed() => return,
            }
        }
    }

    /// Lists if need be, and watches until something fails.
    async fn watch(&mut self) -> Result<Infallible, Ended> {
        if self.next.is_none() {
            let listed = list(&self.connection, &self.prefix, MAX_WATCHED_KEYS).await;
            let listed = listed.map_err(Ended::NotListed)?;
            self.take_list(listed.values, listed.revision).await?;
            (self.next, self.reported) = (Some(listed.revision + 1), listed.revision);
        }
        let member = self.connection.member();
        let watched = self.follow().await;
        if let Err(Ended::Failed(why)) = &watched
            && why.is_away()
        {
            self.connection.leave(member);
        }
        watched
    }

    /// Reports what a list has that was not reported, and what it has not any more.
    async fn take_list(&mut self, values: Vec<StoredValue>, revision: i64) -> Result<(), Ended> {
        let mut gone = std::mem::take(&mut self.known);
        for value in values {
            let before = gone.remove(&value.key);
            self.known.insert(value.key.clone(), value.mod_revision);
            if before.is_none_or(|before| before < value.mod_revision) {
                self.report_put(value).await?;
            }
        }
        for key in gone.into_keys() {
            self.send(PrefixEvent::Deleted { key, revision }).await?;
        }
        Ok(())
    }

    async fn follow(&mut self) -> Result<Infallible, Ended> {
        let from = self.next.unwrap_or(1);
        let mut replies = timeout(CREATE_TIMEOUT, self.open(from)).await;
        let replies = match &mut replies {
            Err(_) => return Err(Ended::Failed(StoreProblem::Silent(CREATE_TIMEOUT))),
            Ok(opened) => opened.as_mut().map_err(|why| Ended::Failed(why.clone()))?,
        };
        loop {
            let reply = tokio::select! {
                reply = replies.message() => reply,
                () = self.events.closed() => return Err(Ended::Over),
            };
            let ended = || StoreProblem::Unreachable("the member ended the watch".to_owned());
            let reply = match reply {
                Ok(Some(reply)) => reply,
                Ok(None) => return Err(Ended::Failed(ended())),
                Err(status) => return Err(Ended::Failed(of_status(&status))),
            };
            self.take_reply(reply).await?;
        }
    }

    /// Asks for the changes from a revision on, and waits until the member has confirmed it.
    async fn open(&self, from: i64) -> Result<Streaming<WatchResponse>, StoreProblem> {
        let create = WatchCreateRequest {
            key: self.prefix.as_bytes().to_vec(),
            range_end: range_end(&self.prefix),
            start_revision: from,
            progress_notify: true,
            fragment: true,
        };
        let message = WatchRequest { request_union: Some(RequestUnion::CreateRequest(create)) };
        let (channel, request) = self.connection.prepare(()).await.map_err(|(why, _)| why)?;
        // The call lasts as long as more requests may come.
        let mut call = Request::new(tokio_stream::once(message).chain(tokio_stream::pending()));
        *call.metadata_mut() = request.into_parts().0;
        // A member that is cut off from the others ends the watch.
        call.metadata_mut().insert("hasleader", MetadataValue::from_static("true"));
        let opened = WatchClient::new(channel).watch(call).await;
        opened.map(Response::into_inner).map_err(|status| {
            if is_stale_token(&status) {
                self.connection.forget_token();
            }
            of_status(&status)
        })
    }

    async fn take_reply(&mut self, reply: WatchResponse) -> Result<(), Ended> {
        if reply.compact_revision > 0 {
            return Err(Ended::Failed(StoreProblem::Compacted));
        }
        if reply.canceled {
            let reason = reply.cancel_reason;
            let is_of_rights = ["permission denied", "auth token", "user name is empty"];
            if is_of_rights.iter().any(|text| reason.contains(text)) {
                self.connection.forget_token();
                return Err(Ended::Failed(StoreProblem::NotPermitted(reason)));
            }
            return Err(Ended::Failed(StoreProblem::Unreachable(reason)));
        }
        let mut last = None;
        for Event { kv, r#type } in reply.events {
            let Some(kv) = kv else { continue };
            last = Some(kv.mod_revision);
            self.take_event(kv, r#type == i32::from(EventType::Delete)).await?;
        }
        let next = self.next.unwrap_or(1);
        if !reply.fragment {
            let seen = match (last, reply.header) {
                (Some(last), _) => last,
                // Progress: nothing up to this revision concerns the prefix.
                (None, Some(header)) if !reply.created => header.revision,
                (None, _) => next - 1,
            };
            self.next = Some(next.max(seen + 1));
            if !self.is_current {
                (self.is_current, self.is_away) = (true, false);
                self.send(PrefixEvent::Current { revision: seen }).await?;
            }
        }
        Ok(())
    }

    async fn take_event(&mut self, kv: KeyValue, is_deleted: bool) -> Result<(), Ended> {
        let (revision, Ok(key)) = (kv.mod_revision, String::from_utf8(kv.key)) else { return Ok(()) };
        let before = self.known.get(&key).copied();
        // It was reported before a cut.
        if revision < self.reported || before.is_some_and(|before| before >= revision) {
            return Ok(());
        }
        self.reported = revision;
        if is_deleted {
            return match self.known.remove(&key) {
                Some(_) => self.send(PrefixEvent::Deleted { key, revision }).await,
                None => Ok(()),
            };
        }
        if before.is_none() && self.known.len() >= MAX_WATCHED_KEYS {
            return Err(Ended::Failed(StoreProblem::TooManyKeys(MAX_WATCHED_KEYS)));
        }
        self.known.insert(key.clone(), revision);
        let (create_revision, lease) = (kv.create_revision, kv.lease);
        let value = StoredValue { key, value: kv.value, create_revision, mod_revision: revision, lease };
        self.report_put(value).await
    }

    async fn report_put(&self, value: StoredValue) -> Result<(), Ended> {
        let bytes = value.value.len();
        if bytes > MAX_FLEET_VALUE_BYTES {
            let StoredValue { key, mod_revision, .. } = value;
            return self.send(PrefixEvent::TooLong { key, mod_revision, bytes }).await;
        }
        self.send(PrefixEvent::Put(value)).await
    }

    async fn send(&self, event: PrefixEvent) -> Result<(), Ended> {
        self.events.send(event).await.map_err(|_| Ended::Over)
    }
}
