//! Counters of a stream: all losses by named reasons, and heaps of which nothing arrived.

use super::store::Sender;
use skyhaul_core::assembly::{Cause, Sequence};
use skyhaul_core::placement::{Key, Placement, Reject, Rejects};
use skyhaul_core::wire::keyed::Keyed;
use skyhaul_io::source::SourceStats;
use skyhaul_io::tcp::pieces::{End, PieceStats};
use std::collections::HashMap;
use std::net::SocketAddr;
use std::time::Duration;

macro_rules! counts {
    ($( $(#[$doc:meta])* $name:ident ),+ $(,)?) => {
        /// Counters of one reader, or of all together.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub struct StreamCounts {
            $( $(#[$doc])* pub $name: u64, )+
            /// Maximum number of packets in one batch.
            pub max_batch: u64,
            /// Heaps that retired, by [`Cause`] in the order of [`Cause::KEYED`].
            pub retired: [u64; Cause::KEYED.len()],
            /// Rejected packets, by reason.
            pub rejects: Rejects,
        }

        impl StreamCounts {
            /// Add another's.
            pub fn merge(&mut self, other: &StreamCounts) {
                $( self.$name += other.$name; )+
                self.max_batch = self.max_batch.max(other.max_batch);
                self.retired.iter_mut().zip(other.retired).for_each(|(mine, theirs)| *mine += theirs);
                self.rejects.merge(&other.rejects);
            }

            /// Every counter with its name, including zeros.
            pub fn named(&self) -> impl Iterator<Item = (String, u64)> + '_ {
                let own = [$( (stringify!($name), self.$name) ),+];
                let retired = Cause::KEYED.iter().zip(self.retired);
                own.into_iter()
                    .chain([("max_batch", self.max_batch)])
                    .map(|(name, n)| (name.to_owned(), n))
                    .chain(retired.map(|(cause, n)| (format!("retired_{}", cause.name()), n)))
                    .chain(Reject::ALL.iter().map(|&r| (format!("reject_{}", r.name()), self.rejects.get(r))))
            }
        }
    };
}

counts! {
    /// Packets received, regardless of their fate. A long packet on TCP is one.
    packets,
    /// Their bytes.
    bytes,
    /// Trains (UDP) or reads (TCP) they came in.
    trains,
    /// Polls of readers that returned packets.
    batches,
    /// Heaps put into the ring.
    heaps,
    /// Payload bytes in them.
    heap_bytes,
    /// Of these, heaps with something missing.
    incomplete_heaps,
    /// Incomplete heaps dropped because they were not requested.
    incomplete_dropped,
    /// Heaps that arrived again in full, 100 ms or longer after they were finished, and were rejected: their counters
    /// were reused while they were remembered. Duplicates made by a network arrive sooner.
    repeated_heaps,
    /// Finished heaps that were forgotten before `remember_for` was over, because more than `remember` were finished within
    /// it: a late packet would begin one of them again.
    forgotten_heaps,
    /// Heaps received in a single packet.
    single_packet_heaps,
    /// Finished heaps for which the ring had no room.
    ring_full,
    /// Finished heaps dropped because the stream was stopped, or a limit was reached.
    stopped,
    /// Times a reader, or one of its TCP connections, waited for room in the ring, or for memory.
    blocked,
    /// Packets with an effective stop item.
    stops,
    /// Of these, packets that were heaps of their own.
    single_packet_stops,
    /// Times a reader did not read for longer than 0.1 s: the program was stopped or suspended, had no CPU, or a
    /// user function took that long.
    pauses,
    /// Total of these pauses in milliseconds.
    paused_ms,
    /// Item pointers beyond the limit of a heap.
    pointers_refused,
    /// Items that begin beyond the end of their heap: they are not delivered.
    items_outside,
    /// Bytes outside packets, or of a packet that ended before any of it was used (TCP, bytes); not in `bytes`.
    skipped_bytes,
    /// Part of `bytes` that was not placed because the packet was rejected, or its heap given up: payload, and the head
    /// if it could not be read.
    refused_bytes,
    /// TCP connections accepted.
    connections,
    /// TCP connections closed immediately: not from the requested sender, or beyond the limit of a reader.
    connections_refused,
    /// TCP connections closed by the peer in order.
    closed_orderly,
    /// TCP connections that were reset.
    closed_reset,
    /// TCP connections that timed out.
    closed_timed_out,
    /// TCP connections that ended within a packet.
    closed_mid_packet,
}

impl StreamCounts {
    /// Heaps that retired for this reason.
    #[must_use]
    pub fn retired(&self, cause: Cause) -> u64 {
        self.retired[cause as usize]
    }

    /// Count rejected packets, and their bytes.
    pub(crate) fn refuse(&mut self, why: Reject, packets: usize, bytes: u64) {
        (0..packets).for_each(|_| self.rejects.add(why));
        self.refused_bytes += bytes;
    }

    pub(crate) fn closed(&mut self, how: End) {
        match how {
            End::Orderly => self.closed_orderly += 1,
            End::Reset => self.closed_reset += 1,
            End::TimedOut => self.closed_timed_out += 1,
            End::MidPacket => self.closed_mid_packet += 1,
        }
    }
}

/// Why a stream ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum StreamEnd {
    /// `stop` of the stream was called, or the last handle dropped.
    Stopped,
    /// Stop items, according to the rule.
    StopItem,
    /// Every reader has ended.
    Readers,
    /// The idle timeout.
    Idle,
    /// The deadline.
    Deadline,
    /// The limit of heaps or of bytes was reached.
    Limit,
}

impl StreamEnd {
    /// Its name in reports.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            StreamEnd::Stopped => "stopped",
            StreamEnd::StopItem => "stop_item",
            StreamEnd::Readers => "readers",
            StreamEnd::Idle => "idle",
            StreamEnd::Deadline => "deadline",
            StreamEnd::Limit => "limit",
        }
    }
}

/// Statistics of one reader.
#[derive(Clone, Debug, Default)]
pub struct ReaderStats {
    /// Its source.
    pub name: String,
    /// Its counters.
    pub counts: StreamCounts,
    /// Statistics of its source: kernel drops, buffers, remedies. Some tenths of a second old while it runs.
    pub source: SourceStats,
    /// The same of a TCP reader.
    pub tcp: Option<PieceStats>,
    /// CPU time of its thread.
    pub cpu: Duration,
    /// The error that ended it.
    pub error: Option<String>,
    /// Whether it has ended.
    pub ended: bool,
}

/// Statistics of a stream.
#[derive(Clone, Debug, Default)]
pub struct Stats {
    /// All readers together.
    pub total: StreamCounts,
    /// Each reader.
    pub readers: Vec<ReaderStats>,
    /// Heaps that are missing entirely.
    pub missing: Missing,
    /// Heaps under construction.
    pub live: usize,
    /// Heaps queued for the user.
    pub waiting: usize,
    /// Bytes of heap memory taken from the system.
    pub memory_used: u64,
    /// Times the heap memory had no room.
    pub memory_refused: u64,
    /// Why it ended, if it has.
    pub ended: Option<StreamEnd>,
}

impl Stats {
    /// Arrivals dropped by the kernel, over all readers.
    #[must_use]
    pub fn kernel_drops(&self) -> u64 {
        self.readers.iter().map(|reader| reader.source.socket_drops).sum()
    }

    /// Every counter of the whole stream by name, for metrics.
    pub fn named(&self) -> impl Iterator<Item = (String, u64)> + '_ {
        let more = [
            ("kernel_drops", self.kernel_drops()),
            ("missing_heaps", self.missing.heaps),
            ("unknown_senders", self.missing.unknown_senders),
            ("live_heaps", self.live as u64),
            ("waiting_heaps", self.waiting as u64),
            ("memory_used", self.memory_used),
            ("memory_refused", self.memory_refused),
        ];
        self.total.named().chain(more.map(|(name, n)| (name.to_owned(), n)))
    }
}

/// Maximum number of senders followed; a kilobyte of memory for each.
const MAX_SENDERS: usize = 1024;

/// Number of missing heaps.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Missing {
    /// Heaps without any packet, from the gaps in their senders' counters.
    pub heaps: u64,
    /// Senders, per reader, whose heaps were counted.
    pub senders: u64,
    /// Senders whose missing heaps are unknown: their counters have no regular step, or they sent too few heaps.
    pub unknown_senders: u64,
}

impl Missing {
    /// The number, if it is known for any sender.
    #[must_use]
    pub fn known(&self) -> Option<u64> {
        (self.senders > 0).then_some(self.heaps)
    }

    fn add(&mut self, sequence: &Sequence) {
        match sequence.missing() {
            Some(heaps) => {
                self.heaps += heaps;
                self.senders += 1;
            }
            None => self.unknown_senders += 1,
        }
    }
}

/// Reader, sender and source. Packets of one sender to several readers are not synchronised, so each reader counts separately.
type Counted = (usize, SocketAddr, u16);

struct SenderSequence {
    of: Counted,
    sequence: Sequence,
    /// Used since the clock hand last passed it.
    is_used: bool,
}

/// Counts heaps that are missing entirely, per sender.
///
/// ```text
///   reader 0, 10.0.0.7:9000   1 2 3 · 5       one missing
///   reader 0, 10.0.0.8:9000   4 8 12 16       none
///   reader 1, 10.0.0.7:9000   7 900 31        not known: its counters have no step
/// ```
///
/// A heap is noted once, when it begins; so is the heap of a rejected packet, which is not missing. [`MAX_SENDERS`] are
/// followed at a time. One more replaces the least recently active; its missing heaps stay counted.
#[derive(Default)]
pub(crate) struct MissingHeaps {
    at: HashMap<Counted, usize>,
    senders: Vec<SenderSequence>,
    /// The clock hand: the next candidate for replacement.
    hand: usize,
    last: usize,
    /// The last sender of a part of a heap that another sender began, with that heap.
    last_joined: Option<(usize, SocketAddr, Key)>,
    forgotten: Missing,
    /// Only some of the senders' heaps are sent here, so gaps are not losses.
    is_shared: bool,
}

impl MissingHeaps {
    /// `shared`: a balancer divides the senders' heaps among several receivers, so gaps are not losses.
    pub(crate) fn new(shared: bool) -> Self {
        Self { is_shared: shared, ..Self::default() }
    }

    /// A part of a heap was given a place. Counted once for each of its senders: for those that did not begin it, too.
    #[inline]
    pub(crate) fn note_part<W: Keyed>(
        &mut self,
        from: &Sender,
        packet: &Placement,
        is_first: bool,
        began_by: Option<(usize, SocketAddr)>,
        is_control: bool,
    ) {
        let is_news = is_first
            || began_by.is_some_and(|who| who != (from.reader, from.address))
                && self.last_joined != Some((from.reader, from.address, packet.key));
        if is_news {
            self.last_joined = if is_first { None } else { Some((from.reader, from.address, packet.key)) };
            self.note(from.counted_as::<W>(packet.key), packet, is_control);
        }
    }

    /// A packet of this heap arrived.
    #[inline]
    pub(crate) fn note(&mut self, of: Counted, place: &Placement, is_control: bool) {
        if self.is_shared {
            return;
        }
        let bits = place.number_bits;
        let at = match self.senders.get(self.last) {
            Some(row) if row.of == of => self.last,
            _ => self.find(of, bits),
        };
        self.last = at;
        let row = &mut self.senders[at];
        row.is_used = true;
        row.sequence.note(place.key.number, is_control);
    }

    /// This sender marked its start.
    #[cold]
    pub(crate) fn begin(&mut self, of: Counted) {
        if let Some(&at) = self.at.get(&of) {
            self.senders[at].sequence.finish();
        }
    }

    /// The stream has ended.
    pub(crate) fn finish(&mut self) {
        self.senders.iter_mut().for_each(|row| row.sequence.finish());
    }

    pub(crate) fn missing(&self) -> Missing {
        let mut all = self.forgotten;
        self.senders.iter().for_each(|row| all.add(&row.sequence));
        all
    }

    #[cold]
    fn find(&mut self, of: Counted, bits: u8) -> usize {
        if let Some(&at) = self.at.get(&of) {
            return at;
        }
        let at = if self.senders.len() < MAX_SENDERS {
            self.senders.push(SenderSequence { of, sequence: Sequence::new(bits), is_used: true });
            self.senders.len() - 1
        } else {
            let at = self.free();
            let row = &mut self.senders[at];
            row.sequence.finish();
            self.forgotten.add(&row.sequence);
            self.at.remove(&row.of);
            row.of = of;
            row.sequence.clear(bits);
            at
        };
        self.at.insert(of, at);
        at
    }

    /// The next entry that was not used since the last pass.
    fn free(&mut self) -> usize {
        loop {
            let at = self.hand;
            self.hand = (self.hand + 1) % self.senders.len();
            if !std::mem::take(&mut self.senders[at].is_used) {
                return at;
            }
        }
    }
}

#[cfg(test)]
mod tests;
