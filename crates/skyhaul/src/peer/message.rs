//! The messages of the handshake, and around services.
//!
//! Messages in a stream of bytes: a length of four bytes, big-endian, then so many bytes.
//!
//! No more is read than the message at hand still needs, so the stream can be handed on behind any message. Memory grows
//! with what arrived, never with what a length promises.

use super::error::PeerError;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// The server's first message.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Challenge {
    /// [`VERSION`](super::VERSION).
    pub skyhaul: u32,
    /// Random bytes, as hexadecimal digits.
    pub nonce: String,
}

/// The client's first message.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hello {
    /// [`VERSION`](super::VERSION).
    pub skyhaul: u32,
    /// Random bytes, as hexadecimal digits.
    pub nonce: String,
    /// The client's proof that it knows the token.
    pub proof: String,
}

/// The server's answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Welcome {
    /// The server's proof that it knows the token.
    Proof(String),
    /// The client does not.
    WrongToken,
    /// The versions differ; this is the server's.
    Version(u32),
}

/// The request of a client.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Ask {
    /// A service, which gets `body`.
    Run {
        /// Its name.
        service: String,
        /// Its argument.
        body: Value,
    },
    /// To be a further connection of a service that runs: the stream behind this message is its own.
    Attach {
        /// What the service gave out.
        cookie: String,
    },
}

/// The server's answer to it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Answer {
    /// Others are first.
    Queued(Waiting),
    /// Begin.
    Go,
    /// It will not be done.
    Refused {
        /// Why.
        why: String,
    },
}

/// A position in the queue.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Waiting {
    /// Number of clients ahead.
    pub ahead: usize,
    /// Seconds until it begins, if all tests take as long as stated.
    pub seconds: f64,
}

/// Any bytes as each of the messages; one that was read is written and read back the same.
pub(super) fn fuzz_message(body: &[u8]) {
    fn back<T: Serialize + for<'de> Deserialize<'de> + PartialEq + std::fmt::Debug>(body: &[u8]) {
        let Ok(message) = serde_json::from_slice::<T>(body) else { return };
        let text = serde_json::to_vec(&message).unwrap_or_default();
        assert!(serde_json::from_slice::<T>(&text).is_ok(), "{message:?} is not read back");
    }
    back::<Challenge>(body);
    back::<Hello>(body);
    back::<Welcome>(body);
    back::<Ask>(body);
    back::<Answer>(body);
}

/// Puts messages together from the pieces in which they arrive.
#[derive(Debug)]
pub struct Frames {
    bytes: Vec<u8>,
    most: usize,
}

/// Most bytes to read at a time.
pub(super) const READ_BYTES: usize = 16 << 10;
const LENGTH_BYTES: usize = 4;

impl Frames {
    /// Messages of at most `most` bytes.
    #[must_use]
    pub fn new(most: usize) -> Self {
        Self { bytes: Vec::new(), most }
    }

    /// From here on, messages of at most `most` bytes.
    pub(super) fn allow(&mut self, most: usize) {
        self.most = most;
    }

    /// Length of the message at hand, if its head is here.
    fn length(&self) -> Option<usize> {
        self.bytes.first_chunk::<LENGTH_BYTES>().map(|&head| u32::from_be_bytes(head) as usize)
    }

    /// How many bytes to read next: never beyond the message at hand; 0 if a whole one, or one too long, is here.
    #[must_use]
    pub fn wanted(&self) -> usize {
        match self.length() {
            None => LENGTH_BYTES - self.bytes.len(),
            Some(length) if length > self.most => 0,
            Some(length) => (LENGTH_BYTES + length - self.bytes.len()).min(READ_BYTES),
        }
    }

    /// Bytes kept.
    #[must_use]
    pub fn held(&self) -> usize {
        self.bytes.len()
    }

    /// Bytes that arrived, at most as many as [`wanted`](Self::wanted).
    pub fn push(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }

    /// The next whole message, if it is here.
    ///
    /// # Errors
    /// It is longer than may be: the stream cannot be used any more.
    pub fn next_frame(&mut self) -> Result<Option<Vec<u8>>, PeerError> {
        match self.length() {
            Some(length) if length > self.most => {
                Err(PeerError::TooLong { bytes: length as u64, most: self.most })
            }
            Some(length) if self.bytes.len() == LENGTH_BYTES + length => {
                let mut whole = std::mem::take(&mut self.bytes);
                whole.drain(..LENGTH_BYTES);
                Ok(Some(whole))
            }
            _ => Ok(None),
        }
    }
}

/// A message with its length before it.
pub(super) fn framed(body: &[u8], tag: &[u8], most: usize) -> Result<Vec<u8>, PeerError> {
    let length = body.len() + tag.len();
    let head = u32::try_from(length).ok().filter(|_| length <= most);
    let head = head.ok_or(PeerError::TooLong { bytes: length as u64, most })?;
    let mut bytes = Vec::with_capacity(LENGTH_BYTES + length);
    bytes.extend_from_slice(&head.to_be_bytes());
    bytes.extend_from_slice(body);
    bytes.extend_from_slice(tag);
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_come_out_whole_in_whatever_pieces_they_come() {
        let stream =
            [framed(b"one", b"", 9).unwrap(), framed(b"", b"", 9).unwrap(), framed(b"t", b"wo", 9).unwrap()]
                .concat();
        for piece in 1..stream.len() {
            let (mut frames, mut got) = (Frames::new(9), Vec::new());
            for chunk in stream.chunks(piece) {
                let mut rest = chunk;
                while !rest.is_empty() {
                    let n = frames.wanted().min(rest.len());
                    frames.push(&rest[..n]);
                    rest = &rest[n..];
                    got.extend(frames.next_frame().unwrap());
                }
            }
            assert_eq!(got, [b"one".to_vec(), vec![], b"two".to_vec()]);
            assert_eq!(frames.held(), 0);
        }
    }

    #[test]
    fn a_length_beyond_the_limit_ends_the_stream_before_anything_is_kept() {
        let mut frames = Frames::new(512);
        frames.push(&513u32.to_be_bytes());
        assert_eq!(frames.wanted(), 0);
        assert!(matches!(frames.next_frame(), Err(PeerError::TooLong { bytes: 513, most: 512 })));
        assert!(framed(&[0; 10], &[], 9).is_err());
        let mut frames = Frames::new(1 << 30);
        frames.push(&(1u32 << 30).to_be_bytes());
        assert!(frames.bytes.capacity() < 4096, "a promise takes no memory");
    }
}
