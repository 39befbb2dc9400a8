use super::*;
use proptest::prelude::*;

const S: u64 = 1_000_000_000;

fn sync(tick: u64, rate: u32, sent: u64) -> Sync {
    Sync { source: 1, tick, rate, sent }
}

/// Sources with a clock of 1 MHz send a message each second, from `from` to `to` seconds.
fn clocks(predictor: &mut Predictor, sources: &[u64], from: u64, to: u64) {
    for second in from..to {
        for &source in sources {
            predictor.handle_sync(source, &sync(second * 1_000_000, 1_000_000, second), Nanos(second * S));
        }
    }
}

#[test]
fn nothing_is_predicted_of_nothing() {
    let predictor = Predictor::default();
    assert_eq!((predictor.ahead(Nanos(5), Nanos(6)), predictor.slowest(Nanos(5), Nanos(4))), (None, None));
}

#[test]
fn it_takes_three_messages() {
    let mut predictor = Predictor::default();
    clocks(&mut predictor, &[1], 5, 7);
    assert_eq!(predictor.ahead(Nanos(6 * S), Nanos(6 * S)), None);
    clocks(&mut predictor, &[1], 7, 8);
    assert_eq!(predictor.ahead(Nanos(7 * S), Nanos(9 * S)), Some(9_000_001));
    assert_eq!(predictor.slowest(Nanos(7 * S), Nanos(S / 2)), Some(500_000));
    // The first data: earlier messages may have reported ticks that stood still.
    predictor.handle_data(7_000_000, Nanos(7 * S));
    assert_eq!(predictor.ahead(Nanos(7 * S), Nanos(9 * S)), None);
}

#[test]
fn a_rate_that_is_claimed_wrongly_is_measured() {
    for claimed in [0, 10, 40_000_000, u32::MAX] {
        let mut predictor = Predictor::default();
        for second in 0..20 {
            predictor.handle_sync(1, &sync(second * 1_000_000, claimed, second), Nanos(second * S));
        }
        let ahead = predictor.ahead(Nanos(19 * S), Nanos(20 * S)).unwrap();
        assert!(ahead.abs_diff(20_000_000) < 1000, "{claimed}: {ahead}");
    }
}

#[test]
fn the_furthest_is_ahead_and_the_slowest_is_behind() {
    let mut predictor = Predictor::default();
    for second in 0..10 {
        for (source, skew) in [(1, 0), (2, 700_000), (3, 300_000)] {
            let message = sync(second * 1_000_000 + skew, 1_000_000, second);
            predictor.handle_sync(source, &message, Nanos(second * S));
        }
    }
    let now = Nanos(9 * S);
    assert_eq!(predictor.ahead(now, now), Some(9_700_001));
    assert_eq!(predictor.slowest(now, now), Some(9_000_000));
    assert_eq!(predictor.sources(now), (3, 3));
}

/// One of two is held up for seven seconds, then resumes and loses some of its messages. It is seven seconds behind, so it is waited
/// for.
#[test]
fn one_that_goes_on_is_waited_for_before_its_messages_fit_again() {
    let mut predictor = Predictor::default();
    let from = 20;
    for second in 0..40 {
        clocks(&mut predictor, &[1], second, second + 1);
        let here = second.min(from).max(second.saturating_sub(7)) * 1_000_000;
        if second < from + 8 || [30, 32].contains(&second) {
            predictor.handle_sync(2, &sync(here, 1_000_000, second), Nanos(second * S));
        }
        let now = Nanos(second * S);
        let slowest = predictor.slowest(now, Nanos(now.0.saturating_sub(3 * S)));
        assert!(slowest.is_none_or(|tick| tick <= here), "{slowest:?} at {second} s, it is at {here}");
    }
}

/// What is lost of the messages of one that lags does not put it further behind.
#[test]
fn one_that_lags_is_waited_for_between_its_messages() {
    let mut predictor = Predictor::default();
    for second in 9..60 {
        clocks(&mut predictor, &[1], second, second + 1);
        let here = (second - 9) * 1_000_000;
        // As rarely as E2SAR sends them.
        if second < 20 || second % 10 == 0 {
            predictor.handle_sync(2, &sync(here, 1_000_000, second), Nanos(second * S));
        }
        let now = Nanos(second * S);
        let slowest = predictor.slowest(now, Nanos(now.0 - 3 * S));
        assert!(
            second < 20 || slowest.is_some_and(|tick| tick <= here),
            "{slowest:?} at {second} s, it is at {here}"
        );
    }
}

#[test]
fn forged_sources_move_nothing() {
    let mut predictor = Predictor::default();
    clocks(&mut predictor, &[1, 2], 0, 5);
    for second in 5..60 {
        clocks(&mut predictor, &[1, 2], second, second + 1);
        // Many forged sources, far ahead and far behind, with any rate.
        for forged in 10..60 {
            let tick = if forged % 2 == 0 { u64::MAX - 9 } else { 3 };
            predictor.handle_sync(forged, &sync(tick, u32::MAX, second), Nanos(second * S + 1));
        }
        let now = Nanos(second * S + 2);
        assert_eq!(predictor.ahead(now, now), Some(second * 1_000_000 + 1));
        assert_eq!(predictor.slowest(now, now), Some(second * 1_000_000));
    }
    assert_eq!(predictor.sources(Nanos(60 * S)).1, 2);
}

#[test]
fn what_is_forged_in_the_name_of_a_source_is_suspect() {
    let mut predictor = Predictor::default();
    clocks(&mut predictor, &[1], 0, 5);
    for second in 5..30 {
        clocks(&mut predictor, &[1], second, second + 1);
        for n in 0..2 {
            predictor.handle_sync(1, &sync(u64::MAX / 2 + second + n, 0, 1 << 60), Nanos(second * S + 5 + n));
        }
        let now = Nanos(second * S + 9);
        assert_eq!(predictor.ahead(now, now), Some(second * 1_000_000 + 1));
    }
    assert_eq!((predictor.stats().jumps, predictor.stats().suspect), (0, 50));
}

#[test]
fn ticks_that_begin_again_are_followed_when_confirmed() {
    let mut predictor = Predictor::default();
    clocks(&mut predictor, &[1], 100, 110);
    let heard = |predictor: &mut Predictor, second: u64| {
        predictor.handle_sync(
            1,
            &sync(second * 1_000_000, 1_000_000, 1000 + second),
            Nanos((110 + second) * S),
        );
        predictor.ahead(Nanos((110 + second) * S), Nanos((110 + second) * S)).unwrap()
    };
    assert_eq!(heard(&mut predictor, 0), 110_000_001);
    assert_eq!(heard(&mut predictor, 1), 111_000_001);
    assert_eq!(heard(&mut predictor, 2), 2_000_001);
    assert_eq!(predictor.stats().jumps, 1);
}

#[test]
fn a_message_that_was_overtaken_is_stale() {
    let mut predictor = Predictor::default();
    clocks(&mut predictor, &[1], 0, 5);
    predictor.handle_sync(1, &sync(3_000_000, 1_000_000, 3), Nanos(4 * S + 5));
    assert_eq!((predictor.stats().stale, predictor.stats().fitting), (1, 5));
    // Messages after a clock was set back are not stale.
    predictor.handle_sync(1, &sync(5_000_000, 1_000_000, 0), Nanos(5 * S));
    assert_eq!(predictor.stats().fitting, 6);
}

#[test]
fn who_is_silent_neither_leads_nor_holds_back() {
    let mut predictor = Predictor::default();
    // The first source stops; the second begins later, with other ticks.
    clocks(&mut predictor, &[1], 0, 5);
    for second in 5..40 {
        predictor.handle_sync(2, &sync(second * 1000, 1000, second), Nanos(second * S));
    }
    let now = Nanos(39 * S);
    assert_eq!((predictor.ahead(now, now), predictor.sources(now)), (Some(39_001), (1, 1)));
    // All are silent: the last one is extrapolated.
    let late = Nanos(100 * S);
    assert_eq!(predictor.ahead(late, late), Some(100_001));
}

#[test]
fn a_full_house_has_room_only_for_who_replaces_the_silent() {
    let mut predictor = Predictor::default();
    let all: Vec<u64> = (0..SOURCES as u64 + 5).collect();
    clocks(&mut predictor, &all, 0, 2);
    assert_eq!((predictor.sources.len(), predictor.stats().crowded), (SOURCES, 10));
    clocks(&mut predictor, &[900], 14, 15);
    assert_eq!((predictor.sources.len(), predictor.stats().crowded), (SOURCES, 10));
}

#[test]
fn data_lead() {
    let mut predictor = Predictor::default();
    clocks(&mut predictor, &[1], 0, 3);
    // The ticks of the data differ from those of the messages, as for a sender without messages.
    for n in 0..40 {
        predictor.handle_data(77_000 + n * 10, Nanos(3 * S + n * S / 10));
    }
    let now = Nanos(3 * S + 39 * S / 10);
    let ahead = predictor.ahead(now, Nanos(now.0 + S)).unwrap();
    assert!(ahead.abs_diff(77_490) < 10, "{ahead}");
    // One packet with an absurd tick.
    predictor.handle_data(u64::MAX, Nanos(now.0 + 1));
    assert_eq!(predictor.ahead(now, Nanos(now.0 + S)), Some(ahead));
    // The data stop; only messages continue.
    clocks(&mut predictor, &[1], 3, 20);
    let now = Nanos(19 * S);
    assert_eq!(predictor.ahead(now, now), Some(19_000_001));
}

#[test]
fn what_was_forwarded_is_behind_every_boundary() {
    let mut predictor = Predictor::default();
    (0..40).for_each(|n| assert!(predictor.handle_data(1_000_000 + n * 100, Nanos(n * S / 10))));
    // The data end; late packets arrive, all of one second.
    let late = |n: u64| (500_000 + n, Nanos(4 * S + n * S / 10));
    let credible: Vec<bool> = (0..30).map(late).map(|(tick, at)| predictor.handle_data(tick, at)).collect();
    assert_eq!(credible.iter().position(|&credible| credible), Some(2), "confirmed by the third");
    let now = Nanos(7 * S);
    assert!(
        predictor.ahead(now, now).is_some_and(|tick| tick > 1_003_900),
        "{:?}",
        predictor.ahead(now, now)
    );
    // But ticks that begin again are followed in the end.
    (30..120).for_each(|n| {
        predictor.handle_data(late(n).0, late(n).1);
    });
    let now = late(120).1;
    assert!(predictor.ahead(now, now).is_some_and(|tick| tick < 600_000), "{:?}", predictor.ahead(now, now));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]
    /// The documented bound, in worlds with one sender: any rate, delay, jitter, loss of messages, clock and stated
    /// rate.
    #[test]
    fn the_error_is_within_its_bound(rate in prop_oneof![10.0f64..1e4, 1e4f64..1e9], start in 0u64..1 << 62, delay in 0u64..S / 5, jitter in 1u64..S / 20,
            claims: bool, skew: u32, seed: u64, ahead in 0u64..2 * S) {
        let mut random = seed;
        let mut draw = |below: u64| { random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407); (random >> 33) % below };
        let truth = |at: u64| start + (rate * at as f64 / 1e9) as u64;
        let mut predictor = Predictor::default();
        let (mut at, mut kept, mut last) = (0, Vec::new(), 0);
        for _ in 0..30 {
            at += S / 2 + draw(S / 2);
            let arrives = at + delay + draw(jitter);
            let claimed = if claims { (rate * (0.8 + draw(40) as f64 / 100.0)) as u32 } else { 0 };
            predictor.handle_sync(1, &sync(truth(at), claimed, at + u64::from(skew)), Nanos(arrives));
            kept.push(arrives);
            last = arrives;
        }
        prop_assert_eq!(predictor.stats().suspect, 0);
        let span = (last - kept[kept.len() - 12]) as f64;
        let (d, j, h) = (delay as f64, jitter as f64, ahead as f64);
        let bound = rate * (d + 2.0 * j + 4.0 * j * h / span) / 1e9 + 4.0;
        let found = predictor.ahead(Nanos(last), Nanos(last + ahead)).unwrap();
        let error = (i128::from(found) - i128::from(truth(last + ahead))).abs() as f64;
        prop_assert!(error <= bound, "off by {} ticks, bound {}", error, bound);
        prop_assert!(predictor.slowest(Nanos(last), Nanos(last)).unwrap() <= truth(last) + (rate * 2.0 * j / 1e9) as u64 + 4);
    }
}
