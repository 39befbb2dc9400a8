//! The end of the interpreter: all streams are stopped before it.
//!
//! ```text
//!   import ─ atexit.register(end_streams) … the program … ─▶ end_streams ─▶ the interpreter is taken apart ─▶ exit
//!                                                            └ readers stopped and joined, queues sent
//! ```
//!
//! CPython kills a thread that attaches to the interpreter during its finalisation, and with it the process. So:
//!
//! * Our threads never call Python or take its lock: completion of sends is signalled by a file descriptor
//!   ([`Wake`](crate::send::Wake)), and references to Python objects that a thread drops are released by pyo3 at the next
//!   call from Python.
//! * A reader may be in a function compiled by the user, which may attach to the interpreter (a ctypes callback). So
//!   `atexit`, which runs while everything still works, stops all streams and waits for their readers. No stream can be
//!   made afterwards.
//! * A daemon thread whose call fails because its stream was ended would print its traceback while the interpreter takes
//!   `stderr` apart, which aborts the process. Its call does not return before the process is gone ([`linger`]).
//! * A forked process has none of its parent's threads, and does not touch its streams ([`process`](crate::process)).

use crate::process::{Here, Process};
use crate::wait;
use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use skyhaul::core::hint::Hint;
use skyhaul::io::lock::lock;
use skyhaul::send::objects::{self, Object, ObjectConfig as _};
use std::sync::{Arc, Mutex, MutexGuard, Weak};
use std::thread::{self, ThreadId};
use std::time::Duration;

/// A stream of any kind.
pub(crate) trait Stream: Send + Sync {
    /// Deliver or send what is queued, and run no function of the user's afterwards.
    fn end(&self, py: Python<'_>);
}

/// Streams that are open.
struct Open {
    /// Each with the process of its threads.
    streams: Vec<(Process, Weak<dyn Stream>)>,
    /// Number of entries at which dropped streams are removed.
    look_at: usize,
    /// The thread that ended all streams. No more can be made.
    over: Option<ThreadId>,
}

/// Time for the rest of the program's end. A handler of `atexit` that joins a daemon thread waits no longer.
const LINGER: Duration = Duration::from_secs(3);

/// Locked briefly by threads that hold the GIL, so never during a fork.
static OPEN: Mutex<Open> = Mutex::new(Open { streams: Vec::new(), look_at: 64, over: None });

fn open() -> MutexGuard<'static, Open> {
    lock(&OPEN)
}

/// Register this stream to be ended with the interpreter.
fn watch(stream: &Arc<impl Stream + 'static>) -> PyResult<()> {
    let mut open = open();
    if open.over.is_some() {
        drop(open);
        linger();
        let text = format!(
            "open a stream: the interpreter is ending{}",
            Hint("open it earlier, not in an atexit handler")
        );
        return Err(PyRuntimeError::new_err(text));
    }
    if open.streams.len() >= open.look_at {
        open.streams.retain(|(_, stream)| stream.strong_count() > 0);
        open.look_at = 64.max(open.streams.len() * 2);
    }
    let stream: Arc<dyn Stream> = stream.clone();
    open.streams.push((Process::current(), Arc::downgrade(&stream)));
    Ok(())
}

/// Before an exception that tells of a stream's end: if the interpreter is ending on another thread, wait for the end of
/// the process.
///
/// Only daemon threads are left then: non-daemon threads were joined before `atexit`.
pub(crate) fn linger() {
    let over = open().over;
    if over.is_none_or(|ending| ending == thread::current().id()) {
        return;
    }
    let wait = || {
        thread::sleep(LINGER);
        // An interpreter that is being finalised would end the thread, and with it the process.
        while Python::try_attach(|_| ()).is_none() {
            thread::park();
        }
    };
    Python::try_attach(|py| py.detach(wait));
}

/// A stream with its own threads. Dropping it waits for them, while other Python threads run, and it ends before the
/// interpreter.
///
/// A forked process has a copy without the threads, which it cannot use and does not wait for.
pub(crate) struct Threaded<T: Stream + 'static>(Here<Arc<T>>);

impl<T: Stream> Threaded<T> {
    pub(crate) fn new(inner: T) -> PyResult<Self> {
        let inner = Arc::new(inner);
        watch(&inner)?;
        Ok(Self(Here::new("stream", inner)))
    }

    /// The stream; RuntimeError in a forked process.
    #[inline]
    pub(crate) fn get(&self) -> PyResult<&T> {
        self.0.get().map(|stream| &**stream)
    }

    /// Whether its threads belong to this process.
    pub(crate) fn is_here(&self) -> bool {
        self.0.is_here()
    }

    /// `None` if its threads belong to another process, or another thread is ending it.
    pub(crate) fn into_inner(mut self) -> Option<T> {
        self.0.take().and_then(Arc::into_inner)
    }
}

impl<T: Stream> Drop for Threaded<T> {
    /// Runs on a thread attached to the interpreter, because only Python objects hold one.
    fn drop(&mut self) {
        let Some(inner) = self.0.take() else { return };
        // Without an interpreter, the closure drops `inner` without a call.
        Python::try_attach(move |py| py.detach(move || drop(inner)));
    }
}

/// Ends all streams; called by `atexit`.
#[pyfunction]
pub(crate) fn end_streams(py: Python<'_>) {
    let streams = {
        let mut open = open();
        open.over = Some(thread::current().id());
        std::mem::take(&mut open.streams)
    };
    let here = Process::current();
    for stream in streams.into_iter().filter(|(process, _)| *process == here).filter_map(|(_, s)| s.upgrade())
    {
        stream.end(py);
        // This may be the last reference.
        py.detach(move || drop(stream));
    }
}

impl Stream for skyhaul::spead::receive::Stream {
    fn end(&self, py: Python<'_>) {
        py.detach(|| self.stop());
    }
}

impl<P: skyhaul::spead::receive::placed::Placing> Stream
    for skyhaul::spead::receive::placed::PlacedStream<P>
{
    fn end(&self, py: Python<'_>) {
        py.detach(|| self.stop());
    }
}

impl Stream for skyhaul::spead::receive::chunk::ChunkGroup {
    fn end(&self, py: Python<'_>) {
        py.detach(|| self.stop());
    }
}

impl Stream for skyhaul::spead::send::Stream {
    fn end(&self, py: Python<'_>) {
        end_of(self, py);
    }
}

impl Stream for skyhaul::send::events::EventSender {
    fn end(&self, py: Python<'_>) {
        end_of(&**self.stream(), py);
    }
}

/// Send what is queued on `stream`, within its linger time, or until Ctrl-C.
fn end_of<O: Object>(stream: &objects::Stream<O>, py: Python<'_>) {
    let step = |wait: Duration| stream.flush(Some(wait)).then_some(());
    if !matches!(wait::in_slices(py, Some(stream.config().waiting().linger), step), Ok(Some(()))) {
        py.detach(|| stream.cancel());
    }
}
