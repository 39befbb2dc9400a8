//! Lines of the lab that no rule was tuned on, diagnosed in simulated time.
//!
//! The rules of [`skyhaul_core::diagnose`] were tuned on the simulated traces of `skyhaul-sim` and, of this file, on seeds below
//! [`JUDGED`]; seeds from there on judge. `SKYHAUL_LINES=FIRST+COUNT` plays other seeds, and prints the table of
//! `docs/reference/diagnosis.md`:
//!
//! ```text
//! SKYHAUL_LINES=$RANDOM+20 cargo test --release -p skyhaul-measure --lib lines -- --nocapture
//! ```

use super::campaign::{Asked, run};
use super::named::Diagnosed;
use super::simulated::{Draw, Simulated};
use crate::probe::udp::plan::Direction;
use std::collections::BTreeMap;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

/// The first seed with which nothing was tuned.
const JUDGED: u64 = 1000;
/// Confidence above which a cause is an accusation.
const ACCUSED: f64 = 0.5;

/// A kind of line: its name, what makes one, and the causes that are right.
type Kind = (&'static str, fn(&mut Draw) -> String, &'static [&'static str]);

const KINDS: [Kind; 16] = [
    ("clean", |_| String::new(), &[]),
    ("bursts of 5 to 500 packets", burst, &["burst-loss"]),
    ("Gilbert-Elliott", gilbert, &["burst-loss"]),
    ("outages of 10 to 500 ms", outages, &["burst-loss"]),
    // The bucket or the queue of some is less than the bursts of the campaign.
    ("policer", policer, &["policer", "microburst"]),
    ("queue", queue, &["full-queue", "microburst"]),
    ("loss of single packets", loss, &["bit-errors"]),
    ("spraying", spray, &["spraying"]),
    ("MTU hole, both ways", |draw| hole(draw, ""), &["mtu"]),
    ("MTU hole, one way", |draw| hole(draw, "fwd: "), &["mtu"]),
    ("MTU hole, the other way", |draw| hole(draw, "rev: "), &["mtu"]),
    (
        "bursts and policer",
        |d| format!("{},{}", burst(d), policer(d)),
        &["burst-loss", "policer", "microburst"],
    ),
    ("outages and loss", |d| format!("{}{}", loss(d), outages(d)), &["burst-loss", "bit-errors"]),
    ("spraying and loss", |d| format!("{},{}", spray(d), loss(d)), &["spraying", "bit-errors"]),
    ("MTU hole and bursts", |d| format!("{}{}", gilbert(d), hole(d, "")), &["mtu", "burst-loss"]),
    (
        "policer and spraying",
        |d| format!("{},{}", policer(d), spray(d)),
        &["policer", "spraying", "microburst"],
    ),
];

fn burst(draw: &mut Draw) -> String {
    let packets = draw.scale(5.0, 500.0);
    format!("burst={packets:.0}@{:.7}", draw.scale(0.004, 0.05) / packets)
}

fn gilbert(draw: &mut Draw) -> String {
    let packets = draw.scale(5.0, 300.0);
    let (lost, bad) = (draw.scale(0.004, 0.05), draw.between(0.5, 1.0));
    format!("gemodel={:.7}/{:.5}/{bad:.2}/0", lost / bad / packets, 1.0 / packets)
}

fn outages(draw: &mut Draw) -> String {
    let (length, every) = (draw.scale(0.01, 0.5), draw.between(0.5, 2.5));
    let (mut at, mut text) = (1.0 + draw.part(), String::new());
    for _ in 0..28 {
        text += &format!("; at={at:.4}s: loss=1; at={:.4}s: loss=0", at + length);
        at += length + every * draw.between(0.7, 1.3);
    }
    text
}

fn policer(draw: &mut Draw) -> String {
    format!("police={:.1}Mbps/{:.0}KiB", draw.scale(8.0, 60.0), draw.scale(30.0, 800.0))
}

fn queue(draw: &mut Draw) -> String {
    format!("rate={:.1}Mbps,buffer={:.0}KiB", draw.scale(8.0, 60.0), draw.scale(40.0, 600.0))
}

fn loss(draw: &mut Draw) -> String {
    format!("loss={:.5}", draw.scale(0.003, 0.05))
}

fn spray(draw: &mut Draw) -> String {
    match draw.part() < 0.5 {
        true => format!("paths={:.0}/spray/{:.2}ms", draw.between(2.0, 6.0), draw.scale(0.2, 4.0)),
        false => format!("reorder={:.0}@{:.3}", draw.between(2.0, 40.0), draw.scale(0.01, 0.2)),
    }
}

fn hole(draw: &mut Draw, way: &str) -> String {
    format!("; {way}mtu-blackhole={:.0}", draw.between(120.0, 1440.0))
}

/// The line of a kind from a seed, and the load of its diagnosis in bits per second.
fn line(kind: &Kind, seed: u64) -> (String, f64) {
    let number = KINDS.iter().position(|other| other.0 == kind.0).unwrap_or(0) as u64;
    let mut draw = Draw::new(seed * 64 + number);
    let (delay, jitter, load) = (draw.between(1.0, 40.0), draw.between(0.0, 150.0), draw.scale(70.0, 160.0));
    let fast = if kind.0 == "queue" { String::new() } else { "rate=1Gbps,".to_owned() };
    // Jitter of the lab keeps packets in order, and so would hide that they took several paths.
    let jitter = if kind.0.contains("spraying") { 0.0 } else { jitter };
    (format!("{fast}delay={delay:.1}ms,jitter={jitter:.0}us,seed={seed},{}", kind.1(&mut draw)), load * 1e6)
}

/// What was said of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Said {
    /// A right cause, and no wrong one.
    Right,
    /// That it is not known.
    Unknown,
    /// Nothing, and nothing was lost.
    Nothing,
    /// A wrong cause, or nothing of what was lost.
    Wrong,
}

fn judge(kind: &Kind, found: &Diagnosed) -> Said {
    let accused: Vec<&str> =
        found.causes.iter().filter(|c| c.confidence > ACCUSED).map(|c| c.cause.as_str()).collect();
    match () {
        () if accused.iter().any(|cause| !kind.2.contains(cause)) => Said::Wrong,
        () if !accused.is_empty() => Said::Right,
        () if found.unexplained > 0 || !found.causes.is_empty() => Said::Unknown,
        () if found.identity.lost == 0 => Said::Nothing,
        () => Said::Wrong,
    }
}

/// Diagnose so many lines of each kind, clean ones five times as often; what was said of each kind, and of the wrong ones all.
fn play(first: u64, count: u64) -> (BTreeMap<usize, BTreeMap<Said, u64>>, Vec<String>) {
    let (mut all, mut wrong) = (BTreeMap::new(), Vec::new());
    for (number, kind) in KINDS.iter().enumerate() {
        for seed in first..first + if number == 0 { 5 * count } else { count } {
            let (line, load) = line(kind, seed);
            let spacing_ps = (1472.0 * 8.0 / load * 1e12) as u64;
            let time = Duration::from_secs(1);
            let asked = Asked { size: 1472, spacing_ps, direction: Direction::Forward, time };
            let mut ends = Simulated::new(&line, seed);
            let (found, _) = run(&mut ends, &asked, &AtomicBool::new(false), &mut |_| {});
            let said = judge(kind, &found);
            *all.entry(number).or_insert_with(BTreeMap::new).entry(said).or_insert(0) += 1;
            if said == Said::Wrong || (number == 0 && said != Said::Nothing) {
                let causes: Vec<String> = found
                    .causes
                    .iter()
                    .map(|c| format!("{} {:.2} {:?}", c.cause, c.confidence, c.evidence))
                    .collect();
                let lost = found.identity.lost;
                wrong.push(format!(
                    "{}, seed {seed}: {lost} lost at {load:.3e}: {line}\n   {causes:?}",
                    kind.0
                ));
            }
        }
    }
    (all, wrong)
}

#[test]
fn causes_are_right_or_unknown_on_lines_that_tuned_nothing() {
    let asked = std::env::var("SKYHAUL_LINES").ok();
    let numbers = asked.as_deref().and_then(|text| text.split_once('+'));
    let number = |text: &str| text.parse::<u64>().unwrap();
    let (first, count) = numbers.map_or((JUDGED, 2), |(first, count)| (number(first), number(count)));
    let (all, wrong) = play(first, count);
    println!("| line | runs | right | unknown | nothing lost | wrong |\n|---|---|---|---|---|---|");
    let (mut runs, mut bad) = (0, 0);
    for (number, said) in &all {
        let of = |what| said.get(&what).copied().unwrap_or(0);
        let [right, unknown, nothing, wrong] =
            [Said::Right, Said::Unknown, Said::Nothing, Said::Wrong].map(of);
        let sum: u64 = said.values().sum();
        (runs, bad) = (runs + sum, bad + wrong);
        println!("| {} | {sum} | {right} | {unknown} | {nothing} | {wrong} |", KINDS[*number].0);
    }
    wrong.iter().for_each(|text| println!("{text}"));
    assert!(bad * 20 <= runs, "{bad} of {runs} are wrong: {wrong:#?}");
    assert_eq!(all[&0].len(), 1, "clean paths are not accused: {wrong:#?}");
}
