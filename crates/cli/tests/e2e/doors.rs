//! Where services listen and for whom, and what others on the network can read.

use crate::probe::Server;
use crate::site::{Job, run, wait_for, words};
use rustix::process::Signal;
use skyhaul::peer::ServerKey;
use std::path::Path;
use std::process::Command;

/// A token file, as another program wrote it.
fn token(directory: &Path) -> String {
    let path = directory.join("token");
    std::fs::write(&path, "0123456789abcdef0123456789abcdef").unwrap();
    format!("--token-file {}", path.display())
}

#[test]
fn a_server_says_where_it_listens_and_who_may_come() {
    let directory = tempfile::tempdir().unwrap();
    let token = token(directory.path());
    let mut keys = Vec::<String>::new();
    for (listen, reach, is_open) in
        [("127.0.0.1:0", "this host only", false), ("0.0.0.0:0", "every address of this host", true)]
    {
        let root = directory.path().display();
        let job = Job::start(&words(&format!("copy serve --root {root} --listen {listen} --json {token}")));
        let told = format!("on {reach}, for clients that hold the token in");
        wait_for("the server", || job.stderr().contains(&told).then_some(()));
        wait_for("what they may", || job.stderr().contains("copy from here").then_some(()));
        job.signal(Signal::INT);
        let done = job.finish().expect(0);
        assert_eq!(
            done.stderr.contains("the contents of files are not encrypted"),
            is_open,
            "{}",
            done.stderr
        );
        let door = &done.json()["listening"][0];
        assert_eq!((&door["service"], &door["encrypted"]), (&"copy".into(), &false.into()));
        assert!(door["admits"].as_str().unwrap().starts_with("clients that hold the token in "), "{door}");
        // The same key at both starts.
        let key = door["key"].as_str().unwrap();
        assert!(
            done.stderr.contains(&format!("; key {key}\n")) && key.starts_with("SHA256:"),
            "{}",
            done.stderr
        );
        assert!(keys.iter().all(|before| before == key), "{keys:?}");
        keys.push(key.to_owned());
        assert_eq!(door["control_encrypted"], true);
    }
    let server = Server::start("--iperf3 0 --stamp 0 --udpmon 0");
    wait_for("all of them", || {
        (server.job.stderr().matches("for anyone, without a token").count() == 3).then_some(())
    });
    let report = server.stop();
    let services: Vec<_> =
        report["listening"].as_array().unwrap().iter().map(|door| &door["service"]).collect();
    assert_eq!(services, ["probe", "iperf3", "stamp", "udpmon"]);
}

/// A server that was given no token file yet, until it has said where it is; its address and standard error.
fn served(token: &Path, root: &Path) -> (Job, String) {
    let line =
        format!("copy serve --root {} --listen 127.0.0.1:0 --token-file {}", root.display(), token.display());
    let job = Job::start(&words(&line));
    wait_for("the server", || job.stderr().contains("copy from here").then_some(()));
    let said = job.stderr();
    let at = said.lines().find_map(|line| line.split_once(" at 127.0.0.1:")).unwrap().1.to_owned();
    (job, at)
}

#[test]
fn a_new_token_file_names_the_servers_key_and_another_key_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    let at = |name: &str| directory.path().join(name);
    let (token, key) = (at("token"), at("token.key"));
    std::fs::write(at("file"), "contents").unwrap();
    let copied = |port: &str, to: &str| {
        run(&format!(
            "copy 127.0.0.1:file {} --port {port} --token-file {}",
            at(to).display(),
            token.display()
        ))
    };
    let (job, port) = served(&token, directory.path());
    let text = std::fs::read_to_string(&token).unwrap();
    let pin = text.lines().nth(1).unwrap().to_owned();
    assert!(pin.starts_with("SHA256:") && job.stderr().contains(&pin), "{}", job.stderr());
    assert!(!std::fs::read_to_string(&key).unwrap().is_empty());
    copied(&port, "one").expect(0);
    assert_eq!(std::fs::read(at("one/file")).unwrap(), b"contents");
    job.signal(Signal::INT);
    job.finish().expect(0);
    // The key is lost: the server says so, and clients refuse the new one until it is in the file.
    std::fs::remove_file(&key).unwrap();
    let (job, port) = served(&token, directory.path());
    assert!(job.stderr().contains("names the keys of other servers only"), "{}", job.stderr());
    let new = ServerKey::read(&key).unwrap().unwrap().fingerprint().to_string();
    let refused = copied(&port, "two");
    assert_ne!(refused.code, Some(0));
    for part in [format!("has the key {new}"), format!("expects {pin}"), "hint: compare it".to_owned()] {
        assert!(refused.stderr.contains(&part), "{part}: {}", refused.stderr);
    }
    assert!(!at("two/file").exists());
    std::fs::write(&token, format!("{text}{new}\n")).unwrap();
    copied(&port, "two").expect(0);
    job.signal(Signal::INT);
    job.finish().expect(0);
    // A key that cannot be kept is one of this run; nothing is pinned then.
    std::fs::remove_file(&key).unwrap();
    let mut command = Command::new("sh");
    let line = "exec \"$0\" copy serve --root \"$1\" --listen 127.0.0.1:0 --token-file /dev/fd/3 3<\"$2\"";
    command.env("SKYHAUL_CONFIG", "/dev/null").args(["-c", line, env!("CARGO_BIN_EXE_skyhaul")]);
    command.args([directory.path(), &token]);
    let job = Job::of(command);
    wait_for("the server", || job.stderr().contains("copy from here").then_some(()));
    assert!(job.stderr().contains("the key of this server lasts for this run only: "), "{}", job.stderr());
    job.signal(Signal::INT);
    job.finish().expect(0);
}

#[test]
fn tokens_that_others_on_the_network_can_read_are_warned_of() {
    let directory = tempfile::tempdir().unwrap();
    let token = token(directory.path());
    let ports = "--listen 127.0.0.1 --data-port 0 --sync-port 0 --threads 1 --duration 1ms";
    for (api, warns) in [("127.0.0.1:0", false), ("0.0.0.0:0", true)] {
        let done = run(&format!("balance --api {api} {ports} {token}")).expect(0);
        assert_eq!(done.stderr.contains("tokens over the network in plain text"), warns, "{}", done.stderr);
    }
    // No control plane answers at any of them.
    for (uri, warns) in [
        ("ejfat://0123456789abcdef@127.0.0.1:9/lb/1", false),
        ("ejfats://0123456789abcdef@203.0.113.1:9/lb/1", false),
        ("ejfat://0123456789abcdef@203.0.113.1:9/lb/1", true),
    ] {
        let done = run(&format!("balancer status --timeout 100ms --balancer {uri}")).expect(2);
        assert_eq!(done.stderr.contains("is sent to 203.0.113.1 in plain text"), warns, "{}", done.stderr);
        assert!(!done.stderr.contains("0123456789abcdef"), "{}", done.stderr);
    }
}
