//! The files to copy: the names below each source in order, samples of them, and which names a peer may send.
//!
//! ```text
//!   asked for HOST:d1/exp   ─▶ exp, exp/…                       everything else is refused
//!   asked for HOST:         ─▶ whatever is there, except hidden names at the top: .profile, .ssh
//!   a push                  ─▶ anything below the requested directory
//!
//!   all files   ░░▓▓░░░░▓▓░░░░▓▓░░░░▓▓░░░░▓▓░░░░▓▓░░░░▓▓░░░░▓▓░░
//!   sample        └┴ neighbours and their directories: names of one directory become durable together
//! ```
//!
//! A name is relative, without `.` and `..`, and never empty: the directory that is copied into keeps its permissions and
//! times. Names of temporary files are refused, because with them a peer could forge the journal of another copy.
//!
//! Limits: a sample has no links and no empty directories, which cost little.

use super::message::{Entry, Name, Origin, Sample, Sizes, What};
use super::options::Account;
use ring::digest::{SHA256, digest};
use skyhaul_core::hint::Hint;
use skyhaul_io::disk::Tree;
use skyhaul_io::disk::tree::{Kind, Status};
use std::collections::HashSet;
use std::ffi::{OsStr, OsString};
use std::io;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

/// A change within one tick of the kernel's clock leaves the same time: a file that changed so recently is looked at again.
const CLOCK_TICK: Duration = Duration::from_millis(25);
/// Most names of one copy: both ends keep them in memory.
pub(super) const MAX_ENTRIES: usize = 1 << 20;
/// Deepest directory.
const MAX_DEPTH: usize = 128;

/// A file or directory to be copied.
#[derive(Clone, Debug)]
pub(super) struct Root {
    /// The directory it is in.
    pub(super) tree: Arc<Tree>,
    /// Its path there.
    pub(super) path: PathBuf,
    /// Its name at the destination; empty: only its contents are copied.
    pub(super) name: PathBuf,
    /// Which of the destination's directories it goes into.
    pub(super) to: usize,
}

/// All names of all sources.
#[derive(Debug, Default)]
pub(super) struct Manifest {
    pub(super) entries: Vec<Entry>,
    /// Of each entry: its source, and its path there.
    pub(super) places: Vec<(usize, PathBuf)>,
    /// FIFOs, sockets and devices, which are not copied.
    pub(super) special: Vec<PathBuf>,
    /// Names of unfinished copies, which are left out.
    pub(super) temporary_names: usize,
    /// Files may be longer than it says: only their beginnings are copied.
    pub(super) is_cut: bool,
}

impl Manifest {
    /// Look at all sources.
    ///
    /// # Errors
    /// One does not exist or cannot be read, there are too many names, or two of them would be one at the destination.
    pub(super) fn of(roots: &[Root], account: &Account) -> io::Result<Self> {
        let mut all = Self::default();
        for (at, root) in roots.iter().enumerate() {
            all.walk((at, account), root, &root.path, &root.name, 0)?;
        }
        all.check_names()?;
        all.outlast(roots)?;
        Ok(all)
    }

    /// Wait until any later change of a file is seen by its time, and look at those again that changed just now.
    fn outlast(&mut self, roots: &[Root]) -> io::Result<()> {
        let is_file = |entry: &Entry| matches!(entry.what, What::File { .. });
        let since = |time: (i64, u32)| {
            let at = SystemTime::UNIX_EPOCH + Duration::new(u64::try_from(time.0).unwrap_or(0), time.1);
            SystemTime::now().duration_since(at).unwrap_or_default()
        };
        let fresh: Vec<usize> = (0..self.entries.len())
            .filter(|&at| is_file(&self.entries[at]) && since(self.entries[at].origin.changed) < CLOCK_TICK)
            .collect();
        if fresh.is_empty() {
            return Ok(());
        }
        std::thread::sleep(CLOCK_TICK);
        for at in fresh {
            let (source, path) = &self.places[at];
            let Some(status) = roots[*source].tree.status(path)?.filter(|now| now.kind == Kind::File) else {
                continue;
            };
            let entry = &mut self.entries[at];
            entry.what = What::File { size: status.size, sparse: is_sparse(&status) };
            (entry.mode, entry.modified, entry.origin) = (status.mode, status.modified, Origin::of(&status));
        }
        Ok(())
    }

    fn walk(
        &mut self,
        (at, account): (usize, &Account),
        root: &Root,
        from: &Path,
        to: &Path,
        depth: usize,
    ) -> io::Result<()> {
        let told = |error: &io::Error| skyhaul_io::file::failed("read", &root.tree.path().join(from), error);
        let status = root.tree.status(from).map_err(|error| told(&error))?;
        let status = status.ok_or_else(|| told(&io::Error::from_raw_os_error(NOT_FOUND)))?;
        let what = match status.kind {
            Kind::File => What::File { size: status.size, sparse: is_sparse(&status) },
            Kind::Link => What::Link(Name::from(&*root.tree.link(from).map_err(|error| told(&error))?)),
            Kind::Directory => What::Directory,
            Kind::Special => {
                self.special.push(root.tree.path().join(from));
                return Ok(());
            }
        };
        let is_directory = what == What::Directory;
        // A whole directory that is the root of its tree has no name of its own: only what is in it is copied.
        if !to.as_os_str().is_empty() {
            let (mode, modified) = (status.mode, status.modified);
            let origin =
                if matches!(what, What::File { .. }) { Origin::of(&status) } else { Origin::default() };
            let entry = Entry { to: root.to, path: to.into(), what, mode, modified, origin };
            account.charge(entry.memory())?;
            self.entries.push(entry);
            self.places.push((at, from.to_owned()));
        }
        if self.entries.len() > MAX_ENTRIES {
            return Err(refused(format!(
                "more than {MAX_ENTRIES} files and directories{}",
                Hint("copy one directory at a time, or an archive of small files")
            )));
        }
        if !is_directory {
            return Ok(());
        }
        if depth >= MAX_DEPTH {
            return Err(refused(format!(
                "{}: directories are nested more than {MAX_DEPTH} deep",
                from.display()
            )));
        }
        for name in root.tree.list(from).map_err(|error| told(&error))? {
            if is_temporary(&name) {
                self.temporary_names += 1;
            } else {
                self.walk((at, account), root, &from.join(&name), &to.join(&name), depth + 1)?;
            }
        }
        Ok(())
    }

    /// Two files with one name at the destination would overwrite each other.
    fn check_names(&self) -> io::Result<()> {
        let mut seen = std::collections::HashMap::new();
        for (entry, (source, _)) in self.entries.iter().zip(&self.places) {
            let path = entry.path.path();
            let key = (entry.to, path.clone());
            let both_directories =
                |other: &usize| self.entries[*other].what == What::Directory && entry.what == What::Directory;
            let at = seen.len();
            if let Some(other) = seen.insert(key, at)
                && !both_directories(&other)
            {
                return Err(refused(format!(
                    "source {} and source {} both have {}{}",
                    self.places[other].0 + 1,
                    source + 1,
                    path.display(),
                    Hint("copy each into its own directory: HOST:/d1 HOST:/d2")
                )));
            }
        }
        Ok(())
    }

    /// How many files of which size there are.
    pub(super) fn sizes(&self) -> Sizes {
        let files = self.entries.iter().filter(|entry| matches!(entry.what, What::File { .. }));
        Sizes::of(files.map(Entry::size))
    }
}

/// `ENOENT`.
const NOT_FOUND: i32 = 2;

fn refused(text: String) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, text)
}

fn is_sparse(status: &Status) -> bool {
    status.stored < status.size
}

impl Manifest {
    /// These files, with the directories they are in.
    pub(super) fn sample(&self, of: &Sample) -> Self {
        let is_of = |entry: &Entry| matches!(entry.what, What::File { size, .. } if size <= of.longest);
        let all: Vec<usize> = (0..self.entries.len()).filter(|&at| is_of(&self.entries[at])).collect();
        let picked = pick(&all, of, |at| self.entries[at].size().min(of.cut));
        let mut above: HashSet<(usize, PathBuf)> = HashSet::new();
        for entry in picked.iter().map(|&at| &self.entries[at]) {
            let path = entry.path.path();
            let mut parents = path.ancestors().skip(1).filter(|path| *path != Path::new(""));
            // Those above one that is known are known.
            parents.find(|path| !above.insert((entry.to, path.to_path_buf())));
        }
        let mut sample = Self { is_cut: of.cut < u64::MAX, ..Self::default() };
        let mut picked = picked.into_iter().peekable();
        for (at, entry) in self.entries.iter().enumerate() {
            let mut entry = match entry.what {
                What::File { .. } if picked.next_if_eq(&at).is_some() => entry.clone(),
                What::Directory if above.contains(&(entry.to, entry.path.path())) => entry.clone(),
                _ => continue,
            };
            if let What::File { size, .. } = &mut entry.what {
                *size = (*size).min(of.cut);
            }
            sample.entries.push(entry);
            sample.places.push(self.places[at].clone());
        }
        sample
    }
}

/// Runs of neighbours.
const SAMPLE_RUNS: usize = 8;

/// Some of `all`, in order.
fn pick(all: &[usize], of: &Sample, size: impl Fn(usize) -> u64) -> Vec<usize> {
    let count = of.files.min(all.len());
    let runs = SAMPLE_RUNS.min(count);
    let (mut picked, mut bytes): (Vec<usize>, u64) = (Vec::new(), 0);
    for run in 0..runs {
        let (from, to) = (run * all.len() / runs, (run + 1) * all.len() / runs);
        let wanted = (run + 1) * count / runs - run * count / runs;
        // Each run has its part of the bytes, and what those before it left.
        let most = of.bytes / runs as u64 * (run as u64 + 1);
        for &at in all[from..to].iter().take(wanted) {
            let more = bytes.saturating_add(size(at));
            if more > most && !picked.is_empty() {
                break;
            }
            bytes = more;
            picked.push(at);
        }
    }
    picked
}

/// Longest path in bytes, and longest name in it (`PATH_MAX`, `NAME_MAX`).
const MAX_PATH_BYTES: usize = 4095;
const MAX_NAME_BYTES: usize = 255;
/// Longest text of a peer that is kept.
const MAX_TEXT_CHARS: usize = 512;

/// How the names of unfinished files end.
pub(super) const PART_SUFFIX: &str = ".skyhaul-part";
/// How the names of their journals end.
pub(super) const JOURNAL_SUFFIX: &str = ".skyhaul-journal";
/// Prefix of the directories of trial copies.
pub(super) const TEMPORARY_PREFIX: &str = ".skyhaul-trial-";

/// `.NAME.skyhaul-part` beside `NAME`. A name that would be too long is cut, and gets a digest.
pub(super) fn beside(path: &Path, end: &str) -> PathBuf {
    /// With it, and the longest end, a name is as long as it may be.
    const KEPT: usize = 200;
    let of = path.file_name().unwrap_or_default();
    let mut name = OsString::from(".");
    if of.len() + 1 + JOURNAL_SUFFIX.len().max(end.len()) <= MAX_NAME_BYTES {
        name.push(of);
    } else {
        let whole = digest(&SHA256, of.as_bytes());
        name.push(OsStr::from_bytes(&of.as_bytes()[..KEPT.min(of.len())]));
        name.push(format!("~{}", skyhaul::auth::hex(&whole.as_ref()[..8])));
    }
    name.push(end);
    path.with_file_name(name)
}

/// Whether a name is one of an unfinished copy, which is not copied itself.
#[must_use]
pub fn is_temporary(name: &OsStr) -> bool {
    let name = name.as_encoded_bytes();
    if name.starts_with(TEMPORARY_PREFIX.as_bytes()) {
        return true;
    }
    name.starts_with(b".")
        && (name.ends_with(PART_SUFFIX.as_bytes()) || name.ends_with(JOURNAL_SUFFIX.as_bytes()))
}

/// The names that a peer may send.
#[derive(Clone, Debug)]
pub(super) enum Allowed {
    /// Anything below the directories asked for.
    All,
    /// By the number of the directory that it goes into: these names at the top. Where nothing is named, what is not hidden.
    Named(Vec<(usize, Option<OsString>)>),
}

impl Allowed {
    /// The names that a request for these paths allows; `to`: the directory of each.
    pub(super) fn by(paths: &[PathBuf], to: impl Fn(usize) -> usize) -> Self {
        let name = |(at, path): (usize, &PathBuf)| (to(at), asked_name(path));
        Self::Named(paths.iter().enumerate().map(name).collect())
    }

    /// Whether a name that came may be made.
    ///
    /// # Errors
    /// Why not.
    pub(super) fn check(&self, to: usize, path: &Path) -> io::Result<()> {
        let wrong = |why: &str| Err(io::Error::new(io::ErrorKind::InvalidInput, why.to_owned()));
        let bytes = path.as_os_str().as_bytes();
        let plain = |part: Component<'_>| match part {
            Component::Normal(name) => name.len() <= MAX_NAME_BYTES && !name.as_bytes().contains(&0),
            _ => false,
        };
        let same = path.components().collect::<PathBuf>().into_os_string().into_vec() == bytes;
        if bytes.is_empty() || bytes.len() > MAX_PATH_BYTES || !same || !path.components().all(plain) {
            return wrong("the peer sent an invalid name; it was refused");
        }
        if path.iter().any(is_temporary) {
            return wrong("the peer sent the name of a temporary file; it was refused");
        }
        let Self::Named(names) = self else { return Ok(()) };
        let top = path.iter().next().unwrap_or_default();
        let mut of = names.iter().filter(|(number, _)| *number == to).peekable();
        if of.clone().any(|(_, name)| name.as_deref() == Some(top)) {
            return Ok(());
        }
        let any = of.any(|(_, name)| name.is_none());
        match (any, top.as_bytes().starts_with(b".")) {
            (true, false) => Ok(()),
            (true, true) => {
                wrong(&format!("hidden files are copied only on request{}", Hint("give it as a source")))
            }
            (false, _) => wrong("the peer sent a name that was not requested; it was refused"),
        }
    }
}

/// The name requested by a path of the other host; `None`: only the contents.
pub(super) fn asked_name(path: &Path) -> Option<OsString> {
    path.file_name().map(OsStr::to_owned)
}

/// Text of a peer, as it is kept and shown: of bounded length, and without control characters.
pub(super) fn shown(text: &str) -> String {
    let plain = |c: char| if c.is_control() && c != '\n' { '\u{FFFD}' } else { c };
    let mut shown: String = text.chars().take(MAX_TEXT_CHARS).map(plain).collect();
    if text.chars().nth(MAX_TEXT_CHARS).is_some() {
        shown.push('…');
    }
    shown
}

/// Names that came already.
#[derive(Debug, Default)]
pub(super) struct Seen(HashSet<(usize, PathBuf)>);

impl Seen {
    /// Whether a name comes for the first time.
    pub(super) fn is_new(&mut self, to: usize, path: &Path) -> bool {
        self.0.insert((to, path.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::super::message::{Name, Origin};
    use super::*;

    fn root(path: &Path, name: &str, to: usize) -> Root {
        Root { tree: Arc::new(Tree::open(path).unwrap()), path: name.into(), name: name.into(), to }
    }

    fn all(roots: &[Root]) -> io::Result<Manifest> {
        Manifest::of(roots, &Account::alone())
    }

    #[test]
    fn a_tree_is_named_from_the_top_and_links_stay_links() {
        let directory = tempfile::tempdir().unwrap();
        let exp = directory.path().join("exp/sub");
        std::fs::create_dir_all(&exp).unwrap();
        std::fs::write(exp.join("b"), [1; 10]).unwrap();
        std::fs::write(exp.join(".b.skyhaul-part"), [1; 10]).unwrap();
        std::fs::create_dir_all(exp.join(".skyhaul-trial-0/x")).unwrap();
        std::os::unix::fs::symlink("/etc", exp.join("a")).unwrap();
        let all = all(&[root(directory.path(), "exp", 3)]).unwrap();
        let names: Vec<_> = all.entries.iter().map(|entry| entry.path.path()).collect();
        assert_eq!(names, ["exp", "exp/sub", "exp/sub/a", "exp/sub/b"].map(PathBuf::from));
        assert_eq!(all.temporary_names, 2);
        assert_eq!((all.sizes().divided(u64::MAX)[0], all.entries[2].to), ((1, 10), 3));
        assert_eq!(all.entries[2].what, What::Link(Name::Text("/etc".into())));
    }

    #[test]
    fn two_disks_of_a_recording_do_not_become_one() {
        let directory = tempfile::tempdir().unwrap();
        for disk in ["d1", "d2"] {
            let exp = directory.path().join(disk).join("exp");
            std::fs::create_dir_all(&exp).unwrap();
            std::fs::write(exp.join("exp.index"), disk).unwrap();
        }
        let of = |disk: &str, to| root(&directory.path().join(disk), "exp", to);
        let error = all(&[of("d1", 0), of("d2", 0)]).unwrap_err().to_string();
        assert!(error.contains("exp/exp.index") && error.contains("hint: "), "{error}");
        assert_eq!(all(&[of("d1", 0), of("d2", 1)]).unwrap().entries.len(), 4);
        assert!(all(&[root(directory.path(), "none", 0)]).is_err());
    }

    fn entry(path: &str, what: What) -> Entry {
        Entry {
            to: 0,
            path: Name::Text(path.into()),
            what,
            mode: 0o644,
            modified: (0, 0),
            origin: Origin::default(),
        }
    }

    /// 10 directories with 100 files of 1000 bytes each, and one long file.
    fn manifest() -> Manifest {
        let mut all = Manifest::default();
        for directory in 0..10 {
            all.entries.push(entry(&format!("d{directory}"), What::Directory));
            for file in 0..100 {
                let what = What::File { size: 1000, sparse: false };
                all.entries.push(entry(&format!("d{directory}/{file}"), what));
            }
        }
        all.entries.push(entry("long", What::File { size: 1 << 30, sparse: false }));
        all.places = (0..all.entries.len()).map(|at| (0, at.to_string().into())).collect();
        all
    }

    fn files(of: &Manifest) -> Vec<&Entry> {
        of.entries.iter().filter(|entry| matches!(entry.what, What::File { .. })).collect()
    }

    const ALL: Sample = Sample { longest: u64::MAX, files: usize::MAX, bytes: u64::MAX, cut: u64::MAX };

    #[test]
    fn a_sample_has_neighbours_from_everywhere_and_their_directories() {
        let all = manifest();
        let some = all.sample(&Sample { longest: 1023, files: 80, ..ALL });
        assert_eq!(files(&some).len(), 80);
        let directories = some.entries.len() - 80;
        assert!((6..=9).contains(&directories), "{directories}");
        for (entry, (_, place)) in some.entries.iter().zip(&some.places) {
            let at: usize = place.to_str().unwrap().parse().unwrap();
            assert_eq!(all.entries[at], *entry, "an entry and its place belong together");
        }
        // A directory comes before what is in it.
        let at = |path: &str| some.entries.iter().position(|entry| entry.path == Name::Text(path.into()));
        assert!(at("d0").unwrap() < at("d0/0").unwrap());
        assert_eq!(all.sample(&ALL).entries, all.entries);
    }

    #[test]
    fn a_sample_keeps_to_its_bytes_and_is_never_empty() {
        let all = manifest();
        let bytes = |of: &Sample| files(&all.sample(of)).iter().map(|entry| entry.size()).sum::<u64>();
        assert_eq!(bytes(&Sample { longest: 1023, bytes: 40_000, ..ALL }), 40_000);
        assert_eq!(bytes(&Sample { longest: 1023, bytes: 1, ..ALL }), 1000);
        let cut = all.sample(&Sample { cut: 10, ..ALL });
        assert!(cut.is_cut && files(&cut).iter().all(|entry| entry.size() == 10));
        assert!(Manifest::default().sample(&ALL).entries.is_empty());
    }

    #[test]
    fn only_what_was_asked_for_is_allowed() {
        let paths = [PathBuf::from("/data/exp"), PathBuf::from("d2/other/")];
        let asked = Allowed::by(&paths, |at| at);
        let ok = |to, path: &str| asked.check(to, Path::new(path)).is_ok();
        assert!(ok(0, "exp") && ok(0, "exp/a/.hidden") && ok(1, "other/x"));
        for (to, path) in
            [(0, "other"), (1, "exp"), (2, "exp"), (0, ".profile"), (0, "exp2"), (0, ".ssh/authorized_keys")]
        {
            assert!(!ok(to, path), "{to} {path}");
        }
        let whole = Allowed::by(&[PathBuf::from("")], |_| 0);
        assert!(whole.check(0, Path::new("a/.b")).is_ok());
        assert!(
            whole.check(0, Path::new(".ssh/authorized_keys")).unwrap_err().to_string().contains("hint: ")
        );
        let hidden = Allowed::by(&[PathBuf::from(".config")], |_| 0);
        assert!(hidden.check(0, Path::new(".config/x")).is_ok());
    }

    #[test]
    fn a_name_is_a_plain_path_below() {
        let long = "a".repeat(256);
        for bad in ["", ".", "..", "/x", "./x", "x/.", "x/..", "x/../y", "x//y", "x/", "a\0b", long.as_str()]
        {
            assert!(Allowed::All.check(0, Path::new(bad)).is_err(), "{bad:?}");
        }
        for bad in [".x.skyhaul-part", "a/.x.skyhaul-journal", ".skyhaul-trial-0/x"] {
            assert!(Allowed::All.check(0, Path::new(bad)).is_err(), "{bad}");
        }
        for good in ["x", ".x", "a/b/c", "größe", "..x", "a b"] {
            Allowed::All.check(0, Path::new(good)).unwrap();
        }
    }

    #[test]
    fn names_of_unfinished_files_fit_however_long_the_name_is() {
        assert_eq!(beside(Path::new("d/f"), PART_SUFFIX), Path::new("d/.f.skyhaul-part"));
        let names = [240, 241, 242, 254, 255].map(|n| "n".repeat(n));
        let mut seen = HashSet::new();
        for name in &names {
            for end in [PART_SUFFIX, JOURNAL_SUFFIX] {
                let path = beside(&Path::new("d").join(name), end);
                let name = path.file_name().unwrap();
                assert!(name.len() <= 255 && is_temporary(name), "{}", name.len());
                assert!(seen.insert(path), "two files would share one");
            }
        }
        // A name of characters that take more than a byte each is cut anywhere.
        assert!(beside(Path::new(&"ö".repeat(127)), PART_SUFFIX).as_os_str().len() <= 255);
    }

    #[test]
    fn text_of_a_peer_is_short_and_plain() {
        assert_eq!(shown("a\x1b[2Jb\nc"), "a\u{FFFD}[2Jb\nc");
        assert_eq!(shown(&"x".repeat(10_000)).chars().count(), MAX_TEXT_CHARS + 1);
    }
}
