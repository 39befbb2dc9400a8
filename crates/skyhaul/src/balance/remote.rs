//! The two ends of a Unix socket between who decides and who forwards.
//!
//! ```text
//!   control                         planes
//!      │ ──────── connect ───────────▶ │
//!      │ ◀─ Hello: addresses, table ── │      the table in use, to go on with
//!      │ ──────── Table ─────────────▶ │
//!      │ ◀─────── Settled ──────────── │      a table in use: its calendars may begin later
//!      │ ◀─────── Done ─────────────── │      every 50 ms
//!      │ ──────── End ───────────────▶ │      or the connection ends: packets go on by the last table
//! ```
//!
//! If the planes' process dies, its end of the socket closes: another is started at once, and given the last table. What
//! it counts is added to what the former one said last. Packets that came in between are in no counter.
//!
//! A broken connection alone is no death: this process or the other may have been stopped for a while (SIGSTOP, a paused
//! guest). As long as somebody listens at the path, nobody else is started: the connection is made again. Each process has
//! a number, so what one and the same counts is never added twice.
//!
//! Limits: one controller at a time; another is turned away. Whoever may open the socket's file may decide.

mod serve;

use super::control::{Done, Lost, Planes};
use super::remote::serve::{
    DONE, END, HELLO, Hello, PATIENCE, SETTLED, TABLE, Told, numbered, read, read_while, write,
};
use skyhaul_core::balance::{Table, Ticks};
use skyhaul_core::hint::Hint;
use skyhaul_io::host::server::Server;
use skyhaul_io::lock::lock;
use std::fs::{File, OpenOptions, TryLockError};
use std::io;
use std::net::{Shutdown, SocketAddr};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// How often the end of a wait is looked for.
const POLL_INTERVAL: Duration = Duration::from_millis(10);

/// How long planes may take to end: they forward what is in their sockets first.
const END_TIMEOUT: Duration = Duration::from_secs(5);

/// A process that was started to forward: says why it has ended, if it has.
pub type Started = Box<dyn FnMut() -> Option<io::Error> + Send>;
/// Starts a process that forwards from these addresses, and serves at the path of the former one.
pub type Restart = Box<dyn Fn(&[SocketAddr]) -> io::Result<Started> + Send + Sync>;

/// Planes in another process.
pub(super) struct Remote {
    link: Arc<Link>,
    reader: Mutex<Option<JoinHandle<()>>>,
}

/// What the thread that reads shares with those that write.
struct Link {
    path: PathBuf,
    data: Vec<SocketAddr>,
    restart: Option<Restart>,
    /// Nobody is to be started any more.
    ends: AtomicBool,
    tables: AtomicU64,
    /// The connection, and the last table that was given out.
    stream: Mutex<(UnixStream, Vec<u8>)>,
    /// The process that forwards, if it is another one.
    server: Mutex<Option<Server>>,
    heard: Mutex<Heard>,
}

#[derive(Default)]
struct Heard {
    /// Which process forwards.
    id: u64,
    /// What the process that forwards did.
    done: Done,
    /// What those before it did.
    before: Done,
    ticks: Ticks,
    /// The table in use, and its number.
    settled: Option<(u64, Arc<Table>)>,
    notes: Vec<String>,
    lost: Lost,
    /// Since when there is none.
    gone: Option<Instant>,
}

impl Remote {
    /// Connect to the planes that are served at `path`; if they die, they are to be started again by `restart`. Returns
    /// their table, too.
    pub(super) fn connect(path: &Path, restart: Option<Restart>) -> io::Result<(Arc<Remote>, Table)> {
        let begun = Instant::now();
        let (stream, hello, table) = greet(path, &mut || begun.elapsed() < PATIENCE)?;
        let from = stream.try_clone()?;
        let link = Arc::new(Link {
            path: path.to_owned(),
            data: hello.data,
            restart,
            ends: AtomicBool::new(false),
            tables: AtomicU64::new(hello.tables),
            server: Mutex::new(Server::of(&stream)),
            stream: Mutex::new((stream, hello.table)),
            heard: Mutex::new(Heard {
                id: hello.id,
                settled: Some((hello.tables, Arc::new(table.clone()))),
                ..Heard::default()
            }),
        });
        let to = Arc::clone(&link);
        let reader = std::thread::Builder::new().name("balance-remote".to_owned());
        let reader = Mutex::new(Some(reader.spawn(move || to.run(from))?));
        Ok((Arc::new(Remote { link, reader }), table))
    }

    pub(super) fn data(&self) -> &[SocketAddr] {
        &self.link.data
    }

    /// Tell them to end, and wait until they have. A process that does not, because it is stopped (SIGSTOP) or hangs, is killed.
    pub(super) fn end(&self) {
        let deadline = Instant::now() + END_TIMEOUT;
        self.link.ends.store(true, Ordering::Release);
        let told = write(&lock(&self.link.stream).0, END, &[]);
        let server = lock(&self.link.server).take();
        match (server, told) {
            (Some(server), told) => self.end_process(&server, told, deadline),
            (None, Err(error)) => self.note(format!("the data plane cannot be told to end: {error}")),
            (None, Ok(())) => {}
        }
        // Its last counts are on their way.
        let is_heard = || lock(&self.reader).as_ref().is_some_and(|reader| !reader.is_finished());
        while is_heard() && Instant::now() < deadline {
            std::thread::sleep(POLL_INTERVAL);
        }
        let _ = lock(&self.link.stream).0.shutdown(Shutdown::Both);
        self.join();
    }

    fn end_process(&self, server: &Server, told: io::Result<()>, deadline: Instant) {
        // Where the connection is broken, it hears a signal.
        let told = told.or_else(|_| server.end());
        if server.ends_within(deadline.saturating_duration_since(Instant::now())) {
            return;
        }
        lock(&self.link.heard).lost.incomplete = true;
        let (pid, path) = (server.pid(), self.link.path.display());
        let killed = told.and_then(|()| server.kill());
        self.note(match killed {
            Ok(()) if server.ends_within(END_TIMEOUT) => {
                let _ = std::fs::remove_file(&self.link.path);
                format!(
                    "the data plane at {path} (process {pid}) did not end within {} s, because it was stopped (SIGSTOP) or hung, \
                     and was killed: packets in its sockets are lost, and the counters may be incomplete",
                    END_TIMEOUT.as_secs()
                )
            }
            Ok(()) => format!("the data plane at {path} (process {pid}) was killed, and has not ended yet"),
            Err(error) => format!(
                "the data plane at {path} (process {pid}) did not end and cannot be killed: {error}{}",
 Hint(format_args!("kill -9 {pid}"))
            ),
        });
    }

    /// As if the other end were gone.
    #[cfg(test)]
    pub(super) fn break_connection(&self) {
        let _ = lock(&self.link.stream).0.shutdown(Shutdown::Both);
    }

    /// Why planes are not heard any more, and not started again.
    pub(super) fn fault(&self) -> Option<String> {
        let ended = lock(&self.reader).as_ref().is_some_and(JoinHandle::is_finished);
        (ended && !self.link.ends()).then(|| {
            let why = lock(&self.link.heard).notes.last().cloned();
            why.unwrap_or_else(|| "the thread that listens to the data plane has ended".to_owned())
        })
    }

    fn join(&self) {
        if let Some(reader) = lock(&self.reader).take() {
            let _ = reader.join();
        }
    }
}

impl Drop for Remote {
    fn drop(&mut self) {
        self.link.ends.store(true, Ordering::Release);
        let _ = lock(&self.link.stream).0.shutdown(Shutdown::Both);
        self.join();
    }
}

/// The letter of the next message.
#[cfg(test)]
pub(super) fn read_for_tests(from: &UnixStream) -> io::Result<u8> {
    read(from).map(|(letter, _)| letter)
}

/// Connect to the planes at `path`: they say what they have. While they say nothing, `waits` is asked whether to wait longer.
fn greet(path: &Path, waits: &mut dyn FnMut() -> bool) -> io::Result<(UnixStream, Hello, Table)> {
    let failed = |error: io::Error| {
        let why = match error.kind() {
            io::ErrorKind::UnexpectedEof => "it has a controller already".to_owned(),
            _ => error.to_string(),
        };
        io::Error::new(error.kind(), format!("connect to the data plane at {}: {why}", path.display()))
    };
    let stream = UnixStream::connect(path).map_err(failed)?;
    stream.set_read_timeout(Some(POLL_INTERVAL * 5))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    let (letter, octets) = read_while(&stream, waits).map_err(failed)?;
    if letter != HELLO {
        return Err(failed(io::Error::new(io::ErrorKind::InvalidData, "it does not say what it is")));
    }
    let hello: Hello = serde_json::from_slice(&octets).map_err(|error| failed(error.into()))?;
    let table = Table::from_bytes(&hello.table)
        .map_err(|error| failed(io::Error::new(io::ErrorKind::InvalidData, error)))?;
    // Silence does not end it: planes may be stopped for a while.
    stream.set_read_timeout(None)?;
    Ok((stream, hello, table))
}

impl Link {
    fn ends(&self) -> bool {
        self.ends.load(Ordering::Acquire)
    }

    fn pause(&self, time: Duration) {
        let begun = Instant::now();
        while begun.elapsed() < time && !self.ends() {
            std::thread::sleep(POLL_INTERVAL.min(time));
        }
    }

    /// Keep what the planes say, until they end or the connection does.
    fn follow(&self, from: &UnixStream) -> io::Result<()> {
        loop {
            match read(from)? {
                (DONE, octets) => {
                    let done = serde_json::from_slice::<Told>(&octets)?.done();
                    let mut heard = lock(&self.heard);
                    heard.ticks.merge(&done.ticks);
                    heard.done = done;
                }
                (SETTLED, octets) => lock(&self.heard).settled = Some(numbered(&octets)?),
                (END, _) => return Ok(()),
                (letter, _) => {
                    return Err(io::Error::other(format!("a message of an unknown kind ({letter})")));
                }
            }
        }
    }

    fn note(&self, text: String) {
        let mut heard = lock(&self.heard);
        if heard.notes.len() < 100 && !heard.notes.contains(&text) {
            heard.notes.push(text);
        }
    }
}

impl Planes for Remote {
    fn publish(&self, table: Table) {
        let mut link = lock(&self.link.stream);
        link.1 = table.to_bytes();
        self.link.tables.fetch_add(1, Ordering::AcqRel);
        let Err(error) = write(&link.0, TABLE, &link.1) else { return };
        // Half a message would be taken for another.
        let _ = link.0.shutdown(Shutdown::Both);
        // Those that are started next are given it.
        if self.link.restart.is_none() {
            drop(link);
            self.note(format!("the data plane does not take tables any more: {error}"));
        }
    }

    fn settled(&self) -> Option<Arc<Table>> {
        let (number, table) = lock(&self.link.heard).settled.clone()?;
        (number == self.tables()).then_some(table)
    }

    fn tables(&self) -> u64 {
        self.link.tables.load(Ordering::Acquire)
    }

    fn take_ticks(&self) -> Ticks {
        std::mem::take(&mut lock(&self.link.heard).ticks)
    }

    fn note(&self, text: String) {
        self.link.note(text);
    }

    fn merged(&self) -> Done {
        let heard = lock(&self.link.heard);
        let mut done = heard.done.clone();
        done.add(&heard.before);
        done.notes.extend(heard.notes.iter().cloned());
        done.lost = heard.lost;
        done.lost.away += heard.gone.map_or(Duration::ZERO, |gone| gone.elapsed());
        done
    }
}

/// How long a process that was started may take until it serves.
const START_TIMEOUT: Duration = Duration::from_secs(10);
/// The time from one start to the next, if the former one soon ended.
const RESTART_DELAY: Duration = Duration::from_secs(1);

impl Link {
    /// Listen to the planes, and to those that follow them.
    fn run(&self, mut from: UnixStream) {
        loop {
            let begun = Instant::now();
            let Err(why) = self.follow(&from) else { return };
            if self.ends() {
                return;
            }
            // One that dies at once is not started in a loop; its ports are free a moment after its end.
            let pause = RESTART_DELAY.saturating_sub(begun.elapsed()).max(POLL_INTERVAL * 2);
            let Some(next) = self.again(&why, pause) else { return };
            from = next;
        }
    }

    /// Connect to whoever forwards now; start a process only if nobody does.
    fn again(&self, why: &io::Error, mut pause: Duration) -> Option<UnixStream> {
        let lost = Instant::now();
        loop {
            self.pause(pause);
            if self.ends() {
                return None;
            }
            let error = match self.greet_again() {
                Ok((from, hello)) => {
                    self.is_back(&hello, lost, why);
                    return Some(from);
                }
                Err(error) => error,
            };
            if is_nobody(&error) {
                let Some(restart) = &self.restart else {
                    self.note(format!(
                        "the data plane is not heard any more: {why}{}",
                        Hint("start the balancer again")
                    ));
                    return None;
                };
                lock(&self.heard).gone.get_or_insert(lost);
                match self.start(restart) {
                    Ok((from, hello)) => {
                        self.is_back(&hello, lost, why);
                        return Some(from);
                    }
                    Err(error) => {
                        self.note(format!("the data plane ended, and cannot be started again: {error}"));
                    }
                }
            }
            pause = (pause * 2).min(RESTART_DELAY);
        }
    }

    /// Connect to the planes that still serve. Some that are stopped say nothing until they go on: nobody is started beside
    /// them.
    fn greet_again(&self) -> io::Result<(UnixStream, Hello)> {
        let begun = Instant::now();
        let mut waits = || {
            if begun.elapsed() > PATIENCE {
                self.note(format!(
                    "the data plane at {} runs and does not answer: packets go on by its last table, if at all{}",
                    self.path.display(), Hint("if it is stopped, continue it (SIGCONT); if it hangs, kill it: another is started then")));
            }
            !self.ends()
        };
        let (stream, hello, _) = greet(&self.path, &mut waits)?;
        self.take(stream, hello)
    }

    /// Start a process, and give it the table.
    fn start(&self, restart: &Restart) -> io::Result<(UnixStream, Hello)> {
        let mut started = restart(&self.data)?;
        let begun = Instant::now();
        loop {
            let mut waits = || begun.elapsed() < START_TIMEOUT && !self.ends();
            let error = match greet(&self.path, &mut waits) {
                Ok((stream, hello, _)) => return self.take(stream, hello),
                Err(error) => error,
            };
            if let Some(why) = started() {
                return Err(why);
            }
            if begun.elapsed() > START_TIMEOUT || self.ends() {
                return Err(error);
            }
            std::thread::sleep(POLL_INTERVAL);
        }
    }

    /// From now on tables are written to this connection, and first the newest one.
    fn take(&self, stream: UnixStream, hello: Hello) -> io::Result<(UnixStream, Hello)> {
        let from = stream.try_clone()?;
        let mut link = lock(&self.stream);
        write(&stream, TABLE, &link.1)?;
        *lock(&self.server) = Server::of(&stream);
        link.0 = stream;
        if self.ends() {
            write(&link.0, END, &[])?;
        }
        lock(&self.heard).settled = None;
        self.tables.store(hello.tables + 1, Ordering::Release);
        Ok((from, hello))
    }

    /// Somebody is heard again. If these are others, add up what the former ones did; what the same ones did is in what they say.
    fn is_back(&self, hello: &Hello, lost: Instant, why: &io::Error) {
        let seconds = lost.elapsed().as_secs_f64();
        let mut heard = lock(&self.heard);
        let is_same = std::mem::replace(&mut heard.id, hello.id) == hello.id;
        let gone = heard.gone.take();
        if is_same {
            drop(heard);
            return self.note(format!(
                "the connection to the data plane broke ({why}) and was made again {seconds:.2} s later: packets went on by \
                 its last table, and are counted"
            ));
        }
        let former = std::mem::take(&mut heard.done);
        heard.before.add(&former);
        heard.lost.restarts += 1;
        heard.lost.away += gone.unwrap_or(lost).elapsed();
        drop(heard);
        self.note(format!(
            "the data plane ended ({why}) and was started again {seconds:.2} s later: packets of that time, and those that it \
             had not forwarded yet, are lost and in no counter"
        ));
    }
}

/// Nobody serves there.
fn is_nobody(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused)
}

/// A lock beside the socket of a data plane, taken before any port is opened: a second one that was started by mistake would
/// otherwise take a part of the packets of ports that both have open. It is free when the process ends in any way.
#[derive(Debug)]
pub struct Claim {
    path: PathBuf,
    _file: File,
}

impl Claim {
    /// Take the right to forward at `socket`.
    ///
    /// # Errors
    /// Another process has it, or the file cannot be made: the error names it.
    pub fn take(socket: &Path) -> io::Result<Claim> {
        let mut path = socket.as_os_str().to_owned();
        path.push(".lock");
        let path = PathBuf::from(path);
        let failed =
            |error: io::Error| io::Error::new(error.kind(), format!("lock {}: {error}", path.display()));
        loop {
            let open = OpenOptions::new().write(true).create(true).truncate(false).mode(0o600).open(&path);
            let file = open.map_err(failed)?;
            match file.try_lock() {
                Ok(()) => {}
                Err(TryLockError::WouldBlock) => {
                    let text = format!("another data plane forwards at {} already", socket.display());
                    return Err(io::Error::new(io::ErrorKind::AddrInUse, text));
                }
                Err(TryLockError::Error(error)) => return Err(failed(error)),
            }
            // The former one removed the file after it was opened here: the next one would not meet this lock.
            let is_it = |there: std::fs::Metadata| Ok::<_, io::Error>(there.ino() == file.metadata()?.ino());
            if std::fs::metadata(&path).and_then(is_it).unwrap_or(false) {
                return Ok(Claim { path, _file: file });
            }
        }
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.path);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_has_it_at_a_time_and_it_is_free_again() {
        let directory = tempfile::tempdir().unwrap();
        let socket = directory.path().join("plane");
        let first = Claim::take(&socket).unwrap();
        let second = Claim::take(&socket).unwrap_err();
        assert!(
            second.kind() == io::ErrorKind::AddrInUse && second.to_string().contains("already"),
            "{second}"
        );
        drop(first);
        drop(Claim::take(&socket).unwrap());
        assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 0, "nothing is left");
        let none = Claim::take(&directory.path().join("no/plane")).unwrap_err().to_string();
        assert!(none.starts_with("lock "), "{none}");
    }
}
