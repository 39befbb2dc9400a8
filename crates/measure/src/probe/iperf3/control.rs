//! The control connection: a cookie, states of one byte, numbers of errors, and JSON behind its length. Everything has a deadline
//! and a bound.

use serde_json::Value;
use skyhaul_core::framing;
use skyhaul_core::framing::frame;
use skyhaul_core::hint::Hint;
use std::io;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

/// 36 characters and a zero byte: every connection of a test begins with the same one.
pub const COOKIE: usize = 37;
/// Longest JSON of parameters: iperf3 itself takes 8 KiB.
pub const PARAMETERS: usize = 8 << 10;
/// Longest JSON of results that a server takes: 256 streams are 64 KiB.
pub const RESULTS: usize = 256 << 10;
/// Longest JSON of results with a server's report, which a client takes if it asked for it.
pub const REPORT: usize = 16 << 20;
/// How long the other end may take for each message.
pub const MESSAGE_TIMEOUT: Duration = Duration::from_secs(10);

/// The cookie of a test.
pub type Cookie = [u8; COOKIE];

/// One end of a control connection.
#[derive(Debug)]
pub struct Control {
    stream: TcpStream,
    /// No wait is longer than to this moment.
    limit: Option<Instant>,
}

impl Control {
    /// Take over a connection on which the cookie was sent, or received.
    ///
    /// # Errors
    /// A system error.
    pub fn new(stream: TcpStream) -> io::Result<Self> {
        stream.set_nonblocking(false)?;
        stream.set_nodelay(true)?;
        Ok(Self { stream, limit: None })
    }

    /// From now on nothing is waited for longer than to this moment: somebody waits for the end.
    pub(super) fn limit(&mut self, end: Instant) {
        self.limit = Some(end);
    }

    /// Whether that moment is over.
    pub(super) fn is_over(&self) -> bool {
        self.limit.is_some_and(|limit| Instant::now() >= limit)
    }

    fn capped(&self, until: Instant) -> Instant {
        self.limit.map_or(until, |limit| until.min(limit))
    }

    /// The connection itself.
    #[must_use]
    pub fn stream(&self) -> &TcpStream {
        &self.stream
    }

    /// Tell the other end a state.
    ///
    /// # Errors
    /// The other end does not take it.
    pub fn tell(&mut self, state: Iperf3State) -> Result<(), Iperf3Error> {
        self.put(&[state.octet()])
    }

    /// Tell a client that the test failed, and why.
    pub fn tell_error(&mut self, code: u32) {
        let mut message = vec![Iperf3State::ServerError.octet()];
        message.extend(code.to_be_bytes());
        message.extend(0u32.to_be_bytes());
        // It is the end in any case.
        let _ = self.put(&message);
    }

    /// The next state, if one comes within `wait`.
    ///
    /// # Errors
    /// The other end is gone, or sent no state.
    pub fn hear(&mut self, wait: Duration) -> Result<Option<Iperf3State>, Iperf3Error> {
        let mut octet = [0];
        match self.fill(&mut octet, wait) {
            Ok(()) => {}
            Err(Iperf3Error::Silent) => return Ok(None),
            Err(error) => return Err(error),
        }
        match Iperf3State::read(octet[0]) {
            Some(state) => Ok(Some(state)),
            None => Err(Iperf3Error::Protocol(format!("{} is no state", octet[0].cast_signed()))),
        }
    }

    /// The two numbers behind [`Iperf3State::ServerError`].
    ///
    /// # Errors
    /// They do not come.
    pub fn hear_error(&mut self) -> Result<u32, Iperf3Error> {
        let mut numbers = [0; 8];
        self.fill(&mut numbers, MESSAGE_TIMEOUT)?;
        Ok(u32::from_be_bytes([numbers[0], numbers[1], numbers[2], numbers[3]]))
    }

    /// Send JSON behind its length.
    ///
    /// # Errors
    /// The other end does not take it.
    pub fn send(&mut self, json: &Value) -> Result<(), Iperf3Error> {
        let text = json.to_string();
        let message = frame(&[text.as_bytes()]).ok_or(Iperf3Error::TooLong(text.len(), REPORT))?;
        self.put(&message)
    }

    /// Receive JSON of at most `most` bytes. Its length is judged before anything is set aside for it.
    ///
    /// # Errors
    /// It is too long, does not come in time, or is no JSON.
    pub fn receive(&mut self, most: usize) -> Result<Value, Iperf3Error> {
        let mut length = [0; 4];
        self.fill(&mut length, MESSAGE_TIMEOUT)?;
        let mut text = vec![0; judged(length, most)?];
        self.fill(&mut text, MESSAGE_TIMEOUT)?;
        serde_json::from_slice(&text).map_err(|error| Iperf3Error::Protocol(error.to_string()))
    }

    /// Write all of it within [`MESSAGE_TIMEOUT`], and a second more for each 64 KiB: a peer that takes an octet now and then holds
    /// nothing up.
    fn put(&mut self, octets: &[u8]) -> Result<(), Iperf3Error> {
        let until = Instant::now() + MESSAGE_TIMEOUT + Duration::from_secs(octets.len() as u64 >> 16);
        let until = self.capped(until);
        let mut at = 0;
        while at < octets.len() {
            let rest = until.saturating_duration_since(Instant::now()).max(Duration::from_millis(1));
            self.stream.set_write_timeout(Some(rest)).map_err(Iperf3Error::control)?;
            match self.stream.write(&octets[at..]) {
                Ok(0) => return Err(Iperf3Error::Gone),
                Ok(n) => at += n,
                Err(error) if is_pause(&error) && Instant::now() < until => {}
                Err(error) if is_pause(&error) => return Err(Iperf3Error::Silent),
                Err(error) => return Err(Iperf3Error::control(error)),
            }
            if Instant::now() >= until && at < octets.len() {
                return Err(Iperf3Error::Silent);
            }
        }
        Ok(())
    }

    /// Reads exactly as many bytes as fit, within `wait`.
    fn fill(&mut self, into: &mut [u8], wait: Duration) -> Result<(), Iperf3Error> {
        let until = self.capped(Instant::now() + wait);
        let mut at = 0;
        while at < into.len() {
            let rest = until.saturating_duration_since(Instant::now());
            // Having begun, an octet may come in the last moment.
            let rest = rest.max(Duration::from_millis(1));
            self.stream.set_read_timeout(Some(rest)).map_err(Iperf3Error::control)?;
            match self.stream.read(&mut into[at..]) {
                Ok(0) => return Err(Iperf3Error::Gone),
                Ok(n) => at += n,
                Err(error) if is_pause(&error) && Instant::now() < until => {}
                Err(error) if is_pause(&error) => return Err(Iperf3Error::Silent),
                Err(error) => return Err(Iperf3Error::control(error)),
            }
        }
        Ok(())
    }
}

fn is_pause(error: &io::Error) -> bool {
    use io::ErrorKind::{Interrupted, TimedOut, WouldBlock};
    matches!(error.kind(), Interrupted | TimedOut | WouldBlock)
}

pub(super) fn judged(length: [u8; 4], most: usize) -> Result<usize, Iperf3Error> {
    match framing::length(length, most) {
        Ok(0) => Err(Iperf3Error::TooLong(0, most)),
        Ok(length) => Ok(length),
        Err(length) => Err(Iperf3Error::TooLong(length, most)),
    }
}

/// A state, as it goes over the control connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(i8)]
pub enum Iperf3State {
    /// All streams are there.
    TestStart = 1,
    /// Data flow.
    TestRunning = 2,
    /// The client has had enough.
    TestEnd = 4,
    /// The client sends its parameters.
    ParamExchange = 9,
    /// The client opens its streams.
    CreateStreams = 10,
    /// The server ends the test.
    ServerTerminate = 11,
    /// The client ends the test.
    ClientTerminate = 12,
    /// Both send their results, the client first.
    ExchangeResults = 13,
    /// Both have them.
    DisplayResults = 14,
    /// Idle.
    IperfStart = 15,
    /// The end.
    IperfDone = 16,
    /// The server is busy.
    AccessDenied = -1,
    /// The server failed: its error number and that of the system follow, 4 bytes each.
    ServerError = -2,
}

impl Iperf3State {
    const ALL: [Self; 13] = [
        Self::TestStart,
        Self::TestRunning,
        Self::TestEnd,
        Self::ParamExchange,
        Self::CreateStreams,
        Self::ServerTerminate,
        Self::ClientTerminate,
        Self::ExchangeResults,
        Self::DisplayResults,
        Self::IperfStart,
        Self::IperfDone,
        Self::AccessDenied,
        Self::ServerError,
    ];

    /// Read an octet.
    #[must_use]
    pub fn read(octet: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|state| state.octet() == octet)
    }

    /// Write it.
    #[must_use]
    pub const fn octet(self) -> u8 {
        (self as i8).cast_unsigned()
    }
}

/// Numbers of errors that a server sends, as iperf3 counts them.
pub mod code {
    /// The test is too long.
    pub const DURATION: u32 = 5;
    /// Too many streams.
    pub const STREAMS: u32 = 6;
    /// The blocks are too long.
    pub const BLOCK: u32 = 7;
    /// The window is too large.
    pub const WINDOW: u32 = 8;
    /// The segment is too long.
    pub const SEGMENT: u32 = 10;
    /// The omitted time is too long.
    pub const OMIT: u32 = 12;
    /// Not implemented.
    pub const UNKNOWN: u32 = 13;
    /// The datagrams are too long or too short.
    pub const DATAGRAM: u32 = 20;
    /// The rate exceeds what the server allows.
    pub const RATE: u32 = 27;
    /// The test is longer than the server allows.
    pub const TOO_LONG_HERE: u32 = 37;
    /// A stream did not come.
    pub const ACCEPT: u32 = 104;
    /// Parameters that cannot be read.
    pub const PARAMETERS: u32 = 114;
    /// Results that cannot be read.
    pub const RESULTS: u32 = 117;
    /// The congestion control is not there.
    pub const CONGESTION: u32 = 134;
    /// Nothing came for too long.
    pub const SILENT: u32 = 144;

    /// What iperf3 says of it.
    #[must_use]
    pub fn text(code: u32) -> &'static str {
        match code {
            DURATION => "the test is too long",
            STREAMS => "too many streams",
            BLOCK => "the blocks are too long",
            WINDOW => "the window is too large",
            SEGMENT => "the largest segment is too large",
            OMIT => "the omitted time is too long",
            UNKNOWN => "not implemented there",
            DATAGRAM => "the datagrams are too long or too short",
            RATE => "the rate exceeds the server's limit",
            TOO_LONG_HERE => "the test is longer than the server allows",
            ACCEPT => "a stream did not come",
            PARAMETERS => "the parameters could not be read",
            RESULTS => "the results could not be read",
            CONGESTION => "the congestion control is not there",
            SILENT => "nothing came for too long",
            142 => "the test needs a user name and password",
            160 => "the time of the test was over",
            _ => "an error of iperf3",
        }
    }
}

/// Why a test failed.
#[derive(Debug, thiserror::Error)]
pub enum Iperf3Error {
    /// A system call on the control connection.
    #[error("control connection: {0}")]
    Control(#[source] io::Error),
    /// A system call on a stream; its text names the operation and the address.
    #[error("{0}")]
    Stream(#[source] io::Error),
    /// The other end closed the control connection.
    #[error("the other end closed the control connection")]
    Gone,
    /// It was to end before data flowed.
    #[error("interrupted before the test began")]
    Interrupted,
    /// The other end said nothing for too long.
    #[error("the other end did not respond in time")]
    Silent,
    /// What came is not what the protocol says.
    #[error("not the iperf3 protocol: {0}{hint}", hint = Hint("the other end must be iperf3 3.1 or later"))]
    Protocol(String),
    /// A message that is longer than allowed: its length, and the most.
    #[error("a message of {0} bytes exceeds the limit of {1}")]
    TooLong(usize, usize),
    /// The server runs another test.
    #[error(
        "the server is busy with another test{}",
        Hint("iperf3 serves one client at a time; try again later")
    )]
    Busy,
    /// The server refused, or failed.
    #[error("the server failed: {text} (error {0} of iperf3)", text = code::text(*.0))]
    Server(u32),
    /// The other end ended the test.
    #[error("the other end ended the test")]
    Terminated,
    /// What is asked for is refused here.
    #[error("{text}")]
    Refused {
        /// The number for the other end.
        code: u32,
        /// Why.
        text: String,
    },
}

impl Iperf3Error {
    pub(super) fn control(error: io::Error) -> Self {
        use io::ErrorKind::{BrokenPipe, ConnectionAborted, ConnectionReset};
        match error.kind() {
            BrokenPipe | ConnectionAborted | ConnectionReset => Self::Gone,
            _ => Self::Control(error),
        }
    }

    /// The number to tell the other end, if it is worth telling.
    pub(super) fn code(&self) -> Option<u32> {
        match self {
            Self::Refused { code, .. } => Some(*code),
            Self::Stream(_) => Some(code::ACCEPT),
            Self::Silent => Some(code::SILENT),
            Self::Protocol(_) | Self::TooLong(..) => Some(code::PARAMETERS),
            Self::Control(_)
            | Self::Gone
            | Self::Busy
            | Self::Server(_)
            | Self::Terminated
            | Self::Interrupted => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;

    fn pair() -> (Control, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let stream = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        (Control::new(listener.accept().unwrap().0).unwrap(), stream)
    }

    #[test]
    fn states_and_json_arrive_and_a_length_is_judged_before_memory_is_set_aside() {
        let (mut here, there) = pair();
        let mut there = Control::new(there).unwrap();
        there.tell(Iperf3State::TestEnd).unwrap();
        assert_eq!(here.hear(MESSAGE_TIMEOUT).unwrap(), Some(Iperf3State::TestEnd));
        assert_eq!(here.hear(Duration::from_millis(1)).unwrap(), None);
        there.send(&serde_json::json!({"a": 1})).unwrap();
        assert_eq!(here.receive(100).unwrap()["a"], 1);
        there.stream.write_all(&u32::MAX.to_be_bytes()).unwrap();
        assert!(matches!(here.receive(PARAMETERS), Err(Iperf3Error::TooLong(_, PARAMETERS))));
        there.stream.write_all(&[0, 0, 0, 2, b'{', b'x']).unwrap();
        assert!(matches!(here.receive(PARAMETERS), Err(Iperf3Error::Protocol(_))));
        there.stream.write_all(&[99]).unwrap();
        assert!(matches!(here.hear(MESSAGE_TIMEOUT), Err(Iperf3Error::Protocol(_))));
        here.tell_error(7);
        assert_eq!(there.hear(MESSAGE_TIMEOUT).unwrap(), Some(Iperf3State::ServerError));
        assert_eq!(there.hear_error().unwrap(), 7);
        drop(there);
        assert!(matches!(here.hear(MESSAGE_TIMEOUT), Err(Iperf3Error::Gone)));
    }

    #[test]
    fn states_are_the_octets_of_iperf3() {
        for octet in 0..=255 {
            if let Some(state) = Iperf3State::read(octet) {
                assert_eq!(state.octet(), octet);
            }
        }
        assert_eq!(Iperf3State::read(0xFF), Some(Iperf3State::AccessDenied));
        assert_eq!(Iperf3State::read(0xFE), Some(Iperf3State::ServerError));
        assert_eq!((Iperf3State::read(3), Iperf3State::read(0)), (None, None));
    }
}
