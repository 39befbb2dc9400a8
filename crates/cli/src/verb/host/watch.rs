//! `skyhaul host --watch`: counters before and after a command.

use super::common::show;
use crate::args::HostArgs;
use crate::outcome::Interrupt;
use crate::outcome::Outcome;
use anyhow::{Result, anyhow};
use skyhaul::core::hint::Hint;
use skyhaul::io::host::tree::Tree;
use skyhaul::io::namespace::ask_to_end;
use skyhaul::io::signals;
use skyhaul_measure::host::{Facts, HostReport, HostTarget, HostView, ThisHost, WatchedRun, count_again};
use std::os::fd::AsFd as _;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

/// How often the command is looked at.
const POLL_INTERVAL: Duration = Duration::from_millis(5);

pub(super) fn watch_host(args: &HostArgs, facts: &Facts, target: &HostTarget) -> Result<Outcome> {
    // The command is asked to end, too; what it moved until then is still told.
    let _interrupt = Interrupt::listen()?;
    // As elsewhere, `--` may stand before the command.
    let watched = args.watch.strip_prefix(&["--".to_owned()]).unwrap_or(&args.watch);
    let (program, rest) = watched.split_first().ok_or_else(|| anyhow!("no command behind --watch"))?;
    let mut command = Command::new(program);
    command.args(rest);
    if args.json {
        // Standard output is for the report.
        command.stdout(Stdio::from(std::io::stderr().as_fd().try_clone_to_owned()?));
    }
    let tree = Tree::new("/");
    let before = count_again(&tree, &ThisHost, facts);
    let begun = Instant::now();
    let failed = |error| {
        anyhow!(
            "run {program}: {}{}",
            skyhaul::io::address::system_text(&error),
            Hint("everything after --watch is the command")
        )
    };
    let status = command.spawn().and_then(ended).map_err(failed)?;
    let seconds = begun.elapsed().as_secs_f64();
    let after = count_again(&tree, &ThisHost, facts);
    let view = HostView { facts: &after, before: Some(&before), peer: None, target };
    let mut report = HostReport::new(&view, &args.only);
    report.watched = Some(WatchedRun::new(watched.to_vec(), seconds, status.to_string(), &before, &after));
    let shown = show(args, &report)?;
    Ok(if status.success() { shown } else { Outcome::Failed })
}

/// Waits for the command. Ctrl-C in a terminal reaches it by itself; SIGTERM and SIGHUP are passed on.
fn ended(mut child: Child) -> std::io::Result<ExitStatus> {
    let mut asked = false;
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(status);
        }
        if !asked && signals::is_terminated() {
            asked = true;
            // It may have ended meanwhile.
            let _ = ask_to_end(child.id(), false);
        }
        std::thread::sleep(POLL_INTERVAL);
    }
}
