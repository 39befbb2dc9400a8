//! Small files of the station on its disks: journals of schedules, the schedules themselves, and the queue of copies.
//!
//! Each disk has a thread of its own, because any may hang. What is written is durable if one disk has it; the others are waited for a
//! moment, and then left behind. At a restart the files of all disks count together.
//!
//! What a disk refuses, because it is full or failing, is tried again until it takes it or something newer: [`UnwrittenFiles`] says so meanwhile.
//!
//! Limits: [`MAX_WAITING_JOBS`] for each disk; a disk that hangs for longer misses what comes then. [`MAX_LATE_RECORDS`] of journals wait for
//! a disk that refuses them; of more, the oldest are lost there.

use super::unwritten::{UnwrittenDisk, UnwrittenFiles};
use crate::schedule::ScheduleJournal;
use skyhaul::core::hint::Hint;
use skyhaul::core::observation::sequencer::JournalRecord;
use skyhaul::core::station::DeliveryRecord;
use skyhaul::io::disk::sync_name;
use skyhaul::io::file::read_small;
use skyhaul::io::lock::lock;
use skyhaul::io::say;
use std::collections::{BTreeMap, HashMap, VecDeque};
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
/// How often a disk is tried again that refused a file.
const RETRY_INTERVAL: Duration = Duration::from_secs(2);
/// Maximum number of records of journals that wait for a disk that refuses them.
const MAX_LATE_RECORDS: usize = 1024;
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
    /// Files that it refused, each with its newest text.
    refused: BTreeMap<&'static str, Arc<[u8]>>,
    /// Records that it refused, with their schedules.
    late: VecDeque<(String, JournalRecord)>,
    unwritten: Arc<UnwrittenFiles>,
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
    /// The queue of copies, the alarms that were sent, and the schedules.
    queue: Posted,
    alarms: Posted,
    schedules: Posted,
    unwritten: Arc<UnwrittenFiles>,
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
        let unwritten = Arc::<UnwrittenFiles>::default();
        for (at, directory) in disks.iter().enumerate() {
            let (sender, jobs): (_, Receiver<Job>) = sync_channel(MAX_WAITING_JOBS);
            let mut disk = JobDisk::new(directory.clone(), Arc::clone(&unwritten));
            let thread = std::thread::Builder::new().name(format!("station-files-{at}"));
            thread.spawn(move || disk.run(&jobs))?;
            queues.push(sender);
        }
        let posted = |name| Posted::new(name, disks.len());
        let (queue, alarms, schedules) = (posted(QUEUE_FILE), posted(ALARMS_FILE), posted(SCHEDULES_FILE));
        Ok(Self { queues, queue, alarms, schedules, unwritten })
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
            let job = move |disk: &mut JobDisk| disk.append_late(schedule, record);
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
        let kept = Arc::clone(&text);
        let done = self.any(move |disk| disk.keep(name, &kept))?;
        if done.len() < self.queues.len() {
            // It holds now, and the others are to have it, too, as soon as they take it.
            let files = [&self.queue, &self.alarms, &self.schedules];
            files
                .into_iter()
                .filter(|file| file.name == name)
                .for_each(|file| self.put(file, Arc::clone(&text)));
        }
        Ok(())
    }

    /// Keeps the queue of copies, without waiting.
    pub(super) fn post_queue(&self, text: Vec<u8>) {
        self.put(&self.queue, text.into());
    }

    /// Keeps the schedules, without waiting.
    pub(super) fn post_schedules(&self, text: Vec<u8>) {
        self.put(&self.schedules, text.into());
    }

    /// Keeps the alarms that were sent, without waiting.
    pub(super) fn post_alarms(&self, text: Vec<u8>) {
        self.put(&self.alarms, text.into());
    }

    /// The disks that do not take some files now.
    pub(super) fn unwritten(&self) -> Vec<UnwrittenDisk> {
        self.unwritten.disks()
    }

    fn put(&self, file: &Posted, text: Arc<[u8]>) {
        *lock(&file.text) = text;
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
                if disk.keep(name, &text).is_err() {
                    disk.refused.insert(name, text);
                }
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
    fn new(directory: PathBuf, unwritten: Arc<UnwrittenFiles>) -> Self {
        Self {
            directory,
            journals: HashMap::new(),
            refused: BTreeMap::new(),
            late: VecDeque::new(),
            unwritten,
        }
    }

    /// Does jobs until there are no more, and tries again meanwhile what the disk refused.
    fn run(&mut self, jobs: &Receiver<Job>) {
        let mut tried = Instant::now();
        loop {
            let is_whole = self.refused.is_empty() && self.late.is_empty();
            let job = match is_whole {
                true => jobs.recv().map_err(RecvTimeoutError::from),
                false => jobs.recv_timeout(RETRY_INTERVAL.saturating_sub(tried.elapsed())),
            };
            match job {
                Ok(job) => job(self),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return,
            }
            if !is_whole && tried.elapsed() >= RETRY_INTERVAL {
                self.try_again();
                tried = Instant::now();
            }
        }
    }

    fn try_again(&mut self) {
        for (name, text) in std::mem::take(&mut self.refused) {
            if self.keep(name, &text).is_err() {
                self.refused.insert(name, text);
            }
        }
        let _ = self.append_all_late();
    }

    /// Appends a record that is not waited for.
    fn append_late(&mut self, schedule: String, record: JournalRecord) {
        if self.late.len() >= MAX_LATE_RECORDS
            && let Some((schedule, lost)) = self.late.pop_front()
        {
            say!("{}: the journal of {schedule} lacks a record: {lost}", self.directory.display());
        }
        self.late.push_back((schedule, record));
        let _ = self.append_all_late();
    }

    /// Appends what was refused, in turn.
    fn append_all_late(&mut self) -> io::Result<()> {
        while let Some((schedule, record)) = self.late.pop_front() {
            let done = self.append_now(&schedule, &record);
            // The journal is written again once all that waited for it is.
            if done.is_err() || self.late.iter().all(|(other, _)| *other != schedule) {
                self.unwritten.note(&self.directory, &format!("the journal of {schedule}"), &done);
            }
            if done.is_err() {
                self.late.push_front((schedule, record));
                return done;
            }
        }
        Ok(())
    }

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

    /// Appends a record that is waited for: if no disk takes it, what it stands for does not happen.
    fn append(&mut self, schedule: &str, record: &impl Display) -> io::Result<()> {
        let done = self.append_all_late().and_then(|()| self.append_now(schedule, record));
        if let Err(error) = &done {
            say!("{}: the journal of {schedule} lacks a record: {error}", self.directory.display());
        }
        done
    }

    fn append_now(&mut self, schedule: &str, record: &impl Display) -> io::Result<()> {
        self.journal(schedule)?.append(record).map(|_| ())
    }

    /// Writes a file. What was refused of it is old then, if it is written, and also if it is not.
    fn keep(&mut self, name: &'static str, text: &[u8]) -> io::Result<()> {
        self.refused.remove(name);
        let done = self.write(name, text);
        self.unwritten.note(&self.directory, name, &done);
        done
    }

    fn write(&self, name: &str, text: &[u8]) -> io::Result<()> {
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

    /// As a full disk does: the file cannot be made, then it can.
    #[test]
    fn what_a_disk_refused_is_written_when_it_takes_it() {
        let (full, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let in_the_way = [".station_alarms.json.new", ".station_queue.json.new", "x_schedule.journal"];
        let path = |name: &str| full.path().join(name);
        in_the_way.iter().for_each(|name| std::fs::create_dir(path(name)).unwrap());
        let jobs = DiskJobs::start(&[full.path().into(), other.path().into()]).unwrap();
        jobs.post_alarms(b"old".to_vec());
        jobs.post_alarms(b"new".to_vec());
        // Durable on one disk, and acknowledged.
        jobs.keep(QUEUE_FILE, b"queue".to_vec()).unwrap();
        // So many that writing them lasts: the disk lacks some until the last is there.
        let records: Vec<JournalRecord> = (1..=200).map(record).collect();
        records.iter().for_each(|record| jobs.post("x", record));
        jobs.settle();
        let [of_disk] = &jobs.unwritten()[..] else { panic!("one disk: {:?}", jobs.unwritten()) };
        assert_eq!((of_disk.disk.as_path(), of_disk.files), (full.path(), 3));
        assert!(of_disk.reason.contains("directory"), "{}", of_disk.reason);
        in_the_way.iter().for_each(|name| std::fs::remove_dir(path(name)).unwrap());
        let begun = Instant::now();
        while !jobs.unwritten().is_empty() {
            assert!(begun.elapsed() < Duration::from_secs(60), "{:?}", jobs.unwritten());
            std::thread::sleep(Duration::from_millis(10));
        }
        for disk in [full.path(), other.path()] {
            let text = |name: &str| std::fs::read_to_string(disk.join(name)).unwrap();
            assert_eq!((text(ALARMS_FILE).as_str(), text(QUEUE_FILE).as_str()), ("new", "queue"));
            let journal = || ScheduleJournal::open(&[disk.into()], "x").unwrap().records;
            // The other disk has refused nothing, and may still be at it.
            while disk == other.path() && journal().len() < records.len() {
                assert!(begun.elapsed() < Duration::from_secs(60));
                std::thread::sleep(Duration::from_millis(10));
            }
            assert_eq!(journal(), records);
        }
    }

    /// What its client was refused must not come back by a restart.
    #[test]
    fn what_no_disk_took_is_not_written_later() {
        let disk = tempfile::tempdir().unwrap();
        let in_the_way = disk.path().join(".station_schedules.json.new");
        std::fs::create_dir(&in_the_way).unwrap();
        let jobs = DiskJobs::start(&[disk.path().into()]).unwrap();
        jobs.keep(SCHEDULES_FILE, b"refused".to_vec()).unwrap_err();
        assert_eq!(jobs.unwritten().len(), 1);
        jobs.post_schedules(b"before".to_vec());
        std::fs::remove_dir(in_the_way).unwrap();
        let begun = Instant::now();
        while !jobs.unwritten().is_empty() && begun.elapsed() < Duration::from_secs(60) {
            std::thread::sleep(Duration::from_millis(10));
        }
        assert_eq!(jobs.kept(SCHEDULES_FILE).unwrap(), [b"before".to_vec()]);
    }

    #[test]
    fn if_no_disk_takes_it_that_is_an_error() {
        let jobs = DiskJobs::start(&["/nowhere/at/all".into()]).unwrap();
        let error = jobs.append("n26c3_mh", &record(1)).unwrap_err();
        assert!(error.to_string().contains("/nowhere/at/all/n26c3_mh_schedule.journal"), "{error}");
    }
}
