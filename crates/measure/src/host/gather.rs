//! Reading a host: files below a root, and what only the kernel of this host can be asked.
//!
//! ```text
//!   io::host::tree ─ files ──────────┐
//!   Devices ─ ethtool, netlink, … ───┴─▶ Facts
//! ```
//!
//! Nothing here needs root. What is refused is noted as unreadable, with the kernel's reason; what is not there is left out.
//!
//! Counters only rise:
//!
//! | name | file |
//! |---|---|
//! | `count/net/NAME` | `/sys/class/net/X/statistics`, and changes of its carrier |
//! | `count/softnet/CPU/NAME` | `/proc/net/softnet_stat` |
//! | `count/PROTOCOL/NAME` | `/proc/net/snmp`, `snmp6` (added), `netstat` |
//! | `count/conntrack/NAME` | `/proc/net/stat/nf_conntrack`, all processors together |
//! | `count/card/NAME`, `count/qdisc/NAME` | asked of the kernel |

mod devices;
mod files;
mod machine;

pub use devices::{Devices, GatherOptions, ThisHost};

use super::facts::{Facts, VERSION};
use skyhaul_core::hint::Hint;
use skyhaul_io::host::stages::{backlogs, protocols, protocols6};
use skyhaul_io::host::tree::Tree;
use std::collections::BTreeMap;
use std::io;

/// Read a host.
///
/// # Errors
/// There is no such interface, or none at all.
pub fn gather(tree: &Tree, devices: &dyn Devices, asked: &GatherOptions) -> io::Result<Facts> {
    let interface = interface(tree, devices, asked)?;
    let mut facts = Facts {
        version: VERSION,
        host: tree.host_name(),
        kernel: tree.read("/proc/sys/kernel/osrelease").unwrap_or_default().trim().to_owned(),
        interface,
        ..Facts::default()
    };
    files::note(tree, &mut facts);
    machine::note(tree, &mut facts);
    devices::note(tree, devices, asked, &mut facts);
    devices.note(asked, &mut facts);
    note(tree, devices, &mut facts);
    Ok(facts)
}

/// Read only the counters again, beside `first`, which has the rest.
#[must_use]
pub fn count_again(tree: &Tree, devices: &dyn Devices, first: &Facts) -> Facts {
    let mut facts = first.clone();
    facts.facts.retain(|name, _| !name.starts_with(PREFIX));
    note(tree, devices, &mut facts);
    facts
}

fn interface(tree: &Tree, devices: &dyn Devices, asked: &GatherOptions) -> io::Result<String> {
    let all = tree.names("/sys/class/net");
    if let Some(name) = &asked.interface {
        if all.contains(name) {
            return Ok(name.clone());
        }
        let text = format!(
            "no interface {name}{}",
            Hint(format_args!("the interfaces of this host are {}", all.join(", ")))
        );
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
    best.cloned().ok_or_else(|| io::Error::new(io::ErrorKind::NotFound, "this host has no network interface"))
}

const PREFIX: &str = "count/";
/// As the thread's network namespace has it.
const NET: &str = "/proc/thread-self/net";

type Counts = BTreeMap<String, u64>;

fn note(tree: &Tree, devices: &dyn Devices, facts: &mut Facts) {
    let mut counts = Counts::new();
    let x = facts.interface.clone();
    let statistics = format!("/sys/class/net/{x}/statistics");
    for name in tree.names(&statistics) {
        number(tree, &mut counts, &format!("{statistics}/{name}"), &format!("net/{name}"));
    }
    number(tree, &mut counts, &format!("/sys/class/net/{x}/carrier_changes"), "net/carrier_changes");
    let text = |name: &str| tree.read(&format!("{NET}/{name}"));
    match text("softnet_stat") {
        Ok(table) => softnet(&mut counts, &table),
        Err(error) => facts.unreadable("count/softnet", skyhaul_io::address::system_text(&error)),
    }
    for file in ["snmp", "netstat"] {
        match text(file) {
            Ok(table) => pairs(&mut counts, &table),
            Err(error) => facts.unreadable(format!("count/{file}"), skyhaul_io::address::system_text(&error)),
        }
    }
    snmp6(&mut counts, &text("snmp6").unwrap_or_default());
    conntrack(&mut counts, &text("stat/nf_conntrack").unwrap_or_default());
    for (name, value) in counts {
        facts.note(format!("{PREFIX}{name}"), value);
    }
    devices.count(facts);
}

fn number(tree: &Tree, counts: &mut Counts, path: &str, name: &str) {
    if let Some(value) = tree.read(path).ok().and_then(|text| text.trim().parse().ok()) {
        counts.insert(name.to_owned(), value);
    }
}

fn softnet(counts: &mut Counts, table: &str) {
    counts.extend(backlogs(table).map(|(cpu, name, value)| (format!("softnet/{cpu}/{name}"), value)));
}

fn pairs(counts: &mut Counts, table: &str) {
    counts.extend(protocols(table).map(|(protocol, name, value)| (format!("{protocol}/{name}"), value)));
}

/// Added to that of IPv4.
fn snmp6(counts: &mut Counts, table: &str) {
    for (protocol, name, value) in
        protocols6(table).filter(|(protocol, ..)| matches!(*protocol, "Udp" | "Ip"))
    {
        *counts.entry(format!("{protocol}/{name}")).or_default() += value;
    }
}

/// A line of names, then one for each processor, in hexadecimal.
fn conntrack(counts: &mut Counts, table: &str) {
    let mut lines = table.lines();
    let names: Vec<&str> = lines.next().unwrap_or_default().split_whitespace().collect();
    for line in lines {
        for (name, value) in names.iter().zip(line.split_whitespace()) {
            if *name != "entries"
                && let Ok(value) = u64::from_str_radix(value, 16)
            {
                *counts.entry(format!("conntrack/{name}")).or_default() += value;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_of_the_kernel_are_read() {
        let mut counts = Counts::new();
        softnet(&mut counts, "0000000e 00000001 00000002\n000000ff 0 0 0 0 0 0 0 0 0 0 0 00000007\n");
        pairs(&mut counts, "Udp: InErrors RcvbufErrors\nUdp: 3 2\nTcp: A\nTcp: -1\nodd");
        snmp6(&mut counts, "Udp6RcvbufErrors \t5\nIp6ReasmFails 1\nUdpLite6InErrors 9\nIp6 x\n");
        conntrack(&mut counts, "entries drop\n0000000a 00000010\n0000000a 00000001\n");
        let expected = [
            ("Ip/ReasmFails", 1),
            ("Udp/InErrors", 3),
            ("Udp/RcvbufErrors", 7),
            ("conntrack/drop", 17),
            ("softnet/0/dropped", 1),
            ("softnet/0/processed", 14),
            ("softnet/0/squeezed", 2),
            ("softnet/7/dropped", 0),
            ("softnet/7/processed", 255),
            ("softnet/7/squeezed", 0),
        ];
        assert_eq!(counts, expected.map(|(name, value)| (name.to_owned(), value)).into());
    }
}
