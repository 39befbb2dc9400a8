//! The thread that reads what a transfer sends.

use crate::station::files;
use crate::station::setup::StationSetup;
use skyhaul::io::disk::read_at_in_turn;
use skyhaul::recording::{ExtentContent, Lack, RangePiece, Recording, State};
use skyhaul_core::hint::split;
use skyhaul_core::station::{TransferForm, TransferRequest};
use skyhaul_core::vsi::ChunkName;
use std::path::PathBuf;
use std::sync::mpsc::{Receiver, SyncSender};

/// Pieces that are not with the reader: one in the queue, one that waits for it, one that is sent.
const HELD_PIECES: usize = 3;
/// Bytes of a file that are read at a time.
const FILE_PIECE_BYTES: u64 = 1 << 20;

/// What is read.
#[derive(Clone, Debug)]
pub(super) struct Source {
    disks: Vec<PathBuf>,
    /// Directories whose files may be sent.
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

impl Source {
    pub(super) fn of(setup: &StationSetup, request: &TransferRequest) -> Self {
        let (disks, files) = (setup.disks.clone(), setup.files.clone());
        Self { disks, files, name: request.scan.clone(), form: request.form }
    }

    /// Reads. It ends when nobody takes what it reads.
    pub(super) fn read(&self, wanted: &Receiver<Wanted>, to: &SyncSender<FromDisks>) {
        let read = match self.form {
            TransferForm::Scan => self.read_scan(wanted, to),
            TransferForm::File => self.read_file(wanted, to),
            TransferForm::Chunks => self.read_chunks(wanted, to),
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

    fn read_scan(&self, wanted: &Receiver<Wanted>, to: &SyncSender<FromDisks>) -> Result<bool, String> {
        let recording = self.recording()?;
        if recording.datastreams.len() != 1 {
            return Err(format!(
                "the scan has {} datastreams, and only a scan of one can be sent as one file",
                recording.datastreams.len()
            ));
        }
        let mut reader = recording.range_reader(0, HELD_PIECES).map_err(|error| error.to_string())?;
        say(to, FromDisks::Opened(reader.layout().bytes()))?;
        let Ok(Wanted::Range(from, end)) = wanted.recv() else { return Err(gone()) };
        reader.seek(from, end);
        while let Some(piece) = reader.next_piece().map_err(|error| error.to_string())? {
            say(to, FromDisks::Piece(piece))?;
        }
        Ok(has_gaps(&recording, 0))
    }

    fn read_file(&self, wanted: &Receiver<Wanted>, to: &SyncSender<FromDisks>) -> Result<bool, String> {
        let (tree, path) = files::find(&self.files, &self.name)?;
        let fault = |error: std::io::Error| format!("{}: {error}", self.name);
        let (file, _) = tree.read(&path, false).map_err(fault)?;
        say(to, FromDisks::Opened(file.metadata().map_err(fault)?.len()))?;
        let Ok(Wanted::Range(mut at, end)) = wanted.recv() else { return Err(gone()) };
        while at < end {
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

    fn read_chunks(&self, wanted: &Receiver<Wanted>, to: &SyncSender<FromDisks>) -> Result<bool, String> {
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
                let opened = recording.range_reader(stream, HELD_PIECES);
                reader = Some((stream, opened.map_err(|error| error.to_string())?));
            }
            let Some((_, reader)) = &mut reader else { continue };
            say(to, FromDisks::Chunk(chunk))?;
            reader.seek(from, end);
            while let Some(piece) = reader.next_piece().map_err(|error| error.to_string())? {
                say(to, FromDisks::Piece(piece))?;
            }
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
