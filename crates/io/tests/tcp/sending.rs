//! The sender: what waits, what breaks, what is refused.

use super::*;

#[test]
fn a_broken_connection_is_an_error() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let to = Endpoint::tcp(listener.local_addr().unwrap());
    let mut sender = TcpSender::open(&to, &TcpSendOptions::default()).unwrap();
    drop(listener.accept().unwrap());
    let packets = vec![sized(0, 0, 1000)];
    let error = (0..100).find_map(|_| {
        std::thread::sleep(Duration::from_millis(1));
        sender.send(&parts(&packets)).err()
    });
    let text = error.unwrap().to_string();
    assert!(text.starts_with(&format!("send to {to}: ")), "{text}");
    assert!(sender.send(&parts(&packets)).is_err());
    assert!(sender.stats().last_break.is_some());
}

#[test]
fn nobody_there_says_so() {
    let gone = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let Err(error) = TcpSender::open(&Endpoint::tcp(gone), &TcpSendOptions::default()) else {
        panic!("connected")
    };
    assert_eq!(
        error.to_string(),
        format!(
            "connect tcp://{gone}: Connection refused; hint: no receiver is listening on port {}; start the receiver first",
            gone.port()
        )
    );
}

#[test]
fn slices_of_any_number_and_length_arrive_in_order_and_are_counted() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let mut sender = sender(listener.local_addr().unwrap());
    let (mut peer, _) = listener.accept().unwrap();
    let source: Vec<u8> = (0..64 << 20).map(|i: u32| (i.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
    // A heap of 64 MiB out of 10 000 slices, one of 40 MiB; then many small packets of unequal lengths.
    let mut cuts: Vec<usize> = (0..10_000).map(|n| n * 2100 + n % 400).collect();
    cuts.extend([cuts[9_999] + (40 << 20), source.len()]);
    let heap: Vec<_> = cuts.windows(2).map(|w| IoSlice::new(&source[w[0]..w[1]])).collect();
    let packets: Vec<_> = (0..20_000)
        .flat_map(|n| [IoSlice::new(&source[..72]), IoSlice::new(&source[72..72 + n % 1500])])
        .collect();
    let join = |slices: &[IoSlice<'_>]| slices.iter().flat_map(|s| s.to_vec()).collect::<Vec<u8>>();
    let expected = [join(&heap), join(&packets), vec![]].concat();
    let stats = std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut got = Vec::with_capacity(expected.len());
            peer.read_to_end(&mut got).unwrap();
            assert!(got == expected, "{} of {} bytes", got.len(), expected.len());
        });
        let first = sender.send_slices(&heap).unwrap();
        let before = sender.stats().calls;
        let second = sender.send_slices(&packets).unwrap();
        assert_eq!(first + second, expected.len());
        assert!(sender.stats().calls - before < 5000, "small packets go in large writes");
        assert_eq!(sender.send_slices(&[]).unwrap(), 0);
        sender.send_slices(&[IoSlice::new(&[]), IoSlice::new(&[])]).unwrap();
        sender.finish().unwrap()
    });
    assert_eq!((stats.bytes, stats.taken), (expected.len() as u64, expected.len() as u64));
}

#[test]
fn a_send_that_waits_is_ended_from_another_thread() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let mut sender = sender(listener.local_addr().unwrap());
    let (mut peer, _) = listener.accept().unwrap();
    let heap = vec![7; 64 << 20];
    let flag = sender.stop_flag();
    let error = std::thread::scope(|scope| {
        let waits = scope.spawn(|| sender.send_slices(&[IoSlice::new(&heap)]).unwrap_err());
        std::thread::sleep(Duration::from_millis(50));
        flag.store(true, std::sync::atomic::Ordering::Relaxed);
        waits.join().unwrap()
    });
    assert_eq!(error.kind(), std::io::ErrorKind::ConnectionAborted);
    assert!(error.to_string().ends_with("stopped within a packet and closed; hint: reconnect"), "{error}");
    assert!(!sender.is_connected());
    let (taken, mut got) = (sender.stats().taken, Vec::new());
    peer.read_to_end(&mut got).unwrap();
    assert_eq!(
        (got.len() as u64, sender.stats().bytes),
        (taken, 0),
        "what was counted is what was on the wire"
    );
    assert!(sender.send_slices(&[]).unwrap_err().to_string().contains("hint: reconnect"));
}

#[test]
fn stopped_between_packets_the_connection_stands() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let mut sender = sender(listener.local_addr().unwrap());
    let (mut peer, _) = listener.accept().unwrap();
    let flag = sender.stop_flag();
    flag.store(true, std::sync::atomic::Ordering::Relaxed);
    let error = sender.send_slices(&[IoSlice::new(&[1, 2])]).unwrap_err();
    assert!(error.to_string().ends_with(": stopped") && sender.is_connected(), "{error}");
    flag.store(false, std::sync::atomic::Ordering::Relaxed);
    sender.send_slices(&[IoSlice::new(&[3, 4])]).unwrap();
    sender.finish().unwrap();
    let mut got = Vec::new();
    peer.read_to_end(&mut got).unwrap();
    assert_eq!(got, [3, 4]);
}

#[test]
fn a_peer_that_takes_nothing_is_given_up() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let options = TcpSendOptions { patience: Duration::from_millis(100), ..TcpSendOptions::default() };
    let mut sender = TcpSender::open(&Endpoint::tcp(listener.local_addr().unwrap()), &options).unwrap();
    let (_peer, _) = listener.accept().unwrap();
    let error = sender.send_slices(&[IoSlice::new(&vec![7; 64 << 20])]).unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::TimedOut, "{error}");
    assert_eq!((sender.stats().broken, sender.is_connected()), (1, false));
}

#[test]
fn the_address_chooses_the_congestion_control() {
    let mut source = source("tcp://127.0.0.1:0?cc=reno");
    let to = Endpoint { cc: Some("reno".into()), ..Endpoint::tcp(source.local()) };
    let mut sender = TcpSender::open(&to, &TcpSendOptions::default()).unwrap();
    assert_eq!(sender.stats().congestion, "reno");
    sender.send(&parts(&[sized(0, 0, 100)])).unwrap();
    assert_eq!(collect(&mut source, 1).len(), 1);
    let at = "tcp://127.0.0.1:0?cc=nosuch".parse().unwrap();
    let Err(error) = TcpSource::open(&at, Box::new(by_length), &TcpOptions::default()) else {
        panic!("opened")
    };
    assert!(error.to_string().contains("hint: this host lacks that congestion control: `sysctl"), "{error}");
    let to = Endpoint { cc: Some("nosuch".into()), ..Endpoint::tcp(source.local()) };
    let Err(error) = TcpSender::open(&to, &TcpSendOptions::default()) else { panic!("opened") };
    assert!(error.to_string().contains("hint: this host lacks that congestion control: `sysctl"), "{error}");
}

#[test]
fn a_connection_made_elsewhere_is_sent_over() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let stream = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    stream.set_nonblocking(true).unwrap();
    let mut sender = TcpSender::from_stream(stream, &TcpSendOptions::default()).unwrap();
    let (mut peer, _) = listener.accept().unwrap();
    let heap = vec![7; 32 << 20];
    std::thread::scope(|scope| {
        let reads = scope.spawn(|| {
            let mut got = Vec::new();
            peer.read_to_end(&mut got).map(|_| got.len()).unwrap()
        });
        assert_eq!(sender.send_slices(&[IoSlice::new(&heap)]).unwrap(), heap.len());
        sender.finish().unwrap();
        assert_eq!(reads.join().unwrap(), heap.len());
    });
}

#[test]
fn nobody_answering_says_so() {
    // With its queue full, a listener answers nobody.
    let full = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None).unwrap();
    full.bind(&SocketAddr::from(([127, 0, 0, 1], 0)).into()).unwrap();
    full.listen(0).unwrap();
    let to = full.local_addr().unwrap().as_socket().unwrap();
    let options = TcpSendOptions { patience: Duration::from_millis(50), ..TcpSendOptions::default() };
    let mut waiting = Vec::new();
    let error = (0..10).find_map(|_| match TcpSender::open(&Endpoint::tcp(to), &options) {
        Ok(sender) => {
            waiting.push(sender);
            None
        }
        Err(error) => Some(error),
    });
    let text = error.unwrap().to_string();
    assert!(
        text.starts_with(&format!("connect tcp://{to}: Connection timed out; hint: no answer: try `ping")),
        "{text}"
    );
}
