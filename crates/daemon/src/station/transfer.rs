//! The threads of a transfer: one reads the scan and verifies it, one sends.
//!
//! ```text
//!   disks ─ RangeReader ─▶ queue of pieces ─▶ pace, pause ─ TcpSender ─▶ the host that receives
//!                                                        ├ data channel ─▶ a server of etransfer ([`to_etransfer`])
//!                                                        └ thread that writes ─▶ file of this host ([`to_file`])
//! ```
//!
//! The stream is the bytes of the scan, or of a file, without any framing, as jive5ab and others receive it with `net2file`. It is complete
//! when the other host has acknowledged all of it. Chunks of a scan go over connections of their own ([`chunks`]).
//!
//! Everything that is waited for has a limit: the connection [`CONNECT_TIMEOUT`], a disk [`DISK_TIMEOUT`], a host that takes nothing
//! [`STALL_TIMEOUT`]. A thread that waits for a disk is left alone, and ends when the disk responds. Time in which recordings keep the disk
//! does not count.

mod chunks;
mod control;
mod reading;
mod to_etransfer;
mod to_file;

use super::setup::StationSetup;
use control::POLL_INTERVAL;
pub(super) use control::TransferControl;
use reading::{FromDisks, Source, Wanted};
use skyhaul::core::pace::Pacer;
use skyhaul::core::placement::Nanos;
use skyhaul::io::disk::while_waiting;
use skyhaul::io::lock::lock;
use skyhaul::io::tcp::info::{TcpInfo, readable};
use skyhaul::io::tcp::setup::Setup;
use skyhaul::io::tcp::{TcpSendOptions, TcpSender};
use skyhaul::recording::RangePiece;
use skyhaul_core::hint::split;
use skyhaul_core::station::{
    StationEvent, TransferCounts, TransferEvent, TransferForm, TransferOutcome, TransferPlan, TransferRequest,
};
use std::io::{self, IoSlice, Read};
use std::net::{TcpStream, ToSocketAddrs};
use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel, sync_channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// How long connecting may take, all addresses of the host together.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(8);
/// Addresses of a host that are tried.
const MAX_ADDRESSES: usize = 4;
/// How long the disks may take for the next bytes.
const DISK_TIMEOUT: Duration = Duration::from_secs(60);
/// How long the other host may take nothing.
const STALL_TIMEOUT: Duration = Duration::from_secs(60);
/// How long it may take to answer, or to close the connection, after it has acknowledged everything.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(5);
/// How often counts are reported.
const PROGRESS_INTERVAL: Duration = Duration::from_millis(250);
/// Bytes that are given to the connection at a time.
const SEND_BYTES: usize = 256 << 10;
/// Readers that may wait for disks at a time; those of transfers that ended are among them.
const MAX_READERS: usize = 16;

/// Takes what a transfer reports.
type Report = Box<dyn Fn(StationEvent) + Send>;

/// Starts the thread; or returns what is to be reported without it.
pub(super) fn spawn(
    setup: &StationSetup,
    readers: &Arc<()>,
    plan: TransferPlan,
    control: Arc<TransferControl>,
    report: impl Fn(StationEvent) + Send + 'static,
) -> Result<JoinHandle<()>, Box<StationEvent>> {
    let transfer = plan.transfer;
    let (source, readers) = (Source::of(setup, &plan.request), Arc::clone(readers));
    let run = move || {
        let counts = TransferCounts::default();
        Sending {
            source,
            plan,
            control,
            report: Box::new(report),
            counts,
            end: None,
            reported: Instant::now(),
        }
        .run(readers);
    };
    std::thread::Builder::new().name("station-transfer".into()).spawn(run).map_err(|error| {
        let outcome = TransferOutcome::Failed(format!("start a thread: {error}"));
        let counts = TransferCounts::default();
        Box::new(StationEvent::Transfer { transfer, event: TransferEvent::Ended { outcome, counts } })
    })
}

/// Why a transfer ends early.
enum Early {
    Stopped,
    Failed(String),
}

impl From<io::Error> for Early {
    fn from(error: io::Error) -> Self {
        Self::Failed(split(&error.to_string()).0.to_owned())
    }
}

/// A transfer; it reports its end when it is dropped, also by a panic.
struct Sending {
    source: Source,
    plan: TransferPlan,
    control: Arc<TransferControl>,
    report: Report,
    counts: TransferCounts,
    end: Option<TransferOutcome>,
    reported: Instant,
}

impl Drop for Sending {
    fn drop(&mut self) {
        self.control.is_over.store(true, Ordering::SeqCst);
        let fault = || TransferOutcome::Failed("a bug in this program ended its thread".into());
        let outcome = self.end.take().unwrap_or_else(fault);
        self.tell(TransferEvent::Ended { outcome, counts: self.counts });
    }
}

impl Sending {
    fn run(mut self, readers: Arc<()>) {
        self.end = Some(match self.carry_out(readers) {
            Ok(outcome) => outcome,
            Err(Early::Stopped) => TransferOutcome::Stopped,
            // An error that follows from the stop is no error.
            Err(Early::Failed(_)) if self.control.is_stopped() => TransferOutcome::Stopped,
            Err(Early::Failed(why)) => TransferOutcome::Failed(why),
        });
    }

    fn tell(&self, event: TransferEvent) {
        (self.report)(StationEvent::Transfer { transfer: self.plan.transfer, event });
    }

    fn carry_out(&mut self, readers: Arc<()>) -> Result<TransferOutcome, Early> {
        if Arc::strong_count(&readers) > MAX_READERS {
            return Err(Early::Failed("too many readers wait for disks that do not respond".into()));
        }
        let (requests, wanted) = channel();
        let (to, from_disks) = sync_channel(self.source.queued_pieces());
        let (source, control) = (self.source.clone(), Arc::clone(&self.control));
        let of_writer = Arc::clone(&readers);
        let read = move || {
            let _counted = readers;
            let waits = Arc::clone(&control);
            while_waiting(move || waits.note_waiting());
            source.read(&wanted, &to, &control);
        };
        std::thread::Builder::new().name("transfer-read".into()).spawn(read)?;
        let has_gaps = match self.plan.request.form {
            TransferForm::Scan | TransferForm::File => self.send_range(&requests, &from_disks)?,
            TransferForm::Chunks => self.send_chunks(&requests, &from_disks)?,
            TransferForm::ToFile(write) => self.write_file(write, &requests, &from_disks, of_writer)?,
            TransferForm::ToEtransfer(write) => self.upload(write, &requests, &from_disks)?,
        };
        Ok(if has_gaps || self.counts.filled_bytes > 0 {
            TransferOutcome::Gaps
        } else {
            TransferOutcome::Complete
        })
    }

    /// Sends a range over one connection, when it is asked for. Returns whether parts of the scan are missing.
    fn send_range(
        &mut self,
        wanted: &Sender<Wanted>,
        from_disks: &Receiver<FromDisks>,
    ) -> Result<bool, Early> {
        let FromDisks::Opened(size_bytes) = self.next(from_disks)? else { return Err(out_of_turn()) };
        let stream = connect(&self.plan.request)?;
        let watched = stream.try_clone()?;
        let mut sender = self.sender(stream)?;
        self.tell(TransferEvent::Connected { size_bytes });
        let (from, to) = self.wait_for_range(&watched)?;
        ask(wanted, Wanted::Range(from, to))?;
        let mut pacing = Pacing::new();
        let FromDisks::End { has_gaps } = self.send(&mut sender, from_disks, &mut pacing)? else {
            return Err(out_of_turn());
        };
        sender.finish()?;
        self.wait_for_peer(&watched)?;
        Ok(has_gaps)
    }

    /// A sender over a connection, which a stop interrupts.
    fn sender(&self, stream: TcpStream) -> Result<TcpSender, Early> {
        let options = TcpSendOptions { patience: STALL_TIMEOUT, ..TcpSendOptions::default() };
        let sender = TcpSender::from_stream(stream, &options)?;
        *lock(&self.control.socket_stop) = Some(sender.stop_flag());
        self.go_on()?;
        Ok(sender)
    }

    /// The next word of the reading thread.
    fn next(&self, from_disks: &Receiver<FromDisks>) -> Result<FromDisks, Early> {
        match self.word(from_disks)? {
            FromDisks::Failed(why) => Err(Early::Failed(why)),
            said => Ok(said),
        }
    }

    /// The next word of a thread that works on a disk.
    fn word<T>(&self, from: &Receiver<T>) -> Result<T, Early> {
        let mut asked = Instant::now();
        loop {
            self.go_on()?;
            if self.control.has_waited.swap(false, Ordering::Relaxed) {
                asked = Instant::now();
            }
            match from.recv_timeout(POLL_INTERVAL) {
                Ok(said) => return Ok(said),
                Err(RecvTimeoutError::Timeout) if asked.elapsed() < DISK_TIMEOUT => {}
                Err(RecvTimeoutError::Timeout) => {
                    let why = format!("no disk responded within {} s", DISK_TIMEOUT.as_secs());
                    return Err(Early::Failed(why));
                }
                Err(RecvTimeoutError::Disconnected) => {
                    return Err(Early::Failed(
                        "a bug in this program ended a thread of this transfer".into(),
                    ));
                }
            }
        }
    }

    fn go_on(&self) -> Result<(), Early> {
        if self.control.is_stopped() { Err(Early::Stopped) } else { Ok(()) }
    }

    /// Waits until it is told what to send, while the connection stands.
    fn wait_for_range(&self, watched: &TcpStream) -> Result<(u64, u64), Early> {
        loop {
            self.go_on()?;
            if let Some(range) = lock(&self.control.range).take() {
                return Ok(range);
            }
            let why = match heard(watched, POLL_INTERVAL)? {
                Heard::Nothing => continue,
                Heard::End => "the other host closed the connection before anything was sent",
                Heard::Data => "the other host sent data, it is no receiver of a scan",
            };
            return Err(Early::Failed(why.into()));
        }
    }

    /// Sends what is read, and returns what the reading thread says after it.
    fn send(
        &mut self,
        sender: &mut TcpSender,
        from_disks: &Receiver<FromDisks>,
        pacing: &mut Pacing,
    ) -> Result<FromDisks, Early> {
        let before = self.counts.sent_bytes;
        loop {
            let said = self.next(from_disks)?;
            let bytes: &[u8] = match &said {
                FromDisks::Piece(piece) => piece,
                FromDisks::File(bytes) => bytes,
                _ => return Ok(said),
            };
            self.counts.read_bytes += bytes.len() as u64;
            if let FromDisks::Piece(RangePiece::Fill(fill)) = &said {
                self.counts.filled_bytes += fill.len() as u64;
            }
            for part in bytes.chunks(SEND_BYTES) {
                self.wait_for_turn(pacing)?;
                let sent = sender.send_slices(&[IoSlice::new(part)]);
                self.counts.sent_bytes = before + sender.stats().taken;
                sent?;
                pacing.pacer.sent(part.len() as u64, Nanos::from(pacing.begun.elapsed()));
                self.show_progress();
            }
        }
    }

    /// Waits until a recording leaves room, and the pace allows the next bytes.
    fn wait_for_turn(&mut self, pacing: &mut Pacing) -> Result<(), Early> {
        loop {
            self.go_on()?;
            let now = Nanos::from(pacing.begun.elapsed());
            let bits = self.control.pace.load(Ordering::Relaxed);
            // The pacer's 0 is no limit.
            let rate = if bits == u64::MAX { 0 } else { bits };
            if bits > 0 && rate != pacing.pacer.rate() {
                pacing.pacer = Pacer::new(rate, now);
            }
            let due = pacing.pacer.due();
            if bits > 0 && due <= now {
                return Ok(());
            }
            let wait = if bits == 0 { POLL_INTERVAL } else { Duration::from_nanos(due.since(now).0) };
            std::thread::sleep(wait.min(POLL_INTERVAL));
            self.show_progress();
        }
    }

    fn show_progress(&mut self) {
        if self.reported.elapsed() >= PROGRESS_INTERVAL {
            self.reported = Instant::now();
            self.tell(TransferEvent::Progress(self.counts));
        }
    }

    /// Waits until the other host has acknowledged everything, and for a while for its answer: jive5ab sends a byte when it has read all,
    /// then it closes. One that closes without having read all resets the connection.
    fn wait_for_peer(&mut self, watched: &TcpStream) -> Result<(), Early> {
        let (mut asked, mut acked, mut all_since) = (Instant::now(), 0, None);
        let mut has_answered = false;
        loop {
            self.go_on()?;
            if has_answered {
                std::thread::sleep(POLL_INTERVAL);
            } else {
                has_answered = heard(watched, POLL_INTERVAL)? != Heard::Nothing;
            }
            let info = TcpInfo::of(watched)?;
            if info.bytes_acked > acked {
                (asked, acked) = (Instant::now(), info.bytes_acked);
            }
            if info.all_acknowledged() {
                let since = *all_since.get_or_insert_with(Instant::now);
                if has_answered || since.elapsed() >= CLOSE_TIMEOUT {
                    return Ok(());
                }
            }
            if asked.elapsed() >= STALL_TIMEOUT {
                let why = format!("the other host acknowledged nothing for {} s", STALL_TIMEOUT.as_secs());
                return Err(Early::Failed(why));
            }
            self.show_progress();
        }
    }
}

/// When the next bytes may be sent.
struct Pacing {
    pacer: Pacer,
    begun: Instant,
}

impl Pacing {
    fn new() -> Self {
        Self { pacer: Pacer::new(0, Nanos(0)), begun: Instant::now() }
    }
}

/// Asks the reading thread for something.
fn ask(wanted: &Sender<Wanted>, what: Wanted) -> Result<(), Early> {
    wanted.send(what).map_err(|_| Early::Failed("the thread that reads the scan has ended".into()))
}

/// The bytes from `from` to `to`, or to the end of a scan of so many.
fn range_of(from: u64, to: Option<u64>, size_bytes: u64) -> Result<(u64, u64), Early> {
    let to = to.unwrap_or(size_bytes);
    if from < to && to <= size_bytes {
        return Ok((from, to));
    }
    Err(Early::Failed(format!("{from} to {to} is outside of the scan, which has {size_bytes} bytes")))
}

fn out_of_turn() -> Early {
    Early::Failed("a bug in this program: the thread that reads said what was not asked".into())
}

/// What comes from the other host.
#[derive(PartialEq, Eq)]
enum Heard {
    Nothing,
    Data,
    End,
}

fn heard(mut stream: &TcpStream, wait: Duration) -> Result<Heard, Early> {
    if readable(&[stream.as_fd()], wait)?.is_empty() {
        return Ok(Heard::Nothing);
    }
    match stream.read(&mut [0; 64]) {
        Ok(0) => Ok(Heard::End),
        Ok(_) => Ok(Heard::Data),
        Err(error) => Err(Early::Failed(format!("the other host ended the connection: {error}"))),
    }
}

fn connect(request: &TransferRequest) -> Result<TcpStream, Early> {
    let (host, port) = (request.host.as_str(), request.port);
    let unknown = |error: io::Error| Early::Failed(format!("the address of {host}: {error}"));
    let addresses: Vec<_> = (host, port).to_socket_addrs().map_err(unknown)?.take(MAX_ADDRESSES).collect();
    let mut why = Early::Failed(format!("{host} has no address"));
    let patience = CONNECT_TIMEOUT / u32::try_from(addresses.len().max(1)).unwrap_or(1);
    for address in addresses {
        match Setup::default().connect(address, patience) {
            Ok(stream) => return Ok(stream),
            Err(error) => why = error.into(),
        }
    }
    Err(why)
}
