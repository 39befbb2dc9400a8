//! Files in blocks as a Mark 6 writes them, version 2: what precedes their packets.

use std::path::{Path, PathBuf};

/// Directory of the scans on a disk, and how their names end.
pub(in crate::recording) const DATA: &str = "data";
pub(in crate::recording) const SUFFIX: &str = ".vdif";
pub(super) const SYNC: u32 = 0xFEED_6666;
/// Bytes before the first block.
pub(super) const FILE_HEADER: u64 = 20;
/// Sizes of a block that recorders use, generously.
pub(super) const BLOCK_SIZES: std::ops::RangeInclusive<u32> = 4 << 10..=1 << 30;
/// Version of the files that are written.
const VERSION: u32 = 2;
/// Bytes of the header of a block.
const BLOCK_HEADER: u64 = 8;

/// What the packets of a scan are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlockPackets {
    /// Bytes of a packet.
    pub bytes: u32,
    /// The number of their format in the header of a file.
    pub format: u32,
    /// What the little-endian word of this number in a packet is, under this mask.
    pub mark: (usize, u32, u32),
}

/// How the blocks of a scan are written.
///
/// ```
/// # use skyhaul::recording::mark6::{BlockLayout, BlockPackets};
/// let packets = BlockPackets { bytes: 8032, format: 0, mark: (2, 0xFF_FFFF, 8032 / 8) };
/// let layout = BlockLayout::new(10_000_000, packets).unwrap();
/// assert_eq!(layout.payload_bytes(), 1245 * 8032);
/// assert!(BlockLayout::new(8039, packets).is_none());
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlockLayout {
    packets: BlockPackets,
    payload_bytes: u32,
}

impl BlockLayout {
    /// Bytes before the first block of a file.
    pub const FILE_HEADER_BYTES: u64 = FILE_HEADER;
    /// Bytes before the packets of a block.
    pub const BLOCK_HEADER_BYTES: u64 = BLOCK_HEADER;

    /// Returns the layout of blocks of at most `block_bytes` bytes, each of as many whole packets as fit. `None`: not one fits, or the
    /// blocks would be smaller or larger than those that readers accept.
    #[must_use]
    pub fn new(block_bytes: u64, packets: BlockPackets) -> Option<Self> {
        let payload = u32::try_from(block_bytes.checked_sub(BLOCK_HEADER)?).ok()?;
        let payload_bytes = payload - payload.checked_rem(packets.bytes)?;
        let block = u32::try_from(u64::from(payload_bytes) + BLOCK_HEADER).ok()?;
        BLOCK_SIZES.contains(&block).then_some(Self { packets, payload_bytes })
    }

    /// Returns the bytes of the packets of a whole block.
    #[must_use]
    pub fn payload_bytes(&self) -> u64 {
        u64::from(self.payload_bytes)
    }

    /// Returns the bytes of a packet.
    #[must_use]
    pub fn packet_bytes(&self) -> u32 {
        self.packets.bytes
    }

    /// Returns what a file begins with.
    #[must_use]
    pub fn file_header(&self) -> [u8; FILE_HEADER as usize] {
        let block_bytes = self.payload_bytes + BLOCK_HEADER as u32;
        octets([SYNC, VERSION, block_bytes, self.packets.format, self.packets.bytes])
    }

    /// Returns what precedes the packets of block `number`, so many bytes of them.
    #[must_use]
    pub fn block_header(number: u32, payload_bytes: u32) -> [u8; BLOCK_HEADER as usize] {
        octets([number, payload_bytes + BLOCK_HEADER as u32])
    }

    /// Returns whether the first bytes of a packet have the mark of all.
    #[must_use]
    pub fn is_packet(&self, bytes: &[u8]) -> bool {
        let (at, mask, value) = self.packets.mark;
        let word = bytes.get(4 * at..4 * at + 4).and_then(|word| word.try_into().ok());
        word.is_some_and(|word| u32::from_le_bytes(word) & mask == value)
    }
}

fn octets<const WORDS: usize, const OCTETS: usize>(words: [u32; WORDS]) -> [u8; OCTETS] {
    let mut octets = [0; OCTETS];
    octets.chunks_exact_mut(4).zip(words).for_each(|(to, word)| to.copy_from_slice(&word.to_le_bytes()));
    octets
}

/// Returns the path of a scan on a disk: the directory, and the file in it.
#[must_use]
pub fn path_of(scan: &str) -> (&'static Path, PathBuf) {
    let directory = Path::new(DATA);
    (directory, directory.join(scan))
}

/// Returns the paths on a disk by which a reader finds a scan, also one that is no scan of a Mark 6.
#[must_use]
pub fn names_of(scan: &str) -> [PathBuf; 4] {
    let with_suffix = format!("{scan}{SUFFIX}");
    let directory = Path::new(DATA);
    [PathBuf::from(scan), PathBuf::from(&with_suffix), directory.join(scan), directory.join(&with_suffix)]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::recording::mark6::{blocks, files};

    fn packets(bytes: u32) -> BlockPackets {
        BlockPackets { bytes, format: 1, mark: (2, 0xFF_FFFF, bytes / 8) }
    }

    #[test]
    fn what_is_written_is_read() {
        let directory = tempfile::tempdir().unwrap();
        let disk = directory.path().to_owned();
        let layout = BlockLayout::new(5000, packets(1200)).unwrap();
        assert_eq!((layout.payload_bytes(), layout.packet_bytes()), (4800, 1200));
        let (data, path) = path_of("exp_st_no0001");
        std::fs::create_dir(disk.join(data)).unwrap();
        let file = [
            &layout.file_header()[..],
            &BlockLayout::block_header(0, 4800),
            &[1; 4800],
            &BlockLayout::block_header(2, 1200),
            &[2; 1200],
        ];
        std::fs::write(disk.join(&path), file.concat()).unwrap();
        assert!(names_of("exp_st_no0001").contains(&path));
        let found = blocks(&files(&[disk], "exp_st_no0001")).unwrap();
        let blocks: Vec<(u32, u64)> = found.blocks.iter().map(|block| (block.number, block.bytes)).collect();
        assert_eq!(blocks, [(0, 4800), (2, 1200)]);
        assert_eq!(layout.file_header()[4..], [2, 0, 0, 0, 0xC8, 0x12, 0, 0, 1, 0, 0, 0, 0xB0, 4, 0, 0]);
    }

    #[test]
    fn sizes_that_no_reader_accepts_and_packets_of_another_size_are_none() {
        let of = |block, packet| BlockLayout::new(block, packets(packet));
        for (block, packet) in
            [(0, 8), (7, 8), (8039, 8032), (4000, 8), (5000, 0), (2 << 30, 8), (u64::MAX, 8)]
        {
            assert!(of(block, packet).is_none(), "{block} {packet}");
        }
        let layout = of(8040, 8032).unwrap();
        let mut packet = [0; 32];
        packet[8..12].copy_from_slice(&((1u32 << 29) | (8032 / 8)).to_le_bytes());
        assert!(layout.is_packet(&packet));
        packet[8] ^= 1;
        assert!(!layout.is_packet(&packet) && !layout.is_packet(&packet[..11]));
    }
}
