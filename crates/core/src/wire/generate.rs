//! Streams made from nothing, to try and to measure with.

use std::fmt;

/// What is to be made.
#[derive(Clone, Debug)]
pub struct Made {
    /// Payload octets of a frame.
    pub payload: usize,
    /// Threads, numbered from 0; each frame number is sent once for each.
    pub threads: u16,
    /// Frames per second of each thread.
    pub frames_per_second: u32,
    /// Time of the first frame, Unix seconds.
    pub start: i64,
    /// Two ASCII characters.
    pub station: String,
    /// Payloads that verify themselves, instead of noise.
    pub pattern: bool,
}

/// Makes streams of one family.
pub trait Generator: Sync {
    /// Prepare one.
    ///
    /// # Errors
    /// Why there is no such stream, with a hint.
    fn begin(&self, made: Made) -> Result<Box<dyn Generated>, String>;

    /// Whether a sequence number may stand before its frames.
    fn takes_sequence(&self) -> bool {
        true
    }
}

/// A stream that is made: each frame from its number alone.
pub trait Generated: fmt::Debug + Send {
    /// Write the header of frame `n` to the front of `head`; its length, and the payload behind it.
    fn frame(&self, n: u64, head: &mut [u8]) -> (usize, &[u8]);
    /// Octets of a frame.
    fn frame_bytes(&self) -> usize;
    /// What it is, in words.
    fn describe(&self) -> String;
}
