//! Attacks on a service with TLS, an honest client beside them: it is served, and each connection that ends is counted.

use super::*;
use crate::tcp_service::{ConnectionCounts, MAX_CLOSING};
use axum::routing::get;
use std::io::{Read, Write};
use std::net::TcpStream as StdStream;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tokio_rustls::rustls::pki_types::{PrivateKeyDer, ServerName};
use tokio_rustls::rustls::{ClientConfig, RootCertStore, ServerConfig, crypto::ring};

/// A service with TLS, and what an honest client of it needs.
struct TlsService {
    server: HttpServer,
    client: TlsConnector,
    runtime: tokio::runtime::Runtime,
}

impl TlsService {
    fn start(carries: Carries, connections: &Arc<Connections>) -> TlsService {
        let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
        let key = PrivateKeyDer::try_from(made.signing_key.serialize_der()).unwrap();
        let provider = Arc::new(ring::default_provider());
        let server = ServerConfig::builder_with_provider(Arc::clone(&provider))
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(vec![made.cert.der().clone()], key)
            .unwrap();
        let mut roots = RootCertStore::empty();
        roots.add(made.cert.der().clone()).unwrap();
        let client = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(roots)
            .with_no_client_auth();
        let site = HttpService {
            name: "tls-test",
            carries,
            router: Router::new().route("/", get(|| async { "served" })),
            tls: Some(TlsAcceptor::from(Arc::new(server))),
            clients: None,
            peers: None,
            connections: Arc::clone(connections),
            marker: None,
        };
        let server = HttpServer::start(site, "127.0.0.1:0".parse().unwrap(), std::future::pending).unwrap();
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        TlsService { server, client: TlsConnector::from(Arc::new(client)), runtime }
    }

    fn raw(&self, bytes: &[u8]) -> StdStream {
        let mut stream = StdStream::connect(self.server.address()).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        // It may be closed before all is sent.
        let _ = stream.write_all(bytes);
        stream
    }

    /// A connection with a complete handshake, on which this was sent.
    fn behind_a_handshake(&self, bytes: &[u8]) -> TlsStream<TcpStream> {
        self.runtime.block_on(async {
            let tcp = TcpStream::connect(self.server.address()).await.unwrap();
            let name = ServerName::try_from("localhost").unwrap();
            let mut stream = self.client.connect(name, tcp).await.unwrap();
            stream.write_all(bytes).await.unwrap();
            stream
        })
    }

    /// A request with a head of more than this many bytes is answered.
    #[track_caller]
    fn serves(&self, bytes: usize) {
        let head =
            format!("GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\nX: {}\r\n\r\n", "x".repeat(bytes));
        let mut stream = self.behind_a_handshake(head.as_bytes());
        let mut said = Vec::new();
        let _ = self.runtime.block_on(stream.read_to_end(&mut said));
        assert!(said.ends_with(b"served"), "{}", String::from_utf8_lossy(&said));
    }
}

/// Wait until the counts are these.
#[track_caller]
fn counted(connections: &Connections, what: &str, mut wanted: impl FnMut(ConnectionCounts) -> bool) {
    let begun = Instant::now();
    while !wanted(connections.counts()) {
        assert!(begun.elapsed() < Duration::from_secs(60), "{what}: {:?}", connections.counts());
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// A part of a message of a handshake that claims to be 65 520 bytes long, in records.
fn endless_hello(bytes: usize) -> Vec<u8> {
    let mut message = vec![1, 0, 0xFF, 0xF0, 3, 3];
    message.resize(bytes, 0);
    let record = |part: &[u8]| [&[22, 3, 1][..], &(part.len() as u16).to_be_bytes(), part].concat();
    message.chunks(4096).flat_map(record).collect()
}

#[test]
fn a_handshake_takes_a_bounded_number_of_bytes_and_what_is_none_is_counted() {
    for carries in [Carries::Calls, Carries::Files] {
        let connections = Connections::with(64, 64);
        let service = TlsService::start(carries, &connections);
        service.serves(1);
        // More than a handshake may have, in one request behind it.
        service.serves(12_000);
        let attacks: [&[u8]; 4] = [
            // 64 KiB that a parser of TLS would keep.
            &endless_hello(60_000),
            b"GET / HTTP/1.1\r\nHost: a\r\n\r\n",
            &[0x5A; 4096],
            // An alert instead of a handshake.
            &[21, 3, 3, 0, 2, 2, 40],
        ];
        for (number, attack) in attacks.into_iter().enumerate() {
            let mut stream = service.raw(attack);
            let mut said = Vec::new();
            // It ends by the server: closed, or reset if there was more to read.
            let _ = stream.read_to_end(&mut said);
            counted(&connections, "a handshake that fails", |counts| {
                counts.failed_handshakes == number as u64 + 1
            });
            service.serves(1);
        }
        assert_eq!(connections.counts().silent, 0, "{:?}", connections.counts());
    }
}

#[test]
fn handshakes_and_heads_that_never_end_are_ended_beside_honest_clients() {
    let connections = Connections::with(64, 64);
    let service = TlsService::start(Carries::Calls, &connections);
    // A byte at a time; nothing; 16 000 bytes and no more; and behind a handshake a head that does not end.
    let mut drip = service.raw(&endless_hello(100)[..1]);
    let held = [service.raw(b""), service.raw(&endless_hello(16_000))];
    let heads = [service.behind_a_handshake(b"GET / HT"), service.behind_a_handshake(b"")];
    let hello = endless_hello(60_000);
    let mut at = 1;
    counted(&connections, "what is silent to be closed", |counts| {
        at += usize::from(drip.write_all(&hello[at..at + 1]).is_ok());
        counts.silent == 5
    });
    let counts = connections.counts();
    assert_eq!((counts.failed_handshakes, counts.refused, counts.displaced), (3, 0, 0), "{counts:?}");
    service.serves(1);
    drop((held, heads));
    counted(&connections, "all to be closed", |counts| counts.open == 0);
}

#[test]
fn more_handshakes_than_there_are_places_displace_each_other() {
    let connections = Connections::with(32, 16);
    let service = TlsService::start(Carries::Files, &connections);
    let held: Vec<StdStream> = (0..400).map(|_| service.raw(&[22])).collect();
    for _ in 0..5 {
        service.serves(1);
    }
    counted(&connections, "the others to be closed", |counts| counts.displaced >= 384);
    let counts = connections.counts();
    assert!(
        counts.open <= 16 + MAX_CLOSING as u64 && counts.failed_handshakes >= 384 - MAX_CLOSING as u64,
        "{counts:?}"
    );
    drop(held);
}
