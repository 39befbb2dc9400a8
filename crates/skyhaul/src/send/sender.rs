//! The sending thread: numbers in, trains out, each on schedule.

use super::plan::{Due, Plan};
use super::report::SendReport;
use super::{HEAD, Supply};
use crate::report::VERSION;
use skyhaul_core::pace::Pacer;
use skyhaul_core::placement::Nanos;
use skyhaul_io::address::{Endpoint, Transport};
use skyhaul_io::fault::{Damage, Faults};
use skyhaul_io::host;
use skyhaul_io::tcp::{TcpSendOptions, TcpSender};
use skyhaul_io::udp::send::{SendMode, SendOptions, Sent, TRAIN_BYTES, TRAIN_PACKETS, UdpSender};
use std::io::{self, IoSlice};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Where to, and how.
#[derive(Clone, Debug)]
pub struct SenderOptions {
    /// The receiver.
    pub to: Endpoint,
    /// How packets are handed to the kernel.
    pub mode: SendMode,
    /// Bits per second of datagram payload; 0 is as fast as possible.
    pub rate: u64,
    /// Faults to inject.
    pub faults: Option<Faults>,
    /// Stop after this many packets of the supply.
    pub packets: Option<u64>,
    /// Stop after this long.
    pub duration: Option<Duration>,
    /// Processor for the thread.
    pub cpu: Option<usize>,
}

/// Ends a sender from outside, and gives its progress.
#[derive(Clone, Debug, Default)]
pub struct Stop {
    flag: Arc<AtomicBool>,
    bytes: Arc<AtomicU64>,
}

impl Stop {
    /// Ask the sender to end after the current train.
    pub fn stop(&self) {
        self.flag.store(true, Ordering::Relaxed);
    }

    /// Bytes sent so far.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }
}

enum Outlet {
    Udp(Box<UdpSender>),
    Tcp(Option<Box<TcpSender>>),
}

impl Outlet {
    fn send<const N: usize>(&mut self, packets: &[[IoSlice<'_>; N]]) -> io::Result<Sent> {
        match self {
            Outlet::Udp(udp) => udp.send_train(packets),
            Outlet::Tcp(Some(tcp)) => tcp.send(packets),
            Outlet::Tcp(None) => Err(io::ErrorKind::NotConnected.into()),
        }
    }

    fn describe(&self) -> String {
        match self {
            Outlet::Udp(udp) => udp.describe(),
            Outlet::Tcp(tcp) => tcp.as_ref().map(|tcp| tcp.describe()).unwrap_or_default(),
        }
    }

    /// Wait for data in flight.
    fn finish(&mut self) -> io::Result<()> {
        match self {
            Outlet::Udp(_) => Ok(()),
            Outlet::Tcp(tcp) => tcp.take().map_or(Ok(()), |tcp| tcp.finish().map(|_| ())),
        }
    }
}

/// Sends a [`Supply`].
pub struct Sender {
    options: SenderOptions,
    supply: Box<dyn Supply>,
    outlet: Outlet,
}

impl std::fmt::Debug for Sender {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Sender").field("options", &self.options).finish_non_exhaustive()
    }
}

/// Most packets in one system call.
const BATCH: usize = TRAIN_PACKETS * 4;

impl Sender {
    /// Open the socket, or connect.
    ///
    /// # Errors
    /// A system error, with the address.
    pub fn open(options: SenderOptions, supply: Box<dyn Supply>) -> io::Result<Self> {
        let outlet = match options.to.transport {
            Transport::Udp => {
                let udp = SendOptions { mode: options.mode, ..SendOptions::default() };
                Outlet::Udp(Box::new(UdpSender::open(&options.to, &udp)?))
            }
            Transport::Tcp => {
                let sender = TcpSender::open(&options.to, &TcpSendOptions::default())?;
                Outlet::Tcp(Some(Box::new(sender)))
            }
        };
        Ok(Self { options, supply, outlet })
    }

    /// Send everything, or until `stop`.
    #[must_use]
    pub fn run(mut self, stop: &Stop) -> SendReport {
        let mut notes = Vec::new();
        if let Some(cpu) = self.options.cpu {
            // A sender that is not pinned only runs less steadily.
            notes.extend(host::thread::pin(cpu).err().map(|why| format!("not pinned to a processor: {why}")));
        }
        let cpu = host::thread::cpu_time();
        let mut plan = Plan::new(self.options.faults.as_ref());
        let mut report = SendReport {
            version: VERSION,
            to: self.options.to.to_string(),
            what: self.supply.describe(),
            mode: self.outlet.describe(),
            notes,
            ..SendReport::default()
        };
        let clock = Instant::now();
        if let Err(e) = self.send_all(stop, &mut plan, &mut report, clock) {
            report.error = Some(e.to_string());
        }
        report.error = report.error.or_else(|| self.supply.failure());
        report.seconds = clock.elapsed().as_secs_f64();
        if report.seconds > 0.0 {
            report.bits_per_second = report.bytes as f64 * 8.0 / report.seconds;
        }
        report.cpu_seconds = (host::thread::cpu_time() - cpu).as_secs_f64();
        report.cpu_seconds_per_gb =
            if report.bytes > 0 { report.cpu_seconds * 1e9 / report.bytes as f64 } else { 0.0 };
        report
    }
}

impl Sender {
    fn send_all(
        &mut self,
        stop: &Stop,
        plan: &mut Plan,
        report: &mut SendReport,
        clock: Instant,
    ) -> io::Result<()> {
        let now = || Nanos(clock.elapsed().as_nanos() as u64);
        let mut pacer = Pacer::new(self.options.rate, now());
        let packet_bytes = self.supply.packet_bytes().max(1);
        let batch = batch_of(self.options.rate, packet_bytes);
        let most = self.options.packets.unwrap_or(u64::MAX);
        let mut due: Vec<Due> = Vec::with_capacity(batch * 2);
        let mut next = 0;
        loop {
            let (upto, more) = self.supply.available(next);
            let upto = upto.min(most);
            let over = self.options.duration.is_some_and(|d| clock.elapsed() >= d)
                || stop.flag.load(Ordering::Relaxed);
            due.clear();
            let first = next;
            while next < upto && due.len() < batch && next - first < batch as u64 && !over {
                plan.feed(next, &mut due);
                next += 1;
            }
            if due.is_empty() && next > first {
                // All of them lost on purpose, or late: they take their time all the same.
                wait_until(pacer.due(), clock);
                pacer.sent((next - first) * packet_bytes as u64, now());
                continue;
            }
            if due.is_empty() {
                if over || next >= most || (next >= upto && !more) {
                    plan.flush(&mut due);
                    self.send(&due, report)?;
                    break;
                }
                std::thread::sleep(Duration::from_millis(5));
                continue;
            }
            wait_until(pacer.due(), clock);
            let bytes = self.send(&due, report)?;
            pacer.sent(bytes, now());
            stop.bytes.store(report.bytes, Ordering::Relaxed);
        }
        report.numbered = next;
        report.slipped_seconds = pacer.forgiven().0 as f64 / 1e9;
        plan.report(report);
        self.outlet.finish()
    }

    /// Send these packets at once.
    fn send(&mut self, due: &[Due], report: &mut SendReport) -> io::Result<u64> {
        let mut bytes = 0;
        for run in due.chunk_by(|a, b| a.damage == Damage::NONE && b.damage == Damage::NONE) {
            bytes += match run {
                [one] if one.damage != Damage::NONE => self.send_damaged(*one, report)?,
                whole => self.send_whole(whole, report)?,
            };
        }
        Ok(bytes)
    }

    fn send_whole(&mut self, due: &[Due], report: &mut SendReport) -> io::Result<u64> {
        let mut heads = [[0; HEAD]; BATCH];
        let mut bytes = 0;
        for part in due.chunks(BATCH) {
            let mut lengths = [(0, &[][..]); BATCH];
            for ((due, head), length) in part.iter().zip(&mut heads).zip(&mut lengths) {
                *length = self.supply.packet(due.number, head);
            }
            let mut slices = [[IoSlice::new(&[]); 2]; BATCH];
            for ((slice, head), (length, payload)) in
                slices.iter_mut().zip(&heads).zip(&lengths[..part.len()])
            {
                *slice = [IoSlice::new(&head[..*length]), IoSlice::new(payload)];
            }
            let sent = self.outlet.send(&slices[..part.len()])?;
            report.packets += sent.packets as u64;
            report.bytes += sent.bytes as u64;
            report.refused += sent.refused as u64;
            bytes += sent.bytes as u64;
        }
        Ok(bytes)
    }

    fn send_damaged(&mut self, due: Due, report: &mut SendReport) -> io::Result<u64> {
        let mut head = [0; HEAD];
        let (length, payload) = self.supply.packet(due.number, &mut head);
        let mut packet = head[..length].to_vec();
        packet.extend_from_slice(payload);
        let kept = due.damage.apply(&mut packet);
        let slices = [[IoSlice::new(&packet[..kept])]];
        let sent = self.outlet.send(&slices)?;
        report.packets += sent.packets as u64;
        report.bytes += sent.bytes as u64;
        Ok(sent.bytes as u64)
    }
}

/// Packets in one batch: several trains at full speed, about a millisecond's worth when paced, so that slow streams
/// stay smooth.
fn batch_of(rate: u64, packet_bytes: usize) -> usize {
    let train = (TRAIN_BYTES / packet_bytes).clamp(1, TRAIN_PACKETS);
    if rate == 0 {
        return (train * 4).min(BATCH);
    }
    let per_millisecond = rate / 8 / 1000 / packet_bytes as u64;
    (per_millisecond as usize).clamp(1, train)
}

/// Sleep until `due`, and a little longer where that is soon: to sleep and be woken costs some µs of CPU time,
/// so at high rates some trains go out together, and the pacer keeps the rate.
fn wait_until(due: Nanos, clock: Instant) {
    const SHORTEST: Duration = Duration::from_micros(60);
    let left = Duration::from_nanos(due.0).saturating_sub(clock.elapsed());
    if !left.is_zero() {
        std::thread::sleep(left.max(SHORTEST));
    }
}
