//! The client's end of measurements with TCP: it says what is measured, and puts both ends' reports together.

use super::expected::Expected;
use super::flow::Direction;
use super::point::{Order, Reply, Request, TcpPoint};
use super::report::TcpReport;
use super::service::{COOKIE, NAME};
use serde::{Deserialize, Serialize};
use skyhaul::peer::{Connection, PeerError, Token, Waiting, connect_any};
use std::io::Write as _;
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

/// Flows that [`TcpClient::look_for_holes`] measures, at most.
const HOLE_FLOWS: usize = 4;

/// Time to connect, and for short answers.
const SOON: Duration = Duration::from_secs(10);
/// For the server's report, which waits until nothing is under way.
const REPORT: Duration = Duration::from_secs(60);
/// How often a measurement looks whether to end.
const LOOK: Duration = Duration::from_millis(10);

/// A point as both ends measured it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct PointReport {
    /// What was measured.
    pub point: TcpPoint,
    /// This end.
    pub here: TcpReport,
    /// The other.
    pub there: TcpReport,
    /// What theory allows each flow, in the order of the flows, as the sending end saw it.
    pub expected: Vec<Option<Expected>>,
}

/// A client at work.
#[derive(Debug)]
pub struct TcpClient {
    connection: Connection,
}

impl TcpClient {
    /// Connect to a server, at the first of its addresses that answers, and wait for a turn (`wait` is told the place in the line, and returns whether to go on).
    ///
    /// # Errors
    /// The server cannot be reached or refuses, or `wait` did not want to wait.
    pub fn open(
        to: &[SocketAddr],
        token: &Token,
        points: &[TcpPoint],
        wait: &mut dyn FnMut(Waiting) -> bool,
    ) -> Result<Self, PeerError> {
        let mut connection = connect_any(to, token, SOON)?;
        // What a diagnosis measures besides is short.
        let more = HOLE_FLOWS as f64 * 2.0;
        let seconds = points.iter().map(|point| point.takes() + 1.0).sum::<f64>() + more;
        let rates: Option<Vec<f64>> = points.iter().map(TcpPoint::rate).collect();
        let rate = rates.map(|rates| rates.into_iter().fold(0.0, f64::max));
        connection.ask(NAME, &Request { seconds, rate }, wait)?;
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
    pub fn point(&mut self, point: &TcpPoint, stop: &AtomicBool) -> Result<PointReport, PeerError> {
        self.point_live(point, stop, &mut |_, _| {})
    }

    /// The same; `live` is told many times a second for how long it has been measured, and how many bytes this end has sent and received.
    ///
    /// # Errors
    /// As [`point`](Self::point).
    pub fn point_live(
        &mut self,
        point: &TcpPoint,
        stop: &AtomicBool,
        live: &mut dyn FnMut(Duration, (u64, u64)),
    ) -> Result<PointReport, PeerError> {
        self.connection.send(&Order::Point(Box::new(point.clone())))?;
        let (port, cookie) = match self.connection.receive(SOON)? {
            Reply::Open { port, cookie } if cookie.len() == COOKIE => (port, cookie),
            other => return Err(self.refused(other)),
        };
        let to = SocketAddr::new(self.connection.peer().ip(), port);
        let streams = (0..point.connections()).map(|_| flow(point, to, &cookie));
        let streams = streams.collect::<Result<Vec<_>, _>>()?;
        match self.connection.receive(SOON)? {
            Reply::Ready => {}
            other => return Err(self.refused(other)),
        }
        let run = point.start(streams, true)?;
        while !run.is_done() && !stop.load(Relaxed) {
            std::thread::sleep(LOOK);
            live(run.elapsed(), run.moved());
            if self.connection.is_gone() {
                return Err(PeerError::Stopped);
            }
        }
        if stop.load(Relaxed) {
            run.stop();
        }
        // Flows that only receive end with those of the server, which it tells to stop.
        self.connection.send(&Order::Stop)?;
        let there = match self.connection.receive_slowly(SOON, REPORT)? {
            Reply::Report(report) => *report,
            other => return Err(self.refused(other)),
        };
        run.stop();
        let here = run.finish();
        let senders = here.flows.iter().zip(&there.flows).map(|(here, there)| {
            let sender = if here.direction == Direction::Send { here } else { there };
            Expected::of(sender, None)
        });
        let expected = senders.collect();
        Ok(PointReport { point: point.clone(), here, there, expected })
    }

    /// Tell the server that nothing more is to be measured.
    ///
    /// # Errors
    /// It is gone.
    pub fn end(mut self) -> Result<(), PeerError> {
        self.connection.send(&Order::End)
    }

    fn refused(&self, reply: Reply) -> PeerError {
        match reply {
            Reply::Failed { why } => PeerError::Refused { peer: self.connection.peer(), why },
            _ => self.connection.unexpected("another reply"),
        }
    }
}

fn flow(point: &TcpPoint, to: SocketAddr, cookie: &str) -> Result<TcpStream, PeerError> {
    let mut stream = point.setup().connect(to, SOON)?;
    stream.write_all(cookie.as_bytes())?;
    Ok(stream)
}
