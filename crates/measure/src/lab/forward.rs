//! The forwarder: frames from one interface of the router to the other, each when the path says.
//!
//! ```text
//!   port ─ frame ─▶ packets ─▶ Judge ─▶ Line (due, in order) ─▶ joined where consecutive and due ─▶ the other port
//!                                └─ lost ─▶ log                              sent ─▶ log, lateness
//! ```
//!
//! One thread serves both directions. A packet is due by the time at which the kernel took its frame in, not by that at which
//! this thread saw it; so only what happens after it is due makes it late.
//!
//! The forwarder polls again immediately, after a rest, or when something is due or arrives:
//!
//! ```text
//!   idle path   ──look──────── poll ────────look── poll ──…      each packet by itself, when it is due
//!   busy path   ──look─ rest ─look─ rest ─look─ rest ──…         what is due within a grain leaves together
//!   flooded     ──look─look─look─ … ─look─ rest (1 of 16) ─look─ …
//! ```
//!
//! To wake for every packet costs more than to send it: at 1 Gb/s that is 12 us of 12. A rest of some packets' time costs a
//! third, and makes trains of what would have left one by one.
//!
//! A thread with real-time priority that never sleeps is stopped by the kernel, for 50 ms of each second (`sched_rt_runtime_us`).
//! So a flooded one rests by itself, often and briefly.

use super::frame;
use super::frame::Train;
use super::queue::{DelayQueue, FramePool, Note, TrainPacket, Waiting, conclude, damaged, record};
use super::report::{DirectionCounts, ForwardReport, Log, Record};
use skyhaul_core::measure::Histogram;
use skyhaul_io::fault::Damage;
use skyhaul_io::fault::path::{Direction, Judge, Path};
use skyhaul_io::host::thread::cpu_time;
use skyhaul_io::packet::{Came, Incoming, Outgoing, Piece, Port};
use skyhaul_io::packet::{monotonic, realtime, wait};
use std::io;
use std::ops::Range;
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Frames of a system call.
pub(super) const BATCH: usize = 32;
/// Longest sleep of a thread, which may be stopped meanwhile.
const SLEEP: u64 = 20_000_000;
/// A direction is silent when nothing arrived for this long: then what is held back is sent.
const SILENT: u64 = 10_000_000;
/// How often a frame that the kernel did not take is tried again.
const TRIES: u32 = 3;

/// Settings of a forwarder.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pace {
    /// Nanoseconds before a packet is due during which the thread does not sleep.
    pub(super) spin: u64,
    /// Nanoseconds of lateness beyond which a deadline was missed.
    pub(super) tolerance: u64,
    /// Nanoseconds between two looks on a busy path, at least.
    pub(super) grain: u64,
}

/// One direction: what was counted beside the judge's sums.
#[derive(Debug, Default)]
struct Tally {
    frames: u64,
    unjudged: u64,
    sent_frames: u64,
    no_room: u64,
    failed: u64,
    missed: u64,
    dropped: u64,
    most_octets: u64,
    lateness: Histogram,
    last: u64,
}

/// A frame that is put together, and where its head lies.
struct Ready {
    packets: Range<usize>,
    train: Rc<Train>,
    hops: u8,
    finished: Option<Vec<u8>>,
}

pub(super) struct Forwarder {
    /// That of the near end, and of the far one.
    ports: [Port; 2],
    /// Hardware addresses of the router itself.
    own: [[u8; 6]; 2],
    judge: Judge<TrainPacket>,
    lines: [DelayQueue; 2],
    tallies: [Tally; 2],
    pool: FramePool,
    log: Option<Log>,
    pace: Pace,
    turns: PollSchedule,
    start: u64,
    incoming: Option<Incoming>,
    outgoing: Outgoing,
    heads: Vec<Vec<u8>>,
    ready: Vec<Ready>,
    /// When the packets of those were due, and how many.
    dues: Vec<(u64, u64)>,
    /// Of the same, for the log: the frame of each, their places in the train, and what is known of the first.
    notes: Vec<(usize, Range<usize>, Note, Damage)>,
}

impl Forwarder {
    pub(super) fn new(
        ports: [Port; 2],
        own: [[u8; 6]; 2],
        path: &Path,
        memory: usize,
        log: Option<Log>,
        pace: Pace,
    ) -> Self {
        Self {
            ports,
            own,
            judge: Judge::new(path),
            lines: Default::default(),
            tallies: Default::default(),
            pool: FramePool::new(memory),
            log,
            pace,
            turns: PollSchedule::new(pace.grain),
            start: monotonic(),
            incoming: Some(Incoming::new(BATCH)),
            outgoing: Outgoing::new(BATCH),
            heads: (0..BATCH).map(|_| Vec::with_capacity(256)).collect(),
            ready: Vec::with_capacity(BATCH),
            dues: Vec::with_capacity(BATCH * 64),
            notes: Vec::new(),
        }
    }

    /// Forwards until stopped.
    pub(super) fn run(mut self, stop: &AtomicBool) -> io::Result<ForwardReport> {
        while !stop.load(Ordering::Relaxed) {
            let now = self.now();
            let mut done = 0;
            for direction in Direction::BOTH {
                done += self.take_in(direction)?;
            }
            self.change(self.now());
            for direction in Direction::BOTH {
                done += self.send_due(direction)?;
            }
            match self.turns.next(now, self.now(), done) {
                Next::Look => {}
                Next::Rest(time) => std::thread::sleep(Duration::from_nanos(time)),
                Next::Wait => self.wait()?,
            }
        }
        self.finish()
    }

    fn now(&self) -> u64 {
        monotonic() - self.start
    }

    /// Receive and judge what came.
    fn take_in(&mut self, direction: Direction) -> io::Result<usize> {
        let Some(mut incoming) = self.incoming.take() else { return Ok(0) };
        let came = self.ports[direction as usize].receive(&mut incoming);
        if came.as_ref().is_ok_and(|came| *came > 0) {
            // Stamps are of the clock that people set, so the difference is measured each time.
            let now = self.now();
            let ahead = realtime().wrapping_sub(now);
            for number in 0..came.as_ref().map_or(0, |came| *came) {
                let Some(frame) = incoming.frame(number) else { continue };
                let at = if frame.stamp == 0 { now } else { frame.stamp.saturating_sub(ahead).min(now) };
                let tally = &mut self.tallies[direction as usize];
                tally.last = tally.last.max(at);
                tally.frames += 1;
                tally.failed += u64::from(frame.cut_short);
                let at = tally.last;
                if !frame.cut_short {
                    self.take_one(direction, &mut incoming, number, at);
                }
            }
        }
        self.incoming = Some(incoming);
        came
    }

    fn take_one(&mut self, direction: Direction, incoming: &mut Incoming, number: usize, at: u64) {
        let Some(Came { virtio, frame: octets, .. }) = incoming.frame(number) else { return };
        if octets.get(..6) == Some(&self.own[direction as usize]) {
            return;
        }
        let shape = frame::read(octets);
        if shape.is_none() {
            let tally = &mut self.tallies[direction as usize];
            tally.unjudged += 1;
            let head = virtio.octets();
            let piece = Piece { head: &head, payload: octets };
            // Who asks for a neighbour asks again.
            let _ = self.ports[1 - direction as usize].send(&mut self.outgoing, &[piece]);
            return;
        }
        let train = self.pool.keep(incoming, number, |train| {
            train.virtio = virtio;
            train.shape = shape;
        });
        let Some(train) = train else {
            self.tallies[direction as usize].no_room += 1;
            return;
        };
        self.change(at);
        for place in 0..train.packets() {
            let Some(packet) = train.packet(place, at) else { continue };
            let part = TrainPacket { train: train.clone(), at: place };
            let (line, pool, log) = (&mut self.lines[direction as usize], &mut self.pool, &mut self.log);
            self.judge
                .offer(direction, packet, part, &mut |outcome| conclude(direction, outcome, line, pool, log));
        }
        self.pool.done(train);
        let tally = &mut self.tallies[direction as usize];
        tally.most_octets = tally.most_octets.max(self.lines[direction as usize].octets());
    }

    /// Time goes on: the schedule, and what is held back in silence.
    fn change(&mut self, now: u64) {
        let (lines, pool, log) = (&mut self.lines, &mut self.pool, &mut self.log);
        if self.judge.next_change().is_some_and(|next| next <= now) {
            self.judge.advance(now, &mut |direction, outcome| {
                conclude(direction, outcome, &mut lines[direction as usize], pool, log);
            });
        }
        for direction in Direction::BOTH {
            let silent = now.saturating_sub(self.tallies[direction as usize].last) > SILENT;
            if silent && self.judge.held(direction) > 0 {
                let line = &mut lines[direction as usize];
                self.judge
                    .flush(direction, now, &mut |outcome| conclude(direction, outcome, line, pool, log));
            }
        }
    }

    /// Send what is due, as many frames as one system call takes; returns how many.
    fn send_due(&mut self, direction: Direction) -> io::Result<usize> {
        let now = self.now();
        self.ready.clear();
        self.dues.clear();
        self.notes.clear();
        while self.ready.len() < BATCH {
            let Some(first) = self.lines[direction as usize].pop_if(|waiting| waiting.due <= now) else {
                break;
            };
            let frame = self.ready.len();
            let whole = first.damage == Damage::NONE;
            let finished =
                (!whole).then(|| damaged(&first.train, first.packets.start, first.hops, first.damage));
            self.noted(frame, &first);
            let Waiting { train, mut packets, hops, .. } = first;
            while whole
                && let Some(next) = self.lines[direction as usize].pop_if(|next| {
                    next.due <= now
                        && next.packets.start == packets.end
                        && Rc::ptr_eq(&next.train, &train)
                        && (next.damage, next.hops) == (Damage::NONE, hops)
                })
            {
                packets.end = next.packets.end;
                self.noted(frame, &next);
            }
            self.ready.push(Ready { packets, train, hops, finished });
        }
        if self.ready.is_empty() {
            return Ok(0);
        }
        self.send_ready(direction)?;
        let sent = self.now();
        let tally = &mut self.tallies[direction as usize];
        for (due, packets) in &self.dues {
            let late = sent.saturating_sub(*due);
            tally.lateness.record_many(late, *packets);
            tally.missed += if late > self.pace.tolerance { *packets } else { 0 };
        }
        if let Some(log) = &mut self.log {
            for (&(due, _), (frame, places, note, damage)) in self.dues.iter().zip(&self.notes) {
                let (flipped, cut) = (damage.flip.is_some(), damage.cut.is_some());
                for (place, number) in places.clone().zip(note.number..) {
                    let note = Note { number, ..*note };
                    let known = record(direction, &note, &self.ready[*frame].train, place);
                    log.note(Record { due, sent, flipped, cut, ..known });
                }
            }
        }
        let frames = self.ready.len();
        self.ready.drain(..).for_each(|ready| self.pool.done(ready.train));
        Ok(frames)
    }

    /// What is to be said of packets when they are sent.
    fn noted(&mut self, frame: usize, waiting: &Waiting) {
        self.dues.push((waiting.due, waiting.packets.len() as u64));
        if self.log.is_some() {
            self.notes.push((frame, waiting.packets.clone(), waiting.note, waiting.damage));
        }
    }

    fn send_ready(&mut self, direction: Direction) -> io::Result<()> {
        let port = &self.ports[1 - direction as usize];
        let pieces: Vec<Piece<'_>> = self
            .ready
            .iter()
            .zip(&mut self.heads)
            .map(|(ready, head)| match &ready.finished {
                Some(octets) => Piece { head: octets, payload: &[] },
                None => ready.train.piece(&ready.packets, ready.hops, head),
            })
            .collect();
        let (mut done, mut tries) = (0, 0);
        while done < pieces.len() {
            match port.send(&mut self.outgoing, &pieces[done..]) {
                Ok(sent) => {
                    self.tallies[direction as usize].sent_frames += sent as u64;
                    (done, tries) = (done + sent, 0);
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => {
                    tries += 1;
                    let busy = error.kind() == io::ErrorKind::WouldBlock;
                    if !busy || tries >= TRIES {
                        // This one is lost, by us.
                        self.tallies[direction as usize].failed += 1;
                        (done, tries) = (done + 1, 0);
                    }
                }
            }
        }
        Ok(())
    }

    /// Sleep until something is due or comes.
    fn wait(&mut self) -> io::Result<()> {
        let now = self.now();
        let due = self.lines.iter().filter_map(DelayQueue::due).min().unwrap_or(u64::MAX);
        let change = self.judge.next_change().unwrap_or(u64::MAX);
        let held = Direction::BOTH.iter().any(|direction| self.judge.held(*direction) > 0);
        let most = now + if held { SILENT / 4 } else { SLEEP };
        let until = due.saturating_sub(self.pace.spin).min(change).min(most);
        if until <= now {
            std::hint::spin_loop();
            return Ok(());
        }
        wait(&self.ports, until - now)
    }

    fn finish(mut self) -> io::Result<ForwardReport> {
        for direction in Direction::BOTH {
            self.tallies[direction as usize].dropped += self.ports[direction as usize].dropped()?;
        }
        let seconds = self.now() as f64 / 1e9;
        let unlogged = self.log.take().map_or(Ok(0), Log::finish)?;
        let direct = |direction: Direction| {
            let (tally, line) = (&self.tallies[direction as usize], &self.lines[direction as usize]);
            DirectionCounts {
                counts: *self.judge.counts(direction),
                frames: tally.frames,
                unjudged: tally.unjudged,
                sent_frames: tally.sent_frames,
                waiting: line.len() as u64 + self.judge.held(direction) as u64,
                most_waiting_octets: tally.most_octets,
                missed: tally.missed,
                lateness: tally.lateness.clone(),
                no_room: tally.no_room,
                failed: tally.failed,
                dropped: tally.dropped,
            }
        };
        let memory = self.pool.held() as u64;
        let cpu = cpu_time().as_secs_f64();
        Ok(ForwardReport { seconds, cpu, directions: Direction::BOTH.map(direct), unlogged, memory })
    }
}

/// Frames of a look after which there is too much to do for a rest.
const MANY: usize = 16;
/// Nanoseconds without a sleep, at most, and the sleep that then follows.
const AWAKE: u64 = 1_000_000;
const BREATH: u64 = 65_000;

/// What comes next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Next {
    /// The next look.
    Look,
    /// A sleep of so many nanoseconds, whatever comes.
    Rest(u64),
    /// A sleep until something is due or comes.
    Wait,
}

/// Looks, as they follow one another.
#[derive(Clone, Copy, Debug)]
struct PollSchedule {
    grain: u64,
    /// When the last look that moved something began.
    last: u64,
    /// Whether that one followed the one before within two grains.
    busy: bool,
    /// When it last woke.
    woke: u64,
    asleep: bool,
}

impl PollSchedule {
    pub(super) fn new(grain: u64) -> Self {
        Self { grain, last: 0, busy: false, woke: 0, asleep: true }
    }

    /// After a look from `began` to `now` that moved so many frames.
    pub(super) fn next(&mut self, began: u64, now: u64, frames: usize) -> Next {
        if self.asleep {
            self.woke = began;
        }
        let soon = began.saturating_sub(self.last) < 2 * self.grain;
        if frames > 0 {
            (self.last, self.busy) = (began, soon);
        }
        let next = if frames < MANY && self.busy && soon && now < began + self.grain {
            Next::Rest(began + self.grain - now)
        } else if frames == 0 {
            Next::Wait
        } else if now.saturating_sub(self.woke) > AWAKE {
            Next::Rest(BREATH)
        } else {
            Next::Look
        };
        self.asleep = next != Next::Look;
        next
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_packet_alone_and_its_answer_are_waited_for() {
        let mut turns = PollSchedule::new(40_000);
        for at in [1_000_000, 2_000_000, 3_000_000] {
            assert_eq!(turns.next(at, at + 5000, 1), Next::Look, "it may have a follower");
            assert_eq!(turns.next(at + 5000, at + 6000, 0), Next::Wait);
            assert_eq!(
                turns.next(at + 30_000, at + 35_000, 1),
                Next::Rest(35_000),
                "what comes now is a stream"
            );
            assert_eq!(turns.next(at + 70_000, at + 71_000, 0), Next::Rest(39_000));
            assert_eq!(turns.next(at + 110_000, at + 111_000, 0), Next::Wait, "it was none");
        }
    }

    #[test]
    fn packets_of_a_busy_path_leave_together() {
        let mut turns = PollSchedule::new(40_000);
        let mut now = 1_000_000;
        let mut looks = 0;
        while now < 2_000_000 {
            looks += 1;
            match turns.next(now, now + 10_000, 3) {
                Next::Look => now += 10_000,
                Next::Rest(time) => now += 10_000 + time,
                Next::Wait => panic!("something was done"),
            }
        }
        assert_eq!(looks, 26, "one in 40 us, after the first two");
        let mut exact = PollSchedule::new(0);
        assert_eq!(exact.next(now, now + 10_000, 3), Next::Look);
        assert_eq!(exact.next(now + 10_000, now + 11_000, 0), Next::Wait);
    }

    #[test]
    fn a_flooded_one_sleeps_for_a_twentieth_of_the_time() {
        let mut turns = PollSchedule::new(40_000);
        let (mut now, mut rested) = (0, 0);
        while now < 1_000_000_000 {
            match turns.next(now, now + 30_000, 32) {
                Next::Look => now += 30_000,
                Next::Rest(time) => (now, rested) = (now + 30_000 + time, rested + time),
                Next::Wait => panic!("something was done"),
            }
        }
        assert!(rested > now / 20 && rested < now / 12, "{rested}");
    }
}
