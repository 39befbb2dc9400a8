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
//! As fast as it is read: for the times between packets, look at [`Train::time`]. Checksums of datagrams are not
//! looked at: captures on the sending host have them before they are computed.
//!
//! Captures on the host that sends, or behind GRO, hold trains of packets that are not cut yet. Nothing in them says where;
//! SPEAD packets say their own length, and are cut where one asks for it ([`PcapSource::cut_spead`]).
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
use skyhaul_core::placement::Nanos;
use skyhaul_core::wire::spead::train;
use std::{
    fs::File,
    io::{self, Read},
    path::{Path, PathBuf},
    time::Duration,
};

/// Bytes read at a time, at first.
const BUFFER: usize = 256 << 10;
/// Longest record.
const LONGEST: usize = 16 << 20;
/// Most packets one poll looks at.
const PACKETS: usize = 64;
/// Most interfaces of one section of a pcapng file.
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

/// What the blocks so far said about those that follow.
struct Format {
    port: Option<u16>,
    cut_spead: bool,
    interfaces: Vec<Interface>,
}

struct Interface {
    link: Linktype,
    /// Time stamps count so many to the second, from this second on.
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
    /// Open `path`; only packets to `port`, or to any.
    ///
    /// # Errors
    /// The file cannot be read, or is neither pcap nor pcapng.
    pub fn open(path: &Path, port: Option<u16>) -> io::Result<Self> {
        let failing = |e: io::Error| crate::file::failed("open", path, &e);
        let file = File::open(path).map_err(failing)?;
        if file.metadata().map_err(failing)?.is_dir() {
            return Err(failing(io::Error::from_raw_os_error(libc::EISDIR)));
        }
        Self::new(file, path, port)
    }

    /// Read a capture from anything; `name` is for messages.
    ///
    /// # Errors
    /// As [`open`](Self::open).
    pub fn new(reader: impl Read + Send + 'static, name: &Path, port: Option<u16>) -> io::Result<Self> {
        let reader = create_reader(BUFFER, reader).map_err(|error| {
            let wrong = match error {
                PcapError::ReadError => "read error",
                PcapError::Eof | PcapError::Incomplete(_) | PcapError::UnexpectedEof => {
                    "file too short for a capture"
                }
                _ => "not a capture file",
            };
            let text = format!(
                "read {}: {wrong}; hint: give a pcap or pcapng file, as written by `tcpdump -w`",
                name.display()
            );
            io::Error::new(io::ErrorKind::InvalidData, text)
        })?;
        let format = Format { port, cut_spead: false, interfaces: Vec::new() };
        let counts = Counts::default();
        Ok(Self { path: name.to_owned(), reader, capacity: BUFFER, format, finished: false, counts })
    }

    /// Cut records that are several SPEAD packets of one flavour, one behind the other and nothing else.
    #[must_use]
    pub fn cut_spead(mut self) -> Self {
        self.format.cut_spead = true;
        self
    }

    /// Get more of the file into the buffer; an error if it ends in the middle of a record or makes no sense.
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
                // A buffer that takes no more, for a record that needs more, would be asked for ever.
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
                // RFC draft ietf-opsawg-pcapng §4.4: of the first interface, without a time.
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
                match self.cut_spead.then(|| train::packets(found.payload)).flatten() {
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

    /// `ticks` as nanoseconds since 1970; none if that is before.
    fn time(&self, ticks: u64) -> Option<Nanos> {
        let nanos = i128::from(ticks) * 1_000_000_000 / i128::from(self.ticks.max(1));
        u64::try_from(nanos + i128::from(self.offset) * 1_000_000_000).ok().map(Nanos)
    }
}

/// Bytes before the IP header; none if it is not IP, or a link that is not known.
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
        // The first four bytes say the address family, in the numbers of whichever system captured.
        Linktype::NULL | Linktype::LOOP => Some(4),
        _ => None,
    }
    .filter(|&at| at <= data.len())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::frame::tests::{ipv4_packet, ipv6_packet};
    use proptest::prelude::*;

    fn classic(magic: u32, link: u32, packets: &[&[u8]]) -> Vec<u8> {
        let mut file = [magic, 0x0004_0002, 0, 0, 65_535, link].map(u32::to_le_bytes).concat();
        for (n, packet) in packets.iter().enumerate() {
            let length = packet.len() as u32;
            file.extend([7, n as u32 + 5, length, length].map(u32::to_le_bytes).concat());
            file.extend(*packet);
        }
        file
    }

    fn ng_block(kind: u32, body: &[u8]) -> Vec<u8> {
        let length = (12 + body.len().next_multiple_of(4)) as u32;
        let mut block = [kind.to_le_bytes(), length.to_le_bytes()].concat();
        block.extend(body);
        block.resize(length as usize - 4, 0);
        block.extend(length.to_le_bytes());
        block
    }

    /// One section, an interface with nanosecond stamps and one of raw IP, a packet of each.
    fn next_generation(packet: &[u8]) -> Vec<u8> {
        let mut file = ng_block(
            0x0A0D_0D0A,
            &[0x4D, 0x3C, 0x2B, 0x1A, 1, 0, 0, 0, 255, 255, 255, 255, 255, 255, 255, 255],
        );
        file.extend(ng_block(1, &[101, 0, 0, 0, 255, 255, 0, 0, 9, 0, 1, 0, 9, 0, 0, 0, 0, 0, 0, 0]));
        let ticks = 7_000_000_005u64;
        let length = packet.len() as u32;
        let head = [0, (ticks >> 32) as u32, ticks as u32, length, length].map(u32::to_le_bytes).concat();
        file.extend(ng_block(6, &[head, packet.to_vec()].concat()));
        file.extend(ng_block(3, &[length.to_le_bytes().to_vec(), packet.to_vec()].concat()));
        file.extend(ng_block(5, &[0; 12]));
        file
    }

    type Read = Vec<(Option<u64>, Vec<u8>)>;

    fn read(file: Vec<u8>, port: Option<u16>) -> (Read, SourceStats, Option<String>) {
        read_all(PcapSource::new(io::Cursor::new(file), "test".as_ref(), port).unwrap())
    }

    fn read_all(mut source: PcapSource) -> (Read, SourceStats, Option<String>) {
        let (mut got, mut error) = (Vec::new(), None);
        while !source.is_finished() {
            let mut here = 0;
            match source.poll(Duration::ZERO, &mut |t| {
                here += 1;
                got.push((t.time.map(|t| t.0), t.bytes.to_vec()));
            }) {
                Ok(n) => assert_eq!(n, here),
                Err(e) => error = Some(e.to_string()),
            }
        }
        assert_eq!(source.stats().packets, got.len() as u64);
        (got, source.stats(), error)
    }

    #[test]
    fn every_link_and_both_formats_give_the_same_payload() {
        let (v4, v6) = (ipv4_packet(&[], (1, 2630), b"payload"), ipv6_packet(None, (1, 2630), b"payload"));
        let behind = |head: &[u8], ip: &[u8]| [head, ip].concat();
        let mac = [0u8; 12];
        for (link, packet) in [
            (1, behind(&[&mac[..], &[8, 0]].concat(), &v4)),
            (1, behind(&[&mac[..], &[0x86, 0xDD]].concat(), &v6)),
            (1, behind(&[&mac[..], &[0x88, 0xA8, 0, 5, 0x81, 0, 0, 6, 8, 0]].concat(), &v4)),
            (101, v4.clone()),
            (12, v6.clone()),
            (113, behind(&[0, 0, 0, 1, 0, 6, 0, 0, 0, 0, 0, 0, 0, 0, 8, 0], &v4)),
            (276, behind(&[&[8, 0][..], &[0; 18]].concat(), &v4)),
            (0, behind(&[2, 0, 0, 0], &v4)),
            (228, v4.clone()),
        ] {
            let file = classic(0xA1B2_C3D4, link, &[&packet]);
            assert_eq!(read(file, Some(2630)).0, [(Some(7_000_005_000), b"payload".to_vec())], "link {link}");
            let file = classic(0xA1B2_3C4D, link, &[&packet]);
            assert_eq!(read(file, None).0, [(Some(7_000_000_005), b"payload".to_vec())], "link {link}");
        }
        let (got, _, error) = read(next_generation(&v4), Some(2630));
        assert_eq!(got, [(Some(7_000_000_005), b"payload".to_vec()), (None, b"payload".to_vec())]);
        assert_eq!(error, None);
    }

    #[test]
    fn what_is_not_wanted_or_not_whole_is_counted_apart() {
        let good = ipv4_packet(&[], (1, 2630), &[1; 100]);
        let mut fragment = good.clone();
        fragment[6] = 0x20;
        fragment[10] = fragment[10].wrapping_sub(0x20).wrapping_add(0x40);
        let mut broken = good.clone();
        broken[12] ^= 0xFF;
        let arp = [1u8; 40];
        let mut file =
            classic(0xA1B2_C3D4, 101, &[&good, &ipv4_packet(&[], (1, 9), b"x"), &broken, &arp, &fragment]);
        // Cut by the capture's snap length.
        file.extend([7, 5, 60, good.len() as u32].map(u32::to_le_bytes).concat());
        file.extend(&good[..60]);
        let (got, stats, error) = read(file.clone(), Some(2630));
        assert_eq!((got.len(), stats.malformed, stats.truncated, stats.fragments), (1, 1, 1, 1), "{stats:?}");
        assert_eq!((error, stats.cut_short), (None, 0));
        file.pop();
        let (_, stats, error) = read(file, None);
        assert_eq!(stats.cut_short, 1);
        let error = error.unwrap();
        assert!(error.starts_with("read test: the file ends within a record at byte "), "{error}");
    }

    #[test]
    fn trains_of_spead_are_cut_where_they_are_asked_for() {
        let spead = |payload: &[u8]| {
            let mut packet = b"\x53\x04\x02\x06\0\0\0\x03".to_vec();
            for (id, value) in [(1u64, 7u64), (3, 0), (4, payload.len() as u64)] {
                packet.extend((1 << 63 | id << 48 | value).to_be_bytes());
            }
            [&packet, payload].concat()
        };
        let packets = [spead(b"one"), spead(b"two"), spead(b"3")];
        let train = ipv4_packet(&[], (1, 2630), &packets.concat());
        let ragged = ipv4_packet(&[], (1, 2630), &[&packets.concat()[..], b"x"].concat());
        let file = classic(0xA1B2_C3D4, 101, &[&train, &ipv4_packet(&[], (1, 2630), &packets[0]), &ragged]);
        let open = || PcapSource::new(io::Cursor::new(file.clone()), "test".as_ref(), None).unwrap();
        let (got, stats, _) = read_all(open().cut_spead());
        let got: Vec<_> = got.into_iter().map(|(_, packet)| packet).collect();
        assert_eq!(got[..4], [&packets[..], &packets[..1]].concat());
        // What is no train to its end stays as it is, for the parser to refuse.
        assert_eq!((got.len(), got[4].len(), stats.cut_trains), (5, packets.concat().len() + 1, 1));
        let (got, stats, _) = read_all(open());
        assert_eq!((got.len(), stats.cut_trains), (3, 0));
    }

    #[test]
    fn records_longer_than_the_buffer_are_read_and_endless_ones_refused() {
        let long = vec![0x45; 3 << 20];
        let good = ipv4_packet(&[], (1, 2), b"after");
        let (got, _, error) = read(classic(0xA1B2_C3D4, 101, &[&long, &good]), None);
        assert_eq!((got.len(), error), (1, None));
        let mut file = classic(0xA1B2_C3D4, 101, &[]);
        file.extend([0, 0, u32::MAX - 16, 0].map(u32::to_le_bytes).concat());
        file.extend(vec![0; 20 << 20]);
        assert!(read(file, None).2.is_some());
    }

    #[test]
    fn what_is_no_capture_says_so() {
        let Err(error) = PcapSource::new(io::Cursor::new(vec![1; 100]), "x".as_ref(), None) else {
            panic!("read")
        };
        assert!(error.to_string().contains("hint: give a pcap or pcapng file"), "{error}");
        let Err(error) = PcapSource::open("/nonexistent".as_ref(), None) else { panic!("read") };
        assert!(
            error
                .to_string()
                .starts_with("open /nonexistent: No such file or directory; hint: check the name")
        );
        let Err(error) = PcapSource::open("/".as_ref(), None) else { panic!("read") };
        assert!(error.to_string().contains("hint: this is a directory"), "{error}");
        let Err(error) = PcapSource::new(io::Cursor::new(vec![]), "x".as_ref(), None) else { panic!("read") };
        assert!(error.to_string().contains("too short for a capture; hint: give a pcap"), "{error}");
    }

    proptest! {
        #[test]
        fn damaged_captures_end_without_panic(at in 24usize..200, to: u8, ng: bool) {
            let packet = ipv4_packet(&[1; 8], (1, 2), b"some payload");
            let mut file = if ng { next_generation(&packet) } else { classic(0xA1B2_C3D4, 101, &[&packet, &packet]) };
            if let Some(byte) = file.get_mut(at) {
                *byte = to;
            }
            read(file, None);
        }
    }
}
