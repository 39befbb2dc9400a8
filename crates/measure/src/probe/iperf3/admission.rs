//! Which connections and tests a server admits. Connections that have not sent their cookie yet are few, stay for a few seconds and
//! have no thread; tests, streams and memory have limits, for all tests and for those of one address.
//!
//! A server of iperf3 has no token, so anyone may ask for as many streams as the protocol knows, 256 of a test, each with a
//! thread and buffers. One budget for all tests bounds them; one address may have three quarters of it, so that another one
//! is served, too. What a test took is free when its place is dropped, however it ended.

use super::control::{COOKIE, Cookie};
use super::params::Iperf3Params;
use crate::probe::TestDirection;
use crate::probe::answering::source;
use skyhaul::admission::ConnectionTable;
use skyhaul_io::lock::lock;
use std::collections::HashMap;
use std::io::Read as _;
use std::net::{IpAddr, SocketAddr, TcpStream};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::{Arc, Mutex, MutexGuard};
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

/// Whether these are the first `have` bytes of a cookie: letters and digits, and a zero at the end.
fn is_sound(cookie: &Cookie, have: usize) -> bool {
    let text = &cookie[..have.min(COOKIE - 1)];
    text.iter().all(u8::is_ascii_alphanumeric) && (have < COOKIE || cookie[COOKIE - 1] == 0)
}

/// Bytes that are kept of a stream's intervals: of TCP with what the kernel said, of UDP.
const KEPT: (u64, u64) = (1 << 20, 128 << 10);
/// Bytes into which a stream of datagrams receives.
const SCRATCH: u64 = 2200 << 10;
/// Receive buffer of a stream of datagrams for which none is asked, at most and at least; all of a test share an eighth of the memory.
const BUFFER: (u64, u64) = (16 << 20, 64 << 10);

/// What there is, or what is taken of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct ResourceAmount {
    pub(super) tests: usize,
    pub(super) streams: usize,
    pub(super) bytes: u64,
}

impl ResourceAmount {
    fn plus(self, more: ResourceAmount) -> ResourceAmount {
        ResourceAmount {
            tests: self.tests + more.tests,
            streams: self.streams + more.streams,
            bytes: self.bytes.saturating_add(more.bytes),
        }
    }

    fn less(self, part: ResourceAmount) -> ResourceAmount {
        ResourceAmount {
            tests: self.tests.saturating_sub(part.tests),
            streams: self.streams.saturating_sub(part.streams),
            bytes: self.bytes.saturating_sub(part.bytes),
        }
    }

    fn fits(self, most: ResourceAmount) -> bool {
        self.tests <= most.tests && self.streams <= most.streams && self.bytes <= most.bytes
    }
}

/// The budget.
#[derive(Debug)]
pub(super) struct Resources {
    all: ResourceAmount,
    of_one: ResourceAmount,
    taken: Mutex<(ResourceAmount, HashMap<IpAddr, ResourceAmount>)>,
}

impl Resources {
    /// Of so much in all, and so many tests of one address.
    pub(super) fn new(all: ResourceAmount, tests_of_one: usize) -> Self {
        let of_one = ResourceAmount {
            tests: tests_of_one.max(1),
            streams: (all.streams - all.streams / 4).max(1),
            bytes: all.bytes - all.bytes / 4,
        };
        Self { all, of_one, taken: Mutex::default() }
    }

    fn taken(&self) -> MutexGuard<'_, (ResourceAmount, HashMap<IpAddr, ResourceAmount>)> {
        lock(&self.taken)
    }

    fn take(&self, of: IpAddr, more: ResourceAmount) -> bool {
        let mut taken = self.taken();
        let (all, own) = (taken.0.plus(more), taken.1.get(&of).copied().unwrap_or_default().plus(more));
        let fits = all.fits(self.all) && own.fits(self.of_one);
        if fits {
            taken.0 = all;
            taken.1.insert(of, own);
        }
        fits
    }

    /// A test begins, if there may be one more.
    pub(super) fn enter(self: &Arc<Self>, peer: IpAddr) -> Option<Reservation> {
        let (of, one) = (source(peer), ResourceAmount { tests: 1, ..ResourceAmount::default() });
        self.take(of, one).then(|| Reservation { room: self.clone(), of, took: one })
    }

    /// Receive buffer of a stream of datagrams for which none is asked, if there are so many.
    pub(super) fn buffer(&self, streams: usize) -> u64 {
        (self.all.bytes / 8 / streams.max(1) as u64).clamp(BUFFER.1, BUFFER.0)
    }

    /// What is taken now.
    pub(super) fn used(&self) -> ResourceAmount {
        self.taken().0
    }
}

/// What one test has.
#[derive(Debug)]
pub(super) struct Reservation {
    pub(super) room: Arc<Resources>,
    of: IpAddr,
    took: ResourceAmount,
}

impl Reservation {
    /// The streams of the test, with the memory that they may need; false if there is not as much left.
    pub(super) fn take(&mut self, params: &Iperf3Params) -> bool {
        let streams = params.connections();
        let block = params.block.bytes();
        let window = params.window.map(|window| window.bytes());
        let each = match params.udp {
            false => KEPT.0 + block + 2 * window.unwrap_or(0),
            true => {
                let receives = params.way != TestDirection::Reverse;
                let scratch = if receives { SCRATCH } else { 0 };
                KEPT.1 + block + scratch + window.unwrap_or_else(|| self.room.buffer(streams))
            }
        };
        let more = ResourceAmount { tests: 0, streams, bytes: each.saturating_mul(streams as u64) };
        let fits = self.room.take(self.of, more);
        if fits {
            self.took = self.took.plus(more);
        }
        fits
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        let mut taken = self.room.taken();
        taken.0 = taken.0.less(self.took);
        let left = taken.1.get(&self.of).copied().unwrap_or_default().less(self.took);
        if left == ResourceAmount::default() {
            taken.1.remove(&self.of);
        } else {
            taken.1.insert(self.of, left);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use skyhaul_io::quantity::Size;
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

    fn room() -> Arc<Resources> {
        Arc::new(Resources::new(ResourceAmount { tests: 16, streams: 512, bytes: 1 << 30 }, 12))
    }

    fn ip(n: u8) -> IpAddr {
        IpAddr::from([10, 0, 0, n])
    }

    #[test]
    fn sixteen_tests_of_256_streams_of_one_address_leave_room_for_another() {
        let room = room();
        let most = Iperf3Params { streams: 128, way: TestDirection::Both, ..Iperf3Params::default() };
        let mut places = Vec::new();
        let mut began = 0;
        for _ in 0..16 {
            let Some(mut place) = room.enter(ip(1)) else { continue };
            began += u32::from(place.take(&most));
            places.push(place);
        }
        assert_eq!(
            (places.len(), began),
            (12, 1),
            "12 tests of one address; 384 streams are one test of 256"
        );
        let mut honest = room.enter(ip(2)).unwrap();
        assert!(honest.take(&Iperf3Params::default()));
        assert!(room.enter(ip(3)).unwrap().take(&Iperf3Params { streams: 128, ..Iperf3Params::default() }));
        assert_eq!(room.used(), ResourceAmount { tests: 13, ..room.used() });
        drop((places, honest));
        assert_eq!(room.used(), ResourceAmount::default());
        assert!(room.taken().1.is_empty(), "nothing is remembered of those that left");
    }

    #[test]
    fn memory_is_bounded_by_what_blocks_and_buffers_may_take() {
        let room = room();
        let begin = |params: &Iperf3Params, n| {
            let mut place = room.enter(ip(n)).unwrap();
            place.take(params).then_some(place)
        };
        let udp = |way| Iperf3Params { udp: true, way, streams: 128, ..Iperf3Params::default() };
        for way in [TestDirection::Forward, TestDirection::Reverse, TestDirection::Both] {
            assert!(begin(&udp(way), 1).is_some(), "every stream that the protocol knows, {way:?}");
        }
        assert_eq!((room.buffer(1), room.buffer(128), room.buffer(1 << 20)), (16 << 20, 1 << 20, 64 << 10));
        let large = Iperf3Params { window: Some(Size::from_bytes(1 << 30)), ..Iperf3Params::default() };
        assert!(begin(&large, 1).is_none(), "one stream with the largest window");
        assert!(begin(&Iperf3Params { window: Some(Size::from_bytes(64 << 20)), ..large }, 1).is_some());
        let one: Vec<Reservation> = (0..4).filter_map(|n| begin(&udp(TestDirection::Forward), n)).collect();
        assert!(one.len() >= 2 && room.used().bytes <= 1 << 30, "{:?}", room.used());
    }
}
