//! Chunks from which missing frames were left out, given with frames marked invalid in their places.
//!
//! They are put together piece by piece, with holes, behind the last frames that were given; then the holes are filled, as the
//! recorder would have filled them.

use std::cell::RefCell;
use std::iter::Peekable;
use std::ops::Range;
use std::path::Path;
use std::vec::IntoIter;

use crate::recording::index::record::ChunkMeta;
use crate::recording::read::feed::Feed;
use crate::recording::read::feeder::{Given, Gone};
use crate::recording::read::piece::Times;
use crate::recording::verify::prove::read_file;
use crate::recording::verify::seen::Seen;

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

/// A chunk that is unpacked, and how far.
struct Unpacking {
    piece: Building,
    holes: Peekable<IntoIter<Range<u32>>>,
    /// Where in the stream's chunk the next byte of the file lies.
    at: u64,
}

impl Feed {
    /// Give such a chunk.
    pub(in crate::recording) fn unpack<'a>(
        &mut self,
        number: u32,
        meta: &ChunkMeta,
        blocks: impl Iterator<Item = &'a [u8]>,
    ) -> Given {
        let mut chunk = self.unpacking(number, meta);
        for bytes in blocks {
            self.unpack_more(&mut chunk, bytes)?;
        }
        self.unpack_end(chunk)
    }

    /// Give one that is too long to be held, as it is read.
    pub(in crate::recording) fn unpack_file(
        &mut self,
        number: u32,
        meta: &ChunkMeta,
        place: (&Path, u64),
        most: u64,
    ) -> Result<Seen, Gone> {
        let (mut chunk, mut gone) = (self.unpacking(number, meta), false);
        // The closures share what they need of `self`.
        let this = RefCell::new(&mut *self);
        let seen = read_file(
            place,
            most,
            None,
            || this.borrow().feeder.buffer(),
            |block, length| {
                gone = gone || this.borrow_mut().unpack_more(&mut chunk, &block[..length]).is_err();
            },
        );
        if gone || !self.feeder.is_wanted() {
            return Err(Gone);
        }
        self.unpack_end(chunk)?;
        Ok(seen)
    }

    fn unpacking(&mut self, number: u32, meta: &ChunkMeta) -> Unpacking {
        let times = (meta.first_time, meta.last_time);
        let unit = self.unit();
        let mut piece = Building { number, times, bytes: Vec::new(), lead: 0, unit, holes: Vec::new() };
        self.begin(&mut piece);
        Unpacking { piece, holes: meta.missing.clone().into_iter().peekable(), at: 0 }
    }

    fn unpack_more(&mut self, chunk: &mut Unpacking, mut bytes: &[u8]) -> Given {
        let Unpacking { piece, holes, at } = chunk;
        let unit = piece.unit as u64;
        while !bytes.is_empty() {
            let next = holes.peek().map(|hole| u64::from(hole.start).saturating_mul(unit));
            if next.is_some_and(|start| start <= *at)
                && let Some(hole) = holes.next()
            {
                self.leave(piece, &hole)?;
                *at = u64::from(hole.end).saturating_mul(unit);
                continue;
            }
            let most = usize::try_from(next.map_or(u64::MAX, |start| start - *at)).unwrap_or(usize::MAX);
            let (now, rest) = bytes.split_at(bytes.len().min(piece.room()).min(most));
            piece.bytes.extend_from_slice(now);
            (bytes, *at) = (rest, *at + now.len() as u64);
            self.hand_over(piece, false)?;
        }
        Ok(())
    }

    fn unpack_end(&mut self, chunk: Unpacking) -> Given {
        let Unpacking { mut piece, holes, .. } = chunk;
        for hole in holes {
            self.leave(&mut piece, &hole)?;
        }
        self.hand_over(&mut piece, true)
    }

    fn begin(&mut self, piece: &mut Building) {
        piece.bytes.clear();
        // Of what was given before, whole frames: it may have been part of a file.
        let before = self.filling().before();
        piece.bytes.extend_from_slice(&before[before.len() % piece.unit..]);
        piece.lead = piece.bytes.len();
        piece.holes.clear();
    }

    /// A hole.
    fn leave(&mut self, piece: &mut Building, hole: &Range<u32>) -> Given {
        if !(piece.bytes.len() - piece.lead).is_multiple_of(piece.unit) {
            // The chunk is not of whole frames, whatever its index says.
            self.hand_over(piece, true)?;
        }
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
