use super::*;
use crate::observation::delivery::DayWindow;
use proptest::prelude::*;
use std::collections::BTreeMap;

const MINUTE: i64 = 60_000;
const DAY: i64 = 1440 * MINUTE;

/// Two destinations; nothing is copied to the second from 10:00 to 12:00, nor before 1970-01-02.
fn config() -> StationConfig {
    let hours = DayWindow { from_minute: 600, to_minute: 720 };
    let window = RateWindow { hours, rate_bits: Some(0) };
    let host = |name: &str, rate_bits, windows| DestinationConfig { name: name.into(), rate_bits, windows };
    let input = InputConfig { name: "a".into(), memory_bytes: 1 << 26, ..InputConfig::default() };
    StationConfig {
        memory_bytes: 1 << 30,
        inputs: vec![InputConfig { rate_bits: Some(600_000_000), ..input }],
        disks: vec![DiskConfig { path: "/d0".into(), rate_bits: Some(1_000_000_000) }],
        destinations: vec![host("one", Some(400_000_000), Vec::new()), host("two", None, vec![window])],
    }
}

fn part(bytes: u64) -> QueuedPart {
    QueuedPart { directory: "/data".into(), sources: vec!["/d0/s".into()], files: 2, bytes, file_system: 7 }
}

fn copy_of(scan: &str, destination: &str, bytes: u64) -> QueuedRequest {
    let (scan, destination, parts) = (scan.into(), destination.into(), vec![part(bytes)]);
    QueuedRequest { scan, destination, parts, ..QueuedRequest::default() }
}

/// A station with a queue, what its threads do, and what survives a kill.
struct World {
    station: Station,
    now: UnixMillis,
    asked: u64,
    /// Copies that a thread works on, whether it was told to stop, and its pace.
    running: BTreeMap<QueuedId, (bool, TransferPace)>,
    /// Requests without an answer.
    open: Vec<RequestId>,
    /// What the disks hold: [`StationAction::KeepQueue`].
    kept: (u64, Vec<QueuedStatus>),
    /// Copies that a thread proved.
    proven: Vec<QueuedId>,
    /// Copies that were accepted and not removed.
    accepted: BTreeMap<QueuedId, String>,
    starts: u64,
}

impl World {
    fn new() -> Self {
        let mut world = Self {
            station: Station::new(config()),
            now: UnixMillis(DAY),
            asked: 0,
            running: BTreeMap::new(),
            open: Vec::new(),
            kept: (0, Vec::new()),
            proven: Vec::new(),
            accepted: BTreeMap::new(),
            starts: 0,
        };
        world.find_scans();
        world
    }

    fn find_scans(&mut self) {
        for scan in 0..6 {
            self.event(StationEvent::ScanFound { name: format!("s{scan}") });
        }
    }

    fn event(&mut self, event: StationEvent) -> Vec<StationAction> {
        let actions = self.station.handle(self.now, event);
        for action in &actions {
            match action {
                StationAction::Queued { copy, command: QueuedCommand::Start(request) } => {
                    let is_new = self.running.insert(*copy, (false, TransferPace::Free)).is_none();
                    assert!(is_new, "{copy:?} was started twice");
                    self.starts += 1;
                    let same = self.running.keys().filter(|other| {
                        let all = self.station.queued();
                        let other = all.iter().find(|one| one.copy == **other).unwrap();
                        other.request.destination == request.destination
                    });
                    assert_eq!(same.count(), 1, "two to one destination");
                    assert!(self.running.len() <= MAX_RUNNING_COPIES);
                    assert!(
                        request.destination != "two" || !(600..720).contains(&(self.now.0 % DAY / MINUTE))
                    );
                }
                StationAction::Queued { copy, command: QueuedCommand::Stop } => {
                    let thread = self.running.get_mut(copy).expect("what does not run is not stopped");
                    assert!(!std::mem::replace(&mut thread.0, true), "it is stopped once");
                }
                StationAction::Queued { copy, command: QueuedCommand::Pace(pace) } => {
                    self.running.get_mut(copy).expect("only what runs has a pace").1 = *pace;
                }
                StationAction::KeepQueue => {
                    self.kept = (self.station.last_queued().0, self.station.queued());
                }
                StationAction::Reply { id, .. } => {
                    let before = self.open.len();
                    self.open.retain(|open| open != id);
                    assert_eq!(self.open.len() + 1, before, "{id:?} is answered once");
                }
                _ => {}
            }
        }
        self.check();
        actions
    }

    fn ask(&mut self, request: QueueRequest) -> Option<Result<(), StationRefusal>> {
        self.asked += 1;
        let id = RequestId(self.asked);
        self.open.push(id);
        let actions = self.event(StationEvent::Request { id, request: StationRequest::Queue(request) });
        actions.into_iter().find_map(|action| match action {
            StationAction::Reply { id: of, reply } if of == id => Some(reply.map(drop)),
            _ => None,
        })
    }

    fn add(
        &mut self,
        scan: &str,
        destination: &str,
        bytes: u64,
        free: u64,
    ) -> Result<QueuedId, StationRefusal> {
        let spaces = vec![FreeSpace { file_system: 7, free_bytes: free }];
        let copies = vec![copy_of(scan, destination, bytes)];
        self.ask(QueueRequest::Add { copies, spaces }).expect("answered at once")?;
        let copy = self.station.last_queued();
        self.accepted.insert(copy, scan.into());
        Ok(copy)
    }

    fn ended(&mut self, copy: QueuedId, outcome: QueuedOutcome) {
        if let QueuedOutcome::Compared { files: 2, bytes: 1000 } = outcome {
            self.proven.push(copy);
        }
        self.running.remove(&copy);
        self.event(StationEvent::Queued { copy, event: QueuedEvent::Ended(outcome) });
    }

    fn status(&self, copy: QueuedId) -> QueuedStatus {
        self.station.queued().into_iter().find(|one| one.copy == copy).unwrap()
    }

    /// What holds at any time.
    fn check(&self) {
        let all = self.station.queued();
        let ids: Vec<QueuedId> = all.iter().map(|one| one.copy).collect();
        assert!(self.accepted.keys().all(|copy| ids.contains(copy)), "a copy is lost");
        for one in &all {
            // Before the actions of this very event are counted, a thread may be one ahead.
            if one.state == QueuedState::Done {
                assert!(self.proven.contains(&one.copy), "{one:?} is done without proof");
            }
            if one.state == QueuedState::BackingOff {
                let wait = one.due_at.0 - self.now.0;
                assert!(wait <= MAX_RETRY_MILLIS, "{one:?} waits too long");
            }
            assert!(one.state != QueuedState::Failed || one.reason.is_some(), "{one:?}");
        }
    }

    /// Kill -9, and what the next run finds.
    fn restart(&mut self) {
        let (last, copies) = self.kept.clone();
        self.running.clear();
        self.open.clear();
        self.station = Station::new(config());
        let accepted = std::mem::take(&mut self.accepted);
        self.find_scans();
        self.ask(QueueRequest::Restore { last, copies }).unwrap().unwrap();
        self.accepted = accepted;
        self.check();
    }
}

/// So much is confirmed, and so much more has arrived.
fn progress(bytes: u64, unconfirmed_bytes: u64) -> QueuedEvent {
    let arrived_bytes = bytes + unconfirmed_bytes;
    QueuedEvent::Progress { there_bytes: bytes, unconfirmed_bytes, arrived_bytes, moved_bytes: bytes }
}

#[derive(Clone, Debug)]
enum Step {
    Add(usize, bool),
    Cancel(usize),
    Retry(usize),
    Remove(usize),
    Moved(usize, u64),
    Compared(usize),
    Proof(usize),
    TooLittle(usize),
    Broken(usize, bool),
    Stopped,
    Time(i64),
    Restart,
}

fn step() -> impl Strategy<Value = Step> {
    let nth = || 0..8_usize;
    prop_oneof![
        4 => (0..6_usize, any::<bool>()).prop_map(|(scan, second)| Step::Add(scan, second)),
        1 => nth().prop_map(Step::Cancel),
        1 => nth().prop_map(Step::Retry),
        1 => nth().prop_map(Step::Remove),
        3 => (nth(), 0..900_u64).prop_map(|(nth, bytes)| Step::Moved(nth, bytes)),
        1 => nth().prop_map(Step::Compared),
        2 => nth().prop_map(Step::Proof),
        1 => nth().prop_map(Step::TooLittle),
        3 => (nth(), any::<bool>()).prop_map(|(nth, last)| Step::Broken(nth, last)),
        3 => Just(Step::Stopped),
        4 => (0..20_000_000_i64).prop_map(Step::Time),
        1 => Just(Step::Restart),
    ]
}

fn take(world: &mut World, step: &Step) {
    let all: Vec<QueuedId> = world.station.queued().iter().map(|one| one.copy).collect();
    let any = |nth: usize| all.get(nth % all.len().max(1)).copied();
    let threads: Vec<QueuedId> = world.running.keys().copied().collect();
    let thread = |nth: usize| threads.get(nth % threads.len().max(1)).copied();
    let told = |event| move |copy| StationEvent::Queued { copy, event };
    match step {
        Step::Add(scan, second) => {
            let _ = world.add(&format!("s{scan}"), if *second { "two" } else { "one" }, 1000, 100_000);
        }
        Step::Cancel(nth) => drop(any(*nth).map(|copy| world.ask(QueueRequest::Cancel(copy)))),
        Step::Retry(nth) => drop(any(*nth).map(|copy| world.ask(QueueRequest::Retry(copy)))),
        Step::Remove(nth) => {
            if let Some(copy) = any(*nth) {
                // The check within would miss it.
                let was = world.accepted.remove(&copy);
                if world.ask(QueueRequest::Remove(copy)).unwrap().is_err()
                    && let Some(was) = was
                {
                    world.accepted.insert(copy, was);
                }
            }
        }
        Step::Moved(nth, bytes) => {
            let event = progress(*bytes, 0);
            drop(thread(*nth).map(told(event)).map(|event| world.event(event)));
        }
        Step::Compared(nth) => {
            drop(thread(*nth).map(told(QueuedEvent::Comparing)).map(|event| world.event(event)));
        }
        Step::Proof(nth) => {
            if let Some(copy) = thread(*nth) {
                world.ended(copy, QueuedOutcome::Compared { files: 2, bytes: 1000 });
            }
        }
        Step::TooLittle(nth) => {
            if let Some(copy) = thread(*nth) {
                world.ended(copy, QueuedOutcome::Compared { files: 1, bytes: 1000 });
            }
        }
        Step::Broken(nth, is_final) => {
            let outcome = QueuedOutcome::Failed { reason: "reset".into(), is_final: *is_final };
            if let Some(copy) = thread(*nth) {
                world.ended(copy, outcome);
            }
        }
        Step::Stopped => {
            let stopped = world.running.iter().find(|(_, (is_stopping, _))| *is_stopping);
            if let Some(copy) = stopped.map(|(copy, _)| *copy) {
                world.ended(copy, QueuedOutcome::Stopped);
            }
        }
        Step::Time(millis) => {
            world.now.0 += millis;
            world.event(StationEvent::TimePassed);
        }
        Step::Restart => world.restart(),
    }
}

proptest! {
    #[test]
    fn no_copy_is_lost_or_done_without_proof_or_started_twice(steps in prop::collection::vec(step(), 1..120)) {
        let mut world = World::new();
        for step in &steps {
            take(&mut world, step);
        }
        // From now on everything goes well: what has not ended is done, and every request is answered.
        let open: Vec<_> = world.station.queued().into_iter().filter(|one| !one.state.is_ended()).collect();
        for _ in 0..200 {
            for (copy, (is_stopping, _)) in world.running.clone() {
                let proof = QueuedOutcome::Compared { files: 2, bytes: 1000 };
                world.ended(copy, if is_stopping { QueuedOutcome::Stopped } else { proof });
            }
            world.now.0 += 30 * MINUTE;
            world.event(StationEvent::TimePassed);
        }
        for one in open {
            let state = world.status(one.copy).state;
            let expected = if one.is_stopping { QueuedState::Cancelled } else { QueuedState::Done };
            prop_assert!(state == expected || state == QueuedState::Done, "{:?} is {:?}", one, state);
        }
        prop_assert!(world.open.is_empty(), "without an answer: {:?}", world.open);
    }
}

#[test]
fn what_cannot_be_is_refused_with_the_numbers() {
    let mut world = World::new();
    let first = world.add("s0", "one", 600, 1000).unwrap();
    let text = |refusal: StationRefusal| (refusal.code(), refusal.to_string());
    let (code, said) = text(world.add("s1", "one", 600, 1000).unwrap_err());
    assert_eq!(code, "no_destination_space");
    assert!(said.contains("600 B requested, 600 B of 1.00 kB free"), "{said}");
    // What is there already needs no space any more: half of it, and the free space is less by as much.
    let event = progress(200, 100);
    world.event(StationEvent::Queued { copy: first, event });
    assert!(world.add("s1", "one", 401, 700).is_err());
    world.add("s1", "one", 400, 700).unwrap();
    assert_eq!(text(world.add("s0", "one", 1, 1000).unwrap_err()).0, "already_queued");
    assert_eq!(text(world.add("s0", "three", 1, 1000).unwrap_err()).0, "no_destination");
    assert_eq!(text(world.add("s9", "one", 1, 1000).unwrap_err()).0, "no_scan");
    let start = StartRequest { name: "s8".into(), ..StartRequest::default() };
    world.open.push(RequestId(900));
    let actions =
        world.event(StationEvent::Request { id: RequestId(900), request: StationRequest::Start(start) });
    let open = actions.iter().find_map(|action| match action {
        StationAction::Open(plan) => Some(plan.recording),
        _ => None,
    });
    world.event(StationEvent::Opened { recording: open.unwrap() });
    assert_eq!(text(world.add("s8", "one", 1, 1000).unwrap_err()).0, "scan_recorded");
    assert_eq!(world.station.queued().len(), 2);
}

#[test]
fn attempts_come_later_and_later_and_end() {
    let mut world = World::new();
    let copy = world.add("s0", "one", 1000, 1000).unwrap();
    let broken = || QueuedOutcome::Failed { reason: "no route to host".into(), is_final: false };
    let begun = world.now;
    let (mut waits, mut starts) = (Vec::new(), world.starts);
    while world.status(copy).state != QueuedState::Failed {
        assert!(world.running.contains_key(&copy));
        world.ended(copy, broken());
        let status = world.status(copy);
        if status.state == QueuedState::BackingOff {
            waits.push(status.due_at.0 - world.now.0);
            // Not a millisecond before it is due.
            world.now.0 = status.due_at.0 - 1;
            world.event(StationEvent::TimePassed);
            assert_eq!(world.starts, starts);
            world.now = status.due_at;
            world.event(StationEvent::TimePassed);
            starts += 1;
            assert_eq!(world.starts, starts);
        }
    }
    assert_eq!(waits[..3], [FIRST_RETRY_MILLIS, 2 * FIRST_RETRY_MILLIS, 4 * FIRST_RETRY_MILLIS]);
    assert!(waits.is_sorted() && waits.last() == Some(&MAX_RETRY_MILLIS), "{waits:?}");
    let took = world.now.0 - begun.0;
    assert!((GIVE_UP_MILLIS..GIVE_UP_MILLIS + MAX_RETRY_MILLIS).contains(&took), "{took}");
    assert_eq!(world.status(copy).reason.as_deref(), Some("no route to host"));
    // A client may try again; one that moves a byte begins to count anew.
    world.ask(QueueRequest::Retry(copy)).unwrap().unwrap();
    let event = progress(1, 0);
    world.event(StationEvent::Queued { copy, event });
    world.ended(copy, broken());
    let status = world.status(copy);
    assert_eq!((status.state, status.failures), (QueuedState::BackingOff, 1));
}

#[test]
fn recordings_come_first() {
    let mut world = World::new();
    let one = world.add("s0", "one", 1000, 10_000).unwrap();
    let two = world.add("s1", "two", 1000, 10_000).unwrap();
    let pace = |world: &World, copy| world.running[&copy].1;
    assert_eq!(pace(&world, one), TransferPace::Limited(400_000_000));
    assert_eq!(pace(&world, two), TransferPace::Free);
    // Of 1 Gb/s, 600 Mb/s are recorded; the rest is shared.
    let start = StartRequest { name: "s8".into(), ..StartRequest::default() };
    world.open.push(RequestId(900));
    let actions =
        world.event(StationEvent::Request { id: RequestId(900), request: StationRequest::Start(start) });
    let recording = actions.iter().find_map(|action| match action {
        StationAction::Open(plan) => Some(plan.recording),
        _ => None,
    });
    let recording = recording.unwrap();
    world.event(StationEvent::Opened { recording });
    assert_eq!(pace(&world, one), TransferPace::Limited(200_000_000));
    assert_eq!(pace(&world, two), TransferPace::Limited(200_000_000));
    // Half of its memory waits for a disk.
    let counts = RecordingCounts { received_bytes: 1 << 26, ..RecordingCounts::default() };
    world.event(StationEvent::Progress { recording, counts });
    assert_eq!((pace(&world, one), pace(&world, two)), (TransferPace::Paused, TransferPace::Paused));
    let counts = RecordingCounts { written_bytes: 1 << 26, ..counts };
    world.event(StationEvent::Progress { recording, counts });
    assert_eq!(pace(&world, one), TransferPace::Limited(200_000_000));
}

#[test]
fn hours_without_copies_hold_them_and_a_time_is_waited_for() {
    let mut world = World::new();
    let two = world.add("s1", "two", 1000, 10_000).unwrap();
    assert!(world.running.contains_key(&two));
    world.now.0 += 10 * 60 * MINUTE;
    world.event(StationEvent::TimePassed);
    assert!(world.running[&two].0, "it is stopped at 10:00");
    world.ended(two, QueuedOutcome::Stopped);
    assert_eq!(world.status(two).state, QueuedState::Waiting);
    world.now.0 += 2 * 60 * MINUTE;
    world.event(StationEvent::TimePassed);
    assert!(world.running.contains_key(&two), "and goes on at 12:00");
    let mut request = copy_of("s2", "one", 1000);
    request.not_before = next_minute_of_day(world.now, 22 * 60);
    world.ask(QueueRequest::Add { copies: vec![request], spaces: Vec::new() }).unwrap().unwrap();
    let late = world.station.last_queued();
    assert_eq!(world.status(late).state, QueuedState::Waiting);
    world.now.0 += 10 * 60 * MINUTE;
    world.event(StationEvent::TimePassed);
    assert!(world.running.contains_key(&late));
}

#[test]
fn a_service_that_ends_stops_copies_and_goes_on_after_it() {
    let mut world = World::new();
    let copy = world.add("s0", "one", 1000, 1000).unwrap();
    world.open.push(RequestId(900));
    world.event(StationEvent::Request { id: RequestId(900), request: StationRequest::Shutdown });
    assert!(world.running[&copy].0 && world.open == [RequestId(900)], "it waits for the thread");
    world.ended(copy, QueuedOutcome::Stopped);
    assert!(world.open.is_empty() && world.running.is_empty());
    assert_eq!(world.status(copy).state, QueuedState::Waiting);
    world.restart();
    assert!(world.running.contains_key(&copy));
}

/// What only arrives shows in the rate and as unconfirmed, and neither as there nor as a byte moved.
#[test]
fn what_arrives_is_not_yet_there() {
    let mut world = World::new();
    let copy = world.add("s0", "one", 600, 1000).unwrap();
    let tell = |world: &mut World, event| drop(world.event(StationEvent::Queued { copy, event }));
    for second in 1..=3 {
        world.now.0 += 1000;
        tell(&mut world, progress(0, second * 100));
        let status = world.status(copy);
        assert_eq!((status.there_bytes, status.unconfirmed_bytes, status.rate_bits), (0, second * 100, 800));
    }
    let failures = |world: &mut World, moved: bool| {
        if moved {
            tell(world, progress(100, 200));
        }
        world.ended(copy, QueuedOutcome::Failed { reason: "nothing moved for 60 s".into(), is_final: false });
        let status = world.status(copy);
        assert_eq!((status.state, status.unconfirmed_bytes), (QueuedState::BackingOff, 0));
        let due = status.due_at.0 - world.now.0;
        world.now = status.due_at;
        world.event(StationEvent::TimePassed);
        assert_eq!(world.status(copy).state, QueuedState::Running);
        (status.failures, due)
    };
    assert_eq!(failures(&mut world, false), (1, 5_000));
    tell(&mut world, progress(0, 300));
    assert_eq!(
        failures(&mut world, false),
        (2, 10_000),
        "what a host with a disk that hangs takes is no progress"
    );
    assert_eq!(failures(&mut world, true), (1, 5_000));
}

/// A digest of files is that of the attempt which proved all of them, and of no other.
#[test]
fn files_that_did_not_change_are_those_of_the_attempt_that_proved_all() {
    let mut world = World::new();
    let tell = |world: &mut World, copy, event| drop(world.event(StationEvent::Queued { copy, event }));
    let unchanged = |text: &str| QueuedEvent::Unchanged { fingerprint: text.into() };
    let of = |world: &World, copy| world.status(copy).fingerprint;
    let copy = world.add("s0", "one", 1000, 10_000).unwrap();
    tell(&mut world, copy, unchanged("of this attempt"));
    world.ended(copy, QueuedOutcome::Compared { files: 1, bytes: 1000 });
    assert_eq!((world.status(copy).state, of(&world, copy)), (QueuedState::Failed, None));
    world.ask(QueueRequest::Retry(copy));
    tell(&mut world, copy, unchanged("of the next"));
    world.ended(copy, QueuedOutcome::Failed { reason: "reset".into(), is_final: false });
    assert_eq!(of(&world, copy), None);
    // After a kill, too.
    world.ask(QueueRequest::Retry(copy));
    tell(&mut world, copy, unchanged("of one that was killed"));
    world.kept = (world.station.last_queued().0, world.station.queued());
    world.restart();
    world.ended(copy, QueuedOutcome::Compared { files: 2, bytes: 1000 });
    assert_eq!((world.status(copy).state, of(&world, copy)), (QueuedState::Done, None));
    let other = world.add("s1", "one", 1000, 10_000).unwrap();
    tell(&mut world, other, unchanged("ab12"));
    world.ended(other, QueuedOutcome::Compared { files: 2, bytes: 1000 });
    // What comes late is not believed.
    tell(&mut world, copy, unchanged("late"));
    tell(&mut world, other, unchanged("late"));
    world.restart();
    assert_eq!((of(&world, copy), of(&world, other).as_deref()), (None, Some("ab12")));
}
