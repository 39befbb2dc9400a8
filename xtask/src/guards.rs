//! A guard is made only where it is kept.
//!
//! ```text
//!   taken.then_some(Guard)        finding: made and dropped where `taken` is false, so it frees what another holds
//!   taken.then(|| Guard)          made only where it is ours
//! ```
//!
//! A guard is a type with `Drop`. The words are read, not the types, so one that a variable holds is not seen.

use crate::source::{Source, words};
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

/// Methods that take a value which they may drop.
const EAGER: [&str; 6] = ["then_some", "unwrap_or", "ok_or", "map_or", "get_or_insert", "xor"];

/// Guards that are made as the argument of such a method, one line each.
pub(crate) fn findings(sources: &BTreeMap<PathBuf, Source>) -> Vec<String> {
    let guards: BTreeSet<&str> = sources.values().flat_map(|source| dropped(&source.code)).collect();
    let mut found = Vec::new();
    for (path, source) in sources {
        let code = source.code.as_str();
        for (at, method) in words(code).filter(|(_, word)| EAGER.contains(word)) {
            let Some(argument) = code[at + method.len()..].strip_prefix('(') else { continue };
            let named = match words(argument).next() {
                Some((0, "Self")) => implemented(&code[..at]),
                Some((0, name)) => Some(name),
                _ => None,
            };
            if let Some(guard) = named.filter(|name| guards.contains(name)) {
                let line = code[..at].matches('\n').count() + 1;
                let text = "is dropped where it is not taken: make it in a closure";
                found.push(format!("{}:{line}: {guard} {text}", path.display()));
            }
        }
    }
    found
}

/// Types that have `Drop` here.
fn dropped(code: &str) -> impl Iterator<Item = &str> {
    code.match_indices(" Drop for ").filter_map(|(at, text)| Some(words(&code[at + text.len()..]).next()?.1))
}

/// The type whose `impl` is the last one that begins in this code.
fn implemented(code: &str) -> Option<&str> {
    let line = code.lines().rev().find(|line| line.starts_with("impl"))?;
    let of = line.rsplit_once(" for ").map_or(line, |(_, of)| of);
    let plain = of.strip_prefix("impl").unwrap_or(of);
    let plain = if plain.starts_with('<') { plain.split_once("> ")?.1 } else { plain };
    Some(words(plain).next()?.1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scan(text: &str) -> Vec<String> {
        findings(&BTreeMap::from([(PathBuf::from("a.rs"), Source::new(text))]))
    }

    #[test]
    fn a_guard_that_may_be_dropped_at_once_is_found() {
        let guard = "struct Held<'a>(&'a u8);\nimpl Drop for Held<'_> {}\n";
        let made =
            |body: &str| scan(&format!("{guard}impl<'a> Held<'a> {{\n    fn take() {{ {body} }}\n}}\n"));
        let found = ["a.rs:4: Held is dropped where it is not taken: make it in a closure"];
        assert_eq!(made("free.then_some(Self(&1))"), found);
        assert_eq!(made("free.then_some(Held(&1))"), found);
        assert_eq!(made("other.unwrap_or(Self)"), found);
        assert_eq!(made("free.then(|| Self(&1))"), [""; 0]);
        assert_eq!(made("free.then_some(Other(&1)) // .then_some(Self)"), [""; 0]);
        assert_eq!(made("free.then_some(held)"), [""; 0]);
    }

    #[test]
    fn self_is_the_type_of_the_last_impl() {
        assert_eq!(implemented("impl A {\n}\nimpl<T: B> C<T> for D<T> {\n    fn x() {"), Some("D"));
        assert_eq!(implemented("impl<T> E<T> {\n"), Some("E"));
        assert_eq!(implemented("impl F {\n"), Some("F"));
        assert_eq!(implemented("fn a() {}"), None);
    }
}
