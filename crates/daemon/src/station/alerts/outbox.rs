//! What waits for one receiver: an event and a time give an action. It never blocks, and forgets nothing without counting it.

use super::message::{AlarmEvent, AlarmKey, AlarmMessage};
use crate::station::dashboard::alarms::AlarmLevel;
use std::collections::{BTreeSet, VecDeque};
use std::time::Duration;

/// Maximum number of messages that wait for a receiver; of more, the oldest is lost.
pub(super) const MAX_WAITING: usize = 256;
/// Time after the first failure; twice as long after each further one, up to the last.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
const LAST_PAUSE: Duration = Duration::from_secs(60);

/// Which alarms a receiver is for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct AlarmFilter {
    /// Errors only.
    pub(super) errors_only: bool,
    /// Names of alarms; all if empty.
    pub(super) kinds: BTreeSet<String>,
}

impl AlarmFilter {
    fn admits(&self, message: &AlarmMessage) -> bool {
        (!self.errors_only || message.level == AlarmLevel::Error)
            && (self.kinds.is_empty() || self.kinds.contains(&message.kind))
    }
}

#[derive(Clone, Debug)]
struct Waiting {
    message: AlarmMessage,
    /// When it is given up; `None` while its alarm holds.
    expires: Option<Duration>,
}

/// What became of messages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Delivered {
    pub(super) sent: u64,
    /// Messages that were given up.
    pub(super) lost: u64,
    /// Attempts that failed.
    pub(super) failures: u64,
}

/// The messages for a receiver.
#[derive(Debug)]
pub(super) struct Outbox {
    filter: AlarmFilter,
    /// How long messages are tried after their alarm is over.
    retry_for: Duration,
    queue: VecDeque<Waiting>,
    under_way: Option<Waiting>,
    /// Alarms whose begin was queued, and whose end was not.
    begun: BTreeSet<AlarmKey>,
    failed: u32,
    due: Duration,
    pub(super) counts: Delivered,
}

impl Outbox {
    pub(super) fn new(filter: AlarmFilter, retry_for: Duration) -> Self {
        Self {
            filter,
            retry_for,
            queue: VecDeque::new(),
            under_way: None,
            begun: BTreeSet::new(),
            failed: 0,
            due: Duration::ZERO,
            counts: Delivered::default(),
        }
    }

    /// Takes a message, if it is for this receiver.
    pub(super) fn offer(&mut self, message: &AlarmMessage, now: Duration) {
        let mut message = message.clone();
        let key = message.key();
        if message.event == AlarmEvent::End {
            let was_begun =
                self.begun.remove(&key) || (message.is_after_restart && self.filter.admits(&message));
            if !was_begun {
                return;
            }
            let expires = Some(now + self.retry_for);
            let of_it = self.queue.iter_mut().chain(&mut self.under_way);
            of_it.filter(|one| one.message.key() == key).for_each(|one| one.expires = expires);
            return self.push(Waiting { message, expires });
        }
        if !self.filter.admits(&message) {
            return;
        }
        if self.begun.insert(key) && message.event == AlarmEvent::Worse {
            // It was not told of the warning.
            message.event = AlarmEvent::Begin;
        }
        self.push(Waiting { message, expires: None });
    }

    fn push(&mut self, waiting: Waiting) {
        if self.queue.len() >= MAX_WAITING {
            self.queue.pop_front();
            self.counts.lost += 1;
        }
        self.queue.push_back(waiting);
    }

    /// The message to send now. Its outcome is to be reported by [`Outbox::done`].
    pub(super) fn next(&mut self, now: Duration) -> Option<AlarmMessage> {
        let before = self.queue.len();
        self.queue.retain(|one| one.expires.is_none_or(|expires| now < expires));
        self.counts.lost += (before - self.queue.len()) as u64;
        if now < self.due || self.under_way.is_some() {
            return None;
        }
        self.under_way = self.queue.pop_front();
        self.under_way.as_ref().map(|one| one.message.clone())
    }

    /// Whether the message under way was taken.
    pub(super) fn done(&mut self, is_taken: bool, now: Duration) {
        let Some(one) = self.under_way.take() else { return };
        if is_taken {
            self.counts.sent += 1;
            (self.failed, self.due) = (0, now);
            return;
        }
        self.counts.failures += 1;
        let pause = FIRST_PAUSE.saturating_mul(1 << self.failed.min(16)).min(LAST_PAUSE);
        self.failed = self.failed.saturating_add(1);
        self.due = now + pause;
        self.queue.push_front(one);
    }

    /// Whether the last attempt failed.
    pub(super) fn is_failing(&self) -> bool {
        self.failed > 0
    }

    pub(super) fn waiting(&self) -> usize {
        self.queue.len() + usize::from(self.under_way.is_some())
    }

    /// Ends of alarms that wait.
    pub(super) fn ends(&self) -> impl Iterator<Item = &AlarmMessage> {
        let all = self.under_way.iter().chain(&self.queue).map(|one| &one.message);
        all.filter(|message| message.event == AlarmEvent::End)
    }
}
