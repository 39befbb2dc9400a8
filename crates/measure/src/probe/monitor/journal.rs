//! A file of lines that is rotated: `monitor.jsonl` grows, then becomes `monitor.jsonl.1`, and `.1` becomes `.2`.
//!
//! Each line is written in one call and reaches the disk before the next test begins, and so do the names of files. What a kill or a full disk cut off at
//! the end of the file has no line feed; it is removed when the file is opened, so that every line is whole.
//!
//! Limits: the current file at most [`Retention::bytes`] (a longer line has a file of its own), and [`Retention::files`] others;
//! [`MAX_WAITING_LINES`] lines wait for room on the disk.

use skyhaul_core::hint::Hint;
use skyhaul_io::disk::sync_name;
use skyhaul_io::file::failed;
use std::collections::VecDeque;
use std::fs::{File, OpenOptions, TryLockError};
use std::io::{self, Read as _, Seek as _, SeekFrom, Write as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

/// Lines that wait while the disk takes none; of more, the oldest are lost.
pub const MAX_WAITING_LINES: usize = 64;
/// Read at a time, from the end, to find the last line.
const BLOCK: u64 = 64 << 10;

/// How much is kept.
#[derive(Clone, Copy, Debug)]
pub struct Retention {
    /// Size of a file.
    pub bytes: u64,
    /// Files besides the current one.
    pub files: usize,
    /// Age of a file, from its last line, after which it is removed; none: any.
    pub age: Option<Duration>,
}

/// What became of lines.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct ResultLogCounts {
    /// Lines on the disk.
    pub written: u64,
    /// Lines that wait for room on it.
    pub waiting: u64,
    /// Lines that it took no more.
    pub lost: u64,
    /// Times that it refused.
    pub failures: u64,
    /// Files that were full.
    pub rotations: u64,
    /// Bytes behind the last whole line when it was opened.
    pub cut_bytes: u64,
}

/// A file of lines.
#[derive(Debug)]
pub struct ResultLog {
    path: PathBuf,
    keep: Retention,
    file: File,
    /// Bytes of whole lines.
    length: u64,
    waiting: VecDeque<Vec<u8>>,
    counts: ResultLogCounts,
}

impl ResultLog {
    /// Open or create it, and remove what a kill has left of a line.
    ///
    /// # Errors
    /// The file cannot be opened, or another monitor writes it.
    pub fn open(path: &Path, keep: Retention) -> io::Result<Self> {
        let file = open(path)?;
        let whole = |mut file: &File| -> io::Result<(u64, u64)> {
            let size = file.metadata()?.len();
            let whole = end_of_lines(&mut file, size)?;
            if whole < size {
                file.set_len(whole)?;
            }
            Ok((whole, size - whole))
        };
        let (length, cut_bytes) = whole(&file).map_err(|error| failed("write", path, &error))?;
        let counts = ResultLogCounts { cut_bytes, ..ResultLogCounts::default() };
        let waiting = VecDeque::new();
        Ok(Self { path: path.to_owned(), keep, file, length, waiting, counts })
    }

    /// What became of lines so far.
    #[must_use]
    pub fn counts(&self) -> ResultLogCounts {
        self.counts
    }

    /// Write a line, behind those that waited; without line feed. If the disk takes none, it waits.
    ///
    /// # Errors
    /// Why the disk took not all.
    pub fn write(&mut self, line: &str) -> io::Result<()> {
        let mut octets = Vec::with_capacity(line.len() + 1);
        octets.extend(line.bytes().filter(|&octet| octet != b'\n'));
        octets.push(b'\n');
        self.waiting.push_back(octets);
        let done = self.flush();
        while self.waiting.len() > MAX_WAITING_LINES {
            self.waiting.pop_front();
            self.counts.lost += 1;
        }
        self.counts.waiting = self.waiting.len() as u64;
        done
    }

    /// Write what waits.
    ///
    /// # Errors
    /// Why the disk took not all.
    pub fn flush(&mut self) -> io::Result<()> {
        let mut done = Ok(());
        while let Some(line) = self.waiting.front() {
            if let Err(error) = append(&mut self.file, line, &mut self.length) {
                self.counts.failures += 1;
                done = Err(failed("write", &self.path, &error));
                break;
            }
            self.waiting.pop_front();
            self.counts.written += 1;
            if self.length >= self.keep.bytes
                && let Err(error) = self.rotate()
            {
                self.counts.failures += 1;
                done = Err(error);
                break;
            }
        }
        self.counts.waiting = self.waiting.len() as u64;
        done
    }

    /// Put the file away, and begin a new one.
    fn rotate(&mut self) -> io::Result<()> {
        for n in (1..self.keep.files).rev() {
            moved(&self.numbered(n), &self.numbered(n + 1))?;
        }
        match self.keep.files {
            0 => std::fs::remove_file(&self.path).map_err(|error| failed("remove", &self.path, &error))?,
            _ => moved(&self.path, &self.numbered(1))?,
        }
        self.forget();
        self.file = open(&self.path)?;
        self.length = 0;
        self.counts.rotations += 1;
        Ok(())
    }

    /// Remove files that are older than they may be. What cannot be removed stays, and is tried again the next time.
    fn forget(&self) {
        let Some(age) = self.keep.age else { return };
        let old = |path: &PathBuf| {
            let written = std::fs::metadata(path).and_then(|meta| meta.modified());
            written.is_ok_and(|at| SystemTime::now().duration_since(at).is_ok_and(|since| since > age))
        };
        let files = (1..=self.keep.files).map(|n| self.numbered(n));
        files.filter(old).for_each(|path| drop(std::fs::remove_file(path)));
    }

    fn numbered(&self, n: usize) -> PathBuf {
        let mut name = self.path.clone().into_os_string();
        name.push(format!(".{n}"));
        name.into()
    }
}

/// Open for appending; nobody else may.
fn open(path: &Path) -> io::Result<File> {
    let file = OpenOptions::new().read(true).append(true).create(true).open(path);
    let file = file.map_err(|error| failed("create", path, &error))?;
    match file.try_lock() {
        // It may be new, and the one before it has a new name.
        Ok(()) => {
            sync_name(path).map(|()| file).map_err(|error| failed("write the directory of", path, &error))
        }
        Err(TryLockError::WouldBlock) => Err(io::Error::new(
            io::ErrorKind::ResourceBusy,
            format!(
                "{} is in use by another monitor{}",
                path.display(),
                Hint("give another file with --lines")
            ),
        )),
        Err(TryLockError::Error(error)) => Err(failed("lock", path, &error)),
    }
}

/// A whole line at the end, or nothing.
fn append(file: &mut File, line: &[u8], length: &mut u64) -> io::Result<()> {
    // What an attempt before this one may have left.
    cut(file, *length)?;
    if let Err(error) = file.write_all(line).and_then(|()| file.sync_data()) {
        // If this fails, too, it is done before the next line.
        let _ = cut(file, *length);
        return Err(error);
    }
    *length += line.len() as u64;
    Ok(())
}

/// Remove what is behind the last whole line.
fn cut(file: &File, length: u64) -> io::Result<()> {
    if file.metadata()?.len() > length { file.set_len(length) } else { Ok(()) }
}

fn moved(from: &Path, to: &Path) -> io::Result<()> {
    match std::fs::rename(from, to) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(failed("write", to, &error)),
        _ => Ok(()),
    }
}

/// Where the last whole line ends.
fn end_of_lines(file: &mut &File, size: u64) -> io::Result<u64> {
    let mut end = size;
    let mut block = Vec::new();
    while end > 0 {
        let from = end.saturating_sub(BLOCK);
        block.resize((end - from) as usize, 0);
        file.seek(SeekFrom::Start(from))?;
        file.read_exact(&mut block)?;
        if let Some(at) = block.iter().rposition(|&octet| octet == b'\n') {
            return Ok(from + at as u64 + 1);
        }
        end = from;
    }
    Ok(0)
}
