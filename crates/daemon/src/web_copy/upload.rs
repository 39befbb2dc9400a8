//! Uploads: files here that a server gets by PUT, with the same code as the pushes of a station.
//!
//! ```text
//!   names ─▶ MKCOL of directories ─▶ HEAD: is something there? ─▶ PUT, verified (remote::put) ─▶ still the same here?
//!                                                            └▶ broke, busy: what is left is removed, and all of it sent again
//! ```
//!
//! A station keeps what has arrived of a file when the connection breaks or one of both ends is killed, and is sent the rest, if that is the beginning of the
//! same file. Other servers take no rest: they get a file from its beginning each time. Digests are computed of all bytes. If the server gives only another one, the
//! file is read once more for that.
//!
//! Limits: memory for pieces of [`MEMORY_BYTES`]; the clocks of [`progress`](crate::remote::progress) with [`STALL`].

mod summed;

use super::download::digest_numbers;
use super::files::{Ended, account, each};
use super::pace::{Pace, Paced};
use super::{MIN_BYTES_PER_SECOND, SETTLE_TIME, WebClient, begin_error, fetch_error, in_the_way};
use crate::remote::digests::{Algorithm, DigestSet};
use crate::remote::failure::{Failure, plain};
use crate::remote::outgoing::{BodyReader, FileBody, Part, Source};
use crate::remote::progress::{Progress as Moved, StallClock, Step};
use crate::remote::put::{Continued, PutOrder, Sent, There, clean, compare, look, put, verify};
use crate::remote::request_path::RequestPath;
use crate::remote::source::{WANTED, find};
use crate::remote::unfinished::{Received, UploadKey};
use crate::remote::url::RemoteUrl;
use axum::body::Body;
use axum::http::Method;
use skyhaul::core::hint::Hint;
use skyhaul::io::disk::tree::Status;
use skyhaul::io::host::thread::process_cpu_time;
use skyhaul::io::memory::heap::HeapMemory;
use skyhaul_transfer::copy::{
    CopyOptions, CopyReport, Exists, FetchError, LocalFile, Progress, SourceSizes, local_files,
};
use std::collections::VecDeque;
use std::fs::File;
use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};
use tokio::time::timeout;

/// Memory for pieces of all files that are sent.
const MEMORY_BYTES: u64 = 64 << 20;
/// After so long without progress a body is ended.
const STALL: Duration = Duration::from_secs(60);
/// Time for the server to say that it takes a body.
const LEAVE_TIMEOUT: Duration = Duration::from_secs(5);
/// Time for the server to say what it has, with its digest.
const HEAD_TIMEOUT: Duration = Duration::from_secs(400);
/// Time for what a failed upload has left to be removed.
const CLEAN_TIMEOUT: Duration = Duration::from_secs(30);
/// Lowest rate of a file, bits per second: twice the rate at which it counts as stalled.
const MIN_FILE_RATE: u64 = 2 * 8 * MIN_BYTES_PER_SECOND;

impl WebClient {
    /// Uploads the sources of `options`, and everything below those that are directories, to a URL: into the directory that it names, or, if
    /// there is none and it does not end with `/`, as that file. Of `options`, ranges and what belongs to disks are not used; each of its
    /// flows sends a file. `progress` is called a few times a second.
    ///
    /// # Errors
    /// Nothing was copied: a source cannot be read, the URL cannot be used, the server is not there or does not make the directories. What
    /// ends a copy later is in the report.
    pub fn upload(
        &self,
        to: &str,
        options: &CopyOptions,
        progress: &mut dyn FnMut(&Progress),
    ) -> io::Result<CopyReport> {
        let urls = self.urls(&[to.to_owned()], &Method::PUT)?;
        let Some(to) = urls.first() else { return Ok(CopyReport::default()) };
        let threads = threads(options)?;
        let local = local_files(&options.sources)?;
        let is_over = || options.stop.is_set();
        let (begun, cpu) = (Instant::now(), process_cpu_time());
        let (directories, files) = self.places((&local.files, &local.directories), to, &is_over)?;
        let all_bytes = local.files.iter().map(LocalFile::size).sum();
        let mut report = CopyReport {
            version: skyhaul::report::VERSION,
            flows: threads,
            special: local.special,
            dropped_links: local.links,
            temporary_names: local.temporary_names,
            verified: options.verify,
            ..CopyReport::default()
        };
        if options.dry_run {
            report.to_copy = Some(SourceSizes { files: files.len() as u64, bytes: all_bytes });
            return Ok(report);
        }
        if !options.verify {
            directories.iter().try_for_each(|url| self.make(url, &is_over)).map_err(begin_error)?;
            report.directories = directories.len();
        }
        let upload = Upload {
            client: self,
            options,
            memory: HeapMemory::new(MEMORY_BYTES),
            pace: options.tuning.limit.map(|rate| Arc::new(Pace::new(rate))),
            moved: (0..threads).map(|_| Arc::default()).collect(),
            done_bytes: AtomicU64::new(0),
            kept_bytes: AtomicU64::new(0),
        };
        let sent = |(file, url): &(&LocalFile, RemoteUrl), thread: usize, is_over: &dyn Fn() -> bool| {
            upload.file((file, url), thread, is_over)
        };
        let done = each((&files, threads), &is_over, &sent, &mut |done| {
            progress(&Progress {
                files: done,
                all_files: files.len(),
                bytes: upload.bytes(),
                all_bytes: all_bytes.saturating_sub(upload.kept_bytes.load(Ordering::Relaxed)),
                seconds: begun.elapsed().as_secs_f64(),
                ..Progress::default()
            });
        });
        report.seconds = begun.elapsed().as_secs_f64();
        report.sender.cpu_seconds = process_cpu_time().saturating_sub(cpu).as_secs_f64();
        let named = done.into_iter().filter_map(|(at, ended)| Some((files.get(at)?.0.name(), ended)));
        account(&mut report, named.collect(), files.len());
        Ok(report)
    }

    /// The directories to be made, first those above others, and where each file goes.
    fn places<'a>(
        &self,
        (files, directories): (&'a [LocalFile], &[PathBuf]),
        to: &RemoteUrl,
        is_over: &dyn Fn() -> bool,
    ) -> io::Result<Places<'a>> {
        let invalid = |text: String| io::Error::new(io::ErrorKind::InvalidInput, text);
        let base = to.names().map_err(|why| invalid(format!("{to}: {why}")))?;
        // A signature is for PUT, of a file.
        let is_file =
            !to.is_directory() && (to.is_signed() || !self.is_directory(to, is_over).map_err(begin_error)?);
        if is_file {
            return match (files, directories) {
                ([file], []) => Ok((Vec::new(), vec![(file, to.clone())])),
                _ => {
                    let hint = Hint("give the URL of a directory, with `/` at its end");
                    Err(invalid(format!("{to} is no directory, and can be the name of one file only{hint}")))
                }
            };
        }
        let at = |path: &Path, is_directory: bool| {
            let names = path.iter().try_fold(base.clone(), |base, name| Some(base.child(name.to_str()?)));
            let names = names.ok_or_else(|| invalid(format!("{} is no text in UTF-8", path.display())))?;
            Ok(to.at(&names, is_directory))
        };
        let directories = directories.iter().map(|path| at(path, true)).collect::<io::Result<_>>()?;
        let place = |file: &'a LocalFile| Ok((file, at(&file.name(), false)?));
        Ok((directories, files.iter().map(place).collect::<io::Result<_>>()?))
    }

    /// The result of sending a body, while the copy is not over and the body moves.
    fn wait_moving<T>(
        &self,
        work: impl Future<Output = T>,
        moved: &Moved,
        is_over: &dyn Fn() -> bool,
    ) -> Result<T, FetchError> {
        let (begun, mut clock) = (Instant::now(), StallClock::new(STALL));
        self.runtime.block_on(async {
            let mut work = pin!(work);
            loop {
                match timeout(super::LOOK_INTERVAL, &mut work).await {
                    Ok(done) => return Ok(done),
                    Err(_) if is_over() => return Err(FetchError::Over),
                    Err(_) => {
                        let checked = clock.check(begun.elapsed(), moved);
                        checked.map_err(|why| FetchError::Broken(why.to_string()))?;
                    }
                }
            }
        })
    }
}

/// Files at a time: as many as there are flows, and no more than a low limit lets move.
fn threads(options: &CopyOptions) -> io::Result<usize> {
    let flows = options.tuning.flows.max(1);
    let Some(limit) = options.tuning.limit else { return Ok(flows) };
    if limit < MIN_FILE_RATE {
        let text = format!("the limit of an upload must be at least {MIN_FILE_RATE} b/s");
        return Err(io::Error::new(io::ErrorKind::InvalidInput, text));
    }
    Ok(flows.min(usize::try_from(limit / MIN_FILE_RATE).unwrap_or(flows)))
}

/// Directories, first those above others, and files with their URLs.
type Places<'a> = (Vec<RemoteUrl>, Vec<(&'a LocalFile, RemoteUrl)>);

/// A file that is open.
struct Opened {
    file: Arc<File>,
    status: Status,
}

impl Opened {
    /// Names its bytes: a file that has changed has another one.
    fn key(&self) -> Option<UploadKey> {
        let Status { size, modified, changed, device, inode, .. } = &self.status;
        UploadKey::of(&format!("file {device} {inode} {modified:?} {changed:?}"), *size)
    }
}

struct Upload<'a> {
    client: &'a WebClient,
    options: &'a CopyOptions,
    memory: HeapMemory,
    pace: Option<Arc<Pace>>,
    /// How far the file of each thread is.
    moved: Vec<Arc<Moved>>,
    done_bytes: AtomicU64,
    kept_bytes: AtomicU64,
}

impl Upload<'_> {
    fn bytes(&self) -> u64 {
        self.done_bytes.load(Ordering::Relaxed) + self.moved.iter().map(|one| one.bytes()).sum::<u64>()
    }

    fn file(
        &self,
        (local, url): (&LocalFile, &RemoteUrl),
        thread: usize,
        is_over: &dyn Fn() -> bool,
    ) -> Result<Ended, FetchError> {
        let (file, status) = local.open().map_err(|error| FetchError::Final(plain(&error)))?;
        let open = Opened { file: Arc::new(file), status };
        let key = open.key();
        let (before, received) =
            self.client.retried(is_over, &mut || self.look(url, key.as_ref(), is_over))?;
        if let Some(ended) = self.existing(&open, url, &before, is_over)? {
            self.kept_bytes.fetch_add(open.status.size, Ordering::Relaxed);
            return Ok(ended);
        }
        let none = Arc::default();
        let moved = self.moved.get(thread).unwrap_or(&none);
        let ended = self.send((&open, url), (&before, received), moved, is_over);
        moved.restart();
        if matches!(ended, Ok(Ended::Copied { .. })) {
            self.done_bytes.fetch_add(open.status.size, Ordering::Relaxed);
        }
        ended
    }

    /// What the server has there, and of an upload that broke off.
    fn look(
        &self,
        url: &RemoteUrl,
        key: Option<&UploadKey>,
        is_over: &dyn Fn() -> bool,
    ) -> Result<(There, Option<Received>), FetchError> {
        let mut session = self.client.session(url, "destination");
        let there = self.client.wait(look(&mut session, key), HEAD_TIMEOUT, is_over)?;
        let there = there.map_err(|failure| fetch_error(&failure))?;
        self.client.put_back(session);
        Ok(there)
    }

    /// What is done about a file that may be there already; `None`: it is sent.
    fn existing(
        &self,
        open: &Opened,
        url: &RemoteUrl,
        before: &There,
        is_over: &dyn Fn() -> bool,
    ) -> Result<Option<Ended>, FetchError> {
        let (bytes, is_compared) = (open.status.size, self.options.verify);
        let error = |text: &str| Err(FetchError::Final(text.to_owned()));
        let size = match before {
            There::Object(size, _) => *size,
            There::Nothing if is_compared => return error("missing at the destination"),
            There::Unknown if is_compared => return error("the server does not say whether it is there"),
            There::Nothing | There::Unknown => return Ok(None),
        };
        let hint = Hint("--exists replace overwrites it, --exists skip keeps it");
        let differs = |how: String| match self.options.exists {
            _ if is_compared => Err(FetchError::Final(format!("differs: {how}"))),
            Exists::Replace => Ok(None),
            _ => Err(FetchError::Final(format!("a different file exists: {how}{hint}"))),
        };
        if self.options.exists == Exists::Skip && !is_compared {
            return Ok(Some(Ended::Kept { bytes }));
        }
        if let Some(size) = size.filter(|size| *size != bytes) {
            return differs(format!("{bytes} bytes at the source, {size} at the destination"));
        }
        let there = self.client.retried(is_over, &mut || {
            let mut session = self.client.session(url, "destination");
            let found = find(&mut session, is_compared.then_some(true), WANTED);
            let found = self.client.wait(found, HEAD_TIMEOUT, is_over)?;
            let found = found.map_err(|failure| fetch_error(&failure))?;
            self.client.put_back(session);
            Ok(found.digests)
        })?;
        let algorithms: Vec<Algorithm> = there.algorithms().collect();
        if algorithms.is_empty() {
            let none = "the server gives no checksum to compare it by";
            return match self.options.exists {
                _ if is_compared => error(none),
                Exists::Replace => Ok(None),
                _ => Err(FetchError::Final(format!(
                    "a file of the same size is at the destination, and {none}{hint}"
                ))),
            };
        }
        let mine = self.sum(open, algorithms, is_over)?;
        if let Some(algorithm) = mine.differs_from(&there) {
            let text = |set: &DigestSet| set.header(algorithm).unwrap_or_default();
            return differs(format!("{} at the source, {} at the destination", text(&mine), text(&there)));
        }
        let crc32c = digest_numbers(&mine).1;
        Ok(Some(if is_compared { Ended::Compared { bytes, crc32c } } else { Ended::Kept { bytes } }))
    }

    fn reader(&self, open: &Opened, range: Range<u64>) -> BodyReader {
        let parts = VecDeque::from([Part::Range(range)]);
        BodyReader::new(Source::File(Arc::clone(&open.file)), parts, &self.memory)
    }

    /// Sends a file until the server has it, or has refused it.
    fn send(
        &self,
        (open, url): (&Opened, &RemoteUrl),
        (before, received): (&There, Option<Received>),
        moved: &Arc<Moved>,
        is_over: &dyn Fn() -> bool,
    ) -> Result<Ended, FetchError> {
        let (mut has_made, mut first) = (false, Some(received));
        self.client.retried(is_over, &mut || {
            let received = match first.take() {
                Some(received) => received,
                None => self.look(url, open.key().as_ref(), is_over)?.1,
            };
            let continued = self.continued(open, received, is_over)?;
            let mut sent = Arc::new(Sent::default());
            let mut ended = self.once((open, url), continued.clone(), (moved, &sent), is_over);
            if ended.is_err() && sent.refusal() == Some(409) && *before == There::Nothing && !has_made {
                // The directory that it goes into is missing.
                has_made = true;
                self.client.make(&above(url)?, is_over)?;
                sent = Arc::default();
                ended = self.once((open, url), continued, (moved, &sent), is_over);
            }
            if ended.is_ok() {
                return ended;
            }
            if sent.refusal() == Some(412) && self.options.exists == Exists::Skip {
                return Ok(Ended::Kept { bytes: open.status.size });
            }
            if sent.has_begun() {
                self.clean(url, before, &sent);
            }
            match (ended, sent.refusal()) {
                (Err(FetchError::Final(text)), Some(412)) => Err(FetchError::Final(in_the_way(&text))),
                (ended, _) => ended,
            }
        })
    }

    fn once(
        &self,
        (open, url): (&Opened, &RemoteUrl),
        continued: Option<Continued>,
        (moved, sent): (&Arc<Moved>, &Arc<Sent>),
        is_over: &dyn Fn() -> bool,
    ) -> Result<Ended, FetchError> {
        let bytes = open.status.size;
        let order = PutOrder {
            size: bytes,
            overwrite: self.options.exists == Exists::Replace,
            stated: DigestSet::default(),
            verify: None,
            leave: LEAVE_TIMEOUT,
            continued,
        };
        let from = order.from();
        let failed = |failure: Failure| fetch_error(&failure);
        let mut session = self.client.session(url, "destination");
        let mut make = || {
            let body = FileBody::new(self.reader(open, from..bytes), bytes - from, || {});
            let body = Paced::new(body, self.pace.clone());
            Box::pin(async { Ok(Body::new(body)) })
                as Pin<Box<dyn Future<Output = Result<Body, Failure>> + Send>>
        };
        let done = put(&mut session, &order, (moved, sent), &mut make);
        self.client.wait_moving(done, moved, is_over)?.map_err(failed)?;
        self.client.put_back(session);
        moved.enter(Step::Confirming);
        let mut digests = sent.digests();
        let there = self.client.retried(is_over, &mut || {
            let mut session = self.client.session(url, "destination");
            let there = verify(&mut session, &order, &digests);
            let there = self.client.wait(there, HEAD_TIMEOUT, is_over)?.map_err(failed)?;
            self.client.put_back(session);
            Ok(there)
        })?;
        let is_known = |algorithm: &Algorithm| digests.get(*algorithm).is_some();
        let (known, others): (Vec<_>, Vec<_>) = there.algorithms().partition(is_known);
        if known.is_empty() && !others.is_empty() {
            digests.merge(&self.sum(open, others.clone(), is_over)?);
            compare(&digests, &there, "is at the destination").map_err(failed)?;
        }
        let now = Status::of_file(&open.file).map_err(|error| FetchError::Final(plain(&error)))?;
        let of = |status: &Status| (status.size, status.modified, status.changed);
        if of(&now) != of(&open.status) {
            return Err(FetchError::Final("the file changed while it was sent".to_owned()));
        }
        let is_checked = !known.is_empty() || !others.is_empty();
        Ok(Ended::Copied { bytes, resumed: from, crc32c: digest_numbers(&digests).1, is_checked })
    }

    /// Removes what an upload that failed has left.
    fn clean(&self, url: &RemoteUrl, before: &There, sent: &Sent) {
        // A server that removes it itself needs a moment to see that the connection is closed.
        std::thread::sleep(SETTLE_TIME);
        let mut session = self.client.session(url, "destination");
        // The failure is reported either way.
        drop(self.client.wait(clean(&mut session, before, sent), CLEAN_TIMEOUT, &|| false));
    }
}

/// The directory that a file is in.
fn above(url: &RemoteUrl) -> Result<RemoteUrl, FetchError> {
    let path = url.names().map_err(|why| FetchError::Final(format!("{url}: {why}")))?;
    let names = path.names().split_last().map_or(&[][..], |(_, above)| above);
    let above = names.iter().fold(RequestPath::default(), |path, name| path.child(name));
    Ok(url.at(&above, true))
}
