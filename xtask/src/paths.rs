//! Sources that a page names exist.
//!
//! ```text
//!   `core/src/{placement,pace}.rs`   two paths; each must be the end of a path in the tree, from a whole name on
//!   `<family>/mod.rs`, `*.rs`        patterns: not checked
//! ```
//!
//! Words in backticks and in fenced blocks are checked. The changelog and the decisions describe the past, so the files they name
//! may be gone.

use std::path::{Path, PathBuf};

/// Pages about the past.
const HISTORY: [&str; 2] = ["CHANGELOG.md", "docs/decisions"];

/// The paths in the page `path` that lead to none of `files`, one line each.
pub(crate) fn findings(path: &Path, text: &str, files: &[PathBuf]) -> Vec<String> {
    let is_page = path.extension().is_some_and(|end| end == "md");
    if !is_page || HISTORY.iter().any(|history| path.starts_with(history)) {
        return Vec::new();
    }
    let mut found = Vec::new();
    for (line, word) in code_words(text) {
        for named in expanded(word) {
            if !files.iter().any(|file| file.ends_with(&named)) {
                found.push(format!("{}:{line}: there is no {named} in the tree", path.display()));
            }
        }
    }
    found
}

/// The words in code that name one source or several, with their lines.
fn code_words(text: &str) -> Vec<(usize, &str)> {
    let mut words = Vec::new();
    let (mut in_fence, mut in_span) = (false, false);
    for (n, line) in text.lines().enumerate() {
        if line.trim_start().starts_with("```") {
            (in_fence, in_span) = (!in_fence, false);
            continue;
        }
        // A span may go on in the next line, but not in the next paragraph.
        in_span &= !line.trim().is_empty();
        for (part, piece) in line.split('`').enumerate() {
            in_span ^= part > 0 && !in_fence;
            if in_span || in_fence {
                words.extend(piece.split_whitespace().map(|word| (n + 1, word)));
            }
        }
    }
    words.retain(|(_, word)| word.ends_with(".rs") && !word.contains(['*', '<']));
    words
}

/// `a/{b,c}.rs` as `a/b.rs` and `a/c.rs`.
fn expanded(word: &str) -> Vec<String> {
    let inner = word.split_once('{').and_then(|(before, rest)| {
        let (inside, after) = rest.split_once('}')?;
        Some((before, inside, after))
    });
    let Some((before, inside, after)) = inner else { return vec![word.to_owned()] };
    inside.split(',').flat_map(|one| expanded(&format!("{before}{one}{after}"))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(page: &str, text: &str) -> Vec<String> {
        let files = ["crates/core/src/pace.rs", "crates/core/src/wire/spead/mod.rs", "xtask/src/tidy.rs"];
        findings(Path::new(page), text, &files.map(PathBuf::from))
    }

    #[test]
    fn a_source_that_is_gone_is_found_with_its_line() {
        assert_eq!(found("a.md", "\n`gone.rs`\n"), ["a.md:2: there is no gone.rs in the tree"]);
        assert_eq!(
            found("a.md", "`pace.rs`, `spead/mod.rs` and `xtask/src/tidy.rs`, not gone.rs\n"),
            [""; 0]
        );
        assert_eq!(found("a.md", "`ace.rs` `core/pace.rs`\n").len(), 2, "the end of a path has whole names");
        assert_eq!(found("a.rs", "`gone.rs`\n"), [""; 0], "no page");
    }

    #[test]
    fn each_path_of_a_list_is_checked() {
        let told = found("a.md", "`src/{pace,gone,lost}.rs`, `{core,sim}/src/{pace,a}.rs`\n");
        let told: Vec<&str> = told.iter().filter_map(|line| line.split(' ').nth(4)).collect();
        assert_eq!(told, ["src/gone.rs", "src/lost.rs", "core/src/a.rs", "sim/src/pace.rs", "sim/src/a.rs"]);
        assert_eq!(found("a.md", "`wire/<family>/mod.rs`, `src/*.rs`\n"), [""; 0]);
    }

    #[test]
    fn fences_are_read_and_spans_end_with_their_paragraph() {
        assert_eq!(found("a.md", "```text\n  io/gone.rs    Reader::run\n```\ngone.rs\n").len(), 1);
        assert_eq!(found("a.md", "a `span of\ngone.rs two lines`\n").len(), 1);
        assert_eq!(found("a.md", "a lone `\n\ngone.rs\n"), [""; 0]);
    }

    #[test]
    fn pages_about_the_past_may_name_files_that_are_gone() {
        assert_eq!(found("CHANGELOG.md", "`gone.rs`\n"), [""; 0]);
        assert_eq!(found("docs/decisions/0001-a.md", "`gone.rs`\n"), [""; 0]);
        assert_eq!(found("docs/README.md", "`gone.rs`\n").len(), 1);
    }
}
