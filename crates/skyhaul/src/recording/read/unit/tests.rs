use super::*;
use crate::recording::index::record::PART_BYTES;
use skyhaul_io::disk::read_buffers;
use std::num::NonZeroU64;

const BYTES: usize = 2 * PART_BYTES as usize + 5000;

/// A chunk of two parts and a bit, and its record.
fn chunk(directory: &Path) -> (Arc<ChunkVerifier>, ChunkEntry, Vec<u8>) {
    let bytes: Vec<u8> = (0..BYTES as u32).map(|n| (n.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
    let scan = directory.join("s");
    std::fs::create_dir_all(&scan).unwrap();
    std::fs::write(scan.join("s.00000000"), &bytes).unwrap();
    let recording = Recording::open([directory], "s").unwrap();
    let verifier = Arc::new(ChunkVerifier::new(&recording, 0, true));
    let mut entry = recording.datastreams[0].chunks[&0].clone();
    let parts = bytes.chunks(PART_BYTES as usize).map(crc32c::crc32c).collect();
    let (length, crc32c) = (BYTES as u64, crc32c::crc32c(&bytes));
    let part_bytes = NonZeroU64::new(PART_BYTES);
    entry.record = Some(ChunkRecord { bytes: length, crc32c, parts, part_bytes, ..ChunkRecord::default() });
    (verifier, entry, bytes)
}

fn read(file: &ChunkFile, unit: u64, blocks: usize) -> Result<(Vec<u64>, Vec<u8>), UnitError> {
    let pool = read_buffers(blocks.max(1), UNIT_BLOCK_BYTES).unwrap();
    let read = file.read(unit, || pool.take().filter(|_| blocks > 0))?;
    let own = read.units.iter().find(|(number, _)| *number == unit).unwrap();
    let bytes = own.1.iter().flat_map(|part| part.to_vec()).collect();
    Ok((read.units.iter().map(|(number, _)| *number).collect(), bytes))
}

fn range(file: &ChunkFile, unit: u64) -> std::ops::Range<usize> {
    let (from, to) = file.range(unit);
    from as usize..to as usize
}

#[test]
fn parts_are_verified_one_by_one_and_chunks_without_them_as_a_whole() {
    let directory = tempfile::tempdir().unwrap();
    let (verifier, with_parts, bytes) = chunk(directory.path());
    let mut without = with_parts.clone();
    without.record.as_mut().unwrap().parts.clear();
    for entry in [&with_parts, &without] {
        let file = ChunkFile::new(&verifier, entry.clone());
        for unit in (0..BYTES as u64).step_by(file.unit_bytes() as usize).map(|at| at / file.unit_bytes()) {
            assert!(read(&file, unit, 2).unwrap().1 == bytes[range(&file, unit)], "unit {unit}");
        }
    }
    // As many units as there are blocks come with the first one.
    let file = ChunkFile::new(&verifier, without.clone());
    assert_eq!(read(&file, 1, 3).unwrap().0.len(), 3);
    assert!(matches!(read(&file, 1, 0), Err(UnitError::NoMemory)));
    // A changed byte: its part, or all of the chunk.
    let mut damaged = bytes.clone();
    damaged[PART_BYTES as usize + 7] ^= 1;
    std::fs::write(&with_parts.path, &damaged).unwrap();
    let file = ChunkFile::new(&verifier, with_parts.clone());
    assert!(read(&file, 0, 2).is_ok() && read(&file, 2, 2).is_ok());
    let Err(UnitError::NotHere(gap)) = read(&file, 1, 2) else { panic!("it is damaged") };
    assert!(gap.why.contains("bytes 4194304 to 8388607"), "{gap}");
    let whole = ChunkFile::new(&verifier, without);
    assert!((0..3).all(|unit| matches!(read(&whole, unit, 2), Err(UnitError::NotHere(_)))));
    // Its bytes under another name.
    std::fs::write(directory.path().join("s/renamed"), &bytes).unwrap();
    assert!(file.search() && read(&file, 1, 2).unwrap().1 == bytes[range(&file, 1)]);
}
