//! Sending on what arrives, as it arrives.
//!
//! ```text
//!   receive thread ── Tap ──▶ bounded queue ──▶ target thread ──▶ UDP or TCP
//!                     runs of frames that lie side by side in a block, as Views: no copy
//! ```
//!
//! A target never costs the recording a frame: its queue is bounded, and what does not fit is dropped *for that
//! target*, whole frames, counted. A [`View`](skyhaul_io::memory::View) keeps its block from being reused until it is
//! sent, so a queue grows only while a quarter of the pool is free, and is dropped when less than an eighth is.
//!
//! Frames are sent once each, in the order in which they were placed. What the recording strips from the front
//! (the VTP sequence number) is put back for UDP; TCP carries plain concatenated frames, as VTP has it.
//!
//! Receivers tell streams apart by their sender, so each stream leaves by a socket of its own.

mod tap;
mod target;

pub use tap::Tap;
pub use target::TargetReport;

use skyhaul_io::address::Endpoint;
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use target::Outlets;
use target::{Run, Shared};

/// All targets of a receiver.
#[derive(Debug, Default)]
pub struct Mirror {
    targets: Vec<Arc<Shared>>,
    threads: Vec<JoinHandle<()>>,
}

impl Mirror {
    /// Open every target. UDP targets are opened now; TCP targets are connected by their thread, and again
    /// whenever the connection breaks.
    ///
    /// # Errors
    /// A socket that cannot be opened, or a thread that cannot be started.
    pub fn open(targets: &[Endpoint]) -> io::Result<Self> {
        // Before any is connected to: one that cannot be would be tried for ever.
        targets.iter().try_for_each(Endpoint::check_destination)?;
        let mut mirror = Mirror::default();
        for endpoint in targets {
            let shared = Arc::new(Shared::new(endpoint.to_string()));
            let outlets = Outlets::open(endpoint)?;
            let of_thread = shared.clone();
            let thread =
                std::thread::Builder::new().name("mirror".into()).spawn(move || work(&of_thread, outlets))?;
            let _ = shared.thread.set(thread.thread().clone());
            mirror.targets.push(shared);
            mirror.threads.push(thread);
        }
        Ok(mirror)
    }

    /// An engine's end of it; `None` if there is no target.
    #[must_use]
    pub fn tap(&self) -> Option<Tap> {
        (!self.targets.is_empty()).then(|| Tap::new(self.targets.clone()))
    }

    /// What became of the frames so far.
    #[must_use]
    pub fn report(&self) -> Vec<TargetReport> {
        let get = |n: &AtomicU64| n.load(Ordering::Relaxed);
        let report = |shared: &Arc<Shared>| {
            let c = &shared.counters;
            TargetReport {
                target: shared.name.clone(),
                frames: get(&c.frames),
                bytes: get(&c.bytes),
                dropped_queue: get(&c.dropped),
                dropped_refused: get(&c.refused),
                connections: get(&c.connections),
                error: c.error.lock().unwrap_or_else(PoisonError::into_inner).clone(),
            }
        };
        self.targets.iter().map(report).collect()
    }

    /// Send what is queued (for half a minute at most, and to a target that takes nothing not at all), then end.
    pub fn finish(&mut self) -> Vec<TargetReport> {
        for shared in &self.targets {
            shared.ended.store(true, Ordering::Release);
            shared.wake();
        }
        for (thread, shared) in self.threads.drain(..).zip(&self.targets) {
            if thread.join().is_err() {
                shared.counters.note(&io::Error::other("a fault in this program ended sending to it"));
            }
            // What a thread that died left behind was not sent.
            while let Some(run) = shared.queue.pop() {
                shared.counters.dropped.fetch_add(run.frames(), Ordering::Relaxed);
            }
        }
        self.report()
    }
}

impl Drop for Mirror {
    fn drop(&mut self) {
        self.finish();
    }
}

/// How long a target may take what is queued when the receiver has stopped, as long as it takes something.
const LINGER_TIMEOUT: Duration = Duration::from_secs(30);
/// Runs sent together.
const TOGETHER: usize = 64;

/// A target's thread: send what is queued; when the receiver has ended, what is left, for a while.
fn work(shared: &Shared, mut outlets: Outlets) {
    let mut until: Option<Instant> = None;
    let mut runs: Vec<Run> = Vec::with_capacity(TOGETHER);
    let mut next: Option<Run> = None;
    loop {
        if until.is_none() && shared.ended.load(Ordering::Acquire) {
            until = Some(Instant::now() + LINGER_TIMEOUT);
        }
        runs.extend(next.take());
        while runs.len() < TOGETHER
            && let Some(run) = shared.queue.pop()
        {
            if runs.first().is_some_and(|first| first.stream != run.stream) {
                next = Some(run);
                break;
            }
            runs.push(run);
        }
        match until {
            // Nothing was pushed after the end.
            Some(_) if runs.is_empty() => return outlets.finish(&shared.counters),
            None if runs.is_empty() => shared.sleep(),
            Some(end) if Instant::now() >= end => {
                let frames = runs.iter().map(Run::frames).sum();
                shared.counters.drop_frames(frames);
            }
            _ => outlets.send(&runs, &shared.counters),
        }
        runs.clear();
    }
}
