//! Writes patterns or bytes to a region of a peer.

use super::address::RdmaAddress;
use super::connecting::{RemoteRegion, close, connect, drain, failed, or_close};
use super::driver::{Attempt, Driver, DriverOptions};
use super::memory::{Memory, SourceBytes, pattern_of};
use super::report::RdmaWriteReport;
use crate::report::VERSION;
use crate::stop::StopFlag;
use skyhaul_core::hint::Hint;
use skyhaul_core::pace::Pacer;
use skyhaul_core::placement::Nanos;
use skyhaul_core::rdma::{ClosedBy, MemorySlice, RdmaEvent, RemoteAddress, RemoteWrite};
use skyhaul_core::wire::rdma::RdmaRefusal;
use skyhaul_io::fault::Faults;
use skyhaul_io::host::thread;
use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Bytes of operations that are posted ahead of the socket.
const AHEAD: u64 = 1 << 20;
/// The same in messages: the queue of a connection has room for twice as many, as immediate data may be messages of their own.
const AHEAD_MESSAGES: u64 = 512;
/// Bytes handed out before the socket is read.
const TURN_BYTES: u64 = 256 << 10;
/// Longest sleep between datagrams.
const SLEEP: Duration = Duration::from_millis(1);
const PROGRESS_INTERVAL: Duration = Duration::from_secs(1);

/// What is written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WriteSource {
    /// Each message has a pattern of its own: [`pattern`](skyhaul_core::pattern) of its number, by the offset in the region, or in the Send.
    /// Writes follow each other through the region, again and again.
    Pattern,
    /// These bytes, once; Writes, from the region's start on.
    Bytes(Vec<u8>),
}

/// What a message is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MessageKind {
    /// A Write to the region.
    Write {
        /// It has immediate data: its number.
        immediate: bool,
    },
    /// A Send, for which the peer has a buffer.
    Send {
        /// It wakes the peer's program.
        is_solicited: bool,
        /// The last one ends the region, for all its peers.
        invalidates: bool,
    },
}

impl MessageKind {
    /// The name of the operation in reports.
    fn name(self) -> &'static str {
        match self {
            MessageKind::Write { .. } => "write",
            MessageKind::Send { .. } => "send",
        }
    }
}

/// How to write, or send.
#[derive(Clone, Debug)]
pub struct RdmaWriteOptions {
    /// The region.
    pub to: RdmaAddress,
    /// What.
    pub source: WriteSource,
    /// Bytes of a message; the last of [`WriteSource::Bytes`] may be shorter.
    pub message_bytes: u64,
    /// Whether they are Writes or Sends.
    pub kind: MessageKind,
    /// Bits of datagrams per second; 0 is as fast as possible.
    pub rate: u64,
    /// Stop after so many messages.
    pub messages: Option<u64>,
    /// Stop after this time.
    pub duration: Option<Duration>,
    /// Time for the peer to answer: from the beginning until it accepts, and from the end of writing until it confirms that.
    pub deadline: Duration,
    /// On segments.
    pub faults: Option<Faults>,
    /// Longest datagram. `None`: as the path carries, at most 8972 bytes.
    pub datagram_bytes: Option<u16>,
    /// Whether to ask for a CRC on every datagram or frame; `None`: on frames over TCP.
    pub crc: Option<bool>,
}

/// How far a writer is.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct WriteProgress {
    /// Wall seconds.
    pub seconds: f64,
    /// Messages handed out so far.
    pub messages: u64,
    /// Bytes handed out so far.
    pub bytes: u64,
    /// Bits per second since the last one.
    pub bits_per_second: f64,
}

/// Bytes that are written once, one message after the other.
pub(super) struct BytesPlan {
    /// The number of their memory.
    pub(super) memory: u32,
    pub(super) length: u64,
    /// Where the first is put, from the start of the region.
    pub(super) offset: u64,
}

/// The messages of a run: where each lies, and how many there are.
pub(super) struct Plan {
    pub(super) message_bytes: u64,
    pub(super) region_bytes: u64,
    /// `None`: patterns.
    pub(super) bytes: Option<BytesPlan>,
    pub(super) messages: u64,
    /// Messages of the connection before the first.
    pub(super) before: u64,
    pub(super) kind: MessageKind,
    pub(super) duration: Option<Duration>,
}

impl Plan {
    fn of(options: &RdmaWriteOptions, region: &RemoteRegion, driver: &mut Driver) -> io::Result<Plan> {
        let (message_bytes, region_bytes) = (options.message_bytes, region.bytes);
        let limit = options.messages.unwrap_or(u64::MAX);
        let plan = |bytes, messages| Plan {
            message_bytes,
            region_bytes,
            bytes,
            messages,
            before: 0,
            kind: options.kind,
            duration: options.duration,
        };
        let is_write = matches!(options.kind, MessageKind::Write { .. });
        match &options.source {
            WriteSource::Pattern if is_write && message_bytes > region_bytes => {
                let text = format!(
                    "a message of {message_bytes} bytes does not fit the region of {region_bytes}{}",
                    Hint("use a smaller --message")
                );
                Err(failed(io::ErrorKind::InvalidInput, text))
            }
            WriteSource::Pattern => Ok(plan(None, limit)),
            WriteSource::Bytes(bytes) => {
                if is_write {
                    fits(bytes.len() as u64, 0, region_bytes)?;
                }
                let source: SourceBytes = Arc::new(bytes.clone());
                let (memory, length) = (driver.add(Memory::Bytes(source)), bytes.len() as u64);
                let messages = length.div_ceil(message_bytes).min(limit);
                Ok(plan(Some(BytesPlan { memory, length, offset: 0 }), messages))
            }
        }
    }

    /// Message number `n`, from 1: its bytes, and its offset in the region if it is a Write.
    fn message(&self, n: u64) -> (MemorySlice, u64) {
        match &self.bytes {
            None if matches!(self.kind, MessageKind::Send { .. }) => {
                (pattern_of(n, 0, self.message_bytes), 0)
            }
            None => {
                let at = (n - 1) % (self.region_bytes / self.message_bytes) * self.message_bytes;
                (pattern_of(n, at, self.message_bytes), at)
            }
            Some(BytesPlan { memory, length, offset }) => {
                let start = (n - 1) * self.message_bytes;
                let slice =
                    MemorySlice { memory: *memory, start, length: self.message_bytes.min(length - start) };
                (slice, offset + start)
            }
        }
    }
}

/// The endpoint takes no operation: mostly because the peer has closed the connection.
pub(super) fn refused(what: &str, why: RdmaRefusal) -> io::Error {
    match why {
        RdmaRefusal::Unexpected | RdmaRefusal::UnknownConnection => {
            failed(io::ErrorKind::ConnectionReset, format!("{what}: the peer has closed the connection"))
        }
        _ => io::Error::other(format!("{what}: {}", why.name())),
    }
}

/// An error unless so many bytes from `offset` on lie in the region.
pub(super) fn fits(bytes: u64, offset: u64, region_bytes: u64) -> io::Result<()> {
    if offset.checked_add(bytes).is_some_and(|end| end <= region_bytes) {
        return Ok(());
    }
    let place = if offset == 0 { String::new() } else { format!(" from byte {offset} on") };
    let text = format!(
        "{bytes} bytes do not fit the region of {region_bytes}{place}{}",
        Hint("serve a larger --region")
    );
    Err(failed(io::ErrorKind::InvalidInput, text))
}

/// An error unless the region may be used so.
fn may_be_used(options: &RdmaWriteOptions, region: &RemoteRegion) -> io::Result<()> {
    match options.kind {
        MessageKind::Write { .. } => may_write(&options.to, region),
        MessageKind::Send { invalidates: true, .. } if !region.rights.invalidate => {
            let text =
                format!("{} may not be invalidated{}", options.to, Hint("serve it with :invalidate, too"));
            Err(failed(io::ErrorKind::PermissionDenied, text))
        }
        MessageKind::Send { .. } => Ok(()),
    }
}

/// An error unless the region may be written.
pub(super) fn may_write(to: &RdmaAddress, region: &RemoteRegion) -> io::Result<()> {
    if region.rights.write {
        return Ok(());
    }
    let text = format!("{to} may not be written{}", Hint("serve it with :write"));
    Err(failed(io::ErrorKind::PermissionDenied, text))
}

/// Writes, or sends, until all is sent, or `stop`, or the time that was asked for: then the message under way is finished, and the connection closed.
///
/// # Errors
/// The region cannot be reached or used so, `options` make no sense, the socket fails, or the sums of the report are wrong.
pub fn write(
    options: &RdmaWriteOptions,
    stop: &StopFlag,
    progress: &mut dyn FnMut(&WriteProgress),
) -> io::Result<RdmaWriteReport> {
    if options.message_bytes == 0 {
        return Err(failed(io::ErrorKind::InvalidInput, "a message needs at least one byte".to_owned()));
    }
    let has_end = options.messages.is_some() || matches!(options.source, WriteSource::Bytes(_));
    if matches!(options.kind, MessageKind::Send { invalidates: true, .. }) && !has_end {
        let hint = Hint("limit them with --messages N");
        let text = format!("--invalidate: without a number of messages none is the last{hint}");
        return Err(failed(io::ErrorKind::InvalidInput, text));
    }
    let (patience, attempt) = (options.deadline, Attempt::new(stop, options.deadline));
    let driving = DriverOptions {
        leaving: options.faults,
        ..DriverOptions::of_client(&options.to, options.datagram_bytes, options.crc, &attempt)?
    };
    let mut driver = Driver::open(&driving)?;
    let region = connect(&mut driver, &options.to, &attempt)?;
    or_close(may_be_used(options, &region), &mut driver, region.connection, patience)?;
    let plan = Plan::of(options, &region, &mut driver);
    let plan = or_close(plan, &mut driver, region.connection, patience)?;
    let cpu = thread::cpu_time();
    let slept = thread::own_usage().voluntary_switches;
    let mut run = Run::new(options.rate, driver.now());
    let ended = run.write(&mut driver, &region, &plan, stop, progress);
    let mut ended = or_close(ended, &mut driver, region.connection, patience)?;
    driver.flush();
    if ended.is_none() {
        // What is in the buffers of this host has not been written yet.
        ended = drain(&mut driver, region.connection, patience)?;
    }
    let (seconds, cpu_seconds) =
        (run.began.elapsed().as_secs_f64(), (thread::cpu_time() - cpu).as_secs_f64());
    let voluntary_switches = thread::own_usage().voluntary_switches - slept;
    let closed_by = match ended {
        Some(by) => by,
        None => close(&mut driver, region.connection, patience)?,
    };
    let (_, mode) = driver.describe();
    Ok(RdmaWriteReport {
        version: VERSION,
        operation: options.kind.name().to_owned(),
        to: options.to.to_string(),
        profile: driving.config.profile.name().to_owned(),
        mode,
        region_bytes: region.bytes,
        datagram_bytes: region.datagram_bytes,
        messages: run.done,
        bytes: run.bytes,
        seconds,
        bits_per_second: run.bytes as f64 * 8.0 / seconds.max(1e-9),
        cpu_seconds,
        voluntary_switches,
        cpu_seconds_per_gb: if run.bytes == 0 { 0.0 } else { cpu_seconds / run.bytes as f64 * 1e9 },
        slipped_seconds: run.pacer.forgiven().0 as f64 / 1e9,
        closed_by: closed_by.name().to_owned(),
        datagrams: driver.ledger()?,
    })
}

/// Writing: what is posted and what is done.
pub(super) struct Run {
    pub(super) began: Instant,
    pub(super) pacer: Pacer,
    posted: u64,
    posted_bytes: u64,
    pub(super) done: u64,
    pub(super) bytes: u64,
    shown: (Instant, u64),
}

impl Run {
    pub(super) fn new(rate: u64, now: Nanos) -> Run {
        let (began, pacer) = (Instant::now(), Pacer::new(rate, now));
        Run { began, pacer, posted: 0, posted_bytes: 0, done: 0, bytes: 0, shown: (began, 0) }
    }

    /// Returns why the connection ended, if it did.
    pub(super) fn write(
        &mut self,
        driver: &mut Driver,
        region: &RemoteRegion,
        plan: &Plan,
        stop: &StopFlag,
        progress: &mut dyn FnMut(&WriteProgress),
    ) -> io::Result<Option<ClosedBy>> {
        let mut read = Instant::now();
        loop {
            let is_over = plan.duration.is_some_and(|most| self.began.elapsed() >= most) || stop.is_set();
            while !is_over
                && self.posted < plan.messages
                && self.posted_bytes - self.bytes < AHEAD
                && self.posted - self.done < AHEAD_MESSAGES
            {
                self.post(driver, region, plan)?;
            }
            if self.done == self.posted && (is_over || self.posted == plan.messages) {
                return Ok(None);
            }
            let allowed = self.pacer.allowance(driver.now());
            // What was posted when the end came is sent at once.
            let most = if is_over { u64::MAX } else { allowed };
            let sent = driver.send(most.min(TURN_BYTES));
            self.pacer.sent(sent, driver.now());
            if sent == 0 && driver.is_held(region.connection) {
                // It ends when the stream has room, or brings something.
                driver.receive(SLEEP)?;
                read = Instant::now();
            } else if sent == 0 {
                let due = Duration::from_nanos(self.pacer.due().since(driver.now()).0);
                std::thread::sleep(due.clamp(Duration::from_micros(20), SLEEP));
            }
            if read.elapsed() >= SLEEP {
                read = Instant::now();
                driver.receive(Duration::ZERO)?;
            }
            while let Some(event) = driver.endpoint.poll_event() {
                match event {
                    RdmaEvent::Sent { .. } => {
                        self.done += 1;
                        self.bytes += plan.message(self.done).0.length;
                    }
                    RdmaEvent::Closed { by, .. } => return Ok(Some(by)),
                    _ => {}
                }
            }
            if self.shown.0.elapsed() >= PROGRESS_INTERVAL {
                let bits = (self.bytes - self.shown.1) as f64 * 8.0 / self.shown.0.elapsed().as_secs_f64();
                self.shown = (Instant::now(), self.bytes);
                progress(&WriteProgress {
                    seconds: self.began.elapsed().as_secs_f64(),
                    messages: self.done,
                    bytes: self.bytes,
                    bits_per_second: bits,
                });
            }
        }
    }

    fn post(&mut self, driver: &mut Driver, region: &RemoteRegion, plan: &Plan) -> io::Result<()> {
        let (source, offset) = plan.message(self.posted + 1);
        let number = plan.before + self.posted + 1;
        let (connection, to) = (region.connection, RemoteAddress { stag: region.stag, offset });
        let posted = match plan.kind {
            MessageKind::Write { immediate } => {
                let immediate = immediate.then_some(number);
                let write = RemoteWrite { source, to, immediate, is_solicited: immediate.is_some() };
                driver.endpoint.write(connection, write)
            }
            MessageKind::Send { is_solicited, invalidates } => {
                let is_last = self.posted + 1 == plan.messages;
                let invalidate = (invalidates && is_last).then_some(region.stag);
                driver.endpoint.send(connection, source, invalidate, is_solicited)
            }
        };
        posted.map_err(|why| refused(&format!("{} message {number}", plan.kind.name()), why))?;
        self.posted += 1;
        self.posted_bytes += source.length;
        Ok(())
    }
}
