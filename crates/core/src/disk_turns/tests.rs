use super::*;
use proptest::prelude::*;

const MIB: u64 = 1 << 20;
const SECOND: u64 = 1_000_000_000;

fn writing(memory_percent: u8) -> WriteDemand {
    WriteDemand { recordings: 1, pending_bytes: MIB, memory_percent }
}

#[test]
fn a_reader_that_has_waited_gets_one_turn_a_second_where_writes_keep_up() {
    let mut turns = DiskTurns::default();
    turns.set_demand(writing(24));
    let tickets: Vec<_> = (0..3).map(|_| turns.ask(Nanos(0), MIB)).collect();
    assert_eq!(turns.poll_turn(Nanos(SECOND - 1)), None);
    assert_eq!(turns.next_deadline(), Some(Nanos(SECOND)));
    assert_eq!(turns.poll_turn(Nanos(SECOND)), Some(tickets[0]));
    turns.end(tickets[0]);
    // All have waited for a second; the next one has to wait for another.
    assert_eq!(turns.poll_turn(Nanos(SECOND)), None);
    assert_eq!(turns.next_deadline(), Some(Nanos(2 * SECOND)));
    assert_eq!(turns.poll_turn(Nanos(2 * SECOND)), Some(tickets[1]));
    assert_eq!(turns.poll_turn(Nanos(9 * SECOND)), None, "one at a time");
    turns.end(tickets[1]);
    // Where memory fills, nobody.
    turns.set_demand(writing(25));
    assert_eq!((turns.poll_turn(Nanos(9 * SECOND)), turns.next_deadline()), (None, None));
    turns.set_demand(WriteDemand::default());
    assert_eq!(turns.poll_turn(Nanos(9 * SECOND)), Some(tickets[2]));
}

#[test]
fn a_turn_that_is_larger_than_all_together_may_be_begins_alone() {
    let mut turns = DiskTurns::default();
    turns.set_demand(WriteDemand { pending_bytes: 0, ..writing(0) });
    let (large, small) = (turns.ask(Nanos(0), 64 * MIB), turns.ask(Nanos(0), 1));
    assert_eq!((turns.poll_turn(Nanos(0)), turns.poll_turn(Nanos(0))), (Some(large), None));
    turns.end(large);
    assert_eq!(turns.poll_turn(Nanos(0)), Some(small));
}

#[derive(Clone, Debug)]
enum Happens {
    Asks(u64),
    /// One that waits or has begun, by its place, ends.
    Ends(usize),
    Demand(u32, u64, u8),
    Passes(u64),
}

fn happens() -> impl Strategy<Value = Happens> {
    prop_oneof![
        3 => (1..6 * MIB).prop_map(Happens::Asks),
        3 => (0usize..8).prop_map(Happens::Ends),
        2 => (0u32..3, prop_oneof![Just(0), 1..9 * MIB], 0u8..60).prop_map(|(n, bytes, fill)| Happens::Demand(n, bytes, fill)),
        2 => (0..SECOND).prop_map(Happens::Passes),
    ]
}

proptest! {
    /// Whatever happens: turns begin in order, a recording that writes is disturbed at most once in the time of patience, and only
    /// while it has memory; a chunk that comes waits for a bounded number of bytes; nobody waits for nothing, and nobody for ever.
    #[test]
    fn recordings_go_first_and_nobody_is_forgotten(events in prop::collection::vec(happens(), 1..200)) {
        let (mut turns, mut now) = (DiskTurns::default(), Nanos(0));
        let (mut waiting, mut begun) = (VecDeque::new(), Vec::<(TurnTicket, u64)>::new());
        let mut disturbed: Option<Nanos> = None;
        for event in events {
            match event {
                Happens::Asks(bytes) => waiting.push_back((turns.ask(now, bytes), bytes, now)),
                Happens::Ends(at) if at < begun.len() => turns.end(begun.swap_remove(at).0),
                Happens::Ends(at) => {
                    if let Some((ticket, ..)) = waiting.remove(at) {
                        turns.end(ticket);
                    }
                }
                Happens::Demand(recordings, pending_bytes, memory_percent) => {
                    let pending_bytes = if recordings == 0 { 0 } else { pending_bytes };
                    turns.set_demand(WriteDemand { recordings, pending_bytes, memory_percent });
                }
                Happens::Passes(time) => now = now.plus(Nanos(time)),
            }
            let demand = turns.demand();
            while let Some(ticket) = turns.poll_turn(now) {
                let (first, bytes, since) = waiting.pop_front().unwrap();
                prop_assert_eq!(ticket, first, "out of order");
                let others: u64 = begun.iter().map(|(_, bytes)| bytes).sum();
                begun.push((ticket, bytes));
                if demand.recordings == 0 {
                    continue;
                }
                prop_assert!(others == 0 || others + bytes <= MAX_TURN_BYTES);
                prop_assert!(others == 0 || demand.memory_percent < SHORT_MEMORY_PERCENT);
                if demand.pending_bytes > 0 {
                    prop_assert!(demand.memory_percent < SPARE_MEMORY_PERCENT && others == 0);
                    prop_assert!(now.since(since) >= TURN_PATIENCE);
                    prop_assert!(disturbed.is_none_or(|last| now.since(last) >= TURN_PATIENCE));
                    disturbed = Some(now);
                }
            }
            prop_assert_eq!(turns.waiting(), waiting.len());
            // The disk is not left idle beside those who wait.
            prop_assert!(waiting.is_empty() || !begun.is_empty() || demand.pending_bytes > 0);
        }
        // When the recordings have ended, all get their turn.
        turns.set_demand(WriteDemand::default());
        let rest: Vec<_> = std::iter::from_fn(|| turns.poll_turn(now)).collect();
        prop_assert_eq!(rest, waiting.iter().map(|(ticket, ..)| *ticket).collect::<Vec<_>>());
    }
}
