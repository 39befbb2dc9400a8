//! Connections that have not said their cookie yet: few, each for a few seconds, without a thread.

use super::control::{COOKIE, Cookie};
use std::io::Read as _;
use std::net::{IpAddr, SocketAddr, TcpStream};
use std::os::fd::{AsFd, BorrowedFd};
use std::time::{Duration, Instant};

/// Time to say the cookie.
const PATIENCE: Duration = Duration::from_secs(5);

/// All of them, in the order in which they came.
#[derive(Debug)]
pub(super) struct Lobby {
    guests: Vec<Guest>,
    most: usize,
    /// Connections so far.
    number: u64,
}

#[derive(Debug)]
struct Guest {
    number: u64,
    stream: TcpStream,
    from: IpAddr,
    cookie: Cookie,
    have: usize,
    until: Instant,
}

/// What became of a guest that was read from.
pub(super) enum Said {
    /// Not yet all.
    Little,
    /// It said its cookie: the number of the connection, in the order in which they came.
    Cookie(u64, TcpStream, Cookie),
    /// It left, or said something else.
    Garbage,
}

impl Lobby {
    pub(super) fn new(most: usize) -> Self {
        Self { guests: Vec::new(), most: most.max(1), number: 0 }
    }

    /// Let one in; true if another had to leave for it. Who brings many pushes out their own first.
    pub(super) fn enter(&mut self, stream: TcpStream, from: SocketAddr, now: Instant) -> bool {
        // A connection that cannot be made so is none.
        if stream.set_nonblocking(true).is_err() {
            return false;
        }
        let from = from.ip();
        let full = self.guests.len() >= self.most;
        if full {
            let own = self.guests.iter().position(|guest| guest.from == from);
            self.guests.remove(own.unwrap_or(0));
        }
        let until = now + PATIENCE;
        self.number += 1;
        self.guests.push(Guest { number: self.number, stream, from, cookie: [0; COOKIE], have: 0, until });
        full
    }

    /// Their sockets, in order.
    pub(super) fn sockets(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        self.guests.iter().map(|guest| guest.stream.as_fd())
    }

    /// Read from the `n`th; unless it said little, it has left.
    pub(super) fn read(&mut self, n: usize) -> Said {
        let guest = &mut self.guests[n];
        match guest.stream.read(&mut guest.cookie[guest.have..]) {
            Ok(0) => {}
            Ok(bytes) => {
                guest.have += bytes;
                let sound = is_sound(&guest.cookie, guest.have);
                if sound && guest.have < COOKIE {
                    return Said::Little;
                }
                let guest = self.guests.remove(n);
                return if sound {
                    Said::Cookie(guest.number, guest.stream, guest.cookie)
                } else {
                    Said::Garbage
                };
            }
            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => return Said::Little,
            Err(_) => {}
        }
        self.guests.remove(n);
        Said::Garbage
    }

    /// Send away who took too long; how many they were.
    pub(super) fn expire(&mut self, now: Instant) -> u64 {
        let before = self.guests.len();
        self.guests.retain(|guest| guest.until > now);
        (before - self.guests.len()) as u64
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
        let mut lobby = Lobby::new(10);
        let now = Instant::now();
        let (mut slow, accepted, from) = guest(&listener);
        lobby.enter(accepted, from, now);
        assert!(matches!(lobby.read(0), Said::Little));
        slow.write_all(&[b'a'; 20]).unwrap();
        std::thread::sleep(Duration::from_millis(20));
        assert!(matches!(lobby.read(0), Said::Little));
        slow.write_all(&[b'b'; 16]).unwrap();
        slow.write_all(&[0, 9]).unwrap();
        std::thread::sleep(Duration::from_millis(20));
        let Said::Cookie(1, _, cookie) = lobby.read(0) else { panic!("no cookie") };
        assert_eq!((cookie[0], cookie[35], cookie[36]), (b'a', b'b', 0));
        let (mut web, accepted, from) = guest(&listener);
        lobby.enter(accepted, from, now);
        web.write_all(b"GET / HTTP/1.1").unwrap();
        std::thread::sleep(Duration::from_millis(20));
        assert!(matches!(lobby.read(0), Said::Garbage));
        assert_eq!(lobby.sockets().count(), 0);
    }

    #[test]
    fn there_are_never_more_than_may_be_and_none_stays_too_long() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut lobby = Lobby::new(3);
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
