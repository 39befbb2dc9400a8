//! Reading one chunk file: its checksum, and what its frames say.

use skyhaul_io::disk::Source;
use skyhaul_io::memory::Block;

use super::open::ChunkEntry;

/// Bytes of one read.
pub(super) const READ_BYTES: usize = 4 << 20;

/// What one frame is, to who knows its format.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FrameSeen {
    /// Why it is no legal frame.
    pub illegal: Option<&'static str>,
    /// It is marked as invalid: fill.
    pub filled: bool,
    /// Unix second and frame number.
    pub time: Option<(i64, u32)>,
}

/// Reads the frames of one chunk, in order.
pub trait FrameReader {
    /// What `frame` is.
    fn see(&mut self, frame: &[u8]) -> FrameSeen;
}

/// What reading one chunk gave.
#[derive(Debug, Default)]
pub(super) struct Seen {
    pub(super) bytes: u64,
    pub(super) crc32c: u32,
    pub(super) error: Option<String>,
    pub(super) frames: u64,
    pub(super) illegal: u64,
    pub(super) illegal_why: Option<&'static str>,
    pub(super) filled: u64,
    pub(super) first_time: Option<(i64, u32)>,
    pub(super) last_time: Option<(i64, u32)>,
}

/// Cuts a stream of bytes into frames.
pub(super) struct FrameCutter {
    unit: usize,
    rest: Vec<u8>,
    reader: Box<dyn FrameReader>,
}

impl FrameCutter {
    pub(super) fn new(unit: u32, reader: Box<dyn FrameReader>) -> FrameCutter {
        FrameCutter { unit: unit as usize, rest: Vec::new(), reader }
    }

    fn feed(&mut self, mut bytes: &[u8], seen: &mut Seen) {
        if self.unit == 0 {
            return;
        }
        if !self.rest.is_empty() {
            let n = (self.unit - self.rest.len()).min(bytes.len());
            self.rest.extend_from_slice(&bytes[..n]);
            bytes = &bytes[n..];
            if self.rest.len() < self.unit {
                return;
            }
            seen.add_frame(self.reader.see(&self.rest));
            self.rest.clear();
        }
        let frames = bytes.chunks_exact(self.unit);
        self.rest.extend_from_slice(frames.remainder());
        frames.for_each(|frame| seen.add_frame(self.reader.see(frame)));
    }
}

impl Seen {
    fn add_frame(&mut self, frame: FrameSeen) {
        self.frames += 1;
        self.filled += u64::from(frame.filled);
        if let Some(why) = frame.illegal {
            self.illegal += 1;
            self.illegal_why.get_or_insert(why);
        }
        if frame.time.is_some() {
            self.first_time = self.first_time.or(frame.time);
            self.last_time = frame.time;
        }
    }
}

/// Read all of `chunk` through `block`; `progress` is told the bytes of each read.
pub(super) fn read_chunk(
    chunk: &ChunkEntry,
    mut block: Block,
    mut frames: Option<FrameCutter>,
    progress: impl Fn(u64),
) -> Seen {
    let mut seen = Seen::default();
    let source = match Source::open(&chunk.path) {
        Ok(source) => source,
        Err(error) => return Seen { error: Some(error.to_string()), ..seen },
    };
    loop {
        match source.read(seen.bytes, &mut block) {
            Ok(length) => {
                seen.crc32c = crc32c::crc32c_append(seen.crc32c, &block[..length]);
                seen.bytes += length as u64;
                if let Some(frames) = &mut frames {
                    frames.feed(&block[..length], &mut seen);
                }
                progress(length as u64);
                if length < block.len() {
                    break;
                }
            }
            Err(error) => return Seen { error: Some(error.to_string()), ..seen },
        }
    }
    if frames.is_some_and(|frames| !frames.rest.is_empty()) {
        seen.illegal += 1;
        seen.illegal_why.get_or_insert("the file ends within a frame");
    }
    seen
}
