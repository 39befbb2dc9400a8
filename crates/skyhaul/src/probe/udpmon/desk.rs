//! The tests of a responder, without its socket. Pure but for the kernel's texts that a test begins and ends with.

use super::super::budget::Budget;
use super::test::Test;
use serde::{Deserialize, Serialize};
use skyhaul_core::wire::udpmon::structs::{self, CPU, HISTOGRAM, NIC};
use skyhaul_core::wire::udpmon::{Command, LEN, Message, PIECE, VERSION};
use std::collections::HashMap;
use std::net::SocketAddr;
use std::time::Duration;

/// A test of which nothing was heard for so long is over, ns; udpmon's own holds it as long.
const SILENCE: u64 = 60_000_000_000;
/// One that has not gone beyond its first message makes room for another after this, ns.
const IDLE: u64 = 3_000_000_000;
/// Octets from a requester that are kept for answers, at most.
const CREDIT: u64 = 1 << 24;
/// Records of all tests together: 32 MiB.
const RECORDS: usize = 1 << 20;

/// What a responder allows.
#[derive(Clone, Copy, Debug)]
pub struct ResponderOptions {
    /// Tests at a time; a further requester is told that it is in use.
    pub tests: usize,
    /// Tests of one address.
    pub per_peer: usize,
    /// Longest test; what comes after it is not counted.
    pub longest: Duration,
    /// Octets of answers beyond what came from a requester, to all of them together; in 64 s as many are allowed again.
    pub beyond: u64,
}

impl Default for ResponderOptions {
    fn default() -> Self {
        Self { tests: 8, per_peer: 8, longest: Duration::from_secs(24 * 3600), beyond: 1 << 20 }
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
    /// Requesters told that it is in use.
    pub busy: u64,
    /// Datagrams that are no message of this protocol.
    pub rejected: u64,
    /// Messages outside a test.
    pub unasked: u64,
    /// Answers that would have been more than came from their requester, and more than is left for all.
    pub unpaid: u64,
    /// Answers that the system did not send.
    pub refused: u64,
}

/// The kernel's texts of interfaces and protocols, and of processors.
#[derive(Clone, Debug, Default)]
struct Texts {
    dev: String,
    snmp: String,
    stat: String,
}

impl Texts {
    fn read() -> Self {
        let text = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
        Self { dev: text("/proc/net/dev"), snmp: text("/proc/net/snmp"), stat: text("/proc/stat") }
    }

    /// Time of all processors and of each, in ticks.
    fn times(&self) -> Vec<[u64; 7]> {
        let line = |line: &str| {
            let mut words = line.strip_prefix("cpu")?.split_whitespace();
            // The name of one processor is cpu0; that of all has no number.
            if !line.starts_with("cpu ") {
                words.next()?;
            }
            let mut times = [0; 7];
            for time in &mut times {
                *time = words.next()?.parse().ok()?;
            }
            Some(times)
        };
        self.stat.lines().filter_map(line).collect()
    }
}

/// One requester.
#[derive(Debug)]
struct Peer {
    test: Test,
    before: Texts,
    after: Texts,
    /// Octets that came from it, and were not spent on answers.
    credit: u64,
    /// It said more than the first message.
    went_on: bool,
}

/// All of them.
#[derive(Debug)]
pub(super) struct Desk {
    options: ResponderOptions,
    peers: HashMap<SocketAddr, Peer>,
    /// Octets of answers beyond what came from a requester.
    beyond: Budget,
    pub(super) stats: ResponderStats,
}

impl Desk {
    pub(super) fn new(options: ResponderOptions) -> Self {
        let beyond = Budget::new(options.beyond / 64, options.beyond);
        Self { options, peers: HashMap::new(), beyond, stats: ResponderStats::default() }
    }

    /// A datagram came at `now` ns; `answer` is what goes back, nothing if it stays empty.
    pub(super) fn handle(&mut self, from: SocketAddr, datagram: &[u8], now: u64, answer: &mut Vec<u8>) {
        let Ok(message) = Message::read(datagram) else {
            self.stats.rejected += 1;
            return;
        };
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
            Some(command) => match self.peers.get_mut(&from) {
                Some(peer) => {
                    peer.went_on = true;
                    if command == Command::Request {
                        self.respond(from, &message, datagram, now, answer);
                    } else {
                        peer.asked(command, &message, now, answer);
                        if !self.pays(from, now, answer.len()) {
                            answer.clear();
                        }
                    }
                }
                None => self.stats.unasked += 1,
            },
            None => self.stats.rejected += 1,
        }
    }

    /// The longest test, ns.
    fn longest(&self) -> u64 {
        u64::try_from(self.options.longest.as_nanos()).unwrap_or(u64::MAX)
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
        let test = Test::new(message, now, RECORDS / self.options.tests.max(1));
        let (before, after) = (Texts::read(), Texts::default());
        self.peers.insert(from, Peer { test, before, after, credit, went_on: false });
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

/// What was asked, sent back with another command.
fn reply(message: &Message, command: Command) -> [u8; LEN] {
    let mut reply = *message;
    (reply.head.version, reply.head.command) = (VERSION, command as u32);
    reply.octets()
}

impl Peer {
    /// What may only be asked within a test.
    fn asked(&mut self, command: Command, message: &Message, now: u64, answer: &mut Vec<u8>) {
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
                self.after = Texts::read();
                let mut told = *message;
                told.head.version = VERSION;
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

/// What processors did during a test, per cent.
fn load(before: &Texts, after: &Texts) -> Vec<[u64; 7]> {
    let part = |(before, after): (&[u64; 7], &[u64; 7])| {
        let each: Vec<u64> = before.iter().zip(after).map(|(a, b)| b.saturating_sub(*a)).collect();
        let all: u64 = each.iter().sum();
        let mut out = [0; 7];
        for (out, ticks) in out.iter_mut().zip(each) {
            *out = (ticks * 100).checked_div(all).unwrap_or(0);
        }
        out
    };
    before.times().iter().zip(&after.times()).map(part).collect()
}

#[cfg(test)]
mod tests;
