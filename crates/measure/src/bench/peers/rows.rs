//! The table: what is measured, and the command lines for it.

use super::super::options::{BenchTarget, wrong};
use super::options::PeerOptions;
use super::tools::{EVENT_RECEIVER, HEAP_RECEIVER, HEAP_SENDER, IPERF3, Tools};
use skyhaul_core::hint::Hint;
use skyhaul_core::wire::{FAMILIES, Objects};
use std::io;
use std::net::SocketAddr;
use std::path::Path;
use std::process::Command;

/// Bytes of the socket buffer that every UDP receiver requests.
const SOCKET_BUFFER: u64 = 64 << 20;
/// Bytes of an event.
const EVENT: u64 = 89_000;
/// Bytes of IP, UDP and the labels in front of an event's part.
const EVENT_OVERHEAD: u64 = 20 + 8 + 20;

/// The figure by which candidates are compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Figure {
    ReceiveCpu,
    SendCpu,
    Rate,
}

impl Figure {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::ReceiveCpu => "receive CPU",
            Self::SendCpu => "send CPU",
            Self::Rate => "rate",
        }
    }
}

/// What the programs do.
#[derive(Clone, Copy, Debug)]
pub(super) enum Work {
    /// A closed loop of this program, beside the bare loop.
    Loop { what: BenchTarget, size: usize },
    /// Heaps at a rate in Gb/s, from Skyhaul or from the peer's sender.
    Heaps { heap: u64, packet: usize, rate: u64, from_peer: bool },
    /// Events at a rate in Gb/s.
    Events { mtu: usize, rate: u64 },
    /// One flow, as fast as it goes.
    Tcp,
}

/// One row of the table.
#[derive(Clone, Copy, Debug)]
pub(super) struct Row {
    pub(super) name: &'static str,
    pub(super) title: &'static str,
    pub(super) figure: Figure,
    pub(super) work: Work,
}

const fn closed(name: &'static str, title: &'static str, what: BenchTarget, size: usize) -> Row {
    let figure = if matches!(what, BenchTarget::Send) { Figure::SendCpu } else { Figure::ReceiveCpu };
    Row { name, title, figure, work: Work::Loop { what, size } }
}

const fn heaps(name: &'static str, title: &'static str, heap: u64, packet: usize, rate: u64) -> Row {
    let work = Work::Heaps { heap, packet, rate, from_peer: false };
    Row { name, title, figure: Figure::ReceiveCpu, work }
}

const ROWS: [Row; 13] = [
    closed("receive-8040", "receive, closed loop, 8040 bytes", BenchTarget::Receive, 8040),
    closed("receive-1472", "receive, closed loop, 1472 bytes", BenchTarget::Receive, 1472),
    heaps("heaps-64k-8g", "SPEAD heaps of 64 KiB, packets of 8972, 8 Gb/s", 64 << 10, 8972, 8),
    heaps("heaps-64k-16g", "SPEAD heaps of 64 KiB, packets of 8972, 16 Gb/s", 64 << 10, 8972, 16),
    heaps("heaps-1m-8972", "SPEAD heaps of 1 MiB, packets of 8972, 8 Gb/s", 1 << 20, 8972, 8),
    heaps("heaps-1m-1472", "SPEAD heaps of 1 MiB, packets of 1472, 8 Gb/s", 1 << 20, 1472, 8),
    heaps("heaps-4k", "SPEAD heaps of 4 KiB, packets of 1472, 4 Gb/s", 4 << 10, 1472, 4),
    Row {
        name: "heaps-4k-spead2",
        title: "the same from spead2_send",
        figure: Figure::ReceiveCpu,
        work: Work::Heaps { heap: 4 << 10, packet: 1472, rate: 4, from_peer: true },
    },
    closed("send-1472", "send, closed loop, 1472 bytes", BenchTarget::Send, 1472),
    closed("send-8040", "send, closed loop, 8040 bytes", BenchTarget::Send, 8040),
    Row {
        name: "events-3g",
        title: "EJFAT events of 89000 bytes, MTU 9000, 3 Gb/s",
        figure: Figure::ReceiveCpu,
        work: Work::Events { mtu: 9000, rate: 3 },
    },
    Row {
        name: "events-10g",
        title: "EJFAT events of 89000 bytes, MTU 9000, 10 Gb/s",
        figure: Figure::ReceiveCpu,
        work: Work::Events { mtu: 9000, rate: 10 },
    },
    Row {
        name: "tcp-zerocopy",
        title: "one TCP flow without a copy at the sender",
        figure: Figure::Rate,
        work: Work::Tcp,
    },
];

/// The names of all rows, in the order of the table.
pub fn row_names() -> impl Iterator<Item = &'static str> {
    ROWS.iter().map(|row| row.name)
}

/// Rows by their names, in the order of the table; all if none is named.
pub(super) fn chosen(only: &[String]) -> io::Result<Vec<&'static Row>> {
    if let Some(unknown) = only.iter().find(|name| !row_names().any(|row| row == *name)) {
        let names: Vec<&str> = row_names().collect();
        let hint = Hint(format_args!("choose from {}", names.join(" ")));
        return Err(wrong(format_args!("unknown row '{unknown}'{hint}")));
    }
    Ok(ROWS.iter().filter(|row| only.is_empty() || only.iter().any(|name| name == row.name)).collect())
}

impl Row {
    /// Name of the peer: its program, or the bare loop.
    pub(super) fn peer(&self) -> &'static str {
        match self.work {
            Work::Loop { .. } => "bare",
            Work::Heaps { .. } => HEAP_RECEIVER,
            Work::Events { .. } => EVENT_RECEIVER,
            Work::Tcp => IPERF3,
        }
    }

    /// Programs that a candidate cannot do without.
    pub(super) fn needs(&self, candidate: &str) -> &'static [&'static str] {
        let is_peer = candidate == self.peer();
        match (self.work, is_peer) {
            (Work::Heaps { from_peer: true, .. }, true) => &[HEAP_RECEIVER, HEAP_SENDER],
            (Work::Heaps { from_peer: true, .. }, false) => &[HEAP_SENDER],
            (Work::Heaps { .. }, true) => &[HEAP_RECEIVER],
            (Work::Events { .. }, true) => &[EVENT_RECEIVER],
            (Work::Tcp, true) => &[IPERF3],
            _ => &[],
        }
    }

    /// Bytes of a datagram, or of a write to a flow.
    pub(super) fn packet(&self) -> usize {
        match self.work {
            Work::Loop { size, .. } => size,
            Work::Heaps { packet, .. } => packet,
            Work::Events { mtu, .. } => mtu,
            Work::Tcp => 1 << 20,
        }
    }

    /// Objects that a run sends, and the bytes and packets of each.
    pub(super) fn objects(&self, seconds: f64) -> (u64, u64, u64) {
        let (bytes, payload, rate) = match self.work {
            // A packet's head takes 64 bytes or less.
            Work::Heaps { heap, packet, rate, .. } => (heap, packet as u64 - 64, rate),
            Work::Events { mtu, rate } => (EVENT, mtu as u64 - EVENT_OVERHEAD, rate),
            Work::Loop { .. } | Work::Tcp => return (0, 0, 0),
        };
        let count = (rate as f64 * 1e9 / 8.0 * seconds / bytes as f64).ceil() as u64;
        (count.max(1), bytes, bytes.div_ceil(payload))
    }
}

/// The receiver and the sender of one run, and where the receiver listens.
pub(super) struct Commands {
    pub(super) receiver: Command,
    pub(super) sender: Command,
    pub(super) at: SocketAddr,
}

/// The name of the family of heaps or events, as `--format` takes it.
fn format_of(objects: Objects) -> &'static str {
    FAMILIES.iter().find(|family| family.objects() == objects).map_or("", |family| family.name())
}

fn command(program: &Path, line: &str) -> Command {
    let mut command = Command::new(program);
    // The configuration file of the station must not affect the measurement.
    command.args(line.split_whitespace()).env("SKYHAUL_CONFIG", "/dev/null");
    command
}

/// The command lines of a candidate. `token`: a file that both ends of a probe may use.
pub(super) fn commands(
    options: &PeerOptions,
    tools: &Tools,
    row: &Row,
    candidate: &str,
    at: SocketAddr,
    token: &Path,
) -> io::Result<Commands> {
    let is_peer = candidate == row.peer();
    let own = |line: String| command(&options.program, &line);
    let seconds = options.time.as_secs_f64();
    let (count, bytes, _) = row.objects(seconds);
    let (receiver, sender) = match row.work {
        Work::Heaps { packet, rate, from_peer, .. } => {
            let format = format_of(Objects::Heaps);
            let receiver = if is_peer {
                let room = packet + 64;
                let line = format!(
                    "--quiet --mem-pool --mem-lower 1024 --mem-upper 134217728 --buffer {SOCKET_BUFFER} --packet {room} {at}"
                );
                command(tools.path(HEAP_RECEIVER)?, &line)
            } else {
                own(format!(
                    "receive --format {format} --listen udp://{at} --socket-buffer 64MiB --quiet --json"
                ))
            };
            let sender = if from_peer {
                let line = format!(
                    "--packet {packet} --heap-size {bytes} --heaps {count} --buffer {SOCKET_BUFFER} --rate {rate} {at}"
                );
                command(tools.path(HEAP_SENDER)?, &line)
            } else {
                own(format!(
                    "send --format {format} --to udp://{at} --heap-size {bytes} --heaps {count} --packet {packet} --rate {rate}Gbps --quiet --json"
                ))
            };
            (receiver, sender)
        }
        Work::Events { mtu, rate } => {
            let format = format_of(Objects::Events);
            let receiver = if is_peer {
                let line = format!("-a {} -p {} -r {SOCKET_BUFFER}", at.ip(), at.port());
                command(tools.path(EVENT_RECEIVER)?, &line)
            } else {
                own(format!(
                    "receive --format {format} --listen udp://{at} --socket-buffer 64MiB --quiet --json"
                ))
            };
            let sender = own(format!(
                "send --format {format} --to udp://{at} --event {bytes} --events {count} --mtu {mtu} --re-version 2 --rate {rate}Gbps --quiet --json"
            ));
            (receiver, sender)
        }
        Work::Tcp if is_peer => {
            let (iperf3, time) = (tools.path(IPERF3)?, seconds.ceil().max(1.0));
            let (ip, port) = (at.ip(), at.port());
            let receiver = command(iperf3, &format!("-s -B {ip} -p {port}"));
            (receiver, command(iperf3, &format!("-c {ip} -p {port} -Z -l 1M -t {time} -J")))
        }
        Work::Tcp => {
            let (ip, port) = (at.ip(), at.port());
            let mut receiver = own(format!("probe serve --listen {ip} --port {port} --token-file"));
            receiver.arg(token);
            let mut sender = own(format!(
                "probe {at} --tcp --write 1MiB --zerocopy --time {}ms --quiet --json --token-file",
                (seconds.max(1.0) * 1e3).round()
            ));
            sender.arg(token);
            (receiver, sender)
        }
        Work::Loop { .. } => return Err(wrong("the bare loop has no command line")),
    };
    Ok(Commands { receiver, sender, at })
}
