//! Copies of the command with servers of HTTP and WebDAV: `skyhaul copy` with URLs.
//!
//! ```text
//!   URLs ─▶ PROPFIND (directories) ─▶ HEAD of each file ─┬▶ fetch: threads ─▶ GET by ranges ─▶ disk        download
//!                                                        └▶ COPY at one server, markers ─▶ HEAD             between two
//!   files ─▶ MKCOL (directories) ─▶ HEAD ─▶ PUT ─▶ HEAD                                                     upload
//!   URLs ─▶ PROPFIND (directories) ─▶ POST /jobs at an FTS server                                           fts
//! ```
//!
//! Threads do the work and wait for disks, as in every copy; the client of `remote` runs below them, so that a slow server
//! holds no disk. The user names the server, so any address may be connected to.
//!
//! Limits: one server in a copy; replies to PROPFIND of [`MAX_LISTING_BYTES`]; directories nested [`MAX_DEPTH`] deep; a server that sends
//! nothing for the patience of the copy, or less than [`MIN_BYTES_PER_SECOND`], is asked again.

mod between;
mod body;
mod collections;
mod direction;
mod download;
pub(crate) mod files;
pub mod fts;
mod listing;
mod marker_reader;
pub(crate) mod pace;
mod upload;

pub use between::{CopyBetween, copy_between};
pub use direction::CopyDirection;
#[doc(hidden)]
pub use marker_reader::fuzz_markers;

use crate::remote::authorities::Authorities;
use crate::remote::failure::{Failure, Retry};
use crate::remote::progress::Progress;
use crate::remote::session::{Destinations, Purpose, RemoteAccess, RemoteSession};
use crate::remote::url::RemoteUrl;
use crate::scitags::SciTag;
use axum::http::header::{AUTHORIZATION, HeaderName, HeaderValue};
use axum::http::{HeaderMap, Method};
use skyhaul::core::hint::Hint;
use skyhaul::io::lock::lock;
use skyhaul_transfer::copy::{FetchError, back_off};
use std::io;
use std::path::PathBuf;
use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use tokio::runtime::{Builder, Runtime};
use tokio::time::timeout;

/// Maximum size of the reply to PROPFIND, bytes.
pub const MAX_LISTING_BYTES: usize = 64 << 20;
/// Maximum depth of directories.
pub const MAX_DEPTH: usize = 64;
/// Minimum rate of a range, bytes per second.
pub const MIN_BYTES_PER_SECOND: u64 = 10 << 10;
/// Time in which a server removes what a copy that was ended has left.
const SETTLE_TIME: Duration = Duration::from_secs(1);
/// Attempts to reach a server that has never answered: its name may be wrong.
const FIRST_TRIES: u32 = 3;
/// How often a wait looks whether the copy is over.
const LOOK_INTERVAL: Duration = Duration::from_millis(100);

/// How servers are reached.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WebAccess {
    /// The bearer token.
    pub token: Option<String>,
    /// Whether the token may be sent over a network without TLS.
    pub token_in_plain_text: bool,
    /// A file or directory with more authorities of certificates than those of the system.
    pub authorities: Option<PathBuf>,
    /// Whose traffic it is; servers that mark it are given this.
    pub tag: Option<SciTag>,
}

impl WebAccess {
    /// Whether a token may be sent there.
    fn check_secret(&self, url: &RemoteUrl) -> io::Result<()> {
        let is_here =
            url.host == "localhost" || url.address().is_some_and(|ip| ip.to_canonical().is_loopback());
        if url.is_encrypted || is_here || self.token_in_plain_text {
            return Ok(());
        }
        let hint = Hint("use https://, or --plain-token on a network that you trust");
        let text = format!("the token would be sent to {} in plain text{hint}", url.host);
        Err(io::Error::new(io::ErrorKind::PermissionDenied, text))
    }
}

/// A client of one server.
pub struct WebClient {
    runtime: Runtime,
    remote: Arc<RemoteAccess>,
    access: WebAccess,
    patience: Duration,
    progress: Arc<Progress>,
    /// Sessions whose connections wait for the next request.
    idle: Mutex<Vec<RemoteSession>>,
    /// The server has answered.
    has_answered: AtomicBool,
}

impl WebClient {
    /// `patience` is the longest time in which a server may send nothing.
    ///
    /// # Errors
    /// The authorities cannot be read; threads cannot be started.
    pub fn new(access: &WebAccess, patience: Duration) -> io::Result<Self> {
        let authorities = Authorities::BesidesSystem(access.authorities.as_deref());
        let remote = Arc::new(RemoteAccess::new(Destinations::Any, authorities, Purpose::Copies)?);
        let runtime = Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
        let (access, progress, idle) = (access.clone(), Arc::default(), Mutex::default());
        Ok(Self { runtime, remote, access, patience, progress, idle, has_answered: AtomicBool::new(false) })
    }

    /// The URLs of a copy: all on one server, to which the token may be sent. Those that are signed are asked with `method` alone.
    fn urls(&self, texts: &[String], method: &Method) -> io::Result<Vec<RemoteUrl>> {
        let invalid = |text: String| io::Error::new(io::ErrorKind::InvalidInput, text);
        let mut urls: Vec<RemoteUrl> = Vec::new();
        for text in texts {
            let url =
                RemoteUrl::parse(text).map_err(|why| invalid(format!("the URL cannot be used: {why}")))?;
            url.names().map_err(|why| invalid(format!("{url}: {why}")))?;
            url.check_signed_headers(method, &HeaderMap::new())
                .map_err(|why| invalid(why.text().to_owned()))?;
            if urls.first().is_some_and(|first| !first.is_same_server(&url)) {
                let hint = Hint("run a copy for each of them");
                return Err(invalid(format!("the URLs are of different servers{hint}")));
            }
            urls.push(url);
        }
        if let Some(url) = urls.iter().find(|url| !url.is_signed()) {
            self.check_token(url)?;
        }
        Ok(urls)
    }

    fn check_token(&self, url: &RemoteUrl) -> io::Result<()> {
        if self.access.token.is_none() { Ok(()) } else { self.access.check_secret(url) }
    }

    /// A session for requests about `url`.
    fn session(&self, url: &RemoteUrl, side: &'static str) -> RemoteSession {
        let token = self.access.token.as_ref().filter(|_| !url.is_signed());
        // A session sends what it was made with: one for a signed URL has no token.
        if token.is_some() == self.access.token.is_some()
            && let Some(mut session) = lock(&self.idle).pop()
        {
            session.turn_to(url);
            return session;
        }
        let mut passed = HeaderMap::new();
        if let Some(token) = token
            && let Ok(mut value) = HeaderValue::from_str(&format!("Bearer {token}"))
        {
            value.set_sensitive(true);
            passed.insert(AUTHORIZATION, value);
        }
        let tag = self.access.tag.map(|tag| (HeaderName::from_static("scitag"), tag.number().into()));
        passed.extend(tag);
        RemoteSession::new(&self.remote, side, (url, &passed), &self.progress)
    }

    fn put_back(&self, session: RemoteSession) {
        if self.access.token.is_none() || !session.url.is_signed() {
            lock(&self.idle).push(session);
        }
    }

    /// The result of `work`, while the copy is not over and no longer than `limit`.
    fn wait<T>(
        &self,
        work: impl Future<Output = T>,
        limit: Duration,
        is_over: &dyn Fn() -> bool,
    ) -> Result<T, FetchError> {
        let begun = Instant::now();
        self.runtime.block_on(async {
            let mut work = pin!(work);
            loop {
                match timeout(LOOK_INTERVAL, &mut work).await {
                    Ok(done) => return Ok(done),
                    Err(_) if is_over() => return Err(FetchError::Over),
                    Err(_) if begun.elapsed() >= limit => {
                        let seconds = limit.as_secs();
                        let text = format!("Connection timed out: the server sent nothing in {seconds} s");
                        return Err(FetchError::Broken(text));
                    }
                    Err(_) => {}
                }
            }
        })
    }
}

impl WebClient {
    /// Does `work` again while its server asks for that, or the connection breaks: `work` may be done twice. A server that has never answered
    /// is tried [`FIRST_TRIES`] times.
    fn retried<T>(
        &self,
        is_over: &dyn Fn() -> bool,
        work: &mut dyn FnMut() -> Result<T, FetchError>,
    ) -> Result<T, FetchError> {
        let mut tries = 0;
        loop {
            let done = work();
            if !matches!(done, Err(FetchError::Broken(_) | FetchError::Over)) {
                self.has_answered.store(true, Ordering::Relaxed);
            }
            let (error, wait) = match done {
                Err(FetchError::Busy(text, wait)) => (FetchError::Final(text), wait),
                Err(error @ FetchError::Broken(_)) => (error, None),
                other => return other,
            };
            tries += 1;
            let is_enough = tries >= FIRST_TRIES && !self.has_answered.load(Ordering::Relaxed);
            let Some(wait) = back_off(tries, wait).filter(|_| !is_enough) else { return Err(error) };
            pause(wait, is_over)?;
        }
    }
}

/// Waits, unless the copy is over.
pub(crate) fn pause(time: Duration, is_over: &dyn Fn() -> bool) -> Result<(), FetchError> {
    let end = Instant::now() + time;
    while Instant::now() < end {
        if is_over() {
            return Err(FetchError::Over);
        }
        std::thread::sleep(LOOK_INTERVAL.min(end.saturating_duration_since(Instant::now())));
    }
    Ok(())
}

/// A refusal because of what is there.
fn in_the_way(text: &str) -> String {
    let hint = Hint("--exists replace overwrites what is there");
    format!("{text}{hint}")
}

/// A failure as the threads of a copy see it.
fn fetch_error(failure: &Failure) -> FetchError {
    let text = failure.text().to_owned();
    match failure.retry() {
        Retry::Never => FetchError::Final(text),
        Retry::After(wait) => FetchError::Busy(text, wait),
        Retry::Reconnect => FetchError::Broken(text),
    }
}

/// The error of a copy that did not begin.
pub(crate) fn begin_error(error: FetchError) -> io::Error {
    match error {
        FetchError::Over => io::Error::new(io::ErrorKind::Interrupted, "interrupted"),
        FetchError::Final(text) | FetchError::Busy(text, _) | FetchError::Broken(text) => {
            io::Error::other(text)
        }
    }
}
