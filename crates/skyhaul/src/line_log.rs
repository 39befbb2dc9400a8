//! A file of lines that is rotated: `monitor.jsonl` grows, then becomes `monitor.jsonl.1`, and `.1` becomes `.2`. Monitors keep their results so, and
//! servers the requests that they answered.
//!
//! Each line, or each text of several, is written in one call; with [`LineLogOptions::is_durable`] it reaches the disk before the next one, and so do the
//! names of files. What a kill or a full disk cut off at the end of the file has no line feed; it is removed when the file is opened, so that every line
//! is whole. If another program gives the file another name, or removes it, the next line begins a new one: `logrotate` needs no signal.
//!
//! Limits: the current file ends with the line that reaches [`Retention::bytes`]; [`Retention::files`] others; [`MAX_WAITING_LINES`] lines wait for room
//! on the disk.

use crate::core::hint::Hint;
use crate::io::disk::sync_name;
use crate::io::file::failed;
use std::collections::VecDeque;
use std::fs::{File, OpenOptions, TryLockError};
use std::io::{self, Read as _, Seek as _, SeekFrom, Write as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

/// Lines that wait while the disk takes none; of more, the oldest are lost.
pub const MAX_WAITING_LINES: usize = 64;
/// Read at a time, from the end, to find the last line.
const BLOCK: u64 = 64 << 10;

/// How much is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Retention {
    /// Size of a file.
    pub bytes: u64,
    /// Files besides the current one.
    pub files: usize,
    /// Age of a file, from its last line, after which it is removed; none: any.
    pub age: Option<Duration>,
}

/// How a file of lines is written.
#[derive(Clone, Copy, Debug)]
pub struct LineLogOptions {
    /// How much is kept.
    pub keep: Retention,
    /// Whether a line is on the disk when it counts as written; if not, a power cut costs the last ones.
    pub is_durable: bool,
    /// Permissions of a new file, less those that the umask takes.
    pub mode: u32,
    /// What to do if another process writes the file.
    pub remedy: &'static str,
}

/// What became of lines.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct LineLogCounts {
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
pub struct LineLog {
    path: PathBuf,
    options: LineLogOptions,
    file: File,
    /// Bytes of whole lines.
    length: u64,
    /// Text, and the lines that it has.
    waiting: VecDeque<(Vec<u8>, u64)>,
    counts: LineLogCounts,
}

impl LineLog {
    /// Opens or creates it, and removes what a kill has left of a line.
    ///
    /// # Errors
    /// The file cannot be opened, or another process writes it.
    pub fn open(path: &Path, options: LineLogOptions) -> io::Result<Self> {
        let file = open(path, &options)?;
        let (length, cut_bytes) = whole_lines(&file).map_err(|error| failed("write", path, &error))?;
        let counts = LineLogCounts { cut_bytes, ..LineLogCounts::default() };
        Ok(Self { path: path.to_owned(), options, file, length, waiting: VecDeque::new(), counts })
    }

    /// What became of lines so far.
    #[must_use]
    pub fn counts(&self) -> LineLogCounts {
        self.counts
    }

    /// Writes a line, behind those that waited; without line feed. If the disk takes none, it waits.
    ///
    /// # Errors
    /// Why the disk took not all.
    pub fn write(&mut self, line: &str) -> io::Result<()> {
        let mut text = Vec::with_capacity(line.len() + 1);
        text.extend(line.bytes().filter(|&byte| byte != b'\n'));
        text.push(b'\n');
        self.write_text(text)
    }

    /// Writes lines, each with its line feed, in one call. If the disk does not take all of them, they wait, and count as one in the limit.
    ///
    /// # Errors
    /// Why the disk took not all.
    pub fn write_text(&mut self, text: Vec<u8>) -> io::Result<()> {
        let lines = text.iter().filter(|&&byte| byte == b'\n').count() as u64;
        self.waiting.push_back((text, lines));
        self.counts.waiting += lines;
        let done = self.flush();
        while self.waiting.len() > MAX_WAITING_LINES
            && let Some((_, lines)) = self.waiting.pop_front()
        {
            self.counts.waiting -= lines;
            self.counts.lost += lines;
        }
        done
    }

    /// Writes what waits.
    ///
    /// # Errors
    /// Why the disk took not all.
    pub fn flush(&mut self) -> io::Result<()> {
        while let Some((text, lines)) = self.waiting.pop_front() {
            let written = self.follow().and_then(|()| {
                append((&mut self.file, &mut self.length), &text, self.options.is_durable)
                    .map_err(|error| failed("write", &self.path, &error))
            });
            if let Err(error) = written {
                self.waiting.push_front((text, lines));
                self.counts.failures += 1;
                return Err(error);
            }
            self.counts.written += lines;
            self.counts.waiting -= lines;
            if self.length >= self.options.keep.bytes
                && let Err(error) = self.rotate()
            {
                self.counts.failures += 1;
                return Err(error);
            }
        }
        Ok(())
    }

    /// Opens the file anew if it no longer has its name.
    fn follow(&mut self) -> io::Result<()> {
        let place = |meta: std::fs::Metadata| (meta.dev(), meta.ino());
        let named = std::fs::metadata(&self.path).map(place);
        let open = self.file.metadata().map(place);
        if matches!((named, open), (Ok(named), Ok(open)) if named == open) {
            return Ok(());
        }
        self.file = self::open(&self.path, &self.options)?;
        let (length, _) = whole_lines(&self.file).map_err(|error| failed("write", &self.path, &error))?;
        self.length = length;
        Ok(())
    }

    /// Puts the file away, and begins a new one.
    fn rotate(&mut self) -> io::Result<()> {
        for n in (1..self.options.keep.files).rev() {
            moved(&self.numbered(n), &self.numbered(n + 1))?;
        }
        match self.options.keep.files {
            0 => std::fs::remove_file(&self.path).map_err(|error| failed("remove", &self.path, &error))?,
            _ => moved(&self.path, &self.numbered(1))?,
        }
        self.forget();
        self.file = open(&self.path, &self.options)?;
        self.length = 0;
        self.counts.rotations += 1;
        Ok(())
    }

    /// Removes files that are older than they may be. What cannot be removed stays, and is tried again the next time.
    fn forget(&self) {
        let Some(age) = self.options.keep.age else { return };
        let old = |path: &PathBuf| {
            let written = std::fs::metadata(path).and_then(|meta| meta.modified());
            written.is_ok_and(|at| SystemTime::now().duration_since(at).is_ok_and(|since| since > age))
        };
        let files = (1..=self.options.keep.files).map(|n| self.numbered(n));
        files.filter(old).for_each(|path| drop(std::fs::remove_file(path)));
    }

    fn numbered(&self, n: usize) -> PathBuf {
        let mut name = self.path.clone().into_os_string();
        name.push(format!(".{n}"));
        name.into()
    }
}

/// Opens it for appending; nobody else may.
fn open(path: &Path, options: &LineLogOptions) -> io::Result<File> {
    let file = OpenOptions::new().read(true).append(true).create(true).mode(options.mode).open(path);
    let file = file.map_err(|error| failed("create", path, &error))?;
    match file.try_lock() {
        // It may be new, and the one before it has a new name.
        Ok(()) => {
            sync_name(path).map(|()| file).map_err(|error| failed("write the directory of", path, &error))
        }
        Err(TryLockError::WouldBlock) => Err(io::Error::new(
            io::ErrorKind::ResourceBusy,
            format!("{} is in use by another process{}", path.display(), Hint(options.remedy)),
        )),
        Err(TryLockError::Error(error)) => Err(failed("lock", path, &error)),
    }
}

/// Removes what is behind the last whole line; returns the bytes that are left, and those that were removed.
fn whole_lines(mut file: &File) -> io::Result<(u64, u64)> {
    let size = file.metadata()?.len();
    let whole = end_of_lines(&mut file, size)?;
    if whole < size {
        file.set_len(whole)?;
    }
    Ok((whole, size - whole))
}

/// Whole lines at the end, or nothing.
fn append((file, length): (&mut File, &mut u64), text: &[u8], is_durable: bool) -> io::Result<()> {
    // What an attempt before this one may have left.
    cut(file, *length)?;
    let written = file.write_all(text).and_then(|()| if is_durable { file.sync_data() } else { Ok(()) });
    if let Err(error) = written {
        // If this fails, too, it is done before the next line.
        let _ = cut(file, *length);
        return Err(error);
    }
    *length += text.len() as u64;
    Ok(())
}

/// Removes what is behind the last whole line.
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
        if let Some(at) = block.iter().rposition(|&byte| byte == b'\n') {
            return Ok(from + at as u64 + 1);
        }
        end = from;
    }
    Ok(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const KEEP: Retention = Retention { bytes: 100, files: 2, age: None };

    fn of(keep: Retention) -> LineLogOptions {
        LineLogOptions { keep, is_durable: true, mode: 0o666, remedy: "give another file" }
    }

    fn lines(path: &Path) -> Vec<String> {
        let text = std::fs::read_to_string(path).unwrap_or_default();
        assert!(text.is_empty() || text.ends_with('\n'), "{text}");
        text.lines().map(str::to_owned).collect()
    }

    #[test]
    fn files_of_lines_are_bounded_in_size_and_number() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("m.jsonl");
        let mut journal = LineLog::open(&path, of(KEEP)).unwrap();
        for n in 0..100 {
            journal.write(&format!("{{\"n\":{n:09}}}")).unwrap();
            for file in std::fs::read_dir(directory.path()).unwrap() {
                assert!(file.unwrap().metadata().unwrap().len() <= 100 + 16);
            }
        }
        assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 3);
        let counts = journal.counts();
        assert_eq!((counts.written, counts.lost, counts.waiting), (100, 0, 0));
        // The newest are there, in order, none twice.
        let named = |name: &str| lines(&directory.path().join(name));
        let all: Vec<String> = [named("m.jsonl.2"), named("m.jsonl.1"), named("m.jsonl")].concat();
        let wanted: Vec<String> = (100 - all.len()..100).map(|n| format!("{{\"n\":{n:09}}}")).collect();
        assert_eq!(all, wanted);
        drop(journal);
        // None is kept, and old ones go.
        let mut journal = LineLog::open(&path, of(Retention { files: 0, ..KEEP })).unwrap();
        (0..20).for_each(|n| journal.write(&format!("{n:09}")).unwrap());
        assert!(lines(&path).len() < 12);
        drop(journal);
        let mut journal = LineLog::open(&path, of(Retention { age: Some(Duration::ZERO), ..KEEP })).unwrap();
        (0..40).for_each(|n| journal.write(&format!("{n:09}")).unwrap());
        assert!(!directory.path().join("m.jsonl.2").exists());
    }

    #[test]
    fn only_one_process_writes_a_file() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("m.jsonl");
        let journal = LineLog::open(&path, of(KEEP)).unwrap();
        let said = LineLog::open(&path, of(KEEP)).unwrap_err().to_string();
        assert!(said.contains("another process") && said.contains("hint: "), "{said}");
        drop(journal);
        LineLog::open(&path, of(KEEP)).unwrap();
    }

    proptest! {
        #[test]
        fn what_a_kill_has_left_of_a_line_is_removed(text in "[a\n]{0,40}", long in 0usize..200_000, cut in 0usize..60) {
            let directory = tempfile::tempdir().unwrap();
            let path = directory.path().join("m.jsonl");
            let mut before = text.into_bytes();
            before.extend(std::iter::repeat_n(b'x', long * usize::from(cut % 3 == 0)));
            std::fs::write(&path, &before).unwrap();
            let whole = before.iter().rposition(|&o| o == b'\n').map_or(0, |at| at + 1);
            let mut journal = LineLog::open(&path, of(Retention { bytes: 1 << 30, ..KEEP })).unwrap();
            prop_assert_eq!(journal.counts().cut_bytes, (before.len() - whole) as u64);
            journal.write("b\nc").unwrap();
            let after = std::fs::read(&path).unwrap();
            prop_assert_eq!(&after[..whole], &before[..whole]);
            prop_assert_eq!(&after[whole..], b"bc\n", "no line is two");
        }
    }

    #[test]
    fn where_the_disk_takes_no_line_some_wait_and_the_rest_is_counted() {
        if !Path::new("/dev/full").exists() {
            println!("SKIPPED: a disk that is full (needs /dev/full)");
            return;
        }
        let mut journal = LineLog::open(Path::new("/dev/full"), of(KEEP)).unwrap();
        for n in 0..(MAX_WAITING_LINES as u64 + 10) {
            let error = journal.write("{}").unwrap_err();
            assert!(error.to_string().contains("hint: free some space"), "{error}");
            let counts = journal.counts();
            assert_eq!((counts.written, counts.failures), (0, n + 1));
            assert_eq!(
                (counts.waiting, counts.lost),
                ((n + 1).min(MAX_WAITING_LINES as u64), (n + 1).saturating_sub(MAX_WAITING_LINES as u64))
            );
        }
    }

    #[test]
    fn several_lines_are_written_or_wait_together() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("m.jsonl");
        let mut log =
            LineLog::open(&path, LineLogOptions { is_durable: false, mode: 0o640, ..of(KEEP) }).unwrap();
        log.write_text(b"a\nb\nc\n".to_vec()).unwrap();
        log.write("d").unwrap();
        assert_eq!(
            (log.counts().written, lines(&path)),
            (4, ["a", "b", "c", "d"].map(str::to_owned).to_vec())
        );
        assert_eq!(std::fs::metadata(&path).unwrap().mode() & 0o7, 0);
        if !Path::new("/dev/full").exists() {
            return println!("SKIPPED: a disk that is full (needs /dev/full)");
        }
        let mut log = LineLog::open(Path::new("/dev/full"), of(KEEP)).unwrap();
        for n in 1..=MAX_WAITING_LINES as u64 + 2 {
            log.write_text(b"a\nb\nc\n".to_vec()).unwrap_err();
            let waiting = n.min(MAX_WAITING_LINES as u64);
            assert_eq!((log.counts().waiting, log.counts().lost), (3 * waiting, 3 * (n - waiting)));
        }
    }

    #[test]
    fn a_file_that_was_renamed_or_removed_is_begun_anew() {
        let directory = tempfile::tempdir().unwrap();
        let [path, other] = ["m.jsonl", "m.old"].map(|name| directory.path().join(name));
        let mut log = LineLog::open(&path, of(Retention { bytes: 1 << 30, ..KEEP })).unwrap();
        log.write("a").unwrap();
        std::fs::rename(&path, &other).unwrap();
        log.write("b").unwrap();
        assert_eq!((lines(&other), lines(&path)), (vec!["a".to_owned()], vec!["b".to_owned()]));
        std::fs::remove_file(&path).unwrap();
        log.write("c").unwrap();
        // As logrotate does with `create`, and a line that something has cut.
        std::fs::rename(&path, &other).unwrap();
        std::fs::write(&path, "x\ny").unwrap();
        log.write("d").unwrap();
        assert_eq!(
            (lines(&other), lines(&path)),
            (vec!["c".to_owned()], vec!["x".to_owned(), "d".to_owned()])
        );
        assert_eq!(log.counts().written, 4);
    }
}
