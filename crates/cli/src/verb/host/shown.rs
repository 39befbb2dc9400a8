//! What the ways of `skyhaul host` share: what to read, what it is wanted for, and how the outcome is printed.

use crate::Outcome;
use crate::args::HostArgs;
use crate::print;
use crate::verb::receiving;
use anyhow::Result;
use skyhaul_measure::host::{Asked, Facts, HostReport, Target, Verdict};
use std::net::IpAddr;

pub(super) fn asked(args: &HostArgs, peer: Option<IpAddr>) -> Result<Asked> {
    let data = args.disk.iter().map(|path| {
        let full = std::fs::canonicalize(path);
        let full = full.map_err(|error| skyhaul::io::file::failed("read", path, &error))?;
        Ok(full.to_string_lossy().into_owned())
    });
    Ok(Asked { interface: args.interface.clone(), peer, data: data.collect::<Result<_>>()? })
}

pub(super) fn target(args: &HostArgs, facts: &Facts) -> Target {
    let target = Target::new(args.rate, args.rtt, args.role, args.flows, facts.link_rate());
    Target { mtu: args.mtu, ..target }
}

/// Print a report; a check that failed is the exit status.
pub(super) fn show(args: &HostArgs, report: &HostReport) -> Result<Outcome> {
    written(args, report, &print::host::report(report, args.all))?;
    Ok(if report.count(Verdict::Fail) == 0 { Outcome::Done } else { Outcome::Failed })
}

/// Print as JSON or as text.
pub(super) fn written(args: &HostArgs, data: &impl serde::Serialize, text: &str) -> Result<Outcome> {
    if args.json {
        receiving::print_json(data)?;
    } else {
        print::page(text)?;
    }
    Ok(Outcome::Done)
}
