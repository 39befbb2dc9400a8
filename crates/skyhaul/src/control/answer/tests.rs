use super::*;
use skyhaul_io::address::Endpoint;
use skyhaul_io::udp::UdpOptions;
use std::net::UdpSocket;

fn feedback() -> (FeedbackSender, UdpSocket, SocketAddr) {
    let at: Endpoint = "udp://127.0.0.1:0".parse().unwrap();
    let source = UdpSource::open(&at, &UdpOptions::default()).unwrap();
    let asker = UdpSocket::bind("127.0.0.1:0").unwrap();
    asker.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
    let address = asker.local_addr().unwrap();
    (FeedbackSender::new(source.replier().unwrap(), Arc::default()), asker, address)
}

fn mark(session: u64, sequence: u32, packets: u64) -> Vec<u8> {
    Mark { session, sequence, packets, bytes: packets * 1000, time: 5, ..Mark::default() }.octets().to_vec()
}

fn train<'a>(bytes: &'a [u8], stride: usize, sender: &'a SocketAddr) -> Train<'a> {
    Train { bytes, stride, sender, time: None, dropped: 1, hops: None }
}

fn sift(feedback: &mut FeedbackSender, train: &Train<'_>) -> Vec<(usize, u32)> {
    let mut handed = Vec::new();
    let count = feedback.sift(train, &mut |train| handed.push((train.bytes.len(), train.dropped)));
    assert_eq!(count, handed.iter().map(|(bytes, _)| bytes.div_ceil(train.stride.max(1))).sum::<usize>());
    std::thread::sleep(2 * MIN_INTERVAL);
    handed
}

fn report(asker: &UdpSocket) -> Report {
    let mut bytes = [0; 2048];
    let length = asker.recv(&mut bytes).unwrap();
    match feedback::read(&bytes[..length]) {
        Ok(Message::Report(report)) => report,
        other => panic!("{other:?}"),
    }
}

#[test]
fn marks_are_answered_and_taken_out_wherever_they_are_in_a_train() {
    let (mut feedback, asker, address) = feedback();
    assert_eq!(sift(&mut feedback, &train(&mark(7, 0, 0), 128, &address)), []);
    assert_eq!(report(&asker).echo.packets, 0);
    // The kernel appended a mark to three packets.
    let bytes = [vec![0x53; 3000], mark(7, 1, 3)].concat();
    assert_eq!(sift(&mut feedback, &train(&bytes, 1000, &address)), [(3000, 1)]);
    let answer = report(&asker);
    assert_eq!((answer.echo.session, answer.echo.mark, answer.echo.mark_packets), (7, 1, 3));
    assert_eq!((answer.echo.packets, answer.echo.bytes, answer.state.kernel_drops), (3, 3000, 2));
    // Packets as long as marks, a mark in the midst.
    let bytes = [vec![0x53; 256], mark(7, 2, 5), vec![0x53; 200]].concat();
    assert_eq!(sift(&mut feedback, &train(&bytes, 128, &address)), [(256, 1), (200, 0)]);
    assert_eq!(report(&asker).echo.packets, 5);
    assert_eq!(sift(&mut feedback, &train(&mark(7, 3, 9), 128, &address)), []);
    assert_eq!(report(&asker).echo.packets, 7);
    assert_eq!(feedback.stats().reports, 4);
}

#[test]
fn a_group_is_not_answered_for() {
    let at: Endpoint = "udp://239.192.77.9:0?iface=lo".parse().unwrap();
    let source = UdpSource::open(&at, &UdpOptions::default()).unwrap();
    let error = Answering::new(source, Arc::default()).err().unwrap();
    assert_eq!(error.kind(), io::ErrorKind::InvalidInput);
    assert!(error.to_string().contains("group udp://239.192.77.9:"), "{error}");
    assert!(error.to_string().contains("hint: listen on an address of this host"), "{error}");
}

/// Every field of a gauge is reported; a field that is never set would wrongly report that all is well.
#[test]
fn reports_tell_what_the_gauge_has() {
    let (mut feedback, asker, address) = feedback();
    let gauge =
        Gauge { no_block: 40.into(), no_memory: 3.into(), ring_full: 5.into(), ring_fill: 2000.into() };
    feedback.gauge = Arc::new(gauge);
    sift(&mut feedback, &train(&mark(7, 0, 0), 128, &address));
    let state = report(&asker).state;
    assert_eq!((state.no_memory, state.ring_full, state.ring_fill), (43, 5, 1000));
    assert_eq!((state.kernel_drops, state.reserved, state.reserved_b), (1, 0, 0));
}

#[test]
fn a_new_session_counts_from_nothing_and_strangers_get_no_answer() {
    let (mut feedback, asker, address) = feedback();
    let stranger = SocketAddr::from(([127, 0, 0, 1], 9));
    for session in [7, 8] {
        sift(&mut feedback, &train(&mark(session, 0, 0), 128, &address));
        assert_eq!(report(&asker).echo.packets, 0);
        assert_eq!(sift(&mut feedback, &train(&[0x53; 900], 1000, &address)), [(900, 1)]);
        assert_eq!(sift(&mut feedback, &train(&[0x53; 900], 1000, &stranger)), [(900, 1)]);
        sift(&mut feedback, &train(&mark(session, 1, 1), 128, &address));
        assert_eq!(report(&asker).echo.packets, 1);
    }
    let mut broken = mark(8, 2, 2);
    broken[20] ^= 1;
    sift(&mut feedback, &train(&broken, 128, &address));
    let stats = feedback.stats();
    assert_eq!((stats.senders, stats.marks, stats.refused), (1, 4, 1));
}

#[test]
fn more_askers_than_there_is_room_for_are_counted() {
    let (mut feedback, _asker, _) = feedback();
    for port in 1..=SENDERS as u16 + 3 {
        let address = SocketAddr::from(([127, 0, 0, 1], port));
        feedback.sift(&train(&mark(7, 0, 0), 128, &address), &mut |_| panic!("nothing is left"));
    }
    assert_eq!((feedback.stats().senders, feedback.stats().too_many), (SENDERS, 3));
}

#[test]
fn marks_too_close_are_not_all_answered() {
    let (mut feedback, asker, address) = feedback();
    let bytes = [mark(7, 0, 0), mark(7, 1, 0), mark(7, 2, 0)].concat();
    feedback.sift(&train(&bytes, 128, &address), &mut |_| panic!("nothing is left"));
    assert_eq!(report(&asker).echo.mark, 0);
    assert!(feedback.stats().reports < 3);
}
