use super::*;

#[test]
fn only_a_long_run_is_reported_and_only_once() {
    let mut refusals = Refusals::default();
    (0..LONG_RUN - 1).for_each(|_| refusals.add(Reject::Late, 1, 7));
    assert_eq!(refusals.poll_long(7, false), None);
    refusals.add(Reject::UnknownThread, 1, 7);
    assert_eq!(refusals.poll_long(8, false), None, "one was placed since");
    let text = "128 packets in a row were refused: 1 unknown thread, 127 late";
    assert_eq!(refusals.poll_long(7, false).as_deref(), Some(text));
    refusals.add(Reject::Late, LONG_RUN, 7);
    assert_eq!(refusals.poll_long(7, false), None, "reported already");
    refusals.add(Reject::Late, LONG_RUN, 8);
    assert!(refusals.poll_long(8, false).is_some(), "another run");
    refusals.add(Reject::AfterStop, 2 * LONG_RUN, 9);
    assert_eq!(refusals.poll_long(9, true), None, "as asked for");
    let mut none = Refusals::default();
    none.add(Reject::WrongSize, 1, 0);
    assert_eq!(none.poll_long(0, false), None, "the next one may fit");
    assert_eq!(
        none.poll_long(0, true).as_deref(),
        Some("1 packet was refused, and none was accepted: 1 wrong size")
    );
}

#[test]
fn a_frame_in_its_place_disproves_another_phase() {
    let mut refusals = Refusals::default();
    (0..10 * OUT_OF_PHASE).for_each(|n| refusals.add(Reject::Unpaired, 1, n / (OUT_OF_PHASE - 1)));
    assert!((0..1000).all(|placed| !refusals.is_out_of_phase(placed)));
    refusals.add(Reject::Unpaired, OUT_OF_PHASE, u64::MAX);
    assert!(refusals.is_out_of_phase(u64::MAX) && !refusals.is_out_of_phase(0));
}
