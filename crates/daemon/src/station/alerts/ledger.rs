//! From what holds each second to what is to be said, without clocks and threads.
//!
//! ```text
//!   holds ───────┐ ┌─┐    ┌────┐                        (gaps shorter than the hold-down)
//!                └─┘ └────┘    └───── hold-down ─────▶
//!   said  begin                                      end, count 3
//! ```

use super::message::{AlarmEvent, AlarmKey, AlarmMessage};
use crate::station::dashboard::alarms::{AlarmCondition, AlarmLevel};
use std::collections::BTreeMap;
use std::time::Duration;

/// Maximum number of alarms that are followed.
const MAX_EPISODES: usize = 4096;

/// An alarm from its first begin to an end that lasts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Episode {
    /// The worst it was.
    pub(super) level: AlarmLevel,
    pub(super) text: String,
    pub(super) since: String,
    pub(super) count: u64,
    /// Of how many it was when that was last said, and when this was.
    size: u64,
    said: Duration,
    /// When it was last seen to be over, by both clocks.
    gone: Option<(Duration, String)>,
    /// It is from an earlier run, and was not seen since.
    is_restored: bool,
}

/// The alarms of a station.
#[derive(Debug)]
pub(super) struct AlarmLedger {
    hold: Duration,
    pub(super) episodes: BTreeMap<AlarmKey, Episode>,
    /// Alarms that were not followed because there were too many.
    pub(super) unfollowed: u64,
}

impl AlarmLedger {
    pub(super) fn new(hold: Duration) -> Self {
        Self { hold, episodes: BTreeMap::new(), unfollowed: 0 }
    }

    /// Follows an alarm that an earlier run has sent.
    pub(super) fn restore(&mut self, key: AlarmKey, mut episode: Episode, now: Duration, time: &str) {
        episode.gone = Some((now, time.to_owned()));
        episode.is_restored = true;
        if self.episodes.len() < MAX_EPISODES {
            self.episodes.insert(key, episode);
        }
    }

    /// An alarm that is kept.
    pub(super) fn kept(level: AlarmLevel, text: String, since: String, count: u64) -> Episode {
        Episode { level, text, since, count, size: 0, said: Duration::ZERO, gone: None, is_restored: false }
    }

    /// Takes the conditions that hold `now`, at the time `time`; returns what is to be said.
    pub(super) fn update(
        &mut self,
        conditions: &[AlarmCondition],
        now: Duration,
        time: &str,
    ) -> Vec<AlarmMessage> {
        let mut said = Vec::new();
        for condition in conditions {
            let key = (condition.kind.to_owned(), condition.subject.clone());
            let is_new = !self.episodes.contains_key(&key);
            if is_new && self.episodes.len() >= MAX_EPISODES {
                self.unfollowed += 1;
                continue;
            }
            let episode = self
                .episodes
                .entry(key.clone())
                .or_insert_with(|| Self::kept(condition.level, condition.text.clone(), time.to_owned(), 1));
            episode.text.clone_from(&condition.text);
            // `Error` is the least.
            let is_worse = condition.level < episode.level;
            episode.level = episode.level.min(condition.level);
            let was_gone = episode.gone.take().is_some();
            let is_restored = std::mem::take(&mut episode.is_restored);
            episode.count += u64::from(was_gone && !is_restored);
            // Not more often than an alarm that comes and goes.
            let has_grown = condition.size > episode.size && now.saturating_sub(episode.said) >= self.hold;
            let event = match (is_new, is_restored, is_worse) {
                (true, ..) => AlarmEvent::Begin,
                (_, true, _) => AlarmEvent::Still,
                (_, _, true) => AlarmEvent::Worse,
                _ if has_grown => AlarmEvent::More,
                _ => continue,
            };
            (episode.size, episode.said) = (condition.size, now);
            said.push(message(&key, episode, event, time, is_restored));
        }
        let hold = self.hold;
        self.episodes.retain(|key, episode| {
            let holds = conditions.iter().any(|one| one.kind == key.0 && one.subject == key.1);
            if holds {
                return true;
            }
            let (since, at) = episode.gone.get_or_insert_with(|| (now, time.to_owned()));
            if now.saturating_sub(*since) < hold {
                return true;
            }
            let at = at.clone();
            said.push(message(key, episode, AlarmEvent::End, &at, episode.is_restored));
            false
        });
        said
    }
}

fn message(
    key: &AlarmKey,
    episode: &Episode,
    event: AlarmEvent,
    time: &str,
    is_after_restart: bool,
) -> AlarmMessage {
    AlarmMessage {
        event,
        level: episode.level,
        kind: key.0.clone(),
        subject: key.1.clone(),
        text: episode.text.clone(),
        since: episode.since.clone(),
        time: time.to_owned(),
        count: episode.count,
        is_after_restart,
    }
}
