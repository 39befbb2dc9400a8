//! Further connections of a service, for data: plain bytes, or encrypted by the TLS in which they were admitted.

use super::channel::Channel;
use super::message::PeerError;
use std::io::{self, ErrorKind, Read};
use std::net::TcpStream;

/// A connection for data in one direction.
pub struct DataStream(Kind);

enum Kind {
    Plain(TcpStream),
    Encrypted(Box<Channel>),
}

impl std::fmt::Debug for DataStream {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("DataStream").field("encrypted", &self.is_encrypted()).finish_non_exhaustive()
    }
}

impl DataStream {
    /// Of a channel behind whose last message there are only data.
    pub(super) fn of(channel: Channel, encrypted: bool) -> Result<Self, PeerError> {
        channel.socket().set_read_timeout(None)?;
        channel.socket().set_write_timeout(None)?;
        Ok(Self(match encrypted {
            true => Kind::Encrypted(Box::new(channel)),
            false => Kind::Plain(channel.into_socket()?),
        }))
    }

    /// The socket below: for its timeouts and counters. What is written to it directly is not encrypted.
    #[must_use]
    pub fn socket(&self) -> &TcpStream {
        match &self.0 {
            Kind::Plain(socket) => socket,
            Kind::Encrypted(channel) => channel.socket(),
        }
    }

    /// Whether the data are encrypted.
    #[must_use]
    pub fn is_encrypted(&self) -> bool {
        matches!(self.0, Kind::Encrypted(_))
    }

    /// The socket, and what encrypts the bytes that are sent to it, if they are.
    ///
    /// # Errors
    /// The system has no descriptor left.
    pub fn into_sender(self) -> io::Result<(TcpStream, Option<Encryptor>)> {
        Ok(match self.0 {
            Kind::Plain(socket) => (socket, None),
            Kind::Encrypted(channel) => {
                let socket = channel.socket().try_clone()?;
                (socket, Some(Encryptor { channel, records: Vec::new() }))
            }
        })
    }
}

impl Read for DataStream {
    /// Reads bytes, decrypted if they are encrypted. An end says nothing of whether all has come: services say that on their control
    /// connection.
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let channel = match &mut self.0 {
            Kind::Plain(socket) => return socket.read(into),
            Kind::Encrypted(channel) => channel,
        };
        let mut one = || -> Result<Option<usize>, PeerError> {
            loop {
                match channel.take(into)? {
                    0 if !into.is_empty() => {}
                    n => return Ok(Some(n)),
                }
                if !channel.read()? {
                    return Ok(None);
                }
            }
        };
        match one() {
            Ok(Some(n)) => Ok(n),
            Ok(None) => Err(ErrorKind::WouldBlock.into()),
            Err(PeerError::Closed(_)) => Ok(0),
            Err(PeerError::Truncated(_)) => Err(ErrorKind::UnexpectedEof.into()),
            Err(PeerError::Io(error)) => Err(error),
            Err(error) => Err(io::Error::new(ErrorKind::InvalidData, error.to_string())),
        }
    }
}

/// Encrypts what is sent on one connection. When it is dropped, the peer is notified that nothing more comes: keep it until all records
/// are sent.
pub struct Encryptor {
    channel: Box<Channel>,
    records: Vec<u8>,
}

impl std::fmt::Debug for Encryptor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Encryptor(..)")
    }
}

impl Encryptor {
    /// Returns the records of TLS that carry `bytes`: they must be sent completely, and in this order.
    ///
    /// # Errors
    /// TLS has encrypted as much as it may with one key.
    pub fn records(&mut self, bytes: &[u8]) -> io::Result<&[u8]> {
        self.records.clear();
        self.channel.encrypt(bytes, &mut self.records)?;
        Ok(&self.records)
    }
}
