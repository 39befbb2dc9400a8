//! Two snapshots side by side: of one host before and after, or of two hosts.
//!
//! Interfaces are compared whatever their names are. Counters, and what changes from one moment to the next, are left out.

use super::facts::{Fact, Facts, VERSION};
use super::found::Verdict;
use super::report::HostReport;
use super::target::Target;
use super::view::View;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::Path;

/// Octets of a snapshot, at most: a host of a thousand processors has a tenth of it.
const MOST: u64 = 32 << 20;
/// What stands for the interface of the data.
const INTERFACE: &str = "{interface}";

/// One fact that differs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FactChange {
    /// Its name, with `{interface}` for that of the data.
    pub name: String,
    /// In the first; none if it is not there.
    pub a: Option<String>,
    /// In the second.
    pub b: Option<String>,
}

/// One check that concludes something else, or sees another value.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CheckChange {
    /// Its name.
    pub id: String,
    /// What is checked.
    pub title: String,
    /// Verdict and value in the first.
    pub a: (Verdict, String),
    /// In the second.
    pub b: (Verdict, String),
}

/// What differs between two snapshots.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Difference {
    /// Host, kernel and interface of the first.
    pub a: String,
    /// Of the second.
    pub b: String,
    /// Checks that differ.
    pub checks: Vec<CheckChange>,
    /// Facts that differ.
    pub facts: Vec<FactChange>,
}

impl Difference {
    /// Compare two snapshots, judged for the same use.
    #[must_use]
    pub fn new(a: &Facts, b: &Facts, target: &Target, only: &[String]) -> Self {
        let report =
            |facts: &Facts| HostReport::new(&View { facts, before: None, peer: None, target }, only).checks;
        let checks = report(a)
            .into_iter()
            .zip(report(b))
            .filter(|(a, b)| (a.verdict, &a.value) != (b.verdict, &b.value));
        let checks = checks
            .map(|(a, b)| CheckChange {
                id: a.id,
                title: a.title,
                a: (a.verdict, a.value),
                b: (b.verdict, b.value),
            })
            .collect();
        let (of_a, of_b) = (settled(a), settled(b));
        let names: BTreeSet<&String> = of_a.keys().chain(of_b.keys()).collect();
        let changed = names.into_iter().filter(|name| of_a.get(*name) != of_b.get(*name));
        let facts = changed
            .map(|name| FactChange {
                name: name.clone(),
                a: of_a.get(name).cloned(),
                b: of_b.get(name).cloned(),
            })
            .collect();
        let title = |of: &Facts| format!("{}, Linux {}, interface {}", of.host, of.kernel, of.interface);
        Self { a: title(a), b: title(b), checks, facts }
    }
}

/// What does not change from one moment to the next, under names without that of the interface.
fn settled(facts: &Facts) -> BTreeMap<String, String> {
    let moving = |name: &str| {
        name.starts_with("count/")
            || name.ends_with("_error_us")
            || name.ends_with("/rtt_us")
            || name.ends_with("#free")
            || name.ends_with("/temperature")
            || name.ends_with("nf_conntrack_count")
            || name == "memory/bandwidth"
    };
    let text = |fact: &Fact| match fact {
        Fact::Text(text) => {
            let named = |word| if word == facts.interface { INTERFACE } else { word };
            text.split(' ').map(named).collect::<Vec<_>>().join(" ")
        }
        Fact::Unreadable { unreadable } => format!("unreadable: {unreadable}"),
    };
    let renamed = |name: &str| {
        let parts = name.split('/').map(|part| if part == facts.interface { INTERFACE } else { part });
        parts.collect::<Vec<_>>().join("/")
    };
    let all = facts.facts.iter().filter(|(name, _)| !moving(name));
    all.map(|(name, fact)| (renamed(name), text(fact))).collect()
}

/// Read a snapshot that was saved.
///
/// # Errors
/// It cannot be read, is none, or is of another version; each with a hint.
pub fn load(path: &Path) -> io::Result<Facts> {
    let text = skyhaul_io::file::read_small(path, MOST as usize)?;
    read(&text).map_err(|why| {
        let hint = "`skyhaul host --save FILE` writes one";
        io::Error::new(
            io::ErrorKind::InvalidData,
            format!("{} is no snapshot of a host: {why}; hint: {hint}", path.display()),
        )
    })
}

/// Read the octets of a snapshot.
///
/// # Errors
/// Why it is none.
pub fn read(octets: &[u8]) -> Result<Facts, String> {
    if octets.len() as u64 > MOST {
        return Err(format!("it has more than {} MiB", MOST >> 20));
    }
    let facts: Facts = serde_json::from_slice(octets).map_err(|error| error.to_string())?;
    if facts.version == VERSION {
        Ok(facts)
    } else {
        Err(format!("it has version {}, and this reads {VERSION}", facts.version))
    }
}

/// Write a snapshot.
///
/// # Errors
/// It cannot be written; with a hint.
pub fn save(facts: &Facts, path: &Path) -> io::Result<()> {
    let text = serde_json::to_vec_pretty(facts).map_err(io::Error::other)?;
    std::fs::write(path, text).map_err(|error| skyhaul_io::file::failed("write", path, &error))
}
