//! Both ends on loopback, and peers that do not behave.

mod shared_port;
mod tls;

use super::message::framed;
use super::*;
use serde_json::{Value, json};
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::time::{Duration, Instant};

const SOON: Duration = Duration::from_secs(20);

fn token() -> Token {
    Token::new("the-token-of-these-tests").unwrap()
}

/// Repeats messages, lets further connections in, fails on demand.
struct Parrot;

impl Service for Parrot {
    fn name(&self) -> &'static str {
        "parrot"
    }
    fn admit(&self, body: &Value, _: &Limits) -> Result<Admission, String> {
        match body.as_str() {
            Some("aside") => Ok(Admission::aside(Duration::from_secs(1))),
            Some("long") => Ok(Admission::slot(Duration::from_secs(10_000))),
            Some(_) => Ok(Admission::slot(Duration::from_secs(5))),
            None => Err("not a text".into()),
        }
    }
    fn run(&self, session: &mut Session<'_>, body: Value) -> Result<(), PeerError> {
        assert!(body != "panic", "as it was told");
        let connections = session.data_connections(1, body == "encrypted")?;
        session.connection.send(&connections.cookie())?;
        while !session.is_over() {
            if let Some(stream) = connections.next(Duration::ZERO) {
                let (socket, mut encryptor) = stream.into_sender()?;
                let records = encryptor.as_mut().map_or(Ok(&b"in"[..]), |one| one.records(b"in"))?;
                (&socket).write_all(records)?;
            }
            match session.connection.receive::<Value>(Duration::from_millis(20)) {
                Ok(word) if word == "bye" => return Ok(()),
                Ok(word) => session.connection.send(&word)?,
                Err(error) if error.is_late() => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}

fn serve(options: ServerOptions) -> Server {
    Server::start("127.0.0.1:0".parse().unwrap(), token(), options, vec![Box::new(Parrot)]).unwrap()
}

/// A client for which `body` runs.
fn running(server: &Server, body: &str) -> (Connection, String) {
    let mut peer = connect(server.local(), &token(), SOON).unwrap();
    peer.ask("parrot", &body, &mut |_| true).unwrap();
    let cookie = peer.receive(SOON).unwrap();
    (peer, cookie)
}

fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let end = Instant::now() + SOON;
    while !holds() {
        assert!(Instant::now() < end, "{what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn messages_go_both_ways_and_one_connection_asks_again() {
    let server = serve(ServerOptions::default());
    let (mut peer, _) = running(&server, "a");
    for word in [json!("x"), json!({ "long": "y".repeat(200_000) })] {
        peer.send(&word).unwrap();
        assert_eq!(peer.receive::<Value>(SOON).unwrap(), word);
    }
    assert_eq!(peer.poll::<Value>().unwrap(), None);
    assert!(peer.receive::<Value>(Duration::from_millis(10)).unwrap_err().is_late());
    assert!(matches!(peer.send(&"y".repeat(MAX_REQUEST_BYTES)), Err(PeerError::TooLong { .. })));
    peer.send(&"bye").unwrap();
    let said = peer.ask("parrot", &1, &mut |_| true).unwrap_err().to_string();
    assert!(said.ends_with("refused: not a text"), "{said}");
    let said = peer.ask("owl", &1, &mut |_| true).unwrap_err().to_string();
    assert!(said.contains("unknown service `owl`; this server has parrot"), "{said}");
    let said = peer.ask("parrot", &"long", &mut |_| true).unwrap_err().to_string();
    assert!(said.contains("the limit is 600 s; hint: "), "{said}");
    peer.ask("parrot", &"b", &mut |_| true).unwrap();
}

#[test]
fn whoever_does_not_know_the_token_or_is_no_peer_is_told_apart() {
    let server = serve(ServerOptions::default());
    let other = Token::new("another-token-of-theirs").unwrap();
    assert!(matches!(connect(server.local(), &other, SOON), Err(PeerError::Token(_))));
    until("it is counted", || server.stats().unproven == 1);
    for said in [
        b"HTTP/1.1 400 Bad Request\r\n\r\n".as_slice(),
        b"",
        b"\0\0\0\x02{}",
        b"\0\0\0\x18{\"skyhaul\":2,\"nonce\":\"\"}",
        b"\0\0\0\x18{\"skyhaul\":2,\"nonce\":\"\"}\x16\x03\x03\xff\xff",
    ] {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let at = listener.local_addr().unwrap();
        std::thread::spawn(move || listener.accept().unwrap().0.write_all(said).unwrap());
        let error = connect(at, &token(), SOON).unwrap_err();
        assert!(matches!(error, PeerError::Stranger(_)), "{said:?}: {error}");
    }
    let nobody = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let said = connect(nobody, &token(), SOON).unwrap_err().to_string();
    assert!(said.contains("; hint: start `skyhaul probe serve` there"), "{said}");
}

#[test]
fn garbage_leaves_the_server_as_it_was() {
    let server = serve(ServerOptions::default());
    for bytes in [
        b"\xff\xff\xff\xff".as_slice(),
        b"\0\0\0\x04null",
        b"\0\0\x01",
        b"GET / HTTP/1.1\r\n\r\n",
        &[0; 5000],
    ] {
        let mut stream = TcpStream::connect(server.local()).unwrap();
        let _ = stream.write_all(bytes);
    }
    until("all are out", || server.stats().unproven == 5);
    running(&server, "a");
}

#[test]
fn others_wait_in_line_and_are_told_how_long() {
    let options = ServerOptions { queue: 1, ..ServerOptions::default() };
    let server = serve(options);
    let (mut first, _) = running(&server, "a");
    let at = server.local();
    let second = std::thread::spawn(move || {
        let mut peer = connect(at, &token(), SOON).unwrap();
        let mut told = Vec::new();
        let went = peer.ask("parrot", &"b", &mut |waiting| {
            told.push(waiting);
            true
        });
        went.map(|()| told)
    });
    until("it waits", || server.stats().waiting == 1);
    let mut third = connect(at, &token(), SOON).unwrap();
    let said = third.ask("parrot", &"c", &mut |_| true).unwrap_err().to_string();
    assert!(said.contains("1 clients are waiting; hint: try again later"), "{said}");
    let (_aside, _) = running(&server, "aside");
    first.send(&"bye").unwrap();
    let told = second.join().unwrap().unwrap();
    assert!(told[0].ahead == 0 && told[0].seconds > 0.0 && told[0].seconds <= 5.0, "{told:?}");
}

#[test]
fn a_client_that_vanishes_or_fails_frees_its_slot() {
    let server = serve(ServerOptions::default());
    drop(running(&server, "a"));
    let (mut second, _) = running(&server, "b");
    second.send(&"bye").unwrap();
    let mut third = connect(server.local(), &token(), SOON).unwrap();
    third.ask("parrot", &"panic", &mut |_| true).unwrap();
    assert!(matches!(third.receive::<Value>(SOON), Err(PeerError::Closed(_))));
    running(&server, "c");
    until("both are counted", || server.stats().failed >= 2);
}

#[test]
fn further_connections_come_in_by_the_cookie_only() {
    let server = serve(ServerOptions::default());
    let (peer, cookie) = running(&server, "a");
    let mut stream = attach(server.local(), &token(), &cookie, false, SOON).unwrap();
    let mut said = [0; 2];
    stream.read_exact(&mut said).unwrap();
    assert_eq!(&said, b"in");
    for wrong in ["", "00", "00112233445566778899aabbccddeeff"] {
        let error = attach(server.local(), &token(), wrong, false, SOON).unwrap_err();
        assert!(error.to_string().contains("unknown cookie"), "{error}");
    }
    drop(peer);
    until("its room is gone", || attach(server.local(), &token(), &cookie, false, SOON).is_err());
}

#[test]
fn data_connections_are_encrypted_if_the_service_wants_it_and_not_else() {
    let server = serve(ServerOptions { tests: 2, ..ServerOptions::default() });
    for (body, encrypted, why) in
        [("a", false, "are not encrypted"), ("encrypted", true, "must be encrypted")]
    {
        let (_peer, cookie) = running(&server, body);
        let mut stream = attach(server.local(), &token(), &cookie, encrypted, SOON).unwrap();
        let mut said = Vec::new();
        stream.read_to_end(&mut said).unwrap();
        assert_eq!((said.as_slice(), stream.is_encrypted()), (&b"in"[..], encrypted));
        let error = attach(server.local(), &token(), &cookie, !encrypted, SOON).unwrap_err();
        assert!(error.to_string().contains(why), "{error}");
    }
}

#[test]
fn a_server_that_stops_ends_its_sessions() {
    let server = serve(ServerOptions::default());
    let (mut peer, _) = running(&server, "a");
    drop(server);
    assert!(matches!(peer.receive::<Value>(SOON), Err(PeerError::Closed(_))));
}

#[test]
fn the_entry_for_the_fuzzer_takes_messages_in_pieces() {
    let whole = framed(&serde_json::to_vec(&Answer::Go).unwrap(), 99).unwrap();
    for choice in 0..=255 {
        fuzz(&[&[choice], whole.as_slice(), &whole, &[9, 9]].concat());
    }
}

#[test]
fn messages_come_out_whole_in_whatever_pieces_they_come() {
    let stream = [framed(b"one", 9).unwrap(), framed(b"", 9).unwrap(), framed(b"two", 9).unwrap()].concat();
    for piece in 1..stream.len() {
        let (mut frames, mut got) = (Frames::new(9), Vec::new());
        for chunk in stream.chunks(piece) {
            let mut rest = chunk;
            while !rest.is_empty() {
                let n = frames.wanted().min(rest.len());
                frames.push(&rest[..n]);
                rest = &rest[n..];
                got.extend(frames.next_frame().unwrap());
            }
        }
        assert_eq!(got, [b"one".to_vec(), vec![], b"two".to_vec()]);
        assert_eq!(frames.held(), 0);
    }
}

#[test]
fn a_length_beyond_the_limit_ends_the_stream_before_anything_is_kept() {
    let mut frames = Frames::new(512);
    frames.push(&513u32.to_be_bytes());
    assert_eq!(frames.wanted(), 0);
    assert!(matches!(frames.next_frame(), Err(PeerError::TooLong { bytes: 513, most: 512 })));
    assert!(framed(&[0; 10], 9).is_err());
    let mut frames = Frames::new(1 << 30);
    frames.push(&(1u32 << 30).to_be_bytes());
    assert!(frames.bytes.capacity() < 4096, "a promise takes no memory");
}
