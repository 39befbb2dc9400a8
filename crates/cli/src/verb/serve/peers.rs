//! The servers of copies and measurements beside the station.

use super::config::{HttpConfig, PeersConfig};
use crate::verb::listener;
use anyhow::{Context, Result};
use skyhaul::core::hint::Hint;
use skyhaul::peer::{Fingerprint, PeerIntake};
use skyhaul_daemon::peers::{PeerServer, ProbeRight};
use skyhaul_daemon::station::StationService;
use skyhaul_daemon::webdav::WebDavServer;
use std::path::Path;

/// The server, and what is said of it.
pub(super) struct PeerDoor {
    config: PeersConfig,
    server: PeerServer,
    key: Fingerprint,
}

impl PeerDoor {
    pub(super) fn start(
        config: PeersConfig,
        http: Option<&HttpConfig>,
        station: &StationService,
    ) -> Result<Self> {
        let files: Vec<&Path> =
            config.options.clients.iter().map(|client| client.token_file.as_path()).collect();
        let (tokens, key) = listener::peer_server_for(&files, config.key.as_deref())?;
        let directories = http.map(|http| http.options.directories.as_slice()).unwrap_or_default();
        let server = station.serve_peers(&config.options, (&key, tokens), directories);
        let server = server.context("serve copies and measurements")?;
        Ok(Self { server, key: key.fingerprint().clone(), config })
    }

    /// Where connections are given to it that came to the port of files.
    pub(super) fn intake(&self) -> PeerIntake {
        self.server.intake()
    }

    /// Its sessions are lines of the access log of these files.
    pub(super) fn log_with(&self, files: &WebDavServer) {
        self.server.log_with(files);
    }

    pub(super) fn is_running(&self) -> bool {
        self.server.is_running()
    }

    /// Says where it is, and who may do what.
    pub(super) fn say(&self, disks: usize) {
        let key = &self.key;
        match self.server.address() {
            Some(at) => say!("copies and measurements on {at}; key {key}"),
            None => say!("copies and measurements on the port of files; key {key}"),
        }
        for client in &self.config.options.clients {
            let (name, mut rights) = (&client.name, client.scopes.clone());
            match client.probe {
                ProbeRight::Never => {}
                ProbeRight::Idle => rights.push("measurements while nothing is recorded".into()),
                ProbeRight::Always => rights.push("measurements".into()),
            }
            say!("  {name}: {}", rights.join(", "));
            if client.probe == ProbeRight::Always {
                let hint = Hint("set probe = \"idle\"");
                crate::print::note(&format!("measurements of {name} may cost packets of a recording{hint}"));
            }
        }
        say!("  copies read scans as /disks/N/SCAN, N from 1 to {disks}");
    }
}
