//! What is asked of a host, for which target, and how it is printed.

use super::super::receiving;
use crate::args::HostArgs;
use crate::outcome::Outcome;
use crate::print;
use anyhow::Result;
use skyhaul::io::file::failed;
use skyhaul_measure::host::{CheckVerdict, Facts, GatherOptions, HostReport, HostTarget};
use std::net::IpAddr;

pub(super) fn asked(args: &HostArgs, peer: Option<IpAddr>) -> Result<GatherOptions> {
    let data = args.disk.iter().map(|path| {
        let full = std::fs::canonicalize(path);
        let full = full.map_err(|error| failed("read", path, &error))?;
        Ok(full.to_string_lossy().into_owned())
    });
    Ok(GatherOptions { interface: args.interface.clone(), peer, data: data.collect::<Result<_>>()? })
}

pub(super) fn target(args: &HostArgs, facts: &Facts) -> HostTarget {
    let target = HostTarget::new(args.rate, args.rtt, args.role, args.flows, facts.link_rate());
    HostTarget { mtu: args.mtu, ..target }
}

/// Print a report; a check that failed is the exit status.
pub(super) fn show(args: &HostArgs, report: &HostReport) -> Result<Outcome> {
    written(args, report, &print::host::report(report, args.all))?;
    Ok(if report.count(CheckVerdict::Fail) == 0 { Outcome::Done } else { Outcome::Failed })
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
