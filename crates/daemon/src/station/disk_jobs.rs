//! Small files of the station on its disks: journals of schedules, the schedules themselves, and the queue of copies.
//!
//! Each disk has a thread of its own, because any may hang. What is written is durable if one disk has it; the others are waited for a
//! moment, and then left behind. At a restart the files of all disks count together.
//!
//! Limits: [`MAX_WAITING_JOBS`] for each disk; a disk that hangs for longer misses what comes then.

use crate::schedule::ScheduleJournal;
use skyhaul::core::hint::Hint;
use skyhaul::core::observation::sequencer::JournalRecord;
use skyhaul::core::station::DeliveryRecord;
use skyhaul::io::disk::sync_name;
use skyhaul::io::file::read_small;
use skyhaul::io::lock::lock;
use std::collections::HashMap;
use std::fmt::Display;
use std::fs::File;
use std::io::{self, ErrorKind, Write};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// Maximum number of jobs that wait for a disk.
const MAX_WAITING_JOBS: usize = 1024;
/// How long other disks are waited for when one has done a job.
const SETTLE_TIME: Duration = Duration::from_secs(1);
/// How long the first disk may take.
const PATIENCE: Duration = Duration::from_secs(20);
/// Maximum number of journals that a disk has open.
const MAX_OPEN_JOURNALS: usize = 64;
/// Maximum size of the file with the schedules or the queue, bytes.
const MAX_KEPT_BYTES: usize = 256 << 20;
/// Name of the file with the schedules.
pub(super) const SCHEDULES_FILE: &str = "station_schedules.json";
/// Name of the file with the queue of copies.
pub(super) const QUEUE_FILE: &str = "station_queue.json";
/// Name of the file with the alarms that receivers were sent.
pub(super) const ALARMS_FILE: &str = "station_alarms.json";

/// A disk, for its thread.
#[derive(Debug)]
struct JobDisk {
    directory: PathBuf,
    journals: HashMap<String, ScheduleJournal>,
}

/// What the journals of a schedule hold.
#[derive(Debug, Default)]
pub(super) struct JournalContents {
    pub(super) attempts: Vec<JournalRecord>,
    pub(super) delivered: Vec<DeliveryRecord>,
}

type Job = Box<dyn FnOnce(&mut JobDisk) + Send>;

/// The threads of all disks. They end with it, and are not waited for.
#[derive(Debug)]
pub(super) struct DiskJobs {
    queues: Vec<SyncSender<Job>>,
    /// The queue of copies, and the alarms that were sent.
    queue: Posted,
    alarms: Posted,
}

/// A file that is kept without waiting; a disk that is slow writes only the newest.
#[derive(Debug)]
struct Posted {
    name: &'static str,
    text: Arc<Mutex<Arc<[u8]>>>,
    /// Of each disk: whether it will write it.
    posting: Vec<Arc<AtomicBool>>,
}

impl Posted {
    fn new(name: &'static str, disks: usize) -> Self {
        Self {
            name,
            text: Arc::new(Mutex::new(Arc::default())),
            posting: (0..disks).map(|_| Arc::default()).collect(),
        }
    }
}

impl DiskJobs {
    pub(super) fn start(disks: &[PathBuf]) -> io::Result<Self> {
        let mut queues = Vec::with_capacity(disks.len());
        for (at, directory) in disks.iter().enumerate() {
            let (sender, jobs): (_, Receiver<Job>) = sync_channel(MAX_WAITING_JOBS);
            let mut disk = JobDisk { directory: directory.clone(), journals: HashMap::new() };
            std::thread::Builder::new().name(format!("station-files-{at}")).spawn(move || {
                while let Ok(job) = jobs.recv() {
                    job(&mut disk);
                }
            })?;
            queues.push(sender);
        }
        let posted = |name| Posted::new(name, disks.len());
        Ok(Self { queues, queue: posted(QUEUE_FILE), alarms: posted(ALARMS_FILE) })
    }

    /// Appends a record to the journal of a schedule, and waits until a disk has it.
    pub(super) fn append<R>(&self, schedule: &str, record: &R) -> io::Result<()>
    where
        R: Display + Clone + Send + 'static,
    {
        let (schedule, record) = (schedule.to_owned(), record.clone());
        self.any(move |disk| disk.append(&schedule, &record)).map(|_| ())
    }

    /// The same, without waiting.
    pub(super) fn post(&self, schedule: &str, record: &JournalRecord) {
        for queue in &self.queues {
            let (schedule, record) = (schedule.to_owned(), record.clone());
            // A disk that does not take it does not know that an attempt has ended; others do.
            let job = move |disk: &mut JobDisk| drop(disk.append(&schedule, &record));
            let _ = queue.try_send(Box::new(job));
        }
    }

    /// Returns what the journals of a schedule hold.
    pub(super) fn records(&self, schedule: &str) -> io::Result<JournalContents> {
        let schedule = schedule.to_owned();
        let all = self.any(move |disk| {
            // Read anew: others may have written it, such as `record --schedule`.
            disk.journals.remove(&schedule);
            let journal = disk.journal(&schedule)?;
            Ok((std::mem::take(&mut journal.records), std::mem::take(&mut journal.delivered)))
        })?;
        let (attempts, delivered): (Vec<_>, Vec<_>) = all.into_iter().unzip();
        Ok(JournalContents { attempts: attempts.concat(), delivered: delivered.concat() })
    }

    /// Keeps a file that takes the place of the last one of its name.
    pub(super) fn keep(&self, name: &'static str, text: Vec<u8>) -> io::Result<()> {
        let text: Arc<[u8]> = text.into();
        self.any(move |disk| disk.keep(name, &text)).map(|_| ())
    }

    /// Keeps the queue of copies, without waiting.
    pub(super) fn post_queue(&self, text: Vec<u8>) {
        self.put(&self.queue, text);
    }

    /// Keeps the alarms that were sent, without waiting.
    pub(super) fn post_alarms(&self, text: Vec<u8>) {
        self.put(&self.alarms, text);
    }

    fn put(&self, file: &Posted, text: Vec<u8>) {
        *lock(&file.text) = text.into();
        let name = file.name;
        for (queue, posting) in self.queues.iter().zip(&file.posting) {
            if posting.swap(true, Ordering::SeqCst) {
                continue;
            }
            let (posted, taken) = (Arc::clone(&file.text), Arc::clone(posting));
            let job = move |disk: &mut JobDisk| {
                // Before the text is taken: what is posted from now on needs another job.
                taken.store(false, Ordering::SeqCst);
                let text = Arc::clone(&lock(&posted));
                // A disk that cannot be written does not know it; others do.
                drop(disk.keep(name, &text));
            };
            if queue.try_send(Box::new(job)).is_err() {
                posting.store(false, Ordering::SeqCst);
            }
        }
    }

    /// Returns the files of a name, of all disks that have one.
    pub(super) fn kept(&self, name: &'static str) -> io::Result<Vec<Vec<u8>>> {
        let all = self.any(move |disk| match read_small(&disk.directory.join(name), MAX_KEPT_BYTES) {
            Ok(bytes) => Ok(Some(bytes)),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        })?;
        Ok(all.into_iter().flatten().collect())
    }

    /// Waits for what is under way, for a moment.
    pub(super) fn settle(&self) {
        let _ = self.any(|_| Ok(()));
    }

    /// Does a job on each disk, and returns the results of those that do it in time: at least one.
    fn any<T: Send + 'static>(
        &self,
        job: impl FnOnce(&mut JobDisk) -> io::Result<T> + Clone + Send + 'static,
    ) -> io::Result<Vec<T>> {
        let (sender, results) = sync_channel(self.queues.len());
        for queue in &self.queues {
            let (job, sender) = (job.clone(), sender.clone());
            let _ = queue.try_send(Box::new(move |disk: &mut JobDisk| drop(sender.try_send(job(disk)))));
        }
        drop(sender);
        let (mut done, mut failure) = (Vec::new(), None);
        let begun = Instant::now();
        loop {
            let limit = if done.is_empty() { PATIENCE } else { SETTLE_TIME };
            match results.recv_timeout(limit.saturating_sub(begun.elapsed())) {
                Ok(Ok(result)) => done.push(result),
                Ok(Err(error)) => failure = Some(error),
                Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => break,
            }
        }
        let silent = || {
            let text = format!("no disk responds{}", Hint("see `skyhaul status`"));
            io::Error::new(ErrorKind::TimedOut, text)
        };
        if done.is_empty() { Err(failure.unwrap_or_else(silent)) } else { Ok(done) }
    }
}

impl JobDisk {
    fn journal(&mut self, schedule: &str) -> io::Result<&mut ScheduleJournal> {
        if !self.journals.contains_key(schedule) {
            if self.journals.len() >= MAX_OPEN_JOURNALS {
                self.journals.clear();
            }
            let journal = ScheduleJournal::open(std::slice::from_ref(&self.directory), schedule)?;
            self.journals.insert(schedule.to_owned(), journal);
        }
        self.journals.get_mut(schedule).ok_or_else(|| io::Error::other("the journal is not open"))
    }

    fn append(&mut self, schedule: &str, record: &impl Display) -> io::Result<()> {
        self.journal(schedule)?.append(record).map(|_| ())
    }

    fn keep(&self, name: &str, text: &[u8]) -> io::Result<()> {
        let path = self.directory.join(name);
        let new = self.directory.join(format!(".{name}.new"));
        let mut file = File::create(&new)?;
        file.write_all(text)?;
        file.sync_all()?;
        std::fs::rename(&new, &path)?;
        sync_name(&path)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(attempt: u32) -> JournalRecord {
        JournalRecord { end: None, attempt, at: 7, start: 9, name: "no0001".into() }
    }

    #[test]
    fn a_disk_that_hangs_holds_nothing_up() {
        let (first, second) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let jobs = DiskJobs::start(&[first.path().into(), second.path().into()]).unwrap();
        let (hold, held) = std::sync::mpsc::channel::<()>();
        // The first disk waits until the test lets it go.
        jobs.queues[0]
            .send(Box::new(move |_: &mut JobDisk| {
                let _ = held.recv();
            }))
            .unwrap();
        jobs.append("n26c3_mh", &record(1)).unwrap();
        jobs.keep(SCHEDULES_FILE, b"{}".to_vec()).unwrap();
        assert_eq!(
            (jobs.records("n26c3_mh").unwrap().attempts, jobs.kept(SCHEDULES_FILE).unwrap()),
            (vec![record(1)], vec![b"{}".to_vec()])
        );
        assert!(!first.path().join("n26c3_mh_schedule.journal").exists());
        drop(hold);
        // What waited for it is done then.
        jobs.settle();
        assert_eq!(jobs.records("n26c3_mh").unwrap().attempts, vec![record(1); 2]);
    }

    #[test]
    fn if_no_disk_takes_it_that_is_an_error() {
        let jobs = DiskJobs::start(&["/nowhere/at/all".into()]).unwrap();
        let error = jobs.append("n26c3_mh", &record(1)).unwrap_err();
        assert!(error.to_string().contains("/nowhere/at/all/n26c3_mh_schedule.journal"), "{error}");
    }
}
