//! A test in some lines: for people, and for clients that ask for the server's output.

use super::report::{Iperf3Report, Side};
use std::fmt::Write as _;

/// The report as text, a line for each stream and direction.
#[must_use]
pub fn lines(report: &Iperf3Report) -> String {
    let mut out = String::new();
    let asked = &report.asked;
    let protocol = if asked.udp { "UDP" } else { "TCP" };
    let way = match (asked.both, asked.reverse) {
        (true, _) => "both ways",
        (_, true) => "server to client",
        _ => "client to server",
    };
    let streams = if asked.streams == 1 { "1 stream".into() } else { format!("{} streams", asked.streams) };
    let _ = writeln!(out, "iperf3 {protocol} with {}, {streams}, {way}", report.peer);
    for stream in &report.streams {
        let what = if stream.sends { "sent" } else { "received" };
        let _ = writeln!(out, "  [{:3}] {what} {}", stream.id, side(&stream.here, asked.udp, stream.sends));
        if let Some(verdict) = &stream.verdict {
            let _ = writeln!(out, "        {}", verdict.text);
            if let Some(hint) = &verdict.hint {
                let _ = writeln!(out, "        hint: {hint}");
            }
        }
    }
    for sends in [true, false] {
        if report.streams.iter().filter(|stream| stream.sends == sends).count() == 0 {
            continue;
        }
        let here = if sends { "sent" } else { "received" };
        let there = if sends { "received" } else { "sent" };
        let _ = writeln!(out, "  {here} here {}", side(&report.sum(sends, true), asked.udp, sends));
        if report.streams.iter().any(|stream| stream.sends == sends && stream.there.is_some()) {
            let _ = writeln!(out, "  {there} there {}", side(&report.sum(sends, false), asked.udp, !sends));
        }
    }
    if let Some(error) = &report.error {
        let _ = writeln!(out, "  {error}");
    }
    out
}

fn side(side: &Side, udp: bool, sent: bool) -> String {
    let rate = side.bits_per_second;
    let (unit, by) = match rate {
        r if r >= 1e9 => ("Gb/s", 1e9),
        r if r >= 1e6 => ("Mb/s", 1e6),
        _ => ("kb/s", 1e3),
    };
    let mut text = format!("{} bytes in {:.3} s, {:.3} {unit}", side.bytes, side.seconds, rate / by);
    if udp && sent {
        let _ = write!(text, ", {} datagrams", side.packets);
    } else if udp {
        let part = 100.0 * side.lost as f64 / side.packets.max(1) as f64;
        let _ = write!(
            text,
            ", {} of {} datagrams lost ({part:.2} %), {} out of order, {} doubled, jitter {:.3} ms",
            side.lost,
            side.packets,
            side.late,
            side.doubled,
            side.jitter * 1e3
        );
    } else if let Some(retransmits) = side.retransmits {
        let _ = write!(text, ", {retransmits} segments sent again");
    }
    text
}
