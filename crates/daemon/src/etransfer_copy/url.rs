//! `etd://HOST[:PORT]/PATH`: a path on a server of etransfer, with wildcards in a source. Nothing in it is escaped.

use skyhaul_core::etransfer::{COMMAND_PORT, EtransferPath};
use std::fmt;

/// A path on a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EtransferUrl {
    /// Name or address, without brackets.
    pub host: String,
    /// The port of the command channel.
    pub port: u16,
    /// The absolute path.
    pub path: String,
}

/// Why a text is no such URL.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct NotAnEtransferUrl(String);

impl EtransferUrl {
    /// Whether a text begins as such a URL does.
    #[must_use]
    pub fn is_one(text: &str) -> bool {
        text.get(..6).is_some_and(|scheme| scheme.eq_ignore_ascii_case("etd://"))
    }

    /// Reads one.
    ///
    /// # Errors
    /// It is none: its scheme, host, port or path.
    pub fn parse(text: &str) -> Result<Self, NotAnEtransferUrl> {
        let wrong = |why: &str| NotAnEtransferUrl(format!("{text}: {why}: expected etd://HOST[:PORT]/PATH"));
        if !Self::is_one(text) {
            return Err(wrong("the scheme is not etd"));
        }
        let rest = &text[6..];
        let at = rest.find('/').ok_or_else(|| wrong("it has no path"))?;
        let (authority, path) = rest.split_at(at);
        let (host, port) = match authority.strip_prefix('[') {
            Some(rest) => {
                let (host, behind) = rest.split_once(']').ok_or_else(|| wrong("a bracket is not closed"))?;
                (host, behind.strip_prefix(':'))
            }
            None => authority.split_once(':').map_or((authority, None), |(host, port)| (host, Some(port))),
        };
        let is_host = |byte: u8| byte.is_ascii_alphanumeric() || b".-_:%".contains(&byte);
        if host.is_empty() || !host.bytes().all(is_host) {
            return Err(wrong("the host is invalid"));
        }
        let port = match port {
            None => COMMAND_PORT,
            Some(port) => port.parse().map_err(|_| wrong("the port is invalid"))?,
        };
        if path.chars().any(char::is_control) {
            return Err(wrong("the path has control characters"));
        }
        EtransferPath::parse(path).map_err(|why| wrong(why.0))?;
        Ok(Self { host: host.to_owned(), port, path: path.to_owned() })
    }

    /// Whether the path ends with `/`.
    #[must_use]
    pub fn is_directory(&self) -> bool {
        self.path.ends_with('/')
    }
}

impl fmt::Display for EtransferUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { host, port, path } = self;
        if host.contains(':') {
            write!(f, "etd://[{host}]:{port}{path}")
        } else {
            write!(f, "etd://{host}:{port}{path}")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_are_read_and_mistakes_are_named() {
        let read = |text| EtransferUrl::parse(text).map(|url| url.to_string());
        assert_eq!(read("etd://corr/data/*_no01").unwrap(), "etd://corr:4004/data/*_no01");
        assert_eq!(read("ETD://[2001:db8::1]:4005/d/").unwrap(), "etd://[2001:db8::1]:4005/d/");
        for (text, why) in [
            ("https://h/f", "the scheme"),
            ("etd://h", "no path"),
            ("etd:///f", "the host"),
            ("etd://h:x/f", "the port"),
            ("etd://[::1/f", "a bracket"),
            ("etd://h/../f", ".. is not allowed"),
            ("etd://h/a\nlist /", "control characters"),
        ] {
            let error = read(text).unwrap_err().to_string();
            assert!(error.contains(why), "{text}: {error}");
        }
    }
}
