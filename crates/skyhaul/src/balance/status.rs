//! What a balancer does, and did so far.

use super::control::State;
use super::control::WorkerLeft;
use super::shared::Planes;
use crate::report::SourceReport;
use skyhaul_core::balance::{Refusal, Registration, Session, Standing, WorkerState};
use skyhaul_io::udp::forward::Forwarded;
use std::net::SocketAddr;
use std::time::Duration;

/// A registered worker, or one that is leaving.
#[derive(Clone, Debug, PartialEq)]
pub struct WorkerStatus {
    /// Its session.
    pub session: Session,
    /// What it registered with.
    pub registration: Registration,
    /// What becomes of it.
    pub standing: Standing,
    /// What it reported last.
    pub state: WorkerState,
    /// Since it was last heard.
    pub heard: Duration,
    /// Its slots in the newest calendar; none before all threads use the first one, so that nothing is sent too early.
    pub slots: u16,
    /// These, those in a row together: the first, and how many.
    pub ranges: Vec<(u16, u16)>,
    /// The slots that it demands, likewise.
    pub demanded: Vec<(u16, u16)>,
    /// Packets that were routed to it.
    pub packets: u64,
    /// Octets in them, as forwarded.
    pub bytes: u64,
}

/// See the module. Every packet that came is in `refused`, or routed; every packet that was routed is in `forwarded`.
#[derive(Clone, Debug)]
pub struct BalanceStatus {
    /// Where packets arrive.
    pub data: Vec<SocketAddr>,
    /// Where synchronisation messages arrive.
    pub sync: Vec<SocketAddr>,
    /// The tick that the senders have reached, as predicted.
    pub predicted: Option<u64>,
    /// Calendars so far.
    pub epoch: u64,
    /// First tick of the newest calendar.
    pub boundary: Option<u64>,
    /// Tables given out, and the oldest of them that a thread still uses.
    pub tables: (u64, u64),
    /// The workers.
    pub workers: Vec<WorkerStatus>,
    /// Those that left, the last 1024.
    pub left: Vec<WorkerLeft>,
    /// Packets that came.
    pub packets: u64,
    /// Packets that were routed to nobody, by reason; all reasons, also those that did not occur.
    pub refused: Vec<(&'static str, u64)>,
    /// What became of the packets that were routed to workers.
    pub forwarded: Forwarded,
    /// How packets are sent, and why.
    pub mode: String,
    /// Trains that were repeated as single packets, because the path to their worker carries none.
    pub singly: u64,
    /// CPU time of the threads that forward.
    pub cpu: Duration,
    /// How often the process that forwards died, and was started again.
    pub restarts: u64,
    /// Time without one: packets that came then are in no counter.
    pub away: Duration,
    /// Synchronisation messages that were used.
    pub syncs: u64,
    /// Those that were not, by reason.
    pub refused_syncs: Vec<(&'static str, u64)>,
    /// Messages that do not fit what was known of their sender, and so moved nothing.
    pub suspect_syncs: u64,
    /// The data sockets.
    pub sources: Vec<SourceReport>,
    /// What is not as it was asked for.
    pub notes: Vec<String>,
}

impl BalanceStatus {
    pub(super) fn new(
        state: &State,
        planes: &dyn Planes,
        data: &[SocketAddr],
        sync: &[SocketAddr],
    ) -> BalanceStatus {
        let done = planes.merged();
        let now = state.now();
        let balancer = &state.balancer;
        let (epochs, predicted) = balancer.stats();
        let worker = |worker: &skyhaul_core::balance::Worker| {
            let session = worker.session();
            let all = done.counters.member(session.seat());
            let (packets, bytes) = state.served.sent(session, all);
            WorkerStatus {
                session,
                registration: *worker.registration(),
                standing: worker.standing(),
                state: *worker.state(),
                heard: Duration::from_nanos(now.since(worker.heard()).0),
                slots: if state.is_begun { balancer.slots(session) } else { 0 },
                ranges: if state.is_begun { balancer.ranges(session) } else { Vec::new() },
                demanded: balancer.demanded().ranges(session.seat()).collect(),
                packets,
                bytes,
            }
        };
        BalanceStatus {
            data: data.to_vec(),
            sync: sync.to_vec(),
            predicted: balancer.tick(now),
            epoch: epochs.begun,
            boundary: balancer.boundary(),
            tables: (planes.tables(), done.table),
            workers: balancer.workers().iter().map(worker).collect(),
            left: state.served.left().cloned().collect(),
            packets: done.counters.packets,
            refused: Refusal::ALL.iter().map(|&why| (why.name(), done.counters.refused(why))).collect(),
            forwarded: done.forwarded,
            mode: done.mode,
            singly: done.singly,
            cpu: done.cpu,
            restarts: done.lost.restarts,
            away: done.lost.away,
            syncs: state.syncs,
            refused_syncs: state.refused.iter().map(|(why, n)| (*why, *n)).collect(),
            suspect_syncs: predicted.suspect,
            sources: done.sources,
            notes: done.notes,
        }
    }
}
