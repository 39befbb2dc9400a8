//! The ports themselves, on loopback, with a client that writes its lines by hand.

use super::*;
use skyhaul_core::balance::AllowList;
use skyhaul_core::balance::Prefix;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Shutdown, TcpStream as Stream};
use std::path::Path;
use std::time::{Duration, Instant};

struct Served {
    server: EtransferServer,
    _here: tempfile::TempDir,
    root: PathBuf,
}

fn allow(networks: &[&str]) -> AllowList {
    AllowList::of(&networks.iter().map(|text| text.parse::<Prefix>().unwrap()).collect::<Vec<_>>())
}

fn options(root: &Path, is_writable: bool) -> EtransferOptions {
    let any: SocketAddr = "127.0.0.1:0".parse().unwrap();
    EtransferOptions {
        listen: any,
        data: any,
        allow: allow(&["127.0.0.0/8", "::1"]),
        send_to: allow(&["127.0.0.0/8", "::1"]),
        directories: vec![EtransferDirectory { directory: root.to_owned(), is_writable }],
        recordings: false,
        times: EtransferTimes::default(),
    }
}

fn start_with(change: impl FnOnce(&mut EtransferOptions)) -> Served {
    let here = tempfile::tempdir().unwrap();
    let root = here.path().join("data");
    std::fs::create_dir(&root).unwrap();
    let mut options = options(&root, true);
    change(&mut options);
    let server = EtransferServer::start(options, &[]).unwrap();
    Served { server, _here: here, root }
}

fn start() -> Served {
    start_with(|_| {})
}

fn connect(to: SocketAddr) -> Stream {
    let stream = Stream::connect(to).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    stream
}

/// A command channel.
struct Client(BufReader<Stream>);

impl Client {
    fn of(served: &Served) -> Self {
        Self(BufReader::new(connect(served.server.address())))
    }

    fn send(&mut self, line: &str) {
        // One that was refused is closed.
        let _ = self.0.get_mut().write_all(format!("{line}\n").as_bytes());
    }

    /// The next line of a reply; empty at the end of the channel.
    fn next(&mut self) -> String {
        let mut line = String::new();
        let _ = self.0.read_line(&mut line);
        line.trim_end().to_owned()
    }

    fn ask(&mut self, line: &str) -> String {
        self.send(line);
        self.next()
    }

    /// The bytes that are there or remain, and the UUID.
    fn begin(&mut self, line: &str) -> (i64, String) {
        let number = self.ask(line);
        let (_, number) = number.split_once(':').unwrap_or_else(|| panic!("{line}: {number}"));
        let uuid = self.next();
        assert_eq!(self.next(), "OK");
        (number.parse().unwrap(), uuid.strip_prefix("UUID:").unwrap().to_owned())
    }

    fn list(&mut self, path: &str) -> Vec<String> {
        self.send(&format!("list {path}"));
        let mut all = Vec::new();
        loop {
            let line = self.next();
            if line == "OK" {
                return all;
            }
            all.push(line.strip_prefix("OK ").unwrap_or_else(|| panic!("{line}")).to_owned());
        }
    }
}

/// Sends bytes on a data channel; returns what comes back until it is closed.
fn push(served: &Served, uuid: &str, size: usize, bytes: &[u8]) -> Vec<u8> {
    let mut stream = connect(served.server.data_address());
    write!(stream, "{{ uuid:{uuid}, sz:{size}}}").unwrap();
    // One that refuses closes before everything is sent.
    let _ = stream.write_all(bytes);
    let _ = stream.shutdown(Shutdown::Write);
    let mut back = Vec::new();
    let _ = stream.read_to_end(&mut back);
    back
}

fn pull(served: &Served, uuid: &str, size: usize) -> (Vec<u8>, Stream) {
    let mut stream = connect(served.server.data_address());
    write!(stream, "{{ uuid:{uuid}, push:1, sz:{size}}}").unwrap();
    let mut bytes = vec![0; size];
    stream.read_exact(&mut bytes).unwrap();
    (bytes, stream)
}

fn bytes(count: usize) -> Vec<u8> {
    (0..count).map(|n| (n as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes()[0]).collect()
}

fn wait_for<T>(mut found: impl FnMut() -> Option<T>) -> T {
    let begun = Instant::now();
    loop {
        if let Some(found) = found() {
            return found;
        }
        assert!(begun.elapsed() < Duration::from_secs(60), "it did not come");
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn names(served: &Served) -> Vec<String> {
    let all = std::fs::read_dir(&served.root).unwrap();
    let mut all: Vec<String> = all.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    all.retain(|name| !name.starts_with(".skyhaul"));
    all.sort();
    all
}

#[test]
fn a_file_arrives_and_is_sent_back() {
    let served = start();
    let at = format!("{}/exp/n26c3", served.root.display());
    let mut client = Client::of(&served);
    assert_eq!(client.ask("protocol-version"), "OK 1");
    let data = served.server.data_address().port();
    assert_eq!(client.ask("data-channel-addr"), format!("OK <tcp/127.0.0.1:{data}>"));
    assert_eq!(client.next(), "OK");
    assert_eq!(client.ask("data-channel-addr-ext"), format!("OK <tcp/127.0.0.1:{data}>"));
    assert_eq!(client.next(), "OK");
    let sent = bytes(3_000_001);
    let (have, uuid) = client.begin(&format!("write-file-New {at}"));
    assert_eq!(have, 0);
    assert!(client.ask(&format!("write-file-New {at}2")).starts_with("ERR this channel is already busy"));
    assert_eq!(push(&served, &uuid, sent.len(), &sent), b"y");
    assert_eq!(client.ask(&format!("remove-uuid {uuid}")), "OK");
    assert!(client.ask(&format!("remove-uuid {uuid}")).starts_with("ERR "));
    assert!(std::fs::read(&at).unwrap() == sent);
    assert_eq!(
        client.list(&format!("{}/*", served.root.display())),
        [format!("{}/exp/", served.root.display())]
    );
    assert_eq!(client.list(&format!("{}/e?p/n[0-9]*", served.root.display())), [&*at]);
    let (remain, uuid) = client.begin(&format!("read-file 1 {at}"));
    assert_eq!(remain, 3_000_000);
    let (got, mut stream) = pull(&served, &uuid, 3_000_000);
    stream.write_all(b"y").unwrap();
    assert!(got == sent[1..]);
    wait_for(|| (served.server.counts().downloads == 1).then_some(()));
    assert_eq!(client.ask(&format!("remove-uuid {uuid}")), "OK");
    let counts = served.server.counts();
    assert_eq!((counts.uploads, counts.rejected), (1, 0));
    assert_eq!(counts.sent_bytes, 3_000_000);
    assert_eq!(served.server.shared.transfers.count(), 0);
}

/// A client that has the whole file is sent nothing, and may confirm that in the packet of its head.
#[test]
fn a_confirmation_that_comes_with_the_head_counts() {
    let served = start();
    std::fs::write(served.root.join("f"), b"abc").unwrap();
    let mut client = Client::of(&served);
    let (remain, uuid) = client.begin(&format!("read-file 3 {}/f", served.root.display()));
    assert_eq!(remain, 0);
    let mut stream = connect(served.server.data_address());
    stream.write_all(format!("{{ uuid:{uuid}, push:1, sz:0}}y").as_bytes()).unwrap();
    wait_for(|| (served.server.counts().downloads == 1).then_some(()));
    assert_eq!(client.ask(&format!("remove-uuid {uuid}")), "OK");
}

#[test]
fn each_mode_does_with_a_file_what_it_says() {
    let served = start();
    let at = served.root.join("f");
    let path = at.display().to_string();
    std::fs::write(&at, b"old").unwrap();
    let mut client = Client::of(&served);
    assert_eq!(client.ask(&format!("write-file-New {path}")), "ERR File exists");
    let (have, uuid) = client.begin(&format!("write-file-SkipExisting {path}"));
    assert_eq!(have, 3);
    // Bytes for a file that is kept are refused.
    assert_eq!(push(&served, &uuid, 3, b"new"), b"");
    assert!(client.ask(&format!("remove-uuid {uuid}")).starts_with("ERR File exists"));
    assert_eq!(std::fs::read(&at).unwrap(), b"old");
    let (have, uuid) = client.begin(&format!("write-file-Resume {path}"));
    assert_eq!(have, 3);
    assert_eq!(push(&served, &uuid, 4, b"er m"), b"y");
    client.ask(&format!("remove-uuid {uuid}"));
    assert_eq!(std::fs::read(&at).unwrap(), b"older m");
    let (have, uuid) = client.begin(&format!("write-file-overwrite {path}"));
    assert_eq!(have, 0);
    let mut stream = connect(served.server.data_address());
    write!(stream, "{{ uuid:{uuid}, sz:5}}abc").unwrap();
    // What was there stays until the new file is whole.
    wait_for(|| (served.server.counts().received_bytes >= 7).then_some(()));
    assert_eq!(std::fs::read(&at).unwrap(), b"older m");
    stream.write_all(b"de").unwrap();
    let mut byte = [0];
    stream.read_exact(&mut byte).unwrap();
    assert_eq!((&byte, std::fs::read(&at).unwrap()), (b"y", b"abcde".to_vec()));
}

#[test]
fn an_upload_that_broke_is_resumed_and_hidden_until_it_is_whole() {
    let served = start();
    let path = served.root.join("f").display().to_string();
    let sent = bytes(5_000_000);
    let mut client = Client::of(&served);
    let (_, uuid) = client.begin(&format!("write-file-New {path}"));
    assert_eq!(push(&served, &uuid, sent.len(), &sent[..4_000_000]), b"");
    assert!(client.ask(&format!("remove-uuid {uuid}")).starts_with("ERR the data ended too early"));
    assert_eq!((names(&served), client.list(&format!("{}/.s*", served.root.display()))), (vec![], vec![]));
    // Another channel still works, and one byte is sent again.
    let mut client = Client::of(&served);
    let (have, uuid) = client.begin(&format!("write-file-Resume {path}"));
    assert_eq!(have, 3_999_999);
    assert_eq!(push(&served, &uuid, sent.len() - 3_999_999, &sent[3_999_999..]), b"y");
    assert!(std::fs::read(&path).unwrap() == sent);
    client.ask(&format!("remove-uuid {uuid}"));
    // It is whole: nothing is left to be sent.
    let (have, uuid) = client.begin(&format!("write-file-Resume {path}"));
    assert_eq!(have, 5_000_000);
    assert_eq!(client.ask(&format!("remove-uuid {uuid}")), "OK");
}

#[test]
fn a_server_that_starts_again_continues_what_had_arrived() {
    let served = start();
    let path = served.root.join("f").display().to_string();
    let (_, uuid) = Client::of(&served).begin(&format!("write-file-New {path}"));
    // The channel is gone, and so is its transfer.
    wait_for(|| (served.server.shared.transfers.count() == 0).then_some(()));
    assert_eq!(push(&served, &uuid, 3, b"abc"), b"");
    let mut client = Client::of(&served);
    let (_, uuid) = client.begin(&format!("write-file-New {path}"));
    push(&served, &uuid, 10, b"abcdef");
    let Served { server, _here, root } = served;
    drop(server);
    let server = EtransferServer::start(options(&root, true), &[]).unwrap();
    let served = Served { server, _here, root };
    let mut client = Client::of(&served);
    let (have, uuid) = client.begin(&format!("write-file-Resume {path}"));
    assert_eq!(have, 5);
    assert_eq!(push(&served, &uuid, 5, b"fghij"), b"y");
    assert_eq!(std::fs::read(&path).unwrap(), b"abcdefghij");
    // A second server cannot have the same directory.
    assert!(EtransferServer::start(options(&served.root, true), &[]).is_err());
}

#[test]
fn nothing_outside_is_read_or_written() {
    let served = start();
    let root = served.root.display().to_string();
    let outside = served.root.parent().unwrap();
    std::fs::write(outside.join("secret"), b"s").unwrap();
    std::os::unix::fs::symlink("../secret", served.root.join("link")).unwrap();
    std::os::unix::fs::symlink("..", served.root.join("up")).unwrap();
    std::fs::create_dir(served.root.join("d")).unwrap();
    let mut client = Client::of(&served);
    for path in [
        "/etc/passwd".to_owned(),
        "~/f".to_owned(),
        "f".to_owned(),
        format!("{root}/../secret"),
        format!("{root}/d/../../secret"),
        format!("{root}x/f"),
        format!("{root}/link"),
        format!("{root}/up/secret"),
        format!("{root}/d"),
        format!("{root}/"),
        format!("{root}/.skyhaul-resumable/x"),
        format!("{root}/.skyhaul-uploads/x"),
        outside.join("secret").display().to_string(),
    ] {
        for mode in [
            "write-file-New",
            "write-file-OverWrite",
            "write-file-Resume",
            "write-file-SkipExisting",
            "read-file 0",
        ] {
            let reply = client.ask(&format!("{mode} {path}"));
            assert!(reply.starts_with("ERR "), "{mode} {path}: {reply}");
        }
    }
    for pattern in ["/etc/*", "../*", "~", &format!("{root}/../*")] {
        let reply = client.ask(&format!("list {pattern}"));
        assert!(reply.starts_with("ERR "), "{pattern}: {reply}");
    }
    assert_eq!(client.list(&format!("{root}/*")), [format!("{root}/d/")]);
    assert_eq!(client.list(&format!("{root}/up/*")), [""; 0]);
    let mut above = client.list("/*");
    above.retain(|path| !root.starts_with(path.trim_end_matches('/')));
    assert_eq!(above, [""; 0]);
    // Parents are made, but not through a link.
    let (_, uuid) = client.begin(&format!("write-file-New {root}/a/b/c"));
    assert_eq!(push(&served, &uuid, 1, b"x"), b"y");
    assert_eq!(std::fs::read(outside.join("secret")).unwrap(), b"s");
    let inside: Vec<_> = std::fs::read_dir(outside).unwrap().collect();
    assert_eq!(inside.len(), 2);
}

#[test]
fn only_addresses_of_the_list_connect_and_a_read_only_directory_is_not_written() {
    let served = start_with(|options| options.allow = allow(&["192.0.2.0/24"]));
    for at in [served.server.address(), served.server.data_address()] {
        assert_eq!(connect(at).read(&mut [0; 9]).unwrap_or(0), 0);
    }
    assert_eq!(served.server.counts().refused, 2);
    let served = start_with(|options| options.directories[0].is_writable = false);
    std::fs::write(served.root.join("f"), b"f").unwrap();
    let mut client = Client::of(&served);
    let root = served.root.display();
    assert_eq!(client.ask(&format!("write-file-New {root}/g")), "ERR Read-only file system");
    assert_eq!(client.begin(&format!("read-file 0 {root}/f")).0, 1);
    assert_eq!(names(&served), ["f"]);
}

#[test]
fn one_upload_at_a_time_to_a_path_and_its_end_frees_it() {
    let served = start();
    let path = served.root.join("f").display().to_string();
    let (mut one, mut other) = (Client::of(&served), Client::of(&served));
    let (_, uuid) = one.begin(&format!("write-file-Resume {path}"));
    assert_eq!(other.ask(&format!("write-file-Resume {path}")), "ERR the path is already in use");
    let mut stream = connect(served.server.data_address());
    write!(stream, "{{ uuid:{uuid}, sz:9}}abc").unwrap();
    wait_for(|| served.server.shared.transfers.find(&uuid).filter(|one| one.is_running()).map(drop));
    // Another one's UUID is no key to it.
    assert!(other.ask(&format!("remove-uuid {uuid}")).starts_with("ERR "));
    one.send(&format!("cancel {uuid}"));
    assert_eq!(one.ask(&format!("remove-uuid {uuid}")), "ERR cancelled");
    let mut back = Vec::new();
    let _ = stream.read_to_end(&mut back);
    assert_eq!(back, b"");
    wait_for(|| {
        let reply = other.ask(&format!("write-file-Resume {path}"));
        (!reply.starts_with("ERR")).then_some(())
    });
    assert_eq!(names(&served), [""; 0]);
}

#[test]
fn a_data_channel_needs_the_uuid_the_direction_and_the_size() {
    let served = start();
    let path = served.root.join("f");
    std::fs::write(&path, bytes(1000)).unwrap();
    let mut client = Client::of(&served);
    let (_, uuid) = client.begin(&format!("read-file 0 {}", path.display()));
    for head in ["GET / HTTP/1.1\r\n\r\n", "{ uuid:x, sz:1}x", "{}", &format!("{{ uuid:{uuid}, sz:1}}x")] {
        let mut stream = connect(served.server.data_address());
        stream.write_all(head.as_bytes()).unwrap();
        let mut back = Vec::new();
        let _ = stream.read_to_end(&mut back);
        assert_eq!(back, b"", "{head}");
    }
    assert_eq!(served.server.counts().rejected, 4);
    // More than there is: not a byte of it.
    let mut stream = connect(served.server.data_address());
    write!(stream, "{{ uuid:{uuid}, push:1, sz:1001}}").unwrap();
    let mut back = Vec::new();
    let _ = stream.read_to_end(&mut back);
    assert_eq!(back, b"");
    let why = client.ask(&format!("remove-uuid {uuid}"));
    assert!(why.starts_with("ERR the file has fewer bytes"), "{why}");
    // A client that does not confirm is not counted.
    let (_, uuid) = client.begin(&format!("read-file 0 {}", path.display()));
    drop(pull(&served, &uuid, 1000));
    let why = wait_for(|| served.server.shared.transfers.find(&uuid)?.result());
    assert!(why.is_err() && served.server.counts().downloads == 0);
}

#[test]
fn a_file_is_sent_to_another_server_and_only_to_those_of_the_list() {
    let (from, to) = (start(), start());
    let sent = bytes(2_500_000);
    std::fs::write(from.root.join("f"), &sent).unwrap();
    let (mut source, mut destination) = (Client::of(&from), Client::of(&to));
    let (_, there) = destination.begin(&format!("write-file-New {}/f", to.root.display()));
    let (remain, here) = source.begin(&format!("read-file 0 {}/f", from.root.display()));
    let port = to.server.data_address().port();
    let order = format!(
        "send-file {here} {there} {remain} <udt/127.0.0.1:{port}>,<tcp/127.0.0.1:{port}/mss=0,max-bw=0>"
    );
    let reply = source.ask(&order);
    assert!(reply.starts_with("OK,2500000,"), "{reply}");
    assert!(std::fs::read(to.root.join("f")).unwrap() == sent);
    assert_eq!(source.ask(&format!("remove-uuid {here}")), "OK");
    let (_, here) = source.begin(&format!("read-file 0 {}/f", from.root.display()));
    let reply = source.ask(&format!("send-file {here} {there} 1 <udt/127.0.0.1:{port}>"));
    assert!(reply.starts_with("ERR,0,") && reply.contains("UDT is not offered by this server"), "{reply}");
    let from = start_with(|options| options.send_to = allow(&["192.0.2.0/24"]));
    std::fs::write(from.root.join("f"), &sent).unwrap();
    let mut source = Client::of(&from);
    let (_, here) = source.begin(&format!("read-file 0 {}/f", from.root.display()));
    let reply =
        source.ask(&format!("send-file {here} {there} 1 <tcp/localhost:{port}>,<tcp/0.0.0.0:{port}>"));
    assert!(reply.contains("files may not be sent to 127.0.0.1"), "{reply}");
}

#[test]
fn both_versions_of_ip_are_served() {
    let Ok(probe) = std::net::TcpListener::bind("[::1]:0") else {
        // Without it on the loopback interface, there is nothing to connect to.
        println!("SKIPPED: this host has no IPv6 (enable it on the loopback interface)");
        return;
    };
    drop(probe);
    let served = start_with(|options| {
        options.listen = "[::]:0".parse().unwrap();
        options.data = "[::]:0".parse().unwrap();
    });
    let (port, data) = (served.server.address().port(), served.server.data_address().port());
    for (ip, first) in [("127.0.0.1", "tcp/0.0.0.0"), ("::1", "tcp6/[::]")] {
        let mut client = Client(BufReader::new(connect(SocketAddr::new(ip.parse().unwrap(), port))));
        assert_eq!(client.ask("data-channel-addr"), format!("OK <{first}:{data}>"));
        assert!(client.next().starts_with("OK <tcp") && client.next() == "OK");
        let (_, uuid) = client.begin(&format!("write-file-OverWrite {}/f", served.root.display()));
        let mut stream = connect(SocketAddr::new(ip.parse().unwrap(), data));
        write!(stream, "{{ uuid:{uuid}, sz:2}}hi").unwrap();
        let mut byte = [0];
        stream.read_exact(&mut byte).unwrap();
        assert_eq!(&byte, b"y");
    }
}

#[test]
fn clients_that_say_nothing_or_stall_are_ended() {
    let short = Duration::from_millis(200);
    let served = start_with(|options| options.times.first_request = short);
    let mut silent = connect(served.server.address());
    assert_eq!(silent.read(&mut [0; 9]).unwrap(), 0);
    let mut silent = connect(served.server.data_address());
    assert_eq!(silent.read(&mut [0; 9]).unwrap_or(0), 0);
    let mut drip = connect(served.server.address());
    drip.write_all(b"protocol-ver").unwrap();
    assert_eq!(drip.read(&mut [0; 9]).unwrap(), 0);
    let served = start_with(|options| options.times.stall = short);
    let mut client = Client::of(&served);
    let (_, uuid) = client.begin(&format!("write-file-New {}/f", served.root.display()));
    let mut stream = connect(served.server.data_address());
    write!(stream, "{{ uuid:{uuid}, sz:9}}abc").unwrap();
    assert_eq!(stream.read(&mut [0; 9]).unwrap_or(0), 0);
    assert_eq!(client.ask(&format!("remove-uuid {uuid}")), "ERR no data came in time");
    // A client that takes nothing.
    std::fs::write(served.root.join("g"), bytes(40_000_000)).unwrap();
    let (remain, uuid) = client.begin(&format!("read-file 0 {}/g", served.root.display()));
    let mut stream = connect(served.server.data_address());
    write!(stream, "{{ uuid:{uuid}, push:1, sz:{remain}}}").unwrap();
    let why = wait_for(|| served.server.shared.transfers.find(&uuid)?.result());
    assert_eq!(why, Err("the peer takes no data".to_owned()));
    drop((client, stream));
    let served = start_with(|options| options.times.idle = short);
    let mut client = Client::of(&served);
    assert_eq!(client.ask("protocol-version"), "OK 1");
    assert_eq!(client.next(), "");
    wait_for(|| (served.server.counts().connections == 0).then_some(()));
    assert_eq!((names(&served), served.server.shared.transfers.count()), (vec![], 0));
}

#[test]
fn ten_thousand_random_lines_end_in_errors_and_change_nothing() {
    let served = start();
    std::fs::write(served.root.join("f"), b"f").unwrap();
    let root = served.root.display().to_string();
    let words = [
        "list",
        "write-file-New",
        "write-file-Resume",
        "read-file",
        "send-file",
        "remove-uuid",
        "cancel",
        "protocol-version",
        "data-channel-addr",
        "/",
        "..",
        "~",
        "0",
        "99999999999999999999",
        "<tcp/127.0.0.1:1>",
        "\u{1}",
        "é",
        "*",
        "[",
        &root,
    ];
    let mut seed = 1u64;
    let mut random = || {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (seed >> 33) as usize
    };
    let mut client = Client::of(&served);
    let mut errors = 0;
    for n in 0..10_000 {
        let line: Vec<&str> = (0..=random() % 5).map(|_| words[random() % words.len()]).collect();
        client.send(&line.join(if n % 7 == 0 { "" } else { " " }));
        // A request has its replies by the time that of the next one is there.
        client.send("protocol-version");
        loop {
            let reply = client.next();
            errors += u64::from(reply.starts_with("ERR"));
            if reply.is_empty() {
                client = Client::of(&served);
                break;
            }
            if reply == "OK 1" {
                break;
            }
        }
    }
    assert!(errors > 1000, "{errors}");
    assert!(served.server.is_running() && names(&served) == ["f"]);
    drop(client);
    wait_for(|| (served.server.shared.transfers.count() == 0).then_some(()));
}
