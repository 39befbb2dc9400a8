//! How a client begins: it connects, asks, and attaches its flows.

use super::message::{Message, Name, Request, VERSION, Way};
use super::options::CopyOptions;
use super::talk::of_peer;
use super::tune::tune;
use crate::peer::{Connection, Token, attach, connect};
use std::io;
use std::net::TcpStream;
use std::time::{Duration, Instant};

/// How long the server may take to answer.
const ANSWER: Duration = Duration::from_secs(10);
/// Round trips measured.
const TRIPS: usize = 5;

/// What a session is for.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Purpose {
    /// To copy.
    Copy,
    /// To measure each part.
    Plan,
    /// To copy for a moment, and leave nothing.
    Trial(Duration),
}

/// A session that has begun.
pub(super) struct Session {
    pub(super) connection: Connection,
    pub(super) flows: Vec<TcpStream>,
    /// The shortest round trip.
    pub(super) rtt: Duration,
}

impl Session {
    /// Ask the server, and attach the flows.
    pub(super) fn begin(options: &CopyOptions, token: &Token, purpose: Purpose) -> io::Result<Self> {
        let tuning = &options.tuning;
        let mut connection = connect(options.server, token, ANSWER).map_err(of_peer)?;
        let paths = if options.pull { &options.sources } else { &options.into };
        let request = Request {
            version: VERSION,
            way: if options.pull { Way::Pull } else { Way::Push },
            paths: paths.iter().map(|path| Name::from(&**path)).collect(),
            to: (0..options.sources.len()).map(|at| at % options.into.len().max(1)).collect(),
            exists: options.exists,
            flows: tuning.flows,
            range: tuning.range,
            direct: tuning.direct,
            window: tuning.window,
            congestion: tuning.congestion.clone(),
            limit: tuning.limit,
            plan: purpose == Purpose::Plan,
            trial: if let Purpose::Trial(span) = purpose { Some(span.as_millis() as u64) } else { None },
        };
        connection.ask("copy", &request, &mut |_| !options.stop.is_set()).map_err(of_peer)?;
        let cookie = match connection.receive::<Message>(ANSWER).map_err(of_peer)? {
            Message::Ready { cookie } => cookie,
            Message::Stop { why } => return Err(io::Error::other(why)),
            _ => return Err(of_peer(connection.unexpected("another message"))),
        };
        let (mut flows, mut rtt) = (Vec::new(), Duration::MAX);
        for _ in 0..tuning.flows {
            let begun = Instant::now();
            let stream = attach(options.server, token, &cookie, ANSWER).map_err(of_peer)?;
            // Connecting, two messages and an answer each: three round trips.
            rtt = rtt.min(begun.elapsed() / 3);
            tune(&stream, tuning.window, tuning.congestion.as_deref())?;
            flows.push(stream);
        }
        Ok(Self { connection, flows, rtt: rtt.min(round_trip(options)) })
    }
}

/// The shortest time that connecting takes.
fn round_trip(options: &CopyOptions) -> Duration {
    let once = |_| {
        let begun = Instant::now();
        TcpStream::connect_timeout(&options.server, ANSWER).ok().map(|_| begun.elapsed())
    };
    (0..TRIPS).filter_map(once).min().unwrap_or(Duration::MAX)
}
