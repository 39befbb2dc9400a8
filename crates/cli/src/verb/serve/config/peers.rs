//! The section `[peers]`: copies and measurements by hosts that run this program.

use super::http::HttpConfig;
use super::key::Key;
use anyhow::{Result, ensure};
use skyhaul::core::hint::Hint;
use skyhaul::core::station::is_scan_name;
use skyhaul::io::quantity::Span;
use skyhaul_daemon::peers::{
    MAX_PEER_CLIENTS, PeerClient, PeerServerOptions, ProbeRight, check_peer_directory,
};
use std::path::PathBuf;
use std::time::Duration;

/// Maximum number of scopes of a client.
const MAX_SCOPES: usize = 256;
/// Longest measurement, unless the configuration says otherwise.
const DEFAULT_LONGEST: Duration = Duration::from_secs(600);
const MAX_LONGEST: Duration = Duration::from_secs(86_400);

/// What the section says.
pub(in crate::verb::serve) struct PeersConfig {
    pub(in crate::verb::serve) options: PeerServerOptions,
    /// The file with the key of the server; `None`: that beside the token of the first client.
    pub(in crate::verb::serve) key: Option<PathBuf>,
}

impl Key<'_> {
    /// The section, beside that of files.
    pub(super) fn peers(&self, http: Option<&HttpConfig>) -> Result<PeersConfig> {
        let options = PeerServerOptions { longest: DEFAULT_LONGEST, ..PeerServerOptions::default() };
        let mut config = PeersConfig { options, key: None };
        let options = &mut config.options;
        for entry in self.entries()? {
            match entry.key {
                "client" => {
                    for client in entry.list(MAX_PEER_CLIENTS)? {
                        options.clients.push(entry.at(client).peer_client()?);
                    }
                }
                "key" => config.key = Some(entry.string()?.into()),
                "listen" => options.listen = Some(entry.parse()?),
                "probe_longest" => {
                    options.longest = entry.parse::<Span>()?.duration();
                    let is_fit = (Duration::from_secs(1)..=MAX_LONGEST).contains(&options.longest);
                    ensure!(is_fit, entry.wrong("expected 1s to 24h"));
                }
                "probe_rate" => options.rate_bits = Some(entry.rate_bits()?),
                _ => {
                    let hint = Hint("the keys of [peers] are client, key, listen, probe_longest, probe_rate");
                    return Err(entry.wrong(format_args!("unknown key{hint}")));
                }
            }
        }
        let clients = &options.clients;
        let hint = Hint("add [[peers.client]] with name, token_file and scopes");
        ensure!(!clients.is_empty(), self.wrong(format_args!("nobody is served{hint}")));
        for (at, client) in clients.iter().enumerate() {
            let others = &clients[..at];
            let name = &client.name;
            let is_new = others.iter().all(|other| other.name != *name);
            ensure!(is_new, self.wrong(format_args!("two clients are named {name}")));
            let is_own = others.iter().all(|other| other.token_file != client.token_file);
            let hint = Hint("give each client a token of its own");
            ensure!(is_own, self.wrong(format_args!("client {name} has the token_file of another{hint}")));
        }
        let hint = Hint("set listen of [peers], or add [http], whose port serves them, too");
        let has_port = options.listen.is_some() || http.is_some();
        ensure!(has_port, self.wrong(format_args!("there is no port{hint}")));
        for directory in http.iter().flat_map(|http| &http.options.directories) {
            check_peer_directory(&directory.name).map_err(|why| self.wrong(why))?;
        }
        Ok(config)
    }

    fn peer_client(&self) -> Result<PeerClient> {
        let mut client = PeerClient::default();
        for entry in self.entries()? {
            match entry.key {
                "name" => entry.string()?.clone_into(&mut client.name),
                "token_file" => client.token_file = entry.string()?.into(),
                "scopes" => {
                    for scope in entry.list(MAX_SCOPES)? {
                        client.scopes.push(entry.at(scope).string()?.to_owned());
                    }
                }
                "probe" => {
                    client.probe = match entry.string()? {
                        "never" => ProbeRight::Never,
                        "idle" => ProbeRight::Idle,
                        "always" => ProbeRight::Always,
                        _ => return Err(entry.wrong("expected `never`, `idle` or `always`")),
                    }
                }
                _ => {
                    let hint = Hint("the keys of a client are name, probe, scopes, token_file");
                    return Err(entry.wrong(format_args!("unknown key{hint}")));
                }
            }
        }
        let name = &client.name;
        ensure!(is_scan_name(name), self.wrong("a client needs name: letters, digits and ._+-"));
        let has_file = !client.token_file.as_os_str().is_empty();
        ensure!(
            has_file,
            self.wrong(format_args!("client {name} needs token_file: it is made if it does not exist"))
        );
        let hint = Hint("such as scopes = [\"storage.read:/recordings\"], or probe = \"idle\"");
        let may = !client.scopes.is_empty() || client.probe != ProbeRight::Never;
        ensure!(may, self.wrong(format_args!("client {name} may do nothing{hint}")));
        client.check().map_err(|why| self.wrong(why))?;
        Ok(client)
    }
}

#[cfg(test)]
mod tests {
    use crate::verb::serve::config::parse;

    fn with(peers: &str) -> Result<String, String> {
        let station = "[station]\n[[station.disk]]\npath = '/'\n[[station.input]]\nname = 'a'\nlisten = ['udp://127.0.0.1:1']\n";
        let parsed = parse(&format!("{station}{peers}"));
        parsed
            .map(|config| format!("{:?}", config.peers.map(|peers| (peers.options, peers.key))))
            .map_err(|error| error.to_string())
    }

    #[test]
    fn the_section_is_read_and_mistakes_are_named() {
        assert_eq!(with("").unwrap(), "None");
        let client = "[[peers.client]]\nname = 'c'\ntoken_file = 't'\n";
        let may = "probe = 'idle'\n";
        let read = with(&format!("[peers]\nlisten = '127.0.0.1:9'\nkey = '/k'\nprobe_rate = '2Gbps'\nprobe_longest = '1min'\n{client}scopes = ['storage.read:/recordings']\nprobe = 'always'")).unwrap();
        for part in [
            "127.0.0.1:9",
            "name: \"c\", token_file: \"t\", scopes: [\"storage.read:/recordings\"], probe: Always",
            "rate_bits: Some(2000000000), longest: 60s",
            "Some(\"/k\")",
        ] {
            assert!(read.contains(part), "{read}");
        }
        let port = "[peers]\nlisten = '127.0.0.1:9'\n";
        let http = "[http]\n[[http.root]]\nname = 'disks'\ndirectory = '/'\n";
        for (peers, why) in [
            (port.to_owned(), "nobody is served"),
            (format!("{client}{may}"), "there is no port; hint: set listen of [peers], or add [http]"),
            (format!("{port}allow = []"), "unknown key; hint: the keys of [peers] are"),
            (format!("{port}{client}"), "client c may do nothing; hint: such as"),
            (format!("{port}{client}probe = 'yes'"), "probe: expected `never`, `idle` or `always`"),
            (format!("{port}{client}scopes = ['read:/x']"), "`read:/x` is no scope"),
            (format!("{port}{client}right = 'x'"), "the keys of a client are"),
            (format!("{port}[[peers.client]]\nname = 'c'\n{may}"), "client c needs token_file"),
            (format!("{port}[[peers.client]]\nname = 'a b'"), "a client needs name"),
            (format!("{port}{client}{may}{client}{may}"), "two clients are named c"),
            (
                format!("{port}{client}{may}[[peers.client]]\nname = 'd'\ntoken_file = 't'\n{may}"),
                "client d has the token_file of another",
            ),
            (format!("{port}probe_longest = '2d'"), "probe_longest: expected 1s to 24h"),
            (format!("{http}{port}{client}{may}"), "a directory of [http] is named disks"),
        ] {
            let error = with(&peers).unwrap_err();
            assert!(error.contains(why), "{peers}: {error}");
        }
    }
}
