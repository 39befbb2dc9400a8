//! Families whose packets are labelled for a load balancer.
//!
//! The label identifies the object that a packet is part of, so that all packets of one object reach one receiver. A
//! balancer needs only the label, and usually removes it.
//!
//! ```text
//!   packet ──label──▶ Label { tick, slot, port, bytes }     which calendar, which member, which of its ports
//!   datagram ─sync──▶ Sync { source, tick, rate }           where the sender's ticks are, so that calendars can change
//! ```

use super::family::Known;
use crate::placement::Reject;
use std::fmt;

/// The contents of a packet's label.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Label {
    /// The object; ascends with time. All packets of a tick must reach the same member.
    pub tick: u64,
    /// Chooses the slot of the calendar; the balancer uses as many of its low bits as the calendar has.
    pub slot: u16,
    /// Chooses the port of the member; as many of its low bits are used as the member's port range has.
    pub port: u16,
    /// Bytes of the label, at the front of the packet.
    pub bytes: u16,
}

/// A synchronisation message: the present tick and rate of a sender.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sync {
    /// The sender, as it calls itself.
    pub source: u32,
    /// Its tick when it sent this.
    pub tick: u64,
    /// Ticks per second; 0 if unknown.
    pub rate: u32,
    /// When it sent this: nanoseconds since 1970, by its own clock.
    pub sent: u64,
}

/// Where the fields of a label are, for a reader that is not this program: the kernel's. All are in network order, and all labels
/// of a family have the same length.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LabelLayout {
    /// Bytes of a label: an even number.
    pub bytes: u16,
    /// The first bytes of every label.
    pub magic: &'static [u8],
    /// Offset of the version, one byte.
    pub version_at: u16,
    /// Versions that are read, and where their slot is, 16 bits.
    pub slots: &'static [(u8, u16)],
    /// Where the port is, 16 bits.
    pub port_at: u16,
    /// Where the tick is, 64 bits.
    pub tick_at: u16,
}

/// How the labels of such a family are read.
pub trait Labelled: fmt::Debug + Send + std::marker::Sync + 'static {
    /// Where [`label`](Self::label) reads its fields.
    const LAYOUT: LabelLayout;

    /// Read the label at the front of `packet`. What follows it is not examined.
    ///
    /// # Errors
    /// [`Reject::Truncated`], [`Reject::BadMagic`], [`Reject::BadVersion`].
    fn label(packet: &[u8]) -> Result<Label, Reject>;

    /// Write a label, for tests and benchmarks: [`label`](Self::label) reads the same again, except for its length.
    fn write_label(label: &Label) -> Vec<u8>;

    /// Read a synchronisation message, which is a whole datagram.
    ///
    /// # Errors
    /// [`Reject::WrongSize`], [`Reject::BadMagic`], [`Reject::BadVersion`].
    fn sync(datagram: &[u8]) -> Result<Sync, Reject>;

    /// Write a synchronisation message.
    fn write_sync(sync: &Sync) -> Vec<u8>;
}

/// A family in the [registry](super::families) whose packets are labelled.
pub trait KnownLabelled: Known {
    /// How its labels are read.
    type Labels: Labelled;
}

/// Builds something generic over a labelled family; the compiler instantiates it for each.
pub trait VisitLabelled {
    /// The result.
    type Out;

    /// Build it for this family.
    fn visit<L: Labelled>(self) -> Self::Out;
}
