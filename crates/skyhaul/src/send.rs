//! Sending: packets gathered from where their bytes lie, in trains, at an exact rate.
//!
//! ```text
//!   Supply: file, recording, pattern, noise ─ packet n ─┐
//!                                                       ├▶ Engine ─ batch, due? ─▶ Outlet ─▶ UDP, TCP, queue
//!   Stream: heaps, events, from several threads ────────┘                          (faults)
//! ```
//!
//! The sender is the receiver's idea backwards: a packet is a head in a small array and a payload where it lies. One
//! engine paces all of them, follows receivers' feedback, and stops immediately when it is cancelled. Each kind of data has a source
//! of its own: [`Sender`] for numbered packets, and [`objects::Stream`] for heaps and events.

mod clock;
mod engine;
pub mod events;
mod file;
pub mod objects;
mod outlet;
mod recorded;
mod recording;
mod report;
mod sender;

pub use skyhaul_core::packetize::{HEAD, Packetize};

pub use clock::Pacing;
pub use clock::SendStats;
pub use clock::{OwnPace, SentTimes};
pub use file::{FileOptions, FileSupply};
pub use outlet::Faulty;
pub use outlet::SendError;
pub use outlet::{Deliver, Outlet};
pub use recorded::RecordedOptions;
pub use recording::{Frames, RecordingSupply};
pub use report::{FoundRate, SendReport};
pub use sender::{Sender, SenderOptions, Sending, Stop};
pub use sender::{Sequence, Supply, SupplyError, SynthOptions, SynthSupply};

pub use clock::{Clock, Real, SendControl};
pub use engine::{Limits, Next, SendEngine, Source};
