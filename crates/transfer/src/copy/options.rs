//! How to copy, and the memory and threads that all sessions of a program may take together.
//!
//! A peer that holds the token can ask for many sessions, flows, blocks and names. Each is charged to an [`Account`] before it
//! is made, and a request that does not fit is refused with the reason. A session returns everything when it ends.

use super::activity::CopyActivity;
use super::message::Exists;
use skyhaul::stop::StopFlag;
use skyhaul_core::hint::Hint;
use skyhaul_io::disk::{DiskOptions, Engine, Faults};
use skyhaul_io::fifo::Fifo;
use skyhaul_io::memory::{Block, Pool, PoolOptions};
use skyhaul_io::quantity::Size;
use skyhaul_io::tcp::tune::{set_congestion, set_receive_buffer, set_send_buffer};
use std::io;
use std::net::{SocketAddr, TcpStream};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Smallest and largest range.
const RANGE_BYTES: std::ops::RangeInclusive<u64> = 64 << 10..=256 << 20;
/// Most flows of one copy.
const MAX_FLOWS_PER_COPY: usize = 256;

/// The maximum rate of a copy, which may change while it runs. Clones share one.
#[derive(Clone, Debug)]
pub struct LiveLimit(Arc<AtomicU64>);

impl Default for LiveLimit {
    fn default() -> Self {
        Self(Arc::new(AtomicU64::new(u64::MAX)))
    }
}

impl LiveLimit {
    /// Bits a second from now on; 0: nothing is sent; `None`: no limit.
    pub fn set(&self, bits_per_second: Option<u64>) {
        self.0.store(bits_per_second.unwrap_or(u64::MAX), Ordering::Relaxed);
    }

    /// Bits a second now; 0: nothing is sent; `None`: no limit.
    pub(super) fn bits_per_second(&self) -> Option<u64> {
        Some(self.0.load(Ordering::Relaxed)).filter(|bits| *bits < u64::MAX)
    }
}

/// What both ends use alike.
#[derive(Clone, Debug)]
pub struct Tuning {
    /// Connections that carry ranges.
    pub flows: usize,
    /// Bytes of a range; a multiple of 4096.
    pub range: u64,
    /// Whether what they carry is encrypted.
    pub encrypt: bool,
    /// Requests in flight at the disk.
    pub depth: usize,
    /// Past the page cache.
    pub direct: bool,
    /// Which system calls.
    pub engine: Engine,
    /// Socket buffers, in bytes; None: the system's own.
    pub window: Option<u64>,
    /// Congestion control; None: the system's own.
    pub congestion: Option<String>,
    /// Bits a second of all flows together.
    pub limit: Option<u64>,
    /// The same at the end that sends, if that is this one; it may change meanwhile, and the lower one holds.
    pub live: LiveLimit,
    /// Counts its steps, so that a watcher sees whether it has stalled.
    pub activity: CopyActivity,
    /// Maximum time without progress of the peer.
    pub patience: Duration,
    /// Injected faults of the receiving disk, for tests.
    pub faults: Faults,
}

impl Tuning {
    /// Bits a second of all flows together now; `u64::MAX`: no limit.
    pub(super) fn rate(&self) -> u64 {
        let limits = [self.limit, self.live.bits_per_second()];
        limits.into_iter().flatten().min().unwrap_or(u64::MAX)
    }

    /// How a disk is read: without the faults of the one that is written to.
    pub(super) fn reads(&self) -> DiskOptions {
        DiskOptions { faults: Faults::default(), ..self.disk() }
    }

    /// How a disk is read or written.
    pub(super) fn disk(&self) -> DiskOptions {
        DiskOptions {
            engine: self.engine,
            direct: self.direct,
            depth: self.depth,
            faults: self.faults.clone(),
            ..DiskOptions::default()
        }
    }
}

impl Default for Tuning {
    fn default() -> Self {
        Self {
            flows: 4,
            encrypt: false,
            range: 4 << 20,
            depth: 8,
            direct: true,
            engine: Engine::Auto,
            window: None,
            congestion: None,
            limit: None,
            live: LiveLimit::default(),
            activity: CopyActivity::default(),
            patience: Duration::from_secs(30),
            faults: Faults::default(),
        }
    }
}

impl Tuning {
    /// Whether a peer may ask for it.
    pub(super) fn check(&self) -> Result<(), String> {
        if !RANGE_BYTES.contains(&self.range) || !self.range.is_multiple_of(4096) {
            return Err(format!(
                "range size {} must be a multiple of the page size, from 64 KiB to 256 MiB",
                self.range
            ));
        }
        if !(1..=MAX_FLOWS_PER_COPY).contains(&self.flows) {
            return Err(format!("1 to {MAX_FLOWS_PER_COPY} flows are possible; {} are not", self.flows));
        }
        Ok(())
    }

    /// Requests in flight: fewer of large ranges, so that memory stays bounded.
    pub(super) fn bounded(mut self) -> Self {
        self.depth = self.depth.min((MAX_SESSION_BLOCK_BYTES / self.range.max(1)) as usize).max(1);
        self
    }

    /// Blocks of an end with this many flows: one for each request at the disk, and two for each flow, as far as its memory
    /// goes.
    pub(super) fn blocks(&self, flows: usize) -> usize {
        (self.depth + flows * 2).min((MAX_SESSION_BLOCK_BYTES / self.range.max(1)) as usize).max(1)
    }
}

/// A copy, as a client asks for it.
#[derive(Clone, Debug)]
pub struct CopyOptions {
    /// The addresses of the server: the first that answers is used.
    pub server: Vec<SocketAddr>,
    /// Files and directories to copy from.
    pub sources: Vec<PathBuf>,
    /// Directories to copy into: the first source into the first, and so on in turn.
    pub into: Vec<PathBuf>,
    /// Sources are on the server, directories to copy into are here.
    pub pull: bool,
    /// What to do with files that exist and differ.
    pub exists: Exists,
    /// How.
    pub tuning: Tuning,
    /// Predict first, and compare at the end.
    pub plan: bool,
    /// Predict, and copy nothing.
    pub dry_run: bool,
    /// Compare the files at both ends, and copy nothing.
    pub verify: bool,
    /// Ends it; it may be resumed.
    pub stop: StopFlag,
}

/// Bytes of blocks, names and lists of ranges, of all sessions.
pub(super) const MAX_MEMORY_BYTES: u64 = 2 << 30;
const MAX_SESSION_BLOCK_BYTES: u64 = 256 << 20;
/// Sessions at a time.
pub(super) const MAX_SESSIONS: u64 = 32;
/// Flows of all sessions.
const MAX_FLOWS: u64 = 1024;

/// The memory, sessions and flows in use.
#[derive(Debug, Default)]
pub(super) struct Budget {
    memory: AtomicU64,
    sessions: AtomicU64,
    flows: AtomicU64,
}

#[cfg(test)]
impl Budget {
    pub(super) fn sessions(&self) -> u64 {
        self.sessions.load(Ordering::Relaxed)
    }

    pub(super) fn memory(&self) -> u64 {
        self.memory.load(Ordering::Relaxed)
    }
}

fn take(of: &AtomicU64, count: u64, most: u64) -> bool {
    let more = |now: u64| now.checked_add(count).filter(|&now| now <= most);
    of.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more).is_ok()
}

/// What one session took.
#[derive(Debug)]
pub(super) struct Account {
    budget: Arc<Budget>,
    memory: AtomicU64,
    flows: u64,
    activity: CopyActivity,
}

fn refused(what: &str, hint: &str) -> io::Error {
    io::Error::new(io::ErrorKind::QuotaExceeded, format!("{what}{}", Hint(format_args!("{hint}"))))
}

impl Account {
    /// Begins a session with this many flows.
    ///
    /// # Errors
    /// There are too many.
    pub(super) fn open(budget: &Arc<Budget>, flows: usize) -> io::Result<Self> {
        let flows = flows as u64;
        if !take(&budget.sessions, 1, MAX_SESSIONS) {
            let text = format!("{MAX_SESSIONS} copies are running, the maximum of this server");
            return Err(refused(&text, "try again later"));
        }
        let mut account = Self {
            budget: budget.clone(),
            memory: AtomicU64::new(0),
            flows: 0,
            activity: CopyActivity::default(),
        };
        if !take(&budget.flows, flows, MAX_FLOWS) {
            let text = format!("the limit of {MAX_FLOWS} flows for all copies together is reached");
            return Err(refused(&text, "use fewer --flows, or try again later"));
        }
        account.flows = flows;
        Ok(account)
    }

    /// One of a program that only asks.
    pub(super) fn alone() -> Self {
        let budget = Arc::<Budget>::default();
        take(&budget.sessions, 1, MAX_SESSIONS);
        Self { budget, memory: AtomicU64::new(0), flows: 0, activity: CopyActivity::default() }
    }

    /// The same, and what is charged is a step of `activity`.
    pub(super) fn alone_with(activity: &CopyActivity) -> Self {
        let mut account = Self::alone();
        account.activity = activity.clone();
        account
    }

    /// Take memory.
    ///
    /// # Errors
    /// There is not so much left.
    pub(super) fn charge(&self, bytes: u64) -> io::Result<()> {
        if !take(&self.budget.memory, bytes, MAX_MEMORY_BYTES) {
            let text = format!(
                "copies may take {} MiB of memory together, and this one needs more",
                MAX_MEMORY_BYTES >> 20
            );
            return Err(refused(
                &text,
                "copy fewer files at a time, use a larger --range, or try again later",
            ));
        }
        self.memory.fetch_add(bytes, Ordering::Relaxed);
        self.activity.step();
        Ok(())
    }
}

impl Drop for Account {
    fn drop(&mut self) {
        self.budget.memory.fetch_sub(self.memory.load(Ordering::Relaxed), Ordering::Relaxed);
        self.budget.flows.fetch_sub(self.flows, Ordering::Relaxed);
        self.budget.sessions.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Give a flow its window and its congestion control.
pub(super) fn tune(stream: &TcpStream, window: Option<u64>, congestion: Option<&str>) -> io::Result<()> {
    if let Some(bytes) = window {
        let size = Size::from_bytes(bytes);
        set_send_buffer(stream, size);
        set_receive_buffer(stream, size);
    }
    if let Some(name) = congestion {
        set_congestion(stream, name)?;
    }
    Ok(())
}

/// The memory of an end with this many flows, charged to its account, with all pages touched.
pub(super) fn blocks(tuning: &Tuning, flows: usize, account: &Account) -> io::Result<(Pool, Fifo<Block>)> {
    let block_bytes = tuning.range as usize;
    let total_bytes = (block_bytes * tuning.blocks(flows)) as u64;
    account.charge(total_bytes)?;
    let pool = Pool::new(&PoolOptions { total_bytes, block_bytes, shared: false })?;
    pool.wait_until_touched()?;
    let empty = Fifo::default();
    std::iter::from_fn(|| pool.take()).for_each(|block| empty.push(block));
    Ok((pool, empty))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_does_not_fit_is_refused_and_what_ended_is_free_again() {
        let budget = Arc::<Budget>::default();
        let first = Account::open(&budget, 1000).unwrap();
        assert!(Account::open(&budget, 25).unwrap_err().to_string().contains("--flows"));
        first.charge(MAX_MEMORY_BYTES).unwrap();
        let second = Account::open(&budget, 24).unwrap();
        assert!(second.charge(1).unwrap_err().to_string().contains("hint: "));
        drop(first);
        second.charge(MAX_MEMORY_BYTES).unwrap();
        let more: Vec<_> = (1..MAX_SESSIONS).map(|_| Account::open(&budget, 1).unwrap()).collect();
        assert!(Account::open(&budget, 1).unwrap_err().to_string().contains("maximum of this server"));
        drop((second, more));
        assert_eq!(budget.memory.load(Ordering::Relaxed), 0);
        assert_eq!(budget.flows.load(Ordering::Relaxed), 0);
        assert_eq!(budget.sessions.load(Ordering::Relaxed), 0);
    }
}
