//! What connections share: limits, the station and the runtimes.

use crate::tcp_service::Connections;
use skyhaul_core::placement::Nanos;
use skyhaul_core::vsi::{VsiAction, VsiDialect, VsiOutcome, VsiRuntimes, VsiView};
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Maximum number of connections.
pub const MAX_CONNECTIONS: usize = 256;
/// Maximum number of connections from one address.
pub const MAX_PER_ADDRESS: usize = 64;
/// Time of a new connection until its first request.
pub const FIRST_REQUEST_TIMEOUT: Duration = Duration::from_secs(60);
/// Time between requests: the Field System keeps its connection between experiments.
pub const IDLE_TIMEOUT: Duration = Duration::from_secs(7 * 86_400);
/// Time of a client to take an answer.
pub const WRITE_TIMEOUT: Duration = Duration::from_secs(10);
/// A request without the end of its line is carried out if nothing follows its `;` for this time.
pub const LINE_PAUSE: Duration = Duration::from_millis(200);
/// The station that dialogues control.
pub trait VsiStation: Send + Sync + 'static {
    /// Returns the station as it is now, without waiting.
    fn view(&self) -> Arc<VsiView>;

    /// Carries an action out. A view taken afterwards includes what it did. The future may be dropped, which does not undo it.
    fn carry_out(&self, action: VsiAction) -> impl Future<Output = VsiOutcome> + Send;
}

/// What the connections share.
#[derive(Debug)]
pub(super) struct Shared {
    pub(super) runtimes: Mutex<VsiRuntimes>,
    pub(super) connections: Arc<Connections>,
    pub(super) requests: AtomicU64,
    pub(super) rejected: AtomicU64,
    pub(super) dialect: VsiDialect,
    pub(super) next_connection: AtomicU64,
}

pub(super) fn duration(time: Nanos) -> Duration {
    Duration::from_nanos(time.0)
}

/// The host's clock.
pub(super) fn now() -> Nanos {
    Nanos::from(SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default())
}
