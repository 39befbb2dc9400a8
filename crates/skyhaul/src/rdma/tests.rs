//! Both ends over loopback.

use super::*;
use crate::stop::StopFlag;
use skyhaul_core::pattern;
use skyhaul_core::wire::rdma::ddp::DdpTagged;
use skyhaul_core::wire::rdma::shim::UcShim;
use std::io::ErrorKind;
use std::net::UdpSocket;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

const MESSAGE: u64 = 64 << 10;
/// Payload of a datagram of 8972 bytes.
const SEGMENT: u64 = 8972 - UcShim::LEN as u64 - DdpTagged::LEN as u64;

fn options(regions: &[&str]) -> ServeOptions {
    ServeOptions {
        listen: "rdma+udp://127.0.0.1:0".parse().unwrap(),
        regions: regions.iter().map(|text| text.parse().unwrap()).collect(),
        duration: Some(Duration::from_secs(60)),
        connections: Some(1),
        sends: None,
        verify: true,
        faults: None,
        datagram_bytes: None,
        crc: None,
        tier: PlacementTier::Auto,
    }
}

/// A server that runs, and its address with this region.
fn serve(options: ServeOptions, region: &str) -> (RdmaAddress, StopFlag, JoinHandle<RdmaServeReport>) {
    let mut server = RdmaServer::open(options).unwrap();
    let address = format!("rdma+udp://{}/{region}", server.local()).parse().unwrap();
    let stop = StopFlag::default();
    let run = {
        let stop = stop.clone();
        std::thread::spawn(move || server.run(&stop, None).unwrap())
    };
    (address, stop, run)
}

fn to(address: &RdmaAddress) -> RdmaWriteOptions {
    RdmaWriteOptions {
        to: address.clone(),
        source: WriteSource::Pattern,
        message_bytes: MESSAGE,
        kind: MessageKind::Write { immediate: true },
        // So little that it fits any socket, however late the server is run.
        rate: 400_000_000,
        messages: Some(40),
        duration: None,
        deadline: Duration::from_secs(20),
        faults: None,
        datagram_bytes: Some(8972),
        crc: None,
    }
}

fn from(address: &RdmaAddress) -> RdmaReadOptions {
    RdmaReadOptions {
        from: address.clone(),
        range: None,
        how: ClientRead::new(Duration::from_secs(20)),
        faults: None,
        datagram_bytes: Some(8972),
        crc: None,
    }
}

fn write_to(options: &RdmaWriteOptions) -> std::io::Result<RdmaWriteReport> {
    write(options, &StopFlag::default(), &mut |_| {})
}

#[test]
fn what_is_written_is_there_and_verified() {
    for crc in [false, true] {
        let (address, _, run) = serve(ServeOptions { crc: Some(crc), ..options(&["vis:1MiB:write"]) }, "vis");
        let written = write_to(&to(&address)).unwrap();
        let served = run.join().unwrap();
        assert_eq!((written.messages, written.bytes), (40, 40 * MESSAGE));
        assert_eq!(written.closed_by, "here");
        assert_eq!(
            (served.complete, served.incomplete, served.lost, served.immediates),
            (40, 0, 0, 40),
            "{served:?}"
        );
        assert_eq!(served.written_bytes, 40 * MESSAGE);
        assert_eq!(served.connections[0].closed_by.as_deref(), Some("peer"));
        let verified = served.verify.unwrap();
        // The region holds sixteen messages; those before have been overwritten, or were compared in time.
        assert_eq!(verified.compared_bytes + verified.overwritten_bytes, 40 * MESSAGE);
        assert!(verified.compared_bytes >= 16 * MESSAGE);
        assert_eq!(verified.different_bytes, 0);
    }
}

#[test]
fn bytes_are_written_once_and_read_back() {
    let bytes: Vec<u8> = (0..300_001u32).map(|n| (n * 7 % 251) as u8).collect();
    let serving = ServeOptions { connections: Some(2), verify: false, ..options(&["a:512KiB:read,write"]) };
    let (address, _, run) = serve(serving, "a");
    let writing = RdmaWriteOptions {
        source: WriteSource::Bytes(bytes.clone()),
        messages: None,
        kind: MessageKind::Write { immediate: false },
        ..to(&address)
    };
    let written = write_to(&writing).unwrap();
    assert_eq!((written.messages, written.bytes), (5, 300_001));
    let mut got = vec![0; bytes.len() + 9];
    let range = Some(0..got.len() as u64);
    let mut take = |at: u64, piece: &[u8]| {
        got[at as usize..at as usize + piece.len()].copy_from_slice(piece);
        Ok(())
    };
    let report =
        read(&RdmaReadOptions { range, ..from(&address) }, &StopFlag::default(), &mut take, &mut |_| {})
            .unwrap();
    assert_eq!((report.bytes, report.missing_bytes, report.reads, report.complete), (300_010, 0, 1, 1));
    assert_eq!(&got[..bytes.len()], &bytes[..]);
    assert_eq!(got[bytes.len()..], [0; 9]);
    let served = run.join().unwrap();
    assert_eq!((served.connections.len(), served.incomplete, served.lost), (2, 0, 0));
}

/// A message that is not whole: its number, whether nothing of it arrived, what is missing, whether its immediate data arrived.
type Lacking = (u64, bool, Vec<(u64, u64)>, bool);

/// What the server must report, from the numbers of the segments that were withheld.
fn expected(lost: &[(u64, u64)], messages: u64, region: u64) -> Vec<Lacking> {
    let segments = MESSAGE.div_ceil(SEGMENT) + 1;
    let is_lost = |n: u64| lost.iter().any(|range| (range.0..range.1).contains(&n));
    let mut all = Vec::new();
    for message in 1..=messages {
        let first = (message - 1) * segments;
        let gone: Vec<bool> = (first..first + segments).map(is_lost).collect();
        let (immediate, data) = gone.split_last().unwrap();
        if !gone.contains(&true) {
            continue;
        }
        let base = (message - 1) % (region / MESSAGE) * MESSAGE;
        // Without the last segment and the immediate data, the end is not known.
        let known = if data[data.len() - 1] && *immediate {
            data.iter().rposition(|gone| !gone).map_or(0, |n| n + 1)
        } else {
            data.len()
        };
        let mut missing: Vec<(u64, u64)> = Vec::new();
        for (n, _) in data[..known].iter().enumerate().filter(|(_, gone)| **gone) {
            let (start, end) = (base + n as u64 * SEGMENT, base + MESSAGE.min((n as u64 + 1) * SEGMENT));
            match missing.last_mut() {
                Some(last) if last.1 == start => last.1 = end,
                _ => missing.push((start, end)),
            }
        }
        all.push((message, !gone.contains(&false), missing, !immediate));
    }
    all
}

#[test]
fn each_lost_segment_is_reported_as_its_range() {
    for (seed, loss) in [(1, "0.01"), (2, "0.1"), (3, "0.7"), (4, "0.97")] {
        let (address, _, run) = serve(options(&["vis:1MiB:write"]), "vis");
        let faults = Some(format!("loss={loss},seed={seed}").parse().unwrap());
        let written = write_to(&RdmaWriteOptions { faults, ..to(&address) }).unwrap();
        let served = run.join().unwrap();
        assert_eq!(served.datagrams.kernel_drops, 0, "this host was too late");
        assert!(written.datagrams.lost_on_purpose > 0);
        assert_eq!(served.datagrams_lost, written.datagrams.lost_on_purpose, "loss {loss}");
        let mut reported: Vec<Lacking> = Vec::new();
        for loss in &served.losses {
            for message in loss.messages.0..loss.messages.1 {
                reported.push((message, loss.whole, loss.missing.clone(), loss.immediate));
            }
        }
        reported.sort();
        let lost = &written.datagrams.lost_on_purpose_ranges;
        assert_eq!(reported, expected(lost, 40, 1 << 20), "loss {loss}");
        assert_eq!(served.verify.unwrap().different_bytes, 0);
    }
}

/// Of a message whose immediate data alone arrived, nobody knows the place: no bytes of the region are named.
#[test]
fn immediate_data_alone_names_no_bytes_of_the_region() {
    let (address, _, run) = serve(options(&["vis:1MiB:write"]), "vis");
    let faults = Some("loss=0.5,seed=5".parse().unwrap());
    let written = write_to(&RdmaWriteOptions { faults, message_bytes: 4096, ..to(&address) }).unwrap();
    let served = run.join().unwrap();
    assert_eq!(served.datagrams.kernel_drops, 0, "this host was too late");
    let lost = written.datagrams.lost_on_purpose_ranges;
    let is_lost = |n: u64| lost.iter().any(|range| (range.0..range.1).contains(&n));
    // A message is one segment of bytes, and the immediate data.
    let alone = |message: &u64| is_lost(2 * message - 2) && !is_lost(2 * message - 1);
    let expected: Vec<u64> = (1..=40).filter(alone).collect();
    let mut reported = Vec::new();
    for loss in served.losses.iter().filter(|loss| !loss.in_region) {
        assert_eq!((&loss.missing[..], loss.immediate), (&[(0, 4096)][..], true));
        reported.push(loss.messages.0);
    }
    reported.sort_unstable();
    assert!(!expected.is_empty());
    assert_eq!(reported, expected);
}

#[test]
fn duplicates_and_late_segments_are_counted_and_harmless() {
    let (address, _, run) = serve(options(&["vis:1MiB:write"]), "vis");
    let faults = Some("duplicate=0.1,reorder=16,seed=5".parse().unwrap());
    let written = write_to(&RdmaWriteOptions { faults, ..to(&address) }).unwrap();
    let served = run.join().unwrap();
    assert_eq!(served.datagrams.kernel_drops, 0, "this host was too late");
    assert!(written.datagrams.duplicated_on_purpose > 0);
    assert_eq!(
        served.datagrams.refused_total(),
        written.datagrams.duplicated_on_purpose,
        "{:?}",
        served.datagrams
    );
    assert_eq!((served.complete, served.incomplete, served.lost), (40, 0, 0));
    assert_eq!(served.verify.unwrap().different_bytes, 0);
}

/// Several Writes to the same bytes come in one train, which the kernel's program walks from its end.
#[test]
fn of_writes_to_the_same_bytes_the_last_stays() {
    const BYTES: u64 = 4096;
    for n in 0..5 {
        let (address, stop, run) =
            serve(ServeOptions { connections: Some(2), ..options(&["w:4KiB:read,write"]) }, "w");
        let written = write_to(&RdmaWriteOptions {
            message_bytes: BYTES,
            kind: MessageKind::Write { immediate: false },
            messages: Some(1000 + n),
            ..to(&address)
        });
        assert_eq!(written.unwrap().messages, 1000 + n);
        let mut got = Vec::new();
        let mut take = |_: u64, piece: &[u8]| {
            got.extend_from_slice(piece);
            Ok(())
        };
        read(&from(&address), &StopFlag::default(), &mut take, &mut |_| {}).unwrap();
        stop.stop();
        let served = run.join().unwrap();
        assert_eq!((served.lost, served.verify.unwrap().different_bytes), (0, 0));
        let last = pattern::slice(memory::pattern_object(1000 + n), 0, BYTES as usize);
        let is_of =
            |message: &u64| got == pattern::slice(memory::pattern_object(*message), 0, BYTES as usize);
        assert!(got == last, "not of message {}, but of {:?}", 1000 + n, (1..1000 + n).rfind(is_of));
    }
}

#[test]
fn what_a_read_lacks_is_asked_for_again() {
    let region = 3 << 20;
    let mut server = RdmaServer::open(ServeOptions { verify: false, ..options(&["a:3MiB:read"]) }).unwrap();
    let mut content = vec![0; region];
    pattern::fill(9, 0, &mut content);
    server.place("a", 0, &content);
    let address: RdmaAddress = format!("rdma+udp://{}/a", server.local()).parse().unwrap();
    let run = std::thread::spawn(move || server.run(&StopFlag::default(), None).unwrap());
    let mut got = Vec::new();
    let mut take = |at: u64, piece: &[u8]| {
        assert_eq!(at, got.len() as u64, "in order");
        got.extend_from_slice(piece);
        Ok(())
    };
    let reading = RdmaReadOptions {
        range: Some(500..region as u64 - 500),
        faults: Some("loss=0.1,seed=3".parse().unwrap()),
        ..from(&address)
    };
    let report = read(&reading, &StopFlag::default(), &mut take, &mut |_| {}).unwrap();
    assert_eq!((report.missing_bytes, report.complete, report.reads), (0, 3, 3), "{report:?}");
    assert!(
        report.requests > 3 && report.datagrams.arrivals_lost_on_purpose > 0,
        "nothing was lost: {report:?}"
    );
    assert_eq!(got, content[500..region - 500]);
    run.join().unwrap();
}

/// Reads from a peer that is gone as soon as the connection is made; returns the time from there to the end of the call.
fn read_of_nobody(deadline: Duration) -> Duration {
    let mut server = RdmaServer::open(ServeOptions { verify: false, ..options(&["a:64KiB:read"]) }).unwrap();
    let address: RdmaAddress = format!("rdma+udp://{}/a", server.local()).parse().unwrap();
    let run = std::thread::spawn(move || {
        while server.is_empty() {
            server.turn(Duration::from_millis(5)).unwrap();
        }
        Instant::now()
    });
    let reading = RdmaReadOptions { how: ClientRead::new(deadline), ..from(&address) };
    let mut zeros = true;
    let mut take = |_: u64, piece: &[u8]| {
        zeros &= piece.iter().all(|byte| *byte == 0);
        Ok(())
    };
    let report = read(&reading, &StopFlag::default(), &mut take, &mut |_| {}).unwrap();
    let ended = Instant::now();
    assert!(report.missing_bytes > 0, "{report:?}");
    assert!(report.closed_by == "silence" || report.closed_by == "here", "{report:?}");
    assert!(zeros, "what did not arrive is zero");
    ended - run.join().unwrap()
}

#[test]
fn reads_of_a_peer_that_is_gone_end_by_their_deadline() {
    let deadline = Duration::from_millis(300);
    let times = || (0..10).map(|_| read_of_nobody(deadline));
    // A call that had no CPU says nothing of the others.
    assert!(times().any(|time| time < deadline + Duration::from_millis(50)), "each waited past its deadline");
}

#[test]
fn an_interrupt_ends_reads_before_their_deadline() {
    let (address, stop, run) =
        serve(ServeOptions { verify: false, connections: None, ..options(&["a:64MiB:read"]) }, "a");
    // Half of what arrives is lost, so no piece of a megabyte is whole for long.
    let faults = Some("loss=0.5,seed=4".parse().unwrap());
    let reading =
        RdmaReadOptions { faults, how: ClientRead::new(Duration::from_secs(3600)), ..from(&address) };
    let interrupt = StopFlag::default();
    let mut taken = 0;
    let mut take = |at: u64, piece: &[u8]| {
        assert_eq!(at, taken);
        taken += piece.len() as u64;
        // The last pieces were not asked for yet, however fast this host is.
        interrupt.stop();
        Ok(())
    };
    let report = std::thread::scope(|scope| {
        scope.spawn(|| {
            std::thread::sleep(Duration::from_millis(300));
            interrupt.stop();
        });
        read(&reading, &interrupt, &mut take, &mut |_| {})
    });
    // Half of the handshake is lost as well: it may take longer than that.
    match report {
        Ok(report) => {
            assert!(report.interrupted, "{report:?}");
            assert_eq!(report.bytes + report.missing_bytes, 64 << 20);
            assert!(taken < 64 << 20);
        }
        Err(error) => assert_eq!(error.kind(), ErrorKind::Interrupted),
    }
    stop.stop();
    run.join().unwrap();
}

#[test]
fn what_a_peer_may_not_do_is_refused() {
    let (address, stop, run) =
        serve(ServeOptions { connections: None, ..options(&["a:1MiB:read", "b:1MiB:write"]) }, "a");
    let kind = |result: std::io::Result<RdmaWriteReport>| result.unwrap_err().kind();
    assert_eq!(kind(write_to(&to(&address))), ErrorKind::PermissionDenied);
    let unknown = RdmaAddress { region: Some("c".into()), ..address.clone() };
    assert_eq!(kind(write_to(&to(&unknown))), ErrorKind::ConnectionRefused);
    let none = RdmaAddress { region: None, ..address.clone() };
    assert_eq!(kind(write_to(&to(&none))), ErrorKind::InvalidInput);
    let b = RdmaAddress { region: Some("b".into()), ..address.clone() };
    assert_eq!(
        kind(write_to(&RdmaWriteOptions { message_bytes: 2 << 20, ..to(&b) })),
        ErrorKind::InvalidInput
    );
    let reading = |address: &RdmaAddress, range| {
        let options = RdmaReadOptions { range, ..from(address) };
        read(&options, &StopFlag::default(), &mut |_, _| Ok(()), &mut |_| {}).unwrap_err().kind()
    };
    assert_eq!(reading(&b, None), ErrorKind::PermissionDenied);
    assert_eq!(reading(&address, Some(0..(1 << 20) + 1)), ErrorKind::InvalidInput);
    stop.stop();
    let served = run.join().unwrap();
    assert_eq!((served.requested, served.rejected), (5, 1));
    assert_eq!((served.complete, served.written_bytes), (0, 0));
}

#[test]
fn strangers_get_no_state_and_no_answer_longer_than_their_question() {
    let (address, stop, run) = serve(options(&["a:64KiB:read,write"]), "a");
    let stranger = UdpSocket::bind("127.0.0.1:0").unwrap();
    stranger.set_nonblocking(true).unwrap();
    let (mut state, mut sent, mut answered, mut longest) = (1u64, 0u64, 0u64, 0);
    for n in 0..3000usize {
        let mut bytes = vec![0; 1 + n % 300];
        pattern::noise(&mut state, &mut bytes);
        // Some look like the shim: version, then anything.
        if n % 3 == 0 && bytes.len() > 4 {
            bytes[0] = 0x10 | bytes[0] & 0xF;
        }
        stranger.send_to(&bytes, address.endpoint.address).unwrap();
        sent += 1;
        let mut answer = [0; 2048];
        while let Ok(length) = stranger.recv(&mut answer) {
            answered += 1;
            longest = longest.max(length);
        }
    }
    // An honest peer beside them.
    let written = write_to(&RdmaWriteOptions { message_bytes: 4096, ..to(&address) }).unwrap();
    assert_eq!(written.closed_by, "here");
    let served = run.join().unwrap();
    drop(stop);
    let drops = served.datagrams.kernel_drops;
    assert!(drops == 0, "this host was too late");
    assert!(served.datagrams.refused_total() + answered >= sent, "{:?}", served.datagrams);
    assert!(longest <= 300, "{longest}");
    assert_eq!((served.connections.len(), served.complete), (1, 40));
    assert_eq!(served.verify.unwrap().different_bytes, 0);
}

/// Short Reads, many at a time, are one range in order; those that are lost are asked for again.
#[test]
fn many_reads_are_under_way_at_a_time() {
    let content: Vec<u8> = (0..1_000_001u32).map(|n| (n * 7 % 251) as u8).collect();
    let mut server = RdmaServer::open(ServeOptions { verify: false, ..options(&["a:1MiB:read"]) }).unwrap();
    server.place("a", 0, &content);
    let address: RdmaAddress = format!("rdma+udp://{}/a", server.local()).parse().unwrap();
    let run = std::thread::spawn(move || server.run(&StopFlag::default(), None).unwrap());
    let mut got = Vec::new();
    let mut take = |at: u64, piece: &[u8]| {
        assert_eq!(at, got.len() as u64, "in order");
        got.extend_from_slice(piece);
        Ok(())
    };
    let how =
        ClientRead { message_bytes: 3000, outstanding: 200, ..ClientRead::new(Duration::from_secs(20)) };
    let faults = Some("loss=0.05,seed=3".parse().unwrap());
    let reading = RdmaReadOptions { range: Some(0..content.len() as u64), how, faults, ..from(&address) };
    let report = read(&reading, &StopFlag::default(), &mut take, &mut |_| {}).unwrap();
    assert_eq!((report.missing_bytes, report.reads, report.complete), (0, 334, 334), "{report:?}");
    assert!(report.requests > 334 && report.datagrams.arrivals_lost_on_purpose > 0, "{report:?}");
    assert!(got == content);
    run.join().unwrap();
}

#[test]
fn reads_out_of_bounds_are_refused_before_a_connection_is_made() {
    let address = "rdma+udp://127.0.0.1:9/a".parse().unwrap();
    let whole = ClientRead::new(Duration::from_secs(1));
    for how in [
        ClientRead { message_bytes: 0, ..whole },
        ClientRead { message_bytes: MAX_READ_BYTES + 1, ..whole },
        ClientRead { outstanding: 0, ..whole },
        ClientRead { outstanding: MAX_OUTSTANDING + 1, ..whole },
        ClientRead { message_bytes: 4 << 20, outstanding: 65, ..whole },
    ] {
        let reading = RdmaReadOptions { how, ..from(&address) };
        let refused = read(&reading, &StopFlag::default(), &mut |_, _| Ok(()), &mut |_| {}).unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::InvalidInput, "{how:?}");
    }
}

/// A server to which nothing comes sleeps until something does, whatever carries its segments.
#[test]
fn an_idle_server_sleeps() {
    let idle = |listen: &str, tier| {
        let options = ServeOptions {
            duration: Some(Duration::from_secs(3)),
            tier,
            ..ServeOptions::new(listen.parse().unwrap(), vec!["a:4KiB:read,write".parse().unwrap()])
        };
        std::thread::spawn(move || {
            let mut server = RdmaServer::open(options).unwrap();
            server.run(&StopFlag::default(), None).unwrap().voluntary_switches
        })
    };
    let runs = [
        idle("rdma+udp://127.0.0.1:0", PlacementTier::Stage),
        idle("rdma+udp://127.0.0.1:0", PlacementTier::Auto),
        idle("rdma+tcp://127.0.0.1:0", PlacementTier::Stage),
    ];
    let switches = runs.map(|run| run.join().unwrap());
    assert!(switches.iter().all(|count| *count <= 10), "{switches:?}");
}

/// A server that sleeps is ended by what comes or is due. A time of its own it has only if somebody looks at what is there meanwhile.
#[test]
fn a_sleeping_server_has_no_clock_that_nobody_looks_at() {
    let server = |listen: &str, verify| {
        let listen = listen.parse().unwrap();
        let regions = vec!["a:4KiB:read,write".parse().unwrap()];
        RdmaServer::open(ServeOptions { verify, ..ServeOptions::new(listen, regions) }).unwrap()
    };
    let (udp, tcp, second) = ("rdma+udp://127.0.0.1:0", "rdma+tcp://127.0.0.1:0", Duration::from_secs(1));
    let mut plain = server(udp, false);
    assert_eq!(plain.longest_wait(None), Duration::from_millis(20), "it has just begun");
    plain.turn(Duration::ZERO).unwrap();
    assert_eq!(plain.longest_wait(None), Duration::from_secs(10));
    let ms = Duration::from_millis;
    assert_eq!([0, 300, 1200].map(|shown| plain.longest_wait(Some(ms(shown)))), [second, ms(700), ms(0)]);
    plain.list_messages();
    assert_eq!(plain.longest_wait(None), second, "a program takes its messages");
    for (listen, verify) in [(udp, true), (tcp, false)] {
        let mut server = server(listen, verify);
        server.turn(Duration::ZERO).unwrap();
        assert_eq!(server.longest_wait(None), second, "{listen}, verify {verify}");
    }
}
