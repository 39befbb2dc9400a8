//! The client of a UDP test: it chooses the points, and joins the reports of both hosts.
//!
//! One-way delays compare the times of two clocks, by what was exchanged beside the data.

use super::end::{Pinger, TestSockets};
use super::losses::way;
use super::point::{
    ClockReport, EndReport, OneWayDelay, ReceivedReport, UdpDirectionReport, UdpPoint, UdpPointReport,
};
use super::protocol::{HostSummary, UdpCommand, UdpReply, UdpRequest, UdpSession, unpack};
use super::receiver::{Exchange, keep};
use super::service::NAME;
use crate::probe::{STOPPED_TIMEOUT, TestDirection, stop_waiting};
use skyhaul::auth::unhex;
use skyhaul::peer::{Connection, PeerError, Token, Waiting, connect_any};
use skyhaul_core::measure::clock;
use skyhaul_core::measure::clock::ClockFit;
use skyhaul_core::placement::Nanos;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Time to connect, and for short answers.
const RESPONSE_TIMEOUT: Duration = Duration::from_secs(10);
/// For a report that keeps coming, at the most.
const REPORT_TIMEOUT: Duration = Duration::from_secs(90);
/// Exchanges of times before the first point and behind the last.
const PING_COUNT: usize = 20;
/// Time between two of them.
const PING_INTERVAL: Duration = Duration::from_millis(2);

/// What a test takes.
#[derive(Clone, Copy, Debug)]
pub struct UdpClientOptions {
    /// Flows: pairs of ports.
    pub flows: u16,
    /// Seconds that it takes, about; the server tells others so.
    pub seconds: f64,
    /// Highest rate of all flows together, payload bits per second; none: unlimited.
    pub rate: Option<f64>,
    /// Let the kernel join packets that arrive together.
    pub join: bool,
    /// Packets of a point to report one by one.
    pub samples: u32,
    /// Time without arrival after which nothing more is awaited at the end of a point.
    pub settle: Duration,
}

impl Default for UdpClientOptions {
    /// One flow, every packet by itself, 256 samples, 20 ms.
    fn default() -> Self {
        let settle = Duration::from_millis(20);
        Self { flows: 1, seconds: 10.0, rate: None, join: false, samples: 256, settle }
    }
}

/// A client at work.
#[derive(Debug)]
pub struct UdpClient {
    connection: Connection,
    end: TestSockets,
    options: UdpClientOptions,
    begun: Instant,
    runs: u32,
    exchanges: Vec<Exchange>,
    /// This host.
    pub here: HostSummary,
    /// The server.
    pub there: HostSummary,
}

impl UdpClient {
    /// Connect to a server, at the first of its addresses that answers, wait for a turn (`wait` receives the place in the queue, and returns whether to keep waiting), and meet it
    /// on UDP.
    ///
    /// # Errors
    /// The server cannot be reached or refuses, UDP does not pass, or `wait` did not want to wait.
    pub fn open(
        to: &[SocketAddr],
        token: &Token,
        options: UdpClientOptions,
        wait: &mut dyn FnMut(Waiting) -> bool,
    ) -> Result<Self, PeerError> {
        let mut connection = connect_any(to, token, RESPONSE_TIMEOUT)?;
        let UdpClientOptions { flows, seconds, rate, join, .. } = options;
        connection.ask(NAME, &UdpRequest { flows, seconds, rate, join }, wait)?;
        let opened: UdpSession = connection.receive(RESPONSE_TIMEOUT)?;
        let cookie = unhex(&opened.cookie).ok_or_else(|| connection.unexpected("an invalid cookie"))?;
        let (from, server) = (connection.local().ip(), connection.peer().ip());
        let (end, here) = TestSockets::reach(from, server, &opened.ports, opened.test, cookie, join)?;
        let mut client = Self {
            connection,
            end,
            options,
            begun: Instant::now(),
            runs: 0,
            exchanges: Vec::new(),
            here,
            there: opened.host,
        };
        client.exchange_times();
        Ok(client)
    }

    /// The server, at the address that answered.
    #[must_use]
    pub fn server(&self) -> SocketAddr {
        self.connection.peer()
    }

    /// Compare clocks while nothing else is sent.
    pub fn exchange_times(&mut self) {
        for _ in 0..PING_COUNT {
            self.end.pings().ping();
            std::thread::sleep(PING_INTERVAL);
        }
        keep(&mut self.exchanges, self.end.exchanges());
    }

    /// All exchanges of times so far.
    pub(super) fn exchanges(&self) -> &[Exchange] {
        &self.exchanges
    }

    /// Shortest round trip so far.
    #[must_use]
    pub fn round_trip(&self) -> Option<Duration> {
        let trip = |e: &Exchange| e.here.checked_sub(e.sent)?.checked_sub(e.back.checked_sub(e.came)?);
        self.exchanges.iter().filter_map(trip).min().map(Duration::from_nanos)
    }

    /// Measure a point; once `stop` is set, it ends early with what was measured until then.
    ///
    /// # Errors
    /// The server is gone, refuses it, or a socket failed.
    pub fn point(
        &mut self,
        point: &UdpPoint,
        direction: TestDirection,
        stop: &AtomicBool,
    ) -> Result<UdpPointReport, PeerError> {
        self.point_live(point, direction, stop, &mut |_, _| {})
    }

    /// The same; `live` receives, many times a second, how long the point has been measured, and how many packets this end sent so far,
    /// or received, where it only receives.
    ///
    /// # Errors
    /// As [`point`](Self::point).
    pub fn point_live(
        &mut self,
        point: &UdpPoint,
        direction: TestDirection,
        stop: &AtomicBool,
        live: &mut dyn FnMut(Duration, u64),
    ) -> Result<UdpPointReport, PeerError> {
        point
            .check()
            .map_err(|why| PeerError::Io(std::io::Error::new(std::io::ErrorKind::InvalidInput, why)))?;
        self.runs += 1;
        let (run, at_seconds) = (self.runs, self.begun.elapsed().as_secs_f64());
        let settle = self.settle();
        let receives = direction.reverse() || point.ask;
        let before = self.end.begin(run, point, receives, self.options.samples as usize);
        self.announce(run, point, direction, stop)?;
        let mut sent = Vec::new();
        let begun = Instant::now();
        if direction.forward() {
            let going = |pings: &mut Pinger<'_>, count: u64| {
                pings.ping();
                live(begun.elapsed(), count);
                !stop.load(Ordering::Relaxed)
            };
            sent = self.end.send(run, point, &mut { going })?;
            let packets = sent.iter().map(|sent| sent.packets).collect();
            self.connection.send(&UdpCommand::Sent { run, packets })?;
        }
        let mut received = Vec::new();
        let mut trips = None;
        if point.ask && direction == TestDirection::Forward {
            let packets: Vec<u64> = sent.iter().map(|sent| sent.packets).collect();
            trips = self.end.finish(&packets, settle).into_iter().next();
        }
        if direction.reverse() {
            let packets = self.await_sent(run, point, stop, &mut |came| live(begun.elapsed(), came))?;
            received = self.end.finish(&packets, settle);
        }
        let server = self.await_report(run, settle, stop)?;
        if let Some(why) = self.end.error() {
            return Err(PeerError::Io(std::io::Error::other(why)));
        }
        keep(&mut self.exchanges, self.end.exchanges());
        let client = self.end.report(&before, sent, received);
        let ipv6 = self.is_ipv6();
        let forward = direction.forward().then(|| way(point, ipv6, self.is_one_host(), &client, &server));
        let round_trip_ns = trips.map(|trips| trips.transit_ns);
        let reverse = direction.reverse().then(|| way(point, ipv6, self.is_one_host(), &server, &client));
        Ok(UdpPointReport {
            point: *point,
            direction,
            mode: point.mode,
            flows: point.flows(self.end.flows()),
            at_seconds,
            forward: forward.map(|way| UdpDirectionReport { round_trip_ns, ..way }),
            reverse,
            client,
            server,
        })
    }

    /// Tells the server which point follows, and waits until it is ready for it.
    fn announce(
        &mut self,
        run: u32,
        point: &UdpPoint,
        direction: TestDirection,
        stop: &AtomicBool,
    ) -> Result<(), PeerError> {
        let settle_ms = u32::try_from(self.settle().as_millis()).unwrap_or(u32::MAX);
        self.connection.send(&UdpCommand::Point {
            run,
            point: *point,
            direction,
            samples: self.options.samples,
            settle_ms,
            packed: true,
        })?;
        let stopped = stop_waiting(stop, Duration::ZERO);
        let reply = self.connection.receive_slowly(RESPONSE_TIMEOUT, RESPONSE_TIMEOUT, &stopped)?;
        self.wanted(reply, |reply| matches!(reply, UdpReply::Ready { run: theirs } if *theirs == run))?;
        Ok(())
    }

    /// Nothing more.
    ///
    /// # Errors
    /// The server is gone.
    pub fn end(mut self) -> Result<(), PeerError> {
        self.connection.send(&UdpCommand::End)
    }

    /// Flows of the test.
    pub(super) fn flows(&self) -> u16 {
        self.end.flows()
    }

    /// Whether the path is one of IPv6.
    pub(super) fn is_ipv6(&self) -> bool {
        self.end.local().is_some_and(|local| local.is_ipv6())
    }

    /// Both ends have one set of counters.
    pub(super) fn is_one_host(&self) -> bool {
        self.connection.peer().ip() == self.connection.local().ip()
    }

    /// A round trip is needed for the last packets, whatever was chosen.
    fn settle(&self) -> Duration {
        self.options.settle + self.round_trip().unwrap_or_default()
    }

    /// What the server did, with the packets that it kept.
    fn await_report(
        &mut self,
        run: u32,
        settle: Duration,
        stop: &AtomicBool,
    ) -> Result<EndReport, PeerError> {
        let (silence, stopped) = (RESPONSE_TIMEOUT + settle * 2, stop_waiting(stop, settle * 2));
        let reply = self.connection.receive_slowly(silence, REPORT_TIMEOUT, &stopped)?;
        match self
            .wanted(reply, |reply| matches!(reply, UdpReply::Report { run: theirs, .. } if *theirs == run))?
        {
            UdpReply::Report { mut report, packed, .. } => {
                for (received, text) in report.received.iter_mut().zip(&packed) {
                    let samples = unpack(text);
                    received.samples =
                        samples.ok_or_else(|| self.connection.unexpected("invalid samples"))?;
                }
                Ok(*report)
            }
            _ => Ok(EndReport::default()),
        }
    }

    /// A reply, which must be as `wanted`.
    fn wanted(&self, reply: UdpReply, wanted: impl Fn(&UdpReply) -> bool) -> Result<UdpReply, PeerError> {
        match reply {
            UdpReply::Failed { why } => Err(PeerError::Refused { peer: self.connection.peer(), why }),
            reply if wanted(&reply) => Ok(reply),
            other => {
                Err(self.connection.unexpected(&format!("{other:?}").chars().take(100).collect::<String>()))
            }
        }
    }

    /// Exchange times while the server sends, until it says how much it sent.
    fn await_sent(
        &mut self,
        run: u32,
        point: &UdpPoint,
        stop: &AtomicBool,
        live: &mut dyn FnMut(u64),
    ) -> Result<Vec<u64>, PeerError> {
        let end = Instant::now() + point.takes() * 2 + RESPONSE_TIMEOUT;
        let mut stopped: Option<Instant> = None;
        let is_over = |stopped: Option<Instant>| stopped.is_some_and(|at| at.elapsed() >= STOPPED_TIMEOUT);
        while Instant::now() < end && !is_over(stopped) {
            match self.connection.receive(super::end::TICK) {
                Ok(UdpReply::Sent { run: theirs, packets }) if theirs == run => return Ok(packets),
                Ok(UdpReply::Failed { why }) => {
                    return Err(PeerError::Refused { peer: self.connection.peer(), why });
                }
                Ok(_) => return Err(self.connection.unexpected("an answer to another point")),
                Err(error) if error.is_late() => {
                    self.end.pings().ping();
                    live(self.end.came());
                }
                Err(error) => return Err(error),
            }
            if stopped.is_none() && stop.load(Ordering::Relaxed) {
                stopped = Some(Instant::now());
                self.connection.send(&UdpCommand::Stop)?;
            }
        }
        Err(PeerError::Stopped)
    }
}

pub(super) fn fit(exchanges: &[Exchange]) -> Option<ClockFit> {
    let of = |e: &Exchange| clock::Exchange {
        sent: Nanos(e.sent),
        received: Nanos(e.came),
        replied: Nanos(e.back),
        returned: Nanos(e.here),
    };
    ClockFit::new(&exchanges.iter().map(of).collect::<Vec<_>>())
}

/// Delays of the sampled packets, in order of size. `forward`: the other clock is the receiver's.
fn delays(fit: &ClockFit, received: &ReceivedReport, forward: bool) -> Option<OneWayDelay> {
    let mut error = 0;
    let mut all: Vec<i64> = Vec::with_capacity(received.samples.len());
    for &(_, sent, under_way) in &received.samples {
        let sent = received.base_ns.wrapping_add_signed(sent);
        // The client's clock is the one that the offset is counted by.
        let here = if forward { sent } else { sent.wrapping_add_signed(under_way) };
        let offset = fit.offset(Nanos(here));
        error = error.max(offset.error);
        all.push(if forward {
            under_way.saturating_sub(offset.nanos)
        } else {
            under_way.saturating_add(offset.nanos)
        });
    }
    all.sort_unstable();
    let at = |q: f64| all.get(((all.len().checked_sub(1)?) as f64 * q).round() as usize).map(|&ns| ns as f64);
    Some(OneWayDelay {
        least: at(0.0)?,
        median: at(0.5)?,
        p99: at(0.99)?,
        most: at(1.0)?,
        error: error as f64,
    })
}

impl UdpClient {
    /// Complete points that were measured with their one-way delays, by all exchanges of times so far: call it behind the last.
    pub fn compare_clocks(&self, points: &mut [UdpPointReport]) -> Option<ClockReport> {
        let exchanges = self.exchanges();
        let fit = fit(exchanges)?;
        for report in points {
            let first = |received: &[ReceivedReport], forward| {
                received.first().and_then(|one| delays(&fit, one, forward))
            };
            if let Some(way) = &mut report.forward {
                way.delay_ns = first(&report.server.received, true);
            }
            if let Some(way) = &mut report.reverse {
                way.delay_ns = first(&report.client.received, false);
            }
        }
        let last = exchanges.last().map_or(0, |e| e.here);
        let offset = fit.offset(Nanos(last));
        Some(ClockReport {
            exchanges: exchanges.len() as u64,
            offset_ns: offset.nanos,
            error_ns: offset.error,
            drift_ppm: fit.drift_ppm(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn delays_of_both_ways_are_true_within_their_error() {
        // The other clock is 7 s ahead and gains 30 ppm; 2 ms there, 3 ms back, sometimes more.
        let other = |t: u64| t + 7_000_000_000 + t * 3 / 100_000;
        let here = |t: u64| ((t - 7_000_000_000) as f64 / 1.00003).round() as u64;
        let base = 1_000_000_000_000u64;
        let exchanges: Vec<Exchange> = (0..400u64)
            .map(|n| {
                let (sent, queue) = (base + n * 10_000_000, n % 7 * 100_000);
                let came = sent + 2_000_000 + queue;
                Exchange { sent, came: other(came), back: other(came + 1000), here: came + 3_001_000 }
            })
            .collect();
        let fit = fit(&exchanges).unwrap();
        let mut received = ReceivedReport { base_ns: base, ..ReceivedReport::default() };
        received.samples = (0..100).map(|n| (n, n as i64 * 1_000_000, 0)).collect();
        for sample in &mut received.samples {
            let sent = base + sample.1 as u64;
            sample.2 = other(sent + 2_400_000) as i64 - sent as i64;
        }
        let delay = delays(&fit, &received, true).unwrap();
        assert!((delay.median - 2.4e6).abs() <= delay.error, "{delay:?}");
        assert!(delay.error < 2_600_000.0 && delay.most - delay.least < 1000.0, "{delay:?}");
        received.base_ns = other(base);
        for sample in &mut received.samples {
            let sent = other(base) + sample.1 as u64;
            sample.2 = here(sent) as i64 + 3_300_000 - sent as i64;
        }
        let delay = delays(&fit, &received, false).unwrap();
        assert!((delay.median - 3.3e6).abs() <= delay.error, "{delay:?}");
        assert_eq!(delays(&fit, &ReceivedReport::default(), true), None);
    }
}
