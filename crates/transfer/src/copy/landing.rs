//! A file that is being written by the receiving end: what of it is there, durable, in its journal.

use super::digest::Digest;
use super::files::Target;
use super::journal::Journal;
use super::options::Tuning;
use skyhaul_io::disk::set_size;
use std::collections::{BTreeMap, HashMap};
use std::fs::File;
use std::io;
use std::ops::Range;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How often ranges become durable: what a kill costs at most. Tests copy less than takes as long.
const EVERY: Duration = Duration::from_millis(if cfg!(test) { 2 } else { 500 });
/// What is left out of a file with holes where it is zero.
const PAGE: usize = 4096;
/// Most pieces of a range; of one that has more, only longer holes are left out.
const PIECES: usize = 64;

pub(super) struct Landing {
    pub(super) target: Arc<Target>,
    pub(super) file: Arc<File>,
    pub(super) direct: bool,
    journal: Option<Journal>,
    /// Of the ranges so far.
    pub(super) digest: Digest,
    /// Ranges that are being written: checksum, and pieces that are not.
    pub(super) coming: HashMap<u64, (u32, usize)>,
    /// Ranges not yet durable.
    pub(super) fresh: Vec<(u64, u32)>,
    pub(super) flying: usize,
    pub(super) syncing: bool,
    pub(super) finishing: bool,
    /// It will not be copied.
    pub(super) failed: bool,
    /// Nor is what was written of it to be believed.
    pub(super) spoiled: bool,
    synced: Instant,
    /// All was sent; the sender's digest, if it has one.
    pub(super) sent: Option<Option<u32>>,
}

impl Landing {
    /// Open its part: what an earlier attempt left of it and was checked, or a new one with zeros only.
    pub(super) fn open(target: Arc<Target>, tuning: &Tuning) -> io::Result<Self> {
        let (resumed, identity, faults) = (target.take_resumed(), target.identity, target.tree.faults());
        let before =
            resumed.as_ref().map_or_else(Arc::<BTreeMap<_, _>>::default, |resumed| resumed.crcs.clone());
        let (file, direct) = match resumed {
            Some(resumed) => (resumed.file, resumed.direct),
            None => {
                let (file, direct) = target.tree.write(&target.part(), tuning.direct)?;
                faults.set_len(&file, 0)?;
                (Arc::new(file), direct)
            }
        };
        set_size(&file, identity.size, target.is_sparse())?;
        let mut journal = None;
        if identity.ranges() > 1 {
            let (file, _) = target.tree.write(&target.journal(), false)?;
            journal = Some(Journal::begin(file, &identity, &before, faults)?);
        }
        let mut digest = Digest::default();
        before.iter().for_each(|(range, crc)| digest.add(*range, *crc, target.length(*range)));
        Ok(Self {
            target,
            file,
            direct,
            journal,
            digest,
            coming: HashMap::new(),
            fresh: Vec::new(),
            flying: 0,
            syncing: false,
            finishing: false,
            failed: false,
            spoiled: false,
            synced: Instant::now(),
            sent: None,
        })
    }

    /// Have its ranges become durable now.
    pub(super) fn hurry(&mut self) {
        self.synced = Instant::now().checked_sub(EVERY).unwrap_or(self.synced);
    }

    /// Whether ranges are to become durable.
    pub(super) fn is_due(&self) -> bool {
        let now = self.failed || self.synced.elapsed() >= EVERY;
        let may = !self.spoiled && !self.syncing && (self.failed || !self.finishing);
        now && may && self.journal.is_some() && !self.fresh.is_empty()
    }

    /// Whether it failed, and nothing of it is under way.
    pub(super) fn is_over(&self) -> bool {
        let more = self.journal.is_some() && !self.fresh.is_empty() && !self.spoiled;
        self.failed && self.flying == 0 && !self.syncing && !more
    }

    /// Whether all of it is written, and it may become durable.
    pub(super) fn is_whole(&self) -> bool {
        let idle = self.flying == 0 && !self.syncing && !self.finishing;
        idle && !self.failed && self.target.left() == 0
    }

    /// A piece of a range is written, or not. The range's checksum, if it was the last.
    pub(super) fn landed(&mut self, range: u64) -> Option<u32> {
        self.flying -= 1;
        let (crc, left) = self.coming.get_mut(&range)?;
        let crc = *crc;
        *left -= 1;
        if *left > 0 {
            return None;
        }
        self.coming.remove(&range);
        Some(crc)
    }

    pub(super) fn written(&mut self, range: u64, crc: u32) {
        self.digest.add(range, crc, self.target.length(range));
        self.fresh.push((range, crc));
        self.target.written();
    }

    /// Ranges are durable: so the journal says.
    pub(super) fn durable(&mut self, ranges: &[(u64, u32)]) -> io::Result<()> {
        (self.syncing, self.synced) = (false, Instant::now());
        // A sync of this file failed meanwhile, and may have been told instead of this one.
        if self.spoiled {
            return Ok(());
        }
        self.journal.as_mut().map_or(Ok(()), |journal| journal.add(ranges))
    }

    /// Its length, permissions and time.
    pub(super) fn settle(&self) -> io::Result<()> {
        let (tree, entry) = (&self.target.tree, &self.target.entry);
        tree.faults().set_len(&self.file, self.target.identity.size)?;
        tree.settle(&self.file, entry.mode, entry.modified)
    }
}

/// The parts of a range that are not zero, in whole pages but for the last.
pub(super) fn pieces(bytes: &[u8]) -> Vec<Range<usize>> {
    const ZEROS: [u8; PAGE] = [0; PAGE];
    let mut step = PAGE;
    loop {
        let mut pieces: Vec<Range<usize>> = Vec::new();
        for start in (0..bytes.len()).step_by(step) {
            let end = (start + step).min(bytes.len());
            let is_zero = bytes[start..end].chunks(PAGE).all(|page| *page == ZEROS[..page.len()]);
            match pieces.last_mut() {
                _ if is_zero => {}
                Some(last) if last.end == start => last.end = end,
                _ => pieces.push(start..end),
            }
        }
        if pieces.len() <= PIECES || step >= bytes.len() {
            return pieces;
        }
        step *= 4;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_not_zero_is_a_piece() {
        let mut bytes = vec![0; 100_001];
        assert!(pieces(&bytes).is_empty() && pieces(&[]).is_empty());
        (bytes[5000], bytes[20_000], bytes[20_480], bytes[24_576], bytes[100_000]) = (1, 1, 1, 1, 1);
        assert_eq!(pieces(&bytes), [4096..8192, 16_384..28_672, 98_304..100_001]);
        assert_eq!(pieces(&[1; 4096]), vec![0..4096]);
    }

    #[test]
    fn a_range_has_few_pieces_and_none_of_its_bytes_is_left_out() {
        let mut bytes = vec![0u8; 4 << 20];
        bytes.iter_mut().step_by(2 * PAGE).for_each(|byte| *byte = 7);
        let pieces = pieces(&bytes);
        assert!(pieces.len() <= PIECES, "{}", pieces.len());
        let written: usize =
            pieces.iter().map(|piece| bytes[piece.clone()].iter().filter(|b| **b > 0).count()).sum();
        assert_eq!(written, bytes.iter().filter(|b| **b > 0).count());
        assert!(pieces.iter().all(|piece| piece.start.is_multiple_of(PAGE)));
    }
}
