//! What a message is, where it lands, and what is reported of it at its end.

use super::config::RdmaConfig;
use super::event::{MemorySlice, RdmaEvent};
use super::reads::PendingRead;
use super::regions::{RegionRights, Regions};
use crate::assembly::Retired;
use crate::placement::{Key, Nanos};
use crate::wire::rdma::ddp::DdpHeader;
use crate::wire::rdma::rdmap::{ImmediateData, RdmapOpcode, ReadRequest};
use crate::wire::rdma::{DdpSegment, RdmaRefusal};
use std::collections::{BTreeMap, VecDeque};
use std::ops::Range;

/// Bytes of bound immediate data: it is the end of its Write's object.
pub(super) const IMMEDIATE_BYTES: u64 = ImmediateData::LEN as u64;
/// Sources of keys: numbered messages, the queues of DDP, and records of regions.
pub(super) const NUMBERED: u64 = 1;
pub(super) const QUEUES: u64 = 2;
pub(super) const RECORDS: u64 = 1 << 32;

/// The number of a message that its peer has numbered.
pub(super) fn numbered(key: Key) -> Option<u64> {
    (key.source == NUMBERED).then_some(key.number)
}

/// Where a message lands.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Landing {
    /// Nothing has arrived.
    Unknown,
    Write {
        /// STag, and the offset at which the message begins.
        at: Option<(u32, u64)>,
        is_bound: bool,
        immediate: Option<(u64, bool)>,
    },
    Receive {
        buffer: MemorySlice,
        opcode: RdmapOpcode,
        invalidate: u32,
    },
    Answer,
    Short(RdmapOpcode),
}

/// A segment, as a part of its message.
#[derive(Clone, Copy, Debug)]
pub(super) struct Part {
    pub(super) key: Key,
    pub(super) offset: u64,
    pub(super) length: u64,
    pub(super) size: Option<u64>,
    pub(super) kind: PartKind,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum PartKind {
    Write { stag: u32, to: u64, is_bound: bool },
    BoundImmediate { value: u64, is_solicited: bool },
    Send { opcode: RdmapOpcode, invalidate: u32 },
    Answer { stag: u32, to: u64 },
    Short(RdmapOpcode),
}

/// What a segment asks of its connection.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Asked {
    Nothing,
    Read(ReadRequest, MemorySlice),
    Terminated,
}

/// What a connection has beside the window.
pub(super) struct Shared<'a> {
    pub(super) connection: u32,
    pub(super) regions: &'a mut Regions,
    pub(super) receives: &'a mut VecDeque<MemorySlice>,
    pub(super) reads: &'a mut BTreeMap<u64, PendingRead>,
    pub(super) events: &'a mut VecDeque<RdmaEvent>,
    /// Complete, incomplete, lost.
    pub(super) ended: &'a mut [u64; 3],
    pub(super) config: &'a RdmaConfig,
    /// Answers of this side that wait to be sent, and their bytes.
    pub(super) answers: (usize, u64),
    pub(super) now: Nanos,
}

/// What a message of one short segment asks for.
pub(super) fn short_body(
    segment: &DdpSegment,
    payload: &[u8],
    shared: &Shared<'_>,
) -> Result<Asked, RdmaRefusal> {
    let Some(queue) = segment.opcode.queue() else { return Ok(Asked::Nothing) };
    if segment.opcode.is_send() {
        return Ok(Asked::Nothing);
    }
    let DdpHeader::Untagged(ddp) = segment.ddp else { return Err(RdmaRefusal::Mismatch) };
    if ddp.offset != 0 || ddp.last != 1 {
        return Err(RdmaRefusal::WrongSize);
    }
    match queue {
        1 => {
            let (request, rest) = ReadRequest::read(payload).ok_or(RdmaRefusal::WrongSize)?;
            if !rest.is_empty() {
                return Err(RdmaRefusal::WrongSize);
            }
            let (answers, bytes) = shared.answers;
            if answers >= usize::from(shared.config.inbound_reads) {
                return Err(RdmaRefusal::TooManyReads);
            }
            if request.size > shared.config.max_read_bytes {
                return Err(RdmaRefusal::OutOfBounds);
            }
            if bytes + u64::from(request.size) > shared.config.inbound_read_bytes {
                return Err(RdmaRefusal::TooManyReads);
            }
            let at = (request.source_offset, u64::from(request.size));
            let source =
                shared.regions.access(request.source_stag, shared.connection, at, RegionRights::READ)?;
            Ok(Asked::Read(request, source))
        }
        2 => Ok(Asked::Terminated),
        _ if payload.len() == ImmediateData::LEN => Ok(Asked::Nothing),
        _ => Err(RdmaRefusal::WrongSize),
    }
}

pub(super) fn part_of(
    segment: &DdpSegment,
    payload: &[u8],
    key: Key,
    offset: u64,
    is_bound: bool,
) -> Result<Part, RdmaRefusal> {
    let (length, opcode) = (payload.len() as u64, segment.opcode);
    let end = offset.checked_add(length).ok_or(RdmaRefusal::OffsetWrap)?;
    let is_immediate = matches!(opcode, RdmapOpcode::Immediate | RdmapOpcode::ImmediateSolicited);
    if is_bound && !is_immediate && opcode != RdmapOpcode::Write {
        return Err(RdmaRefusal::Inconsistent);
    }
    let kind = match segment.ddp {
        DdpHeader::Tagged(ddp) if opcode == RdmapOpcode::Write => {
            PartKind::Write { stag: ddp.stag, to: ddp.tagged_offset, is_bound }
        }
        DdpHeader::Tagged(ddp) => PartKind::Answer { stag: ddp.stag, to: ddp.tagged_offset },
        DdpHeader::Untagged(ddp) if opcode.is_send() => {
            if u64::from(ddp.offset) != offset {
                return Err(RdmaRefusal::Inconsistent);
            }
            PartKind::Send { opcode, invalidate: ddp.invalidate_stag }
        }
        DdpHeader::Untagged(_) if is_immediate && is_bound => {
            let value = ImmediateData::read(payload).ok_or(RdmaRefusal::WrongSize)?.0.value;
            PartKind::BoundImmediate { value, is_solicited: opcode.is_solicited() }
        }
        DdpHeader::Untagged(_) => PartKind::Short(opcode),
    };
    if matches!(kind, PartKind::Short(_)) && offset != 0 {
        return Err(RdmaRefusal::Inconsistent);
    }
    let is_bound_write = is_bound && opcode == RdmapOpcode::Write;
    let behind = if is_bound_write { IMMEDIATE_BYTES } else { 0 };
    let size = segment.ddp.is_last().then_some(end + behind);
    Ok(Part { key, offset, length, size, kind })
}

/// The place of a tagged part, if its peer may write there. A part without bytes needs none (RFC 5040, 8.1).
pub(super) fn target(part: &Part, shared: &Shared<'_>) -> Result<Option<MemorySlice>, RdmaRefusal> {
    let at = |to| (to, part.length);
    match part.kind {
        PartKind::Write { to, .. } | PartKind::Answer { to, .. }
            if to < part.offset && part.key.source < RECORDS =>
        {
            Err(RdmaRefusal::OffsetWrap)
        }
        PartKind::Write { stag, to, .. } if part.length > 0 => {
            shared.regions.access(stag, shared.connection, at(to), RegionRights::WRITE).map(Some)
        }
        PartKind::Answer { stag, to } if part.length > 0 => {
            shared.regions.answer(stag, shared.connection, at(to)).map(|place| Some(place.slice))
        }
        _ => Ok(None),
    }
}

/// Make a message's landing agree with its part, and give the part its place.
pub(super) fn settle(
    landing: &mut Landing,
    part: &Part,
    target: Option<MemorySlice>,
    shared: &mut Shared<'_>,
) -> Result<Option<MemorySlice>, RdmaRefusal> {
    let new = match (*landing, part.kind) {
        (Landing::Unknown | Landing::Write { .. }, PartKind::Write { stag, to, is_bound }) => {
            let is_record = part.key.source >= RECORDS;
            let begins = (stag, if is_record { 0 } else { to - part.offset });
            match *landing {
                Landing::Write { at, is_bound: bound, immediate } => {
                    if bound != is_bound || at.is_some_and(|at| at != begins) {
                        return Err(RdmaRefusal::Inconsistent);
                    }
                    Landing::Write { at: Some(begins), is_bound, immediate }
                }
                _ => Landing::Write { at: Some(begins), is_bound, immediate: None },
            }
        }
        (Landing::Unknown, PartKind::BoundImmediate { value, is_solicited }) => {
            Landing::Write { at: None, is_bound: true, immediate: Some((value, is_solicited)) }
        }
        (
            Landing::Write { at, is_bound: true, immediate: None },
            PartKind::BoundImmediate { value, is_solicited },
        ) => Landing::Write { at, is_bound: true, immediate: Some((value, is_solicited)) },
        (Landing::Unknown, PartKind::Send { opcode, invalidate }) => {
            let buffer = *shared.receives.front().ok_or(RdmaRefusal::NoBuffer)?;
            fits(part, buffer)?;
            shared.receives.pop_front();
            Landing::Receive { buffer, opcode, invalidate }
        }
        (Landing::Receive { buffer, opcode, invalidate }, PartKind::Send { opcode: o, invalidate: i })
            if (opcode, invalidate) == (o, i) =>
        {
            fits(part, buffer)?;
            *landing
        }
        (Landing::Unknown | Landing::Answer, PartKind::Answer { .. }) => Landing::Answer,
        (Landing::Unknown, PartKind::Short(opcode)) => Landing::Short(opcode),
        _ => return Err(RdmaRefusal::Inconsistent),
    };
    *landing = new;
    match new {
        Landing::Receive { buffer, .. } if part.length > 0 => Ok(Some(buffer.part(part.offset, part.length))),
        _ => Ok(target),
    }
}

fn fits(part: &Part, buffer: MemorySlice) -> Result<(), RdmaRefusal> {
    let end = part.size.unwrap_or(part.offset + part.length);
    if end <= buffer.length { Ok(()) } else { Err(RdmaRefusal::NoBuffer) }
}

/// Bytes of an answer count once in their Read, whichever request they answer.
pub(super) fn note_answer(
    stag: u32,
    to: u64,
    length: u64,
    shared: &mut Shared<'_>,
) -> Result<(), RdmaRefusal> {
    if length == 0 {
        return Ok(());
    }
    let place = shared.regions.answer(stag, shared.connection, (to, length))?;
    let read = shared.reads.get_mut(&place.read).ok_or(RdmaRefusal::BadStag)?;
    let range = place.offset..place.offset + length;
    read.seen.admits(&range)?;
    read.seen.insert(&range);
    Ok(())
}

/// Report lost messages, together with those just before them.
pub(super) fn lost_messages(messages: Range<u64>, shared: &mut Shared<'_>) {
    shared.ended[2] += messages.end - messages.start;
    let connection = shared.connection;
    match shared.events.back_mut() {
        Some(RdmaEvent::MessagesLost { connection: of, messages: before })
            if *of == connection && before.end == messages.start =>
        {
            before.end = messages.end;
        }
        _ => shared.events.push_back(RdmaEvent::MessagesLost { connection, messages }),
    }
}

pub(super) fn end_message(retired: &Retired<Landing>, shared: &mut Shared<'_>) {
    let connection = shared.connection;
    let is_whole = retired.is_complete();
    match retired.block {
        Landing::Unknown => {
            if !is_whole {
                lost_messages(retired.key.number..retired.key.number + 1, shared);
            }
            return;
        }
        Landing::Write { at, is_bound, immediate } => {
            let event = written(retired, at, is_bound, immediate, connection);
            shared.events.push_back(event);
        }
        Landing::Receive { buffer, opcode, invalidate } => {
            let invalidated = is_whole && opcode.invalidates() && {
                let needed = RegionRights { invalidate: true, ..RegionRights::default() };
                let allowed = shared.regions.access(invalidate, connection, (0, 0), needed);
                allowed.is_ok() && shared.regions.invalidate(invalidate).is_ok()
            };
            shared.events.push_back(RdmaEvent::Received {
                connection,
                message: numbered(retired.key),
                buffer,
                size: retired.size,
                valid: between(&retired.missing, retired.size.unwrap_or(retired.range.end)),
                missing: retired.missing.clone(),
                invalidated: invalidated.then_some(invalidate),
                is_solicited: opcode.is_solicited(),
            });
        }
        Landing::Answer | Landing::Short(_) => {}
    }
    shared.ended[usize::from(!is_whole)] += 1;
}

/// What of the bytes up to `end` is in none of these ascending ranges.
fn between(gaps: &[Range<u64>], end: u64) -> Vec<Range<u64>> {
    let (mut between, mut next) = (Vec::new(), 0);
    for gap in gaps.iter().chain([&(end..end)]) {
        if next < gap.start.min(end) {
            between.push(next..gap.start.min(end));
        }
        next = gap.end;
    }
    between
}

fn written(
    retired: &Retired<Landing>,
    at: Option<(u32, u64)>,
    is_bound: bool,
    immediate: Option<(u64, bool)>,
    connection: u32,
) -> RdmaEvent {
    let is_record = retired.key.source >= RECORDS;
    let (stag, base) = at.unwrap_or_default();
    // Of a bound Write whose end is known, the last eight bytes are the immediate data.
    let end = match retired.size {
        Some(size) if is_bound => size - IMMEDIATE_BYTES,
        _ => retired.range.end,
    };
    let valid = between(&retired.missing, end).into_iter();
    let valid = valid.map(|range| base + range.start..base + range.end).collect();
    let mut missing: Vec<Range<u64>> = Vec::new();
    for range in &retired.missing {
        let range = range.start.min(end)..range.end.min(end);
        if range.is_empty() {
            continue;
        }
        // Nothing is known of what lies before the first byte of a record.
        if !is_record || range.start > 0 {
            missing.push(base + range.start..base + range.end);
        }
    }
    RdmaEvent::Written {
        connection,
        message: numbered(retired.key),
        stag,
        valid,
        missing,
        is_complete: retired.is_complete() && !is_record,
        immediate: immediate.map(|(value, _)| value),
        is_solicited: immediate.is_some_and(|(_, is_solicited)| is_solicited),
    }
}
