//! The Adler-32 of closed recordings, computed while nothing is recorded.
//!
//! ```text
//!   scans on the disks ─▶ closed, whole, no Adler-32 yet? ─▶ read and verified, nice 19 ─▶ SumStore ─▶ HTTP, fleet
//!                                                             └ pauses while the station records
//! ```
//!
//! Engines of the grid compare files by Adler-32. To compute it beside the CRC-32C costs a recorder a tenth of its CPU time; afterwards it
//! costs none. The thread reads each recording once: what is known is kept by entity tag. So a scan that is removed and recorded anew under its
//! name is read again, as is one that could not be read, a minute later.
//!
//! Limit: of more than [`MAX_REVISITS`] scans, as many are looked at again in a second.

use super::recordings::{RecordingFile, Recordings};
use super::sums::SumStore;
use crate::remote::digests::{Algorithm, Digester};
use crate::remote::failure::Failure;
use skyhaul::io::host::thread::low_priority;
use skyhaul::io::say;
use skyhaul::recording::{DISK_ANSWER_TIMEOUT, IntakeSite, ScanNames};
use std::collections::{BTreeMap, HashSet};
use std::io;
use std::ops::Bound;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

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
            let summing = Summing {
                disks,
                recordings: sums.recordings(None),
                scans: BTreeMap::new(),
                revisited: String::new(),
                may_read,
                over,
            };
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

/// Scans whose indexes are looked at again in each round: one may have been removed and recorded anew under its name, or repaired.
const MAX_REVISITS: usize = 16;
/// When what could not be read is tried again.
const RETRY_INTERVAL: Duration = Duration::from_secs(60);

/// What the thread knows of a scan.
#[derive(Debug, Default)]
struct SeenScan {
    /// The names and entity tags of its recordings, whose sums are known, or cannot be.
    files: Vec<(String, String)>,
    /// Not all could be read: when that is tried again.
    retry_at: Option<Instant>,
}

/// What the thread has.
struct Summing<F> {
    disks: Vec<PathBuf>,
    recordings: Recordings,
    /// Those that are on the disks, by label.
    scans: BTreeMap<String, SeenScan>,
    /// The label of the scan that was looked at again last.
    revisited: String,
    may_read: F,
    over: Arc<AtomicBool>,
}

impl<F: Fn() -> bool> Summing<F> {
    fn run(mut self) {
        // Refused, it computes all the same.
        let _ = low_priority();
        while self.wait() {
            self.round();
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

    /// Looks at the scans that are new, and at some others.
    fn round(&mut self) {
        let names = ScanNames::on(&self.disks, DISK_ANSWER_TIMEOUT);
        let mut is_whole = names.silent_disks.is_empty() && names.unreadable_disks.is_empty();
        if is_whole {
            let there: HashSet<&String> = names.labels.iter().collect();
            self.scans.retain(|label, _| there.contains(label));
        }
        for label in self.due(&names) {
            if !self.wait() {
                return;
            }
            is_whole &= self.look(&label);
        }
        is_whole &= names.labels.iter().all(|label| self.scans.contains_key(label));
        if is_whole {
            let all = self.scans.values().flat_map(|scan| scan.files.iter().cloned());
            self.recordings.sums().retain(all.collect());
        }
    }

    /// The scans to look at: those that are no recordings as far as is known, and in turn some of the others.
    fn due(&mut self, names: &ScanNames) -> Vec<String> {
        let is_new = |label: &&String| self.scans.get(*label).is_none_or(|scan| scan.files.is_empty());
        let mut due: Vec<String> = names.labels.iter().filter(is_new).cloned().collect();
        let behind = self.scans.range::<str, _>((Bound::Excluded(&*self.revisited), Bound::Unbounded));
        let again = behind.chain(&self.scans).take(self.scans.len());
        let again = again.filter(|(_, scan)| !scan.files.is_empty()).map(|(label, _)| label.clone());
        let again: Vec<String> = again.take(MAX_REVISITS).collect();
        self.revisited = again.last().cloned().unwrap_or_default();
        due.extend(again);
        due
    }

    /// Looks at a scan, and computes what is not known of it. Returns whether it is known what recordings it has.
    fn look(&mut self, label: &str) -> bool {
        let files = match self.recordings.files(label) {
            Ok(files) => files,
            // It is being recorded, or has no index.
            Err(failure) if failure.is_not_found() => {
                self.scans.insert(label.to_owned(), SeenScan::default());
                return true;
            }
            Err(_) => return false,
        };
        let named: Vec<_> = files.iter().map(|file| (file.name.clone(), file.etag.clone())).collect();
        let before = self.scans.get(label);
        let is_same = before.is_some_and(|before| before.files == named);
        if is_same && before.is_some_and(|before| before.retry_at.is_none_or(|at| Instant::now() < at)) {
            return true;
        }
        let mut retry_at = None;
        for file in &files {
            if let Err(failure) = self.sum(file) {
                retry_at = Some(Instant::now() + RETRY_INTERVAL);
                if !is_same {
                    say!("the Adler-32 of {} is not known: {}", file.name, failure.text());
                }
            }
        }
        if !self.over.load(Ordering::SeqCst) {
            self.scans.insert(label.to_owned(), SeenScan { files: named, retry_at });
        }
        true
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

#[cfg(test)]
mod tests {
    use super::*;
    use axum::http::StatusCode;
    use axum::response::IntoResponse;
    use skyhaul::io::memory::{Pool, PoolOptions};
    use skyhaul::recording::{Chunk, ChunkMeta, DatastreamInfo, Writer, WriterOptions};
    use std::path::Path;

    const LABEL: &str = "n26c3_mh_no0001";

    /// Records a scan of one chunk that consists of this byte.
    fn record(disk: &Path, byte: u8) {
        let pool =
            Pool::new(&PoolOptions { block_bytes: 1 << 20, ..PoolOptions::with_total(4 << 20) }).unwrap();
        let options = WriterOptions { pool: Some(pool.clone()), ..WriterOptions::new([disk], LABEL) };
        let writer = Writer::create(&options).unwrap();
        let datastream = writer.add_datastream(&DatastreamInfo {
            unit_bytes: 8000,
            units: 1,
            ..DatastreamInfo::default()
        });
        let mut block = pool.take().unwrap();
        block.place(0, &[byte; 8000]);
        let meta = ChunkMeta { units: 1, ..ChunkMeta::default() };
        writer.submit(Chunk { datastream, number: 0, block, range: 0..8000, meta, finish: None }).unwrap();
        assert!(writer.finish(Duration::from_secs(60)).is_whole());
    }

    fn summing(sums: &ScanSums) -> Summing<impl Fn() -> bool> {
        Summing {
            disks: sums.disks.clone(),
            recordings: sums.recordings(None),
            scans: BTreeMap::new(),
            revisited: String::new(),
            may_read: || true,
            over: Arc::default(),
        }
    }

    fn known(summing: &Summing<impl Fn() -> bool>) -> Option<u32> {
        let files = summing.recordings.files(LABEL).unwrap();
        summing.recordings.sums().noted(&files[0].name, files[0].crc32c?)
    }

    fn adler32(byte: u8) -> Option<u32> {
        Some(simd_adler32::adler32(&[byte; 8000].as_slice()))
    }

    /// A client that is told "not found" may believe that the scan is lost.
    #[test]
    fn a_scan_on_a_disk_that_cannot_say_is_not_missing() {
        let directory = tempfile::tempdir().unwrap();
        let disks = ["a", "b"].map(|name| directory.path().join(name));
        disks.iter().for_each(|disk| std::fs::create_dir(disk).unwrap());
        let sums = ScanSums::start(&disks, None::<fn() -> bool>).unwrap();
        let recordings = sums.recordings(None);
        let status =
            |label: &str| recordings.files(label).err().map(|failure| failure.into_response().status());
        assert_eq!(status(LABEL), Some(StatusCode::NOT_FOUND));
        // What cannot be looked at, as of a disk with faults.
        std::os::unix::fs::symlink(LABEL, disks[1].join(LABEL)).unwrap();
        assert_eq!(status(LABEL), Some(StatusCode::SERVICE_UNAVAILABLE));
        record(&disks[0], 5);
        assert_eq!(status(LABEL), None, "it is on the other disk");
    }

    #[test]
    fn a_scan_that_is_recorded_anew_under_its_name_is_summed_again() {
        let directory = tempfile::tempdir().unwrap();
        let sums = ScanSums::start(&[directory.path().to_owned()], None::<fn() -> bool>).unwrap();
        let mut summing = summing(&sums);
        record(directory.path(), 5);
        summing.round();
        assert_eq!(known(&summing), adler32(5));
        let before = summing.recordings.files(LABEL).unwrap()[0].etag.clone();
        std::fs::remove_dir_all(directory.path().join(LABEL)).unwrap();
        record(directory.path(), 6);
        summing.round();
        assert_eq!(known(&summing), adler32(6));
        // What is gone is forgotten, once that is certain.
        summing.round();
        assert!(sums.store.of(&before).get(Algorithm::Adler32).is_none());
        std::fs::remove_dir_all(directory.path().join(LABEL)).unwrap();
        summing.round();
        assert!(summing.scans.is_empty());
    }

    #[test]
    fn what_could_not_be_read_is_tried_again() {
        let directory = tempfile::tempdir().unwrap();
        let sums = ScanSums::start(&[directory.path().to_owned()], None::<fn() -> bool>).unwrap();
        let mut summing = summing(&sums);
        record(directory.path(), 5);
        let chunk = directory.path().join(LABEL).join(format!("{LABEL}.00000000"));
        let whole = std::fs::read(&chunk).unwrap();
        let mut damaged = whole.clone();
        damaged[17] ^= 1;
        std::fs::write(&chunk, damaged).unwrap();
        summing.round();
        assert_eq!(known(&summing), None);
        std::fs::write(&chunk, whole).unwrap();
        summing.round();
        assert_eq!(known(&summing), None, "not yet");
        summing.scans.get_mut(LABEL).unwrap().retry_at = Some(Instant::now());
        summing.round();
        assert_eq!(known(&summing), adler32(5));
    }
}
