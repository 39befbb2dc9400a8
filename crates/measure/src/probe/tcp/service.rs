//! The server's side of a TCP test: it admits a client, accepts the flows of a point, and reports what this end measured.

use super::flow::FlowDirection;
use super::protocol::{COOKIE_BYTES, NAME, TcpCommand, TcpPoint, TcpReply, TcpRequest};
use super::reader::ReaderHabit;
use serde_json::Value;
use skyhaul::peer::{Admission, Connection, Limits, PeerError, Service, Session};
use skyhaul_core::hint::Hint;
use skyhaul_core::units::display_rate;
use skyhaul_io::tcp::info::readable;
use std::io;
use std::io::Read as _;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::AsFd as _;
use std::time::{Duration, Instant};

/// A client that says nothing for so long is gone, however its connection looks.
const IDLE_TIMEOUT: Duration = Duration::from_secs(30);
/// How often a loop looks whether to end.
const SERVER_POLL_INTERVAL: Duration = Duration::from_millis(100);
/// Time for all flows of a point to be connected, and for one to say its cookie.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(20);
const COOKIE_TIMEOUT: Duration = Duration::from_secs(2);
/// Samples and intervals of all flows that fit a message.
const MAX_SAMPLES: usize = 4000;

/// Measurements of a path with TCP.
#[derive(Clone, Copy, Debug, Default)]
pub struct TcpService {
    /// How its receivers read.
    pub reader: ReaderHabit,
}

fn request(body: &Value) -> Result<TcpRequest, String> {
    serde_json::from_value(body.clone()).map_err(|error| format!("invalid request: {error}"))
}

impl Service for TcpService {
    fn name(&self) -> &'static str {
        NAME
    }

    fn admit(&self, body: &Value, limits: &Limits) -> Result<Admission, String> {
        let request = request(body)?;
        allowed(request.rate, limits)?;
        let seconds = if request.seconds.is_finite() { request.seconds.clamp(1.0, 1e6) } else { 1.0 };
        Ok(Admission::slot(Duration::from_secs_f64(seconds)))
    }

    fn run(&self, session: &mut Session<'_>, body: Value) -> Result<(), PeerError> {
        request(&body).map_err(|why| session.connection.unexpected(&why))?;
        let mut heard = Instant::now();
        while !session.is_over() && heard.elapsed() < IDLE_TIMEOUT {
            match session.connection.receive(SERVER_POLL_INTERVAL) {
                Ok(TcpCommand::Point(point)) => {
                    self.measure(session, &point)?;
                    heard = Instant::now();
                }
                Ok(TcpCommand::End) => return Ok(()),
                // Of a point that failed.
                Ok(TcpCommand::Stop) => {}
                Err(error) if error.is_late() => {}
                Err(error) => return Err(error),
            }
        }
        Err(PeerError::Stopped)
    }
}

impl TcpService {
    fn measure(&self, session: &mut Session<'_>, point: &TcpPoint) -> Result<(), PeerError> {
        let failed = |connection: &mut Connection, why: String| connection.send(&TcpReply::Failed { why });
        let permitted = point.check().and_then(|()| allowed(point.rate(), &session.limits));
        if let Err(why) = permitted {
            return failed(session.connection, why);
        }
        if point.takes() > session.left().as_secs_f64() {
            let why =
                format!("the reserved time has expired{}", Hint("run fewer or shorter tests at a time"));
            return failed(session.connection, why);
        }
        let streams = match accept(session, point)? {
            Ok(streams) => streams,
            Err(error) => return failed(session.connection, error.to_string()),
        };
        let run = match point.start(streams, false, self.reader) {
            Ok(run) => run,
            Err(error) => return failed(session.connection, error.to_string()),
        };
        session.connection.send(&TcpReply::Ready)?;
        // The client says when it has ended.
        while !session.is_over() {
            match session.connection.receive(SERVER_POLL_INTERVAL) {
                Ok(TcpCommand::Stop) => {
                    run.stop();
                    let mut report = run.finish();
                    let bytes = |way| {
                        let flows = report.flows.iter().filter(|flow| flow.direction == way);
                        flows.map(|flow| flow.bytes + flow.omitted_bytes).sum()
                    };
                    session.tally.add(bytes(FlowDirection::Receive), bytes(FlowDirection::Send));
                    report.thin(MAX_SAMPLES);
                    return session.connection.send(&TcpReply::Report(Box::new(report)));
                }
                Ok(_) => return Err(session.connection.unexpected("another order while it measures")),
                Err(error) if error.is_late() => {}
                Err(error) => return Err(error),
            }
        }
        Err(PeerError::Stopped)
    }
}

/// Whether the operator allows this rate.
fn allowed(rate: Option<f64>, limits: &Limits) -> Result<(), String> {
    let Some(most) = limits.rate else { return Ok(()) };
    match rate {
        Some(rate) if rate <= most as f64 => Ok(()),
        _ => Err(format!(
            "the server allows at most {}{}",
            display_rate(most as f64),
            Hint("set a lower --pacing for each flow")
        )),
    }
}

/// Accepts the flows; the inner error is reported to the client.
fn accept(session: &mut Session<'_>, point: &TcpPoint) -> Result<io::Result<Vec<TcpStream>>, PeerError> {
    // A room gives a cookie that nobody can guess; nobody enters it.
    let cookie = session.data_connections(1, false)?.cookie();
    let (setup, peer) = (point.setup(), session.connection.peer().ip());
    let listener = match setup.listen(SocketAddr::new(session.connection.local().ip(), 0)) {
        Ok(listener) => listener,
        Err(error) => return Ok(Err(error)),
    };
    let port = listener.local_addr()?.port();
    listener.set_nonblocking(true)?;
    session.connection.send(&TcpReply::Open { port, cookie: cookie.clone() })?;
    let until = Instant::now() + CONNECT_TIMEOUT;
    let mut streams = Vec::new();
    while streams.len() < point.connections() {
        if session.is_over() || session.connection.is_gone() {
            return Err(PeerError::Stopped);
        }
        if Instant::now() > until {
            let text = format!("{} of {} flows were connected in time", streams.len(), point.connections());
            return Ok(Err(io::Error::new(io::ErrorKind::TimedOut, text)));
        }
        let Some((mut stream, from)) = next(&listener)? else { continue };
        if from.ip().to_canonical() == peer && greets(&mut stream, cookie.as_bytes()) {
            if let Err(error) = setup.apply(&stream) {
                return Ok(Err(error));
            }
            streams.push(stream);
        }
    }
    Ok(Ok(streams))
}

fn next(listener: &TcpListener) -> io::Result<Option<(TcpStream, SocketAddr)>> {
    readable(&[listener.as_fd()], SERVER_POLL_INTERVAL)?;
    match listener.accept() {
        Ok(accepted) => Ok(Some(accepted)),
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(None),
        Err(error) => Err(error),
    }
}

/// Whether a flow begins with the cookie.
fn greets(stream: &mut TcpStream, cookie: &[u8]) -> bool {
    let mut said = [0; COOKIE_BYTES];
    let read = stream.set_nonblocking(false).and_then(|()| stream.set_read_timeout(Some(COOKIE_TIMEOUT)));
    read.and_then(|()| stream.read_exact(&mut said)).is_ok() && said == cookie
}
