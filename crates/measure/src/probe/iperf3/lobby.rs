//! Connections that have not said their cookie yet: few, each for a few seconds, without a thread.

use super::control::{COOKIE, Cookie};
use skyhaul::admission::ConnectionTable;
use std::io::Read as _;
use std::net::{SocketAddr, TcpStream};
use std::os::fd::{AsFd, BorrowedFd};
use std::time::{Duration, Instant};

/// Time to say the cookie.
const COOKIE_TIMEOUT: Duration = Duration::from_secs(5);

/// All of them, in the order in which they came.
#[derive(Debug)]
pub(super) struct PendingConnections(ConnectionTable<Pending>);

#[derive(Debug)]
struct Pending {
    stream: TcpStream,
    cookie: Cookie,
    have: usize,
    until: Instant,
}

/// What became of a guest that was read from.
pub(super) enum Greeting {
    /// Not yet all.
    Little,
    /// It said its cookie: the number of the connection, in the order in which they came.
    Cookie(u64, TcpStream, Cookie),
    /// It left, or said something else.
    Garbage,
}

impl PendingConnections {
    pub(super) fn new(most: usize) -> Self {
        Self(ConnectionTable::new(most, most))
    }

    /// Admit one; true if another had to leave for it.
    pub(super) fn enter(&mut self, stream: TcpStream, from: SocketAddr, now: Instant) -> bool {
        // A connection that cannot be made so is none.
        if stream.set_nonblocking(true).is_err() {
            return false;
        }
        // None of them has proved anything, so there is always one that can leave.
        let displaced = self.0.displaced(from.ip()).ok().flatten();
        displaced.map(|id| self.0.remove(id));
        self.0
            .insert(from.ip(), Pending { stream, cookie: [0; COOKIE], have: 0, until: now + COOKIE_TIMEOUT });
        displaced.is_some()
    }

    /// Their sockets, in order.
    pub(super) fn sockets(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        self.0.iter().map(|(_, guest)| guest.stream.as_fd())
    }

    /// Read from the `n`th; unless it said little, it has left.
    pub(super) fn read(&mut self, n: usize) -> Greeting {
        let Some((number, guest)) = self.0.iter_mut().nth(n) else { return Greeting::Little };
        let mut whole = false;
        match guest.stream.read(&mut guest.cookie[guest.have..]) {
            Ok(0) => {}
            Ok(bytes) => {
                guest.have += bytes;
                let sound = is_sound(&guest.cookie, guest.have);
                if sound && guest.have < COOKIE {
                    return Greeting::Little;
                }
                whole = sound;
            }
            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => return Greeting::Little,
            Err(_) => {}
        }
        match self.0.remove(number) {
            Some(guest) if whole => Greeting::Cookie(number, guest.stream, guest.cookie),
            _ => Greeting::Garbage,
        }
    }

    /// Send away who took too long; how many they were.
    pub(super) fn expire(&mut self, now: Instant) -> u64 {
        let late: Vec<u64> =
            self.0.iter().filter(|(_, guest)| guest.until <= now).map(|(number, _)| number).collect();
        late.iter().for_each(|number| drop(self.0.remove(*number)));
        late.len() as u64
    }
}

/// Whether these are the first `have` octets of a cookie: letters and digits, and a zero at the end.
fn is_sound(cookie: &Cookie, have: usize) -> bool {
    let text = &cookie[..have.min(COOKIE - 1)];
    text.iter().all(u8::is_ascii_alphanumeric) && (have < COOKIE || cookie[COOKIE - 1] == 0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write as _;
    use std::net::TcpListener;

    fn guest(listener: &TcpListener) -> (TcpStream, TcpStream, SocketAddr) {
        let stream = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (accepted, from) = listener.accept().unwrap();
        (stream, accepted, from)
    }

    #[test]
    fn a_cookie_may_come_in_pieces_and_anything_else_is_garbage() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut lobby = PendingConnections::new(10);
        let now = Instant::now();
        let (mut slow, accepted, from) = guest(&listener);
        lobby.enter(accepted, from, now);
        assert!(matches!(lobby.read(0), Greeting::Little));
        slow.write_all(&[b'a'; 20]).unwrap();
        std::thread::sleep(Duration::from_millis(20));
        assert!(matches!(lobby.read(0), Greeting::Little));
        slow.write_all(&[b'b'; 16]).unwrap();
        slow.write_all(&[0, 9]).unwrap();
        std::thread::sleep(Duration::from_millis(20));
        let Greeting::Cookie(0, _, cookie) = lobby.read(0) else { panic!("no cookie") };
        assert_eq!((cookie[0], cookie[35], cookie[36]), (b'a', b'b', 0));
        let (mut web, accepted, from) = guest(&listener);
        lobby.enter(accepted, from, now);
        web.write_all(b"GET / HTTP/1.1").unwrap();
        std::thread::sleep(Duration::from_millis(20));
        assert!(matches!(lobby.read(0), Greeting::Garbage));
        assert_eq!(lobby.sockets().count(), 0);
    }

    #[test]
    fn there_are_never_more_than_may_be_and_none_stays_too_long() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut lobby = PendingConnections::new(3);
        let now = Instant::now();
        let streams: Vec<_> = (0..10)
            .map(|n| {
                let (stream, accepted, from) = guest(&listener);
                assert_eq!(lobby.enter(accepted, from, now), n >= 3);
                stream
            })
            .collect();
        assert_eq!(lobby.sockets().count(), 3);
        assert_eq!(lobby.expire(now), 0);
        assert_eq!(lobby.expire(now + Duration::from_secs(6)), 3);
        drop(streams);
    }
}
