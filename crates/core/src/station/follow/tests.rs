use super::*;
use crate::station::{
    DiskCondition, DiskConfig, InputConfig, PlannedScan, RecordingCounts, RecordingPlan, STOP_GRACE_MILLIS,
    StationConfig, StationEvent, StationRequest,
};
use proptest::prelude::*;
use std::collections::BTreeSet;

const MIB: u64 = 1 << 20;

fn config() -> StationConfig {
    let input = |name: &str| InputConfig {
        name: name.into(),
        memory_bytes: 64 * MIB,
        rate_bits: Some(800_000_000),
        ..InputConfig::default()
    };
    let disk = DiskConfig { path: "/d0".into(), rate_bits: Some(1_700_000_000) };
    let inputs = vec![input("a"), input("b")];
    StationConfig { memory_bytes: 200 * MIB, inputs, disks: vec![disk], ..StationConfig::default() }
}

/// Scans `<schedule>_<number>`, each with its start and its seconds.
fn schedule(name: &str, input: &str, spans: &[(i64, i64)]) -> ScheduleRequest {
    let scan = |(at, (start, seconds)): (usize, &(i64, i64))| PlannedScan {
        name: format!("{name}_{at}"),
        start: *start,
        stop: start + seconds,
        rate_bits: None,
    };
    let mut scans: Vec<_> = spans.iter().enumerate().map(scan).collect();
    scans.sort_by_key(|scan| (scan.start, scan.stop));
    ScheduleRequest { name: name.into(), input: input.into(), scans, ..ScheduleRequest::default() }
}

/// The world around a station: disks that survive, a program that does not.
struct World {
    station: Station,
    now: i64,
    asked: u64,
    /// What the journals hold, by schedule.
    journal: BTreeMap<String, Vec<JournalRecord>>,
    kept: BTreeMap<String, ScheduleRequest>,
    /// Names of everything that was ever opened.
    names: BTreeSet<String>,
    /// Attempts that were written down, by name and start of the scan.
    attempts: BTreeSet<(String, i64)>,
    open: BTreeMap<RecordingId, RecordingPlan>,
    /// The state of each scan as it was told last.
    told: BTreeMap<String, PlannedState>,
    /// The next recorder fails; the program dies when the next record is written.
    fails: bool,
    dies: bool,
    refusals: Vec<StationRefusal>,
}

impl World {
    fn new() -> Self {
        Self {
            station: Station::new(config()),
            now: 0,
            asked: 0,
            journal: BTreeMap::new(),
            kept: BTreeMap::new(),
            names: BTreeSet::new(),
            attempts: BTreeSet::new(),
            open: BTreeMap::new(),
            told: BTreeMap::new(),
            fails: false,
            dies: false,
            refusals: Vec::new(),
        }
    }

    fn event(&mut self, event: StationEvent) {
        let mut events = VecDeque::from([event]);
        while let Some(event) = events.pop_front() {
            for action in self.station.handle(UnixMillis(self.now * 1000), event) {
                match action {
                    StationAction::Open(plan) => {
                        if let Some(begun) = &plan.scheduled {
                            let journal = self.journal.entry(begun.schedule.clone()).or_default();
                            let is_over = |record: &JournalRecord| {
                                (&record.name, record.start) == (&begun.record.name, begun.record.start)
                                    && record.end.is_some_and(ScanEnd::is_final)
                            };
                            assert!(!journal.iter().any(is_over), "{} was over", plan.name);
                            let (start, stop) = (plan.start.unwrap(), plan.stop.unwrap());
                            assert!(self.now >= start - 5 && self.now < stop, "{} is not due", plan.name);
                            journal.push(begun.record.clone());
                            let attempt = (plan.name.clone(), start);
                            assert!(self.attempts.insert(attempt), "{} is begun twice", plan.name);
                            if std::mem::take(&mut self.dies) {
                                return self.restart();
                            }
                        }
                        let name = plan.name.clone();
                        assert!(!self.names.contains(&name), "{name} exists");
                        let busy = self.open.values().any(|other| other.input == plan.input);
                        assert!(!busy, "two recordings on an input");
                        let recording = plan.recording;
                        self.open.insert(recording, plan);
                        events.push_back(match std::mem::take(&mut self.fails) {
                            false => {
                                self.names.insert(name);
                                StationEvent::Opened { recording }
                            }
                            true => self.ended(recording, RecordingOutcome::Failed("a fault".into())),
                        });
                    }
                    StationAction::Stop { recording } if self.open.contains_key(&recording) => {
                        events.push_back(self.ended(recording, RecordingOutcome::Complete));
                    }
                    StationAction::Journal(entry) => {
                        self.journal.entry(entry.schedule).or_default().push(entry.record);
                    }
                    StationAction::ScanChanged(status) => {
                        self.told.insert(status.scan.name, status.state);
                    }
                    StationAction::Reply { reply: Err(refusal), .. } => self.refusals.push(refusal),
                    _ => {}
                }
            }
        }
    }

    fn ended(&mut self, recording: RecordingId, outcome: RecordingOutcome) -> StationEvent {
        self.open.remove(&recording);
        StationEvent::Ended { recording, outcome, counts: RecordingCounts::default() }
    }

    fn ask(&mut self, request: StationRequest) {
        self.asked += 1;
        self.event(StationEvent::Request { id: RequestId(self.asked), request });
    }

    /// The program dies and starts again.
    fn restart(&mut self) {
        self.open.clear();
        self.told.clear();
        self.station = Station::new(config());
        for name in self.names.clone() {
            self.event(StationEvent::ScanFound { name });
        }
        for request in self.kept.clone().into_values() {
            let journal = self.journal.get(&request.name).cloned().unwrap_or_default();
            self.ask(StationRequest::LoadSchedule(Box::new(ScheduleRequest { journal, ..request })));
        }
    }

    fn load(&mut self, request: ScheduleRequest) {
        let journal = self.journal.get(&request.name).cloned().unwrap_or_default();
        let request = ScheduleRequest { journal, accept_conflicts: true, replace: true, ..request };
        self.kept.insert(request.name.clone(), request.clone());
        // Who watches asks again when a schedule is loaded.
        self.told.retain(|name, _| !name.starts_with(&format!("{}_", request.name)));
        self.ask(StationRequest::LoadSchedule(Box::new(request)));
    }

    fn pass(&mut self, seconds: i64) {
        for _ in 0..seconds {
            self.now += 1;
            self.event(StationEvent::TimePassed);
        }
    }

    fn step(&mut self, step: &Step) {
        let name = |at: u8| format!("s{at}");
        match step {
            Step::Pass(seconds) => self.pass((*seconds).into()),
            Step::Set(by) => {
                self.now += i64::from(*by);
                self.event(StationEvent::TimePassed);
            }
            Step::Kill => self.restart(),
            Step::DieNext => self.dies = true,
            Step::FailNext => self.fails = true,
            Step::Break | Step::Reach => {
                let Some(&recording) = self.open.keys().next() else { return };
                let event = match step {
                    Step::Break => self.ended(recording, RecordingOutcome::Failed("a fault".into())),
                    _ => self.ended(recording, RecordingOutcome::Complete),
                };
                self.event(event);
            }
            Step::Disk(full) => {
                let condition = if *full { DiskCondition::Full } else { DiskCondition::Usable };
                self.event(StationEvent::DiskState { disk: 0, condition, free_bytes: None });
            }
            Step::Load(at, input, spans) => {
                let spans: Vec<_> =
                    spans.iter().map(|(start, seconds)| (i64::from(*start), i64::from(*seconds))).collect();
                self.load(schedule(&name(*at), if *input { "a" } else { "b" }, &spans));
            }
            Step::Remove(at) => {
                self.kept.remove(&name(*at));
                self.ask(StationRequest::RemoveSchedule { name: name(*at) });
            }
            Step::Start(at, input) => {
                // Also under names that scans have.
                let input = if *input { "a".into() } else { "b".into() };
                let start = StartRequest { name: format!("s{at}_0"), input, ..StartRequest::default() };
                self.ask(StationRequest::Start(start));
            }
            Step::Stop(at) => {
                let Some(plan) = self.open.values().nth((*at).into()) else { return };
                self.ask(StationRequest::Stop { name: plan.name.clone(), wait: true });
            }
            Step::Shutdown => {
                self.ask(StationRequest::Shutdown);
                assert!(self.open.is_empty());
                self.restart();
            }
        }
    }

    /// Every scan is recorded, tried, or over; and what became of it was told.
    fn check(&self) {
        for request in self.kept.values() {
            let scans = self.station.schedule(&request.name).expect("it is followed");
            assert_eq!(scans.len(), request.scans.iter().filter(|scan| scan.start < scan.stop).count());
            for status in scans {
                let told = self.told.get(&status.scan.name).copied().unwrap_or(PlannedState::Waiting);
                assert_eq!(told, status.state, "{}", status.scan.name);
            }
        }
    }

    /// Of scans that are due, and nothing in the way, one is being recorded on each input.
    fn check_nothing_is_left_out(&self) {
        for (name, request) in &self.kept {
            let input = usize::from(request.input == "b");
            let is_free = !self.open.values().any(|plan| plan.input == input);
            for status in self.station.schedule(name).unwrap() {
                let is_due = self.now >= status.scan.start - 5 && self.now < status.scan.stop;
                let is_open = status.state == PlannedState::Waiting;
                assert!(!(is_free && is_due && is_open), "at {}: {status:?}", self.now);
            }
        }
    }
}

/// What can happen.
#[derive(Clone, Debug)]
enum Step {
    Pass(u8),
    Set(i8),
    Kill,
    DieNext,
    FailNext,
    Break,
    Reach,
    Disk(bool),
    Load(u8, bool, Vec<(u8, u8)>),
    Remove(u8),
    Start(u8, bool),
    Stop(u8),
    Shutdown,
}

fn step() -> impl Strategy<Value = Step> {
    let spans = prop::collection::vec((0u8..120, 0u8..40), 0..5);
    prop_oneof![
        8 => (1u8..8).prop_map(Step::Pass),
        1 => (-60i8..60).prop_map(Step::Set),
        2 => Just(Step::Kill),
        1 => Just(Step::DieNext),
        1 => Just(Step::FailNext),
        1 => Just(Step::Break),
        3 => Just(Step::Reach),
        1 => any::<bool>().prop_map(Step::Disk),
        4 => (0u8..3, any::<bool>(), spans).prop_map(|(at, input, spans)| Step::Load(at, input, spans)),
        1 => (0u8..3).prop_map(Step::Remove),
        1 => (0u8..3, any::<bool>()).prop_map(|(at, input)| Step::Start(at, input)),
        1 => (0u8..2).prop_map(Step::Stop),
        1 => Just(Step::Shutdown),
    ]
}

proptest! {
    /// Whatever happens, no name is started twice, no two recordings share an input, nothing that is over is begun again (asserted in
    /// [`World::event`]), and no scan is left out silently.
    #[test]
    fn any_world(steps in prop::collection::vec(step(), 0..60)) {
        let mut world = World::new();
        for step in &steps {
            world.step(step);
            world.check();
        }
        // What is in the way goes, and the time to retry passes.
        (world.fails, world.dies) = (false, false);
        world.step(&Step::Disk(false));
        world.pass(6);
        world.check();
        world.check_nothing_is_left_out();
    }
}

fn states(world: &World, name: &str) -> Vec<&'static str> {
    world.station.schedule(name).unwrap().iter().map(|status| status.state.name()).collect()
}

#[test]
fn a_night_with_two_inputs_and_a_crash() {
    let mut world = World::new();
    world.load(schedule("x", "a", &[(10, 20), (40, 20)]));
    world.load(schedule("y", "b", &[(12, 30)]));
    world.pass(8);
    assert_eq!(world.open.values().map(|plan| plan.name.as_str()).collect::<Vec<_>>(), ["x_0", "y_0"]);
    world.now = 20;
    world.restart();
    assert_eq!(
        world.open.values().map(|plan| plan.name.as_str()).collect::<Vec<_>>(),
        ["x_0_rest1", "y_0_rest1"]
    );
    world.pass(60);
    assert_eq!((states(&world, "x"), states(&world, "y")), (vec!["recorded"; 2], vec!["recorded"]));
    let snapshot = world.station.snapshot();
    assert_eq!((snapshot.schedules.len(), &snapshot.schedules[0].next), (2, &None));
    assert_eq!(snapshot.schedules[0].states, BTreeMap::from([(PlannedState::Recorded, 2)]));
}

#[test]
fn what_is_in_the_way_is_told_and_tried_again() {
    let mut world = World::new();
    world.step(&Step::Start(7, true));
    world.load(schedule("x", "a", &[(10, 20), (40, 5)]));
    world.pass(12);
    let status = world.station.schedule("x").unwrap().remove(0);
    assert_eq!((status.state, status.attempts), (PlannedState::Waiting, 0));
    let reason = "input a is recording s7_0; hint: stop s7_0 first, or use another input";
    assert_eq!(status.reason.as_deref(), Some(reason));
    world.step(&Step::Stop(0));
    world.pass(5);
    assert_eq!(states(&world, "x"), ["recording", "waiting"]);
    // An operator ends it: its rest is not recorded. The next one, whose time passes with a full disk, is missed, and told.
    world.step(&Step::Stop(0));
    world.step(&Step::Disk(true));
    world.pass(60);
    assert_eq!(states(&world, "x"), ["stopped", "missed"]);
    assert_eq!(world.told["x_1"], PlannedState::Missed);
    let missed = world.station.schedule("x").unwrap().remove(1);
    assert!(missed.reason.unwrap().starts_with("none of 1 disks can be written to"));
    // Neither is begun by a restart.
    world.restart();
    world.step(&Step::Disk(false));
    assert_eq!(states(&world, "x"), ["stopped", "missed"]);
}

#[test]
fn conflicts_are_refused_with_the_numbers() {
    let mut world = World::new();
    world.load(schedule("x", "a", &[(10, 20), (100, 20)]));
    let mut refused = |request: ScheduleRequest| {
        world.ask(StationRequest::LoadSchedule(Box::new(request)));
        world.refusals.pop().map(|refusal| refusal.to_string()).unwrap_or_default()
    };
    let text = refused(schedule("y", "a", &[(25, 10), (60, 10), (110, 30)]));
    let expected = "schedule y cannot be recorded as scheduled: y_0 overlaps with x_0 by 5 s, y_2 overlaps with x_1 by 10 s";
    assert!(text.starts_with(expected), "{text}");
    assert!(refused(schedule("x", "a", &[])).starts_with("schedule x is loaded already"));
    assert!(refused(schedule("y", "c", &[])).starts_with("no input is named `c`"));
    let named = |name: &str| ScheduleRequest {
        scans: vec![PlannedScan { name: name.into(), start: 60, stop: 70, rate_bits: None }],
        ..schedule("y", "b", &[])
    };
    assert!(refused(named("x_0")).contains("x_0 is also a scan of x"));
    assert!(refused(named("../x")).contains("`../x` cannot name a scan"));
    // Not by force either: nothing is recorded twice under a name.
    assert!(
        refused(ScheduleRequest { accept_conflicts: true, ..named("x_0") }).contains("is also a scan of x")
    );
    let mut slow = config();
    (slow.disks[0].rate_bits, slow.memory_bytes) = (Some(1_000_000_000), 100 * MIB);
    let mut station = Station::new(slow);
    let request = |name: &str, input: &str, spans| {
        let request = StationRequest::LoadSchedule(Box::new(schedule(name, input, spans)));
        StationEvent::Request { id: RequestId(1), request }
    };
    station.handle(UnixMillis(0), request("x", "a", &[(10, 20)]));
    let free_bytes = Some(3_500_000_000);
    station.handle(
        UnixMillis(0),
        StationEvent::DiskState { disk: 0, condition: DiskCondition::Usable, free_bytes },
    );
    let notes = station.conflicts(UnixMillis(0), &schedule("y", "b", &[(20, 20)]));
    let texts: Vec<String> = notes.iter().map(ToString::to_string).collect();
    assert_eq!(
        texts,
        [
            "y_0 needs 1.60 Gb/s with all at its time, the disks have 1.00 Gb/s",
            "y_0 needs 134 MB of memory with all at its time, the station has 105 MB",
            "4.00 GB are scheduled until the end of y_0, 3.50 GB are free",
        ]
    );
    // Space alone is told, and not refused: scans may be removed until then.
    let actions = station.handle(UnixMillis(0), request("y", "b", &[(40, 20)]));
    assert!(actions.iter().any(|action| matches!(action, StationAction::Reply { reply: Ok(None), .. })));
}

#[test]
fn a_scan_without_data_ends_by_the_clock() {
    let mut world = World::new();
    world.load(schedule("x", "a", &[(10, 20)]));
    world.pass(30 + STOP_GRACE_MILLIS / 1000 - 1);
    assert_eq!(states(&world, "x"), ["recording"]);
    world.pass(1);
    assert_eq!(states(&world, "x"), ["recorded"]);
}
