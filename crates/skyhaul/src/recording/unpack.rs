//! Chunks from which missing frames were left out, given with frames marked invalid in their places.
//!
//! They are put together piece by piece, with holes, behind the last frames that were given; then the holes are filled, as the
//! recorder would have filled them.

use std::ops::Range;

use super::feed::Feed;
use super::feeder::Given;
use super::piece::Times;
use super::record::ChunkMeta;

/// Bytes of a piece.
const PIECE: usize = 4 << 20;

/// A piece that is put together.
struct Building {
    number: u32,
    times: Times,
    /// What was given before, and the piece.
    bytes: Vec<u8>,
    lead: usize,
    unit: usize,
    /// Its holes, in units from the start of `bytes`.
    holes: Vec<Range<u32>>,
}

impl Building {
    /// Bytes until it is complete.
    fn room(&self) -> usize {
        let whole = (PIECE / self.unit).max(1) * self.unit;
        (self.lead + whole).saturating_sub(self.bytes.len())
    }

    fn units(&self) -> u32 {
        u32::try_from(self.bytes.len() / self.unit).unwrap_or(u32::MAX)
    }
}

impl Feed {
    /// Give such a chunk.
    pub(super) fn unpack<'a>(
        &mut self,
        number: u32,
        meta: &ChunkMeta,
        blocks: impl Iterator<Item = &'a [u8]>,
    ) -> Given {
        let unit = self.unit();
        let times = (meta.first_time, meta.last_time);
        let mut piece = Building { number, times, bytes: Vec::new(), lead: 0, unit, holes: Vec::new() };
        self.begin(&mut piece);
        let mut holes = meta.missing.iter().peekable();
        // Where in the stream's chunk the next byte of the file lies.
        let mut at = 0u64;
        for mut bytes in blocks {
            while !bytes.is_empty() {
                let next = holes.peek().map(|hole| u64::from(hole.start).saturating_mul(unit as u64));
                if next.is_some_and(|start| start <= at)
                    && let Some(hole) = holes.next()
                {
                    self.leave(&mut piece, hole)?;
                    at = u64::from(hole.end).saturating_mul(unit as u64);
                    continue;
                }
                let most = usize::try_from(next.map_or(u64::MAX, |start| start - at)).unwrap_or(usize::MAX);
                let (now, rest) = bytes.split_at(bytes.len().min(piece.room()).min(most));
                piece.bytes.extend_from_slice(now);
                (bytes, at) = (rest, at + now.len() as u64);
                self.hand_over(&mut piece, false)?;
            }
        }
        for hole in holes {
            self.leave(&mut piece, hole)?;
        }
        self.hand_over(&mut piece, true)
    }

    fn begin(&mut self, piece: &mut Building) {
        piece.bytes.clear();
        piece.bytes.extend_from_slice(self.filling().before());
        piece.lead = piece.bytes.len();
        piece.holes.clear();
    }

    /// A hole.
    fn leave(&mut self, piece: &mut Building, hole: &Range<u32>) -> Given {
        let mut left = hole.end.saturating_sub(hole.start) as usize;
        while left > 0 {
            let units = left.min(piece.room() / piece.unit);
            let start = piece.units();
            piece.bytes.resize(piece.bytes.len() + units * piece.unit, 0);
            piece.holes.push(start..piece.units());
            left -= units;
            self.hand_over(piece, false)?;
        }
        Ok(())
    }

    /// Fill the holes of a piece that is complete, or the last one, and give it.
    fn hand_over(&mut self, piece: &mut Building, is_last: bool) -> Given {
        if !is_last && piece.room() > 0 {
            return Ok(());
        }
        self.filling().among(&mut piece.bytes, &piece.holes);
        let mut at = piece.lead;
        for hole in &piece.holes {
            let (start, end) = (hole.start as usize * piece.unit, hole.end as usize * piece.unit);
            self.give_run(piece, at..start)?;
            let made = piece.bytes[start..end].to_vec();
            self.feeder.account.add_frames(u64::from(hole.end - hole.start), 0);
            self.filling().keep(&made);
            self.feeder.send(self.feeder.in_memory(piece.number, true, (None, None), made))?;
            at = end;
        }
        self.give_run(piece, at..piece.bytes.len())?;
        self.begin(piece);
        Ok(())
    }

    fn give_run(&mut self, piece: &Building, range: Range<usize>) -> Given {
        if range.is_empty() {
            return Ok(());
        }
        let run = piece.bytes[range].to_vec();
        self.give(self.feeder.in_memory(piece.number, false, piece.times, run))
    }
}
