//! The sending end: names what there is, and sends what is wanted of it.

use super::manifest::{Manifest, Root};
use super::message::{Done, Entry, Message, Sent, Want};
use super::options::Tuning;
use super::reading::{Job, Reading, Told};
use super::talk::{Outcome, Progress, Talk};
use super::writing::combined;
use skyhaul_io::host::thread::process_cpu_time;
use std::collections::{BTreeMap, HashMap};
use std::io;
use std::net::TcpStream;
use std::sync::PoisonError;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// Most bytes of a message with names: a server takes no longer ones than 256 KiB.
const BATCH: usize = 64 << 10;
const PROGRESS: Duration = Duration::from_millis(200);

/// A file of which ranges are wanted.
#[derive(Default)]
struct Sending {
    left: u64,
    crcs: BTreeMap<u64, u32>,
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
    done: Vec<Done>,
    theirs: Option<Box<super::message::Side>>,
}

/// Send all of `manifest` that the other end wants, on `flows`.
///
/// # Errors
/// The peer is gone, or something cannot go on. What was sent so far may be resumed.
pub(super) fn send(
    mut talk: Talk<'_>,
    flows: Vec<TcpStream>,
    roots: &[Root],
    manifest: &Manifest,
    tuning: &Tuning,
) -> io::Result<Outcome> {
    let count = flows.len();
    let reading = Reading::new(tuning, count)?;
    let (begun, cpu) = (Instant::now(), process_cpu_time());
    let mut sender = Sender {
        manifest,
        roots,
        tuning,
        files: HashMap::new(),
        named: 0,
        all_named: false,
        wanted: 0,
        done: Vec::new(),
        theirs: None,
    };
    let went = std::thread::scope(|scope| {
        let shared = &reading;
        for stream in flows {
            scope.spawn(move || shared.send(stream).map_err(|error| shared.watch.fail(error)));
        }
        scope.spawn(move || shared.read(roots, manifest).map_err(|error| shared.watch.fail(error)));
        let went = sender.talk(&mut talk, shared, begun);
        shared.watch.end();
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
    let theirs = sender.theirs.map(|side| *side).unwrap_or_default();
    Ok(Outcome { entries: manifest.entries.clone(), done: sender.done, mine, theirs, stopped })
}

impl Sender<'_> {
    fn talk(&mut self, talk: &mut Talk<'_>, shared: &Reading, begun: Instant) -> io::Result<()> {
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
            let ended = self.sent(shared);
            if !ended.is_empty() {
                talk.say(&Message::Sent(ended))?;
            }
            if shown.elapsed() >= PROGRESS {
                shown = Instant::now();
                let moved =
                    shared.watch.bytes.load(Ordering::Relaxed) + shared.watch.holes.load(Ordering::Relaxed);
                (talk.progress)(&Progress {
                    files: self.done.len(),
                    all_files: self.manifest.entries.len(),
                    bytes: moved,
                    all_bytes: self.wanted,
                    seconds: begun.elapsed().as_secs_f64(),
                });
            }
        }
        Ok(())
    }

    /// The next names.
    fn name(&mut self, talk: &mut Talk<'_>) -> io::Result<()> {
        if self.all_named {
            return Ok(());
        }
        let (mut batch, mut bytes): (Vec<Entry>, usize) = (Vec::new(), 0);
        while let Some(entry) = self.manifest.entries.get(self.named) {
            // Octets that are no text take up to four characters each.
            bytes += 160 + serde_json::to_string(entry).map_or(0, |text| text.len());
            if bytes > BATCH && !batch.is_empty() {
                break;
            }
            batch.push(entry.clone());
            self.named += 1;
        }
        if batch.is_empty() {
            self.all_named = true;
            return talk.say(&Message::AllEntries);
        }
        talk.say(&Message::Entries(batch))
    }

    fn take(&mut self, talk: &Talk<'_>, message: Message, shared: &Reading) -> io::Result<()> {
        match message {
            Message::Wanted(wants) => wants.into_iter().try_for_each(|want| self.want(talk, want, shared)),
            Message::Again { file, range } => {
                shared.watch.again.fetch_add(1, Ordering::Relaxed);
                self.want(talk, Want { file, ranges: vec![(range, 1)] }, shared)
            }
            Message::Done(done) => {
                self.done.extend(done);
                Ok(())
            }
            Message::Finished(side) => {
                self.theirs = Some(side);
                Ok(())
            }
            other => Err(talk.unexpected(&other)),
        }
    }

    fn want(&mut self, talk: &Talk<'_>, want: Want, shared: &Reading) -> io::Result<()> {
        let wrong = || talk.unexpected(&Message::Wanted(Vec::new()));
        let entry =
            self.manifest.entries.get(want.file).filter(|_| want.file < self.named).ok_or_else(wrong)?;
        let ranges = entry.size().div_ceil(self.tuning.range);
        let mut count = 0;
        for &(first, more) in &want.ranges {
            let end = first.checked_add(more).filter(|&end| more > 0 && end <= ranges).ok_or_else(wrong)?;
            count += more;
            let bytes = end.saturating_mul(self.tuning.range).min(entry.size()) - first * self.tuning.range;
            self.wanted += bytes;
        }
        if count == 0 {
            return Err(wrong());
        }
        self.files.entry(want.file).or_default().left += count;
        shared.todo.push(Job { file: want.file, ranges: want.ranges.into() });
        Ok(())
    }

    /// Files of which all wanted ranges are sent.
    fn sent(&mut self, shared: &Reading) -> Vec<Sent> {
        let mut ended = Vec::new();
        while let Some(told) = shared.told.try_pop() {
            let (file, error) = match told {
                Told::Range { file, range, crc } => {
                    let Some(sending) = self.files.get_mut(&file) else { continue };
                    sending.left = sending.left.saturating_sub(1);
                    sending.crcs.insert(range, crc);
                    (file, None)
                }
                Told::Lost { file, error } => (file, Some(error)),
            };
            let Some(sending) = self.files.get_mut(&file) else { continue };
            if let Some(error) = error.filter(|_| sending.error.is_none()) {
                sending.error = Some(error.clone());
                ended.push(Sent { file, digest: None, error: Some(error) });
            } else if sending.left == 0 && sending.error.is_none() {
                ended.push(self.whole(file));
            }
        }
        ended
    }

    /// All wanted ranges of a file are sent: it must be what it was when it was named.
    fn whole(&self, file: usize) -> Sent {
        let (source, path) = &self.manifest.places[file];
        let entry = &self.manifest.entries[file];
        let now = self.roots[*source].tree.status(path).ok().flatten();
        let long = |now: u64| now == entry.size() || (self.manifest.is_cut && now > entry.size());
        let same = now.is_some_and(|now| long(now.size) && now.modified == entry.modified);
        if !same {
            let error = "it changed while it was copied; hint: copy it when nobody writes it".to_owned();
            return Sent { file, digest: None, error: Some(error) };
        }
        let (size, range) = (entry.size(), self.tuning.range);
        let digest =
            self.files.get(&file).filter(|sending| sending.crcs.len() as u64 == size.div_ceil(range));
        let digest = digest.map(|sending| {
            combined(sending.crcs.iter().map(|(at, crc)| (*crc, (size - at * range).min(range))))
        });
        Sent { file, digest, error: None }
    }
}
