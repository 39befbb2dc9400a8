//! VSI-S: a scan recorded as the Field System does, through the port of `skyhaul serve`, and what its queries say of it.

use crate::site::{Job, Site, number, run, vdif, wait_for, words};
use rustix::process::Signal;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::time::Duration;

/// Time of the first frame: 2026y264d14h13m20s.
const SECOND: i64 = 1_790_000_000;
/// Frames in a second.
const FPS: u32 = 1000;
/// Bytes of a frame.
const FRAME_BYTES: u64 = 1032;

/// The Field System's end of a connection.
pub(crate) struct FieldSystem {
    stream: TcpStream,
}

impl FieldSystem {
    /// Sends a line, and returns the fields of its answer, the code first.
    #[track_caller]
    pub(crate) fn ask(&mut self, line: &str) -> Vec<String> {
        self.stream.write_all(format!("{line}\n").as_bytes()).unwrap();
        let mut answer = String::new();
        BufReader::new(&self.stream).read_line(&mut answer).unwrap();
        let (keyword, rest) = answer.split_once([' ']).unwrap();
        assert_eq!(keyword, format!("!{}", line.split([' ', '=', '?']).next().unwrap()), "{answer}");
        let rest = rest.trim_start_matches(['=', '?', ' ']).trim_end().trim_end_matches(" ;");
        rest.split(" : ").map(str::to_owned).collect()
    }

    #[track_caller]
    pub(crate) fn does(&mut self, line: &str) {
        assert_eq!(self.ask(line), ["0"], "{line}");
    }
}

/// A station with one input on the disks of a site, a connection to its port of VSI-S, and the port of the input.
#[track_caller]
fn serve(site: &Site) -> (Job, FieldSystem, u16) {
    serve_with(site, "")
}

/// The same, with further keys of the section of VSI-S.
#[track_caller]
pub(crate) fn serve_with(site: &Site, keys: &str) -> (Job, FieldSystem, u16) {
    let port = UdpSocket::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let mut text =
        "[station]\nlisten = '127.0.0.1:0'\nreserve = '8MiB'\n[station.vsi]\nlisten = '127.0.0.1:0'\n"
            .to_owned();
    text += keys;
    for disk in &site.disks {
        text += &format!("[[station.disk]]\npath = '{}'\nrate = '200Mbps'\n", disk.display());
    }
    text +=
        &format!("[[station.input]]\nname = 'a'\nlisten = ['udp://127.0.0.1:{port}']\nmemory = '64MiB'\n");
    let path = site.disks[0].parent().unwrap().join("station.toml");
    std::fs::write(&path, text).unwrap();
    let mut job = Job::start(&words(&format!("serve --config {}", path.display())));
    let address = wait_for("the port of VSI-S", || {
        let said = job.stderr();
        assert!(job.is_running(), "it ended: {said}");
        Some(said.split_once("VSI-S on ")?.1.split_once('\n')?.0.to_owned())
    });
    let stream = TcpStream::connect(address).unwrap();
    // What it waits for most answers.
    stream.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
    (job, FieldSystem { stream }, port)
}

#[test]
fn a_scan_is_recorded_by_a_dialogue_of_the_field_system() {
    let site = Site::new(2);
    let (job, mut fs, port) = serve(&site);
    let directory = site.disks[0].parent().unwrap().to_owned();

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
    // A client that is connected does not hold the end up. The recording whose port was taken has failed.
    job.signal(Signal::TERM);
    job.finish().expect(1);
}

/// Frames of a chunk in scans that are sent.
const CHUNK_FRAMES: u32 = 1000;

/// A FlexBuff scan of these chunks in turns on the disks, and the bytes of each.
pub(crate) fn flexbuff(site: &Site, label: &str, chunks: &[u32]) -> Vec<Vec<u8>> {
    let bytes = |chunk: &u32| {
        let frames = chunk * CHUNK_FRAMES..(chunk + 1) * CHUNK_FRAMES;
        frames.flat_map(|n| vdif(SECOND + i64::from(n / FPS), n % FPS, 0, 8000)).collect::<Vec<u8>>()
    };
    let all: Vec<Vec<u8>> = chunks.iter().map(bytes).collect();
    for (at, (chunk, bytes)) in chunks.iter().zip(&all).enumerate() {
        let directory = site.disks[at % site.disks.len()].join(label);
        std::fs::create_dir_all(&directory).unwrap();
        std::fs::write(directory.join(format!("{label}.{chunk:08}")), bytes).unwrap();
    }
    all
}

impl FieldSystem {
    /// What m5copy sends to a source of `vbs://`, up to the moment when bytes flow; `on`: the range.
    #[track_caller]
    fn m5copy(&mut self, label: &str, port: u16, on: &str) {
        self.does(&format!("net_port={port}"));
        self.does("record=mk6:0");
        self.does(&format!("scan_set={label}::"));
        assert_eq!(self.ask("scan_set?")[2], label);
        assert_eq!(self.ask("disk2net=connect:127.0.0.1"), ["1"]);
        wait_for("the connection", || (self.ask("disk2net?")[1] == "connected").then_some(()));
        self.does(&format!("disk2net=on:{on}"));
    }

    /// The end of a transfer: first byte, next byte, one past the last.
    #[track_caller]
    fn end_of_transfer(&mut self) -> [u64; 3] {
        let ended = wait_for("the end of the transfer", || {
            let state = self.ask("disk2net?");
            (state[1] == "inactive").then_some(state)
        });
        [3, 4, 5].map(|at| ended[at].parse().unwrap())
    }
}

/// Takes one connection, and returns what it brought. As jive5ab does, it sends a byte when it has read all.
fn receiver() -> (u16, std::thread::JoinHandle<Vec<u8>>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let receive = move || {
        let mut bytes = Vec::new();
        let mut stream = listener.accept().unwrap().0;
        stream.read_to_end(&mut bytes).unwrap();
        stream.write_all(&[0]).unwrap();
        bytes
    };
    (port, std::thread::spawn(receive))
}

#[test]
fn scans_are_sent_as_m5copy_asks() {
    let site = Site::new(2);
    let whole = flexbuff(&site, "n26c3_mh_no0001", &[0, 1, 2]).concat();
    let part = flexbuff(&site, "n26c3_mh_no0002", &[0, 2]);
    let (job, mut fs, _) = serve(&site);
    let size = whole.len() as u64;
    assert_eq!(fs.ask("runtime=abcdefgh:transient"), ["0", "abcdefgh"]);
    fs.does("mode=none");
    fs.does("net_protocol=tcp:4M:2M");
    wait_for("the list of scans", || (fs.ask("scan_set=n26c3_mh_no0002")[0] == "0").then_some(()));

    let (port, received) = receiver();
    fs.m5copy("n26c3_mh_no0001", port, ":");
    assert_eq!(fs.ask("disk2net?")[1], "active");
    assert_eq!(fs.end_of_transfer(), [0, size, size]);
    assert!(received.join().unwrap() == whole);
    // The rest of a file, in the middle of a frame.
    let (port, received) = receiver();
    fs.m5copy("n26c3_mh_no0001", port, "+12345678:");
    assert_eq!(fs.end_of_transfer(), [12_345_678, size, size]);
    assert!(received.join().unwrap() == whole[12_345_678..]);
    // All of it is there.
    let (port, received) = receiver();
    fs.m5copy("n26c3_mh_no0001", port, &format!("+{size}:"));
    assert_eq!(fs.end_of_transfer(), [size; 3]);
    assert!(received.join().unwrap().is_empty());
    assert_eq!(fs.ask("error?")[1], "");

    // A chunk that is missing keeps its place, and the client hears of it.
    let (port, received) = receiver();
    fs.m5copy("n26c3_mh_no0002", port, ":");
    assert_eq!(fs.end_of_transfer(), [0, size, size]);
    let fill = [0x44, 0x33, 0x22, 0x11].repeat(part[0].len() / 4);
    assert!(received.join().unwrap() == [part[0].as_slice(), fill.as_slice(), part[1].as_slice()].concat());
    assert_eq!(fs.ask("error?")[1], "1003");
    let status = site_status(&job);
    let outcomes: Vec<&str> = status.iter().map(|of| of["outcome"].as_str().unwrap()).collect();
    assert_eq!(outcomes, ["complete", "complete", "complete", "gaps"]);
    assert_eq!(
        (number(&status[3]["sent_bytes"]), number(&status[3]["filled_bytes"])),
        (size, fill.len() as u64)
    );
    // A chunk that is damaged ends it before its bytes.
    let path = site.disks[1].join("n26c3_mh_no0001/n26c3_mh_no0001.00000001");
    let mut damaged = std::fs::read(&path).unwrap();
    damaged[4_000_000..4_100_000].fill(0);
    std::fs::write(path, damaged).unwrap();
    let (port, received) = receiver();
    fs.m5copy("n26c3_mh_no0001", port, ":");
    let [_, next, _] = fs.end_of_transfer();
    let bytes = received.join().unwrap();
    assert!(next as usize == bytes.len() && bytes.len() >= part[0].len() && bytes == whole[..bytes.len()]);
    assert!(bytes.len() < 2 * part[0].len(), "{next}");
    assert!(fs.ask("error?")[2].contains("no0001"));
    job.signal(Signal::TERM);
    job.finish().expect(0);
}

/// The address of a station's HTTP API.
pub(crate) fn site_api(job: &Job) -> String {
    job.stderr().split_once("http://").unwrap().1.lines().next().unwrap().to_owned()
}

/// A list in the status of a station, by its HTTP API.
pub(crate) fn site_list(job: &Job, key: &str) -> Vec<serde_json::Value> {
    let status = run(&format!("status --station http://{} --json", site_api(job))).expect(0).json();
    status[key].as_array().unwrap().clone()
}

/// The transfers of a station, by its HTTP API.
pub(crate) fn site_status(job: &Job) -> Vec<serde_json::Value> {
    site_list(job, "transfers")
}

#[test]
fn a_transfer_to_a_bad_host_ends_and_says_so() {
    let site = Site::new(1);
    let size = flexbuff(&site, "n26c3_mh_no0001", &[0, 1, 2, 3]).concat().len() as u64;
    let (job, mut fs, _) = serve(&site);
    fs.does("net_protocol=tcp");
    wait_for("the list of scans", || (fs.ask("scan_set=n26c3_mh_no0001")[0] == "0").then_some(()));
    // Nobody listens.
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    drop(listener);
    fs.does(&format!("net_port={port}"));
    assert_eq!(fs.ask("disk2net=connect:127.0.0.1"), ["1"]);
    wait_for("the refusal", || (fs.ask("error?")[1] == "1003").then_some(()));
    assert_eq!(fs.ask("disk2net=on::")[0], "6");
    assert_eq!(fs.ask("disk2net=connect:no.such.host.invalid"), ["1"]);
    wait_for("the refusal", || (fs.ask("error?")[1] == "1003").then_some(()));

    // One that closes in the middle, one that talks, and one that closes before.
    for what in 0..3 {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let peer = std::thread::spawn(move || {
            let mut stream = listener.accept().unwrap().0;
            let mut some = vec![0; 100_000];
            match what {
                0 => stream.read_exact(&mut some).unwrap(),
                1 => {
                    stream.write_all(b"220 ready\r\n").unwrap();
                    std::io::copy(&mut stream, &mut std::io::sink()).unwrap_or(0);
                }
                _ => {}
            }
        });
        fs.does(&format!("net_port={port}"));
        fs.does("scan_set=n26c3_mh_no0001::");
        assert_eq!(fs.ask("disk2net=connect:127.0.0.1"), ["1"]);
        if what == 0 {
            wait_for("the connection", || (fs.ask("disk2net=on::")[0] == "0").then_some(()));
        }
        wait_for("the error", || (fs.ask("error?")[1] == "1003").then_some(()));
        let [_, next, end] = fs.end_of_transfer();
        assert!(next < end && end == size, "{what}: {next} of {end}");
        peer.join().unwrap();
    }

    // One that takes nothing: the client ends it.
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    fs.m5copy("n26c3_mh_no0001", listener.local_addr().unwrap().port(), ":");
    assert_eq!(fs.ask("disk2net?")[1], "active");
    let busy = fs.ask("status?");
    assert_eq!(busy, ["0", "0x00004009"]);
    fs.does("disk2net=disconnect");
    let [_, next, end] = fs.end_of_transfer();
    assert!(next < end);
    let states: Vec<String> =
        site_status(&job).iter().map(|of| of["outcome"].as_str().unwrap().to_owned()).collect();
    assert_eq!(states, ["failed", "failed", "failed", "failed", "failed", "stopped"]);
    // One that runs does not hold the end of the service up.
    fs.m5copy("n26c3_mh_no0001", listener.local_addr().unwrap().port(), ":");
    job.signal(Signal::TERM);
    job.finish().expect(0);
}

/// The Field System records a scan at a given time by the commands of a Mark 6, on the disks that VSI-S shows.
#[test]
fn a_scan_is_recorded_by_the_commands_of_a_mark_6() {
    let site = Site::new(1);
    let port = UdpSocket::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let text = format!(
        "[station]\nlisten = '127.0.0.1:0'\nreserve = '8MiB'\n[station.mark6]\nlisten = '127.0.0.1:0'\n\
         [[station.disk]]\npath = '{}'\n[[station.input]]\nname = 'a'\nlisten = ['udp://127.0.0.1:{port}']\nmemory = '64MiB'\n",
        site.disks[0].display()
    );
    let path = site.disks[0].parent().unwrap().join("station.toml");
    std::fs::write(&path, text).unwrap();
    let mut job = Job::start(&words(&format!("serve --config {}", path.display())));
    let address = wait_for("the port of a Mark 6", || {
        let said = job.stderr();
        assert!(job.is_running(), "it ended: {said}");
        Some(said.split_once("Mark 6 on ")?.1.split_once('\n')?.0.to_owned())
    });
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(9))).unwrap();
    let mut ask = |line: &str| {
        stream.write_all(format!("{line}\n").as_bytes()).unwrap();
        let mut answer = String::new();
        BufReader::new(&stream).read_line(&mut answer).unwrap();
        answer.trim_end().to_owned()
    };
    assert!(ask("dts_id?").starts_with("!dts_id?0:"));
    assert_eq!(ask("input_stream=delete"), "!input_stream=0:0;");
    assert_eq!(
        ask(&format!("input_stream=add:a:vdif:8032:50:42:eth0:127.0.0.1:{port}")),
        "!input_stream=0:0;"
    );
    assert_eq!(ask("record=on:600:0:no0001:x:mh"), "!record=0:0;");
    assert_eq!(ask("record?"), "!record?0:0:recording:1:1:x_mh_no0001;");
    crate::site::run(&format!(
        "send --pattern --payload 8000 --rate 80Mbps --duration 1s --to udp://127.0.0.1:{port}"
    ))
    .expect(0);
    assert_eq!(ask("record=off"), "!record=0:0;");
    assert_eq!(ask("record?"), "!record?0:0:off:1:1:x_mh_no0001;");
    assert!(ask("scan_check?").starts_with("!scan_check?0:0:1:x_mh_no0001:1:a:"));
    assert!(ask("mstat?all").ends_with(":open:ready:vbs;"));
    let bytes = site.run("cat x_mh_no0001").expect(0).stdout.len();
    assert!(bytes > 9_000_000, "{bytes} bytes");
    assert_eq!(ask("record=2020y001d00h00m00s:30:30:no0002:x:mh"), "!record=6:1:its end is in the past;");
    job.signal(rustix::process::Signal::TERM);
    job.finish().expect(0);
}
