use super::*;
use proptest::prelude::*;
use serde_json::json;

fn verdicts(a: &Value, b: &Value) -> BTreeMap<String, Verdict> {
    let comparison = compare(a, b, &Options::default()).unwrap();
    comparison.figures.iter().map(|figure| (figure.path.clone(), figure.verdict)).collect()
}

#[test]
fn figures_are_judged_by_their_spread_the_tolerance_and_their_names() {
    let spread = |low: f64, median: f64, high: f64| json!({"median": median, "min": low, "max": high});
    let a = json!({"command": "x", "rate": spread(90.0, 100.0, 110.0), "bits_per_second": 100.0, "lost": 0, "n": 10,
                   "cpu": spread(1.0, 1.0, 1.0), "delay": 5.0, "state": "pass"});
    let b = json!({"command": "y", "rate": spread(80.0, 85.0, 91.0), "bits_per_second": 94.0, "lost": 1, "n": 20,
                   "cpu": spread(0.5, 0.6, 0.7), "delay": 5.2, "state": "warn"});
    let found = verdicts(&a, &b);
    for (path, verdict) in [
        ("rate", Verdict::Within),
        ("bits_per_second", Verdict::Worse),
        ("lost", Verdict::Worse),
        ("n", Verdict::Different),
        ("cpu", Verdict::Better),
        ("delay", Verdict::Within),
        ("state", Verdict::Worse),
    ] {
        assert_eq!(found.get(path), Some(&verdict), "{path}");
    }
    let comparison = compare(&a, &b, &Options { tolerance: 0.1 }).unwrap();
    assert_eq!(comparison.changes, [Change { path: "command".into(), a: "x".into(), b: "y".into() }]);
    assert_eq!(comparison.different().first().map(|f| f.verdict), Some(Verdict::Worse));
    assert!(!comparison.different().iter().any(|f| f.path == "bits_per_second"), "6 % is within 10 %");
}

#[test]
fn elements_belong_together_by_what_they_have_in_common() {
    let point =
        |rate: u64, mtu: u64, whole: f64| json!({"rate": rate, "mtu": mtu, "whole": whole, "events": 7});
    let a = json!({"points": [point(1, 1500, 1.0), point(2, 1500, 2.0), point(1, 9000, 1.5)]});
    let b = json!({"points": [point(1, 9000, 3.0), point(1, 1500, 1.0), point(4, 1500, 4.0)]});
    let comparison = compare(&a, &b, &Options::default()).unwrap();
    let whole: Vec<&Figure> = comparison.figures.iter().filter(|f| f.path.ends_with("whole")).collect();
    assert_eq!(whole.len(), 3, "{whole:?}");
    let same = json!({"points": [point(1, 9000, 1.5), point(2, 1500, 2.0), point(1, 1500, 1.0)]});
    assert!(verdicts(&a, &same).values().all(|verdict| *verdict == Verdict::Same));
    let fewer = json!({"points": [point(1, 9000, 1.5), point(1, 1500, 1.0)]});
    let comparison = compare(&a, &fewer, &Options::default()).unwrap();
    assert_eq!(comparison.count(Verdict::Same), comparison.figures.len());
    assert!(comparison.only_a.iter().all(|path| path.contains("rate=2")) && comparison.only_a.len() == 4);
}

#[test]
fn elements_with_a_name_belong_together_whatever_else_turned() {
    let claim = |what: &str, verdict: &str| json!({"unit": "", "verdict": verdict, "what": what});
    let a = json!({"claims": [claim("rate", "held"), claim("bucket", "broken")], "version": 1});
    let b = json!({"claims": [claim("rate", "broken"), claim("bucket", "broken")], "version": 1});
    let found = verdicts(&a, &b);
    assert_eq!(found.get("claims[what=rate].verdict"), Some(&Verdict::Worse), "{found:?}");
    assert_eq!(found.get("claims[what=bucket].verdict"), Some(&Verdict::Same), "{found:?}");
    let call = |name: &str| json!({"call": format!("to {name}"), "name": name, "lost": 1});
    let found = verdicts(&json!([call("x"), call("y")]), &json!([call("y"), call("x")]));
    assert_eq!(found.get("[name=x].lost"), Some(&Verdict::Same), "{found:?}");
}

#[test]
fn what_is_no_report_or_of_another_kind_is_refused() {
    let report = json!({"lost": 1, "placed": 2, "seconds": 3.0, "version": 2});
    let options = Options::default();
    assert_eq!(compare(&json!(5), &report, &options), Err(CompareError::NoReport("A")));
    assert_eq!(compare(&report, &json!(["x"]), &options), Err(CompareError::NoReport("B")));
    assert_eq!(
        compare(&report, &json!({"checks": [], "host": "x"}), &options),
        Err(CompareError::OtherKind { shared: 0, all: 4 })
    );
    let newer = json!({"lost": 1, "placed": 2, "seconds": 3.0, "version": 3});
    assert_eq!(compare(&report, &newer, &options), Err(CompareError::OtherVersion(2, 3)));
    let deep = (0..40).fold(json!(1), |inner, _| json!({ "x": inner }));
    assert!(matches!(compare(&deep, &deep, &options), Err(CompareError::TooLarge(_))));
}

#[test]
fn two_runs_over_a_clean_path_pass_and_a_worse_path_does_not() {
    let run = |rate: f64, lost: u64, jitter: f64, p99: f64, idle: u64, rtt: f64| {
        json!({"points": [{"forward": {"user_bits_per_second": rate, "lost": lost, "delay_ns": {"median": 5e6 + jitter, "p99": p99}},
                           "client": {"counters": {"cpu.idle": idle, "cpu.system": idle / 3}, "cpu_seconds": 0.3},
                           "trace": [{"at": 0.0, "rtt": rtt}, {"at": 0.1, "rtt": rtt * 1.7}],
                           "received": [{"jitter_ns": jitter, "rtt_mean": rtt}]}]})
    };
    let clean = run(50e6, 0, 9_000.0, 5.3e6, 300, 0.0101);
    let twin = run(49.5e6, 0, 21_000.0, 5.9e6, 900, 0.0104);
    let worse = |b: &Value| compare(&clean, b, &Options::default()).unwrap().count(Verdict::Worse);
    assert_eq!(
        (worse(&twin), compare(&twin, &clean, &Options::default()).unwrap().count(Verdict::Worse)),
        (0, 0)
    );
    assert_eq!(worse(&run(40e6, 0, 9_000.0, 5.3e6, 300, 0.0101)), 1, "a lower rate");
    assert_eq!(worse(&run(50e6, 9, 9_000.0, 5.3e6, 300, 0.0101)), 1, "a loss");
    assert_eq!(worse(&run(50e6, 0, 9_000.0, 25e6, 300, 0.0101)), 1, "a delay of 20 ms more");
    assert_eq!(worse(&run(50e6, 0, 9_000.0, 5.3e6, 300, 0.02)), 1, "a round trip twice as long");
}

#[test]
fn a_figure_that_swung_within_its_run_is_judged_by_how_far() {
    let flow = |mean: f64, low: f64, high: f64| json!({"flows": [{"congestion": "bbr", "bits_per_second": 50e6, "rtt_mean": mean, "rtt_mean_range": [low, high]}]});
    // Round trips of one clean path: a flow that fills a queue when it starts, twice.
    let (a, b) = (flow(0.0129, 0.0108, 0.0182), flow(0.0154, 0.0109, 0.0243));
    let worse = |a: &Value, b: &Value| compare(a, b, &Options::default()).unwrap().count(Verdict::Worse);
    assert_eq!((worse(&a, &b), worse(&b, &a)), (0, 0));
    // A queue that stays is not that of a start.
    assert_eq!(worse(&a, &flow(0.0254, 0.0209, 0.0343)), 1);
    // The hosts' noise is noise with a range, too.
    assert_eq!(worse(&flow(0.0010, 0.0010, 0.00101), &flow(0.0012, 0.0012, 0.00121)), 0);
    let found = verdicts(&a, &b);
    assert_eq!(found.get("flows[congestion=bbr].rtt_mean"), Some(&Verdict::Within));
    assert!(!found.keys().any(|path| path.contains("range")), "{found:?}");
    // What is no range is none.
    let none = json!({"rtt_mean": 0.02, "rtt_mean_range": [0.01]});
    assert_eq!(worse(&json!({"rtt_mean": 0.01, "rtt_mean_range": "x"}), &none), 1);
}

#[test]
fn cpu_time_per_gigabyte_of_a_short_run_is_as_unsteady_as_its_time() {
    let run = |bytes: u64, seconds: f64| json!({"bytes": bytes, "cpu_seconds_per_gb": seconds / bytes as f64 * 1e9});
    let worse = |a: &Value, b: &Value| compare(a, b, &Options::default()).unwrap().count(Verdict::Worse);
    assert_eq!(worse(&run(24_000_000, 0.16), &run(24_000_000, 0.34)), 0, "0.18 s of another program");
    assert_eq!(worse(&run(24_000_000, 0.16), &run(24_000_000, 0.56)), 1);
    assert_eq!(worse(&run(2_400_000_000, 1.6), &run(2_400_000_000, 3.4)), 1);
}

fn value() -> impl Strategy<Value = Value> {
    let scalar = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        any::<u64>().prop_map(Value::from),
        "[a-z]{0,4}".prop_map(Value::from),
    ];
    scalar.prop_recursive(4, 64, 6, |inner| {
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..5).prop_map(Value::from),
            proptest::collection::btree_map("[a-c]|median|min|max", inner, 0..5)
                .prop_map(|map| Value::Object(map.into_iter().collect())),
        ]
    })
}

proptest! {
    #[test]
    fn any_two_documents_are_compared_or_refused(a in value(), b in value()) {
        if let Ok(found) = compare(&a, &b, &Options::default()) {
            prop_assert!(found.different().len() <= found.figures.len());
        }
        if let Ok(found) = compare(&a, &a, &Options::default()) {
            prop_assert!(found.different().is_empty() && found.changes.is_empty());
            prop_assert!(found.only_a.is_empty() && found.only_b.is_empty());
        }
    }
}
