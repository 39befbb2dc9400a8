//! The rights of a client: scopes with the paths of the files over HTTP, for the paths of copies.
//!
//! | a copy names | rights are those of |
//! |---|---|
//! | `/exp/a/b` | `/exp/a/b` |
//! | `/disks/2/SCAN/SCAN.00000012` | `/recordings/SCAN/SCAN.00000012` |

use crate::remote::request_path::RequestPath;
use crate::tokens::{Grants, Use};
use skyhaul_transfer::copy::{CopyRights, CopyUse};
use std::path::{Component, Path};

/// The directory of the station's disks.
pub(super) const DISKS: &str = "disks";
/// The directory of recordings over HTTP.
pub(super) const RECORDINGS: &str = "recordings";

/// What a client may do.
#[derive(Debug)]
pub(super) struct PeerRights(Grants);

impl PeerRights {
    pub(super) fn new(grants: Grants) -> Self {
        Self(grants)
    }
}

impl CopyRights for PeerRights {
    fn may(&self, how: CopyUse, path: &Path) -> bool {
        let Some(path) = known(path) else { return false };
        match how {
            CopyUse::List => self.0.allow(Use::List, &path),
            CopyUse::Read => self.0.allow(Use::Read, &path),
            CopyUse::Create => self.0.allow_below(Use::Create, &path),
            CopyUse::Modify => self.0.allow_below(Use::Modify, &path),
        }
    }
}

/// The path as scopes have it; `None`: no scope can name it.
fn known(path: &Path) -> Option<RequestPath> {
    let mut names = Vec::new();
    for part in path.strip_prefix("/").ok()?.components() {
        let Component::Normal(name) = part else { return None };
        names.push(name.to_str()?);
    }
    let (first, rest) = match *names.as_slice() {
        [] | [DISKS] => return None,
        [DISKS, _, ref rest @ ..] => (RECORDINGS, rest),
        [first, ref rest @ ..] => (first, rest),
    };
    let top = RequestPath::default().child(first);
    Some(rest.iter().fold(top, |path, name| path.child(name)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rights(scopes: &[&str]) -> PeerRights {
        let scopes: Vec<String> = scopes.iter().map(|scope| (*scope).to_owned()).collect();
        PeerRights::new(Grants::of_scopes(&scopes).unwrap())
    }

    #[test]
    fn disks_are_the_recordings_of_a_scope_and_other_paths_their_own() {
        use CopyUse::{Create, List, Modify, Read};
        let rights =
            rights(&["storage.read:/recordings/n26", "storage.create:/exp/in", "storage.modify:/exp/w"]);
        for (how, path, expected) in [
            (List, "/disks/1/n26", true),
            (Read, "/disks/2/n26/n26.00000001", true),
            (List, "/disks/1/n27", false),
            (List, "/disks/1", false),
            (List, "/disks", false),
            (List, "/", false),
            (List, "/exp/in", false),
            (Create, "/exp/in", true),
            (Create, "/exp/in/a", true),
            (Create, "/exp", false),
            (Modify, "/exp/in", false),
            (Modify, "/exp/w/a", true),
            (Create, "/exp/w", true),
            (Create, "/exp/../exp/in", false),
            (Create, "/exp/other", false),
            (Create, "/exp/inner", false),
            (Create, "/disks/1/n26", false),
            (List, "exp/in", false),
        ] {
            assert_eq!(rights.may(how, Path::new(path)), expected, "{how:?} {path}");
        }
    }
}
