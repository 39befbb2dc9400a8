//! The log: a line of JSON for the fate of every copy of every packet, in the order in which they left or were lost.
//!
//! ```text
//!   {"dir":"fwd","n":17,"copy":0,"at":1203004,"octets":1514,"fate":"sent","due":16203004,"sent":16203911,"late":false,
//!    "damage":"","proto":17,"from":40001,"to":5001,"head":"00000000000000110000018ff2a0c1d2"}
//! ```
//!
//! `head` are the first 16 octets of the payload of TCP or UDP; times are nanoseconds since the lab began.
//!
//! Limits: what the writer cannot keep up with is counted, and the run fails.

use skyhaul_io::fault::path::{Cause, Direction};
use std::fmt::Write as _;
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::Path;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::JoinHandle;

/// Records that are handed to the writer at a time, and such batches that may wait.
const BATCH: usize = 4096;
const WAITING: usize = 64;

/// What is known of a copy of a packet.
#[derive(Clone, Copy, Debug)]
pub(super) struct Record {
    pub(super) direction: Direction,
    pub(super) number: u64,
    pub(super) copy: u8,
    pub(super) at: u64,
    pub(super) octets: u32,
    pub(super) lost: Option<Cause>,
    pub(super) due: u64,
    pub(super) sent: u64,
    pub(super) late: bool,
    pub(super) flipped: bool,
    pub(super) cut: bool,
    pub(super) protocol: u8,
    pub(super) from: u16,
    pub(super) to: u16,
    pub(super) head: [u8; 16],
}

impl Record {
    fn write(&self, text: &mut String) {
        let Record { number, copy, at, octets, due, sent, late, protocol, from, to, .. } = self;
        let (direction, fate) = (self.direction.name(), self.lost.map_or("sent", Cause::name));
        let damage = match (self.flipped, self.cut) {
            (false, false) => "",
            (true, false) => "bit",
            (false, true) => "cut",
            (true, true) => "bit,cut",
        };
        // Writing to a string does not fail.
        let _ = write!(
            text,
            "{{\"dir\":\"{direction}\",\"n\":{number},\"copy\":{copy},\"at\":{at},\"octets\":{octets},\"fate\":\"{fate}\",\
             \"due\":{due},\"sent\":{sent},\"late\":{late},\"damage\":\"{damage}\",\"proto\":{protocol},\"from\":{from},\
             \"to\":{to},\"head\":\""
        );
        for octet in self.head {
            let _ = write!(text, "{octet:02x}");
        }
        text.push_str("\"}\n");
    }
}

/// Writes records on a thread of its own.
#[derive(Debug)]
pub(super) struct Log {
    batch: Vec<Record>,
    send: SyncSender<Vec<Record>>,
    back: Receiver<Vec<Record>>,
    writer: JoinHandle<io::Result<()>>,
    missing: u64,
}

impl Log {
    /// Begin a file.
    ///
    /// # Errors
    /// It cannot be created.
    pub(super) fn create(path: &Path) -> io::Result<Self> {
        let file = File::create(path).map_err(|error| skyhaul_io::file::failed("create", path, &error))?;
        let (send, records) = sync_channel::<Vec<Record>>(WAITING);
        let (give_back, back) = sync_channel(WAITING);
        let writer = std::thread::Builder::new().name("lab-log".into()).spawn(move || {
            let (mut file, mut text) = (BufWriter::with_capacity(1 << 20, file), String::new());
            for mut batch in records {
                text.clear();
                batch.drain(..).for_each(|record| record.write(&mut text));
                file.write_all(text.as_bytes())?;
                let _ = give_back.try_send(batch);
            }
            file.flush()
        })?;
        Ok(Self { batch: Vec::with_capacity(BATCH), send, back, writer, missing: 0 })
    }

    pub(super) fn note(&mut self, record: Record) {
        self.batch.push(record);
        if self.batch.len() >= BATCH {
            let next = self.back.try_recv().unwrap_or_else(|_| Vec::with_capacity(BATCH));
            let full = std::mem::replace(&mut self.batch, next);
            if let Err(refused) = self.send.try_send(full) {
                let (std::sync::mpsc::TrySendError::Full(mut batch)
                | std::sync::mpsc::TrySendError::Disconnected(mut batch)) = refused;
                self.missing += batch.len() as u64;
                batch.clear();
            }
        }
    }

    /// Write the rest; returns the number of records that are missing.
    ///
    /// # Errors
    /// The file could not be written.
    pub(super) fn finish(self) -> io::Result<u64> {
        let rest = self.batch.len() as u64;
        let missing = self.missing + if self.send.send(self.batch).is_err() { rest } else { 0 };
        drop(self.send);
        self.writer.join().map_err(|_| io::Error::other("the thread that writes the log failed"))??;
        Ok(missing)
    }
}
