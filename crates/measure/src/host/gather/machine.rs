//! What several files together say of the machine: what kind it is, what runs, the card's interrupts, its place on the bus.

use crate::host::facts::Facts;
use skyhaul_io::host::tree::Tree;
use std::collections::BTreeMap;

/// Of PCIe: where the list of capabilities begins, and the number of the one that is wanted.
const CAPABILITIES: usize = 0x34;
const EXPRESS: u8 = 0x10;
/// Octets of the configuration that anyone may read.
const PUBLIC: usize = 64;

pub(super) fn note(tree: &Tree, facts: &mut Facts) {
    processor(tree, facts);
    container(tree, facts);
    process(tree, facts);
    interrupts(tree, facts);
    bus(tree, facts);
    memory_slots(tree, facts);
    neighbours(tree, facts);
    facts.note("host/iommus", tree.names("/sys/class/iommu").len());
    if let Ok(latency) = tree.bytes("/dev/cpu_dma_latency")
        && let Some(octets) = latency.first_chunk::<4>()
    {
        facts.note("host/dma_latency", u32::from_ne_bytes(*octets));
    }
    let memory = tree.read("/proc/meminfo").unwrap_or_default();
    if let Some(kib) =
        field(&memory, "MemTotal:").and_then(|rest| rest.split(' ').next()?.parse::<u64>().ok())
    {
        facts.note("host/memory", kib.saturating_mul(1024));
    }
    removed_sysctls(tree, facts);
    taps(tree, facts);
}

/// What follows the name of a field, in a file with a field on each line.
fn field<'a>(text: &'a str, name: &str) -> Option<&'a str> {
    text.lines()
        .find_map(|line| line.strip_prefix(name))
        .map(|rest| rest.trim_start_matches([':', '\t', ' ']))
}

/// A guest knows that it is one by a flag of its CPU, or by the name of its vendor.
fn processor(tree: &Tree, facts: &mut Facts) {
    let text = tree.read("/proc/cpuinfo").unwrap_or_default();
    let flags = field(&text, "flags").unwrap_or_default();
    let vendor = tree.read("/sys/class/dmi/id/sys_vendor").unwrap_or_default();
    let guests = ["QEMU", "VMware", "Xen", "innotek", "Amazon EC2", "Google", "OpenStack", "KVM"];
    let guest = flags.split(' ').any(|flag| flag == "hypervisor")
        || tree.has("/sys/hypervisor/uuid")
        || guests
            .iter()
            .any(|name| vendor.starts_with(name) && !tree.has("/sys/devices/system/cpu/cpufreq/policy0"));
    facts.note("host/machine", if guest { "guest" } else { "metal" });
    facts.note("cpu/flags", flags);
    facts.note("cpu/model", field(&text, "model name").unwrap_or("not known"));
}

fn container(tree: &Tree, facts: &mut Facts) {
    let marks =
        [("/.dockerenv", "docker"), ("/run/.containerenv", "podman"), ("/run/systemd/container", "nspawn")];
    let groups = tree.read("/proc/1/cgroup").unwrap_or_default();
    let group = ["docker", "kubepods", "lxc", "containerd"].into_iter().find(|name| groups.contains(name));
    let mark = marks.iter().find(|(path, _)| tree.has(path)).map(|(_, name)| *name);
    // The image of a container may have become a machine: what it leaves behind is no container.
    if let Some(kind) = mark.or(group).filter(|_| !is_first(tree)) {
        facts.note("host/container", kind);
    }
}

/// Namespaces that the kernel begins with, and their numbers (`include/linux/proc_ns.h`): a container has others.
const FIRST: [(&str, u32); 4] =
    [("pid", 0xEFFF_FFFC), ("ipc", 0xEFFF_FFFF), ("uts", 0xEFFF_FFFE), ("cgroup", 0xEFFF_FFFB)];

/// Whether this process is in all of them.
fn is_first(tree: &Tree) -> bool {
    FIRST.iter().all(|(kind, number)| {
        tree.link(&format!("/proc/self/ns/{kind}")).is_some_and(|is| is == format!("{kind}:[{number}]"))
    })
}

/// This process, and programs that matter.
fn process(tree: &Tree, facts: &mut Facts) {
    let status = tree.read("/proc/self/status").unwrap_or_default();
    for (name, of) in [("process/cpus_allowed", "Cpus_allowed_list"), ("process/privileges", "CapEff")] {
        if let Some(value) = field(&status, of) {
            facts.note(name, value.trim_end());
        }
    }
    let limits = tree.read("/proc/self/limits").unwrap_or_default();
    for (name, of) in [
        ("limit/memlock", "Max locked memory"),
        ("limit/nofile", "Max open files"),
        ("limit/rtprio", "Max realtime priority"),
    ] {
        if let Some(soft) = field(&limits, of).and_then(|rest| rest.split_whitespace().next()) {
            facts.note(name, soft);
        }
    }
    let runs: Vec<String> =
        tree.matching("/proc/*/comm").iter().filter_map(|path| tree.read(path).ok()).collect();
    for program in ["irqbalance", "chronyd", "ntpd", "ptp4l", "systemd-timesyn"] {
        let state = if runs.iter().any(|name| name.trim() == program) { "running" } else { "not running" };
        facts.note(format!("process/{program}"), state);
    }
}

/// Those that carry its name in `/proc/interrupts`, or belong to its device.
fn interrupts(tree: &Tree, facts: &mut Facts) {
    let x = facts.interface.clone();
    let mut all = tree.names(&format!("/sys/class/net/{x}/device/msi_irqs"));
    let table = tree.read("/proc/interrupts").unwrap_or_default();
    let lines = table.lines().filter_map(|line| line.split_once(':'));
    let named = lines.filter(|(_, rest)| {
        let name = rest.split_whitespace().next_back().unwrap_or_default();
        name.split(['-', '@']).any(|part| part == x)
    });
    for (number, _) in named {
        let number = number.trim().to_owned();
        if !all.contains(&number) {
            all.push(number);
        }
    }
    for irq in all {
        let read = |name: &str| tree.read(&format!("/proc/irq/{irq}/{name}"));
        let list = match read("effective_affinity_list") {
            Ok(list) if !list.trim().is_empty() => Ok(list),
            _ => read("smp_affinity_list"),
        };
        match list {
            Ok(list) => facts.note(format!("irq/{irq}/cpus"), list.trim()),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
            Err(error) => {
                facts.unreadable(format!("irq/{irq}/cpus"), skyhaul_io::address::system_text(&error));
            }
        }
    }
}

/// What the card's configuration says of its place on the bus.
fn bus(tree: &Tree, facts: &mut Facts) {
    let device = format!("/sys/class/net/{}/device", facts.interface);
    let real = tree.has(&device);
    facts.note("net/virtual", if real { "no" } else { "yes" });
    let Ok(octets) = tree.bytes(&format!("{device}/config")) else { return };
    let names = ["pci/payload", "pci/payload_most", "pci/read_request"];
    match express(&octets) {
        Some(link) => {
            for (name, value) in names.iter().zip([link.payload, link.payload_most, link.read_request]) {
                facts.note(*name, value);
            }
            facts.note("pci/relaxed_ordering", if link.relaxed { "on" } else { "off" });
        }
        None if octets.len() <= PUBLIC => {
            names.iter().for_each(|name| facts.unreadable(*name, "only root may read it"));
        }
        None => {}
    }
    if let Some(port) = tree.bytes(&format!("{device}/../config")).ok().as_deref().and_then(express) {
        facts.note("pci/port_payload", port.payload);
    }
}

struct Express {
    payload: u64,
    payload_most: u64,
    read_request: u64,
    relaxed: bool,
}

/// The capability of PCIe, in the list of a configuration.
fn express(octets: &[u8]) -> Option<Express> {
    let mut at = usize::from(*octets.get(CAPABILITIES)?);
    // A list in 256 octets has no more than 48 entries.
    for _ in 0..48 {
        if at < PUBLIC {
            return None;
        }
        if *octets.get(at)? == EXPRESS {
            let word = |offset: usize| {
                let two = octets.get(at + offset..at + offset + 2)?;
                Some(u16::from_le_bytes([two[0], two[1]]))
            };
            let (can, control) = (word(4)?, word(8)?);
            return Some(Express {
                payload: 128 << (control >> 5 & 7),
                payload_most: 128 << (can & 7),
                read_request: 128 << (control >> 12 & 7),
                relaxed: control >> 4 & 1 == 1,
            });
        }
        at = usize::from(*octets.get(at + 1)?);
    }
    None
}

/// Slots of memory, from what the firmware wrote (root only).
fn memory_slots(tree: &Tree, facts: &mut Facts) {
    let slots: Vec<Vec<u8>> = tree
        .matching("/sys/firmware/dmi/entries/17-*/raw")
        .iter()
        .filter_map(|path| tree.bytes(path).ok())
        .collect();
    if !slots.is_empty() {
        let used = slots.iter().filter(|raw| raw.get(12..14).is_some_and(|size| size != [0, 0])).count();
        facts.note("dmi/slots", slots.len());
        facts.note("dmi/slots_used", used);
        let channels: BTreeMap<String, bool> =
            slots.iter().filter_map(|raw| channel(raw)).fold(BTreeMap::new(), |mut all, (name, used)| {
                *all.entry(name).or_default() |= used;
                all
            });
        // Some boards name banks otherwise; then nothing is said of channels.
        if !channels.is_empty() {
            facts.note("dmi/channels", channels.len());
            facts.note("dmi/channels_used", channels.values().filter(|used| **used).count());
        }
    }
}

/// The channel of a slot, as its bank is called (`P0 CHANNEL A`, `NODE 1 CHANNEL 2 DIMM 0`), and whether there is memory in it
/// (DMTF DSP0134, 7.18).
fn channel(raw: &[u8]) -> Option<(String, bool)> {
    let used = raw.get(12..14)? != [0, 0];
    let (texts, number) = (raw.get(usize::from(*raw.get(1)?)..)?, usize::from(*raw.get(0x11)?));
    let bank = texts.split(|octet| *octet == 0).nth(number.checked_sub(1)?)?;
    let bank = String::from_utf8_lossy(bank).to_uppercase().replace('_', " ");
    let words: Vec<&str> = bank.split_whitespace().collect();
    let at = words.iter().position(|word| *word == "CHANNEL")?;
    Some((words.get(..at + 2)?.join(" "), used))
}

/// What the interface belongs to, and which others there are.
fn neighbours(tree: &Tree, facts: &mut Facts) {
    let x = facts.interface.clone();
    if let Some(master) = tree.link(&format!("/sys/class/net/{x}/master")) {
        facts.note("net/master", master);
    }
    if tree.has(&format!("/sys/class/net/{x}/brport")) {
        facts.note("net/bridged", "yes");
    }
    let up = tree.names("/sys/class/net").into_iter().filter(|name| {
        let state = tree.read(&format!("/sys/class/net/{name}/operstate")).unwrap_or_default();
        *name != "lo" && state.trim() == "up"
    });
    facts.note("net/up", up.collect::<Vec<_>>().join(" "));
}

/// Sockets that get a copy of every packet of the interface: `sk RefCnt Type Proto Iface R Rmem User Inode`.
fn taps(tree: &Tree, facts: &mut Facts) {
    let own = tree.read(&format!("/sys/class/net/{}/ifindex", facts.interface)).unwrap_or_default();
    let table = match tree.read("/proc/thread-self/net/packet") {
        Ok(table) => table,
        Err(error) => return facts.unreadable("net/taps", skyhaul_io::address::system_text(&error)),
    };
    let all = table.lines().skip(1).filter(|line| {
        let fields: Vec<&str> = line.split_whitespace().collect();
        let here = fields.get(4).is_some_and(|number| *number == "0" || *number == own.trim());
        here && fields.get(3) == Some(&"0003")
    });
    facts.note("net/taps", all.count());
}

/// Sysctls that are set somewhere and no longer exist.
fn removed_sysctls(tree: &Tree, facts: &mut Facts) {
    let mut files = vec!["/etc/sysctl.conf".to_owned()];
    files.extend(tree.matching("/etc/sysctl.d/*.conf"));
    let texts: Vec<String> = files.iter().filter_map(|path| tree.read(path).ok()).collect();
    let set = |name: &&str| {
        texts.iter().flat_map(|text| text.lines()).any(|line| line.trim_start().starts_with(name))
    };
    let gone = ["net.ipv4.tcp_low_latency", "net.ipv4.tcp_tw_recycle"].into_iter().filter(set);
    facts.note("sysctl/removed", gone.collect::<Vec<_>>().join(" "));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_configuration_of_a_card_is_read_within_its_bounds() {
        let mut octets = vec![0u8; 256];
        octets[CAPABILITIES] = 0x40;
        octets[0x40..0x42].copy_from_slice(&[5, 0x60]);
        octets[0x60..0x62].copy_from_slice(&[EXPRESS, 0]);
        octets[0x64] = 2;
        octets[0x68..0x6A].copy_from_slice(&(5u16 << 12 | 1 << 5 | 1 << 4).to_le_bytes());
        let link = express(&octets).unwrap();
        assert_eq!(
            (link.payload, link.payload_most, link.read_request, link.relaxed),
            (256, 512, 4096, true)
        );
        for cut in 0..octets.len() {
            let _ = express(&octets[..cut]);
        }
        octets[0x41] = 0x40;
        assert!(express(&octets).is_none(), "a list that goes round ends");
    }

    #[test]
    fn a_slot_of_memory_tells_its_channel() {
        let slot = |size: u8, bank: &str| {
            let mut raw = vec![0; 0x54];
            (raw[0], raw[1], raw[12], raw[0x10], raw[0x11]) = (17, 0x54, size, 1, 2);
            raw.extend(format!("DIMM 0\0{bank}\0\0").bytes());
            channel(&raw)
        };
        assert_eq!(slot(1, "P0 CHANNEL A"), Some(("P0 CHANNEL A".to_owned(), true)));
        assert_eq!(slot(0, "NODE 1 Channel_2 DIMM 0"), Some(("NODE 1 CHANNEL 2".to_owned(), false)));
        for other in ["BANK 0", "", "CHANNEL"] {
            assert_eq!(slot(1, other), None, "{other}");
        }
        assert_eq!(channel(&[17, 255, 0]), None);
    }
}
