//! What all checks advise together: one value for each setting, none that is lower than what it should raise, and nothing left to do
//! when all of it was done.

use super::{cases, run};
use skyhaul_measure::host::{CheckVerdict, HostReport};
use std::collections::BTreeMap;

/// Settings that say how much there may be: advice raises them.
const LIMITS: [&str; 14] = [
    "core/rmem_max",
    "core/wmem_max",
    "ipv4/tcp_rmem",
    "ipv4/tcp_wmem",
    "ipv4/tcp_mem",
    "ipv4/udp_mem",
    "core/netdev_max_backlog",
    "core/netdev_budget",
    "core/netdev_budget_usecs",
    "core/optmem_max",
    "ipv4/tcp_limit_output_bytes",
    "ipv4/ipfrag_high_thresh",
    "netfilter/nf_conntrack_max",
    "core/max_skb_frags",
];

/// Hosts on which several checks speak of one thing, beside those of the cases.
const MORE: [&str; 6] = [
    // C1, C26 and C27 want a receive buffer, for less and for more than what one of our receivers asks for.
    "/proc/sys/net/core/rmem_max=212992 ; socket/granted=212992 ; rise=count/Udp/RcvbufErrors:5",
    "/proc/sys/net/core/rmem_max=4194304 ; socket/granted=4194304 ; rate=100Gbps ; rtt=100ms ; flows=4",
    "/proc/sys/net/core/rmem_max=300000000 ; socket/granted=212992 ; rate=100Gbps",
    // One of two is more than enough already.
    "rise=count/softnet/3/squeezed:9 ; rise=count/softnet/3/dropped:9 ; /proc/sys/net/core/netdev_budget=1200 ; /proc/sys/net/core/netdev_budget_usecs=2000",
    "/proc/sys/net/ipv4/tcp_mem=900000 1000000 1000001 ; rate=100Gbps ; rtt=100ms",
    "/proc/sys/net/core/netdev_max_backlog=1000 ; /proc/net/softnet_stat=00000100 00000009 00000000 ; role=record",
];

/// What a report asks for.
fn settings(report: &HostReport) -> Vec<(String, String, String)> {
    let asks = report
        .checks
        .iter()
        .filter(|line| matches!(line.verdict, CheckVerdict::Fail | CheckVerdict::Warn | CheckVerdict::Info));
    asks.flat_map(|line| {
        line.settings.iter().map(|setting| (line.id.clone(), setting.name.clone(), setting.value.clone()))
    })
    .collect()
}

/// The last number of a setting: of three, the third is the limit.
fn limit(value: &str) -> u64 {
    value.split_whitespace().next_back().unwrap().parse().unwrap()
}

fn lines() -> impl Iterator<Item = String> {
    let of_cases = cases::ALL.lines().filter(|line| !line.trim().is_empty());
    let changes = of_cases.map(|line| line.trim().splitn(3, char::is_whitespace).nth(2).unwrap_or_default());
    changes.chain(MORE).map(str::to_owned)
}

#[test]
fn checks_that_set_the_same_want_the_same_and_raise_what_they_should() {
    let mut limits = 0;
    for changes in lines() {
        let (report, _) = run(&changes);
        let mut all: BTreeMap<String, (String, String)> = BTreeMap::new();
        for (check, name, value) in settings(&report) {
            if let Some((other, before)) = all.insert(name.clone(), (check.clone(), value.clone())) {
                assert_eq!(before, value, "{changes}: {other} and {check} want {name}");
            }
            let now = changes
                .split(" ; ")
                .filter_map(|change| change.split_once('='))
                .filter(|(at, _)| *at == name);
            let now = now.map(|(_, value)| value.to_owned()).last();
            let is_limit = LIMITS.iter().any(|limit| name == format!("/proc/sys/net/{limit}"));
            if let (true, Some(now)) = (is_limit, now) {
                assert!(limit(&value) >= limit(&now), "{changes}: {check} lowers {name} to {value}");
                limits += 1;
            }
        }
    }
    assert!(limits >= 6, "{limits}");
}

#[test]
fn what_was_advised_is_not_taken_back_when_it_was_done() {
    let mut done = 0;
    for changes in lines() {
        let (report, ran) = run(&changes);
        let all = settings(&report);
        if all.is_empty() || changes.contains("kernel/") {
            continue;
        }
        let mut set: Vec<String> = all
            .iter()
            .map(|(_, name, value)| {
                // As the kernel shows them.
                let name = name.replace("qdisc/eth1/root", "qdisc/root");
                let value = match value.as_str() {
                    on @ ("on" | "off") if name.contains("coalesce") => {
                        if on == "on" { "1" } else { "0" }.to_owned()
                    }
                    value => value.to_owned(),
                };
                format!("{name}={value}")
            })
            .collect();
        if set.iter().any(|setting| setting == "qdisc/root=mq") {
            set.push("qdisc/leaves=fq fq".into());
        }
        // What a socket is granted follows from the limit.
        if let Some(most) = set.iter().find_map(|s| s.strip_prefix("/proc/sys/net/core/rmem_max=")) {
            let granted = most.parse::<u64>().unwrap().min(256 << 20);
            set.push(format!("socket/granted={granted}"));
        }
        // Another run, in which nothing is lost.
        let kept = changes.split(" ; ").filter(|change| !change.trim().starts_with("rise="));
        let again = kept.map(str::to_owned).chain(set).collect::<Vec<_>>().join(" ; ");
        let (after, _) = run(&format!("{again}{}", if ran { " ; ran=yes" } else { "" }));
        let left: Vec<_> = settings(&after)
            .into_iter()
            .filter(|(_, name, value)| all.iter().any(|(_, before, was)| before == name && was != value))
            .collect();
        assert!(left.is_empty(), "{changes}: after {again}, {left:?}");
        done += 1;
    }
    assert!(done > 40, "{done}");
}
