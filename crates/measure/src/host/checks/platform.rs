//! A10 to A19: IOMMU, PCIe, memory, clocks, limits of this process.

use crate::host::check::{ALL, table};
use crate::host::check::{CPUS, HostView, chosen, cpu_list};
use crate::host::found::{CheckOutcome, CheckResult, NotJudged, not_applicable, unknown};
use crate::host::target::{HostRole, size};
use std::collections::BTreeSet;

/// Bytes of memory that may be locked, at least: rings of one receiver and one recorder.
const LOCKED: u64 = 64 << 20;
/// Files that may be open, at least.
const FILES: u64 = 4096;
/// Privileges: to lock memory, to be above others.
const LOCK: u64 = 14;
const NICE: u64 = 23;

table! {
    /// The machine around them.
    TABLE:
    A10 "IOMMU" High Rate "FO" ALL, iommu:
        "With translation, the memory of every packet is mapped and unmapped; in passthrough mode this costs nothing.";
    A11 "mitigations of CPU vulnerabilities" Low Cpu "K" ALL, mitigations:
        "They make system calls and interrupts more expensive, so the cost per packet can exceed published figures.";
    A12 "PCIe link of the card" High Rate "U" ALL, pcie:
        "A narrow slot, or a link trained below its maximum, limits the rate silently.";
    A13 "PCIe payload and read request size" Medium Rate "K" ALL, payload:
        "Small transfers leave less of the bus for data.";
    A14 "NUMA nodes per socket" Medium Rate "D" ALL, nodes:
        "Data cross memory two or three times, and a node with a fraction of the channels has that fraction of the bandwidth.";
    A15 "huge pages" Low Jitter "T" ALL, huge_pages:
        "Small pages cause TLB misses; collecting huge pages at each page fault causes stalls.";
    A16 "clock source" High Cpu "K" ALL, clock_source:
        "Reading the time takes 20 ns with tsc, and about a microsecond with other sources.";
    A17 "isolated CPUs" Low Jitter "K" ALL, isolated:
        "The scheduler places no thread on an isolated CPU, so programs must be pinned to it.";
    A18 "real-time priority" Low Loss "K" ALL, realtime:
        "If other programs preempt a receiver, its socket buffer overflows.";
    A19 "limits on locked memory and open files" Medium Loss "K" ALL, limits:
        "Rings and locked buffers cannot be allocated beyond these limits.";
}

fn iommu(h: &HostView<'_>) -> CheckOutcome {
    h.on_metal()?;
    let name = h.net("device/iommu_group/type");
    if !h.facts.facts.contains_key(&name) {
        return match h.maybe("host/iommus") {
            Some("0") | None => Ok(CheckResult::pass("no IOMMU in use", "passed through")),
            Some(_) => unknown(format!("the group of {} is not known", h.interface())),
        };
    }
    let kind = h.text(&name)?;
    let arguments = h.maybe("/proc/cmdline").unwrap_or_default().split_whitespace();
    let said: Vec<&str> = arguments.filter(|word| word.contains("iommu")).collect();
    let found = CheckResult::rule(kind == "identity", kind, "identity (passed through)")
        .shows_if(!said.is_empty(), format!("kernel arguments: {}", said.join(" ")));
    Ok(found.advise(
        "",
        "kernel argument iommu=pt, with intel_iommu=on or amd_iommu=on; effective after the next boot",
    ))
}

fn mitigations(h: &HostView<'_>) -> CheckOutcome {
    let head = "/sys/devices/system/cpu/vulnerabilities/";
    let all = h.each(head, "");
    if all.is_empty() {
        h.denied(head, "")?;
        return unknown("the kernel does not report it");
    }
    let active: Vec<&str> =
        all.iter().filter(|(_, is)| is.starts_with("Mitigation")).map(|(name, _)| *name).collect();
    Ok(match active.len() {
        0 => CheckResult::pass("none active", "known"),
        count => CheckResult::info(format!("{count} active"), "known").shows(active.join(", ")),
    })
}

/// What a link of PCIe carries in Gb/s: transfers, lanes, and the code.
fn capacity(speed: &str, width: &str) -> Option<f64> {
    let speed: f64 = speed.split_whitespace().next()?.parse().ok()?;
    let width: f64 = width.trim().parse().ok()?;
    let code = if speed < 6.0 { 0.8 } else { 128.0 / 130.0 };
    Some(speed * width * code).filter(|rate| *rate > 0.0)
}

fn pcie(h: &HostView<'_>) -> CheckOutcome {
    h.on_metal()?;
    if h.is_virtual() {
        return not_applicable("the interface has no card");
    }
    let read = |which: &str| -> Result<f64, NotJudged> {
        let speed = h.text(&h.net(&format!("device/{which}_link_speed")))?;
        let width = h.text(&h.net(&format!("device/{which}_link_width")))?;
        capacity(speed, width).ok_or_else(|| NotJudged::Unknown(format!("a link of '{speed}' times {width}")))
    };
    let now = read("current")?;
    let most = read("max").unwrap_or(now);
    let link = h.facts.link_rate().unwrap_or(0).max(h.target.rate);
    let need = 1.1 * link as f64 / 1e9;
    let found = CheckResult::rule(now >= need, format!("{now:.0} Gb/s"), format!("at least {need:.0} Gb/s"))
        .shows_if(
            now < most * 0.99,
            format!("the card supports {most:.0} Gb/s: the slot or its link limits it"),
        );
    Ok(found.advise("", "move the card to a slot with all its lanes, or reseat it"))
}

fn payload(h: &HostView<'_>) -> CheckOutcome {
    h.on_metal()?;
    if h.is_virtual() {
        return not_applicable("the interface has no card");
    }
    let (size, request) = (h.number("pci/payload")?, h.number("pci/read_request")?);
    let most = h.number("pci/payload_most")?.min(h.facts.number("pci/port_payload").unwrap_or(u64::MAX));
    let found = CheckResult::rule(
        size >= most && request >= 4096,
        format!("payload {size} B, read request {request} B"),
        format!("payload {most} B, read request 4096 B"),
    );
    let order = h.maybe("pci/relaxed_ordering").unwrap_or("not known");
    Ok(found
        .shows(format!("relaxed ordering: {order}"))
        .advise("", "the firmware's settings for PCIe, or the card's own tool (mlxconfig)"))
}

fn nodes(h: &HostView<'_>) -> CheckOutcome {
    h.on_metal()?;
    let packages: BTreeSet<&str> =
        h.each(CPUS, "/topology/physical_package_id").into_iter().map(|(_, package)| package).collect();
    let (nodes, sockets) = (h.nodes(), packages.len());
    if nodes == 0 || sockets == 0 {
        return unknown("the kernel does not report NUMA nodes");
    }
    let value = format!("{nodes} nodes on {sockets} sockets");
    let slots = match (h.maybe("dmi/slots_used"), h.maybe("dmi/slots")) {
        (Some(used), Some(all)) => format!("{used} of {all} memory slots are populated"),
        _ => "to list populated slots: dmidecode -t memory, as root".to_owned(),
    };
    // What the firmware names so, in both halves of a pair of slots that share one.
    let channels = (h.facts.number("dmi/channels_used"), h.facts.number("dmi/channels"));
    if let (Some(used), Some(all)) = channels
        && used < all
    {
        let found = CheckResult::warn(
            format!("{value}; {used} of {all} channels have memory"),
            "memory in every channel",
        );
        return Ok(found
            .shows(slots)
            .advise("", "install a module in each channel, in the order of the board's manual"));
    }
    let found = CheckResult::rule(nodes <= sockets, value, "one for each socket");
    Ok(found.shows(slots).advise("", "NPS1 in the firmware's settings (Intel: SNC off)"))
}

fn huge_pages(h: &HostView<'_>) -> CheckOutcome {
    let name = "/sys/kernel/mm/transparent_hugepage/enabled";
    let value = chosen(h.text(name)?);
    let reserved: Vec<String> = h
        .each("/sys/devices/system/node/node", "/hugepages/hugepages-2048kB/nr_hugepages")
        .into_iter()
        .map(|(node, pages)| format!("node {node}: {pages}"))
        .collect();
    let found = match value {
        "madvise" => CheckResult::pass(value, "madvise"),
        _ => CheckResult::info(value, "madvise")
            .shows("tuned: always for throughput, never for latency")
            .set(name, "madvise"),
    };
    Ok(found.shows_if(!reserved.is_empty(), format!("pages of 2 MiB reserved, {}", reserved.join(", "))))
}

fn clock_source(h: &HostView<'_>) -> CheckOutcome {
    let name = "/sys/devices/system/clocksource/clocksource0/current_clocksource";
    let source = h.text(name)?;
    let fast = matches!(source, "tsc" | "arch_sys_counter" | "timebase" | "riscv_clocksource");
    let of_guest = h.is_guest() && matches!(source, "kvm-clock" | "hyperv_clocksource_tsc_page" | "xen");
    let flags = h.maybe("cpu/flags").unwrap_or_default();
    let steady = ["constant_tsc", "nonstop_tsc"].iter().all(|flag| flags.split(' ').any(|f| f == *flag));
    let found = CheckResult::rule(fast || of_guest, source, "tsc");
    let found = if steady { found.set(name, "tsc") } else { found };
    Ok(found.shows_if(source == "tsc" && !steady, "its rate may vary: no constant_tsc, nonstop_tsc"))
}

fn isolated(h: &HostView<'_>) -> CheckOutcome {
    let isolated = h.text("/sys/devices/system/cpu/isolated")?;
    let quiet = h.maybe("/sys/devices/system/cpu/nohz_full").map_or("", |list| list.trim_matches(['(', ')']));
    let quiet = if quiet == "null" { "" } else { quiet };
    if isolated.is_empty() && quiet.is_empty() {
        return Ok(CheckResult::pass("none", "none, or programs pinned there"));
    }
    let value = format!("isolated {}, without ticks {}", or_none(isolated), or_none(quiet));
    let allowed = h.maybe("process/cpus_allowed").map(cpu_list).unwrap_or_default();
    let inside = allowed.is_subset(&cpu_list(isolated));
    Ok(if inside && !isolated.is_empty() {
        CheckResult::pass(value, "programs pinned there")
    } else {
        CheckResult::info(value, "programs pinned there")
            .advise(format!("taskset -c {} COMMAND", or_none(isolated)), "")
    })
}

fn or_none(list: &str) -> &str {
    if list.is_empty() { "none" } else { list }
}

/// Whether this process has the privilege of this number.
fn privileged(h: &HostView<'_>, number: u64) -> bool {
    let all = h.maybe("process/privileges").and_then(|hex| u64::from_str_radix(hex, 16).ok());
    all.is_some_and(|all| all >> number & 1 == 1)
}

fn realtime(h: &HostView<'_>) -> CheckOutcome {
    let share: i64 = h.text("/proc/sys/kernel/sched_rt_runtime_us")?.parse().unwrap_or(0);
    let limit = h.text("limit/rtprio")?;
    let may = privileged(h, NICE) || limit != "0";
    let wants = matches!(h.target.role, HostRole::Record | HostRole::Measure);
    let value =
        format!("share {share} us of each second, {}", if may { "permitted" } else { "not permitted" });
    let found = CheckResult::rule_if(wants, share != 0 && may, value, "permitted");
    let found = if share == 0 { found.set("/proc/sys/kernel/sched_rt_runtime_us", 950_000) } else { found };
    let unit = "LimitRTPRIO=50 in the unit of the service";
    Ok(if may { found } else { found.advise("setcap cap_sys_nice+ep \"$(command -v skyhaul)\"", unit) })
}

fn limits(h: &HostView<'_>) -> CheckOutcome {
    let number = |text: &str| if text == "unlimited" { u64::MAX } else { text.parse().unwrap_or(0) };
    let (locked, files) = (h.text("limit/memlock")?, h.text("limit/nofile")?);
    let files_wanted = FILES.max(h.target.flows.saturating_mul(4));
    let enough = number(locked) >= LOCKED || privileged(h, LOCK);
    let shown = if locked == "unlimited" { locked.to_owned() } else { size(number(locked)) };
    let found = CheckResult::rule(
        enough && number(files) >= files_wanted,
        format!("locked memory {shown}, files {files}"),
        format!("locked memory {}, files {files_wanted}", size(LOCKED)),
    );
    // What is enough stays as it is: prlimit would lower it.
    let (few, short) = (number(files) < files_wanted, !enough);
    let now = [
        short.then(|| format!("--memlock={LOCKED}:{LOCKED}")),
        few.then(|| format!("--nofile={files_wanted}:{files_wanted}")),
    ];
    let always = [
        short.then(|| "LimitMEMLOCK=infinity".to_owned()),
        few.then(|| format!("LimitNOFILE={}", files_wanted.max(65_536))),
    ];
    let joined = |all: [Option<String>; 2], by: &str| all.into_iter().flatten().collect::<Vec<_>>().join(by);
    let (now, always) = (joined(now, " "), joined(always, " and "));
    if now.is_empty() {
        return Ok(found);
    }
    Ok(found.advise(
        format!("prlimit --pid $$ {now}"),
        format!("{always} in the unit of the service, or the same in /etc/security/limits.d"),
    ))
}

#[cfg(test)]
mod tests {
    #[test]
    fn a_link_of_pcie_carries_what_its_generation_says() {
        let rate = |speed: &str, width: &str| super::capacity(speed, width).map(|rate| rate.round() as u64);
        assert_eq!(rate("16.0 GT/s PCIe", "16"), Some(252));
        assert_eq!(rate("32.0 GT/s PCIe", "16"), Some(504));
        assert_eq!(rate("5.0 GT/s PCIe", "8"), Some(32));
        assert_eq!((rate("Unknown", "8"), rate("8.0 GT/s", "0")), (None, None));
    }
}
