use super::*;
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet};

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
    /// There is no memory, or no disk: it does not begin.
    Refuse,
    /// Data reach the end of the scan.
    Reach,
    /// Ctrl-C; then the program is started again.
    Interrupt,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        8 => (1i64..8).prop_map(Step::Pass),
        1 => (-60i64..60).prop_map(Step::Set),
        2 => (0usize..5).prop_map(Step::Kill),
        1 => Just(Step::Fail),
        1 => Just(Step::Refuse),
        3 => Just(Step::Reach),
        1 => Just(Step::Interrupt),
    ]
}

/// The station: disks that survive, a program that does not.
struct World {
    scans: Vec<SequencedScan>,
    now: i64,
    journal: Vec<JournalRecord>,
    sequencer: Sequencer,
    /// What is recorded now, by lane.
    running: BTreeMap<usize, usize>,
    names: BTreeSet<String>,
    started: Vec<usize>,
}

impl World {
    fn new(scans: Vec<SequencedScan>) -> Self {
        let sequencer = Sequencer::new(&scans, &[], SequencerOptions::default());
        let (journal, names, started) = (Vec::new(), BTreeSet::new(), Vec::new());
        let mut world = Self { scans, now: 0, journal, sequencer, running: BTreeMap::new(), names, started };
        world.event(SequencerEvent::Time(0), usize::MAX);
        world
    }

    fn restart(&mut self) {
        self.running.clear();
        // The journal is text.
        let journal: Vec<_> = self.journal.iter().map(|record| record.to_string().parse().unwrap()).collect();
        assert_eq!(journal, self.journal);
        self.sequencer = Sequencer::new(&self.scans, &journal, SequencerOptions::default());
    }

    /// The program handles an event, and dies after `most` actions; a start counts twice.
    fn event(&mut self, event: SequencerEvent, most: usize) {
        let actions = self.sequencer.handle(event);
        let mut left = most;
        for action in actions {
            if left == 0 {
                return;
            }
            left -= 1;
            match action {
                SequencerAction::Write(record) => self.journal.push(record),
                SequencerAction::Start { scan, name, start, stop, begun } => {
                    let of = &self.scans[scan];
                    assert_eq!((&begun.name, begun.end), (&of.name, None));
                    // Written before anything is opened, and then the program may die.
                    self.journal.push(begun);
                    if left == 0 {
                        return;
                    }
                    left -= 1;
                    assert!(self.names.insert(name.clone()), "{name} is started twice");
                    assert!(!self.running.contains_key(&of.lane), "two recordings at a time");
                    assert_eq!((start, stop), (of.start, of.stop));
                    assert!(self.now >= start - 5 && self.now < stop, "{name} is not due at {}", self.now);
                    let complete = |record: &JournalRecord| {
                        record.name == of.name && record.end == Some(ScanEnd::Complete)
                    };
                    assert!(!self.journal.iter().any(complete), "{name} was complete");
                    self.running.insert(of.lane, scan);
                    self.started.push(scan);
                }
                SequencerAction::Stop { scan } => {
                    assert_eq!(self.running.remove(&self.scans[scan].lane), Some(scan));
                    self.event(SequencerEvent::Ended { scan, end: ScanEnd::Cut }, usize::MAX);
                }
                SequencerAction::Finish => assert!(self.running.is_empty()),
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
            Step::Fail | Step::Reach => {
                let Some((_, scan)) = self.running.pop_first() else { return };
                let end = if matches!(step, Step::Fail) { ScanEnd::Failed } else { ScanEnd::Complete };
                self.event(SequencerEvent::Ended { scan, end }, usize::MAX);
            }
            Step::Refuse => {
                let Some((_, scan)) = self.running.pop_first() else { return };
                // As if it had not been written.
                let name = self.journal.iter().rposition(|record| record.name == self.scans[scan].name);
                let begun = self.journal.remove(name.unwrap());
                let rest = begun.attempt - 1;
                let name = if rest == 0 { begun.name } else { format!("{}_rest{rest}", begun.name) };
                self.names.remove(&name);
                self.event(SequencerEvent::Refused { scan, name_taken: false }, usize::MAX);
            }
            Step::Interrupt => {
                self.event(SequencerEvent::Interrupt, usize::MAX);
                assert!(self.running.is_empty());
                self.restart();
                self.tick(self.now);
            }
        }
    }

    /// No scan that is due is left out, for longer than it takes to retry.
    fn is_busy_if_due(&self) -> bool {
        let due = |at: usize| {
            let scan = &self.scans[at];
            let is_open = self.sequencer.progress(at).unwrap().end.is_none();
            is_open && self.now >= scan.start - 5 && self.now < scan.stop
        };
        (0..self.scans.len()).filter(|&at| due(at)).all(|at| self.running.contains_key(&self.scans[at].lane))
    }
}

fn scans(spans: &[(i64, i64)]) -> Vec<SequencedScan> {
    in_lanes(spans, 1)
}

fn in_lanes(spans: &[(i64, i64)], lanes: usize) -> Vec<SequencedScan> {
    let scan = |(at, &(start, seconds)): (usize, &(i64, i64))| SequencedScan {
        name: format!("no{at}"),
        start,
        stop: start + seconds,
        lane: at % lanes,
    };
    spans.iter().enumerate().map(scan).collect()
}

proptest! {
    /// Whatever happens, the promises of the module hold (asserted in [`World::event`]), and nothing due is left out.
    #[test]
    fn any_world(
        spans in prop::collection::vec((0i64..120, 1i64..40), 1..8),
        steps in prop::collection::vec(step(), 0..60),
        lanes in 1usize..3,
    ) {
        let mut world = World::new(in_lanes(&spans, lanes));
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
            if world.running.get(&0).is_some_and(|scan| world.now >= world.scans[*scan].stop) {
                world.step(&Step::Reach);
            }
        }
        prop_assert_eq!(&world.started, &(0..spans.len()).collect::<Vec<_>>());
        let whole = ScanProgress { attempts: 1, end: Some(ScanEnd::Complete), is_recorded: false };
        prop_assert!((0..spans.len()).all(|scan| world.sequencer.progress(scan) == Some(whole)));
        prop_assert_eq!(world.names, world.scans.iter().map(|scan| scan.name.clone()).collect::<BTreeSet<_>>());
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
    assert_eq!(world.running.get(&0), Some(&0));
    world.step(&Step::Pass(1));
    let whole = ScanProgress { attempts: 1, end: Some(ScanEnd::Complete), is_recorded: false };
    assert_eq!((world.running.len(), world.sequencer.progress(0)), (0, Some(whole)));
}

#[test]
fn a_clock_that_was_wrong_gives_up_nothing() {
    let mut world = World::new(scans(&[(10, 20)]));
    world.step(&Step::Set(1000));
    assert_eq!(world.sequencer.handle(SequencerEvent::Time(1000)), [SequencerAction::Finish]);
    world.step(&Step::Set(-990));
    assert_eq!((world.now, world.running.get(&0)), (10, Some(&0)));
}

#[test]
fn scans_of_two_lanes_are_recorded_at_the_same_time() {
    let mut world = World::new(in_lanes(&[(10, 20), (12, 20)], 2));
    world.step(&Step::Pass(8));
    assert_eq!(world.started, [0, 1]);
}

#[test]
fn what_an_operator_ended_is_not_begun_again() {
    let mut world = World::new(scans(&[(10, 20)]));
    world.step(&Step::Pass(12));
    world.running.clear();
    world.event(SequencerEvent::Ended { scan: 0, end: ScanEnd::Dropped }, usize::MAX);
    world.step(&Step::Pass(10));
    world.restart();
    world.step(&Step::Pass(2));
    assert_eq!(world.started, [0]);
}

#[test]
fn a_scan_that_is_removed_and_added_again_is_the_same() {
    let mut world = World::new(scans(&[(10, 20)]));
    world.step(&Step::Pass(12));
    world.sequencer.remove(0);
    assert_eq!(world.sequencer.add(world.scans[0].clone()), 0);
    world.step(&Step::Reach);
    world.sequencer.remove(0);
    // Its name was used, and it was complete.
    let again = world.sequencer.add(world.scans[0].clone());
    assert_eq!(world.sequencer.progress(again).unwrap().end, Some(ScanEnd::Complete));
    world.step(&Step::Pass(5));
    assert_eq!(world.started, [0]);
}

#[test]
fn a_name_that_is_taken_is_passed_over() {
    let mut sequencer = Sequencer::new(&scans(&[(10, 20)]), &[], SequencerOptions::default());
    sequencer.handle(SequencerEvent::Time(10));
    let actions = sequencer.handle(SequencerEvent::Refused { scan: 0, name_taken: true });
    assert!(
        matches!(&actions[..], [SequencerAction::Start { name, .. }] if name == "no0_rest1"),
        "{actions:?}"
    );
    // A refusal for another reason uses no name, and is tried again.
    assert_eq!(sequencer.handle(SequencerEvent::Refused { scan: 0, name_taken: false }), []);
    assert_eq!(sequencer.handle(SequencerEvent::Time(14)), []);
    let actions = sequencer.handle(SequencerEvent::Time(15));
    assert!(
        matches!(&actions[..], [SequencerAction::Start { name, .. }] if name == "no0_rest1"),
        "{actions:?}"
    );
}
