//! The threads of the catalogue: one looks at the disks and reads indexes, with the lowest priority; one writes its file.

use super::store::CatalogueFile;
use crate::station::disks::{MAX_INTERRUPTED, pause};
use crate::station::shared::Shared;
use skyhaul::io::host::thread::low_priority;
use skyhaul::io::lock::lock;
use skyhaul::recording::{DISK_ANSWER_TIMEOUT, ScanSurvey};
use std::collections::BTreeSet;
use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::sync_channel;
use std::time::{Duration, Instant};

/// How often disks are looked at.
const LOOK_INTERVAL: Duration = Duration::from_secs(10);
/// Of the time, so much is spent on looking: one part in so many; while something is recorded, one in ten times as many.
const LOOK_SHARE: u32 = 20;
const SHARE_BESIDE_RECORDINGS: u32 = 10;
/// But at least so often.
const MAX_LOOK_INTERVAL: Duration = Duration::from_secs(60);
/// A look that somebody asked for begins so long after the last one.
const MIN_LOOK_INTERVAL: Duration = Duration::from_secs(1);
/// Between the scans that are read while something is recorded: as many times as long as reading one took.
const REST_BESIDE_RECORDINGS: u32 = 4;
/// And at most so long.
const MAX_REST: Duration = Duration::from_secs(1);
/// How long the start of the thread waits for its file.
const LOAD_TIMEOUT: Duration = Duration::from_secs(2);
/// How often what has changed is written.
const WRITE_INTERVAL: Duration = Duration::from_millis(500);
/// Starts the threads of the catalogue. They end with the service, and are not waited for.
pub(in crate::station) fn start(shared: &Arc<Shared>) -> io::Result<()> {
    let (loaded, load) = sync_channel(1);
    let writing = Arc::clone(shared);
    std::thread::Builder::new().name("station-catalogue-file".into()).spawn(move || {
        let mut file = CatalogueFile::new(&writing.setup.disks);
        writing.catalogue.load(&mut file);
        let _ = loaded.send(());
        while pause(&writing, WRITE_INTERVAL) {
            writing.catalogue.write(&mut file);
        }
        writing.catalogue.write(&mut file);
    })?;
    let looking = Arc::clone(shared);
    std::thread::Builder::new().name("station-catalogue".into()).spawn(move || {
        // Refused, it reads all the same.
        let _ = low_priority();
        // What the file has may be taken later.
        let _ = load.recv_timeout(LOAD_TIMEOUT);
        // In a statement of its own: in that of `run`, the lock of the station's state would be held as long as that.
        let first = lock(&looking.state).names.clone();
        Looking { shared: &looking, first }.run();
    })?;
    Ok(())
}

/// Between the beginnings of two looks. What was waited for silent disks is no work.
pub(super) fn look_interval(elapsed: Duration, is_waited: bool, share: u32) -> Duration {
    let waits = if is_waited { DISK_ANSWER_TIMEOUT } else { Duration::ZERO };
    (elapsed.saturating_sub(waits) * share).clamp(LOOK_INTERVAL, MAX_LOOK_INTERVAL)
}

/// The thread that looks at the disks.
struct Looking<'a> {
    shared: &'a Shared,
    /// Scans that were there at the start, and that may have been cut by a crash.
    first: BTreeSet<String>,
}

impl Looking<'_> {
    fn run(&self) {
        let catalogue = &self.shared.catalogue;
        while !self.is_over() {
            let begun = Instant::now();
            catalogue.is_asked.store(false, Ordering::SeqCst);
            let survey = ScanSurvey::of(&self.shared.setup.disks, DISK_ANSWER_TIMEOUT);
            let is_waited = !survey.silent_disks.is_empty();
            let unread = catalogue.note(survey);
            let queued = lock(&self.shared.state).station.queued();
            catalogue.note_copies(&queued);
            self.first.iter().for_each(|name| self.note_interrupted(name));
            let share = match self.is_recording() {
                true => LOOK_SHARE * SHARE_BESIDE_RECORDINGS,
                false => LOOK_SHARE,
            };
            let next = begun + look_interval(begun.elapsed(), is_waited, share);
            self.read(&unread, (begun, next));
            while !self.is_due(begun, next) && pause(self.shared, Duration::from_millis(50)) {}
        }
    }

    fn is_over(&self) -> bool {
        self.shared.over.load(Ordering::Relaxed)
    }

    fn is_recording(&self) -> bool {
        self.shared.is_recording.load(Ordering::Relaxed)
    }

    /// Whether the disks are to be looked at again.
    fn is_due(&self, begun: Instant, next: Instant) -> bool {
        let is_asked =
            self.shared.catalogue.is_asked.load(Ordering::SeqCst) && begun.elapsed() >= MIN_LOOK_INTERVAL;
        Instant::now() >= next || is_asked
    }

    /// Reads scans, until the disks are to be looked at again. Those that are being recorded change until they end.
    fn read(&self, unread: &[String], (begun, next): (Instant, Instant)) {
        let recorded = self.shared.recorded_scans();
        for name in unread.iter().filter(|name| !recorded.contains(*name)) {
            if self.is_over() || self.is_due(begun, next) {
                return;
            }
            let read = Instant::now();
            self.shared.catalogue.read(name);
            self.note_interrupted(name);
            if self.is_recording() {
                pause(self.shared, (read.elapsed() * REST_BESIDE_RECORDINGS).min(MAX_REST));
            }
        }
    }

    /// Notes a scan that a recorder left without an end, such as one that was killed, before this service began.
    fn note_interrupted(&self, name: &str) {
        let Some(is_interrupted) = self.shared.catalogue.is_interrupted(name) else { return };
        if !self.first.contains(name) {
            return;
        }
        let mut all = lock(&self.shared.interrupted);
        match (is_interrupted, all.binary_search_by(|other| other.as_str().cmp(name))) {
            (true, Err(at)) if all.len() < MAX_INTERRUPTED => all.insert(at, name.to_owned()),
            (false, Ok(at)) => drop(all.remove(at)),
            _ => {}
        }
    }
}
