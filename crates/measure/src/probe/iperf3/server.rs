//! A server: one port for control connections, streams and datagrams of many concurrent clients.
//!
//! ```text
//!   door (one thread) ── cookie? ─┬─ unknown ─▶ a session, on a thread of its own
//!                                 └─ known ───▶ a stream of that session
//!   UDP door (one thread) ── first words ─▶ a connected socket ─▶ the session that waits for this host
//! ```
//!
//! First words over UDP have no cookie, so of the sessions of one host, one after the other creates its streams.

use super::admission::{Greeting, PendingConnections};
use super::admission::{ResourceAmount, Resources};
use super::control::Iperf3State;
use super::control::{Control, Cookie};
use super::datagram::answer;
use super::report::Iperf3Report;
use super::session::Session;
use super::session::{Arrival, Common, Counters, Iperf3ServerOptions, Iperf3ServerStats};
use skyhaul_io::lock::lock;
use skyhaul_io::tcp::{info::readable, setup::Setup};
use skyhaul_io::udp::peer;
use std::io::{self, Write as _};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::mpsc::SyncSender;
use std::sync::{Arc, Condvar, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// How often the doors look whether the server ends.
const TICK: Duration = Duration::from_millis(100);

/// A server that runs. It ends when it is dropped, and tells its clients.
pub struct Iperf3Server {
    local: SocketAddr,
    common: Arc<Common>,
    doors: Vec<JoinHandle<()>>,
}

impl Iperf3Server {
    /// Listen at `at` for connections and datagrams. `report` is called at the end of every test, from its thread.
    ///
    /// # Errors
    /// The port is taken, or the system has no thread left.
    pub fn start(
        at: SocketAddr,
        options: Iperf3ServerOptions,
        report: Box<dyn Fn(Iperf3Report) + Send + Sync>,
    ) -> io::Result<Self> {
        let listener = Setup::default().listen(at)?;
        listener.set_nonblocking(true)?;
        let local = listener.local_addr()?;
        let door = peer::door(local)?;
        door.set_read_timeout(Some(TICK))?;
        let most = ResourceAmount { tests: options.tests, streams: options.streams, bytes: options.memory };
        let room = Arc::new(Resources::new(most, options.per_peer));
        let common = Arc::new(Common {
            options,
            room,
            counters: Counters::default(),
            stop: AtomicBool::new(false),
            report,
            desk: Mutex::default(),
            freed: Condvar::new(),
            threads: Mutex::default(),
        });
        let mut server = Self { local, common: common.clone(), doors: Vec::new() };
        let udp = common.clone();
        let thread = |name: &str| std::thread::Builder::new().name(name.to_owned());
        server.doors.push(thread("iperf3 door").spawn(move || common.door(&listener))?);
        server.doors.push(thread("iperf3 udp door").spawn(move || udp.udp_door(&door))?);
        Ok(server)
    }

    /// Where it listens.
    #[must_use]
    pub fn local(&self) -> SocketAddr {
        self.local
    }

    /// What happened so far.
    #[must_use]
    pub fn stats(&self) -> Iperf3ServerStats {
        let counters = &self.common.counters;
        Iperf3ServerStats {
            accepted: counters.accepted.load(Relaxed),
            tests: counters.tests.load(Relaxed),
            done: counters.done.load(Relaxed),
            failed: counters.failed.load(Relaxed),
            denied: counters.denied.load(Relaxed),
            no_room: counters.no_room.load(Relaxed),
            garbage: counters.garbage.load(Relaxed),
            pushed_out: counters.pushed_out.load(Relaxed),
            silent: counters.silent.load(Relaxed),
            late_streams: counters.late_streams.load(Relaxed),
            stray_datagrams: counters.stray_datagrams.load(Relaxed),
        }
    }

    /// Whether it still serves: it ends by itself only by an internal error.
    #[must_use]
    pub fn is_running(&self) -> bool {
        !self.doors.iter().any(JoinHandle::is_finished)
    }

    /// Tests that are under way.
    #[must_use]
    pub fn running(&self) -> usize {
        self.common.desk().sessions.len()
    }

    /// Their streams, each with a thread, and the memory that is set aside for them, bytes.
    #[must_use]
    pub fn taken(&self) -> (usize, u64) {
        let used = self.common.room.used();
        (used.streams, used.bytes)
    }
}

impl Drop for Iperf3Server {
    fn drop(&mut self) {
        self.common.stop.store(true, Relaxed);
        self.common.freed.notify_all();
        for door in self.doors.drain(..) {
            let _ = door.join();
        }
        let threads = std::mem::take(&mut *lock(&self.common.threads));
        for thread in threads {
            let _ = thread.join();
        }
    }
}

/// A session that ends.
struct Leaves<'a> {
    common: &'a Common,
    cookie: Cookie,
}

impl Drop for Leaves<'_> {
    fn drop(&mut self) {
        self.common.close(&self.cookie);
        self.common.desk().sessions.remove(&self.cookie);
    }
}

impl Common {
    fn door(self: &Arc<Self>, listener: &TcpListener) {
        let mut lobby = PendingConnections::new(self.options.guests);
        while !self.is_stopped() {
            let sockets: Vec<_> = std::iter::once(listener.as_fd()).chain(lobby.sockets()).collect();
            let Ok(ready) = readable(&sockets, TICK) else {
                std::thread::sleep(TICK);
                continue;
            };
            // From the last to the first: those that leave do not move those still to be looked at.
            for n in ready.into_iter().rev() {
                match n.checked_sub(1) {
                    Some(guest) => self.hear(&mut lobby, guest),
                    None => self.let_in(listener, &mut lobby),
                }
            }
            self.counters.silent.fetch_add(lobby.expire(Instant::now()), Relaxed);
        }
    }

    fn let_in(&self, listener: &TcpListener, lobby: &mut PendingConnections) {
        // No more than the lobby holds in one go, so that those who speak are heard in between.
        for _ in 0..self.options.guests {
            match listener.accept() {
                Ok((stream, from)) => {
                    self.counters.accepted.fetch_add(1, Relaxed);
                    let pushed = lobby.enter(stream, from, Instant::now());
                    self.counters.pushed_out.fetch_add(pushed.into(), Relaxed);
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                Err(_) => {
                    // No descriptor is free: those who left give theirs back.
                    std::thread::sleep(Duration::from_millis(10));
                    return;
                }
            }
        }
    }

    fn hear(self: &Arc<Self>, lobby: &mut PendingConnections, guest: usize) {
        match lobby.read(guest) {
            Greeting::Little => {}
            Greeting::Garbage => {
                self.counters.garbage.fetch_add(1, Relaxed);
            }
            Greeting::Cookie(number, stream, cookie) => self.sort(number, stream, cookie),
        }
    }

    /// A stream of a test, or a new client.
    fn sort(self: &Arc<Self>, number: u64, mut stream: TcpStream, cookie: Cookie) {
        let mut desk = self.desk();
        if let Some(waiting) = desk.sessions.get(&cookie) {
            let taken =
                waiting.as_ref().is_some_and(|give| give.try_send(Arrival::Tcp(number, stream)).is_ok());
            self.counters.late_streams.fetch_add((!taken).into(), Relaxed);
            return;
        }
        // One that is gone already has no address.
        let place = stream.peer_addr().ok().and_then(|peer| self.room.enter(peer.ip()));
        let Some(place) = place else {
            self.counters.denied.fetch_add(1, Relaxed);
            // Its buffer is empty, so this waits for nothing.
            let _ = stream.write(&[Iperf3State::AccessDenied.octet()]);
            return;
        };
        desk.sessions.insert(cookie, None);
        drop(desk);
        self.counters.tests.fetch_add(1, Relaxed);
        let common = self.clone();
        let session = move || {
            // Whatever happens to this thread, others have its place afterwards.
            let _leaves = Leaves { common: &common, cookie };
            match Control::new(stream) {
                Ok(control) => Session::new(control, cookie, &common, place).run(),
                Err(_) => {
                    common.counters.failed.fetch_add(1, Relaxed);
                }
            }
        };
        let thread = std::thread::Builder::new().name("iperf3 session".to_owned()).spawn(session);
        let mut threads = lock(&self.threads);
        threads.retain(|thread| !thread.is_finished());
        match thread {
            Ok(thread) => threads.push(thread),
            Err(_) => {
                self.desk().sessions.remove(&cookie);
                self.counters.failed.fetch_add(1, Relaxed);
            }
        }
    }

    fn udp_door(&self, door: &UdpSocket) {
        let mut buffer = [0; 64];
        while !self.is_stopped() {
            let Ok((length, from)) = door.recv_from(&mut buffer) else { continue };
            let mut heard = vec![(from, buffer[..length].to_vec())];
            while let Some((from, words)) = heard.pop() {
                heard.extend(self.first_words(door, from, &words));
            }
        }
    }

    /// Give the session that waits for this host a socket of its own; what that socket heard of others comes back.
    fn first_words(&self, door: &UdpSocket, from: SocketAddr, words: &[u8]) -> Vec<peer::Stray> {
        let mut strays = Vec::new();
        let mut taken = false;
        if let (Some(reply), Some(give)) = (answer(words), self.waiting(from.ip()))
            && let Ok((socket, others)) = peer::connected(door, from)
        {
            strays = others;
            taken = socket.send(&reply).is_ok() && give.try_send(Arrival::Udp(socket)).is_ok();
        }
        self.counters.stray_datagrams.fetch_add((!taken).into(), Relaxed);
        strays
    }

    fn waiting(&self, host: IpAddr) -> Option<SyncSender<Arrival>> {
        let desk = self.desk();
        let cookie = desk.udp.get(&host.to_canonical())?;
        desk.sessions.get(cookie)?.clone()
    }
}
