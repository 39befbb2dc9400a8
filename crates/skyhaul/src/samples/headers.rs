//! Headers of frames as numbers.

use super::Samples;
use super::read::Wanted;
use skyhaul_core::wire::Field;
use std::ops::Range;

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
