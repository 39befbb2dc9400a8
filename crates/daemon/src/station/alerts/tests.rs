use super::kept::KeptAlarms;
use super::ledger::AlarmLedger;
use super::message::{AlarmEvent, AlarmMessage};
use super::outbox::{AlarmFilter, MAX_WAITING, Outbox};
use crate::station::dashboard::alarms::{AlarmCondition, AlarmLevel};
use proptest::prelude::*;
use std::time::Duration;

const HOLD: Duration = Duration::from_secs(10);
const KINDS: [&str; 3] = ["disk_full", "space", "no_data"];

fn condition(kind: &'static str, level: AlarmLevel) -> AlarmCondition {
    AlarmCondition::new(level, kind, "s", format!("{kind} holds"))
}

fn warning(kind: &'static str) -> AlarmCondition {
    condition(kind, AlarmLevel::Warning)
}

fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

fn events(said: &[AlarmMessage]) -> Vec<(AlarmEvent, u64)> {
    said.iter().map(|message| (message.event, message.count)).collect()
}

#[test]
fn an_alarm_that_flaps_is_one_begin_and_one_end_with_a_count() {
    let mut ledger = AlarmLedger::new(HOLD);
    let mut said = Vec::new();
    for second in 0..60 {
        let holds = second < 20 && second % 4 < 2;
        let conditions = if holds { vec![warning("space")] } else { vec![] };
        said.extend(ledger.update(&conditions, seconds(second), &format!("t{second}")));
    }
    assert_eq!(events(&said), [(AlarmEvent::Begin, 1), (AlarmEvent::End, 5)]);
    assert_eq!((said[1].since.as_str(), said[1].time.as_str()), ("t0", "t18"));
}

#[test]
fn a_warning_that_becomes_an_error_is_said_once_more_and_is_new_to_who_hears_errors_only() {
    let mut ledger = AlarmLedger::new(HOLD);
    let only = |errors_only| Outbox::new(AlarmFilter { errors_only, ..AlarmFilter::default() }, HOLD);
    let mut boxes = [only(false), only(true)];
    let mut heard = [vec![], vec![]];
    for second in 0..60 {
        let conditions = match second {
            0..5 => vec![warning("space")],
            5..9 => vec![condition("space", AlarmLevel::Error)],
            9..12 => vec![warning("space")],
            _ => vec![],
        };
        for message in ledger.update(&conditions, seconds(second), "t") {
            for (outbox, heard) in boxes.iter_mut().zip(&mut heard) {
                outbox.offer(&message, seconds(second));
                while let Some(message) = outbox.next(seconds(second)) {
                    outbox.done(true, seconds(second));
                    heard.push(message.event);
                }
            }
        }
    }
    assert_eq!(heard[0], [AlarmEvent::Begin, AlarmEvent::Worse, AlarmEvent::End]);
    assert_eq!(heard[1], [AlarmEvent::Begin, AlarmEvent::End]);
}

#[test]
fn after_a_restart_what_holds_is_said_as_such_and_what_is_over_ends() {
    let mut ledger = AlarmLedger::new(HOLD);
    ledger.update(&[warning("space"), warning("no_data")], seconds(0), "t0");
    let file = serde_json::to_vec(&KeptAlarms::of(&ledger, &[])).unwrap();
    let mut again = AlarmLedger::new(HOLD);
    let kept = KeptAlarms::newest(&[b"{".to_vec(), file]).unwrap();
    kept.alarms.into_iter().for_each(|alarm| alarm.restore(&mut again, "t9"));
    let holds = [warning("space"), warning("disk_full")];
    let said = again.update(&holds, seconds(1), "t10");
    let of = |message: &AlarmMessage| (message.event, message.kind.clone(), message.is_after_restart);
    assert_eq!(
        said.iter().map(of).collect::<Vec<_>>(),
        [(AlarmEvent::Still, "space".to_owned(), true), (AlarmEvent::Begin, "disk_full".into(), false)]
    );
    assert_eq!(said[0].since, "t0");
    assert_eq!(again.update(&holds, seconds(9), "t18"), []);
    let said = again.update(&holds, seconds(10), "t19");
    assert_eq!(said.iter().map(of).collect::<Vec<_>>(), [(AlarmEvent::End, "no_data".to_owned(), true)]);
}

#[test]
fn an_end_that_a_receiver_does_not_know_is_kept() {
    let mut ledger = AlarmLedger::new(HOLD);
    let mut outbox = Outbox::new(AlarmFilter::default(), HOLD);
    for second in [0, 1, 11] {
        let conditions = if second == 0 { vec![warning("space")] } else { vec![] };
        ledger
            .update(&conditions, seconds(second), "t")
            .iter()
            .for_each(|m| outbox.offer(m, seconds(second)));
    }
    let ends: Vec<_> = outbox.ends().cloned().collect();
    assert_eq!((ledger.episodes.len(), KeptAlarms::of(&ledger, &ends).alarms.len()), (0, 1));
    assert!(KeptAlarms::of(&ledger, &[]).alarms.is_empty());
}

#[test]
fn a_receiver_that_is_down_is_tried_less_often_until_some_time_after_the_end() {
    let mut outbox = Outbox::new(AlarmFilter::default(), seconds(100));
    let mut ledger = AlarmLedger::new(HOLD);
    let mut tried = Vec::new();
    for second in 0..1000 {
        let conditions = if second < 500 { vec![warning("space")] } else { vec![] };
        for message in ledger.update(&conditions, seconds(second), "t") {
            outbox.offer(&message, seconds(second));
        }
        if outbox.next(seconds(second)).is_some() {
            tried.push(second);
            outbox.done(false, seconds(second));
        }
    }
    assert_eq!(tried[..9], [0, 1, 3, 7, 15, 31, 63, 123, 183]);
    // Over at 500, said at 510, and given up 100 s later.
    assert!(tried.last().is_some_and(|&last| (550..610).contains(&last)), "{tried:?}");
    assert_eq!((outbox.waiting(), outbox.counts.lost, outbox.counts.sent), (0, 2, 0));
    assert_eq!(outbox.counts.failures, tried.len() as u64);
}

#[test]
fn of_too_many_messages_the_oldest_is_lost_and_counted() {
    let mut outbox = Outbox::new(AlarmFilter::default(), HOLD);
    for n in 0..MAX_WAITING + 3 {
        let message = AlarmMessage { subject: n.to_string(), ..AlarmMessage::test("t") };
        outbox.offer(&message, seconds(0));
    }
    assert_eq!((outbox.waiting(), outbox.counts.lost), (MAX_WAITING, 3));
    assert_eq!(outbox.next(seconds(0)).unwrap().subject, "3");
    // One at a time.
    assert_eq!(outbox.next(seconds(0)), None);
}

#[test]
fn an_alarm_that_comes_and_goes_while_its_receiver_is_away_loses_no_other() {
    let (mut ledger, mut outbox) =
        (AlarmLedger::new(seconds(1)), Outbox::new(AlarmFilter::default(), seconds(100_000)));
    let mut heard = Vec::new();
    let mut first = Duration::ZERO;
    for second in 0..10_000 {
        // One begins, and holds; the other comes and goes more often than there is room for.
        let mut conditions = vec![warning("space")];
        if second % 4 == 1 {
            let level = if second > 5000 { AlarmLevel::Error } else { AlarmLevel::Warning };
            conditions.push(condition("disk_full", level));
        }
        for message in ledger.update(&conditions, seconds(second), &second.to_string()) {
            outbox.offer(&message, seconds(second));
        }
        assert!(outbox.waiting() <= 4, "{}", outbox.waiting());
        if outbox.next(seconds(second)).is_some() {
            outbox.done(false, seconds(second));
        }
        first = seconds(second);
    }
    while outbox.waiting() > 0 {
        first += seconds(60);
        heard.extend(outbox.next(first));
        outbox.done(true, first);
    }
    assert_eq!(outbox.counts.lost, 0);
    let of = |one: &AlarmMessage| (one.event, one.kind.clone(), one.since.clone(), one.count);
    let expected = [
        (AlarmEvent::Begin, "space", "0", 1),
        (AlarmEvent::Begin, "disk_full", "1", 1),
        // It ended as an error, the last of 2500 times.
        (AlarmEvent::Worse, "disk_full", "1", 1251),
        (AlarmEvent::End, "disk_full", "1", 2500),
    ];
    let expected =
        expected.map(|(event, kind, since, count)| (event, kind.to_owned(), since.to_owned(), count));
    assert_eq!(heard.iter().map(of).collect::<Vec<_>>(), expected);
}

#[test]
fn more_of_the_same_is_said_at_most_once_in_the_hold_down_and_the_last_number_is_not_lost() {
    let mut ledger = AlarmLedger::new(HOLD);
    let faulty = |size| AlarmCondition {
        size,
        ..AlarmCondition::new(AlarmLevel::Warning, "faulty", "", format!("{size}"))
    };
    let mut said = Vec::new();
    for second in 0..60 {
        let size = [1, 2, 3, 3, 40][(second as usize / 4).min(4)];
        said.extend(ledger.update(&[faulty(size)], seconds(second), &second.to_string()));
    }
    let of = |one: &AlarmMessage| (one.event, one.time.clone(), one.text.clone());
    let expected =
        [(AlarmEvent::Begin, "0", "1"), (AlarmEvent::More, "10", "3"), (AlarmEvent::More, "20", "40")];
    let expected = expected.map(|(event, time, text)| (event, time.to_owned(), text.to_owned()));
    assert_eq!(said.iter().map(of).collect::<Vec<_>>(), expected);
}

proptest! {
    /// Whatever alarms do, and whenever the receiver is away: who answers before time is up hears of each begin and end once, in turn.
    /// Those that it missed are joined: the first begin, the last end, and how often it was.
    #[test]
    fn each_begin_and_end_is_heard_once(
        holds in proptest::collection::vec(proptest::collection::vec(any::<bool>(), 3), 1..200),
        step in 1u64..8,
        away in 0usize..200,
        for_long in 0usize..40,
    ) {
        let (mut ledger, mut outbox) = (AlarmLedger::new(HOLD), Outbox::new(AlarmFilter::default(), seconds(3600)));
        let mut heard: Vec<AlarmMessage> = Vec::new();
        let silence = vec![vec![false; 3]; 400];
        for (n, row) in holds.iter().chain(&silence).enumerate() {
            let now = seconds(n as u64 * step);
            let conditions: Vec<_> = KINDS.iter().zip(row).filter(|(_, holds)| **holds).map(|(kind, _)| warning(kind)).collect();
            for message in ledger.update(&conditions, now, &n.to_string()) {
                outbox.offer(&message, now);
            }
            let is_there = !(away..away + for_long).contains(&n);
            while let Some(message) = outbox.next(now) {
                outbox.done(is_there, now);
                if is_there {
                    heard.push(message);
                }
            }
        }
        prop_assert_eq!((outbox.waiting(), outbox.counts.lost), (0, 0));
        for (column, kind) in KINDS.iter().enumerate() {
            // The reference: runs of seconds that are joined if a gap is shorter than the hold-down.
            let mut expected: Vec<(usize, usize, u64)> = Vec::new();
            for (n, _) in holds.iter().enumerate().filter(|(_, row)| row[column]) {
                match expected.last_mut() {
                    // It is seen to be over one step after it was seen to hold.
                    Some((_, last, count)) if n - *last == 1 || (n - *last - 2) as u64 * step < HOLD.as_secs() => {
                        *count += u64::from(n - *last > 1);
                        *last = n;
                    }
                    _ => expected.push((n, n, 1)),
                }
            }
            let of_it: Vec<_> = heard.iter().filter(|message| message.kind == *kind).collect();
            prop_assert_eq!(of_it.len() % 2, 0);
            if for_long == 0 {
                prop_assert_eq!(of_it.len(), 2 * expected.len());
            }
            let mut left = expected.into_iter();
            for pair in of_it.chunks(2) {
                let (first, mut last, mut count) = left.next().unwrap();
                while pair[1].time != (last + 1).to_string() {
                    let joined = left.next().unwrap();
                    (last, count) = (joined.1, count + joined.2);
                }
                prop_assert_eq!((pair[0].event, &pair[0].time), (AlarmEvent::Begin, &first.to_string()));
                prop_assert_eq!((pair[1].event, &pair[1].since, pair[1].count), (AlarmEvent::End, &first.to_string(), count));
            }
            prop_assert_eq!(left.next(), None);
        }
    }
}
