//! Deliveries in a world whose disks survive, and whose program does not.

use super::*;
use crate::observation::delivery::{DayWindow, DeliveryMoment};
use crate::observation::sequencer::{JournalRecord, attempt_name};
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

const DAY: i64 = 86_400;
/// 21:00 on some day.
const BEGIN: i64 = 20_000 * DAY + 21 * 3600;
const NIGHT: DayWindow = DayWindow { from_minute: 22 * 60, to_minute: 60 };

fn config() -> StationConfig {
    let host = |name: &str| DestinationConfig { name: name.into(), ..DestinationConfig::default() };
    StationConfig {
        memory_bytes: 1 << 30,
        inputs: vec![InputConfig { name: "a".into(), memory_bytes: 1 << 26, ..InputConfig::default() }],
        disks: vec![DiskConfig { path: "/d0".into(), rate_bits: None }],
        destinations: vec![host("one"), host("two")],
    }
}

fn rule(destination: &str, after: DeliveryMoment, hours: Option<DayWindow>) -> DeliveryRule {
    let directories = vec!["/data".to_owned()];
    DeliveryRule { destination: destination.into(), directories, after, hours, ..DeliveryRule::default() }
}

/// Scans `x_0`, `x_1`, … that last ten minutes, a quarter of an hour apart; each to both destinations.
fn schedule(scans: i64) -> ScheduleRequest {
    let scan = |at: i64| PlannedScan {
        name: format!("x_{at}"),
        start: BEGIN + 900 * at,
        stop: BEGIN + 900 * at + 600,
        rate_bits: None,
    };
    ScheduleRequest {
        name: "x".into(),
        scans: (0..scans).map(scan).collect(),
        deliveries: vec![
            rule("one", DeliveryMoment::Scan, None),
            rule("two", DeliveryMoment::Session, Some(NIGHT)),
        ],
        replace: true,
        accept_conflicts: true,
        ..ScheduleRequest::default()
    }
}

/// A recording and a destination.
type Way = (String, String);

struct World {
    station: Station,
    now: i64,
    asked: u64,
    // What the disks hold.
    kept: (u64, Vec<QueuedStatus>),
    schedule: Option<ScheduleRequest>,
    journal: Vec<JournalRecord>,
    delivered: Vec<DeliveryRecord>,
    recorded: BTreeSet<String>,
    // What the threads do.
    open: BTreeMap<RecordingId, String>,
    copying: BTreeMap<QueuedId, bool>,
    /// What the thread of deliveries is to do.
    jobs: VecDeque<StationAction>,
    /// Copies of each way that were ever on a disk.
    ever_kept: BTreeMap<Way, BTreeSet<QueuedId>>,
    is_silent: bool,
    fails: bool,
}

impl World {
    fn new(scans: i64) -> Self {
        let mut world = Self {
            station: Station::new(config()),
            now: BEGIN - 60,
            asked: 0,
            kept: (0, Vec::new()),
            schedule: None,
            journal: Vec::new(),
            delivered: Vec::new(),
            recorded: BTreeSet::new(),
            open: BTreeMap::new(),
            copying: BTreeMap::new(),
            jobs: VecDeque::new(),
            ever_kept: BTreeMap::new(),
            is_silent: false,
            fails: false,
        };
        world.load(scans);
        world
    }

    fn load(&mut self, scans: i64) {
        self.schedule = Some(schedule(scans));
        self.load_kept();
    }

    fn load_kept(&mut self) {
        if let Some(request) = self.schedule.clone() {
            let (journal, delivered) = (self.journal.clone(), self.delivered.clone());
            let request = ScheduleRequest { journal, delivered, ..request };
            self.ask(StationRequest::LoadSchedule(Box::new(request)));
        }
    }

    fn ask(&mut self, request: StationRequest) {
        self.asked += 1;
        self.event(StationEvent::Request { id: RequestId(self.asked), request });
    }

    fn event(&mut self, event: StationEvent) {
        let mut events = VecDeque::from([event]);
        while let Some(event) = events.pop_front() {
            for action in self.station.handle(UnixMillis(self.now * 1000), event) {
                match action {
                    StationAction::Open(plan) => {
                        self.journal.extend(plan.scheduled.clone().map(|begun| begun.record));
                        let recording = plan.recording;
                        events.push_back(match std::mem::take(&mut self.fails) {
                            false => {
                                self.recorded.insert(plan.name.clone());
                                self.open.insert(recording, plan.name);
                                StationEvent::Opened { recording }
                            }
                            true => ended(recording, RecordingOutcome::Failed("a fault".into())),
                        });
                    }
                    StationAction::Stop { recording } if self.open.remove(&recording).is_some() => {
                        events.push_back(ended(recording, RecordingOutcome::Complete));
                    }
                    StationAction::Journal(entry) => self.journal.push(entry.record),
                    StationAction::Queued { copy, command: QueuedCommand::Start(request) } => {
                        assert!(
                            request.is_in_hours(UnixMillis(self.now * 1000)),
                            "{request:?} begins at the wrong time"
                        );
                        self.copying.insert(copy, false);
                    }
                    StationAction::Queued { copy, command: QueuedCommand::Stop } => {
                        self.copying.insert(copy, true);
                    }
                    job @ (StationAction::FindRecording(_) | StationAction::NoteDelivery { .. }) => {
                        self.jobs.push_back(job);
                    }
                    _ => {}
                }
            }
        }
        let copies = self.station.queued();
        for (copy, is_told) in &self.copying {
            let Some(status) = copies.iter().find(|one| one.copy == *copy) else { continue };
            let is_in_hours = status.request.is_in_hours(UnixMillis(self.now * 1000));
            assert!(is_in_hours || *is_told, "{status:?} is copied at the wrong time");
        }
    }

    fn keep(&mut self) {
        self.kept = (self.station.last_queued().0, self.station.queued());
        for status in self.kept.1.iter().filter(|status| status.request.schedule.is_some()) {
            let way = (status.request.scan.clone(), status.request.destination.clone());
            let copies = self.ever_kept.entry(way).or_default();
            copies.insert(status.copy);
            assert_eq!(copies.len(), 1, "queued twice: {status:?}");
        }
    }

    /// The thread of deliveries does so many steps of its next job; after each the program may die.
    fn work(&mut self, steps: u8) {
        let Some(job) = self.jobs.front().cloned() else { return };
        match job {
            StationAction::FindRecording(target) => {
                self.jobs.pop_front();
                let part =
                    QueuedPart { directory: "/data".into(), files: 1, bytes: 9, ..QueuedPart::default() };
                let parts = match (self.is_silent, self.recorded.contains(&target.recording)) {
                    (true, _) => Err("/d0 does not respond".to_owned()),
                    (false, is_there) => Ok(is_there.then_some(part).into_iter().collect()),
                };
                self.event(StationEvent::Delivery(DeliveryEvent::Found { target, parts }));
            }
            StationAction::NoteDelivery { record, .. } => {
                let copy = record.copy;
                if self.is_silent {
                    self.jobs.pop_front();
                    let noted = DeliveryEvent::Noted { copy, is_kept: false };
                    return self.event(StationEvent::Delivery(noted));
                }
                self.keep();
                if steps == 0 {
                    return self.restart();
                }
                self.delivered.push(record);
                if steps == 1 {
                    return self.restart();
                }
                self.jobs.pop_front();
                self.event(StationEvent::Delivery(DeliveryEvent::Noted { copy, is_kept: true }));
            }
            _ => unreachable!(),
        }
    }

    /// Kill -9, and what the next run finds.
    fn restart(&mut self) {
        (self.open, self.copying, self.jobs) = Default::default();
        self.station = Station::new(config());
        for name in self.recorded.clone() {
            self.event(StationEvent::ScanFound { name });
        }
        let (last, copies) = self.kept.clone();
        self.ask(StationRequest::Queue(QueueRequest::Restore { last, copies }));
        self.load_kept();
    }

    fn pass(&mut self, seconds: i64) {
        // Where something may be due; the clock is looked at twice a second in the service.
        for _ in 0..seconds / 20 {
            self.now += 20;
            self.event(StationEvent::TimePassed);
        }
    }

    fn step(&mut self, step: &Step) {
        match step {
            Step::Pass(minutes) => self.pass(i64::from(*minutes) * 60),
            Step::Set(minutes) => {
                self.now += i64::from(*minutes) * 60;
                self.event(StationEvent::TimePassed);
            }
            Step::Work(steps) => self.work(*steps),
            Step::Keep => self.keep(),
            Step::Kill => self.restart(),
            Step::FailNext => self.fails = true,
            Step::Silent(is_silent) => self.is_silent = *is_silent,
            Step::Break => {
                if let Some(recording) = self.open.pop_first().map(|(recording, _)| recording) {
                    self.event(ended(recording, RecordingOutcome::Failed("a fault".into())));
                }
            }
            Step::Reload(scans) => self.load(i64::from(*scans)),
            Step::Remove => {
                self.schedule = None;
                self.ask(StationRequest::RemoveSchedule { name: "x".into() });
            }
            Step::Copied => self.copied(),
            Step::ByHand(scan) => {
                let (scan, destination) = (format!("x_{scan}"), "one".to_owned());
                let copies = vec![QueuedRequest { scan, destination, ..QueuedRequest::default() }];
                self.ask(StationRequest::Queue(QueueRequest::Add { copies, spaces: Vec::new() }));
            }
            Step::Forget(copy) => {
                self.ask(StationRequest::Queue(QueueRequest::Cancel(QueuedId((*copy).into()))));
                self.ask(StationRequest::Queue(QueueRequest::Remove(QueuedId((*copy).into()))));
            }
        }
    }

    /// A copy ends: as it was told to, or well.
    fn copied(&mut self) {
        let Some((copy, is_told)) = self.copying.pop_first() else { return };
        let status = self.station.queued().into_iter().find(|one| one.copy == copy);
        let request = status.map(|status| status.request).unwrap_or_default();
        let outcome = match is_told {
            true => QueuedOutcome::Stopped,
            false => QueuedOutcome::Compared { files: request.files(), bytes: request.bytes() },
        };
        self.event(StationEvent::Queued { copy, event: QueuedEvent::Ended(outcome) });
    }

    /// From now on everything goes well, for two days.
    fn settle(&mut self) {
        (self.is_silent, self.fails) = (false, false);
        self.now = self.now.max(BEGIN - 60);
        for _ in 0..2 * DAY / 600 {
            self.now += 600;
            self.event(StationEvent::TimePassed);
            for _ in 0..40 {
                self.work(2);
                self.copied();
            }
        }
        self.keep();
    }

    fn status(&self, scan: &str) -> PlannedStatus {
        let scans = self.station.schedule("x").unwrap();
        scans.into_iter().find(|status| status.scan.name == scan).unwrap()
    }
}

fn ended(recording: RecordingId, outcome: RecordingOutcome) -> StationEvent {
    StationEvent::Ended { recording, outcome, counts: RecordingCounts::default() }
}

#[derive(Clone, Debug)]
enum Step {
    Pass(u8),
    Set(i16),
    Work(u8),
    Keep,
    Kill,
    FailNext,
    Silent(bool),
    Break,
    Reload(u8),
    Remove,
    Copied,
    ByHand(u8),
    Forget(u8),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        6 => (1..30_u8).prop_map(Step::Pass),
        1 => (-2000..2000_i16).prop_map(Step::Set),
        8 => (0..4_u8).prop_map(Step::Work),
        2 => Just(Step::Keep),
        2 => Just(Step::Kill),
        1 => Just(Step::FailNext),
        1 => any::<bool>().prop_map(Step::Silent),
        1 => Just(Step::Break),
        1 => (1..5_u8).prop_map(Step::Reload),
        1 => Just(Step::Remove),
        4 => Just(Step::Copied),
        1 => (0..4_u8).prop_map(Step::ByHand),
        2 => (1..12_u8).prop_map(Step::Forget),
    ]
}

proptest! {
    #[test]
    fn each_recording_is_queued_once_and_copied_in_its_hours(steps in prop::collection::vec(step(), 1..100)) {
        let mut world = World::new(4);
        for step in &steps {
            world.step(step);
        }
        world.load(4);
        world.settle();
        for status in world.station.schedule("x").unwrap() {
            prop_assert!(status.state.is_over(), "{:?}", status);
            let names = (1..=status.attempts).map(|attempt| attempt_name(&status.scan.name, attempt));
            let recordings: Vec<String> = names.filter(|name| world.recorded.contains(name)).collect();
            for delivery in &status.deliveries {
                let way = |name: &String| (name.clone(), delivery.destination.clone());
                for name in &recordings {
                    let copies = world.ever_kept.get(&way(name)).map_or(0, BTreeSet::len);
                    prop_assert_eq!(copies, 1, "{} to {}: {:?}", name, delivery.destination, status);
                }
                let expected = match recordings.is_empty() {
                    true => DeliveryState::NotRecorded,
                    false => DeliveryState::Queued,
                };
                prop_assert_eq!(delivery.state, expected, "{:?}", status);
                prop_assert_eq!(delivery.copies.len(), recordings.len(), "{:?}", status);
                prop_assert_eq!(delivery.reason.is_some(), recordings.is_empty());
            }
        }
        // Nothing else was queued for the schedule, and all of it that was not taken out is there.
        for (name, _) in world.ever_kept.keys() {
            prop_assert!(world.recorded.contains(name));
        }
        for copy in world.station.queued() {
            prop_assert!(copy.state.is_ended() && !copy.is_unnoted, "{:?}", copy);
        }
    }
}

#[test]
fn a_scan_is_queued_when_it_is_over_and_the_others_after_the_session() {
    let mut world = World::new(2);
    world.pass(60 + 600 + 60);
    assert_eq!(world.status("x_0").state, PlannedState::Recorded);
    world.work(2);
    let states = |world: &World, scan: &str| {
        world.status(scan).deliveries.iter().map(|one| one.state).collect::<Vec<_>>()
    };
    use DeliveryState::{NotRecorded, Pending, Queued, Waiting};
    assert_eq!(states(&world, "x_0"), [Queued, Waiting]);
    assert_eq!(states(&world, "x_1"), [Waiting, Waiting]);
    // The second is never recorded: it is named.
    world.now += 2000;
    world.event(StationEvent::TimePassed);
    assert_eq!(states(&world, "x_0"), [Queued, Pending]);
    assert_eq!(states(&world, "x_1"), [NotRecorded, NotRecorded]);
    assert_eq!(world.status("x_1").deliveries[0].reason.as_deref(), Some("it was never begun"));
    let summary = world.station.schedules().remove(0).deliveries;
    assert_eq!(summary[1].states, BTreeMap::from([(Pending, 1), (NotRecorded, 1)]));
    world.work(2);
    world.work(2);
    assert_eq!(states(&world, "x_0"), [Queued, Queued]);
    // To the first it is copied at once, to the second at night.
    assert_eq!(world.copying.keys().collect::<Vec<_>>(), [&QueuedId(1)]);
    let to_ten = 3600 - (world.now - BEGIN);
    world.pass(to_ten + 20);
    assert!(world.copying.contains_key(&QueuedId(2)));
    world.pass(3 * 3600);
    assert!(world.copying[&QueuedId(2)], "at one o'clock it stops");
}

#[test]
fn what_cannot_be_queued_says_why_and_is_tried_again() {
    let mut world = World::new(1);
    world.is_silent = true;
    world.pass(720);
    world.work(2);
    let delivery = |world: &World| world.status("x_0").deliveries[0].clone();
    assert_eq!(delivery(&world).reason.as_deref(), Some("x_0: /d0 does not respond"));
    assert_eq!(delivery(&world).state, DeliveryState::Pending);
    world.is_silent = false;
    world.work(2);
    world.pass(20);
    for _ in 0..4 {
        world.work(2);
    }
    assert_eq!((delivery(&world).state, delivery(&world).reason), (DeliveryState::Queued, None));
    // A client has queued the same: both are copied, one after the other.
    let mut world = World::new(1);
    world.pass(720);
    world.step(&Step::ByHand(0));
    world.work(2);
    let why = delivery(&world).reason.unwrap();
    assert!(why.contains("is queued for one already, as 1"), "{why}");
}

#[test]
fn a_copy_stays_until_its_journal_has_it() {
    let mut world = World::new(1);
    world.pass(720);
    world.work(2);
    assert!(matches!(world.jobs.front(), Some(StationAction::NoteDelivery { .. })));
    world.copied();
    let before = world.station.queued();
    assert!(before[0].state == QueuedState::Done && before[0].is_unnoted);
    world.step(&Step::Forget(1));
    assert_eq!(world.station.queued(), before);
    // It is written down, and the program dies before it knows.
    world.work(1);
    assert_eq!(world.status("x_0").deliveries[0].copies, [QueuedId(1)]);
    while !world.jobs.is_empty() {
        world.work(2);
    }
    assert!(!world.station.queued()[0].is_unnoted);
    world.step(&Step::Forget(1));
    world.keep();
    world.restart();
    // Only the journal has it now.
    assert!(world.station.queued().iter().all(|one| one.copy != QueuedId(1)));
    assert_eq!(world.status("x_0").deliveries[0].state, DeliveryState::Queued);
}

#[test]
fn copies_of_a_higher_priority_begin_first() {
    let mut station = Station::new(config());
    let now = UnixMillis(0);
    let copies = (0..3).map(|at: i8| QueuedRequest {
        scan: format!("s{at}"),
        destination: "one".into(),
        priority: at % 2,
        ..QueuedRequest::default()
    });
    for at in 0..3 {
        station.handle(now, StationEvent::ScanFound { name: format!("s{at}") });
    }
    let add = StationRequest::Queue(QueueRequest::Add { copies: copies.collect(), spaces: Vec::new() });
    let mut actions = station.handle(now, StationEvent::Request { id: RequestId(1), request: add });
    let mut order = Vec::new();
    loop {
        let started = actions.iter().find_map(|action| match action {
            StationAction::Queued { copy, command: QueuedCommand::Start(_) } => Some(*copy),
            _ => None,
        });
        let Some(copy) = started else { break };
        order.push(copy.0);
        let event = QueuedEvent::Ended(QueuedOutcome::Compared { files: 0, bytes: 0 });
        actions = station.handle(now, StationEvent::Queued { copy, event });
    }
    assert_eq!(order, [2, 1, 3]);
}
