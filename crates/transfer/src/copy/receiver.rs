//! The receiver: requests what it lacks, in messages of bounded length, and has it written.

use super::control::{Control, Outcome, Progress, text_memory};
use super::destination::{self, Destination, Rules, Verdict, skew};
use super::flows::{Check, ReceiverEvent, ReceiverShared, WriteOrder};
use super::manifest::{self, Allowed, MAX_ENTRIES, Seen};
use super::message::{Done, Entry, Exists, Failure, Found, Message, Side, Want, What};
use super::names::Names;
use super::options::{Account, Tuning};
use super::requests::Requests;
use super::target::{MAX_RESENT_RANGES, Target};
use super::writer::Writer;
use skyhaul::peer::DataStream;
use skyhaul_io::host::thread::process_cpu_time;
use std::collections::HashMap;
use std::io;
use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};
use std::time::{Duration, Instant};

const PROGRESS_INTERVAL: Duration = Duration::from_millis(200);

/// What to receive, and under which rules.
pub(super) struct ReceiveRequest<'a> {
    pub(super) into: &'a [Destination],
    pub(super) exists: Exists,
    /// Only compare.
    pub(super) verify: bool,
    pub(super) allowed: Allowed,
    /// Directories that exist keep their permissions and times.
    pub(super) keeps_directories: bool,
}

/// A directory, or a link that was made.
#[derive(Clone, Copy)]
struct Unsettled {
    file: usize,
    is_made: bool,
}

/// A file of which both ends read what they have.
struct Comparing {
    target: Arc<Target>,
    mine: Option<Result<u32, String>>,
    theirs: Option<Result<u32, String>>,
}

struct Receiver<'a> {
    wishes: &'a ReceiveRequest<'a>,
    rules: Rules,
    entries: Vec<Entry>,
    seen: Seen,
    all_named: bool,
    done: Vec<Done>,
    /// Not yet told.
    fresh: Vec<Done>,
    comparing: HashMap<usize, Comparing>,
    /// Ends of files that the other end has announced.
    sent: u64,
    /// Runs of ranges that it was asked for.
    runs: u64,
    wanted: u64,
    /// Bytes of files that were there already.
    kept_bytes: u64,
    /// Not done before the end.
    unsettled: Vec<Unsettled>,
    /// Names that are durable.
    names: Names,
}

/// Receive what the other end has, on `flows`.
///
/// # Errors
/// The peer is gone, or a thread failed. The copy can be resumed.
pub(super) fn receive(
    mut talk: Control<'_>,
    flows: Vec<DataStream>,
    wishes: &ReceiveRequest<'_>,
    tuning: &Tuning,
    account: Account,
) -> io::Result<Outcome> {
    let count = flows.len();
    let receiving = ReceiverShared::new(tuning, count, account)?;
    let writer = Writer::new(&receiving)?;
    let (begun, cpu) = (Instant::now(), process_cpu_time());
    let mut receiver = Receiver {
        wishes,
        rules: Rules { range: tuning.range, exists: wishes.exists, verify: wishes.verify, skew: 0 },
        entries: Vec::new(),
        seen: Seen::default(),
        all_named: false,
        done: Vec::new(),
        fresh: Vec::new(),
        comparing: HashMap::new(),
        sent: 0,
        runs: 0,
        wanted: 0,
        kept_bytes: 0,
        unsettled: Vec::new(),
        names: Names::new(&receiving.failed),
    };
    let went = std::thread::scope(|scope| {
        let shared = &receiving;
        for stream in flows {
            scope.spawn(move || shared.receive(stream));
        }
        scope.spawn(move || writer.run().map_err(|error| shared.watch.fail(error)));
        scope.spawn(move || shared.check());
        let went = receiver.talk(&mut talk, shared, begun);
        shared.watch.end();
        went
    });
    let mut mine = receiving.watch.side(begun, cpu, count);
    (mine.engine, mine.direct) = receiving.means.lock().unwrap_or_else(PoisonError::into_inner).clone();
    let ended = went.and_then(|()| talk.part(&mine));
    let (theirs, stopped) = match ended {
        Ok(theirs) => (theirs, None),
        Err(error) => {
            let error = talk.reason(receiving.watch.failure(), error);
            let _ = talk.say(&Message::Stop { why: error.to_string() });
            (Side::default(), Some(error.to_string()))
        }
    };
    // What is counted as it arrives has heads of ranges, too.
    let arrived = match stopped {
        Some(_) => receiving.watch.arrived.load(Ordering::Relaxed).max(mine.bytes),
        None => mine.bytes,
    };
    Ok(Outcome { entries: receiver.entries, done: receiver.done, mine, theirs, arrived, stopped })
}

impl Receiver<'_> {
    fn talk(&mut self, talk: &mut Control<'_>, shared: &ReceiverShared, begun: Instant) -> io::Result<()> {
        let mut shown = Instant::now();
        while !self.all_named || self.done.len() + self.unsettled.len() < self.entries.len() {
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
            if shown.elapsed() >= PROGRESS_INTERVAL {
                shown = Instant::now();
                let holes = shared.watch.holes.load(Ordering::Relaxed);
                let moved = shared.watch.bytes.load(Ordering::Relaxed) + holes;
                let there = shared.watch.resumed.load(Ordering::Relaxed).saturating_add(self.kept_bytes);
                let arrived = (shared.watch.arrived.load(Ordering::Relaxed) + holes).min(self.wanted);
                let durable = shared.watch.activity.durable_bytes().min(self.wanted);
                (talk.progress)(&Progress {
                    files: self.done.len(),
                    all_files: self.entries.len(),
                    bytes: moved,
                    all_bytes: self.wanted,
                    there_bytes: there,
                    confirmed_bytes: there.saturating_add(durable),
                    unconfirmed_bytes: arrived.saturating_sub(durable),
                    arrived_bytes: arrived,
                    seconds: begun.elapsed().as_secs_f64(),
                });
            }
        }
        let _asked = shared.watch.activity.at_disk();
        self.settle(talk)?;
        self.tell(talk, shared)
    }

    fn take(&mut self, talk: &mut Control<'_>, message: Message, shared: &ReceiverShared) -> io::Result<()> {
        match message {
            Message::Clock(theirs) if self.entries.is_empty() => {
                self.rules.skew = skew(theirs);
                Ok(())
            }
            Message::Entries(entries) if !self.all_named => {
                let mut asks = Requests::default();
                for entry in entries {
                    let _asked = shared.watch.activity.at_disk();
                    self.enter(entry, shared, &mut asks)?;
                }
                asks.say(talk)
            }
            Message::Digests(found) => {
                let mut asks = Requests::default();
                for Found { file, digest, error } in found {
                    let theirs = digest.ok_or_else(|| manifest::shown(&error.unwrap_or_default()));
                    shared.account.charge(theirs.as_ref().err().map_or(0, |text| text_memory(text)))?;
                    let Some(one) = self.comparing.get_mut(&file).filter(|one| one.theirs.is_none()) else {
                        return Err(talk.unexpected(&Message::Digests(Vec::new())));
                    };
                    one.theirs = Some(theirs);
                    self.compared(file, shared, &mut asks);
                }
                asks.say(talk)
            }
            Message::AllEntries if !self.all_named => {
                self.all_named = true;
                Ok(())
            }
            Message::Sent(sent) => {
                for one in sent {
                    let file = shared.files.find(one.file as u64);
                    // Once each, again where a range came damaged, and where more were wanted meanwhile.
                    self.sent += 1;
                    let most = self.entries.len() as u64 + self.runs + MAX_RESENT_RANGES;
                    let is_more = self.sent > most;
                    if is_more || !file.is_ok_and(|file| file.is_wanted()) {
                        return Err(talk.unexpected(&Message::Sent(Vec::new())));
                    }
                    let order = match one.error {
                        None => WriteOrder::Sent { file: one.file, digest: one.digest },
                        Some(error) => {
                            let error = manifest::shown(&error);
                            shared.account.charge(text_memory(&error))?;
                            WriteOrder::Lost { file: one.file, error }
                        }
                    };
                    shared.orders.push(order);
                }
                Ok(())
            }
            other => Err(talk.unexpected(&other)),
        }
    }

    /// A name: make it, or want its ranges.
    fn enter(&mut self, mut entry: Entry, shared: &ReceiverShared, asks: &mut Requests) -> io::Result<()> {
        let file = self.entries.len();
        if file >= MAX_ENTRIES {
            return Err(io::Error::new(
                io::ErrorKind::InvalidData,
                format!("the peer sent more than {MAX_ENTRIES} names"),
            ));
        }
        shared.account.charge(entry.memory())?;
        let into = self.wishes.into.get(entry.to).ok_or_else(|| {
            io::Error::new(
                io::ErrorKind::InvalidData,
                "the peer sent a name for a directory that was not requested",
            )
        })?;
        let path = entry.path.path();
        let is_directory = entry.what == What::Directory;
        let verdict = self.wishes.allowed.check(entry.to, &path).and_then(|()| {
            if !is_directory && !self.seen.is_new(entry.to, &path) {
                return Err(io::Error::new(io::ErrorKind::InvalidInput, "the peer sent this name twice"));
            }
            destination::enter(&entry, &into.tree, &into.path, &self.rules)
        });
        let is_kept_directory = is_directory && matches!(verdict, Ok(Verdict::Kept));
        let is_made = matches!(verdict, Ok(Verdict::Made));
        let settles = is_made || (is_kept_directory && !self.rules.verify && !self.wishes.keeps_directories);
        if settles {
            self.unsettled.push(Unsettled { file, is_made });
        }
        if is_made {
            self.names.made(into, &path);
        }
        let verdict = verdict.and_then(|verdict| destination::fits(into, verdict));
        if let (Ok(Verdict::Kept), What::File { size, .. }) = (&verdict, &mut entry.what)
            && self.rules.exists == Exists::Skip
        {
            // One that is kept although it differs has a size of its own.
            let there = into.tree.status(&into.path.join(&path)).ok().flatten();
            *size = there.map_or(0, |there| there.size);
        }
        self.entries.push(entry);
        shared.files.add(match &verdict {
            Ok(Verdict::Wanted(target) | Verdict::Check(target) | Verdict::Compare(target)) => {
                Some(target.clone())
            }
            _ => None,
        });
        match verdict {
            // Told when it is durable, a directory with its permissions.
            Ok(_) if settles => {}
            Ok(Verdict::Kept | Verdict::Made) => self.kept(file, None, shared),
            Ok(Verdict::Wanted(target)) => self.want(file, &target, shared, asks),
            Ok(Verdict::Check(target)) => shared.checks.push(Check::Part { file, target }),
            // Nothing is to be read of an empty one.
            Ok(Verdict::Compare(target)) if target.identity.size == 0 => {
                shared.files.end(file);
                self.kept(file, Some(0), shared);
            }
            Ok(Verdict::Compare(target)) => {
                asks.compares.push(file);
                let comparing = Comparing { target: target.clone(), mine: None, theirs: None };
                self.comparing.insert(file, comparing);
                shared.checks.push(Check::Whole { file, target });
            }
            Err(error) => self.failed(file, &error, shared),
        }
        Ok(())
    }

    /// A name was there already: it is reported when it is durable.
    fn kept(&mut self, file: usize, digest: Option<u32>, shared: &ReceiverShared) {
        let Some(entry) = self.entries.get(file) else { return };
        if let Some(into) = self.wishes.into.get(entry.to).filter(|_| !self.rules.verify) {
            let _asked = shared.watch.activity.at_disk();
            let kept = self.names.keep(into, &entry.path.path(), entry.what == What::Directory);
            if let Err(error) = kept {
                return self.failed(file, &error, shared);
            }
        }
        self.kept_bytes = self.kept_bytes.saturating_add(entry.size());
        self.ended(Done::kept(file, digest));
    }

    fn failed(&mut self, file: usize, failure: impl Into<Failure>, shared: &ReceiverShared) {
        shared.files.end(file);
        self.ended(Done::failed(file, failure.into()));
    }

    /// Want what is open of a file.
    fn want(&mut self, file: usize, target: &Target, shared: &ReceiverShared, asks: &mut Requests) {
        let (before, ranges) = (target.resumed_bytes(), target.want());
        shared.watch.resumed.fetch_add(before, Ordering::Relaxed);
        // A peer may name more holes than a number holds.
        self.wanted = self.wanted.saturating_add(target.identity.size.saturating_sub(before));
        if ranges.is_empty() {
            shared.orders.push(WriteOrder::Sent { file, digest: None });
        } else {
            self.runs += ranges.len() as u64;
            asks.wants.push(Want { file, ranges });
        }
    }

    /// If both ends have read a file: what is to be done about it.
    fn compared(&mut self, file: usize, shared: &ReceiverShared, asks: &mut Requests) {
        let Some(one) = self.comparing.get(&file) else { return };
        let (Some(mine), Some(theirs)) = (one.mine.clone(), one.theirs.clone()) else { return };
        let target = one.target.clone();
        self.comparing.remove(&file);
        match (mine, theirs) {
            (Ok(mine), Ok(theirs)) if mine == theirs => {
                shared.files.end(file);
                self.kept(file, Some(mine), shared);
            }
            (Ok(mine), Ok(theirs)) if self.rules.verify => {
                let text =
                    format!("differs: CRC-32C {theirs:08x} at the source, {mine:08x} at the destination");
                self.failed(file, text, shared);
            }
            (Ok(_), Ok(_)) if self.rules.exists == Exists::Replace => match destination::wanted(target) {
                Ok(Verdict::Check(target)) => shared.checks.push(Check::Part { file, target }),
                Ok(Verdict::Wanted(target)) => self.want(file, &target, shared, asks),
                Ok(_) => {}
                Err(error) => self.failed(file, &error, shared),
            },
            (Ok(_), Ok(_)) => self.failed(file, destination::differs().to_string(), shared),
            (_, Err(error)) => self.failed(file, format!("cannot be read at the source: {error}"), shared),
            (Err(error), _) => {
                self.failed(file, format!("cannot be read at the destination: {error}"), shared);
            }
        }
    }

    fn ended(&mut self, done: Done) {
        self.fresh.push(done.clone());
        self.done.push(done);
    }

    /// Sends the events of the threads to the other end.
    fn tell(&mut self, talk: &mut Control<'_>, shared: &ReceiverShared) -> io::Result<()> {
        let mut asks = Requests::default();
        while let Some(told) = shared.events.try_pop() {
            match told {
                ReceiverEvent::Again { file, range } => talk.say(&Message::Again { file, range })?,
                ReceiverEvent::Done(done) => self.ended(done),
                ReceiverEvent::Checked { file, error: Some(error) } => self.failed(file, error, shared),
                ReceiverEvent::Checked { file, error: None } => {
                    if let Ok(target) = shared.files.find(file as u64) {
                        self.want(file, &target, shared, &mut asks);
                    }
                }
                ReceiverEvent::Found { file, found } => {
                    if let Some(one) = self.comparing.get_mut(&file) {
                        one.mine = Some(found);
                    }
                    self.compared(file, shared, &mut asks);
                }
            }
        }
        asks.say(talk)?;
        while !self.fresh.is_empty() {
            let batch: Vec<Done> = self.fresh.drain(..self.fresh.len().min(256)).collect();
            talk.say(&Message::Done(batch))?;
        }
        Ok(())
    }

    /// Directories get their permissions and times last: files made in them change both. The names of what was made become durable.
    fn settle(&mut self, talk: &mut Control<'_>) -> io::Result<()> {
        // The innermost first, so that what is done to a name does not change the time of its directory later.
        for Unsettled { file, is_made } in std::mem::take(&mut self.unsettled).into_iter().rev() {
            let entry = &self.entries[file];
            let Some(into) = self.wishes.into.get(entry.to) else { continue };
            let (path, is_directory) = (entry.path.path(), entry.what == What::Directory);
            let settled = match is_directory {
                true => into.tree.settle_directory(&into.path.join(&path), entry.mode, entry.modified),
                false => Ok(()),
            };
            let settled = settled.and_then(|()| match is_made {
                true => self.names.keep_made(into, &path),
                false => self.names.keep(into, &path, is_directory),
            });
            self.ended(match settled {
                Ok(()) => Done::kept(file, None),
                Err(error) => Done::failed(file, (&error).into()),
            });
            talk.step();
            talk.live()?;
        }
        Ok(())
    }
}
