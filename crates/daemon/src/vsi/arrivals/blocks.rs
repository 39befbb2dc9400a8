//! A scan that arrives over one connection and is written in blocks over the disks, as a Mark 6 does ([`BlockLayout`]).
//!
//! ```text
//!   DISK/data/SCAN.part   │ zeros │ block │ block │ …     while it arrives: no reader takes it for a scan
//!   DISK/data/SCAN        │ header │ block │ block │ …    when all of it is durable on all disks
//! ```
//!
//! Disks take blocks in turns. These files have no digest and no mark of their end, so that a part of a scan looks whole: one whose
//! connection broke, or which a disk did not take, leaves nothing.

#[cfg(test)]
mod tests;

use super::peer::Peer;
use super::shared::{Arrival, Receiver, Refusal, responding};
use skyhaul::io::disk::{DiskTurn, Tree, free_bytes};
use skyhaul::io::lock::lock;
use skyhaul::recording::mark6::{BlockLayout, BlockPackets, names_of, path_of};
use skyhaul_core::vsi::{VsiBlocks, VsiCode, VsiPackets};
use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::net::{IpAddr, TcpStream};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::{SystemTime, UNIX_EPOCH};

/// Bytes that are written at a time.
const PIECE_BYTES: usize = 4 << 20;
/// After so many bytes of a disk they are made durable.
const SYNC_BYTES: u64 = 128 << 20;
/// Blocks of a scan: their numbers are positive for programs that read them with a sign.
const MAX_BLOCKS: u32 = i32::MAX as u32;

/// Whether a scan is being recorded here.
type IsRecorded = Box<dyn Fn(&str) -> bool + Send + Sync>;

/// A scan that arrives in blocks.
pub(super) struct ArrivingScan {
    label: String,
    disks: Vec<(PathBuf, Tree)>,
    reserve_bytes: u64,
    layout: BlockLayout,
    is_recorded: IsRecorded,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// By the number of the disk.
    parts: BTreeMap<usize, Part>,
    /// Blocks so far.
    blocks: u32,
    /// The disk whose turn it is.
    next_disk: usize,
    /// Not everything was received or written.
    is_broken: bool,
}

/// The blocks on a disk.
#[derive(Debug)]
struct Part {
    file: File,
    /// One past its last block.
    end: u64,
    /// Up to here it is durable.
    synced: u64,
}

impl ArrivingScan {
    /// Opens those of the selected disks that respond, if none of all disks has a scan of this label.
    pub(super) fn open(
        all: &[PathBuf],
        reserve_bytes: u64,
        options: &VsiBlocks,
        is_recorded: impl Fn(&str) -> bool + Send + Sync + 'static,
    ) -> Result<Self, Refusal> {
        let failed = |why: String| Refusal::Failed(VsiCode::Failed, why);
        let VsiPackets { bytes, format, mark } = options.packets;
        let packets = BlockPackets { bytes, format, mark };
        let layout = BlockLayout::new(options.block_bytes, packets).ok_or_else(|| {
            let (block, frame) = (options.block_bytes, bytes);
            let why = format!("blocks of {block} bytes cannot be written with frames of {frame} bytes");
            Refusal::Failed(VsiCode::Parameter, why)
        })?;
        let mut disks = responding(all).map_err(failed)?;
        let label = options.label.clone();
        if is_recorded(&label) || is_there(&disks, &label).map_err(failed)? {
            return Err(Refusal::LabelTaken);
        }
        let is_selected = |disk: &Path| options.disks.iter().any(|path| Path::new(path) == disk);
        disks.retain(|(disk, _)| options.disks.is_empty() || is_selected(disk));
        if disks.is_empty() {
            return Err(failed("no selected disk responds".into()));
        }
        let is_recorded: IsRecorded = Box::new(is_recorded);
        Ok(Self { label, disks, reserve_bytes, layout, is_recorded, state: Mutex::default() })
    }

    fn part_path(&self) -> PathBuf {
        path_of(&self.label).1.with_extension("part")
    }

    /// The disk for the next block: the next one with room for it.
    fn next_disk(&self, state: &mut State) -> Result<usize, String> {
        let count = self.disks.len();
        let needed = self.reserve_bytes + BlockLayout::BLOCK_HEADER_BYTES + self.layout.payload_bytes();
        let has_room = |disk: &usize| free_bytes(&self.disks[*disk].0).is_ok_and(|free| free >= needed);
        let mut in_turns = (0..count).map(|at| (state.next_disk + at) % count);
        let disk = in_turns.find(has_room).ok_or("no disk has room for it")?;
        state.next_disk = (disk + 1) % count;
        Ok(disk)
    }

    fn fault(&self, disk: usize, error: &io::Error) -> String {
        format!("{}: {error}", self.disks[disk].0.display())
    }

    fn open_part(&self, disk: usize) -> io::Result<Part> {
        let tree = &self.disks[disk].1;
        tree.make_dirs(path_of(&self.label).0)?;
        let (file, _) = tree.write(&self.part_path(), false)?;
        // What an earlier attempt left, which a crash ended.
        file.set_len(0)?;
        let end = BlockLayout::FILE_HEADER_BYTES;
        Ok(Part { file, end, synced: end })
    }

    /// Writes blocks until the connection ends, or what arrives is closed.
    fn take(&self, peer: &mut Peer, state: &mut State, arrival: &Arrival) -> Result<(), String> {
        let mut piece = vec![0; PIECE_BYTES];
        loop {
            // A scan that ends with a block needs no room for another.
            if state.blocks > 0 && peer.is_at_end().map_err(|error| error.to_string())? {
                return Ok(());
            }
            let disk = self.next_disk(state)?;
            if let std::collections::btree_map::Entry::Vacant(place) = state.parts.entry(disk) {
                place.insert(self.open_part(disk).map_err(|error| self.fault(disk, &error))?);
            }
            let Some(part) = state.parts.get_mut(&disk) else { return Err("no file is open".into()) };
            if state.blocks == MAX_BLOCKS {
                return Err("it has too many blocks".into());
            }
            let mut block = Block { layout: &self.layout, number: state.blocks, part, payload: 0 };
            let is_whole = block.take(peer, &mut piece, arrival).map_err(|fault| match fault {
                Fault::Peer(why) => why,
                Fault::Disk(error) => self.fault(disk, &error),
            })?;
            state.blocks += u32::from(block.payload > 0);
            if !is_whole {
                return Ok(());
            }
        }
    }

    /// Gives what has arrived its name on all disks; nothing of it stays if that fails.
    fn settle(&self, state: &State) -> Result<(), String> {
        if (self.is_recorded)(&self.label) || is_there(&self.disks, &self.label)? {
            return Err("there is a recording of this name by now".into());
        }
        for (&disk, part) in &state.parts {
            self.make_durable(disk, part).map_err(|error| self.fault(disk, &error))?;
        }
        let (directory, path) = path_of(&self.label);
        for &disk in state.parts.keys() {
            let tree = &self.disks[disk].1;
            let renamed = tree.rename(&self.part_path(), &path, false).and_then(|()| {
                let above = tree.directory(directory)?;
                above.sync_all()
            });
            if let Err(error) = renamed {
                state.parts.keys().take_while(|of| **of <= disk).for_each(|of| {
                    let is_mine = *of < disk || error.kind() != io::ErrorKind::AlreadyExists;
                    let _ = is_mine.then(|| self.disks[*of].1.remove(&path));
                });
                return Err(self.fault(disk, &error));
            }
        }
        Ok(())
    }

    fn make_durable(&self, disk: usize, part: &Part) -> io::Result<()> {
        part.file.set_len(part.end)?;
        part.file.write_all_at(&self.layout.file_header(), 0)?;
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let time = (i64::try_from(now.as_secs()).unwrap_or(0), now.subsec_nanos());
        self.disks[disk].1.settle(&part.file, 0o644, time)?;
        part.file.sync_all()
    }
}

/// Whether a disk has something by which a reader would find a scan of this label.
fn is_there(disks: &[(PathBuf, Tree)], label: &str) -> Result<bool, String> {
    for (disk, tree) in disks {
        for name in names_of(label) {
            match tree.status(&name) {
                Ok(None) => {}
                Ok(Some(_)) => return Ok(true),
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => return Err(format!("{}: {error}", disk.display())),
            }
        }
    }
    Ok(false)
}

/// A block that arrives.
struct Block<'a> {
    layout: &'a BlockLayout,
    number: u32,
    part: &'a mut Part,
    /// Bytes of its packets so far.
    payload: u64,
}

/// Whose fault it is that a block was not received.
enum Fault {
    Peer(String),
    Disk(io::Error),
}

impl Block<'_> {
    /// Writes it as it arrives; `false`: nothing follows.
    fn take(&mut self, peer: &mut Peer, piece: &mut [u8], arrival: &Arrival) -> Result<bool, Fault> {
        let start = self.part.end + BlockLayout::BLOCK_HEADER_BYTES;
        let (whole, packet) = (self.layout.payload_bytes(), u64::from(self.layout.packet_bytes()));
        let mut has_ended = false;
        while self.payload < whole && !has_ended {
            let most = usize::try_from(whole - self.payload).unwrap_or(usize::MAX).min(piece.len());
            let read = peer.fill_until_closed(&mut piece[..most]).map_err(|e| Fault::Peer(e.to_string()))?;
            has_ended = read < most;
            if read == 0 {
                break;
            }
            if self.payload == 0 && !self.layout.is_packet(&piece[..read]) {
                let why = format!("what came is no frame of {packet} bytes of the mode that was set");
                return Err(Fault::Peer(why));
            }
            let mut turn = DiskTurn::ask(&self.part.file, read as u64).map_err(Fault::Disk)?;
            turn.wait();
            self.part.file.write_all_at(&piece[..read], start + self.payload).map_err(Fault::Disk)?;
            drop(turn);
            self.payload += read as u64;
            arrival.wrote(read as u64);
        }
        let rest = self.payload % packet;
        // Who closes it while frames come ends it after the last whole one.
        if rest > 0 && !arrival.is_stopped() {
            return Err(Fault::Peer("it ended within a frame".into()));
        }
        self.payload -= rest;
        self.finish(start).map_err(Fault::Disk)?;
        Ok(!has_ended)
    }

    fn finish(&mut self, start: u64) -> io::Result<()> {
        if self.payload == 0 {
            return Ok(());
        }
        // A block is smaller than 1 GiB.
        let payload = u32::try_from(self.payload).map_err(io::Error::other)?;
        let header = BlockLayout::block_header(self.number, payload);
        self.part.file.write_all_at(&header, self.part.end)?;
        self.part.end = start + self.payload;
        if self.part.end - self.part.synced >= SYNC_BYTES {
            self.part.file.sync_data()?;
            self.part.synced = self.part.end;
        }
        Ok(())
    }
}

impl Receiver for ArrivingScan {
    fn receive(&self, stream: TcpStream, from: IpAddr, arrival: &Arc<Arrival>) -> Result<(), String> {
        let failed = |why: String| format!("{} from {from}: {why}", self.label);
        let mut peer = Peer::new(stream, arrival).map_err(|error| failed(error.to_string()))?;
        let mut state = lock(&self.state);
        state.is_broken = true;
        self.take(&mut peer, &mut state, arrival).map_err(failed)?;
        state.is_broken = false;
        drop(state);
        peer.close();
        Ok(())
    }

    fn is_for_one(&self) -> bool {
        true
    }

    fn finish(&self) -> Result<(), String> {
        let mut state = lock(&self.state);
        let settled = match state.is_broken || state.blocks == 0 {
            // The fault has been reported, if there was one.
            true => Ok(()),
            false => {
                state.parts.retain(|_, part| part.end > BlockLayout::FILE_HEADER_BYTES);
                self.settle(&state)
            }
        };
        for (_, tree) in &self.disks {
            // Most have none by now.
            let _ = tree.remove(&self.part_path());
        }
        settled.map_err(|why| format!("{}: {why}", self.label))
    }
}
