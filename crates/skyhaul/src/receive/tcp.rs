//! TCP ports that carry frames, or packets up to the length of a heap.
//!
//! Without a given format, the first bytes of the first connection are peeked at: if they are the magic number of a family of
//! heaps, the port carries heaps, otherwise frames.
//!
//! Limits: a port carries one kind. Frames and heaps by TCP need a port each.

use super::objects::Objects;
use skyhaul_core::wire::{Format, Framing};
use skyhaul_io::source::{Source, SourceStats, Train};
use skyhaul_io::tcp::{Frame, Framer, TcpOptions, TcpPort, TcpSource};
use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Interval at which the first bytes are checked.
const POLL_INTERVAL: Duration = Duration::from_millis(5);

/// A port of frames.
pub(super) fn frames(port: TcpPort, format: Format, options: &TcpOptions) -> Box<dyn Source> {
    Box::new(TcpSource::of(port, Box::new(lengths(format)), options))
}

/// A port whose content is not known yet.
pub(super) struct UnknownPort {
    name: String,
    objects: Arc<Objects>,
    /// If it carries frames.
    options: TcpOptions,
    /// No connection has sent enough bytes yet.
    undecided: Option<TcpPort>,
    /// `None` at the end: it could not be opened for its content.
    decided: Option<Box<dyn Source>>,
}

impl UnknownPort {
    pub(super) fn new(name: String, port: TcpPort, objects: Arc<Objects>, options: TcpOptions) -> Self {
        Self { name, objects, options, undecided: Some(port), decided: None }
    }

    /// Accept connections, and find out what the port carries.
    fn look(&mut self) -> io::Result<()> {
        let Some(port) = &mut self.undecided else { return Ok(()) };
        let Some(family) = port.peek(|bytes| self.objects.family_of(bytes))? else { return Ok(()) };
        self.decided = self.undecided.take().and_then(|port| match family {
            Some(family) => self.objects.connections(family, self.name.clone(), port),
            None => Some(frames(port, Format::Auto, &self.options)),
        });
        Ok(())
    }
}

impl Source for UnknownPort {
    fn poll(&mut self, wait: Duration, each: &mut dyn FnMut(Train<'_>)) -> io::Result<usize> {
        let begun = Instant::now();
        loop {
            self.look()?;
            if self.undecided.is_none() || begun.elapsed() >= wait {
                break;
            }
            std::thread::sleep(POLL_INTERVAL);
        }
        let left = wait.saturating_sub(begun.elapsed());
        self.decided.as_mut().map_or(Ok(0), |source| source.poll(left, each))
    }

    fn stats(&self) -> SourceStats {
        let undecided =
            || SourceStats { tier: "tcp", because: "the address says tcp".into(), ..SourceStats::default() };
        self.decided.as_ref().map_or_else(undecided, |source| source.stats())
    }

    fn describe(&self) -> String {
        self.decided.as_ref().map_or_else(|| self.name.clone(), |source| source.describe())
    }

    fn is_finished(&self) -> bool {
        self.decided.as_ref().map_or(self.undecided.is_none(), |source| source.is_finished())
    }

    fn placed(&self) -> u64 {
        self.decided.as_ref().map_or(0, |source| source.placed())
    }
}

/// Reads the length of a frame from its first bytes, for the families that have frames in byte streams.
///
/// VTP over TCP is plain concatenated frames; there is no sequence number.
fn lengths(format: Format) -> impl Framer + 'static {
    move |head: &[u8]| match format.framing(head) {
        Framing::Incomplete => Frame::Incomplete,
        Framing::Length(bytes) => Frame::Packet(bytes),
        Framing::Unknown => Frame::Garbage,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use skyhaul_core::wire::{mark5b, vdif::Vdif};

    #[test]
    fn a_frame_tells_its_length_and_nonsense_is_garbage() {
        let framer = lengths(Format::Auto);
        let vdif = Vdif::shape(8000, 1, 2, false, false).unwrap();
        assert_eq!(framer.frame(&vdif.write()), Frame::Packet(8032));
        assert_eq!(framer.frame(&vdif.write()[..10]), Frame::Incomplete);
        assert_eq!(framer.frame(&mark5b::SYNC.to_le_bytes()), Frame::Packet(10_016));
        assert_eq!(framer.frame(&[0; 32]), Frame::Garbage);
    }
}
