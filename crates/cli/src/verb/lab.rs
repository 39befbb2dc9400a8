//! `skyhaul lab`: commands at the ends of an emulated path.
//!
//! ```text
//!   this process ── waits ── the lab, process 1 of namespaces of its own ──┬─ far: sh -c COMMAND
//!                                         thread that forwards             └─ near: COMMAND, or a shell
//! ```

use super::receiving::print_json;
use crate::args::{LabArgs, LabRunArgs, LabWhat};
use crate::outcome::{Interrupt, Outcome};
use anyhow::{Context, Result};
use skyhaul::core::hint::Hint;
use skyhaul::io::namespace::{Apart, Network, apart};
use skyhaul::io::signals;
use skyhaul_measure::lab::{Lab, LabOptions, LabReport, LabText, RunningLab, hosts, listens};
use std::ffi::OsString;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

/// How often it is looked at them.
const POLL_INTERVAL: Duration = Duration::from_millis(5);

pub(crate) fn run(args: &LabArgs) -> Result<Outcome> {
    let LabWhat::Run(args) = &args.what;
    match apart(&hosts()).context("put the lab into namespaces of its own")? {
        Apart::Ended(0) => Ok(Outcome::Done),
        Apart::Ended(1) => Ok(Outcome::Failed),
        // It has said why.
        Apart::Ended(status) => std::process::exit(status),
        Apart::Inside => inside(args),
    }
}

fn inside(args: &LabRunArgs) -> Result<Outcome> {
    let interrupt = Interrupt::listen()?;
    let LabText { path, mut near, far } = args.path.clone();
    near.queue = args.queue.or(near.queue);
    let options = LabOptions {
        mtu: args.mtu,
        near,
        far,
        memory: args.memory,
        spin: args.spin,
        grain: args.grain,
        tolerance: args.tolerance,
        ..LabOptions::default()
    };
    let lab = Lab::new(&options).context("make the lab")?;
    let running = lab.forward(&path, args.log.as_deref()).context("forward packets")?;
    let ended = commands(args, &lab, &running, &interrupt);
    let report = running.finish().context("forward packets")?;
    show(args, &report)?;
    let done = ended? && report.held() && !interrupt.is_set();
    Ok(if done { Outcome::Done } else { Outcome::Failed })
}

/// Run the commands; returns whether the near one succeeded.
fn commands(args: &LabRunArgs, lab: &Lab, running: &RunningLab, interrupt: &Interrupt) -> Result<bool> {
    let mut far = match &args.far {
        None => None,
        Some(text) => {
            let mut command = command(lab.far(), "sh", args.output.json);
            command.args(["-c", text]).stdin(Stdio::null());
            let mut far = End::start("far", command, true)?;
            until_it_listens(args, lab, &mut far, interrupt)?;
            Some(far)
        }
    };
    let near = match args.command.split_first() {
        Some((program, rest)) => {
            let mut command = command(lab.near(), program, args.output.json);
            command.args(rest);
            command
        }
        None => {
            say!(
                "a shell in the near end; the host names near, far and router resolve; the lab stops when it exits"
            );
            command(lab.near(), std::env::var_os("SHELL").unwrap_or("sh".into()), args.output.json)
        }
    };
    let mut near = End::start("near", near, false)?;
    let mut ending = Ending::default();
    let mut said = false;
    let status = loop {
        if let Some(status) = near.ended()? {
            break status;
        }
        if interrupt.is_set() {
            ending.go_on(&mut near)?;
        }
        if let Some(far) = &mut far
            && !said
            && let Some(status) = far.ended()?
        {
            said = true;
            if !status.success() {
                say!("note: the far command ended: {status}");
            }
        }
        anyhow::ensure!(running.is_running(), "the router ended");
        std::thread::sleep(POLL_INTERVAL);
    };
    if let Some(far) = far {
        far.end()?;
    }
    if !status.success() {
        say!("note: the near command ended: {status}");
    }
    Ok(status.success())
}

/// A command in an end. With JSON, standard output is for the report.
fn command(network: &Network, program: impl AsRef<std::ffi::OsStr>, json: bool) -> Command {
    let mut command = network.command(program);
    search_here_first(&mut command);
    if json {
        command.stdout(std::io::stderr());
    }
    command
}

/// Wait until the far command listens, has ended, or has had its time.
fn until_it_listens(args: &LabRunArgs, lab: &Lab, far: &mut End, interrupt: &Interrupt) -> Result<()> {
    let begun = Instant::now();
    while begun.elapsed() < args.wait.duration() && !interrupt.is_set() && !listens(lab.far())? {
        if let Some(status) = far.ended()? {
            anyhow::ensure!(
                status.success(),
                "the far command ended before it listened: {status}{}",
                Hint("run it by itself to see why")
            );
            break;
        }
        std::thread::sleep(POLL_INTERVAL);
    }
    Ok(())
}

fn show(args: &LabRunArgs, report: &LabReport) -> Result<()> {
    if args.output.json {
        print_json(report)?;
    } else if !args.output.quiet {
        say_text!("{report}");
    }
    Ok(())
}

/// How long commands have to end by themselves.
const EXIT_TIMEOUT: Duration = Duration::from_secs(3);

/// A command that runs.
struct End {
    child: Child,
    /// It has a process group of its own, so that a terminal's Ctrl-C is not for it.
    group: bool,
}

impl End {
    fn start(name: &str, mut command: Command, group: bool) -> Result<Self> {
        if group {
            command.process_group(0);
        }
        let program = command.get_program().to_string_lossy().into_owned();
        let child = command.spawn().with_context(|| format!("start {program} in the {name} end"))?;
        Ok(Self { child, group })
    }

    /// How it ended, if it has.
    fn ended(&mut self) -> Result<Option<ExitStatus>> {
        Ok(self.child.try_wait()?)
    }

    /// Ask it to end.
    fn ask(&self) {
        // It may have ended meanwhile.
        let _ = skyhaul::io::namespace::ask_to_end(self.child.id(), self.group);
    }

    fn kill(&mut self) -> Result<()> {
        Ok(self.child.kill()?)
    }

    /// Ask it to end, and end it after a time.
    fn end(mut self) -> Result<()> {
        self.ask();
        let asked = Instant::now();
        while self.ended()?.is_none() {
            if asked.elapsed() > EXIT_TIMEOUT {
                self.kill()?;
            }
            std::thread::sleep(Duration::from_millis(2));
        }
        Ok(())
    }
}

/// How the near command is ended: what a terminal interrupts, it has heard itself; SIGTERM and SIGHUP are passed on; and then
/// there
/// is a limit.
#[derive(Default)]
struct Ending {
    begun: Option<Instant>,
    asked: Option<Instant>,
}

impl Ending {
    /// An end was requested: ask it, or end it, when it is time.
    fn go_on(&mut self, near: &mut End) -> Result<()> {
        let begun = *self.begun.get_or_insert_with(Instant::now);
        if self.asked.is_none() && (signals::is_terminated() || begun.elapsed() > EXIT_TIMEOUT) {
            near.ask();
            self.asked = Some(Instant::now());
        }
        if self.asked.is_some_and(|asked| asked.elapsed() > EXIT_TIMEOUT) {
            near.kill()?;
        }
        Ok(())
    }
}

/// So that `skyhaul` in a command is this program.
fn search_here_first(command: &mut Command) {
    let here = std::env::current_exe().ok().and_then(|this| Some(this.parent()?.to_owned()));
    let path = std::env::var_os("PATH").unwrap_or_default();
    if let Some(here) = here {
        let mut all = OsString::from(here);
        all.push(":");
        all.push(path);
        command.env("PATH", all);
    }
}
