//! Recognises that the ticks of a sender begin again because it was restarted.
//!
//! ```text
//!   ticks   0 ─ the restarted sender ─▶      oldest calendar │ … │ newest ─ where it was before
//!           └─ too old: refused ────────────────────────────┘
//! ```
//!
//! A packet whose tick is before the oldest calendar is either late or from a restarted sender. Using the newest
//! calendar might split the event of a late packet; rejecting the packets of a restarted sender loses data. They are
//! told apart by:
//!
//! | evidence | effect |
//! |---|---|
//! | no data for [`IDLE`], and the synchronisation message of a known source states a tick far behind its last ones | the newest calendar replaces all others |
//! | only ticks that are too old and rise, in [`LOOKS`] consecutive checks, or in [`FAR_LOOKS`] if they are more than [`FAR`] behind | the newest calendar is also used for these ticks; the others stay |
//! | the ticks of all data are far behind and rise, for as long as packets may be in flight | calendars that begin after them are withdrawn |
//!
//! Late packets arrive among packets with newer ticks, or in random order. As long as other senders continue, nothing
//! is restarted, because all sources of a balancer share their ticks. Neither is it if the synchronisation messages of a
//! source that lags behind the others say that it goes on: the other sources' parts of these ticks were routed by
//! calendars that are gone, so its packets are refused until it has caught up.
//!
//! Limits: a sender that sends no synchronisation messages, and lags far behind others that have ended, is taken for a
//! restarted one. A restarted sender without such messages loses the packets of the checks needed (0.15 s or 0.4 s of
//! data), which are counted as too old. So does a sender that ran for less than four seconds before its restart.

use crate::placement::Nanos;

/// Minimum pause of the data when a sender restarts: it sends a synchronisation message before its data.
pub(super) const IDLE: Nanos = Nanos(750_000_000);
/// The message of a restarted source is ignored if the data of other senders do not end within this time.
pub(super) const PATIENCE: Nanos = Nanos(5_000_000_000);
/// Consecutive checks with only too old ticks after which they belong to a restarted sender; [`FAR_LOOKS`] if they are
/// far behind.
pub(super) const LOOKS: u32 = 8;
pub(super) const FAR_LOOKS: u32 = 3;
/// Calendars that begin less than this time after the data stay, because threads may already use them.
pub(super) const NEAR: Nanos = Nanos(1_500_000_000);
/// No packet is this late.
pub(super) const FAR: Nanos = Nanos(10_000_000_000);

/// Evidence for a restart.
#[derive(Clone, Debug, Default)]
pub(super) struct Anew {
    /// When data were last forwarded.
    pub(super) heard: Option<Nanos>,
    /// When a synchronisation message last showed a restart.
    pub(super) said: Option<Nanos>,
    /// Consecutive checks in which all ticks were too old, and the lowest and highest tick of the last.
    pub(super) looks: u32,
    pub(super) old: (u64, u64),
    /// Since when the ticks of all data are far behind earlier ones and rise, and the newest of them.
    pub(super) behind: Option<(Nanos, u64)>,
    /// When the newest calendar was extended to older ticks.
    pub(super) extended: Option<Nanos>,
}

impl Anew {
    /// Whether no calendar may be retired yet, because an extension was recent: by the ticks from before the restart,
    /// the calendars in use would seem to be over.
    pub(super) fn is_young(&self, now: Nanos, linger: Nanos) -> bool {
        self.extended.is_some_and(|then| now.since(then) <= linger.plus(Nanos::SECOND))
    }

    pub(super) fn is_idle(&self, now: Nanos, time: Nanos) -> bool {
        self.heard.is_none_or(|heard| now.since(heard) >= time)
    }
}
