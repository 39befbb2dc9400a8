//! The responder: several requesters at once, each with a test of its own.

use super::super::answering::{DatagramHandler, DatagramService};
use super::desk::{Requesters, ResponderOptions, ResponderStats};
use crate::probe::udp::oneway::unix_now;
use skyhaul_io::udp::both::Both;
use skyhaul_io::udp::noted::Arrival;
use std::io;
use std::net::SocketAddr;

/// A responder on a port. It ends when it is dropped.
#[derive(Debug)]
pub struct Responder(DatagramService<ResponderStats>);

impl Responder {
    /// Respond to what comes to `at`; `[::]` hears IPv4, too.
    ///
    /// # Errors
    /// The port is taken, or the system has no thread left.
    pub fn start(at: SocketAddr, options: ResponderOptions) -> io::Result<Self> {
        let answer = Vec::with_capacity(1 << 16);
        DatagramService::start("udpmon", at, Responding { desk: Requesters::new(options), answer }).map(Self)
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
    answer: Vec<u8>,
}

impl DatagramHandler for Responding {
    type Stats = ResponderStats;

    fn datagram(&mut self, socket: &Both, arrival: &Arrival<'_>) {
        let now = arrival.time.map_or_else(unix_now, |time| time.0);
        self.answer.clear();
        self.desk.handle(arrival.from, arrival.bytes, now, &mut self.answer);
        if self.answer.is_empty() {
            return;
        }
        match socket.send_to(&self.answer, arrival.from) {
            Ok(_) => self.desk.stats.answers += 1,
            Err(_) => self.desk.stats.refused += 1,
        }
    }

    fn stats(&mut self, from_services: u64) -> ResponderStats {
        ResponderStats { from_services, ..self.desk.stats }
    }
}
