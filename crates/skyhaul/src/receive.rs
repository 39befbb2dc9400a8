//! Receiving: packets of any number of senders into blocks of a fixed pool.
//!
//! ```text
//!   Source ─ train ─▶ Engine ─▶ Stream (one per sender)
//!                       │         ├ learning: holds the first packets until the format is clear
//!                       │         ├ running:  Layout ▶ Assembly ▶ non-temporal copy into the slot
//!                       │         └ rejected: unknown format; counted
//!                       ├──▶ Mirror   runs of frames, as they arrive, to other hosts
//!                       └──▶ Sink     finished parts of a stream, in stream order
//! ```
//!
//! One engine per receiving thread; senders stay with their socket, so engines share only the pool.

mod admission;
mod engine;
mod engine_reader;
mod filter;
mod gaps;
mod info;
mod joining;
mod kernel;
pub mod keyed;
mod newcomers;
pub(crate) mod objects;
mod options;
mod placed;
mod placer;
mod placing;
pub(crate) mod reader;
mod receiver;
mod refusals;
mod strangers;
mod stream;
mod tables;
mod tcp;
mod watch;

pub use engine::{Engine, EngineOptions};
pub use filter::{Allow, DataTime, Gate, NoOrigin, Origin};
pub use info::{Others, StreamInfo, StreamPart, StreamReport, Tally, Watched};
pub use objects::{Loaded, ObjectCounts, ObjectLoad, ObjectOptions, ObjectSink, Received, Storable};
pub use options::ReceiverOptions;
pub use receiver::{LoadOfReceiver, Receiver, Running};
pub(crate) use watch::moved;

use crate::frames::FramesOf;
use std::collections::HashMap;
use std::io;
use std::io::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::thread::JoinHandle;

/// Results of a [`Collector`].
#[derive(Clone, Debug, Default)]
pub struct Collected {
    /// Bytes written.
    pub bytes: u64,
    /// Frames that were checked.
    pub checked: u64,
    /// Frames that were invalid, or whose payload was not the pattern.
    pub wrong: u64,
    /// The error that ended the writing, if any.
    pub error: Option<String>,
    /// The reader of the output closed it, which is not an error.
    pub enough: bool,
}

/// Takes parts from the receiving threads and writes or checks them on a separate thread.
///
/// Queued parts stay in blocks of the pool: if it is too slow, the pool runs empty and the receiver counts packets
/// without a buffer. Gaps are not written.
#[derive(Debug)]
pub struct Collector {
    parts: Option<Sender<(Arc<StreamInfo>, StreamPart)>>,
    thread: JoinHandle<Collected>,
    wrong: Arc<AtomicU64>,
    closed: Arc<AtomicBool>,
}

impl Collector {
    /// Write to `output`, if there is one; check the pattern if `verify`.
    ///
    /// # Errors
    /// A thread that cannot be started.
    pub fn start(output: Option<Box<dyn Write + Send>>, verify: bool) -> io::Result<Self> {
        let (parts, queue) = channel();
        let wrong = Arc::new(AtomicU64::new(0));
        let closed = Arc::new(AtomicBool::new(false));
        let (count, close) = (wrong.clone(), closed.clone());
        let thread = std::thread::Builder::new().name("collect".into()).spawn(move || {
            Work { output, verify, readers: HashMap::new(), wrong: count, closed: close }.run(queue)
        })?;
        Ok(Self { parts: Some(parts), thread, wrong, closed })
    }

    /// A sink for a receiving thread.
    #[must_use]
    pub fn sink(&self) -> Box<dyn Sink> {
        Box::new(CollectSink { parts: self.parts.clone() })
    }

    /// Wrong frames so far.
    #[must_use]
    pub fn wrong(&self) -> u64 {
        self.wrong.load(Ordering::Relaxed)
    }

    /// Whether nothing more can be written.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        self.closed.load(Ordering::Relaxed)
    }

    /// Wait until everything is written and checked. The receiver must have ended.
    #[must_use]
    pub fn finish(mut self) -> Collected {
        self.parts = None;
        self.thread
            .join()
            .unwrap_or_else(|_| Collected { error: Some("the writer ended".into()), ..Collected::default() })
    }
}

struct CollectSink {
    parts: Option<Sender<(Arc<StreamInfo>, StreamPart)>>,
}

impl Sink for CollectSink {
    fn stream_began(&mut self, _: &Arc<StreamInfo>) {}

    fn part(&mut self, stream: &Arc<StreamInfo>, part: StreamPart) {
        if let Some(parts) = &self.parts {
            // The collector outlives its sinks; otherwise the block would return to the pool.
            let _ = parts.send((stream.clone(), part));
        }
    }

    fn finished(&mut self) {
        self.parts = None;
    }
}

struct Work {
    output: Option<Box<dyn Write + Send>>,
    verify: bool,
    readers: HashMap<u32, Option<FramesOf>>,
    wrong: Arc<AtomicU64>,
    closed: Arc<AtomicBool>,
}

impl Work {
    fn run(mut self, queue: impl IntoIterator<Item = (Arc<StreamInfo>, StreamPart)>) -> Collected {
        let mut done = Collected::default();
        for (stream, part) in queue {
            if self.verify {
                self.check(&stream, &part, &mut done);
            }
            if let Some(output) = &mut self.output
                && let Err(e) = write(output, &stream, &part, &mut done)
            {
                self.give_up(&e, &mut done);
            }
        }
        if let Some(output) = &mut self.output
            && let Err(e) = output.flush()
        {
            self.give_up(&e, &mut done);
        }
        done
    }

    fn give_up(&mut self, error: &io::Error, done: &mut Collected) {
        self.output = None;
        self.closed.store(true, Ordering::Relaxed);
        match error.kind() {
            io::ErrorKind::BrokenPipe => done.enough = true,
            _ => done.error = Some(error.to_string()),
        }
    }

    fn check(&mut self, stream: &Arc<StreamInfo>, part: &StreamPart, done: &mut Collected) {
        let reader = self.readers.entry(stream.id).or_insert_with(|| FramesOf::stream(&stream.format, true));
        let Some(reader) = reader else { return };
        for bytes in present(stream, part) {
            for frame in bytes.chunks(stream.unit_bytes.max(1) as usize) {
                done.checked += 1;
                if reader.see(frame).illegal.is_some() {
                    done.wrong += 1;
                    self.wrong.fetch_add(1, Ordering::Relaxed);
                }
            }
        }
    }
}

/// The runs of a part that arrived.
fn present<'a>(stream: &StreamInfo, part: &'a StreamPart) -> impl Iterator<Item = &'a [u8]> {
    let unit = stream.unit_bytes as usize;
    let bytes = &part.block[part.range.clone()];
    let starts = std::iter::once(0).chain(part.missing.iter().map(move |m| m.end as usize * unit));
    let ends = part.missing.iter().map(move |m| m.start as usize * unit).chain(std::iter::once(bytes.len()));
    starts.zip(ends).filter(|(start, end)| start < end).map(|(start, end)| &bytes[start..end])
}

fn write(
    output: &mut dyn Write,
    stream: &StreamInfo,
    part: &StreamPart,
    done: &mut Collected,
) -> io::Result<()> {
    for bytes in present(stream, part) {
        output.write_all(bytes)?;
        done.bytes += bytes.len() as u64;
    }
    Ok(())
}

#[cfg(test)]
mod tests;

/// Consumer of finished parts. Called on the receiving thread: must not block.
pub trait Sink: Send {
    /// A stream's format is known; its parts follow.
    fn stream_began(&mut self, stream: &std::sync::Arc<StreamInfo>);
    /// Nothing more will be added to this part of `stream`.
    fn part(&mut self, stream: &std::sync::Arc<StreamInfo>, part: StreamPart);
    /// `stream` has ended: it was replaced by another sender.
    fn stream_ended(&mut self, _: &std::sync::Arc<StreamInfo>) {}
    /// The program did not run for this long.
    fn paused(&mut self, _: std::time::Duration) {}
    /// Something an operator should know of a stream. Returns whether it keeps the event: else the receiver does.
    fn event(&mut self, _: &crate::recording::Event) -> bool {
        false
    }
    /// The receiver has stopped; no more calls follow.
    fn finished(&mut self) {}
}

impl<S: Sink + ?Sized> Sink for Box<S> {
    fn stream_began(&mut self, stream: &std::sync::Arc<StreamInfo>) {
        (**self).stream_began(stream);
    }
    fn part(&mut self, stream: &std::sync::Arc<StreamInfo>, part: StreamPart) {
        (**self).part(stream, part);
    }
    fn stream_ended(&mut self, stream: &std::sync::Arc<StreamInfo>) {
        (**self).stream_ended(stream);
    }
    fn paused(&mut self, time: std::time::Duration) {
        (**self).paused(time);
    }
    fn event(&mut self, event: &crate::recording::Event) -> bool {
        (**self).event(event)
    }
    fn finished(&mut self) {
        (**self).finished();
    }
}

/// A sink that discards everything and returns blocks immediately.
#[derive(Clone, Copy, Debug, Default)]
pub struct Nowhere;

impl Sink for Nowhere {
    fn stream_began(&mut self, _: &std::sync::Arc<StreamInfo>) {}
    fn part(&mut self, _: &std::sync::Arc<StreamInfo>, _: StreamPart) {}
}
