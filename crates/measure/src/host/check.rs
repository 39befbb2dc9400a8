//! One check: what the table says of it.

use super::found::Examined;
use super::view::View;
use serde::{Deserialize, Serialize};
use std::fmt;

/// What it costs to leave it as it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// A large part of the rate, or losses.
    High,
    /// Something under load.
    Medium,
    /// Little.
    Low,
}

/// What there is to gain.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Gain {
    /// Rate.
    Rate,
    /// Fewer losses.
    Loss,
    /// Steadier delays.
    Jitter,
    /// Less CPU time.
    Cpu,
    /// It tells where something is lost.
    Evidence,
}

/// The kernels that a check is for: from the first, before the second.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Kernels(pub Option<(u32, u32)>, pub Option<(u32, u32)>);

/// Every kernel.
pub(super) const ALL: Kernels = Kernels(None, None);

/// Every kernel from this one.
pub(super) const fn from(major: u32, minor: u32) -> Kernels {
    Kernels(Some((major, minor)), None)
}

impl Kernels {
    /// Whether they include this one; one that is not known is included.
    #[must_use]
    pub fn include(&self, kernel: (u32, u32)) -> bool {
        kernel == (0, 0)
            || (self.0.is_none_or(|first| kernel >= first) && self.1.is_none_or(|end| kernel < end))
    }
}

impl fmt::Display for Kernels {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.0, self.1) {
            (None, None) => f.write_str("all"),
            (Some((a, b)), None) => write!(f, "from {a}.{b}"),
            (None, Some((a, b))) => write!(f, "before {a}.{b}"),
            (Some((a, b)), Some((c, d))) => write!(f, "{a}.{b} to before {c}.{d}"),
        }
    }
}

/// Who recommends it, by letter.
pub const SOURCES: [(char, &str); 9] = [
    ('F', "fasterdata.es.net"),
    ('O', "OSG fasterdata-tuning"),
    ('P', "perfSONAR"),
    ('T', "tuned"),
    ('E', "ESnet testing-harness"),
    ('U', "udpmon"),
    ('K', "kernel documentation or engineering practice"),
    ('L', "read on a Linux 6.18 host"),
    ('D', "ESnet's guide to Fornax"),
];

/// A line of the table.
#[derive(Clone, Copy, Debug)]
pub struct Check {
    /// Its name: a letter of the group and a number.
    pub id: &'static str,
    /// What is checked.
    pub title: &'static str,
    /// What it costs to leave it.
    pub severity: Severity,
    /// What there is to gain.
    pub gain: Gain,
    /// Letters of [`SOURCES`].
    pub sources: &'static str,
    /// Kernels that it is for.
    pub kernels: Kernels,
    /// Why it matters.
    pub why: &'static str,
    /// How it is judged.
    pub examine: fn(&View<'_>) -> Examined,
}

/// The table of a group: `A1 "what" severity gain "sources" kernels function; "why"`.
macro_rules! table {
    ($(#[$doc:meta])* $name:ident: $($id:ident $title:literal $severity:ident $gain:ident $sources:literal $kernels:expr, $examine:ident: $why:literal;)*) => {
        $(#[$doc])*
        pub(in crate::host) const $name: &[$crate::host::check::Check] = &[$($crate::host::check::Check {
            id: stringify!($id),
            title: $title,
            severity: $crate::host::check::Severity::$severity,
            gain: $crate::host::check::Gain::$gain,
            sources: $sources,
            kernels: $kernels,
            why: $why,
            examine: $examine,
        }),*];
    };
}
pub(super) use table;
