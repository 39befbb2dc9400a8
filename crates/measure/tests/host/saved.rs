//! Snapshots: saved, read again, compared; and snapshots that nobody made.

use super::world::{epyc, guest, server, target};
use proptest::prelude::*;
use skyhaul_measure::host::{
    CheckVerdict, Fact, Facts, HostReport, HostView, SnapshotDiff, load, read_snapshot, save,
};
use std::sync::LazyLock;

#[test]
fn a_snapshot_is_the_same_after_it_was_saved() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("dtn1.json");
    let facts = server().facts();
    save(&facts, &path).unwrap();
    assert_eq!(load(&path).unwrap(), facts);
    let gone = load(&directory.path().join("none.json")).unwrap_err().to_string();
    assert!(gone.contains("hint: "), "{gone}");
    let deep = directory.path().join("no/such/dtn1.json");
    assert!(save(&facts, &deep).unwrap_err().to_string().contains("hint: create the directory first"));
}

#[test]
fn what_is_no_snapshot_is_refused_with_a_hint() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("x.json");
    let newer = serde_json::to_string(&Facts { version: 9, ..server().facts() }).unwrap();
    for (text, said) in
        [("", "EOF"), ("[]", "invalid"), ("{\"version\": 1}", "missing field"), (&newer, "version 9")]
    {
        std::fs::write(&path, text).unwrap();
        let error = load(&path).unwrap_err().to_string();
        assert!(error.contains(said) && error.contains("hint: `skyhaul host --save"), "{error}");
    }
}

#[test]
fn what_differs_is_named_whatever_the_interface_is_called() {
    let mut world = server();
    let before = world.facts();
    world.set("/proc/sys/net/core/rmem_max", "212992");
    world.set("/sys/class/net/eth1/statistics/rx_packets", "99");
    let after = world.facts();
    let found = SnapshotDiff::new(&before, &after, &target(), &[]);
    let [one] = &found.checks[..] else { panic!("{:#?}", found.checks) };
    assert_eq!((one.id.as_str(), one.a.0, one.b.0), ("C1", CheckVerdict::Pass, CheckVerdict::Warn));
    let [fact] = &found.facts[..] else { panic!("{:#?}", found.facts) };
    assert_eq!((fact.name.as_str(), fact.b.as_deref()), ("/proc/sys/net/core/rmem_max", Some("212992")));

    let text = serde_json::to_string(&before).unwrap().replace("eth1", "ens3f0np0");
    let renamed: Facts = serde_json::from_str(&text).unwrap();
    let found = SnapshotDiff::new(&before, &renamed, &target(), &[]);
    assert!(found.checks.is_empty() && found.facts.is_empty(), "{found:#?}");
    assert!(
        SnapshotDiff::new(&before, &epyc().facts(), &target(), &[])
            .facts
            .iter()
            .any(|fact| fact.name == "cpu/model")
    );
}

#[test]
fn a_snapshot_can_be_judged_elsewhere() {
    let facts = guest().facts();
    let text = serde_json::to_vec(&facts).unwrap();
    let again = read_snapshot(&text).unwrap();
    let (target, report) = (target(), |facts: &Facts, target| {
        HostReport::new(&HostView { facts, before: None, peer: None, target }, &[])
    });
    assert_eq!(report(&facts, &target), report(&again, &target));
}

/// Made once: a host is some seven hundred files.
static EPYC: LazyLock<Facts> = LazyLock::new(|| epyc().facts());

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]

    /// A snapshot comes from anywhere: no value of any fact makes a check panic.
    #[test]
    fn no_value_makes_a_check_panic(
        values in proptest::collection::vec("-?[0-9]{1,20}|[a-z :,/0-9-]{0,12}|", 1..400),
        rate in 1u64..,
        rtt: u64,
        flows in 1u64..,
    ) {
        let mut facts = EPYC.clone();
        for (fact, value) in facts.facts.values_mut().zip(values.iter().cycle()) {
            *fact = Fact::Text(value.clone());
        }
        let target = skyhaul_measure::host::HostTarget { rate, rtt, flows, ..target() };
        let report = HostReport::new(&HostView { facts: &facts, before: Some(&facts), peer: Some(&facts), target: &target }, &[]);
        prop_assert_eq!(report.checks.len(), 94);
    }
}

#[test]
fn the_page_of_the_checks_is_current() {
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/reference/host.md");
    let page = skyhaul_measure::host::reference();
    if std::env::var_os("SKYHAUL_WRITE_REFERENCE").is_some() {
        std::fs::write(&path, &page).unwrap();
    }
    assert_eq!(std::fs::read_to_string(&path).unwrap_or_default(), page, "not current: cargo xtask host");
}
