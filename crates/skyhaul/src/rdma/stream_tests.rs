//! Both ends over TCP on loopback, and ends that are no ends.

use super::*;
use crate::stop::StopFlag;
use skyhaul_core::wire::rdma::ddp::DdpHeader;
use skyhaul_core::wire::rdma::mpa::{Connect, fpdu, frame_length, unframed};
use skyhaul_core::wire::rdma::rdmap::{RdmapOpcode, ReadRequest};
use std::io::{ErrorKind, Read as _, Write as _};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

const MESSAGE: u64 = 64 << 10;

fn options(connections: u64) -> ServeOptions {
    ServeOptions {
        connections: Some(connections),
        duration: Some(Duration::from_secs(60)),
        verify: true,
        ..ServeOptions::new(
            "rdma+tcp://127.0.0.1:0".parse().unwrap(),
            vec!["vis:1MiB:read,write".parse().unwrap()],
        )
    }
}

fn serve(options: ServeOptions) -> (RdmaAddress, JoinHandle<RdmaServeReport>) {
    let mut server = RdmaServer::open(options).unwrap();
    let address = server.address(Some("vis"));
    (address, std::thread::spawn(move || server.run(&StopFlag::default(), None).unwrap()))
}

fn to(address: &RdmaAddress) -> RdmaWriteOptions {
    RdmaWriteOptions {
        to: address.clone(),
        source: WriteSource::Pattern,
        message_bytes: MESSAGE,
        kind: MessageKind::Write { immediate: true },
        rate: 0,
        messages: Some(100),
        duration: None,
        deadline: Duration::from_secs(20),
        faults: None,
        datagram_bytes: None,
        crc: None,
    }
}

fn from(address: &RdmaAddress) -> RdmaReadOptions {
    RdmaReadOptions {
        from: address.clone(),
        range: None,
        how: ClientRead::new(Duration::from_secs(20)),
        faults: None,
        datagram_bytes: None,
        crc: None,
    }
}

fn write_to(options: &RdmaWriteOptions) -> std::io::Result<RdmaWriteReport> {
    write(options, &StopFlag::default(), &mut |_| {})
}

#[test]
fn what_is_written_to_a_stream_is_there_and_verified() {
    // Frames of the path, and short ones, whose lengths need pads.
    for datagram_bytes in [None, Some(1001)] {
        let (address, run) = serve(options(1));
        let written = write_to(&RdmaWriteOptions { datagram_bytes, ..to(&address) }).unwrap();
        let served = run.join().unwrap();
        assert_eq!((written.messages, written.bytes, &written.closed_by[..]), (100, 100 * MESSAGE, "here"));
        assert_eq!((&written.profile[..], &served.profile[..]), ("tcp", "tcp"));
        assert!(written.to.starts_with("rdma+tcp://127.0.0.1:"), "{}", written.to);
        assert_eq!(
            (served.complete, served.incomplete, served.lost, served.immediates, served.read_requests),
            (100, 0, 0, 100, 0),
            "{served:?}"
        );
        assert_eq!(served.written_bytes, 100 * MESSAGE);
        // All that one end handed out has arrived at the other, its request too.
        assert_eq!(served.datagrams.arrived, written.datagrams.handed_out);
        assert_eq!(
            (served.datagrams.refused_total(), written.datagrams.unsent, written.datagrams.waiting),
            (0, 0, 0)
        );
        assert_eq!(served.connections[0].closed_by.as_deref(), Some("peer"));
        let verified = served.verify.unwrap();
        assert_eq!(verified.compared_bytes + verified.overwritten_bytes, 100 * MESSAGE);
        assert!(verified.compared_bytes >= 16 * MESSAGE, "{verified:?}");
        assert_eq!(verified.different_bytes, 0);
    }
}

#[test]
fn two_at_once_write_and_one_reads_back() {
    let serving = ServeOptions { verify: false, ..options(3) };
    let (address, run) = serve(serving);
    let bytes: Vec<u8> = (0..900_001u32).map(|n| (n * 7 % 251) as u8).collect();
    let writing = RdmaWriteOptions {
        source: WriteSource::Bytes(bytes.clone()),
        messages: None,
        kind: MessageKind::Write { immediate: false },
        ..to(&address)
    };
    let both =
        [writing.clone(), writing].map(|options| std::thread::spawn(move || write_to(&options).unwrap()));
    for one in both {
        assert_eq!(one.join().unwrap().closed_by, "here");
    }
    let mut got = Vec::new();
    let mut take = |_: u64, piece: &[u8]| {
        got.extend_from_slice(piece);
        Ok(())
    };
    let report = read(&from(&address), &StopFlag::default(), &mut take, &mut |_| {}).unwrap();
    assert_eq!((report.bytes, report.missing_bytes, report.complete), (1 << 20, 0, 1));
    assert_eq!((report.requests, &report.closed_by[..], &report.profile[..]), (1, "here", "tcp"));
    assert!(got[..bytes.len()] == bytes[..] && got[bytes.len()..].iter().all(|byte| *byte == 0));
    let served = run.join().unwrap();
    assert_eq!((served.connections.len(), served.incomplete, served.read_requests), (3, 0, 1));
}

#[test]
fn a_program_writes_and_is_given_the_immediate_data_behind_the_write() {
    let listen = "rdma+tcp://127.0.0.1:0".parse().unwrap();
    let service =
        RdmaService::start(ServeOptions::new(listen, vec!["vis:4KiB:read,write".parse().unwrap()]), 16)
            .unwrap();
    let to = service.address("vis");
    let options = RdmaClientOptions { to, arriving: None, leaving: None, datagram_bytes: None, crc: None };
    let (client, stop) = (RdmaClient::connect(options, &StopFlag::default()).unwrap(), StopFlag::default());
    let how = ClientWrite { offset: 100, message_bytes: 4096, immediate: true, rate: 0 };
    client.write(Arc::new(*b"visibilities"), &how, &stop).unwrap();
    let message = service.get(Some(Duration::from_secs(20))).unwrap();
    let one = std::slice::from_ref(&(100..112));
    assert_eq!((&message.valid[..], message.is_complete, message.immediate), (one, true, None));
    let behind = service.get(Some(Duration::from_secs(20))).unwrap();
    assert_eq!((behind.messages, behind.in_region, behind.immediate), (0..0, false, Some(1)));
    let mut got = Vec::new();
    client
        .read(102..106, &ClientRead::new(Duration::from_secs(20)), &stop, &mut |_, bytes| {
            got.extend_from_slice(bytes);
            Ok(())
        })
        .unwrap();
    assert_eq!(got, b"sibi");
    assert_eq!(client.close().unwrap().closed_by.as_deref(), Some("here"));
    assert_eq!(service.stop().unwrap().connections[0].closed_by.as_deref(), Some("peer"));
}

#[test]
fn what_does_not_make_sense_in_a_stream_is_refused_by_name() {
    let faults: skyhaul_io::fault::Faults = "loss=0.1,seed=1".parse().unwrap();
    for (serving, said) in [
        (ServeOptions { faults: Some(faults), ..options(1) }, "--faults"),
        (ServeOptions { tier: PlacementTier::Bpf, ..options(1) }, "--tier bpf"),
    ] {
        let error = RdmaServer::open(serving).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidInput);
        assert!(error.to_string().contains(said), "{error}");
    }
    let (address, run) = serve(ServeOptions { tier: PlacementTier::Auto, ..options(1) });
    let error = write_to(&RdmaWriteOptions { faults: Some(faults), ..to(&address) }).unwrap_err();
    assert!(error.to_string().contains("--faults"), "{error}");
    write_to(&to(&address)).unwrap();
    let placing = run.join().unwrap().placing;
    assert!(placing.starts_with("stage: ") && placing.contains("stream"), "{placing}");
}

/// A connection by hand, accepted, and the STag of the region.
fn by_hand(at: SocketAddr) -> (TcpStream, [u8; 4]) {
    let mut stream = TcpStream::connect(at).unwrap();
    stream.write_all(&Connect { private: b"vis".to_vec(), ..Connect::request() }.write()).unwrap();
    // An accept of revision 1: twenty bytes, and 13 that describe the region.
    let mut reply = [0; 33];
    stream.read_exact(&mut reply).unwrap();
    (stream, reply[20..24].try_into().unwrap())
}

/// A peer that has asked for all that it wants ends its half, and reads late. 64 MiB are more than the kernel holds.
#[test]
fn a_peer_that_ends_its_half_gets_all_answers() {
    const READS: u32 = 64;
    let (address, run) = serve(ServeOptions { verify: false, ..options(1) });
    let (mut stream, stag) = by_hand(address.endpoint.address);
    for n in 1..=READS {
        let request = ReadRequest {
            sink_stag: n,
            sink_offset: 0,
            size: 1 << 20,
            source_stag: u32::from_be_bytes(stag),
            source_offset: 0,
        };
        let head = DdpHeader::untagged(RdmapOpcode::ReadRequest, true, n, 0).write();
        stream.write_all(&fpdu(&[&head[..], &request.write()].concat()).unwrap()).unwrap();
    }
    stream.shutdown(Shutdown::Write).unwrap();
    // Longer than one that is being closed is waited for.
    std::thread::sleep(Duration::from_millis(1500));
    let mut all = Vec::new();
    stream.read_to_end(&mut all).unwrap();
    let (mut rest, mut payload, mut ends) = (&all[..], 0, 0);
    while !rest.is_empty() {
        let length = frame_length(false, rest).unwrap().expect("a whole frame");
        let (segment, _) = unframed(&rest[..length]).unwrap().unwrap();
        // Behind DDP, and a last segment has the highest bit but one.
        payload += segment.len() - 14;
        ends += u32::from(segment[0] & 0x40 != 0);
        rest = &rest[length..];
    }
    assert_eq!((payload, ends), ((READS as usize) << 20, READS));
    let served = run.join().unwrap();
    assert_eq!(served.connections[0].closed_by.as_deref(), Some("peer"));
    assert_eq!((served.read_requests, served.datagrams.unsent, served.datagrams.waiting), (64, 0, 0));
}

#[test]
fn garbage_and_halves_of_frames_end_their_own_connection_and_no_other() {
    let (address, run) = serve(options(3));
    let at = address.endpoint.address;
    let mut garbage = TcpStream::connect(at).unwrap();
    garbage.write_all(b"GET / HTTP/1.1\r\n\r\n").unwrap();
    assert_eq!(garbage.read(&mut [0; 64]).unwrap(), 0, "garbage has no answer");
    // One that ends in the middle of a frame, and one whose frame has a wrong CRC.
    let (mut half, _) = by_hand(at);
    half.write_all(&[0, 40, 1, 2, 3]).unwrap();
    half.shutdown(Shutdown::Write).unwrap();
    let mut rest = Vec::new();
    half.read_to_end(&mut rest).unwrap();
    let (mut broken, _) = by_hand(at);
    broken.write_all(&[0, 2, 1, 2, 9, 9, 9, 9]).unwrap();
    let mut terminate = Vec::new();
    broken.read_to_end(&mut terminate).unwrap();
    // Behind length, DDP and RDMAP headers: layer 2 (LLP), type 0 (MPA), code 2 (CRC error).
    assert_eq!(terminate[20..22], [0x20, 0x02], "{terminate:?}");
    assert_eq!(write_to(&to(&address)).unwrap().closed_by, "here");
    let served = run.join().unwrap();
    let ends: Vec<&str> = served.connections.iter().filter_map(|one| one.closed_by.as_deref()).collect();
    assert_eq!(ends, ["broken", "broken", "peer"]);
    let refused = &served.datagrams.refused;
    assert_eq!(served.datagrams.refused_total(), 3, "{refused:?}");
    assert_eq!((served.complete, served.verify.unwrap().different_bytes), (100, 0));
}

#[test]
fn a_server_that_is_none_is_named() {
    // It accepts the connection, and sends something that is not a reply.
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address: RdmaAddress = format!("rdma+tcp://{}/vis", listener.local_addr().unwrap()).parse().unwrap();
    let other = std::thread::spawn(move || {
        let mut stream = listener.accept().unwrap().0;
        stream.write_all(b"220 mail.example ESMTP\r\n").unwrap();
        let mut all = Vec::new();
        // It may be reset.
        let _ = stream.read_to_end(&mut all);
    });
    let error = write_to(&to(&address)).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::ConnectionReset, "{error}");
    assert!(error.to_string().contains("broken"), "{error}");
    other.join().unwrap();
    // Now nobody listens there.
    assert_eq!(write_to(&to(&address)).unwrap_err().kind(), ErrorKind::ConnectionRefused);
}

/// The server's queue is full: no connection is made, and Ctrl-C ends the attempt.
#[test]
fn an_interrupt_while_it_connects_ends_it() {
    let full = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None).unwrap();
    full.bind(&SocketAddr::from(([127, 0, 0, 1], 0)).into()).unwrap();
    full.listen(0).unwrap();
    let at = full.local_addr().unwrap().as_socket().unwrap();
    let _first = TcpStream::connect(at).unwrap();
    let stop = StopFlag::default();
    stop.stop();
    let options = to(&format!("rdma+tcp://{at}/vis").parse().unwrap());
    let error = write(&options, &stop, &mut |_| {}).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Interrupted, "{error}");
    assert!(error.to_string().contains(&at.to_string()), "{error}");
}
