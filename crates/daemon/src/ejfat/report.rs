//! The final report of a control plane and its balancers.

use super::api::Api;
use super::registry::Reservation;
use serde::Serialize;
use skyhaul::balance::BalanceStatus;
use skyhaul::report::SourceReport;
use std::collections::BTreeMap;

/// The report, since the start of this process.
#[derive(Clone, Debug, Serialize)]
pub struct ControlPlaneReport {
    /// How long it ran.
    pub seconds: f64,
    /// Calls of the control plane.
    pub calls: u64,
    /// Refused calls, by kind.
    pub calls_refused: BTreeMap<&'static str, u64>,
    /// Packets at the port used by clients that ignore the port in the URI, if no load balancer has it.
    pub wrong_instance: u64,
    /// The balancers; ended reservations first.
    pub reservations: Vec<ReservationReport>,
    /// Problems.
    pub notes: Vec<String>,
}

/// A reservation's balancer.
#[derive(Clone, Debug, Serialize)]
pub struct ReservationReport {
    /// Its number.
    pub id: i64,
    /// What it is called.
    pub name: String,
    /// Where packets arrived.
    pub data: Vec<String>,
    /// Where synchronisation messages arrived.
    pub sync: Vec<String>,
    /// Packets received.
    pub packets: u64,
    /// Packets refused, by reason.
    pub refused: BTreeMap<&'static str, u64>,
    /// Packets forwarded.
    pub forwarded: u64,
    /// Bytes in them.
    pub forwarded_bytes: u64,
    /// Packets that were routed but could not be sent, by reason.
    pub unsent: BTreeMap<&'static str, u64>,
    /// Synchronisation messages used.
    pub syncs: u64,
    /// Synchronisation messages not used, by reason.
    pub syncs_refused: BTreeMap<&'static str, u64>,
    /// Number of calendars.
    pub epochs: u64,
    /// CPU time of the threads that forward, for each GB.
    pub cpu_seconds_per_gb: f64,
    /// How often the forwarding process died and was restarted.
    pub plane_restarts: u64,
    /// Time without it, s: packets that arrived in that time are in no counter.
    pub plane_away_seconds: f64,
    /// The forwarding process did not end when it was told to, and was killed: the counters may be incomplete.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub counters_incomplete: bool,
    /// How packets were forwarded.
    pub mode: String,
    /// The workers; those that left first.
    pub workers: Vec<WorkerReport>,
    /// The data sockets.
    pub sources: Vec<SourceReport>,
    /// Deviations from the requested options.
    pub notes: Vec<String>,
}

/// A worker.
#[derive(Clone, Debug, Serialize)]
pub struct WorkerReport {
    /// Where it receives.
    pub address: String,
    /// Whether it had left, or was removed, before the end.
    pub left: bool,
    /// Its slots in the newest calendar.
    pub slots: u16,
    /// Packets routed to it.
    pub packets: u64,
    /// Bytes in them.
    pub bytes: u64,
    /// How full its queue was when it last reported, 0 to 1.
    pub fill: f64,
}

impl ControlPlaneReport {
    /// Ends all balancers of `api`, and returns the report.
    #[must_use]
    pub fn at_the_end(api: &Api, seconds: f64, notes: Vec<String>) -> ControlPlaneReport {
        let (calls, refused) = api.counts();
        let counted = refused.into_iter().filter(|(_, n)| *n > 0);
        ControlPlaneReport {
            seconds,
            calls,
            calls_refused: counted.map(|(kind, n)| (kind.name(), n)).collect(),
            wrong_instance: api.strays(),
            reservations: api.stop().iter().map(|(of, status)| ReservationReport::new(of, status)).collect(),
            notes,
        }
    }
}

impl ReservationReport {
    fn new(reservation: &Reservation, status: &BalanceStatus) -> ReservationReport {
        let some = |list: &[(&'static str, u64)]| list.iter().filter(|(_, n)| *n > 0).copied().collect();
        let sent = &status.forwarded;
        let unsent =
            [("no_room", sent.no_room), ("unreachable", sent.unreachable), ("too_long", sent.too_long)];
        let workers = status.workers.iter().map(|worker| WorkerReport {
            address: worker.registration.member.address().to_string(),
            left: false,
            slots: worker.slots,
            packets: worker.packets,
            bytes: worker.bytes,
            fill: worker.state.load.fill,
        });
        let left = status.left.iter().map(|worker| WorkerReport {
            address: worker.registration.member.address().to_string(),
            left: true,
            slots: 0,
            packets: worker.packets,
            bytes: worker.bytes,
            fill: 0.0,
        });
        ReservationReport {
            id: reservation.id,
            name: reservation.name.clone(),
            data: status.data.iter().map(ToString::to_string).collect(),
            sync: status.sync.iter().map(ToString::to_string).collect(),
            packets: status.packets,
            refused: some(&status.refused),
            forwarded: sent.packets,
            forwarded_bytes: sent.bytes,
            unsent: some(&unsent),
            syncs: status.syncs,
            syncs_refused: some(&status.refused_syncs),
            epochs: status.epoch,
            cpu_seconds_per_gb: match sent.bytes {
                0 => 0.0,
                bytes => status.cpu.as_secs_f64() / (bytes as f64 / 1e9),
            },
            plane_restarts: status.restarts,
            plane_away_seconds: status.away.as_secs_f64(),
            counters_incomplete: status.incomplete,
            mode: status.mode.clone(),
            workers: left.chain(workers).collect(),
            sources: status.sources.clone(),
            notes: status.notes.clone(),
        }
    }
}
