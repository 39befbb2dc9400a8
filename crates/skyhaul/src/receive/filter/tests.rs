use super::*;
use proptest::prelude::*;
use skyhaul_core::assembly::Mark;
use skyhaul_core::placement::{Key, Nanos};
use skyhaul_core::wire::vdif::Vdif;
use skyhaul_core::wire::{LearnOptions, Learner, Order, vtp};

fn admits(origin: &str, sender: &str) -> bool {
    origin.parse::<Origin>().unwrap().admits(sender.parse().unwrap())
}

#[test]
fn networks_hosts_and_ports() {
    assert!(admits("10.1.0.0/16", "10.1.255.7:9") && !admits("10.1.0.0/16", "10.2.0.1:9"));
    assert!(admits("10.1.2.3", "10.1.2.3:9") && !admits("10.1.2.3", "10.1.2.4:9"));
    assert!(admits("10.1.2.3:5000-5010", "10.1.2.3:5010") && !admits("10.1.2.3:5000-5010", "10.1.2.3:5011"));
    assert!(admits("[fd00::1]:5000", "[fd00::1]:5000") && !admits("[fd00::1]:5000", "[fd00::1]:5001"));
    assert!(admits("fd00::/8", "[fdff::2]:1") && !admits("fd00::/8", "[fe80::2]:1"));
    assert!(
        admits(":5000", "[::1]:5000") && admits("*:5000", "10.0.0.1:5000") && !admits(":5000", "1.1.1.1:5")
    );
    assert!(admits("0.0.0.0/0", "10.0.0.1:1") && !admits("0.0.0.0/0", "[::1]:1"), "all of IPv4");
    assert!(admits("10.0.0.1", "[::ffff:10.0.0.1]:1"), "IPv4 as a socket for both shows it");
    assert!(admits("::/0", "[::1]:1"));
}

#[test]
fn what_is_no_sender_is_said() {
    for text in
        ["", "*", "10.0.0.0/33", "10.0.0.1:70000", "10.0.0.1:9-1", "here", "[::1", "[::1]5", "1.2.3.4:"]
    {
        let error = text.parse::<Origin>().unwrap_err().to_string();
        assert!(error.contains("hint:"), "{text}: {error}");
    }
}

#[test]
fn stations_are_named_or_not_taken() {
    let allow = Allow { stations: vec!["Eb".into(), "17".into()], ..Allow::default() };
    assert_eq!(allow.station(Some("Eb")), Ok(()));
    assert_eq!(allow.station(Some("On")), Err(Reject::NotAllowed));
    assert_eq!(allow.station(None), Err(Reject::NotAllowed));
    assert_eq!(Allow::default().station(None), Ok(()));
}

proptest! {
    #[test]
    fn what_is_written_reads_the_same(ip: [u8; 4], prefix in 0u8..=32, a: u16, b: u16, any: bool) {
        let ports = if any { 0..=u16::MAX } else { a.min(b)..=a.max(b) };
        let origin = Origin { network: Some((IpAddr::from(ip), prefix + 96)), ports };
        prop_assert_eq!(origin.to_string().parse::<Origin>().unwrap(), origin);
    }
}

#[test]
fn parts_without_a_time_follow_their_frame() {
    let (before, after) = (Err(Reject::BeforeStart), Err(Reject::AfterStop));
    let open = Gate { start: None, stop: Some(12) };
    let gate = Gate { start: Some(10), stop: Some(12) };
    let mut cut = Cut::default();
    assert_eq!([0, u64::MAX].map(|number| cut.admit(&open, number)), [Ok(()); 2], "nothing was refused");
    assert_eq!([0, u64::MAX].map(|number| cut.admit(&gate, number)), [before; 2], "nothing was admitted");
    cut.note(before, 10, 2);
    cut.note(before, 8, 2);
    assert_eq!(cut.admit(&gate, 13), before, "its frame may be one that was refused");
    cut.note(Ok(()), 14, 2);
    cut.note(Ok(()), 12, 2);
    cut.note(after, 32, 2);
    cut.note(after, 30, 2);
    let all = [9, 11, 13, 29, 31, 33].map(|number| cut.admit(&gate, number));
    assert_eq!(all, [before, before, Ok(()), Ok(()), after, after]);
    cut.restart();
    assert_eq!(cut.admit(&gate, 1), Ok(()), "it began long ago");
}

#[test]
fn the_start_second_is_in_and_the_stop_second_is_out() {
    let gate = Gate { start: Some(10), stop: Some(12) };
    assert_eq!(gate.admit(9), Err(Reject::BeforeStart));
    assert_eq!(gate.admit(10), Ok(()));
    assert_eq!(gate.admit(11), Ok(()));
    assert_eq!(gate.admit(12), Err(Reject::AfterStop));
    assert!(Gate::default().is_open());
}

const UNIT: u64 = 40;

/// What is learned of four threads, with sequence numbers or without.
fn format(sequence: bool) -> StreamFormat {
    let mut learner = Learner::new(LearnOptions::default());
    for n in 0..64 {
        let mut packet = if sequence { vtp::write(n, Order::Little).to_vec() } else { Vec::new() };
        packet.extend(frame(n));
        learner.observe(&packet);
    }
    learner.conclude(true).unwrap().unwrap()
}

/// Frame `n` of four threads that take turns.
fn frame(n: u64) -> Vec<u8> {
    let shape = Vdif::shape(8, 1, 2, false, false).unwrap().at(1_795_402_800, (n / 4) as u32).unwrap();
    let mut bytes = Vdif { thread: (n % 4) as u32, ..shape }.write().to_vec();
    bytes.resize(UNIT as usize, 0);
    bytes
}

/// A part of an object in which frame `n` lies at unit `n + shift`, of the frames of `came`.
fn part(shift: u64, came: &[u64], cause: Cause) -> Retired<Vec<u8>> {
    let mut block = vec![0; 64 * UNIT as usize];
    for n in came {
        let at = ((n + shift) * UNIT) as usize;
        block[at..at + UNIT as usize].copy_from_slice(&frame(*n));
    }
    let (low, high) = (came[0] + shift, came[came.len() - 1] + shift + 1);
    let ends = came.windows(2).filter(|pair| pair[0] + 1 < pair[1]);
    let missing = ends.map(|pair| (pair[0] + 1 + shift) * UNIT..(pair[1] + shift) * UNIT).collect();
    Retired {
        key: Key::of(0),
        epoch: 0,
        block,
        range: low * UNIT..high * UNIT,
        size: None,
        missing,
        after: Some(Mark { number: 0, offset: 0 }),
        first: Nanos(0),
        last: Nanos(0),
        cause,
    }
}

/// What is left of a stream of one part: first frame, behind the last, missing; and how many were cut off.
fn left(sequence: bool, shift: u64, came: &[u64]) -> (Range<u64>, u64, u64) {
    let format = format(sequence);
    let mut part = part(shift, came, Cause::Finish);
    let cut = Sets::new(&format, UNIT as u32, false).trim(&mut part, &format, true);
    let missing = part.missing.iter().map(|hole| (hole.end - hole.start) / UNIT).sum();
    (part.range.start / UNIT - shift..part.range.end / UNIT - shift, missing, cut)
}

#[test]
fn a_stream_that_is_joined_and_left_within_a_set() {
    let came: Vec<u64> = (2..23).collect();
    assert_eq!(left(false, 0, &came), (4..20, 0, 5));
    // By sequence number sets begin anywhere.
    (0..4).for_each(|shift| assert_eq!(left(true, shift, &came), (4..20, 0, 5), "{shift}"));
    let whole: Vec<u64> = (4..20).collect();
    (0..4).for_each(|shift| assert_eq!(left(true, shift, &whole), (4..20, 0, 0), "{shift}"));
}

#[test]
fn what_was_lost_in_the_first_whole_set_is_missing_in_it() {
    let came: Vec<u64> = (2..24).filter(|n| ![4, 6].contains(n)).collect();
    assert_eq!(left(false, 0, &came), (4..24, 2, 2));
    assert_eq!(left(true, 3, &came), (4..24, 2, 2));
    // A set of which nothing came is not the beginning.
    let came: Vec<u64> = (2..24).filter(|n| !(4..9).contains(n)).collect();
    assert_eq!(left(false, 0, &came), (8..24, 1, 2));
    assert_eq!(left(true, 1, &came), (8..24, 1, 2));
}

#[test]
fn less_than_a_set_is_no_stream_yet() {
    assert_eq!(left(false, 0, &[2, 3]), (4..4, 0, 2));
    let format = format(false);
    let mut sets = Sets::new(&format, UNIT as u32, false);
    let mut first = part(0, &[2, 3], Cause::Idle);
    assert_eq!((sets.trim(&mut first, &format, false), first.received()), (2, 0));
    // What falls silent may go on: its end is left as it is, and its beginning was found.
    let mut second = part(0, &[5, 6, 7, 8, 9], Cause::Idle);
    assert_eq!((sets.trim(&mut second, &format, false), second.after), (3, None));
    assert_eq!(second.range, 8 * UNIT..10 * UNIT);
    let mut third = part(0, &[10, 11, 12], Cause::Flush);
    assert_eq!((sets.trim(&mut third, &format, false), third.range.start), (0, 10 * UNIT));
    // A sender that begins anew, too.
    let mut anew = Retired { epoch: 1, ..part(0, &[1, 2, 3, 4, 5, 6, 7], Cause::Window) };
    assert_eq!((sets.trim(&mut anew, &format, false), anew.range.start), (3, 4 * UNIT));
}

#[test]
fn what_does_not_come_set_by_set_is_left_as_it_came() {
    let format = format(true);
    let trim = |sets: &mut Sets, part: &mut Retired<Vec<u8>>| sets.trim(part, &format, true);
    let mut kept = part(0, &[2, 3, 4, 5], Cause::Finish);
    assert_eq!(trim(&mut Sets::new(&format, UNIT as u32, true), &mut kept), 0, "where that was asked for");
    let mut lonely = part(0, &[2, 3], Cause::Finish);
    assert_eq!(trim(&mut Sets::new(&format, UNIT as u32, false), &mut lonely), 0, "no set begins in it");
    // Each thread's frames in a run of their own.
    let mut runs = part(0, &(0..16).collect::<Vec<_>>(), Cause::Finish);
    for (at, n) in
        (0..16).flat_map(|thread| (0..4).map(move |number| number * 4 + thread % 4)).take(16).enumerate()
    {
        runs.block[at * UNIT as usize..][..UNIT as usize].copy_from_slice(&frame(n));
    }
    assert_eq!(trim(&mut Sets::new(&format, UNIT as u32, false), &mut runs), 0);
}
