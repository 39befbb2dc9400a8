//! The law step by step, with a very simple model of a path. Links with queues are in the simulator.

use super::*;
use proptest::prelude::*;

const TICK: Nanos = Nanos(10_000_000);
const PACKET: u64 = 1472;

/// A path without a queue: packets above `capacity` bits per second are lost; reports arrive immediately.
struct Way {
    control: Controller,
    now: Nanos,
    capacity: f64,
    /// One packet in this many is lost by chance.
    every: u64,
    sent: u64,
    came: u64,
    bits: f64,
    fill: u16,
    waiting: Nanos,
}

impl Way {
    fn new(config: &ControlConfig, capacity: f64) -> Self {
        let control = Controller::new(config);
        let (now, waiting) = (Nanos(1_000_000_000), Nanos(0));
        Self { control, now, capacity, every: 0, sent: 0, came: 0, bits: 0.0, fill: 0, waiting }
    }

    fn tick(&mut self, heard: bool) {
        self.now = self.now.plus(TICK);
        let before = self.sent;
        self.bits += self.control.rate() as f64 * 0.01;
        self.sent = (self.bits / (PACKET * 8) as f64) as u64;
        let sent = self.sent - before;
        let most = (self.capacity * 0.01 / (PACKET * 8) as f64) as u64;
        let lost = |sent: u64| sent.checked_div(self.every).unwrap_or(0);
        let chance = lost(self.sent) - lost(before);
        self.came += sent.min(most).saturating_sub(chance);
        self.control.marked(self.now);
        if heard {
            let report = self.report();
            self.control.report(&report, self.now.plus(Nanos(100_000)));
        }
    }

    fn report(&self) -> Report {
        Report {
            mark_time: self.now,
            sent_packets: self.sent,
            sent_bytes: self.sent * PACKET,
            packets: self.came,
            bytes: self.came * PACKET,
            refused: 0,
            arrived: self.now.plus(Nanos(5_000_000_000)).plus(self.waiting),
            socket_fill: self.fill,
            ring_fill: 0,
        }
    }

    fn run(&mut self, ticks: u64) -> u64 {
        (0..ticks).for_each(|_| self.tick(true));
        self.control.rate()
    }
}

#[test]
fn it_climbs_quickly_and_falls_to_what_gets_through() {
    let mut way = Way::new(&ControlConfig::default(), 5e9);
    way.run(30);
    assert!(way.control.rate() >= 3_000_000_000, "{}", way.control.rate());
    way.capacity = 1e9;
    let rate = way.run(4);
    assert!((600_000_000..1_000_000_000).contains(&rate), "after four reports {rate}");
    assert_eq!(way.control.stats().last, Some(Cause::Loss));
}

#[test]
fn silence_halves_down_to_the_least_and_a_report_ends_it() {
    let config = ControlConfig { least: 2_000_000, ..ControlConfig::default() };
    let mut way = Way::new(&config, 1e9);
    way.run(200);
    let before = way.control.rate();
    (0..30).for_each(|_| way.tick(false));
    assert!(way.control.rate() <= before / 4, "{} of {before}", way.control.rate());
    assert_eq!((way.control.phase(), way.control.stats().last), (Phase::Blind, Some(Cause::Silence)));
    (0..300).for_each(|_| way.tick(false));
    assert_eq!(way.control.rate(), 2_000_000);
    let rate = way.run(100);
    assert!(rate > 400_000_000, "{rate}");
}

#[test]
fn a_receiver_that_never_answers_is_sent_the_least() {
    let mut way = Way::new(&ControlConfig::default(), 1e9);
    (0..90).for_each(|_| way.tick(false));
    assert_eq!(way.control.rate(), 100_000_000, "the first second is patience");
    (0..1000).for_each(|_| way.tick(false));
    assert_eq!(way.control.rate(), 1_000_000);
}

#[test]
fn a_pause_is_not_silence() {
    let mut way = Way::new(&ControlConfig::default(), 1e9);
    let before = way.run(200);
    way.now = way.now.plus(Nanos(60_000_000_000));
    way.control.marked(way.now);
    assert_eq!(way.control.rate(), before);
    assert_eq!(way.control.stats().silences, 0);
}

#[test]
fn a_filling_receiver_and_a_growing_queue_are_signs() {
    for (fill, waiting, cause) in [(600, 0, Cause::Receiver), (0, 30_000_000, Cause::Queue)] {
        let mut way = Way::new(&ControlConfig { most: 900_000_000, ..ControlConfig::default() }, 1e9);
        let before = way.run(200);
        (way.fill, way.waiting) = (fill, Nanos(waiting));
        way.run(6);
        assert!(way.control.rate() < before, "{cause:?}");
        assert_eq!(way.control.stats().last, Some(cause));
        assert_eq!(way.control.stats().losses, 0);
    }
}

#[test]
fn loss_by_chance_is_found_to_be_the_ways_own() {
    let mut way = Way::new(&ControlConfig { most: 800_000_000, ..ControlConfig::default() }, 1e9);
    way.run(300);
    way.every = 1000;
    let rate = way.run(1500);
    assert!(rate >= 790_000_000, "{rate} {:?}", way.control.stats());
    let stats = way.control.stats();
    assert!(stats.undone >= 1 && (5e-4..2e-3).contains(&way.control.own_loss()), "{stats:?}");
    way.every = 0;
    way.run(1000);
    assert!(way.control.own_loss() < 1e-5, "{}", way.control.own_loss());
}

#[test]
fn old_doubled_and_strange_reports_do_no_harm() {
    let mut way = Way::new(&ControlConfig::default(), 1e9);
    way.run(100);
    let (rate, report) = (way.control.rate(), way.report());
    way.control.report(&report, way.now);
    let old = Report { mark_time: Nanos(5), packets: 0, ..report };
    way.control.report(&old, way.now);
    assert_eq!((way.control.rate(), way.control.stats().stale), (rate, 2));
    // A receiver that restarted: its counts begin at 0, and are compared from there on.
    way.came = 0;
    let rate = way.run(100);
    assert!(rate > 500_000_000, "{rate}");
}

#[test]
fn bounds_hold_even_when_they_are_in_the_wrong_order() {
    let config = ControlConfig { start: 5, least: 1_000_000, most: 10, interval: Nanos(0) };
    assert_eq!(Controller::new(&config).rate(), 1_000_000);
    let config = ControlConfig { most: 300_000_000, ..ControlConfig::default() };
    assert_eq!(Way::new(&config, 1e12).run(500), 300_000_000);
}

#[test]
fn refused_packets_count_as_lost() {
    let mut way = Way::new(&ControlConfig { most: 500_000_000, ..ControlConfig::default() }, 1e9);
    let before = way.run(200);
    way.tick(false);
    let report = Report { refused: 200, ..way.report() };
    way.control.report(&report, way.now);
    assert!(way.control.rate() < before);
    assert_eq!(way.control.stats().last, Some(Cause::Loss));
}

/// Runs a search with this limit; returns its result and the number of trials.
fn search(config: SearchConfig, border: impl Fn(u32) -> u64) -> (Step, u32) {
    let mut search = Search::new(config);
    loop {
        let Step::Try(rate) = search.step() else { return (search.step(), search.trials()) };
        assert!(search.trials() < 200, "no end");
        search.verdict(rate <= border(search.trials()));
    }
}

#[test]
fn a_search_finds_the_border_from_either_side() {
    for start in [1_000_000, 1_000_000_000, 400_000_000_000] {
        let (found, trials) = search(SearchConfig { start, ..SearchConfig::default() }, |_| 9_300_000_000);
        let Step::Done(rate) = found else { panic!("{found:?}") };
        assert!((8_600_000_000..8_900_000_000).contains(&rate), "{rate}");
        assert!(trials < 40, "{trials}");
    }
}

#[test]
fn a_search_knows_its_bounds() {
    assert_eq!(search(SearchConfig::default(), |_| 0).0, Step::Nothing);
    let (found, _) = search(SearchConfig { most: 2_000_000_000, ..SearchConfig::default() }, |_| u64::MAX);
    assert_eq!(found, Step::Done(1_900_000_000));
}

#[test]
fn a_border_that_falls_during_the_search_is_followed() {
    let (found, _) =
        search(SearchConfig::default(), |trial| if trial < 8 { 9_000_000_000 } else { 2_000_000_000 });
    let Step::Done(rate) = found else { panic!("{found:?}") };
    assert!((1_500_000_000..=2_000_000_000).contains(&rate), "{rate}");
}

proptest! {
    #[test]
    fn any_reports_keep_the_rate_in_its_bounds(
        raw in proptest::collection::vec((any::<u64>(), any::<u64>(), any::<u64>(), any::<u64>(), any::<u16>()), 1..60),
        near: bool,
    ) {
        let config = ControlConfig::default();
        let mut control = Controller::new(&config);
        for (n, (a, b, c, d, fill)) in raw.into_iter().enumerate() {
            let time = if near { Nanos(n as u64 * 10_000_000) } else { Nanos(a) };
            control.marked(time);
            let report = Report {
                mark_time: time, sent_packets: a, sent_bytes: b, packets: c, bytes: d, refused: a ^ b,
                arrived: Nanos(c), socket_fill: fill % 1001, ring_fill: 0,
            };
            control.report(&report, Nanos(d));
            prop_assert!((config.least..=config.most).contains(&control.rate()));
        }
    }

    #[test]
    fn any_verdicts_end_a_search(verdicts in proptest::collection::vec(any::<bool>(), 400), start in 1u64..1 << 40) {
        let mut search = Search::new(SearchConfig { start, ..SearchConfig::default() });
        for lossless in verdicts {
            if !matches!(search.step(), Step::Try(_)) {
                break;
            }
            search.verdict(lossless);
        }
        prop_assert!(!matches!(search.step(), Step::Try(_)), "{} trials", search.trials());
    }
}
