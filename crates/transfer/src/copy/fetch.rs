//! Files of a server of another protocol, such as HTTP, by the writer, the journal and the rules of a copy.
//!
//! ```text
//!   names ─▶ there already? ─▶ earlier part read again ─▶ open ranges ─▶ jobs ─▶ worker 0 ══ RangeServer ══▶ blocks ─▶ writer
//!                                                            ▲            ─▶ worker n                        journal, NAME
//!                                                            └── what broke, after a while
//! ```
//!
//! Such a server sends no checksum with a range. So a file is compared as a whole, with the CRC-32C or Adler-32 that the server has for it,
//! before it gets its name; or with another digest, which needs its bytes in order (`ordered`). Where it has none, that the file is still the same
//! version is all that can be known. A server without ranges
//! sends a file from the start each time; what an earlier attempt proved is not written again.
//!
//! Limits: those of [`back_off`].

mod compare;
mod ordered;
mod server;
mod work;

pub use server::{DigestMismatch, FetchError, OrderedDigest, RangeBody, RangeServer, ServedFile, back_off};

use super::client::{CopyReport, local_into, report};
use super::control::{Outcome, POLL_INTERVAL, Progress, SessionState};
use super::destination::{self, Destination, Rules, Verdict, now};
use super::flows::{Check, ReceiverEvent, ReceiverShared, WriteOrder};
use super::manifest::{Allowed, MAX_ENTRIES, Seen, shown};
use super::message::{Done, Entry, Failure, Name, Origin, Side, SourceSizes, What};
use super::names::Names;
use super::options::{Account, CopyOptions};
use super::target::Target;
use super::writer::Writer;
use server::file_mode;
use skyhaul_io::host::thread::process_cpu_time;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};
use std::time::{Duration, Instant};
use work::{Job, Summed, Work, Workers, present};

/// Ranges that are asked for in one request.
const MAX_RANGES_PER_JOB: u64 = 16;
/// Jobs of a file for each worker, so that all of them end at nearly the same time.
const JOBS_PER_WORKER: u64 = 4;
const PROGRESS_INTERVAL: Duration = Duration::from_millis(200);
/// The permissions of directories, less those of the umask.
const DIRECTORY_MODE: u32 = 0o755;

/// Copies `files` and makes `directories`, as [`copy`](super::copy()) copies from a server of its own, with the options of that. Sources and
/// servers of `options` are not used; everything goes into the first of its directories. `progress` is called a few times a second.
///
/// # Errors
/// Nothing was copied: the destination cannot be written. What ends a copy later is in the report.
pub fn fetch(
    (files, directories): (&[ServedFile], &[PathBuf]),
    server: &dyn RangeServer,
    options: &CopyOptions,
    progress: &mut dyn FnMut(&Progress),
) -> io::Result<CopyReport> {
    let invalid = |text: String| io::Error::new(io::ErrorKind::InvalidInput, text);
    options.tuning.check().map_err(invalid)?;
    if files.len() + directories.len() > MAX_ENTRIES {
        return Err(invalid(format!("the server lists more than {MAX_ENTRIES} names")));
    }
    let mut options = options.clone();
    options.tuning = options.tuning.bounded();
    let into = local_into(&options)?;
    let into = into.first().ok_or_else(|| invalid("no directory to copy into".to_owned()))?;
    if options.dry_run {
        let sizes = SourceSizes {
            files: files.len() as u64,
            bytes: files.iter().map(|file| file.size).fold(0, u64::saturating_add),
        };
        let version = skyhaul::report::VERSION;
        return Ok(CopyReport { version, to_copy: Some(sizes), ..CopyReport::default() });
    }
    let tuning = &options.tuning;
    tuning.live.set(tuning.limit);
    let (begun, cpu, count) = (Instant::now(), process_cpu_time(), tuning.flows);
    let mut shared = ReceiverShared::new(tuning, count, Account::alone())?;
    shared.watch = SessionState::held(tuning);
    let (shared, workers) = (&shared, &Workers::new(server, files));
    let writer = Writer::new(shared)?;
    let rules = Rules { range: tuning.range, exists: options.exists, verify: options.verify, skew: 0 };
    let mut fetcher = Fetcher::new(files, into, rules, (shared, workers), options.stop.clone());
    let went = std::thread::scope(|scope| {
        for _ in 0..count {
            scope.spawn(move || workers.run(shared));
        }
        scope.spawn(move || writer.run().map_err(|error| shared.watch.fail(error)));
        scope.spawn(move || shared.check());
        let went = fetcher.run(directories, begun, progress);
        shared.watch.end();
        went
    });
    let mut mine = shared.watch.side(begun, cpu, count);
    (mine.engine, mine.direct) = shared.means.lock().unwrap_or_else(PoisonError::into_inner).clone();
    let stopped = went.err().map(|error| shared.watch.failure().unwrap_or(error).to_string());
    // Its rate is held here, in place of the server.
    let theirs = Side { paced: mine.paced, ..Side::default() };
    let arrived = mine.bytes;
    let outcome = Outcome { entries: fetcher.entries, done: fetcher.done, mine, theirs, arrived, stopped };
    let mut report = report(&options, &outcome, begun.elapsed(), Duration::ZERO);
    let has_none = |done: &&Done| {
        let file = files.get(done.file).filter(|_| done.error.is_none() && !done.kept);
        file.is_some_and(|file| file.crc32c.is_none() && file.adler32.is_none())
            && !workers.is_ordered(done.file)
    };
    let path = |done: &Done| outcome.entries.get(done.file).map(|entry| entry.path.path());
    let unchecked = outcome.done.iter().filter(has_none).filter_map(path);
    report.unchecked = unchecked.map(|path| options.into[0].join(path)).collect();
    Ok(report)
}

/// What becomes of a file.
#[derive(Default)]
struct State {
    /// Jobs that are not done.
    pending: usize,
    tries: u32,
    /// Nothing is asked for before.
    due: Option<Instant>,
    is_confirmed: bool,
}

struct Fetcher<'a> {
    files: &'a [ServedFile],
    into: &'a Destination,
    rules: Rules,
    shared: &'a ReceiverShared,
    workers: &'a Workers<'a>,
    stop: skyhaul::stop::StopFlag,
    entries: Vec<Entry>,
    done: Vec<Done>,
    states: Vec<State>,
    /// Jobs that wait for their time.
    waiting: Vec<(Instant, Job)>,
    /// Attempts to reach the server since the last byte, and when the next ones begin.
    tries: u32,
    due: Option<Instant>,
    seen_ranges: u64,
    wanted: u64,
    kept_bytes: u64,
    /// The permissions of files.
    mode: u32,
    /// Names that are durable.
    names: Names,
}

impl<'a> Fetcher<'a> {
    fn new(
        files: &'a [ServedFile],
        into: &'a Destination,
        rules: Rules,
        (shared, workers): (&'a ReceiverShared, &'a Workers<'a>),
        stop: skyhaul::stop::StopFlag,
    ) -> Self {
        let states = files.iter().map(|_| State::default()).collect();
        Self {
            files,
            into,
            rules,
            shared,
            workers,
            stop,
            entries: Vec::new(),
            done: Vec::new(),
            states,
            waiting: Vec::new(),
            tries: 0,
            due: None,
            seen_ranges: 0,
            wanted: 0,
            kept_bytes: 0,
            mode: file_mode(),
            names: Names::new(&shared.failed),
        }
    }

    fn run(
        &mut self,
        directories: &[PathBuf],
        begun: Instant,
        progress: &mut dyn FnMut(&Progress),
    ) -> io::Result<()> {
        let (mut seen, mut shown_at) = (Seen::default(), Instant::now());
        let made: Vec<_> = directories.iter().map(|path| self.directory(path, &mut seen)).collect();
        for number in 0..self.files.len() {
            self.enter(number, &mut seen);
        }
        let mut directories = Vec::new();
        for (entry, made) in made {
            let number = self.entries.len();
            self.entries.push(entry);
            self.shared.files.add(None);
            match made {
                Ok(is_made) => directories.push((number, is_made)),
                Err(error) => self.done.push(Done::failed(number, (&error).into())),
            }
        }
        while self.done.len() + directories.len() < self.entries.len() {
            if self.stop.is_set() {
                return Err(io::Error::new(io::ErrorKind::Interrupted, "interrupted"));
            }
            if self.shared.watch.is_over() {
                return Err(io::Error::other("a thread ended"));
            }
            self.turn()?;
            if shown_at.elapsed() >= PROGRESS_INTERVAL {
                shown_at = Instant::now();
                let watch = &self.shared.watch;
                let bytes = watch.bytes.load(Ordering::Relaxed);
                let durable_bytes = watch.activity.durable_bytes().min(bytes);
                let there_bytes = watch.resumed.load(Ordering::Relaxed) + self.kept_bytes;
                progress(&Progress {
                    files: self.done.len(),
                    all_files: self.entries.len(),
                    bytes,
                    all_bytes: self.wanted,
                    there_bytes,
                    confirmed_bytes: there_bytes + durable_bytes,
                    unconfirmed_bytes: bytes.saturating_sub(durable_bytes),
                    arrived_bytes: bytes,
                    seconds: begun.elapsed().as_secs_f64(),
                });
            }
        }
        for (number, is_made) in directories {
            let path = self.entries[number].path.path();
            let kept = match is_made {
                true => self.names.keep_made(self.into, &path),
                false => self.names.keep(self.into, &path, true),
            };
            self.done.push(match kept {
                Ok(()) => Done::kept(number, None),
                Err(error) => Done::failed(number, (&error).into()),
            });
        }
        Ok(())
    }

    /// Decides what is done about a file.
    fn enter(&mut self, number: usize, seen: &mut Seen) {
        let file = &self.files[number];
        let there = self.into.tree.status(&self.into.path.join(&file.path)).ok().flatten();
        let stated = file.modified.map(|seconds| (seconds, 0));
        // Where the server does not say a time, what is here of the same size may be the same.
        let modified = stated.or(there.filter(|there| there.size == file.size).map(|there| there.modified));
        let origin =
            Origin { device: file.version[0], inode: file.version[1], changed: stated.unwrap_or_else(now) };
        let what = What::File { size: file.size, sparse: false };
        let entry = Entry {
            to: 0,
            path: Name::from(file.path.as_path()),
            what,
            mode: self.mode,
            modified: modified.unwrap_or_else(now),
            origin,
        };
        let verdict = self.verdict(&entry, seen).map(|verdict| match verdict {
            // What a part is resumed by is only what the server has said.
            Verdict::Wanted(target) => Verdict::Wanted(versioned(target, stated)),
            Verdict::Check(target) => Verdict::Check(versioned(target, stated)),
            Verdict::Compare(target) => Verdict::Compare(versioned(target, stated)),
            other => other,
        });
        self.entries.push(entry);
        self.shared.files.add(match &verdict {
            Ok(Verdict::Wanted(target) | Verdict::Check(target) | Verdict::Compare(target)) => {
                Some(target.clone())
            }
            _ => None,
        });
        match verdict {
            Ok(Verdict::Kept | Verdict::Made) => self.kept(number, None),
            Ok(Verdict::Wanted(target)) => self.want(number, &target),
            Ok(Verdict::Check(target)) => self.shared.checks.push(Check::Part { file: number, target }),
            Ok(Verdict::Compare(target)) => self.compare(number, target),
            Err(error) => self.failed(number, &error),
        }
    }

    /// Makes a directory, before the files that go into it; whether it was not there.
    fn directory(&mut self, path: &Path, seen: &mut Seen) -> (Entry, io::Result<bool>) {
        let (name, origin) = (Name::from(path), Origin::default());
        let entry =
            Entry { to: 0, path: name, what: What::Directory, mode: DIRECTORY_MODE, modified: now(), origin };
        let verdict = self.verdict(&entry, seen);
        (entry, verdict.map(|verdict| matches!(verdict, Verdict::Made)))
    }

    fn verdict(&self, entry: &Entry, seen: &mut Seen) -> io::Result<Verdict> {
        let path = entry.path.path();
        Allowed::All.check(0, &path)?;
        self.shared.account.charge(entry.memory())?;
        if !seen.is_new(0, &path) {
            let text = "the server lists this name twice";
            return Err(io::Error::new(io::ErrorKind::InvalidInput, text));
        }
        let verdict = destination::enter(entry, &self.into.tree, &self.into.path, &self.rules)?;
        destination::fits(self.into, verdict)
    }

    /// Asks for what is open of a file.
    fn want(&mut self, number: usize, target: &Target) {
        let (before, runs) = (target.resumed_bytes(), target.want());
        self.shared.watch.resumed.fetch_add(before, Ordering::Relaxed);
        self.wanted = self.wanted.saturating_add(target.identity.size.saturating_sub(before));
        let open: u64 = runs.iter().map(|(_, count)| count).sum();
        if before > 0 && self.workers.sums_up(number) {
            // The checksum of the whole needs those of the ranges that are there.
            self.job(number, Work::SumPart(present(&runs, target.identity.ranges())));
        }
        if !self.files[number].has_ranges {
            if open > 0 {
                self.job(number, Work::Fetch { first: 0, count: target.identity.ranges(), whole: true });
            }
        } else {
            let workers = self.shared.tuning.flows as u64;
            let each = open.div_ceil(workers * JOBS_PER_WORKER).clamp(1, MAX_RANGES_PER_JOB);
            for (first, count) in runs {
                for at in (first..first + count).step_by(each as usize) {
                    let count = each.min(first + count - at);
                    self.job(number, Work::Fetch { first: at, count, whole: false });
                }
            }
        }
        if self.states[number].pending == 0 {
            self.complete(number);
        }
    }

    fn job(&mut self, number: usize, work: Work) {
        self.states[number].pending += 1;
        self.workers.jobs.push(Job { file: number, work });
    }

    /// What the threads have done.
    fn turn(&mut self) -> io::Result<()> {
        let mut event = self.shared.events.pop(POLL_INTERVAL);
        while let Some(told) = event {
            match told {
                ReceiverEvent::Done(done) => self.done.push(done),
                ReceiverEvent::Checked { file, error: Some(error) } => self.failed(file, error),
                ReceiverEvent::Checked { file, error: None } => {
                    if let Ok(target) = self.shared.files.find(file as u64) {
                        self.want(file, &target);
                    }
                }
                ReceiverEvent::Found { file, found } => {
                    let theirs = self.files[file].crc32c;
                    self.compared(file, found.map(|found| DigestMismatch::between("CRC-32C", found, theirs)));
                }
                ReceiverEvent::Again { .. } => {}
            }
            event = self.shared.events.try_pop();
        }
        while let Some((job, result)) = self.workers.returned.try_pop() {
            self.settle(job, result)?;
        }
        let time = Instant::now();
        let (due, later): (Vec<_>, Vec<_>) =
            std::mem::take(&mut self.waiting).into_iter().partition(|(at, _)| *at <= time);
        self.waiting = later;
        due.into_iter().for_each(|(_, job)| self.workers.jobs.push(job));
        Ok(())
    }

    fn settle(&mut self, job: Job, result: Result<Option<Summed>, FetchError>) -> io::Result<()> {
        let number = job.file;
        let ranges = self.shared.watch.ranges.load(Ordering::Relaxed);
        if ranges > self.seen_ranges {
            (self.seen_ranges, self.tries) = (ranges, 0);
        }
        if self.shared.files.find(number as u64).is_ok_and(|target| target.is_ended()) {
            return Ok(());
        }
        match result {
            Ok(found) => {
                let state = &mut self.states[number];
                (state.pending, state.tries) = (state.pending - 1, 0);
                match (&job.work, found) {
                    (Work::SumFile, found) => {
                        let theirs = self.files[number].adler32;
                        let found = found.ok_or_else(|| "its size changed".to_owned());
                        self.compared(
                            number,
                            found.map(|found| match found {
                                Summed::Adler32(found) => DigestMismatch::between("Adler-32", found, theirs),
                                Summed::Ordered(compared) => compared,
                            }),
                        );
                    }
                    _ if state.pending == 0 => self.complete(number),
                    _ => {}
                }
            }
            Err(FetchError::Over) => {}
            Err(FetchError::Final(text)) => self.lost(number, &text),
            Err(FetchError::Busy(text, wait)) => {
                let state = &mut self.states[number];
                match later(&mut state.due, &mut state.tries, wait) {
                    Some(at) => self.waiting.push((at, job)),
                    None => self.lost(number, &text),
                }
            }
            Err(FetchError::Broken(text)) => match later(&mut self.due, &mut self.tries, None) {
                Some(at) => self.waiting.push((at, job)),
                None => return Err(io::Error::new(io::ErrorKind::ConnectionAborted, shown(&text))),
            },
        }
        Ok(())
    }

    /// The ranges written so far stay for the next copy.
    fn lost(&self, file: usize, text: &str) {
        self.workers.forget(file);
        self.shared.orders.push(WriteOrder::Lost { file, error: shown(text) });
    }

    /// A file was there already: it is reported when its name is durable.
    fn kept(&mut self, number: usize, digest: Option<u32>) {
        let Some(entry) = self.entries.get(number) else { return };
        let (size, path) = (entry.size(), entry.path.path());
        if !self.rules.verify
            && let Err(error) = self.names.keep(self.into, &path, false)
        {
            return self.failed(number, &error);
        }
        self.kept_bytes = self.kept_bytes.saturating_add(size);
        self.done.push(Done::kept(number, digest));
    }

    fn failed(&mut self, number: usize, failure: impl Into<Failure>) {
        self.workers.forget(number);
        self.shared.files.end(number);
        self.done.push(Done::failed(number, failure.into()));
    }
}

/// The target of a file, with a time only if the server says one.
fn versioned(target: Arc<Target>, stated: Option<(i64, u32)>) -> Arc<Target> {
    let mut target = target;
    if let Some(one) = Arc::get_mut(&mut target) {
        (one.identity.modified, one.identity.origin.changed) =
            (stated.unwrap_or_default(), stated.unwrap_or_default());
    }
    target
}

/// When the next attempt begins; `None`: there were enough. Failures while one waits are of the same cause.
fn later(due: &mut Option<Instant>, tries: &mut u32, wait: Option<Duration>) -> Option<Instant> {
    let time = Instant::now();
    if let Some(at) = due.filter(|at| *at > time) {
        return Some(at);
    }
    *tries += 1;
    *due = Some(time + back_off(*tries, wait)?);
    *due
}
