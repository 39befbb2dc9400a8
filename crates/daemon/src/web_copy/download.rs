//! Downloads: what the server says of each file, and its bytes by ranges.

use super::body::WebBody;
use super::listing::Listing;
use super::{WebClient, begin_error, fetch_error};
use crate::remote::digests::{Algorithm, DigestSet, Digester};
use crate::remote::reply::RemoteReply;
use crate::remote::session::RemoteSession;
use crate::remote::source::{Found, WANTED, find};
use crate::remote::url::RemoteUrl;
use crate::remote::version::SourceVersion;
use axum::http::header::{CONTENT_RANGE, HeaderName, HeaderValue, IF_MATCH, IF_RANGE, RANGE};
use axum::http::{HeaderMap, Method, StatusCode};
use ring::digest::{Context, SHA256};
use skyhaul_transfer::copy::{
    CopyOptions, CopyReport, DigestMismatch, Failed, FetchError, OrderedDigest, Progress, RangeBody,
    RangeServer, ServedFile, fetch,
};
use std::ffi::OsStr;
use std::io;
use std::ops::Range;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, UNIX_EPOCH};

/// Time for the server to say what it has, with its digest.
const HEAD_TIMEOUT: Duration = Duration::from_secs(400);

/// A file on the server.
struct WebFile {
    url: RemoteUrl,
    version: SourceVersion,
    size: u64,
    digests: DigestSet,
}

/// A digest of all bytes in order, and what the server says that it is.
struct WebDigest {
    digester: Digester,
    stated: DigestSet,
}

impl OrderedDigest for WebDigest {
    fn update(&mut self, bytes: &[u8]) {
        self.digester.update(bytes);
    }

    fn compare(self: Box<Self>) -> Result<(), DigestMismatch> {
        let found = self.digester.finish();
        let Some(algorithm) = self.stated.differs_from(&found) else { return Ok(()) };
        let text = |set: &DigestSet| set.header(algorithm).unwrap_or_default();
        Err(DigestMismatch { expected: text(&self.stated), found: text(&found) })
    }
}

impl WebClient {
    /// Downloads what is at these URLs, and everything below those that are directories, into the first directory of `options`; `name`: as a
    /// file of that name. `progress` is called a few times a second.
    ///
    /// # Errors
    /// Nothing was copied: a URL cannot be used, the server is not there, refuses or does not have it; the destination cannot be written.
    /// What ends a copy later is in the report.
    pub fn download(
        &self,
        urls: &[String],
        name: Option<&OsStr>,
        options: &CopyOptions,
        progress: &mut dyn FnMut(&Progress),
    ) -> io::Result<CopyReport> {
        let urls = self.urls(urls, &Method::GET)?;
        let is_over = || options.stop.is_set();
        let listing = self.list(&urls, name, &is_over).map_err(begin_error)?;
        let (files, served, failed) = self.describe(&listing, options)?;
        let server = Download { client: self, files };
        let mut report = fetch((&served, &listing.directories), &server, options, progress)?;
        report.failed.extend(failed);
        report.temporary_names = listing.temporary_names;
        Ok(report)
    }

    /// What the server says of each file, asked for by several threads.
    fn describe(
        &self,
        listing: &Listing,
        options: &CopyOptions,
    ) -> io::Result<(Vec<WebFile>, Vec<ServedFile>, Vec<Failed>)> {
        let (next, is_gone) = (AtomicUsize::new(0), AtomicBool::new(false));
        let found = Mutex::new(Vec::new());
        let is_over = || options.stop.is_set() || is_gone.load(Ordering::Relaxed);
        let work = || {
            while let Some((url, path)) = listing.files.get(next.fetch_add(1, Ordering::Relaxed)) {
                let one = self.file(url, options, &is_over).map(|(file, mut served)| {
                    served.path.clone_from(path);
                    (file, served)
                });
                // A server that is gone is gone for all files.
                if matches!(one, Err(FetchError::Broken(_))) {
                    is_gone.store(true, Ordering::Relaxed);
                }
                let is_over = matches!(one, Err(FetchError::Over | FetchError::Broken(_)));
                skyhaul::io::lock::lock(&found).push((path.clone(), one));
                if is_over {
                    return;
                }
            }
        };
        std::thread::scope(|scope| {
            (0..options.tuning.flows.min(listing.files.len())).for_each(|_| drop(scope.spawn(work)));
        });
        let mut found = found.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner);
        found.sort_by(|(a, _), (b, _)| a.cmp(b));
        if let Some(at) = found.iter().position(|(_, one)| matches!(one, Err(FetchError::Broken(_))))
            && let (_, Err(error)) = found.swap_remove(at)
        {
            return Err(begin_error(error));
        }
        let (mut files, mut served, mut failed) = (Vec::new(), Vec::new(), Vec::new());
        for (path, one) in found {
            match one {
                Ok((file, one)) => {
                    files.push(file);
                    served.push(one);
                }
                Err(FetchError::Over) => return Err(begin_error(FetchError::Over)),
                // What was asked for by its own URL is not there.
                Err(error) if listing.directories.is_empty() => return Err(begin_error(error)),
                Err(error) => {
                    let path = options.into.first().map_or(path.clone(), |into| into.join(&path));
                    failed.push(Failed { path, error: begin_error(error).to_string() });
                }
            }
        }
        Ok((files, served, failed))
    }

    fn file(
        &self,
        url: &RemoteUrl,
        options: &CopyOptions,
        is_over: &dyn Fn() -> bool,
    ) -> Result<(WebFile, ServedFile), FetchError> {
        let verify = options.verify.then_some(true);
        let found = self.retried(is_over, &mut || {
            let mut session = self.session(url, "source");
            let found = self.wait(find(&mut session, verify, WANTED), HEAD_TIMEOUT, is_over)?;
            let found = found.map_err(|failure| fetch_error(&failure))?;
            self.put_back(session);
            Ok(found)
        })?;
        let Some(size) = found.version.size else {
            return Err(FetchError::Final(format!("{url}: the server does not say how long it is")));
        };
        let served = served(url, &found, size);
        let file = WebFile { url: url.clone(), version: found.version, size, digests: found.digests };
        let has_ranges = match served.has_ranges || size <= options.tuning.range || options.verify {
            true => served.has_ranges,
            false => self.retried(is_over, &mut || self.sends_ranges(&file, is_over))?,
        };
        Ok((file, ServedFile { has_ranges, ..served }))
    }

    /// Tries whether a server that does not say so sends ranges.
    fn sends_ranges(&self, file: &WebFile, is_over: &dyn Fn() -> bool) -> Result<bool, FetchError> {
        let (_, reply) = self.get(file, Some(&(0..1)), is_over)?;
        Ok(is_range(&reply, &(0..1), file.size))
    }

    /// The reply to GET, of a range or of all.
    fn get(
        &self,
        file: &WebFile,
        range: Option<&Range<u64>>,
        is_over: &dyn Fn() -> bool,
    ) -> Result<(RemoteSession, RemoteReply), FetchError> {
        let mut session = self.session(&file.url, "source");
        let mut head = HeaderMap::new();
        let mut put = |name: HeaderName, text: &str| {
            head.extend(HeaderValue::from_str(text).ok().map(|value| (name, value)));
        };
        let etag = file.version.etag();
        match (range, etag) {
            (Some(_), Some(etag)) => put(IF_RANGE, etag),
            (None, Some(etag)) => put(IF_MATCH, etag),
            _ => {}
        }
        if let Some(range) = range {
            put(RANGE, &format!("bytes={}-{}", range.start, range.end - 1));
        }
        let reply = self.wait(session.ask(Method::GET, &head), self.patience, is_over)?;
        let reply = reply.map_err(|failure| fetch_error(&failure))?;
        match reply.status {
            StatusCode::OK | StatusCode::PARTIAL_CONTENT => Ok((session, reply)),
            StatusCode::PRECONDITION_FAILED | StatusCode::RANGE_NOT_SATISFIABLE => Err(changed()),
            _ => {
                let refusal = self.wait(session.refusal(reply), self.patience, is_over)?;
                Err(fetch_error(&refusal))
            }
        }
    }
}

fn changed() -> FetchError {
    FetchError::Final("the source changed while it was copied".to_owned())
}

/// Whether a reply is this range and says so: some servers answer 206 and send something else.
fn is_range(reply: &RemoteReply, range: &Range<u64>, size: u64) -> bool {
    let expected = format!("bytes {}-{}/{size}", range.start, range.end - 1);
    reply.status == StatusCode::PARTIAL_CONTENT
        && reply.text(&CONTENT_RANGE).map(str::trim) == Some(expected.as_str())
}

/// The size of the complete object, from a reply with one range of it.
fn whole_size(reply: &RemoteReply) -> Option<u64> {
    reply.text(&CONTENT_RANGE)?.rsplit_once('/')?.1.trim().parse().ok()
}

/// Adler-32 and CRC-32C, if they are known.
pub(super) fn digest_numbers(digests: &DigestSet) -> (Option<u32>, Option<u32>) {
    let number = |algorithm| {
        let value: Option<[u8; 4]> = digests.get(algorithm).and_then(|value| value.try_into().ok());
        value.map(u32::from_be_bytes)
    };
    (number(Algorithm::Adler32), number(Algorithm::Crc32c))
}

fn served(url: &RemoteUrl, found: &Found, size: u64) -> ServedFile {
    let modified = found.version.modified().and_then(|text| httpdate::parse_http_date(text).ok());
    let seconds =
        modified.and_then(|time| time.duration_since(UNIX_EPOCH).ok()).map(|time| time.as_secs() as i64);
    let (adler32, crc32c) = digest_numbers(&found.digests);
    let mut identity = Context::new(&SHA256);
    let etag = found.version.etag();
    for part in [etag, found.version.modified()] {
        identity.update(part.unwrap_or_default().as_bytes());
        identity.update(&[0]);
    }
    for digest in [adler32, crc32c] {
        identity.update(format!("{digest:?}\0").as_bytes());
    }
    for other in [Algorithm::Md5, Algorithm::Sha256] {
        identity.update(found.digests.header(other).unwrap_or_default().as_bytes());
    }
    // Where nothing of the bytes is known, another path is another file.
    if etag.is_none() && found.digests.algorithms().next().is_none() {
        identity.update(url.to_string().as_bytes());
    }
    let identity = identity.finish();
    let word = |at: usize| {
        let bytes = identity.as_ref().get(at..at + 8).and_then(|bytes| bytes.try_into().ok());
        u64::from_be_bytes(bytes.unwrap_or_default())
    };
    let (version, has_ranges) = ([word(0), word(8)], found.has_ranges);
    ServedFile { size, modified: seconds, version, has_ranges, crc32c, adler32, ..ServedFile::default() }
}

/// The files of a download on their server.
struct Download<'a> {
    client: &'a WebClient,
    files: Vec<WebFile>,
}

impl RangeServer for Download<'_> {
    fn open(
        &self,
        number: usize,
        range: Option<Range<u64>>,
        is_over: &dyn Fn() -> bool,
    ) -> Result<Box<dyn RangeBody + '_>, FetchError> {
        let unknown = || FetchError::Final("no such file".to_owned());
        let file = self.files.get(number).ok_or_else(unknown)?;
        let (session, reply) = self.client.get(file, range.as_ref(), is_over)?;
        let now = SourceVersion::of(&reply);
        let bytes = match &range {
            Some(range) if is_range(&reply, range, file.size) && file.version.is_of_part(&now) => {
                range.end - range.start
            }
            // All of it is sent where the version that was asked for is gone.
            Some(_) if reply.status == StatusCode::OK && !file.version.is(&now) => return Err(changed()),
            Some(_) if !file.version.is_of_part(&now) => return Err(changed()),
            Some(_) if whole_size(&reply).is_some_and(|size| size != file.size) => return Err(changed()),
            Some(range) => {
                let (first, last) = (range.start, range.end - 1);
                let text = format!("the source does not send the range bytes={first}-{last}");
                return Err(FetchError::Final(text));
            }
            None if reply.status == StatusCode::OK && file.version.is(&now) => file.size,
            None => return Err(changed()),
        };
        Ok(Box::new(WebBody::new(self.client, session, reply.into_body(), bytes)))
    }

    fn confirm(&self, number: usize, is_over: &dyn Fn() -> bool) -> Result<(), FetchError> {
        let unknown = || FetchError::Final("no such file".to_owned());
        let file = self.files.get(number).ok_or_else(unknown)?;
        let mut session = self.client.session(&file.url, "source");
        let found = find(&mut session, Some(false), WANTED);
        let found = self.client.wait(found, HEAD_TIMEOUT, is_over)?;
        let found = found.map_err(|failure| fetch_error(&failure))?;
        self.client.put_back(session);
        if file.version.is(&found.version) { Ok(()) } else { Err(changed()) }
    }

    fn ordered_digest(&self, number: usize) -> Option<Box<dyn OrderedDigest>> {
        let stated = &self.files.get(number)?.digests;
        let algorithms: Vec<Algorithm> = stated.algorithms().collect();
        let (digester, stated) = (Digester::new(algorithms.iter().copied()), stated.clone());
        (!algorithms.is_empty()).then(|| Box::new(WebDigest { digester, stated }) as Box<dyn OrderedDigest>)
    }
}
