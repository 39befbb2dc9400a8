use super::*;
use std::fs::{create_dir, create_dir_all, remove_file, rename, write};

const SHORT: Duration = Duration::from_secs(20);

fn disks(count: usize) -> (tempfile::TempDir, Vec<PathBuf>) {
    let directory = tempfile::tempdir().unwrap();
    let disks: Vec<PathBuf> = (0..count).map(|n| directory.path().join(n.to_string())).collect();
    disks.iter().for_each(|disk| create_dir(disk).unwrap());
    (directory, disks)
}

/// A chunk of a scan without an index.
fn chunk(disk: &Path, name: &str, number: u32, bytes: &[u8]) -> PathBuf {
    create_dir_all(disk.join(name)).unwrap();
    let path = disk.join(format!("{name}/{name}.{number:08}"));
    write(&path, bytes).unwrap();
    path
}

fn fingerprint(disks: &[PathBuf], scan: &str) -> Option<String> {
    let survey = ScanSurvey::of(disks, SHORT);
    let parts = survey.scans.get(scan).cloned().unwrap_or_default();
    let all = scan_fingerprint(scan, parts.iter().map(|(disk, part)| (disks[*disk].as_path(), part)));
    // Asked for alone it is the same.
    let alone = scan_parts(disks, scan, SHORT).unwrap();
    let alone = disks.iter().zip(&alone).filter_map(|(disk, part)| Some((disk.as_path(), part.as_ref()?)));
    assert_eq!(scan_fingerprint(scan, alone), all, "{scan}");
    all
}

#[test]
fn scans_of_every_kind_are_found_with_their_parts() {
    let (_directory, disks) = disks(2);
    chunk(&disks[0], "s", 0, b"abc");
    chunk(&disks[1], "s", 1, b"de");
    chunk(&disks[1], "s_ds1", 0, b"f");
    // Another scan, whose name only begins so.
    chunk(&disks[0], "st", 0, b"g");
    // A further datastream alone is a scan of its own.
    chunk(&disks[0], "lone_ds1", 0, b"h");
    create_dir(disks[0].join("data")).unwrap();
    let mut head: Vec<u8> =
        [0xfeed_6666_u32, 2, 5000, 0, 8032].iter().flat_map(|word| word.to_le_bytes()).collect();
    head.extend([0; 100]);
    for (disk, path) in [(0, "data/m6.vdif"), (1, "m6")] {
        write(disks[disk].join(path), &head).unwrap();
    }
    // What is none: other directories and files, however deep.
    create_dir_all(disks[0].join("home/a/b/c/d/e/f/g")).unwrap();
    write(disks[0].join("station_queue.json"), "{}").unwrap();
    let survey = ScanSurvey::of(&disks, SHORT);
    let found: Vec<_> = survey
        .scans
        .iter()
        .map(|(name, parts)| {
            let parts = parts.iter().map(|(disk, of)| (*disk, of.files, of.bytes));
            (name.as_str(), parts.collect::<Vec<_>>())
        })
        .collect();
    let expected = [
        ("lone_ds1", vec![(0, 1, 1)]),
        ("m6", vec![(0, 1, 120), (1, 1, 120)]),
        ("s", vec![(0, 1, 3), (1, 2, 3)]),
        ("st", vec![(0, 1, 1)]),
    ];
    assert_eq!(found, expected);
    assert!(survey.silent_disks.is_empty() && survey.unreadable_disks.is_empty());
    assert!(survey.scans.values().flatten().all(|(_, part)| part.problem.is_none()));
    for scan in ["lone_ds1", "m6", "s", "st"] {
        assert!(fingerprint(&disks, scan).is_some_and(|text| text.len() == 64), "{scan}");
    }
    assert_eq!(fingerprint(&disks, "nothing"), None);
    // By the list that people see, too.
    assert_eq!(crate::recording::scans_on(&disks), ["lone_ds1", "m6", "s", "st"]);
}

#[test]
fn every_change_of_a_file_changes_the_fingerprint_of_its_scan_and_of_no_other() {
    let (_directory, disks) = disks(2);
    let path = chunk(&disks[0], "s", 0, b"abc");
    chunk(&disks[1], "s", 1, b"de");
    chunk(&disks[0], "t", 0, b"xyz");
    let other = fingerprint(&disks, "t");
    let mut known = vec![fingerprint(&disks, "s").unwrap()];
    assert_eq!(known[0], fingerprint(&disks, "s").unwrap(), "nothing has changed");
    let times = || std::fs::metadata(&path).unwrap().modified().unwrap();
    type Change<'a> = (&'a str, Box<dyn Fn() + 'a>);
    let changes: [Change<'_>; 7] = [
        ("a new file", Box::new(|| write(disks[1].join("s/note"), "").unwrap())),
        ("a new datastream", Box::new(|| drop(chunk(&disks[1], "s_ds1", 0, b"f")))),
        ("a byte more", Box::new(|| write(&path, b"abcd").unwrap())),
        (
            "other bytes, with the time of those before",
            Box::new(|| {
                let before = times();
                write(&path, b"abcX").unwrap();
                std::fs::File::options().write(true).open(&path).unwrap().set_modified(before).unwrap();
            }),
        ),
        (
            "the same bytes in another file",
            Box::new(|| {
                let before = times();
                write(disks[0].join("new"), b"abcX").unwrap();
                std::fs::File::options()
                    .write(true)
                    .open(disks[0].join("new"))
                    .unwrap()
                    .set_modified(before)
                    .unwrap();
                rename(disks[0].join("new"), &path).unwrap();
            }),
        ),
        ("a file in a directory below", Box::new(|| create_dir_all(disks[0].join("s/a/b")).unwrap())),
        ("a file less", Box::new(|| remove_file(&path).unwrap())),
    ];
    for (what, change) in changes {
        // Times of files are as exact as the kernel's clock ticks.
        std::thread::sleep(Duration::from_millis(20));
        change();
        let now = fingerprint(&disks, "s").unwrap();
        assert!(!known.contains(&now), "{what}");
        known.push(now);
    }
    assert_eq!(fingerprint(&disks, "t"), other);
}

#[test]
fn what_cannot_be_looked_at_has_no_fingerprint() {
    let (_directory, disks) = disks(2);
    chunk(&disks[0], "s", 0, b"abc");
    std::os::unix::fs::symlink("/nowhere/at/all", disks[0].join("s/link")).unwrap();
    let survey = ScanSurvey::of(&disks, SHORT);
    let part = &survey.scans["s"][0].1;
    assert!(part.problem.as_ref().is_some_and(|why| why.contains("s/link: ")), "{part:?}");
    assert_eq!(fingerprint(&disks, "s"), None);
    remove_file(disks[0].join("s/link")).unwrap();
    assert!(fingerprint(&disks, "s").is_some());
    create_dir_all(disks[0].join("s/1/2/3/4/5/6")).unwrap();
    assert_eq!(fingerprint(&disks, "s"), None);
    // A disk that is gone is no disk without scans.
    let gone = [disks[0].clone(), disks[1].join("gone")];
    let survey = ScanSurvey::of(&gone, SHORT);
    assert!(survey.unreadable_disks[0].0 == 1 && survey.scans.contains_key("s"));
    let error = scan_parts(&gone, "s", SHORT).unwrap_err().to_string();
    assert!(error.contains("gone: "), "{error}");
}
