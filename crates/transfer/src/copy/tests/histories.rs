//! Histories of a copy, each from a seed: killed, interrupted, cut off from power, with syncs that fail, sources that change,
//! parts and journals that are damaged. A copy that says it is whole has made equal files, and at last one always is.
//!
//! `SKYHAUL_HISTORY=17` plays one seed again, `SKYHAUL_HISTORIES=100000` more of them.

use super::super::manifest::{JOURNAL_SUFFIX, PART_SUFFIX, beside};
use super::super::options::Budget;
use super::super::{CopyOptions, CopyReport, CopyService, Exists, Tuning, copy};
use super::token;
use skyhaul::peer::{Limits, Server, ServerOptions};
use skyhaul_io::disk::{Engine, FailingDisk, Faults};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant, SystemTime};

const RANGE: u64 = 64 << 10;

struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        // SplitMix64: neighbouring seeds have nothing in common.
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    fn below(&mut self, most: u64) -> u64 {
        self.next() % most.max(1)
    }

    fn one_of<T: Copy>(&mut self, of: &[T]) -> T {
        of[self.below(of.len() as u64) as usize]
    }
}

/// What happened in all histories: that they play what they are for.
#[derive(Debug, Default)]
struct Seen {
    whole: AtomicU64,
    ended_early: AtomicU64,
    files_failed: AtomicU64,
    resumed: AtomicU64,
    holes: AtomicU64,
    kept: AtomicU64,
}

impl Seen {
    fn note(&self, report: &CopyReport) {
        let add = |of: &AtomicU64, count: u64| {
            of.fetch_add(count, Ordering::Relaxed);
        };
        add(&self.whole, u64::from(report.is_whole()));
        add(&self.ended_early, u64::from(report.stopped.is_some()));
        add(&self.files_failed, report.failed.len() as u64);
        add(&self.resumed, report.resumed_bytes / RANGE);
        add(&self.holes, report.hole_bytes / RANGE);
        add(&self.kept, report.kept_files as u64);
    }

    fn all(&self) -> [u64; 6] {
        let all =
            [&self.whole, &self.ended_early, &self.files_failed, &self.resumed, &self.holes, &self.kept];
        all.map(|count| count.load(Ordering::Relaxed))
    }
}

/// A server on a disk that can fail, and a client beside it.
struct World {
    seen: Arc<Seen>,
    directory: tempfile::TempDir,
    server: Server,
    disk: FailingDisk,
    budget: Arc<Budget>,
}

impl World {
    fn new(seed: u64, seen: &Arc<Seen>) -> Self {
        let memory = Path::new("/dev/shm");
        let directory = match memory.is_dir() {
            true => tempfile::tempdir_in(memory).or_else(|_| tempfile::tempdir()).unwrap(),
            false => tempfile::tempdir().unwrap(),
        };
        std::fs::create_dir(directory.path().join("root")).unwrap();
        let disk = FailingDisk::new(seed);
        let faults = Faults { disk: Some(disk.clone()), ..Faults::default() };
        let service = CopyService::new(&[directory.path().join("root")], false).unwrap();
        let service = service.with(Engine::Plain, faults);
        let budget = service.budget.clone();
        let limits = Limits { duration: Duration::from_secs(3600), ..Limits::default() };
        let options = ServerOptions { limits, ..ServerOptions::default() };
        let at = "127.0.0.1:0".parse().unwrap();
        let server = Server::start(at, token(), options, vec![Box::new(service)]).unwrap();
        Self { seen: seen.clone(), directory, server, disk, budget }
    }

    fn faults(&self) -> Faults {
        Faults { disk: Some(self.disk.clone()), ..Faults::default() }
    }

    /// Wait until the server has noticed that a copy is over.
    fn is_idle(&self) {
        let begun = Instant::now();
        while self.budget.sessions() > 0 {
            assert!(begun.elapsed() < Duration::from_secs(60), "a session does not end");
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}

struct History<'a> {
    world: &'a World,
    random: Random,
    source: PathBuf,
    there: PathBuf,
    pull: bool,
    names: Vec<String>,
    /// What happened, for whoever looks for the reason.
    log: Vec<String>,
}

/// How a copy is disturbed.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Disturbed {
    Not,
    Killed,
    PowerCut,
    Sync,
    Interrupted,
    Changed,
}

fn noise(random: &mut Random, length: usize) -> Vec<u8> {
    let (mut state, mut bytes) = (random.next() | 1, vec![0; length]);
    skyhaul_core::pattern::noise(&mut state, &mut bytes);
    bytes
}

fn set_time(path: &Path, time: SystemTime) {
    std::fs::File::options().write(true).open(path).unwrap().set_modified(time).unwrap();
}

/// A file of some size, some of whose pages are holes.
fn make(random: &mut Random, path: &Path) {
    let size = random.one_of(&[
        0,
        1,
        4096,
        RANGE - 1,
        RANGE,
        RANGE + 1,
        3 * RANGE,
        5 * RANGE + 777,
        24 * RANGE,
        24 * RANGE,
    ]);
    let file = std::fs::File::create(path).unwrap();
    file.set_len(size).unwrap();
    let holes = random.below(3);
    for range in 0..size.div_ceil(RANGE) {
        let (start, end) = (range * RANGE, ((range + 1) * RANGE).min(size));
        match holes {
            0 => file.write_all_at(&noise(random, (end - start) as usize), start).unwrap(),
            _ if random.below(2) == 0 => {}
            _ => file.write_all_at(&noise(random, 100.min(end - start) as usize), start).unwrap(),
        }
    }
}

impl<'a> History<'a> {
    fn new(world: &'a World, seed: u64) -> Self {
        let mut random = Random(seed);
        let pull = random.below(2) == 0;
        let here = world.directory.path().join(format!("here{seed}"));
        let root = world.directory.path().join(format!("root/{seed}"));
        let (source, into) = if pull { (root.join("src"), here) } else { (here.join("src"), root) };
        std::fs::create_dir_all(&source).unwrap();
        let names = vec!["a".to_owned(), "b".repeat(random.one_of(&[1, 250]))];
        names.iter().for_each(|name| make(&mut random, &source.join(name)));
        let there = into.join("src");
        Self { world, random, source, there, pull, names, log: Vec::new() }
    }

    fn options(&mut self, seed: u64) -> CopyOptions {
        let server = vec![self.world.server.local()];
        let far = PathBuf::from(seed.to_string());
        let (sources, into) = match self.pull {
            true => (vec![far.join("src")], vec![self.there.parent().unwrap().to_owned()]),
            false => (vec![self.source.clone()], vec![far]),
        };
        let engine = self.random.one_of(&[Engine::Plain, Engine::Plain, Engine::Plain, Engine::Auto]);
        let faults = self.world.faults();
        let tuning =
            Tuning { flows: 1, range: RANGE, depth: 2, direct: false, engine, faults, ..Tuning::default() };
        CopyOptions {
            server,
            sources,
            into,
            pull: self.pull,
            exists: Exists::Replace,
            tuning,
            plan: false,
            dry_run: false,
            verify: false,
            stop: Default::default(),
        }
    }

    /// Something happens to the files between two copies.
    fn change(&mut self) {
        let name = self.names[self.random.below(self.names.len() as u64) as usize].clone();
        let source = self.source.join(&name);
        let part =
            beside(&self.there.join(&name), self.random.one_of(&[PART_SUFFIX, PART_SUFFIX, JOURNAL_SUFFIX]));
        let what = self.random.below(7);
        self.log.push(format!("change {what} of {}", &name[..1]));
        let before = source.metadata().unwrap();
        let kept = before.modified().unwrap();
        match what {
            // Written in place, and its time set back.
            0 | 1 if before.len() > 0 => {
                let file = std::fs::File::options().write(true).open(&source).unwrap();
                let at = self.random.below(before.len());
                let length = self.random.below(RANGE).min(before.len() - at) as usize;
                file.write_all_at(&noise(&mut self.random, length), at).unwrap();
                if what == 0 {
                    set_time(&source, kept);
                }
            }
            // Another file, of the same time or an older one.
            2 | 3 => {
                make(&mut self.random, &source);
                let age = Duration::from_secs(self.random.one_of(&[0, 0, 1000]));
                set_time(&source, kept - age);
            }
            4 => {
                let file = std::fs::File::options().write(true).open(&source).unwrap();
                file.set_len(self.random.below(6 * RANGE)).unwrap();
            }
            // A part or a journal is damaged or cut, or comes from somewhere else.
            5 if part.exists() => {
                let file = std::fs::File::options().write(true).open(&part).unwrap();
                let at = self.random.below(file.metadata().unwrap().len());
                file.write_all_at(&noise(&mut self.random, 3), at).unwrap();
            }
            6 if part.exists() && self.random.below(2) == 0 => {
                let file = std::fs::File::options().write(true).open(&part).unwrap();
                file.set_len(self.random.below(file.metadata().unwrap().len() + 1)).unwrap();
            }
            6 if self.there.is_dir() => {
                std::fs::write(&part, noise(&mut self.random, (2 * RANGE) as usize)).unwrap();
            }
            _ => {}
        }
    }

    fn content(&self) -> Vec<Vec<u8>> {
        self.names.iter().map(|name| std::fs::read(self.source.join(name)).unwrap()).collect()
    }

    /// Copy, while something happens.
    fn copy(&mut self, seed: u64, how: Disturbed) {
        let mut options = self.options(seed);
        let disk = &self.world.disk;
        let n = self.random.below(60);
        self.log.push(format!("copy {how:?} {n}"));
        match how {
            Disturbed::Killed | Disturbed::PowerCut => disk.kill_after(n),
            Disturbed::Sync => disk.fail_sync_after(n / 3),
            Disturbed::Interrupted | Disturbed::Changed => options.tuning.limit = Some(100_000_000),
            Disturbed::Not => {}
        }
        let before = self.content();
        let (stop, wait) = (options.stop.clone(), Duration::from_millis(n + 5));
        let path = self.source.join(&self.names[0]);
        let report = std::thread::scope(|scope| {
            let copying = scope.spawn(|| copy(&options, &token(), &mut |_| {}));
            match how {
                Disturbed::Interrupted => {
                    std::thread::sleep(wait);
                    stop.stop();
                }
                Disturbed::Changed if !before[0].is_empty() => {
                    std::thread::sleep(wait);
                    let kept = path.metadata().unwrap().modified().unwrap();
                    let bytes = noise(&mut self.random, before[0].len());
                    std::fs::File::options()
                        .write(true)
                        .open(&path)
                        .unwrap()
                        .write_all_at(&bytes, 0)
                        .unwrap();
                    set_time(&path, kept);
                }
                _ => {}
            }
            copying.join().unwrap()
        });
        self.world.is_idle();
        if let Ok(report) = &report {
            self.world.seen.note(report);
        }
        match how {
            Disturbed::PowerCut => disk.cut_power(),
            _ => disk.restart(),
        }
        if self.there.is_dir() {
            // A directory is not made anew by a later copy, so its name has to be durable by then, as it is after half a minute.
            let above = std::fs::File::open(self.there.parent().unwrap()).unwrap();
            self.world.faults().sync_all(&above).unwrap();
        }
        if report.as_ref().is_ok_and(CopyReport::is_whole) {
            self.log.push("  it says that all is there".into());
            self.compare(&before);
        } else if how == Disturbed::Not {
            panic!("an undisturbed copy is not whole: {report:?}\n{:#?}", self.log);
        }
    }

    /// Each file is what the source was, or is.
    fn compare(&self, before: &[Vec<u8>]) {
        for ((name, old), new) in self.names.iter().zip(before).zip(self.content()) {
            let there = std::fs::read(self.there.join(name)).unwrap_or_default();
            let at = || there.iter().zip(&new).position(|(a, b)| a != b);
            assert!(
                there == *old || there == new,
                "{} differs at byte {:?}\n{:#?}",
                &name[..1],
                at(),
                self.log
            );
        }
    }

    fn play(mut self, seed: u64) {
        use Disturbed::{Changed, Interrupted, Killed, Not, PowerCut, Sync};
        for _ in 0..2 + self.random.below(3) {
            let how = self.random.one_of(&[Killed, Killed, PowerCut, Sync, Sync, Interrupted, Changed, Not]);
            self.copy(seed, how);
            if self.random.below(4) > 0 {
                self.change();
            }
        }
        self.copy(seed, Not);
        self.compare(&self.content());
        // A part or a journal may be of another version, or none of ours (`change`). Nothing else is left.
        let known = |name: &String| {
            let path = self.there.join(name);
            [PART_SUFFIX, JOURNAL_SUFFIX].map(|suffix| beside(&path, suffix)).into_iter().chain([path])
        };
        let known: Vec<PathBuf> = self.names.iter().flat_map(known).collect();
        for left in std::fs::read_dir(&self.there).unwrap() {
            let left = left.unwrap().path();
            assert!(known.contains(&left), "{} is left\n{:#?}", left.display(), self.log);
        }
        for directory in [self.source.parent().unwrap(), self.there.parent().unwrap()] {
            let _ = std::fs::remove_dir_all(directory);
        }
    }
}

fn play(world: &World, seed: u64) {
    let played =
        std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| History::new(world, seed).play(seed)));
    if let Err(panic) = played {
        eprintln!("replay it with SKYHAUL_HISTORY={seed}");
        std::panic::resume_unwind(panic);
    }
}

#[test]
fn a_thousand_histories_end_with_equal_files_or_an_error() {
    let read = |name: &str| std::env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
    if let Some(seed) = read("SKYHAUL_HISTORY") {
        return play(&World::new(seed, &Arc::default()), seed);
    }
    let (all, next) = (read("SKYHAUL_HISTORIES").unwrap_or(1000), AtomicU64::new(0));
    let seen = Arc::<Seen>::default();
    // Copies wait more than they work.
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                let world = World::new(all, &seen);
                loop {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if seed >= all {
                        return;
                    }
                    play(&world, seed);
                }
            });
        }
    });
    let counts = seen.all();
    println!("{seen:?}");
    assert!(all < 1000 || counts.iter().all(|count| *count >= 100), "{seen:?}");
}
