//! Planes that outlive who controls them.

use super::*;
use skyhaul_core::balance::PortRange;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::atomic::AtomicBool;
use std::thread::JoinHandle;

struct Served {
    path: PathBuf,
    stop: Arc<AtomicBool>,
    data: SocketAddr,
    thread: JoinHandle<io::Result<()>>,
    _directory: tempfile::TempDir,
}

fn serve() -> Served {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("plane.sock");
    // What a killed one left behind.
    drop(std::os::unix::net::UnixListener::bind(&path).unwrap());
    let plane = DataPlane::start(&loopback(2)).unwrap();
    let (data, stop) = (plane.data()[0], Arc::new(AtomicBool::new(false)));
    let (at, flag) = (path.clone(), Arc::clone(&stop));
    let thread = std::thread::spawn(move || plane.serve(&at, &flag));
    Served { path, stop, data, thread, _directory: directory }
}

/// Once it is served, and nobody else controls it.
fn attach(served: &Served, workers: &[(Session, Registration)]) -> Balance {
    let mut attached = None;
    until("it can be controlled", || {
        attached = Balance::attach(&loopback(1), &served.path, workers).ok();
        attached.is_some()
    });
    attached.unwrap()
}

fn registration(worker: &Worker) -> Registration {
    let at = worker.socket.local_addr().unwrap();
    let member = Member::new(at.ip(), at.port(), PortRange::default(), false).unwrap();
    Registration { member, weight: 1.0, min_factor: 0.0, max_factor: 0.0 }
}

#[test]
fn packets_go_on_while_nobody_controls_and_the_next_one_goes_on_with_the_table() {
    let served = serve();
    let balance = attach(&served, &[]);
    assert_eq!(balance.data(), [served.data]);
    let worker = Worker::join(&balance, "127.0.0.1", false, 1.0);
    in_use(&balance, &[&worker]);
    let sender = UdpSocket::bind("127.0.0.1:0").unwrap();
    let send = |tick: u64| {
        sender.send_to(&event(tick, 0, 100)[0], served.data).unwrap();
    };
    let arrived = |what: &str, wanted: usize| {
        let mut all = 0;
        until(what, || {
            all += worker.take().len();
            all == wanted
        });
    };
    send(1);
    arrived("a packet under control", 1);
    let again = Balance::attach(&loopback(1), &served.path, &[]).unwrap_err().to_string();
    assert!(again.contains("has a controller already"), "{again}");

    drop(balance);
    for tick in 2..12 {
        send(tick);
    }
    arrived("packets without control", 10);

    let next = attach(&served, &[(worker.session, registration(&worker))]);
    until("what was forwarded meanwhile is known", || next.status().forwarded.packets == 11);
    worker.ready(&next);
    send(12);
    arrived("a packet under the next one's control", 1);
    let other = Worker::join(&next, "127.0.0.1", false, 1.0);
    assert_ne!(other.session, worker.session);
    let status = next.stop();
    assert_eq!((status.packets, status.forwarded.packets), (12, 12));
    assert_eq!(status.notes, Vec::<String>::new());
    served.thread.join().unwrap().unwrap();
    assert!(!served.path.exists(), "its socket is gone");
}

#[test]
fn nonsense_changes_nothing() {
    use std::io::Write;
    let served = serve();
    let balance = attach(&served, &[]);
    let worker = Worker::join(&balance, "127.0.0.1", false, 1.0);
    in_use(&balance, &[&worker]);
    drop(balance);
    let long = [&u32::MAX.to_be_bytes()[..], b"T"].concat();
    let short = [&100u32.to_be_bytes()[..], b"T", b"SKYTAB"].concat();
    let wrong = [&8u32.to_be_bytes()[..], b"T", b"NOTAB\0\0"].concat();
    let unknown = [&1u32.to_be_bytes()[..], b"?"].concat();
    for nonsense in [long, short, wrong, unknown, Vec::new()] {
        let mut stream = UnixStream::connect(&served.path).unwrap();
        let _ = stream.write_all(&nonsense);
    }
    let next = attach(&served, &[]);
    let sender = UdpSocket::bind("127.0.0.1:0").unwrap();
    sender.send_to(&event(1, 0, 100)[0], served.data).unwrap();
    until("the table still holds", || !worker.take().is_empty());
    drop(next);
    served.stop.store(true, Ordering::Release);
    served.thread.join().unwrap().unwrap();
    let gone = Balance::attach(&loopback(1), &served.path, &[]).unwrap_err().to_string();
    assert!(gone.contains("connect to the data plane at"), "{gone}");
}
