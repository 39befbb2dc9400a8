//! What a connection is, by its first bytes: so this protocol shares a port with others, HTTP in plain text or TLS among them.
//!
//! A client of this protocol begins TLS at once, with a hello that takes the key of the server as a raw public key and nothing else
//! (RFC 7250). Clients that check certificates cannot be served with such a key, and send no such hello.
//!
//! Limits: a hello of one record of at most 4 KiB; those of this program have less than 1 KiB.

use rustls::server::{Acceptor, CertificateType};

/// Head of a record of TLS.
const RECORD_HEAD_BYTES: usize = 5;
/// Type of a record with a hello.
const HANDSHAKE: u8 = 22;
/// Longest hello.
const MAX_HELLO_BYTES: usize = 4 << 10;
/// As many bytes of a connection always say what it is.
pub const MAX_FIRST_BYTES: usize = RECORD_HEAD_BYTES + MAX_HELLO_BYTES;

/// What a connection is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FirstBytes {
    /// More bytes are needed to know.
    Few,
    /// A client of this protocol.
    Peer,
    /// Something else.
    Other,
}

impl FirstBytes {
    /// Judges what has arrived so far.
    #[must_use]
    pub fn of(bytes: &[u8]) -> Self {
        match *bytes {
            [] | [HANDSHAKE] | [HANDSHAKE, 3] | [HANDSHAKE, 3, _] | [HANDSHAKE, 3, _, _] => Self::Few,
            [HANDSHAKE, 3, _, high, low, ..] => {
                let length = usize::from(u16::from_be_bytes([high, low]));
                match bytes.get(..RECORD_HEAD_BYTES + length) {
                    _ if length > MAX_HELLO_BYTES => Self::Other,
                    None => Self::Few,
                    Some(record) if takes_raw_keys_only(record) => Self::Peer,
                    Some(_) => Self::Other,
                }
            }
            _ => Self::Other,
        }
    }
}

fn takes_raw_keys_only(mut record: &[u8]) -> bool {
    let mut acceptor = Acceptor::default();
    while !record.is_empty() {
        if !matches!(acceptor.read_tls(&mut record), Ok(1..)) {
            return false;
        }
    }
    let Ok(Some(accepted)) = acceptor.accept() else { return false };
    let types = accepted.client_hello().server_cert_types();
    types.is_some_and(|types| {
        !types.is_empty() && types.iter().all(|one| *one == CertificateType::RawPublicKey)
    })
}
