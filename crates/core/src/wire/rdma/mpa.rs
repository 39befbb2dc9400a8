//! MPA: DDP segments in a byte stream (RFC 5044; the enhanced set-up of RFC 6581).
//!
//! ```text
//!   connect  key (16) │ M C R S, revision │ length │ private data       FPDU  length (2) │ segment │ pad to 4 │ CRC-32C
//! ```
//!
//! Markers are refused: a peer that asks for them is answered with a rejection. The field of the CRC is always there; if neither end asks
//! for the CRC, it is sent as zero and not looked at (RFC 5044, 7.1.1).

use super::refusal::RdmaRefusal;
use crate::wire::crc32c::{Crc32cAppend, crc32c, crc32c_append};

crate::header! {
    /// A request or reply of a connection (RFC 5044, 7.1.1).
    MpaFrame [20] {
        be u64 @ 0 { /** First half of the key. */ key_start }
        be u64 @ 8 { /** Second half of the key. */ key_end }
        be u16 @ 16 {
            /** M: its sender requires markers. */ markers[15],
            /** C: its sender requires the CRC. */ crc[14],
            /** R: the connection is rejected; zero in a request. */ reject[13],
            /** S: depths of Reads precede the private data (RFC 6581, 9). */ enhanced[12],
            /** Zero; not checked on receipt. */ reserved[11:8],
            /** Rev: 1, or 2 with S. */ revision[7:0]
        }
        be u16 @ 18 { /** PD_Length: bytes that follow, at most 512. */ private_bytes }
    }
}

crate::header! {
    /// What precedes private data in an enhanced request or reply (RFC 6581, 9).
    MpaEnhanced [4] {
        be u16 @ 0 {
            /** A: peer to peer. */ peer_to_peer[15],
            /** B: an empty FPDU may be the first. */ empty_first[14],
            /** IRD: Reads that its sender serves at a time. */ ird[13:0]
        }
        be u16 @ 2 {
            /** C: an empty Write may be the first. */ write_first[15],
            /** D: an empty Read may be the first. */ read_first[14],
            /** ORD: Reads that its sender has outstanding at a time. */ ord[13:0]
        }
    }
}

/// Bytes of the length before the segment of an FPDU.
pub const LENGTH_BYTES: usize = 2;
/// Bytes of a CRC-32C behind a datagram or in an FPDU.
pub const CRC_BYTES: usize = 4;
/// Key of a request.
pub const REQUEST_KEY: &[u8; 16] = b"MPA ID Req Frame";
/// Key of a reply.
pub const REPLY_KEY: &[u8; 16] = b"MPA ID Rep Frame";
/// Private data in bytes, at most (RFC 5044, 7.1.1).
pub const MAX_PRIVATE_BYTES: usize = 512;
/// Longest segment in an FPDU: its length has 16 bits.
pub const MAX_SEGMENT_BYTES: usize = u16::MAX as usize;

/// A CRC-32C as it goes on the wire, in MPA (RFC 5044, 4.4; RFC 3720, 12.1) as in the trailer of the UC profile: the
/// least significant octet first, which is the order of its reflected bits.
#[must_use]
pub const fn crc_octets(crc: u32) -> [u8; CRC_BYTES] {
    crc.to_le_bytes()
}

/// A request or a reply, whole.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Connect {
    /// Whether it is a reply.
    pub is_reply: bool,
    /// Its flags and revision; the key and the length are filled in by [`write`](Connect::write).
    pub frame: MpaFrame,
    /// Private data; in an enhanced frame, what follows [`MpaEnhanced`].
    pub private: Vec<u8>,
    /// Depths of Reads, in an enhanced frame.
    pub enhanced: Option<MpaEnhanced>,
}

impl Connect {
    /// A request of revision 1, with CRC and without markers.
    #[must_use]
    pub fn request() -> Connect {
        let frame = MpaFrame { crc: 1, revision: 1, ..MpaFrame::default() };
        Connect { is_reply: false, frame, private: Vec::new(), enhanced: None }
    }

    /// The reply that accepts or rejects.
    #[must_use]
    pub fn reply(reject: bool) -> Connect {
        let request = Connect::request();
        Connect { is_reply: true, frame: MpaFrame { reject: u16::from(reject), ..request.frame }, ..request }
    }

    /// Its bytes. Private data beyond [`MAX_PRIVATE_BYTES`] is cut.
    #[must_use]
    pub fn write(&self) -> Vec<u8> {
        let key = if self.is_reply { REPLY_KEY } else { REQUEST_KEY };
        let mut body: Vec<u8> = self.enhanced.iter().flat_map(MpaEnhanced::write).collect();
        body.extend_from_slice(&self.private);
        body.truncate(MAX_PRIVATE_BYTES);
        let (key, frame) = (u128::from_be_bytes(*key), self.frame);
        let (key_start, key_end) = ((key >> 64) as u64, key as u64);
        let enhanced = u16::from(self.enhanced.is_some());
        let frame = MpaFrame { key_start, key_end, enhanced, private_bytes: body.len() as u16, ..frame };
        [&frame.write()[..], &body].concat()
    }

    /// Reads one from the front of a stream, with the bytes it takes; `None`: more bytes are needed.
    ///
    /// # Errors
    /// [`RdmaRefusal::Mismatch`] for another key, [`RdmaRefusal::BadVersion`], [`RdmaRefusal::WrongSize`] for too much private
    /// data, [`RdmaRefusal::Markers`].
    pub fn read(stream: &[u8]) -> Result<Option<(Connect, usize)>, RdmaRefusal> {
        let seen = &stream[..stream.len().min(REQUEST_KEY.len())];
        let is_reply = REPLY_KEY.starts_with(seen);
        if !is_reply && !REQUEST_KEY.starts_with(seen) {
            return Err(RdmaRefusal::Mismatch);
        }
        let Some((frame, rest)) = MpaFrame::read(stream) else { return Ok(None) };
        let bytes = usize::from(frame.private_bytes);
        if !(1..=2).contains(&frame.revision) {
            return Err(RdmaRefusal::BadVersion);
        }
        if bytes > MAX_PRIVATE_BYTES {
            return Err(RdmaRefusal::WrongSize);
        }
        if frame.markers == 1 {
            return Err(RdmaRefusal::Markers);
        }
        let Some(body) = rest.get(..bytes) else { return Ok(None) };
        let (enhanced, private) = match frame.enhanced {
            1 => MpaEnhanced::read(body).map(|(e, rest)| (Some(e), rest)).ok_or(RdmaRefusal::WrongSize)?,
            _ => (None, body),
        };
        let connect = Connect { is_reply, frame, private: private.to_vec(), enhanced };
        Ok(Some((connect, MpaFrame::LEN + bytes)))
    }
}

/// Length of the frame at the front of a stream: the first of each direction is a request or a reply, all others are FPDUs. `None`: more
/// bytes are needed. The content is not judged: a request for markers has a length, and so has an FPDU with a wrong CRC.
///
/// # Errors
/// [`RdmaRefusal::Mismatch`] if the first frame has another key, [`RdmaRefusal::WrongSize`] for too much private data or an
/// empty FPDU. The stream cannot be read any further.
pub fn frame_length(is_first: bool, stream: &[u8]) -> Result<Option<usize>, RdmaRefusal> {
    if !is_first {
        let Some((length, _)) = stream.split_first_chunk::<2>() else { return Ok(None) };
        return match usize::from(u16::from_be_bytes(*length)) {
            0 => Err(RdmaRefusal::WrongSize),
            length => Ok(Some((2 + length).next_multiple_of(4) + CRC_BYTES)),
        };
    }
    let seen = &stream[..stream.len().min(REQUEST_KEY.len())];
    if !REPLY_KEY.starts_with(seen) && !REQUEST_KEY.starts_with(seen) {
        return Err(RdmaRefusal::Mismatch);
    }
    match MpaFrame::read(stream).map(|(frame, _)| usize::from(frame.private_bytes)) {
        Some(bytes) if bytes > MAX_PRIVATE_BYTES => Err(RdmaRefusal::WrongSize),
        bytes => Ok(bytes.map(|bytes| MpaFrame::LEN + bytes)),
    }
}

/// The FPDU of a segment; `None` if that is empty or longer than [`MAX_SEGMENT_BYTES`].
#[must_use]
pub fn fpdu(segment: &[u8]) -> Option<Vec<u8>> {
    let length = u16::try_from(segment.len()).ok().filter(|&length| length > 0)?;
    let mut frame = [&length.to_be_bytes()[..], segment].concat();
    frame.resize(frame.len().next_multiple_of(4), 0);
    let crc = crc32c(&frame);
    frame.extend(crc_octets(crc));
    Some(frame)
}

/// The segment in the FPDU at the front of a stream, and the bytes that the FPDU takes; `None`: more bytes are needed.
///
/// # Errors
/// [`RdmaRefusal::WrongSize`] for an empty one, [`RdmaRefusal::BadChecksum`]. After either, the stream cannot be read
/// any further (RFC 5044, 8).
pub fn unframed(stream: &[u8]) -> Result<Option<(&[u8], usize)>, RdmaRefusal> {
    unframed_with(stream, Some(crc32c_append))
}

/// As [`unframed`], with the caller's CRC-32C. `None`: the connection has no CRC, and its field is not looked at.
///
/// # Errors
/// Those of [`unframed`].
pub fn unframed_with(
    stream: &[u8],
    crc32c: Option<Crc32cAppend>,
) -> Result<Option<(&[u8], usize)>, RdmaRefusal> {
    let Some((length, _)) = stream.split_first_chunk::<2>() else { return Ok(None) };
    let end = 2 + usize::from(u16::from_be_bytes(*length));
    if end == 2 {
        return Err(RdmaRefusal::WrongSize);
    }
    let padded = end.next_multiple_of(4);
    let Some(crc) = stream.get(padded..padded + CRC_BYTES) else { return Ok(None) };
    if crc32c.is_some_and(|crc32c| crc_octets(crc32c(0, &stream[..padded])) != crc) {
        return Err(RdmaRefusal::BadChecksum);
    }
    Ok(Some((&stream[2..end], padded + CRC_BYTES)))
}

pub(super) fn fuzz(bytes: &[u8]) {
    if let Ok(Some((connect, taken))) = Connect::read(bytes) {
        assert!(taken <= bytes.len() && connect.private.len() <= MAX_PRIVATE_BYTES);
        let again = connect.write();
        assert_eq!(frame_length(true, bytes), Ok(Some(taken)));
        assert_eq!(Connect::read(&again), Ok(Some((connect, taken))));
    }
    if let Ok(Some((segment, taken))) = unframed(bytes) {
        assert!(taken <= bytes.len());
        assert_eq!(frame_length(false, bytes), Ok(Some(taken)));
        let again = fpdu(segment).expect("a segment that was framed");
        assert_eq!(unframed(&again), Ok(Some((segment, taken))));
    }
}
