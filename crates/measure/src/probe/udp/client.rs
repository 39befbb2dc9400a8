//! The client's end of UDP tests: it says what is measured, and puts both ends' reports together.

use super::account::way;
use super::end::{End, Pings};
use super::message::{HostNote, Opened, Order, Reply, Request};
use super::packed;
use super::plan::{Direction, Point};
use super::receiving::{Exchange, keep};
use super::report::{EndReport, PointReport, Way};
use super::service::NAME;
use skyhaul::peer::{Connection, PeerError, Token, Waiting, connect_any, unhex};
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Time to connect, and for short answers.
const SOON: Duration = Duration::from_secs(10);
/// For a report that keeps coming, at the most.
const REPORT: Duration = Duration::from_secs(90);
/// Exchanges of times before the first point and behind the last.
const PINGS: usize = 20;
/// Time between two of them.
const BETWEEN: Duration = Duration::from_millis(2);

/// What a test takes.
#[derive(Clone, Copy, Debug)]
pub struct ClientOptions {
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

impl Default for ClientOptions {
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
    end: End,
    options: ClientOptions,
    begun: Instant,
    runs: u32,
    exchanges: Vec<Exchange>,
    /// This host.
    pub here: HostNote,
    /// The server.
    pub there: HostNote,
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
        options: ClientOptions,
        wait: &mut dyn FnMut(Waiting) -> bool,
    ) -> Result<Self, PeerError> {
        let mut connection = connect_any(to, token, SOON)?;
        let ClientOptions { flows, seconds, rate, join, .. } = options;
        connection.ask(NAME, &Request { flows, seconds, rate, join }, wait)?;
        let opened: Opened = connection.receive(SOON)?;
        let cookie = unhex(&opened.cookie).ok_or_else(|| connection.unexpected("a cookie that is none"))?;
        let (from, server) = (connection.local().ip(), connection.peer().ip());
        let (end, here) = End::reach(from, server, &opened.ports, opened.test, cookie, join)?;
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
        for _ in 0..PINGS {
            self.end.pings().ping();
            std::thread::sleep(BETWEEN);
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
        point: &Point,
        direction: Direction,
        stop: &AtomicBool,
    ) -> Result<PointReport, PeerError> {
        self.point_live(point, direction, stop, &mut |_, _| {})
    }

    /// The same; `live` is told many times a second for how long the point has been measured, and how many packets this end sent so far,
    /// or received, where it only receives.
    ///
    /// # Errors
    /// As [`point`](Self::point).
    pub fn point_live(
        &mut self,
        point: &Point,
        direction: Direction,
        stop: &AtomicBool,
        live: &mut dyn FnMut(Duration, u64),
    ) -> Result<PointReport, PeerError> {
        point
            .check()
            .map_err(|why| PeerError::Io(std::io::Error::new(std::io::ErrorKind::InvalidInput, why)))?;
        self.runs += 1;
        let (run, at_seconds) = (self.runs, self.begun.elapsed().as_secs_f64());
        let (samples, settle) = (self.options.samples, self.settle());
        let receives = direction.reverse() || point.ask;
        let before = self.end.begin(run, point, receives, samples as usize);
        let settle_ms = u32::try_from(settle.as_millis()).unwrap_or(u32::MAX);
        self.connection.send(&Order::Point {
            run,
            point: *point,
            direction,
            samples,
            settle_ms,
            packed: true,
        })?;
        self.answer(SOON, |reply| matches!(reply, Reply::Ready { run: theirs } if *theirs == run))?;
        let mut sent = Vec::new();
        let begun = Instant::now();
        if direction.forward() {
            let going = |pings: &mut Pings<'_>, count: u64| {
                pings.ping();
                live(begun.elapsed(), count);
                !stop.load(Ordering::Relaxed)
            };
            sent = self.end.send(run, point, &mut { going })?;
            let packets = sent.iter().map(|sent| sent.packets).collect();
            self.connection.send(&Order::Sent { run, packets })?;
        }
        let mut received = Vec::new();
        let mut trips = None;
        if point.ask && direction == Direction::Forward {
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
        Ok(PointReport {
            point: *point,
            direction,
            mode: point.mode,
            flows: point.flows(self.end.flows()),
            at_seconds,
            forward: forward.map(|way| Way { round_trip_ns, ..way }),
            reverse,
            client,
            server,
        })
    }

    /// Nothing more.
    ///
    /// # Errors
    /// The server is gone.
    pub fn end(mut self) -> Result<(), PeerError> {
        self.connection.send(&Order::End)
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
        let reply = self.connection.receive_slowly(SOON + settle * 2, REPORT)?;
        match self
            .wanted(reply, |reply| matches!(reply, Reply::Report { run: theirs, .. } if *theirs == run))?
        {
            Reply::Report { mut report, packed, .. } => {
                for (received, text) in report.received.iter_mut().zip(&packed) {
                    let samples = packed::unpack(text);
                    received.samples =
                        samples.ok_or_else(|| self.connection.unexpected("samples that are none"))?;
                }
                Ok(*report)
            }
            _ => Ok(EndReport::default()),
        }
    }

    /// The server's next answer, which must be as `wanted`.
    fn answer(&mut self, within: Duration, wanted: impl Fn(&Reply) -> bool) -> Result<Reply, PeerError> {
        let reply = self.connection.receive(within)?;
        self.wanted(reply, wanted)
    }

    fn wanted(&self, reply: Reply, wanted: impl Fn(&Reply) -> bool) -> Result<Reply, PeerError> {
        match reply {
            Reply::Failed { why } => Err(PeerError::Refused { peer: self.connection.peer(), why }),
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
        point: &Point,
        stop: &AtomicBool,
        live: &mut dyn FnMut(u64),
    ) -> Result<Vec<u64>, PeerError> {
        let end = Instant::now() + point.takes() * 2 + SOON;
        let mut stopped = false;
        while Instant::now() < end {
            match self.connection.receive(super::end::TICK) {
                Ok(Reply::Sent { run: theirs, packets }) if theirs == run => return Ok(packets),
                Ok(Reply::Failed { why }) => {
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
                self.connection.send(&Order::Stop)?;
            }
        }
        Err(PeerError::Stopped)
    }
}
