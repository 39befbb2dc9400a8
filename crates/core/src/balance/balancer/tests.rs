//! Registrations, silence and boundaries of a balancer. Shares are tested in `steer`.

mod steer;

use super::*;
use crate::balance::table::{EPOCHS, Route};
use crate::balance::{Load, Member, PortRange, Prefix, Refusal, Ticks};
use crate::wire::ejfat::EjfatLabels;
use crate::wire::labelled::{Label, Labelled};
use std::ops::Range;

const MS: u64 = 1_000_000;

fn ms(n: u64) -> Nanos {
    Nanos(n * MS)
}

fn registration(n: u8) -> Registration {
    let member = Member::new([10, 0, 0, n].into(), 17750, PortRange::default(), false).unwrap();
    Registration { member, weight: 1.0, min_factor: 0.0, max_factor: 0.0 }
}

fn ready() -> WorkerState {
    WorkerState { ready: true, ..WorkerState::default() }
}

/// A balancer with this many ready workers and a calendar.
fn balancer(workers: u8) -> (Balancer, Vec<Session>) {
    let mut balancer = Balancer::new(BalancerConfig::default());
    let sessions: Vec<Session> =
        (0..workers).map(|n| balancer.register(registration(n), Nanos(0)).unwrap()).collect();
    sessions.iter().for_each(|&session| balancer.handle_state(session, ready(), Nanos(0)).unwrap());
    balancer.handle_timeout(Nanos(0));
    (balancer, sessions)
}

/// One second of reports, and of synchronisation messages of a 1 MHz clock, from `second` on; workers in `silent` do
/// not report.
fn second(balancer: &mut Balancer, second: u64, silent: &[Session]) {
    let sync = Sync { source: 1, tick: second * 1_000_000, rate: 1_000_000, sent: second };
    balancer.handle_sync(1, &sync, ms(second * 1000));
    for tenth in 0..10 {
        let now = ms(second * 1000 + tenth * 100);
        let all: Vec<Session> = balancer.workers().iter().map(Worker::session).collect();
        for session in all.into_iter().filter(|session| !silent.contains(session)) {
            balancer.handle_state(session, ready(), now).unwrap();
        }
        if balancer.poll_timeout() <= now {
            balancer.handle_timeout(now);
        }
    }
}

fn slots(balancer: &Balancer, sessions: &[Session]) -> Vec<u16> {
    sessions.iter().map(|&session| balancer.slots(session)).collect()
}

#[test]
fn equal_workers_get_equal_shares() {
    let (mut balancer, sessions) = balancer(4);
    assert_eq!(slots(&balancer, &sessions), [128; 4]);
    let table = balancer.poll_table().unwrap();
    assert_eq!((table.epochs().len(), table.epochs()[0].first), (1, 0));
    assert!(balancer.poll_table().is_none(), "given out once");
    (0..20).for_each(|at| second(&mut balancer, at, &[]));
    assert_eq!(slots(&balancer, &sessions), [128; 4]);
    assert!(balancer.poll_table().is_none(), "nothing changed");
}

#[test]
fn a_worker_is_ready_when_it_says_so() {
    let (mut balancer, sessions) = balancer(2);
    let late = balancer.register(registration(9), ms(0)).unwrap();
    (0..4).for_each(|at| second(&mut balancer, at, &[late]));
    assert_eq!(balancer.slots(late), 0);
    second(&mut balancer, 4, &[]);
    assert_eq!(slots(&balancer, &sessions).iter().sum::<u16>() + balancer.slots(late), 512);
    assert!((170..172).contains(&balancer.slots(late)));
    balancer.handle_state(late, WorkerState::default(), ms(5000)).unwrap();
    balancer.handle_timeout(ms(5000));
    assert_eq!(balancer.slots(late), 0, "no longer ready");
}

#[test]
fn silence_costs_the_share_and_then_the_registration() {
    let (mut balancer, sessions) = balancer(3);
    second(&mut balancer, 0, &[]);
    for at in 1..61 {
        second(&mut balancer, at, &sessions[..1]);
        assert_eq!(balancer.slots(sessions[0]) == 0, at >= 3, "second {at}");
        assert_eq!(balancer.workers().len(), 3);
    }
    second(&mut balancer, 61, &sessions[..1]);
    assert_eq!(balancer.workers().len(), 2);
    assert_eq!(balancer.handle_state(sessions[0], ready(), ms(62_000)), Err(StateError::NoSession));
    // A worker that never reports is removed too.
    let never = balancer.register(registration(9), ms(62_000)).unwrap();
    (62..123).for_each(|at| second(&mut balancer, at, &[never]));
    assert_eq!(balancer.workers().len(), 2);
}

#[test]
fn if_all_are_silent_the_last_calendar_goes_on() {
    let (mut balancer, sessions) = balancer(2);
    (0..3).for_each(|at| second(&mut balancer, at, &[]));
    (3..20).for_each(|at| second(&mut balancer, at, &sessions));
    assert_eq!(slots(&balancer, &sessions), [256; 2]);
    // Until they are removed.
    (20..64).for_each(|at| second(&mut balancer, at, &sessions));
    assert_eq!((slots(&balancer, &sessions), balancer.workers().len()), (vec![0; 2], 2));
    (64..75).for_each(|at| second(&mut balancer, at, &sessions));
    assert_eq!(balancer.workers().len(), 0, "and their calendars are over");
}

#[test]
fn who_leaves_gets_the_ticks_of_calendars_that_name_it() {
    let (mut balancer, sessions) = balancer(2);
    (0..5).for_each(|at| second(&mut balancer, at, &[]));
    balancer.poll_table();
    balancer.deregister(sessions[0]).unwrap();
    second(&mut balancer, 5, &sessions[..1]);
    let table = balancer.poll_table().unwrap();
    assert_eq!(balancer.slots(sessions[0]), 0);
    let [old, new] = table.epochs() else { panic!("{:?}", table.epochs().len()) };
    assert!(old.calendar.names(sessions[0].seat()) && !new.calendar.names(sessions[0].seat()));
    assert_eq!(new.first, 5_500_001, "half a second ahead");
    // Its seat is not reused while a calendar names it.
    let other = balancer.register(registration(9), ms(6000)).unwrap();
    assert_ne!(other.seat(), sessions[0].seat());
    (6..12).for_each(|at| second(&mut balancer, at, &[]));
    assert!(!balancer.workers().iter().any(|worker| worker.session() == sessions[0]));
    assert_eq!(balancer.deregister(sessions[0]), Err(StateError::NoSession));
    let again = balancer.register(registration(8), ms(12_000)).unwrap();
    assert!(again.seat() == sessions[0].seat() && again != sessions[0]);
}

/// A leaving worker waits for a sender that lags or was just held up, but not for one that has ended.
#[test]
fn who_leaves_is_awaited_until_senders_have_passed_its_calendars() {
    let (mut balancer, sessions) = balancer(2);
    (0..5).for_each(|at| second(&mut balancer, at, &[]));
    assert!(balancer.is_awaited(sessions[0], ms(4900)) && balancer.is_awaited(sessions[1], ms(4900)));
    balancer.deregister(sessions[0]).unwrap();
    second(&mut balancer, 5, &sessions[..1]);
    assert!(balancer.is_awaited(sessions[0], ms(5900)), "the next calendar begins at 5.5 s");
    // The sender is held up: it says the same tick.
    for at in 6..9 {
        let sync = Sync { source: 1, tick: 5_200_000, rate: 1_000_000, sent: at };
        balancer.handle_sync(1, &sync, ms(at * 1000));
        assert!(balancer.is_awaited(sessions[0], ms(at * 1000 + 900)), "at {at} s");
    }
    assert!(!balancer.is_awaited(sessions[0], ms(11_000)), "nothing is heard of it any more");
    let sync = Sync { source: 1, tick: 5_600_000, rate: 1_000_000, sent: 12 };
    balancer.handle_sync(1, &sync, ms(12_000));
    assert!(!balancer.is_awaited(sessions[0], ms(12_000)), "it has passed them");
    assert!(balancer.is_awaited(sessions[1], ms(12_000)));
}

#[test]
fn who_is_evicted_is_sent_nothing() {
    let (mut balancer, sessions) = balancer(2);
    balancer.poll_table();
    balancer.evict(sessions[0]).unwrap();
    let table = balancer.poll_table().unwrap();
    let calendar = &table.epochs()[0].calendar;
    let slot = (0..512).find(|&slot| calendar.member(slot) == Some(sessions[0].seat())).unwrap();
    let mut packet = crate::wire::Addressing::default().header(u64::from(slot), 0).to_vec();
    packet.push(1);
    let route = table.route::<crate::wire::ejfat::EjfatLabels>(&packet);
    assert_eq!(route, Err(crate::balance::Refusal::Evicted));
}

#[test]
fn ten_thousand_registrations_are_refused_beyond_the_seats() {
    let mut balancer = Balancer::new(BalancerConfig::default());
    let results: Vec<_> = (0..10_000).map(|_| balancer.register(registration(1), Nanos(0))).collect();
    assert_eq!(results.iter().filter(|result| result.is_ok()).count(), MEMBERS);
    assert_eq!(results.last(), Some(&Err(RegisterError::Full)));
    assert!(RegisterError::Full.to_string().contains("; hint: "));
    // With more ready workers than slots, some have none.
    for worker in balancer.workers().iter().map(Worker::session).collect::<Vec<_>>() {
        balancer.handle_state(worker, ready(), Nanos(1)).unwrap();
    }
    balancer.handle_timeout(Nanos(1));
    let all: u16 = balancer.workers().iter().map(|worker| balancer.slots(worker.session())).sum();
    assert_eq!(all, 512);
}

#[test]
fn weights_and_bounds_are_heeded() {
    let config = BalancerConfig { strategy: Strategy::Static, ..BalancerConfig::default() };
    let mut balancer = Balancer::new(config);
    let mut add = |weight, min_factor, max_factor| {
        let like = Registration { weight, min_factor, max_factor, ..registration(1) };
        let session = balancer.register(like, Nanos(0)).unwrap();
        let state = WorkerState { signal: -500.0, load: Load { fill: 1.0, ..Load::default() }, ..ready() };
        balancer.handle_state(session, state, Nanos(0)).unwrap();
        session
    };
    let sessions = [add(1.0, 0.0, 0.0), add(3.0, 0.0, 0.0), add(0.01, 0.5, 0.0), add(100.0, 0.0, 1.5)];
    balancer.handle_timeout(Nanos(0));
    assert_eq!(slots(&balancer, &sessions), [64, 192, 64, 192]);
}

#[test]
fn a_boundary_from_a_forged_message_is_withdrawn() {
    let (mut balancer, sessions) = balancer(2);
    // First, messages with the highest ticks, and a worker that leaves.
    for n in 0..3 {
        let forged = Sync { source: 9, tick: u64::MAX - 5, rate: u32::MAX, sent: n };
        balancer.handle_sync(9, &forged, ms(n * 250));
    }
    balancer.deregister(sessions[0]).unwrap();
    balancer.handle_timeout(ms(500));
    assert_eq!(balancer.boundary(), Some(u64::MAX));
    // Data show where ticks are.
    for n in 0..200u64 {
        let now = ms(600 + n * 50);
        balancer.handle_data(1_000_000 + n * 50_000, now);
        balancer.handle_state(sessions[1], ready(), now).unwrap();
        if balancer.poll_timeout() <= now {
            balancer.handle_timeout(now);
        }
    }
    assert_eq!(slots(&balancer, &sessions), [0, 512]);
    assert!(balancer.boundary().is_some_and(|first| first < 3_000_000), "{:?}", balancer.boundary());
    assert_eq!(balancer.stats().0.withdrawn, 1);
}

#[test]
fn the_allow_list_is_in_the_next_table() {
    let (mut balancer, _) = balancer(1);
    assert!(!balancer.poll_table().unwrap().admits([10, 0, 0, 1].into()), "nobody, at first");
    let networks: [Prefix; 1] = ["10.0.0.0/24".parse().unwrap()];
    balancer.allow(AllowList::of(&networks));
    assert!(balancer.poll_table().unwrap().admits([10, 0, 0, 1].into()));
    balancer.allow(AllowList::of(&networks));
    assert!(balancer.poll_table().is_none(), "the same");
}

#[test]
fn one_that_resumes_splits_nothing() {
    let (mut balancer, sessions) = balancer(3);
    (0..5).for_each(|at| second(&mut balancer, at, &[]));
    balancer.deregister(sessions[2]).unwrap();
    second(&mut balancer, 5, &[]);
    let table = balancer.poll_table().unwrap();
    let stays = |worker: &&Worker| worker.standing() != Standing::Leaving;
    let workers: Vec<_> =
        balancer.workers().iter().filter(stays).map(|one| (one.session(), *one.registration())).collect();
    let mut again = Balancer::resume(BalancerConfig::default(), &table, &workers, ms(9000));
    again.handle_timeout(ms(9000));
    let resumed = again.poll_table().unwrap();
    let calendars = |table: &Table| -> Vec<_> {
        table.epochs().iter().map(|epoch| (epoch.first, Arc::clone(&epoch.calendar))).collect()
    };
    assert_eq!(calendars(&resumed), calendars(&table));
    assert!(resumed.members().eq(table.members()) && workers.len() == 2);
    assert!(resumed.admits([1, 2, 3, 4].into()) == table.admits([1, 2, 3, 4].into()));
    let new = again.register(registration(7), ms(9001)).unwrap();
    assert!(sessions.iter().all(|&session| session != new && session.seat() != new.seat()));
    (10..14).for_each(|at| second(&mut again, at, &[]));
    assert_eq!(workers.iter().map(|one| again.slots(one.0)).sum::<u16>() + again.slots(new), 512);
    assert!(again.slots(new) > 100, "{}", again.slots(new));
}

#[test]
fn without_a_word_of_ticks_the_first_calendar_goes_on() {
    let (mut balancer, sessions) = balancer(1);
    let late = balancer.register(registration(9), ms(0)).unwrap();
    for at in 1..10 {
        balancer.handle_state(sessions[0], ready(), ms(at * 500)).unwrap();
        balancer.handle_state(late, ready(), ms(at * 500)).unwrap();
        balancer.handle_timeout(ms(at * 500));
        assert_eq!(balancer.slots(late), 0, "data may come at any time");
    }
    (5..8).for_each(|at| second(&mut balancer, at, &[]));
    assert_eq!(balancer.slots(late), 256);
}

#[test]
fn a_reset_forgets_ticks_and_keeps_workers() {
    let (mut balancer, sessions) = balancer(2);
    (0..5).for_each(|at| second(&mut balancer, at, &[]));
    balancer.deregister(sessions[1]).unwrap();
    let before = balancer.poll_table();
    assert!(before.is_some());
    balancer.reset(ms(5000));
    assert_eq!((balancer.tick(ms(5000)), balancer.boundary()), (None, None));
    let table = balancer.poll_table().unwrap();
    assert!(table.epochs().is_empty(), "nothing is routed");
    assert_eq!(balancer.handle_state(sessions[1], ready(), ms(5000)), Err(StateError::NoSession), "it left");
    balancer.handle_state(sessions[0], ready(), ms(5000)).unwrap();
    balancer.handle_timeout(ms(5000));
    let table = balancer.poll_table().unwrap();
    assert_eq!((table.epochs().len(), table.epochs()[0].first), (1, 0), "for all ticks");
    assert_eq!(balancer.slots(sessions[0]), 512);
    let next = balancer.register(registration(7), ms(5000)).unwrap();
    assert!(next.number() > sessions[1].number() && next != sessions[1]);
}

/// A pause of the program, as after SIGSTOP, is not silence of the workers: their reports could not be received.
#[test]
fn a_pause_costs_nobody_a_share_and_silence_after_it_does() {
    let (mut balancer, sessions) = balancer(2);
    (0..4).for_each(|at| second(&mut balancer, at, &[]));
    let before = balancer.poll_table();
    // 90 s, longer than a worker may be silent before it is removed.
    let (pause, now) = (ms(90_000), ms(93_950));
    balancer.handle_pause(pause, now);
    balancer.handle_timeout(now);
    assert_eq!(slots(&balancer, &sessions), [256; 2]);
    assert!(
        balancer.workers().iter().all(|worker| worker.standing() == Standing::Ready && worker.heard() <= now)
    );
    drop(before);
    // One worker continues to report, the other does not.
    (94..98).for_each(|at| second(&mut balancer, at, &sessions[1..]));
    assert_eq!(slots(&balancer, &sessions), [512, 0]);
}

/// Ticks in a millisecond.
const RATE: u64 = 30;

/// A balancer and its sender. The shares of two workers change all the time, so that there are many calendars.
struct Run {
    balancer: Balancer,
    sessions: Vec<Session>,
    table: Table,
    now: u64,
    /// The sender sends synchronisation messages once a second.
    tells: bool,
}

impl Run {
    fn new(tells: bool) -> Run {
        let (mut balancer, sessions) = balancer(2);
        balancer.handle_timeout(ms(500));
        let table = balancer.poll_table().unwrap();
        Run { balancer, sessions, table, now: 500, tells }
    }

    fn route(&self, tick: u64) -> Result<Route, Refusal> {
        let like = Label { tick, slot: tick as u16, port: 0, bytes: 16 };
        let mut packet = EjfatLabels::write_label(&like);
        packet.push(0);
        self.table.route::<EjfatLabels>(&packet)
    }

    fn tell(&mut self, tick: u64) {
        if self.tells {
            let rate = (RATE * 1000) as u32;
            let sync = Sync { source: 1, tick, rate, sent: self.now };
            self.balancer.handle_sync(1, &sync, ms(self.now));
        }
    }

    /// Fifty milliseconds in which these ticks arrive. Returns how many were refused.
    fn step(&mut self, ticks: Range<u64>) -> u64 {
        self.see(&ticks.step_by(30).collect::<Vec<_>>())
    }

    fn see(&mut self, ticks: &[u64]) -> u64 {
        let mut seen = Ticks::default();
        let mut refused = 0;
        for &tick in ticks {
            match self.route(tick) {
                Ok(_) => seen.newest = seen.newest.max(Some(tick)),
                Err(Refusal::TooOld) => {
                    refused += 1;
                    seen.merge(&Ticks { newest: None, old: Some((tick, tick)) });
                }
                Err(why) => panic!("{why:?}"),
            }
        }
        self.now += 50;
        let now = ms(self.now);
        for (n, session) in self.sessions.iter().enumerate() {
            let signal = if (self.now / 1000) as usize % 2 == n { 300.0 } else { -300.0 };
            let state = WorkerState { signal, ..ready() };
            self.balancer.handle_state(*session, state, now).unwrap();
        }
        self.balancer.handle_ticks(&seen, now);
        self.balancer.handle_timeout(now);
        if let Some(table) = self.balancer.poll_table() {
            self.table = table;
        }
        refused
    }

    /// Data from tick `first` on, for `seconds`. Returns how many packets were refused.
    fn send(&mut self, first: u64, seconds: u64) -> u64 {
        let mut refused = 0;
        for n in 0..seconds * 20 {
            let from = first + n * 50 * RATE;
            if n % 20 == 0 {
                self.tell(from);
            }
            refused += self.step(from..from + 50 * RATE);
        }
        refused
    }

    /// Milliseconds without data.
    fn pause(&mut self, ms: u64) {
        (0..ms / 50).for_each(|_| assert_eq!(self.step(0..0), 0));
    }
}

#[test]
fn a_sender_that_says_where_its_ticks_are_loses_nothing() {
    for (seconds, base) in [(8, 0), (30, 0), (30, 400), (8, 1 << 40)] {
        let mut run = Run::new(true);
        assert_eq!(run.send(1 << 33, seconds), 0);
        let before = run.table.epochs().len();
        assert!(before > 1 && run.table.epochs()[0].first > 0, "its first calendar is over");
        // The sender is killed. The next one sends a synchronisation message a second before its data.
        run.tell(base);
        run.pause(1000);
        assert_eq!(run.send(base, 5), 0, "{seconds} {base}");
        let calendars = run.balancer.stats().0.begun;
        assert_eq!(run.send(base + 5000 * RATE, 10), 0);
        assert!(run.balancer.stats().0.begun > calendars + 5, "shares go on to change");
        assert!(run.balancer.boundary().is_some_and(|first| first < 1 << 41));
    }
}

#[test]
fn without_messages_what_is_refused_shows_it() {
    // Ticks less than ten seconds behind, and more.
    for (seconds, looks) in [(6, 9), (30, 4)] {
        let mut run = Run::new(false);
        run.send(1 << 33, seconds);
        run.pause(100);
        let base = (1 << 33) - 1000;
        let base = if seconds == 30 { 0 } else { base };
        let refused = run.send(base, 3);
        assert!(refused > 0 && refused <= looks * 50, "{refused} of {} after {seconds} s", 3 * 1000);
        assert_eq!(run.send(base + 3000 * RATE, 10), 0);
    }
}

/// Late packets of several seconds, in any order; their events already have members.
#[test]
fn late_packets_begin_nothing() {
    let mut run = Run::new(true);
    let first = 1 << 33;
    run.send(first, 10);
    let members = run.table.epochs().len();
    for n in 0..100 {
        let late = first + [7, 3, 9, 1, 5][n as usize % 5] * 100 * RATE;
        // Among new packets, and after these have ended.
        let ticks = if n < 50 { Some(first + (10_000 + n * 50) * RATE) } else { None };
        let seen = Ticks { newest: ticks, old: Some((late, late + 9)) };
        run.now += 50;
        run.balancer.handle_ticks(&seen, ms(run.now));
    }
    assert!(
        run.table.epochs().len() == members
            && run.balancer.poll_table().is_none_or(|t| t.epochs()[0].first > 0)
    );
}

#[test]
fn one_that_is_far_behind_another_is_refused() {
    let mut run = Run::new(true);
    run.send(1 << 33, 30);
    for n in 0..60 {
        let here = (1 << 33) + (30_000 + n * 50) * RATE;
        let seen = Ticks { newest: Some(here), old: Some((n * 100, n * 100 + 9)) };
        run.now += 50;
        run.balancer.handle_ticks(&seen, ms(run.now));
        if n % 20 == 0 {
            // The restarted sender also sends messages; the other continues.
            run.tell(n * 100);
        }
        run.balancer.handle_timeout(ms(run.now));
    }
    assert!(run.balancer.poll_table().is_none_or(|table| table.epochs()[0].first > 0));
}

/// Two sources send the same ticks, the first for 20 s; `here` is the tick from which the second sends in each twentieth of a
/// second. Returns how many packets were refused; no tick may go to two workers.
fn lagging(here: &dyn Fn(u64) -> u64, what: &str) -> u64 {
    // For ten seconds after the end of one, its packets may be under way.
    lagging_for(590, here, what)
}

/// The same for so many twentieths of a second.
fn lagging_for(steps: u64, here: &dyn Fn(u64) -> u64, what: &str) -> u64 {
    let mut run = Run::new(false);
    let (step, first) = (50 * RATE, 1 << 33);
    let mut routes = std::collections::HashMap::new();
    let mut refused = 0;
    for n in 0..steps {
        let from = [first + n.min(400) * step, first + here(n)];
        let to = first + here(n + 1);
        if n % 20 == 0 {
            // One that stands still says nothing.
            let says = [n < 400, to > from[1]];
            for ((source, tick), _) in [1, 2].into_iter().zip(from).zip(says).filter(|(_, says)| *says) {
                let sync = Sync { source, tick, rate: (RATE * 1000) as u32, sent: run.now };
                run.balancer.handle_sync(source.into(), &sync, ms(run.now));
            }
        }
        let mut ticks: Vec<u64> = (from[1]..to).step_by(30).collect();
        if n < 400 {
            ticks.extend((from[0]..from[0] + step).step_by(30));
        }
        ticks.retain(|&tick| tick < first + 400 * step);
        for &tick in &ticks {
            match run.route(tick) {
                Ok(route) => {
                    let before = *routes.entry(tick).or_insert(route);
                    assert_eq!(before, route, "{what}: tick {} at {n} is split", tick - first);
                }
                Err(why) => {
                    assert_eq!(why, Refusal::TooOld);
                    refused += 1;
                }
            }
        }
        run.see(&ticks);
    }
    refused
}

/// A source that cannot keep up is waited for, but not for ever.
#[test]
fn one_that_lags_behind_is_not_taken_for_a_restarted_one() {
    // Per cent of the rate, and whether its last packets are more than thirteen seconds behind.
    for (slow, lost) in [(30, true), (50, true), (60, false), (70, false), (80, false), (95, false)] {
        let refused = lagging(&|n| n * 50 * RATE * slow / 100, &format!("{slow} %"));
        assert_eq!(refused > 0, lost, "{refused} are refused at {slow} %");
    }
}

/// Of two senders, one gets no processor for some seconds. It resumes at the next event, and never catches up with the other.
#[test]
fn one_of_two_that_was_held_up_loses_nothing() {
    for held in [20, 50, 80, 120, 160, 190] {
        for from in [45, 110, 205, 310, 390] {
            let here = |n: u64| (n.min(from) + n.saturating_sub(from + held)) * 50 * RATE;
            let what = format!("held up for {held} from {from} on");
            assert_eq!(lagging(&here, &what), 0, "{what}");
        }
    }
}

/// One of two senders is held up until long after the other has ended, then resumes slowly. The other sender's parts of these events
/// are with their workers, so its packets may be refused, but must not go to other workers.
#[test]
fn one_that_is_far_behind_when_the_others_have_ended_splits_nothing() {
    for (behind, held, slow) in [(180, 240, 30), (100, 300, 100), (195, 400, 60), (20, 260, 10)] {
        let from = 400 - behind;
        let here = |n: u64| {
            let late = n.saturating_sub(from + held);
            (n.min(from) * 50 + late * 50 * slow / 100) * RATE
        };
        lagging_for(1400, &here, &format!("{behind} behind, held up for {held}, {slow} %"));
    }
}

/// A sender that pauses, or is not scheduled, resumes at the next event.
#[test]
fn one_that_pauses_loses_nothing_however_long() {
    for tells in [true, false] {
        for pause in [1, 3, 4, 6, 9, 11, 14, 30, 120] {
            let mut run = Run::new(tells);
            let first = 1 << 33;
            assert_eq!(run.send(first, 10), 0);
            run.pause(pause * 1000);
            assert!(run.table.epochs().len() < EPOCHS, "{} calendars", run.table.epochs().len());
            assert_eq!(run.send(first + 10_000 * RATE, 10), 0, "{pause} s, {tells}");
            let calendars = run.balancer.stats().0.begun;
            run.send(first + 20_000 * RATE, 5);
            assert!(run.balancer.stats().0.begun > calendars + 3, "shares go on to change");
        }
    }
}

/// One that had no processor for some seconds says less than was to be expected, and has not begun anew.
#[test]
fn one_that_was_held_up_changes_no_calendar() {
    let mut run = Run::new(true);
    let first = 1 << 33;
    run.send(first, 10);
    let here = first + 10_000 * RATE;
    // Longer than what its messages may be off, and shorter than calendars stay.
    run.pause(2500);
    let of = |run: &Run, tick| run.table.epochs().iter().rev().find(|epoch| epoch.first <= tick).cloned();
    let ticks: Vec<u64> = (here - 1000 * RATE..here).step_by(30).collect();
    let calendars: Vec<_> = ticks.iter().map(|&tick| of(&run, tick)).collect();
    run.tell(here);
    run.pause(300);
    let kept = ticks.iter().zip(&calendars).filter_map(|(&tick, old)| Some((tick, old.as_ref()?)));
    for (tick, old) in kept.clone() {
        assert!(of(&run, tick).is_some_and(|new| new.calendar == old.calendar), "{tick}");
    }
    assert!(kept.count() > 0, "some are not over yet");
}

/// A source whose ticks were never those of the data falls back. Nothing has begun anew.
#[test]
fn one_without_data_says_nothing_of_a_restart() {
    for ticks in [[u64::MAX - 9, u64::MAX - 5, u64::MAX - 1, 1 << 62], [7, 8, 9, 0]] {
        let mut run = Run::new(true);
        let first = 1 << 33;
        for (n, &tick) in (0u64..).zip(&ticks) {
            if n == 3 {
                run.pause(1000);
            }
            let sync = Sync { source: 9, tick, rate: 1, sent: run.now };
            run.balancer.handle_sync(9, &sync, ms(run.now));
            assert_eq!(run.send(first + n * 4000 * RATE, if n < 3 { 4 } else { 0 }), 0);
        }
        let (era, begins) = (run.table.era(), run.table.epochs()[0].first);
        run.pause(300);
        assert_eq!((run.table.era(), run.table.epochs()[0].first), (era, begins), "{ticks:?}");
        assert!(era == 0 && begins > 0, "there are ticks that would get another calendar");
    }
}

/// A sender lags nearly as far as one is waited for, and its packets are under way for nearly as long as they may be.
#[test]
fn what_is_late_of_one_that_lags_has_a_calendar() {
    let mut run = Run::new(false);
    let (first, step) = (1 << 33, 50 * RATE);
    // It was held up for 9.5 s.
    let of = |n: u64| first + n.min(60).max(n.saturating_sub(190)) * step;
    let mut most = 0;
    for n in 0..1200u64 {
        let here = first + n * step;
        let (behind, late) = (of(n), of(n.saturating_sub(58)));
        if n % 20 == 0 {
            for (source, tick) in [(1, here), (2, behind)] {
                let sync = Sync { source, tick, rate: (RATE * 1000) as u32, sent: run.now };
                run.balancer.handle_sync(source.into(), &sync, ms(run.now));
            }
        }
        assert_eq!(run.see(&[here, behind, late]), 0, "at {n}: {here} {behind} {late}");
        most = most.max(run.table.epochs().len());
    }
    let stats = run.balancer.stats().0;
    assert!(stats.begun > 100 && most > 24, "{stats:?}, {most} calendars at a time");
    assert!(stats.held == 0 && most < EPOCHS, "a table has room: {stats:?}, {most}");
}
