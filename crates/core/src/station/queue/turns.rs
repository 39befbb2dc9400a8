//! Whose turn it is in the queue, and how fast each may go.

use super::super::ceiling::DestinationConfig;
use super::super::events::StationAction;
use super::super::part::QueuedId;
use super::super::queued::{MAX_RETRY_MILLIS, MAX_RUNNING_COPIES, QueuedCommand, QueuedState, QueuedStatus};
use super::super::state::{TransferPace, UnixMillis};
use super::{Queue, StopCause};
use crate::hint::Hint;
use std::cmp::Reverse;
use std::collections::BTreeSet;

/// Whether its time has come. Under a clock that was set back, a time that the former clock gave may be days away: what only waits is
/// due by what was asked for, and no try waits longer than the longest pause.
fn is_due(status: &QueuedStatus, now: UnixMillis) -> bool {
    match status.state {
        QueuedState::Waiting => status.request.not_before <= now,
        _ => status.due_at <= now || status.due_at.0 > now.0.saturating_add(MAX_RETRY_MILLIS),
    }
}

impl Queue {
    /// Begins what is due, and ends what may not go on at this time of day.
    pub(in super::super) fn advance(
        &mut self,
        now: UnixMillis,
        known: &[DestinationConfig],
        actions: &mut Vec<StationAction>,
    ) {
        let mut busy = BTreeSet::new();
        let of = |name: &str| known.iter().find(|one| one.name == name);
        let (mut running, mut lost) = (0, Vec::new());
        for copy in &self.open {
            let Some(one) = self.all.get_mut(copy).filter(|one| one.status.state.is_running()) else {
                continue;
            };
            running += 1;
            let request = &one.status.request;
            busy.insert(request.destination.clone());
            let is_closed =
                |host: &DestinationConfig| host.ceiling(now) == Some(0) || !request.is_in_hours(now);
            if of(&request.destination).is_none_or(is_closed) {
                one.stop(StopCause::Later, actions);
            }
        }
        let turn = |copy: &QueuedId| (Reverse(self.all[copy].status.request.priority), *copy);
        let mut turns: Vec<(Reverse<i8>, QueuedId)> = self.open.iter().map(turn).collect();
        turns.sort_unstable();
        for (_, copy) in &turns {
            let Some(one) = self.all.get_mut(copy).filter(|one| !one.status.state.is_running()) else {
                continue;
            };
            let Some(host) = of(&one.status.request.destination) else {
                lost.push(*copy);
                continue;
            };
            let is_open = host.ceiling(now) != Some(0) && one.status.request.is_in_hours(now);
            if running >= MAX_RUNNING_COPIES
                || !is_due(&one.status, now)
                || !is_open
                || busy.contains(&host.name)
            {
                continue;
            }
            running += 1;
            busy.insert(host.name.clone());
            one.start(now, actions);
        }
        for copy in lost {
            if let Some(one) = self.all.get_mut(&copy) {
                let name = &one.status.request.destination;
                let hint = Hint(format_args!(
                    "`skyhaul transfers retry {0} NAME:DIR` copies to another, `skyhaul transfers rm {0}` forgets it",
                    copy.0
                ));
                let text = format!("the configuration has no destination {name} any more{hint}");
                one.status.reason = Some(text);
            }
            self.end(now, copy, QueuedState::Failed, actions);
        }
    }

    /// Gives each that runs its pace, where it has changed: the least of what recordings leave, its destination's, and its own.
    pub(in super::super) fn set_pace(
        &mut self,
        now: UnixMillis,
        (is_paused, share_bits): (bool, Option<u64>),
        known: &[DestinationConfig],
        actions: &mut Vec<StationAction>,
    ) {
        for copy in &self.open {
            let Some(one) = self.all.get_mut(copy).filter(|one| one.status.state.is_running()) else {
                continue;
            };
            let request = &one.status.request;
            let host = known.iter().find(|host| host.name == request.destination);
            let limits = [share_bits, host.and_then(|host| host.ceiling(now)), request.rate_bits];
            let pace = match limits.into_iter().flatten().min() {
                _ if is_paused => TransferPace::Paused,
                Some(bits) => TransferPace::Limited(bits.max(1)),
                None => TransferPace::Free,
            };
            if one.status.pace != pace {
                one.status.pace = pace;
                let copy = one.status.copy;
                actions.push(StationAction::Queued { copy, command: QueuedCommand::Pace(pace) });
                actions.push(StationAction::QueuedChanged(one.status.clone()));
            }
        }
    }
}
