//! Planes that outlive who controls them.

use super::*;
use skyhaul_core::balance::PortRange;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::Mutex;
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
        attached = Balance::attach(&loopback(1), &served.path, workers, None).ok();
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
    let again = Balance::attach(&loopback(1), &served.path, &[], None).unwrap_err().to_string();
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
fn planes_that_die_are_started_again_with_the_table_and_counts_go_on() {
    let served = serve();
    let (path, next) =
        (served.path.clone(), Arc::new(Mutex::new(None::<(Arc<AtomicBool>, JoinHandle<io::Result<()>>)>)));
    let restart = || -> Restart {
        let (path, next) = (path.clone(), Arc::clone(&next));
        Box::new(move |data| {
            let plane = DataPlane::start(&BalanceOptions { data: data.to_vec(), ..loopback(2) });
            let plane = plane.map_err(|error| io::Error::other(error.to_string()))?;
            let (at, stop) = (path.clone(), Arc::new(AtomicBool::new(false)));
            let flag = Arc::clone(&stop);
            let thread = std::thread::spawn(move || plane.serve(&at, &flag));
            *next.lock().unwrap() = Some((stop, thread));
            Ok(Box::new(|| None))
        })
    };
    let mut attached = None;
    until("it can be controlled", || {
        attached = Balance::attach(&loopback(1), &served.path, &[], Some(restart())).ok();
        attached.is_some()
    });
    let balance = attached.unwrap();
    let worker = Worker::join(&balance, "127.0.0.1", false, 1.0);
    in_use(&balance, &[&worker]);
    let sender = UdpSocket::bind("127.0.0.1:0").unwrap();
    let packet = event(1, 0, 100).remove(0);
    sender.send_to(&packet, served.data).unwrap();
    until("it is counted", || balance.status().forwarded.packets == 1 && !worker.take().is_empty());

    // As if it were killed: its end of the socket closes.
    served.stop.store(true, Ordering::Release);
    served.thread.join().unwrap().unwrap();
    until("another forwards", || balance.status().restarts == 1);
    let _ = sender.send_to(&packet, served.data);
    until("packets go on by the same table", || {
        let _ = sender.send_to(&packet, served.data);
        !worker.take().is_empty()
    });
    until("what both forwarded is known", || balance.status().forwarded.packets >= 2);
    let status = balance.status();
    assert_eq!(status.workers[0].packets, status.forwarded.packets, "{status:?}");
    assert!(status.away > Duration::ZERO && status.notes.len() == 1, "{:?}", status.notes);
    assert!(status.notes[0].contains("was started again"), "{:?}", status.notes);
    assert_eq!(balance.data(), [served.data]);
    until("it knows the table in use", || balance.status().tables.0 == balance.status().tables.1);
    assert_eq!(balance.stop().restarts, 1, "what is told to end is not started again");
    let (_, thread) = next.lock().unwrap().take().unwrap();
    thread.join().unwrap().unwrap();
}

/// The connection breaks and the planes live on, as after a long pause of either process: nobody is started beside them, and
/// what they counted before is counted once.
#[test]
fn a_broken_connection_to_planes_that_live_starts_no_others_and_counts_nothing_twice() {
    let served = serve();
    let started = Arc::new(Mutex::new(0));
    let restart = || -> Restart {
        let count = Arc::clone(&started);
        Box::new(move |_| {
            *count.lock().unwrap() += 1;
            Err(io::Error::other("nobody is to be started"))
        })
    };
    let mut attached = None;
    until("it can be controlled", || {
        attached = Balance::attach(&loopback(1), &served.path, &[], Some(restart())).ok();
        attached.is_some()
    });
    let balance = attached.unwrap();
    let worker = Worker::join(&balance, "127.0.0.1", false, 1.0);
    in_use(&balance, &[&worker]);
    let sender = UdpSocket::bind("127.0.0.1:0").unwrap();
    let send = |tick: u64| {
        sender.send_to(&event(tick, 0, 100)[0], served.data).unwrap();
    };
    (1..=5).for_each(&send);
    until("they are counted", || balance.status().forwarded.packets == 5);
    for broken in 1..=3 {
        let Ends::There(remote) = &balance.ends else { panic!("planes are elsewhere") };
        remote.break_connection();
        until("it is told", || !balance.status().notes.is_empty());
        (5 * broken + 1..=5 * broken + 5).for_each(&send);
        until("what came since is counted, too", || balance.status().forwarded.packets == 5 + 5 * broken);
        until("it knows the table in use", || balance.status().tables.0 == balance.status().tables.1);
        worker.ready(&balance);
    }
    let status = balance.status();
    assert_eq!((status.packets, status.restarts, status.away), (20, 0, Duration::ZERO), "{status:?}");
    assert!(status.notes.iter().all(|note| note.contains("was made again")), "{:?}", status.notes);
    assert_eq!(*started.lock().unwrap(), 0);
    assert_eq!(balance.stop().forwarded.packets, 20);
    served.thread.join().unwrap().unwrap();
}

/// A controller that reads nothing for a while, as one that is stopped, stays the controller, and meets no half message then.
#[test]
fn a_controller_that_is_stopped_is_waited_for() {
    use super::super::remote::read_for_tests as read;
    let served = serve();
    let mut stream = None;
    until("it is served", || {
        stream = UnixStream::connect(&served.path).ok();
        stream.is_some()
    });
    let stream = stream.unwrap();
    assert_eq!(read(&stream).unwrap(), b'H');
    // Nothing is read until the socket is full, and for longer than an end waits for the other.
    std::thread::sleep(Duration::from_secs(12));
    stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    // Twenty a second: all that were sent meanwhile, and some that are sent when it reads again.
    for n in 0..300 {
        let letter = read(&stream).unwrap_or_else(|error| panic!("message {n}: {error}"));
        assert_eq!(letter, b'D');
    }
    drop(stream);
    served.stop.store(true, Ordering::Release);
    served.thread.join().unwrap().unwrap();
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
    let gone = Balance::attach(&loopback(1), &served.path, &[], None).unwrap_err().to_string();
    assert!(gone.contains("connect to the data plane at"), "{gone}");
}
