//! Sending heaps: their bytes go out from where they lie, in trains, at an exact rate.
//!
//! ```text
//!   items ─▶ Heap ─┐
//!   items ─▶ Heap ─┼▶ Stream ─▶ Outlet: UDP (trains across heaps), TCP, in-process queue, bytes
//!   items ─▶ Heap ─┘  serial, or round robin
//! ```
//!
//! A [`Stream`] is that of all [objects](crate::send::objects): one [`Outlet`], one rate and one order, and any number of
//! destinations (*substreams*).
//! [`Stream::send`] works in the caller's thread; [`Stream::queue`] hands heaps to a thread of the stream and gives a
//! [`Ticket`]. Whatever waits (for its time, for room in a queue or connection) ends immediately on
//! [`cancel`](Stream::cancel).
//!
//! ```
//! use skyhaul::spead::send::{Heap, HeapOptions, Outlet, SendConfig, Stream};
//! use skyhaul::wire::spead::Flavour;
//! use std::sync::{Arc, Mutex};
//! let bytes = Arc::new(Mutex::new(Vec::new()));
//! let stream = Stream::new(Outlet::Bytes(bytes.clone()), SendConfig::default())?;
//! let mut heap = Heap::new(Flavour::new(48).expect("a flavour"));
//! heap.add_immediate(0x1000, 42)?;
//! heap.add_item(0x1001, b"samples".as_slice())?;
//! assert_eq!(stream.send(&heap, &HeapOptions::default())?, 8 + 6 * 8 + 7);
//! assert_eq!(bytes.lock().unwrap().len(), 63);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Limits: a heap's items must keep their lengths while it is sent (their content may change between two sends). An
//! error of a socket ends the heaps that were in the same system calls.
//!
//! A heap is pointers, and the bytes to which they point, in place:
//!
//! ```text
//!   pointers  │ 0x1000 = 42 │ 0x1001 at 0 │ 0x1002 at 7 │
//!   chunks                    └▶ samples    └▶ one chunk ─ another chunk        heap payload: 0 … bytes
//! ```
//!
//! Nothing is copied: a chunk is a vector, a static slice, or anything shared that gives bytes. These are read anew for
//! every send, so a program may keep a heap and change the contents of its items.

pub use crate::send::objects::{ObjectOptions as HeapOptions, Order, Payload, Ticket};
pub use crate::send::{Deliver, Outlet, SendError, SendStats};
pub use skyhaul_core::wire::spead::packets::Split;

use crate::send::Pacing;
use crate::send::objects::{Chunks, Object, ObjectConfig, Waiting};
use skyhaul_core::control::ControlConfig;
use skyhaul_core::hint::Hint;
use skyhaul_core::packetize::{Divided, Part};
use skyhaul_core::wire::spead::descriptor::{BugCompat, Descriptor, DescriptorError};
use skyhaul_core::wire::spead::packets::{HeapPackets, HeapShape, PacketError, Plan};
use skyhaul_core::wire::spead::{Flavour, id};
use skyhaul_io::udp::send::TRAIN_BYTES;
use std::ops::Range;
use std::time::Duration;

/// Sends heaps.
pub type Stream = crate::send::objects::Stream<Heap>;
/// Heaps that are sent again and again: divided into packets once.
pub type Batch = crate::send::objects::Batch<Heap>;

/// How a stream sends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SendConfig {
    /// Packet size.
    pub packet: PacketSize,
    /// How heaps are divided into packets.
    pub split: Split,
    /// Bits per second of packets (datagram payload); 0 is as fast as possible.
    pub rate: u64,
    /// Let receivers control the rate ([`control`](crate::control)); [`rate`](Self::rate) is then ignored.
    /// For UDP to receivers that give feedback, not to multicast groups; without feedback, the minimum rate is sent.
    pub auto: Option<ControlConfig>,
    /// Bytes that may be sent at once if there is a rate.
    pub burst_bytes: usize,
    /// Maximum number of heaps queued or being sent.
    pub max_heaps: usize,
    /// Delay that a sender makes up at once; that of a burst, if it is longer.
    pub tolerance: Duration,
    /// Delay that it makes up at a 5 % higher rate. Anything beyond counts as slipped.
    pub slack: Duration,
    /// How long dropping the stream waits for queued heaps.
    pub linger: Duration,
    /// CPU for the stream's own thread.
    pub cpu: Option<usize>,
}

impl Default for SendConfig {
    fn default() -> Self {
        Self {
            packet: PacketSize::Packet(1472),
            split: Split::Even,
            rate: 0,
            auto: None,
            burst_bytes: 65_536,
            max_heaps: 4,
            tolerance: Duration::from_millis(1),
            slack: Duration::from_millis(100),
            linger: Duration::from_secs(10),
            cpu: None,
        }
    }
}

impl ObjectConfig for SendConfig {
    type Division = Division;

    fn division(&self) -> Division {
        Division { packet: self.packet, split: self.split }
    }

    fn pacing(&self) -> Pacing {
        let &Self { rate, auto, burst_bytes, tolerance, slack, .. } = self;
        Pacing { rate, auto, burst_bytes, tolerance, slack }
    }

    fn waiting(&self) -> Waiting {
        Waiting { most: self.max_heaps, linger: self.linger, cpu: self.cpu }
    }

    /// Check that packets of this size can be sent there.
    fn check(&self, outlet: &Outlet) -> Result<(), SendError> {
        let wrong = |text: String| Err(SendError::Config(text));
        let udp = matches!(outlet, Outlet::Udp(_));
        if outlet.substreams() == 0 {
            return wrong(format!("no destination{}", Hint("give at least one")));
        }
        self.pacing().check(outlet)?;
        match self.packet {
            PacketSize::Packet(bytes) if bytes < 56 => wrong(format!(
                "packets of {bytes} bytes are too small{}",
                Hint("use at least 56, or 1472 for an MTU of 1500")
            )),
            PacketSize::Packet(bytes) | PacketSize::Payload(bytes) if udp && bytes > TRAIN_BYTES => {
                wrong(format!(
                    "packets of {bytes} bytes are too large for UDP{}",
                    Hint(format_args!("use at most {TRAIN_BYTES}, or 8972 for an MTU of 9000"))
                ))
            }
            PacketSize::Payload(0) => {
                wrong(format!("packets without payload are not possible{}", Hint("use at least 1 byte")))
            }
            PacketSize::Heap if udp => wrong(format!(
                "whole heaps as packets do not fit into UDP, which carries at most 65507 bytes{}",
                Hint("use tcp://, or give a packet size")
            )),
            _ => Ok(()),
        }
    }
}

impl From<PacketError> for SendError {
    fn from(error: PacketError) -> Self {
        SendError::Packets(error.to_string())
    }
}

/// Packet size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PacketSize {
    /// Maximum packet size in bytes (datagram payload), rounded down to a multiple of 8; at least 56.
    Packet(usize),
    /// Exact number of bytes of heap payload in every packet but the last, however many pointers it carries.
    Payload(usize),
    /// A heap is one packet: for TCP, bytes and in-process queues.
    Heap,
}

/// How heaps are divided.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Division {
    packet: PacketSize,
    split: Split,
}

/// An item that a heap cannot hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum HeapError {
    /// The id has more bits than the flavour allows.
    #[error(
        "item id {id:#x} is too large: a flavour with {bits} address bits has ids up to {most:#x}{}",
        Hint("use a smaller id, or a flavour with fewer address bits")
    )]
    Id {
        /// The id.
        id: u64,
        /// Bits of address.
        bits: u8,
        /// The largest id.
        most: u64,
    },
    /// The value has more bits than the flavour allows.
    #[error(
        "immediate value {value:#x} of item {id:#x} has more than {bits} bits{}",
        Hint("send it as an addressed item (add_item)")
    )]
    Value {
        /// The item.
        id: u64,
        /// The value.
        value: u64,
        /// Bits of a value.
        bits: u8,
    },
    /// The pointer does not exist, or is not an immediate one.
    #[error(
        "the heap has no immediate item number {index}{}",
        Hint("use the number that add_immediate returned")
    )]
    NoImmediate {
        /// The number requested.
        index: usize,
    },
}

/// A heap to be sent.
#[derive(Clone, Debug)]
pub struct Heap {
    flavour: Flavour,
    pointers: Vec<u64>,
    chunks: Chunks,
    repeat_pointers: bool,
}

impl Heap {
    /// A heap without items.
    #[must_use]
    pub fn new(flavour: Flavour) -> Self {
        Self { flavour, pointers: Vec::new(), chunks: Chunks::default(), repeat_pointers: false }
    }

    /// A heap of one item `id` whose `bytes` verify themselves: the pattern of object `counter`, as which it is to be
    /// sent (see [`skyhaul_core::pattern`]).
    ///
    /// # Errors
    /// The id is too large.
    pub fn pattern(flavour: Flavour, id: u64, counter: u64, bytes: u64) -> Result<Self, HeapError> {
        let mut heap = Self::new(flavour);
        heap.add_pattern(id, counter, 0..bytes)?;
        Ok(heap)
    }

    /// Add an item whose bytes are the pattern of `object`, from byte to byte of it.
    ///
    /// # Errors
    /// The id is too large.
    pub fn add_pattern(&mut self, id: u64, object: u64, part: Range<u64>) -> Result<(), HeapError> {
        self.check_id(id)?;
        self.pointers.push(self.flavour.addressed(id, self.chunks.bytes()));
        self.chunks.push_pattern(object, part);
        Ok(())
    }

    /// How its pointers divide.
    #[must_use]
    pub fn flavour(&self) -> Flavour {
        self.flavour
    }

    /// Its pointers, in this machine's byte order.
    #[must_use]
    pub fn pointers(&self) -> &[u64] {
        &self.pointers
    }

    /// Bytes of its payload.
    #[must_use]
    pub fn payload_bytes(&self) -> u64 {
        self.chunks.bytes()
    }

    /// Whether every packet carries all pointers.
    #[must_use]
    pub fn repeats_pointers(&self) -> bool {
        self.repeat_pointers
    }

    /// Let every packet carry all pointers, so that each packet alone describes the items.
    pub fn set_repeat_pointers(&mut self, repeat: bool) {
        self.repeat_pointers = repeat;
    }

    /// Add an item whose bytes are in the heap's payload.
    ///
    /// # Errors
    /// The id is too large.
    pub fn add_item(&mut self, id: u64, payload: impl Into<Payload>) -> Result<(), HeapError> {
        self.add_item_parts(id, [payload.into()])
    }

    /// The same, with bytes in several places.
    ///
    /// # Errors
    /// The id is too large.
    pub fn add_item_parts(
        &mut self,
        id: u64,
        parts: impl IntoIterator<Item = Payload>,
    ) -> Result<(), HeapError> {
        self.check_id(id)?;
        self.pointers.push(self.flavour.addressed(id, self.chunks.bytes()));
        for payload in parts {
            self.chunks.push(payload);
        }
        Ok(())
    }

    /// Add an item whose value is in its pointer; its number, for [`set_immediate`](Self::set_immediate).
    ///
    /// # Errors
    /// The id or the value has too many bits for the flavour.
    pub fn add_immediate(&mut self, id: u64, value: u64) -> Result<usize, HeapError> {
        self.pointers.push(self.immediate(id, value)?);
        Ok(self.pointers.len() - 1)
    }

    /// Change the value of an immediate item.
    ///
    /// # Errors
    /// The item does not exist, or the value has too many bits.
    pub fn set_immediate(&mut self, index: usize, value: u64) -> Result<(), HeapError> {
        let pointer = self.pointers.get(index).map(|&p| self.flavour.parts(p));
        let Some(item) = pointer.filter(|item| item.immediate) else {
            return Err(HeapError::NoImmediate { index });
        };
        self.pointers[index] = self.immediate(item.id, value)?;
        Ok(())
    }

    /// Add the descriptor of an item (§8.3).
    ///
    /// # Errors
    /// The flavour cannot express the descriptor.
    pub fn add_descriptor(
        &mut self,
        descriptor: &Descriptor,
        bug_compat: BugCompat,
    ) -> Result<(), DescriptorError> {
        let bytes = descriptor.write(self.flavour, bug_compat)?;
        self.pointers.push(self.flavour.addressed(id::DESCRIPTOR, self.chunks.bytes()));
        self.chunks.push(bytes.into());
        Ok(())
    }

    /// Add the start of the stream: receivers discard their items.
    pub fn add_start(&mut self) {
        self.add_control(0);
    }

    /// Add the end of the stream: receivers stop.
    pub fn add_end(&mut self) {
        self.add_control(2);
    }

    /// Add a stream control item (§8.2: 0 start, 1 descriptors again, 2 stop, 3 descriptors changed); values beyond the
    /// flavour's bits are truncated.
    pub fn add_control(&mut self, value: u64) {
        self.pointers.push(self.flavour.immediate(id::STREAM_CONTROL, value));
    }

    /// The packets of the heap, each of at most `packet_bytes`, for tests and custom transports.
    ///
    /// # Errors
    /// The heap cannot be divided in this way.
    pub fn packets(
        &self,
        counter: u64,
        packet_bytes: usize,
        split: Split,
    ) -> Result<Vec<Vec<u8>>, PacketError> {
        let packets = HeapPackets::new(self.shape(counter, packet_bytes, split))?;
        let mut payload = Vec::new();
        self.chunks.iter().for_each(|chunk| payload.extend_from_slice(chunk));
        payload.resize(self.payload_bytes() as usize, 0);
        Ok((0..packets.count()).map(|n| packets.datagram(n, &payload)).collect())
    }

    #[inline]
    fn shape(&self, counter: u64, packet_bytes: usize, split: Split) -> HeapShape<'_> {
        HeapShape {
            flavour: self.flavour,
            counter,
            pointers: &self.pointers,
            payload_bytes: self.chunks.bytes(),
            packet_bytes,
            repeat_pointers: self.repeat_pointers,
            split,
        }
    }

    #[inline]
    fn divide(&self, division: Division, counter: u64) -> Result<Plan, PacketError> {
        match division.packet {
            PacketSize::Packet(bytes) => Plan::new(&self.shape(counter, bytes, division.split)),
            PacketSize::Payload(bytes) => {
                Plan::with_payload(&self.shape(counter, 0, Split::Full), bytes as u64)
            }
            PacketSize::Heap => {
                let mut shape = self.shape(counter, 0, Split::Full);
                shape.packet_bytes = shape.whole();
                Plan::new(&shape)
            }
        }
    }

    fn immediate(&self, id: u64, value: u64) -> Result<u64, HeapError> {
        self.check_id(id)?;
        if value > self.flavour.max_value() {
            return Err(HeapError::Value { id, value, bits: self.flavour.address_bits() });
        }
        Ok(self.flavour.immediate(id, value))
    }

    fn check_id(&self, id: u64) -> Result<(), HeapError> {
        let most = self.flavour.max_id();
        if id > most {
            return Err(HeapError::Id { id, bits: self.flavour.address_bits(), most });
        }
        Ok(())
    }
}

impl Object for Heap {
    type Config = SendConfig;
    type Plan = Plan;

    fn check(&self, division: Division) -> Result<(), SendError> {
        let pointers = self.pointers.len();
        let may_not = self.repeat_pointers
            || pointers > 1 << 15
            || self.payload_bytes().saturating_add(pointers as u64 * 16 + 16) > self.flavour.max_value();
        if may_not {
            self.divide(division, 0)?;
        }
        Ok(())
    }

    #[inline]
    fn plan(&self, division: Division, number: u64) -> Result<Plan, SendError> {
        Ok(self.divide(division, number)?)
    }

    #[inline]
    fn with_number(plan: &Plan, number: u64) -> Plan {
        plan.with_counter(number)
    }

    #[inline]
    fn count(plan: &Plan) -> u64 {
        plan.count()
    }

    #[inline]
    fn bytes_of(plan: &Plan, n: u64) -> u64 {
        plan.bytes_of(n)
    }

    #[inline]
    fn head_bytes_max(plan: &Plan) -> usize {
        plan.head_bytes_max()
    }

    #[inline]
    fn packet(&self, plan: &Plan, n: u64, head: &mut [u8]) -> Part {
        plan.packet(&self.pointers, n, head)
    }

    #[inline]
    fn chunks(&self) -> &Chunks {
        &self.chunks
    }
}

#[cfg(test)]
mod tests;
