//! The target for samples: the bytes are two octets of options, then a file of frames.
//!
//! Held: whatever a file says, it is read or refused; what is read is missing exactly where its frames are said to be.

use crate::recording::DISK;
use skyhaul::samples::{Options, Samples, Tracks};
use skyhaul_core::wire::mark5b::{self, Mark5b};
use skyhaul_core::wire::vdif::{Extended, Header, Vdif};

/// Elementary samples in a read.
const MOST: usize = 1 << 16;

pub(crate) fn seeds() -> Vec<Vec<u8>> {
    let shapes = [(1, 2, false), (4, 1, false), (2, 8, true), (16, 4, false), (1, 32, false), (1, 16, true)];
    let vdif = |(channels, bits, complex)| {
        let shape = Vdif::shape(64, channels, bits, complex, bits > 8).unwrap_or_default();
        let frame = |n: u32| {
            let vdif = Vdif { thread: n % 3, ..shape.at(1_767_225_600 + i64::from(n / 12), n / 3 % 4)? };
            let extended = if bits > 8 { Extended::Legacy } else { Extended::read(&[0; 16])? };
            let (octets, length) = Header { vdif, extended }.write();
            Some([&octets[..length], &[n as u8; 64]].concat())
        };
        [vec![1, 0], (0..30).filter_map(frame).flatten().collect()].concat()
    };
    let mark5b = (0..3).flat_map(|n| {
        let header = Mark5b::new(mark5b::Time { day: 60, second: 100, frame: n }, 0);
        [&header.write()[..], &[5; mark5b::PAYLOAD]].concat()
    });
    let mark5b = [0x22, 3].into_iter().chain(mark5b).collect();
    shapes.into_iter().map(vdif).chain([mark5b]).collect()
}

pub(crate) fn run(bytes: &[u8]) {
    let Some((&[first, second], file)) = bytes.split_first_chunk() else { return };
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
