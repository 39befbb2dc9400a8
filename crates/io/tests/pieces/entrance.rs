//! Who is let in, and how.

use super::*;
use skyhaul_io::tcp::TcpPort;

#[test]
fn after_the_connections_asked_for_the_listener_is_gone() {
    let mut source = source(&PieceOptions { accept: Some(2), ..PieceOptions::default() });
    let to = source.local();
    let mut first = TcpStream::connect(to).unwrap();
    first.write_all(&one(0, 12, 100)).unwrap();
    let mut seen = Seen::default();
    until(&mut source, &mut seen, |seen, _| seen.count() == 1);
    drop(first);
    until(&mut source, &mut seen, |seen, _| seen.closed.len() == 1);
    assert!(!source.is_finished());
    let mut second = TcpStream::connect(to).unwrap();
    second.write_all(&one(1, 12, 100)).unwrap();
    until(&mut source, &mut seen, |seen, _| seen.count() == 2);
    assert!(TcpStream::connect(to).is_err(), "nobody listens any more");
    drop(second);
    until(&mut source, &mut seen, |seen, _| seen.closed.len() == 2);
    assert!(source.is_finished());
    assert_eq!(source.poll(Duration::ZERO, &mut seen).unwrap(), 0);
    let none = self::source(&PieceOptions { accept: Some(0), ..PieceOptions::default() });
    assert!(none.is_finished() && TcpStream::connect(none.local()).is_err(), "nobody is to be accepted");
}

#[test]
fn connections_beyond_the_limit_are_closed_at_once_and_counted() {
    let mut source = source(&PieceOptions { connections: 3, accept: Some(4), ..PieceOptions::default() });
    let to = source.local();
    let mut seen = Seen::default();
    let mut inside: Vec<_> = (0..3).map(|_| TcpStream::connect(to).unwrap()).collect();
    until(&mut source, &mut seen, |seen, _| seen.opened.len() == 3);
    let mut beyond: Vec<_> = (0..100).map(|_| TcpStream::connect(to).unwrap()).collect();
    until(&mut source, &mut seen, |seen, _| seen.refused.len() == 100);
    for stream in &mut beyond {
        stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        assert!(matches!(stream.read(&mut [0]), Ok(0) | Err(_)), "it is closed");
        assert!(seen.refused.contains(&stream.local_addr().unwrap()));
    }
    let stats = source.stats();
    assert_eq!((stats.refused, stats.connections, stats.remedies.len()), (100, 3, 1));
    assert!(stats.remedies[0].contains("more than 3 connections at a time; hint: "), "{stats:?}");
    // Those inside are served, and where one of them goes there is room again.
    inside[1].write_all(&one(1, 12, 100)).unwrap();
    drop(inside.remove(0));
    until(&mut source, &mut seen, |seen, _| seen.count() == 1 && seen.closed.len() == 1);
    let mut late = TcpStream::connect(to).unwrap();
    late.write_all(&one(2, 12, 100)).unwrap();
    until(&mut source, &mut seen, |seen, _| seen.count() == 2);
    assert!(TcpStream::connect(to).is_err(), "refused ones are not among those asked for");
}

fn taken(socket: impl Into<OwnedFd>) -> std::io::Result<PieceSource> {
    let port = TcpPort::from_fd(socket.into())?;
    Ok(PieceSource::of(port, Box::new(Plain), &PieceOptions::default()))
}

#[test]
fn sockets_made_elsewhere_are_taken() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let to = listener.local_addr().unwrap();
    let connect = || {
        let near = TcpStream::connect(to).unwrap();
        (near, listener.accept().unwrap().0)
    };
    let check = |mut source: PieceSource, mut sender: TcpStream, what: &str| {
        sender.write_all(&one(5, 12, 3000)).unwrap();
        let mut seen = Seen::default();
        until(&mut source, &mut seen, |seen, _| seen.count() == 1);
        assert_eq!(seen.opened, [(0, sender.local_addr().unwrap())], "{what}");
        drop(sender);
        until(&mut source, &mut seen, |seen, _| seen.closed == [(0, End::Orderly)]);
        source
    };
    let (near, far) = connect();
    assert!(check(taken(far).unwrap(), near, "stream").is_finished());
    let (near, far) = connect();
    let source = taken(OwnedFd::from(far)).unwrap();
    assert!(check(source, near, "stream by descriptor").is_finished());
    let copy = listener.try_clone().unwrap();
    let source = taken(OwnedFd::from(copy)).unwrap();
    assert_eq!(source.local(), to);
    let near = TcpStream::connect(to).unwrap();
    assert!(!check(source, near, "listener by descriptor").is_finished());
    let near = TcpStream::connect(to).unwrap();
    check(taken(listener).unwrap(), near, "listener");
    assert!(taken(std::fs::File::open("/dev/null").unwrap()).is_err());
}

#[test]
fn only_the_sender_asked_for_is_let_in() {
    let at = "tcp://127.0.0.1:0?source=127.0.0.9".parse().unwrap();
    let mut source = PieceSource::open(&at, Box::new(Plain), &PieceOptions::default()).unwrap();
    let _wrong = TcpStream::connect(source.local()).unwrap();
    let mut seen = Seen::default();
    until(&mut source, &mut seen, |_, stats| stats.refused == 1);
    assert!(seen.opened.is_empty() && source.connections() == 0);
    assert!(source.describe().contains("listening, 0 connections"), "{}", source.describe());
}

#[test]
fn a_port_that_is_taken_says_who_may_have_it() {
    let first = source(&PieceOptions::default());
    let at = skyhaul_io::address::Endpoint::tcp(first.local());
    let Err(error) = PieceSource::open(&at, Box::new(Plain), &PieceOptions::default()) else {
        panic!("bound")
    };
    assert!(
        error.to_string().contains("hint: find the process that uses the port with: ss -tlnp"),
        "{error}"
    );
}

#[test]
fn a_listener_that_is_shut_down_elsewhere_accepts_no_more_and_its_connections_go_on() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let (at, other) = (listener.local_addr().unwrap(), listener.try_clone().unwrap());
    let mut source = taken(listener).unwrap();
    let mut connection = TcpStream::connect(at).unwrap();
    let (tell, told) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        let mut seen = Seen::default();
        while seen.opened.is_empty() {
            source.poll(TICK, &mut seen).unwrap();
        }
        socket2::SockRef::from(&other).shutdown(std::net::Shutdown::Both).unwrap();
        source.poll(TICK, &mut seen).unwrap();
        let packet = one(1, 12, 100);
        connection.write_all(&packet).unwrap();
        drop(connection);
        while !source.is_finished() {
            source.poll(TICK, &mut seen).unwrap();
        }
        tell.send(seen.packets[&0] == [packet]).unwrap();
    });
    assert!(told.recv_timeout(Duration::from_secs(60)).expect("no poll hangs"));
}
