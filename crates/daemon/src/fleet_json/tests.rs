use super::*;
use skyhaul_core::fleet::FleetName;

fn name(text: &str) -> FleetName {
    FleetName::new(text).expect("a name")
}

/// A value of each kind, each field set to something that is not its default.
fn all() -> Vec<(&'static str, FleetValue)> {
    let some = |text: &str| Some(text.to_owned());
    let current = CurrentSchedule { experiment: name("n26c3"), revision: 77 };
    vec![
        (
            "stations/ON",
            FleetValue::Station(StationEntry {
                name: "Onsala".into(),
                vex_id: "On".into(),
                position: Some([3_370_606.0, 711_917.5, 5_349_830.8]),
                contact: "control@example".into(),
                issuer: "https://on.example".into(),
                endpoints: vec!["https://on.example:8443".into()],
            }),
        ),
        (
            "recorders/ON/rec1/info",
            FleetValue::Info(RecorderInfo {
                build: "0.1.0".into(),
                disks: vec!["/d1".into()],
                interfaces: vec!["eth0".into()],
                webdav_url: some("https://on.example:8443/exp"),
                srr_url: some("https://on.example:8443/srr"),
                certificate_sha256: some("ab"),
            }),
        ),
        (
            "recorders/ON/rec1/live",
            FleetValue::Live(LiveState {
                activity: RecorderActivity::Recording,
                scans: vec!["n26c3_on_no0001".into()],
                rate_bits: 1,
                lost_frames: 2,
                lost_is_lower_bound: false,
                free_bytes: Some(3),
                disk_lag_millis: Some(4),
                clock_offset_nanos: Some(-5),
                schedule: Some(current.clone()),
                unpublished_scans: 6,
                sequence: 7,
                at: UnixMillis(1_700_000_000_123),
            }),
        ),
        (
            "schedules/n26c3/meta",
            FleetValue::Meta(ScheduleMeta {
                sha256: "cd".into(),
                bytes: 10,
                parts: 1,
                author: "op".into(),
                at: UnixMillis(-1),
            }),
        ),
        ("schedules/n26c3/vex/0", FleetValue::VexPart(b"VEX_rev = 1.5;\n\xff".to_vec())),
        ("current/ON", FleetValue::Current(current)),
        (
            "desired/ON/rec1/no0001",
            FleetValue::Desired(DesiredScan {
                action: DesiredAction::Stop,
                experiment: name("n26c3"),
                start: Some(1_700_000_000),
                stop: Some(1_700_000_060),
                source: "3C84".into(),
                mode: "m".into(),
                deadline: Some(1_700_000_030),
            }),
        ),
        (
            "acks/ON/rec1/no0001",
            FleetValue::Ack(ScanAck {
                desired_revision: 9,
                state: AckState::Late,
                reason: some("late"),
                recording: "n26c3_on_no0001".into(),
            }),
        ),
        (
            "claims/device/ON/nic1",
            FleetValue::Claim(ClaimRecord { holder: "mover".into(), purpose: "copy".into() }),
        ),
        (
            "scans/n26c3/no0001/ON",
            FleetValue::Scan(ClosedScan {
                experiment: name("n26c3"),
                scan: name("no0001"),
                recorder: name("rec1"),
                recording: "n26c3_on_no0001".into(),
                bytes: 1 << 40,
                start: Some(1),
                stop: Some(2),
                valid_fraction: Some(0.999),
                lost_frames: 3,
                lost_is_lower_bound: true,
                missing_sha256: some("ef"),
                adler32: Some(0x0102),
                crc32c: Some(0xffff_0001),
                outcome: "gaps".into(),
            }),
        ),
        (
            "replicas/n26c3/no0001/ON/JIVE",
            FleetValue::Replica(ReplicaRecord {
                url: "https://jive.example/f".into(),
                state: ReplicaState::Verified,
                bytes: 5,
                digest: some("adler32:00000102"),
                at: UnixMillis(5),
                token: FencingToken(44),
            }),
        ),
        (
            "transfers/t1",
            FleetValue::Transfer(TransferRecord {
                source: "https://a/f".into(),
                destination: "https://b/f".into(),
                engine: "fts".into(),
                fts_job: some("j"),
                attempts: 2,
                last_failure: some("Connection timed out"),
            }),
        ),
        ("alarms/ON/rec1/disk", FleetValue::Alarm(FleetAlarm { text: "full".into(), since: UnixMillis(8) })),
    ]
}

#[test]
fn each_value_is_read_as_it_was_written() {
    for (key, value) in all() {
        let key: FleetKey = key.parse().expect("a key");
        let bytes = encode(&value).expect("short enough");
        assert_eq!(decode(&key, &bytes), Ok(value), "{key}: {}", String::from_utf8_lossy(&bytes));
    }
}

#[test]
fn a_value_of_an_older_recorder_is_read() {
    let all = all();
    let mut bounds = Vec::new();
    for (key, value) in &all {
        let bytes = encode(value).expect("short enough");
        // Parts of schedules are text.
        let Ok(mut fields) = serde_json::from_slice::<serde_json::Value>(&bytes) else { continue };
        if fields.as_object_mut().and_then(|fields| fields.remove("lost_is_lower_bound")).is_some() {
            let key: FleetKey = key.parse().expect("a key");
            bounds.push(match decode(&key, fields.to_string().as_bytes()).expect("a value") {
                FleetValue::Live(live) => live.lost_is_lower_bound,
                FleetValue::Scan(scan) => scan.lost_is_lower_bound,
                other => panic!("{other:?}"),
            });
        }
    }
    assert_eq!(bounds, [false, false]);
}

#[test]
fn what_is_not_a_value_is_refused_with_the_field() {
    let read = |key: &str, text: &str| decode(&key.parse().expect("a key"), text.as_bytes());
    let refused = |key: &str, text: &str| read(key, text).expect_err(text).to_string();
    assert!(refused("current/ON", "{").starts_with("the value is not a JSON object"));
    assert_eq!(refused("current/ON", r#"{"v":2}"#), "the value has version 2, expected 1");
    assert_eq!(refused("current/ON", "{}"), "the value has version none, expected 1");
    let bad = r#"{"v":1,"experiment":"../x","revision":1}"#;
    assert_eq!(refused("current/ON", bad), r#"field "experiment" of the value: expected a name"#);
    let bad = r#"{"v":1,"experiment":"x","revision":-1}"#;
    assert_eq!(refused("current/ON", bad), r#"field "revision" of the value: expected a number"#);
    let unknown = r#"{"v":1,"experiment":"x","revision":1,"new":true}"#;
    assert!(read("current/ON", unknown).is_ok());
}

#[test]
fn values_that_are_too_long_are_neither_written_nor_read() {
    let alarm = FleetAlarm { text: "x".repeat(MAX_FLEET_VALUE_BYTES), since: UnixMillis(0) };
    assert!(matches!(encode(&FleetValue::Alarm(alarm)), Err(NotAFleetValue::Long { .. })));
    let key: FleetKey = "current/ON".parse().expect("a key");
    let bytes = vec![b' '; MAX_FLEET_VALUE_BYTES + 1];
    assert!(matches!(decode(&key, &bytes), Err(NotAFleetValue::Long { .. })));
    let part: FleetKey = "schedules/x/vex/0".parse().expect("a key");
    assert!(decode(&part, &vec![b' '; MAX_VEX_PART_BYTES]).is_ok());
    assert!(decode(&part, &vec![b' '; MAX_VEX_PART_BYTES + 1]).is_err());
}
