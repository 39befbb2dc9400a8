//! The files of a disk that are being written, with either engine.

use std::collections::{HashMap, VecDeque};
use std::fs::File;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::calls::Calls;
use super::making::Making;
use super::work::{Finished, Work};
use super::{DiskOptions, Faults, Means, Waker};
use crate::memory::{ALIGN, Pool, View};

/// The result for a file.
#[derive(Debug)]
pub enum Done {
    /// It is written, truncated to its length and renamed, or the error. Time since [`Disk::start`].
    Written(u64, io::Result<Duration>),
    /// It is durable, or the error.
    Synced(u64, io::Result<()>),
}

/// What a request is for.
#[derive(Debug)]
enum Purpose {
    Piece { token: u64, offset: usize, len: usize },
    Sync { token: u64, file: Arc<File> },
}

/// A request, and how often the kernel deferred it.
#[derive(Debug)]
struct Request {
    purpose: Purpose,
    put_off: u32,
}

/// A deferred request is submitted again this many times, after 1 ms, 2 ms, 4 ms …, a second in all. Then it has failed.
const AGAIN: u32 = 10;

/// One disk, written to by one thread.
#[derive(Debug)]
pub struct Disk {
    calls: Calls,
    options: DiskOptions,
    means: Means,
    waker: Waker,
    files: HashMap<u64, Making>,
    /// Files with pieces not yet passed to the engine, oldest first.
    order: VecDeque<u64>,
    requests: HashMap<u64, Request>,
    /// Requests that the kernel deferred, with the time to submit them again.
    later: Vec<(Instant, Request)>,
    next_id: u64,
    finished: Vec<Finished>,
    /// Finished requests delayed by a fault, with the time to report them.
    held: Vec<(Instant, Finished)>,
    given: u64,
}

impl Disk {
    /// A writer with the requested `options`; a `pool` is registered for faster writes.
    ///
    /// # Errors
    /// If the engine requested by name is not available.
    pub fn new(options: &DiskOptions, pool: Option<&Pool>) -> io::Result<Disk> {
        let mut options = options.clone();
        options.write_bytes = options.write_bytes.clamp(ALIGN, 1 << 30).next_multiple_of(ALIGN);
        options.depth = options.depth.clamp(1, 1024);
        let (calls, means) = Calls::open(&options, pool)?;
        Ok(Disk {
            calls,
            options,
            means,
            waker: Waker::new()?,
            files: HashMap::new(),
            order: VecDeque::new(),
            requests: HashMap::new(),
            later: Vec::new(),
            next_id: 0,
            finished: Vec::new(),
            held: Vec::new(),
            given: 0,
        })
    }

    /// The means in use.
    #[must_use]
    pub fn means(&self) -> &Means {
        &self.means
    }

    /// A waker that ends the wait in [`Disk::poll`] from another thread.
    #[must_use]
    pub fn waker(&self) -> Waker {
        self.waker.clone()
    }

    /// Whether another file should be started now to keep the disk busy.
    #[must_use]
    pub fn has_room(&self) -> bool {
        let unsent = self.order.len();
        unsent == 0 || (unsent == 1 && self.requests.len() + 1 >= self.options.depth)
    }

    /// Whether nothing is in flight.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        self.requests.is_empty() && self.later.is_empty() && self.order.is_empty() && self.held.is_empty()
    }

    /// Begin to write `view` as the new file `name`. `token` identifies it from here on, and must not be in use.
    ///
    /// # Errors
    /// If the file cannot be created or its space cannot be allocated: no file remains, and the token is free.
    pub fn start(&mut self, token: u64, name: &Path, view: View) -> io::Result<()> {
        if let Some(error) = self.options.faults.error_at(self.given) {
            return Err(error);
        }
        let direct = self.means.direct && view.is_aligned();
        let padded = view.len().next_multiple_of(ALIGN) as u64;
        let part = super::part_name(name);
        let (file, is_direct) = super::create(&part, padded, direct)?;
        if direct && !is_direct {
            self.means.direct = false;
            self.means
                .notes
                .push("this file system refuses O_DIRECT; writing through the page cache".to_owned());
        }
        let making = Making {
            file: Arc::new(file),
            name: name.to_owned(),
            bytes: if is_direct { padded as usize } else { view.len() },
            view,
            direct: is_direct,
            next: 0,
            in_flight: 0,
            begun: Instant::now(),
            error: None,
            named: false,
        };
        self.files.insert(token, making);
        self.order.push_back(token);
        self.pump();
        Ok(())
    }

    /// Make a written file durable.
    pub fn sync(&mut self, token: u64) {
        if let Some(file) = self.files.get(&token).map(|making| making.file.clone()) {
            self.sync_file(token, file);
        }
    }

    /// Make any file or directory durable; reported as [`Done::Synced`] with `token`.
    pub fn sync_file(&mut self, token: u64, file: Arc<File>) {
        self.push(Request { purpose: Purpose::Sync { token, file }, put_off: 0 });
    }

    /// Release a durable file and its token.
    pub fn close(&mut self, token: u64) {
        self.files.remove(&token);
    }

    /// Discard a file, and remove it from the disk if possible.
    pub fn discard(&mut self, token: u64) {
        self.order.retain(|&other| other != token);
        if let Some(making) = self.files.remove(&token) {
            let path = if making.named { making.name } else { super::part_name(&making.name) };
            let _ = rustix::fs::unlink(path);
        }
    }

    /// Submit requests, wait at most `wait` for a result, and add the results to `done`.
    ///
    /// # Errors
    /// If the ring itself fails: no file can be assumed to be finished.
    pub fn poll(&mut self, wait: Duration, done: &mut Vec<Done>) -> io::Result<()> {
        self.push_again();
        self.pump();
        let mut finished = std::mem::take(&mut self.finished);
        // The rejected requests are results already: do not wait for others.
        let wait = if finished.is_empty() { self.until_held(wait) } else { Duration::ZERO };
        self.calls.wait(wait, &self.waker, &mut finished)?;
        self.hold(&mut finished);
        for end in finished.drain(..) {
            self.settle(end, done);
        }
        if self.finished.is_empty() {
            self.finished = finished;
        }
        self.pump();
        Ok(())
    }

    /// Pass pieces to the engine while it has room.
    fn pump(&mut self) {
        while self.requests.len() < self.options.depth {
            let Some(&token) = self.order.front() else { return };
            let Some(making) = self.files.get_mut(&token) else {
                self.order.pop_front();
                continue;
            };
            let len = self.options.write_bytes.min(making.bytes - making.next);
            if making.error.is_none() && (len > 0 || making.next == 0) {
                let offset = making.next;
                making.next += len;
                self.write_piece(token, offset, len);
            }
            let over = self.files.get(&token).is_none_or(|m| m.next >= m.bytes || m.error.is_some());
            if over {
                self.order.pop_front();
            }
        }
    }

    fn write_piece(&mut self, token: u64, offset: usize, len: usize) {
        let Some(making) = self.files.get_mut(&token) else { return };
        making.in_flight += 1;
        self.given += len as u64;
        self.push(Request { purpose: Purpose::Piece { token, offset, len }, put_off: 0 });
    }

    fn push(&mut self, request: Request) {
        let Some(work) = self.work(&request.purpose) else { return };
        let id = self.next_id;
        self.next_id += 1;
        let fault = match request.purpose {
            Purpose::Piece { .. } => self
                .options
                .faults
                .error_at(self.given)
                .or_else(|| self.options.faults.puts_off(request.put_off)),
            // A failed disk cannot sync either; a full one can.
            Purpose::Sync { ref file, .. } => {
                let faults = &self.options.faults;
                let failed = Faults { enospc: None, ..faults.clone() }.error_at(self.given);
                failed.or_else(|| faults.syncs(file).err())
            }
        };
        self.requests.insert(id, request);
        let refused = match fault {
            Some(error) => Some(error),
            None => self.calls.push(id, work).err(),
        };
        if let Some(error) = refused {
            self.finished.push(Finished { id, result: Err(error), time: Duration::ZERO, work: None });
        }
    }

    /// The work of a request; `None` if its file was discarded.
    fn work(&self, purpose: &Purpose) -> Option<Work> {
        match purpose {
            Purpose::Piece { token, offset, len } => {
                let making = self.files.get(token)?;
                let end = (offset + len).min(making.view.len());
                let view = making.view.part((*offset).min(end)..end);
                Some(Work::Write { file: making.file.clone(), view, bytes: *len, offset: *offset as u64 })
            }
            Purpose::Sync { file, .. } => Some(Work::Sync { file: file.clone() }),
        }
    }

    /// Submit deferred requests again when they are due.
    fn push_again(&mut self) {
        let now = Instant::now();
        while let Some(at) = self.later.iter().position(|(when, _)| *when <= now) {
            let (_, request) = self.later.swap_remove(at);
            self.push(request);
        }
    }

    /// Defer a request that the kernel had no resources for; returns the error if it must not be repeated.
    fn put_off(&mut self, mut request: Request, error: io::Error) -> Result<(), (Purpose, io::Error)> {
        if !matches!(error.raw_os_error(), Some(libc::EINTR | libc::EAGAIN | libc::EBUSY)) {
            return Err((request.purpose, error));
        }
        if request.put_off >= AGAIN {
            let text = format!("the kernel deferred a request {AGAIN} times in a second: {error}");
            return Err((request.purpose, io::Error::new(error.kind(), text)));
        }
        let pause = Duration::from_millis(1 << request.put_off);
        request.put_off += 1;
        self.later.push((Instant::now() + pause, request));
        Ok(())
    }

    /// Hold back results that a slow disk would not have yet; release those that are due.
    fn hold(&mut self, finished: &mut Vec<Finished>) {
        if self.options.faults.slow.is_none() && self.options.faults.latency.is_none() {
            return;
        }
        let now = Instant::now();
        for end in finished.drain(..) {
            self.held.push((now + self.options.faults.delay(end.time), end));
        }
        let (due, later) = std::mem::take(&mut self.held).into_iter().partition(|(when, _)| *when <= now);
        self.held = later;
        let due: Vec<(Instant, Finished)> = due;
        finished.extend(due.into_iter().map(|(_, end)| end));
    }

    fn until_held(&self, wait: Duration) -> Duration {
        let now = Instant::now();
        let held = self.held.iter().map(|(when, _)| when);
        let all = held.chain(self.later.iter().map(|(when, _)| when));
        all.map(|when| when.saturating_duration_since(now)).fold(wait, Duration::min)
    }

    fn settle(&mut self, end: Finished, done: &mut Vec<Done>) {
        let Some(request) = self.requests.remove(&end.id) else { return };
        let (purpose, result) = match end.result {
            Ok(bytes) => (request.purpose, Ok(bytes)),
            Err(error) => match self.put_off(request, error) {
                Ok(()) => return,
                Err((purpose, error)) => (purpose, Err(error)),
            },
        };
        match purpose {
            Purpose::Sync { token, .. } => done.push(Done::Synced(token, result.map(|_| ()))),
            Purpose::Piece { token, offset, len } => self.settle_piece(token, offset, len, result, done),
        }
    }

    fn settle_piece(
        &mut self,
        token: u64,
        offset: usize,
        len: usize,
        result: io::Result<usize>,
        done: &mut Vec<Done>,
    ) {
        // Results for a discarded file are ignored.
        let Some(making) = self.files.get_mut(&token) else { return };
        making.in_flight -= 1;
        match result {
            Ok(written) if written < len => {
                // A short write: continue where it stopped, if O_DIRECT permits. A write of 0 bytes means no space.
                let step = if making.direct { written / ALIGN * ALIGN } else { written };
                if step > 0 && making.error.is_none() {
                    self.write_piece(token, offset + step, len - step);
                    return;
                }
                making.error.get_or_insert_with(|| rustix::io::Errno::NOSPC.into());
            }
            Ok(_) => {}
            Err(error) => {
                making.error.get_or_insert(error);
            }
        }
        let whole = making.next >= making.bytes;
        if making.in_flight > 0 || !(whole || making.error.is_some()) {
            return;
        }
        let result = making.complete();
        done.push(Done::Written(token, result.map(|()| making.begun.elapsed())));
    }
}
