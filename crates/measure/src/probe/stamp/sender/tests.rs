use super::*;
use proptest::prelude::*;
use skyhaul_core::wire::stamp::{TestPacket, reflect};
use std::time::Duration;

const MS: u64 = 1_000_000;
const BEGIN: u64 = 1_700_000_000_000_000_000;

/// A time of a packet, as it stands in it.
fn t1(n: u32) -> u64 {
    Stamp::of_unix(BEGIN + u64::from(n) * MS).0
}

/// 10 packets, one each ms; the reflector's clock is 5 ms ahead, each way takes 1 ms, and 2 ms pass in it.
fn learn(lost_there: &[u32], lost_back: &[u32], stateful: bool) -> StampReport {
    let mut learned = Reflections::new();
    for (count, n) in (0u32..).zip((0..10u32).filter(|n| !lost_there.contains(n))) {
        let at = BEGIN + u64::from(n) * MS;
        let mut packet = TestPacket { sequence: n, timestamp: t1(n), ..TestPacket::default() }.write();
        let own = stateful.then_some(count);
        let (t2, t3) = (Stamp::of_unix(at + 6 * MS), Stamp::of_unix(at + 8 * MS));
        reflect(&mut packet, t2, t3, Estimate::of(MS, true).0, 252, own).unwrap();
        if !lost_back.contains(&n) {
            for _ in 0..2 {
                learned.received(&packet, at + 4 * MS, |n| (n < 10).then(|| t1(n)));
            }
        }
    }
    learned.received(&[0; 37], 0, |n| Some(t1(n)));
    learned.received(&[9; 44], 0, |n| Some(t1(n)));
    finish(learned, 10)
}

fn finish(learned: Reflections, packets: u64) -> StampReport {
    let point = UdpPoint::even(44, 1_000_000_000, Duration::from_millis(packets));
    learned.report(
        ([192, 0, 2, 9], 862).into(),
        point,
        SentReport { packets, ..SentReport::default() },
        false,
    )
}

#[test]
fn times_and_losses_of_both_ways_are_told_apart() {
    let report = learn(&[3, 4], &[6], true);
    assert_eq!((report.received, report.lost), (7, 3));
    assert_eq!((report.lost_there, report.lost_back), (Some(2), Some(1)));
    assert_eq!((report.runs.count, report.runs.max), (2, 2));
    assert_eq!((report.duplicates, report.reordered, report.rejected), (7, 0, 2));
    let close = |a: f64, b: f64| (a - b).abs() < b / 100.0;
    assert!(close(report.round_trip_ns.mean, 2e6) && close(report.inside_ns.mean, 2e6), "{report:?}");
    let (clock, there, back) = (report.clock.unwrap(), report.there_ns.unwrap(), report.back_ns.unwrap());
    assert!(close(clock.offset_ns as f64, 5e6) && clock.error_ns >= 999_000, "{clock:?}");
    assert!(close(there.median, 1e6) && close(back.median, 1e6) && there.error >= 999_000.0);
    assert!(report.there_variation_ns.max <= 2 && report.back_variation_ns.max <= 2);
    let said = report.reflector;
    assert!(said.synchronised && said.clock_error_ns.unwrap() >= MS);
    assert_eq!((said.hops, said.stateful), (Some(3), Some(true)));
}

#[test]
fn who_does_not_count_does_not_say_where_packets_were_lost() {
    let report = learn(&[3], &[6], false);
    assert_eq!((report.lost, report.lost_there, report.lost_back), (2, None, None));
    let report = learn(&[], &[], false);
    assert_eq!((report.lost, report.lost_there, report.lost_back), (0, Some(0), Some(0)));
    let report = learn(&[9], &[0, 8], true);
    assert_eq!(
        (report.lost, report.lost_there, report.lost_back),
        (3, None, None),
        "nothing shows that it counts"
    );
    let nothing = finish(Reflections::new(), 5);
    assert_eq!((nothing.lost, nothing.clock, nothing.round_trip_ns.count), (5, None, 0));
}

#[test]
fn a_reflector_with_times_of_ptp_is_understood() {
    let ptp = |at: u64| ((at / 1_000_000_000) << 32) | (at % 1_000_000_000);
    let reflection = Reflection {
        sender_timestamp: t1(0),
        receive_timestamp: ptp(BEGIN + 3 * MS),
        timestamp: ptp(BEGIN + 4 * MS),
        error_estimate: 0x4001,
        ..Reflection::default()
    };
    let mut learned = Reflections::new();
    learned.received(&reflection.write(), BEGIN + 5 * MS, |_| Some(t1(0)));
    let report = finish(learned, 1);
    assert!(report.round_trip_ns.max.abs_diff(4 * MS) < MS / 100, "{report:?}");
    assert_eq!(report.reflector.hops, None);
}

proptest! {
    /// Whatever a reflector says, each packet is counted once, as received or as lost.
    #[test]
    fn any_reflections_are_counted(
        all in proptest::collection::vec((any::<[u8; 44]>(), 0u32..20, any::<bool>(), any::<u64>()), 0..100)
    ) {
        let mut learned = Reflections::new();
        let mut right = std::collections::BTreeSet::new();
        for (mut octets, number, known, at) in all {
            if known {
                octets[24..28].copy_from_slice(&number.to_be_bytes());
                octets[28..36].copy_from_slice(&t1(number).to_be_bytes());
                right.insert(number);
            }
            learned.received(&octets, at, |n| (n < 20).then(|| t1(n)));
        }
        let report = finish(learned, 20);
        prop_assert_eq!((report.received, report.received + report.lost), (right.len() as u64, 20));
    }
}
