//! The journal of a schedule: what was begun, what ended and what was queued for other hosts, as lines of a file on each disk, beside the recordings.
//!
//! A line is durable before the recording begins that it names. The last line may be cut, by a power failure: it is ignored.

use skyhaul::core::hint::Hint;
use skyhaul::core::observation::sequencer::JournalRecord;
use skyhaul::core::station::DeliveryRecord;
use skyhaul::io::disk::sync_name;
use skyhaul::io::file::{failed, read_small};
use std::fmt::Display;
use std::fs::{File, OpenOptions};
use std::io::{self, ErrorKind, Write as _};
use std::path::PathBuf;

/// Maximum size of a journal, bytes.
const MAX_BYTES: usize = 64 << 20;

/// The journal of a schedule on one or several disks.
#[derive(Debug)]
pub struct ScheduleJournal {
    files: Vec<(PathBuf, File)>,
    /// What it held when it was opened, of all disks.
    pub records: Vec<JournalRecord>,
    /// The copies to other hosts that it held then.
    pub delivered: Vec<DeliveryRecord>,
}

impl ScheduleJournal {
    /// Opens or creates the journal of a schedule on each disk: `<disk>/<schedule>_schedule.journal`.
    ///
    /// # Errors
    /// A journal that cannot be read or created.
    pub fn open(disks: &[PathBuf], schedule: &str) -> io::Result<Self> {
        let (mut files, mut records, mut delivered) = (Vec::new(), Vec::new(), Vec::new());
        let name = match schedule {
            "" => "schedule.journal".to_owned(),
            schedule => format!("{schedule}_schedule.journal"),
        };
        for disk in disks {
            let path = disk.join(&name);
            let bytes = match read_small(&path, MAX_BYTES) {
                Ok(bytes) => bytes,
                Err(error) if error.kind() == ErrorKind::NotFound => Vec::new(),
                Err(error) => return Err(error),
            };
            let text = String::from_utf8_lossy(&bytes);
            let whole = text.rsplit_once('\n').map_or("", |(whole, _)| whole);
            records.extend(whole.lines().filter_map(|line| line.parse::<JournalRecord>().ok()));
            delivered.extend(whole.lines().filter_map(|line| line.parse::<DeliveryRecord>().ok()));
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
        Ok(Self { files, records, delivered })
    }

    /// Appends a [`JournalRecord`] or [`DeliveryRecord`], durably, on every disk that takes it, and returns the errors of those that do not.
    ///
    /// # Errors
    /// No disk takes it.
    pub fn append(&mut self, record: &impl Display) -> io::Result<Vec<io::Error>> {
        let line = format!("{record}\n");
        let mut errors: Vec<io::Error> = Vec::new();
        for (path, file) in &mut self.files {
            let done = file.write_all(line.as_bytes()).and_then(|()| file.sync_data());
            errors.extend(done.err().map(|error| failed("write", path, &error)));
        }
        if errors.len() < self.files.len() {
            return Ok(errors);
        }
        let why = errors.into_iter().next().map_or_else(String::new, |error| error.to_string());
        let hint = Hint("free some space, or use other disks");
        Err(io::Error::other(format!("no disk takes the journal: {why}{hint}")))
    }
}
