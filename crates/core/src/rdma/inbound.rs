//! Segments of a peer, assembled into messages by the keyed window of the assembly.
//!
//! | profile | a message is known by | its end |
//! |---|---|---|
//! | UC | the shim's message number | L: offset + length; 8 bytes more for bound immediate data |
//! | TCP | order: numbered here, as segments follow each other | the same |
//! | bare, untagged | queue and MSN | the same |
//! | bare, tagged | nothing: bytes of a region are recorded until L, a repetition, or the deadline | never known |
//!
//! Numbers that were passed over begin as empty objects, so the window and its deadline end them like any other, and a
//! message of which nothing arrived is reported by its number.

use super::config::{HORIZON, RdmaConfig};
use super::event::{MemorySlice, PlaceBytes, RdmaEvent};
pub(super) use super::landing::{Asked, Shared};
use super::landing::{
    IMMEDIATE_BYTES, Landing, NUMBERED, Part, PartKind, QUEUES, RECORDS, end_message, lost_messages,
    note_answer, numbered, part_of, settle, short_body, target,
};
use crate::assembly::{KeyedConfig, KeyedWindow, Slot, Window};
use crate::placement::{Key, Nanos, Placement, Reject};
use crate::wire::rdma::ddp::DdpHeader;
use crate::wire::rdma::rdmap::{ImmediateData, RdmapOpcode};
use crate::wire::rdma::{DdpSegment, RdmaProfile, RdmaRefusal};
use std::collections::BTreeMap;

/// The tagged message under way in an ordered stream.
#[derive(Clone, Copy, Debug)]
struct Tagged {
    opcode: RdmapOpcode,
    stag: u32,
    next: u64,
    offset: u64,
    number: u64,
}

/// How messages of one source are numbered.
#[derive(Clone, Copy, Debug)]
struct Numbers {
    /// One more than the highest number that began.
    next: u64,
    /// Lower ones have been reported, or are too old.
    floor: u64,
}

/// Segments of a Write (UC) that continue one another, or a single one.
#[derive(Clone, Copy, Debug)]
pub(super) struct WriteRun {
    pub(super) msn: u32,
    /// In its message.
    pub(super) offset: u64,
    pub(super) stag: u32,
    /// In its region.
    pub(super) to: u64,
    pub(super) length: u64,
    /// The end of the message is in it.
    pub(super) is_last: bool,
    pub(super) is_bound: bool,
    pub(super) datagrams: u64,
}

#[derive(Debug)]
pub(super) struct Inbound {
    window: KeyedWindow<Landing>,
    /// Of numbered messages, and of the queues of DDP.
    numbers: [Numbers; 4],
    /// The present record of each region (bare).
    records: BTreeMap<u32, u64>,
    tagged: Option<Tagged>,
    /// Bytes of the present message on each queue (TCP).
    untagged: [u64; 3],
}

/// The number nearest to `next` that ends in these 32 bits.
pub(super) fn extended(low: u32, next: u64) -> Option<u64> {
    next.checked_add_signed(i64::from(low.wrapping_sub(next as u32) as i32))
}

impl Inbound {
    pub(super) fn new(config: &RdmaConfig) -> Inbound {
        let window = KeyedWindow::new(KeyedConfig {
            window: config.window,
            largest: config.max_message_bytes.saturating_add(IMMEDIATE_BYTES),
            timeout: (config.profile != RdmaProfile::Tcp).then_some(config.message_timeout),
            // No message within the horizon is forgotten: those that end meanwhile are at most twice as many, and the open ones.
            remember: 2 * HORIZON as usize + config.window,
            remember_for: Nanos(u64::MAX),
            runs: config.runs,
            ..KeyedConfig::default()
        });
        let numbers = [Numbers { next: 1, floor: 1 }; 4];
        Inbound { window, numbers, records: BTreeMap::new(), tagged: None, untagged: [0; 3] }
    }

    /// The number of the next message.
    pub(super) fn next_message(&self) -> u64 {
        self.numbers[0].next
    }

    pub(super) fn poll_timeout(&self) -> Option<Nanos> {
        self.window.poll_timeout()
    }

    pub(super) fn handle_timeout(&mut self, shared: &mut Shared<'_>) {
        self.window.handle_timeout(shared.now);
        self.drain(shared);
    }

    /// The connection ends; the peer has sent messages up to `next_msn`, if that is known.
    pub(super) fn finish(&mut self, next_msn: Option<u32>, shared: &mut Shared<'_>) {
        if let Some(next) = next_msn.and_then(|next| extended(next, self.numbers[0].next)) {
            self.pass_over(NUMBERED, next, shared);
        }
        self.window.finish(shared.now);
        self.drain(shared);
    }

    /// Take a segment: the place of its payload, if it has one, and what it asks for.
    pub(super) fn take(
        &mut self,
        segment: &DdpSegment,
        datagram: &[u8],
        shared: &mut Shared<'_>,
    ) -> Result<(Option<PlaceBytes>, Asked), RdmaRefusal> {
        let payload = &datagram[segment.payload.clone()];
        let asked = short_body(segment, payload, shared)?;
        let part = match shared.config.profile {
            RdmaProfile::Uc => self.numbered(segment, payload)?,
            RdmaProfile::Tcp => self.ordered(segment, payload)?,
            RdmaProfile::Bare => self.bare(segment, payload)?,
        };
        let to = self.admit(&part, segment.ddp.is_last(), 1, shared)?;
        if shared.config.profile == RdmaProfile::Tcp {
            self.advance(segment, &part);
        }
        if part.kind == PartKind::Short(segment.opcode)
            && let Some((data, _)) =
                ImmediateData::read(payload).filter(|_| segment.opcode.queue() == Some(0))
        {
            let (connection, value, is_solicited) =
                (shared.connection, data.value, segment.opcode.is_solicited());
            shared.events.push_back(RdmaEvent::Immediate { connection, value, is_solicited });
        }
        let (connection, message) = (shared.connection, numbered(part.key));
        Ok((to.map(|to| PlaceBytes { from: segment.payload.clone(), to, connection, message }), asked))
    }

    /// Take a run of a Write: its place and the number of its message. On an error, nothing has changed but that messages
    /// before it may have begun, as they do when its first segment is taken.
    pub(super) fn take_run(
        &mut self,
        run: &WriteRun,
        shared: &mut Shared<'_>,
    ) -> Result<(MemorySlice, u64), RdmaRefusal> {
        let &WriteRun { msn, offset, stag, to, length, is_last, is_bound, datagrams } = run;
        let number = extended(msn, self.numbers[0].next).ok_or(RdmaRefusal::Late)?;
        let end = offset.checked_add(length).ok_or(RdmaRefusal::OffsetWrap)?;
        let behind = if is_bound { IMMEDIATE_BYTES } else { 0 };
        let key = Key { source: NUMBERED, number };
        let kind = PartKind::Write { stag, to, is_bound };
        let part = Part { key, offset, length, size: is_last.then_some(end + behind), kind };
        let place = self.admit(&part, is_last, datagrams, shared)?;
        place.map(|place| (place, number)).ok_or(RdmaRefusal::WrongSize)
    }

    /// The place of a part of so many packets, if it may have one.
    fn admit(
        &mut self,
        part: &Part,
        is_last: bool,
        packets: u64,
        shared: &mut Shared<'_>,
    ) -> Result<Option<MemorySlice>, RdmaRefusal> {
        let target = target(part, shared)?;
        if part.key.source < RECORDS {
            let source = part.key.source;
            if part.key.number < self.numbers[source as usize - 1].floor {
                return Err(RdmaRefusal::Late);
            }
            self.pass_over(source, part.key.number, shared);
        }
        self.place(part, target, (is_last, packets), shared)
    }

    /// UC: the shim says all.
    fn numbered(&self, segment: &DdpSegment, payload: &[u8]) -> Result<Part, RdmaRefusal> {
        let shim = segment.shim.ok_or(RdmaRefusal::Unexpected)?;
        let number = extended(shim.msn, self.numbers[0].next).ok_or(RdmaRefusal::Late)?;
        if (shim.first == 1) != (shim.offset == 0) {
            return Err(RdmaRefusal::Inconsistent);
        }
        let key = Key { source: NUMBERED, number };
        part_of(segment, payload, key, u64::from(shim.offset), shim.immediate == 1)
    }

    /// TCP: a tagged message continues the one before, unless that had its last segment (RFC 5041, 5.1 and 5.3).
    fn ordered(&self, segment: &DdpSegment, payload: &[u8]) -> Result<Part, RdmaRefusal> {
        match segment.ddp {
            DdpHeader::Tagged(ddp) => {
                let (number, offset) = match self.tagged {
                    None => (self.numbers[0].next, 0),
                    Some(t)
                        if (t.opcode, t.stag, t.next) == (segment.opcode, ddp.stag, ddp.tagged_offset) =>
                    {
                        (t.number, t.offset)
                    }
                    Some(_) => return Err(RdmaRefusal::Inconsistent),
                };
                part_of(segment, payload, Key { source: NUMBERED, number }, offset, false)
            }
            DdpHeader::Untagged(ddp) => {
                let queue = ddp.queue as usize;
                let next = self.numbers[1 + queue].next;
                let progress = self.untagged[queue];
                // A message under way has begun, so its number is one less than the next.
                let expected = if progress > 0 { next - 1 } else { next };
                if ddp.message != expected as u32 || u64::from(ddp.offset) != progress {
                    return Err(RdmaRefusal::Inconsistent);
                }
                let key = Key { source: QUEUES + u64::from(ddp.queue), number: expected };
                part_of(segment, payload, key, progress, false)
            }
        }
    }

    /// A segment of an answer to a Read that has ended (TCP): it is checked for its place in the stream, and has none in memory.
    pub(super) fn skip(
        &mut self,
        segment: &DdpSegment,
        payload: &[u8],
        shared: &mut Shared<'_>,
    ) -> Result<(), RdmaRefusal> {
        let part = self.ordered(segment, payload)?;
        self.advance(segment, &part);
        if segment.ddp.is_last() {
            // It is there only if the Read ended between two segments.
            self.window.give_up(part.key, shared.now);
            self.drain(shared);
        }
        Ok(())
    }

    fn advance(&mut self, segment: &DdpSegment, part: &Part) {
        let (end, is_last) = (part.offset + part.length, segment.ddp.is_last());
        match segment.ddp {
            DdpHeader::Tagged(ddp) => {
                let under_way = Tagged {
                    opcode: segment.opcode,
                    stag: ddp.stag,
                    next: ddp.tagged_offset.wrapping_add(part.length),
                    offset: end,
                    number: part.key.number,
                };
                self.tagged = (!is_last).then_some(under_way);
            }
            DdpHeader::Untagged(ddp) => self.untagged[ddp.queue as usize] = if is_last { 0 } else { end },
        }
    }

    /// Bare: the headers of DDP, and for tagged segments the region's present record.
    fn bare(&self, segment: &DdpSegment, payload: &[u8]) -> Result<Part, RdmaRefusal> {
        match segment.ddp {
            DdpHeader::Tagged(ddp) => {
                // Only a region that exists gets an entry: see `next_record`.
                let number = self.records.get(&ddp.stag).copied().unwrap_or_default();
                let key = Key { source: RECORDS + u64::from(ddp.stag), number };
                part_of(segment, payload, key, ddp.tagged_offset, false)
                    .map(|part| Part { size: None, ..part })
            }
            DdpHeader::Untagged(ddp) => {
                let numbers = self.numbers[1 + ddp.queue as usize];
                let number = extended(ddp.message, numbers.next).ok_or(RdmaRefusal::Late)?;
                let key = Key { source: QUEUES + u64::from(ddp.queue), number };
                part_of(segment, payload, key, u64::from(ddp.offset), false)
            }
        }
    }

    /// Begin the messages before `number` of which nothing has arrived; those too many for the window are lost.
    fn pass_over(&mut self, source: u64, number: u64, shared: &mut Shared<'_>) {
        let numbers = &mut self.numbers[source as usize - 1];
        if number <= numbers.next {
            return;
        }
        let from = numbers.next.max(number.saturating_sub(shared.config.window as u64));
        let lost = numbers.next..from;
        numbers.next = number;
        numbers.floor = numbers.floor.max(number.saturating_sub(HORIZON));
        if !lost.is_empty() {
            numbers.floor = numbers.floor.max(from);
            lost_messages(lost, shared);
        }
        for number in from..number {
            let key = Key { source, number };
            let empty = Placement { key, ..Placement::default() };
            if let Ok(slot) =
                self.window.reserve(empty, shared.now, |_, old| Ok(old.unwrap_or(Landing::Unknown)))
            {
                slot.commit(shared.now);
            }
        }
        self.drain(shared);
    }

    fn place(
        &mut self,
        part: &Part,
        target: Option<MemorySlice>,
        (is_last, packets): (bool, u64),
        shared: &mut Shared<'_>,
    ) -> Result<Option<MemorySlice>, RdmaRefusal> {
        let is_record = part.key.source >= RECORDS;
        let mut placement = Placement {
            key: part.key,
            offset: part.offset,
            length: part.length,
            size: part.size,
            ..Placement::default()
        };
        let room = |_: u64, old: Option<Landing>| Ok(old.unwrap_or(Landing::Unknown));
        if is_record
            && let Err(why) = self.window.reserve(placement, shared.now, room).map(drop)
            && why != Reject::Outside
        {
            // The region is written again: a new record.
            self.window.give_up(placement.key, shared.now);
            self.drain(shared);
            placement.key.number = self.next_record(part);
        }
        let mut slot = self.window.reserve(placement, shared.now, room)?;
        let to = settle(slot.block(), part, target, shared)?;
        if let PartKind::Answer { stag, to } = part.kind {
            note_answer(stag, to, part.length, shared)?;
        }
        slot.of_packets(packets);
        let retired = slot.complete(shared.now);
        if !is_record {
            let numbers = &mut self.numbers[part.key.source as usize - 1];
            numbers.next = numbers.next.max(part.key.number + 1);
            numbers.floor = numbers.floor.max(numbers.next.saturating_sub(HORIZON));
        }
        self.drain(shared);
        if let Some(retired) = retired {
            end_message(&retired, shared);
        }
        if is_record && is_last {
            self.window.give_up(placement.key, shared.now);
            self.next_record(part);
            self.drain(shared);
        }
        Ok(to)
    }

    fn next_record(&mut self, part: &Part) -> u64 {
        let number = self.records.entry((part.key.source - RECORDS) as u32).or_default();
        *number += 1;
        *number
    }

    fn drain(&mut self, shared: &mut Shared<'_>) {
        while let Some(retired) = self.window.poll_retired() {
            end_message(&retired, shared);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::rdma::RdmaDatagram;

    /// RFC 5041, 4.3: 0 follows 2^32 - 1. On a stream, another number is refused, and the connection ends.
    #[test]
    fn message_zero_follows_the_last_of_32_bits() {
        let mut inbound = Inbound::new(&RdmaConfig { profile: RdmaProfile::Tcp, ..RdmaConfig::default() });
        let next = |inbound: &Inbound, number: u32| {
            let body = ImmediateData { value: 7 }.write();
            let head = DdpHeader::untagged(RdmapOpcode::Immediate, true, number, 0).write();
            let bytes = [&head[..], &body[..]].concat();
            let Ok(RdmaDatagram::Segment(segment)) = RdmaDatagram::read(RdmaProfile::Tcp, &bytes) else {
                panic!("a segment is read as one");
            };
            inbound.ordered(&segment, &bytes[segment.payload.clone()]).map(|part| part.key.number)
        };
        let wrap = 1 << 32;
        inbound.numbers[1] = Numbers { next: wrap - 1, floor: 1 };
        assert_eq!(next(&inbound, u32::MAX), Ok(wrap - 1));
        inbound.numbers[1].next = wrap;
        assert_eq!(next(&inbound, 0), Ok(wrap));
        assert_eq!(next(&inbound, 1), Err(RdmaRefusal::Inconsistent));
        assert_eq!((extended(0, wrap), extended(1, wrap)), (Some(wrap), Some(wrap + 1)), "and of datagrams");
    }
}
