//! The client: copies, compares or predicts, and reports what happened.

use super::control::{Outcome, Progress, of_peer};
use super::destination::Destination;
use super::manifest::{Manifest, Root};
use super::message::{Bounds, Done, Entry, Side, SourceSizes, What};
use super::options::{Account, CopyOptions};
use super::plan::{self, Plan};
use super::session::{LocalEnd, Purpose, Ran, run};
use serde::{Deserialize, Serialize};
use skyhaul::peer::{Token, connect_any};
use skyhaul_io::disk::Tree;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

/// How long a server may take to answer.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// Copies. `progress` is called a few times a second.
///
/// # Errors
/// Nothing was copied: the server is not there, refuses, or a source does not exist. What ends a copy later is in the
/// report.
pub fn copy(
    options: &CopyOptions,
    token: &Token,
    progress: &mut dyn FnMut(&Progress),
) -> io::Result<CopyReport> {
    let invalid = |text: String| io::Error::new(io::ErrorKind::InvalidInput, text);
    options.tuning.check().map_err(invalid)?;
    let mut options = options.clone();
    options.tuning = options.tuning.bounded();
    // Found once, whatever else begins sessions.
    if options.server.len() > 1 {
        options.server = vec![connect_any(&options.server, token, CONNECT_TIMEOUT).map_err(of_peer)?.peer()];
    }
    let asked = options.tuning.activity.at_disk();
    let roots = if options.pull { Vec::new() } else { local_roots(&options.sources, options.into.len())? };
    let manifest = Manifest::of(&roots, &Account::alone_with(&options.tuning.activity))?;
    let into = if options.pull { local_into(&options)? } else { Vec::new() };
    drop(asked);
    let here = LocalEnd { roots: &roots, manifest: &manifest, into: &into };
    let planned = match options.plan || options.dry_run {
        true => Some(plan::ask(&options, token, &here)?),
        false => None,
    };
    if options.dry_run {
        return Ok(CopyReport { version: skyhaul::report::VERSION, plan: planned, ..CopyReport::default() });
    }
    let purpose = if options.verify { Purpose::Verify } else { Purpose::Copy };
    let Ran { outcome, took, rtt } = run(&options, token, purpose, &here, progress)?;
    let mut report = report(&options, &outcome, took, rtt);
    (report.special, report.temporary_names) = (manifest.special, manifest.temporary_names);
    report.plan = planned;
    if let Some(plan) = &mut report.plan {
        plan.compare(report.bits_per_second, report.seconds);
    }
    Ok(report)
}

/// The sources here, which go into so many directories in turn.
pub(super) fn local_roots(sources: &[PathBuf], into: usize) -> io::Result<Vec<Root>> {
    let root = |(at, source): (usize, &PathBuf)| {
        let failed = |error: &io::Error| skyhaul_io::file::failed("read", source, error);
        let path = std::fs::canonicalize(source).map_err(|error| failed(&error))?;
        let (parent, name) = match (path.parent(), path.file_name()) {
            (Some(parent), Some(name)) => (parent.to_owned(), PathBuf::from(name)),
            _ => (path.clone(), PathBuf::new()),
        };
        let tree = Arc::new(Tree::open(&parent).map_err(|error| failed(&error))?);
        // A source that is named through a link keeps the name it was given.
        let given = source.file_name().map_or_else(|| name.clone(), PathBuf::from);
        Ok(Root { tree, path: name, name: given, to: at % into.max(1) })
    };
    sources.iter().enumerate().map(root).collect()
}

pub(super) fn local_into(options: &CopyOptions) -> io::Result<Vec<Destination>> {
    let into = |path: &PathBuf| {
        let failed = |error: &io::Error| skyhaul_io::file::failed("copy into", path, error);
        let (base, rest) = match options.dry_run || options.verify {
            true => existing(path),
            false => {
                make(path).map_err(|error| failed(&error))?;
                (path.clone(), PathBuf::new())
            }
        };
        let tree = Tree::open(&base).map_err(|error| failed(&error))?;
        let tree = Arc::new(tree.with(options.tuning.faults.clone()));
        // What only measures is made where there is a directory.
        let path = if options.verify { rest } else { PathBuf::new() };
        Ok(Destination { tree, path })
    };
    options.into.iter().map(into).collect()
}

/// Makes a directory, and those above it, durably. Those that may not be durable go, or the next copy would take them for it.
fn make(path: &Path) -> io::Result<()> {
    let is_new = |path: &&Path| !path.as_os_str().is_empty() && path.symlink_metadata().is_err();
    let new: Vec<&Path> = path.ancestors().take_while(is_new).collect();
    std::fs::create_dir_all(path)?;
    let synced = skyhaul_io::disk::sync_name(path);
    let synced =
        new.iter().fold(synced, |synced, above| synced.and_then(|()| skyhaul_io::disk::sync_name(above)));
    synced.inspect_err(|_| new.iter().for_each(|made| drop(std::fs::remove_dir(made))))
}

/// The part of a path that exists, and the rest.
fn existing(path: &Path) -> (PathBuf, PathBuf) {
    let there = path.ancestors().find(|path| path.is_dir()).filter(|path| !path.as_os_str().is_empty());
    let rest = there.and_then(|there| path.strip_prefix(there).ok()).unwrap_or(path);
    (there.unwrap_or(Path::new(".")).to_owned(), rest.to_owned())
}

/// Whether a file was there already: directories always get their permissions.
fn is_kept(done: &Done, entry: &Entry) -> bool {
    done.kept && matches!(entry.what, What::File { .. })
}

pub(super) fn report(options: &CopyOptions, outcome: &Outcome, took: Duration, rtt: Duration) -> CopyReport {
    let (sender, receiver) = if options.pull {
        (outcome.theirs.clone(), outcome.mine.clone())
    } else {
        (outcome.mine.clone(), outcome.theirs.clone())
    };
    let mut report = CopyReport {
        version: skyhaul::report::VERSION,
        flows: options.tuning.flows,
        control_encrypted: Some(true),
        data_encrypted: Some(options.tuning.encrypt),
        range: options.tuning.range,
        seconds: took.as_secs_f64(),
        rtt_seconds: rtt.as_secs_f64(),
        stopped: outcome.stopped.clone(),
        verified: options.verify,
        moved_bytes: outcome.mine.bytes,
        hole_bytes: outcome.mine.holes,
        ranges: outcome.mine.ranges,
        again: outcome.mine.again,
        resumed_bytes: receiver.resumed,
        ..CopyReport::default()
    };
    let path = |at: usize| {
        let entry = outcome.entries.get(at)?;
        let name = entry.path.path();
        Some((entry, options.into.get(entry.to).map_or(name.clone(), |into| into.join(&name))))
    };
    for done in &outcome.done {
        let Some((entry, path)) = path(done.file) else { continue };
        if done.error.is_none() && entry.mode & 0o7000 != 0 && !options.verify && !is_kept(done, entry) {
            report.dropped_bits.push(path.clone());
        }
        match (&done.error, &entry.what) {
            (Some(error), _) => report.failed.push(Failed { path, error: error.clone() }),
            (None, What::Directory) => report.directories += 1,
            (None, What::Link(_)) => report.links += 1,
            (None, What::File { size, .. }) => {
                report.files += 1;
                report.bytes = report.bytes.saturating_add(*size);
                if done.kept {
                    report.kept_files += 1;
                    report.kept_bytes = report.kept_bytes.saturating_add(*size);
                } else {
                    report.copied.push(Copied { path: path.clone(), bytes: *size, crc32c: done.digest });
                }
                if options.verify {
                    report.compared.push(Copied { path, bytes: *size, crc32c: done.digest });
                }
            }
        }
    }
    if report.stopped.is_none() && report.moved_bytes > 0 {
        report.bound = Some(Bounds::of(&sender, &receiver));
    }
    let moved = (report.moved_bytes + report.hole_bytes) as f64;
    report.bits_per_second = if report.seconds > 0.0 { moved * 8.0 / report.seconds } else { 0.0 };
    (report.sender, report.receiver) = (sender, receiver);
    report
}

/// `HOST:PATH`, as programs that copy write it: what follows the first colon that is in no path and no bracket.
#[must_use]
pub fn remote(text: &str) -> Option<(&str, &Path)> {
    let colon = match text.strip_prefix('[') {
        Some(rest) => rest.find("]:")? + 2,
        None => text.find(':')?,
    };
    let (host, path) = (&text[..colon], &text[colon + 1..]);
    let is_host = !host.is_empty() && !host.contains('/');
    is_host.then(|| (host.trim_start_matches('[').trim_end_matches(']'), Path::new(path)))
}

/// A file that was not copied.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Failed {
    /// Its path at the destination.
    pub path: PathBuf,
    /// Why.
    pub error: String,
}

/// A file that was copied.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Copied {
    /// Its path at the destination.
    pub path: PathBuf,
    /// Its bytes.
    pub bytes: u64,
    /// CRC-32C of the whole file.
    pub crc32c: Option<u32>,
}

/// What happened.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct CopyReport {
    /// [`skyhaul::report::VERSION`].
    pub version: u32,
    /// Files that are whole now.
    pub files: usize,
    /// Of these, those that were there already.
    pub kept_files: usize,
    /// Directories.
    pub directories: usize,
    /// Symbolic links.
    pub links: usize,
    /// Bytes of all files.
    pub bytes: u64,
    /// Bytes of those that were there already.
    pub kept_bytes: u64,
    /// Bytes of ranges that an earlier attempt had brought.
    pub resumed_bytes: u64,
    /// Bytes moved in this session.
    pub moved_bytes: u64,
    /// Bytes of holes, which were not moved.
    pub hole_bytes: u64,
    /// Ranges moved.
    pub ranges: u64,
    /// Ranges moved again because their checksum was wrong.
    pub again: u64,
    /// From the first range until everything is durable.
    pub seconds: f64,
    /// Of what was moved.
    pub bits_per_second: f64,
    /// Connections.
    pub flows: usize,
    /// Whether names, digests and all else but the contents of files were encrypted, if it was a copy with `copy serve`.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub control_encrypted: Option<bool>,
    /// Likewise, whether the contents of files were encrypted.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub data_encrypted: Option<bool>,
    /// Bytes of a range.
    pub range: u64,
    /// Round trip of the control connection in seconds: the shortest of some.
    pub rtt_seconds: f64,
    /// What bounded it.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub bound: Option<Bounds>,
    /// The end that read.
    pub sender: Side,
    /// The end that wrote.
    pub receiver: Side,
    /// Each file, with its digest.
    pub copied: Vec<Copied>,
    /// Only compared, and nothing was copied: each file that is the same at both ends, with its digest.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub compared: Vec<Copied>,
    /// Whether files were compared, and not copied.
    #[serde(default)]
    pub verified: bool,
    /// Set-user-ID, set-group-ID or the sticky bit of these was not copied.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub dropped_bits: Vec<PathBuf>,
    /// Files that were not copied, or differ.
    pub failed: Vec<Failed>,
    /// Of these, the server gave no checksum: they have its size, and nothing else was compared.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub unchecked: Vec<PathBuf>,
    /// FIFOs, sockets and devices, which are not copied.
    pub special: Vec<PathBuf>,
    /// Symbolic links at the source, for which the destination has no place: not copied.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub dropped_links: Vec<PathBuf>,
    /// Names at the source that belong to unfinished copies, which are not copied; as far as this end lists the source.
    #[serde(default)]
    pub temporary_names: usize,
    /// What there is to copy, if that was all that was asked for.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub to_copy: Option<SourceSizes>,
    /// The prediction.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub plan: Option<Plan>,
    /// Why it ended early; it may be resumed.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub stopped: Option<String>,
}

impl CopyReport {
    /// Whether everything is at the destination.
    #[must_use]
    pub fn is_whole(&self) -> bool {
        self.stopped.is_none() && self.failed.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_stands_before_a_colon_and_a_path_behind_it() {
        let of = |text| remote(text).map(|(host, path)| (host.to_owned(), path.to_owned()));
        assert_eq!(of("dtn2:/data/d1"), Some(("dtn2".into(), "/data/d1".into())));
        assert_eq!(of("[::1]:d1/a:b"), Some(("::1".into(), "d1/a:b".into())));
        assert_eq!(of("10.0.0.1:"), Some(("10.0.0.1".into(), "".into())));
        for local in ["/data/d1", "./a:b", "a", ":x", "/x:y"] {
            assert_eq!(of(local), None, "{local}");
        }
    }
}
