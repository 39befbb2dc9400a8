//! The receiver's side: counts packets of each sender, answers its marks, and passes on only the data.
//!
//! ```text
//!   train from a sender   │ packet │ packet │ packet │ mark │        counted, then answered: 3 more packets arrived
//!   passed on             │ packet │ packet │ packet │
//! ```
//!
//! A sender is known from its first mark on; others cost one comparison per train. Limits: [`SENDERS`] senders, of which
//! one that was silent for some seconds is replaced by a new one; at most one report per sender and millisecond.

use skyhaul_core::hint::Hint;
use skyhaul_core::placement::Nanos;
use skyhaul_core::wire::feedback::{self, Echo, Mark, Message, Report, State};
use skyhaul_io::source::{Source, SourceStats, Train};
use skyhaul_io::udp::UdpSource;
use skyhaul_io::udp::reply::Replier;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Maximum number of senders answered at a time.
pub const SENDERS: usize = 64;
/// A sender that was silent for this long may be replaced by a new one.
const SENDER_TIMEOUT: Duration = Duration::from_secs(3);
/// Minimum time between two reports to one sender.
const MIN_INTERVAL: Duration = Duration::from_millis(1);

/// State of a stream for reports to its senders; all counts are since the start.
#[derive(Debug, Default)]
pub struct Gauge {
    /// Packets of frames rejected because no block was free.
    pub no_block: AtomicU64,
    /// Packets of heaps rejected because memory ran out.
    pub no_memory: AtomicU64,
    /// Packets or finished heaps dropped because the reader is too slow.
    pub ring_full: AtomicU64,
    /// Fill level of the ring of finished heaps, in thousandths.
    pub ring_fill: AtomicU64,
}

/// Counters of a receiver's feedback.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FeedbackStats {
    /// Senders known now.
    pub senders: usize,
    /// Marks received.
    pub marks: u64,
    /// Datagrams that look like marks but are invalid.
    pub refused: u64,
    /// Reports sent.
    pub reports: u64,
    /// Reports that could not be sent.
    pub unsent: u64,
    /// Marks of new senders when there were [`SENDERS`] already.
    pub too_many: u64,
}

/// A sender that requests feedback.
#[derive(Debug)]
struct Asker {
    address: SocketAddr,
    session: u64,
    packets: u64,
    bytes: u64,
    reports: u32,
    heard: Instant,
    reported: Option<Instant>,
}

/// Counts, and answers marks. One for each socket.
#[derive(Debug)]
pub struct FeedbackSender {
    replier: Replier,
    gauge: Arc<Gauge>,
    start: Instant,
    askers: Vec<Asker>,
    /// Sender of the last train: one that requests feedback, or none.
    last: Option<(SocketAddr, Option<usize>)>,
    kernel_drops: u64,
    stats: FeedbackStats,
}

impl FeedbackSender {
    /// Answer through `replier`; `gauge` has the state of the stream.
    #[must_use]
    pub fn new(replier: Replier, gauge: Arc<Gauge>) -> Self {
        let (askers, stats) = (Vec::with_capacity(SENDERS), FeedbackStats::default());
        Self { replier, gauge, start: Instant::now(), askers, last: None, kernel_drops: 0, stats }
    }

    /// The counters so far.
    #[must_use]
    pub fn stats(&self) -> FeedbackStats {
        FeedbackStats { senders: self.askers.len(), ..self.stats }
    }

    /// Count a train, answer its marks, and pass on the rest. Returns the number of packets passed on.
    pub fn sift(&mut self, train: &Train<'_>, each: &mut dyn FnMut(Train<'_>)) -> usize {
        self.kernel_drops += u64::from(train.dropped);
        let asker = self.whose(train.sender);
        if !may_have_marks(train) {
            self.add(asker, train);
            each(*train);
            return train.count();
        }
        // Packets between marks are passed on as separate trains.
        let (mut at, mut from, mut handed, mut dropped) = (0, 0, 0, train.dropped);
        let mut hand = |this: &mut Self, asker: Option<usize>, bytes: &[u8]| {
            if !bytes.is_empty() {
                let part = Train { bytes, dropped: std::mem::take(&mut dropped), ..*train };
                this.add(asker, &part);
                handed += part.count();
                each(part);
            }
        };
        for packet in train.packets() {
            if feedback::is_feedback(packet) {
                hand(self, asker, &train.bytes[from..at]);
                from = at + packet.len();
                self.take_mark(packet, train.sender);
            }
            at += packet.len();
        }
        let asker = self.whose(train.sender);
        hand(self, asker, &train.bytes[from..]);
        handed
    }

    #[inline]
    fn add(&mut self, asker: Option<usize>, train: &Train<'_>) {
        if let Some(asker) = asker.and_then(|n| self.askers.get_mut(n)) {
            asker.packets += train.count() as u64;
            asker.bytes += train.bytes.len() as u64;
        }
    }

    #[inline]
    fn whose(&mut self, sender: &SocketAddr) -> Option<usize> {
        match self.last {
            Some((address, found)) if address == *sender => found,
            _ => {
                let found = self.askers.iter().position(|asker| asker.address == *sender);
                self.last = Some((*sender, found));
                found
            }
        }
    }

    #[cold]
    fn take_mark(&mut self, packet: &[u8], from: &SocketAddr) {
        let Ok(Message::Mark(mark)) = feedback::read(packet) else {
            self.stats.refused += 1;
            return;
        };
        self.stats.marks += 1;
        let now = Instant::now();
        let Some(n) = self.admit(&mark, from, now) else {
            self.stats.too_many += 1;
            return;
        };
        let arrived = self.nanos(now);
        let state = self.state(&mark, arrived);
        let asker = &mut self.askers[n];
        asker.heard = now;
        if asker.reported.is_some_and(|before| now - before < MIN_INTERVAL) {
            return;
        }
        asker.reported = Some(now);
        asker.reports = asker.reports.wrapping_add(1);
        let echo = Echo {
            session: mark.session,
            sequence: asker.reports,
            mark: mark.sequence,
            mark_time: mark.time,
            mark_packets: mark.packets,
            packets: asker.packets,
            bytes: asker.bytes,
            arrived,
            ..Echo::default()
        };
        match self.replier.reply(&Report { echo, state }.octets(), from) {
            Ok(true) => self.stats.reports += 1,
            Ok(false) | Err(_) => self.stats.unsent += 1,
        }
    }

    /// The sender's place in the table; a new session starts its counts at 0.
    fn admit(&mut self, mark: &Mark, from: &SocketAddr, now: Instant) -> Option<usize> {
        let new = Asker {
            address: *from,
            session: mark.session,
            packets: 0,
            bytes: 0,
            reports: 0,
            heard: now,
            reported: None,
        };
        let found = self.askers.iter().position(|asker| asker.address == *from);
        self.last = None;
        if let Some(n) = found {
            if self.askers[n].session != mark.session {
                self.askers[n] = new;
            }
            return Some(n);
        }
        if self.askers.len() < SENDERS {
            self.askers.push(new);
            return Some(self.askers.len() - 1);
        }
        let silent = self.askers.iter().position(|asker| now - asker.heard > SENDER_TIMEOUT)?;
        self.askers[silent] = new;
        Some(silent)
    }

    fn state(&self, mark: &Mark, time: u64) -> State {
        let read = |count: &AtomicU64| count.load(Ordering::Relaxed);
        State {
            mark_bytes: mark.bytes,
            time,
            kernel_drops: self.kernel_drops,
            no_memory: read(&self.gauge.no_block).saturating_add(read(&self.gauge.no_memory)),
            ring_full: read(&self.gauge.ring_full),
            socket_fill: self.replier.fill(),
            ring_fill: read(&self.gauge.ring_fill).min(1000) as u16,
            ..State::default()
        }
    }

    fn nanos(&self, at: Instant) -> u64 {
        Nanos::from(at.saturating_duration_since(self.start)).0
    }
}

/// The kernel joins a mark to a train only as its last packet, or a train of packets as long as marks are.
#[inline]
fn may_have_marks(train: &Train<'_>) -> bool {
    let last = match train.stride {
        0 => train.bytes.len(),
        stride => (train.bytes.len().saturating_sub(1)) % stride + 1,
    };
    last == feedback::LEN || train.stride == feedback::LEN
}

/// A source that answers the marks among its packets.
pub struct Answering<S: Source = UdpSource> {
    source: S,
    feedback: FeedbackSender,
}

impl Answering<UdpSource> {
    /// Answer from the port of `source`.
    ///
    /// # Errors
    /// If `source` is a multicast group ([`InvalidInput`](io::ErrorKind::InvalidInput)), or no file descriptor is free.
    pub fn new(source: UdpSource, gauge: Arc<Gauge>) -> io::Result<Self> {
        let local = source.local();
        if local.ip().is_multicast() {
            let text = format!(
                "feedback cannot be given for the group udp://{local}, because a sender expects it from one receiver{}",
                Hint("listen on an address of this host, or without feedback")
            );
            return Err(io::Error::new(io::ErrorKind::InvalidInput, text));
        }
        let feedback = FeedbackSender::new(source.replier()?, gauge);
        Ok(Self { source, feedback })
    }

    /// Where it listens.
    #[must_use]
    pub fn local(&self) -> SocketAddr {
        self.source.local()
    }
}

impl<S: Source> Answering<S> {
    /// Answer the marks of any source through `feedback`, for example around injected faults.
    #[must_use]
    pub fn around(source: S, feedback: FeedbackSender) -> Self {
        Self { source, feedback }
    }

    /// The counters so far.
    #[must_use]
    pub fn feedback(&self) -> FeedbackStats {
        self.feedback.stats()
    }
}

impl<S: Source> Source for Answering<S> {
    fn poll(&mut self, wait: Duration, each: &mut dyn FnMut(Train<'_>)) -> io::Result<usize> {
        let (feedback, mut handed) = (&mut self.feedback, 0);
        self.source.poll(wait, &mut |train| handed += feedback.sift(&train, each))?;
        Ok(handed)
    }

    fn stats(&self) -> SourceStats {
        self.source.stats()
    }

    fn describe(&self) -> String {
        format!("{}, with feedback", self.source.describe())
    }

    fn is_finished(&self) -> bool {
        self.source.is_finished()
    }
}

#[cfg(test)]
mod tests;
