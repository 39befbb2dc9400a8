//! The live quality of what is recorded: some frames a second of each stream, looked at beside the data path.
//!
//! ```text
//!   receiving thread        part ──────────────────────────────────▶ chunk ─▶ disks
//!                            └ QualityTap: a few sets of frames, copied
//!                                 │ bounded queue; full: left out and counted
//!   thread of low priority        └▶ headers, states, spectra ─▶ core::quality ─▶ events, report, alarms
//! ```
//!
//! A part is touched some times a second, whatever the rate is: at 10 Gb/s one frame in ten thousand. The thread that looks at them has
//! the lowest priority, and takes at most [`CPU_SHARE`] of a CPU: if that is not enough, sets of frames are left out, and findings come
//! later. A recorder never waits for it.
//!
//! What is judged is in [`skyhaul_core::quality`]; states, spectra and autocorrelations are those of [`skyhaul_spectra`], as in plots.

mod analysis;
mod report;
mod shared;
mod tap;
mod thread;

pub use report::{ChannelQuality, FindingReport, QualityReport, ThreadQuality};
pub use shared::{CPU_SHARE, QualityOptions};
pub use skyhaul_core::quality::PhaseCal;
pub use tap::QualityTap;

use crate::recording::Event;
use analysis::Analysis;
use shared::Shared;
use skyhaul_io::lock::lock;
use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{SyncSender, sync_channel};
use std::thread::JoinHandle;

/// Pieces that wait for it: each has at most a mebibyte.
const QUEUE: usize = 16;

/// Watches the streams of one recorder.
#[derive(Debug)]
pub struct Quality {
    shared: Arc<Shared>,
    sender: SyncSender<tap::Taken>,
    thread: JoinHandle<()>,
}

/// Reads what [`Quality`] found, also while it runs.
#[derive(Clone, Debug)]
pub struct QualityView(Arc<Shared>);

impl QualityView {
    /// What was found last.
    #[must_use]
    pub fn report(&self) -> Arc<QualityReport> {
        Arc::clone(&lock(&self.0.report))
    }
}

impl Quality {
    /// Starts the thread. `event` is called on it with each finding that begins or is over.
    ///
    /// # Errors
    /// A thread that cannot be started.
    pub fn start(options: QualityOptions, event: impl Fn(Event) + Send + 'static) -> io::Result<Self> {
        let (sender, receiver) = sync_channel(QUEUE);
        let shared = Arc::<Shared>::default();
        let analysis = Analysis::new(options, Arc::clone(&shared), Box::new(event));
        let thread = std::thread::Builder::new()
            .name("skyhaul-quality".into())
            .spawn(move || analysis.run(&receiver))?;
        Ok(Self { shared, sender, thread })
    }

    /// Makes a tap for each receiving thread.
    pub fn taps(&self) -> impl Fn() -> QualityTap + Send + use<> {
        let (sender, shared) = (self.sender.clone(), Arc::clone(&self.shared));
        move || QualityTap::new(sender.clone(), Arc::clone(&shared))
    }

    /// Reads what is found.
    #[must_use]
    pub fn view(&self) -> QualityView {
        QualityView(Arc::clone(&self.shared))
    }

    /// Looks at what waits, and judges what there is. All taps must be gone.
    #[must_use]
    pub fn finish(self) -> QualityReport {
        let Self { shared, sender, thread } = self;
        shared.is_ending.store(true, Ordering::Relaxed);
        drop(sender);
        // Its panic is a bug that must not cost the recording.
        let has_panicked = thread.join().is_err();
        let mut report = QualityReport::clone(&lock(&shared.report));
        report.has_failed = has_panicked;
        report
    }
}

#[cfg(test)]
mod tests;
