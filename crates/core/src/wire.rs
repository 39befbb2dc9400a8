//! Wire formats: what packets look like, and how they say where their bytes belong.
//!
//! One family of formats is one folder and one line of the [registry](families). Its headers are [tables](crate::header)
//! written like the standard's figures, followed by the meaning of the fields and the
//! [`Layout`](crate::placement::Layout); everything off the data path is in files beside them.
//!
//! ```text
//!   first packets ──Learner──▶ StreamFormat ──visit──▶ L: Layout ──place(packet)──▶ Placement
//! ```

pub mod ejfat;
pub mod fila10g;
pub mod lofar;
pub mod mark5b;
pub mod spead;
pub mod vdif;

pub mod families;
pub mod family;
pub mod feedback;
#[doc(hidden)]
pub mod fuzzing;
pub mod generate;
pub mod header;
pub mod inspect;
pub mod keyed;
pub mod labelled;
pub mod layout;
pub mod probe;
pub mod stamp;
#[doc(hidden)]
pub mod trial;
pub mod udpmon;
pub mod vtp;

mod fill;
mod format;
mod frame;
mod joined;
mod learn;
mod numbering;
mod positions;
mod rate;
mod same;
mod stamps;
mod timeline;
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
pub use generate::{Generated, Generator, Made};
pub use header::{Field, Order};
pub use joined::{PacketEnd, end_of, packets};
pub use layout::{Blocks, Keep, Place};
pub use learn::Learner;
pub use numbering::{Numbering, PREFIX};
pub use positions::{ClockFinder, FrameClock, FramePlace, Placer, Positions, PositionsError};
pub use rate::RateWatch;
pub use same::Same;
pub use stamps::{Counted, Move, Numbered, Stamps};
pub use timeline::{
    Apart, Change, Irregular, Offset, OffsetWatch, Sighting, Timeline, TimelineOptions, Trace,
};
pub use written::{Headers, Written};
