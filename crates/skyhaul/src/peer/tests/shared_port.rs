//! Holders of several tokens, and connections that came to the port of another service.

use super::*;
use crate::auth::ServerKey;
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ClientConnection, RootCertStore};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Answers with its name.
struct Named(&'static str);

impl Service for Named {
    fn name(&self) -> &'static str {
        self.0
    }
    fn admit(&self, _: &Value, _: &Limits) -> Result<Admission, String> {
        Ok(Admission::aside(Duration::from_secs(1)))
    }
    fn run(&self, session: &mut Session<'_>, _: Value) -> Result<(), PeerError> {
        session.connection.send(&self.0)
    }
}

/// Runs until it is over, and says so.
struct Revoked(AtomicBool);

impl Service for Revoked {
    fn name(&self) -> &'static str {
        "revoked"
    }
    fn admit(&self, _: &Value, _: &Limits) -> Result<Admission, String> {
        Ok(Admission::aside(Duration::from_secs(600)))
    }
    fn run(&self, session: &mut Session<'_>, _: Value) -> Result<(), PeerError> {
        let session = session.revocable(&self.0);
        session.connection.send(&session.is_over())?;
        self.0.store(true, Ordering::Relaxed);
        session.connection.send(&session.is_over())
    }
}

fn holders(text: &str, services: Vec<Box<dyn Service>>) -> TokenHolders {
    TokenHolders { token: Token::new(text).unwrap(), services }
}

fn two() -> Vec<TokenHolders> {
    vec![
        holders("the-token-of-the-first", vec![Box::new(Named("copy"))]),
        holders(
            "the-token-of-the-second",
            vec![Box::new(Named("udp")), Box::new(Revoked(AtomicBool::new(false)))],
        ),
    ]
}

#[test]
fn holders_of_each_token_have_services_of_their_own() {
    let (key, at) = (ServerKey::new().unwrap(), "127.0.0.1:0".parse().unwrap());
    let server = Server::start_for(&key, Some(at), two(), ServerOptions::default()).unwrap();
    for (token, own, other) in
        [("the-token-of-the-first", "copy", "udp"), ("the-token-of-the-second", "udp", "copy")]
    {
        let mut peer = connect(server.local(), &Token::new(token).unwrap(), SOON).unwrap();
        peer.ask(own, &0, &mut |_| true).unwrap();
        assert_eq!(peer.receive::<String>(SOON).unwrap(), own);
        let said = peer.ask(other, &0, &mut |_| true).unwrap_err().to_string();
        assert!(said.contains(&format!("the token does not permit `{other}`; it permits {own}")), "{said}");
        let said = peer.ask("owl", &0, &mut |_| true).unwrap_err().to_string();
        assert!(said.contains("unknown service `owl`"), "{said}");
    }
    let stranger = Token::new("the-token-of-nobody-here").unwrap();
    assert!(matches!(connect(server.local(), &stranger, SOON), Err(PeerError::Token(_))));
    let same =
        vec![holders("the-token-of-the-first", Vec::new()), holders("the-token-of-the-first", Vec::new())];
    let said = Server::start_for(&key, Some(at), same, ServerOptions::default()).err().unwrap().to_string();
    assert!(said.contains("two clients have the same token"), "{said}");
}

#[test]
fn a_session_ends_when_it_is_revoked() {
    let (key, at) = (ServerKey::new().unwrap(), "127.0.0.1:0".parse().unwrap());
    let server = Server::start_for(&key, Some(at), two(), ServerOptions::default()).unwrap();
    let mut peer = connect(server.local(), &Token::new("the-token-of-the-second").unwrap(), SOON).unwrap();
    peer.ask("revoked", &0, &mut |_| true).unwrap();
    let over = [peer.receive::<bool>(SOON).unwrap(), peer.receive(SOON).unwrap()];
    assert_eq!(over, [false, true]);
}

/// What a client says first.
fn hello() -> Vec<u8> {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let at = listener.local_addr().unwrap();
    let client = std::thread::spawn(move || connect(at, &token(), SOON).is_err());
    let (mut stream, _) = listener.accept().unwrap();
    let mut bytes = vec![0; 5];
    stream.read_exact(&mut bytes).unwrap();
    bytes.resize(5 + usize::from(u16::from_be_bytes([bytes[3], bytes[4]])), 0);
    stream.read_exact(&mut bytes[5..]).unwrap();
    drop(stream);
    assert!(client.join().unwrap());
    bytes
}

#[test]
fn the_first_bytes_tell_a_client_from_https_and_http() {
    let hello = hello();
    for end in 0..hello.len() {
        assert_eq!(FirstBytes::of(&hello[..end]), FirstBytes::Few, "{end} bytes");
    }
    assert_eq!(FirstBytes::of(&hello), FirstBytes::Peer);
    assert_eq!(FirstBytes::of(&[&hello[..], b"more"].concat()), FirstBytes::Peer);
    assert!(hello.len() < MAX_FIRST_BYTES / 2);
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions().unwrap();
    let config = config.with_root_certificates(RootCertStore::empty()).with_no_client_auth();
    let name = ServerName::try_from("mh.example").unwrap();
    let mut https = ClientConnection::new(Arc::new(config), name).unwrap();
    let mut bytes = Vec::new();
    https.write_tls(&mut bytes).unwrap();
    assert_eq!(FirstBytes::of(&bytes), FirstBytes::Other);
    for other in [
        &b"G"[..],
        b"GET / HTTP/1.1\r\n",
        b"\x16\x02",
        b"\x16\x03\x01\x10\x01",
        b"\x15\x03\x03\x00\x02\x01\x00",
        b"\0",
    ] {
        assert_eq!(FirstBytes::of(other), FirstBytes::Other, "{other:?}");
    }
    // A hello that is damaged anywhere is no reason to fail.
    for at in 0..hello.len() {
        let mut damaged = hello.clone();
        damaged[at] ^= 0xff;
        let _ = FirstBytes::of(&damaged);
    }
}

#[test]
fn a_connection_to_another_port_is_served_while_the_server_runs() {
    let key = ServerKey::new().unwrap();
    let server = Server::start_for(&key, None, two(), ServerOptions::default()).unwrap();
    let (intake, listener) = (server.intake(), TcpListener::bind("127.0.0.1:0").unwrap());
    let at = listener.local_addr().unwrap();
    assert!(server.is_running() && server.local().port() == 0);
    let other_port = std::thread::spawn(move || {
        for stream in listener.incoming().take(2) {
            let stream = stream.unwrap();
            // As an asynchronous runtime leaves it.
            stream.set_nonblocking(true).unwrap();
            intake.take(stream);
        }
        intake.stats().accepted
    });
    let token = Token::new("the-token-of-the-first").unwrap();
    let mut peer = connect(at, &token, SOON).unwrap();
    peer.ask("copy", &0, &mut |_| true).unwrap();
    assert_eq!(peer.receive::<String>(SOON).unwrap(), "copy");
    drop(server);
    assert!(connect(at, &token, SOON).is_err());
    assert_eq!(other_port.join().unwrap(), 1);
}
