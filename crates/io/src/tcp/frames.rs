//! Frames in both directions over any number of TCP connections, in one thread and without waiting for any of them.
//!
//! ```text
//!   connection  ▐ first ▐ frame ▐ frame ▐ fra┆me ▐     ─▶ FrameEvent::Frame, whole and in order
//!   write       frames, gathered ─▶ socket ─ has no room ─▶ kept, until it has: is_clear says so
//! ```
//!
//! [`TcpSource`](super::TcpSource) reads packets of senders who are not answered. Here each connection is answered, ended half by half, and
//! told apart by a number of its own: two peers may have one address, if they come to two addresses of this host.
//!
//! Limits: a frame must be whole within [`FrameOptions::patience`] of its first byte, and so must the first frame from the connection's
//! beginning on. Of the connections without a first frame, and of those that are being closed, at most [`FrameOptions::guests`] remain: the
//! oldest makes room. A peer that ends its half is written to until this half is [ended](TcpFrames::finish) too.

mod writing;

use super::Frame;
use super::bulk::{Take, receive};
use super::info::TcpInfo;
use super::port::{Connection, Got, Limits, READ, TcpPort, Visit, got};
use super::setup::{TcpSendOptions, connect_unless_stopped, connecting};
use super::tune::{congestion, largest_segment, set_receive_buffer, set_send_buffer};
use crate::address::Endpoint;
use crate::gathered::Gathered;
use std::io::{self, IoSlice, Read};
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};
pub use writing::FrameTally;
use writing::{Own, Put, Waiting, drop_waiting, end_half, note_taken, put};

/// Connections accepted before guests are counted again.
const MARGIN: usize = 64;
/// How long a connection that is being closed is read, so that the peer gets the last frames instead of a reset.
const LINGER: Duration = Duration::from_secs(1);

/// Finds where frames end: the first of a connection, or any other.
pub type FrameRule = fn(is_first: bool, head: &[u8]) -> Frame;

/// How to exchange frames.
#[derive(Clone, Copy, Debug)]
pub struct FrameOptions {
    /// Longest frame in bytes.
    pub longest_frame: usize,
    /// Maximum number of connections with a first frame.
    pub connections: usize,
    /// Maximum number of those without one, and of those being closed.
    pub guests: usize,
    /// Time for a frame to become whole.
    pub patience: Duration,
    /// Time after which a silent connection is probed by the kernel; it is given up after twice as long, also if the peer's window
    /// stays closed.
    pub keepalive: Duration,
}

/// What comes of a connection.
#[derive(Debug)]
pub enum FrameEvent<'a> {
    /// It was accepted, from this address.
    Opened(SocketAddr),
    /// A frame.
    Frame(&'a [u8]),
    /// What is no frame. Nothing more of the connection is read.
    Garbage(&'a [u8]),
    /// The peer has ended its half after its first frame: nothing more comes, and what it is sent may still be read by it. The connection ends
    /// when this half is [ended](TcpFrames::finish) too.
    Finished {
        /// The beginning of a frame.
        rest: &'a [u8],
    },
    /// The connection has ended; its number means nothing from now on.
    Ended {
        /// The beginning of a frame.
        rest: &'a [u8],
        /// Why, if not by the peer's close: `TimedOut` for a frame that was not whole in time too.
        error: Option<io::Error>,
    },
}

/// A port, or one connection to a peer, over which frames are exchanged.
pub struct TcpFrames {
    port: TcpPort<Own>,
    at: Endpoint,
    rule: FrameRule,
    options: FrameOptions,
    scratch: Box<[u8]>,
    tallies: [FrameTally; 2],
}

/// Readable while a connection has something, or room again for what waits to be written.
impl AsFd for TcpFrames {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.port.descriptor()
    }
}

impl TcpFrames {
    /// Listen.
    ///
    /// # Errors
    /// A system call failed: the error names the operation and the address, and has a hint.
    pub fn listen(at: &Endpoint, rule: FrameRule, options: &FrameOptions) -> io::Result<Self> {
        Ok(Self::of(TcpPort::open(at)?, at, rule, options))
    }

    /// Connect to a peer within `patience`, unless `is_stopped` says that it is not wanted any more; the number of the connection is 0.
    ///
    /// # Errors
    /// A system call failed, or it was stopped (`Interrupted`): the error names the operation and the address, and has a hint.
    pub fn connect(
        at: &Endpoint,
        rule: FrameRule,
        options: &FrameOptions,
        patience: Duration,
        is_stopped: &dyn Fn() -> bool,
    ) -> io::Result<Self> {
        let socket = connecting(at, &TcpSendOptions { patience, ..TcpSendOptions::default() })?;
        if let Some(size) = at.rcvbuf {
            set_receive_buffer(&socket, size);
        }
        connect_unless_stopped(&socket, at.address, patience, is_stopped).map_err(at.failing("connect"))?;
        let frames = Self::of(TcpPort::from_fd(OwnedFd::from(socket))?, at, rule, options);
        if frames.port.connections.is_empty() {
            return Err(at.failed("connect", &io::ErrorKind::ConnectionReset.into()));
        }
        Ok(frames)
    }

    fn of(port: TcpPort, at: &Endpoint, rule: FrameRule, options: &FrameOptions) -> Self {
        let FrameOptions { longest_frame, connections, guests, patience, keepalive } = *options;
        let connections = connections.saturating_add(guests).saturating_add(MARGIN);
        let limits = Limits { connections, gives_way: false, accept: None, keepalive };
        Self {
            port: port.read_by(limits, || Own::new(patience)),
            at: at.clone(),
            rule,
            options: *options,
            scratch: vec![0; READ + longest_frame].into_boxed_slice(),
            tallies: [FrameTally::default(); 2],
        }
    }

    /// Where it listens, or the local end of its connection.
    #[must_use]
    pub fn local(&self) -> SocketAddr {
        self.port.local()
    }

    /// Address and connections in one line.
    #[must_use]
    pub fn describe(&self) -> String {
        self.port.describe()
    }

    /// The congestion control of a connection; none if it has ended.
    #[must_use]
    pub fn congestion(&self, mark: u64) -> Option<String> {
        congestion(&self.port.connections.get(&mark)?.stream).ok()
    }

    /// Bytes of the largest segment that a connection sends at present.
    #[must_use]
    pub fn largest_segment(&self, mark: u64) -> Option<u32> {
        largest_segment(&self.port.connections.get(&mark)?.stream).ok()
    }

    /// What the kernel knows of a connection, and the bytes that wait here for it to take them.
    #[must_use]
    pub fn info(&self, mark: u64) -> Option<(TcpInfo, usize)> {
        let connection = self.port.connections.get(&mark)?;
        let own = &connection.own;
        Some((TcpInfo::of(&connection.stream).ok()?, own.out.len() - own.taken))
    }

    /// Frames written so far, by the tally that was named for them.
    #[must_use]
    pub fn tallies(&self) -> [FrameTally; 2] {
        self.tallies
    }

    /// Whether all that was written to a connection so far was taken by the kernel. One that is not should be written to later.
    #[must_use]
    pub fn is_clear(&self, mark: u64) -> bool {
        self.port.connections.get(&mark).is_none_or(|connection| connection.own.waiting.is_empty())
    }

    /// Write frames to a connection, counted in this tally (0 or 1). It never waits; what the kernel does not take is copied, and written when
    /// it does. Frames for a connection that has ended, or whose end of writing was [asked for](Self::finish), are counted as not sent.
    ///
    /// # Panics
    /// There is no such tally.
    pub fn write(&mut self, mark: u64, tally: usize, frames: Gathered<'_>) {
        let count = &mut self.tallies[tally];
        let connection = self.port.connections.get_mut(&mark);
        let Some(connection) =
            connection.filter(|connection| !connection.own.is_finishing && connection.own.cut.is_none())
        else {
            count.unsent += frames.count() as u64;
            return;
        };
        let mut slices: Vec<IoSlice<'_>> = frames.slices().to_vec();
        let mut rest = &mut slices[..];
        let mut taken = 0;
        while connection.own.waiting.is_empty() && !rest.is_empty() {
            match put(&connection.stream, rest) {
                Put::Taken(bytes) => {
                    taken += bytes;
                    IoSlice::advance_slices(&mut rest, bytes);
                }
                Put::Nothing => break,
                Put::Failed(why) => {
                    connection.own.cut = Some(why);
                    break;
                }
            }
        }
        rest.iter().for_each(|slice| connection.own.out.extend_from_slice(slice));
        for n in 0..frames.count() {
            let bytes = frames.length(n);
            let of_it = taken.min(bytes);
            taken -= of_it;
            if of_it == bytes {
                (count.frames, count.bytes) = (count.frames + 1, count.bytes + bytes as u64);
            } else {
                count.held += 1;
                connection.own.waiting.push_back(Waiting { tally, bytes, left: bytes - of_it });
            }
        }
        if connection.own.cut.is_some() {
            drop_waiting(&mut connection.own, &mut self.tallies);
        }
        self.watch(mark);
    }

    /// Write what waits, to all connections that have room.
    pub fn flush(&mut self) {
        let marks = self.port.connections.iter().filter(|(_, one)| !one.own.waiting.is_empty());
        for mark in marks.map(|(mark, _)| *mark).collect::<Vec<_>>() {
            self.flush_one(mark);
        }
    }

    fn flush_one(&mut self, mark: u64) {
        let Some(connection) = self.port.connections.get_mut(&mark) else { return };
        let own = &mut connection.own;
        while !own.waiting.is_empty() {
            match put(&connection.stream, &[IoSlice::new(&own.out[own.taken..])]) {
                Put::Taken(bytes) => {
                    own.taken += bytes;
                    note_taken(own, bytes, &mut self.tallies);
                }
                Put::Nothing => break,
                Put::Failed(why) => {
                    own.cut = Some(why);
                    drop_waiting(own, &mut self.tallies);
                }
            }
        }
        if own.waiting.is_empty() {
            // A connection that was slow once does not keep the memory.
            (own.out, own.taken) = (Vec::new(), 0);
        }
        end_half(&connection.stream, &mut connection.own);
        self.watch(mark);
    }

    /// Have the kernel report room for a connection that waits for it.
    fn watch(&mut self, mark: u64) {
        let Some(Connection { own, .. }) = self.port.connections.get_mut(&mark) else { return };
        let (reads, waits) = (own.is_read(), !own.waiting.is_empty());
        if std::mem::replace(&mut own.is_watched, waits) != waits {
            // It only fails for a connection that has ended, which is reported as such.
            let _ = self.port.watch_for(mark, reads, waits);
        }
    }

    /// Read nothing more of a connection for now, so that TCP slows its peer; or read it again. Meanwhile it does not end either.
    pub fn pause(&mut self, mark: u64, is_paused: bool) {
        let Some(Connection { own, .. }) = self.port.connections.get_mut(&mark) else { return };
        if std::mem::replace(&mut own.is_paused, is_paused) == is_paused {
            return;
        }
        // The time of a frame that has begun runs while it is read.
        let is_due = !is_paused && !own.begun.is_empty();
        own.due = is_due.then(|| Instant::now() + self.options.patience);
        let (reads, writes) = (own.is_read(), own.is_watched);
        // It only fails for a connection that has ended, which is reported as such.
        let _ = self.port.watch_for(mark, reads, writes);
    }

    /// Nothing more is written to a connection: its half is ended when what waits is written. It is still read.
    pub fn finish(&mut self, mark: u64) {
        if let Some(connection) = self.port.connections.get_mut(&mark) {
            connection.own.is_finishing = true;
            end_half(&connection.stream, &mut connection.own);
        }
    }

    /// Close a connection when what waits is written and the peer has ended its half, or after a second. What arrives is dropped, and
    /// its [`FrameEvent::Ended`] says nothing of it.
    pub fn leave(&mut self, mark: u64) {
        self.pause(mark, false);
        self.finish(mark);
        if let Some(connection) = self.port.connections.get_mut(&mark) {
            let own = &mut connection.own;
            own.closes.get_or_insert_with(|| Instant::now() + LINGER);
            (own.is_deaf, own.due, own.begun) = (true, None, Vec::new());
        }
    }

    /// Pass on what has arrived, waiting at most about `wait` for the first; `each` gets the number of the connection, and returns
    /// whether more of it is to be read. Returns the number of frames.
    ///
    /// # Errors
    /// The port fails. Errors of a connection are its end.
    pub fn poll(
        &mut self,
        wait: Duration,
        each: &mut dyn FnMut(u64, FrameEvent<'_>) -> bool,
    ) -> io::Result<usize> {
        let mut frames = 0;
        for mark in self.port.ready(wait)? {
            match mark {
                Some(mark) => {
                    self.flush_one(mark);
                    let connection = self.port.connections.get(&mark);
                    if connection.is_none_or(|connection| !connection.own.is_paused) {
                        frames += self.read(mark, each)?;
                    }
                }
                None => self.accept(each)?,
            }
        }
        self.end_overdue(each)?;
        Ok(frames)
    }

    fn accept(&mut self, each: &mut dyn FnMut(u64, FrameEvent<'_>) -> bool) -> io::Result<()> {
        let (mut opened, patience) = (Vec::new(), self.options.patience);
        self.port.accept(
            || Own::new(patience),
            |visit| {
                if let Visit::Opened(mark, peer) = visit {
                    opened.push((mark, peer));
                }
            },
        )?;
        for (mark, peer) in opened {
            let Some(connection) = self.port.connections.get(&mark) else { continue };
            // Frames are written whole. One that refuses has ended.
            let _ = connection.stream.set_nodelay(true);
            if let Some(size) = self.at.sndbuf {
                set_send_buffer(&connection.stream, size);
            }
            if !each(mark, FrameEvent::Opened(peer)) {
                self.leave(mark);
            }
        }
        loop {
            let guests = self.port.connections.iter().filter(|(_, one)| one.own.is_guest());
            let mut guests = guests.map(|(mark, _)| *mark);
            let (Some(oldest), others) = (guests.next(), guests.count()) else { return Ok(()) };
            if others < self.options.guests {
                return Ok(());
            }
            self.end(oldest, Some(io::ErrorKind::ConnectionAborted.into()), each)?;
        }
    }

    fn end_overdue(&mut self, each: &mut dyn FnMut(u64, FrameEvent<'_>) -> bool) -> io::Result<()> {
        let now = Instant::now();
        let is_over =
            |own: &Own| own.due.is_some_and(|at| at <= now) || own.closes.is_some_and(|at| at <= now);
        let over = self.port.connections.iter().filter(|(_, one)| is_over(&one.own));
        for mark in over.map(|(mark, _)| *mark).collect::<Vec<_>>() {
            self.end(mark, Some(io::ErrorKind::TimedOut.into()), each)?;
        }
        Ok(())
    }

    fn end(
        &mut self,
        mark: u64,
        error: Option<io::Error>,
        each: &mut dyn FnMut(u64, FrameEvent<'_>) -> bool,
    ) -> io::Result<()> {
        if let Some(connection) = self.port.connections.get_mut(&mark) {
            drop_waiting(&mut connection.own, &mut self.tallies);
            each(mark, FrameEvent::Ended { rest: &connection.own.begun, error });
        }
        self.port.end(mark)
    }

    /// The peer has ended its half, and this one has not.
    fn note_finished(&mut self, mark: u64, each: &mut dyn FnMut(u64, FrameEvent<'_>) -> bool) {
        let Some(Connection { own, .. }) = self.port.connections.get_mut(&mark) else { return };
        let rest = std::mem::take(&mut own.begun);
        own.due = None;
        if std::mem::replace(&mut own.has_peer_finished, true) {
            return;
        }
        if !own.is_deaf {
            each(mark, FrameEvent::Finished { rest: &rest });
        }
        // Its end would be reported again and again.
        let writes = own.is_watched;
        let _ = self.port.watch_for(mark, false, writes);
    }

    /// One read of one connection.
    fn read(&mut self, mark: u64, each: &mut dyn FnMut(u64, FrameEvent<'_>) -> bool) -> io::Result<usize> {
        let Some(connection) = self.port.connections.get_mut(&mark) else { return Ok(0) };
        let begun = connection.own.begun.len();
        let room = &mut self.scratch[begun..begun + READ];
        let read = match connection.own.is_deaf {
            true => receive(&connection.stream, room, Take::Drop),
            false => connection.stream.read(room),
        };
        let length = match got(read) {
            Got::Nothing => return Ok(0),
            Got::Bytes(_) if connection.own.is_deaf => return Ok(0),
            Got::Bytes(length) => length,
            Got::End(None) if connection.own.may_be_answered() => {
                self.note_finished(mark, each);
                return Ok(0);
            }
            Got::End(error) => {
                let error = error.or(connection.own.cut.map(io::Error::from));
                return self.end(mark, error, each).map(|()| 0);
            }
        };
        connection.brought(length);
        self.scratch[..begun].copy_from_slice(&connection.own.begun);
        let bytes = &self.scratch[..begun + length];
        let (mut at, mut frames, mut goes_on) = (0, 0, true);
        while goes_on && at < bytes.len() {
            match (self.rule)(!connection.own.has_first, &bytes[at..]) {
                Frame::Packet(frame) if (1..=self.options.longest_frame).contains(&frame) => {
                    let Some(frame) = bytes.get(at..at + frame) else { break };
                    connection.own.has_first = true;
                    goes_on = each(mark, FrameEvent::Frame(frame));
                    (at, frames) = (at + frame.len(), frames + 1);
                }
                Frame::Incomplete => break,
                Frame::Packet(_) | Frame::Garbage => {
                    each(mark, FrameEvent::Garbage(&bytes[at..]));
                    goes_on = false;
                }
            }
        }
        let own = &mut connection.own;
        own.begun.clear();
        if goes_on {
            own.begun.extend_from_slice(&bytes[at..]);
            // The time of a frame runs from its first byte on, however many follow singly.
            if at > 0 || own.begun.is_empty() || own.due.is_none() {
                let patience = self.options.patience;
                own.due = (!own.begun.is_empty()).then(|| Instant::now() + patience);
            }
        } else {
            (own.is_deaf, own.due) = (true, None);
        }
        Ok(frames)
    }
}

#[cfg(test)]
mod tests;
