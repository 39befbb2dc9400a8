//! A TCP test between two hosts: the messages on the control connection, and the client that chooses points and joins the reports of
//! both hosts.

use super::flow::{FlowDirection, MAX_FLOWS, TcpRunOptions, TestAmount};
use super::reader::ReaderHabit;
use super::report::{FlowReport, TcpPrediction, TcpReport};
use super::verdict::ask_receiver;
use super::{TcpFlow, TcpRun};
use crate::probe::{TestDirection, stop_waiting};
use serde::{Deserialize, Serialize};
use skyhaul::peer::{Connection, PeerError, Token, Waiting, connect_any};
use skyhaul_io::quantity::{Rate, Size};
use skyhaul_io::tcp::bulk::{Put, Take};
use skyhaul_io::tcp::setup::Setup;
use std::io;
use std::io::Write as _;
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

const LONGEST_BLOCK: u64 = 64 << 20;
/// Longest measurement.
const LONGEST: f64 = 7.0 * 86_400.0;
/// CPUs in a list.
const CPUS: usize = 1024;
/// After the end, receivers read on until nothing came for so long.
const QUIET: Duration = Duration::from_millis(60);

/// One measurement.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TcpPoint {
    /// Which way.
    pub way: TestDirection,
    /// Flows in each direction.
    pub flows: usize,
    /// Bytes of a write and of a read.
    pub block: u64,
    /// Send and receive buffer in bytes; none: the kernel tunes both.
    pub window: Option<u64>,
    /// Congestion control; none: the sender's own.
    pub congestion: Option<String>,
    /// Bits per second of each flow, below which the kernel spaces segments; 0: no limit.
    pub pacing: u64,
    /// Largest segment in bytes.
    pub segment: Option<u32>,
    /// Seconds that are counted.
    pub seconds: f64,
    /// Seconds before, which are not.
    pub omit: f64,
    /// Bytes of all flows after which it ends earlier.
    pub bytes: Option<u64>,
    /// Seconds between the beginnings of two flows.
    pub stagger: f64,
    /// Send without copying.
    pub zero_copy: bool,
    /// Receive without copying.
    pub discard: bool,
    /// CPUs of the client's flows, in turn.
    pub cpus_here: Vec<usize>,
    /// CPUs of the server's flows, in turn.
    pub cpus_there: Vec<usize>,
}

impl Default for TcpPoint {
    /// One flow to the server for ten seconds.
    fn default() -> Self {
        Self {
            way: TestDirection::Forward,
            flows: 1,
            block: 1 << 20,
            window: None,
            congestion: None,
            pacing: 0,
            segment: None,
            seconds: 10.0,
            omit: 0.0,
            bytes: None,
            stagger: 0.0,
            zero_copy: false,
            discard: false,
            cpus_here: Vec::new(),
            cpus_there: Vec::new(),
        }
    }
}

/// What a client asks for, before its turn.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct TcpRequest {
    /// Seconds that all points take, about.
    pub seconds: f64,
    /// Highest rate of all flows together, in bits per second; none: unlimited.
    pub rate: Option<f64>,
}

/// What a client says.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum TcpCommand {
    /// Measure this.
    Point(Box<TcpPoint>),
    /// The client has ended; send the report.
    Stop,
    /// Nothing more is to be measured.
    End,
}

/// What a server says.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum TcpReply {
    /// Connect the flows here; each begins with the cookie.
    Open {
        /// TCP port.
        port: u16,
        /// 32 characters.
        cookie: String,
    },
    /// All flows are there.
    Ready,
    /// What the server saw.
    Report(Box<TcpReport>),
    /// It cannot be measured.
    Failed {
        /// The reason.
        why: String,
    },
}

impl TcpPoint {
    /// Whether it can be measured.
    ///
    /// # Errors
    /// A value is outside its limits, in a sentence for the user.
    pub fn check(&self) -> Result<(), String> {
        let time = |seconds: f64| (0.0..=LONGEST).contains(&seconds);
        if !(1..=MAX_FLOWS).contains(&self.flows) {
            return Err(format!("{} flows: expected 1 to {MAX_FLOWS}", self.flows));
        }
        if !(1..=LONGEST_BLOCK).contains(&self.block) {
            return Err(format!("writes of {} bytes: expected 1 byte to 64 MiB", self.block));
        }
        if !(time(self.seconds) && time(self.omit) && time(self.stagger)) || self.seconds <= 0.0 {
            return Err("the time must be above 0 s and at most a week".to_owned());
        }
        if self.cpus_here.len().max(self.cpus_there.len()) > CPUS {
            return Err(format!("at most {CPUS} CPUs can be listed"));
        }
        Ok(())
    }

    /// Seconds that it takes.
    #[must_use]
    pub fn takes(&self) -> f64 {
        self.omit + self.seconds + self.stagger * self.flows as f64
    }

    /// Bits per second of all flows, if they are limited.
    #[must_use]
    pub fn rate(&self) -> Option<f64> {
        (self.pacing > 0).then(|| self.pacing as f64 * self.connections() as f64)
    }

    /// Connections, in both directions together.
    #[must_use]
    pub fn connections(&self) -> usize {
        self.flows * if self.way == TestDirection::Both { 2 } else { 1 }
    }

    /// What is set on its sockets.
    #[must_use]
    pub fn setup(&self) -> Setup {
        Setup {
            window: self.window.map(Size::from_bytes),
            congestion: self.congestion.clone(),
            largest_segment: self.segment,
            no_delay: false,
            tos: 0,
            pacing: Rate::from_bits_per_second(self.pacing),
            source: None,
        }
    }

    /// Start one end of it.
    pub(super) fn start(
        &self,
        streams: Vec<TcpStream>,
        client: bool,
        reader: ReaderHabit,
    ) -> io::Result<TcpRun> {
        let sends = |n: usize| match self.way {
            TestDirection::Forward => client,
            TestDirection::Reverse => !client,
            // The client's own come first.
            TestDirection::Both => (n < self.flows) == client,
        };
        let direction = |n| if sends(n) { FlowDirection::Send } else { FlowDirection::Receive };
        let flows = streams.into_iter().enumerate().map(|(n, stream)| TcpFlow::new(stream, direction(n)));
        let time = Duration::from_secs_f64(self.seconds);
        let any_sends = (0..self.connections()).any(sends);
        let options = TcpRunOptions {
            block: Size::from_bytes(self.block),
            put: if self.zero_copy { Put::File } else { Put::Copy },
            take: if self.discard { Take::Drop } else { Take::Copy },
            amount: match self.bytes {
                Some(bytes) => TestAmount::Bytes(bytes),
                // A server that only receives is told when to end.
                None if any_sends || client => TestAmount::Time(time),
                None => TestAmount::Open,
            },
            omit: Duration::from_secs_f64(self.omit),
            stagger: Duration::from_secs_f64(self.stagger),
            cpus: if client { self.cpus_here.clone() } else { self.cpus_there.clone() },
            drain: QUIET,
            reader,
            ..TcpRunOptions::default()
        };
        TcpRun::start(flows.collect(), options)
    }
}

/// Name of the service.
pub const NAME: &str = "tcp";
/// Length of a cookie of flows.
pub(super) const COOKIE_BYTES: usize = 32;
/// Flows that [`TcpClient::look_for_holes`] measures, at most.
const HOLE_FLOWS: usize = 4;

/// Time to connect, and for short answers.
const RESPONSE_TIMEOUT: Duration = Duration::from_secs(10);
/// For the server's report, which waits until nothing is under way: in all, and without any byte of it. It is measured already, so
/// more patience than for an answer costs nothing.
const REPORT_TIMEOUT: Duration = Duration::from_secs(60);
const REPORT_SILENCE: Duration = Duration::from_secs(20);
/// The same in retransmissions.
const REPORT_RETRANSMISSIONS: u32 = 12;
/// How often a measurement looks whether to end.
const POLL_INTERVAL: Duration = Duration::from_millis(10);

/// A point as both ends measured it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct TcpPointReport {
    /// What was measured.
    pub point: TcpPoint,
    /// This end.
    pub here: TcpReport,
    /// The other; empty if it is [`missing`](Self::missing).
    #[serde(default, skip_serializing_if = "TcpReport::is_empty")]
    pub there: TcpReport,
    /// Why the server's report is missing, where it never came.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub missing: Option<String>,
    /// What theory allows each flow, in the order of the flows, as the sending end saw it.
    pub expected: Vec<Option<TcpPrediction>>,
}

impl TcpPointReport {
    /// The sending and the receiving end of each flow; an end whose report is missing is `None`.
    pub fn flows(&self) -> impl Iterator<Item = (Option<&FlowReport>, Option<&FlowReport>)> {
        let theirs = self.there.flows.iter().map(Some).chain(std::iter::repeat(None));
        self.here.flows.iter().zip(theirs).map(|(here, there)| match here.direction {
            FlowDirection::Send => (Some(here), there),
            FlowDirection::Receive => (there, Some(here)),
        })
    }
}

/// A client at work.
#[derive(Debug)]
pub struct TcpClient {
    connection: Connection,
}

impl TcpClient {
    /// Connect to a server, at the first of its addresses that answers, and waits for a turn (`wait` receives the place in the queue, and returns whether to keep waiting).
    ///
    /// # Errors
    /// The server cannot be reached or refuses, or `wait` did not want to wait.
    pub fn open(
        to: &[SocketAddr],
        token: &Token,
        points: &[TcpPoint],
        wait: &mut dyn FnMut(Waiting) -> bool,
    ) -> Result<Self, PeerError> {
        let mut connection = connect_any(to, token, RESPONSE_TIMEOUT)?;
        // What a diagnosis measures besides is short.
        let more = HOLE_FLOWS as f64 * 2.0;
        let seconds = points.iter().map(|point| point.takes() + 1.0).sum::<f64>() + more;
        let rates: Option<Vec<f64>> = points.iter().map(TcpPoint::rate).collect();
        let rate = rates.map(|rates| rates.into_iter().fold(0.0, f64::max));
        connection.ask(NAME, &TcpRequest { seconds, rate }, wait)?;
        Ok(Self { connection })
    }

    /// The server, at the address that answered.
    #[must_use]
    pub fn server(&self) -> SocketAddr {
        self.connection.peer()
    }

    /// Measure a point; once `stop` is set, it ends early with what was measured until then.
    ///
    /// # Errors
    /// The server is gone, refuses it, or a socket failed.
    pub fn point(&mut self, point: &TcpPoint, stop: &AtomicBool) -> Result<TcpPointReport, PeerError> {
        match self.measure(point, stop, &mut |_, _| {})? {
            (report, None) => Ok(report),
            (_, Some(error)) => Err(error),
        }
    }

    /// The same; `live` receives, many times a second, how long the point has been measured, and how many bytes this end has sent and received.
    /// If the server's report never comes, the one of this end is returned, which names the reason
    /// ([`TcpPointReport::missing`]); then this client cannot measure more.
    ///
    /// # Errors
    /// As [`point`](Self::point), before the point is measured.
    pub fn point_live(
        &mut self,
        point: &TcpPoint,
        stop: &AtomicBool,
        live: &mut dyn FnMut(Duration, (u64, u64)),
    ) -> Result<TcpPointReport, PeerError> {
        let (report, error) = self.measure(point, stop, live)?;
        let missing = error.map(|error| match error {
            PeerError::Stopped => "interrupted".to_owned(),
            error => error.to_string(),
        });
        Ok(TcpPointReport { missing, ..report })
    }

    /// A point, and why the server's report is missing, if it is.
    fn measure(
        &mut self,
        point: &TcpPoint,
        stop: &AtomicBool,
        live: &mut dyn FnMut(Duration, (u64, u64)),
    ) -> Result<(TcpPointReport, Option<PeerError>), PeerError> {
        self.connection.send(&TcpCommand::Point(Box::new(point.clone())))?;
        let (port, cookie) = match self.answer(stop)? {
            TcpReply::Open { port, cookie } if cookie.len() == COOKIE_BYTES => (port, cookie),
            other => return Err(self.refused(other)),
        };
        let to = SocketAddr::new(self.connection.peer().ip(), port);
        let streams = (0..point.connections()).map(|_| flow(point, to, &cookie));
        let streams = streams.collect::<Result<Vec<_>, _>>()?;
        match self.answer(stop)? {
            TcpReply::Ready => {}
            other => return Err(self.refused(other)),
        }
        let run = point.start(streams, true, ReaderHabit::Quick)?;
        while !run.is_done() && !stop.load(Relaxed) {
            std::thread::sleep(POLL_INTERVAL);
            live(run.elapsed(), run.moved());
            if self.connection.is_gone() {
                break;
            }
        }
        if stop.load(Relaxed) {
            run.stop();
        }
        // Flows that only receive end with those of the server, which it tells to stop.
        let (there, error) = match self.far_report(stop) {
            Ok(report) => (report, None),
            Err(error) => (TcpReport::default(), Some(error)),
        };
        run.stop();
        let here = run.finish();
        let mut report =
            TcpPointReport { point: point.clone(), here, there, missing: None, expected: Vec::new() };
        for (here, there) in report.here.flows.iter_mut().zip(&mut report.there.flows) {
            match here.direction {
                FlowDirection::Send => ask_receiver(here, there),
                FlowDirection::Receive => ask_receiver(there, here),
            }
        }
        report.expected = report.flows().map(|(sender, _)| TcpPrediction::of(sender?, None)).collect();
        Ok((report, error))
    }

    /// The server's next short answer.
    fn answer(&mut self, stop: &AtomicBool) -> Result<TcpReply, PeerError> {
        self.connection.receive_slowly(
            RESPONSE_TIMEOUT,
            RESPONSE_TIMEOUT,
            &stop_waiting(stop, Duration::ZERO),
        )
    }

    /// End the point at the server, and receive its report.
    fn far_report(&mut self, stop: &AtomicBool) -> Result<TcpReport, PeerError> {
        self.connection.send(&TcpCommand::Stop)?;
        let again = self.connection.retransmit_interval();
        let silence = REPORT_SILENCE.max(again * REPORT_RETRANSMISSIONS);
        let stopped = stop_waiting(stop, again * 2);
        match self.connection.receive_slowly(silence, REPORT_TIMEOUT.max(silence), &stopped)? {
            TcpReply::Report(report) => Ok(*report),
            other => Err(self.refused(other)),
        }
    }

    /// Tell the server that nothing more is to be measured.
    ///
    /// # Errors
    /// It is gone.
    pub fn end(mut self) -> Result<(), PeerError> {
        self.connection.send(&TcpCommand::End)
    }

    fn refused(&self, reply: TcpReply) -> PeerError {
        match reply {
            TcpReply::Failed { why } => PeerError::Refused { peer: self.connection.peer(), why },
            _ => self.connection.unexpected("another reply"),
        }
    }
}

fn flow(point: &TcpPoint, to: SocketAddr, cookie: &str) -> Result<TcpStream, PeerError> {
    let mut stream = point.setup().connect(to, RESPONSE_TIMEOUT)?;
    stream.write_all(cookie.as_bytes())?;
    Ok(stream)
}
