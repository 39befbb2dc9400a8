//! A queue of packets between streams of one process, like a network without loss.
//!
//! ```text
//!   clone.push(packets) ─▶ ▐ packet ▐ packet ▐ packet ▌ ▐ packet ▌ ─▶ clone.poll(…) as a Source
//!                            one block: equal packets, the last may be shorter, as a train
//! ```
//!
//! Packets are copied once, into reusable blocks, so that a receiver gets whole trains without allocations. The queue is
//! bounded in bytes: a push into a full queue waits up to its timeout, and returns whether there was room. After
//! [`close`](InprocQueue::close) queued packets are still received, then the source is finished. All clones are one
//! queue, with any number of senders and receivers.
//!
//! ```
//! use skyhaul::{io::source::Source, inproc::InprocQueue};
//! use std::time::Duration;
//! let queue = InprocQueue::default();
//! queue.clone().push(b"packet", Duration::ZERO)?;
//! queue.close();
//! let mut reader = queue.clone();
//! assert_eq!(reader.poll(Duration::ZERO, &mut |train| assert_eq!(train.bytes, b"packet"))?, 1);
//! assert!(reader.is_finished());
//! # Ok::<(), std::io::Error>(())
//! ```
//!
//! Limits: the bound may be exceeded by one block (64 KiB, or one packet) per sender.

use skyhaul_core::hint::Hint;
use skyhaul_io::gathered::{Extent, Gathered};
use skyhaul_io::lock::lock;
use skyhaul_io::source::{Source, SourceStats, Train};
use std::collections::VecDeque;
use std::io::{self, IoSlice};
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Bytes of a block of more than one packet.
const BLOCK_BYTES: usize = 1 << 16;
/// Packets below this size are copied directly to the end of the queue.
const SMALL_BYTES: usize = 1 << 12;
/// Maximum number of empty blocks kept.
const MAX_SPARE_BLOCKS: usize = 64;
/// Maximum number of trains per poll.
const MAX_TRAINS: usize = 32;

/// Overhead counted per block, so that empty packets fill the queue too.
const BESIDE: usize = 64;

/// Default limit in bytes.
const MAX_QUEUED_BYTES: usize = 64 << 20;

/// A bounded queue of packets; each clone can send into it and receive from it.
#[derive(Debug)]
pub struct InprocQueue {
    shared: Arc<Shared>,
    from: SocketAddr,
    handed: Handed,
}

/// Packets that this clone delivered as a [`Source`].
#[derive(Clone, Copy, Debug, Default)]
struct Handed {
    packets: u64,
    bytes: u64,
    trains: u64,
}

#[derive(Debug)]
struct Shared {
    state: Mutex<State>,
    more: Condvar,
    room: Condvar,
    limit: usize,
}

#[derive(Debug, Default)]
struct State {
    blocks: VecDeque<Block>,
    spare: Vec<Vec<u8>>,
    packets: usize,
    /// Bytes of all blocks that are queued or being read, including overhead.
    used: usize,
    closed: bool,
    readers_waiting: usize,
    senders_waiting: usize,
}

/// Equal packets, the last of which may be shorter.
#[derive(Debug)]
struct Block {
    bytes: Vec<u8>,
    stride: usize,
    packets: usize,
    from: SocketAddr,
}

impl Default for InprocQueue {
    /// A queue of 64 MiB.
    fn default() -> Self {
        Self::new(MAX_QUEUED_BYTES)
    }
}

impl Clone for InprocQueue {
    /// The same queue; the clone's counters start at 0.
    fn clone(&self) -> Self {
        Self { shared: self.shared.clone(), from: self.from, handed: Handed::default() }
    }
}

impl InprocQueue {
    /// A queue that holds up to `limit` bytes of packets (and always at least one packet).
    #[must_use]
    pub fn new(limit: usize) -> Self {
        let shared = Shared { state: Mutex::default(), more: Condvar::new(), room: Condvar::new(), limit };
        Self {
            shared: Arc::new(shared),
            from: SocketAddr::from((Ipv4Addr::UNSPECIFIED, 0)),
            handed: Handed::default(),
        }
    }

    /// The same queue; packets pushed to it come from 0.0.0.0:`number`, for receivers that distinguish senders.
    #[must_use]
    pub fn as_sender(&self, number: u16) -> Self {
        let mut clone = self.clone();
        clone.from.set_port(number);
        clone
    }

    /// Queue one packet, waiting up to `wait` for room. Returns whether there was room.
    ///
    /// # Errors
    /// If the queue is closed.
    pub fn push(&self, packet: &[u8], wait: Duration) -> io::Result<bool> {
        let (slices, extents) = ([IoSlice::new(packet)], [Extent { first: 0, bytes: packet.len() }]);
        Ok(self.push_gathered(Gathered::new(&slices, &extents), 0, wait)? == 1)
    }

    /// Queue packets gathered from slices, from packet `first` on. Waits up to `wait` whenever there is no room. Returns
    /// how many were queued: fewer than all only after a timeout.
    ///
    /// # Errors
    /// If the queue is closed; packets queued before are still received.
    pub fn push_gathered(&self, packets: Gathered<'_>, first: usize, wait: Duration) -> io::Result<usize> {
        let mut at = first;
        while at < packets.count() {
            let train = next_train(packets, at);
            let of_train = packets.run(at, train.packets);
            let Some(mut state) = self.shared.with_room(wait)? else { break };
            if train.bytes > SMALL_BYTES || !state.append(of_train, &train, self.from) {
                let mut bytes = state.spare.pop().unwrap_or_default();
                // The lock is released during a large copy.
                drop(state);
                bytes.reserve_exact(train.bytes);
                of_train.iter().for_each(|slice| bytes.extend_from_slice(slice));
                let block = Block { bytes, stride: train.stride, packets: train.packets, from: self.from };
                state = self.shared.open()?;
                state.used += BESIDE;
                state.blocks.push_back(block);
            }
            state.used += train.bytes;
            state.packets += train.packets;
            let wake = state.readers_waiting > 0;
            drop(state);
            if wake {
                self.shared.more.notify_one();
            }
            at += train.packets;
        }
        Ok(at - first)
    }

    /// Close the queue. Queued packets are still received.
    pub fn close(&self) {
        self.shared.lock().closed = true;
        self.shared.more.notify_all();
        self.shared.room.notify_all();
    }

    /// Whether it is closed.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        self.shared.lock().closed
    }

    /// Number of queued packets.
    #[must_use]
    pub fn waiting(&self) -> usize {
        self.shared.lock().packets
    }
}

/// The packets that go into one block.
struct TrainShape {
    packets: usize,
    bytes: usize,
    stride: usize,
}

fn next_train(packets: Gathered<'_>, first: usize) -> TrainShape {
    let stride = packets.length(first);
    let mut train = TrainShape { packets: 1, bytes: stride, stride };
    let mut last = stride;
    while first + train.packets < packets.count() && last == stride && stride > 0 {
        last = packets.length(first + train.packets);
        if last == 0 || last > stride || train.bytes + last > BLOCK_BYTES {
            break;
        }
        train.packets += 1;
        train.bytes += last;
    }
    train
}

impl State {
    /// Extend the last train by this one; returns whether that was possible.
    fn append(&mut self, slices: &[IoSlice<'_>], train: &TrainShape, from: SocketAddr) -> bool {
        let Some(last) = self.blocks.back_mut() else { return false };
        let whole = last.stride > 0 && last.bytes.len() == last.stride * last.packets;
        let fits = train.stride == last.stride || (train.packets == 1 && train.bytes < last.stride);
        if !whole
            || !fits
            || train.bytes == 0
            || last.from != from
            || last.bytes.len() + train.bytes > BLOCK_BYTES
        {
            return false;
        }
        slices.iter().for_each(|slice| last.bytes.extend_from_slice(slice));
        last.packets += train.packets;
        true
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        // After a panic of a holder, counts are off by one packet at worst.
        lock(&self.state)
    }

    /// The state, to send into.
    fn open(&self) -> io::Result<MutexGuard<'_, State>> {
        let state = self.lock();
        if state.closed {
            let why = format!(
                "send to an in-process queue: it is closed{}",
                Hint("make a new queue for a new stream")
            );
            return Err(io::Error::new(io::ErrorKind::BrokenPipe, why));
        }
        Ok(state)
    }

    /// The state once there is room; `None` after the timeout.
    fn with_room(&self, wait: Duration) -> io::Result<Option<MutexGuard<'_, State>>> {
        let mut until = None;
        let mut state = self.open()?;
        while state.used >= self.limit && !state.blocks.is_empty() {
            let left = remaining(*until.get_or_insert_with(|| Instant::now().checked_add(wait)));
            let Some(left) = left else { return Ok(None) };
            state.senders_waiting += 1;
            state = self.room.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0;
            state.senders_waiting -= 1;
            drop(state);
            state = self.open()?;
        }
        Ok(Some(state))
    }

    /// Reuse the memory of a block that was read.
    fn give_back(&self, block: Block) {
        let mut state = self.lock();
        state.packets -= block.packets;
        state.used -= block.bytes.len() + BESIDE;
        if state.spare.len() < MAX_SPARE_BLOCKS && block.bytes.capacity() <= 2 * BLOCK_BYTES {
            let mut bytes = block.bytes;
            bytes.clear();
            state.spare.push(bytes);
        }
        // Senders are woken when the queue is half empty.
        if state.senders_waiting > 0 && state.used <= self.limit / 2 {
            self.room.notify_all();
        }
    }

    /// The next block.
    fn take(&self, wait: Duration) -> Option<Block> {
        let mut until = None;
        let mut state = self.lock();
        loop {
            if let Some(block) = state.blocks.pop_front() {
                return Some(block);
            }
            if state.closed || wait.is_zero() {
                return None;
            }
            let left = remaining(*until.get_or_insert_with(|| Instant::now().checked_add(wait)))?;
            state.readers_waiting += 1;
            state = self.more.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0;
            state.readers_waiting -= 1;
        }
    }
}

/// Time left until then (without a deadline: an hour at a time); `None` if there is none.
fn remaining(until: Option<Instant>) -> Option<Duration> {
    let Some(until) = until else { return Some(Duration::from_secs(3600)) };
    let left = until.saturating_duration_since(Instant::now());
    (!left.is_zero()).then_some(left)
}

impl Source for InprocQueue {
    fn poll(&mut self, wait: Duration, each: &mut dyn FnMut(Train<'_>)) -> io::Result<usize> {
        let mut packets = 0;
        for n in 0..MAX_TRAINS {
            let Some(block) = self.shared.take(if n == 0 { wait } else { Duration::ZERO }) else { break };
            packets += block.packets;
            self.handed.packets += block.packets as u64;
            self.handed.bytes += block.bytes.len() as u64;
            self.handed.trains += 1;
            each(Train { bytes: &block.bytes, stride: block.stride, ..Train::single(&[], &block.from) });
            self.shared.give_back(block);
        }
        Ok(packets)
    }

    fn stats(&self) -> SourceStats {
        let Handed { packets, bytes, trains } = self.handed;
        let because = "in this process".into();
        SourceStats { packets, bytes, trains, tier: "inproc", because, ..SourceStats::default() }
    }

    fn describe(&self) -> String {
        "in-process queue".into()
    }

    fn is_finished(&self) -> bool {
        let state = self.shared.lock();
        state.closed && state.blocks.is_empty()
    }
}

#[cfg(test)]
mod tests;
