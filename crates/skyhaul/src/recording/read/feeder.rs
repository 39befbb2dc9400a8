//! What the thread that reads ahead needs, whatever it reads: buffers, and somebody to give them to.

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::Sender;
use std::time::Duration;

use skyhaul_io::memory::{Block, Pool};

use crate::recording::index::record::Datastream;
use crate::recording::read::account::Account;
use crate::recording::read::piece::{Data, Held, Piece, ReadOptions, Times};
use crate::recording::verify::cutter::Cutter;
use crate::recording::verify::prove::read_file;
use crate::recording::verify::seen::Seen;

/// Time between looks for a free buffer.
const PAUSE: Duration = Duration::from_micros(300);

/// Pieces in no buffer that are ahead of the consumer.
const MOST_IN_MEMORY: usize = 2;

/// What the thread needs, whatever it reads.
#[derive(Debug)]
pub(in crate::recording) struct Feeder {
    pub(in crate::recording) buffers: Pool,
    /// Longer chunks are read twice.
    pub(in crate::recording) most_held: u64,
    pub(in crate::recording) sender: Sender<io::Result<Piece>>,
    pub(in crate::recording) options: ReadOptions,
    pub(in crate::recording) account: Account,
    pub(in crate::recording) from_memory: Arc<AtomicU64>,
    pub(in crate::recording) gone: Arc<AtomicBool>,
    /// Held by every piece that is in no buffer.
    pub(in crate::recording) in_memory: Held,
}

/// The consumer was dropped, or received an error: there is nothing left to do.
pub(in crate::recording) struct Gone;

pub(in crate::recording) type Given = Result<(), Gone>;

/// A file that was read.
pub(in crate::recording) struct Loaded {
    pub(in crate::recording) seen: Seen,
    /// Its bytes, where they are held.
    pub(in crate::recording) blocks: Vec<(Block, usize)>,
    pub(in crate::recording) held: bool,
}

impl Feeder {
    pub(in crate::recording) fn is_wanted(&self) -> bool {
        !self.gone.load(Ordering::Acquire)
    }

    pub(in crate::recording) fn send(&self, piece: Piece) -> Given {
        self.sender.send(Ok(piece)).map_err(|_| Gone)
    }

    /// Bytes that are in no buffer: waits until the consumer has taken others.
    pub(in crate::recording) fn in_memory(
        &self,
        number: u32,
        filled: bool,
        times: Times,
        bytes: Vec<u8>,
    ) -> Piece {
        while self.is_wanted() && self.in_memory.pieces() >= MOST_IN_MEMORY {
            std::thread::sleep(PAUSE);
        }
        let data = Data::Memory { bytes, held: self.in_memory.clone() };
        Piece { number, filled, last: true, times, data }
    }

    /// A buffer: waits until the consumer gives one back.
    pub(in crate::recording) fn buffer(&self) -> Option<Block> {
        while self.is_wanted() {
            if let Some(block) = self.buffers.take() {
                return Some(block);
            }
            std::thread::sleep(PAUSE);
        }
        None
    }

    /// Read a file, and hold it if there is room.
    pub(in crate::recording) fn load(
        &self,
        place: (&Path, u64),
        most: u64,
        about: Option<&Datastream>,
    ) -> Loaded {
        let held = most <= self.most_held;
        let mut blocks = Vec::new();
        let seen = read_file(
            place,
            most,
            Cutter::of(about, false),
            || self.buffer(),
            |block, length| {
                if held {
                    blocks.push((block, length));
                }
            },
        );
        Loaded { seen, blocks, held }
    }
}
