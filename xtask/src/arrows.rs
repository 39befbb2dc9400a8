//! Which crate may depend on which, which module of the core on which, and no two files on each other ([`circles`]).
//!
//! ```text
//!   core  spectra  io  skyhaul  measure  transfer  mount  experiments  daemon  cli        a crate may use any crate to its left
//!   core ◀ sim                            sim may use core; tests of the others may use sim
//!   core ◀ spectra ◀ skyhaul              and no other crate has Fourier transforms
//!   daemon ◀ python                       and what lies left of daemon
//!   wire ─▶ placement ◀─ assembly         inside core: wire and assembly never meet
//!   balance ─▶ wire                       a balancer reads labels, and assembles nothing
//! ```
//!
//! `tokio` is reachable from daemon, cli and python only, and the core depends on nothing at all. `rustfft` and `realfft` are named by
//! spectra only: they are compiled where their types are named.

use crate::circles;
use crate::source::{Source, words};
use crate::workspace;
use anyhow::{Context, Result};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

/// Published crates, each allowed to use those before it.
const ORDER: [&str; 10] = [
    "skyhaul-core",
    "skyhaul-spectra",
    "skyhaul-io",
    "skyhaul",
    "skyhaul-measure",
    "skyhaul-transfer",
    "skyhaul-mount",
    "skyhaul-experiments",
    "skyhaul-daemon",
    "skyhaul-cli",
];
/// Crates beside the order, with all that each may use.
const BESIDE: [(&str, &[&str]); 5] = [
    ("skyhaul-sim", &["skyhaul-core"]),
    ("skyhaul-python", &["skyhaul-core", "skyhaul-io", "skyhaul", "skyhaul-daemon"]),
    (
        "skyhaul-fuzz",
        &[
            "skyhaul-core",
            "skyhaul-io",
            "skyhaul",
            "skyhaul-measure",
            "skyhaul-transfer",
            "skyhaul-daemon",
            "skyhaul-sim",
        ],
    ),
    ("skyhaul-packet-path", &["skyhaul-core", "skyhaul-io", "skyhaul"]),
    ("xtask", &[]),
];
/// The only crates from which an asynchronous runtime may be reached.
const ASYNC: [&str; 4] = ["skyhaul-daemon", "skyhaul-cli", "skyhaul-python", "skyhaul-fuzz"];

/// The only crate that depends on libraries of Fourier transforms, and these.
const TRANSFORMS: (&str, [&str; 2]) = ("skyhaul-spectra", ["realfft", "rustfft"]);

/// Everything that breaks an arrow, one line each.
pub(crate) fn findings() -> Result<Vec<String>> {
    let metadata = workspace::metadata()?;
    let graph = Graph::read(&metadata)?;
    let mut found = between_crates(&graph);
    found.extend(inside_core()?);
    found.extend(between_files()?);
    Ok(found)
}

/// Who depends on whom, by package name; the outer map holds the workspace's own crates.
struct Graph {
    own: BTreeSet<String>,
    normal: BTreeMap<String, BTreeSet<String>>,
    for_tests: BTreeMap<String, BTreeSet<String>>,
}

impl Graph {
    fn read(metadata: &Value) -> Result<Graph> {
        let list = |value: &Value, key: &str| value[key].as_array().cloned().unwrap_or_default();
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let names: BTreeMap<String, String> =
            list(metadata, "packages").iter().map(|p| (text(&p["id"]), text(&p["name"]))).collect();
        let name = |id: &Value| names.get(&text(id)).cloned().context("a package without a name");
        let mut graph = Graph { own: BTreeSet::new(), normal: BTreeMap::new(), for_tests: BTreeMap::new() };
        for id in list(metadata, "workspace_members") {
            graph.own.insert(name(&id)?);
        }
        for node in list(&metadata["resolve"], "nodes") {
            let from = name(&node["id"])?;
            for dependency in list(&node, "deps") {
                let to = name(&dependency["pkg"])?;
                for kind in list(&dependency, "dep_kinds") {
                    let side = if kind["kind"] == "dev" { &mut graph.for_tests } else { &mut graph.normal };
                    side.entry(from.clone()).or_default().insert(to.clone());
                }
            }
        }
        Ok(graph)
    }

    /// Everything that `from` links to when it is built, itself included.
    fn reach(&self, from: &str) -> BTreeSet<&str> {
        let mut seen = BTreeSet::new();
        let mut left = vec![from];
        while let Some(at) = left.pop() {
            for to in self.normal.get(at).into_iter().flatten() {
                if seen.insert(to.as_str()) {
                    left.push(to);
                }
            }
        }
        seen
    }
}

fn between_crates(graph: &Graph) -> Vec<String> {
    let none = BTreeSet::new();
    let mut found = Vec::new();
    for from in &graph.own {
        let Some(allowed) = allowed(from) else {
            found.push(format!("{from}: has no place in the order of crates (xtask/src/arrows.rs)"));
            continue;
        };
        for to in graph.normal.get(from).unwrap_or(&none) {
            if graph.own.contains(to) && !allowed.contains(&to.as_str()) {
                found.push(format!("{from} depends on {to}, which is not to its left"));
            }
            if from != TRANSFORMS.0 && TRANSFORMS.1.contains(&to.as_str()) {
                found.push(format!("{from} depends on {to}: only {} does", TRANSFORMS.0));
            }
            if from == ORDER[0] {
                found.push(format!("{from} depends on {to}: the core depends on nothing"));
            }
        }
        for to in graph.for_tests.get(from).unwrap_or(&none) {
            if graph.own.contains(to) && !allowed.contains(&to.as_str()) && to != "skyhaul-sim" {
                found.push(format!("tests of {from} use {to}, which is not to its left"));
            }
        }
        if !ASYNC.contains(&from.as_str()) && graph.reach(from).contains("tokio") {
            found.push(format!("{from} reaches tokio"));
        }
    }
    found
}

/// The crates of this workspace that `crate_name` may use.
fn allowed(crate_name: &str) -> Option<Vec<&'static str>> {
    if let Some(at) = ORDER.iter().position(|name| *name == crate_name) {
        return Some(ORDER[..at].to_vec());
    }
    BESIDE.iter().find(|(name, _)| *name == crate_name).map(|(_, may)| may.to_vec())
}

/// Uses of one module of the core by another that must not know it.
fn inside_core() -> Result<Vec<String>> {
    const CLOSED: [(&str, &[&str]); 4] = [
        ("wire", &["assembly", "balance"]),
        ("assembly", &["wire", "balance"]),
        ("balance", &["assembly"]),
        ("placement", &["wire", "assembly", "balance", "pace", "measure", "packetize"]),
    ];
    let mut found = Vec::new();
    for path in workspace::files()? {
        let Ok(inner) = path.strip_prefix("crates/core/src") else { continue };
        let module = inner.components().next().map(|part| part.as_os_str().to_string_lossy().into_owned());
        let module = module.unwrap_or_default();
        let module = module.strip_suffix(".rs").unwrap_or(&module);
        let Some((_, closed)) = CLOSED.iter().find(|(name, _)| *name == module) else { continue };
        let text = std::fs::read_to_string(workspace::root().join(&path))?;
        for (line, other) in uses(&Source::new(&text).code, closed) {
            found.push(format!("{}:{line}: {module} uses {other}", path.display()));
        }
    }
    Ok(found)
}

/// Circles of files that import from each other.
fn between_files() -> Result<Vec<String>> {
    let mut sources = BTreeMap::new();
    for path in workspace::files()? {
        if path.extension().is_some_and(|end| end == "rs") {
            let text = std::fs::read_to_string(workspace::root().join(&path))?;
            sources.insert(path, Source::new(&text));
        }
    }
    let kept = workspace::root().join(circles::KEPT);
    let kept = std::fs::read_to_string(&kept).with_context(|| format!("read {}", kept.display()))?;
    Ok(circles::findings(&sources, &kept))
}

/// Lines of `code` that name one of `modules` as part of a path.
fn uses<'a>(code: &'a str, modules: &[&str]) -> Vec<(usize, &'a str)> {
    words(code)
        .filter(|(at, word)| {
            let before = code[..*at].trim_end();
            let after = code[at + word.len()..].trim_start();
            let in_path =
                after.starts_with("::") || before.ends_with("crate::") || before.ends_with("super::");
            in_path && modules.contains(word)
        })
        .map(|(at, word)| (code[..at].matches('\n').count() + 1, word))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_arrows_hold() {
        let found = findings().unwrap();
        assert!(found.is_empty(), "\n{}", found.join("\n"));
    }

    fn graph(normal: &[(&str, &str)], for_tests: &[(&str, &str)]) -> Graph {
        let mut graph = Graph { own: BTreeSet::new(), normal: BTreeMap::new(), for_tests: BTreeMap::new() };
        for name in ORDER.iter().chain(&["skyhaul-sim"]) {
            graph.own.insert((*name).to_owned());
        }
        for &(from, to) in normal {
            graph.normal.entry(from.to_owned()).or_default().insert(to.to_owned());
        }
        for &(from, to) in for_tests {
            graph.for_tests.entry(from.to_owned()).or_default().insert(to.to_owned());
        }
        graph
    }

    #[test]
    fn an_arrow_to_the_left_may_skip_crates() {
        assert_eq!(
            between_crates(&graph(&[("skyhaul-cli", "skyhaul-core")], &[("skyhaul-io", "skyhaul-sim")])),
            [""; 0]
        );
    }

    #[test]
    fn an_arrow_to_the_right_is_found() {
        assert_eq!(between_crates(&graph(&[("skyhaul-io", "skyhaul")], &[])).len(), 1);
        assert_eq!(between_crates(&graph(&[("skyhaul", "skyhaul-sim")], &[])).len(), 1);
        assert_eq!(between_crates(&graph(&[], &[("skyhaul-core", "skyhaul-io")])).len(), 1);
    }

    #[test]
    fn transforms_have_one_home() {
        assert_eq!(between_crates(&graph(&[("skyhaul-spectra", "rustfft")], &[])), [""; 0]);
        assert_eq!(
            between_crates(&graph(&[("skyhaul", "rustfft")], &[])),
            ["skyhaul depends on rustfft: only skyhaul-spectra does"]
        );
    }

    #[test]
    fn a_runtime_is_found_at_any_depth() {
        let deep = [("skyhaul-io", "a"), ("a", "b"), ("b", "tokio")];
        assert_eq!(between_crates(&graph(&deep, &[])), ["skyhaul-io reaches tokio"]);
        assert_eq!(between_crates(&graph(&[("skyhaul-daemon", "tokio")], &[])), [""; 0]);
    }

    #[test]
    fn modules_are_found_in_paths_and_lists() {
        let code =
            "use crate::{placement::Reject,\n assembly::Assembly};\nlet assembly = 1; use crate::assembly;";
        assert_eq!(uses(code, &["assembly"]), [(2, "assembly"), (3, "assembly")]);
    }
}
