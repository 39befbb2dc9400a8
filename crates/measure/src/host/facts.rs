//! What was read of a host: one value for each name. This is what `--save` writes, what `--diff` and `--peer` compare, and all
//! that a check sees.
//!
//! | name | is |
//! |---|---|
//! | `/proc/…`, `/sys/…` | the text of that file, without white space at its end |
//! | `ethtool/X/…`, `link/X/…`, `qdisc/X/…`, `route/…` | what the kernel said of interface X |
//! | `count/…` | a counter, which only rises |
//! | `host/…`, `process/…`, `irq/…`, `clock/…`, … | what was found out from several files |

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The form of a saved snapshot.
pub(super) const VERSION: u32 = 1;

/// One value, or why there is none.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Fact {
    /// The value.
    Text(String),
    /// It is there, and could not be read.
    Unreadable {
        /// Why not.
        unreadable: String,
    },
}

/// A snapshot of a host.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Facts {
    /// The form of this.
    pub version: u32,
    /// Name of the host.
    pub host: String,
    /// Release of its kernel.
    pub kernel: String,
    /// The interface that carries the data.
    pub interface: String,
    /// What was read, by name.
    pub facts: BTreeMap<String, Fact>,
}

impl Facts {
    /// A value.
    #[must_use]
    pub fn text(&self, name: &str) -> Option<&str> {
        match self.facts.get(name) {
            Some(Fact::Text(text)) => Some(text),
            _ => None,
        }
    }

    /// A value that is a number.
    #[must_use]
    pub fn number(&self, name: &str) -> Option<u64> {
        self.text(name)?.trim().parse().ok()
    }

    /// Note a value.
    #[expect(clippy::needless_pass_by_value, reason = "numbers and text alike")]
    pub fn note(&mut self, name: impl Into<String>, value: impl ToString) {
        self.facts.insert(name.into(), Fact::Text(value.to_string()));
    }

    /// Note that a value cannot be read.
    #[expect(clippy::needless_pass_by_value, reason = "numbers and text alike")]
    pub fn unreadable(&mut self, name: impl Into<String>, why: impl ToString) {
        self.facts.insert(name.into(), Fact::Unreadable { unreadable: why.to_string() });
    }

    /// Every value whose name begins and ends so, with what is between.
    pub fn each<'a>(
        &'a self,
        head: &'a str,
        tail: &'a str,
    ) -> impl Iterator<Item = (&'a str, &'a str)> + use<'a> {
        let from = self.facts.range(head.to_owned()..).take_while(move |(name, _)| name.starts_with(head));
        from.filter_map(move |(name, fact)| match fact {
            Fact::Text(text) => Some((name[head.len()..].strip_suffix(tail)?, text.as_str())),
            Fact::Unreadable { .. } => None,
        })
    }

    /// Major and minor number of the kernel; zeros if it has none.
    #[must_use]
    pub fn kernel_version(&self) -> (u32, u32) {
        let mut numbers = self.kernel.split(|c: char| !c.is_ascii_digit()).map(|n| n.parse().unwrap_or(0));
        (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0))
    }

    /// Bits per second of the link, if the kernel knows.
    #[must_use]
    pub fn link_rate(&self) -> Option<u64> {
        let speed = self.text(&format!("/sys/class/net/{}/speed", self.interface))?.parse::<i64>().ok()?;
        u64::try_from(speed).ok().filter(|speed| *speed > 0).map(|speed| speed.saturating_mul(1_000_000))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_found_by_name_and_by_pattern() {
        let mut facts = Facts { kernel: "6.18.44-x".into(), interface: "eth0".into(), ..Facts::default() };
        for cpu in [0, 1] {
            facts.note(format!("/cpu{cpu}/governor"), "performance");
            facts.note(format!("/cpu{cpu}/driver"), "x");
        }
        facts.unreadable("/cpu2/governor", "denied");
        facts.note("/sys/class/net/eth0/speed", 100_000);
        assert_eq!(
            facts.each("/cpu", "/governor").collect::<Vec<_>>(),
            [("0", "performance"), ("1", "performance")]
        );
        assert_eq!((facts.text("/cpu2/governor"), facts.kernel_version()), (None, (6, 18)));
        assert_eq!(facts.link_rate(), Some(100_000_000_000));
        facts.note("/sys/class/net/eth0/speed", -1);
        assert_eq!(facts.link_rate(), None);
        let text = serde_json::to_string(&facts).unwrap();
        assert_eq!(serde_json::from_str::<Facts>(&text).unwrap(), facts);
    }
}
