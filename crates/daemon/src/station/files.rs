//! Files of this host that VSI-S may read and write: those below the directories of the configuration.

use skyhaul::io::disk::Tree;
use skyhaul::io::disk::tree::Kind;
use std::path::{Path, PathBuf};

/// The directory that a path is below, and the path in it.
///
/// # Errors
/// It is below none of them, or the directory cannot be opened.
pub(crate) fn find(directories: &[PathBuf], path: &str) -> Result<(Tree, PathBuf), String> {
    let below = |directory: &PathBuf| {
        let rest = Path::new(path).strip_prefix(directory).ok()?;
        (!rest.as_os_str().is_empty()).then(|| (directory.clone(), rest.to_owned()))
    };
    let found = directories.iter().filter_map(below).max_by_key(|(directory, _)| directory.as_os_str().len());
    let Some((directory, rest)) = found else {
        return Err(format!("{path} is below no directory of `files` of the configuration"));
    };
    let tree = Tree::open(&directory).map_err(|error| format!("{}: {error}", directory.display()))?;
    Ok((tree.shared(), rest))
}

/// A path as it was given, or a bare name in the first directory.
pub(crate) fn named(directories: &[PathBuf], name: &str) -> String {
    match directories.first() {
        Some(first) if !name.contains('/') => first.join(name).to_string_lossy().into_owned(),
        _ => name.to_owned(),
    }
}

/// The directory that a file is below which is to be written, its path there, and whether it exists.
///
/// # Errors
/// It is below none of them, its own directory does not exist, it exists and `is_kept`, or it is no regular file.
pub(crate) fn writable(
    directories: &[PathBuf],
    name: &str,
    is_kept: bool,
) -> Result<(Tree, PathBuf, bool), String> {
    let (tree, path) = find(directories, name)?;
    let above = path.parent().unwrap_or(Path::new(""));
    tree.directory(above).map_err(|error| format!("the directory of {name}: {error}"))?;
    let status = tree.status(&path).map_err(|error| format!("{name}: {error}"))?;
    match status.map(|status| status.kind) {
        Some(Kind::File) if is_kept => Err(exists(name)),
        Some(Kind::File) => Ok((tree, path, true)),
        Some(_) => Err(format!("{name}: it is no regular file")),
        None => Ok((tree, path, false)),
    }
}

/// Why a file that exists is not written: m5copy knows it by these words.
pub(crate) fn exists(name: &str) -> String {
    format!("{name}: File exists")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_found_below_their_directories() {
        let directory = tempfile::tempdir().unwrap();
        let (root, inner) = (directory.path().to_owned(), directory.path().join("in"));
        std::fs::create_dir(&inner).unwrap();
        let roots = [root.clone(), inner.clone()];
        let of = |path: &Path| {
            find(&roots, path.to_str().unwrap()).map(|(tree, rest)| (tree.path().to_owned(), rest))
        };
        assert_eq!(of(&root.join("a/b")), Ok((root.clone(), "a/b".into())));
        assert_eq!(of(&inner.join("c")), Ok((inner.clone(), "c".into())));
        for bad in [root.parent().unwrap().join("x"), root.clone(), "a".into(), "/".into()] {
            assert!(of(&bad).is_err(), "{}", bad.display());
        }
        // What leads out again is refused when it is opened.
        let (tree, rest) = find(&roots, root.join("../x").to_str().unwrap()).unwrap();
        assert!(tree.read(&rest, false).is_err() && tree.write(&rest, false).is_err());
    }
}
