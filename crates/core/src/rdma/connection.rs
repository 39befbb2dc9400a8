//! One connection: its state, its timers, and what it has in flight in each direction.
//!
//! ```text
//!   client   Asking ── cookie ──▶ Asking ── accept ──▶ Open ── close ──▶ Closing ── confirmed, or its deadline ──▶ over
//!   server            Offered ── accept ──▶ Accepted ── ready, or a segment ──▶ Open ── peer closes ──▶ Draining ─▶ over
//!
//!   Draining: datagrams on their way are waited for (UC); answers that are due are handed out (TCP)
//! ```

use super::config::RdmaConfig;
use super::event::{ClosedBy, MemorySlice, RdmaEvent};
use super::inbound::{Inbound, Shared};
use super::outbound::{Outbound, Outgoing, Path};
use super::reads::{MAX_ASKED, PROBE_BYTES, PendingRead, ReadAsked};
use super::regions::Regions;
use super::timing::AnswerTiming;
use crate::measure::SequenceMeter;
use crate::placement::Nanos;
use crate::wire::rdma::rdmap::ReadRequest;
use crate::wire::rdma::shim::{OPTION_CRC, UcControl, UcKind};
use crate::wire::rdma::{RdmaProfile, RdmaRefusal};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ops::Range;

/// STags of one Read that answers may still use: those of one round, and of a probe before it.
const MAX_SINKS: usize = 2 * MAX_ASKED;
/// So many questions without an answer, and a peer is given up.
const QUESTIONS: u32 = 3;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    Asking,
    Offered,
    Accepted,
    Open,
    Closing,
    Draining,
}

#[derive(Debug)]
pub(super) struct Connection {
    pub(super) id: u32,
    pub(super) path: Path,
    pub(super) nonce: u64,
    pub(super) cookie: [u8; 16],
    pub(super) private: Vec<u8>,
    pub(super) state: State,
    pub(super) peer_reads: u16,
    pub(super) inbound: Inbound,
    pub(super) outbound: Outbound,
    pub(super) receives: VecDeque<MemorySlice>,
    /// A buffer was posted once.
    pub(super) takes_sends: bool,
    pub(super) reads: BTreeMap<u64, PendingRead>,
    /// Requests of Reads that were made, and the newest of them whose answer has come to its end.
    requested: u64,
    answered: u64,
    /// Requests up to this one were made before the last silence.
    given_up: u64,
    /// The newest request that was made when no answer was due: the time to its answer is a round trip.
    lone: u64,
    pub(super) timing: AnswerTiming,
    pub(super) meter: SequenceMeter,
    /// When the present request is repeated, and the time after that.
    pub(super) repeat: Option<(Nanos, Nanos)>,
    /// When the present state ends by itself.
    pub(super) deadline: Option<Nanos>,
    heard: Nanos,
    /// When the peer was last sent something.
    said: Nanos,
    /// When the peer was last asked whether it is there, and how often since it was heard.
    asked: Nanos,
    questions: u32,
    /// Silence before the first question, if the peer is asked at all.
    keep_alive: Option<Nanos>,
    /// Datagram and message that the peer would have sent next.
    pub(super) peer_next: Option<(u32, u32)>,
    /// Its request or reply has the depths of Reads (TCP).
    pub(super) is_enhanced: bool,
    /// Its stream takes nothing at present (TCP).
    pub(super) is_held: bool,
    /// It has asked for a Read.
    pub(super) has_answered: bool,
    /// STags of Reads that have ended and whose answers are still to come (TCP).
    pub(super) late: BTreeSet<u32>,
}

/// What a timer asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Due {
    Say(UcKind),
    Ask(u64),
    Probe,
    EndRead(u64),
    End(ClosedBy),
}

impl Connection {
    pub(super) fn new(path: Path, nonce: u64, state: State, config: &RdmaConfig, now: Nanos) -> Connection {
        Connection {
            id: path.connection,
            path,
            nonce,
            cookie: [0; 16],
            private: Vec::new(),
            state,
            peer_reads: config.inbound_reads,
            inbound: Inbound::new(config),
            outbound: Outbound::default(),
            receives: VecDeque::new(),
            takes_sends: false,
            reads: BTreeMap::new(),
            requested: 0,
            answered: 0,
            given_up: 0,
            lone: 0,
            timing: AnswerTiming::default(),
            meter: SequenceMeter::exact(config.datagrams, Some(1)),
            repeat: None,
            deadline: None,
            heard: now,
            said: now,
            asked: now,
            questions: 0,
            keep_alive: config.keep_alive.map(|after| match state {
                // The peer has connected, and asks before it would be asked: its question is enough.
                State::Offered => after.plus(config.question),
                _ => after,
            }),
            peer_next: None,
            is_enhanced: false,
            is_held: false,
            has_answered: false,
            late: BTreeSet::new(),
        }
    }

    /// The window, with what it needs beside it.
    pub(super) fn parts<'a>(
        &'a mut self,
        regions: &'a mut Regions,
        events: &'a mut VecDeque<RdmaEvent>,
        ended: &'a mut [u64; 3],
        config: &'a RdmaConfig,
        now: Nanos,
    ) -> (&'a mut Inbound, Shared<'a>) {
        let shared = Shared {
            connection: self.id,
            regions,
            receives: &mut self.receives,
            reads: &mut self.reads,
            events,
            ended,
            config,
            answers: (self.outbound.answers, self.outbound.answer_bytes),
            now,
        };
        (&mut self.inbound, shared)
    }

    /// A control body of this kind, to its peer.
    pub(super) fn control(&self, kind: UcKind, config: &RdmaConfig) -> UcControl {
        let body = UcControl {
            kind: kind.code(),
            nonce: self.nonce,
            conn_id: self.id,
            datagram_bytes: config.datagram_bytes,
            ird: config.inbound_reads,
            options: if self.path.has_crc || config.asks_for_crc() { OPTION_CRC } else { 0 },
            next_psn: self.outbound.psn,
            next_msn: self.outbound.msn,
            ..UcControl::default()
        };
        if kind == UcKind::Request { body.with_cookie(self.cookie) } else { body }
    }

    /// The peer's limits, from its accept or request.
    pub(super) fn learn(&mut self, control: &UcControl) {
        self.path.conn_id = control.conn_id;
        self.path.datagram_bytes = self.path.datagram_bytes.min(control.datagram_bytes.max(128));
        self.path.has_crc |= control.options & OPTION_CRC == OPTION_CRC;
        self.peer_reads = control.ird;
    }

    /// The cookie of its peer. The first answers one request, and at once: how long that took is the round trip of the path.
    pub(super) fn note_challenge(&mut self, cookie: [u8; 16], retry: Nanos, now: Nanos) {
        let took = now.since(self.asked);
        if self.cookie == [0; 16] && took < retry {
            self.timing.learn(took);
        }
        self.cookie = cookie;
    }

    pub(super) fn open(&mut self) {
        (self.state, self.deadline, self.repeat) = (State::Open, None, None);
    }

    pub(super) fn is_receiving(&self) -> bool {
        !matches!(self.state, State::Asking | State::Offered)
    }

    /// Whether segments may be handed out: a close that was said states the number of the last.
    pub(super) fn is_sending(&self) -> bool {
        let may_send = match self.state {
            State::Open => true,
            State::Closing => self.repeat.is_none(),
            State::Draining => self.path.profile == RdmaProfile::Tcp,
            _ => false,
        };
        may_send && !self.is_held
    }

    /// Whether the peer waits for answers that were not handed out, or whose stream does not take them (TCP).
    pub(super) fn owes_answers(&self) -> bool {
        self.state == State::Open && (self.outbound.answers > 0 || self.is_held && self.has_answered)
    }

    /// The peer sends no more, and waits for its answers (TCP): own Reads have none.
    pub(super) fn drain(&mut self, regions: &mut Regions, events: &mut VecDeque<RdmaEvent>) {
        self.state = State::Draining;
        let reads: Vec<u64> = self.reads.keys().copied().collect();
        reads.into_iter().for_each(|read| self.end_read(read, regions, events));
    }

    /// Reads whose answers may still come.
    pub(super) fn reads_under_way(&self) -> usize {
        self.reads.len() + self.late.len()
    }

    /// Ask for what is missing of a Read, with new STags.
    pub(super) fn ask(
        &mut self,
        read: u64,
        regions: &mut Regions,
        random: &mut dyn FnMut() -> u64,
        now: Nanos,
    ) -> Result<(), RdmaRefusal> {
        let (free, share) = (self.free_reads(), usize::from(self.peer_reads) / self.reads.len().max(1));
        let Some(pending) = self.reads.get_mut(&read) else { return Ok(()) };
        let after = pending.wanted.ask_again.map(|after| Nanos(after.0.max(1)));
        if pending.asked > 0 && now < pending.regular {
            if free == 0 {
                // Another answer is due: its end, or silence, comes back to this Read.
                pending.again = Some(pending.regular);
                return Ok(());
            }
            pending.note_early();
        }
        (pending.again, pending.regular) = (None, now);
        if self.state != State::Open {
            return Ok(());
        }
        if let Some(after) = after {
            pending.regular = now.plus(after);
            pending.again = Some(pending.regular);
        }
        // Half of what is free stays so for other Reads, unless that is less than a part for each.
        let most = (free / 2).max(share).min(free);
        let ranges = pending.to_ask(most.min(MAX_ASKED));
        self.request(read, &ranges, regions, random, now)
    }

    /// Requests that the peer serves now: it refuses more than it said that it serves at a time.
    fn free_reads(&self) -> usize {
        let over = self.answered.max(self.given_up);
        usize::from(self.peer_reads).saturating_sub((self.requested - over) as usize)
    }

    /// Answers are due, and nothing comes: ask for the first bytes that are missing. The end of their answer shows what else is.
    pub(super) fn probe(
        &mut self,
        regions: &mut Regions,
        random: &mut dyn FnMut() -> u64,
        now: Nanos,
    ) -> Result<(), RdmaRefusal> {
        self.given_up = self.requested;
        let (answered, mut bytes) = (self.answered, PROBE_BYTES);
        let waiting: Vec<u64> = self.probing(answered).map(|(id, _)| *id).collect();
        for read in waiting {
            let free = self.free_reads().min(MAX_ASKED);
            let Some(pending) = self.reads.get_mut(&read) else { continue };
            let ranges = pending.first_missing(free, bytes);
            if ranges.is_empty() {
                break;
            }
            pending.note_early();
            bytes -= ranges.iter().map(|range| range.end - range.start).sum::<u64>();
            self.request(read, &ranges, regions, random, now)?;
        }
        Ok(())
    }

    fn probing(&self, answered: u64) -> impl Iterator<Item = (&u64, &PendingRead)> {
        self.reads.iter().filter(move |(_, read)| read.may_probe(answered))
    }

    /// Make a request for each of these ranges of a Read.
    fn request(
        &mut self,
        read: u64,
        ranges: &[Range<u64>],
        regions: &mut Regions,
        random: &mut dyn FnMut() -> u64,
        now: Nanos,
    ) -> Result<(), RdmaRefusal> {
        let Some(pending) = self.reads.get_mut(&read) else { return Ok(()) };
        let wanted = pending.wanted;
        for range in ranges {
            let size = range.end - range.start;
            let sink_stag =
                regions.sink(wanted.sink.part(range.start, size), (self.id, read, range.start), random)?;
            let is_first_due = self.requested == self.answered;
            self.requested += 1;
            if is_first_due && self.outbound.len() == 0 {
                self.lone = self.requested;
            }
            self.timing.asked(is_first_due, now);
            pending.requests.push_back(ReadAsked { stag: sink_stag, number: self.requested, at: now });
            if pending.requests.len() > MAX_SINKS
                && let Some(oldest) = pending.requests.pop_front()
            {
                regions.invalidate(oldest.stag)?;
            }
            let is_repeated = pending.asked > 0;
            pending.asked += 1;
            let request = ReadRequest {
                sink_stag,
                sink_offset: 0,
                size: size as u32,
                source_stag: wanted.from.stag,
                source_offset: wanted.from.offset.wrapping_add(range.start),
            };
            self.outbound.push(Outgoing::read(request, is_repeated));
        }
        Ok(())
    }

    fn asked_by(&self, stag: u32, regions: &Regions) -> Option<ReadAsked> {
        let place = regions.answer(stag, self.id, (0, 0)).ok()?;
        self.reads.get(&place.read)?.requests.iter().rev().find(|asked| asked.stag == stag).copied()
    }

    /// A segment of the answer to this STag has arrived, whatever becomes of it.
    pub(super) fn hear_answer(&mut self, stag: u32, regions: &Regions, now: Nanos) {
        let is_lesson = self.lone > self.answered || self.timing.is_silent();
        let asked = if is_lesson { self.asked_by(stag, regions) } else { None };
        if let Some(asked) = asked.filter(|asked| asked.number == self.lone) {
            self.timing.learn(now.since(asked.at));
            self.lone = 0;
        }
        self.timing.arrived(asked.is_some_and(|asked| asked.number <= self.given_up), now);
    }

    /// The last segment of the answer to this STag has arrived. A peer answers in the order of the requests (RFC 5040, 5.5), so what is missing of this
    /// answer and of those before it is late or lost.
    pub(super) fn end_answer(&mut self, stag: u32, regions: &Regions, now: Nanos) {
        let Some(ReadAsked { number, at, .. }) = self.asked_by(stag, regions) else { return };
        if number > self.answered {
            self.answered = number;
            let soon = now.plus(self.timing.reorder(now.since(at)));
            self.reads.values_mut().for_each(|read| read.answers_over(number, soon));
        }
    }

    /// A Read ends: its STags are unknown from now on, so no late answer writes a byte.
    pub(super) fn end_read(&mut self, read: u64, regions: &mut Regions, events: &mut VecDeque<RdmaEvent>) {
        let Some(pending) = self.reads.remove(&read) else { return };
        for asked in &pending.requests {
            let known = regions.invalidate(asked.stag);
            debug_assert!(known.is_ok(), "the STag of a Read is gone before the Read");
        }
        // In a stream the answer comes all the same, and is no fault of the peer.
        if self.path.profile == RdmaProfile::Tcp && !pending.is_complete() {
            self.late.extend(pending.requests.iter().map(|asked| asked.stag));
        }
        let (connection, missing, asked) = (self.id, pending.missing(), pending.asked);
        events.push_back(RdmaEvent::ReadDone { connection, read, missing, asked });
    }

    /// When something must be done.
    pub(super) fn poll_timeout(&self, config: &RdmaConfig) -> Option<Nanos> {
        let reads = self.reads.values().map(PendingRead::due).chain(self.silence()).min();
        let repeat = self.repeat.map(|(at, _)| at);
        [reads, repeat, self.deadline, self.inbound.poll_timeout(), self.keep_alive(config)]
            .into_iter()
            .flatten()
            .min()
    }

    /// The peer was heard.
    pub(super) fn hear(&mut self, now: Nanos) {
        (self.heard, self.questions) = (now, 0);
    }

    /// The peer is sent something.
    pub(super) fn say(&mut self, now: Nanos) {
        self.said = now;
    }

    /// Whether the peer, which is at work, has been sent nothing for so long that it is about to ask whether this end is there.
    pub(super) fn owes_sign(&self, now: Nanos) -> bool {
        self.state == State::Open
            && self.keep_alive.is_some_and(|after| now.since(self.said).0 >= after.0 / 2)
    }

    /// When to ask whether the peer is there, or to give it up.
    fn keep_alive(&self, config: &RdmaConfig) -> Option<Nanos> {
        let after = self.keep_alive.filter(|_| matches!(self.state, State::Open | State::Accepted))?;
        Some(if self.questions == 0 { self.heard.plus(after) } else { self.asked.plus(config.question) })
    }

    /// When answers that are due are taken to be lost.
    fn silence(&self) -> Option<Nanos> {
        // Requests that were not handed out have no answers.
        let is_due = self.state == State::Open
            && self.outbound.len() == 0
            && self.probing(self.answered).next().is_some();
        self.timing.due().filter(|_| is_due)
    }

    /// What is due now; each call brings its timer forward, so that nothing is due twice.
    pub(super) fn due(&mut self, config: &RdmaConfig, now: Nanos) -> Vec<Due> {
        let mut due = Vec::new();
        if self.silence().is_some_and(|at| at <= now) {
            self.timing.silent(now);
            due.push(Due::Probe);
        }
        let (answered, is_known) = (self.answered, self.timing.due().is_some());
        for (id, read) in &mut self.reads {
            if read.wanted.deadline <= now {
                due.push(Due::EndRead(*id));
            } else if read.again.is_some_and(|at| at <= now) && !(is_known && read.postpone(answered, now)) {
                due.push(Due::Ask(*id));
            }
        }
        if self.deadline.is_some_and(|at| at <= now) {
            let by = match self.state {
                State::Draining => ClosedBy::Peer,
                State::Closing if config.profile == RdmaProfile::Bare => ClosedBy::Here,
                _ => ClosedBy::Silence,
            };
            due.push(Due::End(by));
            return due;
        }
        if let Some((at, wait)) = self.repeat.filter(|(at, _)| *at <= now) {
            let kind = match self.state {
                State::Closing => UcKind::Close,
                State::Accepted => UcKind::Accept,
                _ => UcKind::Request,
            };
            due.push(Due::Say(kind));
            // A close is repeated at a steady pace, so that the peer knows how long to wait for another one.
            let next = if kind == UcKind::Close { wait } else { Nanos(wait.0.saturating_mul(2)) };
            self.repeat = Some((at.max(now).plus(wait), next));
        }
        // Not by the time that has passed: this end may have been stopped, or busy, and nobody was asked meanwhile.
        if self.keep_alive(config).is_some_and(|at| at <= now) {
            if self.questions >= QUESTIONS {
                due.push(Due::End(ClosedBy::Silence));
            } else {
                (self.asked, self.questions) = (now, self.questions + 1);
                due.push(Due::Say(UcKind::Ping));
            }
        }
        due
    }
}
