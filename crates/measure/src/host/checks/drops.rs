//! C26 to C39: losses of sockets and protocols, other handlers of packets, the path to the peer, and the clocks of both hosts.

use super::tcp::{receive_limit, receive_wanted};
use crate::host::check::{ALL, HostView, sysctl, table};
use crate::host::found::{CheckOutcome, CheckResult, not_applicable};
use crate::host::target::{HostRole, size};

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
    C26 "receive buffer granted to a UDP socket" High Loss "K" ALL, granted:
        "It holds the packets that arrive while the receiver does not run.";
    C27 "UDP packets dropped" High Evidence "U" ALL, udp_drops:
        "They reached this host but no program.";
    C28 "TCP: collapsed buffers, drops, memory" High Evidence "K" ALL, tcp_drops:
        "The host dropped data, or had to compact buffers, after the network had delivered it.";
    C29 "IP fragment reassembly" Medium Evidence "U" ALL, fragments:
        "A fragmented packet is lost if any of its fragments is lost.";
    C30 "connection tracking" Medium Loss "U" ALL, tracking:
        "It looks up each packet, drops packets when its table is full, and forgets idle UDP flows after 30 to 120 s.";
    C31 "firewall" Low Cpu "U" ALL, firewall:
        "Each packet is matched against every rule.";
    C32 "packet captures" Medium Cpu "K" ALL, taps:
        "A capture copies every packet.";
    C33 "reverse path filter, ARP" Medium Loss "OP" ALL, filter:
        "With several interfaces, packets that return through another one are silently dropped.";
    C34 "route to the peer" High Rate "U" ALL, route:
        "Data that leave through the management interface are limited to its rate.";
    C35 "IPv4 and IPv6 paths" Medium Rate "O" ALL, families:
        "The two may take different paths, and each program chooses one.";
    C36 "bond: distribution of flows" Medium Rate "K" ALL, bond:
        "One flow uses one member; a hash of addresses alone may put all flows on the same member.";
    C37 "bridges and virtual interfaces" Medium Cpu "K" ALL, hops:
        "Each adds a pass through the stack and a queue.";
    C38 "MPTCP, kernel TLS" Low Cpu "K" ALL, extras:
        "TLS in the kernel or in the card saves copies for HTTPS.";
    C39 "clock synchronisation" Medium Jitter "K" ALL, clock:
        "One-way delays are only as accurate as both clocks.";
}

fn granted(h: &HostView<'_>) -> CheckOutcome {
    let now = h.number("socket/granted")?;
    let wanted = h.target.udp_buffer().min(ASKED);
    let found = CheckResult::rule_if(
        h.target.receives(),
        now >= wanted,
        size(now),
        format!("at least {}", size(wanted)),
    );
    let most = h.sysctl("net.core.rmem_max").unwrap_or(0);
    // As C1 has it.
    let found = if most < wanted { found.set(sysctl("net.core.rmem_max"), receive_limit(h)) } else { found };
    Ok(found.advise(
        "setcap cap_net_admin+ep \"$(command -v skyhaul)\" lets --socket-buffer exceed the limit",
        "",
    ))
}

fn udp_drops(h: &HostView<'_>) -> CheckOutcome {
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
            "a socket buffer was full: the reader was late, or its buffer is too small (C1, C26)",
        )
        .shows_if(has("MemErrors"), "all UDP sockets together reached net.ipv4.udp_mem (C5)")
        .shows_if(has("InCsumErrors"), "packets were damaged on the path")
        .shows_if(has("SndbufErrors"), "a sender's buffer or the interface's queue was full (B24)");
    let most = h.sysctl("net.core.rmem_max").unwrap_or(0);
    Ok(if has("RcvbufErrors") && most < receive_wanted(h) {
        found.set(sysctl("net.core.rmem_max"), receive_limit(h))
    } else {
        found
    })
}

fn tcp_drops(h: &HostView<'_>) -> CheckOutcome {
    h.text("count/TcpExt/PruneCalled")?;
    let risen = h.risen("count/TcpExt/", |name| LOST.contains(&name));
    let path = h.risen("count/TcpExt/", |name| PATH.contains(&name));
    let list: Vec<String> = path.iter().map(|(name, by)| format!("{name} {by}")).collect();
    let found = h.counters(&risen, "drops in this host");
    let found =
        found.shows_if(h.before.is_some() && !list.is_empty(), format!("of the path: {}", list.join(", ")));
    Ok(found.advise("raise tcp_rmem and tcp_mem (C3, C5); read faster", ""))
}

fn fragments(h: &HostView<'_>) -> CheckOutcome {
    h.text("count/Ip/ReasmFails")?;
    let failed = h.risen("count/Ip/", |name| name == "ReasmFails");
    let asked = h.risen("count/Ip/", |name| name == "ReasmReqds");
    let found = h.counters(&failed, "fragments lost");
    let count = asked.first().map_or(0, |(_, by)| *by);
    let found = found
        .shows_if(count > 0, format!("{count} fragments arrived: the sender's packets exceed the path MTU"));
    let name = sysctl("net.ipv4.ipfrag_high_thresh");
    Ok(match h.facts.number(&name) {
        Some(now) if now < FRAGMENTS => found.set(name, FRAGMENTS),
        _ => found,
    }
    .advise("send packets that fit the MTU", ""))
}

fn tracking(h: &HostView<'_>) -> CheckOutcome {
    let most = sysctl("net.netfilter.nf_conntrack_max");
    if !h.facts.facts.contains_key(&most) {
        return Ok(CheckResult::pass("not loaded", "none for data"));
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
        let found = CheckResult::warn(value, "below 80 %");
        return Ok(found
            .set(sysctl("net.netfilter.nf_conntrack_max"), most.saturating_mul(2))
            .advise(now_rule, ""));
    }
    // Without a rule that needs it, the table stays empty, and nothing is looked up.
    if now == 0 {
        return Ok(CheckResult::pass("loaded, not in use", "none for data"));
    }
    let matters = h.target.role == HostRole::Record;
    Ok(CheckResult::rule_if(matters, false, value, "ports of data not tracked")
        .advise(now_rule, "the same in /etc/nftables.conf"))
}

fn firewall(h: &HostView<'_>) -> CheckOutcome {
    let rules = h.number("firewall/rules")?;
    let tables = h.maybe("firewall/tables").unwrap_or_default();
    let value =
        if tables.is_empty() { format!("{rules} rules") } else { format!("{rules} rules, tables {tables}") };
    if rules == 0 && tables.is_empty() {
        return Ok(CheckResult::pass("none", "few rules"));
    }
    let found =
        CheckResult::rule(rules <= RULES, value, format!("up to {RULES} rules, the ports of data first"));
    Ok(found.advise("put the rule that accepts the ports of data first", ""))
}

fn taps(h: &HostView<'_>) -> CheckOutcome {
    let taps = h.number("net/taps")?;
    if h.maybe("host/container").is_some() && taps == 0 {
        return not_applicable("a container does not see the captures of its host");
    }
    let found = CheckResult::rule(taps == 0, format!("{taps}"), "none while data flow");
    Ok(found.advise("stop tcpdump and other captures: grep -l . /proc/net/packet; ss -0p lists them", ""))
}

/// Of the clock, for one-way delays: a millisecond.
const CLOCK_US: u64 = 1000;

fn filter(h: &HostView<'_>) -> CheckOutcome {
    let up: Vec<&str> = h.text("net/up")?.split_whitespace().collect();
    let x = h.interface();
    let both = |name: &str| -> Result<u64, _> {
        let all = h.number(&format!("/proc/sys/net/ipv4/conf/all/{name}"))?;
        let one = h.number(&format!("/proc/sys/net/ipv4/conf/{x}/{name}"))?;
        Ok(all.max(one))
    };
    let (filter, ignore, announce) = (both("rp_filter")?, both("arp_ignore")?, both("arp_announce")?);
    let value = format!("rp_filter {filter}, arp_ignore {ignore}, arp_announce {announce}");
    if up.len() < 2 {
        return Ok(CheckResult::pass(format!("{value}, one interface"), "any with one interface"));
    }
    let holds = filter != 1 && ignore >= 1 && announce >= 2;
    let mut found = CheckResult::rule(holds, value, "rp_filter 2 or 0, arp_ignore 1, arp_announce 2")
        .shows(format!("interfaces that are up: {}", up.join(", ")));
    for (name, wrong, wanted) in
        [("rp_filter", filter == 1, 2), ("arp_ignore", ignore < 1, 1), ("arp_announce", announce < 2, 2)]
    {
        if wrong {
            found = found.set(format!("/proc/sys/net/ipv4/conf/{x}/{name}"), wanted);
        }
    }
    Ok(found)
}

fn route(h: &HostView<'_>) -> CheckOutcome {
    let Some(out) = h.maybe("route/interface") else {
        h.denied("route/interface", "")?;
        return not_applicable("no peer was named (--peer)");
    };
    let mut small = Vec::new();
    for (name, least) in [("mtu", h.mtu()), ("window", u64::from(u16::MAX)), ("initcwnd", 10)] {
        if let Some(value) =
            h.facts.number(&format!("route/{name}")).filter(|value| *value > 0 && *value < least)
        {
            small.push(format!("{name} {value}"));
        }
    }
    let value = if small.is_empty() { out.to_owned() } else { format!("{out}, with {}", small.join(", ")) };
    let found = CheckResult::rule(
        out == h.interface() && small.is_empty(),
        value,
        format!("{}, without limits", h.interface()),
    );
    let control = h.maybe("route/congctl").unwrap_or_default();
    Ok(found.shows_if(!control.is_empty(), format!("congestion control of this route: {control}")).advise(
        format!("ip route replace PEER dev {}", h.interface()),
        "the same in the network's configuration",
    ))
}

fn families(h: &HostView<'_>) -> CheckOutcome {
    let time = |family: &str| h.facts.number(&format!("peer/{family}/rtt_us"));
    let known = |family: &str| h.maybe(&format!("peer/{family}")).is_some();
    if !known("v4") && !known("v6") {
        return not_applicable("no peer was named (--peer)");
    }
    Ok(match (time("v4"), time("v6")) {
        (Some(four), Some(six)) => {
            let (least, most) = (four.min(six).max(1), four.max(six));
            let near = most < 1000 || most / 3 <= least / 2;
            CheckResult::rule(near, format!("IPv4 {four} us, IPv6 {six} us"), "the same class of round trip")
                .advise("use the faster family: give the peer's address instead of its name", "")
        }
        (Some(four), None) => CheckResult::info(format!("IPv4 {four} us, no IPv6"), "both"),
        (None, Some(six)) => CheckResult::info(format!("IPv6 {six} us, no IPv4"), "both"),
        (None, None) => CheckResult::info("the peer answers at none of its addresses", "both"),
    })
}

fn bond(h: &HostView<'_>) -> CheckOutcome {
    if !h.facts.facts.contains_key(&h.net("bonding/mode")) {
        return not_applicable("the interface is not a bond");
    }
    let mode = h.text(&h.net("bonding/mode"))?.split(' ').next().unwrap_or_default();
    let policy = h.text(&h.net("bonding/xmit_hash_policy"))?.split(' ').next().unwrap_or_default();
    let members = h.maybe(&h.net("bonding/slaves")).unwrap_or_default();
    let speeds: Vec<u64> = members
        .split_whitespace()
        .filter_map(|name| h.facts.number(&format!("/sys/class/net/{name}/speed")))
        .collect();
    let each =
        speeds.iter().min().map_or("not known".to_owned(), |speed| format!("{} Gb/s", *speed as f64 / 1e3));
    let value = format!("{mode}, {policy}");
    let spread = policy == "layer3+4" || h.target.flows == 1;
    let found = CheckResult::rule(mode != "balance-rr" && spread, value, "layer3+4, and never balance-rr");
    Ok(found
        .shows(format!("one flow gets at most the rate of one member: {each}"))
        .shows_if(mode == "balance-rr", "round-robin over several links delivers packets out of order")
        .advise(
            format!("echo layer3+4 > {}", h.net("bonding/xmit_hash_policy")),
            "xmit_hash_policy=layer3+4 in its configuration",
        ))
}

fn hops(h: &HostView<'_>) -> CheckOutcome {
    let made = ["veth", "tun", "macvlan", "ipvlan", "bridge", "openvswitch", "vxlan", "dummy"];
    let driver = h.maybe(&h.card("driver")).unwrap_or_default();
    let mut in_way = Vec::new();
    if h.maybe("net/bridged").is_some() {
        in_way.push(format!("member of the bridge {}", h.maybe("net/master").unwrap_or("not known")));
    }
    if made.contains(&driver) {
        in_way.push(format!("virtual ({driver})"));
    }
    if driver.is_empty() && in_way.is_empty() {
        h.text(&h.card("driver"))?;
    }
    if h.maybe("host/container").is_some() && driver == "veth" {
        return Ok(CheckResult::info(in_way.join(", "), "a card")
            .advise("run with the host's network, or give the container the card", ""));
    }
    let value = if in_way.is_empty() { "none".to_owned() } else { in_way.join(", ") };
    Ok(CheckResult::rule(in_way.is_empty(), value, "none before the data")
        .advise("use a separate interface for the data", ""))
}

fn extras(h: &HostView<'_>) -> CheckOutcome {
    h.text(&h.card("feature/rx-gro"))?;
    let paths = h.maybe("/proc/sys/net/mptcp/enabled") == Some("1");
    let tls = h.maybe(&h.card("feature/tls-hw-tx-offload")).is_some_and(|state| state.starts_with("on"));
    let on = |is: bool| if is { "on" } else { "off" };
    Ok(CheckResult::info(format!("MPTCP {}, TLS in the card {}", on(paths), on(tls)), "known"))
}

fn clock(h: &HostView<'_>) -> CheckOutcome {
    let kept = h.text("clock/synchronised")? == "yes";
    let most = h.number("clock/max_error_us")?;
    let by: Vec<&str> = ["chronyd", "ntpd", "ptp4l", "systemd-timesyn"]
        .into_iter()
        .filter(|name| h.maybe(&format!("process/{name}")) == Some("running"))
        .collect();
    let value = if kept { format!("kept, within {most} us") } else { "not kept".to_owned() };
    let found = CheckResult::rule_if(
        h.target.measures(),
        kept && most < CLOCK_US,
        value,
        "kept by PTP or NTP, within 1 ms",
    );
    Ok(found
        .shows_if(!by.is_empty(), format!("by {}", by.join(", ")))
        .advise("", "chrony with a near server, or ptp4l and phc2sys with the card's clock"))
}
