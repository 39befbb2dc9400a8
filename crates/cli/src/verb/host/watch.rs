//! `skyhaul host --watch`: counters before and after a command.

use super::shown::show;
use crate::Outcome;
use crate::args::HostArgs;
use crate::interrupt::Interrupt;
use anyhow::{Result, anyhow};
use skyhaul::host::{Facts, HostReport, Target, ThisHost, View, Watched, count_again};
use skyhaul::io::host::tree::Tree;
use std::os::fd::AsFd as _;
use std::process::{Command, Stdio};
use std::time::Instant;

pub(super) fn run(args: &HostArgs, facts: &Facts, target: &Target) -> Result<Outcome> {
    // Ctrl-C ends the command, which gets it too; what it moved until then is still told.
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
    let status = command.status().map_err(|error| {
        anyhow!(
            "run {program}: {}; hint: everything behind --watch is the command",
            skyhaul::io::address::system_text(&error)
        )
    })?;
    let seconds = begun.elapsed().as_secs_f64();
    let after = count_again(&tree, &ThisHost, facts);
    let view = View { facts: &after, before: Some(&before), peer: None, target };
    let mut report = HostReport::new(&view, &args.only);
    report.watched = Some(Watched::new(watched.to_vec(), seconds, status.to_string(), &before, &after));
    let shown = show(args, &report)?;
    Ok(if status.success() { shown } else { Outcome::Failed })
}
