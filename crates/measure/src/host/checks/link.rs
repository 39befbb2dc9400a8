//! B1 to B8: the link, its MTU, rings and interrupts of the card.

use crate::host::check::HostView;
use crate::host::check::{ALL, table};
use crate::host::found::{CheckOutcome, CheckResult, not_applicable, unknown};
use crate::host::target::HostRole;

/// The kernel from which on ESnet no longer recommends the largest ring.
const RINGS_STAY: (u32, u32) = (6, 11);
/// The jumbo frame that everyone means.
const JUMBO: u64 = 9000;

table! {
    /// The link.
    TABLE:
    B1 "link: up, duplex, speed" High Rate "U" ALL, link:
        "A link below its nominal speed, or that goes down, limits every transfer.";
    B2 "forward error correction of the link" High Loss "K" ALL, fec:
        "Bit errors cause single losses, more often for large packets. Links from 25 Gb/s on need RS-FEC.";
    B3 "MTU" High Rate "FOU" ALL, mtu:
        "With 9000 bytes there are six times fewer packets, and TCP recovers six times faster.";
    B4 "path MTU" High Loss "FU" ALL, path_mtu:
        "If a hop has a smaller MTU than both ends assume, TCP hangs after its handshake.";
    B5 "receive ring" Medium Loss "FOU" ALL, ring:
        "It holds packets until a core fetches them. A large ring evicts data from the cache.";
    B6 "packets dropped by the card" High Evidence "U" ALL, card_drops:
        "They arrived over the network and were lost in this host, because of its rings and interrupts.";
    B7 "adaptive interrupt moderation" Medium Jitter "FU" ALL, adaptive:
        "It saves CPU for bulk data, but adds jitter to measurements.";
    B8 "interrupt moderation" Medium Cpu "K" ALL, moderation:
        "An interrupt for each packet takes a whole core; an interrupt that comes too late lets the ring overflow.";
}

fn link(h: &HostView<'_>) -> CheckOutcome {
    let state = h.text(&h.net("operstate"))?;
    let carrier = h.rose("count/net/carrier_changes").unwrap_or(0);
    if carrier > 0 {
        let lost = format!("the carrier changed {carrier} times during the run");
        return Ok(CheckResult::fail(lost, "steady").advise("", "check cable, optics and the switch's port"));
    }
    // The kernel says "up" up to a second after the carrier came.
    let carried = h.maybe(&h.net("carrier"));
    if !matches!(state, "up" | "unknown") && carried != Some("1") {
        let found = CheckResult::warn(state, "up");
        // It is up, but nothing is at its other end.
        if carried == Some("0") {
            return Ok(found.advise("", "check cable, optics and the switch's port"));
        }
        return Ok(found.advise(format!("ip link set {} up", h.interface()), ""));
    }
    let Some(speed) = h.facts.link_rate() else {
        return if h.is_virtual() {
            not_applicable("this interface has no speed")
        } else {
            unknown("the driver does not report a speed")
        };
    };
    let duplex = h.maybe(&h.net("duplex")).unwrap_or("unknown");
    let holds = speed >= h.target.rate && duplex != "half";
    let found = CheckResult::rule(
        holds,
        format!("{} Gb/s, {duplex} duplex", speed as f64 / 1e9),
        format!("at least {} Gb/s, full duplex", h.target.rate as f64 / 1e9),
    );
    Ok(found.advise("", "another cable, port or card; or check what the switch negotiates"))
}

fn fec(h: &HostView<'_>) -> CheckOutcome {
    let lost = h.risen("count/card/", |name| {
        let name = name.to_ascii_lowercase();
        name.contains("uncorrect") || name.contains("symbol_err") || name == "rx_crc_errors_phy"
    });
    if !lost.is_empty() && h.before.is_some() {
        return Ok(h
            .counters(&lost, "uncorrected errors")
            .advise("", "clean or replace the optics and fibres"));
    }
    let speed = h.facts.link_rate().unwrap_or(0);
    if h.is_virtual() {
        return not_applicable("this interface has no physical link");
    }
    if speed > 0 && speed < 25_000_000_000 {
        return not_applicable("links below 25 Gb/s need no FEC");
    }
    let mode = h.text(&h.card("fec"))?;
    let mut found = CheckResult::rule(mode.split(' ').any(|m| m == "rs"), mode, "rs");
    for (name, count) in &lost {
        found = found.shows(format!("{name} {count} since boot"));
    }
    Ok(found
        .advise(format!("ethtool --set-fec {} encoding rs", h.interface()), "the same at the switch's port"))
}

fn mtu(h: &HostView<'_>) -> CheckOutcome {
    let now = h.number(&h.net("mtu"))?;
    let most = h.facts.number("link/max_mtu").filter(|most| *most > 0);
    let wanted = h.target.mtu.unwrap_or(JUMBO).min(most.unwrap_or(u64::MAX));
    let given = h.target.mtu.is_some();
    let holds = if given { now == wanted } else { now >= wanted };
    let found =
        CheckResult::rule_if(given || h.target.at_least_gbps(10), holds, now.to_string(), wanted.to_string());
    Ok(found.shows_if(!given, "only if the whole path supports it; to test: ping -M do -s 8972 PEER").advise(
        format!("ip link set dev {} mtu {wanted}", h.interface()),
        format!("MTUBytes={wanted} in /etc/systemd/network/10-{}.link", h.interface()),
    ))
}

fn path_mtu(h: &HostView<'_>) -> CheckOutcome {
    if !h.facts.facts.contains_key("path/mtu") {
        return not_applicable("no peer was named (--peer)");
    }
    let (path, here) = (h.number("path/mtu")?, h.mtu());
    // TCP tries longer packets (net.ipv4.tcp_mtu_probing), and those were lost: nobody says that they are too long.
    if let Some(lost) = h.rose("count/TcpExt/TCPMTUPFail").filter(|lost| *lost > 0) {
        let found = CheckResult::fail(format!("{path} to the peer"), "no packet above the path MTU");
        let found = found.shows(format!("count/TcpExt/TCPMTUPFail rose by {lost}: longer packets vanish"));
        return Ok(
            found.advise("", "let ICMP pass (type 3 code 4; IPv6: type 2), or set the same MTU on every hop")
        );
    }
    let there = h.peer.and_then(|peer| peer.number(&format!("/sys/class/net/{}/mtu", peer.interface)));
    let equal = there.is_none_or(|there| there == here);
    let found = CheckResult::rule(
        path >= here && equal,
        format!("{path} to the peer"),
        format!("{here}, as this interface"),
    );
    let found = found.shows_if(!equal, format!("the peer's interface has {}", there.unwrap_or(0)));
    Ok(found.advise("", "set the same MTU at both ends and on every hop, or net.ipv4.tcp_mtu_probing=1"))
}

fn ring(h: &HostView<'_>) -> CheckOutcome {
    let now = h.asked_number("ring/rx")?;
    let most = h.asked_number("ring/rx-max")?;
    let lasts = now as f64 * h.target.packet_ns(h.mtu()) / 1e3;
    let dropped = h.before.is_some() && !card_dropped(h).is_empty();
    let old = h.facts.kernel_version() < RINGS_STAY;
    let (value, wanted) = (format!("{now} of {most}"), most.to_string());
    let found = if now >= most {
        CheckResult::pass(value, wanted)
    } else if old || dropped {
        CheckResult::warn(value, wanted)
    } else {
        CheckResult::info(value, "sources disagree").shows(
            "ESnet, from Linux 6.11: unchanged unless the card drops packets (B6); OSG, udpmon: the maximum",
        )
    };
    // Setting it interrupts the link briefly, so --apply does it only if it was named.
    Ok(found
        .shows_if(
            now < most,
            format!(
                "it lasts {lasts:.0} us at the target rate; setting a new size interrupts the link briefly"
            ),
        )
        .set(h.card("ring/rx"), most))
}

/// What the card had no room for.
fn card_dropped<'a>(h: &HostView<'a>) -> Vec<(&'a str, u64)> {
    let mut all = h
        .risen("count/net/", |name| matches!(name, "rx_missed_errors" | "rx_fifo_errors" | "rx_over_errors"));
    let names = [
        "out_of_buffer",
        "discards_phy",
        "no_dma_resources",
        "steer_missed",
        "no_buffer",
        "rx_missed",
        "alloc_fail",
        "rx_fifo",
        "rx_drop",
        "out_of_resource",
    ];
    all.extend(h.risen("count/card/", |name| {
        let name = name.to_ascii_lowercase();
        // Those of each queue are parts of the sums.
        let of_queue = name.starts_with("rx_queue_") || name.starts_with("queue_");
        !of_queue
            && (name.starts_with("rx") || name.starts_with("port"))
            && names.iter().any(|part| name.contains(part))
    }));
    all
}

fn card_drops(h: &HostView<'_>) -> CheckOutcome {
    if !h.facts.facts.contains_key("count/net/rx_missed_errors") {
        return unknown("the interface has no counters");
    }
    let found = h.counters(&card_dropped(h), "packets dropped by the card");
    let name = h.interface();
    let found = found.advise("spread interrupts (A7) and flows (B13)", "");
    let ring = |what: &str| h.facts.number(&h.card(what));
    // A ring that is as large as it can be stays.
    Ok(match (ring("ring/rx"), ring("ring/rx-max")) {
        (Some(now), Some(most)) if now < most => found.advise(
            format!("ethtool -G {name} rx {most}"),
            format!("RxBufferSize={most} in /etc/systemd/network/10-{name}.link"),
        ),
        _ => found,
    })
}

fn adaptive(h: &HostView<'_>) -> CheckOutcome {
    let on = h.asked_number("coalesce/adaptive-rx")? == 1;
    let usecs = h.facts.number(&h.card("coalesce/rx-usecs")).unwrap_or(0);
    let value = format!("{}, rx-usecs {usecs}", if on { "on" } else { "off" });
    let setting = h.card("coalesce/adaptive-rx");
    Ok(match (h.target.measures(), on) {
        (true, _) => CheckResult::rule(!on, value, "off, rx-usecs fixed at 8 to 16").set(setting, "off"),
        (false, true) => CheckResult::pass(value, "on"),
        (false, false) => CheckResult::info(value, "sources disagree")
            .shows("ESnet: on for bulk data; udpmon: off, with fixed times")
            .set(setting, "on"),
    })
}

fn moderation(h: &HostView<'_>) -> CheckOutcome {
    let usecs = h.asked_number("coalesce/rx-usecs")?;
    let frames = h.facts.number(&h.card("coalesce/rx-frames")).unwrap_or(0);
    let ring = h.facts.number(&h.card("ring/rx")).unwrap_or(512);
    let packet_us = h.target.packet_ns(h.mtu()) / 1e3;
    // A quarter of the ring may fill before the interrupt comes.
    let most = (ring as f64 / 4.0 * packet_us).max(8.0);
    let adaptive = h.facts.number(&h.card("coalesce/adaptive-rx")) == Some(1);
    let often = usecs == 0 && frames <= 1 && !adaptive && h.target.at_least_gbps(10);
    let late = usecs as f64 > most || frames as f64 > ring as f64 / 4.0;
    let found = CheckResult::rule(
        !often && !late,
        format!("rx-usecs {usecs}, rx-frames {frames}"),
        format!("rx-usecs 8 to {most:.0}, rx-frames up to {}", ring / 4),
    );
    let quiet = h.target.role == HostRole::Record;
    Ok(found.set(h.card("coalesce/rx-usecs"), if quiet { most.min(50.0) as u64 } else { 8 }))
}
