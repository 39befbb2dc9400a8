//! Round trips of requests and responses, as `udpmon_req` measures them.
//!
//! A request is as long as its response: so the ways there and back are alike, and a responder that gives no more than came answers
//! all of them. Times are those of this program, sending and waking up included.

use super::super::udp::Point;
use super::error::UdpmonError;
use super::requester::{Dialogue, RequestOptions};
use serde::{Deserialize, Serialize};
use skyhaul::report::{Distribution, VERSION};
use skyhaul_core::measure::Histogram;
use skyhaul_core::pace::GapPacer;
use skyhaul_core::placement::Nanos;
use skyhaul_core::wire::header::Order;
use skyhaul_core::wire::udpmon::{Command, LEN, Message};
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Octets of the shortest response of udpmon.
const SHORTEST: u32 = 64;
/// How long a response is waited for, as with udpmon.
const WAIT: Duration = Duration::from_secs(1);
/// Longest sleep before it is looked whether to stop.
const LOOK: Duration = Duration::from_millis(20);

/// Round trips of one size.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct LatencyReport {
    /// [`VERSION`](skyhaul::report::VERSION).
    pub version: u32,
    /// The responder.
    pub to: SocketAddr,
    /// Whether the responder was built for integers that begin with the most significant octet.
    pub big_endian: bool,
    /// What was asked for: octets of request and response, requests, least distance between them.
    pub point: Point,
    /// Requests sent.
    pub asked: u64,
    /// Requests whose response came within a second.
    pub answered: u64,
    /// Nanoseconds from request to response.
    pub round_trip_ns: Distribution,
    /// It was interrupted.
    pub interrupted: bool,
}

/// Ask for responses, one after the other. If `stop` is set meanwhile, the report is of those until then.
///
/// # Errors
/// See [`UdpmonError`].
pub fn latency(options: &RequestOptions, stop: &AtomicBool) -> Result<LatencyReport, UdpmonError> {
    let point = Point { size: options.point.size.max(SHORTEST), ..options.point };
    let mut dialogue = Dialogue::open(options, stop)?;
    dialogue.begin()?;
    let (mut asked, mut trips) = (0, Histogram::default());
    let (begun, longest) = (Instant::now(), Duration::from_nanos(point.longest_ns));
    let mut pacer = GapPacer::even(point.spacing_ps, Nanos(0), Nanos(0));
    let elapsed = || Nanos(u64::try_from(begun.elapsed().as_nanos()).unwrap_or(u64::MAX));
    while asked < point.packets && begun.elapsed() < longest && !stop.load(Ordering::Relaxed) {
        let early = pacer.due().0.saturating_sub(elapsed().0);
        if early > 0 {
            std::thread::sleep(Duration::from_nanos(early).min(LOOK));
            continue;
        }
        pacer.sent(1, elapsed());
        let trip = dialogue.trip(asked, point.size)?;
        asked += 1;
        if let Some(trip) = trip {
            trips.record(u64::try_from(trip.as_nanos()).unwrap_or(u64::MAX));
        }
    }
    let interrupted = stop.load(Ordering::Relaxed);
    dialogue.end();
    Ok(LatencyReport {
        version: VERSION,
        to: options.to,
        big_endian: dialogue.order == Order::Big,
        point,
        asked,
        answered: trips.count(),
        round_trip_ns: Distribution::from(&trips),
        interrupted,
    })
}

impl Dialogue<'_> {
    /// One request, and how long its response took.
    fn trip(&mut self, number: u64, size: u32) -> Result<Option<Duration>, UdpmonError> {
        let mut request = Message::new(self.order, Command::Request, number);
        request.head.response_length = size;
        let mut octets = request.octets().to_vec();
        octets.resize(size as usize, 0);
        let sent = Instant::now();
        match self.socket.send(&octets) {
            Ok(_) => {}
            Err(error) if error.kind() == std::io::ErrorKind::ConnectionRefused => {}
            Err(error) => return Err(error.into()),
        }
        while sent.elapsed() < WAIT && !self.stop.load(Ordering::Relaxed) {
            let Some((length, _)) = self.socket.receive_from(&mut self.answer, LOOK)? else { continue };
            let came = sent.elapsed();
            let head = Message::read_in(self.order, &self.answer[..length.min(LEN)]).map(|read| read.head);
            let is_it = |head: skyhaul_core::wire::udpmon::Head| {
                head.command == Command::Response as u32 && head.frame == number
            };
            if length == size as usize && head.is_ok_and(is_it) {
                return Ok(Some(came));
            }
        }
        Ok(None)
    }
}
