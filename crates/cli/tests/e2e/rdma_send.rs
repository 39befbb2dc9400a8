//! Sends: messages for which the peer has buffers.

use crate::rdma::listening;
use crate::site::{Job, number, run, words};
use rustix::process::Signal;
use serde_json::Value;
use skyhaul::core::pattern;
use std::path::Path;

/// A server on this transport with this line, and the address of its region.
fn serve(transport: &str, line: &str) -> (Job, String) {
    let line = format!("rdma serve --listen rdma+{transport}://127.0.0.1:0 --json --region a:1KiB:{line}");
    listening(Job::start(&words(&line)))
}

fn ended(job: Job, code: i32) -> Value {
    job.signal(Signal::INT);
    job.finish().expect(code).json()
}

fn names(directory: &Path) -> Vec<String> {
    let mut names: Vec<String> = std::fs::read_dir(directory)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

#[test]
fn sends_arrive_each_in_a_file_and_are_verified() {
    for transport in ["udp", "tcp"] {
        let place = tempfile::tempdir().unwrap();
        let (job, address) =
            serve(transport, &format!("write --verify --messages {}", place.path().display()));
        let line = "--pattern --message 3000B --messages 40 --rate 50Mbps --solicited --json";
        let sent = run(&format!("rdma send {address} {line}")).expect(0).json();
        assert_eq!((&sent["operation"], number(&sent["messages"])), (&"send".into(), 40));
        let served = ended(job, 0);
        let of = |name: &str| number(&served[name]);
        assert_eq!((of("received"), of("received_incomplete"), of("lost")), (40, 0, 0), "{served}");
        assert_eq!((of("received_bytes"), of("solicited"), of("not_written")), (120_000, 40, 0), "{served}");
        assert_eq!((of("complete"), of("written_bytes")), (0, 0), "they are no Writes: {served}");
        assert_eq!(number(&served["connections"][0]["received"]), 40);
        let verify = &served["verify"];
        let [compared, different] = ["compared_bytes", "different_bytes"].map(|name| number(&verify[name]));
        assert_eq!((compared, different), (120_000, 0), "{transport}");
        assert_eq!(names(place.path()), (1..=40).map(|n| format!("0001-{n:08}")).collect::<Vec<_>>());
        for n in [1, 17, 40] {
            let bytes = std::fs::read(place.path().join(format!("0001-{n:08}"))).unwrap();
            assert!(bytes == pattern::slice(n, 0, 3000), "message {n} over {transport}");
        }
    }
}

#[test]
fn a_file_is_sent_and_is_the_same_at_the_other_end() {
    let place = tempfile::tempdir().unwrap();
    let [from, to] = ["from", "to"].map(|name| place.path().join(name));
    let bytes: Vec<u8> = (0..700_001u32).map(|n| (n / 3 % 251) as u8).collect();
    std::fs::write(&from, &bytes).unwrap();
    for transport in ["udp", "tcp"] {
        let (job, address) = serve(transport, &format!("write --messages {}", to.display()));
        let line = format!("--input {} --message 4KiB --rate 200Mbps --json", from.display());
        let sent = run(&format!("rdma send {address} {line}")).expect(0).json();
        assert_eq!((number(&sent["messages"]), number(&sent["bytes"])), (171, 700_001));
        assert_eq!(number(&ended(job, 0)["received"]), 171);
        assert!(std::fs::read(&to).unwrap() == bytes, "it is another file over {transport}");
    }
}

#[test]
fn what_is_lost_of_sends_is_named_by_message() {
    let place = tempfile::tempdir().unwrap();
    let (job, address) = serve("udp", &format!("write --verify --messages {}", place.path().display()));
    let line = "--pattern --message 3000B --messages 200 --rate 50Mbps --packet 512 --json";
    let sent = run(&format!("rdma send {address} {line} --faults loss=0.2,seed=5")).expect(0).json();
    let served = ended(job, 0);
    let of = |name: &str| number(&served[name]);
    assert_eq!(of("received") + of("received_incomplete") + of("lost"), 200, "{served}");
    assert!(of("received") > 0 && of("received_incomplete") > 0, "{served}");
    assert_eq!(of("datagrams_lost"), number(&sent["datagrams"]["lost_on_purpose"]));
    assert_eq!(number(&served["verify"]["compared_bytes"]), of("received_bytes"));
    assert_eq!(number(&served["verify"]["different_bytes"]), 0);
    let losses = served["losses"].as_array().unwrap();
    let partial: Vec<String> = losses
        .iter()
        .filter(|loss| loss["is_send"] == true)
        .map(|loss| format!("0001-{:08}.incomplete", number(&loss["messages"][0])))
        .collect();
    assert_eq!(partial.len() as u64, of("received_incomplete"));
    let names = names(place.path());
    assert_eq!(names.len() as u64, of("received") + of("received_incomplete"));
    assert!(partial.iter().all(|name| names.contains(name)), "{partial:?} {names:?}");
}

/// More of them in one reading of a stream than the server has buffers.
#[test]
fn short_sends_over_a_stream_wait_for_buffers() {
    let (job, address) = serve("tcp", "write --verify");
    let line = "--pattern --message 8B --messages 20000 --rate max --json";
    let sent = run(&format!("rdma send {address} {line}")).expect(0).json();
    assert_eq!((&sent["closed_by"], number(&sent["messages"])), (&"here".into(), 20_000));
    let served = ended(job, 0);
    assert_eq!((number(&served["received"]), number(&served["received_bytes"])), (20_000, 160_000));
    assert_eq!(number(&served["verify"]["different_bytes"]), 0);
}

#[test]
fn the_last_message_ends_a_region_if_the_region_allows_it() {
    let (job, address) = serve("udp", "read,write,invalidate --verify");
    let line = "--pattern --message 100B --messages 3 --invalidate --json";
    run(&format!("rdma send {address} {line}")).expect(0);
    let refused = run(&format!("rdma write {address} --pattern --message 100B --messages 1")).expect(2);
    assert!(refused.said().contains("rejected"), "{}", refused.said());
    let served = ended(job, 0);
    assert_eq!((number(&served["received"]), &served["invalidated"]), (3, &serde_json::json!(["a"])));
    let (job, address) = serve("udp", "read,write --verify");
    let refused = run(&format!("rdma send {address} {line}")).expect(2);
    assert!(refused.said().contains("may not be invalidated"), "{}", refused.said());
    run(&format!("rdma write {address} --pattern --message 100B --messages 1")).expect(0);
    let refused = run(&format!("rdma send {address} --pattern --rate 1Mbps --invalidate")).expect(2);
    assert!(refused.said().contains("none is the last"), "{}", refused.said());
    ended(job, 0);
}

#[test]
fn sends_that_nobody_expects_or_that_differ_are_reported() {
    let (job, address) = serve("udp", "write");
    run(&format!("rdma send {address} --pattern --message 100B --messages 5")).expect(0);
    let served = ended(job, 0);
    assert_eq!((number(&served["received"]), number(&served["lost"])), (0, 5), "{served}");
    assert_eq!(number(&served["datagrams"]["refused"]["no_buffer"]), 5);
    let place = tempfile::tempdir().unwrap();
    let zeros = place.path().join("zeros");
    std::fs::write(&zeros, [0; 1000]).unwrap();
    let (job, address) = serve("udp", "write --verify");
    run(&format!("rdma send {address} --input {}", zeros.display())).expect(0);
    let served = ended(job, 1);
    assert!(number(&served["verify"]["different_bytes"]) > 900, "{served}");
    let line = "rdma serve --listen rdma+udp://127.0.0.1:0 --region a:1KiB:write --messages";
    let refused = run(&format!("{line} {}", place.path().display())).expect(2);
    assert!(refused.said().contains("the directory is not empty"), "{}", refused.said());
}

/// A disk that takes nothing: the messages are counted, and the server serves on.
#[test]
fn messages_that_cannot_be_written_are_counted() {
    let (job, address) = serve("udp", "write --messages /dev/full");
    for _ in 0..2 {
        run(&format!("rdma send {address} --pattern --message 100B --messages 5 --rate 1Mbps")).expect(0);
    }
    let served = ended(job, 1);
    assert_eq!((number(&served["received"]), number(&served["not_written"])), (10, 10), "{served}");
    assert!(served["write_error"].as_str().unwrap().contains("0001-0000000"), "{served}");
}
