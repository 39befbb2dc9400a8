//! Checks the judge against the path, and its outcomes against its own sums.

use super::*;
use proptest::prelude::*;

const FRAME: u32 = 1514;

fn path(text: &str) -> Path {
    text.parse().unwrap()
}

fn packet(at: u64) -> Packet {
    Packet { at, octets: FRAME, ip: FRAME - 14, ..Packet::default() }
}

/// The outcomes of `count` packets, `apart` nanoseconds apart, in their order.
fn run(text: &str, count: u64, apart: u64) -> (Vec<Outcome<u64>>, Counts) {
    let mut judge = Judge::new(&path(text));
    let mut all = Vec::new();
    for number in 0..count {
        judge.advance(number * apart, &mut |_, outcome| all.push(outcome));
        judge.offer(Direction::Forward, packet(number * apart), number, &mut |outcome| all.push(outcome));
    }
    judge.flush(Direction::Forward, count * apart, &mut |outcome| all.push(outcome));
    (all, *judge.counts(Direction::Forward))
}

fn due(outcome: &Outcome<u64>) -> Option<u64> {
    match outcome.fate {
        Fate::Sent { due, .. } => Some(due),
        Fate::Lost(_) => None,
    }
}

#[test]
fn a_clean_path_does_nothing() {
    let (all, counts) = run("", 100, 1000);
    assert!(all.iter().enumerate().all(|(n, o)| (o.number, o.copy, due(o)) == (n as u64, 0, Some(o.at))));
    assert_eq!((counts.offered, counts.sent, counts.all_lost(), counts.late), (100, 100, 0, 0));
}

#[test]
fn the_rate_is_exact_and_the_queue_is_bounded() {
    let (all, counts) = run("rate=1Gbps,buffer=100kB", 10_000, 6_056);
    let arrived: Vec<u64> = all.iter().filter_map(due).collect();
    assert!(arrived.windows(2).all(|two| two[1] - two[0] == 12_112), "each takes its time on the line");
    assert_eq!(counts.lost[Cause::QueueFull as usize], counts.all_lost());
    assert!(counts.most_waiting <= 100_000 && counts.most_waiting > 98_000, "{}", counts.most_waiting);
    assert!(counts.sent.abs_diff(5000) < 70, "half, and what waits: {}", counts.sent);
}

#[test]
fn a_policer_passes_its_rate_and_its_burst() {
    let (all, counts) = run("police=400Mbps/1MiB", 50_000, 12_112);
    let passed = counts.sent_octets as f64;
    let expected = 400e6 / 8.0 * 50_000.0 * 12_112e-9 + 1048576.0;
    assert!((passed / expected - 1.0).abs() < 1e-3, "{passed} of {expected}");
    let first = all.iter().find(|o| o.fate == Fate::Lost(Cause::Policed)).unwrap();
    assert!(first.number > (1 << 20) / u64::from(FRAME), "the burst passes first");
}

#[test]
fn faults_keep_their_fates_on_a_path() {
    let text = "loss=0.02,burst=20@0.001,reorder=16@0.1,duplicate=0.02,corrupt=0.01,truncate=0.01,seed=11";
    let mut plan = crate::fault::FaultPlan::new(&text.parse().unwrap());
    let (mut all, counts) = run(text, 20_000, 1000);
    all.sort_by_key(|outcome| (outcome.number, outcome.copy));
    let mut next = all.iter();
    for number in 0..20_000 {
        let fate = plan.next_fate();
        let one = next.next().unwrap();
        assert_eq!((one.number, one.copy), (number, 0));
        match one.fate {
            Fate::Lost(_) => assert!(fate.lost),
            Fate::Sent { damage, late, .. } => assert_eq!((damage, late), (fate.damage, fate.late > 0)),
        }
        if fate.again.is_some() {
            let again = next.next().unwrap();
            assert_eq!((again.number, again.copy), (number, 1));
        }
    }
    let did = plan.injected();
    assert_eq!(
        (counts.all_lost(), counts.late, counts.duplicated),
        (did.lost(), did.reordered, did.duplicated)
    );
    assert_eq!(counts.lost[Cause::Burst as usize], did.lost_in_bursts);
}

#[test]
fn losses_are_as_frequent_as_the_models_say() {
    let share = |text: &str| run(text, 500_000, 1000).1.all_lost() as f64 / 5e5;
    let near =
        |share: f64, expected: f64| assert!((share / expected - 1.0).abs() < 0.1, "{share} {expected}");
    near(share("gemodel=0.01/0.1/0.5,seed=3"), 0.5 * 0.01 / 0.11);
    near(share("gemodel=0.01/0.1/1/0.01,seed=4"), (0.01 + 0.01 * 0.1) / 0.11);
    near(share("ber=1e-6,seed=5"), 1.0 - (1.0 - 1e-6f64).powi(8 * 1514));
    near(share("pps=100000/10"), 0.9);
}

#[test]
fn a_fault_that_is_left_out_changes_no_other() {
    let lost = |text: &str, cause: Cause| -> Vec<u64> {
        let (all, _) = run(text, 20_000, 1000);
        all.iter().filter(|o| o.fate == Fate::Lost(cause)).map(|o| o.number).collect()
    };
    let model = lost("gemodel=0.01/0.1,seed=9", Cause::Model);
    assert!(!model.is_empty());
    assert_eq!(lost("gemodel=0.01/0.1,jitter=1ms,ber=1e-9,pps=10000000,seed=9", Cause::Model), model);
    assert_ne!(lost("gemodel=0.01/0.1,seed=10", Cause::Model), model);
}

#[test]
fn jitter_keeps_the_order_unless_asked() {
    for (text, ordered) in [("delay=5ms,jitter=1ms", true), ("delay=5ms,jitter=1ms/reorder", false)] {
        let (all, _) = run(text, 1000, 10_000);
        let times: Vec<u64> = all.iter().filter_map(due).collect();
        assert_eq!(times.is_sorted(), ordered, "{text}");
        let added = |o: &Outcome<u64>| due(o).unwrap() - o.at;
        assert!(all.iter().all(|o| (5_000_000..=6_000_000).contains(&added(o))), "{text}");
    }
}

#[test]
fn a_schedule_changes_the_route_and_one_direction_alone() {
    let text = "delay=10ms;rev:delay=1ms;at=1s:fwd:delay=20ms,hops=3;at=2s:loss=1";
    let mut judge = Judge::new(&path(text));
    let mut at = |now: u64, direction| {
        let mut fate = None;
        judge.advance(now, &mut |_, _| {});
        judge.offer(direction, packet(now), 0, &mut |outcome| fate = Some(outcome.fate));
        match fate.unwrap() {
            Fate::Sent { due, hops, .. } => Some((due - now, hops)),
            Fate::Lost(_) => None,
        }
    };
    assert_eq!(at(0, Direction::Forward), Some((10_000_000, 0)));
    assert_eq!(at(999_999_999, Direction::Reverse), Some((1_000_000, 0)));
    assert_eq!(at(1_000_000_000, Direction::Forward), Some((20_000_000, 3)));
    assert_eq!(at(1_000_000_000, Direction::Reverse), Some((1_000_000, 0)));
    assert_eq!(at(2_000_000_000, Direction::Reverse), None);
    assert_eq!(path(text).conditions(Direction::Forward, 1_500_000_000).hops, 3);
}

#[test]
fn what_is_held_back_is_let_go_when_the_faults_change() {
    let (all, _) = run("reorder=1000@1;at=1ms:reorder=1000@0.0", 20, 100_000);
    let mut numbers: Vec<u64> = all.iter().map(|o| o.number).collect();
    numbers.sort_unstable();
    assert!(numbers.into_iter().eq(0..20), "each once");
}

#[test]
fn flows_have_their_own_faults() {
    let mut judge = Judge::new(&path("delay=1ms;flow=udp/5001:loss=1;flow=tcp:delay=2ms"));
    let mut offer = |protocol, port| {
        let flow = Flow { protocol, to_port: port, ..Flow::default() };
        let mut fate = None;
        judge.offer(Direction::Forward, Packet { flow, ..packet(0) }, 0, &mut |o| fate = Some(o.fate));
        match fate.unwrap() {
            Fate::Sent { due, .. } => due,
            Fate::Lost(_) => 0,
        }
    };
    assert_eq!((offer(17, 5001), offer(17, 5002), offer(6, 5001)), (0, 1_000_000, 3_000_000));
}

#[test]
fn both_directions_share_half_duplex() {
    let mut judge = Judge::new(&path("rate=1Gbps,duplex=half"));
    let mut last = 0;
    for direction in [Direction::Forward, Direction::Reverse, Direction::Forward] {
        judge.offer(direction, packet(0), 0, &mut |outcome: Outcome<u64>| last = due(&outcome).unwrap());
    }
    assert_eq!(last, 3 * 12_112);
}

#[test]
fn links_side_by_side_hash_or_spray() {
    let (all, _) = run("paths=4/spray/100us", 1000, 10_000);
    let delays: std::collections::BTreeSet<u64> = all.iter().map(|o| due(o).unwrap() - o.at).collect();
    assert!(delays.into_iter().eq([0, 100_000, 200_000, 300_000]));
    let (all, _) = run("paths=4/hash/100us", 1000, 10_000);
    assert!(all.windows(2).all(|two| due(&two[0]).unwrap() < due(&two[1]).unwrap()), "one flow, one link");
}

#[test]
fn black_holes_stalls_combs_and_idle_flows() {
    let (_, counts) = run("mtu-blackhole=1499B", 10, 1000);
    assert_eq!(counts.lost[Cause::TooLong as usize], 10);
    let (all, _) = run("stall=20ms@100ms", 1000, 1_000_000);
    assert!(all.iter().filter_map(due).all(|due| due % 100_000_000 < 80_000_000));
    let (all, _) = run("comb=64us", 100, 1000);
    assert!(all.iter().filter_map(due).all(|due| due % 64_000 == 0));
    let (all, _) = run("wake=250us@500us", 100, 1_000_000);
    assert!(all.iter().skip(1).all(|o| due(o).unwrap() - o.at == 250_000), "each after a silence");
    let (all, _) = run("wake=250us@500us", 1000, 100_000);
    assert!(all.iter().all(|o| due(o).unwrap() == o.at), "none after a silence");
    let mut judge = Judge::new(&path("idle-cut=1s"));
    let flow = Flow { protocol: 6, to_port: 80, ..Flow::default() };
    let mut passes = |at: u64, opens, direction| {
        let mut passed = false;
        let one = Packet { at: at * 100_000_000, opens, flow, ..packet(0) };
        judge.offer(direction, one, 0, &mut |outcome: Outcome<u64>| passed = due(&outcome).is_some());
        passed
    };
    assert!(passes(0, true, Direction::Forward) && passes(9, false, Direction::Forward));
    assert!(!passes(20, false, Direction::Forward) && !passes(21, false, Direction::Reverse));
    assert!(passes(22, true, Direction::Forward) && passes(23, false, Direction::Forward));
}

#[test]
fn the_text_is_shown_and_read_back() {
    let text = "rate=1Gbps, police=400Mb/s/1MiB,seed=7 ; rev: loss=1% ; at=10s: fwd: flow=udp/5001: ber=1e-9,delay=off";
    let refused = text.parse::<Path>().unwrap_err().to_string();
    assert!(refused.contains("delay: 'off' is not a length of time"), "{refused}");
    let path = path(&text.replace(",delay=off", ""));
    assert_eq!(
        path.to_string(),
        "seed=7;rate=1Gbps,police=400Mb/s/1MiB;rev:loss=1%;at=10s:fwd:flow=udp/5001:ber=1e-9"
    );
    assert_eq!(path.to_string().parse(), Ok(path));
}

#[test]
fn mistakes_are_named() {
    for (text, wrong) in [
        ("rate", "'rate' has no value"),
        ("rate=1G", "rate: '1G' is not a rate"),
        ("police=1Gbps", "has no burst"),
        ("speed=3", "unknown key 'speed'"),
        ("sideways:loss=1", "'sideways:' is none of fwd:"),
        ("at=soon:loss=1", "at: 'soon' is not a length of time"),
        ("at=1s:seed=3", "seed= belongs before"),
        ("flow=udp/5001:rate=1Gbps", "rate is shared by all flows"),
        ("flow=udp/x:loss=1", "flow 'udp/x' is not"),
        ("wake=1ms", "wake '1ms' is not a time at a longer one"),
        ("stall=2s@1s", "stall '2s@1s' is not"),
        ("paths=0", "paths '0' is not a number from 1 to 64"),
        ("paths=2/zigzag", "neither hash nor spray"),
        ("gemodel=2", "not a probability"),
        ("mtu-blackhole=1", "from 28 to 65535"),
        ("loss=2", "loss '2' is not a probability"),
    ] {
        let said = text.parse::<Path>().unwrap_err().to_string();
        assert!(said.contains(wrong) && said.contains("hint: use any of "), "{text}: {said}");
    }
    assert!("loss=1;".repeat(65).parse::<Path>().unwrap_err().to_string().contains("more than 64 sections"));
}

proptest! {
    #[test]
    fn each_copy_has_one_fate_and_the_sums_are_those_of_the_fates(seed: u64, parts in proptest::sample::subsequence(vec![
        "loss=0.05", "burst=9@0.01", "reorder=16@0.2", "duplicate=0.1", "gemodel=0.02/0.2", "ber=1e-6", "rate=100Mbps",
        "buffer=20kB", "police=80Mbps/15kB", "pps=8000/4", "jitter=2ms/reorder", "paths=3/spray/1ms", "stall=3ms@9ms",
        "comb=1ms", "wake=1ms@4ms", "corrupt=0.1", "truncate=0.1",
    ], 0..17)) {
        let text = format!("{},seed={seed};flow=6:loss=0.3,reorder=4;at=20ms:reorder=8@0.5;at=40ms:delay=3ms", parts.join(","));
        let (all, counts) = run(&text, 600, 100_000);
        prop_assert_eq!(run(&text, 600, 100_000).0, all.clone(), "the same again");
        let mut firsts: Vec<u64> = all.iter().filter(|o| o.copy == 0).map(|o| o.number).collect();
        firsts.sort_unstable();
        prop_assert!(firsts.into_iter().eq(0..600));
        let sent = all.iter().filter_map(due).count() as u64;
        prop_assert_eq!((counts.sent, counts.sent + counts.all_lost()), (sent, all.len() as u64));
        prop_assert_eq!(counts.offered + counts.duplicated, all.len() as u64);
        prop_assert!(all.iter().all(|o| due(o).is_none_or(|due| due >= o.at)));
    }

    #[test]
    fn no_text_panics(text in "\\PC*") {
        if let Ok(path) = text.parse::<Path>() {
            prop_assert_eq!(path.to_string().parse(), Ok(path));
        }
    }
}
