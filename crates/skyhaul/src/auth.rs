//! Authentication between hosts: tokens and their files' contents, proofs, cookies, and what may be shown of them.
//!
//! ```text
//!   control connection (probe, copy)   ServerKey, Fingerprint: the server's key in TLS, which clients may pin
//!                                      Token: an HMAC proof by each end, of this TLS connection alone
//!   control plane (balance)            TokenHash: only the hash of a token is stored, compared in constant time
//!   UDP                                Cookies: the address of a sender is real
//! ```
//!
//! Random numbers come from the operating system. Comparisons with a secret take the same time for every wrong value.
//! [`redacted`] removes secrets from text that is shown. How many connections without a proof there may be is
//! [`admission`](crate::admission).

mod key;

pub use key::{Fingerprint, ServerKey};

use ring::rand::{SecureRandom, SystemRandom};
use ring::{digest, hmac};
use std::net::{IpAddr, SocketAddr};
use std::{fmt, io};
use subtle::ConstantTimeEq;

/// Length of a proof in bytes.
pub(crate) const MAC_BYTES: usize = 32;
/// Length in bytes of what TLS exports for a connection.
pub(crate) const BINDING_BYTES: usize = 32;

/// Text that cannot be a token.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a token is 16 to 256 letters, digits or `-_.~`")]
pub struct InvalidToken;

/// Text that cannot be the contents of a token file for [`Token::of_file`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InvalidTokenFile {
    /// Its first line.
    #[error("expected 16 to 256 letters, digits or `-_.~` on the first line")]
    Token,
    /// A further line.
    #[error("line {line}: expected the fingerprint of a server, such as SHA256:{}", "A".repeat(43))]
    Fingerprint {
        /// From 1.
        line: usize,
    },
}

/// A secret that both hosts have in a file, and the servers with which it may be used. It is never shown or sent.
#[derive(Clone)]
pub struct Token {
    key: hmac::Key,
    servers: Vec<Fingerprint>,
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token(..)")
    }
}

impl Token {
    /// From its text, for any server.
    ///
    /// # Errors
    /// It is shorter than 16 or longer than 256 characters, or has others than letters, digits and `-_.~`.
    pub fn new(text: &str) -> Result<Self, InvalidToken> {
        if !is_token(text) {
            return Err(InvalidToken);
        }
        Ok(Self { key: hmac::Key::new(hmac::HMAC_SHA256, text.as_bytes()), servers: Vec::new() })
    }

    /// From the contents of its file: the token on the first line, then the fingerprint of a server on each line. With fingerprints,
    /// a client refuses servers with other keys before it sends anything that was derived from the token.
    ///
    /// # Errors
    /// A line has something else.
    pub fn of_file(text: &str) -> Result<Self, InvalidTokenFile> {
        let mut lines = text.trim().lines().map(str::trim);
        let mut token = Self::new(lines.next().unwrap_or_default()).map_err(|_| InvalidTokenFile::Token)?;
        for (at, line) in lines.enumerate().filter(|(_, line)| !line.is_empty()) {
            let invalid = InvalidTokenFile::Fingerprint { line: at + 2 };
            token.servers.push(Fingerprint::parse(line).ok_or(invalid)?);
        }
        Ok(token)
    }

    /// Returns the fingerprints of the servers with which it may be used; none: any server.
    #[must_use]
    pub fn servers(&self) -> &[Fingerprint] {
        &self.servers
    }

    /// Whether another is the same secret.
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        let binding = [0; BINDING_BYTES];
        self.is_proof(Role::Client, &binding, &other.proof(Role::Client, &binding))
    }

    /// What `role` shows on one TLS connection to prove that it knows the token.
    pub(crate) fn proof(&self, role: Role, binding: &[u8; BINDING_BYTES]) -> [u8; MAC_BYTES] {
        let tag = hmac::sign(&self.key, &text(role, binding));
        tag.as_ref().first_chunk().copied().unwrap_or_default()
    }

    /// Whether `proof` is that of `role`; it takes the same time for all wrong ones.
    pub(crate) fn is_proof(
        &self,
        role: Role,
        binding: &[u8; BINDING_BYTES],
        proof: &[u8; MAC_BYTES],
    ) -> bool {
        hmac::verify(&self.key, &text(role, binding), proof).is_ok()
    }
}

/// Which end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    Client,
    Server,
}

/// The text that is signed: whose proof it is, and what TLS exports for this connection alone (RFC 9266), which differs at the two
/// ends if anyone between them ends TLS. The purpose has no zero byte, and the rest a fixed length, so no two texts are equal.
fn text(role: Role, binding: &[u8; BINDING_BYTES]) -> Vec<u8> {
    let purpose: &[u8] = match role {
        Role::Client => b"client proves",
        Role::Server => b"server proves",
    };
    [b"skyhaul peer 2 ".as_slice(), purpose, &[0], binding].concat()
}

/// Shortest token in characters: a shorter one could be found by trying.
pub const MIN_TOKEN_CHARS: usize = 16;
/// Longest token in characters.
pub const MAX_TOKEN_CHARS: usize = 256;
/// Longest text of a peer that is shown, in characters.
const MAX_PEER_TEXT_CHARS: usize = 500;

/// Whether the text can be a token: 16 to 256 letters, digits or `-_.~`.
#[must_use]
pub fn is_token(text: &str) -> bool {
    let plain = text.bytes().all(|b| b.is_ascii_alphanumeric() || b"-_.~".contains(&b));
    plain && (MIN_TOKEN_CHARS..=MAX_TOKEN_CHARS).contains(&text.len())
}

/// Compares secrets in constant time.
#[must_use]
pub fn is_same(a: &[u8], b: &[u8]) -> bool {
    a.ct_eq(b).into()
}

/// The SHA-256 of a token, which is stored in its place. Two are compared in constant time.
#[derive(Clone, Copy, Debug, Eq)]
pub struct TokenHash([u8; 32]);

impl PartialEq for TokenHash {
    fn eq(&self, other: &Self) -> bool {
        is_same(&self.0, &other.0)
    }
}

impl From<[u8; 32]> for TokenHash {
    fn from(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }
}

impl TokenHash {
    /// Returns the hash of the token's text.
    #[must_use]
    pub fn of(token: &str) -> Self {
        let hash = digest::digest(&digest::SHA256, token.as_bytes());
        Self(hash.as_ref().first_chunk().copied().unwrap_or_default())
    }

    /// Returns the bytes of the hash.
    #[must_use]
    pub fn bytes(&self) -> &[u8; 32] {
        &self.0
    }

    /// Returns its first bytes, for look-ups: the time of a look-up reveals part of a hash, but nothing of a token.
    #[must_use]
    pub fn prefix(&self) -> u64 {
        self.0.first_chunk().map_or(0, |first| u64::from_be_bytes(*first))
    }
}

/// Returns the token for a purpose: always the same for the same `token`, which it does not reveal.
#[must_use]
pub fn derived_token(token: &str, purpose: &str) -> String {
    let key = hmac::Key::new(hmac::HMAC_SHA256, token.as_bytes());
    hex(hmac::sign(&key, purpose.as_bytes()).as_ref())
}

/// Makes text from a peer safe to show: one line, at most 500 characters, without any of the `secrets`.
#[must_use]
pub fn redacted(text: &str, secrets: &[&str]) -> String {
    let secrets = secrets.iter().filter(|secret| !secret.is_empty());
    let hidden = secrets.fold(text.to_owned(), |text, secret| text.replace(secret, "…"));
    let line = hidden.chars().map(|c| if c.is_control() { ' ' } else { c });
    line.take(MAX_PEER_TEXT_CHARS).collect::<String>().trim().to_owned()
}

/// Returns the text of a new token of 256 bits, for a file that both hosts have.
///
/// # Errors
/// The system gives no random numbers.
pub fn new_token() -> io::Result<String> {
    random::<MAC_BYTES>().map(|bytes| hex(&bytes))
}

/// Random bytes that cannot be guessed.
pub fn random<const N: usize>() -> io::Result<[u8; N]> {
    let mut bytes = [0; N];
    let filled = SystemRandom::new().fill(&mut bytes);
    filled.map_err(|_| io::Error::other("get random numbers from the system: it has none"))?;
    Ok(bytes)
}

/// Bytes as text.
#[must_use]
pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The bytes of a text that is twice as long; `None` if it is not.
#[must_use]
pub fn unhex<const N: usize>(text: &str) -> Option<[u8; N]> {
    let digits = text.as_bytes();
    if digits.len() != 2 * N || !text.bytes().all(|b| b.is_ascii_hexdigit()) {
        return None;
    }
    let mut bytes = [0; N];
    for (byte, pair) in bytes.iter_mut().zip(digits.chunks_exact(2)) {
        *byte = u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok()?;
    }
    Some(bytes)
}

/// Makes cookies, and recognises its own.
pub struct Cookies(hmac::Key);

impl std::fmt::Debug for Cookies {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Cookies(..)")
    }
}

impl Cookies {
    /// With a key of its own: those of an earlier run are not known.
    ///
    /// # Errors
    /// If the system has no random numbers.
    pub fn new() -> io::Result<Self> {
        Ok(Self(hmac::Key::new(hmac::HMAC_SHA256, &random::<32>()?)))
    }

    /// The cookie of an address in a test.
    #[must_use]
    pub fn of(&self, at: SocketAddr, test: u64) -> [u8; 16] {
        let tag = hmac::sign(&self.0, &bound_text(at, test));
        tag.as_ref().first_chunk().copied().unwrap_or_default()
    }

    /// Whether this is it. The time it takes says nothing about where a wrong one differs.
    #[must_use]
    pub fn is_of(&self, at: SocketAddr, test: u64, cookie: [u8; 16]) -> bool {
        is_same(&self.of(at, test), &cookie)
    }
}

fn bound_text(at: SocketAddr, test: u64) -> Vec<u8> {
    let ip = match at.ip().to_canonical() {
        IpAddr::V4(ip) => ip.to_ipv6_mapped(),
        IpAddr::V6(ip) => ip,
    };
    [ip.octets().as_slice(), &at.port().to_be_bytes(), &test.to_be_bytes()].concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_proof_is_of_one_token_one_role_and_this_connection() {
        let token = Token::new("0123456789abcdef").unwrap();
        let proof = token.proof(Role::Client, &[1; 32]);
        assert!(token.is_proof(Role::Client, &[1; 32], &proof));
        assert!(!token.is_proof(Role::Server, &[1; 32], &proof), "a proof sent back");
        assert!(!token.is_proof(Role::Client, &[2; 32], &proof));
        assert!(!Token::new("0123456789abcdeg").unwrap().is_proof(Role::Client, &[1; 32], &proof));
        assert_eq!(format!("{token:?}"), "Token(..)");
    }

    #[test]
    fn a_token_file_may_name_servers() {
        let (one, other) = (ServerKey::new().unwrap(), ServerKey::new().unwrap());
        let text = format!("0123456789abcdef\r\n {} \n\n{}\n", one.fingerprint(), other.fingerprint());
        let token = Token::of_file(&text).unwrap();
        assert_eq!(token.servers(), [one.fingerprint().clone(), other.fingerprint().clone()]);
        assert!(Token::of_file("0123456789abcdef\n").unwrap().servers().is_empty());
        assert_eq!(Token::of_file("short\n").unwrap_err(), InvalidTokenFile::Token);
        assert_eq!(Token::of_file("").unwrap_err(), InvalidTokenFile::Token);
        let said = Token::of_file("0123456789abcdef\n\nanother line").unwrap_err().to_string();
        assert!(said.starts_with("line 3: expected the fingerprint of a server, such as SHA256:A"), "{said}");
    }

    #[test]
    fn only_plain_long_text_is_a_token() {
        for text in ["", "short", "0123456789abcde ", "0123456789abcdé", &"a".repeat(257)] {
            assert!(Token::new(text).is_err(), "{text}");
        }
    }

    #[test]
    fn hex_is_read_back_and_nothing_else_is() {
        let bytes: [u8; 16] = random().unwrap();
        assert_eq!(unhex(&hex(&bytes)), Some(bytes));
        for text in ["", "0", "zz", "+1", "001", "ÿ"] {
            assert_eq!(unhex::<1>(text), None, "{text}");
        }
    }

    #[test]
    fn a_cookie_is_of_one_address_one_test_and_one_run() {
        let (cookies, at) = (Cookies::new().unwrap(), SocketAddr::from(([10, 0, 0, 1], 9)));
        let cookie = cookies.of(at, 1);
        assert!(cookies.is_of(at, 1, cookie));
        assert!(cookies.is_of("[::ffff:10.0.0.1]:9".parse().unwrap(), 1, cookie), "the same address");
        assert!(!cookies.is_of(at, 2, cookie));
        assert!(!cookies.is_of(SocketAddr::from(([10, 0, 0, 1], 10)), 1, cookie));
        assert!(!cookies.is_of(SocketAddr::from(([10, 0, 0, 2], 9)), 1, cookie));
        assert!(!Cookies::new().unwrap().is_of(at, 1, cookie));
    }

    #[test]
    fn a_peers_text_shows_no_secret_and_fills_no_screen() {
        assert_eq!(redacted("token abc\r\n\x1b[2Jis wrong", &["abc", ""]), "token …   [2Jis wrong");
        assert_eq!(redacted(&"x".repeat(9000), &[]).len(), 500);
    }

    #[test]
    fn tokens_differ_and_those_of_a_purpose_do_not() {
        let (one, other) = (new_token().unwrap(), new_token().unwrap());
        assert!(one.len() == 64 && one != other && is_token(&one));
        assert_eq!(derived_token("t", "reserve:1"), derived_token("t", "reserve:1"));
        assert_ne!(derived_token("t", "reserve:1"), derived_token("t", "reserve:2"));
        assert_ne!(derived_token("u", "reserve:1"), derived_token("t", "reserve:1"));
        assert_eq!(TokenHash::of("t"), TokenHash::from(*TokenHash::of("t").bytes()));
        assert_ne!(TokenHash::of("t"), TokenHash::of("u"));
    }
}
