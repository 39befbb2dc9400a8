//! The control connection of a copy, as both ends use it, and what the threads of one end share: whether the session is over,
//! why, and how long they waited.

use super::activity::CopyActivity;
use super::manifest::shown;
use super::message::{Done, Entry, Message, Side};
use super::options::{LiveLimit, Tuning};
use skyhaul::peer::{Connection, PeerError};
use skyhaul_io::disk::DiskTurn;
use skyhaul_io::fifo::Fifo;
use skyhaul_io::host::thread::process_cpu_time;
use std::fs::File;
use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Time to wait for a message, and so the delay before files begin and end.
const POLL_TIMEOUT: Duration = Duration::from_millis(5);
/// Interval of keep-alives.
const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(1);
/// Time for the end that closed a flow to send the reason.
const REASON_TIMEOUT: Duration = Duration::from_secs(1);

/// Progress of a copy, for a line that is redrawn.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Progress {
    /// Files that are whole.
    pub files: usize,
    /// Files in all.
    pub all_files: usize,
    /// Bytes moved in this session.
    pub bytes: u64,
    /// Bytes to be moved in this session.
    pub all_bytes: u64,
    /// Bytes that the destination had before this session, as far as it has said so.
    pub there_bytes: u64,
    /// Bytes that the destination has confirmed: it had them, or they are durable there since.
    pub confirmed_bytes: u64,
    /// Bytes that are on their way: the host that receives has them, and has not said that they are durable.
    pub unconfirmed_bytes: u64,
    /// Bytes that the host that receives got in this session.
    pub arrived_bytes: u64,
    /// Seconds since the first byte.
    pub seconds: f64,
}

/// How long the other end may take to end its threads when all is there, in units of the patience: a read of a file that failed may still be under way.
const END_PATIENCES: u32 = 4;

/// The connection, with what an end must know besides.
pub(super) struct Control<'a> {
    pub(super) connection: &'a mut Connection,
    /// Whether this end is to stop.
    pub(super) stop: &'a dyn Fn() -> bool,
    pub(super) progress: &'a mut dyn FnMut(&Progress),
    pub(super) patience: Duration,
    activity: CopyActivity,
    last_heard: Instant,
    said: Instant,
}

/// The result of a copy, at either end.
#[derive(Debug, Default)]
pub(super) struct Outcome {
    pub(super) entries: Vec<Entry>,
    pub(super) done: Vec<Done>,
    pub(super) mine: Side,
    pub(super) theirs: Side,
    /// Bytes that arrived at the end that receives, also those of ranges that were cut off.
    pub(super) arrived: u64,
    /// Why it ended early.
    pub(super) stopped: Option<String>,
}

impl<'a> Control<'a> {
    pub(super) fn new(
        connection: &'a mut Connection,
        stop: &'a dyn Fn() -> bool,
        progress: &'a mut dyn FnMut(&Progress),
        tuning: &Tuning,
    ) -> Self {
        let (now, patience, activity) = (Instant::now(), tuning.patience, tuning.activity.clone());
        activity.begin_session();
        Self { connection, stop, progress, patience, activity, last_heard: now, said: now }
    }

    pub(super) fn say(&mut self, message: &Message) -> io::Result<()> {
        self.connection.send(message).map_err(of_peer)
    }

    /// Say that this end is there, and how far it has come, if it has not for a while.
    pub(super) fn live(&mut self) -> io::Result<()> {
        if self.said.elapsed() < KEEPALIVE_INTERVAL {
            return Ok(());
        }
        self.said = Instant::now();
        let (steps, durable_bytes) = (self.activity.own(), self.activity.durable_bytes());
        self.say(&Message::Moving { steps, durable_bytes })
    }

    /// This end has done something.
    pub(super) fn step(&self) {
        self.activity.step();
    }

    /// The next message, if one comes within a moment.
    ///
    /// # Errors
    /// The peer is gone, or stops.
    pub(super) fn hear(&mut self) -> io::Result<Option<Message>> {
        self.live()?;
        let found = self.connection.receive::<Message>(POLL_TIMEOUT);
        self.heard(found)
    }

    /// The next message, if it is here already.
    ///
    /// # Errors
    /// As [`hear`](Self::hear), but that silence is none.
    pub(super) fn hear_now(&mut self) -> io::Result<Option<Message>> {
        self.live()?;
        self.connection.poll::<Message>().transpose().map_or(Ok(None), |found| self.heard(found))
    }

    fn heard(&mut self, found: Result<Message, PeerError>) -> io::Result<Option<Message>> {
        match found {
            Ok(message) => {
                self.last_heard = Instant::now();
                Ok(match message {
                    Message::Alive => None,
                    Message::Moving { steps, durable_bytes } => {
                        self.activity.heard(steps, durable_bytes);
                        None
                    }
                    Message::Stop { why } => {
                        return Err(io::Error::new(
                            io::ErrorKind::ConnectionAborted,
                            format!("the peer stopped: {}", shown(&why)),
                        ));
                    }
                    other => Some(other),
                })
            }
            Err(error) if error.is_late() && self.last_heard.elapsed() < self.patience => Ok(None),
            Err(PeerError::Late { peer, what, .. }) => {
                let seconds = self.last_heard.elapsed().as_secs_f64();
                Err(of_peer(PeerError::Late { peer, what, seconds }))
            }
            Err(error) => Err(of_peer(error)),
        }
    }

    /// Both ends have done all: exchange what each did.
    pub(super) fn part(&mut self, mine: &Side) -> io::Result<Side> {
        self.say(&Message::Finished(Box::new(mine.clone())))?;
        let end = Instant::now() + self.patience * END_PATIENCES;
        while Instant::now() < end {
            if (self.stop)() {
                return Err(io::Error::new(io::ErrorKind::Interrupted, "interrupted"));
            }
            match self.hear()? {
                Some(Message::Finished(theirs)) => return Ok(shown_side(*theirs)),
                Some(Message::Sent(_)) | None => {}
                Some(other) => return Err(self.unexpected(&other)),
            }
        }
        Err(io::Error::new(io::ErrorKind::TimedOut, "the peer did not end the copy in time"))
    }

    /// Why it ended: what a thread failed of, or this. Where that is only a flow that the other end closed, the other end knows why.
    pub(super) fn reason(&mut self, failed: Option<io::Error>, ended: io::Error) -> io::Error {
        let failed = match failed {
            Some(failed) if is_closed(&failed) => failed,
            Some(failed) => return failed,
            None => return ended,
        };
        // It has said so, or the user wanted it.
        if ended.kind() != io::ErrorKind::Other {
            return ended;
        }
        let end = Instant::now() + REASON_TIMEOUT;
        while Instant::now() < end {
            if let Err(why) = self.hear() {
                return why;
            }
        }
        failed
    }

    /// The error for an unexpected message.
    pub(super) fn unexpected(&self, message: &Message) -> io::Error {
        let text: String = format!("{message:?}").chars().take(60).collect();
        of_peer(self.connection.unexpected(&text))
    }
}

/// What a peer did, as it is kept and shown.
pub(super) fn shown_side(mut side: Side) -> Side {
    (side.engine, side.congestion) = (shown(&side.engine), shown(&side.congestion));
    side
}

/// Bytes of memory that a peer's reason takes which stays with a file: kept twice, and as it is reported.
pub(super) fn text_memory(text: &str) -> u64 {
    text.len() as u64 * 3
}

/// Whether it says no more than that the other end is gone.
fn is_closed(error: &io::Error) -> bool {
    use io::ErrorKind::{BrokenPipe, ConnectionReset, UnexpectedEof};
    matches!(error.kind(), BrokenPipe | ConnectionReset | UnexpectedEof)
}

/// The error of a peer, as text.
pub(super) fn of_peer(error: PeerError) -> io::Error {
    match error {
        PeerError::Io(error) => error,
        PeerError::Stopped => io::Error::new(io::ErrorKind::Interrupted, "stopped"),
        PeerError::Closed(_) | PeerError::Truncated(_) => {
            io::Error::new(io::ErrorKind::ConnectionReset, error.to_string())
        }
        other => io::Error::other(other.to_string()),
    }
}

/// How often threads check whether the session is over.
pub(super) const POLL_INTERVAL: Duration = Duration::from_millis(5);

/// Counters of one end.
#[derive(Default)]
pub(super) struct SessionState {
    over: AtomicBool,
    failed: Mutex<Option<io::Error>>,
    pub(super) bytes: AtomicU64,
    /// Bytes that came from flows.
    pub(super) arrived: AtomicU64,
    pub(super) ranges: AtomicU64,
    pub(super) holes: AtomicU64,
    pub(super) again: AtomicU64,
    pub(super) resumed: AtomicU64,
    /// Nanoseconds in which flows waited for the disk, the disk for flows, and flows for their time to come.
    pub(super) for_disk: AtomicU64,
    pub(super) for_flows: AtomicU64,
    pub(super) paced: AtomicU64,
    /// The rate to which reads of a comparison keep, and when the next one may be made.
    live: LiveLimit,
    pub(super) activity: CopyActivity,
    due: Mutex<Option<Instant>>,
    /// First and last range.
    times: Mutex<Option<(Instant, Instant)>>,
}

impl SessionState {
    /// Of an end whose steps are counted there.
    pub(super) fn of(tuning: &Tuning) -> Self {
        Self { activity: tuning.activity.clone(), ..Self::default() }
    }

    /// Of an end whose comparisons keep to its rate, too.
    pub(super) fn held(tuning: &Tuning) -> Self {
        Self { live: tuning.live.clone(), ..Self::of(tuning) }
    }

    /// Waits until `bytes` may be read for a comparison.
    pub(super) fn hold(&self, bytes: u64) {
        loop {
            let (now, rate) = (Instant::now(), self.live.bits_per_second());
            let mut due = self.due.lock().unwrap_or_else(PoisonError::into_inner);
            if self.is_over() || rate.is_none() {
                *due = None;
                return;
            }
            let at = due.unwrap_or(now);
            if let Some(rate) = rate.filter(|rate| *rate > 0 && at <= now) {
                *due = Some(at.max(now) + Duration::from_secs_f64(bytes as f64 * 8.0 / rate as f64));
                return;
            }
            // A pause that is over has no debt.
            if rate == Some(0) {
                *due = None;
            }
            drop(due);
            // What waits because it was told to does not hang.
            self.activity.step();
            std::thread::sleep(POLL_INTERVAL);
        }
    }

    /// The turn of the next read of a file, if it has begun; else it stays asked for, behind a recording that writes to the disk.
    pub(super) fn turn(
        &self,
        asked: &mut Option<DiskTurn>,
        file: &File,
        bytes: u64,
    ) -> io::Result<Option<DiskTurn>> {
        let mut turn = asked.take().map_or_else(|| DiskTurn::ask(file, bytes), Ok)?;
        if turn.has_begun() {
            return Ok(Some(turn));
        }
        *asked = Some(turn);
        // What waits for a recording does not hang.
        self.activity.step();
        Ok(None)
    }

    pub(super) fn is_over(&self) -> bool {
        self.over.load(Ordering::Relaxed)
    }

    pub(super) fn end(&self) {
        self.over.store(true, Ordering::Relaxed);
    }

    /// A thread failed, so all of them end.
    pub(super) fn fail(&self, error: io::Error) {
        if !self.is_over() {
            self.failed.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(error);
        }
        self.end();
    }

    pub(super) fn failure(&self) -> Option<io::Error> {
        self.failed.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    /// A range was moved.
    pub(super) fn count(&self, bytes: u64, is_hole: bool) {
        let of = if is_hole { &self.holes } else { &self.bytes };
        of.fetch_add(bytes, Ordering::Relaxed);
        self.ranges.fetch_add(1, Ordering::Relaxed);
        self.activity.step();
        let now = Instant::now();
        let mut times = self.times.lock().unwrap_or_else(PoisonError::into_inner);
        *times = Some((times.map_or(now, |(first, _)| first), now));
    }

    /// Seconds from the beginning to the last range.
    pub(super) fn seconds(&self, begun: Option<Instant>) -> f64 {
        let times = *self.times.lock().unwrap_or_else(PoisonError::into_inner);
        times.map_or(0.0, |(first, last)| (last - begun.unwrap_or(first)).as_secs_f64())
    }

    /// The next of `lane`; the time it took is added to `waited`. None: it is over, and what was waited for never came: a flow
    /// that has sent all of a file waits for no disk while the other end writes it.
    pub(super) fn wait<T>(&self, lane: &Fifo<T>, waited: &AtomicU64) -> Option<T> {
        let begun = Instant::now();
        let mut got = None;
        while got.is_none() && !self.is_over() {
            got = lane.pop(POLL_INTERVAL);
        }
        if got.is_some() {
            waited.fetch_add(begun.elapsed().as_nanos() as u64, Ordering::Relaxed);
        }
        got
    }

    /// What this end did, with `flows` connections.
    pub(super) fn side(&self, begun: Instant, cpu: Duration, flows: usize) -> Side {
        let read = |of: &AtomicU64| of.load(Ordering::Relaxed);
        let seconds = self.seconds(Some(begun));
        let part = |of: &AtomicU64, threads: usize| {
            let all = seconds * threads.max(1) as f64;
            if all > 0.0 { (read(of) as f64 / 1e9 / all).min(1.0) } else { 0.0 }
        };
        Side {
            bytes: read(&self.bytes),
            ranges: read(&self.ranges),
            holes: read(&self.holes),
            again: read(&self.again),
            resumed: read(&self.resumed),
            seconds,
            waited_for_disk: part(&self.for_disk, flows),
            disk_waited: part(&self.for_flows, 1),
            paced: part(&self.paced, flows),
            cpu_seconds: (process_cpu_time() - cpu).as_secs_f64(),
            ..Side::default()
        }
    }
}
