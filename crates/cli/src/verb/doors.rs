//! Where services listen, who may use them, and what others on the network can read.

use serde::Serialize;
use skyhaul::wire::BalancerUri as Uri;
use std::net::{IpAddr, SocketAddr};
use std::path::Path;

/// A port that a service listens on.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Door {
    /// What it serves.
    service: &'static str,
    address: SocketAddr,
    /// Who may use it.
    admits: String,
    /// Whether others on the network cannot read what passes.
    encrypted: bool,
}

impl Door {
    /// For those that hold the token of a file. It is proved by both ends, and never sent.
    pub(crate) fn with_token(service: &'static str, address: SocketAddr, token: &Path) -> Self {
        let admits = format!("clients that hold the token in {}", crate::print::name(token));
        Self { service, address, admits, encrypted: false }
    }

    /// For anyone that reaches it.
    pub(crate) fn open(service: &'static str, address: SocketAddr) -> Self {
        Self { service, address, admits: "anyone, without a token".to_owned(), encrypted: false }
    }

    /// For people, below the line that says where it listens.
    pub(crate) fn say(&self) {
        say!("  on {}, for {}", reach(self.address.ip()), self.admits);
    }
}

/// From where an address is reached.
fn reach(ip: IpAddr) -> String {
    match ip {
        ip if ip.is_unspecified() => "every address of this host".to_owned(),
        ip if ip.to_canonical().is_loopback() => "this host only".to_owned(),
        ip => format!("address {ip}"),
    }
}

/// Others can read what passes; the token of both ends is not among it.
pub(crate) fn warn_of_traffic(ip: IpAddr) {
    if !ip.to_canonical().is_loopback() {
        say!(
            "note: traffic is not encrypted, and others on the network can read it; the token is not sent\n\
             hint: on an untrusted network, use a tunnel (ssh -L, WireGuard)"
        );
    }
}

/// A control plane at `ip` without TLS: whoever sees a request can use its token.
pub(crate) fn warn_of_tokens_at(ip: IpAddr) {
    if !ip.to_canonical().is_loopback() {
        say!(
            "note: without TLS, clients send their tokens over the network in plain text\n\
             hint: add --tls-cert FILE and --tls-key FILE, or listen on 127.0.0.1"
        );
    }
}

/// The same, for a client.
pub(crate) fn warn_of_token_to(uri: &Uri) {
    if uri.token.is_some() && !uri.tls && !is_here(&uri.host) {
        say!(
            "note: without TLS, the token is sent to {} in plain text\n\
             hint: use an ejfats:// URI if the control plane has a certificate",
            skyhaul::io::say::escaped_name(&uri.host)
        );
    }
}

fn is_here(host: &str) -> bool {
    host == "localhost" || host.parse().is_ok_and(|ip: IpAddr| ip.to_canonical().is_loopback())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_stays_on_this_host_needs_no_warning() {
        for (host, here) in [
            ("127.0.0.1", true),
            ("127.8.9.10", true),
            ("::1", true),
            ("::ffff:127.0.0.1", true),
            ("localhost", true),
            ("10.0.0.1", false),
            ("lb.example.org", false),
            ("localhost.example.org", false),
            ("::", false),
        ] {
            assert_eq!(is_here(host), here, "{host}");
        }
        assert_eq!(reach("::".parse().unwrap()), "every address of this host");
        assert_eq!(reach("::1".parse().unwrap()), "this host only");
        assert_eq!(reach("10.0.0.1".parse().unwrap()), "address 10.0.0.1");
    }
}
