//! The thread that reads what a transfer sends.

use super::control::{POLL_INTERVAL, TransferControl};
use crate::station::files;
use crate::station::setup::StationSetup;
use skyhaul::io::disk::read_at_in_turn;
use skyhaul::recording::{ExtentContent, Lack, RangePiece, RangeReader, Recording, State};
use skyhaul_core::hint::split;
use skyhaul_core::station::{TransferForm, TransferRequest};
use skyhaul_core::vsi::ChunkName;
use std::path::PathBuf;
use std::sync::mpsc::{Receiver, SyncSender};

/// Pieces of chunks that are read ahead of the one that is sent: while the other host closes the connection of a chunk, the next ones come
/// from the disks.
const AHEAD_OF_CHUNKS: usize = 6;
/// The same of a scan as one file: one in the queue, one that waits for it.
const AHEAD: usize = 2;
/// Pieces that a connection sends, or the thread that writes a file has: one that is written, one that waits.
const SENT: usize = 1;
const WRITTEN: usize = 2;
/// Bytes of a file that are read at a time.
const FILE_PIECE_BYTES: u64 = 1 << 20;

/// What is read.
#[derive(Clone, Debug)]
pub(super) struct Source {
    disks: Vec<PathBuf>,
    /// Directories whose files may be sent and written.
    files: Vec<PathBuf>,
    name: String,
    form: TransferForm,
}

/// What the reading thread says.
pub(super) enum FromDisks {
    /// The size of what can be sent as one file.
    Opened(u64),
    /// The chunks that can be sent, and their bytes.
    Chunks(Vec<(ChunkName, u64)>),
    /// The chunk with this place in that list follows.
    Chunk(usize),
    Piece(RangePiece),
    /// The next bytes of a file.
    File(Vec<u8>),
    /// What was asked for is over; whether parts of the scan are missing.
    End {
        has_gaps: bool,
    },
    Failed(String),
}

/// What the reading thread is asked for.
pub(super) enum Wanted {
    Range(u64, u64),
    /// Chunks by their places in the list.
    Chunks(Vec<usize>),
}

/// Nobody takes what is read.
fn gone() -> String {
    "nobody takes what is read".to_owned()
}

fn say(to: &SyncSender<FromDisks>, what: FromDisks) -> Result<(), String> {
    to.send(what).map_err(|_| gone())
}

/// Waits while transfers pause for a recording: then nothing is read ahead.
fn wait_for_recordings(control: &TransferControl) -> Result<(), String> {
    while control.is_paused() {
        if control.is_over() {
            return Err(gone());
        }
        control.note_waiting();
        std::thread::sleep(POLL_INTERVAL);
    }
    Ok(())
}

/// Reads to the end of the range that the reader was set to.
fn give(
    reader: &mut RangeReader,
    to: &SyncSender<FromDisks>,
    control: &TransferControl,
) -> Result<(), String> {
    loop {
        wait_for_recordings(control)?;
        match reader.next_piece().map_err(|error| error.to_string())? {
            Some(piece) => say(to, FromDisks::Piece(piece))?,
            None => return Ok(()),
        }
    }
}

impl Source {
    pub(super) fn of(setup: &StationSetup, request: &TransferRequest) -> Self {
        let (disks, files) = (setup.disks.clone(), setup.files.clone());
        Self { disks, files, name: request.scan.clone(), form: request.form }
    }

    /// Directories whose files may be sent and written.
    pub(super) fn files(&self) -> &[PathBuf] {
        &self.files
    }

    /// Pieces that the queue holds; one more waits for it.
    pub(super) fn queued_pieces(&self) -> usize {
        self.ahead() - 1
    }

    fn ahead(&self) -> usize {
        match self.form {
            TransferForm::Chunks => AHEAD_OF_CHUNKS,
            TransferForm::Scan
            | TransferForm::File
            | TransferForm::ToFile(_)
            | TransferForm::ToEtransfer(_) => AHEAD,
        }
    }

    /// Pieces that are not with the reader.
    fn held_pieces(&self) -> usize {
        let taken = if matches!(self.form, TransferForm::ToFile(_)) { WRITTEN } else { SENT };
        self.ahead() + taken
    }

    /// Reads. It ends when nobody takes what it reads.
    pub(super) fn read(
        &self,
        wanted: &Receiver<Wanted>,
        to: &SyncSender<FromDisks>,
        control: &TransferControl,
    ) {
        let read = match self.form {
            TransferForm::Scan | TransferForm::ToFile(_) | TransferForm::ToEtransfer(_) => {
                self.read_scan(wanted, to, control)
            }
            TransferForm::File => self.read_file(wanted, to, control),
            TransferForm::Chunks => self.read_chunks(wanted, to, control),
        };
        // Who has gone needs no answer.
        let _ = to.send(match read {
            Ok(has_gaps) => FromDisks::End { has_gaps },
            Err(why) => FromDisks::Failed(split(&why).0.to_owned()),
        });
    }

    fn recording(&self) -> Result<Recording, String> {
        let recording = Recording::open(&self.disks, &self.name).map_err(|error| error.to_string())?;
        // What is only on it would be missing at the other end, or fill would be there.
        if let Some(disk) = recording.silent_disks().next() {
            return Err(format!("{} does not respond", disk.display()));
        }
        Ok(recording)
    }

    fn read_scan(
        &self,
        wanted: &Receiver<Wanted>,
        to: &SyncSender<FromDisks>,
        control: &TransferControl,
    ) -> Result<bool, String> {
        let recording = self.recording()?;
        if recording.datastreams.len() != 1 {
            return Err(format!(
                "the scan has {} datastreams, and only a scan of one can be sent as one file",
                recording.datastreams.len()
            ));
        }
        let mut reader = recording.range_reader(0, self.held_pieces()).map_err(|error| error.to_string())?;
        say(to, FromDisks::Opened(reader.layout().bytes()))?;
        let Ok(Wanted::Range(from, end)) = wanted.recv() else { return Err(gone()) };
        reader.seek(from, end);
        give(&mut reader, to, control)?;
        Ok(has_gaps(&recording, 0))
    }

    fn read_file(
        &self,
        wanted: &Receiver<Wanted>,
        to: &SyncSender<FromDisks>,
        control: &TransferControl,
    ) -> Result<bool, String> {
        let (tree, path) = files::find(&self.files, &self.name)?;
        let fault = |error: std::io::Error| format!("{}: {error}", self.name);
        let (file, _) = tree.read(&path, false).map_err(fault)?;
        say(to, FromDisks::Opened(file.metadata().map_err(fault)?.len()))?;
        let Ok(Wanted::Range(mut at, end)) = wanted.recv() else { return Err(gone()) };
        while at < end {
            wait_for_recordings(control)?;
            let mut piece = vec![0; (end - at).min(FILE_PIECE_BYTES) as usize];
            let read = read_at_in_turn(&file, &mut piece, at).map_err(fault)?;
            if read == 0 {
                return Err(format!("{}: it became shorter", self.name));
            }
            piece.truncate(read);
            at += read as u64;
            say(to, FromDisks::File(piece))?;
        }
        Ok(false)
    }

    fn read_chunks(
        &self,
        wanted: &Receiver<Wanted>,
        to: &SyncSender<FromDisks>,
        control: &TransferControl,
    ) -> Result<bool, String> {
        let recording = self.recording()?;
        let (mut offered, mut places) = (Vec::new(), Vec::new());
        for (at, stream) in recording.datastreams.iter().enumerate() {
            for extent in recording.layout(at).extents {
                let ExtentContent::Chunk(entry) = &extent.content else { continue };
                let name = ChunkName::new(&stream.name, entry.number);
                let name = name.ok_or_else(|| format!("{} cannot be the name of a FlexBuff", stream.name))?;
                offered.push((name, extent.end() - extent.offset));
                places.push((at, extent.offset, extent.end()));
            }
        }
        say(to, FromDisks::Chunks(offered))?;
        let Ok(Wanted::Chunks(wanted)) = wanted.recv() else { return Err(gone()) };
        let mut reader = None;
        for chunk in wanted {
            let Some(&(stream, from, end)) = places.get(chunk) else { continue };
            if reader.as_ref().is_none_or(|(of, _)| *of != stream) {
                let opened = recording.range_reader(stream, self.held_pieces());
                reader = Some((stream, opened.map_err(|error| error.to_string())?));
            }
            let Some((_, reader)) = &mut reader else { continue };
            say(to, FromDisks::Chunk(chunk))?;
            reader.seek(from, end);
            give(reader, to, control)?;
        }
        Ok((0..recording.datastreams.len()).any(|at| has_gaps(&recording, at)))
    }
}

/// Whether parts of a datastream are missing. That a FlexBuff's own scan has no index, and so no known end, is no gap.
fn has_gaps(recording: &Recording, datastream: usize) -> bool {
    let is_foreign = recording.state == State::Unindexed;
    let layout = recording.layout(datastream);
    layout.gaps.iter().any(|gap| !is_foreign || gap.lack != Lack::OpenEnd)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use std::sync::mpsc::{channel, sync_channel};
    use std::thread::JoinHandle;
    use std::time::Duration;

    const FRAMES: u32 = 6000;

    /// A scan of one chunk of 48 MB, which has twelve pieces.
    fn scan(disk: &std::path::Path) {
        let frame = |n: u32| {
            let words =
                [1000 + n / 1000, (53 << 24) | (n % 1000), (1 << 29) | (8032 / 8), (1 << 26) | 0x4d68];
            let head = words.into_iter().chain([0; 4]).flat_map(u32::to_le_bytes);
            head.chain((0..8000u32).map(move |at| (at.wrapping_mul(n + 7) >> 3) as u8))
        };
        std::fs::create_dir(disk.join("s")).unwrap();
        let bytes: Vec<u8> = (0..FRAMES).flat_map(frame).collect();
        std::fs::write(disk.join("s/s.00000000"), bytes).unwrap();
    }

    struct Reading {
        from_disks: Receiver<FromDisks>,
        control: Arc<TransferControl>,
        thread: JoinHandle<()>,
        _wanted: std::sync::mpsc::Sender<Wanted>,
    }

    impl Reading {
        /// The thread that reads the chunk.
        fn new(disk: &std::path::Path, pace: u64) -> Self {
            let (disks, files, name) = (vec![disk.to_owned()], Vec::new(), "s".to_owned());
            let source = Source { disks, files, name, form: TransferForm::Chunks };
            let (ask, wanted) = channel();
            let (to, from_disks) = sync_channel(source.queued_pieces());
            let control = Arc::<TransferControl>::default();
            control.pace.store(pace, std::sync::atomic::Ordering::Relaxed);
            let of_thread = Arc::clone(&control);
            let thread = std::thread::spawn(move || source.read(&wanted, &to, &of_thread));
            let reading = Self { from_disks, control, thread, _wanted: ask.clone() };
            assert!(matches!(reading.next(), Some(FromDisks::Chunks(chunks)) if chunks.len() == 1));
            ask.send(Wanted::Chunks(vec![0])).unwrap();
            assert!(matches!(reading.next(), Some(FromDisks::Chunk(0))));
            reading
        }

        fn next(&self) -> Option<FromDisks> {
            self.from_disks.recv_timeout(Duration::from_secs(30)).ok()
        }

        /// Pieces that come while nothing more may be read.
        fn read_ahead(&self) -> usize {
            self.control.pace.store(0, std::sync::atomic::Ordering::Relaxed);
            let pieces = std::iter::from_fn(|| self.from_disks.recv_timeout(Duration::from_secs(1)).ok());
            pieces.inspect(|said| assert!(matches!(said, FromDisks::Piece(_)))).count()
        }

        /// The thread ends when nobody takes what it reads, also while it pauses.
        fn end(self) {
            self.control.is_over.store(true, std::sync::atomic::Ordering::Relaxed);
            drop(self.from_disks);
            let end = std::time::Instant::now() + Duration::from_secs(30);
            while !self.thread.is_finished() {
                assert!(std::time::Instant::now() < end, "it reads for nobody");
                std::thread::sleep(Duration::from_millis(10));
            }
        }
    }

    #[test]
    fn six_pieces_are_read_ahead_of_the_one_that_is_sent_and_none_for_a_recording() {
        let directory = tempfile::tempdir().unwrap();
        scan(directory.path());
        let reading = Reading::new(directory.path(), u64::MAX);
        // This one is sent, slowly: the others come from the disk meanwhile.
        let _sent = reading.next();
        std::thread::sleep(Duration::from_secs(2));
        assert_eq!(reading.read_ahead(), 6);
        reading.end();

        let reading = Reading::new(directory.path(), 0);
        assert_eq!(reading.read_ahead(), 0, "a recording has the disk");
        reading.control.pace.store(1_000_000, std::sync::atomic::Ordering::Relaxed);
        assert!(matches!(reading.next(), Some(FromDisks::Piece(_))));
        reading.end();
    }
}
