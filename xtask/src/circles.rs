//! No circle of imports between the files of a crate.
//!
//! A file that imports from another can be read after it. In a circle there is no first file: to understand one is to
//! understand all, and none can be taken out, tested or replaced alone. What two files need of each other belongs in a
//! third, below both.
//!
//! ```text
//!   a.rs ─▶ b.rs ─▶ c.rs         an arrow: a `use`, or a path in the code, that names something in the other file
//!             ▲───────┘          found: b.rs, c.rs, and one import for each arrow between them
//! ```
//!
//! What a file re-exports lies where it is defined: `use super::X` is an arrow to the child that the parent has X from.
//! A parent that only re-exports from its children (`pub use child::X`) needs nothing of them, so they may use what it
//! holds. Tests are left out. Circles that stood when the rule came, and stand still, are lines of `xtask/circles.txt`:
//! a line may lose files and go, and none may come.
//!
//! Limits: this reads names, not types. A method is no arrow, and a glob (`use a::*`) is one to the module it opens.

mod names;
mod resolve;

use crate::source::Source;
use resolve::Modules;
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

/// Circles that stand still: a line for each, its files separated by spaces.
pub(crate) const KEPT: &str = "xtask/circles.txt";

/// Which file imports from which, and where.
type Arrows = BTreeMap<(PathBuf, PathBuf), String>;
type Circle = BTreeSet<PathBuf>;

/// Circles that nothing allows, and lines of `kept` that are out of date.
pub(crate) fn findings(sources: &BTreeMap<PathBuf, Source>, kept: &str) -> Vec<String> {
    let mut all = Vec::new();
    for root in resolve::roots(sources) {
        let arrows = Modules::of(&root, sources).arrows();
        all.extend(circles(&arrows).into_iter().map(|circle| (shown(&circle, &arrows), circle)));
    }
    against_kept(all, kept)
}

/// Sets of files that reach each other, more than one in each.
fn circles(arrows: &Arrows) -> Vec<Circle> {
    let mut to: BTreeMap<&PathBuf, BTreeSet<&PathBuf>> = BTreeMap::new();
    let mut from: BTreeMap<&PathBuf, BTreeSet<&PathBuf>> = BTreeMap::new();
    for (a, b) in arrows.keys() {
        to.entry(a).or_default().insert(b);
        from.entry(b).or_default().insert(a);
    }
    let mut found: Vec<Circle> = Vec::new();
    for file in to.keys().filter(|file| from.contains_key(*file)) {
        if found.iter().any(|circle| circle.contains(*file)) {
            continue;
        }
        let (down, up) = (reach(file, &to), reach(file, &from));
        let circle: Circle = down.intersection(&up).map(|path| (*path).clone()).collect();
        if circle.len() > 1 {
            found.push(circle);
        }
    }
    found
}

fn reach<'a>(
    file: &'a PathBuf,
    next: &BTreeMap<&'a PathBuf, BTreeSet<&'a PathBuf>>,
) -> BTreeSet<&'a PathBuf> {
    let mut seen = BTreeSet::from([file]);
    let mut left = vec![file];
    while let Some(at) = left.pop() {
        left.extend(next.get(at).into_iter().flatten().copied().filter(|path| seen.insert(path)));
    }
    seen
}

/// The circle's files in order, then one import for each arrow between them.
fn shown(circle: &Circle, arrows: &Arrows) -> String {
    let inside = arrows.iter().filter(|((a, b), _)| circle.contains(a) && circle.contains(b));
    let lines = inside.map(|(_, place)| format!("\n    {place}"));
    format!("{}: import each other in a circle{}", line(circle), lines.collect::<String>())
}

fn line(circle: &Circle) -> String {
    circle.iter().map(|path| path.display().to_string()).collect::<Vec<_>>().join(" ")
}

fn against_kept(found: Vec<(String, Circle)>, kept: &str) -> Vec<String> {
    let lines = kept.lines().filter(|line| !line.starts_with('#') && !line.is_empty());
    let mut allowed: BTreeMap<Circle, bool> =
        lines.map(|line| (line.split(' ').map(PathBuf::from).collect(), false)).collect();
    let mut out = Vec::new();
    for (text, circle) in found {
        match allowed.iter_mut().find(|(files, _)| circle.is_subset(files)) {
            Some((files, used)) => {
                *used = true;
                if *files != circle {
                    out.push(format!("{KEPT}: a circle shrank: write `{}`", line(&circle)));
                }
            }
            None => out.push(text),
        }
    }
    let gone = allowed.iter().filter(|(_, used)| !**used);
    out.extend(gone.map(|(files, _)| format!("{KEPT}: no circle now, remove the line: {}", line(files))));
    out
}

#[cfg(test)]
mod tests;
