use super::*;
use proptest::prelude::*;
use skyhaul_core::wire::header::Order;
use skyhaul_core::wire::udpmon::structs::{Bins, SNMP, udp_in_errors};

const S: u64 = 1_000_000_000;

fn peer(n: u16) -> SocketAddr {
    SocketAddr::from(([127, 0, 0, 1], n))
}

fn desk(tests: usize) -> Requesters {
    Requesters::new(ResponderOptions { tests, ..ResponderOptions::default() })
}

fn ask(desk: &mut Requesters, from: SocketAddr, message: Message, now: u64) -> Vec<u8> {
    let mut answer = Vec::new();
    desk.handle(from, &message.octets(), now, &mut answer);
    answer
}

fn begin(desk: &mut Requesters, from: SocketAddr, order: Order, now: u64) -> Option<Command> {
    let mut zero = Message::new(order, Command::ZeroStats, 0);
    (zero.head.version, zero.head.width) = (0, 10);
    Message::read(&ask(desk, from, zero, now)).unwrap().command()
}

#[test]
fn each_requester_has_a_test_of_its_own_in_its_byte_order() {
    let mut desk = desk(2);
    assert_eq!(begin(&mut desk, peer(1), Order::Little, 0), Some(Command::Ok));
    assert_eq!(begin(&mut desk, peer(2), Order::Big, 0), Some(Command::Ok));
    assert_eq!(begin(&mut desk, peer(3), Order::Big, 0), Some(Command::InUse));
    for n in 0..10 {
        ask(&mut desk, peer(1), Message::new(Order::Little, Command::Data, n), n * 10_000);
        ask(&mut desk, peer(2), Message::new(Order::Big, Command::Data, n * 2), n * 10_000);
    }
    for (from, order, lost) in [(peer(1), Order::Little, 0), (peer(2), Order::Big, 9)] {
        let answer = ask(&mut desk, from, Message::new(order, Command::GetStats, 0), 100_000);
        let answer = Message::read(&answer).unwrap();
        assert_eq!((answer.order, answer.head.version), (order, 7));
        assert_eq!((answer.head.received, answer.tail.lost), (10, lost));
    }
    for _ in 0..2 {
        let end = ask(&mut desk, peer(1), Message::new(Order::Little, Command::TestEnd, 0), 0);
        assert_eq!(Message::read(&end).unwrap().command(), Some(Command::Ok), "as often as it is asked");
    }
    assert_eq!(begin(&mut desk, peer(3), Order::Little, 0), Some(Command::Ok));
    assert_eq!(begin(&mut desk, peer(4), Order::Little, 59 * S), Some(Command::Ok), "port 3 never went on");
    assert_eq!(begin(&mut desk, peer(5), Order::Little, 61 * S), Some(Command::Ok), "port 2 is silent");
    let stats = desk.stats;
    assert_eq!((stats.packets, stats.lost, stats.busy, stats.tests), (20, 9, 1, 5));
}

#[test]
fn structures_come_in_pieces_in_the_order_of_who_asks() {
    for order in [Order::Little, Order::Big] {
        structures(order);
    }
}

fn structures(order: Order) {
    let mut desk = desk(8);
    begin(&mut desk, peer(1), order, 0);
    for n in 0..5 {
        ask(&mut desk, peer(1), Message::new(order, Command::Data, n), n * 20_000);
    }
    ask(&mut desk, peer(1), Message::new(order, Command::GetStats, 0), 0);
    let mut whole = |command: Command, length: usize| {
        let mut octets = Vec::new();
        while octets.len() < length {
            let mut message = Message::new(order, command, 0);
            message.head.response_length = (length - octets.len()).min(1400) as u32;
            message.head.index = octets.len() as u32;
            octets.extend(ask(&mut desk, peer(1), message, 0));
        }
        octets
    };
    let bins = Bins::read(&whole(Command::GetHistogram, HISTOGRAM), order).unwrap();
    assert_eq!((bins.in_range(), bins.counts[21]), (4, 4), "200 × 0.1 µs in bins of 10");
    assert!(udp_in_errors(&whole(Command::GetSnmp, SNMP)).is_some());
    assert_eq!(whole(Command::GetCpu, CPU).len(), CPU);
    assert_eq!(whole(Command::GetNic, NIC), [0; NIC]);
}

#[test]
fn times_of_responses_run_on_when_counts_begin_again() {
    let mut desk = desk(8);
    begin(&mut desk, peer(1), Order::Big, 5 * S);
    let mut request = Message::new(Order::Big, Command::Request, 3);
    request.head.response_length = 64;
    let response = |desk: &mut Requesters, now| {
        let octets = ask(desk, peer(1), request, now);
        assert_eq!(octets.len(), 64);
        Message::read(&octets).unwrap().head
    };
    let head = response(&mut desk, 6 * S);
    assert_eq!((head.command, head.frame, head.response_time), (Command::Response as u32, 3, 1_000_000));
    ask(&mut desk, peer(1), Message::new(Order::Big, Command::Start, 0), 7 * S);
    assert_eq!(response(&mut desk, 8 * S).response_time, 3_000_000);
}

#[test]
fn who_asks_without_a_test_gets_nothing_and_who_asks_too_much_neither() {
    let mut desk = desk(8);
    for command in [Command::GetStats, Command::Request, Command::GetSnmp, Command::Data] {
        assert!(ask(&mut desk, peer(1), Message::new(Order::Little, command, 0), 0).is_empty());
    }
    assert_eq!(begin(&mut desk, peer(1), Order::Little, 0), Some(Command::Ok));
    let mut large = Message::new(Order::Little, Command::Request, 0);
    large.head.response_length = u32::MAX;
    let mut sent = 0;
    for n in 0..100_000 {
        let n = ask(&mut desk, peer(1), large, n).len();
        sent += n;
        assert!(n <= 65_507);
    }
    assert!(sent <= (1 << 20) + 100_001 * LEN, "{sent} octets");
    assert!(desk.stats.unpaid > 90_000);
}

#[test]
fn ten_thousand_that_only_begin_take_no_place_from_one_that_goes_on() {
    let mut desk = desk(4);
    let (mut came, mut went) = (0, 0);
    for n in 0..10_000u64 {
        let from = SocketAddr::from(([10, 0, (n >> 8) as u8, n as u8], 5000));
        let octets = Message::new(Order::Little, Command::ZeroStats, 0).octets();
        let question = &octets[..24 + (n % 185) as usize];
        let mut answer = Vec::new();
        desk.handle(from, question, n * S / 1000, &mut answer);
        (came, went) = (came + question.len(), went + answer.len());
        assert!(desk.running() <= 4);
        if n == 5000 {
            // One that is not answered begins again, until those that are silent make room.
            let first = (0..4000).find(|ms| {
                begin(&mut desk, peer(9), Order::Little, 5 * S + ms * S / 1000) == Some(Command::Ok)
            });
            assert!(first.is_some());
            ask(&mut desk, peer(9), Message::new(Order::Little, Command::Data, 0), 9 * S);
        }
    }
    assert!(went <= came, "{went} octets for {came}");
    let stats = ask(&mut desk, peer(9), Message::new(Order::Little, Command::GetStats, 0), 10 * S);
    assert_eq!(Message::read(&stats).unwrap().head.received, 1);
}

#[test]
fn a_host_has_its_share_and_a_test_its_time() {
    let options =
        ResponderOptions { per_peer: 1, longest: std::time::Duration::from_secs(5), ..<_>::default() };
    let mut desk = Requesters::new(options);
    assert_eq!(begin(&mut desk, peer(1), Order::Little, 0), Some(Command::Ok));
    assert_eq!(begin(&mut desk, peer(2), Order::Little, S), Some(Command::InUse));
    ask(&mut desk, peer(1), Message::new(Order::Little, Command::Data, 0), 4 * S);
    ask(&mut desk, peer(1), Message::new(Order::Little, Command::Data, 1), 6 * S);
    assert_eq!((desk.stats.packets, desk.stats.unasked), (1, 1));
    assert_eq!(begin(&mut desk, peer(2), Order::Little, 7 * S), Some(Command::Ok));
}

/// One desk's answers are the other's questions, until one is silent; how many there were.
fn played(desks: &mut [Requesters; 2], first: &[u8]) -> usize {
    let mut datagram = first.to_vec();
    for n in 0.. {
        let mut answer = Vec::new();
        // Each hears the other at the same address; the clock stands still, so that no time ends it.
        desks[n % 2].handle(peer(1), &datagram, S, &mut answer);
        if answer.is_empty() {
            return n;
        }
        datagram = answer;
        assert!(n < 1_000_000, "they answer each other for ever");
    }
    unreachable!()
}

#[test]
fn two_responders_do_not_answer_each_other() {
    for order in [Order::Little, Order::Big] {
        let unbounded =
            || Requesters::new(ResponderOptions { per_source: 0, beyond: 1 << 40, ..<_>::default() });
        let mut desks = [unbounded(), unbounded()];
        for first in 1..=255 {
            desks.iter_mut().for_each(|desk| assert_eq!(begin(desk, peer(1), order, 0), Some(Command::Ok)));
            let mut message = Message::new(order, Command::Data, 0);
            message.head.response_length = 200;
            let mut octets = message.octets();
            octets[if order == Order::Little { 0 } else { 3 }] = first;
            let answers = played(&mut desks, &octets);
            assert!(answers <= 2, "{first:#x}: {answers}");
        }
    }
}

#[test]
fn answers_in_raw_octets_that_are_questions_come_to_an_end() {
    // Records whose times of arrival, which a requester chooses, are the words of a question for these records.
    let unbounded = || Requesters::new(ResponderOptions { per_source: 0, beyond: 1 << 40, ..<_>::default() });
    let mut desks = [unbounded(), unbounded()];
    for desk in &mut desks {
        let mut zero = Message::new(Order::Little, Command::ZeroStats, 0);
        (zero.head.width, zero.head.response_length) = (10, 2 * 32);
        ask(desk, peer(1), zero, 0);
        // Octet 0: the command; octet 32: how much is wanted.
        for (n, word) in [Command::GetRecords as u64, 1416].into_iter().enumerate() {
            ask(desk, peer(1), Message::new(Order::Little, Command::Data, n as u64), 100 * word);
        }
    }
    let mut question = Message::new(Order::Little, Command::GetRecords, 0);
    question.head.response_length = 1416;
    let answers = played(&mut desks, &question.octets());
    assert_eq!(answers, 2 * QUESTIONS as usize, "each answers as many as it may");
    assert_eq!(desks[0].stats.overasked + desks[1].stats.overasked, 1);
}

#[test]
fn a_flood_of_questions_is_cut_to_the_share_of_its_source_and_the_kernel_is_seldom_asked() {
    let mut desk = Requesters::new(ResponderOptions { per_source: 1000, ..<_>::default() });
    let (honest, flood) = (peer(9), SocketAddr::from(([10, 0, 0, 1], 9)));
    assert_eq!(begin(&mut desk, honest, Order::Little, 0), Some(Command::Ok));
    let before = desk.texts.0.clone();
    let (mut answered, mut texts, mut last) = (0, 0, before);
    for n in 0..100_000u64 {
        let command = if n % 2 == 0 { Command::ZeroStats } else { Command::GetStats };
        let now = n * S / 100_000;
        answered +=
            u64::from(!ask(&mut desk, flood, Message::new(Order::Little, command, 0), now).is_empty());
        texts += u64::from(!Arc::ptr_eq(&last, &desk.texts.0));
        last = desk.texts.0.clone();
    }
    assert!((1900..=2000).contains(&answered), "{answered} of 100 000 in a second");
    assert!(texts <= READS.0 + READS.1, "{texts} readings of the kernel's files");
    assert_eq!(desk.stats.beyond_share, 100_000 - answered);
    let told = ask(&mut desk, honest, Message::new(Order::Little, Command::GetStats, 0), S);
    assert_eq!(told.len(), LEN, "another one is answered meanwhile");
}

proptest! {
    #[test]
    fn any_datagrams_are_counted_or_answered_within_bounds(
        all in proptest::collection::vec((0u16..4, 0u8..0x84, proptest::collection::vec(any::<u8>(), 0..220)), 1..60),
    ) {
        let mut desk = Requesters::new(ResponderOptions { tests: 2, beyond: 0, ..ResponderOptions::default() });
        let (mut came, mut went) = (0, 0);
        for (from, command, mut datagram) in all {
            if let Some(first) = datagram.first_chunk_mut::<4>() {
                *first = if command & 1 == 0 { [command, 0, 0, 0] } else { [0, 0, 0, command] };
            }
            let mut answer = Vec::new();
            desk.handle(peer(from), &datagram, 1, &mut answer);
            (came, went) = (came + datagram.len(), went + answer.len());
            prop_assert!(went <= came && desk.running() <= 2, "{} for {}", went, came);
        }
    }
}

fn zero() -> [u8; LEN] {
    Message::new(Order::Little, Command::ZeroStats, 0).octets()
}

/// Of 1000 questions and one, 256 are answered: all of the honest source, and as many of the other as are left.
#[test]
fn who_asks_most_is_cut_to_what_others_leave() {
    let mut responding = Responding::new(ResponderOptions { tests: 1, ..<_>::default() });
    let socket = Both::serve(peer(0)).unwrap();
    let came = |responding: &mut Responding, host: u8, bytes: &[u8]| {
        let from = SocketAddr::from(([127, 0, 0, host], 9));
        responding.datagram(&socket, &Arrival { bytes, from, time: Some(Nanos(S)), hops: None });
    };
    (0..1000).for_each(|_| came(&mut responding, 2, &zero()));
    came(&mut responding, 3, &zero());
    let turns = |responding: &mut Responding| 1 + (0..100).take_while(|_| responding.turn(&socket)).count();
    assert_eq!(turns(&mut responding), 8);
    let stats = responding.stats(0);
    assert_eq!((stats.answers + stats.refused, stats.beyond_turn), (256, 745), "{stats:?}");
    // One source alone: as many, and the others later.
    (0..1000).for_each(|_| came(&mut responding, 2, &zero()));
    assert_eq!(turns(&mut responding), 32);
    let stats = responding.stats(0);
    assert_eq!((stats.answers + stats.refused, stats.beyond_turn), (1256, 745), "{stats:?}");
    // Packets of a test do not overtake what begins it, and are not cut.
    came(&mut responding, 2, &Message::new(Order::Little, Command::TestEnd, 0).octets());
    came(&mut responding, 2, &zero());
    (0..1000).for_each(|n| came(&mut responding, 2, &Message::new(Order::Little, Command::Data, n).octets()));
    came(&mut responding, 2, &Message::new(Order::Little, Command::TestEnd, 0).octets());
    responding.turn(&socket);
    assert_eq!(responding.stats(0).packets, 1000);
}
