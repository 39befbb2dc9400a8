//! The asking end: connects, and sends or receives.

use super::bounds::Bounds;
use super::manifest::{Manifest, Root};
use super::message::What;
use super::options::CopyOptions;
use super::plan;
use super::receiver::Into;
use super::report::{Copied, CopyReport, Failed};
use super::run::{Here, Ran, run};
use super::session::Purpose;
use super::talk::{Outcome, Progress};
use crate::peer::Token;
use skyhaul_io::disk::Tree;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

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
    let roots = if options.pull { Vec::new() } else { local_roots(&options)? };
    let manifest = Manifest::of(&roots)?;
    let into = if options.pull { local_into(&options)? } else { Vec::new() };
    let here = Here { roots: &roots, manifest: &manifest, into: &into };
    let planned = match options.plan || options.dry_run {
        true => Some(plan::ask(&options, token, &here)?),
        false => None,
    };
    if options.dry_run {
        return Ok(CopyReport { version: crate::report::VERSION, plan: planned, ..CopyReport::default() });
    }
    let Ran { outcome, took, rtt } = run(&options, token, Purpose::Copy, &here, progress)?;
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
        std::fs::create_dir_all(path).map_err(|error| failed(&error))?;
        let tree = Arc::new(Tree::open(path).map_err(|error| failed(&error))?);
        Ok(Into { tree, path: PathBuf::new() })
    };
    options.into.iter().map(into).collect()
}

fn report(options: &CopyOptions, outcome: &Outcome, took: Duration, rtt: Duration) -> CopyReport {
    let (sender, receiver) = if options.pull {
        (outcome.theirs.clone(), outcome.mine.clone())
    } else {
        (outcome.mine.clone(), outcome.theirs.clone())
    };
    let mut report = CopyReport {
        version: crate::report::VERSION,
        flows: options.tuning.flows,
        range: options.tuning.range,
        seconds: took.as_secs_f64(),
        rtt_seconds: rtt.as_secs_f64(),
        stopped: outcome.stopped.clone(),
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
                    report.copied.push(Copied { path, bytes: *size, crc32c: done.digest });
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
