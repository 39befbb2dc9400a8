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
//! A message is its length (32 bits, big-endian), a letter, and octets: a table as it writes itself, or JSON.
//!
//! Limits: one controller at a time; another is turned away. Whoever may open the socket's file may decide.

use super::data_plane::DataPlane;
use super::shared::{Done, Planes};
use crate::report::SourceReport;
use serde::{Deserialize, Serialize};
use skyhaul_core::balance::{Counters, Refusal, Seat, Table, Traffic};
use skyhaul_io::udp::forward::Forwarded;
use std::io::{self, Read, Write};
use std::net::SocketAddr;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

/// How often planes say what they did.
const PERIOD: Duration = Duration::from_millis(50);
/// How long an end waits for the other.
const PATIENCE: Duration = Duration::from_secs(2);
/// Octets of a message, at most: a table of 32 calendars, with room for networks.
const LONGEST: usize = 16 << 20;

const HELLO: u8 = b'H';
const TABLE: u8 = b'T';
const DONE: u8 = b'D';
const END: u8 = b'E';

#[derive(Serialize, Deserialize)]
struct Hello {
    data: Vec<SocketAddr>,
    tables: u64,
    table: Vec<u8>,
}

/// [`Done`], as it is told.
#[derive(Serialize, Deserialize)]
struct Told {
    packets: u64,
    refused: Vec<u64>,
    /// Seat, packets, bytes.
    members: Vec<(u16, u64, u64)>,
    /// Packets, bytes, no room, unreachable, too long.
    forwarded: [u64; 5],
    sources: Vec<SourceReport>,
    mode: String,
    cpu_nanos: u64,
    singly: u64,
    table: u64,
    newest: Option<u64>,
    notes: Vec<String>,
}

impl Told {
    fn new(done: Done, newest: Option<u64>) -> Told {
        let Forwarded { packets, bytes, no_room, unreachable, too_long } = done.forwarded;
        let member = |(seat, sent): (Seat, Traffic)| (seat.number() as u16, sent.packets, sent.bytes);
        Told {
            packets: done.counters.packets,
            refused: Refusal::ALL.iter().map(|&why| done.counters.refused(why)).collect(),
            members: done.counters.members().map(member).collect(),
            forwarded: [packets, bytes, no_room, unreachable, too_long],
            sources: done.sources,
            mode: done.mode,
            cpu_nanos: u64::try_from(done.cpu.as_nanos()).unwrap_or(u64::MAX),
            singly: done.singly,
            table: done.table,
            newest,
            notes: done.notes,
        }
    }

    fn done(self) -> Done {
        let [packets, bytes, no_room, unreachable, too_long] = self.forwarded;
        let member =
            |(seat, packets, bytes)| Some((Seat::new(usize::from(seat))?, Traffic { packets, bytes }));
        let members = self.members.into_iter().filter_map(member);
        Done {
            counters: Counters::of(self.packets, &self.refused, members),
            forwarded: Forwarded { packets, bytes, no_room, unreachable, too_long },
            sources: self.sources,
            mode: self.mode,
            cpu: Duration::from_nanos(self.cpu_nanos),
            singly: self.singly,
            table: self.table,
            newest: self.newest,
            notes: self.notes,
        }
    }
}

fn write(mut to: &UnixStream, letter: u8, octets: &[u8]) -> io::Result<()> {
    let mut message = Vec::with_capacity(5 + octets.len());
    message.extend((octets.len() as u32 + 1).to_be_bytes());
    message.push(letter);
    message.extend(octets);
    to.write_all(&message)
}

fn write_json(to: &UnixStream, letter: u8, what: &impl Serialize) -> io::Result<()> {
    write(to, letter, &serde_json::to_vec(what)?)
}

/// The next message; blocks.
fn read(mut from: &UnixStream) -> io::Result<(u8, Vec<u8>)> {
    let mut length = [0; 4];
    from.read_exact(&mut length)?;
    let length = u32::from_be_bytes(length) as usize;
    if length == 0 || length > LONGEST {
        return Err(io::Error::new(io::ErrorKind::InvalidData, format!("a message of {length} bytes")));
    }
    let mut octets = vec![0; length];
    from.read_exact(&mut octets)?;
    Ok((octets.remove(0), octets))
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Planes in another process.
pub(super) struct Remote {
    stream: UnixStream,
    data: Vec<SocketAddr>,
    tables: AtomicU64,
    heard: Arc<Heard>,
    reader: Mutex<Option<JoinHandle<()>>>,
}

#[derive(Default)]
struct Heard {
    done: Mutex<Done>,
    newest: Mutex<Option<u64>>,
    notes: Mutex<Vec<String>>,
}

impl Remote {
    /// Connect to the planes that are served at `path`. Returns their table, too.
    pub(super) fn connect(path: &Path) -> io::Result<(Arc<Remote>, Table)> {
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
        let heard = Arc::new(Heard::default());
        let (from, to) = (stream.try_clone()?, Arc::clone(&heard));
        let reader =
            std::thread::Builder::new().name("balance-remote".to_owned()).spawn(move || to.follow(&from))?;
        let reader = Mutex::new(Some(reader));
        let tables = AtomicU64::new(hello.tables);
        Ok((Arc::new(Remote { stream, data: hello.data, tables, heard, reader }), table))
    }

    pub(super) fn data(&self) -> &[SocketAddr] {
        &self.data
    }

    /// Tell them to end, and wait until they have.
    pub(super) fn end(&self) {
        if let Err(error) = write(&self.stream, END, &[]) {
            self.note(format!("the data plane cannot be told to end: {error}"));
        }
        if let Some(reader) = locked(&self.reader).take() {
            let _ = reader.join();
        }
    }
}

impl Drop for Remote {
    fn drop(&mut self) {
        let _ = self.stream.shutdown(std::net::Shutdown::Both);
        if let Some(reader) = locked(&self.reader).take() {
            let _ = reader.join();
        }
    }
}

impl Heard {
    fn follow(&self, from: &UnixStream) {
        loop {
            let done = match read(from) {
                Ok((DONE, octets)) => serde_json::from_slice::<Told>(&octets).map_err(io::Error::from),
                Ok((END, _)) => return,
                Ok((letter, _)) => Err(io::Error::other(format!("a message of an unknown kind ({letter})"))),
                Err(error) => Err(error),
            };
            match done {
                Ok(told) => {
                    let done = told.done();
                    let mut newest = locked(&self.newest);
                    *newest = (*newest).max(done.newest);
                    *locked(&self.done) = done;
                }
                Err(error) => {
                    let text = format!(
                        "the data plane is not heard any more: {error}; hint: start the balancer again"
                    );
                    return locked(&self.notes).push(text);
                }
            }
        }
    }
}

impl Planes for Remote {
    fn publish(&self, table: Table) {
        self.tables.fetch_add(1, Ordering::AcqRel);
        if let Err(error) = write(&self.stream, TABLE, &table.to_bytes()) {
            // Half a message would be taken for another.
            let _ = self.stream.shutdown(std::net::Shutdown::Both);
            self.note(format!("the data plane does not take tables any more: {error}"));
        }
    }

    fn tables(&self) -> u64 {
        self.tables.load(Ordering::Acquire)
    }

    fn take_newest(&self) -> Option<u64> {
        locked(&self.heard.newest).take()
    }

    fn note(&self, text: String) {
        let mut notes = locked(&self.heard.notes);
        if !notes.contains(&text) {
            notes.push(text);
        }
    }

    fn merged(&self) -> Done {
        let mut done = locked(&self.heard.done).clone();
        done.notes.extend(locked(&self.heard.notes).iter().cloned());
        done
    }
}

impl DataPlane {
    /// Serve controllers at `path`, one after the other, until one says that all is to end, or `stop` is set; then forward what is in the
    /// sockets, and end. Without a controller, packets go on by the last table.
    ///
    /// # Errors
    /// The socket cannot be made: the error names the path. A file that nobody listens at is replaced.
    pub fn serve(mut self, path: &Path, stop: &AtomicBool) -> io::Result<()> {
        let listener = listen(path)?;
        let mut ordered = false;
        while !ordered && !stop.load(Ordering::Acquire) {
            match listener.accept() {
                Ok((stream, _)) => ordered = self.follow(&listener, &stream, stop).unwrap_or(false),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => std::thread::sleep(PERIOD),
                Err(error) => self.shared.note(format!("no controller can connect: {error}")),
            }
        }
        let _ = std::fs::remove_file(path);
        self.end();
        Ok(())
    }

    /// Do what one controller says. Returns whether all is to end.
    fn follow(
        &mut self,
        listener: &UnixListener,
        stream: &UnixStream,
        stop: &AtomicBool,
    ) -> io::Result<bool> {
        stream.set_nonblocking(false)?;
        stream.set_write_timeout(Some(PATIENCE))?;
        let (tables, table) = (self.shared.tables(), self.shared.table().to_bytes());
        write_json(stream, HELLO, &Hello { data: self.data.clone(), tables, table })?;
        let (from, shared) = (stream.try_clone()?, Arc::clone(&self.shared));
        let tables = std::thread::Builder::new().name("balance-tables".to_owned());
        let tables = tables.spawn(move || {
            loop {
                match read(&from) {
                    Ok((TABLE, octets)) => match Table::from_bytes(&octets) {
                        Ok(table) => shared.publish(table),
                        Err(error) => shared.note(error.to_string()),
                    },
                    Ok((END, _)) => return true,
                    Ok(_) | Err(_) => return false,
                }
            }
        })?;
        while !tables.is_finished() && !stop.load(Ordering::Acquire) {
            std::thread::sleep(PERIOD);
            // A second controller is turned away.
            drop(listener.accept());
            let newest = self.shared.take_newest();
            if write_json(stream, DONE, &Told::new(self.shared.merged(), newest)).is_err() {
                break;
            }
        }
        if !tables.is_finished() {
            let _ = stream.shutdown(std::net::Shutdown::Both);
        }
        let ordered = tables.join().unwrap_or(false);
        if ordered {
            self.end();
            let newest = self.shared.take_newest();
            write_json(stream, DONE, &Told::new(self.shared.merged(), newest))?;
            write(stream, END, &[])?;
        }
        Ok(ordered)
    }
}

/// Listen at `path`, where nobody does.
fn listen(path: &Path) -> io::Result<UnixListener> {
    use std::os::unix::fs::PermissionsExt;
    let failed =
        |error: io::Error| io::Error::new(error.kind(), format!("listen at {}: {error}", path.display()));
    let listener = match UnixListener::bind(path) {
        Err(error) if error.kind() == io::ErrorKind::AddrInUse && UnixStream::connect(path).is_err() => {
            std::fs::remove_file(path).and_then(|()| UnixListener::bind(path))
        }
        listener => listener,
    };
    let listener = listener.map_err(failed)?;
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o600)).map_err(failed)?;
    listener.set_nonblocking(true).map_err(failed)?;
    Ok(listener)
}
