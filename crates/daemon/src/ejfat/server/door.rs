//! Common parts of gRPC and REST: identification of the caller, and calls of the desk.

use super::super::desk::{Caller, Desk, Kind, Place, Refusal};
use super::calls::Calls;
use crate::listening::{Connection, Seats};
use axum::Extension;
use axum::extract::Request;
use axum::http::header::{AUTHORIZATION, HOST};
use axum::middleware::Next;
use axum::response::Response;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Maximum size of a request, bytes; the largest sensible one, 512 demands of slots, has a tenth of that.
pub const MAX_BODY_BYTES: usize = 256 << 10;
/// How long a body may take to arrive.
pub const BODY_TIMEOUT: Duration = Duration::from_secs(10);
/// Interval of the desk's periodic work.
const PERIOD: Duration = Duration::from_secs(1);

/// Access to the desk.
#[derive(Clone)]
pub(super) struct Door {
    pub(super) desk: Arc<Desk>,
    pub(super) calls: Arc<Calls>,
    pub(super) seats: Arc<Seats>,
}

impl Door {
    pub(super) fn new(desk: Arc<Desk>) -> Door {
        Door { desk, calls: Arc::new(Calls::new()), seats: Seats::new() }
    }

    /// Calls the desk, and counts the call by its result.
    pub(super) async fn ask<Q: Send + 'static, R: Send + 'static>(
        &self,
        caller: Caller,
        request: Q,
        call: fn(&Desk, &Caller, Q) -> Result<R, Refusal>,
    ) -> Result<R, Refusal> {
        let desk = Arc::clone(&self.desk);
        let asked = tokio::task::spawn_blocking(move || {
            let done = call(&desk, &caller, request);
            desk.count(&done);
            done
        });
        asked.await.unwrap_or_else(|error| Err(fault(&error)))
    }

    /// Runs the desk's periodic work once a second, for ever.
    pub(super) async fn turns(&self, wrong: &impl Fn(String)) {
        let mut every = tokio::time::interval(PERIOD);
        every.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            every.tick().await;
            let desk = Arc::clone(&self.desk);
            match tokio::task::spawn_blocking(move || desk.turn(now())).await {
                Ok(all) => all.into_iter().for_each(wrong),
                Err(error) => wrong(fault(&error).text),
            }
        }
    }
}

fn fault(error: &tokio::task::JoinError) -> Refusal {
    Refusal::new(Kind::Unavailable, format!("a fault in this program: {error}"))
}

/// Unix time in milliseconds.
pub(super) fn now() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
}

/// Adds the caller to each request.
pub(super) async fn who(
    Extension(connection): Extension<Arc<Connection>>,
    mut request: Request,
    next: Next,
) -> Response {
    let headers = request.headers();
    let text = |name| headers.get(name).and_then(|value| value.to_str().ok());
    let token = text(AUTHORIZATION).and_then(|value| {
        let (scheme, token) = value.split_once(' ')?;
        scheme.eq_ignore_ascii_case("bearer").then(|| token.trim().to_owned())
    });
    let named = request.uri().authority().map(|authority| authority.as_str()).or(text(HOST));
    let local = || connection.local.map_or_else(String::new, |at| at.to_string());
    let authority = named.filter(|name| plain(name)).map_or_else(local, str::to_owned);
    let place = Place { authority, tls: connection.tls };
    request.extensions_mut().insert(Caller { token, place, now: now() });
    next.run(request).await
}

/// Whether the text is only a host and port, without characters that would change the meaning of a URI.
fn plain(name: &str) -> bool {
    let port = name.rsplit_once(':').is_some_and(|(_, port)| port.parse::<u16>().is_ok());
    port && name.len() <= 255
        && name.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_' | ':' | '[' | ']'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_is_believed_only_if_it_is_one() {
        for name in ["lb.example:18008", "[::1]:1", "10.0.0.1:65535"] {
            assert!(plain(name), "{name}");
        }
        for name in
            ["lb.example", "a@b:1", "a/b:1", "a?data=1:1", "a:99999", "", &format!("{}:1", "a".repeat(255))]
        {
            assert!(!plain(name), "{name}");
        }
    }
}
