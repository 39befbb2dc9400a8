//! Standard output: data and reports for programs, pages for people.
//!
//! What is asked for there is the result, so that it cannot be written is an error: a full disk is never exit status 0. Only
//! a reader that has closed its end of a pipe has had what it wanted (`skyhaul cat … | head`): data end there without an error,
//! and of a report the exit status remains. A standard output that was closed at the start is refused in `main`.

use anyhow::Result;
use skyhaul::io::lock::lock;
use skyhaul::io::say::{clear_status, escaped};
use std::io::{self, ErrorKind, Write};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

/// The reader of standard output has closed it.
static CLOSED: AtomicBool = AtomicBool::new(false);

/// Whether the reader of standard output has closed it: an error of a broken pipe may be that.
pub(crate) fn is_closed() -> bool {
    CLOSED.load(Ordering::Relaxed)
}

/// Standard output as it is, for data.
#[derive(Debug)]
pub(crate) struct Output(io::Stdout);

/// Standard output, for data.
pub(crate) fn output() -> Output {
    Output(io::stdout())
}

impl Output {
    fn checked<T>(done: io::Result<T>) -> io::Result<T> {
        done.map_err(|error| {
            if error.kind() == ErrorKind::BrokenPipe {
                CLOSED.store(true, Ordering::Relaxed);
                return error;
            }
            io::Error::new(error.kind(), format!("write to standard output: {error}"))
        })
    }
}

impl Write for Output {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        Self::checked(self.0.write(bytes))
    }

    fn flush(&mut self) -> io::Result<()> {
        Self::checked(self.0.flush())
    }
}

/// Print what is the result of a verb, whole; if nobody reads it, the exit status still says how it went.
fn whole(text: &[u8]) -> Result<()> {
    let mut out = output();
    unless_closed(out.write_all(text).and_then(|()| out.flush()))
}

/// A result that its reader has closed is no error.
fn unless_closed(done: io::Result<()>) -> Result<()> {
    match done {
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(()),
        done => Ok(done?),
    }
}

/// Print the help or the version that was asked for, in clap's colours.
pub(crate) fn help(text: &clap::Error) -> Result<()> {
    unless_closed(Output::checked(text.print()))?;
    whole(&[])
}

/// Print a page for people: what names in it contain does nothing to a terminal.
pub(crate) fn page(text: &str) -> Result<()> {
    whole(escaped(text).as_bytes())
}

/// Print a report as JSON.
pub(crate) fn json(report: &impl serde::Serialize) -> Result<()> {
    let mut text = serde_json::to_vec_pretty(report)?;
    text.push(b'\n');
    whole(&text)
}

/// The first error while printing results; reported at the end.
static FAILED: Mutex<Option<anyhow::Error>> = Mutex::new(None);

/// Print a part of a result for people: a line of a table, while more is measured. The line of progress makes room for it.
pub(crate) fn tell(text: &str) {
    clear_status();
    if let Err(error) = page(text) {
        lock(&FAILED).get_or_insert(error);
    }
}

/// What is still in a buffer is written before the end, where an error is still heard.
pub(crate) fn finish() -> Result<()> {
    if let Some(error) = lock(&FAILED).take() {
        return Err(error);
    }
    whole(&[])
}
