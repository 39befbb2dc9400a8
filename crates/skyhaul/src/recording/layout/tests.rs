use super::*;
use std::path::Path;

fn scan(disks: &[&Path], chunks: &[(usize, u32, usize)]) -> Recording {
    for &(disk, number, bytes) in chunks {
        let directory = disks[disk].join("s");
        std::fs::create_dir_all(&directory).unwrap();
        std::fs::write(directory.join(format!("s.{number:08}")), vec![number as u8; bytes]).unwrap();
    }
    Recording::open(disks.iter().copied(), "s").unwrap()
}

#[test]
fn a_missing_chunk_keeps_its_place_and_the_end_moves() {
    let (a, b) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let disks = [a.path(), b.path()];
    let before = scan(&disks, &[(0, 0, 100), (1, 1, 100), (0, 3, 40)]).layout(0);
    let found: Vec<(u64, u64, bool)> = before
        .extents
        .iter()
        .map(|extent| (extent.offset, extent.bytes, matches!(extent.content, ExtentContent::Chunk(_))))
        .collect();
    assert_eq!(found, [(0, 100, true), (100, 100, true), (200, 100, false), (300, 40, true)]);
    assert_eq!(
        (before.bytes(), before.find(299), before.find(300), before.find(340)),
        (340, Some(2), Some(3), None)
    );
    assert!(!before.is_growing && before.gaps.iter().any(|gap| gap.chunks == (2, 3)));
    // What was missing is found, and the last chunk went on.
    let after = scan(&disks, &[(1, 2, 100), (0, 3, 90), (1, 4, 10)]).layout(0);
    assert!(after.continues(&before) && after.bytes() == 400 && !before.continues(&after));
    // A chunk of another length moves what follows it.
    let moved = scan(&disks, &[(1, 1, 99)]).layout(0);
    assert!(!moved.continues(&before));
    assert_eq!(Recording::open(disks, "s").unwrap().layout(7), ScanLayout::default());
}
