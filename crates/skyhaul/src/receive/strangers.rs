//! Senders that have not proved to be a stream (yet), and their first packets.
//!
//! Any host can send a packet from any port, so one packet does not make a stream: packets of an unknown sender are held
//! here until their format is known. The table is bounded; it forgets
//!
//! * after seconds, senders of a packet or two;
//! * when it is full, those that came first and sent least: in a flood from changing ports, a sender still keeps its
//!   place for longer than a stream needs to send three packets.
//!
//! Limits: [`MAX_SENDERS`] senders and [`MAX_HELD_BYTES`] of packets for each receiving thread.

use skyhaul_core::placement::{Nanos, Reject};
use skyhaul_core::wire::{LearnOptions, Learner, StreamFormat};
use std::collections::{HashMap, VecDeque};
use std::net::SocketAddr;

/// Maximum number of senders in the table.
const MAX_SENDERS: usize = 16_384;
/// Maximum number of bytes held for all of them; beyond it, conclusions are drawn from the packets so far.
const MAX_HELD_BYTES: usize = 64 << 20;
/// Minimum number of packets of a stream.
pub(super) const LEAST: u64 = 3;
/// How long a sender may take for these.
pub(super) const FORGET: Nanos = Nanos(5_000_000_000);
/// How long a sender that is not a stream is ignored before it is examined again.
const REFUSAL_TIME: Nanos = Nanos::SECOND;
/// Time between two claims of one sender to a place among the streams.
const RETRY_DELAY: Nanos = Nanos(20_000_000);
/// Rates are measured over at least [`MIN_RATE_TIME`] and at most [`LONG`].
const MIN_RATE_TIME: Nanos = Nanos(100_000_000);
/// See [`MIN_RATE_TIME`].
pub(super) const LONG: Nanos = Nanos(14_400_000_000);

/// Packets per second of a sender that sent `packets` in `age`.
pub(super) fn rate(packets: u64, age: Nanos) -> f64 {
    packets as f64 * 1e9 / age.0.clamp(MIN_RATE_TIME.0, LONG.0) as f64
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
    /// Its format is unknown, or there is no place for it.
    Learning {
        learning: Box<Learning>,
        /// No conclusion before then.
        retry_at: Nanos,
        /// It is a stream without a place. A new conclusion with each packet would cost more than everything else.
        waits: Option<Box<StreamFormat>>,
    },
    /// It is not a stream; examined again after a while.
    Refused { why: Reject, since: Nanos },
}

/// The format of a sender, or why it is not a stream.
pub(super) type Conclusion = Result<StreamFormat, Reject>;

/// A sender that becomes a stream: the held packets, and since when it sends.
#[derive(Debug)]
pub(super) struct Proven {
    pub(super) learning: Box<Learning>,
    pub(super) since: Nanos,
}

/// Claim of a sender to a place.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Claim {
    /// Packets per second.
    pub(super) rate: f64,
    /// Packets it sent.
    pub(super) seen: u64,
    /// No more of its packets can be held.
    pub(super) full: bool,
    /// It sent so much that its packets soon cannot be held any more.
    pub(super) plenty: bool,
}

/// Packets of senders that were forgotten, by reason.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Forgotten {
    /// Senders replaced by others, or without a place.
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
    /// In order of arrival; senders that have left are skipped.
    queue: VecDeque<(SocketAddr, Nanos)>,
    held_bytes: usize,
}

impl Strangers {
    /// Process a packet of `sender`, with the kernel's time of its arrival: returns whether it is held, and the format if it is
    /// known now.
    pub(super) fn hear(
        &mut self,
        sender: SocketAddr,
        (packet, arrived): (&[u8], Option<Nanos>),
        now: Nanos,
        options: &LearnOptions,
    ) -> (Result<(), Reject>, Option<Conclusion>) {
        let crowded = self.held_bytes >= MAX_HELD_BYTES;
        let queue = &mut self.queue;
        let stranger = self.table.entry(sender).or_insert_with(|| {
            queue.push_back((sender, now));
            Stranger { since: now, last: now, seen: 0, state: State::fresh(options, now) }
        });
        stranger.last = now;
        if let State::Refused { why, since } = stranger.state {
            if now.since(since) < REFUSAL_TIME {
                return (Err(why), None);
            }
            stranger.state = State::fresh(options, now);
        }
        stranger.seen += 1;
        let State::Learning { learning, retry_at, waits } = &mut stranger.state else {
            return (Ok(()), None);
        };
        let held = learning.hold(packet, arrived);
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

    /// The claim of `sender`.
    pub(super) fn claim(&self, sender: SocketAddr, now: Nanos) -> Claim {
        let Some(stranger) = self.table.get(&sender) else { return Claim::default() };
        let (full, plenty) = match &stranger.state {
            State::Learning { learning, .. } => (learning.is_full(), learning.is_half_full()),
            State::Refused { .. } => (false, false),
        };
        Claim { rate: rate(stranger.seen, now.since(stranger.since)), seen: stranger.seen, full, plenty }
    }

    /// There is no place for `sender` now: it may try again soon. Returns `true` for the first time.
    pub(super) fn wait(&mut self, sender: SocketAddr, format: StreamFormat, now: Nanos) -> bool {
        let Some(State::Learning { retry_at, waits, .. }) = self.table.get_mut(&sender).map(|s| &mut s.state)
        else {
            return false;
        };
        *retry_at = now.plus(RETRY_DELAY);
        waits.replace(Box::new(format)).is_none()
    }

    /// `sender` becomes a stream.
    pub(super) fn take(&mut self, sender: SocketAddr) -> Option<Proven> {
        let Stranger { state, since, .. } = self.table.remove(&sender)?;
        let State::Learning { learning, .. } = state else { return None };
        self.held_bytes -= learning.bytes();
        Some(Proven { learning, since })
    }

    /// Ignore `sender` for a while; returns how many of its packets were held.
    pub(super) fn refuse(&mut self, sender: SocketAddr, why: Reject, now: Nanos) -> u64 {
        let Some(stranger) = self.table.get_mut(&sender) else { return 0 };
        let before = std::mem::replace(&mut stranger.state, State::Refused { why, since: now });
        let State::Learning { learning, .. } = before else { return 0 };
        self.held_bytes -= learning.bytes();
        learning.held()
    }

    /// Make room if there is none: forget those that came first and sent least.
    pub(super) fn relieve(&mut self) -> Forgotten {
        let mut gone = Forgotten::default();
        let mut spared = 0;
        while self.table.len() > MAX_SENDERS || self.held_bytes > MAX_HELD_BYTES {
            let Some((sender, since)) = self.queue.pop_front() else { return gone };
            let Some(stranger) = self.table.get(&sender).filter(|s| s.since == since) else { continue };
            if stranger.seen >= LEAST && matches!(stranger.state, State::Learning { .. }) && spared < 64 {
                // It is becoming a stream: move it to the end of the queue.
                spared += 1;
                self.queue.push_back((sender, since));
                continue;
            }
            gone.crowded += 1;
            gone.crowded_packets += self.remove(sender);
        }
        gone
    }

    /// Handle timeouts: returns the senders with a forced conclusion, and what was forgotten.
    pub(super) fn handle_timeout(&mut self, now: Nanos) -> (Vec<(SocketAddr, Conclusion)>, Forgotten) {
        let (mut concluded, mut old) = (Vec::new(), Vec::new());
        for (&sender, stranger) in &self.table {
            let silent = now.since(stranger.last) >= FORGET;
            match &stranger.state {
                State::Learning { .. } if stranger.seen < LEAST => {
                    old.extend((now.since(stranger.since) >= FORGET).then_some(sender));
                }
                // A sender that waits for a place claims it with each packet, and is forgotten when silent.
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

    /// The end: all senders still being learned, with their conclusions.
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

    /// Packets held.
    pub(super) fn held(&self) -> u64 {
        let held =
            |s: &Stranger| if let State::Learning { learning, .. } = &s.state { learning.held() } else { 0 };
        self.table.values().map(held).sum()
    }

    /// Number of senders.
    pub(super) fn len(&self) -> usize {
        self.table.len()
    }

    fn waited(&self, sender: SocketAddr) -> bool {
        matches!(
            self.table.get(&sender),
            Some(Stranger { state: State::Learning { waits: Some(_), .. }, .. })
        )
    }

    /// Forget `sender`; returns how many of its packets were held.
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

/// Maximum number of bytes held for one sender.
const MAX_HELD_BYTES_PER_SENDER: usize = 2 << 20;
/// Maximum time before a conclusion from the packets so far.
const MAX_LEARNING_TIME: Nanos = Nanos::SECOND;

#[derive(Debug)]
pub(super) struct Learning {
    learner: Learner,
    bytes: Vec<u8>,
    ends: Vec<usize>,
    /// When the kernel received them: the first packet of each arrival, and its time.
    arrivals: Vec<(usize, Option<Nanos>)>,
    since: Nanos,
}

impl Learning {
    pub(super) fn new(options: &LearnOptions, now: Nanos) -> Self {
        Self {
            learner: Learner::new(options.clone()),
            bytes: Vec::new(),
            ends: Vec::new(),
            arrivals: Vec::new(),
            since: now,
        }
    }

    /// Keep one more packet, which the kernel received at `arrived`; `false` if there is no room.
    pub(super) fn hold(&mut self, packet: &[u8], arrived: Option<Nanos>) -> bool {
        if self.is_full() {
            return false;
        }
        if self.arrivals.last().is_none_or(|(_, time)| *time != arrived) {
            self.arrivals.push((self.ends.len(), arrived));
        }
        self.learner.observe(packet);
        self.bytes.extend_from_slice(packet);
        self.ends.push(self.bytes.len());
        true
    }

    /// The format, once known, or the reason why there is none. `crowded`: conclude from the packets so far.
    pub(super) fn conclusion(&self, now: Nanos, crowded: bool) -> Option<Result<StreamFormat, Reject>> {
        self.learner.conclude(self.is_full() || crowded || now.since(self.since) >= MAX_LEARNING_TIME)
    }

    /// Whether no more packets can be held.
    pub(super) fn is_full(&self) -> bool {
        self.bytes.len() >= MAX_HELD_BYTES_PER_SENDER
    }

    /// Whether it is half full.
    pub(super) fn is_half_full(&self) -> bool {
        self.bytes.len() >= MAX_HELD_BYTES_PER_SENDER / 2
    }

    /// Whether the packets agree so well that the conclusion was not forced by time or lack of room.
    pub(super) fn is_sure(&self) -> bool {
        matches!(self.learner.conclude(false), Some(Ok(_)))
    }

    /// Bytes held.
    pub(super) fn bytes(&self) -> usize {
        self.bytes.len()
    }

    /// Packets held.
    pub(super) fn held(&self) -> u64 {
        self.ends.len() as u64
    }

    /// The held packets in order of arrival, and when the kernel received them.
    pub(super) fn packets(&self) -> impl Iterator<Item = (&[u8], Option<Nanos>)> {
        let starts = std::iter::once(0).chain(self.ends.iter().copied());
        let mut arrivals = self.arrivals.iter().peekable();
        let mut arrived = None;
        starts.zip(&self.ends).enumerate().map(move |(at, (start, &end))| {
            while let Some((_, time)) = arrivals.next_if(|(first, _)| *first <= at) {
                arrived = *time;
            }
            (&self.bytes[start..end], arrived)
        })
    }
}
