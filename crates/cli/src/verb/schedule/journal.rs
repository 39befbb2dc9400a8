//! The journal of a schedule: what was begun and what ended, as lines of a file on each disk, beside the recordings.
//!
//! A line is durable before the recording begins that it names. The last line may be cut, by a power failure: it is ignored.

use anyhow::{Result, anyhow};
use skyhaul::core::hint::Hint;
use skyhaul::core::observation::sequencer::JournalRecord;
use skyhaul::io::disk::sync_name;
use skyhaul::io::file::{failed, read_small};
use std::fs::{File, OpenOptions};
use std::io::{self, ErrorKind, Write as _};
use std::path::PathBuf;

/// Maximum size of a journal, bytes.
const MAX_BYTES: usize = 64 << 20;

/// The journal on all disks.
#[derive(Debug)]
pub(super) struct Journal {
    files: Vec<(PathBuf, File)>,
    /// What it held when it was opened, of all disks.
    pub(super) records: Vec<JournalRecord>,
}

impl Journal {
    /// Opens or creates the journal `name` on each disk.
    pub(super) fn open(disks: &[PathBuf], name: &str) -> Result<Self> {
        let (mut files, mut records) = (Vec::new(), Vec::new());
        for disk in disks {
            let path = disk.join(name);
            let bytes = match read_small(&path, MAX_BYTES) {
                Ok(bytes) => bytes,
                Err(error) if error.kind() == ErrorKind::NotFound => Vec::new(),
                Err(error) => return Err(error.into()),
            };
            let text = String::from_utf8_lossy(&bytes);
            let whole = text.rsplit_once('\n').map_or("", |(whole, _)| whole);
            records.extend(whole.lines().filter_map(|line| line.parse::<JournalRecord>().ok()));
            let mut file = OpenOptions::new()
                .append(true)
                .create(true)
                .open(&path)
                .map_err(|error| failed("create", &path, &error))?;
            if !bytes.is_empty() && !bytes.ends_with(b"\n") {
                file.write_all(b"\n").map_err(|error| failed("write", &path, &error))?;
            }
            file.sync_all()
                .and_then(|()| sync_name(&path))
                .map_err(|error| failed("write", &path, &error))?;
            files.push((path, file));
        }
        Ok(Self { files, records })
    }

    /// Appends a record, durably, on every disk that takes it.
    ///
    /// # Errors
    /// No disk takes it.
    pub(super) fn append(&mut self, record: &JournalRecord) -> Result<()> {
        let line = format!("{record}\n");
        let mut errors: Vec<io::Error> = Vec::new();
        for (path, file) in &mut self.files {
            let done = file.write_all(line.as_bytes()).and_then(|()| file.sync_data());
            errors.extend(done.err().map(|error| failed("write", path, &error)));
        }
        if errors.len() < self.files.len() {
            errors.iter().for_each(|error| say!("note: {error}"));
            return Ok(());
        }
        let why = errors.into_iter().next().map_or_else(String::new, |error| error.to_string());
        Err(anyhow!("no disk takes the journal: {why}{}", Hint("free some space, or use other disks")))
    }
}
