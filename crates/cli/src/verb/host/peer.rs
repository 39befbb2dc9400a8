//! `skyhaul host --peer`: both ends of a path.

use super::super::listener;
use super::common::{asked, target, written};
use crate::args::HostArgs;
use crate::outcome::Outcome;
use crate::print;
use anyhow::{Result, bail};
use skyhaul::core::hint::Hint;
use skyhaul::io::host::tree::Tree;
use skyhaul::io::quantity::Span;
use skyhaul::peer::PORT;
use skyhaul_measure::host::{BothEnds, CheckVerdict, ThisHost, ask, gather, note_peer, save};
use std::net::{SocketAddr, ToSocketAddrs as _};
use std::path::Path;

pub(super) fn apply_to_peer(args: &HostArgs, host: &str, token: &Path) -> Result<Outcome> {
    let token = listener::peer_token(token)?;
    let at = resolve(host)?;
    let there = ask(&at, &token)?;
    let mut here = gather(&Tree::new("/"), &ThisHost, &asked(args, at.first().map(SocketAddr::ip))?)?;
    let measured = note_peer(&at, &mut here);
    if let Some(path) = &args.save {
        save(&here, path)?;
    }
    let mut target = target(args, &here);
    if let (None, Some(nanos)) = (args.rtt, measured) {
        // A microsecond is as much as connecting tells.
        target.rtt = (nanos / 1000).max(1) * 1000;
        target.assumed.retain(|text| !text.starts_with("--rtt"));
        target.assumed.push(format!("--rtt {}, measured", Span::from_nanos(target.rtt)));
    }
    let both = BothEnds::new(&here, &there, &target, &args.only);
    let text =
        [print::host::report(&both.here, args.all), print::host::other_end(&both, args.all)].join("\n");
    written(args, &both, &text)?;
    let failed = both.here.count(CheckVerdict::Fail) + both.there.count(CheckVerdict::Fail);
    Ok(if failed == 0 { Outcome::Done } else { Outcome::Failed })
}

/// All addresses of a host, with the usual port if it names none.
fn resolve(host: &str) -> Result<Vec<SocketAddr>> {
    let found = host.to_socket_addrs().or_else(|_| (host, PORT).to_socket_addrs());
    let all: Vec<SocketAddr> = found.map(Iterator::collect).unwrap_or_default();
    if all.is_empty() {
        bail!(
            "cannot resolve {host}{}",
            Hint(format_args!("write a name or an address, with a port if needed, such as dtn2:{PORT}"))
        );
    }
    Ok(all)
}
