//! What arrives, as those see it that receive it.

use skyhaul::io::disk::Tree;
use skyhaul::io::lock::lock;
use skyhaul::io::say;
use skyhaul::recording::{DISK_ANSWER_TIMEOUT, ask_disks};
use skyhaul_core::vsi::VsiCode;
use std::net::{IpAddr, SocketAddr, TcpStream};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

/// How long a connection may bring nothing.
pub(super) const SILENCE: Duration = Duration::from_secs(600);

/// Something that arrives.
#[derive(Debug, Default)]
pub(in crate::vsi) struct Arrival {
    /// The file that it is written to, if it is one.
    pub(super) path: Option<PathBuf>,
    /// The label of the scan that it is written to in blocks, if it is one.
    pub(super) scan: Option<String>,
    /// Where it listens, once it does.
    pub(super) listens: OnceLock<SocketAddr>,
    pub(super) is_open: AtomicBool,
    pub(super) stop: AtomicBool,
    /// Connections that are served.
    pub(super) serving: AtomicUsize,
    pub(super) written: AtomicU64,
    pub(super) failure: Mutex<Option<String>>,
}

impl Arrival {
    pub(super) fn is_stopped(&self) -> bool {
        self.stop.load(Ordering::SeqCst)
    }

    pub(super) fn wrote(&self, bytes: u64) {
        self.written.fetch_add(bytes, Ordering::Relaxed);
    }

    pub(super) fn fail(&self, why: &str) {
        say!("VSI-S: {why}");
        *lock(&self.failure) = Some(why.to_owned());
    }
}

/// Why something was not opened.
#[derive(Debug)]
pub(super) enum Refusal {
    /// There is a scan of this label.
    LabelTaken,
    Failed(VsiCode, String),
}

/// Opens the disks that respond.
///
/// # Errors
/// No disk responds.
pub(super) fn responding(disks: &[PathBuf]) -> Result<Vec<(PathBuf, Tree)>, String> {
    let opened = ask_disks(disks, DISK_ANSWER_TIMEOUT, |_, disk, _| Tree::open(disk));
    let usable =
        disks.iter().zip(opened).filter_map(|(disk, tree)| Some((disk.clone(), tree?.ok()?.shared())));
    let disks: Vec<_> = usable.collect();
    if disks.is_empty() { Err("no disk responds".into()) } else { Ok(disks) }
}

/// What takes connections.
pub(super) trait Receiver: Send + Sync + 'static {
    /// Receives what a connection brings.
    ///
    /// # Errors
    /// Why not all of it was received or written.
    fn receive(&self, stream: TcpStream, from: IpAddr, arrival: &Arc<Arrival>) -> Result<(), String>;

    /// Whether it takes but one.
    fn is_for_one(&self) -> bool;

    /// No connection is served any more.
    ///
    /// # Errors
    /// What was written may not be on the disk.
    fn finish(&self) -> Result<(), String>;
}
