use super::super::{Options, Samples};
use super::SECOND;
use skyhaul_core::wire::vdif::Vdif;
use std::path::Path;

/// Samples in a frame of [`file`].
const FRAME: u64 = 3200;

/// Frames of some threads, from number `from` to before `to`, at `fps`; without those that are lost.
fn file(path: &Path, threads: u32, fps: u32, from: u32, to: u32, lost: impl Fn(u32) -> bool) {
    let shape = Vdif::shape(800, 1, 2, false, true).unwrap();
    let frame = |n: u32, thread: u32| {
        let vdif = shape.at(SECOND + i64::from(n / fps), n % fps).unwrap();
        [&Vdif { thread, ..vdif }.write()[..], &[0xE4; 800]].concat()
    };
    let there = (from..to).filter(|&n| !lost(n));
    let all = there.flat_map(|n| (0..threads).map(move |thread| frame(n, thread)));
    std::fs::write(path, all.flatten().collect::<Vec<u8>>()).unwrap();
}

fn opened(path: &Path, fps: u32) -> Result<u32, String> {
    let options = Options { sample_rate: Some(u64::from(fps) * FRAME), ..Options::default() };
    Samples::of_files([path], &options)
        .map(|samples| samples.frames_per_second())
        .map_err(|error| error.to_string())
}

/// The first frames have no number that a rate of 9000 could not have.
#[test]
fn a_rate_that_a_later_frame_number_disproves_is_refused_at_once() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("x.vdif");
    for (threads, from, to) in [(1, 0, 25_000), (2, 9_500, 11_000), (1, 0, 9_990)] {
        file(&path, threads, 10_000, from, to, |n| n % 7 == 3);
        let why = opened(&path, 9_000).unwrap_err();
        assert!(why.contains("9000 frames/s are too few: the data have frame number 99"), "{why}");
        assert!(why.contains("hint: correct the sample rate"), "{why}");
        assert_eq!(opened(&path, 10_000), Ok(10_000));
    }
}

#[test]
fn a_rate_with_which_seconds_would_have_no_end_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("x.vdif");
    file(&path, 2, 1000, 300, 5700, |n| n % 11 == 5);
    let why = opened(&path, 2000).unwrap_err();
    assert!(
        why.contains("2000 frames/s are too many: the seconds of the data end with frame number 999"),
        "{why}"
    );
    assert_eq!(opened(&path, 1000), Ok(1000));
    // One end alone may be a loss.
    file(&path, 1, 1000, 300, 1700, |_| false);
    assert_eq!(opened(&path, 2000), Ok(2000));
    // The ends of some seconds are lost: the others show the rate.
    file(&path, 1, 1000, 0, 8000, |n| (2990..3000).contains(&n));
    assert_eq!(opened(&path, 1000), Ok(1000));
}

/// A damaged header has any number, alone.
#[test]
fn one_damaged_header_disproves_no_rate() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("x.vdif");
    file(&path, 1, 1000, 0, 3000, |_| false);
    let mut bytes = std::fs::read(&path).unwrap();
    for frame in [999, 1000, 2999] {
        bytes[frame * 816 + 5] ^= 0x55;
    }
    std::fs::write(&path, bytes).unwrap();
    assert_eq!(opened(&path, 1000), Ok(1000));
}
