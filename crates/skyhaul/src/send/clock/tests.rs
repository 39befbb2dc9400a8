use super::*;

fn pace(max_wait: u64) -> OwnPace {
    let max_wait = Duration::from_secs(max_wait);
    OwnPace { packets: 200, seconds: 1, packet_bytes: 1000, max_wait }
}

/// The waits of packets at these positions, in positions.
fn waits(max_wait: u64, positions: &[u64]) -> (Vec<u64>, u64) {
    let mut schedule = Schedule::new(pace(max_wait));
    let waits = (0..).zip(positions).map(|(n, &at)| schedule.wait(n, at).0 / 5_000_000).collect();
    (waits, schedule.cut)
}

#[test]
fn gaps_last_as_long_as_what_is_missing() {
    assert_eq!(pace(1).bits_per_second(), 1_600_000);
    assert_eq!(waits(9, &[0, 1, 4, 5, 9]), (vec![0, 0, 2, 0, 3], 0));
    assert_eq!(waits(9, &[7, 8, 11]).0, [0, 0, 2]);
    // Only the first packets of runs are asked for.
    let mut schedule = Schedule::new(pace(9));
    assert_eq!((schedule.wait(0, 0), schedule.wait(100, 140)), (Nanos(0), Nanos(200_000_000)));
    assert_eq!(schedule.wait(150, 200), Nanos(50_000_000));
}

#[test]
fn disorder_and_repeats_take_no_time_of_their_own() {
    assert_eq!(waits(9, &[0, 1, 3, 2, 4, 5]).0, [0, 0, 1, 0, 0, 0]);
    assert_eq!(waits(9, &[0, 1, 3, 2, 4, 9]).0, [0, 0, 1, 0, 0, 3], "the lead is given back at the next gap");
    assert_eq!(waits(9, &[0, 1, 1, 2, 9]).0, [0, 0, 0, 0, 5]);
}

#[test]
fn a_long_gap_is_cut_and_does_not_hurry_what_follows() {
    assert_eq!(waits(1, &[0, 12_000, 12_001, 12_003]), (vec![0, 200, 0, 1], 12_000 - 1 - 200));
    assert_eq!(waits(0, &[0, 12_000, 12_001, 12_003]).0, [0, 0, 0, 0]);
    assert_eq!(waits(u64::MAX, &[0, u64::MAX]).0[0], 0);
}
