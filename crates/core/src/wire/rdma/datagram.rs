//! A datagram, or the content of an FPDU, taken apart.

use super::ddp::DdpHeader;
use super::mpa::{self, CRC_BYTES, crc_octets};
use super::rdmap::RdmapOpcode;
use super::refusal::RdmaRefusal;
use super::shim::{self, UcControl, UcShim};
use crate::wire::crc32c::{Crc32cAppend, crc32c_append};
use std::ops::Range;

crate::named! {
    /// What carries DDP segments.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
    pub enum RdmaProfile {
        /// One DDP segment in each UDP datagram, nothing else: the format of the RFCs, without their transport.
        Bare = "bare",
        /// A shim with message number and offset before each segment, over UDP.
        Uc = "uc",
        /// MPA over TCP (RFC 5044).
        Tcp = "tcp",
    }
}

/// One datagram of the bare or UC profile, or the content of one FPDU.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RdmaDatagram {
    /// A part of a message.
    Segment(DdpSegment),
    /// Sets up, keeps or ends a UC connection; with its private data in the datagram.
    Control(UcShim, UcControl, Range<usize>),
}

/// A DDP segment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DdpSegment {
    /// The shim before it, on the UC profile.
    pub shim: Option<UcShim>,
    /// Its DDP header, with the control octet of RDMAP.
    pub ddp: DdpHeader,
    /// Its operation. It agrees with the header's kind and queue.
    pub opcode: RdmapOpcode,
    /// Its payload in the datagram.
    pub payload: Range<usize>,
}

impl RdmaDatagram {
    /// Takes a datagram apart; of the TCP profile, what an FPDU holds.
    ///
    /// # Errors
    /// The first reason for which a receiver must refuse it.
    pub fn read(profile: RdmaProfile, datagram: &[u8]) -> Result<RdmaDatagram, RdmaRefusal> {
        RdmaDatagram::read_with(profile, datagram, crc32c_append)
    }

    /// As [`read`](Self::read), with the caller's CRC-32C.
    ///
    /// # Errors
    /// The first reason for which a receiver must refuse it.
    pub fn read_with(
        profile: RdmaProfile,
        datagram: &[u8],
        crc32c: Crc32cAppend,
    ) -> Result<RdmaDatagram, RdmaRefusal> {
        if profile != RdmaProfile::Uc {
            return DdpSegment::read(datagram, None, 0).map(RdmaDatagram::Segment);
        }
        let (shim, _) = UcShim::read(datagram).ok_or(RdmaRefusal::Truncated)?;
        if shim.version != shim::VERSION {
            return Err(RdmaRefusal::BadVersion);
        }
        let end = match shim.crc {
            0 => datagram.len(),
            _ => checked(datagram, crc32c)?,
        };
        let body = &datagram[..end];
        if shim.control == 0 {
            return DdpSegment::read(body, Some(shim), UcShim::LEN).map(RdmaDatagram::Segment);
        }
        if shim.crc == 0 {
            return Err(RdmaRefusal::BadChecksum);
        }
        let rest = body.get(UcShim::LEN..).unwrap_or_default();
        let (control, private) = UcControl::read(rest).ok_or(RdmaRefusal::Truncated)?;
        let bytes = usize::from(control.private_bytes);
        if bytes > shim::MAX_PRIVATE_BYTES || private.len() < bytes {
            return Err(RdmaRefusal::WrongSize);
        }
        let start = UcShim::LEN + UcControl::LEN;
        Ok(RdmaDatagram::Control(shim, control, start..start + bytes))
    }
}

impl DdpSegment {
    fn read(body: &[u8], shim: Option<UcShim>, at: usize) -> Result<DdpSegment, RdmaRefusal> {
        let rest = body.get(at..).ok_or(RdmaRefusal::Truncated)?;
        let (ddp, payload) = DdpHeader::read(rest)?;
        let opcode = ddp.checked_opcode()?;
        Ok(DdpSegment { shim, ddp, opcode, payload: body.len() - payload.len()..body.len() })
    }
}

/// Where the content of a datagram with a CRC ends.
fn checked(datagram: &[u8], crc32c: Crc32cAppend) -> Result<usize, RdmaRefusal> {
    let (content, crc) = datagram.split_last_chunk::<CRC_BYTES>().ok_or(RdmaRefusal::Truncated)?;
    if content.len() < UcShim::LEN {
        return Err(RdmaRefusal::Truncated);
    }
    if crc_octets(crc32c(0, content)) == *crc { Ok(content.len()) } else { Err(RdmaRefusal::BadChecksum) }
}

/// Bytes of the first frame of a stream: of a connect frame or an FPDU, and all of `bytes` where they are neither, or of a
/// profile of datagrams.
#[must_use]
pub fn length(profile: RdmaProfile, bytes: &[u8]) -> usize {
    if profile != RdmaProfile::Tcp {
        return bytes.len();
    }
    let connect = mpa::Connect::read(bytes).ok().flatten().map(|(_, taken)| taken);
    let taken = connect.or_else(|| mpa::unframed(bytes).ok().flatten().map(|(_, taken)| taken));
    taken.unwrap_or(bytes.len())
}
