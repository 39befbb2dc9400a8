use super::*;

#[test]
fn a_packet_is_marked_by_the_part_with_its_last_byte() {
    let presence = Presence::of_packets(1000);
    assert_eq!((presence.marks(2500), presence.marks(2000), presence.marks(0)), (3, 2, 0));
    for (offset, length, marks) in [
        (0, 1000, 0..1),
        (1000, 1000, 1..2),
        (2000, 500, 2..3),
        (0, 2500, 0..3),
        (0, 999, 0..0),
        (999, 1, 0..1),
        (999, 1001, 0..2),
        (2499, 1, 2..3),
        (500, 0, 0..0),
    ] {
        assert_eq!(presence.packets(offset, length, 2500), marks, "{offset} {length}");
    }
    let heaps = Presence::of_packets(0);
    assert_eq!((heaps.marks(2500), heaps.packets(0, 2500, 2500)), (1, 0..0));
}
