//! Attacks on the control plane over real sockets, an honest client beside each: it is served within a second, and memory and
//! connections stay within the documented bounds (`docs/reference/balancer.md`).
#![allow(clippy::unwrap_used)]

mod common;

use axum::body::Bytes;
use axum::http::Request;
use common::{LIMIT, OPERATOR, serve, serve_as, wait_for};
use serde_json::{Value, json};
use skyhaul::balance::BalanceOptions;
use skyhaul_core::balance::BalancerConfig;
use skyhaul_core::placement::Nanos;
use skyhaul_daemon::balancer::{PlaneProcesses, Server};
use skyhaul_daemon::client::{ClientOptions, ControlPlane};
use skyhaul_daemon::ejfat::proto::{RegisterRequest, ReserveLoadBalancerRequest};
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Connections in all, of one address, and those that are closing.
const MAX_CONNECTIONS: u64 = 4096;
const MAX_PER_ADDRESS: u64 = 1024;
const CLOSING: u64 = 64 + 8;
/// Workers of a load balancer.
const MAX_WORKERS: usize = 1024;
/// What a program may need beside what is documented: buffers of the clients, which run in this process, too.
const BESIDE: usize = 64 << 20;

/// Within this an honest client is served.
const SERVED: Duration = Duration::from_secs(1);

/// One attack at a time: each looks at the memory of this process.
fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Memory of this process, bytes.
fn resident() -> usize {
    let text = std::fs::read_to_string("/proc/self/statm").unwrap();
    text.split(' ').nth(1).unwrap().parse::<usize>().unwrap() * 4096
}

struct HttpService {
    server: Server,
    runtime: tokio::runtime::Runtime,
}

/// What was reserved.
struct Reserved {
    id: String,
    token: String,
}

/// A worker that is registered.
struct Worker {
    session: String,
    token: String,
}

fn text(said: &Value, name: &str) -> String {
    said[name].as_str().unwrap_or_else(|| panic!("{said}")).to_owned()
}

impl HttpService {
    fn new() -> HttpService {
        HttpService::with(None)
    }

    fn with(apart: Option<PlaneProcesses>) -> HttpService {
        let (_, server) = serve("127.0.0.1", apart);
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        HttpService { server, runtime }
    }

    fn address(&self) -> SocketAddr {
        self.server.address()
    }

    fn operator(&self) -> String {
        OPERATOR.to_owned()
    }

    /// A connection that comes from this address of loopback.
    fn connect_from(&self, ip: &str) -> io::Result<TcpStream> {
        let stream = self.runtime.block_on(async {
            let socket = tokio::net::TcpSocket::new_v4()?;
            socket.bind(SocketAddr::new(ip.parse().unwrap(), 0))?;
            socket.connect(self.address()).await?.into_std()
        })?;
        stream.set_nonblocking(false)?;
        Ok(stream)
    }

    fn http(&self, method: &str, path: &str, token: &str, body: &str) -> (u16, String) {
        let mut stream = TcpStream::connect(self.address()).unwrap();
        stream.set_read_timeout(Some(LIMIT)).unwrap();
        let head = format!(
            "{method} {path} HTTP/1.1\r\nHost: {}\r\nConnection: close\r\nAuthorization: Bearer {token}\r\n\
             Content-Length: {}\r\n\r\n",
            self.address(),
            body.len()
        );
        stream.write_all(head.as_bytes()).unwrap();
        // A body that is too large is not read.
        let _ = stream.write_all(body.as_bytes());
        let mut said = Vec::new();
        let _ = stream.read_to_end(&mut said);
        let said = String::from_utf8(said).unwrap();
        let (head, body) = said.split_once("\r\n\r\n").unwrap_or_else(|| panic!("{said:?}"));
        (head.split(' ').nth(1).unwrap().parse().unwrap(), body.to_owned())
    }

    #[track_caller]
    fn ask(&self, method: &str, path: &str, token: &str, body: &Value) -> (u16, Value) {
        let body = if body.is_null() { String::new() } else { body.to_string() };
        let (status, said) = self.http(method, path, token, &body);
        (status, serde_json::from_str(&said).unwrap_or_else(|error| panic!("{error}: {said}")))
    }

    #[track_caller]
    fn reserve(&self) -> Reserved {
        let (_, said) = self.ask("POST", "/lb", OPERATOR, &json!({"name": "r"}));
        Reserved { id: text(&said, "lbId"), token: text(&said, "token") }
    }

    #[track_caller]
    fn worker_of(&self, reserved: &Reserved) -> Worker {
        let wanted = json!({"name": "w", "ipAddress": "127.0.0.1", "udpPort": 17750});
        let path = format!("/lb/{}/sessions", reserved.id);
        let (_, said) = self.ask("POST", &path, &reserved.token, &wanted);
        Worker { session: text(&said, "sessionId"), token: text(&said, "token") }
    }

    /// A value of `/metrics`.
    #[track_caller]
    fn metric(&self, name: &str) -> u64 {
        let (_, said) = self.http("GET", "/metrics", "", "");
        let line = said.lines().find_map(|line| line.strip_prefix(&format!("skyhaul_balance_{name} ")));
        line.unwrap_or_else(|| panic!("{name}: {said}")).parse().unwrap()
    }

    /// Most of the calls of an honest client, each on a new connection, are served within a second.
    #[track_caller]
    fn serves_the_honest(&self, what: &str) {
        self.serves(5, what, || assert_eq!(self.http("GET", "/version", OPERATOR, "").0, 200));
    }

    /// The same of any call: the median of some tries.
    #[track_caller]
    fn serves(&self, tries: usize, what: &str, call: impl Fn()) {
        let mut took: Vec<Duration> = (0..tries)
            .map(|_| {
                let begun = Instant::now();
                call();
                begun.elapsed()
            })
            .collect();
        took.sort_unstable();
        assert!(took[tries / 2] < SERVED, "{what}: {took:?}");
    }
}

/// What came of them. They end when it is dropped.
struct Flooded {
    refused: Arc<AtomicUsize>,
    sent: Arc<AtomicUsize>,
    _runtime: tokio::runtime::Runtime,
}

impl Flooded {
    /// Streams that were told that they need a token.
    fn refused(&self) -> usize {
        self.refused.load(Ordering::Relaxed)
    }

    /// Bytes of bodies that were sent.
    fn sent(&self) -> usize {
        self.sent.load(Ordering::Relaxed)
    }
}

static CHUNK: [u8; 16384] = [0; 16384];

/// So many connections with so many streams each.
fn flood(at: SocketAddr, connections: usize, streams: usize) -> Flooded {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let (refused, sent) = (Arc::<AtomicUsize>::default(), Arc::<AtomicUsize>::default());
    for _ in 0..connections {
        runtime.spawn(connection(at, streams, Arc::clone(&refused), Arc::clone(&sent)));
    }
    Flooded { refused, sent, _runtime: runtime }
}

async fn connection(at: SocketAddr, streams: usize, refused: Arc<AtomicUsize>, sent: Arc<AtomicUsize>) {
    let tcp = tokio::net::TcpStream::connect(at).await.unwrap();
    let (mut client, connection) = h2::client::handshake(tcp).await.unwrap();
    tokio::spawn(connection);
    let path = format!("http://{at}/loadbalancer.LoadBalancer/ReserveLoadBalancer");
    for _ in 0..streams {
        let request =
            Request::post(&path).header("content-type", "application/grpc").header("te", "trailers");
        let Ok(mut ready) = client.ready().await else { return };
        let (response, mut body) = ready.send_request(request.body(()).unwrap(), false).unwrap();
        client = ready;
        let refused = Arc::clone(&refused);
        tokio::spawn(async move {
            if let Ok(response) = response.await {
                let told = response.headers().get("grpc-status").is_some_and(|status| status == "16");
                refused.fetch_add(usize::from(told), Ordering::Relaxed);
            }
        });
        let sent = Arc::clone(&sent);
        tokio::spawn(async move {
            loop {
                body.reserve_capacity(CHUNK.len());
                let Some(Ok(room)) = std::future::poll_fn(|cx| body.poll_capacity(cx)).await else { return };
                if body.send_data(Bytes::from_static(&CHUNK[..room.min(CHUNK.len())]), false).is_err() {
                    return;
                }
                sent.fetch_add(room, Ordering::Relaxed);
            }
        });
    }
    std::future::pending::<()>().await;
}

/// Open connections to the site from this address and keep them, each with a part of a head, or nothing.
fn half_heads(site: &HttpService, from: &str, count: usize) -> Vec<TcpStream> {
    let parts: [&[u8]; 4] =
        [b"", b"POST /lb HTTP/1.1\r\nHost: a\r\nX: ", b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", b"GET"];
    let one = |n: usize| {
        let mut stream = site.connect_from(from)?;
        stream.write_all(parts[n % parts.len()])?;
        Ok::<_, std::io::Error>(stream)
    };
    (0..count).filter_map(|n| one(n).ok()).collect()
}

#[test]
fn thousands_of_heads_that_never_end_lock_nobody_out() {
    let _alone = alone();
    let files = skyhaul::io::host::descriptors::raise();
    let site = HttpService::new();
    let before = resident();
    // Both ends are in this process.
    if files < 16_384 {
        println!("SKIPPED: {files} open files are too few (ulimit -Hn 16384)");
        return;
    }
    // One address, which is the honest client's, too.
    let mut held = half_heads(&site, "127.0.0.1", 1500);
    site.serves_the_honest("beside 1500 of its own address");
    assert!(site.metric("connections") <= MAX_PER_ADDRESS + CLOSING);
    // Several, which together want more than there are.
    for address in 2..8 {
        held.extend(half_heads(&site, &format!("127.0.0.{address}"), 700));
    }
    site.serves_the_honest("beside 5700 of seven addresses");
    let open = site.metric("connections");
    assert!((MAX_CONNECTIONS / 2..=MAX_CONNECTIONS + CLOSING).contains(&open), "{open} are open");
    assert!(site.metric("connections_displaced_total") > 0);
    // What it needs for itself it has: a load balancer opens its sockets.
    let (status, said) = site.ask("POST", "/lb", &site.operator(), &json!({"name": "another"}));
    assert_eq!(status, 200, "{said}");
    let grown = resident().saturating_sub(before);
    assert!(grown < MAX_CONNECTIONS as usize * (16 << 10) + BESIDE, "{grown} bytes for {open} connections");
    // They have ten seconds for a head.
    wait_for("half heads to be closed", || (site.metric("connections") < 100).then_some(()));
    drop(held);
}

#[test]
fn bodies_of_those_who_show_no_token_are_not_read() {
    let _alone = alone();
    let site = HttpService::new();
    let before = resident();
    // 8 × 32 streams of HTTP/2, each of which sends as much as it is allowed to.
    let flooded = flood(site.address(), 8, 32);
    site.serves_the_honest("beside 256 streams");
    wait_for("each stream to be refused", || (flooded.refused() == 256).then_some(()));
    // The same over HTTP/1.
    let body = vec![b' '; 200_000];
    let mut said = Vec::new();
    for _ in 0..64 {
        let mut stream = TcpStream::connect(site.address()).unwrap();
        let head = format!("POST /lb HTTP/1.1\r\nHost: a\r\nContent-Length: {}\r\n\r\n", 1 << 30);
        stream.write_all(head.as_bytes()).unwrap();
        let _ = stream.write_all(&body);
        let mut answer = [0; 12];
        if stream.read_exact(&mut answer).is_ok() {
            said.push(answer);
        }
    }
    assert!(said.len() >= 32 && said.iter().all(|answer| answer == b"HTTP/1.1 401"), "{}", said.len());
    site.serves_the_honest("beside both");
    // A window of 64 KiB for each connection.
    let grown = resident().saturating_sub(before);
    assert!(grown < (8 + 64) * (64 << 10) + BESIDE, "{grown} bytes");
    assert!(flooded.sent() < 8 << 20, "{} bytes were taken", flooded.sent());
}

#[test]
fn bodies_that_never_end_keep_nobody_waiting() {
    let _alone = alone();
    let site = HttpService::new();
    let one = site.reserve();
    let (slow, other) = (site.worker_of(&one), site.worker_of(&one));
    // A valid token, and 64 bodies that stop in the middle.
    let head = format!(
        "POST /sessions/{}/state HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer {}\r\nContent-Length: 100\r\n\r\n{{",
        slow.session, slow.token
    );
    let mut held: Vec<TcpStream> = (0..64)
        .map(|_| {
            let mut stream = TcpStream::connect(site.address()).unwrap();
            stream.write_all(head.as_bytes()).unwrap();
            stream
        })
        .collect();
    site.serves_the_honest("of another tenant");
    site.serves(5, "a worker of the same reservation", || {
        let (path, state) = (format!("/sessions/{}/state", other.session), json!({"isReady": true}));
        assert_eq!(site.ask("POST", &path, &other.token, &state).0, 200);
    });
    // A body has ten seconds. Four calls of a token are let in at a time, in any order; the others wait, and get 429 after thirty.
    held.iter().for_each(|stream| stream.set_nonblocking(true).unwrap());
    let mut told: Vec<[u8; 12]> = Vec::new();
    wait_for("the bodies that were waited for", || {
        held.retain_mut(|stream| {
            let mut answer = [0; 12];
            match stream.read(&mut answer) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => true,
                read => {
                    assert_eq!(read.unwrap(), answer.len());
                    told.push(answer);
                    false
                }
            }
        });
        (told.len() >= 4).then_some(())
    });
    assert!(told[..4].iter().all(|answer| answer == b"HTTP/1.1 503"), "{told:?}");
}

/// A token for this reservation or session, made with `token`.
fn child(site: &HttpService, token: &str, kind: &str, id: &str) -> (u16, Value) {
    let permission = json!({"resourceType": kind, "resourceId": id, "permission": "UPDATE"});
    site.ask("POST", "/tokens", token, &json!({"name": "c", "permissions": [permission]}))
}

#[test]
fn tokens_that_one_makes_take_no_room_of_others() {
    let _alone = alone();
    let site = HttpService::new();
    let (one, other) = (site.reserve(), site.reserve());
    let worker = site.worker_of(&one);
    // In width and in depth: a child of each child, as far as it goes.
    let (mut tokens, mut made) = (vec![worker.token.clone()], 0);
    while let Some(token) = tokens.pop() {
        while let (200, said) = child(&site, &token, "SESSION", &worker.session) {
            tokens.push(said["token"].as_str().unwrap().to_owned());
            made += 1;
            assert!(made <= 16, "a worker's token has more children than it may");
        }
    }
    assert_eq!(made, 16);
    let (status, said) = child(&site, &worker.token, "SESSION", &worker.session);
    assert!(status == 429 && said["error"].as_str().unwrap().contains("; hint: "), "{said}");
    // One generation after the other, of a reservation's token.
    let (mut token, mut generations) = (one.token.clone(), 1);
    while let (200, said) = child(&site, &token, "RESERVATION", &one.id) {
        token = said["token"].as_str().unwrap().to_owned();
        generations += 1;
    }
    assert_eq!(generations, 8);
    // As many as one token may make, and no more; who else makes one has room, and each worker has a seat.
    let more = (0..2000).take_while(|_| child(&site, &one.token, "RESERVATION", &one.id).0 == 200).count();
    assert!((200..=256).contains(&more), "{more}");
    assert_eq!(child(&site, &other.token, "RESERVATION", &other.id).0, 200);
    assert_eq!(child(&site, &site.operator(), "RESERVATION", &one.id).0, 200);
    site.worker_of(&one);
    // All of it ends while others are served.
    std::thread::scope(|threads| {
        let ends = threads.spawn(|| site.ask("DELETE", &format!("/lb/{}", one.id), &one.token, &Value::Null));
        site.serves_the_honest("while a reservation ends");
        assert_eq!(ends.join().unwrap().0, 200);
    });
    assert_eq!(site.metric("tokens"), 3, "the operator's, the other's, and its child");
}

#[test]
fn a_selector_of_slashes_is_refused_before_it_is_looked_at() {
    let _alone = alone();
    let site = HttpService::new();
    site.worker_of(&site.reserve());
    for (bytes, refused) in [(200_000, 400), (1 << 20, 413)] {
        let wanted = json!({"seriesSelector": vec!["/".repeat(bytes)]});
        std::thread::scope(|threads| {
            let asking = threads.spawn(|| {
                for _ in 0..20 {
                    let (status, said) =
                        site.http("GET", "/timeseries", &site.operator(), &wanted.to_string());
                    assert_eq!(status, refused, "{said}");
                }
            });
            site.serves_the_honest("beside selectors of slashes");
            asking.join().unwrap();
        });
    }
    let many = json!({"seriesSelector": vec!["/*/*/*/*/x"; 33]});
    assert_eq!(site.ask("GET", "/timeseries", &site.operator(), &many).0, 400);
}

#[test]
fn a_process_that_takes_its_time_to_start_keeps_nobody_waiting() {
    let _alone = alone();
    let directory = tempfile::tempdir().unwrap();
    let command = ["sh", "-c", "sleep 3; echo never >&2; exit 1"].map(Into::into).to_vec();
    let site = HttpService::with(Some(PlaneProcesses { command, sockets: directory.path().join("plane-") }));
    std::thread::scope(|threads| {
        let begun = Instant::now();
        let reserving = threads.spawn(|| site.ask("POST", "/lb", &site.operator(), &json!({})));
        std::thread::sleep(Duration::from_millis(300));
        site.serves_the_honest("while a process starts");
        assert!(begun.elapsed() > Duration::from_secs(3) || !reserving.is_finished());
        let (status, said) = reserving.join().unwrap();
        assert!(status == 503 && said["error"].as_str().unwrap().contains("never"), "{said}");
    });
}

/// 10 000 registrations from 8 clients; how many were taken.
fn register_all(plane: &ControlPlane) -> usize {
    let (taken, refused) = (AtomicUsize::new(0), AtomicUsize::new(0));
    std::thread::scope(|threads| {
        for _ in 0..8 {
            threads.spawn(|| {
                for n in 0..1250 {
                    let ask = RegisterRequest {
                        name: format!("w{n}"),
                        ip_address: "127.0.0.1".to_owned(),
                        udp_port: 17_750,
                        ..Default::default()
                    };
                    match plane.register(ask) {
                        Ok(_) => taken.fetch_add(1, Ordering::Relaxed),
                        Err(error) => {
                            let said = error.to_string();
                            assert!(!error.is_away() && said.contains("hint: "), "{said}");
                            refused.fetch_add(1, Ordering::Relaxed)
                        }
                    };
                }
            });
        }
    });
    assert_eq!(taken.load(Ordering::Relaxed) + refused.load(Ordering::Relaxed), 10_000);
    taken.load(Ordering::Relaxed)
}

#[test]
fn ten_thousand_registrations_over_the_network() {
    let _alone = alone();
    // Workers that do not report are removed, and beside other tests all these calls take longer than that.
    let config = BalancerConfig { removed: Nanos(3_600_000_000_000), ..BalancerConfig::default() };
    let balance = BalanceOptions { config, ..BalanceOptions::default() };
    let (api, server) = serve_as("127.0.0.1", None, balance);
    let options = ClientOptions { deadline: std::time::Duration::from_secs(120), ..ClientOptions::default() };
    let uri = format!("ejfat://{OPERATOR}@{}/", server.address()).parse().unwrap();
    let operator = ControlPlane::new(&uri, &options).unwrap();
    let reserved = operator.reserve(ReserveLoadBalancerRequest::default()).unwrap();
    let plane = ControlPlane::new(&operator.uri_of(&reserved), &options).unwrap();

    assert_eq!(register_all(&plane), MAX_WORKERS);
    let before = resident();
    assert_eq!(register_all(&plane), 0, "there are no more seats");
    let grown = resident().saturating_sub(before);
    assert!(grown < 64 << 20, "refusals took {grown} octets");
    assert_eq!(plane.status().unwrap().workers.len(), MAX_WORKERS);
    // Nobody of them is left, with its token, when the reservation ends.
    plane.free().unwrap();
    assert_eq!(api.numbers(), (1, 0));
    assert!(plane.register(RegisterRequest::default()).unwrap_err().is_unknown());
}
