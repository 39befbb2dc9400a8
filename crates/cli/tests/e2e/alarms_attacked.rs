//! Alarms that leave the station, under attack: one that flaps, a webhook whose certificate is wrong, disks that are full, and files that are damaged.

use crate::alarms::{hook, lines, metric};
use crate::device::Mounted;
use crate::serve::Serving;
use crate::site::{Job, LIMIT, Site, number, wait_for, words};
use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, IsCa, Issuer, KeyPair, date_time_ymd,
};
use rustix::process::Signal;
use serde_json::{Value, json};
use std::fs::File;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpListener;
use std::path::Path;
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use tokio_rustls::rustls::crypto::ring::default_provider;
use tokio_rustls::rustls::pki_types::PrivateKeyDer;
use tokio_rustls::rustls::{ServerConfig, ServerConnection, StreamOwned};

/// A receiver that appends to a file.
fn to_file(path: &Path) -> String {
    format!(
        "[[station.alarms.receiver]]\nname = 'file'\ncommand = ['sh', '-c', 'cat >> {}']\n",
        path.display()
    )
}

fn of_kind(all: Vec<Value>, kind: &str) -> Vec<Value> {
    all.into_iter().filter(|one| one["kind"] == kind).collect()
}

/// The alarms that hold.
fn alarms(serving: &Serving) -> Vec<Value> {
    let (_, figures) = serving.http(&format!("GET /api/v1/figures HTTP/1.1\r\nHost: {}", serving.api), "");
    figures["alarms"].as_array().cloned().unwrap_or_default()
}

/// A receiver of alarms, as it is shown.
fn receiver(serving: &Serving, name: &str) -> Value {
    let (_, figures) = serving.http(&format!("GET /api/v1/figures HTTP/1.1\r\nHost: {}", serving.api), "");
    let all = figures["alarm_receivers"].as_array().cloned().unwrap_or_default();
    all.into_iter().find(|one| one["name"] == name).unwrap_or_default()
}

#[test]
fn an_alarm_that_flaps_is_few_messages_with_its_first_and_its_last_state() {
    const HOLD: Duration = Duration::from_secs(1);
    let site = Site::new(2);
    let place = site.disks[0].parent().unwrap().to_owned();
    let (file, mail) = (place.join("alarms.jsonl"), place.join("mail"));
    // Its address is known, and nobody is there yet.
    let address = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let more = format!(
        "[station.alarms]\nhold = '1s'\n{}\
         [[station.alarms.receiver]]\nname = 'mail'\nmail = ['op@obs.example']\nsendmail = ['sh', '-c', 'cat >> {}']\nonly = ['disk_failed']\n\
         [[station.alarms.receiver]]\nname = 'hook'\nwebhook = 'http://{address}/a'\nonly = ['disk_failed']\n",
        to_file(&file),
        mail.display()
    );
    let serving = Serving::start(site, &more);
    let (disk, away) = (serving.site.disks[1].clone(), place.join("away"));
    let said = || of_kind(lines(&file), "disk_failed");
    let open = |all: &[Value]| {
        let count = |event: &str| all.iter().filter(|one| one["event"] == event).count();
        count("begin") - count("end")
    };
    let begun = Instant::now();
    for round in 0..3 {
        // Out and in again, forty times a second, and out at last.
        for flap in 0..80 {
            std::fs::rename(&disk, &away).unwrap();
            std::thread::sleep(Duration::from_millis(12));
            if flap < 79 {
                std::fs::rename(&away, &disk).unwrap();
                std::thread::sleep(Duration::from_millis(12));
            }
        }
        wait_for("the last state, which is out", || (open(&said()) == 1).then_some(()));
        let is_out = alarms(&serving).iter().any(|one| one["kind"] == "disk_failed");
        assert!(is_out, "round {round}: {:?}", alarms(&serving));
        std::fs::rename(&away, &disk).unwrap();
        wait_for("the end", || (open(&said()) == 0).then_some(()));
    }
    let all = said();
    for pair in all.chunks(2) {
        let events = pair.iter().map(|one| one["event"].as_str().unwrap()).collect::<Vec<_>>();
        assert_eq!(events, ["begin", "end"], "{all:?}");
        assert_eq!(
            (&pair[0]["since"], &pair[0]["subject"]),
            (&pair[1]["since"], &json!(disk.display().to_string()))
        );
    }
    // What the reference says: an alarm begins at most once in its hold-down.
    let most = 2 * (1 + begun.elapsed().as_secs() / HOLD.as_secs());
    assert!(all.len() as u64 <= most && all.len() >= 6, "{} of at most {most}", all.len());
    let subjects = || {
        let text = std::fs::read_to_string(&mail).unwrap_or_default();
        text.lines().filter(|line| line.starts_with("Subject: ")).count()
    };
    wait_for("the mails", || (subjects() == all.len()).then_some(()));
    // One that was away all this time is sent the first and the last, and how often it was.
    let heard = hook(TcpListener::bind(address).unwrap());
    let (first, last) = (heard.recv_timeout(LIMIT).unwrap().1, heard.recv_timeout(LIMIT).unwrap().1);
    assert_eq!(first, all[0]);
    let count: u64 = all.iter().filter(|one| one["event"] == "end").map(|one| number(&one["count"])).sum();
    assert_eq!((last["event"].as_str(), number(&last["count"])), (Some("end"), count));
    assert_eq!((&last["since"], &last["time"]), (&all[0]["since"], &all[all.len() - 1]["time"]));
    wait_for("the account", || (metric(&serving, "sent_total", "hook") == 2).then_some(()));
    assert_eq!((metric(&serving, "waiting", "hook"), metric(&serving, "lost_total", "hook")), (0, 0));
    serving.job.signal(Signal::TERM);
    serving.job.finish().expect(0);
}

/// An authority, and what it signs.
struct Authority {
    params: CertificateParams,
    key: KeyPair,
    pem: String,
}

impl Authority {
    fn new(name: &str) -> Self {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.distinguished_name = DistinguishedName::new();
        params.distinguished_name.push(DnType::CommonName, name);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().unwrap();
        let pem = params.self_signed(&key).unwrap().pem();
        Self { params, key, pem }
    }

    /// A server with a certificate for a name, until a year.
    fn server(&self, name: &str, year: i32) -> Arc<ServerConfig> {
        let mut params = CertificateParams::new(vec![name.to_owned()]).unwrap();
        (params.not_before, params.not_after) = (date_time_ymd(2020, 1, 1), date_time_ymd(year, 1, 1));
        let key = KeyPair::generate().unwrap();
        let issuer = Issuer::from_params(&self.params, &self.key);
        let made = params.signed_by(&key, &issuer).unwrap();
        let key = PrivateKeyDer::try_from(key.serialize_der()).unwrap();
        let config = ServerConfig::builder_with_provider(default_provider().into());
        let config = config.with_safe_default_protocol_versions().unwrap().with_no_client_auth();
        Arc::new(config.with_single_cert(vec![made.der().clone()], key).unwrap())
    }
}

/// A server that shows the certificate it is given, and passes each body on.
fn secure_hook(shown: Arc<Mutex<Arc<ServerConfig>>>) -> (u16, Receiver<Value>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let (sender, heard) = channel();
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let config = Arc::clone(&shown.lock().unwrap());
            let connection = ServerConnection::new(config).unwrap();
            let mut reader = BufReader::new(StreamOwned::new(connection, stream));
            let mut head = String::new();
            while !head.ends_with("\r\n\r\n") && reader.read_line(&mut head).unwrap_or(0) > 0 {}
            let length = head.lines().find_map(|line| line.strip_prefix("Content-Length: ")?.parse().ok());
            let mut body = vec![0; length.unwrap_or(0)];
            if body.is_empty() || reader.read_exact(&mut body).is_err() {
                continue;
            }
            let stream = reader.get_mut();
            let _ = stream.write_all(b"HTTP/1.1 204 No Content\r\nConnection: close\r\n\r\n");
            let _ = stream.flush();
            let _ = sender.send(serde_json::from_slice(&body).unwrap());
        }
    });
    (port, heard)
}

#[test]
fn a_wrong_certificate_is_named_and_the_alarm_is_kept_until_it_is_right() {
    let site = Site::new(1);
    let place = site.disks[0].parent().unwrap().to_owned();
    let (authority, other) = (Authority::new("CA"), Authority::new("CA2"));
    let trusted = place.join("ca.pem");
    std::fs::write(&trusted, &authority.pem).unwrap();
    let shown = Arc::new(Mutex::new(authority.server("chat.example", 2100)));
    let (port, heard) = secure_hook(Arc::clone(&shown));
    let file = place.join("alarms.jsonl");
    let more = format!(
        "[station.alarms]\nhold = '1s'\n{}[[station.alarms.receiver]]\nname = 'hook'\nwebhook = 'https://localhost:{port}/a?key=not-to-be-shown'\n\
         authorities = '{}'\nonly = ['no_data']\n",
        to_file(&file),
        trusted.display()
    );
    let serving = Serving::start(site, &more);
    serving.call("station start quiet --input a").expect(0);
    let shows = |what: &str| {
        wait_for(what, || {
            let one = receiver(&serving, "hook");
            one["failure"].as_str().is_some_and(|why| why.contains(what)).then_some(one)
        })
    };
    // It is for another host, of another authority, or out of date: each is named, and nothing of the alarm leaves.
    let named = shows("certificate not valid for name \"localhost\"");
    assert_eq!(
        (named["route"].as_str(), number(&named["waiting"]), number(&named["sent"])),
        (Some("webhook"), 1, 0)
    );
    *shown.lock().unwrap() = other.server("localhost", 2100);
    shows("UnknownIssuer");
    *shown.lock().unwrap() = authority.server("localhost", 2021);
    shows("certificate expired");
    let top = crate::site::run(&format!("top --once --station http://{}", serving.api)).expect(0).told();
    assert!(top.contains("receiver hook: 1 waiting, ") && top.contains("certificate expired"), "{top}");
    assert!(heard.try_recv().is_err() && !top.contains("not-to-be-shown"));
    *shown.lock().unwrap() = authority.server("localhost", 2100);
    let begin = heard.recv_timeout(LIMIT).unwrap();
    assert_eq!(begin, of_kind(lines(&file), "no_data")[0]);
    wait_for("its success to show", || receiver(&serving, "hook")["failure"].is_null().then_some(()));
    serving.call("station stop quiet");
    assert_eq!(heard.recv_timeout(LIMIT).unwrap()["event"], "end");
    wait_for("the account", || (metric(&serving, "sent_total", "hook") == 2).then_some(()));
    serving.job.signal(Signal::TERM);
    let said = serving.job.finish().expect(0).stderr;
    for what in
        ["certificate not valid for name", "UnknownIssuer", "certificate expired", "takes messages again"]
    {
        assert!(said.contains(what), "{what}: {said}");
    }
    assert!(!said.contains("not-to-be-shown"), "{said}");
}

/// Fills a file system to its last byte; removed when what is returned is dropped.
struct Filler(std::path::PathBuf);

impl Filler {
    fn new(disk: &Path) -> Self {
        let path = disk.join("filler");
        let mut file = File::create(&path).unwrap();
        while file.write_all(&[1; 1 << 16]).is_ok() {}
        while file.write_all(&[1]).is_ok() {}
        Self(path)
    }
}

impl Drop for Filler {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

/// A schedule of one scan, in a year of its own.
fn schedule(place: &Path, name: &str) -> std::path::PathBuf {
    let path = place.join(format!("{name}.toml"));
    let text = format!(
        "experiment = '{name}'\nstation = 'Mh'\n[[scan]]\nname = 'no1'\nstart = {}-01-01T00:00:00Z\nduration = '10s'\n",
        2100 + name.len()
    );
    std::fs::write(&path, text).unwrap();
    path
}

#[test]
fn a_full_disk_under_the_files_of_the_station_is_named_and_loses_nothing_that_was_accepted() {
    let site = Site::new(1);
    let place = site.disks[0].parent().unwrap().to_owned();
    let Some(_mounted) = Mounted::new("tmpfs".as_ref(), &["-t", "tmpfs", "-o", "size=24m"], &site.disks[0])
    else {
        return println!("SKIPPED: a small file system (needs root, to mount a tmpfs)");
    };
    let file = place.join("alarms.jsonl");
    let more = format!("[station.alarms]\nhold = '1s'\n{}", to_file(&file));
    let mut serving = Serving::start(site, &more);
    let disk = serving.site.disks[0].clone();
    let load = |serving: &Serving, name: &str| {
        let path = schedule(&place, name);
        crate::site::run(&format!("schedule load {} --server http://{}", path.display(), serving.api))
    };
    load(&serving, "kept").expect(0);
    let filler = Filler::new(&disk);
    let said = |kind: &str| of_kind(lines(&file), kind);
    wait_for("both alarms", || (said("disk_full").len() == 1 && said("not_kept").len() == 1).then_some(()));
    let unkept = &said("not_kept")[0];
    assert_eq!(
        (unkept["level"].as_str(), unkept["subject"].as_str()),
        (Some("error"), disk.to_str()),
        "{unkept}"
    );
    assert!(
        unkept["text"].as_str().unwrap().starts_with("station_alarms.json cannot be written: "),
        "{unkept}"
    );
    // It answers, and accepts nothing that it could not keep.
    let refused = load(&serving, "refused").expect(2).stderr;
    assert!(refused.contains("No space left"), "{refused}");
    let names = |serving: &Serving| {
        let (_, all) = serving.http(&format!("GET /api/v1/schedules HTTP/1.1\r\nHost: {}", serving.api), "");
        crate::serve::names(&all)
    };
    assert_eq!(names(&serving), ["kept_mh"]);
    // It is killed, and starts on the full disk.
    serving.kill_and_restart();
    assert_eq!(names(&serving), ["kept_mh"]);
    wait_for("the alarm of the next run", || {
        alarms(&serving).iter().any(|one| one["kind"] == "not_kept").then_some(())
    });
    drop(filler);
    wait_for("the end of all alarms", || alarms(&serving).is_empty().then_some(()));
    wait_for("its end to be sent", || {
        said("not_kept").last().is_some_and(|one| one["event"] == "end").then_some(())
    });
    load(&serving, "later").expect(0);
    wait_for("what was sent to be kept", || {
        let text = std::fs::read_to_string(disk.join("station_alarms.json")).ok()?;
        let kept: Value = serde_json::from_str(&text).ok()?;
        (kept["alarms"] == json!([])).then_some(())
    });
    serving.kill_and_restart();
    assert_eq!(names(&serving), ["kept_mh", "later_mh"]);
    // Nothing holds, and nothing is said again.
    let before = lines(&file).len();
    serving.call("station start quiet --input a").expect(0);
    wait_for("the next alarm", || (said("no_data").len() == 1).then_some(()));
    assert_eq!(lines(&file).len(), before + 1);
    serving.job.signal(Signal::TERM);
    serving.job.finish().expect(0);
}

#[test]
fn damaged_files_of_the_station_are_named_and_keep_it_from_nothing() {
    let site = Site::new(1);
    let place = site.disks[0].parent().unwrap().to_owned();
    let disk = site.disks[0].clone();
    // The first half of a file, and one that cannot be read at all.
    std::fs::write(disk.join("station_schedules.json"), r#"{"version":3,"schedules":["#).unwrap();
    std::fs::create_dir(disk.join("station_alarms.json")).unwrap();
    let mut serving = Serving::start(site, &to_file(&place.join("alarms.jsonl")));
    let problems = serving.status()["schedule_problems"].clone();
    let text = problems[0].as_str().unwrap_or_default();
    assert!(text.contains("station_schedules.json on the disks cannot be read"), "{problems}");
    let log = serving.job.stderr();
    assert!(log.contains("the files of alarms on the disks cannot be read"), "{log}");
    wait_for("its alarm", || alarms(&serving).iter().any(|one| one["kind"] == "not_kept").then_some(()));
    let path = schedule(&place, "again");
    crate::site::run(&format!("schedule load {} --server http://{}", path.display(), serving.api)).expect(0);
    std::fs::remove_dir(disk.join("station_alarms.json")).unwrap();
    wait_for("its end", || alarms(&serving).is_empty().then_some(()));
    serving.kill_and_restart();
    let (_, all) = serving.http(&format!("GET /api/v1/schedules HTTP/1.1\r\nHost: {}", serving.api), "");
    assert_eq!(crate::serve::names(&all), ["again_mh"]);
    assert!(!serving.job.stderr().contains("the files of alarms on the disks"), "{}", serving.job.stderr());
    serving.job.signal(Signal::TERM);
    serving.job.finish().expect(0);
}

#[test]
fn a_full_disk_under_the_log_stops_nothing() {
    let site = Site::new(1);
    let place = site.disks[0].parent().unwrap().to_owned();
    let logs = place.join("logs");
    std::fs::create_dir(&logs).unwrap();
    let Some(_mounted) = Mounted::new("tmpfs".as_ref(), &["-t", "tmpfs", "-o", "size=1m"], &logs) else {
        return println!("SKIPPED: a small file system (needs root, to mount a tmpfs)");
    };
    let file = place.join("alarms.jsonl");
    let more = format!(
        "reports = '{0}'\n[http]\nlisten = '127.0.0.1:0'\nrecordings = true\n[http.log]\nfile = '{0}/access.jsonl'\n\
         [station.alarms]\nhold = '1s'\n{1}[[station.alarms.receiver]]\nname = 'fails'\ncommand = ['false']\n",
        logs.display(),
        to_file(&file)
    );
    let mut serving = Serving::start(site, &more);
    serving.kill();
    // Its log is a file on the full file system from now on.
    let log = logs.join("serve.log");
    let config = place.join("station.toml");
    let text = std::fs::read_to_string(&config)
        .unwrap()
        .replace("listen = '127.0.0.1:0'\nmemory", &format!("listen = '{}'\nmemory", serving.api));
    std::fs::write(&config, text).unwrap();
    let filler = Filler::new(&logs);
    let line = format!("serve --config {}", config.display());
    serving.job = Job::logged(&words(&line), &log);
    wait_for("it to answer", || std::net::TcpStream::connect(&serving.api).ok());
    serving.call("station start quiet --input a").expect(0);
    wait_for("the alarm", || (of_kind(lines(&file), "no_data").len() == 1).then_some(()));
    wait_for("a failure to be shown", || receiver(&serving, "fails")["failure"].is_string().then_some(()));
    serving.call("station stop quiet");
    wait_for("the end", || (of_kind(lines(&file), "no_data").len() == 2).then_some(()));
    assert_eq!(std::fs::read_to_string(&log).unwrap(), "");
    assert!(!logs.join("quiet.json").exists());
    drop(filler);
    // Once there is room, it is written again: the log, and reports.
    serving.call("station start next --input a").expect(0);
    serving.job.signal(Signal::TERM);
    serving.job.finish().expect(0);
    let text = std::fs::read_to_string(&log).unwrap();
    assert!(text.contains("ending 1 recording\n"), "{text}");
    assert!(logs.join("next.json").exists());
}
