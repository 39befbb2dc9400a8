//! Sending: packets gathered from where their bytes lie, in trains, at an exact rate.
//!
//! ```text
//!   Supply: file, recording, pattern, noise ─ packet n ─┐
//!                                                       ├▶ Engine ─ batch, due? ─▶ Outlet ─▶ UDP, TCP, queue
//!   Stream: heaps, events, from several threads ────────┘                          (faults)
//! ```
//!
//! The sender is the receiver's idea backwards: a packet is a head in a small array and a payload where it lies. One
//! engine paces all of them, follows receivers' feedback, and ends at once when it is cancelled; what is sent is a source of
//! its own: [`Sender`] for numbered packets, and [`objects::Stream`] for heaps and events.

mod clock;
mod engine;
mod error;
pub mod events;
mod faulty;
mod file;
pub mod objects;
mod outlet;
mod own;
mod pacing;
mod recorded;
mod recording;
mod report;
mod sender;
mod stats;
mod supply;

pub use skyhaul_core::packetize::{HEAD, Packetize};

pub use error::SendError;
pub use faulty::Faulty;
pub use file::{FileOptions, FileSupply};
pub use outlet::{Deliver, Outlet};
pub use own::{OwnPace, SentTimes};
pub use pacing::Pacing;
pub use recorded::RecordedOptions;
pub use recording::{Frames, RecordingSupply};
pub use report::{FoundRate, SendReport};
pub use sender::{Sender, SenderOptions, Sending, Stop};
pub use stats::SendStats;
pub use supply::{Sequence, Supply, SupplyError, SynthOptions, SynthSupply};

pub use clock::{Clock, Control, Real};
pub use engine::{Engine, Limits, Next, Source};
