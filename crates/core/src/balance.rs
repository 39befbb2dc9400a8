//! A load balancer without a clock or a socket: packets of any number of senders to the members of a group, all packets of
//! a tick to the same one.

mod allow;
mod apportion;
mod calendar;
mod epochs;
mod member;
mod predict;
mod refusal;
mod table;

pub use allow::{AllowList, NoPrefix, Prefix};
pub use apportion::{Claim, apportion};
pub use calendar::{Calendar, SLOTS};
pub use epochs::{EpochConfig, EpochStats, Epochs, Held};
pub use member::{MEMBERS, Member, PortRange, Seat};
pub use predict::{PredictStats, Predictor, SOURCES};
pub use refusal::{Counters, Refusal, Traffic};
pub use table::{EPOCHS, Epoch, Occupant, Route, SlotSelect, Table};
