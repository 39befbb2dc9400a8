//! Names that point outside the directory, and files that other processes write.

use super::*;

#[test]
fn nothing_leads_out_of_the_directory() {
    let directory = tempfile::tempdir().unwrap();
    let inside = directory.path().join("inside");
    std::fs::create_dir_all(inside.join("a")).unwrap();
    std::fs::write(directory.path().join("secret"), "x").unwrap();
    std::os::unix::fs::symlink("..", inside.join("out")).unwrap();
    std::os::unix::fs::symlink("../secret", inside.join("leak")).unwrap();
    let tree = Tree::open(&inside).unwrap();
    for path in ["../secret", "/etc/passwd", "a/../../secret", "out/secret", "leak", ".", ""] {
        let path = Path::new(path);
        assert!(tree.read(path, false).is_err(), "{path:?} was read");
        assert!(tree.write(path, false).is_err(), "{path:?} was written");
    }
    for path in ["../new", "out/new", "/tmp/skyhaul-new", "leak/new"] {
        assert!(tree.make_dirs(Path::new(path)).is_err(), "{path:?} was made");
    }
    assert!(!directory.path().join("new").exists());
    assert_eq!(tree.status(Path::new("leak")).unwrap().unwrap().kind, Kind::Link);
    assert_eq!(tree.link(Path::new("leak")).unwrap(), "../secret");
}

#[test]
fn one_process_writes_a_file_at_a_time() {
    let directory = tempfile::tempdir().unwrap();
    let tree = Tree::open(directory.path()).unwrap();
    let held = tree.write(Path::new("f"), true).unwrap();
    assert_eq!(tree.write(Path::new("f"), true).unwrap_err().kind(), io::ErrorKind::WouldBlock);
    drop(held);
    tree.write(Path::new("f"), true).unwrap();
}

/// A file that gets its final name while another process waits for its lock must not be written by that process.
#[test]
fn a_file_that_got_another_name_is_not_written_under_the_old_one() {
    let directory = tempfile::tempdir().unwrap();
    let tree = Tree::open(directory.path()).unwrap();
    let (mut held, _) = tree.write(Path::new("part"), false).unwrap();
    let waits = std::thread::scope(|scope| {
        let waits = scope.spawn(|| tree.write(Path::new("part"), false));
        std::thread::sleep(KILLED / 10);
        std::io::Write::write_all(&mut held, b"whole").unwrap();
        tree.rename(Path::new("part"), Path::new("whole"), false).unwrap();
        drop(held);
        waits.join().unwrap()
    });
    let (file, _) = waits.unwrap();
    file.set_len(0).unwrap();
    assert_eq!(std::fs::read(directory.path().join("whole")).unwrap(), b"whole");
}

#[test]
fn a_directory_goes_with_what_is_in_it_and_nothing_that_links_lead_to() {
    let directory = tempfile::tempdir().unwrap();
    let inside = directory.path().join("inside");
    std::fs::create_dir_all(inside.join("a/b")).unwrap();
    std::fs::write(directory.path().join("secret"), "x").unwrap();
    std::fs::write(inside.join("a/b/f"), "x").unwrap();
    std::os::unix::fs::symlink("../../..", inside.join("a/b/out")).unwrap();
    let tree = Tree::open(&inside).unwrap();
    let held = tree.hold(Path::new("a")).unwrap();
    assert_eq!(tree.hold(Path::new("a")).unwrap_err().kind(), io::ErrorKind::WouldBlock);
    drop(held);
    tree.hold(Path::new("a")).unwrap();
    for out in ["a/b/out", "..", "", "a/b/f"] {
        assert!(tree.remove_all(Path::new(out)).is_err(), "{out:?} was removed");
    }
    tree.remove_all(Path::new("a")).unwrap();
    assert!(tree.list(Path::new("")).unwrap().is_empty() && directory.path().join("secret").exists());
}
