use super::*;

#[test]
fn every_counter_has_a_name_of_its_own_and_is_merged() {
    let mut counts = StreamCounts { packets: 2, max_batch: 5, ..StreamCounts::default() };
    counts.rejects.add(Reject::Late);
    counts.closed(End::Reset);
    counts.merge(&counts.clone());
    let named: std::collections::BTreeMap<String, u64> = counts.named().collect();
    assert_eq!(named.len(), counts.named().count());
    assert_eq!(
        (named["packets"], named["max_batch"], named["reject_late"], named["closed_reset"]),
        (4, 5, 2, 2)
    );
    assert!(named.contains_key("retired_window"));
}

fn part(number: u64) -> Placement {
    Placement { key: Key::of(number), number_bits: 48, ..Placement::default() }
}

fn who(reader: usize, host: u16) -> Counted {
    (reader, SocketAddr::from(([10, 0, (host >> 8) as u8, host as u8], 9000)), 0)
}

#[test]
fn each_sender_counts_by_itself_and_so_does_each_reader() {
    let mut missing = MissingHeaps::default();
    for n in 0..200u64 {
        missing.note(who(0, 1), &part(n), false);
        if n != 100 {
            missing.note(who(0, 2), &part(4 * n), false);
        }
        if n != 50 && n != 51 {
            missing.note(who(1, 1), &part(600 + 2 * n), false);
        }
        missing.note(who(0, 3), &part(n * n * n), false);
    }
    missing.finish();
    assert_eq!(missing.missing(), Missing { heaps: 3, senders: 3, unknown_senders: 1 });
    assert_eq!(missing.missing().known(), Some(3));
    assert_eq!(MissingHeaps::default().missing().known(), None);
    let mut shared = MissingHeaps::new(true);
    (0..200u64).filter(|n| n % 7 > 0).for_each(|n| shared.note(who(0, 1), &part(n), false));
    shared.finish();
    assert_eq!(shared.missing(), Missing::default(), "the seventh went to another receiver");
}

#[test]
fn no_more_senders_are_followed_than_there_is_room_for() {
    let mut missing = MissingHeaps::default();
    for n in 0..100 {
        missing.note(who(0, 0), &part(2 * n), false);
    }
    for host in 1..3000 {
        for n in (0..20).filter(|n| *n != 10) {
            missing.note(who(0, host), &part(n), false);
        }
        missing.note(who(0, 0), &part(2 * (100 + u64::from(host))), false);
    }
    assert_eq!((missing.senders.len(), missing.at.len()), (MAX_SENDERS, MAX_SENDERS));
    missing.finish();
    // One counter was left out before the first of the others; and who went on was forgotten when all had been used.
    assert_eq!(missing.missing(), Missing { heaps: 2999 + 1, senders: 3001, unknown_senders: 0 });
}
