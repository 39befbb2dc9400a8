//! Facts that only the kernel of this host can give: the card by ioctl, sockets, clocks, file systems and disks that hold data.

use super::files::keep;
use crate::host::facts::Facts;
use skyhaul_io::address::system_text;
use skyhaul_io::host::ethtool::{Card, Numbers};
use skyhaul_io::host::interface::{interface_name, interface_of};
use skyhaul_io::host::machine::{Kept, of_memory};
use skyhaul_io::host::network::{Discipline, disciplines, firewall, limits, route};
use skyhaul_io::host::sockets::{granted, local_towards};
use skyhaul_io::host::tree::{Tree, space};
use std::io;
use std::net::IpAddr;

/// What a receiver's socket asks for.
const SOCKET_BUFFER: usize = 256 << 20;

/// The kernel of this host.
#[derive(Clone, Copy, Debug, Default)]
pub struct ThisHost;

impl Devices for ThisHost {
    fn towards(&self, peer: IpAddr) -> Option<String> {
        interface_of(local_towards(peer)?)
    }

    fn note(&self, asked: &GatherOptions, facts: &mut Facts) {
        let x = facts.interface.clone();
        match Card::open(&x) {
            Ok(card) => card_facts(&card, facts),
            Err(error) => facts.unreadable(format!("ethtool/{x}"), system_text(&error)),
        }
        network_facts(asked, facts);
        facts.note("memory/bandwidth", of_memory());
        match Kept::read() {
            Ok(kept) => {
                facts.note("clock/synchronised", if kept.synchronised { "yes" } else { "no" });
                facts.note("clock/max_error_us", kept.max_error_us);
                facts.note("clock/estimated_error_us", kept.estimated_error_us);
            }
            Err(error) => facts.unreadable("clock/synchronised", system_text(&error)),
        }
        match granted(SOCKET_BUFFER) {
            Ok(bytes) => facts.note("socket/granted", bytes),
            Err(error) => facts.unreadable("socket/granted", system_text(&error)),
        }
    }

    fn count(&self, facts: &mut Facts) {
        let counters = Card::open(&facts.interface).and_then(|card| card.statistics());
        for (name, value) in counters.unwrap_or_default() {
            facts.note(format!("count/card/{name}"), value);
        }
        if let Ok(all) = disciplines(&facts.interface) {
            facts.note("count/qdisc/drops", dropped(&all));
        }
    }

    fn free(&self, mount: &str) -> Option<u64> {
        let (free, all) = space(mount).ok()?;
        (all > 0).then(|| free * 100 / all)
    }
}

/// What a queue with several leaves dropped is what they did.
fn dropped(all: &[Discipline]) -> u64 {
    let (roots, leaves): (Vec<_>, Vec<_>) = all.iter().partition(|one| one.is_root);
    let of = |some: &[&Discipline]| some.iter().map(|one| one.drops).sum::<u64>();
    of(&leaves).max(of(&roots))
}

/// What netlink says of the interface, of the way to the peer, and of the firewall.
fn network_facts(asked: &GatherOptions, facts: &mut Facts) {
    match limits(&facts.interface) {
        Ok(all) => all.iter().for_each(|(name, value)| facts.note(format!("link/{name}"), value)),
        Err(error) => facts.unreadable("link/gso_max_size", why(&error)),
    }
    match disciplines(&facts.interface) {
        Ok(all) => {
            let root = all.iter().find(|one| one.is_root);
            facts.note("qdisc/root", root.map_or("noqueue", |root| root.kind.as_str()));
            let leaves: Vec<&str> =
                all.iter().filter(|one| !one.is_root).map(|one| one.kind.as_str()).collect();
            if !leaves.is_empty() {
                facts.note("qdisc/leaves", leaves.join(" "));
            }
            if let Some(rate) = all.iter().filter_map(|one| one.flow_rate).min() {
                facts.note("qdisc/fq/maxrate", rate);
            }
        }
        Err(error) => facts.unreadable("qdisc/root", why(&error)),
    }
    match firewall() {
        Ok(is) => {
            facts.note("firewall/rules", is.rules);
            facts.note("firewall/tables", is.tables.join(" "));
        }
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
            facts.unreadable("firewall/rules", "readable by root only");
        }
        Err(error) => facts.unreadable("firewall/rules", why(&error)),
    }
    if let Some(peer) = asked.peer {
        route_facts(peer, facts);
    }
}

fn route_facts(peer: IpAddr, facts: &mut Facts) {
    match route(peer) {
        Ok(way) => {
            let name = interface_name(way.interface).unwrap_or_else(|_| way.interface.to_string());
            for (limit, value) in &way.limits {
                facts.note(format!("route/{limit}"), value);
            }
            facts.note("route/congctl", way.control.unwrap_or_default());
            let own = facts.number(&format!("/sys/class/net/{name}/mtu"));
            // What an ICMP message told of the path stands in its route.
            if let Some(mtu) = way.limits.get("mtu").copied().filter(|mtu| *mtu > 0).or(own) {
                facts.note("path/mtu", mtu);
            }
            facts.note("route/interface", name);
        }
        Err(error) => {
            facts.unreadable("route/interface", why(&error));
            facts.unreadable("path/mtu", why(&error));
        }
    }
}

/// What the card says; what its driver does not offer is noted as that.
fn card_facts(card: &Card, facts: &mut Facts) {
    let key = |name: &str, facts: &Facts| format!("ethtool/{}/{name}", facts.interface);
    match card.driver() {
        Ok(is) => {
            for (name, value) in [
                ("driver", is.driver),
                ("driver_version", is.version),
                ("firmware", is.firmware),
                ("bus", is.bus),
            ] {
                facts.note(key(name, facts), value);
            }
        }
        Err(error) => facts.unreadable(key("driver", facts), why(&error)),
    }
    numbers(facts, "ring", card.ring(), "rx");
    numbers(facts, "channels", card.channels(), "combined");
    numbers(facts, "coalesce", card.coalescing(), "rx-usecs");
    numbers(facts, "pause", card.pause(), "rx");
    match card.features() {
        Ok(all) => {
            for (name, is) in all {
                let state = if is.on { "on" } else { "off" };
                let fixed = if is.changeable { "" } else { " fixed" };
                facts.note(key(&format!("feature/{name}"), facts), format!("{state}{fixed}"));
            }
        }
        Err(error) => facts.unreadable(key("feature/rx-gro", facts), why(&error)),
    }
    for (name, on) in card.private_flags().unwrap_or_default() {
        facts.note(key(&format!("private/{name}"), facts), if on { "on" } else { "off" });
    }
    for flow in ["udp4", "udp6"] {
        one(facts, &format!("hash/{flow}"), card.hash_fields(flow));
    }
    one(facts, "rules", card.rules());
    one(facts, "indirection", card.indirection().map(|queues| spread(&queues)));
    match card.timestamps() {
        Ok(is) => {
            facts.note(key("stamp/rx", facts), if is.receives { "yes" } else { "no" });
            facts.note(key("stamp/tx", facts), if is.sends { "yes" } else { "no" });
            if let Some(clock) = is.clock {
                facts.note(key("stamp/clock", facts), format!("/dev/ptp{clock}"));
            }
        }
        Err(error) => facts.unreadable(key("stamp/rx", facts), why(&error)),
    }
    match card.link() {
        Ok(is) => facts.note(key("negotiated", facts), if is.negotiated { "yes" } else { "no" }),
        Err(error) => facts.unreadable(key("negotiated", facts), why(&error)),
    }
    one(facts, "fec", card.fec().map(|fec| fec.active.join(" ")));
}

fn numbers(facts: &mut Facts, group: &str, all: io::Result<Numbers>, first: &str) {
    let head = format!("ethtool/{}/{group}", facts.interface);
    match all {
        Ok(all) => {
            for (name, value) in all {
                facts.note(format!("{head}/{name}"), value);
            }
        }
        Err(error) => facts.unreadable(format!("{head}/{first}"), why(&error)),
    }
}

fn one(facts: &mut Facts, name: &str, value: io::Result<impl ToString>) {
    let key = format!("ethtool/{}/{name}", facts.interface);
    match value {
        Ok(value) => facts.note(key, value),
        Err(error) => facts.unreadable(key, why(&error)),
    }
}

fn why(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::Unsupported => "the driver does not report it".to_owned(),
        _ => system_text(error),
    }
}

/// How many hash values lead to each queue: `0:64 1:64`.
fn spread(queues: &[u32]) -> String {
    let mut counts = std::collections::BTreeMap::<u32, u32>::new();
    queues.iter().for_each(|queue| *counts.entry(*queue).or_default() += 1);
    counts.iter().map(|(queue, count)| format!("{queue}:{count}")).collect::<Vec<_>>().join(" ")
}

/// What is asked for.
#[derive(Clone, Debug, Default)]
pub struct GatherOptions {
    /// The interface of the data; without one, that of the way to the peer, or the fastest.
    pub interface: Option<String>,
    /// The other end.
    pub peer: Option<IpAddr>,
    /// Directories of data; without any, every file system on a disk.
    pub data: Vec<String>,
}

/// What is no file: it is asked of the kernel, or made up by a test.
pub trait Devices {
    /// The interface that leads to an address.
    fn towards(&self, peer: IpAddr) -> Option<String>;
    /// Note what the kernel says of an interface.
    fn note(&self, asked: &GatherOptions, facts: &mut Facts);
    /// Note the counters of an interface.
    fn count(&self, facts: &mut Facts);
    /// Percent of a file system that is free.
    fn free(&self, mount: &str) -> Option<u64>;
}

/// Of every disk.
const QUEUE: &[&str] = &[
    "scheduler",
    "read_ahead_kb",
    "nr_requests",
    "max_sectors_kb",
    "max_hw_sectors_kb",
    "nomerges",
    "rq_affinity",
    "rotational",
    "write_cache",
];
/// Disks that are none.
const NOT_DISKS: [&str; 6] = ["loop", "ram", "zram", "sr", "fd", "nbd"];

pub(super) fn note(tree: &Tree, devices: &dyn Devices, asked: &GatherOptions, facts: &mut Facts) {
    for disk in tree.names("/sys/block") {
        if NOT_DISKS.iter().any(|kind| disk.starts_with(kind)) {
            continue;
        }
        for name in QUEUE {
            keep(tree, facts, &format!("/sys/block/{disk}/queue/{name}"));
        }
        for name in ["level", "chunk_size"] {
            keep(tree, facts, &format!("/sys/block/{disk}/md/{name}"));
        }
        for path in tree.matching(&format!("/sys/block/{disk}/{disk}*/start")) {
            keep(tree, facts, &path);
        }
    }
    for nvme in tree.names("/sys/class/nvme") {
        let device = format!("/sys/class/nvme/{nvme}");
        for name in
            ["numa_node", "current_link_speed", "current_link_width", "max_link_speed", "max_link_width"]
        {
            keep(tree, facts, &format!("{device}/device/{name}"));
        }
        let sensors = tree.matching(&format!("{device}/hwmon*/temp1_input"));
        for path in sensors.iter().flat_map(|path| [path.clone(), path.replace("_input", "_max")]) {
            let name = if path.ends_with("_input") { "temperature" } else { "temperature_most" };
            if let Some(milli) = tree.read(&path).ok().and_then(|text| text.trim().parse::<i64>().ok()) {
                facts.note(format!("nvme/{nvme}/{name}"), milli / 1000);
            }
        }
    }
    mounts(tree, devices, asked, facts);
}

/// File systems on disks, or those that the given directories are on.
fn mounts(tree: &Tree, devices: &dyn Devices, asked: &GatherOptions, facts: &mut Facts) {
    let table = match tree.read("/proc/self/mountinfo") {
        Ok(table) => table,
        Err(error) => return facts.unreadable("mounts", skyhaul_io::address::system_text(&error)),
    };
    let mut all: Vec<Mount<'_>> = table.lines().filter_map(Mount::read).collect();
    // Of several on one place, the last counts.
    all.reverse();
    let mut seen = Vec::new();
    all.retain(|mount| {
        !seen.contains(&mount.at) && {
            seen.push(mount.at.clone());
            true
        }
    });
    let wanted: Vec<&Mount<'_>> = if asked.data.is_empty() {
        let disk = |mount: &&Mount<'_>| mount.source.starts_with("/dev/") && !mount.at.starts_with("/boot");
        all.iter().filter(disk).filter(|mount| !all.iter().any(|whole| mount.is_part_of(whole))).collect()
    } else {
        let on = |path: &String| {
            let holds = |mount: &&Mount<'_>| std::path::Path::new(path).starts_with(&mount.at);
            all.iter().filter(holds).max_by_key(|mount| mount.at.len())
        };
        asked.data.iter().filter_map(on).collect()
    };
    for mount in wanted {
        let key = format!("mount/{}", mount.at);
        facts.note(format!("{key}#type"), mount.kind);
        facts.note(format!("{key}#options"), &mount.options);
        facts.note(format!("{key}#source"), mount.source);
        if let Some(free) = devices.free(&mount.at) {
            facts.note(format!("{key}#free"), free);
        }
    }
}

struct Mount<'a> {
    /// Numbers of the device.
    device: &'a str,
    /// What of its file system is mounted.
    root: &'a str,
    at: String,
    kind: &'a str,
    source: &'a str,
    options: String,
}

impl<'a> Mount<'a> {
    /// `36 35 98:0 /root /at rw,noatime shared:1 - ext4 /dev/sda1 rw,errors=continue`
    fn read(line: &'a str) -> Option<Self> {
        let (first, second) = line.split_once(" - ")?;
        let mut first = first.split(' ').skip(2);
        let (device, root) = (first.next()?, first.next()?);
        let at = unescaped(first.next()?);
        let options = first.next()?;
        let mut second = second.split(' ');
        let (kind, source) = (second.next()?, second.next()?);
        let options = format!("{options},{}", second.next().unwrap_or_default());
        Some(Self { device, root, at, kind, source, options })
    }

    /// Whether it is a directory of what is mounted elsewhere too (`mount --bind`, `/run/netns`).
    fn is_part_of(&self, whole: &Self) -> bool {
        let below = self.root.strip_prefix(whole.root);
        self.device == whole.device
            && below.is_some_and(|rest| !rest.is_empty() && (whole.root == "/" || rest.starts_with('/')))
    }
}

/// Spaces of a path are written as `\040`.
fn unescaped(path: &str) -> String {
    path.replace("\\040", " ").replace("\\011", "\t").replace("\\134", "\\")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_of_queues_is_counted() {
        assert_eq!(super::spread(&[0, 1, 0, 1, 3]), "0:2 1:2 3:1");
    }

    #[test]
    fn a_line_of_mounts_is_read() {
        let line = "36 35 98:0 / /data\\040one rw,noatime shared:1 - xfs /dev/nvme0n1p1 rw,attr2";
        let mount = Mount::read(line).unwrap();
        assert_eq!((mount.at.as_str(), mount.kind, mount.source), ("/data one", "xfs", "/dev/nvme0n1p1"));
        assert_eq!(mount.options, "rw,noatime,rw,attr2");
        assert!(Mount::read("36 35 98:0 / /data").is_none());
    }

    #[test]
    fn a_part_of_a_file_system_is_no_disk() {
        let part = |a: &str, b: &str| {
            let (a, b) =
                (format!("1 0 {a} /a rw - ext4 /dev/vda rw"), format!("2 0 {b} /b rw - ext4 /dev/vda rw"));
            Mount::read(&a).unwrap().is_part_of(&Mount::read(&b).unwrap())
        };
        assert!(part("254:0 /run/netns", "254:0 /"));
        assert!(part("254:0 /@/data", "254:0 /@"));
        assert!(!part("254:0 /", "254:0 /"));
        assert!(!part("254:0 /", "254:0 /run/netns"));
        assert!(!part("254:0 /@home", "254:0 /@"));
        assert!(!part("254:1 /run/netns", "254:0 /"));
    }
}
