//! The files of a disk that are being written, with either engine; and the log, a file to which lines are appended.

use super::engine::Work;
use super::requests::{Completed, Requests};
use super::{DiskOptions, Faults, Means, Waker};
use crate::memory::{ALIGN, Pool, View};
use rustix::fs::{FallocateFlags, FlockOperation};
use rustix::io::Errno;
use std::collections::{HashMap, VecDeque};
use std::fs::File;
use std::io;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

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
    Sync { token: u64 },
}

/// A file being written.
#[derive(Debug)]
struct Making {
    file: Arc<File>,
    name: PathBuf,
    view: View,
    /// Bytes to write: those of the view, to the end of the last page if the file is `direct`.
    bytes: usize,
    direct: bool,
    /// First byte not yet passed to the engine.
    next: usize,
    in_flight: usize,
    begun: Instant,
    error: Option<io::Error>,
    named: bool,
}

impl Making {
    /// All pieces are finished: truncate and rename the file, or return the error.
    fn complete(&mut self) -> io::Result<()> {
        if let Some(error) = self.error.take() {
            return Err(error);
        }
        if !self.view.len().is_multiple_of(ALIGN) {
            rustix::fs::ftruncate(&self.file, self.view.len() as u64)?;
        }
        super::publish(&super::part_name(&self.name), &self.name)?;
        self.named = true;
        Ok(())
    }
}

/// One disk, written to by one thread.
#[derive(Debug)]
pub struct Disk {
    requests: Requests<Purpose>,
    options: DiskOptions,
    means: Means,
    files: HashMap<u64, Making>,
    /// Files with pieces not yet passed to the engine, oldest first.
    order: VecDeque<u64>,
    completed: Vec<Completed<Purpose>>,
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
        let (requests, means) = Requests::open(&options, pool, false)?;
        Ok(Disk {
            requests,
            options,
            means,
            files: HashMap::new(),
            order: VecDeque::new(),
            completed: Vec::new(),
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
        self.requests.waker()
    }

    /// Whether another file should be started now to keep the disk busy.
    #[must_use]
    pub fn has_room(&self) -> bool {
        let unsent = self.order.len();
        unsent == 0 || (unsent == 1 && self.requests.in_flight() + 1 >= self.options.depth)
    }

    /// Whether nothing is in flight.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        self.requests.in_flight() == 0 && self.order.is_empty()
    }

    /// Begin to write `view` as the new file `name`. `token` identifies it from here on, and must not be in use.
    ///
    /// # Errors
    /// If the file cannot be created or its space cannot be allocated: no file remains, and the token is free.
    pub fn start(&mut self, token: u64, name: &Path, view: View) -> io::Result<()> {
        if let Some(error) = self.requests.failed() {
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
        self.requests.submit(Purpose::Sync { token }, Work::Sync { file });
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
        self.pump();
        let mut completed = std::mem::take(&mut self.completed);
        let waited = self.requests.wait(wait, &mut completed);
        for Completed { tag, result, .. } in completed.drain(..) {
            match tag {
                Purpose::Sync { token } => done.push(Done::Synced(token, result.map(|_| ()))),
                Purpose::Piece { token, offset, len } => {
                    self.settle_piece(token, offset, len, result, done);
                }
            }
        }
        self.completed = completed;
        waited?;
        self.pump();
        Ok(())
    }

    /// Pass pieces to the engine while it has room.
    fn pump(&mut self) {
        while self.requests.in_flight() < self.options.depth {
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
        let end = (offset + len).min(making.view.len());
        let view = making.view.part(offset.min(end)..end);
        let work = Work::Write { file: making.file.clone(), view, bytes: len, offset: offset as u64 };
        self.requests.submit(Purpose::Piece { token, offset, len }, work);
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

/// An append-only file.
///
/// An append-only file that is locked while its writer lives.
///
/// Space is allocated in advance, so that the index of a full disk can still be completed. The kernel releases the lock
/// (`flock`) when the process ends in any way: [`is_locked`] shows a reader whether the writer lives. After a kill the
/// kernel takes some milliseconds to end the writes in a ring before it releases the lock.
#[derive(Debug)]
pub struct Log {
    file: Arc<File>,
    length: u64,
    allocated: u64,
    /// Why nothing more is appended.
    failed: Option<String>,
}

impl Log {
    /// Bytes allocated in advance at a time.
    pub const AHEAD_BYTES: u64 = 256 << 10;

    /// Create a file, or with `existing` open one to append to it.
    ///
    /// # Errors
    /// If the file exists (or, with `existing`, does not, or is not a regular file), if another process is writing it
    /// (`WouldBlock`), or a system error.
    pub fn open(path: &Path, existing: bool) -> io::Result<Log> {
        let mut options = File::options();
        options.append(true).read(true);
        if existing {
            super::only_regular(std::fs::metadata(path)?.file_type())?;
        }
        let file = if existing { options.open(path) } else { options.create_new(true).open(path) }?;
        // `is_locked` holds the lock for a moment too: try more than once.
        let locked = (0..20).any(|attempt| {
            if attempt > 0 {
                std::thread::sleep(std::time::Duration::from_millis(5));
            }
            super::lock(&file, FlockOperation::NonBlockingLockExclusive)
        });
        if !locked {
            return Err(io::Error::new(
                io::ErrorKind::WouldBlock,
                format!("{} is being written by another process", path.display()),
            ));
        }
        let length = file.metadata()?.len();
        Ok(Log { file: Arc::new(file), length, allocated: length, failed: None })
    }

    /// Allocate space on the disk for `bytes` more.
    ///
    /// # Errors
    /// If no space is left.
    pub fn reserve(&mut self, bytes: u64) -> io::Result<()> {
        if self.length + bytes <= self.allocated {
            return Ok(());
        }
        let mut more = bytes.max(Self::AHEAD_BYTES);
        loop {
            match rustix::fs::fallocate(&self.file, FallocateFlags::KEEP_SIZE, self.length, more) {
                Ok(()) | Err(Errno::OPNOTSUPP | Errno::NOSYS) => {
                    self.allocated = self.length + more;
                    return Ok(());
                }
                // What is needed now may fit still.
                Err(Errno::NOSPC) if more > bytes => more = bytes,
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Append `bytes`; they are durable only after the file is synced.
    ///
    /// # Errors
    /// A system error; part of the bytes may have been written.
    pub fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.append_on(&Faults::default(), bytes)
    }

    /// The same on a disk with faults.
    ///
    /// # Errors
    /// As [`append`](Self::append), or that of a fault.
    pub fn append_on(&mut self, faults: &Faults, bytes: &[u8]) -> io::Result<()> {
        self.is_sound()?;
        faults.writes(&self.file, self.length, bytes.len())?;
        (&*self.file).write_all(bytes)?;
        self.length += bytes.len() as u64;
        Ok(())
    }

    /// Its length in bytes.
    #[must_use]
    pub fn len(&self) -> u64 {
        self.length
    }

    /// Whether it is empty.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.length == 0
    }

    /// The file, for [`Disk::sync_file`](super::Disk::sync_file).
    #[must_use]
    pub fn file(&self) -> &Arc<File> {
        &self.file
    }

    /// Wait until the file is durable, and free the space allocated in advance.
    ///
    /// # Errors
    /// A system error.
    pub fn finish(&mut self) -> io::Result<()> {
        self.finish_on(&Faults::default())
    }

    /// The same on a disk with faults.
    ///
    /// # Errors
    /// As [`finish`](Self::finish), or that of a fault.
    pub fn finish_on(&mut self, faults: &Faults) -> io::Result<()> {
        self.is_sound()?;
        if self.allocated > self.length {
            self.file.set_len(self.length)?;
            self.allocated = self.length;
        }
        let synced = faults.sync_data(&self.file);
        if let Err(error) = &synced {
            self.fail(error);
        }
        synced
    }

    /// Notes that a sync of the file failed: lines appended since the last success may be lost, even if a later sync
    /// succeeds. Nothing more can be appended or finished.
    pub fn fail(&mut self, error: &io::Error) {
        self.failed.get_or_insert_with(|| error.to_string());
    }

    fn is_sound(&self) -> io::Result<()> {
        match &self.failed {
            Some(why) => Err(io::Error::other(format!("an earlier sync of it failed: {why}"))),
            None => Ok(()),
        }
    }
}

/// Whether a process is writing the log at `path`; `false` if the file does not exist.
#[must_use]
pub fn is_locked(path: &Path) -> bool {
    let Ok(file) = super::open_regular(path) else { return false };
    !super::lock(&file, FlockOperation::NonBlockingLockShared)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_believed_after_a_failed_sync() {
        let directory = tempfile::tempdir().unwrap();
        let mut log = Log::open(&directory.path().join("log"), false).unwrap();
        log.append(b"first\n").unwrap();
        log.fail(&io::Error::other("input/output error"));
        assert!(log.append(b"second\n").unwrap_err().to_string().contains("input/output error"));
        assert!(log.finish().is_err() && log.finish().is_err());
    }
}
