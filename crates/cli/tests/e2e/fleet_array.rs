//! Five stations with networks of their own and one experiment: a station is cut off from the store, and another one is killed amid a scan.

use crate::balance::{Network, ip};
use crate::fleet::etcd::Etcd;
use crate::fleet::vex;
use crate::serve::config;
use crate::site::{Done, Job, Site, number, see, wait_for, words};
use rustix::process::Signal;
use serde_json::{Value, json};
use std::process::Command;

const STATIONS: [&str; 5] = ["On", "Mh", "Wz", "Ef", "Ys"];
/// Where the store is.
const CENTRE: &str = "10.81.255.1";
/// Frames in a second, and what each carries.
const FPS: u64 = 500;
const PAYLOAD: u64 = 2000;
const FRAME: u64 = PAYLOAD + 32;
/// Scans: seconds from now, and how long they last.
const SCANS: [(i64, i64); 2] = [(15, 6), (23, 3)];

/// A command that runs in a network.
fn within(network: &Network, line: &str) -> Job {
    let binary = std::env::var("SKYHAUL_BINARY").unwrap_or_else(|_| env!("CARGO_BIN_EXE_skyhaul").to_owned());
    let mut command = Command::new("ip");
    command.env("SKYHAUL_CONFIG", "/dev/null");
    command.args(["netns", "exec", network.name(), binary.as_str()]).args(words(line));
    Job::of(command)
}

/// Networks of the centre and of each station, with a link between them; `None`, with a visible reason, where it is not allowed.
fn networks() -> Option<(Network, Vec<Network>)> {
    let centre = Network::new("fc")?;
    let hub = centre.name();
    let mut steps = vec![format!("-n {hub} link set lo up"), format!("-n {hub} addr add {CENTRE}/32 dev lo")];
    let mut stations = Vec::new();
    for (at, _) in STATIONS.iter().enumerate() {
        let network = Network::new(&format!("f{at}"))?;
        let own = network.name();
        steps.extend([
            format!("-n {hub} link add p{at} type veth peer name e0 netns {own}"),
            format!("-n {hub} addr add 10.81.{at}.1/30 dev p{at}"),
            format!("-n {hub} link set p{at} up"),
            format!("-n {own} addr add 10.81.{at}.2/30 dev e0"),
            format!("-n {own} link set e0 up"),
            format!("-n {own} link set lo up"),
            format!("-n {own} route add default via 10.81.{at}.1"),
        ]);
        stations.push(network);
    }
    for step in steps {
        if ip(&step).is_none() {
            eprintln!("SKIPPED: no links between network namespaces here (ip {step}; run as root)");
            return None;
        }
    }
    Some((centre, stations))
}

/// A station with its data.
struct Member {
    name: &'static str,
    site: Site,
    job: Job,
    _sender: Job,
    network: Network,
}

impl Member {
    fn new(name: &'static str, network: Network, endpoint: &str) -> Self {
        let site = Site::new(1);
        let fleet = format!(
            "[fleet]\nname = 'evn'\nstation = '{name}'\nrecorder = 'rec1'\nlease = '10s'\nplain = true\n\
             endpoints = ['{endpoint}']\n[station.schedule]\n"
        );
        config(&site, [46_227, 46_228], &fleet);
        let to = "udp://127.0.0.1:46227";
        let bits = FPS * PAYLOAD * 8;
        let data =
            format!("send --pattern --payload {PAYLOAD} --rate {bits}bps --frame-rate {FPS} --to {to}");
        let _sender = within(&network, &data);
        Self { name, job: Self::begin(&site, &network), site, _sender, network }
    }

    fn begin(site: &Site, network: &Network) -> Job {
        let file = site.disks[0].parent().unwrap().join("station.toml");
        let mut job = within(network, &format!("serve --config {}", file.display()));
        wait_for("the station to serve", || {
            assert!(job.is_running(), "it ended: {}", job.stderr());
            job.stderr().contains("HTTP API on").then_some(())
        });
        job
    }

    fn status(&self) -> Value {
        let said = self.job.stderr();
        let api = said.split_once("HTTP API on http://").unwrap().1.lines().next().unwrap();
        within(&self.network, &format!("status --station http://{api} --json")).finish().expect(0).json()
    }

    /// Waits for something that the station shows.
    fn wait(&self, what: &str, is_so: impl Fn(&Value) -> bool) {
        wait_for(&format!("{what} at {}", self.name), || is_so(&self.status()).then_some(()));
    }

    /// The name of the recording of a scan, by its number.
    fn recording(&self, scan: usize) -> String {
        format!("n26c3_{}_no{scan:04}", self.name.to_lowercase())
    }

    /// As a power failure does, and the host begins again.
    fn kill_and_restart(&mut self) {
        self.job.signal(Signal::KILL);
        wait_for("its end", || (!self.job.is_running()).then_some(()));
        self.job = Self::begin(&self.site, &self.network);
    }

    /// The frames of a recording, each by its number from the UNIX epoch, and its length in bytes. `cat` says if a chunk is not proven.
    fn frames(&self, recording: &str) -> (Vec<u64>, u64) {
        let bytes = self.site.run(&format!("cat {recording}")).stdout;
        let times = see(&bytes, FRAME as usize).times;
        let frames = times.iter().map(|(second, frame, _)| *second as u64 * FPS + u64::from(*frame));
        (frames.collect(), bytes.len() as u64)
    }
}

/// The state of a recording in a status; `None` if it is not there.
fn find<'a>(list: &'a Value, name: &str) -> Option<&'a Value> {
    list.as_array()?.iter().find(|one| one["name"] == name)
}

#[test]
fn five_stations_record_one_experiment_over_a_cut_and_a_kill() {
    let Some((centre, networks)) = networks() else { return };
    let etcd = words(&format!("ip netns exec {} etcd", centre.name()));
    let Some(etcd) = Etcd::start_at(CENTRE, &etcd, 1, "http", &[]) else { return };
    let endpoint = etcd.endpoints().remove(0);
    let fleet = |line: &str| {
        within(&centre, &format!("fleet {line} --fleet evn --endpoint {endpoint} --plain --json"))
    };
    let status = || fleet("status").finish();
    wait_for("a leader", || (status().code == Some(0)).then_some(()));
    let mut stations: Vec<Member> = STATIONS
        .into_iter()
        .zip(networks)
        .map(|(name, network)| Member::new(name, network, &endpoint))
        .collect();
    let is_online = |status: &Value| {
        let all = status["stations"].as_array().unwrap();
        all.len() == STATIONS.len() && all.iter().all(|one| one["online"] == true)
    };
    wait_for("all stations", || is_online(&status().expect(0).json()).then_some(()));

    let directory = tempfile::tempdir().unwrap();
    let path = vex(directory.path(), &STATIONS, &SCANS);
    let text = std::fs::read_to_string(&path).unwrap();
    let following = fleet(&format!("run {} --grace 60s", path.display()));
    for station in &stations {
        station.wait("the schedule", |status| status["fleet"]["schedule"] == "N26C3");
    }
    // Ys loses its line amid the first scan, and Ef its power.
    let has_written = |status: &Value, name: &str| {
        find(&status["recordings"], name).is_some_and(|one| number(&one["written_bytes"]) > 0)
    };
    let ys = stations[4].recording(0);
    stations[4].wait("the first scan", |status| has_written(status, &ys));
    let line = |state| ip(&format!("-n {} link set p4 {state}", centre.name())).unwrap();
    line("down");
    let ef = stations[3].recording(0);
    stations[3].wait("the first scan", |status| has_written(status, &ef));
    stations[3].kill_and_restart();
    // The line is back once both scans have been recorded without it.
    let second = stations[4].recording(1);
    stations[4].wait("both scans and a cut", |status| {
        let fleet = &status["fleet"];
        let is_cut = fleet["connected"] == false && number(&fleet["unpublished_scans"]) == 2;
        is_cut && find(&status["ended"], &second).is_some_and(|one| one["outcome"] == "complete")
    });
    line("up");

    // One station lacks frames: exit status 1. The others have everything, also the one that was cut off.
    let report = following.finish().expect(1).json();
    let sent: u64 = SCANS.iter().map(|(_, seconds)| *seconds as u64 * FPS * FRAME).sum();
    assert!(report["problem"].is_null(), "{report}");
    for (station, one) in stations.iter().zip(STATIONS.map(|name| of(&report, name))) {
        let is_killed = station.name == "Ef";
        assert_eq!(one["result"], if is_killed { "incomplete" } else { "complete" }, "{report}");
        assert_eq!((number(&one["scheduled_scans"]), number(&one["closed_scans"])), (2, 2), "{report}");
        assert_eq!(number(&one["received_bytes"]) == sent, !is_killed, "{report}");
        let scans = one["scans"].as_array().unwrap();
        assert_eq!(scans.len(), if is_killed { 3 } else { 2 }, "{report}");
        judge(station, scans, &begins(&text));
    }
    // What the store has is the same, once each, and nothing is left behind.
    let status = status().expect(0).json();
    assert_eq!(status["scans"].as_array().unwrap().len(), 11, "{status}");
    let alarms: Vec<_> =
        status["alarms"].as_array().unwrap().iter().map(|one| (&one["station"], &one["name"])).collect();
    assert_eq!((alarms, is_online(&status)), (vec![(&json!("Ef"), &json!("interrupted"))], true), "{status}");
    for station in &mut stations {
        assert_eq!(number(&station.status()["fleet"]["unpublished_scans"]), 0, "{}", station.name);
        station.job.signal(Signal::TERM);
    }
    stations.into_iter().for_each(|station| drop::<Done>(station.job.finish().expect(0)));
}

/// What the report says of a station.
fn of<'a>(report: &'a Value, station: &str) -> &'a Value {
    let all = report["stations"].as_array().unwrap();
    all.iter().find(|one| one["station"] == station).unwrap()
}

/// When the scans of a schedule begin, in UNIX seconds.
fn begins(vex: &str) -> Vec<u64> {
    let starts = vex.split("start = ").skip(1).map(|rest| rest.split(';').next().unwrap());
    let second = |start: &str| {
        let number = |from: usize, to: usize| start[from..to].parse::<i64>().unwrap();
        let year = skyhaul::time::parse(&format!("{}-01-01T00:00:00Z", &start[..4])).unwrap();
        let days = number(5, 8) - 1;
        (year + ((days * 24 + number(9, 11)) * 60 + number(12, 14)) * 60 + number(15, 17)) as u64
    };
    starts.map(second).collect()
}

/// Compares what is published of a station's scans with what lies on its disk: each frame that was sent once, in one recording.
fn judge(station: &Member, scans: &[Value], begins: &[u64]) {
    for (scan, (begin, (_, seconds))) in begins.iter().zip(SCANS).enumerate() {
        let name = station.recording(scan);
        let parts = scans.iter().filter(|one| one["recording"].as_str().unwrap().starts_with(&name));
        let mut frames = Vec::new();
        for part in parts {
            let (found, bytes) = station.frames(part["recording"].as_str().unwrap());
            assert_eq!(number(&part["bytes"]), bytes, "{part}");
            assert_eq!(found.len() as u64 * FRAME, bytes, "{part}");
            // Times as the data have them.
            let time = |frame: Option<&u64>| skyhaul::time::format((frame.unwrap() / FPS) as i64);
            assert_eq!(
                [&part["start"], &part["stop"]],
                [&time(found.first()), &time(found.last())],
                "{part}"
            );
            frames.extend(found);
        }
        let (first, end) = (begin * FPS, (begin + seconds as u64) * FPS);
        let jumps: Vec<_> = frames.windows(2).filter(|pair| pair[1] != pair[0] + 1).collect();
        assert_eq!((frames.first(), frames.last()), (Some(&first), Some(&(end - 1))), "{name}");
        // The scan amid which the power failed lacks one piece; nothing is there twice.
        let is_cut = station.name == "Ef" && scan == 0;
        assert_eq!(jumps.len(), usize::from(is_cut), "{name}: {jumps:?}");
        assert!(jumps.iter().all(|pair| pair[1] > pair[0]), "{name}: {jumps:?}");
    }
}
