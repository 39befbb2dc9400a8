//! Sending whole packets over a TCP connection.
//!
//! The packets of one call are sent in as few gathered writes as the kernel takes; where speed matters, pass 256 KiB or
//! more at a time. Calls wait in the kernel, and check the [stop flag](TcpSender::stop_flag) and the clock 50 times a
//! second.

use super::setup::{TcpSendOptions, connecting, tune};
use crate::address::{Endpoint, system_text};
use crate::udp::send::Sent;
use skyhaul_core::hint::Hint;
use socket2::{SockAddr, SockRef, Socket};
use std::io::{self, IoSlice};
use std::net::TcpStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

/// Most slices of one write (`UIO_MAXIOV`).
const SLICES: usize = 1024;
/// Slices up to this long are joined.
const SHORT: usize = 512;
/// Bytes joined at a time.
const JOINED: usize = 256 << 10;

/// What a sender did so far.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TcpSenderStats {
    /// Packets that the kernel took completely.
    pub packets: u64,
    /// Bytes in them.
    pub bytes: u64,
    /// Connections that broke.
    pub broken: u64,
    /// Cause of the last break.
    pub last_break: Option<String>,
    /// All bytes that the kernel took, whether they belong to complete packets or not.
    pub taken: u64,
    /// System calls that wrote.
    pub calls: u64,
    /// The congestion control in use.
    pub congestion: String,
}

/// One connection to one receiver.
pub struct TcpSender {
    at: Endpoint,
    options: TcpSendOptions,
    /// `None` once the connection broke.
    stream: Option<TcpStream>,
    gather: Gather,
    stop: Arc<AtomicBool>,
    stats: TcpSenderStats,
}

impl TcpSender {
    /// Connect.
    ///
    /// # Errors
    /// A system call failed: the error names the operation and the address, and has a hint.
    pub fn open(at: &Endpoint, options: &TcpSendOptions) -> io::Result<Self> {
        let socket = connecting(at, options)?;
        socket.connect_timeout(&SockAddr::from(at.address), options.patience).map_err(|error| {
            // The standard library enforces the time limit: its error has no system error code, so no hint.
            let late = error.kind() == io::ErrorKind::TimedOut;
            at.failed("connect", &if late { io::Error::from_raw_os_error(libc::ETIMEDOUT) } else { error })
        })?;
        Ok(Self::over(at, options, socket))
    }

    /// Send over an existing connection. It is made blocking, and `TCP_NODELAY` and `SO_SNDTIMEO` are set.
    ///
    /// # Errors
    /// A system call failed: the error names the operation and the address.
    pub fn from_stream(stream: TcpStream, options: &TcpSendOptions) -> io::Result<Self> {
        let at = Endpoint::tcp(stream.peer_addr()?);
        let socket = Socket::from(stream);
        socket.set_nonblocking(false).map_err(at.failing("wait on"))?;
        tune(&socket, &at, options)?;
        Ok(Self::over(&at, options, socket))
    }

    fn over(at: &Endpoint, options: &TcpSendOptions, socket: Socket) -> Self {
        let congestion = socket.tcp_congestion().map(|c| String::from_utf8_lossy(&c).into_owned());
        let congestion = congestion.unwrap_or_default().trim_end_matches('\0').to_owned();
        Self {
            at: at.clone(),
            options: options.clone(),
            stream: Some(socket.into()),
            gather: Gather::default(),
            stop: Arc::default(),
            stats: TcpSenderStats { congestion, ..TcpSenderStats::default() },
        }
    }

    /// Counters up to now.
    #[must_use]
    pub fn stats(&self) -> &TcpSenderStats {
        &self.stats
    }

    /// Where it sends to, and how, in one line.
    #[must_use]
    pub fn describe(&self) -> String {
        format!("{}, {}", self.at, self.stats.congestion)
    }

    /// Whether the connection is intact.
    #[must_use]
    pub fn is_connected(&self) -> bool {
        self.stream.is_some()
    }

    /// While this flag is true, no call waits: another thread sets it to end a waiting call within about 20 ms. The
    /// call fails with [`io::ErrorKind::ConnectionAborted`]. If it had sent a part, the connection is closed, because
    /// the peer could not tell where the next packet begins; otherwise the connection stays open and can be used once
    /// the flag is false again.
    #[must_use]
    pub fn stop_flag(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.stop)
    }

    /// Send all `packets`, waiting as long as necessary while the peer keeps accepting data.
    ///
    /// # Errors
    /// As [`send_slices`](Self::send_slices).
    pub fn send<const N: usize>(&mut self, packets: &[[IoSlice<'_>; N]]) -> io::Result<Sent> {
        const { assert!(N > 0) };
        let bytes = self.wait_for(packets.as_flattened())?;
        self.stats.packets += packets.len() as u64;
        self.stats.bytes += bytes as u64;
        Ok(Sent { packets: packets.len(), bytes, refused: 0 })
    }

    /// Send all `slices` in sequence, whatever packets they form: a heap of many items as one packet, or many packets
    /// of any lengths. Waits as long as necessary while the peer keeps accepting data. Short slices are joined, so that
    /// many cost little more than few. Returns the number of bytes; the packets in them are not counted.
    ///
    /// # Errors
    /// The connection broke, made no progress for the time set, or the [stop flag](Self::stop_flag) is set.
    /// [`TcpSenderStats::taken`] gives the number of bytes sent.
    pub fn send_slices(&mut self, slices: &[IoSlice<'_>]) -> io::Result<usize> {
        let bytes = self.wait_for(slices)?;
        self.stats.bytes += bytes as u64;
        Ok(bytes)
    }

    fn wait_for(&mut self, slices: &[IoSlice<'_>]) -> io::Result<usize> {
        if !self.is_connected() {
            return Err(io::Error::new(
                io::ErrorKind::NotConnected,
                format!("send to {}: not connected{}", self.at, Hint("reconnect")),
            ));
        }
        let mut gather = std::mem::take(&mut self.gather);
        let before = self.stats.taken;
        let sent = gather.each(slices, |slices| self.patiently(slices, before));
        self.gather = gather;
        sent
    }

    /// Send all `slices` of a call that began when `before` bytes had been taken.
    fn patiently(&mut self, mut slices: &mut [IoSlice<'_>], before: u64) -> io::Result<()> {
        let mut moved = Instant::now();
        while !slices.is_empty() {
            if self.stop.load(Ordering::Relaxed) {
                return Err(self.stopped(before));
            }
            let end = slices.len().min(SLICES);
            match self.once(&slices[..end])? {
                Some(wrote) => {
                    IoSlice::advance_slices(&mut slices, wrote);
                    moved = Instant::now();
                }
                None if moved.elapsed() < self.options.patience => {}
                None => return Err(self.broke(&io::Error::from_raw_os_error(libc::ETIMEDOUT))),
            }
        }
        Ok(())
    }

    fn stopped(&mut self, before: u64) -> io::Error {
        let mut text = format!("send to {}: stopped", self.at);
        if self.stats.taken > before {
            self.broke(&io::ErrorKind::ConnectionAborted.into());
            text += &format!(" within a packet and closed{}", Hint("reconnect"));
        }
        io::Error::new(io::ErrorKind::ConnectionAborted, text)
    }

    /// Close for writing. The peer sees a clean end.
    ///
    /// # Errors
    /// The connection broke first.
    pub fn finish(self) -> io::Result<TcpSenderStats> {
        if let Some(stream) = &self.stream {
            stream.shutdown(std::net::Shutdown::Write).map_err(self.at.failing("close"))?;
        }
        Ok(self.stats)
    }

    /// One write. `None`: the socket had no room for some milliseconds.
    fn once(&mut self, slices: &[IoSlice<'_>]) -> io::Result<Option<usize>> {
        let Some(stream) = &self.stream else { return Ok(None) };
        self.stats.calls += 1;
        // Not every program that uses this ignores SIGPIPE.
        let error = match SockRef::from(stream).send_vectored_with_flags(slices, libc::MSG_NOSIGNAL) {
            Ok(0) if slices.iter().any(|s| !s.is_empty()) => io::ErrorKind::WriteZero.into(),
            Ok(n) => {
                self.stats.taken += n as u64;
                return Ok(Some(n));
            }
            Err(e) if e.kind() == io::ErrorKind::Interrupted => return Ok(Some(0)),
            Err(e) if e.kind() == io::ErrorKind::WouldBlock => return Ok(None),
            Err(error) => error,
        };
        Err(self.broke(&error))
    }

    fn broke(&mut self, error: &io::Error) -> io::Error {
        self.stats.broken += 1;
        self.stats.last_break = Some(system_text(error));
        self.stream = None;
        self.at.failed("send to", error)
    }
}

/// What slices become.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Part {
    /// These bytes of what was joined.
    Joined(usize, usize),
    /// This slice, in place.
    Lies(usize),
}

/// Joins short slices. Its memory is taken at the first use, and kept.
///
/// Many slices of any length as few: short ones are joined by copying, long ones stay in place.
///
/// ```text
///   slices   │h│·payload·│h│·payload·│h│p│h│p│h│p│h│p│h│ ··· heap, 64 MiB ··· │
///   written  │h│·payload·│h│·payload·│hphphphph│ ··· heap, 64 MiB ··· │
/// ```
///
/// The kernel spends on every slice what it takes to copy some hundred bytes, and takes at most 1024 slices at a time:
/// so small packets made of head and payload would make small writes.
#[derive(Default)]
pub(super) struct Gather {
    joined: Vec<u8>,
    parts: Vec<Part>,
}

impl Gather {
    /// Give all `slices` to `write` in batches. Returns how many bytes they are.
    pub(super) fn each(
        &mut self,
        slices: &[IoSlice<'_>],
        mut write: impl FnMut(&mut [IoSlice<'_>]) -> io::Result<()>,
    ) -> io::Result<usize> {
        let mut bytes = 0;
        let mut rest = slices;
        while !rest.is_empty() {
            let taken = self.plan(rest);
            let mut batch = [IoSlice::new(&[]); SLICES];
            for (slice, part) in batch.iter_mut().zip(&self.parts) {
                *slice = match *part {
                    Part::Joined(from, to) => IoSlice::new(&self.joined[from..to]),
                    Part::Lies(n) => IoSlice::new(&rest[n]),
                };
            }
            let batch = &mut batch[..self.parts.len()];
            bytes += batch.iter().map(|slice| slice.len()).sum::<usize>();
            write(batch)?;
            rest = &rest[taken..];
        }
        Ok(bytes)
    }

    /// Decide on the next batch. Returns how many slices are in it.
    fn plan(&mut self, slices: &[IoSlice<'_>]) -> usize {
        self.joined.clear();
        self.parts.clear();
        for (n, slice) in slices.iter().enumerate() {
            if slice.len() > SHORT {
                if self.parts.len() == SLICES {
                    return n;
                }
                self.parts.push(Part::Lies(n));
                continue;
            }
            let from = self.joined.len();
            let to = from + slice.len();
            if to > JOINED {
                return n;
            }
            let full = self.parts.len() == SLICES;
            match self.parts.last_mut() {
                Some(Part::Joined(_, end)) => *end = to,
                _ if full => return n,
                _ => self.parts.push(Part::Joined(from, to)),
            }
            self.joined.extend_from_slice(slice);
        }
        slices.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn batches(lengths: &[usize]) -> Vec<Vec<usize>> {
        let source: Vec<u8> =
            (0..lengths.iter().copied().max().unwrap_or(0)).map(|i| (i * 31) as u8).collect();
        let slices: Vec<_> = lengths.iter().map(|&n| IoSlice::new(&source[..n])).collect();
        let (mut batches, mut wrote) = (Vec::new(), Vec::new());
        let bytes = Gather::default().each(&slices, |batch| {
            batches.push(batch.iter().map(|s| s.len()).collect());
            batch.iter().for_each(|s| wrote.extend_from_slice(s));
            Ok(())
        });
        let expected: Vec<u8> = slices.iter().flat_map(|s| s.to_vec()).collect();
        assert!(wrote == expected, "the bytes and their order stay");
        assert_eq!(bytes.unwrap(), expected.len());
        batches
    }

    #[test]
    fn short_slices_are_joined_and_long_ones_stay() {
        assert_eq!(batches(&[8, 5000, 8, 5000]), [[8, 5000, 8, 5000]]);
        assert_eq!(batches(&[8, 100, 0, 8, 100, 600, 0]), [vec![216, 600, 0]]);
        assert_eq!(batches(&[]), Vec::<Vec<usize>>::new());
        // Small packets in large writes, whatever they are made of.
        let small = batches(&[8, 100].repeat(10_000));
        assert!(small.iter().all(|b| b.len() == 1) && small[0][0] > 250 << 10, "{small:?}");
        assert_eq!(batches(&[1000; 1500]), [vec![1000; 1024], vec![1000; 476]]);
        assert_eq!(batches(&[8, 1000].repeat(600)).len(), 2);
    }

    proptest! {
        #[test]
        fn no_byte_is_lost(lengths in proptest::collection::vec(prop_oneof![0..600usize, Just(512), Just(2000)], 0..2500)) {
            batches(&lengths);
        }
    }
}
