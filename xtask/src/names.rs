//! A public name means one thing in the workspace, and the glossary lists all of them.
//!
//! ```text
//!   crates/*/src ─▶ Public { name, first sentence, crate, room } ─┬▶ declared twice?    xtask/names.txt: `Place 6`
//!                                                                 ├▶ a word of the house? xtask/names.txt: `house Desk`
//!                                                                 └▶ docs/concepts/glossary.md, below its mark
//! ```
//!
//! What stood against the rule when it came is in `xtask/names.txt`, which may only shrink. The head of the glossary is written by
//! hand: its last column names types, and each must exist. This reads sources as [`Source`] does: names that a macro makes are not
//! seen.

use crate::source::Source;
use crate::workspace;
use anyhow::{Context, Result};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

/// The crates whose public names are for users, in the order of the glossary.
const CRATES: [&str; 7] = ["core", "io", "skyhaul", "measure", "transfer", "mount", "daemon"];
const KINDS: [&str; 4] = ["struct", "enum", "trait", "type"];
/// Words that no engineer of the field searches for.
const HOUSE: [&str; 14] = [
    "Desk", "Door", "Facility", "Folk", "Ground", "Heard", "Lane", "Likely", "Seat", "Stranger", "Told",
    "Way", "Weigh", "Wish",
];
pub(crate) const KEPT: &str = "xtask/names.txt";
const PAGE: &str = "docs/concepts/glossary.md";
/// What follows it in the page is generated.
const MARK: &str = "<!-- cargo xtask glossary writes what follows -->\n";

/// A public type, trait or alias.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Public {
    /// Place of its crate in [`CRATES`].
    krate: usize,
    /// The first module of its path; empty for the crate's root.
    room: String,
    name: String,
    kind: &'static str,
    /// The first sentence of its description.
    about: String,
    /// `path:line`.
    place: String,
    is_hidden: bool,
}

/// Everything that breaks a rule, one line each.
pub(crate) fn findings(
    rust: &BTreeMap<PathBuf, String>,
    sources: &BTreeMap<PathBuf, Source>,
    tests: &BTreeSet<PathBuf>,
) -> Result<Vec<String>> {
    let all = publics(rust, sources, tests);
    let mut found = against_list(&all, &read(KEPT)?).0;
    let page = read(PAGE)?;
    let current = page.split_once(MARK).is_some_and(|(_, table)| table == tables(&all));
    if !current {
        found.push(format!("{PAGE}: not current (run: cargo xtask glossary)"));
    }
    found.extend(unknown_types(&page, &all));
    Ok(found)
}

/// Write the generated part of the glossary, and take from the list what is no longer needed.
pub(crate) fn write(
    rust: &BTreeMap<PathBuf, String>,
    sources: &BTreeMap<PathBuf, Source>,
    tests: &BTreeSet<PathBuf>,
) -> Result<()> {
    let all = publics(rust, sources, tests);
    let page = read(PAGE)?;
    let head = page.split_once(MARK).map_or(page.as_str(), |(head, _)| head);
    save(PAGE, &format!("{head}{MARK}{}", tables(&all)))?;
    save(KEPT, &against_list(&all, &read(KEPT)?).1)
}

fn read(path: &str) -> Result<String> {
    fs::read_to_string(workspace::root().join(path)).with_context(|| format!("read {path}"))
}

fn save(path: &str, text: &str) -> Result<()> {
    fs::write(workspace::root().join(path), text).with_context(|| format!("write {path}"))
}

/// All public names of the crates for users, in the order of the glossary.
fn publics(
    rust: &BTreeMap<PathBuf, String>,
    sources: &BTreeMap<PathBuf, Source>,
    tests: &BTreeSet<PathBuf>,
) -> Vec<Public> {
    let mut all = Vec::new();
    for (path, source) in sources.iter().filter(|(path, _)| !tests.contains(*path)) {
        let Some((krate, room)) = room_of(path) else { continue };
        let lines: Vec<&str> = rust.get(path).map_or(Vec::new(), |text| text.lines().collect());
        for (n, line) in source.outside_tests().lines().enumerate() {
            let Some((kind, name)) = declared(line) else { continue };
            let (about, is_hidden) = description(&lines[..n]);
            let place = format!("{}:{}", path.display(), n + 1);
            all.push(Public { krate, room: room.clone(), name: name.into(), kind, about, place, is_hidden });
        }
    }
    all.sort();
    all
}

/// The crate of a source, and the first module in it.
fn room_of(path: &Path) -> Option<(usize, String)> {
    let mut parts = path.iter().map(|part| part.to_str().unwrap_or_default());
    let krate = (parts.next() == Some("crates")).then(|| parts.next()).flatten()?;
    let krate = CRATES.iter().position(|name| *name == krate)?;
    let room = (parts.next() == Some("src")).then(|| parts.next()).flatten()?;
    let room = room.strip_suffix(".rs").unwrap_or(room);
    Some((krate, if room == "lib" { String::new() } else { room.to_owned() }))
}

/// Kind and name of what a line declares for users.
fn declared(line: &str) -> Option<(&'static str, &str)> {
    let rest = line.trim_start().strip_prefix("pub ")?;
    let (word, rest) = rest.trim_start().strip_prefix("unsafe ").unwrap_or(rest).split_once(' ')?;
    let kind = KINDS.into_iter().find(|kind| *kind == word)?;
    let rest = rest.trim_start();
    let end = rest.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(rest.len());
    // `$name` is a macro's.
    (end > 0).then(|| (kind, &rest[..end]))
}

/// The first sentence of the description at the end of `above`, as plain Markdown; and whether rustdoc hides it.
fn description(above: &[&str]) -> (String, bool) {
    let mut lines = Vec::new();
    let (mut is_hidden, mut in_attribute) = (false, false);
    for line in above.iter().rev().map(|line| line.trim()) {
        if let Some(doc) = line.strip_prefix("///") {
            lines.push(doc.trim());
        } else if line.starts_with("#[") {
            is_hidden |= line.starts_with("#[doc(hidden)]");
            in_attribute = false;
        } else if in_attribute || line.ends_with(")]") {
            in_attribute = true;
        } else if !line.starts_with("//") {
            break;
        }
    }
    let paragraph: Vec<&str> = lines.into_iter().rev().take_while(|line| !line.is_empty()).collect();
    (sentence(&plain(&paragraph.join(" "))), is_hidden)
}

/// Links as the text that they show: what they lead to is rustdoc's.
fn plain(text: &str) -> String {
    let mut out = String::new();
    let mut rest = text;
    let mut in_code = false;
    while let Some(at) = rest.find(['`', '[', ']']) {
        out.push_str(&rest[..at]);
        let (mark, behind) = (rest.as_bytes()[at], &rest[at + 1..]);
        rest = behind;
        match mark {
            b'`' => {
                in_code = !in_code;
                out.push('`');
            }
            b'[' if in_code => out.push('['),
            b']' if in_code => out.push(']'),
            b']' => {
                let close = match behind.as_bytes().first() {
                    Some(b'(') => behind.find(')'),
                    Some(b'[') => behind.find(']'),
                    _ => None,
                };
                rest = close.map_or(behind, |end| &behind[end + 1..]);
            }
            _ => {}
        }
    }
    out.push_str(rest);
    out.replace('|', "\\|")
}

/// The first sentence, without its full stop.
fn sentence(text: &str) -> String {
    let ends = text.match_indices(". ").map(|(at, _)| at);
    let mut ends = ends.filter(|at| !["e.g", "i.e", "RFC"].iter().any(|short| text[..*at].ends_with(short)));
    let end = ends.next().unwrap_or(text.len());
    text[..end].trim_end_matches(['.', ':']).to_owned()
}

/// The words of a name in capitals: `LoadOfReceiver` has three.
fn words_of(name: &str) -> Vec<&str> {
    let starts: Vec<usize> = name.match_indices(char::is_uppercase).map(|(at, _)| at).collect();
    let ends = starts.iter().skip(1).copied().chain([name.len()]);
    starts.iter().zip(ends).map(|(&start, end)| &name[start..end]).collect()
}

/// Names that mean several things and words of the house, as far as the list does not allow them; lines of the list that are
/// out of date; and the list as it should be, without what is not needed.
fn against_list(all: &[Public], list: &str) -> (Vec<String>, String) {
    let mut places: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for one in all {
        places.entry(&one.name).or_default().push(&one.place);
    }
    let house: BTreeSet<&str> = places
        .keys()
        .copied()
        .filter(|name| words_of(&name.replace("OneWay", "Oneway")).iter().any(|word| HOUSE.contains(word)))
        .collect();
    places.retain(|_, places| places.len() > 1);
    let (mut found, mut kept) = (Vec::new(), String::new());
    let (mut twice, mut odd) = (places.clone(), house.clone());
    for line in list.lines() {
        let (mut now, mut stale) = (Some(line.to_owned()), None);
        if let Some(name) = line.strip_prefix("house ") {
            if !odd.remove(name) {
                (now, stale) = (None, Some(format!("{KEPT}: no public name is {name} now: remove the line")));
            }
        } else if let Some((name, count)) = line.split_once(' ').filter(|_| !line.starts_with('#')) {
            let (count, is) = (count.parse().unwrap_or(0), places.get(name).map_or(0, Vec::len));
            if is <= count {
                twice.remove(name);
            }
            if is < count {
                now = (is > 1).then(|| format!("{name} {is}"));
                stale = Some(format!(
                    "{KEPT}: {name} is declared {} times now: write that, or remove the line",
                    is.max(1)
                ));
            }
        }
        found.extend(stale);
        kept.extend(now.map(|line| line + "\n"));
    }
    for (name, places) in twice {
        found.push(format!(
            "{}: {name} is declared {} times: {}",
            places[0],
            places.len(),
            places.join(", ")
        ));
    }
    for name in odd {
        found.push(format!(
            "{name}: a word of the house in a public name: {}: take a term of the field",
            HOUSE.join(", ")
        ));
    }
    (found, kept)
}

/// Types that the head of the glossary names in the last column of its tables, and that do not exist.
fn unknown_types(page: &str, all: &[Public]) -> Vec<String> {
    let names: BTreeSet<&str> = all.iter().map(|one| one.name.as_str()).collect();
    let head = page.split_once(MARK).map_or(page, |(head, _)| head);
    let rows = head.lines().enumerate().filter(|(_, line)| line.starts_with('|'));
    let mut found = Vec::new();
    for (n, line) in rows {
        let cell = line.trim_end_matches('|').rsplit('|').next().unwrap_or_default();
        let types = cell.split('`').skip(1).step_by(2);
        for name in types.filter(|name| !names.contains(name.rsplit("::").next().unwrap_or_default())) {
            found.push(format!("{PAGE}:{}: there is no public {name}", n + 1));
        }
    }
    found
}

/// The tables of the glossary, by crate and module.
fn tables(all: &[Public]) -> String {
    let mut text = String::new();
    let mut last = None;
    for one in all.iter().filter(|one| !one.is_hidden) {
        if last != Some((one.krate, &one.room)) {
            let krate = match CRATES[one.krate] {
                "skyhaul" => "skyhaul".to_owned(),
                short => format!("skyhaul_{short}"),
            };
            if last.is_none_or(|(before, _)| before != one.krate) {
                let _ = write!(text, "\n## `{krate}`\n");
            }
            let room = if one.room.is_empty() { String::new() } else { format!("::{}", one.room) };
            let _ = write!(text, "\n### `{krate}{room}`\n\n| name | | |\n|---|---|---|\n");
            last = Some((one.krate, &one.room));
        }
        let _ = writeln!(text, "| `{}` | {} | {} |", one.name, one.kind, one.about);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(files: &[(&str, &str)]) -> Vec<Public> {
        let rust: BTreeMap<PathBuf, String> =
            files.iter().map(|(path, text)| (PathBuf::from(path), (*text).to_owned())).collect();
        let sources = rust.iter().map(|(path, text)| (path.clone(), Source::new(text))).collect();
        publics(&rust, &sources, &BTreeSet::new())
    }

    const FILE: &str = "/// A [`Key`](super::Key) of *one*. More.\n#[derive(\n    Debug,\n)]\npub struct Place<'a> {\n    /// Not this.\n    pub(crate) x: u8,\n}\n\
        /// Why.\n///\n/// Long.\n#[doc(hidden)]\npub enum LoadOf {}\nenum Own {}\n// pub trait No {}\n#[cfg(test)]\nmod tests {\n    pub struct T;\n}\n";

    #[test]
    fn names_have_their_first_sentence() {
        let all = all(&[("crates/io/src/disk/a.rs", FILE), ("crates/cli/src/main.rs", FILE)]);
        let rows: Vec<_> = all.iter().map(|one| (&*one.name, one.kind, &*one.about, one.is_hidden)).collect();
        assert_eq!(rows, [("LoadOf", "enum", "Why", true), ("Place", "struct", "A `Key` of *one*", false)]);
        assert_eq!(
            tables(&all),
            "\n## `skyhaul_io`\n\n### `skyhaul_io::disk`\n\n| name | | |\n|---|---|---|\n| `Place` | struct | A `Key` of *one* |\n"
        );
        assert_eq!(plain("an [array](x) `[u8; 4]` [`A`] | [b][c]"), "an array `[u8; 4]` `A` \\| b");
    }

    #[test]
    fn a_name_with_two_meanings_is_found() {
        let all = all(&[
            ("crates/core/src/a.rs", "pub type Part = u8;\n"),
            ("crates/io/src/b.rs", "pub trait Part {}\n"),
        ]);
        let found = |list: &str| against_list(&all, list);
        assert_eq!(found("# why\n").0.len(), 1);
        assert_eq!(found("# why\nPart 2\n"), (Vec::new(), "# why\nPart 2\n".to_owned()));
        assert_eq!(found("Part 3\n").0.len(), 1);
        assert_eq!(found("Part 3\n").1, "Part 2\n");
        assert_eq!(found("Part 2\nOther 2\n").0.len(), 1);
        assert_eq!(found("Part 2\nOther 2\n").1, "Part 2\n");
    }

    #[test]
    fn a_word_of_the_house_is_found() {
        let all = all(&[(
            "crates/core/src/a.rs",
            "pub struct TellDesk;\npub struct Desktop;\npub struct Wayland;\n",
        )]);
        assert_eq!(words_of("TellDesk"), ["Tell", "Desk"]);
        assert_eq!(against_list(&all, "").0.len(), 1);
        assert_eq!(against_list(&all, "house TellDesk\n").0, [""; 0]);
        assert_eq!(against_list(&all, "house TellDesk\nhouse Door\n").0.len(), 1);
        assert_eq!(against_list(&all, "house TellDesk\nhouse Door\n").1, "house TellDesk\n");
    }

    #[test]
    fn a_type_that_the_head_names_must_exist() {
        let all = all(&[("crates/core/src/a.rs", "pub struct Key;\n")]);
        let page = format!("| a | `no` | `a::Key` |\n| b | c | `Keys` |\n{MARK}| `x` | | `y` |\n");
        assert_eq!(unknown_types(&page, &all).len(), 1);
    }
}
