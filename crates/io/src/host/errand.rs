//! A short program that is given a text: an operator's own, run for an event. It has a time, and is killed and reaped after it.
//!
//! ```
//! use skyhaul_io::host::errand::run_errand;
//! use std::{process::Command, time::Duration};
//! let done = run_errand(Command::new("cat"), b"text", Duration::from_secs(10))?;
//! assert!(done.status.is_some_and(|status| status.success()));
//! # std::io::Result::Ok(())
//! ```
//!
//! Limits: a text of [`MAX_ERRAND_INPUT`] bytes; the last [`ERRAND_SAID`] bytes of standard error are kept. Children that leave the
//! process group outlive it, and are not waited for.

use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};
use rustix::process::{Pid, Signal, kill_process_group, set_parent_process_death_signal};
use std::io::{self, Read, Write};
use std::os::unix::process::CommandExt;
use std::process::{ChildStderr, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

/// Maximum size of the text: what a pipe holds, so that writing it never waits for the program.
pub const MAX_ERRAND_INPUT: usize = 32 << 10;
/// Bytes of standard error that are kept, from the end.
pub const ERRAND_SAID: usize = 2 << 10;
/// How often the program is looked at.
const LOOK_INTERVAL: Duration = Duration::from_millis(10);
/// Bytes of standard error that are read at a look.
const LOOK_BYTES: usize = 1 << 20;

/// How a program ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Errand {
    /// Its exit status; `None`: it was killed after its time.
    pub status: Option<ExitStatus>,
    /// The end of its standard error.
    pub said: Vec<u8>,
}

/// Runs `command` with `input` at its standard input, for at most `limit`. Its standard output is discarded. It is killed when the calling
/// thread ends for any reason.
///
/// # Errors
/// If it cannot be started, or the text is too long.
pub fn run_errand(mut command: Command, input: &[u8], limit: Duration) -> io::Result<Errand> {
    if input.len() > MAX_ERRAND_INPUT {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "the text for the program is too long"));
    }
    let (reader, mut writer) = io::pipe()?;
    // All of it fits into the pipe, which has its reading end here: this does not wait, and raises no signal.
    writer.write_all(input)?;
    drop(writer);
    command.stdin(reader).stdout(Stdio::null()).stderr(Stdio::piped()).process_group(0);
    let enter = || Ok(set_parent_process_death_signal(Some(Signal::KILL))?);
    // SAFETY: between fork and exec it makes one system call, and takes no lock and no memory.
    unsafe { command.pre_exec(enter) };
    let begun = Instant::now();
    let mut child = command.spawn()?;
    let mut stderr = child.stderr.take();
    if let Some(pipe) = &stderr {
        // A child of the program may hold the pipe open for ever.
        fcntl_setfl(pipe, fcntl_getfl(pipe)? | OFlags::NONBLOCK)?;
    }
    let mut said = Vec::new();
    let status = loop {
        let ended = child.try_wait()?;
        take(&mut stderr, &mut said);
        if ended.is_some() || begun.elapsed() >= limit {
            break ended;
        }
        std::thread::sleep(LOOK_INTERVAL);
    };
    if status.is_none() {
        // It is not reaped yet, so its number is its own.
        let _ = kill_process_group(Pid::from_child(&child), Signal::KILL);
        let _ = child.wait();
        take(&mut stderr, &mut said);
    }
    Ok(Errand { status, said })
}

/// Reads what is there, and keeps the end.
fn take(pipe: &mut Option<ChildStderr>, said: &mut Vec<u8>) {
    let Some(from) = pipe else { return };
    let (mut part, mut taken) = ([0; 4096], 0);
    while taken < LOOK_BYTES {
        match from.read(&mut part) {
            Ok(0) => return *pipe = None,
            Ok(length) => {
                taken += length;
                said.extend_from_slice(&part[..length]);
                said.drain(..said.len().saturating_sub(ERRAND_SAID));
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(_) => return,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LONG: Duration = Duration::from_secs(60);

    fn shell(line: &str) -> Command {
        let mut command = Command::new("sh");
        command.args(["-c", line]);
        command
    }

    #[test]
    fn it_gets_the_text_and_its_last_words_are_kept() {
        let text = vec![b'x'; MAX_ERRAND_INPUT];
        let done = run_errand(shell("wc -c >&2; exit 3"), &text, LONG).unwrap();
        assert_eq!(done.status.and_then(|status| status.code()), Some(3));
        assert_eq!(String::from_utf8_lossy(&done.said).trim(), "32768");
        let done = run_errand(shell("yes a | head -c 1000000 >&2; echo end >&2"), b"", LONG).unwrap();
        assert!(done.said.ends_with(b"a\nend\n") && done.said.len() <= ERRAND_SAID, "{}", done.said.len());
        assert!(run_errand(shell("true"), &[0; MAX_ERRAND_INPUT + 1], LONG).is_err());
        assert!(run_errand(Command::new("/nowhere/at/all"), b"", LONG).is_err());
    }

    #[test]
    fn one_that_hangs_is_killed_with_its_children_and_reaped() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("pids");
        let line = format!("sleep 1000 & echo $$ $! > {}; wait", file.display());
        let done = run_errand(shell(&line), b"", Duration::from_secs(2)).unwrap();
        assert_eq!(done.status, None);
        let pids = std::fs::read_to_string(file).unwrap();
        let shell = pids.split_whitespace().next().unwrap();
        assert!(!std::path::Path::new(&format!("/proc/{shell}")).exists());
        let child = pids.split_whitespace().nth(1).unwrap();
        // The signal is on its way; the process that adopts it reaps it.
        let state = || std::fs::read_to_string(format!("/proc/{child}/stat")).unwrap_or_default();
        let is_over = |state: &str| state.is_empty() || state.contains(") Z ");
        let end = Instant::now() + LONG;
        while !is_over(&state()) {
            assert!(Instant::now() < end, "{}", state());
            std::thread::sleep(LOOK_INTERVAL);
        }
    }

    #[test]
    fn a_child_that_leaves_the_group_holds_nothing_up() {
        let done = run_errand(shell("setsid sleep 5 & exit 0"), b"", LONG).unwrap();
        assert!(done.status.is_some_and(|status| status.success()));
    }
}
