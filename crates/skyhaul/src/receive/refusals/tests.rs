use super::*;

#[test]
fn only_a_long_run_is_reported_and_only_once() {
    let mut refusals = Refusals::default();
    (0..LONG_RUN - 1).for_each(|_| refusals.add(Reject::Late, 1, 7));
    assert_eq!(refusals.poll_long(7, false), None);
    refusals.add(Reject::UnknownThread, 1, 7);
    assert_eq!(refusals.poll_long(8, false), None, "one was placed since");
    let text = "128 packets in a row were refused: 1 unknown thread, 127 late";
    let refused = refusals.poll_long(7, false).unwrap();
    assert_eq!((refused.text.as_str(), refused.is_lost), (text, false), "127 are no long run");
    refusals.add(Reject::Late, LONG_RUN, 7);
    assert_eq!(refusals.poll_long(7, false), None, "reported already");
    refusals.add(Reject::Late, LONG_RUN, 8);
    assert!(refusals.poll_long(8, false).unwrap().is_lost, "another run");
    refusals.add(Reject::AfterStop, 2 * LONG_RUN, 9);
    assert_eq!(refusals.poll_long(9, true), None, "as asked for");
    let mut none = Refusals::default();
    none.add(Reject::WrongSize, 1, 0);
    assert_eq!(none.poll_long(0, false), None, "the next one may fit");
    let refused = none.poll_long(0, true).unwrap();
    assert_eq!(refused.text, "1 packet was refused, and none was accepted: 1 wrong size");
    assert!(!refused.is_lost, "one may stray to the port");
}

/// What was asked for and refused is lost; what repeats others, or was not asked for, is not.
#[test]
fn data_are_lost_where_many_packets_that_were_asked_for_are_refused() {
    for (why, live, at_end) in [
        (Reject::WrongSize, true, true),
        (Reject::Unpaired, true, true),
        (Reject::Late, true, true),
        // The number of a sender may stand still, but not because of two paths.
        (Reject::Duplicate, true, false),
        (Reject::UnknownThread, false, false),
        (Reject::NotAllowed, false, false),
    ] {
        for (end, is_lost) in [(false, live), (true, at_end)] {
            let mut refusals = Refusals::default();
            refusals.add(why, LONG_RUN, 1000);
            assert_eq!(refusals.poll_long(1000, end).unwrap().is_lost, is_lost, "{why:?} {end}");
        }
        let mut rejects = Rejects::default();
        rejects.add_many(why, 2 * LONG_RUN);
        assert_eq!(most(&rejects, LONG_RUN).unwrap().is_lost, at_end, "{why:?}");
        assert_eq!(most(&rejects, 2 * LONG_RUN), None);
    }
    let mut few = Rejects::default();
    few.add_many(Reject::WrongSize, LONG_RUN - 1);
    assert!(!most(&few, 1).unwrap().is_lost);
}

#[test]
fn a_frame_in_its_place_disproves_another_phase() {
    let mut refusals = Refusals::default();
    (0..10 * OUT_OF_PHASE).for_each(|n| refusals.add(Reject::Unpaired, 1, n / (OUT_OF_PHASE - 1)));
    assert!((0..1000).all(|placed| !refusals.is_out_of_phase(placed)));
    refusals.add(Reject::Unpaired, OUT_OF_PHASE, u64::MAX);
    assert!(refusals.is_out_of_phase(u64::MAX) && !refusals.is_out_of_phase(0));
}
