//! A link that several senders share, and what the control law makes of it.
//!
//! ```text
//!   sender 0 ─┐   marks among the packets       ┌─▶ socket buffer ─▶ receiver 0 ─┐
//!   sender 1 ─┼─▶ queue (finite) ─▶ capacity(t) ┼─▶ socket buffer ─▶ receiver 1 ─┤ stalls, limited speed
//!   load    ──┘                    delay, loss  └─▶ nobody                       │
//!      ▲───────────────────────── reports, some of them lost ◀───────────────────┘
//! ```
//!
//! Time goes in steps; in one step all packets of one sender are one segment, so that a minute of eight senders at
//! 100 Gb/s is played in a moment. What the queue has no room for is taken from all in proportion to what they brought.
//!
//! Limits: packets of one size for a sender; nothing overtakes.

use crate::random::Random;
use skyhaul_core::control::{ControlConfig, Controller, Report};
use skyhaul_core::placement::Nanos;
use std::collections::VecDeque;

/// One step of time.
pub const STEP: Nanos = Nanos(250_000);
/// One row of the timeline.
pub const ROW: Nanos = Nanos(50_000_000);

/// Traffic that obeys nothing.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Load {
    /// Bits per second while it is on.
    pub rate: f64,
    /// From when.
    pub from: Nanos,
    /// On for so long, then off for so long; 0: always on.
    pub period: Nanos,
}

/// A controlled sender and its receiver.
#[derive(Clone, Debug)]
pub struct Peer {
    /// When it begins.
    pub from: Nanos,
    /// When it ends.
    pub until: Nanos,
    /// Bytes of a packet.
    pub packet: u64,
    /// Bytes of the receiver's socket buffer.
    pub buffer: u64,
    /// Bits per second the receiver can take out of it.
    pub speed: f64,
    /// Bits per second the sender's program has at most.
    pub supply: f64,
    /// Time from the link to the receiver, and the same back to the sender.
    pub delay: Nanos,
    /// Its law.
    pub control: ControlConfig,
}

/// A shared link, from now on.
#[derive(Clone, Debug)]
pub struct Link {
    /// Replays it.
    pub seed: u64,
    /// Bits per second, from these times on; the first is at 0.
    pub capacity: Vec<(Nanos, f64)>,
    /// The queue, as the time the first capacity takes to empty it.
    pub queue: Nanos,
    /// Part of the packets that are lost for no reason, from a time on, to a time.
    pub loss: (f64, Nanos, Nanos),
    /// Part of the reports that are lost.
    pub deaf: f64,
    /// No report arrives between these times.
    pub silent: (Nanos, Nanos),
    /// Receivers do not run for this long, about so often.
    pub stall: (Nanos, Nanos),
    /// Other traffic.
    pub load: Option<Load>,
    /// Who shares it.
    pub peers: Vec<Peer>,
    /// Until when.
    pub end: Nanos,
}

/// What one sender had done at a moment. Counts are since the beginning.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct At {
    /// The rate the law gives.
    pub rate: f64,
    /// Packets sent.
    pub sent: u64,
    /// Packets received.
    pub received: u64,
    /// Falls for loss, for a queue, for a receiver.
    pub falls: [u64; 3],
}

/// A moment.
#[derive(Clone, Debug, PartialEq)]
pub struct Row {
    /// When.
    pub time: Nanos,
    /// Bits per second of the link that other traffic leaves.
    pub room: f64,
    /// Milliseconds of queue.
    pub queue: f64,
    /// Each sender.
    pub peers: Vec<At>,
}

impl Link {
    fn capacity_at(&self, now: Nanos) -> f64 {
        self.capacity.iter().rev().find(|(from, _)| *from <= now).map_or(0.0, |(_, bits)| *bits)
    }

    fn load_at(&self, now: Nanos) -> f64 {
        let Some(load) = self.load.filter(|load| load.from <= now) else { return 0.0 };
        let on = load.period.0 == 0 || (now.since(load.from).0 / load.period.0).is_multiple_of(2);
        if on { load.rate } else { 0.0 }
    }

    fn queue_bytes(&self) -> u64 {
        let first = self.capacity.first().map_or(0.0, |(_, bits)| *bits);
        let largest = self.peers.iter().map(|peer| peer.packet).max().unwrap_or(1500);
        // The smallest there is: some packets of each port.
        ((first * self.queue.0 as f64 / 8e9) as u64).max(8 * largest * self.peers.len() as u64)
    }

    fn loss_at(&self, now: Nanos) -> f64 {
        let (part, from, until) = self.loss;
        if (from..until).contains(&now) { part } else { 0.0 }
    }
}

#[derive(Clone, Copy, Debug)]
struct Segment {
    /// Whose; none: of the load.
    peer: Option<usize>,
    bytes: u64,
    packets: u64,
    mark: Option<Report>,
}

struct Sender {
    control: Controller,
    credit: f64,
    sent: u64,
    lost_next: u64,
    mark_at: Nanos,
    /// On their way to the receiver, and reports on their way back.
    way: VecDeque<(Nanos, Segment)>,
    back: VecDeque<(Nanos, Report)>,
    /// In the socket buffer.
    buffer: VecDeque<Segment>,
    buffered: u64,
    budget: f64,
    received: u64,
    stalled_until: Nanos,
}

/// The link in motion.
struct Motion<'a> {
    link: &'a Link,
    random: Random,
    now: Nanos,
    peers: Vec<Sender>,
    queue: VecDeque<Segment>,
    queued: u64,
    budget: f64,
    load_credit: f64,
}

impl Sender {
    fn new(peer: &Peer, link: &Link, random: &mut Random) -> Self {
        let mut this = Self {
            control: Controller::new(&peer.control),
            credit: 0.0,
            sent: 0,
            lost_next: 0,
            mark_at: peer.from.plus(Nanos(random.below(peer.control.interval.0))),
            way: VecDeque::new(),
            back: VecDeque::new(),
            buffer: VecDeque::new(),
            buffered: 0,
            budget: 0.0,
            received: 0,
            stalled_until: Nanos(0),
        };
        this.lost_next = spacing(link.loss.0, random);
        this
    }
}

/// Packets until the next that is lost by chance.
fn spacing(part: f64, random: &mut Random) -> u64 {
    if part <= 0.0 {
        return u64::MAX;
    }
    let uniform = ((random.draw() >> 11) as f64 + 1.0) / (1u64 << 53) as f64;
    (uniform.ln() / (1.0 - part).ln()) as u64 + 1
}

impl Motion<'_> {
    fn step(&mut self) {
        self.now = self.now.plus(STEP);
        let mut brought = Vec::with_capacity(self.peers.len() + 1);
        for n in 0..self.peers.len() {
            self.hear(n);
            brought.extend(self.send(n));
        }
        brought.extend(self.load());
        self.admit(brought);
        self.serve();
        for n in 0..self.peers.len() {
            self.receive(n);
        }
    }

    fn hear(&mut self, n: usize) {
        let (now, peer) = (self.now, &mut self.peers[n]);
        while peer.back.front().is_some_and(|(due, _)| *due <= now) {
            if let Some((_, report)) = peer.back.pop_front() {
                peer.control.report(&report, now);
            }
        }
    }

    /// What sender `n` sends in this step: its packets, then a mark if one is due.
    fn send(&mut self, n: usize) -> Vec<Segment> {
        let (link, now) = (self.link, self.now);
        let (kind, peer) = (&link.peers[n], &mut self.peers[n]);
        if now < kind.from || now >= kind.until {
            return Vec::new();
        }
        let rate = (peer.control.rate() as f64).min(kind.supply);
        peer.credit += rate * STEP.0 as f64 / 8e9;
        let packets = (peer.credit / kind.packet as f64) as u64;
        peer.credit -= (packets * kind.packet) as f64;
        peer.sent += packets;
        let mut alive = packets;
        if link.loss_at(now) > 0.0 {
            // By chance: the distance to the next loss is drawn, not each packet's fate.
            let mut left = packets;
            while left >= peer.lost_next {
                left -= peer.lost_next;
                alive -= 1;
                peer.lost_next = spacing(link.loss.0, &mut self.random);
            }
            peer.lost_next -= left;
        }
        let mut out = vec![Segment { peer: Some(n), bytes: alive * kind.packet, packets: alive, mark: None }];
        if now >= peer.mark_at {
            peer.mark_at = now.plus(kind.control.interval);
            peer.control.marked(now);
            let mark = Report {
                mark_time: now,
                sent_packets: peer.sent,
                sent_bytes: peer.sent * kind.packet,
                ..Report::default()
            };
            out.push(Segment { peer: Some(n), bytes: 128, packets: 0, mark: Some(mark) });
        }
        out
    }

    fn load(&mut self) -> Option<Segment> {
        const PACKET: u64 = 1500;
        self.load_credit += self.link.load_at(self.now) * STEP.0 as f64 / 8e9;
        let packets = self.load_credit as u64 / PACKET;
        self.load_credit -= (packets * PACKET) as f64;
        (packets > 0).then_some(Segment { peer: None, bytes: packets * PACKET, packets, mark: None })
    }

    /// Into the queue; what has no room is lost, from all in proportion.
    fn admit(&mut self, brought: Vec<Segment>) {
        let service = self.link.capacity_at(self.now) * STEP.0 as f64 / 8e9;
        let room = (self.link.queue_bytes() as f64 + service - self.queued as f64).max(0.0);
        let all: u64 = brought.iter().map(|segment| segment.bytes).sum();
        let part = if all as f64 <= room { 1.0 } else { room / all as f64 };
        for mut segment in brought {
            if segment.mark.is_some() {
                if part < 1.0 && !self.random.chance(part) {
                    continue;
                }
            } else if part < 1.0 && segment.packets > 0 {
                let size = segment.bytes / segment.packets;
                let kept = segment.packets as f64 * part;
                let chance = kept - kept.floor();
                segment.packets = kept as u64 + u64::from(self.random.chance(chance));
                segment.bytes = segment.packets * size;
            }
            self.queued += segment.bytes;
            self.queue.push_back(segment);
        }
    }

    fn serve(&mut self) {
        self.budget += self.link.capacity_at(self.now) * STEP.0 as f64 / 8e9;
        while let Some(mut segment) = self.queue.pop_front() {
            let size = segment.bytes.checked_div(segment.packets).unwrap_or(segment.bytes);
            let whole = segment.bytes as f64 <= self.budget;
            let packets = if whole { segment.packets } else { (self.budget / size.max(1) as f64) as u64 };
            let bytes = if whole { segment.bytes } else { packets * size };
            if !whole && (packets == 0 || segment.mark.is_some()) {
                self.queue.push_front(segment);
                break;
            }
            self.budget -= bytes as f64;
            self.queued -= bytes;
            self.deliver(Segment { bytes, packets, ..segment });
            if !whole {
                segment.bytes -= bytes;
                segment.packets -= packets;
                self.queue.push_front(segment);
                break;
            }
        }
        // A link that idles saves nothing up.
        if self.queue.is_empty() {
            self.budget = 0.0;
        }
    }

    fn deliver(&mut self, segment: Segment) {
        if let Some(n) = segment.peer {
            let due = self.now.plus(self.link.peers[n].delay);
            self.peers[n].way.push_back((due, segment));
        }
    }

    fn receive(&mut self, n: usize) {
        let (link, now) = (self.link, self.now);
        let (kind, peer) = (&link.peers[n], &mut self.peers[n]);
        while peer.way.front().is_some_and(|(due, _)| *due <= now) {
            let Some((_, mut segment)) = peer.way.pop_front() else { break };
            let room = kind.buffer.saturating_sub(peer.buffered);
            if segment.bytes > room {
                segment.packets = segment.packets.min(room / kind.packet);
                segment.bytes = segment.packets * kind.packet;
                if segment.mark.is_some() {
                    continue;
                }
            }
            peer.buffered += segment.bytes;
            peer.buffer.push_back(segment);
        }
        let (length, every) = link.stall;
        if length.0 > 0 && self.random.chance(STEP.0 as f64 / every.0 as f64) {
            peer.stalled_until = now.plus(length);
        }
        peer.budget = (peer.budget + kind.speed * STEP.0 as f64 / 8e9).min(kind.speed * 1e-3 + 1e5);
        while now >= peer.stalled_until && peer.buffer.front().is_some_and(|s| s.bytes as f64 <= peer.budget)
        {
            let Some(segment) = peer.buffer.pop_front() else { break };
            peer.budget -= segment.bytes as f64;
            peer.buffered -= segment.bytes;
            peer.received += segment.packets;
            let Some(mark) = segment.mark else { continue };
            let report = Report {
                packets: peer.received,
                bytes: peer.received * kind.packet,
                arrived: Nanos(now.0 + 77_000_000_000),
                socket_fill: (peer.buffered * 1000 / kind.buffer.max(1)) as u16,
                ..mark
            };
            let heard = !(link.silent.0..link.silent.1).contains(&now) && !self.random.chance(link.deaf);
            if heard {
                peer.back.push_back((now.plus(kind.delay), report));
            }
        }
    }

    fn row(&self) -> Row {
        let capacity = self.link.capacity_at(self.now);
        Row {
            time: self.now,
            room: (capacity - self.link.load_at(self.now)).max(0.0),
            queue: self.queued as f64 * 8e3 / capacity.max(1.0),
            peers: self
                .peers
                .iter()
                .map(|peer| {
                    let stats = peer.control.stats();
                    At {
                        rate: peer.control.rate() as f64,
                        sent: peer.sent,
                        received: peer.received,
                        falls: [stats.losses, stats.queues, stats.receivers],
                    }
                })
                .collect(),
        }
    }
}

impl Link {
    /// Play it, a row every [`ROW`].
    pub fn play(&self) -> Vec<Row> {
        let mut random = Random(self.seed);
        let peers = self.peers.iter().map(|peer| Sender::new(peer, self, &mut random)).collect();
        let mut motion = Motion {
            link: self,
            random,
            now: Nanos(0),
            peers,
            queue: VecDeque::new(),
            queued: 0,
            budget: 0.0,
            load_credit: 0.0,
        };
        let mut rows = Vec::new();
        while motion.now < self.end {
            motion.step();
            if motion.now.0.is_multiple_of(ROW.0) {
                rows.push(motion.row());
            }
        }
        rows
    }
}
