//! Demanded slots are assigned while their worker is ready, refused as a whole, and released with the worker.

use super::*;
use crate::balance::{BalancerConfig, Member, PortRange, Registration, WorkerState};
use crate::placement::Nanos;

fn balancer(strategy: Strategy, workers: u8) -> (Balancer, Vec<Session>) {
    let mut balancer = Balancer::new(BalancerConfig { strategy, ..BalancerConfig::default() });
    let register = |n| {
        let member = Member::new([10, 0, 0, n].into(), 17750, PortRange::default(), false).unwrap();
        let like = Registration { member, weight: 1.0, min_factor: 0.0, max_factor: 0.0 };
        balancer.register(like, Nanos(0)).unwrap()
    };
    let sessions = (0..workers).map(register).collect();
    (balancer, sessions)
}

fn say(balancer: &mut Balancer, session: Session, ready: bool, now: Nanos) {
    balancer.handle_state(session, WorkerState { ready, ..WorkerState::default() }, now).unwrap();
}

/// The slots of each worker in the newest calendar, as ranges.
fn ranges(balancer: &Balancer, sessions: &[Session]) -> Vec<Vec<(u16, u16)>> {
    let newest = balancer.epochs.newest().expect("a calendar");
    sessions.iter().map(|session| newest.ranges(session.seat()).collect()).collect()
}

fn at(first: u16, length: u16) -> SlotRange {
    SlotRange { first: Some(first), length }
}

#[test]
fn explicit_slots_are_those_demanded_and_no_others() {
    let (mut balancer, sessions) = balancer(Strategy::Explicit, 3);
    balancer.demand(sessions[0], &[at(0, 16), at(500, 12)]).unwrap();
    balancer.demand(sessions[1], &[SlotRange { first: None, length: 8 }]).unwrap();
    sessions.iter().for_each(|&session| say(&mut balancer, session, true, Nanos(0)));
    balancer.handle_timeout(Nanos(0));
    assert_eq!(ranges(&balancer, &sessions), [vec![(0, 16), (500, 12)], vec![(16, 8)], vec![]]);
}

#[test]
fn the_rest_follows_shares() {
    for strategy in [Strategy::Dynamic, Strategy::Static] {
        let (mut balancer, sessions) = balancer(strategy, 4);
        balancer.demand(sessions[2], &[at(100, 300)]).unwrap();
        sessions.iter().for_each(|&session| say(&mut balancer, session, true, Nanos(0)));
        balancer.handle_timeout(Nanos(0));
        let slots: Vec<u16> = sessions.iter().map(|&session| balancer.slots(session)).collect();
        assert_eq!(slots, [71, 71, 300, 70], "it has more than its share already");
        assert_eq!(ranges(&balancer, &sessions[2..3]), [[(100, 300)]]);
    }
}

#[test]
fn the_later_of_two_has_a_slot_and_the_earlier_the_rest() {
    let (mut balancer, sessions) = balancer(Strategy::Explicit, 2);
    balancer.demand_all(&[(sessions[0], vec![at(0, 100)]), (sessions[1], vec![at(50, 100)])]).unwrap();
    let of =
        |balancer: &Balancer, n: usize| balancer.demanded().ranges(sessions[n].seat()).collect::<Vec<_>>();
    assert_eq!((of(&balancer, 0), of(&balancer, 1)), (vec![(0, 50)], vec![(50, 100)]));
    balancer.demand(sessions[1], &[]).unwrap();
    assert_eq!((of(&balancer, 0), of(&balancer, 1)), (vec![(0, 50)], vec![]));
}

#[test]
fn what_a_worker_demands_is_for_others_while_it_is_not_ready_and_free_when_it_is_gone() {
    let (mut balancer, sessions) = balancer(Strategy::Dynamic, 2);
    balancer.demand(sessions[0], &[at(0, 400)]).unwrap();
    say(&mut balancer, sessions[1], true, Nanos(0));
    balancer.handle_timeout(Nanos(0));
    assert_eq!(balancer.slots(sessions[1]), 512);
    balancer.evict(sessions[0]).unwrap();
    balancer.handle_timeout(Nanos(1_000_000_000));
    assert_eq!(balancer.demanded(), &Calendar::default());
    assert_eq!(balancer.demand(sessions[0], &[at(0, 1)]), Err(DemandError::NoSession));
}

#[test]
fn what_cannot_be_met_changes_nothing() {
    let (mut balancer, sessions) = balancer(Strategy::Explicit, 1);
    let session = sessions[0];
    balancer.demand(session, &[at(10, 20)]).unwrap();
    let anywhere = |length| SlotRange { first: None, length };
    for (bad, error) in [
        (at(512, 1), DemandError::NoSuchSlots(at(512, 1))),
        (at(500, 13), DemandError::NoSuchSlots(at(500, 13))),
        (at(u16::MAX, u16::MAX), DemandError::NoSuchSlots(at(u16::MAX, u16::MAX))),
        (anywhere(513), DemandError::NoSuchSlots(anywhere(513))),
        (anywhere(512), DemandError::NoRoom(anywhere(512))),
    ] {
        assert_eq!(balancer.demand(session, &[at(3, 1), bad]), Err(error));
        assert!(error.to_string().contains("; hint: "));
        assert_eq!(balancer.demanded().ranges(session.seat()).collect::<Vec<_>>(), [(10, 20)]);
    }
    assert_eq!(balancer.demand(session, &[anywhere(512), at(0, 0)]), Ok(()), "its own are free again");
}
