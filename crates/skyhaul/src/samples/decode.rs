//! Rows from the frames of all threads.

use super::Samples;
use skyhaul_core::samples::{Decoder, Tracks};
use skyhaul_io::copy;
use skyhaul_io::samples::{Target, Vectored, decode, decode_rows, place, turn};

/// Octets of columns that are turned at once: they stay in the fastest cache.
const COLUMN_BYTES: usize = 16 << 10;

/// Decodes frames into rows.
pub(super) struct RowDecoder<'a, T> {
    decoder: Decoder<T>,
    threads: usize,
    /// Elementary samples of a thread in a row, and as they are written.
    each: usize,
    written: usize,
    /// Bits of a thread in a row, as they are written.
    row_bits: usize,
    tracks: Option<&'a Tracks>,
    target: Target,
    columns: Vec<T>,
    /// Rows on their way past the cache.
    rows: Vec<T>,
    picked: Vec<u8>,
    /// Rows of a frame of which only some are wanted.
    whole: Vec<T>,
}

impl<'a, T: Vectored> RowDecoder<'a, T> {
    /// `None`: `T` does not hold these samples.
    pub(super) fn new(samples: &'a Samples, target: Target) -> Option<Self> {
        let tracks = samples.tracks.as_ref();
        let bits = samples.coding.bits();
        Some(Self {
            decoder: Decoder::new(samples.coding)?,
            threads: samples.threads.len(),
            each: samples.each(),
            written: tracks.map_or(samples.each(), |tracks| (tracks.picked().max(bits) / bits) as usize),
            row_bits: tracks.map_or(samples.each() * bits as usize, |tracks| tracks.recorded() as usize),
            tracks,
            target,
            columns: Vec::new(),
            rows: Vec::new(),
            picked: Vec::new(),
            whole: Vec::new(),
        })
    }

    /// Decode some rows of a frame: from row `skip` on, as many as `out` holds. `payloads` are those of all threads.
    pub(super) fn rows(&mut self, payloads: &[Option<&[u8]>], frame_rows: usize, skip: usize, out: &mut [T]) {
        if payloads.iter().all(Option::is_none) {
            return out.fill(T::MISSING);
        }
        // Eight rows are whole octets.
        let row = self.threads * self.each;
        let rows = out.len() / row;
        let (begin, end) = (skip / 8 * 8, (skip + rows).next_multiple_of(8).min(frame_rows));
        let part = begin * self.row_bits / 8..end * self.row_bits / 8;
        let payloads: Vec<Option<&[u8]>> =
            payloads.iter().map(|payload| payload.and_then(|payload| payload.get(part.clone()))).collect();
        if end - begin == rows {
            return self.frame(&payloads, out);
        }
        let mut whole = std::mem::take(&mut self.whole);
        whole.resize((end - begin) * row, T::MISSING);
        self.frame(&payloads, &mut whole);
        out.copy_from_slice(&whole[(skip - begin) * row..][..out.len()]);
        self.whole = whole;
    }

    /// Decode whole payloads.
    fn frame(&mut self, payloads: &[Option<&[u8]>], out: &mut [T]) {
        if let (Some(tracks), [Some(payload)]) = (self.tracks, payloads) {
            let mut picked = std::mem::take(&mut self.picked);
            tracks.pick(payload, &mut picked);
            self.padded(&picked, out);
            self.picked = picked;
        } else if let [Some(payload)] = payloads {
            decode(&self.decoder, payload, out, self.target);
        } else {
            self.turned(payloads, out);
        }
    }

    /// Rows of one thread with unused samples at their end.
    fn padded(&mut self, octets: &[u8], out: &mut [T]) {
        if self.written == self.each {
            return decode(&self.decoder, octets, out, self.target);
        }
        let rows = self.block(self.written);
        let octets_of = self.decoder.coding().octets_of(rows * self.written);
        for (octets, out) in octets.chunks(octets_of).zip(out.chunks_mut(rows * self.each)) {
            self.columns.resize(self.decoder.coding().samples_in(octets.len()), T::MISSING);
            decode(&self.decoder, octets, &mut self.columns, Target::Warm);
            for (row, written) in out.chunks_exact_mut(self.each).zip(self.columns.chunks_exact(self.written))
            {
                row.copy_from_slice(&written[..self.each]);
            }
        }
    }

    /// Rows of several threads.
    fn turned(&mut self, payloads: &[Option<&[u8]>], out: &mut [T]) {
        let row = self.each * self.threads;
        // Where a register fits, this is all.
        let done = decode_rows(&self.decoder, payloads, self.each, out, self.target);
        let rows = self.block(row);
        let mut parts = Vec::with_capacity(self.threads);
        let mut warm = std::mem::take(&mut self.rows);
        for (block, out) in out[done * row..].chunks_mut(rows * row).enumerate() {
            let from = self.octets(done + block * rows);
            let part = from..from + self.octets(out.len() / row);
            parts.clear();
            parts
                .extend(payloads.iter().map(|payload| payload.and_then(|payload| payload.get(part.clone()))));
            if self.target == Target::Warm {
                self.block_of_rows(&parts, out);
            } else {
                warm.resize(out.len(), T::MISSING);
                self.block_of_rows(&parts, &mut warm);
                place(out, &warm);
            }
        }
        self.rows = warm;
        copy::fence();
    }

    /// Some rows of several threads, to memory in the cache.
    fn block_of_rows(&mut self, payloads: &[Option<&[u8]>], out: &mut [T]) {
        let row = self.each * self.threads;
        let done = decode_rows(&self.decoder, payloads, self.each, out, Target::Warm);
        let (from, out) = (self.octets(done), &mut out[done * row..]);
        if out.is_empty() {
            return;
        }
        self.columns.resize(out.len(), T::MISSING);
        for (payload, column) in payloads.iter().zip(self.columns.chunks_exact_mut(out.len() / self.threads))
        {
            match payload {
                Some(octets) => decode(&self.decoder, &octets[from..], column, Target::Warm),
                None => column.fill(T::MISSING),
            }
        }
        turn(&self.columns, self.threads, self.each, out);
    }

    /// Octets of a thread's part of so many rows.
    fn octets(&self, rows: usize) -> usize {
        self.decoder.coding().octets_of(rows * self.each)
    }

    /// Rows of so many elementary samples that are decoded at once: whole octets of each thread.
    fn block(&self, row: usize) -> usize {
        (COLUMN_BYTES / size_of::<T>() / row).next_multiple_of(8)
    }
}
