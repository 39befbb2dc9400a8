//! Another program, perhaps on one processor with a share of it, and its CPU time; it ends with the thread that started it.
//!
//! ```no_run
//! use skyhaul_io::host::{limit::Limit, program::{Place, Program}};
//! use std::{process::Command, time::Duration};
//! let place = Place { cpu: Some(1), network: None };
//! let mut program = Program::start(Command::new("receiver"), &place, Limit::new("50%".parse()?, 1)?)?;
//! program.begin_limit()?;
//! let before = program.cpu_time()?;
//! // ... it works ...
//! println!("{:?}, {}", program.cpu_time()? - before, program.limit().describe());
//! let said = program.finish(Duration::from_secs(5))?; // as Ctrl-C does; dropping it kills it
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Limits: the CPU time of child processes is not counted, and children that leave the process group outlive the program.

use super::limit::Limit;
use super::thread;
use crate::address::system_text;
use crate::lock::lock;
use crate::namespace::Network;
use rustix::process::{Pid, Signal, kill_process, kill_process_group, set_parent_process_death_signal};
use rustix::thread::{CpuSet, LinkNameSpaceType, move_into_link_name_space, sched_setaffinity};
use skyhaul_core::hint::Hint;
use std::fs;
use std::io::{self, Read};
use std::os::fd::AsFd;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Bytes kept of a program's output, from the end.
const SAID: usize = 1 << 20;

/// Where a program runs.
#[derive(Clone, Copy, Debug, Default)]
pub struct Place<'a> {
    /// Its only processor; `None`: any.
    pub cpu: Option<usize>,
    /// The network.
    pub network: Option<&'a Network>,
}

/// A running program. It is killed when this is dropped.
#[derive(Debug)]
pub struct Program {
    child: Child,
    stdout: Said,
    stderr: Said,
    /// Dropped after the child: a group can be removed only when it is empty.
    limit: Limit,
}

/// The result of a program that has ended.
#[derive(Debug)]
pub struct Ended {
    /// Exit status; `None`: it had to be killed.
    pub status: Option<ExitStatus>,
    /// Standard output.
    pub stdout: Vec<u8>,
}

impl Program {
    /// Start `command` at `place`, within `limit`, which does not apply yet.
    ///
    /// It is killed when the calling thread ends for any reason.
    ///
    /// # Errors
    /// If the program or processor does not exist, or the privilege is missing.
    pub fn start(mut command: Command, place: &Place<'_>, limit: Limit) -> io::Result<Self> {
        let name = command.get_program().to_string_lossy().into_owned();
        let failed = |error: io::Error| {
            let hint = match error.kind() {
                io::ErrorKind::NotFound => Some("check the name, or give its path"),
                io::ErrorKind::PermissionDenied => Some("it must be a program that you may run"),
                _ => None,
            };
            let hint = hint.map(|hint| Hint(hint).to_string()).unwrap_or_default();
            io::Error::new(error.kind(), format!("start {name}: {}{hint}", system_text(&error)))
        };
        let cpus = place.cpu.map(only).transpose()?;
        let network = place.network.cloned();
        let entrance = limit.entrance()?;
        let enter = move || {
            set_parent_process_death_signal(Some(Signal::KILL))?;
            if let Some(cpus) = &cpus {
                sched_setaffinity(None, cpus)?;
            }
            if let Some(group) = &entrance {
                rustix::io::write(group, b"0")?;
            }
            if let Some(network) = &network {
                move_into_link_name_space(network.as_fd(), Some(LinkNameSpaceType::Network))?;
            }
            Ok(())
        };
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).process_group(0);
        // SAFETY: between fork and exec it makes system calls on what was opened before; it takes no lock and no memory.
        unsafe { command.pre_exec(enter) };
        let mut child = command.spawn().map_err(failed)?;
        let (stdout, stderr) = (Said::by(child.stdout.take()), Said::by(child.stderr.take()));
        Ok(Self { child, stdout, stderr, limit })
    }

    /// Apply its limit from here on.
    ///
    /// # Errors
    /// If the kernel refuses.
    pub fn begin_limit(&mut self) -> io::Result<()> {
        self.limit.begin()
    }

    /// Its limit.
    #[must_use]
    pub fn limit(&self) -> &Limit {
        &self.limit
    }

    /// Its process id.
    #[must_use]
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// CPU time of its current threads, in nanoseconds if the kernel counts them, else in ticks of 10 ms.
    ///
    /// # Errors
    /// If it has ended.
    pub fn cpu_time(&self) -> io::Result<Duration> {
        let pid = self.id();
        let mut nanos = 0;
        for task in fs::read_dir(format!("/proc/{pid}/task"))? {
            // A thread that has just ended is not an error.
            let text = fs::read_to_string(task?.path().join("schedstat")).unwrap_or_default();
            nanos += text.split(' ').next().and_then(|first| first.parse::<u64>().ok()).unwrap_or(0);
        }
        if nanos > 0 {
            return Ok(Duration::from_nanos(nanos));
        }
        let text = fs::read_to_string(format!("/proc/{pid}/stat"))?;
        let ticks = ticks(&text).ok_or_else(|| io::Error::other("no CPU time in /proc/PID/stat"))?;
        Ok(Duration::from_nanos(ticks * 1_000_000_000 / rustix::param::clock_ticks_per_second().max(1)))
    }

    /// If it has ended by itself, how, with the last line of its output.
    ///
    /// # Errors
    /// A system error.
    pub fn ended(&mut self) -> io::Result<Option<String>> {
        let Some(status) = self.child.try_wait()? else { return Ok(None) };
        self.kill();
        let said = self.stderr.whole();
        let said = String::from_utf8_lossy(&said);
        let last = said.lines().rev().find(|line| !line.trim().is_empty()).unwrap_or("no output");
        Ok(Some(format!("{status}: {last}")))
    }

    /// End it as Ctrl-C does; kill it if that takes longer than `patience`.
    ///
    /// # Errors
    /// A system error.
    pub fn finish(mut self, patience: Duration) -> io::Result<Ended> {
        // Its number may be another's if it has ended.
        if self.child.try_wait()?.is_none() {
            let _ = kill_process(Pid::from_child(&self.child), Signal::INT);
        }
        let asked = Instant::now();
        let status = loop {
            if let Some(status) = self.child.try_wait()? {
                break Some(status);
            }
            if asked.elapsed() > patience {
                break None;
            }
            std::thread::sleep(Duration::from_millis(5));
        };
        self.kill();
        Ok(Ended { status, stdout: self.stdout.whole() })
    }

    /// Kill it and its children, which would keep its pipes open and its group from being removed.
    fn kill(&mut self) {
        let _ = kill_process_group(Pid::from_child(&self.child), Signal::KILL);
        let _ = self.child.wait();
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        self.kill();
    }
}

/// Prevents the program started by `command` from inheriting any descriptor of this process above 2: neither those that
/// this process opened nor those that it inherited, which a program that outlives it would keep open. Not possible
/// before Linux 5.11.
pub fn alone(command: &mut Command) {
    let leave = || {
        // SAFETY: it marks descriptors of the child to be closed by exec, and touches no memory.
        unsafe { libc::syscall(libc::SYS_close_range, 3_u32, u32::MAX, libc::CLOSE_RANGE_CLOEXEC) };
        Ok(())
    };
    // SAFETY: between fork and exec it makes one system call, and takes no lock and no memory.
    unsafe { command.pre_exec(leave) };
}

/// That CPU, if this process may use it, which a short-lived thread tries.
fn only(cpu: usize) -> io::Result<CpuSet> {
    std::thread::spawn(move || thread::pin(cpu))
        .join()
        .unwrap_or_else(|_| Err(io::ErrorKind::Other.into()))?;
    let mut cpus = CpuSet::new();
    cpus.set(cpu);
    Ok(cpus)
}

/// User and system time of `/proc/PID/stat`, the 14th and 15th field. The second field is a name in parentheses with
/// arbitrary content.
fn ticks(text: &str) -> Option<u64> {
    let (_, rest) = text.rsplit_once(')')?;
    let mut fields = rest.split_whitespace().skip(11);
    let mut next = || fields.next()?.parse::<u64>().ok();
    Some(next()? + next()?)
}

/// The last part of a pipe's contents; a thread reads it, so that the pipe never fills.
#[derive(Debug)]
struct Said {
    end: Arc<Mutex<Vec<u8>>>,
    reader: Option<JoinHandle<()>>,
}

impl Said {
    fn by(pipe: Option<impl Read + Send + 'static>) -> Self {
        let end = Arc::new(Mutex::new(Vec::new()));
        let keep = end.clone();
        let reader = pipe.map(|mut pipe| {
            std::thread::spawn(move || {
                let mut part = [0; 4096];
                while let Ok(length @ 1..) = pipe.read(&mut part) {
                    let mut end = lock(&keep);
                    end.extend_from_slice(&part[..length]);
                    let over = end.len().saturating_sub(SAID);
                    end.drain(..over);
                }
            })
        });
        Self { end, reader }
    }

    /// The content, once all writers have closed the pipe.
    fn whole(&mut self) -> Vec<u8> {
        if let Some(reader) = self.reader.take() {
            let _ = reader.join();
        }
        lock(&self.end).clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cpu() -> usize {
        let allowed = rustix::thread::sched_getaffinity(None).unwrap();
        (0..CpuSet::MAX_CPU).find(|&cpu| allowed.is_set(cpu)).unwrap()
    }

    fn shell(line: &str, share: &str) -> io::Result<Program> {
        let mut command = Command::new("sh");
        command.args(["-c", line]);
        let cpu = cpu();
        Program::start(
            command,
            &Place { cpu: Some(cpu), network: None },
            Limit::new(share.parse().unwrap(), cpu)?,
        )
    }

    /// CPU time over a second of wall time of a program that is always busy.
    fn used(program: &Program) -> f64 {
        let (before, begun) = (program.cpu_time().unwrap(), Instant::now());
        std::thread::sleep(Duration::from_secs(1));
        let used = program.cpu_time().unwrap() - before;
        used.as_secs_f64() / begun.elapsed().as_secs_f64()
    }

    #[test]
    fn a_busy_program_keeps_to_its_share() {
        let mut program = match shell("while :; do :; done", "20%") {
            Ok(program) => program,
            Err(why) => return println!("SKIPPED: {why}"),
        };
        program.begin_limit().unwrap();
        let used = used(&program);
        // Never more, however busy the machine is; a tick or two may be counted in front.
        assert!(used < 0.3, "{used}: {}", program.limit().describe());
    }

    #[test]
    fn it_runs_on_one_cpu_and_ends_as_it_is_told() {
        let line = "trap 'echo told; exit 3' INT; grep Cpus_allowed_list /proc/self/status; while :; do sleep 0.01; done";
        let program = shell(line, "100%").unwrap();
        let begun = Instant::now();
        while program.stdout.end.lock().unwrap().is_empty() {
            assert!(begun.elapsed() < Duration::from_secs(60), "it says nothing");
            std::thread::sleep(Duration::from_millis(5));
        }
        let ended = program.finish(Duration::from_secs(60)).unwrap();
        assert_eq!(ended.status.unwrap().code(), Some(3));
        let said = String::from_utf8(ended.stdout).unwrap();
        assert_eq!(said, format!("Cpus_allowed_list:\t{}\ntold\n", cpu()));
    }

    #[test]
    fn it_is_killed_when_it_is_dropped_or_does_not_listen() {
        let program = shell("trap '' INT; while :; do sleep 0.01; done", "100%").unwrap();
        let pid = program.id();
        std::thread::sleep(Duration::from_millis(50));
        drop(program);
        assert!(!std::path::Path::new(&format!("/proc/{pid}")).exists());
        let deaf = shell("trap '' INT; echo deaf; while :; do sleep 0.01; done", "100%").unwrap();
        let begun = Instant::now();
        while deaf.stdout.end.lock().unwrap().is_empty() {
            assert!(begun.elapsed() < Duration::from_secs(60), "it says nothing");
            std::thread::sleep(Duration::from_millis(5));
        }
        assert_eq!(deaf.finish(Duration::from_millis(20)).unwrap().status, None);
    }

    #[test]
    fn what_cannot_be_started_is_told_with_the_next_step() {
        let start = |name: &str, cpu| {
            let limit = Limit::new("100%".parse().unwrap(), 0).unwrap();
            Program::start(Command::new(name), &Place { cpu: Some(cpu), network: None }, limit)
                .unwrap_err()
                .to_string()
        };
        assert!(start("no-such-program", cpu()).contains("start no-such-program: No such file"));
        assert!(start("true", usize::MAX).contains("hint: use one of the CPUs allowed"));
        let mut gone = shell("echo first >&2; echo why >&2; exit 4", "100%").unwrap();
        let begun = Instant::now();
        let said = loop {
            if let Some(said) = gone.ended().unwrap() {
                break said;
            }
            assert!(begun.elapsed() < Duration::from_secs(60), "it does not end");
            std::thread::sleep(Duration::from_millis(5));
        };
        assert!(said.contains('4') && said.ends_with(": why"), "{said}");
    }

    #[test]
    fn descriptors_that_were_left_open_are_not_inherited() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let left = rustix::io::dup(&file).unwrap();
        let open = |command: &mut Command| {
            let said = command.args(["-l", "/proc/self/fd"]).output().unwrap().stdout;
            String::from_utf8(said).unwrap().contains(file.path().to_str().unwrap())
        };
        assert!(open(&mut Command::new("ls")), "as programs are started");
        let mut command = Command::new("ls");
        alone(&mut command);
        assert_eq!(open(&mut command), !has_close_range());
        drop(left);
    }

    fn has_close_range() -> bool {
        let release = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap();
        let mut numbers = release.split(['.', '-']).map_while(|part| part.parse::<u32>().ok());
        (numbers.next(), numbers.next()) >= (Some(5), Some(11))
    }

    #[test]
    fn names_in_brackets_do_not_disturb_the_count() {
        let line = "12 (a) b (c) S 1 12 12 0 -1 4194560 100 0 0 0 17 25 0 0 20 0 1 0 5 6 7";
        assert_eq!(ticks(line), Some(42));
        assert_eq!(ticks("12 (a"), None);
    }
}
