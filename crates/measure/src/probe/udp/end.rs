//! One end of a test: the sockets of its flows, and what it does in a point.

use super::point::UdpPoint;
use super::point::{EndReport, ReceivedReport, SentReport};
use super::protocol::HostSummary;
use super::protocol::{ControlDatagram, Handshake, LEN};
use super::receiver::Meter;
use super::receiver::{Exchange, Receiver};
use super::sender;
use super::sender::unix_now;
use skyhaul::auth::Cookies;
use skyhaul::peer::PeerError;
use skyhaul_core::hint::Hint;
use skyhaul_io::address::Endpoint;
use skyhaul_io::host::interface::interface_of;
use skyhaul_io::host::machine::Machine;
use skyhaul_io::host::stages::{self, Stages};
use skyhaul_io::udp::both::Both;
use skyhaul_io::udp::{Tier, UdpOptions, largest_datagram};
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// How long both ends try to meet on UDP, from when the last flow did.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);
/// Time between two attempts.
const RETRY_INTERVAL: Duration = Duration::from_millis(100);
/// Time between two looks at sockets that have nothing.
const POLL_INTERVAL: Duration = Duration::from_millis(1);
/// Datagrams of one flow that are read before those of the next.
const BATCH_DATAGRAMS: usize = 64;
/// How long a receiver is awaited that does not come to look: less than the other end waits for the report.
const READER_TIMEOUT: Duration = Duration::from_secs(5);
/// How often something else is looked at while data are sent.
pub(super) const TICK: Duration = Duration::from_millis(10);

/// Socket and receiver of a flow.
#[derive(Debug)]
struct FlowSocket {
    both: Both,
    receiver: Receiver,
}

/// The end.
#[derive(Debug)]
pub(super) struct TestSockets {
    test: u64,
    lanes: Vec<FlowSocket>,
    interface: Option<String>,
    pings: u64,
    /// Flows of the point at hand.
    chosen: Range<usize>,
}

/// How the sockets receive.
fn options(join: bool) -> UdpOptions {
    match join {
        true => UdpOptions { tier: Tier::Stage, ..UdpOptions::default() },
        // Every packet is seen when it comes: what it costs is part of what is measured.
        false => UdpOptions { tier: Tier::Plain, gather: Duration::ZERO, ..UdpOptions::default() },
    }
}

/// Sockets of a server that nobody met yet.
pub(super) struct PendingTest {
    test: u64,
    cookie: [u8; 16],
    join: bool,
    sockets: Vec<Both>,
}

impl PendingTest {
    /// One socket for each flow, on the address at which the client found this host.
    pub(super) fn bind(at: IpAddr, flows: u16, test: u64, cookie: [u8; 16], join: bool) -> io::Result<Self> {
        let sockets = (0..flows).map(|_| Both::bind(SocketAddr::new(at, 0), &options(join)));
        Ok(Self { test, cookie, join, sockets: sockets.collect::<io::Result<_>>()? })
    }

    /// Their ports.
    pub(super) fn ports(&self) -> Vec<u16> {
        self.sockets.iter().map(|socket| socket.local().port()).collect()
    }

    /// What is said of this host.
    pub(super) fn host(&self, peer: SocketAddr) -> HostSummary {
        self.sockets.first().map(|both| note(both, peer)).unwrap_or_default()
    }

    /// Await that the client shows in every flow that it receives: nothing but answers as long as what came is sent before.
    pub(super) fn meet(
        self,
        cookies: &Cookies,
        over: &mut dyn FnMut() -> bool,
    ) -> Result<TestSockets, PeerError> {
        let mut end = Instant::now() + HANDSHAKE_TIMEOUT;
        let mut met = vec![false; self.sockets.len()];
        while !met.iter().all(|&met| met) {
            if over() || Instant::now() > end {
                return Err(PeerError::Stopped);
            }
            let mut heard = false;
            // Those that were met, too: the client may not have heard that it may begin.
            for (flow, both) in self.sockets.iter().enumerate() {
                for _ in 0..BATCH_DATAGRAMS {
                    let mut bytes = [0; LEN + 1];
                    let Some((length, from)) = both.receive_from(&mut bytes, Duration::ZERO)? else { break };
                    heard = true;
                    if self.hear(cookies, both, flow as u16, &bytes[..length], from)? && !met[flow] {
                        met[flow] = true;
                        end = Instant::now() + HANDSHAKE_TIMEOUT;
                    }
                }
            }
            if !heard {
                std::thread::sleep(POLL_INTERVAL);
            }
        }
        let lanes = self.sockets.into_iter().enumerate();
        let lanes = lanes.map(|(flow, both)| lane(both, self.test, flow as u16, self.join));
        TestSockets::new(self.test, lanes.collect::<io::Result<_>>()?).map_err(PeerError::from)
    }

    /// Answer a datagram; whether its sender showed that it receives.
    fn hear(
        &self,
        cookies: &Cookies,
        both: &Both,
        flow: u16,
        datagram: &[u8],
        from: SocketAddr,
    ) -> io::Result<bool> {
        let number = self.test ^ u64::from(flow) << 48;
        let say = |meeting| {
            // What is not sent is asked for again.
            let _ = both.send_to(&ControlDatagram { test: self.test, flow, meeting }.octets(), from);
        };
        match ControlDatagram::read(datagram) {
            Ok(small) if (small.test, small.flow) != (self.test, flow) => {}
            Ok(ControlDatagram { meeting: Handshake::Knock(cookie), .. }) if cookie == self.cookie => {
                say(Handshake::Cookie(cookies.of(from, number)));
            }
            Ok(ControlDatagram { meeting: Handshake::Echo(cookie), .. })
                if cookies.is_of(from, number, cookie) =>
            {
                both.connect(from)?;
                say(Handshake::Ready);
                return Ok(true);
            }
            _ => {}
        }
        Ok(false)
    }
}

fn lane(both: Both, test: u64, flow: u16, join: bool) -> io::Result<FlowSocket> {
    let receiver = Receiver::start(&both, test, flow, &options(join))?;
    Ok(FlowSocket { both, receiver })
}

fn note(both: &Both, peer: SocketAddr) -> HostSummary {
    HostSummary {
        machine: Machine::this().to_string(),
        interface: interface_of(both.local().ip()).unwrap_or_default(),
        buffers: both.buffers(),
        largest_datagram: largest_datagram(&Endpoint::udp(peer)).unwrap_or(0) as u64,
    }
}

impl TestSockets {
    fn new(test: u64, lanes: Vec<FlowSocket>) -> io::Result<Self> {
        let interface = lanes.first().and_then(|lane| interface_of(lane.both.local().ip()));
        let chosen = 0..lanes.len();
        Ok(Self { test, lanes, interface, pings: 0, chosen })
    }

    /// The client's end: a socket for each of the server's ports, and a meeting on each.
    pub(super) fn reach(
        from: IpAddr,
        server: IpAddr,
        ports: &[u16],
        test: u64,
        cookie: [u8; 16],
        join: bool,
    ) -> Result<(Self, HostSummary), PeerError> {
        let bind = |&port: &u16| {
            let both = Both::bind(SocketAddr::new(from, 0), &options(join))?;
            both.connect(SocketAddr::new(server, port))?;
            Ok(both)
        };
        let sockets = ports.iter().map(bind).collect::<io::Result<Vec<Both>>>()?;
        knock(&sockets, ports, test, cookie, server)?;
        let first = sockets.first().zip(ports.first());
        let host = first.map(|(both, &port)| note(both, SocketAddr::new(server, port))).unwrap_or_default();
        let lanes = sockets.into_iter().enumerate().map(|(flow, both)| lane(both, test, flow as u16, join));
        Ok((Self::new(test, lanes.collect::<io::Result<_>>()?)?, host))
    }

    pub(super) fn flows(&self) -> u16 {
        self.lanes.len() as u16
    }

    /// This end's address in the first flow.
    pub(super) fn local(&self) -> Option<SocketAddr> {
        self.lanes.first().map(|lane| lane.both.local())
    }

    /// Begin a point: counters as they are before, and meters if data are to come.
    pub(super) fn begin(&mut self, run: u32, point: &UdpPoint, receives: bool, samples: usize) -> Stages {
        let all = 0..self.lanes.len();
        self.chosen = point.only.map(usize::from).filter(|only| all.contains(only)).map_or(all, |n| n..n + 1);
        if receives {
            for lane in &mut self.lanes[self.chosen.clone()] {
                lane.receiver.begin(Meter::new(run, point.size, samples));
            }
        }
        stages::read(self.interface.as_deref())
    }

    /// Send the point that was begun in its flows; `tick` is called some hundred times a second with what was sent so far, and returns
    /// whether to go on.
    pub(super) fn send(
        &mut self,
        run: u32,
        point: &UdpPoint,
        tick: &mut dyn FnMut(&mut Pinger<'_>, u64) -> bool,
    ) -> Result<Vec<SentReport>, PeerError> {
        let (stop, count) = (AtomicBool::new(false), AtomicU64::new(0));
        let lanes = &self.lanes;
        let mut pings = Pinger { test: self.test, lanes, sent: &mut self.pings };
        let chosen = self.chosen.clone();
        std::thread::scope(|scope| {
            let senders: Vec<_> = chosen
                .map(|flow| (flow, &lanes[flow]))
                .map(|(flow, lane)| {
                    let (flow, stop, count) = (flow as u16, &stop, &count);
                    scope.spawn(move || sender::send(&lane.both, run, flow, point, stop, count))
                })
                .collect();
            while !senders.iter().all(|sender| sender.is_finished()) {
                std::thread::sleep(TICK.min(point.takes() / 4).max(Duration::from_millis(1)));
                if !tick(&mut pings, count.load(Ordering::Relaxed)) {
                    stop.store(true, Ordering::Relaxed);
                }
            }
            let joined = senders.into_iter().map(|sender| {
                let failed = || io::Error::other("a sending thread failed");
                sender.join().map_err(|_| failed())?
            });
            joined.collect::<io::Result<Vec<SentReport>>>().map_err(PeerError::from)
        })
    }

    /// Wait until everything that was sent came, or nothing came for `settle`; what came. A receiver that had no time to look is
    /// waited for: what its socket holds is not lost.
    pub(super) fn finish(&mut self, sent: &[u64], settle: Duration) -> Vec<ReceivedReport> {
        let told = Instant::now();
        let chosen = &mut self.lanes[self.chosen.clone()];
        let looked: Vec<u64> = chosen.iter().map(|lane| lane.receiver.empty()).collect();
        loop {
            let open = chosen.iter().zip(sent).zip(&looked).any(|((lane, &sent), &looked)| {
                let (unique, silent) = lane.receiver.progress();
                // Two looks: one may have begun before.
                let read = lane.receiver.empty() >= looked + 2 || told.elapsed() > READER_TIMEOUT;
                unique < sent && (silent.min(told.elapsed()) < settle || !read)
            });
            if !open {
                break;
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        chosen.iter_mut().zip(sent).filter_map(|(lane, &sent)| lane.receiver.finish(sent)).collect()
    }

    /// Packets of the point at hand that came so far, each once.
    pub(super) fn came(&self) -> u64 {
        self.lanes[self.chosen.clone()].iter().map(|lane| lane.receiver.progress().0).sum()
    }

    /// What this end did in a point that began with the counters `before`.
    pub(super) fn report(
        &self,
        before: &Stages,
        sent: Vec<SentReport>,
        received: Vec<ReceivedReport>,
    ) -> EndReport {
        let counters = stages::since(&stages::read(self.interface.as_deref()), before);
        let strays = self.lanes.iter().map(|lane| lane.receiver.strays()).sum();
        EndReport { sent, received, counters, interface: self.interface.clone().unwrap_or_default(), strays }
    }

    /// What sends pings, while nothing else does.
    pub(super) fn pings(&mut self) -> Pinger<'_> {
        Pinger { test: self.test, lanes: &self.lanes, sent: &mut self.pings }
    }

    /// Exchanges of times since the last call.
    pub(super) fn exchanges(&self) -> Vec<Exchange> {
        self.lanes.iter().flat_map(|lane| lane.receiver.exchanges()).collect()
    }

    /// Why a receiver ended, if one did.
    pub(super) fn error(&self) -> Option<String> {
        self.lanes.iter().find_map(|lane| lane.receiver.error())
    }
}

/// Asks the other end for its time, over the path of the data.
pub(super) struct Pinger<'a> {
    test: u64,
    lanes: &'a [FlowSocket],
    sent: &'a mut u64,
}

impl Pinger<'_> {
    /// Ask once, in the first flow.
    pub(super) fn ping(&mut self) {
        if let Some(lane) = self.lanes.first() {
            let meeting = Handshake::Ping { number: *self.sent, sent: unix_now() };
            *self.sent += 1;
            // One that is not sent is one exchange less.
            let _ = lane.both.send(&ControlDatagram { test: self.test, flow: 0, meeting }.octets());
        }
    }
}

/// Knock in every flow until the server knows that this end receives there.
fn knock(
    sockets: &[Both],
    ports: &[u16],
    test: u64,
    cookie: [u8; 16],
    server: IpAddr,
) -> Result<(), PeerError> {
    let mut end = Instant::now() + HANDSHAKE_TIMEOUT;
    // What is still to be said in each flow; nothing, once it was met.
    let mut says = vec![Some(Handshake::Knock(cookie)); sockets.len()];
    while says.iter().any(Option::is_some) {
        if Instant::now() > end {
            let flow = says.iter().position(Option::is_some).unwrap_or(0);
            return Err(PeerError::Io(unanswered(SocketAddr::new(server, ports[flow]))));
        }
        // What is lost is said again.
        for (flow, say) in says.iter().enumerate() {
            if let &Some(meeting) = say {
                let _ = sockets[flow].send(&ControlDatagram { test, flow: flow as u16, meeting }.octets());
            }
        }
        let until = Instant::now() + RETRY_INTERVAL;
        while Instant::now() < until && says.iter().any(Option::is_some) {
            let mut heard = false;
            for (flow, (both, say)) in sockets.iter().zip(&mut says).enumerate() {
                if say.is_none() {
                    continue;
                }
                let mut bytes = [0; LEN + 1];
                let Some((length, _)) = both.receive_from(&mut bytes, Duration::ZERO)? else { continue };
                heard = true;
                match ControlDatagram::read(&bytes[..length]) {
                    Ok(small) if (small.test, usize::from(small.flow)) != (test, flow) => {}
                    Ok(ControlDatagram { meeting: Handshake::Cookie(cookie), .. })
                        if matches!(say, Some(Handshake::Knock(_))) =>
                    {
                        let echo = Handshake::Echo(cookie);
                        let _ =
                            both.send(&ControlDatagram { test, flow: flow as u16, meeting: echo }.octets());
                        *say = Some(echo);
                    }
                    Ok(ControlDatagram { meeting: Handshake::Ready, .. }) => {
                        *say = None;
                        end = Instant::now() + HANDSHAKE_TIMEOUT;
                    }
                    _ => {}
                }
            }
            if !heard {
                std::thread::sleep(POLL_INTERVAL);
            }
        }
    }
    Ok(())
}

fn unanswered(peer: SocketAddr) -> io::Error {
    let why = format!(
        "no answer over UDP from {peer}, although TCP works{}",
        Hint("allow UDP through firewalls in both directions")
    );
    io::Error::new(io::ErrorKind::TimedOut, why)
}
