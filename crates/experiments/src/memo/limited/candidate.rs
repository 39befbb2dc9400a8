//! A receiver by its command line.

use crate::invalid;
use skyhaul::spead::send::{Heap, HeapOptions, Order, Outlet, PacketSize, SendConfig, Stream};
use skyhaul::stop::StopFlag;
use skyhaul_core::hint::Hint;
use skyhaul_core::wire::spead::Flavour;
use skyhaul_io::address::Endpoint;
use skyhaul_io::namespace::Network;
use skyhaul_io::quantity::{Share, Size};
use skyhaul_io::udp::send::SendOptions;
use std::io;
use std::net::IpAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Placeholders in a command line, with descriptions.
const NAMES: [(&str, &str); 5] = [
    ("address", "the address to receive on"),
    ("port", "its UDP port"),
    ("packet", "bytes of a packet"),
    ("heap", "bytes of a heap"),
    ("buffer", "bytes of the socket buffer"),
];

/// A receiver that is started as a separate program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReceiverCommand {
    /// In tables.
    pub name: String,
    words: Vec<String>,
    /// Whether it writes the report of `skyhaul receive --json` when it is interrupted.
    pub(super) reports: bool,
}

impl ReceiverCommand {
    /// A program by its command line: words separated by blanks, without a shell, with placeholders like `{port}`.
    ///
    /// # Errors
    /// If the placeholder of the port is missing, or a placeholder is unknown.
    pub fn parse(line: &str) -> io::Result<Self> {
        let words: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
        let program = words.first().map(Path::new).and_then(Path::file_name);
        let name = program.map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        Self::checked(name, words, false)
    }

    /// `skyhaul receive` of this `program`, whose report is checked too.
    ///
    /// # Errors
    /// If a placeholder is unknown.
    pub fn own(program: &Path, words: &str) -> io::Result<Self> {
        let program = program.to_string_lossy().into_owned();
        let words = std::iter::once(program).chain(words.split_whitespace().map(str::to_owned));
        Self::checked("skyhaul".into(), words.collect(), true)
    }

    fn checked(name: String, words: Vec<String>, reports: bool) -> io::Result<Self> {
        let candidate = Self { name, words, reports };
        candidate.expand(&|_| String::new())?;
        if !candidate.words.iter().skip(1).any(|word| word.contains("{port}")) {
            return Err(invalid(format_args!(
                "`{}` lacks the port{}",
                candidate.line(),
                Hint("write {port} in its place, as in {address}:{port}")
            )));
        }
        Ok(candidate)
    }

    /// Its command line, for display.
    #[must_use]
    pub fn line(&self) -> String {
        let (program, rest) = self.words.split_first().map_or(("", &[][..]), |(first, rest)| (first, rest));
        let program = Path::new(program).file_name().unwrap_or_default().to_string_lossy().into_owned();
        rest.iter().fold(program, |line, word| line + " " + word)
    }

    /// Its words, `value` in place of each name.
    pub(super) fn expand(&self, value: &dyn Fn(&str) -> String) -> io::Result<Vec<String>> {
        let one = |word: &String| {
            let (mut out, mut rest) = (String::new(), word.as_str());
            while let Some((before, (name, after))) =
                rest.split_once('{').and_then(|(before, rest)| Some((before, rest.split_once('}')?)))
            {
                if !NAMES.iter().any(|(known, _)| *known == name) {
                    let known: Vec<String> =
                        NAMES.iter().map(|(name, what)| format!("{{{name}}} ({what})")).collect();
                    let text = format!(
                        "`{{{name}}}` is not a placeholder{}",
                        Hint(format_args!("use {}", known.join(", ")))
                    );
                    return Err(invalid(&text));
                }
                out.extend([before, &value(name)]);
                rest = after;
            }
            Ok(out + rest)
        };
        self.words.iter().map(one).collect()
    }
}

/// Options for limited receivers.
#[derive(Clone, Debug)]
pub struct LimitedOptions {
    /// Receivers to compare.
    pub candidates: Vec<ReceiverCommand>,
    /// Share of the processor for each.
    pub share: Share,
    /// Processors of the sender and the receiver.
    pub cpus: (usize, usize),
    /// Bytes of a packet, each measured in turn.
    pub packets: Vec<usize>,
    /// Bytes of a heap's payload.
    pub heap_bytes: usize,
    /// Bytes of the socket buffer that candidates must request.
    pub buffer: u64,
    /// Bits per second of packets at which CPU time is measured.
    pub rate: u64,
    /// How long each trial sends.
    pub time: Duration,
    /// Number of rounds.
    pub rounds: usize,
    /// Address to receive on.
    pub address: IpAddr,
    /// Network namespaces of the sender and the receivers.
    pub networks: Option<(Network, Network)>,
    /// Ends it early; the results until then are returned.
    pub stop: StopFlag,
}

/// Bytes of heaps sent together, so that runs end in time.
const TOGETHER: usize = 1 << 20;

/// Sends dummy heaps to one receiver.
pub(super) struct Feed {
    pub(super) stream: Arc<Stream>,
    heap: Heap,
    together: usize,
}

/// Results of one run.
pub(super) struct Sent {
    pub(super) heaps: u64,
    /// Bytes of heaps.
    pub(super) bytes: u64,
    /// Bits per second of packets.
    pub(super) reached: f64,
    /// Whether everything was sent.
    pub(super) all: bool,
}

impl Feed {
    pub(super) fn to(options: &LimitedOptions, to: Endpoint, packet: usize) -> io::Result<Self> {
        let to = Endpoint { sndbuf: Some(Size::from_bytes(options.buffer)), ..to };
        let outlet = Outlet::udp(std::slice::from_ref(&to), &SendOptions::default())?;
        let config = SendConfig { packet: PacketSize::Packet(packet), ..SendConfig::default() };
        let stream = Arc::new(Stream::new(outlet, config).map_err(io::Error::other)?);
        let mut heap = Heap::new(Flavour::SPEAD_64_48);
        heap.add_item(0x1000, vec![1; options.heap_bytes]).map_err(io::Error::other)?;
        let together = (TOGETHER / options.heap_bytes.max(1)).clamp(1, 256);
        Ok(Self { stream, heap, together })
    }

    /// Whole heaps at `rate` for this long.
    pub(super) fn send(&self, options: &LimitedOptions, rate: u64, time: Duration) -> io::Result<Sent> {
        self.stream.set_rate(rate);
        let heaps = vec![(&self.heap, HeapOptions::default()); self.together];
        let (before, begun, mut sent) = (self.stream.stats(), Instant::now(), 0);
        while begun.elapsed() < time && !options.stop.is_set() {
            self.stream.send_all(&heaps, Order::Serial).map_err(io::Error::other)?;
            sent += self.together as u64;
        }
        let seconds = begun.elapsed().as_secs_f64().max(1e-9);
        let after = self.stream.stats();
        Ok(Sent {
            heaps: sent,
            bytes: sent * options.heap_bytes as u64,
            reached: (after.wire_bytes - before.wire_bytes) as f64 * 8.0 / seconds,
            all: after.objects - before.objects == sent
                && after.refused == before.refused
                && after.unreachable == before.unreachable,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_stand_for_what_differs() {
        let candidate =
            ReceiverCommand::parse("/opt/bin/other  --packet {packet} --buffer={buffer} {address}:{port}")
                .unwrap();
        assert_eq!(candidate.name, "other");
        assert_eq!(candidate.line(), "other --packet {packet} --buffer={buffer} {address}:{port}");
        let words = candidate.expand(&|name| format!("<{name}>")).unwrap();
        let right = ["/opt/bin/other", "--packet", "<packet>", "--buffer=<buffer>", "<address>:<port>"];
        assert_eq!(words, right);
        assert!(
            ReceiverCommand::own(Path::new("/x/skyhaul"), "receive udp://{address}:{port}").unwrap().reports
        );
    }

    #[test]
    fn lines_that_cannot_be_meant_are_told() {
        for (line, told) in [
            ("", "{address}:{port}"),
            ("receiver 7148", "{address}:{port}"),
            ("{port}", "{address}:{port}"),
            ("receiver {host}:{port}", "{buffer} (bytes of the socket buffer)"),
        ] {
            let said = ReceiverCommand::parse(line).unwrap_err().to_string();
            assert!(said.contains("; hint: ") && said.contains(told), "{line}: {said}");
        }
        // What is no name is left as it is.
        assert!(ReceiverCommand::parse("receiver } { {port}").is_ok());
    }
}
