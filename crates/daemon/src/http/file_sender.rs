//! Ranges of files that the kernel sends on a connection without TLS, below the HTTP of it.
//!
//! ```text
//!   body:        first byte ──▶ as many as were sent ──▶ … ──▶ the rest, when all were      counted, and for hyper's own account
//!   hyper:       head, marks of as many bytes ──▶ FileStream
//!   FileStream:  head ──▶ socket;  a mark ──▶ none of its bytes: the file is sent in its place
//!   thread:      sendfile, sendfile, …                                                        as long as the client keeps up
//! ```
//!
//! hyper frames replies and knows no files. So a body gives it marks: slices of [`MARKS`] that are as long as what is sent in their place. The
//! stream below hyper knows them by their address, and lets pass what its thread has sent. Nothing of [`MARKS`] is ever written: the marks
//! that hyper passes on are those that the body gave, or the connection ends.
//!
//! A thread stays with a client that takes bytes without a pause, at most [`SLICE`] at a time; it leaves one that pauses to the runtime, so
//! that slow clients hold none. All of a body but its first byte is given after its bytes were sent: the account of a request that breaks is right, and
//! a file that became shorter ends its connection before its body is complete.

use crate::remote::outgoing::too_short;
use axum::body::Bytes;
use skyhaul::io::lock::lock;
use skyhaul::io::quantity::Size;
use skyhaul::io::tcp::info::TcpInfo;
use skyhaul::io::tcp::send_file::send_file_in_turn;
use skyhaul::io::tcp::setup::shut_down;
use skyhaul::io::tcp::tune::raise_send_buffer;
use skyhaul::io::wake::wait_for_room;
use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, LazyLock, Mutex, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};
use tokio::io::Interest;
use tokio::net::TcpStream;
use tokio::sync::{Semaphore, SemaphorePermit};
use tokio::task::spawn_blocking;

/// What marks are made of. Nobody reads it, so it takes no memory.
static MARKS: LazyLock<&'static [u8]> = LazyLock::new(|| vec![0; MARK_BYTES].leak());
/// Longest mark, bytes.
const MARK_BYTES: usize = 1 << 20;
/// Bytes of a call: a thread that waits for a disk is busy with as few.
const CALL_BYTES: u64 = 1 << 20;
/// Sent bytes that are said together.
const NOTED_BYTES: u64 = 4 << 20;
/// Time that a thread stays with a client.
const SLICE: Duration = Duration::from_millis(100);
/// How long a thread waits for a client that takes nothing, and how many may.
const PATIENCE: Duration = Duration::from_millis(10);
const MAX_PATIENT: usize = 32;
/// A client that takes its first bytes at this rate gets a larger buffer: so many bytes within this time.
const FAST_BYTES: u64 = 4 << 20;
const FAST_TIME: Duration = Duration::from_secs(1);
/// That buffer, bytes of data, and how many have one at a time.
const BUFFER_BYTES: u64 = 8 << 20;
const MAX_BUFFERED: usize = 64;

/// Threads that may wait for a client.
static PATIENT: Semaphore = Semaphore::const_new(MAX_PATIENT);
/// Connections that may have a larger buffer, each until it ends.
static BUFFERED: Semaphore = Semaphore::const_new(MAX_BUFFERED);

/// A mark of so many bytes, at most [`MARK_BYTES`].
fn mark(bytes: u64) -> Bytes {
    let bytes = usize::try_from(bytes).unwrap_or(MARK_BYTES).min(MARK_BYTES);
    Bytes::from_static(&MARKS[..bytes])
}

/// Whether these bytes are a mark.
pub(super) fn is_mark(bytes: &[u8]) -> bool {
    MARKS.as_ptr_range().contains(&bytes.as_ptr())
}

/// How long the account of a request whose client has left waits for the thread that sends to it, which may wait for a disk.
pub(crate) const SETTLE_TIMEOUT: Duration = Duration::from_secs(1);

/// What sends ranges of files on a connection.
#[derive(Debug, Default)]
pub(crate) struct FileSender {
    state: Mutex<State>,
    /// A thread has stopped.
    stopped: Condvar,
    /// The connection is over.
    is_over: AtomicBool,
}

#[derive(Debug, Default)]
struct State {
    /// The socket, by a descriptor that threads keep open; there is none before the first range.
    socket: Option<Arc<TcpStream>>,
    current: Option<Current>,
    waker: Option<Waker>,
    /// Whether it was seen how fast the client is.
    is_seen: bool,
    buffered: Option<SemaphorePermit<'static>>,
}

/// The range that is sent.
#[derive(Debug)]
struct Current {
    file: Arc<File>,
    /// What the socket has not taken.
    left: Range<u64>,
    sent: u64,
    /// Bytes of marks that the body has given, and that the stream has let pass.
    marked: u64,
    passed: u64,
    begun: Option<Instant>,
    step: Step,
}

#[derive(Debug)]
enum Step {
    /// What comes before it is not sent yet.
    Announced,
    /// A thread may begin or continue.
    Ready,
    /// A thread works.
    Working,
    /// The socket has no room.
    Full,
    /// Nothing more is sent.
    Failed(Option<io::Error>),
}

/// Why a thread stops.
enum Stop {
    /// All is sent, or others should have their turn.
    Slice,
    Full,
    Failed(io::Error),
}

impl State {
    fn wait(&mut self, context: &Context<'_>) {
        let waker = context.waker();
        if !self.waker.as_ref().is_some_and(|known| known.will_wake(waker)) {
            self.waker = Some(waker.clone());
        }
    }

    /// Notes bytes that the socket has taken.
    fn add(&mut self, bytes: u64) {
        let Some(current) = &mut self.current else { return };
        current.sent += bytes;
        current.left.start += bytes;
        if self.is_seen || current.sent < FAST_BYTES {
            return;
        }
        self.is_seen = true;
        let is_fast = current.begun.is_some_and(|begun| begun.elapsed() <= FAST_TIME);
        let Some(socket) = self.socket.as_ref().filter(|_| is_fast) else { return };
        self.buffered = BUFFERED.try_acquire().ok();
        if self.buffered.is_some() {
            raise_send_buffer(socket, Size::from_bytes(BUFFER_BYTES));
        }
    }
}

impl FileSender {
    /// Begins a range of a file, which is not empty, when the one before it is sent; the first byte of its marks.
    pub(crate) fn poll_begin(
        &self,
        context: &Context<'_>,
        file: &Arc<File>,
        range: &Range<u64>,
    ) -> Poll<Bytes> {
        let mut state = lock(&self.state);
        if state.current.is_some() {
            state.wait(context);
            return Poll::Pending;
        }
        let (file, left) = (Arc::clone(file), range.clone());
        let (sent, passed, begun, step) = (0, 0, None, Step::Announced);
        state.current = Some(Current { file, left, sent, marked: 1, passed, begun, step });
        Poll::Ready(mark(1))
    }

    /// Waits until all of the last range has passed.
    pub(crate) fn poll_free(&self, context: &Context<'_>) -> Poll<()> {
        let mut state = lock(&self.state);
        if state.current.is_none() {
            return Poll::Ready(());
        }
        state.wait(context);
        Poll::Pending
    }

    /// A mark for what was sent of the range and has none yet.
    pub(crate) fn poll_mark(self: &Arc<Self>, context: &mut Context<'_>) -> Poll<io::Result<Bytes>> {
        let mut state = lock(&self.state);
        let Some(current) = &mut state.current else {
            return Poll::Ready(Err(io::Error::other("no range of a file is sent")));
        };
        let new = current.sent - current.marked.min(current.sent);
        if new > 0 {
            let mark = mark(new);
            current.marked += mark.len() as u64;
            return Poll::Ready(Ok(mark));
        }
        if let Step::Failed(error) = &mut current.step {
            return Poll::Ready(Err(error.take().unwrap_or_else(|| io::ErrorKind::BrokenPipe.into())));
        }
        self.advance(&mut state, context);
        Poll::Pending
    }

    /// Lets a thread work if the socket has room; until something changes, the task of this context sleeps.
    fn advance(self: &Arc<Self>, state: &mut State, context: &mut Context<'_>) {
        state.wait(context);
        let State { socket: Some(socket), current: Some(current), .. } = state else { return };
        if matches!(current.step, Step::Full) {
            if !has_room(socket, context) {
                return;
            }
            current.step = Step::Ready;
        }
        if matches!(current.step, Step::Ready) {
            current.step = Step::Working;
            let (sender, socket) = (Arc::clone(self), Arc::clone(socket));
            let (file, left) = (Arc::clone(&current.file), current.left.clone());
            spawn_blocking(move || sender.work(&socket, &file, left));
        }
    }

    /// What the stream does with a mark that comes next: how many of its bytes may pass. `socket` is that of the stream.
    pub(super) fn poll_pass(
        self: &Arc<Self>,
        context: &mut Context<'_>,
        bytes: usize,
        socket: impl AsFd,
    ) -> Poll<io::Result<usize>> {
        let mut state = lock(&self.state);
        if matches!(&state.current, Some(current) if matches!(current.step, Step::Announced)) {
            if state.socket.is_none() {
                let own = socket.as_fd().try_clone_to_owned()?;
                state.socket = Some(Arc::new(TcpStream::from_std(own.into())?));
            }
            if let Some(current) = &mut state.current {
                (current.step, current.begun) = (Step::Ready, Some(Instant::now()));
            }
        }
        let Some(current) = &mut state.current else {
            return Poll::Ready(Err(io::Error::other("a mark of no file")));
        };
        let may = current.sent.saturating_sub(current.passed).min(bytes as u64);
        if may > 0 {
            current.passed += may;
            if current.left.is_empty() && current.passed == current.sent {
                state.current = None;
                state.waker.take().into_iter().for_each(Waker::wake);
            }
            return Poll::Ready(Ok(may as usize));
        }
        if matches!(current.step, Step::Failed(_)) {
            return Poll::Ready(Err(io::ErrorKind::BrokenPipe.into()));
        }
        self.advance(&mut state, context);
        Poll::Pending
    }

    /// Bytes that the client has acknowledged on this connection; `None` before the first range.
    pub(crate) fn acknowledged(&self) -> Option<u64> {
        let socket = lock(&self.state).socket.clone()?;
        TcpInfo::of(&*socket).ok().map(|info| info.bytes_acked)
    }

    /// Whether these are the marks that the body has given and that have not passed yet. Other bytes come before a range or behind it, never
    /// within.
    pub(super) fn check(&self, marks: u64, begins_with_mark: bool) -> io::Result<()> {
        let state = lock(&self.state);
        let given = state.current.as_ref().map_or(0, |current| current.marked - current.passed);
        let is_within =
            state.current.as_ref().is_some_and(|current| !matches!(current.step, Step::Announced));
        if given == marks && (begins_with_mark || !is_within) {
            return Ok(());
        }
        Err(io::Error::other("a bug in this program: marks of a file do not come as they were given"))
    }

    /// Ends the range that is sent, for a client that has left, and waits for a thread that works. Returns how many bytes the socket has taken for
    /// which no mark was given, and whether a thread still works.
    pub(crate) fn settle(&self, wait: Duration) -> (u64, bool) {
        let is_working =
            |state: &State| matches!(&state.current, Some(current) if matches!(current.step, Step::Working));
        let mut state = lock(&self.state);
        if is_working(&state) {
            self.is_over.store(true, Ordering::Relaxed);
            // It has failed if the client has closed it.
            if let Some(socket) = &state.socket {
                let _ = shut_down(socket);
            }
        }
        let end = Instant::now() + wait;
        while is_working(&state) {
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                break;
            }
            state = self.stopped.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0;
        }
        let bytes = state.current.as_ref().map_or(0, |current| current.sent.saturating_sub(current.marked));
        (bytes, is_working(&state))
    }

    /// Ends it with its connection. A thread that waits for a disk does not hold the connection up.
    pub(super) fn end(&self, socket: impl AsFd) {
        self.is_over.store(true, Ordering::Relaxed);
        let mut state = lock(&self.state);
        if matches!(&state.current, Some(current) if matches!(current.step, Step::Working)) {
            // It has failed if the client has closed it.
            let _ = shut_down(&socket);
        }
        (state.socket, state.buffered) = (None, None);
    }

    /// Sends what is left, as long as the client keeps up. A thread does that.
    fn work(&self, socket: &TcpStream, file: &File, mut left: Range<u64>) {
        let (begun, patience) = (Instant::now(), PATIENT.try_acquire().ok());
        let wait = if patience.is_some() { PATIENCE } else { Duration::ZERO };
        let mut unsaid = 0;
        let stop = loop {
            if left.is_empty() || self.is_over.load(Ordering::Relaxed) || begun.elapsed() >= SLICE {
                break Stop::Slice;
            }
            // Before a turn at the disk is asked for.
            if !wait_for_room(socket.as_fd(), wait).is_ok_and(|has| has) {
                break Stop::Full;
            }
            let most = (left.end - left.start).min(CALL_BYTES) as usize;
            match send_file_in_turn(socket, file, left.start, most) {
                Ok(0) => break Stop::Failed(too_short()),
                Ok(bytes) => {
                    left.start += bytes as u64;
                    unsaid += bytes as u64;
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break Stop::Full,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => break Stop::Failed(error),
            }
            // The end is noted with the last bytes: what is behind them belongs to the next range.
            if unsaid >= NOTED_BYTES && !left.is_empty() {
                self.note(std::mem::take(&mut unsaid), None);
            }
        };
        self.note(unsaid, Some(stop));
    }

    /// Notes what a thread has sent, and why it stops, if it does.
    fn note(&self, bytes: u64, stop: Option<Stop>) {
        let mut state = lock(&self.state);
        state.add(bytes);
        if let (Some(current), Some(stop)) = (&mut state.current, stop) {
            current.step = match stop {
                Stop::Slice => Step::Ready,
                Stop::Full => Step::Full,
                Stop::Failed(error) => Step::Failed(Some(error)),
            };
        }
        let waker = state.waker.take();
        drop(state);
        self.stopped.notify_all();
        waker.into_iter().for_each(Waker::wake);
    }
}

/// Whether the socket takes bytes, or an error of it waits; otherwise the task of this context is woken when it does.
fn has_room(socket: &TcpStream, context: &mut Context<'_>) -> bool {
    let look = || match wait_for_room(socket.as_fd(), Duration::ZERO)? {
        true => Ok(()),
        false => Err(io::ErrorKind::WouldBlock.into()),
    };
    while socket.poll_write_ready(context).is_ready() {
        let looked: io::Result<()> = socket.try_io(Interest::WRITABLE, look);
        if !looked.is_err_and(|error| error.kind() == io::ErrorKind::WouldBlock) {
            return true;
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_pass_only_as_they_were_given() {
        let sender = FileSender::default();
        let file = Arc::new(tempfile::tempfile().unwrap());
        let mut context = Context::from_waker(Waker::noop());
        assert!(sender.check(0, false).is_ok() && sender.check(1, true).is_err());
        let Poll::Ready(first) = sender.poll_begin(&context, &file, &(0..10)) else { panic!("it begins") };
        assert!(is_mark(&first) && first.len() == 1 && !is_mark(&[0; 1]));
        // The head comes with it; bytes without it would be a copy of it.
        assert!(sender.check(1, false).is_ok() && sender.check(1, true).is_ok());
        assert!(sender.check(0, false).is_err() && sender.check(2, false).is_err());
        assert!(sender.poll_begin(&context, &file, &(0..10)).is_pending());
        assert!(sender.poll_free(&context).is_pending());
        assert!(Arc::new(FileSender::default()).poll_mark(&mut context).is_ready());
        // Nothing else is written within a range.
        if let Some(current) = &mut lock(&sender.state).current {
            current.step = Step::Ready;
        }
        assert!(sender.check(1, true).is_ok() && sender.check(1, false).is_err());
    }
}
