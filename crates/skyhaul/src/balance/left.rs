//! What each worker was sent since it registered, and what those were sent that have left.
//!
//! Planes count by seat, and a seat is another worker's later: what it had been sent before is subtracted.

use super::shared::Planes;
use skyhaul_core::balance::{MEMBERS, Registration, Session, Traffic, Worker};
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// Workers that left and are remembered.
const LEFT: usize = MEMBERS;

/// A worker that left, or was removed.
#[derive(Clone, Debug, PartialEq)]
pub struct WorkerLeft {
    /// Its session.
    pub session: Session,
    /// What it registered with.
    pub registration: Registration,
    /// Packets that were routed to it.
    pub packets: u64,
    /// Octets in them, as forwarded.
    pub bytes: u64,
}

/// A worker, as it registered, and what its seat had been sent before.
type Begun = (Registration, Traffic);

/// Every worker that has not left, and the last of those that have.
#[derive(Default)]
pub(super) struct Served {
    here: BTreeMap<Session, Begun>,
    left: VecDeque<WorkerLeft>,
}

impl Served {
    /// Workers of whom another process knew: what their seats were sent is theirs.
    pub(super) fn of(workers: &[Worker]) -> Served {
        let begun = |worker: &Worker| (worker.session(), (*worker.registration(), Traffic::default()));
        Served { here: workers.iter().map(begun).collect(), left: VecDeque::new() }
    }

    /// A worker registered; its seat had been sent `before`.
    pub(super) fn begin(&mut self, session: Session, registration: Registration, before: Traffic) {
        self.here.insert(session, (registration, before));
    }

    /// Packets and octets that were sent to a worker, if its seat was sent `all`.
    pub(super) fn sent(&self, session: Session, all: Traffic) -> (u64, u64) {
        let before = self.here.get(&session).map_or(Traffic::default(), |(_, before)| *before);
        (all.packets.saturating_sub(before.packets), all.bytes.saturating_sub(before.bytes))
    }

    /// Those that left, the earliest first.
    pub(super) fn left(&self) -> impl Iterator<Item = &WorkerLeft> {
        self.left.iter()
    }

    /// Only `workers` are left: remember what the others were sent.
    pub(super) fn remember(&mut self, workers: &[Worker], planes: &dyn Planes) {
        let here: BTreeSet<Session> = workers.iter().map(Worker::session).collect();
        let gone: Vec<Session> =
            self.here.keys().filter(|session| !here.contains(session)).copied().collect();
        if gone.is_empty() {
            return;
        }
        let counters = planes.merged().counters;
        for session in gone {
            let (packets, bytes) = self.sent(session, counters.member(session.seat()));
            let Some((registration, _)) = self.here.remove(&session) else { continue };
            if self.left.len() == LEFT {
                self.left.pop_front();
            }
            self.left.push_back(WorkerLeft { session, registration, packets, bytes });
        }
    }
}
