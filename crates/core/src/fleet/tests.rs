//! Situations of a member, one at a time; worlds of many are in the simulator.

use super::*;
use crate::station::UnixMillis;

const NOW: UnixMillis = UnixMillis(1_000_000_000);

fn name(text: &str) -> FleetName {
    FleetName::new(text).expect("a name")
}

fn config() -> MemberConfig {
    MemberConfig { station: name("ON"), recorder: name("rec1"), heartbeat_millis: 5_000, seed: 3 }
}

fn at(seconds: i64) -> UnixMillis {
    UnixMillis(NOW.0 + seconds * 1000)
}

fn desired(start: Option<i64>, stop: Option<i64>) -> DesiredScan {
    let absolute = |seconds: i64| NOW.0 / 1000 + seconds;
    DesiredScan {
        action: DesiredAction::Start,
        experiment: name("n26c3"),
        start: start.map(absolute),
        stop: stop.map(absolute),
        source: String::new(),
        mode: String::new(),
        deadline: None,
    }
}

fn entry(scan: &str, revision: u64, desired: DesiredScan) -> StoreEntry {
    let key = FleetKey::DesiredScan(name("ON"), name("rec1"), name(scan));
    StoreEntry { key, revision, value: Ok(FleetValue::Desired(desired)) }
}

fn closed(scan: &str) -> ClosedScan {
    ClosedScan {
        experiment: name("n26c3"),
        scan: name(scan),
        recorder: name("rec1"),
        recording: format!("n26c3_on_{scan}"),
        bytes: 9,
        start: None,
        stop: None,
        valid_fraction: None,
        lost_frames: 0,
        lost_is_lower_bound: false,
        missing_sha256: None,
        adler32: None,
        crc32c: None,
        outcome: "complete".into(),
    }
}

/// A member with what it has done so far.
struct Driven {
    member: FleetMember,
    journal: Vec<MemberRecord>,
    actions: Vec<MemberAction>,
}

impl Driven {
    fn new() -> Self {
        let mut driven = Self::restored(Vec::new());
        driven.handle(NOW, MemberEvent::Connected(StoreListing { revision: 5, entries: vec![] }));
        driven.answer_writes(NOW, 6);
        driven
    }

    fn restored(journal: Vec<MemberRecord>) -> Self {
        let member = FleetMember::new(config(), journal.clone());
        let mut driven = Self { member, journal, actions: Vec::new() };
        driven.handle(NOW, MemberEvent::Began { active: vec![], closed: vec![] });
        driven
    }

    fn handle(&mut self, now: UnixMillis, event: MemberEvent) {
        self.actions = self.member.handle(now, event);
        for action in &self.actions {
            if let MemberAction::Journal(record) = action {
                self.journal.push(record.clone());
            }
        }
    }

    fn start(&self) -> Option<MemberRequestId> {
        self.actions.iter().find_map(|action| match action {
            MemberAction::Start { request, .. } => Some(*request),
            _ => None,
        })
    }

    fn answer(&mut self, now: UnixMillis, answer: StationAnswer) {
        let request = self.start().expect("the station was asked");
        self.handle(now, MemberEvent::Answered { request, answer });
    }

    /// The last answer in the journal.
    fn ack(&self) -> (AckState, Option<String>) {
        let of = |record: &MemberRecord| match record {
            MemberRecord::Desired(record) => Some((record.ack.state, record.ack.reason.clone())),
            _ => None,
        };
        self.journal.iter().rev().find_map(of).expect("an answer")
    }

    fn writes(&self) -> Vec<(WriteId, FleetKey)> {
        let of = |action: &MemberAction| match action {
            MemberAction::Put { write, key, .. } | MemberAction::Delete { write, key } => {
                Some((*write, key.clone()))
            }
            _ => None,
        };
        self.actions.iter().filter_map(of).collect()
    }

    fn answer_writes(&mut self, now: UnixMillis, revision: u64) {
        let mut waiting = self.writes();
        while let Some((write, _)) = waiting.pop() {
            let outcome = WriteOutcome::Stored { revision };
            self.handle(now, MemberEvent::Written { write, outcome });
            waiting.extend(self.writes());
        }
    }
}

#[test]
fn every_key_of_the_layout_is_read_as_it_is_printed() {
    let keys = [
        "stations/ON",
        "recorders/ON/rec1/info",
        "recorders/ON/rec1/live",
        "schedules/n26c3/meta",
        "schedules/n26c3/vex/12",
        "current/ON",
        "desired/ON/rec1/no0001",
        "acks/ON/rec1/no0001",
        "claims/link/ON-JIVE",
        "claims/buffer/JIVE",
        "claims/device/ON/nic1",
        "claims/transfer/t-1",
        "scans/n26c3/no0001/ON",
        "replicas/n26c3/no0001/ON/JIVE",
        "transfers/t-1",
        "alarms/ON/rec1/disk_full",
    ];
    let root = FleetRoot::new(&name("evn"));
    assert_eq!(root.prefix(), "/skyhaul/v1/evn/");
    for key in keys {
        let read = root.parse(&format!("/skyhaul/v1/evn/{key}")).expect(key);
        assert_eq!(read.to_string(), key);
        assert_eq!(root.key(&read), format!("/skyhaul/v1/evn/{key}"));
    }
}

#[test]
fn no_name_leaves_its_level_of_the_tree() {
    let long = "x".repeat(121);
    for text in ["", ".", "..", "a/b", "-x", ".x", "a b", "ä", "a\0b", "a%2fb", long.as_str()] {
        assert_eq!(FleetName::new(text), Err(NotAFleetName(text.into())));
    }
    let root = FleetRoot::new(&name("evn"));
    assert_eq!(root.parse("/skyhaul/v1/evn2/current/ON"), Err(NotAFleetKey::OtherTree));
    let unknown = [
        "current",
        "current/ON/x",
        "desired/ON/rec1",
        "schedules/x/vex/01",
        "schedules/x/vex/4294967296",
        "claims/lock/x",
        "scans/a/b/c/d/e/f",
        "",
    ];
    for key in unknown {
        assert_eq!(key.parse::<FleetKey>(), Err(NotAFleetKey::Unknown), "{key}");
    }
    assert!(matches!("current/..".parse::<FleetKey>(), Err(NotAFleetKey::Name(_))));
    assert!(matches!("current/".parse::<FleetKey>(), Err(NotAFleetKey::Name(_))));
}

#[test]
fn a_desired_scan_is_begun_once_however_often_it_is_seen() {
    let mut driven = Driven::new();
    let wanted = entry("no0001", 7, desired(None, Some(60)));
    driven.handle(at(0), MemberEvent::Put(wanted.clone()));
    driven.answer(at(0), StationAnswer::Done);
    assert_eq!(driven.ack().0, AckState::Started);
    driven.handle(at(1), MemberEvent::Put(wanted.clone()));
    assert_eq!(driven.start(), None);
    driven.handle(at(2), MemberEvent::Lost);
    let listing = StoreListing { revision: 9, entries: vec![wanted.clone()] };
    driven.handle(at(3), MemberEvent::Connected(listing.clone()));
    assert_eq!(driven.start(), None);

    let mut again = Driven::restored(driven.journal.clone());
    assert_eq!(again.start(), None);
    again.handle(at(4), MemberEvent::Connected(listing));
    assert_eq!(again.start(), None, "a restart repeats nothing");
    assert_eq!(again.ack().0, AckState::Cut, "and says how it ended");
}

#[test]
fn a_scan_that_is_written_again_while_it_is_recorded_is_not_begun_again() {
    let mut driven = Driven::new();
    driven.handle(at(0), MemberEvent::Put(entry("no0001", 7, desired(None, Some(60)))));
    driven.answer(at(0), StationAnswer::Done);
    driven.handle(at(1), MemberEvent::Put(entry("no0001", 8, desired(None, Some(90)))));
    assert_eq!((driven.start(), driven.ack().0), (None, AckState::Started));
    driven.handle(at(2), MemberEvent::Fact(StationFact::Closed(closed("no0001"))));
    driven.handle(at(3), MemberEvent::Put(entry("no0001", 9, desired(None, Some(90)))));
    assert_eq!((driven.start(), driven.ack().0), (None, AckState::Refused));
}

#[test]
fn a_scan_that_is_deleted_while_a_busy_station_is_asked_is_forgotten() {
    let mut driven = Driven::new();
    driven.handle(at(0), MemberEvent::Put(entry("no0001", 7, desired(None, Some(60)))));
    let request = driven.start().expect("asked");
    let key = FleetKey::DesiredScan(name("ON"), name("rec1"), name("no0001"));
    driven.handle(at(0), MemberEvent::Deleted { key, revision: 8 });
    let answer = StationAnswer::Busy { reason: "in use".into() };
    driven.handle(at(0), MemberEvent::Answered { request, answer });
    assert_eq!(driven.journal.last(), Some(&MemberRecord::Forgotten { scan: name("no0001") }));
    driven.handle(at(5), MemberEvent::TimePassed);
    assert_eq!(driven.start(), None);
}

#[test]
fn a_scan_that_waits_is_begun_without_the_store_and_after_a_restart() {
    let mut driven = Driven::new();
    driven.handle(at(0), MemberEvent::Put(entry("no0001", 7, desired(Some(100), Some(160)))));
    assert_eq!((driven.start(), driven.ack().0), (None, AckState::Accepted));
    let mut again = Driven::restored(driven.journal.clone());
    assert_eq!(again.member.next_deadline(), Some(at(95)));
    again.handle(at(95), MemberEvent::TimePassed);
    assert!(again.start().is_some());
    assert!(again.writes().is_empty(), "nothing is written to a store that is not reached");
}

#[test]
fn a_busy_station_is_asked_until_the_deadline_and_its_reason_is_the_answer() {
    let mut driven = Driven::new();
    driven.handle(at(0), MemberEvent::Put(entry("no0001", 7, desired(None, None))));
    let mut now = 0;
    while driven.start().is_some() {
        driven.answer(at(now), StationAnswer::Busy { reason: "input mh1 is in use".into() });
        assert_eq!(driven.start(), None, "not asked again immediately");
        now += 2;
        driven.handle(at(now), MemberEvent::TimePassed);
    }
    assert_eq!(now, 32, "30 s is its patience");
    assert_eq!(driven.ack(), (AckState::Refused, Some("input mh1 is in use".into())));
}

#[test]
fn late_and_unreadable_demands_are_answered() {
    let mut driven = Driven::new();
    driven.handle(at(0), MemberEvent::Put(entry("no0001", 7, desired(Some(-100), Some(-40)))));
    assert_eq!(driven.ack(), (AckState::Late, Some("it came 40 s after its deadline".into())));
    let key = FleetKey::DesiredScan(name("ON"), name("rec1"), name("no0002"));
    let unread = StoreEntry { key, revision: 8, value: Err("not JSON".into()) };
    driven.handle(at(0), MemberEvent::Put(unread));
    assert_eq!(driven.ack(), (AckState::Refused, Some("the value cannot be read: not JSON".into())));
    driven.handle(at(0), MemberEvent::Put(entry("no0003", 9, desired(Some(60), Some(60)))));
    assert_eq!(driven.ack(), (AckState::Refused, Some("its stop is not after its start".into())));
}

#[test]
fn a_stop_cancels_what_waits_and_stops_what_runs() {
    let mut driven = Driven::new();
    let stop = || DesiredScan { action: DesiredAction::Stop, ..desired(None, None) };
    driven.handle(at(0), MemberEvent::Put(entry("no0001", 7, desired(Some(100), None))));
    driven.handle(at(1), MemberEvent::Put(entry("no0001", 8, stop())));
    assert_eq!(driven.ack().0, AckState::Cancelled);
    driven.handle(at(100), MemberEvent::TimePassed);
    assert_eq!(driven.start(), None);

    driven.handle(at(100), MemberEvent::Put(entry("no0002", 9, desired(None, None))));
    driven.answer(at(100), StationAnswer::Done);
    driven.handle(at(101), MemberEvent::Put(entry("no0002", 10, stop())));
    let stops = |action: &MemberAction| matches!(action, MemberAction::Stop { recording, .. } if recording == "n26c3_on_no0002");
    assert!(driven.actions.iter().any(stops));
    driven.handle(at(102), MemberEvent::Fact(StationFact::Closed(closed("no0002"))));
    assert!(driven.journal.iter().any(
        |record| matches!(record, MemberRecord::Desired(record) if record.ack.state == AckState::Ended)
    ));
    driven.handle(at(103), MemberEvent::Put(entry("no0003", 11, stop())));
    assert_eq!(driven.ack().0, AckState::Refused);
}

#[test]
fn a_restart_between_question_and_answer_neither_loses_nor_repeats() {
    let mut driven = Driven::new();
    driven.handle(at(0), MemberEvent::Put(entry("no0001", 7, desired(None, Some(60)))));
    assert!(driven.start().is_some());
    // The station had not begun: it is asked again.
    let mut again = Driven::restored(driven.journal.clone());
    assert!(again.start().is_some());
    again.answer(at(1), StationAnswer::Done);
    // It had begun, and runs on.
    let mut runs = FleetMember::new(config(), driven.journal.clone());
    let began = MemberEvent::Began { active: vec!["n26c3_on_no0001".into()], closed: vec![] };
    let actions = runs.handle(at(1), began);
    assert!(!actions.iter().any(|action| matches!(action, MemberAction::Start { .. })));
    // It had begun, and was cut.
    let mut cut = Driven::restored(driven.journal.clone());
    cut.answer(at(1), StationAnswer::NameTaken);
    let last = cut.journal.last();
    assert!(
        matches!(last, Some(MemberRecord::Desired(record)) if record.ack.state == AckState::Cut),
        "{last:?}"
    );
}

#[test]
fn a_closed_scan_is_written_until_the_store_has_it_and_then_no_more() {
    let mut driven = Driven::new();
    let scan = |writes: &[(WriteId, FleetKey)]| {
        let find = writes.iter().find(|(_, key)| matches!(key, FleetKey::ClosedScan(..)));
        find.map(|(write, _)| *write)
    };
    driven.handle(at(0), MemberEvent::Fact(StationFact::Closed(closed("no0001"))));
    let first = scan(&driven.writes()).expect("written");
    driven.handle(at(0), MemberEvent::Written { write: first, outcome: WriteOutcome::Unknown });
    assert_eq!(scan(&driven.writes()), None, "not again before a delay");
    driven.handle(at(70), MemberEvent::TimePassed);
    let second = scan(&driven.writes()).expect("written again");
    driven.handle(at(71), MemberEvent::Lost);
    driven.handle(at(72), MemberEvent::Connected(StoreListing { revision: 20, entries: vec![] }));
    let third = scan(&driven.writes()).expect("written again");
    assert!(second < third);
    let value = Box::new(Ok(FleetValue::Scan(closed("no0001"))));
    driven.handle(
        at(73),
        MemberEvent::Written { write: third, outcome: WriteOutcome::Exists { value, revision: 21 } },
    );
    assert_eq!(driven.member.status().unpublished_scans, 0);
    driven.handle(at(74), MemberEvent::Connected(StoreListing { revision: 30, entries: vec![] }));
    assert_eq!(scan(&driven.writes()), None);
    // A store that was restored from an older copy has lost it.
    driven.handle(at(75), MemberEvent::Connected(StoreListing { revision: 10, entries: vec![] }));
    assert!(scan(&driven.writes()).is_some());
}

#[test]
fn another_version_of_a_scan_in_the_store_is_kept_and_raises_an_alarm() {
    let mut driven = Driven::new();
    driven.handle(at(0), MemberEvent::Fact(StationFact::Closed(closed("no0001"))));
    let writes = driven.writes();
    let (write, _) = writes.iter().find(|(_, key)| matches!(key, FleetKey::ClosedScan(..))).expect("written");
    let other = ClosedScan { bytes: 1, ..closed("no0001") };
    let value = Box::new(Ok(FleetValue::Scan(other)));
    driven.handle(
        at(1),
        MemberEvent::Written { write: *write, outcome: WriteOutcome::Exists { value, revision: 9 } },
    );
    assert!(driven.writes().iter().any(|(_, key)| matches!(key, FleetKey::Alarm(..))));
}

/// The write of the closed scan, if there is one now.
fn scan_write(driven: &Driven) -> Option<(WriteId, ClosedScan, PutCondition)> {
    driven.actions.iter().find_map(|action| match action {
        MemberAction::Put { write, value, condition, .. } => match &**value {
            FleetValue::Scan(scan) => Some((*write, scan.clone(), *condition)),
            _ => None,
        },
        _ => None,
    })
}

fn summable(scan: &str) -> ClosedScan {
    ClosedScan { crc32c: Some(1), ..closed(scan) }
}

fn summed() -> MemberEvent {
    MemberEvent::Fact(StationFact::Summed { recording: "n26c3_on_no0001".into(), adler32: 7 })
}

fn last_closed(driven: &Driven) -> Option<MemberRecord> {
    driven.journal.iter().rev().find(|record| matches!(record, MemberRecord::Closed { .. })).cloned()
}

#[test]
fn a_sum_that_is_known_later_replaces_what_the_member_has_written() {
    let mut driven = Driven::new();
    driven.handle(at(0), MemberEvent::Fact(StationFact::Closed(summable("no0001"))));
    let (write, scan, condition) = scan_write(&driven).expect("written");
    assert_eq!((scan.adler32, condition), (None, PutCondition::Absent));
    driven.handle(at(1), MemberEvent::Written { write, outcome: WriteOutcome::Stored { revision: 12 } });

    driven.handle(at(2), summed());
    let whole = ClosedScan { adler32: Some(7), ..summable("no0001") };
    let (write, scan, condition) = scan_write(&driven).expect("written again");
    assert_eq!((&scan, condition), (&whole, PutCondition::Unchanged(12)));
    assert_eq!(driven.member.status().unpublished_scans, 0, "the store has it, without the sum");
    let published = MemberRecord::Closed { scan: summable("no0001"), published: Some(12) };
    assert_eq!(last_closed(&driven), Some(published), "a restart reports the sum again");
    // The answer is lost, and the connection after it.
    driven.handle(at(3), MemberEvent::Written { write, outcome: WriteOutcome::Unknown });
    driven.handle(at(4), MemberEvent::Lost);
    driven.handle(at(5), MemberEvent::Connected(StoreListing { revision: 13, entries: vec![] }));
    let (write, _, condition) = scan_write(&driven).expect("written again");
    assert_eq!(condition, PutCondition::Unchanged(12));
    let value = Box::new(Ok(FleetValue::Scan(whole.clone())));
    let outcome = WriteOutcome::Exists { value, revision: 13 };
    driven.handle(at(6), MemberEvent::Written { write, outcome });
    assert_eq!(last_closed(&driven), Some(MemberRecord::Closed { scan: whole, published: Some(13) }));
    assert!(!driven.writes().iter().any(|(_, key)| matches!(key, FleetKey::Alarm(..))));
    driven.handle(at(7), summed());
    assert_eq!(scan_write(&driven), None, "once");
}

#[test]
fn a_sum_that_is_known_before_the_store_answers_is_written_too() {
    let mut driven = Driven::new();
    driven.handle(at(0), MemberEvent::Fact(StationFact::Closed(summable("no0001"))));
    let (write, ..) = scan_write(&driven).expect("written");
    driven.handle(at(1), summed());
    driven.handle(at(2), MemberEvent::Written { write, outcome: WriteOutcome::Stored { revision: 12 } });
    let (write, scan, condition) = scan_write(&driven).expect("the newer one");
    assert_eq!((scan.adler32, condition), (Some(7), PutCondition::Absent));
    let value = Box::new(Ok(FleetValue::Scan(summable("no0001"))));
    let outcome = WriteOutcome::Exists { value, revision: 12 };
    driven.handle(at(3), MemberEvent::Written { write, outcome });
    let (write, scan, condition) = scan_write(&driven).expect("in place of the one without");
    assert_eq!((scan.adler32, condition), (Some(7), PutCondition::Unchanged(12)));
    driven.handle(at(4), MemberEvent::Written { write, outcome: WriteOutcome::Stored { revision: 14 } });
    let whole = ClosedScan { adler32: Some(7), ..summable("no0001") };
    assert_eq!(last_closed(&driven), Some(MemberRecord::Closed { scan: whole, published: Some(14) }));
}

#[test]
fn a_sum_neither_brings_back_what_was_deleted_nor_replaces_what_others_wrote() {
    let stored = |driven: &mut Driven| {
        driven.handle(at(0), MemberEvent::Fact(StationFact::Closed(summable("no0001"))));
        let (write, ..) = scan_write(driven).expect("written");
        driven.handle(at(1), MemberEvent::Written { write, outcome: WriteOutcome::Stored { revision: 12 } });
        driven.handle(at(2), summed());
        scan_write(driven).expect("written again").0
    };
    let mut driven = Driven::new();
    let write = stored(&mut driven);
    driven.handle(at(3), MemberEvent::Written { write, outcome: WriteOutcome::Gone });
    driven.handle(at(4), MemberEvent::Connected(StoreListing { revision: 30, entries: vec![] }));
    assert_eq!(scan_write(&driven), None);

    let mut driven = Driven::new();
    let write = stored(&mut driven);
    let value = Box::new(Ok(FleetValue::Scan(ClosedScan { bytes: 1, ..summable("no0001") })));
    let outcome = WriteOutcome::Exists { value, revision: 20 };
    driven.handle(at(3), MemberEvent::Written { write, outcome });
    assert_eq!(scan_write(&driven), None);
    assert!(driven.writes().iter().any(|(_, key)| matches!(key, FleetKey::Alarm(..))));

    // Of a recording that lacks bytes there is no digest of the whole.
    let mut driven = Driven::new();
    driven.handle(at(0), MemberEvent::Fact(StationFact::Closed(closed("no0001"))));
    driven.answer_writes(at(1), 12);
    driven.handle(at(2), summed());
    assert_eq!(scan_write(&driven), None);
}

#[test]
fn what_the_scheduler_deletes_is_not_begun_and_what_a_restored_store_lacks_is() {
    let mut driven = Driven::new();
    driven.handle(at(0), MemberEvent::Put(entry("no0001", 50, desired(Some(100), Some(160)))));
    driven.handle(at(1), MemberEvent::Connected(StoreListing { revision: 20, entries: vec![] }));
    driven.handle(at(95), MemberEvent::TimePassed);
    assert!(driven.start().is_some(), "the store went back behind what was seen");

    let mut driven = Driven::new();
    driven.handle(at(0), MemberEvent::Put(entry("no0001", 50, desired(Some(100), Some(160)))));
    driven.handle(at(1), MemberEvent::Connected(StoreListing { revision: 60, entries: vec![] }));
    assert!(driven.journal.contains(&MemberRecord::Forgotten { scan: name("no0001") }));
    driven.handle(at(95), MemberEvent::TimePassed);
    assert_eq!(driven.start(), None);
}

#[test]
fn the_schedule_is_loaded_once_for_each_revision() {
    let mut driven = Driven::new();
    let current = |revision| CurrentSchedule { experiment: name("n26c3"), revision };
    let put = |revision| {
        let value = Ok(FleetValue::Current(current(revision)));
        MemberEvent::Put(StoreEntry { key: FleetKey::CurrentSchedule(name("ON")), revision: 40, value })
    };
    let asked = |driven: &Driven| {
        driven.actions.iter().find_map(|action| match action {
            MemberAction::LoadSchedule { request, .. } => Some(*request),
            _ => None,
        })
    };
    driven.handle(at(0), put(30));
    let request = asked(&driven).expect("asked");
    let answer = StationAnswer::NotRead { reason: "no endpoint answers".into() };
    driven.handle(at(0), MemberEvent::Answered { request, answer });
    assert_eq!(asked(&driven), None);
    driven.answer_writes(at(0), 40);
    driven.handle(at(10), MemberEvent::TimePassed);
    let request = asked(&driven).expect("asked again");
    driven.handle(at(10), MemberEvent::Answered { request, answer: StationAnswer::Done });
    driven.answer_writes(at(10), 40);
    driven.handle(at(11), put(30));
    assert_eq!(asked(&driven), None);
    let mut again = Driven::restored(driven.journal.clone());
    again.handle(at(12), MemberEvent::Connected(StoreListing { revision: 40, entries: vec![] }));
    let removes = |action: &MemberAction| matches!(action, MemberAction::RemoveSchedule { .. });
    assert!(again.actions.iter().any(removes), "current/ST was deleted meanwhile");
    driven.handle(at(12), put(41));
    let request = asked(&driven).expect("a new revision");
    let answer = StationAnswer::Refused { reason: "two scans at one time".into() };
    driven.handle(at(12), MemberEvent::Answered { request, answer });
    assert!(driven.writes().iter().any(|(_, key)| *key == config().alarm(&name("fleet-schedule"))));
    driven.handle(at(100), put(41));
    assert_eq!(asked(&driven), None, "refused once");
}

#[test]
fn alarms_and_live_state_return_with_a_new_lease() {
    let mut driven = Driven::new();
    let raised = StationFact::AlarmRaised { name: name("disk"), text: "full".into(), since: at(0) };
    driven.handle(at(0), MemberEvent::Fact(raised));
    driven.answer_writes(at(0), 8);
    driven.handle(at(1), MemberEvent::LeaseEnded(KeyLease::Alarm));
    assert!(driven.writes().iter().any(|(_, key)| matches!(key, FleetKey::Alarm(..))));
    driven.handle(at(1), MemberEvent::LeaseEnded(KeyLease::Live));
    assert!(driven.writes().iter().any(|(_, key)| matches!(key, FleetKey::RecorderLive(..))));
    driven.handle(at(2), MemberEvent::Connected(StoreListing { revision: 9, entries: vec![] }));
    driven.answer_writes(at(2), 9);
    driven.handle(at(2), MemberEvent::Fact(StationFact::AlarmCleared { name: name("disk") }));
    assert!(driven.actions.iter().any(|action| matches!(action, MemberAction::Delete { .. })));
}

#[test]
fn a_full_store_is_tried_with_growing_delays_that_differ_by_seed() {
    let delays = |seed| {
        let mut delay = RetryDelay::new(seed);
        (0..8).map(|_| delay.next_millis()).collect::<Vec<_>>()
    };
    assert_ne!(delays(1), delays(2));
    for (at, delay) in delays(7).into_iter().enumerate() {
        let longest = (1_000u64 << at).min(60_000);
        assert!((longest / 2..=longest).contains(&delay), "{at}: {delay}");
    }
}

#[test]
fn a_stale_claim_is_refused_by_the_guard_and_by_the_record() {
    let mut guard = FencingGuard::default();
    assert_eq!(guard.admit(FencingToken(10)), Ok(()));
    assert_eq!(guard.admit(FencingToken(10)), Ok(()));
    assert_eq!(guard.admit(FencingToken(12)), Ok(()));
    let stale = StaleToken { token: FencingToken(10), seen: FencingToken(12) };
    assert_eq!(guard.admit(FencingToken(10)), Err(stale));
    assert!(FencingGuard::restored(guard.seen()).admit(FencingToken(11)).is_err());
    let record = ReplicaRecord {
        url: String::new(),
        state: ReplicaState::Copying,
        bytes: 0,
        digest: None,
        at: NOW,
        token: FencingToken(12),
    };
    assert_eq!(record.next(NOW, FencingToken(10), ReplicaState::Complete), Err(ReplicaRefusal::Stale(stale)));
    let complete = record.next(NOW, FencingToken(13), ReplicaState::Complete).expect("the next state");
    assert!(complete.next(NOW, FencingToken(13), ReplicaState::Copying).is_err());
    assert!(record.next(NOW, FencingToken(12), ReplicaState::Verified).is_err());
}
