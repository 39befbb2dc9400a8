//! A place beside a destination's files for a copy in small: a directory that goes away with what is in it.
//!
//! It is locked while it is used. One that a kill left is removed after the next copy in small into the same directory; no copy
//! takes it for something to be copied.

use super::destination::Into;
use super::names::ASIDE;
use skyhaul::peer::{hex, random};
use std::fs::File;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;

/// One such directory for each destination.
pub(super) struct Aside {
    all: Vec<Place>,
}

struct Place {
    /// The destination.
    beside: Into,
    into: Into,
    /// Its lock.
    _held: Arc<File>,
}

impl Aside {
    /// Make them.
    ///
    /// # Errors
    /// They cannot be made: a disk that is full or read-only, no permission.
    pub(super) fn of(into: &[Into]) -> io::Result<Self> {
        let mut all = Self { all: Vec::new() };
        for one in into {
            let path = one.path.join(format!("{ASIDE}{}", hex(&random::<8>()?)));
            one.tree.make_dirs(&path).map_err(|error| one.failed(&error))?;
            let held = one.tree.hold(&path).map_err(|error| one.failed(&error))?;
            let into = Into { tree: one.tree.clone(), path };
            all.all.push(Place { beside: one.clone(), into, _held: held });
        }
        Ok(all)
    }

    /// The directories to copy into.
    pub(super) fn places(&self) -> Vec<Into> {
        self.all.iter().map(|place| place.into.clone()).collect()
    }
}

impl Drop for Aside {
    fn drop(&mut self) {
        for Place { beside, into, .. } in &self.all {
            // What cannot be removed now, the next one removes.
            let _ = into.tree.remove_all(&into.path);
            clear(beside);
            // What is left to do about it would delay what is measured next.
            let _ = beside.tree.directory(&beside.path).and_then(|directory| directory.sync_all());
        }
    }
}

/// Remove what a kill left.
fn clear(into: &Into) {
    let names = into.tree.list(&into.path).unwrap_or_default();
    for name in names.iter().filter(|name| name.as_encoded_bytes().starts_with(ASIDE.as_bytes())) {
        let path: PathBuf = into.path.join(name);
        if let Ok(held) = into.tree.hold(&path) {
            let _ = into.tree.remove_all(&path);
            drop(held);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use skyhaul_io::disk::Tree;

    #[test]
    fn nothing_is_left_and_what_a_kill_left_is_removed() {
        let directory = tempfile::tempdir().unwrap();
        let left = directory.path().join(".skyhaul-trial-0/a/b");
        std::fs::create_dir_all(&left).unwrap();
        std::fs::write(left.join("c"), "x").unwrap();
        std::fs::write(directory.path().join("other"), "x").unwrap();
        let into = Into { tree: Arc::new(Tree::open(directory.path()).unwrap()), path: PathBuf::new() };
        let names = || std::fs::read_dir(directory.path()).unwrap().count();
        {
            let first = Aside::of(std::slice::from_ref(&into)).unwrap();
            drop(Aside::of(std::slice::from_ref(&into)).unwrap());
            // The one of the kill is gone, that of another copy is not.
            let second = Aside::of(&[into]).unwrap();
            assert_eq!(names(), 3);
            for one in first.places().iter().chain(&second.places()) {
                std::fs::write(one.tree.path().join(&one.path).join("f"), "x").unwrap();
            }
        }
        assert_eq!(names(), 1);
    }

    #[test]
    fn a_place_that_cannot_be_made_is_named() {
        let directory = tempfile::tempdir().unwrap();
        std::fs::write(directory.path().join("file"), "x").unwrap();
        let tree = Arc::new(Tree::open(directory.path()).unwrap());
        let error = Aside::of(&[Into { tree, path: "file".into() }]).err().unwrap().to_string();
        assert!(error.contains("write ") && error.contains("/file"), "{error}");
    }
}
