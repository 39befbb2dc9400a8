//! The connection to one member at a time, and the next one when it fails.
//!
//! ```text
//!   call ─▶ channel of the current member ─▶ reply
//!              │ broke, silent, no leader
//!              └─▶ next member ─▶ … all failed: pause with jitter, once more, until the deadline
//! ```
//!
//! A call may be sent twice, if its first reply was lost. So each call of [`store`](super::store) has the same result then.

use super::error::{FleetStoreError, StoreProblem, is_stale_token, of_connection, of_status};
use super::options::FleetStoreOptions;
use super::proto::AuthenticateRequest;
use super::proto::auth_client::AuthClient;
use crate::ejfat::client::verifier::Pinned;
use core::net::IpAddr;
use ring::rand::{SecureRandom, SystemRandom};
use skyhaul::io::file::{SETTINGS, read_small};
use skyhaul::io::lock::lock;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::time::{Instant, timeout};
use tonic::metadata::{Ascii, MetadataValue};
use tonic::transport::{Channel, ClientTlsConfig, Endpoint, Identity};
use tonic::{Request, Response, Status};

/// Maximum number of members.
const MAX_ENDPOINTS: usize = 16;
/// Maximum time of one attempt: so that another member can be asked before the deadline of the call.
const ATTEMPT_TIMEOUT: Duration = Duration::from_secs(2);
/// Pause after all members have failed: the first value, then each time twice as long, up to the second.
const MIN_PAUSE: Duration = Duration::from_millis(100);
const MAX_PAUSE: Duration = Duration::from_secs(10);

/// A member, as it is named in the options.
#[derive(Debug)]
pub(super) struct Member {
    pub(super) at: String,
    pub(super) endpoint: Endpoint,
}

#[derive(Debug, Default)]
struct Current {
    member: usize,
    channel: Option<Channel>,
    token: Option<MetadataValue<Ascii>>,
}

/// Connections to the members of a store.
#[derive(Debug)]
pub(super) struct Connection {
    pub(super) members: Vec<Member>,
    user: Option<User>,
    current: Mutex<Current>,
    pub(super) deadline: Duration,
}

struct User {
    name: String,
    password: String,
}

impl std::fmt::Debug for User {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("User").field("name", &self.name).finish_non_exhaustive()
    }
}

impl Connection {
    pub(super) fn new(options: &FleetStoreOptions) -> Result<Self, FleetStoreError> {
        let unsent = |at: &str, problem: String, hint| FleetStoreError {
            what: "connect",
            at: at.to_owned(),
            why: StoreProblem::Unsent { problem, hint },
        };
        if options.endpoints.is_empty() || options.endpoints.len() > MAX_ENDPOINTS {
            let problem = format!("expected 1 to {MAX_ENDPOINTS} endpoints, got {}", options.endpoints.len());
            return Err(unsent("no address", problem, "give the client URLs of the members of etcd"));
        }
        let user = options.user_file.as_deref().map(read_user).transpose();
        let user = user
            .map_err(|problem| unsent("any address", problem, "give a file with one line: name:password"))?;
        let tls = Tls::read(options)
            .map_err(|problem| unsent("any address", problem, "give files with certificates in PEM form"))?;
        let make = |at: &String| {
            member(at, options, &tls, user.is_some()).map_err(|(problem, hint)| unsent(at, problem, hint))
        };
        let mut members = options.endpoints.iter().map(make).collect::<Result<Vec<_>, _>>()?;
        // Not every station asks the same member first.
        let first = random(members.len() as u64) as usize;
        members.rotate_left(first);
        Ok(Self { members, user, current: Mutex::default(), deadline: options.deadline })
    }

    /// The addresses of all members, for errors.
    pub(super) fn all(&self) -> String {
        self.members.iter().map(|member| member.at.as_str()).collect::<Vec<_>>().join(", ")
    }

    /// Makes a call of any member until one replies, at most for the deadline.
    pub(super) async fn call<Q, R, F>(
        &self,
        what: &'static str,
        message: Q,
        make: impl Fn(Channel, Request<Q>) -> F,
    ) -> Result<R, FleetStoreError>
    where
        Q: Clone,
        F: Future<Output = Result<Response<R>, Status>>,
    {
        self.call_within(what, self.deadline, message, make).await
    }

    /// The same, with this deadline.
    pub(super) async fn call_within<Q, R, F>(
        &self,
        what: &'static str,
        deadline: Duration,
        message: Q,
        make: impl Fn(Channel, Request<Q>) -> F,
    ) -> Result<R, FleetStoreError>
    where
        Q: Clone,
        F: Future<Output = Result<Response<R>, Status>>,
    {
        let until = Instant::now() + deadline;
        let (mut failures, mut renewed) = (0, false);
        loop {
            let (at, why) = match self.attempt(until, &message, &make).await {
                Ok(reply) => return Ok(reply),
                // The rights of users have changed, or the token has expired.
                Err((_, _, true)) if !renewed => {
                    renewed = true;
                    continue;
                }
                Err((at, why, _)) => (at, why),
            };
            failures += 1;
            let pause = if failures % self.members.len() == 0 {
                pause(failures / self.members.len() - 1)
            } else {
                Duration::ZERO
            };
            if !why.is_away() || Instant::now() + pause >= until {
                let at = if why.is_away() { self.all() } else { at };
                return Err(FleetStoreError { what, at, why });
            }
            tokio::time::sleep(pause).await;
        }
    }

    /// One attempt with the current member. An error says whether a new token may help.
    async fn attempt<Q, R, F>(
        &self,
        until: Instant,
        message: &Q,
        make: &impl Fn(Channel, Request<Q>) -> F,
    ) -> Result<R, (String, StoreProblem, bool)>
    where
        Q: Clone,
        F: Future<Output = Result<Response<R>, Status>>,
    {
        let time = ATTEMPT_TIMEOUT.min(until.saturating_duration_since(Instant::now()));
        let attempt = async {
            let (channel, request) = self.prepare(message.clone()).await?;
            make(channel, request).await.map(Response::into_inner).map_err(|status| {
                let is_stale = is_stale_token(&status);
                if is_stale {
                    lock(&self.current).token = None;
                }
                (of_status(&status), is_stale)
            })
        };
        let member = lock(&self.current).member;
        let failed = match timeout(time, attempt).await {
            Ok(Ok(reply)) => return Ok(reply),
            Ok(Err(failed)) => failed,
            Err(_) => (StoreProblem::Silent(time), false),
        };
        let at = self.members[member].at.clone();
        if failed.0.is_away() {
            self.leave(member);
        }
        Err((at, failed.0, failed.1))
    }

    /// A channel to the current member, and a request with the token of the user.
    pub(super) async fn prepare<Q>(&self, message: Q) -> Result<(Channel, Request<Q>), (StoreProblem, bool)> {
        let (member, known, token) = {
            let current = lock(&self.current);
            (current.member, current.channel.clone(), current.token.clone())
        };
        let channel = match known {
            Some(channel) => channel,
            None => {
                let made = self.members[member].endpoint.connect().await;
                let made = made.map_err(|error| (of_connection(&error), false))?;
                lock(&self.current).channel.insert(made).clone()
            }
        };
        let mut request = Request::new(message);
        let token = match (&self.user, token) {
            (Some(user), None) => Some(self.authenticate(channel.clone(), user).await?),
            (_, token) => token,
        };
        if let Some(token) = token {
            request.metadata_mut().insert("token", token);
        }
        Ok((channel, request))
    }

    async fn authenticate(
        &self,
        channel: Channel,
        user: &User,
    ) -> Result<MetadataValue<Ascii>, (StoreProblem, bool)> {
        let message = AuthenticateRequest { name: user.name.clone(), password: user.password.clone() };
        let reply = AuthClient::new(channel).authenticate(message).await;
        let reply = reply.map_err(|status| (of_status(&status), false))?.into_inner();
        let token = reply.token.parse::<MetadataValue<Ascii>>();
        let mut token = token.map_err(|_| {
            let problem = "the token of the reply cannot be sent".to_owned();
            (StoreProblem::NotPermitted(problem), false)
        })?;
        // Prevents the token from being logged with the headers.
        token.set_sensitive(true);
        Ok(lock(&self.current).token.insert(token).clone())
    }

    /// Asks one member, and no other, over a connection of its own. The call needs no token.
    pub(super) async fn ask_member<R, F>(
        &self,
        what: &'static str,
        member: usize,
        make: impl FnOnce(Channel) -> F,
    ) -> Result<R, FleetStoreError>
    where
        F: Future<Output = Result<Response<R>, Status>>,
    {
        let Member { at, endpoint } = &self.members[member];
        let time = ATTEMPT_TIMEOUT.min(self.deadline);
        let attempt = async {
            let channel = endpoint.connect().await.map_err(|error| of_connection(&error))?;
            make(channel).await.map(Response::into_inner).map_err(|status| of_status(&status))
        };
        let reply = timeout(time, attempt).await.unwrap_or(Err(StoreProblem::Silent(time)));
        reply.map_err(|why| FleetStoreError { what, at: at.clone(), why })
    }

    /// The token is not accepted any more.
    pub(super) fn forget_token(&self) {
        lock(&self.current).token = None;
    }

    /// The number of the current member.
    pub(super) fn member(&self) -> usize {
        lock(&self.current).member
    }

    /// This member has failed: the next call goes to another one.
    pub(super) fn leave(&self, member: usize) {
        let mut current = lock(&self.current);
        // Several calls may fail with the same connection.
        if current.member == member {
            current.member = (member + 1) % self.members.len();
            current.channel = None;
        }
    }
}

/// The pause after all members have failed so often before, with jitter: stations that lost the store together do not return together.
pub(super) fn pause(rounds: usize) -> Duration {
    let longest = MIN_PAUSE.saturating_mul(1 << rounds.min(10)).min(MAX_PAUSE);
    let millis = longest.as_millis() as u64;
    Duration::from_millis(millis / 2 + random(millis / 2 + 1))
}

/// A number below `limit`.
fn random(limit: u64) -> u64 {
    let mut bytes = [0; 8];
    // Without randomness, all begin with the first.
    let _ = SystemRandom::new().fill(&mut bytes);
    u64::from_le_bytes(bytes) % limit.max(1)
}

/// What connections with TLS need.
struct Tls {
    authority: Option<Arc<Pinned>>,
    identity: Option<Identity>,
}

impl Tls {
    fn read(options: &FleetStoreOptions) -> Result<Self, String> {
        let read = |path: &Path| read_small(path, SETTINGS).map_err(|error| error.to_string());
        let files = &options.certificates;
        let authority = match &files.authority {
            None => None,
            Some(path) => {
                let pinned = Pinned::new(&read(path)?);
                let pinned = pinned.ok_or_else(|| format!("{} contains no certificate", path.display()))?;
                Some(Arc::new(pinned))
            }
        };
        let identity = match (&files.own, &files.key) {
            (None, None) => None,
            (Some(own), Some(key)) => Some(Identity::from_pem(read(own)?, read(key)?)),
            _ => return Err("a client certificate and its key belong together".to_owned()),
        };
        Ok(Self { authority, identity })
    }
}

type Unusable = (String, &'static str);

fn member(at: &str, options: &FleetStoreOptions, tls: &Tls, has_user: bool) -> Result<Member, Unusable> {
    let hint = "give the client URL of a member, such as https://etcd1.example:2379";
    let url = if at.contains("://") { at.to_owned() } else { format!("http://{at}") };
    let endpoint = Endpoint::from_shared(url.clone()).map_err(|_| ("not a URL".to_owned(), hint))?;
    let uri = endpoint.uri().clone();
    let host = uri.host().unwrap_or_default().trim_matches(['[', ']']).to_owned();
    let has_path = !matches!(uri.path(), "" | "/") || uri.query().is_some();
    let has_user_name = uri.authority().is_some_and(|authority| authority.as_str().contains('@'));
    if host.is_empty() || uri.port_u16().is_none() || has_path || has_user_name {
        return Err(("expected a URL with a host and a port, without path and user".to_owned(), hint));
    }
    let endpoint = endpoint
        .connect_timeout(ATTEMPT_TIMEOUT)
        // Detects dead members and paths while a watch waits. More often than every 5 s, etcd closes the connection; so it does if there is
        // neither a watch nor a call.
        .http2_keep_alive_interval(Duration::from_secs(10))
        .keep_alive_timeout(Duration::from_secs(5));
    let is_own = host == "localhost" || host.parse::<IpAddr>().is_ok_and(|ip| ip.is_loopback());
    let endpoint = match uri.scheme_str() {
        Some("http") if has_user && !is_own => {
            let problem = "a password is not sent without encryption".to_owned();
            return Err((problem, "use https://"));
        }
        Some("http") if !is_own && !options.allow_plain => {
            let problem = "http:// is accepted only on this host".to_owned();
            return Err((problem, "use https://, or allow plain connections in a protected network"));
        }
        Some("http") => endpoint,
        Some("https") => {
            let bad = |error: tonic::transport::Error| {
                (format!("the certificates cannot be used: {error}"), "give files in PEM form")
            };
            let mut config = ClientTlsConfig::new().domain_name(host);
            if let Some(identity) = &tls.identity {
                config = config.identity(identity.clone());
            }
            match &tls.authority {
                None => endpoint.tls_config(config.with_native_roots()).map_err(bad)?,
                Some(pinned) => {
                    let pinned = Arc::clone(pinned);
                    endpoint.tls_config_with_verifier(config, pinned).map_err(bad)?
                }
            }
        }
        _ => return Err(("expected http:// or https://".to_owned(), hint)),
    };
    Ok(Member { at: uri.to_string().trim_end_matches('/').to_owned(), endpoint })
}

fn read_user(path: &Path) -> Result<User, String> {
    let text = read_small(path, SETTINGS).map_err(|error| error.to_string())?;
    let text = std::str::from_utf8(&text).unwrap_or_default().trim_end_matches(['\r', '\n']);
    let user = text.split_once(':').filter(|(name, password)| !name.is_empty() && !password.is_empty());
    let (name, password) = user
        .filter(|_| !text.contains('\n'))
        .ok_or_else(|| format!("{} does not contain one line name:password", path.display()))?;
    Ok(User { name: name.to_owned(), password: password.to_owned() })
}
