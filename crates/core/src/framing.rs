//! Messages in a byte stream: each is preceded by its length, four bytes, big-endian.
//!
//! A receiver checks the length before it allocates anything, so memory grows with what arrives, never with what a length
//! promises.
//!
//! ```
//! use skyhaul_core::framing::{HEAD_BYTES, frame, length};
//! let message = frame(&[b"{}"]).unwrap();
//! assert_eq!(message, b"\0\0\0\x02{}");
//! assert_eq!(length(*message.first_chunk::<HEAD_BYTES>().unwrap(), 100), Ok(2));
//! assert_eq!(length([0, 1, 0, 0], 100), Err(65_536));
//! ```

/// Bytes of the length before each message.
pub const HEAD_BYTES: usize = 4;

/// Returns a message made of `parts`, preceded by its length; `None` if that does not fit four bytes.
#[must_use]
pub fn frame(parts: &[&[u8]]) -> Option<Vec<u8>> {
    let bytes: usize = parts.iter().map(|part| part.len()).sum();
    let mut message = Vec::with_capacity(HEAD_BYTES + bytes);
    message.extend(u32::try_from(bytes).ok()?.to_be_bytes());
    parts.iter().for_each(|part| message.extend_from_slice(part));
    Some(message)
}

/// Returns the length of the message that follows `head`.
///
/// # Errors
/// The length, if it exceeds `max_bytes`.
pub fn length(head: [u8; HEAD_BYTES], max_bytes: usize) -> Result<usize, usize> {
    let bytes = usize::try_from(u32::from_be_bytes(head)).unwrap_or(usize::MAX);
    if bytes > max_bytes { Err(bytes) } else { Ok(bytes) }
}
