//! The thread of a copy in the queue: it copies with the engine of `skyhaul copy`, then has both ends read what they have.
//!
//! ```text
//!   Start ─▶ copy ─▶ whole? ─▶ Comparing ─▶ copy, verify only ─▶ Ended: Compared
//!              └──────┴──────────────────────────────┴─────────▶ Ended: Stopped, Failed
//! ```
//!
//! What an attempt brought is known to the receiver's journals: the next one sends the rest. The token is read from its file for each
//! attempt, and is in no report.
//!
//! An attempt at which nothing moves, at neither end, ends by itself after a time; so does one that was told to end and does not. Its
//! thread ends with the disk that hangs, and until then no attempt is made that reads this disk.

use super::setup::DestinationSetup;
use skyhaul::core::hint::Hint;
use skyhaul::io::file::{TOKEN, read_small_text};
use skyhaul::peer::Token;
use skyhaul::recording::{scan_fingerprint, scan_parts};
use skyhaul::stop::StopFlag;
use skyhaul_core::hint::split;
use skyhaul_core::station::{
    QueuedEvent, QueuedId, QueuedOutcome, QueuedPart, QueuedRequest, StationEvent, TransferPace,
};
use skyhaul_transfer::copy::{
    CopyOptions, CopyReport, Exists, LiveLimit, PathTrial, Progress, StallLimits, Tuning, copy_watched,
    try_path,
};
use std::collections::BTreeSet;
use std::io;
use std::net::{SocketAddr, ToSocketAddrs};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

/// Addresses of a host that are tried.
const MAX_ADDRESSES: usize = 4;
/// Maximum rate at which a path is tried: a second of it disturbs no recording.
const TRIAL_BITS: u64 = 1_000_000_000;

/// How long a destination may say that it works while nothing moves here.
const CLAIM_TIMEOUT: Duration = Duration::from_secs(24 * 3600);
/// How long an attempt that was told to end may take while nothing moves.
const STOP_TIMEOUT: Duration = Duration::from_secs(10);

/// How long a disk may make no progress while the scan's files are listed; of one that is slower, it is not known whether they changed.
const FINGERPRINT_TIMEOUT: Duration = Duration::from_secs(3);

/// What others say to a copy.
#[derive(Debug, Default)]
pub(super) struct CopyControl {
    stop: StopFlag,
    live: LiveLimit,
    /// The disks that it reads: places among those of the station.
    disks: BTreeSet<usize>,
}

impl CopyControl {
    /// Of a copy that reads what is asked for from these disks.
    pub(super) fn of(request: &QueuedRequest, disks: &[PathBuf]) -> Self {
        let sources = || request.parts.iter().flat_map(|part| &part.sources);
        let is_read = |disk: &PathBuf| sources().any(|source| Path::new(source).starts_with(disk));
        let read = disks.iter().enumerate().filter(|(_, disk)| is_read(disk));
        Self { disks: read.map(|(place, _)| place).collect(), ..Self::default() }
    }

    /// Whether both read one disk.
    pub(super) fn shares_disk(&self, other: &Self) -> bool {
        !self.disks.is_disjoint(&other.disks)
    }

    pub(super) fn stop(&self) {
        self.stop.stop();
    }

    pub(super) fn pace(&self, pace: TransferPace) {
        self.live.set(match pace {
            TransferPace::Free => None,
            TransferPace::Limited(bits) => Some(bits.max(1)),
            TransferPace::Paused => Some(0),
        });
    }
}

/// Takes what a copy reports.
type Report = Arc<dyn Fn(StationEvent) + Send + Sync>;

/// Starts the thread; or returns what is to be reported without it.
pub(super) fn spawn(
    (destination, disks): (Option<&DestinationSetup>, &[PathBuf]),
    (id, request): (QueuedId, QueuedRequest),
    (control, is_held): (Arc<CopyControl>, bool),
    report: Report,
) -> Result<JoinHandle<()>, Box<StationEvent>> {
    let failed = |reason: String| {
        let outcome = QueuedOutcome::Failed { reason, is_final: false };
        Box::new(StationEvent::Queued { copy: id, event: QueuedEvent::Ended(outcome) })
    };
    let Some(mut destination) = destination.cloned() else {
        return Err(failed("the destination is not known".into()));
    };
    destination.encrypt |= request.encrypt;
    // A second attempt would hang beside it.
    if is_held {
        return Err(failed("a disk does not respond: the last attempt has not ended yet".into()));
    }
    let copying = Copying { id, destination, request, control, disks: disks.to_vec(), report };
    let thread = std::thread::Builder::new().name("station-copy".into());
    thread.spawn(move || copying.run()).map_err(|error| failed(format!("start a thread: {error}")))
}

/// Tries the path of copies into these directories, before they are accepted.
pub(super) fn try_destination(
    destination: &DestinationSetup,
    directories: &[String],
    rate_bits: Option<u64>,
) -> io::Result<PathTrial> {
    let control = CopyControl::default();
    control.live.set(Some(rate_bits.unwrap_or(TRIAL_BITS).clamp(1, TRIAL_BITS)));
    let options = options(destination, &[], directories, &control)?;
    try_path(&options, &token(destination)?)
}

fn token(destination: &DestinationSetup) -> io::Result<Token> {
    let text = read_small_text(&destination.token_file, TOKEN)?;
    Token::of_file(&text).map_err(|why| {
        let hint = Hint("copy the file that `skyhaul copy serve` made there");
        let path = destination.token_file.display();
        io::Error::new(io::ErrorKind::InvalidData, format!("{path} holds no token: {why}{hint}"))
    })
}

fn addresses(destination: &DestinationSetup) -> io::Result<Vec<SocketAddr>> {
    let DestinationSetup { host, port, .. } = destination;
    let hint = || Hint(format!("check the name with `getent hosts {host}`, or configure its address"));
    let unknown = |error: io::Error| io::Error::new(error.kind(), format!("find {host}: {error}{}", hint()));
    let found: Vec<_> =
        (host.as_str(), *port).to_socket_addrs().map_err(unknown)?.take(MAX_ADDRESSES).collect();
    if found.is_empty() {
        return Err(io::Error::new(io::ErrorKind::NotFound, format!("{host} has no address{}", hint())));
    }
    Ok(found)
}

fn options(
    destination: &DestinationSetup,
    sources: &[String],
    into: &[String],
    control: &CopyControl,
) -> io::Result<CopyOptions> {
    Ok(CopyOptions {
        server: addresses(destination)?,
        sources: sources.iter().map(PathBuf::from).collect(),
        into: into.iter().map(PathBuf::from).collect(),
        pull: false,
        exists: Exists::Fail,
        tuning: Tuning {
            flows: destination.flows,
            encrypt: destination.encrypt,
            window: destination.window_bytes,
            congestion: destination.congestion.clone(),
            live: control.live.clone(),
            ..Tuning::default()
        },
        plan: false,
        dry_run: false,
        verify: false,
        stop: control.stop.clone(),
    })
}

/// A copy that runs.
struct Copying {
    id: QueuedId,
    destination: DestinationSetup,
    request: QueuedRequest,
    control: Arc<CopyControl>,
    /// The station's disks.
    disks: Vec<PathBuf>,
    report: Report,
}

fn failed(reason: &str) -> QueuedOutcome {
    QueuedOutcome::Failed { reason: split(reason).0.to_owned(), is_final: false }
}

impl Copying {
    /// Makes the attempt, and reports its end, also one by a panic.
    fn run(self) {
        let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| self.attempt()));
        let outcome = match outcome {
            // A failure that follows from the stop is none.
            Ok(QueuedOutcome::Failed { .. }) if self.control.stop.is_set() => QueuedOutcome::Stopped,
            Ok(outcome) => outcome,
            Err(_) => failed("a bug in this program ended its thread"),
        };
        let Self { id, control, report, .. } = self;
        drop(control);
        report(StationEvent::Queued { copy: id, event: QueuedEvent::Ended(outcome) });
    }

    /// Copies, or compares, and gives up when nothing moves. What is left behind then holds the control.
    fn copy(
        &self,
        options: &CopyOptions,
        token: &Token,
        progress: &mut dyn FnMut(&Progress),
    ) -> io::Result<CopyReport> {
        let limits =
            StallLimits { moving: self.destination.stall, claimed: CLAIM_TIMEOUT, stopping: STOP_TIMEOUT };
        copy_watched(options, token, limits, Arc::clone(&self.control), progress)
    }

    /// Reports, unless it was told to end: an attempt that was given up must not speak for the next one.
    fn tell(&self, event: QueuedEvent) {
        if !self.control.stop.is_set() {
            (self.report)(StationEvent::Queued { copy: self.id, event });
        }
    }

    fn attempt(&self) -> QueuedOutcome {
        // Each source with the directory that it goes into.
        let pairs = |part: &QueuedPart| {
            let of = |source: &String| (source.clone(), part.directory.clone());
            part.sources.iter().map(of).collect::<Vec<_>>()
        };
        let (sources, into): (Vec<String>, Vec<String>) = self.request.parts.iter().flat_map(pairs).unzip();
        let asked = options(&self.destination, &sources, &into, &self.control);
        let (options, token) = match (asked, token(&self.destination)) {
            (Ok(options), Ok(token)) => (options, token),
            (Err(error), _) | (_, Err(error)) => return failed(&error.to_string()),
        };
        let before = self.fingerprint();
        let mut is_connected = false;
        let report = self.copy(&options, &token, &mut |progress| {
            if !std::mem::replace(&mut is_connected, true) {
                self.tell(QueuedEvent::Connected { data_encrypted: options.tuning.encrypt });
            }
            self.show(progress);
        });
        // A small copy is over before it has shown any progress.
        if let Ok(CopyReport { data_encrypted: Some(data_encrypted), .. }) = report {
            self.tell(QueuedEvent::Connected { data_encrypted });
        }
        if let Some(outcome) = self.not_whole(report.as_ref()) {
            return outcome;
        }
        self.tell(QueuedEvent::Comparing);
        let verify = CopyOptions { verify: true, ..options };
        let report = self.copy(&verify, &token, &mut |_| {});
        match (self.not_whole(report.as_ref()), report) {
            // What differs after it was copied is mended by no further copy: it would be kept as it is.
            (Some(QueuedOutcome::Failed { reason, .. }), Ok(report)) if report.stopped.is_none() => {
                QueuedOutcome::Failed { reason, is_final: true }
            }
            (None, Ok(report)) => {
                if let Some(fingerprint) = before.filter(|before| self.fingerprint().as_ref() == Some(before))
                {
                    self.tell(QueuedEvent::Unchanged { fingerprint });
                }
                QueuedOutcome::Compared {
                    files: report.compared.len() as u64,
                    bytes: report.compared.iter().map(|file| file.bytes).sum(),
                }
            }
            (outcome, _) => outcome.unwrap_or_else(|| failed("nothing was compared")),
        }
    }

    /// The digest of the scan's files now, if all of them are among those that are copied.
    fn fingerprint(&self) -> Option<String> {
        let scan = &self.request.scan;
        let parts = scan_parts(&self.disks, scan, FINGERPRINT_TIMEOUT).ok()?;
        let there = || {
            self.disks.iter().zip(&parts).filter_map(|(disk, part)| Some((disk.as_path(), part.as_ref()?)))
        };
        let (files, bytes) =
            there().fold((0, 0), |(files, bytes), (_, part)| (files + part.files, bytes + part.bytes));
        let are_copied = (files, bytes) == (self.request.files(), self.request.bytes());
        scan_fingerprint(scan, there()).filter(|_| are_copied)
    }

    fn show(&self, progress: &Progress) {
        let Progress { confirmed_bytes, unconfirmed_bytes, arrived_bytes, .. } = *progress;
        self.tell(QueuedEvent::Progress {
            there_bytes: confirmed_bytes,
            unconfirmed_bytes,
            arrived_bytes,
            moved_bytes: confirmed_bytes.saturating_sub(progress.there_bytes),
        });
    }

    /// How an attempt ended that did not bring everything.
    fn not_whole(&self, report: Result<&CopyReport, &io::Error>) -> Option<QueuedOutcome> {
        if self.control.stop.is_set() {
            return Some(QueuedOutcome::Stopped);
        }
        let report = match report {
            Ok(report) => report,
            Err(error) => return Some(failed(&error.to_string())),
        };
        if let Some(one) = report.failed.first() {
            let more = match report.failed.len() - 1 {
                0 => String::new(),
                more => format!(", and {more} more files"),
            };
            let why = split(&one.error).0;
            return Some(failed(&format!("{}: {why}{more}", one.path.display())));
        }
        if let Some(one) = report.special.first() {
            return Some(failed(&format!("{} is no file, directory or link", one.display())));
        }
        report.stopped.as_deref().map(failed)
    }
}
