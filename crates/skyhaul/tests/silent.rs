//! Ten thousand connections to a server that say nothing. A process of its own: its memory is what is measured.

use serde_json::Value;
use skyhaul::io::host::thread::usage;
use skyhaul::peer::{Admission, Limits, PeerError, Server, ServerOptions, Service, Session, Token, connect};
use std::collections::VecDeque;
use std::net::TcpStream;
use std::time::{Duration, Instant};

const LIMIT: Duration = Duration::from_secs(20);

/// Takes one message and ends.
struct Listener;

impl Service for Listener {
    fn name(&self) -> &'static str {
        "listener"
    }

    fn admit(&self, _: &Value, _: &Limits) -> Result<Admission, String> {
        Ok(Admission::slot(Duration::from_secs(5)))
    }

    fn run(&self, session: &mut Session<'_>, _: Value) -> Result<(), PeerError> {
        session.connection.receive::<Value>(LIMIT).map(|_| ())
    }
}

#[test]
fn ten_thousand_connections_without_a_word_take_no_memory_and_no_place() {
    let token = || Token::new("the-token-of-this-test").unwrap();
    let at = "127.0.0.1:0".parse().unwrap();
    let server = Server::start(at, token(), ServerOptions::default(), vec![Box::new(Listener)]).unwrap();
    let mut open = VecDeque::new();
    let mut before = 0;
    for n in 0..10_000 {
        open.push_back(TcpStream::connect(server.local()).unwrap());
        if open.len() > 200 {
            open.pop_front();
        }
        if n == 1000 {
            before = usage().peak_memory;
        }
        assert!(server.stats().half_open <= 16);
    }
    let grown = usage().peak_memory - before;
    assert!(grown < 8 << 20, "{grown} bytes more");
    // Who speaks is served.
    let mut peer = connect(server.local(), &token(), LIMIT).unwrap();
    peer.ask("listener", &"a", &mut |_| true).unwrap();
    peer.send(&"bye").unwrap();
    let end = Instant::now() + LIMIT;
    while server.stats().done != 1 || server.stats().accepted != 10_001 {
        assert!(Instant::now() < end, "{:?}", server.stats());
        std::thread::sleep(Duration::from_millis(5));
    }
}
