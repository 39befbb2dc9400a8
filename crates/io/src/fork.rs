//! Functions that the system library calls inside `fork`.
//!
//! ```text
//!   os.fork()   hooks of the interpreter ─▶ fork(2): before ─┬─ parent: stayed  ─▶ hooks of the interpreter
//!                                                            └─ child:  entered ─▶ hooks of the interpreter
//! ```
//!
//! No code of the interpreter runs between `before` and the other functions. So they may hold locks; otherwise a hook
//! of another module, or a thread for which such a hook waits, could wait for these locks for ever.
//!
//! Limits: once for each process. Handlers that other libraries registered earlier run inside, too.

use std::io;
use std::sync::OnceLock;

/// The functions. They must not panic, and must not fork.
#[derive(Clone, Copy, Debug)]
pub struct AtFork {
    /// Before the fork, on the thread that forks.
    pub before: fn(),
    /// After it, on the same thread of the old process.
    pub stayed: fn(),
    /// After it, on the only thread of the new process.
    pub entered: fn(),
}

static REGISTERED: OnceLock<AtFork> = OnceLock::new();

extern "C" fn before() {
    REGISTERED.get().inspect(|at| (at.before)());
}

extern "C" fn stayed() {
    REGISTERED.get().inspect(|at| (at.stayed)());
}

extern "C" fn entered() {
    REGISTERED.get().inspect(|at| (at.entered)());
}

/// Registers these functions for every fork.
///
/// # Errors
/// Other functions are already registered, or there is no memory for them.
pub fn at_fork(functions: AtFork) -> io::Result<()> {
    REGISTERED.set(functions).map_err(|_| io::Error::from(io::ErrorKind::AlreadyExists))?;
    // SAFETY: the three are functions of this program, which are never unloaded, and what they call is set.
    match unsafe { libc::pthread_atfork(Some(before), Some(stayed), Some(entered)) } {
        0 => Ok(()),
        error => Err(io::Error::from_raw_os_error(error)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicU32, Ordering};

    static CALLS: AtomicU32 = AtomicU32::new(0);

    #[test]
    fn each_process_gets_its_own_calls() {
        let before = || {
            CALLS.fetch_add(1, Ordering::Relaxed);
        };
        let stayed = || {
            CALLS.fetch_add(10, Ordering::Relaxed);
        };
        let entered = || {
            CALLS.fetch_add(100, Ordering::Relaxed);
        };
        at_fork(AtFork { before, stayed, entered }).unwrap();
        assert!(at_fork(AtFork { before, stayed, entered }).is_err(), "twice");
        // SAFETY: the child makes no call but this one, which ends it.
        let child = unsafe { libc::fork() };
        if child == 0 {
            // SAFETY: it ends the process without running anything else.
            unsafe { libc::_exit(CALLS.load(Ordering::Relaxed) as i32) };
        }
        let mut status = 0;
        // SAFETY: `status` is a place for one integer.
        assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
        assert_eq!((libc::WEXITSTATUS(status), CALLS.load(Ordering::Relaxed)), (101, 11));
    }
}
