//! That every combination runs, and that what is lost is known exactly.

use super::*;
use skyhaul::balance::BalanceOptions;
use skyhaul::stop::StopFlag;

fn options() -> EventBenchOptions {
    EventBenchOptions {
        family: BalanceOptions::default().family,
        mtus: vec![1500, 9000],
        events: vec![20_000],
        senders: vec![1, 2],
        workers: vec![3],
        threads: vec![1],
        rates: vec![50_000_000],
        time: Duration::from_millis(200),
        rounds: 1,
        address: [127, 0, 0, 1].into(),
        stop: StopFlag::default(),
    }
}

#[test]
fn every_packet_is_received_or_lost_in_a_place() {
    let report = run(&options(), &mut |_| ()).unwrap();
    assert_eq!(report.points.len(), 4);
    for point in &report.points {
        let EventLosses { before, balancer, behind, workers } = point.lost;
        assert!(point.events > 0 && point.packets > 0, "{point:?}");
        assert_eq!(balancer, 0, "nothing is refused: {point:?}");
        // A busy machine may lose packets; then events are lost, and not otherwise.
        assert_eq!(before + behind + workers > 0, point.events_lost > 0, "{point:?}");
    }
}

#[test]
fn nothing_to_measure_is_said() {
    let none = EventBenchOptions { workers: vec![0], ..options() };
    assert!(run(&none, &mut |_| ()).unwrap_err().to_string().contains("hint"));
    let tiny = EventBenchOptions { mtus: vec![60], ..options() };
    assert!(run(&tiny, &mut |_| ()).is_err());
    let options = options();
    options.stop.stop();
    let report = run(&options, &mut |_| ()).unwrap();
    assert!(report.interrupted && report.points.is_empty());
}
