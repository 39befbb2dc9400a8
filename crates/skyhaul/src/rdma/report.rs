//! Reports of the three verbs, and the list of what was lost.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::ops::Range;

/// Losses that are listed one by one; the rest are counted.
pub(super) const MAX_LOSSES: usize = 10_000;

/// What became of every datagram of one end; on TCP, of every frame.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DatagramReport {
    /// Datagrams that arrived. Each is placed, consumed, control or refused.
    pub arrived: u64,
    /// Of these: payload that was put into memory.
    pub placed: u64,
    /// Of those placed: by the program in the kernel.
    #[serde(default)]
    pub placed_by_kernel: u64,
    /// Of those refused: the program in the kernel had placed them all the same, before this process knew that their message had ended.
    #[serde(default)]
    pub placed_late_by_kernel: u64,
    /// Arrivals (datagrams, or trains of them) that the kernel's own counters show as dropped or as errors because its program placed
    /// them. They are no losses.
    #[serde(default)]
    pub counted_as_errors: u64,
    /// Bytes that were placed.
    pub placed_bytes: u64,
    /// Of these: segments without payload for memory, such as requests to read and immediate data.
    pub consumed: u64,
    /// Of these: connection control.
    pub control: u64,
    /// Of these: refused, by reason.
    pub refused: BTreeMap<String, u64>,
    /// Arrivals that the kernel dropped at the socket, for lack of room.
    pub kernel_drops: u64,
    /// Datagrams that were withheld on purpose before they arrived.
    pub arrivals_lost_on_purpose: u64,
    /// Datagrams handed out for sending: segments, and connection control.
    pub handed_out: u64,
    /// Of these: segments.
    pub segments: u64,
    /// Segments that the kernel accepted, duplicates among them.
    pub segments_sent: u64,
    /// Bytes in these, with their headers.
    pub segment_bytes_sent: u64,
    /// Datagrams that the kernel did not accept: no room, no route, or too long for the path; frames of streams that had ended (TCP).
    pub unsent: u64,
    /// Frames that the kernel has not taken yet, as the peer reads slowly (TCP).
    #[serde(default)]
    pub waiting: u64,
    /// Segments withheld on purpose.
    pub lost_on_purpose: u64,
    /// Their numbers in the order of sending from 0, as ranges (first, behind the last). The PSN is one more.
    pub lost_on_purpose_ranges: Vec<(u64, u64)>,
    /// Segments sent twice on purpose.
    pub duplicated_on_purpose: u64,
    /// Segments sent out of order on purpose.
    pub reordered_on_purpose: u64,
    /// Segments with a flipped bit or cut short on purpose.
    pub damaged_on_purpose: u64,
}

impl DatagramReport {
    /// Datagrams on the wire, as far as this end knows: those handed out, less what was withheld or not accepted, and doubles.
    #[must_use]
    pub fn sent(&self) -> u64 {
        (self.handed_out + self.duplicated_on_purpose)
            .saturating_sub(self.lost_on_purpose + self.unsent + self.waiting)
    }

    /// All that were refused.
    #[must_use]
    pub fn refused_total(&self) -> u64 {
        self.refused.values().sum()
    }
}

skyhaul_core::named! {
    /// Who places the Writes of peers.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
    pub enum PlacementTier {
        /// The kernel if it can, else this process.
        Auto = "auto",
        /// This process, from trains of datagrams.
        #[default]
        Stage = "stage",
        /// A program in the kernel; an error if there cannot be one. Connections that get none are said in the report.
        Bpf = "bpf",
    }
}

/// A message that did not arrive whole.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LossReport {
    /// The connection, by the order of acceptance from 1.
    pub connection: u64,
    /// Numbers of the messages: first, behind the last. More than one only if they were lost whole.
    pub messages: (u64, u64),
    /// Nothing of them arrived.
    pub whole: bool,
    /// Otherwise: ranges of the region that did not arrive, up to the furthest byte that did if the end of the message is not known.
    /// None, if only its immediate data are missing.
    pub missing: Vec<(u64, u64)>,
    /// Whether these ranges are of the region. Otherwise nothing but the immediate data arrived, which does not say where the bytes
    /// belong: they are counted from the start of the message.
    pub in_region: bool,
    /// Its immediate data arrived.
    pub immediate: bool,
    /// It is a Send: its ranges count from its start.
    #[serde(default)]
    pub is_send: bool,
}

/// A region.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RegionReport {
    /// Its name.
    pub name: String,
    /// Its length in bytes.
    pub bytes: u64,
    /// What its peers may do: `read`, `write`.
    pub rights: String,
}

/// A connection that was accepted.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ConnectionReport {
    /// The peer's address.
    pub peer: String,
    /// The region that it named.
    pub region: String,
    /// Writes that ended complete.
    pub complete: u64,
    /// Writes that arrived in part.
    pub incomplete: u64,
    /// Sends that ended complete.
    #[serde(default)]
    pub received: u64,
    /// Sends that arrived in part.
    #[serde(default)]
    pub received_incomplete: u64,
    /// Bytes of Sends that arrived.
    #[serde(default)]
    pub received_bytes: u64,
    /// Messages lost whole: Writes, Sends, or requests to read.
    pub lost: u64,
    /// Bytes of Writes that arrived.
    pub written_bytes: u64,
    /// Datagrams of the peer that did not arrive.
    pub datagrams_lost: u64,
    /// Why it ended: `peer`, `here`, `silence` … Only if the peer closed it is the count of lost datagrams exact: how many it sent
    /// last is not known otherwise.
    pub closed_by: Option<String>,
}

/// What a comparison of memory with the patterns of its messages found.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct VerifyReport {
    /// Bytes that were compared.
    pub compared_bytes: u64,
    /// Of these: not what the message has.
    pub different_bytes: u64,
    /// Bytes that a later message had overwritten when their message ended: these were not compared. Also bytes of a message that was open at the same
    /// time, where the kernel places and the order is not known.
    pub overwritten_bytes: u64,
    /// The first differences: connection, message, offset in the region.
    pub first: Vec<(u64, u64, u64)>,
}

/// What a server did.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct RdmaServeReport {
    /// [`VERSION`](crate::report::VERSION).
    pub version: u32,
    /// Where it listened.
    pub listen: String,
    /// What carries the segments: `uc` over UDP, or `tcp`.
    #[serde(default)]
    pub profile: String,
    /// How datagrams were read, and handed to the kernel.
    pub tier: String,
    /// See `tier`.
    pub mode: String,
    /// Who places Writes: `bpf`, or `stage` and why.
    #[serde(default)]
    pub placing: String,
    /// Wall seconds.
    pub seconds: f64,
    /// CPU seconds of its thread.
    pub cpu_seconds: f64,
    /// Times that its thread went to sleep.
    #[serde(default)]
    pub voluntary_switches: u64,
    /// Times that the CPU was taken from it.
    #[serde(default)]
    pub involuntary_switches: u64,
    /// What it exposed.
    pub regions: Vec<RegionReport>,
    /// Requests with a proven address.
    pub requested: u64,
    /// Of these: rejected, as they named no region, or after the last connection that was asked for.
    pub rejected: u64,
    /// Of these: accepted. The first thousand.
    pub connections: Vec<ConnectionReport>,
    /// Accepted ones that are not listed.
    pub connections_not_listed: u64,
    /// Its datagrams.
    pub datagrams: DatagramReport,
    /// Requests to read that arrived.
    pub read_requests: u64,
    /// Writes that ended complete.
    pub complete: u64,
    /// Writes that arrived in part.
    pub incomplete: u64,
    /// Messages lost whole: Writes, Sends, or requests to read.
    pub lost: u64,
    /// Bytes of Writes that arrived.
    pub written_bytes: u64,
    /// Sends that ended complete.
    #[serde(default)]
    pub received: u64,
    /// Sends that arrived in part.
    #[serde(default)]
    pub received_incomplete: u64,
    /// Bytes of Sends that arrived.
    #[serde(default)]
    pub received_bytes: u64,
    /// Sends, complete or not, that asked for the program to be woken.
    #[serde(default)]
    pub solicited: u64,
    /// Regions that a peer ended by a Send.
    #[serde(default)]
    pub invalidated: Vec<String>,
    /// Sends that could not be written where they were to be kept.
    #[serde(default)]
    pub not_written: u64,
    /// Why, of the first.
    #[serde(default)]
    pub write_error: Option<String>,
    /// Immediate data that arrived.
    pub immediates: u64,
    /// Datagrams of peers that did not arrive.
    pub datagrams_lost: u64,
    /// The first losses.
    pub losses: Vec<LossReport>,
    /// Further messages that did not arrive whole.
    pub losses_not_listed: u64,
    /// If it was asked for.
    pub verify: Option<VerifyReport>,
}

/// What was written, or sent.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct RdmaWriteReport {
    /// [`VERSION`](crate::report::VERSION).
    pub version: u32,
    /// `write` or `send`.
    #[serde(default)]
    pub operation: String,
    /// The region.
    pub to: String,
    /// What carries the segments: `uc` over UDP, or `tcp`.
    #[serde(default)]
    pub profile: String,
    /// How datagrams were handed to the kernel.
    pub mode: String,
    /// Length of the region in bytes.
    pub region_bytes: u64,
    /// Payload and headers of a datagram, at most.
    pub datagram_bytes: u16,
    /// Writes or Sends handed out whole. They are numbered from 1.
    pub messages: u64,
    /// Bytes of the payload of these.
    pub bytes: u64,
    /// Wall seconds of sending.
    pub seconds: f64,
    /// Bits of payload per second.
    pub bits_per_second: f64,
    /// CPU seconds of the thread while sending.
    pub cpu_seconds: f64,
    /// Times that the thread went to sleep.
    #[serde(default)]
    pub voluntary_switches: u64,
    /// The same per 10⁹ bytes of payload.
    pub cpu_seconds_per_gb: f64,
    /// Seconds by which the schedule slipped.
    pub slipped_seconds: f64,
    /// Why the connection ended: `here` if the peer confirmed.
    pub closed_by: String,
    /// Its datagrams.
    pub datagrams: DatagramReport,
}

/// What was done over a connection that stayed open.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct RdmaClientReport {
    /// [`VERSION`](crate::report::VERSION).
    pub version: u32,
    /// The region.
    pub to: String,
    /// What carries the segments: `uc` over UDP, or `tcp`.
    #[serde(default)]
    pub profile: String,
    /// How datagrams were handed to the kernel.
    pub mode: String,
    /// Length of the region in bytes.
    pub region_bytes: u64,
    /// Payload and headers of a datagram, at most.
    pub datagram_bytes: u16,
    /// Writes handed out whole. They are numbered from 1.
    pub messages: u64,
    /// Bytes of the payload of these.
    pub bytes: u64,
    /// Reads: pieces of at most 1 MiB.
    pub reads: u64,
    /// Bytes that arrived for them.
    pub read_bytes: u64,
    /// Why the connection ended: `here` if the peer confirmed. `None`: it is open.
    pub closed_by: Option<String>,
    /// Its datagrams.
    pub datagrams: DatagramReport,
}

/// What was read.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct RdmaReadReport {
    /// [`VERSION`](crate::report::VERSION).
    pub version: u32,
    /// The region.
    pub from: String,
    /// What carries the segments: `uc` over UDP, or `tcp`.
    #[serde(default)]
    pub profile: String,
    /// Length of the region in bytes.
    pub region_bytes: u64,
    /// The range of it: first byte, behind the last.
    pub range: (u64, u64),
    /// Bytes that arrived.
    pub bytes: u64,
    /// Ranges that did not, offsets in the region.
    pub missing: Vec<(u64, u64)>,
    /// Bytes in these.
    pub missing_bytes: u64,
    /// Reads: pieces of the range, as long as [`ClientRead::message_bytes`](super::ClientRead::message_bytes) says.
    pub reads: u64,
    /// Of these: complete.
    pub complete: u64,
    /// Requests sent for them; more than one each where something was lost.
    pub requests: u64,
    /// Times that answers were due and none came for as long as the path takes, so that a part of what was missing was asked for again.
    #[serde(default)]
    pub silences: u64,
    /// Wall seconds of reading.
    pub seconds: f64,
    /// Bits per second that arrived.
    pub bits_per_second: f64,
    /// CPU seconds of the thread.
    pub cpu_seconds: f64,
    /// Seconds in which the thread was ready to run and had no CPU. They make Reads end late, and are no work of this process.
    #[serde(default)]
    pub cpu_wait_seconds: f64,
    /// Times that the thread went to sleep.
    #[serde(default)]
    pub voluntary_switches: u64,
    /// The longest Read, seconds.
    pub longest_seconds: f64,
    /// Why the connection ended: `here` if the peer confirmed.
    pub closed_by: String,
    /// It was ended before all was asked for.
    pub interrupted: bool,
    /// Its datagrams.
    pub datagrams: DatagramReport,
}

/// As reports have them.
pub(super) fn pairs(ranges: &[Range<u64>]) -> Vec<(u64, u64)> {
    ranges.iter().map(|range| (range.start, range.end)).collect()
}

/// Bytes of disjoint ranges.
pub(super) fn total(ranges: &[Range<u64>]) -> u64 {
    ranges.iter().map(|range| range.end - range.start).sum()
}
