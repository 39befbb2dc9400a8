//! `/metrics` of a station: counters in the format of Prometheus. It requires no token and contains none.

use super::StationService;
use super::clock::now;
use skyhaul::io::lock::lock;
use skyhaul::metrics::{Kind, Metric};
use skyhaul_core::station::{DiskCondition, StationSnapshot};
use std::collections::BTreeMap;
use std::sync::atomic::Ordering;

fn metric(name: &str, kind: Kind, help: &str) -> Metric {
    Metric::new(&format!("skyhaul_station_{name}"), kind, help)
}

/// The page.
pub(super) fn text(service: &StationService) -> String {
    let (snapshot, shared) = (service.snapshot(), &service.shared);
    let single = |name: &str, kind, help: &str, value: u64| {
        let mut metric = metric(name, kind, help);
        metric.add(&[], value);
        metric
    };
    let count = |counter: &std::sync::atomic::AtomicU64| counter.load(Ordering::Relaxed);
    let interrupted = lock(&shared.interrupted).len() as u64;
    let mut all = vec![
        single(
            "recordings",
            Kind::Gauge,
            "Recordings that have not ended.",
            snapshot.recordings.len() as u64,
        ),
        single("recordings_ended_total", Kind::Counter, "Recordings that have ended.", count(&shared.ended)),
        single(
            "recordings_faulty_total",
            Kind::Counter,
            "Recordings that lost data on this host, or failed.",
            count(&shared.faulty),
        ),
        single(
            "recordings_irregular_total",
            Kind::Counter,
            "Recordings whose streams were irregular.",
            count(&shared.irregular),
        ),
        single(
            "requests_refused_total",
            Kind::Counter,
            "Requests that were refused.",
            count(&shared.refused),
        ),
        single(
            "transfers",
            Kind::Gauge,
            "Transfers that have not ended.",
            snapshot.transfers.iter().filter(|transfer| transfer.ended_at.is_none()).count() as u64,
        ),
        single("interrupted_scans", Kind::Gauge, "Scans that a recorder left without an end.", interrupted),
        single("memory_bytes", Kind::Gauge, "Memory for recordings.", snapshot.memory_bytes),
        single("memory_reserved_bytes", Kind::Gauge, "Of this, reserved.", snapshot.reserved.memory_bytes),
    ];
    all.extend(shared.mount.get().into_iter().flat_map(|mount| mount.metrics(&metric)));
    let of_files = |name: &str, kind, help: &str| metric(&format!("files_{name}"), kind, help);
    all.extend(shared.files.get().into_iter().flat_map(|files| files.metrics(&of_files)));
    all.extend(shared.peers.get().into_iter().flat_map(|peers| peers.metrics(&metric)));
    all.extend(shared.alerts.metrics(&metric));
    all.extend(shared.catalogue.metrics(shared.recorded_scans(), &metric));
    all.extend(of_recordings(&snapshot));
    all.extend(of_deliveries(service, &snapshot));
    let mut usable = metric("disk_usable", Kind::Gauge, "Whether a disk can be written to.");
    let mut free = metric("disk_free_bytes", Kind::Gauge, "Bytes that recordings may still fill.");
    for disk in &snapshot.disks {
        let labels = [("disk", &disk.path as _)];
        usable.add(&labels, u8::from(disk.condition == DiskCondition::Usable));
        if let Some(bytes) = disk.free_bytes {
            free.add(&labels, bytes);
        }
    }
    all.extend([usable, free]);
    let counters: String = all.iter().map(Metric::text).collect();
    counters + &super::dashboard::metrics::text(&lock(&shared.board))
}

/// Of what schedules deliver to other hosts.
fn of_deliveries(service: &StationService, snapshot: &StationSnapshot) -> [Metric; 2] {
    let mut copies = metric("delivery_copies", Kind::Gauge, "Copies that a schedule asked for, in a state.");
    let mut scans =
        metric("delivery_scans", Kind::Gauge, "Scans of a schedule whose delivery is in a state.");
    for status in snapshot.schedules.iter().filter(|status| !status.deliveries.is_empty()) {
        let counts = lock(&service.shared.state).station.delivery_counts(&status.name, now());
        // Several rules may be for one destination.
        let mut sums: BTreeMap<(bool, &str, &str), usize> = BTreeMap::new();
        for (delivery, counts) in status.deliveries.iter().zip(&counts) {
            let to = delivery.rule.destination.as_str();
            counts
                .copies
                .iter()
                .for_each(|(state, count)| *sums.entry((true, to, *state)).or_default() += count);
            delivery.states.iter().for_each(|(state, count)| {
                *sums.entry((false, to, state.name())).or_default() += count;
            });
        }
        for ((is_copy, to, state), count) in sums {
            let metric = if is_copy { &mut copies } else { &mut scans };
            let labels = [("destination", &to as _), ("schedule", &status.name as _), ("state", &state as _)];
            metric.add(&labels, count as u64);
        }
    }
    [copies, scans]
}

/// Of what is recorded, and of schedules.
fn of_recordings(snapshot: &StationSnapshot) -> [Metric; 7] {
    let mut received = metric("received_bytes", Kind::Gauge, "Bytes received by a running recording.");
    let mut written =
        metric("written_bytes", Kind::Gauge, "Bytes of a running recording that are safe on a disk.");
    let mut discarded =
        metric("discarded_bytes", Kind::Gauge, "Bytes of a running recording that are on no disk.");
    let mut lost = metric(
        "lost_frames",
        Kind::Gauge,
        "Frames of a running recording that never arrived (FILA10G: packets, two per frame); more may be missing where lost_is_lower_bound is 1.",
    );
    let mut lower_bound = metric(
        "lost_is_lower_bound",
        Kind::Gauge,
        "1 while the frame rate of a stream is not known: frames lost at the ends of seconds are not counted yet.",
    );
    let mut drops =
        metric("kernel_drops", Kind::Gauge, "Packets of a running recording that the kernel dropped.");
    for status in &snapshot.recordings {
        let (labels, counts) = ([("input", &status.input as _), ("scan", &status.name as _)], &status.counts);
        received.add(&labels, counts.received_bytes);
        written.add(&labels, counts.written_bytes);
        discarded.add(&labels, counts.discarded_bytes);
        lost.add(&labels, counts.lost_frames);
        lower_bound.add(&labels, u64::from(counts.lost_is_lower_bound));
        drops.add(&labels, counts.kernel_drops);
    }
    let mut scheduled = metric("scheduled_scans", Kind::Gauge, "Scans of a schedule in a state.");
    for status in &snapshot.schedules {
        for (state, count) in &status.states {
            scheduled.add(&[("schedule", &status.name as _), ("state", &state.name() as _)], *count as u64);
        }
    }
    [received, written, discarded, lost, lower_bound, drops, scheduled]
}
