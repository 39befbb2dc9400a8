//! The system calls of namespaces.

use std::io;

/// The result of a system call that gives 0 or -1.
pub(crate) fn done(result: libc::c_int) -> io::Result<()> {
    if result == -1 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// Leave the namespaces of these kinds for new ones.
pub(crate) fn leave(kinds: libc::c_int) -> io::Result<()> {
    // SAFETY: the call takes numbers, and changes what this thread sees of the system, not memory.
    done(unsafe { libc::unshare(kinds) })
}

/// Have the kernel end this process when the thread that started it ends.
pub(crate) fn die_with_parent() -> io::Result<()> {
    // SAFETY: this request takes a number, and touches no memory.
    done(unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) })
}

/// Mount, without data.
pub(crate) fn mount(
    what: &std::ffi::CStr,
    at: &std::ffi::CStr,
    kind: &std::ffi::CStr,
    flags: libc::c_ulong,
) -> io::Result<()> {
    // SAFETY: the three are strings that end, and the call may have no data.
    done(unsafe { libc::mount(what.as_ptr(), at.as_ptr(), kind.as_ptr(), flags, std::ptr::null()) })
}
