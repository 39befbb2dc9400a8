//! The time of a station.

use skyhaul_core::station::UnixMillis;
use std::time::{SystemTime, UNIX_EPOCH};

/// The host's clock.
pub(super) fn now() -> UnixMillis {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    UnixMillis(i64::try_from(since.as_millis()).unwrap_or(i64::MAX))
}
