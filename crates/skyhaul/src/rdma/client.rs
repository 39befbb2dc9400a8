//! A connection to a region that stays open: any number of Writes and Reads, one at a time.
//!
//! ```text
//!   write, read ─▶ lock ─▶ driver ◀─ lock, if nobody has it ◀─ keeper: every quarter of a second
//! ```
//!
//! Operations run in the caller's thread. Between them a thread answers the peer, which would otherwise take this end for gone.

use super::address::RdmaAddress;
use super::connecting::{RemoteRegion, close, connect};
use super::driver::{Attempt, Driver, DriverOptions, HANDSHAKE};
use super::memory::{Memory, SourceBytes};
use super::read::{ClientRead, ReadJob, checked, sink};
use super::report::{RdmaClientReport, RdmaReadReport};
use super::write::{BytesPlan, MessageKind, Plan, Run, fits, may_write};
use crate::report::VERSION;
use crate::stop::StopFlag;
use skyhaul_core::rdma::{ClosedBy, RdmaEvent, RegionRights, RemoteAddress};
use skyhaul_io::fault::Faults;
use skyhaul_io::lock::lock;
use std::io;
use std::ops::Range;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::{Arc, Mutex, TryLockError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// The peer is answered this often while nothing is written or read.
const TEND: Duration = Duration::from_millis(250);
/// What came within this time is not asked for again before a Write or Read: that would be a system call in front of each of many short ones.
const RECENT: Duration = Duration::from_millis(1);
/// Bytes handed out when it is.
const TEND_BYTES: u64 = 64 << 10;

/// How to connect to a region.
#[derive(Clone, Debug)]
pub struct RdmaClientOptions {
    /// The region.
    pub to: RdmaAddress,
    /// On what arrives.
    pub arriving: Option<Faults>,
    /// On segments that leave.
    pub leaving: Option<Faults>,
    /// Longest datagram. `None`: as the path carries, at most 8972 bytes.
    pub datagram_bytes: Option<u16>,
    /// Whether to ask for a CRC on every datagram or frame; `None`: on frames over TCP.
    pub crc: Option<bool>,
}

/// How bytes are written.
#[derive(Clone, Copy, Debug)]
pub struct ClientWrite {
    /// Where the first is put, from the start of the region.
    pub offset: u64,
    /// Bytes of a message; the last may be shorter.
    pub message_bytes: u64,
    /// Each message has immediate data: its number on this connection, from 1.
    pub immediate: bool,
    /// Bits of datagrams per second; 0 is as fast as possible.
    pub rate: u64,
}

/// What was written.
#[derive(Clone, Debug, PartialEq)]
pub struct ClientWritten {
    /// The numbers of the messages on this connection. Fewer than asked for only if it was interrupted.
    pub messages: Range<u64>,
    /// Bytes of payload handed out.
    pub bytes: u64,
    /// Wall seconds.
    pub seconds: f64,
    /// Seconds by which the schedule slipped.
    pub slipped_seconds: f64,
}

struct Connected {
    driver: Driver,
    options: RdmaClientOptions,
    region: RemoteRegion,
    report: RdmaClientReport,
    /// Why it has ended.
    ended: Option<ClosedBy>,
    /// It was closed by its program.
    is_closed: bool,
    /// When the peer was last answered.
    tended: Instant,
}

/// A connection to a region. Dropping it closes it.
///
/// ```
/// use skyhaul::rdma::{ClientRead, ClientWrite, RdmaClient, RdmaClientOptions, RdmaService, ServeOptions};
/// use skyhaul::stop::StopFlag;
/// use std::{sync::Arc, time::Duration};
/// let serve = ServeOptions::new("rdma+udp://127.0.0.1:0".parse()?, vec!["vis:4KiB:read,write".parse()?]);
/// let service = RdmaService::start(serve, 16)?;
/// let to = format!("rdma+udp://{}/vis", service.local()).parse()?;
/// let options = RdmaClientOptions { to, arriving: None, leaving: None, datagram_bytes: None, crc: None };
/// let (client, stop) = (RdmaClient::connect(options, &StopFlag::default())?, StopFlag::default());
/// let how = ClientWrite { offset: 100, message_bytes: 4096, immediate: true, rate: 0 };
/// client.write(Arc::new(*b"visibilities"), &how, &stop)?;
/// assert!(service.get(None)?.is_complete);
/// let mut got = Vec::new();
/// let report = client.read(102..106, &ClientRead::new(Duration::from_secs(10)), &stop, &mut |_, bytes| Ok(got.extend_from_slice(bytes)))?;
/// assert_eq!((report.missing_bytes, &got[..]), (0, &b"sibi"[..]));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct RdmaClient {
    connected: Arc<Mutex<Connected>>,
    region: RemoteRegion,
    /// Dropped to end the thread that tends it.
    tending: Mutex<Option<(mpsc::Sender<()>, JoinHandle<()>)>>,
}

impl std::fmt::Debug for RdmaClient {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RdmaClient").field("region", &self.region).finish_non_exhaustive()
    }
}

impl RdmaClient {
    /// Connects, and learns of the region.
    ///
    /// # Errors
    /// The peer does not answer (`TimedOut`), has no such region (`ConnectionRefused`), `stop` was set (`Interrupted`), or a system call
    /// failed.
    pub fn connect(options: RdmaClientOptions, stop: &StopFlag) -> io::Result<RdmaClient> {
        let attempt = Attempt::new(stop, HANDSHAKE);
        let driving = DriverOptions {
            arriving: options.arriving,
            leaving: options.leaving,
            ..DriverOptions::of_client(&options.to, options.datagram_bytes, options.crc, &attempt)?
        };
        let mut driver = Driver::open(&driving)?;
        let region = connect(&mut driver, &options.to, &attempt)?;
        let report = RdmaClientReport {
            version: VERSION,
            to: options.to.to_string(),
            profile: driving.config.profile.name().to_owned(),
            region_bytes: region.bytes,
            datagram_bytes: region.datagram_bytes,
            ..RdmaClientReport::default()
        };
        let connected = Connected {
            driver,
            options,
            region,
            report,
            ended: None,
            is_closed: false,
            tended: Instant::now(),
        };
        let connected = Arc::new(Mutex::new(connected));
        let (end, ended) = mpsc::channel();
        let tended = connected.clone();
        let tend = move || {
            while ended.recv_timeout(TEND) == Err(RecvTimeoutError::Timeout) {
                // Whoever has it answers the peer.
                let is_over = match tended.try_lock() {
                    Ok(mut connected) => connected.tend().is_err() || connected.ended.is_some(),
                    Err(TryLockError::WouldBlock) => false,
                    Err(TryLockError::Poisoned(_)) => true,
                };
                if is_over {
                    break;
                }
            }
        };
        let thread = std::thread::Builder::new().name("rdma-client".into()).spawn(tend)?;
        Ok(RdmaClient { connected, region, tending: Mutex::new(Some((end, thread))) })
    }

    /// The length of the region in bytes.
    #[must_use]
    pub fn region_bytes(&self) -> u64 {
        self.region.bytes
    }

    /// What may be done with it.
    #[must_use]
    pub fn rights(&self) -> RegionRights {
        self.region.rights
    }

    /// Writes bytes, and returns when the kernel has them; whether they arrived is not known here. After `stop`, what is
    /// under way, about 1 MiB or a message, is still sent.
    ///
    /// # Errors
    /// They do not fit the region or a message has no bytes (`InvalidInput`), the region may not be written (`PermissionDenied`), the
    /// connection is closed (`NotConnected`) or has ended (`ConnectionReset`), or the socket fails.
    pub fn write(&self, bytes: SourceBytes, how: &ClientWrite, stop: &StopFlag) -> io::Result<ClientWritten> {
        lock(&self.connected).write(bytes, how, stop)
    }

    /// Reads a range of the region, each Read by the deadline from its first request on. Its bytes go to `take` in
    /// order, with the offset from the range's start; they are zero where nothing arrived. After `stop`, Reads under way are given up.
    ///
    /// # Errors
    /// The range does not lie in the region or `how` is out of bounds (`InvalidInput`), the region may not be read (`PermissionDenied`), the connection is closed
    /// (`NotConnected`) or had ended (`ConnectionReset`), `take` or the socket fails.
    pub fn read(
        &self,
        range: Range<u64>,
        how: &ClientRead,
        stop: &StopFlag,
        take: &mut dyn FnMut(u64, &[u8]) -> io::Result<()>,
    ) -> io::Result<RdmaReadReport> {
        lock(&self.connected).read(range, how, stop, take)
    }

    /// What was done so far.
    ///
    /// # Errors
    /// Its sums are wrong.
    pub fn report(&self) -> io::Result<RdmaClientReport> {
        lock(&self.connected).told()
    }

    /// Closes the connection, and waits at most 5 s until the peer confirms. Nothing happens if it is closed already.
    ///
    /// # Errors
    /// The socket fails, or the sums of the report are wrong.
    pub fn close(&self) -> io::Result<RdmaClientReport> {
        // Not while the lock is held which the thread may want.
        if let Some((end, thread)) = lock(&self.tending).take() {
            drop(end);
            // It has no result.
            let _ = thread.join();
        }
        let mut connected = lock(&self.connected);
        connected.close()?;
        connected.told()
    }
}

impl Drop for RdmaClient {
    fn drop(&mut self) {
        // Nobody asks any more.
        let _ = self.close();
    }
}

impl Connected {
    /// Answer the peer.
    fn tend(&mut self) -> io::Result<()> {
        self.tended = Instant::now();
        self.driver.receive(Duration::ZERO)?;
        self.driver.send(TEND_BYTES);
        while let Some(event) = self.driver.endpoint.poll_event() {
            if let RdmaEvent::Closed { by, .. } = event {
                self.ended = Some(by);
            }
        }
        Ok(())
    }

    fn check(&mut self) -> io::Result<()> {
        let failed = |kind, text: String| Err(io::Error::new(kind, text));
        if self.is_closed {
            let text = format!("{}: the connection is closed", self.options.to);
            return failed(io::ErrorKind::NotConnected, text);
        }
        if self.tended.elapsed() >= RECENT {
            self.tend()?;
        }
        self.is_there()
    }

    /// An error if the connection has ended.
    fn is_there(&self) -> io::Result<()> {
        match self.ended {
            Some(by) => {
                let text = format!("{}: the connection has ended: {}", self.options.to, by.name());
                Err(io::Error::new(io::ErrorKind::ConnectionReset, text))
            }
            None => Ok(()),
        }
    }

    /// One message of one datagram, sent in this call. `None`: it is to be posted, or must not be written.
    fn write_short(
        &mut self,
        bytes: &[u8],
        how: &ClientWrite,
        stop: &StopFlag,
    ) -> io::Result<Option<ClientWritten>> {
        let (began, length) = (Instant::now(), bytes.len() as u64);
        let is_plain = length <= how.message_bytes && !how.immediate && how.rate == 0;
        let is_allowed =
            self.region.rights.write && fits(length, how.offset, self.region.bytes).is_ok() && !stop.is_set();
        let to = RemoteAddress { stag: self.region.stag, offset: how.offset };
        if self.is_closed
            || self.ended.is_some()
            || !is_plain
            || !is_allowed
            || !self.driver.write_short(self.region.connection, to, bytes)
        {
            return Ok(None);
        }
        self.report.messages += 1;
        self.report.bytes += length;
        let (number, seconds) = (self.report.messages, began.elapsed().as_secs_f64());
        // Behind the Write, which it would delay: it has gone, and an end that is seen now is one of before.
        if self.tended.elapsed() >= RECENT {
            self.tend()?;
            self.is_there()?;
        }
        Ok(Some(ClientWritten { messages: number..number + 1, bytes: length, seconds, slipped_seconds: 0.0 }))
    }

    fn write(&mut self, bytes: SourceBytes, how: &ClientWrite, stop: &StopFlag) -> io::Result<ClientWritten> {
        if let Some(written) = self.write_short((*bytes).as_ref(), how, stop)? {
            return Ok(written);
        }
        self.check()?;
        may_write(&self.options.to, &self.region)?;
        let length = (*bytes).as_ref().len() as u64;
        fits(length, how.offset, self.region.bytes)?;
        if how.message_bytes == 0 {
            let text = "a message needs at least one byte".to_owned();
            return Err(io::Error::new(io::ErrorKind::InvalidInput, text));
        }
        let memory = self.driver.add(Memory::Bytes(bytes));
        let before = self.report.messages;
        let plan = Plan {
            message_bytes: how.message_bytes,
            region_bytes: self.region.bytes,
            bytes: Some(BytesPlan { memory, length, offset: how.offset }),
            messages: length.div_ceil(how.message_bytes),
            before,
            kind: MessageKind::Write { immediate: how.immediate },
            duration: None,
        };
        let mut run = Run::new(how.rate, self.driver.now());
        let ended = run.write(&mut self.driver, &self.region, &plan, stop, &mut |_| {});
        let ended = self.or_end(ended);
        // Faults may hold back segments, which are in this memory.
        self.driver.flush();
        self.driver.release(memory);
        self.report.messages += run.done;
        self.report.bytes += run.bytes;
        self.ended = ended?;
        if run.done < plan.messages && self.ended.is_some() {
            self.check()?;
        }
        Ok(ClientWritten {
            messages: before + 1..self.report.messages + 1,
            bytes: run.bytes,
            seconds: run.began.elapsed().as_secs_f64(),
            slipped_seconds: run.pacer.forgiven().0 as f64 / 1e9,
        })
    }

    fn read(
        &mut self,
        range: Range<u64>,
        how: &ClientRead,
        stop: &StopFlag,
        take: &mut dyn FnMut(u64, &[u8]) -> io::Result<()>,
    ) -> io::Result<RdmaReadReport> {
        self.check()?;
        let range = checked(&self.options.to, Some(range), &self.region)?;
        let memory = self.driver.add(Memory::Remote(sink(&range, how)?));
        let job = ReadJob { region: self.region, memory, range, how: *how };
        let done = job.run(&mut self.driver, stop, take, &mut |_| {});
        let done = self.or_end(done);
        // All its Reads have ended: no late answer is for this memory.
        self.driver.release(memory);
        let (mut report, ended) = done?;
        self.ended = ended;
        self.report.reads += report.reads;
        self.report.read_bytes += report.bytes;
        report.version = VERSION;
        report.from = self.options.to.to_string();
        report.profile.clone_from(&self.report.profile);
        report.closed_by = ended.map(|by| by.name().to_owned()).unwrap_or_default();
        report.datagrams = self.driver.ledger()?;
        Ok(report)
    }

    /// After an error the connection is closed. The error is the first.
    fn or_end<T>(&mut self, result: io::Result<T>) -> io::Result<T> {
        result.inspect_err(|_| {
            let by = close(&mut self.driver, self.region.connection, HANDSHAKE);
            self.ended = Some(by.unwrap_or(ClosedBy::Here));
        })
    }

    fn close(&mut self) -> io::Result<()> {
        if !std::mem::replace(&mut self.is_closed, true) && self.ended.is_none() {
            self.ended = Some(close(&mut self.driver, self.region.connection, HANDSHAKE)?);
        }
        Ok(())
    }

    fn told(&self) -> io::Result<RdmaClientReport> {
        let (_, mode) = self.driver.describe();
        Ok(RdmaClientReport {
            mode,
            closed_by: self.ended.map(|by| by.name().to_owned()),
            datagrams: self.driver.ledger()?,
            ..self.report.clone()
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rdma::{RdmaService, ServeOptions};

    const BYTES: u64 = 64;

    fn both(crc: Option<bool>) -> (RdmaService, RdmaClient) {
        let listen = "rdma+udp://127.0.0.1:0".parse().unwrap();
        let serve =
            ServeOptions { crc, ..ServeOptions::new(listen, vec!["a:4KiB:read,write".parse().unwrap()]) };
        let service = RdmaService::start(serve, 256).unwrap();
        let options = RdmaClientOptions {
            to: service.address("a"),
            arriving: None,
            leaving: None,
            datagram_bytes: None,
            crc,
        };
        let client = RdmaClient::connect(options, &StopFlag::default()).unwrap();
        (service, client)
    }

    /// Memory numbers that the client's driver has given to Writes.
    fn memories(client: &RdmaClient) -> usize {
        lock(&client.connected).driver.memories()
    }

    /// Short Writes take one system call each and no memory; what is not short, or must carry more, is posted. All arrive, in order.
    #[test]
    fn a_short_write_is_one_system_call_and_has_no_memory() {
        let (service, client) = both(None);
        let stop = StopFlag::default();
        let how = ClientWrite { offset: 0, message_bytes: BYTES, immediate: false, rate: 0 };
        let calls = || lock(&client.connected).driver.calls();
        let before = calls();
        for n in 0..32u64 {
            let how = ClientWrite { offset: n * BYTES, ..how };
            let written = client.write(Arc::new([n as u8 + 1; BYTES as usize]), &how, &stop).unwrap();
            assert_eq!((written.messages, written.bytes), (n + 1..n + 2, BYTES));
        }
        // Between them the peer may have been answered, if the host was busy.
        assert_eq!((calls() - before, memories(&client)), (32, 0));
        for (bytes, how) in [
            (BYTES + 1, how),
            (BYTES, ClientWrite { immediate: true, ..how }),
            (BYTES, ClientWrite { rate: 1 << 40, ..how }),
        ] {
            let how = ClientWrite { offset: 2048, ..how };
            let written = client.write(Arc::new(vec![99; bytes as usize]), &how, &stop).unwrap();
            assert_eq!(written.bytes, bytes);
            assert_eq!(memories(&client), 1, "posted: its memory has a number");
        }
        let told = client.close().unwrap();
        assert_eq!((told.messages, told.bytes), (36, 35 * BYTES + 1));
        let served = service.stop().unwrap();
        assert_eq!((served.complete, served.incomplete, served.lost), (36, 0, 0), "{served:?}");
        let mut got = vec![0; 2048];
        service.regions()[0].1.copy(0, &mut got);
        assert!(got.chunks(BYTES as usize).zip(1..).all(|(part, n)| part.iter().all(|byte| *byte == n)));
    }

    /// What must not be written is refused as ever, and a CRC is not left out.
    #[test]
    fn a_short_write_is_checked_as_any_other() {
        let (service, client) = both(Some(true));
        let stop = StopFlag::default();
        let how = ClientWrite { offset: 0, message_bytes: BYTES, immediate: false, rate: 0 };
        client.write(Arc::new([1; BYTES as usize]), &how, &stop).unwrap();
        assert_eq!(memories(&client), 1, "posted, for its CRC");
        for (how, kind) in [
            (ClientWrite { offset: 4096 - BYTES + 1, ..how }, io::ErrorKind::InvalidInput),
            (ClientWrite { offset: u64::MAX, ..how }, io::ErrorKind::InvalidInput),
        ] {
            let error = client.write(Arc::new([1; BYTES as usize]), &how, &stop).unwrap_err();
            assert_eq!(error.kind(), kind, "{error}");
        }
        let empty: [u8; 0] = [];
        assert_eq!(client.write(Arc::new(empty), &how, &stop).unwrap().bytes, 0);
        client.close().unwrap();
        let error = client.write(Arc::new([1; BYTES as usize]), &how, &stop).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::NotConnected, "{error}");
        assert_eq!(service.stop().unwrap().complete, 1);
    }
}
