use super::*;

/// A length in one byte, then that many bytes.
struct Counted;

impl Heads for Counted {
    fn find(&self, bytes: &[u8]) -> Found {
        bytes.first().map_or(Found::More, |&n| Found::Packet { head: 1, body: u64::from(n) })
    }

    fn longest_head(&self) -> usize {
        1
    }
}

#[test]
fn what_is_left_again_and_again_is_not_copied() {
    let rules = Rules::new(Box::new(Counted), 255, 300);
    let mut cutter = Cutter::new(&rules);
    let stream = [[3, 1, 2, 3], [3, 4, 5, 6], [3, 7, 8, 9]].concat();
    let mut room = 1;
    let tell = |room: &mut usize, cutter: &mut Cutter, feed: &[u8]| {
        let mut told = |_: Told<'_>| std::mem::replace(room, room.saturating_sub(1)) > 0;
        if feed.is_empty() {
            cutter.resume(&rules, &mut told);
        } else {
            cutter.feed(feed, &rules, &mut told);
        }
    };
    tell(&mut room, &mut cutter, &stream);
    let held = cutter.held.as_ptr();
    for (more, pending) in [(0, 8), (0, 8), (1, 4), (0, 4)] {
        room = more;
        tell(&mut room, &mut cutter, &[]);
        assert_eq!((cutter.is_held(), cutter.pending(), cutter.held.as_ptr()), (true, pending, held));
    }
    room = 1;
    tell(&mut room, &mut cutter, &[]);
    assert_eq!((cutter.is_held(), cutter.pending()), (false, 0));
}
