//! Servers and connections as programs use them.

use super::*;
use crate::receive::keyed::GetError;
use crate::stop::StopFlag;
use skyhaul_core::pattern;
use std::io::ErrorKind;
use std::sync::Arc;
use std::time::Duration;

const SOON: Duration = Duration::from_secs(20);

fn service(regions: &[&str]) -> RdmaService {
    let regions = regions.iter().map(|text| text.parse().unwrap()).collect();
    RdmaService::start(ServeOptions::new("rdma+udp://127.0.0.1:0".parse().unwrap(), regions), 1024).unwrap()
}

fn client(service: &RdmaService, region: &str, faults: [Option<&str>; 2]) -> RdmaClient {
    let [leaving, arriving] = faults.map(|text| text.map(|text| text.parse().unwrap()));
    let to = format!("rdma+udp://{}/{region}", service.local()).parse().unwrap();
    let options = RdmaClientOptions { to, arriving, leaving, datagram_bytes: Some(1472), crc: None };
    RdmaClient::connect(options, &StopFlag::default()).unwrap()
}

fn noise(bytes: usize) -> Vec<u8> {
    let mut all = vec![0; bytes];
    pattern::noise(&mut 5, &mut all);
    all
}

/// Rated, so that it fits any socket, however late the server is run.
const HOW: ClientWrite = ClientWrite { offset: 0, message_bytes: 20_000, immediate: true, rate: 200_000_000 };

#[test]
fn messages_come_with_what_arrived_of_them() {
    let service = service(&["other:4KiB:read", "vis:1MiB:write"]);
    let client = client(&service, "vis", [Some("loss=0.2,seed=4"), None]);
    let (bytes, stop) = (noise(400_000), StopFlag::default());
    for offset in [100, 600_000] {
        client.write(Arc::new(bytes.clone()), &ClientWrite { offset, ..HOW }, &stop).unwrap();
    }
    let written = client.close().unwrap();
    assert_eq!((written.messages, written.bytes, written.closed_by.as_deref()), (40, 800_000, Some("here")));
    let served = service.stop().unwrap();
    assert_eq!(served.datagrams.kernel_drops, 0, "this host was too late");
    let (mut numbers, mut complete, mut arrived) = (0, 0, 0);
    loop {
        let message = match service.get(Some(SOON)) {
            Ok(message) => message,
            Err(why) => break assert_eq!(why, GetError::Stopped),
        };
        assert_eq!((message.region, message.connection), (1, 1));
        numbers += message.messages.end - message.messages.start;
        complete += u64::from(message.is_complete);
        assert!(!message.is_complete || message.missing.is_empty(), "{message:?}");
        let n = message.messages.start - 1;
        let base = [100, 600_000][(n / 20) as usize];
        for range in &message.valid {
            let mut there = vec![0; (range.end - range.start) as usize];
            service.regions()[1].1.copy(range.start, &mut there);
            assert_eq!(there, bytes[(range.start - base) as usize..(range.end - base) as usize]);
            arrived += range.end - range.start;
        }
    }
    assert!(served.incomplete > 0 && served.complete > 0, "{served:?}");
    assert_eq!((numbers, complete, arrived), (40, served.complete, served.written_bytes));
    assert_eq!((served.datagrams_lost, service.not_queued()), (written.datagrams.lost_on_purpose, 0));
}

#[test]
fn a_connection_writes_and_reads_many_times_and_stays_open() {
    let service = service(&["vis:1MiB:read,write"]);
    let (client, stop) = (client(&service, "vis", [None; 2]), StopFlag::default());
    assert_eq!((client.region_bytes(), client.rights().read), (1 << 20, true));
    for (turn, length) in [(0u64, 1000usize), (1, 50_000), (2, 3)] {
        let bytes = noise(length);
        let offset = turn * 300_001;
        client.write(Arc::new(bytes.clone()), &ClientWrite { offset, ..HOW }, &stop).unwrap();
        while !service.get(Some(SOON)).unwrap().messages.contains(&client.report().unwrap().messages) {}
        let mut got = Vec::new();
        let mut take = |_: u64, piece: &[u8]| {
            got.extend_from_slice(piece);
            Ok(())
        };
        let report =
            client.read(offset..offset + length as u64, &ClientRead::new(SOON), &stop, &mut take).unwrap();
        assert_eq!((report.missing_bytes, got), (0, bytes));
    }
    // Longer than a peer may be silent.
    std::thread::sleep(Duration::from_millis(4500));
    client.write(Arc::new(noise(9)), &HOW, &stop).unwrap();
    assert!(service.get(Some(SOON)).unwrap().is_complete);
    let kind =
        |offset| client.write(Arc::new(noise(9)), &ClientWrite { offset, ..HOW }, &stop).unwrap_err().kind();
    assert_eq!((kind((1 << 20) - 8), kind(u64::MAX)), (ErrorKind::InvalidInput, ErrorKind::InvalidInput));
    let last = client.close().unwrap();
    assert_eq!((last.messages, last.reads, last.read_bytes), (6, 3, 51_003));
    assert_eq!(kind(0), ErrorKind::NotConnected);
    assert_eq!(service.report().unwrap().complete, 6);
}

#[test]
fn a_read_that_was_interrupted_disturbs_no_later_one() {
    const BYTES: u64 = 32 << 20;
    let service = service(&["vis:32MiB:read"]);
    let bytes = noise(BYTES as usize);
    service.regions()[0].1.place(0, &bytes);
    // So much is lost that nothing is whole at once.
    let client = client(&service, "vis", [None, Some("loss=0.3,seed=9")]);
    for _ in 0..3 {
        // With the first piece: the next are under way, and the last were not asked for.
        let interrupted = StopFlag::default();
        let mut stop = |_: u64, _: &[u8]| {
            interrupted.stop();
            Ok(())
        };
        let report = client
            .read(0..BYTES, &ClientRead::new(Duration::from_secs(60)), &interrupted, &mut stop)
            .unwrap();
        assert!(report.interrupted, "{report:?}");
        let mut got = Vec::new();
        let mut take = |_: u64, piece: &[u8]| {
            got.extend_from_slice(piece);
            Ok(())
        };
        let report = client
            .read(1_000_000..1_010_000, &ClientRead::new(SOON), &StopFlag::default(), &mut take)
            .unwrap();
        assert_eq!((report.missing_bytes, &got[..]), (0, &bytes[1_000_000..1_010_000]));
    }
    client.close().unwrap();
}

#[test]
fn a_peer_that_is_gone_ends_the_connection() {
    let service = service(&["vis:1MiB:read,write"]);
    let (client, stop) = (client(&service, "vis", [None; 2]), StopFlag::default());
    service.stop().unwrap();
    let ended = client.write(Arc::new(noise(9)), &HOW, &stop).unwrap_err();
    assert_eq!(ended.kind(), ErrorKind::ConnectionReset, "{ended}");
    assert_eq!(client.close().unwrap().closed_by.as_deref(), Some("peer"));
    // The memory is there as long as somebody has it.
    let memory = service.regions()[0].1.clone();
    drop(service);
    memory.place(0, &[1]);
}
