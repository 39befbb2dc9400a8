//! The forwarding end of the connection to another process: reports counts, takes tables. And the messages of that connection.

use super::super::control::{Done, Planes};
use super::super::data_plane::DataPlane;
use crate::report::SourceReport;
use serde::{Deserialize, Serialize};
use skyhaul_core::balance::{Counters, Refusal, Seat, Table, Ticks, Traffic};
use skyhaul_core::placement::Nanos;
use skyhaul_io::udp::forward::Forwarded;
use std::io::{self, Read, Write};
use std::net::SocketAddr;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// How often planes say what they did.
const REPORT_INTERVAL: Duration = Duration::from_millis(50);
/// How long the socket may take for a part of that.
const WRITE_TIMEOUT: Duration = Duration::from_millis(1);

impl DataPlane {
    /// Serve controllers at `path`, one after the other, until one says that all is to end, or `stop` is set; then forward what is in the
    /// sockets, and end. Without a controller, packets go on by the last table. So they do while a controller is stopped: it
    /// stays the controller, and is told the newest counts when it reads again.
    ///
    /// # Errors
    /// The socket cannot be made: the error names the path. A file that nobody listens at is replaced. A thread that forwards
    /// has ended by itself: another process is better.
    pub fn serve(mut self, path: &Path, stop: &AtomicBool) -> io::Result<()> {
        let listener = listen(path)?;
        let mut ordered = false;
        while !ordered && !stop.load(Ordering::Acquire) && self.fault().is_none() {
            match listener.accept() {
                Ok((stream, _)) => ordered = self.follow(&listener, &stream, stop).unwrap_or(false),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    std::thread::sleep(REPORT_INTERVAL);
                }
                Err(error) => self.shared.note(format!("no controller can connect: {error}")),
            }
        }
        let fault = self.fault().filter(|_| !ordered);
        // As long as it forwards it is found: no other one is started beside it.
        self.end();
        let _ = std::fs::remove_file(path);
        fault.map_or(Ok(()), |why| Err(io::Error::other(why)))
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
        let (number, table) = self.shared.in_use();
        let (tables, table) = (number, table.to_bytes());
        write_json(stream, HELLO, &Hello { id: self.id, data: self.data.clone(), tables, table })?;
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
        stream.set_write_timeout(Some(WRITE_TIMEOUT))?;
        // The table of the greeting is known.
        let (mut out, mut settled) = (Outbox::default(), Some(number));
        while !tables.is_finished() && !stop.load(Ordering::Acquire) && self.fault().is_none() {
            std::thread::sleep(REPORT_INTERVAL);
            // A second controller is turned away.
            drop(listener.accept());
            if out.is_empty() {
                let (number, table) = self.shared.in_use();
                if settled.replace(number) != Some(number) {
                    out.put(SETTLED, &[&number.to_be_bytes()[..], &table.to_bytes()].concat());
                }
                let ticks = self.shared.take_ticks();
                out.put_json(DONE, &Told::new(self.shared.merged(), ticks))?;
            }
            if out.flush(stream).is_err() {
                break;
            }
        }
        if !tables.is_finished() {
            let _ = stream.shutdown(std::net::Shutdown::Both);
        }
        let ordered = tables.join().unwrap_or(false);
        if ordered {
            self.end();
            // It ends also if its controller does not hear of it.
            let _ = self.farewell(stream, &mut out);
        }
        Ok(ordered)
    }

    /// The last counts, after what is still on its way.
    fn farewell(&self, stream: &UnixStream, out: &mut Outbox) -> io::Result<()> {
        stream.set_write_timeout(Some(PATIENCE))?;
        out.flush(stream)?;
        if out.is_empty() {
            let ticks = self.shared.take_ticks();
            write_json(stream, DONE, &Told::new(self.shared.merged(), ticks))?;
            write(stream, END, &[])?;
        }
        Ok(())
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

/// How long an end waits for the other.
pub(super) const PATIENCE: Duration = Duration::from_secs(2);
/// Bytes of a message, at most: a table of 32 calendars, with room for networks.
const MAX_MESSAGE_BYTES: usize = 16 << 20;

pub(super) const HELLO: u8 = b'H';
pub(super) const TABLE: u8 = b'T';
pub(super) const DONE: u8 = b'D';
pub(super) const SETTLED: u8 = b'S';
pub(super) const END: u8 = b'E';

#[derive(Serialize, Deserialize)]
pub(super) struct Hello {
    /// Which process this is: another one has another number. 0 from one that is older than this field.
    #[serde(default)]
    pub(super) id: u64,
    pub(super) data: Vec<SocketAddr>,
    pub(super) tables: u64,
    pub(super) table: Vec<u8>,
}

/// [`Done`], as it is told.
#[derive(Serialize, Deserialize)]
pub(super) struct Told {
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
    /// Lowest and highest of those that were too old. Not from a process that is older than this field.
    #[serde(default)]
    old: Option<(u64, u64)>,
    notes: Vec<String>,
}

impl Told {
    pub(super) fn new(done: Done, ticks: Ticks) -> Told {
        let Forwarded { packets, bytes, no_room, unreachable, too_long } = done.forwarded;
        let member = |(seat, sent): (Seat, Traffic)| (seat.number() as u16, sent.packets, sent.bytes);
        Told {
            packets: done.counters.packets,
            refused: Refusal::ALL.iter().map(|&why| done.counters.refused(why)).collect(),
            members: done.counters.members().map(member).collect(),
            forwarded: [packets, bytes, no_room, unreachable, too_long],
            sources: done.sources,
            mode: done.mode,
            cpu_nanos: Nanos::from(done.cpu).0,
            singly: done.singly,
            table: done.table,
            newest: ticks.newest,
            old: ticks.old,
            notes: done.notes,
        }
    }

    pub(super) fn done(self) -> Done {
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
            ticks: Ticks { newest: self.newest, old: self.old },
            notes: self.notes,
            ..Done::default()
        }
    }
}

fn message(letter: u8, octets: &[u8]) -> Vec<u8> {
    let mut message = Vec::with_capacity(5 + octets.len());
    message.extend((octets.len() as u32 + 1).to_be_bytes());
    message.push(letter);
    message.extend(octets);
    message
}

pub(super) fn write(mut to: &UnixStream, letter: u8, octets: &[u8]) -> io::Result<()> {
    to.write_all(&message(letter, octets))
}

pub(super) fn write_json(to: &UnixStream, letter: u8, what: &impl Serialize) -> io::Result<()> {
    write(to, letter, &serde_json::to_vec(what)?)
}

/// A table, and its number before it.
pub(super) fn numbered(octets: &[u8]) -> io::Result<(u64, Arc<Table>)> {
    let bad = |why: String| io::Error::new(io::ErrorKind::InvalidData, why);
    let (number, octets) =
        octets.split_first_chunk().ok_or_else(|| bad("a table without a number".to_owned()))?;
    let table = Table::from_bytes(octets).map_err(|error| bad(error.to_string()))?;
    Ok((u64::from_be_bytes(*number), Arc::new(table)))
}

/// Messages on their way to a reader that may not read for a while, for instance because it is stopped. It is sent as far as
/// the socket takes it, and continued later, so that the reader never meets half of one.
#[derive(Default)]
pub(super) struct Outbox {
    octets: Vec<u8>,
    sent: usize,
}

impl Outbox {
    /// Whether the last message is sent.
    pub(super) fn is_empty(&self) -> bool {
        self.octets.is_empty()
    }

    /// One more message.
    pub(super) fn put(&mut self, letter: u8, octets: &[u8]) {
        self.octets.extend(message(letter, octets));
    }

    /// One more message.
    pub(super) fn put_json(&mut self, letter: u8, what: &impl Serialize) -> io::Result<()> {
        self.put(letter, &serde_json::to_vec(what)?);
        Ok(())
    }

    /// Send what the socket takes within its time-out.
    pub(super) fn flush(&mut self, mut to: &UnixStream) -> io::Result<()> {
        while self.sent < self.octets.len() {
            match to.write(&self.octets[self.sent..]) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(n) => self.sent += n,
                Err(error) if is_slow(&error) => return Ok(()),
                Err(error) => return Err(error),
            }
        }
        *self = Outbox::default();
        Ok(())
    }
}

/// Nothing came, or nothing was taken, within the time-out of a socket.
fn is_slow(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut | io::ErrorKind::Interrupted)
}

/// The next message. Each time that the socket's time-out passes without any of it, `waits` is asked whether to wait longer.
pub(super) fn read_while(from: &UnixStream, waits: &mut dyn FnMut() -> bool) -> io::Result<(u8, Vec<u8>)> {
    let mut length = [0; 4];
    fill(from, &mut length, waits)?;
    let length = u32::from_be_bytes(length) as usize;
    if length == 0 || length > MAX_MESSAGE_BYTES {
        return Err(io::Error::new(io::ErrorKind::InvalidData, format!("a message of {length} bytes")));
    }
    let mut octets = vec![0; length];
    fill(from, &mut octets, waits)?;
    Ok((octets.remove(0), octets))
}

fn fill(mut from: &UnixStream, octets: &mut [u8], waits: &mut dyn FnMut() -> bool) -> io::Result<()> {
    let mut at = 0;
    while at < octets.len() {
        match from.read(&mut octets[at..]) {
            Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(n) => at += n,
            Err(error) if is_slow(&error) && waits() => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// The next message; blocks.
pub(super) fn read(from: &UnixStream) -> io::Result<(u8, Vec<u8>)> {
    read_while(from, &mut || true)
}
