//! Every check on made hosts: a line for each verdict that it may give.
//!
//! ```text
//!   A1 warn     /sys/…/scaling_governor=powersave       on the server, with this file
//!   A1 n/a      world=guest                             on another host
//!   C27 fail    rise=count/Udp/RcvbufErrors:5           after a run in which this counter rose
//!   B7 warn     role=measure                            for another use
//! ```
//!
//! Several changes are separated by ` ; `. A value `?` cannot be read, `-` is not there.

#![allow(clippy::unwrap_used)]

mod advised;
mod applied;
mod cases;
mod lists;
mod saved;
mod world;

use skyhaul_measure::host::*;
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, LazyLock, Mutex, OnceLock};
use world::{World, container, epyc, guest, server, target};

/// What a line of the cases demands.
fn verdict(word: &str) -> CheckVerdict {
    match word {
        "pass" => CheckVerdict::Pass,
        "warn" => CheckVerdict::Warn,
        "info" => CheckVerdict::Info,
        "fail" => CheckVerdict::Fail,
        "unknown" => CheckVerdict::Unknown,
        "n/a" => CheckVerdict::NotApplicable,
        other => panic!("no verdict: {other}"),
    }
}

/// Changes of a use.
fn wants(target: &mut HostTarget, name: &str, value: &str) -> bool {
    match name {
        "role" => target.role = value.parse().unwrap(),
        "rate" => target.rate = value.parse::<skyhaul::io::quantity::Rate>().unwrap().bits_per_second(),
        "rtt" => target.rtt = value.parse::<skyhaul::io::quantity::Span>().unwrap().nanos(),
        "flows" => target.flows = value.parse().unwrap(),
        "wanted-mtu" => target.mtu = Some(value.parse().unwrap()),
        _ => return false,
    }
    true
}

thread_local! {
    /// A host that was made, kept for the next line: it has some seven hundred files.
    static MADE: RefCell<BTreeMap<String, World>> = const { RefCell::new(BTreeMap::new()) };
}

fn made(name: &str) -> World {
    let mut world = match name {
        "server" => server(),
        "epyc" => epyc(),
        "guest" => guest(),
        "container" => container(),
        other => panic!("no world: {other}"),
    };
    world.keep();
    world
}

/// What one line of the cases gives. Several tests ask for each line: what the first got is kept, as a host takes some 2000 system calls.
fn run(changes: &str) -> (HostReport, bool) {
    type Played = Arc<OnceLock<(HostReport, bool)>>;
    static KEPT: Mutex<BTreeMap<String, Played>> = Mutex::new(BTreeMap::new());
    let kept = Arc::clone(KEPT.lock().unwrap().entry(changes.to_owned()).or_default());
    kept.get_or_init(|| played(changes)).clone()
}

fn played(changes: &str) -> (HostReport, bool) {
    let changes: Vec<(&str, &str)> = changes
        .split(" ; ")
        .filter(|c| !c.trim().is_empty())
        .map(|c| c.trim().split_once('=').unwrap())
        .collect();
    let name =
        changes.iter().find(|(name, _)| *name == "world").map_or("server", |(_, name)| name).to_owned();
    let mut world = MADE.with_borrow_mut(|all| all.remove(&name)).unwrap_or_else(|| made(&name));
    let (mut target, mut rises, mut ran, mut peer) = (target(), Vec::new(), false, None);
    for (name, value) in changes {
        match name {
            "world" => {}
            "ran" => ran = true,
            "rise" => rises.push(value.rsplit_once(':').unwrap()),
            "peer-mtu" | "peer-driver" | "peer-firmware" => {
                let of = match name.trim_start_matches("peer-") {
                    "mtu" => "/sys/class/net/eth1/mtu".to_owned(),
                    asked => format!("ethtool/eth1/{asked}"),
                };
                static SERVER: LazyLock<Facts> = LazyLock::new(|| server().facts());
                peer.get_or_insert_with(|| SERVER.clone()).note(of, value);
            }
            "payload" => world.octets(
                "/sys/class/net/eth1/device/config",
                &world::configuration(value.parse().unwrap(), 512),
            ),
            _ if wants(&mut target, name, value) => {}
            _ => {
                world.set(name, &value.replace("\\n", "\n"));
                if let Some(irq) = name.strip_suffix("/smp_affinity_list") {
                    world.set(&format!("{irq}/effective_affinity_list"), value);
                }
            }
        }
    }
    let before = world.facts();
    let mut after = count_again(&world.tree(), &world.fake, &before);
    ran |= !rises.is_empty();
    for (name, by) in rises {
        let was = before.number(name).unwrap_or(0);
        after.note(name, was + by.parse::<u64>().unwrap());
    }
    let view =
        HostView { facts: &after, before: ran.then_some(&before), peer: peer.as_ref(), target: &target };
    let report = HostReport::new(&view, &[]);
    world.revert();
    if !world.spoilt {
        MADE.with_borrow_mut(|all| all.insert(name, world));
    }
    (report, ran)
}

#[test]
fn every_check_gives_each_of_its_verdicts() {
    let (mut seen, mut wrong) = (BTreeMap::<String, BTreeSet<CheckVerdict>>::new(), Vec::new());
    for line in cases::ALL.lines().filter(|line| !line.trim().is_empty()) {
        let mut words = line.trim().splitn(3, char::is_whitespace);
        let (id, word) = (words.next().unwrap(), words.next().unwrap());
        let (report, ran) = run(words.next().unwrap_or_default());
        let found =
            report.checks.iter().find(|check| check.id == id).unwrap_or_else(|| panic!("no check {id}"));
        if found.verdict != verdict(word) {
            wrong.push(format!(
                "{line}\n      gave {:?}: {} (wanted {}) {:?}",
                found.verdict, found.value, found.wanted, found.evidence
            ));
        }
        let broken = report.checks.iter().filter(|check| check.verdict == CheckVerdict::Fail);
        assert!(ran || broken.count() == 0, "only a counter that rose is a failure: {line}");
        seen.entry(id.to_owned()).or_default().insert(found.verdict);
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    for check in checks::all() {
        let demanded = cases::DEMANDED.iter().find(|(id, _)| *id == check.id);
        let demanded = demanded.unwrap_or_else(|| panic!("{} has no line of demands", check.id)).1;
        let demanded: BTreeSet<CheckVerdict> = demanded.split(' ').map(verdict).collect();
        let seen = seen.remove(check.id).unwrap_or_default();
        assert_eq!(seen, demanded, "{}", check.id);
    }
}

#[test]
fn the_table_is_whole_and_in_order() {
    let ids: Vec<&str> = checks::all().map(|check| check.id).collect();
    let expected: Vec<String> = [('A', 19), ('B', 26), ('C', 39), ('D', 10)]
        .into_iter()
        .flat_map(|(group, count)| (1..=count).map(move |number| format!("{group}{number}")))
        .collect();
    assert_eq!(ids, expected);
    for check in checks::all() {
        assert!(check.why.ends_with('.') && !check.title.ends_with('.'), "{}", check.id);
        assert!(!check.sources.is_empty(), "{}", check.id);
        assert!(
            check.sources.chars().all(|letter| SOURCES.iter().any(|(of, _)| *of == letter)),
            "{}",
            check.id
        );
        assert!(checks::GROUPS.iter().any(|(group, _)| check.id.starts_with(*group)), "{}", check.id);
    }
}

#[test]
fn a_host_that_is_as_wanted_has_no_warning() {
    for world in [server(), epyc()] {
        let (facts, target) = (world.facts(), target());
        let view = HostView { facts: &facts, before: None, peer: None, target: &target };
        let report = HostReport::new(&view, &[]);
        let attention: Vec<_> =
            report.of(CheckVerdict::Fail).into_iter().chain(report.of(CheckVerdict::Warn)).collect();
        assert!(attention.is_empty(), "{attention:#?}");
        assert_eq!(report.count(CheckVerdict::Unknown), 0, "{:#?}", report.of(CheckVerdict::Unknown));
        assert_eq!(report.checks.len(), 94);
        assert!(facts.facts.keys().all(|name| !name.ends_with("_key")), "no secrets are kept");
    }
}

#[test]
fn what_a_warning_sets_makes_it_pass() {
    let mut mended = 0;
    for line in cases::ALL.lines().filter(|line| line.contains(" warn")) {
        let mut words = line.trim().splitn(3, char::is_whitespace);
        let (id, _) = (words.next().unwrap(), words.next());
        let changes = words.next().unwrap_or_default();
        let (report, ran) = run(changes);
        let check = report.checks.iter().find(|check| check.id == id).unwrap();
        if check.settings.is_empty() || ran || changes.contains("kernel/") || changes.contains("socket/") {
            continue;
        }
        let mut set: Vec<String> = check
            .settings
            .iter()
            .map(|s| format!("{}={}", s.name.replace("qdisc/eth1/root", "qdisc/root"), s.value))
            .collect();
        // The kernel puts the default into each queue of a new mq.
        if set.iter().any(|setting| setting == "qdisc/root=mq") {
            set.push("qdisc/leaves=fq fq".into());
        }
        let (again, _) = run(&format!("{changes} ; {}", set.join(" ; ")));
        let after = again.checks.iter().find(|check| check.id == id).unwrap();
        assert_ne!(after.verdict, CheckVerdict::Warn, "{line}: {set:?} leaves {after:#?}");
        mended += 1;
    }
    assert!(mended > 40, "{mended}");
}

#[test]
fn a_machine_that_was_made_of_a_containers_image_is_no_container() {
    let world = container();
    let found = |world: &World| world.facts().text("host/container").map(str::to_owned);
    assert_eq!(found(&world).as_deref(), Some("docker"));
    let first =
        [("pid", "4026531836"), ("ipc", "4026531839"), ("uts", "4026531838"), ("cgroup", "4026531835")];
    for (kind, number) in first {
        world.link(&format!("/proc/self/ns/{kind}"), &format!("{kind}:[{number}]"));
    }
    assert_eq!(found(&world), None, "all of its namespaces are those that the kernel begins with");
    world.link("/proc/self/ns/pid", "pid:[4026532444]");
    assert_eq!(found(&world).as_deref(), Some("docker"));
}

#[test]
fn only_some_checks_can_be_asked_for() {
    let (facts, target) = (server().facts(), target());
    let view = HostView { facts: &facts, before: None, peer: None, target: &target };
    let ids = |only: &[&str]| -> Vec<String> {
        let only: Vec<String> = only.iter().map(|text| selection(text).unwrap()).collect();
        HostReport::new(&view, &only).checks.into_iter().map(|check| check.id).collect()
    };
    assert_eq!(ids(&["c14", "A1"]), ["A1", "C14"]);
    assert_eq!(ids(&["D"]).len(), 10);
    assert!(selection("E1").unwrap_err().contains("hint: give a group"));
    assert!(selection("").is_err());
}
