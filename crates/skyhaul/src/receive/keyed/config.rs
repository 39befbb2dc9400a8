//! Configuration of a receiving stream: all limits and end conditions.

use crate::receive::filter::Allow;
use skyhaul_core::assembly::keyed::EVIDENCE;
use skyhaul_core::assembly::{KeyedConfig, KeyedWindow};
use skyhaul_core::placement::Nanos;
use skyhaul_io::memory::heap::HeapMemory;
use std::time::Duration;

/// Part of the memory for heaps of which one packet arrived.
const UNCONFIRMED_DIVISOR: u64 = 4;
/// Where every packet states the size, objects that announce more get memory for all of it only when some of it arrived. Not
/// where packets may wait for memory, as those of heaps over TCP do: they would wait again while the heap's own time runs.
const STAGED_BYTES: u64 = 16 << 20;
/// How long an object in one packet may be contradicted: packets of one object arrive within a fraction of it.
const CONTEST_TIME: Nanos = Nanos(10_000_000);

/// What identifies a heap.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum KeyedBy {
    /// The counter alone: packets of one heap may come from several addresses.
    #[default]
    Counter,
    /// The sender's address and the counter: senders may use the same counters.
    SenderAndCounter,
}

/// Effect of a stop item (stream control 2).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum StopRule {
    /// None: its heap is delivered like any other.
    Never,
    /// The first one, from any sender, ends the stream. Its heap is not delivered.
    #[default]
    First,
    /// The stream ends when this number of different senders have sent one. Their heaps are not delivered.
    All(usize),
}

/// What a reader does when the ring is full, or memory runs out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Full {
    /// Wait if the sender can be held back (TCP, bytes, captures, in-process queues), drop if it cannot (UDP).
    #[default]
    Auto,
    /// Read nothing more until there is room: the kernel drops what a socket's buffer cannot hold meanwhile.
    Wait,
    /// Drop the heap, and count it.
    Refuse,
}

/// All limits of a stream, fixed when the stream is made.
#[derive(Clone, Debug)]
pub struct StreamConfig {
    /// Window, substreams, order, unsized heaps, largest heap, heap timeout, and memory of finished heaps. The largest
    /// heap is limited to the memory.
    pub heaps: KeyedConfig,
    /// What identifies a heap.
    pub key: KeyedBy,
    /// What a stop item does.
    pub stop: StopRule,
    /// The stream ends after this time without a packet (after the first). Rejected packets do not count.
    pub idle_timeout: Option<Duration>,
    /// The stream ends this long after its start.
    pub deadline: Option<Duration>,
    /// The stream ends after it has delivered this many heaps.
    pub heap_limit: Option<u64>,
    /// The stream ends after it has delivered at least this many bytes of heaps.
    pub byte_limit: Option<u64>,
    /// Heaps with a smaller counter are rejected.
    pub start_at: Option<u64>,
    /// Deliver incomplete heaps too; missing ranges are listed, and zero.
    pub incomplete: bool,
    /// Incomplete heaps keep their payload. Otherwise they are delivered without it, and its memory is free as soon as they
    /// end, although the user may keep them.
    pub incomplete_payload: bool,
    /// A balancer shares the senders' objects out to several receivers: gaps in their numbers are not losses.
    pub shared: bool,
    /// Maximum number of heaps queued for the user.
    pub ring: usize,
    /// What happens when the ring is full.
    pub full: Full,
    /// Bytes of finished heaps that a reader with [`Full::Wait`] holds before it stops reading, if its source cannot wait
    /// (UDP): packets that arrive meanwhile would be lost, perhaps including the stop item. At most 1024 heaps; 0: none.
    pub overflow: u64,
    /// Memory for heaps. Several streams may share one.
    pub memory: HeapMemory,
    /// Bytes of the memory that are [kept ahead](HeapMemory::keep_ahead) once a reader is added that cannot wait (UDP).
    /// To avoid loss of the first packets at any rate, call [`HeapMemory::wait_ahead`] before data flow.
    pub ahead: u64,
    /// Allowed senders.
    pub allow: Allow,
    /// Maximum number of senders distinguished.
    pub senders: usize,
    /// CPUs for the readers' threads, in turn; empty leaves it to the system.
    pub cpus: Vec<usize>,
    /// Name for threads, errors and statistics.
    pub name: String,
    /// Readers wait for `start` of the stream; otherwise each begins as it is added.
    pub explicit_start: bool,
}

impl StreamConfig {
    /// Bytes of the largest heap.
    pub(crate) fn largest(&self) -> u64 {
        self.heaps.largest.min(self.memory.limit())
    }

    /// The heaps under construction. `states_size`: every packet states the size of its heap; `ours`: they are in this memory,
    /// not in the user's.
    pub(crate) fn window<B>(&self, states_size: bool, ours: bool) -> KeyedWindow<B> {
        let contest = states_size.then_some(CONTEST_TIME);
        let staged = if states_size { STAGED_BYTES } else { u64::MAX };
        let largest = if ours { self.largest().min(self.largest_in_stages(staged)) } else { self.largest() };
        let mut heaps = KeyedWindow::new(KeyedConfig { largest, contest, ..self.heaps });
        if ours {
            heaps.limit_announced(self.memory.limit() / UNCONFIRMED_DIVISOR, staged);
        }
        heaps
    }

    /// Bytes of the largest object that can get its memory, if larger ones than `staged` get it in two stages.
    fn largest_in_stages(&self, staged: u64) -> u64 {
        self.memory.largest_beside(EVIDENCE as usize).max(staged)
    }
}

impl Default for StreamConfig {
    /// Window 16, heap timeout 1 s, ends at the first stop item, complete heaps only, 4096 queued heaps, separate memory
    /// (a quarter of the machine's, at most 4 GiB), 64 MiB of it ahead.
    fn default() -> Self {
        Self {
            heaps: KeyedConfig::default(),
            key: KeyedBy::default(),
            stop: StopRule::default(),
            idle_timeout: None,
            deadline: None,
            heap_limit: None,
            byte_limit: None,
            start_at: None,
            incomplete: false,
            incomplete_payload: true,
            shared: false,
            ring: 4096,
            full: Full::default(),
            overflow: 0,
            memory: HeapMemory::default(),
            ahead: 64 << 20,
            allow: Allow::default(),
            senders: 65_536,
            cpus: Vec::new(),
            name: "spead".into(),
            explicit_start: false,
        }
    }
}

/// Options of TCP readers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TcpReaderOptions {
    /// Accept this many connections; the reader ends when they are closed. `None`: any number at any time.
    pub connections: Option<u64>,
    /// The reader ends when the last open connection closes for any reason. Otherwise it continues to listen.
    pub end_with_last: bool,
    /// A silent connection is probed after this time, and closed after twice this time without response.
    pub keepalive: Duration,
    /// Maximum number of connections at a time; more are closed immediately, and counted. Limited to three quarters of the
    /// process's file descriptors.
    pub at_once: usize,
}

impl Default for TcpReaderOptions {
    /// Any number, 1024 at a time, ends with the last, 10 s.
    fn default() -> Self {
        Self { connections: None, end_with_last: true, keepalive: Duration::from_secs(10), at_once: 1024 }
    }
}
