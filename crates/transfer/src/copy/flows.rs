//! The flows of the receiver: each range is read into a block, checked, and handed to the writer; files of an earlier attempt
//! are read again first.
//!
//! ```text
//!   part, journal ─▶ each range read: CRC-32C as in the journal? ─▶ kept       the rest of the part ─▶ zeros
//!   file here ─▶ CRC-32C ─┐
//!   file there ─▶ CRC-32C ┴▶ equal: nothing to copy
//! ```
//!
//! A part that was damaged, or that belongs to another file, loses its ranges. A range that is a hole in the source becomes
//! zeros here, whatever an older attempt wrote there.
//!
//! Limits: at most [`MAX_RESUMED_FILES`] parts are resumed in one session, because each is kept open and locked until it is
//! written. The others are sent again from the start.

use super::control::{POLL_INTERVAL, SessionState};
use super::digest::{Contents, Reads, contents, zeros};
use super::flow_reader::{Filled, FlowReader};
use super::journal;
use super::message::{Done, Failure};
use super::names::FailedDirectories;
use super::options::{Account, Tuning, blocks};
use super::range::{RangeHead, Runs, TRAILER};
use super::target::{Files, MAX_RESENT_RANGES, Refusal, Resumed, Target};
use skyhaul::peer::DataStream;
use skyhaul_core::hint::Hint;
use skyhaul_io::address::system_text;
use skyhaul_io::fifo::Fifo;
use skyhaul_io::memory::{Block, Pool};
use std::collections::BTreeMap;
use std::io;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

/// Bytes read and checked at a time: they stay in the cache between.
pub(super) const CHECKSUM_STEP_BYTES: usize = 256 << 10;
/// Holes that wait for the writer: they take no block, of which there are only so many.
const MAX_WAITING_HOLES: usize = 4096;

/// For the writer.
pub(super) enum WriteOrder {
    /// A range came.
    Range { file: usize, range: u64, block: Block, length: usize, crc: u32 },
    /// A range is a hole.
    Hole { file: usize, range: u64, crc: u32 },
    /// All that was wanted of a file was sent; its digest, if the sender read all of it.
    Sent { file: usize, digest: Option<u32> },
    /// The sender cannot read it.
    Lost { file: usize, error: String },
    /// It is not what it should be: nothing of it is kept.
    Spoiled { file: usize, error: String },
}

/// For the control connection.
pub(super) enum ReceiverEvent {
    /// A range must come again.
    Again { file: usize, range: u64 },
    /// The part of an earlier attempt was checked, or could not be.
    Checked { file: usize, error: Option<Failure> },
    /// The digest of a file here, for a comparison.
    Found { file: usize, found: Result<u32, String> },
    /// A file ended.
    Done(Done),
}

/// A file that is read before it is trusted.
pub(super) enum Check {
    /// The part of a file that is to come.
    Part { file: usize, target: Arc<Target> },
    /// A file that may be the same.
    Whole { file: usize, target: Arc<Target> },
}

/// What the threads of a receiver share.
pub(super) struct ReceiverShared {
    pub(super) watch: SessionState,
    pub(super) files: Files,
    pub(super) orders: Fifo<WriteOrder>,
    /// Holes among them.
    pub(super) waiting_holes: AtomicUsize,
    pub(super) events: Fifo<ReceiverEvent>,
    /// Files to be read before they are believed.
    pub(super) checks: Fifo<Check>,
    /// Directories whose sync failed.
    pub(super) failed: Arc<FailedDirectories>,
    /// Parts that are kept open.
    pub(super) held: AtomicUsize,
    pub(super) account: Account,
    pub(super) empty: Fifo<Block>,
    pub(super) pool: Pool,
    pub(super) tuning: Tuning,
    /// The writer's engine, and whether files bypass the page cache.
    pub(super) means: Mutex<(String, bool)>,
}

impl ReceiverShared {
    pub(super) fn new(tuning: &Tuning, flows: usize, account: Account) -> io::Result<Self> {
        let (pool, empty) = blocks(tuning, flows, &account)?;
        Ok(Self {
            watch: SessionState::of(tuning),
            files: Files::default(),
            orders: Fifo::default(),
            waiting_holes: AtomicUsize::new(0),
            events: Fifo::default(),
            checks: Fifo::default(),
            failed: Arc::default(),
            held: AtomicUsize::new(0),
            account,
            empty,
            pool,
            tuning: tuning.clone(),
            means: Mutex::default(),
        })
    }

    /// The thread of a flow.
    pub(super) fn receive(&self, stream: DataStream) {
        // Why it failed is known before the other end sees that it is closed.
        let from = FlowReader::new(stream).map_err(|error| self.watch.fail(error));
        if let Ok(mut from) = from
            && let Err(error) = self.receive_from(&mut from)
        {
            self.watch.fail(error);
        }
    }

    fn receive_from(&self, from: &mut FlowReader) -> io::Result<()> {
        let mut octets = [0; RangeHead::LEN];
        // Holes have one length, but for the last.
        let mut hole = (0, 0);
        loop {
            match self.fill(from, &mut octets, true)? {
                Filled::Whole => {}
                Filled::Closed | Filled::Over => return Ok(()),
            }
            let head = RangeHead::parse(&octets).map_err(Refusal::Head)?;
            let target = self.files.find(head.file)?;
            let file = head.file as usize;
            // Ranges under way of a file that has ended are read and dropped, so that the others continue.
            let range = match target.claim(&head, &self.account) {
                Ok(range) => range,
                Err(_) if target.may_drop() => {
                    self.drop_payload(from, head.payload())?;
                    continue;
                }
                Err(why) => return Err(why.into()),
            };
            if head.is_hole() {
                if !self.has_room_for_holes() {
                    return Ok(());
                }
                self.watch.count(u64::from(head.length), true);
                self.waiting_holes.fetch_add(1, Ordering::Relaxed);
                if hole.0 != head.length {
                    hole = (head.length, zeros(u64::from(head.length)));
                }
                self.orders.push(WriteOrder::Hole { file, range, crc: hole.1 });
                continue;
            }
            let Some(mut block) = self.watch.wait(&self.empty, &self.watch.for_disk) else { return Ok(()) };
            match self.payload(from, &mut block, head.payload())? {
                None => return Ok(()),
                Some((crc, true)) => {
                    self.watch.count(u64::from(head.length), false);
                    self.orders.push(WriteOrder::Range { file, range, block, length: head.payload(), crc });
                }
                Some((_, false)) => {
                    self.empty.push(block);
                    target.release(range);
                    self.events.push(ReceiverEvent::Again { file, range });
                    if self.watch.again.fetch_add(1, Ordering::Relaxed) >= MAX_RESENT_RANGES {
                        return Err(io::Error::new(
                            io::ErrorKind::InvalidData,
                            format!(
                                "{MAX_RESENT_RANGES} ranges arrived damaged{}",
                                Hint("check the network cards of both hosts")
                            ),
                        ));
                    }
                }
            }
        }
    }

    /// Waits until the writer has taken holes; `false`: it is over.
    fn has_room_for_holes(&self) -> bool {
        while self.waiting_holes.load(Ordering::Relaxed) >= MAX_WAITING_HOLES {
            if self.watch.is_over() {
                return false;
            }
            std::thread::sleep(POLL_INTERVAL);
        }
        true
    }

    pub(super) fn fill(&self, from: &mut FlowReader, bytes: &mut [u8], may_end: bool) -> io::Result<Filled> {
        from.fill(&self.watch, self.tuning.patience, bytes, may_end)
    }

    fn drop_payload(&self, from: &mut FlowReader, length: usize) -> io::Result<()> {
        let mut left = if length == 0 { 0 } else { length + TRAILER };
        let mut bytes = vec![0; left.min(CHECKSUM_STEP_BYTES)];
        while left > 0 {
            let n = left.min(CHECKSUM_STEP_BYTES);
            if !matches!(self.fill(from, &mut bytes[..n], false)?, Filled::Whole) {
                return Ok(());
            }
            left -= n;
        }
        Ok(())
    }

    /// Read a payload and its checksum; whether they agree. None: it is over.
    pub(super) fn payload(
        &self,
        from: &mut FlowReader,
        block: &mut Block,
        length: usize,
    ) -> io::Result<Option<(u32, bool)>> {
        let mut crc = 0;
        for at in (0..length).step_by(CHECKSUM_STEP_BYTES) {
            let step = block.part_mut(at..length.min(at + CHECKSUM_STEP_BYTES));
            if !matches!(self.fill(from, step, false)?, Filled::Whole) {
                return Ok(None);
            }
            crc = crc32c::crc32c_append(crc, step);
        }
        let mut told = [0; TRAILER];
        Ok(match self.fill(from, &mut told, false)? {
            Filled::Whole => Some((crc, u32::from_be_bytes(told) == crc)),
            _ => None,
        })
    }
}

/// Most parts of one session that are resumed.
const MAX_RESUMED_FILES: usize = 256;

impl ReceiverShared {
    /// The thread that checks.
    pub(super) fn check(&self) {
        let mut known = None;
        while !self.watch.is_over() {
            let Some(check) = self.checks.pop(POLL_INTERVAL) else { continue };
            let contents = contents(&mut known, &self.tuning);
            self.events.push(match (check, contents) {
                (Check::Part { file, target }, contents) => {
                    let checked = contents.and_then(|contents| self.part(contents, &target));
                    ReceiverEvent::Checked { file, error: checked.err().map(|error| Failure::from(&error)) }
                }
                (Check::Whole { file, target }, contents) => {
                    let found = contents.and_then(|contents| self.whole(contents, &target));
                    ReceiverEvent::Found { file, found: found.map_err(|error| system_text(&error)) }
                }
            });
        }
        known.iter_mut().for_each(|contents| contents.drain(&self.watch));
    }

    fn whole(&self, contents: &mut Contents, target: &Target) -> io::Result<u32> {
        let asked = self.watch.activity.at_disk();
        let (file, direct) = target.tree.read(&target.path, self.tuning.direct)?;
        drop(asked);
        let size = target.identity.size;
        if file.metadata()?.len() != size {
            return Err(io::Error::other("its size changed"));
        }
        contents.whole(&Reads { file: &Arc::new(file), direct, size, sparse: true }, &self.watch)
    }

    /// Find which ranges of an earlier attempt are what its journal says, and make zeros of everything else.
    fn part(&self, contents: &mut Contents, target: &Target) -> io::Result<()> {
        let asked = self.watch.activity.at_disk();
        let (file, direct) = target.tree.write(&target.part(), self.tuning.direct)?;
        drop(asked);
        let file = Arc::new(file);
        let of = &target.identity;
        let journal = target.tree.read(&target.journal(), false);
        let listed = journal.map(|(file, _)| journal::read(&file, of)).unwrap_or_default();
        let size = file.metadata()?.len();
        let bytes = |range: u64| range * of.range..range * of.range + target.length(range);
        let listed: Vec<(u64, u32)> =
            listed.into_iter().filter(|(range, _)| bytes(*range).end <= size).collect();
        let mut kept = BTreeMap::new();
        if !listed.is_empty() && self.held.fetch_add(1, Ordering::Relaxed) < MAX_RESUMED_FILES {
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
