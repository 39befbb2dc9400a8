//! Reads over a path of one rate and delay that loses: what they cost in datagrams, and how long they take.

use super::plan::{CLIENT, Cookies, SERVER, address, content};
use crate::random::Random;
use core::net::SocketAddr;
use skyhaul_core::placement::Nanos;
use skyhaul_core::rdma::{
    MemorySlice, RdmaConfig, RdmaContext, RdmaEndpoint, RdmaEvent, RdmaTransmit, RegionRights, RemoteAddress,
    RemoteRead,
};
use skyhaul_core::wire::crc32c::crc32c_append;
use std::collections::BTreeMap;
use std::ops::Range;

/// Reads of one size, and the path between reader and server.
#[derive(Clone, Debug)]
pub struct ReadPlan {
    /// Seed of all losses.
    pub seed: u64,
    /// Share of the datagrams that are lost in each direction, once the connection is open.
    pub loss: f64,
    /// Datagrams of the server that are lost besides, counted from its first answer on.
    pub withheld: Range<u64>,
    /// Time during which the server does nothing.
    pub stall: Range<Nanos>,
    /// One-way delay.
    pub delay: Nanos,
    /// Bytes per second in each direction.
    pub rate: u64,
    /// The longest datagram, bytes of UDP payload.
    pub datagram_bytes: u16,
    /// Number of Reads.
    pub reads: u64,
    /// Bytes of each.
    pub read_bytes: u64,
    /// Reads under way at a time.
    pub at_a_time: usize,
    /// Time of each Read.
    pub deadline: Nanos,
}

impl Default for ReadPlan {
    /// 16 Reads of 256 KiB, 8 at a time, in datagrams of 1472 bytes, by 2 s each; 10 Gb/s, 50 µs, no loss.
    fn default() -> Self {
        ReadPlan {
            seed: 1,
            loss: 0.0,
            withheld: 0..0,
            stall: Nanos(0)..Nanos(0),
            delay: Nanos(50_000),
            rate: 1_250_000_000,
            datagram_bytes: 1472,
            reads: 16,
            read_bytes: 256 << 10,
            at_a_time: 8,
            deadline: Nanos(2_000_000_000),
        }
    }
}

/// What the Reads of a plan came to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReadsPlayed {
    /// Reads that ended complete, and incomplete.
    pub reads: [u64; 2],
    /// Segments of answers that the server sent, and those that found a place.
    pub segments: [u64; 2],
    /// Requests.
    pub requests: u64,
    /// Requests that the server refused.
    pub refused: u64,
    /// Times that answers were due and none came.
    pub silences: u64,
    /// The longest Read.
    pub longest: Nanos,
    /// The longest that a Read outlasted its deadline.
    pub overdue: Nanos,
    /// From the first Read to the end of the last.
    pub took: Nanos,
}

impl ReadsPlayed {
    /// Adds the counts of another plan.
    pub fn add(&mut self, other: &ReadsPlayed) {
        self.reads.iter_mut().zip(other.reads).for_each(|(a, b)| *a += b);
        self.segments.iter_mut().zip(other.segments).for_each(|(a, b)| *a += b);
        self.requests += other.requests;
        self.refused += other.refused;
        self.silences += other.silences;
        self.longest = self.longest.max(other.longest);
        self.overdue = self.overdue.max(other.overdue);
        self.took = self.took.plus(other.took);
    }
}

type Flying = BTreeMap<(Nanos, u64), (SocketAddr, usize, Vec<u8>)>;

struct Path {
    plan: ReadPlan,
    random: Random,
    cookies: Cookies,
    sides: [RdmaEndpoint; 2],
    now: Nanos,
    /// When each direction is free.
    free: [Nanos; 2],
    flying: Flying,
    order: u64,
    is_lossy: bool,
    memory: [Vec<u8>; 2],
    played: ReadsPlayed,
}

impl Path {
    fn new(plan: &ReadPlan) -> Path {
        let config = RdmaConfig { datagram_bytes: plan.datagram_bytes, ..RdmaConfig::default() };
        let bytes = plan.reads * plan.read_bytes;
        Path {
            random: Random(plan.seed),
            cookies: Cookies(plan.seed),
            sides: [RdmaEndpoint::new(config), RdmaEndpoint::new(config)],
            now: Nanos(1),
            free: [Nanos(0); 2],
            flying: Flying::new(),
            order: 0,
            is_lossy: false,
            memory: [vec![0; bytes as usize], (0..bytes).map(|at| content(7, at)).collect()],
            played: ReadsPlayed::default(),
            plan: plan.clone(),
        }
    }

    fn with<T>(&mut self, side: usize, f: impl FnOnce(&mut RdmaEndpoint, &mut RdmaContext<'_>) -> T) -> T {
        let random = &mut self.random;
        let mut context = RdmaContext {
            now: self.now,
            random: &mut || random.draw(),
            proof: &self.cookies,
            crc32c: crc32c_append,
        };
        f(&mut self.sides[side], &mut context)
    }

    /// Whether a side does nothing at present.
    fn is_stalled(&self, side: usize) -> bool {
        side == SERVER && self.plan.stall.contains(&self.now)
    }

    /// Send what the path takes at present. Returns whether anything was sent.
    fn send(&mut self, side: usize) -> bool {
        if self.free[side] > self.now || self.is_stalled(side) {
            return false;
        }
        let Some(transmit) = self.with(side, |endpoint, context| endpoint.poll_transmit(context)) else {
            return false;
        };
        self.fly(side, &transmit);
        true
    }

    fn fly(&mut self, side: usize, transmit: &RdmaTransmit) {
        let payload = transmit
            .payload
            .map_or(&[][..], |slice| &self.memory[side][slice.start as usize..][..slice.length as usize]);
        let datagram = transmit.assemble(payload);
        let is_answer = side == SERVER && self.is_lossy && !transmit.is_control;
        let is_withheld = is_answer && self.plan.withheld.contains(&self.played.segments[0]);
        self.played.segments[0] += u64::from(is_answer);
        let took = datagram.len() as u64 * 1_000_000_000 / self.plan.rate;
        self.free[side] = self.now.plus(Nanos(took.max(1)));
        if is_withheld || self.is_lossy && self.random.chance(self.plan.loss) {
            return;
        }
        self.order += 1;
        let at = self.free[side].plus(self.plan.delay);
        self.flying.insert((at, self.order), (address(side), 1 - side, datagram));
    }

    /// The next thing that happens, not before `least`; false if nothing does.
    fn step(&mut self) -> bool {
        while (self.send(CLIENT), self.send(SERVER)) != (false, false) {}
        let timers = [CLIENT, SERVER].into_iter().filter_map(|side| self.sides[side].poll_timeout());
        let flying = self.flying.keys().next().map(|(at, _)| *at);
        let free = self.free.into_iter().filter(|at| *at > self.now);
        let stalled = Some(self.plan.stall.end).filter(|_| self.is_stalled(SERVER));
        let Some(next) = timers.chain(flying).chain(free).chain(stalled).min() else { return false };
        self.now = self.now.max(next);
        let stall = self.plan.stall.clone();
        while let Some((&(at, order), &(from, to, _))) = self.flying.first_key_value()
            && at <= self.now
        {
            let Some((_, _, datagram)) = self.flying.remove(&(at, order)) else { break };
            if self.is_stalled(to) {
                // It waits in the socket.
                self.flying.insert((stall.end, order), (from, to, datagram));
                continue;
            }
            let place = self.with(to, |endpoint, context| endpoint.handle_datagram(from, &datagram, context));
            if let Some(place) = place {
                self.played.segments[1] += 1;
                let there = &mut self.memory[to][place.to.start as usize..][..place.to.length as usize];
                there.copy_from_slice(&datagram[place.from]);
            }
        }
        for side in [CLIENT, SERVER] {
            if !self.is_stalled(side) && self.sides[side].poll_timeout().is_some_and(|at| at <= self.now) {
                self.with(side, |endpoint, context| endpoint.handle_timeout(context));
            }
        }
        true
    }
}

/// Connects, and then plays the Reads of a plan to their end.
///
/// # Errors
/// What does not hold: a Read that is past its deadline or never ends, a byte that differs from what was reported.
pub fn read_all(plan: &ReadPlan) -> Result<ReadsPlayed, String> {
    let mut path = Path::new(plan);
    let name = |why: skyhaul_core::wire::rdma::RdmaRefusal| why.name().to_owned();
    let whole = MemorySlice { memory: 0, start: 0, length: plan.reads * plan.read_bytes };
    let stag = path.with(SERVER, |endpoint, context| endpoint.register(whole, RegionRights::READ, context));
    let stag = stag.map_err(name)?;
    let id = path
        .with(CLIENT, |endpoint, context| endpoint.connect(address(SERVER), &[], Nanos::SECOND, context))
        .map_err(name)?;
    let mut is_open = false;
    while !is_open {
        if !path.step() {
            return Err("never connected".to_owned());
        }
        while let Some(event) = path.sides[SERVER].poll_event() {
            if let RdmaEvent::Requested { connection, .. } = event {
                let accepted =
                    path.with(SERVER, |endpoint, context| endpoint.accept(connection, &[], context));
                accepted.map_err(name)?;
            }
        }
        while let Some(event) = path.sides[CLIENT].poll_event() {
            is_open |= matches!(event, RdmaEvent::Connected { .. });
        }
    }
    let began = path.now;
    path.is_lossy = true;
    path.plan.stall = began.plus(plan.stall.start)..began.plus(plan.stall.end);
    run(&mut path, id, stag)?;
    path.played.took = path.now.since(began);
    let refused = path.sides[SERVER].counts().refused;
    path.played.refused = refused.total();
    path.played.silences = path.sides[CLIENT].counts().silences;
    Ok(path.played)
}

fn run(path: &mut Path, id: u32, stag: u32) -> Result<(), String> {
    let (plan, mut next) = (path.plan.clone(), 0);
    let mut under_way: BTreeMap<u64, (u64, Nanos)> = BTreeMap::new();
    while next < plan.reads || !under_way.is_empty() {
        while next < plan.reads && under_way.len() < plan.at_a_time {
            let start = next * plan.read_bytes;
            let read = RemoteRead {
                sink: MemorySlice { memory: 0, start, length: plan.read_bytes },
                from: RemoteAddress { stag, offset: start },
                deadline: path.now.plus(plan.deadline),
                ask_again: Some(Nanos(plan.deadline.0 / 8)),
            };
            let number = path.with(CLIENT, |endpoint, context| endpoint.read(id, read, context));
            under_way.insert(number.map_err(|why| why.name().to_owned())?, (start, path.now));
            next += 1;
        }
        if !path.step() {
            return Err(format!("{} Reads never end", under_way.len()));
        }
        while path.sides[SERVER].poll_event().is_some() {}
        while let Some(event) = path.sides[CLIENT].poll_event() {
            let RdmaEvent::ReadDone { read, missing, asked, .. } = event else { continue };
            let (start, began) = under_way.remove(&read).ok_or("a Read ended twice")?;
            let is_there = |at: u64| path.memory[CLIENT][(start + at) as usize] == content(7, start + at);
            let mut told = (0..plan.read_bytes).filter(|at| !missing.iter().any(|range| range.contains(at)));
            if !told.all(is_there) {
                return Err(format!("Read {read} reports bytes that are not there"));
            }
            path.played.reads[usize::from(!missing.is_empty())] += 1;
            path.played.requests += u64::from(asked);
            let took = path.now.since(began);
            path.played.longest = path.played.longest.max(took);
            path.played.overdue = path.played.overdue.max(took.since(plan.deadline));
        }
    }
    Ok(())
}
