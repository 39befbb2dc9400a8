//! How a scan begins on its disks: each is asked by its own thread, because any may hang.
//!
//! ```text
//!   look ─▶ is the name free? ─▶ claim it ─▶ arm: index, durable ─▶ go: the same thread writes from here on
//!     └──────── a disk that does not answer a step in time is left behind, with the steps that follow ────────▶ joins late
//! ```
//!
//! Each disk takes the same steps in the same order from its own queue. One that is left behind holds nobody up: if it answers
//! while the scan is recorded, it does the steps that wait for it and joins, as a disk that responds again. If it cannot (its
//! name is taken there by now) it has failed. If the scan has ended or was never begun, it removes what it had made.
//!
//! Limits: [`STEP_TIMEOUT`] for a step once a disk has answered it, [`NO_DISK_TIMEOUT`] if none has. A disk that hangs already is
//! not waited for again by this process.

use crate::panics::reason;
use crate::recording::asked;
use crate::recording::contents::Label;
use crate::recording::copies::{MAX_COPIED_DISKS, MAX_COPIES};
use crate::recording::report::DiskState;
use crate::recording::write::disk_thread::DiskThread;
use crate::recording::write::dispatch::Dispatch;
use crate::recording::write::options::{WriterError, WriterOptions, megabytes};
use crate::recording::write::queue::Looked;
use skyhaul_io::disk::{self, Disk, Faults, Log, Place};
use std::fs::File;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// How long a disk may take for a step of the beginning when another one has done it.
const STEP_TIMEOUT: Duration = Duration::from_secs(2);
/// How long the first disk may take for it.
const NO_DISK_TIMEOUT: Duration = Duration::from_secs(20);

impl WriterOptions {
    /// Whether a scan can be recorded in this way, as far as can be checked without creating anything.
    ///
    /// # Errors
    /// The scan name is invalid; or there is no disk, one that cannot be recorded to, or one given twice.
    pub fn check(&self) -> Result<(), WriterError> {
        self.look().map(|_| ())
    }

    /// The same; returns what is ready to begin, and what there is of each disk that responds.
    pub(super) fn look(&self) -> Result<(Opening, Vec<Option<Looked>>), WriterError> {
        Label::new(&self.scan)?;
        if self.disks.is_empty() {
            return Err(WriterError::NoDisk);
        }
        let (copies, disks) = (self.copies, self.disks.len());
        let too_many = copies > 1 && disks > MAX_COPIED_DISKS;
        if !(1..=MAX_COPIES).contains(&copies) || disks < copies as usize || too_many {
            return Err(WriterError::Copies { copies, disks });
        }
        let (opening, looked) = Opening::look(self)?;
        if let Some((index, first)) = twice(&looked) {
            return Err(WriterError::Twice(self.disks[index].clone(), self.disks[first].clone()));
        }
        self.check_space(&looked)?;
        Ok((opening, looked))
    }

    /// Whether any disk that responds has room for a chunk beside its index, for which space is allocated in advance; where all disks are
    /// needed, as many as there are to be copies.
    fn check_space(&self, looked: &[Option<Looked>]) -> Result<(), WriterError> {
        let needed = self.chunk_bytes().max(1).saturating_add(Log::AHEAD_BYTES);
        let wanted = if self.needs_all { self.copies as usize } else { 1 };
        let (mut disks, mut usable) = (Vec::new(), 0);
        for (path, found) in self.disks.iter().zip(looked) {
            let Some(Looked { free, .. }) = *found else {
                disks.push(format!("{} does not respond", path.display()));
                continue;
            };
            if free.saturating_sub(self.reserve_bytes) >= needed {
                usable += 1;
                if usable == wanted {
                    return Ok(());
                }
                continue;
            }
            disks.push(format!("{} has {} free", path.display(), megabytes(free)));
        }
        if usable > 0 {
            let (copies, given, disks) = (self.copies, self.disks.len(), disks.join(", "));
            return Err(WriterError::FewUsable { copies, usable, given, disks });
        }
        Err(WriterError::Full { disks: disks.join(", "), chunk: needed, reserve: self.reserve_bytes })
    }
}

/// What a disk's thread is to do next.
enum Step {
    /// Whether the scan's name is free.
    IsFree(Label),
    /// Makes the scan's directory.
    Claim(Label),
    /// Takes back a claim.
    Release,
    /// Makes the index, with this first line.
    Arm(String),
    /// Records.
    Go(Arc<Dispatch>, Box<Disk>),
}

/// The answer to a step.
enum Answer {
    Looked(Looked),
    Done,
    /// The index.
    Armed(Arc<File>),
}

/// An answer, with the number of the disk and of the step.
type Reply = (usize, usize, io::Result<Answer>);

/// A disk, as the one who opens sees it.
struct Lane {
    steps: Sender<Step>,
    thread: JoinHandle<()>,
    /// Steps that it has answered.
    answered: usize,
    /// It was left behind.
    is_late: Arc<AtomicBool>,
}

/// The disks of a scan that begins. Dropped before they go, they remove what they made.
pub(super) struct Opening {
    paths: Vec<PathBuf>,
    lanes: Vec<Lane>,
    replies: Receiver<Reply>,
    /// Steps that were given to each.
    given: usize,
    needs_all: bool,
}

impl Opening {
    /// Looks at the disks; `None` for one that has not answered in time, or failed where that is no reason not to begin.
    ///
    /// # Errors
    /// No disk answers, or one cannot be recorded to.
    pub(super) fn look(options: &WriterOptions) -> Result<(Opening, Vec<Option<Looked>>), WriterError> {
        let (tell, replies) = channel();
        let is_hanging = |path: &PathBuf| asked::is_hanging(path, STEP_TIMEOUT);
        let paths = options.disks.clone();
        let mut lanes = Vec::with_capacity(paths.len());
        for (index, path) in paths.iter().enumerate() {
            let (steps, told) = channel();
            let is_late = Arc::new(AtomicBool::new(false));
            let faults = options.faults.iter().find(|(disk, _)| *disk == index);
            let beginning = Beginning {
                index,
                path: path.clone(),
                faults: faults.map(|(_, faults)| faults.clone()).unwrap_or_default(),
                is_late: Arc::clone(&is_late),
                looked: None,
                claimed: None,
                log: None,
                failed: None,
            };
            let tell = tell.clone();
            let thread = std::thread::Builder::new().name(format!("disk-{index}"));
            let thread = thread.spawn(move || beginning.run(&told, &tell));
            let thread = thread.map_err(|error| WriterError::Disk { path: path.clone(), error })?;
            lanes.push(Lane { steps, thread, answered: 0, is_late });
        }
        let mut opening = Opening { paths, lanes, replies, given: 1, needs_all: options.needs_all };
        // If all hang, any that answers will do.
        let hanging: Vec<bool> = options.disks.iter().map(is_hanging).collect();
        if hanging.contains(&false) {
            (0..hanging.len()).filter(|&index| hanging[index]).for_each(|index| opening.leave(index));
        }
        let mut looked = vec![None; opening.lanes.len()];
        let mut fault = None;
        for (index, result) in opening.answers()?.into_iter().enumerate() {
            match result {
                Some(Ok(Answer::Looked(found))) => looked[index] = Some(found),
                Some(Err(error)) => fault = fault.or(Some(error)),
                _ => {}
            }
        }
        match fault {
            Some(error) if opening.needs_all || looked.iter().all(Option::is_none) => {
                Err(WriterError::Place(error))
            }
            _ => Ok((opening, looked)),
        }
    }

    /// Finds a name that no disk has, and makes its directories.
    ///
    /// # Errors
    /// There is none, or a disk fails.
    pub(super) fn claim(&mut self, wanted: &Label, most: usize) -> Result<Label, WriterError> {
        let is_taken = |result: &Option<io::Result<Answer>>| matches!(result, Some(Err(error)) if error.kind() == io::ErrorKind::AlreadyExists);
        for label in wanted.variants().take(most) {
            if self.ask(|_| Step::IsFree(label.clone()))?.iter().any(is_taken) {
                continue;
            }
            let claimed = self.ask(|_| Step::Claim(label.clone()))?;
            // Another recorder was faster.
            if claimed.iter().any(is_taken) {
                self.ask(|_| Step::Release)?;
                continue;
            }
            self.first_fault(claimed)?;
            return Ok(label);
        }
        Err(WriterError::Exists(wanted.to_string()))
    }

    /// Makes the index of each disk, with a first line; returns it for those that did it in time.
    ///
    /// # Errors
    /// A disk fails.
    pub(super) fn arm(
        &mut self,
        line: impl Fn(usize) -> String,
    ) -> Result<Vec<Option<Arc<File>>>, WriterError> {
        let armed = self.ask(|index| Step::Arm(line(index)))?;
        let armed = self.first_fault(armed)?;
        let log = |answer| match answer {
            Some(Answer::Armed(log)) => Some(log),
            _ => None,
        };
        Ok(armed.into_iter().map(log).collect())
    }

    /// Lets every disk record; returns their threads.
    pub(super) fn go(mut self, dispatch: &Arc<Dispatch>, disks: Vec<Disk>) -> Vec<JoinHandle<()>> {
        let lanes = std::mem::take(&mut self.lanes);
        let behind = |(_, lane): &(usize, &Lane)| lane.answered < self.given;
        lanes.iter().enumerate().filter(behind).for_each(|(index, _)| dispatch.note_silent_disk(index));
        let started = lanes.into_iter().zip(disks).map(|(lane, disk)| {
            // A thread that ended by a panic does not take it: its disk has no index, and so counts as one that is silent.
            let _ = lane.steps.send(Step::Go(Arc::clone(dispatch), Box::new(disk)));
            lane.thread
        });
        started.collect()
    }

    /// What each answered; the first error is one of all where all are needed.
    fn first_fault(
        &self,
        answers: Vec<Option<io::Result<Answer>>>,
    ) -> Result<Vec<Option<Answer>>, WriterError> {
        let mut done = Vec::with_capacity(answers.len());
        let mut fault = None;
        for (index, answer) in answers.into_iter().enumerate() {
            done.push(match answer {
                Some(Ok(answer)) => Some(answer),
                Some(Err(error)) => {
                    let path = self.paths[index].clone();
                    fault = fault.or(Some(WriterError::Disk { path, error }));
                    None
                }
                None => None,
            });
        }
        match fault {
            Some(fault) if self.needs_all || done.iter().all(Option::is_none) => Err(fault),
            _ => Ok(done),
        }
    }

    /// Gives a step to each disk, and waits for the answers of those that are not behind.
    fn ask(&mut self, step: impl Fn(usize) -> Step) -> Result<Vec<Option<io::Result<Answer>>>, WriterError> {
        self.given += 1;
        for (index, lane) in self.lanes.iter().enumerate() {
            let _ = lane.steps.send(step(index));
        }
        self.answers()
    }

    /// The answers to the last step that was given.
    fn answers(&mut self) -> Result<Vec<Option<io::Result<Answer>>>, WriterError> {
        let mut answers: Vec<_> = self.lanes.iter().map(|_| None).collect();
        let begun = Instant::now();
        loop {
            let is_late = |lane: &Lane| lane.is_late.load(Ordering::Acquire);
            let is_awaited = |lane: &Lane| lane.answered < self.given && !is_late(lane);
            if !self.lanes.iter().any(is_awaited) && answers.iter().any(Option::is_some) {
                return Ok(answers);
            }
            let limit = if answers.iter().any(Option::is_some) { STEP_TIMEOUT } else { NO_DISK_TIMEOUT };
            match self.replies.recv_timeout(limit.saturating_sub(begun.elapsed())) {
                Ok((index, step, result)) => {
                    self.lanes[index].answered = step + 1;
                    if step + 1 == self.given {
                        answers[index] = Some(result);
                    }
                }
                Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => {
                    let behind: Vec<_> =
                        (0..self.lanes.len()).filter(|&index| is_awaited(&self.lanes[index])).collect();
                    behind.into_iter().for_each(|index| self.leave(index));
                    return match answers.iter().any(Option::is_some) {
                        true => Ok(answers),
                        false => Err(WriterError::Silent),
                    };
                }
            }
        }
    }

    /// Waits for a disk no more.
    fn leave(&self, index: usize) {
        asked::note_hanging(&self.paths[index], STEP_TIMEOUT);
        self.lanes[index].is_late.store(true, Ordering::Release);
    }
}

impl Drop for Opening {
    /// What was made is removed: at once on the disks that answer, for the next attempt.
    fn drop(&mut self) {
        let lanes: Vec<Lane> = self.lanes.drain(..).collect();
        let end = Instant::now() + STEP_TIMEOUT;
        for Lane { steps, thread, is_late, .. } in lanes {
            drop(steps);
            while !thread.is_finished() && !is_late.load(Ordering::Acquire) && Instant::now() < end {
                std::thread::sleep(Duration::from_millis(1));
            }
        }
    }
}

/// A disk on which a scan begins, on its own thread.
struct Beginning {
    index: usize,
    path: PathBuf,
    faults: Faults,
    is_late: Arc<AtomicBool>,
    looked: Option<Looked>,
    /// The scan's directory, which was made here.
    claimed: Option<Label>,
    log: Option<Log>,
    /// Why the last step that matters was not done.
    failed: Option<String>,
}

impl Beginning {
    fn run(mut self, steps: &Receiver<Step>, tell: &Sender<Reply>) {
        let mut answer = self.look().map(Answer::Looked);
        if let Err(error) = &answer {
            self.failed = Some(error.to_string());
        }
        for number in 0.. {
            // Who has gone needs no answer.
            let _ = tell.send((self.index, number, answer));
            self.is_here();
            answer = match steps.recv() {
                // Nobody begins.
                Err(_) => break,
                Ok(Step::Go(dispatch, disk)) => {
                    // It may have been left behind in the moment of its last answer.
                    self.is_here();
                    return self.go(&dispatch, *disk);
                }
                Ok(Step::Release) => {
                    self.undo();
                    Ok(Answer::Done)
                }
                // What follows a step that failed is in vain.
                Ok(_) if self.failed.is_some() => {
                    Err(io::Error::other(self.failed.clone().unwrap_or_default()))
                }
                Ok(Step::IsFree(label)) => self.is_free(&label).map(|()| Answer::Done),
                Ok(Step::Claim(label)) => self.claim(label).map(|()| Answer::Done),
                Ok(Step::Arm(line)) => self.arm(&line).map(Answer::Armed),
            };
        }
        self.undo();
        self.is_here();
    }

    /// It hangs no more.
    fn is_here(&self) {
        if self.is_late.swap(false, Ordering::AcqRel) {
            asked::note_answer(&self.path);
        }
    }

    fn look(&mut self) -> io::Result<Looked> {
        let place = Place::for_recordings(&self.path)?;
        let free = disk::free_bytes(&self.path)?;
        let looked = Looked { place, free, device: disk::device(&self.path).ok() };
        self.looked = Some(looked);
        Ok(looked)
    }

    fn is_free(&self, label: &Label) -> io::Result<()> {
        match label.directories(&self.path) {
            Ok(names) if !names.is_empty() => Err(io::ErrorKind::AlreadyExists.into()),
            _ => Ok(()),
        }
    }

    fn claim(&mut self, label: Label) -> io::Result<()> {
        self.is_free(&label)?;
        match std::fs::create_dir(self.path.join(label.as_str())) {
            Ok(()) => self.claimed = Some(label),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => return Err(error),
            Err(error) => {
                self.failed = Some(error.to_string());
                return Err(error);
            }
        }
        Ok(())
    }

    /// Makes the index with the durable record of the session.
    fn arm(&mut self, line: &str) -> io::Result<Arc<File>> {
        let armed = self.make_index(line);
        if let Err(error) = &armed {
            self.failed = Some(error.to_string());
        }
        armed
    }

    fn make_index(&mut self, line: &str) -> io::Result<Arc<File>> {
        let taken = || io::Error::new(io::ErrorKind::AlreadyExists, "the scan's name is taken on it");
        let label = self.claimed.as_ref().ok_or_else(taken)?;
        let path = label.index(&self.path);
        let log = self.log.insert(Log::open(&path, false)?);
        log.reserve(64 << 10)?;
        log.append(line.as_bytes())?;
        self.faults.opens();
        log.file().sync_all()?;
        for directory in path.ancestors().skip(1).take(2) {
            disk::open_directory(directory)?.sync_all()?;
        }
        Ok(Arc::clone(log.file()))
    }

    /// Records, unless it is too late for that.
    fn go(mut self, dispatch: &Arc<Dispatch>, disk: Disk) {
        let shared = &dispatch.disks[self.index];
        let (Some(log), Some(looked)) = (self.log.take_if(|_| self.failed.is_none()), self.looked) else {
            let why = self.failed.take().unwrap_or_else(|| "the scan could not begin on it".to_owned());
            self.undo();
            dispatch.retire(self.index, DiskState::Failed, &why);
            return;
        };
        let joins = shared.join(log.file(), looked.free, dispatch.reserve);
        if !joins || dispatch.is_ending() {
            self.log = Some(log);
            self.undo();
            return;
        }
        run(DiskThread::new(self.index, Arc::clone(dispatch), disk, log), dispatch, self.index);
    }

    /// Removes what was made here.
    fn undo(&mut self) {
        let Some(label) = self.claimed.take() else { return };
        if self.log.take().is_some() {
            let _ = std::fs::remove_file(label.index(&self.path));
        }
        let _ = std::fs::remove_dir(self.path.join(label.as_str()));
    }
}

/// Disks among those looked at that are on one file system with an earlier one.
pub(super) fn sharing(looked: &[Option<Looked>]) -> impl Iterator<Item = usize> + '_ {
    let device = |index: usize| looked[index].and_then(|found| found.device);
    (0..looked.len()).filter(move |&index| {
        device(index).is_some() && (0..index).any(|earlier| device(earlier) == device(index))
    })
}

/// A disk that is the same directory as an earlier one, with that one.
pub(super) fn twice(looked: &[Option<Looked>]) -> Option<(usize, usize)> {
    let place = |index: usize| looked[index].map(|found| found.place);
    (0..looked.len()).find_map(|index| {
        let first = (0..index).find(|&earlier| place(index).is_some() && place(earlier) == place(index));
        first.map(|first| (index, first))
    })
}

/// A disk's thread. Its failure never ends the scan: its chunks go to the other disks, and the report gives the reason.
fn run(drive: DiskThread, dispatch: &Dispatch, index: usize) {
    // What it leaves behind is locked state that is sound at every step, and memory that comes back.
    if let Err(panic) = catch_unwind(AssertUnwindSafe(|| drive.run())) {
        dispatch.died(index, reason(&*panic));
    }
}
