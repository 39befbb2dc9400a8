use super::*;
use proptest::prelude::*;

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
