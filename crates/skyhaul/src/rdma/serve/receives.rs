//! Buffers for Sends of peers, and the files in which their messages are kept.
//!
//! ```text
//!   posted ─▶ endpoint ─▶ Received ─▶ compared with its pattern ─▶ thread that writes ─▶ posted again
//! ```
//!
//! A buffer is posted again when its message is written, so a slow disk leaves the endpoint without buffers and never waits itself: further
//! Sends are refused as `no_buffer`, and counted. In a stream, where a Send without a buffer ends the connection, frames are kept back
//! until there is one, and TCP slows the peer.

use skyhaul_core::hint::Hint;
use skyhaul_core::rdma::MemorySlice;
use skyhaul_io::memory::remote::RemoteMemory;
use skyhaul_io::wake::Wake;
use std::fs::{self, File};
use std::io::{self, Write as _};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, Sender};
use std::thread::JoinHandle;

/// Memory for the buffers of a connection, unless they are few and long.
const BUFFER_BYTES: u64 = 16 << 20;
/// Buffers of a connection.
const BUFFERS: Range<u64> = 16..4097;
/// Connections that have buffers at a time.
pub(super) const RECEIVERS: usize = 16;
/// The longest message that can be asked for.
const MAX_LONGEST: u64 = 16 << 20;

fn wrong(text: String) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, text)
}

/// How Sends are taken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TakeSends {
    /// The longest message, 1 byte to 16 MiB: the length of a buffer.
    pub longest: u64,
    /// Where messages are kept: an empty directory, for a file each, or else a file for all complete ones, one after the other. `None`:
    /// they are counted, and compared if that is asked for.
    pub to: Option<PathBuf>,
}

/// The buffers of a connection.
#[derive(Debug)]
pub(super) struct Buffers {
    /// The number of their memory.
    pub(super) memory: u32,
    /// Who has them; `None` when it has ended.
    pub(super) connection: Option<u32>,
    /// Those that are being written.
    pub(super) away: usize,
}

/// A message to be written.
pub(super) struct Job {
    pub(super) connection: u32,
    pub(super) memory: Arc<RemoteMemory>,
    pub(super) buffer: MemorySlice,
    pub(super) name: String,
    pub(super) length: u64,
    pub(super) is_complete: bool,
}

/// A buffer that comes back from the thread that writes, and how that went.
pub(super) type Written = (u32, MemorySlice, io::Result<()>);

pub(super) struct Keeper {
    pub(super) jobs: Sender<Job>,
    pub(super) written: Receiver<Written>,
    pub(super) thread: JoinHandle<()>,
}

/// What takes Sends.
pub(super) struct Receives {
    pub(super) longest: u64,
    /// Of a connection.
    pub(super) count: u64,
    pub(super) all: Vec<Buffers>,
    pub(super) keeper: Option<Keeper>,
}

impl Receives {
    /// # Errors
    /// The messages cannot be kept there, or are too long.
    pub(super) fn open(options: &TakeSends, wake: &Arc<Wake>) -> io::Result<Receives> {
        let longest = options.longest;
        if !(1..=MAX_LONGEST).contains(&longest) {
            return Err(wrong(format!("--longest {longest}: expected 1 to {MAX_LONGEST} bytes")));
        }
        let count = (BUFFER_BYTES / longest).clamp(BUFFERS.start, BUFFERS.end - 1);
        let keeper = options.to.as_deref().map(|to| Keeper::start(to, wake.clone())).transpose()?;
        Ok(Receives { longest, count, all: Vec::new(), keeper })
    }
}

enum Place {
    Directory(PathBuf),
    File(File),
}

impl Place {
    fn open(to: &Path) -> io::Result<Place> {
        let named =
            |error: io::Error| io::Error::new(error.kind(), format!("--messages {}: {error}", to.display()));
        if !to.is_dir() {
            return File::create(to).map(Place::File).map_err(named);
        }
        if fs::read_dir(to).map_err(named)?.next().is_some() {
            let hint = Hint("choose an empty one, so that messages of two runs are not mixed");
            return Err(wrong(format!("--messages {}: the directory is not empty{hint}", to.display())));
        }
        Ok(Place::Directory(to.to_owned()))
    }

    fn keep(&mut self, job: &Job, bytes: &mut Vec<u8>) -> io::Result<()> {
        bytes.resize(job.length as usize, 0);
        job.memory.copy(job.buffer.start, bytes);
        match self {
            Place::Directory(to) => {
                let name =
                    if job.is_complete { job.name.clone() } else { format!("{}.incomplete", job.name) };
                let path = to.join(name);
                let written = File::create_new(&path).and_then(|mut file| file.write_all(bytes));
                written.map_err(|error| {
                    io::Error::new(error.kind(), format!("write {}: {error}", path.display()))
                })
            }
            Place::File(_) if !job.is_complete => Ok(()),
            Place::File(file) => file.write_all(bytes).map_err(|error| {
                io::Error::new(error.kind(), format!("write message {}: {error}", job.name))
            }),
        }
    }
}

impl Keeper {
    fn start(to: &Path, wake: Arc<Wake>) -> io::Result<Keeper> {
        let mut place = Place::open(to)?;
        let (jobs, to_write) = mpsc::channel::<Job>();
        let (done, written) = mpsc::channel();
        let run = move || {
            let mut bytes = Vec::new();
            for job in to_write {
                let kept = place.keep(&job, &mut bytes);
                // A server that has ended wants no buffer back.
                if done.send((job.connection, job.buffer, kept)).is_err() || wake.set().is_err() {
                    break;
                }
            }
        };
        let thread = std::thread::Builder::new().name("rdma-messages".into()).spawn(run)?;
        Ok(Keeper { jobs, written, thread })
    }
}
