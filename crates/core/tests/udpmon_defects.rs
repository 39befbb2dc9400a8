//! What udpmon 1.5.2 does wrong with spacings, numbers and times, tried against what the probe is made of: letters as in its
//! list of defects in `docs/reference/udpmon.md`.

use skyhaul_core::measure::{Arrival, SequenceMeter};
use skyhaul_core::pace::GapPacer;
use skyhaul_core::placement::Nanos;
use skyhaul_core::wire::probe::Probe;

/// (a) It counts spacings in 0.1 us: 123.04 ns, which is 1472 octets at 100 Gb/s, becomes 0.1 us.
#[test]
fn a_spacing_of_nanoseconds_is_kept() {
    for spacing_ps in [30_760, 123_040, 180_960, 723_840, 12_370_000] {
        let mut pacer = GapPacer::even(spacing_ps, Nanos(0), Nanos(0));
        for _ in 0..100_000 {
            pacer.sent(1, pacer.due());
        }
        let asked = 100_000 * u128::from(spacing_ps) / 1000;
        // With no slack each packet is a part of a nanosecond late.
        let off = u128::from(pacer.due().0) - asked;
        assert!(off * 1_000_000 <= asked * 50_000, "{spacing_ps} ps: {off} ns of {asked}");
        let mut exact = GapPacer::even(spacing_ps, Nanos(0), Nanos(1000)).smooth();
        for _ in 0..100_000 {
            exact.sent(1, exact.due());
        }
        assert!(u128::from(exact.due().0).abs_diff(asked) <= 1, "{spacing_ps} ps");
    }
}

/// (b) Its time of sending is 32 bits of 0.1 us, and wraps after 214.7 s.
#[test]
fn a_time_of_sending_lasts_for_centuries() {
    let begun = 1_764_000_000_000_000_000u64;
    for seconds in [214u64, 215, 429, 86_400, 10_000_000_000] {
        let sent = begun + seconds * 1_000_000_000;
        let mut packet = [0; 64];
        Probe { sent, ..Probe::of(64) }.put(&mut packet);
        assert_eq!(Probe::parse(&packet).unwrap().sent, sent);
    }
}

/// (c) It counts packets in 32 bits; (d) a late packet is lost, too, and a doubled one is out of order.
#[test]
fn packets_beyond_2_32_are_counted_and_late_or_doubled_ones_are_not_lost() {
    let first = (1u64 << 32) - 3;
    let mut meter = SequenceMeter::exact(1 << 10, Some(first));
    for number in [0, 1, 2, 4, 5, 3, 5, 8] {
        let mut packet = [0; 64];
        Probe { number: first + number, ..Probe::of(64) }.put(&mut packet);
        let arrival = meter.arrived(Probe::parse(&packet).unwrap().number);
        match number {
            3 => assert_eq!(arrival, Arrival::Late { extent: 2 }),
            5 => assert!(matches!(arrival, Arrival::InOrder | Arrival::Duplicate)),
            _ => assert_eq!(arrival, Arrival::InOrder),
        }
    }
    meter.finish(Some(first + 9));
    assert_eq!((meter.lost, meter.reordered, meter.duplicates, meter.packets), (2, 1, 1, 8));
    assert_eq!(meter.next(), Some((1 << 32) + 6));
    // Counts beyond 2³² are told as they are.
    meter.finish(Some(first + 9 + (1 << 33)));
    assert_eq!(meter.lost, 2 + (1 << 33));
}
