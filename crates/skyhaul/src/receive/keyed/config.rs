//! What a receiving stream is told before it begins: every limit, every end.

use skyhaul_core::assembly::KeyedConfig;
use skyhaul_io::memory::heap::HeapMemory;
use std::time::Duration;

/// What makes two heaps with one counter the same heap.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum KeyedBy {
    /// The counter alone: packets of one heap may come from several addresses.
    #[default]
    Counter,
    /// The sender's address and the counter: senders need not divide the counters among them.
    SenderAndCounter,
}

/// What a stop item (stream control 2) does.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum StopRule {
    /// Nothing: its heap is handed on as any other.
    Never,
    /// The first one ends the stream, whoever sent it. Its heap is not handed on.
    #[default]
    First,
    /// The stream ends when so many different senders have sent one. Their heaps are not handed on.
    All(usize),
}

/// What a reader does when the ring has no room, or the memory no block.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Full {
    /// Wait where the sender can be held back (TCP, bytes, captures, in-process queues), refuse where it cannot (UDP).
    #[default]
    Auto,
    /// Read nothing more until there is room: what a socket's buffer cannot hold meanwhile is lost by the kernel.
    Wait,
    /// Drop the heap, and count it.
    Refuse,
}

/// Every limit of a stream. Nothing of it changes once the stream is made.
#[derive(Clone, Debug)]
pub struct StreamConfig {
    /// Window, substreams, order, unsized heaps, largest heap, the time a heap may take, what is remembered of
    /// finished ones. The largest heap is never larger than the memory.
    pub heaps: KeyedConfig,
    /// What identifies a heap.
    pub key: KeyedBy,
    /// What a stop item does.
    pub stop: StopRule,
    /// Without a packet for so long (after the first), the stream ends. Packets that are refused do not count.
    pub idle_timeout: Option<Duration>,
    /// So long after its start the stream ends.
    pub deadline: Option<Duration>,
    /// The stream ends after so many heaps were handed on.
    pub heap_limit: Option<u64>,
    /// The stream ends after at least so many bytes of heaps were handed on.
    pub byte_limit: Option<u64>,
    /// Heaps with a smaller counter are refused.
    pub start_at: Option<u64>,
    /// Hand on incomplete heaps too: what is missing is told, and zero.
    pub incomplete: bool,
    /// Heaps that wait for the user, at most.
    pub ring: usize,
    /// What happens when more would wait.
    pub full: Full,
    /// Bytes of finished heaps that a reader which waits while its source cannot (UDP, with [`Full::Wait`]) holds before it
    /// stops reading: what comes meanwhile would be lost, and with it perhaps the stop item. At most 1024 heaps; 0: none.
    pub overflow: u64,
    /// Where heaps lie. Several streams may share one.
    pub memory: HeapMemory,
    /// Bytes of the memory that are [kept ahead](HeapMemory::keep_ahead) once a reader is added that cannot wait (UDP). To
    /// be sure of the first packets at any rate, call [`HeapMemory::wait_ahead`] before data flow.
    pub ahead: u64,
    /// Most senders told apart.
    pub senders: usize,
    /// Processors for the readers' threads, in turn; empty leaves it to the system.
    pub cpus: Vec<usize>,
    /// For threads, errors and statistics.
    pub name: String,
    /// Readers wait for [`start`](super::Stream::start); otherwise each begins as it is added.
    pub explicit_start: bool,
}

impl Default for StreamConfig {
    /// Window 16, 1 s for a heap, the first stop item ends, complete heaps only, 4096 may wait, memory of its own (a
    /// quarter of the machine's, at most 4 GiB), 64 MiB of it ahead.
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
            ring: 4096,
            full: Full::default(),
            overflow: 0,
            memory: HeapMemory::default(),
            ahead: 64 << 20,
            senders: 65_536,
            cpus: Vec::new(),
            name: "spead".into(),
            explicit_start: false,
        }
    }
}

/// How TCP connections are taken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TcpReaderOptions {
    /// Accept so many connections, then no more; the reader ends when they are closed. `None`: any number at any time.
    pub connections: Option<u64>,
    /// The reader ends when the last connection that is open closes, in whatever way. Otherwise it goes on listening.
    pub end_with_last: bool,
    /// A silent connection is asked for a sign of life after this long, and given up after twice as long.
    pub keepalive: Duration,
    /// Most connections at a time; more are closed at once, and counted. Never more than three quarters of the file
    /// descriptors that the process may have.
    pub at_once: usize,
}

impl Default for TcpReaderOptions {
    /// Any number, 1024 at a time, ends with the last, 10 s.
    fn default() -> Self {
        Self { connections: None, end_with_last: true, keepalive: Duration::from_secs(10), at_once: 1024 }
    }
}
