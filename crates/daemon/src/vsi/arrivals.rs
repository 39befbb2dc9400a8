//! Data of other hosts that arrive for dialogues: files (`net2file`), chunks of scans (`net2vbs`), and scans in blocks (`record`).
//!
//! ```text
//!   Accept ─▶ listener ─ connection ─▶ thread ─ turns at the disk ─▶ file, DISK/SCAN/SCAN.00000007, or DISK/data/SCAN on each disk
//!                └── EndArrival: no new connection, what runs ends, everything is on the disk
//! ```
//!
//! Neither protocol has a digest, and a file's has no length: what a connection brought until it ended counts. A chunk has its name only when
//! all of it is on the disk. Writers wait for their turn at the disk, so that recordings go first; the other host is slowed by its
//! connection.
//!
//! Limits: [`MAX_ARRIVALS`] open; [`MAX_CONNECTIONS`] connections of each; [`shared::SILENCE`] without a byte.

mod blocks;
mod chunks;
mod file;
mod peer;
mod shared;
#[cfg(test)]
mod tests;

use serde_json::{Value, json};
use shared::{Arrival, Receiver, Refusal};
use skyhaul::io::lock::lock;
use skyhaul::io::say;
use skyhaul::io::tcp::door::Door;
use skyhaul::io::tcp::setup::reset_at_close;
use skyhaul_core::balance::AllowList;
use skyhaul_core::hint::{Hint, split};
use skyhaul_core::vsi::{VsiAcceptOptions, VsiAccepted, VsiArrival, VsiCode, VsiOutcome, VsiPort};
use std::collections::BTreeMap;
use std::io;
use std::net::{Ipv4Addr, SocketAddr, ToSocketAddrs};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// Maximum number of arrivals that are open.
const MAX_ARRIVALS: usize = 16;
/// Arrivals that are remembered.
const MAX_REMEMBERED: usize = 64;
/// Connections of one arrival.
const MAX_CONNECTIONS: usize = 32;
/// How often what waits looks whether it is to stop.
const POLL_INTERVAL: Duration = Duration::from_millis(20);

/// Where data of other hosts may arrive.
#[derive(Clone, Debug, Default)]
pub struct ArrivalOptions {
    /// Directories of the disks, for chunks.
    pub disks: Vec<PathBuf>,
    /// Bytes that remain free on each disk.
    pub reserve_bytes: u64,
    /// Directories below which files may be written.
    pub files: Vec<PathBuf>,
    /// Who may connect.
    pub from: AllowList,
}

/// All of them.
#[derive(Debug, Default)]
pub(crate) struct Arrivals {
    options: ArrivalOptions,
    all: Mutex<BTreeMap<u64, Arc<Arrival>>>,
}

/// What listens; it is closed when this is dropped, also by a panic.
struct Listening(Arc<Arrival>);

impl Drop for Listening {
    fn drop(&mut self) {
        self.0.is_open.store(false, Ordering::SeqCst);
    }
}

/// A connection that is served: counted while it lasts.
struct Serving(Arc<Arrival>);

impl Drop for Serving {
    fn drop(&mut self) {
        self.0.serving.fetch_sub(1, Ordering::SeqCst);
    }
}

fn failed(code: VsiCode, why: impl Into<String>) -> VsiOutcome {
    let why: String = why.into();
    VsiOutcome::Failed(code, split(&why).0.to_owned())
}

impl Arrivals {
    pub(super) fn new(options: ArrivalOptions) -> Self {
        Self { options, all: Mutex::default() }
    }

    /// Directories below which files may be read and written.
    pub(super) fn files(&self) -> &[PathBuf] {
        &self.options.files
    }

    /// As the HTTP API has them: all that are open, and the last ones that were closed.
    pub(crate) fn json(&self) -> Vec<Value> {
        let of = |(id, arrival): (&u64, &Arc<Arrival>)| {
            let state = match (arrival.is_open.load(Ordering::SeqCst), arrival.is_stopped()) {
                (true, false) => "open",
                (true, true) => "closing",
                (false, _) => "closed",
            };
            json!({
                "id": id,
                "kind": match (&arrival.path, &arrival.scan) {
                    (Some(_), _) => "file",
                    (None, Some(_)) => "blocks",
                    (None, None) => "chunks",
                },
                "path": arrival.path.as_ref().map(|path| path.to_string_lossy()),
                "scan": arrival.scan,
                "listen": arrival.listens.get().map(SocketAddr::to_string),
                "state": state,
                "connections": arrival.serving.load(Ordering::SeqCst),
                "written_bytes": arrival.written.load(Ordering::Relaxed),
                "failure": *lock(&arrival.failure),
            })
        };
        lock(&self.all).iter().map(of).collect()
    }

    /// As dialogues see them.
    pub(super) fn view(&self) -> Vec<VsiArrival> {
        let of = |(id, arrival): (&u64, &Arc<Arrival>)| VsiArrival {
            id: *id,
            is_open: arrival.is_open.load(Ordering::SeqCst),
            is_closing: arrival.is_stopped(),
            written_bytes: arrival.written.load(Ordering::Relaxed),
            failure: lock(&arrival.failure).clone(),
        };
        lock(&self.all).iter().map(of).collect()
    }

    /// Begins to listen. It may wait for disks.
    ///
    /// `is_recorded` says whether a scan is being recorded here.
    pub(super) fn accept(
        &self,
        options: &VsiAcceptOptions,
        is_recorded: impl Fn(&str) -> bool + Send + Sync + 'static,
    ) -> VsiOutcome {
        let (path, scan) = match &options.what {
            VsiAccepted::File { path, .. } => (Some(PathBuf::from(path)), None),
            VsiAccepted::Blocks(blocks) => (None, Some(blocks.label.clone())),
            VsiAccepted::Chunks => (None, None),
        };
        let is_open = AtomicBool::new(true);
        let arrival = Arc::new(Arrival { path, scan, is_open, ..Arrival::default() });
        {
            let mut all = lock(&self.all);
            let open = all.values().filter(|one| one.is_open.load(Ordering::SeqCst)).count();
            if open >= MAX_ARRIVALS {
                return failed(VsiCode::Busy, format!("{MAX_ARRIVALS} are open already"));
            }
            // Two of one scan would write the same files.
            let is_same = |one: &Arc<Arrival>| one.is_open.load(Ordering::SeqCst) && one.scan == arrival.scan;
            if arrival.scan.is_some() && all.values().any(is_same) {
                return VsiOutcome::LabelTaken;
            }
            all.insert(options.id, Arc::clone(&arrival));
            let ended =
                |(id, one): (&u64, &Arc<Arrival>)| (!one.is_open.load(Ordering::SeqCst)).then_some(*id);
            while all.len() > MAX_REMEMBERED
                && let Some(oldest) = all.iter().find_map(ended)
            {
                all.remove(&oldest);
            }
        }
        match self.begin(options, &arrival, is_recorded) {
            Ok(present_bytes) => VsiOutcome::Accepting { present_bytes },
            Err(Refusal::LabelTaken) => {
                lock(&self.all).remove(&options.id);
                VsiOutcome::LabelTaken
            }
            Err(Refusal::Failed(code, why)) => {
                *lock(&arrival.failure) = Some(why.clone());
                arrival.is_open.store(false, Ordering::SeqCst);
                failed(code, why)
            }
        }
    }

    fn begin(
        &self,
        options: &VsiAcceptOptions,
        arrival: &Arc<Arrival>,
        is_recorded: impl Fn(&str) -> bool + Send + Sync + 'static,
    ) -> Result<u64, Refusal> {
        let code = |error: io::Error| Refusal::Failed(VsiCode::Failed, error.to_string());
        let door = Door::open(address(&options.port).map_err(code)?).map_err(code)?;
        let _ = arrival.listens.set(door.local());
        let (receiver, present): (Arc<dyn Receiver>, u64) = match &options.what {
            VsiAccepted::Chunks => {
                let chunks =
                    chunks::Chunks::open(&self.options.disks, self.options.reserve_bytes, is_recorded);
                (Arc::new(chunks.map_err(|why| Refusal::Failed(VsiCode::Failed, why))?), 0)
            }
            VsiAccepted::File { path, existing } => {
                let file = file::ArrivingFile::open(&self.options.files, path, *existing)
                    .map_err(|(code, why)| Refusal::Failed(code, why))?;
                let present = file.present_bytes();
                (Arc::new(file), present)
            }
            VsiAccepted::Blocks(blocks) => {
                let (disks, reserve) = (&self.options.disks, self.options.reserve_bytes);
                (Arc::new(blocks::ArrivingScan::open(disks, reserve, blocks, is_recorded)?), 0)
            }
        };
        let (of, from) = (Arc::clone(arrival), self.options.from.clone());
        let listen = move || {
            let listening = Listening(of);
            listen(door, &receiver, &from, &listening.0);
        };
        std::thread::Builder::new().name("vsi-arrival".into()).spawn(listen).map_err(code)?;
        Ok(present)
    }

    /// Ends one, and waits until it has ended: for as long as a disk hangs.
    pub(super) fn end(&self, id: u64) -> VsiOutcome {
        let Some(arrival) = lock(&self.all).get(&id).cloned() else {
            return failed(VsiCode::Conflict, "it is not known any more");
        };
        arrival.stop.store(true, Ordering::SeqCst);
        while arrival.is_open.load(Ordering::SeqCst) {
            std::thread::sleep(POLL_INTERVAL);
        }
        let failure = lock(&arrival.failure).clone();
        failure.map_or(VsiOutcome::Stopped, |why| failed(VsiCode::Failed, why))
    }
}

impl Drop for Arrivals {
    fn drop(&mut self) {
        lock(&self.all).values().for_each(|arrival| arrival.stop.store(true, Ordering::SeqCst));
    }
}

/// Where to listen.
fn address(port: &VsiPort) -> io::Result<SocketAddr> {
    if port.host.is_empty() {
        return Ok((Ipv4Addr::UNSPECIFIED, port.port).into());
    }
    let unknown = || io::Error::other(format!("{} has no address", port.host));
    (port.host.as_str(), port.port).to_socket_addrs()?.next().ok_or_else(unknown)
}

/// Takes connections until the arrival is closed, then frees the port and waits for those that are served.
fn listen(door: Door, receiver: &Arc<dyn Receiver>, from: &AllowList, arrival: &Arc<Arrival>) {
    let (mut has_one, mut strangers) = (false, 0u64);
    while !arrival.is_stopped() {
        let is_full = arrival.serving.load(Ordering::SeqCst) >= MAX_CONNECTIONS;
        if is_full || (has_one && receiver.is_for_one()) {
            std::thread::sleep(POLL_INTERVAL);
            continue;
        }
        let (stream, peer) = match door.accept(POLL_INTERVAL) {
            Ok(Some(came)) => came,
            Ok(None) => continue,
            Err(error) => {
                arrival.fail(&format!("no connection can be taken: {error}"));
                break;
            }
        };
        if !from.admits(peer.ip()) {
            // It is no failure of those who may: anybody could make their transfers fail.
            strangers += 1;
            if strangers == 1 {
                say!(
                    "VSI-S: {} may not send data here{}",
                    peer.ip(),
                    Hint("add it to `receive_from` of [station.vsi]")
                );
            }
            let _ = reset_at_close(&stream);
            continue;
        }
        has_one = true;
        arrival.serving.fetch_add(1, Ordering::SeqCst);
        let (serving, receiver) = (Serving(Arc::clone(arrival)), Arc::clone(receiver));
        let serve = move || {
            if let Err(why) = receiver.receive(stream, peer.ip(), &serving.0) {
                serving.0.fail(&why);
            }
        };
        if let Err(error) = std::thread::Builder::new().name("vsi-arriving".into()).spawn(serve) {
            arrival.fail(&format!("start a thread: {error}"));
        }
    }
    if strangers > 1 {
        say!("VSI-S: {strangers} connections of hosts that may not send data here were refused");
    }
    drop(door);
    while arrival.serving.load(Ordering::SeqCst) > 0 {
        std::thread::sleep(POLL_INTERVAL);
    }
    if let Err(why) = receiver.finish() {
        arrival.fail(&why);
    }
}
