//! The threads that fetch: each takes a job, and gives back what is left of it when it breaks.

use super::super::control::POLL_INTERVAL;
use super::super::digest::Digest;
use super::super::flows::{CHECKSUM_STEP_BYTES, ReceiverShared, WriteOrder};
use super::super::range::RangeHead;
use super::super::target::{Refusal, Target};
use super::ordered::{EarlyBudget, OrderedSum};
use super::server::{DigestMismatch, FetchError, RangeBody, RangeServer, ServedFile};
use skyhaul_io::fifo::Fifo;
use skyhaul_io::memory::Block;
use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::sync::atomic::Ordering;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Bytes of a file here that are read at a time for its checksum.
const READ_BYTES: usize = 1 << 20;

/// How often it is looked whether a file is written.
const WRITTEN_LOOK_INTERVAL: Duration = Duration::from_millis(5);

/// Something to do about a file.
pub(super) struct Job {
    pub(super) file: usize,
    pub(super) work: Work,
}

pub(super) enum Work {
    /// Fetch `count` ranges from `first` on. `whole`: the server sends only all of them, and those that are there are dropped.
    Fetch { first: u64, count: u64, whole: bool },
    /// Sum up ranges that an earlier attempt has brought.
    SumPart(Vec<Range<u64>>),
    /// Read what the digest in order of the bytes lacks.
    SumRest,
    /// Sum up the file that is there.
    SumFile,
    /// Ask whether the server still has this version.
    Confirm,
}

/// What a file that is there has.
pub(super) enum Summed {
    /// This Adler-32.
    Adler32(u32),
    /// The digest of the server, or another one.
    Ordered(Result<(), DigestMismatch>),
}

pub(super) type Returned = (Job, Result<Option<Summed>, FetchError>);

pub(super) struct Workers<'a> {
    server: &'a dyn RangeServer,
    pub(super) jobs: Fifo<Job>,
    pub(super) returned: Fifo<Returned>,
    /// The Adler-32 of what came of each file, where no other digest is known.
    sums: Vec<Option<Mutex<Digest>>>,
    /// The same of digests that need the bytes in order.
    ordered: Vec<Option<Mutex<OrderedSum>>>,
    budget: EarlyBudget,
}

impl<'a> Workers<'a> {
    pub(super) fn new(server: &'a dyn RangeServer, files: &[ServedFile]) -> Self {
        let needs_sum = |file: &ServedFile| file.crc32c.is_none() && file.adler32.is_some();
        let sum = |file| needs_sum(file).then(|| Mutex::new(Digest::adler32()));
        let is_bare = |file: &ServedFile| file.crc32c.is_none() && file.adler32.is_none();
        let ordered = |(number, file)| {
            let digest = is_bare(file).then(|| server.ordered_digest(number)).flatten();
            digest.map(|digest| Mutex::new(OrderedSum::new(digest)))
        };
        Self {
            ordered: files.iter().enumerate().map(ordered).collect(),
            budget: EarlyBudget::new(),
            server,
            jobs: Fifo::default(),
            returned: Fifo::default(),
            sums: files.iter().map(sum).collect(),
        }
    }

    /// Whether the Adler-32 of a file is computed.
    pub(super) fn sums_up(&self, file: usize) -> bool {
        self.sums.get(file).is_some_and(Option::is_some)
    }

    /// The Adler-32 of a file of which all ranges came.
    pub(super) fn adler32(&self, file: usize, ranges: u64) -> Option<u32> {
        let sum = self.sums.get(file)?.as_ref()?;
        sum.lock().unwrap_or_else(PoisonError::into_inner).of(ranges)
    }

    /// Whether a file has a digest that needs its bytes in order.
    pub(super) fn is_ordered(&self, file: usize) -> bool {
        self.ordered.get(file).is_some_and(Option::is_some)
    }

    fn in_order(&self, file: usize) -> Option<MutexGuard<'_, OrderedSum>> {
        let sum = self.ordered.get(file)?.as_ref()?;
        Some(sum.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Compares the digest of a file once all its ranges came; `None`: some have to be read for it.
    pub(super) fn compare(&self, file: usize, ranges: u64) -> Option<Result<(), DigestMismatch>> {
        let mut sum = self.in_order(file)?;
        (sum.next() >= ranges).then(|| sum.compare(&self.budget))
    }

    /// Forgets what is kept of a file that ended.
    pub(super) fn forget(&self, file: usize) {
        if let Some(mut sum) = self.in_order(file) {
            sum.forget(&self.budget);
        }
    }

    fn add(&self, file: usize, range: u64, adler32: u32, bytes: u64) {
        if let Some(Some(sum)) = self.sums.get(file) {
            sum.lock().unwrap_or_else(PoisonError::into_inner).add(range, adler32, bytes);
        }
    }

    /// A thread.
    pub(super) fn run(&self, shared: &ReceiverShared) {
        while !shared.watch.is_over() {
            let Some(mut job) = self.jobs.pop(POLL_INTERVAL) else { continue };
            let result = self.work(&mut job, shared);
            self.returned.push((job, result));
        }
    }

    fn work(&self, job: &mut Job, shared: &ReceiverShared) -> Result<Option<Summed>, FetchError> {
        let file = job.file;
        let target = shared.files.find(file as u64).map_err(|why| here(&io::Error::from(why)))?;
        if target.is_ended() {
            return Ok(None);
        }
        let is_over = || shared.watch.is_over() || target.is_ended();
        match &mut job.work {
            Work::Fetch { first, count, whole } => {
                self.fetch((file, &target), (first, count, *whole), shared).map(|()| None)
            }
            Work::SumPart(ranges) => {
                let part = target.tree.read(&target.part(), false).map_err(|error| here(&error))?.0;
                for range in ranges.iter().cloned().flatten() {
                    let start = range * target.identity.range;
                    let length = target.length(range);
                    let sum = sum(&part, start..start + length, &is_over)?;
                    self.add(file, range, sum, length);
                }
                Ok(None)
            }
            Work::SumRest => self.sum_rest(file, &target, &is_over).map(|()| None),
            Work::SumFile => {
                let there = target.tree.read(&target.path, false).map_err(|error| here(&error))?.0;
                let all = 0..target.identity.size;
                if !self.is_ordered(file) {
                    return sum(&there, all, &is_over).map(|sum| Some(Summed::Adler32(sum)));
                }
                let digest = self.server.ordered_digest(file);
                let mut digest = digest.ok_or_else(|| FetchError::Final("it has no digest".to_owned()))?;
                read(&there, all, &is_over, |bytes| digest.update(bytes))?;
                Ok(Some(Summed::Ordered(digest.compare())))
            }
            Work::Confirm => self.server.confirm(file, &is_over).map(|()| None),
        }
    }

    /// Reads what the digest in order lacks, when it is written.
    fn sum_rest(&self, file: usize, target: &Target, is_over: &dyn Fn() -> bool) -> Result<(), FetchError> {
        while target.left() > 0 {
            if is_over() {
                return Err(FetchError::Over);
            }
            std::thread::sleep(WRITTEN_LOOK_INTERVAL);
        }
        let part = target.tree.read(&target.part(), false).map_err(|error| here(&error))?.0;
        let Some(mut sum) = self.in_order(file) else { return Ok(()) };
        let mut bytes = Vec::new();
        while sum.next() < target.identity.ranges() {
            let (range, start) = (sum.next(), sum.next() * target.identity.range);
            bytes.clear();
            read(&part, start..start + target.length(range), is_over, |more| bytes.extend_from_slice(more))?;
            sum.add(range, &bytes, &self.budget);
        }
        Ok(())
    }

    fn fetch(
        &self,
        (file, target): (usize, &Target),
        (first, count, whole): (&mut u64, &mut u64, bool),
        shared: &ReceiverShared,
    ) -> Result<(), FetchError> {
        let watch = &shared.watch;
        let is_over = || watch.is_over() || target.is_ended();
        let of = &target.identity;
        let asked = *first * of.range..of.size.min((*first + *count) * of.range);
        let mut body = self.server.open(file, (!whole).then_some(asked), &is_over)?;
        let ranges = *first..*first + *count;
        for range in ranges {
            let length = target.length(range) as usize;
            let begun = Instant::now();
            watch.hold(length as u64);
            watch.paced.fetch_add(begun.elapsed().as_nanos() as u64, Ordering::Relaxed);
            let Some(mut block) = watch.wait(&shared.empty, &watch.for_disk) else {
                return Err(FetchError::Over);
            };
            let read = self.range(file, &mut *body, (&mut block, length), &is_over);
            let head = RangeHead {
                file: file as u64,
                size: of.size,
                offset: range * of.range,
                length: length as u32,
                ..RangeHead::default()
            };
            if read.is_ok()
                && let Some(mut sum) = self.in_order(file)
            {
                sum.add(range, &block[..length], &self.budget);
            }
            let claimed = read.and_then(|sums| match target.claim(&head, &shared.account) {
                Ok(_) => Ok(Some(sums)),
                // It was there before.
                Err(Refusal::NotOpen) if whole => Ok(None),
                Err(why) => Err(here(&io::Error::from(why))),
            });
            match claimed {
                Ok(Some((crc, adler32))) => {
                    self.add(file, range, adler32, length as u64);
                    watch.count(length as u64, false);
                    shared.orders.push(WriteOrder::Range { file, range, block, length, crc });
                }
                other => {
                    shared.empty.push(block);
                    other?;
                }
            }
            if !whole {
                (*first, *count) = (range + 1, *count - 1);
            }
        }
        Ok(())
    }

    /// Reads a range into a block: its CRC-32C and, if that is needed, its Adler-32.
    fn range(
        &self,
        file: usize,
        body: &mut dyn RangeBody,
        (block, length): (&mut Block, usize),
        is_over: &dyn Fn() -> bool,
    ) -> Result<(u32, u32), FetchError> {
        let needs_adler32 = self.sums_up(file);
        let (mut crc, mut adler32) = (0, simd_adler32::Adler32::new());
        for at in (0..length).step_by(CHECKSUM_STEP_BYTES) {
            let step = block.part_mut(at..length.min(at + CHECKSUM_STEP_BYTES));
            body.read(step, is_over)?;
            crc = crc32c::crc32c_append(crc, step);
            if needs_adler32 {
                adler32.write(step);
            }
        }
        Ok((crc, adler32.finish()))
    }
}

/// An error of this host.
fn here(error: &io::Error) -> FetchError {
    FetchError::Final(skyhaul_io::address::system_text(error))
}

/// The Adler-32 of these bytes of a file.
fn sum(file: &File, bytes: Range<u64>, is_over: &dyn Fn() -> bool) -> Result<u32, FetchError> {
    let mut sum = simd_adler32::Adler32::new();
    read(file, bytes, is_over, |bytes| sum.write(bytes))?;
    Ok(sum.finish())
}

/// Reads these bytes of a file, piece by piece.
fn read(
    file: &File,
    bytes: Range<u64>,
    is_over: &dyn Fn() -> bool,
    mut take: impl FnMut(&[u8]),
) -> Result<(), FetchError> {
    let mut part = vec![0; READ_BYTES];
    let mut at = bytes.start;
    while at < bytes.end {
        if is_over() {
            return Err(FetchError::Over);
        }
        let length = usize::try_from(bytes.end - at).unwrap_or(READ_BYTES).min(READ_BYTES);
        file.read_exact_at(&mut part[..length], at).map_err(|error| here(&error))?;
        take(&part[..length]);
        at += length as u64;
    }
    Ok(())
}

/// The ranges that are not in these runs.
pub(super) fn present(open: &[(u64, u64)], all: u64) -> Vec<Range<u64>> {
    let mut at = 0;
    let mut present = Vec::new();
    for (first, count) in open.iter().copied().chain([(all, 0)]) {
        present.extend((first > at).then_some(at..first));
        at = first + count;
    }
    present
}
