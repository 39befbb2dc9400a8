//! `copy` from a server that holds the token and means harm.
//!
//! For each message it can send, the client ends with an error and a status other than 0, writes only what was asked for, leaves existing
//! files alone, and stays within its memory.

mod evil;

use crate::site::Done;
use evil::{Client, Play, Reply, file, head, listed, named, ranged, said, sized, told};
use serde::Deserialize;
use serde_json::{Value, json};
use skyhaul_transfer::copy::{HOLE, RangeHead};
use std::io::Write;

/// A file of two ranges.
const SIZE: u64 = 100_000;
const RANGE: u32 = 65_536;

/// What a server does, and what the client says of it.
struct Case {
    name: &'static str,
    play: Play,
    says: &'static str,
}

fn case(name: &'static str, says: &'static str, play: Play) -> Case {
    Case { name, play, says }
}

/// Each with a client of its own, which has some files already.
fn refused(cases: Vec<Case>) {
    let mut wrong = Vec::new();
    for Case { name, play, says } in cases {
        let client = Client::new();
        let before = client.snapshot();
        let Reply { done, peak_mib } = client.pull("exp", "", play);
        let is_told = done.code == Some(1) && failure(&done).contains(says);
        // The blocks, and the program.
        if !is_told || client.snapshot() != before || peak_mib >= 128 {
            wrong.push(format!(
                "{name}: {peak_mib} MiB, exit {:?}: {}{:?}",
                done.code,
                failure(&done),
                client.snapshot()
            ));
        }
    }
    assert!(wrong.is_empty(), "{} cases:\n{}", wrong.len(), wrong.join("\n"));
}

/// Why it ended, and why each file failed.
fn failure(done: &Done) -> String {
    let report: Failures = serde_json::from_slice(&done.stdout).unwrap_or_default();
    let texts = report.failed.into_iter().map(|one| one.error).chain(report.stopped);
    texts.collect::<Vec<_>>().join("\n") + &done.stderr
}

/// What a report says of failures: there may be a million of them.
#[derive(Default, Deserialize)]
struct Failures {
    #[serde(default)]
    failed: Vec<FailedFile>,
    stopped: Option<String>,
}

#[derive(Deserialize)]
struct FailedFile {
    error: String,
}

#[test]
fn names_of_a_hostile_server_are_not_made() {
    let long = format!("exp/{}", "n".repeat(5000));
    let deep = format!("exp/{}x", "d/".repeat(2500));
    let invalid = "sent an invalid name";
    let not_asked = "a name that was not requested";
    let names = |name, says, entries| case(name, says, listed(entries));
    refused(vec![
        names("above", invalid, vec![file("../escaped", 0)]),
        names("above, from within", invalid, vec![file("exp/../../escaped", 0)]),
        names("absolute", invalid, vec![file("/tmp/skyhaul-escaped", 0)]),
        names("octets", invalid, vec![sized(json!([46, 46, 47, 120]), 0)]),
        names("hidden", not_asked, vec![file(".profile", 0)]),
        names("keys", not_asked, vec![file(".ssh/authorized_keys", 0)]),
        names("a directory of keys", not_asked, vec![named(".ssh", json!("directory"), 0o700)]),
        names("beside", not_asked, vec![file("other", 0)]),
        names("zero", invalid, vec![file("exp/a\0b", 0)]),
        names("long", invalid, vec![file(&long, 0)]),
        names("deep", invalid, vec![file(&deep, 0)]),
        names("two slashes", invalid, vec![file("exp//x", 0)]),
        names("journal of another", "temporary file", vec![file("exp/.earlier.skyhaul-journal", 0)]),
        names("part of another", "temporary file", vec![file("exp/.earlier.skyhaul-part", 0)]),
        names("through a link", "Not a directory", vec![file("exp/out/escaped", 0)]),
        names("a directory through a link", "", vec![named("exp/out/escaped", json!("directory"), 0o777)]),
        names("the destination, open", invalid, vec![named("", json!("directory"), 0o777)]),
        names("the destination, closed", invalid, vec![named(".", json!("directory"), 0)]),
        names("the destination, from within", invalid, vec![named("exp/..", json!("directory"), 0)]),
        names("no name of ours", "directory that was not requested", vec![told(file("exp/new", 0), "to", 9)]),
        names("less than nothing", "not a message", vec![told(file("exp/new", 0), "mode", -1)]),
        names("another size", "a different file exists", vec![file("exp/earlier", 7)]),
        names("a file as directory", "different type", vec![named("exp/earlier", json!("directory"), 0o777)]),
        names("a link as file", "different type", vec![file("exp/out", 7)]),
        names("a directory as link", "different type", vec![named("exp/sub", json!({ "link": "/" }), 0o777)]),
    ]);
}

/// Names that are links which the server has sent before, and entries that change their type.
#[test]
fn links_that_a_server_makes_lead_nowhere() {
    let link = |to| named("exp/new", json!({ "link": to }), 0o777);
    let directory = |path| named(path, json!("directory"), 0o777);
    for (name, entries, says, made) in [
        ("file in a link", vec![link(".."), file("exp/new/escaped", 0)], "Not a directory", "link"),
        ("directory in a link", vec![link("../.."), directory("exp/new/escaped")], "", "link"),
        ("directory over a link", vec![link("sub"), directory("exp/new")], "different type", "link"),
        ("file over a link", vec![link("sub"), file("exp/new", 0)], "this name twice", "link"),
        ("link over a directory", vec![directory("exp/new"), link("..")], "different type", "directory"),
        (
            "file over a directory",
            vec![directory("exp/new"), file("exp/new", 0)],
            "different type",
            "directory",
        ),
    ] {
        for replace in ["", "--exists replace"] {
            let client = Client::new();
            let mut before = client.snapshot();
            let done = client.pull("exp", replace, listed(entries.clone())).done;
            assert_eq!(done.code, Some(1), "{name}: {}", done.said());
            assert!(failure(&done).contains(says), "{name}: {}", done.said());
            let mut after = client.snapshot();
            let new = after.remove("home/exp/new").unwrap_or_default();
            assert!(new.starts_with(made), "{name}: {new}");
            before.remove("home/exp/new");
            assert_eq!(after, before, "{name}");
        }
    }
}

#[test]
fn sizes_that_cannot_be_are_refused() {
    let sparse =
        |size: u64| told(file("exp/new", 0), "what", json!({ "file": { "size": size, "sparse": true } }));
    let many: Vec<Value> = (0..5000).map(|n| told(sparse(1 << 40), "path", format!("exp/new{n}"))).collect();
    refused(vec![
        case("2^63", "more than 16777216 ranges", listed(vec![file("exp/new", 1 << 63)])),
        case("2^64 - 1", "more than 16777216 ranges", listed(vec![file("exp/new", u64::MAX)])),
        case("2^63 of holes", "more than 16777216 ranges", listed(vec![sparse(1 << 63)])),
        case("2^64 - 1 of holes", "more than 16777216 ranges", listed(vec![sparse(u64::MAX)])),
        case("2^40", "bytes free", listed(vec![file("exp/new", 1 << 40)])),
        case(
            "2^64",
            "not a message",
            listed(vec![told(
                file("exp/new", 0),
                "what",
                json!({ "file": { "size": 1e20, "sparse": true } }),
            )]),
        ),
        case("many of 2^40", "enough of it", said(many, json!({ "stop": { "why": "enough of it" } }))),
    ]);
}

/// Sums of sizes that no number holds, of files that the user keeps as they are: the report counts what is there.
#[test]
fn sizes_of_files_that_are_kept_are_those_on_the_disk() {
    let client = Client::new();
    let before = client.snapshot();
    let huge = |path| file(path, u64::MAX);
    let entries = vec![huge("exp/earlier"), huge("exp/sub/whole")];
    let done = client.pull("exp", "--exists skip", listed(entries)).done.expect(0);
    assert_eq!(done.json()["kept_bytes"], evil::KEPT_BYTES, "{}", done.said());
    assert_eq!(client.snapshot(), before);
}

#[test]
fn ranges_of_a_hostile_server_end_the_copy() {
    let good = RangeHead { size: SIZE, length: RANGE, ..RangeHead::default() };
    let last = RangeHead { offset: u64::from(RANGE), length: SIZE as u32 - RANGE, ..good };
    let flow = |name, says, bytes: Vec<u8>| case(name, says, ranged(SIZE, bytes));
    let whole = |of: &RangeHead| head(of, true);
    let first_twice = [whole(&good), whole(&good)].concat();
    let more = [whole(&good), vec![7; 100], whole(&last)].concat();
    refused(vec![
        flow("unknown", "an unknown file", head(&RangeHead { file: 7, ..good }, false)),
        flow("2^64 - 1", "an unknown file", head(&RangeHead { file: u64::MAX, ..good }, false)),
        flow("another size", "a different size", head(&RangeHead { size: 1 << 50, ..good }, false)),
        flow("short", "wrong bounds", head(&RangeHead { length: 4096, ..good }, false)),
        flow("askew", "wrong bounds", head(&RangeHead { offset: 5, ..good }, false)),
        flow("behind the end", "not a range", head(&RangeHead { offset: SIZE, ..good }, false)),
        flow("over the end", "not a range", head(&RangeHead { offset: u64::from(RANGE), ..good }, false)),
        flow("around", "not a range", head(&RangeHead { offset: u64::MAX, ..good }, false)),
        flow("4 GiB", "not a range", head(&RangeHead { length: u32::MAX, ..good }, false)),
        flow("noise", "not a range", vec![0xAB; 48]),
        flow("twice", "a range twice", first_twice),
        flow(
            "a hole over it",
            "a range twice",
            [whole(&good), head(&RangeHead { flags: HOLE, ..good }, false)].concat(),
        ),
        flow("more", "not a range", more),
        flow("damaged for ever", "arrived damaged", evil::damaged(&last, 1100)),
        case("before it is wanted", "a range twice", evil::unwanted(good)),
        case("closed within a range", "", evil::closed(&good)),
        case("closed between ranges", "", evil::closed_between(&good)),
    ]);
}

#[test]
fn answers_to_questions_never_asked_end_the_copy() {
    let word = |name, message: Value| case(name, "unexpected", said(vec![file("exp/new", SIZE)], message));
    let found = json!([{ "file": 0, "digest": 1, "error": null }]);
    let sent = |file: u64| json!({ "sent": [{ "file": file, "digest": null, "error": null }] });
    refused(vec![
        word("digests", json!({ "digests": found })),
        word("sent of another", sent(1)),
        word("sent of none", sent(u64::MAX)),
        word("wanted", json!({ "wanted": [{ "file": 0, "ranges": [[0, 1]] }] })),
        word("again", json!({ "again": { "file": 0, "range": 0 } })),
        word("compare", json!({ "compare": [0] })),
        word("done", json!({ "done": [{ "file": 0, "digest": null, "kept": true, "error": null }] })),
        word("the end", json!({ "finished": evil::side() })),
        word("a second cookie", json!({ "ready": { "cookie": "00" } })),
        word("a late clock", json!({ "clock": [1, 1] })),
        word("a second end of names", json!("all_entries")),
        word("names behind the last", json!({ "entries": [file("exp/late", 0)] })),
        word("measured", json!({ "tried": { "trial": {}, "side": evil::side() } })),
        case("the end of a file, without end", "unexpected", evil::sent_again(1100)),
        word("another language", json!({ "perform": 1 })),
    ]);
}

#[test]
fn contents_that_are_not_what_was_said_are_not_kept() {
    let good = RangeHead { size: SIZE, length: RANGE, ..RangeHead::default() };
    let last = RangeHead { offset: u64::from(RANGE), length: SIZE as u32 - RANGE, ..good };
    let bytes = [head(&good, true), head(&last, true)].concat();
    let client = Client::new();
    let before = client.snapshot();
    let done = client.pull("exp", "", evil::digest(SIZE, bytes, 0xBAD)).done;
    assert_eq!(done.code, Some(1), "{}", done.said());
    assert!(failure(&done).contains("digests differ"), "{}", done.said());
    assert_eq!(client.names("home/exp"), ["earlier", "out", "sub"]);
    assert_eq!(client.snapshot(), before);
}

/// A listing without end: as many names as a copy may have are kept, whatever comes behind them.
#[test]
fn a_listing_without_end_takes_a_bounded_memory() {
    let client = Client::new();
    let before = client.snapshot();
    let Reply { done, peak_mib } = client.pull("exp", "", evil::endless());
    assert_eq!(done.code, Some(1), "{}", done.stderr);
    assert!(failure(&done).contains("more than 1048576 names"), "{}", done.stderr);
    println!("a listing without end: {peak_mib} MiB");
    assert!(peak_mib < 2048 + 256, "{peak_mib} MiB");
    assert_eq!(client.snapshot(), before);
}

/// Holes take a head of 48 bytes each, and memory only as runs: the first of 262 144 is left out.
#[test]
fn holes_without_their_first_take_a_bounded_memory() {
    let client = Client::new();
    let before = client.snapshot();
    let of_nothing = client.pull("exp", "", listed(Vec::new())).peak_mib;
    let Reply { done, peak_mib } = client.pull("exp", "", evil::holes(1 << 18, RANGE));
    assert_eq!(done.code, Some(1), "{}", done.stderr);
    assert!(failure(&done).contains("enough of it"), "{}", failure(&done));
    println!("holes: {peak_mib} MiB, {of_nothing} MiB without them");
    assert!(peak_mib < of_nothing + 16, "{peak_mib} MiB, {of_nothing} MiB without them");
    assert_eq!(client.snapshot(), before);
}

/// A server that says nothing more, at four moments: 30 s, and not a second of it more than that.
#[test]
fn a_server_that_falls_silent_ends_the_copy() {
    let entries = || vec![file("exp/new", SIZE)];
    let good = RangeHead { size: SIZE, length: RANGE, ..RangeHead::default() };
    let half = head(&good, true)[..10_000].to_vec();
    let cases = vec![
        ("at once", evil::silent(|_| Ok(()))),
        ("amid the names", evil::silent(move |stage| stage.say(json!({ "entries": entries() })))),
        ("before the ranges", listed(vec![file("exp/new", SIZE)])),
        (
            "amid a range",
            evil::silent(move |stage| {
                stage.say(json!({ "entries": [file("exp/new", SIZE)] }))?;
                stage.say(json!("all_entries"))?;
                stage.until("wanted")?;
                Ok(stage.flow.write_all(&half)?)
            }),
        ),
    ];
    std::thread::scope(|scope| {
        for (name, play) in cases {
            scope.spawn(move || {
                let client = Client::new();
                let before = client.snapshot();
                let done = client.pull("exp", "", play).done;
                assert_eq!(done.code, Some(1), "{name}: {}", done.said());
                assert!(!failure(&done).is_empty(), "{name}");
                assert_eq!(client.snapshot(), before, "{name}");
            });
        }
    });
}
