//! A connection that brings data: its bytes, and its end.

use super::shared::{Arrival, SILENCE};
use skyhaul::io::tcp::setup::reset_at_close;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How often a read that waits looks whether it is to stop.
const LOOK_INTERVAL: Duration = Duration::from_millis(100);
/// Bytes that are read ahead while a head is read.
const HEAD_BUFFER_BYTES: usize = 4 << 10;
/// How long a peer may take for an answer.
const WRITE_TIMEOUT: Duration = Duration::from_secs(60);

/// A connection of an arrival. It is reset when this is dropped, unless it was [closed](Self::close): what was not received to its end does
/// not look like success at the other end.
pub(super) struct Peer {
    stream: BufReader<TcpStream>,
    arrival: Arc<Arrival>,
    is_closed: bool,
}

impl Peer {
    pub(super) fn new(stream: TcpStream, arrival: &Arc<Arrival>) -> io::Result<Self> {
        stream.set_read_timeout(Some(LOOK_INTERVAL))?;
        stream.set_write_timeout(Some(WRITE_TIMEOUT))?;
        let stream = BufReader::with_capacity(HEAD_BUFFER_BYTES, stream);
        Ok(Self { stream, arrival: Arc::clone(arrival), is_closed: false })
    }

    /// Reads some bytes; 0: the other host has sent all.
    pub(super) fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let since = Instant::now();
        loop {
            match self.stream.read(into) {
                Err(error) if is_only_late(&error) => self.wait(since)?,
                read => return read,
            }
        }
    }

    /// Fills a buffer as far as there are bytes.
    pub(super) fn fill(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let mut filled = 0;
        while filled < into.len() {
            match self.read(&mut into[filled..])? {
                0 => break,
                read => filled += read,
            }
        }
        Ok(filled)
    }

    /// Fills a buffer as far as there are bytes before the arrival is closed.
    pub(super) fn fill_until_closed(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let mut filled = 0;
        while filled < into.len() && !self.arrival.is_stopped() {
            match self.read(&mut into[filled..]) {
                Ok(0) => break,
                Ok(read) => filled += read,
                Err(error)
                    if error.kind() == io::ErrorKind::ConnectionAborted && self.arrival.is_stopped() => {}
                Err(error) => return Err(error),
            }
        }
        Ok(filled)
    }

    /// Waits until more comes; `true`: the other host has sent all, or the arrival is closed.
    pub(super) fn is_at_end(&mut self) -> io::Result<bool> {
        let since = Instant::now();
        while !self.arrival.is_stopped() {
            match self.stream.fill_buf() {
                Ok(bytes) => return Ok(bytes.is_empty()),
                Err(error) if is_only_late(&error) => match self.wait(since) {
                    Err(_) if self.arrival.is_stopped() => {}
                    waited => waited?,
                },
                Err(error) => return Err(error),
            }
        }
        Ok(true)
    }

    /// Reads to the end of a head, at most so many bytes; nothing: the connection ended before one.
    pub(super) fn head(&mut self, most: usize, is_whole: impl Fn(&[u8]) -> bool) -> io::Result<Vec<u8>> {
        let mut head = Vec::new();
        let since = Instant::now();
        while !is_whole(&head) && head.len() < most {
            match self.stream.fill_buf() {
                Ok([]) => break,
                Ok([byte, ..]) => {
                    head.push(*byte);
                    self.stream.consume(1);
                }
                Err(error) if is_only_late(&error) => self.wait(since)?,
                Err(error) => return Err(error),
            }
        }
        Ok(head)
    }

    pub(super) fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.stream.get_mut().write_all(bytes)
    }

    /// Closes it in order: to the other host, that is success.
    pub(super) fn close(mut self) {
        self.is_closed = true;
        // It may have gone already.
        let _ = self.stream.get_ref().shutdown(Shutdown::Both);
    }

    fn wait(&self, since: Instant) -> io::Result<()> {
        if self.arrival.is_stopped() {
            return Err(io::Error::new(
                io::ErrorKind::ConnectionAborted,
                "it was closed before the data ended",
            ));
        }
        if since.elapsed() >= SILENCE {
            let why = format!("nothing came for {} s", SILENCE.as_secs());
            return Err(io::Error::new(io::ErrorKind::TimedOut, why));
        }
        Ok(())
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        if !self.is_closed {
            // It may have gone already.
            let _ = reset_at_close(self.stream.get_ref());
        }
    }
}

fn is_only_late(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted)
}
