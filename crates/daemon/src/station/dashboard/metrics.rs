//! The figures of the dashboard for Prometheus, beside the counters of [`crate::station::metrics`].

use super::board::Board;
use super::quality;
use serde_json::Value;
use skyhaul::metrics::{Kind, Metric};

/// Alarms, and what each disk takes.
pub(in crate::station) fn text(board: &Board) -> String {
    let metric = |name: &str, help: &str| Metric::new(&format!("skyhaul_station_{name}"), Kind::Gauge, help);
    let mut alarms = metric("alarm", "1 for each alarm that holds.");
    for alarm in &board.alarms {
        let condition = &alarm.condition;
        let (kind, level) = (condition.kind, condition.level.name());
        alarms.add(&[("alarm", &kind), ("level", &level), ("subject", &condition.subject)], 1);
    }
    let list = |key: &str| board.figures[key].as_array().map_or(&[][..], Vec::as_slice);
    let mut all = vec![alarms];
    let mut add = |key: &str, label: &str, field: &str, name: &str, help: &str, factor: f64| {
        let mut metric = metric(name, help);
        for entry in list(key) {
            let subject = entry[label].as_str().unwrap_or_default();
            let name = if key == "disks" { "disk" } else { "scan" };
            if let Some(value) = entry.pointer(field).and_then(Value::as_f64) {
                metric.add(&[(name, &subject)], value * factor);
            }
        }
        all.push(metric);
    };
    let (of_disk, of_scan) = (("disks", "path"), ("recordings", "name"));
    let rows = [
        (of_disk, "/capacity_bytes", "disk_capacity_bytes", "Size of a disk's file system.", 1.0),
        (
            of_disk,
            "/written_bits",
            "disk_write_bits_per_second",
            "Rate at which recordings fill a disk.",
            1.0,
        ),
        (of_disk, "/queue_bytes", "disk_queue_bytes", "Bytes that wait for a disk.", 1.0),
        (
            of_disk,
            "/latency_ms/p99",
            "disk_latency_p99_seconds",
            "99th percentile of the time to write a chunk, since the recording began.",
            1e-3,
        ),
        (
            of_disk,
            "/readers/waiting",
            "disk_readers_waiting",
            "Readers and copies that wait while a recording writes to a disk.",
            1.0,
        ),
        (
            of_disk,
            "/readers/waited_seconds",
            "disk_readers_waited_seconds",
            "Time that readers and copies have waited for recordings, together.",
            1.0,
        ),
        (of_scan, "/received_bits", "receive_bits_per_second", "Rate at which data arrive.", 1.0),
        (of_scan, "/silent_seconds", "silent_seconds", "Time since the last packet of a recording.", 1.0),
        (of_scan, "/pool_used_bytes", "pool_used_bytes", "Memory for packets of a recording in use.", 1.0),
    ];
    for ((key, label), field, name, help, factor) in rows {
        add(key, label, field, name, help, factor);
    }
    all.extend(quality::metrics(&board.qualities));
    all.iter().map(Metric::text).collect()
}
