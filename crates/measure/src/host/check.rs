//! A check: a line of the table, and the host as the check sees it ([`HostView`]).

use super::facts::{Fact, Facts};
use super::found::{CheckOutcome, CheckResult, NotJudged, not_applicable, unknown};
use super::target::HostTarget;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::fmt;

/// The impact of leaving it as it is.
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

/// What a fix improves.
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
    /// The impact of leaving it.
    pub severity: Severity,
    /// What a fix improves.
    pub gain: Gain,
    /// Letters of [`SOURCES`].
    pub sources: &'static str,
    /// Kernels to which it applies.
    pub kernels: Kernels,
    /// Why it matters.
    pub why: &'static str,
    /// How it is judged.
    pub examine: fn(&HostView<'_>) -> CheckOutcome,
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

/// The processors.
pub(super) const CPUS: &str = "/sys/devices/system/cpu/";

/// What a check sees.
#[derive(Clone, Copy, Debug)]
pub struct HostView<'a> {
    /// What was read.
    pub facts: &'a Facts,
    /// What was read before a run, if this is after one.
    pub before: Option<&'a Facts>,
    /// What was read of the other end.
    pub peer: Option<&'a Facts>,
    /// What the host is wanted for.
    pub target: &'a HostTarget,
}

impl<'a> HostView<'a> {
    /// A value, if it is there and readable.
    pub(super) fn maybe(&self, name: &str) -> Option<&'a str> {
        self.facts.text(name)
    }

    /// A value.
    pub(super) fn text(&self, name: &str) -> Result<&'a str, NotJudged> {
        match self.facts.facts.get(name) {
            Some(Fact::Text(text)) => Ok(text),
            Some(Fact::Unreadable { unreadable }) => unknown(format!("{name}: {unreadable}")),
            None => unknown(format!("{name} does not exist")),
        }
    }

    /// A value that is a number.
    pub(super) fn number(&self, name: &str) -> Result<u64, NotJudged> {
        let text = self.text(name)?;
        text.parse().map_err(|_| NotJudged::Unknown(format!("{name} is '{text}', which is not a number")))
    }

    /// The numbers of a value.
    pub(super) fn numbers(&self, name: &str) -> Result<Vec<u64>, NotJudged> {
        let text = self.text(name)?;
        let numbers: Option<Vec<u64>> = text.split_whitespace().map(|word| word.parse().ok()).collect();
        numbers.filter(|all| !all.is_empty()).ok_or_else(|| NotJudged::Unknown(format!("{name} is '{text}'")))
    }

    /// Values whose names begin and end so, with what is between.
    pub(super) fn each(&self, head: &'a str, tail: &'a str) -> Vec<(&'a str, &'a str)> {
        self.facts.each(head, tail).collect()
    }

    /// Why none of the values with such names can be read, if that is so.
    pub(super) fn denied(&self, head: &str, tail: &str) -> Result<(), NotJudged> {
        let all = self.facts.facts.iter();
        let denied = all.filter(|(name, _)| name.starts_with(head) && name.ends_with(tail)).find_map(
            |(name, fact)| match fact {
                Fact::Unreadable { unreadable } => Some(format!("{name}: {unreadable}")),
                Fact::Text(_) => None,
            },
        );
        denied.map_or(Ok(()), unknown)
    }

    /// The interface of the data.
    pub(super) fn interface(&self) -> &'a str {
        &self.facts.interface
    }

    /// The name of what `/sys` says of the interface.
    pub(super) fn net(&self, name: &str) -> String {
        format!("/sys/class/net/{}/{name}", self.interface())
    }

    /// The name of what the card says.
    pub(super) fn card(&self, name: &str) -> String {
        format!("ethtool/{}/{name}", self.interface())
    }

    /// What the card says; what the card of a guest does not say means nothing there.
    pub(super) fn asked(&self, name: &str) -> Result<&'a str, NotJudged> {
        match self.text(&self.card(name)) {
            Err(_) if self.is_virtual() => {
                not_applicable(format!("the driver of {} has no {name}", self.interface()))
            }
            other => other,
        }
    }

    /// As [`asked`](Self::asked), a number.
    pub(super) fn asked_number(&self, name: &str) -> Result<u64, NotJudged> {
        let text = self.asked(name)?;
        text.parse().map_err(|_| NotJudged::Unknown(format!("{name} is '{text}', which is not a number")))
    }

    /// Whether the interface is made of software, or belongs to a guest.
    pub(super) fn is_virtual(&self) -> bool {
        self.is_guest() || self.maybe("net/virtual") == Some("yes")
    }

    /// Whether this is a virtual machine.
    pub(super) fn is_guest(&self) -> bool {
        self.maybe("host/machine") == Some("guest")
    }

    /// Nothing to judge in a virtual machine, whose host decides this.
    pub(super) fn on_metal(&self) -> Result<(), NotJudged> {
        if self.is_guest() { not_applicable("a virtual machine: set by its host") } else { Ok(()) }
    }

    /// Nothing to judge in a virtual machine or a container.
    pub(super) fn on_host(&self) -> Result<(), NotJudged> {
        self.on_metal()?;
        match self.maybe("host/container") {
            Some(_) => not_applicable("a container: set by its host"),
            None => Ok(()),
        }
    }

    /// By how much a counter rose since before; none if there is no before.
    pub(super) fn rose(&self, name: &str) -> Option<u64> {
        let now = self.facts.number(name)?;
        Some(now.saturating_sub(self.before?.number(name).unwrap_or(0)))
    }

    /// Counters whose names begin so and satisfy `wanted`, if they rose, or without a before, if they are not zero.
    pub(super) fn risen(&self, head: &'a str, wanted: impl Fn(&str) -> bool) -> Vec<(&'a str, u64)> {
        let all = self.facts.each(head, "").filter(|(name, _)| wanted(name));
        let risen = all.filter_map(|(name, value)| {
            let by = match self.before {
                Some(_) => self.rose(&format!("{head}{name}"))?,
                None => value.parse().ok()?,
            };
            (by > 0).then_some((name, by))
        });
        risen.collect()
    }

    /// What counters say: a failure if some rose since before; worth knowing if they did some time.
    pub(super) fn counters(&self, risen: &[(&str, u64)], what: &str) -> CheckResult {
        let list: Vec<String> = risen.iter().map(|(name, by)| format!("{name} {by}")).collect();
        let (value, wanted) = (list.join(", "), format!("no {what}"));
        match (risen.is_empty(), self.before.is_some()) {
            (true, true) => CheckResult::pass("none during the run", wanted),
            (true, false) => CheckResult::pass("none since boot", wanted),
            (false, true) => CheckResult::fail(format!("{value} during the run"), wanted),
            (false, false) => CheckResult::info(format!("{value} since boot"), wanted)
                .shows("to see whether they rise under load: skyhaul host --watch -- COMMAND"),
        }
    }

    /// Processors near the card.
    pub(super) fn near(&self) -> Option<BTreeSet<usize>> {
        self.maybe(&self.net("device/local_cpulist")).map(cpu_list).filter(|list| !list.is_empty())
    }

    /// Processors that run.
    pub(super) fn processors(&self) -> BTreeSet<usize> {
        self.maybe("/sys/devices/system/cpu/online").map(cpu_list).unwrap_or_default()
    }

    /// Nodes of memory.
    pub(super) fn nodes(&self) -> usize {
        self.facts.each("/sys/devices/system/node/node", "/cpulist").count()
    }

    /// Queues that receive.
    pub(super) fn queues(&self) -> usize {
        let prefix = self.net("queues/rx-");
        let all = self.facts.facts.keys().filter_map(|name| name.strip_prefix(&prefix));
        all.filter(|rest| rest.ends_with("/rps_cpus")).count()
    }

    /// Bytes of an IP packet on the interface.
    pub(super) fn mtu(&self) -> u64 {
        self.facts.number(&self.net("mtu")).unwrap_or(1500)
    }

    /// The sysctl of this name.
    pub(super) fn sysctl(&self, name: &str) -> Result<u64, NotJudged> {
        self.number(&sysctl(name))
    }

    /// A sysctl that is as it should be, or a warning with the setting.
    pub(super) fn sysctl_is(&self, name: &str, wanted: u64) -> Result<CheckResult, NotJudged> {
        let value = self.sysctl(name)?;
        Ok(CheckResult::rule(value == wanted, value.to_string(), wanted.to_string())
            .set(sysctl(name), wanted))
    }
}

/// The file of a sysctl.
pub(super) fn sysctl(name: &str) -> String {
    format!("/proc/sys/{}", name.replace('.', "/"))
}

/// The value in brackets: `always [madvise] never`.
pub(super) fn chosen(text: &str) -> &str {
    text.split_once('[').and_then(|(_, rest)| rest.split_once(']')).map_or(text, |(chosen, _)| chosen)
}

/// A list of processors: `0-3,8`.
pub(super) fn cpu_list(text: &str) -> BTreeSet<usize> {
    let ranges = text.trim().split(',').filter_map(|range| {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        Some(first.parse::<usize>().ok()?..=last.parse::<usize>().ok()?.min(1 << 16))
    });
    ranges.flatten().collect()
}

/// How many of each value there are: `performance on 62, powersave on 2`.
pub(super) fn tally<'a>(values: impl Iterator<Item = &'a str>) -> String {
    let mut counts: Vec<(&str, usize)> = Vec::new();
    for value in values {
        match counts.iter_mut().find(|(known, _)| *known == value) {
            Some((_, count)) => *count += 1,
            None => counts.push((value, 1)),
        }
    }
    match counts[..] {
        [(only, _)] => only.to_owned(),
        _ => counts.iter().map(|(value, n)| format!("{value} on {n}")).collect::<Vec<_>>().join(", "),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_kernel_writes_is_read() {
        assert_eq!(cpu_list("0-3,8\n"), BTreeSet::from([0, 1, 2, 3, 8]));
        assert_eq!(cpu_list(""), BTreeSet::new());
        assert_eq!(chosen("always [madvise] never"), "madvise");
        assert_eq!(chosen("none"), "none");
        assert_eq!(tally(["a", "b", "a"].into_iter()), "a on 2, b on 1");
        assert_eq!(tally(["a", "a"].into_iter()), "a");
    }
}
