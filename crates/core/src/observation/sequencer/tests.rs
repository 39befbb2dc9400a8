use super::*;
use proptest::prelude::*;
use std::collections::BTreeSet;

/// What happens to a station.
#[derive(Clone, Debug)]
enum Step {
    /// Seconds pass.
    Pass(i64),
    /// The clock is set, forward or back.
    Set(i64),
    /// The program dies, after this many of the actions under way, and starts again.
    Kill(usize),
    /// The recorder fails.
    Fail,
    /// Data reach the end of the scan.
    Reach,
    /// Ctrl-C; then the program is started again.
    Interrupt,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        8 => (1i64..8).prop_map(Step::Pass),
        1 => (-60i64..60).prop_map(Step::Set),
        2 => (0usize..3).prop_map(Step::Kill),
        1 => Just(Step::Fail),
        3 => Just(Step::Reach),
        1 => Just(Step::Interrupt),
    ]
}

/// The station: disks that survive, a program that does not.
struct World {
    scans: Vec<(String, i64, i64)>,
    now: i64,
    journal: Vec<JournalRecord>,
    sequencer: Sequencer,
    /// What is recorded now.
    running: Option<usize>,
    names: BTreeSet<String>,
    started: Vec<usize>,
}

impl World {
    fn new(scans: Vec<(String, i64, i64)>) -> Self {
        let sequencer = Sequencer::new(&scans, &[], SequencerOptions::default());
        let (journal, names, started) = (Vec::new(), BTreeSet::new(), Vec::new());
        let mut world = Self { scans, now: 0, journal, sequencer, running: None, names, started };
        world.event(SequencerEvent::Time(0), usize::MAX);
        world
    }

    fn restart(&mut self) {
        self.running = None;
        // The journal is text.
        let journal: Vec<_> = self.journal.iter().map(|record| record.to_string().parse().unwrap()).collect();
        assert_eq!(journal, self.journal);
        self.sequencer = Sequencer::new(&self.scans, &journal, SequencerOptions::default());
    }

    /// The program handles an event, and dies after `most` actions.
    fn event(&mut self, event: SequencerEvent, most: usize) {
        let actions = self.sequencer.handle(event);
        for action in actions.into_iter().take(most) {
            match action {
                SequencerAction::Write(record) => self.journal.push(record),
                SequencerAction::Start { scan, name, start, stop } => {
                    assert!(self.names.insert(name.clone()), "{name} is started twice");
                    assert_eq!(self.running, None, "two recordings at a time");
                    assert_eq!((start, stop), (self.scans[scan].1, self.scans[scan].2));
                    assert!(self.now >= start - 5 && self.now < stop, "{name} is not due at {}", self.now);
                    let complete = |record: &JournalRecord| {
                        record.name == self.scans[scan].0 && record.end == Some(ScanEnd::Complete)
                    };
                    assert!(!self.journal.iter().any(complete), "{name} was complete");
                    let last = self.journal.last().unwrap();
                    assert_eq!(
                        (&last.name, last.end),
                        (&self.scans[scan].0, None),
                        "written before it starts"
                    );
                    self.running = Some(scan);
                    self.started.push(scan);
                }
                SequencerAction::Stop => {
                    assert!(self.running.is_some());
                    self.running = None;
                    self.event(SequencerEvent::Ended(ScanEnd::Cut), usize::MAX);
                }
                SequencerAction::Finish => assert_eq!(self.running, None),
            }
        }
    }

    fn tick(&mut self, to: i64) {
        self.now = to;
        self.event(SequencerEvent::Time(to), usize::MAX);
    }

    fn step(&mut self, step: &Step) {
        match *step {
            Step::Pass(seconds) => (0..seconds).for_each(|_| self.tick(self.now + 1)),
            Step::Set(by) => self.tick(self.now + by),
            Step::Kill(after) => {
                self.now += 1;
                self.event(SequencerEvent::Time(self.now), after);
                self.restart();
                self.tick(self.now);
            }
            Step::Fail | Step::Reach if self.running.is_none() => {}
            Step::Fail => {
                self.running = None;
                self.event(SequencerEvent::Ended(ScanEnd::Failed), usize::MAX);
            }
            Step::Reach => {
                self.running = None;
                self.event(SequencerEvent::Ended(ScanEnd::Complete), usize::MAX);
            }
            Step::Interrupt => {
                self.event(SequencerEvent::Interrupt, usize::MAX);
                assert_eq!(self.running, None);
                self.restart();
                self.tick(self.now);
            }
        }
    }

    /// No scan that is due is left out, for longer than it takes to retry.
    fn is_busy_if_due(&self) -> bool {
        let complete = |scan: usize| self.sequencer.outcome(scan).unwrap().0;
        let due = |scan: usize| {
            let (_, start, stop) = self.scans[scan];
            self.now >= start - 5 && self.now < stop && !complete(scan)
        };
        self.running.is_some() || !(0..self.scans.len()).any(due)
    }
}

fn scans(spans: &[(i64, i64)]) -> Vec<(String, i64, i64)> {
    spans
        .iter()
        .enumerate()
        .map(|(at, &(start, seconds))| (format!("no{at}"), start, start + seconds))
        .collect()
}

proptest! {
    /// Whatever happens, the promises of the module hold (asserted in [`World::event`]), and nothing due is left out.
    #[test]
    fn any_world(
        spans in prop::collection::vec((0i64..120, 1i64..40), 1..8),
        steps in prop::collection::vec(step(), 0..60),
    ) {
        let mut world = World::new(scans(&spans));
        for step in &steps {
            world.step(step);
        }
        // The clock passes the retry time of the last failure.
        for _ in 0..6 {
            world.tick(world.now + 1);
        }
        prop_assert!(world.is_busy_if_due(), "at {}: {:?}", world.now, world.sequencer);
    }

    /// On a quiet day each scan is recorded once, whole, under its own name.
    #[test]
    fn a_quiet_day(gaps in prop::collection::vec((6i64..30, 1i64..40), 1..12)) {
        let (mut at, mut spans) = (10, Vec::new());
        for (gap, seconds) in gaps {
            at += gap;
            spans.push((at, seconds));
            at += seconds;
        }
        let mut world = World::new(scans(&spans));
        while world.now < at + 10 {
            world.tick(world.now + 1);
            if world.running.is_some_and(|scan| world.now >= world.scans[scan].2) {
                world.step(&Step::Reach);
            }
        }
        prop_assert_eq!(&world.started, &(0..spans.len()).collect::<Vec<_>>());
        prop_assert!((0..spans.len()).all(|scan| world.sequencer.outcome(scan) == Some((true, 1))));
        prop_assert_eq!(world.names, world.scans.iter().map(|scan| scan.0.clone()).collect::<BTreeSet<_>>());
    }

    #[test]
    fn any_line_of_a_journal(text in ".{0,60}") {
        if let Ok(record) = text.parse::<JournalRecord>() {
            prop_assert_eq!(record.to_string().parse(), Ok(record));
        }
    }
}

#[test]
fn of_overlapping_scans_the_later_gets_its_rest() {
    let mut world = World::new(scans(&[(10, 20), (20, 30)]));
    world.step(&Step::Pass(25));
    assert_eq!(world.started, [0]);
    world.step(&Step::Reach);
    assert_eq!(world.started, [0, 1], "as soon as the first has ended");
}

#[test]
fn a_scan_without_data_ends_by_the_clock() {
    let mut world = World::new(scans(&[(10, 20)]));
    world.step(&Step::Pass(34));
    assert!(world.running.is_some());
    world.step(&Step::Pass(1));
    assert_eq!((world.running, world.sequencer.outcome(0)), (None, Some((true, 1))));
}

#[test]
fn a_clock_that_was_wrong_gives_up_nothing() {
    let mut world = World::new(scans(&[(10, 20)]));
    world.step(&Step::Set(1000));
    assert_eq!(world.sequencer.handle(SequencerEvent::Time(1000)), [SequencerAction::Finish]);
    world.step(&Step::Set(-990));
    assert_eq!((world.now, world.running), (10, Some(0)));
}
