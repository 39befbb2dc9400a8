//! Ticks that begin anew: a sender that counts them was restarted.
//!
//! ```text
//!   ticks   0 ─ the restarted sender ─▶      oldest calendar │ … │ newest ─ where it was before
//!           └─ too old: refused ────────────────────────────┘
//! ```
//!
//! A tick before the oldest calendar is that of a late packet or of a restarted sender. The newest calendar might split the event
//! of a late packet; refusing the packets of a restarted sender loses data. What tells them apart:
//!
//! | evidence | effect |
//! |---|---|
//! | no data for [`IDLE`], and a source whose ticks were known says that it is far behind | the newest calendar replaces all |
//! | only ticks that are too old, and rising, in [`LOOKS`] looks in a row, or in [`FAR_LOOKS`] if they are more than [`FAR`] behind | the newest calendar holds for them, too; the others stay |
//! | all data are behind, and rising, for as long as packets may be under way | calendars that begin beyond them are withdrawn |
//!
//! Late packets come beside others, or in no order. While other senders continue as before, nothing begins anew: the sources
//! of a balancer share their ticks. Nor does it where a source that lags behind the others says in its messages that it goes on:
//! the other sources' parts of these ticks were sent by calendars that are gone, so its packets are refused until it is there.
//!
//! Limits: a sender that sends no messages and lags so far behind others that have ended is taken for a restarted one. A sender that
//! sends no messages loses the packets of the looks that are needed (0.15 s or 0.4 s), which are counted as
//! too old; so does one whose former start was shorter than four seconds.

use crate::placement::Nanos;

/// Data pause at least for so long when a sender is restarted: it says where its ticks are before it sends.
pub(super) const IDLE: Nanos = Nanos(750_000_000);
/// A source that says so waits at most this long for the data of others to end.
pub(super) const PATIENCE: Nanos = Nanos(5_000_000_000);
/// Looks at ticks that are too old.
pub(super) const LOOKS: u32 = 8;
pub(super) const FAR_LOOKS: u32 = 3;
/// Calendars that begin within so much of the data stay: threads may use them already.
pub(super) const NEAR: Nanos = Nanos(1_500_000_000);
/// No packet is late by so much.
pub(super) const FAR: Nanos = Nanos(10_000_000_000);

/// See the module.
#[derive(Clone, Debug, Default)]
pub(super) struct Anew {
    /// When data were last forwarded.
    pub(super) heard: Option<Nanos>,
    /// When a source said that its ticks begin anew.
    pub(super) said: Option<Nanos>,
    /// Looks in a row at which nothing but older ticks than there are calendars for came, and the last of these.
    pub(super) looks: u32,
    pub(super) old: (u64, u64),
    /// Since when all data are behind what was there before, and rise; and where they are.
    pub(super) behind: Option<(Nanos, u64)>,
    /// When the newest calendar was extended to older ticks.
    pub(super) extended: Option<Nanos>,
}

impl Anew {
    /// Whether calendars are not to be retired: those for the ticks before the restart look as if they were over.
    pub(super) fn is_young(&self, now: Nanos, linger: Nanos) -> bool {
        self.extended.is_some_and(|then| now.since(then) <= linger.plus(Nanos::SECOND))
    }

    pub(super) fn is_idle(&self, now: Nanos, time: Nanos) -> bool {
        self.heard.is_none_or(|heard| now.since(heard) >= time)
    }
}
