//! The responder: several requesters concurrently, each with a test of its own.
//!
//! Questions wait until all that has come is received, and are answered in turns ([`TURN`]): a source that asks faster than it can be
//! answered does not keep others waiting. Packets of tests are counted as they come.
//!
//! No answer is a valid request, so two responders, or one and itself, cannot be made to answer each other. Structures in raw bytes
//! may look like a request, so only [`QUESTIONS`] of each test are answered.

use super::test::{KernelCounters, ResponderTest, load};
use crate::probe::answering::{DatagramHandler, DatagramService, MAX_TAKEN};
use crate::probe::answering::{SourceBuckets, TokenBucket, source};
use crate::probe::udp::sender::unix_now;
use serde::{Deserialize, Serialize};
use skyhaul_core::placement::Nanos;
use skyhaul_core::question_turns::{QuestionTurns, TurnLimits};
use skyhaul_core::wire::udpmon::structs::{CPU, HISTOGRAM, NIC};
use skyhaul_core::wire::udpmon::{Command, LEN, Message, PIECE, VERSION, structs};
use skyhaul_io::udp::both::Both;
use skyhaul_io::udp::noted::Arrival;
use std::collections::HashMap;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

/// A responder on a port. It ends when it is dropped.
#[derive(Debug)]
pub struct Responder(DatagramService<ResponderStats>);

impl Responder {
    /// Respond to what comes to `at`; `[::]` hears IPv4, too.
    ///
    /// # Errors
    /// The port is taken, or the system has no thread left.
    pub fn start(at: SocketAddr, options: ResponderOptions) -> io::Result<Self> {
        DatagramService::start("udpmon", at, Responding::new(options)).map(Self)
    }

    /// Its address.
    #[must_use]
    pub fn local(&self) -> SocketAddr {
        self.0.local()
    }

    /// What it did so far.
    #[must_use]
    pub fn stats(&self) -> ResponderStats {
        self.0.stats()
    }

    /// Why it ended by itself, if it did.
    #[must_use]
    pub fn error(&self) -> Option<String> {
        self.0.error()
    }
}

struct Responding {
    desk: Requesters,
    turns: QuestionTurns<IpAddr, Held>,
    answer: Vec<u8>,
}

/// A datagram that waits for its turn.
struct Held {
    from: SocketAddr,
    bytes: Vec<u8>,
    /// When it came, ns.
    time: u64,
}

impl Responding {
    fn new(options: ResponderOptions) -> Self {
        let answer = Vec::with_capacity(1 << 16);
        Self { desk: Requesters::new(options), turns: QuestionTurns::new(TURN), answer }
    }

    fn respond(&mut self, socket: &Both, from: SocketAddr, bytes: &[u8], time: u64) {
        self.answer.clear();
        self.desk.handle(from, bytes, time, &mut self.answer);
        if self.answer.is_empty() {
            return;
        }
        match socket.send_to(&self.answer, from) {
            Ok(_) => self.desk.stats.answers += 1,
            Err(_) => self.desk.stats.refused += 1,
        }
    }
}

impl DatagramHandler for Responding {
    type Stats = ResponderStats;

    fn datagram(&mut self, socket: &Both, arrival: &Arrival<'_>) {
        let (from, bytes) = (arrival.from, arrival.bytes);
        let (time, of) = (arrival.time.map_or_else(unix_now, |time| time.0), source(from.ip()));
        let held = || Held { from, bytes: bytes.to_vec(), time };
        match Message::read(bytes).map(|message| message.command()) {
            Ok(Some(Command::Data)) if self.turns.follows(of, bytes.len()) => {
                self.turns.follow(of, bytes.len(), held());
            }
            Err(_) | Ok(None | Some(Command::Data)) => self.respond(socket, from, bytes, time),
            Ok(Some(_)) => self.turns.ask(of, bytes.len(), held()),
        }
    }

    fn turn(&mut self, socket: &Both) -> bool {
        self.turns.begin();
        while let Some(Held { from, bytes, time }) = self.turns.next() {
            self.respond(socket, from, &bytes, time);
        }
        !self.turns.is_empty()
    }

    fn stats(&mut self, from_services: u64) -> ResponderStats {
        ResponderStats { from_services, beyond_turn: self.turns.dropped(), ..self.desk.stats }
    }
}

/// A test of which nothing was heard for so long is over, ns; udpmon's own holds it as long.
const SILENCE: u64 = 60_000_000_000;
/// One that has not gone beyond its first message makes room for another after this, ns.
const IDLE: u64 = 3_000_000_000;
/// Octets from a requester that are kept for answers, at most.
const CREDIT: u64 = 1 << 24;
/// Records of all tests together: 32 MiB.
const RECORDS: usize = 1 << 20;
/// Answers in raw bytes to the requests of one test: three times what all its records take.
const QUESTIONS: u32 = 1 << 16;
/// Default of answers to one source per second, and of a burst.
const PER_SOURCE: u64 = 100_000;
/// Questions that are answered before others are received: few, or a flood fills the socket meanwhile. And what waits: up to 16 MiB, more
/// than comes in a turn, so that what one source leaves behind keeps no other one out.
const TURN: TurnLimits = TurnLimits { answers: 32, fair: 256, waiting: 2 * MAX_TAKEN, bytes: 16 << 20 };
/// How often the kernel's statistics are read per second, and in a burst: reading them is slow, and anyone may ask.
const READS: (u64, u64) = (20, 32);

/// What a responder allows.
#[derive(Clone, Copy, Debug)]
pub struct ResponderOptions {
    /// Concurrent tests; the responder is in use for further requesters.
    pub tests: usize,
    /// Tests of one address.
    pub per_peer: usize,
    /// Longest test; what comes after it is not counted.
    pub longest: Duration,
    /// Octets of answers beyond what came from a requester, to all of them together; in 64 s as many are allowed again.
    pub beyond: u64,
    /// Answers to one source (an IPv4 address, a /64 of IPv6) per second, and of a burst; 0: unlimited. Packets of tests
    /// are not answered, and not bounded.
    pub per_source: u64,
}

impl Default for ResponderOptions {
    fn default() -> Self {
        let longest = Duration::from_secs(24 * 3600);
        Self { tests: 8, per_peer: 8, longest, beyond: 1 << 20, per_source: PER_SOURCE }
    }
}

/// What a responder did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ResponderStats {
    /// Tests begun.
    pub tests: u64,
    /// Packets of tests that are over, each counted once.
    pub packets: u64,
    /// Packets lost in them.
    pub lost: u64,
    /// Packets that came behind a later one.
    pub reordered: u64,
    /// Packets that came again.
    pub duplicates: u64,
    /// Answers sent.
    pub answers: u64,
    /// Requesters refused because the responder was in use.
    pub busy: u64,
    /// Datagrams that are no message of this protocol.
    pub rejected: u64,
    /// Messages outside a test.
    pub unasked: u64,
    /// Answers that would have been more than came from their requester, and more than is left for all.
    pub unpaid: u64,
    /// Messages that were not answered because their source had its share.
    #[serde(default)]
    pub beyond_share: u64,
    /// Questions that were not answered because more waited than could be answered, and their source had asked the most of them.
    #[serde(default)]
    pub beyond_turn: u64,
    /// Questions beyond those that are answered of one test.
    #[serde(default)]
    pub overasked: u64,
    /// Datagrams from the port of a service that answers: this one's own, udpmon's, STAMP's, echo's and its like.
    #[serde(default)]
    pub from_services: u64,
    /// Answers that the system did not send.
    pub refused: u64,
}

/// One requester.
#[derive(Debug)]
struct Peer {
    test: ResponderTest,
    before: Arc<KernelCounters>,
    after: Arc<KernelCounters>,
    /// Requests answered in raw bytes.
    asked: u32,
    /// Octets that came from it, and were not spent on answers.
    credit: u64,
    /// It said more than the first message.
    went_on: bool,
}

/// All of them.
#[derive(Debug)]
pub(super) struct Requesters {
    options: ResponderOptions,
    peers: HashMap<SocketAddr, Peer>,
    /// Octets of answers beyond what came from a requester.
    beyond: TokenBucket,
    shares: Option<SourceBuckets>,
    /// What the kernel said last, and how often it may be asked.
    texts: (Arc<KernelCounters>, TokenBucket),
    pub(super) stats: ResponderStats,
}

impl Requesters {
    pub(super) fn new(options: ResponderOptions) -> Self {
        let beyond = TokenBucket::new(options.beyond / 64, options.beyond);
        let texts = (Arc::default(), TokenBucket::new(READS.0, READS.1));
        let shares =
            (options.per_source > 0).then(|| SourceBuckets::new(options.per_source, options.per_source));
        Self { options, peers: HashMap::new(), beyond, shares, texts, stats: ResponderStats::default() }
    }

    /// A datagram came at `now` ns; `answer` is what goes back, nothing if it stays empty.
    pub(super) fn handle(&mut self, from: SocketAddr, datagram: &[u8], now: u64, answer: &mut Vec<u8>) {
        let Ok(message) = Message::read(datagram) else {
            self.stats.rejected += 1;
            return;
        };
        let is_data = message.command() == Some(Command::Data);
        if !is_data && self.shares.as_mut().is_some_and(|shares| !shares.spend(from.ip(), 1, now)) {
            self.stats.beyond_share += 1;
            return;
        }
        if self.peers.get(&from).is_some_and(|peer| now.saturating_sub(peer.test.began) > self.longest()) {
            self.end(from);
        }
        if let Some(peer) = self.peers.get_mut(&from) {
            peer.test.heard = now;
            peer.credit = (peer.credit + datagram.len() as u64).min(CREDIT);
        }
        match message.command() {
            Some(Command::Data) => match self.peers.get_mut(&from) {
                Some(peer) => {
                    peer.went_on = true;
                    peer.test.data(&message, now);
                }
                None => self.stats.unasked += 1,
            },
            Some(Command::ZeroStats) => self.begin(from, &message, datagram.len(), now, answer),
            Some(Command::TestEnd) => {
                // Once more, if the answer was lost: it is as long as the question.
                answer.extend_from_slice(&reply(&message, Command::Ok)[..datagram.len().min(LEN)]);
                self.end(from);
            }
            Some(Command::Request) => match self.peers.get_mut(&from) {
                Some(peer) => {
                    peer.went_on = true;
                    self.respond(from, &message, datagram, now, answer);
                }
                None => self.stats.unasked += 1,
            },
            Some(command) => self.question(from, command, &message, now, answer),
            None => self.stats.rejected += 1,
        }
    }

    /// What may only be asked within a test, and is answered with what is known of it.
    fn question(
        &mut self,
        from: SocketAddr,
        command: Command,
        message: &Message,
        now: u64,
        answer: &mut Vec<u8>,
    ) {
        let Some(peer) = self.peers.get_mut(&from) else {
            self.stats.unasked += 1;
            return;
        };
        peer.went_on = true;
        if peer.asked >= QUESTIONS {
            self.stats.overasked += 1;
            return;
        }
        peer.asked += u32::from(command != Command::Start);
        if command == Command::GetStats {
            peer.after = fresh(&mut self.texts, now);
        }
        peer.answer(command, message, now, answer);
        if !self.pays(from, now, answer.len()) {
            answer.clear();
        }
    }

    /// The longest test, ns.
    fn longest(&self) -> u64 {
        Nanos::from(self.options.longest).0
    }

    /// No address gets more than came from it, or than is left for all.
    fn pays(&mut self, from: SocketAddr, now: u64, octets: usize) -> bool {
        let Some(peer) = self.peers.get_mut(&from) else { return false };
        let left = peer.credit.checked_sub(octets as u64);
        peer.credit = left.unwrap_or(peer.credit);
        let paid = left.is_some() || self.beyond.spend(octets, now);
        self.stats.unpaid += u64::from(!paid);
        paid
    }

    /// The response of a length that was asked for, with the time since the test began.
    fn respond(&mut self, from: SocketAddr, message: &Message, asked: &[u8], now: u64, answer: &mut Vec<u8>) {
        let length = (message.head.response_length as usize).clamp(64, 65_507);
        if !self.pays(from, now, length) {
            return;
        }
        let zero = self.peers.get(&from).map_or(now, |peer| peer.test.zero);
        let mut response = *message;
        (response.head.version, response.head.command) = (VERSION, Command::Response as u32);
        response.head.response_time = now.saturating_sub(zero) / 1000;
        answer.extend_from_slice(&response.octets()[..LEN.min(length)]);
        answer.extend_from_slice(asked.get(answer.len()..length.min(asked.len())).unwrap_or_default());
        answer.resize(length, 0);
    }

    fn begin(&mut self, from: SocketAddr, message: &Message, asked: usize, now: u64, answer: &mut Vec<u8>) {
        self.forget(now);
        let known = self.peers.contains_key(&from);
        let of_host = self.peers.keys().filter(|peer| peer.ip() == from.ip()).count();
        let full = self.peers.len() >= self.options.tests.max(1) || of_host >= self.options.per_peer.max(1);
        let command = if full && !known { Command::InUse } else { Command::Ok };
        answer.extend_from_slice(&reply(message, command)[..asked.min(LEN)]);
        if command == Command::InUse {
            self.stats.busy += 1;
            return;
        }
        let credit = self.peers.get(&from).map_or(0, |peer| peer.credit);
        self.end(from);
        self.stats.tests += 1;
        let test = ResponderTest::new(message, now, RECORDS / self.options.tests.max(1));
        let (before, after) = (fresh(&mut self.texts, now), Arc::default());
        self.peers.insert(from, Peer { test, before, after, credit, went_on: false, asked: 0 });
    }

    /// Those that are over, or never went on.
    fn forget(&mut self, now: u64) {
        let full = self.peers.len() >= self.options.tests.max(1);
        let over = |peer: &Peer| {
            let silent = now.saturating_sub(peer.test.heard);
            silent > SILENCE
                || now.saturating_sub(peer.test.began) > self.longest()
                || (full && !peer.went_on && silent > IDLE)
        };
        let gone: Vec<SocketAddr> =
            self.peers.iter().filter(|(_, peer)| over(peer)).map(|(from, _)| *from).collect();
        gone.into_iter().for_each(|from| self.end(from));
    }

    fn end(&mut self, from: SocketAddr) {
        let Some(peer) = self.peers.remove(&from) else { return };
        self.stats.packets += peer.test.received();
        self.stats.lost += peer.test.lost();
        self.stats.reordered += peer.test.reordered();
        self.stats.duplicates += peer.test.duplicates();
    }

    /// Requesters that have a test.
    #[cfg(test)]
    fn running(&self) -> usize {
        self.peers.len()
    }
}

/// What the kernel says now, or said last if it was asked too often.
fn fresh((texts, reads): &mut (Arc<KernelCounters>, TokenBucket), now: u64) -> Arc<KernelCounters> {
    if reads.spend(1, now) {
        *texts = Arc::new(KernelCounters::read());
    }
    texts.clone()
}

/// What was asked, sent back with another command.
fn reply(message: &Message, command: Command) -> [u8; LEN] {
    let mut reply = *message;
    (reply.head.version, reply.head.command) = (VERSION, command as u32);
    reply.octets()
}

impl Peer {
    /// What may only be asked within a test.
    fn answer(&mut self, command: Command, message: &Message, now: u64, answer: &mut Vec<u8>) {
        let (index, wanted) = (message.head.index as usize, message.head.response_length as usize);
        let piece = |octets: &[u8], answer: &mut Vec<u8>| {
            let (from, wanted) = (index.min(octets.len()), wanted.min(PIECE));
            answer.extend_from_slice(&octets[from..from.saturating_add(wanted).min(octets.len())]);
            answer.resize(wanted, 0);
        };
        let order = message.order;
        match command {
            Command::Start => {
                self.test = self.test.again(message, now);
                answer.extend_from_slice(&reply(message, Command::Ok));
            }
            Command::GetStats => {
                let mut told = *message;
                // udpmon leaves the head of its counts undefined. With the command of the question it would be one itself.
                (told.head.version, told.head.command) = (VERSION, Command::Acknowledge as u32);
                self.test.stats(&mut told);
                answer.extend_from_slice(&told.octets());
            }
            Command::GetHistogram => {
                let octets = self.test.histogram(message.head.low, order);
                debug_assert_eq!(octets.len(), HISTOGRAM);
                piece(&octets, answer);
            }
            Command::GetSnmp => {
                let (before, after) = (&self.before, &self.after);
                let octets = structs::snmp((&before.dev, &before.snmp), (&after.dev, &after.snmp), order);
                piece(&octets, answer);
            }
            Command::GetCpu => {
                let octets = structs::cpu(&load(&self.before, &self.after), order);
                debug_assert_eq!(octets.len(), CPU);
                piece(&octets, answer);
            }
            // There are none of a card: zeros say so.
            Command::GetNic => answer.resize(wanted.min(NIC), 0),
            Command::GetRecords => *answer = self.test.records(index, wanted.min(PIECE), order),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests;
