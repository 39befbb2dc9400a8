//! C33 to C39: the way to the peer, what lies in it, and the time at both ends.

use crate::host::check::{ALL, table};
use crate::host::found::{Examined, Found, not_applicable};
use crate::host::view::View;

/// Of the clock, for one-way delays: a millisecond.
const CLOCK_US: u64 = 1000;

table! {
    /// The way.
    TABLE:
    C33 "filter of return paths, ARP" Medium Loss "OP" ALL, filter:
        "With several interfaces, packets that return by another one are dropped silently.";
    C34 "route to the peer" High Rate "U" ALL, route:
        "Data that leave by the interface for management get its rate.";
    C35 "IPv4 and IPv6 alike" Medium Rate "O" ALL, families:
        "The two may take different paths, and programs choose for themselves.";
    C36 "bond: how flows are spread" Medium Rate "K" ALL, bond:
        "One flow gets one member; a hash of addresses alone may put all flows on one.";
    C37 "bridges and virtual interfaces in the way" Medium Cpu "K" ALL, hops:
        "Each is another pass through the stack, with a queue of its own.";
    C38 "MPTCP, TLS in the kernel" Low Cpu "K" ALL, extras:
        "TLS in the kernel or in the card saves copies for HTTPS.";
    C39 "clock kept to others" Medium Jitter "K" ALL, clock:
        "One-way delays are as true as both clocks.";
}

fn filter(h: &View<'_>) -> Examined {
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
        return Ok(Found::pass(format!("{value}, one interface"), "any with one interface"));
    }
    let holds = filter != 1 && ignore >= 1 && announce >= 2;
    let mut found = Found::rule(holds, value, "rp_filter 2 or 0, arp_ignore 1, arp_announce 2")
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

fn route(h: &View<'_>) -> Examined {
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
    let found = Found::rule(
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

fn families(h: &View<'_>) -> Examined {
    let time = |family: &str| h.facts.number(&format!("peer/{family}/rtt_us"));
    let known = |family: &str| h.maybe(&format!("peer/{family}")).is_some();
    if !known("v4") && !known("v6") {
        return not_applicable("no peer was named (--peer)");
    }
    Ok(match (time("v4"), time("v6")) {
        (Some(four), Some(six)) => {
            let (least, most) = (four.min(six).max(1), four.max(six));
            let near = most < 1000 || most / 3 <= least / 2;
            Found::rule(near, format!("IPv4 {four} us, IPv6 {six} us"), "the same class of round trip")
                .advise("choose the faster family: name the peer by its address", "")
        }
        (Some(four), None) => Found::info(format!("IPv4 {four} us, no IPv6"), "both"),
        (None, Some(six)) => Found::info(format!("IPv6 {six} us, no IPv4"), "both"),
        (None, None) => Found::info("the peer has addresses, and answers on none", "both"),
    })
}

fn bond(h: &View<'_>) -> Examined {
    if !h.facts.facts.contains_key(&h.net("bonding/mode")) {
        return not_applicable("it is no bond");
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
    let found = Found::rule(mode != "balance-rr" && spread, value, "layer3+4, and never balance-rr");
    Ok(found
        .shows(format!("one flow gets at most one member: {each}"))
        .shows_if(mode == "balance-rr", "packets in turn over several links arrive out of order")
        .advise(
            format!("echo layer3+4 > {}", h.net("bonding/xmit_hash_policy")),
            "xmit_hash_policy=layer3+4 in its configuration",
        ))
}

fn hops(h: &View<'_>) -> Examined {
    let made = ["veth", "tun", "macvlan", "ipvlan", "bridge", "openvswitch", "vxlan", "dummy"];
    let driver = h.maybe(&h.card("driver")).unwrap_or_default();
    let mut in_way = Vec::new();
    if h.maybe("net/bridged").is_some() {
        in_way.push(format!("member of the bridge {}", h.maybe("net/master").unwrap_or("not known")));
    }
    if made.contains(&driver) {
        in_way.push(format!("made of software ({driver})"));
    }
    if driver.is_empty() && in_way.is_empty() {
        h.text(&h.card("driver"))?;
    }
    if h.maybe("host/container").is_some() && driver == "veth" {
        return Ok(Found::info(in_way.join(", "), "a card")
            .advise("run with the host's network, or give the container the card", ""));
    }
    let value = if in_way.is_empty() { "none".to_owned() } else { in_way.join(", ") };
    Ok(Found::rule(in_way.is_empty(), value, "none before the data")
        .advise("give the data an interface of their own", ""))
}

fn extras(h: &View<'_>) -> Examined {
    h.text(&h.card("feature/rx-gro"))?;
    let paths = h.maybe("/proc/sys/net/mptcp/enabled") == Some("1");
    let tls = h.maybe(&h.card("feature/tls-hw-tx-offload")).is_some_and(|state| state.starts_with("on"));
    let on = |is: bool| if is { "on" } else { "off" };
    Ok(Found::info(format!("MPTCP {}, TLS in the card {}", on(paths), on(tls)), "known"))
}

fn clock(h: &View<'_>) -> Examined {
    let kept = h.text("clock/synchronised")? == "yes";
    let most = h.number("clock/max_error_us")?;
    let by: Vec<&str> = ["chronyd", "ntpd", "ptp4l", "systemd-timesyn"]
        .into_iter()
        .filter(|name| h.maybe(&format!("process/{name}")) == Some("running"))
        .collect();
    let value = if kept { format!("kept, within {most} us") } else { "not kept".to_owned() };
    let found = Found::rule_if(
        h.target.measures(),
        kept && most < CLOCK_US,
        value,
        "kept by PTP or NTP, within 1 ms",
    );
    Ok(found
        .shows_if(!by.is_empty(), format!("by {}", by.join(", ")))
        .advise("", "chrony with a near server, or ptp4l and phc2sys with the card's clock"))
}
