//! The end of the interpreter, which no thread of ours may meet.
//!
//! ```text
//!   import ─ atexit.register(end_streams) … the program … ─▶ end_streams ─▶ the interpreter is taken apart ─▶ exit
//!                                                            └ readers stopped and joined, queues sent
//! ```
//!
//! A thread that wants the interpreter while it is taken apart is killed in the middle by CPython, and with it the process.
//! So:
//!
//! * No thread of ours calls Python or takes its lock, ever: what was sent is told by a descriptor
//!   ([`Wake`](crate::send::Wake)), and what a thread drops of Python's is left to pyo3, which gives it back at the next
//!   call from Python.
//! * A reader may be in a function that the user compiled, which may want the interpreter all the same (a callback of
//!   ctypes). So `atexit`, which runs while everything still works, stops all streams and waits for their readers. None
//!   can be made afterwards.
//! * A forked process has none of its parent's threads, and leaves its streams alone ([`process`](crate::process)).

use crate::process::{Here, Process};
use crate::wait;
use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

/// A stream of any kind.
pub(crate) trait Stream: Send + Sync {
    /// Hand on or send what there is, and let no thread run any function of the user's afterwards.
    fn end(&self, py: Python<'_>);
}

/// Streams that are open.
struct Open {
    /// With the process that has their threads.
    streams: Vec<(Process, Weak<dyn Stream>)>,
    /// With so many of them, those that are gone are forgotten.
    look_at: usize,
    /// None may be made any more.
    over: bool,
}

/// Locked by threads that have the interpreter's lock, for a moment: so never while the process is forked.
static OPEN: Mutex<Open> = Mutex::new(Open { streams: Vec::new(), look_at: 64, over: false });

fn open() -> MutexGuard<'static, Open> {
    OPEN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// End this stream, too, when the interpreter ends.
fn watch(stream: &Arc<impl Stream + 'static>) -> PyResult<()> {
    let mut open = open();
    if open.over {
        let text =
            "open a stream: the interpreter is ending; hint: open it before, or not in an atexit handler";
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

/// A stream: something with threads of its own, for which whoever drops it waits while other threads run, and which
/// ends before the interpreter does.
///
/// A forked process has a copy of it without the threads, which it cannot use, and for which it does not wait.
pub(crate) struct Threaded<T: Stream + 'static>(Here<Arc<T>>);

impl<T: Stream> Threaded<T> {
    pub(crate) fn new(inner: T) -> PyResult<Self> {
        let inner = Arc::new(inner);
        watch(&inner)?;
        Ok(Self(Here::new("stream", inner)))
    }

    /// The stream; an error in a forked process.
    #[inline]
    pub(crate) fn get(&self) -> PyResult<&T> {
        self.0.get().map(|stream| &**stream)
    }

    /// Whether its threads are of this process.
    pub(crate) fn is_here(&self) -> bool {
        self.0.is_here()
    }

    /// Nothing where its threads are of another process, or somebody else is just ending it.
    pub(crate) fn into_inner(mut self) -> Option<T> {
        self.0.take().and_then(Arc::into_inner)
    }
}

impl<T: Stream> Drop for Threaded<T> {
    /// By a thread that has the interpreter: only objects of Python's hold one.
    fn drop(&mut self) {
        let Some(inner) = self.0.take() else { return };
        // Without an interpreter the closure drops `inner` unused.
        Python::try_attach(move |py| py.detach(move || drop(inner)));
    }
}

/// Ends all streams; `atexit` calls it.
#[pyfunction]
pub(crate) fn end_streams(py: Python<'_>) {
    let streams = {
        let mut open = open();
        open.over = true;
        std::mem::take(&mut open.streams)
    };
    let here = Process::current();
    for stream in streams.into_iter().filter(|(process, _)| *process == here).filter_map(|(_, s)| s.upgrade())
    {
        stream.end(py);
        // It may be the last hold on it.
        py.detach(move || drop(stream));
    }
}

impl Stream for skyhaul::spead::receive::Stream {
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
    /// What is queued is sent, for as long as the stream lingers, or until Ctrl-C.
    fn end(&self, py: Python<'_>) {
        let step = |wait: Duration| self.flush(Some(wait)).then_some(());
        if !matches!(wait::in_slices(py, Some(self.config().linger), step), Ok(Some(()))) {
            py.detach(|| self.cancel());
        }
    }
}
