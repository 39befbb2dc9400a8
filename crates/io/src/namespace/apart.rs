//! A process in separate namespaces.

use super::call::{die_with_parent, done, leave, mount};
use std::{ffi::CStr, fs, io, mem, os::fd::OwnedFd, ptr};

/// Which of two processes this one is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Apart {
    /// The new process: process 1 of its namespaces, and the ancestor of all processes in them.
    Inside,
    /// The original process: the new one has ended with this status.
    Ended(i32),
}

/// Continues as a new process in its own mount and process namespaces, and in a user namespace if needed. Inside,
/// `hosts` is added to `/etc/hosts`, and `/proc` shows the processes inside. Outside, signals are passed on until it
/// has ended.
///
/// If either process dies, the other dies too, together with all processes that it started.
///
/// # Errors
/// The process has more than one thread, or the system forbids namespaces.
pub fn apart(hosts: &str) -> io::Result<Apart> {
    if fs::read_dir("/proc/self/task")?.count() != 1 {
        return Err(io::Error::other("only a process with one thread can be put apart"));
    }
    separate()?;
    let (alive, held) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC)?;
    // SAFETY: this process has one thread, so the new one finds every lock free.
    match unsafe { libc::fork() } {
        -1 => Err(io::Error::last_os_error()),
        0 => {
            drop(held);
            settle(&alive, hosts)?;
            Ok(Apart::Inside)
        }
        child => {
            let ended = wait(child);
            drop(held);
            ended.map(Apart::Ended)
        }
    }
}

/// Namespaces for the processes that this one starts.
fn separate() -> io::Result<()> {
    let kinds = libc::CLONE_NEWNS | libc::CLONE_NEWPID;
    match leave(kinds) {
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {}
        other => return other,
    }
    let (user, group) = (rustix::process::getuid().as_raw(), rustix::process::getgid().as_raw());
    leave(kinds | libc::CLONE_NEWUSER).map_err(|error| {
        let hint = "hint: run as root, or permit user namespaces: `sysctl user.max_user_namespaces=1000`, and \
                    `kernel.unprivileged_userns_clone=1` or `kernel.apparmor_restrict_unprivileged_userns=0` where they exist";
        io::Error::new(error.kind(), format!("make a user namespace: {error}; {hint}"))
    })?;
    // Groups must be given up before they may be mapped.
    fs::write("/proc/self/setgroups", "deny")?;
    fs::write("/proc/self/uid_map", format!("0 {user} 1"))?;
    fs::write("/proc/self/gid_map", format!("0 {group} 1"))
}

/// What the new process does first.
fn settle(alive: &OwnedFd, hosts: &str) -> io::Result<()> {
    die_with_parent()?;
    // If it has already died, the other end of the pipe is closed.
    let mut ended = [rustix::event::PollFd::new(alive, rustix::event::PollFlags::IN)];
    let now = rustix::event::Timespec { tv_sec: 0, tv_nsec: 0 };
    if rustix::event::poll(&mut ended, Some(&now))? > 0 {
        return Err(io::Error::other("the process that started this one has ended"));
    }
    mount(c"none", c"/", c"none", libc::MS_REC | libc::MS_PRIVATE)?;
    // Some containers hide parts of `/proc`, and then forbid another mount: it then shows the processes outside.
    let _ = mount(c"proc", c"/proc", c"proc", libc::MS_NOSUID | libc::MS_NODEV | libc::MS_NOEXEC);
    name_hosts(hosts)
}

/// Mounts a file with `hosts` over `/etc/hosts` in this mount namespace.
fn name_hosts(hosts: &str) -> io::Result<()> {
    const FILE: &CStr = c"/etc/hosts";
    let Ok(known) = fs::read_to_string("/etc/hosts") else { return Ok(()) };
    // A file system in memory, for the moment, and a file in it that outlives its place.
    mount(c"tmpfs", c"/tmp", c"tmpfs", 0)?;
    let made = fs::write("/tmp/hosts", format!("{known}\n{hosts}"))
        .and_then(|()| mount(c"/tmp/hosts", FILE, c"none", libc::MS_BIND));
    // SAFETY: the string ends, and the call takes no other memory.
    let gone = done(unsafe { libc::umount2(c"/tmp".as_ptr(), libc::MNT_DETACH) });
    made.and(gone)
}

/// Pass signals on until `child` has ended; returns its status.
fn wait(child: libc::pid_t) -> io::Result<i32> {
    let mut set = mem::MaybeUninit::<libc::sigset_t>::uninit();
    // SAFETY: the call fills the set.
    done(unsafe { libc::sigemptyset(set.as_mut_ptr()) })?;
    for signal in [libc::SIGINT, libc::SIGTERM, libc::SIGHUP, libc::SIGCHLD] {
        // SAFETY: the set was filled above.
        done(unsafe { libc::sigaddset(set.as_mut_ptr(), signal) })?;
    }
    // SAFETY: the set was filled above.
    let set = unsafe { set.assume_init() };
    // SAFETY: the set is one, and the old one is not asked for.
    done(unsafe { libc::sigprocmask(libc::SIG_BLOCK, &raw const set, ptr::null_mut()) })?;
    loop {
        if let Some(status) = ended(child)? {
            return Ok(status);
        }
        let mut info = mem::MaybeUninit::<libc::siginfo_t>::zeroed();
        // SAFETY: the set is one, and `info` is a place for what came.
        let signal = unsafe { libc::sigwaitinfo(&raw const set, info.as_mut_ptr()) };
        // SAFETY: it is integers, which were zero and may have been filled.
        let info = unsafe { info.assume_init() };
        // What a terminal sends goes to every process of the group.
        let everybody = info.si_code == libc::SI_KERNEL;
        if signal == -1 || signal == libc::SIGCHLD || everybody {
            continue;
        }
        // SAFETY: the call takes two numbers; the child was not waited for, so the number is still its own.
        done(unsafe { libc::kill(child, libc::SIGTERM) })?;
    }
}

/// How it ended, if it has.
fn ended(child: libc::pid_t) -> io::Result<Option<i32>> {
    let mut status = 0;
    // SAFETY: `status` is a place for one integer.
    let which = unsafe { libc::waitpid(child, &raw mut status, libc::WNOHANG) };
    done(which)?;
    if which == 0 {
        return Ok(None);
    }
    let signal = libc::WTERMSIG(status);
    Ok(Some(if libc::WIFEXITED(status) { libc::WEXITSTATUS(status) } else { 128 + signal }))
}
