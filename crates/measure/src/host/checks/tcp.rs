//! C11 to C25: congestion control, and settings that are best left.

use crate::host::check::{ALL, from, table};
use crate::host::found::{Examined, Found, not_applicable};
use crate::host::target::size;
use crate::host::view::{View, sysctl};

/// What copies of a page that is sent need to be noted.
const NOTES: u64 = 1 << 20;
/// Of what is not yet sent, a bulk sender needs at least.
const UNSENT: u64 = 1 << 20;

table! {
    /// TCP.
    TABLE:
    C11 "congestion control" High Rate "FOP" ALL, control:
        "It decides what a loss costs: on long paths Reno needs minutes to recover, cubic seconds, bbr nothing.";
    C12 "pacing of bbr" Low Cpu "F" from(4, 9), bbr:
        "bbr spaces its packets; with fq that costs no timer for each connection.";
    C13 "default queueing discipline" Medium Rate "FOL" ALL, default_discipline:
        "Every interface that comes up gets it (B24).";
    C14 "backlog of packets" Low Loss "OUL" ALL, backlog:
        "Only RPS, loopback and veth use it: raise it if packets were dropped there, and not otherwise.";
    C15 "budget of the network's soft interrupt" Low Loss "KL" ALL, budget:
        "If it ends with packets left in the ring, they wait for the next turn.";
    C16 "packets that soft interrupts dropped" High Evidence "K" ALL, softnet:
        "They were lost between the card and the protocols.";
    C17 "busy polling" Low Jitter "TL" ALL, busy:
        "It trades CPU time for microseconds; a program can ask for it on its own socket.";
    C18 "memory for options of a socket" Medium Cpu "FEL" ALL, option_memory:
        "Sending without a copy needs it, and silently copies when it runs out.";
    C19 "bytes that TCP queues below itself" Low Rate "L" ALL, output_bytes:
        "A small limit throttles a single fast flow.";
    C20 "bytes not yet sent" Low Rate "T" ALL, unsent:
        "A small limit wakes the sender for every few packets; it is meant for servers of HTTP.";
    C21 "share of a buffer that is window" Low Rate "D" ALL, window_share:
        "The kernel's own measure is better since 6.x.";
    C22 "ECN" Low Loss "K" ALL, ecn:
        "2 answers who asks for it and asks nobody, which every path survives.";
    C23 "size of trains that TCP sends" Low Cpu "K" ALL, trains:
        "The defaults fit every rate.";
    C24 "settings of another time" Low Evidence "OU" ALL, ignored:
        "Old guides set what no longer exists, or no longer matters.";
    C25 "UDP: least buffer, early demultiplexing" Low Cpu "KL" ALL, udp:
        "The defaults fit; many flows of pure UDP may gain a little without early demultiplexing.";
}

fn control(h: &View<'_>) -> Examined {
    let now = h.text(&sysctl("net.ipv4.tcp_congestion_control"))?;
    let have = h.maybe(&sysctl("net.ipv4.tcp_available_congestion_control")).unwrap_or("not known");
    let found = match now {
        "cubic" | "bbr" => Found::pass(now, "cubic or bbr, whichever measures better"),
        "htcp" => {
            Found::info(now, "sources disagree").shows("ESnet: cubic, htcp is old; OSG: bbr; perfSONAR: htcp")
        }
        _ => Found::warn(now, "cubic or bbr"),
    };
    Ok(found
        .shows(format!("available: {have}; a program can choose for its own connection"))
        .set(sysctl("net.ipv4.tcp_congestion_control"), "cubic"))
}

fn bbr(h: &View<'_>) -> Examined {
    if h.text(&sysctl("net.ipv4.tcp_congestion_control"))? != "bbr" {
        return not_applicable("bbr is not the default here");
    }
    let kinds = format!("{} {}", h.text("qdisc/root")?, h.maybe("qdisc/leaves").unwrap_or_default());
    let spaced = kinds.split_whitespace().any(|kind| kind == "fq");
    if spaced {
        return Ok(Found::pass("fq", "fq"));
    }
    let old = h.facts.kernel_version() < (4, 20) && h.facts.kernel_version() != (0, 0);
    Ok(if old {
        Found::warn(kinds.trim(), "fq").shows("before Linux 4.20 bbr does not space packets without fq")
    } else {
        Found::info(kinds.trim(), "fq, to save timers")
    })
}

fn default_discipline(h: &View<'_>) -> Examined {
    let name = sysctl("net.core.default_qdisc");
    let now = h.text(&name)?;
    Ok(Found::rule_if(h.target.sends(), now == "fq", now, "fq").set(name, "fq"))
}

fn dropped(h: &View<'_>) -> u64 {
    h.risen("count/softnet/", |name| name.ends_with("/dropped"))
        .iter()
        .fold(0, |sum: u64, (_, by)| sum.saturating_add(*by))
}

fn squeezed(h: &View<'_>) -> u64 {
    h.risen("count/softnet/", |name| name.ends_with("/squeezed"))
        .iter()
        .fold(0, |sum: u64, (_, by)| sum.saturating_add(*by))
}

fn backlog(h: &View<'_>) -> Examined {
    let name = "net.core.netdev_max_backlog";
    let now = h.sysctl(name)?;
    let drops = dropped(h);
    let when = if h.before.is_some() { "while it ran" } else { "since the start" };
    // Counters since the start do not fall when it is raised, so how much is wanted does not follow from them.
    let more = if h.target.at_least_gbps(40) { 250_000 } else { 30_000 };
    Ok(if drops > 0 && now < more {
        Found::warn(now.to_string(), more.to_string())
            .shows(format!("{drops} packets dropped {when} (C16)"))
            .set(sysctl(name), more)
    } else {
        Found::pass(now.to_string(), "as it is while nothing is dropped")
    })
}

fn budget(h: &View<'_>) -> Examined {
    let (packets, time) = (h.sysctl("net.core.netdev_budget")?, h.sysctl("net.core.netdev_budget_usecs")?);
    let value = format!("{packets} packets, {time} us");
    let short = packets < 600 || time < 8000;
    let (squeezed, drops) = (squeezed(h), dropped(h));
    Ok(if h.before.is_some() && squeezed > 0 && drops > 0 && short {
        let mut found = Found::warn(value, "600 packets, 8000 us")
            .shows(format!("it ended {squeezed} times with packets left, and {drops} were dropped"));
        for (name, now, least) in
            [("net.core.netdev_budget", packets, 600), ("net.core.netdev_budget_usecs", time, 8000)]
        {
            if now < least {
                found = found.set(sysctl(name), least);
            }
        }
        found
    } else {
        Found::pass(value, "as it is while nothing is dropped")
    })
}

fn softnet(h: &View<'_>) -> Examined {
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
        .shows_if(squeezed > 0, format!("soft interrupts ended early {squeezed} times"))
        .advise("spread packets over queues and cores (A7, B12, B13), or raise the backlog (C14)", ""))
}

fn busy(h: &View<'_>) -> Examined {
    let (poll, read) = (h.sysctl("net.core.busy_poll")?, h.sysctl("net.core.busy_read")?);
    let value = format!("poll {poll} us, read {read} us");
    Ok(if (poll, read) == (0, 0) {
        Found::pass(value, "0; programs ask for it on their sockets")
    } else if h.target.measures() {
        Found::pass(value, "up to 50 us to measure latency")
    } else {
        Found::info(value, "0; programs ask for it on their sockets")
            .set(sysctl("net.core.busy_poll"), 0)
            .set(sysctl("net.core.busy_read"), 0)
    })
}

fn option_memory(h: &View<'_>) -> Examined {
    let name = "net.core.optmem_max";
    let now = h.sysctl(name)?;
    let found = Found::rule_if(
        h.target.sends(),
        now >= NOTES,
        size(now),
        format!("{} to send without copies", size(NOTES)),
    );
    Ok(found.set(sysctl(name), NOTES))
}

fn output_bytes(h: &View<'_>) -> Examined {
    let name = "net.ipv4.tcp_limit_output_bytes";
    let now = h.sysctl(name)?;
    let old = h.facts.kernel_version() < (6, 16);
    let wanted: u64 = if old && h.target.at_least_gbps(100) { 4 << 20 } else { 1 << 20 };
    let found = Found::rule(now >= wanted, size(now), format!("at least {}", size(wanted)));
    Ok(found.set(sysctl(name), wanted))
}

fn unsent(h: &View<'_>) -> Examined {
    let name = "net.ipv4.tcp_notsent_lowat";
    let now = h.sysctl(name)?;
    let found = Found::rule_if(h.target.sends(), now >= UNSENT, size(now), "no limit for bulk data");
    Ok(found.set(sysctl(name), u32::MAX))
}

/// Settings whose default is best: names and values.
fn left_alone(h: &View<'_>, all: &[(&str, u64)]) -> Examined {
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
    let mut found = Found::rule(changed.is_empty(), value, "defaults");
    for (name, usual, _) in changed {
        found = found.set(sysctl(name), usual);
    }
    Ok(found)
}

fn window_share(h: &View<'_>) -> Examined {
    left_alone(h, &[("net.ipv4.tcp_adv_win_scale", 1), ("net.ipv4.tcp_shrink_window", 0)])
}

fn ecn(h: &View<'_>) -> Examined {
    left_alone(h, &[("net.ipv4.tcp_ecn", 2)])
}

fn trains(h: &View<'_>) -> Examined {
    left_alone(h, &[("net.ipv4.tcp_min_tso_segs", 2), ("net.ipv4.tcp_tso_win_divisor", 3)])
}

fn ignored(h: &View<'_>) -> Examined {
    let removed = h.text("sysctl/removed")?;
    let ignore = "tcp_autocorking, tcp_fastopen and tcp_tw_reuse do not matter to bulk data";
    Ok(if removed.is_empty() {
        Found::pass("none set", "none set").shows(ignore)
    } else {
        Found::warn(format!("set at every start: {removed}"), "none set")
            .shows("removed: tcp_tw_recycle in Linux 4.12, tcp_low_latency without effect since 4.14")
            .advise("", "delete these lines from /etc/sysctl.conf and /etc/sysctl.d")
    })
}

fn udp(h: &View<'_>) -> Examined {
    let least = h.sysctl("net.ipv4.udp_rmem_min")?;
    let early = h.sysctl("net.ipv4.udp_early_demux")?;
    let value = format!("least {least}, early demultiplexing {early}");
    let found = Found::rule(least >= 4096, value, "least 4096, early demultiplexing 1");
    Ok(found.set(sysctl("net.ipv4.udp_rmem_min"), 4096))
}
