//! Which files a copy in small takes: some runs of neighbours, spread over all that there is.
//!
//! ```text
//!   all files   ░░▓▓░░░░▓▓░░░░▓▓░░░░▓▓░░░░▓▓░░░░▓▓░░░░▓▓░░░░▓▓░░
//!   sample        └┴ neighbours, with the directories they are in: names of one directory become durable together
//! ```
//!
//! Limits: links and empty directories are not in it; they cost little.

use super::manifest::Manifest;
use super::message::{Entry, What};
use super::sizes::Sample;
use std::collections::HashSet;
use std::path::{Path, PathBuf};

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
const RUNS: usize = 8;

/// Some of `all`, in order.
fn pick(all: &[usize], of: &Sample, size: impl Fn(usize) -> u64) -> Vec<usize> {
    let count = of.files.min(all.len());
    let runs = RUNS.min(count);
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::copy::message::{Name, Origin};

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
}
