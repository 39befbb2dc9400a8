//! Cookies that prove that somebody receives at an address, before anything more is sent there.
//!
//! A UDP packet may claim any sender. So a server answers the first one from an address only with a cookie, in a packet
//! that is no longer, and sends data only after the cookie came back from there: nobody can have it send to others. It
//! keeps nothing meanwhile, because it can tell its cookies from their address.

use super::token::random;
use ring::hmac;
use std::io;
use std::net::{IpAddr, SocketAddr};

/// Makes cookies, and tells its own from others.
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
        let tag = hmac::sign(&self.0, &text(at, test));
        tag.as_ref().first_chunk().copied().unwrap_or_default()
    }

    /// Whether this is it. The time it takes says nothing about where a wrong one differs.
    #[must_use]
    pub fn is_of(&self, at: SocketAddr, test: u64, cookie: [u8; 16]) -> bool {
        let mine = self.of(at, test);
        mine.iter().zip(cookie).fold(0, |differ, (a, b)| differ | (a ^ b)) == 0
    }
}

fn text(at: SocketAddr, test: u64) -> Vec<u8> {
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
}
