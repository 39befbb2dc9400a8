//! The control connection: a cookie, states, and JSON behind its length; everything with a deadline and a bound.

use super::error::Iperf3Error;
use super::params::Params;
use super::results::Results;
use super::state::State;
use serde_json::Value;
use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

/// 36 characters and a zero octet: every connection of a test begins with the same one.
pub const COOKIE: usize = 37;
/// Longest JSON of parameters: iperf3 itself takes 8 KiB.
pub const PARAMETERS: usize = 8 << 10;
/// Longest JSON of results that a server takes: 256 streams are 64 KiB.
pub const RESULTS: usize = 256 << 10;
/// Longest JSON of results with a server's report, which a client takes if it asked for it.
pub const REPORT: usize = 16 << 20;
/// How long the other end may take for each message.
pub const PATIENCE: Duration = Duration::from_secs(10);

/// The cookie of a test.
pub type Cookie = [u8; COOKIE];

/// One end of a control connection.
#[derive(Debug)]
pub struct Control {
    stream: TcpStream,
}

impl Control {
    /// Take over a connection on which the cookie was sent, or received.
    ///
    /// # Errors
    /// A system error.
    pub fn new(stream: TcpStream) -> io::Result<Self> {
        stream.set_nonblocking(false)?;
        stream.set_nodelay(true)?;
        Ok(Self { stream })
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
    pub fn tell(&mut self, state: State) -> Result<(), Iperf3Error> {
        self.put(&[state.octet()])
    }

    /// Tell a client that the test failed, and why.
    pub fn tell_error(&mut self, code: u32) {
        let mut message = vec![State::ServerError.octet()];
        message.extend(code.to_be_bytes());
        message.extend(0u32.to_be_bytes());
        // It is the end in any case.
        let _ = self.put(&message);
    }

    /// The next state, if one comes within `wait`.
    ///
    /// # Errors
    /// The other end is gone, or sent no state.
    pub fn hear(&mut self, wait: Duration) -> Result<Option<State>, Iperf3Error> {
        let mut octet = [0];
        match self.fill(&mut octet, wait) {
            Ok(()) => {}
            Err(Iperf3Error::Silent) => return Ok(None),
            Err(error) => return Err(error),
        }
        match State::read(octet[0]) {
            Some(state) => Ok(Some(state)),
            None => Err(Iperf3Error::Protocol(format!("{} is no state", octet[0].cast_signed()))),
        }
    }

    /// The two numbers behind [`State::ServerError`].
    ///
    /// # Errors
    /// They do not come.
    pub fn hear_error(&mut self) -> Result<u32, Iperf3Error> {
        let mut numbers = [0; 8];
        self.fill(&mut numbers, PATIENCE)?;
        Ok(u32::from_be_bytes([numbers[0], numbers[1], numbers[2], numbers[3]]))
    }

    /// Send JSON behind its length.
    ///
    /// # Errors
    /// The other end does not take it.
    pub fn send(&mut self, json: &Value) -> Result<(), Iperf3Error> {
        let text = json.to_string();
        let length = u32::try_from(text.len()).map_err(|_| Iperf3Error::TooLong(text.len(), REPORT))?;
        let message = [&length.to_be_bytes(), text.as_bytes()].concat();
        self.put(&message)
    }

    /// Receive JSON of at most `most` bytes. Its length is judged before anything is set aside for it.
    ///
    /// # Errors
    /// It is too long, does not come in time, or is no JSON.
    pub fn receive(&mut self, most: usize) -> Result<Value, Iperf3Error> {
        let mut length = [0; 4];
        self.fill(&mut length, PATIENCE)?;
        let mut text = vec![0; judged(length, most)?];
        self.fill(&mut text, PATIENCE)?;
        serde_json::from_slice(&text).map_err(|error| Iperf3Error::Protocol(error.to_string()))
    }

    /// Write all of it within [`PATIENCE`], and a second more for each 64 KiB: a peer that takes an octet now and then holds
    /// nothing up.
    fn put(&mut self, octets: &[u8]) -> Result<(), Iperf3Error> {
        let until = Instant::now() + PATIENCE + Duration::from_secs(octets.len() as u64 >> 16);
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

    /// Read exactly so many octets within `wait`.
    fn fill(&mut self, into: &mut [u8], wait: Duration) -> Result<(), Iperf3Error> {
        let until = Instant::now() + wait;
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

fn judged(length: [u8; 4], most: usize) -> Result<usize, Iperf3Error> {
    let length = usize::try_from(u32::from_be_bytes(length)).unwrap_or(usize::MAX);
    if length == 0 || length > most {
        return Err(Iperf3Error::TooLong(length, most));
    }
    Ok(length)
}

/// Take bytes as what a client sends on its control connection; for the fuzzer.
pub fn fuzz(input: &[u8]) {
    let Some((length, rest)) = input.split_first_chunk::<4>() else { return };
    let _ = length.map(State::read);
    for most in [PARAMETERS, RESULTS] {
        let Ok(length) = judged(*length, most) else { continue };
        assert!(length <= most);
        let text = &rest[..length.min(rest.len())];
        let Ok(json) = serde_json::from_slice::<Value>(text) else { continue };
        if let Ok(params) = Params::read(&json) {
            assert!(params.connections() <= 256 && params.block.bytes() <= 1 << 20);
            assert_eq!(Params::read(&params.write()).as_ref(), Ok(&params));
        }
        if let Ok(results) = Results::read(&json) {
            assert!(results.streams.iter().all(|stream| stream.seconds >= 0.0));
            let _ = results.write().to_string();
        }
    }
    super::datagram::fuzz(input);
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
        there.tell(State::TestEnd).unwrap();
        assert_eq!(here.hear(PATIENCE).unwrap(), Some(State::TestEnd));
        assert_eq!(here.hear(Duration::from_millis(1)).unwrap(), None);
        there.send(&serde_json::json!({"a": 1})).unwrap();
        assert_eq!(here.receive(100).unwrap()["a"], 1);
        there.stream.write_all(&u32::MAX.to_be_bytes()).unwrap();
        assert!(matches!(here.receive(PARAMETERS), Err(Iperf3Error::TooLong(_, PARAMETERS))));
        there.stream.write_all(&[0, 0, 0, 2, b'{', b'x']).unwrap();
        assert!(matches!(here.receive(PARAMETERS), Err(Iperf3Error::Protocol(_))));
        there.stream.write_all(&[99]).unwrap();
        assert!(matches!(here.hear(PATIENCE), Err(Iperf3Error::Protocol(_))));
        here.tell_error(7);
        assert_eq!(there.hear(PATIENCE).unwrap(), Some(State::ServerError));
        assert_eq!(there.hear_error().unwrap(), 7);
        drop(there);
        assert!(matches!(here.hear(PATIENCE), Err(Iperf3Error::Gone)));
    }

    #[test]
    fn the_fuzzer_takes_what_a_client_sends() {
        for json in [Params::default().write(), Results::default().write()] {
            let text = json.to_string();
            let length = u32::try_from(text.len()).unwrap().to_be_bytes();
            fuzz(&[&length, text.as_bytes()].concat());
        }
        fuzz(&[0xFF; 40]);
    }
}
