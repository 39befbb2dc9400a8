//! What `vbs2net` and `net2vbs` say to each other: chunks of a FlexBuff, each over a connection of its own.
//!
//! ```text
//!   sender                                                             receiver
//!     │ payloadSize: 54 · requestRsync: SCAN ·· names of its chunks        │
//!     │ ─────────────────────────────────────────────────────────────────▶ │
//!     │ ◀───────── listType: have (or need) · rsyncReplySz: 27 ·· names ── │
//!     │ fileName: SCAN/SCAN.00000007 · fileSize: 255995904 ·· bytes        │   a connection for each chunk
//!     │ ─────────────────────────────────────────────────────────────────▶ │ ─ closes it
//! ```
//!
//! A head is lines `key: value`, each ended by a zero byte, then another zero byte. Names in lists are ended by a zero byte. The receiver
//! gives the shorter list: of chunks that it has, or of those that it needs. As spoken by jive5ab 3.1.0 (its `vbs2net` and `net2vbs`, seen
//! on the wire); there is no other description.

use std::fmt::{self, Write};

/// Maximum length of a head in bytes.
pub const MAX_CHUNK_HEAD_BYTES: usize = 1024;
/// Maximum length of a list of chunks in bytes: some 10⁵ names.
pub const MAX_CHUNK_LIST_BYTES: u64 = 16 << 20;
/// Maximum size of a chunk in bytes: peers count it in 32 bits.
pub const MAX_EXCHANGED_BYTES: u64 = u32::MAX as u64;
/// Maximum length of the name of a directory of a scan.
const MAX_DIRECTORY_BYTES: usize = 200;

/// The file of a chunk, `SCAN/SCAN.00000007`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ChunkName {
    directory: String,
    number: u32,
}

impl ChunkName {
    /// The chunk with this number of a directory; `None` if no path on a disk can have the name.
    #[must_use]
    pub fn new(directory: &str, number: u32) -> Option<Self> {
        let legal = |b: u8| b.is_ascii_graphic() && !b"./\\:".contains(&b);
        let is_name = (1..=MAX_DIRECTORY_BYTES).contains(&directory.len()) && directory.bytes().all(legal);
        let is_name = is_name && !directory.starts_with('-') && number <= 99_999_999;
        is_name.then(|| Self { directory: directory.to_owned(), number })
    }

    /// Reads `SCAN/SCAN.00000007`, and nothing else: no path leads out of a disk, or to a file that is no chunk.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let (directory, file) = text.split_once('/')?;
        let digits = file.strip_prefix(directory)?.strip_prefix('.')?;
        let is_number = digits.len() == 8 && digits.bytes().all(|b| b.is_ascii_digit());
        Self::new(directory, digits.parse().ok().filter(|_| is_number)?)
    }

    /// The directory of its scan or datastream.
    #[must_use]
    pub fn directory(&self) -> &str {
        &self.directory
    }

    /// Whether its directory is that of a scan, or of a datastream of it.
    #[must_use]
    pub fn belongs_to(&self, scan: &str) -> bool {
        self.directory.strip_prefix(scan).is_some_and(|rest| rest.is_empty() || rest.starts_with("_ds"))
    }
}

impl fmt::Display for ChunkName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{0}/{0}.{1:08}", self.directory, self.number)
    }
}

/// What begins a connection, or answers on it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ChunkHead {
    /// A chunk follows.
    Chunk {
        /// Its file.
        name: ChunkName,
        /// Its bytes.
        bytes: u64,
    },
    /// A list of all chunks of a scan follows; which of them are to be sent?
    Offer {
        /// The scan.
        scan: String,
        /// Bytes of the list.
        list_bytes: u64,
    },
    /// The answer: a list follows.
    Answer {
        /// It is of chunks that are there; otherwise of those that are to be sent.
        is_of_present: bool,
        /// Bytes of the list.
        list_bytes: u64,
    },
}

/// Why bytes are no head.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NotAChunkHead(pub &'static str);

impl ChunkHead {
    /// Reads a head, with or without the zero byte that ends it.
    ///
    /// # Errors
    /// It is longer than [`MAX_CHUNK_HEAD_BYTES`], or has not exactly the keys of one of the three kinds with values that can be.
    pub fn parse(head: &[u8]) -> Result<Self, NotAChunkHead> {
        if head.len() > MAX_CHUNK_HEAD_BYTES {
            return Err(NotAChunkHead("it is too long"));
        }
        let text = std::str::from_utf8(head).map_err(|_| NotAChunkHead("it is no text"))?;
        let mut pairs = Vec::new();
        for line in text.split('\0').filter(|line| !line.is_empty()) {
            pairs.push(line.split_once(": ").ok_or(NotAChunkHead("a line has no `: `"))?);
        }
        pairs.sort_unstable();
        let number = |text: &str, most: u64| {
            let number = text.parse::<u64>().ok().filter(|_| text.bytes().all(|b| b.is_ascii_digit()));
            number.filter(|number| *number <= most).ok_or(NotAChunkHead("a size is no number, or too large"))
        };
        match pairs[..] {
            [("fileName", name), ("fileSize", bytes)] => {
                let name = ChunkName::parse(name).ok_or(NotAChunkHead("its name is not that of a chunk"))?;
                Ok(Self::Chunk { name, bytes: number(bytes, MAX_EXCHANGED_BYTES)? })
            }
            [("payloadSize", bytes), ("requestRsync", scan)] => {
                let scan = ChunkName::new(scan, 0).ok_or(NotAChunkHead("its name is not that of a scan"))?;
                Ok(Self::Offer { scan: scan.directory, list_bytes: number(bytes, MAX_CHUNK_LIST_BYTES)? })
            }
            [("listType", kind @ ("have" | "need")), ("rsyncReplySz", bytes)] => Ok(Self::Answer {
                is_of_present: kind == "have",
                list_bytes: number(bytes, MAX_CHUNK_LIST_BYTES)?,
            }),
            _ => Err(NotAChunkHead("it has not the keys of a chunk, an offer or an answer")),
        }
    }

    /// Whether these bytes end with the two zero bytes that end a head.
    #[must_use]
    pub fn is_whole(bytes: &[u8]) -> bool {
        bytes.ends_with(b"\0\0")
    }

    /// Returns its bytes.
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        match self {
            Self::Chunk { name, bytes } => format!("fileName: {name}\0fileSize: {bytes}\0\0"),
            Self::Offer { scan, list_bytes } => {
                format!("payloadSize: {list_bytes}\0requestRsync: {scan}\0\0")
            }
            Self::Answer { is_of_present, list_bytes } => {
                let kind = if *is_of_present { "have" } else { "need" };
                format!("listType: {kind}\0rsyncReplySz: {list_bytes}\0\0")
            }
        }
        .into_bytes()
    }
}

/// Reads a list of chunks. Names that are those of no chunk are left out: none of them can be sent.
#[must_use]
pub fn parse_chunk_list(list: &[u8]) -> Vec<ChunkName> {
    let names = list.split(|byte| *byte == 0).filter_map(|name| std::str::from_utf8(name).ok());
    names.filter_map(ChunkName::parse).collect()
}

/// Returns the bytes of a list of chunks.
#[must_use]
pub fn chunk_list<'a>(names: impl IntoIterator<Item = &'a ChunkName>) -> Vec<u8> {
    let mut list = String::new();
    for name in names {
        // Writing to a String cannot fail.
        let _ = write!(list, "{name}\0");
    }
    list.into_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn names_are_those_of_chunks_and_of_nothing_else() {
        let name = ChunkName::parse("n26c3_mh_no0001/n26c3_mh_no0001.00000012").unwrap();
        assert_eq!((name.directory(), name.number), ("n26c3_mh_no0001", 12));
        assert_eq!(name.to_string(), "n26c3_mh_no0001/n26c3_mh_no0001.00000012");
        assert!(name.belongs_to("n26c3_mh_no0001") && !name.belongs_to("n26c3_mh_no000"));
        assert!(ChunkName::parse("a_ds1/a_ds1.00000000").unwrap().belongs_to("a"));
        for bad in [
            "a/a.0000001",
            "a/a.000000012",
            "a/b.00000001",
            "a/a.+0000001",
            "../...00000001",
            "a.b/a.b.00000001",
            "/a.00000001",
            "a/a.00000001/",
            "a/a",
            "/a/a.00000001",
            "-a/-a.00000001",
            "a b/a b.00000001",
            "a/a.index",
        ] {
            assert_eq!(ChunkName::parse(bad), None, "{bad}");
        }
    }

    #[test]
    fn heads_are_those_of_jive5ab() {
        let name = ChunkName::new("a", 7).unwrap();
        let chunk = ChunkHead::Chunk { name, bytes: 16_064_000 };
        assert_eq!(chunk.to_bytes(), b"fileName: a/a.00000007\0fileSize: 16064000\0\0");
        let offer = ChunkHead::Offer { scan: "a".into(), list_bytes: 26 };
        assert_eq!(offer.to_bytes(), b"payloadSize: 26\0requestRsync: a\0\0");
        let answer = ChunkHead::Answer { is_of_present: false, list_bytes: 0 };
        assert_eq!(answer.to_bytes(), b"listType: need\0rsyncReplySz: 0\0\0");
        for head in [chunk, offer, answer] {
            assert!(ChunkHead::is_whole(&head.to_bytes()));
            assert_eq!(ChunkHead::parse(&head.to_bytes()), Ok(head));
        }
        for bad in [
            "",
            "\0\0",
            "fileName: a/a.00000007\0\0",
            "fileName: ../a.00000007\0fileSize: 1\0\0",
            "fileName: a/a.00000007\0fileSize: -1\0\0",
            "fileName: a/a.00000007\0fileSize: +1\0\0",
            "fileName: a/a.00000007\0fileSize: 4294967296\0\0",
            "fileName: a/a.00000007\0fileSize: 1\0payloadSize: 1\0\0",
            "payloadSize: 1\0requestRsync: a/b\0\0",
            "listType: want\0rsyncReplySz: 1\0\0",
            "payloadSize: 16777217\0requestRsync: a\0\0",
            "fileSize\0\0",
        ] {
            assert!(ChunkHead::parse(bad.as_bytes()).is_err(), "{bad:?}");
        }
        assert!(ChunkHead::parse(&[b'a'; MAX_CHUNK_HEAD_BYTES + 1]).is_err());
    }

    #[test]
    fn lists_are_names_ended_by_zeros() {
        let names: Vec<ChunkName> = (0..3).map(|n| ChunkName::new("a_ds1", n).unwrap()).collect();
        assert_eq!(chunk_list(&names[..1]), b"a_ds1/a_ds1.00000000\0");
        assert_eq!(parse_chunk_list(&chunk_list(&names)), names);
        assert_eq!(
            parse_chunk_list(b"a/a.00000000\0../x\0\0a/a.00000001"),
            parse_chunk_list(b"a/a.00000000\0a/a.00000001\0")
        );
    }

    proptest! {
        #[test]
        fn any_bytes_are_a_head_or_none(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            if let Ok(head) = ChunkHead::parse(&bytes) {
                prop_assert_eq!(ChunkHead::parse(&head.to_bytes()), Ok(head));
            }
            for name in parse_chunk_list(&bytes) {
                prop_assert_eq!(ChunkName::parse(&name.to_string()), Some(name));
            }
        }
    }
}
