//! How a client begins: it connects, asks, and attaches its flows.

use super::message::{Measure, Message, Name, Request, VERSION, Way};
use super::options::CopyOptions;
use super::sizes::Sample;
use super::talk::of_peer;
use super::tune::tune;
use skyhaul::peer::{Connection, Token, attach, connect_any};
use skyhaul_io::tcp::info::TcpInfo;
use std::io;
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

/// How long the server may take to answer.
const ANSWER: Duration = Duration::from_secs(10);
/// Flows that are attached at the same time: less than a server leaves half-open.
const AT_ONCE: usize = 8;

/// What a session is for.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Purpose {
    /// To copy.
    Copy,
    /// To measure what the path carries, and how much there is.
    Network,
    /// To measure the disks, and write not many more bytes than this.
    Disks(u64),
    /// To copy files longer than this for a moment, and leave nothing.
    Trial(Duration, u64),
    /// To copy some, and leave nothing.
    Sample(Sample),
    /// To compare what is there.
    Verify,
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
        let mut connection = connect_any(&options.server, token, ANSWER).map_err(of_peer)?;
        let server = connection.peer();
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
            measure: match purpose {
                Purpose::Network => Some(Measure::Network),
                Purpose::Disks(most) => Some(Measure::Disks(most)),
                _ => None,
            },
            trial: if let Purpose::Trial(span, _) = purpose { Some(span.as_millis() as u64) } else { None },
            longer: if let Purpose::Trial(_, longer) = purpose { longer } else { 0 },
            sample: if let Purpose::Sample(sample) = purpose { Some(sample) } else { None },
            verify: purpose == Purpose::Verify,
        };
        connection.ask("copy", &request, &mut |_| !options.stop.is_set()).map_err(of_peer)?;
        let cookie = match connection.receive::<Message>(ANSWER).map_err(of_peer)? {
            Message::Ready { cookie } => cookie,
            Message::Stop { why } => return Err(io::Error::other(super::names::shown(&why))),
            _ => return Err(of_peer(connection.unexpected("another message"))),
        };
        let (mut flows, mut rtt) = (Vec::new(), Duration::MAX);
        while flows.len() < tuning.flows {
            let count = (tuning.flows - flows.len()).min(AT_ONCE);
            for (stream, trip) in together(options, server, token, &cookie, count)? {
                rtt = rtt.min(trip);
                flows.push(stream);
            }
        }
        Ok(Self { connection, flows, rtt })
    }
}

/// Attach so many flows at once: on a long path, one after the other takes three round trips each.
fn together(
    options: &CopyOptions,
    server: SocketAddr,
    token: &Token,
    cookie: &str,
    count: usize,
) -> io::Result<Vec<(TcpStream, Duration)>> {
    let one = || {
        let begun = Instant::now();
        let stream = attach(server, token, cookie, ANSWER).map_err(of_peer)?;
        // Connecting, two messages and an answer each: three round trips, where the kernel does not know the shortest.
        let trip = begun.elapsed() / 3;
        let known = TcpInfo::of(&stream).ok().and_then(|info| info.min_rtt).filter(|trip| !trip.is_zero());
        tune(&stream, options.tuning.window, options.tuning.congestion.as_deref())?;
        Ok((stream, known.map_or(trip, |known| known.min(trip))))
    };
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..count).map(|_| scope.spawn(one)).collect();
        let gone = |_| Err(io::Error::other("a thread that attaches a flow ended"));
        threads.into_iter().map(|thread| thread.join().unwrap_or_else(gone)).collect()
    })
}
