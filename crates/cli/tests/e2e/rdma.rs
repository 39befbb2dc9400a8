//! Memory that is served, written and read over UDP and TCP.

use crate::site::{Job, number, ranges, run, sum, wait_for, words};
use rustix::process::Signal;
use serde_json::Value;
use std::time::Duration;

/// A server with this line, and its address.
#[track_caller]
fn serve(line: &str) -> (Job, String) {
    listening(Job::start(&words(&format!("rdma serve --listen rdma+udp://127.0.0.1:0 --json {line}"))))
}

fn lost_on_purpose(report: &Value) -> u64 {
    number(&report["datagrams"]["lost_on_purpose"])
}

#[test]
fn what_is_lost_is_named_and_what_is_there_is_verified() {
    let (job, address) = serve("--region vis:4MiB:read,write --verify");
    // A part of what any socket holds, however late the server is run.
    let line = "--pattern --imm --message 64KiB --messages 32 --rate 200Mbps --packet 8972 --json";
    let written = run(&format!("rdma write {address} {line} --faults loss=0.05,seed=7")).expect(0).json();
    assert!(lost_on_purpose(&written) > 0, "{written}");
    let part = tempfile::tempdir().unwrap();
    let file = part.path().join("part.bin");
    let read = run(&format!(
        "rdma read {address} --range 1000..1MiB --deadline 20s --faults loss=0.05,seed=3 --json --output {}",
        file.display()
    ));
    let read = read.expect(0).json();
    assert_eq!((number(&read["bytes"]), number(&read["missing_bytes"])), ((1 << 20) - 1000, 0));
    assert_eq!(std::fs::metadata(&file).unwrap().len(), (1 << 20) - 1000);
    job.signal(Signal::INT);
    let served = job.finish().expect(0).json();
    assert_eq!(number(&served["datagrams"]["kernel_drops"]), 0, "this host was too late");
    assert_eq!(number(&served["datagrams_lost"]), lost_on_purpose(&written), "{served}");
    assert_eq!(number(&served["complete"]) + number(&served["incomplete"]) + number(&served["lost"]), 32);
    let verify = &served["verify"];
    assert_eq!(
        number(&verify["compared_bytes"]) + number(&verify["overwritten_bytes"]),
        number(&served["written_bytes"])
    );
    assert_eq!(number(&verify["different_bytes"]), 0);
    let missing: u64 = served["losses"]
        .as_array()
        .unwrap()
        .iter()
        .map(|loss| ranges(&loss["missing"]).iter().map(|(from, to)| to - from).sum::<u64>())
        .sum();
    assert!(missing > 0 && missing + number(&served["written_bytes"]) <= 32 * 65_536, "{served}");
    assert_eq!(sum(&served["connections"], "written_bytes"), number(&served["written_bytes"]));
}

#[test]
fn a_file_is_written_and_read_back() {
    let place = tempfile::tempdir().unwrap();
    let [from, to] = ["from", "to"].map(|name| place.path().join(name));
    let bytes: Vec<u8> = (0..700_001u32).map(|n| (n / 3 % 251) as u8).collect();
    std::fs::write(&from, &bytes).unwrap();
    let (job, address) = serve("--region a:1MiB:read,write --connections 2");
    run(&format!("rdma write {address} --input {} --rate 200Mbps --json", from.display())).expect(0);
    run(&format!("rdma read {address} --range 0..700001B --deadline 20s --output {}", to.display()))
        .expect(0);
    assert!(std::fs::read(&to).unwrap() == bytes, "it is another file");
    let served = job.finish().expect(0).json();
    assert_eq!(number(&served["written_bytes"]), 700_001);
}

/// Messages of a few KiB, many at a time: the same bytes as in Reads of a megabyte.
#[test]
fn a_range_is_read_in_short_messages() {
    let place = tempfile::tempdir().unwrap();
    let [from, to] = ["from", "to"].map(|name| place.path().join(name));
    let bytes: Vec<u8> = (0..700_001u32).map(|n| (n / 3 % 251) as u8).collect();
    std::fs::write(&from, &bytes).unwrap();
    let (job, address) = serve("--region a:1MiB:read,write --connections 2");
    run(&format!("rdma write {address} --input {} --rate 200Mbps --json", from.display())).expect(0);
    let line = "--range 0..700001B --message 4KiB --outstanding 64 --deadline 20s --json";
    let read = run(&format!("rdma read {address} {line} --output {}", to.display())).expect(0).json();
    assert_eq!((number(&read["reads"]), number(&read["complete"])), (171, 171), "{read}");
    assert!(std::fs::read(&to).unwrap() == bytes, "it is another file");
    job.finish().expect(0);
    let refused = run("rdma read rdma+udp://127.0.0.1:9/a --message 16MiB --outstanding 17").expect(2);
    assert!(refused.said().contains("expected at most 268435456 bytes at a time"), "{}", refused.said());
}

#[test]
fn a_peer_that_is_killed_stops_nobody() {
    let (job, address) = serve("--region a:1MiB:read,write --verify");
    let line = format!("rdma write {address} --pattern --message 8KiB --rate 20Mbps --json");
    let killed = Job::start(&words(&line));
    wait_for("the server to have a connection", || {
        let other =
            run(&format!("rdma write {address} --pattern --message 4KiB --messages 1 --json")).expect(0);
        (number(&other.json()["messages"]) == 1).then_some(())
    });
    std::thread::sleep(std::time::Duration::from_millis(300));
    killed.signal(Signal::KILL);
    killed.finish();
    // The next peer writes and reads as if nothing had been.
    let line = "--pattern --message 64KiB --messages 8 --rate 200Mbps --json";
    assert_eq!(run(&format!("rdma write {address} {line}")).expect(0).json()["closed_by"], "here");
    run(&format!("rdma read {address} --deadline 20s --json")).expect(0);
    job.signal(Signal::INT);
    let served = job.finish().expect(0).json();
    let ends: Vec<&str> = served["connections"]
        .as_array()
        .unwrap()
        .iter()
        .filter_map(|one| one["closed_by"].as_str())
        .collect();
    assert!(ends.iter().filter(|end| **end == "peer").count() >= 3, "{ends:?}");
    assert_eq!(number(&served["verify"]["different_bytes"]), 0);
}

#[test]
fn a_server_that_is_killed_ends_its_peers() {
    let (job, address) = serve("--region a:8MiB:read,write");
    let writer = Job::start(&words(&format!("rdma write {address} --pattern --rate 20Mbps --json")));
    let reader =
        Job::start(&words(&format!("rdma read {address} --deadline 200ms --faults loss=0.5,seed=1 --json")));
    std::thread::sleep(std::time::Duration::from_millis(1500));
    job.signal(Signal::KILL);
    job.finish();
    let written = writer.finish().expect(1).json();
    assert_eq!(written["closed_by"], "silence");
    let read = reader.finish();
    // It may have been whole before.
    if read.code == Some(1) {
        let report = read.json();
        assert_eq!(number(&report["bytes"]) + number(&report["missing_bytes"]), 8 << 20);
    }
}

#[test]
fn what_cannot_be_done_is_said() {
    let (job, address) = serve("--region a:1MiB:read");
    let other = address.replace("/a", "/b");
    for (line, said) in [
        (format!("write {address} --pattern --messages 1"), "may not be written"),
        (format!("write {other} --pattern --messages 1"), "rejected"),
        (format!("write {address} --pattern"), "needs a rate"),
        (format!("read {address} --range 0..2MiB"), "does not lie in the region"),
        (format!("read {address} --range 5..5"), "an empty range"),
        (format!("read {address} --output /dev/full"), "write /dev/full"),
        (format!("write {address} --input /dev/zero"), "/dev/zero"),
        ("read udp://127.0.0.1:7/a".to_owned(), "rdma+udp://"),
        ("serve --listen rdma+udp://127.0.0.1:0 --region a:1MiB:run".to_owned(), "is no right"),
    ] {
        let done = run(&format!("rdma {line}")).expect(2);
        assert!(done.said().contains(said), "{line}: {}", done.said());
    }
    job.signal(Signal::TERM);
    let served = job.finish().expect(0).json();
    // A peer that gives up closes its connection, so none ends by a time-out.
    for one in served["connections"].as_array().unwrap() {
        assert_eq!(one["closed_by"], "peer", "{served}");
    }
}

/// What a server of this tier reports of a writer of these datagrams with these faults, and the bytes of its region. The server knows their
/// length, and so has the program before they come, however busy the host is.
fn served((tier, mib): (&str, u32), host: &str, packet: u32, line: &str) -> (Value, Value, Vec<u8>) {
    let words = words(&format!(
        "rdma serve --listen rdma+udp://{host}:0 --json --region vis:{mib}MiB:read,write --verify --tier {tier} --packet {packet}"
    ));
    let (job, address) = listening(Job::start(&words));
    let written =
        run(&format!("rdma write {address} --pattern --json --packet {packet} {line}")).expect(0).json();
    let place = tempfile::tempdir().unwrap();
    let file = place.path().join("region");
    run(&format!("rdma read {address} --deadline 20s --output {}", file.display())).expect(0);
    job.signal(Signal::INT);
    let served = job.finish().expect(0).json();
    assert_eq!(number(&served["datagrams"]["kernel_drops"]), 0, "this host was too late: {served}");
    assert_eq!(number(&served["verify"]["different_bytes"]), 0, "{served}");
    (served, written, std::fs::read(file).unwrap())
}

/// A job that says where it listens.
#[track_caller]
pub(crate) fn listening(mut job: Job) -> (Job, String) {
    let address = wait_for("the server to listen", || {
        let said = job.stderr();
        let found = said.lines().find_map(|line| Some(line.split_once(" at ")?.1.to_owned()));
        assert!(found.is_some() || job.is_running(), "it ended: {said}");
        found
    });
    (job, address)
}

/// Whether the kernel may place here; if not, what is missing is said.
fn may_place() -> bool {
    let done =
        run("rdma serve --listen rdma+udp://127.0.0.1:0 --region a:1MiB:write --tier bpf --duration 1ms");
    if done.code == Some(2) && done.said().contains("(forbidden)") {
        // Loading a program needs CAP_BPF; what the command says names it.
        eprintln!("SKIPPED: {}", done.said());
        return false;
    }
    done.expect(0);
    true
}

#[test]
fn the_kernel_and_this_process_place_the_same() {
    if !may_place() {
        return;
    }
    for (host, line) in [
        ("127.0.0.1", "--imm --faults loss=0.001,seed=5"),
        ("127.0.0.1", "--faults loss=0.01,seed=6"),
        ("[::1]", "--imm --faults loss=0.03,seed=7"),
        ("[::1]", "--faults loss=0.1,seed=8"),
        ("127.0.0.1", "--imm --faults loss=0.02,duplicate=0.03,seed=9"),
        ("127.0.0.1", "--faults loss=0.01,duplicate=0.02,reorder=8,seed=10"),
    ] {
        let line = format!("--message 60KiB --messages 150 --rate 400Mbps {line}");
        let (by_stage, written, bytes) = served(("stage", 4), host, 3000, &line);
        let (by_kernel, again, same) = served(("bpf", 4), host, 3000, &line);
        for field in
            ["segments_sent", "lost_on_purpose_ranges", "duplicated_on_purpose", "reordered_on_purpose"]
        {
            assert_eq!(written["datagrams"][field], again["datagrams"][field], "the same was sent: {field}");
        }
        assert!(bytes == same, "{host} {line}: other bytes");
        for field in
            ["complete", "incomplete", "lost", "losses", "written_bytes", "datagrams_lost", "immediates"]
        {
            assert_eq!(by_stage[field], by_kernel[field], "{host} {line}: {field}");
        }
        let [one, other] = [&by_stage, &by_kernel].map(|report| &report["datagrams"]);
        // Control is not compared: requests are repeated while a server is slow.
        for field in ["placed", "placed_bytes", "refused"] {
            assert_eq!(one[field], other[field], "{host} {line}: {field}");
        }
        // And a Read is asked for again while its answer waits.
        let [here, there] = [&by_stage, &by_kernel]
            .map(|report| number(&report["datagrams"]["consumed"]) - number(&report["read_requests"]));
        assert_eq!(here, there, "{host} {line}: consumed beside Reads");
        let [placed, in_kernel] = ["placed", "placed_by_kernel"].map(|field| number(&other[field]));
        // How many depends on when this host runs the server: a datagram that goes up is copied while the program pauses.
        assert!(in_kernel > 0, "{host} {line}: {in_kernel} of {placed}");
        assert_eq!(number(&other["placed_late_by_kernel"]), 0);
        assert!(number(&other["counted_as_errors"]) > 0);
        assert_eq!(number(&one["placed_by_kernel"]) + number(&one["counted_as_errors"]), 0);
    }
}

/// Datagrams without anything that asks for attention wake nobody: the server sleeps until its turn or a watermark.
#[test]
fn writes_that_need_no_attention_wake_nobody() {
    if !may_place() {
        return;
    }
    // Of 1472 bytes the longest trains have 45 datagrams.
    for packet in [8972, 1472] {
        let (job, address) =
            serve(&format!("--region vis:64MiB:write --tier bpf --connections 1 --packet {packet}"));
        let line = "--pattern --message 64KiB --messages 400 --rate 400Mbps --json";
        let written = run(&format!("rdma write {address} --packet {packet} {line}")).expect(0).json();
        let served = job.finish().expect(0).json();
        let datagrams = &served["datagrams"];
        assert_eq!(number(&served["complete"]), 400, "{served}");
        let passed = number(&datagrams["placed"]) - number(&datagrams["placed_by_kernel"]);
        let segments = number(&written["datagrams"]["segments"]);
        assert!(segments >= 3200 && passed * 20 < segments, "{passed} of {segments} went up the socket");
        // One for each datagram, or train of them, would be 400 at least.
        let woken = number(&served["voluntary_switches"]);
        assert!(woken < 100, "{woken}");
    }
}

/// A program passes trains longer than it follows, and messages longer than a slot. If most Writes are passed, it is set aside and tried
/// again later. Every byte is placed correctly meanwhile.
#[test]
fn a_program_that_places_little_is_set_aside() {
    if !may_place() {
        return;
    }
    for (mib, packet, messages) in [
        (4, 500, "--message 60KiB --messages 400 --rate 1Gbps"),
        (21, 8972, "--message 10MiB --messages 5 --rate 400Mbps"),
    ] {
        // At this rate a train is long, however soon the sender is woken.
        let line = format!("{messages} --faults loss=0.01,seed=11");
        let [(by_stage, _, bytes), (by_kernel, _, same)] =
            ["stage", "bpf"].map(|tier| served((tier, mib), "127.0.0.1", packet, &line));
        assert!(bytes == same, "other bytes");
        for field in ["complete", "incomplete", "lost", "losses", "written_bytes", "datagrams_lost"] {
            assert_eq!(by_stage[field], by_kernel[field], "{field}");
        }
        let placing = by_kernel["placing"].as_str().unwrap();
        let times = placing
            .split_once("set aside ")
            .and_then(|(_, rest)| rest.split(' ').next()?.parse::<u64>().ok());
        assert!(times.is_some_and(|times| times >= 1), "{placing}");
        assert!(number(&by_kernel["datagrams"]["placed_by_kernel"]) > 0);
    }
}

/// The kernel places while the server is stopped.
#[test]
fn a_server_that_is_stopped_for_a_second_loses_nothing() {
    if !may_place() {
        return;
    }
    let line = "--region vis:4MiB:write --tier bpf --connections 1 --packet 8972 --json";
    let line = format!("rdma serve --listen rdma+udp://127.0.0.1:0?rcvbuf=1MiB {line}");
    let (job, address) = listening(Job::start(&words(&line)));
    let line = "--pattern --message 64KiB --messages 1200 --rate 400Mbps --json";
    let writer = Job::start(&words(&format!("rdma write {address} --packet 8972 {line}")));
    std::thread::sleep(Duration::from_millis(500));
    job.signal(Signal::STOP);
    std::thread::sleep(Duration::from_secs(1));
    job.signal(Signal::CONT);
    let written = writer.finish().expect(0).json();
    let served = job.finish().expect(0).json();
    assert_eq!((number(&served["complete"]), number(&served["datagrams_lost"])), (1200, 0), "{served}");
    // Far more came in the second than this socket holds.
    let segments = number(&written["datagrams"]["segments"]);
    let passed = segments - number(&served["datagrams"]["placed_by_kernel"]);
    assert!(passed * 20 < segments, "{passed} of {segments} went up the socket");
}

#[test]
fn without_the_privilege_this_process_places_and_says_why() {
    if std::process::Command::new("setpriv").arg("--version").output().is_err() {
        // Only it can take a capability away from root.
        return eprintln!("SKIPPED: there is no setpriv; apt-get install util-linux");
    }
    let serving = |tier: &str| {
        let mut command = std::process::Command::new("setpriv");
        // The server must lack the capability even when root runs the test.
        if rustix::process::geteuid().is_root() {
            command.args(["--bounding-set", "-bpf,-sys_admin"]);
        }
        let binary =
            std::env::var_os("SKYHAUL_BINARY").unwrap_or_else(|| env!("CARGO_BIN_EXE_skyhaul").into());
        command.arg("--").arg(binary).env("SKYHAUL_CONFIG", "/dev/null").args(words(&format!(
            "rdma serve --listen rdma+udp://127.0.0.1:0 --json --region a:1MiB:write --verify --connections 1 --tier {tier}"
        )));
        Job::of(command)
    };
    let missing = ["no placement in the kernel (forbidden)", "hint: run as root, or with CAP_BPF"];
    let refused = serving("bpf").finish().expect(2);
    missing.iter().for_each(|said| assert!(refused.said().contains(said), "{}", refused.said()));
    let (job, address) = listening(serving("auto"));
    run(&format!("rdma write {address} --pattern --messages 8 --rate 100Mbps --json")).expect(0);
    let served = job.finish().expect(0).json();
    let placing = served["placing"].as_str().unwrap();
    missing.iter().for_each(|said| assert!(placing.contains(said), "{placing}"));
    assert!(placing.starts_with("stage: "), "{placing}");
    assert_eq!((number(&served["complete"]), number(&served["datagrams"]["placed_by_kernel"])), (8, 0));
}

/// Every peer that comes, and what it leaves behind, over TCP.
#[test]
fn streams_end_with_the_truth_when_a_peer_is_killed() {
    let (job, address) = listening(Job::start(&words(
        "rdma serve --listen rdma+tcp://127.0.0.1:0 --json --region vis:4MiB:read,write --verify",
    )));
    assert!(address.starts_with("rdma+tcp://127.0.0.1:") && address.ends_with("/vis"), "{address}");
    // Garbage before the first frame.
    let at = address.trim_start_matches("rdma+tcp://").trim_end_matches("/vis");
    let mut garbage = std::net::TcpStream::connect(at).unwrap();
    std::io::Write::write_all(&mut garbage, b"GET / HTTP/1.1\r\n\r\n").unwrap();
    // A writer that is killed at full rate, most likely within a frame.
    let killed = Job::start(&words(&format!("rdma write {address} --pattern --rate max --json")));
    std::thread::sleep(Duration::from_millis(700));
    killed.signal(Signal::KILL);
    killed.finish();
    // One that is interrupted finishes its message, and closes.
    let interrupted =
        Job::start(&words(&format!("rdma write {address} --pattern --imm --rate 400Mbps --json")));
    std::thread::sleep(Duration::from_millis(700));
    interrupted.signal(Signal::INT);
    let interrupted = interrupted.finish().expect(0).json();
    assert_eq!((&interrupted["closed_by"], &interrupted["profile"]), (&"here".into(), &"tcp".into()));
    let place = tempfile::tempdir().unwrap();
    let file = place.path().join("region");
    run(&format!("rdma read {address} --deadline 20s --json --output {}", file.display())).expect(0);
    job.signal(Signal::INT);
    let served = job.finish().expect(0).json();
    assert_eq!(served["profile"], "tcp");
    let connections = served["connections"].as_array().unwrap();
    assert_eq!(connections.len(), 3, "{served}");
    let [killed, by_signal, reader] = [&connections[0], &connections[1], &connections[2]];
    assert!(["peer", "broken", "reset"].contains(&killed["closed_by"].as_str().unwrap()), "{killed}");
    assert!(number(&killed["complete"]) > 0, "{killed}");
    assert_eq!(by_signal["closed_by"], "peer");
    assert_eq!(number(&by_signal["complete"]), number(&interrupted["messages"]));
    assert_eq!(number(&by_signal["incomplete"]), 0);
    assert_eq!(reader["closed_by"], "peer");
    assert_eq!(number(&served["verify"]["different_bytes"]), 0);
    let verify = &served["verify"];
    assert_eq!(
        number(&verify["compared_bytes"]) + number(&verify["overwritten_bytes"]),
        number(&served["written_bytes"])
    );
    assert!(number(&served["datagrams"]["refused"]["mismatch"]) >= 1, "{served}");
}

#[test]
fn a_server_of_streams_that_is_killed_or_stopped_holds_nobody() {
    let (job, address) = listening(Job::start(&words(
        "rdma serve --listen rdma+tcp://127.0.0.1:0 --json --region vis:4MiB:read,write",
    )));
    let mut writer = Job::start(&words(&format!("rdma write {address} --pattern --rate max --json")));
    std::thread::sleep(Duration::from_millis(500));
    // It reads nothing for a second, and the writer waits.
    job.signal(Signal::STOP);
    std::thread::sleep(Duration::from_secs(1));
    assert!(writer.is_running(), "a slow server is no dead one");
    job.signal(Signal::CONT);
    std::thread::sleep(Duration::from_millis(300));
    job.signal(Signal::KILL);
    job.finish();
    let written = writer.finish().expect(1).json();
    assert!(["peer", "reset", "broken"].contains(&written["closed_by"].as_str().unwrap()), "{written}");
    for (line, said) in [
        (format!("write {address} --pattern --messages 1"), "refused"),
        (format!("write {address} --pattern --messages 1 --faults loss=0.1,seed=1"), "--faults"),
        ("serve --listen rdma+tcp://127.0.0.1:0 --region a:1MiB:write --tier bpf".to_owned(), "--tier bpf"),
    ] {
        let done = run(&format!("rdma {line}")).expect(2);
        assert!(done.said().contains(said), "{line}: {}", done.said());
    }
}

/// Messages that go to the same place and whose segments overtake each other: whichever came last, memory is right, and nothing is called
/// different.
#[test]
fn messages_that_overtake_each_other_are_never_called_different() {
    if !may_place() {
        return;
    }
    for seed in 0..3 {
        let (job, address) = serve("--region a:64KiB:write --tier bpf --verify --connections 1");
        let line = format!(
            "--pattern --message 64KiB --messages 300 --rate 400Mbps --faults reorder=40,seed={seed} --json"
        );
        run(&format!("rdma write {address} {line}")).expect(0);
        let served = job.finish().expect(0).json();
        let verify = &served["verify"];
        assert_eq!(number(&verify["different_bytes"]), 0, "{served}");
        assert!(number(&verify["compared_bytes"]) > 64 << 10, "{served}");
        let sum = number(&verify["compared_bytes"]) + number(&verify["overwritten_bytes"]);
        assert_eq!(sum, number(&served["written_bytes"]), "{served}");
    }
}

/// Two connections write to the same place at once: neither standard orders one behind the other, so memory is what one of them wrote,
/// byte by byte, and nothing is called different.
#[test]
fn two_connections_that_write_to_one_place_are_never_called_different() {
    for (tier, transport) in [("stage", "udp"), ("bpf", "udp"), ("", "tcp")] {
        if tier == "bpf" && !may_place() {
            continue;
        }
        let tier = if tier.is_empty() { String::new() } else { format!("--tier {tier}") };
        let (job, address) = listening(Job::start(&words(&format!(
            "rdma serve --listen rdma+{transport}://127.0.0.1:0 --json --region a:64KiB:write --verify --connections 2 {tier}"
        ))));
        let line = |message: &str, messages: u32| {
            format!(
                "rdma write {address} --pattern --message {message} --messages {messages} --rate 200Mbps --json"
            )
        };
        // Of different lengths, so that the boundaries of the one lie within the other's.
        let writers = [line("64KiB", 300), line("24KiB", 800)].map(|line| Job::start(&words(&line)));
        let written: u64 =
            writers.into_iter().map(|writer| number(&writer.finish().expect(0).json()["bytes"])).sum();
        let served = job.finish().expect(0).json();
        let verify = &served["verify"];
        assert_eq!(number(&verify["different_bytes"]), 0, "{tier} {transport}: {served}");
        assert!(number(&verify["compared_bytes"]) > 64 << 10, "{tier} {transport}: {served}");
        let sum_of_both = number(&verify["compared_bytes"]) + number(&verify["overwritten_bytes"]);
        assert_eq!(sum_of_both, number(&served["written_bytes"]), "{tier} {transport}: {served}");
        assert_eq!(sum(&served["connections"], "written_bytes"), number(&served["written_bytes"]));
        assert_eq!(number(&served["written_bytes"]), written, "{tier} {transport}: {served}");
    }
}
