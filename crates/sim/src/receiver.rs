//! A world as it is played: packets and time go through the window, and what comes out goes through ledger and judge.

use crate::ledger::{Held, Ledger, Tally, hold};
use crate::memory::Memory;
use crate::network::{Arrival, Network, Origin};
use crate::random::Random;
use crate::world::{Judge, Log, Said, Side, World};
use skyhaul_core::assembly::{Cause, Slot, Window};
use skyhaul_core::placement::{Key, Nanos, Placement, Reject};
use skyhaul_core::wire::keyed::Control;
use std::collections::BTreeSet;

impl<S: Side> World<S> {
    /// These arrivals, to a receiver of so much memory that does nothing odd.
    pub(crate) fn plain(
        seed: u64,
        side: S,
        network: Network,
        arrivals: Vec<Arrival<S::Id>>,
        memory: u64,
    ) -> World<S> {
        World { seed, side, network, arrivals, memory, kept: 0, tick: Nanos(0), piece: 0, stops: 0 }
    }

    /// Play it to its end.
    pub fn run(&self, log: Log<'_>) -> Held<Tally> {
        let mut receiver = Receiver {
            world: self,
            window: self.side.window(),
            memory: Memory::random(&mut Random(self.seed ^ 0x5EED), self.memory, self.kept),
            ledger: Ledger::default(),
            judge: self.side.judge(),
            tally: Tally { worlds: 1, ..Tally::default() },
            stopped: BTreeSet::new(),
            now: Nanos(0),
        };
        log(&|| format!("{:#?}\n{:#?}", self.side, self.network));
        for arrival in &self.arrivals {
            receiver.pass(arrival.at, log)?;
            receiver.receive(arrival.origin, log)?;
            if receiver.is_stopped() {
                break;
            }
        }
        receiver.end(log)
    }
}

struct Receiver<'a, S: Side> {
    world: &'a World<S>,
    window: S::Window,
    memory: Memory,
    ledger: Ledger,
    judge: S::Judge<'a>,
    tally: Tally,
    /// Senders that said that they end.
    stopped: BTreeSet<u64>,
    now: Nanos,
}

impl<S: Side> Receiver<'_, S> {
    /// Let time pass until `until`, doing what falls due.
    fn pass(&mut self, until: Nanos, log: Log<'_>) -> Held {
        while let Some(due) = self.window.poll_timeout() {
            let tick = self.world.tick.0.max(1);
            let due = Nanos(due.max(self.now).0.div_ceil(tick) * tick);
            if due > until {
                break;
            }
            self.now = due;
            self.memory.pass(due);
            self.window.handle_timeout(due);
            log(&|| format!("{:>14} time", due.0));
            hold!(self.window.poll_timeout().is_none_or(|next| next > due), "what was due is due again");
            self.drain(log)?;
        }
        self.now = self.now.max(until);
        self.memory.pass(self.now);
        self.limits(Nanos(self.now.0.saturating_sub(self.world.tick.0)))
    }

    fn limits(&self, overdue: Nanos) -> Held {
        let held = self.window.held();
        hold!(self.memory.held() == held, "{} blocks are out, {held} held", self.memory.held());
        self.judge.limits(overdue, held)
    }

    fn receive(&mut self, origin: Origin<S::Id>, log: Log<'_>) -> Held {
        let World { side, network, .. } = self.world;
        let (like, sent) = (origin.like(), origin.sent());
        let packet = match origin {
            Origin::Sent(id) | Origin::Cut(id, _) => side.packet(id),
            Origin::Damaged(id, damage) => network.damage(side.packet(id), &mut Random(damage)),
            Origin::Hostile(id, seed) => side.forge(id, &mut Random(seed)),
        };
        self.tally.packets += 1;
        let read = side.read(like, &packet);
        if let Some(id) = sent {
            let place = |said: Said| {
                let Placement { key, offset, length, size, .. } = said.placement;
                Placement { key, offset, length, size, ..Placement::default() }
            };
            let (want, got) = (side.belongs(id), read.map(place));
            hold!(got == Ok(want), "{id:?} belongs to {want:?}, and is read as {got:?}");
        }
        let said = match read {
            Ok(said) => said,
            Err(why) => {
                log(&|| format!("{:>14} {origin:?} -> {}", self.now.0, why.name()));
                self.tally.rejects.add(why);
                return Ok(());
            }
        };
        let sender = side.sender(like);
        if said.control == Some(Control::Stop) {
            self.stopped.insert(sender);
            log(&|| format!("{:>14} sender {sender} stops", self.now.0));
            return Ok(());
        }
        let key = said.placement.key;
        let known = sent.map_or(key, |id| Key { number: side.number(id), ..key });
        if said.control == Some(Control::Start) {
            let begins = self.judge.begins(known, self.now);
            S::forget(&mut self.window, key, self.now);
            self.drain(log)?;
            if begins {
                self.judge.forget(key.source);
                self.tally.starts += 1;
            }
        }
        let start = said.placement.start as usize;
        let payload = &packet[start..start + said.placement.length as usize];
        let length = if let Origin::Cut(_, n) = origin { n % (payload.len() as u64 + 1) } else { u64::MAX };
        let payload = &payload[..payload.len().min(length as usize)];
        self.put(&said.placement, known, payload, sent, log)
    }

    /// Hand a payload in, in pieces if it must be. Its sender knows its object as `known`.
    fn put(
        &mut self,
        said: &Placement,
        known: Key,
        payload: &[u8],
        sent: Option<S::Id>,
        log: Log<'_>,
    ) -> Held {
        let piece = if self.world.piece == 0 { usize::MAX } else { self.world.piece as usize };
        let mut at = 0usize;
        loop {
            let bytes = &payload[at..payload.len().min(at.saturating_add(piece))];
            let offset = said.offset.saturating_add(at as u64);
            let part = Placement { offset, length: bytes.len() as u64, ..*said };
            let outcome = self.place(part, bytes);
            log(&|| format!("{:>14} {part:?} of {sent:?} -> {outcome:?}", self.now.0));
            let part = Placement { key: known, ..part };
            match outcome {
                Ok(()) => {
                    self.tally.accepted += u64::from(!bytes.is_empty());
                    self.judge.accept(&self.ledger, &part, sent, self.now)?;
                    self.ledger.accept(&part, bytes);
                }
                Err(why) => {
                    self.tally.rejects.add(why);
                    let short = self.memory.is_short;
                    hold!(why != Reject::NoBuffer || short, "{part:?} finds no memory, and there was some");
                    self.judge.refuse(&self.ledger, &part, why, sent, self.now)?;
                }
            }
            self.drain(log)?;
            self.limits(Nanos(0))?;
            at += bytes.len();
            if at >= payload.len() {
                return Ok(());
            }
        }
    }

    fn place(&mut self, part: Placement, bytes: &[u8]) -> Result<(), Reject> {
        let (memory, now) = (&mut self.memory, self.now);
        memory.is_short = false;
        let mut slot = self.window.reserve(part, now, |bytes, old| memory.take(bytes, old))?;
        let range = slot.range();
        slot.block()[range.start as usize..range.end as usize].copy_from_slice(bytes);
        slot.commit(now);
        Ok(())
    }

    fn drain(&mut self, log: Log<'_>) -> Held {
        while let Some(mut told) = self.window.poll_retired() {
            log(&|| {
                let (key, range, after, cause) = (told.key, &told.range, told.after, told.cause.name());
                let (epoch, missing) = (told.epoch, &told.missing);
                let now = self.now.0;
                format!(
                    "{now:>14} {key:?} {range:?} of epoch {epoch} after {after:?} is handed on for {cause}, without {missing:?}"
                )
            });
            *self.tally.causes.entry(told.cause.name()).or_default() += 1;
            told.key = self.judge.known_as(told.key);
            let payloads = self.ledger.retire(&told)?;
            self.judge.retire(&self.ledger, &told, &payloads, self.now)?;
            match told.cause {
                Cause::Stray => self.memory.give_back(&told.block),
                _ => self.memory.finished(told.block, self.now),
            }
        }
        Ok(())
    }

    /// Whether so many senders said so that the stream ends.
    fn is_stopped(&self) -> bool {
        self.world.stops > 0 && self.stopped.len() as u64 >= self.world.stops
    }

    /// Nothing comes any more: by a stop, or because nothing does.
    fn end(mut self, log: Log<'_>) -> Held<Tally> {
        self.tally.stopped += u64::from(self.is_stopped());
        if !self.is_stopped() {
            self.pass(self.now.plus(Nanos(30_000_000_000)), log)?;
            hold!(self.window.poll_timeout().is_none(), "something waits for ever");
        }
        self.window.finish(self.now);
        self.drain(log)?;
        hold!(self.window.poll_timeout().is_none(), "something is due after the end");
        self.ledger.finish()?;
        hold!(self.memory.is_whole(), "{} blocks did not come back", self.memory.held());
        let Receiver { world, judge, ledger, mut tally, memory, .. } = self;
        tally.strays = ledger.strays;
        tally.rewritten = memory.rewritten;
        *tally.kinds.entry(world.side.name()).or_default() += 1;
        judge.finish(world, &ledger, &mut tally)?;
        Ok(tally)
    }
}
