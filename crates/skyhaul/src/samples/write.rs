//! Frames made from samples, and the headers of frames as columns.

use super::Samples;
use super::read::Wanted;
use skyhaul_core::samples::{Coding, append_column, is_whole};
use skyhaul_core::wire::{FILL, FamilyRef, Field, Written};
use skyhaul_io::samples::encode;
use std::ops::Range;

/// Makes the frames of a stream from rows of samples.
#[derive(Debug)]
pub struct FrameMaker {
    headers: Box<dyn skyhaul_core::wire::Headers>,
    coding: Coding,
    threads: usize,
    /// Elementary samples of a thread in a row.
    each: usize,
    frame_rows: usize,
    frame_bytes: usize,
    /// Frames made so far.
    made: u64,
    column: Vec<f32>,
}

impl FrameMaker {
    /// For this stream.
    ///
    /// # Errors
    /// Why such a stream cannot be written, with a hint.
    pub fn new(family: FamilyRef, written: &Written) -> Result<Self, String> {
        let frames = family.frames().ok_or_else(|| format!("{family} has no frames"))?;
        let headers = frames.written(written)?;
        let rows = written.rows_of(headers.payload()).ok_or("a frame holds no whole number of samples")?;
        let header =
            headers.header(0, 0, true).ok_or("the time of the first frame does not fit its header")?;
        Ok(Self {
            frame_bytes: header.1 + headers.payload(),
            coding: headers.coding(),
            threads: written.threads.len(),
            each: written.channels as usize * (1 + usize::from(written.complex)),
            frame_rows: usize::try_from(rows).map_err(|_| "a frame holds too many samples")?,
            made: 0,
            column: Vec::new(),
            headers,
        })
    }

    /// Rows of a frame.
    #[must_use]
    pub fn frame_rows(&self) -> usize {
        self.frame_rows
    }

    /// Bytes of a frame, with its header.
    #[must_use]
    pub fn frame_bytes(&self) -> usize {
        self.frame_bytes
    }

    /// Elementary samples of a row: for each thread, for each channel, for each component.
    #[must_use]
    pub fn row(&self) -> usize {
        self.threads * self.each
    }

    /// Append the next frames to `to`: those of all threads in turn. A frame with a missing sample (NaN) is marked invalid.
    ///
    /// # Errors
    /// `rows` are no whole number of frames, or the time of a frame does not fit its header; the frames before it are
    /// appended.
    pub fn frames(&mut self, rows: &[f32], to: &mut Vec<u8>) -> Result<(), String> {
        let (row, payload) = (self.row(), self.headers.payload());
        if !rows.len().is_multiple_of(self.frame_rows * row) {
            return Err(format!(
                "{} samples are no whole number of frames of {}",
                rows.len(),
                self.frame_rows * row
            ));
        }
        for rows in rows.chunks_exact(self.frame_rows * row) {
            for rank in 0..self.threads {
                self.column.clear();
                append_column(rows, row, rank * self.each..(rank + 1) * self.each, &mut self.column);
                let valid = is_whole(&self.column);
                let (header, length) = self
                    .headers
                    .header(self.made, rank, valid)
                    .ok_or("the time of the next frame does not fit its header")?;
                to.extend_from_slice(&header[..length]);
                let at = to.len();
                to.resize(at + payload, 0);
                if valid {
                    encode(self.coding, &self.column, &mut to[at..]);
                } else {
                    to[at..].as_chunks_mut().0.iter_mut().for_each(|word| *word = FILL);
                }
            }
            self.made += 1;
        }
        Ok(())
    }
}

/// The headers of the frames of a range: those that are there, by time, then by thread.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Headers {
    /// The fields, as the standard names them.
    pub fields: Vec<&'static Field>,
    /// The number of each frame, from the first of the datastream on.
    pub frames: Vec<u64>,
    /// The thread of each frame.
    pub threads: Vec<u16>,
    /// Whether each is valid, in all of its channels.
    pub valid: Vec<bool>,
    /// The values of each frame, field by field.
    pub values: Vec<u64>,
}

impl Samples {
    /// The headers of the frames from `frames.start` to before `frames.end`. The fields are those of the first one.
    #[must_use]
    pub fn headers(&self, frames: Range<u64>) -> Headers {
        let (threads, block) = (self.threads.len(), self.block_frames() as u64);
        let mut found = Headers::default();
        let mut fields = Vec::new();
        let mut scratch = self.kept.take();
        let mut from = frames.start;
        while from < frames.end {
            let to = from.saturating_add(block).min(frames.end);
            let number = |frame: u64| self.extent.0.saturating_add_unsigned(frame);
            self.gather(number(from)..number(to), Wanted::All, &mut scratch);
            for (frame, places) in (from..).zip(scratch.places.chunks_exact(threads)) {
                for (&thread, place) in self.threads.iter().zip(places) {
                    let Some(unit) =
                        place.and_then(|place| scratch.units.get(place..)?.get(..self.frames.unit))
                    else {
                        continue;
                    };
                    if fields.is_empty() {
                        fields = self.frames.fields(unit);
                        found.fields = fields.iter().map(|(_, field)| *field).collect();
                    }
                    let value = |(at, field): &(usize, &Field)| field.value(unit.get(*at..)?);
                    found.values.extend(fields.iter().map(|field| value(field).unwrap_or_default()));
                    found.frames.push(frame);
                    found.threads.push(thread);
                    found.valid.push(self.frames.is_valid(unit) && self.is_whole(unit));
                }
            }
            from = to;
        }
        self.kept.put(scratch);
        found
    }
}
