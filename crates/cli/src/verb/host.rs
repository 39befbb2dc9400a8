//! `skyhaul host`.

mod common;
mod peer;
mod watch;

use crate::args::HostArgs;
use crate::outcome::Outcome;
use crate::print;
use anyhow::{Result, bail};
use common::{asked, show, target, written};
use skyhaul::core::hint::Hint;
use skyhaul::io::file::failed;
use skyhaul::io::host::tree::Tree;
use skyhaul_measure::host::{
    ChangeJournal, HostReport, HostSettings, HostView, SnapshotDiff, ThisHost, UndoResult, gather, load,
    planned, read_journal, save, would_undo,
};
use std::io::IsTerminal as _;

pub(crate) fn run(args: &HostArgs) -> Result<Outcome> {
    if args.undo {
        return undo(args);
    }
    if let Some([a, b]) = args.diff.as_deref() {
        let (a, b) = (load(a)?, load(b)?);
        let found = SnapshotDiff::new(&a, &b, &target(args, &a), &args.only);
        return written(args, &found, &print::host::difference(&found));
    }
    if let (Some(host), Some(token)) = (&args.peer, &args.token_file) {
        return peer::apply_to_peer(args, host, token);
    }
    let facts = match &args.load {
        Some(path) => load(path)?,
        None => gather(&Tree::new("/"), &ThisHost, &asked(args, None)?)?,
    };
    if let Some(path) = &args.save {
        save(&facts, path)?;
    }
    if !args.watch.is_empty() {
        return watch::watch_host(args, &facts, &target(args, &facts));
    }
    let target = target(args, &facts);
    let report =
        HostReport::new(&HostView { facts: &facts, before: None, peer: None, target: &target }, &args.only);
    if args.apply {
        return apply(args, &report);
    }
    show(args, &report)
}

fn apply(args: &HostArgs, report: &HostReport) -> Result<Outcome> {
    let settings = HostSettings(Tree::new("/"));
    let changes = planned(report, &settings, &args.only);
    if args.dry_run || changes.is_empty() {
        return written(args, &changes, &print::host::changes(&changes));
    }
    if !args.yes && !confirmed(&print::host::changes(&changes))? {
        say!("nothing was changed");
        return Ok(Outcome::Failed);
    }
    let mut journal = ChangeJournal::begin(&args.journal)?;
    let done = skyhaul_measure::host::apply(&changes, &settings, &mut journal)?;
    let how = |done: &skyhaul_measure::host::ChangeResult| done.failed.clone();
    let text = print::host::changed(done.iter().map(|done| (&done.change, how(done))), &args.journal);
    written(args, &done, &text)?;
    Ok(if done.iter().all(|done| done.failed.is_none()) { Outcome::Done } else { Outcome::Failed })
}

/// Ask on the terminal.
fn confirmed(text: &str) -> Result<bool> {
    if !std::io::stdin().is_terminal() {
        bail!(
            "--apply needs confirmation, but standard input is not a terminal{}",
            Hint("use --dry-run to show the changes, or --yes to apply them without confirmation")
        );
    }
    say_text!("{text}apply these changes? [y/N] ");
    let mut answer = String::new();
    std::io::stdin().read_line(&mut answer)?;
    Ok(matches!(answer.trim(), "y" | "Y" | "yes"))
}

fn undo(args: &HostArgs) -> Result<Outcome> {
    let changes = read_journal(&args.journal)?;
    let settings = HostSettings(Tree::new("/"));
    let undone = match args.dry_run {
        true => would_undo(&changes, &settings),
        false => skyhaul_measure::host::undo(&changes, &settings),
    };
    written(args, &undone, &print::host::undone(&undone, args.dry_run))?;
    if args.dry_run {
        let fails = undone.iter().any(|(_, how)| matches!(how, UndoResult::Failed(_)));
        return Ok(if fails { Outcome::Failed } else { Outcome::Done });
    }
    if undone.iter().any(|(_, how)| matches!(how, UndoResult::Failed(_))) {
        say!("{} is kept: run --undo again to restore the rest", args.journal.display());
        return Ok(Outcome::Failed);
    }
    std::fs::remove_file(&args.journal).map_err(|error| failed("remove", &args.journal, &error))?;
    Ok(Outcome::Done)
}
