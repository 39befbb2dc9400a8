//! What a reader of this tree may rely on, held by a check instead of by memory.
//!
//! | rule | bound |
//! |---|---|
//! | a file of `crates`, `xtask` or `fuzz`, outside tests | 400 lines of code |
//! | a function, outside tests | 70 lines of code |
//! | `unsafe` | only in `crates/io` and in `crates/python/src/buffer`, where Python's buffer protocol asks for it; every other crate says `#![forbid(unsafe_code)]` |
//! | each reason in `Reject` | is provoked by a test: `provoke` in `crates/skyhaul/src/receive/tests/rejects.rs` |
//! | each reason in `Reject` | has a row in `docs/reference/refusals.md`, and no other row is there |
//! | a family of formats | is named in its own folder and the registry only ([`families`]) |
//! | an error's hint | is a `Hint`: no literal has the word, in the crates of [`WITH_HINTS`] outside tests |
//! | a public type | has a name of its own, a term of the field, and a line in the glossary ([`names`]) |
//! | a type with `Drop` | is not made as an argument that may be dropped at once ([`guards`]) |
//! | any text file | names no directory of one person's machine |
//! | a source that a page names | exists ([`paths`]) |
//!
//! Generated files are skipped. A line of code is neither blank nor only a comment: a bound must not punish tests or documentation.
//! What was over a bound when the rule came may stand in `xtask/ratchet.txt` with its size: it may shrink, never grow, and a line
//! that is no longer needed is itself a finding.

use crate::families;
use crate::guards;
use crate::names;
use crate::paths;
use crate::source::{Source, words};
use crate::workspace;
use anyhow::{Context, Result};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

const FILE_LINES: usize = 400;
const FUNCTION_LINES: usize = 70;
/// How a file begins that no person wrote; a test says whether it is current.
const GENERATED: &str = "// @generated from ";
/// The one file outside `crates/io` that may hold `unsafe`: memory that Python and Rust share.
const SHARED_WITH_PYTHON: [&str; 2] = ["crates/python/src/buffer.rs", "crates/python/src/buffer"];
/// Crates whose hints are of the type for them.
const WITH_HINTS: &str = "crates";
/// The one file that writes the word.
const HINT: &str = "crates/core/src/hint.rs";
const RATCHET: &str = "xtask/ratchet.txt";
/// Where every reason for refusing a packet is provoked.
const PROVOKED: &str = "crates/skyhaul/src/receive/tests/rejects.rs";
/// Where every reason is declared, and where each is explained.
const REASONS: &str = "crates/core/src/placement.rs";
const EXPLAINED: &str = "docs/reference/refusals.md";

/// Everything that breaks a rule, one line each.
pub(crate) fn findings() -> Result<Vec<String>> {
    let files = workspace::files()?;
    let Tree { rust, sources, tests } = tree(&files)?;

    let over = sizes(&sources, &tests);
    let mut found = against_ratchet(over, &read(Path::new(RATCHET))?.unwrap_or_default());
    found.extend(provoked_rejects(&sources));
    let reasons = rust.get(Path::new(REASONS)).map_or("", String::as_str);
    found.extend(explained_rejects(reasons, &read(Path::new(EXPLAINED))?.unwrap_or_default()));
    found.extend(families::findings(&sources, &tests, &read(Path::new(families::KEPT))?.unwrap_or_default()));
    found.extend(names::findings(&rust, &sources, &tests)?);
    found.extend(guards::findings(&sources));
    found.extend(unsafe_fence(&rust, &sources));
    found.extend(glued_hints(&rust, &sources, &tests));
    for path in &files {
        if let Some(text) = read(path)? {
            found.extend(machine_paths(path, &text));
            found.extend(paths::findings(path, &text, &files));
        }
    }
    Ok(found)
}

/// Write the glossary of public names, as the sources are now; true, because nothing is found.
pub(crate) fn glossary() -> Result<bool> {
    let Tree { rust, sources, tests } = tree(&workspace::files()?)?;
    names::write(&rust, &sources, &tests)?;
    Ok(true)
}

/// Every source that a person wrote.
struct Tree {
    rust: BTreeMap<PathBuf, String>,
    sources: BTreeMap<PathBuf, Source>,
    tests: BTreeSet<PathBuf>,
}

fn tree(files: &[PathBuf]) -> Result<Tree> {
    let mut rust = BTreeMap::new();
    for path in files.iter().filter(|path| path.extension().is_some_and(|end| end == "rs")) {
        let text = read(path)?.unwrap_or_default();
        if !text.starts_with(GENERATED) {
            rust.insert(path.clone(), text);
        }
    }
    let sources: BTreeMap<PathBuf, Source> =
        rust.iter().map(|(path, text)| (path.clone(), Source::new(text))).collect();
    let tests = test_files(&sources);
    Ok(Tree { rust, sources, tests })
}

/// The text of a file below the root; none if it is absent, large or not text.
fn read(path: &Path) -> Result<Option<String>> {
    let full = workspace::root().join(path);
    match std::fs::read(&full) {
        Ok(bytes) if bytes.len() < 1 << 20 => Ok(String::from_utf8(bytes).ok()),
        Ok(_) => Ok(None),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error).with_context(|| format!("read {}", full.display())),
    }
}

/// Files that hold nothing but tests: in a `tests` or `benches` directory, or declared under `#[cfg(test)]`.
fn test_files(sources: &BTreeMap<PathBuf, Source>) -> BTreeSet<PathBuf> {
    let mut tests: BTreeSet<PathBuf> = sources
        .keys()
        .filter(|path| {
            path.components().any(|part| part.as_os_str() == "tests" || part.as_os_str() == "benches")
        })
        .cloned()
        .collect();
    for (path, source) in sources {
        let root_like =
            ["lib", "main", "mod"].iter().any(|stem| path.file_stem().is_some_and(|s| s == *stem));
        let directory = if root_like { path.with_file_name("") } else { path.with_extension("") };
        for name in &source.test_modules {
            tests.insert(directory.join(format!("{name}.rs")));
            tests.extend(sources.keys().filter(|other| other.starts_with(directory.join(name))).cloned());
        }
    }
    tests
}

/// One thing that is over its bound: the ratchet's key, its size, and the sentence to print.
type Over = (String, usize, String);

fn sizes(sources: &BTreeMap<PathBuf, Source>, tests: &BTreeSet<PathBuf>) -> Vec<Over> {
    let mut over = Vec::new();
    for (path, source) in sources.iter().filter(|(path, _)| !tests.contains(*path)) {
        let (shown, lines) = (path.display(), source.code_lines());
        if lines > FILE_LINES {
            let text =
                format!("{shown}: {lines} lines of code, bound {FILE_LINES}: two subjects are two files");
            over.push((format!("file {shown}"), lines, text));
        }
        for f in source.functions().into_iter().filter(|f| f.code_lines > FUNCTION_LINES) {
            let text = format!(
                "{shown}:{}: fn {} has {} lines, bound {FUNCTION_LINES}",
                f.line, f.name, f.code_lines
            );
            over.push((format!("function {shown}::{}", f.name), f.code_lines, text));
        }
    }
    over
}

/// The compiler holds that each reason for refusing a packet is provoked: by a `match` over all of them, in a test. Here
/// it is held that the test is there, drives every reason, and has no arm that takes what is left.
fn provoked_rejects(sources: &BTreeMap<PathBuf, Source>) -> Vec<String> {
    let code = sources.get(Path::new(PROVOKED)).map_or("", |source| source.code.as_str());
    let body = code
        .split_once("fn provoke(")
        .and_then(|(_, rest)| rest.split_once("\n}"))
        .map_or("", |(body, _)| body);
    let wants = [
        (code.contains("#[test]") && code.contains("in Reject::ALL"), "no test drives every reason"),
        (body.contains("match why {"), "`fn provoke` does not `match` the reason"),
        (!body.contains("_ =>"), "an arm takes whatever reason is left: name each"),
        (!body.contains("todo!") && !body.contains("panic!"), "an arm provokes nothing"),
    ];
    let wants = wants.into_iter().filter(|(holds, _)| !holds);
    wants.map(|(_, text)| format!("{PROVOKED}: {text}")).collect()
}

/// Reasons without a row in their page, and rows without a reason.
fn explained_rejects(reasons: &str, page: &str) -> Vec<String> {
    let declared = reasons
        .split_once("\nrejects! {")
        .and_then(|(_, rest)| rest.split_once("\n}"))
        .map_or("", |(declared, _)| declared);
    let declared: BTreeSet<&str> =
        declared.lines().filter_map(|line| line.split_once(" = \"")?.1.split('"').next()).collect();
    let rows: BTreeSet<&str> =
        page.lines().filter_map(|line| line.strip_prefix("| `")?.split('`').next()).collect();
    if declared.is_empty() {
        return vec![format!("{REASONS}: no reason is found")];
    }
    let without = declared.difference(&rows).map(|why| format!("{EXPLAINED}: no row for {why}"));
    let beyond = rows.difference(&declared).map(|why| format!("{EXPLAINED}: no reason is named {why}"));
    without.chain(beyond).collect()
}

/// Findings beyond what the ratchet allows, and entries of the ratchet that are out of date.
fn against_ratchet(over: Vec<Over>, ratchet: &str) -> Vec<String> {
    let mut allowed: BTreeMap<&str, usize> = ratchet
        .lines()
        .filter(|line| !line.starts_with('#'))
        .filter_map(|line| line.rsplit_once(' '))
        .filter_map(|(key, size)| Some((key, size.parse().ok()?)))
        .collect();
    let mut found = Vec::new();
    for (key, size, text) in over {
        match allowed.remove(key.as_str()) {
            Some(bound) if size == bound => {}
            Some(bound) if size < bound => {
                found.push(format!("{RATCHET}: {key} shrank to {size}: write that"));
            }
            _ => found.push(text),
        }
    }
    found.extend(allowed.keys().map(|key| format!("{RATCHET}: {key} is within bounds now: remove the line")));
    found
}

fn unsafe_fence(rust: &BTreeMap<PathBuf, String>, sources: &BTreeMap<PathBuf, Source>) -> Vec<String> {
    let mut found = Vec::new();
    let fenced = |path: &Path| {
        path.starts_with("crates/io") || SHARED_WITH_PYTHON.iter().any(|shared| path.starts_with(shared))
    };
    for (path, source) in sources.iter().filter(|(path, _)| !fenced(path)) {
        let shown = path.display();
        for (at, _) in words(&source.code).filter(|&(_, word)| word == "unsafe") {
            found.push(format!("{shown}:{}: unsafe outside crates/io", source.code[..at].lines().count()));
        }
        let is_root = path.ends_with("src/lib.rs") || path.ends_with("src/main.rs");
        // `forbid` could not be lifted for the one file; `deny` is.
        let word = if path.starts_with("crates/python") { "deny" } else { "forbid" };
        let fence = format!("#![{word}(unsafe_code)]");
        let forbids = rust.get(path).is_some_and(|text| text.contains(&fence));
        // A root of one line has nothing to guard yet.
        if is_root && !forbids && source.code_lines() > 1 {
            found.push(format!("{shown}: says no {fence}"));
        }
    }
    found
}

/// Hints that are part of a literal: who shows an error could not tell them from what is wrong.
fn glued_hints(
    rust: &BTreeMap<PathBuf, String>,
    sources: &BTreeMap<PathBuf, Source>,
    tests: &BTreeSet<PathBuf>,
) -> Vec<String> {
    let mut found = Vec::new();
    let is_held =
        |path: &Path| path.starts_with(WITH_HINTS) && path != Path::new(HINT) && !tests.contains(path);
    for (path, source) in sources.iter().filter(|(path, _)| is_held(path)) {
        let text = &rust[path];
        for literal in source.literals.iter().filter(|literal| text[(*literal).clone()].contains("hint: ")) {
            let line = text[..literal.start].matches('\n').count();
            if line < source.body_lines {
                found.push(format!("{}:{}: a hint in a literal: use `Hint`", path.display(), line + 1));
            }
        }
    }
    found
}

/// Directories that exist on one machine only: a home, or the place of this very checkout.
fn machine_paths(path: &Path, text: &str) -> Vec<String> {
    // Written in parts, so that this line is not its own finding.
    let places =
        [concat!("/ho", "me/"), concat!("/ro", "ot/"), concat!("/Us", "ers/"), concat!("/wo", "rk/")];
    let mut found = Vec::new();
    for (n, line) in text.lines().enumerate() {
        for place in places.iter().filter(|place| line.contains(**place)) {
            // A directory of that name further down a path or an address is nobody's.
            let absolute = line.match_indices(place).any(|(at, _)| {
                !line[..at]
                    .ends_with(|c: char| c.is_alphanumeric() || matches!(c, '.' | '_' | '-' | '}' | '~'))
            });
            if absolute {
                found.push(format!("{}:{}: names {place}… of one machine", path.display(), n + 1));
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tree_is_tidy() {
        let found = findings().unwrap();
        assert!(found.is_empty(), "\n{}", found.join("\n"));
    }

    #[test]
    fn a_file_is_measured_by_its_code() {
        let found = |text: &str| {
            let path = PathBuf::from("crates/core/src/a.rs");
            sizes(&BTreeMap::from([(path, Source::new(text))]), &BTreeSet::new()).len()
        };
        let (comments, code) = ("/// Why.\n\n".repeat(FILE_LINES), "const A: u8 = 1;\n".repeat(FILE_LINES));
        let tests = format!("#[cfg(test)]\nmod tests {{\n{code}}}\n");
        assert_eq!(found(&format!("{comments}{code}{tests}")), 0);
        assert_eq!(found(&format!("{code}fn b() {{}}\n")), 1);
    }

    #[test]
    fn the_ratchet_only_turns_one_way() {
        let over = |size| vec![("file a.rs".to_owned(), size, "a.rs is long".to_owned())];
        assert_eq!(against_ratchet(over(450), "# why\nfile a.rs 450\n"), [""; 0]);
        assert_eq!(against_ratchet(over(451), "file a.rs 450"), ["a.rs is long"]);
        assert_eq!(against_ratchet(over(449), "file a.rs 450").len(), 1);
        assert_eq!(against_ratchet(Vec::new(), "file a.rs 450").len(), 1);
    }

    #[test]
    fn a_reason_that_nothing_provokes_is_found() {
        let scan = |arms: &str| {
            let text = format!(
                "#[test]\nfn each() {{ for why in Reject::ALL {{}} }}\nfn provoke(why: Reject) -> Rejects {{\n    match why {{\n{arms}    }}\n}}\n"
            );
            provoked_rejects(&BTreeMap::from([(PathBuf::from(PROVOKED), Source::new(&text))])).len()
        };
        assert_eq!(scan("        Reject::Late => late(),\n"), 0);
        assert_eq!(scan("        Reject::Late => late(),\n        _ => Rejects::default(),\n"), 1);
        assert_eq!(scan("        Reject::Late => todo!(),\n"), 1);
        assert_eq!(provoked_rejects(&BTreeMap::new()).len(), 2, "no such file");
    }

    #[test]
    fn a_reason_without_a_row_is_found() {
        let reasons = "x\nrejects! {\n    /// Why.\n    Late = \"late\",\n    BadMagic = \"bad_magic\",\n}\nconst A: &str = \"a\";\n";
        let rows = "| reason | |\n|---|---|\n| `late` | a `word` |\n";
        assert_eq!(explained_rejects(reasons, rows), ["docs/reference/refusals.md: no row for bad_magic"]);
        assert_eq!(explained_rejects(reasons, &format!("{rows}| `bad_magic` | |\n")), [""; 0]);
        assert_eq!(explained_rejects(reasons, &format!("{rows}| `bad_magic` | |\n| `old` | |\n")).len(), 1);
        assert_eq!(explained_rejects("", rows).len(), 1, "no reasons");
    }

    #[test]
    fn a_home_directory_is_found() {
        let line = format!("see {}someone/x", concat!("/ho", "me/"));
        assert_eq!(machine_paths(Path::new("a.md"), &line).len(), 1);
        assert_eq!(machine_paths(Path::new("a.md"), "crates/home/x and ~/x").len(), 0);
    }

    #[test]
    fn a_hint_is_found_in_literals_outside_tests_only() {
        let scan = |path: &str, text: &str| {
            let path = PathBuf::from(path);
            let rust = BTreeMap::from([(path.clone(), text.to_owned())]);
            let sources = BTreeMap::from([(path, Source::new(text))]);
            glued_hints(&rust, &sources, &BTreeSet::from([PathBuf::from("crates/daemon/src/a/tests.rs")]))
        };
        let glued =
            "/// Says hint: what.\nfn a() -> &str {\n    \"no token; hint: give one\" // hint: b\n}\n";
        let of_tests = "fn a() {}\n#[cfg(test)]\nmod tests {\n    const A: &str = \"; hint: b\";\n}\n";
        assert_eq!(
            scan("crates/daemon/src/a.rs", glued),
            ["crates/daemon/src/a.rs:3: a hint in a literal: use `Hint`"]
        );
        assert_eq!(scan("crates/daemon/src/a.rs", &glued.replace("; hint: give", "{}, Hint(")), [""; 0]);
        assert_eq!(scan("crates/daemon/src/a.rs", of_tests), [""; 0]);
        assert_eq!(scan("crates/daemon/src/a/tests.rs", glued), [""; 0]);
        assert_eq!(scan(HINT, glued), [""; 0]);
    }

    #[test]
    fn unsafe_is_found_in_code_only() {
        let scan = |text: &str| {
            let rust = BTreeMap::from([(PathBuf::from("crates/core/src/a.rs"), text.to_owned())]);
            let sources = BTreeMap::from([(PathBuf::from("crates/core/src/a.rs"), Source::new(text))]);
            unsafe_fence(&rust, &sources).len()
        };
        assert_eq!(scan("// unsafe\nfn a() { \"unsafe\"; }"), 0);
        assert_eq!(scan(concat!("fn a() { un", "safe { b() } }")), 1);
    }
}
