//! From a path to the file that holds what it names: down the modules, and through re-exports.

use super::names::{Named, Names};
use crate::source::Source;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// The files of one crate, by the module each is: `wire::vdif`, and nothing for the root.
pub(super) struct Modules {
    files: BTreeMap<Vec<String>, (PathBuf, Names)>,
}

/// Re-exports of re-exports are followed this far; a longer chain is one that never ends.
const DEEPEST: usize = 16;

impl Modules {
    /// Every file that the crate with this root declares, outside tests.
    pub(super) fn of(root: &Path, sources: &BTreeMap<PathBuf, Source>) -> Modules {
        let mut files = BTreeMap::new();
        let mut left = vec![(Vec::new(), root.to_path_buf())];
        while let Some((module, path)) = left.pop() {
            let Some(source) = sources.get(&path) else { continue };
            let names = Names::read(&source.outside_tests());
            let directory = if module.is_empty() || path.ends_with("mod.rs") {
                path.with_file_name("")
            } else {
                path.with_extension("")
            };
            for child in &names.modules {
                let beside = directory.join(format!("{child}.rs"));
                let within = directory.join(child).join("mod.rs");
                let file = if sources.contains_key(&beside) { beside } else { within };
                left.push(([module.as_slice(), std::slice::from_ref(child)].concat(), file));
            }
            files.insert(module, (path, names));
        }
        Modules { files }
    }

    /// Which file of the crate imports from which other, and the first place where it does.
    pub(super) fn arrows(&self) -> BTreeMap<(PathBuf, PathBuf), String> {
        let mut arrows = BTreeMap::new();
        for (module, (file, names)) in &self.files {
            let imports = names.uses.iter().filter(|one| {
                // A signpost to a file further down sends others there; this file needs nothing of it.
                let below = self.target(module, &one.target, 0).is_some_and(|to| to.starts_with(module));
                !(one.signpost && below)
            });
            for named in imports.map(|one| &one.target).chain(&names.paths) {
                let Some(to) = self.target(module, named, 0) else { continue };
                // To import a module is to import what is then named through it.
                let only_opens = self.is_module(module, named);
                if to != module.as_slice() && !only_opens {
                    let arrow = (file.clone(), self.files[to].0.clone());
                    let place = format!("{}:{}: {}", file.display(), named.line, named.path.join("::"));
                    arrows.entry(arrow).or_insert(place);
                }
            }
        }
        arrows
    }

    /// The module whose file holds what `named` names in `module`; none if that lies in another crate.
    fn target(&self, module: &[String], named: &Named, depth: usize) -> Option<&[String]> {
        let (at, left) = self.start(module, named)?;
        self.descend(&at, left, depth).map(|(to, _)| to)
    }

    /// Whether `named` is a module and no item in one.
    fn is_module(&self, module: &[String], named: &Named) -> bool {
        let start = self.start(module, named);
        start.and_then(|(at, left)| self.descend(&at, left, 0)).is_some_and(|(_, left)| left == 0)
    }

    /// The module that a path starts from, and its steps from there.
    fn start<'a>(&self, module: &[String], named: &'a Named) -> Option<(Vec<String>, &'a [String])> {
        let mut at = module.to_vec();
        let (mut left, mut inside) = (named.path.as_slice(), named.inside);
        match left.first()?.as_str() {
            "crate" => (at, left) = (Vec::new(), &left[1..]),
            "self" => left = &left[1..],
            "super" => {
                while left.first().is_some_and(|step| step == "super") {
                    if inside > 0 {
                        inside -= 1;
                    } else {
                        at.pop();
                    }
                    left = &left[1..];
                }
            }
            // A plain path begins in this file, or in another crate.
            head => {
                let names = &self.files.get(module)?.1;
                let opens = |one: &super::names::Use| one.name == head && one.target.path != named.path;
                if !names.modules.contains(head) && !names.uses.iter().any(opens) {
                    return None;
                }
            }
        }
        Some((at, left))
    }

    /// Down from module `at` along `path`: the module reached, and how many steps of the path lie inside its file.
    fn descend(&self, at: &[String], path: &[String], depth: usize) -> Option<(&[String], usize)> {
        let (module, (_, names)) = self.files.get_key_value(at)?;
        let Some(step) = path.first() else { return Some((module, 0)) };
        if names.modules.contains(step) {
            let child = [at, std::slice::from_ref(step)].concat();
            return self.descend(&child, &path[1..], depth);
        }
        let brought = names.uses.iter().find(|one| one.name == *step && one.target.inside == 0);
        match brought {
            Some(one) if depth < DEEPEST => {
                let (from, mut onward) =
                    self.start(module, &one.target).map(|(from, left)| (from, left.to_vec()))?;
                onward.extend_from_slice(&path[1..]);
                self.descend(&from, &onward, depth + 1)
            }
            _ => Some((module, path.len())),
        }
    }
}

/// The roots of all crates in `sources`: libraries, programs and examples.
pub(super) fn roots(sources: &BTreeMap<PathBuf, Source>) -> BTreeSet<PathBuf> {
    let is_root = |path: &Path| {
        let parent = path.parent().and_then(Path::file_name);
        let named = parent.is_some_and(|name| name == "src")
            && path.file_stem().is_some_and(|stem| stem == "lib" || stem == "main");
        named || parent.is_some_and(|name| name == "bin")
    };
    sources.keys().filter(|path| is_root(path)).cloned().collect()
}
