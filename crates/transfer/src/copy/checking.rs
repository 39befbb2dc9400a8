//! Files that are read again before they are believed: parts of an earlier attempt, and files that may be the same.
//!
//! ```text
//!   part, journal ─▶ each range read, its CRC-32C as the journal says? ─▶ kept       the rest of the part ─▶ zeros
//!   file here ─▶ CRC-32C ─┐
//!   file there ─▶ CRC-32C ┴▶ equal: it is there
//! ```
//!
//! So a part that was damaged, or that belongs to another file, loses its ranges; and a range that is a hole in the source is
//! zeros here, whatever an older attempt wrote there.
//!
//! Limits: at most [`HELD`] parts are resumed in one session, since each is kept open and locked until it is written. The
//! others are sent anew.

use super::digest::{Contents, Reads};
use super::files::{Resumed, Target};
use super::journal;
use super::manifest::{Manifest, Root};
use super::reading::{self, Reading};
use super::receiving::{Check, Receiving, Told};
use super::runs::Runs;
use super::watch::LOOK;
use skyhaul_io::address::system_text;
use skyhaul_io::disk::Tree;
use skyhaul_io::disk::tree::Status;
use std::collections::BTreeMap;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Most parts of one session that are resumed.
pub(super) const HELD: usize = 256;

fn contents<'a>(
    known: &'a mut Option<Contents>,
    tuning: &super::options::Tuning,
) -> io::Result<&'a mut Contents> {
    if known.is_none() {
        *known = Some(Contents::new(tuning)?);
    }
    known.as_mut().ok_or_else(|| io::Error::other("no memory to read files into"))
}

impl Receiving {
    /// The thread that checks.
    pub(super) fn check(&self) {
        let mut known = None;
        while !self.watch.is_over() {
            let Some(check) = self.checks.pop(LOOK) else { continue };
            let contents = contents(&mut known, &self.tuning);
            self.told.push(match (check, contents) {
                (Check::Part { file, target }, contents) => {
                    let checked = contents.and_then(|contents| self.part(contents, &target));
                    Told::Checked { file, error: checked.err().map(|error| system_text(&error)) }
                }
                (Check::Whole { file, target }, contents) => {
                    let found = contents.and_then(|contents| self.whole(contents, &target));
                    Told::Found { file, found: found.map_err(|error| system_text(&error)) }
                }
            });
        }
    }

    fn whole(&self, contents: &mut Contents, target: &Target) -> io::Result<u32> {
        let (file, direct) = target.tree.read(&target.path, self.tuning.direct)?;
        let size = target.identity.size;
        if file.metadata()?.len() != size {
            return Err(io::Error::other("its size changed meanwhile"));
        }
        contents.whole(&Reads { file: &Arc::new(file), direct, size, sparse: true }, &self.watch)
    }

    /// Find which ranges of an earlier attempt are what its journal says, and make zeros of everything else.
    fn part(&self, contents: &mut Contents, target: &Target) -> io::Result<()> {
        let (file, direct) = target.tree.write(&target.part(), self.tuning.direct)?;
        let file = Arc::new(file);
        let of = &target.identity;
        let journal = target.tree.read(&target.journal(), false);
        let listed = journal.map(|(file, _)| journal::read(&file, of)).unwrap_or_default();
        let size = file.metadata()?.len();
        let bytes = |range: u64| range * of.range..range * of.range + target.length(range);
        let listed: Vec<(u64, u32)> =
            listed.into_iter().filter(|(range, _)| bytes(*range).end <= size).collect();
        let mut kept = BTreeMap::new();
        if !listed.is_empty() && self.held.fetch_add(1, Ordering::Relaxed) < HELD {
            self.account.charge(listed.len() as u64 * 64)?;
            let reads = Reads { file: &file, direct, size, sparse: true };
            let runs = listed.iter().map(|(range, _)| bytes(*range));
            let read = contents.runs(&reads, runs, &self.watch, |at, crc| {
                if listed[at].1 == crc {
                    kept.insert(listed[at].0, crc);
                }
            });
            // What cannot be read comes again.
            if let Err(error) = read {
                if self.watch.is_over() {
                    return Err(error);
                }
                kept.clear();
            }
        }
        let faults = target.tree.faults();
        if !kept.is_empty() {
            faults.set_len(&file, of.size)?;
            let mut others = Runs::default();
            for &range in kept.keys() {
                others.insert(range);
            }
            for (first, count) in others.gaps(of.ranges()) {
                let end = ((first + count) * of.range).min(of.size);
                if !faults.punch(&file, first * of.range..end)? {
                    kept.clear();
                    break;
                }
            }
        }
        if kept.is_empty() {
            return faults.set_len(&file, 0);
        }
        target.resume(Resumed { crcs: Arc::new(kept), file, direct });
        Ok(())
    }
}

impl Reading {
    /// The thread that reads files for a comparison.
    pub(super) fn compare(&self, roots: &[Root], manifest: &Manifest) {
        let mut known = None;
        while !self.watch.is_over() {
            let Some(file) = self.compares.pop(LOOK) else { continue };
            let (source, path) = &manifest.places[file];
            let found = contents(&mut known, &self.tuning).and_then(|contents| {
                self.found(contents, &roots[*source].tree, path, &manifest.entries[file])
            });
            let found = found.map_err(|error| system_text(&error));
            self.told.push(reading::Told::Found { file, found });
        }
    }

    fn found(
        &self,
        contents: &mut Contents,
        tree: &Tree,
        path: &Path,
        entry: &super::message::Entry,
    ) -> io::Result<u32> {
        let (file, direct) = tree.read(path, self.tuning.direct)?;
        let reads = Reads { file: &Arc::new(file), direct, size: entry.size(), sparse: true };
        let crc = contents.whole(&reads, &self.watch)?;
        // It must be what it was when it was named.
        let now: Option<Status> = tree.status(path)?;
        match now.is_some_and(|now| entry.is_still(&now)) {
            true => Ok(crc),
            false => Err(io::Error::other(reading::CHANGED)),
        }
    }
}
