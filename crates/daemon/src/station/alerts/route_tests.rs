//! A message on its way: real programs, and real servers that are honest or not.

use super::message::AlarmMessage;
use super::routes::{AlarmTrial, Route};
use super::setup::{AlarmReceiver, AlarmRoute};
use ring::hmac;
use serde_json::Value;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::PathBuf;
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::crypto::ring::default_provider;
use tokio_rustls::rustls::pki_types::PrivateKeyDer;

const LONG: Duration = Duration::from_secs(60);
const OK: &[u8] = b"HTTP/1.1 204 No Content\r\n\r\n";

fn send(route: AlarmRoute, timeout: Duration) -> AlarmTrial {
    let receiver = AlarmReceiver { name: "r".into(), route, timeout, errors_only: false, only: Vec::new() };
    Route::open(&receiver).unwrap().send(&AlarmMessage::test("2026-11-29T00:00:00Z"), "mh")
}

fn webhook(url: String) -> AlarmRoute {
    AlarmRoute::Webhook { url, token_file: None, secret_file: None, authorities: None }
}

fn shell(line: &str) -> AlarmRoute {
    AlarmRoute::Command(["sh", "-c", line].map(str::to_owned).to_vec())
}

/// A server of one connection that does as `act` does after a request; what it was sent arrives at the end.
fn server(act: impl FnOnce(&mut TcpStream) + Send + 'static) -> (SocketAddr, Receiver<Vec<u8>>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let (sender, requests) = channel();
    std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let (mut request, mut part) = (Vec::new(), [0; 4096]);
        while !is_whole(&request) {
            let length = stream.read(&mut part).unwrap();
            request.extend_from_slice(&part[..length]);
        }
        act(&mut stream);
        let _ = sender.send(request);
    });
    (address, requests)
}

/// Whether a request has its head and the body that this announces.
fn is_whole(request: &[u8]) -> bool {
    let text = String::from_utf8_lossy(request);
    let Some((head, body)) = text.split_once("\r\n\r\n") else { return false };
    let length = head.lines().find_map(|line| line.strip_prefix("Content-Length: ")?.parse().ok());
    body.len() >= length.unwrap_or(0_usize)
}

#[test]
fn a_program_gets_the_alarm_twice_and_its_last_words_are_shown() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("said");
    let line =
        format!("cat > {0}; env | grep ^SKYHAUL_ALARM_ | sort >> {0}; echo thanks >&2", file.display());
    assert_eq!(send(shell(&line), LONG), Ok("sh ended with 0: thanks".into()));
    let said = std::fs::read_to_string(file).unwrap();
    let (json, variables) = said.split_once('\n').unwrap();
    let json: Value = serde_json::from_str(json).unwrap();
    assert_eq!(
        (json["event"].as_str(), json["host"].as_str(), json["count"].as_u64()),
        (Some("test"), Some("mh"), Some(1))
    );
    assert_eq!(variables.lines().count(), json.as_object().unwrap().len());
    assert!(variables.contains("SKYHAUL_ALARM_KIND=test\n"), "{variables}");
    let failed = send(shell("echo no line >&2; exit 7"), LONG).unwrap_err();
    assert!(failed.contains("exit status: 7: no line"), "{failed}");
    let killed = send(shell("echo waiting >&2; sleep 1000"), Duration::from_secs(1)).unwrap_err();
    assert_eq!(killed, "sh was killed after 1 s: waiting");
    assert!(send(AlarmRoute::Command(vec!["/nowhere/at/all".into()]), LONG).is_err());
}

#[test]
fn a_mail_is_given_to_sendmail() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("mail");
    let sendmail = ["sh", "-c", &format!("cat > {}", file.display())].map(str::to_owned).to_vec();
    send(AlarmRoute::Mail { to: vec!["op@obs.example".into(), "b@obs.example".into()], sendmail }, LONG)
        .unwrap();
    let mail = std::fs::read_to_string(file).unwrap();
    assert!(
        mail.starts_with("To: op@obs.example, b@obs.example\nSubject: [skyhaul] mh: test, warning test: "),
        "{mail}"
    );
}

#[test]
fn a_webhook_gets_one_object_with_token_and_signature_which_nothing_shows() {
    let directory = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| -> Option<PathBuf> {
        let path = directory.path().join(name);
        std::fs::write(&path, text).unwrap();
        Some(path)
    };
    let (token_file, secret_file) = (write("token", "a-token-of-42\n"), write("secret", "key\n"));
    let (address, requests) = server(|stream| {
        // It repeats the token.
        stream
            .write_all(b"HTTP/1.1 500 Bad\r\nContent-Length: 22\r\n\r\nno to Bearer a-token-of-42")
            .unwrap();
    });
    let url = format!("http://{address}/hook?key=12345678");
    let route = AlarmRoute::Webhook { url, token_file, secret_file, authorities: None };
    let failed = send(route, LONG).unwrap_err();
    assert!(
        failed.contains("answered 500") && !failed.contains("a-token") && !failed.contains("12345678"),
        "{failed}"
    );
    let request = String::from_utf8(requests.recv().unwrap()).unwrap();
    let (head, body) = request.split_once("\r\n\r\n").unwrap();
    assert!(head.starts_with("POST /hook?key=12345678 HTTP/1.1\r\n"), "{head}");
    assert!(head.contains("\r\nAuthorization: Bearer a-token-of-42\r\n"), "{head}");
    assert_eq!(serde_json::from_str::<Value>(body).unwrap()["kind"], "test");
    let signature = head.lines().find_map(|line| line.strip_prefix("X-Skyhaul-Signature: sha256=")).unwrap();
    let tag = skyhaul::auth::unhex::<32>(signature).unwrap();
    hmac::verify(&hmac::Key::new(hmac::HMAC_SHA256, b"key"), body.as_bytes(), &tag).unwrap();
}

#[test]
fn redirects_are_not_followed() {
    let (elsewhere, requests) = server(|stream| stream.write_all(OK).unwrap());
    let (address, _) = server(move |stream| {
        write!(stream, "HTTP/1.1 307 Go\r\nLocation: http://{elsewhere}/\r\nContent-Length: 0\r\n\r\n")
            .unwrap();
    });
    let failed = send(webhook(format!("http://{address}/")), LONG).unwrap_err();
    assert!(failed.contains("redirects are not followed"), "{failed}");
    assert!(requests.try_recv().is_err());
}

#[test]
fn hostile_answers_end() {
    let limit = Duration::from_secs(2);
    // A success needs no body.
    let (address, _) = server(|stream| {
        let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 1000000000\r\n\r\n");
        while stream.write_all(&[b'x'; 4096]).is_ok() {}
    });
    assert!(send(webhook(format!("http://{address}/")), LONG).is_ok());
    // Of a refusal, the beginning of its body is enough.
    let (address, _) = server(|stream| {
        let _ = stream.write_all(b"HTTP/1.1 400 No\r\nContent-Length: 1000000000\r\n\r\n");
        while stream.write_all(&[b'x'; 4096]).is_ok() {}
    });
    let failed = send(webhook(format!("http://{address}/")), LONG).unwrap_err();
    assert!(failed.contains("answered 400") && failed.len() < 1000, "{failed}");
    // A head that does not end, in bytes or in time.
    let (address, _) = server(|stream| {
        let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nX: ");
        while stream.write_all(&[b'x'; 4096]).is_ok() {}
    });
    assert!(send(webhook(format!("http://{address}/")), LONG).is_err());
    let (address, _) = server(|stream| {
        while stream.write_all(b"H").is_ok() {
            std::thread::sleep(Duration::from_millis(100));
        }
    });
    assert!(send(webhook(format!("http://{address}/")), limit).is_err());
    let (address, _) = server(|stream| {
        let _ = stream.read(&mut [0]);
    });
    assert_eq!(send(webhook(format!("http://{address}/")), limit), Err("no answer within 2 s".into()));
}

#[test]
fn a_webhook_with_tls_is_verified() {
    let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("ca.pem");
    std::fs::write(&path, made.cert.pem()).unwrap();
    let key = PrivateKeyDer::try_from(made.signing_key.serialize_der()).unwrap();
    let config = ServerConfig::builder_with_provider(default_provider().into())
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![made.cert.der().clone()], key)
        .unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let (sender, requests) = channel();
    std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let acceptor = TlsAcceptor::from(std::sync::Arc::new(config));
        for stream in listener.incoming() {
            let stream = stream.unwrap();
            stream.set_nonblocking(true).unwrap();
            runtime.block_on(async {
                let stream = tokio::net::TcpStream::from_std(stream).unwrap();
                let Ok(mut stream) = acceptor.accept(stream).await else { return };
                let (mut request, mut part) = (Vec::new(), [0; 4096]);
                while !is_whole(&request) {
                    let length = stream.read(&mut part).await.unwrap();
                    request.extend_from_slice(&part[..length]);
                }
                stream.write_all(OK).await.unwrap();
                stream.flush().await.unwrap();
                sender.send(request).unwrap();
            });
        }
    });
    let of = |authorities| {
        let url = format!("https://localhost:{port}/");
        send(AlarmRoute::Webhook { url, token_file: None, secret_file: None, authorities }, LONG)
    };
    assert_eq!(of(Some(path)), Ok(format!("localhost:{port} answered 204 No Content")));
    assert!(requests.recv().unwrap().starts_with(b"POST / HTTP/1.1\r\n"));
    // Nobody whom the system trusts has signed it.
    assert!(of(None).is_err());
    assert!(requests.try_recv().is_err());
}
