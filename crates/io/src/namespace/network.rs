//! A network namespace.

use super::call::{die_with_parent, done, leave, mount};
use crate::address::system_text;
use std::{
    ffi::OsStr,
    fs::File,
    io,
    os::{
        fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd},
        unix::process::CommandExt,
    },
    process::Command,
    sync::Arc,
    thread,
};

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
                "make a network namespace: not permitted; hint: run as root, or let `skyhaul lab run` make user namespaces",
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
                "; hint: `ip netns list` shows the existing ones"
            } else {
                ""
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
                    "enter a network namespace: {}; hint: run as root; only root may enter one that it did not make",
                    system_text(&error)
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

impl AsFd for Network {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
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
