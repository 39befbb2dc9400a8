//! A test that is repeated, and running it once.

use super::line::{Kind, Line, Outcome, TcpFlow, UdpWay};
use crate::probe::tcp::{TcpClient, TcpPoint};
use crate::probe::udp::{ClientOptions, Direction, LONGEST, Mode, Point, SHORTEST, UdpClient};
use skyhaul::peer::{PeerError, Token, Waiting};
use skyhaul_core::schedule::Period;
use std::io::ErrorKind;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// What is measured.
#[derive(Clone, Debug, PartialEq)]
pub enum What {
    /// A point of datagrams, which way, and how many flows.
    Udp(Point, Direction, u16),
    /// A measurement with TCP.
    Tcp(TcpPoint),
}

/// A test that is repeated.
#[derive(Clone, Debug, PartialEq)]
pub struct Test {
    /// Its name in lines and metrics.
    pub name: String,
    /// The server, as it was written: it is looked up each time.
    pub server: String,
    /// How often.
    pub period: Period,
    /// What.
    pub what: What,
    /// Datagrams that would be cut into fragments are sent shorter, at the same rate: a lost fragment loses them all.
    pub fit: bool,
}

/// Packets of a test whose delay is told.
const SAMPLES: u32 = 1024;
/// Time without arrival after which nothing more is awaited.
const SETTLE: Duration = Duration::from_millis(100);

impl Test {
    /// What it sends.
    #[must_use]
    pub fn kind(&self) -> Kind {
        match self.what {
            What::Udp(..) => Kind::Udp,
            What::Tcp(_) => Kind::Tcp,
        }
    }

    /// Seconds that it takes, without waiting for anybody.
    #[must_use]
    pub fn takes(&self) -> f64 {
        match &self.what {
            What::Udp(point, ..) => point.takes().as_secs_f64(),
            What::Tcp(point) => point.takes(),
        }
    }

    /// Run it once; what comes of it is put into `line`. A server that lets it wait longer than `patience` has refused it.
    pub(super) fn run(
        &self,
        server: &[SocketAddr],
        token: &Token,
        patience: Duration,
        stop: &AtomicBool,
        line: &mut Line,
    ) {
        let mut gave_up = None;
        let mut wait = |waiting: Waiting| {
            let too_long = waiting.seconds > patience.as_secs_f64();
            gave_up = too_long.then_some(waiting);
            !too_long && !stop.load(Ordering::Relaxed)
        };
        let done = match &self.what {
            What::Udp(point, direction, flows) => self
                .udp(server, token, (point, *direction, *flows), stop, &mut wait)
                .map(|udp| line.udp = udp),
            What::Tcp(point) => tcp(server, token, point, stop, &mut wait).map(|tcp| line.tcp = tcp),
        };
        (line.outcome, line.why) = match done {
            _ if stop.load(Ordering::Relaxed) => (Outcome::Interrupted, None),
            Ok(()) => (Outcome::Done, None),
            Err(PeerError::Stopped) => match gave_up {
                Some(Waiting { seconds, .. }) => {
                    (Outcome::Refused, Some(format!("it is busy with other tests for some {seconds:.1} s")))
                }
                None => (Outcome::Away, Some("the server closed the connection".to_owned())),
            },
            Err(error) => (outcome(&error), Some(error.to_string())),
        };
    }

    fn udp(
        &self,
        server: &[SocketAddr],
        token: &Token,
        (point, direction, flows): (&Point, Direction, u16),
        stop: &AtomicBool,
        wait: &mut dyn FnMut(Waiting) -> bool,
    ) -> Result<Vec<UdpWay>, PeerError> {
        let options = ClientOptions {
            flows,
            seconds: point.takes().as_secs_f64() + 1.0,
            rate: point.rate().map(|rate| rate * f64::from(flows)),
            join: point.mode == Mode::Trains,
            samples: SAMPLES / u32::from(flows.max(1)),
            settle: SETTLE,
        };
        let mut client = UdpClient::open(server, token, options, wait)?;
        let whole = client.here.largest_datagram.min(client.there.largest_datagram);
        let whole = u32::try_from(whole).unwrap_or(LONGEST).max(SHORTEST);
        let point = if self.fit && point.size > whole { point.resized(whole) } else { *point };
        let mut reports = vec![client.point(&point, direction, stop)?];
        client.exchange_times();
        let round_trip = client.round_trip();
        // Where clocks cannot be compared, no delay is told.
        let _ = client.compare_clocks(&mut reports);
        // The server may be gone, which changes nothing of what was measured.
        let _ = client.end();
        Ok(reports.iter().flat_map(|report| UdpWay::of(report, round_trip)).collect())
    }
}

fn tcp(
    server: &[SocketAddr],
    token: &Token,
    point: &TcpPoint,
    stop: &AtomicBool,
    wait: &mut dyn FnMut(Waiting) -> bool,
) -> Result<Vec<TcpFlow>, PeerError> {
    let mut client = TcpClient::open(server, token, std::slice::from_ref(point), wait)?;
    let report = client.point(point, stop)?;
    // As above.
    let _ = client.end();
    Ok(TcpFlow::all(&report))
}

/// Who did not do their part.
fn outcome(error: &PeerError) -> Outcome {
    use ErrorKind::{
        AddrNotAvailable, BrokenPipe, ConnectionAborted, ConnectionRefused, ConnectionReset, HostUnreachable,
        NetworkDown, NetworkUnreachable, NotConnected, TimedOut, UnexpectedEof, WouldBlock,
    };
    match error {
        PeerError::Io(error) => match error.kind() {
            AddrNotAvailable | BrokenPipe | ConnectionAborted | ConnectionRefused | ConnectionReset
            | HostUnreachable | NetworkDown | NetworkUnreachable | NotConnected | TimedOut
            | UnexpectedEof | WouldBlock => Outcome::Away,
            _ => Outcome::Failed,
        },
        PeerError::Late { .. } | PeerError::Closed(_) | PeerError::Stranger(_) | PeerError::Stopped => {
            Outcome::Away
        }
        PeerError::Refused { .. } | PeerError::Token(_) | PeerError::Version { .. } => Outcome::Refused,
        _ => Outcome::Failed,
    }
}
