use super::*;
use crate::samples::Options;
use skyhaul_core::wire::vdif::Vdif;

const RATE: u64 = 16_000;

/// Two threads of two channels with 2 bits, and a lost frame.
fn scan(directory: &Path, complex: bool) -> Samples {
    let path = directory.join("scan");
    let shape = Vdif::shape(800, 2, 2, complex, true).unwrap();
    let unit = |n: u32, thread: u32| {
        let vdif = Vdif { thread, ..shape.at(1_767_225_600, n).unwrap() };
        [&vdif.write()[..], &[0b11_10_01_00; 800]].concat()
    };
    let units = (0..9).flat_map(|n| [(n, 0), (n, 1)]).filter(|&at| at != (4, 1));
    std::fs::write(&path, units.flat_map(|(n, thread)| unit(n, thread)).collect::<Vec<u8>>()).unwrap();
    Samples::of_files([&path], &Options { sample_rate: Some(RATE), ..Options::default() }).unwrap()
}

fn options(rows: Range<u64>) -> ExportOptions {
    ExportOptions { rows, format: None, integers: false }
}

#[test]
fn numbers_follow_each_other_and_the_note_says_what_they_are() {
    let directory = tempfile::tempdir().unwrap();
    let samples = scan(directory.path(), false);
    let rows = 1000..7000;
    let mut expected = vec![0f32; 6000 * 4];
    samples.read(1000, &mut expected).unwrap();
    for (name, before) in [("x.f32", 0), ("x.npy", 128)] {
        let path = directory.path().join(name);
        let done = samples.export(&path, &options(rows.clone()), |_, _| true).unwrap();
        assert_eq!((&done.shape[..], done.dtype, done.bytes), (&[6000, 2, 2][..], "float32", 96_000));
        assert_eq!((done.frames, done.missing), (10, 1));
        let octets = std::fs::read(&path).unwrap();
        let read = octets[before..].as_chunks::<4>().0.iter().map(|octets| f32::from_le_bytes(*octets));
        assert!(read.zip(&expected).all(|(a, b)| a.to_bits() == b.to_bits() || a.is_nan() && b.is_nan()));
        assert_eq!(octets.len(), before + 96_000);
        let note: serde_json::Value =
            serde_json::from_slice(&std::fs::read(beside(&path, ".json")).unwrap()).unwrap();
        assert_eq!(note["start"], "2026-01-01T00:00:00.0625Z");
        assert_eq!(note["missing_frames"], 1);
        assert!(matches!(
            samples.export(&path, &options(rows.clone()), |_, _| true),
            Err(ExportError::Exists(found)) if found == path
        ));
    }
}

#[test]
fn nothing_is_left_of_an_export_that_ended() {
    let directory = tempfile::tempdir().unwrap();
    let samples = scan(directory.path(), true);
    let there = || std::fs::read_dir(directory.path()).unwrap().count();
    let before = there();
    for name in ["x.npy", "x.c64", "x.h5", "x.zarr"] {
        let path = directory.path().join(name);
        let ended = samples.export(&path, &options(0..samples.rows()), |done, _| done > 0);
        assert!(matches!(ended, Err(ExportError::Interrupted)), "{name}");
        assert_eq!(there(), before, "{name}");
    }
    let nowhere = directory.path().join("no/x.npy");
    assert!(matches!(samples.export(&nowhere, &options(0..9), |_, _| true), Err(ExportError::Write { .. })));
    let nameless = directory.path().join("x");
    let said = samples.export(&nameless, &options(0..9), |_, _| true).unwrap_err().to_string();
    assert!(said.contains("its name tells no format; hint: "), "{said}");
    let beyond = 0..samples.rows() + 1;
    assert!(samples.export(&directory.path().join("x.h5"), &options(beyond), |_, _| true).is_err());
}

/// What an export did not make stays, and of two exports to one name the first that is whole has it.
#[test]
fn only_its_own_part_is_removed_and_nothing_is_replaced() {
    let directory = tempfile::tempdir().unwrap();
    let samples = scan(directory.path(), false);
    for name in ["x.npy", "x.h5", "x.zarr"] {
        let path = directory.path().join(name);
        let mine = beside(&path, ".part");
        std::fs::create_dir(&mine).unwrap();
        std::fs::write(mine.join("kept"), "mine").unwrap();
        let mut other = None;
        let first = samples.export(&path, &options(0..6000), |done, _| {
            if done > 0 && other.is_none() {
                other = Some(samples.export(&path, &options(1000..2000), |_, _| true));
            }
            true
        });
        let taken = if name == "x.npy" { beside(&path, ".json") } else { path.clone() };
        assert!(matches!(&first, Err(ExportError::Exists(found)) if *found == taken), "{name}: {first:?}");
        assert_eq!(other.unwrap().unwrap().shape[0], 1000, "{name}");
        assert_eq!(std::fs::read_to_string(mine.join("kept")).unwrap(), "mine");
        if name == "x.npy" {
            assert_eq!(std::fs::metadata(&path).unwrap().len(), 128 + 16_000);
            assert!(std::fs::read_to_string(beside(&path, ".json")).unwrap().contains("1000"));
        }
        let parts = std::fs::read_dir(directory.path())
            .unwrap()
            .filter(|entry| entry.as_ref().unwrap().file_name().to_string_lossy().ends_with(".part"));
        assert_eq!(parts.count(), 1, "{name}");
        std::fs::remove_dir_all(&mine).unwrap();
    }
}
