//! One test, as a client runs it.

use super::IPERF3_VERSION;
use super::control::Iperf3Error;
use super::control::Iperf3State;
use super::control::{COOKIE, Control, Cookie, MESSAGE_TIMEOUT, REPORT, RESULTS};
use super::datagram::{HELLO, is_answer};
use super::params::Iperf3Params;
use super::params::Iperf3Results;
use super::report::{Iperf3Parameters, Iperf3Report, Iperf3Role};
use super::work::{RunningStreams, Sockets, setup};
use skyhaul_core::hint::Hint;
use skyhaul_io::quantity::{Rate, Size};
use skyhaul_io::tcp::tune;
use skyhaul_io::udp::peer;
use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher as _, Hasher as _};
use std::io::{self, Write as _};
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// How often a test looks at its clock.
const TICK: Duration = Duration::from_millis(10);
/// How long the server may take to answer and to send its results when somebody waits for the end (Ctrl-C).
const LAST_WORDS: Duration = Duration::from_millis(1500);
/// How long the first words of a stream of datagrams wait for their answer, and from how many ports they are said.
const ANSWER: Duration = Duration::from_secs(1);
const TRIES: usize = 5;
/// How long the end may wait for what is in the send buffer.
const FLUSH: Duration = Duration::from_millis(500);
/// A server of iperf3 drops what it has not read when the end comes: it gets this long to read it.
const READ: Duration = Duration::from_millis(20);
/// The rate of datagrams if none is given, as with iperf3.
const UDP_RATE: u64 = 1_000_000;
/// Longest datagram.
const LONGEST: u32 = 65_507;
const BUFFER: u64 = 16 << 20;

/// What a client does.
#[derive(Clone, Debug)]
pub struct Iperf3ClientOptions {
    /// The server.
    pub to: SocketAddr,
    /// What to ask for. The version is filled in.
    pub params: Iperf3Params,
    /// Choose the length of datagrams by the path's largest segment, and 1 Mb/s if no rate is given, as iperf3 does.
    pub datagrams_by_path: bool,
    /// Length of intervals in the report.
    pub interval: Duration,
    /// Time to connect.
    pub patience: Duration,
    /// Address to send from.
    pub source: Option<IpAddr>,
}

impl Iperf3ClientOptions {
    /// A test of ten seconds with one connection.
    #[must_use]
    pub fn new(to: SocketAddr) -> Self {
        Self {
            to,
            params: Iperf3Params::default(),
            datagrams_by_path: false,
            interval: Duration::from_secs(1),
            patience: MESSAGE_TIMEOUT,
            source: None,
        }
    }
}

/// How far a test is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Iperf3Progress {
    /// Since data flow.
    pub elapsed: Duration,
    /// Bytes sent.
    pub sent: u64,
    /// Bytes received.
    pub received: u64,
}

/// Run a test with a server of iperf3. `stop` ends it early, with results; `progress` is called once an interval. If the server does not
/// answer once data have flowed, the report has the counts of this side only, and the error.
///
/// # Errors
/// The server cannot be reached, is busy, refuses, or does not keep to the protocol; or `stop` came before data flowed.
pub fn run(
    options: &Iperf3ClientOptions,
    stop: &AtomicBool,
    progress: &mut dyn FnMut(Iperf3Progress),
) -> Result<Iperf3Report, Iperf3Error> {
    let cookie = cookie();
    let mut client = Client::connect(options, cookie)?;
    let work = client.until_running(stop)?;
    let (done, heard) = client.watch(work, stop, progress)?;
    let mut report = client.report(cookie);
    report.seconds = done.seconds;
    report.streams = done.streams;
    report.cpu_percent = done.results.cpu;
    report.error = done.error;
    match heard.and_then(|heard| client.exchange(&done.results, heard)) {
        Ok(theirs) => report.enter(&theirs),
        Err(error) => {
            report.error = report.error.or_else(|| Some(format!("no results of the server: {error}")));
        }
    }
    Ok(report)
}

/// Sockets from which the first words of a stream were said and not answered yet, the earliest first.
///
/// They are never said twice from one port: a server of iperf3 that has heard them takes what comes from there for data, with whatever
/// number it reads in it. An answer that is late is that of a later stream.
#[derive(Debug, Default)]
struct Greeted(Vec<UdpSocket>);

impl Greeted {
    /// The next stream: the socket that is answered next.
    fn stream(&mut self, to: SocketAddr, buffer: Size) -> io::Result<UdpSocket> {
        for _ in 0..TRIES {
            let socket = peer::to(to)?;
            tune::set_receive_buffer(&socket, buffer);
            socket.set_read_timeout(Some(TICK))?;
            socket.send(&HELLO)?;
            self.0.push(socket);
            let until = Instant::now() + ANSWER;
            while Instant::now() < until {
                if let Some(at) = self.0.iter().position(is_answered) {
                    return Ok(self.0.remove(at));
                }
            }
        }
        let text =
            format!("udp://{to}: no answer to the first datagram{}", Hint("check that firewalls allow UDP"));
        Err(io::Error::new(io::ErrorKind::TimedOut, text))
    }
}

/// Whether the server has answered on this socket; waits for it for a moment.
fn is_answered(socket: &UdpSocket) -> bool {
    let mut buffer = [0; 64];
    // Anything else that comes is no matter, and a wait may end early.
    socket.recv(&mut buffer).is_ok_and(|length| is_answer(&buffer[..length]))
}

struct Client<'a> {
    control: Control,
    options: &'a Iperf3ClientOptions,
    params: Iperf3Params,
    cookie: Cookie,
    began: u64,
}

impl<'a> Client<'a> {
    fn connect(options: &'a Iperf3ClientOptions, cookie: Cookie) -> Result<Self, Iperf3Error> {
        let plain = skyhaul_io::tcp::setup::Setup { source: options.source, ..<_>::default() };
        let mut stream = plain.connect(options.to, options.patience).map_err(Iperf3Error::Stream)?;
        stream.write_all(&cookie).map_err(Iperf3Error::control)?;
        let mut params = Iperf3Params { version: IPERF3_VERSION.into(), ..options.params.clone() };
        if params.udp && options.datagrams_by_path {
            let segment = tune::largest_segment(&stream).map_err(Iperf3Error::control)?;
            params.block = Size::from_bytes(segment.clamp(16, LONGEST).into());
            if params.rate == Rate::default() {
                params.rate = Rate::from_bits_per_second(UDP_RATE);
            }
        }
        let control = Control::new(stream).map_err(Iperf3Error::control)?;
        let began = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
        Ok(Self { control, options, params, cookie, began })
    }

    /// The next state, which is not a bad end.
    fn hear(&mut self, wait: Duration) -> Result<Option<Iperf3State>, Iperf3Error> {
        match self.control.hear(wait)? {
            Some(Iperf3State::AccessDenied) => Err(Iperf3Error::Busy),
            Some(Iperf3State::ServerError) => Err(Iperf3Error::Server(self.control.hear_error()?)),
            Some(Iperf3State::ServerTerminate) => Err(Iperf3Error::Terminated),
            other => Ok(other),
        }
    }

    fn expect(&mut self, wait: Duration) -> Result<Iperf3State, Iperf3Error> {
        self.hear(wait)?.ok_or(Iperf3Error::Silent)
    }

    /// [`expect`](Self::expect) before data flow: `stop` ends the wait.
    fn expect_unless(&mut self, stop: &AtomicBool, wait: Duration) -> Result<Iperf3State, Iperf3Error> {
        let until = Instant::now() + wait;
        while Instant::now() < until {
            if stop.load(Relaxed) {
                return Err(Iperf3Error::Interrupted);
            }
            if let Some(state) = self.hear(TICK)? {
                return Ok(state);
            }
        }
        Err(Iperf3Error::Silent)
    }

    fn until_running(&mut self, stop: &AtomicBool) -> Result<RunningStreams, Iperf3Error> {
        let mut sockets = None;
        loop {
            match self.expect_unless(stop, self.options.patience.max(MESSAGE_TIMEOUT) * 2)? {
                Iperf3State::ParamExchange => self.control.send(&self.params.write())?,
                Iperf3State::CreateStreams => sockets = Some(self.streams(stop)?),
                Iperf3State::TestStart => {}
                Iperf3State::TestRunning => {
                    let Some(sockets) = sockets else {
                        return Err(Iperf3Error::Protocol("it runs without streams".into()));
                    };
                    return RunningStreams::start(sockets, &self.params, true, self.options.interval);
                }
                state => return Err(Iperf3Error::Protocol(format!("{state:?} before the test"))),
            }
        }
    }

    fn streams(&self, stop: &AtomicBool) -> Result<Sockets, Iperf3Error> {
        let (mut sockets, mut greeted) = (Sockets::new(self.params.udp), Greeted::default());
        let mut setup = setup(&self.params);
        setup.source = self.options.source;
        for _ in 0..self.params.connections() {
            if stop.load(Relaxed) {
                return Err(Iperf3Error::Interrupted);
            }
            match &mut sockets {
                Sockets::Tcp(streams) => {
                    let stream = setup.connect(self.options.to, self.options.patience);
                    let mut stream = stream.map_err(Iperf3Error::Stream)?;
                    stream.write_all(&self.cookie).map_err(Iperf3Error::control)?;
                    streams.push(stream);
                }
                Sockets::Udp(streams) => {
                    let buffer = self.params.window.unwrap_or(Size::from_bytes(BUFFER));
                    streams.push(greeted.stream(self.options.to, buffer).map_err(Iperf3Error::Stream)?);
                }
            }
        }
        Ok(sockets)
    }

    /// Until it is done, or stopped; then tell the server. What was heard after that is given back: nothing, if it does not answer.
    fn watch(
        &mut self,
        mut work: RunningStreams,
        stop: &AtomicBool,
        progress: &mut dyn FnMut(Iperf3Progress),
    ) -> Result<(super::work::FinishedStreams, Result<Iperf3State, Iperf3Error>), Iperf3Error> {
        let mut next = self.options.interval;
        while !work.is_done() && !stop.load(Relaxed) {
            if let Some(state) = self.hear(TICK)? {
                return Err(Iperf3Error::Protocol(format!("{state:?} during the test")));
            }
            work.tick();
            if work.elapsed() >= next {
                let (sent, received) = work.moved();
                progress(Iperf3Progress { elapsed: work.elapsed(), sent, received });
                next += self.options.interval.max(TICK);
            }
        }
        if stop.load(Relaxed) {
            self.control.limit(Instant::now() + LAST_WORDS);
        }
        let sends = self.params.way.sends(true);
        if sends && !self.params.way.receives(true) {
            work.stop();
            work.wait_acknowledged(FLUSH);
            std::thread::sleep(READ);
        }
        let told = self.control.tell(Iperf3State::TestEnd);
        // What the server still sends until it hears that belongs to what it counts.
        let heard = told.and_then(|()| self.end_heard(stop));
        work.stop();
        Ok((work.finish(&self.params), heard))
    }

    /// What the server says to the end of the test.
    fn end_heard(&mut self, stop: &AtomicBool) -> Result<Iperf3State, Iperf3Error> {
        let until = Instant::now() + MESSAGE_TIMEOUT * 2;
        let mut is_limited = stop.load(Relaxed);
        while Instant::now() < until {
            if !is_limited && stop.load(Relaxed) {
                self.control.limit(Instant::now() + LAST_WORDS);
                is_limited = true;
            }
            if let Some(state) = self.hear(TICK)? {
                return Ok(state);
            }
            if is_limited && self.control.is_over() {
                break;
            }
        }
        Err(Iperf3Error::Silent)
    }

    fn exchange(&mut self, ours: &Iperf3Results, heard: Iperf3State) -> Result<Iperf3Results, Iperf3Error> {
        if heard != Iperf3State::ExchangeResults {
            return Err(Iperf3Error::Protocol(format!("{heard:?} in place of results")));
        }
        self.control.send(&ours.write())?;
        let most = if self.params.server_output { REPORT } else { RESULTS };
        let theirs = Iperf3Results::read(&self.control.receive(most)?).map_err(Iperf3Error::Protocol)?;
        match self.expect(MESSAGE_TIMEOUT)? {
            Iperf3State::DisplayResults => {}
            state => return Err(Iperf3Error::Protocol(format!("{state:?} after results"))),
        }
        // The results are there: that the server is gone now is no matter.
        let _ = self.control.tell(Iperf3State::IperfDone);
        Ok(theirs)
    }

    fn report(&self, cookie: Cookie) -> Iperf3Report {
        let cookie = String::from_utf8_lossy(&cookie[..COOKIE - 1]).into_owned();
        Iperf3Report::begun(
            Iperf3Role::Client,
            self.options.to,
            self.began,
            cookie,
            Iperf3Parameters::of(&self.params),
        )
    }
}

/// 36 characters of the 32 that iperf3 takes, and a zero.
fn cookie() -> Cookie {
    const LETTERS: &[u8; 32] = b"abcdefghijklmnopqrstuvwxyz234567";
    let mut cookie = [0; COOKIE];
    for part in cookie[..COOKIE - 1].chunks_mut(12) {
        // Keyed with what the system gives as random.
        let mut random = RandomState::new().build_hasher().finish();
        for letter in part {
            *letter = LETTERS[(random & 31) as usize];
            random >>= 5;
        }
    }
    cookie
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read as _;
    use std::net::TcpListener;

    /// A server that says nothing more once data flow (`until` 2), or after the cookie (`until` 0).
    fn silent_server(until: u8) -> (SocketAddr, std::thread::JoinHandle<u64>) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let at = listener.local_addr().unwrap();
        let run = std::thread::spawn(move || {
            let (mut control, _) = listener.accept().unwrap();
            control.read_exact(&mut [0; COOKIE]).unwrap();
            let mut moved = 0;
            if until == Iperf3State::TestRunning.octet() {
                control.write_all(&[Iperf3State::ParamExchange.octet()]).unwrap();
                let mut length = [0; 4];
                control.read_exact(&mut length).unwrap();
                control.read_exact(&mut vec![0; u32::from_be_bytes(length) as usize]).unwrap();
                control.write_all(&[Iperf3State::CreateStreams.octet()]).unwrap();
                let (mut data, _) = listener.accept().unwrap();
                data.read_exact(&mut [0; COOKIE]).unwrap();
                control.write_all(&[Iperf3State::TestStart.octet(), until]).unwrap();
                let mut bytes = vec![0; 1 << 16];
                while let Ok(length @ 1..) = data.read(&mut bytes) {
                    moved += length as u64;
                }
            }
            // Until the client is gone.
            let _ = control.read_to_end(&mut Vec::new());
            moved
        });
        (at, run)
    }

    /// A server whose answer comes after a second takes all else from that port for data.
    #[test]
    fn first_words_are_said_once_from_a_port_and_a_late_answer_counts() {
        let server = UdpSocket::bind("127.0.0.1:0").unwrap();
        let to = server.local_addr().unwrap();
        let run = std::thread::spawn(move || {
            let mut buffer = [0; 64];
            let mut hear =
                || server.recv_from(&mut buffer).map(|(length, from)| (buffer[..length].to_vec(), from));
            let (first, second) = (hear().unwrap(), hear().unwrap());
            assert!(first.0 == HELLO && second.0 == HELLO && first.1 != second.1);
            for (_, from) in [&first, &second] {
                server.send_to(&super::super::datagram::REPLY, from).unwrap();
            }
            // Until a datagram of another kind, which the client sends behind all it says.
            let rest: Vec<_> = std::iter::from_fn(|| hear().ok().filter(|said| said.0 != b"end")).collect();
            (first.1, second.1, rest)
        });
        let mut greeted = Greeted::default();
        let one = greeted.stream(to, Size::from_bytes(1 << 20)).unwrap();
        let two = greeted.stream(to, Size::from_bytes(1 << 20)).unwrap();
        two.send(b"end").unwrap();
        let (first, second, rest) = run.join().unwrap();
        assert_eq!((one.local_addr().unwrap(), two.local_addr().unwrap()), (first, second));
        assert!(rest.iter().all(|(_, from)| ![first, second].contains(from)), "{rest:?}");
    }

    fn run_and_stop(at: SocketAddr) -> (Result<Iperf3Report, Iperf3Error>, Duration) {
        let stop = AtomicBool::new(false);
        let mut options = Iperf3ClientOptions::new(at);
        options.params.rate = Rate::from_bits_per_second(100_000_000);
        std::thread::scope(|scope| {
            let asked = scope.spawn(|| {
                std::thread::sleep(Duration::from_millis(300));
                stop.store(true, Relaxed);
                Instant::now()
            });
            let report = run(&options, &stop, &mut |_| {});
            (report, asked.join().unwrap().elapsed())
        })
    }

    #[test]
    fn a_server_that_falls_silent_costs_neither_the_counts_nor_the_patience_of_who_interrupts() {
        let (at, server) = silent_server(Iperf3State::TestRunning.octet());
        let (report, waited) = run_and_stop(at);
        let report = report.unwrap();
        assert!(
            report.error.as_ref().is_some_and(|error| error.contains("no results of the server")),
            "{report:?}"
        );
        assert!(report.streams[0].here.bytes > 0 && report.streams[0].there.is_none(), "{report:?}");
        // It was 20 s, and more.
        assert!(waited < MESSAGE_TIMEOUT, "{waited:?}");
        assert_eq!(server.join().unwrap(), report.streams[0].here.bytes);
        let (at, server) = silent_server(0);
        let (report, waited) = run_and_stop(at);
        assert!(matches!(report, Err(Iperf3Error::Interrupted)), "{report:?}");
        assert!(waited < MESSAGE_TIMEOUT, "{waited:?}");
        server.join().unwrap();
    }

    #[test]
    fn cookies_are_letters_and_differ() {
        let (one, two) = (cookie(), cookie());
        assert!(one != two && one[COOKIE - 1] == 0);
        assert!(one[..COOKIE - 1].iter().all(u8::is_ascii_alphanumeric));
    }
}
