//! Wire formats: what packets look like, and how they say where their bytes belong.
//!
//! One family of formats is one folder and one line of the [registry](families). Its headers are [tables](crate::header)
//! written like the standard's figures, followed by the meaning of the fields and the
//! [`Layout`](crate::placement::Layout); everything off the data path is in files beside them.
//!
//! ```text
//!   first packets ──Learner──▶ StreamFormat ──visit──▶ L: Layout ──place(packet)──▶ Placement
//! ```

pub mod crc32c;
pub mod ejfat;
pub mod families;
pub mod family;
pub mod feedback;
pub mod fila10g;
mod fill;
mod format;
mod frame;
#[doc(hidden)]
pub mod fuzzing;
pub mod header;
pub mod inspect;
pub mod keyed;
pub mod labelled;
pub mod layout;
mod learn;
pub mod lofar;
pub mod mark5b;
mod positions;
pub mod probe;
mod rate;
pub mod rdma;
pub mod spead;
pub mod stamp;
mod stamps;
mod timeline;
#[doc(hidden)]
pub mod trial;
pub mod udpmon;
pub mod vdif;
pub mod vtp;
mod written;

pub use ejfat::{
    Addressing, BalancerVersion, DATA_PORT, DataAddress, Dialect, EventError, EventPackets, EventShape,
    PortRule, SYNC_PORT, SlotRule, Uri as BalancerUri, UriError, UriPart,
};
pub use families::{FAMILIES, UnknownFormat, Visit};
pub use family::{
    Family, FamilyRef, Format, Framed, Known, LearnOptions, Particulars, Recalled, Sample, Seen, Shape,
    StreamFormat,
};
pub use fill::{Filled, Filler, Octets};
pub use frame::{
    Ahead, Divided, Expected, FILL, FrameSeen, FrameTime, Frames, Framing, Objects, Packets, Quirk, Thread,
};
pub use header::{Field, Order};
pub use keyed::{PacketEnd, end_of, packets};
pub use layout::{Blocks, Keep, Place};
pub use learn::Learner;
pub use positions::{ClockFinder, FrameClock, FramePlace, MAX_AHEAD, Placer, Positions, PositionsError};
pub use rate::{RateChanges, RateWatch};
pub use spead::{HeapLayout, HeapLearner, LearnedHeaps};
pub use stamps::{Counted, Move, Numbered, Numbering, PREFIX, Stamps, first_second};
pub use timeline::{
    Apart, Change, Irregular, Offset, OffsetWatch, Sighting, Timeline, TimelineOptions, Trace,
};
pub use written::{Generated, Generator, Headers, Made, SynthPayload, Written};

use std::any::Any;

/// Comparison of trait objects.
pub trait Same {
    /// Whether `other` is of the same type and equal.
    fn same(&self, other: &dyn Any) -> bool;
}

impl<T: Any + PartialEq> Same for T {
    fn same(&self, other: &dyn Any) -> bool {
        other.downcast_ref::<T>() == Some(self)
    }
}
