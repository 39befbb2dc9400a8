//! One test, as a server runs it.

use super::control::{Control, Cookie, PARAMETERS, PATIENCE, RESULTS};
use super::desk::{Arrival, Common};
use super::error::Iperf3Error;
use super::params::Params;
use super::report::{Asked, Iperf3Report, Role};
use super::results::Results;
use super::room::Place;
use super::state::{State, code};
use super::text::lines;
use super::work::{Done, Sockets, Work, setup};
use serde_json::Value;
use skyhaul_io::quantity::{Rate, Size};
use skyhaul_io::tcp::setup::watch_peer;
use skyhaul_io::tcp::tune;
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::Ordering::Relaxed;
use std::sync::mpsc::sync_channel;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// How often a test looks at its clock.
const TICK: Duration = Duration::from_millis(20);
/// How much longer than agreed a client may go on, as with iperf3: ten states that need up to 4 s each.
const GRACE: Duration = Duration::from_secs(40);

/// One test.
pub(super) struct Session<'a> {
    control: Control,
    cookie: Cookie,
    common: &'a Common,
    peer: SocketAddr,
    params: Params,
    place: Place,
}

impl<'a> Session<'a> {
    pub(super) fn new(control: Control, cookie: Cookie, common: &'a Common, place: Place) -> Self {
        let peer = control.stream().peer_addr().unwrap_or(SocketAddr::from(([0; 4], 0)));
        Self { control, cookie, common, peer, params: Params::default(), place }
    }

    /// Run it to its end, and report.
    pub(super) fn run(mut self) {
        let began = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
        let text = self.cookie.iter().take_while(|&&octet| octet != 0).map(|&octet| char::from(octet));
        let asked = Asked::of(&self.params);
        let mut report = Iperf3Report::begun(Role::Server, self.peer, began, text.collect(), asked);
        let result = self.serve(&mut report);
        self.common.close(&self.cookie);
        let counters = &self.common.counters;
        match result {
            Ok(()) => counters.done.fetch_add(1, Relaxed),
            Err(error) => {
                if let Some(code) = error.code() {
                    self.control.tell_error(code);
                }
                report.error = Some(error.to_string());
                counters.failed.fetch_add(1, Relaxed)
            }
        };
        report.asked = Asked::of(&self.params);
        (self.common.report)(report);
    }

    fn serve(&mut self, report: &mut Iperf3Report) -> Result<(), Iperf3Error> {
        // A client that vanishes is noticed even if nothing is to be sent to it.
        let _ = watch_peer(self.control.stream(), self.common.options.idle / 2);
        self.control.tell(State::ParamExchange)?;
        let json = self.control.receive(PARAMETERS)?;
        self.params = Params::read(&json)
            .map_err(|refused| Iperf3Error::Refused { code: refused.code, text: refused.text })?;
        self.permit()?;
        let sockets = self.streams()?;
        self.control.tell(State::TestStart)?;
        self.control.tell(State::TestRunning)?;
        let work = Work::start(sockets, &self.params, false, self.common.options.interval)?;
        let (done, ended) = self.watch(work);
        report.seconds = done.seconds;
        report.streams = done.streams;
        report.cpu_percent = done.results.cpu;
        ended?;
        self.exchange(done.results, report)
    }

    /// Whether the server permits this.
    fn permit(&mut self) -> Result<(), Iperf3Error> {
        let refuse = |code, text: String| Err(Iperf3Error::Refused { code, text });
        let (options, params) = (&self.common.options, &self.params);
        let longest = options.longest;
        let endless = params.time.is_zero() && params.amount().is_none();
        if params.time + params.omit > longest || endless && longest < Duration::from_secs(86_400) {
            return refuse(code::TOO_LONG_HERE, format!("longer than {} s", longest.as_secs()));
        }
        let asked = params.rate.bits_per_second().saturating_mul(params.connections() as u64);
        if options.rate != Rate::default() && (asked == 0 || asked > options.rate.bits_per_second()) {
            return refuse(code::RATE, format!("faster than {}", options.rate));
        }
        if !self.place.take(params) {
            self.common.counters.no_room.fetch_add(1, Relaxed);
            let text = format!("{} streams and their buffers are more than is left", params.connections());
            return refuse(code::STREAMS, text);
        }
        Ok(())
    }

    /// Let the streams in.
    fn streams(&mut self) -> Result<Sockets, Iperf3Error> {
        let count = self.params.connections();
        let (give, take) = sync_channel(count);
        let host = self.params.udp.then(|| self.peer.ip().to_canonical());
        if !self.common.open(self.cookie, give, host, PATIENCE) {
            return Err(Iperf3Error::Silent);
        }
        self.control.tell(State::CreateStreams)?;
        let until = Instant::now() + PATIENCE;
        let (mut connections, mut ports) = (Vec::new(), Vec::new());
        for n in 0..count {
            let stream = loop {
                if let Ok(stream) = take.recv_timeout(TICK) {
                    break stream;
                }
                if Instant::now() >= until || self.common.is_stopped() {
                    let text = format!("{n} of {count} streams came");
                    return Err(Iperf3Error::Refused { code: code::ACCEPT, text });
                }
                self.refuse_words()?;
            };
            match stream {
                Arrival::Tcp(number, stream) if !self.params.udp => {
                    connections.push((number, self.prepared(stream)?));
                }
                Arrival::Udp(socket) if self.params.udp => {
                    let buffer = self.place.room.buffer(count);
                    let buffer = self.params.window.unwrap_or(Size::from_bytes(buffer));
                    tune::set_receive_buffer(&socket, buffer);
                    ports.push(socket);
                }
                // A connection with our cookie, where datagrams were agreed on.
                _ => return Err(Iperf3Error::Protocol("a stream of the other kind".into())),
            }
        }
        self.common.close(&self.cookie);
        // Both ends number the streams in the order in which they were connected.
        connections.sort_by_key(|(number, _)| *number);
        Ok(if self.params.udp {
            Sockets::Udp(ports)
        } else {
            Sockets::Tcp(connections.into_iter().map(|(_, stream)| stream).collect())
        })
    }

    /// Nothing is to be said while streams are opened, except that it ends.
    fn refuse_words(&mut self) -> Result<(), Iperf3Error> {
        match self.control.hear(Duration::from_millis(1))? {
            None => Ok(()),
            Some(State::ClientTerminate) => Err(Iperf3Error::Terminated),
            Some(state) => Err(Iperf3Error::Protocol(format!("{state:?} while streams are opened"))),
        }
    }

    fn prepared(&self, stream: TcpStream) -> Result<TcpStream, Iperf3Error> {
        let mut setup = setup(&self.params);
        if setup.apply(&stream).is_err() {
            // An algorithm that only the client has: the report says which one was used.
            setup.congestion = None;
            setup.apply(&stream).map_err(Iperf3Error::Stream)?;
        }
        Ok(stream)
    }

    /// Wait until the client has had enough, or is gone.
    fn watch(&mut self, mut work: Work) -> (Done, Result<(), Iperf3Error>) {
        let limit = (self.params.amount().is_none() && !self.params.time.is_zero())
            .then(|| self.params.time + self.params.omit + GRACE);
        let limit = limit.unwrap_or(self.common.options.longest);
        let (mut moved, mut at) = (work.moved(), Instant::now());
        let ended = loop {
            match self.control.hear(TICK) {
                Ok(None) => {}
                Ok(Some(State::TestEnd)) => break Ok(()),
                Ok(Some(State::ClientTerminate)) => break Err(Iperf3Error::Terminated),
                Ok(Some(state)) => break Err(Iperf3Error::Protocol(format!("{state:?} during the test"))),
                Err(error) => break Err(error),
            }
            work.tick();
            if work.moved() != moved {
                (moved, at) = (work.moved(), Instant::now());
            }
            if self.common.is_stopped() {
                let _ = self.control.tell(State::ServerTerminate);
                break Err(Iperf3Error::Terminated);
            }
            if at.elapsed() > self.common.options.idle || work.elapsed() > limit {
                break Err(Iperf3Error::Silent);
            }
        };
        work.stop();
        (work.finish(&self.params), ended)
    }

    fn exchange(&mut self, mut ours: Results, report: &mut Iperf3Report) -> Result<(), Iperf3Error> {
        self.control.tell(State::ExchangeResults)?;
        let theirs = Results::read(&self.control.receive(RESULTS)?).map_err(Iperf3Error::Protocol)?;
        report.enter(&theirs);
        if self.params.server_output {
            report.asked = Asked::of(&self.params);
            ours.output = Some(Value::String(lines(report)));
        }
        self.control.send(&ours.write())?;
        self.control.tell(State::DisplayResults)?;
        match self.control.hear(PATIENCE) {
            // Some clients just close.
            Ok(Some(State::IperfDone) | None) | Err(Iperf3Error::Gone) => Ok(()),
            Ok(Some(state)) => Err(Iperf3Error::Protocol(format!("{state:?} at the end"))),
            Err(error) => Err(error),
        }
    }
}
