//! Senders that have not proved to be a stream (yet).
//!
//! Anybody can send a packet from any port, so a place among the streams is never given for one: a stranger's packets
//! are held here until they show what they are. The table is bounded; it forgets
//!
//! * after seconds, who sent a packet or two;
//! * when it is full, who came first and sent least: at a flood from ever new ports, a sender still has its place
//!   for longer than a stream needs to send three packets.
//!
//! Limits: [`MOST`] senders and [`HOLD_BYTES`] of packets for each receiving thread, whatever comes.

use super::learning::Learning;
use skyhaul_core::placement::{Nanos, Reject};
use skyhaul_core::wire::{LearnOptions, StreamFormat};
use std::collections::{HashMap, VecDeque};
use std::net::SocketAddr;

/// Most senders in the table.
const MOST: usize = 16_384;
/// Most bytes held of all of them; beyond it each must do with what there is.
const HOLD_BYTES: usize = 64 << 20;
/// Packets without which nobody is a stream.
pub(super) const LEAST: u64 = 3;
/// How long a sender may take for these.
pub(super) const FORGET: Nanos = Nanos(5_000_000_000);
/// How long a sender that is no stream is ignored before it is looked at afresh.
const IGNORE: Nanos = Nanos::SECOND;
/// Time between two claims of one sender to a place among the streams.
const RETRY: Nanos = Nanos(20_000_000);
/// Rates are taken over at least and at most this time.
const SHORT: Nanos = Nanos(100_000_000);
/// See [`SHORT`].
pub(super) const LONG: Nanos = Nanos(14_400_000_000);

/// Packets a second of a sender that sent `packets` in `age`.
pub(super) fn rate(packets: u64, age: Nanos) -> f64 {
    packets as f64 * 1e9 / age.0.clamp(SHORT.0, LONG.0) as f64
}

#[derive(Debug)]
struct Stranger {
    since: Nanos,
    last: Nanos,
    /// Packets it sent.
    seen: u64,
    state: State,
}

#[derive(Debug)]
enum State {
    /// What it sends is not clear, or there is no place for it.
    Learning {
        learning: Box<Learning>,
        /// No conclusion before then.
        retry_at: Nanos,
        /// It is a stream, and there is no place for it. Concluding again with each packet would cost more than all else.
        waits: Option<Box<StreamFormat>>,
    },
    /// It is no stream; looked at afresh after a while.
    Refused { why: Reject, since: Nanos },
}

/// What a sender sends, or why it is no stream.
pub(super) type Conclusion = Result<StreamFormat, Reject>;

/// A sender that is to become a stream: the packets that were held, and since when it sends.
#[derive(Debug)]
pub(super) struct Proven {
    pub(super) learning: Box<Learning>,
    pub(super) since: Nanos,
}

/// What a stranger can say for itself.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Claim {
    /// Packets a second.
    pub(super) rate: f64,
    /// Packets it sent.
    pub(super) seen: u64,
    /// No more of its packets can be held.
    pub(super) full: bool,
    /// It sent so much that it soon cannot be held any more.
    pub(super) plenty: bool,
}

/// Packets of senders that were forgotten, by reason.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Forgotten {
    /// Senders that had to go for others, or for which there was no place.
    pub(super) crowded: u64,
    /// Their packets.
    pub(super) crowded_packets: u64,
    /// Packets of senders that sent too few.
    pub(super) unproven_packets: u64,
}

/// The table of strangers.
#[derive(Debug, Default)]
pub(super) struct Strangers {
    table: HashMap<SocketAddr, Stranger>,
    /// Who came first stands first; who has left meanwhile is skipped.
    queue: VecDeque<(SocketAddr, Nanos)>,
    held_bytes: usize,
}

impl Strangers {
    /// A packet of `sender`: whether it is held, and what its sender sends, if that is clear now.
    pub(super) fn hear(
        &mut self,
        sender: SocketAddr,
        packet: &[u8],
        now: Nanos,
        options: &LearnOptions,
    ) -> (Result<(), Reject>, Option<Conclusion>) {
        let crowded = self.held_bytes >= HOLD_BYTES;
        let queue = &mut self.queue;
        let stranger = self.table.entry(sender).or_insert_with(|| {
            queue.push_back((sender, now));
            Stranger { since: now, last: now, seen: 0, state: State::fresh(options, now) }
        });
        stranger.last = now;
        if let State::Refused { why, since } = stranger.state {
            if now.since(since) < IGNORE {
                return (Err(why), None);
            }
            stranger.state = State::fresh(options, now);
        }
        stranger.seen += 1;
        let State::Learning { learning, retry_at, waits } = &mut stranger.state else {
            return (Ok(()), None);
        };
        let held = learning.hold(packet);
        if held {
            self.held_bytes += packet.len();
        }
        let conclude = || match &*waits {
            Some(format) => Some(Ok((**format).clone())),
            None => learning.conclusion(now, crowded),
        };
        let concluded = if now >= *retry_at { conclude() } else { None };
        let concluded = concluded.filter(|format| format.is_err() || stranger.seen >= LEAST);
        (if held { Ok(()) } else { Err(Reject::TooManyStreams) }, concluded)
    }

    /// What `sender` can say for itself.
    pub(super) fn claim(&self, sender: SocketAddr, now: Nanos) -> Claim {
        let Some(stranger) = self.table.get(&sender) else { return Claim::default() };
        let (full, plenty) = match &stranger.state {
            State::Learning { learning, .. } => (learning.is_full(), learning.is_half_full()),
            State::Refused { .. } => (false, false),
        };
        Claim { rate: rate(stranger.seen, now.since(stranger.since)), seen: stranger.seen, full, plenty }
    }

    /// There is no place among the streams for `sender` now: it may ask again soon. True for the first time.
    pub(super) fn wait(&mut self, sender: SocketAddr, format: StreamFormat, now: Nanos) -> bool {
        let Some(State::Learning { retry_at, waits, .. }) = self.table.get_mut(&sender).map(|s| &mut s.state)
        else {
            return false;
        };
        *retry_at = now.plus(RETRY);
        waits.replace(Box::new(format)).is_none()
    }

    /// `sender` becomes a stream.
    pub(super) fn take(&mut self, sender: SocketAddr) -> Option<Proven> {
        let Stranger { state, since, .. } = self.table.remove(&sender)?;
        let State::Learning { learning, .. } = state else { return None };
        self.held_bytes -= learning.bytes();
        Some(Proven { learning, since })
    }

    /// `sender` is no stream, for a while; how many packets of it were held.
    pub(super) fn refuse(&mut self, sender: SocketAddr, why: Reject, now: Nanos) -> u64 {
        let Some(stranger) = self.table.get_mut(&sender) else { return 0 };
        let before = std::mem::replace(&mut stranger.state, State::Refused { why, since: now });
        let State::Learning { learning, .. } = before else { return 0 };
        self.held_bytes -= learning.bytes();
        learning.held()
    }

    /// Make room where there is none: those who came first and sent least go.
    pub(super) fn relieve(&mut self) -> Forgotten {
        let mut gone = Forgotten::default();
        let mut spared = 0;
        while self.table.len() > MOST || self.held_bytes > HOLD_BYTES {
            let Some((sender, since)) = self.queue.pop_front() else { return gone };
            let Some(stranger) = self.table.get(&sender).filter(|s| s.since == since) else { continue };
            if stranger.seen >= LEAST && matches!(stranger.state, State::Learning { .. }) && spared < 64 {
                // On its way to be a stream: it stands behind the others again.
                spared += 1;
                self.queue.push_back((sender, since));
                continue;
            }
            gone.crowded += 1;
            gone.crowded_packets += self.remove(sender);
        }
        gone
    }

    /// Time passes: who is to conclude with what there is, and what was forgotten.
    pub(super) fn handle_timeout(&mut self, now: Nanos) -> (Vec<(SocketAddr, Conclusion)>, Forgotten) {
        let (mut concluded, mut old) = (Vec::new(), Vec::new());
        for (&sender, stranger) in &self.table {
            let silent = now.since(stranger.last) >= FORGET;
            match &stranger.state {
                State::Learning { .. } if stranger.seen < LEAST => {
                    old.extend((now.since(stranger.since) >= FORGET).then_some(sender));
                }
                // Who waits for a place claims it with each packet, and is forgotten without.
                State::Learning { waits: Some(_), .. } => old.extend(silent.then_some(sender)),
                State::Learning { learning, .. } => {
                    concluded.extend(learning.conclusion(now, false).map(|format| (sender, format)));
                }
                State::Refused { .. } if silent => old.push(sender),
                _ => {}
            }
        }
        let mut gone = Forgotten::default();
        for sender in old {
            let waited = self.waited(sender);
            let held = self.remove(sender);
            if waited {
                gone.crowded += 1;
                gone.crowded_packets += held;
            } else {
                gone.unproven_packets += held;
            }
        }
        self.queue.retain(|(sender, since)| self.table.get(sender).is_some_and(|s| s.since == *since));
        (concluded, gone)
    }

    /// The end: everybody who is still studied, with what is to be concluded.
    pub(super) fn finish(&mut self, now: Nanos) -> Vec<(SocketAddr, Conclusion)> {
        let mut rest: Vec<_> = self
            .table
            .iter()
            .filter_map(|(&sender, s)| match &s.state {
                State::Learning { learning, .. } => Some((
                    s.since,
                    sender,
                    learning.conclusion(now, true).unwrap_or(Err(Reject::Unrecognised)),
                )),
                State::Refused { .. } => None,
            })
            .collect();
        rest.sort_by_key(|&(since, sender, _)| (since, sender));
        rest.into_iter().map(|(_, sender, format)| (sender, format)).collect()
    }

    /// Packets that are held.
    pub(super) fn held(&self) -> u64 {
        let held =
            |s: &Stranger| if let State::Learning { learning, .. } = &s.state { learning.held() } else { 0 };
        self.table.values().map(held).sum()
    }

    /// How many there are.
    pub(super) fn len(&self) -> usize {
        self.table.len()
    }

    fn waited(&self, sender: SocketAddr) -> bool {
        matches!(
            self.table.get(&sender),
            Some(Stranger { state: State::Learning { waits: Some(_), .. }, .. })
        )
    }

    /// Forget `sender`; how many packets of it were held.
    fn remove(&mut self, sender: SocketAddr) -> u64 {
        let Some(Stranger { state: State::Learning { learning, .. }, .. }) = self.table.remove(&sender)
        else {
            return 0;
        };
        self.held_bytes -= learning.bytes();
        learning.held()
    }
}

impl State {
    fn fresh(options: &LearnOptions, now: Nanos) -> State {
        State::Learning {
            learning: Box::new(Learning::new(options, now)),
            retry_at: Nanos::default(),
            waits: None,
        }
    }
}
