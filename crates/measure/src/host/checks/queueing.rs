//! B17 to B26: pause, stamps, driver, queueing disciplines.

use crate::host::check::{ALL, from, table};
use crate::host::check::{HostView, sysctl};
use crate::host::found::{CheckOutcome, CheckResult, NotJudged, not_applicable, unknown};

/// What ESnet's tests set for large packets inside the host: IPv6, IPv4.
const BIG: [u64; 2] = [185_000, 150_000];
const USUAL: u64 = 65536;
/// Pieces of a packet that large packets without a copy need.
const PIECES: u64 = 45;
/// A flush that waits longer than this delays packets.
const FLUSH_NS: u64 = 100_000;

table! {
    /// Queues to the network.
    TABLE:
    B17 "pause frames" Medium Loss "FU" ALL, pause:
        "They stop a sender before the ring overflows, but a switch may stop other traffic too.";
    B18 "hardware timestamps" Low Jitter "UK" ALL, stamps:
        "Jitter below a microsecond can only be measured with the card's clock.";
    B19 "driver and firmware" Low Evidence "O" ALL, driver:
        "Defects of cards are fixed in firmware: compare yours with the vendor's latest.";
    B20 "driver private flags" Low Rate "K" ALL, private_flags:
        "mlx5 receives fastest with strided queues.";
    B21 "transmit queue length" Low Loss "OU" ALL, queue_length:
        "A short queue drops bursts of the sender. It is not used with fq.";
    B22 "BIG TCP" Low Cpu "E" from(5, 19), big_tcp:
        "Packets above 64 KiB inside the host mean fewer passes through the stack.";
    B23 "fragments of a socket buffer" Low Cpu "E" from(6, 4), pieces:
        "BIG TCP with zero-copy needs more fragments for each packet.";
    B24 "queueing discipline" High Rate "FOKL" ALL, discipline:
        "fq paces the packets of each flow, so that bursts do not overflow switches on the path.";
    B25 "pacing rate of a flow" Medium Rate "F" ALL, pace:
        "On long paths, flows paced slightly below the link rate reach two to four times the throughput of bursty ones.";
    B26 "GRO flush timeout, deferred interrupts, threaded NAPI" Low Jitter "K" from(5, 12), polling:
        "They save interrupts for programs that poll, and delay packets for others.";
}

fn pause(h: &HostView<'_>) -> CheckOutcome {
    let risen = h.risen("count/card/", |name| {
        name.contains("tx") && name.contains("pause") && !name.contains("duration")
    });
    if h.before.is_some() && !risen.is_empty() {
        return Ok(h
            .counters(&risen, "pause frames sent")
            .shows("this host could not accept packets in time and asked its switch to pause"));
    }
    let (rx, tx) = (h.asked_number("pause/rx")? == 1, h.asked_number("pause/tx")? == 1);
    let on = |is: bool| if is { "on" } else { "off" };
    let value = format!("rx {}, tx {}", on(rx), on(tx));
    Ok(if rx && tx {
        CheckResult::pass(value, "on")
    } else {
        CheckResult::info(value, "sources disagree")
            .shows("ESnet: on, but off where other traffic shares the switch queue; udpmon: often off")
            .advise(
                format!("ethtool -A {} rx on tx on", h.interface()),
                format!(
                    "RxFlowControl=yes and TxFlowControl=yes in /etc/systemd/network/10-{}.link",
                    h.interface()
                ),
            )
    })
}

fn stamps(h: &HostView<'_>) -> CheckOutcome {
    let (rx, tx) = (h.text(&h.card("stamp/rx"))? == "yes", h.maybe(&h.card("stamp/tx")) == Some("yes"));
    let clock = h.maybe(&h.card("stamp/clock")).unwrap_or("no clock");
    let value = match (rx, tx) {
        (true, true) => format!("both ways, {clock}"),
        (true, false) => format!("received packets, {clock}"),
        (false, true) => format!("sent packets, {clock}"),
        (false, false) => "none".to_owned(),
    };
    Ok(CheckResult::rule_if(h.target.measures(), rx && tx, value, "both ways"))
}

fn driver(h: &HostView<'_>) -> CheckOutcome {
    let driver = h.text(&h.card("driver"))?;
    if h.is_virtual() {
        return not_applicable(format!("{driver} has no firmware"));
    }
    let part = |name: &str| h.maybe(&h.card(name)).filter(|text| !text.is_empty()).unwrap_or("not known");
    let value = format!("{driver} {}, firmware {}", part("driver_version"), part("firmware"));
    let of_peer = |name: &str| {
        let peer = h.peer?;
        peer.text(&format!("ethtool/{}/{name}", peer.interface)).filter(|text| !text.is_empty())
    };
    let (same, here) = (of_peer("driver") == Some(driver), h.maybe(&h.card("firmware")));
    let advice = ("", "fwupdmgr update, or the vendor's tool");
    let found = match (here, of_peer("firmware").filter(|_| same)) {
        (Some(here), Some(there)) if here == there => CheckResult::pass(value, "as the peer's"),
        (Some(_), Some(there)) => CheckResult::warn(value, "as the peer's")
            .shows(format!("the peer's {driver} has firmware {there}")),
        _ => CheckResult::info(value, "the vendor's newest"),
    };
    // A driver of the kernel's own tree has the kernel's version.
    let version = h.maybe(&h.card("driver_version")).filter(|version| !version.is_empty());
    let own = version.is_none_or(|version| version == h.facts.kernel);
    Ok(found
        .shows_if(
            !own,
            format!("the driver is not part of Linux {}: its vendor maintains it", h.facts.kernel),
        )
        .advise(advice.0, advice.1))
}

fn private_flags(h: &HostView<'_>) -> CheckOutcome {
    let driver = h.text(&h.card("driver"))?;
    if driver != "mlx5_core" {
        return not_applicable(format!("no check for {driver}"));
    }
    let strided = h.text(&h.card("private/rx_striding_rq"))? == "on";
    let compressed = h.maybe(&h.card("private/rx_cqe_compress")).unwrap_or("not known");
    let found =
        CheckResult::rule(strided, if strided { "strided" } else { "not strided" }, "rx_striding_rq on");
    Ok(found
        .shows(format!("rx_cqe_compress {compressed}: on helps where PCIe is the limit (A12)"))
        .advise(format!("ethtool --set-priv-flags {} rx_striding_rq on", h.interface()), ""))
}

/// The discipline at the root, and what its leaves are.
fn disciplines<'a>(h: &HostView<'a>) -> Result<(&'a str, Vec<&'a str>), NotJudged> {
    let root = h.text("qdisc/root")?;
    Ok((root, h.maybe("qdisc/leaves").unwrap_or_default().split_whitespace().collect()))
}

/// Whether flows are spaced.
fn spaced(h: &HostView<'_>) -> Result<bool, NotJudged> {
    let (root, leaves) = disciplines(h)?;
    Ok(root == "fq"
        || (root.starts_with("mq") && !leaves.is_empty() && leaves.iter().all(|leaf| *leaf == "fq")))
}

fn queue_length(h: &HostView<'_>) -> CheckOutcome {
    let length = h.number(&h.net("tx_queue_len"))?;
    if spaced(h).unwrap_or(false) {
        return not_applicable("fq has its own limits");
    }
    if h.maybe("qdisc/root") == Some("noqueue") {
        return not_applicable("the interface has no queue");
    }
    Ok(CheckResult::rule(length >= 1000, length.to_string(), "at least 1000")
        .set(h.net("tx_queue_len"), 1000))
}

fn big_tcp(h: &HostView<'_>) -> CheckOutcome {
    let six = h.number("link/gso_max_size")?.min(h.number("link/gro_max_size")?);
    let four = h.facts.number("link/gso_ipv4_max_size").unwrap_or(six.min(USUAL));
    let value = format!("{six} bytes, IPv4 {four}");
    let large = six > USUAL || four > USUAL;
    let near = h.target.rtt <= 1_000_000 && h.target.at_least_gbps(100);
    let name = h.interface();
    let [for_six, for_four] = BIG;
    Ok(if large == near {
        CheckResult::pass(value, if near { "above 65536" } else { "65536" })
    } else if near {
        CheckResult::info(value, format!("{for_six}, IPv4 {for_four}, at 100 Gb/s between near hosts")).advise(
            format!("ip link set dev {name} gso_max_size {for_six} gro_max_size {for_six} gso_ipv4_max_size {for_four} gro_ipv4_max_size {for_four}"),
            "",
        )
    } else {
        CheckResult::info(value, "65536 but for 100 Gb/s between near hosts").advise(
            format!("ip link set dev {name} gso_max_size {USUAL} gro_max_size {USUAL} gso_ipv4_max_size {USUAL} gro_ipv4_max_size {USUAL}"),
            "",
        )
    })
}

fn pieces(h: &HostView<'_>) -> CheckOutcome {
    let now = h.sysctl("net.core.max_skb_frags")?;
    let large = h.facts.number("link/gso_max_size").is_some_and(|size| size > USUAL);
    let wanted = if large { PIECES } else { 17 };
    let found = CheckResult::rule(now >= wanted, now.to_string(), wanted.to_string());
    Ok(found.set(sysctl("net.core.max_skb_frags"), wanted))
}

fn discipline(h: &HostView<'_>) -> CheckOutcome {
    let (root, leaves) = disciplines(h)?;
    if h.before.is_some() && h.rose("count/qdisc/drops").unwrap_or(0) > 0 {
        let by = h.rose("count/qdisc/drops").unwrap_or(0);
        return Ok(CheckResult::fail(format!("{root} dropped {by} packets during the run"), "no drops")
            .shows("the sender exceeded the rate of the interface")
            .advise("let the sender pace its packets (fq, or --rate)", ""));
    }
    if root == "noqueue" {
        return not_applicable("the interface has no queue");
    }
    if !h.target.sends() {
        return not_applicable("only for senders");
    }
    let queues = h.facts.facts.keys().filter(|name| name.ends_with("/xps_cpus")).count();
    let mut kinds: Vec<&str> = leaves.clone();
    kinds.dedup();
    let value = if leaves.is_empty() { root.to_owned() } else { format!("{root} with {}", kinds.join(", ")) };
    let one_lock = root == "fq" && queues > 8;
    let wanted = if queues > 1 { "mq with fq" } else { "fq" };
    let found = CheckResult::rule(spaced(h)? && !one_lock, value, wanted);
    let found = found.shows_if(one_lock, format!("one fq for {queues} queues is one lock for all cores"));
    let name = h.interface();
    Ok(if queues > 1 {
        // A new mq has the default in each queue.
        found.set(sysctl("net.core.default_qdisc"), "fq").set(format!("qdisc/{name}/root"), "mq")
    } else {
        found.set(format!("qdisc/{name}/root"), "fq")
    })
}

fn pace(h: &HostView<'_>) -> CheckOutcome {
    if !spaced(h)? {
        return not_applicable("flows are not paced by fq");
    }
    if !h.target.sends() {
        return not_applicable("only for senders");
    }
    let each = h.target.rate as f64 / h.target.flows as f64;
    let wanted = format!("{:.1} to {:.1} Gb/s for each flow", 0.8 * each / 1e9, 0.9 * each / 1e9);
    // Bytes per second; the largest number is no limit.
    let most = h.facts.number("qdisc/fq/maxrate").filter(|rate| *rate < u64::from(u32::MAX));
    let long = h.target.rtt >= 20_000_000;
    // One fq before all queues is what B24 takes away.
    let queues = h.facts.facts.keys().filter(|name| name.ends_with("/xps_cpus")).count();
    let now = if queues > 1 {
        format!(
            "programs pace themselves: SO_MAX_PACING_RATE of {:.0} bytes/s for each flow",
            0.85 * each / 8.0
        )
    } else {
        let (name, megabits) = (h.interface(), 0.85 * each / 1e6);
        format!("tc qdisc replace dev {name} root fq maxrate {megabits:.0}mbit, or SO_MAX_PACING_RATE")
    };
    Ok(match most {
        None if long => CheckResult::info("not limited", wanted).advise(now, ""),
        None => CheckResult::pass("not limited", "not limited on short paths"),
        Some(rate) => {
            let bits = rate as f64 * 8.0;
            CheckResult::rule(bits >= 0.5 * each, format!("{:.1} Gb/s", bits / 1e9), wanted).advise(now, "")
        }
    })
}

fn polling(h: &HostView<'_>) -> CheckOutcome {
    let flush = h.number(&h.net("gro_flush_timeout"))?;
    let defer = h.number(&h.net("napi_defer_hard_irqs"))?;
    let threaded = h.facts.number(&h.net("threaded")).unwrap_or(0);
    let value = format!("flush {flush} ns, deferred {defer}, threaded {threaded}");
    if flush == 0 && defer == 0 && threaded == 0 {
        return Ok(CheckResult::pass(value, "0 unless programs poll"));
    }
    if h.sysctl("net.core.busy_poll").is_err() {
        return unknown("net.core.busy_poll cannot be read");
    }
    Ok(if flush > FLUSH_NS {
        CheckResult::warn(value, "0 unless programs poll").set(h.net("gro_flush_timeout"), 0)
    } else {
        CheckResult::info(value, "0 unless programs poll")
    })
}
