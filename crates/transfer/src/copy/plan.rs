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

use super::bounds::Bounds;
use super::budget::Account;
use super::destination::Into;
use super::manifest::{Manifest, Root};
use super::message::{Measure, Measured, Message, Part};
use super::options::{CopyOptions, Tuning};
use super::predicted::Plan;
use super::rehearsal::rehearse;
use super::run::Here;
use super::session::{Purpose, Session};
use super::sizes::Sizes;
use super::talk::of_peer;
use super::trial;
use skyhaul::peer::{Connection, Token};
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
const ANSWER: Duration = Duration::from_secs(30);

/// Bytes in a time, at a cost.
fn part(bytes: u64, time: Duration, cpu: Duration) -> Part {
    if bytes == 0 || time.is_zero() {
        return Part::default();
    }
    Part {
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
fn read(roots: &[Root], manifest: &Manifest, tuning: &Tuning, account: &Account) -> io::Result<Part> {
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
fn write(into: &[Into], tuning: &Tuning, bytes: u64, account: &Account) -> io::Result<Part> {
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
fn written(files: &mut [(Scratch, u64, u64)], tuning: &Tuning, account: &Account) -> io::Result<Part> {
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
fn send(flows: Vec<TcpStream>, tuning: &Tuning) -> Part {
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
fn receive(flows: Vec<TcpStream>) -> Part {
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
pub(super) fn ask(options: &CopyOptions, token: &Token, here: &Here<'_>) -> io::Result<Plan> {
    let tuning = &options.tuning;
    let Session { mut connection, flows, rtt } = Session::begin(options, token, Purpose::Network)?;
    let carried = if options.pull { receive(flows) } else { send(flows, tuning) };
    let theirs = measured(&mut connection)?;
    drop(connection);
    // What arrived counts, at the cost of both ends.
    let arrived = if options.pull { carried } else { theirs.part };
    let cpu = carried.cpu_seconds_per_gb + theirs.part.cpu_seconds_per_gb;
    let network = Part { cpu_seconds_per_gb: cpu, ..arrived };
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
    match connection.receive(ANSWER).map_err(of_peer)? {
        Message::Measured(measured) => Ok(*measured),
        other => Err(instead(connection, other)),
    }
}

/// Why something else came.
fn instead(connection: &Connection, message: Message) -> io::Error {
    match message {
        Message::Stop { why } => io::Error::other(super::names::shown(&why)),
        _ => of_peer(connection.unexpected("another message")),
    }
}

/// The client's side of a trial, with files longer than this.
fn attempt(
    options: &CopyOptions,
    token: &Token,
    here: &Here<'_>,
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
    let theirs = match connection.receive(ANSWER).map_err(of_peer)? {
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
    disk: impl FnOnce(u64) -> io::Result<Part>,
    carry: impl FnOnce(Vec<TcpStream>) -> Part,
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
    into: &[Into],
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
