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

#[cfg(test)]
mod tests {
    use super::super::shared::Done;
    use super::*;
    use skyhaul_core::balance::{Balancer, BalancerConfig, Counters, Member, PortRange, Seat, Table, Ticks};
    use skyhaul_core::placement::Nanos;

    /// Planes that sent each seat this.
    struct Sent(Vec<(Seat, Traffic)>);

    impl Planes for Sent {
        fn publish(&self, _: Table) {}

        fn tables(&self) -> u64 {
            0
        }

        fn take_ticks(&self) -> Ticks {
            Ticks::default()
        }

        fn note(&self, _: String) {}

        fn merged(&self) -> Done {
            Done { counters: Counters::of(0, &[], self.0.iter().copied()), ..Done::default() }
        }
    }

    fn traffic(packets: u64) -> Traffic {
        Traffic { packets, bytes: packets * 100 }
    }

    fn registration(port: u16) -> Registration {
        let member = Member::new([127, 0, 0, 1].into(), port, PortRange::default(), false).unwrap();
        Registration { member, weight: 1.0, min_factor: 0.0, max_factor: 0.0 }
    }

    #[test]
    fn what_a_seat_was_sent_before_is_not_the_next_workers() {
        let mut served = Served::default();
        let (first, next) = (Session::new(5), Session::new(5 + MEMBERS as u64));
        assert_eq!(first.seat(), next.seat());
        served.begin(first, registration(1), Traffic::default());
        assert_eq!(served.sent(first, traffic(7)), (7, 700));
        served.remember(&[], &Sent(vec![(first.seat(), traffic(9))]));
        served.begin(next, registration(2), traffic(9));
        assert_eq!(served.sent(next, traffic(9)), (0, 0));
        assert_eq!(served.sent(next, traffic(12)), (3, 300));
        assert_eq!(served.sent(next, traffic(4)), (0, 0), "planes that count anew");
        let left: Vec<_> = served.left().cloned().collect();
        let expected = WorkerLeft { session: first, registration: registration(1), packets: 9, bytes: 900 };
        assert_eq!(left, [expected]);
    }

    #[test]
    fn only_those_that_are_gone_have_left_and_each_once() {
        let (stays, goes) = (Session::new(1), Session::new(2));
        let table = Table::new(Default::default(), Vec::new(), &[]);
        let known = [(stays, registration(1)), (goes, registration(2))];
        let balancer = Balancer::resume(BalancerConfig::default(), &table, &known, Nanos(0));
        let mut served = Served::of(balancer.workers());
        let planes = Sent(vec![(stays.seat(), traffic(3)), (goes.seat(), traffic(4))]);
        served.remember(balancer.workers(), &planes);
        assert_eq!(served.left().count(), 0);
        let one = Balancer::resume(BalancerConfig::default(), &table, &known[..1], Nanos(0));
        for _ in 0..2 {
            served.remember(one.workers(), &planes);
        }
        let left: Vec<_> = served.left().map(|left| (left.session, left.packets, left.bytes)).collect();
        assert_eq!(left, [(goes, 4, 400)]);
        assert_eq!(served.sent(stays, traffic(3)), (3, 300));
    }

    #[test]
    fn the_last_that_left_are_remembered_and_no_more() {
        let mut served = Served::default();
        let all = LEFT as u64 + 10;
        for n in 0..all {
            served.begin(Session::new(n), registration(1), Traffic::default());
            served.remember(&[], &Sent(Vec::new()));
        }
        let left: Vec<u64> = served.left().map(|left| left.session.number()).collect();
        assert_eq!(left, (10..all).collect::<Vec<_>>(), "the earliest are forgotten first");
        assert!(served.here.is_empty());
    }
}
