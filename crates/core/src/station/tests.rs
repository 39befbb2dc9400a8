use super::*;
use proptest::prelude::*;

const MIB: u64 = 1 << 20;

fn config() -> StationConfig {
    let input = |name: &str, rate_bits| InputConfig {
        name: name.into(),
        memory_bytes: 64 * MIB,
        rate_bits,
        ..InputConfig::default()
    };
    let disk = |path: &str| DiskConfig { path: path.into(), rate_bits: Some(1_000_000_000) };
    StationConfig {
        memory_bytes: 160 * MIB,
        inputs: vec![input("a", Some(800_000_000)), input("b", Some(800_000_000)), input("c", None)],
        disks: vec![disk("/d0"), disk("/d1")],
        ..StationConfig::default()
    }
}

fn request(id: u64, request: StationRequest) -> StationEvent {
    StationEvent::Request { id: RequestId(id), request }
}

fn start(name: &str, input: &str) -> StationRequest {
    StationRequest::Start(StartRequest { name: name.into(), input: input.into(), ..StartRequest::default() })
}

fn stop(name: &str, wait: bool) -> StationRequest {
    StationRequest::Stop { name: name.into(), wait }
}

/// A station with a client: what it opens, stops and replies.
struct Driven {
    station: Station,
    now: UnixMillis,
    id: u64,
}

impl Driven {
    fn new() -> Self {
        Self { station: Station::new(config()), now: UnixMillis(0), id: 0 }
    }

    fn event(&mut self, event: StationEvent) -> Vec<StationAction> {
        self.station.handle(self.now, event)
    }

    fn ask(&mut self, request: StationRequest) -> Vec<StationAction> {
        self.id += 1;
        let id = RequestId(self.id);
        self.event(StationEvent::Request { id, request })
    }

    fn recorded(&mut self, name: &str, input: &str) -> RecordingId {
        let recording = plan(&self.ask(start(name, input))).recording;
        let actions = self.event(StationEvent::Opened { recording });
        assert_eq!(reply(&actions).unwrap().unwrap().state, RecordingState::Recording);
        recording
    }

    fn ended(&mut self, recording: RecordingId) -> Vec<StationAction> {
        let counts = RecordingCounts::default();
        self.event(StationEvent::Ended { recording, outcome: RecordingOutcome::Complete, counts })
    }
}

fn plan(actions: &[StationAction]) -> RecordingPlan {
    let plan = actions.iter().find_map(|action| match action {
        StationAction::Open(plan) => Some(plan.clone()),
        _ => None,
    });
    plan.unwrap()
}

fn reply(actions: &[StationAction]) -> Result<Option<RecordingStatus>, StationRefusal> {
    let mut replies = actions.iter().filter_map(|action| match action {
        StationAction::Reply { reply, .. } => Some(reply.clone()),
        _ => None,
    });
    let first = replies.next().unwrap();
    assert!(replies.next().is_none());
    first
}

#[test]
fn a_start_is_answered_when_everything_is_open() {
    let mut driven = Driven::new();
    let actions = driven.ask(start("s1", "a"));
    assert!(!actions.iter().any(|action| matches!(action, StationAction::Reply { .. })));
    let recording = plan(&actions).recording;
    driven.now = UnixMillis(7);
    let status = reply(&driven.event(StationEvent::Opened { recording })).unwrap().unwrap();
    assert_eq!((status.state, status.started_at), (RecordingState::Recording, Some(UnixMillis(7))));
    // A second report changes nothing.
    assert_eq!(driven.event(StationEvent::Opened { recording }), []);
}

#[test]
fn a_recorder_that_cannot_begin_frees_its_name_and_memory() {
    let mut driven = Driven::new();
    let recording = plan(&driven.ask(start("s1", "a"))).recording;
    let outcome = RecordingOutcome::Failed("port taken".into());
    let counts = RecordingCounts::default();
    let refused = reply(&driven.event(StationEvent::Ended { recording, outcome, counts })).unwrap_err();
    assert_eq!(refused.to_string(), "s1 cannot be recorded: port taken");
    assert_eq!(driven.station.snapshot().reserved, Reserved::default());
    driven.recorded("s1", "a");
}

#[test]
fn what_cannot_be_met_is_refused_with_the_numbers() {
    let mut driven = Driven::new();
    driven.recorded("s1", "a");
    let refused = |driven: &mut Driven, request| reply(&driven.ask(request)).unwrap_err();
    let busy = refused(&mut driven, start("s2", "a"));
    assert_eq!(busy.to_string(), "input a is recording s1; hint: stop s1 first, or use another input");
    assert_eq!(refused(&mut driven, start("s1", "b")).code(), "name_taken");
    assert_eq!(refused(&mut driven, start("../s1", "b")).code(), "bad_name");
    assert_eq!(refused(&mut driven, start("s2", "z")).code(), "no_input");
    assert_eq!(refused(&mut driven, stop("s2", false)).code(), "no_recording");
    let more = StartRequest {
        name: "s2".into(),
        input: "b".into(),
        memory_bytes: Some(97 * MIB),
        ..StartRequest::default()
    };
    let memory = refused(&mut driven, StationRequest::Start(more.clone()));
    let (wanted, reserved, total) = (97 * MIB, 64 * MIB, 160 * MIB);
    assert_eq!(memory, StationRefusal::NoMemory { wanted, reserved, total });
    assert!(
        memory
            .to_string()
            .starts_with("not enough memory: 102 MB requested, 67.1 MB of 168 MB reserved; hint: ")
    );
    let past = StartRequest { stop: Some(0), ..more.clone() };
    assert_eq!(refused(&mut driven, StationRequest::Start(past)).code(), "stop_is_past");
    // One disk alone is too slow for both.
    let failed = DiskCondition::Failed;
    driven.event(StationEvent::DiskState { disk: 0, condition: failed, free_bytes: None });
    let slow = refused(&mut driven, start("s2", "b"));
    let (wanted, total) = (800_000_000, 1_000_000_000);
    assert_eq!(slow, StationRefusal::NoRate { wanted, reserved: wanted, total });
    driven.event(StationEvent::DiskState { disk: 1, condition: DiskCondition::Full, free_bytes: None });
    assert_eq!(refused(&mut driven, start("s2", "c")).code(), "no_disk");
}

#[test]
fn space_is_reserved_until_the_stop_and_given_back_as_it_is_filled() {
    let mut driven = Driven::new();
    for disk in 0..2 {
        let free_bytes = Some(600_000_000);
        driven.event(StationEvent::DiskState { disk, condition: DiskCondition::Usable, free_bytes });
    }
    let until = |name: &str, input: &str, stop| {
        let (name, input) = (name.into(), input.into());
        StationRequest::Start(StartRequest { name, input, stop: Some(stop), ..StartRequest::default() })
    };
    // 100 MB a second.
    let recording = plan(&driven.ask(until("s1", "a", 10))).recording;
    driven.event(StationEvent::Opened { recording });
    let refused = reply(&driven.ask(until("s2", "b", 3))).unwrap_err();
    let (wanted, reserved, free) = (300_000_000, 1_000_000_000, 1_200_000_000);
    assert_eq!(refused, StationRefusal::NoSpace { wanted, reserved, free });
    let counts = RecordingCounts { written_bytes: 900_000_000, ..RecordingCounts::default() };
    driven.event(StationEvent::Progress { recording, counts });
    assert_eq!(driven.station.snapshot().reserved.space_bytes, 100_000_000);
    plan(&driven.ask(until("s2", "b", 3)));
}

#[test]
fn a_recording_is_ended_by_the_clock_if_its_data_do_not_end_it() {
    let mut driven = Driven::new();
    let named = StartRequest { name: "s1".into(), stop: Some(10), ..StartRequest::default() };
    let recording = plan(&driven.ask(StationRequest::Start(named))).recording;
    driven.event(StationEvent::Opened { recording });
    assert_eq!(driven.station.next_deadline(), Some(UnixMillis(12_000)));
    driven.now = UnixMillis(11_999);
    assert_eq!(driven.event(StationEvent::TimePassed), []);
    driven.now = UnixMillis(12_000);
    assert_eq!(driven.event(StationEvent::TimePassed)[0], StationAction::Stop { recording });
    assert_eq!(driven.station.next_deadline(), None);
}

#[test]
fn a_shutdown_is_answered_when_all_have_ended() {
    let mut driven = Driven::new();
    let (a, b) = (driven.recorded("s1", "a"), driven.recorded("s2", "b"));
    let actions = driven.ask(StationRequest::Shutdown);
    let stopped = |recording| actions.contains(&StationAction::Stop { recording });
    assert!(stopped(a) && stopped(b));
    assert_eq!(reply(&driven.ask(start("s3", "c"))).unwrap_err(), StationRefusal::ShuttingDown);
    assert!(!driven.ended(a).iter().any(|action| matches!(action, StationAction::Reply { .. })));
    assert_eq!(reply(&driven.ended(b)), Ok(None));
}

#[test]
fn a_stop_waits_only_if_asked() {
    let mut driven = Driven::new();
    let recording = driven.recorded("s1", "a");
    assert!(!driven.ask(stop("s1", true)).iter().any(|action| matches!(action, StationAction::Reply { .. })));
    assert_eq!(reply(&driven.ask(stop("s1", false))).unwrap().unwrap().state, RecordingState::Stopping);
    let waited = reply(&driven.ended(recording)).unwrap().unwrap();
    assert_eq!((waited.state, waited.outcome), (RecordingState::Ended, Some(RecordingOutcome::Complete)));
    // What has ended stays ended.
    assert_eq!(reply(&driven.ask(stop("s1", true))).unwrap().unwrap().state, RecordingState::Ended);
}

fn commands(actions: &[StationAction]) -> Vec<TransferCommand> {
    let of = |action: &StationAction| match action {
        StationAction::Transfer { command, .. } => Some(command.clone()),
        _ => None,
    };
    actions.iter().filter_map(of).collect()
}

impl Driven {
    /// A transfer of a scan, connected, and told to send all of it.
    fn sends(&mut self, scan: &str) -> TransferId {
        let request = TransferRequest {
            scan: scan.into(),
            host: "jive".into(),
            port: 2630,
            ..TransferRequest::default()
        };
        let actions = self.ask(StationRequest::Connect(request.clone()));
        let transfer = TransferId(self.id);
        assert_eq!(commands(&actions)[0], TransferCommand::Open(TransferPlan { transfer, request }));
        assert_eq!(reply(&actions), Ok(None));
        self.event(StationEvent::Transfer { transfer, event: TransferEvent::Connected { size_bytes: 100 } });
        let actions = self.ask(StationRequest::Send { transfer, from: 0, to: 100 });
        assert_eq!(commands(&actions)[0], TransferCommand::Send(0, 100));
        transfer
    }

    /// A recording's counts: bytes that wait in memory. Returns what transfers are told.
    fn waits(&mut self, recording: RecordingId, bytes: u64) -> Vec<TransferCommand> {
        let counts = RecordingCounts { received_bytes: bytes, ..RecordingCounts::default() };
        commands(&self.event(StationEvent::Progress { recording, counts }))
    }
}

#[test]
fn a_recording_has_the_first_right_to_the_disks() {
    let mut driven = Driven::new();
    for name in ["x", "y"] {
        driven.event(StationEvent::ScanFound { name: name.into() });
    }
    let first = driven.sends("x");
    let pace =
        |driven: &Driven| driven.station.snapshot().transfers.iter().map(|of| of.pace).collect::<Vec<_>>();
    assert_eq!(pace(&driven), [TransferPace::Free]);
    // Two disks of 1 Gb/s, 800 Mb/s of which are reserved by a recording.
    let recording = driven.recorded("s1", "a");
    assert_eq!(pace(&driven), [TransferPace::Limited(1_200_000_000)]);
    driven.sends("y");
    assert_eq!(pace(&driven), [TransferPace::Limited(600_000_000); 2]);
    // Its memory of 64 MiB is half full; they continue when it is less than a quarter full.
    assert_eq!(driven.waits(recording, 32 * MIB), []);
    assert_eq!(driven.waits(recording, 33 * MIB), vec![TransferCommand::Pace(TransferPace::Paused); 2]);
    assert_eq!(driven.waits(recording, 17 * MIB), []);
    let limited = TransferCommand::Pace(TransferPace::Limited(600_000_000));
    assert_eq!(driven.waits(recording, 16 * MIB), [limited.clone(), limited]);
    driven.ended(recording);
    assert_eq!(pace(&driven), [TransferPace::Free; 2]);
    // A second of 1 MB: 8 Mb/s.
    driven.now = UnixMillis(1000);
    let counts = TransferCounts { sent_bytes: 1_000_000, ..TransferCounts::default() };
    driven.event(StationEvent::Transfer { transfer: first, event: TransferEvent::Progress(counts) });
    assert_eq!(driven.station.snapshot().transfers[0].rate_bits, 8_000_000);
}

#[test]
fn chunks_are_sent_without_being_asked_for() {
    let mut driven = Driven::new();
    driven.event(StationEvent::ScanFound { name: "x".into() });
    let request = TransferRequest {
        scan: "x".into(),
        form: TransferForm::Chunks,
        host: "jive".into(),
        port: 2630,
        ..TransferRequest::default()
    };
    driven.ask(StationRequest::Connect(request));
    let transfer = TransferId(driven.id);
    driven.event(StationEvent::Transfer { transfer, event: TransferEvent::Connected { size_bytes: 100 } });
    let status = driven.station.snapshot().transfers[0].clone();
    assert_eq!((status.state, status.range, status.size_bytes), (TransferState::Sending, (0, 100), 100));
    // So it does not end for want of a range, either.
    assert_eq!(driven.station.next_deadline(), None);
}

#[test]
fn what_a_transfer_cannot_do_is_refused() {
    let mut driven = Driven::new();
    driven.event(StationEvent::ScanFound { name: "x".into() });
    let connect = |scan: &str| {
        StationRequest::Connect(TransferRequest {
            scan: scan.into(),
            host: "jive".into(),
            port: 2630,
            ..TransferRequest::default()
        })
    };
    let refused = |driven: &mut Driven, request| reply(&driven.ask(request)).unwrap_err().code();
    assert_eq!(refused(&mut driven, connect("z")), "no_scan");
    reply(&driven.ask(connect("x"))).unwrap();
    let transfer = TransferId(driven.id);
    let send = |to| StationRequest::Send { transfer, from: 1, to };
    assert_eq!(refused(&mut driven, send(2)), "not_connected");
    let connected = TransferEvent::Connected { size_bytes: 10 };
    driven.event(StationEvent::Transfer { transfer, event: connected });
    assert_eq!([refused(&mut driven, send(11)), refused(&mut driven, send(0))], ["bad_range"; 2]);
    // It waits to be told what to send, but not for ever.
    assert_eq!(driven.station.next_deadline(), Some(UnixMillis(TRANSFER_IDLE_MILLIS)));
    driven.now = UnixMillis(TRANSFER_IDLE_MILLIS);
    assert_eq!(commands(&driven.event(StationEvent::TimePassed)), [TransferCommand::Stop]);
    assert_eq!((driven.station.next_deadline(), refused(&mut driven, send(10))), (None, "not_connected"));
    // The client that ends it hears of its end.
    assert_eq!(driven.ask(StationRequest::Disconnect { transfer }), []);
    let (outcome, counts) = (TransferOutcome::Stopped, TransferCounts::default());
    let ended = StationEvent::Transfer { transfer, event: TransferEvent::Ended { outcome, counts } };
    assert_eq!(reply(&driven.event(ended)), Ok(None));
    assert_eq!(reply(&driven.ask(StationRequest::Disconnect { transfer })), Ok(None));
    assert_eq!(refused(&mut driven, send(10)), "no_transfer");
    for _ in 0..MAX_TRANSFERS {
        reply(&driven.ask(connect("x"))).unwrap();
    }
    assert_eq!(refused(&mut driven, connect("x")), "too_many_transfers");
    // The service ends when they have.
    let actions = driven.ask(StationRequest::Shutdown);
    assert_eq!(commands(&actions), vec![TransferCommand::Stop; MAX_TRANSFERS]);
    assert!(!actions.iter().any(|action| matches!(action, StationAction::Reply { .. })));
}

/// What can happen; numbers choose among what is there.
#[derive(Clone, Debug)]
enum Step {
    Start { name: u8, input: u8, memory: Option<u8>, stop: Option<u8> },
    Stop { name: u8, wait: bool },
    Opened(u8),
    Progress(u8, u32),
    Ended(u8, bool),
    Disk(u8, u8, Option<u32>),
    Found(u8),
    Removed(u8),
    Pass(u8),
    Connect(u8),
    Send(u8, u8, u8),
    Disconnect(u8),
    Transfer(u8, u8),
    Shutdown,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        6 => (0u8..12, 0u8..4, proptest::option::of(0u8..200), proptest::option::of(0u8..60))
            .prop_map(|(name, input, memory, stop)| Step::Start { name, input, memory, stop }),
        3 => (0u8..12, any::<bool>()).prop_map(|(name, wait)| Step::Stop { name, wait }),
        5 => any::<u8>().prop_map(Step::Opened),
        2 => (any::<u8>(), any::<u32>()).prop_map(|(at, bytes)| Step::Progress(at, bytes)),
        4 => (any::<u8>(), any::<bool>()).prop_map(|(at, fails)| Step::Ended(at, fails)),
        1 => (0u8..3, 0u8..3, proptest::option::of(any::<u32>())).prop_map(|(a, b, c)| Step::Disk(a, b, c)),
        1 => (0u8..12).prop_map(Step::Found),
        1 => (0u8..12).prop_map(Step::Removed),
        2 => (0u8..30).prop_map(Step::Pass),
        4 => (0u8..12).prop_map(Step::Connect),
        3 => (any::<u8>(), 0u8..9, 0u8..9).prop_map(|(at, from, to)| Step::Send(at, from, to)),
        2 => any::<u8>().prop_map(Step::Disconnect),
        5 => (any::<u8>(), 0u8..5).prop_map(|(at, what)| Step::Transfer(at, what)),
        1 => Just(Step::Shutdown),
    ]
}

/// The world around a station, which knows what it was told to do.
#[derive(Default)]
struct World {
    now: i64,
    asked: u64,
    answered: BTreeSet<u64>,
    /// Recordings that threads carry out: whether they were told to stop.
    open: BTreeMap<RecordingId, (RecordingPlan, bool)>,
    accepted: BTreeSet<RecordingId>,
    ended: BTreeSet<RecordingId>,
    /// Transfers that threads carry out: whether they were told to stop, and what to send.
    sending: BTreeMap<TransferId, (bool, bool)>,
    begun: BTreeSet<TransferId>,
    over: BTreeSet<TransferId>,
}

impl World {
    fn event(&mut self, step: &Step) -> Option<StationEvent> {
        let at = |index: u8| {
            let keys: Vec<_> = self.open.keys().copied().collect();
            (!keys.is_empty()).then(|| keys[usize::from(index) % keys.len()])
        };
        let name = |name: u8| format!("s{name}");
        let transfer = |index: u8| {
            let keys: Vec<_> = self.sending.keys().copied().collect();
            // Also one that is not known.
            if keys.is_empty() { TransferId(u64::MAX) } else { keys[usize::from(index) % keys.len()] }
        };
        Some(match *step {
            Step::Connect(n) => {
                self.asked += 1;
                let connect = TransferRequest {
                    scan: name(n),
                    host: "h".into(),
                    port: 1,
                    ..TransferRequest::default()
                };
                request(self.asked, StationRequest::Connect(connect))
            }
            Step::Send(index, from, to) => {
                let (transfer, from, to) = (transfer(index), from.into(), to.into());
                self.asked += 1;
                request(self.asked, StationRequest::Send { transfer, from, to })
            }
            Step::Disconnect(index) => {
                let transfer = transfer(index);
                self.asked += 1;
                request(self.asked, StationRequest::Disconnect { transfer })
            }
            Step::Transfer(index, what) => {
                let transfer = transfer(index);
                let counts = TransferCounts { sent_bytes: 7, ..TransferCounts::default() };
                let event = match what {
                    0 | 1 => TransferEvent::Connected { size_bytes: 5 },
                    2 => TransferEvent::Progress(counts),
                    _ if self.sending.remove(&transfer).is_some() => {
                        assert!(self.over.insert(transfer));
                        let failed = TransferOutcome::Failed("a fault".into());
                        let outcome = if what == 3 { failed } else { TransferOutcome::Complete };
                        TransferEvent::Ended { outcome, counts }
                    }
                    _ => return None,
                };
                StationEvent::Transfer { transfer, event }
            }
            Step::Start { name: n, input, memory, stop } => {
                let start = StartRequest {
                    name: name(n),
                    input: ["a", "b", "c", "none"][usize::from(input)].to_owned(),
                    memory_bytes: memory.map(|mebibytes| u64::from(mebibytes) * MIB),
                    stop: stop.map(|seconds| self.now / 1000 + i64::from(seconds)),
                    ..StartRequest::default()
                };
                self.asked += 1;
                request(self.asked, StationRequest::Start(start))
            }
            Step::Stop { name: n, wait } => {
                self.asked += 1;
                request(self.asked, stop(&name(n), wait))
            }
            Step::Shutdown => {
                self.asked += 1;
                request(self.asked, StationRequest::Shutdown)
            }
            Step::Opened(index) => StationEvent::Opened { recording: at(index)? },
            Step::Progress(index, bytes) => {
                let (written_bytes, received_bytes) =
                    (u64::from(bytes), u64::from(bytes) + u64::from(bytes) % (80 * MIB));
                let counts = RecordingCounts { received_bytes, written_bytes, ..RecordingCounts::default() };
                StationEvent::Progress { recording: at(index)?, counts }
            }
            Step::Ended(index, fails) => {
                let recording = at(index)?;
                self.end(recording, fails)
            }
            Step::Disk(disk, condition, free) => StationEvent::DiskState {
                disk: disk.into(),
                condition: [DiskCondition::Usable, DiskCondition::Full, DiskCondition::Failed]
                    [usize::from(condition)],
                free_bytes: free.map(u64::from),
            },
            Step::Found(n) => StationEvent::ScanFound { name: name(n) },
            Step::Removed(n) => StationEvent::ScanRemoved { name: name(n) },
            Step::Pass(seconds) => {
                self.now += i64::from(seconds) * 1000;
                StationEvent::TimePassed
            }
        })
    }

    fn end(&mut self, recording: RecordingId, fails: bool) -> StationEvent {
        self.open.remove(&recording);
        assert!(self.ended.insert(recording), "ended twice");
        let outcome = match fails {
            true => RecordingOutcome::Failed("a fault".into()),
            false => RecordingOutcome::Complete,
        };
        StationEvent::Ended { recording, outcome, counts: RecordingCounts::default() }
    }

    fn carry_out(&mut self, actions: Vec<StationAction>) {
        for action in actions {
            match action {
                StationAction::Reply { id, .. } => {
                    assert!(self.answered.insert(id.0), "{id:?} answered twice");
                }
                StationAction::Open(plan) => {
                    let busy = self.open.values().any(|(other, _)| other.input == plan.input);
                    assert!(!busy, "two recordings on one input");
                    let named = self.open.values().any(|(other, _)| other.name == plan.name);
                    assert!(!named, "two recordings of one name");
                    assert!(self.accepted.insert(plan.recording));
                    self.open.insert(plan.recording, (plan, false));
                }
                StationAction::Stop { recording } => {
                    let (_, stopped) = self.open.get_mut(&recording).unwrap();
                    assert!(!std::mem::replace(stopped, true), "stopped twice");
                }
                StationAction::Transfer { transfer, command } => match command {
                    TransferCommand::Open(plan) => {
                        assert!(plan.transfer == transfer && self.begun.insert(transfer));
                        self.sending.insert(transfer, (false, false));
                        assert!(self.sending.len() <= MAX_TRANSFERS);
                    }
                    TransferCommand::Send(from, to) => {
                        let (stopped, told) = self.sending.get_mut(&transfer).unwrap();
                        assert!(!*stopped && !std::mem::replace(told, true) && from <= to && to <= 5);
                    }
                    TransferCommand::Pace(_) => assert!(self.sending.contains_key(&transfer)),
                    TransferCommand::Stop => {
                        let (stopped, _) = self.sending.get_mut(&transfer).unwrap();
                        assert!(!std::mem::replace(stopped, true), "stopped twice");
                    }
                },
                _ => {}
            }
        }
    }

    fn check(&self, station: &Station) {
        let snapshot = station.snapshot();
        let memory: u64 = self.open.values().map(|(plan, _)| plan.memory_bytes).sum();
        assert_eq!(snapshot.reserved.memory_bytes, memory);
        assert!(memory <= snapshot.memory_bytes);
        let rate = |plan: &RecordingPlan| snapshot.inputs[plan.input].rate_bits.unwrap_or(0);
        assert_eq!(snapshot.reserved.rate_bits, self.open.values().map(|(plan, _)| rate(plan)).sum());
        let active: BTreeSet<_> = snapshot.recordings.iter().map(|status| status.recording).collect();
        assert!(active.iter().eq(self.open.keys()));
        assert!(snapshot.ended.iter().all(|status| status.outcome.is_some()));
        let running = snapshot.transfers.iter().filter(|status| status.outcome.is_none());
        assert!(running.clone().map(|status| &status.transfer).eq(self.sending.keys()));
        // A recording whose memory is half full has the disks for itself; one that is not does not hold transfers up for ever.
        let filled = |part| {
            snapshot.recordings.iter().any(|status| {
                let counts = status.counts;
                counts.received_bytes.saturating_sub(counts.written_bytes)
                    > status.reserved.memory_bytes / part
            })
        };
        for status in running {
            let is_paused = status.pace == TransferPace::Paused;
            assert!(if is_paused { filled(4) } else { !filled(2) }, "{status:?}");
        }
    }
}

proptest! {
    /// Never two recordings on one input or of one name, and none of a name that is on the disks; reservations sum up and return to
    /// zero; every recording that was accepted ends once; every request is answered once.
    #[test]
    fn any_sequence_keeps_the_stations_promises(steps in proptest::collection::vec(step(), 1..120)) {
        let (mut world, mut station) = (World::default(), Station::new(config()));
        let mut found = BTreeSet::new();
        for step in steps {
            let Some(event) = world.event(&step) else { continue };
            match &event {
                StationEvent::ScanFound { name } => drop(found.insert(name.clone())),
                StationEvent::ScanRemoved { name } => drop(found.remove(name)),
                _ => {}
            }
            let is_request = matches!(event, StationEvent::Request { .. });
            let actions = station.handle(UnixMillis(world.now), event);
            for action in &actions {
                if let StationAction::Open(plan) = action {
                    prop_assert!(is_request && !found.contains(&plan.name));
                }
            }
            world.carry_out(actions);
            world.check(&station);
        }
        let all: Vec<_> = world.open.keys().copied().collect();
        for recording in all {
            let event = world.end(recording, false);
            let actions = station.handle(UnixMillis(world.now), event);
            world.carry_out(actions);
            world.check(&station);
        }
        let all: Vec<_> = world.sending.keys().copied().collect();
        for transfer in all {
            world.sending.remove(&transfer);
            world.over.insert(transfer);
            let (outcome, counts) = (TransferOutcome::Stopped, TransferCounts::default());
            let event = StationEvent::Transfer { transfer, event: TransferEvent::Ended { outcome, counts } };
            let actions = station.handle(UnixMillis(world.now), event);
            world.carry_out(actions);
            world.check(&station);
        }
        prop_assert_eq!(&world.over, &world.begun);
        prop_assert_eq!(&world.ended, &world.accepted);
        prop_assert_eq!(station.snapshot().reserved, Reserved::default());
        prop_assert!(world.answered.iter().copied().eq(1..=world.asked));
    }
}
