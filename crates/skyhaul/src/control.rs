//! Closed-loop rate control on sockets: a sender that sends marks, a receiver that reports.
//!
//! ```text
//!   RateControl ── marks, among the data of a UdpSender ──▶ Answering<UdpSource> ── trains without marks ──▶ a stream
//!      │ rate                                                    │ Gauge: the stream's rejections and fill level
//!      ◀────────────────────── reports, to the sender's port ────┘
//! ```
//!
//! The datagrams are [`skyhaul_core::wire::feedback`], the law is [`skyhaul_core::control`]; here are the sockets and the
//! clock. Neither side waits for the other: a sender without reports falls back to its minimum rate, and a receiver
//! without marks sends nothing.
//!
//! A sender is one UDP socket with its rate, marks and reports:
//!
//! ```no_run
//! use skyhaul::control::RateControl;
//! use skyhaul::core::control::ControlConfig;
//! use skyhaul::io::udp::send::{SendOptions, UdpSender};
//! let mut sender = UdpSender::open(&"udp://10.0.0.9:8888".parse()?, &SendOptions::default())?;
//! let mut control = RateControl::new(&ControlConfig::default());
//! loop {
//!     // send a train, then:
//!     let bits_per_second = control.poll(&mut sender)?;
//!     // the next train is due so much later: its bits / bits_per_second
//! # break;
//! }
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! The sending thread calls [`RateControl::poll`] after each train; most calls only read the clock. A mark must be sent exactly
//! where its counts are valid, so no other thread can send it.
//!
//! A receiver reports as it reads: [`Answering`] is a [`Source`](skyhaul_io::source::Source) around a source.
//!
//! Limits: unicast. The receiver must reply from the address that the sender uses; one that listens on all addresses of a
//! host may not, so bind it to one.

mod answer;

pub use crate::control::answer::{Answering, FeedbackSender, FeedbackStats, Gauge, SENDERS};

use skyhaul_core::control::{ControlConfig, ControlStats, Controller, Phase, Report};
use skyhaul_core::hint::Hint;
use skyhaul_core::placement::Nanos;
use skyhaul_core::wire::feedback;
use skyhaul_core::wire::feedback::{Mark, Message, State};
use skyhaul_io::gathered::{Extent, Gathered};
use skyhaul_io::udp::send::UdpSender;
use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher, Hasher};
use std::io;
use std::io::IoSlice;
use std::time::{Duration, Instant};

/// Minimum time between two reads of reports.
const POLL_INTERVAL: Nanos = Nanos(1_000_000);
/// Maximum number of reports read at a time; more arrive only in a flood.
const MAX_REPORTS: usize = 64;
/// A report of an older mark is ignored.
const MAX_AGE: Nanos = Nanos(10_000_000_000);

/// The closed loop of one [`UdpSender`].
#[derive(Debug)]
pub struct RateControl {
    control: Controller,
    interval: Nanos,
    session: u64,
    start: Instant,
    marks: u32,
    /// Packets and bytes in the sender's counters that are marks, or were sent before the loop began.
    not_data: Option<(u64, u64)>,
    next_mark: Nanos,
    next_look: Nanos,
    refused: u64,
    receiver: Option<State>,
}

/// State of a loop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    /// Bits of datagram payload per second.
    pub rate: u64,
    /// What the law is doing.
    pub phase: Phase,
    /// The counters so far.
    pub stats: ControlStats,
}

impl std::fmt::Display for Progress {
    /// The rate, and the state of the law with its reason.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Progress { rate, phase, stats } = self;
        write!(f, "{:.3} Gb/s, {}", *rate as f64 / 1e9, phase.name())?;
        if *phase == Phase::Blind {
            let heard = if stats.reports == 0 { "has sent no feedback" } else { "stopped sending feedback" };
            return write!(
                f,
                ": the receiver {heard}{}",
                Hint("enable feedback at the receiver, let UDP through to this port, or use a fixed rate")
            );
        }
        if let Some(cause) = stats.last {
            write!(f, ", last reduced because of {}", cause.name())?;
        }
        write!(f, ", {} packets lost", stats.lost)
    }
}

impl RateControl {
    /// A loop before its first report, with a new session.
    #[must_use]
    pub fn new(config: &ControlConfig) -> Self {
        // The standard library seeds each of these from the system's randomness.
        let session = RandomState::new().build_hasher().finish();
        Self {
            control: Controller::new(config),
            interval: Nanos(config.interval.0.clamp(1_000_000, 1_000_000_000)),
            session,
            start: Instant::now(),
            marks: 0,
            not_data: None,
            next_mark: Nanos(0),
            next_look: Nanos(0),
            refused: 0,
            receiver: None,
        }
    }

    /// Send a mark if one is due, process the reports that arrived, and return the rate in bits of datagram payload per
    /// second. Never waits. `sender` must be the same in all calls, and send only to this receiver.
    ///
    /// # Errors
    /// An error that prevents sending.
    pub fn poll(&mut self, sender: &mut UdpSender) -> io::Result<u64> {
        let now = self.now();
        if now >= self.next_look {
            self.next_look = now.plus(POLL_INTERVAL);
            self.hear(sender)?;
        }
        if now >= self.next_mark {
            self.next_mark = now.plus(self.interval);
            self.mark(sender)?;
        }
        Ok(self.control.rate())
    }

    /// The rate now.
    #[must_use]
    pub fn rate(&self) -> u64 {
        self.control.rate()
    }

    /// What the law is doing.
    #[must_use]
    pub fn phase(&self) -> Phase {
        self.control.phase()
    }

    /// The counters so far.
    #[must_use]
    pub fn stats(&self) -> ControlStats {
        self.control.stats()
    }

    /// Datagrams received that were not reports of this session.
    #[must_use]
    pub fn refused(&self) -> u64 {
        self.refused
    }

    /// The last state reported by the receiver.
    #[must_use]
    pub fn receiver(&self) -> Option<&State> {
        self.receiver.as_ref()
    }

    /// The state of the loop.
    #[must_use]
    pub fn progress(&self) -> Progress {
        Progress { rate: self.rate(), phase: self.phase(), stats: self.stats() }
    }

    fn now(&self) -> Nanos {
        Nanos::from(self.start.elapsed())
    }

    fn mark(&mut self, sender: &mut UdpSender) -> io::Result<()> {
        let stats = sender.stats();
        let (packets, bytes) = *self.not_data.get_or_insert((stats.packets, stats.bytes));
        let now = self.now();
        let mark = Mark {
            session: self.session,
            sequence: self.marks,
            interval: (self.interval.0 / 1000) as u32,
            time: now.0,
            packets: stats.packets.saturating_sub(packets),
            bytes: stats.bytes.saturating_sub(bytes),
            ..Mark::default()
        };
        let octets = mark.octets();
        let (slices, extents) = ([IoSlice::new(&octets)], [Extent { first: 0, bytes: octets.len() }]);
        let sent = sender.try_send_gathered(Gathered::new(&slices, &extents))?;
        self.not_data = Some((packets + sent.packets as u64, bytes + sent.bytes as u64));
        self.marks = self.marks.wrapping_add(1);
        self.control.marked(now);
        Ok(())
    }

    fn hear(&mut self, sender: &mut UdpSender) -> io::Result<()> {
        let mut octets = [0; feedback::LEN + 1];
        for _ in 0..MAX_REPORTS {
            let Some(length) = sender.receive_report(&mut octets)? else { break };
            self.take(&octets[..length.min(octets.len())]);
        }
        Ok(())
    }

    fn take(&mut self, datagram: &[u8]) {
        let now = self.now();
        let Ok(Message::Report(report)) = feedback::read(datagram) else {
            self.refused += 1;
            return;
        };
        let time = Nanos(report.echo.mark_time);
        // Only reports of recent marks of this session are used.
        let ours = report.echo.session == self.session && time <= now && now.since(time) < MAX_AGE;
        if !ours {
            self.refused += 1;
            return;
        }
        self.receiver = Some(report.state);
        self.control.report(&Report::from(&report), now);
    }
}

/// The loops of several senders that share one schedule: the total rate is limited so that none of them has loss.
///
/// ```text
///   schedule ─▶ 1/2 of the bytes ─▶ sender 0, may send 3 Gb/s      all: min(3 / ½, 4 / ½) = 6 Gb/s
///            └▶ 1/2 of the bytes ─▶ sender 1, may send 4 Gb/s
/// ```
#[derive(Debug)]
pub struct Steering {
    loops: Vec<RateControl>,
    /// Bytes sent by each sender when shares were last computed, and its recent share of the bytes.
    bytes: Vec<u64>,
    shares: Vec<f64>,
    interval: Duration,
    looked: Instant,
}

impl Steering {
    /// Loops for `senders` senders.
    #[must_use]
    pub fn new(config: &ControlConfig, senders: usize) -> Self {
        let even = 1.0 / senders.max(1) as f64;
        Self {
            loops: (0..senders).map(|_| RateControl::new(config)).collect(),
            bytes: vec![0; senders],
            shares: vec![even; senders],
            interval: Duration::from_nanos(config.interval.0),
            looked: Instant::now(),
        }
    }

    /// [`RateControl::poll`] for each sender; returns the total rate. `senders` must be the same in all calls.
    ///
    /// # Errors
    /// An error that prevents sending.
    pub fn poll(&mut self, senders: &mut [UdpSender]) -> io::Result<u64> {
        if self.loops.len() > 1 && self.looked.elapsed() >= self.interval {
            self.looked = Instant::now();
            self.share(senders);
        }
        let mut all = f64::INFINITY;
        for ((sender, control), &share) in senders.iter_mut().zip(&mut self.loops).zip(&self.shares) {
            let rate = control.poll(sender)? as f64;
            // A sender with a negligible share does not limit the others.
            if share > 1e-3 {
                all = all.min(rate / share);
            }
        }
        Ok(if all.is_finite() { all as u64 } else { self.rates().sum() })
    }

    fn share(&mut self, senders: &[UdpSender]) {
        let sent: Vec<u64> = senders.iter().map(|sender| sender.stats().bytes).collect();
        let each: Vec<u64> = sent.iter().zip(&self.bytes).map(|(now, before)| now - before).collect();
        let all: u64 = each.iter().sum();
        self.bytes = sent;
        if all > 0 {
            for (share, &bytes) in self.shares.iter_mut().zip(&each) {
                *share += (bytes as f64 / all as f64 - *share) / 16.0;
            }
        }
    }

    fn rates(&self) -> impl Iterator<Item = u64> + '_ {
        self.loops.iter().map(RateControl::rate)
    }

    /// Each loop.
    #[must_use]
    pub fn loops(&self) -> &[RateControl] {
        &self.loops
    }
}

/// Time that `bytes` take at this rate, for loops that pace themselves.
#[must_use]
pub fn spacing(bytes: usize, bits_per_second: u64) -> Duration {
    Duration::from_secs_f64(bytes as f64 * 8.0 / bits_per_second.max(1) as f64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use super::{Answering, Gauge};
    use skyhaul_core::control::Cause;
    use skyhaul_core::wire::feedback::Echo;
    use skyhaul_io::address::Endpoint;
    use skyhaul_io::source::Source;
    use skyhaul_io::udp::send::SendOptions;
    use skyhaul_io::udp::{Tier, UdpOptions, UdpSource};
    use std::net::UdpSocket;
    use std::sync::Arc;

    fn answering(tier: Tier) -> Answering {
        let at: Endpoint = "udp://127.0.0.1:0".parse().unwrap();
        let source = UdpSource::open(&at, &UdpOptions { tier, ..UdpOptions::default() }).unwrap();
        Answering::new(source, Arc::new(Gauge::default())).unwrap()
    }

    fn sender(to: std::net::SocketAddr) -> UdpSender {
        UdpSender::open(&format!("udp://{to}").parse().unwrap(), &SendOptions::default()).unwrap()
    }

    #[test]
    fn a_loop_on_loopback_is_closed_and_hands_on_the_data_alone() {
        for tier in [Tier::Stage, Tier::Plain] {
            let mut source = answering(tier);
            let mut sender = sender(source.local());
            let mut control = RateControl::new(&ControlConfig::default());
            let (packet, mut got, mut sent) = ([0x53; 1472], 0, 0);
            let deadline = Instant::now() + Duration::from_secs(20);
            while control.stats().reports < 20 && Instant::now() < deadline {
                let train = [[IoSlice::new(&packet)]; 8];
                sent += sender.send_train(&train).unwrap().packets;
                control.poll(&mut sender).unwrap();
                got += source
                    .poll(Duration::from_millis(1), &mut |train| {
                        assert!(train.packets().all(|packet| packet.len() == 1472));
                    })
                    .unwrap();
            }
            let (stats, feedback) = (control.stats(), source.feedback());
            assert!(stats.reports >= 20, "{stats:?} {feedback:?}");
            assert_eq!((stats.lost, control.refused(), feedback.refused), (0, 0, 0));
            assert_eq!(got, sent, "{tier:?}");
            assert!(control.rate() >= ControlConfig::default().start / 2);
            assert!(control.receiver().is_some());
        }
    }

    #[test]
    fn strangers_and_other_sessions_do_not_steer() {
        let receiver = UdpSocket::bind("127.0.0.1:0").unwrap();
        receiver.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
        let mut sender = sender(receiver.local_addr().unwrap());
        let mut control = RateControl::new(&ControlConfig::default());
        control.poll(&mut sender).unwrap();
        let mut octets = [0; 256];
        let (length, back) = receiver.recv_from(&mut octets).unwrap();
        let Ok(Message::Mark(mark)) = feedback::read(&octets[..length]) else { panic!("no mark") };
        let answer = |session: u64, mark_time: u64| {
            let echo = Echo { session, mark_time, arrived: 1, ..Echo::default() };
            feedback::Report { echo, ..feedback::Report::default() }.octets().to_vec()
        };
        let bad = [
            b"hello".to_vec(),
            vec![0; 9000],
            mark.octets().to_vec(),
            answer(mark.session ^ 1, mark.time),
            answer(mark.session, u64::MAX),
        ];
        for datagram in &bad {
            receiver.send_to(datagram, back).unwrap();
        }
        receiver.send_to(&answer(mark.session, mark.time), back).unwrap();
        let deadline = Instant::now() + Duration::from_secs(10);
        while control.stats().reports == 0 && Instant::now() < deadline {
            std::thread::sleep(Duration::from_millis(2));
            control.poll(&mut sender).unwrap();
        }
        assert_eq!((control.refused(), control.stats().reports), (bad.len() as u64, 1));
    }

    #[test]
    fn a_receiver_that_does_not_answer_is_named() {
        // Port bound, nobody reads.
        let receiver = UdpSocket::bind("127.0.0.1:0").unwrap();
        let mut sender = sender(receiver.local_addr().unwrap());
        let config = ControlConfig { interval: Nanos(1_000_000), ..ControlConfig::default() };
        let mut control = RateControl::new(&config);
        let deadline = Instant::now() + Duration::from_secs(30);
        while control.phase() != Phase::Blind && Instant::now() < deadline {
            control.poll(&mut sender).unwrap();
            std::thread::sleep(Duration::from_millis(1));
        }
        assert_eq!(control.stats().last, Some(Cause::Silence));
        let said = control.progress().to_string();
        assert!(said.contains("has sent no feedback") && said.contains("hint:"), "{said}");
    }
}
