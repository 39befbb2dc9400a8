//! The receiving end: says what it wants, and has it written.

use super::files::Verdict;
use super::manifest::MOST;
use super::message::{Done, Entry, Exists, Message, Side, Want, What};
use super::options::Tuning;
use super::receiving::{Order, Receiving, Told};
use super::talk::{Outcome, Progress, Talk};
use super::writing::{NO_ROOM, Writer};
use skyhaul_io::address::system_text;
use skyhaul_io::disk::{Scratch, Tree, free_bytes};
use skyhaul_io::host::thread::process_cpu_time;
use std::io;
use std::net::TcpStream;
use std::path::PathBuf;
use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};
use std::time::{Duration, Instant};

/// Most runs of ranges in one message.
const RUNS: usize = 4096;
const PROGRESS: Duration = Duration::from_millis(200);

/// A directory to copy into.
#[derive(Clone, Debug)]
pub(super) struct Into {
    pub(super) tree: Arc<Tree>,
    /// Its path in the tree.
    pub(super) path: PathBuf,
}

impl Into {
    /// That it cannot be written.
    pub(super) fn failed(&self, error: &io::Error) -> io::Error {
        skyhaul_io::file::failed("write", &self.tree.path().join(&self.path), error)
    }

    /// A file without a name there, and how much may be written into it: whole ranges, a quarter of what is free, at most `most`.
    pub(super) fn scratch(&self, tuning: &Tuning, most: u64) -> io::Result<(Scratch, u64)> {
        let path = self.tree.path().join(&self.path);
        let scratch = || {
            let size = (free_bytes(&path)? / 4).min(most) / tuning.range * tuning.range;
            let mut file = Scratch::create(&path)?;
            file.allocate(size)?;
            file.set_direct(tuning.direct)?;
            Ok((file, size))
        };
        scratch().map_err(|error| self.failed(&error))
    }
}

struct Receiver<'a> {
    into: &'a [Into],
    exists: Exists,
    tuning: &'a Tuning,
    entries: Vec<Entry>,
    all_named: bool,
    done: Vec<Done>,
    /// Not yet told.
    fresh: Vec<Done>,
    wanted: u64,
}

/// Receive what the other end has, on `flows`, into `into`.
///
/// # Errors
/// The peer is gone, or something cannot go on. What was written so far may be resumed.
pub(super) fn receive(
    mut talk: Talk<'_>,
    flows: Vec<TcpStream>,
    into: &[Into],
    exists: Exists,
    tuning: &Tuning,
) -> io::Result<Outcome> {
    let count = flows.len();
    let receiving = Receiving::new(tuning, count)?;
    let writer = Writer::new(&receiving)?;
    let (begun, cpu) = (Instant::now(), process_cpu_time());
    let mut receiver = Receiver {
        into,
        exists,
        tuning,
        entries: Vec::new(),
        all_named: false,
        done: Vec::new(),
        fresh: Vec::new(),
        wanted: 0,
    };
    let went = std::thread::scope(|scope| {
        let shared = &receiving;
        for stream in flows {
            scope.spawn(move || shared.receive(stream).map_err(|error| shared.watch.fail(error)));
        }
        scope.spawn(move || writer.run().map_err(|error| shared.watch.fail(error)));
        let went = receiver.talk(&mut talk, shared, begun);
        shared.watch.end();
        went
    });
    let mut mine = receiving.watch.side(begun, cpu, count);
    (mine.engine, mine.direct) = receiving.means.lock().unwrap_or_else(PoisonError::into_inner).clone();
    let ended = went.and_then(|()| receiver.part(&mut talk, &mine));
    let (theirs, stopped) = match ended {
        Ok(theirs) => (theirs, None),
        Err(error) => {
            let error = talk.reason(receiving.watch.failure(), error);
            let _ = talk.say(&Message::Stop { why: error.to_string() });
            (Side::default(), Some(error.to_string()))
        }
    };
    Ok(Outcome { entries: receiver.entries, done: receiver.done, mine, theirs, stopped })
}

impl Receiver<'_> {
    fn talk(&mut self, talk: &mut Talk<'_>, shared: &Receiving, begun: Instant) -> io::Result<()> {
        let mut shown = Instant::now();
        while !self.all_named || self.done.len() < self.entries.len() {
            if (talk.stop)() {
                return Err(io::Error::new(io::ErrorKind::Interrupted, "interrupted"));
            }
            if shared.watch.is_over() {
                return Err(io::Error::other("a thread ended"));
            }
            if let Some(message) = talk.hear()? {
                self.take(talk, message, shared)?;
            }
            self.tell(talk, shared)?;
            if shown.elapsed() >= PROGRESS {
                shown = Instant::now();
                let moved =
                    shared.watch.bytes.load(Ordering::Relaxed) + shared.watch.holes.load(Ordering::Relaxed);
                (talk.progress)(&Progress {
                    files: self.done.len(),
                    all_files: self.entries.len(),
                    bytes: moved,
                    all_bytes: self.wanted,
                    seconds: begun.elapsed().as_secs_f64(),
                });
            }
        }
        self.settle();
        Ok(())
    }

    /// Both ends have done all: exchange what each did.
    fn part(&mut self, talk: &mut Talk<'_>, mine: &Side) -> io::Result<Side> {
        talk.say(&Message::Finished(Box::new(mine.clone())))?;
        loop {
            match talk.hear()? {
                Some(Message::Finished(theirs)) => return Ok(*theirs),
                Some(Message::Sent(_)) | None => {}
                Some(other) => return Err(talk.unexpected(&other)),
            }
        }
    }

    fn take(&mut self, talk: &mut Talk<'_>, message: Message, shared: &Receiving) -> io::Result<()> {
        match message {
            Message::Entries(entries) if !self.all_named => {
                let mut wants = Vec::new();
                for entry in entries {
                    self.enter(entry, shared, &mut wants)?;
                }
                for batch in batches(wants) {
                    talk.say(&Message::Wanted(batch))?;
                }
                Ok(())
            }
            Message::AllEntries if !self.all_named => {
                self.all_named = true;
                Ok(())
            }
            Message::Sent(sent) => {
                for one in sent {
                    let order = match one.error {
                        None => Order::Sent { file: one.file, digest: one.digest },
                        Some(error) => Order::Lost { file: one.file, error },
                    };
                    shared.orders.push(order);
                }
                Ok(())
            }
            other => Err(talk.unexpected(&other)),
        }
    }

    /// A name: make it, or want its ranges.
    fn enter(&mut self, entry: Entry, shared: &Receiving, wants: &mut Vec<Want>) -> io::Result<()> {
        let file = self.entries.len();
        if file >= MOST {
            return Err(io::Error::new(io::ErrorKind::InvalidData, format!("more than {MOST} names")));
        }
        let into = self.into.get(entry.to).ok_or_else(|| {
            io::Error::new(io::ErrorKind::InvalidData, "a name for a directory that was not asked for came")
        })?;
        let verdict = shared.files.enter(&entry, &into.tree, &into.path, self.tuning.range, self.exists);
        let verdict = verdict.and_then(|verdict| Self::fits(into, verdict));
        self.entries.push(entry);
        match verdict {
            Ok(Verdict::Kept) => self.ended(Done { file, digest: None, kept: true, error: None }),
            Ok(Verdict::Wanted(target)) => {
                let ranges = target.open();
                let before = target.before.keys().map(|&range| target.length(range)).sum::<u64>();
                shared.watch.resumed.fetch_add(before, Ordering::Relaxed);
                self.wanted += target.identity.size - before;
                if ranges.is_empty() {
                    shared.orders.push(Order::Sent { file, digest: None });
                } else {
                    wants.push(Want { file, ranges });
                }
            }
            Err(error) => {
                shared.files.end(file);
                self.ended(Done { file, digest: None, kept: false, error: Some(system_text(&error)) });
            }
        }
        Ok(())
    }

    /// Whether there is room for it now; what it has on the disk already is not needed again.
    fn fits(into: &Into, verdict: Verdict) -> io::Result<Verdict> {
        let Verdict::Wanted(target) = &verdict else { return Ok(verdict) };
        let directory = into.tree.path().join(&into.path);
        let free = free_bytes(&directory).or_else(|_| free_bytes(into.tree.path()));
        let Ok(free) = free else { return Ok(verdict) };
        let stored = target.tree.status(&target.part()).ok().flatten().map_or(0, |part| part.stored);
        let sparse = matches!(target.entry.what, What::File { sparse: true, .. });
        let needs = if sparse { 0 } else { target.identity.size.saturating_sub(stored) };
        if needs > free {
            let text = format!("{needs} bytes needed, {free} bytes free{NO_ROOM}");
            return Err(io::Error::new(io::ErrorKind::StorageFull, text));
        }
        Ok(verdict)
    }

    fn ended(&mut self, done: Done) {
        self.fresh.push(done.clone());
        self.done.push(done);
    }

    /// What the threads have to tell the other end.
    fn tell(&mut self, talk: &mut Talk<'_>, shared: &Receiving) -> io::Result<()> {
        while let Some(told) = shared.told.try_pop() {
            match told {
                Told::Again { file, range } => talk.say(&Message::Again { file, range })?,
                Told::Done(done) => self.ended(done),
            }
        }
        while !self.fresh.is_empty() {
            let batch: Vec<Done> = self.fresh.drain(..self.fresh.len().min(256)).collect();
            talk.say(&Message::Done(batch))?;
        }
        Ok(())
    }

    /// Directories get their permissions and times last: files made in them change both.
    fn settle(&mut self) {
        let directories =
            self.entries.iter().enumerate().rev().filter(|(_, entry)| entry.what == What::Directory);
        for (file, entry) in directories {
            let Some(into) = self.into.get(entry.to) else { continue };
            let path = into.path.join(entry.path.path());
            if let Err(error) = into.tree.settle_directory(&path, entry.mode, entry.modified)
                && let Some(done) = self.done.iter_mut().find(|done| done.file == file)
            {
                done.error.get_or_insert(system_text(&error));
            }
        }
    }
}

/// Wants in messages of bounded length.
fn batches(wants: Vec<Want>) -> Vec<Vec<Want>> {
    let mut batches = vec![Vec::new()];
    let mut runs = 0;
    for want in wants {
        for ranges in want.ranges.chunks(RUNS) {
            runs += ranges.len();
            if runs > RUNS {
                batches.push(Vec::new());
                runs = ranges.len();
            }
            if let Some(last) = batches.last_mut() {
                last.push(Want { file: want.file, ranges: ranges.to_vec() });
            }
        }
    }
    batches.retain(|batch| !batch.is_empty());
    batches
}
