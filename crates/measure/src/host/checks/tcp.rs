//! C1 to C25: memory of sockets, what every TCP connection needs, congestion control, and settings that are best left.

use crate::host::check::{ALL, HostView, from, sysctl, table};
use crate::host::found::{CheckOutcome, CheckResult, NotJudged, not_applicable};
use crate::host::target::{MAX_BUFFER_BYTES, size};

/// What copies of a page that is sent need to be noted.
const NOTES: u64 = 1 << 20;
/// Of what is not yet sent, a bulk sender needs at least.
const UNSENT: u64 = 1 << 20;

table! {
    /// TCP.
    TABLE:
    C1 "maximum socket buffer" High Loss "FOPL" ALL, largest:
        "The kernel silently caps larger requests, so a UDP receiver that pauses loses packets.";
    C2 "default socket buffers" Low Cpu "OK" ALL, defaults:
        "Every socket starts with them, and UDP sockets have no other limit.";
    C3 "TCP receive buffer" High Rate "FOPTL" ALL, tcp_receive:
        "The receive window grows to this maximum. Below twice the bandwidth-delay product it limits the rate.";
    C4 "TCP send buffer" High Rate "FOPTL" ALL, tcp_send:
        "It holds all unacknowledged data. Below twice the bandwidth-delay product it limits the rate.";
    C5 "total memory of TCP and of UDP" Medium Loss "U" ALL, together:
        "At this limit TCP windows shrink and UDP packets are dropped.";
    C6 "receive buffer autotuning" High Rate "K" ALL, automatic:
        "Without it the receive window stays at its default.";
    C7 "window scaling, SACK, timestamps" High Rate "FU" ALL, options:
        "They allow windows above 64 KiB, recovery from several losses, and sequence numbers that wrap in 0.34 s at 100 Gb/s.";
    C8 "saved metrics of earlier connections" Low Jitter "FPUL" ALL, metrics:
        "A new connection starts with the metrics of an earlier one, and stays slow if that one met losses.";
    C9 "slow start after idle" Medium Rate "TL" ALL, idle:
        "The congestion window shrinks in pauses between files.";
    C10 "path MTU probing" Medium Loss "FOPUL" ALL, probing:
        "If a path silently drops large packets, a connection hangs unless TCP tries smaller ones.";
    C11 "congestion control" High Rate "FOP" ALL, control:
        "It decides how much a loss costs: on long paths Reno takes minutes to recover, cubic seconds, and bbr does not slow down.";
    C12 "pacing for bbr" Low Cpu "F" from(4, 9), bbr:
        "bbr paces its packets. With fq this needs no timer for each connection.";
    C13 "default queueing discipline" Medium Rate "FOL" ALL, default_discipline:
        "Every new interface gets it (B24).";
    C14 "network backlog" Low Loss "OUL" ALL, backlog:
        "Only RPS, loopback and veth use it. Raise it only if packets were dropped there.";
    C15 "budget of the network softirq" Low Loss "KL" ALL, budget:
        "When it is used up, packets left in the ring wait for the next softirq.";
    C16 "packets dropped by softirqs" High Evidence "K" ALL, softnet:
        "They were lost between the card and the protocol stack.";
    C17 "busy polling" Low Jitter "TL" ALL, busy:
        "It spends CPU time to save microseconds. A program can enable it for its own socket.";
    C18 "socket option memory" Medium Cpu "FEL" ALL, option_memory:
        "Zero-copy sending needs it, and silently falls back to copying when it is used up.";
    C19 "TCP small queues limit" Low Rate "L" ALL, output_bytes:
        "A small limit throttles a single fast flow.";
    C20 "limit of unsent bytes" Low Rate "T" ALL, unsent:
        "A small limit wakes the sender every few packets. It is meant for HTTP servers.";
    C21 "window share of the receive buffer" Low Rate "D" ALL, window_share:
        "Since Linux 6.x the kernel's own estimate is better.";
    C22 "ECN" Low Loss "K" ALL, ecn:
        "With 2, the host accepts ECN but does not request it, which works on every path.";
    C23 "TCP segmentation size" Low Cpu "K" ALL, trains:
        "The defaults suit every rate.";
    C24 "obsolete settings" Low Evidence "OU" ALL, ignored:
        "Old guides set values that no longer exist or no longer matter.";
    C25 "UDP: minimum buffer, early demultiplexing" Low Cpu "KL" ALL, udp:
        "The defaults are suitable; hosts with many UDP flows may gain a little without early demultiplexing.";
}

fn control(h: &HostView<'_>) -> CheckOutcome {
    let now = h.text(&sysctl("net.ipv4.tcp_congestion_control"))?;
    let have = h.maybe(&sysctl("net.ipv4.tcp_available_congestion_control")).unwrap_or("not known");
    let found = match now {
        "cubic" | "bbr" => CheckResult::pass(now, "cubic or bbr, whichever measures better"),
        "htcp" => CheckResult::info(now, "sources disagree")
            .shows("ESnet: cubic, htcp is obsolete; OSG: bbr; perfSONAR: htcp"),
        _ => CheckResult::warn(now, "cubic or bbr"),
    };
    Ok(found
        .shows(format!("available: {have}; a program can choose for its own connection"))
        .set(sysctl("net.ipv4.tcp_congestion_control"), "cubic"))
}

fn bbr(h: &HostView<'_>) -> CheckOutcome {
    if h.text(&sysctl("net.ipv4.tcp_congestion_control"))? != "bbr" {
        return not_applicable("bbr is not the default on this host");
    }
    let kinds = format!("{} {}", h.text("qdisc/root")?, h.maybe("qdisc/leaves").unwrap_or_default());
    let spaced = kinds.split_whitespace().any(|kind| kind == "fq");
    if spaced {
        return Ok(CheckResult::pass("fq", "fq"));
    }
    let old = h.facts.kernel_version() < (4, 20) && h.facts.kernel_version() != (0, 0);
    Ok(if old {
        CheckResult::warn(kinds.trim(), "fq").shows("before Linux 4.20 bbr does not pace packets without fq")
    } else {
        CheckResult::info(kinds.trim(), "fq, to save timers")
    })
}

fn default_discipline(h: &HostView<'_>) -> CheckOutcome {
    let name = sysctl("net.core.default_qdisc");
    let now = h.text(&name)?;
    Ok(CheckResult::rule_if(h.target.sends(), now == "fq", now, "fq").set(name, "fq"))
}

fn dropped(h: &HostView<'_>) -> u64 {
    h.risen("count/softnet/", |name| name.ends_with("/dropped"))
        .iter()
        .fold(0, |sum: u64, (_, by)| sum.saturating_add(*by))
}

fn squeezed(h: &HostView<'_>) -> u64 {
    h.risen("count/softnet/", |name| name.ends_with("/squeezed"))
        .iter()
        .fold(0, |sum: u64, (_, by)| sum.saturating_add(*by))
}

fn backlog(h: &HostView<'_>) -> CheckOutcome {
    let name = "net.core.netdev_max_backlog";
    let now = h.sysctl(name)?;
    let drops = dropped(h);
    let when = if h.before.is_some() { "during the run" } else { "since boot" };
    // Counters since boot do not fall when it is raised, so how much is wanted does not follow from them.
    let more = if h.target.at_least_gbps(40) { 250_000 } else { 30_000 };
    Ok(if drops > 0 && now < more {
        CheckResult::warn(now.to_string(), more.to_string())
            .shows(format!("{drops} packets dropped {when} (C16)"))
            .set(sysctl(name), more)
    } else {
        CheckResult::pass(now.to_string(), "unchanged while nothing is dropped")
    })
}

fn budget(h: &HostView<'_>) -> CheckOutcome {
    let (packets, time) = (h.sysctl("net.core.netdev_budget")?, h.sysctl("net.core.netdev_budget_usecs")?);
    let value = format!("{packets} packets, {time} us");
    let short = packets < 600 || time < 8000;
    let (squeezed, drops) = (squeezed(h), dropped(h));
    Ok(if h.before.is_some() && squeezed > 0 && drops > 0 && short {
        let mut found = CheckResult::warn(value, "600 packets, 8000 us").shows(format!(
            "it was used up {squeezed} times with packets left, and {drops} packets were dropped"
        ));
        for (name, now, least) in
            [("net.core.netdev_budget", packets, 600), ("net.core.netdev_budget_usecs", time, 8000)]
        {
            if now < least {
                found = found.set(sysctl(name), least);
            }
        }
        found
    } else {
        CheckResult::pass(value, "unchanged while nothing is dropped")
    })
}

fn softnet(h: &HostView<'_>) -> CheckOutcome {
    h.denied("count/softnet", "")?;
    let mut drops = h.risen("count/softnet/", |name| name.ends_with("/dropped"));
    let busy = h.risen("count/softnet/", |name| name.ends_with("/processed"));
    drops.sort_by_key(|(_, by)| std::cmp::Reverse(*by));
    drops.truncate(8);
    let total: u64 = busy.iter().fold(0, |sum: u64, (_, by)| sum.saturating_add(*by));
    let hot = busy
        .iter()
        .max_by_key(|(_, by)| *by)
        .filter(|(_, by)| h.before.is_some() && busy.len() >= 4 && *by / 9 > total / 10 && total > 10_000);
    let squeezed = squeezed(h);
    let found = h.counters(&drops, "packets dropped");
    let found = match hot {
        Some((name, _)) => {
            let cpu = name.trim_end_matches("/processed");
            found.shows(format!(
                "CPU {cpu} handled more than 90 % of all packets: spread the queues (B12 to B15)"
            ))
        }
        None => found,
    };
    Ok(found
        .shows_if(squeezed > 0, format!("softirqs ended early {squeezed} times"))
        .advise("spread packets over queues and cores (A7, B12, B13), or raise the backlog (C14)", ""))
}

fn busy(h: &HostView<'_>) -> CheckOutcome {
    let (poll, read) = (h.sysctl("net.core.busy_poll")?, h.sysctl("net.core.busy_read")?);
    let value = format!("poll {poll} us, read {read} us");
    Ok(if (poll, read) == (0, 0) {
        CheckResult::pass(value, "0; programs enable it on their sockets")
    } else if h.target.measures() {
        CheckResult::pass(value, "up to 50 us to measure latency")
    } else {
        CheckResult::info(value, "0; programs enable it on their sockets")
            .set(sysctl("net.core.busy_poll"), 0)
            .set(sysctl("net.core.busy_read"), 0)
    })
}

fn option_memory(h: &HostView<'_>) -> CheckOutcome {
    let name = "net.core.optmem_max";
    let now = h.sysctl(name)?;
    let found = CheckResult::rule_if(
        h.target.sends(),
        now >= NOTES,
        size(now),
        format!("{} for zero-copy sending", size(NOTES)),
    );
    Ok(found.set(sysctl(name), NOTES))
}

fn output_bytes(h: &HostView<'_>) -> CheckOutcome {
    let name = "net.ipv4.tcp_limit_output_bytes";
    let now = h.sysctl(name)?;
    let old = h.facts.kernel_version() < (6, 16);
    let wanted: u64 = if old && h.target.at_least_gbps(100) { 4 << 20 } else { 1 << 20 };
    let found = CheckResult::rule(now >= wanted, size(now), format!("at least {}", size(wanted)));
    Ok(found.set(sysctl(name), wanted))
}

fn unsent(h: &HostView<'_>) -> CheckOutcome {
    let name = "net.ipv4.tcp_notsent_lowat";
    let now = h.sysctl(name)?;
    let found = CheckResult::rule_if(h.target.sends(), now >= UNSENT, size(now), "no limit for bulk data");
    Ok(found.set(sysctl(name), u32::MAX))
}

/// Settings whose default is best: names and values.
fn left_alone(h: &HostView<'_>, all: &[(&str, u64)]) -> CheckOutcome {
    let mut changed = Vec::new();
    for (name, usual) in all {
        let now = h.text(&sysctl(name))?;
        if now != usual.to_string() {
            changed.push((*name, *usual, now));
        }
    }
    let shown =
        |(name, _, now): &(&str, u64, &str)| format!("{}={now}", name.rsplit('.').next().unwrap_or(name));
    let value = if changed.is_empty() {
        "defaults".to_owned()
    } else {
        changed.iter().map(shown).collect::<Vec<_>>().join(", ")
    };
    let mut found = CheckResult::rule(changed.is_empty(), value, "defaults");
    for (name, usual, _) in changed {
        found = found.set(sysctl(name), usual);
    }
    Ok(found)
}

fn window_share(h: &HostView<'_>) -> CheckOutcome {
    left_alone(h, &[("net.ipv4.tcp_adv_win_scale", 1), ("net.ipv4.tcp_shrink_window", 0)])
}

fn ecn(h: &HostView<'_>) -> CheckOutcome {
    left_alone(h, &[("net.ipv4.tcp_ecn", 2)])
}

fn trains(h: &HostView<'_>) -> CheckOutcome {
    left_alone(h, &[("net.ipv4.tcp_min_tso_segs", 2), ("net.ipv4.tcp_tso_win_divisor", 3)])
}

fn ignored(h: &HostView<'_>) -> CheckOutcome {
    let removed = h.text("sysctl/removed")?;
    let ignore = "tcp_autocorking, tcp_fastopen and tcp_tw_reuse do not matter to bulk data";
    Ok(if removed.is_empty() {
        CheckResult::pass("none set", "none set").shows(ignore)
    } else {
        CheckResult::warn(format!("set at every start: {removed}"), "none set")
            .shows("removed: tcp_tw_recycle in Linux 4.12, tcp_low_latency without effect since 4.14")
            .advise("", "delete these lines from /etc/sysctl.conf and /etc/sysctl.d")
    })
}

fn udp(h: &HostView<'_>) -> CheckOutcome {
    let least = h.sysctl("net.ipv4.udp_rmem_min")?;
    let early = h.sysctl("net.ipv4.udp_early_demux")?;
    let value = format!("least {least}, early demultiplexing {early}");
    let found = CheckResult::rule(least >= 4096, value, "least 4096, early demultiplexing 1");
    Ok(found.set(sysctl("net.ipv4.udp_rmem_min"), 4096))
}

const PAGE: u64 = 4096;
/// A default of every socket above this wastes memory.
const DEFAULT_MOST: u64 = 16 << 20;
/// What one profile of tuned sets, which is less than the kernel's own.
const TUNED: u64 = 16 << 20;

/// A limit in bytes that is a round number.
fn round(bytes: u64) -> u64 {
    bytes.checked_next_power_of_two().unwrap_or(u64::MAX).min(MAX_BUFFER_BYTES)
}

/// The largest receive buffer that a program of this host should be able to ask for. Every check that speaks of it wants the same.
pub(super) fn receive_wanted(h: &HostView<'_>) -> u64 {
    if h.target.receives() { h.target.window().max(h.target.udp_buffer()) } else { 0 }
}

/// As a setting: never less than what there is.
pub(super) fn receive_limit(h: &HostView<'_>) -> u64 {
    round(receive_wanted(h)).max(h.sysctl("net.core.rmem_max").unwrap_or(0))
}

fn largest(h: &HostView<'_>) -> CheckOutcome {
    let (receive, send) = (h.sysctl("net.core.rmem_max")?, h.sysctl("net.core.wmem_max")?);
    let receive_wanted = receive_wanted(h);
    let send_wanted = if h.target.sends() { h.target.window() } else { 0 };
    let mut found = CheckResult::rule(
        receive >= receive_wanted && send >= send_wanted,
        format!("receive {}, send {}", size(receive), size(send)),
        format!("receive {}, send {}", size(receive_wanted), size(send_wanted)),
    );
    for (name, now, wanted) in
        [("net.core.rmem_max", receive, receive_wanted), ("net.core.wmem_max", send, send_wanted)]
    {
        if now < wanted {
            found = found.set(sysctl(name), round(wanted));
        }
    }
    Ok(found)
}

fn defaults(h: &HostView<'_>) -> CheckOutcome {
    let (receive, send) = (h.sysctl("net.core.rmem_default")?, h.sysctl("net.core.wmem_default")?);
    let mut found = CheckResult::rule(
        receive <= DEFAULT_MOST && send <= DEFAULT_MOST,
        format!("receive {}, send {}", size(receive), size(send)),
        format!("up to {}", size(DEFAULT_MOST)),
    );
    found = found.shows_if(
        receive > DEFAULT_MOST,
        "OSG sets a quarter of the maximum, which each UDP socket then gets",
    );
    for (name, now) in [("net.core.rmem_default", receive), ("net.core.wmem_default", send)] {
        if now > DEFAULT_MOST {
            found = found.set(sysctl(name), 212_992);
        }
    }
    Ok(found)
}

/// The third of three numbers: a ceiling.
fn ceiling(h: &HostView<'_>, name: &str, wanted: u64) -> CheckOutcome {
    let all = h.numbers(&sysctl(name))?;
    let [least, usual, most] = all[..] else {
        return Err(NotJudged::Unknown(format!("{name} has {} numbers", all.len())));
    };
    let found = CheckResult::rule(most >= wanted, size(most), format!("at least {}", size(wanted)));
    let tuned = most == TUNED && most < wanted;
    Ok(found
        .shows_if(
            tuned,
            "tuned's network-throughput profile sets this, which is below the default of Linux 6.18",
        )
        .set(sysctl(name), format!("{least} {usual} {}", round(wanted).max(most))))
}

fn tcp_receive(h: &HostView<'_>) -> CheckOutcome {
    ceiling(h, "net.ipv4.tcp_rmem", if h.target.receives() { h.target.window() } else { 0 })
}

fn tcp_send(h: &HostView<'_>) -> CheckOutcome {
    ceiling(h, "net.ipv4.tcp_wmem", if h.target.sends() { h.target.window() } else { 0 })
}

fn together(h: &HostView<'_>) -> CheckOutcome {
    let pages = |name: &str| -> Result<[u64; 3], NotJudged> {
        let all = h.numbers(&sysctl(name))?;
        all[..].try_into().map_err(|_| NotJudged::Unknown(format!("{name} has {} numbers", all.len())))
    };
    let (tcp, udp) = (pages("net.ipv4.tcp_mem")?, pages("net.ipv4.udp_mem")?);
    let bytes = |all: [u64; 3]| all[2].saturating_mul(PAGE);
    let needs = h.target.flows.saturating_mul(h.target.window()).saturating_mul(3) / 2;
    // More than half of the memory is for nobody's buffers.
    let memory = h.facts.number("host/memory").unwrap_or(u64::MAX);
    let tcp_wanted = needs.min(memory / 2);
    let udp_wanted = if h.target.receives() { h.target.udp_buffer().min(memory / 2) } else { 0 };
    let mut found = CheckResult::rule(
        bytes(tcp) >= tcp_wanted && bytes(udp) >= udp_wanted,
        format!("TCP {}, UDP {}", size(bytes(tcp)), size(bytes(udp))),
        format!("TCP {}, UDP {}", size(tcp_wanted), size(udp_wanted)),
    );
    for (name, now, wanted) in [("net.ipv4.tcp_mem", tcp, tcp_wanted), ("net.ipv4.udp_mem", udp, udp_wanted)]
    {
        if bytes(now) < wanted {
            let pages = wanted.div_ceil(PAGE);
            let (least, usual) = ((pages / 2).max(now[0]), (pages / 4 * 3).max(now[1]));
            found = found.set(sysctl(name), format!("{least} {usual} {pages}"));
        }
    }
    Ok(found
        .shows_if(needs > memory / 2, format!("this host has {} of memory: fewer flows fit", size(memory))))
}

fn automatic(h: &HostView<'_>) -> CheckOutcome {
    h.sysctl_is("net.ipv4.tcp_moderate_rcvbuf", 1)
}

fn options(h: &HostView<'_>) -> CheckOutcome {
    let names = ["net.ipv4.tcp_window_scaling", "net.ipv4.tcp_sack", "net.ipv4.tcp_timestamps"];
    let mut off = Vec::new();
    for name in names {
        if h.sysctl(name)? == 0 {
            off.push(name);
        }
    }
    let value = if off.is_empty() { "on".to_owned() } else { format!("off: {}", off.join(", ")) };
    let mut found = CheckResult::rule(off.is_empty(), value, "on");
    found = found
        .shows_if(off.contains(&names[2]), "the advice to turn timestamps off dates from the days of 1 Gb/s");
    for name in off {
        found = found.set(sysctl(name), 1);
    }
    Ok(found)
}

fn metrics(h: &HostView<'_>) -> CheckOutcome {
    let off = h.sysctl("net.ipv4.tcp_no_metrics_save")? == 1;
    let value = if off { "not kept" } else { "kept" };
    let found = CheckResult::rule_if(h.target.measures(), off, value, "not kept on hosts that measure");
    Ok(found.set(sysctl("net.ipv4.tcp_no_metrics_save"), 1))
}

fn idle(h: &HostView<'_>) -> CheckOutcome {
    let off = h.sysctl("net.ipv4.tcp_slow_start_after_idle")? == 0;
    let found = CheckResult::rule_if(h.target.sends(), off, if off { "off" } else { "on" }, "off");
    Ok(found.set(sysctl("net.ipv4.tcp_slow_start_after_idle"), 0))
}

fn probing(h: &HostView<'_>) -> CheckOutcome {
    let now = h.sysctl("net.ipv4.tcp_mtu_probing")?;
    let found = CheckResult::rule_if(h.mtu() >= 9000, now >= 1, now.to_string(), "1 with an MTU of 9000");
    Ok(found.set(sysctl("net.ipv4.tcp_mtu_probing"), 1))
}

#[cfg(test)]
mod tests {

    #[test]
    fn limits_are_round_and_never_more_than_the_kernel_takes() {
        assert_eq!(super::round(125_000_000), 134_217_728);
        assert_eq!(super::round(super::MAX_BUFFER_BYTES), super::MAX_BUFFER_BYTES);
        assert_eq!(super::round(0), 1);
    }
}
