//! Checks whether a host is configured for high-rate data: 94 checks in one table, each with the current value, the recommended
//! one, the reason, and the commands that fix it.
//!
//! ```text
//!   gather ─▶ Facts ─▶ View ─▶ the table of checks ─▶ HostReport
//!            (saved,   with Target, and facts of        (text, JSON)
//!             compared) before a run, and of the peer
//! ```
//!
//! A check sees only facts, so a host can be checked elsewhere and later, and tests can simulate any host.
//!
//! | verdict | meaning |
//! |---|---|
//! | fail | a counter of losses or errors rose |
//! | warn | a setting violates a rule |
//! | info | sources disagree, or the value is informative |
//! | pass | as recommended |
//! | unknown | the value could not be read |
//! | not applicable | it does not apply to this host |
//!
//! Limits: one interface at a time. Values that only root may read are unknown to other users.

mod apply;
mod check;
pub mod checks;
mod facts;
mod found;
mod gather;
mod peer;
mod report;
mod target;

pub use apply::{
    ChangeJournal, ChangeResult, HostSettings, SettingChange, SettingsStore, UndoResult, apply,
    parse_journal, planned, read_journal, undo, would_undo,
};
pub use check::HostView;
pub use check::{Check, Gain, Kernels, SOURCES, Severity};
pub use checks::reference;
pub use facts::{Fact, Facts};
pub use found::{CheckOutcome, CheckResult, CheckVerdict, NotJudged};
pub use found::{Fix, HostSetting};
pub use gather::{Devices, GatherOptions, ThisHost, count_again, gather};
pub use peer::{BothEnds, HostService, ask, note_peer};
pub use report::{CheckChange, FactChange, SnapshotDiff, load, read as read_snapshot, save};
pub use report::{CheckLine, HostReport, WatchedRun, selection};
pub use target::{HostRole, HostTarget, MAX_BUFFER_BYTES, MAX_WINDOW_BYTES};
