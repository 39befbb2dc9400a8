//! A thousand paths without sockets: the counts of a meter for the arriving packets must agree with the fates.

use super::{Direction, Fate, Judge, Outcome, Packet, Path};
use skyhaul_core::measure::SequenceMeter;

const PACKETS: u64 = 2000;

/// A mixture of faults that follows from the seed.
fn mixture(seed: u64) -> Path {
    let some =
        |step: u64, most: u64| seed.wrapping_mul(0x9E37_79B9_7F4A_7C15).rotate_left(step as u32) % most;
    let text = format!(
        "rate={}Mbps,buffer={}kB,delay={}us,jitter={}us{},loss={},burst={}@0.001,reorder={}@0.05,duplicate={},gemodel={}/0.2,\
         paths={}/spray/{}us,seed={seed};at=10ms:delay={}us",
        200 + some(3, 800),
        10 + some(5, 300),
        some(7, 5000),
        some(11, 500),
        if seed.is_multiple_of(2) { "/reorder" } else { "" },
        some(13, 4) as f64 * 0.01,
        1 + some(17, 20),
        1 + some(19, 64),
        some(23, 3) as f64 * 0.02,
        some(29, 3) as f64 * 0.004,
        1 + some(31, 4),
        some(37, 300),
        some(41, 5000),
    );
    text.parse().unwrap()
}

/// The outcome of every copy of every packet, in the order in which they arrived or were lost.
fn run(path: &Path) -> Vec<Outcome<u64>> {
    let mut judge = Judge::new(path);
    let mut all = Vec::new();
    for number in 0..PACKETS {
        let packet = Packet { at: number * 15_000, octets: 1514, ip: 1500, ..Packet::default() };
        judge.advance(packet.at, &mut |_, outcome| all.push(outcome));
        judge.offer(Direction::Forward, packet, number, &mut |outcome| all.push(outcome));
    }
    judge.flush(Direction::Forward, PACKETS * 15_000, &mut |outcome| all.push(outcome));
    // Packets due at the same time leave in the order in which they were judged.
    all.sort_by_key(|outcome| match outcome.fate {
        Fate::Sent { due, .. } => due,
        Fate::Lost(_) => 0,
    });
    all
}

#[test]
fn lost_late_and_doubled_are_those_of_the_fates_for_a_thousand_seeds() {
    let (mut lost, mut late, mut doubled) = (0, 0, 0);
    for seed in 0..1000 {
        let outcomes = run(&mixture(seed));
        let arrived: Vec<u64> =
            outcomes.iter().filter(|o| matches!(o.fate, Fate::Sent { .. })).map(|o| o.number).collect();
        let mut meter = SequenceMeter::exact(1 << 16, Some(0));
        arrived.iter().for_each(|number| {
            meter.arrived(*number);
        });
        meter.finish(Some(PACKETS));
        // The same by the fates of each packet, one by one.
        let mut times = vec![0u64; PACKETS as usize];
        let (mut next, mut behind) = (0, 0);
        for number in arrived {
            let seen = &mut times[number as usize];
            behind += u64::from(*seen == 0 && number < next);
            next = next.max(number + 1);
            *seen += 1;
        }
        let gone = times.iter().filter(|times| **times == 0).count() as u64;
        let twice: u64 = times.iter().map(|times| times.saturating_sub(1)).sum();
        assert_eq!((meter.lost, meter.reordered, meter.duplicates), (gone, behind, twice), "seed {seed}");
        (lost, late, doubled) = (lost + gone, late + behind, doubled + twice);
    }
    assert!(lost > 50_000 && late > 50_000 && doubled > 5_000, "{lost} lost, {late} late, {doubled} doubled");
}
