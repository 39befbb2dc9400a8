//! What a copy will reach, before it begins: each part measured for a moment, and the slowest named.
//!
//! ```text
//!   network            bytes from memory, on the flows, for a second
//!   files              copies of some of them: what each costs, and what a copy costs by itself ([`rehearsal`](super::rehearsal))
//!   source disk        its own files, read for a second
//!   destination disk   a file without a name, written for a second
//!   bytes              of long files, all at once for some seconds ([`trial`])
//! ```
//!
//! The parts say what could be reached if the others were not there. Predicted is a time: what a copy costs by itself, what its
//! files cost, and its bytes. Files are copied before much is written: a disk that works it off is slower.
//!
//! Limits: what is there already is not known. A path and a disk that others use change.
//!
//! XXX copy::predicted
//! What is predicted of a copy, from parts that were measured.

pub(super) mod rehearsal;
pub(super) mod trial;

use self::rehearsal::rehearse;
use super::control::of_peer;
use super::destination::Destination;
use super::manifest::{Manifest, Root};
use super::message::{Bounds, Measure, Measured, MeasuredRate, Message, Sizes, Trial};
use super::options::{Account, CopyOptions, Tuning};
use super::session::{LocalEnd, Purpose, Session};
use serde::{Deserialize, Serialize};
use skyhaul::peer::{Connection, Token};
use skyhaul_core::predict::{FilesCopied, FilesCost};
use skyhaul_io::disk::{Ended, Queue, Scratch};
use skyhaul_io::host::thread::process_cpu_time;
use skyhaul_io::memory::{ALIGN, Pool, PoolOptions};
use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// How long each part is measured.
const SPAN: Duration = Duration::from_secs(1);
/// Most bytes written for it,
const MOST: u64 = 4 << 30;
/// and the least: as many as are copied, if that is between. A disk that has much to work off would delay the copy.
const LEAST: u64 = 64 << 20;
/// How long the other end may take.
const PLAN_ANSWER_TIMEOUT: Duration = Duration::from_secs(30);

/// Bytes in a time, at a cost.
fn part(bytes: u64, time: Duration, cpu: Duration) -> MeasuredRate {
    if bytes == 0 || time.is_zero() {
        return MeasuredRate::default();
    }
    MeasuredRate {
        bits_per_second: bytes as f64 * 8.0 / time.as_secs_f64(),
        cpu_seconds_per_gb: cpu.as_secs_f64() / (bytes as f64 / 1e9),
    }
}

fn queue(tuning: &Tuning, account: &Account) -> io::Result<(Queue, Pool)> {
    let block_bytes = tuning.range as usize;
    let total_bytes = (block_bytes * tuning.depth) as u64;
    account.charge(total_bytes)?;
    let pool = Pool::new(&PoolOptions { total_bytes, block_bytes, shared: false })?;
    pool.wait_until_touched()?;
    Ok((Queue::new(&tuning.disk(), Some(&pool))?, pool))
}

/// Read the files for a moment, from all sources at once.
fn read(roots: &[Root], manifest: &Manifest, tuning: &Tuning, account: &Account) -> io::Result<MeasuredRate> {
    let (mut queue, pool) = queue(tuning, account)?;
    let mut places: Vec<Vec<usize>> = vec![Vec::new(); roots.len()];
    for (file, (source, _)) in manifest.places.iter().enumerate() {
        if manifest.entries[file].size() > 0 {
            places[*source].push(file);
        }
    }
    // The largest files say most about a disk.
    places.iter_mut().for_each(|files| files.sort_by_key(|&file| manifest.entries[file].size()));
    let (begun, cpu) = (Instant::now(), process_cpu_time());
    let (mut bytes, mut ended, mut turn) = (0, Vec::new(), 0);
    // File, whether it bypasses the page cache, what was asked for, size.
    let mut open = vec![None::<(Arc<std::fs::File>, bool, u64, u64)>; roots.len()];
    loop {
        let more = begun.elapsed() < SPAN;
        let mut left = roots.len();
        while more && queue.has_room() && left > 0 {
            turn = (turn + 1) % roots.len();
            if open[turn].is_none()
                && let Some(file) = places[turn].pop()
            {
                let (handle, direct) = roots[turn].tree.read(&manifest.places[file].1, tuning.direct)?;
                open[turn] = Some((Arc::new(handle), direct, 0, manifest.entries[file].size()));
            }
            let (Some((file, direct, at, size)), Some(block)) = (open[turn].as_mut(), pool.take()) else {
                left -= 1;
                continue;
            };
            let length = (*size - *at).min(tuning.range);
            let whole = (length as usize).next_multiple_of(if *direct { ALIGN } else { 1 });
            queue.read(length, file, *at, block, whole);
            *at += length;
            if *at >= *size {
                open[turn] = None;
            }
        }
        if queue.in_flight() == 0 {
            break;
        }
        queue.wait(SPAN, &mut ended)?;
        for Ended { result, tag, .. } in ended.drain(..) {
            bytes += (result? as u64).min(tag);
        }
    }
    Ok(part(bytes, begun.elapsed(), process_cpu_time().saturating_sub(cpu)))
}

/// Write files without a name for a moment, into all directories at once: about as many bytes as are to be copied.
fn write(into: &[Destination], tuning: &Tuning, bytes: u64, account: &Account) -> io::Result<MeasuredRate> {
    let most =
        bytes.clamp(LEAST, MOST).div_ceil(into.len().max(1) as u64).next_multiple_of(tuning.range.max(1));
    let mut files = Vec::new();
    for one in into {
        let (file, size) = one.scratch(tuning, most)?;
        if size > 0 {
            files.push((file, size, 0));
        }
    }
    let failed = |error: &io::Error| match into {
        [one, ..] => one.failed(error),
        [] => io::Error::new(error.kind(), error.to_string()),
    };
    written(&mut files, tuning, account).map_err(|error| failed(&error))
}

/// Write into files of these sizes in turn, from some places on.
fn written(
    files: &mut [(Scratch, u64, u64)],
    tuning: &Tuning,
    account: &Account,
) -> io::Result<MeasuredRate> {
    let (mut queue, pool) = queue(tuning, account)?;
    let mut views = Vec::new();
    let mut state = 7;
    while let Some(mut block) = pool.take() {
        skyhaul_core::pattern::noise(&mut state, &mut block);
        let length = block.len();
        views.push(block.into_view(0..length));
    }
    let (begun, cpu) = (Instant::now(), process_cpu_time());
    let (mut bytes, mut ended, mut turn) = (0, Vec::new(), 0usize);
    loop {
        while begun.elapsed() < SPAN && queue.has_room() {
            turn += 1;
            let count = files.len().max(1);
            let Some((file, size, at)) = files.get_mut(turn % count).filter(|(_, size, at)| at < size) else {
                break;
            };
            let _ = size;
            queue.write(tuning.range, file.file(), *at, views[turn % views.len()].clone(), false);
            *at += tuning.range;
        }
        if queue.in_flight() == 0 {
            break;
        }
        queue.wait(SPAN, &mut ended)?;
        for Ended { result, .. } in ended.drain(..) {
            bytes += result? as u64;
        }
    }
    files.iter().try_for_each(|(file, ..)| file.file().sync_data())?;
    Ok(part(bytes, begun.elapsed(), process_cpu_time().saturating_sub(cpu)))
}

/// Send bytes from memory on all flows for a moment.
fn send(flows: Vec<TcpStream>, tuning: &Tuning) -> MeasuredRate {
    let moved = AtomicU64::new(0);
    let (begun, cpu) = (Instant::now(), process_cpu_time());
    std::thread::scope(|scope| {
        for mut to in flows {
            let moved = &moved;
            scope.spawn(move || {
                let bytes = vec![0x5A; 256 << 10];
                let _ = to.set_write_timeout(Some(SPAN));
                if let Some(name) = &tuning.congestion {
                    let _ = skyhaul_io::tcp::tune::set_congestion(&to, name);
                }
                while begun.elapsed() < SPAN {
                    // So are their checksums, which are part of the cost.
                    std::hint::black_box(crc32c::crc32c(&bytes));
                    match to.write(&bytes) {
                        Ok(n) => drop(moved.fetch_add(n as u64, Ordering::Relaxed)),
                        Err(_) => return,
                    }
                }
            });
        }
    });
    part(moved.into_inner(), begun.elapsed(), process_cpu_time().saturating_sub(cpu))
}

/// Receive on all flows until the other end closes them.
fn receive(flows: Vec<TcpStream>) -> MeasuredRate {
    const MEMORY: usize = 64 << 20;
    let moved = AtomicU64::new(0);
    let (begun, cpu) = (Instant::now(), process_cpu_time());
    std::thread::scope(|scope| {
        let count = flows.len();
        for mut from in flows {
            let moved = &moved;
            scope.spawn(move || {
                // As much memory as ranges are read into, so that it is as cold; of many flows, together.
                let mut bytes =
                    vec![0; (MEMORY / count).clamp(256 << 10, 8 << 20) / (256 << 10) * (256 << 10)];
                let mut at = 0;
                let _ = from.set_read_timeout(Some(SPAN * 4));
                while begun.elapsed() < SPAN * 4 {
                    match from.read(&mut bytes[at..at + (256 << 10)]) {
                        Ok(n) if n > 0 => {
                            std::hint::black_box(crc32c::crc32c(&bytes[at..at + n]));
                            moved.fetch_add(n as u64, Ordering::Relaxed);
                        }
                        _ => return,
                    }
                    at = (at + (256 << 10)) % bytes.len();
                }
            });
        }
    });
    part(moved.into_inner(), begun.elapsed(), process_cpu_time().saturating_sub(cpu))
}

/// The client's side: the path, then copies in small, and only then the disks, which take long to be as they were before.
pub(super) fn ask(options: &CopyOptions, token: &Token, here: &LocalEnd<'_>) -> io::Result<Plan> {
    let tuning = &options.tuning;
    let Session { mut connection, flows, rtt } = Session::begin(options, token, Purpose::Network)?;
    let carried = if options.pull { receive(flows) } else { send(flows, tuning) };
    let theirs = measured(&mut connection)?;
    drop(connection);
    // What arrived counts, at the cost of both ends.
    let arrived = if options.pull { carried } else { theirs.part };
    let cpu = carried.cpu_seconds_per_gb + theirs.part.cpu_seconds_per_gb;
    let network = MeasuredRate { cpu_seconds_per_gb: cpu, ..arrived };
    let mut plan = Plan { network, rtt_seconds: rtt.as_secs_f64(), ..Plan::default() };
    let sizes = if options.pull { theirs.sizes } else { here.manifest.sizes() };
    let most = plan.slowest(tuning).map_or(0.0, |(rate, _)| rate);
    let rehearsed = rehearse(options, token, here, &sizes, most)?;
    let mine = match options.pull {
        true => write(here.into, tuning, sizes.bytes(), &Account::alone())?,
        false => read(here.roots, here.manifest, tuning, &Account::alone())?,
    };
    let Session { mut connection, .. } = Session::begin(options, token, Purpose::Disks(sizes.bytes()))?;
    let theirs = measured(&mut connection)?.part;
    drop(connection);
    (plan.read, plan.write) = if options.pull { (theirs, mine) } else { (mine, theirs) };
    if let Some(longer) = rehearsed.longer {
        attempt(options, token, here, longer, &mut plan)?;
    }
    plan.conclude(tuning, &rehearsed);
    Ok(plan)
}

fn measured(connection: &mut Connection) -> io::Result<Measured> {
    match connection.receive(PLAN_ANSWER_TIMEOUT).map_err(of_peer)? {
        Message::Measured(measured) => Ok(*measured),
        other => Err(instead(connection, other)),
    }
}

/// Why something else came.
fn instead(connection: &Connection, message: Message) -> io::Error {
    match message {
        Message::Stop { why } => io::Error::other(super::manifest::shown(&why)),
        _ => of_peer(connection.unexpected("another message")),
    }
}

/// The client's side of a trial, with files longer than this.
fn attempt(
    options: &CopyOptions,
    token: &Token,
    here: &LocalEnd<'_>,
    longer: u64,
    plan: &mut Plan,
) -> io::Result<()> {
    let span = trial::span_of(plan.rtt_seconds);
    let Session { mut connection, flows, .. } = Session::begin(options, token, Purpose::Trial(span, longer))?;
    let mine = match options.pull {
        true => trial::take(flows, here.into, &options.tuning, span, Account::alone())?,
        false => {
            let how = (longer, span);
            trial::give(flows, here.roots, here.manifest, &options.tuning, how, Account::alone())?
        }
    };
    let theirs = match connection.receive(PLAN_ANSWER_TIMEOUT).map_err(of_peer)? {
        Message::Tried(tried) => *tried,
        other => return Err(instead(&connection, other)),
    };
    let (sender, receiver) = if options.pull { (theirs, mine) } else { (mine, theirs) };
    plan.trial = receiver.trial;
    plan.trial.cpu_seconds_per_gb += sender.side.cpu_seconds / (sender.side.bytes as f64 / 1e9).max(1e-9);
    if receiver.trial.bytes > 0 {
        plan.bound = Some(Bounds::of(&sender.side, &receiver.side));
    }
    Ok(())
}

fn answer(
    connection: &mut Connection,
    flows: Vec<TcpStream>,
    measure: Measure,
    sizes: impl FnOnce() -> Sizes,
    disk: impl FnOnce(u64) -> io::Result<MeasuredRate>,
    carry: impl FnOnce(Vec<TcpStream>) -> MeasuredRate,
) -> io::Result<()> {
    let measured = match measure {
        Measure::Network => Measured { part: carry(flows), sizes: sizes() },
        Measure::Disks(most) => Measured { part: disk(most)?, ..Measured::default() },
    };
    connection.send(&Message::Measured(Box::new(measured))).map_err(of_peer)
}

/// The server's side of a push.
pub(super) fn answer_push(
    connection: &mut Connection,
    flows: Vec<TcpStream>,
    measure: Measure,
    into: &[Destination],
    tuning: &Tuning,
    account: &Account,
) -> io::Result<()> {
    let disk = |bytes| write(into, tuning, bytes, account);
    answer(connection, flows, measure, Sizes::default, disk, receive)
}

/// The server's side of a pull.
pub(super) fn answer_pull(
    connection: &mut Connection,
    flows: Vec<TcpStream>,
    measure: Measure,
    roots: &[Root],
    tuning: &Tuning,
    account: &Account,
) -> io::Result<()> {
    let manifest = Manifest::of(roots, account)?;
    let read = |_| read(roots, &manifest, tuning, account);
    answer(connection, flows, measure, || manifest.sizes(), read, |flows| send(flows, tuning))
}

/// Copies of some files, as they were measured, and what there is to copy.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Rehearsed {
    pub(super) few: FilesCopied,
    pub(super) many: FilesCopied,
    /// Files and bytes of what is like them,
    pub(super) short: (u64, u64),
    /// and of what is not: of that, a trial says the rate.
    pub(super) long: (u64, u64),
    /// The trial takes files longer than this.
    pub(super) longer: Option<u64>,
    pub(super) bound: Option<Bounds>,
}

/// What is predicted.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Plan {
    /// Bytes of all files.
    pub bytes: Option<u64>,
    /// Files.
    #[serde(default)]
    pub files: Option<u64>,
    /// Reading the source.
    pub read: MeasuredRate,
    /// The network with these flows.
    pub network: MeasuredRate,
    /// Writing the destination.
    pub write: MeasuredRate,
    /// Round trip in seconds.
    pub rtt_seconds: f64,
    /// Windows of all flows a round trip, in bits a second.
    pub window_bits_per_second: Option<f64>,
    /// Bytes of long files, all at once, for some seconds.
    pub trial: Trial,
    /// Files that were copied in small, at most.
    #[serde(default)]
    pub tried_files: u64,
    /// Seconds that any copy takes: to connect, to agree, for the last sync.
    #[serde(default)]
    pub fixed_seconds: f64,
    /// Seconds for each file, besides its bytes.
    #[serde(default)]
    pub file_seconds: f64,
    /// Predicted: bytes by [`seconds`](Self::seconds).
    pub bits_per_second: f64,
    /// What bounds it.
    pub bound: Option<Bounds>,
    /// Predicted for all files.
    pub seconds: Option<f64>,
    /// Afterwards: what it took.
    #[serde(default)]
    pub measured_seconds: Option<f64>,
    /// Afterwards: what it was.
    pub measured_bits_per_second: Option<f64>,
    /// Afterwards: measured to predicted rate.
    pub ratio: Option<f64>,
}

impl Plan {
    /// Enter what the copy reached.
    pub(super) fn compare(&mut self, bits_per_second: f64, seconds: f64) {
        self.measured_seconds = Some(seconds);
        self.measured_bits_per_second = Some(bits_per_second);
        self.ratio = (self.bits_per_second > 0.0).then(|| bits_per_second / self.bits_per_second);
    }

    /// The slowest part: what bounds a copy, if they do not disturb each other.
    pub(super) fn slowest(&mut self, tuning: &Tuning) -> Option<(f64, Bounds)> {
        let mut parts = vec![
            (self.read.bits_per_second, Bounds::SourceDisk),
            (self.network.bits_per_second, Bounds::Network),
            (self.write.bits_per_second, Bounds::DestinationDisk),
        ];
        if let Some(limit) = tuning.limit {
            parts.push((limit as f64, Bounds::Limit));
        }
        if let Some(window) = tuning.window
            && self.rtt_seconds > 0.0
        {
            let rate = window as f64 * 8.0 * tuning.flows as f64 / self.rtt_seconds;
            self.window_bits_per_second = Some(rate);
            parts.push((rate, Bounds::Network));
        }
        parts.into_iter().filter(|(rate, _)| *rate > 0.0).min_by(|a, b| a.0.total_cmp(&b.0))
    }

    /// The time: what a copy costs by itself and what its files cost, as copies in small say, and the bytes of long files at the
    /// rate of the trial, or that of the slowest part if there was none.
    pub(super) fn conclude(&mut self, tuning: &Tuning, rehearsed: &Rehearsed) {
        let Rehearsed { few, many, short, long, .. } = rehearsed;
        let slowest = self.slowest(tuning);
        let tried = self.trial.bits_per_second;
        let rate = if tried > 0.0 { tried } else { slowest.map_or(0.0, |(rate, _)| rate) };
        let cost = FilesCost::of(few, many, rate);
        let mut seconds = cost.seconds((short.0 + long.0) as f64, short.1 as f64);
        if long.1 > 0 && rate > 0.0 {
            seconds += long.1 as f64 * 8.0 / rate + self.trial.delay_seconds;
        }
        // What takes longest says what bounds it.
        let is_long = long.1 > 0 && long.1 as f64 * 8.0 / rate > seconds / 2.0;
        let alone = slowest.map(|(_, bound)| bound);
        self.bound = match is_long {
            true => self.bound.or(rehearsed.bound).or(alone),
            false => rehearsed.bound.or(self.bound).or(alone),
        };
        let bytes = short.1 + long.1;
        (self.files, self.bytes) = (Some(short.0 + long.0), Some(bytes));
        (self.fixed_seconds, self.file_seconds) = (cost.fixed, cost.file);
        self.tried_files = many.files as u64;
        self.seconds = Some(seconds);
        // As the end will count it.
        self.bits_per_second = if seconds > 0.0 { bytes as f64 * 8.0 / seconds } else { 0.0 };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan() -> Plan {
        let rate = |gbps: f64| MeasuredRate { bits_per_second: gbps * 1e9, cpu_seconds_per_gb: 0.1 };
        Plan { read: rate(40.0), network: rate(90.0), write: rate(20.0), ..Plan::default() }
    }

    fn copied(files: f64, octets: f64, seconds: f64) -> FilesCopied {
        FilesCopied { files, octets, seconds }
    }

    #[test]
    fn the_slowest_part_bounds() {
        let mut plan = plan();
        assert_eq!(plan.slowest(&Tuning::default()), Some((20e9, Bounds::DestinationDisk)));
        plan.rtt_seconds = 0.1;
        // 4 windows of 1 MiB in 100 ms.
        let tuning = Tuning { window: Some(1 << 20), ..Tuning::default() };
        let (rate, bound) = plan.slowest(&tuning).unwrap();
        assert_eq!((rate.round(), bound), (335_544_320.0, Bounds::Network));
        assert_eq!(plan.window_bits_per_second, Some(rate));
        let limited = plan.slowest(&Tuning { limit: Some(1_000_000), ..tuning });
        assert_eq!(limited, Some((1e6, Bounds::Limit)));
        assert_eq!(Plan::default().slowest(&Tuning::default()), None);
    }

    #[test]
    fn files_cost_and_long_ones_take_their_bytes_at_the_rate_of_the_trial() {
        let mut plan = plan();
        plan.bound = Some(Bounds::SourceDisk);
        plan.trial = Trial { bits_per_second: 10e9, delay_seconds: 1.0, ..Trial::default() };
        // 50 ms, and 1 ms a file.
        let rehearsed = Rehearsed {
            few: copied(1.0, 0.0, 0.051),
            many: copied(11.0, 0.0, 0.061),
            long: (2, 5_000_000_000),
            longer: Some(0),
            bound: Some(Bounds::Network),
            ..Rehearsed::default()
        };
        plan.conclude(&Tuning::default(), &rehearsed);
        let seconds = plan.seconds.unwrap();
        assert!((seconds - (0.05 + 0.002 + 4.0 + 1.0)).abs() < 1e-9, "{plan:?}");
        assert!((plan.bits_per_second - 40e9 / seconds).abs() < 1.0, "{plan:?}");
        assert_eq!(
            (plan.bound, plan.files, plan.bytes),
            (Some(Bounds::SourceDisk), Some(2), Some(5_000_000_000))
        );
        // Many short ones beside them take longer.
        plan.conclude(&Tuning::default(), &Rehearsed { short: (100_000, 0), ..rehearsed });
        assert!((plan.seconds.unwrap() - seconds - 100.0).abs() < 1e-6, "{plan:?}");
        assert_eq!(plan.bound, Some(Bounds::Network));
        plan.compare(plan.bits_per_second * 0.9, 2.0);
        assert!((plan.ratio.unwrap() - 0.9).abs() < 1e-9 && plan.measured_seconds == Some(2.0));
    }

    #[test]
    fn what_was_copied_whole_takes_as_long_again() {
        let mut plan = plan();
        let whole = copied(2000.0, 8e6, 0.4);
        let rehearsed = Rehearsed {
            few: copied(64.0, 3e5, 0.05),
            many: whole,
            short: (2000, 8_000_000),
            ..Rehearsed::default()
        };
        plan.conclude(&Tuning::default(), &rehearsed);
        assert!((plan.seconds.unwrap() - 0.4).abs() < 1e-9, "{plan:?}");
        assert_eq!((plan.bound, plan.tried_files), (Some(Bounds::DestinationDisk), 2000));
    }

    #[test]
    fn without_a_trial_the_slowest_part_is_the_rate() {
        let mut plan = plan();
        plan.conclude(&Tuning::default(), &Rehearsed { long: (1, 10_000_000_000), ..Rehearsed::default() });
        assert_eq!((plan.seconds, plan.bits_per_second), (Some(4.0), 20e9));
        let mut none = Plan::default();
        none.conclude(&Tuning::default(), &Rehearsed::default());
        assert_eq!((none.seconds, none.bits_per_second, none.bound), (Some(0.0), 0.0, None));
    }
}
