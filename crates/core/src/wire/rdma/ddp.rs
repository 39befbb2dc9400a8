//! DDP segments (RFC 5041), with the control octet of RDMAP in the octet that DDP reserves for its user.

use super::rdmap::{self, RdmapOpcode};
use super::refusal::RdmaRefusal;

/// The only version of DDP (RFC 5041, 4.1).
pub const VERSION: u8 = 1;

crate::header! {
    /// The header of a tagged segment (RFC 5041, 4.2).
    DdpTagged [14] {
        be u8 @ 0 {
            /** T: 1, its payload belongs in a tagged buffer. */ tagged[7],
            /** L: the last segment of its message. */ last[6],
            /** Zero; not checked on receipt. */ reserved[5:2],
            /** DV: 1. */ version[1:0]
        }
        be u8 @ 1 {
            /** RV: 1 (RFC 5040, 4.1). */ rdmap_version[7:6],
            /** Zero; not checked on receipt. */ rdmap_reserved[5:4],
            /** The operation. */ opcode[3:0]
        }
        be u32 @ 2 { /** The buffer: index (24 bits) and key (8 bits). */ stag }
        be u64 @ 6 { /** TO: where the payload begins in the buffer. */ tagged_offset }
    }
}

crate::header! {
    /// The header of an untagged segment (RFC 5041, 4.3).
    DdpUntagged [18] {
        be u8 @ 0 {
            /** T: 0. */ tagged[7],
            /** L: the last segment of its message. */ last[6],
            /** Zero; not checked on receipt. */ reserved[5:2],
            /** DV: 1. */ version[1:0]
        }
        be u8 @ 1 {
            /** RV: 1 (RFC 5040, 4.1). */ rdmap_version[7:6],
            /** Zero; not checked on receipt. */ rdmap_reserved[5:4],
            /** The operation. */ opcode[3:0]
        }
        be u32 @ 2 { /** The STag to invalidate, of a Send with Invalidate; else zero (RFC 5040, 4.1). */ invalidate_stag }
        be u32 @ 6 { /** QN: the queue. */ queue }
        be u32 @ 10 { /** MSN: the message's number on its queue, from 1. */ message }
        be u32 @ 14 { /** MO: where the payload begins in the message. */ offset }
    }
}

/// The header of a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DdpHeader {
    /// For a tagged buffer.
    Tagged(DdpTagged),
    /// For the next buffer of a queue.
    Untagged(DdpUntagged),
}

impl DdpTagged {
    /// That of a segment with this operation and place.
    pub(crate) fn of(opcode: RdmapOpcode, is_last: bool, stag: u32, tagged_offset: u64) -> DdpTagged {
        DdpTagged {
            tagged: 1,
            last: u8::from(is_last),
            version: VERSION,
            rdmap_version: rdmap::VERSION,
            opcode: opcode.code(),
            stag,
            tagged_offset,
            ..DdpTagged::default()
        }
    }
}

impl DdpHeader {
    /// A tagged header.
    #[must_use]
    pub fn tagged(opcode: RdmapOpcode, is_last: bool, stag: u32, tagged_offset: u64) -> DdpHeader {
        DdpHeader::Tagged(DdpTagged::of(opcode, is_last, stag, tagged_offset))
    }

    /// An untagged header, on the queue of its operation.
    #[must_use]
    pub fn untagged(opcode: RdmapOpcode, is_last: bool, message: u32, offset: u32) -> DdpHeader {
        DdpHeader::Untagged(DdpUntagged {
            last: u8::from(is_last),
            version: VERSION,
            rdmap_version: rdmap::VERSION,
            opcode: opcode.code(),
            queue: opcode.queue().unwrap_or_default(),
            message,
            offset,
            ..DdpUntagged::default()
        })
    }

    /// The same header with an STag to invalidate; a tagged one has no room for it.
    #[must_use]
    pub fn invalidating(self, stag: u32) -> DdpHeader {
        match self {
            DdpHeader::Untagged(header) => {
                DdpHeader::Untagged(DdpUntagged { invalidate_stag: stag, ..header })
            }
            tagged @ DdpHeader::Tagged(_) => tagged,
        }
    }

    /// Splits a header off the front of a segment.
    ///
    /// # Errors
    /// [`RdmaRefusal::Truncated`].
    pub fn read(segment: &[u8]) -> Result<(DdpHeader, &[u8]), RdmaRefusal> {
        let is_tagged = segment.first().ok_or(RdmaRefusal::Truncated)? >> 7 == 1;
        let read = match is_tagged {
            true => DdpTagged::read(segment).map(|(header, rest)| (DdpHeader::Tagged(header), rest)),
            false => DdpUntagged::read(segment).map(|(header, rest)| (DdpHeader::Untagged(header), rest)),
        };
        read.ok_or(RdmaRefusal::Truncated)
    }

    /// Its bytes: 14 or 18.
    #[must_use]
    pub fn write(&self) -> Vec<u8> {
        match self {
            DdpHeader::Tagged(header) => header.write().to_vec(),
            DdpHeader::Untagged(header) => header.write().to_vec(),
        }
    }

    /// Whether this segment is the last of its message.
    #[must_use]
    pub fn is_last(&self) -> bool {
        match self {
            DdpHeader::Tagged(header) => header.last == 1,
            DdpHeader::Untagged(header) => header.last == 1,
        }
    }

    /// Its operation, if the versions are known and operation, kind and queue agree (RFC 5040, 4.1 and 5.1).
    ///
    /// # Errors
    /// [`RdmaRefusal::BadVersion`], [`RdmaRefusal::BadOpcode`], [`RdmaRefusal::Atomic`] or [`RdmaRefusal::Mismatch`].
    pub fn checked_opcode(&self) -> Result<RdmapOpcode, RdmaRefusal> {
        let (versions, code, queue) = match self {
            DdpHeader::Tagged(h) => ((h.version, h.rdmap_version), h.opcode, None),
            DdpHeader::Untagged(h) => ((h.version, h.rdmap_version), h.opcode, Some(h.queue)),
        };
        if versions != (VERSION, rdmap::VERSION) {
            return Err(RdmaRefusal::BadVersion);
        }
        match RdmapOpcode::of(code).ok_or(RdmaRefusal::BadOpcode)? {
            RdmapOpcode::AtomicRequest | RdmapOpcode::AtomicResponse => Err(RdmaRefusal::Atomic),
            opcode if opcode.queue() == queue => Ok(opcode),
            _ => Err(RdmaRefusal::Mismatch),
        }
    }
}
