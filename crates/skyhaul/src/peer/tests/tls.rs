//! Who is between the ends, or does not keep to TLS.

use super::super::channel::{Channel, MAX_HANDSHAKE_BYTES, server_config};
use super::super::connection::Connection;
use super::*;
use crate::auth::{Fingerprint, ServerKey};
use std::net::{Shutdown, SocketAddr};
use std::sync::mpsc::{Receiver, Sender, channel};

const HEAD: usize = 5;

/// The token, for the servers with these keys.
fn pinned(keys: &[&Fingerprint]) -> Token {
    let lines = keys.iter().map(|key| format!("\n{key}"));
    Token::of_file(&std::iter::once("the-token-of-these-tests".to_owned()).chain(lines).collect::<String>())
        .unwrap()
}

fn record(from: &mut TcpStream) -> Option<Vec<u8>> {
    let mut bytes = vec![0; HEAD];
    from.read_exact(&mut bytes).ok()?;
    bytes.resize(HEAD + usize::from(u16::from_be_bytes([bytes[3], bytes[4]])), 0);
    from.read_exact(&mut bytes[HEAD..]).ok()?;
    Some(bytes)
}

/// What becomes of a record: the number of it and its bytes; nothing ends the connection.
type Change = fn(usize, Vec<u8>) -> Option<Vec<u8>>;

fn pass(_: usize, record: Vec<u8>) -> Option<Vec<u8>> {
    Some(record)
}

/// A relay to `server` that changes the records of the client and those of the server. It keeps all bytes of both.
fn relay(server: SocketAddr, client_says: Change, server_says: Change) -> (SocketAddr, Receiver<Vec<u8>>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let at = listener.local_addr().unwrap();
    let (kept, keeps) = channel();
    std::thread::spawn(move || {
        let (client, _) = listener.accept().unwrap();
        let mut far = TcpStream::connect(server).unwrap();
        let mut preface = [0; 4 + 24];
        far.read_exact(&mut preface).unwrap();
        (&client).write_all(&preface).unwrap();
        let half = |mut from: TcpStream, mut to: TcpStream, change: Change, kept: Sender<Vec<u8>>| {
            std::thread::spawn(move || {
                let (mut all, mut number) = (Vec::new(), 0);
                while let Some(bytes) = record(&mut from) {
                    all.extend_from_slice(&bytes);
                    let Some(bytes) = change(number, bytes) else { break };
                    number += 1;
                    if to.write_all(&bytes).is_err() {
                        break;
                    }
                }
                let _ = (to.shutdown(Shutdown::Both), from.shutdown(Shutdown::Both));
                let _ = kept.send(all);
            })
        };
        half(client.try_clone().unwrap(), far.try_clone().unwrap(), client_says, kept.clone());
        half(far, client, server_says, kept);
    });
    (at, keeps)
}

/// A client of the service through a relay; records 0 to 3 of a client are its hello, a change of the cipher, its end of TLS, and its
/// proof; 4 is its request.
const FIRST_WORD: usize = 5;

fn talks(at: SocketAddr) -> Connection {
    let mut peer = connect(at, &token(), SOON).unwrap();
    peer.ask("parrot", &"a", &mut |_| true).unwrap();
    let _cookie: String = peer.receive(SOON).unwrap();
    peer
}

#[test]
fn nothing_can_be_read_on_the_way_and_a_recorded_connection_opens_nothing() {
    let server = serve(ServerOptions::default());
    let (at, keeps) = relay(server.local(), pass, pass);
    let mut peer = talks(at);
    peer.send(&"in-plain-text").unwrap();
    assert_eq!(peer.receive::<Value>(SOON).unwrap(), "in-plain-text");
    drop(peer);
    let both = [keeps.recv().unwrap(), keeps.recv().unwrap()];
    for bytes in &both {
        for word in [b"in-plain-text".as_slice(), b"parrot", b"proof", b"the-token"] {
            assert!(!bytes.windows(word.len()).any(|part| part == word), "{}", String::from_utf8_lossy(word));
        }
    }
    until("its end is seen", || server.stats().half_open == 0);
    let before = server.stats();
    for recorded in both {
        let mut again = TcpStream::connect(server.local()).unwrap();
        let _ = again.write_all(&recorded);
        let _ = again.read_to_end(&mut Vec::new());
    }
    until("they are counted", || server.stats().unproven == before.unproven + 2);
    assert_eq!(server.stats().done, before.done);
}

#[test]
fn a_record_that_is_altered_repeated_or_left_out_ends_the_connection() {
    let altered: Change = |number, mut bytes| {
        if number == FIRST_WORD + 1 {
            bytes[HEAD] ^= 1;
        }
        Some(bytes)
    };
    let repeated: Change =
        |number, bytes| Some(if number == FIRST_WORD + 1 { [bytes.clone(), bytes].concat() } else { bytes });
    let left_out: Change = |number, bytes| Some(if number == FIRST_WORD { Vec::new() } else { bytes });
    for (change, answered) in [(altered, 1), (repeated, 2), (left_out, 0)] {
        let server = serve(ServerOptions::default());
        let (at, _keeps) = relay(server.local(), change, pass);
        let mut peer = talks(at);
        // The second may find the connection closed.
        let _ = (peer.send(&0), peer.send(&1));
        let mut heard = 0;
        let ended = loop {
            match peer.receive::<Value>(SOON) {
                Ok(word) => assert_eq!(word, heard),
                Err(error) => break error,
            }
            heard += 1;
        };
        assert!(heard <= answered && (heard > 0 || answered == 0), "{heard} answers, {answered} at most");
        assert!(matches!(ended, PeerError::Forged(_) | PeerError::Closed(_)), "{ended}");
        until("it is counted", || server.stats().failed == 1);
    }
}

#[test]
fn a_stream_that_breaks_off_in_a_message_is_an_error_of_its_own() {
    let server = serve(ServerOptions::default());
    // The answer of 200 000 bytes has some twelve records, and the relay ends behind one of them, or within one.
    let behind: Change = |number, bytes| (number < 12).then_some(bytes);
    let within: Change = |number, mut bytes| {
        bytes.truncate(if number < 12 { bytes.len() } else { 100 });
        (number < 13).then_some(bytes)
    };
    for change in [behind, within] {
        let (at, _keeps) = relay(server.local(), pass, change);
        let mut peer = talks(at);
        peer.send(&"y".repeat(200_000)).unwrap();
        let ended = peer.receive::<Value>(SOON).unwrap_err();
        assert!(matches!(ended, PeerError::Truncated(_)), "{ended}");
        assert!(ended.to_string().contains("broke off in the middle of a message; hint: "), "{ended}");
    }
    // A server that hears half a message counts it; one whose client closes does not.
    let half: Change = |number, mut bytes| {
        bytes.truncate(if number == FIRST_WORD { 10 } else { bytes.len() });
        (number <= FIRST_WORD).then_some(bytes)
    };
    let (at, _keeps) = relay(server.local(), half, pass);
    let mut peer = talks(at);
    let before = server.stats().failed;
    peer.send(&"x").unwrap();
    let _ = peer.send(&"x");
    until("it is counted", || server.stats().failed > before);
}

/// Ends TLS on both sides, with a key of its own: what a client says goes to the server, and back. It keeps what it can read.
fn terminating(server: SocketAddr, key: &ServerKey) -> (SocketAddr, Receiver<Vec<u8>>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let at = listener.local_addr().unwrap();
    let (config, (kept, keeps)) = (server_config(key).unwrap(), channel());
    std::thread::spawn(move || {
        let (near, from) = listener.accept().unwrap();
        let far = TcpStream::connect(server).unwrap();
        let end = Instant::now() + SOON;
        let mut near = Channel::server(near, from, &config).unwrap();
        let mut far = Channel::client(far, server).unwrap();
        let mut preface = [0; 4 + 24];
        let mut length = 0;
        while length < preface.len() {
            length += far.read_plain(&mut preface[length..], end).unwrap();
        }
        near.write_plain(&preface, end).unwrap();
        far.handshake(end).unwrap();
        near.handshake(end).unwrap();
        let mut read = Vec::new();
        let mut bytes = [0; 4096];
        let mut pump = |from: &mut Channel, to: &mut Channel, read: Option<&mut Vec<u8>>| {
            from.wait(Duration::from_millis(10))?;
            from.read()?;
            let n = from.take(&mut bytes)?;
            if let Some(read) = read {
                read.extend_from_slice(&bytes[..n]);
            }
            to.write(&bytes[..n], end)
        };
        while pump(&mut near, &mut far, Some(&mut read)).is_ok() && pump(&mut far, &mut near, None).is_ok() {}
        let _ = kept.send(read);
    });
    (at, keeps)
}

#[test]
fn who_ends_tls_in_between_gets_no_further_with_or_without_a_pin() {
    let (key, own) = (ServerKey::new().unwrap(), ServerKey::new().unwrap());
    let options = ServerOptions::default();
    let at = "127.0.0.1:0".parse().unwrap();
    let server = Server::start_with(&key, at, token(), options, vec![Box::new(Parrot)]).unwrap();
    // Its proofs are those of another connection.
    let (at, keeps) = terminating(server.local(), &own);
    assert!(matches!(connect(at, &token(), SOON), Err(PeerError::Token(_))));
    let read = keeps.recv().unwrap();
    assert!(String::from_utf8_lossy(&read).contains("\"proof\""), "else it was not in between: {read:?}");
    until("it is counted", || server.stats().unproven == 1);
    // With the key of the server in the token file, it gets nothing that it could try tokens on.
    let (at, keeps) = terminating(server.local(), &own);
    let said = connect(at, &pinned(&[key.fingerprint()]), SOON).unwrap_err();
    assert!(matches!(&said, PeerError::ServerKey { found, .. } if found == own.fingerprint()), "{said}");
    let text = said.to_string();
    assert!(text.contains(&key.fingerprint().to_string()) && text.contains("; hint: compare it"), "{text}");
    assert_eq!(keeps.recv().unwrap(), b"");
    // Directly, all is well; one of several keys is enough.
    connect(server.local(), &pinned(&[own.fingerprint(), key.fingerprint()]), SOON).unwrap();
}

/// Version 1 of both ends: its first message, and what it does with that of the other.
#[derive(serde::Deserialize)]
struct Challenge {
    skyhaul: u32,
    nonce: String,
}

#[test]
fn a_peer_without_tls_gets_and_gives_both_versions_at_once() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let at = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        let mut client = listener.accept().unwrap().0;
        let text = format!("{{\"skyhaul\":1,\"nonce\":\"{}\"}}", "0f".repeat(32));
        client.write_all(&framed(text.as_bytes(), 512).unwrap()).unwrap();
        // It takes the hello of TLS for the length of a message that is too long, and closes.
        client.read_exact(&mut [0; 4]).unwrap();
    });
    let said = connect(at, &token(), SOON).unwrap_err().to_string();
    assert!(said.contains("uses protocol version 1, this program version 2; hint: "), "{said}");

    let server = serve(ServerOptions::default());
    let mut client = TcpStream::connect(server.local()).unwrap();
    let mut head = [0; 4];
    client.read_exact(&mut head).unwrap();
    let mut body = vec![0; u32::from_be_bytes(head) as usize];
    client.read_exact(&mut body).unwrap();
    let challenge: Challenge = serde_json::from_slice(&body).unwrap();
    assert_eq!((challenge.skyhaul, challenge.nonce.as_str()), (2, ""));
    drop(client);
    until("it is counted", || server.stats().unproven == 1);
}

#[test]
fn strangers_in_the_middle_of_a_handshake_keep_no_client_out() {
    let server = serve(ServerOptions::default());
    let (at, keeps) = relay(server.local(), pass, pass);
    drop(connect(at, &token(), SOON).unwrap());
    let halves = [keeps.recv().unwrap(), keeps.recv().unwrap()];
    // That of the client begins with the hello of a client.
    let hello = halves.iter().find(|bytes| bytes[HEAD] == 1).unwrap();
    let open: Vec<TcpStream> = (0..100)
        .map(|n| {
            let mut stream = TcpStream::connect(server.local()).unwrap();
            let _ = stream.write_all(&hello[..20 + n]);
            assert!(server.stats().half_open <= 16);
            stream
        })
        .collect();
    running(&server, "a");
    drop(open);
}

#[test]
fn a_handshake_that_is_slow_absurd_or_endless_is_ended() {
    let server = serve(ServerOptions::default());
    let ends = |bytes: &[u8]| {
        let mut stream = TcpStream::connect(server.local()).unwrap();
        let _ = stream.write_all(bytes);
        stream.set_read_timeout(Some(SOON)).unwrap();
        let begun = Instant::now();
        let _ = stream.read_to_end(&mut Vec::new());
        begun.elapsed()
    };
    // A record longer than there are, one of no known type, and a hello longer than that of any client.
    let long =
        [&[22, 3, 1, 0x40, 0][..], &[1, 0, 0xff, 0], &vec![0; usize::try_from(MAX_HANDSHAKE_BYTES).unwrap()]]
            .concat();
    for bytes in [&[22, 3, 1, 0xff, 0xff][..], &[99, 3, 1, 0, 9], &long] {
        assert!(ends(bytes) < Duration::from_secs(4), "it waited for the time of a handshake");
    }
    until("they are counted", || server.stats().unproven == 3);
    let mut slow = TcpStream::connect(server.local()).unwrap();
    let begun = Instant::now();
    while slow.write_all(&[22]).is_ok() && server.stats().unproven < 4 {
        assert!(begun.elapsed() < SOON, "a byte now and then holds a place");
        std::thread::sleep(Duration::from_millis(100));
        if begun.elapsed() < Duration::from_millis(150) {
            let _ = slow.write_all(&[3, 1, 0x10, 0]);
        }
    }
    assert_eq!(server.stats().half_open, 0);
    running(&server, "a");
}

#[test]
fn one_that_takes_a_part_of_a_message_had_the_time_of_the_whole() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let at = listener.local_addr().unwrap();
    let mut channel = Channel::client(TcpStream::connect(at).unwrap(), at).unwrap();
    let _peer = listener.accept().unwrap();
    // More than the buffers of both sockets hold.
    let end = Instant::now() + Duration::from_secs(1);
    let late = channel.write_plain(&vec![0; 64 << 20], end).unwrap_err();
    assert!(matches!(late, PeerError::Late { seconds, .. } if seconds > 0.5), "{late}");
}
