//! The account of a server of files: its log, its metrics and what its clients saw are the same.

use crate::site::{Site, run, wait_for};
use crate::third_party::peer::{Act, Peer, object};
use crate::webdav::{Files, bytes};
use rustix::process::Signal;
use serde_json::Value;
use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;

/// What no log may have.
const SECRETS: [&str; 3] = ["querysecret", "passedsecret", "clientsecret"];

/// Methods with a name of their own in metrics.
const METHODS: [&str; 9] = ["OPTIONS", "HEAD", "GET", "PUT", "DELETE", "PROPFIND", "MKCOL", "MOVE", "COPY"];

/// The name of a method in metrics.
fn counted_as(method: &str) -> String {
    if METHODS.contains(&method) { method } else { "other" }.to_owned()
}

/// A server with a log, and what its clients saw.
struct Accounted {
    files: Files,
    log: PathBuf,
    token: String,
    /// Requests by method and class of their status.
    seen: BTreeMap<(String, String), u64>,
}

/// The values of a metric by their labels.
fn values(metrics: &str, name: &str) -> BTreeMap<String, f64> {
    let lines = metrics.lines().filter_map(|line| line.strip_prefix(name)?.rsplit_once(' '));
    let of_name = lines.filter(|(labels, _)| labels.is_empty() || labels.starts_with('{'));
    of_name.map(|(labels, value)| (labels.to_owned(), value.parse().unwrap())).collect()
}

impl Accounted {
    fn start() -> Self {
        let site = Site::new(1);
        let parent = site.disks[0].parent().unwrap().to_owned();
        let (log, token) = (parent.join("access.jsonl"), parent.join("token"));
        let more = format!(
            "token_file = '{}'\n[http.own_tokens]\nissuer = 'https://mh.example'\nkey = '{}'\n\
             [http.copy]\nallow = ['127.0.0.1']\nstall = '2s'\n[http.log]\nfile = '{}'\n",
            token.display(),
            parent.join("key").display(),
            log.display()
        );
        let files = Files::of(site, &more);
        let token = std::fs::read_to_string(token).unwrap().trim().to_owned();
        Self { files, log, token, seen: BTreeMap::new() }
    }

    /// Sees the end of a request.
    fn note(&mut self, method: &str, class: &str) {
        *self.seen.entry((method.to_owned(), class.to_owned())).or_default() += 1;
    }

    /// A request with the server's token.
    fn ask(&mut self, line: &str, headers: &[&str], body: &[u8], status: u16) -> Vec<u8> {
        let right = format!("Authorization: Bearer {}", self.token);
        self.ask_as(&right, line, headers, (body, status))
    }

    fn ask_as(&mut self, right: &str, line: &str, headers: &[&str], (body, status): (&[u8], u16)) -> Vec<u8> {
        let reply = self.files.ask(line, &[&[right], headers].concat(), body).expect(status);
        let method = line.split(' ').next().unwrap();
        self.note(&counted_as(method), &format!("{}xx", status / 100));
        reply.body
    }

    /// Begins a request, and leaves when this many bytes of its reply have come.
    fn leave(&mut self, head: &str, body: &[u8], bytes: usize) {
        let mut stream = self.files.connect();
        let head =
            format!("{head}\r\nHost: {}\r\nAuthorization: Bearer {}\r\n\r\n", self.files.address, self.token);
        stream.write_all(head.as_bytes()).unwrap();
        stream.write_all(body).unwrap();
        stream.read_exact(&mut vec![0; bytes]).unwrap();
    }

    /// The metrics, when as many requests are over.
    fn settled(&self, requests: u64) -> String {
        wait_for("all requests to be over", || {
            let metrics = self.files.serving.metrics();
            let sum = |name: &str| values(&metrics, name).values().sum::<f64>();
            let is_over = sum("skyhaul_station_files_requests_in_progress") == 0.0
                && sum("skyhaul_station_files_requests_total") == requests as f64
                && sum("skyhaul_station_files_log_lines_total") == requests as f64;
            is_over.then_some(metrics)
        })
    }

    fn lines(&self) -> Vec<Value> {
        let text = std::fs::read_to_string(&self.log).unwrap();
        assert!(text.bytes().all(|byte| byte == b'\n' || (b' '..=b'~').contains(&byte)), "{text}");
        let secrets = SECRETS.iter().copied().chain([self.token.as_str()]);
        secrets.for_each(|secret| assert!(!text.contains(secret), "{secret}"));
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }
}

/// Requests of every method, done, refused, of ranges, and with a token of an issuer.
fn plain_load(of: &mut Accounted) -> u64 {
    let data = bytes(3_000_017);
    of.ask("PUT /exp/f", &[], &data, 201);
    let mut got = 0;
    for (headers, status) in [
        (&[][..], 200),
        (&["Range: bytes=5-2000004"][..], 206),
        (&["Range: bytes=0-0,7-9"][..], 206),
        (&["Range: bytes=3000017-"][..], 416),
    ] {
        got += of.ask("GET /exp/f?authz=querysecret", headers, b"", status).len() as u64;
    }
    let config = of.files.serving.site.disks[0].parent().unwrap().join("station.toml");
    let create =
        format!("--config {} token create --scope storage.read:/exp --subject ann", config.display());
    let ann = format!("Authorization: Bearer {}", run(&create).expect(0).told().trim());
    got += of.ask_as(&ann, "GET /exp/f", &["SciTag: 449"], (b"", 200)).len() as u64;
    of.ask_as(&ann, "PUT /exp/g", &[], (b"refused", 403));
    of.ask_as("Authorization: Bearer clientsecret", "GET /exp/f", &[], (b"", 401));
    of.ask("HEAD /exp/f", &[], b"", 200);
    of.ask("HEAD /exp/nothing", &[], b"", 404);
    of.ask("PROPFIND /exp", &["Depth: 1"], b"", 207);
    of.ask("PROPFIND /exp", &["Depth: 1"], b"<a", 400);
    of.ask("MKCOL /exp/d", &[], b"", 201);
    of.ask("COPY /exp/f", &["Destination: /exp/d/g"], b"", 201);
    of.ask("MOVE /exp/d/g", &["Destination: /exp/d/h"], b"", 201);
    of.ask("DELETE /exp/d/h", &[], b"", 204);
    of.ask("OPTIONS /exp", &[], b"", 200);
    of.ask("FROB%1b /exp", &[], b"", 405);
    of.ask("GET /exp/%1b%5b2J%0aforged", &[], b"", 400);
    // A client with only a proxy asks for a macaroon; one with a macaroon shows it.
    let said = of.ask_as(
        "X: 1",
        "POST /exp/f",
        &["Content-Type: application/macaroon-request"],
        (b"{\"caveats\":[]}", 405),
    );
    assert!(String::from_utf8_lossy(&said).contains("skyhaul token create"));
    let said = of.ask_as("Authorization: Bearer MDAxY2xvY2F0aW9uIGE", "GET /exp/f", &[], (b"", 401));
    assert!(String::from_utf8_lossy(&said).contains("it is a macaroon, and only signed JSON Web Tokens"));
    got
}

/// Copies with other servers, each with another end.
fn copies(of: &mut Accounted) {
    let peer = Peer::start(|head| match () {
        () if head.contains("/none") => Act::Say(b"HTTP/1.1 404 No\r\nContent-Length: 0\r\n\r\n".to_vec()),
        () if head.starts_with("PUT /full") => {
            Act::End(b"HTTP/1.1 507 Full\r\nContent-Length: 0\r\n\r\n".to_vec())
        }
        () if head.starts_with("PUT") => Act::Take(
            "HTTP/1.1 100 Continue\r\n\r\n",
            3_000_017,
            "HTTP/1.1 201 Made\r\nContent-Length: 0\r\n\r\n",
        ),
        () if head.starts_with("HEAD /to") => {
            Act::Say(b"HTTP/1.1 200 OK\r\nContent-Length: 3000017\r\n\r\n".to_vec())
        }
        () if head.starts_with("GET /stalls") || head.starts_with("GET /left") => {
            Act::Hold(object(head, "Content-Length: 1000\r\n", &[7; 400]))
        }
        () if head.starts_with("GET /breaks") => {
            Act::End(object(head, "Content-Length: 1000\r\n", &[7; 300]))
        }
        () if head.starts_with("HEAD /full") => {
            Act::Say(b"HTTP/1.1 404 No\r\nContent-Length: 0\r\n\r\n".to_vec())
        }
        () => Act::Say(object(head, "Content-Length: 1000\r\n", &[7; 1000])),
    });
    let url = |path: &str| format!("http://{}/{path}?authz=querysecret", peer.address);
    let pass = "TransferHeaderAuthorization: Bearer passedsecret";
    let job = "ClientInfo: job-id=6a-7b;file-id=2;retry=0";
    for (path, status) in [("whole", 202), ("breaks", 202), ("stalls", 202), ("none", 404)] {
        let source = format!("Source: {}", url(path));
        of.ask(&format!("COPY /exp/{path}"), &[&source, pass, job, "TransferHeaderSciTag: 450"], b"", status);
    }
    let source = format!("COPY /exp/left HTTP/1.1\r\nSource: {}", url("left"));
    of.leave(&source, b"", 20);
    of.note("COPY", "2xx");
    for path in ["to", "full"] {
        let destination = format!("Destination: {}", url(path));
        of.ask("COPY /exp/f", &[&destination, pass], b"", 202);
    }
}

/// The sum of a number of these lines.
fn sum<'a>(lines: impl IntoIterator<Item = &'a Value>, key: &str) -> u64 {
    lines.into_iter().map(|line| line.pointer(key).and_then(Value::as_u64).unwrap_or(0)).sum()
}

#[test]
fn log_metrics_and_clients_agree() {
    let mut of = Accounted::start();
    let got = plain_load(&mut of);
    // Clients that leave: while they send, and while they are sent to.
    std::fs::File::create(of.files.root.join("huge")).unwrap().set_len(1 << 30).unwrap();
    of.leave("GET /exp/huge HTTP/1.1", b"", 1_000_000);
    of.note("GET", "2xx");
    of.leave("PUT /exp/half HTTP/1.1\r\nContent-Length: 50000000", &bytes(100_000), 0);
    copies(&mut of);
    // How the upload that broke off ends, only its server knows.
    let requests = of.seen.values().sum::<u64>() + 1;
    let metrics = of.settled(requests);
    let lines = of.lines();
    let metric = |name: &str| values(&metrics, &format!("skyhaul_station_files_{name}"));
    assert_eq!(lines.len() as u64, requests);
    assert_eq!(metric("log_lines_lost_total")[""], 0.0);
    let is_half = |line: &&Value| line["path"] == "/exp/half";
    let half: Vec<&Value> = lines.iter().filter(is_half).collect();
    assert_eq!((half.len(), &half[0]["complete"]), (1, &Value::Bool(false)), "{half:?}");
    assert_eq!(half[0]["received_bytes"], 100_000);
    let class = |line: &Value| {
        line["status"].as_u64().map_or("none".to_owned(), |status| format!("{}xx", status / 100))
    };
    of.note("PUT", &class(half[0]));
    let method = |line: &Value| counted_as(line["method"].as_str().unwrap());
    let mut logged = BTreeMap::<(String, String), u64>::new();
    lines.iter().for_each(|line| *logged.entry((method(line), class(line))).or_default() += 1);
    assert_eq!(logged, of.seen);
    let counted: BTreeMap<String, f64> = logged
        .iter()
        .map(|((method, code), n)| (format!("{{method=\"{method}\",code=\"{code}\"}}"), *n as f64))
        .collect();
    assert_eq!(metric("requests_total"), counted);
    // Bytes.
    let passed = metric("body_bytes_total");
    assert_eq!(passed["{direction=\"received\"}"], sum(&lines, "/received_bytes") as f64);
    assert_eq!(passed["{direction=\"sent\"}"], sum(&lines, "/sent_bytes") as f64);
    let gets = lines
        .iter()
        .filter(|line| line["method"] == "GET" && line["path"] == "/exp/f" && line["status"] != 401);
    assert_eq!(sum(gets, "/sent_bytes"), got);
    let put = lines.iter().filter(|line| line["method"] == "PUT" && line["status"] == 201);
    assert_eq!(sum(put, "/received_bytes"), 3_000_017);
    let huge: Vec<&Value> = lines.iter().filter(|line| line["path"] == "/exp/huge").collect();
    let sent = huge[0]["sent_bytes"].as_u64().unwrap();
    assert!(huge[0]["complete"] == false && (1_000_000..1 << 30).contains(&sent), "{huge:?}");
    times(&lines, &metric, method);
    copies_agree(&lines, &metric);
    who_and_what(&of, &lines);
    end(of);
}

/// Durations are those of the histogram.
fn times(lines: &[Value], metric: &dyn Fn(&str) -> BTreeMap<String, f64>, method: impl Fn(&Value) -> String) {
    let (counts, sums) = (metric("request_duration_seconds_count"), metric("request_duration_seconds_sum"));
    let buckets = metric("request_duration_seconds_bucket");
    for (label, count) in &counts {
        let of: Vec<f64> = lines
            .iter()
            .filter(|line| *label == format!("{{method=\"{}\"}}", method(line)))
            .map(|line| line["seconds"].as_f64().unwrap())
            .collect();
        assert_eq!(of.len() as f64, *count, "{label}");
        let sum: f64 = of.iter().sum();
        assert!((sum - sums[label]).abs() < 1e-6, "{label}: {sum} {}", sums[label]);
        let bounds = buckets.iter().filter(|(name, _)| name.starts_with(label.trim_end_matches('}')));
        for (name, count) in bounds.filter(|(name, _)| !name.contains("+Inf")) {
            let bound: f64 = name.split("le=\"").nth(1).unwrap().trim_end_matches("\"}").parse().unwrap();
            assert_eq!(of.iter().filter(|seconds| **seconds < bound).count() as f64, *count, "{name}");
        }
    }
}

fn copies_agree(lines: &[Value], metric: &dyn Fn(&str) -> BTreeMap<String, f64>) {
    let copies: Vec<&Value> = lines.iter().filter(|line| line.get("copy").is_some()).collect();
    let mut ends = BTreeMap::<String, f64>::new();
    for copy in &copies {
        let text = |key: &str| copy["copy"][key].as_str().unwrap().to_owned();
        *ends
            .entry(format!("{{direction=\"{}\",result=\"{}\"}}", text("direction"), text("result")))
            .or_default() += 1.0;
    }
    let mut counted = metric("copies_total");
    counted.retain(|_, n| *n > 0.0);
    assert_eq!(counted, ends);
    let expected = [
        "pull cancelled",
        "pull done",
        "pull failed",
        "pull refused",
        "pull stalled",
        "push done",
        "push failed",
    ];
    let ends: Vec<String> = ends
        .keys()
        .map(|labels| labels.split('"').skip(1).step_by(2).collect::<Vec<_>>().join(" "))
        .collect();
    assert_eq!(ends, expected);
    let moved = metric("copied_bytes_total");
    for way in ["pull", "push"] {
        let of = copies.iter().copied().filter(|copy| copy["copy"]["direction"] == way);
        assert_eq!(moved[&format!("{{direction=\"{way}\"}}")], sum(of, "/copy/bytes") as f64);
    }
    let bytes_of =
        |path: &str| sum(copies.iter().copied().filter(|copy| copy["path"] == path), "/copy/bytes");
    assert_eq!(
        ["whole", "breaks", "stalls", "none"].map(|path| bytes_of(&format!("/exp/{path}"))),
        [1000, 300, 400, 0]
    );
    assert!(metric("copies_in_progress").values().all(|n| *n == 0.0));
}

fn who_and_what(of: &Accounted, lines: &[Value]) {
    let find = |path: &str, status: u64| {
        lines.iter().find(|line| line["path"] == path && line["status"] == status).unwrap()
    };
    let ann = lines.iter().find(|line| line["subject"] == "ann" && line["method"] == "GET").unwrap();
    assert_eq!((ann["auth"].as_str(), ann["issuer"].as_str()), (Some("issuer"), Some("https://mh.example")));
    assert_eq!((ann["experiment"].as_u64(), ann["activity"].as_u64()), (Some(7), Some(1)));
    assert_eq!(find("/exp/f", 201)["auth"], "token");
    assert_eq!(find("/exp/f", 401)["auth"], Value::Null);
    assert_eq!(find("/exp/%1b%5b2J%0aforged", 400)["complete"], true);
    assert_eq!(find("/exp/d/g", 201)["destination"], "/exp/d/h");
    let copy = find("/exp/whole", 202);
    assert_eq!(
        (copy["copy"]["job"].as_str(), copy["copy"]["file"].as_u64(), copy["activity"].as_u64()),
        (Some("6a-7b"), Some(2), Some(2))
    );
    let host = copy["copy"]["host"].as_str().unwrap();
    assert!(host.starts_with("127.0.0.1:") && find("/exp/none", 404)["copy"]["host"] == host, "{copy}");
    let mode = std::fs::metadata(&of.log).unwrap().permissions().mode();
    assert_eq!(mode & 0o027, 0, "{mode:o}");
}

/// What is under way when the server stops is in the log, too.
fn end(mut of: Accounted) {
    let before = of.lines().len();
    let mut stream = of.files.connect();
    let head = format!(
        "PUT /exp/last HTTP/1.1\r\nHost: {}\r\nAuthorization: Bearer {}\r\nContent-Length: 1000\r\n\r\n0123456789",
        of.files.address, of.token
    );
    stream.write_all(head.as_bytes()).unwrap();
    wait_for("the upload to begin", || (!of.files.uploads().is_empty()).then_some(()));
    of.files.serving.job.signal(Signal::TERM);
    wait_for("its end", || (!of.files.serving.job.is_running()).then_some(()));
    let lines = of.lines();
    let last = lines.last().unwrap();
    assert_eq!(
        (lines.len(), last["path"].as_str(), last["complete"].as_bool()),
        (before + 1, Some("/exp/last"), Some(false))
    );
    assert_eq!(last["received_bytes"], 10, "{last}");
}

#[test]
fn a_log_that_would_be_served_is_refused() {
    let site = Site::new(1);
    let parent = site.disks[0].parent().unwrap();
    let root = parent.join("exp");
    std::fs::create_dir_all(root.join("d")).unwrap();
    let config = parent.join("bad.toml");
    let text = format!(
        "[station]\nlisten = '127.0.0.1:0'\n[[station.disk]]\npath = '{}'\n[[station.input]]\nname = 'a'\nlisten = ['udp://127.0.0.1:1']\n\
         [http]\nlisten = '127.0.0.1:0'\n[http.log]\nfile = '{}'\n[[http.root]]\nname = 'exp'\ndirectory = '{}'\n",
        site.disks[0].display(),
        root.join("d/access.jsonl").display(),
        root.display()
    );
    std::fs::write(&config, text).unwrap();
    let said = run(&format!("serve --config {}", config.display())).stderr;
    assert!(said.contains("would be served as a part of /exp/") && said.contains("hint: "), "{said}");
    assert!(!root.join("d/access.jsonl").exists());
}
