//! A command in an end of the lab: started, asked to end, ended.

use anyhow::{Context, Result};
use skyhaul::io::signals;
use std::ffi::OsString;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, ExitStatus};
use std::time::{Duration, Instant};

/// How long commands have to end by themselves.
const PATIENCE: Duration = Duration::from_secs(3);

/// A command that runs.
pub(super) struct End {
    child: Child,
    /// It has a process group of its own, so that a terminal's Ctrl-C is not for it.
    group: bool,
}

impl End {
    pub(super) fn start(name: &str, mut command: Command, group: bool) -> Result<Self> {
        if group {
            command.process_group(0);
        }
        let program = command.get_program().to_string_lossy().into_owned();
        let child = command.spawn().with_context(|| format!("start {program} in the {name} end"))?;
        Ok(Self { child, group })
    }

    /// How it ended, if it has.
    pub(super) fn ended(&mut self) -> Result<Option<ExitStatus>> {
        Ok(self.child.try_wait()?)
    }

    /// Ask it to end.
    pub(super) fn ask(&self) {
        // It may have ended meanwhile.
        let _ = skyhaul::io::namespace::ask_to_end(self.child.id(), self.group);
    }

    pub(super) fn kill(&mut self) -> Result<()> {
        Ok(self.child.kill()?)
    }

    /// Ask it to end, and end it after a time.
    pub(super) fn end(mut self) -> Result<()> {
        self.ask();
        let asked = Instant::now();
        while self.ended()?.is_none() {
            if asked.elapsed() > PATIENCE {
                self.kill()?;
            }
            std::thread::sleep(Duration::from_millis(2));
        }
        Ok(())
    }
}

/// How the near command is ended: what a terminal interrupts, it has heard itself; SIGTERM and SIGHUP are passed on; and then there
/// is a limit.
#[derive(Default)]
pub(super) struct Ending {
    begun: Option<Instant>,
    asked: Option<Instant>,
}

impl Ending {
    /// An end was requested: ask it, or end it, when it is time.
    pub(super) fn go_on(&mut self, near: &mut End) -> Result<()> {
        let begun = *self.begun.get_or_insert_with(Instant::now);
        if self.asked.is_none() && (signals::is_terminated() || begun.elapsed() > PATIENCE) {
            near.ask();
            self.asked = Some(Instant::now());
        }
        if self.asked.is_some_and(|asked| asked.elapsed() > PATIENCE) {
            near.kill()?;
        }
        Ok(())
    }
}

/// So that `skyhaul` in a command is this program.
pub(super) fn search_here_first(command: &mut Command) {
    let here = std::env::current_exe().ok().and_then(|this| Some(this.parent()?.to_owned()));
    let path = std::env::var_os("PATH").unwrap_or_default();
    if let Some(here) = here {
        let mut all = OsString::from(here);
        all.push(":");
        all.push(path);
        command.env("PATH", all);
    }
}
