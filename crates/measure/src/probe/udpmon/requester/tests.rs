use super::*;
use skyhaul_core::wire::udpmon::Command;
use std::time::Duration;

fn quick(to: SocketAddr) -> RequestOptions {
    let short = Duration::from_millis(30);
    let point = UdpPoint { packets: 5, ..UdpPoint::even(64, 100_000_000, Duration::from_secs(20)) };
    RequestOptions { timeout: short, patience: short, settle: short, ..RequestOptions::new(to, point) }
}

/// A responder that answers every datagram with what `answer` makes of it; nothing, if that is empty.
fn against(answer: impl Fn(&[u8]) -> Vec<u8> + Sync) -> Result<RequestReport, UdpmonError> {
    let socket = Both::bind("127.0.0.1:0".parse().unwrap(), &UdpOptions::default()).unwrap();
    let (to, over) = (socket.local(), AtomicBool::new(false));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut octets = [0; 2048];
            while !over.load(Ordering::Relaxed) {
                let Some((n, from)) = socket.receive_from(&mut octets, Duration::from_millis(5)).unwrap()
                else {
                    continue;
                };
                let answer = answer(&octets[..n]);
                if !answer.is_empty() {
                    let _ = socket.send_to(&answer, from);
                }
            }
        });
        let report = request(&quick(to), &AtomicBool::new(false));
        over.store(true, Ordering::Relaxed);
        report
    })
}

#[test]
fn a_peer_that_is_no_responder_is_named_and_ends_the_test() {
    let echo = against(<[u8]>::to_vec);
    assert!(matches!(echo, Err(UdpmonError::Broken(Command::ZeroStats))), "{echo:?}");
    let garbage = against(|_| vec![0xEE; 700]);
    assert!(matches!(garbage, Err(UdpmonError::Broken(Command::ZeroStats))), "{garbage:?}");
    let silent = against(|_| Vec::new());
    assert!(matches!(silent, Err(UdpmonError::Silent(_))), "{silent:?}");
    assert!(silent.unwrap_err().to_string().contains("hint: "));
    let with = |command: Command, version: u32| {
        against(move |_| {
            let mut message = Message::new(Order::Big, command, 0);
            message.head.version = version;
            message.octets().to_vec()
        })
    };
    assert!(matches!(with(Command::Ok, 6), Err(UdpmonError::OtherVersion(6))));
    assert!(matches!(with(Command::InUse, 7), Err(UdpmonError::Busy)));
}

/// As udpmon answers: the head of its counts is undefined, and an Ok that is late comes before it. It has no structures.
#[test]
fn counts_are_found_behind_a_late_answer_in_the_order_of_the_responder() {
    let report = against(|asked| {
        let Ok(message) = Message::read(asked) else { return Vec::new() };
        // It was built for the other order, and knows no command in ours.
        if message.order == Order::Little {
            return Vec::new();
        }
        match message.command() {
            Some(Command::ZeroStats | Command::TestEnd) => {
                Message::new(Order::Big, Command::Ok, 0).octets().to_vec()
            }
            Some(Command::GetStats) => {
                let mut answer = message;
                (answer.head.command, answer.head.version) = (0x6b8b_4567, 0x327b_23c6);
                (answer.head.received, answer.tail.lost, answer.tail.first_to_last) = (4, 1, 4000);
                answer.octets().to_vec()
            }
            _ => Vec::new(),
        }
    })
    .unwrap();
    assert_eq!((report.sent.packets, report.received, report.lost, report.lost_by_number), (5, 4, 1, 1));
    assert!(report.big_endian && report.gaps_ns.is_none() && report.host_in_errors.is_none());
}

#[test]
fn an_interrupted_test_that_did_not_begin_says_so() {
    let to = Both::bind("127.0.0.1:0".parse().unwrap(), &UdpOptions::default()).unwrap();
    let stopped = request(&quick(to.local()), &AtomicBool::new(true));
    assert!(matches!(stopped, Err(UdpmonError::Interrupted)), "{stopped:?}");
}

#[test]
fn figures_are_of_what_the_responder_counted() {
    let mut stats = Message::new(Order::Little, Command::GetStats, 0);
    (stats.head.received, stats.tail.lost, stats.tail.first_to_last) = (91, 10, 90_000);
    let mut bins = Bins::new(0, 0, 10, 150);
    (0..90).for_each(|_| bins.record(1000));
    bins.record(-1);
    let told = ResponderResults { stats, bins: Some(bins), errors: Some((3, 7)) };
    let point = UdpPoint::even(1472, 100_000_000, Duration::from_millis(10));
    let sent = SentReport { packets: 101, refused: 1, seconds: 0.01, ..SentReport::default() };
    let report = RequestReport::new(([192, 0, 2, 9], 1).into(), point, sent, &told, false);
    assert_eq!((report.received, report.lost, report.lost_in_network), (91, 9, 5));
    assert!((report.user_bits_per_second - 1472.0 * 8.0 * 10_000.0).abs() < 1.0, "{report:?}");
    assert!((report.wire_bits_per_second - 1538.0 * 8.0 * 10_000.0).abs() < 1.0, "{report:?}");
    assert!((report.sent_bits_per_second - 1472.0 * 8.0 * 10_000.0).abs() < 1.0, "{report:?}");
    let gaps = report.gaps_ns.unwrap();
    assert_eq!((gaps.count, report.outside), (90, (1, 0)));
    assert!(gaps.p50.abs_diff(100_000) < 1000, "{gaps:?}");
}

#[test]
fn a_responder_that_lies_spoils_figures_and_nothing_else() {
    let mut stats = Message::new(Order::Big, Command::GetStats, 0);
    (stats.head.received, stats.tail.lost, stats.tail.first_to_last) = (u32::MAX, u32::MAX, u64::MAX);
    let mut bins = Bins::new(0, i32::MAX, i32::MAX, 998);
    bins.counts.fill(u64::MAX);
    let told = ResponderResults { stats, bins: Some(bins), errors: Some((u64::MAX, 0)) };
    let point = UdpPoint::even(64, 0, Duration::from_millis(1));
    let report = RequestReport::new(([192, 0, 2, 9], 1).into(), point, SentReport::default(), &told, true);
    assert_eq!((report.lost, report.lost_in_network, report.big_endian), (0, 0, true));
}
