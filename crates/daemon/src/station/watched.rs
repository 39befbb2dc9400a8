//! The directory from which a station reads schedules by itself: a file that appears is loaded, one that changes takes the place of what
//! it was, and what is loaded of one that is removed is removed.
//!
//! A file is read when two looks find it the same, so that one that is being copied is not read in part. A directory that cannot be
//! read changes nothing.
//!
//! Limits: [`MAX_FILES`].

use super::schedules::ScheduleLoad;
use super::setup::ScheduleSetup;
use super::shared::Shared;
use skyhaul::core::hint::split;
use skyhaul::io::file::{failed, read_small};
use skyhaul::io::lock::lock;
use skyhaul_core::observation::scan::MAX_TEXT;
use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

/// Maximum number of files in the directory.
const MAX_FILES: usize = 256;
/// How often it is looked at.
const WATCH_INTERVAL: Duration = Duration::from_secs(1);
/// Endings of schedules.
const ENDINGS: [&str; 4] = ["vex", "vix", "snp", "toml"];

/// A file, by what changes with its contents.
type Stamp = (Option<SystemTime>, u64);

/// What is known of the files.
#[derive(Debug, Default)]
struct Watched {
    /// As they were in the last look.
    seen: BTreeMap<PathBuf, Stamp>,
    /// As they were when they were read, and the schedule that is loaded of them.
    read: BTreeMap<PathBuf, (Stamp, Option<String>)>,
}

/// Starts the thread that watches, if there is a directory.
pub(super) fn watch(shared: &Arc<Shared>) -> io::Result<()> {
    let Some(directory) = shared.setup.schedule.directory.clone() else { return Ok(()) };
    let shared = Arc::clone(shared);
    std::thread::Builder::new().name("station-schedules".into()).spawn(move || {
        let mut watched = Watched::default();
        loop {
            watched.look(&shared, &directory);
            if !super::disks::pause(&shared, WATCH_INTERVAL) {
                return;
            }
        }
    })?;
    Ok(())
}

impl Watched {
    fn look(&mut self, shared: &Arc<Shared>, directory: &Path) {
        let files = match files(directory) {
            Ok(files) => files,
            Err(error) => {
                return tell(shared, directory, Some(failed("read", directory, &error).to_string()));
            }
        };
        tell(shared, directory, None);
        let gone: Vec<PathBuf> =
            self.read.keys().filter(|path| !files.contains_key(*path)).cloned().collect();
        for path in gone {
            let (_, name) = self.read.remove(&path).unwrap_or_default();
            let removed = name.map(|name| shared.remove_schedule(&name, Some(&path)));
            tell(shared, &path, removed.and_then(Result::err).map(|error| error.to_string()));
        }
        for (path, stamp) in &files {
            let is_settled = self.seen.get(path) == Some(stamp);
            if is_settled && self.read.get(path).is_none_or(|(read, _)| read != stamp) {
                self.load(shared, path, *stamp);
            }
        }
        self.seen = files;
    }

    fn load(&mut self, shared: &Arc<Shared>, path: &Path, stamp: Stamp) {
        let before = self.read.get(path).and_then(|(_, name)| name.clone());
        let loaded = load(&shared.setup.schedule, path)
            .map_err(|error| error.to_string())
            .and_then(|load| shared.load_schedule(&load, Some(path)).map_err(|error| error.to_string()));
        let (name, problem) = match loaded {
            Ok(loaded) => (Some(loaded.name), None),
            // What was read of it before is still followed.
            Err(error) => (before.clone(), Some(error)),
        };
        if let Some(old) = before.filter(|old| name.as_ref() != Some(old)) {
            // It has another name now.
            let _ = shared.remove_schedule(&old, Some(path));
        }
        self.read.insert(path.to_owned(), (stamp, name));
        tell(shared, path, problem);
    }
}

/// The schedules in a directory.
fn files(directory: &Path) -> io::Result<BTreeMap<PathBuf, Stamp>> {
    let mut files = BTreeMap::new();
    for entry in std::fs::read_dir(directory)? {
        let path = entry?.path();
        let ending = path.extension().and_then(|ending| ending.to_str()).unwrap_or_default();
        let is_hidden = path.file_name().is_some_and(|name| name.as_encoded_bytes().starts_with(b"."));
        if is_hidden || !ENDINGS.contains(&ending.to_ascii_lowercase().as_str()) {
            continue;
        }
        // It may be gone already.
        let Ok(about) = path.metadata() else { continue };
        if about.is_file() && files.len() < MAX_FILES {
            files.insert(path, (about.modified().ok(), about.len()));
        }
    }
    Ok(files)
}

fn load(setup: &ScheduleSetup, path: &Path) -> io::Result<ScheduleLoad> {
    let text =
        |path: &Path| read_small(path, MAX_TEXT).map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
    let procedures = path.with_extension("prc");
    let name = path.file_stem().map(|stem| stem.to_string_lossy().into_owned());
    Ok(ScheduleLoad {
        text: text(path)?,
        procedures: procedures.is_file().then(|| text(&procedures)).transpose()?,
        station: setup.station.clone(),
        input: setup.input.clone(),
        name: name.unwrap_or_default(),
        replace: true,
        ..ScheduleLoad::default()
    })
}

/// Notes what is wrong with a file, or that nothing is.
fn tell(shared: &Shared, path: &Path, problem: Option<String>) {
    let mut schedules = lock(&shared.schedules);
    match problem {
        Some(problem) => {
            let problem = split(&problem).0.to_owned();
            let text = format!("{}: {problem}", path.display());
            let text = if problem.contains(&*path.to_string_lossy()) { problem } else { text };
            schedules.problems.insert(path.to_owned(), text);
        }
        None => drop(schedules.problems.remove(path)),
    }
}
