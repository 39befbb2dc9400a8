use super::*;

/// Circles in a crate of these files, below `crates/a/src`.
fn found(files: &[(&str, &str)], kept: &str) -> Vec<String> {
    let path = |name: &str| PathBuf::from("crates/a/src").join(name);
    findings(&files.iter().map(|(name, text)| (path(name), Source::new(text))).collect(), kept)
}

const TWO: [(&str, &str); 3] = [
    ("lib.rs", "mod b;\nmod c;"),
    ("b.rs", "use crate::c::C;\nstruct B;"),
    ("c.rs", "\nfn c() -> super::b::B {}"),
];

#[test]
fn a_circle_is_shown_with_an_import_for_each_arrow() {
    let want = "crates/a/src/b.rs crates/a/src/c.rs: import each other in a circle
    crates/a/src/b.rs:1: crate::c::C
    crates/a/src/c.rs:2: super::b::B";
    assert_eq!(found(&TWO, ""), [want]);
    assert_eq!(found(&TWO[..2], ""), [""; 0]);
}

#[test]
fn what_a_parent_re_exports_lies_in_the_child() {
    let files = |b| [("lib.rs", "mod b;\nmod c;\npub use c::C;"), ("b.rs", b), ("c.rs", "pub struct C;")];
    assert_eq!(found(&files("use super::C;"), ""), [""; 0]);
    let own = [("lib.rs", "mod b;\nuse b::B;\nstruct C;"), ("b.rs", "use super::C;\nstruct B;")];
    assert_eq!(found(&own, "").len(), 1, "the parent needs the child, and it the parent");
    let signpost = [("lib.rs", "mod b;\npub use b::B;\nstruct C;"), ("b.rs", "use super::C;\nstruct B;")];
    assert_eq!(found(&signpost, ""), [""; 0], "the parent only shows the way");
    let used = [("lib.rs", "mod b;\npub use b::B;\nstruct C(B);"), ("b.rs", "use super::C;\nstruct B;")];
    assert_eq!(found(&used, "").len(), 1);
}

#[test]
fn paths_through_an_imported_module_are_followed() {
    let files = [
        ("lib.rs", "mod b;\nmod c;"),
        ("b/mod.rs", "mod d;\npub use d::D;"),
        ("b/d.rs", "use crate::c;\nstruct D;\nfn d() { c::c() }"),
        ("c.rs", "use super::b;\nfn c() -> b::D {}"),
    ];
    assert_eq!(found(&files, "").len(), 1);
    assert!(found(&files, "")[0].starts_with("crates/a/src/b/d.rs crates/a/src/c.rs: "));
}

#[test]
fn tests_may_import_whatever_they_like() {
    let tests = "struct B;\n#[cfg(test)]\nuse super::c::C;\n#[cfg(test)]\nmod model;\n#[cfg(test)]\nmod tests { use crate::c::C; }";
    let files = [TWO[0], ("b.rs", tests), ("b/model.rs", "use crate::c::C;"), TWO[2]];
    assert_eq!(found(&files, ""), [""; 0]);
}

#[test]
fn what_is_kept_only_goes() {
    assert_eq!(found(&TWO, "# why\ncrates/a/src/b.rs crates/a/src/c.rs\n"), [""; 0]);
    assert_eq!(found(&TWO, "crates/a/src/b.rs crates/a/src/c.rs crates/a/src/d.rs\n").len(), 1, "shrank");
    assert_eq!(found(&TWO, "crates/a/src/b.rs crates/a/src/d.rs\n").len(), 2, "new, and stale");
    assert_eq!(found(&TWO[..2], "crates/a/src/b.rs crates/a/src/c.rs\n").len(), 1, "gone");
}
