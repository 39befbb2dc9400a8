//! Chunks of scans that arrive for the disks, as `net2vbs` of jive5ab takes them ([`ChunkHead`]).
//!
//! A chunk is written to the disk on which the fewest are being written, among those the one that was given the fewest bytes, as
//! `SCAN.00000007.part`, and renamed when all of it is durable; then its connection is closed. A chunk that is there already is refused, never replaced, and so is
//! one of a scan that is being recorded here. A refused connection is reset.

use super::peer::Peer;
use super::shared::{Arrival, Receiver, responding};
use skyhaul::io::disk::{DiskTurn, Tree, free_bytes};
use skyhaul::io::lock::lock;
use skyhaul_core::vsi::{
    ChunkHead, ChunkName, MAX_CHUNK_HEAD_BYTES, NotAChunkHead, chunk_list, parse_chunk_list,
};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::io;
use std::net::{IpAddr, TcpStream};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::{SystemTime, UNIX_EPOCH};

/// Bytes that are written at a time.
const PIECE_BYTES: usize = 4 << 20;

/// Whether a scan is being recorded here.
type IsRecorded = Box<dyn Fn(&str) -> bool + Send + Sync>;

/// Where chunks arrive.
pub(super) struct Chunks {
    disks: Vec<(PathBuf, Tree)>,
    reserve_bytes: u64,
    is_recorded: IsRecorded,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// Chunks that are being written.
    writing: BTreeSet<ChunkName>,
    /// By the number of the disk.
    load: BTreeMap<usize, Load>,
    /// Disks that failed.
    failed: BTreeSet<usize>,
}

impl fmt::Debug for Chunks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Chunks")
            .field("disks", &self.disks)
            .field("state", &self.state)
            .finish_non_exhaustive()
    }
}

/// What a disk was given.
#[derive(Clone, Copy, Debug, Default)]
struct Load {
    /// Chunks that are being written.
    writing: usize,
    /// Their bytes: at most these are not there yet.
    pending: u64,
    /// Bytes of all chunks so far.
    given: u64,
}

/// A chunk that is being written: its name and its place are free again when this is dropped.
struct Place<'a> {
    of: &'a Chunks,
    name: ChunkName,
    disk: usize,
    bytes: u64,
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        let mut state = lock(&self.of.state);
        state.writing.remove(&self.name);
        if let Some(load) = state.load.get_mut(&self.disk) {
            load.writing = load.writing.saturating_sub(1);
            load.pending = load.pending.saturating_sub(self.bytes);
        }
    }
}

impl Chunks {
    /// Opens the disks that respond.
    pub(super) fn open(
        disks: &[PathBuf],
        reserve_bytes: u64,
        is_recorded: impl Fn(&str) -> bool + Send + Sync + 'static,
    ) -> Result<Self, String> {
        let disks = responding(disks)?;
        Ok(Self { disks, reserve_bytes, is_recorded: Box::new(is_recorded), state: Mutex::default() })
    }

    /// The chunks of these directories that are on the disks.
    fn present(&self, directories: &BTreeSet<&str>) -> io::Result<BTreeSet<ChunkName>> {
        let mut present = BTreeSet::new();
        for (_, tree) in &self.disks {
            for directory in directories {
                let names = match tree.list(Path::new(directory)) {
                    Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                    names => names?,
                };
                let names = names.iter().filter_map(|name| name.to_str());
                present.extend(names.filter_map(|name| ChunkName::parse(&format!("{directory}/{name}"))));
            }
        }
        Ok(present)
    }

    /// Answers which of the offered chunks are there.
    fn answer(&self, peer: &mut Peer, scan: &str, list_bytes: u64) -> Result<(), String> {
        let fault = |error: io::Error| error.to_string();
        let mut list = vec![0; list_bytes as usize];
        let read = peer.fill(&mut list).map_err(fault)?;
        if read < list.len() {
            return Err("the list of chunks ended too early".into());
        }
        let offered = parse_chunk_list(&list);
        if offered.iter().any(|name| !name.belongs_to(scan)) {
            return Err(format!("it offered chunks that are not of {scan}"));
        }
        let present = self.present(&offered.iter().map(ChunkName::directory).collect()).map_err(fault)?;
        let (have, need): (Vec<_>, Vec<_>) = offered.iter().partition(|name| present.contains(name));
        let is_of_present = have.len() < need.len();
        let list = chunk_list(if is_of_present { have } else { need });
        let head = ChunkHead::Answer { is_of_present, list_bytes: list.len() as u64 };
        peer.write(&[head.to_bytes(), list].concat()).map_err(fault)?;
        // It closes when it has read all; one that is closed here first may lose the end.
        peer.read(&mut [0]).map(|_| ()).or(Ok(()))
    }

    /// Finds a disk for a chunk.
    fn place(&self, name: ChunkName, bytes: u64) -> Result<Place<'_>, String> {
        let scan = name.directory().split("_ds").next().unwrap_or_default();
        if (self.is_recorded)(name.directory()) || (self.is_recorded)(scan) {
            return Err("its scan is being recorded here".into());
        }
        let path = PathBuf::from(name.to_string());
        for (disk, tree) in &self.disks {
            let there = tree.status(&path).map_err(|error| format!("{}: {error}", disk.display()))?;
            if there.is_some() {
                return Err("it is here already".into());
            }
        }
        let mut state = lock(&self.state);
        if state.writing.contains(&name) {
            return Err("another connection brings it".into());
        }
        let room = |disk: usize| {
            let free = free_bytes(&self.disks[disk].0).ok()?.checked_sub(self.reserve_bytes)?;
            let load = state.load.get(&disk).copied().unwrap_or_default();
            let free = free.checked_sub(load.pending)?;
            let is_usable = free >= bytes && !state.failed.contains(&disk);
            is_usable.then_some((load.writing, load.given, u64::MAX - free, disk))
        };
        let best = (0..self.disks.len()).filter_map(room).min();
        let Some((.., disk)) = best else { return Err("no disk has room for it".into()) };
        let load = state.load.entry(disk).or_default();
        (load.writing, load.pending, load.given) =
            (load.writing + 1, load.pending + bytes, load.given + bytes);
        state.writing.insert(name.clone());
        drop(state);
        Ok(Place { of: self, name, disk, bytes })
    }

    /// Writes a chunk as it arrives.
    fn write(&self, peer: &mut Peer, place: &Place<'_>, arrival: &Arrival) -> Result<(), String> {
        let (disk, tree) = &self.disks[place.disk];
        let path = PathBuf::from(place.name.to_string());
        let part = PathBuf::from(format!("{}.part", place.name));
        let directory = PathBuf::from(place.name.directory());
        let written = (|| {
            tree.make_dirs(&directory).map_err(Fault::Disk)?;
            let (file, _) = tree.write(&part, false).map_err(Fault::Disk)?;
            file.set_len(0).map_err(Fault::Disk)?;
            let (mut at, mut piece) = (0, vec![0; PIECE_BYTES]);
            while at < place.bytes {
                let most = usize::try_from(place.bytes - at).unwrap_or(PIECE_BYTES).min(PIECE_BYTES);
                let read = peer.fill(&mut piece[..most]).map_err(Fault::Peer)?;
                if read == 0 {
                    return Err(Fault::Peer(io::Error::other("it ended too early")));
                }
                let mut turn = DiskTurn::ask(&file, read as u64).map_err(Fault::Disk)?;
                turn.wait();
                file.write_all_at(&piece[..read], at).map_err(Fault::Disk)?;
                drop(turn);
                at += read as u64;
                arrival.wrote(read as u64);
            }
            let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
            let time = (i64::try_from(now.as_secs()).unwrap_or(0), now.subsec_nanos());
            tree.settle(&file, 0o644, time).map_err(Fault::Disk)?;
            file.sync_all().map_err(Fault::Disk)?;
            tree.rename(&part, &path, false).map_err(Fault::Disk)?;
            tree.directory(&directory).and_then(|of| of.sync_all()).map_err(Fault::Disk)
        })();
        let Err(fault) = written else { return Ok(()) };
        // The next attempt begins anew.
        let _ = tree.remove(&part);
        match fault {
            Fault::Peer(error) => Err(error.to_string()),
            Fault::Disk(error) => {
                lock(&self.state).failed.insert(place.disk);
                Err(format!("{}: {error}", disk.display()))
            }
        }
    }
}

/// Whose fault it is that a chunk was not received.
enum Fault {
    Peer(io::Error),
    Disk(io::Error),
}

impl Receiver for Chunks {
    fn receive(&self, stream: TcpStream, from: IpAddr, arrival: &Arc<Arrival>) -> Result<(), String> {
        let mut peer = Peer::new(stream, arrival).map_err(|error| format!("{from}: {error}"))?;
        let head = peer
            .head(MAX_CHUNK_HEAD_BYTES, ChunkHead::is_whole)
            .map_err(|error| format!("{from}: {error}"))?;
        if head.is_empty() {
            return Ok(());
        }
        match ChunkHead::parse(&head) {
            Ok(ChunkHead::Offer { scan, list_bytes }) => {
                let answered = self.answer(&mut peer, &scan, list_bytes);
                answered.map_err(|why| format!("chunks of {scan} from {from}: {why}"))?;
            }
            Ok(ChunkHead::Chunk { name, bytes }) => {
                let refused = |why| format!("{name} from {from}: {why}");
                let place = self.place(name.clone(), bytes).map_err(refused)?;
                self.write(&mut peer, &place, arrival).map_err(refused)?;
            }
            Ok(ChunkHead::Answer { .. }) => return Err(format!("{from} sent an answer, no chunk")),
            Err(NotAChunkHead(why)) => return Err(format!("{from} sent what is no chunk: {why}")),
        }
        peer.close();
        Ok(())
    }

    fn is_for_one(&self) -> bool {
        false
    }

    fn finish(&self) -> Result<(), String> {
        Ok(())
    }
}
