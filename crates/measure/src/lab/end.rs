//! Settings of the kernel of an end: what must move the kernel's own counters is done there, not on the path.
//!
//! | key | meaning |
//! |---|---|
//! | `pfifo=N` | its interface's queue holds N packets |
//! | `tbf=R/B/L` | its interface sends at rate R with bursts of B bytes; L bytes wait |
//! | `rps=C`, `rps=C-D` | these CPUs process what arrives, through their backlogs (`softnet_stat`) |
//! | `tcp-rmem=S`, `tcp-wmem=S` | TCP sockets buffer S bytes that arrived, or that are to be sent |
//!
//! ```
//! use skyhaul_measure::lab::EndSettings;
//! let end: EndSettings = "rps=0-1,tcp-rmem=64KiB".parse()?;
//! assert_eq!(end.to_string(), "rps=0-1,tcp-rmem=64KiB");
//! assert!("backlog=10".parse::<EndSettings>().is_err(), "the kernel has one for the whole machine");
//! # Ok::<(), std::io::Error>(())
//! ```
//!
//! Limits: the length of a backlog and the size of a UDP socket are of the whole machine in Linux, up to 6.18 at least; they are
//! refused, with what does it instead. `rps` needs Linux 6.3.
//!
//! A [`LabText`] has the path too:
//!
//! ```
//! use skyhaul_measure::lab::LabText;
//! let text: LabText = "rate=1Gbps,delay=15ms; near: pfifo=100; far: rps=0,tcp-rmem=64KiB".parse()?;
//! assert_eq!(text.path, "rate=1Gbps,delay=15ms".parse()?);
//! assert_eq!(text.far, "rps=0,tcp-rmem=64KiB".parse()?);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Limits: what a kernel does, it does from the beginning to the end; `at=` is for the path.

use skyhaul_core::hint::Hint;
use skyhaul_io::fault::path::Path;
use skyhaul_io::namespace::Network;
use skyhaul_io::netlink::route::{Queue, Routes};
use skyhaul_io::quantity::{Rate, Size};
use std::ops::RangeInclusive;
use std::str::FromStr;
use std::{fmt, fs, io};

/// Processors of one host, at most.
const PROCESSORS: u32 = 1024;
/// Octets of the least socket: a page.
const LEAST: u64 = 4096;
/// Of the network that a thread is in.
const STEERING: &str = "/proc/sys/net/core/rps_default_mask";
const TCP_RECEIVE: &str = "/proc/sys/net/ipv4/tcp_rmem";
const TCP_SEND: &str = "/proc/sys/net/ipv4/tcp_wmem";

/// What the kernel of an end does.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EndSettings {
    /// The queue of its interface.
    pub queue: Option<Queue>,
    /// Processors that work on what comes in.
    pub steering: Option<RangeInclusive<u32>>,
    /// Octets of a TCP socket that came and were not read, at most.
    pub tcp_receive: Option<Size>,
    /// Octets of a TCP socket that were written and not acknowledged, at most.
    pub tcp_send: Option<Size>,
}

impl EndSettings {
    /// In the end's network, before it has an interface.
    pub(super) fn prepare(&self) -> io::Result<()> {
        if let Some(processors) = &self.steering {
            write(STEERING, &mask(processors)).map_err(|error| match error.kind() {
                io::ErrorKind::NotFound => io::Error::new(
                    error.kind(),
                    format!(
                        "rps: not supported per network by this kernel{}",
                        Hint("use Linux 6.3 or later")
                    ),
                ),
                kind => io::Error::new(
                    kind,
                    format!(
                        "rps: {error}{}",
                        Hint("CPUs are numbered from 0; `nproc` prints how many there are")
                    ),
                ),
            })?;
        }
        for (file, size) in [(TCP_RECEIVE, self.tcp_receive), (TCP_SEND, self.tcp_send)] {
            if let Some(size) = size {
                write(file, &format!("{LEAST} {0} {0}", size.bytes()))?;
            }
        }
        Ok(())
    }

    /// In the end's network, when it has one.
    pub(super) fn furnish(&self, interface: u32) -> io::Result<()> {
        self.queue.map_or(Ok(()), |queue| Routes::open()?.queue(interface, queue))
    }

    fn set(&mut self, key: &str, value: &str) -> io::Result<()> {
        match key {
            "pfifo" | "tbf" => self.queue = Some(queue(key, value)?),
            "rps" => self.steering = Some(processors(value)?),
            "tcp-rmem" => self.tcp_receive = Some(size(key, value)?),
            "tcp-wmem" => self.tcp_send = Some(size(key, value)?),
            "backlog" => {
                return Err(wrong(format!(
                    "backlog: the kernel has one length for the whole machine, not for each network{}",
                    Hint(
                        "as root, \
                     `sysctl -w net.core.netdev_max_backlog=N` before the lab; rps=CPU lets an end fill it"
                    )
                )));
            }
            "rmem" | "wmem" => {
                let said = format!(
                    "{key}: the kernel has one default for the whole machine, which a network only reads{}",
                    Hint(format_args!(
                        "tcp-{key}=SIZE \
                     is of one end; a program that sends or receives UDP sets SO_{}BUF itself",
                        if key == "rmem" { "RCV" } else { "SND" }
                    ))
                );
                return Err(wrong(said));
            }
            _ => {
                let said = format!(
                    "'{key}' is not a kernel setting of an end{}",
                    Hint("use pfifo, tbf, rps, tcp-rmem or tcp-wmem")
                );
                return Err(wrong(said));
            }
        }
        Ok(())
    }
}

fn write(file: &str, text: &str) -> io::Result<()> {
    fs::write(file, text)
        .map_err(|error| io::Error::new(error.kind(), format!("write {text} to {file}: {error}")))
}

fn wrong(said: impl Into<String>) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, said.into())
}

/// The queue of an interface: `pfifo` and its packets, or `tbf` and rate, burst and limit.
fn queue(kind: &str, value: &str) -> io::Result<Queue> {
    let none = || {
        wrong(format!(
            "'{kind}={value}' is not a queue{}",
            Hint("write tbf=400Mbps/64KiB/250KiB or pfifo=100")
        ))
    };
    if kind == "pfifo" {
        return value.parse().map(Queue::Packets).map_err(|_| none());
    }
    let mut parts = value.split('/');
    let (Some(rate), Some(burst), Some(limit), None) =
        (parts.next(), parts.next(), parts.next(), parts.next())
    else {
        return Err(none());
    };
    let rate: Rate = rate.parse().map_err(|error| wrong(format!("{error}")))?;
    let bytes = |text: &str| -> io::Result<u32> {
        let size: Size = text.parse().map_err(|error| wrong(format!("{error}")))?;
        u32::try_from(size.bytes()).map_err(|_| none())
    };
    Ok(Queue::TokenBucket { rate: rate.bits_per_second() / 8, burst: bytes(burst)?, limit: bytes(limit)? })
}

fn processors(value: &str) -> io::Result<RangeInclusive<u32>> {
    let (first, last) = value.split_once('-').unwrap_or((value, value));
    match (first.parse(), last.parse()) {
        (Ok(first), Ok(last)) if first <= last && last < PROCESSORS => Ok(first..=last),
        _ => Err(wrong(format!("rps '{value}' is not a range of CPUs{}", Hint("write rps=1 or rps=0-3")))),
    }
}

fn size(key: &str, value: &str) -> io::Result<Size> {
    let size: Size = value.parse().map_err(|error| wrong(format!("{key}: {error}")))?;
    if !(LEAST..=i32::MAX as u64 / 2).contains(&size.bytes()) {
        return Err(wrong(format!(
            "{key}: {size} is outside 4KiB to 1GiB{}",
            Hint(format_args!("{key}=64KiB is a small socket buffer"))
        )));
    }
    Ok(size)
}

/// As the kernel reads a set of processors: words of 32, the highest first.
fn mask(processors: &RangeInclusive<u32>) -> String {
    let word = |at: u32| {
        let bits = (0..32).filter(|bit| processors.contains(&(at * 32 + bit)));
        bits.fold(0u32, |word, bit| word | 1 << bit)
    };
    let words: Vec<String> =
        (0..=processors.end() / 32).rev().map(|at| format!("{:08x}", word(at))).collect();
    words.join(",")
}

impl FromStr for EndSettings {
    type Err = io::Error;

    fn from_str(text: &str) -> io::Result<Self> {
        let mut end = Self::default();
        for part in text.split(',').map(str::trim).filter(|part| !part.is_empty()) {
            let (key, value) = part.split_once('=').ok_or_else(|| {
                wrong(format!("expected KEY=VALUE, got '{part}'{}", Hint("such as tcp-rmem=64KiB")))
            })?;
            end.set(key, value)?;
        }
        Ok(end)
    }
}

impl fmt::Display for EndSettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let queue = self.queue.map(|queue| match queue {
            Queue::Packets(packets) => format!("pfifo={packets}"),
            Queue::TokenBucket { rate, burst, limit } => format!(
                "tbf={}/{}/{}",
                Rate::from_bits_per_second(rate * 8),
                Size::from_bytes(burst.into()),
                Size::from_bytes(limit.into())
            ),
        });
        let steering = self.steering.as_ref().map(|of| match of.start() == of.end() {
            true => format!("rps={}", of.start()),
            false => format!("rps={}-{}", of.start(), of.end()),
        });
        let receive = self.tcp_receive.map(|size| format!("tcp-rmem={size}"));
        let send = self.tcp_send.map(|size| format!("tcp-wmem={size}"));
        let all: Vec<String> = [queue, steering, receive, send].into_iter().flatten().collect();
        f.write_str(&all.join(","))
    }
}

/// Whether a socket of TCP listens in this network, or one of UDP is bound there.
///
/// # Errors
/// The network cannot be entered.
pub fn listens(network: &Network) -> io::Result<bool> {
    network.inside(|| {
        ["tcp", "tcp6", "udp", "udp6"].iter().any(|name| {
            let table = fs::read_to_string(format!("/proc/thread-self/net/{name}")).unwrap_or_default();
            has_listener(&table, name.starts_with("udp"))
        })
    })
}

/// `sl local_address rem_address st …`: state 0A listens; a socket of UDP has no such state, but a port.
fn has_listener(table: &str, udp: bool) -> bool {
    table.lines().skip(1).any(|line| {
        let mut fields = line.split_whitespace().skip(1);
        let port = fields.next().and_then(|local| local.rsplit(':').next());
        let state = fields.nth(1);
        if udp { port.is_some_and(|port| port != "0000") } else { state == Some("0A") }
    })
}

/// A path, and what the kernels of the ends do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LabText {
    /// What happens between the ends.
    pub path: Path,
    /// Of the section `near:`.
    pub near: EndSettings,
    /// Of the section `far:`.
    pub far: EndSettings,
}

impl FromStr for LabText {
    type Err = io::Error;

    fn from_str(text: &str) -> io::Result<Self> {
        let (mut path, mut near, mut far) = (Vec::new(), Vec::new(), Vec::new());
        for section in text.split(';') {
            match section.split_once(':').map(|(head, rest)| (head.trim(), rest)) {
                Some(("near", rest)) => near.push(rest),
                Some(("far", rest)) => far.push(rest),
                _ => path.push(section),
            }
        }
        let path =
            path.join(";").parse().map_err(|error| io::Error::new(io::ErrorKind::InvalidInput, error))?;
        Ok(Self { path, near: near.join(",").parse()?, far: far.join(",").parse()? })
    }
}

impl fmt::Display for LabText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.path)?;
        for (name, end) in [("near", &self.near), ("far", &self.far)] {
            if *end != EndSettings::default() {
                write!(f, ";{name}:{end}")?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn queues_processors_and_sockets_are_read() {
        let read = |text: &str| text.parse::<EndSettings>().unwrap();
        assert_eq!(read("pfifo=10").queue, Some(Queue::Packets(10)));
        let bucket = Queue::TokenBucket { rate: 50_000_000, burst: 65_536, limit: 256_000 };
        assert_eq!(read("tbf=400Mbps/64KiB/250KiB").queue, Some(bucket));
        for text in ["", "pfifo=10,rps=1,tcp-rmem=64KiB,tcp-wmem=8KiB", "tbf=400Mbps/64KiB/250KiB,rps=0-31"] {
            assert_eq!(read(text).to_string(), text);
        }
        for (text, hint) in [
            ("pfifo", "such as tcp-rmem"),
            ("pfifo=x", "pfifo=100"),
            ("tbf=1Gbps", "write tbf="),
            ("tbf=1Gbps/1/2/3", "write tbf="),
            ("red=1", "pfifo, tbf, rps"),
            ("rps=3-1", "write rps=1"),
            ("rps=1024", "write rps=1"),
            ("tcp-rmem=1", "tcp-rmem=64KiB"),
            ("backlog=10", "netdev_max_backlog"),
            ("rmem=64KiB", "SO_RCVBUF"),
        ] {
            let said = text.parse::<EndSettings>().unwrap_err().to_string();
            assert!(said.contains("hint: ") && said.contains(hint), "{text}: {said}");
        }
    }

    #[test]
    fn processors_are_words_with_the_highest_first() {
        assert_eq!(mask(&(0..=0)), "00000001");
        assert_eq!(mask(&(1..=3)), "0000000e");
        assert_eq!(mask(&(31..=32)), "00000001,80000000");
    }

    #[test]
    fn states_and_ports_say_who_listens() {
        let head = "  sl  local_address rem_address   st tx_queue rx_queue\n";
        let line =
            |port: &str, state: &str| format!("{head}   0: 0100007F:{port} 00000000:0000 {state} 0:0\n");
        assert!(has_listener(&line("0CEA", "0A"), false));
        assert!(!has_listener(&line("0CEA", "01"), false));
        assert!(has_listener(&line("0CEA", "07"), true) && !has_listener(head, true));
    }

    #[test]
    fn sections_of_the_ends_stand_anywhere_and_are_read_back() {
        let text =
            "far: rps=1 ; rate=1Gbps,seed=3; rev: loss=0.1; near:pfifo=3;far:tcp-wmem=8KiB; at=1s: delay=1ms";
        let read: LabText = text.parse().unwrap();
        assert_eq!(read.path, "rate=1Gbps,seed=3; rev: loss=0.1; at=1s: delay=1ms".parse().unwrap());
        assert_eq!(
            (read.near.to_string(), read.far.to_string()),
            ("pfifo=3".into(), "rps=1,tcp-wmem=8KiB".into())
        );
        assert_eq!(read.to_string().parse::<LabText>().unwrap(), read);
        let clean: LabText = "".parse().unwrap();
        assert_eq!(clean.to_string(), Path::CLEAN.to_string());
    }

    #[test]
    fn what_is_wrong_is_told_with_a_hint() {
        for text in ["rate=1", "near: red=1", "far: rmem=1MiB", "at=1s: near: pfifo=1", "nowhere: loss=1"] {
            let said = text.parse::<LabText>().unwrap_err().to_string();
            assert!(said.contains("hint: "), "{text}: {said}");
        }
    }
}
