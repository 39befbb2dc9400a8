//! `probe campaign`: what it writes, that its predictions are compared, that what is done is kept; and two of them compared.
//!
//! Whether a prediction holds depends on this machine, so no test asks for it: what was lost must be what the router lost.

use super::lab::permitted;
use super::site::{Done, Job, number, run, wait_for, words};
use rustix::process::Signal;
use serde_json::Value;
use std::path::Path;

#[track_caller]
fn campaign(directory: &Path, line: &str) -> Done {
    run(&format!("probe campaign talk --quick --json --report {} {line}", directory.display()))
}

fn read(path: &Path) -> Value {
    serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap()
}

#[test]
fn experiments_become_a_page_plots_and_json() {
    if !permitted() {
        return;
    }
    let place = tempfile::tempdir().unwrap();
    let directory = place.path().join("talk");
    let done = campaign(&directory, "--only policing,rings,switch-limit").expect(0);
    let told = done.json();
    assert_eq!((number(&told["made"]), number(&told["skipped"]), number(&told["failed"])), (2, 1, 0));
    assert_eq!(read(&directory.join("report.json")), told);
    let experiments = told["experiments"].as_array().unwrap();
    let names: Vec<&str> = experiments.iter().map(|one| one["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["rings", "policing", "switch-limit"]);
    assert!(experiments[0]["why"].as_str().unwrap().contains("network card"));
    assert!(experiments[0]["figure"].is_null(), "nothing is made up");
    for one in &experiments[1..] {
        let (name, figure) = (one["name"].as_str().unwrap(), &one["figure"]);
        assert!(figure["rows"].as_array().unwrap().len() >= 3, "{figure}");
        assert!(
            !figure["claims"].as_array().unwrap().is_empty() && done.stderr.contains(name),
            "{}",
            done.stderr
        );
        assert_eq!(&read(&directory.join(format!("{name}.json"))), one);
        assert!(std::fs::read_to_string(directory.join(format!("{name}.svg"))).unwrap().starts_with("<svg"));
    }
    policed(&experiments[1]);
    page(&directory);
    let again = campaign(&directory, "--resume --only policing,rings").expect(0);
    assert!(again.stderr.contains("policing      kept: already done"), "{}", again.stderr);
    assert_eq!(again.json()["experiments"][1], experiments[1]);
}

/// Each packet that the router's policer dropped was lost, whatever else a busy machine lost; the last run of points has its
/// map.
fn policed(policing: &Value) {
    /// Small packets of the control connection and of the clocks.
    const OTHERS: f64 = 100.0;
    let figure = &policing["figure"];
    let claims = figure["claims"].as_array().unwrap();
    let claim =
        claims.iter().find(|one| one["what"].as_str().unwrap().contains("the router dropped")).unwrap();
    let dropped = policing["labs"][0]["lost"]["policed"].as_f64().unwrap_or(0.0);
    if dropped == 0.0 {
        println!("SKIPPED: no packet came faster than the policer lets pass (a machine that is less busy)");
    }
    let lost = claim["measured"].as_f64().unwrap();
    assert_eq!(claim["predicted"].as_f64(), Some(dropped), "{claim}");
    assert!(lost + OTHERS >= dropped, "{lost} lost of {dropped} dropped");
    let map = figure["maps"][0]["lost"].as_array().unwrap();
    let last: u64 = map.iter().map(|run| number(&run[1]) - number(&run[0])).sum();
    assert!(last as f64 <= lost, "{last} of {lost}");
}

fn page(directory: &Path) {
    let html = std::fs::read_to_string(directory.join("index.html")).unwrap();
    assert!(html.contains("Rings of a network card") && html.contains("<b>skipped</b>: needs two hosts"));
    assert!(
        !html.contains("http://") && !html.contains("https://") && !html.contains(" src="),
        "self-contained"
    );
    assert!(html.matches("<svg").count() >= 3, "two charts and a map");
}

#[test]
fn what_was_done_before_an_interrupt_is_kept_and_compared() {
    if !permitted() {
        return;
    }
    let place = tempfile::tempdir().unwrap();
    let (whole, half) = (place.path().join("whole"), place.path().join("half"));
    let line = "probe campaign talk --quick --only policing,rtt-steps --report";
    let mut job = Job::start(&words(&format!("{line} {}", half.display())));
    wait_for("the first experiment", || {
        assert!(job.is_running(), "{}", job.stderr());
        half.join("policing.json").exists().then_some(())
    });
    job.signal(Signal::INT);
    let done = job.finish().expect(1);
    assert!(done.stderr.contains("INTERRUPTED: measured until then"), "{}", done.stderr);
    let told = read(&half.join("report.json"));
    assert_eq!((number(&told["made"]), &told["interrupted"]), (1, &true.into()), "{told}");
    assert!(std::fs::read_to_string(half.join("index.html")).unwrap().contains("interrupted"));
    campaign(&whole, "--only policing").expect(0);
    let diff = run(&format!("report diff {} {} --json", whole.display(), half.display())).expect(0).json();
    let paths: Vec<&str> =
        diff["figures"].as_array().unwrap().iter().map(|one| one["path"].as_str().unwrap()).collect();
    for wanted in ["rows[of=90 Mb/s].lost_percent", "policer's rate, found from the losses].verdict"] {
        assert!(paths.iter().any(|path| path.contains(wanted)), "{wanted}: {paths:?}");
    }
}

#[test]
fn an_unknown_experiment_is_refused_with_the_names() {
    let said = run("probe campaign talk --only policing,ring").expect(2).stderr;
    assert!(
        said.contains("unknown experiment `ring`\nhint: the experiments are rings, buffer-scan"),
        "{said}"
    );
    let said = run("probe campaign talk --resume").expect(2).stderr;
    assert!(said.contains("--report"), "{said}");
}
