//! What one file names: the modules it declares, what it brings in with `use`, and paths in its code.
//!
//! ```text
//!   mod head;                              modules   head
//!   pub use head::{Head, Flags as Bits};   uses      Head = head::Head, Bits = head::Flags, signposts
//!   crate::pace::due(head::SIZE)           paths     crate::pace::due, head::SIZE
//! ```

use crate::source::words;
use std::collections::BTreeSet;

/// A path as written, and the line it begins in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Named {
    pub(super) path: Vec<String>,
    pub(super) line: usize,
    /// How many modules in line of the file stand around it.
    pub(super) inside: usize,
}

/// One name that a `use` brings into the file.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Use {
    pub(super) name: String,
    pub(super) target: Named,
    /// It is shown to others, and the file's own code does not name it.
    pub(super) signpost: bool,
}

/// Everything that a file names.
#[derive(Debug, Default)]
pub(super) struct Names {
    pub(super) modules: BTreeSet<String>,
    pub(super) uses: Vec<Use>,
    pub(super) paths: Vec<Named>,
}

impl Names {
    /// Read `code`, which has no comments, literals or tests.
    pub(super) fn read(code: &str) -> Names {
        let mut names = Names::default();
        let mut rooms = Vec::new();
        let mut rest = code.as_bytes().to_vec();
        let all: Vec<(usize, &str)> = words(code).collect();
        for (n, &(at, word)) in all.iter().enumerate() {
            let after = code[at + word.len()..].trim_start();
            if word == "mod" && begins_item(code, at) {
                let Some(&(name_at, name)) = all.get(n + 1) else { continue };
                let end = name_at + name.len();
                if code[end..].trim_start().starts_with(';') {
                    names.modules.insert(name.to_owned());
                } else {
                    rooms.push(name_at..block_end(code, end));
                }
            } else if word == "use" && begins_item(code, at) && !after.starts_with('<') {
                let end = at + code[at..].find(';').unwrap_or(code.len() - at);
                let public = code[..at].trim_end().ends_with("pub") || code[..at].trim_end().ends_with(')');
                let inside = rooms.iter().filter(|room| room.contains(&at)).count();
                let line = line_of(code, at);
                let mut add = |path: Vec<String>, name: String| {
                    let target = Named { path, line, inside };
                    names.uses.push(Use { name, target, signpost: public });
                };
                tree(&code[at + word.len()..end], &[], &mut add);
                rest[at..end].fill(b' ');
            }
        }
        let rest = String::from_utf8_lossy(&rest);
        names.paths = paths(&rest, code, &rooms);
        let named: BTreeSet<&str> = words(&rest).map(|(_, word)| word).collect();
        for one in &mut names.uses {
            one.signpost &= !named.contains(one.name.as_str());
        }
        names
    }
}

fn line_of(code: &str, at: usize) -> usize {
    code[..at].matches('\n').count() + 1
}

/// Whether the word at `at` may begin an item: after the end of another, an attribute or a visibility.
fn begins_item(code: &str, at: usize) -> bool {
    let before = code[..at].trim_end();
    before.is_empty() || before.ends_with(['{', '}', ';', ']', ')']) || before.ends_with("pub")
}

fn block_end(code: &str, from: usize) -> usize {
    let mut depth = 0;
    let end = code[from..].find(|c: char| {
        depth += i32::from(c == '{') - i32::from(c == '}');
        c == '}' && depth == 0
    });
    end.map_or(code.len(), |length| from + length)
}

/// Each leaf of a `use` tree: its path, and the name it has here.
fn tree(text: &str, before: &[String], add: &mut impl FnMut(Vec<String>, String)) {
    let (stem, branches) = match text.split_once('{') {
        Some((stem, rest)) => (stem, Some(rest.rsplit_once('}').map_or(rest, |(inner, _)| inner))),
        None => (text, None),
    };
    let steps = stem.split("::").map(str::trim).filter(|step| !step.is_empty());
    let mut path = before.to_vec();
    path.extend(steps.map(str::to_owned));
    let Some(branches) = branches else {
        let last = path.pop().unwrap_or_default();
        let (step, name) = last.split_once(" as ").map_or((&*last, None), |(step, name)| (step, Some(name)));
        if step != "self" || path.is_empty() {
            path.push(step.trim().to_owned());
        }
        let name = name.or(path.last().map(String::as_str)).unwrap_or_default().trim().to_owned();
        return add(path, name);
    };
    let (mut depth, mut from) = (0, 0);
    for (at, c) in branches.char_indices().chain([(branches.len(), ',')]) {
        depth += i32::from(c == '{') - i32::from(c == '}');
        if c == ',' && depth == 0 {
            if !branches[from..at].trim().is_empty() {
                tree(&branches[from..at], &path, add);
            }
            from = at + 1;
        }
    }
}

/// Every path of two steps or more in `rest`, which is `code` without its imports.
fn paths(rest: &str, code: &str, rooms: &[std::ops::Range<usize>]) -> Vec<Named> {
    let mut found = Vec::new();
    let mut path: Vec<String> = Vec::new();
    let (mut begin, mut end) = (0, 0);
    let mut close = |path: &mut Vec<String>, begin: usize| {
        // `pub(in super::super)` says who may see, and uses nothing.
        let sees = rest[..begin].trim_end().ends_with("(in");
        if path.len() > 1 && !sees {
            let inside = rooms.iter().filter(|room| room.contains(&begin)).count();
            found.push(Named { path: path.clone(), line: line_of(code, begin), inside });
        }
        path.clear();
    };
    for (at, word) in words(rest) {
        let joined = rest[end..at].trim() == "::";
        if !joined {
            close(&mut path, begin);
            begin = at;
        }
        if joined && path.is_empty() {
            // The tail of a path that began with `<…>` or `::`.
        } else {
            path.push(word.to_owned());
        }
        end = at + word.len();
    }
    close(&mut path, begin);
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn uses(code: &str) -> Vec<(String, String, bool)> {
        let names = Names::read(code);
        names.uses.into_iter().map(|u| (u.name, u.target.path.join("::"), u.signpost)).collect()
    }

    #[test]
    fn a_tree_of_imports_is_read_to_its_leaves() {
        // `b` itself is named by `mod b`, so it is no signpost.
        let read = uses("mod b;\npub(super) use self::b::{self, C as D,\n e::{F, g::*}};\nuse h;");
        let want = [("b", "self::b", false), ("D", "self::b::C", true), ("F", "self::b::e::F", true)];
        let want = want.into_iter().chain([("*", "self::b::e::g::*", true), ("h", "h", false)]);
        let want: Vec<_> = want.map(|(name, path, post)| (name.to_owned(), path.to_owned(), post)).collect();
        assert_eq!(read, want);
    }

    #[test]
    fn what_the_file_names_itself_is_no_signpost() {
        assert!(uses("pub use b::C;")[0].2);
        assert!(!uses("pub use b::C;\nfn d(c: C) {}")[0].2);
    }

    #[test]
    fn paths_are_found_in_code_and_not_in_imports_or_visibilities() {
        let code = "use a::b;\nfn c() -> impl D + use<'_> {}\npub(in super::super) e: crate::f::G<h::I>,\nfor i in super::J {}";
        let found = Names::read(code).paths;
        let shown: Vec<_> = found.iter().map(|p| (p.path.join("::"), p.line)).collect();
        assert_eq!(shown, [("crate::f::G".into(), 3), ("h::I".into(), 3), ("super::J".into(), 4)]);
    }

    #[test]
    fn a_module_in_line_is_a_room_of_its_file() {
        let names = Names::read("mod a;\nmod b { use super::c::D; }\nuse super::E;");
        assert_eq!(names.modules, BTreeSet::from(["a".to_owned()]));
        assert_eq!(names.uses.iter().map(|u| u.target.inside).collect::<Vec<_>>(), [1, 0]);
    }
}
