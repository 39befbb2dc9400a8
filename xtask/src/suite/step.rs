//! One command of the suite: run with a time limit, its output kept, read and shown.

use super::prepare;
use super::tally::Tally;
use crate::workspace;
use anyhow::{Context, Result};
use std::ffi::{OsStr, OsString};
use std::io::{BufRead, BufReader, Write};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::Instant;

/// Lines of a failed step that are shown again at its end.
const SHOWN_ON_FAILURE: usize = 80;

/// Words before those of a step that only computes: what waits for time limits and sends at rates goes before it.
pub(super) const BEHIND: [&str; 3] = ["nice", "-n", "10"];

/// Time that the processors of this machine have spent, in ticks: what waits is seen, and what else runs counts too.
pub(super) struct Load(Option<(u64, u64)>);

impl Load {
    pub(super) fn now() -> Self {
        Self(std::fs::read_to_string("/proc/stat").ok().as_deref().and_then(ticks))
    }

    /// How busy they were since then, as the end of a line; nothing if that is unknown.
    pub(super) fn since(&self) -> String {
        let (Some((busy, all)), Some((busy_now, all_now))) = (self.0, Self::now().0) else {
            return String::new();
        };
        let (busy, all) = (busy_now.saturating_sub(busy), all_now.saturating_sub(all));
        format!(", processors {} % busy", busy * 100 / all.max(1))
    }
}

/// Busy ticks and all, of the first line: user, nice, system, idle, iowait, irq, softirq, steal.
fn ticks(stat: &str) -> Option<(u64, u64)> {
    let fields = stat.lines().next()?.strip_prefix("cpu ")?.split_whitespace().take(8);
    let fields: Vec<u64> = fields.map(str::parse).collect::<Result<_, _>>().ok()?;
    let all = fields.iter().sum::<u64>();
    Some((all - fields.get(3)? - fields.get(4)?, all))
}

/// Seconds of a processor that a child and all that it waited for have used, once it has ended and nobody has waited for it: steps
/// run beside each other, and what a step costs is not seen from its length. `None` if it does not end within a second.
fn spent_at_end(child: u32) -> Option<u64> {
    for _ in 0..100 {
        let stat = std::fs::read_to_string(format!("/proc/{child}/stat")).ok()?;
        let (state, ticks) = state_and_ticks(&stat)?;
        if state == "Z" {
            return Some(ticks / TICKS_PER_SECOND);
        }
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    None
}

/// On all architectures that Linux tells programs about.
const TICKS_PER_SECOND: u64 = 100;

/// State, and ticks of the processor with those of the children that were waited for (proc_pid_stat(5)).
fn state_and_ticks(stat: &str) -> Option<(&str, u64)> {
    // The name before may contain anything.
    let mut fields = stat.rsplit_once(") ")?.1.split(' ');
    let state = fields.next()?;
    let ticks: Vec<u64> = fields.skip(10).take(4).map(str::parse).collect::<Result<_, _>>().ok()?;
    (ticks.len() == 4).then(|| (state, ticks.iter().sum()))
}

/// A command and what to call it.
pub(super) struct Step {
    name: String,
    words: Vec<OsString>,
    envs: Vec<(String, PathBuf)>,
    minutes: u32,
}

impl Step {
    pub(super) fn new(name: &str, program: impl AsRef<OsStr>) -> Step {
        let words = vec![program.as_ref().to_owned()];
        Step { name: name.to_owned(), words, envs: Vec::new(), minutes: 10 }
    }

    /// The same with another command.
    pub(super) fn with(&self, name: &str, words: Vec<OsString>) -> Step {
        Step { name: name.to_owned(), words, envs: self.envs.clone(), minutes: self.minutes }
    }

    /// The command.
    pub(super) fn words(&self) -> &[OsString] {
        &self.words
    }

    pub(super) fn args<'a>(mut self, args: impl AsRef<[&'a str]>) -> Step {
        self.words.extend(args.as_ref().iter().map(OsString::from));
        self
    }

    /// The same, run by another program: these words stand before it.
    pub(super) fn under(mut self, words: &[&str]) -> Step {
        self.words.splice(..0, words.iter().map(OsString::from));
        self
    }

    pub(super) fn env(mut self, name: &str, value: &std::path::Path) -> Step {
        self.envs.push((name.to_owned(), value.to_owned()));
        self
    }

    pub(super) fn minutes(mut self, minutes: u32) -> Step {
        self.minutes = minutes;
        self
    }

    /// Run it and count what it reports; true if it ended well.
    pub(super) fn run(self, tally: &mut Tally) -> Result<bool> {
        Ok(self.log(tally)?.0)
    }

    /// [`run`](Self::run), with the lines that it printed.
    pub(super) fn log(&self, tally: &mut Tally) -> Result<(bool, Vec<String>)> {
        tally.say(&format!("\n== {}", self.name));
        let (reader, writer) = std::io::pipe().context("make a pipe")?;
        // A shell in the background ignores Ctrl-C, and so would the programs that tests interrupt.
        let mut command = Command::new("env");
        command.args(["--default-signal=INT,HUP,QUIT", "timeout"]);
        command.arg("--kill-after=10").arg(format!("{}m", self.minutes)).args(&self.words);
        command.current_dir(workspace::root()).stdin(Stdio::null());
        command.stdout(writer.try_clone()?).stderr(writer);
        command
            .env("CARGO_TERM_COLOR", "never")
            // NumPy starts a thread for each processor when it is imported, which is a quarter of that; hundreds of programs import it.
            .env("OPENBLAS_NUM_THREADS", "1");
        prepare::keep_bytecode(&mut command);
        workspace::forget_cargo(&mut command);
        for (name, value) in &self.envs {
            command.env(name, value);
        }
        let mut child = match command.spawn() {
            Ok(child) => child,
            Err(error) => {
                tally.fail(&format!("{}: run env: {error} (apt-get install coreutils)", self.name));
                return Ok((false, Vec::new()));
            }
        };
        drop(command); // it holds the pipe's writing ends, and the reader waits for all to close

        let failed_before = tally.failed;
        let (started, load) = (Instant::now(), Load::now());
        let log = self.follow(reader, tally)?;
        let spent = spent_at_end(child.id());
        let status = child.wait()?;
        let spent = spent.map(|seconds| format!(" ({seconds} s of a processor)")).unwrap_or_default();
        tally.say(&format!("   {} s{spent}{}", started.elapsed().as_secs(), load.since()));
        let named_as_running = tally.has_running();
        tally.end_of_step();
        if status.success() {
            return Ok((true, log));
        }
        // Tests that had not ended are named, and are the failures then.
        if status.code() == Some(124) && !named_as_running {
            tally.fail(&format!("{}: not done after {} minutes", self.name, self.minutes));
        } else if tally.failed == failed_before {
            tally.fail(&format!("{}: {status}", self.name));
        }
        let from = log.len().saturating_sub(SHOWN_ON_FAILURE);
        tally.say(&format!("-- the last lines of this step:\n{}", log[from..].join("\n")));
        Ok((false, log))
    }

    fn follow(&self, reader: std::io::PipeReader, tally: &mut Tally) -> Result<Vec<String>> {
        let kept = workspace::root().join("target/suite");
        std::fs::create_dir_all(&kept)?;
        let file: String = self.name.chars().map(|c| if c.is_alphanumeric() { c } else { '-' }).collect();
        let mut file = std::fs::File::create(kept.join(format!("{file}.log")))?;
        let mut log = Vec::new();
        let mut lines = BufReader::new(reader);
        let mut bytes = Vec::new();
        while lines.read_until(b'\n', &mut bytes)? > 0 {
            file.write_all(&bytes)?;
            let line = String::from_utf8_lossy(&bytes).trim_end().to_owned();
            bytes.clear();
            if tally.read(&line) {
                tally.say(&format!("   {}", line.trim_start()));
            }
            log.push(line);
        }
        Ok(log)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn idle_ticks_are_not_busy() {
        assert_eq!(ticks("cpu  10 1 5 80 4 0 0 0 0 0\ncpu0 1 2"), Some((16, 100)));
        assert_eq!(ticks("cpu  10 1 x"), None);
        assert_eq!(ticks(""), None);
    }

    #[test]
    fn a_child_is_charged_with_what_its_children_used() {
        let stat = "7 (a) b) Z 1 7 7 0 -1 4 0 0 0 0 100 20 3000 400 20 0 1 0 99";
        assert_eq!(state_and_ticks(stat), Some(("Z", 3520)));
        assert_eq!(state_and_ticks("7 (a) Z 1 2"), None);
    }

    #[test]
    fn what_a_child_used_is_known_before_anybody_waits_for_it() {
        let work = "sh -c 'n=0; while [ $n -lt 600000 ]; do n=$((n+1)); done'; exit 3";
        let mut child = Command::new("sh").args(["-c", work]).spawn().unwrap();
        while !std::fs::read_to_string(format!("/proc/{}/stat", child.id())).unwrap().contains(") Z ") {
            std::thread::sleep(std::time::Duration::from_millis(10));
        }
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", child.id())).unwrap();
        assert!(state_and_ticks(&stat).unwrap().1 > 0, "{stat}");
        assert!(spent_at_end(child.id()).is_some());
        assert_eq!(child.wait().unwrap().code(), Some(3));
    }
}
