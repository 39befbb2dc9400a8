//! Exceptions of the package, and conversion of other errors.

use crate::ending;
use pyo3::exceptions::{
    PyBlockingIOError, PyConnectionError, PyException, PyOSError, PyTimeoutError, PyValueError,
};
use pyo3::prelude::*;
use skyhaul::core::hint::{Hint, split};
use skyhaul::spead::send::SendError;
use std::io;
use std::path::Path;

pyo3::create_exception!(skyhaul._native, Empty, PyTimeoutError, "Nothing arrived within the timeout.");
pyo3::create_exception!(
    skyhaul._native,
    Stopped,
    PyException,
    "The stream has ended, and all of its heaps have been taken."
);
pyo3::create_exception!(skyhaul._native, Full, PyBlockingIOError, "The send queue is full.");
pyo3::create_exception!(
    skyhaul._native,
    Damaged,
    PyOSError,
    "A chunk of a recording is missing, damaged or unproven."
);
pyo3::create_exception!(skyhaul._native, Cancelled, PyOSError, "Cancelled before everything was sent.");

/// The exception for heaps that were not sent.
pub(crate) fn failed(error: SendError) -> PyErr {
    if matches!(error, SendError::Cancelled | SendError::Closed) {
        ending::linger();
    }
    match error {
        SendError::Full { .. } => Full::new_err(error.to_string()),
        SendError::Cancelled => Cancelled::new_err(error.to_string()),
        SendError::Io(error) => system(io::Error::new(error.kind(), error.to_string())),
        other => PyValueError::new_err(other.to_string()),
    }
}

/// The error of the system, with its number as `errno`.
pub(crate) fn system(error: io::Error) -> PyErr {
    let (number, text) = numbered(&error);
    match number {
        Some(number) => PyOSError::new_err((number, text)),
        None => error.into(),
    }
}

/// The error about a file, with its number as `errno` and the file as `filename`.
pub(crate) fn about_file(path: &Path, error: io::Error) -> PyErr {
    let (number, text) = numbered(&error);
    // The text need not name it twice.
    let begins = ["open ", "read disk ", ""].map(|verb| format!("{verb}{}: ", path.display()));
    let text = begins.iter().find_map(|begin| text.strip_prefix(begin)).unwrap_or(&text);
    match number {
        Some(number) => PyOSError::new_err((number, text.to_owned(), path.as_os_str().to_owned())),
        None => error.into(),
    }
}

/// The error of a connection, with the number of the system's error as `errno` if its text names one.
pub(crate) fn of_connection(text: String) -> PyErr {
    use rustix::io::Errno;
    // Of these numbers Python makes kinds of `ConnectionError` itself, of others it does not.
    let own =
        [Errno::CONNREFUSED, Errno::CONNRESET, Errno::CONNABORTED, Errno::PIPE].map(Errno::raw_os_error);
    match numbered(&io::Error::other(text)) {
        (Some(number), text) if own.contains(&number) => PyOSError::new_err((number, text)),
        (Some(number), text) => PyConnectionError::new_err((number, text)),
        (None, text) => PyConnectionError::new_err(text),
    }
}

/// The number of the system's error, also of one that was put into words since, and the words without it.
fn numbered(error: &io::Error) -> (Option<i32>, String) {
    let text = error.to_string();
    let said = text.split_once("(os error ").and_then(|(_, rest)| rest.split_once(')')?.0.parse().ok());
    let number = error.raw_os_error().or(said).or_else(|| number_of(error.kind()));
    let words = match (number, text.split_once(" (os error ")) {
        (Some(_), Some((before, after))) => {
            format!("{before}{}", after.split_once(')').map_or("", |(_, rest)| rest))
        }
        _ => text,
    };
    (number, words)
}

/// The error number that stands for a kind of error.
fn number_of(kind: io::ErrorKind) -> Option<i32> {
    use rustix::io::Errno;
    let number = match kind {
        io::ErrorKind::NotFound => Errno::NOENT,
        io::ErrorKind::PermissionDenied => Errno::ACCESS,
        io::ErrorKind::AlreadyExists => Errno::EXIST,
        io::ErrorKind::AddrInUse => Errno::ADDRINUSE,
        io::ErrorKind::AddrNotAvailable => Errno::ADDRNOTAVAIL,
        io::ErrorKind::ConnectionRefused => Errno::CONNREFUSED,
        io::ErrorKind::ConnectionReset => Errno::CONNRESET,
        io::ErrorKind::ConnectionAborted => Errno::CONNABORTED,
        io::ErrorKind::BrokenPipe => Errno::PIPE,
        io::ErrorKind::TimedOut => Errno::TIMEDOUT,
        io::ErrorKind::HostUnreachable => Errno::HOSTUNREACH,
        io::ErrorKind::NetworkUnreachable => Errno::NETUNREACH,
        io::ErrorKind::IsADirectory => Errno::ISDIR,
        io::ErrorKind::NotADirectory => Errno::NOTDIR,
        io::ErrorKind::StorageFull => Errno::NOSPC,
        _ => return None,
    };
    Some(number.raw_os_error())
}

/// A host's name cannot be looked up: as `socket` raises it.
pub(crate) fn unresolved(name: &str, error: &io::Error) -> PyErr {
    let text =
        format!("resolve {name}: {error}{}", Hint(format_args!("`getent hosts {name}` shows its address")));
    let raised = |py: Python<'_>| {
        let socket = py.import("socket")?;
        let number: i32 = socket.getattr("EAI_NONAME")?.extract()?;
        Ok(PyErr::from_value(socket.getattr("gaierror")?.call1((number, &text))?))
    };
    Python::attach(|py| raised(py).unwrap_or_else(|error: PyErr| error))
}

/// The error for a file descriptor that cannot be adopted; `what` is the expected kind.
pub(crate) fn not_adopted(fd: i32, what: &str, error: io::Error) -> io::Error {
    let text = error.to_string();
    if split(&text).1.next().is_some() {
        return error;
    }
    io::Error::new(
        error.kind(),
        format!("adopt descriptor {fd}: {text}{}", Hint(format_args!("pass socket.fileno() of {what}"))),
    )
}
