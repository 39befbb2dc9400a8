//! What a balancer says to people.

use crate::args::BalanceArgs;
use crate::print::{bytes, count, counted};
use skyhaul::io::say::escaped_name;
use skyhaul_daemon::balancer::{Api, ControlPlaneReport, ReservationReport, data_port};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::net::SocketAddr;
use std::time::Duration;

pub(super) fn listening(args: &BalanceArgs, api: SocketAddr) -> String {
    let scheme = if args.tls_cert.is_some() { "https" } else { "http" };
    let sharing = args.sharing();
    let ports = |first: u16, last: u16| match first {
        0 => "any port".to_owned(),
        _ if last <= first => format!("port {first}"),
        _ => format!("ports {first} to {last}"),
    };
    let data = |nth| data_port(args.data_port, nth, sharing > 1);
    let ips: Vec<String> = args.addresses().iter().map(ToString::to_string).collect();
    let last = sharing.saturating_sub(1);
    format!(
        "balancing on {}: {} load balancers, packets on {}, messages on {}; control plane on {scheme}://{api}",
        ips.join(", "),
        args.instances(),
        ports(data(0), data(last)),
        ports(args.sync_port, args.sync_port.saturating_add(last))
    )
}

pub(super) fn progress(desk: &Api, since: Duration) -> String {
    let all = desk.statuses();
    let packets: u64 = all.iter().map(|(_, status, _)| status.packets).sum();
    let forwarded: u64 = all.iter().map(|(_, status, _)| status.forwarded.packets).sum();
    let workers: usize = all.iter().map(|(_, status, _)| status.workers.len()).sum();
    format!(
        "{:.0} s  {}, {}, {}, {} forwarded",
        since.as_secs_f64(),
        counted(all.len() as u64, "reservation"),
        counted(workers as u64, "worker"),
        counted(packets, "packet"),
        count(forwarded)
    )
}

/// The report as text; `each`: with each reservation, reason and worker.
pub(super) fn report(report: &ControlPlaneReport, each: bool) -> String {
    let packets = report.reservations.iter().map(|r| r.packets).sum();
    let forwarded = report.reservations.iter().map(|r| r.forwarded).sum();
    let mut text = format!(
        "balanced {}, {} forwarded, in {:.1} s; {}{}\n",
        counted(packets, "packet"),
        count(forwarded),
        report.seconds,
        counted(report.calls, "call"),
        reasons(", refused: ", &report.calls_refused)
    );
    if report.wrong_instance > 0 {
        let _ = writeln!(
            text,
            "  refused: {} wrong_instance, at the port of clients that ignore that of EJFAT_URI",
            count(report.wrong_instance)
        );
    }
    if each {
        report.reservations.iter().for_each(|reservation| reservation_lines(&mut text, reservation));
    }
    let of = |r: &ReservationReport| {
        r.notes.iter().map(|n| format!("reservation {}: {n}", r.id)).collect::<Vec<_>>()
    };
    let noted: BTreeSet<String> =
        report.reservations.iter().flat_map(of).chain(report.notes.iter().cloned()).collect();
    noted.into_iter().fold(text, |text, note| text + "  note: " + &note + "\n")
}

fn reservation_lines(text: &mut String, of: &ReservationReport) {
    // Of a few packets it says nothing.
    let much = of.forwarded_bytes >= 1_000_000;
    let cpu = if much { format!(", CPU {:.3} s/GB", of.cpu_seconds_per_gb) } else { String::new() };
    let _ = writeln!(
        text,
        "  reservation {} {}: {}, {} forwarded ({}){cpu}, {}, {}{}",
        of.id,
        escaped_name(&of.name),
        counted(of.packets, "packet"),
        count(of.forwarded),
        bytes(of.forwarded_bytes),
        counted(of.epochs, "calendar"),
        counted(of.syncs, "message"),
        reasons(", refused: ", &of.syncs_refused)
    );
    let _ = writeln!(text, "    sent by {}", of.mode);
    for (what, counts) in [("refused", &of.refused), ("not sent", &of.unsent)] {
        if !counts.is_empty() {
            let _ = writeln!(text, "    {what}: {}", reasons("", counts));
        }
    }
    for worker in &of.workers {
        let _ = writeln!(
            text,
            "    worker {}: {} of 512 slots, {} ({}), queue {:.0} % full",
            worker.address,
            worker.slots,
            counted(worker.packets, "packet"),
            bytes(worker.bytes),
            worker.fill * 100.0
        );
    }
}

/// Counts by reason; nothing if there are none.
fn reasons(before: &str, counts: &BTreeMap<&'static str, u64>) -> String {
    let all: Vec<String> = counts.iter().map(|(why, n)| format!("{} {why}", count(*n))).collect();
    if all.is_empty() { String::new() } else { format!("{before}{}", all.join(", ")) }
}
