//! Checksums of files, from what is on the disk or from ranges as they come.
//!
//! ```text
//!   ranges in any order ─▶ Digest: folds those that follow each other, keeps the others ─▶ CRC-32C of the file
//!   file ─▶ Contents: pieces of 1 MiB past the page cache, several in flight ─▶ CRC-32C of each range, or of all
//! ```

use super::control::{POLL_INTERVAL, SessionState};
use super::options::Tuning;
use skyhaul_io::disk::{DiskTurn, Ended, Queue, next_data};
use skyhaul_io::memory::{ALIGN, Pool, PoolOptions};
use std::collections::{BTreeMap, VecDeque};
use std::fs::File;
use std::io;
use std::ops::Range;
use std::sync::Arc;

const READ_BYTES: u64 = 1 << 20;
/// Reads in flight.
const READ_DEPTH: usize = 4;

/// A checksum of numbered pieces that come in any order. Memory is that of the runs of pieces that came too early.
#[derive(Clone, Debug)]
pub(super) struct Digest {
    /// That of the pieces so far, which is that of no bytes at first.
    value: u32,
    combine: fn(u32, u32, u64) -> u32,
    next: u64,
    /// By the first of each run.
    early: BTreeMap<u64, Run>,
}

/// Pieces that follow each other.
#[derive(Clone, Copy, Debug)]
struct Run {
    /// Behind the last.
    end: u64,
    checksum: u32,
    bytes: u64,
}

impl Default for Digest {
    /// CRC-32C.
    fn default() -> Self {
        let combine = |first, second, bytes| crc32c::crc32c_combine(first, second, bytes as usize);
        Self { value: 0, combine, next: 0, early: BTreeMap::new() }
    }
}

impl Digest {
    /// Adler-32 (RFC 1950, 8.2).
    pub(super) fn adler32() -> Self {
        Self { value: 1, combine: combined_adler32, ..Self::default() }
    }

    /// Adds piece `number`, with its checksum and length.
    pub(super) fn add(&mut self, number: u64, checksum: u32, bytes: u64) {
        let before = self.early.range(..=number).next_back().map(|(first, run)| (*first, *run));
        // It came already.
        if number < self.next || before.is_some_and(|(_, run)| number < run.end) {
            return;
        }
        let (mut first, mut run) = (number, Run { end: number + 1, checksum, bytes });
        if let Some((start, before)) = before.filter(|(_, before)| before.end == number) {
            (first, run) = (start, self.joined(before, run));
        }
        if let Some(after) = self.early.remove(&run.end) {
            run = self.joined(run, after);
        }
        self.early.insert(first, run);
        if let Some(run) = self.early.remove(&self.next) {
            self.value = (self.combine)(self.value, run.checksum, run.bytes);
            self.next = run.end;
        }
    }

    fn joined(&self, first: Run, second: Run) -> Run {
        let checksum = (self.combine)(first.checksum, second.checksum, second.bytes);
        Run { end: second.end, checksum, bytes: first.bytes + second.bytes }
    }

    /// The digest, if all `pieces` pieces were added.
    pub(super) fn of(&self, pieces: u64) -> Option<u32> {
        (self.next == pieces && self.early.is_empty()).then_some(self.value)
    }
}

/// Adler-32 of bytes with the checksum `first`, and `bytes` bytes with the checksum `second` behind them.
fn combined_adler32(first: u32, second: u32, bytes: u64) -> u32 {
    const MODULUS: u64 = 65_521;
    let halves = |of: u32| (u64::from(of & 0xffff), u64::from(of >> 16));
    let ((a1, b1), (a2, b2), length) = (halves(first), halves(second), bytes % MODULUS);
    // The sum of the second part began at 1 by itself, and begins at that of the first part here.
    let a = (a1 + a2 + MODULUS - 1) % MODULUS;
    let b = (b1 + b2 + length * (a1 + MODULUS - 1)) % MODULUS;
    ((b << 16) | a) as u32
}

/// The CRC-32C of a number of zeros.
pub(super) fn zeros(mut bytes: u64) -> u32 {
    let (mut crc, mut power, mut length) = (0, crc32c::crc32c(&[0]), 1u64);
    while bytes > 0 {
        if bytes & 1 == 1 {
            crc = crc32c::crc32c_combine(crc, power, length as usize);
        }
        bytes >>= 1;
        if bytes > 0 {
            power = crc32c::crc32c_combine(power, power, length as usize);
            length *= 2;
        }
    }
    crc
}

/// A file that is read.
pub(super) struct Reads<'a> {
    pub(super) file: &'a Arc<File>,
    /// Opened past the page cache.
    pub(super) direct: bool,
    pub(super) size: u64,
    /// It may have holes.
    pub(super) sparse: bool,
}

/// Reads files for their digests.
pub(super) struct Contents {
    queue: Queue,
    pool: Pool,
}

/// The memory for reading files, made when the first is read.
pub(super) fn contents<'a>(known: &'a mut Option<Contents>, tuning: &Tuning) -> io::Result<&'a mut Contents> {
    if known.is_none() {
        *known = Some(Contents::new(tuning)?);
    }
    known.as_mut().ok_or_else(|| io::Error::other("no memory to read files into"))
}

/// A piece that is read; pieces are kept in order.
struct Piece {
    run: usize,
    bytes: u64,
    crc: Option<u32>,
    /// Until it is read.
    turn: Option<DiskTurn>,
}

impl Contents {
    pub(super) fn new(tuning: &Tuning) -> io::Result<Self> {
        let block_bytes = READ_BYTES as usize;
        let total_bytes = READ_BYTES * READ_DEPTH as u64;
        let pool = Pool::new(&PoolOptions { total_bytes, block_bytes, shared: false })?;
        pool.wait_until_touched()?;
        Ok(Self {
            queue: Queue::new(&Tuning { depth: READ_DEPTH, ..tuning.clone() }.reads(), Some(&pool))?,
            pool,
        })
    }

    /// Waits for the disk to answer what it was asked: as long as it does not, nobody else should ask it.
    pub(super) fn drain(&mut self, watch: &SessionState) {
        let mut ended = Vec::new();
        while self.queue.in_flight() > 0 && self.queue.wait(POLL_INTERVAL, &mut ended).is_ok() {
            ended.drain(..).for_each(|_| watch.activity.disk_answered());
        }
    }

    /// CRC-32C of a whole file.
    ///
    /// # Errors
    /// It cannot be read, is shorter than `size`, or it is over.
    pub(super) fn whole(&mut self, of: &Reads<'_>, watch: &SessionState) -> io::Result<u32> {
        let mut digest = 0;
        let run = (of.size > 0).then_some(0..of.size);
        self.runs(of, run.into_iter(), watch, |_, crc| digest = crc)?;
        Ok(digest)
    }

    /// Computes the CRC-32C of each run of bytes, which begin at whole pages; calls `each` with the number of the run.
    ///
    /// # Errors
    /// As [`whole`](Self::whole).
    pub(super) fn runs(
        &mut self,
        of: &Reads<'_>,
        runs: impl Iterator<Item = Range<u64>>,
        watch: &SessionState,
        mut each: impl FnMut(usize, u32),
    ) -> io::Result<()> {
        // Reads that are left of a file that could not be read to its end.
        let mut ended = Vec::new();
        while self.queue.in_flight() > 0 {
            self.queue.wait(POLL_INTERVAL, &mut ended)?;
            ended.drain(..).for_each(|_| watch.activity.disk_answered());
            if watch.is_over() {
                return Err(io::Error::new(io::ErrorKind::Interrupted, "stopped"));
            }
        }
        let mut runs = runs.enumerate();
        let (mut open, mut turn): (Option<(usize, Range<u64>)>, Option<DiskTurn>) = (None, None);
        let (mut pieces, mut first): (VecDeque<Piece>, u64) = (VecDeque::new(), 0);
        let (mut crc, mut at_run) = (0, None::<usize>);
        loop {
            while self.queue.has_room() && pieces.len() < READ_DEPTH * 16 {
                if open.as_ref().is_none_or(|(_, left)| left.is_empty()) {
                    open = runs.next();
                }
                let Some((run, left)) = &mut open else { break };
                let most = READ_BYTES.min(left.end - left.start);
                if turn.is_none() {
                    watch.hold(most);
                }
                let Some(disk_turn) = watch.turn(&mut turn, of.file, most)? else { break };
                let asked = watch.activity.at_disk();
                let end = self.ask(of, left, first + pieces.len() as u64, watch)?;
                drop(asked);
                let (bytes, crc, turn) = match end {
                    Asked::Read(bytes) => (bytes, None, Some(disk_turn)),
                    Asked::Hole(bytes) => (bytes, Some(zeros(bytes)), None),
                };
                left.start += bytes;
                pieces.push_back(Piece { run: *run, bytes, crc, turn });
            }
            while let Some(piece) = pieces.pop_front_if(|piece| piece.crc.is_some()) {
                if at_run.is_some_and(|run| run != piece.run) {
                    each(at_run.unwrap_or(0), std::mem::take(&mut crc));
                }
                at_run = Some(piece.run);
                crc = crc32c::crc32c_combine(crc, piece.crc.unwrap_or(0), piece.bytes as usize);
                first += 1;
            }
            if pieces.is_empty() && open.as_ref().is_none_or(|(_, left)| left.is_empty()) {
                match runs.next() {
                    Some(next) => open = Some(next),
                    None => break,
                }
            }
            if watch.is_over() {
                return Err(io::Error::new(io::ErrorKind::Interrupted, "stopped"));
            }
            if self.queue.in_flight() > 0 || turn.is_some() {
                self.queue.wait(POLL_INTERVAL, &mut ended)?;
            }
            ended.drain(..).try_for_each(|end| {
                watch.activity.disk_answered();
                settle(end, &mut pieces, first)
            })?;
        }
        if let Some(run) = at_run {
            each(run, crc);
        }
        Ok(())
    }

    /// Read the next bytes of a run, or find that they are a hole.
    fn ask(
        &mut self,
        of: &Reads<'_>,
        left: &Range<u64>,
        tag: u64,
        watch: &SessionState,
    ) -> io::Result<Asked> {
        let mut bytes = (left.end - left.start).min(READ_BYTES);
        if of.sparse {
            let data = next_data(of.file, left.start, of.size)?;
            let start = data.map_or(left.end, |data| data.start.min(left.end));
            // Whole pages: the next read begins at one.
            let start = if start < left.end { start / ALIGN as u64 * ALIGN as u64 } else { start };
            if start > left.start {
                return Ok(Asked::Hole(start - left.start));
            }
        }
        bytes = bytes.min(of.size.saturating_sub(left.start));
        let block = self.pool.take();
        let (Some(block), true) = (block, bytes > 0) else {
            return Err(io::Error::new(
                io::ErrorKind::UnexpectedEof,
                "the file became shorter while it was read",
            ));
        };
        let whole = if of.direct { (bytes as usize).next_multiple_of(ALIGN) } else { bytes as usize };
        watch.activity.asked_disk();
        self.queue.read(tag, of.file, left.start, block, whole);
        Ok(Asked::Read(bytes))
    }
}

enum Asked {
    Read(u64),
    Hole(u64),
}

fn settle(end: Ended, pieces: &mut VecDeque<Piece>, first: u64) -> io::Result<()> {
    let Some(piece) = end.tag.checked_sub(first).and_then(|at| pieces.get_mut(at as usize)) else {
        return Ok(());
    };
    piece.turn = None;
    match (end.result?, end.block) {
        (bytes, Some(block)) if bytes as u64 >= piece.bytes => {
            piece.crc = Some(crc32c::crc32c(&block[..piece.bytes as usize]));
            Ok(())
        }
        _ => Err(io::Error::new(io::ErrorKind::UnexpectedEof, "the file became shorter while it was read")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn adler32_of_pieces_in_any_order_is_that_of_the_whole() {
        let bytes: Vec<u8> = (0..300_000u32).map(|at| (at.wrapping_mul(2_654_435_761) >> 13) as u8).collect();
        for piece in [1usize << 10, 65_521, 100_000, 299_999, 300_000] {
            let mut digest = Digest::adler32();
            let pieces: Vec<&[u8]> = bytes.chunks(piece).collect();
            for (number, piece) in pieces.iter().enumerate().rev() {
                assert_eq!(digest.of(pieces.len() as u64), None);
                digest.add(number as u64, simd_adler32::adler32(piece), piece.len() as u64);
            }
            assert_eq!(
                digest.of(pieces.len() as u64),
                Some(simd_adler32::adler32(&bytes.as_slice())),
                "{piece}"
            );
        }
        assert_eq!(Digest::adler32().of(0), Some(1));
    }
    use std::os::unix::fs::FileExt;

    #[test]
    fn zeros_have_the_digest_of_zeros() {
        for bytes in [0, 1, 2, 3, 4095, 4096, 65_537, 1_000_000] {
            assert_eq!(zeros(bytes), crc32c::crc32c(&vec![0; bytes as usize]), "{bytes}");
        }
    }

    #[test]
    fn pieces_in_any_order_have_the_digest_of_the_file() {
        let bytes: Vec<u8> = (0..1000u32).map(|n| (n * 7) as u8).collect();
        let mut digest = Digest::default();
        for number in [3, 0, 9, 1, 2, 8, 4, 7, 5, 6] {
            assert_eq!(digest.of(10), None);
            let piece = &bytes[number * 100..number * 100 + 100];
            digest.add(number as u64, crc32c::crc32c(piece), 100);
        }
        assert_eq!((digest.of(10), digest.of(11)), (Some(crc32c::crc32c(&bytes)), None));
    }

    /// A peer that leaves the first piece out until the end makes this end keep runs, not pieces.
    #[test]
    fn pieces_that_follow_each_other_are_kept_as_one() {
        let zero = crc32c::crc32c(&[0]);
        let mut digest = Digest::default();
        (1..10_000).for_each(|number| digest.add(number, zero, 1));
        assert_eq!(digest.early.len(), 1);
        (20_000..30_000).rev().for_each(|number| digest.add(number, zero, 1));
        digest.add(25_000, 7, 1);
        assert_eq!((digest.early.len(), digest.of(30_000)), (2, None));
        (10_000..20_000).for_each(|number| digest.add(number, zero, 1));
        digest.add(0, zero, 1);
        assert_eq!((digest.early.len(), digest.of(30_000)), (0, Some(zeros(30_000))));
    }

    #[test]
    fn a_file_is_read_whole_and_in_runs_with_its_holes() {
        let file = tempfile::tempfile_in(env!("CARGO_MANIFEST_DIR")).unwrap();
        let size = 5_000_003;
        file.set_len(size).unwrap();
        file.write_all_at(&[7; 100_000], 2_000_000).unwrap();
        file.write_all_at(b"end", size - 3).unwrap();
        let mut bytes = vec![0; size as usize];
        file.read_exact_at(&mut bytes, 0).unwrap();
        let (file, watch) = (Arc::new(file), SessionState::default());
        let mut contents = Contents::new(&Tuning::default()).unwrap();
        for sparse in [false, true] {
            let of = Reads { file: &file, direct: false, size, sparse };
            assert_eq!(contents.whole(&of, &watch).unwrap(), crc32c::crc32c(&bytes));
            let runs = [0..65_536, 1_966_080..2_031_616, 4_980_736..size];
            let mut found = Vec::new();
            contents.runs(&of, runs.clone().into_iter(), &watch, |run, crc| found.push((run, crc))).unwrap();
            let right = runs.map(|run| crc32c::crc32c(&bytes[run.start as usize..run.end as usize]));
            assert_eq!(found, right.into_iter().enumerate().collect::<Vec<_>>());
            let longer = Reads { size: size + 1, ..of };
            assert!(contents.whole(&longer, &watch).is_err() || sparse);
        }
        let mut contents = Contents::new(&Tuning::default()).unwrap();
        let empty = Reads { file: &file, direct: false, size: 0, sparse: false };
        assert_eq!(contents.whole(&empty, &watch).unwrap(), 0);
    }
}
