//! The target for samples: the bytes are four octets of options, then a file of frames.
//!
//! ```text
//!   options · options · place · bits      a place in every header where these bits are turned: another width, other channels
//! ```
//!
//! Held: whatever a file says, it is read or refused; what is read is missing exactly where its frames are said to be.

use crate::recording::DISK;
use skyhaul::samples::{Options, Samples, Tracks};
use skyhaul_core::wire::{FAMILIES, FamilyRef, Format, Framing, Move};

/// Elementary samples in a read.
const MOST: usize = 1 << 16;
/// Frames of a seed, and octets of its largest frame.
const FRAMES: u64 = 24;
const LARGEST: usize = 11_000;

pub(crate) fn seeds() -> Vec<Vec<u8>> {
    let files = FAMILIES.iter().flat_map(|family| family.seeds().into_iter().map(|seed| (*family, seed)));
    let options = [[1, 0, 0, 0], [0x21, 3, 0, 0], [1, 0, 15, 24], [1, 8, 11, 2], [1, 0x40, 15, 0x80]];
    let files: Vec<Vec<u8>> = files.filter_map(|(family, seed)| file(family, seed)).collect();
    let with = |file: &Vec<u8>| options.map(|options| [&options[..], file].concat());
    files.iter().flat_map(with).collect()
}

/// Frames like this one, with time running on.
fn file(family: FamilyRef, mut frame: Vec<u8>) -> Option<Vec<u8>> {
    let Framing::Length(length) = family.frames()?.framing(&frame) else { return None };
    if length > LARGEST {
        return None;
    }
    frame.resize(length, 0x1B);
    let stamps = family.stamps()?;
    let frames = (0..FRAMES).flat_map(|n| {
        let mut next = frame.clone();
        let by = Move { frames: n as i64, packets: n as i64, fps: Some(4), ..Move::default() };
        if let Some((header, length)) = stamps.moved(&frame, &by) {
            next[..length].copy_from_slice(&header[..length]);
        }
        next
    });
    Some(frames.collect())
}

/// Turn bits of every frame's header.
fn turned(file: &[u8], at: u8, bits: u8) -> Vec<u8> {
    let mut file = file.to_vec();
    if let Framing::Length(length) = Format::Auto.framing(&file) {
        file.chunks_mut(length)
            .filter_map(|frame| frame.get_mut(usize::from(at)))
            .for_each(|octet| *octet ^= bits);
    }
    file
}

pub(crate) fn run(bytes: &[u8]) {
    let Some((&[first, second, at, bits], file)) = bytes.split_first_chunk() else { return };
    let file = &turned(file, at, bits)[..];
    let path = DISK.join("samples");
    std::fs::write(&path, file).expect("a file for the fuzzer");
    let tracks: Vec<u32> = (0..u32::from(second >> 5) * 2).collect();
    let options = Options {
        sample_rate: (first & 1 == 1).then(|| 1 << (10 + (first >> 5))),
        threads: (first & 2 == 2).then(|| vec![u16::from(second & 3), 9]),
        bits: (first & 4 == 4).then_some(u32::from(second & 3)),
        channels: (first & 0x20 == 0x20).then_some(1 << (second & 7)),
        tracks: if second & 8 == 8 { Tracks::new(u32::MAX, &tracks).ok() } else { None },
        near: Some(1_767_225_600),
        workers: 1 + usize::from(first >> 3 & 1),
        ..Options::default()
    };
    let Ok(samples) = Samples::of_files([&path], &options) else { return };
    let (row, per_frame) = (samples.row(), samples.frame_rows());
    let rows = (MOST / row).min(usize::try_from(samples.rows()).unwrap_or(usize::MAX));
    for from in [0, samples.rows() / 3, samples.rows().saturating_sub(rows as u64 / 2)] {
        let mut out = vec![0f32; rows * row];
        let read = samples.read(from, &mut out).expect("a range of this stream");
        let each = row / samples.threads().len();
        for (n, cell) in out.chunks_exact(each).enumerate() {
            let (at, thread) = (from + (n / samples.threads().len()) as u64, n % samples.threads().len());
            let frame = (at / per_frame - read.frames.start) as usize;
            let valid = read.valid[frame * samples.threads().len() + thread];
            assert!(
                cell.iter().all(|sample| sample.is_nan() != valid),
                "row {at}, thread {thread}: {cell:?}"
            );
        }
    }
}
