//! The journal of a schedule: what was begun, what ended and what was queued for other hosts, as lines of a file on each disk, beside the recordings.
//!
//! A line is durable before the recording begins that it names. A line may be cut, by a power failure or a full disk: it is ignored, and
//! what is written after it begins with [`SEAL`]. A line end alone would make a record of it, with a name that is cut: `no1` of `no10`.

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

/// Ends a line that was cut. No record has a control character.
const SEAL: &str = "\u{18}\n";

/// The journal of a schedule on one or several disks.
#[derive(Debug)]
pub struct ScheduleJournal {
    files: Vec<JournalFile>,
    /// What it held when it was opened, of all disks.
    pub records: Vec<JournalRecord>,
    /// The copies to other hosts that it held then.
    pub delivered: Vec<DeliveryRecord>,
}

#[derive(Debug)]
struct JournalFile {
    path: PathBuf,
    file: File,
    /// Its last line may be cut.
    is_cut: bool,
}

impl JournalFile {
    fn append(&mut self, line: &str) -> io::Result<()> {
        let line = if self.is_cut { format!("{SEAL}{line}") } else { line.to_owned() };
        let before = self.file.metadata()?.len();
        let written = self.file.write_all(line.as_bytes()).and_then(|()| self.file.sync_data());
        self.settle(written, before)
    }

    /// Passes on how a line was written behind the first `before` bytes. One that failed may be there whole: after a restart it would count.
    fn settle(&mut self, written: io::Result<()>, before: u64) -> io::Result<()> {
        self.is_cut = written.is_err();
        if self.is_cut {
            // What cannot be cut off is sealed before the next line.
            let _ = self.file.set_len(before);
        }
        written
    }
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
            let file = OpenOptions::new()
                .append(true)
                .create(true)
                .open(&path)
                .map_err(|error| failed("create", &path, &error))?;
            file.sync_all()
                .and_then(|()| sync_name(&path))
                .map_err(|error| failed("write", &path, &error))?;
            files.push(JournalFile { path, file, is_cut: !bytes.is_empty() && !bytes.ends_with(b"\n") });
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
        for file in &mut self.files {
            let done = file.append(&line);
            errors.extend(done.err().map(|error| failed("write", &file.path, &error)));
        }
        if errors.len() < self.files.len() {
            return Ok(errors);
        }
        let why = errors.into_iter().next().map_or_else(String::new, |error| error.to_string());
        let hint = Hint("free some space, or use other disks");
        Err(io::Error::other(format!("no disk takes the journal: {why}{hint}")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use skyhaul_core::station::QueuedId;

    #[test]
    fn a_line_that_was_cut_is_never_a_record() {
        let directory = tempfile::tempdir().unwrap();
        let disks = [directory.path().to_owned()];
        let path = directory.path().join("x_schedule.journal");
        let begun = |name: &str| JournalRecord { end: None, attempt: 1, at: 7, start: 9, name: name.into() };
        let queued = |copy: u64, recording: &str| DeliveryRecord {
            copy: QueuedId(copy),
            destination: "c".into(),
            recording: recording.into(),
        };
        // `no10`, cut in its name.
        for cut in ["begun 1 7 9 no1", "queued 4 c no1", "queued 4 c", "begun 1"] {
            std::fs::write(&path, cut).unwrap();
            let mut journal = ScheduleJournal::open(&disks, "x").unwrap();
            assert!(journal.records.is_empty() && journal.delivered.is_empty());
            journal.append(&begun("no2")).unwrap();
            journal.append(&queued(5, "no2")).unwrap();
            let again = ScheduleJournal::open(&disks, "x").unwrap();
            assert_eq!(
                (again.records, again.delivered),
                (vec![begun("no2")], vec![queued(5, "no2")]),
                "after {cut}"
            );
        }
    }

    #[test]
    fn a_line_whose_sync_failed_does_not_count_after_a_restart() {
        let directory = tempfile::tempdir().unwrap();
        let disks = [directory.path().to_owned()];
        let begun = |name: &str| JournalRecord { end: None, attempt: 1, at: 7, start: 9, name: name.into() };
        let mut journal = ScheduleJournal::open(&disks, "x").unwrap();
        journal.append(&begun("no1")).unwrap();
        let file = &mut journal.files[0];
        let before = file.file.metadata().unwrap().len();
        file.file.write_all(format!("{}\n", begun("no2")).as_bytes()).unwrap();
        file.settle(Err(io::Error::other("the disk failed")), before).unwrap_err();
        assert_eq!(ScheduleJournal::open(&disks, "x").unwrap().records, [begun("no1")]);
        journal.append(&begun("no3")).unwrap();
        assert_eq!(ScheduleJournal::open(&disks, "x").unwrap().records, [begun("no1"), begun("no3")]);
    }
}
