//! Reading a host: files below a root, and what only the kernel of this host can be asked.
//!
//! ```text
//!   io::host::tree ─ files ──────────┐
//!   Devices ─ ethtool, netlink, … ───┴─▶ Facts
//! ```
//!
//! Nothing here needs root. What is refused is noted as unreadable, with the kernel's reason; what is not there is left out.

mod asked;
mod card;
mod counters;
mod disks;
mod files;
mod machine;

use super::facts::{Facts, VERSION};
pub use asked::{Asked, Devices};
pub use card::ThisHost;
use skyhaul_io::host::tree::Tree;
use std::io;

/// Read a host.
///
/// # Errors
/// There is no such interface, or none at all.
pub fn gather(tree: &Tree, devices: &dyn Devices, asked: &Asked) -> io::Result<Facts> {
    let interface = interface(tree, devices, asked)?;
    let mut facts = Facts {
        version: VERSION,
        host: tree.read("/proc/sys/kernel/hostname").unwrap_or_default().trim().to_owned(),
        kernel: tree.read("/proc/sys/kernel/osrelease").unwrap_or_default().trim().to_owned(),
        interface,
        ..Facts::default()
    };
    files::note(tree, &mut facts);
    machine::note(tree, &mut facts);
    disks::note(tree, devices, asked, &mut facts);
    devices.note(asked, &mut facts);
    counters::note(tree, devices, &mut facts);
    Ok(facts)
}

/// Read only the counters again, beside `first`, which has the rest.
#[must_use]
pub fn count_again(tree: &Tree, devices: &dyn Devices, first: &Facts) -> Facts {
    let mut facts = first.clone();
    facts.facts.retain(|name, _| !name.starts_with(counters::PREFIX));
    counters::note(tree, devices, &mut facts);
    facts
}

fn interface(tree: &Tree, devices: &dyn Devices, asked: &Asked) -> io::Result<String> {
    let all = tree.names("/sys/class/net");
    if let Some(name) = &asked.interface {
        if all.contains(name) {
            return Ok(name.clone());
        }
        let text = format!("there is no interface {name}; hint: this host has {}", all.join(", "));
        return Err(io::Error::new(io::ErrorKind::NotFound, text));
    }
    if let Some(name) = asked.peer.and_then(|peer| devices.towards(peer)) {
        return Ok(name);
    }
    let number = |name: &str, what: &str| {
        let text = tree.read(&format!("/sys/class/net/{name}/{what}")).ok()?;
        text.trim().parse::<i64>().ok()
    };
    let rank = |name: &&String| {
        let up = tree.read(&format!("/sys/class/net/{name}/operstate")).is_ok_and(|is| is.trim() == "up");
        let real = tree.has(&format!("/sys/class/net/{name}/device"));
        (*name != "lo", up, real, number(name, "speed").unwrap_or(-1))
    };
    // Of equals the first.
    let best = all.iter().rev().max_by_key(rank);
    best.cloned().ok_or_else(|| io::Error::new(io::ErrorKind::NotFound, "this host has no interface"))
}
