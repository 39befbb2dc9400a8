//! C26 to C32: what sockets and protocols lost, and who else handles packets.

use super::buffers::{receive_limit, receive_wanted};
use crate::host::check::{ALL, table};
use crate::host::found::{Examined, Found, not_applicable};
use crate::host::target::{Role, size};
use crate::host::view::{View, sysctl};

/// What one of our receivers asks for.
const ASKED: u64 = 256 << 20;
/// For fragments, if they are meant.
const FRAGMENTS: u64 = 100 << 20;
/// Rules beyond which each packet pays.
const RULES: u64 = 100;

/// TCP's counters of something lost in this host.
const LOST: [&str; 8] = [
    "PruneCalled",
    "RcvPruned",
    "TCPRcvCollapsed",
    "TCPBacklogDrop",
    "TCPRcvQDrop",
    "TCPZeroWindowDrop",
    "TCPMemoryPressures",
    "TCPOFODrop",
];
/// Those that tell of the path.
const PATH: [&str; 7] = [
    "TCPTimeouts",
    "TCPSpuriousRTOs",
    "TCPSACKReorder",
    "TCPDSACKRecv",
    "TCPDSACKOfoRecv",
    "TCPLossProbes",
    "TCPLostRetransmit",
];

table! {
    /// Losses above the card.
    TABLE:
    C26 "receive buffer that a UDP socket gets" High Loss "K" ALL, granted:
        "It bridges the time in which the receiver does not run.";
    C27 "UDP packets dropped" High Evidence "U" ALL, udp_drops:
        "They reached this host, and no program.";
    C28 "TCP: collapsed buffers, drops, memory" High Evidence "K" ALL, tcp_drops:
        "The host dropped or moved what the network had delivered.";
    C29 "fragments put together" Medium Evidence "U" ALL, fragments:
        "A packet larger than the MTU is lost with any of its pieces.";
    C30 "connection tracking" Medium Loss "U" ALL, tracking:
        "Each packet is looked up; a full table drops; UDP flows are forgotten after 30 to 120 s.";
    C31 "firewall" Low Cpu "U" ALL, firewall:
        "Each packet passes every rule.";
    C32 "taps" Medium Cpu "K" ALL, taps:
        "A capture copies every packet.";
}

fn granted(h: &View<'_>) -> Examined {
    let now = h.number("socket/granted")?;
    let wanted = h.target.udp_buffer().min(ASKED);
    let found =
        Found::rule_if(h.target.receives(), now >= wanted, size(now), format!("at least {}", size(wanted)));
    let most = h.sysctl("net.core.rmem_max").unwrap_or(0);
    // As C1 has it.
    let found = if most < wanted { found.set(sysctl("net.core.rmem_max"), receive_limit(h)) } else { found };
    Ok(found.advise(
        "setcap cap_net_admin+ep \"$(command -v skyhaul)\" gives what --socket-buffer says, whatever the limit",
        "",
    ))
}

fn udp_drops(h: &View<'_>) -> Examined {
    h.text("count/Udp/InDatagrams")?;
    let names = ["RcvbufErrors", "MemErrors", "InCsumErrors", "SndbufErrors", "InErrors"];
    let mut risen = h.risen("count/Udp/", |name| names.contains(&name));
    // InErrors is the sum: it tells something only if none of the others does.
    if risen.len() > 1 {
        risen.retain(|(name, _)| *name != "InErrors");
    }
    let found = h.counters(&risen, "UDP packets dropped");
    let has = |name: &str| risen.iter().any(|(risen, _)| *risen == name);
    let found = found
        .shows_if(
            has("RcvbufErrors"),
            "a socket's buffer was full: the reader was late, or its buffer is small (C1, C26)",
        )
        .shows_if(has("MemErrors"), "all UDP sockets together reached net.ipv4.udp_mem (C5)")
        .shows_if(has("InCsumErrors"), "packets were damaged on the way")
        .shows_if(has("SndbufErrors"), "a sender's buffer or the interface's queue was full (B24)");
    let most = h.sysctl("net.core.rmem_max").unwrap_or(0);
    Ok(if has("RcvbufErrors") && most < receive_wanted(h) {
        found.set(sysctl("net.core.rmem_max"), receive_limit(h))
    } else {
        found
    })
}

fn tcp_drops(h: &View<'_>) -> Examined {
    h.text("count/TcpExt/PruneCalled")?;
    let risen = h.risen("count/TcpExt/", |name| LOST.contains(&name));
    let path = h.risen("count/TcpExt/", |name| PATH.contains(&name));
    let list: Vec<String> = path.iter().map(|(name, by)| format!("{name} {by}")).collect();
    let found = h.counters(&risen, "drops in this host");
    let found =
        found.shows_if(h.before.is_some() && !list.is_empty(), format!("of the path: {}", list.join(", ")));
    Ok(found.advise("raise tcp_rmem and tcp_mem (C3, C5); read faster", ""))
}

fn fragments(h: &View<'_>) -> Examined {
    h.text("count/Ip/ReasmFails")?;
    let failed = h.risen("count/Ip/", |name| name == "ReasmFails");
    let asked = h.risen("count/Ip/", |name| name == "ReasmReqds");
    let found = h.counters(&failed, "fragments lost");
    let count = asked.first().map_or(0, |(_, by)| *by);
    let found = found
        .shows_if(count > 0, format!("{count} fragments came: the sender's packets exceed the path's MTU"));
    let name = sysctl("net.ipv4.ipfrag_high_thresh");
    Ok(match h.facts.number(&name) {
        Some(now) if now < FRAGMENTS => found.set(name, FRAGMENTS),
        _ => found,
    }
    .advise("send packets that fit the MTU", ""))
}

fn tracking(h: &View<'_>) -> Examined {
    let most = sysctl("net.netfilter.nf_conntrack_max");
    if !h.facts.facts.contains_key(&most) {
        return Ok(Found::pass("not loaded", "none for data"));
    }
    let most = h.number(&most)?;
    let now = h.sysctl("net.netfilter.nf_conntrack_count")?;
    let drops = h.risen("count/conntrack/", |name| matches!(name, "drop" | "early_drop" | "insert_failed"));
    if h.before.is_some() && !drops.is_empty() {
        return Ok(h
            .counters(&drops, "packets dropped")
            .set(sysctl("net.netfilter.nf_conntrack_max"), most.saturating_mul(2)));
    }
    let value = format!("{now} of {most} entries");
    let now_rule = "nft add table inet skyhaul; nft add chain inet skyhaul raw '{ type filter hook prerouting priority raw; }'; nft add rule inet skyhaul raw udp dport PORTS notrack";
    if now.saturating_mul(10) >= most.saturating_mul(8) {
        let found = Found::warn(value, "below 80 %");
        return Ok(found
            .set(sysctl("net.netfilter.nf_conntrack_max"), most.saturating_mul(2))
            .advise(now_rule, ""));
    }
    // Without a rule that needs it, the table stays empty, and nothing is looked up.
    if now == 0 {
        return Ok(Found::pass("loaded, not in use", "none for data"));
    }
    let matters = h.target.role == Role::Record;
    Ok(Found::rule_if(matters, false, value, "ports of data not tracked")
        .advise(now_rule, "the same in /etc/nftables.conf"))
}

fn firewall(h: &View<'_>) -> Examined {
    let rules = h.number("firewall/rules")?;
    let tables = h.maybe("firewall/tables").unwrap_or_default();
    let value =
        if tables.is_empty() { format!("{rules} rules") } else { format!("{rules} rules, tables {tables}") };
    if rules == 0 && tables.is_empty() {
        return Ok(Found::pass("none", "few rules"));
    }
    let found = Found::rule(rules <= RULES, value, format!("up to {RULES} rules, the ports of data first"));
    Ok(found.advise("put the rule that accepts the ports of data first", ""))
}

fn taps(h: &View<'_>) -> Examined {
    let taps = h.number("net/taps")?;
    if h.maybe("host/container").is_some() && taps == 0 {
        return not_applicable("a container does not see its host's");
    }
    let found = Found::rule(taps == 0, format!("{taps}"), "none while data flow");
    Ok(found.advise("stop tcpdump and other captures: grep -l . /proc/net/packet; ss -0p lists them", ""))
}
