//! The program: sends each packet to its member, or passes it to the sockets.

mod rewrite;

use super::image::{
    CALENDAR_AT, KIND, LEASE_FIRST_AT, LEASE_LAST_AT, LEASE_PERIOD_AT, MEMBER_AT, SELECT_AT, UNTIL_AT,
};
use super::maps::{MapName, Program};
use super::{checksum, search};
use crate::balance::{MEMBERS, SLOTS};
use crate::bytecode::Reg::*;
use crate::bytecode::Width::*;
use crate::bytecode::{Assembler, CannotAssemble, Helper, If, Op, Place, Width};
use crate::wire::labelled::{LabelLayout, Labelled};
use core::net::{IpAddr, SocketAddr};

/// Maximum number of data addresses.
const ADDRESSES: usize = 16;
const ETHERNET: usize = 14;
const UDP: usize = 8;
const UDP_PROTOCOL: i32 = 17;
// Return values of the program.
const ABORTED: i32 = 0;
const PASS: i32 = 2;
const SEND_BACK: i32 = 3;

// Offsets in the stack: variables, and the new IP and UDP headers.
const KEY: i16 = -8;
const DATAGRAM: i16 = -16;
const TICK: i16 = -24;
const SEAT: i16 = -32;
const PERIOD: i16 = -40;
const OLD_SUM: i16 = -48;
const LABEL_SUM: i16 = -56;
const LABEL_PORT: i16 = -64;
const NEW_DATAGRAM: i16 = -72;
const HEADERS: i16 = -128;
const FIRST_SETTLED: i16 = -136;
const LAST_SETTLED: i16 = -144;

/// The interface on which packets arrive.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Inlet {
    /// Number of the interface.
    pub interface: u32,
    /// Its hardware address. Packets to other addresses are not for this host.
    pub mac: [u8; 6],
    /// Addresses on which the balancer receives data, including those of other interfaces.
    pub data: Vec<SocketAddr>,
    /// Whether a packet without a UDP checksum is certainly a single packet, and not a train joined by the kernel.
    pub single: bool,
}

/// Returns the program for packets of a family that arrive at `inlet`.
///
/// # Errors
/// There are too many addresses or none, or the label cannot be removed.
pub fn program<L: Labelled>(inlet: &Inlet) -> Result<Program, CannotAssemble> {
    let layout = L::LAYOUT;
    if layout.bytes % 2 != 0 {
        return Err(CannotAssemble("a label with an odd number of octets"));
    }
    if inlet.data.is_empty() || inlet.data.len() > ADDRESSES {
        return Err(CannotAssemble("it is for 1 to 16 addresses of data"));
    }
    let mut asm = Assembler::<MapName>::default();
    let pass = asm.place();
    let least = ETHERNET + 20 + UDP + usize::from(layout.bytes);
    asm.set(R6, R1);
    head(&mut asm, least, pass);
    let [a, b, c, d, e, f] = inlet.mac;
    asm.load(Word, R3, R7, 0);
    asm.set_word(R4, u32::from_ne_bytes([a, b, c, d]));
    asm.jump_if(If::NotEqual, R3, R4, pass);
    asm.load(Half, R3, R7, 4);
    asm.jump_if(If::NotEqual, R3, i32::from(u16::from_ne_bytes([e, f])), pass);
    asm.load(Half, R3, R7, 12);
    for version in [V4, V6] {
        let mine: Vec<SocketAddr> =
            inlet.data.iter().filter(|at| at.is_ipv4() == version.is_v4()).copied().collect();
        if !mine.is_empty() {
            let other = asm.place();
            asm.jump_if(If::NotEqual, R3, version.ether_type(), other);
            Writer { asm: &mut asm, pass, inlet, layout, version }.write(&mine);
            asm.here(other);
        }
    }
    asm.here(pass);
    asm.set(R0, PASS);
    asm.exit();
    asm.finish()
}

/// Set `R7` to the start of the packet and `R2` to the end of its first contiguous piece; jump to `otherwise` if that
/// has fewer than `octets` bytes.
fn head(asm: &mut Assembler<MapName>, octets: usize, otherwise: Place) {
    asm.load(Word, R7, R6, 0);
    asm.load(Word, R2, R6, 4);
    asm.set(R3, R7);
    asm.compute(Op::Add, R3, octets as i32);
    asm.jump_if(If::Above, R3, R2, otherwise);
}

/// A 16-bit number in network order, as a load in host order returns it.
fn network(number: u16) -> i32 {
    u16::from_ne_bytes(number.to_be_bytes()).into()
}

/// Constants of a version of IP: length of the header, offset of the source address, length of an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Version {
    header: usize,
    source: usize,
    address: usize,
}

const V4: Version = Version { header: 20, source: 12, address: 4 };
const V6: Version = Version { header: 40, source: 8, address: 16 };

impl Version {
    fn is_v4(self) -> bool {
        self == V4
    }

    fn ether_type(self) -> i32 {
        network(if self.is_v4() { 0x0800 } else { 0x86DD })
    }

    fn udp(self) -> usize {
        ETHERNET + self.header
    }

    /// Offset of the time to live.
    fn ttl(self) -> usize {
        if self.is_v4() { 8 } else { 7 }
    }
}

struct Writer<'a> {
    asm: &'a mut Assembler<MapName>,
    pass: Place,
    inlet: &'a Inlet,
    layout: LabelLayout,
    version: Version,
}

impl Writer<'_> {
    fn write(&mut self, mine: &[SocketAddr]) {
        let (udp, label) = (self.version.udp(), usize::from(self.layout.bytes));
        head(self.asm, udp + UDP + label, self.pass);
        self.network_header();
        self.ours(mine);
        self.length();
        self.checksum_is_whole();
        self.lease();
        self.table();
        self.sender();
        self.label();
        self.member();
        self.fits();
        self.new_headers();
        self.rewrite();
        self.count();
        self.send();
    }

    /// Pass the packet unless the value at `at` is `number`.
    fn require(&mut self, width: Width, at: usize, number: i32) {
        self.asm.load(width, R3, R7, at);
        self.asm.jump_if(If::NotEqual, R3, number, self.pass);
    }

    /// Require a plain header, UDP, a time to live above 1, and a possible source.
    fn network_header(&mut self) {
        let (ip, pass) = (ETHERNET, self.pass);
        if self.version.is_v4() {
            self.require(Octet, ip, 0x45);
            // All bits except "don't fragment".
            self.asm.load(Half, R3, R7, ip + 6);
            self.asm.compute(Op::And, R3, network(0xBFFF));
            self.asm.jump_if(If::NotEqual, R3, 0, pass);
            self.require(Octet, ip + 9, UDP_PROTOCOL);
            self.asm.load(Octet, R3, R7, ip + 12);
            self.asm.jump_if(If::Equal, R3, 0, pass);
            self.asm.jump_if(If::Equal, R3, 127, pass);
            self.asm.jump_if(If::Above, R3, 223, pass);
        } else {
            self.asm.load(Octet, R3, R7, ip);
            self.asm.compute(Op::Right, R3, 4);
            self.asm.jump_if(If::NotEqual, R3, 6, pass);
            self.require(Octet, ip + 6, UDP_PROTOCOL);
            // Multicast; the prefix of loopback and of IPv4-mapped addresses.
            self.asm.load(Octet, R3, R7, ip + 8);
            self.asm.jump_if(If::Equal, R3, 0xFF, pass);
            self.asm.load(Double, R3, R7, ip + 8);
            self.asm.jump_if(If::Equal, R3, 0, pass);
        }
        self.asm.load(Octet, R3, R7, ip + self.version.ttl());
        self.asm.jump_if(If::AtMost, R3, 1, pass);
    }

    /// Require one of our addresses and its port as destination.
    fn ours(&mut self, mine: &[SocketAddr]) {
        let at = ETHERNET + self.version.source + self.version.address;
        let ours = self.asm.place();
        for address in mine {
            let next = self.asm.place();
            self.asm.load(Half, R3, R7, self.version.udp() + 2);
            self.asm.jump_if(If::NotEqual, R3, network(address.port()), next);
            let octets = match address.ip() {
                IpAddr::V4(ip) => ip.octets().to_vec(),
                IpAddr::V6(ip) => ip.octets().to_vec(),
            };
            for (n, word) in octets.as_chunks::<4>().0.iter().enumerate() {
                self.asm.load(Word, R3, R7, at + 4 * n);
                self.asm.set_word(R4, u32::from_ne_bytes(*word));
                self.asm.jump_if(If::NotEqual, R3, R4, next);
            }
            self.asm.jump(ours);
            self.asm.here(next);
        }
        self.asm.jump(self.pass);
        self.asm.here(ours);
    }

    /// Require consistent lengths and a payload after the label. Keeps the length of the datagram in `DATAGRAM`.
    fn length(&mut self) {
        let pass = self.pass;
        self.asm.load(Half, R8, R7, self.version.udp() + 4);
        self.asm.network(R8, 16);
        self.asm.jump_if(If::AtMost, R8, (UDP + usize::from(self.layout.bytes)) as i32, pass);
        let (at, header) = if self.version.is_v4() { (2, 20) } else { (4, 0) };
        self.asm.load(Half, R3, R7, ETHERNET + at);
        self.asm.network(R3, 16);
        self.asm.compute(Op::Sub, R3, header);
        self.asm.jump_if(If::NotEqual, R3, R8, pass);
        self.asm.store_slot(Double, DATAGRAM, R8);
        self.asm.set(R1, R6);
        self.asm.call(Helper::Length);
        self.asm.compute(Op::Add, R8, self.version.udp() as i32);
        self.asm.jump_if(If::Below, R0, R8, pass);
    }

    /// Require a complete checksum: packets of this host and trains joined by the kernel have only that of the
    /// pseudo-header. Keeps the sum of the fields that will change in `OLD_SUM`.
    fn checksum_is_whole(&mut self) {
        let (udp, pass) = (self.version.udp(), self.pass);
        self.asm.set(R1, 0);
        let at = ETHERNET + self.version.source;
        checksum::add(self.asm, R1, R7, at, 2 * self.version.address, R2);
        checksum::add(self.asm, R1, R7, udp + 4, 2, R2);
        self.asm.set(R3, R1);
        self.asm.compute(Op::Add, R3, network(UDP_PROTOCOL as u16));
        checksum::fold(self.asm, R3, R2);
        self.asm.load(Half, R4, R7, udp + 6);
        self.asm.jump_if(If::Equal, R4, R3, pass);
        if !(self.version.is_v4() && self.inlet.single) {
            self.asm.jump_if(If::Equal, R4, 0, pass);
        }
        checksum::add(self.asm, R1, R7, udp + 2, 4, R2);
        self.asm.store_slot(Double, OLD_SUM, R1);
        self.asm.set(R1, 0);
        checksum::add(self.asm, R1, R7, udp + UDP, self.layout.bytes.into(), R2);
        self.asm.store_slot(Double, LABEL_SUM, R1);
    }

    fn lease(&mut self) {
        self.asm.call(Helper::CoarseTime);
        self.asm.value(R1, MapName::Lease);
        self.asm.load(Double, R2, R1, UNTIL_AT);
        self.asm.jump_if(If::Above, R0, R2, self.pass);
        self.asm.load(Double, R2, R1, LEASE_PERIOD_AT);
        self.asm.store_slot(Double, PERIOD, R2);
        // The ticks are read before the table: they are settled by it, or by a later one that agrees.
        self.asm.load(Double, R2, R1, LEASE_FIRST_AT);
        self.asm.load(Double, R3, R1, LEASE_LAST_AT);
        self.asm.load(Double, R4, R1, LEASE_FIRST_AT);
        self.asm.jump_if(If::NotEqual, R2, R4, self.pass);
        self.asm.store_slot(Double, FIRST_SETTLED, R2);
        self.asm.store_slot(Double, LAST_SETTLED, R3);
    }

    /// Set `R8` to the image of the table.
    fn table(&mut self) {
        self.asm.store_slot(Word, KEY, 0);
        self.asm.map(R1, MapName::Tables);
        for _ in 0..2 {
            self.asm.set(R2, R10);
            self.asm.compute(Op::Add, R2, i32::from(KEY));
            self.asm.call(Helper::LookUp);
            self.asm.jump_if(If::Equal, R0, 0, self.pass);
            self.asm.set(R1, R0);
        }
        self.asm.set(R8, R0);
    }

    fn sender(&mut self) {
        let admitted = self.asm.place();
        let at = ETHERNET + self.version.source;
        self.asm.load(Word, R1, R8, 0);
        self.asm.jump_if(If::NotEqual, R1, 0, admitted);
        if self.version.is_v4() {
            self.asm.load(Word, R4, R7, at);
            self.asm.network(R4, 32);
            search::sender_v4(self.asm, self.pass);
        } else {
            for (to, at) in [(R4, at), (R5, at + 8)] {
                self.asm.load(Double, to, R7, at);
                self.asm.network(to, 64);
            }
            search::sender_v6(self.asm, self.pass);
        }
        self.asm.here(admitted);
    }

    /// Set `R4` to the label's tick and `R5` to its slot.
    fn label(&mut self) {
        let (label, pass) = (self.version.udp() + UDP, self.pass);
        let LabelLayout { magic, version_at, slots, port_at, tick_at, .. } = self.layout;
        for (n, octet) in magic.iter().enumerate() {
            self.require(Octet, label + n, i32::from(*octet));
        }
        let known = self.asm.place();
        self.asm.load(Octet, R3, R7, label + usize::from(version_at));
        for &(version, slot_at) in slots {
            let next = self.asm.place();
            self.asm.jump_if(If::NotEqual, R3, i32::from(version), next);
            self.asm.load(Half, R5, R7, label + usize::from(slot_at));
            self.asm.jump(known);
            self.asm.here(next);
        }
        self.asm.jump(pass);
        self.asm.here(known);
        self.asm.network(R5, 16);
        self.asm.load(Half, R3, R7, label + usize::from(port_at));
        self.asm.network(R3, 16);
        self.asm.store_slot(Double, LABEL_PORT, R3);
        self.asm.load(Double, R4, R7, label + usize::from(tick_at));
        self.asm.network(R4, 64);
        self.asm.store_slot(Double, TICK, R4);
    }

    /// Set `R9` to the member of the slot `R5` in the calendar of the tick `R4`, which is to be settled.
    fn member(&mut self) {
        let pass = self.pass;
        self.asm.load_slot(Double, R1, FIRST_SETTLED);
        self.asm.jump_if(If::Above, R1, R4, pass);
        self.asm.load_slot(Double, R1, LAST_SETTLED);
        self.asm.jump_if(If::Below, R1, R4, pass);
        search::epoch(self.asm, pass);
        self.asm.set(R1, R0);
        self.asm.compute(Op::Left, R1, 2);
        self.asm.compute(Op::Add, R1, R8);
        self.asm.load(Half, R2, R1, SELECT_AT);
        self.asm.load(Half, R3, R1, SELECT_AT + 2);
        self.asm.compute(Op::Xor, R5, R3);
        self.asm.compute(Op::And, R5, R2);
        self.asm.compute(Op::And, R5, (SLOTS - 1) as i32);
        self.asm.compute(Op::Left, R0, (2 * SLOTS).trailing_zeros() as i32);
        self.asm.compute(Op::Left, R5, 1);
        self.asm.compute(Op::Add, R0, R5);
        self.asm.compute(Op::Add, R0, R8);
        self.asm.load(Half, R1, R0, CALENDAR_AT);
        self.asm.jump_if(If::Above, R1, (MEMBERS - 1) as i32, pass);
        self.asm.store_slot(Double, SEAT, R1);
        self.asm.compute(Op::Left, R1, 6);
        self.asm.compute(Op::Add, R1, MEMBER_AT as i32);
        self.asm.set(R9, R8);
        self.asm.compute(Op::Add, R9, R1);
        self.asm.load(Half, R1, R9, KIND);
        self.asm.jump_if(If::NotEqual, R1, if self.version.is_v4() { 4 } else { 6 }, pass);
    }
}
