//! The Adler-32 of closed recordings, computed while nothing is recorded.
//!
//! ```text
//!   scans on the disks ─▶ closed, whole, no Adler-32 yet? ─▶ read and verified, nice 19 ─▶ SumStore ─▶ HTTP, fleet
//!                                                             └ pauses while the station records
//! ```
//!
//! Engines of the grid compare files by Adler-32. To compute it beside the CRC-32C costs a recorder a tenth of its CPU time; afterwards it
//! costs none. The thread reads each recording once: what is known is kept.

use super::recordings::{RecordingFile, Recordings};
use super::sums::SumStore;
use crate::remote::digests::{Algorithm, Digester};
use crate::remote::failure::Failure;
use skyhaul::io::host::thread::low_priority;
use skyhaul::io::say;
use skyhaul::recording::{DISK_ANSWER_TIMEOUT, IntakeSite, ScanNames};
use std::collections::HashSet;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// How often scans are looked for, and whether the station still records.
const POLL_INTERVAL: Duration = Duration::from_secs(1);

/// The digests of a station's closed recordings, and the thread that computes them. It ends with the piece that it reads when this is
/// dropped.
#[derive(Debug)]
pub struct ScanSums {
    disks: Vec<PathBuf>,
    store: Arc<SumStore>,
    over: Arc<AtomicBool>,
}

impl ScanSums {
    /// The digests of the closed recordings on these disks, a station's. With `may_read` they are computed whenever it returns true, which it
    /// should while nothing is recorded; without it, only what clients ask for is known.
    ///
    /// # Errors
    /// A thread cannot be started.
    pub fn start(
        disks: &[PathBuf],
        may_read: Option<impl Fn() -> bool + Send + 'static>,
    ) -> io::Result<Self> {
        let (disks, store) = (disks.to_vec(), Arc::new(SumStore::open(disks)));
        let sums = Self { disks, store, over: Arc::default() };
        if let Some(may_read) = may_read {
            let (disks, over) = (sums.disks.clone(), Arc::clone(&sums.over));
            let summing =
                Summing { disks, recordings: sums.recordings(None), done: HashSet::new(), may_read, over };
            std::thread::Builder::new().name("scan-sums".into()).spawn(move || summing.run())?;
        }
        Ok(sums)
    }

    /// The disks that they are of.
    pub(crate) fn disks(&self) -> &[PathBuf] {
        &self.disks
    }

    /// The recordings on the disks; uploads become such if there is a `site` for them.
    pub(crate) fn recordings(&self, site: Option<IntakeSite>) -> Recordings {
        Recordings::new(self.disks.clone(), site, Arc::clone(&self.store))
    }

    /// The same again and again, as long as these digests last.
    pub(crate) fn reader(&self) -> impl Fn() -> Recordings + Send + use<> {
        let (disks, store) = (self.disks.clone(), Arc::clone(&self.store));
        move || Recordings::new(disks.clone(), None, Arc::clone(&store))
    }
}

impl Drop for ScanSums {
    fn drop(&mut self) {
        self.over.store(true, Ordering::SeqCst);
    }
}

/// What the thread has.
struct Summing<F> {
    disks: Vec<PathBuf>,
    recordings: Recordings,
    /// Scans whose sums are all known, or that cannot be read.
    done: HashSet<String>,
    may_read: F,
    over: Arc<AtomicBool>,
}

impl<F: Fn() -> bool> Summing<F> {
    fn run(mut self) {
        // Refused, it computes all the same.
        let _ = low_priority();
        let mut etags = Some(HashSet::new());
        while self.wait() {
            if self.round(etags.as_mut())
                && let Some(etags) = etags.take()
            {
                self.recordings.sums().retain(&etags);
            }
            std::thread::sleep(POLL_INTERVAL);
        }
    }

    /// Waits while the station records; whether there is more to do.
    fn wait(&self) -> bool {
        while !self.over.load(Ordering::SeqCst) {
            if (self.may_read)() {
                return true;
            }
            std::thread::sleep(POLL_INTERVAL);
        }
        false
    }

    /// Looks at all scans that are new; whether all disks answered and each of their scans was looked at, in this round or before.
    fn round(&mut self, mut etags: Option<&mut HashSet<String>>) -> bool {
        let names = ScanNames::on(&self.disks, DISK_ANSWER_TIMEOUT);
        let mut is_whole = names.silent_disks.is_empty() && names.unreadable_disks.is_empty();
        for label in
            names.labels.iter().filter(|label| !self.done.contains(*label)).cloned().collect::<Vec<_>>()
        {
            if !self.wait() {
                return false;
            }
            match self.recordings.files(&label) {
                Ok(files) => {
                    if let Some(etags) = &mut etags {
                        etags.extend(files.iter().map(|file| file.etag.clone()));
                    }
                    for file in &files {
                        if let Err(failure) = self.sum(file) {
                            say!("the Adler-32 of {} is not known: {}", file.name, failure.text());
                        }
                    }
                    self.done.insert(label);
                }
                // It is being recorded, or has no index.
                Err(failure) if failure.is_not_found() => {}
                Err(_) => is_whole = false,
            }
        }
        is_whole
    }

    /// Computes what is not known of a recording.
    fn sum(&self, file: &RecordingFile) -> Result<(), Failure> {
        let sums = self.recordings.sums();
        // Of what lacks bytes there is no digest that other copies would have.
        let named = (&*file.name, file.crc32c);
        if file.crc32c.is_none() || sums.of(&file.etag).get(Algorithm::Adler32).is_some() {
            sums.note(&file.etag, named);
            return Ok(());
        }
        let (recording, datastream) = self.recordings.open(file)?;
        let mut reader = recording.range_reader(datastream, 1).map_err(|error| Failure::of(&error))?;
        let mut digester = Digester::new([Algorithm::Adler32]);
        while let Some(piece) = reader.next_piece().map_err(|error| Failure::of(&error))? {
            digester.update(&piece);
            if !self.wait() {
                return Ok(());
            }
        }
        sums.keep(&file.etag, file.bytes, &digester.finish());
        sums.note(&file.etag, named);
        Ok(())
    }
}
