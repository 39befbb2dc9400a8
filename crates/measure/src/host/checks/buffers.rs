//! C1 to C10: memory of sockets, and what every TCP connection needs.

use crate::host::check::{ALL, table};
use crate::host::found::{Examined, Found, Gap};
use crate::host::target::{BUFFER_MOST, size};
use crate::host::view::{View, sysctl};

const PAGE: u64 = 4096;
/// A default of every socket above this wastes memory.
const DEFAULT_MOST: u64 = 16 << 20;
/// What one profile of tuned sets, which is less than the kernel's own.
const TUNED: u64 = 16 << 20;

table! {
    /// Memory of sockets.
    TABLE:
    C1 "largest buffer that a program may ask for" High Loss "FOPL" ALL, largest:
        "The kernel grants no more, and does not say so; a UDP receiver that pauses then loses packets.";
    C2 "default buffers" Low Cpu "OK" ALL, defaults:
        "Every socket gets them, UDP sockets without any limit of their own.";
    C3 "TCP receive buffer" High Rate "FOPTL" ALL, tcp_receive:
        "The window grows up to this: a smaller one than twice what is on the way bounds the rate.";
    C4 "TCP send buffer" High Rate "FOPTL" ALL, tcp_send:
        "The sender keeps what is not acknowledged: a smaller buffer than that bounds the rate.";
    C5 "memory of TCP and UDP together" Medium Loss "U" ALL, together:
        "At this limit windows shrink, and UDP packets are dropped.";
    C6 "automatic receive buffers" High Rate "K" ALL, automatic:
        "Without it the window stays at the default.";
    C7 "window scaling, SACK, timestamps" High Rate "FU" ALL, options:
        "Windows above 64 KiB, recovery of many losses, and numbers that wrap in 0.34 s at 100 Gb/s need them.";
    C8 "metrics kept of earlier connections" Low Jitter "FPUL" ALL, metrics:
        "A connection that begins with what an earlier one learned of a bad path stays slow.";
    C9 "slow start after idle" Medium Rate "TL" ALL, idle:
        "Between two files the connection forgets what the path carries.";
    C10 "probing of the path's MTU" Medium Loss "FOPUL" ALL, probing:
        "A path that drops large packets silently hangs the connection, unless TCP tries smaller ones.";
}

/// A limit in bytes that is a round number.
fn round(bytes: u64) -> u64 {
    bytes.checked_next_power_of_two().unwrap_or(u64::MAX).min(BUFFER_MOST)
}

/// The largest receive buffer that a program of this host should be able to ask for. Every check that speaks of it wants the same.
pub(super) fn receive_wanted(h: &View<'_>) -> u64 {
    if h.target.receives() { h.target.window().max(h.target.udp_buffer()) } else { 0 }
}

/// As a setting: never less than what there is.
pub(super) fn receive_limit(h: &View<'_>) -> u64 {
    round(receive_wanted(h)).max(h.sysctl("net.core.rmem_max").unwrap_or(0))
}

fn largest(h: &View<'_>) -> Examined {
    let (receive, send) = (h.sysctl("net.core.rmem_max")?, h.sysctl("net.core.wmem_max")?);
    let receive_wanted = receive_wanted(h);
    let send_wanted = if h.target.sends() { h.target.window() } else { 0 };
    let mut found = Found::rule(
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

fn defaults(h: &View<'_>) -> Examined {
    let (receive, send) = (h.sysctl("net.core.rmem_default")?, h.sysctl("net.core.wmem_default")?);
    let mut found = Found::rule(
        receive <= DEFAULT_MOST && send <= DEFAULT_MOST,
        format!("receive {}, send {}", size(receive), size(send)),
        format!("up to {}", size(DEFAULT_MOST)),
    );
    found = found.shows_if(receive > DEFAULT_MOST, "OSG sets a quarter of the largest: for each UDP socket");
    for (name, now) in [("net.core.rmem_default", receive), ("net.core.wmem_default", send)] {
        if now > DEFAULT_MOST {
            found = found.set(sysctl(name), 212_992);
        }
    }
    Ok(found)
}

/// The third of three numbers: a ceiling.
fn ceiling(h: &View<'_>, name: &str, wanted: u64) -> Examined {
    let all = h.numbers(&sysctl(name))?;
    let [least, usual, most] = all[..] else {
        return Err(Gap::Unknown(format!("{name} has {} numbers", all.len())));
    };
    let found = Found::rule(most >= wanted, size(most), format!("at least {}", size(wanted)));
    let tuned = most == TUNED && most < wanted;
    Ok(found
        .shows_if(tuned, "this is what tuned's network-throughput sets, below the default of Linux 6.18")
        .set(sysctl(name), format!("{least} {usual} {}", round(wanted).max(most))))
}

fn tcp_receive(h: &View<'_>) -> Examined {
    ceiling(h, "net.ipv4.tcp_rmem", if h.target.receives() { h.target.window() } else { 0 })
}

fn tcp_send(h: &View<'_>) -> Examined {
    ceiling(h, "net.ipv4.tcp_wmem", if h.target.sends() { h.target.window() } else { 0 })
}

fn together(h: &View<'_>) -> Examined {
    let pages = |name: &str| -> Result<[u64; 3], Gap> {
        let all = h.numbers(&sysctl(name))?;
        all[..].try_into().map_err(|_| Gap::Unknown(format!("{name} has {} numbers", all.len())))
    };
    let (tcp, udp) = (pages("net.ipv4.tcp_mem")?, pages("net.ipv4.udp_mem")?);
    let bytes = |all: [u64; 3]| all[2].saturating_mul(PAGE);
    let needs = h.target.flows.saturating_mul(h.target.window()).saturating_mul(3) / 2;
    // More than half of the memory is for nobody's buffers.
    let memory = h.facts.number("host/memory").unwrap_or(u64::MAX);
    let tcp_wanted = needs.min(memory / 2);
    let udp_wanted = if h.target.receives() { h.target.udp_buffer().min(memory / 2) } else { 0 };
    let mut found = Found::rule(
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

fn automatic(h: &View<'_>) -> Examined {
    h.sysctl_is("net.ipv4.tcp_moderate_rcvbuf", 1)
}

fn options(h: &View<'_>) -> Examined {
    let names = ["net.ipv4.tcp_window_scaling", "net.ipv4.tcp_sack", "net.ipv4.tcp_timestamps"];
    let mut off = Vec::new();
    for name in names {
        if h.sysctl(name)? == 0 {
            off.push(name);
        }
    }
    let value = if off.is_empty() { "on".to_owned() } else { format!("off: {}", off.join(", ")) };
    let mut found = Found::rule(off.is_empty(), value, "on");
    found =
        found.shows_if(off.contains(&names[2]), "that timestamps cost rate is advice of the days of 1 Gb/s");
    for name in off {
        found = found.set(sysctl(name), 1);
    }
    Ok(found)
}

fn metrics(h: &View<'_>) -> Examined {
    let off = h.sysctl("net.ipv4.tcp_no_metrics_save")? == 1;
    let value = if off { "not kept" } else { "kept" };
    let found = Found::rule_if(h.target.measures(), off, value, "not kept on hosts that measure");
    Ok(found.set(sysctl("net.ipv4.tcp_no_metrics_save"), 1))
}

fn idle(h: &View<'_>) -> Examined {
    let off = h.sysctl("net.ipv4.tcp_slow_start_after_idle")? == 0;
    let found = Found::rule_if(h.target.sends(), off, if off { "off" } else { "on" }, "off");
    Ok(found.set(sysctl("net.ipv4.tcp_slow_start_after_idle"), 0))
}

fn probing(h: &View<'_>) -> Examined {
    let now = h.sysctl("net.ipv4.tcp_mtu_probing")?;
    let found = Found::rule_if(h.mtu() >= 9000, now >= 1, now.to_string(), "1 with an MTU of 9000");
    Ok(found.set(sysctl("net.ipv4.tcp_mtu_probing"), 1))
}

#[cfg(test)]
mod tests {
    #[test]
    fn limits_are_round_and_never_more_than_the_kernel_takes() {
        assert_eq!(super::round(125_000_000), 134_217_728);
        assert_eq!(super::round(super::BUFFER_MOST), super::BUFFER_MOST);
        assert_eq!(super::round(0), 1);
    }
}
