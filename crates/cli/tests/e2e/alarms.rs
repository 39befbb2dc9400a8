//! Alarms of the station to programs and webhooks: receivers that are away or hang, and a station that is killed.

use crate::serve::{FPS, SECOND, Serving};
use crate::site::{LIMIT, Site, run, vdif, wait_for};
use rustix::process::Signal;
use serde_json::Value;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, UdpSocket};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, channel};

/// A value of `/metrics` for a receiver.
pub(crate) fn metric(serving: &Serving, name: &str, receiver: &str) -> u64 {
    let key = format!("skyhaul_station_alarms_{name}{{receiver=\"{receiver}\"}} ");
    let page = serving.metrics();
    let line = page.lines().find_map(|line| line.strip_prefix(&key));
    line.unwrap_or_else(|| panic!("no {key} in {page}")).parse().unwrap()
}

/// The alarms that a program has written to a file, one a line.
pub(crate) fn lines(path: &Path) -> Vec<Value> {
    let text = std::fs::read_to_string(path).unwrap_or_default();
    text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect()
}

fn words(all: &[Value]) -> Vec<(String, String, bool)> {
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    all.iter().map(|one| (text(&one["event"]), text(&one["kind"]), one["after_restart"] == true)).collect()
}

/// A server that takes each message, and passes its head and body on.
pub(crate) fn hook(listener: TcpListener) -> Receiver<(String, Value)> {
    let (sender, heard) = channel();
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let mut reader = BufReader::new(stream);
            let mut head = String::new();
            while !head.ends_with("\r\n\r\n") && reader.read_line(&mut head).unwrap_or(0) > 0 {}
            let length = head.lines().find_map(|line| line.strip_prefix("Content-Length: ")?.parse().ok());
            let mut body = vec![0; length.unwrap_or(0)];
            if reader.read_exact(&mut body).is_err() {
                continue;
            }
            let _ = reader.get_mut().write_all(b"HTTP/1.1 204 No Content\r\nConnection: close\r\n\r\n");
            let _ = sender.send((head, serde_json::from_slice(&body).unwrap()));
        }
    });
    heard
}

fn token(site: &Site) -> PathBuf {
    let path = site.disks[0].parent().unwrap().join("alarm-token");
    std::fs::write(&path, "not-to-be-shown-42\n").unwrap();
    path
}

#[test]
fn a_receiver_that_was_away_and_one_that_hangs() {
    let site = Site::new(1);
    // Its address is known, and nobody is there yet.
    let address = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let file = site.disks[0].parent().unwrap().join("alarms.jsonl");
    let token = token(&site);
    let more = format!(
        "[station.alarms]\nhold = '1s'\n\
         [[station.alarms.receiver]]\nname = 'hook'\nwebhook = 'http://{address}/a'\ntoken_file = '{}'\n\
         [[station.alarms.receiver]]\nname = 'hangs'\ncommand = ['sleep', '1000']\ntimeout = '1s'\n\
         [[station.alarms.receiver]]\nname = 'errors'\ncommand = ['false']\nlevel = 'error'\n\
         [[station.alarms.receiver]]\nname = 'file'\ncommand = ['sh', '-c', 'cat >> {}']\n",
        token.display(),
        file.display()
    );
    let serving = Serving::start(site, &more);
    serving.call("station start quiet --input a").expect(0);
    let begun = wait_for("the alarm", || lines(&file).first().cloned());
    assert_eq!(
        (begun["event"].as_str(), begun["kind"].as_str()),
        (Some("begin"), Some("no_data")),
        "{begun}"
    );
    assert_eq!((begun["subject"].as_str(), begun["level"].as_str()), (Some("quiet"), Some("warning")));
    wait_for("two attempts", || (metric(&serving, "failures_total", "hook") >= 2).then_some(()));
    wait_for("the end of the program", || (metric(&serving, "failures_total", "hangs") >= 1).then_some(()));
    let heard = hook(TcpListener::bind(address).unwrap());
    let (head, body) = heard.recv_timeout(LIMIT).unwrap();
    assert_eq!(body, begun);
    assert!(head.contains("\r\nAuthorization: Bearer not-to-be-shown-42\r\n"), "{head}");
    serving.call("station stop quiet");
    let (_, end) = heard.recv_timeout(LIMIT).unwrap();
    assert_eq!(
        (end["event"].as_str(), end["since"].clone(), end["count"].as_u64()),
        (Some("end"), begun["since"].clone(), Some(1))
    );
    wait_for("its end", || (lines(&file).len() == 2).then_some(()));
    // An empty recording is no fault: nothing else was said, once each.
    assert_eq!(lines(&file), [begun, end]);
    wait_for("the account", || (metric(&serving, "sent_total", "hook") == 2).then_some(()));
    assert_eq!((metric(&serving, "lost_total", "hook"), metric(&serving, "waiting", "hook")), (0, 0));
    assert_eq!(
        (metric(&serving, "sent_total", "errors"), metric(&serving, "failures_total", "errors")),
        (0, 0)
    );
    assert_eq!((metric(&serving, "sent_total", "hangs"), metric(&serving, "lost_total", "hangs")), (0, 0));
    serving.job.signal(Signal::TERM);
    let said = serving.job.finish().expect(0).stderr;
    assert!(said.contains("alarms: hangs failed, and is tried again: sleep was killed after 1 s"), "{said}");
    assert!(
        said.contains("alarms: hook takes messages again") && !said.contains("not-to-be-shown"),
        "{said}"
    );
}

#[test]
fn after_a_kill_what_holds_is_not_new() {
    let site = Site::new(1);
    let file = site.disks[0].parent().unwrap().join("alarms.jsonl");
    let kept = site.disks[0].join("station_alarms.json");
    let more = format!(
        "[station.alarms]\nhold = '2s'\n[[station.alarms.receiver]]\nname = 'file'\ncommand = ['sh', '-c', 'cat >> {}']\n",
        file.display()
    );
    let mut serving = Serving::start(site, &more);
    serving.call("station start cut --input a").expect(0);
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    for frame in 0..FPS {
        socket.send_to(&vdif(SECOND, frame, 0, 1000), ("127.0.0.1", serving.ports[0])).unwrap();
    }
    let is_kept = |kind: &str| std::fs::read_to_string(&kept).is_ok_and(|text| text.contains(kind));
    // What is said of the quality of the few frames is not looked at.
    let said = || -> Vec<Value> {
        let mut all = lines(&file);
        all.retain(|one| one["kind"] == "no_data" || one["kind"] == "interrupted");
        all
    };
    wait_for("the first alarm", || (!said().is_empty() && is_kept("no_data")).then_some(()));
    serving.kill_and_restart();
    wait_for("its end, and the next alarm", || (said().len() >= 3 && is_kept("interrupted")).then_some(()));
    let expect = |event: &str, kind: &str, again| (event.to_owned(), kind.to_owned(), again);
    let mut expected = vec![
        expect("begin", "no_data", false),
        expect("begin", "interrupted", false),
        expect("end", "no_data", true),
    ];
    assert_eq!(words(&said()), expected);
    wait_for("that the end is not kept", || (!is_kept("no_data")).then_some(()));
    serving.kill_and_restart();
    let more = wait_for("it is said again", || said().get(3).cloned());
    expected.push(expect("still", "interrupted", true));
    assert_eq!(words(&said()), expected);
    assert_eq!(more["since"], said()[1]["since"]);
    serving.job.signal(Signal::TERM);
    serving.job.finish().expect(0);
}

#[test]
fn a_test_of_the_receivers_says_what_each_answered() {
    let site = Site::new(1);
    let path = site.disks[0].parent().unwrap().join("station.toml");
    let station = format!(
        "[station]\n[[station.disk]]\npath = '{}'\n[[station.input]]\nname = 'a'\nlisten = ['udp://127.0.0.1:1']\n",
        site.disks[0].display()
    );
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let good = format!(
        "[[station.alarms.receiver]]\nname = 'hook'\nwebhook = 'http://{}/'\n[[station.alarms.receiver]]\nname = 'say'\n\
         command = ['sh', '-c', 'echo hello >&2']\n",
        listener.local_addr().unwrap()
    );
    let heard = hook(listener);
    std::fs::write(&path, format!("{station}{good}")).unwrap();
    let line = format!("serve --config {} --test-alarms", path.display());
    let done = run(&line).expect(0);
    assert!(
        done.told().contains("hook: 127.0.0.1:") && done.told().contains("answered 204"),
        "{}",
        done.told()
    );
    assert!(done.told().contains("say: sh ended with 0: hello"), "{}", done.told());
    assert_eq!(heard.recv_timeout(LIMIT).unwrap().1["event"], "test");
    let bad =
        "[[station.alarms.receiver]]\nname = 'no'\ncommand = ['sh', '-c', 'echo no line >&2; exit 3']\n";
    std::fs::write(&path, format!("{station}{bad}{good}")).unwrap();
    let done = run(&line).expect(1);
    assert!(done.told().contains("no: failed: sh: exit status: 3: no line\nhook: "), "{}", done.told());
    std::fs::write(&path, station).unwrap();
    assert!(run(&line).expect(2).stderr.contains("no receiver of alarms"));
}
