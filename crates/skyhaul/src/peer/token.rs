//! What both hosts know, and what they prove with it.

use super::PeerError;
use ring::hmac;
use ring::rand::{SecureRandom, SystemRandom};
use std::fmt;
use std::io;

/// Length of a nonce and of a proof in bytes.
pub(super) const BYTES: usize = 32;

/// A secret that both hosts have in a file. It is never shown or sent.
#[derive(Clone)]
pub struct Token(hmac::Key);

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token(..)")
    }
}

impl Token {
    /// From its text.
    ///
    /// # Errors
    /// It is shorter than 16 or longer than 256 characters, or has others than letters, digits and `-_.~`.
    pub fn new(text: &str) -> Result<Self, PeerError> {
        let plain = text.bytes().all(|b| b.is_ascii_alphanumeric() || b"-_.~".contains(&b));
        if !plain || !(16..=256).contains(&text.len()) {
            return Err(PeerError::NotAToken);
        }
        Ok(Self(hmac::Key::new(hmac::HMAC_SHA256, text.as_bytes())))
    }

    /// What `role` shows to prove that it knows the token.
    pub(super) fn proof(&self, role: Role, nonces: &Nonces) -> [u8; BYTES] {
        bytes(&hmac::sign(&self.0, &text(role.proves(), nonces)))
    }

    /// Whether `proof` is that of `role`; it takes the same time for all wrong ones.
    pub(super) fn is_proof(&self, role: Role, nonces: &Nonces, proof: &[u8; BYTES]) -> bool {
        hmac::verify(&self.0, &text(role.proves(), nonces), proof).is_ok()
    }

    /// The key under which `role` signs its messages on this connection.
    pub(super) fn key(&self, role: Role, nonces: &Nonces) -> hmac::Key {
        hmac::Key::new(hmac::HMAC_SHA256, hmac::sign(&self.0, &text(role.signs(), nonces)).as_ref())
    }
}

/// Which end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Role {
    Client,
    Server,
}

impl Role {
    fn proves(self) -> &'static [u8] {
        match self {
            Role::Client => b"client proves",
            Role::Server => b"server proves",
        }
    }

    fn signs(self) -> &'static [u8] {
        match self {
            Role::Client => b"client signs",
            Role::Server => b"server signs",
        }
    }

    pub(super) fn other(self) -> Self {
        match self {
            Role::Client => Role::Server,
            Role::Server => Role::Client,
        }
    }
}

/// Random numbers of both ends, never used again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Nonces {
    pub(super) server: [u8; BYTES],
    pub(super) client: [u8; BYTES],
}

/// What is signed. The purpose has no zero byte, and the nonces have a fixed length: no two texts are alike.
fn text(purpose: &[u8], nonces: &Nonces) -> Vec<u8> {
    [b"skyhaul peer 1 ".as_slice(), purpose, &[0], &nonces.server, &nonces.client].concat()
}

fn bytes(tag: &hmac::Tag) -> [u8; BYTES] {
    tag.as_ref().first_chunk().copied().unwrap_or_default()
}

/// Returns the text of a new token of 256 bits, for a file that both hosts have.
///
/// # Errors
/// The system gives no random numbers.
pub fn new_token() -> io::Result<String> {
    random::<BYTES>().map(|bytes| hex(&bytes))
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_proof_is_of_one_token_one_role_and_these_nonces() {
        let token = Token::new("0123456789abcdef").unwrap();
        let nonces = Nonces { server: [1; 32], client: [2; 32] };
        let proof = token.proof(Role::Client, &nonces);
        assert!(token.is_proof(Role::Client, &nonces, &proof));
        assert!(!token.is_proof(Role::Server, &nonces, &proof), "a proof sent back");
        let swapped = Nonces { server: [2; 32], client: [1; 32] };
        assert!(!token.is_proof(Role::Client, &swapped, &proof));
        assert!(!Token::new("0123456789abcdeg").unwrap().is_proof(Role::Client, &nonces, &proof));
        assert_eq!(format!("{token:?}"), "Token(..)");
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
}
