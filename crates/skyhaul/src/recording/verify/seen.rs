//! Results of reading one file, and whether they verify it.
//!
//! The proof of a chunk is its index record: length and CRC-32C. A file without one is proven as far as its frame
//! headers go: all legal, all of one length, in order of time, and between those of its neighbours.

use skyhaul_core::placement::Key;
use skyhaul_core::wire::{FrameSeen, FrameTime, Sighting, Trace};

use crate::recording::index::record::ChunkRecord;
use crate::recording::plan::gap::Time;

/// Results of reading one file.
#[derive(Debug, Default)]
pub(in crate::recording) struct Seen {
    /// Its length.
    pub(in crate::recording) bytes: u64,
    /// How much of it was read.
    pub(in crate::recording) read: u64,
    /// CRC-32C of what was read.
    pub(in crate::recording) crc32c: u32,
    pub(in crate::recording) error: Option<String>,
    pub(in crate::recording) frames: u64,
    pub(in crate::recording) illegal: u64,
    pub(in crate::recording) illegal_why: Option<&'static str>,
    pub(in crate::recording) filled: u64,
    /// Where packets have objects: how many follow each other, and the last one.
    pub(in crate::recording) objects: u64,
    pub(in crate::recording) object: Option<Key>,
    pub(in crate::recording) first_time: Option<Time>,
    pub(in crate::recording) last_time: Option<Time>,
    /// A frame's time is before that of the frame before it.
    pub(in crate::recording) goes_back: bool,
    /// Times, threads and stations of its valid frames.
    pub(in crate::recording) trace: Trace,
}

impl Seen {
    /// A packet of this object.
    pub(in crate::recording) fn add_packet(&mut self, object: Key) {
        self.frames += 1;
        self.objects += u64::from(self.object.replace(object) != Some(object));
    }

    /// Count an invalid frame or packet.
    pub(in crate::recording) fn refuse(&mut self, why: &'static str) {
        self.illegal += 1;
        self.illegal_why.get_or_insert(why);
    }

    pub(in crate::recording) fn add_frame(&mut self, frame: FrameSeen) {
        let place = self.frames;
        self.frames += 1;
        self.filled += u64::from(frame.filled);
        if let Some((unix_seconds, number)) = frame.time.filter(|_| frame.illegal.is_none() && !frame.filled)
        {
            let time = FrameTime { unix_seconds, frame: number, thread: frame.thread };
            self.trace.add(Sighting { place, time, station: frame.station });
        }
        if let Some(why) = frame.illegal {
            self.refuse(why);
        }
        if frame.time.is_some() {
            self.goes_back |= frame.time < self.last_time;
            self.first_time = self.first_time.or(frame.time);
            self.last_time = frame.time;
        }
    }

    /// Whether what was read is what `record` promises.
    ///
    /// # Errors
    /// The difference from the record.
    pub(in crate::recording) fn proves(&self, record: &ChunkRecord) -> Result<(), String> {
        if let Some(error) = &self.error {
            return Err(format!("it cannot be read: {error}"));
        }
        if self.bytes < record.bytes {
            return Err(format!("it has {} bytes, but its index record says {}", self.bytes, record.bytes));
        }
        if self.read != record.bytes || self.crc32c != record.crc32c {
            let (is, was) = (self.crc32c, record.crc32c);
            return Err(format!("its CRC-32C is {is:08x}, but its index record says {was:08x}"));
        }
        Ok(())
    }

    /// Whether its frame headers prove a file without a record: between what ends at `after` and begins at `before`.
    ///
    /// # Errors
    /// The reason why the file cannot be verified.
    pub(in crate::recording) fn proven_by_frames(
        &self,
        after: Option<Time>,
        before: Option<Time>,
    ) -> Result<(), String> {
        if let Some(error) = &self.error {
            return Err(format!("it cannot be read: {error}"));
        }
        if let Some(why) = self.illegal_why {
            return Err(format!("{} of its frames are invalid: {why}", self.illegal));
        }
        if self.objects > 0 {
            // Heaps have no time: the only test is that the file consists of valid packets.
            return Ok(());
        }
        let (Some(first), Some(last)) = (self.first_time, self.last_time) else {
            return Err("it contains no readable frame header".to_owned());
        };
        if self.goes_back
            || after.is_some_and(|after| first < after)
            || before.is_some_and(|before| last > before)
        {
            return Err("the times of its frames do not fit its place".to_owned());
        }
        Ok(())
    }
}
