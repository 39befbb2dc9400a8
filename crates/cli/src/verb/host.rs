//! `skyhaul host`.

mod change;
mod peer;
mod shown;
mod watch;

use crate::Outcome;
use crate::args::HostArgs;
use crate::print;
use anyhow::Result;
use shown::{asked, show, target, written};
use skyhaul::io::host::tree::Tree;
use skyhaul_measure::host::{Difference, HostReport, ThisHost, View, gather, load, save};

pub(crate) fn run(args: &HostArgs) -> Result<Outcome> {
    if args.undo {
        return change::undo(args);
    }
    if let Some([a, b]) = args.diff.as_deref() {
        let (a, b) = (load(a)?, load(b)?);
        let found = Difference::new(&a, &b, &target(args, &a), &args.only);
        return written(args, &found, &print::host::difference(&found));
    }
    if let (Some(host), Some(token)) = (&args.peer, &args.token_file) {
        return peer::run(args, host, token);
    }
    let facts = match &args.load {
        Some(path) => load(path)?,
        None => gather(&Tree::new("/"), &ThisHost, &asked(args, None)?)?,
    };
    if let Some(path) = &args.save {
        save(&facts, path)?;
    }
    if !args.watch.is_empty() {
        return watch::run(args, &facts, &target(args, &facts));
    }
    let target = target(args, &facts);
    let report =
        HostReport::new(&View { facts: &facts, before: None, peer: None, target: &target }, &args.only);
    if args.apply {
        return change::apply(args, &report);
    }
    show(args, &report)
}
