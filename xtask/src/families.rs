//! No format is named where any might be meant.
//!
//! A family of formats is its folder and one line of the registry; whatever receives, records, sends, shows or measures
//! packets finds it there. Code that names one of them by a type, a module or a function works for that one only, and
//! the next family would have to be written into it.
//!
//! ```text
//!   crates/core/src/wire/families.rs   families! { vdif::VdifStream => frames, … }   the names, and the one line each
//!   crates/core/src/wire/<family>/     may name itself, and what it is built of
//!   tests, examples                    may name any
//!   xtask/families.txt                 places that do so still, each with how often: they may only go
//! ```

use crate::source::{Source, words};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// Where the families are listed.
const REGISTRY: &str = "crates/core/src/wire/families.rs";
/// Declares their modules.
const MODULES: &str = "crates/core/src/wire.rs";
/// Has a folder for each.
const FOLDERS: &str = "crates/core/src/wire";
/// Places that name one still.
pub(crate) const KEPT: &str = "xtask/families.txt";

/// The names of the families: the modules in the lines of the registry.
fn names(registry: &str) -> Vec<String> {
    let lines = registry.split_once("families! {").and_then(|(_, rest)| rest.split_once('}'));
    let lines = lines.map_or("", |(lines, _)| lines).split(',');
    lines.filter_map(|line| Some(line.trim().split_once("::")?.0.to_owned())).collect()
}

/// How often code names a family: by a word of which the name is a part.
fn mentions(code: &str, names: &[String]) -> usize {
    let named = |word: &str| {
        let plain: String = word.chars().filter(|c| *c != '_').collect::<String>().to_lowercase();
        names.iter().any(|name| plain.contains(name.as_str()))
    };
    words(code).filter(|(_, word)| named(word)).count()
}

/// Places that name families and may not, and places that may and need not any more. `kept` has a line for each place:
/// a file with how often it does, or a directory, which ends in `/`.
pub(crate) fn findings(
    sources: &BTreeMap<PathBuf, Source>,
    tests: &BTreeSet<PathBuf>,
    kept: &str,
) -> Vec<String> {
    let names = sources.get(Path::new(REGISTRY)).map_or(Vec::new(), |source| names(&source.code));
    if names.is_empty() {
        return vec![format!("{REGISTRY}: no `families!` with a line for each family")];
    }
    let folders: Vec<PathBuf> = names.iter().map(|name| Path::new(FOLDERS).join(name)).collect();
    let lines = kept.lines().filter(|line| !line.starts_with('#') && !line.is_empty());
    let (rooms, files): (Vec<&str>, Vec<&str>) = lines.partition(|line| line.ends_with('/'));
    let mut rooms: BTreeMap<&str, usize> = rooms.into_iter().map(|room| (room, 0)).collect();
    let mut files: BTreeMap<&str, usize> = files
        .iter()
        .filter_map(|line| line.rsplit_once(' '))
        .filter_map(|(f, n)| Some((f, n.parse().ok()?)))
        .collect();
    let mut found = Vec::new();
    for (path, source) in sources.iter().filter(|(path, _)| !tests.contains(*path)) {
        let shown = path.display().to_string();
        let is_example = path.components().any(|part| part.as_os_str() == "examples");
        let allowed = is_example || [REGISTRY, MODULES].contains(&shown.as_str());
        if allowed || folders.iter().any(|folder| path.starts_with(folder)) {
            continue;
        }
        let count = mentions(&source.body(), &names);
        if let Some((_, all)) = rooms.iter_mut().find(|(room, _)| shown.starts_with(**room)) {
            *all += count;
            continue;
        }
        match (files.remove(shown.as_str()).unwrap_or(0), count) {
            (0, 0) => {}
            (bound, count) if count > bound => found.push(format!(
                "{shown}: names families of formats {count} times, bound {bound}: ask the registry ({REGISTRY})"
            )),
            (bound, count) if count < bound => {
                found.push(format!("{KEPT}: {shown} names them {count} times now: write that, or remove the line"));
            }
            _ => {}
        }
    }
    let gone =
        rooms.into_iter().filter(|(_, count)| *count == 0).map(|(room, _)| room).chain(files.into_keys());
    found.extend(gone.map(|place| format!("{KEPT}: {place} names no family now: remove the line")));
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    const LINES: &str =
        "macro_rules! families { () => {} }\nfamilies! {\n    rsp::RspStream,\n    mark4::M4,\n}\n";

    fn found(files: &[(&str, &str)], kept: &str) -> Vec<String> {
        let all = [&[(REGISTRY, LINES)], files].concat();
        let sources = all.iter().map(|(path, text)| (PathBuf::from(path), Source::new(text))).collect();
        findings(&sources, &BTreeSet::from([PathBuf::from("crates/a/tests/b.rs")]), kept)
    }

    #[test]
    fn the_registry_tells_the_names() {
        assert_eq!(names(LINES), ["rsp", "mark4"]);
        assert_eq!(found(&[(REGISTRY, "")], "").len(), 1, "none");
    }

    #[test]
    fn a_family_that_is_named_outside_its_folder_is_found() {
        let name = |path, text| found(&[(path, text)], "").len();
        assert_eq!(name("crates/a/src/b.rs", "use wire::rsp::Head;"), 1);
        assert_eq!(name("crates/a/src/b.rs", "fn a(x: RspStream) {}"), 1);
        assert_eq!(name("crates/a/src/b.rs", "fn is_mark_4() {}"), 1);
        assert_eq!(name("crates/a/src/b.rs", "// rsp\nlet a = \"rsp\"; corpse()"), 0);
        assert_eq!(name("crates/a/src/b.rs", "fn a() {}\n#[cfg(test)]\nmod tests { use rsp::A; }"), 0);
        assert_eq!(name("crates/a/tests/b.rs", "use rsp::A;"), 0);
        assert_eq!(name("crates/a/examples/b.rs", "use rsp::A;"), 0);
        assert_eq!(name("crates/core/src/wire/rsp/a.rs", "use super::super::mark4::M4;"), 0);
        assert_eq!(name(MODULES, "pub mod rsp;"), 0);
    }

    #[test]
    fn what_is_kept_only_goes() {
        let twice = [("crates/a/src/b.rs", "rsp(rsp)")];
        assert_eq!(found(&twice, "# why\ncrates/a/src/b.rs 2\n"), [""; 0]);
        assert_eq!(found(&twice, "crates/a/src/b.rs 1\n").len(), 1);
        assert_eq!(found(&twice, "crates/a/src/b.rs 3\n").len(), 1);
        assert_eq!(found(&twice, "crates/a/src/\n"), [""; 0]);
        assert_eq!(found(&[], "crates/a/src/\n").len(), 1);
        assert_eq!(found(&[], "crates/a/src/b.rs 2\n").len(), 1);
    }
}
