//! Files whose text is a fact as it is.

use crate::host::facts::Facts;
use skyhaul_io::host::tree::Tree;
use std::io::ErrorKind;

/// Patterns: `*` is any part of a name, `{X}` the interface.
const FILES: &[&str] = &[
    "/proc/cmdline",
    "/proc/sys/kernel/numa_balancing",
    "/proc/sys/kernel/sched_rt_runtime_us",
    "/proc/sys/vm/dirty_background_bytes",
    "/proc/sys/vm/dirty_background_ratio",
    "/proc/sys/vm/dirty_bytes",
    "/proc/sys/vm/dirty_ratio",
    "/sys/devices/system/clocksource/clocksource0/current_clocksource",
    "/sys/devices/system/cpu/cpu*/cache/index3/shared_cpu_list",
    "/sys/devices/system/cpu/cpu*/cpufreq/energy_performance_preference",
    "/sys/devices/system/cpu/cpu*/cpufreq/scaling_governor",
    "/sys/devices/system/cpu/cpu*/cpuidle/state*/disable",
    "/sys/devices/system/cpu/cpu*/cpuidle/state*/latency",
    "/sys/devices/system/cpu/cpu*/cpuidle/state*/name",
    "/sys/devices/system/cpu/cpu*/power/energy_perf_bias",
    "/sys/devices/system/cpu/cpu*/topology/physical_package_id",
    "/sys/devices/system/cpu/cpufreq/boost",
    "/sys/devices/system/cpu/intel_pstate/no_turbo",
    "/sys/devices/system/cpu/isolated",
    "/sys/devices/system/cpu/nohz_full",
    "/sys/devices/system/cpu/online",
    "/sys/devices/system/cpu/smt/active",
    "/sys/devices/system/cpu/vulnerabilities/*",
    "/sys/devices/system/node/node*/cpulist",
    "/sys/devices/system/node/node*/hugepages/hugepages-2048kB/nr_hugepages",
    "/sys/kernel/mm/transparent_hugepage/enabled",
    "/sys/class/net/{X}/bonding/mode",
    "/sys/class/net/{X}/bonding/slaves",
    "/sys/class/net/{X}/bonding/xmit_hash_policy",
    "/sys/class/net/{X}/device/current_link_speed",
    "/sys/class/net/{X}/device/current_link_width",
    "/sys/class/net/{X}/device/iommu_group/type",
    "/sys/class/net/{X}/device/local_cpulist",
    "/sys/class/net/{X}/device/max_link_speed",
    "/sys/class/net/{X}/device/max_link_width",
    "/sys/class/net/{X}/device/numa_node",
    "/sys/class/net/{X}/duplex",
    "/sys/class/net/{X}/gro_flush_timeout",
    "/sys/class/net/{X}/mtu",
    "/sys/class/net/{X}/napi_defer_hard_irqs",
    "/sys/class/net/{X}/operstate",
    "/sys/class/net/{X}/carrier",
    "/sys/class/net/{X}/queues/rx-*/rps_cpus",
    "/sys/class/net/{X}/queues/rx-*/rps_flow_cnt",
    "/sys/class/net/{X}/queues/tx-*/xps_cpus",
    "/sys/class/net/{X}/speed",
    "/sys/class/net/{X}/threaded",
    "/sys/class/net/{X}/tx_queue_len",
    "/sys/class/net/*/speed",
    "/proc/sys/net/core/busy_poll",
    "/proc/sys/net/core/busy_read",
    "/proc/sys/net/core/default_qdisc",
    "/proc/sys/net/core/max_skb_frags",
    "/proc/sys/net/core/netdev_budget",
    "/proc/sys/net/core/netdev_budget_usecs",
    "/proc/sys/net/core/netdev_max_backlog",
    "/proc/sys/net/core/optmem_max",
    "/proc/sys/net/core/rmem_default",
    "/proc/sys/net/core/rmem_max",
    "/proc/sys/net/core/rps_sock_flow_entries",
    "/proc/sys/net/core/wmem_default",
    "/proc/sys/net/core/wmem_max",
    "/proc/sys/net/ipv4/conf/{X}/arp_announce",
    "/proc/sys/net/ipv4/conf/{X}/arp_filter",
    "/proc/sys/net/ipv4/conf/{X}/arp_ignore",
    "/proc/sys/net/ipv4/conf/{X}/rp_filter",
    "/proc/sys/net/ipv4/conf/all/arp_announce",
    "/proc/sys/net/ipv4/conf/all/arp_filter",
    "/proc/sys/net/ipv4/conf/all/arp_ignore",
    "/proc/sys/net/ipv4/conf/all/rp_filter",
    "/proc/sys/net/ipv4/ip_early_demux",
    "/proc/sys/net/ipv4/ip_forward",
    "/proc/sys/net/ipv4/ipfrag_high_thresh",
    "/proc/sys/net/ipv4/tcp_*",
    "/proc/sys/net/ipv4/udp_early_demux",
    "/proc/sys/net/ipv4/udp_mem",
    "/proc/sys/net/ipv4/udp_rmem_min",
    "/proc/sys/net/mptcp/enabled",
    "/proc/sys/net/netfilter/nf_conntrack_count",
    "/proc/sys/net/netfilter/nf_conntrack_max",
];

/// Read them. Keys and other secrets of `tcp_*` are none of ours.
pub(super) fn note(tree: &Tree, facts: &mut Facts) {
    let interface = facts.interface.clone();
    for pattern in FILES {
        for path in tree.matching(&pattern.replace("{X}", &interface)) {
            if !path.ends_with("_key") {
                keep(tree, facts, &path);
            }
        }
    }
}

/// Note one file, or why it is not readable.
pub(super) fn keep(tree: &Tree, facts: &mut Facts, path: &str) {
    match tree.read(path) {
        Ok(text) => facts.note(path, text.trim_end()),
        Err(error) if error.kind() == ErrorKind::NotFound => {}
        Err(error) => facts.unreadable(path, skyhaul_io::address::system_text(&error)),
    }
}
