//! The queue of clients that wait for a test: pure, with the time as an argument.
//!
//! ```text
//!   served   [12 s left] [3 s left]                 as many as there are slots
//!   waiting  (10 s) (5 s) …                         first come, first served; a full line refuses
//!            begins  begins
//!            in 3 s  in 12 s
//! ```
//!
//! Limits: an address has a fixed share of slots and places, so that no address fills the whole queue.

use super::Waiting;
use skyhaul_core::hint::Hint;
use std::collections::VecDeque;
use std::net::IpAddr;
use std::time::{Duration, Instant};

/// A client in a [`RequestQueue`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueueTicket(u64);

/// Whether it is a client's turn.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum QueueTurn {
    /// It is.
    Go,
    /// Not yet.
    Wait(Waiting),
}

#[derive(Clone, Copy, Debug)]
struct Place {
    ticket: QueueTicket,
    who: IpAddr,
    takes: Duration,
}

/// Clients that wait for slots, first come, first served.
#[derive(Clone, Debug)]
pub struct RequestQueue {
    slots: usize,
    places: usize,
    per_peer: usize,
    served: Vec<(Place, Instant)>,
    waiting: VecDeque<Place>,
    next: u64,
}

impl RequestQueue {
    /// For `slots` at a time, `places` that wait, and `per_peer` of both for one address.
    #[must_use]
    pub fn new(slots: usize, places: usize, per_peer: usize) -> Self {
        let (slots, per_peer) = (slots.max(1), per_peer.max(1));
        Self { slots, places, per_peer, served: Vec::new(), waiting: VecDeque::new(), next: 0 }
    }

    /// Joins at the end, with a test of this duration.
    ///
    /// # Errors
    /// The line is full, or `who` has its share already.
    pub fn join(&mut self, who: IpAddr, takes: Duration) -> Result<QueueTicket, String> {
        let mine = self.served.iter().map(|(place, _)| place).chain(&self.waiting);
        if mine.filter(|place| place.who == who).count() >= self.per_peer {
            return Err(format!(
                "{who} has {} tests running or waiting{}",
                self.per_peer,
                Hint("wait for them, or allow more with --per-peer")
            ));
        }
        if self.served.len() + self.waiting.len() >= self.slots.saturating_add(self.places) {
            return Err(format!(
                "the queue is full, {} clients are waiting{}",
                self.waiting.len(),
                Hint("try again later")
            ));
        }
        let ticket = QueueTicket(self.next);
        self.next += 1;
        self.waiting.push_back(Place { ticket, who, takes });
        Ok(ticket)
    }

    /// Whether it is the turn of `ticket` now; once told, it holds a slot until it [leaves](Self::leave).
    pub fn turn(&mut self, ticket: QueueTicket, now: Instant) -> QueueTurn {
        if self.served.iter().any(|(place, _)| place.ticket == ticket) {
            return QueueTurn::Go;
        }
        let ahead = self.waiting.iter().position(|place| place.ticket == ticket);
        let free = self.slots.saturating_sub(self.served.len());
        match ahead {
            Some(ahead) if ahead < free => {
                if let Some(place) = self.waiting.remove(ahead) {
                    self.served.push((place, now + place.takes));
                }
                QueueTurn::Go
            }
            Some(ahead) => QueueTurn::Wait(Waiting { ahead, seconds: self.until(ahead, now).as_secs_f64() }),
            // It left.
            None => QueueTurn::Wait(Waiting::default()),
        }
    }

    /// Time until the slot for whom `ahead` are before, if all take as long as they said.
    fn until(&self, ahead: usize, now: Instant) -> Duration {
        let left = |end: &Instant| end.saturating_duration_since(now);
        let mut ends: Vec<Duration> = self.served.iter().map(|(_, end)| left(end)).collect();
        ends.resize(self.slots.max(ends.len()), Duration::ZERO);
        for place in self.waiting.iter().take(ahead) {
            if let Some(first) = ends.iter_mut().min() {
                *first += place.takes;
            }
        }
        ends.into_iter().min().unwrap_or_default()
    }

    /// Leaves the slot or the queue.
    pub fn leave(&mut self, ticket: QueueTicket) {
        self.served.retain(|(place, _)| place.ticket != ticket);
        self.waiting.retain(|place| place.ticket != ticket);
    }

    /// Returns how many are served, and how many wait.
    #[must_use]
    pub fn len(&self) -> (usize, usize) {
        (self.served.len(), self.waiting.len())
    }

    /// Whether the queue is empty.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == (0, 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn who(n: u8) -> IpAddr {
        IpAddr::from([10, 0, 0, n])
    }
    const S: Duration = Duration::from_secs(1);

    #[test]
    fn those_who_wait_are_told_when_their_turn_is() {
        let (mut line, now) = (RequestQueue::new(2, 3, 2), Instant::now());
        let tickets: Vec<QueueTicket> = [(1, 12), (2, 3), (3, 10), (4, 5), (5, 1)]
            .map(|(n, s)| line.join(who(n), s * S).unwrap())
            .to_vec();
        assert!(
            line.join(who(6), S).unwrap_err().contains("hint: try again later"),
            "two slots, three places"
        );
        assert_eq!(line.turn(tickets[0], now), QueueTurn::Go);
        assert_eq!(line.turn(tickets[1], now), QueueTurn::Go);
        let eta = |line: &mut RequestQueue, n: usize, now| match line.turn(tickets[n], now) {
            QueueTurn::Wait(waiting) => (waiting.ahead, waiting.seconds),
            QueueTurn::Go => panic!("{n} goes"),
        };
        assert_eq!(eta(&mut line, 2, now), (0, 3.0));
        assert_eq!(eta(&mut line, 3, now), (1, 12.0));
        assert_eq!(eta(&mut line, 4, now + S), (2, 12.0));
        line.leave(tickets[1]);
        assert_eq!(eta(&mut line, 3, now + S).0, 1, "the slot is for the first in line");
        assert_eq!(line.turn(tickets[2], now + S), QueueTurn::Go);
        line.leave(tickets[3]);
        assert_eq!(eta(&mut line, 4, now + S), (0, 10.0));
        assert_eq!(line.len(), (2, 1));
    }

    #[test]
    fn one_address_takes_no_more_than_its_share() {
        let mut line = RequestQueue::new(4, 4, 2);
        for _ in 0..2 {
            line.join(who(1), S).unwrap();
        }
        assert!(line.join(who(1), S).unwrap_err().contains("10.0.0.1 has 2 tests"));
        line.join(who(2), S).unwrap();
    }

    proptest! {
        #[test]
        fn slots_and_places_hold_whatever_is_done(steps in proptest::collection::vec((0u8..3, 0u8..5, 0u64..20), 0..200)) {
            let (mut line, now) = (RequestQueue::new(2, 3, 3), Instant::now());
            let mut tickets = Vec::new();
            for (what, n, seconds) in steps {
                match what {
                    0 => tickets.extend(line.join(who(n), Duration::from_secs(seconds))),
                    1 if !tickets.is_empty() => {
                        let n = usize::from(n) % tickets.len();
                        line.leave(tickets.swap_remove(n));
                    }
                    _ => {
                        for &ticket in &tickets {
                            line.turn(ticket, now + Duration::from_secs(seconds));
                        }
                        // Nobody waits while a slot is free.
                        prop_assert!(line.len().0 == 2 || line.len().1 == 0);
                    }
                }
                let (served, waiting) = line.len();
                prop_assert!(served <= 2 && waiting <= 5 && served + waiting == tickets.len());
            }
        }
    }
}
