//! TLS 1.3 on a blocking socket, one record at a time.
//!
//! ```text
//!   socket ── head (5 bytes) ── rest of this record ──▶ rustls ── plaintext of it ──▶ Frames
//! ```
//!
//! No more is read than the record at hand still needs: so a socket can be handed on behind a record, a record that is longer than TLS
//! permits is refused by its head, and rustls never holds more than one. Its buffers are bounded: one record arriving, 64 KiB leaving,
//! and before the proof [`MAX_HANDSHAKE_BYTES`] from a client in all.
//!
//! There are no session tickets and no resumption, so every connection has a handshake and a channel binding of its own.

use super::message::{PeerError, READ_BYTES};
use crate::auth::{BINDING_BYTES, Fingerprint, ServerKey};
use rustls::client::Resumption;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::ring::{cipher_suite, default_provider, kx_group};
use rustls::crypto::{CryptoProvider, WebPkiSupportedAlgorithms, verify_tls13_signature_with_raw_key};
use rustls::pki_types::{CertificateDer, ServerName, SubjectPublicKeyInfoDer, UnixTime};
use rustls::server::{AlwaysResolvesServerRawPublicKeys, NoServerSessionStorage};
use rustls::version::TLS13;
use rustls::{
    AlertDescription, ClientConfig, ClientConnection, DigitallySignedStruct, ServerConfig, ServerConnection,
    SignatureScheme,
};
use std::io::{self, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::ops::Range;
use std::sync::{Arc, LazyLock};
use std::time::{Duration, Instant};

/// Head of a record.
const RECORD_HEAD_BYTES: usize = 5;
/// Longest ciphertext of a record (RFC 8446, 5.2).
const MAX_RECORD_BYTES: usize = (16 << 10) + 256;
/// Types of records: change of the cipher (which TLS 1.3 ignores), alert, handshake, data.
const RECORD_TYPES: std::ops::RangeInclusive<u8> = 20..=23;
/// Plaintext that rustls takes before it is sent.
const SEND_BUFFER_BYTES: usize = 64 << 10;
/// Most bytes of a client before it has proved the token. Those of this program are less than 1 KiB.
pub(super) const MAX_HANDSHAKE_BYTES: u64 = 8 << 10;
/// The channel binding of TLS 1.3 (RFC 9266).
const BINDING_LABEL: &[u8] = b"EXPORTER-Channel-Binding";

/// AES-128 first, which is fastest.
fn provider() -> CryptoProvider {
    CryptoProvider {
        cipher_suites: vec![
            cipher_suite::TLS13_AES_128_GCM_SHA256,
            cipher_suite::TLS13_AES_256_GCM_SHA384,
            cipher_suite::TLS13_CHACHA20_POLY1305_SHA256,
        ],
        kx_groups: vec![kx_group::X25519, kx_group::SECP256R1],
        ..default_provider()
    }
}

/// Takes the key of any server that has its private half; whether it is the right one is judged before anything is sent to it.
#[derive(Debug)]
struct AnyKey(WebPkiSupportedAlgorithms);

impl ServerCertVerifier for AnyKey {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        Err(rustls::Error::General("only TLS 1.3".into()))
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        key: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let key = SubjectPublicKeyInfoDer::from(key.as_ref());
        verify_tls13_signature_with_raw_key(message, &key, signed, &self.0)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        vec![SignatureScheme::ED25519]
    }

    fn requires_raw_public_keys(&self) -> bool {
        true
    }
}

/// The same for all connections of all clients; `None`: rustls has no TLS 1.3, which it has.
static CLIENT: LazyLock<Option<Arc<ClientConfig>>> = LazyLock::new(|| {
    let provider = provider();
    let algorithms = provider.signature_verification_algorithms;
    let builder =
        ClientConfig::builder_with_provider(Arc::new(provider)).with_protocol_versions(&[&TLS13]).ok()?;
    let any_key = Arc::new(AnyKey(algorithms));
    let mut config = builder.dangerous().with_custom_certificate_verifier(any_key).with_no_client_auth();
    config.resumption = Resumption::disabled();
    config.enable_sni = false;
    Some(Arc::new(config))
});

/// What a server does in TLS: it shows its key, and keeps nothing of a connection.
pub(super) fn server_config(key: &ServerKey) -> Result<Arc<ServerConfig>, PeerError> {
    let builder = ServerConfig::builder_with_provider(Arc::new(provider())).with_protocol_versions(&[&TLS13]);
    let builder = builder.map_err(io::Error::other)?;
    let resolver = Arc::new(AlwaysResolvesServerRawPublicKeys::new(key.certified()));
    let mut config = builder.with_no_client_auth().with_cert_resolver(resolver);
    config.session_storage = Arc::new(NoServerSessionStorage {});
    config.send_tls13_tickets = 0;
    Ok(Arc::new(config))
}

/// One end of a connection with TLS.
pub(super) struct Channel {
    socket: TcpStream,
    peer: SocketAddr,
    tls: rustls::Connection,
    /// The record that is arriving.
    record: Vec<u8>,
    /// Bytes that arrived, and how many may.
    arrived: u64,
    most: u64,
    /// Whether the socket is used without TLS from here on.
    handed_on: bool,
}

impl Channel {
    pub(super) fn client(socket: TcpStream, peer: SocketAddr) -> Result<Self, PeerError> {
        let config = CLIENT.clone().ok_or_else(|| io::Error::other("this program has no TLS 1.3"))?;
        // The name is not sent, and nothing in the server's key is compared with it.
        let name = ServerName::from(peer.ip());
        let tls = ClientConnection::new(config, name).map_err(io::Error::other)?;
        Ok(Self::new(socket, peer, tls.into(), u64::MAX))
    }

    pub(super) fn server(
        socket: TcpStream,
        peer: SocketAddr,
        config: &Arc<ServerConfig>,
    ) -> Result<Self, PeerError> {
        let tls = ServerConnection::new(config.clone()).map_err(io::Error::other)?;
        Ok(Self::new(socket, peer, tls.into(), MAX_HANDSHAKE_BYTES))
    }

    fn new(socket: TcpStream, peer: SocketAddr, mut tls: rustls::Connection, most: u64) -> Self {
        tls.set_buffer_limit(Some(SEND_BUFFER_BYTES));
        Self { socket, peer, tls, record: Vec::new(), arrived: 0, most, handed_on: false }
    }

    pub(super) fn socket(&self) -> &TcpStream {
        &self.socket
    }

    /// Bytes that arrived so far.
    pub(super) fn arrived(&self) -> u64 {
        self.arrived
    }

    /// The peer has proved the token, and may send as much as it likes.
    pub(super) fn trust(&mut self) {
        self.most = u64::MAX;
    }

    /// Both ends of TLS: afterwards what is sent is encrypted.
    pub(super) fn handshake(&mut self, end: Instant) -> Result<(), PeerError> {
        let begun = Instant::now();
        loop {
            self.flush(end)?;
            if !self.tls.is_handshaking() {
                return Ok(());
            }
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(self.late("answer", end - begun));
            }
            self.wait(left)?;
            self.read()?;
        }
    }

    /// The server's key; `None` before the handshake and at the server.
    pub(super) fn shown(&self) -> Option<Fingerprint> {
        self.tls.peer_certificates()?.first().map(|key| Fingerprint::of(key))
    }

    /// What both ends know of this connection alone, and nobody who is in between.
    pub(super) fn binding(&self) -> Result<[u8; BINDING_BYTES], PeerError> {
        let exported = self.tls.export_keying_material([0; BINDING_BYTES], BINDING_LABEL, Some(&[]));
        exported.map_err(|error| io::Error::other(error).into())
    }

    /// From now on, a read waits for so long.
    pub(super) fn wait(&self, left: Duration) -> Result<(), PeerError> {
        Ok(self.socket.set_read_timeout(Some(left.max(Duration::from_millis(1))))?)
    }

    /// Reads decrypted bytes that have arrived; returns 0 if there are none.
    pub(super) fn take(&mut self, into: &mut [u8]) -> Result<usize, PeerError> {
        match self.tls.reader().read(into) {
            Ok(0) => Err(PeerError::Closed(self.peer)),
            Ok(n) => Ok(n),
            Err(error) if error.kind() == ErrorKind::WouldBlock => Ok(0),
            Err(error) => Err(error.into()),
        }
    }

    /// Reads once from the socket, and no further than the record at hand; `false` if nothing came in time.
    pub(super) fn read(&mut self) -> Result<bool, PeerError> {
        let mut piece = [0; READ_BYTES];
        let wanted = self.missing()?.min(READ_BYTES);
        match self.socket.read(&mut piece[..wanted]) {
            Ok(0) if self.record.is_empty() => Err(PeerError::Closed(self.peer)),
            Ok(0) => Err(PeerError::Truncated(self.peer)),
            Ok(n) => {
                self.arrived += n as u64;
                if self.arrived > self.most {
                    let most = usize::try_from(self.most).unwrap_or(usize::MAX);
                    return Err(PeerError::TooLong { bytes: self.arrived, most });
                }
                self.record.extend_from_slice(&piece[..n]);
                if self.record.len() > RECORD_HEAD_BYTES && self.missing()? == 0 {
                    self.process()?;
                }
                Ok(true)
            }
            Err(error) if passes(&error) => Ok(false),
            Err(error) => Err(broken(self.peer, error)),
        }
    }

    /// How many bytes of the record at hand have not arrived.
    fn missing(&self) -> Result<usize, PeerError> {
        let Some(&[kind, major, _, high, low]) = self.record.first_chunk::<RECORD_HEAD_BYTES>() else {
            return Ok(RECORD_HEAD_BYTES - self.record.len());
        };
        let length = usize::from(u16::from_be_bytes([high, low]));
        if !RECORD_TYPES.contains(&kind) || major != 3 || !(1..=MAX_RECORD_BYTES).contains(&length) {
            return Err(PeerError::Forged(self.peer));
        }
        Ok(RECORD_HEAD_BYTES + length - self.record.len())
    }

    /// Gives a whole record to rustls.
    fn process(&mut self) -> Result<(), PeerError> {
        let mut bytes = &self.record[..];
        while !bytes.is_empty() {
            if !matches!(self.tls.read_tls(&mut bytes), Ok(1..)) {
                return Err(PeerError::Forged(self.peer));
            }
        }
        self.record.clear();
        let processed = self.tls.process_new_packets();
        processed.map(drop).map_err(|error| match error {
            rustls::Error::AlertReceived(alert) if alert != AlertDescription::BadRecordMac => {
                PeerError::Closed(self.peer)
            }
            _ => PeerError::Forged(self.peer),
        })
    }

    /// Sends bytes encrypted.
    pub(super) fn write(&mut self, mut bytes: &[u8], end: Instant) -> Result<(), PeerError> {
        let begun = Instant::now();
        while !bytes.is_empty() {
            let taken = self.tls.writer().write(bytes)?;
            bytes = &bytes[taken..];
            self.send_records(begun..end)?;
        }
        Ok(())
    }

    /// Appends bytes to `records` encrypted, and sends nothing.
    pub(super) fn encrypt(&mut self, mut bytes: &[u8], records: &mut Vec<u8>) -> io::Result<()> {
        while !bytes.is_empty() {
            let taken = self.tls.writer().write(bytes)?;
            bytes = &bytes[taken..];
            while self.tls.wants_write() {
                self.tls.write_tls(records)?;
            }
        }
        Ok(())
    }

    /// Sends bytes as they are, before TLS begins.
    pub(super) fn write_plain(&mut self, mut bytes: &[u8], end: Instant) -> Result<(), PeerError> {
        let begun = Instant::now();
        while !bytes.is_empty() {
            let sent = self.send(&(begun..end), |_, mut socket| socket.write(bytes))?;
            bytes = &bytes[sent..];
        }
        Ok(())
    }

    /// Reads bytes as they are, before TLS begins.
    pub(super) fn read_plain(&mut self, into: &mut [u8], end: Instant) -> Result<usize, PeerError> {
        let begun = Instant::now();
        loop {
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(self.late("answer", end - begun));
            }
            self.wait(left)?;
            match self.socket.read(into) {
                Ok(0) => return Err(PeerError::Closed(self.peer)),
                Err(error) if passes(&error) => {}
                other => return other.map_err(|error| broken(self.peer, error)),
            }
        }
    }

    /// Sends what rustls has to send.
    pub(super) fn flush(&mut self, end: Instant) -> Result<(), PeerError> {
        self.send_records(Instant::now()..end)
    }

    fn send_records(&mut self, time: Range<Instant>) -> Result<(), PeerError> {
        while self.tls.wants_write() {
            self.send(&time, |tls, mut socket| tls.write_tls(&mut socket))?;
        }
        Ok(())
    }

    /// Sends a piece. `time` is that of the whole, which an error names.
    fn send(
        &mut self,
        time: &Range<Instant>,
        mut one: impl FnMut(&mut rustls::Connection, &TcpStream) -> io::Result<usize>,
    ) -> Result<usize, PeerError> {
        loop {
            let left = time.end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(self.late("take a message", time.end.saturating_duration_since(time.start)));
            }
            self.socket.set_write_timeout(Some(left.max(Duration::from_millis(1))))?;
            match one(&mut self.tls, &self.socket) {
                Ok(0) => return Err(PeerError::Closed(self.peer)),
                Err(error) if passes(&error) => {}
                other => return other.map_err(|error| broken(self.peer, error)),
            }
        }
    }

    fn late(&self, what: &'static str, within: Duration) -> PeerError {
        PeerError::Late { peer: self.peer, what, seconds: within.as_secs_f64() }
    }

    /// Whether the peer has closed it, or sent something that is no TLS. Never waits, and keeps what it reads.
    pub(super) fn is_gone(&mut self) -> bool {
        if self.socket.set_nonblocking(true).is_err() {
            return true;
        }
        let gone = loop {
            match self.tls.process_new_packets() {
                Ok(state) if state.plaintext_bytes_to_read() > 0 => break false,
                Ok(state) if state.peer_has_closed() => break true,
                Ok(_) => {}
                Err(_) => break true,
            }
            match self.read() {
                Ok(true) => {}
                Ok(false) => break false,
                Err(_) => break true,
            }
        };
        self.socket.set_nonblocking(false).is_err() || gone
    }

    /// The socket alone, for bytes without TLS behind the last record of both ends.
    pub(super) fn into_socket(mut self) -> Result<TcpStream, PeerError> {
        self.handed_on = true;
        Ok(self.socket.try_clone()?)
    }
}

impl Drop for Channel {
    /// Tells the peer that nothing more comes, or why, if that takes no time.
    fn drop(&mut self) {
        if self.handed_on {
            return;
        }
        self.tls.send_close_notify();
        if self.socket.set_nonblocking(true).is_ok() {
            while self.tls.wants_write() && matches!(self.tls.write_tls(&mut &self.socket), Ok(1..)) {}
        }
    }
}

pub(super) fn passes(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut | ErrorKind::Interrupted)
}

fn broken(peer: SocketAddr, error: io::Error) -> PeerError {
    use ErrorKind::{BrokenPipe, ConnectionAborted, ConnectionReset, NotConnected};
    match error.kind() {
        BrokenPipe | ConnectionAborted | ConnectionReset | NotConnected => PeerError::Closed(peer),
        _ => PeerError::Io(error),
    }
}
