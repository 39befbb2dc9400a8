use super::store::SET_ASIDE;
use super::*;
use skyhaul_core::station::{QueuedId, QueuedPart, QueuedRequest, QueuedState, UnixMillis};
use std::fs::{create_dir, create_dir_all, read, remove_dir_all, remove_file, write};
use std::path::Path;
use std::time::Duration;

const SHORT: Duration = Duration::from_secs(20);

/// Disks with scans, and what a station that runs there knows.
struct Station {
    _directory: tempfile::TempDir,
    disks: Vec<PathBuf>,
    catalogue: Catalogue,
    file: CatalogueFile,
}

impl Station {
    fn new(disks: usize) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let disks: Vec<PathBuf> = (0..disks).map(|n| directory.path().join(n.to_string())).collect();
        disks.iter().for_each(|disk| create_dir(disk).unwrap());
        let (catalogue, file) = (Catalogue::new(&disks), CatalogueFile::new(&disks));
        Self { _directory: directory, disks, catalogue, file }
    }

    /// Ends it, and begins anew with what is on the disks.
    fn restart(&mut self) {
        self.catalogue.write(&mut self.file);
        self.file = CatalogueFile::new(&self.disks);
        self.catalogue = Catalogue::new(&self.disks);
        assert!(self.catalogue.load(&mut self.file));
    }

    /// Looks at the disks, as far as these do not answer, and returns what is to be read.
    fn look_without(&self, silent: &[usize]) -> Vec<String> {
        let mut survey = ScanSurvey::of(&self.disks, SHORT);
        for parts in survey.scans.values_mut() {
            parts.retain(|(disk, _)| !silent.contains(disk));
        }
        survey.scans.retain(|_, parts| !parts.is_empty());
        survey.silent_disks = silent.to_vec();
        self.catalogue.note(survey)
    }

    /// Looks at the disks, and reads what is to be read; how much that was.
    fn look(&self) -> usize {
        let unread = self.look_without(&[]);
        unread.iter().for_each(|name| self.catalogue.read(name));
        unread.len()
    }

    fn all(&self) -> Value {
        self.catalogue.list(BTreeSet::new(), ("", MAX_LISTED), &[])
    }

    fn scan(&self, name: &str) -> Value {
        let all = self.all();
        let found = all["scans"].as_array().unwrap().iter().find(|one| one["scan"] == name);
        found.cloned().unwrap_or_else(|| panic!("no {name} in {all}"))
    }

    fn states(&self) -> Vec<(String, String)> {
        let text = |value: &Value| value.as_str().unwrap().to_owned();
        let all = self.all();
        all["scans"].as_array().unwrap().iter().map(|one| (text(&one["scan"]), text(&one["state"]))).collect()
    }

    fn kept(&self) -> PathBuf {
        self.disks[0].join(CATALOGUE_FILE)
    }
}

/// A chunk of a scan without an index, as a FlexBuff has it.
fn chunk(disk: &Path, name: &str, number: u32, bytes: &[u8]) {
    create_dir_all(disk.join(name)).unwrap();
    write(disk.join(format!("{name}/{name}.{number:08}")), bytes).unwrap();
}

fn done(copy: u64, scan: &str, fingerprint: Option<&str>) -> QueuedStatus {
    let part = QueuedPart { directory: "/d1".into(), files: 2, bytes: 5, ..QueuedPart::default() };
    let request = QueuedRequest {
        scan: scan.into(),
        destination: "correlator".into(),
        parts: vec![part],
        ..QueuedRequest::default()
    };
    QueuedStatus {
        copy: QueuedId(copy),
        request,
        state: QueuedState::Done,
        fingerprint: fingerprint.map(str::to_owned),
        ended_at: Some(UnixMillis(1_790_000_000_000)),
        ..QueuedStatus::default()
    }
}

#[test]
fn a_restart_reads_only_what_has_changed() {
    let mut station = Station::new(2);
    for n in 0..20 {
        chunk(&station.disks[n % 2], &format!("s{n:02}"), 0, b"abc");
    }
    assert_eq!(station.look_without(&[]).len(), 20);
    assert!(station.states().iter().all(|(_, state)| state == "unknown"), "{:?}", station.states());
    assert_eq!(station.scan("s00")["reason"], "not read yet");
    assert_eq!(station.look(), 20);
    assert_eq!(station.look(), 0);
    let before = station.all();
    assert!(station.states().iter().all(|(_, state)| state == "unindexed"), "{before}");
    station.restart();
    assert!(station.states().iter().all(|(_, state)| state == "unknown"), "before the disks were looked at");
    assert_eq!((station.look(), station.all()), (0, before));
    // One is gone, one has another file, one is new.
    remove_dir_all(station.disks[1].join("s01")).unwrap();
    chunk(&station.disks[0], "s04", 1, b"d");
    chunk(&station.disks[0], "new", 0, b"e");
    station.restart();
    let mut unread = station.look_without(&[]);
    unread.sort();
    assert_eq!(unread, ["new", "s04"]);
    assert_eq!((station.scan("s04")["reason"].as_str(), station.states().len()), (Some("not read yet"), 20));
    assert_eq!(station.look(), 2);
    assert_eq!(station.scan("s04")["index"]["chunks"], 2);
    station.restart();
    assert_eq!((station.look(), station.states().len()), (0, 20));
}

#[test]
fn what_is_on_a_disk_that_does_not_answer_is_unknown_and_not_left_out() {
    let mut station = Station::new(3);
    chunk(&station.disks[0], "both", 0, b"abc");
    chunk(&station.disks[1], "both", 1, b"abc");
    chunk(&station.disks[1], "there", 0, b"abc");
    chunk(&station.disks[0], "here", 0, b"abc");
    station.look();
    let known = station.all();
    assert_eq!(known["catalogue"]["is_complete"], true);
    let is_unknown = |station: &Station| {
        for (name, state) in [("both", "unknown"), ("here", "unindexed"), ("there", "unknown")] {
            let scan = station.scan(name);
            assert_eq!(scan["state"], state, "{scan}");
            let reason = scan["reason"].as_str().unwrap_or_default();
            assert_eq!(reason.ends_with("/1: does not respond"), state == "unknown", "{scan}");
        }
        let all = station.all();
        assert_eq!(
            (&all["catalogue"]["is_complete"], all["catalogue"]["unread"].as_u64()),
            (&Value::from(false), Some(0))
        );
        assert!(all["catalogue"]["unanswered_disks"][0]["path"].as_str().unwrap().ends_with("/1"), "{all}");
    };
    assert!(station.look_without(&[1]).is_empty());
    is_unknown(&station);
    // After a restart, too: by what was kept.
    station.restart();
    assert!(station.look_without(&[1]).is_empty());
    is_unknown(&station);
    // It answers as before: nothing is read again.
    assert!(station.look_without(&[]).is_empty());
    assert_eq!(station.all(), known);
    // A scan that was read without a disk is read again when that answers.
    station.catalogue = Catalogue::new(&station.disks);
    let unread = station.look_without(&[1]);
    assert_eq!(unread.len(), 2, "{unread:?}");
    unread.iter().for_each(|name| station.catalogue.read(name));
    assert_eq!(station.look_without(&[1]).len(), 0);
    assert_eq!(station.look(), 2, "one has another part, one is only there");
}

#[test]
fn whatever_happens_to_the_file_it_is_made_anew_while_the_station_runs() {
    let mut station = Station::new(1);
    (0..10).for_each(|n| chunk(&station.disks[0], &format!("s{n}"), 0, b"abc"));
    station.look();
    let known = station.all();
    let path = station.kept();
    let text = |station: &mut Station| {
        station.catalogue.write(&mut station.file);
        let (entries, is_whole) = CatalogueFile::new(&station.disks).load().unwrap();
        (entries.len(), is_whole)
    };
    assert_eq!(text(&mut station), (10, true));
    // Removed, or replaced by something else, while it runs.
    remove_file(&path).unwrap();
    assert_eq!(text(&mut station), (10, true));
    remove_file(&path).unwrap();
    write(&path, [7; 9000]).unwrap();
    assert_eq!(text(&mut station), (10, true));
    assert_eq!(read(station.disks[0].join(SET_ASIDE)).unwrap(), [7; 9000], "what is not ours is kept");
    // Of another version, or of another program.
    for change in ["PRAGMA user_version = 99", "PRAGMA application_id = 7"] {
        let other = rusqlite::Connection::open(&path).unwrap();
        other.execute_batch(change).unwrap();
        drop(other);
        station.restart();
        assert_eq!(station.look(), 10, "{change}");
        assert_eq!((station.all(), text(&mut station)), (known.clone(), (10, true)), "{change}");
    }
    // A record that is damaged is read again, and so is one whose name was changed.
    for change in [
        "UPDATE scans SET record = replace(record, '3', '4') WHERE name = 's3'",
        "UPDATE scans SET name = 'x' WHERE name = 's3'",
    ] {
        let other = rusqlite::Connection::open(&path).unwrap();
        assert_eq!(other.execute(change, ()).unwrap(), 1);
        drop(other);
        station.restart();
        assert_eq!((station.look(), station.all()), (1, known.clone()), "{change}");
        assert_eq!(text(&mut station), (10, true));
    }
    // Its pages.
    let mut bytes = read(&path).unwrap();
    let end = bytes.len();
    bytes[1024..end].fill(0xA5);
    write(&path, bytes).unwrap();
    station.restart();
    station.look();
    assert_eq!((station.all(), text(&mut station)), (known.clone(), (10, true)));
}

#[test]
fn a_disk_that_does_not_take_the_file_holds_nothing_up() {
    let mut station = Station::new(1);
    chunk(&station.disks[0], "s", 0, b"abc");
    // As on a full disk, it cannot be made.
    create_dir(station.kept()).unwrap();
    write(station.kept().join("x"), "").unwrap();
    create_dir(station.disks[0].join(SET_ASIDE)).unwrap();
    write(station.disks[0].join(SET_ASIDE).join("x"), "").unwrap();
    assert!(!station.catalogue.load(&mut station.file));
    assert_eq!(station.look(), 1);
    station.catalogue.write(&mut station.file);
    let problem = station.all()["catalogue"]["file_problem"].clone();
    assert!(problem.is_string(), "{problem}");
    assert_eq!(station.states(), [("s".to_owned(), "unindexed".to_owned())]);
    // It is taken as soon as it can be, though nothing has changed.
    remove_dir_all(station.kept()).unwrap();
    station.file.retry_now();
    station.catalogue.write(&mut station.file);
    assert!(station.all()["catalogue"]["file_problem"].is_null());
    assert_eq!(CatalogueFile::new(&station.disks).load().unwrap().0.len(), 1);
}

#[test]
fn copies_are_of_the_files_that_were_copied() {
    let mut station = Station::new(1);
    chunk(&station.disks[0], "s", 0, b"abc");
    station.look();
    let fingerprint = station.scan("s")["fingerprint"].as_str().unwrap().to_owned();
    let waiting = QueuedStatus { state: QueuedState::Waiting, ..done(3, "s", None) };
    let queued =
        [done(1, "s", Some(&fingerprint)), done(2, "s", None), waiting, done(4, "gone", Some(&fingerprint))];
    station.catalogue.note_copies(&queued);
    let of = |station: &Station| -> Vec<(u64, Value)> {
        let copies = station.scan("s")["copies"].as_array().unwrap().clone();
        copies.into_iter().map(|one| (one["copy"].as_u64().unwrap(), one["of_these_files"].clone())).collect()
    };
    assert_eq!(of(&station), [(1, true.into()), (2, Value::Null)]);
    let first = &station.scan("s")["copies"][0];
    assert_eq!(
        (first["destination"].as_str(), first["ended_at"].as_str(), first["verified"].as_bool()),
        (Some("correlator"), Some("2026-09-21T14:13:20Z"), Some(true)),
        "{first}"
    );
    // The queue has forgotten them, and the station begins anew: they are kept. The scan is recorded again under its name.
    station.restart();
    remove_dir_all(station.disks[0].join("s")).unwrap();
    chunk(&station.disks[0], "s", 0, b"abc");
    station.look();
    assert_eq!(of(&station), [(1, false.into()), (2, Value::Null)]);
    // All is read again: what the disks do not say stays.
    assert_eq!(station.catalogue.rebuild(), 1);
    assert_eq!((station.scan("s")["state"].as_str(), of(&station).len()), (Some("unknown"), 2));
    assert_eq!((station.look(), of(&station).len()), (1, 2));
    assert_eq!(station.scan("s")["state"], "unindexed");
    // It is gone, and so is what was known of it.
    remove_dir_all(station.disks[0].join("s")).unwrap();
    station.look();
    assert!(station.states().is_empty());
    station.restart();
    assert!(station.states().is_empty(), "{:?}", station.states());
}

#[test]
fn a_file_that_another_holds_keeps_the_copies_that_the_queue_has_forgotten() {
    let mut station = Station::new(1);
    chunk(&station.disks[0], "s", 0, b"abc");
    station.look();
    station.catalogue.note_copies(&[done(1, "s", None)]);
    station.catalogue.write(&mut station.file);
    let other = rusqlite::Connection::open(station.kept()).unwrap();
    other.execute_batch("BEGIN EXCLUSIVE").unwrap();
    station.file = CatalogueFile::new(&station.disks);
    station.catalogue = Catalogue::new(&station.disks);
    assert!(!station.catalogue.load(&mut station.file), "it is held");
    station.look();
    station.file.retry_now();
    station.catalogue.write(&mut station.file);
    assert!(station.all()["catalogue"]["file_problem"].is_string());
    drop(other);
    station.file.retry_now();
    station.catalogue.write(&mut station.file);
    assert_eq!(station.scan("s")["copies"][0]["copy"], 1);
    assert!(!station.disks[0].join(SET_ASIDE).exists());
    station.restart();
    assert_eq!(station.scan("s")["copies"][0]["copy"], 1);
}

#[test]
fn a_disk_that_is_not_mounted_keeps_its_scans_and_what_is_on_it_is_not_compared() {
    let mut station = Station::new(2);
    chunk(&station.disks[0], "s", 0, b"abc");
    chunk(&station.disks[1], "s", 1, b"abc");
    station.look();
    let fingerprint = station.scan("s")["fingerprint"].as_str().unwrap().to_owned();
    station.catalogue.note_copies(&[done(1, "s", Some(&fingerprint))]);
    let before = station.scan("s");
    assert_eq!(before["copies"][0]["of_these_files"], true);
    let away = station.disks[1].with_extension("away");
    std::fs::rename(&station.disks[1], &away).unwrap();
    create_dir(&station.disks[1]).unwrap();
    for _ in 0..2 {
        station.look();
        let scan = station.scan("s");
        assert!(scan["reason"].as_str().unwrap_or_default().ends_with("it may not be mounted"), "{scan}");
        assert_eq!(scan["disks"].as_array().unwrap().len(), 2, "{scan}");
        assert_eq!(scan["copies"][0]["of_these_files"], Value::Null, "{scan}");
        station.restart();
    }
    std::fs::remove_dir(&station.disks[1]).unwrap();
    std::fs::rename(&away, &station.disks[1]).unwrap();
    station.look();
    assert_eq!(station.scan("s"), before);
    // Another disk in its place has scans of its own.
    std::fs::rename(&station.disks[1], &away).unwrap();
    create_dir(&station.disks[1]).unwrap();
    chunk(&station.disks[1], "t", 0, b"abc");
    station.look();
    assert_eq!(station.scan("t")["state"], "unindexed");
    assert_eq!(station.scan("s")["disks"].as_array().unwrap().len(), 1);
}

#[test]
fn looks_are_at_most_a_minute_apart_and_silence_is_no_work() {
    let of = |millis, is_waited| {
        watch::look_interval(
            Duration::from_millis(millis) + DISK_ANSWER_TIMEOUT * u32::from(is_waited),
            is_waited,
            200,
        )
    };
    assert_eq!(of(100, false), Duration::from_secs(20));
    assert_eq!(of(100, true), Duration::from_secs(20));
    assert_eq!(of(100_000, false), Duration::from_secs(60));
    assert_eq!(of(1, false), Duration::from_secs(10));
}

#[test]
fn scans_are_listed_in_pieces_and_by_patterns() {
    let station = Station::new(1);
    ["a1", "a2", "b1"].iter().for_each(|name| chunk(&station.disks[0], name, 0, b"abc"));
    station.look();
    let of = |after: &str, limit: usize, patterns: &[&str]| -> Vec<String> {
        let patterns: Vec<ScanPattern> =
            patterns.iter().map(|text| ScanPattern::new(text).unwrap()).collect();
        let listed = station.catalogue.list(BTreeSet::from(["a2".to_owned()]), (after, limit), &patterns);
        let name =
            |one: &Value| format!("{} {}", one["scan"].as_str().unwrap(), one["state"].as_str().unwrap());
        listed["scans"].as_array().unwrap().iter().map(name).collect()
    };
    assert_eq!(of("", 2, &[]), ["a1 unindexed", "a2 open"]);
    assert_eq!(of("a2", 2, &[]), ["b1 unindexed"]);
    assert_eq!(of("", 9, &["?1"]), ["a1 unindexed", "b1 unindexed"]);
}

/// `cargo test -p skyhaul-daemon --lib ten_thousand -- --ignored --nocapture` prints the times.
#[test]
#[ignore = "a measurement"]
fn ten_thousand_scans_are_measured() {
    let mut station = Station::new(2);
    for n in 0..10_000 {
        chunk(&station.disks[n % 2], &format!("exp_mh_no{n:05}"), 0, &[0; 100]);
    }
    let timed = |what: &str, work: &mut dyn FnMut() -> usize| {
        let begun = std::time::Instant::now();
        let count = work();
        println!("{what}: {count} scans read in {:.2} s", begun.elapsed().as_secs_f64());
    };
    timed("made anew", &mut || station.look());
    timed("written", &mut || {
        station.catalogue.write(&mut station.file);
        0
    });
    timed("started with it", &mut || {
        station.restart();
        station.look()
    });
}
