//! A control plane in this process, an honest client of it, and streams of HTTP/2 that send all they may without a token.

#[path = "../waiting/mod.rs"]
mod waiting;

pub(crate) use waiting::wait_for;

use axum::body::Bytes;
use axum::http::Request;
use serde_json::{Value, json};
use skyhaul::balance::BalanceOptions;
use skyhaul_daemon::balancer::{Api, Instances, Limits, PlaneProcesses, Registry, Server};
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use waiting::LIMIT;

pub(crate) const OPERATOR: &str = "the-operators-token";
/// Within this an honest client is served.
const SERVED: Duration = Duration::from_secs(1);

/// One attack at a time: each looks at the memory of this process.
pub(crate) fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Memory of this process, bytes.
pub(crate) fn resident() -> usize {
    let text = std::fs::read_to_string("/proc/self/statm").unwrap();
    text.split(' ').nth(1).unwrap().parse::<usize>().unwrap() * 4096
}

pub(crate) struct HttpService {
    server: Server,
    runtime: tokio::runtime::Runtime,
}

/// What was reserved.
pub(crate) struct Reserved {
    pub(crate) id: String,
    pub(crate) token: String,
}

/// A worker that is registered.
pub(crate) struct Worker {
    pub(crate) session: String,
    pub(crate) token: String,
}

fn text(said: &Value, name: &str) -> String {
    said[name].as_str().unwrap_or_else(|| panic!("{said}")).to_owned()
}

impl HttpService {
    pub(crate) fn new() -> HttpService {
        HttpService::with(None)
    }

    pub(crate) fn with(apart: Option<PlaneProcesses>) -> HttpService {
        let registry = Registry::open(None, OPERATOR, Limits::default(), 0).unwrap();
        let balance = BalanceOptions { threads: 1, ..BalanceOptions::default() };
        let listen = vec!["127.0.0.1".parse().unwrap()];
        let instances = Instances {
            listen,
            own: Vec::new(),
            shared: false,
            data_port: 0,
            sync_port: 0,
            balance,
            upstream: Default::default(),
            apart,
        };
        let api = Arc::new(Api::open(registry, instances).unwrap());
        let server = Server::start(api, "127.0.0.1:0".parse().unwrap(), None, |_| {}).unwrap();
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        HttpService { server, runtime }
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.server.address()
    }

    pub(crate) fn operator(&self) -> String {
        OPERATOR.to_owned()
    }

    /// A connection that comes from this address of loopback.
    pub(crate) fn connect_from(&self, ip: &str) -> io::Result<TcpStream> {
        let stream = self.runtime.block_on(async {
            let socket = tokio::net::TcpSocket::new_v4()?;
            socket.bind(SocketAddr::new(ip.parse().unwrap(), 0))?;
            socket.connect(self.address()).await?.into_std()
        })?;
        stream.set_nonblocking(false)?;
        Ok(stream)
    }

    pub(crate) fn http(&self, method: &str, path: &str, token: &str, body: &str) -> (u16, String) {
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
    pub(crate) fn ask(&self, method: &str, path: &str, token: &str, body: &Value) -> (u16, Value) {
        let body = if body.is_null() { String::new() } else { body.to_string() };
        let (status, said) = self.http(method, path, token, &body);
        (status, serde_json::from_str(&said).unwrap_or_else(|error| panic!("{error}: {said}")))
    }

    #[track_caller]
    pub(crate) fn reserve(&self) -> Reserved {
        let (_, said) = self.ask("POST", "/lb", OPERATOR, &json!({"name": "r"}));
        Reserved { id: text(&said, "lbId"), token: text(&said, "token") }
    }

    #[track_caller]
    pub(crate) fn worker_of(&self, reserved: &Reserved) -> Worker {
        let wanted = json!({"name": "w", "ipAddress": "127.0.0.1", "udpPort": 17750});
        let path = format!("/lb/{}/sessions", reserved.id);
        let (_, said) = self.ask("POST", &path, &reserved.token, &wanted);
        Worker { session: text(&said, "sessionId"), token: text(&said, "token") }
    }

    /// A value of `/metrics`.
    #[track_caller]
    pub(crate) fn metric(&self, name: &str) -> u64 {
        let (_, said) = self.http("GET", "/metrics", "", "");
        let line = said.lines().find_map(|line| line.strip_prefix(&format!("skyhaul_balance_{name} ")));
        line.unwrap_or_else(|| panic!("{name}: {said}")).parse().unwrap()
    }

    /// Most of the calls of an honest client, each on a new connection, are served within a second.
    #[track_caller]
    pub(crate) fn serves_the_honest(&self, what: &str) {
        self.serves(5, what, || assert_eq!(self.http("GET", "/version", OPERATOR, "").0, 200));
    }

    /// The same of any call: the median of some tries.
    #[track_caller]
    pub(crate) fn serves(&self, tries: usize, what: &str, call: impl Fn()) {
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
pub(crate) struct Flooded {
    refused: Arc<AtomicUsize>,
    sent: Arc<AtomicUsize>,
    _runtime: tokio::runtime::Runtime,
}

impl Flooded {
    /// Streams that were told that they need a token.
    pub(crate) fn refused(&self) -> usize {
        self.refused.load(Ordering::Relaxed)
    }

    /// Bytes of bodies that were sent.
    pub(crate) fn sent(&self) -> usize {
        self.sent.load(Ordering::Relaxed)
    }
}

static CHUNK: [u8; 16384] = [0; 16384];

/// So many connections with so many streams each.
pub(crate) fn flood(at: SocketAddr, connections: usize, streams: usize) -> Flooded {
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
