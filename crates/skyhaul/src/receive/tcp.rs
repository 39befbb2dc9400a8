//! TCP ports: of frames, each of which says its own length, or of packets that may be as long as a heap.
//!
//! Who listens without a format looks at the first connection's first bytes, and leaves them where they are: a magic number
//! of heaps makes the port theirs, anything else that of frames.
//!
//! Limits: a port carries one kind. Frames and heaps by TCP need a port each.

use super::objects::{Objects, Port};
use skyhaul_core::wire::{Format, Framing};
use skyhaul_io::source::{Source, SourceStats, Train};
use skyhaul_io::tcp::{Frame, Framer, TcpOptions, TcpSource};
use std::io;
use std::net::TcpStream;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How long is slept between two looks for the first connection's first bytes.
const NAP: Duration = Duration::from_millis(5);
/// Connections that wait for the decision, at most.
const WAITING: usize = 64;

/// A port of frames.
pub(super) fn frames(port: Port, format: Format) -> io::Result<Box<dyn Source>> {
    let Port { listener, at, open } = port;
    let framer = Box::new(FrameLengths { format });
    let mut source = TcpSource::listening(listener, at, framer, &TcpOptions::default())?;
    for stream in open {
        // One that is gone again is not worth an error.
        if let Ok(sender) = stream.peer_addr() {
            drop(source.admit(stream, sender));
        }
    }
    Ok(Box::new(source))
}

/// A port of which is not known what it carries.
pub(super) struct TcpPort {
    name: String,
    objects: Arc<Objects>,
    state: State,
}

enum State {
    /// Nobody has said anything.
    Undecided(Port),
    Decided(Box<dyn Source>),
    /// It could not be opened as what it turned out to be.
    Failed,
}

impl TcpPort {
    pub(super) fn new(port: Port, objects: Arc<Objects>) -> Self {
        Self { name: port.at.to_string(), objects, state: State::Undecided(port) }
    }

    /// Take who has connected, and see what the port is for.
    fn look(&mut self) -> io::Result<()> {
        let State::Undecided(port) = &mut self.state else { return Ok(()) };
        port.accept();
        let decided = port.open.iter().find_map(|stream| {
            let mut bytes = [0; 8];
            let there = stream.peek(&mut bytes).unwrap_or(0);
            self.objects.family_of(&bytes[..there])
        });
        let Some(family) = decided else { return Ok(()) };
        let State::Undecided(port) = std::mem::replace(&mut self.state, State::Failed) else { return Ok(()) };
        let source = match family {
            Some(family) => self.objects.connections(family, port)?,
            None => Some(frames(port, Format::Auto)?),
        };
        self.state = source.map_or(State::Failed, State::Decided);
        Ok(())
    }
}

impl Port {
    fn accept(&mut self) {
        self.open.retain(is_open);
        while self.open.len() < WAITING
            && let Ok((stream, sender)) = self.listener.accept()
        {
            let welcome = self.at.source.is_none_or(|only| only == sender.ip());
            if welcome && stream.set_nonblocking(true).is_ok() {
                self.open.push(stream);
            }
        }
    }
}

/// Whether more may come of it.
fn is_open(stream: &TcpStream) -> bool {
    match stream.peek(&mut [0; 1]) {
        Ok(n) => n > 0,
        Err(error) => error.kind() == io::ErrorKind::WouldBlock,
    }
}

impl Source for TcpPort {
    fn poll(&mut self, wait: Duration, each: &mut dyn FnMut(Train<'_>)) -> io::Result<usize> {
        let begun = Instant::now();
        loop {
            if let State::Decided(source) = &mut self.state {
                return source.poll(wait.saturating_sub(begun.elapsed()), each);
            }
            self.look()?;
            if matches!(self.state, State::Undecided(_)) {
                if begun.elapsed() >= wait {
                    return Ok(0);
                }
                std::thread::sleep(NAP);
            }
        }
    }

    fn stats(&self) -> SourceStats {
        match &self.state {
            State::Decided(source) => source.stats(),
            State::Undecided(_) | State::Failed => {
                SourceStats { tier: "tcp", because: "the address says tcp".into(), ..SourceStats::default() }
            }
        }
    }

    fn describe(&self) -> String {
        match &self.state {
            State::Decided(source) => source.describe(),
            State::Undecided(_) | State::Failed => self.name.clone(),
        }
    }

    fn is_finished(&self) -> bool {
        match &self.state {
            State::Decided(source) => source.is_finished(),
            State::Undecided(_) => false,
            State::Failed => true,
        }
    }

    fn placed(&self) -> u64 {
        match &self.state {
            State::Decided(source) => source.placed(),
            State::Undecided(_) | State::Failed => 0,
        }
    }
}

/// Reads the length of a frame from its first bytes, as the families that have frames in byte streams tell it.
///
/// VTP over TCP is plain concatenated frames; there is no sequence number.
#[derive(Clone, Copy, Debug)]
pub(super) struct FrameLengths {
    pub(super) format: Format,
}

impl Framer for FrameLengths {
    fn frame(&self, head: &[u8]) -> Frame {
        match self.format.framing(head) {
            Framing::Incomplete => Frame::Incomplete,
            Framing::Length(bytes) => Frame::Packet(bytes),
            Framing::Unknown => Frame::Garbage,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use skyhaul_core::wire::{mark5b, vdif::Vdif};

    #[test]
    fn a_frame_tells_its_length_and_nonsense_is_garbage() {
        let framer = FrameLengths { format: Format::Auto };
        let vdif = Vdif::shape(8000, 1, 2, false, false).unwrap();
        assert_eq!(framer.frame(&vdif.write()), Frame::Packet(8032));
        assert_eq!(framer.frame(&vdif.write()[..10]), Frame::Incomplete);
        assert_eq!(framer.frame(&mark5b::SYNC.to_le_bytes()), Frame::Packet(10_016));
        assert_eq!(framer.frame(&[0; 32]), Frame::Garbage);
    }
}
