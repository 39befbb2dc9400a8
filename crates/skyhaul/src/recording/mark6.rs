//! Files of Mark 6 recorders: a scan scattered in blocks over its disks (scatter-gather, versions 1 and 2).
//!
//! ```text
//!   <disk>/data/<scan>.vdif   │ sync, version, block size, format, packet size │ block │ block │ …      one file on each disk
//!   block, version 2          │ number │ bytes, these 8 included │ whole packets │
//!   block, version 1          │ number │ whole packets, to the block size │
//! ```
//!
//! All words are little-endian and have 32 bits. Numbers count from 0 over all disks, in order of time. Blocks without a
//! number, and what follows a damaged header, are gaps.
//!
//! Limit: blocks are put in the order of their numbers, which the first recorders (2011) did not keep.

mod write;

pub use write::{BlockLayout, BlockPackets, names_of, path_of};

use crate::recording::contents::{Gap, Lack};
use skyhaul_io::disk::open_regular;
use std::fs::File;
use std::io::{self, ErrorKind};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use write::{BLOCK_SIZES, FILE_HEADER, SYNC};
pub(super) use write::{DATA, SUFFIX};

/// Blocks of a file below half their size: recorders write one or two.
const MAX_SHORT_BLOCKS: usize = 64;
/// Gaps that are listed.
const MAX_GAPS: usize = 1000;

/// Whole packets in a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Block {
    /// Its number in the scan.
    pub number: u32,
    /// Its file.
    pub path: PathBuf,
    /// Where its packets begin.
    pub offset: u64,
    /// Their bytes.
    pub bytes: u64,
}

/// A scan in blocks.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Scattered {
    /// Its blocks, in order.
    pub blocks: Vec<Block>,
    /// Missing or damaged blocks.
    pub gaps: Vec<Gap>,
}

/// The files of a scan on the disks of a Mark 6: `<disk>/<scan>` or `<disk>/data/<scan>`, with or without `.vdif`.
#[must_use]
pub fn files(disks: &[PathBuf], scan: &str) -> Vec<PathBuf> {
    files_on(disks, scan).into_iter().map(|(_, path)| path).collect()
}

/// The same, each with the number of its disk.
#[must_use]
pub fn files_on(disks: &[PathBuf], scan: &str) -> Vec<(usize, PathBuf)> {
    let on = |(number, disk): (usize, &PathBuf)| {
        let places = [disk.clone(), disk.join(DATA)];
        let names = [scan.to_owned(), format!("{scan}{SUFFIX}")];
        let paths = places.into_iter().flat_map(|place| names.clone().map(|name| place.join(name)));
        paths.into_iter().find(|path| is_scattered(path)).map(|path| (number, path))
    };
    disks.iter().enumerate().filter_map(on).collect()
}

/// Adds the scans with a file on this disk of a Mark 6. `alive` is called before each file is looked at.
///
/// # Errors
/// A directory cannot be read: there may be more scans.
pub(super) fn add_labels(disk: &Path, alive: &dyn Fn(), labels: &mut Vec<String>) -> io::Result<()> {
    for place in [disk.to_owned(), disk.join(DATA)] {
        let entries = match std::fs::read_dir(&place) {
            Ok(entries) => entries,
            Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => continue,
            Err(error) => return Err(error),
        };
        for entry in entries {
            alive();
            let entry = entry?;
            if let Ok(name) = entry.file_name().into_string()
                && is_scattered(&entry.path())
            {
                labels.push(label_of(&name).to_owned());
            }
        }
    }
    Ok(())
}

/// The scan of a file of this name.
pub(super) fn label_of(name: &str) -> &str {
    name.strip_suffix(SUFFIX).unwrap_or(name)
}

/// Whether a file begins as one of a Mark 6.
#[must_use]
pub fn is_scattered(path: &Path) -> bool {
    open_regular(path).and_then(|file| FileHeader::read(&file)).is_ok_and(|header| header.is_some())
}

/// The blocks of a scan in these files.
///
/// # Errors
/// The file that cannot be read, and why.
pub fn blocks(paths: &[PathBuf]) -> Result<Scattered, (PathBuf, io::Error)> {
    let mut found = Scattered::default();
    for path in paths {
        add_blocks(path, &mut found).map_err(|error| (path.clone(), error))?;
    }
    found.blocks.sort_by(|a, b| (a.number, &a.path, a.offset).cmp(&(b.number, &b.path, b.offset)));
    let mut next = 0;
    let gaps = &mut found.gaps;
    found.blocks.retain(|block| {
        let gap = if block.number < next {
            let why = format!("block {} is there twice: this one is not used", block.number);
            Some(damaged(&block.path, why))
        } else {
            let missing = next..block.number;
            next = block.number.saturating_add(1);
            let why = "in none of these files";
            (!missing.is_empty()).then(|| Gap::new(&scan_of(&block.path), missing, Lack::Missing, why))
        };
        let twice = gap.as_ref().is_some_and(|gap| !gap.has_chunks());
        gaps.extend(gap.filter(|_| gaps.len() < MAX_GAPS));
        !twice
    });
    Ok(found)
}

fn add_blocks(path: &Path, found: &mut Scattered) -> io::Result<()> {
    let file = open_regular(path)?;
    match FileHeader::read(&file)? {
        Some(header) => header.blocks(path, &file, file.metadata()?.len(), found),
        None => {
            found.gaps.push(damaged(path, "it does not begin as a file of a Mark 6".into()));
            Ok(())
        }
    }
}

fn scan_of(path: &Path) -> String {
    path.file_stem().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default()
}

fn damaged(path: &Path, why: String) -> Gap {
    Gap::new(&path.display().to_string(), 0..0, Lack::Damaged, why)
}

/// The header of a file.
struct FileHeader {
    version: u32,
    block_size: u32,
}

impl FileHeader {
    fn read(file: &File) -> io::Result<Option<Self>> {
        let Some([sync, version, block_size, ..]) = words::<5>(file, 0)? else { return Ok(None) };
        let known = sync == SYNC && (1..=2).contains(&version) && BLOCK_SIZES.contains(&block_size);
        Ok(known.then_some(Self { version, block_size }))
    }

    /// Bytes of a block before its packets.
    fn before(&self) -> u64 {
        if self.version == 1 { 4 } else { 8 }
    }

    fn blocks(&self, path: &Path, file: &File, length: u64, found: &mut Scattered) -> io::Result<()> {
        let (mut at, mut short) = (FILE_HEADER, 0);
        while at + self.before() < length {
            let Some([number, size]) = words::<2>(file, at)? else { break };
            let size = if self.version == 1 { self.block_size } else { size };
            short += usize::from(size < self.block_size / 2);
            let legal =
                u64::from(size) > self.before() && size <= self.block_size && number < i32::MAX as u32;
            if !legal || short > MAX_SHORT_BLOCKS {
                // The next one is where it would be after a whole block; if that is none either, this ends the file.
                let next = at + u64::from(self.block_size);
                let why = format!("the header of the block at byte {at} is damaged: the block is not used");
                found.gaps.push(damaged(path, why));
                if short > MAX_SHORT_BLOCKS || found.gaps.len() > MAX_GAPS {
                    break;
                }
                at = next;
                continue;
            }
            let end = at + u64::from(size);
            if end > length {
                let why = format!("block {number} ends {} bytes behind the end of the file", end - length);
                found.gaps.push(damaged(path, why));
            }
            let offset = at + self.before();
            found.blocks.push(Block {
                number,
                path: path.to_owned(),
                offset,
                bytes: end.min(length) - offset,
            });
            at = end;
        }
        Ok(())
    }
}

/// Little-endian words at an offset; `None` behind the end.
fn words<const N: usize>(file: &File, at: u64) -> io::Result<Option<[u32; N]>> {
    let mut octets = [[0; 4]; N];
    match file.read_exact_at(octets.as_flattened_mut(), at) {
        Ok(()) => Ok(Some(octets.map(u32::from_le_bytes))),
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(None),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(path: &Path, version: u32, size: u32, blocks: &[(u32, &[u8])]) {
        let mut octets: Vec<u8> =
            [SYNC, version, size, 0, 8032].iter().flat_map(|word| word.to_le_bytes()).collect();
        for (number, packets) in blocks {
            octets.extend(number.to_le_bytes());
            if version == 2 {
                octets.extend((packets.len() as u32 + 8).to_le_bytes());
            }
            octets.extend(*packets);
        }
        std::fs::write(path, octets).unwrap();
    }

    #[test]
    fn blocks_of_all_disks_are_put_in_order() {
        let directory = tempfile::tempdir().unwrap();
        let disks: Vec<PathBuf> = (0..2).map(|n| directory.path().join(n.to_string())).collect();
        disks.iter().for_each(|disk| std::fs::create_dir_all(disk.join("data")).unwrap());
        let (a, b) = (disks[0].join("data/exp_st_no0001.vdif"), disks[1].join("data/exp_st_no0001.vdif"));
        file(&a, 2, 5000, &[(3, &[3; 4992]), (0, &[0; 100])]);
        file(&b, 2, 5000, &[(1, &[1; 4992]), (4, &[4; 4992]), (1, &[9; 4992])]);
        assert_eq!(files(&disks, "exp_st_no0001"), [a.clone(), b.clone()]);
        assert!(files(&disks, "other").is_empty());
        let found = blocks(&[a, b]).unwrap();
        let places: Vec<(u32, u64, u64)> =
            found.blocks.iter().map(|block| (block.number, block.offset, block.bytes)).collect();
        assert_eq!(places, [(0, 5028, 100), (1, 28, 4992), (3, 28, 4992), (4, 5028, 4992)]);
        let said: Vec<String> = found.gaps.iter().map(ToString::to_string).collect();
        assert_eq!(said.len(), 2, "{said:?}");
        assert!(said[0].contains("block 1 is there twice"), "{said:?}");
        assert!(said[1].contains("chunk 2 (time unknown) in none of these files"), "{said:?}");
    }

    #[test]
    fn version_1_has_no_sizes_and_a_truncated_block_is_used_as_far_as_it_goes() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("x");
        file(&path, 1, 4100, &[(0, &[0; 4096]), (1, &[1; 1000])]);
        let found = blocks(&[path]).unwrap();
        assert_eq!(found.blocks[1].bytes, 1000);
        assert!(found.gaps[0].why.contains("block 1 ends 3096 bytes behind"), "{:?}", found.gaps);
    }

    #[test]
    fn damaged_headers_lose_their_block_only_and_garbage_ends() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("x");
        file(&path, 2, 5000, &[(0, &[0; 4992]), (1, &[1; 4992]), (2, &[2; 4992])]);
        let mut octets = std::fs::read(&path).unwrap();
        octets[5024..5028].fill(0xFF);
        std::fs::write(&path, &octets).unwrap();
        let found = blocks(std::slice::from_ref(&path)).unwrap();
        let numbers: Vec<u32> = found.blocks.iter().map(|block| block.number).collect();
        assert_eq!(numbers, [0, 2]);
        assert!(found.gaps[0].why.contains("at byte 5020 is damaged"), "{:?}", found.gaps);
        // Blocks of nothing but headers do not fill the memory.
        octets[20..].chunks_exact_mut(8).for_each(|block| block.copy_from_slice(&[1, 0, 0, 0, 9, 0, 0, 0]));
        std::fs::write(&path, [&octets[..], &[0; 1 << 20]].concat()).unwrap();
        assert!(blocks(std::slice::from_ref(&path)).unwrap().blocks.len() <= MAX_SHORT_BLOCKS);
        std::fs::write(&path, [0x55; 100]).unwrap();
        assert!(!is_scattered(&path));
        assert!(blocks(&[path]).unwrap().blocks.is_empty());
    }
}
