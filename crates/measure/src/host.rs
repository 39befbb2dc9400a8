//! Whether a host is set up for the data that it shall carry: 94 checks in one table, each with its value, the wanted one, the
//! reason, and the commands that mend it.
//!
//! ```text
//!   gather ─▶ Facts ─▶ View ─▶ the table of checks ─▶ HostReport
//!            (saved,   with Target, and facts of        (text, JSON)
//!             compared) before a run, and of the peer
//! ```
//!
//! A check sees facts and nothing else, so a host can be judged elsewhere and later, and a test can make any host.
//!
//! | verdict | means |
//! |---|---|
//! | fail | a counter rose: something was lost |
//! | warn | a rule is broken |
//! | info | sources disagree, or it is worth knowing |
//! | pass | as wanted |
//! | unknown | it could not be read |
//! | not applicable | it means nothing on this host |
//!
//! Limits: one interface at a time. Reading needs no root; what does is unknown without.

mod apply;
mod check;
pub mod checks;
mod diff;
mod facts;
mod fix;
mod found;
mod gather;
mod peer;
mod reference;
mod report;
mod target;
mod view;

pub use apply::{
    Change, Done, HostSettings, Journal, Settings, Undone, apply, parse_journal, planned, read_journal, undo,
    would_undo,
};
pub use check::{Check, Gain, Kernels, SOURCES, Severity};
pub use diff::{CheckChange, Difference, FactChange, load, read as read_snapshot, save};
pub use facts::{Fact, Facts};
pub use fix::{Fix, Setting};
pub use found::{Examined, Found, Gap, Verdict};
pub use gather::{Asked, Devices, ThisHost, count_again, gather};
pub use peer::{BothEnds, HostService, ask, note_peer};
pub use reference::reference;
pub use report::{HostReport, Line, Watched, selection};
pub use target::{BUFFER_MOST, Role, Target, WINDOW_MOST};
pub use view::View;
