//! The asking end: connects, and sends or receives.

use super::bounds::Bounds;
use super::budget::Account;
use super::destination::Into;
use super::manifest::{Manifest, Root};
use super::message::{Done, Entry, What};
use super::options::CopyOptions;
use super::plan;
use super::report::{Copied, CopyReport, Failed};
use super::run::{Here, Ran, run};
use super::session::Purpose;
use super::talk::{Outcome, Progress, of_peer};
use skyhaul::peer::{Token, connect_any};
use skyhaul_io::disk::Tree;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

/// How long a server may take to answer.
const CONNECT: Duration = Duration::from_secs(10);

/// Copy. `progress` is told a few times a second.
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
        options.server = vec![connect_any(&options.server, token, CONNECT).map_err(of_peer)?.peer()];
    }
    let roots = if options.pull { Vec::new() } else { local_roots(&options)? };
    let manifest = Manifest::of(&roots, &Account::alone())?;
    let into = if options.pull { local_into(&options)? } else { Vec::new() };
    let here = Here { roots: &roots, manifest: &manifest, into: &into };
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
    report.special = manifest.special;
    report.plan = planned;
    if let Some(plan) = &mut report.plan {
        plan.compare(report.bits_per_second, report.seconds);
    }
    Ok(report)
}

fn local_roots(options: &CopyOptions) -> io::Result<Vec<Root>> {
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
        Ok(Root { tree, path: name, name: given, to: at % options.into.len().max(1) })
    };
    options.sources.iter().enumerate().map(root).collect()
}

fn local_into(options: &CopyOptions) -> io::Result<Vec<Into>> {
    let into = |path: &PathBuf| {
        let failed = |error: &io::Error| skyhaul_io::file::failed("copy into", path, error);
        let (base, rest) = match options.dry_run || options.verify {
            true => existing(path),
            false => {
                std::fs::create_dir_all(path).map_err(|error| failed(&error))?;
                skyhaul_io::disk::sync_name(path).map_err(|error| failed(&error))?;
                (path.clone(), PathBuf::new())
            }
        };
        let tree = Tree::open(&base).map_err(|error| failed(&error))?;
        let tree = Arc::new(tree.with(options.tuning.faults.clone()));
        // What only measures is made where there is a directory.
        let path = if options.verify { rest } else { PathBuf::new() };
        Ok(Into { tree, path })
    };
    options.into.iter().map(into).collect()
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

fn report(options: &CopyOptions, outcome: &Outcome, took: Duration, rtt: Duration) -> CopyReport {
    let (sender, receiver) = if options.pull {
        (outcome.theirs.clone(), outcome.mine.clone())
    } else {
        (outcome.mine.clone(), outcome.theirs.clone())
    };
    let mut report = CopyReport {
        version: skyhaul::report::VERSION,
        flows: options.tuning.flows,
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
                report.bytes += size;
                if done.kept {
                    report.kept_files += 1;
                    report.kept_bytes += size;
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
