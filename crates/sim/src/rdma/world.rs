//! A world of two endpoints: what it is, and how it is played.

use super::plan::{
    BUFFERS, CLIENT, Cookies, Faults, GUARD, Operation, Played, Posted, SERVER, SOURCE, TARGET, UNTOUCHED,
    address, content, drawn, operations,
};
use crate::ledger::{Held, hold};
use crate::random::Random;
use core::net::{Ipv4Addr, SocketAddr};
use skyhaul_core::placement::Nanos;
use skyhaul_core::rdma::{
    ClosedBy, MemorySlice, RdmaConfig, RdmaContext, RdmaEndpoint, RdmaEvent, RdmaTransmit, RegionRights,
    RemoteAddress, RemoteRead, RemoteWrite,
};
use skyhaul_core::wire::crc32c::crc32c_append;
use skyhaul_core::wire::rdma::{RdmaDatagram, RdmaProfile};
use std::collections::{BTreeMap, BTreeSet};

/// Everything is over by then.
const END: Nanos = Nanos(30_000_000_000);

pub(super) struct World {
    pub(super) seed: u64,
    pub(super) faults: Faults,
    pub(super) config: RdmaConfig,
    random: Random,
    cookies: Cookies,
    sides: [RdmaEndpoint; 2],
    pub(super) memory: [[Vec<u8>; 3]; 2],
    now: Nanos,
    order: u64,
    flying: BTreeMap<(Nanos, u64), (SocketAddr, usize, Vec<u8>)>,
    sent: [u64; 2],
    pub(super) delivered: [u64; 2],
    /// Of the server: datagrams of segments that the client sent, and those that arrived while it had the connection.
    pub(super) segments_sent: u64,
    pub(super) segments_seen: BTreeSet<u32>,
    /// Bytes from and to addresses that are no peers.
    pub(super) strangers: BTreeMap<SocketAddr, (u64, u64)>,
    dead: [bool; 2],
    pub(super) posted: Vec<Posted>,
    pub(super) refused_posts: u64,
    pub(super) events: [Vec<(Nanos, RdmaEvent)>; 2],
    plan: Vec<(Nanos, Operation)>,
    close_at: Nanos,
    pub(super) connection: [Option<u32>; 2],
    pub(super) connect_deadline: Nanos,
    pub(super) close_deadline: Option<Nanos>,
    will_reject: bool,
    pub(super) stag: u32,
    read_only: u32,
    pub(super) buffers: Vec<MemorySlice>,
}

impl World {
    pub(super) fn random(seed: u64) -> World {
        let mut random = Random(seed);
        let (faults, config) = drawn(&mut random);
        let mut world = World {
            seed,
            faults,
            config,
            cookies: Cookies(seed.wrapping_mul(77)),
            sides: [RdmaEndpoint::new(config), RdmaEndpoint::new(config)],
            memory: Default::default(),
            now: Nanos(1),
            order: 0,
            flying: BTreeMap::new(),
            sent: [0; 2],
            delivered: [0; 2],
            segments_sent: 0,
            segments_seen: BTreeSet::new(),
            strangers: BTreeMap::new(),
            dead: [false; 2],
            posted: Vec::new(),
            refused_posts: 0,
            events: Default::default(),
            plan: Vec::new(),
            close_at: Nanos(0),
            connection: [None; 2],
            connect_deadline: Nanos(random.pick(&[1_000_000_000, 5_000_000_000])),
            close_deadline: None,
            will_reject: random.chance(0.03),
            stag: 0,
            read_only: 0,
            buffers: Vec::new(),
            random,
        };
        world.plan();
        world
    }

    fn plan(&mut self) {
        let (plan, [target, sink, at]) = operations(&mut self.random);
        self.plan = plan;
        self.plan.reverse();
        self.close_at = Nanos(at + self.random.pick(&[0, 100_000_000, 3_000_000_000]));
        let memory = |bytes: u64| vec![UNTOUCHED; (bytes + 2 * GUARD) as usize];
        self.memory = [
            [Vec::new(), memory(sink), Vec::new()],
            [(0..sink).map(|at| content(u64::MAX, at)).collect(), memory(target), memory(40 * 4096)],
        ];
    }

    /// Both endpoints in turn until nothing more can happen.
    pub(super) fn run(&mut self) -> Held {
        self.begin()?;
        loop {
            for side in [CLIENT, SERVER] {
                self.serve(side)?;
            }
            let timers = [CLIENT, SERVER].into_iter().filter(|side| !self.dead[*side]);
            let timers = timers.filter_map(|side| self.sides[side].poll_timeout());
            let flying = self.flying.keys().next().map(|(at, _)| *at);
            let is_open = self.is_open();
            let planned = self.plan.last().map_or(self.close_at, |(at, _)| *at);
            let planned = (is_open && self.close_deadline.is_none()).then_some(planned.max(self.now));
            let Some(next) = timers.chain(flying).chain(planned).min().filter(|at| *at <= END) else {
                return Ok(());
            };
            self.now = self.now.max(next);
            self.step()?;
        }
    }

    fn is_open(&self) -> bool {
        let is_connected = |(_, event): &(Nanos, RdmaEvent)| matches!(event, RdmaEvent::Connected { .. });
        self.connection[CLIENT].is_some()
            && self.events[CLIENT].iter().any(is_connected)
            && !self.dead[CLIENT]
    }

    fn begin(&mut self) -> Held {
        let target = self.memory[SERVER][TARGET as usize].len() as u64 - 2 * GUARD;
        let source = self.memory[SERVER][SOURCE as usize].len() as u64;
        let region = MemorySlice { memory: TARGET, start: GUARD, length: target };
        let read = MemorySlice { memory: SOURCE, start: 0, length: source };
        let (stag, read_only) = self.with(SERVER, |endpoint, context| {
            let stag = endpoint.register(region, RegionRights::WRITE, context);
            (stag, endpoint.register(read, RegionRights::READ, context))
        });
        (self.stag, self.read_only) =
            (stag.map_err(|why| why.name().to_owned())?, read_only.map_err(|why| why.name().to_owned())?);
        let deadline = self.connect_deadline;
        let connected = self
            .with(CLIENT, |endpoint, context| endpoint.connect(address(SERVER), b"hello", deadline, context));
        self.connection[CLIENT] = Some(connected.map_err(|why| why.name().to_owned())?);
        Ok(())
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

    /// Take the events of a side, and what it sends.
    fn serve(&mut self, side: usize) -> Held {
        loop {
            while let Some(event) = self.sides[side].poll_event() {
                self.react(side, &event)?;
                self.events[side].push((self.now, event));
            }
            if self.dead[side] {
                return Ok(());
            }
            let Some(transmit) = self.with(side, |endpoint, context| endpoint.poll_transmit(context)) else {
                return if self.sides[side].counts().datagrams == self.delivered[side] {
                    Ok(())
                } else {
                    Err("a datagram was not counted".to_owned())
                };
            };
            self.send(side, &transmit)?;
        }
    }

    fn react(&mut self, side: usize, event: &RdmaEvent) -> Held {
        match event {
            RdmaEvent::Requested { connection, private, .. } => {
                hold!(side == SERVER && private == b"hello", "a connection nobody asked for");
                let (id, will_reject) = (*connection, self.will_reject);
                self.connection[SERVER] = (!will_reject).then_some(id);
                let answered = self.with(side, |endpoint, context| match will_reject {
                    true => endpoint.reject(id),
                    false => endpoint.accept(id, b"welcome", context),
                });
                hold!(answered.is_ok(), "{answered:?}");
                for n in 0..40 {
                    let buffer = MemorySlice { memory: BUFFERS, start: GUARD + n * 4096, length: 4096 };
                    if !will_reject && self.sides[side].post_receive(id, buffer).is_ok() {
                        self.buffers.push(buffer);
                    }
                }
            }
            RdmaEvent::Closed { connection, .. } if self.connection[side] == Some(*connection) => {
                self.connection[side] = None;
            }
            _ => {}
        }
        Ok(())
    }

    /// Hand a datagram to the network.
    fn send(&mut self, side: usize, transmit: &RdmaTransmit) -> Held {
        let bytes = transmit.payload.map_or(Vec::new(), |slice| match side {
            // The client's Writes and Sends are made as they are sent: their memory is their number and range.
            CLIENT => {
                let range = slice.start..slice.start + slice.length;
                range.map(|at| content(u64::from(slice.memory), at)).collect()
            }
            _ => {
                let memory = &self.memory[side][slice.memory as usize];
                memory[slice.start as usize..][..slice.length as usize].to_vec()
            }
        });
        let datagram = transmit.assemble(&bytes);
        hold!(datagram.len() <= usize::from(self.config.datagram_bytes), "a datagram of {}", datagram.len());
        self.sent[side] += 1;
        if self.faults.kill == Some((side, self.sent[side])) {
            self.dead[side] = true;
        }
        let Some(to) = [CLIENT, SERVER].into_iter().find(|to| address(*to) == transmit.to) else {
            self.strangers.entry(transmit.to).or_default().1 += datagram.len() as u64;
            return Ok(());
        };
        if side == CLIENT
            && let Ok(RdmaDatagram::Segment(_)) = RdmaDatagram::read(RdmaProfile::Uc, &datagram)
        {
            self.segments_sent += 1;
        }
        let copies = if self.random.chance(self.faults.duplicate) { 2 } else { 1 };
        for _ in 0..copies {
            if self.random.chance(self.faults.loss) {
                continue;
            }
            let mut datagram = datagram.clone();
            if self.random.chance(self.faults.corrupt) {
                let at = self.random.below(datagram.len() as u64) as usize;
                datagram[at] ^= 1 << self.random.below(8);
            }
            let at = self.now.plus(Nanos(50_000 + self.random.below(self.faults.jitter + 1)));
            self.fly(at, address(side), to, datagram);
        }
        if self.random.chance(self.faults.hostile) {
            self.forge(&datagram);
        }
        Ok(())
    }

    fn fly(&mut self, at: Nanos, from: SocketAddr, to: usize, datagram: Vec<u8>) {
        self.order += 1;
        self.flying.insert((at, self.order), (from, to, datagram));
    }

    /// What someone who sees nothing of the traffic, or only its form, may send.
    fn forge(&mut self, like: &[u8]) {
        let random = &mut self.random;
        let mut forged = like.to_vec();
        let host = Ipv4Addr::new(10, 9, random.below(256) as u8, random.below(256) as u8);
        let stranger = SocketAddr::from((host, 1 + random.below(60_000) as u16));
        let from = match random.below(3) {
            // From a peer's address, without its connection's number.
            0 => {
                let guess = (random.draw() as u32).to_be_bytes();
                forged[2..6].copy_from_slice(&guess);
                address(random.below(2) as usize)
            }
            1 => stranger,
            _ => {
                let length = random.below(forged.len() as u64 + 1) as usize;
                forged = (0..length).map(|_| random.draw() as u8).collect();
                stranger
            }
        };
        let to = random.below(2) as usize;
        self.strangers.entry(from).or_default().0 += forged.len() as u64;
        let at = self.now.plus(Nanos(random.below(1_000_000)));
        self.fly(at, from, to, forged);
    }

    fn step(&mut self) -> Held {
        while let Some((&(at, order), _)) = self.flying.first_key_value()
            && at <= self.now
        {
            if let Some((from, to, datagram)) = self.flying.remove(&(at, order)) {
                self.deliver(from, to, &datagram)?;
                self.serve(to)?;
            }
        }
        for side in [CLIENT, SERVER] {
            if !self.dead[side] && self.sides[side].poll_timeout().is_some_and(|at| at <= self.now) {
                self.with(side, |endpoint, context| endpoint.handle_timeout(context));
                let again = self.sides[side].poll_timeout();
                hold!(
                    again.is_none_or(|at| at > self.now),
                    "due again at {again:?}, and it is {:?}",
                    self.now
                );
            }
        }
        if self.is_open() && self.close_deadline.is_none() {
            while self.plan.last().is_some_and(|(at, _)| *at <= self.now) {
                if let Some((_, operation)) = self.plan.pop() {
                    self.post(operation);
                }
            }
            if self.plan.is_empty() && self.close_at <= self.now {
                let (deadline, id) = (self.now.plus(Nanos(1_000_000_000)), self.connection[CLIENT]);
                self.close_deadline = Some(deadline);
                let closed = id.map(|id| self.sides[CLIENT].close(id, deadline));
                hold!(closed.is_none_or(|closed| closed.is_ok()), "close: {closed:?}");
            }
        }
        Ok(())
    }

    fn deliver(&mut self, from: SocketAddr, to: usize, datagram: &[u8]) -> Held {
        if self.dead[to] {
            return Ok(());
        }
        self.delivered[to] += 1;
        if to == SERVER
            && from == address(CLIENT)
            && let Ok(RdmaDatagram::Segment(segment)) = RdmaDatagram::read(RdmaProfile::Uc, datagram)
            && let Some(shim) = segment.shim.filter(|shim| Some(shim.conn_id) == self.connection[SERVER])
            // A flipped bit may say that there is no CRC.
            && (shim.crc == 1) == self.config.asks_for_crc()
        {
            self.segments_seen.insert(shim.psn);
        }
        let place = self.with(to, |endpoint, context| endpoint.handle_datagram(from, datagram, context));
        let Some(place) = place else { return Ok(()) };
        hold!(place.from.len() as u64 == place.to.length, "{place:?} is of two lengths");
        let memory = &mut self.memory[to][place.to.memory as usize];
        let (start, end) = (place.to.start, place.to.start + place.to.length);
        hold!(start >= GUARD && end + GUARD <= memory.len() as u64, "{place:?} is outside every region");
        let there = &mut memory[start as usize..end as usize];
        hold!(there.iter().all(|byte| *byte == UNTOUCHED), "{place:?} is written twice");
        there.copy_from_slice(&datagram[place.from]);
        Ok(())
    }

    fn post(&mut self, operation: Operation) {
        let Some(id) = self.connection[CLIENT] else { return };
        // The memory of a message is a number of its own, from which its bytes follow.
        let content = 100 + self.posted.len() as u64;
        let source = |length| MemorySlice { memory: content as u32, start: 0, length };
        let (stag, read_only) = (self.stag, self.read_only);
        let wrong = self.random.below(4);
        let operation = match operation {
            // The connection may have come late.
            Operation::Read { area, deadline } => {
                Operation::Read { area, deadline: deadline.max(self.now.plus(Nanos(1_000_000))) }
            }
            other => other,
        };
        let done = match operation {
            Operation::Write { area, immediate, is_allowed } => {
                let (stag, offset) = match (is_allowed, wrong) {
                    (true, _) => (stag, area.0),
                    (_, 0) => (read_only, 0),
                    (_, 1) => (stag ^ 1, area.0),
                    (_, 2) => (stag, u64::MAX - 3),
                    _ => (stag, 1 << 40),
                };
                let to = RemoteAddress { stag, offset };
                let source = source(area.1 - area.0);
                let write = RemoteWrite { source, to, immediate, is_solicited: immediate.is_some() };
                self.sides[CLIENT].write(id, write)
            }
            Operation::Send { length } => self.sides[CLIENT].send(id, source(length), None, false),
            Operation::Read { area, deadline } => {
                let sink = MemorySlice { memory: TARGET, start: GUARD + area.0, length: area.1 - area.0 };
                let from = RemoteAddress { stag: read_only, offset: area.0 };
                let again = [None, Some(Nanos(2_000_000)), Some(Nanos(50_000_000))];
                let ask_again = self.random.pick(&again);
                let read = RemoteRead { sink, from, deadline, ask_again };
                self.with(CLIENT, |endpoint, context| endpoint.read(id, read, context))
            }
        };
        match done {
            Ok(number) => {
                let read = matches!(operation, Operation::Read { .. }).then_some(number);
                self.posted.push(Posted { operation, content, read });
            }
            Err(_) => self.refused_posts += 1,
        }
    }

    pub(super) fn is_dead(&self, side: usize) -> bool {
        self.dead[side]
    }

    pub(super) fn endpoint(&self, side: usize) -> &RdmaEndpoint {
        &self.sides[side]
    }

    pub(super) fn closed(&self, side: usize) -> Option<(Nanos, ClosedBy, u64)> {
        self.events[side].iter().find_map(|(at, event)| match event {
            RdmaEvent::Closed { by, datagrams_lost, .. } => Some((*at, *by, *datagrams_lost)),
            _ => None,
        })
    }

    pub(super) fn played(&self) -> Played {
        let mut played = Played { operations: self.posted.len() as u64, ..Played::default() };
        for side in [CLIENT, SERVER] {
            let counts = self.sides[side].counts();
            played.datagrams += counts.datagrams;
            let messages = [counts.complete, counts.incomplete, counts.lost];
            played.messages.iter_mut().zip(messages).for_each(|(a, b)| *a += b);
            for (why, count) in counts.refused.iter() {
                *played.refused.entry(why.name()).or_default() += count;
            }
            if let Some((_, by, _)) = self.closed(side) {
                *played.closed.entry(by.name()).or_default() += 1;
            }
            for (_, event) in &self.events[side] {
                if let RdmaEvent::ReadDone { missing, .. } = event {
                    played.reads[usize::from(!missing.is_empty())] += 1;
                }
            }
        }
        played
    }
}
