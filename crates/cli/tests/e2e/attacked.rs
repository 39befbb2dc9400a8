//! The doors of measurements and of the balancer under attack, an honest client beside each: it is served within a second, and
//! what the attack costs is bounded by the numbers of `docs/internals/threat-model.md`.
//!
//! Packets in the name of others, and what an attack costs the attacked.

use crate::balance::{Place, send, whole};
use crate::site::{Job, wait_for, words};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SendFlags, SocketFlags, SocketType, ipproto, sendto, socket_with};
use serde_json::{Value, json};
use skyhaul::core::wire::header::Order;
use skyhaul::core::wire::stamp::{Reflection, Stamp, TestPacket};
use skyhaul::core::wire::udpmon::{Command, Message};
use skyhaul_measure::probe::iperf3::control::Iperf3State;
use skyhaul_measure::probe::iperf3::{
    Iperf3ClientOptions, Iperf3Params, Iperf3ServerOptions, TestDirection, run,
};
use skyhaul_measure::probe::stamp::ReflectorOptions;
use skyhaul_measure::probe::udpmon::ResponderOptions;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// The attacker's address; honest clients have 127.0.0.1.
const ATTACKER: [u8; 4] = [127, 0, 0, 66];

/// `probe serve` with these doors, on free ports.
struct Server {
    job: Job,
    _directory: tempfile::TempDir,
}

impl Server {
    fn start(doors: &str) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let token = directory.path().join("token");
        let line = format!(
            "probe serve --listen 127.0.0.1 --port 0 --json --token-file {} {doors}",
            token.display()
        );
        Self { job: Job::start(&words(&line)), _directory: directory }
    }

    /// Where it said that it listens, behind these words.
    fn at(&mut self, what: &str) -> SocketAddr {
        wait_for(what, || {
            let said = self.job.stderr();
            let found = said.lines().find_map(|line| line.strip_prefix(what));
            assert!(found.is_some() || self.job.is_running(), "it ended: {said}");
            let word = found?.split_whitespace().next()?;
            Some(word.trim_end_matches([',', ';', ':']).parse().unwrap())
        })
    }

    fn stop(self) -> Value {
        self.job.signal(rustix::process::Signal::INT);
        self.job.finish().expect(0).json()
    }
}

fn socket(ip: [u8; 4]) -> UdpSocket {
    let socket = UdpSocket::bind(SocketAddr::from((ip, 0))).unwrap();
    socket.set_read_timeout(Some(Duration::from_secs(1))).unwrap();
    socket
}

/// A test packet of an honest sender comes back.
fn reflected(by: SocketAddr) {
    let honest = socket([127, 0, 0, 1]);
    let packet = TestPacket { sequence: 7, timestamp: Stamp::of_unix(1 << 60).0, ..TestPacket::default() };
    let mut answer = [0; 100];
    served("a sender of STAMP", || {
        honest.send_to(&packet.write(), by).unwrap();
        let came = honest.recv(&mut answer).is_ok_and(|length| length == 44);
        came && Reflection::of(&answer[..44]).is_some_and(|back| back.sender_sequence == 7)
    });
}

fn count(stats: &Value, name: &str) -> u64 {
    stats[name].as_u64().unwrap_or_else(|| panic!("{name} of {stats}"))
}

#[test]
fn one_packet_does_not_circulate_between_two_reflectors() {
    let (mut one, mut two) = (Server::start("--stamp 0"), Server::start("--stamp 0"));
    let at = [&mut one, &mut two].map(|server| server.at("reflecting STAMP on "));
    // What one of them sends through this host in the middle arrives at the other, as if it came from there.
    let middle = [socket([127, 0, 0, 1]), socket([127, 0, 0, 1])];
    middle.iter().zip(at).for_each(|(socket, at)| socket.connect(at).unwrap());
    middle[0].send(&TestPacket::default().write()).unwrap();
    let (mut octets, mut passed) = ([0; 100], 0);
    for n in 0..100 {
        let Ok(length) = middle[n % 2].recv(&mut octets) else { break };
        middle[(n + 1) % 2].send(&octets[..length]).unwrap();
        passed += 1;
    }
    assert_eq!(passed, 1, "the reflection is not reflected");
    // The same without a host in the middle: each in the other's name, and one that looks like nothing.
    let spoofed = spoof(at[0], at[1], &TestPacket::default().write()) && spoof(at[1], at[0], &[0x5A; 200]);
    reflected(at[0]);
    reflected(at[1]);
    std::thread::sleep(Duration::from_millis(300));
    let stats = [one.stop(), two.stop()].map(|stats| stats["stamp"].clone());
    let both = |name: &str| stats.iter().map(|stats| count(stats, name)).sum::<u64>();
    let attacks = 1 + 2 * u64::from(spoofed);
    assert_eq!(both("reflections"), attacks, "{stats:?}");
    assert!(both("reflected") <= attacks + 2 * 20, "{stats:?}");
}

#[test]
fn a_reflector_does_not_reflect_to_itself() {
    let mut server = Server::start("--stamp 0 --udpmon 0");
    let (stamp, udpmon) = (server.at("reflecting STAMP on "), server.at("serving udpmon on "));
    // From its own address; from another host's port of STAMP, of udpmon, of echo; from its own port of another host.
    let others = [862, 14233, 7, stamp.port()].map(|port| SocketAddr::from(([127, 0, 0, 9], port)));
    let all: Vec<SocketAddr> = others.into_iter().chain([stamp]).collect();
    if !all.iter().all(|from| spoof(*from, stamp, &[1; 44])) {
        return;
    }
    // A responder that is asked in its own name, and in the reflector's: it begins a test, and is asked what it counted.
    for from in [udpmon, stamp] {
        for command in
            [Command::ZeroStats, Command::GetStats, Command::TestEnd, Command::ZeroStats, Command::GetStats]
        {
            spoof(from, udpmon, &Message::new(Order::Little, command, 0).octets());
        }
    }
    reflected(stamp);
    std::thread::sleep(Duration::from_millis(300));
    let stats = server.stop();
    assert_eq!(count(&stats["stamp"], "from_services"), 5, "{stats}");
    assert_eq!(count(&stats["udpmon"], "from_services"), 5, "{stats}");
    // Of each answer, the reflector may send one reflection to the responder, which may be a question; its answer ends it.
    assert!(count(&stats["stamp"], "reflected") <= 20 + 20, "{stats}");
    assert!(count(&stats["udpmon"], "answers") <= 20, "{stats}");
}

#[test]
fn a_flood_of_questions_leaves_a_responder_of_udpmon_for_others() {
    let mut server = Server::start("--udpmon 0 --stamp 0");
    let (at, stamp) = (server.at("serving udpmon on "), server.at("reflecting STAMP on "));
    let (before, begun) = (cost(server.job.pid()), Instant::now());
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let flood = socket(ATTACKER);
            let commands = [Command::ZeroStats, Command::GetStats, Command::GetSnmp];
            let questions = commands.map(|command| Message::new(Order::Little, command, 0).octets());
            // It ends, too, if what goes on beside it fails.
            while !stop.load(Ordering::Relaxed) && begun.elapsed() < Duration::from_secs(60) {
                for question in &questions {
                    let _ = flood.send_to(question, at);
                }
                let _ = flood.send_to(&[3; 44], stamp);
            }
        });
        let honest = socket([127, 0, 0, 1]);
        while begun.elapsed() < Duration::from_secs(3) {
            served("a requester of udpmon", || {
                let (mut answer, zero) = ([0; 300], Message::new(Order::Big, Command::ZeroStats, 0));
                honest.send_to(&zero.octets(), at).unwrap();
                let length = honest.recv(&mut answer).unwrap_or(0);
                Message::read(&answer[..length]).is_ok_and(|answer| answer.command() == Some(Command::Ok))
            });
            reflected(stamp);
        }
        stop.store(true, Ordering::Relaxed);
    });
    let after = cost(server.job.pid());
    let stats = server.stop();
    println!("{stats}");
    assert!(
        after.0 <= before.0 + 64 && after.1 == before.1 && after.2 <= before.2 + 4,
        "{before:?} {after:?}"
    );
    // A second's share at once, and one in each second; and some for the honest one.
    let shares = begun.elapsed().as_secs() + 2;
    assert!(count(&stats["udpmon"], "answers") <= 100_000 * shares + 1000, "{stats}");
    assert!(count(&stats["stamp"], "reflected") <= 10_000 * shares + 1000, "{stats}");
}

/// One of the attacker's tests of 256 streams; none if it is refused. What it does not read, it does not read.
fn greedy(to: SocketAddr, number: u8) -> Option<Vec<TcpStream>> {
    let cookie = [&[b'a' + number; 36][..], &[0]].concat();
    let mut control = connect_from(ATTACKER, to);
    control.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    control.write_all(&cookie).unwrap();
    let params = Iperf3Params {
        streams: 128,
        way: TestDirection::Both,
        time: Duration::from_secs(60),
        ..Iperf3Params::default()
    };
    let (text, mut state) = (params.write().to_string(), [0]);
    let length = u32::try_from(text.len()).unwrap().to_be_bytes();
    while state[0] != Iperf3State::CreateStreams.octet() {
        control.read_exact(&mut state).ok()?;
        match Iperf3State::read(state[0])? {
            Iperf3State::ParamExchange => control.write_all(&[&length, text.as_bytes()].concat()).ok()?,
            Iperf3State::CreateStreams => {}
            _ => return None,
        }
    }
    let mut all = vec![control];
    for _ in 0..256 {
        let mut stream = connect_from(ATTACKER, to);
        stream.write_all(&cookie).unwrap();
        all.push(stream);
    }
    while state[0] != Iperf3State::TestRunning.octet() {
        all[0].read_exact(&mut state).ok()?;
    }
    Some(all)
}

fn is_served(to: SocketAddr) -> bool {
    let params = Iperf3Params { bytes: 100_000, ..Iperf3Params::default() };
    let report = run(
        &Iperf3ClientOptions { params, ..Iperf3ClientOptions::new(to) },
        &AtomicBool::new(false),
        &mut |_| {},
    );
    report.is_ok_and(|report| report.sum(true, false).bytes == 100_000)
}

#[test]
fn sixteen_tests_of_256_streams_leave_a_server_of_iperf3_for_others() {
    let mut server = Server::start("--iperf3 0");
    let at = server.at("serving iperf3 on ");
    let begun: Vec<Vec<TcpStream>> = (0..16).filter_map(|n| greedy(at, n)).collect();
    // 384 streams of one address: the second test of 256 has no room.
    assert_eq!(begun.len(), 1);
    for _ in 0..3 {
        served("a client of iperf3", || is_served(at));
    }
    let (memory, threads, descriptors) = cost(server.job.pid());
    println!("{memory} MiB, {threads} threads, {descriptors} descriptors");
    assert!(memory <= 768, "{memory} MiB");
    assert!(threads <= 384 + 3 * 16 + 16, "{threads} threads");
    assert!(descriptors <= 384 + 256 + 64, "{descriptors} descriptors");
    // What a test had is free when its client is gone.
    drop(begun);
    let again = wait_for("the attacker's share to be free", || greedy(at, 20));
    served("a client of iperf3", || is_served(at));
    drop(again);
    let stats = server.stop();
    assert!(count(&stats["iperf3"], "no_room") >= 1, "{stats}");
}

#[test]
fn a_worker_at_the_balancer_itself_or_at_no_single_host_is_refused() {
    let place = Place::new();
    let running = place.start("--report");
    let worker = running.join();
    let (ip, port) = running.data.rsplit_once(':').unwrap();
    let port: u16 = port.parse().unwrap();
    let attack = |ip: &str, port: u16, bits: u32| {
        let wanted =
            json!({"name": "w", "ipAddress": ip, "udpPort": port, "portRange": bits, "keepLbHeader": true});
        let (status, said) = running.ask("POST", "/lb/1/sessions", &running.token, &wanted);
        assert_eq!(status, 400, "{ip}:{port}: {said}");
        said.to_string()
    };
    assert!(attack(ip, port, 0).contains(&format!("itself receives on {}", running.data)));
    attack(ip, port & !1, 1);
    for ip in [
        "255.255.255.255",
        "127.255.255.255",
        "240.1.2.3",
        "0.0.0.0",
        "0.0.0.1",
        "224.0.0.1",
        "::ffff:255.255.255.255",
    ] {
        assert!(attack(ip, 9, 0).contains("one"), "{ip}");
    }
    // Events go to the honest worker, each packet once.
    served("a worker", || {
        static TICK: std::sync::atomic::AtomicU64 = std::sync::atomic::AtomicU64::new(0);
        let tick = TICK.fetch_add(1, Ordering::Relaxed);
        send(&running.data, tick..tick + 1);
        whole(&worker, tick..tick + 1);
        worker.ready(&running);
        true
    });
    std::thread::sleep(Duration::from_millis(300));
    let report = running.stop();
    let one = &report["reservations"][0];
    assert_eq!((&one["packets"], &one["refused"]), (&one["forwarded"], &json!({})), "{report}");
    assert!(one["packets"].as_u64().unwrap() <= 3 * 20, "{report}");
}

#[test]
fn a_receiver_does_not_forward_to_itself() {
    let taken = UdpSocket::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    for (listen, to) in [("127.0.0.1", "127.0.0.1"), ("0.0.0.0", "127.0.0.1"), ("0.0.0.0", "127.7.7.7")] {
        let line = format!("receive --listen udp://{listen}:{taken} --forward udp://{to}:{taken}");
        let said = super::site::run(&line).expect(2).stderr;
        assert!(said.contains("would circulate") && said.contains("hint: "), "{said}");
    }
}

/// A certificate of `localhost`, and its key.
fn certificate(at: &std::path::Path) -> (String, String) {
    let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    let file = |name: &str, text: String| {
        std::fs::write(at.join(name), text).unwrap();
        at.join(name).display().to_string()
    };
    (file("tls.pem", made.cert.pem()), file("tls.key", made.signing_key.serialize_pem()))
}

/// Ten thousand connections of twenty addresses whose TLS handshake never ends: nothing, a few bytes, 64 KiB of one message, and what
/// is no TLS. None, with a visible reason, where there are too few descriptors.
fn half_open(to: SocketAddr) -> Option<(Vec<TcpStream>, MutexGuard<'static, ()>)> {
    // There are descriptors for one attack at a time.
    static ALONE: Mutex<()> = Mutex::new(());
    let alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let files = skyhaul::io::host::descriptors::raise();
    if files < 16_384 {
        println!("SKIPPED: {files} open files are too few (ulimit -Hn 16384)");
        return None;
    }
    let mut message = vec![1, 0, 0xFF, 0xF0, 3, 3];
    message.resize(60_000, 0);
    let record = |part: &[u8]| [&[22, 3, 1][..], &(part.len() as u16).to_be_bytes(), part].concat();
    let long: Vec<u8> = message.chunks(4096).flat_map(record).collect();
    let parts: [&[u8]; 4] = [b"", &[22, 3, 1, 2, 0, 1], &long, b"GET / HTTP/1.1\r\n\r\n"];
    let one = |n: usize| {
        let mut stream = connect_from([127, 0, 0, 100 + (n % 20) as u8], to);
        stream.set_nonblocking(true).unwrap();
        // It may be closed before all is sent.
        let _ = stream.write(parts[n % parts.len()]);
        stream
    };
    Some(((0..10_000).map(one).collect(), alone))
}

#[test]
fn half_open_handshakes_leave_the_control_plane_for_others() {
    let directory = tempfile::tempdir().unwrap();
    let (pem, key) = certificate(directory.path());
    let token = directory.path().join("token").display().to_string();
    let line = format!("{} --token-file {token} --tls-cert {pem} --tls-key {key}", super::balance::FREE);
    let mut job = Job::start(&words(&line));
    let port: u16 = wait_for("it to listen", || {
        assert!(job.is_running(), "it ended: {}", job.stderr());
        let said = job.stderr();
        said.lines().find_map(|line| line.split_once("https://127.0.0.1:")?.1.parse().ok())
    });
    let honest = || {
        let uri = format!("ejfats://localhost:{port}/");
        super::site::run(&format!(
            "balancer version --balancer {uri} --token-file {token} --certificate {pem}"
        ))
        .code
            == Some(0)
    };
    served("a client of the control plane", honest);
    let before = cost(job.pid());
    let Some(held) = half_open(SocketAddr::from(([127, 0, 0, 1], port))) else { return };
    for _ in 0..3 {
        served("a client of the control plane", honest);
    }
    let after = cost(job.pid());
    println!("{before:?} {after:?}");
    // 48 KiB of each of 4096 connections.
    assert!(
        after.0 <= before.0 + 192 && after.1 <= before.1 + 8 && after.2 <= before.2 + 4096 + 72,
        "{after:?}"
    );
    wait_for("them to be ended", || (cost(job.pid()).2 <= before.2 + 16).then_some(()));
    served("a client of the control plane", honest);
    drop(held);
}

#[test]
fn half_open_handshakes_leave_the_server_of_files_for_others() {
    let site = super::site::Site::new(1);
    let place = site.disks[0].parent().unwrap().to_owned();
    let (pem, key) = certificate(&place);
    std::fs::create_dir(place.join("exp")).unwrap();
    std::fs::write(place.join("exp/f"), "what is served").unwrap();
    let http = format!(
        "[http]\nlisten = '127.0.0.1:0'\ncertificate = '{pem}'\nkey = '{key}'\n[[http.root]]\nname = 'exp'\ndirectory = '{}'",
        place.join("exp").display()
    );
    let serving = super::serve::Serving::start(site, &http);
    let port: u16 = wait_for("files to be served", || {
        let said = serving.job.stderr();
        said.lines().find_map(|line| line.split_once("files on https://127.0.0.1:")?.1.parse().ok())
    });
    let out = place.join("out");
    let honest = || {
        let _ = std::fs::remove_file(out.join("f"));
        let line = format!("copy https://localhost:{port}/exp/f {} --ca {pem}", out.display());
        super::site::run(&line).expect(0);
        std::fs::read(out.join("f")).is_ok_and(|bytes| bytes == b"what is served")
    };
    std::fs::create_dir(&out).unwrap();
    served("a client of the server of files", honest);
    let before = cost(serving.job.pid());
    let Some(held) = half_open(SocketAddr::from(([127, 0, 0, 1], port))) else { return };
    for _ in 0..3 {
        served("a client of the server of files", honest);
    }
    let after = cost(serving.job.pid());
    println!("{before:?} {after:?}");
    // 48 KiB of each of 1024 connections.
    assert!(
        after.0 <= before.0 + 48 && after.1 <= before.1 + 16 && after.2 <= before.2 + 1024 + 72,
        "{after:?}"
    );
    wait_for("them to be ended", || (cost(serving.job.pid()).2 <= before.2 + 16).then_some(()));
    // Each that came and was not served is in a count. Some come late: the kernel had no room for them among those that wait to be
    // accepted, and tries again after seconds.
    let counts = |names: [&str; 2]| {
        let metrics = serving.metrics();
        let count = |name: &str| {
            let name = format!("skyhaul_station_files_{name} ");
            let line = metrics.lines().find_map(|line| line.strip_prefix(&name));
            line.unwrap_or_else(|| panic!("{name}: {metrics}")).parse::<u64>().unwrap()
        };
        names.map(count).iter().sum::<u64>()
    };
    let ended = || counts(["handshakes_failed_total", "connections_refused_total"]);
    wait_for("each connection to be counted", || (ended() >= 10_000).then_some(()));
    assert_eq!(ended(), 10_000);
    assert!(counts(["connections_displaced_total", "connections_silent_total"]) > 1000);
    drop(held);
}

/// Every function in the sources below a directory.
fn functions(directory: &std::path::Path, into: &mut std::collections::BTreeSet<String>) {
    for entry in std::fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            functions(&path, into);
        } else if path.extension().is_some_and(|kind| kind == "rs") {
            let text = std::fs::read_to_string(&path).unwrap();
            into.extend(
                text.split("fn ").skip(1).filter_map(|rest| Some(rest.split_once('(')?.0.to_owned())),
            );
        }
    }
}

#[test]
fn the_threat_model_names_tests_and_numbers_that_are_there() {
    let crates = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let page = std::fs::read_to_string(crates.join("../docs/internals/threat-model.md")).unwrap();
    let mut known = std::collections::BTreeSet::new();
    functions(crates, &mut known);
    let names: Vec<&str> = page.split('`').skip(1).step_by(2).filter(|word| word.contains("::")).collect();
    let tests = names.iter().filter_map(|name| name.rsplit("::").next()).filter(|name| *name != "…");
    let missing: Vec<&str> = tests.filter(|name| !known.contains(*name)).collect();
    assert!(names.len() > 30 && missing.is_empty(), "{missing:?}");
    let (stamp, udpmon) = (ReflectorOptions::default(), ResponderOptions::default());
    let iperf3 = Iperf3ServerOptions::default();
    for (number, what) in [
        (stamp.per_source, "reflections of a source"),
        (stamp.sessions as u64, "senders counted"),
        (udpmon.per_source, "answers of a source"),
        (udpmon.tests as u64, "tests, or `--tests`"),
        (iperf3.guests as u64, "connections without a cookie"),
        (iperf3.tests as u64, "tests, or `--tests`"),
        (iperf3.streams as u64, "streams ("),
        (iperf3.streams as u64 / 4 * 3, "of one address), each a thread"),
        (iperf3.memory >> 30, "GiB of blocks and buffers"),
        ((iperf3.memory / 4 * 3) >> 20, "MiB of one address"),
        (iperf3.idle.as_secs(), "s in which nothing moves"),
    ] {
        let text = if number > 9999 { format!("{} 000", number / 1000) } else { number.to_string() };
        assert!(page.contains(&format!("{text} {what}")), "{text} {what}");
    }
}

/// Send a datagram in the name of `from`. False, with a visible reason, where that is not allowed.
fn spoof(from: SocketAddr, to: SocketAddr, payload: &[u8]) -> bool {
    let raw = socket_with(AddressFamily::INET, SocketType::RAW, SocketFlags::empty(), Some(ipproto::RAW));
    let raw = match raw {
        Ok(raw) => raw,
        Err(Errno::PERM | Errno::ACCESS) => {
            // Only root may open raw sockets, and nothing else can set a source address.
            println!("SKIPPED: no packets in the name of others (run as root)");
            return false;
        }
        Err(error) => panic!("{error}"),
    };
    let (SocketAddr::V4(from), SocketAddr::V4(to)) = (from, to) else { panic!("of IPv4") };
    let length = u16::try_from(28 + payload.len()).unwrap();
    // The kernel fills in the checksum of IP; UDP of IPv4 may do without.
    let mut packet = vec![0x45, 0, 0, 0, 0, 0, 0, 0, 64, 17, 0, 0];
    packet[2..4].copy_from_slice(&length.to_be_bytes());
    packet.extend(from.ip().octets());
    packet.extend(to.ip().octets());
    for half in [from.port(), to.port(), length - 20, 0] {
        packet.extend(half.to_be_bytes());
    }
    packet.extend(payload);
    let sent = sendto(&raw, &packet, SendFlags::empty(), &SocketAddr::from((*to.ip(), 0))).unwrap();
    assert_eq!(sent, packet.len());
    true
}

/// A connection from this address of loopback.
fn connect_from(ip: [u8; 4], to: SocketAddr) -> TcpStream {
    let socket = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None).unwrap();
    socket.bind(&SocketAddr::from((ip, 0)).into()).unwrap();
    socket.connect(&to.into()).unwrap();
    socket.into()
}

/// An honest client is served within a second. On a machine that stands still meanwhile, the next time.
#[track_caller]
fn served(what: &str, mut ask: impl FnMut() -> bool) {
    let mut took = Vec::new();
    for _ in 0..20 {
        let begun = Instant::now();
        if ask() && begun.elapsed() < Duration::from_secs(1) {
            return;
        }
        took.push(begun.elapsed());
    }
    panic!("{what}: not served within a second, {took:?}");
}

/// What a process has: resident MiB, threads, descriptors.
fn cost(pid: u32) -> (u64, u64, usize) {
    let text = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let of = |name: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(name)).unwrap();
        line.split_whitespace().next().unwrap().parse::<u64>().unwrap()
    };
    let descriptors = std::fs::read_dir(format!("/proc/{pid}/fd")).unwrap().count();
    (of("VmRSS:") / 1024, of("Threads:"), descriptors)
}
