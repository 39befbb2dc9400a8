//! A host as a check sees it: facts, what it is wanted for, what the facts were before, and those of the peer.

use super::facts::{Fact, Facts};
use super::found::{Found, Gap, not_applicable, unknown};
use super::target::Target;
use std::collections::BTreeSet;

/// The processors.
pub(super) const CPUS: &str = "/sys/devices/system/cpu/";

/// What a check sees.
#[derive(Clone, Copy, Debug)]
pub struct View<'a> {
    /// What was read.
    pub facts: &'a Facts,
    /// What was read before a run, if this is after one.
    pub before: Option<&'a Facts>,
    /// What was read of the other end.
    pub peer: Option<&'a Facts>,
    /// What the host is wanted for.
    pub target: &'a Target,
}

impl<'a> View<'a> {
    /// A value, if it is there and readable.
    pub(super) fn maybe(&self, name: &str) -> Option<&'a str> {
        self.facts.text(name)
    }

    /// A value.
    pub(super) fn text(&self, name: &str) -> Result<&'a str, Gap> {
        match self.facts.facts.get(name) {
            Some(Fact::Text(text)) => Ok(text),
            Some(Fact::Unreadable { unreadable }) => unknown(format!("{name}: {unreadable}")),
            None => unknown(format!("{name} is not there")),
        }
    }

    /// A value that is a number.
    pub(super) fn number(&self, name: &str) -> Result<u64, Gap> {
        let text = self.text(name)?;
        text.parse().map_err(|_| Gap::Unknown(format!("{name} is '{text}', which is no number")))
    }

    /// The numbers of a value.
    pub(super) fn numbers(&self, name: &str) -> Result<Vec<u64>, Gap> {
        let text = self.text(name)?;
        let numbers: Option<Vec<u64>> = text.split_whitespace().map(|word| word.parse().ok()).collect();
        numbers.filter(|all| !all.is_empty()).ok_or_else(|| Gap::Unknown(format!("{name} is '{text}'")))
    }

    /// Values whose names begin and end so, with what is between.
    pub(super) fn each(&self, head: &'a str, tail: &'a str) -> Vec<(&'a str, &'a str)> {
        self.facts.each(head, tail).collect()
    }

    /// Why none of the values with such names can be read, if that is so.
    pub(super) fn denied(&self, head: &str, tail: &str) -> Result<(), Gap> {
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
    pub(super) fn asked(&self, name: &str) -> Result<&'a str, Gap> {
        match self.text(&self.card(name)) {
            Err(_) if self.is_virtual() => {
                not_applicable(format!("the driver of {} has no {name}", self.interface()))
            }
            other => other,
        }
    }

    /// As [`asked`](Self::asked), a number.
    pub(super) fn asked_number(&self, name: &str) -> Result<u64, Gap> {
        let text = self.asked(name)?;
        text.parse().map_err(|_| Gap::Unknown(format!("{name} is '{text}', which is no number")))
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
    pub(super) fn on_metal(&self) -> Result<(), Gap> {
        if self.is_guest() { not_applicable("a virtual machine: its host decides this") } else { Ok(()) }
    }

    /// Nothing to judge in a virtual machine or a container.
    pub(super) fn on_host(&self) -> Result<(), Gap> {
        self.on_metal()?;
        match self.maybe("host/container") {
            Some(_) => not_applicable("a container: its host decides this"),
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
    pub(super) fn counters(&self, risen: &[(&str, u64)], what: &str) -> Found {
        let list: Vec<String> = risen.iter().map(|(name, by)| format!("{name} {by}")).collect();
        let (value, wanted) = (list.join(", "), format!("no {what}"));
        match (risen.is_empty(), self.before.is_some()) {
            (true, true) => Found::pass("none while it ran", wanted),
            (true, false) => Found::pass("none since the start", wanted),
            (false, true) => Found::fail(format!("{value} while it ran"), wanted),
            (false, false) => Found::info(format!("{value} since the start"), wanted)
                .shows("whether they rise under load: skyhaul host --watch COMMAND"),
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
    pub(super) fn sysctl(&self, name: &str) -> Result<u64, Gap> {
        self.number(&sysctl(name))
    }

    /// A sysctl that is as it should be, or a warning with the setting.
    pub(super) fn sysctl_is(&self, name: &str, wanted: u64) -> Result<Found, Gap> {
        let value = self.sysctl(name)?;
        Ok(Found::rule(value == wanted, value.to_string(), wanted.to_string()).set(sysctl(name), wanted))
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
