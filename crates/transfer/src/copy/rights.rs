//! What a server gives to its clients: directories under names, and what may be done below them.

use super::message::{Direction, Exists, Request};
use skyhaul_core::hint::Hint;
use skyhaul_io::disk::Tree;
use std::fmt::Debug;
use std::io;
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

/// How a client uses a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CopyUse {
    /// List a directory and copy all that is in it.
    List,
    /// Read a file.
    Read,
    /// Make files and directories in it that do not exist.
    Create,
    /// Replace what exists in it.
    Modify,
}

/// What a client may do.
pub trait CopyRights: Debug + Send + Sync {
    /// Whether it may use a path so. What it may do with a directory, it may do with all below it.
    fn may(&self, how: CopyUse, path: &Path) -> bool;
}

/// Holders of the token may do everything.
#[derive(Clone, Copy, Debug)]
pub(super) struct Everything;

impl CopyRights for Everything {
    fn may(&self, _: CopyUse, _: &Path) -> bool {
        true
    }
}

/// A directory that is served.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CopyRoot {
    /// How clients name it: an absolute path.
    pub name: PathBuf,
    /// The directory.
    pub directory: PathBuf,
    /// Whether anything may be written into it.
    pub is_writable: bool,
    /// Whether only the directories in it are served, not the files beside them: the disk of a station.
    pub is_disk: bool,
}

/// The same, open.
#[derive(Clone, Debug)]
pub(super) struct OpenRoot {
    pub(super) tree: Arc<Tree>,
    pub(super) name: PathBuf,
    is_writable: bool,
    pub(super) is_disk: bool,
}

impl CopyRoot {
    /// A directory that clients name by its own path.
    pub(super) fn plain(directory: &Path, is_writable: bool) -> io::Result<Self> {
        let name = std::fs::canonicalize(directory)
            .map_err(|error| skyhaul_io::file::failed("serve", directory, &error))?;
        Ok(Self { directory: name.clone(), name, is_writable, is_disk: false })
    }

    pub(super) fn open(self) -> io::Result<OpenRoot> {
        let Self { name, directory, is_writable, is_disk } = self;
        let failed = |error| skyhaul_io::file::failed("serve", &directory, &error);
        let tree = Tree::open(&std::fs::canonicalize(&directory).map_err(failed)?).map_err(failed)?;
        Ok(OpenRoot { tree: Arc::new(tree), name, is_writable, is_disk })
    }
}

/// A path that a client gave: the root that holds it, and the path there.
#[derive(Clone, Debug)]
pub(super) struct Asked<'a> {
    pub(super) root: &'a OpenRoot,
    pub(super) rest: PathBuf,
}

impl Asked<'_> {
    /// Finds a path among the roots: absolute, or below the first root.
    pub(super) fn find<'r>(roots: &'r [OpenRoot], path: &Path) -> Result<Asked<'r>, String> {
        let outside = || {
            let names: Vec<_> = roots.iter().map(|root| root.name.display().to_string()).collect();
            format!(
                "{} is outside the served directories ({}){}",
                path.display(),
                names.join(", "),
                Hint("give a path below one of them")
            )
        };
        let (root, rest) = match path.is_absolute() {
            // The longest: roots may lie in each other.
            true => {
                let within = roots.iter().filter(|root| path.starts_with(&root.name));
                let root = within.max_by_key(|root| root.name.as_os_str().len()).ok_or_else(outside)?;
                (root, path.strip_prefix(&root.name).map_err(|_| outside())?)
            }
            false => (roots.first().ok_or_else(outside)?, path),
        };
        let rest: PathBuf = rest.components().filter(|part| *part != Component::CurDir).collect();
        if !rest.components().all(|part| matches!(part, Component::Normal(_))) {
            return Err(outside());
        }
        if root.is_disk && rest.as_os_str().is_empty() {
            let hint = Hint(format_args!("such as {}/SCAN", root.name.display()));
            return Err(format!("{} is a disk: give the directory of a scan on it{hint}", path.display()));
        }
        Ok(Asked { root, rest })
    }

    /// The path as rights know it.
    fn path(&self) -> PathBuf {
        match self.rest.as_os_str().is_empty() {
            true => self.root.name.clone(),
            false => self.root.name.join(&self.rest),
        }
    }

    /// Whether a client with these rights may read it, if it is a file.
    pub(super) fn may_read(&self, rights: &dyn CopyRights) -> io::Result<()> {
        let path = self.path();
        let is_permitted = rights.may(CopyUse::Read, &path);
        is_permitted.then_some(()).ok_or_else(|| io::Error::other(denied("read", &path)))
    }

    /// Whether a client with these rights may make this request for it.
    ///
    /// # Errors
    /// Why not.
    pub(super) fn check(&self, rights: &dyn CopyRights, request: &Request) -> Result<(), String> {
        let path = self.path();
        let may = |how: CopyUse, what: &str| {
            rights.may(how, &path).then_some(()).ok_or_else(|| denied(what, &path))
        };
        match request.way {
            Direction::Pull => may(CopyUse::List, "read"),
            // A client that may write there may ask whether it is there.
            Direction::Push if request.verify => {
                may(CopyUse::Create, "compare").or_else(|_| may(CopyUse::List, "compare"))
            }
            Direction::Push if !self.root.is_writable => {
                let name = self.root.name.display();
                Err(format!(
                    "{name} is read-only{}",
                    Hint("copy into a directory that is served for writing")
                ))
            }
            Direction::Push if request.exists == Exists::Replace => may(CopyUse::Modify, "replace files in"),
            Direction::Push => may(CopyUse::Create, "write to"),
        }
    }

    /// Whether a client with these rights may change what exists in it.
    pub(super) fn may_modify(&self, rights: &dyn CopyRights) -> bool {
        rights.may(CopyUse::Modify, &self.path())
    }
}

fn denied(what: &str, path: &Path) -> String {
    let hint = Hint("the operator of the server gives rights to tokens");
    format!("permission denied: the token does not permit to {what} {}{hint}", path.display())
}
