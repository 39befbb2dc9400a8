//! The client's end of UDP tests: it says what is measured, and puts both ends' reports together.

use super::account::way;
use super::end::{Pinger, TestSockets};
use super::message::{HostSummary, UdpCommand, UdpReply, UdpRequest, UdpSession, unpack};
use super::plan::UdpPoint;
use super::receiving::{Exchange, keep};
use super::report::{EndReport, UdpDirectionReport, UdpPointReport};
use super::service::NAME;
use crate::probe::TestDirection;
use skyhaul::auth::unhex;
use skyhaul::peer::{Connection, PeerError, Token, Waiting, connect_any};
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
    /// Connect to a server, at the first of its addresses that answers, wait for a turn (`wait` is told the place in the line, and returns whether to go on), and meet it
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

    /// The same; `live` is told many times a second for how long the point has been measured, and how many packets this end sent so far,
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
        self.announce(run, point, direction, settle)?;
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
        let server = self.await_report(run, settle)?;
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
        settle: Duration,
    ) -> Result<(), PeerError> {
        let settle_ms = u32::try_from(settle.as_millis()).unwrap_or(u32::MAX);
        self.connection.send(&UdpCommand::Point {
            run,
            point: *point,
            direction,
            samples: self.options.samples,
            settle_ms,
            packed: true,
        })?;
        self.answer(
            RESPONSE_TIMEOUT,
            |reply| matches!(reply, UdpReply::Ready { run: theirs } if *theirs == run),
        )?;
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
    fn await_report(&mut self, run: u32, settle: Duration) -> Result<EndReport, PeerError> {
        let reply = self.connection.receive_slowly(RESPONSE_TIMEOUT + settle * 2, REPORT_TIMEOUT)?;
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

    /// The server's next answer, which must be as `wanted`.
    fn answer(
        &mut self,
        within: Duration,
        wanted: impl Fn(&UdpReply) -> bool,
    ) -> Result<UdpReply, PeerError> {
        let reply = self.connection.receive(within)?;
        self.wanted(reply, wanted)
    }

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
        let mut stopped = false;
        while Instant::now() < end {
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
            if stop.load(Ordering::Relaxed) && !std::mem::replace(&mut stopped, true) {
                self.connection.send(&UdpCommand::Stop)?;
            }
        }
        Err(PeerError::Stopped)
    }
}
