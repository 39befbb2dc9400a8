//! Hosts made by code: trees of files below a temporary directory, and what their kernels would answer.

use super::lists::{ASKED, CARD, COUNTERS, DISK, SYSCTLS};
use skyhaul::io::host::tree::Tree;
use skyhaul_measure::host::{Asked, Devices, Fact, Facts, Role, Target, gather};
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::path::PathBuf;
use tempfile::TempDir;

/// What the kernel of a made host answers.
#[derive(Clone, Debug, Default)]
pub(super) struct Fake {
    facts: BTreeMap<String, Fact>,
    free: BTreeMap<String, u64>,
}

impl Devices for Fake {
    fn towards(&self, _peer: IpAddr) -> Option<String> {
        Some("eth1".to_owned())
    }
    fn note(&self, _asked: &Asked, facts: &mut Facts) {
        facts.facts.extend(self.facts.clone());
    }
    fn count(&self, facts: &mut Facts) {
        facts.note("count/qdisc/drops", 0);
    }
    fn free(&self, mount: &str) -> Option<u64> {
        self.free.get(mount).copied()
    }
}

/// A made host.
#[derive(Debug)]
pub(super) struct World {
    root: TempDir,
    pub(super) fake: Fake,
    /// What files were before they were changed; a directory that is gone is not made again.
    changed: Vec<(PathBuf, Option<Vec<u8>>)>,
    pub(super) spoilt: bool,
    made: Fake,
}

impl World {
    pub(super) fn empty() -> Self {
        Self {
            root: TempDir::new().unwrap(),
            fake: Fake::default(),
            changed: Vec::new(),
            spoilt: false,
            made: Fake::default(),
        }
    }

    fn at(&self, path: &str) -> PathBuf {
        self.root.path().join(path.trim_start_matches('/'))
    }

    /// A symbolic link.
    pub(super) fn link(&self, path: &str, to: &str) {
        let path = self.at(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        let _ = std::fs::remove_file(&path);
        std::os::unix::fs::symlink(to, path).unwrap();
    }

    pub(super) fn tree(&self) -> Tree {
        Tree::new(self.root.path())
    }

    /// A file if the name begins with a slash, else what the kernel answers. `?` cannot be read, `-` is not there.
    pub(super) fn set(&mut self, name: &str, value: &str) {
        if !name.starts_with('/') {
            match (name.strip_prefix("free:"), value) {
                (Some(mount), value) => drop(self.fake.free.insert(mount.to_owned(), value.parse().unwrap())),
                (None, "-") => drop(self.fake.facts.remove(name)),
                (None, "?") => {
                    let unreadable = Fact::Unreadable { unreadable: "refused".into() };
                    self.fake.facts.insert(name.to_owned(), unreadable);
                }
                (None, value) => drop(self.fake.facts.insert(name.to_owned(), Fact::Text(value.to_owned()))),
            }
            return;
        }
        let path = self.at(name);
        self.spoilt |= path.is_dir();
        let new = path.ancestors().skip(1).take_while(|directory| !directory.exists()).last();
        self.changed.extend(new.map(|directory| (directory.to_owned(), None)));
        self.changed.push((path.clone(), std::fs::read(&path).ok()));
        let _ = std::fs::remove_file(&path).or_else(|_| std::fs::remove_dir_all(&path));
        match value {
            "-" => {}
            // A directory cannot be read as a file, by root either.
            "?" => std::fs::create_dir_all(&path).unwrap(),
            value => {
                std::fs::create_dir_all(path.parent().unwrap()).unwrap();
                std::fs::write(&path, format!("{value}\n")).unwrap();
            }
        }
    }

    /// What is made now is what `revert` makes again.
    pub(super) fn keep(&mut self) {
        self.changed.clear();
        (self.spoilt, self.made) = (false, self.fake.clone());
    }

    /// Take every change since then back.
    pub(super) fn revert(&mut self) {
        for (path, was) in self.changed.drain(..).rev() {
            let _ = std::fs::remove_file(&path).or_else(|_| std::fs::remove_dir_all(&path));
            if let Some(octets) = was {
                std::fs::write(&path, octets).unwrap();
            }
        }
        self.fake = self.made.clone();
    }

    /// Octets of a file.
    pub(super) fn octets(&mut self, name: &str, octets: &[u8]) {
        self.changed.push((self.at(name), std::fs::read(self.at(name)).ok()));
        std::fs::create_dir_all(self.at(name).parent().unwrap()).unwrap();
        std::fs::write(self.at(name), octets).unwrap();
    }

    pub(super) fn all(&mut self, list: &[(&str, &str)]) {
        for (name, value) in list {
            self.set(name, value);
        }
    }

    pub(super) fn facts(&self) -> Facts {
        gather(&self.tree(), &self.fake, &Asked::default()).unwrap()
    }
}

/// 100 Gb/s over 10 ms, sent and received.
pub(super) fn target() -> Target {
    let read = |rate: &str, rtt: &str| {
        Target::new(Some(rate.parse().unwrap()), Some(rtt.parse().unwrap()), Role::Both, Some(8), None)
    };
    read("100Gbps", "10ms")
}

/// What every made host has: sysctls, counters, one interface of 100 Gb/s with eight queues, one disk.
fn common(world: &mut World, cpus: usize) {
    for (name, value) in SYSCTLS {
        world.set(&format!("/proc/sys/{name}"), value);
    }
    for (name, value) in COUNTERS {
        world.set(&format!("/proc/thread-self/net/{name}"), value);
    }
    let softnet: Vec<String> =
        (0..cpus).map(|cpu| format!("00000064 0 0 0 0 0 0 0 0 0 0 0 {cpu:08x}")).collect();
    world.set("/proc/thread-self/net/softnet_stat", &softnet.join("\n"));
    for (name, value) in CARD {
        world.set(&format!("ethtool/eth1/{name}"), value);
    }
    world.all(ASKED);
    let net = "/sys/class/net/eth1";
    for (name, value) in [
        ("speed", "100000"),
        ("duplex", "full"),
        ("operstate", "up"),
        ("carrier_changes", "2"),
        ("mtu", "9000"),
        ("tx_queue_len", "1000"),
        ("gro_flush_timeout", "0"),
        ("napi_defer_hard_irqs", "0"),
        ("threaded", "0"),
        ("ifindex", "3"),
        ("statistics/rx_missed_errors", "0"),
        ("statistics/rx_packets", "77"),
    ] {
        world.set(&format!("{net}/{name}"), value);
    }
    for queue in 0..8 {
        world.set(&format!("{net}/queues/rx-{queue}/rps_cpus"), "0000");
        world.set(&format!("{net}/queues/rx-{queue}/rps_flow_cnt"), "4096");
        world.set(&format!("{net}/queues/tx-{queue}/xps_cpus"), &format!("{:04x}", 1 << queue));
    }
    for (name, value) in DISK {
        world.set(&format!("/sys/block/nvme0n1/queue/{name}"), value);
    }
    world.set("/sys/block/nvme0n1/nvme0n1p1/start", "2048");
    world.all(&[
        ("/proc/cmdline", "root=/dev/sda1 iommu=pt intel_iommu=on"),
        ("/proc/meminfo", "MemTotal:       268435456 kB"),
        ("/proc/self/status", "Name:\tskyhaul\nCapEff:\t0000000000000000\nCpus_allowed_list:\t0-7"),
        (
            "/proc/self/limits",
            "Limit Soft Hard Units\nMax locked memory  unlimited unlimited bytes\nMax open files  65536 65536 files\nMax realtime priority  50 50",
        ),
        ("/proc/1/comm", "systemd"),
        ("/proc/1/cgroup", "0::/init.scope"),
        ("/proc/self/mountinfo", "36 35 259:1 / /data rw,noatime shared:1 - xfs /dev/nvme0n1p1 rw,attr2"),
        ("/sys/kernel/mm/transparent_hugepage/enabled", "always [madvise] never"),
        ("/sys/devices/system/clocksource/clocksource0/current_clocksource", "tsc"),
        ("/sys/devices/system/cpu/isolated", ""),
        ("/sys/devices/system/cpu/vulnerabilities/meltdown", "Not affected"),
        ("/sys/devices/system/cpu/online", &format!("0-{}", cpus - 1)),
    ]);
}

/// Processors, caches and memory of a machine that is no guest: `sockets`, and `share` processors for each third-level cache.
fn metal(world: &mut World, model: &str, cpus: usize, sockets: usize, share: usize) {
    let flags = "fpu constant_tsc nonstop_tsc";
    world.set("/proc/cpuinfo", &format!("processor\t: 0\nmodel name\t: {model}\nflags\t\t: {flags}"));
    world.set("/sys/devices/system/cpu/smt/active", "0");
    for cpu in 0..cpus {
        let head = format!("/sys/devices/system/cpu/cpu{cpu}");
        let first = cpu / share * share;
        for (name, value) in [
            ("cpufreq/scaling_governor", "performance".to_owned()),
            ("cpufreq/energy_performance_preference", "performance".to_owned()),
            ("cpuidle/state0/latency", "0".to_owned()),
            ("cpuidle/state0/name", "POLL".to_owned()),
            ("cpuidle/state0/disable", "0".to_owned()),
            ("cpuidle/state1/latency", "2".to_owned()),
            ("cpuidle/state1/name", "C1".to_owned()),
            ("cpuidle/state1/disable", "0".to_owned()),
            ("cpuidle/state2/latency", "133".to_owned()),
            ("cpuidle/state2/name", "C6".to_owned()),
            ("cpuidle/state2/disable", "1".to_owned()),
            ("topology/physical_package_id", (cpu * sockets / cpus).to_string()),
            ("cache/index3/shared_cpu_list", format!("{first}-{}", first + share - 1)),
        ] {
            world.set(&format!("{head}/{name}"), &value);
        }
    }
    for node in 0..sockets {
        let each = cpus / sockets;
        let head = format!("/sys/devices/system/node/node{node}");
        world.set(&format!("{head}/cpulist"), &format!("{}-{}", node * each, node * each + each - 1));
        world.set(&format!("{head}/hugepages/hugepages-2048kB/nr_hugepages"), "0");
    }
    let device = "/sys/class/net/eth1/device";
    for (name, value) in [
        ("numa_node", "0"),
        ("local_cpulist", "0-7"),
        ("iommu_group/type", "identity"),
        ("current_link_speed", "16.0 GT/s PCIe"),
        ("current_link_width", "16"),
        ("max_link_speed", "16.0 GT/s PCIe"),
        ("max_link_width", "16"),
    ] {
        world.set(&format!("{device}/{name}"), value);
    }
    world.octets(&format!("{device}/config"), &configuration(512, 4096));
    let mut table = "           CPU0       CPU1\n".to_owned();
    for queue in 0..8 {
        let irq = 100 + queue;
        table += &format!("{irq}:  1  0  IR-PCI-MSIX-0000:41:00.0  {queue}-edge  eth1-{queue}\n");
        world.set(&format!("/proc/irq/{irq}/smp_affinity_list"), &queue.to_string());
        world.set(&format!("/proc/irq/{irq}/effective_affinity_list"), &queue.to_string());
    }
    world.set("/proc/interrupts", &table);
    for (name, value) in [
        ("device/numa_node", "0"),
        ("device/current_link_speed", "16.0 GT/s PCIe"),
        ("device/current_link_width", "4"),
        ("device/max_link_speed", "16.0 GT/s PCIe"),
        ("device/max_link_width", "4"),
        ("hwmon3/temp1_input", "41000"),
        ("hwmon3/temp1_max", "80000"),
    ] {
        world.set(&format!("/sys/class/nvme/nvme0/{name}"), value);
    }
}

/// A configuration of PCIe with this payload and read request.
pub(super) fn configuration(payload: u16, request: u16) -> Vec<u8> {
    let code = |bytes: u16| (bytes / 128).ilog2() as u16;
    let mut octets = vec![0u8; 256];
    octets[0x34] = 0x60;
    octets[0x60..0x62].copy_from_slice(&[0x10, 0]);
    octets[0x64] = 2;
    octets[0x68..0x6A].copy_from_slice(&(code(request) << 12 | code(payload) << 5 | 1 << 4).to_le_bytes());
    octets
}

/// A server of two sockets with 16 cores and a card of 100 Gb/s, everything as wanted.
pub(super) fn server() -> World {
    let mut world = World::empty();
    common(&mut world, 16);
    metal(&mut world, "Intel(R) Xeon(R) Gold 6346", 16, 2, 8);
    world.set("/sys/devices/system/cpu/intel_pstate/no_turbo", "0");
    world
}

/// One socket, four third-level caches; the kernel's defaults where they differ.
pub(super) fn epyc() -> World {
    let mut world = World::empty();
    common(&mut world, 16);
    metal(&mut world, "AMD EPYC 9354", 16, 1, 4);
    world.all(&[
        ("/sys/devices/system/cpu/cpufreq/boost", "1"),
        ("/sys/class/net/eth1/device/local_cpulist", "0-15"),
        ("ethtool/eth1/channels/combined", "16"),
        ("/proc/self/status", "CapEff:\t0\nCpus_allowed_list:\t0-15"),
    ]);
    world
}

/// A virtual machine.
pub(super) fn guest() -> World {
    let mut world = World::empty();
    common(&mut world, 4);
    world.all(&[
        ("/proc/cpuinfo", "processor\t: 0\nmodel name\t: QEMU\nflags\t\t: fpu hypervisor"),
        ("/sys/devices/system/clocksource/clocksource0/current_clocksource", "kvm-clock"),
        ("/sys/class/net/eth1/speed", "-1"),
        ("ethtool/eth1/driver", "virtio_net"),
    ]);
    for name in [
        "coalesce/adaptive-rx",
        "pause/rx",
        "fec",
        "ring/rx",
        "ring/rx-max",
        "channels/combined",
        "hash/udp4",
        "indirection",
    ] {
        world.set(&format!("ethtool/eth1/{name}"), "?");
    }
    world
}

/// A container on the server, with an interface of software.
pub(super) fn container() -> World {
    let mut world = server();
    world.all(&[
        ("/.dockerenv", ""),
        ("ethtool/eth1/driver", "veth"),
        ("qdisc/root", "noqueue"),
        ("qdisc/leaves", "-"),
    ]);
    std::fs::remove_dir_all(world.at("/sys/class/net/eth1/device")).unwrap();
    world
}
