//! Counters of a stream. Everything that is not delivered is counted, by named reasons.

use super::rows::Missing;
use skyhaul_core::assembly::Cause;
use skyhaul_core::placement::{Reject, Rejects};
use skyhaul_io::source::SourceStats;
use skyhaul_io::tcp::pieces::{End, PieceStats};
use std::time::Duration;

macro_rules! counts {
    ($( $(#[$doc:meta])* $name:ident ),+ $(,)?) => {
        /// Counters of one reader, or of all together.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub struct Counts {
            $( $(#[$doc])* pub $name: u64, )+
            /// Maximum number of packets in one batch.
            pub max_batch: u64,
            /// Heaps that retired, by [`Cause`] in the order of [`Cause::KEYED`].
            pub retired: [u64; Cause::KEYED.len()],
            /// Rejected packets, by reason.
            pub rejects: Rejects,
        }

        impl Counts {
            /// Add another's.
            pub fn merge(&mut self, other: &Counts) {
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
    /// Times a reader did not read for longer than 0.1 s: the program was stopped or suspended, had no processor, or a
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
    /// TCP connections closed at once: not from the requested sender, or beyond the limit of a reader.
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

impl Counts {
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
pub enum Ended {
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

impl Ended {
    /// Its name in reports.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Ended::Stopped => "stopped",
            Ended::StopItem => "stop_item",
            Ended::Readers => "readers",
            Ended::Idle => "idle",
            Ended::Deadline => "deadline",
            Ended::Limit => "limit",
        }
    }
}

/// Statistics of one reader.
#[derive(Clone, Debug, Default)]
pub struct ReaderStats {
    /// Its source.
    pub name: String,
    /// Its counters.
    pub counts: Counts,
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
    pub total: Counts,
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
    pub ended: Option<Ended>,
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_counter_has_a_name_of_its_own_and_is_merged() {
        let mut counts = Counts { packets: 2, max_batch: 5, ..Counts::default() };
        counts.rejects.add(Reject::Late);
        counts.closed(End::Reset);
        counts.merge(&counts.clone());
        let named: std::collections::BTreeMap<String, u64> = counts.named().collect();
        assert_eq!(named.len(), counts.named().count());
        assert_eq!(
            (named["packets"], named["max_batch"], named["reject_late"], named["closed_reset"]),
            (4, 5, 2, 2)
        );
        assert!(named.contains_key("retired_window"));
    }
}
