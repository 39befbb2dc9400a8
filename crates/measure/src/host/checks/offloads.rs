//! B9 to B16: what the card does for the CPU, and how it spreads packets over queues.

use crate::host::check::{ALL, from, table};
use crate::host::check::{HostView, cpu_list};
use crate::host::found::{CheckOutcome, CheckResult, NotJudged, not_applicable};
use crate::host::target::HostRole;

/// Queues beyond which there is nothing to gain.
const QUEUES: u64 = 32;
/// Flows that the kernel follows to their reader.
const FOLLOWED: u64 = 32768;

table! {
    /// Offloads and queues.
    TABLE:
    B9 "offloads: GRO, GSO, TSO, scatter-gather, checksums" High Cpu "FOU" ALL, offloads:
        "Without them the kernel handles each packet by itself instead of whole trains.";
    B10 "large receive offload" Low Cpu "O" ALL, large_receive:
        "LRO merges packets and loses their headers, which breaks forwarding. Hardware GRO keeps them.";
    B11 "UDP segmentation offload" High Cpu "K" from(4, 18), udp_trains:
        "A UDP sender passes up to 64 packets in one call, at two to five times the rate.";
    B12 "number of queues" Medium Rate "D" ALL, channels:
        "Too few queues leave cores idle; too many scatter interrupts.";
    B13 "UDP flow hash" High Loss "K" ALL, udp_hash:
        "Many cards choose the queue by addresses alone, so all flows of one sender share a core.";
    B14 "RSS indirection table" Low Rate "K" ALL, indirection:
        "Queues that are not in the table receive nothing.";
    B15 "flow steering" Medium Cpu "UK" ALL, steering:
        "A packet that is handled on its reader's core is already in the right cache.";
    B16 "software packet steering (RPS, XPS)" Low Cpu "K" ALL, packet_steering:
        "RPS passes packets to other cores through a backlog queue, which costs time and can overflow.";
}

/// Whether an offload is on; none if the driver has no such one.
fn feature(h: &HostView<'_>, name: &str) -> Result<Option<(bool, bool)>, NotJudged> {
    // One that every driver has tells whether features can be read at all.
    h.text(&h.card("feature/rx-gro"))?;
    let state = h.maybe(&h.card(&format!("feature/{name}")));
    Ok(state.map(|state| (state.starts_with("on"), !state.ends_with("fixed"))))
}

fn offloads(h: &HostView<'_>) -> CheckOutcome {
    let wanted = [
        "rx-gro",
        "tx-generic-segmentation",
        "tx-tcp-segmentation",
        "tx-scatter-gather",
        "rx-checksum",
        "tx-checksum-ip-generic",
        "tx-checksum-ipv4",
        "tx-checksum-ipv6",
    ];
    let (mut off, mut fixed) = (Vec::new(), Vec::new());
    for name in wanted {
        match feature(h, name)? {
            Some((false, true)) => off.push(name),
            // A driver has either the general checksum or those of the families.
            Some((false, false)) if !name.starts_with("tx-checksum") => fixed.push(name),
            _ => {}
        }
    }
    let value = if off.is_empty() { "on".to_owned() } else { format!("off: {}", off.join(", ")) };
    let mut found = CheckResult::rule(off.is_empty(), value, "on");
    found = found.shows_if(!fixed.is_empty(), format!("the driver does not support {}", fixed.join(", ")));
    for name in off {
        found = found.set(h.card(&format!("feature/{name}")), "on");
    }
    Ok(found)
}

fn large_receive(h: &HostView<'_>) -> CheckOutcome {
    let lro = feature(h, "rx-lro")?;
    if let Some((true, can)) = lro {
        let found = CheckResult::warn("LRO on", "LRO off");
        return Ok(if can { found.set(h.card("feature/rx-lro"), "off") } else { found });
    }
    Ok(match feature(h, "rx-gro-hw")? {
        Some((false, true)) => {
            CheckResult::info("LRO off, GRO in the card off", "GRO in the card, where it is steady")
                .set(h.card("feature/rx-gro-hw"), "on")
        }
        Some((true, _)) => CheckResult::pass("LRO off, GRO in the card on", "LRO off"),
        _ => CheckResult::pass("LRO off", "LRO off"),
    })
}

fn udp_trains(h: &HostView<'_>) -> CheckOutcome {
    let mut wrong = Vec::new();
    for (name, wanted) in
        [("tx-udp-segmentation", true), ("rx-udp-gro-forwarding", false), ("rx-gro-list", false)]
    {
        if let Some((on, true)) = feature(h, name)?
            && on != wanted
        {
            wrong.push((name, if wanted { "on" } else { "off" }));
        }
    }
    let segments = feature(h, "tx-udp-segmentation")?;
    let state = |wrong: &(&str, &str)| format!("{} not {}", wrong.0, wrong.1);
    let value = match (wrong.is_empty(), segments) {
        (true, Some((true, _))) => "on".to_owned(),
        (true, _) => "not supported by the card: the kernel splits trains".to_owned(),
        (false, _) => wrong.iter().map(state).collect::<Vec<_>>().join(", "),
    };
    let mut found = CheckResult::rule(wrong.is_empty(), value, "tx-udp-segmentation on, for forwarding off");
    for (name, to) in wrong {
        found = found.set(h.card(&format!("feature/{name}")), to);
    }
    Ok(found)
}

fn channels(h: &HostView<'_>) -> CheckOutcome {
    let apart = h.facts.number(&h.card("channels/rx")).unwrap_or(0);
    let rx = h.asked_number("channels/combined")?.saturating_add(apart);
    let most = h.facts.number(&h.card("channels/combined-max")).unwrap_or(rx).max(rx);
    let cores = h.near().map_or(h.processors().len(), |near| near.len()) as u64;
    if cores == 0 {
        return Err(NotJudged::Unknown("the number of processors is not known".into()));
    }
    let single = h.target.measures() || h.target.flows == 1;
    let wanted = cores.min(QUEUES).min(most);
    let value = format!("{rx} of {most}, {cores} cores near the card");
    let found = match (rx > cores, rx < wanted) {
        (true, _) => CheckResult::warn(value, format!("{wanted}")),
        (false, true) if !single => CheckResult::warn(value, format!("{wanted}")),
        _ => CheckResult::pass(value, format!("up to {wanted}")),
    };
    let name = h.interface();
    Ok(found.advise(
        format!("ethtool -L {name} combined {wanted}    # interrupts the link briefly"),
        format!("CombinedChannels={wanted} in /etc/systemd/network/10-{name}.link"),
    ))
}

/// Nothing to spread over one queue.
fn several_queues(h: &HostView<'_>) -> Result<(), NotJudged> {
    match h.queues() {
        0 => Err(NotJudged::Unknown("the number of queues is not known".into())),
        1 => not_applicable("the interface has one queue"),
        _ => Ok(()),
    }
}

fn udp_hash(h: &HostView<'_>) -> CheckOutcome {
    several_queues(h)?;
    let mut short = Vec::new();
    let first = h.asked("hash/udp4")?;
    for flow in ["udp4", "udp6"] {
        let fields = h.maybe(&h.card(&format!("hash/{flow}")));
        if fields.is_some_and(|fields| !(fields.contains('f') && fields.contains('n'))) {
            short.push(flow);
        }
    }
    let udp =
        matches!(h.target.role, HostRole::Record | HostRole::Measure | HostRole::Receive | HostRole::Both);
    let mut found = CheckResult::rule_if(udp, short.is_empty(), first, "sdfn (addresses and ports)");
    found = found
        .shows_if(!short.is_empty(), "addresses alone are enough with many senders or fragmented packets");
    for flow in short {
        found = found.set(h.card(&format!("hash/{flow}")), "sdfn");
    }
    Ok(found)
}

fn indirection(h: &HostView<'_>) -> CheckOutcome {
    several_queues(h)?;
    let table = h.asked("indirection")?;
    let counts: Vec<u64> =
        table.split_whitespace().filter_map(|pair| pair.split_once(':')?.1.parse().ok()).collect();
    let (Some(least), Some(most)) = (counts.iter().min(), counts.iter().max()) else {
        return Err(NotJudged::Unknown("the table is empty".into()));
    };
    let queues = h.queues();
    let even = most - least <= 1;
    let found = CheckResult::rule(
        even,
        format!("{} of {queues} queues, {least} to {most} values each", counts.len()),
        "even",
    )
    .shows_if(counts.len() < queues, "the other queues may be reserved for flow rules");
    Ok(found.advise(format!("ethtool -X {} equal {queues}", h.interface()), ""))
}

fn steering(h: &HostView<'_>) -> CheckOutcome {
    several_queues(h)?;
    let (ntuple, can) = feature(h, "rx-ntuple-filter")?.unwrap_or((false, false));
    let rules = h.facts.number(&h.card("rules")).unwrap_or(0);
    let flows = h.sysctl("net.core.rps_sock_flow_entries")?;
    let counts = h.each("/sys/class/net/", "/rps_flow_cnt");
    let followed = flows > 0 && counts.iter().any(|(_, count)| *count != "0");
    let value = match (rules, ntuple && followed, followed) {
        (0, true, _) => "flows follow their readers in the card (aRFS)".to_owned(),
        (0, false, true) => "flows follow their readers in the kernel (RFS)".to_owned(),
        (0, false, false) => "no rules, and flows do not follow their readers".to_owned(),
        (rules, ..) => format!("{rules} rules lead flows to queues"),
    };
    let found = CheckResult::rule_if(
        h.target.role == HostRole::Record,
        rules > 0 || followed,
        value,
        "a rule for each flow, or aRFS",
    );
    let found = if can && !ntuple { found.set(h.card("feature/rx-ntuple-filter"), "on") } else { found };
    Ok(found.advise(
        format!("ethtool -N {} flow-type udp4 dst-port PORT action QUEUE; or rps_sock_flow_entries={FOLLOWED} and rps_flow_cnt={FOLLOWED}/queues", h.interface()),
        "",
    ))
}

/// Whether a mask of processors, hexadecimal, has any.
fn any(mask: &str) -> bool {
    mask.chars().any(|digit| digit != '0' && digit != ',')
}

fn packet_steering(h: &HostView<'_>) -> CheckOutcome {
    let prefix = h.net("queues/");
    let all = h.facts.each(&prefix, "/rps_cpus").map(|(queue, mask)| (queue.to_owned(), mask.to_owned()));
    let all: Vec<(String, String)> = all.collect();
    if all.is_empty() {
        return Err(NotJudged::Unknown("the interface's queues cannot be read".into()));
    }
    let cores = h.maybe("/sys/devices/system/cpu/online").map(cpu_list).unwrap_or_default().len();
    let steered: Vec<&String> = all.iter().filter(|(_, mask)| any(mask)).map(|(queue, _)| queue).collect();
    let sends: Vec<bool> = h.facts.each(&prefix, "/xps_cpus").map(|(_, mask)| any(mask)).collect();
    let enough = all.len() >= cores.min(QUEUES as usize);
    let sorted = sends.len() <= 1 || sends.iter().any(|set| *set);
    let value = format!(
        "RPS {}, XPS {}",
        if steered.is_empty() { "off" } else { "on" },
        if sends.iter().any(|set| *set) { "on" } else { "off" }
    );
    let mut found = match (steered.is_empty() || !enough, sorted) {
        (false, _) => CheckResult::warn(value, "RPS off with a queue for each core"),
        (true, false) => CheckResult::info(value, "XPS one to one")
            .advise(format!("echo MASK > {prefix}tx-N/xps_cpus, one core for each queue"), ""),
        (true, true) => CheckResult::pass(value, "RPS off, XPS one to one"),
    };
    if enough {
        for queue in steered {
            found = found.set(format!("{prefix}{queue}/rps_cpus"), 0);
        }
    }
    Ok(found)
}
