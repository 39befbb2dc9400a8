//! The two ends of a Unix socket between who decides and who forwards.
//!
//! ```text
//!   control                         planes
//!      │ ──────── connect ───────────▶ │
//!      │ ◀─ Hello: addresses, table ── │      the table in use, to go on with
//!      │ ──────── Table ─────────────▶ │
//!      │ ◀─────── Done ─────────────── │      every 50 ms
//!      │ ──────── End ───────────────▶ │      or the connection ends: packets go on by the last table
//! ```
//!
//! If the planes' process dies, its end of the socket closes: another is started at once, and given the last table. What
//! it counts is added to what the former one said last. Packets that came in between are in no counter.
//!
//! Limits: one controller at a time; another is turned away. Whoever may open the socket's file may decide.

mod messages;
mod serve;

use super::shared::{Done, Lost, Planes};
use messages::{DONE, END, HELLO, Hello, PATIENCE, TABLE, Told, read, write};
use skyhaul_core::balance::Table;
use std::io;
use std::net::{Shutdown, SocketAddr};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// How long a process that was started may take until it serves.
const START: Duration = Duration::from_secs(10);
/// How often it is looked for.
const LOOK: Duration = Duration::from_millis(10);
/// The time from one start to the next, if the former one soon ended.
const AGAIN: Duration = Duration::from_secs(1);

/// A process that was started to forward: says why it has ended, if it has.
pub type Started = Box<dyn FnMut() -> Option<io::Error> + Send>;
/// Starts a process that forwards from these addresses, and serves at the path of the former one.
pub type Restart = Box<dyn Fn(&[SocketAddr]) -> io::Result<Started> + Send + Sync>;

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

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
    heard: Mutex<Heard>,
}

#[derive(Default)]
struct Heard {
    /// What the process that forwards did.
    done: Done,
    /// What those before it did.
    before: Done,
    newest: Option<u64>,
    notes: Vec<String>,
    lost: Lost,
    /// Since when there is none.
    gone: Option<Instant>,
}

impl Remote {
    /// Connect to the planes that are served at `path`; if they die, they are to be started again by `restart`. Returns
    /// their table, too.
    pub(super) fn connect(path: &Path, restart: Option<Restart>) -> io::Result<(Arc<Remote>, Table)> {
        let (stream, hello, table) = greet(path)?;
        let from = stream.try_clone()?;
        let link = Arc::new(Link {
            path: path.to_owned(),
            data: hello.data,
            restart,
            ends: AtomicBool::new(false),
            tables: AtomicU64::new(hello.tables),
            stream: Mutex::new((stream, hello.table)),
            heard: Mutex::default(),
        });
        let to = Arc::clone(&link);
        let reader = std::thread::Builder::new().name("balance-remote".to_owned());
        let reader = Mutex::new(Some(reader.spawn(move || to.run(from))?));
        Ok((Arc::new(Remote { link, reader }), table))
    }

    pub(super) fn data(&self) -> &[SocketAddr] {
        &self.link.data
    }

    /// Tell them to end, and wait until they have.
    pub(super) fn end(&self) {
        self.link.ends.store(true, Ordering::Release);
        if let Err(error) = write(&locked(&self.link.stream).0, END, &[]) {
            self.note(format!("the data plane cannot be told to end: {error}"));
        }
        self.join();
    }

    /// Why planes are not heard any more, and not started again.
    pub(super) fn fault(&self) -> Option<String> {
        let ended = locked(&self.reader).as_ref().is_some_and(JoinHandle::is_finished);
        (ended && !self.link.ends()).then(|| {
            let why = locked(&self.link.heard).notes.last().cloned();
            why.unwrap_or_else(|| "the thread that listens to the data plane has ended".to_owned())
        })
    }

    fn join(&self) {
        if let Some(reader) = locked(&self.reader).take() {
            let _ = reader.join();
        }
    }
}

impl Drop for Remote {
    fn drop(&mut self) {
        self.link.ends.store(true, Ordering::Release);
        let _ = locked(&self.link.stream).0.shutdown(Shutdown::Both);
        self.join();
    }
}

/// Connect to the planes at `path`: they say what they have.
fn greet(path: &Path) -> io::Result<(UnixStream, Hello, Table)> {
    let failed = |error: io::Error| {
        let why = match error.kind() {
            io::ErrorKind::UnexpectedEof => "it has a controller already".to_owned(),
            _ => error.to_string(),
        };
        io::Error::new(error.kind(), format!("connect to the data plane at {}: {why}", path.display()))
    };
    let stream = UnixStream::connect(path).map_err(failed)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    let (letter, octets) = read(&stream).map_err(failed)?;
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
    /// Listen to the planes, and to those that follow them.
    fn run(&self, mut from: UnixStream) {
        loop {
            let begun = Instant::now();
            let Err(why) = self.follow(&from) else { return };
            if self.ends() {
                return;
            }
            let Some(restart) = &self.restart else {
                let text =
                    format!("the data plane is not heard any more: {why}; hint: start the balancer again");
                return self.note(text);
            };
            let gone = Instant::now();
            locked(&self.heard).gone = Some(gone);
            // One that dies at once is not started in a loop; its ports are free a moment after its end.
            let mut pause = AGAIN.saturating_sub(begun.elapsed()).max(LOOK * 2);
            from = loop {
                self.pause(pause);
                if self.ends() {
                    return;
                }
                match self.start(restart) {
                    Ok(from) => break from,
                    Err(error) => {
                        self.note(format!("the data plane ended, and cannot be started again: {error}"));
                        pause = (pause * 2).min(AGAIN);
                    }
                }
            };
            self.is_back(gone, &why);
        }
    }

    fn ends(&self) -> bool {
        self.ends.load(Ordering::Acquire)
    }

    fn pause(&self, time: Duration) {
        let begun = Instant::now();
        while begun.elapsed() < time && !self.ends() {
            std::thread::sleep(LOOK.min(time));
        }
    }

    /// Keep what the planes say, until they end or the connection does.
    fn follow(&self, from: &UnixStream) -> io::Result<()> {
        loop {
            match read(from)? {
                (DONE, octets) => {
                    let done = serde_json::from_slice::<Told>(&octets)?.done();
                    let mut heard = locked(&self.heard);
                    heard.newest = heard.newest.max(done.newest);
                    heard.done = done;
                }
                (END, _) => return Ok(()),
                (letter, _) => {
                    return Err(io::Error::other(format!("a message of an unknown kind ({letter})")));
                }
            }
        }
    }

    /// Start a process, and give it the table.
    fn start(&self, restart: &Restart) -> io::Result<UnixStream> {
        let mut started = restart(&self.data)?;
        let begun = Instant::now();
        let (stream, hello) = loop {
            let error = match greet(&self.path) {
                Ok((stream, hello, _)) => break (stream, hello),
                Err(error) => error,
            };
            if let Some(why) = started() {
                return Err(why);
            }
            if begun.elapsed() > START || self.ends() {
                return Err(error);
            }
            std::thread::sleep(LOOK);
        };
        let from = stream.try_clone()?;
        let mut link = locked(&self.stream);
        write(&stream, TABLE, &link.1)?;
        link.0 = stream;
        self.tables.store(hello.tables + 1, Ordering::Release);
        Ok(from)
    }

    /// Others forward now: add up what the former ones did.
    fn is_back(&self, gone: Instant, why: &io::Error) {
        let mut heard = locked(&self.heard);
        let former = std::mem::take(&mut heard.done);
        heard.before.add(&former);
        (heard.gone, heard.lost.restarts) = (None, heard.lost.restarts + 1);
        let away = gone.elapsed();
        heard.lost.away += away;
        drop(heard);
        self.note(format!(
            "the data plane ended ({why}) and was started again {:.2} s later: packets of that time, and those that it had \
             not forwarded yet, are lost and in no counter",
            away.as_secs_f64()
        ));
    }

    fn note(&self, text: String) {
        let mut heard = locked(&self.heard);
        if heard.notes.len() < 100 && !heard.notes.contains(&text) {
            heard.notes.push(text);
        }
    }
}

impl Planes for Remote {
    fn publish(&self, table: Table) {
        let mut link = locked(&self.link.stream);
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

    fn tables(&self) -> u64 {
        self.link.tables.load(Ordering::Acquire)
    }

    fn take_newest(&self) -> Option<u64> {
        locked(&self.link.heard).newest.take()
    }

    fn note(&self, text: String) {
        self.link.note(text);
    }

    fn merged(&self) -> Done {
        let heard = locked(&self.link.heard);
        let mut done = heard.done.clone();
        done.add(&heard.before);
        done.notes.extend(heard.notes.iter().cloned());
        done.lost = heard.lost;
        done.lost.away += heard.gone.map_or(Duration::ZERO, |gone| gone.elapsed());
        done
    }
}
