//! What a flow is received from: its connection, and how long it takes.

use super::control::{POLL_INTERVAL, SessionState};
use skyhaul::peer::DataStream;
use std::io::{self, Read};
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// A flow must bring [`MIN_BYTES`] of ranges each time that it has been within them for so long, in units of the patience: 120 s. A sender that is paused
/// sends as much every 10 s.
const SLOW_PATIENCES: u32 = 4;
const MIN_BYTES: u64 = 16 << 10;

/// How reading some bytes went.
pub(super) enum Filled {
    Whole,
    /// The peer closed the connection before the first.
    Closed,
    /// It is over here.
    Over,
}

/// Receives on one flow.
pub(super) struct FlowReader {
    stream: DataStream,
    /// Time within ranges, and bytes that came in it, since they were looked at.
    within: Duration,
    bytes: u64,
}

impl FlowReader {
    pub(super) fn new(stream: DataStream) -> io::Result<Self> {
        stream.socket().set_read_timeout(Some(POLL_INTERVAL))?;
        Ok(Self { stream, within: Duration::ZERO, bytes: 0 })
    }

    /// So many bytes came within a range, or none, in this time.
    ///
    /// # Errors
    /// They are so few that a range would take days.
    fn took(&mut self, time: Duration, bytes: usize, patience: Duration) -> io::Result<()> {
        self.within += time;
        self.bytes += bytes as u64;
        let window = patience * SLOW_PATIENCES;
        if self.within < window {
            return Ok(());
        }
        if self.bytes < MIN_BYTES {
            let (bytes, seconds) = (self.bytes, window.as_secs());
            let text = format!(
                "a flow brought {bytes} bytes of a range in {seconds} s, less than {} KiB",
                MIN_BYTES >> 10
            );
            return Err(io::Error::new(io::ErrorKind::TimedOut, text));
        }
        (self.within, self.bytes) = (Duration::ZERO, 0);
        Ok(())
    }

    /// Reads as many bytes as there is room for.
    pub(super) fn fill(
        &mut self,
        watch: &SessionState,
        patience: Duration,
        bytes: &mut [u8],
        may_end: bool,
    ) -> io::Result<Filled> {
        let (mut at, mut moved, mut last) = (0, Instant::now(), Instant::now());
        while at < bytes.len() {
            // A peer that sends without end does not keep this end from ending.
            if watch.is_over() {
                return Ok(Filled::Over);
            }
            let read = self.stream.read(&mut bytes[at..]);
            // Between two ranges, the control connection shows whether the peer is alive.
            let (now, within) = (Instant::now(), at > 0 || !may_end);
            if within {
                self.took(now - last, *read.as_ref().unwrap_or(&0), patience)?;
            }
            last = now;
            match read {
                Ok(0) if may_end && at == 0 => return Ok(Filled::Closed),
                Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok(n) => {
                    (at, moved) = (at + n, now);
                    watch.arrived.fetch_add(n as u64, Ordering::Relaxed);
                    watch.activity.step();
                }
                Err(error) if is_late(&error) => {
                    if within && moved.elapsed() > patience {
                        return Err(io::Error::new(
                            io::ErrorKind::TimedOut,
                            "a flow stalled in the middle of a range",
                        ));
                    }
                }
                Err(error) => return Err(error),
            }
        }
        Ok(Filled::Whole)
    }
}

fn is_late(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut | io::ErrorKind::Interrupted)
}
