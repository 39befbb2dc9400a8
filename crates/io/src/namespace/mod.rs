//! Unnamed network namespaces: nothing is left of them after the last process and descriptor.
//!
//! ```text
//!   skyhaul ── waits, passes signals on
//!     └─ the lab: process 1 of its own ──┬─ command, in the network of the near end
//!        (user), mount and process       ├─ command, in the network of the far end
//!        namespaces; /etc/hosts its own  └─ threads in the network of the router
//! ```
//!
//! Any thread with the privilege can create a [`Network`]. For ordinary users, [`apart`] first moves the
//! whole process into namespaces of its own. If any of these processes dies, by whatever signal, the kernel ends the
//! others.
//!
//! Limits: an ordinary user needs user namespaces, which some systems forbid; the error says so.

use crate::address::system_text;
use skyhaul_core::hint::Hint;
use std::ffi::{CStr, OsStr};
use std::fs::File;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::sync::Arc;
use std::{fs, io, mem, ptr, thread};

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
        let hint = "run as root, or permit user namespaces: `sysctl user.max_user_namespaces=1000`, and \
                    `kernel.unprivileged_userns_clone=1` or `kernel.apparmor_restrict_unprivileged_userns=0` where they exist";
        io::Error::new(error.kind(), format!("make a user namespace: {error}{}", Hint(hint)))
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

/// An unnamed network namespace. It ends with the last handle, process, socket and interface in it.
#[derive(Clone, Debug)]
pub struct Network(Arc<OwnedFd>);

impl Network {
    /// Make one: without interfaces but for the loopback, which is down.
    ///
    /// # Errors
    /// The privilege is missing: `CAP_SYS_ADMIN` in this user namespace.
    pub fn new() -> io::Result<Self> {
        let made = thread::spawn(|| {
            leave(libc::CLONE_NEWNET)?;
            File::open("/proc/thread-self/ns/net")
        });
        let file = made.join().map_err(|_| io::Error::other("the thread that made a network failed"))?;
        let file = file.map_err(|error| match error.kind() {
            io::ErrorKind::PermissionDenied => io::Error::new(
                error.kind(),
                format!(
                    "make a network namespace: not permitted{}",
                    Hint("run as root, or let `skyhaul lab run` make user namespaces")
                ),
            ),
            kind => io::Error::new(kind, format!("make a network namespace: {error}")),
        })?;
        Ok(Self(Arc::new(file.into())))
    }

    /// The namespace created by `ip netns add NAME`.
    ///
    /// # Errors
    /// There is none of this name.
    pub fn named(name: &str) -> io::Result<Self> {
        let file = File::open(format!("/run/netns/{name}")).map_err(|error| {
            let hint = if error.kind() == io::ErrorKind::NotFound {
                Hint("`ip netns list` shows the existing ones").to_string()
            } else {
                String::new()
            };
            io::Error::new(
                error.kind(),
                format!("open network namespace {name}: {}{hint}", system_text(&error)),
            )
        })?;
        Ok(Self(Arc::new(file.into())))
    }

    /// Moves this thread into it. Sockets that the thread opens from now on are in it.
    ///
    /// # Errors
    /// The privilege is missing.
    pub fn enter(&self) -> io::Result<()> {
        enter(self.0.as_raw_fd()).map_err(|error| match error.kind() {
            io::ErrorKind::PermissionDenied => io::Error::new(
                error.kind(),
                format!(
                    "enter a network namespace: {}{}",
                    system_text(&error),
                    Hint("run as root; only root may enter one that it did not make")
                ),
            ),
            _ => error,
        })
    }

    /// Runs `work` in it, on a separate thread.
    ///
    /// # Errors
    /// It cannot be entered.
    ///
    /// # Panics
    /// If `work` does.
    pub fn inside<T: Send>(&self, work: impl FnOnce() -> T + Send) -> io::Result<T> {
        thread::scope(|scope| {
            let inside = scope.spawn(|| self.enter().map(|()| work()));
            inside.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        })
    }

    /// A command that runs in it, sees its interfaces in `/sys`, and ends with the thread that starts it.
    #[must_use]
    pub fn command(&self, program: impl AsRef<OsStr>) -> Command {
        let (mut command, network) = (Command::new(program), self.clone());
        let begin = move || {
            die_with_parent()?;
            enter(network.0.as_raw_fd())?;
            leave(libc::CLONE_NEWNS)?;
            mount(c"none", c"/", c"none", libc::MS_REC | libc::MS_PRIVATE)?;
            // Where it is not permitted, the command sees the interfaces of the host there.
            let _ = mount(c"sysfs", c"/sys", c"sysfs", libc::MS_NOSUID | libc::MS_NODEV | libc::MS_NOEXEC);
            Ok(())
        };
        // SAFETY: between fork and exec it makes system calls with values made before, and neither allocates nor locks.
        unsafe { command.pre_exec(begin) };
        command
    }
}

impl AsFd for Network {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// Sends SIGTERM to a process, or to its whole group.
///
/// # Errors
/// There is no such process.
pub fn ask_to_end(process: u32, group: bool) -> io::Result<()> {
    use rustix::process::{Pid, Signal, kill_process, kill_process_group};
    let process = i32::try_from(process).ok().and_then(Pid::from_raw).ok_or(io::ErrorKind::InvalidInput)?;
    let asked =
        if group { kill_process_group(process, Signal::TERM) } else { kill_process(process, Signal::TERM) };
    Ok(asked?)
}

fn enter(network: libc::c_int) -> io::Result<()> {
    // SAFETY: the call takes two numbers, and changes what this thread sees of the system, not memory.
    done(unsafe { libc::setns(network, libc::CLONE_NEWNET) })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::netlink::route::Routes;

    #[test]
    fn a_network_that_is_not_there_is_told_with_the_next_step() {
        let said = Network::named("no_such_one").unwrap_err().to_string();
        assert!(said.starts_with("open network namespace no_such_one: No such file"), "{said}");
        assert!(said.ends_with("hint: `ip netns list` shows the existing ones"), "{said}");
    }

    #[test]
    fn a_network_has_a_loopback_of_its_own_and_commands_see_it() {
        let network = match Network::new() {
            Ok(network) => network,
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
                println!("SKIPPED: {error} (run as root)");
                return;
            }
            Err(error) => panic!("{error}"),
        };
        let names = |routes: &mut Routes| -> Vec<String> {
            routes.interfaces().unwrap().into_iter().map(|one| one.name).filter(|name| name != "lo").collect()
        };
        let other = Network::new().unwrap();
        let inside = network.inside(|| {
            let mut routes = Routes::open().unwrap();
            assert!(names(&mut routes).is_empty());
            routes.veth("one", ("two", other.as_fd()), 1500).unwrap();
            names(&mut routes)
        });
        assert_eq!(inside.unwrap(), ["one"]);
        let seen = other.command("ls").arg("/sys/class/net").output().unwrap();
        let seen = String::from_utf8(seen.stdout).unwrap();
        assert!(seen.contains("two") && !seen.contains("one"), "{seen}");
    }
}
