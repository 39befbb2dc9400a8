//! Scans that arrive as files, and become recordings again.
//!
//! ```text
//!   bytes ─▶ which frames? ─▶ each frame checked, placed by its time ─▶ chunks ─▶ Writer ─▶ DISK/.skyhaul-intake/3f…/SCAN
//!                                                                  all of it on the disk? ─▶ rename to DISK/SCAN
//! ```
//!
//! A file is taken in as it is: its recording has the same bytes in the same order, whatever is missing in it. Frames that are marked as
//! invalid count as frames that never arrived, and so do those that the times of others show to be missing. A file that is not made of
//! whole, valid frames of one length is refused.
//!
//! Nothing of a scan has a name that readers know until all of it is durable and read back from its index: length and CRC-32C are those of
//! what arrived. It lies on one disk, the one with the most free space, so that one rename makes it visible. What a killed program has left
//! is removed when the next one [opens the site](IntakeSite::open).
//!
//! Limits: a scan must fit on one disk; [`HEAD_BYTES`] for a frame; files of heaps and events are refused; memory for
//! [`BLOCKS`] chunks.

mod cutting;
mod error;

use crate::auth::{hex, random};
use crate::frames::{Beginning, learn_beginning};
use crate::recording::asked::{self, DISK_ANSWER_TIMEOUT};
use crate::recording::contents::Label;
use crate::recording::layout::ExtentContent;
use crate::recording::open::Recording;
use crate::recording::report::DiskState;
use crate::recording::write::Writer;
use crate::recording::write::options::{Existing, WriterOptions};
use crate::time::unix_now;
use cutting::Cutting;
pub use error::IntakeError;
use skyhaul_io::disk::{Tree, free_bytes};
use skyhaul_io::memory::{Pool, PoolOptions};
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

/// The directory of each disk in which scans arrive. It is no scan: labels have no dot.
pub const STAGE: &str = ".skyhaul-intake";
/// Bytes from which the format is learned.
const HEAD_BYTES: usize = 4 << 20;
/// Bytes of a chunk.
const CHUNK_BYTES: usize = 32 << 20;
/// Chunks in memory: one is filled while others are written.
const BLOCKS: u64 = 3;
/// Time for the disk to make the last chunks durable.
const FINISH_TIMEOUT: Duration = Duration::from_secs(120);

/// A disk on which scans arrive, locked for this program.
#[derive(Debug)]
struct SiteDisk {
    path: PathBuf,
    tree: Arc<Tree>,
    _lock: Arc<File>,
}

/// Disks on which scans arrive.
#[derive(Debug)]
pub struct IntakeSite {
    /// All disks of recordings: none may have a scan of the same name.
    all: Vec<PathBuf>,
    disks: Vec<SiteDisk>,
}

impl IntakeSite {
    /// Prepares these disks, and removes what a killed program has left there. Disks that do not respond, or cannot be written to, get no
    /// scans.
    ///
    /// # Errors
    /// None can be used; or another program takes in scans on one of them (`WouldBlock`).
    pub fn open(disks: &[PathBuf]) -> io::Result<Self> {
        let opened = asked::ask(disks, DISK_ANSWER_TIMEOUT, |_, disk, alive| open_disk(disk, alive));
        let (mut usable, mut fault) = (Vec::new(), None);
        for (path, answer) in disks.iter().zip(opened) {
            match answer {
                Some(Ok((tree, lock))) => {
                    usable.push(SiteDisk { path: path.clone(), tree: Arc::new(tree), _lock: lock });
                }
                Some(Err(error)) if error.kind() == io::ErrorKind::WouldBlock => return Err(error),
                Some(Err(error)) => fault = fault.or(Some(error)),
                None => fault = fault.or(Some(asked::silent())),
            }
        }
        match fault {
            Some(error) if usable.is_empty() => Err(error),
            _ => Ok(Self { all: disks.to_vec(), disks: usable }),
        }
    }

    /// Begins a scan of this name, of `bytes` bytes if that is known.
    ///
    /// # Errors
    /// The name cannot be one or is taken, there is no room, or a disk does not respond.
    pub fn begin(&self, scan: &str, bytes: Option<u64>) -> Result<Intake, IntakeError> {
        self.begin_in(scan, bytes, CHUNK_BYTES)
    }

    /// The same, with chunks of another size.
    pub(in crate::recording) fn begin_in(
        &self,
        scan: &str,
        bytes: Option<u64>,
        chunk_bytes: usize,
    ) -> Result<Intake, IntakeError> {
        let label = Label::new(scan)?;
        self.check_name(scan)?;
        let (disk, free) = self.roomiest()?;
        let reserve = WriterOptions::new([&disk.path], scan).reserve_bytes;
        let free = free.saturating_sub(reserve);
        if let Some(bytes) = bytes.filter(|bytes| *bytes > free) {
            return Err(IntakeError::Full { bytes, free });
        }
        let path = Path::new(STAGE).join(hex(&random::<16>()?));
        disk.tree.make_dirs(&path)?;
        let stage = Stage { disk: disk.path.clone(), tree: Arc::clone(&disk.tree), path };
        let all = self.all.clone();
        Ok(Intake {
            content: Content::Head(Vec::new()),
            label,
            all,
            stage,
            size: bytes,
            came: 0,
            crc32c: 0,
            chunk_bytes,
        })
    }

    /// Whether a scan may have this name.
    ///
    /// # Errors
    /// It cannot be one or is taken, or a disk does not respond.
    pub fn check_name(&self, scan: &str) -> Result<(), IntakeError> {
        check_name(&self.all, &Label::new(scan)?)
    }

    /// The disk with the most free space, and how much that is.
    fn roomiest(&self) -> Result<(&SiteDisk, u64), IntakeError> {
        let paths: Vec<PathBuf> = self.disks.iter().map(|disk| disk.path.clone()).collect();
        let free = asked::ask(&paths, DISK_ANSWER_TIMEOUT, |_, disk, _| free_bytes(disk));
        let known = self.disks.iter().zip(free).filter_map(|(disk, free)| Some((disk, free?.ok()?)));
        known.max_by_key(|(_, free)| *free).ok_or_else(|| IntakeError::Disk(asked::silent()))
    }
}

fn open_disk(disk: &Path, alive: &dyn Fn()) -> io::Result<(Tree, Arc<File>)> {
    let tree = Tree::open(disk)?.shared();
    let stage = Path::new(STAGE);
    tree.make_dirs(stage)?;
    let lock = tree.hold(stage)?;
    for name in tree.list(stage)? {
        alive();
        tree.remove_all(&stage.join(name))?;
    }
    Ok((tree, lock))
}

/// Whether no disk has a scan of this name, or something that belongs to it by name.
fn check_name(disks: &[PathBuf], label: &Label) -> Result<(), IntakeError> {
    let of = label.clone();
    let found = asked::ask(disks, DISK_ANSWER_TIMEOUT, move |_, disk, _| of.directories(disk));
    for (disk, names) in disks.iter().zip(found) {
        match names {
            None => return Err(IntakeError::Silent(disk.clone())),
            Some(Ok(names)) if !names.is_empty() => return Err(IntakeError::Exists(label.to_string())),
            // On a disk that cannot be read nobody finds a scan.
            Some(_) => {}
        }
    }
    Ok(())
}

/// Where a scan arrives. It is removed when this is dropped.
#[derive(Debug)]
struct Stage {
    disk: PathBuf,
    tree: Arc<Tree>,
    path: PathBuf,
}

impl Drop for Stage {
    fn drop(&mut self) {
        // What stays is removed when the site is opened again.
        let _ = self.tree.remove_all(&self.path);
    }
}

/// What there is of the content.
#[derive(Debug)]
enum Content {
    /// Too little to know the format.
    Head(Vec<u8>),
    Frames(Box<Cutting>),
}

/// A scan that arrives. Dropped, it leaves nothing.
#[derive(Debug)]
pub struct Intake {
    // Before the stage, so that the writer has ended when that is removed.
    content: Content,
    label: Label,
    all: Vec<PathBuf>,
    stage: Stage,
    size: Option<u64>,
    came: u64,
    crc32c: u32,
    chunk_bytes: usize,
}

impl Intake {
    /// Bytes that follow those before. Waits while the disk has more to write than memory holds.
    ///
    /// # Errors
    /// They are not valid frames, or the disk fails or is full. Nothing more can be written then.
    pub fn write(&mut self, bytes: &[u8]) -> Result<(), IntakeError> {
        self.came += bytes.len() as u64;
        self.crc32c = crc32c::crc32c_append(self.crc32c, bytes);
        match &mut self.content {
            Content::Frames(cutting) => cutting.feed(bytes),
            Content::Head(head) => {
                head.extend_from_slice(bytes);
                if head.len() < HEAD_BYTES { Ok(()) } else { self.begin_frames().map(drop) }
            }
        }
    }

    /// Bytes that have arrived.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.came
    }

    /// Looks at the first bytes, and begins to record.
    fn begin_frames(&mut self) -> Result<&mut Cutting, IntakeError> {
        if let Content::Head(head) = &mut self.content {
            let head = std::mem::take(head);
            let refused = |text: String| Err(IntakeError::NotFrames(text));
            let info = match learn_beginning(&head, unix_now()) {
                Some(Beginning::Frames(info)) => info,
                Some(Beginning::Packets(family)) => {
                    return refused(format!(
                        "{} is taken in as a file only, not as a recording",
                        family.title()
                    ));
                }
                None if head.is_empty() => return refused("it is empty".to_owned()),
                None => return refused("it does not begin with frames of a known format".to_owned()),
            };
            let unit = u64::from(info.unit_bytes);
            if let Some(size) = self.size.filter(|size| !size.is_multiple_of(unit)) {
                return refused(format!("it ends within a frame: {size} bytes, in frames of {unit} bytes"));
            }
            let most = self.size.map_or(self.chunk_bytes, |size| self.chunk_bytes.min(size as usize));
            let block_bytes = most.max(unit as usize);
            let total_bytes = BLOCKS * (block_bytes as u64).next_multiple_of(4096);
            let pool = Pool::new(&PoolOptions { total_bytes, block_bytes, shared: false })?;
            let options = WriterOptions {
                existing: Existing::Refuse,
                pool: Some(pool.clone()),
                staged_in: Some(self.stage.path.clone()),
                metadata: serde_json::json!({ "origin": "upload" }),
                ..WriterOptions::new([&self.stage.disk], self.label.as_str())
            };
            let writer = Writer::create(&options)?;
            let directory = self.stage.tree.directory(&self.stage.path)?;
            let mut cutting = Cutting::new(writer, pool, &info, (directory, &head))?;
            cutting.feed(&head)?;
            self.content = Content::Frames(Box::new(cutting));
        }
        match &mut self.content {
            Content::Frames(cutting) => Ok(cutting),
            Content::Head(_) => Err(IntakeError::NotFrames("its format is not known".to_owned())),
        }
    }

    /// That was all: makes it durable, and reads from its index what is on the disk. It is still not visible.
    ///
    /// # Errors
    /// It is not made of whole, valid frames, or the disk fails, is full, or has something else than what arrived.
    pub fn finish(mut self) -> Result<ArrivedScan, IntakeError> {
        self.begin_frames()?;
        let (came, crc32c) = (self.came, self.crc32c);
        let Intake { content, label, all, stage, .. } = self;
        let Content::Frames(cutting) = content else {
            return Err(IntakeError::NotFrames("its format is not known".to_owned()));
        };
        let report = cutting.finish()?.finish(FINISH_TIMEOUT);
        let wrong = report.imbalance();
        if !report.is_whole() || !wrong.is_empty() {
            let status = report.disks.into_iter().next().unwrap_or_default();
            let is_full = status.state == DiskState::Full;
            let kind = if is_full { io::ErrorKind::StorageFull } else { io::ErrorKind::Other };
            let why = status.error.or(wrong.into_iter().next());
            let why = why.unwrap_or_else(|| "the disk did not confirm all of it".to_owned());
            return Err(IntakeError::Disk(io::Error::new(kind, why)));
        }
        let stored = stored(&stage.disk.join(&stage.path), &label)?;
        if stored != (came, crc32c) {
            let text = format!(
                "{came} bytes with the CRC-32C {crc32c:08x} arrived, {} with {:08x} are on the disk",
                stored.0, stored.1
            );
            return Err(IntakeError::Disk(io::Error::other(text)));
        }
        Ok(ArrivedScan { label, all, stage, bytes: came, crc32c })
    }
}

/// Length and CRC-32C of a recording of one datastream, by its index.
fn stored(disk: &Path, label: &Label) -> Result<(u64, u32), IntakeError> {
    let wrong = |text: String| IntakeError::Disk(io::Error::other(text));
    let recording = Recording::open([disk], label.as_str()).map_err(|error| wrong(error.to_string()))?;
    recording.layout(0).extents.iter().try_fold((0, 0), |(bytes, crc), extent| match &extent.content {
        ExtentContent::Chunk(entry) => {
            let record = entry.record.as_ref().filter(|record| record.bytes == extent.bytes);
            let record = record.ok_or_else(|| wrong(format!("{} is in no index", entry.path.display())))?;
            Ok((bytes + extent.bytes, crc32c::crc32c_combine(crc, record.crc32c, extent.bytes as usize)))
        }
        ExtentContent::Missing(gap) => Err(wrong(gap.to_string())),
    })
}

/// A scan that is whole on its disk. Dropped, it leaves nothing.
#[derive(Debug)]
pub struct ArrivedScan {
    label: Label,
    all: Vec<PathBuf>,
    stage: Stage,
    bytes: u64,
    crc32c: u32,
}

impl ArrivedScan {
    /// Its length.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// CRC-32C of all of it, by its index.
    #[must_use]
    pub fn crc32c(&self) -> u32 {
        self.crc32c
    }

    /// Gives it its name: from now on it is a recording.
    ///
    /// # Errors
    /// A scan of this name exists by now, or a disk fails.
    pub fn publish(self) -> Result<(), IntakeError> {
        check_name(&self.all, &self.label)?;
        let name = Path::new(self.label.as_str());
        let tree = &self.stage.tree;
        tree.rename(&self.stage.path.join(name), name, false).map_err(|error| match error.kind() {
            // A recorder was faster.
            io::ErrorKind::AlreadyExists | io::ErrorKind::DirectoryNotEmpty => {
                IntakeError::Exists(self.label.to_string())
            }
            _ => IntakeError::Disk(error),
        })?;
        tree.directory(Path::new(""))?.sync_all()?;
        Ok(())
    }
}

#[cfg(test)]
mod tests;
