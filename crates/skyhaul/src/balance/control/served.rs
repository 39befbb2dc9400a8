//! What each worker was sent, and those that left.

use skyhaul_core::balance::{Counters, MEMBERS, Registration, Session, Traffic, Worker};
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// Workers that left and are remembered.
const MAX_LEFT_WORKERS: usize = MEMBERS;

/// A worker that left, or was removed.
#[derive(Clone, Debug, PartialEq)]
pub struct WorkerLeft {
    /// Its session.
    pub session: Session,
    /// What it registered with.
    pub registration: Registration,
    /// Packets that were routed to it.
    pub packets: u64,
    /// Bytes in them, as forwarded.
    pub bytes: u64,
}

/// A worker, as it registered, and what its seat had been sent before.
type Begun = (Registration, Traffic);

/// One that left. Threads count late, and one that was held up may forward by an older table: what its seat is sent until another worker
/// has the seat is this one's.
struct Left {
    worker: WorkerLeft,
    /// What its seat had been sent before it; `None`: another worker has the seat.
    before: Option<Traffic>,
}

impl Left {
    /// It, if its seat was sent `all`.
    fn at(&self, all: Traffic) -> WorkerLeft {
        let mut worker = self.worker.clone();
        if let Some(before) = self.before {
            // Never less: planes may count anew.
            worker.packets = worker.packets.max(all.packets.saturating_sub(before.packets));
            worker.bytes = worker.bytes.max(all.bytes.saturating_sub(before.bytes));
        }
        worker
    }
}

/// Every worker that has not left, and the last of those that have.
#[derive(Default)]
pub(in crate::balance) struct Served {
    here: BTreeMap<Session, Begun>,
    left: VecDeque<Left>,
}

impl Served {
    /// Workers of whom another process knew: what their seats were sent is theirs.
    pub(in crate::balance) fn of(workers: &[Worker]) -> Served {
        let begun = |worker: &Worker| (worker.session(), (*worker.registration(), Traffic::default()));
        Served { here: workers.iter().map(begun).collect(), left: VecDeque::new() }
    }

    /// A worker registered; its seat had been sent `before`.
    pub(in crate::balance) fn begin(
        &mut self,
        session: Session,
        registration: Registration,
        before: Traffic,
    ) {
        for left in self.left.iter_mut().filter(|left| left.worker.session.seat() == session.seat()) {
            left.worker = left.at(before);
            left.before = None;
        }
        self.here.insert(session, (registration, before));
    }

    /// Packets and bytes that were sent to a worker, if its seat was sent `all`.
    pub(in crate::balance) fn sent(&self, session: Session, all: Traffic) -> (u64, u64) {
        let before = self.here.get(&session).map_or(Traffic::default(), |(_, before)| *before);
        (all.packets.saturating_sub(before.packets), all.bytes.saturating_sub(before.bytes))
    }

    /// Those that left, the earliest first, if planes have sent what `counters` say.
    pub(in crate::balance) fn left(&self, counters: &Counters) -> Vec<WorkerLeft> {
        self.left.iter().map(|left| left.at(counters.member(left.worker.session.seat()))).collect()
    }

    /// Only `workers` are left: remember what the others were sent, by what planes have counted so far.
    pub(in crate::balance) fn remember(&mut self, workers: &[Worker], counters: impl FnOnce() -> Counters) {
        let here: BTreeSet<Session> = workers.iter().map(Worker::session).collect();
        let gone: Vec<Session> =
            self.here.keys().filter(|session| !here.contains(session)).copied().collect();
        if gone.is_empty() {
            return;
        }
        let counters = counters();
        for session in gone {
            let (packets, bytes) = self.sent(session, counters.member(session.seat()));
            let Some((registration, before)) = self.here.remove(&session) else { continue };
            if self.left.len() == MAX_LEFT_WORKERS {
                self.left.pop_front();
            }
            let worker = WorkerLeft { session, registration, packets, bytes };
            self.left.push_back(Left { worker, before: Some(before) });
        }
    }
}

#[cfg(test)]
mod tests;
