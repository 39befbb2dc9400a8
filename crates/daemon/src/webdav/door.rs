//! What all requests share: what is served, to whom, and how many things happen at a time.

use super::access::AccessControl;
use super::copies::Copies;
use super::ledger::{AccessLedger, RequestEntry};
use super::macaroons::Macaroons;
use super::place::Place;
use super::put_place::PutPlace;
use super::scans::ScanPlace;
use crate::http::Connection;
use crate::remote::failure::Failure;
use crate::remote::request_path::RequestPath;
use crate::remote::session::RemoteAccess;
use crate::scitags::{FlowMark, FlowMarker, FlowWay};
use crate::served::recordings::Recordings;
use crate::served::roots::Root;
use skyhaul::io::memory::heap::HeapMemory;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::spawn_blocking;
use tokio::time::sleep;

/// The directory of recordings.
pub(super) const RECORDINGS: &str = "recordings";
/// How often a connection counts as used while a thread works for it.
const WORK_INTERVAL: Duration = Duration::from_secs(5);

/// What all requests share.
pub(super) struct Door {
    pub(super) ledger: Arc<AccessLedger>,
    pub(super) access: AccessControl,
    /// What signs tokens for holders of certificates, if this server signs tokens.
    pub(super) macaroons: Option<Macaroons>,
    pub(super) roots: Vec<Arc<Root>>,
    pub(super) recordings: Option<Arc<Recordings>>,
    pub(super) memory: HeapMemory,
    pub(super) bodies: Arc<Semaphore>,
    pub(super) recording_bodies: Arc<Semaphore>,
    pub(super) uploads: Arc<Semaphore>,
    /// Scans that arrive; each has memory for chunks.
    pub(super) scan_uploads: Arc<Semaphore>,
    pub(super) computing: Arc<Semaphore>,
    pub(super) listings: Arc<Semaphore>,
    /// Copies with other servers: those that run, how those servers are reached, and after how long without progress one is ended.
    pub(super) copies: Arc<Copies>,
    pub(super) streams: Arc<Semaphore>,
    pub(super) remote: Arc<RemoteAccess>,
    pub(super) stall: Duration,
    pub(super) marker: Option<Arc<FlowMarker>>,
    /// That of URLs of this server.
    pub(super) scheme: &'static str,
}

/// What a path names.
pub(super) enum Target {
    /// All that is served.
    Top,
    /// All recordings.
    Recordings(Arc<Recordings>),
    /// One of this name.
    Recording(Arc<Recordings>, String),
    /// A path in a root.
    Path(Arc<Root>, PathBuf),
}

/// A place among those who upload, and among those who upload scans.
pub(super) struct UploadTurn {
    _all: OwnedSemaphorePermit,
    _scan: Option<OwnedSemaphorePermit>,
}

/// Ends the work of a thread when nobody waits for it any more.
struct StopOnDrop(Arc<AtomicBool>);

impl Drop for StopOnDrop {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

impl Door {
    /// How the connections of the copy that this request begins are marked.
    pub(super) fn mark(&self, entry: &RequestEntry, way: FlowWay) -> Option<FlowMark> {
        FlowMark::of_copy(self.marker.as_ref()?, entry.tag(), way)
    }

    /// The names next to the root.
    pub(super) fn top(&self) -> impl Iterator<Item = &str> {
        let recordings = self.recordings.as_ref().map(|_| RECORDINGS);
        self.roots.iter().map(|root| root.name.as_str()).chain(recordings)
    }

    pub(super) fn target(&self, path: &RequestPath) -> Result<Target, Failure> {
        let Some(first) = path.names().first() else { return Ok(Target::Top) };
        if let Some(recordings) = self.recordings.as_ref().filter(|_| first == RECORDINGS) {
            return match path.names() {
                [_] => Ok(Target::Recordings(Arc::clone(recordings))),
                [_, name] => Ok(Target::Recording(Arc::clone(recordings), name.clone())),
                _ => Err(Failure::not_found()),
            };
        }
        let root = self.roots.iter().find(|root| root.name == *first).ok_or_else(Failure::not_found)?;
        let below = path.below_first();
        if Root::is_hidden(&below) {
            return Err(Failure::not_found());
        }
        Ok(Target::Path(Arc::clone(root), below))
    }

    /// A place that may be changed; `can_replace`: what exists there, too.
    pub(super) fn place(&self, path: &RequestPath, can_replace: bool) -> Result<Place, Failure> {
        match self.target(path)? {
            Target::Path(root, path) => Ok(Place { root, path, can_replace }),
            _ => Err(Failure::new(403, "Read-only file system")),
        }
    }

    /// A place where something may be put: one that may be changed, or the name of a recording where scans are taken in.
    pub(super) fn put_place(&self, path: &RequestPath, can_replace: bool) -> Result<PutPlace, Failure> {
        match self.target(path)? {
            Target::Recording(all, name) => match all.site().map(Arc::clone) {
                Some(site) => Ok(PutPlace::Scan(ScanPlace { all, site, name })),
                None => self.place(path, can_replace).map(PutPlace::File),
            },
            _ => self.place(path, can_replace).map(PutPlace::File),
        }
    }

    /// A place among those who upload.
    pub(super) fn upload_turn(&self, place: &PutPlace) -> Result<UploadTurn, Failure> {
        let full = |_| Failure::busy("as many files arrive as may at a time");
        let all = Arc::clone(&self.uploads).try_acquire_owned().map_err(full)?;
        let scan = match place {
            PutPlace::File(_) => None,
            PutPlace::Scan(_) => Some(Arc::clone(&self.scan_uploads).try_acquire_owned().map_err(full)?),
        };
        Ok(UploadTurn { _all: all, _scan: scan })
    }

    /// Does work that may wait for a disk, on a thread for it. `stop` is set when the client goes; until then its connection counts as used.
    pub(super) async fn blocking<T: Send + 'static>(
        &self,
        connection: &Connection,
        work: impl FnOnce(&AtomicBool) -> Result<T, Failure> + Send + 'static,
    ) -> Result<T, Failure> {
        let stop = StopOnDrop(Arc::default());
        let seen = Arc::clone(&stop.0);
        let done = used_while(connection, spawn_blocking(move || work(&seen))).await;
        done.unwrap_or_else(|_| Err(Failure::new(500, "a bug in this program ended its thread")))
    }
}

/// Waits for something; until then the connection counts as used.
pub(super) async fn used_while<T>(connection: &Connection, work: impl Future<Output = T>) -> T {
    let mut work = std::pin::pin!(work);
    loop {
        tokio::select! {
            done = &mut work => return done,
            () = sleep(WORK_INTERVAL) => connection.asks(),
        }
    }
}
