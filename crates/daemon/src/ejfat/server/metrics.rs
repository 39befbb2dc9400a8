//! `/metrics`: counters in the format of Prometheus. It requires no token and contains none.

use super::super::api::Names;
use super::calls::ServerState;
use crate::metrics::CONTENT_TYPE_TEXT;
use axum::Router;
use axum::body::Bytes;
use axum::extract::State;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use skyhaul::balance::BalanceStatus;
use skyhaul::metrics::{Kind, Metric};
use std::fmt::Display;
use std::sync::Arc;
use std::time::{Duration, Instant};

pub(super) fn routes(door: &ServerState) -> Router {
    Router::new().route("/metrics", get(metrics)).with_state((door.clone(), Page::default()))
}

/// How long a page is reused. It requires no token, so a thousand clients must not cause more work than one.
const PAGE_LIFETIME: Duration = Duration::from_millis(100);

/// The last page, and when it was generated.
type Page = Arc<tokio::sync::Mutex<Option<(Instant, Bytes)>>>;

async fn metrics(State((door, page)): State<(ServerState, Page)>) -> Response {
    let mut page = page.lock().await;
    let text = match &*page {
        Some((made, text)) if made.elapsed() < PAGE_LIFETIME => text.clone(),
        _ => {
            let made = tokio::task::spawn_blocking(move || text(&door)).await.unwrap_or_default();
            page.insert((Instant::now(), made.into())).1.clone()
        }
    };
    drop(page);
    ([(CONTENT_TYPE, CONTENT_TYPE_TEXT)], text).into_response()
}

/// One metric of the balancer.
fn metric(name: &str, kind: Kind, help: &str) -> Metric {
    Metric::new(&format!("skyhaul_balance_{name}"), kind, help)
}

fn text(door: &ServerState) -> String {
    let api = Arc::clone(&door.api);
    let (calls, refused) = api.counts();
    let (tokens, sessions) = api.numbers();
    let mut all = Vec::new();
    let mut single = |name, kind, help, value: &dyn Display| {
        let mut metric = self::metric(name, kind, help);
        metric.add(&[], value);
        all.push(metric);
    };
    single("calls_total", Kind::Counter, "Calls of the control plane.", &calls);
    single("tokens", Kind::Gauge, "Valid tokens.", &tokens);
    single("sessions", Kind::Gauge, "Registered workers.", &sessions);
    let help = "Packets at the default port from clients that ignore the port in EJFAT_URI.";
    single("wrong_instance_packets_total", Kind::Counter, help, &api.strays());
    all.extend(door.connections.metrics(metric));
    let mut calls = metric("calls_refused_total", Kind::Counter, "Calls refused, by kind.");
    for (kind, n) in refused {
        calls.add(&[("kind", &kind.name())], n);
    }
    all.push(calls);
    all.extend(of_reservations(door));
    all.iter().map(Metric::text).collect()
}

fn of_reservations(door: &ServerState) -> Vec<Metric> {
    let counter = |name, help| metric(name, Kind::Counter, help);
    let gauge = |name, help| metric(name, Kind::Gauge, help);
    let mut packets = counter("packets_total", "Packets received.");
    let mut refused = counter("packets_refused_total", "Packets refused, by reason.");
    let mut forwarded = counter("packets_forwarded_total", "Packets forwarded.");
    let mut bytes = counter("bytes_forwarded_total", "Bytes forwarded.");
    let mut unsent = counter("packets_unsent_total", "Packets routed but not sent, by reason.");
    let mut dropped =
        counter("packets_dropped_total", "Packets that the kernel dropped before the balancer.");
    let mut syncs = counter("syncs_total", "Synchronisation messages used.");
    let mut bad = counter("syncs_refused_total", "Synchronisation messages refused, by reason.");
    let mut epoch = counter("epochs_total", "Calendars so far.");
    let mut behind = gauge("tables_behind", "Tables that not every forwarding thread uses yet.");
    let mut cpu = counter("cpu_seconds_total", "CPU time of the threads that forward.");
    let mut restarts = counter("plane_restarts_total", "Restarts of forwarding processes that died.");
    let mut gone = counter(
        "plane_away_seconds_total",
        "Time without a forwarding process, in which packets are not counted.",
    );
    let mut members = Members::new();
    for (reservation, status, names) in door.api.statuses() {
        let lb: (&str, &dyn Display) = ("lb", &reservation.id);
        let sent = &status.forwarded;
        packets.add(&[lb], status.packets);
        status.refused.iter().for_each(|(why, n)| refused.add(&[lb, ("reason", why)], n));
        forwarded.add(&[lb], sent.packets);
        bytes.add(&[lb], sent.bytes);
        for (why, n) in
            [("no_room", sent.no_room), ("unreachable", sent.unreachable), ("too_long", sent.too_long)]
        {
            unsent.add(&[lb, ("reason", &why)], n);
        }
        dropped.add(&[lb], status.sources.iter().map(|source| source.socket_drops).sum::<u64>());
        syncs.add(&[lb], status.syncs);
        status.refused_syncs.iter().for_each(|(why, n)| bad.add(&[lb, ("reason", why)], n));
        epoch.add(&[lb], status.epoch);
        behind.add(&[lb], status.tables.0.saturating_sub(status.tables.1));
        cpu.add(&[lb], status.cpu.as_secs_f64());
        restarts.add(&[lb], status.restarts);
        gone.add(&[lb], status.away.as_secs_f64());
        members.add(lb, &status, &names);
    }
    let mut all = vec![
        packets, refused, forwarded, bytes, unsent, dropped, syncs, bad, epoch, behind, cpu, restarts, gone,
    ];
    all.extend([members.packets, members.bytes, members.slots, members.fill]);
    all
}

/// The metrics of each worker.
struct Members {
    packets: Metric,
    bytes: Metric,
    slots: Metric,
    fill: Metric,
}

impl Members {
    fn new() -> Members {
        Members {
            packets: metric("member_packets_total", Kind::Counter, "Packets routed to a worker."),
            bytes: metric("member_bytes_total", Kind::Counter, "Bytes routed to a worker."),
            slots: metric("member_slots", Kind::Gauge, "Slots of a worker in the newest calendar."),
            fill: metric("member_fill", Kind::Gauge, "Fill level of a worker's queue, 0 to 1."),
        }
    }

    fn add(&mut self, lb: (&str, &dyn Display), status: &BalanceStatus, names: &Names) {
        for worker in &status.workers {
            let number = worker.session.number();
            let Some((_, id, name)) = names.iter().find(|(of, ..)| *of == number) else { continue };
            let of: [(&str, &dyn Display); 3] = [lb, ("session", id), ("name", name)];
            self.packets.add(&of, worker.packets);
            self.bytes.add(&of, worker.bytes);
            self.slots.add(&of, worker.slots);
            self.fill.add(&of, worker.state.load.fill);
        }
    }
}
