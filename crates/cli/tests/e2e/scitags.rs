//! Fireflies: what a collector hears of the connections of a station, and of its copies.

use crate::serve::Serving;
use crate::site::{Job, Site, number, wait_for, words};
use crate::webdav::{Files, address, bytes};
use serde_json::Value;
use std::collections::BTreeMap;
use std::net::UdpSocket;
use std::time::Duration;

/// A collector.
struct Collector(UdpSocket);

impl Collector {
    fn new() -> Self {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        socket.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        Self(socket)
    }

    /// The section that names it.
    fn section(&self, more: &str) -> String {
        let at = self.0.local_addr().unwrap();
        format!("[http.scitags]\ncollectors = ['{at}']\n{more}\n")
    }

    /// The next firefly, without its head.
    fn next(&self) -> Value {
        let mut datagram = [0; 2048];
        let length = self.0.recv(&mut datagram).unwrap();
        let text = std::str::from_utf8(&datagram[..length]).unwrap();
        let (head, json) = text.split_once(" skyhaul - firefly-json - ").unwrap();
        assert!(head.starts_with("<134>1 - ") && head.split(' ').count() == 3, "{head}");
        serde_json::from_str(json).unwrap()
    }

    /// Those of connections until `flows` are over, by their ports.
    fn flows(&self, flows: usize) -> Vec<Vec<Value>> {
        let (mut all, mut over): (BTreeMap<_, Vec<Value>>, _) = (BTreeMap::new(), 0);
        while over < flows {
            let firefly = self.next();
            over += usize::from(state(&firefly) == "end");
            let id = &firefly["flow-id"];
            all.entry((number(&id["src-port"]), number(&id["dst-port"]))).or_default().push(firefly);
        }
        all.into_values().collect()
    }
}

fn state(firefly: &Value) -> &str {
    firefly["flow-lifecycle"]["state"].as_str().unwrap()
}

/// The bytes that a flow has moved, as its end has them: received, sent. Its states and times are in order, and its tag is this one.
#[track_caller]
fn moved(flow: &[Value], tag: (u64, u64), application: &str) -> (u64, u64) {
    let states: Vec<_> = flow.iter().map(state).collect();
    assert_eq!((states[0], states[states.len() - 1]), ("start", "end"), "{states:?}");
    assert!(states[1..states.len() - 1].iter().all(|state| *state == "ongoing"), "{states:?}");
    for firefly in flow {
        let times = &firefly["flow-lifecycle"];
        assert_eq!(times["start-time"], flow[0]["flow-lifecycle"]["start-time"]);
        assert!(times["current-time"].as_str() >= times["start-time"].as_str());
        assert_eq!(times.get("end-time").is_some(), state(firefly) == "end", "{firefly}");
        let context = &firefly["context"];
        assert_eq!((number(&context["experiment-id"]), number(&context["activity-id"])), tag);
        assert_eq!((context["application"].as_str(), &firefly["version"]), (Some(application), &1.into()));
        assert_eq!(
            (&firefly["flow-id"]["afi"], &firefly["flow-id"]["protocol"]),
            (&"ipv4".into(), &"tcp".into())
        );
    }
    let usage = &flow[flow.len() - 1]["usage"];
    (number(&usage["received"]), number(&usage["sent"]))
}

fn source_port(flow: &[Value]) -> String {
    flow[0]["flow-id"]["src-port"].to_string()
}

fn metric(files: &Files, name: &str) -> f64 {
    let metrics = files.serving.metrics();
    let value = metrics.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' ')?.parse().ok());
    value.unwrap_or_else(|| panic!("{name} is not in {metrics}"))
}

const INSIDE: &str = "[http.copy]\nallow = ['127.0.0.1', '::1']\n";
const SIZE: usize = 20 << 20;

/// Data go from the source to the destination, whichever of them asks; a pull in two streams is two flows.
#[test]
fn a_collector_hears_each_connection_of_a_copy() {
    let collector = Collector::new();
    let (a, b) = (
        Files::of(Site::new(1), INSIDE),
        Files::of(Site::new(1), &(INSIDE.to_owned() + &collector.section(""))),
    );
    let data = bytes(SIZE);
    a.ask("PUT /exp/f", &[], &data).expect(201);
    b.ask("PUT /exp/f", &[], &data).expect(201);
    let from = format!("Source: http://{}/exp/f", a.address);
    b.ask("COPY /exp/g", &[&from, "SciTag: 449", "X-Number-Of-Streams: 2"], b"").expect(202);
    let at_a = a.address.rsplit_once(':').unwrap().1;
    // One connection has asked for size and digest.
    let flows = collector.flows(3);
    assert_eq!(flows.len(), 3);
    let mut received = 0;
    for flow in &flows {
        let (bytes, sent) = moved(flow, (7, 1), "http-get");
        assert_eq!(source_port(flow), at_a);
        assert!(sent < 10_000, "{sent}");
        received += bytes;
    }
    assert!((SIZE as u64..SIZE as u64 + 100_000).contains(&received), "{received}");
    // The other way, by the header that is for the other server.
    let to = format!("Destination: http://{}/exp/h", a.address);
    b.ask("COPY /exp/f", &[&to, "TransferHeaderSciTag: 65535"], b"").expect(202);
    let sent: u64 = collector
        .flows(1)
        .iter()
        .map(|flow| {
            assert_eq!(flow[0]["flow-id"]["dst-port"].to_string(), at_a);
            moved(flow, (1023, 63), "http-put").1
        })
        .sum();
    assert!((SIZE as u64..SIZE as u64 + 100_000).contains(&sent), "{sent}");
    assert!(std::fs::read(a.root.join("h")).unwrap() == data);
    // Without a tag, nothing is said: the next that the collector hears is that of the next tag.
    b.ask("COPY /exp/i", &[&from], b"").expect(202);
    b.ask("GET /exp/f", &["SciTag: 64"], b"").expect(200);
    b.ask("GET /exp/f", &["SciTag: 65"], b"").expect(200);
    let flows = collector.flows(1);
    assert_eq!(moved(&flows[0], (1, 1), "http-get").0 / 10_000, 0);
    assert_eq!(source_port(&flows[0]), b.address.rsplit_once(':').unwrap().1);
    let sent = metric(&b, "skyhaul_station_files_fireflies_total{result=\"sent\"}");
    assert_eq!(sent, 10.0, "a start and an end of five connections");
}

/// What a client gives the server, and what the server says of a connection that lasts.
#[test]
fn a_client_says_whose_traffic_it_is() {
    let collector = Collector::new();
    let files = Files::of(Site::new(1), &collector.section("interval = '1s'"));
    let here = tempfile::tempdir().unwrap();
    let (file, data) = (here.path().join("f"), bytes(SIZE));
    std::fs::write(&file, &data).unwrap();
    let url = format!("http://{}/exp/", files.address);
    let copy = |line: &str| Job::start(&words(&format!("copy --json --quiet --scitag 450 {line}"))).finish();
    copy(&format!("{} {url}", file.display())).expect(0);
    let received: u64 = collector.flows(1).iter().map(|flow| moved(flow, (7, 2), "http-put").0).sum();
    assert!(received >= SIZE as u64, "{received}");
    std::fs::remove_file(&file).unwrap();
    // Slowly: in two seconds, at least one is said to go on.
    copy(&format!("--limit 60Mbps --flows 1 {url}f {}/", here.path().display())).expect(0);
    assert!(std::fs::read(&file).unwrap() == data);
    let mut flows = Vec::new();
    while flows.iter().map(|flow: &Vec<Value>| moved(flow, (7, 2), "http-get").1).sum::<u64>() < SIZE as u64 {
        flows.extend(collector.flows(1));
    }
    assert!(flows.iter().flatten().any(|firefly| state(firefly) == "ongoing"), "{flows:?}");
    let refused = copy("127.0.0.1:f /tmp/").expect(2).stderr;
    assert!(refused.contains("--scitag"), "{refused}");
}

/// A collector that cannot be reached is counted, and delays no copy.
#[test]
fn a_copy_does_not_wait_for_a_collector() {
    let section = "[http.scitags]\ncollectors = ['collector.invalid']\nflow_label = true\ndefault = 449\n";
    let a = Files::of(Site::new(1), "");
    let b = Files::of(Site::new(1), &(INSIDE.to_owned() + section));
    a.ask("PUT /exp/f", &[], b"abc").expect(201);
    let from = format!("Source: http://{}/exp/f", a.address);
    b.ask("COPY /exp/g", &[&from], b"").expect(202);
    assert_eq!(std::fs::read(b.root.join("g")).unwrap(), b"abc");
    wait_for("both to be counted", || {
        (metric(&b, "skyhaul_station_files_fireflies_total{result=\"failed\"}") == 2.0).then_some(())
    });
    assert!(b.serving.job.stderr().contains("a firefly could not be sent: collector.invalid"));
}

/// The other end sees the label in the first packet: see `tcp::flow_label`. Here, that a copy sets it.
#[test]
fn a_copy_over_ipv6_has_a_flow_label() {
    let Ok(probe) = std::net::TcpListener::bind("[::1]:0") else {
        return println!("SKIPPED: a flow label (this host has no IPv6)");
    };
    drop(probe);
    let site = Site::new(1);
    let root = site.disks[0].parent().unwrap().join("exp");
    std::fs::create_dir(&root).unwrap();
    std::fs::write(root.join("f"), b"abc").unwrap();
    let shown = root.display();
    let http = format!("[http]\nlisten = '[::1]:0'\n[[http.root]]\nname = 'exp'\ndirectory = '{shown}'");
    let a = Serving::start(site, &http);
    let from = format!("Source: http://{}/exp/f", address(&a));
    let b = Files::of(Site::new(1), &format!("{INSIDE}[http.scitags]\nflow_label = true"));
    for (tag, set) in [("SciTag: 449", 1.0), ("SciTag: 65535", 1.0), ("SciTag: 450", 2.0)] {
        // Of 65535, the experiment has more bits than a label has for it.
        b.ask("COPY /exp/g", &[&from, tag], b"").expect(202);
        assert_eq!(metric(&b, "skyhaul_station_files_flow_labels_total{result=\"set\"}"), set, "{tag}");
    }
    assert_eq!(metric(&b, "skyhaul_station_files_flow_labels_total{result=\"failed\"}"), 0.0);
}
