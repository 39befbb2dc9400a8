//! Running out of file descriptors. Alone in its process, for the limit is the process's.

#![allow(clippy::unwrap_used)]
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use skyhaul_io::tcp::pieces::{Found, PieceEvent, PieceOptions, PieceSource};
use std::{
    fs::File,
    net::TcpStream,
    time::{Duration, Instant},
};

struct Fixed;

impl skyhaul_io::tcp::pieces::Heads for Fixed {
    fn find(&self, _: &[u8]) -> Found {
        Found::Packet { head: 1, body: 0 }
    }
    fn longest_head(&self) -> usize {
        1
    }
}

#[test]
fn who_cannot_be_accepted_for_want_of_descriptors_is_accepted_later() {
    let limit = getrlimit(Resource::Nofile);
    setrlimit(Resource::Nofile, Rlimit { current: Some(60), maximum: limit.maximum }).unwrap();
    let at = "tcp://127.0.0.1:0".parse().unwrap();
    let mut source = PieceSource::open(&at, Box::new(Fixed), &PieceOptions::default()).unwrap();
    let _sender = TcpStream::connect(source.local()).unwrap();
    let files: Vec<_> = std::iter::from_fn(|| File::open("/dev/null").ok()).collect();
    let mut opened = 0;
    let mut sink = |event: PieceEvent<'_>| opened += u32::from(matches!(event, PieceEvent::Opened { .. }));
    for _ in 0..10 {
        source.poll(Duration::from_millis(1), &mut sink).unwrap();
    }
    assert_eq!(source.connections(), 0);
    drop(files);
    let start = Instant::now();
    while source.connections() == 0 {
        source.poll(Duration::from_millis(20), &mut sink).unwrap();
        assert!(start.elapsed() < Duration::from_secs(30), "it is never accepted");
    }
    assert_eq!(opened, 1);
    let stats = source.stats();
    assert_eq!((stats.remedies.len(), stats.connections), (1, 1));
    assert!(stats.remedies[0].ends_with("out of file descriptors; hint: ulimit -n 65536"), "{stats:?}");
}
