//! Unnamed network namespaces: nothing is left of them after the last process and descriptor.
//!
//! ```text
//!   skyhaul ── waits, passes signals on
//!     └─ the lab: process 1 of its own ──┬─ command, in the network of the near end
//!        (user), mount and process       ├─ command, in the network of the far end
//!        namespaces; /etc/hosts its own  └─ threads in the network of the router
//! ```
//!
//! Any thread with the privilege can create a [`Network`]. For ordinary users, [`apart`](apart::apart) first moves the
//! whole process into namespaces of its own. If any of these processes dies, by whatever signal, the kernel ends the
//! others.
//!
//! Limits: an ordinary user needs user namespaces, which some systems forbid; the error says so.

pub mod apart;
pub(crate) mod call;
pub mod network;

pub use apart::{Apart, apart};
pub use network::{Network, ask_to_end};
