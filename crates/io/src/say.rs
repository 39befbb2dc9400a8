//! Text for users on standard error, which never causes a failure.
//!
//! ```
//! use skyhaul_io::say;
//! say!("listening on {}", "127.0.0.1:4000");
//! ```
//!
//! A terminal may be closed, a disk with a log may be full, a pipe may have no reader or a slow one: a program's work
//! must not depend on these. So errors are ignored, and if standard error accepts nothing for [`PATIENCE`], it is not
//! waited for again until it does. Control characters in names of files, packets and peers are escaped, so that they
//! cannot act as terminal commands.
//!
//! Limits: a text longer than the room of a pipe waits for its reader.

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::borrow::Cow;
use std::fmt::{self, Write as _};
use std::io::{self, Write as _};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// How long a full pipe or a stopped terminal is waited for.
pub const PATIENCE: Duration = Duration::from_secs(2);

/// Erases the line of a terminal.
const ERASE: &str = "\r\x1b[2K";

/// Whether a status line is on the terminal.
static STATUS: AtomicBool = AtomicBool::new(false);
/// The last text was not taken.
static STUCK: AtomicBool = AtomicBool::new(false);

/// Writes a line for people to standard error. Never fails, never panics.
#[macro_export]
macro_rules! say {
    ($($text:tt)*) => { $crate::say::line(::std::format_args!($($text)*)) };
}

/// Writes a line. See [`say!`](crate::say!).
pub fn line(text: fmt::Arguments<'_>) {
    write(&format!("{text}\n"));
}

/// Writes text that has its own line ends.
pub fn text(text: fmt::Arguments<'_>) {
    write(&text.to_string());
}

fn write(text: &str) {
    if !is_taking(if STUCK.load(Ordering::Relaxed) { Duration::ZERO } else { PATIENCE }) {
        STUCK.store(true, Ordering::Relaxed);
        return;
    }
    STUCK.store(false, Ordering::Relaxed);
    let erase = if STATUS.swap(false, Ordering::Relaxed) { ERASE } else { "" };
    // One call, so that lines of several threads and programs stay whole.
    put(&format!("{erase}{}", escaped(text)));
}

/// Draws `line` over the one before, on a terminal; leaves it out if the terminal takes nothing now.
pub fn status(line: &str) {
    if is_taking(Duration::ZERO) {
        STATUS.store(true, Ordering::Relaxed);
        put(&format!("{ERASE}{}", escaped_name(line)));
    }
}

/// Erases the line of [`status`].
pub fn clear_status() {
    if STATUS.swap(false, Ordering::Relaxed) && is_taking(Duration::ZERO) {
        put(ERASE);
    }
}

fn put(text: &str) {
    let mut err = io::stderr().lock();
    // An error here cannot be reported.
    let _ = err.write_all(text.as_bytes()).and_then(|()| err.flush());
}

/// Whether standard error accepts text, or refuses it immediately.
fn is_taking(wait: Duration) -> bool {
    let err = io::stderr();
    let mut ready = [PollFd::new(&err, PollFlags::OUT)];
    let wait = Timespec { tv_sec: wait.as_secs().cast_signed(), tv_nsec: wait.subsec_nanos().into() };
    !matches!(poll(&mut ready, Some(&wait)), Ok(0))
}

/// Whether a terminal may interpret a character: control characters, and those that change the direction of text.
fn is_control(c: char) -> bool {
    c.is_control() || matches!(c, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// `text` with control characters escaped, except line ends and tabs.
#[must_use]
pub fn escaped(text: &str) -> Cow<'_, str> {
    escape(text, |c| is_control(c) && c != '\n' && c != '\t')
}

/// A foreign `name` in a line: as [`escaped`], and line ends and tabs are escaped, too, so that it cannot forge a line.
#[must_use]
pub fn escaped_name(name: &str) -> Cow<'_, str> {
    escape(name, is_control)
}

fn escape(text: &str, which: impl Fn(char) -> bool) -> Cow<'_, str> {
    if !text.contains(&which) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len() + 8);
    for c in text.chars() {
        if which(c) {
            // Writing into a string does not fail.
            let _ = write!(out, "{}", c.escape_default());
        } else {
            out.push(c);
        }
    }
    Cow::Owned(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn controls_are_escaped_and_the_rest_stays() {
        assert_eq!(escaped("plain ✓ ångström\n\tµs"), "plain ✓ ångström\n\tµs");
        assert_eq!(escaped("a\x1b]0;title\x07b\rc\x7f"), "a\\u{1b}]0;title\\u{7}b\\rc\\u{7f}");
        assert_eq!(escaped("\u{9b}31m \u{202e}gpj"), "\\u{9b}31m \\u{202e}gpj");
        assert_eq!(escaped_name("scan\nhint: rm -rf\t."), "scan\\nhint: rm -rf\\t.");
        assert!(matches!(escaped("plain"), Cow::Borrowed("plain")));
    }
}
