use super::*;
use crate::placement::Nanos;

fn arrived(number: u64, sent: u64, kernel: u64) -> Arrived {
    Arrived { number, sent: Nanos(sent), kernel: Nanos(kernel), user: Nanos(kernel), ttl: 60 }
}

#[test]
fn names_are_unique() {
    let names: std::collections::BTreeSet<&str> = Cause::ALL.iter().map(|cause| cause.name()).collect();
    assert_eq!(names.len(), Cause::ALL.len());
}

#[test]
fn a_full_account_gives_each_place_its_share() {
    let account = Account {
        sent: 100,
        nic_out: Some(98),
        nic_in: Some(90),
        ip_in: Some(85),
        udp_in: Some(70),
        received: 69,
    };
    let shares = Shares::of(&account, &Counters::default());
    let expected = Shares { sender: 2, network: 8, ring: 5, socket: 15, reader: 1, residual: 0 };
    assert_eq!((shares, shares.lost()), (expected, 31));
}

#[test]
fn counters_divide_what_no_place_counts() {
    let account = Account { sent: 100, received: 60, ..Account::default() };
    let counters =
        Counters { send_drops: 3, ring_drops: 4, backlog_drops: 1, rcvbuf_errors: 12, ..Counters::default() };
    let shares = Shares::of(&account, &counters);
    let expected = Shares { sender: 3, network: 20, ring: 5, socket: 12, ..Shares::default() };
    assert_eq!((shares, shares.lost()), (expected, 40));
    // Other traffic also raises the counters: only as many packets are moved as were lost.
    let wild = Counters { ring_drops: u64::MAX, backlog_drops: u64::MAX, ..counters };
    assert_eq!(Shares::of(&account, &wild).lost(), 40);
}

#[test]
fn more_than_was_sent_is_a_residual() {
    let account = Account { sent: 10, nic_in: Some(12), received: 10, ..Account::default() };
    assert_eq!(Shares::of(&account, &Counters::default()).residual, 2);
}

#[test]
fn a_point_counts_each_packet_once() {
    let setting = Setting { size: 100, spacing: 10.0, burst: 1, sent: 8, ..Setting::default() };
    // 0 and 7 are lost, 2 arrives after 3, 4 arrives twice, 9 was never sent.
    let order = [1, 3, 2, 4, 4, 5, 6, 9];
    let packets: Vec<Arrived> = order.iter().map(|&n| arrived(n, n * 10, n * 10 + 500)).collect();
    let point = Point::of(&setting, &packets);
    assert_eq!((point.received, point.lost(), point.duplicates, point.reordered), (6, 2, 1, 1));
    assert_eq!((point.front_lost, point.end_lost, point.longest_run), (1, 1, 1));
    assert_eq!((point.floor, point.delay), (500.0, 0.0));
}

#[test]
fn loss_of_no_pattern_stays_unknown() {
    let point = Point { size: 1472, spacing: 1e4, burst: 1, sent: 1000, received: 900, ..Point::default() };
    let account =
        Account { sent: 1000, nic_out: Some(1000), nic_in: Some(900), received: 900, ..Account::default() };
    let found = diagnose(&Case { points: vec![point], account, ..Case::default() });
    assert_eq!((found.findings, found.unexplained), (Vec::new(), 100));
}

#[test]
fn nothing_known_and_wild_values_find_nothing_and_end() {
    assert_eq!(diagnose(&Case::default()), Diagnosis::default());
    assert_eq!(tcp::diagnose(&tcp::Flow { seconds: 1.0, busy: 1.0, ..tcp::Flow::default() }), Vec::new());
    let setting = Setting { burst: 4, sent: 3, ..Setting::default() };
    let wild = [arrived(0, 0, i64::MAX as u64), arrived(1, 0, 1 << 63), arrived(u64::MAX, u64::MAX, 0)];
    let point = Point::of(&setting, &wild);
    assert_eq!(point.received, 2);
    let odd = Point { received: 9, ..point };
    let account = Account { sent: 3, received: u64::MAX, ..Account::default() };
    assert_eq!(diagnose(&Case { points: vec![odd], account, ..Case::default() }).unexplained, 0);
}

/// A point at this rate with `lost` of 1000 packets lost; its smallest delay is 1 ms.
fn lossy(pps: f64, lost: u64) -> Point {
    Point {
        size: 1472,
        spacing: 1e9 / pps,
        burst: 1,
        sent: 1000,
        received: 1000 - lost,
        floor: 1e6,
        noise: 2e3,
        steady: lost as f64 / 1000.0,
        ..Point::default()
    }
}

fn of_network(points: Vec<Point>) -> Vec<Cause> {
    network_findings(points).into_iter().map(|finding| finding.cause).collect()
}

fn network_findings(points: Vec<Point>) -> Vec<Finding> {
    let (sent, received) = points.iter().fold((0, 0), |(s, r), p| (s + p.sent, r + p.received));
    let account =
        Account { sent, nic_out: Some(sent), nic_in: Some(received), received, ..Account::default() };
    diagnose(&Case { points, account, ..Case::default() }).findings
}

#[test]
fn what_one_cause_does_not_explain_is_another_ones() {
    let long = Point { size: 8972, ..lossy(1000.0, 1000) };
    let burst = Point { burst: 64, hit: 1.0, ..lossy(1000.0, 300) };
    let points = vec![lossy(4000.0, 0), lossy(2000.0, 0), burst, long];
    assert_eq!(of_network(points), [Cause::Mtu, Cause::Microburst]);
}

#[test]
fn one_gap_is_no_firewall_and_all_from_a_time_on_is() {
    let gap = || Point { end_lost: 200, longest_run: 200, ..lossy(4000.0, 200) };
    let after = vec![gap(), lossy(2000.0, 0), lossy(1000.0, 0)];
    assert_eq!(of_network(after), []);
    let gone = Point { end_lost: 1000, front_lost: 1000, ..lossy(2000.0, 1000) };
    assert_eq!(of_network(vec![gap(), gone.clone(), gone]), [Cause::Firewall]);
}

#[test]
fn ports_that_lose_by_chance_are_no_polarisation() {
    let ports = |lost: [u64; 8]| -> Vec<Point> {
        let of = |(n, lost)| Point { flow: n + 1, ..lossy(4000.0, lost) };
        (0u16..).zip(lost).map(of).collect()
    };
    assert_eq!(of_network(ports([0, 80, 0, 0, 90, 0, 0, 0])), [Cause::Polarisation]);
    assert_eq!(of_network(ports([2, 6, 4, 3, 7, 2, 4, 5])), []);
}

#[test]
fn ports_are_accused_only_if_the_same_ones_lose_again() {
    let found = |second: [u64; 8]| {
        let first = [0, 80, 0, 0, 90, 0, 0, 0];
        let of = |lost: [u64; 8]| {
            (0u16..)
                .zip(lost)
                .map(|(n, lost)| Point { flow: n + 1, ..lossy(4000.0, lost) })
                .collect::<Vec<_>>()
        };
        let points = [of(first), of(second)].concat();
        let (sent, received) = points.iter().fold((0, 0), |(s, r), p| (s + p.sent, r + p.received));
        let account =
            Account { sent, nic_out: Some(sent), nic_in: Some(received), received, ..Account::default() };
        let found = diagnose(&Case { points, account, ..Case::default() });
        found.findings.iter().map(|f| (f.cause, f.confidence > 0.5)).collect::<Vec<_>>()
    };
    assert_eq!(found([0, 70, 0, 0, 85, 0, 0, 0]), [(Cause::Polarisation, true)]);
    assert_eq!(found([60, 0, 0, 0, 0, 0, 90, 0]), []);
}

/// A path that fails for a time, again and again, may meet the same ports when they are measured once more.
#[test]
fn ports_that_lose_all_for_a_time_are_no_polarisation() {
    let twice = |port: &dyn Fn(u16) -> Point| -> Vec<Point> {
        [1, 2, 3, 4, 5, 6, 6, 5, 4, 3, 2, 1].map(|flow| Point { flow, ..port(flow) }).to_vec()
    };
    let fails = twice(&|flow| match flow {
        2 => stream(4000.0, &[3000..4000]),
        3 => stream(4000.0, &[0..4000]),
        4 => stream(4000.0, &[0..1500]),
        6 => stream(4000.0, &[2000..4000]),
        _ => stream(4000.0, &[]),
    });
    assert!(!of_network(fails).contains(&Cause::Polarisation));
    // One port of eight loses now and then, in both measurements: any of the others would as well once in eight times. Four of eight are
    // the same again once in seventy.
    let now_and_then = |n: u64| (n..1500).step_by(40).map(|n| n..n + 3).collect::<Vec<_>>();
    let sure = |ports: &[u16]| {
        let lost = |flow| if ports.contains(&flow) { now_and_then(u64::from(flow)) } else { Vec::new() };
        let found = network_findings(twice(&|flow| stream(4000.0, &lost(flow))));
        found.iter().find(|found| found.cause == Cause::Polarisation).map(|found| found.confidence > 0.5)
    };
    assert_eq!((sure(&[3]), sure(&[1, 2, 4, 7])), (Some(false), Some(true)));
    let every = |of: u64| (0..4000 / of).map(|n| n * of..n * of + 1).collect::<Vec<_>>();
    let full = twice(&|flow| match flow {
        2 => stream(4000.0, &every(3)),
        4 => stream(4000.0, &every(30)),
        _ => stream(4000.0, &[]),
    });
    assert!(of_network(full).contains(&Cause::Polarisation));
    let gone = twice(&|flow| if flow == 3 { stream(4000.0, &[0..4000]) } else { stream(4000.0, &[]) });
    assert!(of_network(gone).contains(&Cause::Polarisation));
}

/// An even stream of 4000 packets with these ranges lost; the delay is 10 ms.
fn stream(pps: f64, lost: &[std::ops::Range<u64>]) -> Point {
    let setting = Setting { size: 1472, spacing: 1e9 / pps, burst: 1, sent: 4000, ..Setting::default() };
    let kept = (0..4000u64).filter(|n| !lost.iter().any(|run| run.contains(n)));
    let at = |n: u64| (n as f64 * 1e9 / pps) as u64;
    Point::of(
        &setting,
        &kept.map(|n| arrived(n, at(n), at(n) + 10_000_000 + n % 3 * 500)).collect::<Vec<_>>(),
    )
}

#[test]
fn bursts_at_any_rate_are_named_and_what_only_a_high_rate_loses_is_not() {
    let some = [500..540, 1900..1940, 3000..3050];
    let anywhere = vec![stream(8000.0, &some), stream(4000.0, &some[..2]), stream(1000.0, &some[1..])];
    assert_eq!(of_network(anywhere), [Cause::BurstLoss]);
    let many: Vec<_> = (1..20).map(|n| n * 200..n * 200 + 30).collect();
    let fast = vec![stream(8000.0, &many), stream(2000.0, &[]), stream(1000.0, &[])];
    assert!(!of_network(fast).contains(&Cause::BurstLoss));
    // A single burst is an accident.
    assert_eq!(of_network(vec![stream(8000.0, &some[..1]), stream(4000.0, &[]), stream(1000.0, &[])]), []);
}

#[test]
fn bursts_do_not_hide_a_limit_and_are_no_limit() {
    // Above a limit, three of eight packets are lost all the time.
    let over: Vec<_> = (100..499).map(|n| n * 8..n * 8 + 3).collect();
    let some = [500..540, 1900..1940, 3000..3050];
    let points =
        vec![stream(8000.0, &over), stream(4000.0, &some), stream(2000.0, &some), stream(1000.0, &some)];
    assert_eq!(of_network(points), [Cause::BurstLoss, Cause::Policer]);
    // Two bursts beyond the limit, and none below it, are a sender that was held up; a third, or one at a low rate, is not.
    let held_up = Point { bursts: 2, solid: 2, burst_lost: 80, burst_time: 10e6, ..stream(8000.0, &over) };
    let with =
        |slower: Point| of_network(vec![held_up.clone(), slower, stream(2000.0, &[]), stream(1000.0, &[])]);
    assert_eq!(with(stream(4000.0, &[])), [Cause::Policer]);
    assert!(with(stream(4000.0, &some[..1])).contains(&Cause::BurstLoss));
    // Two outages in a fast point, and no loss in slower ones, are not a policer.
    let outages = [500..900, 2500..2900];
    let points =
        vec![stream(8000.0, &outages), stream(4000.0, &[]), stream(2000.0, &[]), stream(1000.0, &[])];
    assert!(of_network(points).iter().all(|cause| *cause == Cause::BurstLoss));
}

#[test]
fn pieces_of_the_loss_beyond_a_limit_are_no_bursts() {
    // A third is lost all the time. Six times the sender is held up: the bucket fills, ten packets pass, and for some sixty packets
    // it loses two of five. Seen on a busy machine, at 1.5 times the limit.
    let piece = |n: u64| n % 600 >= 200 && n % 600 < 280;
    let passes = |n: u64| piece(n) && (n % 600 < 210 || n % 600 >= 270);
    let lost = (0..4000u64).filter(|&n| if piece(n) { n % 5 < 2 && !passes(n) } else { n % 3 == 0 });
    let over: Vec<_> = lost.map(|n| n..n + 1).collect();
    let fast = stream(6000.0, &over);
    assert!(fast.bursts >= 5 && fast.solid == 0, "{fast:?}");
    let mut points = vec![fast; 9];
    points.extend([3000.0, 1500.0, 750.0].map(|pps| Point { sent: 400, received: 400, ..stream(pps, &[]) }));
    assert_eq!(of_network(points), [Cause::Policer]);
}

#[test]
fn bursts_that_a_full_queue_drops_are_no_outages() {
    // Packets come late all the time, and a sender that was held up makes the queue drop many in a row.
    let queued = |lost: &[std::ops::Range<u64>]| {
        let full = Point { delay: 58e6, delay_p99: 61e6, delay_at_loss: 60e6, ..stream(8000.0, lost) };
        Point { solid: full.bursts, ..full }
    };
    let some = vec![500..565, 1500..1565, 3000..3065];
    let many = (1..20).map(|n| n * 200..n * 200 + 30).collect();
    for lost in [some, many] {
        let slower = Point { spacing: 1e9 / 4500.0, ..queued(&[900..930, 2500..2540]) };
        let points = vec![queued(&lost), slower, stream(4000.0, &[]), stream(1000.0, &[])];
        assert!(points[0].bursts > 2 && points[1].bursts == 2);
        assert!(!of_network(points.clone()).contains(&Cause::BurstLoss), "{:?}", of_network(points));
    }
}

#[test]
fn bursts_of_a_sender_that_is_held_up_fill_a_queue_and_are_no_outages() {
    // Half of the time the queue is empty; when it drops packets, it is full, as it is for more than one in a hundred. At rates
    // that lose nothing, the sender fills a part of it, too.
    let filled = |pps, delay, lost: &[std::ops::Range<u64>]| Point {
        delay,
        delay_p99: 42e6,
        delay_at_loss: if lost.is_empty() { 0.0 } else { 41e6 },
        ..stream(pps, lost)
    };
    let some = [500..565, 1500..1565, 3000..3065];
    let partly = Point { delay_p99: 20e6, ..stream(2000.0, &[]) };
    let points = vec![filled(8000.0, 15e6, &some), filled(4000.0, 5e6, &some), partly, stream(1000.0, &[])];
    assert!(!of_network(points.clone()).contains(&Cause::BurstLoss), "{:?}", of_network(points));
}

#[test]
fn an_outage_at_the_end_of_a_point_is_no_firewall() {
    let points = vec![
        stream(8000.0, &[3000..4000]),
        stream(8000.0, &[0..300]),
        stream(4000.0, &[]),
        stream(2000.0, &[1000..2000]),
        stream(1000.0, &[]),
    ];
    assert_eq!(of_network(points), []);
}

#[test]
fn ports_that_lose_because_they_were_faster_are_no_polarisation() {
    let at = |flow: u16, pps, lost| Point { flow, ..lossy(pps, lost) };
    let slower = vec![at(1, 3600.0, 0), at(2, 4000.0, 70), at(3, 3990.0, 65), at(4, 3980.0, 80)];
    assert_eq!(of_network(slower), []);
    let alike = vec![at(1, 3990.0, 0), at(2, 4000.0, 70), at(3, 3980.0, 65), at(4, 3970.0, 80)];
    assert_eq!(of_network(alike), [Cause::Polarisation]);
    // One of the flows shared a link with other traffic for a moment.
    let with = |more: [u64; 4]| {
        let ports = [0, 22, 15, 10, 0, 0, 0, 0].into_iter().chain(more);
        ports.zip(1..).map(|(lost, flow)| at(flow, 4000.0, lost)).collect()
    };
    assert_eq!(of_network(with([9, 4, 0, 0])), [Cause::Polarisation]);
    assert_eq!(of_network(with([4, 4, 3, 4])), []);
}

/// A point with `lost` of 1000 packets lost, each alone.
fn damaged(pps: f64, lost: u64) -> Point {
    let received = 1000 - lost;
    Point {
        burstiness: 1.0,
        events: lost,
        passed_first: 40,
        delivered_pps: pps * received as f64 / 1000.0,
        limit_pps: pps * received as f64 / 1000.0,
        ..lossy(pps, lost)
    }
}

#[test]
fn a_limit_is_seen_through_damage_and_through_a_cut() {
    let rates = || vec![damaged(4000.0, 400), damaged(2000.0, 20), damaged(1000.0, 20), damaged(500.0, 20)];
    assert_eq!(of_network(rates()), [Cause::Policer, Cause::BitErrors]);
    let clean = |pps: f64, lost| Point { received: 1000 - lost, ..damaged(pps, lost) };
    let mut cut = vec![clean(4000.0, 400), clean(2000.0, 0), clean(1000.0, 0), clean(500.0, 0)];
    for point in &mut cut {
        // Another 500 packets are lost at the end.
        (point.sent, point.end_lost, point.longest_run) = (1500, 500, 500);
        point.burstiness = 2.0;
    }
    assert_eq!(of_network(cut), [Cause::Firewall, Cause::Policer]);
}

#[test]
fn bursts_that_lose_as_many_as_chance_takes_are_no_microburst() {
    // 3.5 % of all packets are lost: nine of ten bursts of 64 lack some. Half a percent more is chance.
    let bursts = |lost| Point { burst: 64, hit: 0.9, ..damaged(4000.0, lost) };
    let rates = |lost| vec![damaged(4000.0, 33), damaged(2000.0, 35), damaged(1000.0, 36), bursts(lost)];
    assert_eq!(of_network(rates(41)), [Cause::BitErrors]);
    assert_eq!(of_network(rates(300)), [Cause::Microburst, Cause::BitErrors]);
}

#[test]
fn a_limit_whose_bucket_is_smaller_than_a_burst_comes_before_the_burst() {
    let mut points = vec![damaged(4000.0, 130), damaged(2000.0, 0), damaged(1000.0, 0), damaged(500.0, 0)];
    points.push(Point { burst: 64, hit: 1.0, ..lossy(500.0, 700) });
    assert_eq!(of_network(points), [Cause::Policer, Cause::Microburst]);
}

/// A point of which a host lost `lost` packets, with a reader that is this busy.
fn in_host(pps: f64, lost: u64, reader_busy: f64) -> Point {
    Point { in_hosts: lost, reader_busy, ..lossy(pps, lost) }
}

#[test]
fn a_busy_reader_and_one_that_was_away_are_told_apart() {
    let named = |points: Vec<Point>, counters| {
        let (sent, received) = points.iter().fold((0, 0), |(s, r), p| (s + p.sent, r + p.received));
        let account =
            Account { sent, nic_out: Some(sent), nic_in: Some(sent), received, ..Account::default() };
        let found = diagnose(&Case { points, account, counters, ..Case::default() });
        found.findings.into_iter().map(|finding| finding.cause).collect::<Vec<_>>()
    };
    let full = |rcvbuf_errors| Counters { rcvbuf_errors, ..Counters::default() };
    let both = vec![in_host(4000.0, 300, 0.99), in_host(2000.0, 100, 0.4)];
    assert_eq!(named(both, full(400)), [Cause::Reader, Cause::SocketBuffer]);
    assert_eq!(named(vec![in_host(4000.0, 300, 0.99)], full(300)), [Cause::Reader]);
    assert_eq!(named(vec![in_host(4000.0, 300, 0.3)], full(300)), [Cause::SocketBuffer]);
    let memory = Counters { mem_errors: 300, ..Counters::default() };
    assert_eq!(named(vec![in_host(4000.0, 300, 0.99)], memory), [Cause::UdpMemory, Cause::Reader]);
}

#[test]
fn a_delay_that_changes_for_good_is_a_route_unless_a_clock_stepped() {
    let moved = |by: f64, pps| Point { floor: 1e6 + by, ..lossy(pps, 0) };
    let changed =
        vec![lossy(4000.0, 0), lossy(3900.0, 0), moved(3e6, 4000.0), moved(3e6, 2000.0), moved(3e6, 1000.0)];
    assert_eq!(of_network(changed.clone()), [Cause::RouteChange]);
    let stepped = diagnose(&Case { points: changed, clock_steps: vec![3_000_000], ..Case::default() });
    assert_eq!(stepped.findings.iter().map(|f| f.cause).collect::<Vec<_>>(), [Cause::ClockStep]);
    // After the first point, only a large change counts.
    let after_one = |by| vec![lossy(4000.0, 0), moved(by, 4000.0), moved(by, 2000.0), moved(by, 1000.0)];
    assert_eq!(of_network(after_one(12e6)), [Cause::RouteChange]);
    assert_eq!(of_network(after_one(3e5)), []);
    // At lower rates, and at the same rate from other ports.
    let port = |flow, by| Point { flow, ..moved(by, 4000.0) };
    let ports = |by, ports| {
        vec![lossy(4000.0, 0), lossy(4000.0, 0), moved(by, 1000.0), moved(by, 500.0), port(1, ports)]
    };
    assert_eq!(of_network(ports(3e6, 3e6)), [Cause::RouteChange]);
    assert_eq!(of_network(ports(3e6, 0.0)), []);
    // Before the last rate.
    let last = |by| vec![lossy(4000.0, 0), lossy(1000.0, 0), moved(3e6, 500.0), port(1, by), port(2, by)];
    assert_eq!(of_network(last(3e6)), [Cause::RouteChange]);
    assert_eq!(of_network(last(0.0)), []);
    // Later only at lower rates: a CPU that sleeps.
    let asleep = vec![lossy(4000.0, 0), lossy(3000.0, 0), moved(2e5, 1000.0), moved(2e5, 500.0)];
    assert_eq!(of_network(asleep), []);
}

/// A flow of `seconds` round trips of 20 ms, of which each loses and sends so much.
fn flow(rounds: u32, of: impl Fn(u32) -> (u32, u32)) -> tcp::Flow {
    let one = |n: u32| {
        let (lost, sent) = of(n);
        tcp::Round { at: f64::from(n) * 0.02, rtt: 0.02, window: 100.0, lost, sent, rate: 1e7 }
    };
    let seconds = f64::from(rounds) * 0.02;
    tcp::Flow {
        seconds,
        busy: seconds,
        min_rtt: 0.02,
        rounds: (0..rounds).map(one).collect(),
        ..tcp::Flow::default()
    }
}

#[test]
fn a_flow_that_only_retransmits_at_its_end_has_stalled() {
    // Retransmissions 0.2, 0.4, 0.8 s apart, after a burst that takes all.
    let again = |n: u32| u32::from([110, 130, 170].contains(&n));
    let stalled = flow(200, |n| if n < 100 { (0, 100) } else { (again(n), again(n)) });
    assert!(matches!(tcp::Pattern::of(&stalled), tcp::Pattern::Stalled { seconds } if seconds > 1.9));
    assert_eq!(tcp::diagnose(&stalled), Vec::new());
    let recovered = flow(200, |n| if (100..180).contains(&n) { (again(n), again(n)) } else { (0, 100) });
    assert!(!matches!(tcp::Pattern::of(&recovered), tcp::Pattern::Stalled { .. }));
    let idle = flow(200, |n| if n < 100 { (0, 100) } else { (0, 0) });
    assert_eq!(tcp::Pattern::of(&idle), tcp::Pattern::None, "it had nothing to send");
}

#[test]
fn a_sender_without_a_cpu_is_no_slow_application() {
    let named = |sender_busy| {
        let idle = tcp::Flow { seconds: 10.0, busy: 1.0, sender_busy, ..tcp::Flow::default() };
        tcp::diagnose(&idle).into_iter().map(|finding| finding.cause).collect::<Vec<_>>()
    };
    assert_eq!((named(0.1), named(0.95)), (vec![Cause::SlowApplication], vec![Cause::Sender]));
}

/// The batch interval of a stream with this spacing, if `held` tells when a packet of this time and this chance (0 to 1) comes; none overtakes.
fn comb(spacing: f64, held: impl Fn(f64, f64) -> f64) -> f64 {
    let (mut chance, mut last) = (1u64, 0.0f64);
    let mut arrived = Vec::new();
    for number in 0..4000 {
        chance = chance.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let sent = 1e6 + number as f64 * spacing;
        last = held(sent, (chance >> 40) as f64 / (1u64 << 24) as f64).max(last + 200.0);
        let (sent, at) = (Nanos(sent as u64), Nanos(last as u64));
        arrived.push(Arrived { number, sent, kernel: at, user: at, ttl: 0 });
    }
    Point::of(&Setting { size: 100, spacing, burst: 1, sent: 4000, ..Setting::default() }, &arrived).comb
}

#[test]
fn packets_behind_a_late_one_are_no_interrupt_moderation() {
    let late = |mean: f64| move |sent: f64, chance: f64| sent - mean * (1.0 - chance).max(1e-9).ln();
    for spacing in [5e3, 7e3, 8e3, 12e3, 24e3] {
        for mean in [8e3, 16e3, 30e3] {
            assert_eq!(comb(spacing, late(mean)), 0.0, "{spacing} {mean}");
        }
        for jitter in [30e3, 50e3, 70e3, 150e3] {
            assert_eq!(comb(spacing, |sent, chance| sent + jitter * chance), 0.0, "{spacing} {jitter}");
        }
        let timer = 6.0 * spacing;
        let found = comb(spacing, |sent, chance| (sent / timer).ceil() * timer + 300.0 * chance);
        assert!((found / timer - 1.0).abs() < 0.05, "{found} for {timer}");
    }
}
