//! Generated streams, for trials and measurements.

use std::fmt;

/// Settings of a generated stream.
#[derive(Clone, Debug)]
pub struct Made {
    /// Payload bytes of a frame.
    pub payload: usize,
    /// Threads, numbered from 0; each frame number is sent once per thread.
    pub threads: u16,
    /// Frames per second of each thread.
    pub frames_per_second: u32,
    /// Time of the first frame, Unix seconds.
    pub start: i64,
    /// Two ASCII characters.
    pub station: String,
    /// Self-verifying payloads instead of noise.
    pub pattern: bool,
}

/// Generates streams of one family.
pub trait Generator: Sync {
    /// Prepare a stream.
    ///
    /// # Errors
    /// Why the settings are invalid, with a hint.
    fn begin(&self, made: Made) -> Result<Box<dyn Generated>, String>;

    /// Whether its frames may have a sequence number before them.
    fn takes_sequence(&self) -> bool {
        true
    }
}

/// A generated stream: each frame is made from its number alone.
pub trait Generated: fmt::Debug + Send {
    /// Write the header of frame `n` to the front of `head`; returns its length and the payload.
    fn frame(&self, n: u64, head: &mut [u8]) -> (usize, &[u8]);
    /// Number of bytes of a frame.
    fn frame_bytes(&self) -> usize;
    /// A description.
    fn describe(&self) -> String;
}
