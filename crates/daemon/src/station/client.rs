//! Calls of a station's HTTP API, for commands: one connection for each.
//!
//! Limits: a reply has at most [`MAX_REPLY_BYTES`] bytes; nothing may be silent for longer than the timeout.

use serde_json::Value;
use skyhaul::core::hint::Hint;
use std::io::{self, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::time::Duration;

/// Maximum size of a reply, bytes.
pub const MAX_REPLY_BYTES: u64 = 64 << 20;
/// Maximum time until a connection stands.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// Why a call has no result.
#[derive(Debug, thiserror::Error)]
pub enum StationCallError {
    /// The address is not that of a station.
    #[error("expected http://HOST:PORT, got `{0}`{hint}", hint = Hint("such as http://127.0.0.1:8088"))]
    Address(String),
    /// It cannot be reached.
    #[error("{address}: {error}{hint}", hint = Hint("is `skyhaul serve` running there?"))]
    Io {
        /// Its address.
        address: String,
        /// The system error.
        #[source]
        error: io::Error,
    },
    /// It answered something else.
    #[error("{0} does not answer as a station does")]
    NoStation(String),
    /// It refused.
    #[error("{text}")]
    Refused {
        /// The HTTP status.
        status: u16,
        /// Name of the refusal, which does not change.
        code: String,
        /// The reason and what to do.
        text: String,
    },
}

/// A station, by its address and token.
#[derive(Clone, Debug)]
pub struct StationClient {
    authority: String,
    token: Option<String>,
    timeout: Duration,
}

impl StationClient {
    /// A station at `http://HOST:PORT`.
    ///
    /// # Errors
    /// The text is no such address.
    pub fn new(url: &str, token: Option<String>, timeout: Duration) -> Result<Self, StationCallError> {
        let authority = url.strip_prefix("http://").unwrap_or(url).trim_end_matches('/');
        let wrong = || StationCallError::Address(url.chars().take(200).collect());
        let (host, port) = authority.rsplit_once(':').ok_or_else(wrong)?;
        let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b".-:[]".contains(&byte);
        if host.is_empty() || !host.bytes().all(is_plain) || port.parse::<u16>().is_err() {
            return Err(wrong());
        }
        Ok(Self { authority: authority.to_owned(), token, timeout })
    }

    /// Calls `GET path`.
    ///
    /// # Errors
    /// The station cannot be reached, or refuses.
    pub fn get(&self, path: &str) -> Result<Value, StationCallError> {
        self.call("GET", path, "")
    }

    /// Calls `POST path` with a body.
    ///
    /// # Errors
    /// The station cannot be reached, or refuses.
    pub fn post(&self, path: &str, body: &Value) -> Result<Value, StationCallError> {
        self.call("POST", path, &body.to_string())
    }

    /// Calls `DELETE path`.
    ///
    /// # Errors
    /// The station cannot be reached, or refuses.
    pub fn delete(&self, path: &str) -> Result<Value, StationCallError> {
        self.call("DELETE", path, "")
    }

    fn call(&self, method: &str, path: &str, body: &str) -> Result<Value, StationCallError> {
        let failed = |error| StationCallError::Io { address: self.authority.clone(), error };
        let reply = self.exchange(method, path, body).map_err(failed)?;
        let (status, body) =
            parts(&reply).ok_or_else(|| StationCallError::NoStation(self.authority.clone()))?;
        let value: Option<Value> = serde_json::from_slice(body).ok();
        match (status, value) {
            (200..300, Some(value)) => Ok(value),
            (_, Some(value)) if value["error"]["message"].is_string() => {
                let text = |key: &str| value["error"][key].as_str().unwrap_or_default().to_owned();
                let hint = text("hint");
                let hint = if hint.is_empty() { hint } else { Hint(hint).to_string() };
                Err(StationCallError::Refused { status, code: text("code"), text: text("message") + &hint })
            }
            _ => Err(StationCallError::NoStation(self.authority.clone())),
        }
    }

    /// HTTP/1.0: the reply ends with the connection, and has no chunks.
    fn exchange(&self, method: &str, path: &str, body: &str) -> io::Result<Vec<u8>> {
        let mut last = io::Error::new(io::ErrorKind::NotFound, "the name has no address");
        for address in self.authority.to_socket_addrs()? {
            let mut stream = match TcpStream::connect_timeout(&address, CONNECT_TIMEOUT) {
                Ok(stream) => stream,
                Err(error) => {
                    last = error;
                    continue;
                }
            };
            stream.set_read_timeout(Some(self.timeout))?;
            stream.set_write_timeout(Some(self.timeout))?;
            let token = self
                .token
                .as_ref()
                .map_or_else(String::new, |token| format!("Authorization: Bearer {token}\r\n"));
            let (host, length) = (&self.authority, body.len());
            let head = format!(
                "{method} {path} HTTP/1.0\r\nHost: {host}\r\n{token}Content-Type: application/json\r\nContent-Length: {length}\r\n\r\n"
            );
            stream.write_all(head.as_bytes())?;
            stream.write_all(body.as_bytes())?;
            let mut reply = Vec::new();
            stream.take(MAX_REPLY_BYTES).read_to_end(&mut reply)?;
            return Ok(reply);
        }
        Err(last)
    }
}

/// Status and body of a reply.
fn parts(reply: &[u8]) -> Option<(u16, &[u8])> {
    let end = reply.windows(4).position(|four| four == b"\r\n\r\n")?;
    let head = std::str::from_utf8(&reply[..end]).ok()?;
    let status = head.strip_prefix("HTTP/1.")?.split(' ').nth(1)?.parse().ok()?;
    Some((status, &reply[end + 4..]))
}
