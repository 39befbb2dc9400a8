//! The Terminate message (RFC 5040, 4.8): why a stream ends.
//!
//! ```text
//!   control (4) │ length of the segment (2, with M) │ its DDP header (14 or 18, with D) │ its Read Request (28, with R)
//! ```

use super::ddp::DdpHeader;
use super::rdmap::ReadRequest;
use super::refusal::RdmaRefusal;

crate::header! {
    /// The first word of a Terminate (RFC 5040, 4.8).
    TerminateControl [4] {
        be u32 @ 0 {
            /** 0 RDMAP, 1 DDP, 2 MPA. */ layer[31:28],
            /** Kind of error in that layer. */ error_type[27:24],
            /** The error. */ code[23:16],
            /** M: the segment's length follows. */ has_length[15],
            /** D: its DDP header follows. */ has_ddp[14],
            /** R: its Read Request follows. */ has_read[13],
            /** Zero. */ reserved[12:0]
        }
    }
}

/// Layer, kind and code of an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct TerminateReason {
    /// 0 RDMAP, 1 DDP, 2 MPA.
    pub layer: u8,
    /// Kind of error in that layer.
    pub error_type: u8,
    /// The error.
    pub code: u8,
}

/// Every error that the RFCs name: layer, kind, code, meaning (RFC 5040, 4.8; RFC 5041, 6.2; RFC 5044, 8; RFC 6581, 9).
pub const TERMINATE_REASONS: [(u8, u8, u8, &str); 32] = [
    (0, 0, 0x00, "local catastrophic error"),
    (0, 1, 0x00, "remote protection: invalid STag"),
    (0, 1, 0x01, "remote protection: base or bounds violation"),
    (0, 1, 0x02, "remote protection: access rights violation"),
    (0, 1, 0x03, "remote protection: STag not of this stream"),
    (0, 1, 0x04, "remote protection: TO wrap"),
    (0, 1, 0x09, "remote protection: STag cannot be invalidated"),
    (0, 1, 0xFF, "remote protection: unspecified"),
    (0, 2, 0x05, "remote operation: invalid RDMAP version"),
    (0, 2, 0x06, "remote operation: unexpected opcode"),
    (0, 2, 0x07, "remote operation: catastrophic, localized to the stream"),
    (0, 2, 0x08, "remote operation: catastrophic, global"),
    (0, 2, 0x09, "remote operation: STag cannot be invalidated"),
    (0, 2, 0xFF, "remote operation: unspecified"),
    (1, 0, 0x00, "local catastrophic error"),
    (1, 1, 0x00, "tagged buffer: invalid STag"),
    (1, 1, 0x01, "tagged buffer: base or bounds violation"),
    (1, 1, 0x02, "tagged buffer: STag not of this stream"),
    (1, 1, 0x03, "tagged buffer: TO wrap"),
    (1, 1, 0x04, "tagged buffer: invalid DDP version"),
    (1, 2, 0x01, "untagged buffer: invalid QN"),
    (1, 2, 0x02, "untagged buffer: no buffer available"),
    (1, 2, 0x03, "untagged buffer: MSN out of range"),
    (1, 2, 0x04, "untagged buffer: invalid MO"),
    (1, 2, 0x05, "untagged buffer: message too long"),
    (1, 2, 0x06, "untagged buffer: invalid DDP version"),
    (2, 0, 0x01, "MPA: TCP connection lost"),
    (2, 0, 0x02, "MPA: CRC error"),
    (2, 0, 0x03, "MPA: marker and length disagree"),
    (2, 0, 0x04, "MPA: invalid request or reply"),
    (2, 0, 0x05, "MPA: local catastrophic error"),
    (2, 0, 0x06, "MPA: insufficient IRD resources"),
];

impl TerminateReason {
    /// What a Terminate says of a refused segment; `None` where the RFCs have no words for it.
    #[must_use]
    pub fn of(refusal: RdmaRefusal, is_tagged: bool) -> Option<TerminateReason> {
        let reason = |layer, error_type, code| Some(TerminateReason { layer, error_type, code });
        match (refusal, is_tagged) {
            (RdmaRefusal::BadStag, true) => reason(1, 1, 0),
            (RdmaRefusal::OutOfBounds, true) => reason(1, 1, 1),
            (RdmaRefusal::OffsetWrap, true) => reason(1, 1, 3),
            (RdmaRefusal::BadVersion, true) => reason(1, 1, 4),
            (RdmaRefusal::BadVersion, false) => reason(1, 2, 6),
            (RdmaRefusal::NoBuffer, false) => reason(1, 2, 2),
            (RdmaRefusal::WrongSize, false) => reason(1, 2, 5),
            (RdmaRefusal::Inconsistent, false) => reason(1, 2, 4),
            (RdmaRefusal::BadStag, false) => reason(0, 1, 0),
            (RdmaRefusal::OutOfBounds, false) => reason(0, 1, 1),
            (RdmaRefusal::OffsetWrap, false) => reason(0, 1, 4),
            (RdmaRefusal::NoAccess, _) => reason(0, 1, 2),
            (RdmaRefusal::BadOpcode | RdmaRefusal::Atomic | RdmaRefusal::Mismatch, _) => reason(0, 2, 6),
            (RdmaRefusal::BadChecksum, _) => reason(2, 0, 2),
            _ => None,
        }
    }

    /// Its meaning; `None` if no RFC names it.
    #[must_use]
    pub fn meaning(self) -> Option<&'static str> {
        let is_it =
            |row: &&(u8, u8, u8, &str)| (row.0, row.1, row.2) == (self.layer, self.error_type, self.code);
        TERMINATE_REASONS.iter().find(is_it).map(|row| row.3)
    }
}

/// A Terminate, with what is known of the segment that caused it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Terminate {
    /// Why.
    pub reason: TerminateReason,
    /// Length of that segment.
    pub length: Option<u16>,
    /// Its header.
    pub ddp: Option<DdpHeader>,
    /// Its body, if it is a Read Request.
    pub read: Option<ReadRequest>,
}

impl Terminate {
    /// For a segment that was refused; an unspecified remote error where the RFCs have no word for the reason.
    #[must_use]
    pub fn of(refusal: RdmaRefusal, ddp: &DdpHeader) -> Terminate {
        let is_tagged = matches!(ddp, DdpHeader::Tagged(_));
        let other = TerminateReason { layer: 0, error_type: 2, code: 0xFF };
        let reason = TerminateReason::of(refusal, is_tagged).unwrap_or(other);
        Terminate { reason, length: Some(0), ddp: Some(*ddp), read: None }
    }

    /// For a frame of a stream in which no segment could be read (RFC 5044, 8).
    #[must_use]
    pub fn of_frame(refusal: RdmaRefusal) -> Terminate {
        let local = TerminateReason { layer: 2, error_type: 0, code: 5 };
        let reason = match refusal {
            RdmaRefusal::BadChecksum => TerminateReason { code: 2, ..local },
            RdmaRefusal::Truncated => TerminateReason { code: 1, ..local },
            _ => local,
        };
        Terminate { reason, length: None, ddp: None, read: None }
    }

    /// Its bytes, in the order of the RFC.
    #[must_use]
    pub fn write(&self) -> Vec<u8> {
        let control = TerminateControl {
            layer: u32::from(self.reason.layer),
            error_type: u32::from(self.reason.error_type),
            code: u32::from(self.reason.code),
            has_length: u32::from(self.length.is_some()),
            has_ddp: u32::from(self.ddp.is_some()),
            has_read: u32::from(self.read.is_some()),
            reserved: 0,
        };
        let mut octets = control.write().to_vec();
        octets.extend(self.length.iter().flat_map(|length| length.to_be_bytes()));
        octets.extend(self.ddp.iter().flat_map(DdpHeader::write));
        octets.extend(self.read.iter().flat_map(ReadRequest::write));
        octets
    }

    /// Reads one. Linux's software peers built for little-endian hosts write the halves of octets 0 and 2 the other way
    /// round: a word that has no meaning in the RFC's order, and has one in theirs, is read in theirs.
    ///
    /// # Errors
    /// [`RdmaRefusal::Truncated`].
    pub fn read(body: &[u8]) -> Result<Terminate, RdmaRefusal> {
        let (control, mut rest) = TerminateControl::read(body).ok_or(RdmaRefusal::Truncated)?;
        let reason = |control: TerminateControl| TerminateReason {
            layer: control.layer as u8,
            error_type: control.error_type as u8,
            code: control.code as u8,
        };
        let swapped = TerminateControl {
            layer: control.error_type,
            error_type: control.layer,
            has_length: control.reserved >> 8 & 1,
            has_ddp: control.reserved >> 9 & 1,
            has_read: control.reserved >> 10 & 1,
            reserved: 0,
            ..control
        };
        let is_swapped = reason(control).meaning().is_none() && reason(swapped).meaning().is_some();
        let control = if is_swapped { swapped } else { control };
        let mut read = Terminate { reason: reason(control), length: None, ddp: None, read: None };
        if control.has_length == 1 {
            let (length, after) = rest.split_first_chunk::<2>().ok_or(RdmaRefusal::Truncated)?;
            (read.length, rest) = (Some(u16::from_be_bytes(*length)), after);
        }
        if control.has_ddp == 1 {
            let (ddp, after) = DdpHeader::read(rest)?;
            (read.ddp, rest) = (Some(ddp), after);
        }
        if control.has_read == 1 {
            read.read = Some(ReadRequest::read(rest).ok_or(RdmaRefusal::Truncated)?.0);
        }
        Ok(read)
    }
}
