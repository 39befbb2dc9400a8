//! How fast this machine carries SPEAD over TCP through our own ends, beside bare loops that look at nothing.
//!
//! `cargo run --release -p skyhaul-io --example tcp_ceiling -- PACKET [SECONDS] [ROUNDS] [ADDRESS] [RX,..] [TX,..] [NEAR FAR]`
//!
//! PACKET is the payload of a packet: 8908 with its 64 bytes of head is 8972 on the wire, 67108864 a whole heap of
//! 64 MiB. One thread sends (CPU 0), one receives (CPU 1) and puts the payload into 64 MiB that are not in the cache.
//! All pairs of RX and TX take turns, ROUNDS times; each turn is a new connection.
//!
//! | RX | |
//! |---|---|
//! | `wait` | bare: `recv(MSG_WAITALL)` of 256 KiB into a scratch, streaming copy |
//! | `bare` | bare: `recv` of what is there, up to 256 KiB, into a scratch, streaming copy |
//! | `cold` | bare: `recv(MSG_WAITALL)` of 256 KiB straight into the 64 MiB |
//! | `piece` | [`PieceSource`], pieces copied past the cache |
//! | `room` | [`PieceSource`], long bodies read straight into the 64 MiB |
//!
//! | TX | |
//! |---|---|
//! | `bare` | bare: writes of 1 MiB |
//! | `slices` | [`TcpSender::send_slices`], head and payload of each packet where they lie, ≥ 1 MiB a call |
//!
//! With `none` for RX or TX that side is another program: it listens at ADDRESS, or connects to it.
//!
//! NEAR and FAR are network namespaces: the receiver's and the sender's. Prints one line a turn, then the median by rate, and the least CPU time of each side.

use skyhaul_core::wire::spead::Head;
use skyhaul_io::{
    address::Endpoint,
    copy,
    host::thread::{cpu_time, pin},
    namespace::Network,
    tcp::{
        TcpSendOptions, TcpSender,
        pieces::{Found, Heads, PieceEvent, PieceOptions, PieceSink, PieceSource},
    },
};
use socket2::{SockRef, Socket};
use std::{
    error::Error,
    io::{IoSlice, Read, Write},
    mem::MaybeUninit,
    net::TcpListener,
    time::{Duration, Instant},
};

const HEAD: usize = 64;
const MEMORY: usize = 64 << 20;
const READ: usize = 256 << 10;

struct Spead;

impl Heads for Spead {
    fn find(&self, bytes: &[u8]) -> Found {
        match Head::peek(bytes) {
            Ok(Some(head)) => Found::Packet { head: head.start, body: head.length },
            Ok(None) => Found::More,
            Err(_) => Found::Garbage,
        }
    }
    fn longest_head(&self) -> usize {
        8 + 8 * 1024
    }
    fn magic(&self) -> &[u8] {
        &[0x53, 4]
    }
}

/// 64 bytes of head: counter, size, offset, length, three more items.
fn head(payload: usize) -> [u8; HEAD] {
    let mut head = [0; HEAD];
    head[..8].copy_from_slice(&[0x53, 4, 3, 5, 0, 0, 0, 7]);
    let items = [(1, 1), (2, payload), (3, 0), (4, payload), (0x1600, 1), (0x1601, 2), (0x1602, 3)];
    for (pointer, (id, value)) in head[8..].chunks_exact_mut(8).zip(items) {
        pointer.copy_from_slice(&(1u64 << 63 | id << 40 | value as u64).to_be_bytes());
    }
    head
}

/// The 64 MiB, filled over and over.
struct Slots {
    memory: Vec<u8>,
    at: usize,
    pieces: bool,
}

impl Slots {
    fn place(&mut self, bytes: &[u8]) {
        if self.at + bytes.len() > self.memory.len() {
            self.at = 0;
        }
        copy::place(&mut self.memory[self.at..self.at + bytes.len()], bytes);
        self.at += bytes.len();
    }
}

impl PieceSink for Slots {
    fn event(&mut self, event: PieceEvent<'_>) {
        if let PieceEvent::Piece(piece) = event {
            self.place(piece.bytes);
        }
    }
    fn room(&mut self, _: u64, _: &[u8], _: u64, most: usize) -> Option<&mut [u8]> {
        if self.pieces {
            return None;
        }
        if self.at == self.memory.len() {
            self.at = 0;
        }
        let end = self.at.saturating_add(most).min(self.memory.len());
        Some(&mut self.memory[self.at..end])
    }
    fn filled(&mut self, _: u64, bytes: usize) {
        self.at += bytes;
    }
    fn done(&mut self) {
        copy::fence();
    }
}

#[derive(Clone, Copy, Default)]
struct Side {
    bytes: u64,
    cpu: f64,
    took: f64,
    calls: u64,
}

impl Side {
    fn per_gb(&self) -> f64 {
        self.cpu / (self.bytes as f64 / 1e9)
    }
}

type Fault = Box<dyn Error + Send + Sync>;

fn main() -> Result<(), Fault> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let word = |n: usize, default: &str| arguments.get(n).map_or(default, String::as_str).to_owned();
    let payload: usize = word(0, "67108864").parse()?;
    let seconds = Duration::from_secs_f64(word(1, "1").parse()?);
    let rounds: usize = word(2, "3").parse()?;
    let at: Endpoint = word(3, "tcp://127.0.0.1:0?cc=cubic").parse()?;
    let (near, far) = (arguments.get(6), arguments.get(7));
    let pairs: Vec<(String, String)> = word(4, "wait,bare,cold,piece,room")
        .split(',')
        .flat_map(|rx| {
            word(5, "bare,slices").split(',').map(|tx| (rx.to_owned(), tx.to_owned())).collect::<Vec<_>>()
        })
        .collect();
    let mut results = vec![Vec::new(); pairs.len()];
    for _ in 0..rounds {
        for ((rx, tx), results) in pairs.iter().zip(&mut results) {
            let (sent, received) = std::thread::scope(|scope| -> Result<_, Fault> {
                let (tell, told) = std::sync::mpsc::channel();
                let receiver = scope.spawn(|| {
                    near.map(|name| Network::named(name)?.enter()).transpose()?;
                    receive(rx, &at, tell)
                });
                let sender = scope.spawn(move || {
                    far.map(|name| Network::named(name)?.enter()).transpose()?;
                    send(tx, &told.recv()?, payload, seconds)
                });
                let sent = sender.join().map_err(|_| "the sender panicked")??;
                Ok((sent, receiver.join().map_err(|_| "the receiver panicked")??))
            })?;
            print(rx, tx, payload, &sent, &received, "");
            results.push((sent, received));
        }
    }
    for ((rx, tx), mut results) in pairs.iter().zip(results) {
        results.sort_by(|(_, a), (_, b)| (a.bytes as f64 / a.took).total_cmp(&(b.bytes as f64 / b.took)));
        let (sent, received) = results[results.len() / 2];
        print(rx, tx, payload, &sent, &received, "median ");
        // What others on the machine did not disturb.
        let least = |side: &dyn Fn(&(Side, Side)) -> f64| results.iter().map(side).fold(f64::MAX, f64::min);
        println!(
            "least  {payload} rx {rx:6} tx {tx:6}:            rx {:.3} s/GB  tx {:.3} s/GB",
            least(&|(_, received)| received.per_gb()),
            least(&|(sent, _)| sent.per_gb())
        );
    }
    Ok(())
}

fn print(rx: &str, tx: &str, payload: usize, sent: &Side, received: &Side, what: &str) {
    println!(
        "{what}{payload} rx {rx:6} tx {tx:6}: {:5.1} Gb/s  rx {:.3} s/GB  tx {:.3} s/GB  {:.0} KiB a read, {:.0} KiB a write{}",
        received.bytes as f64 * 8.0 / received.took / 1e9,
        received.per_gb(),
        sent.per_gb(),
        received.bytes as f64 / 1024.0 / received.calls as f64,
        sent.bytes as f64 / 1024.0 / sent.calls as f64,
        if sent.bytes == received.bytes || sent.bytes == 1 || received.bytes == 1 {
            ""
        } else {
            "  LOST BYTES"
        },
    );
}

fn receive(how: &str, at: &Endpoint, tell: std::sync::mpsc::Sender<Endpoint>) -> Result<Side, Fault> {
    if how == "none" {
        tell.send(at.clone())?;
        return Ok(Side { bytes: 1, calls: 1, took: 1.0, ..Side::default() });
    }
    pin(1)?;
    let mut slots = Slots { memory: vec![1; MEMORY], at: 0, pieces: how == "piece" };
    if how == "piece" || how == "room" {
        let options = PieceOptions { accept: Some(1), ..PieceOptions::default() };
        let mut source = PieceSource::open(at, Box::new(Spead), &options)?;
        tell.send(at.at(source.local()))?;
        drop(tell);
        while source.stats().connections == 0 {
            source.poll(Duration::from_millis(50), &mut slots)?;
        }
        let (start, cpu) = (Instant::now(), cpu_time());
        while !source.is_finished() {
            source.poll(Duration::from_millis(50), &mut slots)?;
        }
        let (took, cpu) = (start.elapsed().as_secs_f64(), (cpu_time() - cpu).as_secs_f64());
        let stats = source.stats();
        assert_eq!((stats.skipped, stats.bytes), (0, stats.packet_bytes), "{stats:?}");
        return Ok(Side { bytes: stats.bytes, cpu, took, calls: stats.reads });
    }
    let listener = TcpListener::bind(at.address)?;
    tell.send(at.at(listener.local_addr()?))?;
    let (mut stream, _) = listener.accept()?;
    let mut scratch = vec![0; READ];
    let mut side = Side::default();
    let (start, cpu) = (Instant::now(), cpu_time());
    loop {
        let n = match how {
            "cold" => {
                if slots.at + READ > MEMORY {
                    slots.at = 0;
                }
                let n = fill(&stream, &mut slots.memory[slots.at..slots.at + READ])?;
                slots.at += n;
                n
            }
            "wait" => fill(&stream, &mut scratch)?,
            _ => stream.read(&mut scratch)?,
        };
        if how != "cold" {
            slots.place(&scratch[..n]);
            copy::fence();
        }
        if n == 0 {
            break;
        }
        side.bytes += n as u64;
        side.calls += 1;
    }
    side.took = start.elapsed().as_secs_f64();
    side.cpu = (cpu_time() - cpu).as_secs_f64();
    Ok(side)
}

/// `recv(MSG_WAITALL)`.
fn fill(stream: &std::net::TcpStream, room: &mut [u8]) -> std::io::Result<usize> {
    let (n, _) = rustix::net::recv(stream, room, rustix::net::RecvFlags::WAITALL)?;
    Ok(n)
}

fn send(how: &str, to: &Endpoint, payload: usize, seconds: Duration) -> Result<Side, Fault> {
    if how == "none" {
        return Ok(Side { bytes: 1, calls: 1, took: 1.0, ..Side::default() });
    }
    pin(0)?;
    let memory = vec![3u8; MEMORY];
    let heads = head(payload);
    let mut at = 0;
    let mut next = |bytes: usize| {
        if at + bytes > MEMORY {
            at = 0;
        }
        at += bytes;
        &memory[at - bytes..at]
    };
    let mut side = Side::default();
    let time = |side: &mut Side, work: &mut dyn FnMut(&mut Side) -> Result<(), Fault>| {
        let (start, cpu) = (Instant::now(), cpu_time());
        while start.elapsed() < seconds {
            work(side)?;
        }
        side.took = start.elapsed().as_secs_f64();
        side.cpu = (cpu_time() - cpu).as_secs_f64();
        Ok::<(), Fault>(())
    };
    if how == "slices" {
        let mut sender = TcpSender::open(to, &TcpSendOptions::default())?;
        let each = (1usize << 20).div_ceil(payload + HEAD);
        time(&mut side, &mut |_| {
            let mut slices = Vec::with_capacity(2 * each);
            for _ in 0..each {
                slices.extend([IoSlice::new(&heads), IoSlice::new(next(payload))]);
            }
            sender.send_slices(&slices)?;
            Ok(())
        })?;
        let stats = sender.finish()?;
        (side.bytes, side.calls) = (stats.taken, stats.calls);
        return Ok(side);
    }
    let socket = Socket::new(socket2::Domain::for_address(to.address), socket2::Type::STREAM, None)?;
    socket.set_tcp_congestion(to.cc.as_deref().unwrap_or("cubic").as_bytes())?;
    socket.connect(&to.address.into())?;
    let mut stream = std::net::TcpStream::from(socket);
    // The bytes are the same, made before: heads and payloads one behind the other.
    let period = payload + HEAD;
    let whole: Vec<u8> = heads.iter().copied().chain(next(payload).iter().copied()).collect();
    let bytes = whole.repeat((MEMORY / period).max(1));
    time(&mut side, &mut |side| {
        for part in bytes.chunks(1 << 20) {
            stream.write_all(part)?;
            side.bytes += part.len() as u64;
            side.calls += 1;
        }
        Ok(())
    })?;
    SockRef::from(&stream).shutdown(std::net::Shutdown::Write)?;
    let _ = SockRef::from(&stream).recv(&mut [MaybeUninit::uninit()]);
    Ok(side)
}
