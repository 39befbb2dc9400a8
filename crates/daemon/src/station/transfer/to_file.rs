//! A range of a scan as a file of this host, as `disk2file` of jive5ab writes it.
//!
//! ```text
//!   pieces ─▶ pace, pause ─▶ thread that writes ─▶ .NAME.1234abcd.part ─ whole, durable ─▶ NAME
//! ```
//!
//! A new file has its name when all of it is on the disk; before that it is hidden. If it cannot be finished it is removed, or stays where it
//! is to be resumed. A file that exists is continued in place ([`ExistingFile::Append`], [`ExistingFile::Resume`]).
//!
//! | ends early | new file | `Append` to a file | `Resume` of a file |
//! |---|---|---|---|
//! | failed, stopped | nothing is left; of `Resume`, the hidden part | has the length that it had | is longer, and can be resumed |
//! | killed | the hidden part, until the next transfer to this name | is longer | is longer, and can be resumed |
//!
//! The thread that writes is left alone if a disk hangs; it ends when the disk responds.

use super::reading::{FromDisks, Wanted};
use super::{Early, Pacing, Sending, ask, out_of_turn, range_of};
use crate::station::files;
use skyhaul::core::placement::Nanos;
use skyhaul::io::disk::{DiskTurn, Tree, while_waiting};
use skyhaul::recording::RangePiece;
use skyhaul_core::station::{ExistingFile, FileWrite, TransferEvent};
use std::ffi::OsStr;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// After so many bytes they are made durable.
const SYNC_BYTES: u64 = 128 << 20;
/// The last bytes of a hidden part, which may not have been durable when it was left: they are written again.
const DOUBTFUL_BYTES: u64 = SYNC_BYTES + (16 << 20);
/// Pieces that the writing thread has: one that is written, one that waits.
const MAX_WRITING: usize = 2;
/// How long a transfer that ends early waits until its file is removed.
const REMOVE_TIMEOUT: Duration = Duration::from_secs(2);

/// A file that is written.
#[derive(Debug)]
struct Target {
    tree: Tree,
    path: PathBuf,
    name: String,
    /// Its hidden name, unless it is a file that exists.
    part: Option<PathBuf>,
    file: File,
    existing: ExistingFile,
    /// Its length before.
    before: u64,
    at: u64,
    synced: u64,
    /// A sync failed: what was written since the last one may be lost, though a later sync succeeds.
    is_doubtful: bool,
    is_done: bool,
}

impl Target {
    /// Opens a file for the bytes of a scan from `write.from` to `to`. Returns how many of them it has.
    ///
    /// # Errors
    /// It is not below `directories`, exists and is to stay, or cannot be opened.
    fn open(
        directories: &[PathBuf],
        name: &str,
        scan: &str,
        write: &FileWrite,
        to: u64,
    ) -> Result<(Self, u64), String> {
        let is_kept = write.existing == ExistingFile::Keep;
        let (tree, path, is_there) = files::writable(directories, name, is_kept)?;
        let fault = |error: io::Error| format!("{name}: {error}");
        let (existing, wanted) = (write.existing, to - write.from);
        let in_place = is_there && matches!(existing, ExistingFile::Append | ExistingFile::Resume);
        let part = (!in_place).then(|| part_of(&path, scan, write.from));
        remove_parts(&tree, &path, part.as_deref()).map_err(fault)?;
        let (file, _) = tree.write(part.as_deref().unwrap_or(&path), false).map_err(fault)?;
        let length = file.metadata().map_err(fault)?.len();
        let present = match existing {
            ExistingFile::Resume if in_place => length,
            ExistingFile::Resume => length.saturating_sub(DOUBTFUL_BYTES).min(wanted),
            ExistingFile::Keep | ExistingFile::Replace | ExistingFile::Append => 0,
        };
        if present > wanted {
            return Err(format!("{name} has {present} bytes, more than the {wanted} that it is to have"));
        }
        let at = if in_place { length } else { present };
        if !in_place {
            file.set_len(present).map_err(fault)?;
        }
        let name = name.to_owned();
        let target = Self {
            tree,
            path,
            name,
            part,
            file,
            existing,
            before: length,
            at,
            synced: at,
            is_doubtful: false,
            is_done: false,
        };
        Ok((target, present))
    }

    fn write(&mut self, bytes: &[u8]) -> Result<(), String> {
        let written = (|| {
            let mut turn = DiskTurn::ask(&self.file, bytes.len() as u64)?;
            turn.wait();
            self.file.write_all_at(bytes, self.at)?;
            drop(turn);
            self.at += bytes.len() as u64;
            if self.at - self.synced >= SYNC_BYTES {
                self.file.sync_data().inspect_err(|_| self.is_doubtful = true)?;
                self.synced = self.at;
            }
            Ok(())
        })();
        written.map_err(|error: io::Error| format!("{}: {error}", self.name))
    }

    /// Bytes of a file in place of which no failed sync may have been.
    fn proven(&self) -> u64 {
        match self.synced > self.before {
            true => self.synced,
            false => self.synced.saturating_sub(DOUBTFUL_BYTES),
        }
    }

    /// Makes it durable, and gives it its name.
    fn finish(mut self) -> Result<(), String> {
        let finished = (|| {
            if let Some(part) = &self.part {
                let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
                let time = (i64::try_from(now.as_secs()).unwrap_or(0), now.subsec_nanos());
                self.tree.settle(&self.file, 0o644, time)?;
                self.file.sync_all()?;
                self.tree.rename(part, &self.path, self.existing == ExistingFile::Replace)?;
            } else {
                self.file.sync_all().inspect_err(|_| self.is_doubtful = true)?;
            }
            self.is_done = true;
            self.tree.directory(self.path.parent().unwrap_or(Path::new("")))?.sync_all()
        })();
        finished.map_err(|error: io::Error| match error.kind() {
            io::ErrorKind::AlreadyExists => files::exists(&self.name),
            _ => format!("{}: {error}", self.name),
        })
    }
}

impl Drop for Target {
    fn drop(&mut self) {
        if self.is_done {
            return;
        }
        // Where this fails, the next transfer to this name removes it.
        let _ = match (&self.part, self.existing) {
            // The next one would believe its length.
            (None, ExistingFile::Resume) if self.is_doubtful => self.file.set_len(self.proven()),
            (_, ExistingFile::Resume) => Ok(()),
            (Some(part), _) => self.tree.remove(part),
            (None, _) => self.file.set_len(self.before),
        };
    }
}

/// The hidden name of a file while it is written: of the same bytes, the same name.
fn part_of(path: &Path, scan: &str, from: u64) -> PathBuf {
    let source = crc32c::crc32c(format!("{scan}:{from}").as_bytes());
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    path.with_file_name(format!(".{name}.{source:08x}.part"))
}

/// Whether this is the hidden name of a file, whatever it is to hold.
fn is_part_of(name: &OsStr, file: &str) -> bool {
    let source = name.to_str().and_then(|name| {
        name.strip_prefix('.')?.strip_prefix(file)?.strip_prefix('.')?.strip_suffix(".part")
    });
    source.is_some_and(|source| source.len() == 8 && source.bytes().all(|b| b.is_ascii_hexdigit()))
}

/// Removes what was left of other attempts to write this file.
///
/// # Errors
/// Another transfer writes it, or a system error.
fn remove_parts(tree: &Tree, path: &Path, but: Option<&Path>) -> io::Result<()> {
    let above = path.parent().unwrap_or(Path::new(""));
    let file = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    for name in tree.list(above)?.iter().filter(|name| is_part_of(name, &file)) {
        let part = above.join(name);
        if Some(part.as_path()) != but {
            // A transfer that writes it has it locked.
            let _locked = tree.write(&part, false)?;
            tree.remove(&part)?;
        }
    }
    Ok(())
}

/// What the writing thread is to do.
enum Order {
    Write(RangePiece),
    /// All was written.
    Finish,
}

/// What the writing thread says.
enum Said {
    /// The file is open, and has so many bytes of the range.
    Opened(u64),
    Wrote(u64),
    Finished,
    Failed(String),
}

/// The thread that writes.
fn run(
    open: impl FnOnce() -> Result<(Target, u64), String>,
    orders: &Receiver<Order>,
    to: &Sender<Said>,
) -> Result<Said, String> {
    // If the transfer has ended, no order comes, either.
    let (mut target, present) = open()?;
    let _ = to.send(Said::Opened(present));
    loop {
        match orders.recv() {
            Ok(Order::Write(piece)) => {
                target.write(&piece)?;
                let _ = to.send(Said::Wrote(piece.len() as u64));
            }
            Ok(Order::Finish) => return target.finish().map(|()| Said::Finished),
            Err(_) => return Err("it was ended".into()),
        }
    }
}

impl Sending {
    /// Writes a range of the scan to a file. Returns whether parts of the scan are missing.
    pub(super) fn write_file(
        &mut self,
        write: FileWrite,
        wanted: &Sender<Wanted>,
        from_disks: &Receiver<FromDisks>,
        counted: Arc<()>,
    ) -> Result<bool, Early> {
        let FromDisks::Opened(size_bytes) = self.next(from_disks)? else { return Err(out_of_turn()) };
        let (from, to) = range_of(write.from, write.to, size_bytes)?;
        let (orders, of_writer) = channel();
        let (say, said) = channel();
        let (directories, request) = (self.source.files().to_vec(), self.plan.request.clone());
        let control = Arc::clone(&self.control);
        let write_all = move || {
            let _counted = counted;
            while_waiting(move || control.note_waiting());
            let open = || Target::open(&directories, &request.host, &request.scan, &write, to);
            let end = run(open, &of_writer, &say).unwrap_or_else(Said::Failed);
            // The transfer may have ended without it.
            let _ = say.send(end);
        };
        std::thread::Builder::new().name("transfer-write".into()).spawn(write_all)?;
        let written = self.write_pieces((from, to, size_bytes), (wanted, from_disks), (&orders, &said));
        drop(orders);
        if written.is_err() {
            // So that nothing is left of it when the end is reported, unless the disk hangs.
            while said.recv_timeout(REMOVE_TIMEOUT).is_ok() {}
        }
        written
    }

    fn write_pieces(
        &mut self,
        (from, to, size_bytes): (u64, u64, u64),
        (wanted, from_disks): (&Sender<Wanted>, &Receiver<FromDisks>),
        (orders, said): (&Sender<Order>, &Receiver<Said>),
    ) -> Result<bool, Early> {
        let Said::Opened(present) = self.of_writer(said)? else { return Err(out_of_turn()) };
        let from = from + present;
        self.tell(TransferEvent::Writing { size_bytes, range: (from, to) });
        ask(wanted, Wanted::Range(from, to))?;
        let (mut pacing, mut writing) = (Pacing::new(), 0);
        let has_gaps = loop {
            let piece = match self.next(from_disks)? {
                FromDisks::Piece(piece) => piece,
                FromDisks::End { has_gaps } => break has_gaps,
                _ => return Err(out_of_turn()),
            };
            let bytes = piece.len() as u64;
            self.counts.read_bytes += bytes;
            if matches!(piece, RangePiece::Fill(_)) {
                self.counts.filled_bytes += bytes;
            }
            self.wait_for_turn(&mut pacing)?;
            self.order(orders, said, Order::Write(piece))?;
            pacing.pacer.sent(bytes, Nanos::from(pacing.begun.elapsed()));
            writing += 1;
            while writing >= MAX_WRITING {
                self.written(said)?;
                writing -= 1;
            }
        };
        for _ in 0..writing {
            self.written(said)?;
        }
        self.order(orders, said, Order::Finish)?;
        match self.of_writer(said)? {
            Said::Finished => Ok(has_gaps),
            _ => Err(out_of_turn()),
        }
    }

    /// Waits until a piece was written.
    fn written(&mut self, said: &Receiver<Said>) -> Result<(), Early> {
        let Said::Wrote(bytes) = self.of_writer(said)? else { return Err(out_of_turn()) };
        self.counts.sent_bytes += bytes;
        self.show_progress();
        Ok(())
    }

    fn order(&self, orders: &Sender<Order>, said: &Receiver<Said>, what: Order) -> Result<(), Early> {
        if orders.send(what).is_ok() {
            return Ok(());
        }
        // Its last word is why it has ended.
        loop {
            self.of_writer(said)?;
        }
    }

    fn of_writer(&self, said: &Receiver<Said>) -> Result<Said, Early> {
        match self.word(said)? {
            Said::Failed(why) => Err(Early::Failed(why)),
            said => Ok(said),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hidden_part_is_resumed_where_it_was_durable() {
        let directory = tempfile::tempdir().unwrap();
        let roots = [directory.path().to_owned()];
        let name = directory.path().join("x.vdif").display().to_string();
        let write = |existing| FileWrite { existing, from: 1000, to: None };
        let open = |existing, to| Target::open(&roots, &name, "s", &write(existing), to);
        let part = part_of(&directory.path().join("x.vdif"), "s", 1000);
        let left = |bytes: u64| File::create(&part).unwrap().set_len(bytes).unwrap();
        let end = 1000 + DOUBTFUL_BYTES + 5000;
        for (bytes, present) in
            [(100, 0), (DOUBTFUL_BYTES + 4000, 4000), (u64::from(u32::MAX), DOUBTFUL_BYTES + 5000)]
        {
            left(bytes);
            let (target, found) = open(ExistingFile::Resume, end).unwrap();
            assert_eq!(
                (found, target.at, target.file.metadata().unwrap().len()),
                (present, present, present)
            );
        }
        assert!(part.exists(), "it stays to be resumed");
        // What is begun anew does not use it, and what was left of other bytes is removed.
        let (mut target, found) = open(ExistingFile::Keep, end).unwrap();
        assert_eq!((found, target.at), (0, 0));
        target.write(b"abc").unwrap();
        let other = Target::open(&roots, &name, "t", &write(ExistingFile::Keep), end);
        assert!(other.unwrap_err().contains("another copy is writing it"));
        drop(target);
        assert!(!part.exists());
        left(7);
        let (mut target, _) = Target::open(&roots, &name, "t", &write(ExistingFile::Keep), end).unwrap();
        assert!(!part.exists());
        target.write(b"abc").unwrap();
        // Another file that takes the name first keeps it.
        std::fs::write(&name, "mine").unwrap();
        assert_eq!(target.finish().unwrap_err(), format!("{name}: File exists"));
        assert_eq!(std::fs::read(&name).unwrap(), b"mine");
        assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 1);
        // A file longer than the range cannot be its beginning.
        let small = Target::open(&roots, &name, "s", &write(ExistingFile::Resume), 1002);
        assert!(small.unwrap_err().contains("more than the 2 that it is to have"));
    }

    /// After a failed sync the kernel has told once what it lost: the next transfer must not believe the length of the file.
    #[test]
    fn a_file_that_is_resumed_in_place_keeps_only_what_no_failed_sync_may_have_lost() {
        let directory = tempfile::tempdir().unwrap();
        let roots = [directory.path().to_owned()];
        let name = directory.path().join("x.vdif").display().to_string();
        let write = FileWrite { existing: ExistingFile::Resume, from: 0, to: None };
        let bytes = || std::fs::metadata(&name).unwrap().len();
        let length = DOUBTFUL_BYTES + 5000;
        for (is_doubtful, synced, left) in
            [(false, 0, length + 3), (true, 0, 5000), (true, length + 2, length + 2)]
        {
            File::create(&name).unwrap().set_len(length).unwrap();
            let (mut target, found) = Target::open(&roots, &name, "s", &write, 2 * length).unwrap();
            assert_eq!(found, length);
            target.write(b"abc").unwrap();
            target.is_doubtful = is_doubtful;
            target.synced = target.synced.max(synced);
            drop(target);
            assert_eq!(bytes(), left);
        }
    }

    #[test]
    fn names_of_hidden_parts_are_those_of_their_file() {
        let is = |name: &str| is_part_of(OsStr::new(name), "x.vdif");
        assert!(is(".x.vdif.0123abcd.part") && part_of(Path::new("a/x.vdif"), "s", 0).starts_with("a"));
        for other in [
            "x.vdif.0123abcd.part",
            ".x.vdif.0123abc.part",
            ".y.0123abcd.part",
            ".x.vdif.part",
            ".x.vdif.0123abcd",
        ] {
            assert!(!is(other), "{other}");
        }
    }
}
