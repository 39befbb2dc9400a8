//! The server's end of UDP tests.

use super::end::{PendingTest, TestSockets};
use super::point::SentReport;
use super::point::{MAX_FLOWS, UdpPoint};
use super::protocol::pack;
use super::protocol::{UdpCommand, UdpReply, UdpRequest, UdpSession};
use crate::probe::TestDirection;
use serde_json::Value;
use skyhaul::auth::{Cookies, hex};
use skyhaul::peer::{Admission, Limits, PeerError, Service, Session};
use skyhaul_core::hint::Hint;
use skyhaul_core::units::display_rate;
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Name of the service.
pub const NAME: &str = "udp";
/// Most packets that are reported one by one.
pub const MAX_SAMPLES: u32 = 65_536;
/// Longest time without arrival that is waited at the end of a point.
const MAX_SETTLE_MS: u32 = 10_000;
/// A client that says nothing for so long is gone, however its connection looks.
const IDLE_TIMEOUT: Duration = Duration::from_secs(30);
/// How often a loop looks whether to end.
const POLL_INTERVAL: Duration = Duration::from_millis(100);

/// Tests of a path with UDP.
#[derive(Debug)]
pub struct UdpService {
    cookies: Cookies,
    tests: AtomicU64,
}

impl UdpService {
    /// With cookies of its own.
    ///
    /// # Errors
    /// If the system has no random numbers.
    pub fn new() -> io::Result<Self> {
        let first = u64::from_be_bytes(skyhaul::auth::random()?);
        // The highest bits say the flow where both are mixed.
        Ok(Self { cookies: Cookies::new()?, tests: AtomicU64::new(first >> 16) })
    }
}

fn request(body: &Value) -> Result<UdpRequest, String> {
    serde_json::from_value(body.clone()).map_err(|error| format!("invalid request: {error}"))
}

impl Service for UdpService {
    fn name(&self) -> &'static str {
        NAME
    }

    fn admit(&self, body: &Value, limits: &Limits) -> Result<Admission, String> {
        let request = request(body)?;
        if !(1..=MAX_FLOWS).contains(&request.flows) {
            return Err(format!("{} flows: expected 1 to {MAX_FLOWS}", request.flows));
        }
        allowed(request.rate, limits)?;
        let seconds = request.seconds.clamp(1.0, 1e6);
        Ok(Admission::slot(Duration::from_secs_f64(if seconds.is_nan() { 1.0 } else { seconds })))
    }

    fn run(&self, session: &mut Session<'_>, body: Value) -> Result<(), PeerError> {
        let request = request(&body).map_err(|why| session.connection.unexpected(&why))?;
        let test = self.tests.fetch_add(1, Ordering::Relaxed) & (u64::MAX >> 16);
        let (at, cookie) = (session.connection.local().ip(), skyhaul::auth::random()?);
        let waiting = PendingTest::bind(at, request.flows, test, cookie, request.join)?;
        let host = waiting.host(session.connection.peer());
        session.connection.send(&UdpSession { test, cookie: hex(&cookie), ports: waiting.ports(), host })?;
        let mut is_over = || session.is_over() || session.connection.is_gone();
        let mut end = waiting.meet(&self.cookies, &mut is_over)?;
        let mut heard = Instant::now();
        while !session.is_over() && heard.elapsed() < IDLE_TIMEOUT {
            match session.connection.receive(POLL_INTERVAL) {
                Ok(UdpCommand::Point { run, point, direction, samples, settle_ms, packed }) => {
                    let settle = Duration::from_millis(u64::from(settle_ms.min(MAX_SETTLE_MS)));
                    let samples = samples.min(MAX_SAMPLES / u32::from(point.flows(end.flows()).max(1)));
                    let point = Run { run, point, direction, samples, settle, packed };
                    point.serve(session, &mut end)?;
                    heard = Instant::now();
                }
                Ok(UdpCommand::End) => return Ok(()),
                // Of a point that failed.
                Ok(UdpCommand::Sent { .. } | UdpCommand::Stop) => {}
                Err(error) if error.is_late() => {}
                Err(error) => return Err(error),
            }
        }
        Err(PeerError::Stopped)
    }
}

/// Whether the operator allows this rate of payload.
fn allowed(rate: Option<f64>, limits: &Limits) -> Result<(), String> {
    match (rate, limits.rate) {
        (_, None) => Ok(()),
        (Some(rate), Some(most)) if rate <= most as f64 => Ok(()),
        (Some(rate), Some(most)) => {
            let (rate, most) = (display_rate(rate), display_rate(most as f64));
            Err(format!("{rate} exceeds the server's limit of {most}{}", Hint("choose a lower rate")))
        }
        (None, Some(most)) => {
            let most = display_rate(most as f64);
            Err(format!(
                "the server allows at most {most}, so a rate is needed{}",
                Hint("choose a spacing above 0")
            ))
        }
    }
}

/// A point, as the server measures it.
struct Run {
    run: u32,
    point: UdpPoint,
    direction: TestDirection,
    samples: u32,
    settle: Duration,
    packed: bool,
}

impl Run {
    fn serve(&self, session: &mut Session<'_>, end: &mut TestSockets) -> Result<(), PeerError> {
        let run = self.run;
        let flows = f64::from(self.point.flows(end.flows()));
        let rate = self.point.rate().map(|rate| rate * flows);
        if let Err(why) = self.point.check().and_then(|()| allowed(rate, &session.limits)) {
            return session.connection.send(&UdpReply::Failed { why });
        }
        if self.point.takes() > session.left() {
            let why =
                format!("the reserved time has expired{}", Hint("run fewer or shorter tests at a time"));
            return session.connection.send(&UdpReply::Failed { why });
        }
        let forward = self.direction.forward();
        let before = end.begin(run, &self.point, forward, self.samples as usize);
        session.connection.send(&UdpReply::Ready { run })?;
        let (mut told, mut sent) = (None, Vec::new());
        if self.direction.reverse() {
            (sent, told) = self.send(session, end)?;
        }
        let received = match forward {
            true => {
                let packets = match told {
                    Some(packets) => packets,
                    None => self.await_sent(session)?,
                };
                end.finish(&packets, self.settle)
            }
            false => Vec::new(),
        };
        let received_bytes = received.iter().map(|flow| flow.bytes).sum();
        session.tally.add(received_bytes, sent.iter().map(|flow| flow.bytes).sum());
        if let Some(why) = end.error() {
            return session.connection.send(&UdpReply::Failed { why });
        }
        let mut report = Box::new(end.report(&before, sent, received));
        let packed = match self.packed {
            true => report.received.iter_mut().map(|flow| pack(&std::mem::take(&mut flow.samples))).collect(),
            false => Vec::new(),
        };
        session.connection.send(&UdpReply::Report { run, report, packed })
    }

    /// Send, and hear meanwhile what the client says: how much it sent itself, or that it is enough.
    fn send(
        &self,
        session: &mut Session<'_>,
        end: &mut TestSockets,
    ) -> Result<(Vec<SentReport>, Option<Vec<u64>>), PeerError> {
        let (mut told, mut broken, mut enough) = (None, None, false);
        let sent = end.send(self.run, &self.point, &mut |_, _| {
            match session.connection.poll() {
                Ok(Some(UdpCommand::Sent { run, packets })) if run == self.run => told = Some(packets),
                Ok(Some(UdpCommand::Stop)) => enough = true,
                Ok(Some(other)) => broken = Some(session.connection.unexpected(&format!("{other:?}"))),
                Ok(None) => {}
                Err(error) => broken = Some(error),
            }
            !enough && broken.is_none() && !session.is_over()
        })?;
        if let Some(error) = broken {
            return Err(error);
        }
        let packets = sent.iter().map(|sent| sent.packets).collect();
        session.connection.send(&UdpReply::Sent { run: self.run, packets })?;
        Ok((sent, told))
    }

    /// The client says how much it sent.
    fn await_sent(&self, session: &mut Session<'_>) -> Result<Vec<u64>, PeerError> {
        let end = Instant::now() + self.point.takes() * 2 + IDLE_TIMEOUT;
        while !session.is_over() && Instant::now() < end {
            match session.connection.receive(POLL_INTERVAL) {
                Ok(UdpCommand::Sent { run, packets }) if run == self.run => return Ok(packets),
                Ok(UdpCommand::Stop) => {}
                Ok(other) => return Err(session.connection.unexpected(&format!("{other:?}"))),
                Err(error) if error.is_late() => {}
                Err(error) => return Err(error),
            }
        }
        Err(PeerError::Stopped)
    }
}
