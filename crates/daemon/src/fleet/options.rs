//! How the fleet's store is reached.

use std::path::PathBuf;
use std::time::Duration;

/// How the fleet's store is reached.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FleetStoreOptions {
    /// Client URLs of its members: `https://host:2379`, or `http://host:2379` on this host.
    pub endpoints: Vec<String>,
    /// The file with `name:password` of a user of etcd, if its authentication is enabled.
    pub user_file: Option<PathBuf>,
    /// Certificates, for `https://`.
    pub certificates: StoreCertificates,
    /// Whether `http://` is accepted to other hosts: nothing is encrypted then, and no password is sent.
    pub allow_plain: bool,
    /// Maximum time of a call, with all attempts.
    pub deadline: Duration,
}

impl Default for FleetStoreOptions {
    /// No members; the system's certificate authorities; 5 s.
    fn default() -> Self {
        Self {
            endpoints: Vec::new(),
            user_file: None,
            certificates: StoreCertificates::default(),
            allow_plain: false,
            deadline: Duration::from_secs(5),
        }
    }
}

/// Certificates for connections to the fleet's store, as files in PEM form.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StoreCertificates {
    /// That of the authority that signed those of the members; `None`: the authorities of this system.
    pub authority: Option<PathBuf>,
    /// That which this client shows.
    pub own: Option<PathBuf>,
    /// Its private key.
    pub key: Option<PathBuf>,
}
