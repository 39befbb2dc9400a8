//! Against SoftUiWARP, iWARP in user space: Sends, Writes and Reads of both sides over TCP.
//!
//! `SKYHAUL_SOFTUIWARP` is the folder of its programs `write_bw` and `read_bw`, built with
//! `-DCMAKE_CXX_FLAGS="-include cctype -DRPING -DPERFTEST_TEST"`. Their bugs that are worked around here, not in the library:
//! - it never computes the CRC, and says so: neither side asks for one;
//! - it writes the fields of its Read Requests in the order of its own CPU (RFC 5040, 4.4 wants the network's);
//! - it takes the pad of a frame for (length + 2) mod 4 bytes, which is right for even lengths only (RFC 5044, 4.1).

use skyhaul_core::placement::Nanos;
use skyhaul_core::rdma::{
    AddressProof, MemorySlice, RdmaConfig, RdmaContext, RdmaEndpoint, RdmaEvent, RegionRights, RemoteAddress,
    RemoteRead, RemoteWrite,
};
use skyhaul_core::wire::crc32c::crc32c_append;
use skyhaul_core::wire::rdma::RdmaProfile;
use skyhaul_core::wire::rdma::mpa::frame_length;
use std::io::{BufRead as _, ErrorKind, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// Bytes of the region of each side, and of one of its messages.
const BYTES: u64 = 128 << 10;
const ROUNDS: usize = 3;
const REQUESTS: u64 = 4;
/// What it sends first: where its region lies, its STag, and its length, in the order of its CPU.
const ADVERT: u64 = 24;
/// Behind the region: what is sent, what is received, and what is read back.
const OUT: u64 = BYTES;
const IN: u64 = OUT + 64;
const BACK: u64 = IN + 64;
const LIMIT: Duration = Duration::from_secs(20);

struct NoProof;

impl AddressProof for NoProof {
    fn cookie(&self, _: SocketAddr, _: u64) -> [u8; 16] {
        unreachable!("a stream proves its peer's address")
    }

    fn is_cookie(&self, _: SocketAddr, _: u64, _: [u8; 16]) -> bool {
        unreachable!("a stream proves its peer's address")
    }
}

fn slice(start: u64, length: u64) -> MemorySlice {
    MemorySlice { memory: 0, start, length }
}

/// One of its programs. It waits busily for what does not come, so it is ended whatever happens.
struct Program(Child);

impl Program {
    fn start(name: &str, words: &[&str]) -> Option<Program> {
        let Some(folder) = std::env::var_os("SKYHAUL_SOFTUIWARP").map(PathBuf::from) else {
            eprintln!(
                "SKIPPED: SoftUiWARP is not here (git clone https://github.com/kazikame/SoftUiWarp; cmake; SKYHAUL_SOFTUIWARP=its folder perftest)"
            );
            return None;
        };
        let (bytes, rounds, requests) = (BYTES.to_string(), ROUNDS.to_string(), REQUESTS.to_string());
        let mut command = Command::new(folder.join(name));
        command.args(words).args(["-b", &bytes, "-i", &rounds, "-r", &requests]);
        Some(Program(command.stderr(Stdio::piped()).spawn().unwrap()))
    }

    /// Ends it, and returns what it has said.
    fn end(mut self) -> String {
        let mut said = String::new();
        let mut output = std::io::BufReader::new(self.0.stderr.take().unwrap());
        while !said.contains("Completed test!") && output.read_line(&mut said).unwrap() > 0 {}
        said
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Its own bytes: they count up from 0, in each byte.
fn counting(bytes: &[u8]) -> bool {
    bytes.iter().enumerate().all(|(at, &byte)| byte == at as u8)
}

/// One end, with the two connections that these programs make: for frames, and to keep in step.
struct End {
    endpoint: RdmaEndpoint,
    memory: Vec<u8>,
    frames: TcpStream,
    steps: TcpStream,
    arrived: Vec<u8>,
    is_first: bool,
    id: Option<u32>,
    start: Instant,
    random: u64,
    events: Vec<RdmaEvent>,
    stag: u32,
    theirs: RemoteAddress,
}

impl End {
    fn new(frames: TcpStream, steps: TcpStream) -> End {
        let config = RdmaConfig {
            profile: RdmaProfile::Tcp,
            // Segments of 65526 and 540 bytes: even.
            datagram_bytes: u16::MAX,
            crc: Some(false),
            ..RdmaConfig::default()
        };
        frames.set_nodelay(true).unwrap();
        frames.set_read_timeout(Some(Duration::from_millis(1))).unwrap();
        steps.set_nonblocking(true).unwrap();
        let theirs = RemoteAddress { stag: 0, offset: 0 };
        let mut end = End {
            endpoint: RdmaEndpoint::new(config),
            memory: vec![0; (BACK + BYTES) as usize],
            frames,
            steps,
            arrived: Vec::new(),
            is_first: true,
            id: None,
            start: Instant::now(),
            random: 1,
            events: Vec::new(),
            stag: 0,
            theirs,
        };
        let rights = RegionRights { read: true, write: true, invalidate: false };
        end.stag = end.with(|endpoint, context| endpoint.register(slice(0, BYTES), rights, context)).unwrap();
        end
    }

    fn with<T>(&mut self, act: impl FnOnce(&mut RdmaEndpoint, &mut RdmaContext<'_>) -> T) -> T {
        let mut state = self.random;
        let mut random = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            state >> 16
        };
        let now = Nanos(1 + self.start.elapsed().as_nanos() as u64);
        let mut context = RdmaContext { now, random: &mut random, proof: &NoProof, crc32c: crc32c_append };
        let done = act(&mut self.endpoint, &mut context);
        self.random = state;
        done
    }

    fn later(&self) -> Nanos {
        Nanos((self.start.elapsed() + LIMIT).as_nanos() as u64)
    }

    fn id(&self) -> u32 {
        self.id.expect("a connection")
    }

    /// Carries frames both ways until `is_done`.
    fn carry(&mut self, what: &str, mut is_done: impl FnMut(&mut End) -> bool) {
        let start = Instant::now();
        loop {
            while let Some(transmit) = self.with(|endpoint, context| endpoint.poll_transmit(context)) {
                let payload = transmit.payload.map_or(0..0, |part| part.start..part.start + part.length);
                let bytes = transmit.assemble(&self.memory[payload.start as usize..payload.end as usize]);
                self.frames.write_all(&bytes).unwrap();
            }
            while let Some(event) = self.endpoint.poll_event() {
                assert!(
                    !matches!(event, RdmaEvent::Closed { .. }),
                    "{what}: {event:?}, {:?}",
                    self.endpoint.counts()
                );
                self.events.push(event);
            }
            if is_done(self) {
                return;
            }
            assert!(start.elapsed() < LIMIT, "{what}: {:?}", self.events);
            let mut some = vec![0; 1 << 20];
            match self.frames.read(&mut some) {
                Ok(0) => panic!("{what}: it has ended"),
                Ok(length) => self.arrived.extend(&some[..length]),
                Err(why) if matches!(why.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {}
                Err(why) => panic!("{what}: {why}"),
            }
            while let Some(length) = frame_length(self.is_first, &self.arrived).unwrap() {
                if self.arrived.len() < length {
                    break;
                }
                let frame = self.arrived.drain(..length).collect();
                self.take(frame);
            }
        }
    }

    fn take(&mut self, mut frame: Vec<u8>) {
        self.is_first = false;
        let Some(id) = self.id else {
            let peer = self.frames.peer_addr().unwrap();
            self.id = self.with(|endpoint, context| endpoint.handle_request(peer, &frame, context));
            return;
        };
        // A Read Request: untagged, opcode 1, queue 1.
        if frame.len() == 2 + 18 + 28 + 4 && frame[2] & 0x80 == 0 && frame[3] & 0xF == 1 {
            let fields = &mut frame[20..48];
            [0..4, 4..12, 12..16, 16..20, 20..28].into_iter().for_each(|field| fields[field].reverse());
        }
        if let Some(place) = self.with(|endpoint, context| endpoint.handle_frame(id, &frame, context)) {
            self.memory[place.to.start as usize..][..place.to.length as usize]
                .copy_from_slice(&frame[place.from]);
        }
    }

    fn wait(&mut self, what: &str, mut is_it: impl FnMut(&RdmaEvent) -> bool) -> RdmaEvent {
        let mut found = None;
        self.carry(what, |end| {
            found = end.events.iter().position(&mut is_it).map(|at| end.events.remove(at));
            found.is_some()
        });
        found.expect("an event")
    }

    /// Both are here.
    fn step(&mut self) {
        self.steps.write_all(&[0; 8]).unwrap();
        let mut taken = 0;
        self.carry("a step", |end| {
            match end.steps.read(&mut [0; 8][taken..]) {
                Ok(length) => taken += length,
                Err(why) => assert_eq!(why.kind(), ErrorKind::WouldBlock),
            }
            taken == 8
        });
    }

    fn post_receive(&mut self, length: u64) {
        let id = self.id();
        self.endpoint.post_receive(id, slice(IN, length)).unwrap();
    }

    fn received(&mut self) {
        let received = self.wait("a Send", |event| matches!(event, RdmaEvent::Received { .. }));
        assert!(
            matches!(&received, RdmaEvent::Received { missing, .. } if missing.is_empty()),
            "{received:?}"
        );
    }

    fn send(&mut self, bytes: &[u8]) {
        self.memory[OUT as usize..][..bytes.len()].copy_from_slice(bytes);
        let (id, source) = (self.id(), slice(OUT, bytes.len() as u64));
        self.endpoint.send(id, source, None, false).unwrap();
    }

    /// Each says by a Send where its region lies.
    fn exchange(&mut self) {
        self.post_receive(ADVERT);
        self.step();
        let advert = [0, u64::from(self.stag), BYTES].map(u64::to_ne_bytes).concat();
        self.send(&advert);
        self.received();
        let field = |end: &End, at: usize| {
            u64::from_ne_bytes(end.memory[IN as usize + 8 * at..][..8].try_into().unwrap())
        };
        self.theirs = RemoteAddress { stag: field(self, 1) as u32, offset: field(self, 0) };
        assert_eq!(field(self, 2), BYTES);
    }

    /// Its region, read by this side.
    fn read_back(&mut self) -> &[u8] {
        let (id, from, deadline) = (self.id(), self.theirs, self.later());
        let read = RemoteRead { sink: slice(BACK, BYTES), from, deadline, ask_again: None };
        self.with(|endpoint, context| endpoint.read(id, read, context)).unwrap();
        let done = self.wait("a Read", |event| matches!(event, RdmaEvent::ReadDone { .. }));
        assert!(matches!(&done, RdmaEvent::ReadDone { missing, .. } if missing.is_empty()), "{done:?}");
        &self.memory[BACK as usize..]
    }

    fn connect(&mut self) {
        let peer = self.frames.peer_addr().unwrap();
        let deadline = self.later();
        let id = self.with(|endpoint, context| endpoint.connect(peer, b"", deadline, context)).unwrap();
        self.id = Some(id);
        self.wait("a reply", |event| matches!(event, RdmaEvent::Connected { .. }));
    }
}

/// Connects to one of its servers.
fn connected(port: u16) -> End {
    let start = Instant::now();
    let connect = || loop {
        match TcpStream::connect((std::net::Ipv4Addr::LOCALHOST, port)) {
            Ok(stream) => return stream,
            Err(why) => assert!(start.elapsed() < LIMIT, "{why}"),
        }
        std::thread::sleep(Duration::from_millis(10));
    };
    let mut end = End::new(connect(), connect());
    end.connect();
    end.exchange();
    end
}

fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

#[test]
fn softuiwarp_writes_to_us_and_is_read() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port().to_string();
    let Some(child) = Program::start("write_bw", &["-c", "-s", "127.0.0.1", "-p", &port]) else { return };
    let mut end = End::new(listener.accept().unwrap().0, listener.accept().unwrap().0);
    end.wait("a request", |event| matches!(event, RdmaEvent::Requested { .. }));
    let id = end.id();
    end.with(|endpoint, context| endpoint.accept(id, b"", context)).unwrap();
    end.exchange();
    for round in 0..ROUNDS {
        end.memory[..BYTES as usize].fill(0xAA);
        end.step();
        let mut written = 0;
        // Its last Write of a round has four bytes.
        while written <= REQUESTS {
            let event = end.wait("a Write", |event| matches!(event, RdmaEvent::Written { .. }));
            assert!(matches!(event, RdmaEvent::Written { is_complete: true, .. }), "{event:?}");
            written += 1;
        }
        assert_eq!(end.memory[..4], 0xDEAD_BEEF_u32.to_ne_bytes(), "round {round}");
        let whole = [&[0, 1, 2, 3], &end.memory[4..BYTES as usize]].concat();
        assert!(counting(&whole), "round {round}");
    }
    assert!(counting(end.read_back()));
    end.step();
    end.send(&1_000_u64.to_ne_bytes());
    end.carry("the end", |end| end.events.iter().any(|event| matches!(event, RdmaEvent::Sent { .. })));
    end.endpoint.counts().check();
    let said = child.end();
    assert!(said.contains("Completed test!"), "{said}");
}

#[test]
fn softuiwarp_is_written_to_and_what_it_holds_is_read() {
    let port = free_port().to_string();
    let Some(child) = Program::start("write_bw", &["-s", "127.0.0.1", "-p", &port]) else { return };
    let mut end = connected(port.parse().unwrap());
    (0..BYTES as usize).for_each(|at| end.memory[at] = (at * 7 + 1) as u8);
    for _ in 0..ROUNDS {
        end.step();
        let (id, to) = (end.id(), end.theirs);
        let write = RemoteWrite { source: slice(0, BYTES), to, immediate: None, is_solicited: false };
        end.endpoint.write(id, write).unwrap();
        // It waits for the first byte, and clears four.
        let mine = end.memory[4..BYTES as usize].to_vec();
        assert!(end.read_back()[4..] == mine);
    }
    end.post_receive(8);
    end.step();
    end.received();
    end.endpoint.counts().check();
    let said = child.end();
    assert!(said.contains("Completed test!"), "{said}");
}

#[test]
fn softuiwarp_reads_us_and_checks_each_byte() {
    let port = free_port().to_string();
    let Some(child) = Program::start("read_bw", &["-s", "127.0.0.1", "-p", &port]) else { return };
    let mut end = connected(port.parse().unwrap());
    (0..BYTES as usize).for_each(|at| end.memory[at] = at as u8);
    for _ in 0..ROUNDS {
        // Its Reads may come before the answer to this step.
        let before = end.endpoint.counts().sent;
        end.step();
        let frames = REQUESTS * BYTES.div_ceil(65_000);
        end.carry("Reads", |end| end.endpoint.counts().sent - before >= frames);
    }
    end.post_receive(8);
    end.step();
    end.received();
    end.endpoint.counts().check();
    let said = child.end();
    assert!(said.contains("Completed test!") && !said.contains("incorrect value"), "{said}");
}
