//! The port itself, on loopback, with a station of the tests.

use super::*;
use skyhaul_core::balance::Prefix;
use skyhaul_core::vsi::{
    VsiAction, VsiArrival, VsiCode, VsiDisk, VsiOutcome, VsiRecording, VsiScan, VsiView,
};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::time::Duration;

/// A station that records nothing, and does what it is asked.
#[derive(Default)]
struct TestStation {
    view: Mutex<VsiView>,
}

impl VsiStation for TestStation {
    fn view(&self) -> Arc<VsiView> {
        Arc::new(lock(&self.view).clone())
    }

    async fn carry_out(&self, action: VsiAction) -> VsiOutcome {
        if let VsiAction::EndArrival { id } = action {
            lock(&self.view).arrivals.iter_mut().for_each(|arrival| arrival.is_closing |= arrival.id == id);
            // Longer than a client waits.
            tokio::time::sleep(Duration::from_secs(5)).await;
            lock(&self.view).arrivals.retain(|arrival| arrival.id != id);
            return VsiOutcome::Failed(VsiCode::Failed, "the disk has failed".into());
        }
        let mut view = lock(&self.view);
        match action {
            VsiAction::Start(options) => {
                view.scans.push(VsiScan { label: options.label.clone(), bytes: 0 });
                let (id, label) = (options.id, options.label);
                view.recordings.push(VsiRecording { id, label, is_running: true, ..VsiRecording::default() });
                VsiOutcome::Started
            }
            VsiAction::Accept(options) => {
                let arrival = VsiArrival { id: options.id, is_open: true, ..VsiArrival::default() };
                view.arrivals.push(arrival);
                VsiOutcome::Accepting { present_bytes: 0 }
            }
            VsiAction::Stop { id } => {
                view.recordings.iter_mut().find(|recording| recording.id == id).unwrap().is_running = false;
                VsiOutcome::Stopped
            }
            VsiAction::Inspect { .. }
            | VsiAction::InspectFile { .. }
            | VsiAction::Connect(_)
            | VsiAction::Send { .. }
            | VsiAction::Disconnect { .. }
            | VsiAction::EndArrival { .. } => unreachable!("no test asks for it"),
        }
    }
}

fn server(allow: &[&str]) -> (Arc<TestStation>, VsiServer) {
    server_in(VsiDialect::FlexBuff, allow)
}

fn server_in(dialect: VsiDialect, allow: &[&str]) -> (Arc<TestStation>, VsiServer) {
    let station = Arc::new(TestStation::default());
    let disk = VsiDisk { path: "/d".into(), free_bytes: 1, total_bytes: None };
    *lock(&station.view) = VsiView { is_ready: true, disks: vec![disk], ..VsiView::default() };
    let allow: Vec<Prefix> = allow.iter().map(|text| text.parse().unwrap()).collect();
    let listen = "127.0.0.1:0".parse().unwrap();
    let options = VsiOptions { listen, allow: AllowList::of(&allow), dialect };
    let server = VsiServer::start(Arc::clone(&station), options).unwrap();
    (station, server)
}

fn connect(server: &VsiServer) -> TcpStream {
    let stream = TcpStream::connect(server.address()).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
    stream
}

fn ask(stream: &mut TcpStream, line: &str) -> String {
    stream.write_all(line.as_bytes()).unwrap();
    let mut answer = String::new();
    BufReader::new(stream).read_line(&mut answer).unwrap();
    answer
}

#[test]
fn lines_are_answered_as_they_were_sent() {
    let (station, server) = server(&["127.0.0.0/8"]);
    let mut stream = connect(&server);
    assert_eq!(ask(&mut stream, "status?\n"), "!status ? 0 : 0x00000001 ;\n");
    assert_eq!(ask(&mut stream, "mtu=1500;mtu?;\r\n"), "!mtu = 0 ;!mtu ? 0 : 1500 ;\r\n");
    // Without the end of the line, as from `printf 'record=on:a_b_c;' | nc`.
    assert_eq!(ask(&mut stream, "record=on:a_b_c;"), "!record = 0 ;\n");
    assert_eq!(ask(&mut stream, "record?;\n\r"), "!record ? 0 : on : 1 : a_b_c : 0 ;\n");
    server.add_error(7, "the fan stands still");
    assert!(ask(&mut stream, "error?\n").starts_with("!error ? 0 : 7 : the fan stands still : "));
    // The end of the connection ends the line, too.
    stream.write_all(b"record=off").unwrap();
    stream.shutdown(Shutdown::Write).unwrap();
    let mut rest = String::new();
    stream.read_to_string(&mut rest).unwrap();
    assert_eq!(rest, "!record = 0 ;\n");
    assert!(!lock(&station.view).recordings[0].is_running);
    let counts = server.counts();
    assert_eq!((counts.requests, counts.rejected), (7, 0));
}

#[test]
fn a_transient_runtime_ends_with_its_connection() {
    let (station, server) = server(&["127.0.0.1"]);
    let mut stream = connect(&server);
    assert_eq!(
        ask(&mut stream, "runtime=t:transient;record=on:a_b_c\n"),
        "!runtime = 0 : t ;!record = 0 ;\n"
    );
    drop(stream);
    let end = std::time::Instant::now() + Duration::from_secs(60);
    while lock(&station.view).recordings[0].is_running {
        assert!(std::time::Instant::now() < end, "the recording goes on");
        std::thread::sleep(Duration::from_millis(10));
    }
    assert_eq!(ask(&mut connect(&server), "runtime?\n"), "!runtime ? 0 : 0 : 1 ;\n");
}

#[test]
fn a_failure_after_an_answer_of_1_is_an_error_also_when_its_client_has_gone() {
    let (_station, server) = server(&["127.0.0.1"]);
    let error = |stream: &mut TcpStream| {
        let end = std::time::Instant::now() + Duration::from_secs(60);
        loop {
            let answer = ask(stream, "error?\n");
            if answer.contains(" : 1003 : ") {
                return answer;
            }
            assert!(std::time::Instant::now() < end, "the failure is lost: {answer}");
            std::thread::sleep(Duration::from_millis(20));
        }
    };
    let mut other = connect(&server);
    // It closes its connection as soon as it is answered; one that goes before that; and one whose runtime ends what it opened.
    for (line, answer) in
        [("net2vbs=close\n", Some("!net2vbs = 1 ;\n")), ("net2vbs=close\n", None), ("", None)]
    {
        let mut stream = connect(&server);
        let opened = ask(&mut stream, "runtime=t:transient;net_protocol=tcp;net2vbs=open\n");
        assert_eq!(opened, "!runtime = 0 : t ;!net_protocol = 0 ;!net2vbs = 0 ;\n");
        match answer {
            Some(answer) => assert_eq!(ask(&mut stream, line), answer),
            None => {
                stream.write_all(line.as_bytes()).unwrap();
                std::thread::sleep(Duration::from_millis(200));
            }
        }
        drop(stream);
        assert!(error(&mut other).starts_with("!error ? 0 : 1003 : the disk has failed : "));
        assert!(ask(&mut other, "error?\n").starts_with("!error ? 0 :  : "), "there is one error, not two");
    }
}

#[test]
fn only_addresses_of_the_list_are_served() {
    let (_station, server) = server(&["10.0.0.0/8"]);
    let mut stream = connect(&server);
    let mut answer = Vec::new();
    // The connection may be reset before the request is sent.
    let _ = stream.write_all(b"status?\n");
    let _ = stream.read_to_end(&mut answer);
    assert_eq!((answer, server.counts().refused, server.counts().requests), (Vec::new(), 1, 0));
}

#[test]
fn a_mark_6_is_spoken_with_at_its_port() {
    let (station, server) = server_in(VsiDialect::Mark6, &["127.0.0.0/8"]);
    let mut stream = connect(&server);
    assert_eq!(ask(&mut stream, "group?\n"), "!group?0:0:1;\n");
    assert_eq!(ask(&mut stream, "record=on:30:30:no0001:x:mh;\r\n"), "!record=0:0;\r\n");
    assert_eq!(ask(&mut stream, "record?;"), "!record?0:0:recording:1:1:x_mh_no0001;\n");
    assert_eq!(ask(&mut stream, "record=off\n"), "!record=0:0;\n");
    assert!(!lock(&station.view).recordings[0].is_running);
    // Its runtime is that of all its connections, and a runtime of VSI-S is not known.
    let mut other = connect(&server);
    assert_eq!(ask(&mut other, "record?\n"), "!record?0:0:off:1:1:x_mh_no0001;\n");
    assert_eq!(ask(&mut other, "runtime=t:transient\n"), "!runtime=7:1:no such keyword;\n");
    let long = "x".repeat(5000);
    assert_eq!(ask(&mut other, &format!("{long}\n")), "!syntax=3:1:the line is too long;\n");
}

#[test]
fn an_honest_client_is_answered_beside_hostile_ones() {
    for (dialect, answer) in [(VsiDialect::FlexBuff, "!dts_id ? 0 : - : "), (VsiDialect::Mark6, "!dts_id?0:")]
    {
        is_answered_beside_hostile_ones(dialect, answer);
    }
}

/// A connection from an address of its own.
fn connect_from(server: &VsiServer, host: u8) -> TcpStream {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build().unwrap();
    let connected = runtime.block_on(async {
        let socket = tokio::net::TcpSocket::new_v4().unwrap();
        socket.bind(SocketAddr::from(([127, 0, 0, host], 0))).unwrap();
        socket.connect(server.address()).await.unwrap()
    });
    let stream = connected.into_std().unwrap();
    stream.set_nonblocking(false).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
    stream
}

/// Hosts of the list that keep all places, each by connections that have sent requests.
#[test]
fn hosts_that_keep_all_places_shut_no_other_out() {
    let (_station, server) = server(&["127.0.0.0/8"]);
    let mut kept: Vec<TcpStream> =
        (0..MAX_CONNECTIONS).map(|n| connect_from(&server, 10 + (n % 31) as u8)).collect();
    kept.iter_mut().for_each(|stream| assert!(!ask(stream, "status?\n").is_empty()));
    for _ in 0..3 {
        let mut honest = connect_from(&server, 200);
        assert!(ask(&mut honest, "status?\n").starts_with("!status"), "the honest host has no place");
        // It keeps it while the others try to have more.
        kept.extend((10..41).map(|host| connect_from(&server, host)));
        assert!(ask(&mut honest, "status?\n").starts_with("!status"));
    }
    assert!(server.counts().connections <= (MAX_CONNECTIONS + crate::tcp_service::MAX_CLOSING) as u64);
}

fn is_answered_beside_hostile_ones(dialect: VsiDialect, expected: &str) {
    let (_station, server) = server_in(dialect, &["127.0.0.1"]);
    let mut honest = connect(&server);
    ask(&mut honest, "status?\n");
    // Silent ones: more than may be connected from one address. Those that proved nothing make room.
    let silent: Vec<TcpStream> = (0..2 * MAX_PER_ADDRESS).map(|_| connect(&server)).collect();
    // Ones that send garbage and long lines, and read nothing.
    let over = Arc::new(std::sync::atomic::AtomicBool::new(false));
    let flooding: Vec<_> = (0..4)
        .map(|kind| {
            let (over, address) = (Arc::clone(&over), server.address());
            let connected = move || {
                let stream = TcpStream::connect(address).unwrap();
                stream.set_write_timeout(Some(Duration::from_millis(50))).unwrap();
                stream
            };
            let piece: &[u8] =
                [&b"\xff\x00;=\n"[..], b"x", b"status?;", b"record=on:a_b_c;record=off\n"][kind];
            let bytes = piece.repeat(4096);
            std::thread::spawn(move || {
                let mut stream = connected();
                while !over.load(Ordering::Relaxed) {
                    match stream.write(&bytes) {
                        Ok(_) => {}
                        Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                        Err(_) => stream = connected(),
                    }
                }
            })
        })
        .collect();
    // The Field System waits five seconds for an answer.
    honest.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
    for n in 0..20 {
        let answer = ask(&mut honest, "dts_id?\n");
        assert!(answer.starts_with(expected), "{n}: {answer}");
        std::thread::sleep(Duration::from_millis(10));
    }
    over.store(true, Ordering::Relaxed);
    flooding.into_iter().for_each(|thread| thread.join().unwrap());
    assert!(server.counts().rejected > 0 && server.counts().connections <= MAX_CONNECTIONS as u64);
    drop(silent);
    // It stops although clients are connected.
    drop(server);
    assert_eq!(honest.read(&mut [0; 8]).unwrap_or(0), 0);
}
