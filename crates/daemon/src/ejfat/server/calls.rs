//! Calls of the control plane: who makes them, and how many run at a time.
//!
//! ```text
//!   head, token ─▶ a slot of the token (4) ─▶ of the tenant (32) ─▶ of all (128) ─▶ body ─▶ Api
//!                  └ waits, without a body
//! ```
//!
//! So neither a worker with a thousand concurrent calls nor one that sends its bodies at a byte per second makes others
//! wait, and the number of slots limits the memory for bodies. A tenant is a direct child of the operator's token,
//! with all tokens derived from it.
//!
//! Limits: as above; at most [`MAX_QUEUED_CALLS_PER_TENANT`] calls of a tenant wait, [`MAX_QUEUED_CALLS`] in total, for
//! [`QUEUE_TIMEOUT`].

use super::super::api::{Api, Caller, Refusal, RefusalKind, ServerAddress};
use super::super::registry::token::KnownToken;
use crate::http::{Connection, usual_connections};
use crate::tcp_service::Connections;
use axum::Extension;
use axum::extract::Request;
use axum::http::header::{AUTHORIZATION, HOST};
use axum::middleware::Next;
use axum::response::Response;
use skyhaul::core::hint::Hint;
use skyhaul::io::lock::lock;
use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;

/// Maximum size of a request, bytes; the largest sensible one, 512 demands of slots, has a tenth of that.
pub const MAX_BODY_BYTES: usize = 256 << 10;
/// How long a body may take to arrive.
pub const BODY_TIMEOUT: Duration = Duration::from_secs(10);
/// Interval of the API's periodic work.
const PERIOD: Duration = Duration::from_secs(1);

/// Access to the API.
#[derive(Clone)]
pub(super) struct ServerState {
    pub(super) api: Arc<Api>,
    pub(super) calls: Arc<Calls>,
    pub(super) connections: Arc<Connections>,
}

impl ServerState {
    pub(super) fn new(api: Arc<Api>) -> ServerState {
        ServerState { api, calls: Arc::new(Calls::new()), connections: usual_connections() }
    }

    /// Calls the API, and counts the call by its result.
    pub(super) async fn ask<Q: Send + 'static, R: Send + 'static>(
        &self,
        caller: Caller,
        request: Q,
        call: fn(&Api, &Caller, Q) -> Result<R, Refusal>,
    ) -> Result<R, Refusal> {
        let api = Arc::clone(&self.api);
        let asked = tokio::task::spawn_blocking(move || {
            let done = call(&api, &caller, request);
            api.count(&done);
            done
        });
        asked.await.unwrap_or_else(|error| Err(fault(&error)))
    }

    /// Runs the API's periodic work once a second, for ever.
    pub(super) async fn turns(&self, wrong: &impl Fn(String)) {
        let mut every = tokio::time::interval(PERIOD);
        every.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            every.tick().await;
            let api = Arc::clone(&self.api);
            match tokio::task::spawn_blocking(move || api.turn(now())).await {
                Ok(all) => all.into_iter().for_each(wrong),
                Err(error) => wrong(fault(&error).text),
            }
        }
    }
}

fn fault(error: &tokio::task::JoinError) -> Refusal {
    Refusal::new(RefusalKind::Unavailable, format!("internal error: {error}"))
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
    let server = ServerAddress { authority, tls: connection.tls };
    request.extensions_mut().insert(Caller { token, server, now: now() });
    next.run(request).await
}

/// Whether the text is only a host and port, without characters that would change the meaning of a URI.
fn plain(name: &str) -> bool {
    let port = name.rsplit_once(':').is_some_and(|(_, port)| port.parse::<u16>().is_ok());
    port && name.len() <= 255
        && name.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_' | ':' | '[' | ']'))
}

/// Maximum number of concurrent calls.
pub const MAX_CALLS: usize = 128;
/// Maximum number of concurrent calls of a tenant.
pub const MAX_CALLS_PER_TENANT: usize = 32;
/// Maximum number of concurrent calls of a token.
pub const MAX_CALLS_PER_TOKEN: usize = 4;
/// Maximum number of calls of a tenant that are running or waiting.
pub const MAX_QUEUED_CALLS_PER_TENANT: usize = 1024;
/// Maximum number of all calls that are running or waiting.
pub const MAX_QUEUED_CALLS: usize = 4096;
/// Maximum time that a call waits.
pub const QUEUE_TIMEOUT: Duration = Duration::from_secs(30);

/// See the module.
#[derive(Debug)]
pub(super) struct Calls {
    all: Arc<Semaphore>,
    under_way: AtomicUsize,
    lanes: Mutex<HashMap<Whose, Places>>,
}

/// Whose places.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Whose {
    Tenant(i64),
    Token(i64),
}

#[derive(Debug)]
struct Places {
    free: Arc<Semaphore>,
    /// Calls that have a slot or wait for one.
    calls: usize,
}

/// A call that is counted, whether it waits or not.
struct Counted<'a> {
    calls: &'a Calls,
    whose: [Whose; 2],
}

/// A running call. It holds its places until it is dropped.
pub(super) struct UnderWay<'a> {
    _places: [OwnedSemaphorePermit; 3],
    _counted: Counted<'a>,
}

impl Calls {
    pub(super) fn new() -> Calls {
        let (under_way, lanes) = Default::default();
        Calls { all: Arc::new(Semaphore::new(MAX_CALLS)), under_way, lanes }
    }

    /// Waits for the slots of a call.
    pub(super) async fn enter(&self, known: KnownToken) -> Result<UnderWay<'_>, Refusal> {
        let counted = self.count(known)?;
        let of = |whose: &Whose| {
            let lanes = lock(&self.lanes);
            lanes.get(whose).map(|places| Arc::clone(&places.free))
        };
        let [tenant, token] = [&counted.whose[0], &counted.whose[1]].map(of);
        let all = Some(Arc::clone(&self.all));
        let places = async {
            let mut places = Vec::with_capacity(3);
            for free in [token, tenant, all].into_iter().flatten() {
                places.push(free.acquire_owned().await.ok()?);
            }
            <[OwnedSemaphorePermit; 3]>::try_from(places).ok()
        };
        match timeout(QUEUE_TIMEOUT, places).await {
            Ok(Some(places)) => Ok(UnderWay { _places: places, _counted: counted }),
            Ok(None) | Err(_) => {
                Err(full(&format!("no slot became free within {} s", QUEUE_TIMEOUT.as_secs())))
            }
        }
    }

    fn count(&self, known: KnownToken) -> Result<Counted<'_>, Refusal> {
        if self.under_way.load(Ordering::Relaxed) >= MAX_QUEUED_CALLS {
            return Err(full(&format!("{MAX_QUEUED_CALLS} calls are running or waiting")));
        }
        let whose = [Whose::Tenant(known.tenant), Whose::Token(known.id)];
        let mut lanes = lock(&self.lanes);
        if lanes.get(&whose[0]).is_some_and(|places| places.calls >= MAX_QUEUED_CALLS_PER_TENANT) {
            return Err(full(&format!(
                "{MAX_QUEUED_CALLS_PER_TENANT} calls of one tenant are running or waiting"
            )));
        }
        for one in whose {
            let most =
                if matches!(one, Whose::Tenant(_)) { MAX_CALLS_PER_TENANT } else { MAX_CALLS_PER_TOKEN };
            let new = || Places { free: Arc::new(Semaphore::new(most)), calls: 0 };
            lanes.entry(one).or_insert_with(new).calls += 1;
        }
        drop(lanes);
        self.under_way.fetch_add(1, Ordering::Relaxed);
        Ok(Counted { calls: self, whose })
    }
}

impl Drop for Counted<'_> {
    fn drop(&mut self) {
        self.calls.under_way.fetch_sub(1, Ordering::Relaxed);
        let mut lanes = lock(&self.calls.lanes);
        for whose in &self.whose {
            let Some(places) = lanes.get_mut(whose) else { continue };
            places.calls -= 1;
            if places.calls == 0 {
                lanes.remove(whose);
            }
        }
    }
}

fn full(what: &str) -> Refusal {
    Refusal::new(
        RefusalKind::Exhausted,
        format!("{what}{}", Hint("try again later, with fewer calls at a time")),
    )
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

    /// Whether this call gets its places without waiting.
    async fn enters(calls: &Calls, id: i64, tenant: i64) -> Option<UnderWay<'_>> {
        timeout(Duration::from_millis(20), calls.enter(KnownToken { id, tenant })).await.ok()?.ok()
    }

    #[tokio::test]
    async fn nobody_takes_the_places_of_others() {
        let calls = Calls::new();
        let mut held = Vec::new();
        for _ in 0..MAX_CALLS_PER_TOKEN {
            held.push(enters(&calls, 10, 1).await.unwrap());
        }
        assert!(enters(&calls, 10, 1).await.is_none(), "the fifth of a token waits");
        for token in 11.. {
            match enters(&calls, token, 1).await {
                Some(call) => held.push(call),
                None => break,
            }
        }
        assert_eq!(held.len(), MAX_CALLS_PER_TENANT);
        assert!(enters(&calls, 2, 2).await.is_some(), "another tenant does not wait");
        held.pop();
        assert!(enters(&calls, 99, 1).await.is_some(), "who waited is next");
        drop(held);
        assert!(calls.lanes.lock().unwrap().is_empty() && calls.under_way.load(Ordering::Relaxed) == 0);
    }

    #[tokio::test]
    async fn those_that_wait_are_bounded() {
        let calls = Calls::new();
        let counted: Vec<_> = (0..MAX_QUEUED_CALLS_PER_TENANT)
            .map(|_| calls.count(KnownToken { id: 5, tenant: 5 }).unwrap())
            .collect();
        let refused = calls.enter(KnownToken { id: 6, tenant: 5 }).await.err().unwrap();
        assert!(refused.kind == RefusalKind::Exhausted && refused.text.contains("; hint: "), "{refused}");
        assert!(calls.enter(KnownToken { id: 7, tenant: 7 }).await.is_ok());
        drop(counted);
        assert!(calls.enter(KnownToken { id: 6, tenant: 5 }).await.is_ok());
    }
}
