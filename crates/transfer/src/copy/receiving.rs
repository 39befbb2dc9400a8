//! The receiving end's flows: a range is read into a block, checked, and handed to the writer.

use super::budget::Account;
use super::digest::zeros;
use super::files::{Files, Refusal, Target};
use super::head::{RangeHead, TRAILER};
use super::message::Done;
use super::options::Tuning;
use super::tune::blocks;
use super::watch::{LOOK, Watch};
use skyhaul_io::fifo::Fifo;
use skyhaul_io::memory::{Block, Pool};
use std::io::{self, Read};
use std::net::TcpStream;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Instant;

/// Bytes read and checked at a time: they stay in the cache between.
const STEP: usize = 256 << 10;
/// A path that damages more ranges than this is not usable.
pub(super) const MOST_AGAIN: u64 = 1000;

/// For the writer.
pub(super) enum Order {
    /// A range came.
    Range { file: usize, range: u64, block: Block, length: usize, crc: u32 },
    /// A range is a hole.
    Hole { file: usize, range: u64, crc: u32 },
    /// All that was wanted of a file was sent; its digest, if the sender read all of it.
    Sent { file: usize, digest: Option<u32> },
    /// The sender cannot read it.
    Lost { file: usize, error: String },
}

/// For the control connection.
pub(super) enum Told {
    /// A range must come again.
    Again { file: usize, range: u64 },
    /// What an earlier attempt left of a file is known, or why it cannot be.
    Checked { file: usize, error: Option<String> },
    /// What a file here has, for a comparison.
    Found { file: usize, found: Result<u32, String> },
    /// A file ended.
    Done(Done),
}

/// What is to be read before it is believed.
pub(super) enum Check {
    /// The part of a file that is to come.
    Part { file: usize, target: Arc<Target> },
    /// A file that may be the same.
    Whole { file: usize, target: Arc<Target> },
}

/// What the threads of a receiver share.
pub(super) struct Receiving {
    pub(super) watch: Watch,
    pub(super) files: Files,
    pub(super) orders: Fifo<Order>,
    pub(super) told: Fifo<Told>,
    /// Files to be read before they are believed.
    pub(super) checks: Fifo<Check>,
    /// Parts that are kept open.
    pub(super) held: AtomicUsize,
    pub(super) account: Account,
    pub(super) empty: Fifo<Block>,
    pub(super) pool: Pool,
    pub(super) tuning: Tuning,
    /// The writer's engine, and whether files bypass the page cache.
    pub(super) means: Mutex<(String, bool)>,
}

/// How reading some bytes went.
pub(super) enum Filled {
    Whole,
    /// The peer closed the connection before the first.
    Closed,
    /// It is over here.
    Over,
}

impl Receiving {
    pub(super) fn new(tuning: &Tuning, flows: usize, account: Account) -> io::Result<Self> {
        let (pool, empty) = blocks(tuning, flows, &account)?;
        Ok(Self {
            watch: Watch::default(),
            files: Files::default(),
            orders: Fifo::default(),
            told: Fifo::default(),
            checks: Fifo::default(),
            held: AtomicUsize::new(0),
            account,
            empty,
            pool,
            tuning: tuning.clone(),
            means: Mutex::default(),
        })
    }

    /// The thread of a flow.
    pub(super) fn receive(&self, mut stream: TcpStream) -> io::Result<()> {
        stream.set_read_timeout(Some(LOOK))?;
        let mut octets = [0; RangeHead::LEN];
        loop {
            match self.fill(&mut stream, &mut octets, true)? {
                Filled::Whole => {}
                Filled::Closed | Filled::Over => return Ok(()),
            }
            let head = RangeHead::parse(&octets).map_err(Refusal::Head)?;
            let target = self.files.find(head.file)?;
            let file = head.file as usize;
            // Of a file that ended, what is on its way is read and dropped, so that the others go on.
            let range = match target.claim(&head, &self.account) {
                Ok(range) => range,
                Err(_) if target.is_ended() => {
                    self.drop_payload(&mut stream, head.payload())?;
                    continue;
                }
                Err(why) => return Err(why.into()),
            };
            if head.is_hole() {
                self.watch.count(u64::from(head.length), true);
                self.orders.push(Order::Hole { file, range, crc: zeros(u64::from(head.length)) });
                continue;
            }
            let Some(mut block) = self.watch.wait(&self.empty, &self.watch.for_disk) else { return Ok(()) };
            match self.payload(&mut stream, &mut block, head.payload())? {
                None => return Ok(()),
                Some((crc, true)) => {
                    self.watch.count(u64::from(head.length), false);
                    self.orders.push(Order::Range { file, range, block, length: head.payload(), crc });
                }
                Some((_, false)) => {
                    self.empty.push(block);
                    target.release(range);
                    self.told.push(Told::Again { file, range });
                    if self.watch.again.fetch_add(1, Ordering::Relaxed) >= MOST_AGAIN {
                        return Err(io::Error::new(
                            io::ErrorKind::InvalidData,
                            format!(
                                "{MOST_AGAIN} ranges came damaged; hint: check the network cards of both hosts"
                            ),
                        ));
                    }
                }
            }
        }
    }

    fn drop_payload(&self, from: &mut TcpStream, length: usize) -> io::Result<()> {
        let mut left = if length == 0 { 0 } else { length + TRAILER };
        let mut bytes = vec![0; left.min(STEP)];
        while left > 0 {
            let n = left.min(STEP);
            if !matches!(self.fill(from, &mut bytes[..n], false)?, Filled::Whole) {
                return Ok(());
            }
            left -= n;
        }
        Ok(())
    }

    /// Read a payload and its checksum; whether they agree. None: it is over.
    pub(super) fn payload(
        &self,
        from: &mut TcpStream,
        block: &mut Block,
        length: usize,
    ) -> io::Result<Option<(u32, bool)>> {
        let mut crc = 0;
        for at in (0..length).step_by(STEP) {
            let step = block.part_mut(at..length.min(at + STEP));
            if !matches!(self.fill(from, step, false)?, Filled::Whole) {
                return Ok(None);
            }
            crc = crc32c::crc32c_append(crc, step);
        }
        let mut told = [0; TRAILER];
        Ok(match self.fill(from, &mut told, false)? {
            Filled::Whole => Some((crc, u32::from_be_bytes(told) == crc)),
            _ => None,
        })
    }

    /// Read as many bytes as there is room for.
    pub(super) fn fill(&self, from: &mut TcpStream, bytes: &mut [u8], may_end: bool) -> io::Result<Filled> {
        let (mut at, mut moved) = (0, Instant::now());
        while at < bytes.len() {
            match from.read(&mut bytes[at..]) {
                Ok(0) if may_end && at == 0 => return Ok(Filled::Closed),
                Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok(n) => (at, moved) = (at + n, Instant::now()),
                Err(error) if is_late(&error) => {
                    if self.watch.is_over() {
                        return Ok(Filled::Over);
                    }
                    // Between two ranges the control connection tells whether the peer lives.
                    let within = at > 0 || !may_end;
                    if within && moved.elapsed() > self.tuning.patience {
                        return Err(io::Error::new(io::ErrorKind::TimedOut, "a flow stopped within a range"));
                    }
                }
                Err(error) => return Err(error),
            }
        }
        Ok(Filled::Whole)
    }
}

fn is_late(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut | io::ErrorKind::Interrupted)
}
