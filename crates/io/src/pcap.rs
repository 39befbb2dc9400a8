//! Captures (pcap and pcapng, as tcpdump and Wireshark write them) as a source of packets.
//!
//! ```text
//!   file ── link header ── IP ── UDP ── payload ──▶ Train of one packet
//! ```
//!
//! ```no_run
//! use skyhaul_io::{pcap::PcapSource, source::Source};
//! use std::time::Duration;
//! let mut source = PcapSource::open("scan.pcap".as_ref(), Some(2630))?;
//! while !source.is_finished() {
//!     source.poll(Duration::ZERO, &mut |train| println!("{:?} {}", train.time, train.sender))?;
//! }
//! # Ok::<(), std::io::Error>(())
//! ```
//!
//! Packets come as fast as the file is read; their times are in [`Train::time`]. Checksums of datagrams are not verified:
//! captures on the sending host contain them before they are computed.
//!
//! Captures on the sending host, or after GRO, contain trains that are not segmented, without the packet length. Packets
//! that state their own length can be split ([`PcapSource::cut`]).
//!
//! Limits: UDP in IPv4 or IPv6, on Ethernet (with VLAN tags), Linux "any" captures, raw IP and loopback; fragments
//! are counted, not joined; a record of more than 16 MiB ends the file with an error.

use crate::{
    frame::{NoDatagram, datagram},
    source::{Source, SourceStats, Train},
};
use pcap_parser::{
    Block, Linktype, PcapBlockOwned, PcapError, PcapHeader, create_reader, traits::PcapReaderIterator,
};
use skyhaul_core::hint::Hint;
use skyhaul_core::placement::Nanos;
use skyhaul_core::wire::{self, PacketEnd};
use std::{
    fs::File,
    io::{self, Read},
    path::{Path, PathBuf},
    time::Duration,
};

/// Bytes read at a time, at first.
const BUFFER: usize = 256 << 10;
/// Maximum length of a record.
const LONGEST: usize = 16 << 20;
/// Maximum number of packets per poll.
const PACKETS: usize = 64;
/// Maximum number of interfaces of one section of a pcapng file.
const INTERFACES: usize = 4096;

/// A capture file.
pub struct PcapSource {
    path: PathBuf,
    reader: Box<dyn PcapReaderIterator + Send>,
    capacity: usize,
    format: Format,
    finished: bool,
    counts: Counts,
}

/// State from earlier blocks that applies to later ones.
struct Format {
    port: Option<u16>,
    cut: Option<PacketEnd>,
    interfaces: Vec<Interface>,
}

struct Interface {
    link: Linktype,
    /// Time stamp units per second, and the second from which they count.
    ticks: u64,
    offset: i64,
}

#[derive(Default)]
struct Counts {
    packets: u64,
    bytes: u64,
    truncated: u64,
    malformed: u64,
    fragments: u64,
    cut_trains: u64,
    cut_short: u64,
}

impl PcapSource {
    /// Open `path`, for packets to `port`, or to any port.
    ///
    /// # Errors
    /// If the file cannot be read, or is neither pcap nor pcapng.
    pub fn open(path: &Path, port: Option<u16>) -> io::Result<Self> {
        let failing = |e: io::Error| crate::file::failed("open", path, &e);
        let file = File::open(path).map_err(failing)?;
        if file.metadata().map_err(failing)?.is_dir() {
            return Err(failing(io::Error::from_raw_os_error(libc::EISDIR)));
        }
        Self::new(file, path, port)
    }

    /// Read a capture from any reader; `name` is for messages.
    ///
    /// # Errors
    /// As [`open`](Self::open).
    pub fn new(reader: impl Read + Send + 'static, name: &Path, port: Option<u16>) -> io::Result<Self> {
        let reader = create_reader(BUFFER, reader).map_err(|error| {
            let wrong = match error {
                PcapError::ReadError => "read error",
                PcapError::Eof | PcapError::Incomplete(_) | PcapError::UnexpectedEof => {
                    "the file is too short for a capture"
                }
                _ => "not a capture file",
            };
            let text = format!(
                "read {}: {wrong}{}",
                name.display(),
                Hint("give a pcap or pcapng file, as written by `tcpdump -w`")
            );
            io::Error::new(io::ErrorKind::InvalidData, text)
        })?;
        let format = Format { port, cut: None, interfaces: Vec::new() };
        let counts = Counts::default();
        Ok(Self { path: name.to_owned(), reader, capacity: BUFFER, format, finished: false, counts })
    }

    /// Split records that consist entirely of several packets of one family, whose ends `end` finds.
    #[must_use]
    pub fn cut(mut self, end: PacketEnd) -> Self {
        self.format.cut = Some(end);
        self
    }

    /// Read more of the file into the buffer; an error if it ends within a record or is invalid.
    fn more(&mut self, need: Need) -> io::Result<()> {
        let (path, at) = (&self.path, self.reader.consumed());
        let bad = |why: &str| {
            let text = format!("read {}: {why} at byte {at}", path.display());
            Err(io::Error::new(io::ErrorKind::InvalidData, text))
        };
        match need {
            Need::Bytes => {
                let before = self.reader.data().len();
                if self.reader.refill().is_err() {
                    return bad("read error");
                }
                // Without progress for a record that needs more data, the loop would not end.
                let stuck = self.reader.data().len() == before && !self.reader.reader_exhausted();
                if stuck { self.more(Need::Room) } else { Ok(()) }
            }
            Need::Room if self.capacity < LONGEST => {
                self.capacity *= 2;
                if self.reader.grow(self.capacity) {
                    self.more(Need::Bytes)
                } else {
                    bad("no memory for a record")
                }
            }
            Need::Room => bad("a record of more than 16 MiB"),
            Need::End => bad("the file ends within a record"),
            Need::Sense => bad("invalid record"),
        }
    }
}

/// Why a block could not be read.
#[derive(Clone, Copy)]
enum Need {
    Bytes,
    Room,
    End,
    Sense,
}

impl Source for PcapSource {
    fn poll(&mut self, _: Duration, each: &mut dyn FnMut(Train<'_>)) -> io::Result<usize> {
        let before = self.counts.packets;
        let mut looked = 0;
        while looked < PACKETS && !self.finished {
            let need = match self.reader.next() {
                Ok((length, block)) => {
                    looked += 1;
                    self.format.block(&block, &mut self.counts, each);
                    self.reader.consume(length);
                    continue;
                }
                Err(PcapError::Eof) => {
                    self.finished = true;
                    break;
                }
                Err(PcapError::Incomplete(_)) => Need::Bytes,
                Err(PcapError::BufferTooSmall) => Need::Room,
                Err(PcapError::UnexpectedEof) => Need::End,
                Err(_) => Need::Sense,
            };
            if let Err(error) = self.more(need) {
                self.finished = true;
                self.counts.cut_short += 1;
                return Err(error);
            }
        }
        Ok(usize::try_from(self.counts.packets - before).unwrap_or(0))
    }

    fn stats(&self) -> SourceStats {
        SourceStats {
            packets: self.counts.packets,
            bytes: self.counts.bytes,
            trains: self.counts.packets,
            truncated: self.counts.truncated,
            malformed: self.counts.malformed,
            fragments: self.counts.fragments,
            cut_trains: self.counts.cut_trains,
            cut_short: self.counts.cut_short,
            tier: "pcap",
            because: "capture file".into(),
            ..SourceStats::default()
        }
    }

    fn describe(&self) -> String {
        self.path.display().to_string()
    }

    fn is_finished(&self) -> bool {
        self.finished
    }
}

impl Format {
    fn block(&mut self, block: &PcapBlockOwned<'_>, counts: &mut Counts, each: &mut dyn FnMut(Train<'_>)) {
        match block {
            PcapBlockOwned::LegacyHeader(header) => self.interfaces = vec![Interface::of(header)],
            PcapBlockOwned::Legacy(record) => {
                let Some(interface) = self.interfaces.first() else { return };
                let ticks = u64::from(record.ts_sec) * interface.ticks + u64::from(record.ts_usec);
                self.packet(interface, Some(ticks), record.data, record.caplen, record.origlen, counts, each);
            }
            PcapBlockOwned::NG(Block::SectionHeader(_)) => self.interfaces.clear(),
            PcapBlockOwned::NG(Block::InterfaceDescription(new)) if self.interfaces.len() < INTERFACES => {
                let ticks = new.ts_resolution().filter(|&t| t > 0).unwrap_or(1_000_000);
                self.interfaces.push(Interface { link: new.linktype, ticks, offset: new.if_tsoffset });
            }
            PcapBlockOwned::NG(Block::EnhancedPacket(record)) => {
                let Some(interface) = self.interfaces.get(record.if_id as usize) else {
                    counts.malformed += 1;
                    return;
                };
                let ticks = u64::from(record.ts_high) << 32 | u64::from(record.ts_low);
                self.packet(interface, Some(ticks), record.data, record.caplen, record.origlen, counts, each);
            }
            PcapBlockOwned::NG(Block::SimplePacket(record)) => {
                // RFC draft ietf-opsawg-pcapng §4.4: from the first interface, without a time.
                let Some(interface) = self.interfaces.first() else { return };
                self.packet(interface, None, record.data, record.origlen, record.origlen, counts, each);
            }
            PcapBlockOwned::NG(_) => {}
        }
    }

    #[expect(clippy::too_many_arguments, reason = "the fields of a record, which three kinds of block have")]
    fn packet(
        &self,
        interface: &Interface,
        ticks: Option<u64>,
        data: &[u8],
        captured: u32,
        length: u32,
        counts: &mut Counts,
        each: &mut dyn FnMut(Train<'_>),
    ) {
        // Blocks are padded to four bytes.
        let data = data.get(..captured as usize).unwrap_or(data);
        let Some(link) = link_header(interface.link, data) else { return };
        let (ip, length) = (&data[link..], (length as usize).saturating_sub(link));
        match datagram(ip, length) {
            Ok(found) if self.port.is_none_or(|port| port == found.destination.port()) => {
                let time = ticks.and_then(|t| interface.time(t));
                let mut one = |packet: &[u8]| {
                    counts.packets += 1;
                    counts.bytes += packet.len() as u64;
                    each(Train { time, ..Train::single(packet, &found.source) });
                };
                match self.cut.and_then(|end| wire::packets(found.payload, end)) {
                    None => one(found.payload),
                    Some(packets) => {
                        packets.for_each(one);
                        counts.cut_trains += 1;
                    }
                }
            }
            Err(NoDatagram::Truncated) => counts.truncated += 1,
            Err(NoDatagram::Malformed) => counts.malformed += 1,
            Err(NoDatagram::Fragment) => counts.fragments += 1,
            Ok(_) | Err(NoDatagram::Other | NoDatagram::LaterFragment) => {}
        }
    }
}

impl Interface {
    fn of(header: &PcapHeader) -> Self {
        let ticks = if header.is_nanosecond_precision() { 1_000_000_000 } else { 1_000_000 };
        Self { link: header.network, ticks, offset: 0 }
    }

    /// `ticks` as nanoseconds since 1970; `None` if that is before.
    fn time(&self, ticks: u64) -> Option<Nanos> {
        let nanos = i128::from(ticks) * 1_000_000_000 / i128::from(self.ticks.max(1));
        u64::try_from(nanos + i128::from(self.offset) * 1_000_000_000).ok().map(Nanos)
    }
}

/// Bytes before the IP header; `None` if it is not IP, or the link type is unknown.
fn link_header(link: Linktype, data: &[u8]) -> Option<usize> {
    let kind = |at: usize| data.get(at..)?.first_chunk().map(|b| u16::from_be_bytes(*b));
    let ip = |kind: u16| matches!(kind, 0x0800 | 0x86DD);
    match link {
        Linktype::ETHERNET => {
            // IEEE 802.1Q tags, perhaps one within another.
            let at = (12..=20).step_by(4).find(|&at| !matches!(kind(at), Some(0x8100 | 0x88A8 | 0x9100)))?;
            ip(kind(at)?).then_some(at + 2)
        }
        Linktype::LINUX_SLL => ip(kind(14)?).then_some(16),
        Linktype::LINUX_SLL2 => ip(kind(0)?).then_some(20),
        Linktype::RAW | Linktype::IPV4 | Linktype::IPV6 | Linktype(12 | 14) => Some(0),
        // The first four bytes are the address family, in the numbering of the capturing system.
        Linktype::NULL | Linktype::LOOP => Some(4),
        _ => None,
    }
    .filter(|&at| at <= data.len())
}

#[cfg(test)]
mod tests;
