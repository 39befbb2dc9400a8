//! The sender: names the files, and sends the ranges that the receiver wants.

use super::control::{Control, Outcome, Progress, shown_side};
use super::destination::now;
use super::digest::Digest;
use super::manifest::{Manifest, Root, shown};
use super::message::{Done, Entry, Found, Message, Sent, Want};
use super::options::{Account, Tuning};
use super::reader::{Job, SenderEvent, SenderShared, changed};
use super::target::MAX_RESENT_RANGES;
use skyhaul::peer::DataStream;
use skyhaul_io::disk::tree::Status;
use skyhaul_io::host::thread::process_cpu_time;
use skyhaul_io::tcp::info::TcpInfo;
use std::collections::{HashMap, HashSet};
use std::io;
use std::net::TcpStream;
use std::sync::PoisonError;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// Most bytes of a message with names: a server takes no longer ones than 256 KiB.
const MAX_ENTRIES_BYTES: usize = 64 << 10;
const PROGRESS_INTERVAL: Duration = Duration::from_millis(200);
/// Most files reported in one message.
const MAX_FILES_PER_MESSAGE: usize = 256;

/// A file of which ranges are wanted.
#[derive(Default)]
struct Sending {
    left: u64,
    digest: Digest,
    error: Option<String>,
}

struct Sender<'a> {
    manifest: &'a Manifest,
    roots: &'a [Root],
    tuning: &'a Tuning,
    files: HashMap<usize, Sending>,
    named: usize,
    all_named: bool,
    wanted: u64,
    /// Bytes that the other end had before.
    there: u64,
    /// Files of which digests were asked for.
    compared: HashSet<usize>,
    done: Vec<Done>,
    theirs: Option<Box<super::message::Side>>,
    /// The flows, and what the other end had acknowledged of each before.
    flows: Vec<(TcpStream, u64)>,
}

/// Send all of `manifest` that the other end wants, on `flows`.
///
/// # Errors
/// The peer is gone, or a thread failed. The copy can be resumed.
pub(super) fn send(
    mut talk: Control<'_>,
    flows: Vec<DataStream>,
    roots: &[Root],
    manifest: &Manifest,
    tuning: &Tuning,
    account: Account,
) -> io::Result<Outcome> {
    let count = flows.len();
    let reading = SenderShared::new(tuning, count, account)?;
    let (begun, cpu) = (Instant::now(), process_cpu_time());
    let watched = flows.iter().map(|flow| Ok((flow.socket().try_clone()?, acknowledged(flow.socket()))));
    let watched = watched.collect::<io::Result<_>>()?;
    let mut sender = Sender {
        manifest,
        roots,
        tuning,
        files: HashMap::new(),
        named: 0,
        all_named: false,
        wanted: 0,
        there: 0,
        compared: HashSet::new(),
        done: Vec::new(),
        theirs: None,
        flows: watched,
    };
    let went = std::thread::scope(|scope| {
        let shared = &reading;
        for stream in flows {
            scope.spawn(move || shared.send(stream).map_err(|error| shared.watch.fail(error)));
        }
        scope.spawn(move || shared.read(roots, manifest).map_err(|error| shared.watch.fail(error)));
        scope.spawn(move || shared.compare(roots, manifest));
        let went = sender.talk(&mut talk, shared, begun);
        match &went {
            Ok(()) => shared.watch.end(),
            Err(_) => shared.halt(),
        }
        went
    });
    let mut mine = reading.watch.side(begun, cpu, count);
    (mine.engine, mine.direct) = reading.means.lock().unwrap_or_else(PoisonError::into_inner).clone();
    mine.congestion.clone_from(&reading.congestion.lock().unwrap_or_else(PoisonError::into_inner));
    let stopped = match went {
        Ok(()) => {
            talk.say(&Message::Finished(Box::new(mine.clone())))?;
            None
        }
        Err(error) => {
            let error = talk.reason(reading.watch.failure(), error);
            let _ = talk.say(&Message::Stop { why: error.to_string() });
            Some(error.to_string())
        }
    };
    // What the kernel counts has heads of ranges, too.
    let arrived = if stopped.is_some() { sender.arrived().max(mine.bytes) } else { mine.bytes };
    let theirs = sender.theirs.map(|side| *side).unwrap_or_default();
    Ok(Outcome { entries: manifest.entries.clone(), done: sender.done, mine, theirs, arrived, stopped })
}

/// Bytes that the peer of a flow has acknowledged; 0 where the kernel does not say.
fn acknowledged(flow: &TcpStream) -> u64 {
    TcpInfo::of(flow).map_or(0, |info| info.bytes_acked)
}

impl Sender<'_> {
    fn talk(&mut self, talk: &mut Control<'_>, shared: &SenderShared, begun: Instant) -> io::Result<()> {
        let mut shown = Instant::now();
        while self.theirs.is_none() {
            if (talk.stop)() {
                return Err(io::Error::new(io::ErrorKind::Interrupted, "interrupted"));
            }
            if shared.watch.is_over() {
                return Err(io::Error::other("a thread ended"));
            }
            self.name(talk)?;
            while let Some(message) = talk.hear()? {
                self.take(talk, message, shared)?;
                if self.theirs.is_some() || !self.all_named {
                    break;
                }
            }
            // Else both ends wait to be heard when the other one's answers to many names fill the buffers.
            while !self.all_named
                && let Some(message) = talk.hear_now()?
            {
                self.take(talk, message, shared)?;
            }
            self.tell(talk, shared)?;
            if shown.elapsed() >= PROGRESS_INTERVAL {
                shown = Instant::now();
                let holes = shared.watch.holes.load(Ordering::Relaxed);
                let moved = shared.watch.bytes.load(Ordering::Relaxed) + holes;
                let arrived = (self.arrived() + holes).min(self.wanted);
                let durable = shared.watch.activity.peer_durable_bytes().min(self.wanted);
                (talk.progress)(&Progress {
                    files: self.done.len(),
                    all_files: self.manifest.entries.len(),
                    bytes: moved,
                    all_bytes: self.wanted,
                    there_bytes: self.there,
                    confirmed_bytes: self.there.saturating_add(durable),
                    unconfirmed_bytes: arrived.saturating_sub(durable),
                    arrived_bytes: arrived,
                    seconds: begun.elapsed().as_secs_f64(),
                });
            }
        }
        Ok(())
    }

    /// Bytes that the other end has acknowledged.
    fn arrived(&self) -> u64 {
        self.flows.iter().map(|(flow, before)| acknowledged(flow).saturating_sub(*before)).sum()
    }

    /// The next names.
    fn name(&mut self, talk: &mut Control<'_>) -> io::Result<()> {
        // An end that makes names slower than they come is waited for here: a message is to be taken within a time.
        if self.all_named || talk.connection.unsent_bytes() > MAX_ENTRIES_BYTES as u64 {
            return Ok(());
        }
        if self.named == 0 {
            talk.say(&Message::Clock(now()))?;
        }
        let (mut batch, mut bytes): (Vec<Entry>, usize) = (Vec::new(), 0);
        while let Some(entry) = self.manifest.entries.get(self.named) {
            // Octets that are no text take up to four characters each.
            bytes += 160 + serde_json::to_string(entry).map_or(0, |text| text.len());
            if bytes > MAX_ENTRIES_BYTES && !batch.is_empty() {
                break;
            }
            batch.push(entry.clone());
            self.named += 1;
        }
        talk.step();
        if batch.is_empty() {
            self.all_named = true;
            return talk.say(&Message::AllEntries);
        }
        talk.say(&Message::Entries(batch))
    }

    fn take(&mut self, talk: &Control<'_>, message: Message, shared: &SenderShared) -> io::Result<()> {
        match message {
            Message::Wanted(wants) => wants.into_iter().try_for_each(|want| self.want(talk, want, shared)),
            Message::Again { file, range } => {
                shared.watch.again.fetch_add(1, Ordering::Relaxed);
                self.want(talk, Want { file, ranges: vec![(range, 1)] }, shared)
            }
            Message::Compare(files) => files.into_iter().try_for_each(|file| {
                if file >= self.named
                    || !self.compared.insert(file)
                    || self.manifest.entries[file].size() == 0
                {
                    return Err(talk.unexpected(&Message::Compare(Vec::new())));
                }
                shared.compares.push(file);
                Ok(())
            }),
            Message::Done(mut done) => {
                if self.done.len() + done.len() > self.manifest.entries.len() {
                    return Err(talk.unexpected(&Message::Done(Vec::new())));
                }
                let kept =
                    |one: &&Done| one.kept && one.error.is_none() && !self.files.contains_key(&one.file);
                let kept = done.iter().filter(kept).filter_map(|one| self.manifest.entries.get(one.file));
                let kept = kept.map(Entry::size).fold(0, u64::saturating_add);
                self.there = self.there.saturating_add(kept);
                done.iter_mut().filter_map(|one| one.error.as_mut()).for_each(|error| *error = shown(error));
                self.done.extend(done);
                Ok(())
            }
            Message::Finished(side) => {
                self.theirs = Some(Box::new(shown_side(*side)));
                Ok(())
            }
            other => Err(talk.unexpected(&other)),
        }
    }

    fn want(&mut self, talk: &Control<'_>, want: Want, shared: &SenderShared) -> io::Result<()> {
        let wrong = || talk.unexpected(&Message::Wanted(Vec::new()));
        let entry =
            self.manifest.entries.get(want.file).filter(|_| want.file < self.named).ok_or_else(wrong)?;
        let ranges = entry.size().div_ceil(self.tuning.range);
        let (mut count, before) = (0, self.wanted);
        for &(first, more) in &want.ranges {
            let end = first.checked_add(more).filter(|&end| more > 0 && end <= ranges).ok_or_else(wrong)?;
            count += more;
            let bytes = end.saturating_mul(self.tuning.range).min(entry.size()) - first * self.tuning.range;
            self.wanted += bytes;
        }
        if count == 0 {
            return Err(wrong());
        }
        if !self.files.contains_key(&want.file) {
            self.there = self.there.saturating_add(entry.size().saturating_sub(self.wanted - before));
        }
        let file = self.files.entry(want.file).or_default();
        // Ranges under way are not requested again, except those that arrived damaged.
        if file.left + count > ranges + MAX_RESENT_RANGES {
            return Err(wrong());
        }
        file.left += count;
        shared.account.charge(want.ranges.len() as u64 * 16)?;
        shared.todo.push(Job { file: want.file, ranges: want.ranges.into() });
        Ok(())
    }

    /// Tell of files of which all wanted ranges are sent, and of what was found.
    fn tell(&mut self, talk: &mut Control<'_>, shared: &SenderShared) -> io::Result<()> {
        let (mut ended, mut found) = (Vec::new(), Vec::new());
        while let Some(told) = shared.events.try_pop() {
            let (file, error) = match told {
                SenderEvent::Range { file, range, crc } => {
                    let bytes = self.bytes(file, range);
                    let Some(sending) = self.files.get_mut(&file) else { continue };
                    sending.left = sending.left.saturating_sub(1);
                    sending.digest.add(range, crc, bytes);
                    (file, None)
                }
                SenderEvent::Lost { file, error } => (file, Some(error)),
                SenderEvent::Found { file, found: Ok(digest) } => {
                    found.push(Found { file, digest: Some(digest), error: None });
                    continue;
                }
                SenderEvent::Found { file, found: Err(error) } => {
                    found.push(Found { file, digest: None, error: Some(error) });
                    continue;
                }
            };
            let Some(sending) = self.files.get_mut(&file) else { continue };
            if let Some(error) = error.filter(|_| sending.error.is_none()) {
                sending.error = Some(error.clone());
                ended.push(Sent { file, digest: None, error: Some(error) });
            } else if sending.left == 0 && sending.error.is_none() {
                let _asked = shared.watch.activity.at_disk();
                ended.push(self.whole(file));
            }
            if ended.len() + found.len() >= MAX_FILES_PER_MESSAGE {
                break;
            }
        }
        if !ended.is_empty() {
            talk.say(&Message::Sent(ended))?;
        }
        if !found.is_empty() {
            talk.say(&Message::Digests(found))?;
        }
        Ok(())
    }

    /// Bytes of a range.
    fn bytes(&self, file: usize, range: u64) -> u64 {
        let (size, each) = (self.manifest.entries[file].size(), self.tuning.range);
        size.saturating_sub(range * each).min(each)
    }

    /// All wanted ranges of a file are sent: it must be what it was when it was named.
    fn whole(&self, file: usize) -> Sent {
        let (source, path) = &self.manifest.places[file];
        let entry = &self.manifest.entries[file];
        let now = self.roots[*source].tree.status(path).ok().flatten();
        // A file that is cut may grow beyond the cut.
        let long =
            |now: &Status| self.manifest.is_cut && now.size > entry.size() && now.modified == entry.modified;
        if !now.is_some_and(|now| entry.is_still(&now) || long(&now)) {
            return Sent { file, digest: None, error: Some(changed()) };
        }
        let pieces = entry.size().div_ceil(self.tuning.range);
        let digest = self.files.get(&file).and_then(|sending| sending.digest.of(pieces));
        Sent { file, digest, error: None }
    }
}
