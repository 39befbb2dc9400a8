//! The thread that looks at frames.

use super::report::{QualityReport, ThreadQuality};
use super::shared::{CPU_SHARE, QualityOptions, Shared};
use super::tap::Taken;
use super::thread::{SampledHeader, WatchedThread};
use crate::irregular::{QUALITY, QUALITY_OVER};
use crate::receive::StreamInfo;
use crate::recording::Event;
use skyhaul_core::placement::Nanos;
use skyhaul_core::quality::QualityFinding;
use skyhaul_core::wire::{Expected, FrameTime};
use skyhaul_io::host::thread as host;
use skyhaul_io::lock::lock;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

/// How often is looked whether something is to be judged, if nothing arrives.
const POLL_INTERVAL: Duration = Duration::from_millis(250);
/// Time for what waits at the end.
const END_TIMEOUT: Duration = Duration::from_secs(2);
/// Threads of all streams that are followed.
const MAX_THREADS: usize = 256;

type Tell = Box<dyn Fn(Event) + Send>;

/// All streams of a recorder.
pub(super) struct Analysis {
    options: QualityOptions,
    shared: Arc<Shared>,
    tell: Tell,
    /// By number of the stream and thread.
    threads: BTreeMap<(u32, u16), WatchedThread>,
    streams: BTreeMap<u32, Known>,
    /// Of streams that are over.
    past: Vec<ThreadQuality>,
    started: Instant,
}

/// Time and station of most frames of a set.
type Usual = (FrameTime, Option<u32>);

/// A stream as it was last seen.
struct Known {
    info: Arc<StreamInfo>,
    rate: Option<u32>,
    /// The thread whose times are nearest to this host's clock, if some sets have as many threads with one time as with another.
    reference: Option<u16>,
}

impl Analysis {
    pub(super) fn new(options: QualityOptions, shared: Arc<Shared>, tell: Tell) -> Self {
        Self {
            options,
            shared,
            tell,
            threads: BTreeMap::new(),
            streams: BTreeMap::new(),
            past: Vec::new(),
            started: Instant::now(),
        }
    }

    pub(super) fn run(mut self, receiver: &Receiver<Taken>) {
        // At ordinary priority it would be in nobody's way either, but for its share.
        let _ = host::low_priority();
        let mut ending = None;
        loop {
            if self.shared.is_ending.load(Ordering::Relaxed) {
                let since = *ending.get_or_insert_with(Instant::now);
                if since.elapsed() > END_TIMEOUT {
                    break;
                }
            } else if let Some(pause) = self.pause() {
                std::thread::sleep(pause);
                continue;
            }
            match receiver.recv_timeout(POLL_INTERVAL) {
                Ok(taken) => self.take(&taken),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => break,
            }
            self.judge(None, false);
        }
        self.judge(None, true);
        self.publish();
    }

    /// How long to wait so that the share of a CPU is kept.
    fn pause(&self) -> Option<Duration> {
        let earned = self.started.elapsed().mul_f64(CPU_SHARE);
        // A start is free: findings come sooner.
        let owed = host::cpu_time().saturating_sub(earned + Duration::from_millis(200));
        (owed > Duration::ZERO)
            .then(|| owed.div_f64(CPU_SHARE).clamp(Duration::from_millis(1), POLL_INTERVAL))
    }

    fn take(&mut self, taken: &Taken) {
        let Taken { info, rate, units, sets, seconds, arrived, has_ended } = taken;
        if *has_ended {
            self.judge(Some(info.id), true);
            self.forget(info.id);
            return;
        }
        let mut reference = self.streams.get(&info.id).and_then(|known| known.reference);
        let unit = info.unit_bytes.max(1) as usize;
        let parts = info.format.parts.max(1);
        let mut rest = &units[..];
        let mut all = Vec::with_capacity(sets.len());
        for &count in sets {
            let Some((set, behind)) = rest.split_at_checked(count * unit) else { break };
            rest = behind;
            // The parts of a frame lie one behind the other, its header in the first.
            let frames = set.chunks_exact(unit * parts);
            all.push(frames.filter_map(|frame| Some((header(info, frame)?, frame))).collect::<Vec<_>>());
        }
        // The last set arrived then.
        if let (Some(frames), Some(arrived)) = (all.last().filter(|_| all.len() == sets.len()), *arrived) {
            reference = nearest(frames, *rate, arrived).or(reference);
        }
        self.streams.insert(info.id, Known { info: Arc::clone(info), rate: *rate, reference });
        for (n, frames) in all.iter().enumerate() {
            let arrived = arrived.filter(|_| n + 1 == sets.len());
            let Some(usual) = usual(frames, reference) else { continue };
            self.take_set(info, *rate, frames, usual, arrived);
        }
        let of_stream = self.threads.range_mut((info.id, 0)..=(info.id, u16::MAX));
        of_stream.for_each(|(_, watched)| watched.passed(*seconds));
    }

    fn take_set(
        &mut self,
        info: &StreamInfo,
        rate: Option<u32>,
        frames: &[(SampledHeader, &[u8])],
        usual: Usual,
        arrived: Option<Nanos>,
    ) {
        for (header, frame) in frames {
            let key = (info.id, header.time.thread);
            if self.threads.len() >= MAX_THREADS && !self.threads.contains_key(&key) {
                continue;
            }
            let watched =
                self.threads.entry(key).or_insert_with(|| WatchedThread::new(info, header.time.thread));
            let start = info.format.header_at().unwrap_or(0) + header.coded.map_or(0, |coded| coded.header);
            let payload = frame.get(start..).unwrap_or_default();
            watched.add((header, usual), payload, rate);
            if let Some(arrived) = arrived {
                watched.arrived(header.time, rate, arrived);
            }
        }
    }

    /// Judges the threads of a stream, or of all, if enough of them was gathered.
    fn judge(&mut self, stream: Option<u32>, at_end: bool) {
        let is_asked = |key: &(u32, u16)| stream.is_none_or(|stream| key.0 == stream);
        let due: Vec<_> = self
            .threads
            .iter()
            .filter(|(key, watched)| is_asked(key) && watched.is_due(at_end))
            .map(|(key, _)| *key)
            .collect();
        if due.is_empty() {
            return;
        }
        // Copies are looked for before anything begins anew.
        let mut all: Vec<_> = due.iter().map(|key| (*key, self.across(*key))).collect();
        for (key, found) in &mut all {
            let key = *key;
            let Some(known) = self.streams.get(&key.0) else { continue };
            let Some(watched) = self.threads.get_mut(&key) else { continue };
            let own = watched.judge(&known.info, &self.options);
            // Of zeros and fill, all channels are copies.
            let is_constant = own.iter().any(|one| matches!(one, QualityFinding::ConstantPayload { .. }));
            found.retain(|one| !is_constant || !matches!(one, QualityFinding::CopiedChannel { .. }));
            found.extend(own);
            if let (Some(stated), Some(seen)) = (known.info.format.frames_per_second, known.rate)
                && stated != seen
            {
                found.push(QualityFinding::FrameRate { stated, found: seen });
            }
        }
        for (key, found) in all {
            let Some(watched) = self.threads.get_mut(&key) else { continue };
            for (has_begun, text) in watched.conclude(&found) {
                (self.tell)(Event::now(if has_begun { QUALITY } else { QUALITY_OVER }, None, text));
            }
        }
        self.publish();
    }

    /// What a comparison with the other threads and streams shows.
    fn across(&self, key: (u32, u16)) -> Vec<QualityFinding> {
        let mut found = Vec::new();
        let Some(watched) = self.threads.get(&key) else { return found };
        if let Some(samples) = &watched.samples {
            let others = self.threads.range((key.0, 0)..=(key.0, key.1));
            let others =
                others.filter_map(|(other, watched)| Some((other.1, &watched.samples.as_ref()?.payload)));
            samples.payload.judge_copies(key.1, &others, &mut found);
        }
        let is_shared = |(other, one): &(&(u32, u16), &WatchedThread)| {
            other.1 == key.1 && watched.station().is_some() && one.station() == watched.station()
        };
        let senders = self.threads.iter().filter(is_shared).count() as u32;
        if senders > 1 {
            found.push(QualityFinding::SharedThread { senders });
        }
        found
    }

    fn forget(&mut self, stream: u32) {
        self.streams.remove(&stream);
        let keys: Vec<_> =
            self.threads.range((stream, 0)..=(stream, u16::MAX)).map(|(key, _)| *key).collect();
        for key in keys {
            if let Some(watched) = self.threads.remove(&key).filter(|_| self.past.len() < MAX_THREADS) {
                self.past.push(watched.end());
            }
        }
        self.publish();
    }

    fn publish(&self) {
        let present = self.threads.values().map(|watched| &watched.report);
        let report = QualityReport {
            threads: self.past.iter().chain(present).cloned().collect(),
            left_out: self.shared.left_out.load(Ordering::Relaxed),
            cpu_seconds: host::cpu_time().as_secs_f64(),
            has_failed: false,
        };
        *lock(&self.shared.report) = Arc::new(report);
    }
}

/// The header of a frame; `None` if it has none, or a wrong one.
fn header(info: &StreamInfo, unit: &[u8]) -> Option<SampledHeader> {
    let format = &info.format;
    let bytes = unit.get(format.header_at()?..)?;
    if !format.own.has_header(format, bytes) {
        return None;
    }
    let time = format.frame_time(unit)?;
    let frames = format.family.frames();
    let expected = Expected {
        frame_bytes: format.frame_bytes,
        near: format.near,
        fps: format.frames_per_second,
        pattern: false,
    };
    let is_valid = frames.is_none_or(|frames| !frames.see(bytes, &expected).filled);
    let pattern = Expected { pattern: true, ..expected };
    let is_pattern = frames.is_some_and(|frames| frames.see(bytes, &pattern).illegal.is_none());
    Some(SampledHeader {
        time,
        station: frames.and_then(|frames| frames.station(bytes)),
        is_valid,
        is_pattern,
        coded: frames.and_then(|frames| frames.coded(bytes)),
    })
}

/// The thread of a set whose time is nearest to that of its arrival.
fn nearest(frames: &[(SampledHeader, &[u8])], rate: Option<u32>, arrived: Nanos) -> Option<u16> {
    let distance = |time: FrameTime| {
        let (data, _) = super::thread::nanos(time, rate);
        (data - i128::from(arrived.0)).abs()
    };
    frames.iter().map(|(header, _)| header.time).min_by_key(|&time| distance(time)).map(|time| time.thread)
}

/// Time and station of most frames of a set. Of as many with one time as with another, or a set of several times, those of the
/// thread `reference`, or of the first.
fn usual(frames: &[(SampledHeader, &[u8])], reference: Option<u16>) -> Option<Usual> {
    let time = |header: &SampledHeader| (header.time.unix_seconds, header.time.frame);
    let most = |same: &dyn Fn(&SampledHeader, &SampledHeader) -> bool| {
        let rank = |header: &SampledHeader| {
            let count = frames.iter().filter(|(other, _)| same(header, other)).count();
            (count, Some(header.time.thread) == reference)
        };
        // The first of several.
        frames.iter().map(|(header, _)| header).rev().max_by_key(|header| rank(header))
    };
    let station = most(&|one, other| one.station == other.station)?.station;
    Some((most(&|one, other| time(one) == time(other))?.time, station))
}
