//! What the thread that reads ahead needs, whatever it reads: buffers, and somebody to give them to.

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::Sender;
use std::time::Duration;

use skyhaul_io::memory::{Block, Pool};

use super::account::Account;
use super::cutter::Cutter;
use super::piece::{Data, Held, Piece, ReadOptions, Times};
use super::prove::read_file;
use super::record::Datastream;
use super::seen::Seen;

/// Time between looks for a free buffer.
const PAUSE: Duration = Duration::from_micros(300);

/// Pieces in no buffer that are ahead of the consumer.
const MOST_IN_MEMORY: usize = 2;

/// What the thread needs, whatever it reads.
#[derive(Debug)]
pub(super) struct Feeder {
    pub(super) buffers: Pool,
    /// Longer chunks are read twice.
    pub(super) most_held: u64,
    pub(super) sender: Sender<io::Result<Piece>>,
    pub(super) options: ReadOptions,
    pub(super) account: Account,
    pub(super) from_memory: Arc<AtomicU64>,
    pub(super) gone: Arc<AtomicBool>,
    /// Held by every piece that is in no buffer.
    pub(super) in_memory: Held,
}

/// The consumer was dropped, or received an error: there is nothing left to do.
pub(super) struct Gone;

pub(super) type Given = Result<(), Gone>;

/// A file that was read.
pub(super) struct Loaded {
    pub(super) seen: Seen,
    /// Its bytes, where they are held.
    pub(super) blocks: Vec<(Block, usize)>,
    pub(super) held: bool,
}

impl Feeder {
    pub(super) fn is_wanted(&self) -> bool {
        !self.gone.load(Ordering::Acquire)
    }

    pub(super) fn send(&self, piece: Piece) -> Given {
        self.sender.send(Ok(piece)).map_err(|_| Gone)
    }

    /// Bytes that are in no buffer: waits until the consumer has taken others.
    pub(super) fn in_memory(&self, number: u32, filled: bool, times: Times, bytes: Vec<u8>) -> Piece {
        while self.is_wanted() && self.in_memory.pieces() >= MOST_IN_MEMORY {
            std::thread::sleep(PAUSE);
        }
        let data = Data::Memory { bytes, held: self.in_memory.clone() };
        Piece { number, filled, last: true, times, data }
    }

    /// A buffer: waits until the consumer gives one back.
    pub(super) fn buffer(&self) -> Option<Block> {
        while self.is_wanted() {
            if let Some(block) = self.buffers.take() {
                return Some(block);
            }
            std::thread::sleep(PAUSE);
        }
        None
    }

    /// Read a file, and hold it if there is room.
    pub(super) fn load(&self, place: (&Path, u64), most: u64, about: Option<&Datastream>) -> Loaded {
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
