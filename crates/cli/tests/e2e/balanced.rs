//! A sender, a balancer and workers, each a process, with one of them killed; and the sweep of all combinations.

use crate::site::{number, run};

#[test]
fn every_event_of_the_demo_is_accounted_for() {
    let directory = tempfile::tempdir().unwrap();
    let at = directory.path().display();
    let line = format!("demo ejfat --duration 4s --rate 200Mbps --directory {at} --json --quiet");
    let done = run(&line);
    let report = done.json();
    let account = &report["account"];
    done.expect(0);
    let n = |name: &str| number(&account[name]);
    assert!(n("whole") > 0 && n("whole") + n("with_the_killed") == n("sent"), "{account}");
    assert_eq!((n("split"), n("incomplete"), n("wrong"), n("unexplained")), (0, 0, 0, 0), "{account}");
    let whole = |worker: usize| number(&account["parts"][worker]["whole"]);
    assert!(whole(0) > 0 && whole(3) > 0, "{account}");
    let page = std::fs::read_to_string(directory.path().join("report.html")).unwrap();
    assert!(page.matches("<svg").count() == 2 && page.ends_with("</html>\n"), "{page}");
}

#[test]
fn a_sweep_has_a_row_for_each_combination() {
    let directory = tempfile::tempdir().unwrap();
    let at = directory.path().display();
    let sweep = "--mtus 1500,9000 --events 20KiB --workers 2 --rates 50Mbps --time 100ms --rounds 1";
    let report = run(&format!("bench ejfat {sweep} --report {at} --json --quiet")).expect(0).json();
    let points = report["points"].as_array().unwrap();
    assert_eq!(points.len(), 2, "{report}");
    assert!(points.iter().all(|point| number(&point["events"]) > 0), "{report}");
    for name in ["README.md", "figures.json", "whole.svg", "lost.svg", "balance-cpu.svg"] {
        assert!(directory.path().join(name).exists(), "{name}");
    }
}
