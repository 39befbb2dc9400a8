//! A station's outcome of a recording is the verdict of `check`, and so are the answers of its port of a Mark 6.

use crate::serve::{FPS, SECOND, Serving};
use crate::site::{Site, number, numbered, run, vdif, wait_for};
use skyhaul::wire::Order;
use std::io::{BufRead, BufReader, Write};
use std::net::{TcpStream, UdpSocket};
use std::time::Duration;

/// Frame numbers of the stream: 3 s.
const TICKS: u64 = 3000;
/// Bytes of a frame.
const FRAME_BYTES: u64 = 1032;

/// A connection to a port that the service has named.
fn connect(serving: &Serving, name: &str) -> TcpStream {
    let address = wait_for(name, || {
        let said = serving.job.stderr();
        Some(said.split_once(name)?.1.split_once('\n')?.0.to_owned())
    });
    let stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(9))).unwrap();
    stream
}

fn ask(mut stream: &TcpStream, line: &str) -> Vec<String> {
    stream.write_all(format!("{line}\n").as_bytes()).unwrap();
    let mut answer = String::new();
    BufReader::new(stream).read_line(&mut answer).unwrap();
    answer.trim_end().trim_end_matches(';').split(':').map(|field| field.trim().to_owned()).collect()
}

/// Two threads behind sequence numbers, without the frames that `is_sent` denies; the data time differs by `by` seconds from tick 1500 on.
fn stream(by: i64, is_sent: impl Fn(u64, u16) -> bool) -> Vec<Vec<u8>> {
    let all = (0..TICKS).flat_map(|tick| [(tick, 0), (tick, 1)]);
    let sent = all.filter(|&(tick, thread)| is_sent(tick, thread)).enumerate();
    let packet = |(place, (tick, thread)): (usize, (u64, u16))| {
        let second = SECOND + (tick / u64::from(FPS)) as i64 + if tick >= 1500 { by } else { 0 };
        let frame = vdif(second, (tick % u64::from(FPS)) as u32, thread, FRAME_BYTES as usize - 32);
        numbered(place as u64, Order::Little, &frame)
    };
    sent.map(packet).collect()
}

#[test]
fn a_station_says_what_check_says_of_a_jump_a_lost_thread_and_a_late_one() {
    let doors = "[station.mark6]\nlisten = '127.0.0.1:0'\n[station.vsi]\nlisten = '127.0.0.1:0'";
    let serving = Serving::start(Site::new(1), doors);
    let (mark6, vsi) = (connect(&serving, "Mark 6 on "), connect(&serving, "VSI-S on "));
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    // Name, stream, exit code and verdict of `check`, outcome, and frames that are missing, if they can be counted.
    let cases = [
        ("regular", stream(0, |_, _| true), (0, "whole", "complete"), Some(0)),
        ("jump", stream(5, |_, _| true), (1, "irregular", "irregular"), Some(10_000)),
        ("back", stream(-1, |_, _| true), (1, "irregular", "irregular"), None),
        (
            "lost",
            stream(0, |tick, thread| thread == 0 || tick < 1800),
            (1, "irregular", "irregular"),
            Some(1200),
        ),
        ("late", stream(0, |tick, thread| thread == 0 || tick >= 1200), (0, "holes", "gaps"), Some(1200)),
    ];
    for (name, packets, (code, verdict, outcome), missing) in cases {
        serving.call(&format!("station start {name} --input a")).expect(0);
        socket.connect(("127.0.0.1", serving.ports[0])).unwrap();
        for (n, packet) in packets.iter().enumerate() {
            socket.send(packet).unwrap();
            if n % 20 == 19 {
                std::thread::sleep(Duration::from_millis(1));
            }
        }
        let stopped = serving.call(&format!("station stop {name}")).expect(i32::from(outcome == "irregular"));
        let recording = stopped.json();
        assert_eq!((number(&recording["lost_frames"]), number(&recording["kernel_drops"])), (0, 0));
        let check = serving.site.run(&format!("check {name} --json")).expect(code).json();
        assert_eq!(check["verdict"], verdict, "{check}");
        assert_eq!(recording["outcome"], outcome, "{name}: {recording}");
        assert_eq!(recording["reason"].is_string(), outcome == "irregular", "{name}: {recording}");
        let (scanned, checked) = (ask(&mark6, "scan_check?"), {
            ask(&vsi, &format!("scan_set={name}"));
            ask(&vsi, "scan_check?")
        });
        let (status, bytes) = match missing {
            None => ("unk", "?".to_owned()),
            Some(0) => ("OK", "0".to_owned()),
            Some(frames) => ("missing", (frames * FRAME_BYTES).to_string()),
        };
        assert_eq!(scanned.get(3).map(String::as_str), Some(name), "{scanned:?}");
        assert_eq!(scanned[6], status, "{name}: {scanned:?}");
        assert_eq!(scanned.last(), Some(&bytes), "{name}: {scanned:?}");
        assert_eq!(checked[checked.len() - 2], bytes, "{name}: {checked:?}");
    }
    assert!(serving.metrics().contains("skyhaul_station_recordings_irregular_total 3"));
    assert!(serving.metrics().contains("skyhaul_station_recordings_faulty_total 0"));
}

/// Frames at the end of a second that are lost before the frame rate is known are not counted, and every view says so.
#[test]
fn losses_that_are_a_lower_bound_are_shown_as_one() {
    let serving = Serving::start(Site::new(1), "");
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    serving.call("station start bound --input a").expect(0);
    socket.connect(("127.0.0.1", serving.ports[0])).unwrap();
    for (n, packet) in stream(0, |tick, _| !(990..1000).contains(&tick) && tick != 500).iter().enumerate() {
        // Without the sequence number.
        socket.send(&packet[8..]).unwrap();
        if n % 20 == 19 {
            std::thread::sleep(Duration::from_millis(1));
        }
    }
    let said = wait_for("the loss", || {
        let said = run(&format!("status --station http://{}", serving.api)).told();
        said.contains(" lost").then_some(said)
    });
    assert!(said.contains(", at least 2 frames lost"), "{said}");
    assert!(serving.metrics().contains("skyhaul_station_lost_is_lower_bound{input=\"a\",scan=\"bound\"} 1"));
    let recording = serving.call("station stop bound").expect(0).json();
    assert_eq!(
        (number(&recording["lost_frames"]), &recording["lost_is_lower_bound"]),
        (2, &true.into()),
        "{recording}"
    );
}
