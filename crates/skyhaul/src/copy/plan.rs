//! What a copy will reach, before it begins: each part measured for a moment, and the slowest named.
//!
//! ```text
//!   source disk        its own files, read for a second
//!   network            bytes from memory, on the flows, for a second
//!   destination disk   a file without a name, written for a second
//!   all of it          a copy in small, for some seconds: this is predicted ([`trial`])
//! ```
//!
//! The parts say what could be reached if the others were not there; the trial, what they reach together.
//!
//! Limits: many small files take longer than their bytes, because each is made durable. A path that others use changes.

use super::bounds::Bounds;
use super::manifest::{Manifest, Root};
use super::message::Message;
use super::options::{CopyOptions, Tuning};
use super::predicted::{Part, Plan};
use super::receiver::Into;
use super::session::{Purpose, Session};
use super::talk::{Talk, of_peer};
use super::trial;
use crate::peer::Token;
use serde::{Deserialize, Serialize};
use skyhaul_io::disk::{Ended, Queue, Scratch, free_bytes};
use skyhaul_io::host::thread::process_cpu_time;
use skyhaul_io::memory::{ALIGN, Pool, PoolOptions};
use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// How long each part is measured.
const SPAN: Duration = Duration::from_secs(1);
/// Most bytes written for it.
const MOST: u64 = 4 << 30;
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

fn queue(tuning: &Tuning) -> io::Result<(Queue, Pool)> {
    let block_bytes = tuning.range as usize;
    let total_bytes = (block_bytes * tuning.depth) as u64;
    let pool = Pool::new(&PoolOptions { total_bytes, block_bytes, shared: false })?;
    pool.wait_until_touched()?;
    Ok((Queue::new(&tuning.disk(), Some(&pool))?, pool))
}

/// Read the files for a moment, from all sources at once.
fn read(roots: &[Root], manifest: &Manifest, tuning: &Tuning) -> io::Result<Part> {
    let (mut queue, pool) = queue(tuning)?;
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

/// Write files without a name for a moment, into all directories at once.
fn write(into: &[Into], tuning: &Tuning) -> io::Result<Part> {
    let (mut queue, pool) = queue(tuning)?;
    let mut files = Vec::new();
    for one in into {
        let path = one.tree.path().join(&one.path);
        let size = (free_bytes(&path)? / 4).min(MOST) / tuning.range * tuning.range;
        let mut file = Scratch::create(&path)?;
        file.allocate(size)?;
        file.set_direct(tuning.direct)?;
        if size > 0 {
            files.push((file, size, 0));
        }
    }
    let mut views = Vec::new();
    let mut state = 7;
    while let Some(mut block) = pool.take() {
        crate::disk::noise(&mut state, &mut block);
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
                // As ranges are sent; a host without cubic uses its own.
                let name = tuning.congestion.as_deref().unwrap_or("cubic");
                let _ = skyhaul_io::tcp::tune::set_congestion(&to, name);
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
    let moved = AtomicU64::new(0);
    let (begun, cpu) = (Instant::now(), process_cpu_time());
    std::thread::scope(|scope| {
        for mut from in flows {
            let moved = &moved;
            scope.spawn(move || {
                // As much memory as ranges are read into, so that it is as cold.
                let mut bytes = vec![0; 8 << 20];
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

/// What one end measured of its own.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub(super) struct Measured {
    disk: Part,
    network: Part,
}

/// The client's side: both ends measure, one part after the other.
pub(super) fn ask(
    options: &CopyOptions,
    token: &Token,
    roots: &[Root],
    into: &[Into],
    manifest: &Manifest,
) -> io::Result<Plan> {
    let Session { mut connection, flows, rtt } = Session::begin(options, token, Purpose::Plan)?;
    // The client's disk first, then the server's, then the flows.
    let mine =
        if options.pull { write(into, &options.tuning)? } else { read(roots, manifest, &options.tuning)? };
    connection.send(&Message::AllEntries).map_err(of_peer)?;
    let theirs: Measured = connection.receive(ANSWER).map_err(of_peer)?;
    connection.send(&Message::AllEntries).map_err(of_peer)?;
    let carried = if options.pull { receive(flows) } else { send(flows, &options.tuning) };
    let after: Measured = connection.receive(ANSWER).map_err(of_peer)?;
    let (read, write) = if options.pull { (theirs.disk, mine) } else { (mine, theirs.disk) };
    // What arrived counts, at the cost of both ends.
    let arrived = if options.pull { carried } else { after.network };
    let cpu = carried.cpu_seconds_per_gb + after.network.cpu_seconds_per_gb;
    let network = Part { cpu_seconds_per_gb: cpu, ..arrived };
    let mut plan = Plan { read, network, write, rtt_seconds: rtt.as_secs_f64(), ..Plan::default() };
    drop(connection);
    attempt(options, token, roots, into, manifest, &mut plan)?;
    plan.conclude(&options.tuning);
    Ok(plan)
}

/// The client's side of a copy in small.
fn attempt(
    options: &CopyOptions,
    token: &Token,
    roots: &[Root],
    into: &[Into],
    manifest: &Manifest,
    plan: &mut Plan,
) -> io::Result<()> {
    let span = trial::span_of(plan.rtt_seconds);
    let begun = Instant::now();
    let Session { mut connection, flows, .. } = Session::begin(options, token, Purpose::Trial(span))?;
    let setup = begun.elapsed();
    let mine = match options.pull {
        true => trial::take(flows, into, &options.tuning, span)?,
        false => trial::give(flows, roots, manifest, &options.tuning, span)?,
    };
    let theirs = match connection.receive(ANSWER).map_err(of_peer)? {
        Message::Tried(tried) => *tried,
        Message::Stop { why } => return Err(io::Error::other(why)),
        _ => return Err(of_peer(connection.unexpected("another message"))),
    };
    let (sender, receiver) = if options.pull { (theirs, mine) } else { (mine, theirs) };
    plan.bytes = sender.all;
    plan.trial = receiver.trial;
    plan.trial.delay_seconds += setup.as_secs_f64();
    plan.trial.cpu_seconds_per_gb += sender.side.cpu_seconds / (sender.side.bytes as f64 / 1e9).max(1e-9);
    if receiver.trial.bytes > 0 {
        plan.bound = Some(Bounds::of(&sender.side, &receiver.side));
    }
    Ok(())
}

fn answer(
    talk: Talk<'_>,
    flows: Vec<TcpStream>,
    disk: impl FnOnce() -> io::Result<Part>,
    carry: impl FnOnce(Vec<TcpStream>) -> Part,
) -> io::Result<()> {
    let connection = talk.connection;
    connection.receive::<Message>(ANSWER).map_err(of_peer)?;
    let disk = disk()?;
    connection.send(&Measured { disk, ..Measured::default() }).map_err(of_peer)?;
    connection.receive::<Message>(ANSWER).map_err(of_peer)?;
    let network = carry(flows);
    connection.send(&Measured { disk, network }).map_err(of_peer)
}

/// The server's side of a push.
pub(super) fn answer_push(
    talk: Talk<'_>,
    flows: Vec<TcpStream>,
    into: &[Into],
    tuning: &Tuning,
) -> io::Result<()> {
    answer(talk, flows, || write(into, tuning), receive)
}

/// The server's side of a pull.
pub(super) fn answer_pull(
    talk: Talk<'_>,
    flows: Vec<TcpStream>,
    roots: &[Root],
    tuning: &Tuning,
) -> io::Result<()> {
    let manifest = Manifest::of(roots)?;
    answer(talk, flows, || read(roots, &manifest, tuning), |flows| send(flows, tuning))
}
