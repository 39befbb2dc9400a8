//! A server of HTTP that does what a test wants.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// A server that answers each request with what a function makes of its head.
pub(crate) struct Peer {
    pub(crate) address: SocketAddr,
    heads: Arc<Mutex<Vec<String>>>,
    connections: Arc<AtomicUsize>,
}

/// What it does after a request.
pub(crate) enum Act {
    /// Sends this, and waits for the next request.
    Say(Vec<u8>),
    /// Sends this, and closes.
    End(Vec<u8>),
    /// Sends this, and then nothing until the other side closes.
    Hold(Vec<u8>),
    /// Sends a byte now and then.
    Trickle(Vec<u8>),
    /// Sends the first, reads so many bytes of a body, and sends the second.
    Take(&'static str, usize, &'static str),
    /// The same, and closes without a word.
    TakeAndEnd(&'static str, usize, &'static str),
}

impl Peer {
    pub(crate) fn start(answer: impl Fn(&str) -> Act + Send + Sync + 'static) -> Self {
        Self::at(Ipv4Addr::LOCALHOST, answer)
    }

    pub(crate) fn at(ip: Ipv4Addr, answer: impl Fn(&str) -> Act + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind((ip, 0)).unwrap();
        let (address, heads) = (listener.local_addr().unwrap(), Arc::<Mutex<Vec<String>>>::default());
        let (answer, seen) = (Arc::new(answer), Arc::clone(&heads));
        let connections = Arc::<AtomicUsize>::default();
        let opened = Arc::clone(&connections);
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                opened.fetch_add(1, Ordering::Relaxed);
                let (answer, seen) = (Arc::clone(&answer), Arc::clone(&seen));
                std::thread::spawn(move || serve(stream, &*answer, &seen));
            }
        });
        Self { address, heads, connections }
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}/f", self.address)
    }

    pub(crate) fn heads(&self) -> Vec<String> {
        self.heads.lock().unwrap().clone()
    }

    /// How many connections were made.
    pub(crate) fn connections(&self) -> usize {
        self.connections.load(Ordering::Relaxed)
    }

    /// How many requests of this method came.
    pub(crate) fn count(&self, method: &str) -> usize {
        self.heads().iter().filter(|head| head.starts_with(method)).count()
    }
}

fn serve(mut stream: TcpStream, answer: &dyn Fn(&str) -> Act, seen: &Mutex<Vec<String>>) {
    loop {
        let mut head = Vec::new();
        let mut byte = [0];
        while !head.ends_with(b"\r\n\r\n") {
            match stream.read(&mut byte) {
                Ok(1) => head.push(byte[0]),
                _ => return,
            }
        }
        let head = String::from_utf8(head).unwrap();
        seen.lock().unwrap().push(head.clone());
        // A client that has closed meanwhile gets no answer.
        match answer(&head) {
            Act::Say(text) => drop(stream.write_all(&text)),
            Act::End(text) => return drop(stream.write_all(&text)),
            Act::Hold(text) => {
                let _ = stream.write_all(&text);
                let _ = stream.read_to_end(&mut Vec::new());
                return seen.lock().unwrap().push("closed".to_owned());
            }
            Act::Trickle(text) => {
                let _ = stream.write_all(&text);
                while stream.write_all(b"x").is_ok() {
                    std::thread::sleep(Duration::from_millis(100));
                }
                return;
            }
            Act::Take(first, bytes, last) => {
                take(&mut stream, (first, bytes, last));
                if last.is_empty() {
                    return;
                }
            }
            Act::TakeAndEnd(first, bytes, last) => return take(&mut stream, (first, bytes, last)),
        }
    }
}

fn take(stream: &mut TcpStream, (first, bytes, last): (&str, usize, &str)) {
    let _ = stream.write_all(first.as_bytes());
    let mut body = vec![0; bytes];
    let _ = stream.read_exact(&mut body);
    let _ = stream.write_all(last.as_bytes());
}

/// A reply of a source: the head, and for GET these bytes behind it.
pub(crate) fn object(head: &str, more: &str, body: &[u8]) -> Vec<u8> {
    let mut all = format!("HTTP/1.1 200 OK\r\n{more}\r\n").into_bytes();
    if head.starts_with("GET") {
        all.extend(body);
    }
    all
}
