//! Copies between two servers (WLCG HTTP-TPC): one of them is asked to fetch a file from the other, or to send it there.
//!
//! ```text
//!   source: HEAD ─▶ size, digest ─▶ destination: HEAD, is something there? ─▶ COPY ─▶ markers … success │ failure ─▶ HEAD of both: equal?
//! ```
//!
//! A URL that is signed for one request gives the right to nothing else: from a signed source the destination fetches, to a signed destination the
//! source sends, and what that has then is not asked.
//!
//! The bytes do not pass through this host. Whatever the server says at the end, the copy has succeeded when size and digest of both sides
//! are equal, as far as both give them. Ctrl-C closes the connection of COPY, which ends it; what a server has left of a file that was not there
//! before is removed.

use super::direction::{CopyDirection, direction};
use super::files::{Ended, account, each};
use super::marker_reader::MarkerReader;
use super::{SETTLE_TIME, WebClient, begin_error, fetch_error, in_the_way};
use crate::remote::digests::DigestSet;
use crate::remote::reply::{RemoteBody, RemoteReply};
use crate::remote::signature::without_secrets;
use crate::remote::source::{WANTED, find};
use crate::remote::url::RemoteUrl;
use axum::body::HttpBody;
use axum::http::header::{AUTHORIZATION, HeaderName, HeaderValue};
use axum::http::{HeaderMap, Method};
use skyhaul::core::hint::Hint;
use skyhaul::stop::StopFlag;
use skyhaul_transfer::copy::{CopyReport, Exists, FetchError, Progress};
use std::ffi::OsStr;
use std::future::poll_fn;
use std::io;
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Files that are copied at a time.
const MAX_FILES_AT_A_TIME: usize = 4;
/// Time for a server to say what it has, with its digest.
const HEAD_TIMEOUT: Duration = Duration::from_secs(400);
/// Time for the active server to begin: it asks the other one first.
const COPY_TIMEOUT: Duration = Duration::from_secs(400);
/// Longest time without a marker. Servers send one each 5 s; the draft wants less than 30 s.
const MARKER_TIMEOUT: Duration = Duration::from_secs(120);

/// A copy between two servers.
#[derive(Clone, Debug, Default)]
pub struct CopyBetween {
    /// The URL of a file or directory.
    pub source: String,
    /// The URL of a directory, with `/` at its end, or of a file.
    pub destination: String,
    /// Which server is asked.
    pub direction: CopyDirection,
    /// Streams of each file; 0: as many as the server likes.
    pub streams: usize,
    /// What to do with files that exist and differ.
    pub exists: Exists,
    /// Ends it.
    pub stop: StopFlag,
}

/// A file of it.
struct Pair {
    source: RemoteUrl,
    destination: RemoteUrl,
    name: PathBuf,
}

/// What a server says of a file.
#[derive(Clone, Debug, Default)]
struct Has {
    size: Option<u64>,
    digests: DigestSet,
}

/// Copies between two servers, each with a client for its own token. `progress` is called a few times a second.
///
/// # Errors
/// Nothing was copied: a URL cannot be used, or a server is not there or does not list its directory. What fails later is in the report.
pub fn copy_between(
    order: &CopyBetween,
    source: &WebClient,
    destination: &WebClient,
    progress: &mut dyn FnMut(&Progress),
) -> io::Result<CopyReport> {
    let from = source.urls(std::slice::from_ref(&order.source), &Method::GET)?;
    let to = destination.urls(std::slice::from_ref(&order.destination), &Method::PUT)?;
    let (Some(from), Some(to)) = (from.first(), to.first()) else { return Ok(CopyReport::default()) };
    let direction = direction(order.direction, order.exists, from, to)?;
    // Each token may reach the other server, too; that for a signed URL goes nowhere.
    if !from.is_signed() {
        source.check_token(to)?;
    }
    if !to.is_signed() {
        destination.check_token(from)?;
    }
    let is_over = || order.stop.is_set();
    let begun = Instant::now();
    let copy = Between { order, direction, source, destination, bytes: AtomicU64::new(0) };
    let (pairs, directories, temporary_names) = copy.pairs(from, to, &is_over).map_err(begin_error)?;
    for directory in &directories {
        destination.make(directory, &is_over).map_err(begin_error)?;
    }
    let work = |pair: &Pair, _: usize, is_over: &dyn Fn() -> bool| copy.file(pair, is_over);
    let done = each((&pairs, MAX_FILES_AT_A_TIME), &is_over, &work, &mut |files| {
        progress(&Progress {
            files,
            all_files: pairs.len(),
            bytes: copy.bytes.load(Ordering::Relaxed),
            seconds: begun.elapsed().as_secs_f64(),
            ..Progress::default()
        });
    });
    let mut report = CopyReport {
        version: skyhaul::report::VERSION,
        directories: directories.len(),
        flows: order.streams,
        seconds: begun.elapsed().as_secs_f64(),
        temporary_names,
        ..CopyReport::default()
    };
    let named = done.into_iter().filter_map(|(at, ended)| Some((pairs.get(at)?.name.clone(), ended)));
    account(&mut report, named.collect(), pairs.len());
    Ok(report)
}

struct Between<'a> {
    order: &'a CopyBetween,
    /// Which server is asked, as the URLs permit.
    direction: CopyDirection,
    source: &'a WebClient,
    destination: &'a WebClient,
    bytes: AtomicU64,
}

impl Between<'_> {
    /// The files, the directories to be made, first those above others, and how many names are left out.
    fn pairs(
        &self,
        from: &RemoteUrl,
        to: &RemoteUrl,
        is_over: &dyn Fn() -> bool,
    ) -> Result<(Vec<Pair>, Vec<RemoteUrl>, usize), FetchError> {
        let bad = |url: &RemoteUrl| {
            let url = url.clone();
            move |why| FetchError::Final(format!("{url}: {why}"))
        };
        let base = to.names().map_err(bad(to))?;
        let name = base.last().to_owned();
        let renamed = (!to.is_directory()).then_some(OsStr::new(&name));
        let listing = self.source.list(std::slice::from_ref(from), renamed, is_over)?;
        let at = |path: &std::path::Path, is_directory: bool| {
            let names = path.iter().map(|name| name.to_string_lossy().into_owned());
            to.at(&names.fold(base.clone(), |base, name| base.child(&name)), is_directory)
        };
        let directories = listing.directories.iter().map(|path| at(path, true)).collect();
        let pair = |(source, path): (RemoteUrl, PathBuf)| {
            let destination = if renamed.is_some() { to.clone() } else { at(&path, false) };
            Pair { source, destination, name: path }
        };
        Ok((listing.files.into_iter().map(pair).collect(), directories, listing.temporary_names))
    }

    /// What a server has at a URL, with one of the digests wanted; `None`: nothing.
    fn has(
        client: &WebClient,
        side: &'static str,
        url: &RemoteUrl,
        wanted: &'static str,
        is_over: &dyn Fn() -> bool,
    ) -> Result<Option<Has>, FetchError> {
        client.retried(is_over, &mut || {
            let mut session = client.session(url, side);
            match client.wait(find(&mut session, None, wanted), HEAD_TIMEOUT, is_over)? {
                Ok(found) => {
                    client.put_back(session);
                    Ok(Some(Has { size: found.version.size, digests: found.digests }))
                }
                Err(failure) if failure.is_not_found() => Ok(None),
                Err(failure) => Err(fetch_error(&failure)),
            }
        })
    }

    fn file(&self, pair: &Pair, is_over: &dyn Fn() -> bool) -> Result<Ended, FetchError> {
        let missing = || FetchError::Final("No such file or directory at the source".to_owned());
        let source = Self::has(self.source, "source", &pair.source, WANTED, is_over)?.ok_or_else(missing)?;
        let bytes = source.size.unwrap_or(0);
        let is_write_only = pair.destination.is_signed();
        let before = match is_write_only {
            true => None,
            false => Self::has(self.destination, "destination", &pair.destination, WANTED, is_over)?,
        };
        if let Some(before) = &before {
            match self.order.exists {
                Exists::Skip => return Ok(Ended::Kept { bytes }),
                Exists::Fail if self.equal(pair, &source, before, is_over).is_ok_and(|checked| checked) => {
                    return Ok(Ended::Kept { bytes });
                }
                Exists::Fail => {
                    let hint = Hint("--exists replace overwrites it, --exists skip keeps it");
                    return Err(FetchError::Final(format!("File exists at the destination{hint}")));
                }
                Exists::Replace => {}
            }
        }
        let begun = AtomicBool::new(false);
        let copied = self.copy(pair, &begun, is_over);
        let checked = copied.and_then(|()| {
            if is_write_only {
                return Ok(false);
            }
            let now = Self::has(self.destination, "destination", &pair.destination, WANTED, is_over)?;
            let missing =
                || FetchError::Final("the copy succeeded, and the destination has no such file".to_owned());
            self.equal(pair, &source, &now.ok_or_else(missing)?, is_over)
        });
        match checked {
            Ok(is_checked) => Ok(Ended::Copied { bytes, resumed: 0, crc32c: None, is_checked }),
            Err(error) => {
                // What is there after a refusal is somebody else's.
                if before.is_none() && !is_write_only && begun.load(Ordering::Relaxed) {
                    self.clean(pair, source.size);
                }
                Err(self.without_secrets(pair, error))
            }
        }
    }

    /// Whether both servers have the same, and a digest says so. Each gives one digest: where these are of two algorithms, each server in
    /// turn is asked for that of the other.
    fn equal(
        &self,
        pair: &Pair,
        source: &Has,
        there: &Has,
        is_over: &dyn Fn() -> bool,
    ) -> Result<bool, FetchError> {
        if equal(source, there).map_err(FetchError::Final)? {
            return Ok(true);
        }
        let turns = [
            (self.destination, "destination", &pair.destination, &source.digests),
            (self.source, "source", &pair.source, &there.digests),
        ];
        for (client, side, url, digests) in turns {
            let Some(algorithm) = digests.algorithms().next() else { return Ok(false) };
            let has = Self::has(client, side, url, algorithm.name(), is_over)?;
            let missing = || FetchError::Final(format!("No such file or directory at the {side}"));
            let has = has.ok_or_else(missing)?;
            let (source, there) = if side == "source" { (&has, there) } else { (source, &has) };
            if equal(source, there).map_err(FetchError::Final)? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Removes what a copy that failed has left of a file that was not there before. What is larger than the source, another client has put there.
    fn clean(&self, pair: &Pair, source: Option<u64>) {
        let never = || false;
        std::thread::sleep(SETTLE_TIME);
        let there = Self::has(self.destination, "destination", &pair.destination, WANTED, &never);
        let Ok(Some(Has { size, .. })) = there else { return };
        if size.zip(source).is_some_and(|(there, source)| there > source) {
            return;
        }
        let mut session = self.destination.session(&pair.destination, "destination");
        let none = HeaderMap::new();
        // The failure is reported either way.
        drop(self.destination.wait(session.ask(Method::DELETE, &none), MARKER_TIMEOUT, &never));
    }

    /// An error as a server has said it, without what is secret of this copy: the server that copies knows of both sides.
    fn without_secrets(&self, pair: &Pair, error: FetchError) -> FetchError {
        let tokens = (passed(self.source, &pair.source), passed(self.destination, &pair.destination));
        let plain = |text| without_secrets(text, &[&tokens.0, &tokens.1], &[&pair.source, &pair.destination]);
        // Of a signed destination, nobody could see before what it has.
        let is_in_the_way =
            |text: &str| pair.destination.is_signed() && text.starts_with("Precondition failed");
        match error {
            FetchError::Over => FetchError::Over,
            FetchError::Final(text) if is_in_the_way(&text) => FetchError::Final(in_the_way(&plain(text))),
            FetchError::Final(text) => FetchError::Final(plain(text)),
            FetchError::Busy(text, wait) => FetchError::Busy(plain(text), wait),
            FetchError::Broken(text) => FetchError::Broken(plain(text)),
        }
    }

    fn copy(&self, pair: &Pair, begun: &AtomicBool, is_over: &dyn Fn() -> bool) -> Result<(), FetchError> {
        // A copy that may have begun is not asked for again.
        let once = |error| match error {
            FetchError::Broken(text) => FetchError::Final(text),
            other => other,
        };
        let ask = |pull| self.ask((pair, begun), pull, is_over).map_err(once);
        let active = |pull| if pull { self.destination } else { self.source };
        let asked = |pull| active(pull).retried(is_over, &mut || ask(pull));
        match self.direction {
            CopyDirection::Pull => asked(true)?.map_err(FetchError::Final),
            CopyDirection::Push => asked(false)?.map_err(FetchError::Final),
            CopyDirection::Either => match asked(true)? {
                Ok(()) => Ok(()),
                // The destination cannot: the source may.
                Err(first) => asked(false)?.map_err(|second| FetchError::Final(format!("{first}; {second}"))),
            },
        }
    }

    /// Asks a server to copy. The inner error: it cannot copy between servers.
    fn ask(
        &self,
        (pair, begun): (&Pair, &AtomicBool),
        pull: bool,
        is_over: &dyn Fn() -> bool,
    ) -> Result<Result<(), String>, FetchError> {
        let (active, passive, side) = match pull {
            true => (self.destination, self.source, "destination"),
            false => (self.source, self.destination, "source"),
        };
        let (at, other) =
            if pull { (&pair.destination, &pair.source) } else { (&pair.source, &pair.destination) };
        let mut session = active.session(at, side);
        session.pass(&passed(passive, other));
        let mut head = HeaderMap::new();
        let mut put = |name: &'static str, text: &str| {
            head.extend(HeaderValue::from_str(text).ok().map(|value| (HeaderName::from_static(name), value)));
        };
        put(if pull { "source" } else { "destination" }, &other.text());
        put("overwrite", if self.order.exists == Exists::Replace { "T" } else { "F" });
        put("credential", "none");
        if pull {
            put("x-number-of-streams", &self.order.streams.to_string());
        }
        let method = Method::from_bytes(b"COPY").unwrap_or(Method::PUT);
        // Until it has answered, it may have begun.
        begun.store(true, Ordering::Relaxed);
        let reply = active.wait(session.ask(method, &head), COPY_TIMEOUT, is_over)?;
        let reply = reply.map_err(|failure| fetch_error(&failure))?;
        let is_begun = matches!(reply.status.as_u16(), 200..=202 | 204);
        begun.store(is_begun, Ordering::Relaxed);
        match reply.status.as_u16() {
            // It has copied already, as it does from itself (RFC 4918, 9.8.5): size and digest are compared next.
            201 | 204 if reply.is_empty() => Ok(Ok(())),
            200..=202 => self.follow(active, reply, is_over).map(Ok),
            // Not a method of it, as XRootD says without its plug-in, or as others say.
            400 | 405 | 501 => {
                let refusal = active.wait(session.refusal(reply), COPY_TIMEOUT, is_over)?;
                Ok(Err(refusal.text().to_owned()))
            }
            _ => {
                let refusal = active.wait(session.refusal(reply), COPY_TIMEOUT, is_over)?;
                Err(fetch_error(&refusal))
            }
        }
    }

    /// Reads markers until the result.
    fn follow(
        &self,
        active: &WebClient,
        reply: RemoteReply,
        is_over: &dyn Fn() -> bool,
    ) -> Result<(), FetchError> {
        let mut body: RemoteBody = reply.into_body();
        let (mut markers, mut seen) = (MarkerReader::default(), 0);
        loop {
            let frame = poll_fn(|context| Pin::new(&mut body).poll_frame(context));
            let part = match active.wait(frame, MARKER_TIMEOUT, is_over)? {
                None => None,
                Some(Ok(frame)) => Some(frame.into_data().unwrap_or_default()),
                Some(Err(error)) => {
                    return Err(FetchError::Final(format!(
                        "Remote I/O error: the connection of the copy broke: {error}"
                    )));
                }
            };
            let is_end = part.is_none();
            let result = markers.read(part.as_deref().unwrap_or_default(), is_end);
            let bytes = markers.bytes();
            if bytes > seen {
                self.bytes.fetch_add(bytes - seen, Ordering::Relaxed);
                seen = bytes;
            }
            match result {
                Err(why) => return Err(FetchError::Final(why)),
                Ok(Some(result)) => return result.map_err(FetchError::Final),
                Ok(None) if is_end => {
                    let text = "the server ended the copy without saying how";
                    return Err(FetchError::Final(text.to_owned()));
                }
                Ok(None) => {}
            }
        }
    }
}

/// The headers for the other server: its token, in the form of the draft and in that of old XRootD servers; none where its URL is signed.
fn passed(passive: &WebClient, url: &RemoteUrl) -> HeaderMap {
    let Some(token) = passive.access.token.as_ref().filter(|_| !url.is_signed()) else {
        return HeaderMap::new();
    };
    let forms = [
        (HeaderName::from_static("transferheaderauthorization"), format!("Bearer {token}")),
        (HeaderName::from_static("copy-header"), format!("{AUTHORIZATION}: Bearer {token}")),
    ];
    let sensitive = |(name, text): (HeaderName, String)| {
        let mut value = HeaderValue::from_str(&text).ok()?;
        value.set_sensitive(true);
        Some((name, value))
    };
    forms.into_iter().filter_map(sensitive).collect()
}

/// Whether a digest shows that both servers have the same file; an error names the difference.
fn equal(one: &Has, other: &Has) -> Result<bool, String> {
    if let (Some(expected), Some(found)) = (one.size, other.size)
        && expected != found
    {
        return Err(format!("the source has {expected} bytes, and the destination {found}"));
    }
    if let Some(algorithm) = one.digests.differs_from(&other.digests) {
        let text = |has: &Has| has.digests.header(algorithm).unwrap_or_default();
        return Err(format!(
            "CHECKSUM MISMATCH: {} at the source, {} at the destination",
            text(one),
            text(other)
        ));
    }
    Ok(one.digests.algorithms().any(|algorithm| other.digests.get(algorithm).is_some()))
}
