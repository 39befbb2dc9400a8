//! Reads one file: its bytes, their checksum, and its frames.

use std::io;
use std::path::Path;

use skyhaul_io::disk::{Source, open_regular};
use skyhaul_io::memory::Block;

use crate::recording::verify::cutter::Cutter;
use crate::recording::verify::seen::Seen;

/// Bytes of one read.
pub(in crate::recording) const READ_BYTES: usize = 4 << 20;

/// Read at most `most` bytes of the file at `path`, from `offset` on, into blocks of `next`, and hand each with its length to
/// `take`. Ends early, with an error, where `next` gives none.
pub(in crate::recording) fn read_file(
    (path, offset): (&Path, u64),
    most: u64,
    mut cutter: Option<Cutter>,
    mut next: impl FnMut() -> Option<Block>,
    mut take: impl FnMut(Block, usize),
) -> Seen {
    let mut seen = Seen::default();
    let source = match Source::open_at(path, offset) {
        Ok(source) => source,
        Err(error) => return Seen { error: Some(error.to_string()), ..seen },
    };
    seen.bytes = source.len().saturating_sub(offset);
    let end = most.min(seen.bytes);
    if offset > 0 {
        // Other blocks follow in the file.
        seen.bytes = end;
    }
    while seen.read < end {
        let Some(mut block) = next() else {
            return Seen { error: Some("no memory to read into".to_owned()), ..seen };
        };
        let length = match source.read(offset + seen.read, &mut block) {
            Ok(0) => return Seen { error: Some("it was truncated while it was read".to_owned()), ..seen },
            Ok(length) => length.min((end - seen.read) as usize),
            Err(error) => return Seen { error: Some(error.to_string()), ..seen },
        };
        seen.crc32c = crc32c::crc32c_append(seen.crc32c, &block[..length]);
        seen.read += length as u64;
        if let Some(cutter) = &mut cutter {
            cutter.feed(&block[..length], &mut seen);
        }
        let short = length < block.len();
        take(block, length);
        if short {
            break;
        }
    }
    if let Some(cutter) = cutter {
        cutter.finish(&mut seen);
    }
    seen
}

/// CRC-32C of the first `bytes` bytes of a file.
///
/// # Errors
/// A system error, or the file is shorter.
pub(in crate::recording) fn checksum(path: &Path, bytes: u64) -> io::Result<u32> {
    use std::io::Read;
    let mut file = open_regular(path)?;
    let mut buffer = vec![0; 1 << 20];
    let (mut crc, mut left) = (0, bytes);
    while left > 0 {
        let most = left.min(buffer.len() as u64) as usize;
        let n = file.read(&mut buffer[..most])?;
        if n == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        crc = crc32c::crc32c_append(crc, &buffer[..n]);
        left -= n as u64;
    }
    Ok(crc)
}
