//! `skyhaul host --apply` and `--undo`.

use super::shown::written;
use crate::Outcome;
use crate::args::HostArgs;
use crate::print;
use anyhow::{Result, bail};
use skyhaul::io::file::failed;
use skyhaul::io::host::tree::Tree;
use skyhaul_measure::host::{HostReport, HostSettings, Journal, Undone, planned, read_journal, would_undo};
use std::io::IsTerminal as _;

pub(super) fn apply(args: &HostArgs, report: &HostReport) -> Result<Outcome> {
    let settings = HostSettings(Tree::new("/"));
    let changes = planned(report, &settings, &args.only);
    if args.dry_run || changes.is_empty() {
        return written(args, &changes, &print::host::changes(&changes));
    }
    if !args.yes && !confirmed(&print::host::changes(&changes))? {
        say!("nothing was changed");
        return Ok(Outcome::Failed);
    }
    let mut journal = Journal::begin(&args.journal)?;
    let done = skyhaul_measure::host::apply(&changes, &settings, &mut journal)?;
    let how = |done: &skyhaul_measure::host::Done| done.failed.clone();
    let text = print::host::changed(done.iter().map(|done| (&done.change, how(done))), &args.journal);
    written(args, &done, &text)?;
    Ok(if done.iter().all(|done| done.failed.is_none()) { Outcome::Done } else { Outcome::Failed })
}

/// Ask on the terminal.
fn confirmed(text: &str) -> Result<bool> {
    if !std::io::stdin().is_terminal() {
        bail!("--apply asks before it writes, and there is no terminal; hint: --dry-run shows, --yes writes");
    }
    say_text!("{text}write these? [y/N] ");
    let mut answer = String::new();
    std::io::stdin().read_line(&mut answer)?;
    Ok(matches!(answer.trim(), "y" | "Y" | "yes"))
}

pub(super) fn undo(args: &HostArgs) -> Result<Outcome> {
    let changes = read_journal(&args.journal)?;
    let settings = HostSettings(Tree::new("/"));
    let undone = match args.dry_run {
        true => would_undo(&changes, &settings),
        false => skyhaul_measure::host::undo(&changes, &settings),
    };
    written(args, &undone, &print::host::undone(&undone, args.dry_run))?;
    if args.dry_run {
        let fails = undone.iter().any(|(_, how)| matches!(how, Undone::Failed(_)));
        return Ok(if fails { Outcome::Failed } else { Outcome::Done });
    }
    if undone.iter().any(|(_, how)| matches!(how, Undone::Failed(_))) {
        say!("{} is kept: --undo again takes back the rest", args.journal.display());
        return Ok(Outcome::Failed);
    }
    std::fs::remove_file(&args.journal).map_err(|error| failed("remove", &args.journal, &error))?;
    Ok(Outcome::Done)
}
