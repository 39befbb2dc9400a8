//! A session of copying, as the client runs it: it connects, asks, and attaches its flows; then it copies all files, or some for
//! a trial.

use super::control::{Control, Outcome, Progress, of_peer};
use super::destination::{Destination, TemporaryDirectories};
use super::manifest::{Allowed, Manifest, Root};
use super::message::{Direction, Measure, Message, Name, Request, Sample, Trial, VERSION};
use super::options::{Account, CopyOptions, tune};
use super::receiver::{self, ReceiveRequest};
use super::sender;
use skyhaul::peer::{Connection, DataStream, Token, attach, connect_any};
use skyhaul_io::tcp::info::TcpInfo;
use std::io;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

/// Time for the server to answer.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(10);
/// Flows that are attached at the same time: less than a server leaves half-open.
const MAX_PARALLEL_ATTACHES: usize = 8;

/// The purpose of a session.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Purpose {
    /// To copy.
    Copy,
    /// To measure, and leave nothing.
    Trial(Trial),
    /// To copy some, and leave nothing.
    Sample(Sample),
    /// To compare what is there.
    Verify,
}

/// A session that has begun.
pub(super) struct Session {
    pub(super) connection: Connection,
    pub(super) flows: Vec<DataStream>,
    /// The shortest round trip.
    pub(super) rtt: Duration,
}

impl Session {
    /// Ask the server, and attach the flows.
    pub(super) fn begin(options: &CopyOptions, token: &Token, purpose: Purpose) -> io::Result<Self> {
        let tuning = &options.tuning;
        let mut connection = connect_any(&options.server, token, ANSWER_TIMEOUT).map_err(of_peer)?;
        let server = connection.peer();
        let paths = if options.pull { &options.sources } else { &options.into };
        let request = Request {
            version: VERSION,
            way: if options.pull { Direction::Pull } else { Direction::Push },
            paths: paths.iter().map(|path| Name::from(&**path)).collect(),
            to: (0..options.sources.len()).map(|at| at % options.into.len().max(1)).collect(),
            exists: options.exists,
            flows: tuning.flows,
            encrypt: tuning.encrypt,
            range: tuning.range,
            direct: tuning.direct,
            window: tuning.window,
            congestion: tuning.congestion.clone(),
            limit: tuning.limit,
            measure: match purpose {
                Purpose::Trial(Trial::Network) => Some(Measure::Network),
                Purpose::Trial(Trial::Disk(bytes)) => Some(Measure::Disks(bytes)),
                _ => None,
            },
            trial: match purpose {
                Purpose::Trial(Trial::All { span, .. }) => Some(span.as_millis() as u64),
                _ => None,
            },
            longer: if let Purpose::Trial(Trial::All { longer, .. }) = purpose { longer } else { 0 },
            sample: if let Purpose::Sample(sample) = purpose { Some(sample) } else { None },
            verify: purpose == Purpose::Verify,
        };
        connection.ask("copy", &request, &mut |_| !options.stop.is_set()).map_err(of_peer)?;
        let cookie = match connection.receive::<Message>(ANSWER_TIMEOUT).map_err(of_peer)? {
            Message::Ready { cookie } => cookie,
            Message::Stop { why } => return Err(io::Error::other(super::manifest::shown(&why))),
            _ => return Err(of_peer(connection.unexpected("another message"))),
        };
        let (mut flows, mut rtt) = (Vec::new(), Duration::MAX);
        while flows.len() < tuning.flows {
            let count = (tuning.flows - flows.len()).min(MAX_PARALLEL_ATTACHES);
            for (stream, trip) in together(options, server, token, &cookie, count)? {
                rtt = rtt.min(trip);
                flows.push(stream);
            }
        }
        Ok(Self { connection, flows, rtt })
    }
}

/// Attaches several flows in parallel: one after the other, each takes four round trips.
fn together(
    options: &CopyOptions,
    server: SocketAddr,
    token: &Token,
    cookie: &str,
    count: usize,
) -> io::Result<Vec<(DataStream, Duration)>> {
    let one = || {
        let begun = Instant::now();
        let stream =
            attach(server, token, cookie, options.tuning.encrypt, ANSWER_TIMEOUT).map_err(of_peer)?;
        // Connecting, TLS, and two answers: four round trips at most, where the kernel does not know the shortest.
        let trip = begun.elapsed() / 4;
        let known =
            TcpInfo::of(stream.socket()).ok().and_then(|info| info.min_rtt).filter(|trip| !trip.is_zero());
        tune(stream.socket(), options.tuning.window, options.tuning.congestion.as_deref())?;
        Ok((stream, known.map_or(trip, |known| known.min(trip))))
    };
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..count).map(|_| scope.spawn(one)).collect();
        let gone = |_| Err(io::Error::other("a thread that connects a flow failed"));
        threads.into_iter().map(|thread| thread.join().unwrap_or_else(gone)).collect()
    })
}

/// Time for a server to remove a trial copy.
const REMOVE_TIMEOUT: Duration = Duration::from_secs(60);

/// The files to send or the directories to receive into at this end.
pub(super) struct LocalEnd<'a> {
    pub(super) roots: &'a [Root],
    pub(super) manifest: &'a Manifest,
    pub(super) into: &'a [Destination],
}

/// The result of a session.
pub(super) struct Ran {
    pub(super) outcome: Outcome,
    /// From asking until all of it was durable.
    pub(super) took: Duration,
    /// The shortest round trip.
    pub(super) rtt: Duration,
}

/// Copies to or from the server. A [`Purpose::Sample`] leaves nothing at the destination.
///
/// # Errors
/// The server is not there, or refuses; the destination cannot be written.
pub(super) fn run(
    options: &CopyOptions,
    token: &Token,
    purpose: Purpose,
    here: &LocalEnd<'_>,
    progress: &mut dyn FnMut(&Progress),
) -> io::Result<Ran> {
    let begun = Instant::now();
    let Session { mut connection, flows, rtt } = Session::begin(options, token, purpose)?;
    let flag = options.stop.clone();
    let stop = move || flag.is_set();
    let talk = Control::new(&mut connection, &stop, progress, &options.tuning);
    let sample = if let Purpose::Sample(sample) = &purpose { Some(sample) } else { None };
    let account = Account::alone();
    let aside = match sample {
        Some(_) if options.pull => Some(TemporaryDirectories::of(here.into)?),
        _ => None,
    };
    let outcome = match (options.pull, sample) {
        (true, _) => {
            let into = aside.as_ref().map_or_else(|| here.into.to_vec(), TemporaryDirectories::places);
            let allowed = Allowed::by(&options.sources, |at| at % options.into.len().max(1));
            let verify = purpose == Purpose::Verify;
            let wishes = ReceiveRequest {
                into: &into,
                exists: options.exists,
                verify,
                allowed,
                keeps_directories: false,
            };
            receiver::receive(talk, flows, &wishes, &options.tuning, account)?
        }
        (false, Some(sample)) => {
            let manifest = here.manifest.sample(sample);
            sender::send(talk, flows, here.roots, &manifest, &options.tuning, account)?
        }
        (false, None) => sender::send(talk, flows, here.roots, here.manifest, &options.tuning, account)?,
    };
    let took = begun.elapsed();
    drop(aside);
    if sample.is_some() && outcome.stopped.is_none() {
        // What the server removes would delay what is measured next.
        let end = Instant::now() + REMOVE_TIMEOUT;
        loop {
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(io::Error::new(
                    io::ErrorKind::TimedOut,
                    "the server did not remove its trial copy",
                ));
            }
            if let Message::Alive = connection.receive(left).map_err(of_peer)? {
                break;
            }
        }
    }
    Ok(Ran { outcome, took, rtt })
}
