//! What `balancer` says to people.

use crate::args::{LEVELS, RESOURCES, UntilArgs};
use crate::print::{self, bytes, count};
use skyhaul::io::say::escaped_name;
use skyhaul_daemon::Uri;
use skyhaul_daemon::balancer::Timestamp;
use skyhaul_daemon::balancer::proto::timeseries::Timeseries as Samples;
use skyhaul_daemon::balancer::proto::{
    ExtendReservationReply, GetChainGraphReply, LoadBalancerStatusReply, OverviewReply,
    ResetLoadBalancerReply, TimeseriesResponse, TokenDetails, TokenPermission, VersionReply, WorkerStatus,
};
use std::fmt::Write as _;

/// How long a reservation lasts.
pub(super) fn lasts(args: &UntilArgs) -> String {
    match (args.forever, args.lasts) {
        (true, _) => "until it is freed".to_owned(),
        (_, Some(time)) => format!("for {time}"),
        _ => "for the control plane's default time".to_owned(),
    }
}

fn ends(at: Option<&Timestamp>) -> String {
    match at {
        Some(at) if at.seconds > 0 => format!("until {at}"),
        _ => "without an end".to_owned(),
    }
}

pub(super) fn extended(reply: &ExtendReservationReply) -> String {
    format!("it is reserved {}", ends(reply.until.as_ref()))
}

pub(super) fn reset(reply: &ResetLoadBalancerReply) -> String {
    let parts = [
        ("senders", reply.senders),
        ("workers", reply.workers),
        ("ticks", reply.sync),
        ("calendars", reply.epochs),
    ];
    let all: Vec<&str> = parts.iter().filter(|(_, done)| *done).map(|(name, _)| *name).collect();
    format!("reset: {}", if all.is_empty() { "nothing".to_owned() } else { all.join(", ") })
}

pub(super) fn senders(status: &LoadBalancerStatusReply) -> String {
    match &status.sender_addresses[..] {
        [] => "no senders".to_owned(),
        all => format!("senders: {}", all.join(", ")),
    }
}

pub(super) fn version(reply: &VersionReply) -> String {
    let commit = if reply.commit.is_empty() { String::new() } else { format!(", commit {}", reply.commit) };
    format!("{}{commit}; protocol {}", reply.build, reply.compat_tag)
}

pub(super) fn overview(reply: &OverviewReply) -> String {
    if reply.load_balancers.is_empty() {
        return "no reservations visible to this token".to_owned();
    }
    let mut text = String::new();
    for one in &reply.load_balancers {
        let (reservation, status) = (one.reservation.clone(), one.status.clone());
        let (reservation, status) = (reservation.unwrap_or_default(), status.unwrap_or_default());
        let at = [reservation.data_ipv4_address, reservation.data_ipv6_address];
        let at: Vec<String> = at.into_iter().filter(|ip| !ip.is_empty()).collect();
        let _ = writeln!(
            text,
            "{:<4} {:<24} {}  {}  {} port {}  {}  {}",
            reservation.lb_id,
            escaped_name(&one.name),
            print::counted(status.workers.len() as u64, "worker"),
            print::counted(status.sender_addresses.len() as u64, "sender"),
            at.join(", "),
            reservation.data_min_port,
            reservation.strategy,
            ends(status.expires_at.as_ref()),
        );
        issues(&mut text, "  ", &status);
    }
    text
}

/// A reservation, with what its time series counted last.
pub(super) fn status(id: &str, status: &LoadBalancerStatusReply, series: &TimeseriesResponse) -> String {
    let mut text = format!("reservation {id}: {}\n", ends(status.expires_at.as_ref()));
    let _ = writeln!(text, "  {}", senders(status));
    let _ = writeln!(
        text,
        "  calendar {}, senders at tick {}",
        status.current_epoch, status.current_predicted_event_number
    );
    let counted: Vec<String> = COUNTED.iter().filter_map(|of| counted(id, series, of)).collect();
    if !counted.is_empty() {
        let _ = writeln!(text, "  {}", counted.join(", "));
    }
    let slots = status.slot_resolution.max(status.workers.iter().map(|w| w.slots_assigned).sum());
    if status.workers.is_empty() {
        text.push_str("  no workers\n");
    } else {
        let _ = writeln!(
            text,
            "  {:>7}  {:<20} {:<24} {:>7} {:>6} {:>12} {:>12} {:>9}",
            "session", "worker", "receives at", "share", "queue", "events", "taken", "received"
        );
    }
    for one in &status.workers {
        let _ = writeln!(text, "  {}", worker(one, slots));
        for issue in &one.health_issues {
            let _ = writeln!(text, "           {}: {}", issue.severity, issue.message);
        }
    }
    issues(&mut text, "  ", status);
    text
}

fn worker(one: &WorkerStatus, slots: u32) -> String {
    let share = f64::from(one.slots_assigned) * 100.0 / f64::from(slots.max(1));
    let total = |n: i64| count(u64::try_from(n).unwrap_or(0));
    let host =
        if one.ip_address.contains(':') { format!("[{}]", one.ip_address) } else { one.ip_address.clone() };
    let last = one.udp_port + (1u32 << one.port_range.clamp(0, 14)) - 1;
    let ports = if last == one.udp_port { String::new() } else { format!("-{last}") };
    format!(
        "{:>7}  {:<20} {:<24} {:>5.1} % {:>4.0} % {:>12} {:>12} {:>9}{}",
        one.session_id,
        escaped_name(&one.name),
        format!("{host}:{}{ports}", one.udp_port),
        share,
        one.fill_percent * 100.0,
        total(one.total_events_recv),
        total(one.total_events_dequeued),
        bytes(u64::try_from(one.total_bytes_recv).unwrap_or(0)),
        if one.keep_lb_header { "  with labels" } else { "" },
    )
}

fn issues(text: &mut String, before: &str, status: &LoadBalancerStatusReply) {
    for issue in &status.health_issues {
        let _ = writeln!(text, "{before}{}: {}", issue.severity, issue.message);
    }
}

/// Time series of a reservation that are shown, with what they count.
pub(super) const COUNTED: [(&str, &str); 6] = [
    ("packets", "packets received"),
    ("refused", "refused"),
    ("forwardedPackets", "forwarded"),
    ("forwardedBytes", "forwarded in total"),
    ("unsent", "not sent"),
    ("syncs", "synchronisation messages"),
];

/// The last sample of one of these, if the server has it.
fn counted(id: &str, series: &TimeseriesResponse, (name, what): &(&str, &str)) -> Option<String> {
    let path = format!("/lb/{id}/{name}");
    let found = series.timeseries.iter().find(|series| series.name == path)?;
    let Samples::IntegerSamples(samples) = found.timeseries.as_ref()? else { return None };
    let value = u64::try_from(samples.data.last()?.value).unwrap_or(0);
    let value = if found.unit == "bytes" { bytes(value) } else { count(value) };
    Some(format!("{value} {what}"))
}

pub(super) fn tokens(all: &[TokenDetails]) -> String {
    if all.is_empty() {
        return "none".to_owned();
    }
    let line = |token: &TokenDetails| {
        let allows: Vec<String> = token.permissions.iter().map(allowed).collect();
        format!(
            "{:<5} {:<24} {}  {}\n",
            token.id,
            escaped_name(&token.name),
            token.created_at,
            allows.join(", ")
        )
    };
    all.iter().map(line).collect()
}

/// A permission as `--allow` takes it.
fn allowed(permission: &TokenPermission) -> String {
    let name = |names: [&'static str; 4], n: i32| {
        usize::try_from(n).ok().and_then(|n| names.get(n).copied()).unwrap_or("unknown")
    };
    let (level, kind) = (name(LEVELS, permission.permission), name(RESOURCES, permission.resource_type));
    match permission.resource_id.as_str() {
        "" => format!("{level}:{kind}"),
        id => format!("{level}:{kind}/{id}"),
    }
}

pub(super) fn chains(reply: &GetChainGraphReply) -> String {
    let mut text = String::new();
    for edge in &reply.edges {
        let at = |v4: &str, v6: &str| if v4.is_empty() { v6.to_owned() } else { v4.to_owned() };
        let _ = writeln!(
            text,
            "chain {}: {} at {} feeds {} at {}",
            edge.chain_id,
            edge.upstream_lb_id,
            at(&edge.upstream_data_ipv4, &edge.upstream_data_ipv6),
            edge.downstream_lb_id,
            at(&edge.downstream_data_ipv4, &edge.downstream_data_ipv6)
        );
    }
    match reply.cycle_detected {
        true => text + "there is a cycle",
        false if text.is_empty() => "no load balancer feeds this one".to_owned(),
        false => text,
    }
}

/// A load balancer, without its token.
pub(super) fn place(uri: &Uri) -> String {
    format!("{} of {}:{}", uri.balancer.as_deref().unwrap_or("?"), uri.host, uri.port)
}
