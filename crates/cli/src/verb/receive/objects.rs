//! What `receive` does with finished heaps and events: each does its part, and hands them on.
//!
//! ```text
//!   finished ─▶ Worked (--work) ─▶ Listed (--list) ─▶ Payloads (--output-file), or nowhere
//! ```

use skyhaul::core::wire::keyed::Data;
use skyhaul::receive::{ObjectSink, Received};
use std::io::{self, Write};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// One file for frames, heaps and events.
#[derive(Clone)]
pub(super) struct Output(Arc<Mutex<Box<dyn Write + Send>>>);

impl Output {
    pub(super) fn new(file: Box<dyn Write + Send>) -> Self {
        Self(Arc::new(Mutex::new(file)))
    }
}

impl Write for Output {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).write(bytes)
    }

    /// Frames and heaps stay whole.
    fn write_all(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).write_all(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).flush()
    }
}

/// What stands where nothing arrived.
static ZEROS: [u8; 1 << 16] = [0; 1 << 16];

/// Writes the data of heaps and events, one after the other.
pub(super) struct Payloads {
    pub(super) output: Output,
    /// Incomplete ones too, their gaps zero.
    pub(super) fill: bool,
}

impl ObjectSink for Payloads {
    fn object(&mut self, object: &Received<'_>) -> io::Result<()> {
        if !object.complete && !self.fill {
            return Ok(());
        }
        object.data().try_for_each(|data| self.output.write_all(data))?;
        // A large event that is mostly missing has memory only for its beginning: write zeros for the rest.
        let all = object.size.filter(|_| object.data == Data::All).unwrap_or(0);
        let mut left = all.saturating_sub(object.payload.len() as u64);
        while left > 0 {
            let zeros = &ZEROS[..ZEROS.len().min(usize::try_from(left).unwrap_or(usize::MAX))];
            self.output.write_all(zeros)?;
            left -= zeros.len() as u64;
        }
        Ok(())
    }

    fn finished(&mut self) -> io::Result<()> {
        self.output.flush()
    }
}

/// The first line of a list.
pub(crate) const COLUMNS: &str = "number,source,bytes,missing";

/// Writes a line for each, at once: a list is whole up to where its program was killed.
pub(super) struct Listed {
    file: Box<dyn Write + Send>,
    next: Box<dyn ObjectSink>,
}

impl Listed {
    /// # Errors
    /// If the first line cannot be written.
    pub(super) fn new(mut file: Box<dyn Write + Send>, next: Box<dyn ObjectSink>) -> io::Result<Self> {
        writeln!(file, "{COLUMNS}")?;
        file.flush()?;
        Ok(Self { file, next })
    }
}

impl ObjectSink for Listed {
    fn object(&mut self, object: &Received<'_>) -> io::Result<()> {
        // What is missing of an object of unknown size is unknown: it is incomplete, so at least one byte.
        let missing = object.size.map_or(0, |size| size.saturating_sub(object.received));
        let missing = if object.complete { 0 } else { missing.max(1) };
        writeln!(self.file, "{},{},{},{missing}", object.number, object.source, object.received)?;
        self.file.flush()?;
        self.next.object(object)
    }

    fn tick(&mut self) {
        self.next.tick();
    }

    fn finished(&mut self) -> io::Result<()> {
        self.file.flush()?;
        self.next.finished()
    }
}

/// Takes its time over each.
pub(super) struct Worked {
    pub(super) time: Duration,
    pub(super) next: Box<dyn ObjectSink>,
}

impl ObjectSink for Worked {
    fn object(&mut self, object: &Received<'_>) -> io::Result<()> {
        std::thread::sleep(self.time);
        self.next.object(object)
    }

    fn tick(&mut self) {
        self.next.tick();
    }

    fn finished(&mut self) -> io::Result<()> {
        self.next.finished()
    }
}
