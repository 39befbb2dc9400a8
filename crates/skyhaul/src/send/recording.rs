//! Sending a recording: its chunks in order, also while it is being made.
//!
//! What the reader does not give, or gives unproven, is in the supply's [`Account`] as soon as it is met, and makes the
//! sending fail at its end.

use super::supply::{Sequence, Supply};
use super::{HEAD, Packetize};
use crate::recording::{Account, Reader};
use std::collections::VecDeque;
use std::io;
use std::sync::mpsc::{Receiver, TryRecvError, sync_channel};

/// Frames read ahead at once, in bytes.
const SEGMENT: usize = 4 << 20;
/// Segments that stay readable, so that packets can be sent late or twice.
const KEPT: usize = 4;

/// Whole frames, the number of the first, and what follows them.
#[derive(Debug)]
struct Segment {
    first: u64,
    bytes: Vec<u8>,
}

/// The frames of one datastream of a recording.
#[derive(Debug)]
pub struct RecordingSupply {
    segments: Receiver<io::Result<Vec<u8>>>,
    kept: VecDeque<Segment>,
    unit: usize,
    upto: u64,
    ended: bool,
    sequence: Sequence,
    name: String,
    account: Account,
    error: Option<String>,
}

impl RecordingSupply {
    /// Frames of `unit` bytes from `reader`.
    ///
    /// # Errors
    /// A thread that cannot be started.
    pub fn new(mut reader: Reader, unit: u32, sequence: Sequence, name: String) -> io::Result<Self> {
        let unit = unit.max(1) as usize;
        let whole = (SEGMENT / unit).max(1) * unit;
        let (send, segments) = sync_channel(KEPT);
        let account = reader.account();
        std::thread::Builder::new().name("read-recording".into()).spawn(move || {
            loop {
                let mut bytes = Vec::with_capacity(whole);
                let read = io::Read::read_to_end(&mut io::Read::take(&mut reader, whole as u64), &mut bytes);
                let end = read.is_err() || bytes.is_empty();
                if send.send(read.map(|_| bytes)).is_err() || end {
                    return;
                }
            }
        })?;
        let kept = VecDeque::new();
        Ok(Self { segments, kept, unit, upto: 0, ended: false, sequence, name, account, error: None })
    }
}

impl Packetize for RecordingSupply {
    fn packet(&self, n: u64, head: &mut [u8; HEAD]) -> (usize, &[u8]) {
        let number = self.sequence.write(n, head);
        let segment = self.kept.iter().rev().find(|s| s.first <= n);
        let frame = segment.and_then(|s| {
            let at = (n - s.first) as usize * self.unit;
            s.bytes.get(at..at + self.unit)
        });
        (number, frame.unwrap_or_default())
    }

    fn packet_bytes(&self) -> usize {
        self.unit + if self.sequence.order.is_some() { 8 } else { 0 }
    }
}

impl Supply for RecordingSupply {
    fn available(&mut self, next: u64) -> (u64, bool) {
        if self.ended || self.kept.back().is_some_and(|last| next < last.first) {
            return (self.upto, !self.ended);
        }
        match self.segments.try_recv() {
            Ok(Ok(bytes)) if !bytes.is_empty() => {
                let frames = (bytes.len() / self.unit) as u64;
                self.kept.push_back(Segment { first: self.upto, bytes });
                self.upto += frames;
                if self.kept.len() > KEPT {
                    self.kept.pop_front();
                }
            }
            Ok(Err(e)) => (self.ended, self.error) = (true, Some(e.to_string())),
            Ok(Ok(_)) | Err(TryRecvError::Disconnected) => self.ended = true,
            Err(TryRecvError::Empty) => {}
        }
        (self.upto, !self.ended)
    }

    fn describe(&self) -> String {
        self.name.clone()
    }

    fn failure(&self) -> Option<String> {
        let gaps = self.account.gaps();
        let amiss = || match gaps {
            1 => "part of the recording is missing or unproven".to_owned(),
            _ => format!("{gaps} parts of the recording are missing or unproven"),
        };
        self.error.clone().or_else(|| (gaps > 0).then(amiss))
    }
}
