//! How a client reaches a server, and connects once more for data.

use super::connection::Connection;
use super::data::DataStream;
use super::message::{Answer, Ask, NO_SERVER, PeerError};
use crate::auth::Token;
use skyhaul_core::hint::Hint;
use skyhaul_io::address::system_text;
use skyhaul_io::tcp::setup::connect_in_small_segments;
use std::io::{self, ErrorKind};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

/// Time for one address if there are several.
const NEXT_ADDRESS_TIMEOUT: Duration = Duration::from_secs(3);
/// Largest segment of a control connection, with its options: a packet of at most 460 bytes with IPv6. Where longer packets vanish
/// silently, a measurement must still be able to say so.
const MAX_SEGMENT_BYTES: u32 = 400;

/// Connects to the server at `to`; both ends prove the token. Messages are sent in small segments, which pass where long packets
/// do not.
///
/// # Errors
/// It cannot be reached, is no server of skyhaul, has another version or another token, or is full.
pub fn connect(to: SocketAddr, token: &Token, within: Duration) -> Result<Connection, PeerError> {
    let patience = within.max(Duration::from_millis(1));
    let connection = reach(to, token, within, || connect_in_small_segments(to, MAX_SEGMENT_BYTES, patience))?;
    connection.insist();
    Ok(connection)
}

fn reach(
    to: SocketAddr,
    token: &Token,
    within: Duration,
    connected: impl FnOnce() -> io::Result<TcpStream>,
) -> Result<Connection, PeerError> {
    let end = Instant::now() + within;
    let failed = |error: io::Error| {
        let hint = match error.kind() {
            ErrorKind::ConnectionRefused => Some(NO_SERVER),
            ErrorKind::TimedOut => Some(Hint("check that the host is up and that no firewall is in between")),
            _ => None,
        };
        let hint = hint.map_or_else(String::new, |hint| hint.to_string());
        io::Error::new(error.kind(), format!("connect to {to}: {}{hint}", system_text(&error)))
    };
    let stream = connected().map_err(failed)?;
    let mut connection = Connection::client(stream)?;
    connection.greet(token, end)?;
    Ok(connection)
}

/// Connect to the first of the addresses of one server that answers.
///
/// # Errors
/// None does: what the last one said, or all of them if there are several.
pub fn connect_any(to: &[SocketAddr], token: &Token, within: Duration) -> Result<Connection, PeerError> {
    let mut said: Vec<String> = Vec::new();
    for (at, address) in to.iter().enumerate() {
        // Another address is tried soon.
        let wait = if at + 1 < to.len() { within.min(NEXT_ADDRESS_TIMEOUT) } else { within };
        match connect(*address, token, wait) {
            Err(PeerError::Io(error)) if to.len() > 1 => said.push(error.to_string()),
            Err(error @ PeerError::Late { .. }) if at + 1 < to.len() => said.push(error.to_string()),
            other => return other,
        }
    }
    let error = if said.is_empty() { "the server has no address".to_owned() } else { said.join("\n") };
    Err(PeerError::Io(io::Error::other(error)))
}

/// Connects once more, as a further connection of a service that gave out `cookie`, for data that are `encrypted` or not, as the
/// service wants them. The stream is the caller's own.
///
/// # Errors
/// As [`connect`], or the cookie is unknown.
pub fn attach(
    to: SocketAddr,
    token: &Token,
    cookie: &str,
    encrypted: bool,
    within: Duration,
) -> Result<DataStream, PeerError> {
    // It is for data, in segments as long as the path takes.
    let plain = || TcpStream::connect_timeout(&to, within.max(Duration::from_millis(1)));
    let mut connection = reach(to, token, within, plain)?;
    connection.send(&Ask::Attach { cookie: cookie.to_owned(), encrypted })?;
    match connection.receive::<Answer>(within)? {
        Answer::Go => connection.into_data(encrypted),
        Answer::Refused { why } => Err(PeerError::Refused { peer: to, why }),
        Answer::Queued(_) => Err(connection.unexpected("a place in the line")),
    }
}
