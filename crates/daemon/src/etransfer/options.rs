//! What is served, to whom, and within which limits.

use skyhaul_core::balance::AllowList;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

/// Maximum number of command channels, and of data channels.
pub const MAX_CONNECTIONS: usize = 128;
/// Maximum number of them from one address.
pub const MAX_PER_ADDRESS: usize = 64;
/// Maximum number of recordings that are sent at a time; each takes some 20 MiB.
pub const MAX_RECORDINGS: usize = 16;
/// Memory of what is sent, in bytes.
pub const MEMORY_BYTES: u64 = 256 << 20;
/// Time of a new command channel until its first request, and of a data channel until its head.
pub const FIRST_REQUEST_TIMEOUT: Duration = Duration::from_secs(30);
/// Time between requests while nothing is transferred.
pub const IDLE_TIMEOUT: Duration = Duration::from_secs(600);
/// Time of a client to take a part of a reply.
pub const WRITE_TIMEOUT: Duration = Duration::from_secs(10);
/// Time without a byte after which a data channel is ended.
pub const STALL_TIMEOUT: Duration = Duration::from_secs(120);
/// Time for a disk to read or write a piece.
pub const DISK_TIMEOUT: Duration = Duration::from_secs(60);
/// Time to make a whole file durable, and for another server to confirm that it has one.
pub const CONFIRM_TIMEOUT: Duration = Duration::from_secs(900);
/// What an [`EtransferServer`](super::EtransferServer) serves, and to whom.
#[derive(Clone, Debug)]
pub struct EtransferOptions {
    /// The address of the command channel.
    pub listen: SocketAddr,
    /// The address of the data channel.
    pub data: SocketAddr,
    /// Who may connect.
    pub allow: AllowList,
    /// Other servers to which files may be sent (`send-file`).
    pub send_to: AllowList,
    /// The directories.
    pub directories: Vec<EtransferDirectory>,
    /// Whether closed recordings are served, as `/recordings/NAME`.
    pub recordings: bool,
    /// Times; shorter in tests.
    pub times: EtransferTimes,
}

/// A directory that is served under its own path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EtransferDirectory {
    /// Its absolute path.
    pub directory: PathBuf,
    /// Whether clients may upload into it.
    pub is_writable: bool,
}

/// How long an [`EtransferServer`](super::EtransferServer) waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EtransferTimes {
    /// See [`FIRST_REQUEST_TIMEOUT`].
    pub first_request: Duration,
    /// See [`IDLE_TIMEOUT`].
    pub idle: Duration,
    /// See [`STALL_TIMEOUT`].
    pub stall: Duration,
    /// See [`DISK_TIMEOUT`].
    pub disk: Duration,
}

impl Default for EtransferTimes {
    fn default() -> Self {
        Self {
            first_request: FIRST_REQUEST_TIMEOUT,
            idle: IDLE_TIMEOUT,
            stall: STALL_TIMEOUT,
            disk: DISK_TIMEOUT,
        }
    }
}
