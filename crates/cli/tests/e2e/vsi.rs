//! VSI-S: a scan recorded as the Field System does, through the port of `skyhaul serve`, and what its queries say of it.

use crate::site::{Job, Site, number, run, vdif, wait_for, words};
use rustix::process::Signal;
use std::io::{BufRead, BufReader, Write};
use std::net::{TcpStream, UdpSocket};
use std::time::Duration;

/// Time of the first frame: 2026y264d14h13m20s.
const SECOND: i64 = 1_790_000_000;
/// Frames in a second.
const FPS: u32 = 1000;
/// Bytes of a frame.
const FRAME_BYTES: u64 = 1032;

/// The Field System's end of a connection.
struct FieldSystem {
    stream: TcpStream,
}

impl FieldSystem {
    /// Sends a line, and returns the fields of its answer, the code first.
    #[track_caller]
    fn ask(&mut self, line: &str) -> Vec<String> {
        self.stream.write_all(format!("{line}\n").as_bytes()).unwrap();
        let mut answer = String::new();
        BufReader::new(&self.stream).read_line(&mut answer).unwrap();
        let (keyword, rest) = answer.split_once([' ']).unwrap();
        assert_eq!(keyword, format!("!{}", line.split([' ', '=', '?']).next().unwrap()), "{answer}");
        let rest = rest.trim_start_matches(['=', '?', ' ']).trim_end().trim_end_matches(" ;");
        rest.split(" : ").map(str::to_owned).collect()
    }

    #[track_caller]
    fn does(&mut self, line: &str) {
        assert_eq!(self.ask(line), ["0"], "{line}");
    }
}

#[test]
fn a_scan_is_recorded_by_a_dialogue_of_the_field_system() {
    let site = Site::new(2);
    let port = UdpSocket::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let mut text =
        "[station]\nlisten = '127.0.0.1:0'\nreserve = '8MiB'\n[station.vsi]\nlisten = '127.0.0.1:0'\n"
            .to_owned();
    for disk in &site.disks {
        text += &format!("[[station.disk]]\npath = '{}'\nrate = '200Mbps'\n", disk.display());
    }
    text +=
        &format!("[[station.input]]\nname = 'a'\nlisten = ['udp://127.0.0.1:{port}']\nmemory = '64MiB'\n");
    let directory = site.disks[0].parent().unwrap().to_owned();
    std::fs::write(directory.join("station.toml"), text).unwrap();
    let mut job = Job::start(&words(&format!("serve --config {}", directory.join("station.toml").display())));
    let address = wait_for("the port of VSI-S", || {
        let said = job.stderr();
        assert!(job.is_running(), "it ended: {said}");
        Some(said.split_once("VSI-S on ")?.1.split_once('\n')?.0.to_owned())
    });
    let stream = TcpStream::connect(address).unwrap();
    // What it waits for most answers.
    stream.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
    let mut fs = FieldSystem { stream };

    fs.does("mode = VDIF_1000-8-1-2 ;");
    fs.does("mtu = 9000 ;");
    fs.does("net_protocol = udpsnor : 32000000 : 256000000 : 4 ;");
    fs.does("record = nthread : : 2 ;");
    assert_eq!(fs.ask("net_port?"), ["0".to_owned(), format!("127.0.0.1@{port}")]);
    // A port that no input has is opened; another program has this one.
    let taken = UdpSocket::bind("127.0.0.1:0").unwrap();
    fs.does(&format!("net_port = {}", taken.local_addr().unwrap().port()));
    assert_eq!(fs.ask("record=on:n26c3_mh_no0001")[0], "4", "the port is taken");
    assert_eq!(fs.ask("status?")[1..3], ["0x00000003", "1001"]);
    assert_eq!(fs.ask("error?")[1], "1001");
    fs.does(&format!("net_port = 10.9.8.7@{port}"));
    assert_eq!(fs.ask("record=on:n26c3_mh_no0001")[0], "6", "the input listens on another address");
    // The mode's rate is reserved: more than the disk has is refused.
    fs.does(&format!("net_port = {port}"));
    fs.does("mode = VDIF_1000-800-1-2 ;");
    let slow = fs.ask("record=on:n26c3_mh_no0001");
    assert!(slow[0] == "4" && slow[1].contains("the disks are too slow"), "{slow:?}");
    while fs.ask("error?").get(1).is_some_and(|number| number == "1001") {}
    fs.does("mode = VDIF_1000-8-1-2 ;");
    // This one is free: the input listens there for this recording.
    let port = UdpSocket::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    fs.does(&format!("net_port = {port}"));

    fs.does("record=on:n26c3_mh_no0001");
    assert_eq!(fs.ask("record?")[..4], ["0", "on", "1", "n26c3_mh_no0001"]);
    assert_eq!(fs.ask("status?"), ["0", "0x00000049"]);
    assert_eq!(fs.ask("mode=none")[0], "6");
    let frames: Vec<u8> =
        (0..4000).flat_map(|n| vdif(SECOND + i64::from(n / FPS), n % FPS, 0, 1000)).collect();
    std::fs::write(directory.join("frames"), frames).unwrap();
    let input = directory.join("frames");
    run(&format!(
        "send --input {} --rate 24Mbps --faults loss=0.01,seed=7 --to udp://127.0.0.1:{port}",
        input.display()
    ))
    .expect(0);
    fs.does("record=off");

    // What was received and lost, by the check of the files.
    let ledger = site.run("check n26c3_mh_no0001 --json").expect(0).json()["ledger"].clone();
    let (received, lost) = (number(&ledger["received"]), number(&ledger["never_received"]));
    assert!(received > 3000 && lost > 0, "{ledger}");
    let evlbi = fs.ask("evlbi?");
    assert_eq!(evlbi[..2], ["0", "total"]);
    assert_eq!(evlbi[2].parse::<u64>().unwrap(), received, "{evlbi:?}");
    assert!(evlbi[4].starts_with(&format!("{lost} (")), "{evlbi:?}");
    let check = fs.ask("scan_check?");
    let length = (received + lost) as f64 / f64::from(FPS);
    let expected = ["0", "1", "n26c3_mh_no0001", "VDIF", "2", "", "", "4Mbps", "", "1032"];
    for (at, expected) in expected.iter().enumerate().filter(|(_, expected)| !expected.is_empty()) {
        assert_eq!(check[at], *expected, "{check:?}");
    }
    assert!(check[5].starts_with("2026y264d14h13m20."), "{check:?}");
    let seconds: f64 = check[6].strip_suffix('s').unwrap().parse().unwrap();
    assert!((seconds - length).abs() < 1e-4, "{check:?}: {length} s");
    assert_eq!(check[8].parse::<u64>().unwrap(), lost * FRAME_BYTES, "{check:?}");
    assert_eq!(fs.ask("status?"), ["0", "0x00000001"]);

    // The same label again has a letter; it receives nothing.
    fs.does("record=on:n26c3_mh_no0001");
    assert_eq!(fs.ask("record?")[..4], ["0", "on", "2", "n26c3_mh_no0001a"]);
    fs.does("record=off");
    fs.does("scan_set=no0001:+1s:+1s");
    let set = fs.ask("scan_set?");
    assert_eq!(set[..3], ["0", "1", "n26c3_mh_no0001"]);
    let range: Vec<u64> = set[3..].iter().map(|text| text.parse().unwrap()).collect();
    assert_eq!(range, [1000 * FRAME_BYTES, 2000 * FRAME_BYTES]);
    // A client that is connected does not hold the end up.
    job.signal(Signal::TERM);
    job.finish().expect(0);
}
