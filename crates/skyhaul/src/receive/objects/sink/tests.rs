use super::*;

#[test]
fn what_is_queued_or_found_no_room_is_not_taken() {
    let mut stats = Stats { waiting: 30, ..Stats::default() };
    (stats.total.heaps, stats.total.incomplete_heaps) = (100, 5);
    (stats.total.incomplete_dropped, stats.total.ring_full) = (2, 10);
    stats.total.refuse(Reject::NoBuffer, 7, 0);
    let load = ObjectLoad::of(&stats, 40);
    assert_eq!((load.fill, load.taken, load.finished), (0.75, 60, 102));
    assert_eq!((load.complete, load.incomplete, load.dropped), (95, 7, 7));
    let mut both = load;
    both.merge(&ObjectLoad { fill: 0.5, taken: 1, ..ObjectLoad::default() });
    assert_eq!((both.fill, both.taken), (0.75, 61));
}
