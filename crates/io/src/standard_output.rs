//! Whether this program was started with a standard output that takes results.
//!
//! ```text
//!   execve ─▶ initialisers: the state of descriptor 1 is recorded ─▶ runtime: closed descriptors become /dev/null ─▶ main
//! ```
//!
//! Before `main`, Rust's runtime opens `/dev/null` in place of a closed descriptor 1, and later it takes a write that the
//! kernel refuses because the descriptor is not open for writing as done. Either way all results would vanish, with exit
//! status 0. So an initialiser of the program records the state before the runtime changes it, and [`check`] judges it.
//!
//! Limits: the descriptor as it was at the start. Errors of later writes, such as a full disk, are those of the writes.

use skyhaul_core::hint::Hint;
use std::io;
use std::sync::atomic::{AtomicI32, Ordering};

/// The initialiser has not run: it is not linked into this program.
const UNKNOWN: libc::c_int = libc::c_int::MIN;

/// What `fcntl(1, F_GETFL)` returned at the start: flags, or -1 if the descriptor was closed.
static AT_START: AtomicI32 = AtomicI32::new(UNKNOWN);

/// Only an atomic and a system call: nothing of the runtime is ready yet.
extern "C" fn record() {
    // SAFETY: the call reads the flags of a descriptor and changes nothing.
    let flags = unsafe { libc::fcntl(libc::STDOUT_FILENO, libc::F_GETFL) };
    AT_START.store(flags, Ordering::Relaxed);
}

// SAFETY: the section is a table of C functions, which the loader calls once each before `main`; this is one of them.
#[used]
#[unsafe(link_section = ".init_array")]
static RECORD: extern "C" fn() = record;

/// Whether results can be written to standard output.
///
/// # Errors
/// This program was started with descriptor 1 closed, or not open for writing. The error says so, with a hint.
pub fn check() -> io::Result<()> {
    judge(AT_START.load(Ordering::Relaxed))
}

fn judge(flags: libc::c_int) -> io::Result<()> {
    let why = match flags {
        UNKNOWN => return Ok(()),
        -1 => "is closed",
        _ if flags & libc::O_ACCMODE == libc::O_RDONLY => "is not open for writing",
        _ => return Ok(()),
    };
    let hint = Hint("redirect it to a file, or discard results with `>/dev/null`");
    Err(io::Error::other(format!("standard output {why}: results would be lost{hint}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_state_is_recorded_before_main() {
        assert!(AT_START.load(Ordering::Relaxed) >= 0, "the standard output of a test is open");
        check().unwrap();
    }

    #[test]
    fn only_a_descriptor_that_is_open_for_writing_takes_results() {
        for taken in [libc::O_WRONLY, libc::O_RDWR, libc::O_WRONLY | libc::O_APPEND | libc::O_NONBLOCK] {
            judge(taken).unwrap();
        }
        let said = |flags| judge(flags).unwrap_err().to_string();
        assert!(said(-1).starts_with("standard output is closed: results would be lost; hint: "));
        for refused in [libc::O_RDONLY, libc::O_RDONLY | libc::O_APPEND, libc::O_PATH] {
            assert!(said(refused).starts_with("standard output is not open for writing"), "{refused:o}");
        }
    }
}
