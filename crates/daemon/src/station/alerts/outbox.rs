//! What waits for one receiver: an event and a time give an action. It never blocks, and forgets nothing without counting it.

use super::message::{AlarmEvent, AlarmKey, AlarmMessage};
use crate::station::dashboard::alarms::AlarmLevel;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
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
    /// Of these, those that ended and began again while their end waited: since when, and how often they had begun.
    joined: BTreeMap<AlarmKey, (String, u64)>,
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
            joined: BTreeMap::new(),
            failed: 0,
            due: Duration::ZERO,
            counts: Delivered::default(),
        }
    }

    /// Takes a message, if it is for this receiver. Of an alarm that comes and goes while the receiver is away, its first begin and its last
    /// end wait, with the number of times; what this receiver hears is the same as if its hold-down were longer.
    pub(super) fn offer(&mut self, message: &AlarmMessage, now: Duration) {
        let mut message = message.clone();
        let key = message.key();
        if message.event == AlarmEvent::End {
            let was_begun =
                self.begun.remove(&key) || (message.is_after_restart && self.filter.admits(&message));
            if !was_begun {
                return;
            }
            if let Some((since, count)) = self.joined.remove(&key) {
                (message.since, message.count) = (since, message.count + count);
            }
            let expires = Some(now + self.retry_for);
            self.waiting_of(&key).for_each(|one| one.expires = expires);
            return self.push(Waiting { message, expires });
        }
        if !self.filter.admits(&message) {
            return;
        }
        let is_first = self.begun.insert(key.clone());
        match is_first.then(|| self.begins_again(&key)).flatten() {
            // It knows of the begin, or will hear of it, and that it was as bad. `Error` is the least.
            Some(level) if level <= message.level => return,
            Some(_) => message.event = AlarmEvent::Worse,
            None if is_first && matches!(message.event, AlarmEvent::Worse | AlarmEvent::More) => {
                // It was not sent what was before.
                message.event = AlarmEvent::Begin;
            }
            None => {}
        }
        if let Some((since, count)) = self.joined.get(&key) {
            message.since.clone_from(since);
            message.count += count;
        }
        self.queue.retain(|one| {
            // The newest says all.
            let is_old = one.message.event == message.event && message.event != AlarmEvent::Begin;
            !(is_old && one.message.key() == key)
        });
        self.push(Waiting { message, expires: None });
    }

    fn waiting_of<'a>(&'a mut self, key: &'a AlarmKey) -> impl Iterator<Item = &'a mut Waiting> {
        let all = self.queue.iter_mut().chain(&mut self.under_way);
        all.filter(move |one| one.message.key() == *key)
    }

    /// Takes the end of an alarm back that waits, since it has begun again; how bad it was.
    fn begins_again(&mut self, key: &AlarmKey) -> Option<AlarmLevel> {
        let is_end = |one: &Waiting| one.message.event == AlarmEvent::End && one.message.key() == *key;
        // An earlier one may have been under way when the alarm began again.
        let end = self.queue.iter().rposition(is_end).and_then(|at| self.queue.remove(at))?;
        self.joined.insert(key.clone(), (end.message.since, end.message.count));
        self.waiting_of(key).for_each(|one| one.expires = None);
        Some(end.message.level)
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

    pub(super) fn waiting(&self) -> usize {
        self.queue.len() + usize::from(self.under_way.is_some())
    }

    /// Ends of alarms that wait.
    pub(super) fn ends(&self) -> impl Iterator<Item = &AlarmMessage> {
        let all = self.under_way.iter().chain(&self.queue).map(|one| &one.message);
        all.filter(|message| message.event == AlarmEvent::End)
    }
}
