//! Samples of data whose headers are wrong: what is repaired is counted and said, and a wrong rate is not used.

use crate::site::vdif;
use crate::site::{number, run};
use std::path::{Path, PathBuf};

/// Seconds by which the clock of thread 1 is wrong, as in data of a station.
const WRONG: i64 = 14_352_384;

fn write(directory: &Path, frames: impl Iterator<Item = Vec<u8>>) -> PathBuf {
    let path = directory.join("data.vdif");
    std::fs::write(&path, frames.collect::<Vec<_>>().concat()).unwrap();
    path
}

fn directory() -> tempfile::TempDir {
    tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap()
}

/// Frames of 1600 samples, 100 in a second; the clock of thread 1 is wrong.
fn frames() -> impl Iterator<Item = Vec<u8>> {
    (0..350u32).flat_map(|n| {
        let second = 1_790_000_000 + i64::from(n / 100);
        [vdif(second, n % 100, 0, 400), vdif(second - WRONG, n % 100, 1, 400)]
    })
}

#[test]
fn frames_of_a_thread_with_a_wrong_clock_are_counted() {
    let directory = directory();
    let path = write(directory.path(), frames());
    let out = directory.path().join("samples.npy");
    let line = format!("export {} --sample-rate 160kHz -o {}", path.display(), out.display());
    let done = run(&format!("{line} --json")).expect(0);
    let report = done.json();
    assert_eq!((number(&report["repaired"]), number(&report["missing"])), (350, 0), "{report}");
    let note = format!("clock of thread 1 is wrong: {WRONG:+} s to place it");
    assert!(report["notes"].to_string().contains(&note), "{report}");
    assert!(done.stderr.contains(&format!("note: {note}")), "{}", done.stderr);
    assert!(done.stderr.contains("note: 350 frames used with a repaired time"), "{}", done.stderr);
    let survey = run(&format!("plot {} --sample-rate 160kHz --all --json", path.display())).expect(0);
    assert_eq!(number(&survey.json()["repaired"]), 350, "{}", survey.stderr);
}

#[test]
fn a_sample_rate_that_a_frame_number_disproves_is_refused() {
    let directory = directory();
    let right = |rate: &str, path: &Path| {
        let out = directory.path().join(format!("{rate}.npy"));
        run(&format!("export {} --sample-rate {rate} -o {} --json", path.display(), out.display()))
    };
    let path = write(directory.path(), frames());
    for rate in ["80kHz", "158400Hz"] {
        let done = right(rate, &path).expect(2);
        assert!(done.stderr.contains("the data have frame number 99 in a second"), "{rate}: {}", done.stderr);
    }
    // The first seconds do not show it: it is met while the samples are read.
    let late = (0..30_000u32).map(|n| {
        let (second, frame) = if n < 29_000 { (n / 50, n % 50) } else { (580 + (n - 29_000) / 100, n % 100) };
        vdif(1_790_000_000 + i64::from(second), frame, 0, 400)
    });
    let path = write(directory.path(), late);
    let done = right("80kHz", &path).expect(2);
    assert!(done.stderr.contains("frames/s are too few"), "{}", done.stderr);
    // One damaged frame number is no proof.
    let one = frames().enumerate().map(|(n, mut frame)| {
        if n == 200 {
            frame[4..7].copy_from_slice(&[0xFF, 0xFF, 0x3F]);
        }
        frame
    });
    let path = write(directory.path(), one);
    let report = right("160kHz", &path).expect(1).json();
    assert_eq!((number(&report["missing"]), number(&report["not_shown"])), (1, 1), "{report}");
}
