//! Where services listen, who may use them, and what others on the network can read.

use anyhow::{Context, Result, bail};
use serde::Serialize;
use skyhaul::auth::{MAX_TOKEN_CHARS, MIN_TOKEN_CHARS, is_token, new_token};
use skyhaul::core::hint::Hint;
use skyhaul::io::file::{TOKEN, failed, read_small_text};
use skyhaul::peer::{Fingerprint, ServerKey, Token};
use skyhaul::wire::BalancerUri as Uri;
use std::fs::OpenOptions;
use std::io::{self, ErrorKind, Write};
use std::net::{IpAddr, SocketAddr};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::Path;

/// A port that a service listens on.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Listener {
    /// What it serves.
    service: &'static str,
    address: SocketAddr,
    /// Who may use it.
    admits: String,
    /// Whether others on the network cannot read any of what passes.
    encrypted: bool,
    /// Whether they cannot read what is asked and answered.
    control_encrypted: bool,
    /// The server's key, by which clients know it.
    #[serde(skip_serializing_if = "Option::is_none")]
    key: Option<String>,
}

impl Listener {
    /// For those that hold the token of a file, over TLS. It is proved by both ends, and never sent.
    pub(crate) fn with_token(
        service: &'static str,
        address: SocketAddr,
        token: &Path,
        key: &Fingerprint,
    ) -> Self {
        let admits = format!("clients that hold the token in {}", crate::print::name(token));
        let key = Some(key.to_string());
        Self { service, address, admits, encrypted: false, control_encrypted: true, key }
    }

    /// For anyone that reaches it.
    pub(crate) fn open(service: &'static str, address: SocketAddr) -> Self {
        let admits = "anyone, without a token".to_owned();
        Self { service, address, admits, encrypted: false, control_encrypted: false, key: None }
    }

    /// For people, below the line that says where it listens.
    pub(crate) fn say(&self) {
        let key = self.key.as_ref().map_or_else(String::new, |key| format!("; key {key}"));
        say!("  on {}, for {}{key}", reach(self.address.ip()), self.admits);
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

/// Others can read the contents of files; names and the token are not among it.
pub(crate) fn warn_of_traffic(ip: IpAddr) {
    if !ip.to_canonical().is_loopback() {
        crate::print::note(&format!(
            "the contents of files are not encrypted and can be read by others on the network{}",
            Hint("on an untrusted network, copy with --encrypt")
        ));
    }
}

/// A control plane at `ip` without TLS: whoever sees a request can use its token.
pub(crate) fn warn_of_tokens_at(ip: IpAddr) {
    if !ip.to_canonical().is_loopback() {
        crate::print::note(&format!(
            "without TLS, clients send their tokens over the network in plain text{}",
            Hint("add --tls-cert FILE and --tls-key FILE, or listen on 127.0.0.1")
        ));
    }
}

/// The same, for a client.
pub(crate) fn warn_of_token_to(uri: &Uri) {
    if uri.token.is_some() && !uri.tls && !is_here(&uri.host) {
        crate::print::note(&format!(
            "without TLS, the token is sent to {} in plain text{}",
            skyhaul::io::say::escaped_name(&uri.host),
            Hint("use an ejfats:// URI if the control plane has a certificate")
        ));
    }
}

fn is_here(host: &str) -> bool {
    host == "localhost" || host.parse().is_ok_and(|ip: IpAddr| ip.to_canonical().is_loopback())
}

/// The token in `path`; a new one if there is no such file. It is never shown.
pub(super) fn read_or_make(path: &Path) -> Result<String> {
    if std::fs::metadata(path).is_err_and(|error| error.kind() == ErrorKind::NotFound) {
        let token = new_token().context("make a token")?;
        let made = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path);
        made.and_then(|mut file| writeln!(file, "{token}"))
            .map_err(|error| failed("make the token file", path, &error))?;
        say!("created an operator's token in {}", path.display());
        return Ok(token);
    }
    read(path)
}

/// The token in `path`. It is never shown.
pub(super) fn read(path: &Path) -> Result<String> {
    let text = read_small_text(path, TOKEN).context("token file")?;
    let token = text.trim();
    if !is_token(token) {
        bail!(
            "{} holds no token: expected {MIN_TOKEN_CHARS} to {MAX_TOKEN_CHARS} letters, digits or `-_.~` on one line{}",
            path.display(),
            Hint("remove the file, and a new token is created")
        );
    }
    warn_of_readers(path);
    Ok(token.to_owned())
}

/// The token in `path`, and the keys of servers if the file names some.
pub(super) fn peer_token(path: &Path) -> Result<Token> {
    let text = read_small_text(path, TOKEN).context("token file")?;
    let token = Token::of_file(&text).with_context(|| {
        let hint =
            Hint("copy the server's token file to this host; a server makes a new one if there is none");
        format!("{} holds no token{hint}", path.display())
    })?;
    warn_of_readers(path);
    Ok(token)
}

/// The token and the key of a server. Both are made if they are not there; a new token file names the key.
pub(super) fn peer_server(token_file: &Path) -> Result<(Token, ServerKey)> {
    let (mut tokens, key) = peer_server_for(&[token_file], None)?;
    let token = tokens.pop().context("no token file")?;
    Ok((token, key))
}

/// The same with several tokens and one key: in its own file, or beside the first token.
pub(super) fn peer_server_for(
    token_files: &[&Path],
    key_file: Option<&Path>,
) -> Result<(Vec<Token>, ServerKey)> {
    let is_missing =
        |path: &&&Path| std::fs::metadata(path).is_err_and(|error| error.kind() == ErrorKind::NotFound);
    let new: Vec<&Path> = token_files.iter().filter(is_missing).copied().collect();
    new.iter().try_for_each(|path| read_or_make(path).map(drop))?;
    let tokens = token_files.iter().map(|path| peer_token(path)).collect::<Result<Vec<_>>>()?;
    let beside = || token_files.first().map(|first| ServerKey::path_beside(first));
    let path = key_file.map(Path::to_path_buf).or_else(beside).context("no token file")?;
    let Some(key) = kept_key(&path)? else { return Ok((tokens, ServerKey::new()?)) };
    let fingerprint = key.fingerprint();
    for (token_file, token) in token_files.iter().zip(&tokens) {
        if new.contains(token_file) {
            let added = OpenOptions::new().append(true).open(token_file);
            let added = added.and_then(|mut file| writeln!(file, "{fingerprint}"));
            added.map_err(|error| failed("write", token_file, &error))?;
        } else if !token.servers().is_empty() && !token.servers().contains(fingerprint) {
            let hint = Hint(format_args!("add the line {fingerprint} to it, here and at the clients"));
            let file = token_file.display();
            crate::print::note(&format!(
                "{file} names the keys of other servers only: clients with this file refuse this one{hint}"
            ));
        }
    }
    Ok((tokens, key))
}

/// The key in `path`; a new one if there is no such file. `None`: none can be kept there, which is said.
fn kept_key(path: &Path) -> Result<Option<ServerKey>> {
    if let Some(key) = ServerKey::read(path)? {
        warn_of_readers(path);
        return Ok(Some(key));
    }
    match ServerKey::new()?.keep(path) {
        Ok(key) => Ok(Some(key)),
        Err(error) => {
            crate::print::note(&format!("the key of this server lasts for this run only: {error}"));
            Ok(None)
        }
    }
}

/// The line in `path`, which has a secret in it.
pub(super) fn read_line(path: &Path) -> Result<String> {
    let text = read_small_text(path, TOKEN)?;
    warn_of_readers(path);
    Ok(text.trim().to_owned())
}

pub(super) fn warn_of_readers(path: &Path) {
    let mode = std::fs::metadata(path).map(|meta| meta.permissions().mode()).unwrap_or(0o600);
    if mode & 0o077 != 0 {
        let path = path.display();
        crate::print::note(&format!("other users can read {path}{}", Hint(format_args!("chmod 600 {path}"))));
    }
}

/// Write a line that only its owner reads.
pub(super) fn private(path: &Path, line: &str) -> io::Result<()> {
    let mut file = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(path)?;
    file.set_permissions(std::fs::Permissions::from_mode(0o600))?;
    writeln!(file, "{line}")
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
