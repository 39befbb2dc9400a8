//! Requests to end: SIGINT, SIGTERM and SIGHUP.
//!
//! ```text
//!   signal             0 s   0.3 s   1 s        4 s
//!   INT, TERM          ends    ─      │         ends immediately (exit status 1)
//!   HUP                ends    ─      │         ─
//!                      └── one request ──┘
//! ```
//!
//! Signals within [`ONE_REQUEST`] are one request: `timeout` signals the process and then its group, a shell and the kernel
//! both report a terminal that was closed, and a supervisor signals every process of a service. A later SIGINT or SIGTERM
//! ends the program immediately. A later SIGHUP does not: nobody asks for haste by closing a terminal.
//!
//! Limits: one set of handlers per process; a SIGHUP that was ignored at the start (`nohup`) stays ignored. A program that is
//! started by this one has the usual handlers.

use crate::lock::lock;
use std::io;
use std::mem::MaybeUninit;
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

/// Signals within this time are one request.
pub const ONE_REQUEST: Duration = Duration::from_secs(1);

/// Set by the first signal.
static ASKED: OnceLock<Arc<AtomicBool>> = OnceLock::new();
/// Set by the first SIGTERM or SIGHUP, which the programs that this one started have not necessarily received.
static TERMINATED: AtomicBool = AtomicBool::new(false);
/// When the first signal arrived, in nanoseconds of the monotonic clock; 0: none has.
static FIRST: AtomicI64 = AtomicI64::new(0);
/// Whether handlers are installed.
static INSTALLED: Mutex<bool> = Mutex::new(false);

/// Installs the handlers; returns the flag that the first signal sets. Every call returns the same flag.
///
/// # Errors
/// The system refuses a handler.
pub fn listen() -> io::Result<Arc<AtomicBool>> {
    let asked = ASKED.get_or_init(Arc::default);
    let mut installed = lock(&INSTALLED);
    if !*installed {
        for signal in [libc::SIGINT, libc::SIGTERM] {
            install(signal)?;
        }
        if !is_ignored(libc::SIGHUP)? {
            install(libc::SIGHUP)?;
        }
        *installed = true;
    }
    Ok(asked.clone())
}

/// Whether SIGTERM or SIGHUP arrived. Unlike Ctrl-C in a terminal, these may not reach the programs started by this
/// one.
#[must_use]
pub fn is_terminated() -> bool {
    TERMINATED.load(Ordering::Relaxed)
}

/// What a signal at `now` is, after a first one at `first` (0: this is the first).
fn is_urgent(signal: libc::c_int, first: i64, now: i64) -> bool {
    let window = i64::try_from(ONE_REQUEST.as_nanos()).unwrap_or(i64::MAX);
    signal != libc::SIGHUP && first != 0 && now.saturating_sub(first) >= window
}

/// Only atomics and calls that POSIX permits in a handler.
extern "C" fn handle(signal: libc::c_int) {
    let now = now();
    let first = match FIRST.compare_exchange(0, now, Ordering::Relaxed, Ordering::Relaxed) {
        Ok(_) => 0,
        Err(first) => first,
    };
    if is_urgent(signal, first, now) {
        // SAFETY: it ends the process, and is permitted in a handler.
        unsafe { libc::_exit(1) }
    }
    if signal != libc::SIGINT {
        TERMINATED.store(true, Ordering::Relaxed);
    }
    if let Some(asked) = ASKED.get() {
        asked.store(true, Ordering::Release);
    }
}

/// Nanoseconds of the monotonic clock, never 0.
fn now() -> i64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the call fills `time`, and is permitted in a handler.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut time) };
    (time.tv_sec * 1_000_000_000 + time.tv_nsec).max(1)
}

fn install(signal: libc::c_int) -> io::Result<()> {
    let mut action = MaybeUninit::<libc::sigaction>::zeroed();
    let place = action.as_mut_ptr();
    let handler = handle as extern "C" fn(libc::c_int);
    // SAFETY: zero is a valid value for all fields, and `place` points to them.
    let fields = unsafe { &mut *place };
    fields.sa_sigaction = handler as libc::sighandler_t;
    fields.sa_flags = libc::SA_RESTART;
    // SAFETY: the call fills the set of the structure.
    done(unsafe { libc::sigemptyset(&raw mut fields.sa_mask) })?;
    // SAFETY: the structure was filled above; the handler does only what is permitted in one.
    done(unsafe { libc::sigaction(signal, place, ptr::null_mut()) })
}

fn is_ignored(signal: libc::c_int) -> io::Result<bool> {
    let mut action = MaybeUninit::<libc::sigaction>::zeroed();
    // SAFETY: the call changes nothing, and fills `action`.
    done(unsafe { libc::sigaction(signal, ptr::null(), action.as_mut_ptr()) })?;
    // SAFETY: zero was valid, and the call succeeded.
    Ok(unsafe { action.assume_init() }.sa_sigaction == libc::SIG_IGN)
}

fn done(result: libc::c_int) -> io::Result<()> {
    if result == -1 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signals_within_a_second_are_one_request_and_a_hangup_never_ends_a_program_immediately() {
        let second = 1_000_000_000;
        for (signal, after, urgent) in [
            (libc::SIGTERM, 0, false),
            (libc::SIGTERM, second - 1, false),
            (libc::SIGTERM, second, true),
            (libc::SIGINT, second - 1, false),
            (libc::SIGINT, 5 * second, true),
            (libc::SIGHUP, 5 * second, false),
        ] {
            assert_eq!(is_urgent(signal, 7, 7 + after), urgent, "{signal} after {after} ns");
            assert!(!is_urgent(signal, 0, after), "the first signal, {signal}");
        }
    }

    #[test]
    fn every_listener_has_the_same_flag() {
        let (one, other) = (listen().unwrap(), listen().unwrap());
        assert!(Arc::ptr_eq(&one, &other) && !one.load(Ordering::Relaxed) && !is_terminated());
    }
}
