//! Restarts of a sender whose ticks are a counter that begins at 0.

use super::*;
use crate::balance::{Refusal, Ticks, table::Route};
use crate::wire::ejfat::EjfatLabels;
use crate::wire::labelled::{Label, Labelled};
use std::ops::Range;

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

/// Two sources send the same ticks, and one cannot keep up: no tick goes to two workers.
#[test]
fn one_that_lags_behind_is_not_taken_for_a_restarted_one() {
    // Per cent of the rate, and whether the other ends long before.
    for slow in [30, 60, 80, 95] {
        let mut run = Run::new(false);
        let (step, first) = (50 * RATE, 1 << 33);
        let mut routes = std::collections::HashMap::new();
        let mut refused = 0;
        // For ten seconds after the end of one, its packets may be under way.
        for n in 0..590u64 {
            let here = [first + n.min(400) * step, first + n * step * slow / 100];
            if n % 20 == 0 {
                for (source, tick) in [1, 2].into_iter().zip(here).skip(usize::from(n >= 400)) {
                    let rate = (RATE * 1000 * if source == 2 { slow } else { 100 } / 100) as u32;
                    let sync = Sync { source, tick, rate, sent: run.now };
                    run.balancer.handle_sync(source.into(), &sync, ms(run.now));
                }
            }
            let mut ticks: Vec<u64> = (here[1]..first + (n + 1) * step * slow / 100).step_by(30).collect();
            if n < 400 {
                ticks.extend((here[0]..here[0] + step).step_by(30));
            }
            ticks.retain(|&tick| tick < first + 400 * step);
            for &tick in &ticks {
                match run.route(tick) {
                    Ok(route) => {
                        let before = *routes.entry(tick).or_insert(route);
                        assert_eq!(before, route, "tick {} of {slow} % is split", tick - first);
                    }
                    Err(why) => {
                        assert_eq!(why, Refusal::TooOld);
                        refused += 1;
                    }
                }
            }
            run.see(&ticks);
        }
        assert!(slow > 90 || refused > 0, "{slow} % were in time");
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
