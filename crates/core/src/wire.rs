//! Wire formats: what packets look like, and how they say where their bytes belong.
//!
//! One format is one file, and one header is one [table](crate::header) written like its standard's figure. Under the
//! table stands what its fields mean, and under that the format's [`Layout`](crate::placement::Layout).
//!
//! ```text
//!   first packets ──Learner──▶ StreamFormat ──layout()──▶ AnyLayout ──place(packet)──▶ Placement
//! ```

pub mod ejfat;
pub mod feedback;
pub mod fila10g;
#[doc(hidden)]
pub mod fuzzing;
pub mod header;
pub mod inspect;
pub mod layout;
pub mod mark5b;
pub mod spead;
pub mod vdif;
pub mod vtp;

mod fill;
mod format;
mod learn;
mod rate;
mod restamp;

pub use fill::{Filled, Filler, Octets};
pub use format::{Format, FrameTime, Quirk, StreamFormat, Thread, UnknownFormat};
pub use header::{Field, Order};
pub use layout::{AnyLayout, Blocks, Keep, Place};
pub use learn::{LearnOptions, Learner};
pub use rate::RateWatch;
pub use restamp::{RestampError, Restamper};
