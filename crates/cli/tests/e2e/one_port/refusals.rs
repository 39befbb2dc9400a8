//! What a station refuses on its port for copies and measurements is in the access log, with the reason; a flood of it is counted.

use super::OnePort;
use crate::site::{run, wait_for};
use rustix::process::Signal;
use serde_json::Value;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

/// Refusals that are lines in ten seconds.
const LOGGED: usize = 100;
/// More than that.
const FLOOD: usize = 3 * LOGGED;

/// Asks for something that is refused.
type Ask<'a> = Box<dyn Fn() + 'a>;

fn refusals(one: &OnePort) -> Vec<Value> {
    let text = std::fs::read_to_string(one.at.join("access.jsonl")).unwrap_or_default();
    assert!(text.bytes().all(|byte| byte == b'\n' || (b' '..=b'~').contains(&byte)), "{text}");
    let lines = text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    lines.filter(|line| line["result"] == "refused").collect()
}

fn left_out(lines: &[Value]) -> u64 {
    lines.iter().filter_map(|line| line["left_out"].as_u64()).sum()
}

fn metric(one: &OnePort, name: &str) -> u64 {
    let (metrics, name) = (one.serving.metrics(), format!("skyhaul_station_{name} "));
    metrics.lines().find_map(|line| line.strip_prefix(&name)?.parse().ok()).unwrap()
}

/// A client that speaks no protocol of this port.
fn garbage(at: &str) {
    let mut stream = TcpStream::connect(at).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    let _ = stream.write_all(b"GET / HTTP/1.1\r\n\r\n");
    let _ = stream.read_to_end(&mut Vec::new());
}

#[test]
fn each_refusal_is_a_line_with_its_reason() {
    let one = OnePort::start("[peers]\nlisten = '127.0.0.1:0'\nprobe_longest = '1s'");
    let at = one.serving.status()["peers"]["listen"].as_str().unwrap().to_owned();
    let (here, back) = (one.path("here/new"), one.path("back"));
    std::fs::write(one.at.join("wrong"), "another-token-of-16-or-more\n").unwrap();
    let copy = |client: &'static str, line: String| {
        let one = &one;
        move || assert_ne!(one.copy(client, &line).code, Some(0), "{line}")
    };
    let probe = |client: &'static str, line: &'static str| {
        let one = &one;
        move || assert_ne!(run(&one.probe_line(client, line)).code, Some(0), "{line}")
    };
    let denied = "the token does not permit to read /exp/other";
    // What is asked; the client, the service, the path, the reason of its line.
    let cases: [(Ask<'_>, [&str; 4]); 7] = [
        (Box::new(copy("mover", format!("@/exp/other {back}"))), ["mover", "copy", "/exp/other", denied]),
        (
            Box::new(copy("mover", format!("{here} @/disks/1/s"))),
            ["mover", "copy", "/disks/1/s", "/disks/1 is read-only"],
        ),
        (
            Box::new(copy("prober", format!("@/exp/out {back}"))),
            ["prober", "copy", "", "the token does not permit `copy`; it permits udp, tcp, host"],
        ),
        (
            Box::new(probe("mover", "--packets 10")),
            ["mover", "udp", "", "the token does not permit `udp`; it permits copy"],
        ),
        (
            Box::new(probe("prober", "--spacing 1ms --packets 8000 --settle 1s")),
            ["prober", "udp", "", "the limit is 1 s"],
        ),
        (
            Box::new(copy("wrong", format!("@/exp/out {back}"))),
            ["", "", "", "its token is that of no client"],
        ),
        (Box::new(|| garbage(&at)), ["", "", "", "it sent no valid greeting"]),
    ];
    for (ask, [client, service, path, reason]) in cases {
        let before = refusals(&one).len();
        ask();
        let line = wait_for("the refusal to be a line", || refusals(&one).get(before).cloned());
        let of = |name: &str| line[name].as_str().unwrap_or_default();
        assert_eq!([of("subject"), of("service"), of("path")], [client, service, path], "{line}");
        assert_eq!(line["auth"].as_str(), Some("peer").filter(|_| !client.is_empty()), "{line}");
        assert!(of("reason").contains(reason) && !of("reason").contains("hint"), "{line}");
        assert!(of("peer").starts_with("127.0.0.1:"), "{line}");
    }
    // A copy that fails once it was admitted has its reason, too.
    std::fs::write(one.serving.site.disks[0].join("station_queue.json"), "{}").unwrap();
    assert_ne!(one.copy("mover", &format!("@/disks/1/station_queue.json {back}")).code, Some(0));
    wait_for("the failure to be a line", || {
        let text = std::fs::read_to_string(one.at.join("access.jsonl")).unwrap();
        text.contains("\"result\":\"failed\",\"reason\":\"/disks/1/station_queue.json is no scan\"")
            .then_some(())
    });
}

#[test]
fn a_flood_of_refusals_is_counted_and_the_log_stays_small() {
    let mut one = OnePort::start("[peers]\nlisten = '127.0.0.1:0'");
    let at = one.serving.status()["peers"]["listen"].as_str().unwrap().to_owned();
    (0..FLOOD).for_each(|_| garbage(&at));
    wait_for("all to be refused", || (metric(&one, "peer_refusals_total") == FLOOD as u64).then_some(()));
    let unlogged = metric(&one, "peer_refusals_unlogged_total");
    one.serving.job.signal(Signal::INT);
    wait_for("the station to end", || (!one.serving.job.is_running()).then_some(()));
    let lines = refusals(&one);
    let with_reason: Vec<&Value> = lines.iter().filter(|line| line.get("reason").is_some()).collect();
    assert_eq!(with_reason.len() as u64 + unlogged, FLOOD as u64, "each is a line, or counted");
    assert_eq!(left_out(&lines), unlogged, "the lines say how many are missing");
    let seconds = |line: &Value| line["time"].as_str().unwrap()[..18].to_owned();
    for line in &with_reason {
        // Ten seconds by the clock are parts of two of these times at most.
        let same = with_reason.iter().filter(|other| seconds(other) == seconds(line)).count();
        assert!(same <= 2 * LOGGED, "{same} lines in ten seconds");
    }
}
