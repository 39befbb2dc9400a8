use super::alarms::{AlarmCondition, AlarmLevel, RecordingSigns, StationSigns, conditions};
use super::board::{Board, StationPoint};
use super::pages::{PAGE_FILES, is_foreign};
use super::receivers::{ReceiverFailure, ReceiverView};
use crate::station::unwritten::UnwrittenDisk;
use axum::http::{HeaderMap, HeaderValue, Method};
use serde_json::json;
use skyhaul_core::station::{
    DiskCondition, DiskConfig, InputConfig, RecordingCounts, RequestId, StartRequest, Station, StationAction,
    StationConfig, StationEvent, StationRequest, UnixMillis,
};

fn station() -> Station {
    let input = InputConfig { name: "a".into(), memory_bytes: 1, ..InputConfig::default() };
    let disks = ["d0", "d1"].map(|path| DiskConfig { path: path.into(), rate_bits: None });
    Station::new(StationConfig {
        memory_bytes: 1,
        inputs: vec![input],
        disks: disks.into(),
        ..StationConfig::default()
    })
}

fn kinds(all: &[AlarmCondition]) -> Vec<(&str, &str)> {
    all.iter().map(|condition| (condition.kind, condition.subject.as_str())).collect()
}

#[test]
fn every_alarm_has_its_condition_and_no_other() {
    let mut station = station();
    let request = StationRequest::Start(StartRequest { name: "s".into(), ..StartRequest::default() });
    let actions = station.handle(UnixMillis(0), StationEvent::Request { id: RequestId(1), request });
    let Some(StationAction::Open(plan)) = actions.into_iter().find(|a| matches!(a, StationAction::Open(_)))
    else {
        panic!("it does not begin");
    };
    station.handle(UnixMillis(0), StationEvent::Opened { recording: plan.recording });
    let good = station.snapshot();
    let quiet = RecordingSigns { name: "s".into(), silent_seconds: Some(0), ..RecordingSigns::default() };
    let counts = RecordingCounts { kernel_drops: 3, lost_frames: 7, ..RecordingCounts::default() };
    let signs = StationSigns {
        snapshot: &good,
        recordings: std::slice::from_ref(&quiet),
        disk_silences: &[0, 0],
        seconds_left: Some(1e6),
        interrupted: &[],
        faulty: 0,
        irregular: 0,
        unwritten: &[],
        receivers: &[],
    };
    assert_eq!(conditions(&signs), []);
    let of = |signs: StationSigns<'_>| conditions(&signs);
    let lossy = RecordingSigns { is_lossy: true, counts, ..quiet.clone() };
    let alarms = of(StationSigns { recordings: &[lossy], ..signs.clone() });
    assert_eq!(kinds(&alarms), [("data_lost", "s")]);
    assert_eq!(alarms[0].text, "this host is losing data: 3 packets dropped by the kernel");
    let gaps = RecordingSigns { has_gaps: true, counts, ..quiet.clone() };
    let bound = RecordingCounts { lost_is_lower_bound: true, ..counts };
    for (counts, text) in
        [(counts, "frames never arrived: 7 so far"), (bound, "frames never arrived: at least 7 so far")]
    {
        let gaps = RecordingSigns { counts, ..gaps.clone() };
        let alarms = of(StationSigns { recordings: &[gaps], ..signs.clone() });
        assert_eq!(kinds(&alarms), [("frames_missing", "s")]);
        assert_eq!(alarms[0].text, text);
    }
    let silent = RecordingSigns { silent_seconds: Some(5), ..quiet.clone() };
    assert_eq!(kinds(&of(StationSigns { recordings: &[silent], ..signs.clone() })), [("no_data", "s")]);
    assert_eq!(kinds(&of(StationSigns { disk_silences: &[0, 5], ..signs.clone() })), [("disk_silent", "d1")]);
    let hour = of(StationSigns { seconds_left: Some(3599.0), ..signs.clone() });
    assert_eq!((kinds(&hour), hour[0].level), (vec![("space", "")], AlarmLevel::Warning));
    let minutes = of(StationSigns { seconds_left: Some(599.0), ..signs.clone() });
    assert_eq!(
        (minutes[0].level, minutes[0].text.as_str()),
        (AlarmLevel::Error, "all disks will be full in 9 min 59 s")
    );
    assert_eq!(
        kinds(&of(StationSigns { interrupted: &["x".into()], ..signs.clone() })),
        [("interrupted", "")]
    );
    let ended = StationSigns { faulty: 1, irregular: 1, ..signs.clone() };
    assert_eq!(kinds(&of(ended)), [("faulty", ""), ("irregular", "")]);
    let refusing = |disk: &str| UnwrittenDisk {
        disk: disk.into(),
        file: "station_queue.json".into(),
        files: 2,
        reason: "full".into(),
    };
    let both = [refusing("d0"), refusing("d1")];
    let one = of(StationSigns { unwritten: &both[1..], ..signs.clone() });
    assert_eq!((kinds(&one), one[0].level), (vec![("not_kept", "d1")], AlarmLevel::Warning));
    assert_eq!(one[0].text, "station_queue.json and another file cannot be written: full");
    assert_eq!(of(StationSigns { unwritten: &both, ..signs.clone() })[0].level, AlarmLevel::Error);
    let failing = |seconds| ReceiverView {
        name: "mail".into(),
        failure: Some(ReceiverFailure { why: "refused".into(), seconds, ..ReceiverFailure::default() }),
        ..ReceiverView::default()
    };
    let receivers = [failing(59), failing(60), ReceiverView::default()];
    let of_receivers = of(StationSigns { receivers: &receivers, ..signs.clone() });
    assert_eq!(kinds(&of_receivers), [("alarms_unsent", "mail")]);
    for (disk, condition) in [(1, DiskCondition::Full), (0, DiskCondition::Failed)] {
        station.handle(UnixMillis(0), StationEvent::DiskState { disk, condition, free_bytes: None });
    }
    let bad = station.snapshot();
    // Errors come first.
    let all = of(StationSigns { snapshot: &bad, ..signs });
    assert_eq!(kinds(&all), [("disk_failed", "d0"), ("no_disk", ""), ("disk_full", "d1")]);
}

#[test]
fn an_alarm_begins_once_keeps_its_time_and_ends_once() {
    let mut board = Board::new(1);
    let full = |text: &str| AlarmCondition::new(AlarmLevel::Warning, "space", "", text.into());
    assert_eq!(board.update(vec![full("in 9 s")], "t0").len(), 1);
    assert_eq!(board.update(vec![full("in 8 s")], "t1").len(), 0);
    assert_eq!(board.alarms_json()[0]["since"], "t0");
    assert_eq!(board.alarms_json()[0]["text"], "in 8 s");
    let ended = board.update(Vec::new(), "t2");
    assert_eq!((ended.len(), ended[0]["text"].as_str()), (1, Some("over: in 8 s")));
    assert_eq!(board.alarms_json(), json!([]));
}

/// A disk that was well again before the second was over.
#[test]
fn what_the_log_has_of_a_disk_the_alarms_have() {
    let mut board = Board::new(2);
    let note = |board: &mut Board, path: &str, condition: &str| {
        board.note("disk", &json!({ "path": path, "condition": condition }), "t").is_some()
    };
    for condition in ["usable", "full", "usable", "full", "usable"] {
        note(&mut board, "d0", condition);
    }
    assert!(note(&mut board, "d1", "failed"));
    let holds = AlarmCondition::new(AlarmLevel::Error, "disk_silent", "d1", String::new());
    let mut conditions = vec![holds.clone()];
    board.add_flashes(&mut conditions);
    assert_eq!(kinds(&conditions), [("disk_silent", "d1"), ("disk_full", "d0")]);
    let mut conditions = vec![holds];
    board.add_flashes(&mut conditions);
    assert_eq!(kinds(&conditions), [("disk_silent", "d1")]);
}

#[test]
fn the_log_has_each_change_of_state_once_within_its_limit() {
    let mut board = Board::new(1);
    let recording =
        |state: &str, outcome: &str| json!({ "name": "s", "input": "a", "state": state, "outcome": outcome });
    assert!(board.note("recording", &recording("recording", ""), "t").is_some());
    assert!(board.note("recording", &recording("recording", ""), "t").is_none());
    let ended = board.note("recording", &recording("ended", "lossy"), "t").unwrap();
    assert_eq!((ended["level"].as_str(), ended["subject"].as_str()), (Some("error"), Some("s")));
    let disk = |condition: &str| json!({ "path": "d0", "condition": condition });
    let levels = ["usable", "full", "full", "failed", "usable"]
        .map(|condition| board.note("disk", &disk(condition), "t").map(|entry| entry["level"].clone()));
    assert_eq!(levels, [None, Some(json!("warning")), None, Some(json!("error")), Some(json!("info"))]);
    for n in 0..1000 {
        board.note(
            "recording",
            &json!({ "name": n.to_string(), "state": "ended", "outcome": "complete" }),
            "t",
        );
        board.add(StationPoint::default());
    }
    board.figures = json!({});
    let all = board.json();
    let lengths = ["received_bits", "lost_frames"].map(|key| all["history"][key].as_array().unwrap().len());
    assert_eq!((all["log"].as_array().unwrap().len(), lengths), (256, [600, 600]));
}

#[test]
fn calls_of_other_sites_are_foreign() {
    let is = |method: Method, path: &str, pairs: &[(&'static str, &'static str)]| {
        let headers: HeaderMap = pairs
            .iter()
            .map(|(name, value)| (name.parse().unwrap(), HeaderValue::from_static(value)))
            .collect();
        is_foreign(&method, path, &headers)
    };
    let call = "/api/v1/recordings";
    assert!(
        !is(Method::POST, call, &[])
            && !is(Method::POST, call, &[("content-type", "application/json; charset=utf-8")])
    );
    for kind in ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x", ""] {
        assert!(is(Method::POST, call, &[("content-type", kind)]), "{kind}");
    }
    for site in ["cross-site", "same-site", "other"] {
        assert!(is(Method::GET, call, &[("sec-fetch-site", site)]), "{site}");
        assert!(!is(Method::GET, "/", &[("sec-fetch-site", site)]), "{site}");
    }
    assert!(!is(Method::POST, call, &[("sec-fetch-site", "same-origin")]));
}

#[test]
fn the_page_runs_its_own_script_only_and_sets_text_as_text() {
    for file in PAGE_FILES {
        let response = file.reply();
        let policy = response.headers()["content-security-policy"].to_str().unwrap().to_owned();
        assert!(!policy.contains("unsafe") && policy.contains("frame-ancestors 'none'"), "{policy}");
    }
    let (page, style) = (include_str!("page.html"), include_str!("dashboard.css"));
    for text in [page, style, include_str!("dashboard.js"), include_str!("parts.js")] {
        for bad in [
            "innerHTML",
            "outerHTML",
            "insertAdjacentHTML",
            "document.write",
            "eval(",
            "https://",
            " style=",
            "onclick=",
        ] {
            assert!(!text.contains(bad), "{bad}");
        }
        assert!(text.matches("http://").count() == text.matches("http://www.w3.org/2000/svg").count());
    }
}
