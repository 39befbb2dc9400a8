//! `EJFAT_URI`, as issued by a server.
//!
//! ```text
//!   ejfats://TOKEN@host:port/lb/1?data=10.0.0.1:19522&sync=10.0.0.1:19531
//! ```
//!
//! The data address comes first, because JLab's tools accept only this order.

use std::fmt::Write as _;
use std::net::SocketAddr;

/// The address at which a caller reached this server.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Place {
    /// Host and port, as the caller wrote them.
    pub authority: String,
    /// Whether the connection is encrypted.
    pub tls: bool,
}

/// The URI of the server with this token.
pub(super) fn of_server(place: &Place, token: &str) -> String {
    format!("{}://{token}@{}/", if place.tls { "ejfats" } else { "ejfat" }, place.authority)
}

/// The URI of a reservation with this token.
pub(super) fn of_reservation(
    place: &Place,
    token: &str,
    id: i64,
    data: &[SocketAddr],
    sync: &[SocketAddr],
) -> String {
    let mut uri = of_server(place, token);
    let _ = write!(uri, "lb/{id}");
    let data = data.iter().map(|at| ("data", at));
    for (n, (key, at)) in data.chain(sync.iter().map(|at| ("sync", at))).enumerate() {
        let _ = write!(uri, "{}{key}={at}", if n == 0 { '?' } else { '&' });
    }
    uri
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn as_all_dialects_read_it() {
        let place = |tls| Place { authority: "lb.example:18008".to_owned(), tls };
        let data = ["10.0.0.1:19522".parse().unwrap(), "[fd00::1]:19522".parse().unwrap()];
        assert_eq!(of_server(&place(true), "t"), "ejfats://t@lb.example:18008/");
        assert_eq!(
            of_reservation(&place(false), "t", 7, &data, &["10.0.0.1:19531".parse().unwrap()]),
            "ejfat://t@lb.example:18008/lb/7?data=10.0.0.1:19522&data=[fd00::1]:19522&sync=10.0.0.1:19531"
        );
    }
}
