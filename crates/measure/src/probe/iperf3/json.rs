//! A test as iperf3 writes it with `--json`: the same names, so that scripts made for iperf3 read it.

use super::IPERF3_VERSION;
use super::report::{Iperf3Report, Iperf3Role, StreamInterval, StreamReport, StreamTotals};
use serde_json::{Map, Value, json};
use skyhaul_core::units::display_rate;
use std::fmt::Write as _;
use std::net::SocketAddr;

/// The report under iperf3's names.
#[must_use]
pub fn json(report: &Iperf3Report) -> Value {
    let mut json = json!({
        "start": start(report),
        "intervals": intervals(report),
        "end": end(report),
    });
    if let Some(title) = &report.asked.title {
        json["title"] = title.as_str().into();
    }
    match &report.peer_output {
        Some(Value::String(text)) => json["server_output_text"] = text.as_str().into(),
        Some(output) => json["server_output_json"] = output.clone(),
        None => {}
    }
    if let Some(error) = &report.error {
        json["error"] = error.as_str().into();
    }
    json
}

fn host(address: &SocketAddr) -> String {
    address.ip().to_canonical().to_string()
}

fn start(report: &Iperf3Report) -> Value {
    let asked = &report.asked;
    let connected = report.streams.iter().map(|stream| {
        json!({
            "socket": stream.id,
            "local_host": host(&stream.local),
            "local_port": stream.local.port(),
            "remote_host": host(&stream.remote),
            "remote_port": stream.remote.port(),
        })
    });
    let peer = json!({"host": host(&report.peer), "port": report.peer.port()});
    let first = report.streams.first();
    let buffers = first.map_or((0, 0), |stream| stream.buffers);
    let mut start = json!({
        "connected": connected.collect::<Vec<_>>(),
        "version": format!("skyhaul {} (iperf {IPERF3_VERSION})", env!("CARGO_PKG_VERSION")),
        "system_info": "",
        "timestamp": {"time": skyhaul::time::format(report.began), "timesecs": report.began},
        "cookie": report.cookie,
        "target_bitrate": asked.rate,
        "fq_rate": asked.pacing,
        "sock_bufsize": asked.window,
        "sndbuf_actual": buffers.0,
        "rcvbuf_actual": buffers.1,
        "test_start": {
            "protocol": if asked.udp { "UDP" } else { "TCP" },
            "num_streams": asked.streams,
            "blksize": asked.block,
            "omit": asked.omit,
            "duration": asked.seconds,
            "bytes": asked.bytes,
            "blocks": asked.blocks,
            "reverse": u8::from(asked.reverse),
            "tos": asked.tos,
            "target_bitrate": asked.rate,
            "bidir": u8::from(asked.both),
            "fqrate": asked.pacing,
        },
    });
    let name = if report.role == Iperf3Role::Client { "connecting_to" } else { "accepted_connection" };
    start[name] = peer;
    if !asked.udp {
        start["tcp_mss_default"] = first.map_or(0, |stream| stream.segment_bytes).into();
    }
    start
}

/// What every part of it begins with.
fn common(id: Option<u64>, begin: f64, seconds: f64, bytes: u64, sends: bool) -> Map<String, Value> {
    let bits = if seconds > 0.0 { bytes as f64 * 8.0 / seconds } else { 0.0 };
    let mut map = Map::new();
    if let Some(id) = id {
        map.insert("socket".into(), id.into());
    }
    for (name, value) in [
        ("start", json!(begin)),
        ("end", json!(begin + seconds)),
        ("seconds", json!(seconds)),
        ("bytes", json!(bytes)),
        ("bits_per_second", json!(bits)),
        ("sender", json!(sends)),
    ] {
        map.insert(name.into(), value);
    }
    map
}

fn with(mut map: Map<String, Value>, more: Value) -> Value {
    if let Value::Object(more) = more {
        map.extend(more);
    }
    Value::Object(map)
}

fn percent(lost: u64, packets: u64) -> f64 {
    if packets == 0 { 0.0 } else { 100.0 * lost as f64 / packets as f64 }
}

fn span(span: &StreamInterval, id: Option<u64>, sends: bool, udp: bool) -> Value {
    let map = common(id, span.begin, span.end - span.begin, span.bytes, sends);
    let more = match (udp, sends, id) {
        (true, true, _) => json!({"packets": span.packets, "omitted": span.omitted}),
        (true, false, _) => json!({
            "jitter_ms": span.jitter * 1e3,
            "lost_packets": span.lost,
            "packets": span.packets,
            "lost_percent": percent(span.lost, span.packets),
            "omitted": span.omitted,
        }),
        (false, true, Some(_)) => json!({
            "retransmits": span.retransmits,
            "snd_cwnd": span.congestion_window,
            "snd_wnd": span.peer_window,
            "rtt": (span.rtt * 1e6).round() as u64,
            "rttvar": (span.rttvar * 1e6).round() as u64,
            "omitted": span.omitted,
        }),
        (false, true, None) => json!({"retransmits": span.retransmits, "omitted": span.omitted}),
        (false, false, _) => json!({"omitted": span.omitted}),
    };
    with(map, more)
}

/// The names of sums: with data both ways, the second direction has a name of its own.
fn directions(report: &Iperf3Report) -> Vec<(bool, &'static str)> {
    match (report.asked.both, report.role) {
        (false, role) => vec![((role == Iperf3Role::Client) != report.asked.reverse, "")],
        (true, role) => {
            vec![(role == Iperf3Role::Client, ""), (role != Iperf3Role::Client, "_bidir_reverse")]
        }
    }
}

fn intervals(report: &Iperf3Report) -> Vec<Value> {
    let udp = report.asked.udp;
    let count = report.streams.iter().map(|stream| stream.intervals.len()).max().unwrap_or(0);
    (0..count)
        .map(|n| {
            let here = |stream: &StreamReport| stream.intervals.get(n).copied();
            let streams = report
                .streams
                .iter()
                .filter_map(|stream| Some(span(&here(stream)?, Some(stream.id), stream.sends, udp)));
            let mut interval = json!({"streams": streams.collect::<Vec<_>>()});
            for (sends, suffix) in directions(report) {
                let all = report.streams.iter().filter(|stream| stream.sends == sends).filter_map(here);
                if let Some(sum) = all.reduce(added) {
                    interval[format!("sum{suffix}")] = span(&sum, None, sends, udp);
                }
            }
            interval
        })
        .collect()
}

fn added(one: StreamInterval, other: StreamInterval) -> StreamInterval {
    StreamInterval {
        begin: one.begin.min(other.begin),
        end: one.end.max(other.end),
        bytes: one.bytes + other.bytes,
        retransmits: one.retransmits + other.retransmits,
        packets: one.packets + other.packets,
        lost: one.lost + other.lost,
        jitter: one.jitter.max(other.jitter),
        ..one
    }
}

fn end(report: &Iperf3Report) -> Value {
    let udp = report.asked.udp;
    let streams: Vec<Value> = report.streams.iter().map(|stream| end_of(stream, udp)).collect();
    let [total, user, system] = report.cpu_percent;
    let [peer_total, peer_user, peer_system] = report.peer_cpu_percent;
    let mut end = json!({
        "streams": streams,
        "cpu_utilization_percent": {
            "host_total": total, "host_user": user, "host_system": system,
            "remote_total": peer_total, "remote_user": peer_user, "remote_system": peer_system,
        },
    });
    for (sends, suffix) in directions(report) {
        let (sent, received) = (report.sum(sends, sends), report.sum(sends, !sends));
        end[format!("sum_sent{suffix}")] = side(&sent, None, sends, udp, true);
        end[format!("sum_received{suffix}")] = side(&received, None, sends, udp, false);
        if udp {
            let sum = StreamTotals { bytes: sent.bytes, seconds: sent.seconds, ..received };
            end[format!("sum{suffix}")] = side(&sum, None, sends, udp, false);
        }
    }
    let own = report.streams.iter().find_map(|stream| stream.congestion.clone());
    if !udp {
        let sends = directions(report).first().is_some_and(|(sends, _)| *sends);
        let peer = report.peer_congestion.clone();
        let (sender, receiver) = if sends { (own, peer) } else { (peer, own) };
        if let Some(name) = sender {
            end["sender_tcp_congestion"] = name.into();
        }
        if let Some(name) = receiver {
            end["receiver_tcp_congestion"] = name.into();
        }
    }
    end
}

fn end_of(stream: &StreamReport, udp: bool) -> Value {
    let there = stream.there.unwrap_or_default();
    let (sent, received) = if stream.sends { (stream.here, there) } else { (there, stream.here) };
    if udp {
        let sum = StreamTotals { bytes: sent.bytes, seconds: sent.seconds, ..received };
        let mut json = side(&sum, Some(stream.id), stream.sends, true, false);
        json["out_of_order"] = received.late.into();
        return json!({"udp": json});
    }
    let mut sender = side(&sent, Some(stream.id), stream.sends, false, true);
    if let Some(counts) = stream.counts.filter(|_| stream.sends) {
        let micros = |seconds: f64| (seconds * 1e6).round() as u64;
        sender["max_snd_cwnd"] = counts.congestion_window_most.into();
        sender["max_snd_wnd"] = counts.peer_window_most.into();
        sender["max_rtt"] = micros(counts.rtt_most).into();
        sender["min_rtt"] = micros(counts.rtt_least).into();
        sender["mean_rtt"] = micros(counts.rtt_mean).into();
    }
    json!({"sender": sender, "receiver": side(&received, Some(stream.id), stream.sends, false, false)})
}

/// A direction at one side: what was sent, or what was received.
fn side(side: &StreamTotals, id: Option<u64>, sends: bool, udp: bool, sent: bool) -> Value {
    let map = common(id, 0.0, side.seconds, side.bytes, sends);
    let more = match (udp, sent) {
        (true, true) => {
            json!({"jitter_ms": 0.0, "lost_packets": 0, "packets": side.packets, "lost_percent": 0.0})
        }
        (true, false) => json!({
            "jitter_ms": side.jitter * 1e3,
            "lost_packets": side.lost,
            "packets": side.packets,
            "lost_percent": percent(side.lost, side.packets),
        }),
        (false, true) => side.retransmits.map_or(json!({}), |n| json!({"retransmits": n})),
        (false, false) => json!({}),
    };
    with(map, more)
}

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
        let _ =
            writeln!(out, "  [{:3}] {what} {}", stream.id, side_text(&stream.here, asked.udp, stream.sends));
        if let Some(verdict) = &stream.verdict {
            let _ = writeln!(out, "{}", verdict.lines("        "));
        }
    }
    for sends in [true, false] {
        if report.streams.iter().filter(|stream| stream.sends == sends).count() == 0 {
            continue;
        }
        let here = if sends { "sent" } else { "received" };
        let there = if sends { "received" } else { "sent" };
        let _ = writeln!(out, "  {here} here {}", side_text(&report.sum(sends, true), asked.udp, sends));
        if report.streams.iter().any(|stream| stream.sends == sends && stream.there.is_some()) {
            let _ =
                writeln!(out, "  {there} there {}", side_text(&report.sum(sends, false), asked.udp, !sends));
        }
    }
    if let Some(error) = &report.error {
        let _ = writeln!(out, "  {error}");
    }
    out
}

fn side_text(side: &StreamTotals, udp: bool, sent: bool) -> String {
    let rate = display_rate(side.bits_per_second);
    let mut text = format!("{} bytes in {:.3} s, {rate}", side.bytes, side.seconds);
    if udp && sent {
        let _ = write!(text, ", {} datagrams", side.packets);
    } else if udp {
        let part = 100.0 * side.lost as f64 / side.packets.max(1) as f64;
        let _ = write!(
            text,
            ", {} of {} datagrams lost ({part:.2} %), {} out of order, {} duplicates, jitter {:.3} ms",
            side.lost,
            side.packets,
            side.late,
            side.doubled,
            side.jitter * 1e3
        );
    } else if let Some(retransmits) = side.retransmits {
        let _ = write!(text, ", {retransmits} segments retransmitted");
    }
    text
}
