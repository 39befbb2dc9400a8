//! B17 to B26: pause, stamps, driver, queueing disciplines.

use crate::host::check::{ALL, from, table};
use crate::host::found::{Examined, Found, Gap, not_applicable, unknown};
use crate::host::view::{View, sysctl};

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
        "They stop a sender before the ring overflows; in a switch they also stop others.";
    B18 "stamps of the card" Low Jitter "UK" ALL, stamps:
        "Jitter below a microsecond can only be measured with the card's own clock.";
    B19 "driver and firmware" Low Evidence "O" ALL, driver:
        "Defects of cards are mended in their firmware: compare it with the vendor's.";
    B20 "private flags of the driver" Low Rate "K" ALL, private_flags:
        "mlx5 receives fastest with strided queues.";
    B21 "length of the send queue" Low Loss "OU" ALL, queue_length:
        "A short queue of packets drops bursts of the sender; with fq it is not used.";
    B22 "BIG TCP" Low Cpu "E" from(5, 19), big_tcp:
        "Packets above 64 KiB inside the host cross the stack fewer times.";
    B23 "pieces of a packet" Low Cpu "E" from(6, 4), pieces:
        "BIG TCP without a copy needs more pieces for each packet.";
    B24 "queueing discipline" High Rate "FOKL" ALL, discipline:
        "fq spaces the packets of each flow, so a burst does not overflow a switch on the way.";
    B25 "pace of a flow" Medium Rate "F" ALL, pace:
        "On long paths flows a little below the rate gain two to four times what bursts lose.";
    B26 "flush, deferred and threaded polling" Low Jitter "K" from(5, 12), polling:
        "They save interrupts for programs that poll; for others they delay packets.";
}

fn pause(h: &View<'_>) -> Examined {
    let risen = h.risen("count/card/", |name| {
        name.contains("tx") && name.contains("pause") && !name.contains("duration")
    });
    if h.before.is_some() && !risen.is_empty() {
        return Ok(h
            .counters(&risen, "pause frames sent")
            .shows("this host could not take packets in time, and asked its switch to stop"));
    }
    let (rx, tx) = (h.asked_number("pause/rx")? == 1, h.asked_number("pause/tx")? == 1);
    let on = |is: bool| if is { "on" } else { "off" };
    let value = format!("rx {}, tx {}", on(rx), on(tx));
    Ok(if rx && tx {
        Found::pass(value, "on")
    } else {
        Found::info(value, "sources disagree")
            .shows(
                "ESnet: on; off where a switch gives other traffic the same queue; udpmon's hosts: often off",
            )
            .advise(
                format!("ethtool -A {} rx on tx on", h.interface()),
                format!(
                    "RxFlowControl=yes and TxFlowControl=yes in /etc/systemd/network/10-{}.link",
                    h.interface()
                ),
            )
    })
}

fn stamps(h: &View<'_>) -> Examined {
    let (rx, tx) = (h.text(&h.card("stamp/rx"))? == "yes", h.maybe(&h.card("stamp/tx")) == Some("yes"));
    let clock = h.maybe(&h.card("stamp/clock")).unwrap_or("no clock");
    let value = match (rx, tx) {
        (true, true) => format!("both ways, {clock}"),
        (true, false) => format!("received packets, {clock}"),
        (false, true) => format!("sent packets, {clock}"),
        (false, false) => "none".to_owned(),
    };
    Ok(Found::rule_if(h.target.measures(), rx && tx, value, "both ways"))
}

fn driver(h: &View<'_>) -> Examined {
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
        (Some(here), Some(there)) if here == there => Found::pass(value, "as the peer's"),
        (Some(_), Some(there)) => {
            Found::warn(value, "as the peer's").shows(format!("the peer's {driver} has firmware {there}"))
        }
        _ => Found::info(value, "the vendor's newest"),
    };
    // A driver of the kernel's own tree has the kernel's version.
    let version = h.maybe(&h.card("driver_version")).filter(|version| !version.is_empty());
    let own = version.is_none_or(|version| version == h.facts.kernel);
    Ok(found
        .shows_if(!own, format!("the driver is not of Linux {}: its vendor mends it", h.facts.kernel))
        .advise(advice.0, advice.1))
}

fn private_flags(h: &View<'_>) -> Examined {
    let driver = h.text(&h.card("driver"))?;
    if driver != "mlx5_core" {
        return not_applicable(format!("nothing is known of {driver}"));
    }
    let strided = h.text(&h.card("private/rx_striding_rq"))? == "on";
    let compressed = h.maybe(&h.card("private/rx_cqe_compress")).unwrap_or("not known");
    let found = Found::rule(strided, if strided { "strided" } else { "not strided" }, "rx_striding_rq on");
    Ok(found
        .shows(format!("rx_cqe_compress {compressed}: on helps where PCIe is the limit (A12)"))
        .advise(format!("ethtool --set-priv-flags {} rx_striding_rq on", h.interface()), ""))
}

/// The discipline at the root, and what its leaves are.
fn disciplines<'a>(h: &View<'a>) -> Result<(&'a str, Vec<&'a str>), Gap> {
    let root = h.text("qdisc/root")?;
    Ok((root, h.maybe("qdisc/leaves").unwrap_or_default().split_whitespace().collect()))
}

/// Whether flows are spaced.
fn spaced(h: &View<'_>) -> Result<bool, Gap> {
    let (root, leaves) = disciplines(h)?;
    Ok(root == "fq"
        || (root.starts_with("mq") && !leaves.is_empty() && leaves.iter().all(|leaf| *leaf == "fq")))
}

fn queue_length(h: &View<'_>) -> Examined {
    let length = h.number(&h.net("tx_queue_len"))?;
    if spaced(h).unwrap_or(false) {
        return not_applicable("fq has limits of its own");
    }
    if h.maybe("qdisc/root") == Some("noqueue") {
        return not_applicable("the interface has no queue");
    }
    Ok(Found::rule(length >= 1000, length.to_string(), "at least 1000").set(h.net("tx_queue_len"), 1000))
}

fn big_tcp(h: &View<'_>) -> Examined {
    let six = h.number("link/gso_max_size")?.min(h.number("link/gro_max_size")?);
    let four = h.facts.number("link/gso_ipv4_max_size").unwrap_or(six.min(USUAL));
    let value = format!("{six} bytes, IPv4 {four}");
    let large = six > USUAL || four > USUAL;
    let near = h.target.rtt <= 1_000_000 && h.target.at_least_gbps(100);
    let name = h.interface();
    let [for_six, for_four] = BIG;
    Ok(if large == near {
        Found::pass(value, if near { "above 65536" } else { "65536" })
    } else if near {
        Found::info(value, format!("{for_six}, IPv4 {for_four}, at 100 Gb/s between near hosts")).advise(
            format!("ip link set dev {name} gso_max_size {for_six} gro_max_size {for_six} gso_ipv4_max_size {for_four} gro_ipv4_max_size {for_four}"),
            "",
        )
    } else {
        Found::info(value, "65536 but for 100 Gb/s between near hosts").advise(
            format!("ip link set dev {name} gso_max_size {USUAL} gro_max_size {USUAL} gso_ipv4_max_size {USUAL} gro_ipv4_max_size {USUAL}"),
            "",
        )
    })
}

fn pieces(h: &View<'_>) -> Examined {
    let now = h.sysctl("net.core.max_skb_frags")?;
    let large = h.facts.number("link/gso_max_size").is_some_and(|size| size > USUAL);
    let wanted = if large { PIECES } else { 17 };
    let found = Found::rule(now >= wanted, now.to_string(), wanted.to_string());
    Ok(found.set(sysctl("net.core.max_skb_frags"), wanted))
}

fn discipline(h: &View<'_>) -> Examined {
    let (root, leaves) = disciplines(h)?;
    if h.before.is_some() && h.rose("count/qdisc/drops").unwrap_or(0) > 0 {
        let by = h.rose("count/qdisc/drops").unwrap_or(0);
        return Ok(Found::fail(format!("{root} dropped {by} packets while it ran"), "no drops")
            .shows("the sender gave more than the interface takes")
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
    let found = Found::rule(spaced(h)? && !one_lock, value, wanted);
    let found = found.shows_if(one_lock, format!("one fq before {queues} queues is one lock for all cores"));
    let name = h.interface();
    Ok(if queues > 1 {
        // A new mq has the default in each queue.
        found.set(sysctl("net.core.default_qdisc"), "fq").set(format!("qdisc/{name}/root"), "mq")
    } else {
        found.set(format!("qdisc/{name}/root"), "fq")
    })
}

fn pace(h: &View<'_>) -> Examined {
    if !spaced(h)? {
        return not_applicable("flows are not spaced by fq");
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
        None if long => Found::info("not limited", wanted).advise(now, ""),
        None => Found::pass("not limited", "not limited on short paths"),
        Some(rate) => {
            let bits = rate as f64 * 8.0;
            Found::rule(bits >= 0.5 * each, format!("{:.1} Gb/s", bits / 1e9), wanted).advise(now, "")
        }
    })
}

fn polling(h: &View<'_>) -> Examined {
    let flush = h.number(&h.net("gro_flush_timeout"))?;
    let defer = h.number(&h.net("napi_defer_hard_irqs"))?;
    let threaded = h.facts.number(&h.net("threaded")).unwrap_or(0);
    let value = format!("flush {flush} ns, deferred {defer}, threaded {threaded}");
    if flush == 0 && defer == 0 && threaded == 0 {
        return Ok(Found::pass(value, "0 unless programs poll"));
    }
    if h.sysctl("net.core.busy_poll").is_err() {
        return unknown("net.core.busy_poll cannot be read");
    }
    Ok(if flush > FLUSH_NS {
        Found::warn(value, "0 unless programs poll").set(h.net("gro_flush_timeout"), 0)
    } else {
        Found::info(value, "0 unless programs poll")
    })
}
